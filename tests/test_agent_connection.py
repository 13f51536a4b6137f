"""
The agent half on the wire: every row of the turn's table, its sessions, and what its handlers see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from agent_halves_v2 import AgentHalf as SecondAgentHalf
from conftest import LoggedErrors
from halves import AgentHalf, Raw, cancel, cancel_request, prompt
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IReactorFromThreads, IReactorThreads, IReactorTime
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from wire import failure, no_result, success
from zope.interface import implementer
from zope.interface.verify import verifyObject

from acp_twisted import AcpAgent, Limits, PromptContext
from acp_twisted.agent.agent import AcpAgentBuilder
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.errors import AcpConnectionError, AuthRequired, RequestCancelled, RequestTimedOut
from acp_twisted.interfaces import IMessageReceiver
from acp_twisted.schema import v1

END_TURN = v1.PromptResponse(stop_reason="end_turn", meta={"mine": 1})
CANCELLED = {"result": {"stopReason": "cancelled"}}
CANCELLED_WITH_META = {"result": {"stopReason": "cancelled", "_meta": {"mine": 1}}}
REQUEST_CANCELLED = {"error": {"code": -32800, "message": "Request cancelled"}}


class Handler:
    """
    A prompt handler that ends when the test wants.

    @ivar contexts: those of the prompts so far.
    @ivar stops: how often its Deferred was cancelled.
    """

    def __init__(self) -> None:
        self.contexts: list[PromptContext] = []
        self.works: list[Deferred[Any]] = []
        self.stops = 0

    def __call__(self, request: v1.PromptRequest, context: PromptContext) -> Deferred[Any]:
        self.contexts.append(context)
        self.works.append(Deferred(self._stopped))
        return self.works[-1]

    def _stopped(self, _: object) -> None:
        self.stops += 1

    @property
    def context(self) -> PromptContext:
        """The last one."""
        return self.contexts[-1]

    def ends(self, result: Any = END_TURN) -> None:
        """The last handler ends."""
        if isinstance(result, Exception):
            self.works[-1].errback(result)
        else:
            self.works[-1].callback(result)


def builder(handler: Any) -> AcpAgentBuilder:
    """An agent whose first session is C{s1}."""
    names = iter(("s1", "s2", "s3"))
    return (
        AcpAgent.builder()
        .prompt_handler(handler)
        .new_session_handler(lambda request: v1.NewSessionResponse(session_id=next(names)))
    )


@pytest.fixture
def handler() -> Handler:
    """The prompt handler of these tests."""
    return Handler()


@pytest.fixture
def told() -> list[str]:
    """What the cancel handler was told, and what else happened."""
    return []


@pytest.fixture
def half(handler: Handler, told: list[str]) -> AgentHalf:
    """An agent with everything that the table needs, and the session C{s1}."""
    return AgentHalf(
        builder(handler)
        .cancel_handler(lambda notice: told.append(f"cancel {notice.session_id}"))
        .close_session_handler(lambda request: told.append(f"close {request.session_id}"))
        .delete_session_handler(lambda request: told.append(f"delete {request.session_id}"))
        .load_session_handler(lambda request: told.append(f"load {request.session_id}"))
        .cancel_grace_period(10)
        .max_prompt_duration(600)
        .build()
    )


def settled(half: AgentHalf) -> None:
    """Nothing is left: no request, no timer, no lane, no turn."""
    assert half.connection.peer.incoming_requests == half.connection.peer.pending_requests == 0
    assert len(half.connection.peer.lanes) == 0
    assert half.clock.getDelayedCalls() == []
    assert all(not session.busy for session in half.connection._sessions.values())


def test_the_fake_is_a_receiver() -> None:
    """The other end of these tests is what a transport would deliver to."""
    assert verifyObject(IMessageReceiver, Raw())


# ---- the table, row by row


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (END_TURN, {"result": {"stopReason": "end_turn", "_meta": {"mine": 1}}}),
        (None, {"error": {"code": -32603, "message": "The session/prompt handler produced no response"}}),
        (AuthRequired("Log in"), {"error": {"code": -32000, "message": "Log in"}}),
        (CancelledError(), REQUEST_CANCELLED),
        (RequestTimedOut("fs/read_text_file", 60), {"error": {"code": -32603, "message": "Internal error"}}),
    ],
)
def test_a_running_handlers_end_is_the_answer(half: AgentHalf, handler: Handler, result: Any, answer: Any) -> None:
    """Running: a result as it is, no result as -32603, a failure as its own error or a plain -32603 (JT1, JT2, JT3)."""
    half.prompt()
    assert half.answers() == []
    handler.ends(result)
    assert half.answers() == [answer]
    settled(half)


def test_an_unknown_failure_leaks_nothing(half: AgentHalf, handler: Handler, logged_errors: LoggedErrors) -> None:
    """What a failing handler says of itself stays in the log (rule 9, JT2)."""
    half.prompt()
    handler.ends(ValueError("the password is hunter2"))
    assert half.answers() == [{"error": {"code": -32603, "message": "Internal error"}}]
    assert len(logged_errors) == 1
    logged_errors.clear()


@pytest.mark.parametrize("result", [END_TURN, None, AuthRequired(), CancelledError(), ValueError("aborted")])
def test_whatever_a_cancelled_handler_says_the_answer_is_cancelled(
    half: AgentHalf, handler: Handler, told: list[str], result: Any
) -> None:
    """Cancelling: any result or failure is answered cancelled; only _meta is kept (V1C5, V1C6, B07, JT6, JT7)."""
    half.prompt()
    half.cancel()
    assert half.answers() == []
    assert handler.context.is_cancelled
    assert handler.context.cancellations == ("session/cancel",)
    assert handler.stops == 0
    assert told == ["cancel s1"]
    handler.ends(result)
    assert half.answers() == [CANCELLED_WITH_META if result is END_TURN else CANCELLED]
    settled(half)


def test_the_grace_period_answers_for_the_handler(half: AgentHalf, handler: Handler) -> None:
    """
    Cancelling: the handler that does not end is cancelled, and its late result dropped; it counts from the first
    (JT8, JT19).
    """
    half.prompt()
    half.cancel()
    half.clock.advance(9)
    half.cancel()
    assert half.answers() == []
    half.clock.advance(1)
    assert half.answers() == [CANCELLED]
    assert handler.stops == 1
    assert handler.context.cancellations == ("session/cancel", "session/cancel", "cancelGracePeriod")
    settled(half)


def test_the_longest_duration_ends_a_turn(half: AgentHalf, handler: Handler) -> None:
    """Running: -32800 with the limit in ISO 8601, and the handler is cancelled (JT9)."""
    half.prompt()
    half.clock.advance(600)
    limit = {"maxPromptDuration": "PT10M"}
    message = "Prompt exceeded maxPromptDuration of PT10M"
    assert half.answers() == [{"error": {"code": -32800, "message": message, "data": limit}}]
    assert handler.stops == 1
    settled(half)


def test_the_longest_duration_of_a_cancelled_turn(handler: Handler) -> None:
    """Cancelling: the same, answered cancelled (JT10)."""
    half = AgentHalf(builder(handler).cancel_grace_period(0).max_prompt_duration(600).build())
    half.prompt()
    half.cancel()
    half.clock.advance(600)
    assert half.answers() == [CANCELLED]
    assert handler.stops == 1
    settled(half)


def test_cancel_request_ends_a_turn_at_once(half: AgentHalf, handler: Handler, told: list[str]) -> None:
    """Running: $/cancel_request is answered -32800, no data, and the handler is cancelled (JT11)."""
    half.prompt()
    half.cancel_request()
    assert half.answers() == [REQUEST_CANCELLED]
    assert handler.stops == 1
    assert handler.context.cancellations == ("$/cancel_request",)
    assert told == []
    settled(half)


def test_cancel_request_of_a_cancelled_turn(half: AgentHalf, handler: Handler) -> None:
    """Cancelling: $/cancel_request is answered cancelled at once (JT12)."""
    half.prompt()
    half.cancel()
    half.cancel_request()
    assert half.answers() == [CANCELLED]
    assert handler.stops == 1
    settled(half)


def test_a_second_prompt_is_refused_and_disturbs_nothing(half: AgentHalf, handler: Handler) -> None:
    """
    A busy session, running or cancelling, refuses with -32600 and its id (B14); the turn goes on (JT4, JT22, V1C11).
    """
    half.send(prompt(5), prompt(6))
    half.cancel()
    half.prompt(7)
    message = "there is already an active prompt on session s1"
    refusal = {"error": {"code": -32600, "message": message, "data": {"sessionId": "s1"}}}
    assert half.answers(6) == half.answers(7) == [refusal]
    assert half.answers(5) == []
    assert len(handler.contexts) == 1
    handler.ends()
    assert half.answers(5) == [CANCELLED_WITH_META]
    half.prompt(8)
    assert half.answers(8) == []
    assert len(handler.contexts) == 2


def test_a_prompt_in_the_answers_own_step_is_accepted(half: AgentHalf, handler: Handler) -> None:
    """The session is free before its answer is written: whoever reads the answer may prompt (design rule 4) (JT32)."""
    half.prompt(5)
    original = half.raw.message_received

    def again(message: bytes) -> None:
        original(message)
        if half.raw.received[-1]["id"] == 5:
            half.prompt(6)

    half.raw.message_received = again  # type: ignore[method-assign]
    handler.ends()
    assert half.answers(6) == []
    assert len(handler.contexts) == 2


def test_session_cancel_of_an_idle_session_is_not_remembered(
    half: AgentHalf, handler: Handler, told: list[str]
) -> None:
    """Idle: the cancel handler is told, and a later prompt runs (V1C12, B05)."""
    half.cancel()
    assert told == ["cancel s1"]
    half.prompt()
    assert not handler.context.is_cancelled
    handler.ends()
    half.cancel()
    half.prompt(6)
    assert not handler.context.is_cancelled
    assert half.take()[0]["id"] == 5


def test_a_late_cancel_request_hurts_no_later_turn(half: AgentHalf, handler: Handler) -> None:
    """One for an answered prompt is silent, and turns compare by identity (B05, B18, JT34, X10)."""
    half.prompt(5)
    handler.ends()
    half.prompt(6)
    half.take()
    half.send(cancel_request(5), cancel_request("6"), cancel_request(None), cancel_request(999))
    assert half.take() == []
    assert not handler.context.is_cancelled


def test_shutdown_answers_before_it_closes(half: AgentHalf, handler: Handler) -> None:
    """Running: as $/cancel_request, flushed before the link goes; Cancelling: cancelled (JT16, X7)."""
    half.send({"id": "n2", "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}})
    half.send(prompt(5, "s1"), prompt(6, "s2"), cancel("s2"))
    half.connection.close()
    assert half.answers(5) == [REQUEST_CANCELLED]
    assert half.answers(6) == [CANCELLED]
    assert handler.stops == 2
    assert half.raw.lost
    settled(half)


def test_a_lost_link_cancels_without_an_answer(half: AgentHalf, handler: Handler) -> None:
    """Any state: the token is set, the handler cancelled, the timers stopped (B25, P5)."""
    half.prompt()
    half.lose()
    assert half.answers() == []
    assert handler.context.cancellations == ("connectionLost",)
    assert handler.stops == 1
    assert half.connection.session_ids == ()
    settled(half)


def test_half_close_is_no_cancel(half: AgentHalf, handler: Handler) -> None:
    """The end of the input: what was received is answered, then the link is closed (JT18)."""
    half.prompt()
    half.link.b.half_close()
    assert not handler.context.is_cancelled
    half.clock.advance(59)
    handler.ends()
    assert half.answers() == [{"result": {"stopReason": "end_turn", "_meta": {"mine": 1}}}]
    assert half.raw.lost


def test_half_close_waits_no_longer_than_the_drain_timeout(half: AgentHalf, handler: Handler) -> None:
    """After 60 seconds the prompt is answered -32800, and the link closed (JT18)."""
    half.prompt()
    half.link.b.half_close()
    half.clock.advance(60)
    assert half.answers() == [REQUEST_CANCELLED]
    assert half.raw.lost
    assert handler.stops == 1
    settled(half)


# ---- when the cancel comes at a bad moment


def test_cancel_in_the_same_chunk(half: AgentHalf, handler: Handler) -> None:
    """The turn is there before the next line is read (B01, V1C11)."""
    half.send(prompt(5), cancel())
    assert handler.context.is_cancelled
    handler.ends()
    assert half.answers() == [CANCELLED_WITH_META]


def test_cancel_request_in_the_same_chunk(half: AgentHalf) -> None:
    """The same for $/cancel_request (B03)."""
    half.send(prompt(5), cancel_request(5))
    assert half.answers() == [REQUEST_CANCELLED]


def test_cancel_during_the_set_up_of_a_handler() -> None:
    """The token exists from the receipt of the prompt; what was set up finds it cancelled (B02)."""
    set_up: Deferred[None] = Deferred()
    entered: list[bool] = []

    async def slow(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        await set_up
        entered.append(not context.is_cancelled)
        return END_TURN

    half = AgentHalf(builder(slow).build())
    half.prompt()
    half.cancel()
    set_up.callback(None)
    assert entered == [False]
    assert half.answers() == [CANCELLED_WITH_META]


def test_a_prompt_behind_a_slow_notification_is_cancelled_before_it_starts(handler: Handler) -> None:
    """Its turn began when it came, so it is answered, and its handler never starts (B01, B02)."""
    slow: Deferred[None] = Deferred()
    half = AgentHalf(builder(handler).ext_notification_handler("_slow", lambda params: slow).build())
    half.send({"method": "_slow", "params": {"sessionId": "s1"}})
    half.prompt(5)
    half.prompt(6)
    assert half.answers(6)[0]["error"]["code"] == -32600
    half.cancel()
    assert half.answers(5) == [CANCELLED]
    slow.callback(None)
    assert handler.contexts == []
    settled(half)


def test_a_handler_may_end_from_within_its_cancellation(half: AgentHalf, handler: Handler, told: list[str]) -> None:
    """on_cancel is called in the delivery, once; what the handler returns there is the answer (J23, JT30)."""
    half.prompt()
    handler.context.on_cancel(lambda: told.append("token"))
    handler.context.on_cancel(handler.ends)
    waiting = handler.context.when_cancelled()
    half.cancel()
    assert half.answers() == [CANCELLED_WITH_META]
    assert told == ["token", "cancel s1"]
    success(waiting)
    handler.context.on_cancel(lambda: told.append("late"))
    assert told[-1] == "late"


def test_a_failing_cancel_callback_hurts_nobody(half: AgentHalf, handler: Handler, logged_errors: LoggedErrors) -> None:
    """Callbacks and cancel handlers that raise are logged; the cancellation goes on (J23)."""
    half.prompt()
    handler.context.on_cancel(lambda: 1 / 0)
    half.cancel()
    handler.ends()
    assert half.answers() == [CANCELLED_WITH_META]
    assert len(logged_errors) == 1
    logged_errors.clear()


def test_updates_after_the_answer_are_dropped(half: AgentHalf, handler: Handler) -> None:
    """
    Those before stand before it on the wire; those after, from the context, are not sent (design rule 4, B13, JT27,
    V1C7).
    """
    half.prompt()
    handler.context.send_message("before")
    half.cancel()
    handler.context.send_thought("still")
    handler.ends()
    success(handler.context.send_message("after"))
    assert [each.get("method") for each in half.take()] == ["session/update", "session/update", None]
    half.connection.send_update("s1", v1.AgentMessageChunk(content=v1.TextContent(text="outside")))
    assert half.take()[0]["method"] == "session/update"


def test_session_cancel_as_a_request(half: AgentHalf, handler: Handler) -> None:
    """It stops the turn and is answered, though it should be a notification; $/cancelRequest is nothing (B19)."""
    half.prompt()
    half.send({"method": "$/cancelRequest", "params": {"id": 5}})
    assert not handler.context.is_cancelled
    half.send({"id": 9, "method": "session/cancel", "params": {"sessionId": "s1"}})
    assert half.answers(9) == [{"result": None}]
    handler.ends()
    assert half.answers(5) == [CANCELLED_WITH_META]


@pytest.mark.parametrize("params", [None, [], {}, {"sessionId": 7}, {"sessionId": None}, "s1"])
def test_a_malformed_session_cancel_is_ignored(half: AgentHalf, handler: Handler, params: Any) -> None:
    """It cancels nothing, is not answered, and is no failure of ours (B53)."""
    half.prompt()
    half.take()
    half.send({"method": "session/cancel"} | ({} if params is None else {"params": params}))
    assert not handler.context.is_cancelled
    handler.ends()
    assert [each["id"] for each in half.take() if each["id"] is not None] == [5]


# ---- what a handler asks


def ask(context: PromptContext, **options: Any) -> Deferred[Any]:
    """A permission."""
    option = v1.PermissionOption(option_id="y", name="Yes", kind="allow_once")
    return context.request_permission(v1.ToolCallUpdate(tool_call_id="t"), [option], **options)


def cancels(half: AgentHalf) -> list[Any]:
    """The ids in the cancellations that the agent sent."""
    return [each["params"]["requestId"] for each in half.received if each.get("method") == "$/cancel_request"]


def test_what_a_cancelled_handler_awaits_is_cancelled_once() -> None:
    """A forced end cancels the coroutine and with it its request, once (X9)."""

    async def asking(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        await ask(context)
        return END_TURN

    half = AgentHalf(builder(asking).build())
    half.prompt()
    half.cancel()
    assert cancels(half) == []
    half.cancel_request()
    assert cancels(half) == [1]
    assert half.answers() == [CANCELLED]
    settled(half)


@pytest.mark.parametrize("cascade", [False, True])
def test_cascade(handler: Handler, cascade: bool) -> None:
    """
    session/cancel cancels what the turn has asked only where the agent wants that, each once (X9, V1C9, A22, A23).
    """
    half = AgentHalf(builder(handler).cascade_cancellation(cascade).build())
    half.prompt()
    calls = [ask(handler.context), handler.context.read_text_file("/a"), handler.context.ext_request("_x")]
    half.cancel()
    half.cancel()
    assert cancels(half) == ([1, 2, 3] if cascade else [])
    handler.context.cancel_outstanding()
    handler.context.cancel_outstanding()
    assert cancels(half) == [1, 2, 3]
    for call in calls:
        failure(call, RequestCancelled)


def test_a_detached_request_is_not_cancelled_with_the_rest(handler: Handler) -> None:
    """Detaching suppresses the automatic cancellation: the request goes on at the client."""
    half = AgentHalf(builder(handler).cascade_cancellation().build())
    half.prompt()
    detached = handler.context.read_text_file("/a")
    detached.detach()
    kept = handler.context.read_text_file("/b")
    half.cancel()
    assert cancels(half) == [2]
    failure(kept, RequestCancelled)
    no_result(detached)
    assert handler.context._outstanding == {}


def test_the_request_timeout_bounds_what_a_handler_asks(handler: Handler) -> None:
    """60 seconds unless said otherwise; then one cancellation, and the late answer is dropped (B11, B26, P7)."""
    half = AgentHalf(builder(handler).build())
    half.prompt()
    call, patient = ask(handler.context), ask(handler.context, timeout=0)
    half.clock.advance(60)
    failure(call, RequestTimedOut)
    assert cancels(half) == [1]
    half.send({"id": 1, "result": {"outcome": {"outcome": "cancelled"}}})
    no_result(patient)
    half.send({"id": 2, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}})
    assert success(patient).outcome.option_id == "y"


def test_requests_end_with_the_link(half: AgentHalf, handler: Handler) -> None:
    """Each fails, and every later one at once."""
    half.prompt()
    call = ask(handler.context)
    half.lose()
    failure(call, AcpConnectionError)
    failure(ask(handler.context), AcpConnectionError)
    assert cancels(half) == []


# ---- sessions


def test_unknown_sessions(half: AgentHalf, handler: Handler) -> None:
    """-32002 with the id, and no handler is called."""
    half.prompt(5, "s9")
    assert half.answers() == [{"error": {"code": -32002, "message": "Session not found", "data": {"sessionId": "s9"}}}]
    half.send({"id": 6, "method": "session/close", "params": {"sessionId": "s9"}})
    assert half.answers(6)[0]["error"]["code"] == -32002
    assert handler.contexts == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/new", {"cwd": "/w", "mcpServers": []}),
        ("session/prompt", {"sessionId": "s1", "prompt": []}),
        ("session/load", {"sessionId": "s1", "cwd": "/w", "mcpServers": []}),
        ("session/close", {"sessionId": "s1"}),
    ],
)
def test_initialize_comes_first(handler: Handler, method: str, params: Any) -> None:
    """Before it: -32600, and -32601 still for what nobody handles."""
    agent = builder(handler).close_session_handler(succeed).load_session_handler(succeed).build()
    half = AgentHalf(agent, opened=False)
    half.send({"id": 1, "method": method, "params": params})
    assert half.answers(1)[0]["error"]["code"] == -32600
    half.send({"id": 2, "method": "session/list", "params": {}}, {"id": 3, "method": "_x/ping"})
    assert half.answers(2)[0]["error"]["code"] == half.answers(3)[0]["error"]["code"] == -32601
    half.cancel()
    assert half.connection.session_ids == ()


def test_a_busy_session_is_busy_before_params_are_looked_at(half: AgentHalf) -> None:
    """
    A malformed prompt for a busy session is refused as the busy one; for a free one -32602, with paths only (JT33).
    """
    malformed = {"method": "session/prompt", "params": {"sessionId": "s1", "prompt": "secret"}}
    half.send({"id": 4, **malformed})
    error = half.answers(4)[0]["error"]
    assert error["code"] == -32602
    assert "secret" not in str(error)
    half.prompt(5)
    half.send({"id": 6, **malformed})
    assert half.answers(6)[0]["error"]["code"] == -32600


@pytest.mark.parametrize("params", [{"sessionId": 7, "prompt": []}, {}, [1], "x", None])
def test_a_prompt_without_a_session(half: AgentHalf, params: Any) -> None:
    """-32602 (or -32600 for params that are none), and the connection goes on (B53, JT35)."""
    half.send({"id": 4, "method": "session/prompt"} | ({} if params is None else {"params": params}))
    assert half.answers(4)[0]["error"]["code"] in (-32602, -32600)
    half.prompt(5)
    assert half.connection.peer.incoming_requests == 1


@pytest.mark.parametrize("method", ["close", "delete"])
def test_closing_cancels_then_answers_then_closes(
    half: AgentHalf, handler: Handler, told: list[str], method: str
) -> None:
    """The cancel handler, the prompt's answer, the close handler, its answer: in this order (V1C10, JT14, C59)."""
    half.prompt(5)
    half.send({"id": 6, "method": f"session/{method}", "params": {"sessionId": "s1"}})
    assert told == ["cancel s1"]
    assert handler.context.cancellations == ("session/close",)
    half.prompt(7)
    assert half.answers(7)[0]["error"]["code"] == -32600
    half.take()
    handler.ends()
    assert told == ["cancel s1", f"{method} s1"]
    assert half.take() == [{"id": 5, **CANCELLED_WITH_META}, {"id": 6, "result": {}}]
    assert half.connection.session_ids == ()
    half.prompt(8)
    assert half.answers(8)[0]["error"]["code"] == -32002
    settled(half)


