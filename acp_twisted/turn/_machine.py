"""
The state machine of one session's turns (the v1 prompt turn), on Automat.

An output never calls anybody: it moves the timers and records what is to be done, in L{TurnCore}'s C{cancellations},
C{effects} and C{starting}.  L{PromptSession<acp_twisted.turn.prompt_session.PromptSession>} does it after the machine
has moved.  So no user code runs inside an output, and an event that comes from within user code finds the machine at
rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from attrs import define, field
from automat import TypeMachineBuilder
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError, InternalError, InvalidRequest, LocalError, RequestCancelled, answer_for
from acp_twisted.turn._indexed import indexed
from acp_twisted.turn._turn import Turn
from acp_twisted.turn.timeouts import PromptTimeouts, iso8601_duration

_log = Logger()


class TurnInputs(Protocol):
    """
    What can happen to a session.  C{cancel_request} and the four after it are about the session's current turn; whoever
    calls them has made sure of that.
    """

    def prompt(self, turn: Turn) -> None:
        """A prompt came."""

    def cancel(self, trigger: str, notice: object) -> None:
        """The client cancelled the session's turn."""

    def close(self, notice: object, closed: Deferred[None]) -> None:
        """The client closes the session."""

    def cancel_request(self) -> None:
        """The client cancelled the prompt's request."""

    def returned(self, result: object) -> None:
        """The handler ended with a result."""

    def failed(self, failure: Failure) -> None:
        """The handler failed."""

    def grace_over(self) -> None:
        """The cancelled handler took too long to end."""

    def duration_over(self) -> None:
        """The turn took too long."""

    def shutdown(self) -> None:
        """The agent ends, and the connection still carries answers."""

    def connection_lost(self) -> None:
        """The connection is gone."""


@define(eq=False)
class TurnCore:
    """
    What the machine works on.

    @ivar turn: the turn that has no answer yet, if any.
    @ivar refusal: why the machine took no turn at its last C{prompt}.
    @ivar closed: whether the session takes no more prompts at all.
    @ivar cancellations: the tokens to set, and each one's trigger, before anything else is done.
    @ivar effects: what is to be done then, in this order.
    @ivar starting: the turn whose handler is to start last of all.
    @ivar waiting: the Deferreds of those who wait for the session to be closed.
    """

    session_id: str
    clock: IReactorTime
    timeouts: PromptTimeouts
    tell: Callable[[str, object], object]
    grace_over: Callable[[Turn], object]
    duration_over: Callable[[Turn], object]
    turn: Turn | None = field(default=None, init=False)
    refusal: InvalidRequest | None = field(default=None, init=False)
    closed: bool = field(default=False, init=False)
    cancellations: deque[tuple[Turn, str]] = field(factory=deque, init=False)
    effects: deque[Callable[[], object]] = field(factory=deque, init=False)
    starting: Turn | None = field(default=None, init=False)
    waiting: list[Deferred[None]] = field(factory=list, init=False)
    _grace: IDelayedCall | None = field(default=None, init=False)
    _duration: IDelayedCall | None = field(default=None, init=False)

    def do(self, effect: Callable[..., object], *args: object) -> None:
        """
        Record that C{effect} is to be called.
        """
        self.effects.append(partial(effect, *args))

    def current(self) -> Turn:
        """
        The turn that a state with a turn has.
        """
        if self.turn is None:
            raise AssertionError("the machine is in a state with a turn, and there is none")
        return self.turn

    def refuse(self, why: str) -> None:
        """
        Take no turn.
        """
        self.refusal = InvalidRequest(why, {"sessionId": self.session_id})

    def begin(self, turn: Turn) -> None:
        """
        Make C{turn} the session's turn: its time runs, and its handler is to start.
        """
        self.turn = self.starting = turn
        seconds = self.timeouts.max_prompt_duration
        if seconds:
            self._duration = self.clock.callLater(seconds, self.duration_over, turn)

    def cancel(self, trigger: str) -> Turn:
        """
        Cancel the current turn: its token is to be set.
        """
        turn = self.current()
        self.cancellations.append((turn, trigger))
        return turn

    def start_grace(self) -> None:
        """
        Give the handler its time to end by itself.
        """
        seconds = self.timeouts.cancel_grace_period
        if seconds:
            self._grace = self.clock.callLater(seconds, self.grace_over, self.current())

    def end(self) -> Turn:
        """
        Release the session: the current turn is over, and its timers with it.
        """
        turn = self.current()
        self.turn = None
        turn.answered = True
        for timer in (self._grace, self._duration):
            if timer is not None and timer.active():
                timer.cancel()
        self._grace = self._duration = None
        return turn

    def close(self) -> None:
        """
        Take no more prompts, and tell those who waited for that.
        """
        self.closed = True
        waiting, self.waiting = self.waiting, []
        for closed in waiting:
            self.do(_fire, closed)


def _fire(closed: Deferred[None]) -> None:
    """
    Tell C{closed}'s owner, unless he has cancelled it.
    """
    if not closed.called:
        closed.callback(None)


