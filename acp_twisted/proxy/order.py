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


@define(eq=False)
class _Entry:
    """
    A request that is still here (C{go} is L{None}), or something that waits behind one.
    """

    go: Callable[[], object] | None = None
    moved: bool = False


class Order:
    """
    The order of what passes on one link.

    @param limit: how many messages may wait.
    @param pause: called when that many do.
    @param resume: called when half as many do.
    """

    def __init__(self, limit: int, pause: Callable[[], object], resume: Callable[[], object]) -> None:
        self._limit = limit
        self._pause = pause
        self._resume = resume
        self._queues: dict[Hashable, deque[_Entry]] = {}
        self._count = 0

    def run(self, lane: Hashable, go: Callable[[], object]) -> None:
        """
        Pass something on, now or in its turn.
        """
        queue = self._queues.get(lane)
        if queue is None:
            go()
            return
        queue.append(_Entry(go))
        self._count += 1
        if self._count == self._limit:
            self._pause()

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
                if self._count == self._limit // 2:
                    self._resume()
                entry.go()
        if queue is not None and not queue and self._queues.get(lane) is queue:
            del self._queues[lane]


@define(frozen=True)
class Place:
    """
    Where a message stands: whose order it keeps.
    """

    order: Order
    lane: Hashable

    def run(self, go: Callable[[], object]) -> None:
        """
        See L{Order.run}.
        """
        self.order.run(self.lane, go)
