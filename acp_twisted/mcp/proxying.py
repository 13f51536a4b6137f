"""
MCP in proxies: one that offers tools of its own, and one that stands before an agent which takes only addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet, finalize

from twisted.internet.defer import Deferred

from acp_twisted.mcp.backend import AcpBackend
from acp_twisted.mcp.provider import McpProvider
from acp_twisted.mcp.routes import MESSAGE, heard

if TYPE_CHECKING:
    from acp_twisted.mcp.bridge import McpBridge

_OPENING = ("session/new", "session/load", "session/resume", "session/fork")


class ProxyBuilder(Protocol):
    """
    What builds a proxy: L{AcpProxyBuilder<acp_twisted.proxy.proxy.AcpProxyBuilder>}.
    """

    def client_request_handler(self, method: Any, handler: Callable[..., Any], *, raw: bool = False) -> Any:
        """
        Take a request of the client's side.
        """

    def agent_request_handler(self, method: Any, handler: Callable[..., Any], *, raw: bool = False) -> Any:
        """
        Take a request of the agent's side.
        """

    def client_notification_handler(self, method: Any, handler: Callable[..., Any], *, raw: bool = False) -> Any:
        """
        Take a notification of the client's side.
        """


_B = TypeVar("_B", bound=ProxyBuilder)


def offer_in_proxy(builder: _B, provider: McpProvider) -> _B:
    """
    Have the proxies of a builder offer a provider's tools, in the stateless form, to agents that take servers over ACP
    (every conductor's side does, by the protocol).  The client's own servers, and what the agent asks of them, pass as
    they are.

    @return: C{builder}.
    """
    takers: WeakSet[Any] = WeakSet()

    async def initialize(params: Any, context: Any) -> Any:
        answer = await context.forward()
        if _takes(answer, "acp"):
            takers.add(context.agent)
        return answer

    def opening(params: Any, context: Any) -> Any:
        if not (context.agent in takers and isinstance(params, dict)):
            return context.forward()
        ours = [{"type": "acp", "name": each.name, "serverId": each.server_id} for each in provider.entries()]
        return context.forward({**params, "mcpServers": [*(params.get("mcpServers") or ()), *ours]})

    def message(params: Any, context: Any) -> Any:
        if not (isinstance(params, dict) and params.get("serverId") in provider.servers):
            return context.forward()
        work: Deferred[Any] = provider.handle(params, context.agent, context.token)
        context.token.on_cancel(work.cancel)
        return work

    builder.client_request_handler("initialize", initialize, raw=True)
    for method in _OPENING:
        builder.client_request_handler(method, opening, raw=True)
    builder.agent_request_handler(MESSAGE, message, raw=True)
    return builder


def bridge_in_proxy(builder: _B, bridge: McpBridge) -> _B:
    """
    Have the proxies of a builder give an agent that takes servers over HTTP those over ACP as well: the agent's side
    then says that it takes them, and each C{acp} entry becomes an address of the bridge, which leads back to whoever
    offers it.  Such a proxy stands last, before the agent.  An agent that takes neither is left as it is, and so is one
    that takes both.

    @param bridge: one that was started.
    @return: C{builder}.
    """
    behind: WeakKeyDictionary[Any, dict[str, dict[str, Any]]] = WeakKeyDictionary()

    async def initialize(params: Any, context: Any) -> Any:
        answer = await context.forward()
        if _takes(answer, "http") and not _takes(answer, "acp"):
            behind[context.client] = {}
            return _taking_acp(answer)
        return answer

    def entry(server: dict[str, Any], side: Any, known: dict[str, dict[str, Any]]) -> dict[str, Any]:
        server_id = str(server.get("serverId"))
        if server_id not in known:
            made = bridge.add(AcpBackend(side, server_id), str(server.get("name")))
            finalize(side, bridge.remove, made)
            headers = [{"name": each.name, "value": each.value} for each in made.headers]
            known[server_id] = {"type": "http", "name": made.name, "url": made.url, "headers": headers}
        return known[server_id]

    def opening(params: Any, context: Any) -> Any:
        known = behind.get(context.client)
        servers = params.get("mcpServers") if isinstance(params, dict) else None
        if known is None or not isinstance(servers, list):
            return context.forward()
        adapted = [
            entry(each, context.client, known) if isinstance(each, dict) and each.get("type") == "acp" else each
            for each in servers
        ]
        return context.forward({**params, "mcpServers": adapted})

    def message(params: Any, context: Any) -> Any:
        if context.client in behind:
            heard(params, context.client)
            return None
        return context.forward()

    builder.client_request_handler("initialize", initialize, raw=True)
    for method in _OPENING:
        builder.client_request_handler(method, opening, raw=True)
    builder.client_notification_handler(MESSAGE, message, raw=True)
    return builder


_PATHS = (("agentCapabilities", "mcpCapabilities"), ("capabilities", "session", "mcp"))
"""Where the answer to C{initialize} says what servers an agent takes, in version 1 and in version 2."""


def _takes(answer: Any, kind: str) -> bool:
    """
    Whether the answer to C{initialize} says so.
    """
    for path in _PATHS:
        found = answer
        for name in (*path, kind):
            found = found.get(name) if isinstance(found, dict) else None
        if found is True or isinstance(found, dict):
            return True
    return False


def _taking_acp(answer: dict[str, Any]) -> dict[str, Any]:
    """
    The answer to C{initialize} with servers over ACP among those that are taken.
    """
    first, second = _PATHS
    path, value = (first, True) if _takes(answer, "http") and first[0] in answer else (second, {})
    return _with(answer, (*path, "acp"), value)


def _with(given: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    name, *rest = path
    return {**given, name: _with(given[name], tuple(rest), value) if rest else value}
