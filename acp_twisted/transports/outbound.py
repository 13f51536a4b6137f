"""
The output that waits for a slow peer: one queue, used by every transport that writes bytes (design rule 6, B33).

While the Twisted transport takes what it is given, nothing is queued here: L{Outbound.send} is one C{write}.  Once it
asks for a pause, messages wait in this queue, are counted, and are written in slices as the transport takes them.  What
waits too much, or too long, ends the connection with a reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from twisted.internet.interfaces import IConsumer, IPushProducer, IReactorTime
from zope.interface import implementer

from acp_twisted.errors import LimitExceeded
from acp_twisted.interfaces import IBatchTransport
from acp_twisted.limits import KiB, Limits
from acp_twisted.transports.patience import Patience
from acp_twisted.transports.tls import end_with_peer

SLICE = 128 * KiB
"""
How much is handed to the Twisted transport at a time once it is slow.  Every slice that it takes is a sign of life, so
a peer that reads one huge message slowly is not mistaken for one that stalls.
"""


class OutboundOwner(Protocol):
    """
    The transport whose output an L{Outbound} keeps.
    """

    def output_paused(self) -> None:
        """
        More than C{Limits.high_water_bytes} wait.
        """

    def output_resumed(self) -> None:
        """
        Fewer than C{Limits.low_water_bytes} wait.
        """

    def output_held(self, held: bool) -> None:
        """
        More than C{Limits.pause_reading_bytes} wait (stop reading), or no longer.
        """

    def output_overdue(self, reason: LimitExceeded) -> None:
        """
        A bound is passed: cut the connection.  May be called from inside C{send}.
        """

    def output_finished(self) -> None:
        """
        L{Outbound.close} was called, and the Twisted transport was given everything: let it go once it has flushed.
        """


@implementer(IPushProducer)
class Outbound:
    """
    The unsent output of one connection.  It is the streaming producer of the Twisted transport.

    Messages up to L{SLICE} are written whole, each in one write; larger ones in slices, with nothing between them.

    @ivar unsent: bytes (terminators included) that were handed to C{send} and that the Twisted transport has not taken.
        What a transport holds without having asked for a pause, at most 64 KiB, is not counted.
    """

    def __init__(
        self,
        transport: IConsumer,
        owner: OutboundOwner,
        limits: Limits,
        clock: IReactorTime,
        terminator: bytes = b"\n",
    ) -> None:
        """
        @param transport: where to write; this becomes its producer.
        @param terminator: what goes behind every message.
        """
        self._end = terminator
        self._transport = transport
        self._write = transport.write
        self._write_batch = transport.write_at_once if IBatchTransport.providedBy(transport) else transport.write
        self._owner = owner
        self._limits = limits
        self._clock = clock
        self._queue: deque[bytes] = deque()
        self._partial: memoryview | None = None
        self._queued = 0
        self._in_flight = 0
        self._blocked = False
        self._pumping = False
        self._closing = False
        self._finished = False
        self._gone = False
        self._straight = True
        self._batch: list[bytes] | None = None
        self._batched = 0
        self._above_high_water = False
        self._holding_reads = False
        self._stall: Patience | None = None
        end_with_peer(transport)
        transport.registerProducer(self, True)

    @property
    def unsent(self) -> int:
        return self._queued + self._in_flight

    def send(self, message: bytes) -> None:
        """
        Write a message and its terminator, or queue it.  After L{close} or the loss of the connection: nothing.
        """
        # _straight is the only thing the common case looks at: nothing waits, nothing is closed, nothing is paused.
        if self._straight and len(message) < SLICE:
            self._pass_on(message + self._end, self._write)
        elif self._batch is not None:
            if self._batched + len(message) >= SLICE:
                self.end_batch()
                self.send(message)
                self.begin_batch()
            else:
                self._batch.append(message + self._end)
                self._batched += len(message) + len(self._end)
        elif not (self._closing or self._gone):
            self._queue.append(message + self._end)
            self._queued += len(message) + len(self._end)
            self._pump()
            self._grown()

    def _pass_on(self, data: bytes, write: Callable[[bytes], None]) -> None:
        write(data)
        if self._blocked and not self._gone:
            self._in_flight += len(data)
            self._grown()

    def begin_batch(self) -> None:
        """
        Write what is sent until L{end_batch} together, in slices: the answers to one chunk of input are one write then,
        not one each.
        """
        if self._straight:
            self._straight = False
            self._batch = []

    def end_batch(self) -> None:
        """
        Write the batch.
        """
        batch, self._batch = self._batch, None
        if batch is None:
            return
        self._straight = True
        self._batched = 0
        if batch:
            self._pass_on(b"".join(batch), self._write_batch)

    def close(self) -> None:
        """
        Take no more, and finish once what waits was taken.  The stall timer bounds this.
        """
        if self._closing or self._gone:
            return
        self.end_batch()
        self._closing = True
        self._straight = False
        self._pump()

    def lost(self) -> None:
        """
        The connection is gone, or is being cut: forget everything and stop the timer (B79).
        """
        self._gone = True
        self._straight = False
        self._batch = None
        self._queue.clear()
        self._partial = None
        self._queued = self._in_flight = 0
        self._stop_stall_timer()

    # IPushProducer, called by the Twisted transport

    def pauseProducing(self) -> None:
        self._blocked = True
        self._straight = False
        if self._stall is None and not self._gone:
            self._start_stall_timer()

    def resumeProducing(self) -> None:
        if self._gone:
            return
        self._blocked = False
        self._in_flight = 0
        self._stop_stall_timer()
        self._pump()
        self._shrunk()

    def stopProducing(self) -> None:
        self.lost()

    # the queue

    def _pump(self) -> None:
        """
        Write slices until the transport asks for a pause or nothing is left.  A transport may pause and resume its
        producer from inside C{write}; the loop then goes on where it is, without recursion.
        """
        if self._pumping:
            return
        self._pumping = True
        self._straight = False
        try:
            while not self._blocked and (self._queue or self._partial is not None):
                piece = self._next_slice()
                self._queued -= len(piece)
                self._write(piece)
                if self._blocked and not self._gone:
                    self._in_flight += len(piece)
        finally:
            self._pumping = False
        if self._blocked or self._gone:
            return
        if not self._closing:
            self._straight = True
        elif not self._finished:
            self._finished = True
            # What the transport still holds is flushed without a word to us, so the timer runs until the end.
            self._transport.unregisterProducer()
            self._start_stall_timer()
            self._owner.output_finished()

    def _next_slice(self) -> bytes:
        rest = self._partial
        if rest is None:
            first = self._queue.popleft()
            if len(first) <= SLICE:
                parts, size = [first], len(first)
                while self._queue and size + len(self._queue[0]) <= SLICE:
                    size += len(self._queue[0])
                    parts.append(self._queue.popleft())
                return b"".join(parts)
            rest = memoryview(first)
        self._partial = rest[SLICE:] if len(rest) > SLICE else None
        return bytes(rest[:SLICE])

    # the marks

    def _grown(self) -> None:
        unsent = self.unsent
        limits = self._limits
        if unsent > limits.max_unsent_bytes:
            self._cut(
                f"the peer does not read: {unsent} bytes wait, Limits.max_unsent_bytes is {limits.max_unsent_bytes}"
            )
            return
        if unsent > limits.pause_reading_bytes and not self._holding_reads:
            self._holding_reads = True
            self._owner.output_held(True)
        if unsent > limits.high_water_bytes and not self._above_high_water:
            self._above_high_water = True
            self._owner.output_paused()

    def _shrunk(self) -> None:
        if self._above_high_water and self.unsent < self._limits.low_water_bytes and not self._gone:
            self._above_high_water = False
            self._owner.output_resumed()
        if self._holding_reads and self.unsent <= self._limits.pause_reading_bytes and not self._gone:
            self._holding_reads = False
            self._owner.output_held(False)

    # the stall timer

    def _start_stall_timer(self) -> None:
        self._stop_stall_timer()
        self._stall = Patience(self._clock, self._limits.stall_timeout, self._stalled)

    def _stop_stall_timer(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _stalled(self) -> None:
        self._stall = None
        seconds = self._limits.stall_timeout
        self._cut(f"the peer took none of the waiting output for {seconds:g} s (Limits.stall_timeout)")

    def _cut(self, why: str) -> None:
        self.lost()
        self._owner.output_overdue(LimitExceeded(why))
