"""
The end of a program and of everything it started: politely first, then not (B66).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from acp_twisted.limits import Limits
from acp_twisted.transports.patience import Patience

_log = Logger()

POLL_SECONDS = 0.05
"""
How often an ending group is looked at: nobody tells us when a grandchild exits.
"""


def signal_group(pgid: int, number: int) -> bool:
    """
    Send a signal to every member of a process group.

    @return: whether there was one.
    """
    try:
        os.killpg(pgid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # A member that changed its user; the others got the signal.
        return True
    return True


def group_alive(pgid: int) -> bool:
    """
    Whether a process group has a member that is not a zombie.  Where nobody reaps orphans (pid 1 of many a container),
    zombies stay for ever, and there is no point in waiting for them.
    """
    if not signal_group(pgid, 0):
        return False
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    if not names:
        return True
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command, in parentheses, may hold anything; state, parent and group follow it.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == pgid and fields[0] not in (b"Z", b"X"):
            return True
    return False


class ProcessGroup:
    """
    A program that leads its own process group, on its way out.

    The steps: C{Limits.exit_grace} seconds to go by itself (L{wait_for_exit}), SIGTERM to the group (L{terminate}),
    C{Limits.terminate_grace} seconds, SIGKILL to the group.  Members that outlive the program itself get the same.

    @ivar leader_exited: whether the program itself has exited and was reaped.
    @ivar gone: whether nothing of it is left, or nothing more can be done.
    """

    def __init__(
        self,
        pgid: int,
        limits: Limits,
        clock: IReactorTime,
        *,
        send: Callable[[int, int], bool] = signal_group,
        alive: Callable[[int], bool] = group_alive,
        kill_leader: Callable[[int, int], None] = os.kill,
        reap: Callable[[], None] = lambda: None,
    ) -> None:
        """
        @param pgid: the process id of the program.
        @param send: signals a group.
        @param alive: looks at a group.
        @param kill_leader: signals the program alone.
        @param reap: asks for the exit status of children, for a reactor that does not hear of SIGCHLD (B78).
        """
        self._pgid = pgid
        self._limits = limits
        self._clock = clock
        self._send = send
        self._alive = alive
        self._kill_leader = kill_leader
        self._reap = reap
        self._step: Patience | None = None
        self._poll: IDelayedCall | None = None
        self._terminating = False
        self._killed = False
        self._waiting: list[Deferred[None]] = []
        self.leader_exited = False
        self.gone = False

    def when_gone(self) -> Deferred[None]:
        """
        @return: fires once L{gone}.
        """
        done: Deferred[None] = Deferred()
        if self.gone:
            done.callback(None)
        else:
            self._waiting.append(done)
        return done

    def wait_for_exit(self) -> None:
        """
        The program was asked to go (its input was closed): the first step of the ladder.
        """
        if not (self.gone or self._terminating or self._step is not None):
            self._step = Patience(self._clock, self._limits.exit_grace, self._grace_over)
            self._look_again()

    def terminate(self) -> None:
        """
        The second step, at once.
        """
        if self.gone or self._terminating:
            return
        self._terminating = True
        self._signal(signal.SIGTERM)
        self._next(self._limits.terminate_grace, self._kill)
        self._look_again()

    def kill(self) -> None:
        """
        The last step, at once.
        """
        if not (self.gone or self._killed):
            self._terminating = True
            self._kill()

    def exited(self) -> None:
        """
        The program itself has exited; what it started and left behind is told to go too.
        """
        self.leader_exited = True
        self._look()
        if not self.gone:
            self.terminate()

    def _grace_over(self) -> None:
        self._step = None
        self.terminate()

    def _kill(self) -> None:
        self._killed = True
        self._signal(signal.SIGKILL)
        self._next(self._limits.terminate_grace, self._give_up)
        self._look_again()

    def _give_up(self) -> None:
        # Not even SIGKILL ends a process that hangs in the kernel.
        self._step = None
        _log.warn("process group {pgid} is still there after SIGKILL", pgid=self._pgid)
        self._finish()

    def _signal(self, number: int) -> None:
        # A child that was forked a moment ago may not lead its group yet.
        if not self._send(self._pgid, number) and not self.leader_exited:
            try:
                self._kill_leader(self._pgid, number)
            except ProcessLookupError:
                # Reaped by somebody else.
                self.leader_exited = True

    def _next(self, seconds: float, step: Callable[[], None]) -> None:
        if self._step is not None and self._step.active():
            self._step.cancel()
        self._step = Patience(self._clock, seconds, step)

    def _look_again(self) -> None:
        if self._poll is None and not self.gone:
            self._poll = self._clock.callLater(POLL_SECONDS, self._polled)

    def _polled(self) -> None:
        self._poll = None
        if not self.leader_exited:
            self._reap()
        self._look()
        self._look_again()

    def _look(self) -> None:
        if self.leader_exited and not self.gone and not self._alive(self._pgid):
            self._finish()

    def _finish(self) -> None:
        self.gone = True
        for call in (self._step, self._poll):
            if call is not None and call.active():
                call.cancel()
        self._step = self._poll = None
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done.callback(None)
