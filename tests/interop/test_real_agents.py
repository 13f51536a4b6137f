"""
Our client, driving the agents of other people.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from peers import peer

from acp_twisted import (
    AcpConnectionError,
    AcpError,
    AgentCommand,
    ClientSession,
    MethodNotFound,
    RequestCancelled,
    ResourceNotFound,
)
from acp_twisted.schema import v1
from interop.editor import Editor, play, texts
from interop.fake_model import FakeModel
from interop.programs import SOURCES, alive, members, until
from interop.recorder import Recorded
from interop.remote import open_session


def ts_agent() -> list[str]:
    """An agent on the TypeScript SDK 2.4.0."""
    ts = peer("ts24")
    return ts.command(SOURCES / "ts_agent.mjs", ts.folder)


def py_agent() -> list[str]:
    """An agent on the official Python SDK 0.12.1."""
    return peer("python-sdk").command(SOURCES / "py_agent.py")


def chuk_agent() -> list[str]:
    """An agent on chuk-acp's base class."""
    return peer("chuk-acp-python").command(SOURCES / "chuk_agent.py")


SDKS = pytest.mark.parametrize("command", [ts_agent, py_agent])


async def say(session: ClientSession, text: str) -> list[str]:
    """
    One turn that ends well; what the agent said.
    """
    reason, updates = await play(session.prompt(text))
    assert reason == "end_turn"
    return texts(updates)


# ---- agents on the two official SDKs


@SDKS
async def test_a_session_with_everything(command: Callable[[], list[str]], editor: Editor, workspace: Path) -> None:
    """The main job: initialize, a session, a stream in order, a permission, files, a terminal, updates of each kind."""
    session = await editor.open(command(), cwd=workspace)
    assert session.connection.agent_info is not None
    assert session.connection.agent_info.name in ("ts-agent", "py-agent")
    assert await say(session, "stream 100") == [str(n) for n in range(1, 101)]
    (outcome,) = await say(session, "permission")
    assert json.loads(outcome) == {"outcome": "selected", "optionId": "yes"}
    editor.permit = "reject"
    (outcome,) = await say(session, "permission")
    assert json.loads(outcome)["optionId"] == "no"
    assert await say(session, f"read {workspace / 'notes.txt'}") == ["first line\nsecond line\n"]
    (written,) = await say(session, f"write {workspace / 'new.txt'} hello there")
    assert written.startswith("written")
    assert (workspace / "new.txt").read_text() == "hello there"
    (ran,) = await say(session, "run echo hello; exit 3")
    assert json.loads(ran) == {"output": "hello\n", "exitCode": 3}
    assert editor.terminals == {}
    reason, updates = await play(session.prompt("tool"))
    assert reason == "end_turn"
    assert [type(update) for update in updates][:3] == [v1.ToolCall, v1.ToolCallUpdate, v1.Plan]


@SDKS
async def test_cancelling_a_turn(command: Callable[[], list[str]], editor: Editor, workspace: Path) -> None:
    """V1C5: session/cancel ends the turn with cancelled, its last updates come first, and the session goes on."""
    session = await editor.open(command(), cwd=workspace)
    turn = session.prompt("slow")

    def cancel_at_third(update: object) -> None:
        if texts([update]) == ["tick 3"]:
            turn.cancel()

    reason, updates = await play(turn, cancel_at_third)
    assert reason == "cancelled"
    assert texts(updates)[:3] == ["tick 1", "tick 2", "tick 3"]
    assert await say(session, "stream 2") == ["1", "2"]


@SDKS
async def test_errors(command: Callable[[], list[str]], editor: Editor, workspace: Path) -> None:
    """An agent's error reaches the caller whole; one of ours reaches the agent; the session goes on."""
    session = await editor.open(command(), cwd=workspace)
    with pytest.raises(AcpError) as caught:
        await play(session.prompt("fail"))
    assert (caught.value.code, caught.value.data) == (-32055, {"asked": True})
    with pytest.raises(AcpError):
        await play(session.prompt(f"read {workspace / 'missing.txt'}"))
    assert await say(session, "stream 1") == ["1"]


async def test_requests_that_the_agent_does_not_know(editor: Editor, workspace: Path) -> None:
    """An extension that nobody handles is -32601 with one SDK, and null with the other (interop 7.4)."""
    session = await editor.open(ts_agent(), cwd=workspace)
    with pytest.raises(MethodNotFound):
        await session.connection.ext_request("_nobody/knows", {"a": 1})
    session = await editor.open(py_agent(), cwd=workspace)
    assert await session.connection.ext_request("_nobody/knows", {"a": 1}) is None


