"""
The tools of the tests as an MCP server on standard input and output, for clients of other people.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mcp_parts import tools_server
from twisted.internet import task
from twisted.internet.defer import Deferred

from acp_twisted.mcp.server import McpServer, ToolContext
from acp_twisted.mcp.serving import serve_stdio


def noticing_server() -> McpServer:
    """
    The tools, one that is there to be cancelled once it has said that it runs, and one that says what that noticed.

    A cancellation may come on another connection than the next call; so what was noticed is waited for.
    """
    server, _ = tools_server()
    noticed: Deferred[tuple[str, ...]] = Deferred()

    @server.tool()
    def linger(arguments: dict[str, Any], context: ToolContext) -> Deferred[str]:
        context.token.on_cancel(lambda: noticed.callback(context.token.triggers))
        context.progress(1)
        return Deferred()

    @server.tool(name="noticed")
    async def what_was_noticed(arguments: dict[str, Any]) -> str:
        return ",".join(await noticed)

    return server


if __name__ == "__main__":
    task.react(lambda reactor: serve_stdio(reactor, noticing_server()))
