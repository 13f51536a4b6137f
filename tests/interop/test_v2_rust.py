"""
Version 2 with the Rust SDK: its example agent behind our client, and its example client before our agent.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from peers import peer

from acp_twisted import AcpClient, AcpVersionError, AgentCommand, RequestCancelled, ResourceNotFound
from acp_twisted.client.v2.connection import ClientConnection
from acp_twisted.schema import v2
from interop.programs import Programs
from interop.test_v2_clients import our_agent


def rust_agent() -> list[str]:
    """The SDK's echo agent, which speaks version 2 alone."""
    return peer("rust-v2-agent").command()


async def _open(reactor: Any, *versions: int) -> ClientConnection:
    client = AcpClient.builder().protocol_versions(*versions).track_sessions().build()
    link = await client.connect(reactor, AgentCommand(rust_agent()))
    connection = await link.initialize()
    assert isinstance(connection, ClientConnection)
    return connection


@pytest.mark.parametrize("versions", [(2,), (2, 1)])
async def test_prompts_with_the_rust_sdk(versions: tuple[int, ...], real_reactor: Any, workspace: Path) -> None:
    """2.30-2.33, 2.41: accepted, shown, worked on, done; chunks and then the whole message are one message."""
    connection = await _open(real_reactor, *versions)
    session = await connection.new_session(str(workspace))
    prompts = [session.prompt(text) for text in ("one", "two", "three")]
    for prompt in prompts:
        assert (await prompt).stop_reason == "end_turn"
    picture = session.state
    assert picture is not None
    assert [each.text for each in picture.messages if each.role == "agent"] == ["Echo: one", "Echo: two", "Echo: three"]
    users = [each.message_id for each in picture.messages if each.role == "user"]
    assert users == [await prompt.accepted for prompt in prompts]
    await connection.close()


async def test_a_held_prompt_with_the_rust_sdk(real_reactor: Any, workspace: Path) -> None:
    """V2N9, X12: withdrawn prompts and dropped ones are answered -32800 or were inserted; each has one end."""
    connection = await _open(real_reactor, 2)
    session = await connection.new_session(str(workspace))
    prompts = [session.prompt(str(number)) for number in range(8)]
    prompts[5].cancel()
    prompts[6].accepted.cancel()
    session.cancel()
    for number, prompt in enumerate(prompts):
        if number == 6:
            with pytest.raises(RequestCancelled):
                await prompt
        else:
            assert (await prompt).stop_reason in ("end_turn", "cancelled")
    assert (await session.prompt("after")).stop_reason == "end_turn"
    assert not session.stopping
    await connection.close()


async def test_the_life_of_a_session_with_the_rust_sdk(real_reactor: Any, workspace: Path) -> None:
    """2.20, 2.96, V2N10: replay, list, close; what is closed is unknown, and closing it again succeeds."""
    connection = await _open(real_reactor, 2)
    session = await connection.new_session(str(workspace))
    await session.prompt("hello")
    assert session.state is not None
    before = [each.text for each in session.state.messages]
    await connection.resume_session(session.session_id, str(workspace), replay=True)
    assert [each.text for each in session.state.messages] == before
    listed = await connection.list_sessions(str(workspace))
    assert [each.session_id for each in listed.sessions] == [session.session_id]
    assert await session.close() == v2.CloseSessionResponse()
    again = connection.require_session(session.session_id)
    with pytest.raises(ResourceNotFound):
        await again.prompt("x")
    assert await again.close() == v2.CloseSessionResponse()
    await connection.close()


async def test_a_client_of_version_1_leaves_the_rust_agent(real_reactor: Any) -> None:
    """2.7: it answers -32022, and names version 2."""
    client = AcpClient.builder().protocol_versions(1).build()
    link = await client.connect(real_reactor, AgentCommand(rust_agent()))
    with pytest.raises(AcpVersionError):
        await link.initialize()
    await link.when_closed()


@pytest.mark.parametrize("versions", ["2", "1,2"])
@pytest.mark.parametrize("text", ["hello", "stream 3", "permission"])
async def test_the_rust_client_with_our_agent(versions: str, text: str, programs: Programs, workspace: Path) -> None:
    """2.30-2.34: the SDK's one-shot client waits for idle, refuses permissions, and closes the session."""
    argv = peer("rust-v2-client").command("--command", shlex.join(our_agent(versions)), text)
    outcome = await programs.run(argv, cwd=workspace)
    assert outcome.code == 0, outcome.explain()
    assert outcome.stdout.strip() == {"hello": "hello", "stream 3": "123", "permission": '"no"'}[text]
    assert "idle: Some(EndTurn)" in outcome.stderr, outcome.explain()
