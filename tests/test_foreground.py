"""
Foreground work of protocol version 2: each rule by itself, and what goes wrong around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field
from conftest import LoggedErrors
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from acp_twisted.errors import AcpError, AuthRequired, InternalError, InvalidParams, RequestCancelled
from acp_twisted.turn import _foreground_machine
from acp_twisted.turn.foreground import Ended, Foreground, Work
from acp_twisted.turn.timeouts import PromptTimeouts


@define(eq=False)
class Handler:
    """
    One prompt, its handler, and what is said of it.
    """

    name: str
    wire: list[str]
    outcome: Deferred[Any] = field(factory=Deferred)
    work: Work | None = None

    def insert(self, work: Work) -> None:
        """The prompt is answered."""
        self.wire.append(f"{self.name} inserted")

    def refuse(self, error: AcpError) -> None:
        """The prompt is refused."""
        self.wire.append(f"{self.name} {error.code}")

    def start(self, work: Work) -> Deferred[Any]:
        """The handler begins."""
        self.wire.append(f"{self.name} starts")
        return self.outcome


class Desk:
    """
    A session and all that is said.
    """

    def __init__(self, **timeouts: float) -> None:
        self.clock = Clock()
        self.wire: list[str] = []
        self.ended: list[Ended] = []
        self.session = Foreground("s1", self.clock, PromptTimeouts(**timeouts), self._report, self._told)

    def _report(self, state: str, ended: Ended | None) -> None:
        self.wire.append(state if ended is None else f"{state} {'cancelled' if ended.cancelled else 'ended'}")
        if ended is not None:
            self.ended.append(ended)

    def _told(self, trigger: str, notice: object) -> None:
        self.wire.append(trigger)

    def prompt(self, name: str, admit: Any = None) -> Handler:
        """
        The client prompts.
        """
        handler = Handler(name, self.wire)
        handler.work = self.session.begin(handler.insert, handler.refuse, handler.start, admit)
        return handler

    def said(self) -> list[str]:
        """
        What was said since the last time.
        """
        said, self.wire[:] = self.wire[:], []
        return said


def test_a_prompt_from_its_insertion_to_idle() -> None:
    """
    2.30, 2.32, 2.33: the prompt is answered when it is inserted, then the work begins and is reported to its end.
    """
    desk = Desk()
    one = desk.prompt("a")
    assert desk.said() == ["a inserted", "running", "a starts"]
    assert desk.session.state == "running"
    assert one.work is desk.session.work
    one.outcome.callback("done")
    assert desk.said() == ["idle ended"]
    assert desk.ended[0].result == "done"
    assert desk.session.state == "idle"
    assert desk.session.work is None


def test_prompts_are_held_and_inserted_in_order() -> None:
    """
    §2.2: what comes while work runs waits, unanswered, and is inserted in the order in which it came.
    """
    desk = Desk()
    one, two, three = desk.prompt("a"), desk.prompt("b"), desk.prompt("c")
    assert desk.said() == ["a inserted", "running", "a starts"]
    assert desk.session.held == (two.work, three.work)
    one.outcome.callback(None)
    assert desk.said() == ["idle ended", "b inserted", "running", "b starts"]
    two.outcome.errback(AuthRequired())
    assert desk.said() == ["idle ended", "c inserted", "running", "c starts"]
    assert isinstance(desk.ended[1].error, AuthRequired)
    three.outcome.callback(None)
    assert desk.said() == ["idle ended"]


def test_a_held_prompt_may_be_taken_into_running_work() -> None:
    """
    §2.2: the agent may insert a prompt at once: it is answered, its handler is never called, and one idle ends both.
    """
    desk = Desk()
    one, two, three = desk.prompt("a"), desk.prompt("b"), desk.prompt("c")
    desk.said()
    assert one.work is not None
    assert three.work is not None
    assert desk.session.take(one.work) is two.work
    assert desk.said() == ["b inserted"]
    assert desk.session.take(three.work) is None
    desk.session.cancel()
    assert desk.said() == ["c -32800", "session/cancel"]
    assert desk.session.take(one.work) is None
    one.outcome.callback(None)
    assert desk.said() == ["idle cancelled"]
    assert desk.session.take(one.work) is None


def test_cancelling_running_work() -> None:
    """
    V2D5, V2N5, V2N7: the token is set, the handler ends as it likes, and one idle says that it was cancelled.
    """
    for finish in (lambda d: d.callback("late"), lambda d: d.errback(RuntimeError("aborted")), Deferred.cancel):
        desk = Desk()
        one = desk.prompt("a")
        desk.said()
        assert one.work is not None
        desk.session.cancel()
        desk.session.cancel()
        assert one.work.token.triggers == ("session/cancel", "session/cancel")
        assert desk.said() == ["session/cancel", "session/cancel"]
        finish(one.outcome)
        assert desk.said() == ["idle cancelled"]
        assert desk.ended[0].error is None
        assert desk.clock.getDelayedCalls() == []


def test_cancelling_an_idle_session_says_nothing() -> None:
    """
    V2D6: with nothing in the foreground no state is reported, and a later prompt does not see the cancellation.
    """
    desk = Desk()
    desk.session.cancel()
    assert desk.said() == ["session/cancel"]
    one = desk.prompt("a")
    assert one.work is not None
    assert not one.work.cancelled
    assert desk.said() == ["a inserted", "running", "a starts"]
    desk.session.connection_lost()


def test_cancelling_drops_held_prompts_but_none_that_comes_later() -> None:
    """
    V2N1, V2N9: held prompts are answered -32800; one that is sent after the cancellation is inserted after its idle.
    """
    desk = Desk()
    one, two = desk.prompt("a"), desk.prompt("b")
    desk.said()
    desk.session.cancel()
    three = desk.prompt("c")
    assert desk.said() == ["b -32800", "session/cancel"]
    assert two.work is not None
    assert two.work.over
    assert three.work is not None
    assert not three.work.cancelled
    one.outcome.callback(None)
    assert desk.said() == ["idle cancelled", "c inserted", "running", "c starts"]
    desk.session.connection_lost()


def test_a_request_is_cancelled_only_before_its_insertion() -> None:
    """
    V2D7, V2D8, X12: a held prompt is answered -32800; for an inserted one the cancellation counts for nothing.
    """
    desk = Desk()
    one, two = desk.prompt("a"), desk.prompt("b")
    desk.said()
    assert one.work is not None
    assert two.work is not None
    desk.session.cancel_request(one.work)
    assert desk.said() == []
    assert not one.work.cancelled
    desk.session.cancel_request(two.work)
    desk.session.cancel_request(two.work)
    assert desk.said() == ["b -32800"]
    one.outcome.callback(None)
    assert desk.said() == ["idle ended"]


def test_a_prompt_that_is_not_admitted() -> None:
    """
    §2.2: an error response says that the message is no part of the conversation: no state is reported for it.
    """
    desk = Desk()
    answer: Deferred[None] = Deferred()
    desk.prompt("a", lambda work: answer)
    two = desk.prompt("b")
    assert desk.said() == []
    assert desk.session.state == "idle"
    answer.errback(InvalidParams())
    assert desk.said() == ["a -32602", "b inserted", "running", "b starts"]
    two.outcome.callback(None)
    desk.said()

    def refuse(work: Work) -> None:
        raise AuthRequired

    desk.prompt("c", refuse)
    desk.prompt("d", lambda work: succeed(None))
    assert desk.said() == ["c -32000", "d inserted", "running", "d starts"]
    desk.session.connection_lost()


@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request", "session/close", "shutdown"])
def test_a_prompt_that_is_being_admitted_is_not_inserted_any_more(how: str) -> None:
    """
    V2D7: whatever cancels it then, it is answered -32800, and what is still asked about it is cancelled.
    """
    desk = Desk()
    answer: Deferred[None] = Deferred()
    one = desk.prompt("a", lambda work: answer)
    assert one.work is not None
    work = one.work
    events: dict[str, Callable[[], object]] = {
        "session/cancel": desk.session.cancel,
        "$/cancel_request": lambda: desk.session.cancel_request(work),
        "session/close": desk.session.close,
        "shutdown": desk.session.shutdown,
    }
    events[how]()
    assert desk.said()[0] == "a -32800"
    assert answer.called
    assert one.work.token.triggers == (how,)
    assert desk.ended == []


def test_requires_action_from_the_first_blocker_to_the_last() -> None:
    """
    2.34, 2.39: one of several requests that is resolved does not change the state.
    """
    desk = Desk()
    one = desk.prompt("a")
    assert one.work is not None
    desk.said()
    for step in (desk.session.blocked, desk.session.blocked, desk.session.unblocked):
        step(one.work)
    assert desk.said() == ["requires_action"]
    assert desk.session.state == "requires_action"
    desk.session.unblocked(one.work)
    desk.session.unblocked(one.work)
    assert desk.said() == ["running"]
    desk.session.blocked(one.work)
    one.outcome.callback(None)
    desk.session.unblocked(one.work)
    assert desk.said() == ["requires_action", "idle ended"]


def test_requires_action_belongs_to_its_work() -> None:
    """
    V2D2: what blocked earlier work, or work that is being cancelled, does not decide the state of the session.
    """
    desk = Desk()
    one = desk.prompt("a")
    assert one.work is not None
    desk.session.blocked(one.work)
    one.outcome.callback(None)
    two = desk.prompt("b")
    assert two.work is not None
    desk.said()
    desk.session.unblocked(one.work)
    desk.session.blocked(one.work)
    assert desk.said() == []
    desk.session.cancel()
    desk.session.blocked(two.work)
    assert desk.said() == ["session/cancel"]
    desk.session.connection_lost()


def test_the_grace_period() -> None:
    """
    The SDK's policy: a cancelled handler that goes on is ended for its client, and its late result counts for nothing.
    """
    desk = Desk(cancel_grace_period=10)
    one = desk.prompt("a")
    stubborn: Deferred[Any] = Deferred()
    one.outcome.addErrback(lambda _: stubborn)
    desk.session.cancel()
    desk.said()
    desk.clock.advance(9.9)
    assert desk.said() == []
    desk.clock.advance(0.1)
    assert desk.said() == ["idle cancelled"]
    assert one.outcome.called
    stubborn.callback("late")
    assert desk.said() == []


def test_the_longest_duration() -> None:
    """
    V2N13: work that takes too long ends with an error that names the limit, since nobody chose to stop it; if it was
    being cancelled, it was cancelled.
    """
    desk = Desk(max_prompt_duration=90, cancel_grace_period=0)
    desk.prompt("a")
    desk.clock.advance(90)
    [ended] = desk.ended
    assert not ended.cancelled
    assert isinstance(ended.error, RequestCancelled)
    assert ended.error.data == {"maxPromptDuration": "PT1M30S"}
    two = desk.prompt("b")
    desk.session.cancel()
    desk.clock.advance(90)
    assert desk.ended[1].cancelled
    assert two.work is not None
    assert two.work.token.triggers == ("session/cancel", "maxPromptDuration")
    assert desk.clock.getDelayedCalls() == []


def test_time_runs_from_the_insertion() -> None:
    """
    A prompt that is held or being admitted takes no time of its own.
    """
    desk = Desk(max_prompt_duration=10)
    answer: Deferred[None] = Deferred()
    desk.prompt("a", lambda work: answer)
    desk.clock.advance(100)
    answer.callback(None)
    assert desk.said() == ["a inserted", "running", "a starts"]
    desk.clock.advance(10)
    assert desk.said() == ["idle ended"]


def test_closing() -> None:
    """
    V2N10: the work is cancelled and reported before anybody hears that the session is closed; then nothing begins.
    """
    desk = Desk()
    one = desk.prompt("a")
    desk.prompt("b")
    desk.said()
    closed: list[object] = []
    desk.session.close().addCallback(lambda _: closed.append(list(desk.wire)))
    assert desk.said() == ["b -32800", "session/close"]
    desk.prompt("c")
    assert desk.said() == ["c -32002"]
    one.outcome.callback(None)
    assert closed == [["idle cancelled"]]
    assert desk.session.closed
    desk.said()
    desk.session.close().addCallback(closed.append)
    assert closed[1:] == [None]
    desk.prompt("d")
    assert desk.said() == ["d -32002"]
    waiting = Desk()
    waiting.prompt("a")
    waiting.session.close().addErrback(lambda failure: closed.append(failure.type)).cancel()
    waiting.session.connection_lost()
    assert len(closed) == 3


def test_the_agent_ends() -> None:
    """
    V2N13, X7: work ends with an error, what is held is refused with -32800, and what was cancelled stays cancelled.
    """
    desk = Desk()
    one = desk.prompt("a")
    desk.prompt("b")
    desk.said()
    desk.session.shutdown()
    assert desk.said() == ["idle ended", "b -32800"]
    assert isinstance(desk.ended[0].error, RequestCancelled)
    assert one.outcome.called
    other = Desk()
    other.prompt("a")
    other.session.cancel()
    other.said()
    other.session.shutdown()
    assert other.said() == ["idle cancelled"]


@pytest.mark.parametrize("what", ["the handler", "who admits"])
def test_the_agent_is_ended_from_what_has_not_returned_yet(what: str) -> None:
    """
    V2N13: what brings its own end before it has returned is cancelled like any other.
    """
    desk = Desk()
    stopped: list[str] = []

    def end(work: Work) -> Deferred[None]:
        desk.session.shutdown()
        return Deferred(lambda _: stopped.append(what))

    one = Handler("a", desk.wire)
    if what == "the handler":
        desk.session.begin(one.insert, one.refuse, end)
        assert desk.said() == ["a inserted", "running", "idle ended"]
    else:
        desk.session.begin(one.insert, one.refuse, one.start, end)
        assert desk.said() == ["a -32800"]
    assert stopped == [what]


def test_the_connection_goes() -> None:
    """
    Nobody is told anything, and all that runs or waits is cancelled.
    """
    desk = Desk()
    one, two = desk.prompt("a"), desk.prompt("b")
    desk.said()
    desk.session.connection_lost()
    assert desk.said() == []
    assert one.outcome.called
    for each in (one, two):
        assert each.work is not None
        assert each.work.token.triggers == ("connectionLost",)
        assert each.work.over
    assert desk.session.closed


def test_last_words_come_before_idle() -> None:
    """
    V2N8: what is to be sent at the end of the work is sent before idle is reported, when the work is over already.
    """
    desk = Desk()
    one = desk.prompt("a")
    assert one.work is not None
    work = one.work
    work.before_end.append(lambda: desk.wire.append(f"over: {work.over}"))
    desk.said()
    one.outcome.callback(None)
    assert desk.said() == ["over: True", "idle ended"]


def test_a_callback_that_fails_is_logged(logged_errors: LoggedErrors) -> None:
    """
    Rule 7: neither a report, nor an answer, nor the cancel handler, nor a canceller can upset the machine.
    """

    def fail(*_: object) -> None:
        raise RuntimeError("a callback")

    session = Foreground("s1", Clock(), PromptTimeouts(), fail, fail)
    outcome: Deferred[Any] = Deferred(fail)
    session.begin(fail, fail, lambda work: outcome)
    session.begin(fail, fail, lambda work: None)
    session.cancel()
    session.shutdown()
    assert session.closed
    assert len(logged_errors) == 6
    logged_errors.clear()


def test_failures_are_told_as_little_as_in_version_1(logged_errors: LoggedErrors) -> None:
    """
    Rule 9: of an exception that is none of the protocol's the client hears -32603, and the log the rest.
    """
    desk = Desk()
    desk.prompt("a").outcome.errback(RuntimeError("secret"))
    [ended] = desk.ended
    assert isinstance(ended.error, InternalError)
    assert "secret" not in str(ended.error)
    assert len(logged_errors) == 1
    logged_errors.clear()


def test_a_handler_may_be_a_coroutine_or_a_value() -> None:
    """
    A value, a Deferred and a coroutine all work, and what is raised at once does too.
    """
    desk = Desk()

    async def later() -> str:
        return "b"

    def raises(work: Work) -> None:
        raise AuthRequired

    for start in (lambda work: "a", lambda work: later(), lambda work: succeed("c"), raises):
        desk.session.begin(lambda work: None, lambda error: None, start)
    assert [each.result for each in desk.ended] == ["a", "b", "c", None]
    assert isinstance(desk.ended[3].error, AuthRequired)


def test_every_event_has_its_transition() -> None:
    """
    No event in no state is left to chance, and transitions are looked up.
    """
    automaton = _foreground_machine.foreground_machine.__automat_automaton__
    known = {(state.name, event) for state, event, _, _ in automaton.allTransitions()}
    states = {state.name for state in automaton.states()}
    assert states == {"Idle", "Admitting", "Running", "Blocked", "Cancelling", "Closing", "Closed"}
    assert known == {(state, event) for state in states for event in automaton.inputAlphabet()}
    assert "outputForInput" in vars(automaton)
