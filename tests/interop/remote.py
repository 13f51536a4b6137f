"""
Programs that serve an agent over HTTP and WebSocket, and our client on the way to them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers import peer

from acp_twisted import ClientConnection, ClientSession
from acp_twisted.interfaces import IMessageEndpoint
from interop.editor import Editor
from interop.programs import SOURCES, Programs, until


def ts_server() -> list[str]:
    """An agent on the TypeScript SDK 2.4.0, over HTTP/1.1 and WebSocket."""
    ts = peer("ts-remote")
    return ts.command(SOURCES / "ts_agent.mjs", ts.folder, "--serve")


def py_server() -> list[str]:
    """An agent on the Python SDK 0.12.1, over HTTP/1.1, HTTP/2 and WebSocket."""
    return peer("python-remote").command(SOURCES / "py_agent.py", "--serve")


def py_uvicorn_server() -> list[str]:
    """An agent on the Python SDK 0.12.1, over HTTP/1.1 and WebSocket."""
    return peer("python-remote").command(SOURCES / "py_agent.py", "--serve-uvicorn")


async def serve(programs: Programs, argv: Sequence[str], **options: Any) -> tuple[Any, int]:
    """
    Start a server.

    @return: its process, and the port that it printed.
    """
    told: list[dict[str, Any]] = []

    def on_stdout(text: str) -> None:
        told[:] = [json.loads(line) for line in text.splitlines(True) if line.startswith("{") and line.endswith("\n")]

    process, done = programs.start(argv, stdin=None, on_stdout=on_stdout, **options)
    ended: list[Any] = []
    done.addCallback(ended.append)
    await until(programs._reactor, lambda: bool(told or ended))
    assert told, ended[0].explain()
    return process, told[0]["port"]


async def start(editor: Editor, where: str | IMessageEndpoint, **options: Any) -> ClientConnection:
    """
    Connect to a remote agent, and initialize.
    """
    connection = await editor.client(**options).connect(editor.reactor, where)
    editor.connections.append(connection)
    await connection.initialize()
    return connection


async def open_session(editor: Editor, where: str | IMessageEndpoint, *, cwd: Path, **options: Any) -> ClientSession:
    """
    Connect to a remote agent, initialize, and open a session.
    """
    return await (await start(editor, where, **options)).new_session(cwd=str(cwd))
