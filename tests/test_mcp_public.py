"""
What the room of MCP shows, what it costs who does not use it, and its example.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from acp_twisted import mcp

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", mcp.__all__)
def test_a_public_name_is_the_private_one(name: str) -> None:
    """And type checkers know it from the same module."""
    module = import_module(f"acp_twisted.mcp.{mcp._WHERE[name]}")
    assert getattr(mcp, name) is getattr(module, name)
    tree = ast.parse(Path(mcp.__file__).read_text(encoding="utf-8"))
    shown = {
        alias.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert shown[name] == module.__name__
    assert sorted(mcp._WHERE) == mcp.__all__


def test_nothing_else_is_public() -> None:
    """A name that is not there is none."""
    with pytest.raises(AttributeError, match="nothing"):
        _ = mcp.nothing


@pytest.mark.parametrize(
    ("script", "unloaded"),
    [
        ("import acp_twisted", ["acp_twisted.mcp"]),
        ("import acp_twisted.mcp", ["acp_twisted.mcp.client", "acp_twisted.mcp.server"]),
        ("from acp_twisted.mcp import connect, McpOptions", ["twisted.web", "acp_twisted.mcp.server"]),
        ("from acp_twisted.mcp import McpServer, McpProvider", ["twisted.web", "acp_twisted.mcp.client"]),
        ("from acp_twisted.mcp import McpBridge", ["wsproto", "acp_twisted.transports.http.below"]),
    ],
)
def test_what_is_not_used_is_not_loaded(script: str, unloaded: list[str]) -> None:
    """An agent on stdio pays nothing, and HTTP needs nothing but twisted.web."""
    check = f"{script}\nimport sys\nassert not set({unloaded!r}) & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_the_example() -> None:
    """The agent uses the client's tool, and the cancelled prompt cancels it."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "mcp_tools.py"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["It rains in Paris.", "end_turn", "the tool was cancelled", "cancelled"]
