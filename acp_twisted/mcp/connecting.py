"""
From an entry of C{mcpServers} to an L{McpClient}: what an agent does with what C{session/new} brought.
"""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import uuid4

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred

from acp_twisted.errors import AcpError, InvalidResponse
from acp_twisted.mcp.client import McpClient, McpOptions
from acp_twisted.mcp.routes import (
    CONNECT,
    DISCONNECT,
    MESSAGE,
    AcpLink,
    Form,
    RawBuilder,
    StatelessTransport,
    Tunnel,
    agents_message,
)
from acp_twisted.mcp.versions import STATELESS, McpCapabilityError

_B = TypeVar("_B", bound=RawBuilder)


def accept_over_acp(builder: _B) -> _B:
    """
    Have the agents of a builder reach MCP servers that are behind their client.  They should also advertise it, with
    C{mcp_capabilities=v1.McpCapabilities(acp=True)}.

    @param builder: an L{AcpAgentBuilder<acp_twisted.agent.agent.AcpAgentBuilder>}, or what else has its
        C{raw_handler}.
    @return: C{builder}.
    """
    builder.raw_handler(MESSAGE, agents_message)
    return builder


def connect(
    reactor: Any,
    server: Any,
    options: McpOptions | None = None,
    *,
    connection: AcpLink | None = None,
    cwd: str | None = None,
    inherit_env: bool = False,
    form: Form = "stateless",
    agent: Any = None,
) -> Deferred[McpClient]:
    """
    Connect to an MCP server, and agree with it on a revision.

    @param server: an entry of C{mcpServers}: C{McpServerStdio}, C{McpServerHttp} or C{McpServerAcp}, of either version
        of ACP.
    @param connection: the agent's connection: the client is closed when that ends, and a server that is behind the
        agent's own client is reached through it.
    @param cwd: where the program of a server is started; the session's, as a rule.
    @param inherit_env: whether such a program gets all of our environment, or only what every program needs and what
        C{server} names.
    @param form: C{connection} is the older way of MCP over ACP.
    @param agent: what sends the requests of HTTP (L{IAgent<twisted.web.iweb.IAgent>}); by default one of Twisted's.
    @return: the client.  Cancelling it gives up.  It fails with L{AcpConnectionError
        <acp_twisted.errors.AcpConnectionError>} or what else C{open} fails with, and then nothing is left open.
    @raise McpCapabilityError: for a kind of server that can't be reached.
    """
    options = McpOptions() if options is None else options
    kind = (getattr(server, "TAG", None) or ("type", "stdio"))[1]
    client = McpClient(reactor, options)
    if kind == "stdio":
        ready = _start(reactor, server, client, cwd, inherit_env)
    elif kind == "http":
        ready = _reach(reactor, server, client, agent)
    elif kind == "acp" and connection is not None:
        if form == "stateless":
            client = McpClient(reactor, evolve(options, protocol=options.protocol or STATELESS))
            ready = _join(server, client, connection)
        else:
            ready = _tunnel(server, client, connection)
    else:
        raise McpCapabilityError(f"MCP servers of type {kind!r} can't be reached from here")
    if connection is not None and kind != "acp":
        _close_with(client, connection)
    return Deferred.fromCoroutine(_open(client, ready))


def _close_with(client: McpClient, connection: AcpLink) -> None:
    """
    Leave no server running for a connection that is gone.
    """

    def over(_: object) -> None:
        ending.cancel()

    ending = connection.when_closed().addCallback(lambda _: client.close())
    ending.addErrback(lambda failure: failure.trap(CancelledError))
    client.when_closed().addCallback(over)


async def _open(client: McpClient, ready: Deferred[Any]) -> McpClient:
    try:
        await ready
        await client.open()
    except BaseException:
        client.close()
        raise
    return client


def _start(reactor: Any, server: Any, client: McpClient, cwd: str | None, inherit_env: bool) -> Deferred[Any]:
    from acp_twisted.transports.process import AgentCommand, spawn  # noqa: PLC0415 - only for programs

    command = AgentCommand(
        [server.command, *(server.args or ())],
        cwd=cwd,
        env={each.name: each.value for each in server.env or ()},
        inherit_env=inherit_env,
    )
    return spawn(reactor, command, client.session.peer, client.options.limits)


def _reach(reactor: Any, server: Any, client: McpClient, agent: Any) -> Deferred[Any]:
    from acp_twisted.mcp.http import HttpTransport, OwnAgent  # noqa: PLC0415 - only for HTTP

    own = None
    if agent is None:
        own = OwnAgent(reactor)
        agent = own.agent
    session = client.session
    headers = [(each.name, each.value) for each in server.headers or ()]
    transport = HttpTransport(agent, server.url, headers, session.peer, reactor)
    session.on_agreed = lambda version: transport.agreed(version, session.stateless)
    if own is not None:
        session.peer.when_closed().addCallback(lambda _: own.close())
    session.peer.connection_made(transport)
    return _now()


def _join(server: Any, client: McpClient, connection: AcpLink) -> Deferred[Any]:
    peer = client.session.peer
    peer.connection_made(StatelessTransport(connection, server.server_id, uuid4().hex[:12], peer))
    return _now()


def _tunnel(server: Any, client: McpClient, connection: AcpLink) -> Deferred[Any]:
    def opened(answer: Any) -> None:
        connection_id = answer.get("connectionId") if isinstance(answer, dict) else None
        if not isinstance(connection_id, str):
            raise InvalidResponse("the answer to mcp/connect has no connectionId")

        def gone() -> None:
            closing = connection.ext_request(DISCONNECT, {"connectionId": connection_id})
            closing.addErrback(lambda failure: failure.trap(AcpError))

        Tunnel(connection, connection_id, client.session.peer, gone)

    return connection.ext_request(CONNECT, {"serverId": server.server_id}).addCallback(opened)


def _now() -> Deferred[Any]:
    ready: Deferred[Any] = Deferred()
    ready.callback(None)
    return ready
