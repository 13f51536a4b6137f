"""
Our MCP client, with servers that nobody here wrote: MCP's own example server (an older revision) and the official
Python SDK (both kinds of revision), over stdio and HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socket
from typing import Any

import pytest
from peers import peer

from acp_twisted.errors import AcpError, InvalidParams, RequestCancelled, RequestTimedOut
from acp_twisted.mcp.client import McpClient, McpOptions
from acp_twisted.mcp.connecting import connect
from acp_twisted.mcp.handlers import McpHandlers
from acp_twisted.mcp.types import Progress
from acp_twisted.mcp.versions import HANDSHAKE, STATELESS
from acp_twisted.schema import v1
from interop.programs import SOURCES, Programs, listens, until

WAYS = ["stdio", "http"]


def free_port() -> int:
    """A port that was free just now: a server that is told its port can't say which one it took."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def using(
    reactor: Any,
    programs: Programs,
    way: str,
    stdio: Sequence[str],
    http: Callable[[int], tuple[Sequence[str], dict[str, str]]],
    options: McpOptions | None = None,
) -> AsyncIterator[McpClient]:
    """
    A client of ours, connected to a server in one of the two ways; the server is ended.

    @param http: the command line and the environment for a port.
    """
    entry: Any = v1.McpServerStdio(name="s", command=stdio[0], args=list(stdio[1:]), env=[])
    if way == "http":
        port = await listening(reactor, programs, http)
        entry = v1.McpServerHttp(name="s", url=f"http://127.0.0.1:{port}/mcp", headers=[])
    client = await connect(reactor, entry, options)
    try:
        yield client
    finally:
        await client.close()


async def listening(
    reactor: Any, programs: Programs, http: Callable[[int], tuple[Sequence[str], dict[str, str]]]
) -> int:
    """
    Start a server, and wait until it listens.  Somebody else may have taken its port meanwhile: then on another one.

    @return: its port.
    """
    for _ in range(5):
        port = free_port()
        argv, env = http(port)
        process, done = programs.start(argv, env=env, stdin=None)
        ended: list[Any] = []
        done.addCallback(ended.append)

        def is_up(port: int = port, process: Any = process, ended: list[Any] = ended) -> bool:
            return bool(ended) or listens(process.pid, port)

        await until(reactor, is_up)
        if not ended:
            return port
    raise AssertionError(ended[0].explain())


def deadline(reactor: Any) -> float:
    """When the last of all timers is due."""
    due: float = max(call.getTime() for call in reactor.getDelayedCalls())
    return due


def everything(reactor: Any, programs: Programs, way: str, options: McpOptions | None = None) -> Any:
    """MCP's example server."""
    server = peer("mcp-everything")

    def http(port: int) -> tuple[Sequence[str], dict[str, str]]:
        return server.command("streamableHttp"), {"PORT": str(port)}

    return using(reactor, programs, way, server.command("stdio"), http, options)


HOUR = 3600.0
LONG = "trigger-long-running-operation"


@pytest.mark.parametrize("way", WAYS)
async def test_the_example_server(real_reactor: Any, programs: Programs, way: str) -> None:
    """Its tools, resources, prompts and completion; it asks for our roots, and logs."""
    logged: list[Any] = []
    asked: list[str] = []

    async def roots(_: object) -> list[str]:
        asked.append("roots")
        return ["file:///w"]

    options = McpOptions(handlers=McpHandlers(log=lambda each: logged.append(each.data), roots=roots))
    async with everything(real_reactor, programs, way, options) as client:
        assert client.server.protocol_version in HANDSHAKE
        assert client.server.info is not None
        names = {tool.name for tool in await client.every(client.list_tools)}
        assert {"echo", "get-sum", LONG} <= names
        assert (await client.call_tool("echo", {"message": "hi"})).text == "Echo: hi"
        weather = await client.call_tool("get-structured-content", {"location": "New York"})
        assert "temperature" in weather.structured_content
        image = await client.call_tool("get-tiny-image")
        assert {type(each).__name__ for each in image.content} >= {"ImageContent", "TextContent"}
        wrong = await client.call_tool("get-sum", {"a": "x"})
        assert wrong.is_error
        resources = await client.every(client.list_resources)
        (contents,) = await client.read_resource(resources[0].uri)
        assert contents.text
        assert (await client.list_resource_templates()).items
        assert {prompt.name for prompt in await client.every(client.list_prompts)} >= {"simple-prompt", "args-prompt"}
        prompt = await client.get_prompt("args-prompt", {"city": "Paris"})
        assert "Paris" in str(prompt.messages[0].content)
        completion = await client.complete({"type": "ref/prompt", "name": "completable-prompt"}, "department", "E")
        assert "Engineering" in completion.values
        await client.ping()
        await client.set_log_level("debug")
        await until(real_reactor, lambda: bool(asked and logged))


