"""
One connection of an agent that speaks version 2: its sessions, their work, and what the agent can ask of the client.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from acp_twisted.agent.unstable import Subagents
from acp_twisted.agent.v2.asking import AskingConnection
from acp_twisted.agent.v2.client_calls import SessionClient
from acp_twisted.agent.v2.context import PromptContext
from acp_twisted.agent.v2.prompt import Prompt
from acp_twisted.agent.v2.rules import refuse_unknown
from acp_twisted.agent.v2.session import AgentSession
from acp_twisted.agent.v2.unstable import UnstableCalls
from acp_twisted.connection import decode
from acp_twisted.errors import (
    AcpConnectionError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ResourceNotFound,
)
from acp_twisted.gates import advertises
from acp_twisted.handlers import Bound, after, outcome, then
from acp_twisted.jsonrpc.cancellation import in_force
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.jsonrpc.router import TAKEN
from acp_twisted.negotiation import check_id
from acp_twisted.schema import v2
from acp_twisted.schema.alike import as_second
from acp_twisted.schema.methods import Method
from acp_twisted.schema.vocabulary import vocabulary
from acp_twisted.turn.foreground import Work

if TYPE_CHECKING:
    from acp_twisted.agent.v2.agent import VersionedAgent

_log = Logger()

PROTOCOL_VERSION = 2


class AgentConnection(AskingConnection):
    """
    The agent's side of one connection of version 2.

    @cvar protocol_version: the version that is spoken.
    @ivar agent: the agent that serves it.
    @ivar client_capabilities: what the client can do; nothing before C{initialize}.
    @ivar client_info: what the client says of itself.
    @ivar subagents: unstable; the sessions of subagents that the client was told of.
    """

    protocol_version = PROTOCOL_VERSION

    def __init__(self, agent: VersionedAgent, clock: IReactorTime) -> None:
        second = agent.second
        super().__init__(
            second.handlers,
            clock,
            agent.limits,
            request_timeout=agent.request_timeout,
            answers_noise=True,
            vocabulary=vocabulary(2),
            gates=second.gates,
            instrument=agent.instrument,
        )
        self.agent = agent
        self.client_capabilities = v2.ClientCapabilities()
        self.client_info: v2.Implementation | None = None
        self._initializing = False
        self._used = False
        self.subagents = Subagents(self.limits.max_sessions)
        self._special: dict[str, Callable[[IncomingRequest, Deferred[None] | None], object]] = {
            "initialize": self._initialize,
            "session/new": self._new_session,
            "session/fork": self._new_session,
            "session/resume": self._resume_session,
            "session/list": self._list_sessions,
            "session/prompt": self._prompt,
            "session/close": self._close_session,
            "session/delete": self._close_session,
            "session/archive": self._close_session,
            "session/cancel": self._cancel_request,
            "tool_call/cancel": partial(self._stop_one, "tool_call"),
            "terminal/cancel": partial(self._stop_one, "terminal"),
        }

    @property
    def session_ids(self) -> tuple[str, ...]:
        """
        The sessions of this connection.
        """
        return tuple(self._sessions)

    def session(self, session_id: str) -> AgentSession | None:
        """
        A session of this connection; L{None} if it has none of that id.
        """
        return self._sessions.get(session_id)

    def client(self, session_id: str) -> SessionClient:
        """
        The client as a session sees it, for what is asked of it outside of prompts.
        """
        return SessionClient(self, session_id)

    def send_update(self, session_id: str, update: v2.SessionUpdate) -> Deferred[None]:
        """
        Send C{session/update}, at any time: while a session is replayed, say.  Within a prompt's handler, use its
        context instead.

        @param update: a C{v2} update, such as L{v2.AgentMessage}.
        """
        session = self._sessions.get(session_id)
        if session is not None:
            return session.send_update(update)
        return self.notify(v2.UpdateSessionNotification(session_id=session_id, update=update))

    @property
    def unstable(self) -> UnstableCalls:
        """
        Unstable.  The calls for what the protocol has not settled yet.

        @raise ValueError: when the agent was not built with C{unstable=True}.
        """
        return UnstableCalls(self)

    def start_work(self, session_id: str, handler: Callable[[PromptContext], Any]) -> Work:
        """
        Begin foreground work that no prompt asked for, once nothing else is in the session's foreground.  It is
        reported and cancelled as a prompt's work is.

        @param handler: a function of the context; it returns what a prompt handler returns.
        @raise ResourceNotFound: when this connection has no such session.
        """
        session = self._require(session_id)
        return session.begin(_nothing, _nothing, lambda work: self._run_own(session, handler, work))

    @property
    def peer_capabilities(self) -> v2.ClientCapabilities:
        """
        The same as C{client_capabilities}.
        """
        return self.client_capabilities

    @property
    def own_capabilities(self) -> v2.AgentCapabilities:
        """
        What the agent has advertised.
        """
        return self.agent.second.capabilities

    # ---- what the peer asks of its router

    def apply_now(self, notification: Notification) -> bool:
        """
        C{session/cancel} takes effect before any later message is looked at (design rule 3).
        """
        if notification.method != "session/cancel":
            return False
        try:
            notice = decode(notification.params, v2.CancelSessionNotification)
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
        check_id(request.id, self.agent.august_draft)
        if name == "initialize":
            return self._initialize(request, gate)
        if not self._initialized:
            raise InvalidRequest("initialize comes first", {"method": name})
        self._used = True
        special = self._special.get(name)
        method = self.vocabulary.get(name, "request")
        offered = method is None or method.capability is None or self._offers(method.capability)
        if not offered or (special is None and name not in self._handlers):
            raise MethodNotFound(data={"method": name})
        if special is not None:
            return special(request, gate)
        if method is not None and method.session_keyed and name not in _ANY_SESSION:
            self._known_session(request.params)
        return super().handle_request(request, gate)

    def _offers(self, capability: str) -> bool:
        """
        Whether the agent answers what needs a capability (2.95).
        """
        gates = self._gates
        return gates is None or not gates.capabilities or advertises(self.own_capabilities, capability)

    def connection_lost(self, reason: AcpConnectionError) -> None:
        """
        See L{IRouter<acp_twisted.jsonrpc.router.IRouter>}.
        """
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.connection_lost()

    # ---- params and results

    def _read(self, params: object, method: Method) -> Any:
        request = super()._read(params, method)
        refuse_unknown(request)
        return request

    def encode(self, result: object, name: str) -> object:
        """
        A response as JSON, by the name of its method.
        """
        return self._encode(result, self.vocabulary.require(name))

    def _encode(self, result: object, method: Method) -> object:
        """
        See L{Connection}.  A handler that serves both versions may answer with an object of version 1 that looks alike.
        """
        return super()._encode(as_second(result), method)

    # ---- initialize

    def _initialize(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        C{initialize}.  It may come again, after the one before has its answer and before anything else (2.07).
        """
        if self._initializing or self._used:
            raise InvalidRequest("the connection is initialized already")
        params = decode(request.params, v2.InitializeRequest)
        if self._initialized and params.protocol_version != PROTOCOL_VERSION:
            raise InvalidRequest("the connection speaks version 2 already")
        self.client_capabilities = params.capabilities
        self.client_info = params.info
        handler = self._handlers.get("initialize") or self._describe
        self._initializing = True
        try:
            result = outcome(handler(params, self))
        except BaseException:
            self._initializing = False
            raise
        if isinstance(result, Deferred):
            return result.addCallbacks(self._initialize_answered, self._initialize_failed)
        return self._initialize_answered(result)

    def _initialize_failed(self, failure: Any) -> Any:
        self._initializing = False
        return failure

    def _initialize_answered(self, response: object) -> object:
        self._initializing = False
        encoded = self._encode(response, self.vocabulary.require("initialize"))
        self._initialized = True
        return encoded

    def _describe(self, request: v2.InitializeRequest, _: object) -> v2.InitializeResponse:
        return self.derived_answer(request)

    def derived_answer(self, request: v2.InitializeRequest) -> v2.InitializeResponse:
        """
        The answer to C{initialize} that follows from how the agent was built.
        """
        second = self.agent.second
        return v2.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            info=second.info,
            capabilities=second.capabilities,
            auth_methods=list(second.auth_methods),
        )

    # ---- sessions

    def _require(self, session_id: str) -> AgentSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise ResourceNotFound("Session not found", {"sessionId": session_id})
        return session

    def _known_session(self, params: object) -> AgentSession:
        """
        The session that params name.

        @raise ResourceNotFound: when this connection has no such session (2.96).
        @raise InvalidParams: when they name none at all.
        """
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        if not isinstance(session_id, str):
            raise InvalidParams(data=[{"path": "$.sessionId", "reason": "a string is required"}])
        return self._require(session_id)

    def _room_for_session(self, session_id: str | None = None) -> None:
        if session_id is not None and len(session_id) > self.limits.max_id_length:
            raise InvalidParams("Session id too long", {"maxIdLength": self.limits.max_id_length})
        if session_id not in self._sessions and len(self._sessions) >= self.limits.max_sessions:
            raise InternalError("Too many sessions", {"maxSessions": self.limits.max_sessions})

    def _new_session(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        C{session/new} and C{session/fork}, whose answers name a session that is this connection's from then on.
        """
        method = self.vocabulary.require(request.method)
        handler = self._handlers.get(request.method) or (_random_session if request.method == "session/new" else None)
        if handler is None:
            raise MethodNotFound(data={"method": request.method})
        params = self._read(request.params, method)
        self._room_for_session()

        def answer(response: Any) -> object:
            encoded = self._encode(response, method)
            if not request.answered:  # else the client gave it up, and will never know of the session
                session = AgentSession(self, response.session_id, params.cwd)
                self._sessions.setdefault(response.session_id, session).opened = True
            return encoded

        return after(gate, lambda: then(outcome(handler(params, self)), answer))

    def _resume_session(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        C{session/resume}: the history first, if it is wanted, then the state as it is now, then the answer (2.20,
        2.24).  A session that this connection has already keeps its work.
        """
        method = self.vocabulary.require(request.method)
        params = self._read(request.params, method)
        handler = self._resuming(params)
        self._room_for_session(params.session_id)

        def resume() -> object:
            known = self._sessions.get(params.session_id)
            if known is None and handler is None:
                raise ResourceNotFound("Session not found", {"sessionId": params.session_id})
            session = known or AgentSession(self, params.session_id, params.cwd)
            self._sessions[params.session_id] = session
            session.opening += 1

            def answer(response: object) -> object:
                try:
                    encoded = self._encode(response, method)
                except BaseException:
                    forget(None)
                    raise
                if request.answered:
                    forget(None)
                else:
                    session.opening -= 1
                    session.opened = True
                    session.say(session.current_state())
                return encoded

            def forget(failure: Any) -> Any:
                session.opening -= 1  # the last that fails leaves none, unless another has opened it
                if not (session.opened or session.opening) and self._sessions.get(params.session_id) is session:
                    del self._sessions[params.session_id]
                    session.discard()
                return failure

            try:
                result = None if handler is None else outcome(handler(params, self))
            except BaseException:
                forget(None)
                raise
            return result.addCallbacks(answer, forget) if isinstance(result, Deferred) else answer(result)

        return after(gate, resume)

    def _resuming(self, params: v2.ResumeSessionRequest) -> Bound | None:
        """
        Who resumes the session; without anybody, only one that is open here can go on.  With a replay that is the
        handler of version 1's C{session/load}, if there is one; that of C{session/resume} only if it was made for
        version 2, since in version 1 it must not replay.
        """
        agent = self.agent.second
        resume = self._handlers.get("session/resume")
        if params.replay_from is None:
            return resume
        if agent.load is not None and not agent.resume_replays:
            return agent.load
        if resume is None or not agent.resume_replays:
            raise InvalidParams(data=[{"path": "$.replayFrom", "reason": "is not supported"}])
        return resume

    def _list_sessions(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        if "session/list" in self._handlers:
            return super().handle_request(request, gate)
        method = self.vocabulary.require(request.method)
        params = self._read(request.params, method)
        found = [
            v2.SessionInfo(session_id=each.session_id, cwd=each.cwd)
            for each in self._sessions.values()
            if each.cwd is not None and params.cwd in (None, each.cwd) and params.archived != "only"
        ]
        return after(gate, lambda: self._encode(v2.ListSessionsResponse(sessions=found), method))

    def _close_session(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        C{session/close}, C{session/delete} and C{session/archive}: the work is cancelled now, its end is reported, then
        the handler is called, and nothing is sent for the session after the answer (V2N10).  To close a session that
        is not here succeeds.
        """
        handler = self._handlers.get(request.method) or (_nothing_to_do if request.method == "session/close" else None)
        if handler is None:
            raise MethodNotFound(data={"method": request.method})
        method = self.vocabulary.require(request.method)
        params = self._read(request.params, method)
        session = self._sessions.get(params.session_id)
        if session is None and request.method == "session/close":
            return self._encode(None, method)
        own = copy_context()  # the end of work is told from within that work, whose token is not this request's

        def call() -> object:
            return outcome(handler(params, self))

        def answer(result: object) -> object:
            if session is not None:
                session.over = True
            return self._encode(result, method)

        def close(_: object) -> object:
            return after(gate, lambda: then(own.run(call), answer))

        return self._end_session(session).addCallback(close)

    def _end_session(self, session: AgentSession | None) -> Deferred[None]:
        """
        Cancel the session's work, and forget the session once that is reported.

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

        session.close(v2.CancelSessionNotification(session_id=session.session_id)).addCallback(gone)
        return ended

    def _stop_one(self, kind: str, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        C{tool_call/cancel} and C{terminal/cancel}: accepted if the client was told that it may (V2N11).  The state of
        the foreground stays as it is.
        """
        session = self._known_session(request.params)
        method = self.vocabulary.require(request.method)
        params = self._read(request.params, method)
        name = params.tool_call_id if kind == "tool_call" else params.terminal_id

        def stop() -> object:
            handler = self._handlers.get(request.method)
            stopper = session.stopper(kind, name)
            if not session.may_stop(kind, name) or (stopper is None and handler is None):
                raise InvalidParams(f"This {kind.replace('_', ' ')} can't be cancelled", {f"{kind}Id": name})
            result = stopper() if stopper is not None else outcome(handler(params, self))  # type: ignore[misc]
            return then(result, lambda _: self._encode(None, method))

        return after(gate, stop)

    # ---- work

    def _cancel(self, notice: v2.CancelSessionNotification) -> None:
        session = self._sessions.get(notice.session_id)
        if session is not None:
            session.foreground.cancel("session/cancel", notice)
        elif notice.session_id in self.subagents:
            self.tell_cancelled("session/cancel", notice)

    def _cancel_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        C{session/cancel} as a request, which it should not be: what it asks for is done all the same (B19).
        """
        self._cancel(decode(request.params, v2.CancelSessionNotification))
        return None

    def tell_cancelled(self, trigger: str, notice: Any) -> None:
        """
        A session's work is cancelled; whoever wants to know is told.
        """
        handler = self._handlers.get("session/cancel")
        if handler is not None:
            result = outcome(handler(notice, self))
            if isinstance(result, Deferred):
                result.addErrback(lambda failure: _log.failure("the cancel handler failed", failure))

    def _prompt(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        A prompt: its place in the conversation is taken now, before any later message is looked at, also if its handler
        has to wait.
        """
        session = self._known_session(request.params)
        method = self.vocabulary.require(request.method)
        prompt: v2.PromptRequest = self._read(request.params, method)
        incoming = Prompt(self, session, prompt, request, gate)

        def stop(trigger: str) -> None:
            foreground = session.foreground
            if trigger == "shutdown":
                foreground.shutdown()
            elif trigger == "connectionLost":
                foreground.connection_lost()
            else:
                for work in (foreground.work, *foreground.held):
                    if work is not None and work.token is request.token:
                        foreground.cancel_request(work)

        request.stop = stop
        admit = None if self.agent.second.accept is None else incoming.admit
        session.begin(incoming.insert, incoming.refuse, incoming.start, admit, request.token, prompt)
        return TAKEN

    def _run_own(self, session: AgentSession, handler: Callable[[PromptContext], Any], work: Work) -> Any:
        context = self.context(session, None, work, None)
        before = in_force.set(work.token)
        try:
            return outcome(handler(context))
        finally:
            in_force.reset(before)

    def context(
        self, session: AgentSession, prompt: v2.PromptRequest | None, work: Work, message_id: str | None
    ) -> PromptContext:
        """
        What a handler has in hand.
        """
        context = PromptContext(self, session, prompt, work, message_id)
        if self.agent.cascades:
            work.token.on_cancel(context.cancel_outstanding)
        return context


_ANY_SESSION = frozenset({"session/status", "session/set_title", "session/unarchive"})
"""Methods for sessions that need not be open here."""


def _random_session(_: object, __: object) -> v2.NewSessionResponse:
    return v2.NewSessionResponse(session_id=str(uuid4()))


def _nothing_to_do(_: object, __: object) -> None:
    return None


def _nothing(_: object) -> None:
    return None
