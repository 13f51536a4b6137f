"""
The link between a conductor and a component in its own process: no bytes are moved, and as little as can be is done.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, LimitExceeded
from acp_twisted.interfaces import IMessageReceiver, IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.transports.patience import Patience

_log = Logger()


@implementer(IMessageTransport)
class InsideTransport:
    """
    One end.  A message that is sent here is delivered at once to the receiver at the other end, unless that one is
    being delivered something, or pauses: then it waits, as it would in a pipe, within the same bounds.

    @ivar unsent: how many bytes of what was sent here wait.
    """

    def __init__(self, receiver: IMessageReceiver, limits: Limits, clock: IReactorTime) -> None:
        self.unsent = 0
        self.other: InsideTransport = self
        self._receiver = receiver
        self._limits = limits
        self._clock = clock
        self._arriving: deque[bytes] = deque()
        self._straight = True
        self._delivering = False
        self._paused = False
        self._closing = False
        self._lost: AcpConnectionError | None = None
        self._told = False
        self._above_high_water = False
        self._stall: IDelayedCall | Patience | None = None

    def send(self, message: bytes) -> None:
        other = self.other
        if self._closing or other._closing:
            return
        if other._straight:
            other._straight = False
            other._delivering = True
            other._hand_over(message)
            other._delivering = False
            other._go_on()
        else:
            other._arriving.append(message)
            self.unsent += len(message)
            self._grown()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.other._go_on()

    def abort(self, reason: str) -> None:
        self._end(AcpConnectionError(reason), AcpConnectionError("the connection was lost"))

    def pauseProducing(self) -> None:
        self._paused = True
        self._straight = False

    def resumeProducing(self) -> None:
        self._paused = False
        self._go_on()

    def stopProducing(self) -> None:
        self.close()

    # inside

    def _hand_over(self, message: bytes) -> None:
        try:
            self._receiver.message_received(message)
        except Exception:
            _log.failure("a receiver failed on a message")

    def _go_on(self) -> None:
        """
        Deliver what waits, as far as the receiver takes it; then what is behind it: the end.
        """
        if self._delivering:
            return
        sender = self.other
        self._delivering = True
        while self._arriving and not self._paused and self._lost is None:
            message = self._arriving.popleft()
            sender.unsent -= len(message)
            sender._stop_watching()
            if not self._closing:  # who has closed hears nothing more
                self._hand_over(message)
            sender._shrunk()
        self._delivering = False
        if self._lost is not None:
            self._tell()
        elif not self._arriving:
            self._straight = not self._paused
            if sender._closing:
                closed = AcpConnectionError("the connection was closed")
                self._end(AcpConnectionError("the peer closed the connection"), closed)
        else:
            sender._watch()  # the receiver took some, and pauses again

    def _grown(self) -> None:
        limits = self._limits
        if self.unsent > limits.max_unsent_bytes:
            self._cut_later(f"the peer does not read: Limits.max_unsent_bytes is {limits.max_unsent_bytes}")
        elif self.unsent > limits.high_water_bytes and not self._above_high_water:
            self._above_high_water = True
            self._receiver.writing_paused()
        self._watch()

    def _shrunk(self) -> None:
        if self._above_high_water and self.unsent < self._limits.low_water_bytes and self._lost is None:
            self._above_high_water = False
            self._receiver.writing_resumed()

    def _watch(self) -> None:
        if self._stall is None and self.other._arriving and self.other._paused and self._lost is None:
            seconds = self._limits.stall_timeout
            why = f"the peer took none of the waiting output for {seconds:g} s (Limits.stall_timeout)"
            self._stall = Patience(self._clock, seconds, partial(self._cut, why))

    def _stop_watching(self) -> None:
        stall, self._stall = self._stall, None
        if stall is not None and stall.active():
            stall.cancel()

    def _cut_later(self, why: str) -> None:
        """
        Not from inside the caller's C{send}.
        """
        self._closing = True
        self._stop_watching()
        self._stall = self._clock.callLater(0, self._cut, why)

    def _cut(self, why: str) -> None:
        reason = LimitExceeded(why)
        self._end(AcpConnectionError(why, Failure(reason)), AcpConnectionError("the connection was lost"))

    def _end(self, mine: AcpConnectionError, others: AcpConnectionError) -> None:
        for end, why in ((self, mine), (self.other, others)):
            if end._lost is None:
                end._lost = why
            end._closing = True
            end._straight = False
            end._stop_watching()
        for end in (self, self.other):
            if not end._delivering:
                end._tell()

    def _tell(self) -> None:
        if self._told or self._lost is None:
            return
        self._told = True
        self._arriving.clear()
        self.unsent = 0
        with _log.failuresHandled("a receiver failed at the end of its connection"):
            self._receiver.connection_lost(Failure(self._lost))


def join(one: IMessageReceiver, other: IMessageReceiver, limits: Limits, clock: IReactorTime) -> None:
    """
    Connect two receivers of one process.
    """
    here, there = InsideTransport(one, limits, clock), InsideTransport(other, limits, clock)
    here.other, there.other = there, here
    here._straight = there._straight = False  # nothing arrives before both know of their link
    one.connection_made(here)
    other.connection_made(there)
    here._go_on()
    there._go_on()
