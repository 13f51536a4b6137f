"""
WebSockets on the server: the opening handshake within twisted.web, and the first message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from h11 import LocalProtocolError as BadHeaders
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from wsproto.connection import ConnectionType
from wsproto.events import AcceptConnection, RejectConnection
from wsproto.handshake import H11Handshake
from wsproto.utilities import ProtocolError, RemoteProtocolError
from zope.interface import implementer

from acp_twisted.interfaces import ILaneReceiver, IMessageReceiver, IMessageTransport
from acp_twisted.jsonrpc.routing import read_envelope
from acp_twisted.limits import Limits
from acp_twisted.transports.http.rules import CONNECTION_ID, Refused, is_initialize
from acp_twisted.transports.patience import Patience
from acp_twisted.transports.websocket import CloseCode, WebSocketTransport

_log = Logger()

SUBPROTOCOL: Final = "acp"
_HANDSHAKE_HEADERS: Final = (
    b"host",
    b"connection",
    b"upgrade",
    b"sec-websocket-key",
    b"sec-websocket-version",
    b"sec-websocket-protocol",
)


def wants_upgrade(request: Any) -> bool:
    """
    Whether a GET asks for a WebSocket.
    """
    values = request.requestHeaders.getRawHeaders(b"upgrade") or []
    return any(each.strip().lower() == b"websocket" for value in values for each in value.split(b","))


def check_handshake(request: Any, connection_id: str) -> bytes:
    """
    The answer to a proper opening handshake, status 101.

    @raise Refused: 400, or 426 for another version of WebSocket.
    """
    if not isinstance(request.channel, HTTPChannel) or request.clientproto != b"HTTP/1.1":
        raise Refused(400, "a WebSocket begins with HTTP/1.1 here")
    headers = [(name, value) for name in _HANDSHAKE_HEADERS for value in request.requestHeaders.getRawHeaders(name, [])]
    if len(request.requestHeaders.getRawHeaders(b"sec-websocket-key", [])) > 1:
        raise Refused(400, "no proper WebSocket handshake")
    handshake = H11Handshake(ConnectionType.SERVER)
    try:
        handshake.initiate_upgrade_connection(headers, b"/")
        offered = next(iter(handshake.events())).subprotocols  # type: ignore[attr-defined]
        return handshake.send(
            AcceptConnection(
                subprotocol=SUBPROTOCOL if SUBPROTOCOL in offered else None,
                extra_headers=[(CONNECTION_ID.encode("ascii"), connection_id.encode("ascii"))],
            )
        )
    except RemoteProtocolError as error:
        hint = error.event_hint
        status = hint.status_code if isinstance(hint, RejectConnection) else 400
        if status == 426:
            raise Refused(426, "this is version 13 of WebSocket", sec_websocket_version=b"13") from None
        raise Refused(400, "no proper WebSocket handshake") from None
    except (ProtocolError, BadHeaders, ValueError):
        raise Refused(400, "no proper WebSocket handshake") from None


class WebSocketConnection:
    """
    One WebSocket of the server.

    @ivar id: the connection's id.
    @ivar identity: who made it.
    @ivar address: from where.
    @ivar is_open: never, as far as HTTP requests go: the id of a WebSocket is no use to them.
    """

    is_open = False

    def __init__(
        self,
        id: str,
        identity: object,
        address: str | None,
        make_receiver: Callable[[], IMessageReceiver],
        limits: Limits,
        clock: IReactorTime,
        ended: Callable[[WebSocketConnection], None],
    ) -> None:
        """
        @param make_receiver: called when the first message has come, and it is C{initialize}.
        @param ended: called once when the connection is gone.
        """
        self.id = id
        self.identity = identity
        self.address = address
        self._make_receiver = make_receiver
        self._limits = limits
        self._clock = clock
        self._ended = ended
        self._transport: WebSocketTransport
        self._idle: IDelayedCall | None = None

    def take_over(self, request: Any, answer: bytes) -> None:
        """
        Make a WebSocket of the HTTP connection that C{request} came on.
        """
        channel = request.channel
        stream = channel.transport
        doorman = _Doorman(self._make_receiver, self._limits, self._clock)
        self._transport = transport = WebSocketTransport(
            stream,
            doorman,
            self._limits,
            self._clock,
            "server",
            self._gone,
            max_message_bytes=self._limits.max_request_bytes,
        )
        transport.identity = self.identity
        http_lost = channel.connectionLost

        def lost(reason: Failure) -> None:
            http_lost(reason)  # for the request, and for whoever asked it to tell
            transport.connection_lost(reason)

        # The channel is where the bytes arrive, whatever wraps it; from now on it only passes them on.  Those that it
        # has read beyond the handshake come by rawDataReceived.
        channel.dataReceived = transport.data_received
        channel.rawDataReceived = transport.data_received
        channel.connectionLost = lost
        stream.unregisterProducer()
        stream.write(answer)
        self._idle = self._clock.callLater(self._limits.idle_timeout, self._check_idle)
        transport.start()

    def shutdown(self) -> None:
        """
        The server stops: have the receiver end the conversation in good order.
        """
        self._transport.closing_code = CloseCode.GOING_AWAY
        ending = self._transport.receiver.shutdown()
        ending.addErrback(lambda failure: _log.failure("a receiver failed to shut down", failure))

    def abort(self, reason: str) -> None:
        """
        End it now.
        """
        self._transport.fail(CloseCode.GOING_AWAY, reason)
        self._transport.abort(reason)

    def _check_idle(self) -> None:
        """
        Nothing was said for long; but a turn that is quiet for long is none of the client's faults (B83).
        """
        self._idle = None
        transport = self._transport
        if transport.used or _is_busy(transport.receiver):
            transport.used = False
            self._idle = self._clock.callLater(self._limits.idle_timeout, self._check_idle)
        else:
            self.shutdown()

    def _gone(self, transport: WebSocketTransport) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._ended(self)


def _is_busy(receiver: object) -> bool:
    return bool(ILaneReceiver.providedBy(receiver) and receiver.incoming_requests)


@implementer(IMessageReceiver)
class _Doorman:
    """
    Receives until the first message: nothing is made for who does not begin with C{initialize}.
    """

    def __init__(self, make_receiver: Callable[[], IMessageReceiver], limits: Limits, clock: IReactorTime) -> None:
        self._make_receiver = make_receiver
        self._limits = limits
        self._clock = clock
        self._timer: Patience | None = None

    def connection_made(self, transport: IMessageTransport) -> None:
        assert isinstance(transport, WebSocketTransport)
        self._transport = transport
        self._timer = Patience(self._clock, self._limits.initialize_timeout, self._late)

    def message_received(self, message: bytes) -> None:
        transport = self._transport
        self._stop_timer()
        if not is_initialize(read_envelope(message)):
            transport.fail(CloseCode.PROTOCOL_ERROR, "the first message must be initialize")
            return
        receiver = self._make_receiver()
        transport.receiver = receiver
        receiver.connection_made(transport)
        receiver.message_received(message)

    def _late(self) -> None:
        self._timer = None
        self._transport.fail(CloseCode.POLICY, "initialize did not come in time")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def oversized_received(self, head: bytes, size: int, tail: bytes = b"") -> None:
        """A WebSocket ends for that."""

    def remainder_received(self, message: bytes) -> None:
        """A WebSocket has none."""

    def input_ended(self) -> None:
        """A WebSocket has no halves."""

    def connection_lost(self, reason: Failure) -> None:
        self._stop_timer()

    def writing_paused(self) -> None:
        """There is nothing to write."""

    def writing_resumed(self) -> None:
        """There is nothing to write."""

    def shutdown(self) -> Deferred[None]:
        self._stop_timer()
        self._transport.close()
        return succeed(None)
