"""
The requests that open a session again, of which several may be out at once.
"""

from __future__ import annotations

from collections.abc import Callable


class Openings:
    """
    Knows whether a session is there yet, or still, while the requests that open it are answered or refused.
    """

    def __init__(self) -> None:
        self._kept = False
        self._pending = 0

    def begin(self, known: bool, replayed: bool, tell: Callable[..., object]) -> Callable[[bool], bool]:
        """
        C{session/load} or C{session/resume} is about to be sent.

        @param known: whether the session was there before.
        @param replayed: whether the conversation comes again.
        @param tell: gets the news for the session's followers: an event's name, and what it has to say.
        @return: to be called when it is answered, with whether the agent did it.  It says whether the session is none:
            it was not there, and no such request has opened it, or may still do so.
        """
        self._kept = self._kept or (known and not self._pending)
        self._pending += 1
        if replayed:
            tell("replay_began")

        def answered(done: bool) -> bool:
            self._pending -= 1
            self._kept = self._kept or done
            if replayed:
                tell("replay_ended", done)
            return not (self._kept or self._pending)

        return answered
