"""
What both halves must stand because real peers do it; the numbers are those of the list that was made of their wires.

Where no peer that can be installed shows it, a small agent or client of lines does.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_twisted import Limits
from acp_twisted.schema import v1
from acp_twisted.schema.converter import unstructure
from interop.editor import Editor, gone, play, texts
from interop.line_agent import line_agent_command
from interop.odd_agent import UPDATES
from interop.programs import OUR_AGENT, PATIENCE, Programs, until
from interop.raw_client import RawClient


def habit(name: str) -> list[str]:
    """
    The command line of the agent with a habit.
    """
    return line_agent_command("odd_agent", "HABITS", name)


RawClients = Callable[..., RawClient]


@pytest.fixture
def raw(programs: Programs, real_reactor: Any, workspace: Path) -> RawClients:
    """
    Starts our scripted agent, with these arguments, and a raw client with it.
    """
    return lambda *arguments: RawClient(programs, real_reactor, [*OUR_AGENT, *arguments], workspace)


# ---- 1: long lines


@pytest.mark.parametrize("size", [20_000, 70_000, 560_000, 5_000_000])
async def test_1_long_lines(size: int, raw: RawClients) -> None:
    """Beyond 16 KiB (Twisted's line receivers), 64 KiB (asyncio's streams and pipes) and what qwen sends, both ways."""
    client = raw()
    session = await client.begin()
    client.prompt(1, session, "len " + "y" * size)
    await client.answer(1)
    client.prompt(2, session, f"big {size}")
    await client.answer(2)
    assert client.words() == [str(size + 4), "x" * size]


# ---- 2: updates at any time


async def test_2_updates_before_the_session_after_the_answer_and_between_turns(editor: Editor, workspace: Path) -> None:
    """None is lost, none ends up in a turn that it does not belong to, and the update handler sees all, in order."""
    session = await editor.open(habit("talkative"), cwd=workspace)
    await until(editor.reactor, lambda: len(editor.updates) == 2)
    assert [type(each) for each in session.take_updates()] == [v1.AvailableCommandsUpdate, v1.UsageUpdate]
    assert editor.notes == [("_vendor/ready", {"a": 1})]
    reason, updates = await play(session.prompt("hello"))
    assert (reason, texts(updates), len(updates)) == ("end_turn", ["during"], 1)
    await until(editor.reactor, lambda: len(editor.updates) == 4)
    assert [each.title for each in session.take_updates() if isinstance(each, v1.SessionInfoUpdate)] == ["after"]
    assert {each.session_id for each in editor.updates} == {session.session_id}


# ---- 3: ids


async def test_3_the_agent_uses_our_numbers_zero_and_uuids_at_once(editor: Editor, workspace: Path) -> None:
    """Ids are per direction, and come back with their type; the order of keys means nothing."""
    session = await editor.open(habit("uuids"), cwd=workspace)
    reason, updates = await play(session.prompt("hello"))
    assert reason == "end_turn"
    answered = [json.loads(text) for text in texts(updates)]
    assert [each[1] for each in answered] == ["first line\nsecond line\n"] * 3
    assert sorted(type(each[0]).__name__ for each in answered) == ["int", "int", "str"]


async def test_3_the_client_uses_our_numbers_zero_and_uuids_at_once(raw: RawClients, workspace: Path) -> None:
    """1 and "1" are two requests at once, and our own request 1 is a third."""
    client = raw()
    session = await client.begin()
    client.request("two", "session/new", {"cwd": str(workspace), "mcpServers": []})
    other = (await client.answer("two"))["result"]["sessionId"]
    client.prompt(1, session, "read /some/file")
    asked = await client.asked("fs/read_text_file")
    assert asked["id"] == 1
    client.prompt("1", other, "stream 1")
    await client.answer("1")
    line = {"result": {"content": "from the editor"}, "id": asked["id"], "jsonrpc": "2.0"}
    client.send(line)
    await client.answer(1)
    assert client.words() == ["1", "from the editor"]
    for number in (2**63 - 1, -5, "0d3bc2f8-7a7e-4e2a-9a43-1c1d7c9f2a10", ""):
        client.send({"params": {}, "method": "_nobody/knows", "id": number, "jsonrpc": "2.0"})
        assert (await client.answer(number))["error"]["code"] == -32601


# ---- 4: empty results


@pytest.mark.parametrize("kind", ["empty-results", "null-results"])
async def test_4_the_agent_answers_with_nothing(kind: str, editor: Editor, workspace: Path) -> None:
    """C{{}} and C{null} are the same empty response for authenticate, set_mode, load, resume, close and logout."""
    connection = await editor.start(habit(kind), cwd=workspace, gates=False)
    await connection.initialize()
    assert isinstance(await connection.authenticate("key"), v1.AuthenticateResponse)
    session = await connection.new_session(cwd=str(workspace))
    assert isinstance(await session.set_mode("any"), v1.SetSessionModeResponse)
    assert isinstance(await connection.call(v1.LogoutRequest()), v1.LogoutResponse)
    load = v1.LoadSessionRequest(session_id="s1", cwd=str(workspace), mcp_servers=[])
    assert isinstance(await connection.call(load), v1.LoadSessionResponse)
    close = v1.CloseSessionRequest(session_id="s1")
    assert isinstance(await connection.call(close), v1.CloseSessionResponse)


@pytest.mark.parametrize("nothing", [{}, None])
async def test_4_the_client_answers_with_nothing(nothing: object, raw: RawClients) -> None:
    """The same for write_text_file, terminal/kill and terminal/release."""
    client = raw()
    session = await client.begin()
    client.prompt(1, session, "write /some/file text")
    client.reply(await client.asked("fs/write_text_file"), result=nothing)
    await client.answer(1)
    client.prompt(2, session, "run true")
    client.reply(await client.asked("terminal/create"), result={"terminalId": "t"})
    client.reply(await client.asked("terminal/wait_for_exit"), result={"exitCode": 0, "signal": None})
    client.reply(await client.asked("terminal/output"), result={"output": "o", "truncated": False})
    client.reply(await client.asked("terminal/kill"), result=nothing)
    client.reply(await client.asked("terminal/release"), result=nothing)
    assert (await client.answer(2))["result"]["stopReason"] == "end_turn"
    assert client.words() == ["written", '{"output":"o","exitCode":0}']


# ---- 5: members left out, null or unknown


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"clientCapabilities": None, "clientInfo": None, "_meta": None, "field_meta": None},
        {"capabilities": {}, "zzz": 1, "clientCapabilities": {"fs": None, "terminal": None, "zzz": {}}},
        {"clientInfo": {"name": "x", "version": "1", "title": None, "zzz": 1}},
    ],
    ids=["left-out", "null", "unknown", "more"],
)
async def test_5_the_client_says_little(members: dict[str, Any], raw: RawClients) -> None:
    """An initialize with nothing but the version, with nulls, and with members that nobody knows."""
    client = raw()
    session = await client.begin({"protocolVersion": 1, **members})
    client.prompt(1, session, "stream 1")
    assert (await client.answer(1))["result"]["stopReason"] == "end_turn"


async def test_5_the_agent_says_little(editor: Editor, workspace: Path) -> None:
    """No authMethods, no agentInfo, no capabilities; legacy C{models} beside nulls in session/new."""
    session = await editor.open(habit("terse"), cwd=workspace)
    connection = session.connection
    assert connection.agent_info is None
    assert list(connection.auth_methods) == []
    assert isinstance(session.opened, v1.NewSessionResponse)
    assert session.opened.modes is None
    assert (await play(session.prompt("hello")))[0] == "end_turn"


# ---- 6: methods of vendors


async def test_6_the_agent_has_methods_of_its_own(editor: Editor, workspace: Path) -> None:
    """A request without an underscore is -32601, a notification is dropped; both quietly."""
    session = await editor.open(habit("vendor"), cwd=workspace)
    reason, updates = await play(session.prompt("hello"))
    assert (reason, texts(updates)) == ("end_turn", ["-32601"])


async def test_6_the_client_has_methods_of_its_own(raw: RawClients) -> None:
    """The same for our agent, before and after initialize."""
    client = raw()
    client.notify("vendor/hello")
    session = await client.begin()
    client.notify("vendor/note", {"a": 1})
    client.notify("$/vendor")
    client.request(1, "vendor/ask")
    assert (await client.answer(1))["error"]["code"] == -32601
    client.prompt(2, session, "stream 1")
    await client.answer(2)
    assert [each.get("id") for each in client.messages if "method" not in each] == [0, "new", 1, 2]


# ---- 7: lines that are no messages


async def test_7_the_agent_prints_what_it_likes(editor: Editor, workspace: Path) -> None:
    """Our client skips and counts such lines, logs an error without an id, and answers none of them."""
    session = await editor.open(habit("noisy"), cwd=workspace)
    reason, updates = await play(session.prompt("hello"))
    assert (reason, texts(updates)) == ("end_turn", ["fine"])
    assert session.connection.peer.stray_messages == 3
    assert (await play(session.prompt("again")))[0] == "end_turn"
    assert not (workspace / "answered").exists()


async def test_7_the_client_sends_an_error_without_an_id(raw: RawClients) -> None:
    """Our agent logs it and sends nothing."""
    client = raw()
    session = await client.begin()
    client.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
    client.send({"jsonrpc": "2.0", "id": 4711, "result": {}})
    client.send("")
    client.prompt(1, session, "stream 1")
    await client.answer(1)
    assert [each["id"] for each in client.messages if "method" not in each] == [0, "new", 1]


# ---- 8: kinds of updates


async def test_8_every_kind_of_update(editor: Editor, workspace: Path) -> None:
    """Each kind that was seen decodes to its class, partial ones too, and goes out again as it came."""
    session = await editor.open(habit("all-kinds"), cwd=workspace)
    turn = session.prompt("hello")
    reason, updates = await play(turn)
    assert reason == "end_turn"
    kinds = [type(each).__name__ for each in updates]
    assert kinds == [
        "AgentMessageChunk",
        "UserMessageChunk",
        "AgentThoughtChunk",
        "ToolCall",
        "ToolCallUpdate",
        "Plan",
        "AvailableCommandsUpdate",
        "CurrentModeUpdate",
        "ConfigOptionUpdate",
        "SessionInfoUpdate",
        "UsageUpdate",
        "AgentMessageChunk",
    ]
    chunk = updates[0]
    assert isinstance(chunk, v1.AgentMessageChunk)
    assert chunk.message_id == "m1"
    for sent, update in zip(UPDATES, updates, strict=False):
        written = {"sessionUpdate": sent["sessionUpdate"], **without_nulls(unstructure(update))}
        assert {name: written.get(name) for name in without_nulls(sent)} == without_nulls(sent)


def without_nulls(value: Any) -> Any:
    """
    JSON without the members that are null.
    """
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


# ---- 9: the end


async def test_9_an_agent_that_takes_its_time_to_leave(editor: Editor, workspace: Path) -> None:
    """Within the grace nobody is killed: what it writes at its end is written."""
    session = await editor.open(habit("slow-to-leave"), cwd=workspace, limits=Limits(exit_grace=PATIENCE))
    await play(session.prompt("hello"))
    await session.connection.close()
    assert (workspace / "left").read_text() == "in good order"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_9_a_signal_in_the_middle_of_a_turn(number: signal.Signals, raw: RawClients) -> None:
    """The turn is cancelled, answered and flushed, then our agent exits with 0."""
    client = raw()
    session = await client.begin()
    client.prompt(1, session, "stream 100000 0.02")
    await until(client._reactor, lambda: len(client.words()) > 2)
    client.process.signalProcess(number.name.removeprefix("SIG"))
    outcome = await client.done
    assert (outcome.code, outcome.signal) == (0, None), outcome.explain()
    assert client.messages[-1]["id"] == 1
    assert client.messages[-1]["error"]["code"] == -32800


async def test_9_the_input_ends_in_the_middle_of_a_turn(raw: RawClients) -> None:
    """It is a half-close and no cancel: the turn runs to its end, is answered, and our agent exits with 0."""
    client = raw()
    session = await client.begin()
    client.prompt(1, session, "stream 20 0.02")
    await until(client._reactor, lambda: len(client.words()) > 2)
    outcome = await client.hang_up()
    assert (outcome.code, outcome.signal) == (0, None), outcome.explain()
    assert client.messages[-1] == {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}
    assert client.words() == [str(n) for n in range(1, 21)]


# ---- 10: what a cancelled turn leaves open


async def test_10_a_cancelled_turn_leaves_its_terminal(editor: Editor, workspace: Path) -> None:
    """The agent's wait stays open until the client cleans up the session's terminals, and is then answered."""
    session = await editor.open(habit("forgetful"), cwd=workspace)
    turn = session.prompt("hello")
    await until(editor.reactor, lambda: "terminal/wait_for_exit" in editor.methods())
    turn.cancel()
    reason, _ = await play(turn)
    assert reason == "cancelled"
    (terminal,) = editor.terminals.values()
    assert len(terminal.waiting) == 1
    assert session.connection.peer.incoming_requests == 1
    assert len(editor.clean_up(session.session_id)) == 1
    await gone(editor, terminal.process.pid)
    await until(editor.reactor, lambda: session.connection.peer.incoming_requests == 0)
    assert (await play(session.prompt("again")))[0] == "end_turn"


# ---- 11: answers that are wrong or never come


@pytest.mark.parametrize("result", ["allow", {"outcome": "allow"}, {"optionId": "allow"}, None, []])
async def test_11_a_permission_answer_that_is_none(result: object, raw: RawClients) -> None:
    """A bare string (acpbox) is an error to the handler, and never a permission."""
    client = raw()
    session = await client.begin()
    client.prompt(1, session, "permission")
    client.reply(await client.asked("session/request_permission"), result=result)
    await client.answer(1)
    assert client.words() == ['["error -32603"]']
    client.prompt(2, session, "stream 1")
    assert (await client.answer(2))["result"]["stopReason"] == "end_turn"


@pytest.mark.parametrize("prompt", ["read /some/file", "write /some/file text", "run true", "permission"])
async def test_11_a_request_that_is_never_answered(prompt: str, raw: RawClients) -> None:
    """The request timeout frees the turn, and cancels the request once (chuk, acpbox)."""
    client = raw("--request-timeout", "0.3")
    session = await client.begin()
    client.prompt(1, session, prompt)
    assert (await client.answer(1))["result"]["stopReason"] == "end_turn"
    assert client.words()[0].strip('["]') == "error -32603"
    assert len([each for each in client.messages if each.get("method") == "$/cancel_request"]) == 1


@pytest.mark.parametrize("prompt", ["read /some/file", "write /some/file text", "permission"])
@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request"])
async def test_11_a_turn_that_waits_for_an_answer_can_be_cancelled(prompt: str, how: str, raw: RawClients) -> None:
    """V1C5, X9: whoever never answers can still cancel; the grace period ends what session/cancel alone does not."""
    client = raw("--grace", "0.3")
    session = await client.begin()
    client.prompt(1, session, prompt)
    await client.find(lambda each: "method" in each and "id" in each)
    if how == "session/cancel":
        client.notify("session/cancel", {"sessionId": session})
        assert (await client.answer(1))["result"]["stopReason"] == "cancelled"
    else:
        client.notify("$/cancel_request", {"requestId": 1})
        assert (await client.answer(1))["error"]["code"] == -32800
    client.prompt(2, session, "stream 1")
    assert (await client.answer(2))["result"]["stopReason"] == "end_turn"
