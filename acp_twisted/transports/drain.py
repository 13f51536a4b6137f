"""
How long the output of a process is read once the process is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

DRAIN_SECONDS = 0.1
"""How long it has to be silent to count as ended; whatever comes starts this anew."""


class Drain:
    """
    Waits until nothing more comes out of a pipe.  Its end may never come: what the process has left behind may keep it
    open (B67).

    Time alone does not tell.  After a stall the reactor runs what is due before it reads what has come meanwhile, so
    the silence counts only when the reactor has looked at the pipe once more.
    """

    def __init__(self, clock: IReactorTime, silent: Callable[[], object]) -> None:
        """
        @param silent: called once, when nothing has come for L{DRAIN_SECONDS}.
        """
        self._clock = clock
        self._silent = silent
        self._call: IDelayedCall = clock.callLater(DRAIN_SECONDS, self._look_again)

    def more(self) -> None:
        """
        Something came out of the pipe.
        """
        if self._call.active():
            self._call.cancel()
            self._call = self._clock.callLater(DRAIN_SECONDS, self._look_again)

    def stop(self) -> None:
        """
        Nobody waits any more.
        """
        if self._call.active():
            self._call.cancel()

    def _look_again(self) -> None:
        self._call = self._clock.callLater(0, self._silent)
