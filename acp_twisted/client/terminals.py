"""
A client's terminals: commands that an agent runs here, and what they print.  POSIX only.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ProcessTerminated
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.client.followers import SessionFollower
from acp_twisted.client.roots import Roots
from acp_twisted.errors import InternalError, InvalidParams, ResourceNotFound
from acp_twisted.jsonrpc.calls import Waiters
from acp_twisted.limits import MiB
from acp_twisted.schema import v1
from acp_twisted.transports.command import AgentCommand
from acp_twisted.transports.drain import Drain
from acp_twisted.transports.process_group import group_alive, signal_group

if TYPE_CHECKING:
    from acp_twisted.client.client import AcpClientBuilder
    from acp_twisted.client.connection import ClientConnection
    from acp_twisted.client.session import ClientSession, PromptTurn

_log = Logger()

MAX_TERMINALS = 64
"""Terminals that one connection may have and not have released."""

MAX_OUTPUT_BYTES = MiB
"""What is kept of a terminal's output when the agent names no limit, or a higher one."""


class Output:
    """
    The end of what a command has printed, at most so many bytes of it (1.142).

    @ivar truncated: whether its beginning is lost.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self.truncated = False

    def feed(self, data: bytes) -> None:
        """
        It printed more.
        """
        self._bytes += data
        excess = len(self._bytes) - self._limit
        if excess > 0:
            self.truncated = True
            del self._bytes[:excess]

    @property
    def text(self) -> str:
        """
        What is kept.  It begins with a whole character, and is no longer than the limit in UTF-8 either when bytes that
        are none had to be replaced.
        """
        kept = bytes(self._bytes)
        if self.truncated:
            start = 0
            while start < min(3, len(kept)) and kept[start] & 0xC0 == 0x80:
                start += 1
            kept = kept[start:]
        text = kept.decode("utf-8", "replace")
        encoded = text.encode()
        if len(encoded) > self._limit:
            text = encoded[len(encoded) - self._limit :].decode("utf-8", "ignore")
        return text


Owner: TypeAlias = "tuple[ClientConnection | None, str]"


class Terminal(ProcessProtocol):
    """
    One command.

    @ivar owner: the connection and the session whose it is.
    @ivar turn: the turn that it was created in, if any.
    @ivar abandoned: whether it was killed because its turn came to no good end: its agent may never release it.
    @ivar status: how it ended, once it has and its output is complete.
    """

    def __init__(self, owner: Owner, turn: PromptTurn | None, output: Output, clock: IReactorTime) -> None:
        self.owner = owner
        self.turn = turn
        self.abandoned = False
        self.output = output
        self.status: v1.TerminalExitStatus | None = None
        self._clock = clock
        self._pid = 0
        self._exited = False
        self._left_behind = False
        self._drain: Drain | None = None
        self._waiters: Waiters[None] = Waiters()

    def connectionMade(self) -> None:
        transport: Any = self.transport
        self._pid = transport.pid
        transport.closeStdin()

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        self.output.feed(data)
        if self._drain is not None:
            self._drain.more()

    def processExited(self, reason: Failure) -> None:
        self._exited = True
        self._left_behind = group_alive(self._pid)
        self._drain = Drain(self._clock, lambda: self._end(reason))

    def processEnded(self, reason: Failure) -> None:
        self._end(reason)

    def _end(self, reason: Failure) -> None:
        drain, self._drain = self._drain, None
        if drain is not None:
            drain.stop()
        if self.status is not None:
            return
        ended = reason.value
        if not isinstance(ended, ProcessTerminated):
            self.status = v1.TerminalExitStatus(exit_code=0)
        elif ended.signal is None:
            self.status = v1.TerminalExitStatus(exit_code=ended.exitCode)
        else:
            self.status = v1.TerminalExitStatus(signal=_signal_name(ended.signal))
        self._waiters.fire(None)

    def when_ended(self) -> Deferred[None]:
        """
        Fires when the command has ended.  Cancelling it only stops the waiting.
        """
        return self._waiters.wait() if self.status is None else succeed(None)

    def kill(self) -> None:
        """
        End the command, and everything that it started, at once.
        """
        if self._pid and (not self._exited or self._left_behind):
            signal_group(self._pid, signal.SIGKILL)
            self._left_behind = False


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


class LocalTerminals:
    """
    Answers the five C{terminal/} methods with processes of this machine.  Each has a process group of its own, no
    input, and one place for both of its outputs, which so keep their order.  A command without arguments that is no
    program's name is a line for the shell.

    The directories say where a command may start, not where it may go: a command can do what this program can.

    What its agent does not release is killed: when the turn that it was created in is cancelled or fails, when its
    session is closed, and when its connection ends.
    """

    def __init__(
        self, reactor: Any, *roots: str | os.PathLike[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """
        @param reactor: provides L{IReactorTime} and L{twisted.internet.interfaces.IReactorFDSet}.
        @param roots: the directories that commands may start in; absolute.  The first is for those that name none.
        @param environment: the variables of each command, to which the agent adds its own; this program's own if it is
            L{None}, secrets included.
        """
        self._reactor = reactor
        self._roots = Roots(*roots)
        self._environment = environment
        self._terminals: dict[str, Terminal] = {}
        self._watched: dict[Owner, _Watch] = {}
        self._connections: set[ClientConnection] = set()
        self._numbers = count(1)

    def serve(self, builder: AcpClientBuilder) -> AcpClientBuilder:
        """
        Add the five handlers to a builder.
        """
        return (
            builder.create_terminal_handler(self.create)
            .terminal_output_handler(self.output)
            .wait_for_terminal_exit_handler(self.wait_for_exit)
            .kill_terminal_handler(self.kill)
            .release_terminal_handler(self.release)
        )

    def create(
        self, request: v1.CreateTerminalRequest, connection: ClientConnection | None = None
    ) -> v1.CreateTerminalResponse:
        """
        Start a command.

        @raise ResourceNotFound: when there is no such command.
        @raise InvalidParams: when its directory is none, or outside of the roots.
        @raise InternalError: when it can't be started, or there are too many.
        """
        from acp_twisted.transports._session_process import start  # noqa: PLC0415 - POSIX only

        self._make_room(connection)
        cwd = self._roots.paths[0] if request.cwd is None else self._roots.resolve(request.cwd, "cwd")[1]
        if not os.path.isdir(cwd):
            raise InvalidParams("There is no such directory", {"cwd": request.cwd or cwd})
        environment = dict(os.environ if self._environment is None else self._environment)
        environment.update((each.name, each.value) for each in request.env or ())
        executable, argv = _program(request, environment, cwd)
        limit = request.output_byte_limit
        output = Output(MAX_OUTPUT_BYTES if limit is None else min(limit, MAX_OUTPUT_BYTES))
        owner = (connection, request.session_id)
        session = self._watch(owner)
        if connection is not None and connection not in self._connections:
            raise InternalError("The connection is gone")  # nobody would end the command
        terminal = Terminal(owner, None if session is None else session.turn, output, self._reactor)
        try:
            start(self._reactor, executable, AgentCommand(argv, cwd), environment, terminal, one_output=True)
        except (OSError, ValueError) as error:
            raise InternalError("The command could not be started", {"reason": str(error)}) from None
        terminal_id = f"terminal-{next(self._numbers)}"
        self._terminals[terminal_id] = terminal
        return v1.CreateTerminalResponse(terminal_id=terminal_id)

    def _make_room(self, connection: ClientConnection | None) -> None:
        mine = [name for name, each in self._terminals.items() if each.owner[0] is connection]
        if len(mine) < MAX_TERMINALS:
            return
        for name in mine:
            if self._terminals[name].abandoned:
                del self._terminals[name]
                return
        raise InternalError("Too many terminals", {"maxTerminals": MAX_TERMINALS})

    def _watch(self, owner: Owner) -> ClientSession | None:
        """
        See to it that the terminals go with their session and with their connection.
        """
        connection, session_id = owner
        if connection is None:
            return None
        if connection not in self._connections:
            self._connections.add(connection)
            connection.when_closed().addBoth(lambda _: self._gone(connection))
        session = connection.session(session_id)
        if session is not None and owner not in self._watched:
            watch = self._watched[owner] = _Watch(self, owner)
            session.follow(watch)
        return session

    def _gone(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        self.drop(lambda terminal: terminal.owner[0] is connection)

    def session_over(self, owner: Owner) -> None:
        """
        A session has ended.
        """
        self._watched.pop(owner, None)
        self.drop(lambda terminal: terminal.owner == owner)

    def abandon(self, turn: PromptTurn) -> None:
        """
        Kill what was created in a turn that came to no good end.  The ids stay valid until they are released, or there
        is no room.
        """
        for terminal in self._terminals.values():
            if terminal.turn is turn:
                terminal.abandoned = True
                terminal.kill()

    def drop(self, which: Callable[[Terminal], bool]) -> None:
        """
        Release some.
        """
        for name in [name for name, terminal in self._terminals.items() if which(terminal)]:
            self._terminals.pop(name).kill()

    def _find(self, connection: ClientConnection | None, session_id: str, terminal_id: str) -> Terminal:
        terminal = self._terminals.get(terminal_id)
        if terminal is None or terminal.owner != (connection, session_id):
            raise ResourceNotFound("Terminal not found", {"terminalId": terminal_id})
        return terminal

    def output(
        self, request: v1.TerminalOutputRequest, connection: ClientConnection | None = None
    ) -> v1.TerminalOutputResponse:
        """
        What the command has printed, and how it ended if it has (1.144).
        """
        terminal = self._find(connection, request.session_id, request.terminal_id)
        return v1.TerminalOutputResponse(
            output=terminal.output.text, truncated=terminal.output.truncated, exit_status=terminal.status
        )

    async def wait_for_exit(
        self, request: v1.WaitForTerminalExitRequest, connection: ClientConnection | None = None
    ) -> v1.WaitForTerminalExitResponse:
        """
        Wait until the command has ended (1.145).
        """
        terminal = self._find(connection, request.session_id, request.terminal_id)
        await terminal.when_ended()
        status = terminal.status
        assert status is not None
        return v1.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    def kill(
        self, request: v1.KillTerminalRequest, connection: ClientConnection | None = None
    ) -> v1.KillTerminalResponse:
        """
        End the command by SIGKILL; its terminal stays (1.146).
        """
        self._find(connection, request.session_id, request.terminal_id).kill()
        return v1.KillTerminalResponse()

    def release(
        self, request: v1.ReleaseTerminalRequest, connection: ClientConnection | None = None
    ) -> v1.ReleaseTerminalResponse:
        """
        Forget the terminal, and end its command (1.147).  Who still waits for its exit learns of it.
        """
        self._find(connection, request.session_id, request.terminal_id).kill()
        del self._terminals[request.terminal_id]
        return v1.ReleaseTerminalResponse()

    def close(self) -> None:
        """
        Release them all.
        """
        self.drop(lambda terminal: True)


class _Watch(SessionFollower):
    """
    Tells the terminals what becomes of a session that has some.
    """

    def __init__(self, terminals: LocalTerminals, owner: Owner) -> None:
        self._terminals = terminals
        self._owner = owner

    def turn_ended(self, turn: PromptTurn, completed: bool) -> None:
        """
        See L{SessionFollower}.
        """
        if not completed:
            self._terminals.abandon(turn)

    def ended(self) -> None:
        """
        See L{SessionFollower}.
        """
        self._terminals.session_over(self._owner)


def _program(request: v1.CreateTerminalRequest, environment: dict[str, str], cwd: str) -> tuple[str, list[str]]:
    """
    The absolute path of the program to start, and its argument list.
    """
    argv = [request.command, *(request.args or ())]
    if any("\0" in text for text in (*argv, *environment, *environment.values())):
        raise InvalidParams("A NUL character in the command or its environment")
    name = request.command
    if os.path.dirname(name):
        name = os.path.abspath(os.path.join(cwd, name))
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    if found is not None:
        return os.path.abspath(found), argv
    if request.args or not any(character.isspace() for character in request.command):
        raise ResourceNotFound("Command not found", {"command": request.command})
    return "/bin/sh", ["/bin/sh", "-c", request.command]
