"""
One event stream of an HTTP connection: messages that wait for a reader, and the reader, where there is one.

The reader is an HTTP response that does not end.  It is slow now and then, goes away and comes back; what it has not
taken is kept here, in order and counted (design rule 6).  What was written whole is not repeated: the protocol has no
ids of events by which a client could tell.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Protocol

from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.limits import KiB, Limits
from acp_twisted.transports.http import marks
from acp_twisted.transports.http.below import Backlog, abort_exchange, watch_backlog
from acp_twisted.transports.patience import Patience

SLICE: Final = 128 * KiB
"""How much of a large event is written at a time: each slice that is taken is a sign of life of a slow reader."""

OVERHEAD: Final = 200
"""What a kept event is counted for beside its bytes, so that many small ones are bounded as well."""

COMMENT: Final = b":\n\n"


def frame_event(message: bytes) -> bytes:
    """
    A message as one event.  Our encoders write no line ends into JSON, others may.
    """
    if b"\n" in message or b"\r" in message:
        lines = message.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        return b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
    return b"data: " + message + b"\n\n"


class StreamOwner(Protocol):
    """
    The connection that an L{EventStream} belongs to.
    """

    def stream_grown(self, size: int) -> None:
        """
        C{size} more bytes are kept, or fewer where it is negative.
        """

    def stream_moved(self, stream: EventStream) -> None:
        """
        Events were taken, or the reader has changed.
        """

    def stream_full(self, stream: EventStream, full: bool) -> None:
        """
        Whoever produces for the stream should wait, or may go on.
        """

    def stream_overdue(self, stream: EventStream) -> None:
        """
        The stream has been full for too long, and nobody reads it.
        """


class EventStream:
    """
    One stream.

    @ivar key: the session's id; L{None} for the connection's own stream.
    @ivar pushed: how many events were ever put in.
    @ivar written: how many of them were written whole.
    """

    def __init__(self, key: str | None, owner: StreamOwner, limits: Limits, clock: IReactorTime) -> None:
        self.key = key
        self.pushed = 0
        self.written = 0
        self._owner = owner
        self._limits = limits
        self._clock = clock
        self._events: deque[bytes] = deque()
        self._offset = 0
        self._kept = 0
        self._full = False
        self._closing = False
        self._pumping = False
        self._reader: Reader | None = None
        self._deadline: Patience | None = None

    @property
    def has_reader(self) -> bool:
        """
        Whether somebody reads it.
        """
        return self._reader is not None

    @property
    def is_empty(self) -> bool:
        """
        Whether nothing is kept.
        """
        return not self._events

    def is_out(self, position: int) -> bool:
        """
        Whether so many events have left for the socket of the reader, as far as this can be known.  If not, the owner's
        C{stream_moved} is called when they have.
        """
        return self.written >= position and (self._reader is None or self._reader.is_out())

    def push(self, message: bytes, behind: int = 0) -> None:
        """
        Write a message, or keep it.

        @param behind: the number of a mark on another stream that the message comes behind; see
            L{marks<acp_twisted.transports.http.marks>}.
        """
        event = frame_event(message)
        self._put(marks.behind(behind) + event if behind else event)

    def mark(self, number: int) -> None:
        """
        Write a mark, or keep it.
        """
        self._put(marks.mark(number))

    def _put(self, event: bytes) -> None:
        self.pushed += 1
        reader = self._reader
        # Not from inside of a write: the last part of a longer event may not be out yet.
        free = not (self._events or self._pumping)
        if reader is not None and not reader.paused and free and len(event) <= SLICE:
            self.written += 1
            reader.write(event)
            return
        self._events.append(event)
        self._count(len(event) + OVERHEAD)
        self._pump()

    def attach(self, request: Any) -> None:
        """
        A new reader, to whom everything that is kept is written first.  One that was there before is ended.

        @param request: a twisted.web request whose response has not begun.
        """
        while (before := self._reader) is not None:  # behind it on its socket may come one more that asks for this
            self._reader = None
            before.finish()
        self._offset = 0
        reader = self._reader = Reader(request, self)
        self._stop_deadline()
        reader.begin()
        self._pump()
        self._owner.stream_moved(self)

    def keep_alive(self) -> None:
        """
        Write a comment, if there is a reader who takes it.
        """
        reader = self._reader
        if reader is not None and not reader.paused and not self._events:
            reader.write(COMMENT)

    def close(self) -> None:
        """
        End the stream behind what is kept; without a reader at once.
        """
        self._closing = True
        if self._reader is None:
            self.drop()
        else:
            self._pump()
            self._end_if_written()

    def drop(self) -> None:
        """
        End the stream now, and forget what is kept.
        """
        self._stop_deadline()
        self._events.clear()
        self._count(-self._kept)
        self._offset = 0
        reader, self._reader = self._reader, None
        if reader is not None and reader.paused:
            reader.abort()
        elif reader is not None:
            reader.finish()

    # ---- what the reader says

    def reader_ready(self, reader: Reader) -> None:
        """
        The reader takes more.
        """
        if reader is self._reader:
            self._stop_deadline()
            self._pump()

    def reader_stuck(self, reader: Reader) -> None:
        """
        The reader takes nothing more for now.
        """
        if reader is self._reader and self._deadline is None:
            self._deadline = Patience(self._clock, self._limits.stall_timeout, self._stalled)

    def reader_gone(self, reader: Reader) -> None:
        """
        The reader went away.  An event that it got a part of is kept for the next one.
        """
        if reader is not self._reader:
            return
        self._reader = None
        self._offset = 0
        self._stop_deadline()
        if self._closing:
            self.drop()
        else:
            self._mind_absence()
        self._owner.stream_moved(self)

    def reader_out(self, reader: Reader) -> None:
        """
        All that was written to the reader has left for its socket.
        """
        if reader is self._reader:
            self._owner.stream_moved(self)

    # ---- inside

    def _pump(self) -> None:
        """
        Write until the reader wants a pause or nothing is left.  A reader may want that from inside C{write}, and may
        change its mind there.
        """
        if self._pumping or self._reader is None:
            return
        self._pumping = True
        moved = False
        try:
            while self._events and (reader := self._reader) is not None and not reader.paused:
                event = self._events[0]
                if len(event) <= SLICE:
                    piece, done = event, True
                else:
                    piece = event[self._offset : self._offset + SLICE]
                    done = self._offset + SLICE >= len(event)
                if done:
                    self._events.popleft()
                    self._offset = 0
                    self.written += 1
                    moved = True
                else:
                    self._offset += SLICE
                reader.write(piece)
                if done:
                    self._count(-len(event) - OVERHEAD)  # who waited for room may end the stream
        finally:
            self._pumping = False
        if not self._end_if_written() and moved:
            self._owner.stream_moved(self)

    def _end_if_written(self) -> bool:
        """
        A stream that is being closed ends once all of it is written, also to a reader that takes its time.
        """
        if not self._closing or self._events or self._reader is None:
            return False
        self._stop_deadline()
        reader, self._reader = self._reader, None
        reader.finish()
        self._owner.stream_moved(self)
        return True

    def _count(self, size: int) -> None:
        self._kept += size
        self._owner.stream_grown(size)
        limits = self._limits
        if self._kept > limits.high_water_bytes or len(self._events) > limits.max_kept_events:
            if not self._full:
                self._full = True
                self._owner.stream_full(self, True)
                self._mind_absence()
        elif self._full and self._kept < limits.low_water_bytes and len(self._events) <= limits.max_kept_events // 2:
            self._full = False
            self._owner.stream_full(self, False)

    def _mind_absence(self) -> None:
        """
        Handlers wait for room, and there is nobody who would make any.
        """
        if self._full and self._reader is None and self._deadline is None and not self._closing:
            self._deadline = Patience(self._clock, self._limits.stall_timeout, self._stalled)

    def _stalled(self) -> None:
        """
        A reader that takes nothing is cut, so that its client notices; its events wait for the next one.
        """
        self._deadline = None
        reader = self._reader
        if reader is None:
            self._owner.stream_overdue(self)
        elif reader.has_taken_some():
            self._deadline = Patience(self._clock, self._limits.stall_timeout, self._stalled)
        else:
            reader.abort()
            self.reader_gone(reader)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


@implementer(IPushProducer)
class Reader:
    """
    The response of one GET, and the producer of it.

    @ivar paused: whether it takes nothing for now.
    """

    def __init__(self, request: Any, stream: EventStream) -> None:
        self.paused = False
        self._request = request
        self._stream = stream
        self._over = False
        self._asked_to_wait = False
        self._backlog: Backlog | None = None
        self._left = 0
        request.notifyFinish().addBoth(self._gone)

    def begin(self) -> None:
        """
        Send the headers, and a comment, with which the client knows that the stream is open.
        """
        request = self._request
        request.setResponseCode(200)
        request.setHeader(b"content-type", b"text/event-stream")
        request.setHeader(b"cache-control", b"no-cache")
        request.setHeader(b"x-accel-buffering", b"no")
        request.registerProducer(self, True)
        self._backlog = watch_backlog(request, self._emptied)
        self.write(COMMENT)

    def write(self, data: bytes) -> None:
        """
        Write a part of the stream.
        """
        if self._over:
            return
        self._request.write(data)
        if self._backlog is not None:
            self._backlog.wrote(len(data))
            self._see()

    def finish(self) -> None:
        """
        End the response in good order.
        """
        if not self._over:
            self._over = True
            self._request.unregisterProducer()
            self._request.finish()

    def abort(self) -> None:
        """
        Cut the response, and over HTTP/1.1 its connection with it.
        """
        if not self._over:
            self._over = True
            abort_exchange(self._request)

    def pauseProducing(self) -> None:
        self._asked_to_wait = True
        self._see()

    def resumeProducing(self) -> None:
        self._asked_to_wait = False
        self._see()

    def _see(self) -> None:
        """
        Find out whether the reader takes more: over HTTP/2 both its window and the socket count.
        """
        paused = self._asked_to_wait or (self._backlog is not None and self._backlog.is_full)
        if self._over or paused == self.paused:
            return
        self.paused = paused
        if paused:
            self._left = 0 if self._backlog is None else self._backlog.left()
            self._stream.reader_stuck(self)
        else:
            self._stream.reader_ready(self)

    def is_out(self) -> bool:
        """
        Whether nothing of what was written waits for the socket to be free.  If it does, C{reader_out} is called.  Over
        HTTP/1.1 the socket has a buffer of its own, which counts as the socket.
        """
        return self._backlog is None or self._backlog.is_empty()

    def _emptied(self) -> None:
        self._see()
        if not self._over:
            self._stream.reader_out(self)

    def has_taken_some(self) -> bool:
        """
        Whether a reader that is paused has taken some of what was written, since then or since this was asked.  Over
        HTTP/2 it shares its socket: others may have had their turns meanwhile.
        """
        before = self._left
        self._left = 0 if self._backlog is None else self._backlog.left()
        return self._left < before

    def stopProducing(self) -> None:
        """
        The connection is going away; C{_gone} comes.
        """
        self.paused = True

    def _gone(self, _: Failure | None) -> None:
        self._over = True
        self._stream.reader_gone(self)
