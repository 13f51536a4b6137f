"""
Agents, and things that are none, for C{twistd acp --agent twistd_agents:NAME}.
"""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.internet.defer import Deferred

from acp_twisted import AcpAgent, PromptContext
from acp_twisted.schema import v1


async def answer(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
    """
    Says the prompt's text back.  C{wait} says C{waiting} and goes on for ever; C{noise} writes to standard output in
    every way there is, which must not reach the client.
    """
    block = request.prompt[0]
    text = block.text if isinstance(block, v1.TextContent) else ""
    if text == "wait":
        await context.send_message("waiting")
        await Deferred()
    if text == "noise":
        print("noise of print")  # noqa: T201
        sys.__stdout__.write("noise of the real sys.stdout\n")  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]
        os.write(1, b"noise of descriptor 1\n")
        subprocess.run(["sh", "-c", "cat; echo noise of a child"], check=True)
    await context.send_message(text)
    return v1.PromptResponse(stop_reason="end_turn")


builder = AcpAgent.builder().agent_info("twistd", "1").prompt_handler(answer)
agent = builder.build()


def make() -> AcpAgent:
    """A function that returns an agent."""
    return agent


class Holder:
    """An agent one level down."""

    agent = agent


def make_nothing() -> None:
    """Not an agent."""


def make_trouble() -> AcpAgent:
    """Fails."""
    raise LookupError("no key is configured")


async def make_later() -> AcpAgent:
    """Agents are made at once, not later."""
    return agent


def needs_an_argument(argument: object) -> AcpAgent:
    """Nobody gives it one."""
    return agent


half_built = AcpAgent.builder()
