"""
A command that an agent of version 2 runs itself, and shows as a terminal: its start, its output, its end.  POSIX only.
"""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessTerminated
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from acp_twisted.agent.commands import CommandResult
from acp_twisted.errors import InternalError, ResourceNotFound
from acp_twisted.limits import MiB
from acp_twisted.schema import v2
from acp_twisted.transports.command import AgentCommand
from acp_twisted.transports.process_group import signal_group

if TYPE_CHECKING:
    from acp_twisted.agent.v2.context import PromptContext

MAX_OUTPUT_BYTES = MiB
"""What is kept of a command's output for its result when nobody names a limit.  The client is shown all of it."""


class _Command(ProcessProtocol):
    """
    A command, whose output goes to the client as it comes.
    """

    def __init__(self, context: PromptContext, terminal_id: str, limit: int) -> None:
        self._context = context
        self._terminal_id = terminal_id
        self._limit = limit
        self._kept = bytearray()
        self._pid = 0
        self._over = False
        self._unwanted = False
        self._shown = not context._work.over
        self.truncated = False
        self.ended: Deferred[v2.TerminalExitStatus] = Deferred(lambda _: self.kill())

    def connectionMade(self) -> None:
        transport: Any = self.transport
        self._pid = transport.pid
        transport.closeStdin()
        if self._unwanted:
            self.terminate()

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        if self._over:
            return
        self._kept += data
        if len(self._kept) > self._limit:
            self.truncated = True
            del self._kept[: -self._limit or None]
        encoded = base64.b64encode(data).decode("ascii")
        self._context.say(v2.TerminalOutputChunk(terminal_id=self._terminal_id, data=encoded))

    def processEnded(self, reason: Failure) -> None:
        ended = reason.value
        if isinstance(ended, ProcessTerminated) and ended.signal is not None:
            self._end(v2.TerminalExitStatus(signal=_signal_name(ended.signal)))
        else:
            self._end(v2.TerminalExitStatus(exit_code=getattr(ended, "exitCode", None) or 0))

    def _end(self, status: v2.TerminalExitStatus) -> None:
        if self._over:
            return
        self._over = True
        # The session says it, for the work is over when what stops it is not the client, and idle comes after this.
        update = v2.TerminalUpdate(terminal_id=self._terminal_id, exit_status=status, capabilities=None)
        if self._shown:
            self._context.session.say(update)
        if not self.ended.called:
            self.ended.callback(status)

    def kill(self) -> None:
        """
        End the command and all that it started.  Its end is reported at once: when its work is cancelled, no update may
        come later (V2N8).
        """
        if self._pid and not self._over:
            signal_group(self._pid, signal.SIGKILL)
            self._end(v2.TerminalExitStatus(signal="SIGKILL"))

    def terminate(self) -> None:
        """
        The client asks for the end of the command: how it ended is reported when it has.
        """
        self._unwanted = True  # it may be shown, and asked to end, before it has begun
        if self._pid and not self._over:
            signal_group(self._pid, signal.SIGTERM)

    @property
    def output(self) -> str:
        """
        What was kept, from a whole character on.
        """
        kept = bytes(self._kept)
        start = 0
        while self.truncated and start < min(3, len(kept)) and kept[start] & 0xC0 == 0x80:
            start += 1
        return kept[start:].decode("utf-8", "replace")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


async def run_command(
    context: PromptContext,
    command: str,
    args: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    output_byte_limit: int | None,
) -> CommandResult:
    """
    Run a command, and show it.  Cancelling this kills it, and all that it started; so does the end of the work, if its
    handler did not wait for it.

    @raise ResourceNotFound: when there is no such command.
    @raise InternalError: when it can't be started.
    """
    from acp_twisted.transports._session_process import start  # noqa: PLC0415 - POSIX only

    directory = cwd or context.session.cwd or os.getcwd()
    environment = {**os.environ, **env}
    executable = shutil.which(command, path=environment.get("PATH", os.defpath))
    if executable is None:
        raise ResourceNotFound("Command not found", {"command": command})
    argv = [command, *args]
    terminal_id = f"terminal-{uuid4()}"
    limit = MAX_OUTPUT_BYTES if output_byte_limit is None else output_byte_limit
    protocol = _Command(context, terminal_id, limit)
    context.session.on_stop("terminal", terminal_id, protocol.terminate)
    context.say(
        v2.TerminalUpdate(
            terminal_id=terminal_id,
            command=shlex.join(argv),
            cwd=directory,
            capabilities=v2.TerminalCapabilities(cancel=v2.TerminalCancelCapabilities()),
        )
    )
    try:
        start(
            context.connection.clock,
            os.path.abspath(executable),
            AgentCommand(argv, directory),
            environment,
            protocol,
            one_output=True,
        )
    except (OSError, ValueError) as error:
        context.say(v2.TerminalUpdate(terminal_id=terminal_id, exit_status=v2.TerminalExitStatus(exit_code=127)))
        raise InternalError("The command could not be started", {"reason": str(error)}) from None
    before_end = context._work.before_end
    before_end.append(protocol.kill)
    try:
        status = await protocol.ended
    finally:
        if protocol.kill in before_end:
            before_end.remove(protocol.kill)
        protocol.kill()
    return CommandResult(
        output=protocol.output, exit_code=status.exit_code, signal=status.signal, truncated=protocol.truncated
    )
