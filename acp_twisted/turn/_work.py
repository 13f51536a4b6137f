"""
One piece of foreground work (protocol version 2): the prompt that it began with, if there was one, its handler, and its
view of its cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError
from acp_twisted.jsonrpc.cancellation import CancellationToken

_log = Logger()


@define(eq=False)
class Work:
    """
    One piece of foreground work of one session, from the prompt that asks for it to the report that it is over.  Pieces
    of work compare by identity (design rule 4).

    @ivar session_id: the session's id.
    @ivar token: set when anything cancels this work.
    @ivar inserted: whether its prompt is part of the conversation.  From then on the prompt has its answer.
    @ivar over: whether it has ended, or will never begin.  It becomes true just before C{idle} is reported, and updates
        sent for it after that are to be dropped.
    @ivar prompt: the prompt that it began with, as whoever began it has it.
    @ivar before_end: what is called, once, right before C{idle} is reported, when C{over} is true already.
    """

    session_id: str
    token: CancellationToken = field(repr=False)
    # Not shown: what these hold on to may hold the prompt, and work may be shown in a log (design rule 9).
    _insert: Callable[[Work], object] = field(repr=False)
    _refuse: Callable[[AcpError], object] = field(repr=False)
    _start: Callable[[Work], Any] = field(repr=False)
    _admit: Callable[[Work], Any] | None = field(default=None, repr=False)
    prompt: Any = field(default=None, repr=False)
    inserted: bool = field(default=False, init=False)
    over: bool = field(default=False, init=False)
    before_end: list[Callable[[], object]] = field(factory=list, init=False, repr=False)
    _running: Deferred[Any] | None = field(default=None, init=False, repr=False)
    _stopped: bool = field(default=False, init=False, repr=False)

    @property
    def cancelled(self) -> bool:
        """
        Whether anything has cancelled the work.  Once true it stays true.
        """
        return self.token.cancelled

    # The rest is for the session, which calls each where its state machine says so.

    def admit(self) -> Any:
        """
        Ask whether the prompt may become part of the conversation.

        @return: a Deferred, if that is not known yet.
        @raise BaseException: if it may not.
        """
        return None if self._admit is None else self._keep(self._admit)

    def run(self) -> Any:
        """
        Start the handler.

        @return: its Deferred; or what it came to, if that is known already.
        @raise BaseException: what the handler raised.
        """
        return self._keep(self._start)

    def _keep(self, run: Callable[[Work], Any]) -> Any:
        self._running = None
        outcome = run(self)  # which may have the work stopped
        if isinstance(outcome, CoroutineType):
            outcome = Deferred.fromCoroutine(outcome)
        if not isinstance(outcome, Deferred):
            return outcome
        if outcome.called and not outcome.paused and not isinstance(outcome.result, Failure):
            return outcome.result
        self._running = outcome
        return outcome

    def stop(self) -> None:
        """
        Cancel what runs, which may be on its way still.
        """
        self._stopped = True
        self.stop_if_asked()

    def stop_if_asked(self) -> None:
        """
        Cancel what runs, if it was to be cancelled and is here.  A canceller that raises is logged (B75): nobody waits
        for it any more.
        """
        if self._stopped and self._running is not None:
            try:
                self._running.cancel()
            except BaseException:
                _log.failure("session/prompt: the handler's cancellation failed")

    def insert(self) -> None:
        """
        The prompt is part of the conversation now: answer it, and report it.
        """
        with _log.failuresHandled("session/prompt: the message could not be reported"):
            self._insert(self)

    def refuse(self, error: AcpError) -> None:
        """
        The prompt will not be part of the conversation: answer it with C{error}.
        """
        with _log.failuresHandled("session/prompt: the error could not be sent"):
            self._refuse(error)

    def last_words(self) -> None:
        """
        What is to be sent before the work is reported to be over.
        """
        while self.before_end:
            with _log.failuresHandled("session/prompt: what was to come before the end failed"):
                self.before_end.pop(0)()


@frozen
class Ended:
    """
    How work ended.

    @ivar cancelled: whether the user or the client chose to stop it; then nothing else counts but the C{result}'s own
        data beside its stop reason.
    @ivar result: what its handler returned.
    @ivar error: why it failed, or was stopped for another reason than the client's choice.
    """

    work: Work
    cancelled: bool = False
    result: object = None
    error: AcpError | None = None
