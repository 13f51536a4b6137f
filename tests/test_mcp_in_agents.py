"""
MCP in an agent's turns and sessions: what is under way there ends with them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_parts import tools_server
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from wire import failure, no_result, success

from acp_twisted import AcpAgent, AcpClient, PromptContext
from acp_twisted.errors import RequestCancelled
from acp_twisted.mcp.client import McpClient
from acp_twisted.mcp.connecting import accept_over_acp, connect
from acp_twisted.mcp.provider import McpProvider
from acp_twisted.mcp.routes import routes_of
from acp_twisted.mcp.server import McpRequest, McpServer
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink


class SlowServer(McpServer):
    """
    Takes its time to say what tools it has.
    """

    waiting: Deferred[Any]

    def handle(self, request: McpRequest) -> Deferred[Any]:
        if request.method != "tools/list":
            return super().handle(request)
        self.waiting = Deferred(lambda _: self.stopped.append(request.token.triggers))
        return self.waiting

    stopped: list[tuple[str, ...]]


def uses_every_server(reactor: Any, reached: list[McpClient]) -> AcpAgent:
    """An agent that connects to each server that session/new names."""

    async def new_session(request: v1.NewSessionRequest, connection: Any) -> v1.NewSessionResponse:
        for each in request.mcp_servers:
            reached.append(await connect(reactor, each, connection=connection))
        return v1.NewSessionResponse(session_id="s1")

    builder = AcpAgent.builder().prompt_handler(lambda _: v1.PromptResponse(stop_reason="end_turn"))
    return accept_over_acp(builder.new_session_handler(new_session)).build()


class House:
    """
    A client with tools, and an agent that connects to them in session/new and uses them in its prompts.
    """

    def __init__(self, server: McpServer, use: Any) -> None:
        self.clock = Clock()
        self.mcp: dict[str, McpClient] = {}
        self.opening: list[Deferred[McpClient]] = []

        async def new_session(request: v1.NewSessionRequest, connection: Any) -> v1.NewSessionResponse:
            name = f"s{len(self.opening)}"
            opened = connect(self.clock, request.mcp_servers[0], connection=connection)
            self.opening.append(opened)
            self.mcp[name] = await opened
            return v1.NewSessionResponse(session_id=name)

        async def prompt(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
            await context.token.run_until_cancelled(use(self.mcp[request.session_id]))
            return v1.PromptResponse(stop_reason="end_turn")

        builder = AcpAgent.builder().prompt_handler(prompt).new_session_handler(new_session)
        builder.close_session_handler(lambda _: v1.CloseSessionResponse())
        agent = accept_over_acp(builder).build()
        self.provider = McpProvider([server])
        self.client = self.provider.install(AcpClient.builder()).build().connection(self.clock)
        self.agent = agent.connect(self.clock)
        self.link = MemoryLink(self.client.peer, self.agent.peer, self.clock)
        success(self.client.initialize())

    def sent(self, direction: Any) -> list[dict[str, Any]]:
        """What was sent one way, decoded."""
        return [json.loads(each) for each in self.link.sent(direction)]


def test_a_tool_call_notices_session_cancel() -> None:
    """The turn's cancellation reaches the tool, hop by hop, and the turn is answered cancelled (C57)."""
    server, noticed = tools_server()
    house = House(server, lambda mcp: mcp.call_tool("hang"))
    session = success(house.client.new_session("/w", house.provider.entries()))
    turn = session.prompt("go")
    assert len(noticed["contexts"]) == 1
    turn.cancel()
    assert noticed["cancelled"] == [("$/cancel_request",)]
    assert success(turn.response).stop_reason == "cancelled"
    cancels = [each for each in house.sent("b>a") if each.get("method") == "$/cancel_request"]
    assert len(cancels) == 1
    assert house.clock.getDelayedCalls() == []


@pytest.mark.parametrize("end", ["close", "cancel_request"])
def test_listing_tools_notices_the_close(end: str) -> None:
    """So do the close of the session and the cancellation of the prompt itself (C58)."""
    server = SlowServer("slow")
    server.stopped = []
    house = House(server, lambda mcp: mcp.list_tools())
    session = success(house.client.new_session("/w", house.provider.entries()))
    turn = session.prompt("go")
    no_result(turn.response)
    if end == "close":
        closed = session.close()
        success(closed)
        assert success(turn.response).stop_reason == "cancelled"
    else:
        turn.response.cancel()
        failure(turn.response, RequestCancelled)
    assert server.stopped == [("$/cancel_request",)]
    assert house.agent.peer.pending_requests == 0


def test_a_cancelled_session_leaves_nothing_of_mcp() -> None:
    """No route and no request; another try works (C35)."""
    server, _ = tools_server()
    house = House(server, lambda mcp: mcp.call_tool("echo", {"text": "hi"}))
    house.link.auto = False
    asked = house.client.new_session("/w", house.provider.entries())
    house.link.deliver("a>b")
    asked.cancel()
    failure(asked, RequestCancelled)
    house.link.auto = True
    house.link.deliver_all()
    house.clock.advance(0)
    assert house.opening[0].called
    routes = routes_of(house.agent)
    assert (routes.exchanges, routes.tunnels) == ({}, {})
    assert house.agent.peer.pending_requests == 0
    session = success(house.client.new_session("/w", house.provider.entries()))
    turn = session.prompt("go")
    assert success(turn.response).stop_reason == "end_turn"
    assert house.clock.getDelayedCalls() == []
