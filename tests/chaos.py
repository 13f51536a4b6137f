"""
A reactor without habits: events arrive in any order that the kernel could have chosen, late, and in pieces of any size.

C{pytest --chaos 7 …} runs tests under it (7 is the seed).  A test that then fails took something for granted that only
this machine's timing gives: that a process's end is seen with the end of its output, say, or that two messages are read
at once.  Nothing that it does is impossible under the plain reactor; it only makes the rare likely.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

from twisted.internet import fdesc, process, tcp
from twisted.internet.epollreactor import EPollReactor

HELD_BACK = 0.2
HOLDS = (0.001, 0.005, 0.02, 0.05)
PIECES = (1, 7, 100, 4096)
IN_PIECES = 0.15


class UnfairPoller:
    """
    An epoll object that keeps a ready descriptor to itself now and then, for up to 50 ms.

    Epoll is asked by level: what is held back now is reported again.
    """

    def __init__(self, inner: Any, dice: random.Random) -> None:
        self._inner = inner
        self._dice = dice
        self._held: dict[int, float] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def unregister(self, fd: int) -> None:
        self._held.pop(fd, None)
        self._inner.unregister(fd)

    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
        """
        Some of what is ready, in any order.
        """
        now = time.monotonic()
        ready = self._inner.poll(timeout, most)
        self._dice.shuffle(ready)
        delivered = [(fd, event) for fd, event in ready if not self._holds(fd, now)]
        if ready and not delivered:
            time.sleep(0.0005)
        return delivered

    def _holds(self, fd: int, now: float) -> bool:
        until = self._held.get(fd)
        if until is not None:
            if now < until:
                return True
            del self._held[fd]
            return False
        if self._dice.random() < HELD_BACK:
            self._held[fd] = now + self._dice.choice(HOLDS)
            return True
        return False


def install(seed: int) -> None:
    """
    Make every reactor of this process unfair; to be called before the first one is made.
    """
    dice = random.Random(seed)
    any_reactor: Any = EPollReactor
    connection: Any = tcp.Connection
    writers: tuple[Any, ...] = connection, process.ProcessWriter
    any_fdesc: Any = fdesc
    plain_init = EPollReactor.__init__

    def most(usual: int) -> int:
        return dice.choice(PIECES) if dice.random() < IN_PIECES else usual

    def init(self: Any) -> None:
        plain_init(self)
        self._poller = UnfairPoller(self._poller, dice)

    def short(plain: Any) -> Any:
        def write(self: Any, data: Any) -> Any:
            return plain(self, data[: most(len(data))])

        return write

    class ShortReads:
        """
        The module os, as fdesc sees it.
        """

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def read(self, fd: int, size: int) -> bytes:
            return os.read(fd, most(size))

    any_reactor.__init__ = init
    any_fdesc.os = ShortReads()
    connection.bufferSize = property(lambda self: most(65536))
    for writer in writers:
        writer.writeSomeData = short(writer.writeSomeData)
