"""
The client's end of Streamable HTTP, against an agent of twisted.web that only records.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import define, field
from mcp_parts import DISCOVERED, HANDSHAKE, STATELESS
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone, ResponseFailed
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent
from wire import failure, no_result, success
from zope.interface import implementer

from acp_twisted import AcpAgent
from acp_twisted.errors import AcpConnectionError, AcpError, InvalidResponse, RequestCancelled, RequestTimedOut
from acp_twisted.limits import Limits
from acp_twisted.mcp.client import McpClient, McpOptions
from acp_twisted.mcp.connecting import connect
from acp_twisted.mcp.handlers import McpHandlers
from acp_twisted.mcp.headers import unwrapped, wrapped
from acp_twisted.mcp.http import MAX_RESUMES, McpHttpError
from acp_twisted.schema import v1


@define(eq=False)
class Wire:
    """
    The connection below one response.
    """

    closed: bool = False
    paused: bool = False

    def pauseProducing(self) -> None:
        self.paused = True

    def resumeProducing(self) -> None:
        self.paused = False

    def abortConnection(self) -> None:
        self.closed = True

    def loseConnection(self) -> None:
        self.closed = True


@define(eq=False)
class Response:
    """
    What a test answers with.
    """

    code: int
    headers: Headers
    wire: Wire = field(factory=Wire)
    reader: Any = None

    def deliverBody(self, protocol: Any) -> None:
        self.reader = protocol
        protocol.makeConnection(self.wire)


@define(eq=False)
class Sent:
    """
    One request of HTTP.
    """

    verb: str
    url: str
    headers: Headers
    body: bytes
    answer: Deferred[Any]
    cancelled: bool = False
    response: Response | None = None

    @property
    def message(self) -> dict[str, Any]:
        """What it says."""
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded

    def header(self, name: str) -> str | None:
        """One of its headers."""
        return next(iter(self.headers.getRawHeaders(name) or ()), None)

    def respond(self, code: int, kind: str | None, body: bytes | None = b"", **headers: str) -> Response:
        """Answer it; without a body the response stays open."""
        made = Headers({name.replace("_", "-"): [value] for name, value in headers.items()})
        if kind is not None:
            made.setRawHeaders("content-type", [kind])
        self.response = Response(code, made)
        self.answer.callback(self.response)
        if body is not None:
            self.chunk(body)
            self.finish()
        return self.response

    def chunk(self, body: bytes) -> None:
        """More of the body."""
        assert self.response is not None
        self.response.reader.dataReceived(body)

    def finish(self, error: Exception | None = None) -> None:
        """The end of the body."""
        assert self.response is not None
        self.response.reader.connectionLost(Failure(error or ResponseDone()))

    def result(self, result: Any, **headers: str) -> None:
        """Answer it in JSON."""
        answer = {"jsonrpc": "2.0", "id": self.message["id"], "result": result}
        self.respond(200, "application/json; charset=utf-8", json.dumps(answer).encode(), **headers)

    def stream(self) -> None:
        """Begin a stream of events."""
        self.respond(200, "text/event-stream", None)

    def event(self, event_id: str | None = None, **message: Any) -> None:
        """One event of it."""
        line = f"id: {event_id}\n" if event_id else ""
        self.chunk(f"{line}data: {json.dumps({'jsonrpc': '2.0', **message})}\n\n".encode())


@implementer(IAgent)
class Recorder:
    """
    Keeps what is asked.
    """

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def request(self, method: bytes, uri: bytes, headers: Any = None, bodyProducer: Any = None) -> Deferred[Any]:
        body: list[bytes] = []
        if bodyProducer is not None:
            consumer = type("Consumer", (), {"write": lambda _, data: body.append(data)})()
            bodyProducer.startProducing(consumer)
        sent = Sent(method.decode(), uri.decode(), headers, b"".join(body), Deferred(lambda _: stop()))

        def stop() -> None:
            sent.cancelled = True

        self.sent.append(sent)
        return sent.answer


class Half:
    """
    A client that has agreed on a revision.
    """

    def __init__(self, version: str | None = STATELESS, options: McpOptions | None = None, **session: str) -> None:
        self.clock = Clock()
        self.agent = Recorder()
        entry = v1.McpServerHttp(
            name="s", url="http://127.0.0.1:1/mcp", headers=[v1.HttpHeader(name="X-Key", value="secret")]
        )
        self.opening = connect(self.clock, entry, options, agent=self.agent)
        if version == STATELESS:
            self.sent[0].result(DISCOVERED)
        elif version is not None:
            self.sent[0].respond(
                400, "application/json", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"m"}}'
            )
            self.sent[1].result({"protocolVersion": version}, **session)
            self.sent[2].respond(202, None)
        if version is not None:
            self.client: McpClient = success(self.opening)

    @property
    def sent(self) -> list[Sent]:
        """All requests of HTTP."""
        return self.agent.sent

    @property
    def last(self) -> Sent:
        """The last of them."""
        return self.sent[-1]

    def methods(self) -> list[str]:
        """What was asked, by methods of MCP."""
        return [each.message.get("method", "answer") if each.body else each.verb for each in self.sent]


def test_a_request_is_a_post_with_its_headers() -> None:
    """The configured headers go with everything; the newest revision names method and object in headers too."""
    half = Half()
    half.client.call_tool("wörld")
    post = half.last
    assert (post.verb, post.url) == ("POST", "http://127.0.0.1:1/mcp")
    assert post.header("x-key") == "secret"
    assert post.header("accept") == "application/json, text/event-stream"
    assert post.header("content-type") == "application/json"
    assert post.header("mcp-protocol-version") == STATELESS
    assert post.header("mcp-method") == "tools/call"
    assert unwrapped(post.header("mcp-name") or "") == "wörld"
    assert post.header("mcp-session-id") is None


@pytest.mark.parametrize("text", ["plain", "", "wörld", " edge ", "=?base64?AA==?=", "a\nb"])
def test_any_text_goes_through_a_header(text: str) -> None:
    """As it is where that is safe, else wrapped; what is marked and no base64 is nothing."""
    assert unwrapped(wrapped(text)) == text
    assert unwrapped("=?base64?!?=") is None
    assert unwrapped("=?base64?/w==?=") is None


def test_answers_in_json_and_as_events() -> None:
    """Both, with progress before the answer, whose stream is not read any further."""
    half = Half()
    listed = half.client.list_tools()
    half.last.result({"tools": []})
    assert success(listed).items == []
    seen: list[float] = []
    call = half.client.call_tool("t", on_progress=lambda each: seen.append(each.progress))
    post = half.last
    post.stream()
    token = post.message["params"]["_meta"]["progressToken"]
    post.event(method="notifications/progress", params={"progressToken": token, "progress": 1})
    assert seen == [1]
    no_result(call)
    post.event(id=post.message["id"], result={"content": []})
    assert success(call).content == []
    assert post.response is not None
    assert post.response.wire.closed


@pytest.mark.parametrize("phase", ["before", "json", "stream"])
def test_the_end_of_the_response_is_the_cancellation(phase: str) -> None:
    """With the newest revision: whatever has come of it, the connection is closed and nothing is sent (M6)."""
    half = Half()
    call = half.client.call_tool("t")
    post = half.last
    if phase != "before":
        post.respond(200, {"json": "application/json", "stream": "text/event-stream"}[phase], None)
        post.chunk(b"x")
    call.cancel("no more")
    failure(call, RequestCancelled)
    assert half.methods() == ["server/discover", "tools/call"]
    assert post.cancelled if phase == "before" else post.response and post.response.wire.closed
    if phase != "before":
        post.chunk(b"late")
        post.finish(ResponseFailed([Failure(CancelledError())]))
    half.client.list_tools()
    assert half.methods()[-1] == "tools/list"


def test_a_timeout_closes_the_response() -> None:
    """The same for a timeout, which progress starts anew (M10, M13)."""
    half = Half()
    call = half.client.call_tool("t", timeout=10)
    post = half.last
    post.stream()
    token = post.message["params"]["_meta"]["progressToken"]
    half.clock.advance(9)
    post.event(method="notifications/progress", params={"progressToken": token, "progress": 1})
    half.clock.advance(9)
    no_result(call)
    half.clock.advance(1)
    failure(call, RequestTimedOut)
    assert post.response is not None
    assert post.response.wire.closed
    assert half.methods() == ["server/discover", "tools/call"]
    assert half.clock.getDelayedCalls() == []


def test_an_older_server_is_told_of_the_cancellation() -> None:
    """The notification is what counts there; the response is closed as well (M7)."""
    half = Half(HANDSHAKE[0])
    half.last.respond(405, None)  # no stream of what it says unasked
    call = half.client.call_tool("t")
    post = half.last
    call.cancel("why")
    failure(call, RequestCancelled)
    assert post.cancelled
    assert half.last.message["method"] == "notifications/cancelled"
    assert half.last.message["params"] == {"requestId": post.message["id"], "reason": "why"}


def test_a_session_of_an_older_server() -> None:
    """Its id and the revision go with every later message, and it is ended with a DELETE."""
    half = Half(HANDSHAKE[1], mcp_session_id="secret-session")
    assert half.methods() == ["server/discover", "initialize", "notifications/initialized", "GET"]
    assert [each.header("mcp-session-id") for each in half.sent] == [None, None, *["secret-session"] * 2]
    assert half.sent[2].header("mcp-protocol-version") == HANDSHAKE[1]
    half.client.list_tools()
    assert half.last.header("mcp-session-id") == "secret-session"
    assert half.last.header("mcp-method") is None
    closed = half.client.close()
    assert half.last.verb == "DELETE"
    no_result(closed)
    half.last.respond(200, None)
    success(closed)
    assert all(each.cancelled for each in half.sent[3:5])
    assert half.clock.getDelayedCalls() == []


def test_a_server_that_does_not_end_its_session() -> None:
    """Is not waited for long."""
    half = Half(HANDSHAKE[1], mcp_session_id="x")
    closed = half.client.close()
    half.clock.advance(2)
    success(closed)
    assert half.last.cancelled


def test_what_an_older_server_says_unasked() -> None:
    """Comes by a GET that is taken up again where it broke off, and given up when that does not help."""
    told: list[Any] = []
    options = McpOptions(handlers=McpHandlers(log=lambda each: told.append(each.data), roots=lambda _: ["u:1"]))
    half = Half(HANDSHAKE[0], options, mcp_session_id="x")
    get = half.last
    get.stream()
    get.event("7", method="notifications/message", params={"level": "info", "data": 1})
    get.event(id="r1", method="roots/list")
    assert told == [1]
    assert half.last.message == {"jsonrpc": "2.0", "id": "r1", "result": {"roots": [{"uri": "u:1"}]}}
    get.chunk(b"retry: 500\n\n")
    get.finish()
    half.clock.advance(0.5)
    assert half.last.verb == "GET"
    assert half.last.header("last-event-id") == "7"
    for _ in range(MAX_RESUMES):
        assert not half.last.answer.called
        half.last.answer.errback(ConnectionRefusedError())
        half.clock.advance(0.5)
    assert half.last.answer.called
    assert half.clock.getDelayedCalls() == []


def test_an_answer_that_broke_off_is_taken_up_again() -> None:
    """With a GET behind the last event; without events there is nothing to take up."""
    half = Half(HANDSHAKE[0])
    half.last.respond(405, None)
    call = half.client.call_tool("t")
    post = half.last
    post.stream()
    post.chunk(b"id: 5\nretry: 100\ndata:\n\n")
    post.finish()
    half.clock.advance(0.1)
    get = half.last
    assert (get.verb, get.header("last-event-id")) == ("GET", "5")
    get.stream()
    get.event(id=post.message["id"], result={"content": []})
    success(call)
    call = half.client.call_tool("t")
    half.last.stream()
    half.last.finish()
    failure(call, AcpConnectionError)


@pytest.mark.parametrize(("retry", "soonest"), [(0, 0.1), (999_999_999, 60.0)])
def test_the_server_does_not_say_everything_about_when(retry: int, soonest: float) -> None:
    """One that ends each stream behind an event is not asked in a circle, nor left for days."""
    half = Half(HANDSHAKE[0], mcp_session_id="x")
    for number in range(MAX_RESUMES + 3):
        get = half.last
        assert get.verb == "GET"
        get.stream()
        get.chunk(f"retry: {retry}\nid: {number}\ndata:\n\n".encode())
        get.event(str(number), method="notifications/message", params={"level": "info", "data": 1})
        get.finish()
        half.clock.advance(soonest * 0.9)
        assert half.last is get
        half.clock.advance(soonest * 0.2)
        assert half.last is not get


@pytest.mark.parametrize("name", ["content-type", "mcp-session-id"])
def test_headers_that_are_no_text(name: str) -> None:
    """Fail the request at once, and leave nobody waiting."""
    half = Half(version=None)
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"m"}}'
    half.last.respond(400, "application/json", body)
    headers = Headers({b"content-type": [b"application/json"]})
    headers.setRawHeaders(name.encode(), [b"\xff\xfe"])
    asked = half.last
    asked.response = Response(200, headers)
    asked.answer.callback(asked.response)
    failure(half.opening, AcpError)


def test_a_cancellation_while_it_waits_to_be_taken_up() -> None:
    """Nothing is taken up any more (M16)."""
    half = Half(HANDSHAKE[0])
    half.last.respond(405, None)
    call = half.client.call_tool("t")
    half.last.stream()
    half.last.chunk(b"id: 5\ndata:\n\n")
    half.last.finish()
    call.cancel()
    failure(call, RequestCancelled)
    assert half.last.message["method"] == "notifications/cancelled"
    half.last.respond(202, None)
    assert half.clock.getDelayedCalls() == []


@pytest.mark.parametrize(
    ("code", "kind", "body", "error"),
    [
        (500, "text/html", b"<html>", McpHttpError),
        (302, None, b"", McpHttpError),
        (401, None, b"", McpHttpError),
        (500, "application/json", b'{"detail":"x"}', McpHttpError),
        (404, "application/json", b'{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"m"}}', AcpError),
        (400, "application/json", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"m"}}', AcpError),
        (200, "application/json", b'{"jsonrpc":"2.0","id":9,"result":{}}', InvalidResponse),
        (200, "application/json", b"[]", InvalidResponse),
        (200, "application/json", b"", InvalidResponse),
        (200, "text/plain", b"ok", McpHttpError),
        (202, None, b"", McpHttpError),
    ],
)
def test_a_response_that_is_no_answer_fails_that_request(code: int, kind: str | None, body: bytes, error: Any) -> None:
    """And no other; an error of JSON-RPC in it is the server's own."""
    half = Half()
    call, other = half.client.list_tools(), half.client.list_prompts()
    half.sent[1].respond(code, kind, body)
    found = failure(call, error)
    assert found.remote == (error is AcpError)
    no_result(other)
    half.sent[2].result({"prompts": []})
    success(other)


