"""
The scripted agent as the program that it is, driven by raw bytes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from raw_programs import SCRIPTED_AGENT, SECONDS, ListeningAgent, RawAgent, run
from scripted_wire import CANCELLED, END_TURN, REQUEST_CANCELLED, cancelled


def test_a_turn_over_pipes() -> None:
    """Initialize, a session, a streamed prompt; the end of its input ends it with status 0."""
    with RawAgent() as agent:
        agent.begin()
        assert agent.answer(agent.prompt("stream 3")) == END_TURN
        assert agent.said == ["1", "2", "3"]
        agent.close_input()
        assert agent.ended() == []
        assert agent.status() == 0


def test_a_cancelled_stream() -> None:
    """It stops in the middle, in real time."""
    with RawAgent() as agent:
        agent.begin()
        prompt = agent.prompt("stream 1000 0.05")
        agent.read()
        agent.read()
        agent.cancel()
        answer = agent.answer(prompt)
        assert answer == cancelled(sent=len(agent.said))
        assert 2 <= len(agent.said) < 1000


def test_blocking_runs_to_its_end() -> None:
    """In a thread: other sessions go on meanwhile."""
    with RawAgent() as agent:
        agent.begin()
        began = time.monotonic()
        assert agent.answer(agent.prompt("blocking 0.5")) == END_TURN
        assert time.monotonic() - began >= 0.49  # by another clock
        prompt = agent.prompt("blocking 3600")
        assert "result" in agent.answer(agent.send("session/new", {"cwd": "/", "mcpServers": []}))
        agent.cancel()
        assert agent.answer(prompt) == CANCELLED


def test_blocking_sees_its_cancellation() -> None:
    """By polling, for there is no grace period that would end it (V1C4)."""
    with RawAgent("--grace", "0") as agent:
        agent.begin()
        prompt = agent.prompt("blocking 3600")
        agent.cancel()
        assert agent.answer(prompt) == CANCELLED
        prompt = agent.prompt("blocking 3600")
        agent.notify("$/cancel_request", {"requestId": prompt})
        assert agent.answer(prompt) == REQUEST_CANCELLED
        assert agent.answer(agent.prompt("blocking 0")) == END_TURN
        agent.close_input()
        assert agent.status() == 0


def test_grace_and_duration_are_options() -> None:
    """--grace answers for a hanging handler; --max-duration ends an uncancelled one."""
    with RawAgent("--grace", "0.2") as agent:
        agent.begin()
        prompt = agent.prompt("hang")
        agent.cancel()
        assert agent.answer(prompt) == CANCELLED
    with RawAgent("--max-duration", "1") as agent:
        agent.begin()
        answer = agent.answer(agent.prompt("hang"))
        assert (answer["error"]["code"], answer["error"]["data"]) == (-32800, {"maxPromptDuration": "PT1S"})
        assert agent.answer(agent.prompt("seen")) == END_TURN
        assert json.loads(agent.said[-1]) == ["maxPromptDuration"]


def test_the_request_timeout_is_an_option() -> None:
    """A client that does not answer is given up, with one $/cancel_request (P7)."""
    with RawAgent("--request-timeout", "0.2") as agent:
        agent.begin()
        assert agent.answer(agent.prompt("ask _never {}")) == END_TURN
        assert [each["method"] for each in agent.seen if "method" in each] == [
            "_never",
            "$/cancel_request",
            "session/update",
        ]


def test_what_was_received_is_answered_behind_the_end_of_the_input() -> None:
    """EOF is a half-close, not a cancellation (B64)."""
    with RawAgent() as agent:
        agent.begin()
        prompt = agent.prompt("stream 3 0.1")
        agent.close_input()
        assert agent.answer(prompt) == END_TURN
        assert agent.said == ["1", "2", "3"]
        assert agent.status() == 0


def test_late_updates_reach_no_wire() -> None:
    """Nothing follows the answer."""
    with RawAgent() as agent:
        agent.begin()
        assert agent.answer(agent.prompt("late 0.1")) == END_TURN
        with pytest.raises(TimeoutError):
            agent.read(0.5)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(number: signal.Signals) -> None:
    """The running turn is answered and flushed, then it exits with status 0."""
    with RawAgent() as agent:
        agent.begin()
        assert agent.answer(agent.prompt("big 3000000")) == END_TURN
        prompt = agent.prompt("hang")
        agent.notify("_nothing", {})
        assert "error" in agent.answer(agent.send("_ping", {}))  # it has begun
        agent.process.send_signal(number)
        assert agent.answer(prompt) == REQUEST_CANCELLED
        assert agent.ended() == []
        assert agent.status() == 0


def test_several_endpoints_at_once(tmp_path: Path) -> None:
    """Each says where it is, and all share the sessions; SIGTERM answers the turns of all and exits with 0."""
    path = tmp_path / "agent.sock"
    with ListeningAgent("tcp:0:interface=127.0.0.1", f"unix:{path}") as agent:
        assert agent.endpoints[0].startswith("tcp:127.0.0.1:")
        assert agent.endpoints[1] == f"unix:{path}"
        over_tcp, first = agent.connect(agent.endpoints[0])
        over_unix, second = agent.connect(agent.endpoints[1])
        with over_tcp, over_unix:
            first.begin()
            second.begin()
            assert first.answer(first.prompt("stream 2")) == END_TURN
            listed = second.answer(second.send("session/list", {}))["result"]["sessions"]
            assert [each["sessionId"] for each in listed] == [first.session, second.session]
            prompts = [(each, each.prompt("hang")) for each in (first, second)]
            for conversation, _ in prompts:
                assert "error" in conversation.answer(conversation.send("_ping", {}))
            agent.process.send_signal(signal.SIGTERM)
            for conversation, prompt in prompts:
                assert conversation.answer(prompt) == REQUEST_CANCELLED
                assert conversation.ended() == []
        assert agent.process.wait(SECONDS) == 0


def test_a_bad_option_is_status_2() -> None:
    """With a message, and nothing on standard output."""
    done = run([*SCRIPTED_AGENT, "--grace", "-1"])
    assert (done.returncode, done.stdout) == (2, "")
    assert "--grace" in done.stderr


def test_an_endpoint_that_is_taken_is_status_1() -> None:
    """Which one, and why."""
    with ListeningAgent("tcp:0:interface=127.0.0.1") as agent:
        port = agent.endpoints[0].rpartition(":")[2]
        done = run([*SCRIPTED_AGENT, "--listen", f"tcp:{port}:interface=127.0.0.1"])
    assert (done.returncode, done.stdout) == (1, "")
    assert f"cannot listen on tcp:{port}" in done.stderr


def test_it_starts_without_what_it_does_not_need() -> None:
    """Neither the command-line parser nor the endpoints are imported for a conversation on stdio."""
    program = (
        "import sys; import acp_twisted.testing.scripted_agent; "
        "print([name for name in ('argparse', 'twisted.internet.endpoints', 'acp_twisted.testing._serving') "
        "if name in sys.modules])"
    )
    done = run([sys.executable, "-c", program], env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.stdout == "[]\n", done.stderr
