"""
The turns of one session, on the agent's side.

L{PromptSession} is the facade of the state machine in L{acp_twisted.turn._machine}: it sees to it that an event about a
turn that is over counts for nothing, lets the machine move, and then does what the machine recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.turn._machine import TurnCore, turn_machine
from acp_twisted.turn._turn import Turn
from acp_twisted.turn.timeouts import PromptTimeouts

__all__ = ["PromptSession", "Turn"]

_log = Logger()


class PromptSession:
    """
    The state machine of one session's turns: at most one turn at a time, and exactly one answer to each prompt.

    Every event may come at any time, from within any of the callbacks too, and its consequences are there when the
    method returns: first the machine moves, then the turn's token is set, then the rest is done, in the order of the
    events.  One thing may come later: a handler does not start below another callback of its session, but once that has
    returned.  So a conversation over an in-memory link does not grow the stack.
    """

    def __init__(
        self,
        session_id: str,
        clock: IReactorTime,
        timeouts: PromptTimeouts,
        on_cancel: Callable[[str, Any], object] | None = None,
    ) -> None:
        """
        @param session_id: the session's id.
        @param clock: what the timers run on.
        @param timeouts: how long a turn may take.
        @param on_cancel: told of each C{session/cancel} and C{session/close}, whether or not a turn is active, after
            the turn's token is set: the trigger, and the notice given to L{cancel} or L{close}.  What it raises is
            logged; a Deferred that it returns is its own affair.
        """
        self._on_cancel = on_cancel
        self._performing = False
        self._core = TurnCore(
            session_id=session_id,
            clock=clock,
            timeouts=timeouts,
            tell=self._tell,
            grace_over=self._grace_over,
            duration_over=self._duration_over,
        )
        self._machine = turn_machine(self._core)

    @property
    def session_id(self) -> str:
        """
        The session's id.
        """
        return self._core.session_id

    @property
    def busy(self) -> bool:
        """
        Whether a prompt is unanswered.  False just before its answer is written (design rule 4).
        """
        return self._core.turn is not None

    @property
    def closed(self) -> bool:
        """
        Whether the session takes no more prompts: it was closed, shut down, or lost its connection.
        """
        return self._core.closed

    @property
    def turn(self) -> Turn | None:
        """
        The turn whose prompt is unanswered, if there is one.
        """
        return self._core.turn

    def begin(
        self,
        respond: Callable[[Any], object],
        fail: Callable[[AcpError], object],
        start: Callable[[Turn], Deferred[Any]],
        cancelled_with: Callable[[Any], object],
        token: CancellationToken | None = None,
    ) -> Turn:
        """
        A prompt came: accept it, and start its handler.

        Of C{respond} and C{fail}, one is called once, unless the connection is lost first.  If C{respond} raises, then
        C{fail} is called after all, with -32603.

        @param respond: answers the prompt with a result.
        @param fail: answers it with an error.
        @param start: starts the handler, and returns its Deferred (or a coroutine, or a value).  It is called from
            within this method, and then it is the first to learn of the turn; if the prompt came from within a callback
            of this session, later, once that callback has returned; and not at all if the turn has ended before.
            C{None} is no result.
        @param cancelled_with: makes the result with stop reason C{cancelled}: from the handler's own result, of which
            it keeps what is to be kept, or from L{None}.
        @param token: the request's token, if it has one already.  Only this session may set it.
        @return: the new turn.  It may be over already.
        @raise InvalidRequest: if a prompt is unanswered, or the session is closed.  Nothing else happens then.
        """
        core = self._core
        turn = Turn(
            core.session_id, CancellationToken() if token is None else token, respond, fail, start, cancelled_with
        )
        self._machine.prompt(turn)
        refusal, core.refusal = core.refusal, None
        if refusal is not None:
            raise refusal
        if not self._performing:
            # From within a callback, whoever called that goes on with what there is to do.  Nothing is done here before
            # the caller knows the turn, which he may have to cancel.
            self._perform()
        return turn

    def cancel(self, trigger: str = "session/cancel", notice: Any = None) -> None:
        """
        C{session/cancel} came.  With no turn active, only C{on_cancel} is told; a later prompt does not see it.

        @param trigger: what the turn's token is set with.
        @param notice: what C{on_cancel} is told.
        """
        self._machine.cancel(trigger, notice)
        self._perform()

    def cancel_request(self, turn: Turn) -> None:
        """
        C{$/cancel_request} came for C{turn}'s prompt.  If that is answered: nothing.
        """
        if turn is self._core.turn:
            self._machine.cancel_request()
            self._perform()

    def close(self, notice: Any = None) -> Deferred[None]:
        """
        C{session/close} came: cancel the active turn as L{cancel} does, and take no more prompts.

        @param notice: what C{on_cancel} is told.
        @return: a Deferred that fires once no turn is active, however it ended.  It never fails by itself, and
            cancelling it only stops the waiting.
        """
        closed: Deferred[None] = Deferred(self._stop_waiting)
        self._machine.close(notice, closed)
        self._perform()
        return closed

    def shutdown(self) -> None:
        """
        The agent ends: answer the active turn as L{cancel_request} does, and take no more prompts.
        """
        self._machine.shutdown()
        self._perform()

    def connection_lost(self) -> None:
        """
        The connection is gone: cancel the active turn without an answer, and take no more prompts.
        """
        self._machine.connection_lost()
        self._perform()

    # What the timers and the handler bring.  A turn that is not the current one is over: nothing it does counts.

    def _grace_over(self, turn: Turn) -> None:
        if turn is self._core.turn:
            self._machine.grace_over()
            self._perform()

    def _duration_over(self, turn: Turn) -> None:
        if turn is self._core.turn:
            self._machine.duration_over()
            self._perform()

    def _returned(self, result: object, turn: Turn) -> None:
        if turn is self._core.turn:
            self._machine.returned(result)
            self._perform()
        else:
            _log.debug("session/prompt: the late result of a handler of session {session_id} is dropped", **self._names)

    def _failed(self, failure: Failure, turn: Turn) -> None:
        if turn is self._core.turn:
            self._machine.failed(failure)
            self._perform()
        else:
            _log.debug(
                "session/prompt: the late failure of a handler of session {session_id} is dropped", **self._names
            )

    # What the machine has recorded.

    def _perform(self) -> None:
        """
        Set the tokens (design rule 3), and do the rest; but start a handler only with no caller below at it.
        """
        core = self._core
        outermost, self._performing = not self._performing, True
        try:
            while core.cancellations:
                turn, trigger = core.cancellations.popleft()
                turn.token.cancel(trigger)
            while core.effects:
                core.effects.popleft()()
            while outermost and core.starting is not None:
                turn, core.starting = core.starting, None
                self._run(turn)
        finally:
            if outermost:
                self._performing = False

    def _run(self, turn: Turn) -> None:
        if turn.answered:
            return  # it ended before its handler could begin
        try:
            outcome = turn.run()
        except BaseException:  # what a Deferred would catch of a handler, this does
            self._failed(Failure(), turn)
            return
        if isinstance(outcome, Deferred):
            outcome.addCallbacks(self._returned, self._failed, callbackArgs=(turn,), errbackArgs=(turn,))
            outcome.addErrback(lambda failure: _log.failure("session/prompt: the turn could not end", failure))
            turn.stop_if_asked()
        else:
            self._returned(outcome, turn)

    def _tell(self, trigger: str, notice: object) -> None:
        if self._on_cancel is not None:
            try:
                self._on_cancel(trigger, notice)
            except BaseException:
                _log.failure("session/cancel: the cancel handler failed")

    def _stop_waiting(self, closed: Deferred[None]) -> None:
        if closed in self._core.waiting:
            self._core.waiting.remove(closed)

    @property
    def _names(self) -> dict[str, str]:
        return {"session_id": self._core.session_id}