@pytest.mark.parametrize("way", WAYS)
async def test_a_long_tool_of_the_example_server(real_reactor: Any, programs: Programs, way: str) -> None:
    """Its progress starts the timeout anew; it is cancelled in the middle, and times out (M1, M9, M13, M14)."""
    async with everything(real_reactor, programs, way) as client:
        seen: list[Progress] = []
        due: list[float] = []

        def note(progress: Progress) -> None:
            seen.append(progress)
            due.append(deadline(real_reactor))

        call = client.call_tool(LONG, {"duration": 3, "steps": 6}, timeout=HOUR, max_timeout=0, on_progress=note)
        assert "completed" in (await call).text
        assert [each.progress for each in seen] == [1, 2, 3, 4, 5, 6]
        assert due[0] > real_reactor.seconds() + HOUR / 2
        assert due[-1] > due[0] + 1
        call = client.call_tool(LONG, {"duration": 60, "steps": 60}, on_progress=seen.append)
        await until(real_reactor, lambda: len(seen) > 6)
        call.cancel("the user went on")
        with pytest.raises(RequestCancelled):
            await call
        with pytest.raises(RequestTimedOut):
            await client.call_tool(LONG, {"duration": 60, "steps": 1}, timeout=1)
        with pytest.raises(RequestTimedOut):
            await client.call_tool(LONG, {"duration": 60, "steps": 120}, timeout=2, max_timeout=3)
        assert (await client.call_tool("echo", {"message": "still"})).text == "Echo: still"
        assert client.session.peer.pending_requests == 0


def python_server(reactor: Any, programs: Programs, way: str, log: Path, options: McpOptions | None = None) -> Any:
    """A server on the official Python SDK."""
    python = peer("mcp-python")

    def http(port: int) -> tuple[Sequence[str], dict[str, str]]:
        return python.command(SOURCES / "mcp_server.py", "http", log, str(port)), {}

    return using(reactor, programs, way, python.command(SOURCES / "mcp_server.py", "stdio", log), http, options)


def begun(log: Path) -> int:
    """How many calls of the slow tool are running."""
    text = log.read_text()
    return text.count("slow began") - text.count("slow was cancelled") - text.count("slow ended")


@pytest.mark.parametrize("protocol", [None, HANDSHAKE[0]])
@pytest.mark.parametrize("way", WAYS)
async def test_the_python_sdk(
    real_reactor: Any, programs: Programs, way: str, protocol: str | None, tmp_path: Path
) -> None:
    """Both kinds of revision: used, its progress counted, cancelled in the middle, timed out (M6, M7, M10, M13)."""
    log = tmp_path / "log"
    options = McpOptions(protocol=protocol)
    async with python_server(real_reactor, programs, way, log, options) as client:
        assert client.server.protocol_version == (protocol or STATELESS)
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        failed = await client.call_tool("fail")
        assert failed.is_error
        with pytest.raises((InvalidParams, AcpError)):
            await client.get_prompt("none")
        (contents,) = await client.read_resource("demo://greeting")
        assert contents.text == "hello"
        prompt = await client.get_prompt("ask", {"topic": "tea"})
        assert "tea" in str(prompt.messages[0].content)
        seen: list[Progress] = []
        due: list[float] = []

        def note(progress: Progress) -> None:
            seen.append(progress)
            due.append(deadline(real_reactor))

        slow = client.call_tool("slow", {"seconds": 3, "steps": 6}, timeout=HOUR, max_timeout=0, on_progress=note)
        assert (await slow).text == "done"
        assert len(seen) == 6
        assert due[0] > real_reactor.seconds() + HOUR / 2
        assert due[-1] > due[0] + 1
        call = client.call_tool("slow", {"seconds": 60, "steps": 120}, on_progress=seen.append)
        await until(real_reactor, lambda: len(seen) > 6)
        call.cancel("the user went on")
        with pytest.raises(RequestCancelled):
            await call
        await until(real_reactor, lambda: "slow was cancelled" in log.read_text())
        with pytest.raises(RequestTimedOut):
            await client.call_tool("slow", {"seconds": 60, "steps": 1}, timeout=1)
        # It may not even have begun, where that took longer.
        await until(real_reactor, lambda: begun(log) == 0)
        assert (await client.call_tool("add", {"a": 2, "b": 2})).text == "4"


@pytest.mark.parametrize("way", WAYS)
async def test_a_subscription_at_the_python_sdk(
    real_reactor: Any, programs: Programs, way: str, tmp_path: Path
) -> None:
    """It is acknowledged, tells of a change, and is closed; what is asked meanwhile goes on (M1, M6)."""
    async with python_server(real_reactor, programs, way, tmp_path / "log") as client:
        told: list[str] = []
        subscription = await client.listen(lambda method, _: told.append(method), tools=True)
        assert subscription.honored == {"toolsListChanged": True}
        assert (await client.call_tool("change")).text == "changed"
        await until(real_reactor, lambda: bool(told))
        assert told == ["notifications/tools/list_changed"]
        subscription.close("enough")
        assert await subscription.when_ended() == "client"
        assert "new" in {tool.name for tool in await client.every(client.list_tools)}
