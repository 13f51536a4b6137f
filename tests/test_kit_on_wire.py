"""
One half of a conversation, with the test on the wire.
"""

from __future__ import annotations

import pytest

from acp_twisted import AcpClient, Limits
from acp_twisted.schema import v1
from acp_twisted.testing import AgentOnWire, ClientOnWire, ScriptedAgent, requested, success_result


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