@SDKS
async def test_a_line_of_three_megabytes(command: Callable[[], list[str]], editor: Editor, workspace: Path) -> None:
    """Interop 7.1: long lines both ways."""
    session = await editor.open(command(), cwd=workspace)
    text = "y" * 3_000_000
    assert await say(session, text) == [text]


async def test_typescript_sees_our_cancel_request(editor: Editor, workspace: Path) -> None:
    """X9: giving the prompt up sends $/cancel_request; the SDK's handler aborts, and its late -32800 is dropped."""
    where = Recorded(AgentCommand(ts_agent(), cwd=str(workspace)))
    session = await open_session(editor, where, cwd=workspace)
    turn = session.prompt("slow")
    await until(editor.reactor, lambda: "tick 2" in texts([each.update for each in editor.updates]))
    turn.response.cancel()
    with pytest.raises(RequestCancelled) as caught:
        await turn
    assert not caught.value.remote
    # Until its late answer, the agent may still say something of the turn that we have left.
    await where.until_refused(editor.reactor, 1)
    ticks = [text for text in texts([each.update for each in editor.updates]) if text.startswith("tick")]
    assert await say(session, "stream 3") == ["1", "2", "3"]
    assert await say(session, "stream 1") == ["1"]
    assert [text for text in texts([each.update for each in editor.updates]) if text.startswith("tick")] == ticks


async def test_typescript_cancels_its_own_request(editor: Editor, workspace: Path) -> None:
    """X3: the agent's $/cancel_request of terminal/wait_for_exit cancels our handler, and is answered -32800."""
    session = await editor.open(ts_agent(), cwd=workspace)
    assert await say(session, "cancel-wait sleep 60") == ["cancelled -32800"]
    assert editor.methods() == ["terminal/create", "terminal/wait_for_exit", "terminal/kill", "terminal/release"]


async def test_typescript_waits_for_a_permission_when_the_turn_is_cancelled(editor: Editor, workspace: Path) -> None:
    """V1C3: the open permission request is answered cancelled by the library, and the turn ends cancelled."""
    editor.permit = "hold"
    session = await editor.open(ts_agent(), cwd=workspace)
    turn = session.prompt("slow-permission")
    await until(editor.reactor, lambda: len(editor.held) == 1)
    turn.cancel()
    reason, updates = await play(turn)
    assert reason == "cancelled"
    assert texts(updates) == ["asking", '{"outcome":"cancelled"}']


async def test_typescript_modes_and_close(editor: Editor, workspace: Path) -> None:
    """The rest of a session's life; what was said before session/new was answered is not lost (interop 7.2)."""
    session = await editor.open(ts_agent(), cwd=workspace)
    assert isinstance(session.opened, v1.NewSessionResponse)
    assert session.opened.modes is not None
    assert session.opened.modes.current_mode_id == "m"
    assert [type(update) for update in session.take_updates()] == [v1.AvailableCommandsUpdate]
    await session.set_mode("m")
    await session.close()


# ---- examples


@pytest.mark.slow
async def test_typescript_example(editor: Editor, workspace: Path) -> None:
    """SDK 1.9.0's example agent: ids from 0, tool calls, a permission, in about five seconds."""
    session = await editor.open(peer("ts-agent").command(), cwd=workspace)
    reason, updates = await play(session.prompt("hello"))
    assert reason == "end_turn"
    calls = [update for update in updates if isinstance(update, v1.ToolCall)]
    assert [call.status for call in calls] == ["pending", "pending"]
    assert [update.status for update in updates if isinstance(update, v1.ToolCallUpdate)] == ["completed", "completed"]
    assert editor.methods() == ["session/request_permission"]
    assert len(texts(updates)) >= 3


async def test_typescript_example_cancelled(editor: Editor, workspace: Path) -> None:
    """Its turn ends cancelled at its next pause."""
    session = await editor.open(peer("ts-agent").command(), cwd=workspace)
    turn = session.prompt("hello")
    reason, _ = await play(turn, lambda update: turn.cancel())
    assert reason == "cancelled"


async def test_dual_version_agent(editor: Editor, workspace: Path) -> None:
    """An agent of both versions speaks version 1 with us."""
    session = await editor.open(peer("ts-dual-version-agent").command(), cwd=workspace)
    assert await play(session.prompt("hello"))


