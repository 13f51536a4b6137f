"""
One event stream of a connection: opened, and opened again when it ends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from acp_twisted.jsonrpc.framing import Oversized
from acp_twisted.limits import Limits
from acp_twisted.transports.http.answers import EVENT_STREAM, MAX_ERROR_BODY, media_type
from acp_twisted.transports.http.exchange import Exchange, ResponseReader
from acp_twisted.transports.http.sse_parser import EventStreamParser

BACKOFF: Final = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""
Seconds before each attempt to open a stream again.  Together longer than any server we know keeps a stream that nobody
reads (B83).
"""

LASTING_SECONDS: Final = 5.0
"""A stream that was open for so long, or brought something, counts as one that works."""

READY_SECONDS: Final = 0.5
"""
How long a message waits for its stream.  Some servers send the head of an answer with the first event only, and keep
what comes before a stream is there.
"""

_TRANSIENT: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class StreamOwner(Protocol):
    """
    The transport that a stream belongs to.
    """

    def stream_brought(self, stream: EventStream, message: bytes | Oversized, behind: int) -> None:
        """
        A message, and the number of the mark on another stream that it comes behind; 0 for none.
        """

    def stream_marked(self, stream: EventStream) -> None:
        """
        A mark has come, behind all that came before it.
        """

    def stream_ready(self, stream: EventStream) -> None:
        """
        It is open, or was waited for long enough: what needs it may be sent.  Once.
        """

    def stream_refused(self, stream: EventStream, status: int, text: bytes) -> None:
        """
        The server does not want to open it.  That is its end.
        """

    def stream_failed(self, stream: EventStream, why: str) -> None:
        """
        It could not be opened again and again.  That is its end.
        """

    def stream_torn(self, stream: EventStream, why: str) -> None:
        """
        It was cut where messages may be lost, for the server numbers none.  It is being opened again.
        """

    def stream_headers(self, headers: dict[bytes, list[bytes]]) -> None:
        """
        The head of an answer, for its cookies.
        """


class EventStream:
    """
    One stream: that of the connection, or of a session.

    When the server ends it between two events, nothing is lost, and it is opened again.  When it is cut and the server
    numbers its events, the server is told the last one that came, and what comes twice is dropped (B85).

    @ivar session_id: of its session; L{None} for the connection's.
    @ivar closed: whether it is over.
    @ivar ready: whether L{StreamOwner.stream_ready} was called.
    @ivar last_heard: when it last brought something.
    @ivar mark: the number of the last mark that came.
    @ivar opened: how often it was asked for.
    """

    def __init__(
        self,
        session_id: str | None,
        owner: StreamOwner,
        ask: Callable[[list[tuple[bytes, bytes]], ResponseReader], Exchange],
        limits: Limits,
        clock: IReactorTime,
    ) -> None:
        """
        @param ask: sends its GET with headers added.
        """
        self.session_id = session_id
        self.closed = False
        self.ready = False
        self.last_heard = clock.seconds()
        self.mark = 0
        self.opened = 0
        self._owner = owner
        self._ask = ask
        self._limits = limits
        self._clock = clock
        self._parser = EventStreamParser(limits.max_message_bytes)
        self._exchange: Exchange | None = None
        self._paused = False
        self._status = 0
        self._good = False
        self._text = b""
        self._opened_at = 0.0
        self._fruitless = 0
        self._brought = False
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._last_id = b""
        self._retry: IDelayedCall | None = None
        self._patience: IDelayedCall | None = None

    def open(self) -> None:
        """
        Ask for it.
        """
        self._patience = self._clock.callLater(READY_SECONDS, self._waited_enough)
        self._connect()

    def close(self) -> None:
        """
        Be done with it.
        """
        self.closed = True
        self._stop(self._retry)
        self._stop(self._patience)
        self._retry = self._patience = None
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.cancel()

    def pause(self) -> None:
        """
        Bring nothing more for now.
        """
        self._paused = True
        if self._exchange is not None:
            self._exchange.pause()

    def resume(self) -> None:
        """
        Go on.
        """
        self._paused = False
        if self._exchange is not None:
            self._exchange.resume()

    # ---- ResponseReader

    def response_started(self, status: int, headers: dict[bytes, list[bytes]]) -> None:
        if self.closed:
            return
        self._owner.stream_headers(headers)
        self._status = status
        self._good = status == 200 and media_type(headers) == EVENT_STREAM
        if self._good:
            self._opened_at = self._clock.seconds()
            self._now_ready()

    def body_received(self, data: bytes) -> None:
        if self.closed:
            return
        if not self._good:
            self._text = (self._text + data)[:MAX_ERROR_BODY]
            return
        for event in self._parser.feed(data):
            self._brought = True
            if event.event_id and not self._is_new(event.event_id):
                continue
            self.last_heard = self._clock.seconds()
            self._owner.stream_brought(self, event.message, event.behind)
            if self.closed:
                return
        if self._parser.mark > self.mark:
            self.mark = self._parser.mark
            self._owner.stream_marked(self)

    def response_ended(self, failure: Failure | None) -> None:
        self._exchange = None
        if self.closed:
            return
        if self._good:
            self._was_open(failure)
        elif self._status and failure is None and self._status not in _TRANSIENT:
            self.close()
            self._owner.stream_refused(self, self._status, self._text)
        else:
            self._again(f"HTTP {self._status}" if self._status else _reason(failure))

    # ---- inside

    def _connect(self) -> None:
        self._retry = None
        self.opened += 1
        self._status = 0
        self._good = self._brought = False
        self._text = b""
        self._parser = EventStreamParser(self._limits.max_message_bytes)
        headers = [(b"Accept", EVENT_STREAM), (b"Cache-Control", b"no-cache")]
        if self._last_id:
            headers.append((b"Last-Event-ID", self._last_id))
        self._exchange = self._ask(headers, self)
        if self._paused:
            self._exchange.pause()

    def _is_new(self, event_id: bytes) -> bool:
        self._last_id = event_id
        if event_id in self._seen:
            return False
        self._seen[event_id] = None
        if len(self._seen) > self._limits.max_remembered_ids:
            self._seen.popitem(last=False)
        return True

    def _was_open(self, failure: Failure | None) -> None:
        if self._brought or self._clock.seconds() - self._opened_at >= LASTING_SECONDS:
            self._fruitless = 0
        why = "the server ended it" if failure is None else _reason(failure)
        if (failure is not None or self._parser.in_event) and not self._last_id:
            self._owner.stream_torn(self, why)
        if not self.closed:
            self._again(why)

    def _again(self, why: str) -> None:
        if self._fruitless >= len(BACKOFF):
            status, text = self._status, self._text
            self.close()
            if status == 409:
                self._owner.stream_refused(self, status, text)
            else:
                self._owner.stream_failed(self, why)
            return
        delay = BACKOFF[self._fruitless]
        if self._parser.retry is not None:
            delay = max(delay, min(self._parser.retry / 1000, BACKOFF[-1]))
        self._fruitless += 1
        self._retry = self._clock.callLater(delay, self._connect)

    def _waited_enough(self) -> None:
        self._patience = None
        self._now_ready()

    def _now_ready(self) -> None:
        self._stop(self._patience)
        self._patience = None
        if not self.ready:
            self.ready = True
            self._owner.stream_ready(self)

    @staticmethod
    def _stop(timer: IDelayedCall | None) -> None:
        if timer is not None and timer.active():
            timer.cancel()


def _reason(failure: Failure | None) -> str:
    if failure is None:
        return "no answer"
    return failure.getErrorMessage() or type(failure.value).__name__
