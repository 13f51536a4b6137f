"""
A command in a terminal of the client's, from its start to its release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import RequestCancelled
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.agent.context import PromptContext

_log = Logger()


@frozen(kw_only=True)
class CommandResult:
    """
    What became of a command.

    @ivar output: what it printed, or the end of that.
    @ivar exit_code: L{None} when a signal ended it.
    @ivar signal: the name of that signal, such as C{"SIGKILL"}.
    @ivar truncated: whether the beginning of the output is missing.
    """

    output: str
    exit_code: int | None
    signal: str | None
    truncated: bool


async def run_command(context: PromptContext, request: v1.CreateTerminalRequest) -> CommandResult:
    """
    Create a terminal, wait for its command, take its output, release it (1.143).  Cancelling this ends it at once; the
    terminal is released all the same, once, also when the client's answer that it exists comes only then (B61).
    """
    terminal_id = await _create(context, request)
    try:
        ended = await context.wait_for_terminal_exit(terminal_id, timeout=0.0)
        shown = await context.terminal_output(terminal_id)
    except CancelledError as error:
        raise _as_ours(error) from None
    finally:
        _release(context, terminal_id)
    return CommandResult(
        output=shown.output, exit_code=ended.exit_code, signal=ended.signal, truncated=bool(shown.truncated)
    )


async def _create(context: PromptContext, request: v1.CreateTerminalRequest) -> str:
    # Cancelled, the request is asked back, and its answer still waited for, though not by the caller.
    seconds = context.connection.peer.request_timeout
    create = context.call(request, wait=True, wait_timeout=seconds)
    answered: Deferred[str] = Deferred()

    def created(response: v1.CreateTerminalResponse) -> None:
        if answered.called:
            _release(context, response.terminal_id)
        else:
            answered.callback(response.terminal_id)

    def failed(failure: Failure) -> None:
        if answered.called:
            _log.debug("terminal/create was given up, and failed")
        else:
            answered.errback(failure)

    create.addCallbacks(created, failed)
    try:
        return await answered
    except CancelledError as error:
        create.cancel()
        raise _as_ours(error) from None


def _release(context: PromptContext, terminal_id: str) -> None:
    """
    Release a terminal, turn or no turn: this request is nobody's to cancel.
    """
    request = v1.ReleaseTerminalRequest(session_id=context.session_id, terminal_id=terminal_id)
    released: Deferred[Any] = context.connection.call(request)
    released.addErrback(_unreleased)


def _unreleased(failure: Failure) -> None:
    _log.debug("terminal/release failed: {kind}", kind=failure.type)


def _as_ours(error: CancelledError) -> RequestCancelled:
    return error if isinstance(error, RequestCancelled) else RequestCancelled()
