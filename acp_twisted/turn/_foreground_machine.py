"""
The state machine of one session's foreground work (protocol version 2), on Automat.

As in L{acp_twisted.turn._machine}, an output never calls anybody: it moves the timers and records what is to be done,
which L{Foreground<acp_twisted.turn.foreground.Foreground>} does after the machine has moved.
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

from acp_twisted.errors import AcpError, LocalError, RequestCancelled, ResourceNotFound, answer_for
from acp_twisted.turn._indexed import indexed
from acp_twisted.turn._work import Ended, Work
from acp_twisted.turn.timeouts import PromptTimeouts, iso8601_duration

_log = Logger()


class ForegroundInputs(Protocol):
    """
    What can happen to a session.  C{admitted} and all after it up to C{duration_over} are about the session's current
    work; whoever calls them has made sure of that.
    """

    def prompt(self, work: Work) -> None:
        """A prompt came."""

    def next(self) -> None:
        """Nothing is left to be done, and prompts are held."""

    def admitted(self) -> None:
        """The prompt may become part of the conversation."""

    def rejected(self, failure: Failure) -> None:
        """It may not."""

    def blocked(self) -> None:
        """The work can't go on without the user."""

    def unblocked(self) -> None:
        """It can again."""

    def returned(self, result: object) -> None:
        """The handler ended with a result."""

    def failed(self, failure: Failure) -> None:
        """The handler failed."""

    def cancel_request(self) -> None:
        """The client cancelled the request of the prompt, which is not part of the conversation yet."""

    def grace_over(self) -> None:
        """The cancelled handler took too long to end."""

    def duration_over(self) -> None:
        """The work took too long."""

    def cancel(self, trigger: str, notice: object) -> None:
        """The client cancelled the session's work."""

    def close(self, notice: object, closed: Deferred[None]) -> None:
        """The client closes the session."""

    def shutdown(self) -> None:
        """The agent ends, and the connection still carries messages."""

    def connection_lost(self) -> None:
        """The connection is gone."""


@define(eq=False)
class ForegroundCore:
    """
    What the machine works on.

    @ivar work: the work that is not over yet, if any.
    @ivar held: prompts that wait for their turn, in the order in which they came.
    @ivar state: what was last reported, or is about to be.
    @ivar closed: whether the session takes no more prompts at all.
    @ivar cancellations: the tokens to set, and each one's trigger, before anything else is done.
    @ivar effects: what is to be done then, in this order.
    @ivar admitting: the work that is to be admitted last of all.
    @ivar starting: the work whose handler is to start last of all.
    @ivar waiting: the Deferreds of those who wait for the session to be closed.
    """

    session_id: str
    clock: IReactorTime
    timeouts: PromptTimeouts
    tell: Callable[[str, object], object]
    report: Callable[[str, Ended | None], object]
    grace_over: Callable[[Work], object]
    duration_over: Callable[[Work], object]
    work: Work | None = field(default=None, init=False)
    held: deque[Work] = field(factory=deque, init=False)
    state: str = field(default="idle", init=False)
    closed: bool = field(default=False, init=False)
    cancellations: deque[tuple[Work, str]] = field(factory=deque, init=False)
    effects: deque[Callable[[], object]] = field(factory=deque, init=False)
    admitting: Work | None = field(default=None, init=False)
    starting: Work | None = field(default=None, init=False)
    waiting: list[Deferred[None]] = field(factory=list, init=False)
    _grace: IDelayedCall | None = field(default=None, init=False)
    _duration: IDelayedCall | None = field(default=None, init=False)

    def do(self, effect: Callable[..., object], *args: object) -> None:
        """
        Record that C{effect} is to be called.
        """
        self.effects.append(partial(effect, *args))

    def current(self) -> Work:
        """
        The work that a state with work has.
        """
        if self.work is None:
            raise AssertionError("the machine is in a state with work, and there is none")
        return self.work

    def take(self) -> None:
        """
        Let the first of the held prompts become the session's work, if it is admitted.
        """
        self.work = self.admitting = self.held.popleft()

    def begin(self) -> None:
        """
        The current work begins: its prompt is part of the conversation, its time runs, and its handler is to start.
        """
        work = self.current()
        work.inserted = True
        self.starting = work
        seconds = self.timeouts.max_prompt_duration
        if seconds:
            self._duration = self.clock.callLater(seconds, self.duration_over, work)
        self.do(work.insert)
        self.say("running")

    def say(self, state: str, ended: Ended | None = None) -> None:
        """
        Report a state.
        """
        self.state = state
        self.do(self.report, state, ended)

    def cancel(self, trigger: str) -> Work:
        """
        Cancel the current work: its token is to be set.
        """
        work = self.current()
        self.cancellations.append((work, trigger))
        return work

    def refuse(self, work: Work, error: AcpError) -> None:
        """
        Never begin C{work}.
        """
        work.over = True
        self.do(work.refuse, error)

    def drop_held(self, trigger: str) -> None:
        """
        No prompt that is held will be part of the conversation (V2N9).
        """
        held, self.held = self.held, deque()
        for work in held:
            self.cancellations.append((work, trigger))
            self.refuse(work, RequestCancelled())

    def start_grace(self) -> None:
        """
        Give the handler its time to end by itself.
        """
        seconds = self.timeouts.cancel_grace_period
        if seconds:
            self._grace = self.clock.callLater(seconds, self.grace_over, self.current())

    def release(self) -> Work:
        """
        The current work is over, and its timers with it.
        """
        work = self.current()
        self.work = None
        work.over = True
        for timer in (self._grace, self._duration):
            if timer is not None and timer.active():
                timer.cancel()
        self._grace = self._duration = None
        return work

    def end(self, *, cancelled: bool = False, result: object = None, error: AcpError | None = None) -> Work:
        """
        The current work is over, and it is to be reported how it ended.
        """
        work = self.release()
        self.do(work.last_words)
        self.say("idle", Ended(work, cancelled, result, error))
        return work

    def close(self) -> None:
        """
        Take no more prompts, and tell those who waited for that.
        """
        self.closed = True
        waiting, self.waiting = self.waiting, []
        for closed in waiting:
            self.do(fire, closed)


