"""
The status table of the server, row by row, by raw bytes: what a request lacks, and what it is told.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from http_server_fakes import EVENTS, INITIALIZE, JSON, NEW_SESSION, UPGRADE, Server
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.transports.http.connection import respond

PROMPT = '{"jsonrpc":"2.0","id":9,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}'
CANCEL = '{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}'
FORM = '--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n'
ID = "Acp-Connection-Id"
SESSION = "Acp-Session-Id"


def headers(*parts: Any) -> list[tuple[str, str]]:
    """Headers of dicts and pairs."""
    return [pair for part in parts for pair in (part.items() if isinstance(part, dict) else [part])]


ANSWERED_BEFORE_A_CONNECTION = [
    ("initialize", 200, "POST", headers(JSON), INITIALIZE),
    ("initialize with a charset", 200, "POST", [("content-type", "Application/JSON; charset=utf-8")], INITIALIZE),
    ("a wrong content type", 415, "POST", [("Content-Type", "text/plain")], INITIALIZE),
    ("a content type that only begins well", 415, "POST", [("Content-Type", "application/jsonp")], INITIALIZE),
    ("no content type", 415, "POST", [], INITIALIZE),
    ("two content types", 415, "POST", headers(JSON, ("Content-Type", "application/json")), INITIALIZE),
    ("a form", 415, "POST", [("Content-Type", "multipart/form-data; boundary=x")], FORM),
    ("not JSON", 400, "POST", headers(JSON), "{"),
    ("not UTF-8", 400, "POST", headers(JSON), b'{"\xff":1}'),
    ("an empty body", 400, "POST", headers(JSON), ""),
    ("no body at all", 400, "POST", headers(JSON), None),
    ("a string", 400, "POST", headers(JSON), '"initialize"'),
    ("a batch", 501, "POST", headers(JSON), f"[{INITIALIZE}]"),
    ("an empty batch", 501, "POST", headers(JSON), "[]"),
    ("another message without an id", 400, "POST", headers(JSON), NEW_SESSION),
    ("a notification without an id", 400, "POST", headers(JSON), CANCEL),
    ("initialize that wants no answer", 400, "POST", headers(JSON), '{"jsonrpc":"2.0","method":"initialize"}'),
    ("an unknown id", 404, "POST", headers(JSON, (ID, "nobody")), NEW_SESSION),
    ("an empty id", 400, "POST", headers(JSON, (ID, "")), NEW_SESSION),
    ("an id that is too long", 400, "POST", headers(JSON, (ID, "x" * 1025)), NEW_SESSION),
    ("a GET without an id", 400, "GET", headers(EVENTS), None),
    ("a GET with an unknown id", 404, "GET", headers(EVENTS, (ID, "nobody")), None),
    ("a GET that takes anything", 406, "GET", [("Accept", "*/*"), (ID, "nobody")], None),
    ("a GET that does not say", 406, "GET", [(ID, "nobody")], None),
    ("a GET that refuses", 406, "GET", [("Accept", "text/html, text/event-stream;q=0"), (ID, "nobody")], None),
    ("a DELETE without an id", 400, "DELETE", [], None),
    ("a DELETE with an unknown id", 404, "DELETE", [(ID, "nobody")], None),
    ("PUT", 405, "PUT", headers(JSON), INITIALIZE),
    ("PATCH", 405, "PATCH", headers(JSON), INITIALIZE),
    ("HEAD", 405, "HEAD", headers(EVENTS), None),
    ("TRACE", 405, "TRACE", [], None),
    ("OPTIONS of nobody's page", 405, "OPTIONS", [], None),
    ("OPTIONS of a local page", 204, "OPTIONS", [("Origin", "http://localhost:3000")], None),
    ("a local page", 200, "POST", headers(JSON, ("Origin", "http://127.0.0.1:8080")), INITIALIZE),
    ("a local page over IPv6", 200, "POST", headers(JSON, ("Origin", "https://[::1]")), INITIALIZE),
    ("somebody else's page", 403, "POST", headers(JSON, ("Origin", "https://evil.example")), INITIALIZE),
    ("a page that looks local", 403, "POST", headers(JSON, ("Origin", "http://localhost.evil.example")), INITIALIZE),
    ("a page with a user", 403, "POST", headers(JSON, ("Origin", "http://localhost@evil.example")), INITIALIZE),
    ("a page of nowhere", 403, "POST", headers(JSON, ("Origin", "null")), INITIALIZE),
    ("two origins", 403, "POST", headers(JSON, ("Origin", "http://localhost"), ("Origin", "http://localhost")), "{}"),
    ("a WebSocket of another page", 403, "GET", headers(UPGRADE, ("Origin", "https://evil.example")), None),
    ("a WebSocket of version 8", 426, "GET", headers({**UPGRADE, "Sec-WebSocket-Version": "8"}), None),
    (
        "a WebSocket with two keys",
        400,
        "GET",
        headers(UPGRADE, ("Sec-WebSocket-Key", "YWJjZGVmZ2hpamtsbW5vcA")),
        None,
    ),
    ("a WebSocket without a key", 400, "GET", [pair for pair in headers(UPGRADE) if "Key" not in pair[0]], None),
    (
        "a WebSocket without Connection",
        400,
        "GET",
        [pair for pair in headers(UPGRADE) if "ection" not in pair[0]],
        None,
    ),
]


@pytest.mark.parametrize(
    ("status", "method", "given", "body"),
    [row[1:] for row in ANSWERED_BEFORE_A_CONNECTION],
    ids=[row[0] for row in ANSWERED_BEFORE_A_CONNECTION],
)
def test_without_a_connection(status: int, method: str, given: Any, body: Any) -> None:
    """What is answered before there is a connection; what is refused leaves nothing behind (protocol §5.2)."""
    server = Server()
    answer = server.ask(method, given, body)
    assert answer.status == status
    assert answer.whole or method == "HEAD"
    assert len(server.resource.connections) == (1 if status == 200 else 0)
    assert ("acp-connection-id" in answer.headers) == (status == 200)


ANSWERED_ON_A_CONNECTION = [
    ("session/new", 202, "POST", headers(JSON), NEW_SESSION),
    ("initialize again", 400, "POST", headers(JSON), INITIALIZE),
    ("a batch", 501, "POST", headers(JSON), f"[{NEW_SESSION}]"),
    ("not JSON", 400, "POST", headers(JSON), "nonsense"),
    ("a wrong content type", 415, "POST", [], NEW_SESSION),
    ("a prompt without its session", 400, "POST", headers(JSON), PROMPT),
    ("a prompt with another session", 400, "POST", headers(JSON, (SESSION, "s2")), PROMPT),
    ("a prompt with two sessions", 400, "POST", headers(JSON, (SESSION, "s1"), (SESSION, "s1")), PROMPT),
    ("a session id that is too long", 400, "POST", headers(JSON, (SESSION, "s" * 1025)), PROMPT),
    ("a prompt of an unknown session", 202, "POST", headers(JSON, (SESSION, "s1")), PROMPT),
    ("session/cancel without its session", 400, "POST", headers(JSON), CANCEL),
    ("session/cancel", 202, "POST", headers(JSON, (SESSION, "s1")), CANCEL),
    (
        "a cancellation",
        202,
        "POST",
        headers(JSON),
        '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}',
    ),
    ("an answer to nothing", 202, "POST", headers(JSON), '{"jsonrpc":"2.0","id":77,"result":{}}'),
    ("an object that is no message", 202, "POST", headers(JSON), '{"hello":"world"}'),
    ("the connection's stream", 200, "GET", headers(EVENTS), None),
    ("a stream beside other types", 200, "GET", [("Accept", "application/json, Text/Event-Stream;q=0.9")], None),
    ("a stream of a session to come", 200, "GET", headers(EVENTS, (SESSION, "later")), None),
    ("a stream nobody asked for as such", 406, "GET", [("Accept", "application/json")], None),
    ("DELETE", 202, "DELETE", [], None),
    ("PUT", 405, "PUT", headers(JSON), NEW_SESSION),
]


@pytest.mark.parametrize(
    ("status", "method", "given", "body"),
    [row[1:] for row in ANSWERED_ON_A_CONNECTION],
    ids=[row[0] for row in ANSWERED_ON_A_CONNECTION],
)
def test_with_a_connection(status: int, method: str, given: Any, body: Any) -> None:
    """What is answered on a live connection; a refusal does it no harm (protocol §5.2)."""
    server = Server()
    remote = server.initialize()
    answer = server.ask(method, [*given, (ID, remote.id)], body)
    assert answer.status == status
    if status == 202:
        assert answer.body == b""
    after = remote.post(NEW_SESSION.replace('"id":2', '"id":3'))
    assert after.status == (404 if method == "DELETE" else 202)


def test_the_answers_that_say_more() -> None:
    """405 names the methods, 426 the version of WebSocket, and none is kept by a cache."""
    server = Server()
    assert server.ask("PUT").headers["allow"] == "GET, POST, DELETE, OPTIONS"
    upgrade = {**UPGRADE, "Sec-WebSocket-Version": "99"}
    assert server.ask("GET", upgrade).headers["sec-websocket-version"] == "13"
    assert server.ask("GET").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "drops",
    [
        [b"POST /acp HTTP/1.1\r\n", *[b"X-Slow: a\r\n"] * 7],
        [b"POST /acp HTTP/1.1\r\nContent-Length: 100\r\n\r\n", *[b"x"] * 7],
        [b"POST /acp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1\r\nx\r\n"] * 7],
    ],
)
def test_a_request_that_comes_in_drops(drops: list[bytes]) -> None:
    """408 when all of it has not come in time, however steadily it does, and then the connection is ended."""
    server = Server()
    wire = server.connect()
    for drop in drops:
        assert wire.socket.value() == b""
        wire.raw(drop)
        server.clock.advance(15)
    assert wire.answer().status == 408
    wire.raw(b"x" * 1000)
    server.clock.advance(10)
    assert len(wire.answers()) == 1
    assert wire.socket.aborted
    wire.lose()
    assert server.clock.getDelayedCalls() == []


def test_every_answer_has_its_words() -> None:
    """Also those that Twisted knows none for, lest a proxy's log shows an unknown status."""
    request = SimpleNamespace(channel=object(), setHeader=lambda *_: None, write=lambda _: None, finish=lambda: None)
    seen: dict[int, bytes | None] = {}
    request.setResponseCode = seen.__setitem__
    for status in (202, 413, 429):
        respond(request, status)
    assert (seen[202], seen[429]) == (b"Accepted", b"Too Many Requests")


