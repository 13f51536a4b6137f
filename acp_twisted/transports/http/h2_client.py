"""
The client's side of one HTTP/2 connection: L{h2} does the frames, and here are its streams, windows and pings.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import h2.events
from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError
from acp_twisted.limits import KiB, Limits, MiB
from acp_twisted.transports.http.exchange import HeaderList, NotProcessed, ResponseReader, Truncated
from acp_twisted.transports.patience import Patience
from acp_twisted.transports.tls import end_with_peer

_log = Logger()

STREAM_WINDOW: Final = 256 * KiB
"""How much of one answer the server may send ahead of its reader."""

CONNECTION_WINDOW: Final = 16 * MiB
"""The same for all of them, which is given back at once: an answer that nobody reads holds up no other."""

MAX_STREAMS: Final = 250
"""
How many requests are under way on one connection, also where the server allows more: a twisted.web server has trouble
beyond 1 000, and the more there are the longer each of its writes takes.
"""

MAX_BLOCKED_BYTES: Final = MiB
"""What may be written to a server that reads nothing (the answers to its pings) before the connection is cut."""

_FRAME_HEAD: Final = 9
_UNPROCESSED: Final = (ErrorCodes.REFUSED_STREAM,)


class H2Exchange:
    """
    One request, before it has a stream and while it has one.

    @ivar stream_id: of its stream; 0 before there is one.
    @ivar unread: bytes that were delivered or are held, and that the server was not yet given back.
    """

    def __init__(self, method: bytes, headers: HeaderList, body: bytes, reader: ResponseReader) -> None:
        self.method = method
        self.headers = headers
        self.rest = memoryview(body)
        self.body = body
        self.reader = reader
        self.stream_id = 0
        self.connection: H2ClientProtocol | None = None
        self.unread = 0
        self.paused = False
        self.over = False
        self.complete = False
        self._held: list[bytes] = []
        self._ended = False
        self._failure: Failure | None = None

    def cancel(self) -> None:
        if not self.over:
            self.over = True
            self._held.clear()
            if self.connection is not None:
                self.connection.drop(self)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        held, self._held = self._held, []
        for number, data in enumerate(held):
            if self.paused or self.over:
                self._held[:0] = held[number:]
                return
            self._deliver(data)
        if self._ended and not (self.paused or self.over):
            self._finish()

    # ---- what its connection tells it

    def started(self, status: int, headers: dict[bytes, list[bytes]]) -> None:
        """
        The head of the answer.
        """
        if not self.over:
            self.reader.response_started(status, headers)

    def received(self, data: bytes, size: int) -> None:
        """
        Some of the body.

        @param size: what it counts against the window.
        """
        self.unread += size - len(data)
        if self.paused or self._held:
            self._held.append(data)
        else:
            self._deliver(data)

    def ended(self, failure: Failure | None) -> None:
        """
        Nothing more will come.
        """
        self._ended = True
        self._failure = failure
        if failure is not None:
            self.paused = False  # what is held goes first, and nothing is gained by waiting
            self.resume()
        elif not (self.paused or self._held):
            self._finish()

    def _deliver(self, data: bytes) -> None:
        if self.over:
            return
        self.unread += len(data)
        self.reader.body_received(data)
        if self.connection is not None:
            self.connection.give_back(self)

    def _finish(self) -> None:
        if not self.over:
            self.over = True
            self.reader.response_ended(self._failure)


@implementer(IPushProducer)
class H2ClientProtocol(Protocol):
    """
    One connection.

    @ivar usable: whether new requests may go over it.
    """

    def __init__(
        self,
        scheme: bytes,
        authority: bytes,
        path: bytes,
        limits: Limits,
        clock: IReactorTime,
        gone: Callable[[H2ClientProtocol], None],
    ) -> None:
        """
        @param path: of every request, with its query.
        @param gone: called once when the connection is lost, after its exchanges were told.
        """
        self.usable = False
        self._pseudo = [(b":scheme", scheme), (b":authority", authority), (b":path", path)]
        self._limits = limits
        self._clock = clock
        self._gone = gone
        config = H2Configuration(client_side=True, header_encoding=None)
        self._h2 = H2Connection(config)
        self._h2.local_settings = Settings(
            client=True,
            initial_values={SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW},
        )
        self._streams: dict[int, H2Exchange] = {}
        self._sending: dict[int, H2Exchange] = {}
        self._incoming = bytearray()
        self._withheld = 0
        self._blocked = False
        self._blocked_bytes = 0
        self._stall: Patience | None = None
        self._ticker: Patience | None = None
        self._silent_since: float | None = None
        self._why: Exception | None = None
        self._lost = False
        self._closing = False
        self._cut = False

    @property
    def available(self) -> bool:
        """
        Whether one more request may go over it now.
        """
        most = min(MAX_STREAMS, self._h2.remote_settings.max_concurrent_streams)
        return self.usable and len(self._streams) < most and self._h2.open_outbound_streams < most

    @property
    def idle(self) -> bool:
        """
        Whether nothing is under way.
        """
        return not self._streams

    # ---- IProtocol

    def connectionMade(self) -> None:
        transport: Any = self.transport
        end_with_peer(transport)
        transport.registerProducer(self, True)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW - self._h2.inbound_flow_control_window)
        self.usable = True
        self._write()
        self._wait_to_ping()

    def dataReceived(self, data: bytes) -> None:
        """
        Hand the frames to h2 one at a time, for it forgets a connection at a GOAWAY behind which streams go on.
        """
        if self._closing:
            return
        self._silent_since = None
        incoming = self._incoming
        incoming += data
        start = 0
        while len(incoming) - start >= _FRAME_HEAD and not self._closing:
            size = int.from_bytes(incoming[start : start + 3], "big")
            if size > self._h2.max_inbound_frame_size:
                self._abort(AcpConnectionError("the server broke the rules of HTTP/2: a frame that is too long"))
                return
            end = start + _FRAME_HEAD + size
            if len(incoming) < end:
                break
            self._frame(bytes(incoming[start:end]))
            start = end
        del incoming[:start]
        self._flush()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self.usable = False
        self._stop_timers()
        streams, self._streams = list(self._streams.values()), {}
        self._sending.clear()
        why: Exception = self._why or Truncated(f"the connection was lost: {reason.getErrorMessage()}")
        for exchange in streams:
            exchange.connection = None
            exchange.ended(Failure(why))
        self._gone(self)

    # ---- IPushProducer: the socket's room

    def pauseProducing(self) -> None:
        self._blocked = True
        if self._stall is None and not self._lost:
            self._stall = Patience(self._clock, self._limits.stall_timeout, self._stalled)

    def resumeProducing(self) -> None:
        self._blocked = False
        self._blocked_bytes = 0
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        self._flush()

    def stopProducing(self) -> None:
        self._blocked = True

    # ---- requests

    def start(self, exchange: H2Exchange) -> None:
        """
        Send a request, over a connection that is L{available}.
        """
        stream_id = self._h2.get_next_available_stream_id()
        exchange.stream_id = stream_id
        exchange.connection = self
        head = [(b":method", exchange.method), *self._pseudo, *((n.lower(), v) for n, v in exchange.headers)]
        if exchange.body:
            head.append((b"content-length", b"%d" % len(exchange.body)))
        self._h2.send_headers(stream_id, head, end_stream=not exchange.body)
        self._streams[stream_id] = exchange
        if exchange.body:
            self._sending[stream_id] = exchange
        self._flush()

    def drop(self, exchange: H2Exchange) -> None:
        """
        Nobody waits for this one any more.
        """
        if self._streams.pop(exchange.stream_id, None) is None:
            return
        self._sending.pop(exchange.stream_id, None)
        if not self._closing:
            self._reset(exchange.stream_id, ErrorCodes.CANCEL)
            self._write()
            self._retire()

    def give_back(self, exchange: H2Exchange) -> None:
        """
        The server may send more on this stream, once half of its window was read.
        """
        if self._closing or exchange.stream_id not in self._streams or exchange.unread < STREAM_WINDOW // 2:
            return
        size, exchange.unread = exchange.unread, 0
        with suppress(ProtocolError):  # its end may have stood in the same frame
            self._h2.increment_flow_control_window(size, exchange.stream_id)
            self._write()

    def close(self) -> None:
        """
        End it: what is under way is lost.
        """
        self.usable = False
        if not self._closing:
            self._h2.close_connection()
            self._write()
            self._closing = True
            if self._blocked:
                self._abort(AcpConnectionError("the connection was closed"))
            else:
                self._let_go()

    def abort(self, why: str) -> None:
        """
        Cut it.
        """
        self._abort(AcpConnectionError(why))

    # ---- the way in

    def _frame(self, frame: bytes) -> None:
        try:
            events = self._h2.receive_data(frame)
        except ProtocolError as error:
            self._write()
            self._abort(AcpConnectionError(f"the server broke the rules of HTTP/2: {type(error).__name__}"))
            return
        for event in events:
            self._event(event)

    def _event(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            self._data(event)
        elif isinstance(event, h2.events.ResponseReceived):
            self._head(event)
        elif isinstance(event, h2.events.StreamEnded):
            self._end(event.stream_id, None)
        elif isinstance(event, h2.events.StreamReset):
            refused = event.error_code in _UNPROCESSED
            why = f"the server reset the stream ({_code(event.error_code)})"
            self._end(event.stream_id, NotProcessed(why) if refused else Truncated(why))
        elif isinstance(event, h2.events.ConnectionTerminated):
            self._terminated(event)

    def _head(self, event: h2.events.ResponseReceived) -> None:
        exchange = self._streams.get(event.stream_id or 0)
        if exchange is None:
            return
        headers: dict[bytes, list[bytes]] = {}
        status = 0
        for each in event.headers or ():
            name, value = bytes(each[0]), bytes(each[1])
            if name == b":status":
                status = int(value)
            else:
                headers.setdefault(name, []).append(value)
        exchange.started(status, headers)

    def _data(self, event: h2.events.DataReceived) -> None:
        size = event.flow_controlled_length or 0
        self._withheld += size
        if self._withheld >= CONNECTION_WINDOW // 4:
            self._h2.increment_flow_control_window(self._withheld)
            self._withheld = 0
        exchange = self._streams.get(event.stream_id or 0)
        if exchange is not None:
            exchange.received(event.data or b"", size)

    def _end(self, stream_id: int | None, why: Exception | None) -> None:
        exchange = self._streams.pop(stream_id or 0, None)
        if exchange is None:
            return
        if self._sending.pop(exchange.stream_id, None) is not None and why is None:
            self._reset(exchange.stream_id, ErrorCodes.NO_ERROR)  # it has answered without reading it all
        exchange.connection = None
        exchange.ended(None if why is None else Failure(why))
        self._retire()

    def _terminated(self, event: h2.events.ConnectionTerminated) -> None:
        """
        No new requests.  Those that the server did not look at may go elsewhere, the others go on.
        """
        self.usable = False
        last = event.last_stream_id or 0
        code = _code(event.error_code)
        if event.error_code != ErrorCodes.NO_ERROR:
            self._why = AcpConnectionError(f"the server ended the HTTP/2 connection ({code})")
        self._h2.state_machine.state = ConnectionState.CLIENT_OPEN
        for stream_id in [each for each in self._streams if each > last]:
            exchange = self._streams.pop(stream_id, None)
            if exchange is None:
                continue  # one before it was told, and has cancelled this one
            self._sending.pop(stream_id, None)
            exchange.connection = None
            exchange.ended(Failure(NotProcessed(f"the server ended the HTTP/2 connection ({code})")))
        self._retire()

    def _retire(self) -> None:
        """
        A connection that takes no new requests is closed behind the last one.
        """
        if not (self.usable or self._streams or self._closing):
            self._closing = True
            self._let_go()

    # ---- the way out

    def _flush(self) -> None:
        """
        Write what there is room for: in the socket, in the connection's window and in each stream's.
        """
        while not (self._blocked or self._closing) and self._send_some():
            self._write()
        self._write()

    def _send_some(self) -> bool:
        sent = False
        for stream_id, exchange in list(self._sending.items()):
            size = min(
                self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size, len(exchange.rest)
            )
            if size <= 0:
                continue
            data, exchange.rest = bytes(exchange.rest[:size]), exchange.rest[size:]
            last = not exchange.rest
            if last:
                del self._sending[stream_id]
            self._h2.send_data(stream_id, data, end_stream=last)
            sent = True
        return sent

    def _write(self) -> None:
        data = self._h2.data_to_send()
        if not data or self._lost or self._cut:
            return
        transport: Any = self.transport
        transport.write(data)
        if self._blocked:
            self._blocked_bytes += len(data)
            if self._blocked_bytes > MAX_BLOCKED_BYTES and not self._closing:
                self._abort(AcpConnectionError("the server does not read"))

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        with suppress(ProtocolError):  # it may be closed already
            self._h2.reset_stream(stream_id, code)

    # ---- the end

    def _let_go(self) -> None:
        """
        Close the socket behind what is written.  TLS waits for the server's goodbye, and we do so for a while.
        """
        transport: Any = self.transport
        self._stop_timers()
        self._ticker = Patience(self._clock, self._limits.exit_grace, self._linger_over)
        transport.unregisterProducer()
        transport.loseConnection()

    def _linger_over(self) -> None:
        self._ticker = None
        self._abort(AcpConnectionError("the connection was closed"))

    def _abort(self, why: Exception) -> None:
        if self._lost or self._cut:
            return
        self._why = self._why or why
        self._closing = self._cut = True
        self.usable = False
        self._stop_timers()
        transport: Any = self.transport
        transport.abortConnection()

    def _stalled(self) -> None:
        self._stall = None
        self._abort(
            AcpConnectionError(f"the server took nothing for {self._limits.stall_timeout:g} s (Limits.stall_timeout)")
        )

    def _stop_timers(self) -> None:
        for timer in (self._stall, self._ticker):
            if timer is not None and timer.active():
                timer.cancel()
        self._stall = self._ticker = None

    # ---- whether the server is alive

    def _wait_to_ping(self) -> None:
        if self._limits.ping_interval:
            self._ticker = Patience(self._clock, self._limits.ping_interval, self._tick)

    def _tick(self) -> None:
        """
        Ask for a sign of life; any byte is one.  The stall timer looks after a server that does not read.
        """
        self._ticker = None
        now = self._clock.seconds()
        if self._blocked:
            self._silent_since = None
        elif self._silent_since is not None and now - self._silent_since >= self._limits.pong_timeout:
            seconds = self._limits.pong_timeout
            self._abort(AcpConnectionError(f"no sign of life from the server for {seconds:g} s (Limits.pong_timeout)"))
            return
        else:
            self._silent_since = now if self._silent_since is None else self._silent_since
            self._h2.ping(b"acp ping")
            self._write()
        self._wait_to_ping()


def _code(code: int | None) -> str:
    try:
        return ErrorCodes(code or 0).name
    except ValueError:
        return str(code)
