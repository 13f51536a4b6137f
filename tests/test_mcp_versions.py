"""
MCP over ACP in connections of version 2 of the latter: both forms, in whichever order the builders were told.
"""

from __future__ import annotations

from typing import Any

import pytest
from mcp_parts import tools_server
from twisted.internet.task import Clock
from wire import failure, success

from acp_twisted import AcpAgent, AcpClient, PromptContext
from acp_twisted.errors import RequestCancelled
from acp_twisted.mcp.client import McpClient
from acp_twisted.mcp.connecting import accept_over_acp, connect
from acp_twisted.mcp.provider import McpProvider, offered_to
from acp_twisted.mcp.routes import Form
from acp_twisted.schema import v1, v2
from acp_twisted.transports.memory import MemoryLink


class House:
    """
    A client with tools, and an agent that uses them in its prompts; which versions each speaks is up to the test.
    """

    def __init__(self, form: Form, versions: tuple[int, ...], *, told_last: bool) -> None:
        self.clock = Clock()
        self.reached: list[McpClient] = []
        server, self.noticed = tools_server()
        self.provider = McpProvider([server], form=form)

        async def new_session(request: Any, connection: Any) -> Any:
            for each in request.mcp_servers:
                assert type(each) is connection.schema.McpServerAcp
                self.reached.append(await connect(self.clock, each, connection=connection, form=form))
            return v1.NewSessionResponse(session_id="s1")

        async def prompt(request: Any, context: PromptContext) -> str:
            (server,) = self.reached
            result = await context.token.run_until_cancelled(server.call_tool(request.prompt[0].text, {"text": "hi"}))
            await context.send_message(result.text)
            return "end_turn"

        agent, client = AcpAgent.builder(), AcpClient.builder()
        if told_last:
            agent, client = agent.protocol_versions(*versions), client.protocol_versions(2, 1)
        accept_over_acp(agent.prompt_handler(prompt).new_session_handler(new_session))
        self.provider.install(client)
        if not told_last:
            agent, client = agent.protocol_versions(*versions), client.protocol_versions(2, 1)
        link: Any = client.build().connection(self.clock)
        MemoryLink(link.peer, agent.build().connect(self.clock).peer, self.clock)
        self.connection = success(link.initialize())
        entries = offered_to(self.connection.agent_capabilities, self.provider)
        self.session = success(self.connection.new_session("/w", entries))


@pytest.mark.parametrize("told_last", [True, False])
@pytest.mark.parametrize("versions", [(2,), (1, 2), (1,)])
@pytest.mark.parametrize("form", ["stateless", "connection"])
def test_a_tool_in_a_prompt_of_any_version(form: Form, versions: tuple[int, ...], told_last: bool) -> None:
    """The agent says that it takes servers over ACP, is given entries of its version, and calls the tool."""
    house = House(form, versions, told_last=told_last)
    assert house.connection.protocol_version == max(versions)
    prompt = house.session.prompt("echo")
    assert success(prompt.idle if 2 in versions else prompt.response).stop_reason == "end_turn"


@pytest.mark.parametrize("form", ["stateless", "connection"])
@pytest.mark.parametrize("how", ["session", "prompt", "close"])
def test_work_that_is_cancelled_cancels_its_tool(form: Form, how: str) -> None:
    """After the message was inserted: session/cancel and session/close reach the tool, once (C57, C58)."""
    house = House(form, (2,), told_last=False)
    prompt = house.session.prompt("hang")
    assert success(prompt.accepted)
    assert len(house.noticed["contexts"]) == 1
    {"session": house.session.cancel, "prompt": prompt.cancel, "close": house.session.close}[how]()
    assert len(house.noticed["cancelled"]) == 1
    report = success(prompt.idle)
    assert type(report) is v2.IdleStateUpdate
    assert report.stop_reason == "cancelled"
    assert house.clock.getDelayedCalls() == []


def test_a_call_of_the_agents_own_is_cancelled() -> None:
    """Outside of prompts too; and the connection goes on (C47)."""
    house = House("stateless", (2,), told_last=True)
    (mcp,) = house.reached
    call = mcp.call_tool("hang")
    call.cancel()
    failure(call, RequestCancelled)
    assert house.noticed["cancelled"] == [("$/cancel_request",)]
    assert success(mcp.call_tool("echo", {"text": "still"})).text == "still"
