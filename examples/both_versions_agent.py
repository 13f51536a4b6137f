"""
An agent that speaks both versions of the protocol with one prompt handler: it echoes, and asks before it shouts.

    acp-twisted prompt --protocol 2,1 "SHOUT hello" -- python examples/both_versions_agent.py
"""

from __future__ import annotations

from typing import Any

from twisted.internet.task import deferLater

from acp_twisted import AcpAgent, PromptContext, run_agent


async def prompt(request: Any, context: PromptContext) -> str:
    """One handler: what the request holds are classes of the version that the client speaks, in context.schema."""
    text = " ".join(block.text for block in request.prompt if isinstance(block, context.schema.TextContent))
    if text.startswith("SHOUT "):
        if not await context.ask_permission("Shout?"):
            return "refusal"
        text = text.removeprefix("SHOUT ").upper()
    for word in text.split():
        if context.is_cancelled:
            break
        await context.send_message(word + " ")
        await deferLater(context.connection.clock, 0.1)
    return "end_turn"


agent = AcpAgent.builder().agent_info("echo", "1.0").prompt_handler(prompt).protocol_versions(1, 2).build()

if __name__ == "__main__":
    run_agent(agent)