def test_a_response_on_the_way() -> None:
    """One that breaks off, one that never comes, and one that is too long, each fail their request."""
    half = Half(options=McpOptions(limits=Limits(max_message_bytes=1000)))
    calls = [half.client.list_tools() for _ in range(4)]
    half.sent[1].answer.errback(ConnectionRefusedError())
    half.sent[2].respond(200, "application/json", None)
    half.sent[2].finish(ResponseFailed([]))
    half.sent[3].respond(200, "application/json", None)
    half.sent[3].chunk(b"x" * 1001)
    half.sent[4].stream()
    answer = json.dumps({"jsonrpc": "2.0", "id": half.sent[4].message["id"], "result": "x" * 1000})
    half.sent[4].chunk(f"data: {answer}\n\n".encode())
    for call, error in zip(
        calls, (AcpConnectionError, AcpConnectionError, InvalidResponse, InvalidResponse), strict=True
    ):
        failure(call, error)


def test_a_server_that_forgot_the_session() -> None:
    """404 is the end of the connection; a new one may be made."""
    half = Half(HANDSHAKE[0], mcp_session_id="x")
    call = half.client.list_tools()
    half.last.respond(404, None)
    half.clock.advance(0)
    failure(call, AcpConnectionError)
    assert "DELETE" not in half.methods()
    assert half.clock.getDelayedCalls() == []


