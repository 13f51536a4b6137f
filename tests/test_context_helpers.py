"""What a prompt's context does for its handler in more than one message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from halves import AgentHalf
from twisted.internet.defer import Deferred

from acp_twisted import AcpAgent, AcpError, InternalError, PromptContext, RequestCancelled
from acp_twisted.agent.commands import CommandResult
from acp_twisted.schema import v1

CAPABILITIES = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class Turn:
    """
    One prompt, whose handler runs what a test wants; C{session/cancel} cancels what that has asked of the client.

    @ivar came: what that came to: its result, or its error.
    """

    def __init__(self, work: Callable[[PromptContext], Awaitable[Any]]) -> None:
        self.came: list[Any] = []
        self.context: PromptContext | None = None

        async def handler(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
            self.context = context
            try:
                self.came.append(await work(context))
            except BaseException as error:
                self.came.append(error)
                raise
            return v1.PromptResponse(stop_reason="end_turn")

        builder = AcpAgent.builder().prompt_handler(handler).request_timeout(10).cancel_grace_period(5)
        builder.cascade_cancellation()
        builder.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s1"))
        self.half = AgentHalf(builder.build(), capabilities=CAPABILITIES)
        self.half.prompt(5)

    def take(self) -> list[dict[str, Any]]:
        """What the agent has sent since."""
        return self.half.take()

    def asked(self) -> dict[str, Any]:
        """The one request among what it has sent since."""
        [request] = [each for each in self.take() if "method" in each and "id" in each]
        return request

    def answer(self, request: dict[str, Any], result: object) -> None:
        """Answer it."""
        self.half.send({"id": request["id"], "result": result})

    def refuse(self, request: dict[str, Any], code: int = -32603) -> None:
        """Answer it with an error."""
        self.half.send({"id": request["id"], "error": {"code": code, "message": "no"}})


def brief(messages: list[dict[str, Any]]) -> list[Any]:
    """Messages in few words: an update by its kind and status, a request by its method, an answer by what it is."""
    short: list[Any] = []
    for each in messages:
        if each.get("method") == "session/update":
            update = each["params"]["update"]
            short.append((update["sessionUpdate"], update.get("status")))
        elif "method" in each:
            short.append(each["method"])
        else:
            short.append(each.get("result", each.get("error", {}).get("code")))
    return short


PICKED = {"outcome": {"outcome": "selected", "optionId": "allow"}}
DENIED = {"outcome": {"outcome": "selected", "optionId": "deny"}}
NOBODY = {"outcome": {"outcome": "cancelled"}}
END = {"stopReason": "end_turn"}
CANCELLED = {"stopReason": "cancelled"}


# ---- plans


def test_a_plan_is_sent_whole() -> None:
    """1.151; a plain string is a step."""
    done = v1.PlanEntry(content="b", priority="high", status="completed")
    turn = Turn(lambda context: context.plan(["a", done]))
    [told, _] = turn.take()
    assert told["params"]["update"] == {
        "sessionUpdate": "plan",
        "entries": [
            {"content": "a", "priority": "medium", "status": "pending"},
            {"content": "b", "priority": "high", "status": "completed"},
        ],
    }


# ---- tool calls


def test_a_tool_call_is_reported_from_its_begin_to_its_end() -> None:
    """1.120, 1.121: only what has changed is sent, and it is completed when the block is left."""

    async def work(context: PromptContext) -> Any:
        async with context.tool_call("Read", kind="read", tool_call_id="t1", raw_input={"a": 1}) as call:
            await call.update()
            await call.update(title="Reading", locations=[v1.ToolCallLocation(path="/f")])
        return call.reported

    turn = Turn(work)
    sent = [each["params"]["update"] for each in turn.take()[:-1]]
    begun = {
        "sessionUpdate": "tool_call",
        "toolCallId": "t1",
        "title": "Read",
        "kind": "read",
        "status": "in_progress",
        "rawInput": {"a": 1},
    }
    assert sent == [
        begun,
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t1",
            "title": "Reading",
            "locations": [{"path": "/f"}],
        },
        {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed"},
    ]
    [reported] = turn.came
    assert (reported.title, reported.status, reported.raw_input) == ("Reading", "completed", {"a": 1})


def test_ids_are_made_up_and_differ() -> None:
    """1.120: unique in the session."""

    async def work(context: PromptContext) -> Any:
        return {context.tool_call("a").tool_call_id for _ in range(5)}

    assert len(Turn(work).came[0]) == 5


@pytest.mark.parametrize(
    ("end", "status"), [("complete", "completed"), ("fail", "failed"), ("raise", "failed"), ("nothing", "completed")]
)
def test_how_a_tool_call_ends(end: str, status: str) -> None:
    """It ends once: as it was said, by the error that leaves the block, or else well."""

    async def work(context: PromptContext) -> None:
        async with context.tool_call("x") as call:
            if end == "raise":
                raise AcpError(-32000, "no")
            if end == "complete":
                await call.complete([], raw_output=1)
            if end == "fail":
                await call.fail()

    sent = brief(Turn(work).take())
    assert sent[:2] == [("tool_call", "in_progress"), ("tool_call_update", status)]
    assert len(sent) == 3


def test_a_tool_call_does_not_begin_twice_or_run_again() -> None:
    """Mistakes of the handler, told at once; more may be said of a finished one."""

    async def work(context: PromptContext) -> None:
        call = context.tool_call("x")
        with pytest.raises(RuntimeError, match="not begun"):
            call.update(title="y")
        await call.begin()
        with pytest.raises(RuntimeError, match="already"):
            call.begin()
        await call.complete()
        with pytest.raises(RuntimeError, match="completed"):
            call.update(status="in_progress")
        await call.update(title="y")

    sent = brief(Turn(work).take())
    assert sent == [("tool_call", "in_progress"), ("tool_call_update", "completed"), ("tool_call_update", None), END]


def test_a_tool_call_left_open_is_closed_before_the_answer() -> None:
    """B23: also when the handler forgot it."""

    async def work(context: PromptContext) -> None:
        await context.tool_call("a").begin()
        await context.tool_call("b", status="pending").begin()

    sent = brief(Turn(work).take())
    assert sent[2:] == [("tool_call_update", "failed"), ("tool_call_update", "failed"), END]


@pytest.mark.parametrize("how", ["request", "grace", "handler", "shutdown"])
def test_a_cancelled_tool_call_is_closed_before_the_answer(how: str) -> None:
    """B23: whatever ends the turn; one that the handler closes itself is not closed twice."""

    async def work(context: PromptContext) -> None:
        async with context.tool_call("x"):
            if how == "handler":
                await context.when_cancelled()
            else:
                await Deferred[None]()

    turn = Turn(work)
    turn.take()
    if how == "request":
        turn.half.cancel_request(5)
    elif how == "shutdown":
        turn.half.connection.close()
    else:
        turn.half.cancel()
        turn.half.clock.advance(5 if how == "grace" else 0)
    answer = -32800 if how in ("request", "shutdown") else CANCELLED
    assert brief(turn.take()) == [("tool_call_update", "failed"), answer]


def test_a_lost_link_is_no_trouble_for_an_open_tool_call() -> None:
    """There is nobody to tell."""

    async def work(context: PromptContext) -> None:
        async with context.tool_call("x"):
            await Deferred[None]()

    turn = Turn(work)
    turn.half.lose()
    assert len(turn.came) == 1


@pytest.mark.parametrize(
    ("answer", "allowed", "status"),
    [(PICKED, True, "in_progress"), (DENIED, False, "failed"), (NOBODY, False, "failed")],
)
def test_a_tool_call_may_ask_first(answer: object, allowed: bool, status: str) -> None:
    """1.106: it is in progress once it is allowed."""

    async def work(context: PromptContext) -> bool:
        async with context.tool_call("x", status="pending", kind="edit") as call:
            return await call.ask_permission()

    turn = Turn(work)
    request = turn.asked()
    about = request["params"]["toolCall"]
    assert (about["title"], about["kind"]) == ("x", "edit")
    turn.answer(request, answer)
    assert turn.came == [allowed]
    ends = [("tool_call_update", "completed")] if allowed else []
    assert brief(turn.take()) == [("tool_call_update", status), *ends, END]


# ---- questions


@pytest.mark.parametrize(
    ("answer", "allowed", "status"),
    [
        (PICKED, True, "completed"),
        (DENIED, False, "completed"),
        (NOBODY, False, "failed"),
        ({"outcome": {"outcome": "selected", "optionId": "ALLOW"}}, False, "completed"),
        ({"outcome": {"outcome": "approved"}}, False, "failed"),
    ],
)
def test_ask_permission(answer: object, allowed: bool, status: str) -> None:
    """As a tool call of its own; only the one option is a yes."""
    turn = Turn(lambda context: context.ask_permission("Delete it", "delete"))
    sent = turn.take()
    assert brief(sent) == [("tool_call", "pending"), "session/request_permission"]
    params = sent[1]["params"]
    assert params["toolCall"] == {
        "toolCallId": sent[0]["params"]["update"]["toolCallId"],
        "title": "Delete it",
        "kind": "delete",
        "status": "pending",
    }
    assert [(each["optionId"], each["kind"]) for each in params["options"]] == [
        ("allow", "allow_once"),
        ("deny", "reject_once"),
    ]
    turn.answer(sent[1], answer)
    assert turn.came == [allowed]
    assert brief(turn.take()) == [("tool_call_update", status), END]


@pytest.mark.parametrize(("picked", "expected"), [("0", "red"), ("1", "blue")])
def test_ask_choice(picked: str, expected: str) -> None:
    """The choice itself comes back."""
    turn = Turn(lambda context: context.ask_choice("Which?", "red", "blue"))
    request = turn.asked()
    options = [(each["optionId"], each["name"], each["kind"]) for each in request["params"]["options"]]
    assert options == [("0", "red", "allow_once"), ("1", "blue", "allow_once")]
    turn.answer(request, {"outcome": {"outcome": "selected", "optionId": picked}})
    assert turn.came == [expected]


def test_ask_choice_without_a_choice() -> None:
    """None is picked, or one that was not offered, which is an error of the client's."""
    turn = Turn(lambda context: context.ask_choice("Which?", "red", "blue"))
    turn.answer(turn.asked(), NOBODY)
    assert turn.came == [None]
    turn = Turn(lambda context: context.ask_choice("Which?", "red", "blue"))
    turn.answer(turn.asked(), {"outcome": {"outcome": "selected", "optionId": "2"}})
    assert isinstance(turn.came[0], InternalError)


