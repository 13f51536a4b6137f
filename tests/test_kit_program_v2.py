"""
The scripted agent's program in version 2.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import LoggedErrors

from acp_twisted.errors import AcpError, InternalError, InvalidParams
from acp_twisted.schema import v1, v2
from acp_twisted.testing import (
    AgentOnWire,
    ConnectedPairV2,
    ScriptedClient,
    connected_pair,
    failure_of,
    no_result,
    success_result,
)
from acp_twisted.testing._serving import parse
from acp_twisted.testing.scripted_agent import build_agent
from acp_twisted.transports.process import AgentCommand

BOTH = (1, 2)


@pytest.fixture
def pair() -> Iterator[ConnectedPairV2]:
    """The agent of both versions, which is spoken to in version 2 by a client that allows everything."""
    client = ScriptedClient(permission="allow", protocol_versions=2)
    with connected_pair(build_agent(protocol_versions=BOTH, grace=5), client, protocol_version=2) as made:
        yield made


@pytest.mark.parametrize(
    ("prompt", "said", "reason"),
    [
        ("stream 3", "123", "end_turn"),
        ("len", "3", "end_turn"),
        ("big 4", "xxxx", "end_turn"),
        ("nothing", "", "end_turn"),
        ("seen", "[]", "end_turn"),
        ("permission 2", '["allow","allow"]', "end_turn"),
        ("ask _x/none {}", "error -32601", "end_turn"),
        ("read /a", "error -32603", "end_turn"),
        ("write /a b", "error -32603", "end_turn"),
        ("late 1", "", "end_turn"),
    ],
)
def test_what_a_prompt_says_is_done(pair: ConnectedPairV2, prompt: str, said: str, reason: str) -> None:
    """The directives are those of version 1; files are the client's only there."""
    assert pair.answer(prompt) == v2.IdleStateUpdate(stop_reason=reason)
    pair.advance(1)
    assert pair.said == said
    pair.transcript.assert_each_answered_once()


def test_what_is_cancelled(pair: ConnectedPairV2) -> None:
    """V2D5: with what the handler says of it, and also of one that is deaf; the next turn knows what it was."""
    prompt = pair.prompt("stream 3 10")
    prompt.cancel()
    assert success_result(prompt) == v2.IdleStateUpdate(stop_reason="cancelled", meta={"sent": 1})
    prompt = pair.prompt("polite")
    prompt.cancel()
    assert success_result(prompt) == v2.IdleStateUpdate(stop_reason="cancelled", meta={"stopped": True})
    prompt = pair.prompt("hang")
    prompt.cancel()
    no_result(prompt)
    pair.advance(5)
    assert success_result(prompt).stop_reason == "cancelled"
    before = pair.said
    pair.answer("seen")
    assert "session/cancel" in json.loads(pair.said.removeprefix(before))


def test_what_fails(pair: ConnectedPairV2, logged_errors: LoggedErrors) -> None:
    """V2N13: with its own code and data, or with as little as a peer may know; no directive is no part of it all."""
    error = failure_of(pair.prompt("fail -32055"), AcpError)
    assert (error.code, error.message, error.data) == (-32055, "asked to fail", {"asked": True})
    assert failure_of(pair.prompt("fail"), InternalError).message == "Internal error"
    logged_errors.clear()
    assert failure_of(pair.prompt("stream many"), InvalidParams).data == {"directive": "stream"}
    pair.transcript.clear()
    prompt = pair.prompt("dance")
    assert failure_of(prompt.accepted, InvalidParams).data == {"directive": "dance"}
    failure_of(prompt, InvalidParams)
    pair.transcript.assert_states()


@pytest.mark.parametrize(("heard", "told"), [(1, 2), (2, 1), (2, 2)])
def test_a_session_is_told_again_in_either_version(heard: int, told: int) -> None:
    """2.20: what was said is said again, whichever version it was said in, and the session goes on."""
    agent = build_agent(protocol_versions=BOTH)
    with connected_pair(agent, protocol_version=heard) as first:
        words = v1 if heard == 1 else v2
        content = [words.TextContent(text="stream 2"), words.ResourceLink(name="n", uri="file:///n")]
        assert first.answer(content).stop_reason == "end_turn"
        name = first.session.session_id
    client = ScriptedClient(protocol_versions=told)
    with connected_pair(agent, client, protocol_version=told) as second:
        if told == 1:
            session: Any = success_result(second.client.load_session(name, "/w"))
        else:
            session = success_result(second.client.resume_session(name, "/w", replay=True))
            listed = success_result(second.client.list_sessions())
            assert [each.session_id for each in listed.sessions] == [name]
        kinds = [type(each.update).__name__ for each in client.updates]
        assert kinds[:4] == ["UserMessageChunk"] * 2 + ["AgentMessageChunk"] * 2
        assert client.updates[1].update.content.uri == "file:///n"
        assert client.said == "12"
        assert success_result(session.prompt("len")).stop_reason == "end_turn"
        if told == 2:
            success_result(second.client.resume_session(name, "/w"))
            success_result(session.close())


def test_version_1_is_what_it_was() -> None:
    """The agent of both versions does in version 1 what that of version 1 does."""
    for versions in ((1,), BOTH):
        wire = AgentOnWire(build_agent(protocol_versions=versions))
        number = wire.prompt(wire.open_session(), "stream 2")
        assert wire.answer_to(number) == {"result": {"stopReason": "end_turn"}}


def test_the_versions_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Version 1, unless the option says otherwise, once or twice."""
    assert parse([]).protocol_versions == (1,)
    assert parse(["--protocol-version", "2"]).protocol_versions == (2,)
    assert parse(["--protocol-version", "2", "--protocol-version", "1"]).protocol_versions == (1, 2)
    with pytest.raises(SystemExit):
        parse(["--protocol-version", "3"])
    assert "--protocol-version" in capsys.readouterr().err


@pytest.fixture
def real_reactor() -> Any:
    """The reactor that the tests run in."""
    from twisted.internet import reactor

    return reactor


async def test_the_program_runs_a_command(real_reactor: Any) -> None:
    """2.45: as a process of its own, in version 2; the command's end is shown, and what it wrote is said."""
    client = ScriptedClient(protocol_versions=2)
    command = [sys.executable, "-m", "acp_twisted.testing.scripted_agent", "--protocol-version", "2"]
    link: Any = await client.client.connect(real_reactor, AgentCommand(command))
    connection = await link.initialize()
    assert connection.protocol_version == 2
    session = await connection.new_session("/")
    assert (await session.prompt("run echo hi")).stop_reason == "end_turn"
    assert json.loads(client.said) == {"output": "hi\n", "exitCode": 0}
    assert any(isinstance(each.update, v2.TerminalUpdate) for each in client.updates)
    assert (await session.prompt("blocking 0")).stop_reason == "end_turn"
    await link.close()
