"""
A prompt of version 2: inserted into the conversation, worked on, done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from acp_twisted.client.updates import UpdateQueue
from acp_twisted.errors import AcpError, RequestCancelled, RequestTimedOut
from acp_twisted.jsonrpc.calls import Call, Unheeded
from acp_twisted.schema import v2

if TYPE_CHECKING:
    from acp_twisted.client.v2.session import ClientSession


class Prompt:
    """
    A prompt that was sent.

    The agent answers it when it has inserted the message into the conversation, which it may do at once, or later when
    it is busy; it says that it has done the work with an C{idle} update.  A session may have any number of prompts out.
    Awaiting the prompt is awaiting C{idle}.

    @ivar accepted: the id of the inserted message; L{None} where the agent gives none, as the drafts before September
        2026 had it.  It fails when the agent refuses the prompt, or drops it uninserted.  Cancelling it gives the
        prompt up before it is inserted: C{$/cancel_request} is sent, and both Deferreds end at once, without knowing
        whether it was too late.  L{cancel} finds out.
    @ivar idle: the report that the agent is idle again after the work in which this prompt was inserted, with its
        C{stop_reason}.  A prompt that was cancelled before it was inserted has one too, made here, with the stop reason
        C{cancelled}.  Cancelling it stops the work: it is what L{cancel} does, and this ends at once.
    @ivar over: whether C{idle} has fired.
    @ivar inserted: whether the agent has inserted the message, as far as is known.
    @ivar cancel_sent: whether the agent was asked to stop it, with whichever message.
    @ivar error: the error that it was refused with after it had been cancelled; it counts as C{cancelled}.
    """

    accepted: Call[str | None]

    def __init__(self, session: ClientSession, timeout: float) -> None:
        self._session = session
        self._timeout = timeout
        self._deadline = session.connection.clock.seconds() + timeout
        self._timer: IDelayedCall | None = None
        self._queue: UpdateQueue[v2.SessionUpdate] = UpdateQueue("updates of a prompt", session.connection.limits)
        self._stop_wanted = False
        self._refusal: BaseException | None = None
        self._report: v2.IdleStateUpdate | None = None
        self.idle: Unheeded[v2.IdleStateUpdate] = Unheeded(self._given_up)
        self.idle.nobody_listens()
        self.over = False
        self.inserted = False
        self.cancel_sent = False
        self.error: AcpError | None = None

    def __await__(self) -> Generator[Deferred[v2.IdleStateUpdate], Any, v2.IdleStateUpdate]:
        return self.idle.__await__()

    def updates(self) -> AsyncIterator[v2.SessionUpdate]:
        """
        The session's updates since the prompt was sent, in order, until it is over.  For one reader.  The agent is
        slowed down to its pace.

        @raise LimitExceeded: when more than C{Limits.max_turn_updates}, or C{Limits.max_queued_bytes} of them, passed
            before anybody read.
        """
        return self._queue.read()

    def hurry(self) -> Callable[[], None]:
        """
        Let the agent go on though its updates are not read: the reader waits for what comes behind them.

        @return: takes that back.
        """
        return self._queue.hurry()

    def cancel(self) -> None:
        """
        Stop this prompt, once.  While it is unanswered that is C{$/cancel_request}, and concerns no other prompt;
        should the agent have inserted it all the same, C{session/cancel} follows.  Once it is inserted it is
        C{session/cancel}, which stops all foreground work of the session and drops its prompts that are not inserted.
        The updates and C{idle} still come.
        """
        if self.over or self.cancel_sent or self._report is not None:
            return
        self.cancel_sent = True
        if self.accepted.pending.live:
            self._stop_wanted = True
            self.accepted.cancel_handle().cancel()
        else:
            self._session.cancel()

    # ---- what the session tells

    def put(self, update: v2.SessionUpdate, size: int) -> Deferred[object] | None:
        """
        An update came.

        @return: what fires when there is room for another.
        """
        return self._queue.put(update, size)

    def accept(self, report: v2.IdleStateUpdate | None) -> None:
        """
        The agent has inserted the message.

        @param report: the end of the work, where that came first.
        """
        self.inserted = True
        self._report = report

    def work_ended(self, report: v2.IdleStateUpdate) -> None:
        """
        The agent is idle again, of which nobody was told yet: there is nothing to stop.
        """
        self._report = report

    def answered(self) -> None:
        """
        C{accepted} has fired, and those who wait for it were told.
        """
        if self.over:
            return
        if self._refusal is not None:
            self._refused(self._refusal)
        elif self._report is not None:
            self.finish(self._report)
        else:
            if self._timeout:
                clock = self._session.connection.clock
                self._timer = clock.callLater(max(0.0, self._deadline - clock.seconds()), self._expired)
            if self._stop_wanted:
                # It was too late: now only the session's work can be stopped.
                self._session.cancel()

    def refuse(self, failure: Failure) -> Failure:
        """
        The agent will not insert the message, or nobody knows.
        """
        self._refusal = failure.value
        return failure

    def _refused(self, error: BaseException) -> None:
        if self.cancel_sent and isinstance(error, AcpError) and error.remote:
            self.error = error
            self.finish(v2.IdleStateUpdate(stop_reason="cancelled"))
        else:
            self.fail(error)

    def finish(self, report: v2.IdleStateUpdate) -> None:
        """
        The agent is idle again.
        """
        if self._end():
            self.idle.callback(report)
            self._queue.end()

    def fail(self, error: BaseException) -> None:
        """
        Nobody will ever know how it ended.
        """
        if self._end():
            self.idle.errback(error)
            self._queue.end()

    def _end(self) -> bool:
        """
        @return: whether it was not over before.
        """
        if self.over:
            return False
        self.over = True
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        self._session.prompt_over(self)
        return True

    def _given_up(self, _: Deferred[v2.IdleStateUpdate]) -> None:
        """
        The canceller of C{idle}.
        """
        self._abandon(RequestCancelled())

    def _expired(self) -> None:
        self._timer = None
        self._abandon(RequestTimedOut("session/prompt", self._timeout))

    def _abandon(self, error: AcpError) -> None:
        if not self.accepted.called:
            self.accepted.cancel()
        elif not self.cancel_sent and self._report is None:
            self.cancel_sent = True
            self._session.cancel()
        self.fail(error)
