"""
An agent that uses the first MCP server of its session, for clients of other people.

The first word of a prompt says what it does; it says what came of it as JSON.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.task import deferLater

from acp_twisted import AcpAgent, PromptContext, run_agent
from acp_twisted.errors import AcpError
from acp_twisted.mcp import McpClient, accept_over_acp, connect
from acp_twisted.schema import v1

reached: list[McpClient] = []


async def new_session(request: v1.NewSessionRequest, connection: Any) -> v1.NewSessionResponse:
    """Connect to its servers."""
    for each in request.mcp_servers:
        reached.append(await connect(connection.clock, each, connection=connection))
    return v1.NewSessionResponse(session_id="s1")


async def use(words: list[str], context: PromptContext) -> Any:
    """What a prompt asks for."""
    (server,) = reached
    if words[0] == "list":
        return [tool.name for tool in await server.every(server.list_tools)]
    if words[0] == "call":
        seen: list[float] = []
        arguments = json.loads(" ".join(words[2:]) or "{}")
        call = server.call_tool(words[1], arguments, on_progress=lambda each: seen.append(each.progress))
        return [(await call).text, seen]
    if words[0] == "cancel":
        call = server.call_tool(words[1])
        await deferLater(context.connection.clock, 0.3)
        call.cancel("enough")
    else:
        call = server.call_tool(words[1], timeout=0.3)
    try:
        await call
    except AcpError as error:
        return type(error).__name__
    return None


async def prompt(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
    """Do what it says."""
    text = "".join(block.text for block in request.prompt if isinstance(block, v1.TextContent))
    await context.send_message(json.dumps(await use(text.split(" "), context)))
    return v1.PromptResponse(stop_reason="end_turn")


agent = accept_over_acp(AcpAgent.builder().new_session_handler(new_session).prompt_handler(prompt)).build()

if __name__ == "__main__":
    run_agent(agent)
