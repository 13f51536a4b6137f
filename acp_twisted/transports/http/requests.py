"""
The way to an agent's URL: sockets, TLS, and which version of HTTP is spoken.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHandshakeListener, IProtocol, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError
from acp_twisted.interfaces import IMessageReceiver, IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.transports.http.cookies import Cookies
from acp_twisted.transports.http.exchange import HttpLayer
from acp_twisted.transports.http.url import AgentUrl, TlsOptions

CONNECT_SECONDS: Final = 30.0
"""How long a connection may take to be made, its TLS handshake included."""

KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""
When the operating system looks whether the other side of a silent connection is still there, and how often before it is
given up: HTTP/1.1 has no pings of its own, and a quiet stream is no dead one (B83).
"""


@implementer(IStreamClientEndpoint)
class TunedEndpoint:
    """
    Connects as another endpoint does, and has the system look after the connection.
    """

    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    def connect(self, protocolFactory: Any) -> Deferred[IProtocol]:
        connecting: Deferred[IProtocol] = self._endpoint.connect(protocolFactory)
        return connecting.addCallback(_tune)


def _tune(protocol: IProtocol) -> IProtocol:
    transport: Any = getattr(protocol, "transport", None)
    if hasattr(transport, "setTcpKeepAlive"):
        with suppress(OSError):
            transport.setTcpNoDelay(True)
            transport.setTcpKeepAlive(True)
            handle = transport.getHandle()
            for name, value in KEEP_ALIVE.items():
                if hasattr(socket, name):  # not everywhere
                    handle.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return protocol


def endpoint(reactor: Any, where: AgentUrl, protocols: list[bytes]) -> IStreamClientEndpoint:
    """
    An endpoint for a URL.

    @param protocols: what is offered in the TLS handshake, the dearest first.
    @raise ValueError: when the files that its TLS options name are missing, or none of the kind.
    """
    plain = TunedEndpoint(HostnameEndpoint(reactor, where.host, where.port, timeout=CONNECT_SECONDS))
    if not where.secure:
        return plain
    wrapped: IStreamClientEndpoint = wrapClientTLS(_tls(where, where.tls, protocols), plain)
    return wrapped


def _tls(where: AgentUrl, tls: TlsOptions, protocols: list[bytes]) -> Any:
    try:
        from twisted.internet import ssl  # noqa: PLC0415
    except ImportError as error:
        raise ValueError("TLS needs more than is installed: pip install acp_twisted[http]") from error
    try:
        roots = None if tls.trust_roots is None else _trust_roots(ssl, Path(tls.trust_roots))
        own = None
        if tls.certificate is not None:
            certificate = Path(tls.certificate).read_bytes()
            key = certificate if tls.private_key is None else Path(tls.private_key).read_bytes()
            own = ssl.PrivateCertificate.fromCertificateAndKeyPair(
                ssl.Certificate.loadPEM(certificate), ssl.KeyPair.load(key, 1)
            )
    except Exception as error:
        raise ValueError(f"the TLS options can't be used: {error}") from error
    return ssl.optionsForClientTLS(
        tls.hostname or where.host, trustRoot=roots, clientCertificate=own, acceptableProtocols=protocols
    )


def _trust_roots(ssl: Any, path: Path) -> Any:
    files = sorted(path.glob("*.pem")) if path.is_dir() else [path]
    end = b"-----END CERTIFICATE-----"
    found = [
        ssl.Certificate.loadPEM(part + end)
        for file in files
        for part in file.read_bytes().split(end)
        if b"-----BEGIN CERTIFICATE-----" in part
    ]
    if not found:
        raise ValueError(f"no certificates in {path}")
    return ssl.trustRootFromCertificates(found)


