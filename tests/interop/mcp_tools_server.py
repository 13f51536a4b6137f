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

from acp_twisted.mcp.server import McpServer
from acp_twisted.mcp.serving import serve_stdio


def noticing_server() -> McpServer:
    """The tools, and one that says what the others noticed."""
    server, noticed = tools_server()

    @server.tool(name="noticed")
    def what_was_noticed(arguments: dict[str, Any]) -> str:
        return ",".join(trigger for triggers in noticed["cancelled"] for trigger in triggers)

    return server


if __name__ == "__main__":
    task.react(lambda reactor: serve_stdio(reactor, noticing_server()))
