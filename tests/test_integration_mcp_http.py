"""
The server's end of Streamable HTTP and the bridge, over real sockets on the loopback interface.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_twisted
from attrs import evolve
from interop.programs import until
from mcp_parts import HANDSHAKE, STATELESS, tools_server
from test_mcp_over_acp import Chain
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol
from twisted.internet.testing import StringTransport
from twisted.web.client import Agent, FileBodyProducer, HTTPConnectionPool
from twisted.web.guard import BasicCredentialFactory
from twisted.web.http_headers import Headers

from acp_twisted.errors import AcpError, MethodNotFound, RequestCancelled
from acp_twisted.mcp.bridge import McpBridge
from acp_twisted.mcp.client import McpClient, McpOptions
from acp_twisted.mcp.connecting import connect
from acp_twisted.mcp.provider import McpProvider, offered_to
from acp_twisted.mcp.resource import HttpBounds, McpResource
from acp_twisted.mcp.server import McpRequest
from acp_twisted.mcp.types import Progress
from acp_twisted.mcp.versions import McpCapabilityError
from acp_twisted.schema import v1
from acp_twisted.transports.http.security import checked_by

META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def read(response: Any) -> Deferred[bytes]:
    """The whole body of a response."""
    body: list[bytes] = []
    done: Deferred[bytes] = Deferred()

    class Reader(Protocol):
        def dataReceived(self, data: bytes) -> None:
            body.append(data)

        def connectionLost(self, reason: Any = None) -> None:
            done.callback(b"".join(body))

    response.deliverBody(Reader())
    return done


class Served:
    """
    A bridge with the tools, and what they noticed.
    """

    def __init__(self, reactor: Any, bridge: McpBridge) -> None:
        self.reactor = reactor
        self.bridge = bridge
        self.server, self.noticed = tools_server()
        self.entry = bridge.add(self.server, "tools")

    @asynccontextmanager
    async def client(self, entry: Any = None, **options: Any) -> AsyncIterator[McpClient]:
        """A client of ours."""
        client: McpClient = await connect(self.reactor, entry or self.entry, McpOptions(**options))
        yield client
        await client.close()

    async def post(
        self, message: Any, *, leave_out: str = "", verb: str = "POST", **headers: str
    ) -> tuple[int, Any, Headers]:
        """One request of HTTP by hand."""
        from io import BytesIO

        sent = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            self.entry.headers[0].name: self.entry.headers[0].value,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        sent.pop(leave_out, None)
        body = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        agent = Agent(self.reactor)
        response: Any = await agent.request(
            verb.encode(),
            self.entry.url.encode(),
            Headers({name: [value] for name, value in sent.items()}),
            FileBodyProducer(BytesIO(body)),
        )
        text = await read(response)
        return response.code, json.loads(text) if text else None, response.headers


@pytest.fixture
def served() -> Iterator[Served]:
    """A bridge with the tools."""
    from twisted.internet import reactor

    bridge = McpBridge(reactor, HttpBounds(max_active=3, max_body_bytes=2000, max_sessions=2))
    pytest_twisted.blockon(Deferred.fromCoroutine(bridge.start()))
    yield Served(reactor, bridge)
    pytest_twisted.blockon(Deferred.fromCoroutine(bridge.close()))


@pytest.mark.parametrize("version", [STATELESS, *HANDSHAKE])
async def test_tools_over_http(served: Served, version: str) -> None:
    """Of every revision: tools, progress on the way, errors with their codes."""
    async with served.client(protocol=version) as client:
        assert client.server.protocol_version == version
        assert client.server.info is not None
        assert client.server.info.name == "tools"
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
        seen: list[Progress] = []
        assert (await client.call_tool("steps", on_progress=seen.append)).text == "done"
        assert [each.message for each in seen] == ["step 1", "step 2"]
        with pytest.raises(AcpError) as unknown:
            await client.call_tool("none")
        assert unknown.value.code == -32602
        with pytest.raises(MethodNotFound):
            await client.list_prompts()
        await client.ping()
        await client.set_log_level("info")


async def test_a_backend_that_raises_leaves_nothing(served: Served, logged_errors: Any) -> None:
    """Its request is answered, and there is room for the next one, and no timer (rules 1 and 6)."""

    class Broken:
        def handle(self, request: McpRequest) -> Any:
            raise SystemExit

    resource = McpResource(Broken(), served.reactor, bounds=HttpBounds(max_active=1))
    served.bridge._root.putChild(b"broken", resource)
    origin = served.entry.url.rpartition("/")[0]
    served.entry = v1.McpServerHttp(name="broken", url=f"{origin}/broken", headers=served.entry.headers)
    ask = {"id": 1, "method": "initialize", "params": {"protocolVersion": HANDSHAKE[0]}}
    for _ in range(3):
        _, answer, _ = await served.post(ask)
        assert answer["error"]["code"] == -32603
    assert resource._active == set()
    logged_errors.clear()


@pytest.mark.parametrize("version", [STATELESS, HANDSHAKE[0]])
@pytest.mark.parametrize("progress", [False, True])
async def test_a_cancelled_call_is_cancelled_at_the_server(served: Served, version: str, progress: bool) -> None:
    """Before and after its response has begun; other calls go on (M6, M18)."""
    async with served.client(protocol=version) as client:
        seen: list[Progress] = []
        call = client.call_tool("hang", on_progress=seen.append)
        await until(served.reactor, lambda: bool(served.noticed["contexts"]))
        if progress:
            served.noticed["contexts"][0].progress(1)
            await until(served.reactor, lambda: bool(seen))
        call.cancel("enough")
        with pytest.raises(RequestCancelled):
            await call
        await until(served.reactor, lambda: bool(served.noticed["cancelled"]))
        assert (await client.call_tool("echo", {"text": "still"})).text == "still"


async def test_a_client_that_disconnects_has_cancelled(served: Served) -> None:
    """A server must take it so; what comes of the tool afterwards is dropped (M6, M20)."""
    async with served.client() as client:
        call = client.call_tool("hang")
        call.addErrback(lambda _: None)
        await until(served.reactor, lambda: bool(served.noticed["contexts"]))
    await until(served.reactor, lambda: bool(served.noticed["cancelled"]))
    assert served.noticed["cancelled"] == [("disconnected",)]
    served.noticed["contexts"][0].progress(1)


async def test_a_subscription_over_http(served: Served) -> None:
    """Its stream is the subscription: closing it ends it, from either side (M2, M6)."""
    told: list[str] = []
    async with served.client() as client:
        subscription = await client.listen(lambda method, _: told.append(method), tools=True)
        served.server.remove_tool("crash")
        await until(served.reactor, lambda: bool(told))
        ended = subscription.when_ended()
        served.server.end_subscriptions()
        assert await ended == "server"
        again = await client.listen(lambda method, _: told.append(method), tools=True)
        again.close()
        assert again.end == "client"
        await until(served.reactor, lambda: not served.server._subscribed)


@pytest.mark.parametrize(
    ("headers", "leave_out", "code"),
    [
        ({"Origin": "http://evil.example"}, "", 403),
        ({"Origin": "null"}, "", 403),
        ({"Host": "evil.example"}, "", 403),
        ({}, "Authorization", 401),
        ({"Authorization": "Bearer x"}, "", 401),
        ({"Authorization": "Basic x"}, "", 401),
        ({"Accept": "application/json"}, "", 406),
        ({"Accept": "application/json, text/event-stream;q=0"}, "", 406),
        ({"Content-Type": "text/plain"}, "", 415),
    ],
)
async def test_who_may_not(served: Served, headers: dict[str, str], leave_out: str, code: int) -> None:
    """Web pages, other names, no token: refused before anything is read, without a word of why it would be right."""
    status, answer, _ = await served.post({"id": 1, "method": "tools/list"}, leave_out=leave_out, **headers)
    assert status == code
    assert served.entry.headers[0].value not in json.dumps(answer)


@pytest.mark.parametrize("known", [True, False])
async def test_who_it_is_may_be_found_out_later(served: Served, known: bool) -> None:
    """Nothing is made of a request before, and nothing of one that is nobody's, or that has gone meanwhile."""
    asked: list[Deferred[object]] = []
    lost: list[object] = []

    class Later:
        challenges = (b'Bearer realm="tools"',)

        def authenticate(self, request: Any) -> Deferred[object]:
            request.notifyFinish().addErrback(lost.append)
            asked.append(Deferred())
            return asked[-1]

    (resource,) = served.bridge._resources.values()
    resource._authentication = Later()
    message = {"id": 1, "method": "tools/list", "params": {"_meta": META}}
    mirrors = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/list"}
    waiting = Deferred.fromCoroutine(served.post(message, **mirrors))
    await until(served.reactor, lambda: len(asked) == 1)
    gone = Deferred.fromCoroutine(served.post(message, **mirrors))
    await until(served.reactor, lambda: len(asked) == 2)
    assert not waiting.called
    gone.cancel()
    gone.addErrback(lambda _: None)
    served_requests = resource._active
    if known:
        asked[0].callback("somebody")
    else:
        asked[0].errback(RuntimeError("the directory is away"))
    status, answer, headers = await waiting
    assert status == (200 if known else 401)
    assert ("result" in answer) == known
    assert headers.getRawHeaders("www-authenticate", []) == ([] if known else ['Bearer realm="tools"'])
    await until(served.reactor, lambda: bool(lost))
    asked[1].callback("somebody")
    assert not served_requests


