"""
The v1 prompt turn: each row of its table, and each of the races around it.
"""

from __future__ import annotations

import gc
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, Logger, LogLevel, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer
from zope.interface.verify import verifyObject

from acp_twisted.errors import (
    AcpConnectionError,
    AcpError,
    AuthRequired,
    InternalError,
    InvalidRequest,
    RequestCancelled,
)
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.turn import _machine, _turn, prompt_session
from acp_twisted.turn.prompt_session import PromptSession, Turn
from acp_twisted.turn.timeouts import PromptTimeouts

CANCELLED = {"stopReason": "cancelled", "_meta": None}


def cancelled_with(result: Any) -> dict[str, Any]:
    """What the agent room hands in: the cancelled result, with the handler's own C{_meta}."""
    return {"stopReason": "cancelled", "_meta": None if result is None else result["_meta"]}


def end_turn(meta: object = None) -> dict[str, Any]:
    """An ordinary result of a handler."""
    return {"stopReason": "end_turn", "_meta": meta}


@define(eq=False)
class Handler:
    """
    One prompt's handler, and what its prompt was answered.

    @ivar stops: how often it was cancelled.
    @ivar swallows: whether it goes on when it is cancelled.
    """

    swallows: bool = False
    stops: int = 0
    starts: int = 0
    answers: list[object] = field(factory=list)
    on_answer: Callable[[], object] = lambda: None
    on_start: Callable[[Turn], object] = lambda turn: None
    turn: Turn | None = None
    work: Deferred[Any] = field(factory=Deferred)
    _outcome: Deferred[Any] = field(factory=Deferred)

    def start(self, turn: Turn) -> Deferred[Any]:
        """Start it: its Deferred is fired by the test."""
        self.starts += 1
        self.turn = turn
        self.on_start(turn)
        outcome = self._outcome = Deferred(self._stop)
        if self.swallows:
            outcome.addErrback(self._swallow)
        self.work.addBoth(self._finish)
        return outcome

    def _finish(self, result: object) -> None:
        if not self._outcome.called:
            self._outcome.callback(result)

    def _stop(self, outcome: Deferred[Any]) -> None:
        self.stops += 1

    def _swallow(self, failure: Failure) -> Deferred[Any] | Failure:
        # The way of a coroutine that catches its cancellation and awaits something else.
        if not self.stops:
            return failure
        self._outcome = Deferred()
        return self._outcome

    def answer(self, answer: object) -> None:
        """Note the answer; then be the client that has read it."""
        self.answers.append(answer)
        self.on_answer()


@define
class Told:
    """The code, text and data of an error answer."""

    code: int
    message: str
    data: object


class Bench:
    """One session and its surroundings."""

    def __init__(self, grace: float = 60.0, duration: float = 0.0) -> None:
        self.clock = Clock()
        self.events: list[object] = []
        self.on_told: Callable[[], object] = lambda: None
        timeouts = PromptTimeouts(cancel_grace_period=grace, max_prompt_duration=duration)
        self.session = PromptSession("s1", self.clock, timeouts, self._told)

    def _told(self, trigger: str, notice: Any) -> None:
        self.events.append((trigger, notice))
        self.on_told()

    def prompt(self, handler: Handler | None = None, start: Callable[[Turn], Any] | None = None) -> Handler:
        """Send a prompt, to be handled by C{handler}, or by the function C{start}."""
        handler = Handler() if handler is None else handler
        turn = self.session.begin(
            handler.answer,
            lambda error: handler.answer(Told(error.code, error.message, error.data)),
            handler.start if start is None else start,
            cancelled_with,
        )
        handler.turn = turn
        return handler

    def refused(self) -> InvalidRequest:
        """Send a prompt that must be refused, without its handler being called."""
        handler = Handler()
        with pytest.raises(InvalidRequest) as caught:
            self.prompt(handler)
        assert (handler.starts, handler.answers) == (0, [])
        return caught.value

    def timers(self) -> list[float]:
        """When the pending timers are due, from now."""
        return sorted(call.getTime() - self.clock.seconds() for call in self.clock.getDelayedCalls())


@implementer(ILogObserver)
class LogSink:
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []

    def __call__(self, event: LogEvent) -> None:
        self.events.append(event)


def turn_of(handler: Handler) -> Turn:
    """The turn of a handler that has one."""
    assert handler.turn is not None
    return handler.turn


@pytest.fixture(autouse=True)
def _no_unhandled_errors() -> Iterator[None]:
    """No test leaves an unhandled error in a Deferred, or anything else logged as a failure outside the turn."""
    sink = LogSink()
    globalLogPublisher.addObserver(sink)
    yield
    gc.collect()
    globalLogPublisher.removeObserver(sink)
    assert failures(sink.events) == []


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch) -> list[LogEvent]:
    """What the turn room logs, as events."""
    sink = LogSink()
    verifyObject(ILogObserver, sink)
    for module in (_machine, _turn, prompt_session):
        monkeypatch.setattr(module, "_log", Logger(namespace="turn", observer=sink))
    return sink.events


