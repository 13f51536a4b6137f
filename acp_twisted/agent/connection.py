"""
One connection of an agent: its sessions, their turns, and what the agent can ask of the client.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from acp_twisted.agent.blocking import run_blocking
from acp_twisted.agent.client_calls import SessionClient
from acp_twisted.agent.context import PromptContext
from acp_twisted.agent.unstable import Subagents, UnstableCalls
from acp_twisted.connection import Connection, decode
from acp_twisted.elicitations import Elicitations, filled_in
from acp_twisted.errors import (
    AcpConnectionError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    NotInitialized,
    ResourceNotFound,
)
from acp_twisted.handlers import after, after_unless_cancelled, outcome, then
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.jsonrpc.cancellation import in_force
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.jsonrpc.router import TAKEN
from acp_twisted.schema import v1
from acp_twisted.schema.vocabulary import V1
from acp_twisted.turn.prompt_session import PromptSession, Turn
from acp_twisted.turn.result import TurnResult, is_stop_reason

if TYPE_CHECKING:
    from acp_twisted.agent.agent import AcpAgent

_log = Logger()

PROTOCOL_VERSION = 1


class AgentConnection(Connection):
    """
    The agent's side of one connection.

    @ivar agent: the agent that serves it.
    @ivar client_capabilities: what the client can do; nothing before C{initialize}.
    @ivar client_info: what the client says of itself, if it did.
    @ivar subagents: unstable; the sessions of subagents that the client was told of.
    """

    def __init__(self, agent: AcpAgent, clock: IReactorTime) -> None:
        super().__init__(
            agent.handlers,
            clock,
            agent.limits,
            request_timeout=agent.request_timeout,
            answers_noise=True,
            gates=agent.gates,
            instrument=agent.instrument,
        )
        self.agent = agent
        self.client_capabilities = v1.ClientCapabilities()
        self.client_info: v1.Implementation | None = None
        self._initialized = False
        self._sessions: dict[str, PromptSession] = {}
        self._advertised: v1.AgentCapabilities | None = None
        self.subagents = Subagents(self.limits.max_sessions)
        self._elicitations = Elicitations(self.limits.max_elicitations, self.limits.max_id_length)
        self._special: dict[str, Callable[[IncomingRequest, Deferred[None] | None], object]] = {
            "initialize": self._initialize,
            "session/new": self._new_session,
            "session/fork": self._new_session,
            "session/load": self._open_session,
            "session/resume": self._open_session,
            "session/prompt": self._prompt,
            "session/close": self._close_session,
            "session/delete": self._close_session,
            "session/archive": self._close_session,
            "session/cancel": self._cancel_request,
        }

    @property
    def session_ids(self) -> tuple[str, ...]:
        """
        The sessions of this connection.
        """
        return tuple(self._sessions)

    def send_update(self, session_id: str, update: v1.SessionUpdate) -> Deferred[None]:
        """
        Send C{session/update}, at any time.  Within a turn, use the turn's context instead: that drops what comes after
        the turn's answer.

        @param update: a C{v1} update, such as L{v1.AvailableCommandsUpdate}.
        """
        return self.notify(v1.SessionNotification(session_id=session_id, update=update))

    @property
    def unstable(self) -> UnstableCalls:
        """
        Unstable.  The calls for what the protocol has not settled yet.

        @raise ValueError: when the agent was not built with C{unstable=True}.
        """
        return UnstableCalls(self)

    def client(self, session_id: str) -> SessionClient:
        """
        The client as a session sees it, for what is asked of it outside of turns.
        """
        return SessionClient(self, session_id)

    @property
    def peer_capabilities(self) -> v1.ClientCapabilities:
        """
        The same as C{client_capabilities}.
        """
        return self.client_capabilities

    @property
    def own_capabilities(self) -> v1.AgentCapabilities:
        """
        What the agent has advertised.
        """
        return self.agent.capabilities if self._advertised is None else self._advertised

    def prepare(self, request: object, *, wait: bool = False, wait_timeout: float = 0.0) -> Call[Any]:
        """
        See L{Connection.prepare<acp_twisted.connection.Connection.prepare>}, which every call begins with.

        @raise NotInitialized: before the client's C{initialize} was answered.
        """
        self._initialized_first()
        call = super().prepare(request, wait=wait, wait_timeout=wait_timeout)
        if isinstance(request, v1.ElicitationUrlMode):
            self._elicit(call, request.elicitation_id)
        elif isinstance(request, v1.ElicitationFormMode):
            call.addCallback(filled_in, request.requested_schema)
        return call

    def _elicit(self, call: Call[Any], elicitation_id: str) -> None:
        """
        The user is about to be sent to a web page.

        @raise ValueError: when another elicitation of that id is not over (ELIC-AGENT-UNIQUE-ELICITATION-ID).
        """
        if elicitation_id in self._elicitations:
            raise ValueError("another elicitation of this id is open")
        self._elicitations.begin(elicitation_id)

        def answered(response: Any) -> Any:
            accepted = isinstance(response, v1.CreateElicitationResponse) and response.action == "accept"
            self._elicitations.answered(elicitation_id, accepted)
            return response

        call.addBoth(answered)

    def notify(self, notification: object) -> Deferred[None]:
        """
        See L{Connection.notify<acp_twisted.connection.Connection.notify>}.

        @raise NotInitialized: before the client's C{initialize} was answered.
        @raise ValueError: when an elicitation is said to be complete that is not open
            (ELIC-AGENT-COMPLETE-SAME-CLIENT).
        """
        self._initialized_first()
        if isinstance(notification, v1.CompleteElicitationNotification):
            if notification.elicitation_id not in self._elicitations:
                raise ValueError("no elicitation of this id is open on this connection")
            sent = super().notify(notification)
            self._elicitations.complete(notification.elicitation_id)
            return sent
        return super().notify(notification)

    def _initialized_first(self) -> None:
        if not self._initialized:
            raise NotInitialized("the client has not initialized the connection yet")

    # ---- what the peer asks of its router

    def apply_now(self, notification: Notification) -> bool:
        """
        C{session/cancel} takes effect before any later message is looked at (V1C11, design rule 3).
        """
        if notification.method != "session/cancel":
            return False
        try:
            notice = decode(notification.params, v1.CancelNotification)
        except InvalidParams as error:
            _log.warn("session/cancel is malformed: {errors}", errors=error.data)
        else:
            self._cancel(notice)
        return True

    def handle_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        See L{IRouter<acp_twisted.jsonrpc.router.IRouter>}.
        """
        name = request.method
        special = self._special.get(name)
        if special is None and name not in self._handlers:
            raise MethodNotFound(data={"method": name})
        if not (self._initialized or name == "initialize" or name.startswith("_")):
            raise InvalidRequest("initialize comes first", {"method": name})
        if special is not None:
            return special(request, gate)
        method = V1.get(name, "request")
        if method is not None and method.session_keyed and name not in _ANY_SESSION:
            self._known_session(request.params)
        return super().handle_request(request, gate)

    def connection_lost(self, reason: AcpConnectionError) -> None:
        """
        See L{IRouter<acp_twisted.jsonrpc.router.IRouter>}.
        """
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.connection_lost()

    # ---- sessions

    def _known_session(self, params: object) -> PromptSession:
        """
        The session that params name.

        @raise ResourceNotFound: when this connection has no such session.
        @raise InvalidParams: when they name none at all.
        """
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        if not isinstance(session_id, str):
            raise InvalidParams(data=[{"path": "$.sessionId", "reason": "a string is required"}])
        session = self._sessions.get(session_id)
        if session is None:
            raise ResourceNotFound("Session not found", {"sessionId": session_id})
        return session

    def _add_session(self, session_id: str) -> None:
        if session_id not in self._sessions:
            self._sessions[session_id] = PromptSession(
                session_id, self.clock, self.agent.prompt_timeouts, self._tell_cancelled
            )

    def _room_for_session(self, session_id: str | None = None) -> None:
        if session_id is not None and len(session_id) > self.limits.max_id_length:
            raise InvalidParams("Session id too long", {"maxIdLength": self.limits.max_id_length})
        if session_id not in self._sessions and len(self._sessions) >= self.limits.max_sessions:
            raise InternalError("Too many sessions", {"maxSessions": self.limits.max_sessions})

    def _initialize(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        params = decode(request.params, v1.InitializeRequest)
        self.client_capabilities = params.client_capabilities
        self._peer_json = request.params.get("clientCapabilities") if isinstance(request.params, dict) else None
        self.client_info = params.client_info
        handler = self._handlers.get("initialize") or self._describe
        return then(outcome(handler(params, self)), self._initialize_answered)

    def _initialize_answered(self, response: Any) -> object:
        encoded: Any = self._encode(response, V1.require("initialize"))
        if self.agent.extra_capabilities:
            encoded["agentCapabilities"] = {**encoded.get("agentCapabilities", {}), **self.agent.extra_capabilities}
        self._advertised = response.agent_capabilities
        self._initialized = True
        return encoded

    def _describe(self, request: v1.InitializeRequest, _: object) -> v1.InitializeResponse:
        return self.derived_answer(request)

    def derived_answer(self, request: v1.InitializeRequest) -> v1.InitializeResponse:
        """
        The answer to C{initialize} that follows from how the agent was built: its only version (1.14), what it can do,
        and the ways to authenticate that this client can go (1.33).
        """
        terminal = request.client_capabilities.auth.terminal
        return v1.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=self.agent.capabilities,
            auth_methods=[
                each for each in self.agent.auth_methods if terminal or not isinstance(each, v1.AuthMethodTerminal)
            ],
            agent_info=self.agent.info,
        )

    def _new_session(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        C{session/new} and C{session/fork}, whose answers name a session that is this connection's from then on.
        """
        method = V1.require(request.method)
        handler = self._handlers.get(request.method) or (_random_session if request.method == "session/new" else None)
        if handler is None:
            raise MethodNotFound(data={"method": request.method})
        params = self._read(request.params, method)
        self._room_for_session()

        def answer(response: Any) -> object:
            encoded = self._encode(response, method)
            if not request.answered:  # else the client gave it up, and will never know of the session
                self._add_session(response.session_id)
            return encoded

        return after(gate, lambda: then(outcome(handler(params, self)), answer))

    def _open_session(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        C{session/load} and C{session/resume}: from its answer on, the session is this connection's.  One that it has
        already keeps its turn (B21).
        """
        handler = self._handlers.get(request.method)
        if handler is None:
            raise MethodNotFound(data={"method": request.method})
        method = V1.require(request.method)
        params = self._read(request.params, method)
        self._room_for_session(params.session_id)

        def answer(response: object) -> object:
            encoded = self._encode(response, method)
            if not request.answered:
                self._add_session(params.session_id)
            return encoded

        return after(gate, lambda: then(outcome(handler(params, self)), answer))

    def _close_session(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        C{session/close}, C{session/delete} and C{session/archive}: the turn is cancelled now, and the handler is called
        when it is answered (V1C10).  Only closing is for the sessions of this connection alone.
        """
        handler = self._handlers.get(request.method)
        if handler is None:
            raise MethodNotFound(data={"method": request.method})
        method = V1.require(request.method)
        params = self._read(request.params, method)
        if request.method == "session/close":
            self._known_session(request.params)
        session = self._sessions.get(params.session_id)
        answer = partial(self._encode, method=method)
        own = copy_context()  # the end of a turn is told from within that turn, whose token is not this request's

        def call() -> object:
            return outcome(handler(params, self))

        def close() -> object:
            # A session/load that came before this may have opened it again.
            again = self._sessions.get(params.session_id)
            return then(self._end_session(again), lambda _: then(own.run(call), answer))

        return self._end_session(session).addCallback(lambda _: after(gate, close))

    def _end_session(self, session: PromptSession | None) -> Deferred[None]:
        """
        Cancel the session's turn, and forget the session once that is answered: whatever becomes of the request that
        asked for it, it takes no more prompts.

        @return: fires when it is forgotten.  Cancelling this only stops the waiting.
        """
        if session is None:
            return succeed(None)
        ended: Deferred[None] = Deferred()

        def gone(_: object) -> None:
            if self._sessions.get(session.session_id) is session:
                del self._sessions[session.session_id]
            if not ended.called:
                ended.callback(None)

        session.close(v1.CancelNotification(session_id=session.session_id)).addCallback(gone)
        return ended

    # ---- turns

    def _cancel(self, notice: v1.CancelNotification) -> None:
        session = self._sessions.get(notice.session_id)
        if session is not None:
            session.cancel("session/cancel", notice)
        elif notice.session_id in self.subagents:
            self._tell_cancelled("session/cancel", notice)

    def _cancel_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        C{session/cancel} as a request, which it should not be: what it asks for is done all the same (B19).
        """
        self._cancel(decode(request.params, v1.CancelNotification))
        return None

    def _tell_cancelled(self, trigger: str, notice: Any) -> None:
        """
        The session's turn is cancelled; whoever wants to know is told.
        """
        handler = self._handlers.get("session/cancel")
        if handler is not None:
            result = outcome(handler(notice, self))
            if isinstance(result, Deferred):
                result.addErrback(lambda failure: _log.failure("the cancel handler failed", failure))

    def _prompt(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        A prompt: its turn begins now, before any later message is looked at (B01), also if its handler has to wait.
        """
        session = self._known_session(request.params)
        if not session.busy:  # a malformed prompt for a busy session is refused as the busy one
            prompt = self._read(request.params, _PROMPT)

        def stop(trigger: str) -> None:
            turn = session.turn
            if turn is None or turn.token is not request.token:
                return
            if trigger == "shutdown":
                session.shutdown()
            elif trigger == "connectionLost":
                session.connection_lost()
            else:
                session.cancel_request(turn)

        request.stop = stop
        session.begin(
            lambda response: request.respond(self._encode(as_response(response), _PROMPT)),
            request.fail,
            lambda turn: self._run(prompt, turn, gate),
            _cancelled,
            request.token,
        )
        return TAKEN

    def _run(self, prompt: v1.PromptRequest, turn: Turn, gate: Deferred[None] | None) -> Any:
        """
        Call the handler, when its lane lets it.  A turn that is cancelled before that never gets that far.
        """
        return after_unless_cancelled(gate, turn.token, lambda: self._call_prompt(prompt, turn))

    def _call_prompt(self, prompt: v1.PromptRequest, turn: Turn) -> Any:
        context = PromptContext(self, prompt, turn)
        if self.agent.cascades:
            turn.token.on_cancel(context.cancel_outstanding)
        before = in_force.set(turn.token)  # a held start runs in the context of whatever ended the turn before
        try:
            if self.agent.prompt_blocks:
                return run_blocking(self.agent.prompt, prompt, context)
            return outcome(self.agent.prompt(prompt, context))
        finally:
            in_force.reset(before)


_PROMPT = V1.require("session/prompt")
_ANY_SESSION = {"session/unarchive", "session/status", "session/set_title"}
"""What is about sessions that need not be open on this connection."""


def as_response(result: object) -> object:
    """
    A prompt's answer of what its handler returned, where that is a L{TurnResult} or nothing but a stop reason.
    """
    if isinstance(result, TurnResult):
        return v1.PromptResponse(stop_reason=result.stop_reason, usage=result.usage, meta=result.meta)
    return v1.PromptResponse(stop_reason=cast(str, result)) if is_stop_reason(result) else result


def _cancelled(result: object) -> v1.PromptResponse:
    """
    The answer to a cancelled prompt: the handler's own response, with another stop reason.
    """
    response = as_response(result)
    if isinstance(response, v1.PromptResponse):
        return evolve(response, stop_reason="cancelled")
    return v1.PromptResponse(stop_reason="cancelled")


def _random_session(_: object, __: object) -> v1.NewSessionResponse:
    return v1.NewSessionResponse(session_id=str(uuid4()))