def test_closing_an_idle_session(half: AgentHalf, told: list[str]) -> None:
    """The cancel handler is told all the same, then the close handler (JT21)."""
    half.send({"id": 6, "method": "session/close", "params": {"sessionId": "s1"}})
    assert told == ["cancel s1", "close s1"]
    assert half.answers(6) == [{"result": {}}]


def test_closing_waits_no_longer_than_the_grace_period(half: AgentHalf, told: list[str]) -> None:
    """A handler that never ends does not keep the session."""
    half.prompt(5)
    half.send({"id": 6, "method": "session/close", "params": {"sessionId": "s1"}})
    half.clock.advance(10)
    assert half.take() == [{"id": 5, **CANCELLED}, {"id": 6, "result": {}}]
    settled(half)


def test_closing_without_a_handler_touches_nothing(handler: Handler) -> None:
    """-32601, and the prompt goes on (JT15)."""
    half = AgentHalf(builder(handler).build())
    half.prompt()
    half.send({"id": 6, "method": "session/close", "params": {"sessionId": "s1"}})
    assert half.answers(6)[0]["error"]["code"] == -32601
    assert not handler.context.is_cancelled


def test_a_given_up_close_still_closes(half: AgentHalf, handler: Handler, told: list[str]) -> None:
    """The client that cancels its session/close leaves no session behind that takes no prompts and can't be opened."""
    half.prompt(5)
    half.send({"id": 6, "method": "session/close", "params": {"sessionId": "s1"}}, cancel_request(6))
    assert half.answers(6) == [REQUEST_CANCELLED]
    handler.ends()
    assert half.answers(5) == [CANCELLED_WITH_META]
    assert half.connection.session_ids == ()
    half.send({"id": 7, "method": "session/load", "params": {"sessionId": "s1", "cwd": "/w", "mcpServers": []}})
    half.prompt(8)
    assert half.answers(8) == []
    assert told == ["cancel s1", "load s1"]