def _answer_failure(core: TurnCore, failure: Failure) -> AcpError:
    """
    What a handler's C{failure} is answered with.  It is logged here if the answer says less than it does.
    """
    error: BaseException = failure.value  # type: ignore[assignment]  # None only in a Failure that was cleaned for pickling
    if isinstance(error, LocalError):
        _log.warn(
            "session/prompt: the handler of session {session_id} failed with {kind}: {text}",
            session_id=core.session_id,
            kind=type(error).__name__,
            text=str(error),
        )
    elif not isinstance(error, AcpError | CancelledError):
        _log.failure("session/prompt: the handler of session {session_id} failed", failure, session_id=core.session_id)
    return answer_for(error)


def _make_builder() -> TypeMachineBuilder[TurnInputs, TurnCore]:  # noqa: PLR0915 (one table, kept in one place)
    builder = TypeMachineBuilder(TurnInputs, TurnCore)

    idle = builder.state("Idle")
    running = builder.state("Running")
    cancelling = builder.state("Cancelling")
    closing = builder.state("Closing")  # Cancelling, with Closed after it
    closed = builder.state("Closed")

    # Transitions without behaviour: no turn, so nothing to do to one.
    for state in (idle, closed):
        state.upon(TurnInputs.cancel_request).loop().returns(None)
        state.upon(TurnInputs.returned).loop().returns(None)
        state.upon(TurnInputs.failed).loop().returns(None)
        state.upon(TurnInputs.grace_over).loop().returns(None)
        state.upon(TurnInputs.duration_over).loop().returns(None)
    running.upon(TurnInputs.grace_over).loop().returns(None)
    closed.upon(TurnInputs.cancel).loop().returns(None)
    closed.upon(TurnInputs.shutdown).loop().returns(None)
    closed.upon(TurnInputs.connection_lost).loop().returns(None)

    # A prompt.
    @idle.upon(TurnInputs.prompt).to(running)
    def begin(inputs: TurnInputs, core: TurnCore, turn: Turn) -> None:
        core.begin(turn)

    @running.upon(TurnInputs.prompt).loop()
    @cancelling.upon(TurnInputs.prompt).loop()
    @closing.upon(TurnInputs.prompt).loop()
    def refuse_busy(inputs: TurnInputs, core: TurnCore, turn: Turn) -> None:
        core.refuse(f"there is already an active prompt on session {core.session_id}")

    @closed.upon(TurnInputs.prompt).loop()
    def refuse_closed(inputs: TurnInputs, core: TurnCore, turn: Turn) -> None:
        core.refuse(f"session {core.session_id} is closed")

    # The handler ends, and nothing cancelled it before.
    @running.upon(TurnInputs.returned).to(idle)
    def answer(inputs: TurnInputs, core: TurnCore, result: object) -> None:
        turn = core.end()
        if result is None:
            core.do(turn.fail, InternalError("The session/prompt handler produced no response"))
        else:
            core.do(turn.respond, result)

    @running.upon(TurnInputs.failed).to(idle)
    def answer_error(inputs: TurnInputs, core: TurnCore, failure: Failure) -> None:
        core.do(core.end().fail, _answer_failure(core, failure))

    # The client cancels: the handler may still end by itself.
    @idle.upon(TurnInputs.cancel).loop()
    def tell(inputs: TurnInputs, core: TurnCore, trigger: str, notice: object) -> None:
        core.do(core.tell, trigger, notice)

    @running.upon(TurnInputs.cancel).to(cancelling)
    def cancel(inputs: TurnInputs, core: TurnCore, trigger: str, notice: object) -> None:
        core.cancel(trigger)
        core.start_grace()
        core.do(core.tell, trigger, notice)

    @cancelling.upon(TurnInputs.cancel).loop()
    @closing.upon(TurnInputs.cancel).loop()
    def cancel_again(inputs: TurnInputs, core: TurnCore, trigger: str, notice: object) -> None:
        core.cancel(trigger)
        core.do(core.tell, trigger, notice)

    # The client closes the session, which cancels first (V1C10).
    @running.upon(TurnInputs.close).to(closing)
    def cancel_to_close(inputs: TurnInputs, core: TurnCore, notice: object, closed: Deferred[None]) -> None:
        core.waiting.append(closed)
        cancel(inputs, core, "session/close", notice)

    @cancelling.upon(TurnInputs.close).to(closing)
    @closing.upon(TurnInputs.close).loop()
    def cancel_again_to_close(inputs: TurnInputs, core: TurnCore, notice: object, closed: Deferred[None]) -> None:
        core.waiting.append(closed)
        cancel_again(inputs, core, "session/close", notice)

    @idle.upon(TurnInputs.close).to(closed)
    def close(inputs: TurnInputs, core: TurnCore, notice: object, closed: Deferred[None]) -> None:
        core.waiting.append(closed)
        core.do(core.tell, "session/close", notice)
        core.close()

    @closed.upon(TurnInputs.close).loop()
    def already_closed(inputs: TurnInputs, core: TurnCore, notice: object, closed: Deferred[None]) -> None:
        core.do(_fire, closed)

    # The cancelled handler ends: whatever it says, the turn was cancelled (V1C5, V1C6, B07).
    @cancelling.upon(TurnInputs.returned).to(idle)
    def answer_cancelled(inputs: TurnInputs, core: TurnCore, result: object) -> None:
        core.do(core.end().respond_cancelled, result)

    @cancelling.upon(TurnInputs.failed).to(idle)
    def answer_cancelled_anyway(inputs: TurnInputs, core: TurnCore, failure: Failure) -> None:
        _log.debug(
            "session/prompt: the cancelled handler of session {session_id} failed with {kind}",
            session_id=core.session_id,
            kind=failure.type.__name__ if failure.type else "",
        )
        core.do(core.end().respond_cancelled)

    @closing.upon(TurnInputs.returned).to(closed)
    def answer_cancelled_and_close(inputs: TurnInputs, core: TurnCore, result: object) -> None:
        answer_cancelled(inputs, core, result)
        core.close()

    @closing.upon(TurnInputs.failed).to(closed)
    def answer_cancelled_anyway_and_close(inputs: TurnInputs, core: TurnCore, failure: Failure) -> None:
        answer_cancelled_anyway(inputs, core, failure)
        core.close()

    # The turn is ended for its handler: the answer first, then the handler's cancellation.
    def force(core: TurnCore, trigger: str, error: AcpError | None = None) -> None:
        core.cancel(trigger)
        turn = core.end()
        if error is None:
            core.do(turn.respond_cancelled)
        else:
            core.do(turn.fail, error)
        core.do(turn.stop_handler)

    @running.upon(TurnInputs.cancel_request).to(idle)
    def force_error(inputs: TurnInputs, core: TurnCore) -> None:
        force(core, "$/cancel_request", RequestCancelled())

    @cancelling.upon(TurnInputs.cancel_request).to(idle)
    def force_cancelled(inputs: TurnInputs, core: TurnCore) -> None:
        force(core, "$/cancel_request")

    @closing.upon(TurnInputs.cancel_request).to(closed)
    def force_cancelled_and_close(inputs: TurnInputs, core: TurnCore) -> None:
        force(core, "$/cancel_request")
        core.close()

    @cancelling.upon(TurnInputs.grace_over).to(idle)
    def force_after_grace(inputs: TurnInputs, core: TurnCore) -> None:
        _log.warn(
            "session/prompt: the handler of session {session_id} did not end within {seconds} s of its cancellation",
            session_id=core.session_id,
            seconds=core.timeouts.cancel_grace_period,
        )
        force(core, "cancelGracePeriod")

    @closing.upon(TurnInputs.grace_over).to(closed)
    def force_after_grace_and_close(inputs: TurnInputs, core: TurnCore) -> None:
        force_after_grace(inputs, core)
        core.close()

    def warn_of_duration(core: TurnCore) -> None:
        _log.warn(
            "session/prompt: the turn of session {session_id} took longer than {seconds} s",
            session_id=core.session_id,
            seconds=core.timeouts.max_prompt_duration,
        )

    @running.upon(TurnInputs.duration_over).to(idle)
    def force_error_after_duration(inputs: TurnInputs, core: TurnCore) -> None:
        warn_of_duration(core)
        limit = iso8601_duration(core.timeouts.max_prompt_duration)
        error = RequestCancelled(f"Prompt exceeded maxPromptDuration of {limit}", {"maxPromptDuration": limit})
        force(core, "maxPromptDuration", error)

    @cancelling.upon(TurnInputs.duration_over).to(idle)
    def force_cancelled_after_duration(inputs: TurnInputs, core: TurnCore) -> None:
        warn_of_duration(core)
        force(core, "maxPromptDuration")

    @closing.upon(TurnInputs.duration_over).to(closed)
    def force_cancelled_after_duration_and_close(inputs: TurnInputs, core: TurnCore) -> None:
        force_cancelled_after_duration(inputs, core)
        core.close()

    # The agent ends: as $/cancel_request, and no more prompts.
    @idle.upon(TurnInputs.shutdown).to(closed)
    @idle.upon(TurnInputs.connection_lost).to(closed)
    def end_idle(inputs: TurnInputs, core: TurnCore) -> None:
        core.close()

    @running.upon(TurnInputs.shutdown).to(closed)
    def shut_down(inputs: TurnInputs, core: TurnCore) -> None:
        force(core, "shutdown", RequestCancelled())
        core.close()

    @cancelling.upon(TurnInputs.shutdown).to(closed)
    @closing.upon(TurnInputs.shutdown).to(closed)
    def shut_down_cancelled(inputs: TurnInputs, core: TurnCore) -> None:
        force(core, "shutdown")
        core.close()

    # Nobody is left to answer.
    @running.upon(TurnInputs.connection_lost).to(closed)
    @cancelling.upon(TurnInputs.connection_lost).to(closed)
    @closing.upon(TurnInputs.connection_lost).to(closed)
    def abandon(inputs: TurnInputs, core: TurnCore) -> None:
        core.cancel("connectionLost")
        core.do(core.end().stop_handler)
        core.close()

    return builder


turn_machine = indexed(_make_builder().build())
"""
Makes the machine that drives one L{TurnCore}.
"""
