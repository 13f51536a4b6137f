"""
What a prompt's handler has in hand while its turn lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from acp_twisted.jsonrpc.calls import Call
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.schema import v1
from acp_twisted.turn.prompt_session import Turn

if TYPE_CHECKING:
    from acp_twisted.agent.connection import AgentConnection

_log = Logger()


class PromptContext:
    """
    One prompt turn, as its handler sees it.

    Every request to the client is a Deferred; cancelling one, or the handler that awaits it, cancels the request at the
    client too.

    @ivar connection: the connection that the prompt came on.
    @ivar request: the prompt.
    """

    def __init__(self, connection: AgentConnection, request: v1.PromptRequest, turn: Turn) -> None:
        self.connection = connection
        self.request = request
        self._turn = turn
        self._outstanding: dict[Call[Any], None] = {}  # in the order of asking

    @property
    def session_id(self) -> str:
        """
        The session that was prompted.
        """
        return self.request.session_id

    @property
    def client_capabilities(self) -> v1.ClientCapabilities:
        """
        What the client can do.
        """
        return self.connection.client_capabilities

    # ---- cancellation

    @property
    def token(self) -> CancellationToken:
        """
        The prompt's cancellation.
        """
        return self._turn.token

    @property
    def is_cancelled(self) -> bool:
        """
        Whether the turn was cancelled, by whatever.  Once true it stays true.
        """
        return self.token.cancelled

    @property
    def cancellations(self) -> tuple[str, ...]:
        """
        What cancelled the turn, in the order in which it happened; see L{CancellationToken.triggers}.
        """
        return self.token.triggers

    def when_cancelled(self) -> Deferred[None]:
        """
        Fires when the turn is cancelled.
        """
        return self.token.when_cancelled()

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """
        Call C{callback} once, from within the delivery of the cancellation; now, if that has happened.
        """
        self.token.on_cancel(callback)

    def cancel_outstanding(self) -> None:
        """
        Cancel the requests to the client that this turn has sent and that are unanswered, each once (X9).  Those that
        were detached go on: nobody waits for them.
        """
        for call in list(self._outstanding):
            if call.pending.call is None:
                self._outstanding.pop(call, None)
            else:
                call.cancel()

    # ---- updates

    def send_message(self, text: str, message_id: str | None = None) -> Deferred[None]:
        """
        Send a piece of the agent's answer.

        @return: fires when the output has room for more; awaiting it makes a slow client slow the handler down.
        """
        return self.send_update(v1.AgentMessageChunk(content=v1.TextContent(text=text), message_id=message_id))

    def send_thought(self, text: str, message_id: str | None = None) -> Deferred[None]:
        """
        Send a piece of the agent's reasoning.
        """
        return self.send_update(v1.AgentThoughtChunk(content=v1.TextContent(text=text), message_id=message_id))

    def send_update(self, update: v1.SessionUpdate) -> Deferred[None]:
        """
        Send C{session/update}.  Once the turn is answered it is dropped, and logged (design rule 4).

        @param update: a C{v1} update, such as L{v1.ToolCall}.
        """
        if self._turn.answered:
            _log.debug("an update after the answer of a turn of session {session}", session=self.session_id)
            return succeed(None)
        return self.connection.send_update(self.session_id, update)

    # ---- requests to the client

    def call(self, request: object, **options: Any) -> Call[Any]:
        """
        Send any request of the protocol to the client; see
        L{Connection.call<acp_twisted.connection.Connection.call>}.
        """
        return self._track(self.connection.call(request, **options))

    def ext_request(self, method: str, params: object = None, **options: Any) -> Call[Any]:
        """
        Send an extension's request to the client.
        """
        return self._track(self.connection.ext_request(method, params, **options))

    def prepare(self, request: object, **options: Any) -> Call[Any]:
        """
        What L{call} returns, before anything is sent; see
        L{Connection.prepare<acp_twisted.connection.Connection.prepare>}.  It is cancelled with the turn's others.
        """
        return self._track(self.connection.prepare(request, **options))

    def publish(self, call: Call[Any], request: object, **options: Any) -> Call[Any]:
        """
        Send C{request}, which L{prepare} made C{call} for.
        """
        return self.connection.publish(call, request, **options)

    def _track(self, call: Call[Any]) -> Call[Any]:
        def settled(result: Any) -> Any:
            self._outstanding.pop(call, None)
            return result

        self._outstanding[call] = None
        call.addBoth(settled)
        call.nobody_listens()
        return call

    def request_permission(
        self, tool_call: v1.ToolCallUpdate, options: Sequence[v1.PermissionOption], **call_options: Any
    ) -> Call[v1.RequestPermissionResponse]:
        """
        Ask the user.
        """
        request = v1.RequestPermissionRequest(session_id=self.session_id, tool_call=tool_call, options=list(options))
        return self.call(request, **call_options)

    def read_text_file(
        self, path: str, line: int | None = None, limit: int | None = None, **call_options: Any
    ) -> Call[v1.ReadTextFileResponse]:
        """
        Read a file as the editor has it.

        @param path: absolute.
        @param line: the first line wanted, counted from 1.
        @param limit: how many lines at most.
        """
        request = v1.ReadTextFileRequest(session_id=self.session_id, path=path, line=line, limit=limit)
        return self.call(request, **call_options)

    def write_text_file(self, path: str, content: str, **call_options: Any) -> Call[v1.WriteTextFileResponse]:
        """
        Write a file through the editor.

        @param path: absolute.
        """
        return self.call(
            v1.WriteTextFileRequest(session_id=self.session_id, path=path, content=content), **call_options
        )

    def create_terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        env: Sequence[v1.EnvVariable] = (),
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **call_options: Any,
    ) -> Call[v1.CreateTerminalResponse]:
        """
        Start a command in a terminal of the client's.

        @param cwd: absolute.
        """
        request = v1.CreateTerminalRequest(
            session_id=self.session_id,
            command=command,
            args=list(args),
            env=list(env),
            cwd=cwd,
            output_byte_limit=output_byte_limit,
        )
        return self.call(request, **call_options)

    def terminal_output(self, terminal_id: str, **call_options: Any) -> Call[v1.TerminalOutputResponse]:
        """
        What the terminal shows so far.
        """
        request = v1.TerminalOutputRequest(session_id=self.session_id, terminal_id=terminal_id)
        return self.call(request, **call_options)

    def wait_for_terminal_exit(self, terminal_id: str, **call_options: Any) -> Call[v1.WaitForTerminalExitResponse]:
        """
        Wait until the command has ended.  It may take its time: name a C{timeout} if the default is too short.
        """
        request = v1.WaitForTerminalExitRequest(session_id=self.session_id, terminal_id=terminal_id)
        return self.call(request, **call_options)

    def kill_terminal(self, terminal_id: str, **call_options: Any) -> Call[v1.KillTerminalResponse]:
        """
        End the command; the terminal stays.
        """
        return self.call(v1.KillTerminalRequest(session_id=self.session_id, terminal_id=terminal_id), **call_options)

    def release_terminal(self, terminal_id: str, **call_options: Any) -> Call[v1.ReleaseTerminalResponse]:
        """
        Give the terminal back; its command is ended if it still runs (1.143).
        """
        return self.call(v1.ReleaseTerminalRequest(session_id=self.session_id, terminal_id=terminal_id), **call_options)