def test_what_has_no_answer_is_not_overtaken() -> None:
    """A notification is accepted before the next message goes out; what is refused is logged, and hurts nobody."""
    half = Half(HANDSHAKE[0])
    half.last.respond(405, None)
    half.client.roots_changed()
    listed = half.client.list_tools()
    gone = half.client.list_prompts()
    gone.cancel()
    failure(gone, RequestCancelled)
    assert half.methods()[-1] == "notifications/roots/list_changed"
    half.last.respond(500, None)
    assert half.methods()[-1] == "tools/list"
    half.last.result({"tools": []})
    success(listed)
    assert "prompts/list" not in half.methods()


def test_a_client_is_closed_with_the_agents_connection() -> None:
    """No server is left to run for nobody; and a client that is closed before leaves nothing behind."""
    clock, agent = Clock(), Recorder()
    handler = AcpAgent.builder().prompt_handler(lambda _: v1.PromptResponse(stop_reason="end_turn"))
    connection = handler.build().connect(clock)
    entry = v1.McpServerHttp(name="s", url="http://127.0.0.1:1/mcp", headers=[])
    clients = []
    for _ in range(2):
        opening = connect(clock, entry, agent=agent, connection=connection)
        agent.sent[-1].result(DISCOVERED)
        clients.append(success(opening))
    clients[0].close()
    clock.advance(0)
    success(clients[0].when_closed())
    closed = clients[1].when_closed()
    no_result(closed)
    connection.peer.connection_lost(Failure(AcpConnectionError("gone")))
    clock.advance(0)
    success(closed)
    assert clock.getDelayedCalls() == []


