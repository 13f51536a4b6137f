"""
Chains over real sockets and pipes: a conductor as a service, a proxy in its process, an agent as a program.
"""

from __future__ import annotations

import shlex
import sys
from typing import Any

import pytest
from raw_programs import SCRIPTED_AGENT
from twisted.internet.defer import Deferred

from acp_twisted import AcpClient, AcpError, AcpProxy, Conductor, Limits
from acp_twisted.proxy import PASS, ProxyContext
from acp_twisted.schema import v1
from acp_twisted.service import AgentService

HERE = "tcp:0:interface=127.0.0.1"


@pytest.fixture
def real_reactor() -> Any:
    """The reactor that the tests run in."""
    from twisted.internet import reactor

    return reactor


def counting(seen: list[str]) -> AcpProxy:
    """A proxy that notes what passes."""

    def note(_: Any, context: ProxyContext) -> Any:
        seen.append(context.method)
        return PASS

    return AcpProxy.builder().agent_notification_handler(None, note).client_notification_handler(None, note).build()


async def test_a_conductor_serves_several_clients(real_reactor: Any) -> None:
    """Each client has a chain of its own; turns stream, are cancelled in both ways, and the end of the service ends
    every program (V1C5, C30)."""
    seen: list[str] = []
    conductor = Conductor.builder().proxy(counting(seen)).agent(shlex.join(SCRIPTED_AGENT)).build()
    service = AgentService(conductor, HERE, real_reactor)
    service.startService()
    (port,) = await service.when_listening()
    address: Any = port.getHost()
    client = AcpClient.builder().build()
    connections = [await client.connect(real_reactor, f"tcp:127.0.0.1:{address.port}") for _ in range(2)]
    for connection in connections:
        await connection.initialize()
        session = await connection.new_session("/tmp")
        turn = session.prompt("stream 100000 0.01")
        async for _ in turn.updates():
            turn.cancel()
            break
        response = await turn.response
        assert response.stop_reason == "cancelled"
        assert (await session.prompt("stream 3").response).stop_reason == "end_turn"
        call = connection.call(
            v1.PromptRequest(session_id=session.session_id, prompt=[v1.TextContent(text="hang")]), wait=True
        )
        call.cancel()
        with pytest.raises(AcpError, match="-32800"):
            await call
    assert "session/cancel" in seen
    assert "$/cancel_request" not in seen
    gone = [connection.when_closed() for connection in connections]
    await service.stopService()
    for each in gone:
        await each


async def test_an_agent_that_is_killed_in_the_middle(real_reactor: Any) -> None:
    """Its turn is answered with an error that names it, and then the link is closed."""
    killed = shlex.join([sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit(9)"])
    conductor = Conductor.builder().proxy(counting([])).agent(killed, name="the agent").build()
    service = AgentService(conductor, HERE, real_reactor)
    service.startService()
    (port,) = await service.when_listening()
    address: Any = port.getHost()
    connection = await AcpClient.builder().build().connect(real_reactor, f"tcp:127.0.0.1:{address.port}")
    with pytest.raises(AcpError, match="the agent is gone: the agent exited with status 9") as caught:
        await connection.initialize()
    assert caught.value.data == {"component": "the agent", "reason": "the agent exited with status 9", "exitCode": 9}
    await connection.when_closed()
    await service.stopService()


async def test_a_client_that_reads_nothing(real_reactor: Any) -> None:
    """Over real pipes and sockets it holds the agent, through the proxy; when it reads, everything comes, in order."""
    limits = Limits(high_water_bytes=20_000, low_water_bytes=10_000)
    conductor = Conductor.builder().limits(limits).proxy(counting([])).agent(shlex.join(SCRIPTED_AGENT)).build()
    service = AgentService(conductor, HERE, real_reactor)
    service.startService()
    (port,) = await service.when_listening()
    address: Any = port.getHost()
    connection = await AcpClient.builder().build().connect(real_reactor, f"tcp:127.0.0.1:{address.port}")
    await connection.initialize()
    session = await connection.new_session("/tmp")
    turn = session.prompt("stream 20000")
    transport: Any = connection.peer._transport
    transport.pauseProducing()
    wait: Deferred[None] = Deferred()
    real_reactor.callLater(0.5, wait.callback, None)
    await wait
    transport.resumeProducing()
    numbers: list[int] = []
    async for update in turn.updates():
        if isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent):
            numbers.append(int(update.content.text))
    assert numbers == list(range(1, 20001))
    assert (await turn.response).stop_reason == "end_turn"
    await connection.close()
    await service.stopService()
