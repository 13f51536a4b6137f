"""
What the handler of foreground work has in hand while that lasts, in version 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.agent import tool_calls
from acp_twisted.agent.commands import CommandResult
from acp_twisted.agent.context import PromptContext as FirstContext
from acp_twisted.agent.tool_calls import OpenToolCall
from acp_twisted.agent.v2.client_calls import SecondCalls, SessionClient, refuse_first
from acp_twisted.agent.v2.commands import run_command
from acp_twisted.agent.v2.unstable import UnstableUpdates
from acp_twisted.handlers import check_text
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.schema import v2
from acp_twisted.schema.values import UNSET
from acp_twisted.turn.foreground import Work

if TYPE_CHECKING:
    from acp_twisted.agent.v2.connection import AgentConnection
    from acp_twisted.agent.v2.session import AgentSession

_log = Logger()

MAIN_PLAN = "main"
"""The id of the plan that L{PromptContext.plan} sends."""

_QUESTIONS = v2.RequestPermissionRequest, v2.CreateElicitationRequest
"""What is asked of the user."""


class PromptContext(SecondCalls, FirstContext):
    """
    One piece of foreground work, as its handler sees it.  It has the names of version 1's
    L{PromptContext<acp_twisted.agent.context.PromptContext>}, so that one handler serves both versions: what it makes
    by itself it makes of the classes in C{context.schema}.

    Files and terminals of the client are no part of version 2: asking for them raises L{AcpCapabilityError}.
    L{execute} runs a command here and shows it.

    @ivar session: the session, which outlives the work.
    @ivar request: the prompt; L{None} for work that the agent began itself.
    @ivar message_id: the id of the user's message; L{None} without one.
    """

    connection: AgentConnection  # type: ignore[assignment]
    request: Any

    def __init__(
        self,
        connection: AgentConnection,
        session: AgentSession,
        request: v2.PromptRequest | None,
        work: Work,
        message_id: str | None = None,
    ) -> None:
        super().__init__(connection, request, work)  # type: ignore[arg-type]
        self.session = session
        self.message_id = message_id
        self._work = work
        self._speaking: tuple[str, str] | None = None
        self._questions: dict[Call[Any], None] = {}
        work.token.on_cancel(self._take_questions_back)

    @property
    def session_id(self) -> str:
        """
        The session that was prompted.
        """
        return self.session.session_id

    @property
    def client_capabilities(self) -> v2.ClientCapabilities:  # type: ignore[override]
        """
        What the client can do.
        """
        return self.connection.client_capabilities

    @property
    def client(self) -> SessionClient:
        """
        The client, and nothing but one message for each call.  What is asked so belongs to the work too.
        """
        return SessionClient(self.connection, self.session_id, self.call)

    @property
    def unstable(self) -> UnstableUpdates:  # type: ignore[override]
        """
        Unstable.  Updates that the protocol has not settled yet.

        @raise ValueError: when the agent was not built with C{unstable=True}.
        """
        return UnstableUpdates(self.connection, self.send_update)

    def take_prompt(self) -> v2.PromptRequest | None:
        """
        Take what the user has said meanwhile into this work: the first prompt that is held becomes part of the
        conversation now, and this handler answers to it too.  What nobody takes is inserted after this work.

        @return: the prompt; L{None} if there is none.
        """
        taken = self.session.foreground.take(self._work)
        prompt: v2.PromptRequest | None = None if taken is None else taken.prompt
        return prompt

    # ---- updates

    def send_message(self, text: str, message_id: str | None = None) -> Deferred[None]:
        """
        Send a piece of the agent's answer.  Without an id it goes on with the message before it, or begins one after
        anything else.

        @return: fires when the output has room for more; awaiting it makes a slow client slow the handler down.
        @raise TypeError: when C{text} is no string.
        """
        name = self._speak("message", message_id)
        return self._send(v2.AgentMessageChunk(message_id=name, content=v2.TextContent(text=check_text(text))))

    def send_thought(self, text: str, message_id: str | None = None) -> Deferred[None]:
        """
        Send a piece of the agent's reasoning; see L{send_message}.
        """
        name = self._speak("thought", message_id)
        return self._send(v2.AgentThoughtChunk(message_id=name, content=v2.TextContent(text=check_text(text))))

    def _speak(self, kind: str, message_id: str | None) -> str:
        if message_id is None:
            before = self._speaking
            message_id = before[1] if before is not None and before[0] == kind else str(uuid4())
        self._speaking = kind, message_id
        return message_id

    def send_update(self, update: Any) -> Deferred[None]:
        """
        Send C{session/update}.  Once the work is over it is dropped, and logged (design rule 4); what goes on in the
        background has L{AgentSession.send_update<acp_twisted.agent.v2.session.AgentSession.send_update>}.

        @param update: a C{v2} update, such as L{v2.ToolCallUpdate}.
        """
        self._speaking = None
        return self._send(update)

    def _send(self, update: v2.SessionUpdate) -> Deferred[None]:
        if self._work.over:
            _log.debug("an update after the end of work in session {session}", session=self.session_id)
            return succeed(None)
        return self.session.send_update(update)

    def say(self, update: v2.SessionUpdate) -> None:
        """
        The same, for whom nobody waits.
        """
        self.send_update(update).addErrback(_unsent)

    def plan(self, entries: Sequence[Any]) -> Deferred[None]:
        """
        Send the whole plan, which replaces the one before.

        @param entries: its steps; a string is one of medium priority that has not begun.
        """
        steps = [
            v2.PlanEntry(content=each, priority="medium", status="pending") if isinstance(each, str) else each
            for each in entries
        ]
        return self.send_update(v2.PlanUpdate(plan=v2.PlanItems(plan_id=MAIN_PLAN, entries=steps)))

    def tool_call(
        self,
        title: str,
        *,
        kind: v2.ToolKind = "other",
        status: v2.ToolCallStatus = "in_progress",
        tool_call_id: str | None = None,
        name: str | None = None,
        content: Sequence[Any] = (),
        locations: Sequence[Any] = (),
        raw_input: Any = None,
        meta: dict[str, Any] | None = None,
        stop: Callable[[], object] | None = None,
    ) -> OpenToolCall:
        """
        A tool call, to be entered with C{async with}.

        @param status: C{"pending"} while its input is not complete, or the user must be asked first.
        @param tool_call_id: unique in the session; a random one if it is L{None}.
        @param stop: stops it when the client asks for that; without one the client is not told that it may.
        """
        call = v2.ToolCallUpdate(
            tool_call_id=str(uuid4()) if tool_call_id is None else tool_call_id,
            title=title,
            name=UNSET if name is None else name,
            kind=kind,
            status=status,
            content=list(content) or UNSET,
            locations=list(locations) or UNSET,
            raw_input=UNSET if raw_input is None else raw_input,
            meta=UNSET if meta is None else meta,
        )
        if stop is not None:
            call.capabilities = v2.ToolCallCapabilities(cancel=v2.ToolCallCancelCapabilities())
            self.session.on_stop("tool_call", call.tool_call_id, stop)
        return OpenToolCall(self, call)  # type: ignore[arg-type]  # what it needs of its call both versions have

    @property
    def unfinished_status(self) -> str:
        """
        What becomes of a tool call that is not finished when the work is over.
        """
        return "cancelled" if self.is_cancelled else "failed"

    def keep_tool_call(self, call: OpenToolCall) -> None:
        """
        A tool call is open: it is to be closed before the work is reported to be over.
        """
        if not self._tool_calls:
            self._work.before_end.append(self._close_tool_calls)
        self._tool_calls[call] = None

    def _close_tool_calls(self) -> None:
        calls, self._tool_calls = self._tool_calls, {}
        for call in calls:
            self.session.send_update(call.closing_words()).addErrback(tool_calls.unsent)

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
        Run a command here, show it to the client as a terminal, and wait for its end, which has no timeout.  The client
        may stop it.  When the work is cancelled it is killed, and this fails with
        L{RequestCancelled<acp_twisted.errors.RequestCancelled>} (V2N2).  It is killed as well when the work ends first.

        @param env: what is added to this program's own environment.
        @param cwd: absolute; the session's if it is L{None}.
        @param output_byte_limit: how much of its output the result has; the client is shown all of it.
        """
        running = self.helping(run_command(self, command, args, env or {}, cwd, output_byte_limit))
        return self.token.run_until_cancelled(running)

    # ---- requests to the client

    def call(self, request: object, *, blocks: bool = True, **options: Any) -> Call[Any]:
        """
        Send any request of the protocol to the client; see
        L{Connection.call<acp_twisted.connection.Connection.call>}.

        @param blocks: whether a question to the user keeps the whole work from going on; C{requires_action} is reported
            until the last such question is settled (2.34, 2.39).
        @raise AcpCapabilityError: for a request that only version 1 has.
        """
        refuse_first(request)
        call = super().call(request, **options)
        if blocks and isinstance(request, _QUESTIONS) and not call.called:
            foreground = self.session.foreground
            foreground.blocked(self._work)
            call.at_end(lambda: foreground.unblocked(self._work))
        return call

    def prepare(self, request: object, **options: Any) -> Call[Any]:
        """
        See L{FirstContext.prepare<acp_twisted.agent.context.PromptContext.prepare>}.
        """
        call = super().prepare(request, **options)
        if isinstance(request, _QUESTIONS):
            self._questions[call] = None
            call.at_end(lambda: self._questions.pop(call, None))
        return call

    def _take_questions_back(self) -> None:
        """
        The work is cancelled: its questions are not waited for any more, and count as not approved (V2N3, V2N12).
        """
        for call in list(self._questions):
            call.cancel()


def _unsent(failure: Failure) -> None:
    _log.debug("an update could not be sent: {kind}", kind=failure.type)