def test_an_unreachable_server_is_not_an_old_one() -> None:
    """The connecting fails, and nothing else is tried."""
    half = Half(None)
    half.last.answer.errback(ConnectionRefusedError())
    failure(half.opening, AcpConnectionError)
    half.clock.advance(0)
    assert half.methods() == ["server/discover"]
    assert half.clock.getDelayedCalls() == []


@pytest.mark.parametrize("url", ["ftp://x", "x", "http://"])
def test_an_address_that_is_none(url: str) -> None:
    """It fails before anything is sent."""
    with pytest.raises(ValueError, match="http"):
        connect(Clock(), v1.McpServerHttp(name="s", url=url, headers=[]), agent=Recorder())


def test_reading_pauses() -> None:
    """No response is read while the peer wants nothing, and what has arrived waits for it, in order."""
    half = Half()
    call = half.client.list_tools()
    streamed = half.client.call_tool("t")
    half.last.stream()
    transport: Any = half.client.session.peer._transport
    transport.pauseProducing()
    late = half.client.list_prompts()
    half.last.stream()
    wires = [each.response.wire for each in half.sent[-2:] if each.response is not None]
    assert [wire.paused for wire in wires] == [True, True]
    half.sent[1].result({"tools": []})
    half.sent[2].event(id=half.sent[2].message["id"], result={"content": []})
    no_result(call)
    no_result(streamed)
    transport.resumeProducing()
    success(call)
    success(streamed)
    assert not wires[1].paused
    half.last.event(id=half.last.message["id"], result={"prompts": []})
    success(late)
    transport.stopProducing()
    half.clock.advance(0)
    assert half.clock.getDelayedCalls() == []
