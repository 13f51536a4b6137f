"""
A proxy's own tools: it adds them to the MCP servers of each session, and answers for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from twisted.internet.defer import Deferred

from acp_twisted.mcp.provider import McpProvider
from acp_twisted.mcp.routes import MESSAGE

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
        if _takes_acp(answer):
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


def _takes_acp(answer: Any) -> bool:
    """
    Whether the answer to C{initialize}, of either version, says so.
    """
    for path in (("agentCapabilities", "mcpCapabilities", "acp"), ("capabilities", "session", "mcp", "acp")):
        found = answer
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if found is True or isinstance(found, dict):
            return True
    return False