@pytest.mark.parametrize(("asked", "code"), [(0, -32022), (2, -32602)])
async def test_dual_version_agent_refuses_by_an_error(editor: Editor, workspace: Path, asked: int, code: int) -> None:
    """Version negotiation by error, not by a lower number: the caller gets the code and what is supported."""
    connection = await editor.start(peer("ts-dual-version-agent").command(), cwd=workspace)
    with pytest.raises(AcpError) as caught:
        await connection.ext_request("initialize", {"protocolVersion": asked, "clientCapabilities": {}})
    assert caught.value.code == code
    if code == -32022:
        assert caught.value.data == {"requested": 0, "supported": [1, 2]}
    assert isinstance(await connection.when_closed(), AcpConnectionError), "it hangs up behind its refusal"


async def test_python_echo_example(editor: Editor, workspace: Path) -> None:
    """Meta at three levels survives; null results count as empty ones, or as no answer (interop 7.4)."""
    # It has no modes to set, and says so with null.
    session = await editor.open(peer("python-sdk-echo-agent").command(), cwd=workspace, gates=False)
    reason, (update,) = await play(session.prompt("hello"))
    assert reason == "end_turn"
    assert isinstance(update, v1.AgentMessageChunk)
    assert update.meta == {"echo": True}
    assert isinstance(update.content, v1.TextContent)
    assert update.content.meta == {"echo": True}
    assert editor.updates[0].meta == {"source": "echo_agent"}
    await session.set_mode("anything")


async def test_python_example(editor: Editor, workspace: Path) -> None:
    """The SDK's other example: several blocks come back as they went, though it advertises none of them."""
    session = await editor.open(peer("python-sdk-agent").command(), cwd=workspace, gates=False)
    blocks: list[v1.ContentBlock] = [
        v1.TextContent(text="look at"),
        v1.ResourceLink(name="notes", uri="file:///notes.txt", mime_type="text/plain", size=3),
        v1.EmbeddedResource(resource=v1.TextResourceContents(uri="file:///a.txt", text="a")),
        v1.ImageContent(data="AAAA", mime_type="image/png"),
    ]
    reason, updates = await play(session.prompt(blocks))
    assert reason == "end_turn"
    echoed = [update.content for update in updates if isinstance(update, v1.AgentMessageChunk)]
    assert echoed[1:] == blocks
    assert await session.connection.ext_request("_anything") == {"example": "response"}


@pytest.mark.parametrize("prompt", ["hello", "other"])
async def test_acp_agent_dummy(editor: Editor, workspace: Path, prompt: str) -> None:
    """acp-agent's dummy: no authMethods, legacy models in session/new, list, load and resume."""
    command = peer("acp-agent").command("dummy", "--seed", "1")
    session = await editor.open(command, cwd=workspace)
    connection = session.connection
    assert connection.agent_info is not None
    assert connection.agent_info.name == "acp-agent-dummy"
    assert await say(session, prompt) == ["dummy: jolt brisk ember brisk harbor."]
    await session.set_mode("default")
    listed = await connection.list_sessions()
    assert session.session_id in [each.session_id for each in listed.sessions]
    loaded = await connection.load_session(session.session_id, cwd=str(workspace))
    assert await say(loaded, prompt)
    with pytest.raises(MethodNotFound):  # it advertises session/resume, but its SDK hides it behind a flag
        await connection.resume_session(session.session_id, cwd=str(workspace))


async def test_chuk_agent_answers_a_notification(editor: Editor, workspace: Path) -> None:
    """Its answer to session/cancel, with an id that nobody used, is dropped; the link goes on (interop 7.7)."""
    session = await editor.open(chuk_agent(), cwd=workspace)
    assert await say(session, "one two three") == ["one", "two", "three"]
    turn = session.prompt("four five")
    turn.cancel()
    await play(turn)
    assert await say(session, "six") == ["six"]
    with pytest.raises(AcpError) as caught:
        await session.connection.ext_request("_nobody/knows")
    assert caught.value.code == -32603


# ---- fast-agent: a coding agent whose model repeats what it is told


async def fast_agent(editor: Editor, folder: Path) -> ClientSession:
    """
    A session with fast-agent's passthrough model, its home in the folder.
    """
    command = peer("fast-agent").command("--model", "passthrough", "-x")
    return await editor.open(command, cwd=folder, env={"HOME": str(folder)})


