"""
Programs as the tests start them: without blocking, in a process group of their own, gone when the test is over.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define, frozen
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

PATIENCE = 180.0
"""How many seconds anything may take; a machine that has much else to do takes long for what takes no time."""

SOURCES = Path(__file__).resolve().parent / "peers_src"
OUR_AGENT = (sys.executable, "-m", "acp_twisted.testing.scripted_agent")
PLAIN_AGENT = (sys.executable, str(Path(__file__).with_name("plain_agent.py")))
TWISTD_AGENT = (
    "/usr/bin/env",
    f"PYTHONPATH={Path(__file__).resolve().parent.parent}",
    str(Path(sys.executable).with_name("twistd")),
    *("--nodaemon", "--pidfile", "", "acp", "--agent", "interop.plain_agent:agent", "--stdio"),
)
OWN_GROUP = (sys.executable, "-I", "-S", "-c", "import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])")


@frozen
class Outcome:
    """
    What a program came to.

    @ivar code: its exit status; L{None} when a signal ended it.
    @ivar signal: the number of that signal.
    """

    code: int | None
    signal: int | None
    stdout: str
    stderr: str

    def lines(self) -> list[dict[str, Any]]:
        """
        Its output as one JSON object per line.
        """
        return [json.loads(line) for line in self.stdout.split("\n") if line.strip()]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """
        Those lines whose C{event} is that one.
        """
        return [line for line in self.lines() if line.get("event") == kind]

    def explain(self) -> str:
        """
        The end of all of it, for the message of an assertion.
        """
        out, err = self.stdout[-4000:], self.stderr[-4000:]
        return f"exit {self.code}, signal {self.signal}\n--- stdout\n{out}\n--- stderr\n{err}"


@define(eq=False)
class _Watcher(ProcessProtocol):
    """
    Collects what a program prints, and tells its end.
    """

    done: Deferred[Outcome]
    on_stdout: Callable[[str], None] | None = None
    stdout: bytes = b""
    stderr: bytes = b""

    def outReceived(self, data: bytes) -> None:
        self.stdout += data
        if self.on_stdout is not None:
            self.on_stdout(self.stdout.decode("utf-8", "replace"))

    def errReceived(self, data: bytes) -> None:
        self.stderr += data

    def processEnded(self, reason: Failure) -> None:
        value: Any = reason.value
        texts = (each.decode("utf-8", "replace") for each in (self.stdout, self.stderr))
        self.done.callback(Outcome(value.exitCode, value.signal, *texts))


class Programs:
    """
    Starts programs and ends them.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._running: dict[Any, Deferred[Outcome]] = {}

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = b"",
        on_stdout: Callable[[str], None] | None = None,
    ) -> tuple[Any, Deferred[Outcome]]:
        """
        Start a program.

        @param env: added to this process's environment.
        @param stdin: what it reads before the end of its input; L{None} leaves its input open.
        @param on_stdout: called with all of its output so far, as it grows.
        @return: its process transport, and its outcome.
        """
        done: Deferred[Outcome] = Deferred()
        watcher = _Watcher(done, on_stdout)
        command = [*OWN_GROUP, *argv]
        process = self._reactor.spawnProcess(
            watcher, command[0], command, env={**os.environ, **(env or {})}, path=None if cwd is None else str(cwd)
        )
        if stdin is not None:
            process.write(stdin)
            process.closeStdin()
        self._running[process] = done

        def ended(outcome: Outcome) -> Outcome:
            del self._running[process]
            return outcome

        done.addCallback(ended)
        return process, done

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline: float = PATIENCE,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = b"",
        on_stdout: Callable[[str], None] | None = None,
    ) -> Deferred[Outcome]:
        """
        Start a program and wait for its end.

        @param deadline: seconds after which its whole group is killed, and the test fails with what it printed.
        """
        process, done = self.start(argv, cwd=cwd, env=env, stdin=stdin, on_stdout=on_stdout)
        late: list[bool] = []

        def give_up() -> None:
            late.append(True)
            kill_group(process.pid)

        timer = self._reactor.callLater(deadline, give_up)

        def ended(outcome: Outcome) -> Outcome:
            if late:
                raise AssertionError(f"{argv[:3]} did not end within {deadline} s: {outcome.explain()}")
            timer.cancel()
            return outcome

        return done.addCallback(ended)

    def stop_all(self) -> Deferred[None]:
        """
        Kill what is still running.
        """
        waiting = list(self._running.items())
        for process, _ in waiting:
            kill_group(process.pid)
        gone: Deferred[None] = Deferred()
        left = len(waiting)

        def one_less(outcome: Outcome) -> Outcome:
            nonlocal left
            left -= 1
            if not left:
                gone.callback(None)
            return outcome

        for _, done in waiting:
            done.addCallback(one_less)
        if not waiting:
            gone.callback(None)
        return gone


def script(path: Path, argv: Sequence[str]) -> Path:
    """
    A command line as one executable file, for clients that take no arguments for their agent.
    """
    path.write_text(f"#!/bin/sh\nexec {shlex.join(argv)}\n")
    path.chmod(0o755)
    return path


def kill_group(pid: int | None) -> None:
    """
    Kill a program that runs in a group of its own, and its children.  One that was only just started has no group of
    its own yet, and no children either; it may get both while we look, hence the second time.
    """
    if pid is None:
        return
    for kill in (os.killpg, os.kill, os.killpg):
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def members(group: int) -> list[int]:
    """
    The processes of a group that are no zombies.
    """
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, of = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state not in "ZX":
            found.append(int(path.parent.name))
    return found


def listens(group: int, port: int) -> bool:
    """
    Whether a process of that group listens on a TCP port, and not somebody else.
    """
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                sockets.add(f"socket:[{fields[9]}]")
    for pid in members(group):
        with suppress(OSError):
            if any(os.readlink(path) in sockets for path in Path(f"/proc/{pid}/fd").iterdir()):
                return True
    return False


def alive(pid: int) -> bool:
    """
    Whether there is such a process that is not a zombie.
    """
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def until(
    reactor: Any, condition: Callable[[], bool], deadline: float = PATIENCE, every: float = 0.02
) -> Deferred[None]:
    """
    Fires when C{condition} holds; fails with L{TimeoutError} when it does not within C{deadline} seconds, and as the
    condition does when that fails.
    """
    result: Deferred[None] = Deferred()
    end = reactor.seconds() + deadline

    def look() -> None:
        if result.called:
            return
        try:
            holds = condition()
        except Exception:
            result.errback()
            return
        if holds:
            result.callback(None)
        elif reactor.seconds() > end:
            result.errback(TimeoutError(deadline, f"not within {deadline} s"))
        else:
            reactor.callLater(every, look)

    look()
    return result
