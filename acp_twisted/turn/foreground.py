"""
The foreground work of one session, on the agent's side (protocol version 2).

L{Foreground} is the facade of the state machine in L{acp_twisted.turn._foreground_machine}: it sees to it that an event
about work that is over counts for nothing, lets the machine move, and then does what the machine recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError, RequestCancelled
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.turn._foreground_machine import ForegroundCore, foreground_machine
from acp_twisted.turn._work import Ended, Work
from acp_twisted.turn.timeouts import PromptTimeouts

__all__ = ["Ended", "Foreground", "Work"]

_log = Logger()


class Foreground:
    """
    The state machine of one session's foreground work: one piece of work at a time, begun by a prompt or by the agent
    itself; prompts that come meanwhile are held, and become part of the conversation one after another.

    Each prompt has exactly one answer: that it is part of the conversation, or, before that only, an error (V2D7,
    V2D8).  Each piece of work is reported: C{running}, C{requires_action} while only the user can help it on, and
    C{idle} with the reason once it has ended.

    Every event may come at any time, from within any of the callbacks too, and its consequences are there when the
    method returns, as with L{PromptSession<acp_twisted.turn.prompt_session.PromptSession>}.  Handlers do not start
    below another callback of their session.
    """

    def __init__(
        self,
        session_id: str,
        clock: IReactorTime,
        timeouts: PromptTimeouts,
        report: Callable[[str, Ended | None], object],
        on_cancel: Callable[[str, Any], object] | None = None,
    ) -> None:
        """
        @param session_id: the session's id.
        @param clock: what the timers run on.
        @param timeouts: how long work may take.
        @param report: sends a C{state_update}: C{"running"}, C{"requires_action"}, or C{"idle"} and how the work ended.
        @param on_cancel: told of each C{session/cancel} and C{session/close}, whether or not there is work, after its
            token is set: the trigger, and the notice given to L{cancel} or L{close}.  What it raises is logged.
        """
        self._on_cancel = on_cancel
        self._report = report
        self._performing = False
        self._blockers = 0
        self._core = ForegroundCore(
            session_id=session_id,
            clock=clock,
            timeouts=timeouts,
            tell=self._tell,
            report=self._say,
            grace_over=self._grace_over,
            duration_over=self._duration_over,
        )
        self._machine = foreground_machine(self._core)

    @property
    def session_id(self) -> str:
        """
        The session's id.
        """
        return self._core.session_id

    @property
    def state(self) -> str:
        """
        What the client was told last, or is about to be told: C{"idle"}, C{"running"} or C{"requires_action"}.
        """
        return self._core.state

    @property
    def closed(self) -> bool:
        """
        Whether the session takes no more prompts: it was closed, shut down, or lost its connection.
        """
        return self._core.closed

    @property
    def work(self) -> Work | None:
        """
        The work that is not over, if there is any; its prompt may still be waiting to be admitted.
        """
        return self._core.work

    @property
    def held(self) -> tuple[Work, ...]:
        """
        The prompts that wait for their turn, in their order.
        """
        return tuple(self._core.held)

    def begin(
        self,
        insert: Callable[[Work], object],
        refuse: Callable[[AcpError], object],
        start: Callable[[Work], Any],
        admit: Callable[[Work], Any] | None = None,
        token: CancellationToken | None = None,
        prompt: Any = None,
    ) -> Work:
        """
        A prompt came, or the agent begins work of its own: hold it until nothing else is in the foreground, then have
        it admitted, insert it, report C{running}, and start its handler.

        Of C{insert} and C{refuse}, one is called once, unless the connection is lost first.

        @param insert: answers the prompt with the message's id, and reports the message.
        @param refuse: answers it with an error: the prompt is no part of the conversation.
        @param start: starts the handler, and returns its Deferred (or a coroutine, or a value).
        @param admit: asked before the prompt is inserted: what it raises, or its Deferred fails with, is what the
            prompt is refused with.
        @param token: the request's token, if it has one already.  Only this session may set it.
        @param prompt: what the work's C{prompt} is to be.
        @return: the new work.  It may be over already.
        """
        work = Work(
            self._core.session_id, CancellationToken() if token is None else token, insert, refuse, start, admit, prompt
        )
        self._machine.prompt(work)
        self._perform()
        return work

    def take(self, work: Work) -> Work | None:
        """
        Let the first prompt that is held become part of the conversation now, within C{work}, which goes on and whose
        end is the end of both.  Nobody asks whether it is admitted, and its own handler is not called.

        @return: the prompt's own work, which is over; L{None} if none is held, or C{work} is cancelled or over.
        """
        core = self._core
        if work is not core.work or not work.inserted or work.cancelled or not core.held:
            return None
        taken = core.held.popleft()
        taken.inserted = taken.over = True
        core.do(taken.insert)
        self._perform()
        return taken

    def cancel(self, trigger: str = "session/cancel", notice: Any = None) -> None:
        """
        C{session/cancel} came: it ends the work and all prompts that are held, and none that comes later (V2N1, V2N9).
        With nothing in the foreground, only C{on_cancel} is told (V2D6).
        """
        self._machine.cancel(trigger, notice)
        self._perform()

    def cancel_request(self, work: Work) -> None:
        """
        C{$/cancel_request} came for the prompt of C{work}.  If that is part of the conversation: nothing (V2D8).
        """
        core = self._core
        if work is core.work:
            self._machine.cancel_request()
        elif work in core.held:
            core.held.remove(work)
            core.cancellations.append((work, "$/cancel_request"))
            core.refuse(work, RequestCancelled())
        self._perform()

    def blocked(self, work: Work) -> None:
        """
        C{work} waits for its user.  Each call wants its L{unblocked}; C{requires_action} is reported from the first to
        the last.
        """
        if work is self._core.work:
            self._blockers += 1
            self._machine.blocked()
            self._perform()

    def unblocked(self, work: Work) -> None:
        """
        One of the things that C{work} waited for is there, or is not waited for any more.
        """
        if work is self._core.work and self._blockers:
            self._blockers -= 1
            if not self._blockers:
                self._machine.unblocked()
                self._perform()

    def close(self, notice: Any = None) -> Deferred[None]:
        """
        C{session/close} came: cancel as L{cancel} does, and take no more prompts.

        @param notice: what C{on_cancel} is told.
        @return: a Deferred that fires once no work is in the foreground, however it ended.  It never fails by itself,
            and cancelling it only stops the waiting.
        """
        closed: Deferred[None] = Deferred(self._stop_waiting)
        self._machine.close(notice, closed)
        self._perform()
        return closed

    def shutdown(self) -> None:
        """
        The agent ends: prompts that are held are refused with -32800, and the work ends with an error, since nobody
        chose to stop it (V2N13).
        """
        self._machine.shutdown()
        self._perform()

    def connection_lost(self) -> None:
        """
        The connection is gone: cancel all there is, without a word.
        """
        self._machine.connection_lost()
        self._perform()

    # What the timers and the handler bring.  Work that is not the current one is over: nothing it does counts.

    def _grace_over(self, work: Work) -> None:
        if work is self._core.work:
            self._machine.grace_over()
            self._perform()

    def _duration_over(self, work: Work) -> None:
        if work is self._core.work:
            self._machine.duration_over()
            self._perform()

    def _returned(self, result: object, work: Work) -> None:
        if work is self._core.work:
            self._machine.returned(result)
            self._perform()
        else:
            _log.debug("session/prompt: the late result of a handler of session {id} is dropped", id=self.session_id)

    def _failed(self, failure: Failure, work: Work) -> None:
        if work is self._core.work:
            self._machine.failed(failure)
            self._perform()
        else:
            _log.debug("session/prompt: the late failure of a handler of session {id} is dropped", id=self.session_id)

    def _admitted(self, _: object, work: Work) -> None:
        if work is self._core.work:
            self._machine.admitted()
            self._perform()

    def _rejected(self, failure: Failure, work: Work) -> None:
        if work is self._core.work:
            self._machine.rejected(failure)
            self._perform()

    # What the machine has recorded.

    def _perform(self) -> None:
        """
        Set the tokens (design rule 3), and do the rest; but go on to a prompt or a handler only with no caller below.
        """
        core = self._core
        outermost, self._performing = not self._performing, True
        try:
            while True:
                while core.cancellations:
                    work, trigger = core.cancellations.popleft()
                    work.token.cancel(trigger)
                if core.effects:
                    core.effects.popleft()()
                elif not (outermost and self._go_on()):
                    return
        finally:
            if outermost:
                self._performing = False

    def _go_on(self) -> bool:
        """
        Ask whether a prompt is admitted, start a handler, or turn to the next prompt.  Returns whether there was one.
        """
        core = self._core
        if core.admitting is not None:
            work, core.admitting = core.admitting, None
            if not work.over:
                self._watch(work, work.admit, self._admitted, self._rejected)
        elif core.starting is not None:
            work, core.starting = core.starting, None
            self._blockers = 0
            if not work.over:
                self._watch(work, work.run, self._returned, self._failed)
        elif core.held and core.work is None:
            self._machine.next()
        else:
            return False
        return True

    @staticmethod
    def _watch(
        work: Work,
        run: Callable[[], Any],
        done: Callable[[Any, Work], object],
        failed: Callable[[Failure, Work], object],
    ) -> None:
        try:
            outcome = run()
        except BaseException:  # what a Deferred would catch of a handler, this does
            failed(Failure(), work)
            return
        if isinstance(outcome, Deferred):
            outcome.addCallbacks(done, failed, callbackArgs=(work,), errbackArgs=(work,))
            outcome.addErrback(lambda failure: _log.failure("session/prompt: the work could not end", failure))
            work.stop_if_asked()
        else:
            done(outcome, work)

    def _say(self, state: str, ended: Ended | None) -> None:
        with _log.failuresHandled("session/prompt: a state could not be reported"):
            self._report(state, ended)

    def _tell(self, trigger: str, notice: object) -> None:
        if self._on_cancel is not None:
            try:
                self._on_cancel(trigger, notice)
            except BaseException:
                _log.failure("session/cancel: the cancel handler failed")

    def _stop_waiting(self, closed: Deferred[None]) -> None:
        if closed in self._core.waiting:
            self._core.waiting.remove(closed)