@pytest.mark.slow
async def test_fast_agent_calls_everything(editor: Editor, workspace: Path) -> None:
    """Permission, fs both ways and a terminal for real, asked for by an agent that real people use."""
    session = await fast_agent(editor, workspace)
    assert "".join(await say(session, "just these words")) == "just these words"
    call = json.dumps({"path": str(workspace / "notes.txt")})
    assert "first line" in "".join(await say(session, f"***CALL_TOOL read_text_file {call}"))
    call = json.dumps({"path": str(workspace / "new.txt"), "content": "hello there"})
    await say(session, f"***CALL_TOOL write_text_file {call}")
    assert (workspace / "new.txt").read_text() == "hello there"
    shown = "".join(await say(session, '***CALL_TOOL execute {"command": "echo shell-hi"}'))
    assert "shell-hi" in shown
    assert {"session/request_permission", "fs/read_text_file", "fs/write_text_file", "terminal/create"} <= set(
        editor.methods()
    )
    with pytest.raises(ResourceNotFound):
        await session.connection.load_session("no-such-session", cwd=str(workspace))


@pytest.mark.slow
async def test_fast_agent_denied(editor: Editor, workspace: Path) -> None:
    """A rejected permission keeps it from writing."""
    editor.permit = "reject"
    session = await fast_agent(editor, workspace)
    call = json.dumps({"path": str(workspace / "new.txt"), "content": "hello there"})
    await say(session, f"***CALL_TOOL write_text_file {call}")
    assert not (workspace / "new.txt").exists()


@pytest.mark.slow
async def test_fast_agent_leaves_its_terminal_when_it_is_cancelled(editor: Editor, workspace: Path) -> None:
    """Interop 7.10: the cancelled turn leaves a command running; the editor ends it, and the open wait is settled."""
    session = await fast_agent(editor, workspace)
    turn = session.prompt(f"***CALL_TOOL execute {json.dumps({'command': 'sleep 600'})}")
    await until(editor.reactor, lambda: "terminal/wait_for_exit" in editor.methods())
    (terminal,) = editor.terminals.values()
    turn.cancel()
    reason, _ = await play(turn)
    assert reason == "cancelled"
    assert "terminal/release" not in editor.methods()
    pid = terminal.process.pid
    assert alive(pid)
    assert len(editor.clean_up(session.session_id)) == 1
    await until(editor.reactor, lambda: not terminal.waiting)  # the kernel knows of its end before our reactor does
    assert not alive(pid)
    assert await say(session, "still there")


# ---- codex-acp: a vendor's agent in Rust, on a model of ours


async def codex(editor: Editor, folder: Path, address: str) -> ClientSession:
    """
    A session with codex-acp, whose home is in the folder and whose model is ours.
    """
    settings = folder / ".codex"
    settings.mkdir()
    (settings / "config.toml").write_text(
        'model = "fake"\n'
        'model_provider = "fake"\n'
        "[model_providers.fake]\n"
        'name = "fake"\n'
        f'base_url = "{address}"\n'
        'env_key = "FAKE_KEY"\n'
        'wire_api = "responses"\n'
    )
    environment = {"HOME": str(folder), "CODEX_HOME": str(settings), "FAKE_KEY": "x"}
    return await editor.open(peer("codex-acp").command(), cwd=folder, env=environment)


async def test_codex(editor: Editor, workspace: Path, fake_model: tuple[FakeModel, str]) -> None:
    """A Rust agent: the result before the id, a stream from a model, and a cancelled turn (interop 7.3)."""
    model, address = fake_model
    session = await codex(editor, workspace, address)
    words = await say(session, "hello there friend")
    assert words[-3:] == ["hello ", "there ", "friend "]
    turn = session.prompt("SLOW answer, please")

    def cancel_at_third(update: object) -> None:
        if texts([update]) == ["w2 "]:
            turn.cancel()

    reason, updates = await play(turn, cancel_at_third)
    assert reason == "cancelled"
    assert "w2 " in texts(updates)
    await until(editor.reactor, lambda: model.hung_up == 1)
    assert (await say(session, "and again"))[-2:] == ["and ", "again "]


async def test_codex_ignores_the_end_of_its_input(
    editor: Editor, workspace: Path, fake_model: tuple[FakeModel, str], real_reactor: Any
) -> None:
    """Interop 7.9: it has to be told twice to go, and its children with it."""
    session = await codex(editor, workspace, fake_model[1])
    group = session_group(session)
    assert len(members(group)) >= 2, "the launcher and the agent"
    started = real_reactor.seconds()
    await session.connection.close()
    assert real_reactor.seconds() - started > 0.9
    await until(real_reactor, lambda: members(group) == [])


def session_group(session: ClientSession) -> int:
    """
    The process group of a session's agent.
    """
    transport: Any = session.connection.peer._transport
    pid = transport.pid
    assert isinstance(pid, int)
    return pid
