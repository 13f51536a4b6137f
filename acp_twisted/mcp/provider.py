"""
MCP over ACP, the side that has the tools: a client, or a proxy, serves L{McpServer}s to an agent through the connection
that they have already.

The cancellation of the ACP request is that of the tool call; the tool's token is set inside the delivery of
C{$/cancel_request}, and the request is answered -32800, as ACP wants it and MCP does not (X5, M20).
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Protocol, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from attrs import define
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError, InvalidParams, LocalError, RequestCancelled
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.limits import Limits
from acp_twisted.mcp.routes import CONNECT, DISCONNECT, MESSAGE, AcpLink, Form, RawBuilder, Tunnel, notified, tunnelled
from acp_twisted.mcp.server import MAX_ACTIVE, McpRequest, McpServer, check_envelope, log_level_of
from acp_twisted.mcp.serving import ServerConnection
from acp_twisted.mcp.versions import McpCapabilityError
from acp_twisted.schema import v1

_log = Logger()
_B = TypeVar("_B", bound=RawBuilder)

LIMIT_REACHED = -33000
"""The outer error of a request that is one too many."""

UNAVAILABLE = -33001
"""The outer error of a request to a server that is not there, or not any more."""

BACKEND_FAILED = -33002
"""The outer error of a request whose server failed to come to any outcome."""


@define(eq=False)
class _Active:
    """
    A request at work.
    """

    server_id: str
    work: Deferred[Any] | None = None


class McpProvider:
    """
    Serves MCP servers to agents.

    @ivar servers: by their ids, which are this provider's own and go with it.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        form: Form = "stateless",
        max_active: int = MAX_ACTIVE,
        limits: Limits | None = None,
    ) -> None:
        """
        @param form: C{connection} is the older one, with C{mcp/connect}.
        @param max_active: how many requests of one connection are worked on at once.
        """
        self.servers = {f"{server.name}:{uuid4()}": server for server in servers}
        self.form: Form = form
        self._max_active = max_active
        self._limits = Limits() if limits is None else limits
        self._active: WeakKeyDictionary[Any, dict[tuple[str, str], _Active]] = WeakKeyDictionary()
        self._tunnels: WeakKeyDictionary[Any, dict[str, Tunnel]] = WeakKeyDictionary()

    def install(self, builder: _B) -> _B:
        """
        Have the clients of a builder serve them.

        @param builder: an L{AcpClientBuilder<acp_twisted.client.client.AcpClientBuilder>}, or what else has its
            C{raw_handler}.
        @return: C{builder}.
        """
        builder.raw_handler(MESSAGE, self.message)
        if self.form == "connection":
            builder.raw_handler(CONNECT, self.connect)
            builder.raw_handler(DISCONNECT, self.disconnect)
        return builder

    def entries(self, types: Any = v1) -> list[Any]:
        """
        What goes into C{mcp_servers} of C{session/new}, for an agent that takes servers over ACP.

        @param types: the classes of the version that is spoken, C{connection.vocabulary.types}.
        @return: C{McpServerAcp} objects.
        """
        return [types.McpServerAcp(name=server.name, server_id=server_id) for server_id, server in self.servers.items()]

    def withdraw(self, server_id: str) -> None:
        """
        Serve one no more: later requests are refused, and those at work are cancelled.

        @raise KeyError: when there is none of that id.
        """
        del self.servers[server_id]
        for active in list(self._active.values()):
            for one in list(active.values()):
                if one.server_id == server_id and one.work is not None:
                    one.work.cancel()

    # ---- the stateless form

    def message(self, message: object, link: AcpLink) -> object:
        """
        Handle C{mcp/message}, of either form.
        """
        if isinstance(message, Notification):
            notified(message, link)
            return None
        assert isinstance(message, IncomingRequest)
        if self.form == "connection":
            return tunnelled(message, link)
        return self.handle(message.params, link, message.token)

    def handle(self, params: Any, link: AcpLink, token: CancellationToken) -> Deferred[dict[str, Any]]:
        """
        Handle a request C{mcp/message} of the stateless form, whoever received it.

        @param token: its cancellation.
        @return: the answer as JSON.  Cancelling it cancels the tool.
        @raise AcpError: when there is no such server, too much at work, or the params are malformed.
        """
        server_id, request_id, method, inner = _envelope(params)
        server = self.servers.get(server_id)
        if server is None:
            raise AcpError(UNAVAILABLE, "MCP server unavailable", {"serverId": server_id})
        active = self._active.setdefault(link, {})
        key = (server_id, request_id)
        if key in active:
            raise InvalidParams("Invalid params: the requestId is in use", {"requestId": request_id})
        if len(active) >= self._max_active:
            raise AcpError(LIMIT_REACHED, "Too many MCP requests", {"maxActive": self._max_active})
        one = active[key] = _Active(server_id)

        def notify(about: str, more: dict[str, Any]) -> None:
            if active.get(key) is one:
                told = {"serverId": server_id, "requestId": request_id, "method": about, "params": more}
                link.ext_notification(MESSAGE, told)

        def over(result: Any) -> Any:
            if active.get(key) is one:
                del active[key]
            return result

        work: Deferred[Any]
        try:
            check_envelope(inner)
        except AcpError as error:
            work = Deferred()
            work.errback(error)
        else:
            request = McpRequest(method, inner, request_id, token, notify, log_level=log_level_of(inner))
            work = server.handle(request)
        one.work = work
        return work.addBoth(over).addCallbacks(_carried, _error_carried)

    # ---- the older form

    def connect(self, message: object, link: AcpLink) -> object:
        """
        Handle C{mcp/connect}.
        """
        params = _params(message)
        server = self.servers.get(str(params.get("serverId")))
        if server is None:
            raise AcpError(UNAVAILABLE, "MCP server unavailable", {"serverId": params.get("serverId")})
        tunnels = self._tunnels.setdefault(link, {})
        if len(tunnels) >= self._max_active:
            raise AcpError(LIMIT_REACHED, "Too many MCP connections", {"maxActive": self._max_active})
        connection_id = str(uuid4())
        serving = ServerConnection(server, link.peer.clock, self._limits)
        tunnels[connection_id] = Tunnel(link, connection_id, serving.peer, lambda: tunnels.pop(connection_id, None))
        return {"connectionId": connection_id}

    def disconnect(self, message: object, link: AcpLink) -> object:
        """
        Handle C{mcp/disconnect}.
        """
        connection_id = _params(message).get("connectionId")
        tunnel = self._tunnels.get(link, {}).get(str(connection_id))
        if tunnel is None:
            raise InvalidParams("Invalid params: unknown connectionId", {"connectionId": connection_id})
        tunnel.close()
        return {}


