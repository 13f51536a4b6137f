"""
How long something is waited for that should come by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

LATE_SECONDS = 0.5
"""A time that is over so much later than it was due was not waited: the reactor, or the machine, stood still."""


class Patience:
    """
    Runs out when nothing has come for some time.

    Time alone does not tell.  After a stall of the reactor, or a sleep of the machine, what is due is run before what
    has come meanwhile is read, and whoever was waited for may have slept as well.  So a time that was not really waited
    begins anew, and the reactor looks once more at its descriptors before any is over.
    """

    def __init__(self, clock: IReactorTime, seconds: float, over: Callable[[], object]) -> None:
        """
        @param over: called once, unless this is cancelled before.
        """
        self._clock = clock
        self._seconds = seconds
        self._over = over
        self._begin()

    def active(self) -> bool:
        """
        Whether it is still waited.
        """
        return bool(self._call.active())

    def cancel(self) -> None:
        """
        It has come, or nobody waits any more.
        """
        self._call.cancel()

    def reset(self) -> None:
        """
        Some of it has come: wait for all of the time again.
        """
        self._call.cancel()
        self._begin()

    def _begin(self, *, anew: bool = False) -> None:
        self._anew = anew
        self._due = self._clock.seconds() + self._seconds
        self._call: IDelayedCall = self._clock.callLater(self._seconds, self._look_again)

    def _look_again(self) -> None:
        if self._clock.seconds() - self._due > LATE_SECONDS and not self._anew:
            self._begin(anew=True)
        else:
            self._call = self._clock.callLater(0, self._over)
