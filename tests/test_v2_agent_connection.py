"""
An agent of version 2 on the wire: its prompts, its states, its cancellations, its sessions.
"""

from __future__ import annotations

import gc
import signal
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from agent_halves_v2 import INFO, AgentHalf, UnagreedHalf, builder
from conftest import LoggedErrors
from twisted.internet.defer import Deferred
from wire import failure, no_result

from acp_twisted import AcpAgent, PromptContext
from acp_twisted.agent.annotations import PromptText, acp_agent, build_agent, prompt
from acp_twisted.agent.v2 import commands
from acp_twisted.agent.v2.agent import VersionedAgent
from acp_twisted.errors import AcpCapabilityError, AuthRequired, RequestCancelled
from acp_twisted.schema import v1, v2
from acp_twisted.transports import _session_process
from acp_twisted.turn.result import TurnResult

YES = {"outcome": {"outcome": "selected", "optionId": "allow"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


class Handler:
    """
    A prompt handler that does nothing by itself.
    """

    def __init__(self) -> None:
        self.contexts: list[Any] = []
        self.outcomes: list[Deferred[Any]] = []

    def __call__(self, request: Any, context: PromptContext) -> Deferred[Any]:
        self.contexts.append(context)
        self.outcomes.append(Deferred())
        return self.outcomes[-1]

    def finish(self, result: Any = None) -> None:
        """The last handler ends."""
        self.outcomes[-1].callback(result)


def running(handler: Handler | None = None, **more: Any) -> tuple[AgentHalf, Handler]:
    """An agent that works on a prompt."""
    handler = handler or Handler()
    made = builder(handler)
    for name, value in more.items():
        getattr(made, name)(value)
    half = AgentHalf(made)
    half.prompt(5)
    assert half.said() == ["5: inserted", "user_message", "running"]
    return half, handler


# ---- prompts


def test_an_agent_that_only_returns() -> None:
    """
    2.30-2.33, V2D8: the prompt is answered with the message's id, the message reported with it, then running and idle.
    """
    half = AgentHalf(builder())
    half.prompt(5, "hello")
    answer, message, *states = half.take()
    updates = [each["params"]["update"] for each in (message, *states)]
    assert updates == [
        {
            "sessionUpdate": "user_message",
            "messageId": answer["result"]["messageId"],
            "content": [{"type": "text", "text": "hello"}],
        },
        {"sessionUpdate": "state_update", "state": "running"},
        {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"},
    ]


RESULTS: list[tuple[Any, dict[str, Any]]] = [
    (None, {"stopReason": "end_turn"}),
    ("refusal", {"stopReason": "refusal"}),
    ("_mine", {"stopReason": "_mine"}),
    (TurnResult("max_tokens", meta={"a": 1}), {"stopReason": "max_tokens", "_meta": {"a": 1}}),
    (v1.PromptResponse(stop_reason="end_turn", meta={"b": 2}), {"stopReason": "end_turn", "_meta": {"b": 2}}),
    (v2.IdleStateUpdate(stop_reason="max_turn_requests"), {"stopReason": "max_turn_requests"}),
]


@pytest.mark.parametrize(("result", "report"), RESULTS, ids=[str(type(each).__name__) for each, _ in RESULTS])
def test_what_a_handler_may_return(result: Any, report: dict[str, Any]) -> None:
    """
    Nothing, a stop reason, a result of either version: each becomes the report that the session is idle.
    """
    half = AgentHalf(builder(lambda request: result))
    half.prompt()
    assert half.take()[-1]["params"]["update"] == {"sessionUpdate": "state_update", "state": "idle", **report}


def test_a_handler_that_returns_anything_else(logged_errors: LoggedErrors) -> None:
    """
    Rule 1: the work ends with an error all the same, and the log has the reason.
    """
    half = AgentHalf(builder(lambda request: 5))
    half.prompt()
    assert half.said()[-1] == "idle error"


@pytest.mark.parametrize("how", ["ends", "is cancelled", "fails"])
def test_an_end_that_no_json_can_carry(how: str, logged_errors: LoggedErrors) -> None:
    """
    Rule 1: the work is reported to be over all the same, and holds the connection open no more.
    """
    half, handler = running()
    if how == "fails":
        handler.outcomes[-1].errback(AuthRequired("Log in", object()))
    else:
        if how == "is cancelled":
            half.cancel()
        handler.finish(TurnResult(meta={"what": object()}))
    [message] = half.take()
    code, said = (-32000, "Log in") if how == "fails" else (-32603, "Internal error")
    ended = (
        {"stopReason": "cancelled"}
        if how == "is cancelled"
        else {"stopReason": "error", "error": {"code": code, "message": said}}
    )
    assert message["params"]["update"] == {"sessionUpdate": "state_update", "state": "idle", **ended}
    assert half.connection.peer.incoming_requests == 0
    logged_errors.clear()


def test_a_handler_that_fails(logged_errors: LoggedErrors) -> None:
    """
    V2D7, V2N13: after the insertion no error is an answer; it is the stop reason, with as little as a peer may know.
    """
    half, handler = running()
    handler.outcomes[-1].errback(AuthRequired())
    update = half.take()[-1]["params"]["update"]
    assert update["stopReason"] == "error"
    assert update["error"] == {"code": -32000, "message": "Authentication required"}
    half.prompt(6)
    half.take()
    handler.outcomes[-1].errback(RuntimeError("secret"))
    update = half.take()[-1]["params"]["update"]
    assert update["error"] == {"code": -32603, "message": "Internal error"}
    logged_errors.clear()


def test_prompts_are_held_and_answered_in_order() -> None:
    """
    §2.2: a prompt that is sent while work runs is answered when it is inserted, after the work before it.
    """
    half, handler = running()
    half.prompt(6)
    half.prompt(7)
    assert half.said() == []
    handler.finish()
    assert half.said() == ["idle end_turn", "6: inserted", "user_message", "running"]
    handler.finish("refusal")
    assert half.said() == ["idle refusal", "7: inserted", "user_message", "running"]
    handler.finish()
    assert half.said() == ["idle end_turn"]


def test_a_handler_takes_what_is_said_meanwhile() -> None:
    """
    §2.2: a held prompt becomes part of the conversation within the work, and one idle ends both; the link closes then.
    """
    half, handler = running()
    context = handler.contexts[-1]
    assert context.take_prompt() is None
    half.prompt(6, "and this")
    assert half.said() == []
    taken = context.take_prompt()
    assert taken.prompt == [v2.TextContent(text="and this")]
    assert half.said() == ["6: inserted", "user_message"]
    half.connection.peer.input_ended()
    handler.finish()
    assert half.said() == ["idle end_turn"]
    assert len(handler.contexts) == 1
    assert half.raw.lost


def test_a_prompt_that_can_not_be_inserted() -> None:
    """
    2.38, §2.5: an empty prompt, a kind of content that nobody knows or that was not offered, an unknown session.
    """
    half = AgentHalf(builder())
    for number, content in enumerate(
        ([], [{"type": "_hologram"}], [{"type": "image", "data": "", "mimeType": "image/png"}], [{"type": "text"}])
    ):
        half.about(number, "session/prompt", prompt=content)
    assert half.said() == ["0: -32602", "1: -32602", "2: -32602", "3: -32602"]
    half.send({"id": 8, "method": "session/prompt", "params": {"sessionId": "no", "prompt": []}})
    [answer] = half.take()
    assert (answer["error"]["code"], answer["error"]["data"]) == (-32002, {"sessionId": "no"})


def test_the_agent_may_refuse_a_prompt_before_it_is_inserted() -> None:
    """
    V2D7: an error answer says that the message is no part of the conversation; nothing is reported of it.
    """
    decisions: list[Deferred[Any]] = []

    def accept(request: v2.PromptRequest, connection: object) -> Deferred[Any]:
        decisions.append(Deferred())
        return decisions[-1]

    half = AgentHalf(builder().accept_prompt_handler(accept))
    half.prompt(5)
    half.prompt(6)
    half.prompt(7)
    assert half.said() == []
    decisions[0].errback(AuthRequired())
    assert half.said() == ["5: -32000"]
    half.cancel_request(6)
    assert half.said() == ["6: -32800"]
    assert decisions[1].called
    decisions[2].callback("my-id")
    assert half.take()[0] == {"id": 7, "result": {"messageId": "my-id"}}


# ---- cancellation


def test_session_cancel_ends_the_work_once() -> None:
    """
    V2D1, V2D5, V2S4-V2S7, V2N2, V2N5, V2N7, V2N8: the token is set, what the handler still says goes out, then one
    idle, and only then nothing; whatever the handler returned or raised.
    """
    half, handler = running()
    context = handler.contexts[-1]
    half.cancel()
    assert context.is_cancelled
    assert context.cancellations == ("session/cancel",)
    context.send_message("last words")
    half.cancel()
    assert half.said() == ["agent_message_chunk: last words"]
    handler.finish("end_turn")
    assert half.said() == ["idle cancelled"]
    context.send_message("too late")
    assert half.said() == []


def test_session_cancel_without_work_says_nothing() -> None:
    """
    V2D6: no state is reported, and the next prompt does not see it.
    """
    handler = Handler()
    half = AgentHalf(builder(handler))
    half.cancel()
    half.send({"method": "session/cancel", "params": {"sessionId": "no"}}, {"method": "session/cancel", "params": 5})
    assert half.said() == []
    half.prompt()
    assert not handler.contexts[-1].is_cancelled


def test_cancelling_a_request_counts_before_the_insertion_only() -> None:
    """
    V2D1, V2D7, V2D8, X11, X12, C39: a held prompt is answered -32800; for one that is inserted, for an id that is not
    known, and for one of our own requests, nothing happens.
    """
    half, handler = running()
    half.prompt(6)
    half.cancel_request(5)
    half.cancel_request("nobody's")
    assert half.said() == []
    half.cancel_request(6)
    assert half.said() == ["6: -32800"]
    asked = handler.contexts[-1].request_permission(None, [option()], title="?")
    [request, _] = half.take()
    half.cancel_request(request["id"])
    assert not asked.called
    handler.finish()
    assert half.said() == ["idle end_turn"]
    asked.detach()


def option() -> v2.PermissionOption:
    """An option."""
    return v2.PermissionOption(option_id="allow", name="Allow", kind="allow_once")


def test_session_cancel_drops_what_is_held() -> None:
    """
    V2N1, V2N9, C63: held prompts are answered -32800; one that is sent after the cancellation begins after the idle.
    """
    half, handler = running()
    half.prompt(6)
    half.cancel()
    half.prompt(7)
    assert half.said() == ["6: -32800"]
    handler.finish()
    assert half.said() == ["idle cancelled", "7: inserted", "user_message", "running"]
    assert not handler.contexts[-1].is_cancelled


def test_open_questions_are_taken_back_with_the_work() -> None:
    """
    V2N3, V2D9, V2D10, V2N12: the work's permission requests and elicitations are not waited for, each is asked back
    once, and they count as not approved.
    """
    asked: list[Any] = []

    async def handler(request: object, context: Any) -> None:
        form = v2.ElicitationFormMode(
            message="m", session_id=context.session_id, requested_schema=v2.ElicitationSchema(properties={})
        )
        asked.append(context.request_permission(None, [option()], title="May I?"))
        asked.append(context.create_elicitation(form))
        for each in asked:
            each.addErrback(lambda failure: failure.trap(RequestCancelled))
        await asked[0]
        await asked[1]

    half = AgentHalf(builder(handler))
    half.prompt()
    sent = half.take()
    numbers = [
        each["id"] for each in sent if each.get("method") in ("session/request_permission", "elicitation/create")
    ]
    assert len(numbers) == 2
    half.cancel()
    messages = half.take()
    cancels = [each["params"]["requestId"] for each in messages if each.get("method") == "$/cancel_request"]
    assert cancels == numbers
    assert messages[-1]["params"]["update"]["stopReason"] == "cancelled"
    half.cancel()
    assert half.take() == []


def test_work_that_is_cancelled_as_it_asks() -> None:
    """
    V2N3: a question that goes out as its work is cancelled is taken back like any other, and nothing requires action.
    """
    half, handler = running()
    context = handler.contexts[-1]
    half.at_once("session/request_permission", half.cancel)
    asked = context.request_permission(v2.ToolCallUpdate(tool_call_id="t"), [])
    failure(asked, RequestCancelled)
    handler.finish()
    assert half.said() == ["session/request_permission", "$/cancel_request", "idle cancelled"]


def test_a_terminal_that_is_stopped_as_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    V2N11: the client may stop it from the moment in which it is told of it.
    """
    signals: list[tuple[int, int]] = []

    def start(reactor: Any, executable: str, command: Any, environment: Any, protocol: Any, **more: Any) -> None:
        protocol.makeConnection(SimpleNamespace(pid=77, closeStdin=lambda: None))

    monkeypatch.setattr(_session_process, "start", start)
    monkeypatch.setattr(commands, "signal_group", lambda pid, number: signals.append((pid, number)))
    half, handler = running()
    told: list[Any] = []

    def stop() -> None:
        told.append(half.received[-1]["params"]["update"])
        half.about(9, "terminal/cancel", terminalId=told[0]["terminalId"])

    half.at_once("session/update", stop)
    done = handler.contexts[-1].execute("sh", ["-c", "sleep 600"])
    assert half.answers(9) == [{"result": {}}]
    assert signals == [(77, signal.SIGTERM)]
    no_result(done)
    half.cancel()
    failure(done, RequestCancelled)
    assert signals[1:] == [(77, signal.SIGKILL)]


def test_late_answers_do_not_resume_cancelled_work() -> None:
    """
    V2D4, V2N6: what the user says after the cancellation counts for nothing.
    """
    answers: list[bool] = []

    async def handler(request: object, context: PromptContext) -> None:
        answers.append(await context.ask_permission("Delete it?"))

    half = AgentHalf(builder(handler))
    half.prompt()
    [number] = [each["id"] for each in half.take() if each.get("method") == "session/request_permission"]
    half.cancel()
    assert half.said() == ["$/cancel_request", "tool_call_update: cancelled", "idle cancelled"]
    half.send({"id": number, "result": YES})
    assert half.said() == []
    assert answers == []


def test_one_question_taken_back_leaves_the_work_alone() -> None:
    """
    V2D2: cancelling one permission request neither ends the work nor decides its state.
    """
    half, handler = running()
    context = handler.contexts[-1]
    one = context.request_permission(None, [option()], title="1")
    two = context.request_permission(None, [option()], title="2")
    assert half.said() == ["session/request_permission", "requires_action", "session/request_permission"]
    one.addErrback(lambda failure: None)
    one.cancel()
    assert half.said() == ["$/cancel_request"]
    assert not context.is_cancelled
    assert context.session.state == "requires_action"
    two.addErrback(lambda failure: None)
    two.cancel()
    assert sorted(half.said()) == ["$/cancel_request", "running"]
    assert not context.is_cancelled
    assert context.session.state == "running"
    handler.finish()
    assert half.said() == ["idle end_turn"]


def test_requires_action_while_the_user_is_waited_for() -> None:
    """
    2.34, 2.39: reported when the work can't go on without the user, and running again when it can; not for a question
    that does not block it.
    """
    answers: list[bool] = []

    async def handler(request: object, context: Any) -> None:
        answers.append(await context.ask_permission("Write it?", "edit"))
        context.request_permission(None, [option()], title="background", blocks=False).detach()

    half = AgentHalf(builder(handler))
    half.prompt()
    sent = half.take()
    asked = sent[-2]
    assert asked["params"]["title"] == "Write it?"
    assert asked["params"]["subject"]["type"] == "tool_call"
    assert sent[-1]["params"]["update"]["state"] == "requires_action"
    half.send({"id": asked["id"], "result": YES})
    assert half.said() == ["running", "tool_call_update: completed", "session/request_permission", "idle end_turn"]
    assert answers == [True]


@pytest.mark.parametrize("outcome", [CANCELLED, {"outcome": {"outcome": "selected", "optionId": "nobody's"}}])
def test_only_a_plain_yes_is_one(outcome: dict[str, Any]) -> None:
    """
    2.43: a cancelled outcome, and an option that was not offered, are no approval.
    """
    answers: list[bool] = []

    async def handler(request: object, context: PromptContext) -> None:
        answers.append(await context.ask_permission("?"))

    half = AgentHalf(builder(handler))
    half.prompt()
    [number] = [each["id"] for each in half.take() if each.get("method") == "session/request_permission"]
    half.send({"id": number, "result": outcome})
    assert answers == [False]


def test_the_timers_of_version_1_keep_their_meaning() -> None:
    """
    V2N13: a cancelled handler that goes on is ended for its client; work that takes too long ends with an error.
    """
    half, handler = running(cancel_grace_period=10, max_prompt_duration=100)
    handler.outcomes[-1].addErrback(lambda failure: Deferred())
    half.cancel()
    half.clock.advance(10)
    assert half.said() == ["idle cancelled"]
    half.prompt(6)
    half.take()
    half.clock.advance(100)
    update = half.take()[-1]["params"]["update"]
    assert update["stopReason"] == "error"
    assert update["error"]["data"] == {"maxPromptDuration": "PT1M40S"}
    assert handler.outcomes[-1].called
    handler.outcomes[-1].addErrback(lambda failure: None)


def test_the_cancel_handler_is_told() -> None:
    """
    It hears of session/cancel and session/close, with an object of this version.
    """
    told: list[Any] = []
    half, handler = running(cancel_handler=told.append)
    half.cancel()
    half.about(6, "session/close")
    handler.finish()
    assert told == [v2.CancelSessionNotification(session_id=half.session_id)] * 2


# ---- the background


def test_background_work_is_listed_in_every_state() -> None:
    """
    V2N1: what goes on in the background is not cancelled with the foreground, and once listed is always listed.
    """
    half, handler = running()
    session = handler.contexts[-1].session
    work = [v2.BackgroundTerminal(terminal_id="t")]
    session.report_background(work)
    handler.finish()
    listed = [{"type": "terminal", "terminalId": "t"}]
    running_again, idle = [each["params"]["update"] for each in half.take()]
    assert running_again == {"sessionUpdate": "state_update", "state": "running", "background": listed}
    assert idle["background"] == listed
    half.cancel()
    assert not session.token.cancelled
    session.report_background([])
    [snapshot] = half.take()
    assert snapshot["params"]["update"] == {"sessionUpdate": "state_update", "state": "idle", "background": []}
    session.send_update(v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text="done")))
    assert half.said() == ["agent_message_chunk: done"]


def test_the_agent_may_begin_work_itself() -> None:
    """
    §2.2: work that no prompt asked for is reported and cancelled like any other, and waits for its turn.
    """
    half, handler = running()
    seen: list[Any] = []

    def follow_up(context: Any) -> Deferred[Any]:
        seen.append(context)
        context.send_message("by the way")
        outcome: Deferred[Any] = Deferred()
        return outcome

    half.connection.start_work(half.session_id, follow_up)
    assert half.said() == []
    handler.finish()
    assert half.said() == ["idle end_turn", "running", "agent_message_chunk: by the way"]
    assert seen[0].request is None
    half.cancel()
    half.clock.advance(60)
    assert half.said() == ["idle cancelled"]


def test_stopping_one_tool_call() -> None:
    """
    V2N11: it is accepted while the tool call says that it can be cancelled, and never later; the state stays.
    """
    stopped: list[str] = []
    half, handler = running()
    call = handler.contexts[-1].tool_call("T", tool_call_id="t", stop=lambda: stopped.append("t"))
    call.begin()
    [begun] = half.take()
    assert begun["params"]["update"]["capabilities"] == {"cancel": {}}
    half.about(6, "tool_call/cancel", toolCallId="t")
    assert half.said() == ["6: done"]
    assert stopped == ["t"]
    call.update(status="cancelled")
    half.take()
    half.about(7, "tool_call/cancel", toolCallId="t")
    half.about(8, "tool_call/cancel", toolCallId="nobody's")
    half.about(9, "terminal/cancel", terminalId="t")
    assert half.said() == ["7: -32602", "8: -32602", "9: -32602"]
    handler.finish()


def test_stopping_one_terminal() -> None:
    """
    V2N11: the builder's handler is asked for what brings nothing of its own; an exit status ends it.
    """
    asked: list[Any] = []
    half, handler = running(cancel_terminal_handler=asked.append)
    session = handler.contexts[-1].session
    can = v2.TerminalCapabilities(cancel=v2.TerminalCancelCapabilities())
    session.send_update(v2.TerminalUpdate(terminal_id="t", capabilities=can))
    half.take()
    half.about(6, "terminal/cancel", terminalId="t")
    assert half.said() == ["6: done"]
    assert asked == [v2.CancelTerminalRequest(session_id=half.session_id, terminal_id="t")]
    session.send_update(v2.TerminalUpdate(terminal_id="t", exit_status=v2.TerminalExitStatus(exit_code=0)))
    half.take()
    half.about(7, "terminal/cancel", terminalId="t")
    assert half.said() == ["7: -32602"]
    handler.finish()


# ---- sessions


def test_closing_a_session() -> None:
    """
    V2N10: cancelled as by session/cancel, the background told to stop, idle before the answer, and then nothing more.
    """
    half, handler = running()
    session = handler.contexts[-1].session
    half.prompt(6)
    half.about(7, "session/close")
    assert session.token.triggers == ("session/close",)
    assert half.said() == ["6: -32800"]
    handler.finish()
    assert half.said() == ["idle cancelled", "7: done"]
    session.send_update(v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text="late")))
    session.report_background([])
    assert half.said() == []
    half.prompt(8)
    half.about(9, "session/close")
    assert half.said() == ["8: -32002", "9: done"]


def test_resuming_a_session() -> None:
    """
    2.20, 2.24: without a replay the state comes before the answer; a replay is refused unless somebody does it.
    """

    def resume(request: v2.ResumeSessionRequest) -> v1.ResumeSessionResponse:
        return v1.ResumeSessionResponse()

    half = AgentHalf(builder().resume_session_handler(resume))
    start = {"type": "start"}
    half.send({"id": 5, "method": "session/resume", "params": {"sessionId": "old", "cwd": "/w"}})
    assert half.said() == ["idle", "5: done"]
    half.send({"id": 6, "method": "session/resume", "params": {"sessionId": "x", "cwd": "/w", "replayFrom": start}})
    odd = {"type": "_middle"}
    half.send({"id": 7, "method": "session/resume", "params": {"sessionId": "x", "cwd": "/w", "replayFrom": odd}})
    assert half.said() == ["6: -32602", "7: -32602"]
    half.send({"id": 8, "method": "session/prompt", "params": {"sessionId": "x", "prompt": [{"type": "text"}]}})
    assert half.said() == ["8: -32002"]
    assert "old" in half.connection.session_ids


@pytest.mark.parametrize("how", ["load", "resume"])
def test_resuming_with_a_replay(how: str) -> None:
    """
    2.20, 2.21: the history, then the state, then the answer, whether version 1's load or version 2's resume does it.
    """

    async def replay(request: v2.ResumeSessionRequest, connection: Any) -> None:
        assert request.replay_from == v2.ReplayFromStart()
        content = [connection.schema.TextContent(text="before")]
        await connection.send_update(request.session_id, v2.AgentMessage(message_id="m", content=content))

    made = builder()
    if how == "load":
        made.load_session_handler(replay)
    else:
        made.for_versions(2).resume_session_handler(replay)
    half = AgentHalf(made)
    params = {"sessionId": "old", "cwd": "/w", "replayFrom": {"type": "start"}}
    half.send({"id": 5, "method": "session/resume", "params": params})
    assert half.said() == ["agent_message", "idle", "5: done"]


def test_resuming_an_open_session_keeps_its_work() -> None:
    """
    2.24: the state that is reported is that of the work; and nobody but it knows a session without a handler.
    """
    half, handler = running()
    half.about(6, "session/resume", cwd="/w")
    half.send({"id": 7, "method": "session/resume", "params": {"sessionId": "no", "cwd": "/w"}})
    assert half.said() == ["running", "6: done", "7: -32002"]
    handler.finish()
    assert half.said() == ["idle end_turn"]


def test_a_resume_that_fails_leaves_no_session() -> None:
    """
    An error answer opens nothing.
    """

    def resume(request: v2.ResumeSessionRequest) -> None:
        raise AuthRequired

    half = AgentHalf(builder().resume_session_handler(resume))
    half.send({"id": 5, "method": "session/resume", "params": {"sessionId": "old", "cwd": "/w"}})
    assert half.said() == ["5: -32000"]
    assert half.connection.session_ids == (half.session_id,)


@pytest.mark.parametrize("order", ["first", "last", "both"])
def test_two_resumes_of_one_session(order: str) -> None:
    """
    One that fails, early or late, does not close what the other one opened; two that fail leave nothing.
    """
    waiting: list[Deferred[Any]] = []

    def resume(request: v2.ResumeSessionRequest) -> Deferred[Any]:
        waiting.append(Deferred())
        return waiting[-1]

    half = AgentHalf(builder().resume_session_handler(resume))
    for number in (5, 6):
        half.send({"id": number, "method": "session/resume", "params": {"sessionId": "old", "cwd": "/w"}})
    failing = waiting.pop(0 if order == "first" else 1)
    if order == "last":
        waiting[0].callback(None)
    failing.errback(AuthRequired())
    if order == "first":
        waiting[0].callback(None)
    elif order == "both":
        waiting[0].errback(AuthRequired())
    assert (
        sorted(half.said())
        == {
            "first": ["5: -32000", "6: done", "idle"],
            "last": ["5: done", "6: -32000", "idle"],
            "both": ["5: -32000", "6: -32000"],
        }[order]
    )
    assert ("old" in half.connection.session_ids) == (order != "both")
    if order != "both":
        text = [{"type": "text", "text": "hi"}]
        half.send({"id": 7, "method": "session/prompt", "params": {"sessionId": "old", "prompt": text}})
        assert half.said() == ["7: inserted", "user_message", "running", "idle end_turn"]


def test_a_resume_that_fails_behind_prompts_of_its_session() -> None:
    """
    Rule 1, V2N13: a prompt that came before the answer and is held is answered, the work of the one before it ends with
    an error, and nothing holds the connection open.
    """
    resuming: Deferred[Any] = Deferred()
    handler = Handler()
    half = AgentHalf(builder(handler).resume_session_handler(lambda request: resuming))
    half.session_id = "old"
    half.about(5, "session/resume", cwd="/w")
    half.prompt(6)
    half.prompt(7)
    assert half.said() == ["6: inserted", "user_message", "running"]
    resuming.errback(AuthRequired())
    assert sorted(half.said()) == ["5: -32000", "7: -32800", "idle error"]
    assert handler.outcomes[0].called
    assert handler.contexts[0].session.token.cancelled
    assert half.connection.peer.incoming_requests == 0
    half.prompt(8)
    assert half.said() == ["8: -32002"]


def test_a_resume_with_an_answer_that_is_none(logged_errors: LoggedErrors) -> None:
    """
    It is an error answer, which opens nothing.
    """
    half = AgentHalf(builder().resume_session_handler(lambda request: 5))
    half.send({"id": 5, "method": "session/resume", "params": {"sessionId": "old", "cwd": "/w"}})
    assert half.said() == ["5: -32603"]
    assert half.connection.session_ids == (half.session_id,)
    logged_errors.clear()


def test_listing_and_deleting() -> None:
    """
    2.04, 2.95: without a handler the open sessions are listed; deleting must be offered.
    """
    half = AgentHalf(builder())
    half.send({"id": 5, "method": "session/list", "params": {}})
    half.send({"id": 6, "method": "session/list", "params": {"cwd": "/elsewhere"}})
    half.about(7, "session/delete")
    all_of_them, none, refused = half.take()
    assert all_of_them["result"]["sessions"] == [{"sessionId": half.session_id, "cwd": "/w"}]
    assert none["result"]["sessions"] == []
    assert refused["error"]["code"] == -32601
    deleted: list[Any] = []
    half = AgentHalf(builder().delete_session_handler(deleted.append))
    half.about(8, "session/delete")
    half.send({"id": 9, "method": "session/delete", "params": {"sessionId": "another"}})
    assert half.said() == ["8: done", "9: done"]
    assert [type(each) for each in deleted] == [v2.DeleteSessionRequest] * 2
    assert half.connection.session_ids == ()


def test_settings() -> None:
    """
    2.55: they are set by a handler that may serve both versions; a type that nobody knows is refused.
    """

    def set_option(request: Any, connection: Any) -> Any:
        option = connection.schema.SessionConfigBoolean(config_id="c", name="C", current_value=request.value)
        return connection.schema.SetSessionConfigOptionResponse(config_options=[option])

    half = AgentHalf(builder().set_session_config_option_handler(set_option))
    half.about(5, "session/set_config_option", configId="c", type="boolean", value=True)
    half.about(6, "session/set_config_option", configId="c", type="_range", value=[1])
    answer, refused = half.take()
    assert answer["result"]["configOptions"][0]["currentValue"] is True
    assert refused["error"]["code"] == -32602


def test_logging_in_and_out() -> None:
    """
    2.02: with ways to log in both methods are answered, by the handlers of version 1 if there are no others.
    """
    seen: list[Any] = []
    made = builder().auth_methods([v1.AuthMethodAgent(id="key", name="Key")])
    made.authenticate_handler(seen.append).logout_handler(lambda request: v1.LogoutResponse())
    half = AgentHalf(made)
    half.send({"id": 5, "method": "auth/login", "params": {"methodId": "key"}}, {"id": 6, "method": "auth/logout"})
    half.send({"id": 7, "method": "authenticate", "params": {"methodId": "key"}})
    assert half.said() == ["5: done", "6: done", "7: -32601"]
    assert seen == [v2.LoginAuthRequest(method_id="key")]
    made = builder().auth_methods([v1.AuthMethodAgent(id="key", name="Key")])
    with pytest.raises(ValueError, match="authenticate_handler or login_handler, logout_handler"):
        made.build()


# ---- the beginning and the end


def test_what_initialize_says() -> None:
    """
    2.01, 2.04, 2.12: who the agent is, what it can do, and the ways to log in that this client can go.
    """
    login = v1.AuthMethodTerminal(id="t", name="T", args=["login"], env={"A": "b"})
    capabilities = v1.AgentCapabilities(
        prompt_capabilities=v1.PromptCapabilities(image=True), mcp_capabilities=v1.McpCapabilities(http=True)
    )
    made = builder().auth_methods([login]).agent_capabilities(capabilities)
    with_terminal = UnagreedHalf(made).initialize(2, info=INFO, capabilities={"auth": {"terminal": {}}})["result"]
    assert with_terminal == {
        "protocolVersion": 2,
        "info": {"name": "a", "version": "1"},
        "capabilities": {"session": {"prompt": {"image": {}}, "mcp": {"stdio": {}, "http": {}}}},
        "authMethods": [
            {
                "type": "terminal",
                "methodId": "t",
                "name": "T",
                "args": ["login"],
                "env": [{"name": "A", "value": "b"}],
            }
        ],
    }
    assert UnagreedHalf(made).initialize(2, info=INFO)["result"].get("authMethods", []) == []


def test_nothing_comes_before_initialize() -> None:
    """
    2.07, C27: every request before it is refused, and a second one after anything else, or for another version.
    """
    half = UnagreedHalf(builder())
    half.send({"id": 1, "method": "session/new", "params": {"cwd": "/"}}, {"id": 2, "method": "_x"})
    half.send({"method": "session/cancel", "params": {"sessionId": "s"}}, {"id": None, "method": "initialize"})
    assert [each["error"]["code"] for each in half.take()] == [-32600, -32600, -32600]
    assert "error" in half.initialize(2)
    assert half.initialize(2, info=INFO)["result"]["protocolVersion"] == 2
    assert half.initialize(2, info=INFO)["result"]["protocolVersion"] == 2
    assert half.initialize(3, info=INFO)["error"]["code"] == -32600
    half.send({"id": 3, "method": "session/list"})
    half.take()
    assert half.initialize(2, info=INFO)["error"]["code"] == -32600


def test_the_end_of_input_waits_for_the_work() -> None:
    """
    B64 for version 2: the prompt was answered long ago, and its work still ends in good order; without end, it is
    stopped when the time to drain is over.
    """
    half, handler = running()
    half.connection.peer.input_ended()
    assert not half.raw.lost
    handler.finish()
    assert half.said() == ["idle end_turn"]
    assert half.raw.lost
    late, _ = running()
    late.connection.peer.input_ended()
    late.clock.advance(late.connection.limits.drain_timeout)
    assert late.said() == ["idle error"]
    assert late.raw.lost


def test_a_shutdown_is_nobodys_choice() -> None:
    """
    V2N13, X7: the work ends with an error, held prompts are answered -32800, and then the link is closed.
    """
    half, handler = running()
    half.prompt(6)
    half.connection.close()
    assert sorted(half.said()) == ["6: -32800", "idle error"]
    assert half.raw.lost
    assert handler.contexts[-1].cancellations == ("shutdown",)


def test_a_lost_connection_stops_everything() -> None:
    """
    Tokens are set and handlers cancelled, in the foreground and in the background.
    """
    half, handler = running()
    half.prompt(6)
    context = handler.contexts[-1]
    half.lose()
    assert context.cancellations == ("connectionLost",)
    assert context.session.token.triggers == ("connectionLost",)
    assert handler.outcomes[-1].called
    assert len(handler.contexts) == 1
    assert half.connection.peer.incoming_requests == 0
    assert half.clock.getDelayedCalls() == []


def test_files_and_terminals_are_no_part_of_version_2() -> None:
    """
    §2.1: asking for them is an error before anything is sent, and what can do without them does.
    """
    read: list[Any] = []

    async def handler(request: object, context: PromptContext) -> None:
        read.append(await context.try_read_file("/x"))
        with pytest.raises(AcpCapabilityError):
            await context.write_file("/x", "y")

    half = AgentHalf(builder(handler))
    half.prompt()
    assert half.said() == ["5: inserted", "user_message", "running", "idle end_turn"]
    assert read == [None]


def test_messages_thoughts_and_plans() -> None:
    """
    2.35, 2.50: pieces of one message share its id, and another begins after anything else.
    """
    half, handler = running()
    context = handler.contexts[-1]
    context.send_message("a")
    context.send_message("b")
    context.send_thought("c")
    context.send_message("d")
    context.plan(["one", v2.PlanEntry(content="two", priority="high", status="completed")])
    context.send_message("e", "mine")
    updates = [each["params"]["update"] for each in half.take()]
    a, b, c, d, plan, e = updates
    assert a["messageId"] == b["messageId"]
    assert len({a["messageId"], c["messageId"], d["messageId"], e["messageId"]}) == 4
    assert e["messageId"] == "mine"
    assert plan["plan"]["planId"] == "main"
    assert [entry["status"] for entry in plan["plan"]["entries"]] == ["pending", "completed"]
    handler.finish()


def test_open_tool_calls_are_closed_before_idle() -> None:
    """
    B23, V2N8: as failed, or as cancelled when the work was.
    """
    for cancels, status in ((False, "failed"), (True, "cancelled")):
        half, handler = running()
        handler.contexts[-1].tool_call("T").begin()
        half.take()
        if cancels:
            half.cancel()
        handler.finish()
        assert half.said() == [f"tool_call_update: {status}", f"idle {'cancelled' if cancels else 'end_turn'}"]


def test_questions_of_the_background_end_with_the_session() -> None:
    """
    V2N1, V2N10: session/cancel leaves them alone, and session/close takes them back before its answer.
    """
    half = AgentHalf(builder())
    request = v2.RequestPermissionRequest(session_id=half.session_id, title="?", options=[option()])
    asked = half.connection.call(request)
    failures: list[Any] = []
    asked.addErrback(failures.append)
    half.cancel()
    assert half.said() == ["session/request_permission"]
    half.about(6, "session/close")
    assert half.said() == ["$/cancel_request", "6: done"]
    assert failures[0].type is RequestCancelled


def test_the_user_is_sent_to_a_web_page() -> None:
    """
    1.184: the id of an elicitation is nobody else's until it is over, and only an open one is complete.
    """
    half, handler = running()
    context = handler.contexts[-1]

    def page() -> v2.ElicitationUrlMode:
        return v2.ElicitationUrlMode(message="m", session_id=half.session_id, elicitation_id="e", url="https://x")

    half.connection.call(page()).addErrback(lambda failure: None)
    [sent] = half.take()
    with pytest.raises(ValueError, match="open"):
        context.call(page())
    half.send({"id": sent["id"], "result": {"action": "accept"}})
    done = v2.CompleteElicitationNotification(elicitation_id="e")
    half.connection.notify(done)
    assert half.said() == ["elicitation/complete"]
    with pytest.raises(ValueError, match="no elicitation"):
        half.connection.notify(done)
    handler.finish()


def test_the_client_as_a_session_sees_it() -> None:
    """
    One message for each call, of this version's classes; with the work's, or outside of any.
    """
    half, handler = running()
    context = handler.contexts[-1]
    schema = v2.ElicitationSchema(properties={"name": v2.StringPropertySchema()})
    form = context.client.elicit_form("Who?", schema)
    page = half.connection.client(half.session_id).elicit_url("Go", "https://x")
    asked = half.connection.client(half.session_id).request_permission(None, [option()], title="Really?")
    for each in (form, asked):
        each.addErrback(lambda failure: None)
    sent = half.take()
    kinds = [each.get("params", {}).get("mode") or each["method"] for each in sent]
    assert kinds == ["form", "session/update", "url", "session/request_permission"]
    assert context.client.capabilities is half.connection.client_capabilities
    half.send({"id": sent[2]["id"], "result": {"action": "accept"}})
    page.complete()
    assert half.said() == ["elicitation/complete"]
    with pytest.raises(AcpCapabilityError):
        half.connection.client(half.session_id).read_text_file("/x")
    handler.finish()


def test_requests_of_version_1_are_not_taken_for_those_of_version_2() -> None:
    """
    2.80: what version 2 has too must be of its own class.
    """
    _, handler = running()
    call = v1.ToolCallUpdate(tool_call_id="t")
    with pytest.raises(TypeError, match="no request of the protocol"):
        handler.contexts[-1].call(v1.RequestPermissionRequest(session_id="s", tool_call=call, options=[]))
    handler.finish()


def test_an_agent_of_a_decorated_class() -> None:
    """
    The decorators make an agent of both versions when they are given the builder of one.
    """

    @acp_agent(name="decorated", version="1")
    class Decorated:
        @prompt
        def answer(self, text: PromptText) -> str:
            return text.upper()

    made = AcpAgent.builder().protocol_versions(1, 2)
    agent = build_agent(Decorated, builder=made)
    assert isinstance(agent, VersionedAgent)
    half = AgentHalf(made)
    half.prompt(5, "hello")
    assert half.said() == ["5: inserted", "user_message", "running", "agent_message_chunk: HELLO", "idle end_turn"]


@pytest.mark.parametrize("cancels", [False, True])
def test_nothing_is_kept_of_work_that_is_over(cancels: bool) -> None:
    """
    B79: neither the session nor a token holds on to a prompt, its context, its questions or its tool calls.
    """
    kept: list[weakref.ref[Any]] = []

    async def handler(request: object, context: Any) -> None:
        kept.append(weakref.ref(context))
        async with context.tool_call("T", stop=lambda: context):
            await context.ask_permission("?")

    half = AgentHalf(builder(handler))
    for number in range(3):
        half.prompt(number)
        [asked] = [each["id"] for each in half.take() if each.get("method") == "session/request_permission"]
        if cancels:
            half.cancel()
        else:
            half.send({"id": asked, "result": YES})
        assert half.said()[-1] == f"idle {'cancelled' if cancels else 'end_turn'}"
    gc.collect()
    assert [each() for each in kept] == [None] * 3
    assert half.connection.peer.pending_requests == 0
    assert half.clock.getDelayedCalls() == []
