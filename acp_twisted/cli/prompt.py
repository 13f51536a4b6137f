"""
C{acp-twisted prompt}: one prompt, start to end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TextIO

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ReactorNotRunning
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted._version import __version__
from acp_twisted.cli.options import PromptOptions
from acp_twisted.cli.permit import Asker, Permit, first_of, hold
from acp_twisted.cli.report import JsonReport, Report, TextReport
from acp_twisted.cli.status import Status
from acp_twisted.cli.turns import FirstTurn, SecondTurn, Turn
from acp_twisted.client.client import AcpClient, AcpClientBuilder
from acp_twisted.client.files import LocalFiles
from acp_twisted.client.terminals import LocalTerminals
from acp_twisted.errors import (
    AcpConnectionError,
    AcpError,
    LocalError,
    RequestCancelled,
    RequestTimedOut,
)
from acp_twisted.limits import Limits
from acp_twisted.transports.process import AgentCommand

_log = Logger()

LIMITS = Limits(exit_grace=2.0, terminate_grace=2.0)
"""An agent that does not go when its input ends is not waited for longer than this."""

CLOSE_SECONDS = 10.0
"""How long the end of the link is waited for at most: longer than all of the steps above take."""


class TimeIsUp(LocalError):
    """
    The whole run took longer than C{--timeout}.
    """


class PromptRun:
    """
    One run of the program, without its process: what is connected to, what is printed and which clock it runs on are
    given.
    """

    def __init__(
        self,
        clock: IReactorTime,
        options: PromptOptions,
        report: Report,
        *,
        permit: Permit,
        connect: Callable[[Any], Deferred[Any]],
        services: Callable[[AcpClientBuilder], AcpClientBuilder] = lambda builder: builder,
    ) -> None:
        """
        @param connect: connects a client of the wanted versions to the agent, or starts it.
        @param services: adds handlers for what the agent may ask to the client's builder.
        """
        self._clock = clock
        self._options = options
        self._report = report
        self._connect = connect
        self._connection: Any = None  # of either version, and at first of none yet
        self._turn: Turn | None = None
        self._session_id: str | None = None
        self._prompted = False
        self._updates = 0
        self._asked_to_cancel = False
        self._leaving: Status | None = None
        self._timers: list[IDelayedCall] = []
        self._interrupted = False
        self._talk: Deferred[Any] | None = None
        builder = (
            AcpClient.builder()
            .client_info("acp-twisted", __version__)
            .limits(LIMITS)
            .session_update_handler(self._updated)
            .request_permission_handler(permit)
        )
        if options.timeout is not None:
            builder.request_timeout(0)  # the one bound is enough
        builder = services(builder)
        if options.protocol != (1,):
            builder = builder.protocol_versions(*options.protocol)
        self._client = builder.build()

    async def run(self) -> Status:
        """
        Do it all, and end the agent.

        @return: what the program exits with.
        """
        self._talk = Deferred.fromCoroutine(self._converse())
        if self._leaving is not None:
            self._talk.cancel()
        if self._options.timeout is not None:
            self._after(self._options.timeout, self._time_is_up, self._options.timeout)
        try:
            response = await self._talk
            status = self._finished(response)
        except Exception as error:
            status = self._failed(error)
        finally:
            for timer in self._timers:
                if timer.active():
                    timer.cancel()
        await self._close()
        return status if self._leaving is None else self._leaving

    async def _converse(self) -> Any:
        self._connection = connection = await self._connect(self._client)
        agreed = await connection.initialize()
        if self._options.protocol != (1,):
            self._connection = connection = agreed
        session = await connection.new_session(self._options.cwd)
        self._session_id = session.session_id
        self._prompted = True
        begin = FirstTurn if connection.protocol_version == 1 else SecondTurn
        self._turn = turn = begin(session, self._options.text)
        if self._options.cancel_after is not None:
            self._after(self._options.cancel_after, self.cancel)
        self._count()
        return await turn.outcome

    def _finished(self, response: Any) -> Status:
        """
        Say what the turn was answered with.
        """
        if self._leaving is not None:
            return self._leaving  # too late
        if self._turn is not None and self._turn.error is not None:
            self._report.note(f"the cancelled turn was answered with an error: {self._turn.error}")
        unread = 0 if self._connection is None else self._connection.peer.unread_messages
        if unread:
            self._report.note(f"messages of the agent that could not be read, and are missing here: {unread}")
        self._report.result(response)
        if response.stop_reason == "error":
            return Status.REFUSED
        return Status.CANCELLED if response.stop_reason == "cancelled" else Status.FINISHED

    def _failed(self, error: Exception) -> Status:
        """
        Say why there is no result.
        """
        if self._leaving is not None and isinstance(error, (AcpError, CancelledError)):
            return self._leaving  # because of that, or too late
        if isinstance(error, OSError) and not isinstance(error, AcpError):
            return Status.OUTPUT_GONE  # only our own printing raises one
        if not isinstance(error, AcpError):
            raise error
        if not self._told(error):
            return Status.OUTPUT_GONE
        if isinstance(error, RequestTimedOut):
            return Status.TIMED_OUT
        if isinstance(error, AcpConnectionError):
            return Status.LOST
        cancelled = isinstance(error, RequestCancelled) and self._asked_to_cancel
        return Status.CANCELLED if cancelled else Status.REFUSED

    def _told(self, error: AcpError) -> bool:
        """
        Print an error.

        @return: whether anybody can read it.
        """
        try:
            self._report.error(error)
        except OSError:
            return False
        return True

    async def _close(self) -> None:
        """
        End the conversation and, by its transport's own steps, the agent.
        """
        if self._connection is None:
            return
        gone = self._connection.close()
        try:
            await gone.addTimeout(CLOSE_SECONDS, self._clock)
        except Exception as error:  # it is the end, whatever it looks like
            _log.debug("closing: {error}", error=error)

    # ---- what happens meanwhile

    def _updated(self, notification: Any) -> None:
        # Before the answer to session/new it can only be ours.
        if self._leaving is not None or self._session_id not in (None, notification.session_id):
            return
        try:
            self._report.update(notification.update)
        except OSError:
            self.leave(Status.OUTPUT_GONE)
            return
        if self._prompted:
            self._updates += 1
            self._count()

    def _count(self) -> None:
        wanted = self._options.cancel_after_updates
        if wanted is not None and self._updates >= wanted:
            self.cancel()

    def cancel(self) -> None:
        """
        Cancel the turn, once; its answer is waited for.
        """
        if self._turn is None or self._asked_to_cancel:
            return
        self._asked_to_cancel = True
        self._turn.cancel(self._options.how)

    def interrupt(self) -> bool:
        """
        The user pressed ^C: cancel the turn; or leave, if there is none any more or he did so before.

        @return: whether it is left, and at once.
        """
        if self._turn is None or self._turn.ended or self._interrupted:
            self.leave(Status.INTERRUPTED)
            return True
        self._interrupted = True
        self._report.note("cancelling; ^C again to leave")
        self.cancel()
        return False

    def leave(self, status: Status) -> None:
        """
        Give everything up, and end the agent.
        """
        if self._leaving is None:
            self._leaving = status
            if self._talk is not None:
                self._talk.cancel()

    def _time_is_up(self, seconds: float) -> None:
        told = self._told(TimeIsUp(f"timed out after {seconds:g} s"))
        self.leave(Status.TIMED_OUT if told else Status.OUTPUT_GONE)

    def _after(self, seconds: float, function: Callable[..., object], *args: object) -> None:
        self._timers.append(self._clock.callLater(seconds, function, *args))


class _Program:
    """
    A run in its process: the reactor, the standard streams, and the signals.
    """

    def __init__(self, reactor: Any, options: PromptOptions, out: TextIO, err: TextIO) -> None:
        self._reactor = reactor
        self._terminals = LocalTerminals(reactor, options.cwd)
        self._where = options.endpoint or AgentCommand(options.command)
        files = LocalFiles(options.cwd)
        report: Report = JsonReport(out, err) if options.json else TextReport(out, err, err.isatty())
        self._run = PromptRun(
            reactor,
            options,
            report,
            permit=self._permit(options.permit, err),
            connect=self._connect,
            services=lambda builder: self._terminals.serve(files.serve(builder)),
        )
        self.status = Status.LOST

    def _connect(self, client: Any) -> Deferred[Any]:
        connecting: Deferred[Any] = client.connect(self._reactor, self._where)
        return connecting

    def _permit(self, permit: str | None, err: TextIO) -> Permit:
        if permit is None:
            permit = "ask" if sys.stdin is not None and sys.stdin.isatty() else "deny"
        if permit == "ask" and sys.stdin is not None:
            return Asker(self._reactor, sys.stdin.fileno(), err).ask
        return {"allow": first_of("allow"), "deny": first_of("reject"), "hold": hold}.get(permit, first_of("reject"))

    def start(self) -> None:
        """
        Begin, when the reactor runs and has installed its own signal handlers.
        """
        for number, react in (
            (signal.SIGINT, self._interrupt),
            (signal.SIGTERM, lambda: self._leave(Status.TERMINATED)),
            (signal.SIGHUP, lambda: self._leave(Status.HUNG_UP)),
        ):
            # From the reactor's own turn: a signal handler may interrupt anything.
            signal.signal(number, self._from_reactor(react))
        Deferred.fromCoroutine(self._run.run()).addCallbacks(self._ended, self._broken).addErrback(self._broken)

    def _from_reactor(self, react: Callable[[], object]) -> Callable[[int, object], None]:
        return lambda number, frame: self._reactor.callFromThread(react)

    def _interrupt(self) -> None:
        if self._run.interrupt():
            self.status = Status.INTERRUPTED
            self._stop()

    def _leave(self, status: Status) -> None:
        self._run.leave(status)

    def _ended(self, status: Status) -> None:
        self.status = status
        self._stop()

    def _broken(self, failure: Failure) -> None:
        failure.printTraceback(sys.stderr)
        self.status = Status.LOST
        self._stop()

    def _stop(self) -> None:
        """
        Stop the reactor; what is left of the agent and of its terminals is killed.
        """
        self._terminals.close()
        try:
            self._reactor.stop()
        except ReactorNotRunning:
            _log.debug("stopped already")


def run_prompt(options: PromptOptions) -> int:
    """
    Run the reactor until the prompt is answered.

    @return: the exit status.
    """
    from twisted.internet import reactor  # noqa: PLC0415 - a program chooses its reactor when it runs

    used: Any = reactor
    out = _printing(sys.stdout, "utf-8" if options.json else None)
    program = _Program(used, options, out, _printing(sys.stderr, None))
    used.callLater(0, program.start)
    used.run()
    try:
        out.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python complains when it flushes at exit
    return int(program.status)


def _printing(stream: Any, encoding: str | None) -> TextIO:
    """
    A standard stream that prints whatever an agent may say.
    """
    if stream is None:
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the program runs
    stream.reconfigure(encoding=encoding, errors="backslashreplace")
    printing: TextIO = stream
    return printing