def test_a_websocket_needs_http_1_1() -> None:
    """RFC 6455, 4.2.1: an older client, or proxy, would not know what it got."""
    wire = Server().connect()
    lines = [f"{name}: {value}" for name, value in {**UPGRADE, **EVENTS, "Host": "localhost"}.items()]
    wire.raw("\r\n".join(["GET /acp HTTP/1.0", *lines, "", ""]).encode())
    assert wire.socket.value().startswith(b"HTTP/1.0 400 Bad Request\r\n")


def test_initialize_is_answered_in_place() -> None:
    """The answer to initialize is the POST's own, with the id of the connection in its header (protocol §5.2)."""
    server = Server()
    answer = server.ask("POST", JSON, INITIALIZE)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["id"] == 1
    assert answer.json()["result"]["protocolVersion"] == 1
    assert len(answer.headers["acp-connection-id"]) == 32
    other = server.ask("POST", JSON, INITIALIZE)
    assert other.headers["acp-connection-id"] != answer.headers["acp-connection-id"]


def test_initialize_that_the_agent_refuses() -> None:
    """An error is an answer, and no connection comes of it: no header, no entry."""
    server = Server()
    answer = server.ask("POST", JSON, '{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}')
    assert (answer.status, answer.json()["error"]["code"]) == (200, -32602)
    assert "acp-connection-id" not in answer.headers
    server.clock.advance(0)
    server.over()


