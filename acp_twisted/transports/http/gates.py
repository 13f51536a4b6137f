"""
Answers for the connection's stream that must not overtake what was sent before them on a session's.
"""

from __future__ import annotations

from typing import Protocol

from attrs import define

from acp_twisted.transports.http.sse import EventStream


class GateOwner(Protocol):
    """
    The connection that an answer belongs to.
    """

    def stream_grown(self, size: int) -> None:
        """
        C{size} more bytes are kept, or fewer where it is negative.
        """

    def gate_opened(self, message: bytes, behind: int) -> None:
        """
        An answer is to be pushed, which comes behind the mark of that number.
        """


@define(eq=False)
class _Gated:
    """
    An answer that waits until a stream has written so many events.

    @ivar kept: what it is counted for.
    """

    message: bytes
    mark: int
    before: EventStream
    position: int
    kept: int = 0

    def is_open(self) -> bool:
        return not self.before.has_reader or self.before.is_out(self.position)


class Gates:
    """
    Keeps the order as far as a server can, which is up to its sockets, and marks it for clients that know more.
    """

    def __init__(self, owner: GateOwner) -> None:
        self._owner = owner
        self._marks = 0
        self._waiting: list[_Gated] = []

    def __bool__(self) -> bool:
        """
        Whether any answer waits.
        """
        return bool(self._waiting)

    def put(self, message: bytes, before: EventStream) -> None:
        """
        Push an answer once all that was sent on C{before} is out.  What nobody reads is not waited for.
        """
        mark = 0
        if before.has_reader or not before.is_empty:
            mark = self._marks = self._marks + 1
            before.mark(mark)
        gated = _Gated(message, mark, before, before.pushed)
        if gated.is_open():
            self._owner.gate_opened(message, gated.mark)
        else:
            self._waiting.append(gated)
            gated.kept = len(message)
            self._owner.stream_grown(gated.kept)

    def look(self) -> None:
        """
        A stream has written something, or its reader has changed.
        """
        for each in list(self._waiting):
            if each in self._waiting and each.is_open():
                self._let_through(each)

    def close(self) -> None:
        """
        Push all that waits.
        """
        for each in list(self._waiting):
            self._let_through(each)

    def drop(self) -> None:
        """
        Forget what waits.
        """
        self._waiting = []

    def _let_through(self, gated: _Gated) -> None:
        kept, gated.kept = gated.kept, 0
        self._owner.stream_grown(-kept)
        if gated in self._waiting:  # else whoever was told of the room has closed the connection, and let it through
            self._waiting.remove(gated)
            self._owner.gate_opened(gated.message, gated.mark)
