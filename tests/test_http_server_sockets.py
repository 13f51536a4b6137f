"""
Sockets on which nothing is asked: how many one address may have, and for how long.
"""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest
from http_server_fakes import EVENTS, JSON, UPGRADE, Server, Wire
from transport_fakes import SocketTransport
from twisted.internet import ssl
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import Site

from acp_twisted.limits import Limits
from acp_twisted.transports.http.below import notice_dead_peer
from acp_twisted.transports.http.flood import LINGER_SECONDS
from acp_twisted.transports.http.resource import AcpResource
from acp_twisted.transports.http.site import BoundedRequest

FEW = Limits(max_idle_sockets_per_address=3, ping_interval=0)


def fill(server: Server, host: str = "127.0.0.1") -> list[Wire]:
    """As many silent sockets as an address may have."""
    wires = [server.connect(host) for _ in range(3)]
    assert not any(wire.socket.aborted for wire in wires)
    return wires


def test_one_socket_too_many() -> None:
    """
    Rule 6: it is closed at once and costs nothing; those that are there are served, and so are other addresses; when
    one is lost there is room again.
    """
    server = Server(FEW)
    wires = fill(server)
    late = server.connect()
    assert late.socket.aborted
    assert late.socket.value() == b""
    assert not server.connect("127.0.0.2").socket.aborted
    wires[0].request("POST", headers=JSON, body="no json")
    assert wires[0].answer().status == 400
    wires[1].lose()
    assert not server.connect().socket.aborted
    assert server.connect().socket.aborted


@pytest.mark.parametrize(("same", "other"), [("2001:db8::2", "2001:db8:0:1::1"), ("2001:db8::ffff:1", "127.0.0.1")])
def test_what_counts_as_one_address(same: str, other: str) -> None:
    """As with connections: of IPv6 the /64."""
    server = Server(FEW)
    fill(server, "2001:db8::1")
    assert server.connect(same).socket.aborted
    assert not server.connect(other).socket.aborted


def test_sockets_without_an_address() -> None:
    """Who may use a Unix socket is said by its file."""
    server = Server(FEW)
    for _ in range(10):
        assert not server.connect("/run/acp").socket.aborted


def test_a_socket_in_use_is_not_counted() -> None:
    """Event streams and WebSockets are requests in work, of any number; a socket that is kept for the next is not."""
    server = Server(FEW)
    remote = server.initialize()
    streams = [remote.open(f"s{number}") for number in range(5)]
    for _ in range(5):
        wire = server.connect()
        wire.request("GET", headers=UPGRADE)
        assert wire.socket.value().startswith(b"HTTP/1.1 101 ")
        assert not wire.socket.aborted
    idle = [server.connect(), server.connect()]  # the one that initialized is a third
    assert not any(wire.socket.aborted for wire in idle)
    assert server.connect().socket.aborted
    idle[0].lose()
    streams[0].lose()
    assert not server.connect().socket.aborted
    assert server.connect().socket.aborted
    server.resource.close_all()
    assert all(wire.answer().whole for wire in streams[1:])
    server.clock.advance(10)
    assert server.connect().socket.aborted


