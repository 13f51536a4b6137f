"""
A small editor on our client: it does for real what agents ask of it, and remembers what they asked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from acp_twisted import (
    AcpClient,
    AgentCommand,
    ClientConnection,
    ClientSession,
    Limits,
    PromptTurn,
    ResourceNotFound,
)
from acp_twisted.schema import v1
from interop.programs import PATIENCE, alive, kill_group, until


@define(eq=False)
class Terminal(ProcessProtocol):
    """
    A command that an agent started.
    """

    session_id: str
    output: str = ""
    process: Any = None
    exit: v1.TerminalExitStatus | None = None
    waiting: list[Deferred[v1.WaitForTerminalExitResponse]] = field(factory=list)

    def outReceived(self, data: bytes) -> None:
        self.output += data.decode("utf-8", "replace")

    def errReceived(self, data: bytes) -> None:
        self.outReceived(data)

    def processEnded(self, reason: Failure) -> None:
        value: Any = reason.value
        code = value.exitCode
        self.exit = v1.TerminalExitStatus(exit_code=code, signal=None if code is not None else "SIGKILL")
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.callback(self._answer())

    def wait(self) -> Deferred[v1.WaitForTerminalExitResponse]:
        """
        Fires when the command has ended.
        """
        result: Deferred[v1.WaitForTerminalExitResponse] = Deferred(self.waiting.remove)
        self.waiting.append(result)
        if self.exit is not None:
            self.waiting.remove(result)
            result.callback(self._answer())
        return result

    def _answer(self) -> v1.WaitForTerminalExitResponse:
        assert self.exit is not None
        return v1.WaitForTerminalExitResponse(exit_code=self.exit.exit_code, signal=self.exit.signal)

    def kill(self) -> None:
        """
        End the command if it runs.
        """
        if self.exit is None:
            kill_group(self.process.pid)


class Editor:
    """
    What stands behind our client in these tests.

    @ivar asked: each request of the agent, in order: its method and its params.
    @ivar updates: each update, in order, of all sessions and times.
    @ivar permit: the beginning of the kind of the option that is chosen: C{allow}, C{reject}; C{hold} to choose none.
    @ivar stderr: the lines that the agent wrote to its standard error.
    """

    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor
        self.asked: list[tuple[str, Any]] = []
        self.updates: list[v1.SessionNotification] = []
        self.notes: list[tuple[str, object]] = []
        self.permit = "allow"
        self.held: list[Deferred[v1.RequestPermissionResponse]] = []
        self.terminals: dict[str, Terminal] = {}
        self.stderr: list[str] = []
        self.connections: list[ClientConnection] = []

    def client(
        self,
        *,
        request_timeout: float = PATIENCE,
        prompt_timeout: float = 0.0,
        limits: Limits | None = None,
        gates: bool = True,
    ) -> AcpClient:
        """
        The client.

        @param gates: whether it asks only for what the agent advertised.
        """
        return (
            AcpClient.builder()
            .client_info("interop", "1")
            .capability_gates(gates)
            .request_timeout(request_timeout)
            .prompt_timeout(prompt_timeout)
            .limits(limits or Limits(exit_grace=1.0, terminate_grace=1.0))
            .session_update_handler(self.updates.append)
            .request_permission_handler(self._permission)
            .read_text_file_handler(self._read)
            .write_text_file_handler(self._write)
            .create_terminal_handler(self._create_terminal)
            .terminal_output_handler(self._terminal_output)
            .wait_for_terminal_exit_handler(self._wait_for_terminal_exit)
            .kill_terminal_handler(self._kill_terminal)
            .release_terminal_handler(self._release_terminal)
            .ext_notification_handler("_vendor/ready", lambda params: self.notes.append(("_vendor/ready", params)))
            .build()
        )

    async def start(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, **options: Any
    ) -> ClientConnection:
        """
        Start an agent; C{initialize} is still to be called.
        """
        command = AgentCommand(list(argv), cwd=str(cwd), env=dict(env or {}), on_stderr=self._on_stderr)
        connection = await self.client(**options).connect(self.reactor, command)
        self.connections.append(connection)
        return connection

    async def open(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, **options: Any
    ) -> ClientSession:
        """
        Start an agent, initialize, and open a session.
        """
        connection = await self.start(argv, cwd=cwd, env=env, **options)
        await connection.initialize()
        return await connection.new_session(cwd=str(cwd))

    def clean_up(self, session_id: str) -> list[str]:
        """
        End the terminals of a session that its agent left open.

        @return: their names.
        """
        left = [name for name, terminal in self.terminals.items() if terminal.session_id == session_id]
        for name in left:
            self.terminals.pop(name).kill()
        return left

    async def close(self) -> None:
        """
        End every connection and every terminal.
        """
        for terminal in self.terminals.values():
            terminal.kill()
        for connection in self.connections:
            await connection.close()

    def _on_stderr(self, text: str) -> None:
        self.stderr.append(text)

    def _note(self, method: str, request: object) -> None:
        self.asked.append((method, request))

    def methods(self) -> list[str]:
        """
        What the agent asked for, in order.
        """
        return [method for method, _ in self.asked]

    # ---- what agents ask

    def _permission(
        self, request: v1.RequestPermissionRequest
    ) -> v1.RequestPermissionResponse | Deferred[v1.RequestPermissionResponse]:
        self._note("session/request_permission", request)
        if self.permit == "hold":
            held: Deferred[v1.RequestPermissionResponse] = Deferred()
            self.held.append(held)
            return held
        chosen = next(option for option in request.options if option.kind.startswith(self.permit))
        return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=chosen.option_id))

    def _read(self, request: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
        self._note("fs/read_text_file", request)
        try:
            return v1.ReadTextFileResponse(content=Path(request.path).read_text())
        except FileNotFoundError:
            raise ResourceNotFound(data={"uri": request.path}) from None

    def _write(self, request: v1.WriteTextFileRequest) -> None:
        self._note("fs/write_text_file", request)
        Path(request.path).write_text(request.content)

    def _create_terminal(self, request: v1.CreateTerminalRequest) -> v1.CreateTerminalResponse:
        self._note("terminal/create", request)
        terminal = Terminal(request.session_id)
        # In a group of its own, so that its children go with it.
        prefix = [sys.executable, "-I", "-S", "-c", "import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])"]
        argv = [*prefix, request.command, *(request.args or ())]
        environment = {**os.environ, **{each.name: each.value for each in request.env or ()}}
        terminal.process = self.reactor.spawnProcess(terminal, argv[0], argv, env=environment, path=request.cwd)
        terminal.process.closeStdin()
        name = f"terminal-{len(self.asked)}"
        self.terminals[name] = terminal
        return v1.CreateTerminalResponse(terminal_id=name)

    def _terminal(self, method: str, request: Any) -> Terminal:
        self._note(method, request)
        terminal = self.terminals.get(request.terminal_id)
        if terminal is None:
            raise ResourceNotFound()
        return terminal

    def _terminal_output(self, request: v1.TerminalOutputRequest) -> v1.TerminalOutputResponse:
        terminal = self._terminal("terminal/output", request)
        return v1.TerminalOutputResponse(output=terminal.output, truncated=False, exit_status=terminal.exit)

    def _wait_for_terminal_exit(
        self, request: v1.WaitForTerminalExitRequest
    ) -> Deferred[v1.WaitForTerminalExitResponse]:
        return self._terminal("terminal/wait_for_exit", request).wait()

    def _kill_terminal(self, request: v1.KillTerminalRequest) -> None:
        self._terminal("terminal/kill", request).kill()

    def _release_terminal(self, request: v1.ReleaseTerminalRequest) -> None:
        self._terminal("terminal/release", request).kill()
        del self.terminals[request.terminal_id]


async def play(turn: PromptTurn, on_update: Callable[[object], None] | None = None) -> tuple[str, list[object]]:
    """
    Follow a turn to its end.

    @return: its stop reason and its updates.
    """
    updates: list[object] = []
    async for update in turn.updates():
        updates.append(update)
        if on_update is not None:
            on_update(update)
    response = await turn
    return response.stop_reason, updates


def texts(updates: Sequence[object]) -> list[str]:
    """
    What the agent said, chunk by chunk.
    """
    chunks = [update for update in updates if isinstance(update, v1.AgentMessageChunk)]
    return [chunk.content.text for chunk in chunks if isinstance(chunk.content, v1.TextContent)]


async def gone(editor: Editor, pid: int) -> None:
    """
    Wait until a process is no more.
    """
    await until(editor.reactor, lambda: not alive(pid))