def test_a_choice_is_between_two() -> None:
    """Else it is none."""

    async def work(context: PromptContext) -> None:
        with pytest.raises(ValueError, match="two"):
            context.ask_choice("Which?", "red")

    assert Turn(work).came == [None]


@pytest.mark.parametrize("what", ["a request", "an extension's", "a helper's first words", "a helper's request"])
def test_a_turn_that_is_cancelled_as_it_asks(what: str) -> None:
    """A cancellation that comes while a request goes out, or a helper begins, takes that back as well (X9)."""
    begin: Deferred[None] = Deferred()

    async def work(context: PromptContext) -> Any:
        await begin
        if what == "a request":
            return await context.read_text_file("/w/a")
        if what == "an extension's":
            return await context.ext_request("_ask")
        return await context.ask_permission("Do it")

    turn = Turn(work)
    method = {"a request": "fs/read_text_file", "an extension's": "_ask", "a helper's first words": "session/update"}
    turn.half.at_once(method.get(what, "session/request_permission"), turn.half.cancel)
    begin.callback(None)
    assert isinstance(turn.came[0], RequestCancelled)
    assert turn.half.answers() == [{"result": {"stopReason": "cancelled"}}]
    asked = [each["id"] for each in turn.half.received if "method" in each and "id" in each]
    assert [each["params"]["requestId"] for each in turn.half.asked("$/cancel_request")] == asked
    assert turn.half.idle()


