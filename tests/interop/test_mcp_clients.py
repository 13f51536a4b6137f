"""
Our MCP server and our bridge, used by the official Python SDK of MCP.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from peers import peer
from test_mcp_over_acp import Chain

from acp_twisted.mcp.bridge import McpBridge
from acp_twisted.mcp.versions import HANDSHAKE, STATELESS
from interop.mcp_tools_server import noticing_server
from interop.programs import SOURCES, Outcome, Programs

SERVER = (sys.executable, str(Path(__file__).with_name("mcp_tools_server.py")))
MODES = [("auto", STATELESS), ("legacy", HANDSHAKE[0])]


def assert_used(outcome: Outcome, version: str) -> str:
    """
    What the client must have seen.

    @return: what the cancelled tool noticed.
    """
    assert outcome.code == 0, outcome.explain()
    seen = {event["event"]: event for event in outcome.lines()}
    assert seen["version"]["version"] == version
    assert {"echo", "linger", "steps", "noticed"} <= set(seen["tools"]["names"])
    assert (seen["echo"]["text"], seen["echo"]["error"]) == ("hi", False)
    assert (seen["fail"]["text"], seen["fail"]["error"]) == ("no such file", True)
    assert seen["none"]["code"] == -32602
    assert [(each["done"], each["message"]) for each in outcome.events("progress")] == [(1, "step 1"), (2, "step 2")]
    assert seen["linger"]["cancelled"]
    noticed: str = seen["noticed"]["text"]
    return noticed


def client(mode: str, *arguments: str) -> Sequence[str]:
    """The client's command line."""
    return peer("mcp-python").command(SOURCES / "mcp_client.py", mode, *arguments)


@pytest.mark.parametrize(("mode", "version"), MODES)
async def test_our_server_on_stdio(programs: Programs, mode: str, version: str) -> None:
    """Tools of all kinds, progress, and a cancellation that reaches the tool (M18, M20)."""
    outcome = await programs.run(client(mode, "stdio", *SERVER))
    assert assert_used(outcome, version) == "notifications/cancelled"


@pytest.mark.parametrize(("mode", "version"), MODES)
async def test_our_bridge(real_reactor: Any, programs: Programs, mode: str, version: str) -> None:
    """The same over HTTP, where the closed response is the cancellation, or the notification (M6, M18)."""
    bridge = McpBridge(real_reactor)
    await bridge.start()
    try:
        entry = bridge.add(noticing_server(), "tools")
        header = entry.headers[0]
        command = client(mode, "http", entry.url, header.name, header.value)
        outcome = await programs.run(command)
        assert assert_used(outcome, version) in ("disconnected", "notifications/cancelled")
    finally:
        await bridge.close()


@pytest.mark.parametrize(("mode", "version"), MODES)
async def test_our_bridge_to_acp(real_reactor: Any, programs: Programs, mode: str, version: str) -> None:
    """HTTP of a foreign client on the one side, mcp/message on the other; each cancels in its own way (C47, M6)."""
    chain = Chain(server=noticing_server())
    bridge = McpBridge(real_reactor)
    await bridge.start()
    try:
        (entry,) = bridge.adapt([chain.entry], chain.acp_agent)
        header = entry.headers[0]
        command = client(mode, "http", entry.url, header.name, header.value)
        outcome = await programs.run(command)
        assert assert_used(outcome, version) == "$/cancel_request"
    finally:
        await bridge.close()
    methods = [each.get("method") for each in chain.sent("b>a")]
    assert methods.count("$/cancel_request") == 1
    assert "notifications/cancelled" not in methods