async def test_other_verbs_and_other_addresses(served: Served) -> None:
    """There is no stream of what the server says unasked, no session to end, and nothing elsewhere."""
    assert (await served.post(b"", verb="GET"))[0] == 405
    assert (await served.post(b"", verb="DELETE"))[0] == 404
    served.entry = evolve(served.entry, url=served.entry.url[:-1])
    response: Any = await Agent(served.reactor).request(b"POST", served.entry.url.encode())
    await read(response)
    assert response.code == 404


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}', 400, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', 400, -32600),
        (b"x" * 2001, 413, -32600),
        (b"x" * 1_000_000, 413, -32600),
        (b'{"jsonrpc":"2.0","method":"notifications/x"}', 202, None),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}', 202, None),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', 202, None),
    ],
)
async def test_bodies(served: Served, body: bytes, status: int, code: int | None) -> None:
    """What is no request, and what is too long, which is not kept."""
    try:
        found, answer, _ = await served.post(body)
    except Exception:
        assert status == 413  # the server does not wait for the rest, and the client may be told in the middle of it
        return
    assert found == status
    assert (answer or {}).get("error", {}).get("code") == code


@pytest.mark.parametrize(
    ("change", "headers", "code"),
    [
        ({}, {}, None),
        ({}, {"Mcp-Method": "tools/list"}, -32020),
        ({}, {"Mcp-Name": "other"}, -32020),
        ({}, {"Mcp-Name": "=?base64?ZWNobw==?="}, None),
        ({}, {"MCP-Protocol-Version": HANDSHAKE[0]}, -32020),
        ({}, {"Mcp-Param-X": "1"}, -32020),
        ({"method": "initialize"}, {"Mcp-Method": "initialize"}, -32601),
        ({"params": {"name": "echo", "_meta": {"io.modelcontextprotocol/protocolVersion": STATELESS}}}, {}, -32602),
    ],
)
async def test_headers_say_what_the_message_says(
    served: Served, change: dict[str, Any], headers: dict[str, str], code: int | None
) -> None:
    """With the newest revision, for those who route by them."""
    message = {
        "id": 1,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "hi"}, "_meta": META},
        **change,
    }
    mirrors = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "echo", **headers}
    status, answer, _ = await served.post(message, **mirrors)
    assert answer.get("error", {}).get("code") == code
    assert status == {None: 200, -32601: 404}.get(code, 400)