def test_delete_and_delete_again() -> None:
    """DELETE is 202, then 404; its streams end, and so does everything else of the connection (protocol §5.2)."""
    server = Server()
    remote = server.initialize()
    stream = remote.open()
    session = remote.open("s1")
    assert remote.delete().status == 202
    assert stream.answer().whole
    assert session.answer().whole
    assert remote.delete().status == 404
    assert remote.open().answer().status == 404
    server.clock.advance(0)
    server.over()


def test_an_invalid_message_is_answered_on_the_connection_stream() -> None:
    """A JSON object that is no valid request: 202, and the error on the connection's stream (protocol §5.2)."""
    remote = Server().initialize()
    stream = remote.open()
    assert remote.post('{"jsonrpc":"2.0","id":5,"method":7}').status == 202
    (error,) = stream.events()
    assert (error["id"], error["error"]["code"]) == (5, -32600)


def test_event_streams_say_what_they_are() -> None:
    """An event stream opens with a comment, and asks proxies to neither keep nor collect it (protocol §5.2)."""
    answer = Server().initialize().open().answer()
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.body == b":\n\n"
    assert not answer.whole


def test_the_ids_of_a_get_may_be_in_its_query() -> None:
    """A browser's EventSource sends no headers of the page's choice; a POST is not served so."""
    server = Server()
    remote = server.initialize()
    found = server.ask("GET", EVENTS, path=f"/acp?acp-connection-id={remote.id}&acp-session-id=s1")
    assert found.status == 200
    assert server.ask("GET", EVENTS, path=f"/acp?acp-connection-id={remote.id}&acp-connection-id=x").status == 400
    assert server.ask("POST", JSON, NEW_SESSION, path=f"/acp?acp-connection-id={remote.id}").status == 400


