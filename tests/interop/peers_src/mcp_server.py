"""
An MCP server on the official Python SDK, for our client to use.

    python mcp_server.py stdio LOG
    python mcp_server.py http LOG PORT

It appends to LOG what its tools noticed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("python-sdk")
log = Path(sys.argv[2])


def note(line: str) -> None:
    """Append a line to the log."""
    with log.open("a") as file:
        file.write(line + "\n")


@server.tool()
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@server.tool()
async def slow(seconds: float, steps: int, ctx: Context) -> str:
    """Shows progress in steps, and takes its time."""
    note("slow began")
    try:
        for step in range(steps):
            await anyio.sleep(seconds / steps)
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    except anyio.get_cancelled_exc_class():
        note("slow was cancelled")
        raise
    note("slow ended")
    return "done"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no such file")


@server.tool()
async def change(ctx: Context) -> str:
    """Changes the list of tools."""
    server.add_tool(lambda: "new", name="new")
    await ctx.notify_tools_changed()
    return "changed"


@server.resource("demo://greeting")
def greeting() -> str:
    """A text."""
    return "hello"


@server.prompt()
def ask(topic: str) -> str:
    """A question."""
    return f"What of {topic}?"


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[3]))