class EntryMaker(Protocol):
    """
    What makes entries of servers for agents that take no C{acp} ones: an L{McpBridge
    <acp_twisted.mcp.bridge.McpBridge>}.
    """

    def add(self, backend: McpServer, name: str, types: Any) -> Any:
        """
        Serve one.
        """


def offered_to(capabilities: Any, provider: McpProvider, bridge: EntryMaker | None = None) -> list[Any]:
    """
    What a client puts into C{mcp_servers} for its own tools: C{acp} entries where the agent takes them, else C{http}
    ones through the bridge.

    @param capabilities: the agent's, C{connection.agent_capabilities}, of either version of ACP.
    @raise McpCapabilityError: when the agent takes neither, or there is no bridge.
    """
    types = types_of(capabilities)
    takes = getattr(capabilities, "mcp_capabilities", None)
    if takes is None:
        takes = getattr(getattr(capabilities, "session", None), "mcp", None)
    if takes is not None and takes.acp:
        return provider.entries(types)
    if bridge is not None and takes is not None and takes.http:
        return [bridge.add(server, server.name, types) for server in provider.servers.values()]
    raise McpCapabilityError("the agent can reach MCP servers neither over ACP nor over HTTP")


def types_of(value: object) -> Any:
    """
    The module of the classes of the version of ACP that an object is of.
    """
    name = type(value).__module__.removesuffix("_unstable")
    return v1 if name == v1.__name__ else import_module(name)


def _params(message: object) -> dict[str, Any]:
    params = getattr(message, "params", None)
    return params if isinstance(params, dict) else {}


def _envelope(params: Any) -> tuple[str, str, str, dict[str, Any]]:
    """
    What is in a request of the stateless form.

    @raise InvalidParams: when something is missing.
    """
    if not isinstance(params, dict):
        raise InvalidParams("Invalid params: not an object")
    wanted = [params.get(name) for name in ("serverId", "requestId", "method")]
    inner = params.get("params")
    server_id, request_id, method = wanted
    if not (isinstance(server_id, str) and isinstance(request_id, str) and isinstance(method, str)):
        raise InvalidParams("Invalid params: serverId, requestId and method are strings")
    if inner is not None and not isinstance(inner, dict):
        raise InvalidParams("Invalid params: params is an object")
    return server_id, request_id, method, inner or {}


def _carried(result: dict[str, Any]) -> dict[str, Any]:
    return {"result": result}


def _error_carried(failure: Failure) -> dict[str, Any]:
    """
    An error of MCP, inside of a successful answer of ACP.

    @raise AcpError: for what is no outcome of MCP: a cancellation, and a failure of the server itself.
    """
    error = failure.value
    if isinstance(error, CancelledError):
        raise RequestCancelled() from None
    if isinstance(error, AcpError) and not isinstance(error, LocalError):
        said: dict[str, Any] = {"code": error.code, "message": error.message}
        return {"error": said if error.data is None else {**said, "data": error.data}}
    _log.failure("an MCP server failed", failure)
    raise AcpError(BACKEND_FAILED, "MCP server failed")
