"""
A client whose tools its agent uses, through the connection that they have: MCP over ACP, in version 2 of the latter.

    python mcp_tools_v2.py

The agent runs in this process, so that there is something to see without one.  It asks for the weather in every prompt,
and work that is cancelled cancels the question.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred

from acp_twisted import AcpAgent, AcpClient, PromptContext
from acp_twisted.client.v2.connection import ClientConnection
from acp_twisted.mcp import McpProvider, McpServer, ToolContext, accept_over_acp, connect, offered_to
from acp_twisted.schema import v2
from acp_twisted.transports.memory import MemoryLink

# ---- what the client offers

weather = McpServer("weather", "1.0")
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}


@weather.tool(description="The weather somewhere", input_schema=PLACE)
async def look_outside(arguments: dict[str, Any], context: ToolContext) -> str:
    if arguments["place"] == "nowhere":
        context.token.on_cancel(lambda: print("the tool was cancelled"))
        await Deferred()
    context.progress(1, 1, "looking")
    return f"It rains in {arguments['place']}."


# ---- what the agent makes of it


def make_agent(reactor: Any) -> AcpAgent:
    sessions: dict[str, Any] = {}

    async def new_session(request: v2.NewSessionRequest, connection: Any) -> v2.NewSessionResponse:
        sessions["s1"] = [await connect(reactor, each, connection=connection) for each in request.mcp_servers]
        return v2.NewSessionResponse(session_id="s1")

    async def prompt(request: v2.PromptRequest, context: PromptContext) -> str:
        (server,) = sessions[request.session_id]
        place = " ".join(block.text for block in request.prompt if isinstance(block, v2.TextContent))
        asking = server.call_tool("look_outside", {"place": place})
        answer = await context.token.run_until_cancelled(asking)
        await context.send_message(answer.text)
        return "end_turn"

    builder = AcpAgent.builder().new_session_handler(new_session).prompt_handler(prompt)
    return accept_over_acp(builder).protocol_versions(2).build()


# ---- both of them


async def main(reactor: Any) -> None:
    provider = McpProvider([weather])
    client = provider.install(AcpClient.builder()).protocol_versions(2).build()
    link = client.connection(reactor)
    MemoryLink(link.peer, make_agent(reactor).connect(reactor).peer, reactor)
    connection = await link.initialize()
    assert isinstance(connection, ClientConnection)
    session = await connection.new_session("/project", offered_to(connection.agent_capabilities, provider))
    prompt = session.prompt("Paris")
    async for update in prompt.updates():
        if isinstance(update, v2.AgentMessageChunk) and isinstance(update.content, v2.TextContent):
            print(update.content.text)
    print((await prompt).stop_reason)
    prompt = session.prompt("nowhere")
    await prompt.accepted  # the message is in the conversation, and the agent is at it
    prompt.cancel()
    print((await prompt).stop_reason)
    await connection.close()


task.react(main)