def failures(logs: list[LogEvent]) -> list[type[BaseException]]:
    """The exceptions that were logged with their traceback."""
    return [event["log_failure"].type for event in logs if event.get("log_failure") is not None]


def levels(logs: list[LogEvent]) -> list[LogLevel]:
    """How loud each event was."""
    return [event["log_level"] for event in logs]


# --- the table, row by row ---


def test_idle_prompt() -> None:
    """Idle | session/prompt | - (handler starts) | Running."""
    bench = Bench()
    assert not bench.session.busy
    handler = bench.prompt()
    assert (handler.starts, handler.answers, bench.session.busy, bench.timers()) == (1, [], True, [])
    assert bench.session.turn is handler.turn
    assert not turn_of(handler).cancelled
    assert not turn_of(handler).answered


def test_running_prompt() -> None:
    """Running | session/prompt | the new one: -32600, no other effect | same (B14, JT4)."""
    bench = Bench(duration=100)
    first = bench.prompt()
    refusal = bench.refused()
    assert (refusal.code, refusal.data) == (-32600, {"sessionId": "s1"})
    assert "s1" in refusal.message
    assert (first.answers, first.stops, turn_of(first).cancelled, bench.timers()) == ([], 0, False, [100])
    first.work.callback(end_turn())
    assert first.answers == [end_turn()]


def test_cancelling_prompt() -> None:
    """Cancelling | session/prompt | the new one: -32600, no other effect | same (V1C11, JT4, JT22)."""
    bench = Bench()
    first = bench.prompt()
    bench.session.cancel()
    bench.clock.advance(10)
    assert bench.refused().code == -32600
    assert (first.answers, bench.timers(), turn_of(first).cancellations) == ([], [50], ("session/cancel",))
    first.work.callback(end_turn())
    assert first.answers == [CANCELLED]
    assert bench.prompt().starts == 1


def test_running_result(logs: list[LogEvent]) -> None:
    """Running | handler result R | R | Idle (JT1)."""
    bench = Bench(duration=100)
    handler = bench.prompt()
    result = end_turn({"a": 1})
    handler.work.callback(result)
    assert handler.answers == [result]
    assert handler.answers[0] is result
    assert (bench.session.busy, bench.timers(), turn_of(handler).answered) == (False, [], True)
    assert not turn_of(handler).cancelled
    assert logs == []


@pytest.mark.parametrize("start", [lambda turn: succeed(None), lambda turn: None])
def test_running_no_result(start: Callable[[Turn], Any]) -> None:
    """Running | handler result R | no result at all: -32603 | Idle (JT3)."""
    bench = Bench()
    handler = bench.prompt(start=start)
    assert handler.answers == [Told(-32603, "The session/prompt handler produced no response", None)]
    assert not bench.session.busy


def test_running_failure_unexpected(logs: list[LogEvent]) -> None:
    """Running | handler fails | -32603 "Internal error", nothing leaked, logged once | Idle (JT2)."""
    bench = Bench()
    handler = bench.prompt()
    handler.work.errback(ZeroDivisionError("secret"))
    assert handler.answers == [Told(-32603, "Internal error", None)]
    assert (failures(logs), bench.session.busy) == ([ZeroDivisionError], False)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (AcpError(-32099, "no", {"why": 1}), Told(-32099, "no", {"why": 1})),
        (AuthRequired(), Told(-32000, "Authentication required", None)),
        (RequestCancelled("mine"), Told(-32800, "mine", None)),
        (CancelledError(), Told(-32800, "Request cancelled", None)),
    ],
)
def test_running_failure_meant(error: Exception, answer: Told, logs: list[LogEvent]) -> None:
    """
    Running | handler fails | its error's code; what is meant as an answer is not logged as an error | Idle (JT2,
    JT13, X7).
    """
    bench = Bench()
    handler = bench.prompt()
    handler.work.errback(error)
    assert handler.answers == [answer]
    assert (logs, bench.session.busy) == ([], False)


def test_running_failure_local(logs: list[LogEvent]) -> None:
    """Running | handler fails | a local error stays on this side, and one warning says what it was | Idle."""
    bench = Bench()
    handler = bench.prompt()
    handler.work.errback(AcpConnectionError("the MCP server is gone"))
    assert handler.answers == [Told(-32603, "Internal error", None)]
    assert (levels(logs), failures(logs)) == ([LogLevel.warn], [])
    assert logs[0]["kind"] == "AcpConnectionError"


def test_running_handler_raises(logs: list[LogEvent]) -> None:
    """Running | handler fails | a handler that raises before it returns releases the session too | Idle."""
    bench = Bench()

    def start(turn: Turn) -> Deferred[Any]:
        raise ZeroDivisionError

    assert bench.prompt(start=start).answers == [Told(-32603, "Internal error", None)]
    assert (failures(logs), bench.session.busy) == ([ZeroDivisionError], False)


