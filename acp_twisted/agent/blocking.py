"""
Prompt handlers that block: they run in the reactor's thread pool.

Python can't interrupt a thread.  When the turn is ended for such a handler, what it waits for at the client ends with
L{RequestCancelled}, every later request does at once, and what it returns in the end is dropped; until then it goes on.
So it looks at C{is_cancelled} between its steps, or registers with C{on_cancel} what ends the thing that it waits for
(kills a subprocess, closes a socket).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads, IReactorThreads
from twisted.internet.threads import blockingCallFromThread, deferToThreadPool
from twisted.python.failure import Failure

from acp_twisted.agent.commands import CommandResult
from acp_twisted.agent.context import PromptContext
from acp_twisted.agent.sync_client_calls import SyncClientCalls, SyncSessionClient
from acp_twisted.agent.tool_calls import OpenToolCall
from acp_twisted.errors import RequestCancelled
from acp_twisted.handlers import Bound
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.agent.connection import AgentConnection

_T = TypeVar("_T")
_F = TypeVar("_F", bound="Callable[..., Any]")

_BLOCKS = "__acp_blocks__"


def run_blocking(handler: Bound, prompt: v1.PromptRequest, context: PromptContext) -> Deferred[Any]:
    """
    Call C{handler} in the reactor's thread pool with C{prompt} and a L{SyncPromptContext}.

    @return: what it returns.  Cancelling this ends it at once; the thread is left to itself.
    """
    reactor: Any = context.connection.clock
    sync = SyncPromptContext(context, reactor)

    def left(_: object) -> None:
        sync.leave()

    outcome: Deferred[Any] = Deferred(left)

    def finished(success: bool, result: Any) -> None:
        reactor.callFromThread(settle, result)

    def settle(result: Any) -> None:
        if outcome.called:
            return
        if isinstance(result, Failure):
            outcome.errback(result)
        else:
            outcome.callback(result)

    pool = IReactorThreads(reactor).getThreadPool()
    pool.callInThreadWithCallback(finished, copy_context().run, handler, prompt, sync)
    return outcome


def blocking(function: _F) -> _F:
    """
    A decorator for a handler of any method, other than prompts, that blocks: it is called in the reactor's thread pool,
    with the request, and with a L{SyncAgentConnection} if it takes two arguments.  For prompts, C{prompt_handler} has
    an argument that says the same.
    """
    setattr(getattr(function, "__func__", function), _BLOCKS, True)
    return function


def is_blocking(function: object) -> bool:
    """
    Whether it was decorated with L{blocking}.
    """
    return getattr(function, _BLOCKS, False) is True


def in_thread(connection: AgentConnection, function: Callable[[], Any]) -> Deferred[Any]:
    """
    Call a function in the reactor's thread pool.  Cancelling what this returns ends the waiting; the thread is left to
    itself.
    """
    reactor: Any = connection.clock
    return deferToThreadPool(reactor, IReactorThreads(reactor).getThreadPool(), copy_context().run, function)


def unblocked(handler: Bound) -> Bound:
    """
    A handler that blocks, as one that does not.
    """

    def call(request: Any, connection: Any) -> Deferred[Any]:
        return in_thread(connection, lambda: handler(request, SyncAgentConnection(connection)))

    return call


class SyncAgentConnection:
    """
    An L{AgentConnection<acp_twisted.agent.connection.AgentConnection>} for a handler that blocks: what returns a
    Deferred there blocks here.
    """

    def __init__(self, connection: AgentConnection) -> None:
        self._connection = connection
        self._reactor: Any = connection.clock

    def _wait(self, function: Callable[[], Deferred[Any]]) -> Any:
        return blockingCallFromThread(self._reactor, function)

    @property
    def client_capabilities(self) -> v1.ClientCapabilities:
        """
        What the client can do.
        """
        return self._connection.client_capabilities

    def supports(self, capability: str) -> bool:
        """
        Whether the client has advertised a capability, by its dotted name.
        """
        return self._connection.supports(capability)

    def send_update(self, session_id: str, update: v1.SessionUpdate) -> None:
        """
        Send C{session/update}, and wait while the client is behind: a replay within C{session/load}, say.
        """
        self._wait(lambda: self._connection.send_update(session_id, update))

    def client(self, session_id: str) -> SyncSessionClient:
        """
        The client as a session sees it.
        """
        return SyncSessionClient(self._connection.client(session_id), self._wait)

    def ext_request(self, method: str, params: object = None, **options: Any) -> Any:
        """
        Send an extension's request to the client, and wait for its result.
        """
        return self._wait(lambda: self._connection.ext_request(method, params, **options))


class SyncPromptContext(SyncClientCalls):
    """
    A L{PromptContext} for a blocking handler: what returns a Deferred there blocks here, and raises what that fails
    with.  It is for the handler's own thread.
    """

    def __init__(self, context: PromptContext, reactor: IReactorFromThreads) -> None:
        self._context = self._calls = context
        self._reactor = reactor
        self._left = False

    def leave(self) -> None:
        """
        In the reactor's thread: the turn is over for this handler.
        """
        self._left = True
        self._context.cancel_outstanding()

    def _wait(self, function: Callable[[], Deferred[_T]]) -> _T:
        def ask() -> Deferred[Any]:
            if self._left:
                raise RequestCancelled()
            return function()

        return cast(_T, blockingCallFromThread(self._reactor, ask))

    @property
    def context(self) -> PromptContext:
        """
        The context that does not block, for the reactor's thread alone.
        """
        return self._context

    @property
    def request(self) -> v1.PromptRequest:
        """
        The prompt.
        """
        return self._context.request

    @property
    def session_id(self) -> str:
        """
        The session that was prompted.
        """
        return self._context.session_id

    @property
    def client_capabilities(self) -> v1.ClientCapabilities:
        """
        What the client can do.
        """
        return self._context.client_capabilities

    @property
    def client(self) -> SyncSessionClient:
        """
        The client, and nothing but one message for each call; see L{PromptContext.client}.
        """
        return SyncSessionClient(self._context.client, self._wait)

    def supports(self, capability: str) -> bool:
        """
        Whether the client has advertised a capability, by its dotted name, as in C{"fs.readTextFile"}.
        """
        return self._context.supports(capability)

    @property
    def is_cancelled(self) -> bool:
        """
        Whether the turn was cancelled.  Cheap: look at it often.
        """
        return self._context.is_cancelled

    @property
    def cancellations(self) -> tuple[str, ...]:
        """
        What cancelled the turn, in order.
        """
        return self._context.cancellations

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """
        Call C{callback} once when the turn is cancelled, in the reactor's thread, so it must not block.
        """
        blockingCallFromThread(self._reactor, self._context.on_cancel, callback)

    def take_prompt(self) -> Any:
        """
        What the user has said meanwhile, in version 2; see L{PromptContext.take_prompt}.
        """
        return blockingCallFromThread(self._reactor, self._context.take_prompt)

    def send_message(self, text: str, message_id: str | None = None) -> None:
        """
        Send a piece of the agent's answer, and wait while the client is behind.
        """
        self._wait(lambda: self._context.send_message(text, message_id))

    def send_thought(self, text: str, message_id: str | None = None) -> None:
        """
        Send a piece of the agent's reasoning.
        """
        self._wait(lambda: self._context.send_thought(text, message_id))

    def send_update(self, update: v1.SessionUpdate) -> None:
        """
        Send C{session/update}.
        """
        self._wait(lambda: self._context.send_update(update))

    def plan(self, entries: Sequence[v1.PlanEntry | str]) -> None:
        """
        Send the whole plan; see L{PromptContext.plan}.
        """
        self._wait(lambda: self._context.plan(entries))

    def tool_call(self, title: str, **options: Any) -> SyncToolCall:
        """
        A tool call, to be entered with C{with}; the options are L{PromptContext.tool_call}'s.
        """
        return SyncToolCall(self._context.tool_call(title, **options), self._wait)

    def read_file(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """
        The text of a file as the editor has it.
        """
        return self._wait(lambda: self._context.read_file(path, line, limit))

    def try_read_file(self, path: str, line: int | None = None, limit: int | None = None) -> str | None:
        """
        The same; L{None} if it can't be had.  Only the turn's cancellation is still an error.
        """
        return self._wait(lambda: self._context.try_read_file(path, line, limit))

    def write_file(self, path: str, content: str) -> None:
        """
        Write a file through the editor.
        """
        self._wait(lambda: self._context.write_file(path, content))

    def ask_permission(self, action: str, kind: v1.ToolKind = "other") -> bool:
        """
        Ask the user whether C{action} may be done; see L{PromptContext.ask_permission}.
        """
        return self._wait(lambda: self._context.ask_permission(action, kind))

    def ask_choice(self, question: str, *choices: str) -> str | None:
        """
        Let the user pick one of at least two choices; see L{PromptContext.ask_choice}.
        """
        return self._wait(lambda: self._context.ask_choice(question, *choices))

    def execute(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> CommandResult:
        """
        Run a command in a terminal of the client's, and wait for its end; see L{PromptContext.execute}.
        """
        return self._wait(
            lambda: self._context.execute(command, args, env=env, cwd=cwd, output_byte_limit=output_byte_limit)
        )

    def ext_request(self, method: str, params: object = None, **options: Any) -> Any:
        """
        Send an extension's request to the client, and wait for its result.
        """
        return self._wait(lambda: self._context.ext_request(method, params, **options))


class SyncToolCall:
    """
    An L{OpenToolCall<acp_twisted.agent.tool_calls.OpenToolCall>} for a blocking handler::

        with context.tool_call("Read the file", kind="read") as call:
            call.update(content=[…])
    """

    def __init__(self, call: OpenToolCall, wait: Callable[[Callable[[], Deferred[Any]]], Any]) -> None:
        self._call = call
        self._wait = wait

    @property
    def tool_call_id(self) -> str:
        """
        Its id, unique in the session.
        """
        return self._call.tool_call_id

    @property
    def status(self) -> v1.ToolCallStatus:
        """
        What was last said of its state.
        """
        return self._call.status

    @property
    def finished(self) -> bool:
        """
        Whether it is completed or failed.
        """
        return self._call.finished

    def begin(self) -> None:
        """
        Report it.  The C{with} block does so.
        """
        self._wait(self._call.begin)

    def update(self, **changes: Any) -> None:
        """
        Report what has changed; see L{OpenToolCall.update<acp_twisted.agent.tool_calls.OpenToolCall.update>}.
        """
        self._wait(lambda: self._call.update(**changes))

    def complete(self, content: Sequence[v1.ToolCallContent] | None = None, raw_output: Any = None) -> None:
        """
        It is done.
        """
        self._wait(lambda: self._call.complete(content, raw_output))

    def fail(self, content: Sequence[v1.ToolCallContent] | None = None, raw_output: Any = None) -> None:
        """
        It did not work, or was not allowed.
        """
        self._wait(lambda: self._call.fail(content, raw_output))

    def ask_permission(self) -> bool:
        """
        Ask the user whether it may run.
        """
        return bool(self._wait(self._call.ask_permission))

    def __enter__(self) -> SyncToolCall:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The turn may be over for this thread; then the tool call was closed with it.
        if self.finished:
            return
        self._wait(lambda: self._call.leave(kind is not None))
