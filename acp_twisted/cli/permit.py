"""
What the one-shot client answers when the agent asks for permission.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TextIO, TypeAlias

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.cli.report import plain
from acp_twisted.schema import v1

Permit: TypeAlias = (
    "Callable[[v1.RequestPermissionRequest], v1.RequestPermissionResponse | Deferred[v1.RequestPermissionResponse]]"
)


def answer(option_id: str | None) -> v1.RequestPermissionResponse:
    """
    The user's choice; L{None} is none.
    """
    outcome: object = v1.CancelledPermissionOutcome()
    if option_id is not None:
        outcome = v1.SelectedPermissionOutcome(option_id=option_id)
    return v1.RequestPermissionResponse(outcome=outcome)  # type: ignore[arg-type]


def first_of(kind: str) -> Permit:
    """
    Choose the first option whose kind begins so; if there is none, C{cancelled}.
    """

    def choose(request: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
        fitting = (each.option_id for each in request.options if each.kind.startswith(kind))
        return answer(next(fitting, None))

    return choose


def hold(request: v1.RequestPermissionRequest) -> Deferred[v1.RequestPermissionResponse]:
    """
    Never answer: the library does when the turn is cancelled.
    """
    return Deferred()


@implementer(IReadDescriptor)
class Asker:
    """
    Asks at the terminal, one question after another.

    It reads only while it asks, only what is there, and leaves the terminal's blocking mode alone, for standard output
    and standard error share that.
    """

    def __init__(self, reactor: Any, fd: int, err: TextIO) -> None:
        """
        @param reactor: provides L{twisted.internet.interfaces.IReactorFDSet}.
        @param fd: where the answers are read.
        @param err: where the questions are asked.
        """
        self._reactor = reactor
        self._fd = fd
        self._err = err
        self._buffer = b""
        self._over = False
        self._reading = False
        self._open: deque[tuple[v1.RequestPermissionRequest, Deferred[v1.RequestPermissionResponse]]] = deque()

    def ask(self, request: v1.RequestPermissionRequest) -> Deferred[v1.RequestPermissionResponse]:
        """
        Ask the user.  The end of the input is the answer C{cancelled}.
        """
        asked: Deferred[v1.RequestPermissionResponse] = Deferred(self._withdrawn)
        self._open.append((request, asked))
        if len(self._open) == 1:
            self._next()
        return asked

    def _withdrawn(self, asked: Deferred[v1.RequestPermissionResponse]) -> None:
        first = bool(self._open) and self._open[0][1] is asked
        self._open = deque(each for each in self._open if each[1] is not asked)
        if first:
            self._err.write("\n")
            self._next()

    def _next(self) -> None:
        """
        Put the first open question, or stop reading.
        """
        if self._over:
            while self._open:
                self._open.popleft()[1].callback(answer(None))
        if not self._open:
            self._stop()
            return
        self._put(self._open[0][0])
        if b"\n" in self._buffer:
            self._reactor.callLater(0, self._lines)
        elif stat.S_ISREG(os.fstat(self._fd).st_mode):
            self._reactor.callLater(0, self.doRead)  # a file is always readable, and epoll will not have it
        elif not self._reading:
            self._reading = True
            self._reactor.addReader(self)

    def _put(self, request: Any) -> None:
        title = getattr(request, "title", None)  # version 2 has one for the question
        if title is None:
            title = request.tool_call.title or request.tool_call.tool_call_id
        lines = [f"The agent asks for permission: {plain(title)}"]
        lines += [f"  {number}  {plain(each.name)}" for number, each in enumerate(request.options, 1)]
        self._err.write("\n".join(lines) + f"\n{self._prompt(request.options)}")
        self._err.flush()

    @staticmethod
    def _prompt(options: Sequence[v1.PermissionOption]) -> str:
        return f"1-{len(options)}, or an empty line for none of them: "

    def _lines(self) -> None:
        while self._open and b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            request, asked = self._open[0]
            word = line.decode(errors="replace").strip()
            if not word:
                chosen = None
            elif word.isascii() and word.isdigit() and 0 < int(word[:9]) <= len(request.options):
                chosen = request.options[int(word[:9]) - 1].option_id
            else:
                self._err.write(self._prompt(request.options))
                self._err.flush()
                continue
            asked.callback(answer(chosen))  # first, so that who asks again from there waits for his turn
            self._open.popleft()
            if self._open:
                self._put(self._open[0][0])
        if not self._open:
            self._stop()

    def _stop(self) -> None:
        if self._reading:
            self._reading = False
            self._reactor.removeReader(self)

    # IReadDescriptor

    def fileno(self) -> int:
        return self._fd

    def logPrefix(self) -> str:
        return "permission"

    def doRead(self) -> None:
        try:
            data = os.read(self._fd, 4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._buffer += data
            self._lines()
            if self._open and not self._reading:
                self._reactor.callLater(0, self.doRead)
            return
        self._over = True
        self._next()

    def connectionLost(self, reason: Failure) -> None:
        self._reading = False
        self._over = True
        self._next()