def test_running_coroutine() -> None:
    """Running | handler result R | R: a coroutine is a handler like another | Idle."""
    bench = Bench()
    waited: Deferred[None] = Deferred()

    async def start(turn: Turn) -> object:
        await waited
        return end_turn()

    handler = bench.prompt(start=start)
    assert handler.answers == []
    waited.callback(None)
    assert handler.answers == [end_turn()]


def test_running_cancel() -> None:
    """Running | session/cancel | - (token set, then the cancel handler; grace timer starts) | Cancelling (P8, JT29)."""
    bench = Bench()
    handler = bench.prompt()
    turn = turn_of(handler)
    turn.token.on_cancel(lambda: bench.events.append("token"))
    bench.on_told = lambda: bench.events.append(turn.cancellations)
    bench.session.cancel(notice="the notification")
    assert bench.events == ["token", ("session/cancel", "the notification"), ("session/cancel",)]
    assert (handler.answers, handler.stops, bench.session.busy, bench.timers()) == ([], 0, True, [60])
    assert not turn.answered
    handler.work.callback(end_turn())


def test_cancelling_cancel() -> None:
    """Cancelling | session/cancel again | - (cancel handler told; timer not restarted) | Cancelling (JT19)."""
    bench = Bench()
    handler = bench.prompt()
    bench.session.cancel()
    bench.clock.advance(20)
    bench.session.cancel(notice=2)
    assert bench.events == [("session/cancel", None), ("session/cancel", 2)]
    assert (bench.timers(), turn_of(handler).cancellations) == ([40], ("session/cancel", "session/cancel"))
    bench.clock.advance(40)
    assert handler.answers == [CANCELLED]


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "refusal", "cancelled"])
def test_cancelling_result(reason: str) -> None:
    """Cancelling | handler result R | stopReason cancelled, R's _meta kept | Idle (V1C5, JT5, JT6)."""
    bench = Bench(duration=500)
    handler = bench.prompt()
    bench.session.cancel()
    handler.work.callback({"stopReason": reason, "_meta": {"tokens": 3}})
    assert handler.answers == [{"stopReason": "cancelled", "_meta": {"tokens": 3}}]
    assert (bench.session.busy, bench.timers(), handler.stops) == (False, [], 0)


def test_cancelling_no_result() -> None:
    """Cancelling | handler result R | no result at all: stopReason cancelled as well | Idle (JT7)."""
    bench = Bench()
    handler = bench.prompt()
    bench.session.cancel()
    handler.work.callback(None)
    assert handler.answers == [CANCELLED]


@pytest.mark.parametrize("error", [ZeroDivisionError(), CancelledError(), AcpError(-32099, "no"), RequestCancelled()])
def test_cancelling_failure(error: Exception, logs: list[LogEvent]) -> None:
    """
    Cancelling | handler fails | stopReason cancelled | Idle: never an error (V1C6, B07), and none is logged (JT7).
    """
    bench = Bench(duration=500)
    handler = bench.prompt()
    bench.session.cancel()
    handler.work.errback(error)
    assert handler.answers == [CANCELLED]
    assert (bench.session.busy, bench.timers()) == (False, [])
    assert levels(logs) == [LogLevel.debug]
    assert failures(logs) == []


@pytest.mark.parametrize("swallows", [False, True])
def test_cancelling_grace_over(swallows: bool, logs: list[LogEvent]) -> None:
    """
    Cancelling | grace period over | stopReason cancelled; handler cancelled, late result dropped | Idle (B10, JT8).
    """
    bench = Bench(duration=500)
    handler = bench.prompt(Handler(swallows=swallows))
    bench.session.cancel()
    bench.clock.advance(59.9)
    assert (handler.answers, handler.stops) == ([], 0)
    bench.clock.advance(0.2)
    assert (handler.answers, handler.stops, bench.session.busy, bench.timers()) == ([CANCELLED], 1, False, [])
    assert turn_of(handler).cancellations == ("session/cancel", "cancelGracePeriod")
    handler.work.callback(end_turn())
    assert len(handler.answers) == 1
    assert LogLevel.warn in levels(logs)


@pytest.mark.parametrize("swallows", [False, True])
def test_running_duration_over(swallows: bool) -> None:
    """
    Running | maxPromptDuration over | -32800, data {"maxPromptDuration": ISO-8601}; handler cancelled | Idle (JT9).
    """
    bench = Bench(duration=600)
    handler = bench.prompt(Handler(swallows=swallows))
    bench.clock.advance(600)
    data = {"maxPromptDuration": "PT10M"}
    assert handler.answers == [Told(-32800, "Prompt exceeded maxPromptDuration of PT10M", data)]
    assert (handler.stops, bench.session.busy, bench.timers()) == (1, False, [])
    assert turn_of(handler).cancellations == ("maxPromptDuration",)
    handler.work.callback(end_turn())
    assert len(handler.answers) == 1


