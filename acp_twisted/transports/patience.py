"""
How long something is waited for that should come by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

LATE_SECONDS = 0.5
"""A time that is over so much later than it was due was not waited: the reactor, or the machine, stood still."""


class Wait:
    """
    Runs out when nothing has come for some time.

    Time alone does not tell.  After a stall the reactor runs what is due before it reads what has come meanwhile, so it
    looks once more at its descriptors before the time is over.
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

    def _begin(self) -> None:
        self._call: IDelayedCall = self._clock.callLater(self._seconds, self._look_again)

    def _look_again(self) -> None:
        self._call = self._clock.callLater(0, self._over)


class Patience(Wait):
    """
    One that is fair to whoever is waited for, who may have slept as well: a time that was not really waited, because of
    a stall of the reactor or a sleep of the machine, begins anew.  It does so once: a reactor that is always late must
    get rid of its peers too.
    """

    _anew = False

    def _begin(self) -> None:
        self._anew = False
        self._due = self._clock.seconds() + self._seconds
        super()._begin()

    def _look_again(self) -> None:
        if self._clock.seconds() - self._due > LATE_SECONDS and not self._anew:
            self._begin()
            self._anew = True
        else:
            super()._look_again()
