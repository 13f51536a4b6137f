"""
How long the output of a process is read once the process is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from acp_twisted.transports.patience import Wait

DRAIN_SECONDS = 0.1
"""How long it has to be silent to count as ended; whatever comes starts this anew."""


class Drain(Wait):
    """
    Waits until nothing more comes out of a pipe.  Its end may never come: what the process has left behind may keep it
    open (B67).
    """

    def __init__(self, clock: IReactorTime, silent: Callable[[], object]) -> None:
        """
        @param silent: called once, when nothing has come for L{DRAIN_SECONDS}.
        """
        super().__init__(clock, DRAIN_SECONDS, silent)

    def more(self) -> None:
        """
        Something came out of the pipe.
        """
        if self.active():
            self.reset()

    def stop(self) -> None:
        """
        Nobody waits any more.
        """
        if self.active():
            self.cancel()