def test_cancelling_duration_over() -> None:
    """Cancelling | maxPromptDuration over | stopReason cancelled; handler cancelled | Idle (JT10)."""
    bench = Bench(grace=60, duration=100)
    handler = bench.prompt()
    bench.clock.advance(50)
    bench.session.cancel()
    assert bench.timers() == [50, 60]
    bench.clock.advance(50)
    assert (handler.answers, handler.stops, bench.session.busy, bench.timers()) == ([CANCELLED], 1, False, [])
    assert turn_of(handler).cancellations == ("session/cancel", "maxPromptDuration")


@pytest.mark.parametrize("swallows", [False, True])
def test_running_cancel_request(swallows: bool) -> None:
    """
    Running | $/cancel_request for the prompt | -32800 at once; handler cancelled, its result dropped | Idle (X5,
    JT11, V1C13).
    """
    bench = Bench(duration=100)
    handler = bench.prompt(Handler(swallows=swallows))
    bench.session.cancel_request(turn_of(handler))
    assert handler.answers == [Told(-32800, "Request cancelled", None)]
    assert (handler.stops, bench.session.busy, bench.timers(), bench.events) == (1, False, [], [])
    assert turn_of(handler).cancellations == ("$/cancel_request",)
    handler.work.callback(end_turn())
    assert len(handler.answers) == 1


def test_cancelling_cancel_request() -> None:
    """
    Cancelling | $/cancel_request for the prompt | stopReason cancelled at once; handler cancelled | Idle (V1C13,
    JT12).
    """
    bench = Bench(duration=100)
    handler = bench.prompt()
    bench.session.cancel()
    bench.session.cancel_request(turn_of(handler))
    assert (handler.answers, handler.stops, bench.session.busy, bench.timers()) == ([CANCELLED], 1, False, [])
    assert turn_of(handler).cancellations == ("session/cancel", "$/cancel_request")


def test_running_close() -> None:
    """
    Running | session/close | as session/cancel; the close handler runs after the turn's answer | Closed (V1C10,
    JT14).
    """
    bench = Bench(duration=500)
    handler = bench.prompt()
    closed = bench.session.close(notice="close")
    closed.addCallback(lambda _: bench.events.append(list(handler.answers)))
    assert bench.events == [("session/close", "close")]
    assert (bench.timers(), turn_of(handler).cancellations) == ([60, 500], ("session/close",))
    assert (bench.session.busy, bench.session.closed) == (True, False)
    assert "active" in bench.refused().message
    handler.work.callback(end_turn())
    assert bench.events[1:] == [[CANCELLED]]
    assert (bench.session.busy, bench.session.closed, bench.timers()) == (False, True, [])
    refusal = bench.refused()
    assert (refusal.code, refusal.data) == (-32600, {"sessionId": "s1"})
    assert "closed" in refusal.message


def test_cancelling_close() -> None:
    """Cancelling | session/close | as session/cancel again: the timer is not restarted | Closed (JT19)."""
    bench = Bench()
    handler = bench.prompt()
    bench.session.cancel()
    bench.clock.advance(15)
    closed = bench.session.close()
    assert bench.events == [("session/cancel", None), ("session/close", None)]
    assert bench.timers() == [45]
    bench.session.cancel(notice="late")
    assert bench.events[2:] == [("session/cancel", "late")]
    bench.clock.advance(45)
    assert (handler.answers, closed.called, bench.session.closed) == ([CANCELLED], True, True)
    assert turn_of(handler).cancellations == ("session/cancel", "session/close", "session/cancel", "cancelGracePeriod")


def fail_work(bench: Bench, handler: Handler) -> None:
    """The handler fails."""
    handler.work.errback(ZeroDivisionError())


ENDS: dict[str, Callable[[Bench, Handler], object]] = {
    "result": lambda bench, handler: handler.work.callback(end_turn()),
    "failure": fail_work,
    "grace": lambda bench, handler: bench.clock.advance(60),
    "duration": lambda bench, handler: bench.clock.advance(10),
    "request": lambda bench, handler: bench.session.cancel_request(turn_of(handler)),
    "shutdown": lambda bench, handler: bench.session.shutdown(),
}


@pytest.mark.parametrize("end", ENDS)
def test_closing_ends(end: str) -> None:
    """Closing | any end of the turn | stopReason cancelled | Closed, and each who waits is told once."""
    bench = Bench(duration=10 if end == "duration" else 0)
    handler = bench.prompt()
    waiting = [bench.session.close(), bench.session.close()]
    assert [closed.called for closed in waiting] == [False, False]
    ENDS[end](bench, handler)
    assert handler.answers == [CANCELLED]
    assert [closed.called for closed in waiting] == [True, True]
    assert (bench.session.closed, bench.session.busy, bench.timers()) == (True, False, [])


def test_closing_connection_lost() -> None:
    """Closing | connection lost | none possible | Closed: the close handler may free what it has to."""
    bench = Bench()
    handler = bench.prompt()
    closed = bench.session.close()
    bench.session.connection_lost()
    assert (handler.answers, handler.stops, closed.called, bench.timers()) == ([], 1, True, [])


