"""
What passes keeps its place behind a request whose handler has not passed it on yet.

Nobody waits for the handler of a request: a handler of C{session/cancel} is told at once, whatever the prompt's is
doing.  But if the prompt itself was still here and C{session/cancel} went on, the agent would find nothing to cancel
and then begin.  So what is only passed on waits, within its session, until the request before it has gone on or was
answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

from attrs import define

from acp_twisted.limits import Limits

PATIENCE = 8
"""How much more than its limits may wait while a handler waits for an answer, which comes behind it on the link."""


@define(eq=False)
class _Entry:
    """
    A request that is still here (C{go} is L{None}), or something that waits behind one.
    """

    go: Callable[[], object] | None = None
    size: int = 0
    moved: bool = False


class Order:
    """
    The order of what passes on one link.

    @param limits: how many messages may wait, and how many bytes of them.
    @param pause: called when more do; while a handler waits for an answer, when far more do.
    @param resume: called when half as many do, or a handler begins to wait for an answer.
    """

    def __init__(self, limits: Limits, pause: Callable[[], object], resume: Callable[[], object]) -> None:
        self._limits = limits
        self._pause = pause
        self._resume = resume
        self._queues: dict[Hashable, deque[_Entry]] = {}
        self._count = 0
        self._bytes = 0
        self._asked = 0
        self._paused = False

    def run(self, lane: Hashable, go: Callable[[], object], size: int = 0) -> None:
        """
        Pass something on, now or in its turn.

        @param size: its bytes.
        """
        queue = self._queues.get(lane)
        if queue is None:
            go()
            return
        queue.append(_Entry(go, size))
        self._count += 1
        self._bytes += size
        self._check()

    def _check(self) -> None:
        if not self._paused and self._more_than(PATIENCE if self._asked else 1):
            self._paused = True
            self._pause()

    def _more_than(self, share: float) -> bool:
        limits = self._limits
        return self._count > share * limits.max_queued_messages or self._bytes > share * limits.max_queued_bytes

    def asked(self) -> None:
        """
        A handler waits for an answer that is to come by this link: it is read on until that is there.
        """
        self._asked += 1
        if not self._more_than(PATIENCE):
            self._read_on()

    def answered(self) -> None:
        """
        It is there, or not waited for any more.
        """
        self._asked -= 1
        self._check()

    def _read_on(self) -> None:
        if self._paused:
            self._paused = False
            self._resume()

    def stay(self, lane: Hashable) -> Callable[[], None]:
        """
        A request stays here for now.

        @return: to be called once it has gone on, or never will.
        """
        entry = _Entry()
        self._queues.setdefault(lane, deque()).append(entry)

        def move() -> None:
            if not entry.moved:
                entry.moved = True
                self._pump(lane)

        return move

    def _pump(self, lane: Hashable) -> None:
        queue = self._queues.get(lane)
        while queue and (queue[0].moved or queue[0].go is not None):
            entry = queue.popleft()
            if entry.go is not None:
                self._count -= 1
                self._bytes -= entry.size
                if not self._more_than(0.5):
                    self._read_on()
                entry.go()
        if queue is not None and not queue and self._queues.get(lane) is queue:
            del self._queues[lane]


@define(frozen=True)
class Place:
    """
    Where a message stands: whose order it keeps, and how many bytes it has.
    """

    order: Order
    lane: Hashable
    size: int = 0

    def run(self, go: Callable[[], object]) -> None:
        """
        See L{Order.run}.
        """
        self.order.run(self.lane, go, self.size)
