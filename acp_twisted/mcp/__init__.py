"""
The Model Context Protocol: a client of MCP servers for agents, tools written in Twisted, and MCP over ACP.

The names below are imported by their first use, so that who only connects to a server loads nothing of HTTP, and who
only offers tools nothing of a client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp_twisted.mcp.bridge import McpBridge
    from acp_twisted.mcp.client import McpClient, McpOptions
    from acp_twisted.mcp.connecting import accept_over_acp, connect
    from acp_twisted.mcp.handlers import McpHandlers
    from acp_twisted.mcp.http import McpHttpError
    from acp_twisted.mcp.provider import McpProvider, offered_to
    from acp_twisted.mcp.proxying import bridge_in_proxy, offer_in_proxy
    from acp_twisted.mcp.resource import HttpBounds, McpResource
    from acp_twisted.mcp.server import McpServer, ToolContext, ToolError
    from acp_twisted.mcp.serving import Serving, serve_stdio
    from acp_twisted.mcp.subscriptions import Subscription
    from acp_twisted.mcp.types import Progress, Tool, ToolResult
    from acp_twisted.mcp.versions import McpCapabilityError, McpVersionError

__all__ = [
    "HttpBounds",
    "McpBridge",
    "McpCapabilityError",
    "McpClient",
    "McpHandlers",
    "McpHttpError",
    "McpOptions",
    "McpProvider",
    "McpResource",
    "McpServer",
    "McpVersionError",
    "Progress",
    "Serving",
    "Subscription",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "accept_over_acp",
    "bridge_in_proxy",
    "connect",
    "offer_in_proxy",
    "offered_to",
    "serve_stdio",
]

_WHERE = {
    "HttpBounds": "resource",
    "McpBridge": "bridge",
    "McpCapabilityError": "versions",
    "McpClient": "client",
    "McpHandlers": "handlers",
    "McpHttpError": "http",
    "McpOptions": "client",
    "McpProvider": "provider",
    "McpResource": "resource",
    "McpServer": "server",
    "McpVersionError": "versions",
    "Progress": "types",
    "Serving": "serving",
    "Subscription": "subscriptions",
    "Tool": "types",
    "ToolContext": "server",
    "ToolError": "server",
    "ToolResult": "types",
    "accept_over_acp": "connecting",
    "bridge_in_proxy": "proxying",
    "connect": "connecting",
    "offer_in_proxy": "proxying",
    "offered_to": "provider",
    "serve_stdio": "serving",
}


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{where}"), name)
    return value