def test_idle_close() -> None:
    """Idle | session/close | - (cancel handler told, then the close handler runs) | Closed (JT21)."""
    bench = Bench()
    closed = bench.session.close(notice=1)
    assert (bench.events, closed.called, bench.session.closed) == ([("session/close", 1)], True, True)
    assert bench.session.close().called
    assert len(bench.events) == 1
    bench.refused()


def test_close_waiter_gives_up() -> None:
    """Who cancels the Deferred of close() stops waiting; the session closes all the same."""
    bench = Bench()
    handler = bench.prompt()
    closed = bench.session.close()
    closed.cancel()
    closed.addErrback(lambda failure: failure.trap(CancelledError))
    handler.work.callback(end_turn())
    assert (handler.answers, bench.session.closed) == ([CANCELLED], True)


def test_close_waiter_gives_up_late(logs: list[LogEvent]) -> None:
    """He may even do so from within the write of the answer, with his own call due next."""
    bench = Bench()
    handler = bench.prompt()
    closed = bench.session.close()
    handler.on_answer = closed.cancel
    closed.addErrback(lambda failure: failure.trap(CancelledError))
    handler.work.callback(end_turn())
    assert (handler.answers, bench.session.closed, logs) == ([CANCELLED], True, [])


def test_running_shutdown() -> None:
    """Running | agent or service shuts down | as $/cancel_request | Closed (X7, JT16)."""
    bench = Bench(duration=100)
    handler = bench.prompt()
    bench.session.shutdown()
    assert handler.answers == [Told(-32800, "Request cancelled", None)]
    assert (handler.stops, bench.session.busy, bench.session.closed, bench.timers()) == (1, False, True, [])
    assert turn_of(handler).cancellations == ("shutdown",)
    bench.refused()


def test_cancelling_shutdown() -> None:
    """Cancelling | agent or service shuts down | as $/cancel_request: stopReason cancelled | Closed (JT16)."""
    bench = Bench(duration=100)
    handler = bench.prompt()
    bench.session.cancel()
    bench.session.shutdown()
    assert (handler.answers, handler.stops, bench.session.closed, bench.timers()) == ([CANCELLED], 1, True, [])
    assert turn_of(handler).cancellations == ("session/cancel", "shutdown")


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("swallows", [False, True])
def test_connection_lost(cancelled: bool, swallows: bool) -> None:
    """any | connection lost | none possible; token set, handler cancelled, timers stopped | Closed (P5, B25)."""
    bench = Bench(duration=100)
    handler = bench.prompt(Handler(swallows=swallows))
    if cancelled:
        bench.session.cancel()
    bench.session.connection_lost()
    assert (handler.answers, handler.stops, bench.session.busy, bench.session.closed) == ([], 1, False, True)
    assert bench.timers() == []
    assert turn_of(handler).cancellations[-1] == "connectionLost"
    assert turn_of(handler).answered
    handler.work.callback(end_turn())
    assert handler.answers == []


@pytest.mark.parametrize("end", ["shutdown", "connection_lost"])
def test_idle_ends(end: str) -> None:
    """Idle | shutdown, connection lost | - | Closed: after that nothing happens any more."""
    bench = Bench()
    getattr(bench.session, end)()
    bench.session.shutdown()
    bench.session.connection_lost()
    bench.session.cancel()
    assert (bench.session.closed, bench.events, bench.timers()) == (True, [], [])
    bench.refused()


def test_idle_cancel() -> None:
    """Idle | session/cancel | - (cancel handler told; not remembered for a later prompt) | Idle (V1C12)."""
    bench = Bench()
    bench.session.cancel(notice="n")
    assert (bench.events, bench.timers()) == ([("session/cancel", "n")], [])
    handler = bench.prompt()
    assert not turn_of(handler).cancelled
    handler.work.callback(end_turn())
    assert handler.answers == [end_turn()]


# --- races and odd cases ---


def test_cancel_after_answer() -> None:
    """A cancel after the answer only tells the cancel handler; the turn that is over is not touched (X8, B18)."""
    bench = Bench()
    handler = bench.prompt()
    handler.work.callback(end_turn())
    bench.session.cancel()
    bench.session.cancel_request(turn_of(handler))
    assert (handler.answers, turn_of(handler).cancellations, bench.timers()) == ([end_turn()], (), [])
    assert bench.events == [("session/cancel", None)]


def test_late_cancel_request_spares_the_next_turn() -> None:
    """$/cancel_request for an answered prompt does not touch the turn that began after it (rule 4, B05)."""
    bench = Bench()
    first = bench.prompt()
    first.work.callback(end_turn())
    second = bench.prompt()
    bench.session.cancel_request(turn_of(first))
    assert (second.answers, second.stops, turn_of(second).cancelled) == ([], 0, False)
    second.work.callback(end_turn())
    assert second.answers == [end_turn()]


