"""
MCP over HTTP on this machine's loopback interface, for agents that can't reach servers over ACP.

Who knows the address can't use it without the token, and who has the token but another origin neither: a web page that
found the port gets nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from secrets import token_urlsafe
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.logger import Logger
from twisted.web.pages import notFound
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from acp_twisted.mcp.backend import AcpBackend, McpBackend
from acp_twisted.mcp.provider import types_of
from acp_twisted.mcp.resource import HttpBounds, McpResource
from acp_twisted.mcp.responses import abort_response
from acp_twisted.mcp.routes import AcpLink
from acp_twisted.schema import v1
from acp_twisted.transports.http.security import BearerTokens

_log = Logger()

MAX_CONNECTIONS = 128
"""How many connections the bridge keeps at once; one more is closed at once."""


class _Root(Resource):
    """
    Has nothing of its own.
    """

    def __init__(self) -> None:
        Resource.__init__(self)

    def getChild(self, path: bytes, request: Any) -> Any:
        """
        404.
        """
        return notFound()


class _BoundedRequest(Request):
    """
    A request whose body is not kept beyond the bound.
    """

    too_large = False
    max_body_bytes = 0

    def gotLength(self, length: int | None) -> None:
        """
        What the client says of the size beforehand.
        """
        self._received = 0
        if length is not None and length > self.max_body_bytes:
            self.too_large = True
            length = 0
        Request.gotLength(self, length)

    def handleContentChunk(self, data: bytes) -> None:
        """
        A part of the body.
        """
        self._received += len(data)
        if self._received <= self.max_body_bytes:
            Request.handleContentChunk(self, data)
            return
        self.too_large = True
        if self._received > 2 * self.max_body_bytes:
            abort_response(self)


class _BridgeSite(Site):
    """
    Writes no access log, since an address is half of a secret, and bounds its connections.
    """

    noisy = False

    def __init__(self, root: Resource, reactor: Any, bounds: HttpBounds) -> None:
        factory = type("BoundedRequest", (_BoundedRequest,), {"max_body_bytes": bounds.max_body_bytes})
        Site.__init__(self, root, requestFactory=factory, reactor=reactor)
        self._open: dict[Any, Any] = {}

    def abort_all(self) -> None:
        """
        Cut every connection: one that is idle could be used again.
        """
        for transport in list(self._open.values()):
            if transport is not None:
                transport.abortConnection()

    def log(self, request: Any) -> None:
        """
        Nothing.
        """

    def buildProtocol(self, addr: Any) -> Any:
        """
        One more connection, if there is room.
        """
        if len(self._open) >= MAX_CONNECTIONS:
            return None
        channel: Any = Site.buildProtocol(self, addr)
        self._open[channel] = None
        made, lost = channel.makeConnection, channel.connectionLost

        def begun(transport: Any) -> None:
            self._open[channel] = transport
            made(transport)

        def gone(reason: Any) -> None:
            self._open.pop(channel, None)
            lost(reason)

        channel.makeConnection = begun
        channel.connectionLost = gone
        return channel


class McpBridge:
    """
    Serves MCP servers as C{http} entries of C{mcpServers}.
    """

    def __init__(self, reactor: Any, bounds: HttpBounds | None = None) -> None:
        self._reactor = reactor
        self._bounds = HttpBounds() if bounds is None else bounds
        self._root = _Root()
        self._port: Any = None
        self._resources: dict[str, McpResource] = {}
        self._site: _BridgeSite | None = None

    async def start(self) -> None:
        """
        Listen, on the loopback interface and a port of the system's choice.
        """
        if self._port is None:
            self._site = _BridgeSite(self._root, self._reactor, self._bounds)
            self._port = await TCP4ServerEndpoint(self._reactor, 0, interface="127.0.0.1").listen(self._site)

    def add(self, backend: McpBackend, name: str, types: Any = v1) -> Any:
        """
        Serve one, after L{start}.

        @param types: the classes of the version of ACP that is spoken, C{connection.vocabulary.types}.
        @return: the entry, a C{McpServerHttp}, which holds the address and the token; both are secret.
        """
        path, token = token_urlsafe(32), token_urlsafe(32)
        host = self._port.getHost()
        resource = McpResource(
            backend,
            self._reactor,
            bounds=self._bounds,
            origins=(f"http://127.0.0.1:{host.port}",),
            hosts=("127.0.0.1",),
            authentication=BearerTokens([token]),
        )
        self._root.putChild(path.encode(), resource)
        url = f"http://127.0.0.1:{host.port}/{path}"
        self._resources[url] = resource
        header = types.HttpHeader(name="Authorization", value=f"Bearer {token}")
        return types.McpServerHttp(name=name, url=url, headers=[header])

    def remove(self, entry: Any) -> None:
        """
        Serve one no more: what it works on is cancelled.
        """
        resource = self._resources.pop(entry.url, None)
        if resource is not None:
            del self._root.children[entry.url.rpartition("/")[2].encode()]
            resource.close()

    def adapt(self, servers: Sequence[Any], link: AcpLink) -> list[Any]:
        """
        For an agent, or a proxy, with something behind it that takes only addresses: every C{acp} entry as an C{http}
        one that leads through C{link}, the others as they are.  The agent must L{accept<
        acp_twisted.mcp.connecting.accept_over_acp>} MCP over ACP.
        """
        adapted: list[Any] = []
        for server in servers:
            if getattr(server, "TAG", None) == ("type", "acp"):
                entry = self.add(AcpBackend(link, server.server_id), server.name, types_of(server))
                link.when_closed().addCallback(partial(self._gone, entry))
                adapted.append(entry)
            else:
                adapted.append(server)
        return adapted

    def _gone(self, entry: Any, _: object) -> None:
        self.remove(entry)

    async def close(self) -> None:
        """
        Cancel what is at work, listen no more, and close the connections that are there.
        """
        resources, self._resources = self._resources, {}
        self._root.children.clear()
        for resource in resources.values():
            resource.close()
        site, self._site = self._site, None
        if site is not None:
            site.abort_all()
        port, self._port = self._port, None
        if port is not None:
            await maybeDeferred(port.stopListening)
