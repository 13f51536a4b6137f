"""
What is kept for somebody who has not asked for it yet, within bounds (design rule 6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from twisted.logger import Logger

_T = TypeVar("_T")
_log = Logger()


class Kept(Generic[_T]):
    """
    A queue that knows its length and its bytes on the wire.

    @param what: what is kept here, for the log.
    """

    def __init__(self, what: str, max_items: int, max_bytes: int) -> None:
        self._what = what
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._items: deque[tuple[_T, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[_T]:
        return (item for item, _ in self._items)

    @property
    def over(self) -> bool:
        """
        Whether it holds more than it should.
        """
        return len(self._items) > self._max_items or self._bytes > self._max_bytes

    @property
    def half_empty(self) -> bool:
        """
        Whether there is room again.
        """
        return len(self._items) <= self._max_items // 2 and self._bytes <= self._max_bytes // 2

    def add(self, item: _T, size: int) -> None:
        """
        Put C{item} behind the others, within the bounds or not.
        """
        self._items.append((item, size))
        self._bytes += size

    def pop(self) -> _T:
        """
        Take the oldest.
        """
        item, size = self._items.popleft()
        self._bytes -= size
        return item

    def shrink(self) -> int:
        """
        Drop the oldest until the rest is within the bounds.

        @return: how many that were.
        """
        dropped = 0
        while self.over:
            self.pop()
            dropped += 1
        if dropped:
            _log.warn(
                "{count} {what} dropped: nobody took them, and there are too many", count=dropped, what=self._what
            )
        return dropped

    def take(self) -> list[_T]:
        """
        Take all.
        """
        items = list(self)
        self._items.clear()
        self._bytes = 0
        return items