@pytest.mark.parametrize("fails", [False, True])
def test_late_end_spares_the_next_turn(fails: bool, logs: list[LogEvent]) -> None:
    """
    A handler that swallowed its cancellation and ends late neither answers nor releases a later turn (rule 4, JT34).
    """
    bench = Bench()
    first = bench.prompt(Handler(swallows=True))
    bench.session.cancel_request(turn_of(first))
    second = bench.prompt()
    if fails:
        first.work.errback(ZeroDivisionError())
    else:
        first.work.callback(end_turn())
    assert (len(first.answers), second.answers, bench.session.busy) == (1, [], True)
    assert (levels(logs)[-1], failures(logs)) == (LogLevel.debug, [])
    bench.refused()
    second.work.callback(end_turn())
    assert second.answers == [end_turn()]


def test_timers_spare_the_next_turn() -> None:
    """The timers of a finished turn can't hit the next one, which has its own (JT26)."""
    bench = Bench(grace=60, duration=100)
    first = bench.prompt()
    bench.session.cancel()
    bench.clock.advance(59)
    first.work.callback(end_turn())
    second = bench.prompt()
    assert bench.timers() == [100]
    bench.clock.advance(99)
    assert (second.answers, second.stops) == ([], 0)
    bench.clock.advance(1)
    assert len(second.answers) == 1


def test_never_ending_handler_is_replaced() -> None:
    """A handler that never ends, cancelled or not, does not keep its session busy (B25, J15)."""
    bench = Bench(grace=1)
    for _ in range(3):
        handler = bench.prompt(Handler(swallows=True))
        bench.session.cancel()
        bench.clock.advance(1)
        assert handler.answers == [CANCELLED]
        handler.work.callback(None)


def test_both_timers_at_once() -> None:
    """Grace and duration that end at the same moment give one answer (J19)."""
    bench = Bench(grace=10, duration=10)
    handler = bench.prompt()
    bench.session.cancel()
    bench.clock.advance(10)
    assert (handler.answers, handler.stops, bench.timers()) == ([CANCELLED], 1, [])


def test_both_timers_off() -> None:
    """
    With both timers off nothing is scheduled: a handler that never answers keeps its session busy for good (JT23).
    """
    bench = Bench(grace=0, duration=0)
    handler = bench.prompt()
    bench.session.cancel()
    assert bench.timers() == []
    bench.clock.advance(10**9)
    assert (handler.answers, bench.session.busy) == ([], True)
    bench.refused()
    handler.work.callback(end_turn())
    assert handler.answers == [CANCELLED]


def test_grace_off() -> None:
    """With the grace period off only the duration forces an answer (JT24)."""
    bench = Bench(grace=0, duration=100)
    handler = bench.prompt()
    bench.session.cancel()
    assert bench.timers() == [100]
    bench.clock.advance(100)
    assert handler.answers == [CANCELLED]


def test_released_before_the_answer() -> None:
    """A prompt sent from within the write of the answer is accepted, however the turn ended (rule 4, JT32)."""
    for end in (name for name in ENDS if name != "shutdown"):
        bench = Bench(duration=10 if end == "duration" else 0)
        first, second = Handler(), Handler()
        first.on_answer = lambda bench=bench, second=second: bench.prompt(second)  # type: ignore[misc]
        bench.prompt(first)
        if end == "grace":
            bench.session.cancel()
        if end != "failure":
            ENDS[end](bench, first)
        else:
            first.work.errback(AuthRequired())
        assert (len(first.answers), second.starts, second.answers) == (1, 1, []), end
        assert bench.session.turn is second.turn
        second.work.callback(end_turn())
        assert second.answers == [end_turn()]


def test_no_stack_grows() -> None:
    """A client that prompts again from within each answer, and a handler that answers at once, go on for ever."""
    bench = Bench()
    left = 5000
    answered = 0

    def client() -> None:
        nonlocal left, answered
        answered += 1
        if left:
            left -= 1
            bench.prompt(Handler(on_answer=client), start=lambda turn: succeed(end_turn()))

    bench.prompt(Handler(on_answer=client), start=lambda turn: succeed(end_turn()))
    assert answered == 5001


def test_synchronous_handler() -> None:
    """A handler that ends before begin() returns: the turn that begin() returns is over."""
    bench = Bench(duration=10)
    handler = bench.prompt(start=lambda turn: succeed(end_turn()))
    assert (handler.answers, turn_of(handler).answered, bench.timers()) == ([end_turn()], True, [])


def test_callback_ends_the_handler() -> None:
    """A callback of the token that makes the handler end: the answer is cancelled, and no grace timer is left."""
    bench = Bench()
    handler = bench.prompt()
    turn_of(handler).token.on_cancel(lambda: handler.work.callback(end_turn("m")))
    handler.on_answer = lambda: bench.events.append("answer")
    bench.session.cancel()
    assert handler.answers == [{"stopReason": "cancelled", "_meta": "m"}]
    assert bench.events == [("session/cancel", None), "answer"]
    assert (bench.timers(), bench.session.busy) == ([], False)


def test_callback_ends_the_handler_too_late() -> None:
    """A callback of the token that makes the handler end on $/cancel_request: its result is dropped."""
    bench = Bench()
    handler = bench.prompt()
    turn_of(handler).token.on_cancel(lambda: handler.work.callback(end_turn()))
    bench.session.cancel_request(turn_of(handler))
    assert handler.answers == [Told(-32800, "Request cancelled", None)]


