"""
Answers for the connection's stream that must not overtake what was sent before them on a session's.
"""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

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


@frozen
class _Gated:
    """
    An answer that waits until a stream has written so many events.
    """

    message: bytes
    mark: int
    before: EventStream
    position: int

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
            self._owner.stream_grown(len(message))

    def look(self) -> None:
        """
        A stream has written something, or its reader has changed.
        """
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.is_open():
                self._let_through(each)
            else:
                self._waiting.append(each)

    def close(self) -> None:
        """
        Push all that waits.
        """
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._let_through(each)

    def drop(self) -> None:
        """
        Forget what waits.
        """
        self._waiting = []

    def _let_through(self, gated: _Gated) -> None:
        self._owner.stream_grown(-len(gated.message))
        self._owner.gate_opened(gated.message, gated.mark)
