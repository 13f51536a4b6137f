"""
An agent as a child process, spoken to over its standard input and output.  POSIX only.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ProcessTerminated
from twisted.internet.interfaces import (
    IConsumer,
    IDelayedCall,
    IProcessProtocol,
    IProcessTransport,
    IReactorCore,
    IReactorTime,
)
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, AgentStartError, LimitExceeded
from acp_twisted.interfaces import IMessageReceiver, IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.transports.command import AgentCommand
from acp_twisted.transports.drain import Drain
from acp_twisted.transports.inbound import Inbound
from acp_twisted.transports.outbound import Outbound
from acp_twisted.transports.patience import Patience
from acp_twisted.transports.process_group import ProcessGroup
from acp_twisted.transports.stderr import StderrTail

__all__ = ["AgentCommand", "ProcessTransport", "spawn"]

_log = Logger()

REAP_SECONDS = 0.1
"""
How often the exit status is asked for once the agent's output has ended, in case nobody tells us (B78).
"""

STDIN, STDOUT, STDERR = 0, 1, 2


@implementer(IMessageTransport, IProcessProtocol)
class ProcessTransport:
    """
    The connection to an agent that we started.

    C{connection_lost} gets an L{AcpConnectionError} with the exit status or signal and the end of what was written to
    standard error (B63); it is an L{AgentStartError} when the agent ended without a word.  After L{close} it comes when
    the agent and what it started are gone; after any other end it comes at once, and they are ended behind it: see
    L{when_gone}.

    @ivar command: what was started.
    """

    def __init__(
        self,
        command: AgentCommand,
        receiver: IMessageReceiver,
        limits: Limits,
        clock: IReactorTime,
        group: ProcessGroup | None = None,
    ) -> None:
        """
        @param clock: where the timers of this connection run.
        @param group: what ends the processes; by default one for the group that the process leads.
        """
        self.command = command
        self._receiver = receiver
        self._limits = limits
        self._clock = clock
        self._inbound = Inbound(receiver, limits)
        self._stderr = StderrTail(limits.stderr_tail_bytes, command.on_stderr)
        self._process: Any = None
        self._group = group
        self._outbound: Outbound | None = None
        self._paused_by_receiver = False
        self._held_by_output = False
        self._heard = False
        self._closing = False
        self._lost = False
        self._open = {STDIN, STDOUT, STDERR}
        self._exit: Failure | None = None
        self._drain: Drain | None = None
        self._reaping: IDelayedCall | None = None
        self._deadline: Patience | IDelayedCall | None = None
        self._dying: AcpConnectionError | None = None

    @property
    def pid(self) -> int | None:
        """
        The process id, which is that of its group too; L{None} once it has exited.
        """
        return None if self._exit is not None or self._process is None else self._process.pid

    @property
    def stderr_tail(self) -> str:
        """
        The last C{Limits.stderr_tail_bytes} of what the agent wrote to its standard error.
        """
        return self._stderr.text

    def when_gone(self) -> Deferred[None]:
        """
        @return: fires when the agent and all of its process group are gone, which may be after C{connection_lost}.
        """
        assert self._group is not None, "not started"
        return self._group.when_gone()

    # IMessageTransport

    @property
    def unsent(self) -> int:
        return 0 if self._outbound is None else self._outbound.unsent

    def send(self, message: bytes) -> None:
        """
        Nothing, for there is no process yet; L{makeConnection} puts the queue's own C{send} here.
        """

    def close(self) -> None:
        """
        Deliver nothing more, write what is queued, close the agent's standard input, and see it gone:
        C{Limits.exit_grace} seconds from now SIGTERM, C{Limits.terminate_grace} seconds later SIGKILL, each to the
        whole group.
        """
        if self._closing or self._lost or self._group is None or self._outbound is None:
            return
        self._closing = True
        self._inbound.stop()
        # Go on reading, and throw away what comes: an agent that is stuck writing to us would not see its input end.
        self._set_reading(True)
        self._group.when_gone().addCallback(self._closed).addErrback(_log_failure)
        self._group.wait_for_exit()
        self._outbound.close()

    def abort(self, reason: str) -> None:
        """
        Cut the pipes and end the process group, SIGTERM first.

        @param reason: the text of the receiver's C{connection_lost}.
        """
        self._cut(AcpConnectionError(reason, stderr_tail=self.stderr_tail))

    def kill(self) -> None:
        """
        SIGKILL to the whole group, now; the pipes tell the rest.
        """
        if self._group is not None:
            self._group.kill()

    def pauseProducing(self) -> None:
        if not self._closing:
            self._paused_by_receiver = True
            self._inbound.pause()
            self._set_reading(False)

    def resumeProducing(self) -> None:
        if not self._closing:
            self._paused_by_receiver = False
            self._resume()

    def stopProducing(self) -> None:
        self.close()

    # IProcessProtocol

    def makeConnection(self, process: IProcessTransport) -> None:
        self._process = process
        if self._group is None:
            self._group = ProcessGroup(self._process.pid, self._limits, self._clock, reap=_reap)
        self._outbound = outbound = Outbound(cast(IConsumer, process), self, self._limits, self._clock)
        self.send = outbound.send  # type: ignore[method-assign]
        self._receiver.connection_made(self)

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        if self._drain is not None:
            self._drain.more()
        if childFD == STDERR:
            self._stderr.feed(data)
        elif not self._lost:
            self._heard = True
            self._inbound.feed(data)

    def childConnectionLost(self, childFD: int) -> None:
        self._open.discard(childFD)
        if childFD == STDERR:
            self._stderr.end()
        elif self._lost:
            return
        elif childFD == STDIN:
            if not self._closing:
                # Nothing more can be asked; but this may be its exit, with an answer still in the other pipe.
                self._ending("the agent closed its standard input")
        elif not self._closing:
            self._inbound.flush()
            if not self._closing:  # whoever got the last message may have hung up
                self._ending("the agent closed its standard output")
        self._look()

    def processExited(self, reason: Failure) -> None:
        self._exit = reason
        if self._group is not None:
            self._group.exited()
        if not self._lost and not self._closing:
            # What is left in the pipes is read even while the receiver pauses: it is no more than a pipe holds.
            self._set_reading(True)
            self._ending("")
            self._drain = Drain(self._clock, self._drained)
            self._look()

    def processEnded(self, reason: Failure) -> None:
        """
        Nothing: this comes only when all pipes are closed, which may be never (B67).
        """

    # OutboundOwner

    def output_paused(self) -> None:
        self._receiver.writing_paused()

    def output_resumed(self) -> None:
        self._receiver.writing_resumed()

    def output_held(self, held: bool) -> None:
        self._held_by_output = held
        if held:
            self._inbound.pause()
            self._set_reading(False)
        elif not self._closing:
            self._resume()

    def output_overdue(self, reason: LimitExceeded) -> None:
        self._cut(AcpConnectionError(reason.message, Failure(reason), stderr_tail=self.stderr_tail))

    def output_finished(self) -> None:
        self._process.closeChildFD(STDIN)

    # inside

    def _resume(self) -> None:
        if self._paused_by_receiver or self._held_by_output or self._lost:
            return
        self._inbound.resume()
        if not (self._inbound.paused or self._lost):
            self._set_reading(True)

    def _set_reading(self, reading: bool) -> None:
        """
        Only standard output is paused, never standard error: an agent that waits for somebody to read its log answers
        nobody.  For that reason this does not use the process's own C{pauseProducing}, which pauses both.
        """
        pipe = self._process.pipes.get(STDOUT)
        if pipe is None:
            return
        if reading or self._exit is not None:
            pipe.resumeProducing()
        else:
            pipe.pauseProducing()

    def _ending(self, what: str) -> None:
        """
        The agent is going, or has hung up on us: wait a little for its exit status and for what it still says.

        @param what: how it looks if it turns out to live on.
        """
        if self._deadline is None:
            self._deadline = Patience(self._clock, self._limits.exit_grace, lambda: self._overdue(what))
            if self._exit is None:
                self._reaping = self._clock.callLater(REAP_SECONDS, self._reap_again)

    def _reap_again(self) -> None:
        self._reaping = None
        _reap()
        if self._exit is None and not self._lost:
            self._reaping = self._clock.callLater(REAP_SECONDS, self._reap_again)

    def _drained(self) -> None:
        self._drain = None
        self._lose(self._why_exited())

    def _overdue(self, what: str) -> None:
        self._deadline = None
        if self._exit is not None:
            self._lose(self._why_exited())
        else:
            self._lose(AcpConnectionError(what, stderr_tail=self.stderr_tail))

    def _look(self) -> None:
        """
        All is said when it has exited and both of its outputs have ended.
        """
        if self._exit is None or self._open & {STDOUT, STDERR}:
            return
        if not self._closing:
            self._lose(self._why_exited())
        elif self._group is not None and self._group.gone and self._dying is None:
            self._finish_close()

    def _closed(self, ignored: None) -> None:
        """
        The group is gone; the end of its log may still be in the pipe.
        """
        if self._open & {STDOUT, STDERR} and not self._lost and self._dying is None:
            self._stop_timers()
            self._drain = Drain(self._clock, self._finish_close)
            self._deadline = Patience(self._clock, self._limits.exit_grace, self._finish_close)
        else:
            self._finish_close()

    def _finish_close(self) -> None:
        closed = AcpConnectionError("the connection was closed", self._exit, stderr_tail=self.stderr_tail)
        self._lose(self._dying or closed)

    def _why_exited(self) -> AcpConnectionError:
        reason = self._exit
        status: int | None = 0
        number: int | None = None
        if reason is not None and isinstance(reason.value, ProcessTerminated):
            status, number = reason.value.exitCode, reason.value.signal
        text = f"the agent exited with status {status}"
        if number is not None:
            status = None
            text = f"the agent was ended by signal {number}"
        kind = AcpConnectionError if self._heard else AgentStartError
        return kind(text, reason, exit_code=status, signal=number, stderr_tail=self.stderr_tail)

    def _cut(self, why: AcpConnectionError) -> None:
        if self._lost or self._dying is not None:
            return
        self._closing = True
        self._dying = why
        self._inbound.stop()
        if self._outbound is not None:
            self._outbound.lost()
        # Later, for the caller may be in the middle of a send.
        self._stop_timers()
        self._deadline = self._clock.callLater(0, self._aborted)

    def _aborted(self) -> None:
        self._deadline = None
        if self._dying is not None:
            self._lose(self._dying)

    def _lose(self, why: AcpConnectionError) -> None:
        if self._lost:
            return
        if not self._closing:
            self._inbound.flush()
            if self._lost or self._dying is not None:
                return  # whoever got the last message has seen to the end
        self._lost = True
        self._inbound.stop()
        self._stop_timers()
        if self._outbound is not None:
            self._outbound.lost()
        with _log.failuresHandled("a receiver failed at the end of its connection"):
            self._receiver.connection_lost(Failure(why))
        self._drop_pipes()
        if self._group is not None:
            self._group.terminate()

    def _drop_pipes(self) -> None:
        """
        Close our ends at once.  The process's own C{loseConnection} would wait until unread output was taken, and
        whoever inherited the other end may never take it.
        """
        process = self._process
        process.unregisterProducer()
        for pipe in list(process.pipes.values()):
            pipe.connectionLost(Failure(self._dying or AcpConnectionError("the connection was closed")))

    def _stop_timers(self) -> None:
        if self._drain is not None:
            self._drain.stop()
        for call in (self._reaping, self._deadline):
            if call is not None and call.active():
                call.cancel()
        self._drain = self._reaping = self._deadline = None


def spawn(
    reactor: IReactorTime,
    command: AgentCommand,
    receiver: IMessageReceiver,
    limits: Limits,
    clock: IReactorTime | None = None,
) -> Deferred[ProcessTransport]:
    """
    Start an agent and connect C{receiver} to it.

    @param reactor: watches the pipes.  What is left of the agent when it shuts down is killed.
    @param clock: where the timers run; by default C{reactor}.
    @return: fires once the process is started, after C{receiver.connection_made}; what goes wrong later, an early exit
        included, is told to C{receiver.connection_lost}.  Fails with L{AgentStartError} when the program or its
        directory is missing or can't be used, or the system refuses another process.
    """
    if os.name != "posix":
        return fail(command.failed("agents can be started on POSIX systems only"))
    from acp_twisted.transports._session_process import start  # noqa: PLC0415 - POSIX only

    transport = ProcessTransport(command, receiver, limits, reactor if clock is None else clock)
    environment = command.environment()
    try:
        executable = command.executable(environment)
        start(reactor, executable, command, environment, transport)
    except AgentStartError:
        return fail(Failure())
    except (OSError, ValueError) as error:
        return fail(command.failed(str(error)))
    core = IReactorCore(reactor, None)
    if core is not None:
        _kill_at_shutdown(core, transport)
    return succeed(transport)


def _kill_at_shutdown(core: IReactorCore, transport: ProcessTransport) -> None:
    trigger = core.addSystemEventTrigger("during", "shutdown", transport.kill)

    def forget(ignored: None) -> None:
        # Once the reactor shuts down the trigger has been used up.
        with contextlib.suppress(ValueError):
            core.removeSystemEventTrigger(trigger)

    transport.when_gone().addCallback(forget).addErrback(_log_failure)


def _reap() -> None:
    from twisted.internet.process import reapAllProcesses  # noqa: PLC0415 - POSIX only

    reapAllProcesses()


def _log_failure(failure: Failure) -> None:
    _log.failure("the end of an agent could not be handled", failure)