async def test_sessions_of_older_revisions(served: Served) -> None:
    """They are bounded: the oldest makes room; an id is used once at a time; an unknown session is 404."""
    greeting = {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    sessions: list[str] = []
    for _ in range(3):
        status, answer, headers = await served.post(greeting)
        assert (status, answer["result"]["protocolVersion"]) == (200, "2025-06-18")
        sessions += headers.getRawHeaders("mcp-session-id") or []
    codes = [(await served.post({"id": 2, "method": "ping"}, Mcp_Session_Id=session))[0] for session in sessions]
    assert codes == [404, 200, 200]
    hang = {"id": 3, "method": "tools/call", "params": {"name": "hang"}}
    waiting = Deferred.fromCoroutine(served.post(hang, Mcp_Session_Id=sessions[1]))
    await until(served.reactor, lambda: bool(served.noticed["contexts"]))
    assert (await served.post(hang, Mcp_Session_Id=sessions[1]))[1]["error"]["code"] == -32600
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": 3}}
    await served.post(cancelled, Mcp_Session_Id=sessions[2])
    await served.post(cancelled)
    assert served.noticed["cancelled"] == []
    await served.post(cancelled, Mcp_Session_Id=sessions[1])
    assert served.noticed["cancelled"] == [("notifications/cancelled",)]
    assert (await waiting)[:2] == (204, None)
    assert (await served.post(b"", verb="DELETE", Mcp_Session_Id=sessions[1]))[0] == 204


async def test_a_session_is_its_makers(served: Served) -> None:
    """Who knows the name of another's session finds none: not to use, not to cancel in, not to end."""

    class ByName:
        challenges = (b'Bearer realm="tools"',)

        def authenticate(self, request: Any) -> object:
            return request.getHeader(b"x-name")

    (resource,) = served.bridge._resources.values()
    resource._authentication = ByName()
    greeting = {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    _, _, headers = await served.post(greeting, X_Name="alice")
    (session,) = headers.getRawHeaders("mcp-session-id") or []
    for name, status in (("bob", 404), ("alice", 200)):
        found, _, _ = await served.post({"id": 2, "method": "ping"}, Mcp_Session_Id=session, X_Name=name)
        assert found == status
    for name, status in (("bob", 404), ("alice", 204)):
        found, _, _ = await served.post(b"", verb="DELETE", Mcp_Session_Id=session, X_Name=name)
        assert found == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Accept": ["application/json", "text/event-stream"]}, 200),
        ({"Origin": ["http://evil.example", ""]}, 403),
        ({"Authorization": []}, 401),
    ],
)
async def test_headers_that_come_twice_or_not_at_all(
    served: Served, headers: dict[str, list[str]], status: int
) -> None:
    """All of C{Accept} counts, one origin of two is not enough, and a scheme of its own challenges in its own words."""
    from io import BytesIO

    (resource,) = served.bridge._resources.values()
    if status == 401:
        resource._authentication = checked_by([], [BasicCredentialFactory(b"tools")])
    elif "Origin" in headers:
        headers["Origin"][1] = served.entry.url.rpartition("/")[0]
    sent = Headers({"Accept": ["application/json, text/event-stream"], "Content-Type": ["application/json"]})
    sent.setRawHeaders(served.entry.headers[0].name, [served.entry.headers[0].value])
    for name, values in headers.items():
        sent.setRawHeaders(name, values)
    greeting = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}'
    body = FileBodyProducer(BytesIO(greeting))
    response: Any = await Agent(served.reactor).request(b"POST", served.entry.url.encode(), sent, body)
    await read(response)
    assert response.code == status
    challenges = response.headers.getRawHeaders("www-authenticate", [])
    assert challenges == (['basic realm="tools"'] if status == 401 else [])