def test_a_load_before_a_close_is_closed_too(handler: Handler) -> None:
    """Both wait behind a slow notification of their session; what the load opened, the close ends."""
    slow: Deferred[None] = Deferred()
    half = AgentHalf(
        builder(handler)
        .ext_notification_handler("_slow", lambda params: slow)
        .load_session_handler(lambda request: None)
        .close_session_handler(lambda request: None)
        .build()
    )
    half.send(
        {"method": "_slow", "params": {"sessionId": "s1"}},
        {"id": 6, "method": "session/load", "params": {"sessionId": "s1", "cwd": "/w", "mcpServers": []}},
        {"id": 7, "method": "session/close", "params": {"sessionId": "s1"}},
    )
    slow.callback(None)
    assert half.answers(6) == half.answers(7) == [{"result": {}}]
    assert half.connection.session_ids == ()


def test_load_keeps_a_live_turn(half: AgentHalf, handler: Handler) -> None:
    """session/load of a session with a live turn is answered, and the cancel still reaches the turn (B21)."""
    half.prompt(5)
    half.send({"id": 8, "method": "session/load", "params": {"sessionId": "s1", "cwd": "/w", "mcpServers": []}})
    assert half.answers(8) == [{"result": {}}]
    half.cancel()
    assert handler.context.is_cancelled
    handler.ends()
    assert half.answers(5) == [CANCELLED_WITH_META]


