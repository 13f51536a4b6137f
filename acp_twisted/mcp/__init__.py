"""
The Model Context Protocol: a client of MCP servers for agents, tools written in Twisted, and MCP over ACP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acp_twisted.mcp.client import McpClient as McpClient
    from acp_twisted.mcp.client import McpOptions as McpOptions
    from acp_twisted.mcp.handlers import McpHandlers as McpHandlers
