"""
One half of a conversation, with the test on the wire.
"""

from __future__ import annotations

from typing import Any

import pytest

from acp_twisted import AcpClient, Limits
from acp_twisted.errors import AuthRequired
from acp_twisted.schema import v1, v2
from acp_twisted.testing import (
    AgentOnWire,
    ClientOnWire,
    ScriptedAgent,
    ScriptedClient,
    became,
    failure_of,
    no_result,
    requested,
    success_result,
)


def test_an_agent_on_the_wire() -> None:
    """It is initialized; what it sends is read as it is, and time is the test's."""
    agent = ScriptedAgent()
    agent.expect_prompt("hi").says("1").waits(3).says("2")
    wire = AgentOnWire(agent, capabilities={"fs": {"readTextFile": True}})
    assert wire.initialized["protocolVersion"] == 1
    assert wire.connection.client_capabilities.fs.read_text_file
    session = wire.open_session()
    number = wire.prompt(session)
    assert wire.methods() == ["session/update"]
    assert wire.answers(number) == []
    assert not wire.idle()
    wire.advance(3)
    assert wire.answer_to(number) == {"result": {"stopReason": "end_turn"}}
    assert [each["method"] for each in wire.asked("session/update")] == ["session/update"] * 2
    assert [each.get("id") for each in wire.take()] == [None, None, number]
    assert wire.received == []


def test_one_that_is_not_begun() -> None:
    """The test says the first word, in whatever form."""
    wire = AgentOnWire(ScriptedAgent(), initialized=False)
    assert wire.ask("session/new", {"cwd": "/", "mcpServers": []})["error"]["code"] == -32600
    wire.send_bytes(b"{nonsense")
    last = wire.take()[-1]
    assert (last["id"], last["error"]["code"]) == (None, -32700)
    with pytest.raises(AssertionError, match="expected one answer to 99; there are 0"):
        wire.answer_to(99)
    with pytest.raises(AssertionError, match="expected a request; there is none"):
        wire.last_id()


def test_a_request_of_the_agent_is_answered() -> None:
    """By result or by error, by hand."""
    agent = ScriptedAgent()
    agent.expect_prompt().reads("/a", "text")
    agent.expect_prompt().reads("/a")
    wire = AgentOnWire(agent, capabilities={"fs": {"readTextFile": True}})
    session = wire.open_session()
    number = wire.prompt(session)
    wire.respond({"content": "text"})
    assert wire.answer_to(number) == {"result": {"stopReason": "end_turn"}}
    number = wire.prompt(session, number="mine")
    wire.refuse(-32002)
    assert wire.answer_to("mine")["error"]["code"] == -32002


def test_cancelling_and_leaving() -> None:
    """V1C5, X5: both ways of cancelling, the end of the input and of the link."""
    agent = ScriptedAgent()
    agent.allow_prompt().waits_for_cancel()
    wire = AgentOnWire(agent)
    session = wire.open_session()
    number = wire.prompt(session)
    wire.cancel(session)
    assert wire.answer_to(number) == {"result": {"stopReason": "cancelled"}}
    number = wire.prompt(session)
    wire.cancel_request(number)
    assert wire.answer_to(number)["error"]["code"] == -32800
    wire.transcript.assert_each_answered_once()
    wire.end_input()
    assert wire.lost
    assert wire.idle()
    broken = AgentOnWire(ScriptedAgent())
    broken.lose()
    assert broken.lost


def test_a_client_on_the_wire() -> None:
    """It is initialized, and its calls are answered by hand."""
    seen: list[v1.SessionNotification] = []
    client = AcpClient.builder().session_update_handler(seen.append).build()
    wire = ClientOnWire(client, capabilities={"sessionCapabilities": {"list": {}}}, answer={"authMethods": []})
    session = wire.open_session("s1")
    turn = session.prompt("hi")
    wire.say("s1", "hello")
    wire.update("s1", "plan", entries=[])
    wire.respond({"stopReason": "end_turn"})
    assert success_result(turn.response).stop_reason == "end_turn"
    assert [type(each.update) for each in seen] == [v1.AgentMessageChunk, v1.Plan]
    wire.transcript.assert_order(requested("session/prompt", sender="client"))
    early = ClientOnWire(client, initialized=False, limits=Limits())
    early.connection.initialize()
    assert early.methods() == ["initialize"]


