"""
The v1 prompt turn as a plain table, and a rig that plays every event to the table and to a real session.

The table knows nothing of Automat, Deferreds or timers.  It takes the events in the order in which they reach the
session, also those that come from within the callbacks of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError, AuthRequired, InvalidRequest
from acp_twisted.turn.prompt_session import PromptSession, Turn
from acp_twisted.turn.timeouts import PromptTimeouts

# state, event -> the answer ("-": none), what else happens, the next state.
#   tell: the cancel handler is told.  stop: the handler is cancelled.  grace: the grace timer starts.
TABLE = """
Idle       prompt          -                     -           Running
Idle       cancel          -                     tell        Idle
Idle       close           -                     tell        Closed
Idle       shutdown        -                     -           Closed
Idle       connectionLost  -                     -           Closed
Running    prompt          -                     refuse      Running
Running    result          result                -           Idle
Running    failure         error                 -           Idle
Running    cancel          -                     tell+grace  Cancelling
Running    close           -                     tell+grace  Closing
Running    cancelRequest   -32800                stop        Idle
Running    duration        -32800+duration       stop        Idle
Running    shutdown        -32800                stop        Closed
Running    connectionLost  -                     stop        Closed
Cancelling prompt          -                     refuse      Cancelling
Cancelling result          cancelled+meta        -           Idle
Cancelling failure         cancelled             -           Idle
Cancelling cancel          -                     tell        Cancelling
Cancelling close           -                     tell        Closing
Cancelling cancelRequest   cancelled             stop        Idle
Cancelling grace           cancelled             stop        Idle
Cancelling duration        cancelled             stop        Idle
Cancelling shutdown        cancelled             stop        Closed
Cancelling connectionLost  -                     stop        Closed
Closing    prompt          -                     refuse      Closing
Closing    result          cancelled+meta        -           Closed
Closing    failure         cancelled             -           Closed
Closing    cancel          -                     tell        Closing
Closing    close           -                     tell        Closing
Closing    cancelRequest   cancelled             stop        Closed
Closing    grace           cancelled             stop        Closed
Closing    duration        cancelled             stop        Closed
Closing    shutdown        cancelled             stop        Closed
Closing    connectionLost  -                     stop        Closed
Closed     prompt          -                     refuse      Closed
"""

ROWS = {
    (state, event): (answer, frozenset(what.split("+")), then)
    for state, event, answer, what, then in (row.split() for row in TABLE.strip().splitlines())
}

TRIGGERS = {
    "cancel": "session/cancel",
    "close": "session/close",
    "cancelRequest": "$/cancel_request",
    "grace": "cancelGracePeriod",
    "duration": "maxPromptDuration",
    "shutdown": "shutdown",
    "connectionLost": "connectionLost",
}

OF_ONE_TURN = frozenset(["result", "failure", "cancelRequest", "grace", "duration"])


@define
class Expected:
    """What one turn must have come to."""

    answers: list[str] = field(factory=list)
    triggers: list[str] = field(factory=list)
    stops: int = 0


@define
class Model:
    """The table at work."""

    state: str = "Idle"
    turns: list[Expected] = field(factory=list)
    current: int | None = None
    grace: bool = False
    told: list[str] = field(factory=list)

    def apply(self, event: str, turn: int | None = None) -> bool:
        """
        Let C{event} happen, to the turn C{turn} if it is about one.  Returns whether it was not refused.
        """
        if event in OF_ONE_TURN and (turn is None or turn != self.current):
            return True
        answer, what, then = ROWS.get((self.state, event), ("-", frozenset(), self.state))
        if "refuse" in what:
            return False
        if event == "prompt":
            self.current = len(self.turns)
            self.turns.append(Expected())
        elif self.current is not None:
            record = self.turns[self.current]
            if event in TRIGGERS:
                record.triggers.append(TRIGGERS[event])
            if answer != "-":
                record.answers.append(answer)
            record.stops += "stop" in what
        if "tell" in what:
            self.told.append(TRIGGERS[event])
        self.grace = self.grace or "grace" in what
        self.state = then
        if then in ("Idle", "Closed"):
            self.current, self.grace = None, False
        return True


Action = Callable[["Prompt"], object]


@define(eq=False)
class Prompt:
    """
    One prompt and its handler.

    @ivar swallows: whether the handler goes on when it is cancelled.
    @ivar on_start: what else it does in its first steps.
    @ivar on_token: what it does when its token is set.
    @ivar on_answer: what the client does that reads the answer.
    @ivar on_stop: what else the handler does when it is cancelled.
    @ivar on_told: what the cancel handler does while this is the last prompt.
    """

    rig: Rig
    swallows: bool = False
    on_start: Action | None = None
    on_token: Action | None = None
    on_answer: Action | None = None
    on_stop: Action | None = None
    on_told: Action | None = None
    index: int = field(default=-1, init=False)
    turn: Turn | None = None
    answers: list[str] = field(factory=list)
    starts: int = 0
    stops: int = 0
    done: bool = False
    early: str | None = None
    _outcome: Deferred[Any] | None = None

    def react(self, action: Action | None) -> None:
        """Do C{action}, from within whatever is going on."""
        if action is not None:
            action(self)

    def _start(self, turn: Turn) -> Deferred[Any]:
        self.starts += 1
        self.turn = turn
        if self.on_token is not None:
            turn.token.on_cancel(lambda: self.react(self.on_token))
        self.react(self.on_start)
        outcome = self._outcome = Deferred(self._stop)
        if self.swallows:
            outcome.addErrback(self._swallow)
        if self.early is not None:
            self.finish(self.early)
        return outcome

    def finish(self, event: str) -> None:
        """The handler ends, with C{"result"} or C{"failure"}; not if it has not begun, or has ended."""
        if self.done or not self.starts:
            return
        if self._outcome is None:  # still in its first steps: it ends when they have
            self.early = event
            return
        self.done = True
        self.rig.model.apply(event, self.index)
        if event == "result":
            self._outcome.callback({"result": self.index})
        else:
            self._outcome.errback(AuthRequired())

    def _stop(self, outcome: Deferred[Any]) -> None:
        self.stops += 1
        self.done = self.done or not self.swallows
        self.react(self.on_stop)

    def _swallow(self, failure: Failure) -> Deferred[Any] | Failure:
        if self.done or not self.stops:
            return failure
        self._outcome = Deferred()
        return self._outcome

    def _respond(self, result: Any) -> None:
        kept = result.get("result")
        assert kept in (None, self.index)
        if "cancelled" not in result:
            self._answered("result")
        else:
            self._answered("cancelled" if kept is None else "cancelled+meta")

    def _fail(self, error: AcpError) -> None:
        if error.code == -32800:
            self._answered("-32800" if error.data is None else "-32800+duration")
        else:
            assert error.code == AuthRequired.CODE
            self._answered("error")

    def _answered(self, answer: str) -> None:
        assert self.rig.session.turn is None or self.rig.session.turn is not self.turn
        self.answers.append(answer)
        self.react(self.on_answer)

    @staticmethod
    def _cancelled_with(result: Any) -> dict[str, Any]:
        return {"cancelled": True} if result is None else {"cancelled": True, **result}


class Rig:
    """
    A session, a table, and every event for both.  The clock stands still, so a timer is known by when it is due.
    """

    def __init__(self, grace: float = 10, duration: float = 1000) -> None:
        self.grace, self.duration = grace, duration
        self.clock = Clock()
        self.model = Model()
        self.prompts: list[Prompt] = []
        self.refused = 0
        self.told: list[str] = []
        self.closings: list[Deferred[None]] = []
        timeouts = PromptTimeouts(cancel_grace_period=grace, max_prompt_duration=duration)
        self.session = PromptSession("s1", self.clock, timeouts, self._told)

    def _told(self, trigger: str, notice: object) -> None:
        self.told.append(trigger)
        if self.prompts:
            self.prompts[-1].react(self.prompts[-1].on_told)

    def prompt(self, swallows: bool = False, reactions: dict[str, Action] | None = None) -> None:
        """The client prompts."""
        prompt = Prompt(self, swallows)
        for name, action in (reactions or {}).items():
            setattr(prompt, name, action)
        accepted = self.model.apply("prompt")
        if accepted:
            prompt.index = len(self.prompts)
            self.prompts.append(prompt)
        try:
            prompt.turn = self.session.begin(prompt._respond, prompt._fail, prompt._start, prompt._cancelled_with)
        except InvalidRequest:
            self.refused += 1
            assert not accepted
            assert prompt.starts == 0
            assert prompt.answers == []
        else:
            assert accepted

    def cancel(self) -> None:
        """The client sends session/cancel."""
        self.model.apply("cancel")
        self.session.cancel()

    def cancel_request(self, index: int = -1) -> None:
        """The client sends $/cancel_request for a prompt, the last one by default."""
        if self.prompts:
            prompt = self.prompts[index]
            assert prompt.turn is not None
            self.model.apply("cancelRequest", prompt.index)
            self.session.cancel_request(prompt.turn)

    def finish(self, event: str) -> None:
        """The oldest handler that has not ended ends."""
        for prompt in self.prompts:
            if prompt.starts and not prompt.done:
                prompt.finish(event)
                return

    def close(self) -> None:
        """The client sends session/close."""
        self.model.apply("close")
        self.closings.append(self.session.close())

    def shutdown(self) -> None:
        """The agent ends."""
        self.model.apply("shutdown")
        self.session.shutdown()

    def connection_lost(self) -> None:
        """The connection goes."""
        self.model.apply("connectionLost")
        self.session.connection_lost()

    def fire(self, event: str) -> None:
        """The timer C{"grace"} or C{"duration"} is over, if it runs."""
        due = self.grace if event == "grace" else self.duration
        for call in self.clock.getDelayedCalls():
            if call.getTime() == due:
                self.model.apply(event, self.model.current)
                call.reset(0)
                self.clock.advance(0)
                return

    def check(self) -> None:
        """Compare all that can be seen."""
        model = self.model
        assert self.told == model.told
        assert self.session.busy == (model.current is not None)
        assert self.session.closed == (model.state == "Closed")
        assert len(self.prompts) == len(model.turns)
        for prompt, expected in zip(self.prompts, model.turns, strict=True):
            assert prompt.turn is not None
            assert prompt.answers == expected.answers
            assert prompt.turn.cancellations == tuple(expected.triggers)
            assert prompt.turn.answered == (prompt.index != model.current)
            assert len(expected.answers) <= 1
            if prompt.starts:
                assert prompt.starts == 1
                assert prompt.stops <= expected.stops
                assert prompt.done or prompt.stops == expected.stops
            else:
                assert prompt.index != model.current
        timers = sorted(call.getTime() for call in self.clock.getDelayedCalls())
        due = [self.grace] * model.grace + [self.duration] * (model.current is not None)
        assert timers == [seconds for seconds in due if seconds]
        assert all(closing.called == (model.state == "Closed") for closing in self.closings)

    def end(self) -> None:
        """Lose the connection and let every handler fail: nothing may be left, and nothing may be answered twice."""
        self.connection_lost()
        while any(prompt.starts and not prompt.done for prompt in self.prompts):
            self.finish("failure")
        self.check()
        assert self.clock.getDelayedCalls() == []
