"""The helpers of a prompt's context, from a blocking handler, against a client's real files and processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.task import deferLater

from acp_twisted import AcpAgent, AcpClient, RequestCancelled, SyncPromptContext
from acp_twisted.agent.commands import CommandResult
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.files import LocalFiles
from acp_twisted.client.permissions import Ask
from acp_twisted.client.terminals import LocalTerminals
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink
from acp_twisted.transports.process_group import group_alive


async def connected(agent: AcpAgent, client: AcpClient) -> tuple[ClientConnection, Callable[[], Awaitable[None]]]:
    """The two on a memory link in the real reactor, initialized, and what closes it."""
    from twisted.internet import reactor

    any_reactor: Any = reactor
    connection = client.connection(any_reactor)
    MemoryLink(connection.peer, agent.build_receiver(any_reactor), any_reactor)
    await connection.initialize()

    async def close() -> None:
        await connection.close()

    return connection, close


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it holds; the test's own timeout ends that."""
    from twisted.internet import reactor

    while not condition():
        await deferLater(reactor, 0.01)


def blocking_agent(script: Callable[[SyncPromptContext], Any], came: list[Any]) -> AcpAgent:
    """An agent whose handler runs a script in a thread, and keeps what that came to."""

    def handler(request: v1.PromptRequest, context: SyncPromptContext) -> v1.PromptResponse:
        try:
            came.append(script(context))
        except BaseException as error:
            came.append(error)
            raise
        return v1.PromptResponse(stop_reason="end_turn")

    return AcpAgent.builder().prompt_handler(handler, blocking=True).build()


def helpful_client(directory: Path, asked: list[str]) -> AcpClient:
    """A client with files, terminals and a user who says yes."""
    from twisted.internet import reactor

    def permit(request: v1.RequestPermissionRequest) -> str:
        asked.append(request.tool_call.title or "")
        return request.options[0].option_id

    builder = AcpClient.builder().track_sessions().request_permission_handler(Ask(permit))
    LocalFiles(directory).serve(builder)
    LocalTerminals(reactor, directory).serve(builder)
    return builder.build()


@pytest_twisted.ensureDeferred
async def test_a_blocking_handler_has_the_same(tmp_path: Path) -> None:
    """Every helper once, against a client's real files and processes."""
    came: list[Any] = []
    asked: list[str] = []
    path = str(tmp_path / "f")

    def script(context: SyncPromptContext) -> dict[str, Any]:
        context.plan(["a"])
        with context.tool_call("Work", kind="edit", status="pending") as call:
            allowed = call.ask_permission()
            call.update(title="Working")
            context.write_file(path, "1\n2\n3\n")
        with pytest.raises(ZeroDivisionError), context.tool_call("Divide"):
            raise ZeroDivisionError
        failed = context.tool_call("Fail")
        failed.begin()
        failed.fail()
        done = context.tool_call("Done")
        done.begin()
        done.complete(raw_output=1)
        return {
            "allowed": allowed,
            "statuses": (call.status, failed.status, done.status),
            "ids": len({call.tool_call_id, failed.tool_call_id}),
            "read": context.read_file(path, 2, 1),
            "missing": context.try_read_file(path + "x"),
            "asked": context.ask_permission("Really", "delete"),
            "choice": context.ask_choice("Which", "red", "blue"),
            "ran": context.execute("sh", ["-c", "echo $A; exit 3"], env={"A": "b"}),
        }

    connection, close = await connected(blocking_agent(script, came), helpful_client(tmp_path, asked))
    session = await connection.new_session(str(tmp_path))
    await session.prompt("hi")
    state = session.state
    assert state is not None
    assert came == [
        {
            "allowed": True,
            "statuses": ("completed", "failed", "completed"),
            "ids": 2,
            "read": "2\n",
            "missing": None,
            "asked": True,
            "choice": "red",
            "ran": CommandResult(output="b\n", exit_code=3, signal=None, truncated=False),
        }
    ]
    assert asked == ["Work", "Really", "Which"]
    assert [(each.title, each.status) for each in state.tool_calls] == [
        ("Working", "completed"),
        ("Divide", "failed"),
        ("Fail", "failed"),
        ("Done", "completed"),
        ("Really", "completed"),
        ("Which", "completed"),
    ]
    assert [each.content for each in state.plan] == ["a"]
    await close()


@pytest_twisted.ensureDeferred
async def test_a_cancelled_blocking_handler_lets_go_of_its_command(tmp_path: Path) -> None:
    """B61: $/cancel_request ends the wait in the thread, the process, and its tool call."""
    came: list[Any] = []

    def script(context: SyncPromptContext) -> None:
        with context.tool_call("Sleep"):
            context.execute("sh", ["-c", "echo $$ >pid; exec sleep 900"], cwd=str(tmp_path))

    connection, close = await connected(blocking_agent(script, came), helpful_client(tmp_path, []))
    session = await connection.new_session(str(tmp_path))
    turn = session.prompt("hi")
    pid = tmp_path / "pid"
    await until(lambda: pid.exists() and bool(pid.read_text()))
    turn.response.cancel()
    with pytest.raises(RequestCancelled):
        await turn
    await until(lambda: bool(came) and not group_alive(int(pid.read_text())))
    assert isinstance(came[0], RequestCancelled)
    await until(lambda: session.state is not None and session.state.tool_calls[0].status != "in_progress")
    await close()
