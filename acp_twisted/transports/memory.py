"""
Two transports joined in memory: no reactor, no framing, and every message seen by the tests that want that.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, LimitExceeded
from acp_twisted.interfaces import IMessageReceiver, IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.transports.patience import Patience

_log = Logger()

Direction = Literal["a>b", "b>a"]


@frozen
class _HalfClose:
    """
    Behind the last message of a side that only listens from now on.
    """


@frozen
class _Close:
    """
    Behind the last message of a side that has closed.
    """


@implementer(IMessageTransport)
class MemoryTransport:
    """
    One end of a L{MemoryLink}.  It keeps to the link's C{Limits} as a socket does: it asks for pauses, is cut when too
    much waits for a paused peer, and when that peer takes nothing for too long.

    @ivar receiver: what this end delivers to.
    @ivar direction: the way that what is sent here takes.
    @ivar closed: whether this end was closed, or lost: it sends and delivers nothing more.
    @ivar paused: whether the receiver takes nothing at present.
    """

    def __init__(self, link: MemoryLink, receiver: IMessageReceiver, direction: Direction) -> None:
        self.receiver = receiver
        self.direction: Direction = direction
        self.closed = False
        self.paused = False
        self.unsent = 0
        self._link = link
        self._queue: deque[tuple[int, bytes | _HalfClose | _Close]] = deque()
        self._half_closed = False
        self._lost = False
        self._above_high_water = False
        self._stall: Patience | None = None

    def send(self, message: bytes) -> None:
        if self.closed or self._half_closed:
            return
        link, limits = self._link, self._link.limits
        if link.record:
            link.wire.append((self.direction, message))
        self.unsent += len(message) + 1
        self._put(message)
        if self.unsent > limits.max_unsent_bytes:
            self.closed = True
            why = f"the peer does not read: Limits.max_unsent_bytes is {limits.max_unsent_bytes}"
            link.clock.callLater(0, self._cut, LimitExceeded(why))
        elif self.unsent > limits.high_water_bytes and not self._above_high_water:
            self._above_high_water = True
            self.receiver.writing_paused()
        self._watch()

    def half_close(self) -> None:
        """
        Say no more, and go on listening: the other side's C{input_ended} comes behind what was sent.
        """
        if not (self.closed or self._half_closed):
            self._half_closed = True
            self._put(_HalfClose())

    def close(self) -> None:
        """
        Both sides lose the connection once the other has taken what was sent.  With C{auto} that is at once, from
        inside this call.
        """
        if not self.closed:
            self.closed = True
            self._put(_Close())
            self._watch()

    def abort(self, reason: str) -> None:
        """
        Both sides lose the connection now, from inside this call unless a delivery is running.
        """
        if not self._lost:
            self._link._end(self, AcpConnectionError(reason))

    def pauseProducing(self) -> None:
        self.paused = True

    def resumeProducing(self) -> None:
        self.paused = False
        self._link._run()

    def stopProducing(self) -> None:
        self.close()

    # inside

    def _put(self, item: bytes | _HalfClose | _Close) -> None:
        self._queue.append((self._link._next_number(), item))
        self._link._run()

    def _take(self) -> bytes | _HalfClose | _Close:
        item = self._queue.popleft()[1]
        self._stop_watching()
        if isinstance(item, bytes):
            self.unsent -= len(item) + 1
        self._watch()
        return item

    def _relieve(self) -> None:
        if self._above_high_water and self.unsent < self._link.limits.low_water_bytes and not self.closed:
            self._above_high_water = False
            self.receiver.writing_resumed()

    def _watch(self) -> None:
        if self._queue and self._stall is None and not self._lost and self._link.other(self).paused:
            self._stall = Patience(self._link.clock, self._link.limits.stall_timeout, self._stalled)

    def _stop_watching(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _stalled(self) -> None:
        self._stall = None
        seconds = self._link.limits.stall_timeout
        self._cut(LimitExceeded(f"the peer took none of the waiting output for {seconds:g} s (Limits.stall_timeout)"))

    def _cut(self, why: LimitExceeded) -> None:
        if not self._lost:
            self._link._end(self, AcpConnectionError(why.message, Failure(why)))

    def _lose(self, why: AcpConnectionError) -> None:
        if self._lost:
            return
        self.closed = self._lost = True
        self._queue.clear()
        self.unsent = 0
        self._stop_watching()
        with _log.failuresHandled("a receiver failed at the end of its connection"):
            self.receiver.connection_lost(Failure(why))


class MemoryLink:
    """
    A connection between two receivers.

    With C{auto} every message is delivered at once, in the order of sending over both directions; one that is sent
    while another is being delivered waits for it, so nothing is delivered from inside a delivery.  Without it nothing
    moves until L{deliver} or L{deliver_all}.

    @ivar a: the transport of the first receiver.
    @ivar b: that of the second.
    @ivar wire: what was sent, in order: pairs of direction and message.
    @ivar clock: where the stall timers run.
    """

    def __init__(
        self,
        receiver_a: IMessageReceiver,
        receiver_b: IMessageReceiver,
        clock: IReactorTime | None = None,
        limits: Limits | None = None,
        *,
        auto: bool = True,
        record: bool = True,
    ) -> None:
        """
        @param clock: by default one of the link's own, which stands still.
        @param auto: deliver at once, rather than by L{deliver}.
        @param record: keep what was sent in C{wire}, which is for tests; a link that lives on would hold it all.
        """
        self.clock: IReactorTime = Clock() if clock is None else clock
        self.limits = Limits() if limits is None else limits
        self.auto = auto
        self.record = record
        self.wire: list[tuple[Direction, bytes]] = []
        self.a = MemoryTransport(self, receiver_a, "a>b")
        self.b = MemoryTransport(self, receiver_b, "b>a")
        self._number = 0
        self._losses: deque[tuple[MemoryTransport, AcpConnectionError]] = deque()
        self._running = True
        receiver_a.connection_made(self.a)
        receiver_b.connection_made(self.b)
        self._settle_losses()
        self._running = False
        self._run()

    def other(self, transport: MemoryTransport) -> MemoryTransport:
        """
        The end that hears what C{transport} says.
        """
        return self.b if transport is self.a else self.a

    def pending(self, direction: Direction) -> int:
        """
        How many messages (or a closing) wait that way.
        """
        return len(self._sender(direction)._queue)

    def deliver(self, direction: Direction) -> bool:
        """
        Deliver one message (or a closing) that way.

        @return: whether there was one and its receiver took it; a paused receiver takes none.
        """
        sender = self._sender(direction)
        if self._running or not self._ready(sender):
            return False
        self._running = True
        try:
            self._deliver_one(sender)
            self._settle_losses()
        finally:
            self._running = False
        return True

    def deliver_all(self) -> int:
        """
        Deliver in the order of sending until nothing moves.

        @return: how many were delivered.
        """
        count = 0
        while (sender := self._next_sender()) is not None and self.deliver(sender.direction):
            count += 1
        return count

    def sent(self, direction: Direction) -> list[bytes]:
        """
        What was sent that way, delivered or not.
        """
        return [message for way, message in self.wire if way == direction]

    # inside

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _sender(self, direction: Direction) -> MemoryTransport:
        return self.a if direction == "a>b" else self.b

    def _ready(self, sender: MemoryTransport) -> bool:
        receiving = self.other(sender)
        return bool(sender._queue) and (receiving.closed or not receiving.paused)

    def _next_sender(self) -> MemoryTransport | None:
        ready = [sender for sender in (self.a, self.b) if self._ready(sender)]
        return min(ready, key=lambda sender: sender._queue[0][0], default=None)

    def _run(self) -> None:
        if self.auto:
            self.deliver_all()

    def _deliver_one(self, sender: MemoryTransport) -> None:
        receiving = self.other(sender)
        item = sender._take()
        if isinstance(item, _Close):
            self._losses.append((receiving, AcpConnectionError("the peer closed the connection")))
            self._losses.append((sender, AcpConnectionError("the connection was closed")))
        elif not receiving.closed:
            try:
                if isinstance(item, bytes):
                    receiving.receiver.message_received(item)
                else:
                    receiving.receiver.input_ended()
            except Exception:
                _log.failure("a receiver failed on a message")
        sender._relieve()

    def _end(self, aborting: MemoryTransport, why: AcpConnectionError) -> None:
        """
        Lose both ends without delivering what waits.
        """
        self.a.closed = self.b.closed = True
        self._losses.append((aborting, why))
        self._losses.append((self.other(aborting), AcpConnectionError("the connection was lost")))
        if not self._running:
            self._running = True
            try:
                self._settle_losses()
            finally:
                self._running = False

    def _settle_losses(self) -> None:
        while self._losses:
            transport, why = self._losses.popleft()
            transport._lose(why)