@implementer(IHandshakeListener)
class _Negotiated(Protocol):
    """
    Stands before the protocol that the TLS handshake chooses.
    """

    def __init__(self, choose: Callable[[bytes | None], Protocol | None]) -> None:
        """
        @param choose: the protocol for what was negotiated; L{None} closes the connection.
        """
        self.chosen: Deferred[Protocol | None] = Deferred(self._give_up)
        self._choose = choose
        self._inner: Protocol | None = None

    def handshakeCompleted(self) -> None:
        transport: Any = self.transport
        inner = self._inner = self._choose(transport.negotiatedProtocol)
        if inner is None:
            transport.loseConnection()
        else:
            inner.makeConnection(transport)
        if not self.chosen.called:
            self.chosen.callback(inner)

    def dataReceived(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._inner is not None:
            self._inner.connectionLost(reason)
        elif not self.chosen.called:
            self.chosen.errback(reason)

    def _give_up(self, _: object) -> None:
        if self.transport is not None:
            transport: Any = self.transport
            transport.abortConnection()


class _OneFactory(Factory):
    """
    Builds the one protocol it was given.
    """

    noisy = False

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol

    def buildProtocol(self, addr: Any) -> Protocol:
        return self._protocol


def connect_protocol(
    reactor: Any, where: AgentUrl, protocols: list[bytes], choose: Callable[[bytes | None], Protocol | None]
) -> Deferred[Protocol | None]:
    """
    Make a connection, up to the end of the TLS handshake.

    @param choose: the protocol for what was negotiated (nothing without TLS); L{None} closes the connection.
    @return: that protocol.
    """
    to = endpoint(reactor, where, protocols)
    if not where.secure:
        protocol = choose(None)
        assert protocol is not None, "there is no choice without TLS"
        return to.connect(_OneFactory(protocol)).addCallback(lambda _: protocol)
    first = _Negotiated(choose)
    connecting = to.connect(_OneFactory(first)).addCallback(lambda _: first.chosen)
    return connecting.addTimeout(CONNECT_SECONDS, reactor)


def open_layer(reactor: Any, where: AgentUrl, limits: Limits) -> Deferred[HttpLayer]:
    """
    Find out how the server is spoken to, and have a way to do it.  Over plain HTTP/1.1 nothing is connected yet.

    @return: fails with L{AcpConnectionError} when there is no connection.
    """
    if where.http2 is False or (where.http2 is None and not where.secure):
        return succeed(_http11(reactor, where))
    return _try_http2(reactor, where, limits)


def _http11(reactor: Any, where: AgentUrl) -> HttpLayer:
    from acp_twisted.transports.http.h1_client import Http11Layer  # noqa: PLC0415

    return Http11Layer(reactor, endpoint(reactor, where, [b"http/1.1"]), where.http_url.encode("ascii"))


def _try_http2(reactor: Any, where: AgentUrl, limits: Limits) -> Deferred[HttpLayer]:
    from acp_twisted.transports.http.h2_client import H2ClientProtocol  # noqa: PLC0415
    from acp_twisted.transports.http.h2_pool import Http2Layer  # noqa: PLC0415

    must = where.http2 is True
    offered = [b"h2"] if must else [b"h2", b"http/1.1"]
    scheme = b"https" if where.secure else b"http"

    def connect(gone: Callable[[H2ClientProtocol], None]) -> Deferred[H2ClientProtocol]:
        def choose(negotiated: bytes | None) -> Protocol | None:
            if where.secure and negotiated != b"h2":
                return None
            return H2ClientProtocol(scheme, where.authority, where.target, limits, reactor, gone)

        def chosen(protocol: Protocol | None) -> H2ClientProtocol:
            if not isinstance(protocol, H2ClientProtocol):
                raise _NoHttp2
            return protocol

        return connect_protocol(reactor, where, offered, choose).addCallback(chosen)

    layer = Http2Layer(connect)

    def failed(failure: Failure) -> HttpLayer:
        if failure.check(_NoHttp2) is not None and not must:
            return _http11(reactor, where)
        raise explain(failure)

    return layer.open().addCallbacks(lambda _: layer, failed)


class _NoHttp2(Exception):
    """
    The server does not speak HTTP/2.
    """

    def __init__(self) -> None:
        super().__init__("the server does not speak HTTP/2")


def explain(failure: Failure) -> Exception:
    """
    Why there is no connection.
    """
    if failure.check(CancelledError) is not None:
        return CancelledError()
    error = failure.value
    if isinstance(error, AcpConnectionError):
        return error
    text = failure.getErrorMessage() or type(failure.value).__name__
    if failure.check(ConnectionDone) is not None:
        text = "the server closed the connection at once"
    return AcpConnectionError(f"could not connect: {text}", failure)


def open_http(reactor: Any, where: AgentUrl, receiver: IMessageReceiver, limits: Limits) -> Deferred[IMessageTransport]:
    """
    Connect C{receiver} to a remote agent over HTTP.

    @return: fires with the connection, after C{receiver.connection_made}; fails with L{AcpConnectionError}.
    """
    from acp_twisted.transports.http.client import HttpClientTransport  # noqa: PLC0415

    def made(layer: HttpLayer) -> IMessageTransport:
        cookies = Cookies(where.http_url, where.cookies)
        transport = HttpClientTransport(layer, receiver, limits, reactor, where.request_headers, cookies)
        transport.start()
        return transport

    return open_layer(reactor, where, limits).addCallback(made)
