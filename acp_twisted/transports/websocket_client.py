"""
The opening handshake of a WebSocket, from the client's side; what follows is
L{WebSocketTransport<acp_twisted.transports.websocket.WebSocketTransport>}'s.
"""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from wsproto import ConnectionType
from wsproto.events import AcceptConnection, RejectConnection, Request
from wsproto.handshake import H11Handshake
from wsproto.utilities import ProtocolError

from acp_twisted.errors import AcpConnectionError, HttpStatusError
from acp_twisted.interfaces import IMessageReceiver, IMessageTransport
from acp_twisted.limits import KiB, Limits
from acp_twisted.transports.http.answers import status_words
from acp_twisted.transports.http.cookies import Cookies
from acp_twisted.transports.http.requests import CONNECT_SECONDS, connect_protocol, explain
from acp_twisted.transports.http.url import AgentUrl
from acp_twisted.transports.patience import Patience
from acp_twisted.transports.websocket import WebSocketTransport

MAX_HEAD_BYTES: Final = 64 * KiB
"""How long the head of the server's answer may be."""

_OURS: Final = (b"host", b"upgrade", b"connection", b"content-length", b"transfer-encoding")


class ClientWebSocket(WebSocketTransport):
    """
    A WebSocket to a remote agent.

    @ivar connection_id: what the server calls it (C{Acp-Connection-Id}); L{None} when it does not say.
    @ivar subprotocol: the one that the server has chosen of those that were offered.
    """

    connection_id: bytes | None = None
    subprotocol: str | None = None


class WebSocketClientProtocol(Protocol):
    """
    One socket: the handshake first, then the messages.
    """

    def __init__(
        self, where: AgentUrl, cookies: Cookies, receiver: IMessageReceiver, limits: Limits, clock: IReactorTime
    ) -> None:
        self.ready: Deferred[IMessageTransport] = Deferred(self._given_up)
        self._where = where
        self._cookies = cookies
        self._receiver = receiver
        self._limits = limits
        self._clock = clock
        self._handshake = H11Handshake(ConnectionType.CLIENT)
        self._head = bytearray()
        self._timer: Patience | None = None
        self._socket: ClientWebSocket | None = None
        self._refused = False

    def connectionMade(self) -> None:
        headers = [each for each in self._where.request_headers if each[0].lower() not in _OURS]
        request = Request(
            host=self._where.authority.decode(),
            target=self._where.target.decode(),
            extra_headers=[*headers, *self._cookies.headers()],
            subprotocols=list(self._where.subprotocols),
        )
        transport: Any = self.transport
        self._timer = Patience(self._clock, CONNECT_SECONDS, self._late)
        transport.write(self._handshake.send(request))

    def dataReceived(self, data: bytes) -> None:
        if self._socket is not None:
            self._socket.data_received(data)
        elif not self._refused:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end >= 0:
                head, rest = bytes(self._head[: end + 4]), bytes(self._head[end + 4 :])
                self._head.clear()
                self._answered(head, rest)
            elif len(self._head) > MAX_HEAD_BYTES:
                self._refuse(AcpConnectionError("the server's answer to the WebSocket handshake has no end"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._stop_timer()
        if self._socket is not None:
            self._socket.connection_lost(reason)
        elif not self._refused:
            self._refused = True
            self.ready.errback(reason)

    # ---- the handshake

    def _answered(self, head: bytes, rest: bytes) -> None:
        try:
            self._handshake.receive_data(head)
            event = next(self._handshake.events(), None)
        except ProtocolError as error:
            self._refuse(AcpConnectionError(f"the server's answer is no WebSocket handshake: {error}"))
            return
        if isinstance(event, AcceptConnection):
            self._accepted(event, rest)
        elif isinstance(event, RejectConnection):
            self._cookies.store(value for name, value in event.headers if name.lower() == b"set-cookie")
            status = event.status_code
            self._refuse(HttpStatusError(f"the WebSocket was answered with {status_words(status)}", status))
        else:
            self._refuse(AcpConnectionError("the server's answer is no WebSocket handshake"))

    def _accepted(self, event: AcceptConnection, rest: bytes) -> None:
        self._stop_timer()
        headers = [(bytes(name).lower(), bytes(value)) for name, value in event.extra_headers]
        self._cookies.store(value for name, value in headers if name == b"set-cookie")
        socket = self._socket = ClientWebSocket(self.transport, self._receiver, self._limits, self._clock, "client")
        socket.connection_id = dict(headers).get(b"acp-connection-id")
        socket.subprotocol = event.subprotocol
        socket.start()
        self.ready.callback(socket)
        if rest:
            socket.data_received(rest)

    def _refuse(self, why: Exception) -> None:
        self._stop_timer()
        self._refused = True
        transport: Any = self.transport
        transport.abortConnection()
        self.ready.errback(Failure(why))

    def _late(self) -> None:
        self._timer = None
        self._refuse(AcpConnectionError(f"the server did not answer the WebSocket handshake for {CONNECT_SECONDS:g} s"))

    def _given_up(self, _: object) -> None:
        if self.transport is not None and not self._refused:
            self._refuse(CancelledError())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def open_websocket(
    reactor: Any, where: AgentUrl, receiver: IMessageReceiver, limits: Limits
) -> Deferred[IMessageTransport]:
    """
    Connect C{receiver} to a remote agent.

    @return: fires with the connection, after C{receiver.connection_made}; fails with L{AcpConnectionError}, which is an
        L{HttpStatusError} when the server refused the handshake.
    """
    cookies = Cookies(where.http_url, where.cookies)
    protocol = WebSocketClientProtocol(where, cookies, receiver, limits, reactor)

    def failed(failure: Failure) -> IMessageTransport:
        raise explain(failure)

    def connected(_: object) -> Deferred[IMessageTransport]:
        return protocol.ready

    connecting = connect_protocol(reactor, where, [b"http/1.1"], lambda negotiated: protocol)
    return connecting.addCallback(connected).addErrback(failed)