# ---- version 2


def test_an_agent_of_version_2_on_the_wire() -> None:
    """2.30-2.33: in the words of that version, exactly as they are sent."""
    agent = ScriptedAgent(protocol_versions=(1, 2))
    agent.expect_prompt("hi").inserts("m1").waits(3).says("2")
    wire = AgentOnWire(agent, capabilities={"elicitation": {"form": {}}}, protocol_version=2)
    assert wire.initialized["protocolVersion"] == 2
    assert wire.connection.client_capabilities.elicitation is not None
    session = wire.open_session()
    assert wire.connection.session(session) is not None
    number = wire.prompt(session)
    assert wire.result_of(number) == {"messageId": "m1"}
    assert wire.methods() == [None, "session/update", "session/update"]
    wire.advance(3)
    wire.transcript.assert_states("running", became("idle", "end_turn"), session_id=session)
    wire.transcript.assert_states(session_id="another")
    wire.cancel(session)
    assert wire.idle()


def test_an_agent_of_version_2_on_the_wire_is_asked_for_another() -> None:
    """2.7: an agent of both is spoken to in version 1 unless the test says otherwise; one of version 2 refuses."""
    agent = ScriptedAgent(protocol_versions=(1, 2))
    agent.expect_prompt().says("hi")
    wire = AgentOnWire(agent)
    assert wire.initialized["protocolVersion"] == 1
    assert wire.result_of(wire.prompt(wire.open_session())) == {"stopReason": "end_turn"}
    with pytest.raises(AssertionError, match="expected a result of 'initialize'; it was refused"):
        AgentOnWire(ScriptedAgent(protocol_versions=2))
    early: AgentOnWire[Any] = AgentOnWire(ScriptedAgent(protocol_versions=2), initialized=False)
    before = early.connection
    early.send({"id": 1, "method": "initialize", "params": {"protocolVersion": 2, "info": {}, "capabilities": {}}})
    assert early.answer_to(1)["error"]["code"] == -32602
    early.send({"id": 2, "method": "initialize", "params": {"protocolVersion": 2, "info": wire_info()}})
    assert early.result_of(2)["protocolVersion"] == 2
    assert early.connection is not before


def wire_info() -> dict[str, str]:
    """Who somebody is."""
    return {"name": "n", "version": "1"}


def test_a_client_of_version_2_on_the_wire() -> None:
    """2.30: a prompt is inserted by hand, and its work reported."""
    client = ScriptedClient(protocol_versions=(1, 2))
    wire = ClientOnWire(client, protocol_version=2)
    assert wire.connection.agent_capabilities.session is not None
    session = wire.open_session("s1")
    prompt = session.prompt("hi")
    wire.insert("m1")
    assert success_result(prompt.accepted) == "m1"
    wire.become("s1", "running")
    wire.say("s1", "hel")
    wire.say("s1", "lo", "a1")
    no_result(prompt)
    wire.become("s1", "idle", "end_turn", _meta={"a": 1})
    assert success_result(prompt) == v2.IdleStateUpdate(stop_reason="end_turn", meta={"a": 1})
    assert client.said == "hello"
    first, second = session.prompt("1"), session.prompt("2")
    numbers = [each["id"] for each in wire.asked("session/prompt")[-2:]]
    wire.insert("m3", numbers[1])
    wire.refuse(-32000, number=numbers[0])
    assert success_result(second.accepted) == "m3"
    assert failure_of(first, AuthRequired).remote


def test_a_client_of_both_versions_is_answered_with_the_first() -> None:
    """2.7: then it goes on in version 1, whose words need no ids of messages."""
    client = ScriptedClient(protocol_versions=(1, 2))
    wire: ClientOnWire[Any, Any] = ClientOnWire(client.client)
    session = wire.open_session("s1")
    turn = session.prompt("hi")
    wire.say("s1", "hello")
    wire.respond({"stopReason": "end_turn"})
    assert success_result(turn).stop_reason == "end_turn"
    assert client.said == "hello"
    early: ClientOnWire[Any, Any] = ClientOnWire(client.client, initialized=False, protocol_version=2)
    early.connection.initialize()
    assert early.received[-1]["params"]["protocolVersion"] == 2
