"""
One prompt turn: what it was handed to answer with, its handler, and its view of its cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError, InternalError
from acp_twisted.jsonrpc.cancellation import CancellationToken

_log = Logger()


@define(eq=False)
class Turn:
    """
    One prompt of one session, from its acceptance to its answer.  Turns compare by identity (design rule 4).

    @ivar session_id: the session's id.
    @ivar token: set when anything cancels this turn.
    @ivar answered: whether the turn is over: its answer is decided, or can't be given any more.  It becomes true just
        before the answer is written, and updates sent for the turn after that are to be dropped.
    @ivar before_answer: what is called, once, right before the answer is written, when C{answered} is true already.
    """

    session_id: str
    token: CancellationToken = field(repr=False)
    # Not shown: what these hold on to may hold the prompt, and a turn may be shown in a log (design rule 9).
    _respond: Callable[[Any], object] = field(repr=False)
    _fail: Callable[[AcpError], object] = field(repr=False)
    _start: Callable[[Turn], Deferred[Any]] = field(repr=False)
    _cancelled_with: Callable[[Any], object] = field(repr=False)
    answered: bool = field(default=False, init=False)
    before_answer: list[Callable[[], object]] = field(factory=list, init=False, repr=False)
    _handler: Deferred[Any] | None = field(default=None, init=False, repr=False)
    _stopped: bool = field(default=False, init=False, repr=False)

    @property
    def cancelled(self) -> bool:
        """
        Whether anything has cancelled the turn.  Once true it stays true.
        """
        return self.token.cancelled

    @property
    def cancellations(self) -> tuple[str, ...]:
        """
        What has cancelled the turn, in the order in which it happened.
        """
        return self.token.triggers

    # The rest is for the session, which calls each where its state machine says so.

    def run(self) -> Any:
        """
        Start the handler.

        @return: its Deferred; or what it came to, if that is known already.
        @raise BaseException: what the handler raised.
        """
        outcome = self._start(self)
        if isinstance(outcome, CoroutineType):
            outcome = Deferred.fromCoroutine(outcome)
        if not isinstance(outcome, Deferred):
            return outcome
        if outcome.called and not outcome.paused and not isinstance(outcome.result, Failure):
            return outcome.result
        self._handler = outcome
        return outcome

    def stop_handler(self) -> None:
        """
        Cancel the handler's Deferred, which may be on its way still.
        """
        self._stopped = True
        self.stop_if_asked()

    def stop_if_asked(self) -> None:
        """
        Cancel the handler's Deferred, if it was to be cancelled and is here.  A canceller that raises is logged (B75):
        nobody waits for the handler any more.
        """
        if self._stopped and self._handler is not None:
            try:
                self._handler.cancel()
            except BaseException:
                _log.failure("session/prompt: the handler's cancellation failed")

    def respond(self, result: object) -> None:
        """
        Answer with C{result}; with -32603 if it can't be sent.
        """
        self._last_words()
        try:
            self._respond(result)
        except Exception:
            _log.failure("session/prompt: the result could not be sent")
            self.fail(InternalError())

    def respond_cancelled(self, result: object = None) -> None:
        """
        Answer with the stop reason C{cancelled}, keeping what is to be kept of the handler's own C{result}; without it,
        if that can't be sent.
        """
        self._last_words()
        for kept in (None,) if result is None else (result, None):
            try:
                self._respond(self._cancelled_with(kept))
            except Exception:
                _log.failure("session/prompt: the cancelled result could not be sent")
            else:
                return
        self.fail(InternalError())

    def fail(self, error: AcpError) -> None:
        """
        Answer with C{error}.
        """
        self._last_words()
        try:
            self._fail(error)
        except Exception:
            _log.failure("session/prompt: the error could not be sent")

    def _last_words(self) -> None:
        while self.before_answer:
            with _log.failuresHandled("session/prompt: what was to come before the answer failed"):
                self.before_answer.pop(0)()
