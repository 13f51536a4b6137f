"""
The server and whatever bytes a client may send.
"""

from __future__ import annotations

from typing import Any

from http_server_fakes import EVENTS, INITIALIZE, JSON, NEW_SESSION, UPGRADE, Server
from hypothesis import given
from hypothesis import strategies as st

from acp_twisted.limits import Limits

LIMITS = Limits(max_request_bytes=400, initialize_timeout=5, absence_timeout=5, ping_interval=2, pong_timeout=4)
_METHOD = st.sampled_from(["GET", "POST", "DELETE", "PUT", "get", "OPTIONS", "HEAD", "\x00"])
_PATH = st.sampled_from(
    ["/acp", "/acp/", "/acp?acp-connection-id=ID", "/acp?acp-session-id=%ff", "/", "*", "//", "/acp#"]
)
_NAME = st.sampled_from(
    [
        "Content-Type",
        "Accept",
        "Acp-Connection-Id",
        "Acp-Session-Id",
        "Origin",
        "Host",
        "Connection",
        "Upgrade",
        "Sec-WebSocket-Key",
        "Sec-WebSocket-Version",
        "Sec-WebSocket-Protocol",
        "Transfer-Encoding",
        "Content-Length",
        "Expect",
        "Authorization",
        "X",
    ]
)
_KNOWN = [
    "",
    "ID",
    "s1",
    "application/json",
    "text/event-stream",
    "websocket",
    "Upgrade",
    "13",
    "chunked",
    "0",
    "5",
    "-1",
]
_VALUE = st.sampled_from(_KNOWN) | st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20)
_ANSWER = '{"jsonrpc":"2.0","id":1,"result":1}'
_BODY = st.sampled_from([INITIALIZE, NEW_SESSION, "{}", "[]", "", "{", _ANSWER, "x" * 500])
_REQUEST = st.tuples(_METHOD, _PATH, st.lists(st.tuples(_NAME, _VALUE), max_size=6), _BODY, st.booleans())


@given(st.binary(max_size=300), st.integers(1, 40))
def test_any_bytes(data: bytes, cut: int) -> None:
    """Bytes that are no HTTP are refused by twisted.web, and nothing of ours begins."""
    server = Server(LIMITS)
    wire = server.connect()
    for start in range(0, len(data), cut):
        wire.raw(data[start : start + cut])
    wire.lose()
    server.over()


@given(st.lists(_REQUEST, max_size=4), st.integers(1, 300))
def test_requests_that_are_nearly_right(requests: list[Any], cut: int) -> None:
    """
    Whatever of a request is odd, it is answered below 500 or not at all, nothing is raised, and when the clients are
    gone for long enough nothing of them is left.
    """
    server = Server(LIMITS)
    remote = server.initialize()
    bases = {"POST": JSON, "GET": {**EVENTS, **UPGRADE}}
    wires = []
    for method, path, headers, body, proper in requests:
        wire = server.connect()
        wires.append(wire)
        given = [*bases.get(method, {}).items()] if proper else []
        given += [(name, value.replace("ID", remote.id)) for name, value in headers]
        head = "".join(f"{name}: {value}\r\n" for name, value in given)
        length = f"Content-Length: {len(body)}\r\n" if proper else ""
        line = f"{method} {path.replace('ID', remote.id)} HTTP/1.1"
        data = f"{line}\r\nHost: a\r\n{head}{length}\r\n{body}".encode("latin-1")
        for start in range(0, len(data), cut):
            wire.raw(data[start : start + cut])
        status = wire.socket.value()[9:12]
        assert status < b"500" or status in (b"501", b"503"), status
    for wire in wires:
        wire.lose()
    for _ in range(3):
        server.clock.advance(5)
    server.over()
