"""
The end of a connection over TLS whose peer closes it, on Twisted's own TLS and its own buffers, with no socket below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from h2.connection import H2Connection
from h2.events import StreamEnded
from h2.settings import SettingCodes
from http_server_fakes import EVENTS, Server
from mcp_parts import tools_server
from OpenSSL import SSL
from test_integration_tls import write_certificate
from transport_fakes import RecordingFactory
from twisted.internet import ssl
from twisted.internet.abstract import FileDescriptor
from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.protocols.policies import WrappingFactory
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.web.server import Site

from acp_twisted.limits import Limits
from acp_twisted.mcp.resource import McpResource
from acp_twisted.mcp.versions import META_VERSION, STATELESS
from acp_twisted.transports.http.h2_client import H2ClientProtocol
from acp_twisted.transports.http.site import place
from acp_twisted.transports.stream import ServerFactory
from acp_twisted.transports.tls import end_with_peer

pytestmark = [
    # Twisted still hands pyOpenSSL its own certificate objects.
    pytest.mark.filterwarnings("ignore:.*X509:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*PKey:DeprecationWarning"),
]


class Reactor(Clock):
    """
    Knows which descriptors want to be told, and tells them when a test says so.
    """

    def __init__(self) -> None:
        super().__init__()
        self.readers: set[Any] = set()
        self.writers: set[Any] = set()
        self.addReader = self.readers.add
        self.removeReader = self.readers.discard
        self.addWriter = self.writers.add
        self.removeWriter = self.writers.discard


class Descriptor(FileDescriptor):
    """
    A socket that is none.

    @ivar taken: what it has taken from us.
    """

    def __init__(self, reactor: Any) -> None:
        super().__init__(reactor)
        self.taken = b""
        self.lost = False
        self.protocol: Any = None
        self.connected = 1
        self.startReading()

    def writeSomeData(self, data: bytes) -> int:
        self.taken += bytes(data)
        return len(data)

    def connectionLost(self, reason: Any) -> None:
        super().connectionLost(reason)
        self.lost = True
        self.protocol.connectionLost(reason)

    def getHost(self) -> Any:
        return UNIXAddress("/socket")

    def getPeer(self) -> Any:
        return UNIXAddress("/socket")

    def setTcpNoDelay(self, enabled: bool) -> None:
        """There is nothing to tune."""


class Link:
    """
    A server's connection over TLS, and its client.
    """

    def __init__(self, tmp_path: Path, reactor: Reactor, factory: Any, protocols: Sequence[bytes] = ()) -> None:
        key, certificate = write_certificate(tmp_path)
        context = ssl.PrivateCertificate.loadPEM(key.read_bytes() + certificate.read_bytes()).options()
        self.reactor = reactor
        self.socket = Descriptor(reactor)
        self.protocol = self.socket.protocol = TLSMemoryBIOFactory(context, False, factory, reactor).buildProtocol(
            self.socket.getPeer()
        )
        asked = SSL.Context(SSL.TLS_CLIENT_METHOD)
        if protocols:
            asked.set_alpn_protos(list(protocols))
        self.client = SSL.Connection(asked, None)
        self.client.set_connect_state()
        self._read = 0
        self.protocol.makeConnection(self.socket)
        for _ in range(3):
            with suppress(SSL.WantReadError):
                self.client.do_handshake()
            self.send()
            self.drain()

    def send(self) -> None:
        """What the client has written arrives."""
        try:
            data = self.client.bio_read(1_000_000)
        except SSL.WantReadError:
            return
        self.protocol.dataReceived(data)
        self.reactor.advance(0)

    def write(self, data: bytes) -> None:
        """The client sends something."""
        self.client.send(data)
        self.send()

    def drain(self) -> None:
        """The socket takes all that is written, and the client reads it."""
        self.reactor.advance(0)
        while self.socket in self.reactor.writers:
            if self.socket.doWrite() is not None:
                self.reactor.readers.discard(self.socket)
                self.socket.connectionLost(Failure(ConnectionDone()))
        if len(self.socket.taken) > self._read:
            self.client.bio_write(self.socket.taken[self._read :])
            self._read = len(self.socket.taken)

    def close(self) -> None:
        """The client says goodbye, and goes on reading, as a good one does."""
        self.client.shutdown()
        self.send()


def _messages(reactor: Reactor) -> Any:
    return ServerFactory(RecordingFactory(Limits()), reactor)


def _http2(reactor: Reactor) -> Any:
    return Factory.forProtocol(
        lambda: H2ClientProtocol(b"https", b"host:1", b"/acp", Limits(ping_interval=0), reactor, lambda _: None)
    )


def _site(reactor: Reactor) -> Any:
    server = Server()
    server.site.reactor = server.site.sockets.clock = reactor
    return server.site


def _wrapped(reactor: Reactor) -> Any:
    return WrappingFactory(_messages(reactor))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("made", [_messages, _http2, _site, _wrapped])
def test_a_peer_that_ends_it(made: Callable[[Reactor], Any], full: bool, tmp_path: Path) -> None:
    """
    The connection is lost when its client has closed it, also while more is waiting than the socket takes: Twisted
    leaves one alone then that is neither read nor written any more.
    """
    reactor = Reactor()
    link = Link(tmp_path, reactor, made(reactor))
    assert link.socket.producer is not None
    if full:
        link.socket.bufferSize = 1
    link.close()
    assert link.socket.producerPaused is False
    link.drain()
    assert link.socket.lost
    assert not reactor.writers
    assert not reactor.readers


def test_an_event_stream_on_somebody_s_site(tmp_path: Path) -> None:
    """A client that leaves while much is on its way to it is gone for the agent, whatever site the resource is in."""
    reactor = Reactor()
    server = Server()
    remote = server.initialize()
    connection: Any = next(iter(server.resource.connections._entries.values()))
    link = Link(tmp_path, reactor, Site(place(server.resource, "/acp"), reactor=reactor))
    headers = {"Host": "localhost", **EVENTS, "Acp-Connection-Id": remote.id}
    lines = [f"{name}: {value}" for name, value in headers.items()]
    link.write(("\r\n".join(["GET /acp HTTP/1.1", *lines]) + "\r\n\r\n").encode())
    link.drain()
    stream: Any = connection._streams[None]
    assert stream.has_reader
    connection.send(b'{"jsonrpc":"2.0","method":"_note","params":"%s"}' % (b"x" * 100_000))
    reactor.advance(0)
    assert stream._reader.paused
    link.close()
    link.drain()
    assert link.socket.lost
    assert not stream.has_reader


def test_a_tool_s_events_on_somebody_s_site(tmp_path: Path) -> None:
    """A client of MCP that leaves while much is on its way to it ends its call, whatever site the resource is in."""
    reactor = Reactor()
    server, noticed = tools_server()
    site = Site(place(McpResource(server, reactor, hosts=None), "/mcp"), reactor=reactor)
    link = Link(tmp_path, reactor, site)
    meta = {META_VERSION: STATELESS, "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 1}
    params = {"name": "hang", "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {
        "Host": "localhost",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "MCP-Protocol-Version": STATELESS,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "hang",
    }
    lines = [f"{name}: {value}" for name, value in headers.items()]
    link.write(("\r\n".join(["POST /mcp HTTP/1.1", *lines]) + "\r\n\r\n" + body).encode())
    (context,) = noticed["contexts"]
    context.progress(1, message="x" * 100_000)
    reactor.advance(0)
    link.close()
    link.drain()
    assert link.socket.lost
    assert noticed["cancelled"] == [("disconnected",)]


def _before_goodbye(link: Link) -> bytes | None:
    """What came before the end of TLS, which the client answers; or L{None} when it has not come as it should."""
    link.drain()
    data = b""
    try:
        while True:
            data += link.client.recv(10_000)
    except SSL.WantReadError:
        return None
    except SSL.ZeroReturnError:
        link.close()
        link.drain()
        return data


@pytest.mark.parametrize("how", ["overdue", "closed"])
@pytest.mark.parametrize("used", [False, True])
def test_a_site_s_goodbye(used: bool, how: str, tmp_path: Path) -> None:
    """A socket that the server lets go has the end of TLS written, and is not left to be aborted."""
    reactor = Reactor()
    site = _site(reactor)
    site.sockets.idle_timeout = 10  # before Twisted's own
    link = Link(tmp_path, reactor, site)
    if used:
        link.write(b"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n")
        link.drain()
        assert b"404" in link.client.recv(10_000)
    if how == "closed":
        closed = site.close_all()
    else:
        reactor.advance(site.sockets.idle_timeout)
        reactor.advance(0)
    assert _before_goodbye(link) == b""
    assert link.socket.lost
    assert len(site.sockets) == 0
    if how == "closed":
        assert closed.called


def test_a_site_s_goodbye_behind_an_answer(tmp_path: Path) -> None:
    """A request that is being answered when its socket is let go has its answer before."""
    reactor = Reactor()
    who: Deferred[object] = Deferred()

    class Asks:
        challenges = (b"Basic",)

        def authenticate(self, request: object) -> Deferred[object]:
            return who

    server = Server(authentication=Asks())
    server.site.reactor = server.site.sockets.clock = reactor
    link = Link(tmp_path, reactor, server.site)
    link.write(b"GET /acp HTTP/1.1\r\nHost: localhost\r\n\r\n")
    closed = server.site.close_all()
    assert _before_goodbye(link) is None
    who.callback("somebody")
    came = _before_goodbye(link)
    assert came is not None
    assert came.startswith(b"HTTP/1.1 406 ")
    assert link.socket.lost
    assert closed.called


@pytest.mark.parametrize("window", [1, 10_000])
def test_a_site_s_goodbye_over_http2(window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where a stream still has something to write: that comes before."""
    reactor = Reactor()
    site = _site(reactor)
    link = Link(tmp_path, reactor, site, [b"h2"])
    assert link.client.get_alpn_proto_negotiated() == b"h2"
    http = H2Connection()
    http.initiate_connection()
    http.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
    http.send_headers(
        1, [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/other")], end_stream=True
    )
    with monkeypatch.context() as patch:
        patch.setattr("twisted.internet.reactor", reactor)  # Twisted's side of HTTP/2 takes no other
        link.write(http.data_to_send())
    reactor.pump([0] * 20)
    closed = site.close_all()
    http.increment_flow_control_window(10_000, 1)
    link.write(http.data_to_send())
    reactor.pump([0] * 20)
    came = _before_goodbye(link)
    assert came is not None
    assert any(isinstance(event, StreamEnded) for event in http.receive_data(came))
    assert link.socket.lost
    assert closed.called


def test_what_is_no_tls(tmp_path: Path) -> None:
    """Over anything else it changes nothing, and a second call changes nothing over TLS."""
    reactor = Reactor()
    plain = Descriptor(reactor)
    end_with_peer(plain)
    assert "loseConnection" not in vars(plain)
    link = Link(tmp_path, reactor, _messages(reactor))
    before = vars(link.socket)["loseConnection"]
    end_with_peer(link.protocol)
    assert vars(link.socket)["loseConnection"] is before
    link.close()
    link.drain()
    assert link.socket.lost