def test_paths() -> None:
    """The agent is at its path, and nowhere above or below it."""
    server = Server()
    assert server.ask("POST", JSON, INITIALIZE, path="/acp/").status == 200
    assert server.ask("POST", JSON, INITIALIZE, path="/acp/more").status == 404
    assert server.ask("POST", JSON, INITIALIZE, path="/").status == 404
    root = Server(path="/")
    assert root.ask("POST", JSON, INITIALIZE, path="/").status == 200
    deep = Server(path="/a/b")
    assert deep.ask("POST", JSON, INITIALIZE, path="/a/b").status == 200
    with pytest.raises(ValueError, match="no absolute path"):
        Server(path="acp")


def test_a_body_that_is_too_large_by_its_own_account() -> None:
    """413 before the body comes; what comes of it is thrown away, and the connection ends."""
    server = Server(Limits(max_request_bytes=100))
    wire = server.connect()
    wire.raw(b"POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 101\r\n\r\n")
    assert wire.answer().status == 413
    wire.raw(b"x" * 101 + b"POST /acp HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert len(wire.answers()) == 1
    assert not wire.socket.aborted
    server.clock.advance(2)
    assert wire.socket.aborted


def test_a_body_that_is_too_large_and_waits_to_be_asked_for() -> None:
    """With Expect: 100-continue the body is refused, and not asked for after that."""
    server = Server(Limits(max_request_bytes=100))
    for size, status in ((101, "413"), (100, "100")):
        wire = server.connect()
        wire.raw(
            b"POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
            b"Content-Length: %d\r\n\r\n" % size
        )
        assert wire.socket.value().split()[1] == status.encode()
        assert wire.socket.value().count(b"HTTP/1.1") == 1
        wire.lose()


def test_a_body_that_turns_out_too_large() -> None:
    """413 for a chunked body beyond the limit, of which no more is kept than that; one without end is cut."""
    server = Server(Limits(max_request_bytes=100))
    head = (
        b"POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    wire = server.connect()
    wire.raw(head + b"65\r\n" + b"x" * 101 + b"\r\n0\r\n\r\n")
    assert wire.answer().status == 413
    endless = server.connect()
    endless.raw(head + b"ff\r\n" + b"x" * 255 + b"\r\n")
    server.clock.advance(0)
    assert endless.socket.aborted
    endless.lose()
    assert len(server.resource.connections) == 0


def test_a_body_that_is_far_too_large_but_ends() -> None:
    """One that has ended in the same chunk is answered with 413, and not cut off any more after that."""
    server = Server(Limits(max_request_bytes=100))
    wire = server.connect()
    wire.raw(
        b"POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"ff\r\n" + b"x" * 255 + b"\r\n0\r\n\r\n"
    )
    assert wire.answer().status == 413
    server.clock.advance(0)
    assert not wire.socket.aborted
    wire.request("POST", headers=JSON, body=INITIALIZE)
    assert wire.answer().status == 200


def test_a_body_at_the_limit() -> None:
    """The limit itself is still good."""
    size = len(INITIALIZE)
    assert Server(Limits(max_request_bytes=size)).ask("POST", JSON, INITIALIZE).status == 200
    assert Server(Limits(max_request_bytes=size)).ask("POST", JSON, INITIALIZE + " ").status == 413


def test_initialize_that_takes_too_long() -> None:
    """The agent's answer to initialize is waited for Limits.initialize_timeout seconds, then 500 (protocol §5.2)."""
    from acp_twisted import AcpAgent

    builder = AcpAgent.builder().prompt_handler(lambda request: v1.PromptResponse(stop_reason="end_turn"))
    never: Deferred[Any] = Deferred()
    slow = builder.initialize_handler(lambda request: never).limits(Limits(initialize_timeout=30)).build()
    server = Server(served=slow)
    wire = server.connect()
    wire.request("POST", headers=JSON, body=INITIALIZE)
    server.clock.advance(29)
    assert wire.answers() == []
    server.clock.advance(1)
    answer = wire.answer()
    assert answer.status == 500
    assert (answer.json()["id"], answer.json()["error"]["code"]) == (1, -32603)
    server.clock.advance(0)
    server.over()


def test_initialize_whose_client_goes_away() -> None:
    """A client that does not wait for the answer to initialize leaves nothing behind (C45)."""
    from acp_twisted import AcpAgent

    builder = AcpAgent.builder().prompt_handler(lambda request: v1.PromptResponse(stop_reason="end_turn"))
    never: Deferred[Any] = Deferred()
    server = Server(served=builder.initialize_handler(lambda request: never).build())
    wire = server.connect()
    wire.request("POST", headers=JSON, body=INITIALIZE)
    assert len(server.resource.connections) == 1
    wire.lose()
    server.clock.advance(0)
    server.over()


def test_a_server_that_stops_begins_nothing() -> None:
    """503 for initialize and for a WebSocket while the server shuts down (protocol §5.2); 404 for what has ended."""
    server = Server()
    remote = server.initialize()
    done = server.resource.close_all()
    server.clock.advance(0)
    assert done.called
    assert server.ask("POST", JSON, INITIALIZE).status == 503
    assert server.ask("GET", UPGRADE).status == 503
    assert remote.post(NEW_SESSION).status == 404


def test_too_many_connections() -> None:
    """503 beyond Limits.max_connections, 429 beyond those of one address; one that ends makes room."""
    server = Server(Limits(max_connections=3, max_connections_per_address=2))
    first = server.initialize()
    server.initialize()
    refused = server.ask("POST", JSON, INITIALIZE)
    assert (refused.status, refused.headers["retry-after"]) == (429, "5")
    other = server.connect("192.0.2.7")
    other.request("POST", headers=JSON, body=INITIALIZE)
    assert other.answer().status == 200
    third = server.connect("192.0.2.8")
    third.request("POST", headers=JSON, body=INITIALIZE)
    assert third.answer().status == 503
    assert server.ask("GET", UPGRADE).status == 503
    first.delete()
    server.clock.advance(0)
    assert server.ask("POST", JSON, INITIALIZE).status == 200


def test_addresses_are_counted_by_network() -> None:
    """One /64 of IPv6 is one address, an IPv4 address within IPv6 is that address, a Unix socket is none."""
    server = Server(Limits(max_connections_per_address=1))
    status: dict[str, list[int]] = {}
    for host in ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1", "192.0.2.1", "::ffff:192.0.2.1", "/s", "/s"):
        wire = server.connect(host)
        wire.request("POST", headers=JSON, body=INITIALIZE)
        status.setdefault(host, []).append(wire.answer().status)
    assert status == {
        "2001:db8::1": [200],
        "2001:db8::ffff:1": [429],
        "2001:db8:0:1::1": [200],
        "192.0.2.1": [200],
        "::ffff:192.0.2.1": [429],
        "/s": [200, 200],
    }


def test_too_many_provisional_streams() -> None:
    """429 for one more stream of a session that nobody has heard of; known ones, and a second GET, are free."""
    server = Server(Limits(max_provisional_streams=2))
    remote = server.initialize()
    for session in ("a", "b"):
        assert remote.open(session).answer().status == 200
    assert remote.open("c").answer().status == 429
    assert remote.open("a").answer().status == 200
    remote.new_session()
    assert remote.open("s1").answer().status == 200
    assert remote.open().answer().status == 200


@pytest.mark.parametrize(
    "bad",
    [
        b"POST /acp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /acp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /acp HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n",
        b"POST /acp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        b"POST /acp HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n",
        b"POST /acp HTTP/1.1\r\nHost: x\r\nName\r\n\r\n",
        b"POST /acp HTTP/1.1\r\nHost: x\r\n" + b"A: xxxxxxxxxx\r\n" * 1_500 + b"\r\n",
        b"POST  /acp HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_no_request_is_smuggled(bad: bytes) -> None:
    """Heads that two servers could read in two ways are 400 for twisted.web, and nothing behind them is read."""
    server = Server()
    wire = server.connect()
    wire.raw(bad + b"POST /acp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\r\n")
    assert wire.socket.value().startswith(b"HTTP/1.1 400 ")
    assert wire.socket.value().count(b"HTTP/1.1") == 1
    assert len(server.resource.connections) == 0


def test_odd_names_and_values_of_headers() -> None:
    """Names in any case, white space around values, and a session's id in UTF-8 or Latin-1 are all the same."""
    server = Server()
    remote = server.initialize()
    odd = [("content-TYPE", " application/json "), ("ACP-CONNECTION-ID", f"  {remote.id}\t")]
    assert server.ask("POST", odd, NEW_SESSION).status == 202
    message = json.dumps({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "ü"}})
    for encoded in ("ü".encode().decode("latin-1"), "ü"):
        assert server.ask("POST", headers(JSON, (ID, remote.id), (SESSION, encoded)), message).status == 202


def test_a_wrong_answer_to_the_clock() -> None:
    """The harness itself: a clock of the test's own, and no reactor."""
    assert isinstance(Server().clock, Clock)