def test_a_given_up_session_is_not_kept() -> None:
    """A handler that swallows the cancellation of session/new makes no session that the client can't know."""
    work: Deferred[Any] = Deferred()

    async def swallowing(request: v1.NewSessionRequest) -> v1.NewSessionResponse:
        try:
            await Deferred()
        except CancelledError:
            await work
        return v1.NewSessionResponse(session_id="s1")

    agent = AcpAgent.builder().prompt_handler(Handler()).new_session_handler(swallowing).build()
    half = AgentHalf(agent, opened=False)
    half.send({"id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
    half.send({"id": 2, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}, cancel_request(2))
    assert half.answers(2) == [REQUEST_CANCELLED]
    work.callback(None)
    assert half.connection.session_ids == ()


def test_sessions_are_bounded(handler: Handler) -> None:
    """One more than max_sessions is refused (design rule 6)."""
    half = AgentHalf(builder(handler).limits(Limits(max_sessions=1)).build())
    half.send({"id": 2, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}})
    assert half.answers(2)[0]["error"]["code"] == -32603


@pytest.mark.parametrize("version", [1, 2])
def test_a_session_id_is_only_so_long(version: int) -> None:
    """What is kept for long is bounded: a longer one is refused before the handler sees it (design rule 6)."""
    loaded: list[str] = []

    def load(request: Any) -> None:
        loaded.append(request.session_id)

    made = AcpAgent.builder().prompt_handler(lambda request: None).resume_session_handler(load)
    half: Any = AgentHalf(made.build()) if version == 1 else SecondAgentHalf(made.protocol_versions(2))
    longest = Limits().max_id_length
    for number, length in enumerate((longest, longest + 1)):
        params = {"sessionId": "s" * length, "cwd": "/w", "mcpServers": []}
        half.send({"id": number, "method": "session/resume", "params": params})
    accepted, refused = (each for each in half.take() if "id" in each)
    assert accepted == {"id": 0, "result": {}}
    assert (refused["error"]["code"], refused["error"]["data"]) == (-32602, {"maxIdLength": longest})
    assert loaded == ["s" * longest]


def test_a_known_session_is_loaded_though_there_is_no_room(handler: Handler) -> None:
    """A session that the connection has already takes no more room (design rule 6)."""

    def load(request: v1.LoadSessionRequest) -> v1.LoadSessionResponse:
        return v1.LoadSessionResponse()

    half = AgentHalf(builder(handler).load_session_handler(load).limits(Limits(max_sessions=1)).build())
    for number, session in ((2, "s1"), (3, "other")):
        half.send(
            {"id": number, "method": "session/load", "params": {"sessionId": session, "cwd": "/w", "mcpServers": []}}
        )
    assert half.answers(2) == [{"result": {}}]
    assert half.answers(3)[0]["error"]["code"] == -32603


@pytest.mark.parametrize("params", [{"cwd": "/w"}, {"cwd": "/w", "mcpServers": None}])
def test_session_new_without_servers(handler: Handler, params: Any) -> None:
    """Absent or null lists are no lists (B54)."""
    half = AgentHalf(builder(handler).build())
    half.send({"id": 2, "method": "session/new", "params": params})
    assert half.answers(2) == [{"result": {"sessionId": "s2"}}]


@pytest.mark.parametrize("method", ["_v/changed", "zz/new", "$/zz"])
def test_unknown_methods(half: AgentHalf, method: str) -> None:
    """Unknown notifications are met with silence, unknown requests with -32601 (B52)."""
    half.send({"method": method, "params": {}}, {"id": 6, "method": method})
    assert [each["error"]["code"] for each in half.take()] == [-32601]


def test_bad_results_of_handlers(half: AgentHalf, handler: Handler, logged_errors: LoggedErrors) -> None:
    """What is no response is answered -32603 (B59)."""
    half.prompt()
    handler.ends(42)
    assert half.answers() == [{"error": {"code": -32603, "message": "Internal error"}}]
    assert logged_errors
    logged_errors.clear()
    settled(half)


# ---- what an agent is built of


def test_derived_capabilities(handler: Handler) -> None:
    """What follows from the handlers is what initialize says."""
    answer: Callable[[Any], None] = lambda request: None  # noqa: E731
    plain = AcpAgent.builder().prompt_handler(handler).build().capabilities
    assert not plain.load_session
    assert plain.session_capabilities == v1.SessionCapabilities()
    full = (
        AcpAgent.builder()
        .prompt_handler(handler)
        .load_session_handler(answer)
        .list_sessions_handler(answer)
        .resume_session_handler(answer)
        .close_session_handler(answer)
        .delete_session_handler(answer)
        .logout_handler(answer)
        .build()
        .capabilities
    )
    assert full.load_session
    assert None not in (
        full.session_capabilities.list,
        full.session_capabilities.resume,
        full.session_capabilities.close,
        full.session_capabilities.delete,
        full.auth.logout,
    )
    said = v1.AgentCapabilities(mcp_capabilities=v1.McpCapabilities(http=True))
    assert AcpAgent.builder().prompt_handler(handler).agent_capabilities(said).build().capabilities is said


def test_builder_misuse(handler: Handler) -> None:
    """Mistakes are told where they are made (JT25)."""
    with pytest.raises(ValueError, match="needs a prompt_handler"):
        AcpAgent.builder().build()
    with pytest.raises(ValueError, match="has a handler already"):
        AcpAgent.builder().prompt_handler(handler).prompt_handler(handler)
    with pytest.raises(ValueError, match="has a handler already"):
        AcpAgent.builder().cancel_handler(print).cancel_handler(print)
    with pytest.raises(ValueError, match="underscore"):
        AcpAgent.builder().ext_request_handler("session/prompt", print)
    with pytest.raises(TypeError, match="no function"):
        AcpAgent.builder().prompt_handler(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes the request"):
        AcpAgent.builder().cancel_handler(lambda: None)
    for setter in ("request_timeout", "cancel_grace_period", "max_prompt_duration"):
        with pytest.raises(ValueError, match=setter):
            getattr(AcpAgent.builder(), setter)(-1)


def test_a_built_agent_does_not_change(handler: Handler) -> None:
    """What the builder is told later is for the next agent."""
    being_built = AcpAgent.builder().prompt_handler(handler)
    agent = being_built.build()
    being_built.close_session_handler(lambda request: None)
    assert "session/close" not in agent.handlers
    assert agent.capabilities.session_capabilities.close is None


# ---- blocking handlers


class FakePool:
    """A thread pool without threads: what is put in runs when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Any, Callable[[], Any]]] = []

    def callInThreadWithCallback(self, finished: Any, function: Any, *arguments: Any) -> None:
        self.jobs.append((finished, lambda: function(*arguments)))

    def run(self) -> None:
        """Run the oldest job to its end."""
        finished, job = self.jobs.pop(0)
        try:
            result = job()
        except Exception as error:
            finished(False, Failure(error))
        else:
            finished(True, result)


@implementer(IReactorTime, IReactorThreads, IReactorFromThreads)
class ThreadlessClock(Clock):
    """A clock that is a reactor with a fake thread pool; what is called from a thread is called at once."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = FakePool()

    def getThreadPool(self) -> Any:
        return self.pool

    def callInThread(self, callable: Any, *args: Any, **kwargs: Any) -> None:
        raise AssertionError("not used")

    def callFromThread(self, callable: Any, *args: Any, **kwargs: Any) -> None:
        callable(*args, **kwargs)

    def suggestThreadPoolSize(self, size: int) -> None:
        raise AssertionError("not used")


class BlockingHalf(AgentHalf):
    """An agent whose prompt handler blocks, on a reactor without threads."""

    def __init__(self, agent: AcpAgent) -> None:
        clock = ThreadlessClock()
        assert verifyObject(IReactorThreads, clock)
        self.pool = clock.pool
        self.connection: AgentConnection = agent.connect(clock)
        super(AgentHalf, self).__init__(self.connection, clock)
        self.send({"id": "i", "method": "initialize", "params": {"protocolVersion": 1}})
        self.send({"id": "n", "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}})
        self.take()


def blocking(function: Any) -> BlockingHalf:
    """An agent with a blocking handler."""
    names = iter(("s1",))
    return BlockingHalf(
        AcpAgent.builder()
        .prompt_handler(function, blocking=True)
        .new_session_handler(lambda request: v1.NewSessionResponse(session_id=next(names)))
        .cancel_grace_period(10)
        .build()
    )


def test_a_blocking_handler_answers() -> None:
    """It runs in the pool, sends updates in order, and its result is the answer."""

    def work(request: v1.PromptRequest, context: Any) -> v1.PromptResponse:
        assert context.session_id == request.session_id == "s1"
        assert not context.is_cancelled
        context.send_message("one")
        return END_TURN

    half = blocking(work)
    half.prompt()
    assert half.take() == []
    half.pool.run()
    assert [each.get("method") for each in half.take()] == ["session/update", None]
    settled(half)


def test_a_blocking_handler_polls_its_cancellation() -> None:
    """is_cancelled is true from the delivery on, on_cancel is called, and whatever it returns is cancelled (J22)."""
    seen: list[Any] = []

    def work(request: v1.PromptRequest, context: Any) -> v1.PromptResponse:
        seen.append(context.is_cancelled)
        context.on_cancel(lambda: seen.append("called"))
        seen.append(context.cancellations)
        return END_TURN

    half = blocking(work)
    half.prompt()
    half.cancel()
    half.pool.run()
    assert seen == [True, "called", ("session/cancel",)]
    assert half.answers() == [CANCELLED_WITH_META]
    settled(half)


@pytest.mark.parametrize("end", ["grace", "request", "link"])
def test_a_blocking_handler_is_left_to_itself(end: str) -> None:
    """
    A thread can't be interrupted: its turn is answered, what it asks fails at once, its late result is dropped (JT8,
    JT11).
    """
    errors: list[BaseException] = []

    def work(request: v1.PromptRequest, context: Any) -> v1.PromptResponse:
        assert context.is_cancelled
        for ask_for in (lambda: context.read_text_file("/a"), lambda: context.send_message("late")):
            try:
                ask_for()
            except RequestCancelled as error:
                errors.append(error)
        return END_TURN

    half = blocking(work)
    half.prompt()
    if end == "grace":
        half.cancel()
        half.clock.advance(10)
        expected: list[dict[str, Any]] = [CANCELLED]
    elif end == "request":
        half.cancel_request()
        expected = [REQUEST_CANCELLED]
    else:
        half.lose()
        expected = []
    assert half.answers() == expected
    half.pool.run()
    assert len(errors) == 2
    assert half.answers() == expected
    assert [each for each in half.received if "method" in each] == []
    settled(half)


def test_a_blocking_handler_fails(logged_errors: LoggedErrors) -> None:
    """Its exception is answered as any other."""

    def work(request: v1.PromptRequest) -> v1.PromptResponse:
        raise AuthRequired()

    half = blocking(work)
    half.prompt()
    half.pool.run()
    assert half.answers()[0]["error"]["code"] == -32000
