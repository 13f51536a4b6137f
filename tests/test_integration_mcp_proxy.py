"""
A proxy that gives an agent which takes only addresses the servers that are behind its client, over real HTTP.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest
from chain_parts import RawChain, passing
from interop.programs import until
from mcp_parts import tools_server

from acp_twisted import AcpAgent, AcpClient, AcpProxy, Conductor
from acp_twisted.errors import AcpError, RequestCancelled
from acp_twisted.mcp import McpBridge, McpClient, McpProvider, Progress, bridge_in_proxy, connect, offer_in_proxy
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink


async def test_an_agent_that_takes_only_addresses() -> None:
    """It uses the client's tools and another proxy's; progress, errors, and a cancellation in three dialects on the way
    (C47, M6)."""
    from twisted.internet import reactor

    any_reactor: Any = reactor
    servers = [tools_server(), tools_server()]
    ours, theirs = (McpProvider([server]) for server, _ in servers)
    reached: list[McpClient] = []
    kinds: list[type[Any]] = []

    async def new_session(request: v1.NewSessionRequest, _: Any) -> v1.NewSessionResponse:
        for each in request.mcp_servers:
            kinds.append(type(each))
            reached.append(await connect(reactor, each))
        return v1.NewSessionResponse(session_id="s1")

    building = AcpAgent.builder().prompt_handler(lambda _: v1.PromptResponse(stop_reason="end_turn"))
    takes = v1.AgentCapabilities(mcp_capabilities=v1.McpCapabilities(http=True))
    agent = building.new_session_handler(new_session).agent_capabilities(takes).build()
    bridge = McpBridge(reactor)
    await bridge.start()
    conductor = (
        Conductor.builder()
        .proxy(offer_in_proxy(AcpProxy.builder(), theirs).build())
        .proxy(bridge_in_proxy(AcpProxy.builder(), bridge).build())
        .agent(agent)
        .build()
    )
    chain = conductor.chain(any_reactor)
    client = ours.install(AcpClient.builder()).build().connection(any_reactor)
    link = MemoryLink(client.peer, chain.client, any_reactor)
    await client.initialize()
    assert client.agent_capabilities.mcp_capabilities.acp
    await client.new_session("/w", ours.entries())
    assert kinds == [v1.McpServerHttp] * 2
    for mcp, (_, noticed) in zip(reached, servers, strict=True):
        assert (await mcp.call_tool("echo", {"text": "hi"})).text == "hi"
        seen: list[Progress] = []
        await mcp.call_tool("steps", on_progress=seen.append)
        assert len(seen) == 2
        with pytest.raises(AcpError):
            await mcp.call_tool("none")
        call = mcp.call_tool("hang")
        await until(reactor, lambda noticed=noticed: bool(noticed["contexts"]))  # type: ignore[misc]
        call.cancel("enough")
        with pytest.raises(RequestCancelled):
            await call
        await until(reactor, lambda noticed=noticed: bool(noticed["cancelled"]))  # type: ignore[misc]
        assert noticed["cancelled"] == [("$/cancel_request",)]
    assert b"notifications/cancelled" not in b"".join(message for _, message in link.wire)
    for mcp in reached:
        await mcp.close()
    await client.close()
    await bridge.close()


@pytest.mark.parametrize("both", [False, True])
async def test_an_agent_that_is_left_as_it_is(both: bool) -> None:
    """One that takes neither, and one that takes both: nothing is changed on the way."""
    from twisted.internet import reactor

    bridge = McpBridge(reactor)
    await bridge.start()
    chain = RawChain([passing(), bridge_in_proxy(AcpProxy.builder(), bridge).build()], initialize=False)
    chain.client.send({"id": "i", "method": "initialize", "params": {"protocolVersion": 1}})
    told = {"agentCapabilities": {"mcpCapabilities": {"http": True, "acp": True}}} if both else {}
    chain.agent.answer({"protocolVersion": 1, **told})
    chain.agent.take()
    assert chain.client.answers("i") == [{"result": {"protocolVersion": 1, **told}}]
    servers = [{"type": "acp", "name": "n", "serverId": "s"}]
    chain.client.send({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": servers}})
    about = {"serverId": "s", "requestId": "r", "method": "m"}
    chain.client.send({"method": "mcp/message", "params": about})
    opened, notified = chain.agent.take()
    assert opened["params"]["mcpServers"] == servers
    assert notified["params"] == about
    await bridge.close()


@pytest.mark.parametrize("version", [1, 2])
async def test_an_address_lives_as_long_as_its_connection(version: int) -> None:
    """An entry has one address on a connection, whichever session it is for; none is left behind."""
    from twisted.internet import reactor

    bridge = McpBridge(reactor)
    await bridge.start()
    chain = RawChain([bridge_in_proxy(AcpProxy.builder(), bridge).build()], initialize=False)
    chain.client.send({"id": "i", "method": "initialize", "params": {"protocolVersion": version}})
    takes: dict[str, Any] = {"agentCapabilities": {"mcpCapabilities": {"http": True}}}
    if version == 2:
        takes = {"capabilities": {"session": {"mcp": {"http": {}}}}}
    chain.agent.answer({"protocolVersion": version, **takes})
    chain.agent.take()
    (answer,) = chain.client.answers("i")
    found: Any = answer["result"]
    for name in ("agentCapabilities", "mcpCapabilities") if version == 1 else ("capabilities", "session", "mcp"):
        found = found[name]
    assert found["acp"] in (True, {})
    acp, other = {"type": "acp", "name": "n", "serverId": "s"}, {"type": "http", "name": "o", "url": "http://x"}
    for number in (1, 2):
        params = {"cwd": "/w", "mcpServers": [acp, other]}
        chain.client.send({"id": number, "method": "session/new", "params": params})
    first, second = chain.agent.take()
    assert first["params"] == second["params"]
    made, same = first["params"]["mcpServers"]
    assert same == other
    assert list(bridge._resources) == [made["url"]]
    assert made["headers"][0]["name"] == "Authorization"
    chain.client.transport = None
    chain.link.a.abort("gone")
    del chain
    gc.collect()
    assert list(bridge._resources) == []
    await bridge.close()