def test_a_refused_question_fails_its_tool_call() -> None:
    """The error is the handler's; nothing is left pending."""
    turn = Turn(lambda context: context.ask_permission("x"))
    turn.refuse(turn.asked())
    assert isinstance(turn.came[0], InternalError)
    assert brief(turn.take()) == [("tool_call_update", "failed"), -32603]


# ---- files


def test_read_and_write_a_file() -> None:
    """Text in, text out."""

    async def work(context: PromptContext) -> str:
        await context.write_file("/f", "x")
        return await context.read_file("/f", 2, 3)

    turn = Turn(work)
    request = turn.asked()
    assert request["params"] == {"sessionId": "s1", "path": "/f", "content": "x"}
    turn.answer(request, None)
    request = turn.asked()
    assert request["params"] == {"sessionId": "s1", "path": "/f", "line": 2, "limit": 3}
    turn.answer(request, {"content": "text"})
    assert turn.came == ["text"]


@pytest.mark.parametrize("code", [-32002, -32603, -32800])
def test_try_read_file_gives_none_for_any_failure(code: int) -> None:
    """A client's refusal, whatever its code; and its nonsense."""
    turn = Turn(lambda context: context.try_read_file("/f"))
    turn.refuse(turn.asked(), code)
    assert turn.came == [None]
    turn = Turn(lambda context: context.try_read_file("/f"))
    turn.answer(turn.asked(), {"content": 1})
    assert turn.came == [None]
    turn = Turn(lambda context: context.try_read_file("/f"))
    turn.answer(turn.asked(), {"content": "x"})
    assert turn.came == ["x"]


def test_try_read_file_does_not_hide_a_cancellation() -> None:
    """It ends the handler as everything does."""
    turn = Turn(lambda context: context.try_read_file("/f"))
    turn.half.cancel_request(5)
    assert isinstance(turn.came[0], RequestCancelled)


# ---- commands