def test_a_request_that_is_not_whole_is_none() -> None:
    """Nobody has a socket for himself by beginning a request."""
    server = Server(FEW)
    for wire in fill(server):
        wire.raw(b"POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    assert server.connect().socket.aborted


@pytest.mark.parametrize("drop", [b"", b"x"])
def test_a_socket_that_asks_nothing(drop: bytes) -> None:
    """arrival_timeout: it is closed in time, though a first line comes in drops, each of which Twisted waits for."""
    server = Server()
    wire = server.connect()
    for _ in range(11):
        wire.raw(drop)
        server.clock.advance(10)
        assert drop == b"" or not wire.socket.disconnecting
    server.clock.advance(10)
    assert wire.socket.disconnecting
    server.clock.advance(LINGER_SECONDS)
    wire.lose()
    server.over()


def test_a_socket_between_two_requests() -> None:
    """The time begins anew with each request and each answer, and does not run while one is in work."""
    server = Server(Limits(ping_interval=0, absence_timeout=100_000, idle_timeout=100_000))
    remote = server.initialize()
    wire = remote.open()
    server.clock.advance(1_000)
    assert not wire.socket.disconnecting
    kept = server.connect()
    for _ in range(10):
        server.clock.advance(50)
        kept.request("POST", headers=JSON, body="no json")
        assert kept.answer().status == 400
    assert len(kept.answers()) == 10
    server.clock.advance(120)
    assert kept.socket.disconnecting
    remote.delete()
    assert wire.answer().whole
    wire.lose()
    kept.lose()


def test_a_site_of_ones_own() -> None:
    """There, sockets are the site's business."""
    clock = Clock()
    root = Resource()
    server = Server()
    root.putChild(b"acp", AcpResource(server.resource._agent, clock))
    site = Site(root, requestFactory=BoundedRequest, reactor=clock)
    every: list[Any] = []
    for _ in range(3):
        wire = SocketTransport()
        channel = site.buildProtocol(wire.getPeer())
        channel.makeConnection(wire)
        channel.dataReceived(b"GET /acp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wire.value().startswith(b"HTTP/1.1 406 ")
        every.append(channel)
    for channel in every:
        channel.connectionLost(Failure(ConnectionDone()))


# ---- TLS


def by_tls(server: Server) -> tuple[Any, SocketTransport]:
    """A new connection to a server that speaks TLS, and that needs no certificate before it is greeted."""
    wire = SocketTransport()
    protocol: Any = TLSMemoryBIOFactory(ssl.CertificateOptions(), False, server.site, server.clock).buildProtocol(
        wire.getPeer()
    )
    protocol.makeConnection(wire)
    return protocol, wire


HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a handshake, which promises more."""


@pytest.mark.parametrize("hello", [b"", HELLO])
def test_a_handshake_that_never_ends(hello: bytes) -> None:
    """It is cut off in time, however slowly it comes."""
    server = Server()
    protocol, wire = by_tls(server)
    for byte in hello:
        protocol.dataReceived(bytes([byte]))
        server.clock.advance(5)
    assert not wire.aborted
    server.clock.advance(120 - 5 * len(hello))
    assert wire.aborted
    protocol.connectionLost(Failure(ConnectionDone()))
    server.over()


def test_one_handshake_too_many() -> None:
    """It is closed before it begins, and nothing is raised below TLS."""
    server = Server(FEW)
    every = [by_tls(server) for _ in range(4)]
    assert [wire.aborted for _, wire in every] == [False, False, False, True]
    assert every[3][1].value() == b""
    server.site.close_all()
    assert by_tls(server)[1].aborted


# ---- a peer whose machine is gone


class Handle:
    """A socket that writes down its options."""

    def __init__(self, family: int = socket.AF_INET, error: OSError | None = None) -> None:
        self.family = family
        self.options: list[tuple[int, int, int]] = []
        self._error = error

    def setsockopt(self, level: int, option: int, value: int) -> None:
        if self._error is not None:
            raise self._error
        self.options.append((level, option, value))


def listening(handle: Handle, limits: Limits, layers: int = 0) -> tuple[Server, Wire]:
    """An event stream on a connection that has this socket, below so many layers."""
    server = Server(limits)
    remote = server.initialize()
    wire = server.connect()
    layer = wire.socket
    for _ in range(layers):
        layer.transport = SocketTransport()
        layer = layer.transport
    layer.socket = handle
    wire.request("GET", headers={**EVENTS, **remote.headers})
    assert wire.answer().status == 200
    return server, wire


@pytest.fixture
def user_timeout(monkeypatch: pytest.MonkeyPatch) -> int:
    """Linux's option, which other systems lack."""
    monkeypatch.setattr(socket, "TCP_USER_TIMEOUT", 18, raising=False)
    return 18


@pytest.mark.parametrize("layers", [0, 1, 2])
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize(("stall", "pong"), [(60.0, 30.0), (20.0, 45.5)])
def test_a_reader_whose_machine_is_gone(user_timeout: int, layers: int, family: int, stall: float, pong: float) -> None:
    """
    The system is told, in milliseconds and below whatever layers, to drop a socket that acknowledges nothing for as
    long as a peer may be silent.
    """
    handle = Handle(family)
    listening(handle, Limits(stall_timeout=stall, pong_timeout=pong), layers)
    assert handle.options == [(socket.IPPROTO_TCP, user_timeout, int(max(stall, pong) * 1000))]


def test_something_is_there_to_be_acknowledged(user_timeout: int) -> None:
    """The option counts from what was written, so a quiet stream has a comment written, and is dropped as lost."""
    server, wire = listening(Handle(), Limits(ping_interval=15, absence_timeout=60))
    before = len(wire.socket.value())
    server.clock.advance(15)
    assert wire.socket.value()[before:].endswith(b"\r\n:\n\n\r\n")
    wire.lose()  # with ETIMEDOUT
    server.clock.advance(60)
    server.over()


@pytest.mark.parametrize("handle", [Handle(socket.AF_UNIX), Handle(error=OSError(92, "Protocol not available"))])
def test_sockets_that_have_no_such_time(user_timeout: int, handle: Handle) -> None:
    """They are served without."""
    listening(handle, Limits())
    assert handle.options == []


def test_systems_that_have_no_such_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """They serve without."""
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT", raising=False)
    handle = Handle()
    listening(handle, Limits())
    assert handle.options == []


def test_a_real_socket() -> None:
    """The system takes the option."""
    with socket.socket() as handle:
        layer = SimpleNamespace(transport=SimpleNamespace(socket=handle))
        notice_dead_peer(SimpleNamespace(channel=SimpleNamespace(transport=layer)), 60.0)
        assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