async def test_too_many_requests(served: Served) -> None:
    """One more is refused with 429, and there is room again when others are over."""
    async with served.client() as client:
        calls = [client.call_tool("hang") for _ in range(3)]
        await until(served.reactor, lambda: len(served.noticed["contexts"]) == 3)
        with pytest.raises(AcpError, match="Too many"):
            await client.call_tool("echo", {"text": "hi"})
        for call in calls:
            call.cancel()
            call.addErrback(lambda _: None)
        await until(served.reactor, lambda: len(served.noticed["cancelled"]) == 3)
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"


async def test_a_client_that_does_not_read_is_cut(served: Served) -> None:
    """What it leaves is bounded, and the tool is cancelled."""
    served.bridge._bounds = HttpBounds(max_unread_bytes=50_000)
    entry = served.bridge.add(served.server, "tools")
    port = int(entry.url.split(":")[2].partition("/")[0])
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "hang", "_meta": {**META, "progressToken": "p"}},
        }
    )
    lines = [
        f"POST /{entry.url.rpartition('/')[2]} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"Authorization: {entry.headers[0].value}",
        f"MCP-Protocol-Version: {STATELESS}",
        "Mcp-Method: tools/call",
        "Mcp-Name: hang",
        f"Content-Length: {len(body)}",
    ]

    from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol

    protocol: Any = await connectProtocol(TCP4ClientEndpoint(served.reactor, "127.0.0.1", port), Protocol())
    protocol.transport.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
    protocol.transport.pauseProducing()
    await until(served.reactor, lambda: bool(served.noticed["contexts"]))
    (context,) = served.noticed["contexts"]

    def push() -> bool:
        context.progress(1, message="x" * 100_000)
        return bool(served.noticed["cancelled"])

    await until(served.reactor, push)
    assert served.noticed["cancelled"] == [("not read",)]
    protocol.transport.abortConnection()