def fire(closed: Deferred[None]) -> None:
    """
    Tell C{closed}'s owner, unless he has cancelled it.
    """
    if not closed.called:
        closed.callback(None)


def _reason(core: ForegroundCore, failure: Failure) -> AcpError:
    """
    What the client is told of a C{failure}.  It is logged here if that says less than it does.
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


def _make_builder() -> TypeMachineBuilder[ForegroundInputs, ForegroundCore]:  # noqa: PLR0915 (one table, in one place)
    builder = TypeMachineBuilder(ForegroundInputs, ForegroundCore)

    idle = builder.state("Idle")
    admitting = builder.state("Admitting")  # the client sees an idle session and an unanswered prompt
    running = builder.state("Running")
    blocked = builder.state("Blocked")  # reported as requires_action
    cancelling = builder.state("Cancelling")
    closing = builder.state("Closing")  # Cancelling, with Closed after it
    closed = builder.state("Closed")
    work_states = (running, blocked, cancelling, closing)

    # Transitions without behaviour: what is about work, where there is none or it is past that.
    for state in (idle, closed):
        state.upon(ForegroundInputs.admitted).loop().returns(None)
        state.upon(ForegroundInputs.rejected).loop().returns(None)
        state.upon(ForegroundInputs.cancel_request).loop().returns(None)
    for state in work_states:
        state.upon(ForegroundInputs.admitted).loop().returns(None)
        state.upon(ForegroundInputs.rejected).loop().returns(None)
        state.upon(ForegroundInputs.cancel_request).loop().returns(None)  # it is answered already (V2D8)
    for state in (idle, admitting, closed):
        state.upon(ForegroundInputs.returned).loop().returns(None)
        state.upon(ForegroundInputs.failed).loop().returns(None)
        state.upon(ForegroundInputs.grace_over).loop().returns(None)
        state.upon(ForegroundInputs.duration_over).loop().returns(None)
    for state in (idle, admitting, blocked, cancelling, closing, closed):
        state.upon(ForegroundInputs.blocked).loop().returns(None)
    for state in (idle, admitting, running, cancelling, closing, closed):
        state.upon(ForegroundInputs.unblocked).loop().returns(None)
    for state in (admitting, *work_states, closed):
        state.upon(ForegroundInputs.next).loop().returns(None)
    for state in (running, blocked):
        state.upon(ForegroundInputs.grace_over).loop().returns(None)
    closed.upon(ForegroundInputs.cancel).loop().returns(None)
    closed.upon(ForegroundInputs.shutdown).loop().returns(None)
    closed.upon(ForegroundInputs.connection_lost).loop().returns(None)

    # A prompt: it waits for its turn, and its turn comes when nothing else is in the foreground.
    @idle.upon(ForegroundInputs.prompt).loop()
    @admitting.upon(ForegroundInputs.prompt).loop()
    @running.upon(ForegroundInputs.prompt).loop()
    @blocked.upon(ForegroundInputs.prompt).loop()
    @cancelling.upon(ForegroundInputs.prompt).loop()
    def hold(inputs: ForegroundInputs, core: ForegroundCore, work: Work) -> None:
        core.held.append(work)

    @closing.upon(ForegroundInputs.prompt).loop()
    @closed.upon(ForegroundInputs.prompt).loop()
    def refuse_closed(inputs: ForegroundInputs, core: ForegroundCore, work: Work) -> None:
        core.refuse(work, ResourceNotFound("Session not found", {"sessionId": core.session_id}))

    @idle.upon(ForegroundInputs.next).to(admitting)
    def admit(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        core.take()

    @admitting.upon(ForegroundInputs.admitted).to(running)
    def insert(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        core.begin()

    @admitting.upon(ForegroundInputs.rejected).to(idle)
    def reject(inputs: ForegroundInputs, core: ForegroundCore, failure: Failure) -> None:
        core.refuse(core.release(), _reason(core, failure))

    # The user is waited for.
    @running.upon(ForegroundInputs.blocked).to(blocked)
    def require_action(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        core.say("requires_action")

    @blocked.upon(ForegroundInputs.unblocked).to(running)
    def go_on(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        core.say("running")

    # The handler ends, and nothing cancelled it before.
    @running.upon(ForegroundInputs.returned).to(idle)
    @blocked.upon(ForegroundInputs.returned).to(idle)
    def end(inputs: ForegroundInputs, core: ForegroundCore, result: object) -> None:
        core.end(result=result)

    @running.upon(ForegroundInputs.failed).to(idle)
    @blocked.upon(ForegroundInputs.failed).to(idle)
    def end_with_error(inputs: ForegroundInputs, core: ForegroundCore, failure: Failure) -> None:
        core.end(error=_reason(core, failure))

    # The client cancels: what is not part of the conversation yet never will be; the handler may still end by itself.
    @idle.upon(ForegroundInputs.cancel).loop()
    def tell(inputs: ForegroundInputs, core: ForegroundCore, trigger: str, notice: object) -> None:
        core.drop_held(trigger)
        core.do(core.tell, trigger, notice)

    def drop(core: ForegroundCore, trigger: str) -> None:
        core.cancel(trigger)
        work = core.release()
        core.refuse(work, RequestCancelled())
        core.do(work.stop)

    @admitting.upon(ForegroundInputs.cancel).to(idle)
    def drop_prompts(inputs: ForegroundInputs, core: ForegroundCore, trigger: str, notice: object) -> None:
        drop(core, trigger)
        core.drop_held(trigger)
        core.do(core.tell, trigger, notice)

    @admitting.upon(ForegroundInputs.cancel_request).to(idle)
    def drop_prompt(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        drop(core, "$/cancel_request")

    @running.upon(ForegroundInputs.cancel).to(cancelling)
    @blocked.upon(ForegroundInputs.cancel).to(cancelling)
    def cancel(inputs: ForegroundInputs, core: ForegroundCore, trigger: str, notice: object) -> None:
        core.cancel(trigger)
        core.start_grace()
        core.drop_held(trigger)
        core.do(core.tell, trigger, notice)

    @cancelling.upon(ForegroundInputs.cancel).loop()
    @closing.upon(ForegroundInputs.cancel).loop()
    def cancel_again(inputs: ForegroundInputs, core: ForegroundCore, trigger: str, notice: object) -> None:
        core.cancel(trigger)
        core.drop_held(trigger)
        core.do(core.tell, trigger, notice)

    # The client closes the session, which cancels first (V2N10).
    @idle.upon(ForegroundInputs.close).to(closed)
    def close(inputs: ForegroundInputs, core: ForegroundCore, notice: object, closed: Deferred[None]) -> None:
        core.waiting.append(closed)
        tell(inputs, core, "session/close", notice)
        core.close()

    @admitting.upon(ForegroundInputs.close).to(closed)
    def drop_prompts_and_close(
        inputs: ForegroundInputs, core: ForegroundCore, notice: object, closed: Deferred[None]
    ) -> None:
        core.waiting.append(closed)
        drop_prompts(inputs, core, "session/close", notice)
        core.close()

    @running.upon(ForegroundInputs.close).to(closing)
    @blocked.upon(ForegroundInputs.close).to(closing)
    def cancel_to_close(inputs: ForegroundInputs, core: ForegroundCore, notice: object, closed: Deferred[None]) -> None:
        core.waiting.append(closed)
        cancel(inputs, core, "session/close", notice)

    @cancelling.upon(ForegroundInputs.close).to(closing)
    @closing.upon(ForegroundInputs.close).loop()
    def cancel_again_to_close(
        inputs: ForegroundInputs, core: ForegroundCore, notice: object, closed: Deferred[None]
    ) -> None:
        core.waiting.append(closed)
        cancel_again(inputs, core, "session/close", notice)

    @closed.upon(ForegroundInputs.close).loop()
    def already_closed(inputs: ForegroundInputs, core: ForegroundCore, notice: object, closed: Deferred[None]) -> None:
        core.do(fire, closed)

    # The cancelled handler ends: whatever it says, the work was cancelled (V2D5, V2N7).
    @cancelling.upon(ForegroundInputs.returned).to(idle)
    def end_cancelled(inputs: ForegroundInputs, core: ForegroundCore, result: object) -> None:
        core.end(cancelled=True, result=result)

    @cancelling.upon(ForegroundInputs.failed).to(idle)
    def end_cancelled_anyway(inputs: ForegroundInputs, core: ForegroundCore, failure: Failure) -> None:
        _log.debug(
            "session/prompt: the cancelled handler of session {session_id} failed with {kind}",
            session_id=core.session_id,
            kind=failure.type.__name__ if failure.type else "",
        )
        core.end(cancelled=True)

    @closing.upon(ForegroundInputs.returned).to(closed)
    def end_cancelled_and_close(inputs: ForegroundInputs, core: ForegroundCore, result: object) -> None:
        end_cancelled(inputs, core, result)
        core.close()

    @closing.upon(ForegroundInputs.failed).to(closed)
    def end_cancelled_anyway_and_close(inputs: ForegroundInputs, core: ForegroundCore, failure: Failure) -> None:
        end_cancelled_anyway(inputs, core, failure)
        core.close()

    # The work is ended for its handler: the report first, then the handler's cancellation.
    def force(core: ForegroundCore, trigger: str, error: AcpError | None = None) -> None:
        work = core.cancel(trigger)
        core.end(cancelled=error is None, error=error)
        core.do(work.stop)

    @cancelling.upon(ForegroundInputs.grace_over).to(idle)
    def force_after_grace(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        _log.warn(
            "session/prompt: the handler of session {session_id} did not end within {seconds} s of its cancellation",
            session_id=core.session_id,
            seconds=core.timeouts.cancel_grace_period,
        )
        force(core, "cancelGracePeriod")

    @closing.upon(ForegroundInputs.grace_over).to(closed)
    def force_after_grace_and_close(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        force_after_grace(inputs, core)
        core.close()

    def warn_of_duration(core: ForegroundCore) -> None:
        _log.warn(
            "session/prompt: the work of session {session_id} took longer than {seconds} s",
            session_id=core.session_id,
            seconds=core.timeouts.max_prompt_duration,
        )

    @running.upon(ForegroundInputs.duration_over).to(idle)
    @blocked.upon(ForegroundInputs.duration_over).to(idle)
    def force_error_after_duration(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        # Nobody's choice, so an error and not cancelled (V2N13).
        warn_of_duration(core)
        limit = iso8601_duration(core.timeouts.max_prompt_duration)
        error = RequestCancelled(f"Prompt exceeded maxPromptDuration of {limit}", {"maxPromptDuration": limit})
        force(core, "maxPromptDuration", error)

    @cancelling.upon(ForegroundInputs.duration_over).to(idle)
    def force_cancelled_after_duration(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        warn_of_duration(core)
        force(core, "maxPromptDuration")

    @closing.upon(ForegroundInputs.duration_over).to(closed)
    def force_cancelled_after_duration_and_close(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        force_cancelled_after_duration(inputs, core)
        core.close()

    # The agent ends: no more prompts.
    @idle.upon(ForegroundInputs.shutdown).to(closed)
    def shut_down_idle(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        core.drop_held("shutdown")
        core.close()

    @admitting.upon(ForegroundInputs.shutdown).to(closed)
    def shut_down_admitting(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        drop(core, "shutdown")
        shut_down_idle(inputs, core)

    @running.upon(ForegroundInputs.shutdown).to(closed)
    @blocked.upon(ForegroundInputs.shutdown).to(closed)
    def shut_down(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        force(core, "shutdown", RequestCancelled("Shutting down"))
        shut_down_idle(inputs, core)

    @cancelling.upon(ForegroundInputs.shutdown).to(closed)
    @closing.upon(ForegroundInputs.shutdown).to(closed)
    def shut_down_cancelled(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        force(core, "shutdown")
        shut_down_idle(inputs, core)

    # The connection goes: nothing can be said any more, but all that runs is to stop.
    @idle.upon(ForegroundInputs.connection_lost).to(closed)
    def drop_silently(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        held, core.held = core.held, deque()
        for work in held:
            work.over = True
            core.cancellations.append((work, "connectionLost"))
        core.close()

    @admitting.upon(ForegroundInputs.connection_lost).to(closed)
    @running.upon(ForegroundInputs.connection_lost).to(closed)
    @blocked.upon(ForegroundInputs.connection_lost).to(closed)
    @cancelling.upon(ForegroundInputs.connection_lost).to(closed)
    @closing.upon(ForegroundInputs.connection_lost).to(closed)
    def stop_silently(inputs: ForegroundInputs, core: ForegroundCore) -> None:
        core.cancel("connectionLost")
        core.do(core.release().stop)
        core.state = "idle"
        drop_silently(inputs, core)

    return builder


foreground_machine = indexed(_make_builder().build())
"""
Makes the machine that drives one L{ForegroundCore}.
"""
