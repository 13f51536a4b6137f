"""
Our two halves with nginx or haproxy between them, on the configurations that the manual gives.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from peers import peer
from remote_agents import Remote, serving
from test_integration_remote import client, say
from test_integration_tls import write_certificate
from twisted.internet.defer import Deferred, gatherResults

from acp_twisted import ClientConnection
from acp_twisted.schema import v1
from acp_twisted.transports.http.url import AgentUrl, TlsOptions
from interop.programs import Programs, until

pytestmark = [
    # Twisted still hands pyOpenSSL its own certificate objects.
    pytest.mark.filterwarnings("ignore:.*X509:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*PKey:DeprecationWarning"),
]
MANUAL = Path(__file__).resolve().parents[2] / "docs" / "proxies"
PROXIES = pytest.mark.parametrize("proxy", ["nginx", "haproxy"])
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "h2": ("https", {}),
    "http1": ("https", {"http2": False}),
    "wss": ("wss", {}),
}
EVERY = pytest.mark.parametrize("way", WAYS)


def free_port() -> int:
    """
    A port that nobody listens on now.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def configured(proxy: str, folder: Path, ports: dict[str, int]) -> list[str]:
    """
    Write the manual's configuration down with other ports.

    @return: how the proxy is started with it.
    """
    key, certificate = write_certificate(folder)
    if proxy == "haproxy":
        certificate.write_bytes(certificate.read_bytes() + key.read_bytes())
    name = "nginx.conf" if proxy == "nginx" else "haproxy.cfg"
    text = (MANUAL / name).read_text()
    # All at once: a port may have another in it.
    text, found = re.subn(rf"\b(?:{'|'.join(ports)})\b", lambda match: str(ports[match[0]]), text)
    assert found == len(ports)
    (folder / name).write_text(text)
    if proxy == "nginx":
        words: list[str | Path] = [
            "-p",
            folder,
            "-c",
            folder / name,
            "-e",
            "stderr",
            "-g",
            f"daemon off; pid {folder}/nginx.pid;",
        ]
        return peer("nginx").command(*words)
    return peer("haproxy").command("-db", "-C", folder, "-f", folder / name)


async def started(reactor: Any, programs: Programs, proxy: str, folder: Path, agents: list[Remote]) -> int:
    """
    Start a proxy, and wait until it listens.  Somebody else may have taken its port meanwhile: then with another one.

    @return: its port.
    """
    for _ in range(5):
        port = free_port()
        ports = {"8443": port, "8001": agents[0].port, "8002": agents[1].port}
        _, done = programs.start(configured(proxy, folder, ports), stdin=None, cwd=folder)
        ended: list[Any] = []
        done.addCallback(ended.append)

        def is_up(port: int = port, ended: list[Any] = ended) -> bool:
            return bool(ended) or greets(port, folder)

        await until(reactor, is_up)
        if not ended:
            return port
    raise AssertionError(ended[0].explain())


def greets(port: int, folder: Path) -> bool:
    """
    Whether who listens there shows our certificate.
    """
    trust = ssl.create_default_context(cafile=str(folder / "certificate.pem"))
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 5) as probe,
            trust.wrap_socket(probe, server_hostname="localhost"),
        ):
            return True
    except OSError:
        return False


@asynccontextmanager
async def behind(
    reactor: Any, programs: Programs, proxy: str, folder: Path
) -> AsyncIterator[tuple[int, TlsOptions, list[Remote]]]:
    """
    Two agents behind a proxy: its port, what vouches for it, and the agents.
    """
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(serving(reactor)) for _ in range(2)]
        port = await started(reactor, programs, proxy, folder, agents)
        yield port, TlsOptions(trust_roots=str(folder / "certificate.pem")), agents
        await programs.stop_all()


async def connect(reactor: Any, port: int, tls: TlsOptions, way: str) -> ClientConnection:
    """
    One connection through the proxy.
    """
    scheme, options = WAYS[way]
    where = AgentUrl(url=f"{scheme}://localhost:{port}/acp", tls=tls, **options)
    connection = await client().connect(reactor, where)
    await connection.initialize()
    return connection


@PROXIES
@EVERY
async def test_conversations(proxy: str, way: str, real_reactor: Any, programs: Programs, workspace: Path) -> None:
    """
    Protocol 5.2: every request of a client reaches its own agent, by the cookie; both agents have clients; streams are
    in order, a permission comes back, long messages pass.

    Who gets a client is chance with nginx, and the manual says so; as many come as it takes.
    """
    async with behind(real_reactor, programs, proxy, workspace) as (port, tls, agents):
        links: list[ClientConnection] = []
        while len(links) < 8 or not all(len(agent.resource.connections) for agent in agents):
            assert len(links) < 100, "one agent has all the clients"
            links.append(await connect(real_reactor, port, tls, way))

        async def converse(link: ClientConnection) -> None:
            session = await link.new_session(cwd="/")
            assert await say(session, "stream 100") == ("end_turn", [str(n) for n in range(1, 101)])
            assert await say(session, "permission") == ("end_turn", ["yes"])
            assert await say(session, "y" * 500_000) == ("end_turn", ["y" * 500_000])

        await gatherResults([Deferred.fromCoroutine(converse(link)) for link in links])
        for link in links:
            await link.close()
        await until(real_reactor, lambda: not any(len(agent.resource.connections) for agent in agents))


@PROXIES
@EVERY
async def test_streams_are_not_buffered(
    proxy: str, way: str, real_reactor: Any, programs: Programs, workspace: Path
) -> None:
    """
    An update arrives when it is sent, not when some buffer is full, for no more than these three come before the
    cancellation, which gets through meanwhile (V1C5).
    """
    async with behind(real_reactor, programs, proxy, workspace) as (port, tls, _agents):
        link = await connect(real_reactor, port, tls, way)
        session = await link.new_session(cwd="/")
        turn = session.prompt("wait 3")
        ticks = 0
        async for update in turn.updates():
            assert isinstance(update, v1.AgentMessageChunk)
            ticks += 1
            if ticks == 3:
                turn.cancel()
        assert (await turn).stop_reason == "cancelled"
        assert ticks == 3
        await link.close()


@PROXIES
@EVERY
async def test_a_client_that_goes_away(
    proxy: str, way: str, real_reactor: Any, programs: Programs, workspace: Path
) -> None:
    """Closing reaches the agent through the proxy, in the middle of a turn too."""
    async with behind(real_reactor, programs, proxy, workspace) as (port, tls, agents):
        link = await connect(real_reactor, port, tls, way)
        session = await link.new_session(cwd="/")
        turn = session.prompt("slow")
        turn.response.addErrback(lambda failure: None)
        async for _ in turn.updates():
            break
        await link.close()
        await until(real_reactor, lambda: not any(len(agent.resource.connections) for agent in agents))