async def test_a_silent_response_is_kept_alive() -> None:
    """A comment now and then, which also makes a stream of it; the answer comes as an event."""
    from twisted.internet.task import Clock
    from twisted.web.test.requesthelper import DummyChannel, DummyRequest

    from acp_twisted.mcp.resource import KEEP_ALIVE_SECONDS, McpResource

    server, noticed = tools_server()
    clock = Clock()
    resource = McpResource(server, clock, hosts=None)
    request: Any = DummyRequest([b""])
    request.channel = DummyChannel()
    request.registerProducer = lambda *_: None  # Twisted's would pull for ever
    request.method = b"POST"
    params = {"name": "soon", "_meta": META}
    from io import BytesIO

    request.content = BytesIO(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    )
    for name, value in {
        "accept": "*/*",
        "content-type": "application/json",
        "mcp-protocol-version": STATELESS,
        "mcp-method": "tools/call",
        "mcp-name": "soon",
    }.items():
        request.requestHeaders.setRawHeaders(name, [value])
    resource.render(request)
    clock.advance(KEEP_ALIVE_SECONDS)
    clock.advance(KEEP_ALIVE_SECONDS)
    noticed["waiting"].callback(1)
    *comments, event = request.written
    assert comments == [b":\n\n"] * 2
    assert json.loads(event.removeprefix(b"event: message\ndata: "))["result"]["structuredContent"] == {"waited": 1}
    assert clock.getDelayedCalls() == []


async def test_a_server_that_is_removed(served: Served) -> None:
    """Its calls end, and its address leads nowhere."""
    async with served.client() as client:
        call = client.call_tool("hang")
        await until(served.reactor, lambda: bool(served.noticed["contexts"]))
        served.bridge.remove(served.entry)
        with pytest.raises(AcpError):
            await call
        assert served.noticed["cancelled"] == [("shutdown",)]
        with pytest.raises(AcpError):
            await client.list_tools()
        served.bridge.remove(served.entry)


# ---- the bridge to ACP


