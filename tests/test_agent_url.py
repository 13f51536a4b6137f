"""
Where a remote agent is: its URL, headers, cookies and the WebSocket's handshake, without sockets.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from typing import Any

import pytest
from transport_fakes import RecordingReceiver, SocketTransport
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from acp_twisted.errors import AcpConnectionError, HttpStatusError
from acp_twisted.interfaces import IMessageEndpoint
from acp_twisted.limits import Limits
from acp_twisted.transports.http.cookies import Cookies
from acp_twisted.transports.http.url import AgentUrl
from acp_twisted.transports.websocket_client import ClientWebSocket, WebSocketClientProtocol


def test_the_parts_of_a_url() -> None:
    """A URL says the host, the port and the path of every request."""
    url = AgentUrl(url="HTTPS://Example.org/a b/acp?k=v&x=%20y")
    verifyObject(IMessageEndpoint, url)
    assert (url.scheme, url.host, url.port, url.secure, url.is_websocket) == ("https", "example.org", 443, True, False)
    assert url.authority == b"example.org"
    assert url.target == b"/a%20b/acp?k=v&x=%20y"
    other = AgentUrl(url="ws://[::1]:81")
    assert (other.host, other.port, other.secure, other.is_websocket) == ("::1", 81, False, True)
    assert other.authority == b"[::1]:81"
    assert other.target == b"/"
    assert other.http_url == "http://[::1]:81/"
    assert AgentUrl(url="http://b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example/").authority == (
        b"xn--bcher-kva.example"
    )


@pytest.mark.parametrize("url", ["ftp://host/", "http://", "http:///acp", "tcp:host:1", "http://h/#x", "http://h:x/"])
def test_what_is_no_url_of_an_agent(url: str) -> None:
    """It is refused where it is written down."""
    with pytest.raises(ValueError, match=r"URL|port|Port"):
        AgentUrl(url=url)


@pytest.mark.parametrize("headers", [{"a b": "x"}, {"": "x"}, {"a": "x\r\nb: y"}, {"a:": "x"}, {"a": "\0"}])
def test_headers_that_are_none(headers: dict[str, str]) -> None:
    """Header hygiene: nothing is smuggled in."""
    with pytest.raises(ValueError, match="header"):
        AgentUrl(url="http://h/", headers=headers)


def test_secrets_are_not_shown() -> None:
    """Rule 9: neither headers nor what stands in a URL beside host and path is in a log or a traceback."""
    url = AgentUrl(url="https://user:secret@h:8/acp?token=secret", headers={"Authorization": "Bearer secret"})
    assert str(url) == "https://h:8/acp"
    assert "secret" not in repr(url) + f"{url}"
    assert url.request_headers == [(b"Authorization", b"Bearer secret")]
    plain = AgentUrl(url="https://user:pass%20word@h/")
    assert plain.request_headers == [(b"Authorization", b"Basic " + base64.b64encode(b"user:pass word"))]


def test_nothing_of_it_is_imported_unless_needed() -> None:
    """An agent on stdio, and a client of one, start without HTTP."""
    code = (
        "import sys, acp_twisted\n"
        "print([name for name in sys.modules if name.startswith(('acp_twisted.transports.http', 'wsproto', 'h2',"
        " 'twisted.web', 'acp_twisted.transports.http.url', 'acp_twisted.transports.websocket'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"


def test_cookies_by_their_rules() -> None:
    """Protocol 5.2: kept and returned, to where they belong, until they are over."""
    cookies = Cookies("https://h.example/acp")
    assert cookies.headers() == []
    cookies.store([b"a=1; Path=/; Secure; HttpOnly", b"b=2; Path=/other", b"c=3; Domain=evil.example", b"d=4"])
    assert cookies.headers() == [(b"Cookie", b"a=1; d=4")] or cookies.headers() == [(b"Cookie", b"d=4; a=1")]
    cookies.store([b"a=; Path=/; Max-Age=0", b"nonsense"])
    assert dict(cookies.headers())[b"Cookie"].startswith(b"d=4")
    assert b"a=1" not in dict(cookies.headers())[b"Cookie"]
    plain = Cookies("http://h.example/acp")
    plain.store([b"s=1; Secure"])
    assert plain.headers() == []


# ---- the WebSocket's handshake


class Handshake:
    """
    A client's socket, and the answers of a test.
    """

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.transport = SocketTransport()
        self.receiver = RecordingReceiver()
        self.cookies = Cookies("http://h:1/acp")
        url = AgentUrl(url="ws://h:1/acp?x=1", **options)
        self.protocol = WebSocketClientProtocol(url, self.cookies, self.receiver, Limits(), self.clock)
        self.results: list[Any] = []
        self.protocol.ready.addBoth(self.results.append)
        self.protocol.makeConnection(self.transport)

    @property
    def request(self) -> dict[bytes, bytes]:
        """
        The headers that were sent.
        """
        lines = self.transport.value().partition(b"\r\n\r\n")[0].split(b"\r\n")
        assert lines[0] == b"GET /acp?x=1 HTTP/1.1"
        return {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines[1:])}

    def accept(self, *extra: bytes, behind: bytes = b"") -> None:
        """
        Answer as a server does.
        """
        key = self.request[b"sec-websocket-key"] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key).digest())
        head = [
            b"HTTP/1.1 101 Switching Protocols",
            b"Upgrade: websocket",
            b"Connection: Upgrade",
            b"Sec-WebSocket-Accept: " + accept,
            *extra,
        ]
        self.protocol.dataReceived(b"\r\n".join(head) + b"\r\n\r\n" + behind)

    def error(self) -> Any:
        """
        Why there is no socket.
        """
        (failure,) = self.results
        assert isinstance(failure, Failure)
        return failure.value


def test_a_handshake() -> None:
    """Protocol 5.2: headers and cookies go with it; the connection's id, cookies and a first message come back."""
    hand = Handshake(headers={"Authorization": "Bearer x", "Host": "other"}, subprotocols=["acp.v1", "acp.v2"])
    request = hand.request
    assert request[b"host"] == b"h:1"
    assert request[b"authorization"] == b"Bearer x"
    assert request[b"sec-websocket-protocol"] == b"acp.v1, acp.v2"
    hand.accept(
        b"Acp-Connection-Id: c-1",
        b"Set-Cookie: node=a; Path=/",
        b"Sec-WebSocket-Protocol: acp.v2",
        behind=b"\x81\x02{}",
    )
    (socket,) = hand.results
    assert isinstance(socket, ClientWebSocket)
    assert (socket.connection_id, socket.subprotocol) == (b"c-1", "acp.v2")
    assert hand.cookies.headers() == [(b"Cookie", b"node=a")]
    assert hand.receiver.events == [("made",), ("message", b"{}")]
    hand.protocol.connectionLost(Failure(ConnectionLost()))
    assert hand.receiver.names[-1] == "lost"
    assert not hand.clock.getDelayedCalls()


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"403 Forbidden", b"404 Not Found", b"302 Found", b"200 OK"])
def test_a_handshake_that_is_refused(status: bytes) -> None:
    """The error names the status; nothing is followed elsewhere."""
    hand = Handshake()
    hand.protocol.dataReceived(b"HTTP/1.1 " + status + b"\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n")
    error = hand.error()
    assert isinstance(error, HttpStatusError)
    assert error.status == int(status[:3])
    assert hand.transport.aborted
    hand.protocol.connectionLost(Failure(ConnectionLost()))
    assert hand.receiver.events == []
    assert not hand.clock.getDelayedCalls()


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: bad\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
    ],
)
def test_answers_that_are_no_handshake(answer: bytes) -> None:
    """Rule 7: any other answer is an error that says so, and the socket is dropped."""
    hand = Handshake()
    hand.protocol.dataReceived(answer)
    hand.protocol.dataReceived(b"more")
    assert isinstance(hand.error(), AcpConnectionError)
    assert hand.transport.aborted
    assert not hand.clock.getDelayedCalls()


def test_a_subprotocol_that_was_not_offered() -> None:
    """RFC 6455, 4.1: the client fails the connection."""
    hand = Handshake(subprotocols=["acp.v1"])
    hand.accept(b"Sec-WebSocket-Protocol: other")
    assert isinstance(hand.error(), AcpConnectionError)


def test_a_server_that_does_not_answer() -> None:
    """B79: the handshake is bounded; giving it up drops the socket."""
    hand = Handshake()
    hand.clock.advance(30)
    assert "30 s" in str(hand.error())
    hand = Handshake()
    hand.protocol.ready.cancel()
    assert hand.transport.aborted
    assert not hand.clock.getDelayedCalls()


def test_a_server_that_hangs_up() -> None:
    """The loss before an answer is the attempt's failure."""
    hand = Handshake()
    hand.protocol.connectionLost(Failure(ConnectionLost()))
    assert isinstance(hand.error(), ConnectionLost)
    assert not hand.clock.getDelayedCalls()
