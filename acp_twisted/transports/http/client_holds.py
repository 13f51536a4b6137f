"""
Answers that have come, and are delivered a little later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from acp_twisted.limits import Limits
from acp_twisted.transports.http.client_streams import EventStream
from acp_twisted.transports.http.inbox import Inbox

QUIET_SECONDS: Final = 0.1
"""
An answer that comes over the connection's stream, and belongs to a session whose own stream is open (that of
C{session/load}), is delivered once the session's stream has brought nothing for so long: the updates before it have a
way of their own.
"""

QUIET_TURNS: Final = 5
"""And for so many turns of the reactor: on a busy machine the time may be over before anybody has looked."""

MAX_QUIET_SECONDS: Final = 2.0
"""How long it waits at most."""


@define(eq=False)
class _Held:
    """
    An answer that waits.

    @ivar stream: the stream that has brought what comes before it, or will.
    @ivar behind: the number of the mark that will come over it; 0 when there is none.
    @ivar opened: how often the stream had been asked for.
    @ivar until: when the answer is delivered in any case.
    @ivar looked: when this was last looked at.
    @ivar since: from when on the stream may count as silent.
    @ivar heard: when it had last brought something.
    @ivar turns: for how many turns of the reactor it has been silent for long enough.
    """

    message: bytes
    stream: EventStream
    behind: int
    opened: int
    until: float
    looked: float
    since: float
    heard: float
    turns: int = 0


class Holds:
    """
    Has each of them delivered behind what was sent before it.

    A server of ours marks where that is (see L{marks<acp_twisted.transports.http.marks>}).  With any other there is
    only the silence of the stream to go by.
    """

    def __init__(self, inbox: Inbox, limits: Limits, clock: IReactorTime) -> None:
        self._inbox = inbox
        self._limits = limits
        self._clock = clock
        self._timers: dict[IDelayedCall, bytes] = {}
        self._behind: dict[_Held, IDelayedCall] = {}

    def later(self, message: bytes) -> None:
        """
        Deliver a message in the next turn of the reactor.
        """
        self._call(0, message, lambda: self._inbox.put(message))

    def put(self, message: bytes, stream: EventStream, behind: int) -> None:
        """
        Deliver an answer behind what comes over C{stream}.

        @param behind: the number of the mark that the server has put there; 0 if it has put none.
        """
        if behind and stream.mark >= behind:
            self._inbox.put(message)
            return
        now = self._clock.seconds()
        until = now + (self._limits.stall_timeout if behind else MAX_QUIET_SECONDS)
        held = _Held(message, stream, behind, stream.opened, until, now, now, stream.last_heard)
        self._look_again(held, QUIET_SECONDS)

    def marked(self, stream: EventStream) -> None:
        """
        A mark has come over a stream.
        """
        for held in list(self._behind):
            if held.stream is stream and held.behind and stream.mark >= held.behind:
                timer = self._behind.pop(held, None)
                if timer is not None:
                    timer.cancel()
                    self._inbox.put(self._timers.pop(timer))

    def resumed(self) -> None:
        """
        What the streams have is read again from now on.
        """
        now = self._clock.seconds()
        for held in self._behind:
            held.since, held.turns = now, 0

    def flush(self) -> None:
        """
        Deliver all of them now.
        """
        timers, self._timers = self._timers, {}
        self._behind.clear()
        for timer, message in timers.items():
            timer.cancel()
            self._inbox.put(message)

    def forget(self) -> None:
        """
        Deliver none of them.
        """
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._behind.clear()

    # ---- inside

    def _call(self, seconds: float, message: bytes, then: Callable[[], None]) -> IDelayedCall:
        def called() -> None:
            del self._timers[timer]
            then()

        timer = self._clock.callLater(seconds, called)
        self._timers[timer] = message
        return timer

    def _look_again(self, held: _Held, seconds: float) -> None:
        self._behind[held] = self._call(seconds, held.message, lambda: self._look(held))

    def _look(self, held: _Held) -> None:
        del self._behind[held]
        now = self._clock.seconds()
        if self._inbox.paused:
            # Nothing is read meanwhile, so that nothing comes is no sign.
            held.until += now - held.looked
            held.since, held.turns = now, 0
        else:
            # Nor was anything read while the reactor, or the machine, stood still.
            held.until += max(0.0, now - held.looked - QUIET_SECONDS)
        held.looked = now
        if held.stream.closed or now >= held.until:
            self._inbox.put(held.message)
        elif held.behind:
            self._look_for_mark(held, now)
        else:
            self._look_for_silence(held, now)

    def _look_for_mark(self, held: _Held, now: float) -> None:
        if held.stream.opened != held.opened:
            # It was cut.  The mark may be lost with what was on its way, or be among what the server has kept.
            held.opened = held.stream.opened
            held.until = min(held.until, now + MAX_QUIET_SECONDS)
        self._look_again(held, QUIET_SECONDS)

    def _look_for_silence(self, held: _Held, now: float) -> None:
        # Rounded: what is less than a clock can count would be waited for again and again.
        rest = round(QUIET_SECONDS - (now - max(held.stream.last_heard, held.since)), 6)
        if held.stream.last_heard != held.heard:
            held.heard, held.turns = held.stream.last_heard, 0
        if rest <= 0 and held.turns >= QUIET_TURNS:
            self._inbox.put(held.message)
            return
        held.turns = held.turns + 1 if rest <= 0 else 0
        self._look_again(held, max(rest, 0))
