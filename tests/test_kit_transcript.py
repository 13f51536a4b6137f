"""
What the test kit writes down, and what may be said of it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from acp_twisted import AcpAgent, AcpClient
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory, IMessageTransport
from acp_twisted.schema import v1
from acp_twisted.testing import (
    Pattern,
    RecordingFactory,
    RecordingReceiver,
    Transcript,
    answered,
    notified,
    refused,
    requested,
    updated,
)
from acp_twisted.transports.memory import MemoryLink


def transcript() -> Transcript:
    """A prompt, a message, a refused request of the same id the other way, and the prompt's answer."""
    said = Transcript()
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
    for sender, receiver, message in (
        ("client", "agent", {"id": 1, "method": "session/prompt", "params": {"sessionId": "s1"}}),
        ("agent", "client", {"method": "session/update", "params": {"sessionId": "s1", "update": chunk}}),
        ("agent", "client", {"id": 1, "method": "fs/read_text_file", "params": {"path": "/a"}}),
        ("client", "agent", {"id": 1, "error": {"code": -32601, "message": "no"}}),
        ("client", "agent", {"method": "session/cancel", "params": {"sessionId": "s1"}}),
        ("agent", "client", {"id": 1, "result": {"stopReason": "cancelled", "_meta": {"n": 1}}}),
    ):
        said.record(sender, receiver, json.dumps({"jsonrpc": "2.0", **message}).encode())
    return said


def test_what_is_right_may_be_said() -> None:
    """Order with gaps, all of it exactly, some of it in any order, counts, and what never came."""
    said = transcript()
    said.assert_order("session/prompt", updated("agent_message_chunk"), answered("session/prompt"))
    said.assert_exactly(
        requested("session/prompt", sender="client", id=1),
        updated("agent_message_chunk", session_id="s1", content={"text": "hi"}),
        "fs/read_text_file",
        refused("fs/read_text_file", -32601, sender="client"),
        notified("session/cancel"),
        answered("session/prompt", {"stopReason": "cancelled"}),
    )
    said.assert_contains(answered("session/prompt"), "session/cancel", refused(None))
    said.assert_count("session/update", 1)
    said.assert_never("session/close", requested("session/cancel"), answered("fs/read_text_file"))
    said.assert_each_answered_once()
    assert said.methods == [
        "session/prompt",
        "session/update",
        "fs/read_text_file",
        "error",
        "session/cancel",
        "result",
    ]


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda said: said.assert_order("session/cancel", "session/prompt"), "number 2 did not come"),
        (lambda said: said.assert_exactly("session/prompt"), "there are 6 messages, not 1"),
        (lambda said: said.assert_exactly("session/cancel"), "number 1 is another"),
        (
            lambda said: said.assert_contains("session/prompt", "session/prompt"),
            "request or notification session/prompt",
        ),
        (lambda said: said.assert_count("session/prompt", 2), "it came 1 times"),
        (lambda said: said.assert_never("session/cancel"), "it is number 5"),
        (lambda said: said.assert_contains(requested("session/prompt", id="1")), "#'1'"),
        (lambda said: said.assert_contains(answered("session/prompt", {"stopReason": "end_turn"})), "end_turn"),
    ],
)
def test_what_is_wrong_is_said_with_the_transcript(check: Any, words: str) -> None:
    """What was expected, and all that was said, answers with the method that they answer."""
    with pytest.raises(AssertionError, match=words) as caught:
        check(transcript())
    assert "client > agent: error fs/read_text_file #1" in str(caught.value)


def test_an_answer_too_few_and_one_too_many() -> None:
    """One answer to each request (design rule 1), also for tests of other people's halves."""
    said = transcript()
    said.record("client", "agent", b'{"id": "1", "method": "session/new"}')
    with pytest.raises(AssertionError, match='client\'s "1" has none'):
        said.assert_each_answered_once()
    for _ in range(2):
        said.record("agent", "client", b'{"id": "1", "result": {}}')
    with pytest.raises(AssertionError, match="too many"):
        said.assert_each_answered_once()


def test_by_id() -> None:
    """A request and its answer, of one side or of both; the types of ids are told apart."""
    said = transcript()
    assert [entry.number for entry in said.by_id(1, sender="client")] == [1, 6]
    assert [entry.number for entry in said.by_id(1)] == [1, 3, 4, 6]
    assert said.by_id("1") == []


def test_what_is_no_message_is_written_down_too() -> None:
    """As it came, and as noise."""
    said = Transcript()
    said.record("a", "b", b"{nonsense")
    said.record("a", "b", b"[1]")
    assert [(entry.kind, entry.message, entry.id) for entry in said] == [
        ("noise", "{nonsense", None),
        ("noise", [1], None),
    ]
    said.assert_exactly(Pattern(("noise",), body="{nonsense"), Pattern(("noise",), body=[lambda value: value == 1]))
    assert "noise" in str(said)
    said.clear()
    assert len(said) == 0
    assert "nothing was said" in str(said)


def test_a_tap_changes_nothing() -> None:
    """Both directions are written down, pauses and the end are passed on, and the interfaces are kept."""
    agent = AcpAgent.builder().prompt_handler(lambda _: v1.PromptResponse(stop_reason="end_turn")).build()
    factory = RecordingFactory(agent, us="agent", them="client")
    assert verifyObject(IMessageReceiverFactory, factory)
    with pytest.raises(AssertionError, match="nobody"):
        assert factory.transcript
    clock = Clock()
    connection = AcpClient.builder().build().connection(clock)
    recorded = factory.build_receiver(clock)
    assert verifyObject(IMessageReceiver, recorded)
    link = MemoryLink(connection.peer, recorded, clock, factory.limits)
    assert recorded.transport is not None
    assert verifyObject(IMessageTransport, recorded.transport)
    connection.initialize()
    factory.transcript.assert_exactly(
        requested("initialize", sender="client"), answered("initialize", {"protocolVersion": 1}, sender="agent")
    )
    recorded.transport.pauseProducing()
    assert link.b.paused
    recorded.transport.resumeProducing()
    assert (link.b.paused, recorded.transport.unsent) == (False, 0)
    recorded.transport.stopProducing()
    assert recorded.transport.closed
    assert recorded.lost is not None


def test_a_cut_is_written_down() -> None:
    """With its reason; what was noise on the way is in the transcript."""
    agent = AcpAgent.builder().prompt_handler(lambda _: None).build()
    recorded = RecordingReceiver(agent.build_receiver(Clock()))
    clock = Clock()
    link = MemoryLink(AcpClient.builder().build().build_receiver(clock), recorded, clock)
    recorded.remainder_received(b"{half")
    assert recorded.transport is not None
    recorded.transport.abort("enough")
    assert recorded.transport.aborted == "enough"
    assert link.a.closed
    assert [entry.message for entry in recorded.transcript] == ["{half"]
