"""
Messages over a WebSocket: RFC 6455 frames by wsproto, for the server's role and the client's, on any Twisted transport.

The opening handshake is not here: a server has answered it within HTTP, and a client has had its answer, before there
is a L{WebSocketTransport}.  One text message is one message of the conversation (protocol §5.2); binary ones are
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, Literal

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import CloseConnection, Event, Ping, TextMessage
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, LimitExceeded
from acp_twisted.interfaces import IMessageReceiver, IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.transports.outbound import Outbound
from acp_twisted.transports.patience import Patience

_log = Logger()

Role = Literal["client", "server"]


class CloseCode(IntEnum):
    """
    The close codes that are used here (RFC 6455, 7.4.1).
    """

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    BAD_TEXT = 1007
    POLICY = 1008
    TOO_BIG = 1009
    INTERNAL = 1011
    TRY_AGAIN_LATER = 1013


@implementer(IMessageTransport)
class WebSocketTransport:
    """
    One WebSocket after its opening handshake.

    Whoever owns the socket calls L{start} once, L{data_received} with every chunk, and L{connection_lost} at the end.
    Every message of a chunk reaches the receiver before C{data_received} returns (rule 3), unless the receiver pauses;
    its C{connection_lost} never comes from inside L{send}, L{close}, L{fail} or L{abort}.

    @ivar receiver: what the messages go to; it may be exchanged at any time.
    @ivar closing_code: what L{close} tells the peer; a server that stops sets 1001 here first.
    @ivar identity: who the peer is, where somebody has found that out.
    @ivar used: set by each message that comes or goes, for whoever looks for idle connections and clears it.
    @ivar peer_code: the code that the peer closed with; L{None} before, and 1005 when it gave none.
    @ivar peer_reason: the peer's words for it.
    """

    def __init__(
        self,
        transport: Any,
        receiver: IMessageReceiver,
        limits: Limits,
        clock: IReactorTime,
        role: Role,
        ended: Callable[[WebSocketTransport], None] | None = None,
        *,
        max_message_bytes: int | None = None,
    ) -> None:
        """
        @param transport: the Twisted transport of a stream, which nobody else writes to, and without a producer.
        @param clock: where the timers run.
        @param role: a client masks what it sends, a server must not.
        @param ended: called once with this object when the connection is gone, after the receiver was told.
        @param max_message_bytes: of one received message; by default that of C{limits}.
        """
        self.receiver = receiver
        self.closing_code: int = CloseCode.NORMAL
        self.identity: object = None
        self.used = False
        self.peer_code: int | None = None
        self.peer_reason = ""
        self._transport = transport
        self._limits = limits
        self._clock = clock
        self._role: Role = role
        self._ended = ended
        self._limit = limits.max_message_bytes if max_message_bytes is None else max_message_bytes
        self._connection = Connection(ConnectionType.CLIENT if role == "client" else ConnectionType.SERVER)
        self._events: Iterator[Event] = iter(())
        self._partial = bytearray()
        self._outbound: Outbound | None = None
        self._paused_by_receiver = False
        self._held_by_output = False
        self._delivering = False
        self._deaf = False
        self._closing = False
        self._close_sent = False
        self._lost = False
        self._why: AcpConnectionError | None = None
        self._linger: Patience | None = None
        self._ticker: Patience | None = None
        self._silent_since: float | None = None

    # ---- what the owner of the socket calls

    def start(self, data: bytes = b"") -> None:
        """
        The handshake is done.

        @param data: what was received behind it.
        """
        self._outbound = Outbound(self._transport, self, self._limits, self._clock, terminator=b"")
        self._wait_to_ping()
        self.receiver.connection_made(self)
        if data:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        """
        The next bytes.
        """
        self._silent_since = None
        if self._deaf or self._lost or self._outbound is None:
            return
        self._connection.receive_data(data)
        self._outbound.begin_batch()
        self._deliver()
        self._outbound.end_batch()

    def connection_lost(self, reason: Failure) -> None:
        """
        The stream is gone, by whoever's doing.
        """
        if self._lost:
            return
        if not (self._closing or self._deaf):
            self._paused_by_receiver = self._held_by_output = False
            self._deliver(lost=True)  # what arrived before the end still counts
        self._lost = self._deaf = True
        self._partial.clear()
        if self._outbound is not None:
            self._outbound.lost()
        self._stop_timers()
        with _log.failuresHandled("a receiver failed at the end of its connection"):
            self.receiver.connection_lost(Failure(self._explain(reason)))
        if self._ended is not None:
            self._ended(self)

    # ---- IMessageTransport

    @property
    def unsent(self) -> int:
        return 0 if self._outbound is None else self._outbound.unsent

    def send(self, message: bytes) -> None:
        """
        Send one message in one frame.  After L{close}, or on a connection that is gone: nothing.
        """
        if self._closing or self._lost or self._outbound is None:
            return
        self.used = True
        self._outbound.send(bytes(self._connection.send(TextMessage(message.decode("utf-8")))))

    def close(self) -> None:
        """
        Deliver nothing more, write what is queued and a close frame behind it, and wait a little for the peer's.
        """
        if self._closing or self._lost:
            return
        self._closing = True
        self._read_to_the_end()
        self._say_goodbye(self.closing_code, "")

    def fail(self, code: int, why: str) -> None:
        """
        End the connection for what the peer did: a close frame, when the output has room for one, and a short wait for
        the peer's own.  What is queued is lost.

        @param code: a L{CloseCode}.
        @param why: one line without anything of the peer's; the peer reads it too, and it becomes the text of
            C{connection_lost}.
        """
        if self._lost or self._why is not None:
            return
        self._why = AcpConnectionError(why)
        said_goodbye = self._closing
        self._closing = self._deaf = True
        self._partial.clear()
        self._read_to_the_end()
        if said_goodbye or self._outbound is None or self._outbound.unsent:
            self._cut()
        else:
            self._say_goodbye(code, why)

    def abort(self, reason: str) -> None:
        """
        Close now, and lose what is queued.

        @param reason: the text of the receiver's C{connection_lost}; the peer is told it too if that takes no time.
        """
        self.fail(CloseCode.INTERNAL, reason)
        if not self._lost:
            self._let_go()

    def pauseProducing(self) -> None:
        if not self._closing:
            self._paused_by_receiver = True
            self._transport.pauseProducing()

    def resumeProducing(self) -> None:
        if not self._closing:
            self._paused_by_receiver = False
            self._start_reading()

    def stopProducing(self) -> None:
        self.close()

    # ---- OutboundOwner

    def output_paused(self) -> None:
        self.receiver.writing_paused()

    def output_resumed(self) -> None:
        self.receiver.writing_resumed()

    def output_held(self, held: bool) -> None:
        if self._closing or self._lost:
            return
        self._held_by_output = held
        if held:
            self._transport.pauseProducing()
        else:
            self._start_reading()

    def output_overdue(self, reason: LimitExceeded) -> None:
        """
        No close frame gets through to a peer that reads nothing.
        """
        if self._why is None:
            self._why = AcpConnectionError(reason.message, Failure(reason))
        self._closing = self._deaf = True
        self._cut()

    def output_finished(self) -> None:
        """
        The close frame is written.  A server ends the stream once it has the peer's, a client leaves that to the server
        (RFC 6455, 7.1.1); either waits at most C{Limits.exit_grace} seconds.
        """
        if self.peer_code is not None and self._role == "server":
            self._let_go()
        else:
            self._start_lingering()

    # ---- the way in

    def _deliver(self, lost: bool = False) -> None:
        """
        Deliver what has arrived, unless a delivery is running, which will go on.

        @param lost: the stream is gone, so nothing is paused any more.
        """
        if self._delivering:
            return
        self._delivering = True
        try:
            while not (self._deaf or ((self._paused_by_receiver or self._held_by_output) and not lost)):
                event = next(self._events, None)
                if event is None:
                    self._events = self._connection.events()
                    event = next(self._events, None)
                    if event is None:
                        return
                self._event(event)
        finally:
            self._delivering = False

    def _event(self, event: Event) -> None:
        if isinstance(event, TextMessage):
            self._text(event)
        elif isinstance(event, Ping):
            if not self._closing and self._outbound is not None:
                self._outbound.send(bytes(self._connection.send(event.response())))
        elif isinstance(event, CloseConnection):
            if self._connection.state in (ConnectionState.REMOTE_CLOSING, ConnectionState.CLOSED):
                self._peer_closed(event)
            else:
                self._violated(event.code)

    def _text(self, event: TextMessage) -> None:
        if self._closing:
            return
        data = event.data.encode("utf-8")
        size = len(self._partial) + len(data)
        if size > self._limit:
            self.fail(CloseCode.TOO_BIG, f"a message of more than {self._limit} bytes")
        elif not event.message_finished:
            self._partial += data
        else:
            if self._partial:
                data = bytes(self._partial) + data
                self._partial.clear()
            if data and not data.isspace():
                self._message(data)

    def _message(self, message: bytes) -> None:
        self.used = True
        try:
            self.receiver.message_received(message)
        except Exception:
            _log.failure("a receiver failed on a message")

    def _violated(self, code: int) -> None:
        if code == CloseCode.BAD_TEXT:
            self.fail(CloseCode.BAD_TEXT, "text that is not UTF-8")
        else:
            self.fail(CloseCode.PROTOCOL_ERROR, "bytes that are no WebSocket frames")

    def _peer_closed(self, event: CloseConnection) -> None:
        self.peer_code = int(event.code)
        self.peer_reason = event.reason or ""
        self._deaf = True
        outbound = self._outbound
        assert outbound is not None, "nothing is received before start"
        if self._close_sent:
            if not outbound.unsent:
                self.output_finished()
            else:
                self._cut()  # it does not read what is still queued
            return
        self._closing = True
        self._read_to_the_end()
        if outbound.unsent:
            self._cut()
        else:
            self._say_goodbye(self.peer_code, "")

    # ---- the end

    def _say_goodbye(self, code: int, why: str) -> None:
        """
        Write a close frame behind what is queued, and then end the output.
        """
        outbound = self._outbound
        if outbound is None:
            self._let_go()
            return
        self._close_sent = True
        if self._connection.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            frame = self._connection.send(CloseConnection(code, why or None))
            outbound.send(bytes(frame))
        outbound.close()

    def _read_to_the_end(self) -> None:
        """
        Go on reading, whoever wanted a pause: a peer that is stuck writing to us would not read our last frames.
        """
        if self._paused_by_receiver or self._held_by_output:
            self._paused_by_receiver = self._held_by_output = False
            self._transport.resumeProducing()

    def _start_reading(self) -> None:
        if self._paused_by_receiver or self._held_by_output or self._lost:
            return
        self._deliver()
        # What was held may have made the receiver pause again, or close.
        if not (self._paused_by_receiver or self._held_by_output or self._lost):
            self._transport.resumeProducing()

    def _start_lingering(self) -> None:
        if self._linger is None and not self._lost:
            self._linger = Patience(self._clock, self._limits.exit_grace, self._stop_waiting)

    def _stop_waiting(self) -> None:
        self._linger = None
        self._cut()

    def _let_go(self) -> None:
        """
        Close the stream behind what is written; when that takes too long, without it.
        """
        self._start_lingering()
        self._transport.loseConnection()

    def _cut(self) -> None:
        """
        Drop the stream, in a later turn of the reactor.
        """
        self._deaf = True
        if self._outbound is not None:
            self._outbound.lost()
        self._stop_timers()
        if hasattr(self._transport, "abortConnection"):
            self._transport.abortConnection()
        else:
            self._transport.unregisterProducer()
            self._transport.loseConnection()

    def _stop_timers(self) -> None:
        for timer in (self._linger, self._ticker):
            if timer is not None and timer.active():
                timer.cancel()
        self._linger = self._ticker = None

    def _explain(self, reason: Failure) -> AcpConnectionError:
        if self._why is not None:
            return self._why
        if self.peer_code is not None:
            said = f": {self.peer_reason!r}" if self.peer_reason else ""
            return AcpConnectionError(f"the peer closed the connection (WebSocket code {self.peer_code}{said})", reason)
        if self._closing:
            return AcpConnectionError("the connection was closed", reason)
        if reason.check(ConnectionDone) is not None:
            return AcpConnectionError("the peer closed the connection without a word", reason)
        return AcpConnectionError(f"the connection was lost: {reason.getErrorMessage()}", reason)

    # ---- whether the peer is alive

    def _wait_to_ping(self) -> None:
        if self._limits.ping_interval:
            self._ticker = Patience(self._clock, self._limits.ping_interval, self._tick)

    def _tick(self) -> None:
        """
        Ask for a sign of life.  Any byte is one; that there is nothing to say is none of the peer's faults (B83).
        While we do not read, we would not hear it; while the output is stuck, it would not be asked, and the stall
        timer looks after that.
        """
        self._ticker = None
        if self._closing:
            return
        if self._paused_by_receiver or self._held_by_output or self.unsent:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = self._clock.seconds()
            self._ping()
        elif self._clock.seconds() - self._silent_since >= self._limits.pong_timeout:
            seconds = self._limits.pong_timeout
            self._why = AcpConnectionError(f"no sign of life from the peer for {seconds:g} s (Limits.pong_timeout)")
            self._closing = True
            self._cut()
            return
        else:
            self._ping()
        self._wait_to_ping()

    def _ping(self) -> None:
        assert self._outbound is not None, "the ticker runs from the start on"
        self._outbound.send(bytes(self._connection.send(Ping())))
