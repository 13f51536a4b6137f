"""
An MCP client on the official Python SDK, that uses a server of ours and says what it saw, one JSON object per line.

    python mcp_client.py MODE stdio COMMAND ...
    python mcp_client.py MODE http URL [NAME VALUE]

MODE is "auto", "legacy" or a revision.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError


def say(event: str, **more: Any) -> None:
    """One line."""
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


async def use(client: Client) -> None:
    """Everything that the server of ours has."""
    tools = await client.list_tools()
    say("tools", names=[tool.name for tool in tools.tools])
    result = await client.call_tool("echo", {"text": "hi"})
    say("echo", text=result.content[0].text, error=bool(result.is_error))
    result = await client.call_tool("fail", {})
    say("fail", text=result.content[0].text, error=bool(result.is_error))
    try:
        await client.call_tool("none", {})
    except MCPError as error:
        say("none", code=error.error.code)

    async def progress(done: float, total: float | None, message: str | None) -> None:
        say("progress", done=done, total=total, message=message)

    await client.call_tool("steps", {}, progress_callback=progress)
    with anyio.CancelScope() as scope:

        async def runs(done: float, total: float | None, message: str | None) -> None:
            scope.cancel()

        await client.call_tool("linger", {}, progress_callback=runs)
    say("linger", cancelled=scope.cancelled_caught)
    result = await client.call_tool("noticed", {})
    say("noticed", text=result.content[0].text)


async def main() -> None:
    """Connect, use, leave."""
    mode, kind, *rest = sys.argv[1:]
    if kind == "stdio":
        transport: Any = stdio_client(StdioServerParameters(command=rest[0], args=rest[1:]))
        async with Client(transport, mode=mode) as client:
            say("version", version=client.protocol_version)
            await use(client)
        return
    headers = {rest[1]: rest[2]} if len(rest) > 2 else {}
    http = httpx2.AsyncClient(headers=headers, timeout=180)
    async with http, Client(streamable_http_client(rest[0], http_client=http), mode=mode) as client:
        say("version", version=client.protocol_version)
        await use(client)


anyio.run(main)
