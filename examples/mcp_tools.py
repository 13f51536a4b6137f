"""
A client whose tools its agent uses, through the connection that they have: MCP over ACP.

    python mcp_tools.py

The agent runs in this process, so that there is something to see without one.  It asks for the weather in every prompt,
and a prompt that is cancelled cancels the question.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred

from acp_twisted import AcpAgent, AcpClient, PromptContext
from acp_twisted.mcp import McpProvider, McpServer, ToolContext, accept_over_acp, connect
from acp_twisted.schema import v1
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

    async def new_session(request: v1.NewSessionRequest, connection: Any) -> v1.NewSessionResponse:
        sessions["s1"] = [await connect(reactor, each, connection=connection) for each in request.mcp_servers]
        return v1.NewSessionResponse(session_id="s1")

    async def prompt(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        (server,) = sessions[request.session_id]
        place = " ".join(block.text for block in request.prompt if isinstance(block, v1.TextContent))
        asking = server.call_tool("look_outside", {"place": place})
        answer = await context.token.run_until_cancelled(asking)
        await context.send_message(answer.text)
        return v1.PromptResponse(stop_reason="end_turn")

    builder = AcpAgent.builder().new_session_handler(new_session).prompt_handler(prompt)
    return accept_over_acp(builder).build()


# ---- both of them


async def main(reactor: Any) -> None:
    provider = McpProvider([weather])
    client = provider.install(AcpClient.builder()).build().connection(reactor)
    MemoryLink(client.peer, make_agent(reactor).connect(reactor).peer, reactor)
    await client.initialize()
    session = await client.new_session("/project", provider.entries())
    turn = session.prompt("Paris")
    async for update in turn.updates():
        if isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent):
            print(update.content.text)
    print((await turn).stop_reason)
    turn = session.prompt("nowhere")
    turn.cancel()
    print((await turn).stop_reason)
    await client.close()


task.react(main)
