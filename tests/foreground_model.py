"""
Foreground work of protocol version 2 as a plain table, and a rig that plays every event to the table and to a real
session.

The table knows nothing of Automat, Deferreds or timers, and it is only for events that come one after another.  What
holds when they come from within each other's callbacks, L{Rig.lawful} says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from acp_twisted.errors import AcpError, AuthRequired
from acp_twisted.turn.foreground import Ended, Foreground, Work
from acp_twisted.turn.timeouts import PromptTimeouts

# state, event -> how the work is reported to have ended ("-": it has not), what else happens, the next state.
#   tell: the cancel handler is told.  drop: what is held is answered -32800.  stop: what runs is cancelled.
#   refuse: the prompt that is being admitted is answered -32800.  reject: with the handler's own error.
#   grace: the grace timer starts.  say: the next state is reported.
TABLE = """
Idle       cancel          -                tell                    Idle
Idle       close           -                tell                    Closed
Idle       shutdown        -                -                       Closed
Idle       connectionLost  -                -                       Closed
Admitting  admitted        -                -                       Running
Admitting  rejected        -                reject                  Idle
Admitting  cancelRequest   -                refuse+stop             Idle
Admitting  cancel          -                refuse+stop+drop+tell   Idle
Admitting  close           -                refuse+stop+drop+tell   Closed
Admitting  shutdown        -                refuse+stop+drop        Closed
Admitting  connectionLost  -                stop                    Closed
Running    blocked         -                say                     Blocked
Running    result          result           -                       Idle
Running    failure         error            -                       Idle
Running    cancel          -                drop+tell+grace         Cancelling
Running    close           -                drop+tell+grace         Closing
Running    duration        error+duration   stop                    Idle
Running    shutdown        error            stop+drop               Closed
Running    connectionLost  -                stop                    Closed
Blocked    unblocked       -                say                     Running
Blocked    result          result           -                       Idle
Blocked    failure         error            -                       Idle
Blocked    cancel          -                drop+tell+grace         Cancelling
Blocked    close           -                drop+tell+grace         Closing
Blocked    duration        error+duration   stop                    Idle
Blocked    shutdown        error            stop+drop               Closed
Blocked    connectionLost  -                stop                    Closed
Cancelling result          cancelled+result -                       Idle
Cancelling failure         cancelled        -                       Idle
Cancelling cancel          -                drop+tell               Cancelling
Cancelling close           -                drop+tell               Closing
Cancelling grace           cancelled        stop                    Idle
Cancelling duration        cancelled        stop                    Idle
Cancelling shutdown        cancelled        stop+drop               Closed
Cancelling connectionLost  -                stop                    Closed
Closing    result          cancelled+result -                       Closed
Closing    failure         cancelled        -                       Closed
Closing    cancel          -                tell                    Closing
Closing    close           -                tell                    Closing
Closing    grace           cancelled        stop                    Closed
Closing    duration        cancelled        stop                    Closed
Closing    shutdown        cancelled        stop                    Closed
Closing    connectionLost  -                stop                    Closed
"""

ROWS = {
    (state, event): (ended, frozenset(what.split("+")), then)
    for state, event, ended, what, then in (row.split() for row in TABLE.strip().splitlines())
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
REPORTED = {"Running": "running", "Blocked": "requires_action"}


@define
class Expected:
    """
    What one prompt must have come to.
    """

    asks: bool = False
    answers: list[str] = field(factory=list)
    triggers: list[str] = field(factory=list)
    stops: int = 0


@define
class Model:
    """
    The table at work.

    @ivar reports: the states that the client is told, C{idle} with the way the work ended.
    """

    state: str = "Idle"
    works: list[Expected] = field(factory=list)
    current: int | None = None
    held: list[int] = field(factory=list)
    told: list[str] = field(factory=list)
    reports: list[str] = field(factory=list)

    def prompt(self, asks: bool) -> None:
        """
        A prompt comes; C{asks} says whether it has to be admitted first.
        """
        self.works.append(Expected(asks))
        if self.state in ("Closing", "Closed"):
            self.works[-1].answers.append("-32002")
        else:
            self.held.append(len(self.works) - 1)
            self.next()

    def next(self) -> None:
        """
        The next prompt's turn comes when nothing else is in the foreground.
        """
        if self.state == "Idle" and self.held:
            self.current = self.held.pop(0)
            self.state = "Admitting"
            if not self.works[self.current].asks:
                self.apply("admitted", self.current)

    def apply(self, event: str, index: int | None = None) -> None:
        """
        Let C{event} happen, to the prompt C{index} if it is about one.
        """
        if event == "cancelRequest" and index in self.held:
            self.held.remove(index)
            self.drop(index, event)
            return
        if (index is not None and index != self.current) or (self.state, event) not in ROWS:
            return
        ended, what, then = ROWS[self.state, event]
        if self.current is not None:
            self.touch(self.works[self.current], event, what)
        if ended != "-":
            self.reports.append(f"idle {ended}")
        if "say" in what:
            self.reports.append(REPORTED[then])
        if "drop" in what:
            for each in self.held:
                self.drop(each, event)
            self.held = []
        if event == "connectionLost":
            for each in self.held:
                self.works[each].triggers.append(TRIGGERS[event])
            self.held = []
        if "tell" in what:
            self.told.append(TRIGGERS[event])
        self.state = then
        self.current = None if then in ("Idle", "Closed") else self.current
        self.next()

    def touch(self, work: Expected, event: str, what: frozenset[str]) -> None:
        """
        What becomes of the prompt whose turn it is.
        """
        if event in TRIGGERS:
            work.triggers.append(TRIGGERS[event])
        work.stops += "stop" in what
        if "refuse" in what:
            work.answers.append("-32800")
        if "reject" in what:
            work.answers.append("-32000")
        if event == "admitted":
            work.answers.append("inserted")
            self.reports.append("running")

    def drop(self, index: int, event: str) -> None:
        """
        A prompt that is held is never begun.
        """
        self.works[index].triggers.append(TRIGGERS[event])
        self.works[index].answers.append("-32800")


Action = Callable[["Prompt"], object]


@define(eq=False)
class Prompt:
    """
    One prompt and its handler.

    @ivar asks: whether it has to be admitted before it is inserted, which takes a while.
    @ivar swallows: whether the handler goes on when it is cancelled.
    @ivar hooks: what else is done from within each of its callbacks.
    """

    rig: Rig
    index: int
    asks: bool = False
    swallows: bool = False
    hooks: dict[str, Action] = field(factory=dict)
    work: Work | None = None
    answers: list[str] = field(factory=list)
    starts: int = 0
    stops: int = 0
    _admission: Deferred[None] | None = None
    _outcome: Deferred[Any] | None = None

    def react(self, hook: str) -> None:
        """
        Do what the plan says, from within whatever is going on.
        """
        action = self.hooks.get(hook)
        if action is not None:
            action(self)

    def admit(self, work: Work) -> Deferred[None] | None:
        """
        Whether it may be part of the conversation.
        """
        self.watch(work)
        self.react("on_admit")
        if not self.asks:
            return None
        self._admission = Deferred(self._stopped)
        return self._admission

    def watch(self, work: Work) -> None:
        """
        Be told when the token is set, once.
        """
        if self.work is None:
            self.work = work
            work.token.on_cancel(lambda: self.react("on_token"))

    def decide(self, event: str) -> None:
        """
        C{"admitted"} or C{"rejected"}, if that is still open.
        """
        admission, self._admission = self._admission, None
        if admission is None or admission.called:
            return
        self.rig.model.apply(event, self.index)
        if event == "admitted":
            admission.callback(None)
        else:
            admission.errback(AuthRequired())

    def start(self, work: Work) -> Deferred[Any]:
        """
        The handler.
        """
        self.watch(work)
        self.starts += 1
        outcome = self._outcome = Deferred(self._stopped)
        if self.swallows:
            outcome = self._outcome
            outcome.addErrback(self._swallow)
        self.react("on_start")
        return outcome

    def _swallow(self, failure: Any) -> Any:
        if self._outcome is None or not self.stops:
            return failure
        self._outcome = Deferred()
        return self._outcome

    def _stopped(self, outcome: Deferred[Any]) -> None:
        self.stops += 1
        if not self.swallows:
            self._outcome = None
        self.react("on_stop")

    def finish(self, event: str) -> None:
        """
        The handler ends, with C{"result"} or C{"failure"}.
        """
        outcome, self._outcome = self._outcome, None
        if outcome is None:
            return
        self.rig.model.apply(event, self.index)
        if event == "result":
            outcome.callback({"result": self.index})
        else:
            outcome.errback(AuthRequired())

    def insert(self, work: Work) -> None:
        """
        The prompt is answered with the message's id.
        """
        assert work.inserted
        self.rig.inserted.append(self.index)
        self._answered("inserted")

    def refuse(self, error: AcpError) -> None:
        """
        The prompt is answered with an error.
        """
        self._answered(str(error.code))

    def _answered(self, answer: str) -> None:
        self.answers.append(answer)
        self.react("on_answer")


class Rig:
    """
    A session, a table, and every event for both.  The clock stands still, so a timer is known by when it is due.
    """

    def __init__(self, grace: float = 10, duration: float = 1000) -> None:
        self.grace, self.duration = grace, duration
        self.clock = Clock()
        self.model = Model()
        self.prompts: list[Prompt] = []
        self.inserted: list[int] = []
        self.told: list[str] = []
        self.reports: list[str] = []
        self.ended: list[int] = []
        self.closings: list[Deferred[None]] = []
        self.lost = False
        timeouts = PromptTimeouts(cancel_grace_period=grace, max_prompt_duration=duration)
        self.session = Foreground("s1", self.clock, timeouts, self._report, self._told)

    def _told(self, trigger: str, notice: object) -> None:
        self.told.append(trigger)
        if self.prompts:
            self.prompts[-1].react("on_told")

    def _report(self, state: str, ended: Ended | None) -> None:
        if self.lost and self.session.held == () and self.session.work is None and ended is None:
            return  # said when it was not lost yet, and only now its turn; it goes nowhere
        if ended is None:
            self.reports.append(state)
            return
        assert ended.work.over
        [index] = [each.index for each in self.prompts if each.work is ended.work]
        self.ended.append(index)
        what = "result"
        if ended.cancelled:
            assert ended.error is None
            what = "cancelled" if ended.result is None else "cancelled+result"
        elif ended.error is not None:
            what = "error+duration" if ended.error.data else "error"
        assert ended.result in (None, {"result": index})
        self.reports.append(f"{state} {what}")
        self.prompts[index].react("on_end")

    def prompt(self, *, asks: bool = False, swallows: bool = False, hooks: dict[str, Action] | None = None) -> None:
        """
        The client prompts.
        """
        prompt = Prompt(self, len(self.prompts), asks, swallows, hooks or {})
        self.prompts.append(prompt)
        self.model.prompt(asks)
        prompt.work = self.session.begin(prompt.insert, prompt.refuse, prompt.start, prompt.admit)

    def cancel(self) -> None:
        """
        The client sends session/cancel.
        """
        self.model.apply("cancel")
        self.session.cancel()

    def cancel_request(self, index: int = -1) -> None:
        """
        The client sends $/cancel_request for a prompt, the last one by default, as long as it has no answer.
        """
        prompt = self.prompts[index] if self.prompts else None
        if prompt is not None and prompt.work is not None and not prompt.answers:
            self.model.apply("cancelRequest", prompt.index)
            self.session.cancel_request(prompt.work)

    def decide(self, event: str) -> None:
        """
        The prompt that is being looked at is admitted or rejected.
        """
        for prompt in list(self.prompts):
            prompt.decide(event)

    def finish(self, event: str) -> None:
        """
        The oldest handler that has not ended ends.
        """
        for prompt in self.prompts:
            if prompt._outcome is not None:
                prompt.finish(event)
                return

    def blocked(self) -> None:
        """
        The work waits for its user.
        """
        work = self.session.work
        if work is not None and work.inserted:
            self.model.apply("blocked")
            self.session.blocked(work)

    def unblocked(self) -> None:
        """
        It waits no more.
        """
        work = self.session.work
        if work is not None and work.inserted:
            self.session.unblocked(work)
            if not self.session._blockers:
                self.model.apply("unblocked")

    def close(self) -> None:
        """
        The client sends session/close.
        """
        self.model.apply("close")
        self.closings.append(self.session.close())

    def shutdown(self) -> None:
        """
        The agent ends.
        """
        self.model.apply("shutdown")
        self.session.shutdown()

    def connection_lost(self) -> None:
        """
        The connection goes.
        """
        self.model.apply("connectionLost")
        self.lost = True
        self.session.connection_lost()

    def fire(self, event: str) -> None:
        """
        The timer C{"grace"} or C{"duration"} is over, if it runs.
        """
        due = self.grace if event == "grace" else self.duration
        for call in self.clock.getDelayedCalls():
            if call.getTime() == due:
                self.model.apply(event, self.model.current)
                call.reset(0)
                self.clock.advance(0)
                return

    def check(self) -> None:
        """
        Compare all that can be seen with the table.
        """
        model = self.model
        assert self.told == model.told
        assert self.reports == model.reports
        assert self.session.closed == (model.state == "Closed")
        assert [work.token for work in self.session.held] == [self._work(index).token for index in model.held], (
            "what is held"
        )
        assert (self.session.work is None) == (model.current is None)
        for prompt, expected in zip(self.prompts, model.works, strict=True):
            assert prompt.answers == expected.answers
            assert self._work(prompt.index).token.triggers == tuple(expected.triggers)
            assert prompt.stops == expected.stops or prompt.swallows or not prompt.starts
        assert self.session.state == (REPORTED.get(model.state) or self._state_of_cancelled())

    def _state_of_cancelled(self) -> str:
        last = self.model.reports[-1].split()[0] if self.model.reports else "idle"
        return last if self.model.state in ("Cancelling", "Closing") else "idle"

    def _work(self, index: int) -> Work:
        work = self.prompts[index].work
        assert work is not None
        return work

    def lawful(self) -> None:
        """
        What holds in whatever order things happen, and from within whatever.
        """
        for prompt in self.prompts:
            assert len(prompt.answers) <= 1, "one answer (rule 1)"
            assert prompt.starts <= 1
            assert not prompt.starts or prompt.answers == ["inserted"], "no handler before the insertion"
            if not self.lost:
                busy = prompt.work is None or prompt.work is self.session.work or prompt.work in self.session.held
                assert prompt.answers or busy, "an answer for each"
        assert self.inserted == sorted(self.inserted), "in the order in which they came"
        assert self.ended == self.inserted[: len(self.ended)], "one piece of work after another"
        before = "idle"
        for report in self.reports:
            state = report.split()[0]
            assert (before, state) in {
                ("idle", "running"),
                ("running", "requires_action"),
                ("requires_action", "running"),
                ("running", "idle"),
                ("requires_action", "idle"),
            }
            before = state

    def end(self) -> None:
        """
        Nothing is left.
        """
        self.connection_lost()
        assert self.clock.getDelayedCalls() == []
        assert self.session.work is None
        assert self.session.held == ()
        assert all(each.called for each in self.closings)