def test_cancel_handler_ends_the_handler() -> None:
    """A cancel handler that makes the prompt's handler end, as one does that owns the work."""
    bench = Bench()
    handler = bench.prompt()
    bench.on_told = lambda: handler.work.errback(CancelledError())
    bench.session.cancel()
    assert (handler.answers, bench.timers()) == ([CANCELLED], [])


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_cancel_handler_raises(logs: list[LogEvent], error: type[BaseException]) -> None:
    """A cancel handler that raises is logged; the turn goes on to its answer."""
    bench = Bench()
    handler = bench.prompt()

    def explode() -> None:
        raise error

    bench.on_told = explode
    bench.session.cancel()
    assert (failures(logs), bench.timers()) == ([error], [60])
    handler.work.callback(end_turn())
    assert handler.answers == [CANCELLED]


def test_without_a_cancel_handler() -> None:
    """Nobody needs to be told of a cancel."""
    clock = Clock()
    session = PromptSession("s1", clock, PromptTimeouts())
    session.cancel()
    answers: list[object] = []
    session.begin(answers.append, answers.append, lambda turn: Deferred(), cancelled_with)
    session.cancel()
    clock.advance(60)
    assert answers == [CANCELLED]


def test_cancel_from_within_the_handler() -> None:
    """A cancel that arrives while the handler runs its first steps is seen by its next look (rule 3, B01)."""
    bench = Bench()
    seen: list[object] = []

    def start(turn: Turn) -> object:
        seen.append(turn.cancelled)
        bench.session.cancel()
        seen.append(turn.cancelled)
        return end_turn()

    handler = bench.prompt(start=start)
    assert seen == [False, True]
    assert (handler.answers, bench.timers()) == ([CANCELLED], [])


@pytest.mark.parametrize("end", ["cancel_request", "shutdown", "connection_lost"])
def test_turn_ended_from_within_the_handler(end: str) -> None:
    """A turn that is ended while its handler runs its first steps: answered at once, the handler cancelled after."""
    bench = Bench()
    handler = Handler()

    def stop(turn: Turn) -> None:
        if end == "cancel_request":
            bench.session.cancel_request(turn)
        else:
            getattr(bench.session, end)()
        assert turn.answered
        assert len(handler.answers) == (end != "connection_lost")

    handler.on_start = stop
    bench.prompt(handler)
    assert (handler.stops, len(handler.answers)) == (1, end != "connection_lost")


@pytest.mark.parametrize("event", ["cancel", "cancel_request", "connection_lost"])
def test_held_start(event: str) -> None:
    """
    A prompt from within a callback starts once that has returned.  Cancelled before that, its handler finds the token
    set (B02); ended before that, it does not start at all (B15).
    """
    bench = Bench()
    second = Handler()

    def client() -> None:
        bench.prompt(second)
        assert second.starts == 0
        if event == "cancel_request":
            bench.session.cancel_request(turn_of(second))
        else:
            getattr(bench.session, event)()

    seen: list[bool] = []
    second.on_start = lambda turn: seen.append(turn.cancelled)
    first = bench.prompt(Handler(on_answer=client))
    first.work.callback(end_turn())
    if event == "cancel":
        assert (second.starts, second.answers, seen) == (1, [], [True])
        second.work.callback(end_turn())
        assert second.answers == [CANCELLED]
    elif event == "cancel_request":
        assert (second.starts, second.answers) == (0, [Told(-32800, "Request cancelled", None)])
    else:
        assert (second.starts, second.answers) == (0, [])
    assert bench.timers() == []


def test_new_turn_is_known_before_anything_else_happens() -> None:
    """A prompt from within a token's callback, cancelled from within the write of the answer that was still due."""
    bench = Bench()
    first, second = Handler(), Handler()
    first.on_answer = lambda: bench.session.cancel_request(turn_of(second))
    bench.prompt(first)
    turn_of(first).token.on_cancel(lambda: bench.prompt(second))
    bench.session.cancel_request(turn_of(first))
    answer = [Told(-32800, "Request cancelled", None)]
    assert (first.answers, second.answers, second.starts) == (answer, answer, 0)


def test_answer_precedes_the_handlers_cancellation() -> None:
    """A forced answer is written first; what the cancelled handler still does comes after it."""
    bench = Bench()
    order: list[str] = []
    stopped: Deferred[Any] = Deferred(lambda _: order.append("stopped"))
    handler = Handler(on_answer=lambda: order.append("answer"))
    bench.prompt(handler, start=lambda turn: stopped)
    turn_of(handler).token.on_cancel(lambda: order.append("token"))
    bench.session.cancel_request(turn_of(handler))
    assert order == ["token", "answer", "stopped"]


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_raising_canceller(logs: list[LogEvent], error: type[BaseException]) -> None:
    """A handler whose canceller raises is logged, and breaks nothing (B75)."""
    bench = Bench(grace=1)

    def canceller(_: object) -> None:
        raise error

    handler = bench.prompt(start=lambda turn: Deferred(canceller))
    bench.session.cancel()
    bench.clock.advance(1)
    assert (handler.answers, failures(logs), bench.session.busy) == ([CANCELLED], [error], False)
    assert bench.prompt().starts == 1


