"""
Updates on their way to somebody who reads them one by one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred

from acp_twisted.client.kept import Kept
from acp_twisted.errors import LimitExceeded
from acp_twisted.limits import Limits

_T = TypeVar("_T")


class UpdateQueue(Generic[_T]):
    """
    What a turn or a prompt brought, for one reader.

    @ivar ended: whether nothing more comes.
    """

    def __init__(self, what: str, limits: Limits) -> None:
        """
        @param what: what is kept here, for the log.
        """
        self._kept: Kept[_T] = Kept(what, limits.max_turn_updates, limits.max_queued_bytes)
        self._missed = 0
        self._read = False
        self._hurried = 0
        self._arrival: Deferred[None] | None = None
        self._room: Deferred[object] | None = None
        self.ended = False

    async def read(self) -> AsyncIterator[_T]:
        """
        The updates in order, until the end.  The agent is slowed down to the reader's pace.

        @raise LimitExceeded: when more than C{Limits.max_turn_updates}, or C{Limits.max_queued_bytes} of them, passed
            before anybody read, or while they might not wait (L{hurry}).
        """
        self._check()
        self._read = True
        try:
            while True:
                while self._kept:
                    update = self._kept.pop()
                    if self._room is not None and self._kept.half_empty:
                        self._make_room()
                    yield update
                    self._check()
                if self.ended:
                    return
                self._arrival = Deferred()
                await self._arrival
                self._check()
        finally:
            # A reader that leaves early must not hold up what comes behind the updates.
            self._read = False
            self._make_room()

    def _check(self) -> None:
        if self._missed:
            raise LimitExceeded(f"{self._missed} updates passed before anybody read them (max_turn_updates)")

    def hurry(self) -> Callable[[], None]:
        """
        Hold up nobody, as if nobody read: the reader can't go on before something comes that is behind the updates.

        @return: takes that back.
        """
        self._hurried += 1
        self._make_room()
        return self._no_hurry

    def _no_hurry(self) -> None:
        self._hurried -= 1

    def put(self, update: _T, size: int) -> Deferred[object] | None:
        """
        An update came, of C{size} bytes.

        @return: what fires when there is room for another.
        """
        self._kept.add(update, size)
        self._wake()
        if not self._kept.over:
            return None
        if self._hurried or not self._read:
            # Nobody reads, and somebody may wait for what comes after these: they can't stop the line.
            self._missed += self._kept.shrink()
            return None
        self._room = Deferred()
        return self._room

    def end(self) -> None:
        """
        Nothing more comes.
        """
        self.ended = True
        self._make_room()
        self._wake()

    def _make_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.callback(None)

    def _wake(self) -> None:
        arrival, self._arrival = self._arrival, None
        if arrival is not None and not arrival.called:
            arrival.callback(None)
