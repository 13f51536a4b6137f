"""
What a prompt's handler has in hand while its turn lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.agent import tool_calls
from acp_twisted.agent.client_calls import ClientCalls, SessionClient
from acp_twisted.agent.commands import CommandResult, run_command
from acp_twisted.agent.tool_calls import OpenToolCall
from acp_twisted.agent.unstable import UnstableUpdates
from acp_twisted.errors import AcpError, RequestCancelled
from acp_twisted.handlers import check_text
from acp_twisted.jsonrpc.calls import Call, Unheeded
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.schema import v1
from acp_twisted.turn.prompt_session import Turn

if TYPE_CHECKING:
    from acp_twisted.agent.connection import AgentConnection

_T = TypeVar("_T")
_log = Logger()


class PromptContext(ClientCalls):
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
        self._helpers: dict[Deferred[Any], None] = {}
        self._tool_calls: dict[OpenToolCall, None] = {}

    @property
    def session_id(self) -> str:
        """
        The session that was prompted.
        """
        return self.request.session_id

    @property
    def schema(self) -> Any:
        """
        The module of the classes of the version that is spoken, C{v1} or C{v2}: for a handler that serves both.
        """
        return self.connection.schema

    @property
    def client_capabilities(self) -> v1.ClientCapabilities:
        """
        What the client can do.
        """
        return self.connection.client_capabilities

    @property
    def client(self) -> SessionClient:
        """
        The client, and nothing but one message for each call.  What is asked so belongs to the turn too.
        """
        return SessionClient(self.connection, self.session_id, self.call)

    @property
    def unstable(self) -> UnstableUpdates:
        """
        Unstable.  Updates that the protocol has not settled yet.

        @raise ValueError: when the agent was not built with C{unstable=True}.
        """
        return UnstableUpdates(self.connection, self.send_update)

    def supports(self, capability: str) -> bool:
        """
        Whether the client has advertised a capability, by its dotted name, as in C{"fs.readTextFile"}.
        """
        return self.connection.supports(capability)

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
        for helper in list(self._helpers):
            helper.cancel()
        for call in list(self._outstanding):
            if call.pending.call is None:
                self._outstanding.pop(call, None)
            else:
                call.cancel()

    def take_prompt(self) -> Any:
        """
        In version 2, what the user has said meanwhile; see
        L{PromptContext<acp_twisted.agent.v2.context.PromptContext.take_prompt>}.  In version 1 there is never anything.
        """
        return None

    # ---- updates

    def send_message(self, text: str, message_id: str | None = None) -> Deferred[None]:
        """
        Send a piece of the agent's answer.

        @return: fires when the output has room for more; awaiting it makes a slow client slow the handler down.
        @raise TypeError: when C{text} is no string.
        """
        return self.send_update(
            v1.AgentMessageChunk(content=v1.TextContent(text=check_text(text)), message_id=message_id)
        )

    def send_thought(self, text: str, message_id: str | None = None) -> Deferred[None]:
        """
        Send a piece of the agent's reasoning.
        """
        return self.send_update(
            v1.AgentThoughtChunk(content=v1.TextContent(text=check_text(text)), message_id=message_id)
        )

    def send_update(self, update: v1.SessionUpdate) -> Deferred[None]:
        """
        Send C{session/update}.  Once the turn is answered it is dropped, and logged (design rule 4).

        @param update: a C{v1} update, such as L{v1.ToolCall}.
        """
        if self._turn.answered:
            _log.debug("an update after the answer of a turn of session {session}", session=self.session_id)
            return succeed(None)
        return self.connection.send_update(self.session_id, update)

    def plan(self, entries: Sequence[v1.PlanEntry | str]) -> Deferred[None]:
        """
        Send the whole plan, which replaces the one before (1.151).

        @param entries: its steps; a string is one of medium priority that has not begun.
        @raise TypeError: when they are one string.
        """
        if isinstance(entries, str):
            raise TypeError("plan takes a list of steps, and this is one string")
        return self.send_update(
            v1.Plan(
                entries=[
                    v1.PlanEntry(content=each, priority="medium", status="pending") if isinstance(each, str) else each
                    for each in entries
                ]
            )
        )

    def tool_call(
        self,
        title: str,
        *,
        kind: v1.ToolKind = "other",
        status: v1.ToolCallStatus = "in_progress",
        tool_call_id: str | None = None,
        name: str | None = None,
        content: Sequence[v1.ToolCallContent] = (),
        locations: Sequence[v1.ToolCallLocation] = (),
        raw_input: Any = None,
        meta: dict[str, Any] | None = None,
    ) -> OpenToolCall:
        """
        A tool call, to be entered with C{async with}.

        @param status: C{"pending"} while its input is not complete, or the user must be asked first.
        @param tool_call_id: unique in the session; a random one if it is L{None}.
        """
        call = v1.ToolCall(
            tool_call_id=str(uuid4()) if tool_call_id is None else tool_call_id,
            title=title,
            name=name,
            kind=kind,
            status=status,
            content=list(content),
            locations=list(locations),
            raw_input=raw_input,
            meta=meta,
        )
        return OpenToolCall(self, call)

    @property
    def unfinished_status(self) -> str:
        """
        What becomes of a tool call that is not finished when the turn is over.
        """
        return "failed"

    def keep_tool_call(self, call: OpenToolCall) -> None:
        """
        A tool call is open: it is to be closed before the turn's answer.
        """
        if not self._tool_calls:
            self._turn.before_answer.append(self._close_tool_calls)
        self._tool_calls[call] = None

    def drop_tool_call(self, call: OpenToolCall) -> None:
        """
        It is finished.
        """
        self._tool_calls.pop(call, None)

    def _close_tool_calls(self) -> None:
        calls, self._tool_calls = self._tool_calls, {}
        for call in calls:
            # The turn counts as answered by now, and its answer comes right behind.
            sent = self.connection.send_update(self.session_id, call.closing_words())
            sent.addErrback(tool_calls.unsent)

    # ---- what takes more than one request

    def helping(self, work: Coroutine[Deferred[Any], Any, _T]) -> Deferred[_T]:
        """
        Run C{work}, and cancel it with the requests of the turn.
        """
        helpers: list[Deferred[_T]] = []

        def cancel(_: object) -> None:
            if helpers:
                helpers[0].cancel()
            else:  # what the work says first has brought the cancellation
                result.errback(RequestCancelled())

        result: Unheeded[_T] = Unheeded(cancel)
        self._helpers[result] = None
        helper = Deferred.fromCoroutine(work)
        helpers.append(helper)

        def done(value: _T) -> None:
            self._helpers.pop(result, None)
            if not result.called:
                result.callback(value)

        def failed(failure: Failure) -> None:
            self._helpers.pop(result, None)
            if not result.called:
                result.errback(failure.value if isinstance(failure.value, AcpError) else failure)

        helper.addCallbacks(done, failed)
        if result.called:
            helper.cancel()
        return result

    def read_file(self, path: str, line: int | None = None, limit: int | None = None) -> Deferred[str]:
        """
        The text of a file as the editor has it; see
        L{ClientCalls.read_text_file<acp_twisted.agent.client_calls.ClientCalls.read_text_file>}.
        """
        return self.read_text_file(path, line, limit).addCallback(lambda response: response.content)

    def try_read_file(self, path: str, line: int | None = None, limit: int | None = None) -> Deferred[str | None]:
        """
        The same; L{None} if it can't be had, for whatever reason.  Only the turn's cancellation is still an error.
        """
        return self.helping(self._try_read(path, line, limit))

    async def _try_read(self, path: str, line: int | None, limit: int | None) -> str | None:
        try:
            return await self.read_file(path, line, limit)
        except AcpError as error:
            if self.is_cancelled or (isinstance(error, RequestCancelled) and not error.remote):
                raise
            _log.debug("a file could not be read: {kind}", kind=type(error).__name__)
            return None

    def write_file(self, path: str, content: str) -> Deferred[None]:
        """
        Write a file through the editor; see
        L{ClientCalls.write_text_file<acp_twisted.agent.client_calls.ClientCalls.write_text_file>}.
        """
        return self.write_text_file(path, content).addCallback(lambda _: None)

    def ask_permission(self, action: str, kind: v1.ToolKind = "other") -> Deferred[bool]:
        """
        Ask the user whether C{action} may be done, as a tool call of its own.  Anything but a plain yes is C{False}.
        """
        return self.helping(tool_calls.ask_permission(self, action, kind))

    def ask_choice(self, question: str, *choices: str) -> Deferred[str | None]:
        """
        Let the user pick one of at least two choices, as a tool call of its own.

        @return: the choice; L{None} when he picks none.  It fails with
            L{InternalError<acp_twisted.errors.InternalError>} when the client picks what was not offered.
        @raise ValueError: for less than two.
        """
        if len(choices) < 2:
            raise ValueError("a choice is between two things at least")
        return self.helping(tool_calls.ask_choice(self, question, choices))

    def execute(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> Deferred[CommandResult]:
        """
        Run a command in a terminal of the client's, and wait for its end, which has no timeout.  The terminal is
        released whatever happens, once.

        @param env: what is added to the client's own environment.
        @param cwd: absolute.
        """
        request = v1.CreateTerminalRequest(
            session_id=self.session_id,
            command=command,
            args=list(args),
            env=[v1.EnvVariable(name=name, value=value) for name, value in (env or {}).items()],
            cwd=cwd,
            output_byte_limit=output_byte_limit,
        )
        return self.helping(run_command(self, request))

    # ---- requests to the client

    def call(
        self,
        request: object,
        *,
        wait: bool = False,
        wait_timeout: float = 0.0,
        stop: CancellationSignal | None = None,
        **options: Any,
    ) -> Call[Any]:
        """
        Send any request of the protocol to the client; see
        L{Connection.call<acp_twisted.connection.Connection.call>}.
        """
        # The turn knows of it before it is sent: the client may cancel the turn for an answer.
        call = self.prepare(request, wait=wait, wait_timeout=wait_timeout)
        return self.connection._stopped_by(stop, self.publish(call, request, **options))

    def ext_request(
        self,
        method: str,
        params: object = None,
        *,
        wait: bool = False,
        wait_timeout: float = 0.0,
        stop: CancellationSignal | None = None,
        result: type | None = None,
        **options: Any,
    ) -> Call[Any]:
        """
        Send an extension's request to the client; see
        L{Connection.ext_request<acp_twisted.connection.Connection.ext_request>}.
        """
        call = self.connection._prepare_ext(method, wait=wait, wait_timeout=wait_timeout, result=result)
        return self.connection._stopped_by(stop, self.connection._publish_ext(self._track(call), params, **options))

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
        self._outstanding[call] = None
        call.at_end(lambda: self._outstanding.pop(call, None))
        return call