def test_coroutine_that_swallows_its_cancellation() -> None:
    """A coroutine that catches its cancellation, awaits on, and then fails, ends nowhere (B75)."""
    bench = Bench()
    never: Deferred[None] = Deferred()
    cleanup: Deferred[None] = Deferred()

    async def start(turn: Turn) -> object:
        try:
            await never
        except CancelledError:
            await cleanup
        raise ZeroDivisionError

    handler = bench.prompt(start=start)
    bench.session.cancel_request(turn_of(handler))
    cleanup.callback(None)
    assert handler.answers == [Told(-32800, "Request cancelled", None)]


def test_result_that_cannot_be_sent(logs: list[LogEvent]) -> None:
    """A result that can't be sent is logged and answered with -32603: one answer, whatever happens (rule 1)."""
    bench = Bench()
    answers: list[object] = []

    def respond(result: object) -> None:
        raise TypeError

    bench.session.begin(respond, answers.append, lambda turn: succeed(end_turn()), cancelled_with)
    assert [type(answer) for answer in answers] == [InternalError]
    assert (failures(logs), bench.session.busy) == ([TypeError], False)


def test_meta_that_cannot_be_kept(logs: list[LogEvent]) -> None:
    """A cancelled result whose _meta can't be kept is answered cancelled without it (V1C6)."""
    bench = Bench()
    handler = bench.prompt(start=lambda turn: Deferred())
    bench.session.cancel_request(turn_of(handler))
    other = bench.prompt()
    bench.session.cancel()
    other.work.callback("no result that has a _meta")
    assert other.answers == [CANCELLED]
    assert failures(logs) == [TypeError]


def test_nothing_can_be_sent(logs: list[LogEvent]) -> None:
    """With every answer failing, each failure is logged once, and the session is free."""
    bench = Bench()

    def refuse(answer: object) -> None:
        raise OSError

    turn = bench.session.begin(refuse, refuse, lambda turn: Deferred(), cancelled_with)
    bench.session.cancel()
    bench.session.cancel_request(turn)
    assert (failures(logs), bench.session.busy) == ([OSError, OSError], False)


def test_own_token() -> None:
    """The request's own token is the turn's."""
    token = CancellationToken()
    session = PromptSession("s1", Clock(), PromptTimeouts())
    turn = session.begin(print, print, lambda turn: Deferred(), cancelled_with, token)
    assert turn.token is token
    session.connection_lost()
    assert token.triggers == turn.cancellations == ("connectionLost",)


def test_turns_compare_by_identity() -> None:
    """Two turns are never equal, and a turn can be a key (JT34)."""
    bench = Bench()
    first = bench.prompt(start=lambda turn: succeed(end_turn()))
    second = bench.prompt(start=lambda turn: succeed(end_turn()))
    assert turn_of(first) != turn_of(second)
    assert len({turn_of(first), turn_of(second)}) == 2


def test_turn_does_not_show_its_prompt() -> None:
    """A turn in a log shows nothing of what it was handed (rule 9)."""
    bench = Bench()
    handler = bench.prompt(start=lambda turn: succeed(end_turn("secret")))
    assert repr(handler.turn) == "Turn(session_id='s1', answered=True)"


# --- the machine and its drawing ---


def test_every_state_answers_every_input() -> None:
    """No event in no state is left to chance."""
    automaton = _machine.turn_machine.__automat_automaton__
    known = {(state.name, event) for state, event, _, _ in automaton.allTransitions()}
    states = {state.name for state in automaton.states()}
    assert states == {"Idle", "Running", "Cancelling", "Closing", "Closed"}
    assert len(automaton.inputAlphabet()) == 10
    assert known == {(state, event) for state in states for event in automaton.inputAlphabet()}


def test_the_drawings_are_the_machine() -> None:
    """The drawings in the documentation are what tools/draw_machines.py makes of the code today."""
    tool = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "draw_machines.py"))
    assert tool["main"](["--check"]) == 0


def test_stale_drawings_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check fails for a missing drawing and for an old one, and passes once they are drawn again."""
    tool = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "draw_machines.py"))
    assert tool["main"](["--check"], tmp_path) == 1
    assert tool["main"]([], tmp_path) == 0
    assert tool["main"](["--check"], tmp_path) == 0
    drawing = tmp_path / "prompt_session.mmd"
    drawing.write_text(drawing.read_text().replace("Running --> Idle", "Running --> Closed"))
    assert tool["main"](["--check"], tmp_path) == 1
    assert "prompt_session.mmd" in capsys.readouterr().err


def test_the_machine_looks_its_transitions_up() -> None:
    """
    Automat's own search through all transitions is not used; if that can no longer be arranged, turns become slow.
    """
    automaton = _machine.turn_machine.__automat_automaton__
    assert "outputForInput" in vars(automaton)
