"""
Rules of cancellation that need a whole agent or a whole client, or both, and that their own tests leave open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from halves import AgentHalf, ClientHalf, cancel, cancel_request, permission
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from wire import failure, no_result, success

from acp_twisted import (
    AcpAgent,
    AcpClient,
    CancellationSignal,
    PromptContext,
    RequestCancelled,
    RequestTimedOut,
    current_token,
)
from acp_twisted.agent.agent import AcpAgentBuilder
from acp_twisted.jsonrpc.messages import Id
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink

CANCELLED = {"result": {"stopReason": "cancelled"}}
REQUEST_CANCELLED = {"error": {"code": -32800, "message": "Request cancelled"}}
END_TURN = v1.PromptResponse(stop_reason="end_turn")


class Waiting:
    """
    A prompt handler that waits for ever, and tells what it notices.

    @ivar noticed: in order: C{"callback"}, C{"waiter"} and C{"stopped"}.
    """

    def __init__(self) -> None:
        self.noticed: list[str] = []
        self.works: list[Deferred[Any]] = []

    def __call__(self, request: v1.PromptRequest, context: PromptContext) -> Deferred[Any]:
        self.context = context
        self.noticed.clear()
        context.on_cancel(lambda: self.noticed.append("callback"))
        context.when_cancelled().addCallback(lambda _: self.noticed.append("waiter"))
        self.works.append(Deferred(lambda _: self.noticed.append("stopped")))
        return self.works[-1]


def building(handler: Any) -> AcpAgentBuilder:
    """An agent whose session is C{s1}."""
    return (
        AcpAgent.builder().prompt_handler(handler).new_session_handler(lambda _: v1.NewSessionResponse(session_id="s1"))
    )


@pytest.fixture
def waiting() -> Waiting:
    """The prompt handler of the agents here."""
    return Waiting()


@pytest.fixture
def agent(waiting: Waiting) -> AgentHalf:
    """An agent with every way to end a turn."""
    return AgentHalf(
        building(waiting).close_session_handler(lambda _: None).cancel_grace_period(10).max_prompt_duration(100).build()
    )


@pytest.fixture
def client() -> ClientHalf:
    """A client whose user decides nothing."""
    return ClientHalf(
        AcpClient.builder()
        .request_permission_handler(lambda _: Deferred())
        .create_elicitation_handler(lambda _: Deferred())
        .build()
    )


# ---- what a handler sees


@pytest.mark.parametrize(
    ("trigger", "end"),
    [
        ("session/cancel", lambda agent: agent.cancel()),
        (
            "session/close",
            lambda agent: agent.send({"id": 9, "method": "session/close", "params": {"sessionId": "s1"}}),
        ),
        ("$/cancel_request", lambda agent: agent.cancel_request()),
        ("maxPromptDuration", lambda agent: agent.clock.advance(100)),
        ("shutdown", lambda agent: agent.connection.close()),
        ("connectionLost", lambda agent: agent.lose()),
    ],
)
def test_every_trigger_looks_the_same(
    agent: AgentHalf, waiting: Waiting, trigger: str, end: Callable[[AgentHalf], object]
) -> None:
    """The poll, the callback and the waiter notice each, once, and go on saying so (J21, J22, J29, JT30)."""
    agent.prompt()
    context = waiting.context
    assert not context.is_cancelled
    end(agent)
    assert context.is_cancelled
    assert context.cancellations == (trigger,)
    assert waiting.noticed[:2] == ["callback", "waiter"]
    agent.cancel()
    agent.clock.advance(1000)
    assert context.is_cancelled
    assert waiting.noticed.count("callback") == waiting.noticed.count("waiter") == 1
    late: list[str] = []
    context.on_cancel(lambda: late.append("at once"))
    success(context.when_cancelled())
    assert late == ["at once"]


def test_the_next_turn_has_a_token_of_its_own(agent: AgentHalf, waiting: Waiting) -> None:
    """The first one's stays set, the second one's is clear (J29)."""
    agent.prompt(5)
    first = waiting.context
    agent.cancel()
    waiting.works[0].callback(END_TURN)
    agent.prompt(6)
    assert first.is_cancelled
    assert not waiting.context.is_cancelled


def test_the_end_of_the_grace_period_is_one_more_cause(agent: AgentHalf, waiting: Waiting) -> None:
    """It is told apart by who asks; the callbacks are not called again (J21, JT8)."""
    agent.prompt()
    agent.cancel()
    agent.clock.advance(10)
    assert waiting.context.cancellations == ("session/cancel", "cancelGracePeriod")
    assert waiting.noticed == ["callback", "waiter", "stopped"]
    assert agent.answers() == [CANCELLED]


def test_a_forced_answer_comes_behind_the_updates(agent: AgentHalf, waiting: Waiting) -> None:
    """What the handler sent stands before the answer that was given for it; what comes later, nowhere (JT28, V1C7)."""
    agent.prompt()
    waiting.context.send_message("before")
    agent.cancel()
    waiting.context.send_message("after the cancel")
    agent.clock.advance(10)
    waiting.context.send_message("after the answer")
    assert [each.get("method") for each in agent.take()] == ["session/update", "session/update", None]


def test_any_handler_finds_its_own_requests_token() -> None:
    """Not only prompts have one: a handler of any request can poll, and one that looks late sees it set (R23, C18)."""
    seen: list[bool] = []

    async def handler(params: Any) -> Any:
        token = current_token()
        seen.append(token.cancelled)
        try:
            return await Deferred()
        finally:
            seen.append(current_token().cancelled)
            assert current_token() is token

    agent = AgentHalf(building(Waiting()).ext_request_handler("_slow", handler).build())
    agent.send({"id": 1, "method": "_slow"})
    agent.cancel_request(1)
    assert seen == [False, True]
    assert agent.answers(1) == [REQUEST_CANCELLED]


def test_a_prompt_handlers_token_is_its_turns() -> None:
    """current_token() is context.token, in the handler and behind what it awaits (R23)."""
    seen: list[bool] = []
    goes_on: Deferred[None] = Deferred()

    async def handler(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        seen.append(current_token() is context.token)
        await goes_on
        seen.append(current_token() is context.token)
        return END_TURN

    agent = AgentHalf(building(handler).build())
    agent.prompt()
    goes_on.callback(None)
    assert seen == [True, True]


# ---- what an agent has asked


def cancels(half: AgentHalf) -> list[Any]:
    """The ids that the agent has cancelled."""
    return [each["params"]["requestId"] for each in half.received if each.get("method") == "$/cancel_request"]


def asks_permission(context: PromptContext) -> Any:
    """Ask the user, with one option."""
    option = v1.PermissionOption(option_id="y", name="Yes", kind="allow_once")
    return context.request_permission(v1.ToolCallUpdate(tool_call_id="t1"), [option])


def test_cancelling_one_permission_leaves_the_turn(agent: AgentHalf, waiting: Waiting) -> None:
    """The handler that gives one request up goes on: its token is clear, and its turn ends as it says (A10)."""
    agent.prompt()
    asked = asks_permission(waiting.context)
    asked.cancel()
    failure(asked, RequestCancelled)
    assert cancels(agent) == [asked.request_id]
    assert not waiting.context.is_cancelled
    agent.send({"id": asked.request_id, "result": {"outcome": {"outcome": "cancelled"}}})
    assert not waiting.context.is_cancelled
    waiting.works[0].callback(END_TURN)
    assert agent.answers() == [{"result": {"stopReason": "end_turn"}}]


@pytest.mark.parametrize("outcome", [{"outcome": "selected", "optionId": "y"}, {"outcome": "cancelled"}])
def test_late_answers_resume_nothing(outcome: dict[str, Any]) -> None:
    """A permission that is given once the turn is over finds nobody, and starts nothing (A13, C32)."""
    went_on: list[str] = []

    async def handler(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        await asks_permission(context)
        went_on.append("permitted")
        return END_TURN

    agent = AgentHalf(building(handler).build())
    agent.prompt(5)
    (asked,) = [each["id"] for each in agent.received if each.get("method") == "session/request_permission"]
    agent.cancel_request(5)
    assert agent.answers(5) == [REQUEST_CANCELLED]
    assert cancels(agent) == [asked]
    agent.send({"id": asked, "result": {"outcome": outcome}})
    assert went_on == []
    agent.prompt(6)
    assert [each["method"] for each in agent.take() if "method" in each][-1] == "session/request_permission"


@pytest.mark.parametrize("method", ["terminal/create", "terminal/output"])
def test_a_handler_starts_nothing_behind_a_cancelled_request(method: str) -> None:
    """Cancelled at one step, a handler of several does not get to the next, and its turn is cancelled (C54-C56)."""

    async def handler(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        terminal = (await context.create_terminal("make")).terminal_id
        await context.terminal_output(terminal)
        await context.kill_terminal(terminal)
        return END_TURN

    agent = AgentHalf(building(handler).cascade_cancellation().build())
    agent.prompt()
    asked = agent.received[-1]
    if method == "terminal/output":
        agent.send({"id": asked["id"], "result": {"terminalId": "t"}})
        asked = agent.received[-1]
    assert asked["method"] == method
    agent.cancel()
    assert agent.received[-2:] == [
        {"jsonrpc": "2.0", **cancel_request(asked["id"])},
        {"jsonrpc": "2.0", "id": 5, **CANCELLED},
    ]


@pytest.mark.parametrize("ask", ["call", "ext_request"])
def test_an_agent_may_give_its_requests_a_signal(agent: AgentHalf, waiting: Waiting, ask: str) -> None:
    """One signal stops any of its requests, once, and their answers still come (J14, X6)."""
    agent.prompt()
    stop = CancellationSignal()
    context = waiting.context
    request = v1.ReadTextFileRequest(session_id="s1", path="/a")
    call = context.call(request, stop=stop) if ask == "call" else context.ext_request("_x", stop=stop)
    stop.cancel()
    stop.cancel()
    assert cancels(agent) == [call.request_id]
    no_result(call)
    agent.send({"id": call.request_id, "result": {"content": "part"}})
    assert success(call) in ({"content": "part"}, v1.ReadTextFileResponse(content="part"))


def test_a_turns_prepared_request_is_one_of_the_turns(agent: AgentHalf, waiting: Waiting) -> None:
    """It is cancelled with the others: before it is sent nothing is, and after that it is cancelled once (R7, A23)."""
    agent.prompt()
    context = waiting.context
    request = v1.ReadTextFileRequest(session_id="s1", path="/a")
    sent, kept = context.prepare(request), context.prepare(request)
    context.publish(sent, request)
    context.cancel_outstanding()
    context.publish(kept, request)
    assert cancels(agent) == [sent.request_id]
    assert kept.request_id is None
    for call in (sent, kept):
        failure(call, RequestCancelled)


def test_closing_without_a_handler_leaves_the_turn() -> None:
    """Neither session/close nor session/delete cancels anything where nobody handles it (JT15)."""
    waiting = Waiting()
    agent = AgentHalf(building(waiting).build())
    agent.prompt()
    for number, method in enumerate(("session/close", "session/delete")):
        agent.send({"id": number, "method": method, "params": {"sessionId": "s1"}})
        assert agent.answers(number)[0]["error"]["code"] == -32601
    assert not waiting.context.is_cancelled
    waiting.works[0].callback(END_TURN)
    assert agent.answers() == [{"result": {"stopReason": "end_turn"}}]


# ---- what a client does


def test_a_signal_on_a_prompt_that_is_sent_as_it_is(client: ClientHalf) -> None:
    """connection.prompt(request, stop): session/cancel once, then the updates, then the answer (J11, JC4)."""
    stop = CancellationSignal()
    seen: list[Any] = []
    client.session.on_update(seen.append)
    response = client.connection.prompt(v1.PromptRequest(session_id="s1", prompt=[v1.TextContent(text="hi")]), stop)
    number = client.last_id()
    stop.cancel()
    client.update("late")
    no_result(response)
    client.send({"id": number, **CANCELLED})
    assert success(response).stop_reason == "cancelled"
    stop.cancel()
    assert client.methods() == ["session/prompt", "session/cancel"]
    assert len(seen) == 1


@pytest.mark.parametrize("gives_up", [False, True])
def test_the_two_cancellations_do_not_imply_each_other(client: ClientHalf, gives_up: bool) -> None:
    """A cancelled turn sends no $/cancel_request, and a prompt that is given up no session/cancel (X14, J10)."""
    turn = client.session.prompt("go")
    if gives_up:
        turn.response.cancel()
        failure(turn.response, RequestCancelled)
    else:
        turn.cancel()
        client.clock.advance(3600)
        no_result(turn.response)
    assert client.methods()[1:] == (["$/cancel_request"] if gives_up else ["session/cancel"])


def test_who_shows_a_cancellation_can_tell(client: ClientHalf) -> None:
    """A turn says that its cancel was sent, while its updates, tool calls too, go on (V1C2, V1C8, M27)."""
    turn = client.session.prompt("go")
    assert not turn.cancel_sent
    turn.cancel()
    assert turn.cancel_sent
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "failed"}
    client.send({"method": "session/update", "params": {"sessionId": "s1", "update": update}})
    reader = turn.updates()
    shown = success(Deferred.fromCoroutine(anext_of(reader)))
    assert isinstance(shown, v1.ToolCallUpdate)
    assert turn.cancel_sent


async def anext_of(reader: Any) -> Any:
    """The next of an asynchronous iterator."""
    return await reader.__anext__()


def test_elicitations_are_not_answered_by_a_cancelled_turn(client: ClientHalf) -> None:
    """session/cancel answers permissions alone; an elicitation waits for its user, or its own end (A16, V1C3)."""
    turn = client.session.prompt("go")
    params = {
        "mode": "form",
        "sessionId": "s1",
        "message": "?",
        "requestedSchema": {"type": "object", "properties": {}},
    }
    client.send({"id": 8, "method": "elicitation/create", "params": params}, permission(9))
    client.take()
    turn.cancel()
    answered = [each["id"] for each in client.take() if "id" in each]
    assert answered == [9]
    client.send(cancel_request(8))
    assert client.take() == [{"id": 8, **REQUEST_CANCELLED}]


def test_a_cancelled_permission_keeps_the_answer_that_it_has(client: ClientHalf) -> None:
    """An agent that cancels what session/cancel has answered gets no second answer (V1C9, X10)."""
    turn = client.session.prompt("go")
    client.send(permission(9))
    turn.cancel()
    client.take()
    client.send(cancel_request(9))
    assert client.take() == []


@pytest.mark.parametrize("given", [5, "five"])
def test_cancellations_can_be_watched_and_sent_by_hand(given: Id) -> None:
    """Both halves tell a handler of each, typed, after its effect; and send one for any id (C4, C19, C21, R30)."""
    told: list[tuple[str, object, bool]] = []
    running = Waiting()

    def watches(who: str, request: Any = None) -> Callable[[v1.CancelRequestNotification], None]:
        def watch(notice: v1.CancelRequestNotification) -> None:
            told.append((who, notice.request_id, bool(running.noticed)))

        return watch

    agent = building(running).cancel_request_handler(watches("agent")).build().connect(Clock())
    client = AcpClient.builder().cancel_request_handler(watches("client")).build().connection(Clock())
    MemoryLink(client.peer, agent.peer)
    success(client.initialize())
    session = success(client.new_session("/w"))
    turn = session.prompt("go")
    turn.response.cancel()
    failure(turn.response, RequestCancelled)
    assert told == [("agent", turn.response.request_id, True)]
    client.send_cancel_request(given)
    agent.send_cancel_request(given)
    assert [each[:2] for each in told[1:]] == [("agent", given), ("client", given)]


def test_prepared_requests_of_a_connection(client: ClientHalf) -> None:
    """The parts of call() are there for a handle that is wanted first, and so are its bounds (R7, M12, M14)."""
    request = v1.ListSessionsRequest()
    call = client.connection.prepare(request)
    handle = call.cancel_handle()
    handle.cancel()
    assert client.methods() == []
    client.connection.publish(call, request, timeout=10, max_timeout=15)
    client.clock.advance(8)
    call.progressed()
    client.clock.advance(7)
    failure(call, RequestTimedOut)
    handle.cancel()
    assert client.methods() == ["session/list", "$/cancel_request"]


def test_every_request_of_a_half_has_a_timeout(client: ClientHalf, agent: AgentHalf, waiting: Waiting) -> None:
    """A minute on both sides, unless it says otherwise; only a prompt has none (M8, P7, J10)."""
    agent.prompt()
    calls: list[Deferred[Any]] = [client.connection.list_sessions(), waiting.context.read_text_file("/a")]
    prompt = client.session.prompt("go")
    for half in (client, agent):
        half.clock.advance(60)
    for call in calls:
        failure(call, RequestTimedOut)
    no_result(prompt.response)
    assert client.methods().count("$/cancel_request") == len(cancels(agent)) == 1


def test_cancels_of_either_kind_in_the_answers_own_step(agent: AgentHalf, waiting: Waiting) -> None:
    """A cancellation that crosses the answer changes nothing, of whichever kind (X8, V1C12)."""
    agent.prompt(5)
    waiting.works[0].callback(END_TURN)
    agent.send(cancel(), cancel_request(5))
    assert agent.answers(5) == [{"result": {"stopReason": "end_turn"}}]
    agent.prompt(6)
    assert not waiting.context.is_cancelled
