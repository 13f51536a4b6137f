"""
MCP over ACP through a chain of proxies: the client's tools, and a proxy's own.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from chain_parts import RawChain, passing
from mcp_parts import tools_server
from test_mcp_in_agents import uses_every_server
from twisted.internet.task import Clock
from wire import failure, success

from acp_twisted import AcpClient, AcpProxy, Conductor
from acp_twisted.errors import AcpError, RequestCancelled
from acp_twisted.mcp.client import McpClient
from acp_twisted.mcp.provider import LIMIT_REACHED, McpProvider
from acp_twisted.mcp.proxying import offer_in_proxy
from acp_twisted.mcp.types import Progress
from acp_twisted.transports.memory import MemoryLink


class Street:
    """
    A client with tools, a proxy that lets pass, one with tools of its own, another, and an agent.

    @ivar mcp: the agent's clients: of the client's tools, and of the proxy's.
    """

    def __init__(self, max_active: int = 64) -> None:
        self.clock = Clock()
        self.mcp: list[McpClient] = []
        self.servers = [tools_server(), tools_server()]
        ours, theirs = (McpProvider([server], max_active=max_active) for server, _ in self.servers)
        proxy = offer_in_proxy(AcpProxy.builder(), theirs).build()
        agent = uses_every_server(self.clock, self.mcp)
        conductor = Conductor.builder().proxy(passing()).proxy(proxy).proxy(passing()).agent(agent).build()
        self.chain = conductor.chain(self.clock)
        self.client = ours.install(AcpClient.builder()).build().connection(self.clock)
        self.link = MemoryLink(self.client.peer, self.chain.client, self.clock)
        success(self.client.initialize())
        success(self.client.new_session("/w", ours.entries()))
        assert len(self.mcp) == 2

    def sent(self, direction: Any) -> str:
        """What was sent between the client and the chain, one way."""
        return "\n".join(each.decode() for each in self.link.sent(direction))


@pytest.mark.parametrize("whose", [0, 1])
def test_tools_of_a_client_and_of_a_proxy(whose: int) -> None:
    """Each call and each sign of progress finds its server; the client sees nothing of the proxy's."""
    street = Street()
    before = len(street.link.wire)
    client = street.mcp[whose]
    seen: list[Progress] = []
    assert success(client.call_tool("steps", on_progress=seen.append)).text == "done"
    assert len(seen) == 2
    assert (len(street.link.wire) == before) == (whose == 1)


@pytest.mark.parametrize("whose", [0, 1])
def test_a_cancellation_reaches_the_tool_hop_by_hop(whose: int) -> None:
    """As $/cancel_request with the id of each hop, and never as MCP's own (C47, M18)."""
    street = Street()
    _, noticed = street.servers[whose]
    call = street.mcp[whose].call_tool("hang")
    assert len(noticed["contexts"]) == 1
    call.cancel("enough")
    failure(call, RequestCancelled)
    assert noticed["cancelled"] == [("$/cancel_request",)]
    assert "notifications/cancelled" not in street.sent("a>b") + street.sent("b>a")
    assert street.sent("b>a").count("$/cancel_request") == (1 if whose == 0 else 0)
    assert success(street.mcp[whose].call_tool("echo", {"text": "still"})).text == "still"
    assert street.clock.getDelayedCalls() == []


def test_subscriptions_and_errors_of_a_proxys_tools() -> None:
    """They come through as they would from a client."""
    street = Street(max_active=2)
    client, (server, noticed) = street.mcp[1], street.servers[1]
    told: list[str] = []
    subscription = success(client.listen(lambda method, _: told.append(method), tools=True))
    server.remove_tool("crash")
    assert told == ["notifications/tools/list_changed"]
    server.end_subscriptions()
    assert subscription.end == "server"
    failure(client.call_tool("none"), AcpError)
    calls = [client.call_tool("hang") for _ in range(2)]
    assert failure(client.call_tool("echo", {"text": "hi"}), AcpError).code == LIMIT_REACHED
    street.client.close()
    for call in calls:
        failure(call, AcpError)
    assert len(noticed["cancelled"]) == 2


def test_an_agent_that_takes_no_servers_over_acp_gets_none() -> None:
    """What it is sent is what the client sent."""
    provider = McpProvider([tools_server()[0]])
    for capabilities, count in (({}, 0), ({"agentCapabilities": {"mcpCapabilities": {"acp": True}}}, 1)):
        chain = RawChain([offer_in_proxy(AcpProxy.builder(), provider).build()], initialize=False)
        chain.client.send({"id": "i", "method": "initialize", "params": {"protocolVersion": 1}})
        chain.agent.answer({"protocolVersion": 1, **capabilities})
        chain.agent.take()
        chain.client.send({"id": 1, "method": "session/load", "params": {"cwd": "/w", "mcpServers": [], "_x": 1}})
        (opened,) = chain.agent.take()
        assert opened["params"]["_x"] == 1
        assert len(opened["params"]["mcpServers"]) == count
        unknown = {"serverId": "other", "requestId": "r", "method": "m"}
        chain.agent.send({"id": 7, "method": "mcp/message", "params": unknown})
        assert json.loads(chain.client.lines[-1])["params"] == unknown
