"""
Twisted's own child process, in a session of its own.

C{reactor.spawnProcess} has no option for that, and the group must be the child's own before it runs a line of its
program, for a signal to a group that we share would hit ourselves (B66).  A launcher between would cost a start-up and
one more program to be missing, so this uses the hook that Twisted's C{Process} leaves to subclasses, C{_setupChild},
which runs in the child between fork and exec.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

from twisted.internet.interfaces import IProcessProtocol
from twisted.internet.process import Process

from acp_twisted.transports.command import AgentCommand


class _SessionProcess(Process):
    """
    A child that leads its own session and process group.
    """

    def _trySpawnInsteadOfFork(self, *args: Any) -> bool:
        # posix_spawn would pass the hook by.
        return False

    def _setupChild(self, fdmap: dict[int, int]) -> None:
        os.setsid()
        super()._setupChild(fdmap)  # type: ignore[no-untyped-call]


class _OneOutputProcess(_SessionProcess):
    """
    One that has the same pipe for both of its outputs, as a program at a terminal has the same terminal.
    """

    def _setupChild(self, fdmap: dict[int, int]) -> None:
        super()._setupChild(fdmap)
        os.dup2(1, 2)


def start(
    reactor: object,
    executable: str,
    command: AgentCommand,
    environment: Mapping[str, str],
    protocol: IProcessProtocol,
    *,
    one_output: bool = False,
) -> None:
    """
    Start a program with pipes on its three standard descriptors.

    @param reactor: provides L{twisted.internet.interfaces.IReactorFDSet}.
    @param executable: its absolute path.
    @param one_output: whether its standard error goes where its standard output does.  Of two pipes nobody can tell
        which was written to first, and what is read of one may end in the middle of a line, or of a character.
    @raise OSError: when the system has no process or no pipe left.
    """
    with warnings.catch_warnings():
        # Python 3.12 warns of any fork in a process with threads.  The child only execs.
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        kind = _OneOutputProcess if one_output else _SessionProcess
        kind(  # type: ignore[no-untyped-call]
            reactor,
            os.fsencode(executable),
            [os.fsencode(word) for word in command.argv],
            {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
            None if command.cwd is None else os.fsencode(command.cwd),
            protocol,
            childFDs={0: "w", 1: "r"} if one_output else None,
        )
