"""
The program of an agent: what to start, in which directory, with which environment.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from attrs import field, frozen

from acp_twisted.errors import AgentStartError

SAFE_VARIABLES: tuple[str, ...] = (
    (
        "APPDATA",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "USERNAME",
        "USERPROFILE",
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)
"""
What an agent gets of our environment when it does not inherit all of it.
"""


def _to_argv(argv: Iterable[str]) -> tuple[str, ...]:
    if isinstance(argv, (str, bytes)):
        raise TypeError("argv is a list of strings; a command line is not split here")
    words = tuple(argv)
    if not words:
        raise ValueError("argv names no program")
    return words


@frozen
class AgentCommand:
    """
    How to start an agent.

    @ivar argv: the program and its arguments.  Nothing is split or expanded: there is no shell.  A program without a
        slash is looked for on the PATH of C{env}.
    @ivar cwd: its working directory; by default ours.
    @ivar env: changes to the environment; L{None} unsets a variable.  Never shown in a C{repr}, for it may hold keys.
    @ivar inherit_env: whether it starts from our whole environment, or from L{SAFE_VARIABLES} alone.
    @ivar on_stderr: called with each line that it writes to standard error.
    """

    argv: tuple[str, ...] = field(converter=_to_argv)
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str | None] | None = field(default=None, repr=False)
    inherit_env: bool = True
    on_stderr: Callable[[str], object] | None = field(default=None, repr=False)

    def environment(self, ours: Mapping[str, str] | None = None) -> dict[str, str]:
        """
        The whole environment of the program, spelled out (B70).

        @param ours: what it inherits from; by default C{os.environ}.
        """
        ours = os.environ if ours is None else ours
        if self.inherit_env:
            result = dict(ours)
        else:
            # Bash exports functions as variables whose values begin so; they are code.
            result = {name: ours[name] for name in SAFE_VARIABLES if name in ours and not ours[name].startswith("()")}
        for name, value in (self.env or {}).items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = value
        return result

    def executable(self, environment: Mapping[str, str]) -> str:
        """
        The absolute path of the program, found now, so that what is missing is an error now (B69).

        @raise AgentStartError: when it, or C{cwd}, is missing or can't be used.
        """
        program = self.argv[0]
        directory = Path.cwd() if self.cwd is None else Path(self.cwd)
        if any("\0" in text for text in (*self.argv, str(directory), *environment, *environment.values())):
            raise self.failed("a NUL character in an argument, the directory or the environment")
        if not directory.is_dir():
            raise self.failed(f"there is no directory {str(directory)!r} to run it in")
        if not os.access(directory, os.X_OK):
            raise self.failed(f"the directory {str(directory)!r} may not be entered")
        if os.path.dirname(program):
            path = Path(os.path.abspath(directory / program))
            if not path.exists():
                raise self.failed("there is no such file")
            if path.is_dir():
                raise self.failed("it is a directory")
            if not os.access(path, os.X_OK):
                raise self.failed("the file is not executable")
            return str(path)
        found = shutil.which(program, path=environment.get("PATH", os.defpath))
        if found is None:
            raise self.failed("there is no such command on the PATH")
        return os.path.abspath(found)

    def failed(self, why: str) -> AgentStartError:
        """
        The error that says why this command could not be started.
        """
        return AgentStartError(f"could not start the agent {self.argv[0]!r}: {why}")
