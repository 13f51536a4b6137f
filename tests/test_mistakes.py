"""
What is said of frequent mistakes: where they are made, and with what to do instead.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from conftest import LoggedErrors
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from acp_twisted import AcpAgent, AcpClient, InternalError, Limits, PromptContext
from acp_twisted.handlers import two_arguments
from acp_twisted.schema import v1
from acp_twisted.testing import ScriptedAgent, connected_pair, failure_of

ENDED = v1.PromptResponse(stop_reason="end_turn")
WRONG: Any = object()


def three(request: object, context: object, more: int) -> None:
    """A handler that wants too much."""


def none() -> None:
    """A handler that wants nothing."""


def named(request: object, *, context: object) -> None:
    """A handler that wants its context by name."""


class Agent:
    """With a method that was not bound, and one that was."""

    def answer(self, request: object, context: object) -> None:
        """A handler."""


@pytest.mark.parametrize(
    ("handler", "shown"),
    [
        (three, "three(request, context, more)"),
        (none, "none()"),
        (named, "named(request, *, context)"),
        (Agent.answer, "answer(self, request, context)"),
        (lambda: None, "<lambda>()"),
    ],
)
def test_a_handler_of_the_wrong_shape_is_named_with_the_right_one(handler: Callable[..., Any], shown: str) -> None:
    """For every setter, and every half."""
    for setter in (AcpAgent.builder().prompt_handler, AcpClient.builder().session_update_handler):
        with pytest.raises(TypeError) as told:
            setter(handler)
        assert setter.__name__ + ": " + shown in str(told.value)
        assert str(told.value).endswith("(request) or (request, context)")
    assert two_arguments(Agent().answer, "x") is not None


@pytest.mark.parametrize(
    ("setter", "words"),
    [
        (
            lambda: AcpAgent.builder().agent_capabilities(WRONG),
            "agent_capabilities takes a v1.AgentCapabilities, not object",
        ),
        (lambda: AcpClient.builder().client_capabilities(WRONG), "client_capabilities takes a v1.ClientCapabilities"),
        (lambda: AcpAgent.builder().auth_methods([WRONG]), "auth_methods takes v1.AuthMethodAgent and"),
        (lambda: AcpAgent.builder().limits(WRONG), "limits takes a limits.Limits, not object"),
        (lambda: AcpAgent.builder().limits(Limits), "limits takes a limits.Limits, not the class Limits; call it"),  # type: ignore[arg-type]
        (lambda: AcpAgent.builder().instrument(WRONG), "object has not the methods of IInstrument"),
        (lambda: AcpAgent.builder().request_timeout("5"), "request_timeout is a number of seconds, not str"),  # type: ignore[arg-type]
        (lambda: AcpAgent.builder().request_timeout(None), "not NoneType; 0 is without end"),  # type: ignore[arg-type]
        (lambda: AcpClient.builder().prompt_timeout(True), "prompt_timeout is a number of seconds, not bool"),
    ],
)
def test_what_is_set_is_looked_at_when_it_is_set(setter: Callable[[], object], words: str) -> None:
    """And not at the first connection."""
    with pytest.raises(TypeError) as told:
        setter()
    assert words in str(told.value)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), -float("inf"), 10**400])
def test_a_timeout_is_finite(seconds: float) -> None:
    """0 is without end."""
    for setter in (AcpAgent.builder().request_timeout, AcpClient.builder().prompt_timeout):
        with pytest.raises(ValueError, match="finite number of seconds that is not negative; 0 is without end"):
            setter(seconds)
        setter(0)


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ("Hello", "returned str; its result is a PromptResponse object"),
        ({"stopReason": "end_turn"}, "returned dict; its result is a PromptResponse object"),
        (v1.PromptResponse, "returned the class PromptResponse; its result is a PromptResponse object"),
        (v1.NewSessionResponse(session_id="s"), "returned NewSessionResponse; its result is a PromptResponse object"),
    ],
    ids=str,
)
def test_a_handler_that_returns_something_else(result: Any, shown: str, logged_errors: LoggedErrors) -> None:
    """The log says what came and what was expected; the client only learns that there was an error (rule 9)."""
    agent = AcpAgent.builder().prompt_handler(lambda request: result).build()
    with capturedLogs() as events, connected_pair(agent) as pair:
        error = failure_of(pair.prompt("x").response, InternalError)
    assert (str(error), error.data) == ("Internal error (-32603)", None)
    assert [text for text in map(formatEvent, events) if text.endswith(shown)]
    logged_errors.clear()


def test_where_to_connect_to() -> None:
    """A command line is no endpoint, and the remedy is AgentCommand."""
    client = AcpClient.builder().build()
    for line in ("my-agent --acp", "/usr/bin/my-agent"):
        with pytest.raises(ValueError, match=r'Unknown endpoint type.*AgentCommand\(\["my-agent", "--acp"\]\)'):
            client.connect(Clock(), line)
    for thing in (["my-agent"], None, 5):
        with pytest.raises(TypeError, match=r'nowhere to connect to; a program to start is AgentCommand\(\["my-agent"'):
            client.connect(Clock(), thing)  # type: ignore[arg-type]


def test_what_a_prompt_is() -> None:
    """One block is no list, and nothing is sent."""
    with connected_pair(ScriptedAgent()) as pair:
        for content in (v1.TextContent(text="hi"), None, 5, {"type": "text"}):
            with pytest.raises(TypeError, match="a prompt is a text or a list of content blocks, not a"):
                pair.session.prompt(content)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [None, b"x", 5, v1.TextContent(text="x")])
def test_a_piece_of_text_is_a_string(text: Any) -> None:
    """What a model gives out between two words is often None; no peer is sent that.  A plan is no string."""
    told: list[str] = []

    async def answer(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        for wrong in (context.send_message, context.send_thought):
            with pytest.raises(TypeError, match="a piece of text is a str, not"):
                await wrong(text)
            told.append("text")
        with pytest.raises(TypeError, match="plan takes a list of steps"):
            await context.plan("Look")
        await context.send_message("")
        return ENDED

    with connected_pair(AcpAgent.builder().prompt_handler(answer).build()) as pair:
        assert pair.answer("x") == ENDED
    assert told == ["text", "text"]


@pytest.mark.parametrize(
    ("missing", "code", "remedy"),
    [
        ("OpenSSL", "AcpClient.builder().build().connect(Clock(), 'tls:127.0.0.1:1')", "tls"),
        ("OpenSSL", "AgentService(agent, 'ssl:1:privateKey=k:certKey=c', reactor)", "tls"),
        ("hypothesis", "import acp_twisted.testing.strategies", "testing"),
        ("opentelemetry", "import acp_twisted.telemetry", "telemetry"),
    ],
)
def test_what_is_not_installed_is_named_by_its_extra(missing: str, code: str, remedy: str) -> None:
    """In a program of its own, where the library that the extra brings can't be imported."""
    program = (
        f"import sys\nsys.modules[{missing!r}] = None\n"
        "from twisted.internet import reactor\nfrom twisted.internet.task import Clock\n"
        "from acp_twisted import AcpAgent, AcpClient\nfrom acp_twisted.service import AgentService\n"
        "agent = AcpAgent.builder().prompt_handler(print).build()\n"
        f"try:\n    {code}\nexcept (ImportError, ValueError) as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr == ""
    assert f"pip install 'acp_twisted[{remedy}]'" in done.stdout