def test_execute() -> None:
    """Create, wait, output, release; then the result."""
    turn = Turn(lambda context: context.execute("make", ["x"], env={"A": "b"}, cwd="/w", output_byte_limit=9))
    request = turn.asked()
    assert request["params"] == {
        "sessionId": "s1",
        "command": "make",
        "args": ["x"],
        "env": [{"name": "A", "value": "b"}],
        "cwd": "/w",
        "outputByteLimit": 9,
    }
    turn.answer(request, {"terminalId": "T"})
    for method, result in (
        ("terminal/wait_for_exit", {"exitCode": None, "signal": "SIGKILL"}),
        ("terminal/output", {"output": "o", "truncated": True}),
    ):
        request = turn.asked()
        assert (request["method"], request["params"]["terminalId"]) == (method, "T")
        turn.answer(request, result)
    assert turn.came == [CommandResult(output="o", exit_code=None, signal="SIGKILL", truncated=True)]
    assert brief(turn.take()) == ["terminal/release", END]


def test_execute_waits_for_ever() -> None:
    """The request timeout does not end a command."""
    turn = Turn(lambda context: context.execute("make"))
    turn.answer(turn.asked(), {"terminalId": "T"})
    turn.take()
    turn.half.clock.advance(1000)
    assert turn.came == []


@pytest.mark.parametrize("step", ["terminal/wait_for_exit", "terminal/output"])
@pytest.mark.parametrize("how", ["refused", "session/cancel", "$/cancel_request"])
def test_execute_releases_what_it_does_not_finish(step: str, how: str) -> None:
    """1.143: once, on every way out, and what it waited for is cancelled once (X9)."""
    turn = Turn(lambda context: context.execute("make"))
    turn.answer(turn.asked(), {"terminalId": "T"})
    request = turn.asked()
    if step == "terminal/output":
        turn.answer(request, {"exitCode": 0})
        request = turn.asked()
    assert request["method"] == step
    if how == "refused":
        turn.refuse(request)
    elif how == "session/cancel":
        turn.half.cancel()
    else:
        turn.half.cancel_request(5)
    sent = turn.take()
    assert [each["method"] for each in sent if each.get("method") == "terminal/release"] == ["terminal/release"]
    withdrawn = [each["params"]["requestId"] for each in sent if each.get("method") == "$/cancel_request"]
    assert withdrawn == ([] if how == "refused" else [request["id"]])
    assert isinstance(turn.came[0], InternalError if how == "refused" else RequestCancelled)
    turn.half.clock.advance(100)
    assert "terminal/release" not in brief(turn.take())


@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request"])
@pytest.mark.parametrize("late", ["created", "refused"])
def test_a_terminal_that_is_created_late_is_released(how: str, late: str) -> None:
    """B61: the handler ends at once; a terminal that came to be all the same is given back, when the turn is over."""
    turn = Turn(lambda context: context.execute("make"))
    request = turn.asked()
    if how == "session/cancel":
        turn.half.cancel()
    else:
        turn.half.cancel_request(5)
    assert isinstance(turn.came[0], RequestCancelled)
    sent = turn.take()
    assert [each["params"] for each in sent if each.get("method") == "$/cancel_request"] == [
        {"requestId": request["id"]}
    ]
    assert "terminal/release" not in brief(sent)
    if late == "created":
        turn.answer(request, {"terminalId": "T"})
        [release] = turn.take()
        assert (release["method"], release["params"]) == ("terminal/release", {"sessionId": "s1", "terminalId": "T"})
        turn.refuse(release)
    else:
        turn.refuse(request, -32800)
    assert turn.take() == []


def test_a_client_that_never_answers_is_not_waited_for_for_ever() -> None:
    """Bound every step (B61)."""
    turn = Turn(lambda context: context.execute("make"))
    turn.asked()
    turn.half.cancel_request(5)
    turn.take()
    turn.half.clock.advance(10)
    assert turn.half.clock.getDelayedCalls() == []
    assert turn.take() == []


def test_a_refused_command_is_an_error() -> None:
    """Nothing was created, so nothing is released."""
    turn = Turn(lambda context: context.execute("make"))
    turn.refuse(turn.asked(), -32002)
    assert turn.came[0].code == -32002
    assert brief(turn.take()) == [-32002]


@pytest.mark.parametrize("answered", [False, True])
def test_execute_on_a_lost_link(answered: bool) -> None:
    """It fails; there is nobody to release anything at."""
    turn = Turn(lambda context: context.execute("make"))
    request = turn.asked()
    if answered:
        turn.answer(request, {"terminalId": "T"})
    turn.half.lose()
    assert isinstance(turn.came[0], AcpError)


def test_a_helper_that_nobody_awaits_is_quiet() -> None:
    """B77: what was asked for and forgotten leaves nothing in the log."""

    async def work(context: PromptContext) -> None:
        context.execute("make")
        context.ask_permission("x")
        context.try_read_file("/f")
        await Deferred[None]()

    turn = Turn(work)
    turn.half.cancel_request(5)
    assert len(turn.came) == 1
