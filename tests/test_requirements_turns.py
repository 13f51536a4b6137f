"""
Prompt turns and what goes on in them: tool calls, plans, modes, options, commands, files and terminals, as the protocol
requires them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred

from acp_twisted import AcpAgent, AcpCapabilityError, AcpClient, PromptContext, ResourceNotFound
from acp_twisted.client.files import LocalFiles
from acp_twisted.client.permissions import AllowList, deny
from acp_twisted.client.terminals import Output
from acp_twisted.schema import v1
from acp_twisted.schema.converter import unstructure
from acp_twisted.schema.values import UnknownVariant
from acp_twisted.testing import (
    AgentOnWire,
    ClientOnWire,
    ScriptedAgent,
    ScriptedClient,
    answered,
    connected_pair,
    failure_of,
    no_result,
    notified,
    requested,
    success_result,
    updated,
)

END = v1.PromptResponse(stop_reason="end_turn")


def agent_that(handler: Any) -> AcpAgent:
    """An agent with a prompt handler."""
    return AcpAgent.builder().prompt_handler(handler).build()


def tracking() -> AcpClient:
    """A client that keeps a picture of its sessions."""
    return AcpClient.builder().track_sessions().build()


# ---- the turn


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "refusal"])
def test_a_turn_ends_with_a_reason(reason: str) -> None:
    """PROMPT-RESPOND-WITH-STOP-REASON, PROMPT-AGENT-MAY-STOP: whenever the handler says so."""
    agent = ScriptedAgent()
    agent.expect_prompt().says("half a").ends(reason)
    with connected_pair(agent) as pair:
        assert pair.answer().stop_reason == reason


def test_what_updates_may_say() -> None:
    """PROMPT-MESSAGE-ID-MAY, PROMPT-USAGE-UPDATE-MAY: a name for a message, and what was used."""

    async def prompt(_: Any, context: PromptContext) -> v1.PromptResponse:
        await context.send_message("a", "m1")
        await context.send_update(v1.UsageUpdate(used=1, size=10))
        return END

    client = ScriptedClient()
    with connected_pair(agent_that(prompt), client) as pair:
        pair.answer()
    chunk, usage = [each.update for each in client.updates]
    assert chunk == v1.AgentMessageChunk(content=v1.TextContent(text="a"), message_id="m1")
    assert usage == v1.UsageUpdate(used=1, size=10)


def test_permissions_may_be_asked_for() -> None:
    """PROMPT-PERMISSION-MAY, TOOLS-PERMISSION-MAY: within a turn, behind the report of the tool call."""
    agent = ScriptedAgent()
    agent.expect_prompt().asks_permission("Go", True)
    with connected_pair(agent, ScriptedClient(permission="allow_once")) as pair:
        pair.answer()
        pair.transcript.assert_order(updated("tool_call"), "session/request_permission", updated("tool_call_update"))


def test_tools_may_use_the_client() -> None:
    """PROMPT-TOOLS-MAY-USE-CLIENT-CAPABILITIES: within a tool call."""

    async def prompt(_: Any, context: PromptContext) -> v1.PromptResponse:
        async with context.tool_call("Read", kind="read"):
            await context.send_message(await context.read_file("/a"))
        return END

    client = ScriptedClient(files={"/a": "text"})
    with connected_pair(agent_that(prompt), client) as pair:
        pair.answer()
    assert client.said == "text"


def test_a_tool_call_is_reported() -> None:
    """
    TOOLS-REPORT-TOOL-CALL, TOOLS-NAME-IN-FIRST-REPORT, TOOLS-NAME-STABLE, PROMPT-TOOL-IN-PROGRESS,
    PROMPT-TOOL-UPDATES-MAY: with its name, at once; then what changes, and never the name.
    """

    async def prompt(_: Any, context: PromptContext) -> v1.PromptResponse:
        async with context.tool_call("Search", name="grep", kind="search", tool_call_id="t") as call:
            await call.update(title="Search for x")
            await call.update(content=[v1.Content(content=v1.TextContent(text="found"))])
        return END

    client = ScriptedClient()
    with connected_pair(agent_that(prompt), client) as pair:
        pair.answer()
        pair.transcript.assert_order(
            updated("tool_call", toolCallId="t", name="grep", status="in_progress"),
            updated("tool_call_update", title="Search for x"),
            updated("tool_call_update", content=lambda content: len(content) == 1),
            updated("tool_call_update", status="completed"),
        )
    assert not any("name" in unstructure(each)["update"] for each in client.updates[1:])


# ---- its cancellation


def test_a_client_may_cancel_at_any_time() -> None:
    """
    PROMPT-CLIENT-CANCEL-MAY, PROMPT-AGENT-STOP-ON-CANCEL, PROMPT-AGENT-CANCELLED-STOP-REASON: the handler sees it at
    once, and whatever it answers then is C{cancelled}.
    """
    agent = ScriptedAgent()
    agent.expect_prompt().waits_for_cancel().says("stopping").ends("end_turn")
    with connected_pair(agent) as pair:
        turn = pair.prompt()
        turn.cancel()
        assert success_result(turn.response).stop_reason == "cancelled"
        turn.cancel()
        pair.transcript.assert_count("session/cancel", 1)


@pytest.mark.parametrize("error", [RuntimeError("aborted"), CancelledError(), AcpCapabilityError("x")], ids=repr)
def test_abortion_is_no_failure(error: Exception) -> None:
    """PROMPT-AGENT-CATCH-ABORT-ERRORS: whatever a cancelled handler fails with, the answer is C{cancelled}."""
    agent = ScriptedAgent()
    agent.expect_prompt().waits_for_cancel().fails(error)
    with connected_pair(agent) as pair:
        turn = pair.prompt()
        turn.cancel()
        assert success_result(turn.response).stop_reason == "cancelled"
        pair.transcript.assert_order(answered("session/prompt", {"stopReason": "cancelled"}))


def test_updates_may_follow_a_cancellation_but_not_the_answer() -> None:
    """
    PROMPT-UPDATES-AFTER-CANCEL-MAY, PROMPT-UPDATES-BEFORE-RESPONSE, PROMPT-CLIENT-ACCEPT-LATE-UPDATES: the client has
    them all when it has the answer.
    """
    late: list[PromptContext] = []
    agent = ScriptedAgent()
    agent.expect_prompt().waits_for_cancel().says("late").does(lambda _, context: late.append(context))
    client = ScriptedClient()
    with connected_pair(agent, client) as pair:
        turn = pair.prompt()
        turn.cancel()
        success_result(turn.response)
        assert client.said == "late"
        late[0].send_message("too late")
        assert client.said == "late"
        pair.transcript.assert_order("session/cancel", updated("agent_message_chunk"), answered("session/prompt"))


def test_open_tool_calls_are_marked_at_once() -> None:
    """PROMPT-CLIENT-MARK-CANCELLED: in the picture of the session, before the agent says anything."""

    async def prompt(_: Any, context: PromptContext) -> v1.PromptResponse:
        async with context.tool_call("Slow", tool_call_id="t"):
            await Deferred()
        return END

    agent = AcpAgent.builder().prompt_handler(prompt).cancel_grace_period(5).build()
    with connected_pair(agent, tracking()) as pair:
        turn = pair.prompt()
        state = pair.session.state
        assert state is not None
        assert state.tool_calls[0].status == "in_progress"
        turn.cancel()
        assert state.tool_calls[0].status == "cancelled"
        no_result(turn.response)
        pair.advance(5)
        assert success_result(turn.response).stop_reason == "cancelled"


def test_open_permissions_are_answered() -> None:
    """PROMPT-CLIENT-RESPOND-PENDING-PERMISSIONS: C{cancelled}, though the user says nothing; of that session alone."""
    agent = ScriptedAgent()
    agent.expect_prompt().asks_permission("Go", False)
    client = ScriptedClient()
    client.expect_permission().hangs()
    with connected_pair(agent, client) as pair:
        turn = pair.prompt()
        no_result(turn.response)
        turn.cancel()
        assert success_result(turn.response).stop_reason == "cancelled"
        pair.transcript.assert_order(
            notified("session/cancel"), answered("session/request_permission", {"outcome": {"outcome": "cancelled"}})
        )


def test_permissions_may_be_decided_without_the_user() -> None:
    """TOOLS-CLIENT-AUTO-PERMISSION-MAY: by a policy."""
    agent = ScriptedAgent()
    agent.expect_prompt().asks_permission("List it", True).asks_permission("Delete it", False)
    client = AcpClient.builder().request_permission_handler(AllowList(titles=["List *"], otherwise=deny)).build()
    with connected_pair(agent, client) as pair:
        pair.answer()


# ---- plans


def test_a_plan_is_told_whole_and_replaces_the_one_before() -> None:
    """
    PLAN-REPORT, PLAN-REPORT-UPDATES, PLAN-COMPLETE-LIST, PLAN-CLIENT-REPLACE, PLAN-DYNAMIC-MAY: entries come, change
    and go, and the picture has what was told last.
    """
    one = v1.PlanEntry(content="one", priority="high", status="in_progress")
    done = v1.PlanEntry(content="one", priority="high", status="completed")
    two = v1.PlanEntry(content="two", priority="medium", status="pending")
    plans: list[Any] = []

    async def prompt(_: Any, context: PromptContext) -> v1.PromptResponse:
        told: list[list[v1.PlanEntry | str]] = [[one, "two"], [done, "two", "three"], ["two"]]
        for entries in told:
            await context.plan(entries)
        return END

    three = v1.PlanEntry(content="three", priority="medium", status="pending")
    with connected_pair(agent_that(prompt), tracking()) as pair:
        state = pair.session.state
        assert state is not None
        pair.session.on_update(lambda _: plans.append(list(state.plan)))
        pair.answer()
        pair.transcript.assert_order(updated("plan", entries=[{"content": "two"}]))
    assert plans == [[one, two], [done, two, three], [two]]


# ---- modes, options, commands


def option(id: str = "o", category: str | None = None) -> v1.SessionConfigSelect:
    """An option with two values."""
    values = [v1.SessionConfigSelectOption(value=value, name=value.upper()) for value in "ab"]
    return v1.SessionConfigSelect(id=id, name=id, category=category, current_value="a", options=values)


def offering(modes: Any = None, options: Any = None) -> ScriptedAgent:
    """An agent whose sessions have modes and options."""
    agent = ScriptedAgent()
    agent.allow(v1.NewSessionRequest).answers(
        v1.NewSessionResponse(session_id="s", modes=modes, config_options=options)
    )
    agent.allow(v1.SetSessionModeRequest).answers(v1.SetSessionModeResponse())
    agent.allow(v1.SetSessionConfigOptionRequest).answers(
        v1.SetSessionConfigOptionResponse(config_options=options or [])
    )
    return agent


def test_only_modes_that_are_listed() -> None:
    """MODES-SET-MODE-ID-LISTED: another is refused here, and nothing is sent."""
    modes = v1.SessionModeState(current_mode_id="m", available_modes=[v1.SessionMode(id="m", name="M")])
    with connected_pair(offering(modes)) as pair:
        with pytest.raises(ValueError, match="mode"):
            pair.session.set_mode("other")
        pair.transcript.assert_never("session/set_mode")
        success_result(pair.session.set_mode("m"))
        pair.transcript.assert_count(requested("session/set_mode", {"modeId": "m"}), 1)


def test_only_values_that_an_option_has() -> None:
    """CONFIG-SET-VALUE-VALID: another, or another option, is refused here, and nothing is sent."""
    with connected_pair(offering(options=[option()])) as pair:
        for name, value in (("o", "c"), ("p", "a"), ("o", True)):
            with pytest.raises(ValueError, match="option"):
                pair.session.set_config_option(name, value)
        pair.transcript.assert_never("session/set_config_option")
        success_result(pair.session.set_config_option("o", "b"))
        pair.transcript.assert_count(requested("session/set_config_option", {"configId": "o", "value": "b"}), 1)


@pytest.mark.parametrize("category", [None, "model", "hologram"])
def test_categories_do_not_matter(category: str | None) -> None:
    """
    CONFIG-CATEGORY-MAY, CONFIG-CATEGORY-NOT-REQUIRED-FOR-CORRECTNESS, CONFIG-CLIENT-UNKNOWN-CATEGORY: with one, without
    one and with one that nobody knows, an option can be read and set.
    """
    with connected_pair(offering(options=[option(category=category)]), tracking()) as pair:
        state = pair.session.state
        assert state is not None
        assert [each.category for each in state.config_options] == [category]  # type: ignore[union-attr]
        success_result(pair.session.set_config_option("o", "b"))


def test_options_keep_their_order_and_have_a_value() -> None:
    """
    CONFIG-CLIENT-RESPECT-ORDER, CONFIG-AGENT-DEFAULTS: in the picture of the session they stand as the agent told them,
    and there is no option without a current value.
    """
    names = ["z", "a", "m"]
    with connected_pair(offering(options=[option(name) for name in names]), tracking()) as pair:
        state = pair.session.state
        assert state is not None
        assert [each.id for each in state.config_options] == names  # type: ignore[union-attr]
    with pytest.raises(TypeError, match="current_value"):
        v1.SessionConfigBoolean(id="b", name="B")  # type: ignore[call-arg]


def test_an_option_of_an_unknown_type_is_passed_over() -> None:
    """CONFIG-CLIENT-IGNORE-UNKNOWN-TYPE: it is kept as it is, and the others work."""
    strange = {"id": "x", "name": "X", "type": "hologram", "depth": 3}
    wire = ClientOnWire(tracking())
    opening = wire.connection.new_session("/w")
    wire.respond({"sessionId": "s", "configOptions": [strange, unstructure(option()) | {"type": "select"}]})
    session = success_result(opening)
    assert session.state is not None
    unknown, known = session.state.config_options
    assert unknown == UnknownVariant("hologram", strange)
    assert known == option()
    wire.take()
    session.set_config_option("o", "b")
    assert wire.methods() == ["session/set_config_option"]


def test_commands_may_be_advertised() -> None:
    """COMMANDS-ADVERTISE-MAY: at any time, outside of turns too."""
    command = v1.AvailableCommand(name="plan", description="Make a plan")
    with connected_pair(agent_that(lambda _: END), tracking()) as pair:
        session = pair.session
        pair.agent.send_update(session.session_id, v1.AvailableCommandsUpdate(available_commands=[command]))
        assert session.state is not None
        assert session.state.commands == (command,)


# ---- files and terminals


@pytest.mark.parametrize(
    ("capabilities", "able"),
    [
        ({}, set()),
        ({"fs": {"readTextFile": True}}, {"read"}),
        ({"fs": {"writeTextFile": True}, "terminal": False}, {"write"}),
        ({"terminal": True}, {"run"}),
    ],
)
def test_an_agent_looks_before_it_asks(capabilities: dict[str, Any], able: set[str]) -> None:
    """
    FS-AGENT-CHECK-CAPABILITY, FS-AGENT-NO-CALL-WITHOUT-CAPABILITY, TERM-AGENT-CHECK-CAPABILITY,
    TERM-AGENT-NO-CALL-WITHOUT-CAPABILITY: what the client did not advertise is refused here, and nothing is sent.
    """
    refused: set[str] = set()
    calls = {
        "read": lambda context: context.read_text_file("/a"),
        "write": lambda context: context.write_text_file("/a", ""),
        "run": lambda context: context.create_terminal("ls"),
    }

    def prompt(_: Any, context: PromptContext) -> v1.PromptResponse:
        for name, call in calls.items():
            try:
                asked = call(context)
            except AcpCapabilityError:
                refused.add(name)
            else:
                if asked.called:
                    failure_of(asked, AcpCapabilityError)
                    refused.add(name)
        return END

    wire = AgentOnWire(agent_that(prompt), capabilities=capabilities)
    wire.prompt(wire.open_session())
    assert refused == set(calls) - able
    methods = {"read": "fs/read_text_file", "write": "fs/write_text_file", "run": "terminal/create"}
    assert [each for each in wire.methods() if each] == [methods[name] for name in calls if name in able]


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    """FS-CLIENT-CREATE-FILE: with its directories."""
    files = LocalFiles(tmp_path)
    path = tmp_path / "new" / "file.txt"
    files.write(v1.WriteTextFileRequest(session_id="s", path=str(path), content="text"))
    assert path.read_text(encoding="utf-8") == "text"


@pytest.mark.parametrize("limit", range(12))
def test_output_is_cut_between_characters(limit: int) -> None:
    """TERM-CLIENT-TRUNCATE-AT-CHARACTER-BOUNDARY: at its beginning, and never within one."""
    whole = "a\u00e4\u20ac\U0001f600"
    output = Output(limit)
    for byte in whole.encode():
        output.feed(bytes([byte]))
    assert whole.endswith(output.text)
    assert len(output.text.encode()) <= limit
    assert "\ufffd" not in output.text


@pytest.mark.parametrize("how", ["ends", "fails", "cancelled"])
def test_terminals_are_released(how: str) -> None:
    """TERM-AGENT-RELEASE: by C{context.execute}, once, however it ends."""
    agent = ScriptedAgent(lambda builder: builder.cancel_grace_period(1))
    agent.expect_prompt().asks(lambda context: context.execute("ls"))
    client = ScriptedClient()
    client.expect(v1.CreateTerminalRequest).answers(v1.CreateTerminalResponse(terminal_id="t"))
    waiting = client.expect(v1.WaitForTerminalExitRequest)
    if how == "ends":
        waiting.answers(v1.WaitForTerminalExitResponse(exit_code=0))
        client.expect(v1.TerminalOutputRequest).answers(v1.TerminalOutputResponse(output="", truncated=False))
    elif how == "fails":
        waiting.fails(ResourceNotFound())
    else:
        waiting.hangs()
    client.allow(v1.ReleaseTerminalRequest).answers(v1.ReleaseTerminalResponse())
    client.allow(v1.KillTerminalRequest).answers(v1.KillTerminalResponse())
    client.allow(v1.TerminalOutputRequest).answers(v1.TerminalOutputResponse(output="", truncated=False))
    with connected_pair(agent, client) as pair:
        turn = pair.prompt()
        if how == "cancelled":
            turn.cancel()
            pair.advance(1)
        turn.response.addBoth(lambda _: None)
        assert turn.response.called
        pair.transcript.assert_count(requested("terminal/release", {"terminalId": "t"}), 1)
