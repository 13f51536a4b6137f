"""
Clients and agents of version 1, of version 2 and of both, each with each: what is spoken, and who refuses whom.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from acp_twisted import AcpClient, AcpVersionError, AgentCommand
from acp_twisted.client.service import ClientService
from acp_twisted.schema import v1
from interop.programs import Programs
from interop.test_v2_typescript import ts_agent

COMMAND = [str(Path(sys.executable).with_name("acp-twisted")), "prompt"]

# The client's versions, the agent's, and what they speak; none where one refuses the other.
COMBINATIONS = [
    ("1", "1", 1),
    ("1", "2", None),
    ("1", "1,2", 1),
    ("2", "1", None),
    ("2", "2", 2),
    ("2", "1,2", 2),
    ("2,1", "1", 1),
    ("2,1", "2", 2),
    ("2,1", "1,2", 2),
]
EACH = pytest.mark.parametrize(("client", "agent", "spoken"), COMBINATIONS)


@EACH
async def test_our_client_with_the_typescript_sdk(
    client: str, agent: str, spoken: int | None, real_reactor: Any, workspace: Path
) -> None:
    """2.7: all nine; after initialize each connection speaks its own version's words, and a prompt is answered."""
    versions = [int(each) for each in client.split(",")]
    made = AcpClient.builder().protocol_versions(*versions).build()
    link = await made.connect(real_reactor, AgentCommand(ts_agent(agent)))
    if spoken is None:
        with pytest.raises(AcpVersionError):
            await link.initialize()
        await link.when_closed()
        return
    connection: Any = await link.initialize()
    assert connection.protocol_version == spoken
    session = await connection.new_session(str(workspace))
    prompt = session.prompt("stream 2")
    updates = [type(each).__name__ async for each in prompt.updates()]
    assert (await prompt).stop_reason == "end_turn"
    assert updates.count("AgentMessageChunk") == (1 if spoken == 1 else 2)
    await connection.close()


@pytest.mark.parametrize(("agent", "spoken"), [("1", 1), ("2", 2), ("1,2", 2)])
async def test_a_service_of_both_versions(agent: str, spoken: int, real_reactor: Any, workspace: Path) -> None:
    """A service keeps a connection of whichever version the agent speaks, and makes a new one when it is lost."""
    service = ClientService(
        AcpClient.builder().protocol_versions(2, 1).build(),
        AgentCommand(ts_agent(agent)),
        real_reactor,
        retry_policy=lambda failures: 0.1,
    )
    service.startService()
    for _ in range(2):
        connection: Any = await service.when_connected()
        assert connection.protocol_version == spoken
        session = await connection.new_session(str(workspace))
        assert (await session.prompt("hello")).stop_reason == "end_turn"
        connection.abort("again")
        await connection.when_closed()
    await service.stopService()


@pytest.mark.parametrize("files", [False, True])
async def test_an_agent_of_version_1_is_told_of_files(files: bool, real_reactor: Any, workspace: Path) -> None:
    """2.7: where the client has something that only version 1 has, it starts the agent anew and asks in its words."""
    builder = AcpClient.builder()
    if files:
        builder.read_text_file_handler(lambda request: v1.ReadTextFileResponse(content="x"))
    link = await builder.protocol_versions(2, 1).build().connect(real_reactor, AgentCommand(ts_agent("1")))
    told: list[Any] = []
    connection: Any = await link.initialize()
    session = await connection.new_session(str(workspace))
    session.on_update(told.append)
    assert (await session.prompt("hello")).stop_reason == "end_turn"
    assert [each.content.text for each in told] == ["hello"]
    assert link.is_open == (not files)
    await connection.close()


@EACH
async def test_the_command_with_the_typescript_sdk(
    client: str, agent: str, spoken: int | None, programs: Programs, workspace: Path
) -> None:
    """C{acp-twisted prompt --protocol}: what it prints is of the version that is spoken; else the status says so."""
    argv = [*COMMAND, "stream 2", "--json", "--protocol", client, "--", *ts_agent(agent)]
    outcome = await programs.run(argv, cwd=workspace)
    assert outcome.code == (4 if spoken is None else 0), outcome.explain()
    last = outcome.lines()[-1]
    if spoken is None:
        assert "error" in last
        return
    assert last["result"]["stopReason"] == "end_turn"
    chunks = [each["update"] for each in outcome.lines() if "content" in each.get("update", {})]
    said = [each["content"]["text"] for each in chunks if each["sessionUpdate"] == "agent_message_chunk"]
    assert said == (["stream 2"] if spoken == 1 else ["1", "2"])
    if spoken == 2:
        reports = [each["update"] for each in outcome.lines() if "state" in each.get("update", {})]
        assert [each["state"] for each in reports] == ["running", "idle"]
        assert {each["sessionUpdate"] for each in reports} == {"state_update"}


@pytest.mark.parametrize("how", ["session", "request"])
async def test_the_command_cancels(how: str, programs: Programs, workspace: Path) -> None:
    """V2D8: session/cancel stops inserted work; $/cancel_request does not, so that run ends by its timeout."""
    # After five updates it is surely inserted.
    argv = [*COMMAND, "slow", "--json", "--protocol", "2", "--cancel-after-updates", "5", "--how", how]
    timeout = () if how == "session" else ("--timeout", "4")
    outcome = await programs.run([*argv, *timeout, "--", *ts_agent("2")], cwd=workspace)
    assert outcome.code == (3 if how == "session" else 6), outcome.explain()
    if how == "session":
        assert outcome.lines()[-1]["result"]["stopReason"] == "cancelled"


async def test_the_command_says_why_the_agent_failed(programs: Programs, workspace: Path) -> None:
    """V2N13: the stop reason error is the agent's answer of an error."""
    outcome = await programs.run([*COMMAND, "fail", "--protocol", "2,1", "--", *ts_agent("1,2")], cwd=workspace)
    assert outcome.code == 4, outcome.explain()
    assert "stop reason: error: asked to fail" in outcome.stderr
    assert not outcome.stdout