@pytest.mark.parametrize("version", [STATELESS, HANDSHAKE[0]])
async def test_a_bridge_leads_through_an_acp_connection(served: Served, version: str) -> None:
    """HTTP on the one side, mcp/message on the other, progress and errors as well; other entries stay as they are."""
    chain = Chain()
    other = v1.McpServerStdio(name="s", command="c", args=[], env=[])
    entry, same = served.bridge.adapt([chain.entry, other], chain.acp_agent)
    assert same is other
    assert isinstance(entry, v1.McpServerHttp)
    async with served.client(entry, protocol=version) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
        seen: list[Progress] = []
        await client.call_tool("steps", on_progress=seen.append)
        assert len(seen) == 2
        with pytest.raises(AcpError) as unknown:
            await client.call_tool("none")
        assert unknown.value.code == -32602
    assert {each["method"] for each in chain.sent("b>a")} == {"mcp/message"}
    chain.acp_client.close()
    assert entry.url not in served.bridge._resources


async def test_a_cancellation_changes_its_dialect_on_the_way(served: Served) -> None:
    """The end of an HTTP response is $/cancel_request on the ACP connection, and the tool's token at the end (C47)."""
    chain = Chain()
    (entry,) = served.bridge.adapt([chain.entry], chain.acp_agent)
    async with served.client(entry) as client:
        call = client.call_tool("hang")
        await until(served.reactor, lambda: bool(chain.noticed["contexts"]))
        call.cancel("enough")
        with pytest.raises(RequestCancelled):
            await call
        await until(served.reactor, lambda: bool(chain.noticed["cancelled"]))
        assert chain.noticed["cancelled"] == [("$/cancel_request",)]
        subscription = await client.listen(lambda *_: None, tools=True)
        chain.server.end_subscriptions()
        assert await subscription.when_ended() == "server"
    assert [each["method"] for each in chain.sent("b>a")].count("$/cancel_request") == 1
    assert "notifications/cancelled" not in json.dumps(chain.sent("b>a") + chain.sent("a>b"))


async def test_what_a_client_offers(served: Served) -> None:
    """An acp entry where the agent takes it, else an http one through the bridge, else nothing."""
    provider = McpProvider([served.server])

    def can(**mcp: Any) -> v1.AgentCapabilities:
        return v1.AgentCapabilities(mcp_capabilities=v1.McpCapabilities(**mcp))

    (entry,) = offered_to(can(acp=True, http=True), provider, served.bridge)
    assert isinstance(entry, v1.McpServerAcp)
    (entry,) = offered_to(can(http=True), provider, served.bridge)
    async with served.client(entry) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
    for capabilities, bridge in ((can(), served.bridge), (can(http=True), None)):
        with pytest.raises(McpCapabilityError):
            offered_to(capabilities, provider, bridge)


async def test_a_closed_bridge_serves_nobody(served: Served) -> None:
    """Neither on new connections nor on one that was kept alive, and what it served before is not served later."""
    entry = served.entry
    pool = HTTPConnectionPool(served.reactor)
    agent = Agent(served.reactor, pool=pool)
    response: Any = await agent.request(b"GET", entry.url.encode())
    await read(response)
    assert [len(kept) for kept in pool._connections.values()] == [1]
    (kept,) = next(iter(pool._connections.values()))
    await served.bridge.close()
    await until(served.reactor, lambda: kept.state == "CONNECTION_LOST")
    await pool.closeCachedConnections()
    await served.bridge.start()
    port = served.bridge._port.getHost().port
    again: Any = await Agent(served.reactor).request(b"GET", f"http://127.0.0.1:{port}/{entry.url[-43:]}".encode())
    await read(again)
    assert (response.code, again.code) == (401, 404)


def test_the_bridge_bounds_its_connections() -> None:
    """One more is closed at once, and there is room again when one is gone."""
    from twisted.internet.error import ConnectionDone
    from twisted.internet.task import Clock
    from twisted.python.failure import Failure
    from twisted.web.resource import Resource

    from acp_twisted.mcp.bridge import MAX_CONNECTIONS, _BridgeSite

    site = _BridgeSite(Resource(), Clock(), HttpBounds())
    channels = [site.buildProtocol(None) for _ in range(MAX_CONNECTIONS)]
    assert site.buildProtocol(None) is None
    channels[0].makeConnection(StringTransport())
    channels[0].connectionLost(Failure(ConnectionDone()))
    assert site.buildProtocol(None) is not None
