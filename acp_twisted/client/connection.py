"""
One connection of a client: what it asks of the agent, and what it owes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.client.kept import Kept
from acp_twisted.client.session import ClientSession
from acp_twisted.client.starting import not_started
from acp_twisted.client.unstable import UnstableCalls
from acp_twisted.connection import Connection, decode
from acp_twisted.elicitations import Elicitations, answered_form
from acp_twisted.errors import (
    AcpConnectionError,
    AcpVersionError,
    InvalidParams,
    NotInitialized,
    UnsupportedVersion,
)
from acp_twisted.handlers import outcome
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.schema import v1
from acp_twisted.schema.converter import unstructure
from acp_twisted.schema.methods import Method
from acp_twisted.schema.vocabulary import V1

if TYPE_CHECKING:
    from acp_twisted.client.client import AcpClient

_log = Logger()

PROTOCOL_VERSION = 1


class ClientConnection(Connection):
    """
    The client's side of one connection.

    @cvar protocol_version: the version that is spoken.
    @ivar client: the client that it belongs to.
    @ivar agent_capabilities: what the agent can do; nothing before L{initialize}.
    @ivar agent_info: what the agent says of itself, if it did.
    @ivar auth_methods: the ways to authenticate that it offers.
    """

    protocol_version = PROTOCOL_VERSION

    def __init__(self, client: AcpClient, clock: IReactorTime) -> None:
        super().__init__(
            client.handlers,
            clock,
            client.limits,
            request_timeout=client.request_timeout,
            answers_noise=False,
            gates=client.gates,
            instrument=client.instrument,
        )
        self.client = client
        self.agent_capabilities = v1.AgentCapabilities()
        self.agent_info: v1.Implementation | None = None
        self.auth_methods: Sequence[Any] = ()
        self._initialized = False
        self._sessions: dict[str, ClientSession] = {}
        self._cancelling: set[str] = set()
        self._permissions: dict[str, dict[IncomingRequest, None]] = {}  # in the order of their arrival
        self._elicitations = Elicitations(self.limits.max_elicitations, self.limits.max_id_length)
        self._knows_subagents = client.capabilities.subagents is not None
        self._opening, self._lost = 0, False
        self._early: Kept[tuple[v1.SessionNotification, int]] = Kept(
            "updates of sessions that are being opened", self.limits.max_early_updates, self.limits.max_queued_bytes
        )

    # ---- the beginning

    def initialize(self, *, meta: dict[str, Any] | None = None, timeout: float | None = None) -> Call[Any]:
        """
        Agree on the protocol's version and say what this client can do.

        @return: a L{v1.InitializeResponse}.  It fails with L{AcpVersionError}, and the connection is closed, when the
            agent wants another version; with L{AgentStartError} when the agent's program ends instead of answering.
        """
        call = super().prepare(v1.InitializeRequest(protocol_version=PROTOCOL_VERSION))
        call.addCallbacks(self.agreed, not_started)
        call.addErrback(self._no_common_version)
        call.nobody_listens()
        return self.peer.publish(call, self.introduction(meta), timeout=timeout)

    def introduction(self, meta: dict[str, Any] | None = None) -> Any:
        """
        The params of C{initialize}, as JSON.
        """
        request = v1.InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=self.client.capabilities,
            client_info=self.client.info,
            meta=meta,
        )
        params: Any = unstructure(request)
        if self.client.extra_capabilities:
            params["clientCapabilities"] = {**params["clientCapabilities"], **self.client.extra_capabilities}
        return params

    def _no_common_version(self, failure: Failure) -> Failure:
        """
        An agent of later versions alone says so with an error (2.07): there is nothing to be said to it any more.
        """
        if not failure.check(UnsupportedVersion):
            return failure
        self.close()
        data = getattr(failure.value, "data", None)
        return Failure(AcpVersionError(data.get("supported") if isinstance(data, dict) else None))

    def _result(self, result: object, method: Method) -> object:
        if method.name == "initialize" and isinstance(result, dict):
            self._peer_json = result.get("agentCapabilities")
        return super()._result(result, method)

    def agreed(self, response: v1.InitializeResponse) -> v1.InitializeResponse:
        """
        C{initialize} was answered.

        @raise AcpVersionError: when it is not with version 1; the connection is closed.
        """
        if response.protocol_version != PROTOCOL_VERSION:
            self.close()
            raise AcpVersionError(response.protocol_version)
        self._initialized = True
        self.agent_capabilities = response.agent_capabilities
        self.agent_info = response.agent_info
        self.auth_methods = tuple(response.auth_methods)
        return response

    def prepare(self, request: object, *, wait: bool = False, wait_timeout: float = 0.0) -> Call[Any]:
        """
        See L{Connection.prepare<acp_twisted.connection.Connection.prepare>}, which every call begins with.

        @raise NotInitialized: before L{initialize} was answered.
        @raise ValueError: also when a session has no such mode, option or value.
        """
        if not self._initialized:
            raise NotInitialized()
        if isinstance(request, v1.SetSessionModeRequest | v1.SetSessionConfigOptionRequest):
            session = self._sessions.get(request.session_id)
            if session is not None and self._gates is not None and self._gates.capabilities:
                session.offers.check(request)
        return super().prepare(request, wait=wait, wait_timeout=wait_timeout)

    def notify(self, notification: object) -> Deferred[None]:
        """
        See L{Connection.notify<acp_twisted.connection.Connection.notify>}.

        @raise NotInitialized: before L{initialize} was answered.
        """
        if not self._initialized:
            raise NotInitialized()
        return super().notify(notification)

    @property
    def peer_capabilities(self) -> v1.AgentCapabilities:
        """
        The same as C{agent_capabilities}.
        """
        return self.agent_capabilities

    @property
    def own_capabilities(self) -> v1.ClientCapabilities:
        """
        What the client has advertised.
        """
        return self.client.capabilities

    @property
    def unstable(self) -> UnstableCalls:
        """
        Unstable.  The calls for what the protocol has not settled yet.

        @raise ValueError: when the client was not built with C{unstable=True}.
        """
        return UnstableCalls(self)

    # ---- what the client asks

    def authenticate(self, method_id: str) -> Call[v1.AuthenticateResponse]:
        """
        Send C{authenticate}.

        @param method_id: one of those that the agent advertised, and not a terminal one (1.32).
        @raise ValueError: for a terminal one.
        """
        if any(isinstance(each, v1.AuthMethodTerminal) and each.id == method_id for each in self.auth_methods):
            raise ValueError(f"{method_id!r} is a terminal method: run the agent's program for it instead")
        return self.call(v1.AuthenticateRequest(method_id=method_id))

    def logout(self) -> Call[v1.LogoutResponse]:
        """
        Send C{logout}.
        """
        return self.call(v1.LogoutRequest())

    def new_session(
        self,
        cwd: str,
        mcp_servers: Sequence[Any] = (),
        additional_directories: Sequence[str] = (),
        *,
        meta: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Call[ClientSession]:
        """
        Send C{session/new}.

        @param cwd: absolute.
        @return: the session.
        """
        request = v1.NewSessionRequest(
            cwd=cwd,
            mcp_servers=list(mcp_servers),
            additional_directories=list(additional_directories),
            meta=meta,
        )
        return self.open_session(request, timeout=timeout)

    def open_session(self, request: Any, *, timeout: float | None = None) -> Call[ClientSession]:
        """
        Send C{session/new}, C{session/load} or C{session/resume} as it is; L{new_session} and its kind are what most
        code wants.

        @return: the session.
        """
        if isinstance(request, v1.LoadSessionRequest | v1.ResumeSessionRequest):
            return self._reopen(request.session_id, request, timeout)
        call = self.prepare(request)
        self._opening += 1
        call.addBoth(self._opened, request)
        return self.publish(call, request, timeout=timeout)

    def _opened(self, result: Any, asked: object) -> Any:
        """
        C{session/new}, or C{session/fork}, is answered.  Updates that came before that were kept (B29, B30).
        """
        self._opening -= 1
        if not isinstance(result, Failure):
            session = self.require_session(result.session_id)
            session.answered(result, asked)
            for notification, size in self._early.take():
                if notification.session_id == session.session_id:
                    session.deliver(notification.update, size)
                else:
                    self._early.add((notification, size), size)
            result = session
        if not self._opening:
            for notification, _ in self._early.take():
                _log.warn("an update for a session that was never opened was dropped", id=notification.session_id)
        return result

    def load_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[Any] = (),
        additional_directories: Sequence[str] = (),
        *,
        timeout: float | None = None,
    ) -> Call[ClientSession]:
        """
        Send C{session/load}.

        @return: the session; what the agent replayed is in its C{take_updates()}, and went to its listeners.
        """
        request = v1.LoadSessionRequest(
            session_id=session_id,
            cwd=cwd,
            mcp_servers=list(mcp_servers),
            additional_directories=list(additional_directories),
        )
        return self.open_session(request, timeout=timeout)

    def resume_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[Any] = (),
        additional_directories: Sequence[str] = (),
        *,
        timeout: float | None = None,
    ) -> Call[ClientSession]:
        """
        Send C{session/resume}: as L{load_session}, without a replay.
        """
        request = v1.ResumeSessionRequest(
            session_id=session_id,
            cwd=cwd,
            mcp_servers=list(mcp_servers),
            additional_directories=list(additional_directories),
        )
        return self.open_session(request, timeout=timeout)

    def _reopen(self, session_id: str, request: object, timeout: float | None) -> Call[ClientSession]:
        call = self.prepare(request)
        known = session_id in self._sessions
        session = self.require_session(session_id)
        over = session.reopening(known, isinstance(request, v1.LoadSessionRequest))

        def opened(response: Any) -> ClientSession:
            over(True)
            session.answered(response, request)
            return session

        def refused(failure: Failure) -> Failure:
            if over(False):
                self._sessions.pop(session_id, None)
                session.end()
            return failure

        call.addCallbacks(opened, refused)
        return self.publish(call, request, timeout=timeout)

    def require_session(self, session_id: str) -> ClientSession:
        """
        The session of that id, whoever opened it.
        """
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = ClientSession(self, session_id)
            if self.client.track_sessions:
                session.track()
            if self._lost:  # its answer has waited for a handler, and for the end of the connection
                session.end()
        return session

    def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> Call[v1.ListSessionsResponse]:
        """
        Send C{session/list}.

        @param cursor: the last answer's C{next_cursor}, untouched (1.62).
        """
        return self.call(v1.ListSessionsRequest(cwd=cwd, cursor=cursor))

    def delete_session(self, session_id: str) -> Call[v1.DeleteSessionResponse]:
        """
        Send C{session/delete}.
        """
        return self._forgetting(session_id, v1.DeleteSessionRequest(session_id=session_id))

    def close_session(self, session_id: str) -> Call[v1.CloseSessionResponse]:
        """
        Send C{session/close}: the agent cancels a running turn first (V1C10), so its open permission requests are
        answered C{cancelled} here too.
        """
        return self.end_session(session_id, v1.CloseSessionRequest(session_id=session_id))

    def end_session(self, session_id: str, request: object) -> Call[Any]:
        """
        Send a request that ends a session and its turn; L{close_session} is what most code wants.
        """
        method = self.vocabulary.for_params(type(request))
        can_end = method is not None and method.capability is not None and self.supports(method.capability)
        open_requests = self._take_turn_down(session_id) if can_end else ()
        call = self._forgetting(session_id, request)
        self._answer_cancelled(open_requests)
        return call

    def _forgetting(self, session_id: str, request: object) -> Call[Any]:
        call = self.call(request)
        session = self._sessions.get(session_id)

        def forget(response: Any) -> Any:
            if session is not None and self._sessions.get(session_id) is session:
                del self._sessions[session_id]
                session.end()
            return response

        call.addCallback(forget)
        call.nobody_listens()
        return call

    def set_config_option(
        self, session_id: str, config_id: str, value: str | bool
    ) -> Call[v1.SetSessionConfigOptionResponse]:
        """
        Send C{session/set_config_option}; the answer has all options.
        """
        return self.call(v1.SetSessionConfigOptionRequest(session_id=session_id, config_id=config_id, value=value))

    def send_prompt(self, request: v1.PromptRequest, timeout: float | None = None) -> Call[v1.PromptResponse]:
        """
        Send C{session/prompt} as it is; L{ClientSession.prompt} is what most code wants.

        @param timeout: seconds; L{None} is the client's C{prompt_timeout}.  The request timeout does not apply.
        """
        return self.call(request, timeout=self.client.prompt_timeout if timeout is None else timeout)

    def prompt(
        self, request: v1.PromptRequest, stop: CancellationSignal | None = None, *, timeout: float | None = None
    ) -> Call[v1.PromptResponse]:
        """
        Send a prompt, for who takes its updates from the C{session_update_handler}.

        @param stop: sends C{session/cancel} when it is given.
        """
        turn = self.require_session(request.session_id).prompt(request.prompt, stop, meta=request.meta, timeout=timeout)
        return turn.response

    # ---- cancelling a turn

    def cancel(self, session_id: str) -> None:
        """
        Send C{session/cancel}, and answer the session's open permission requests C{cancelled}, without waiting for
        anybody (V1C3).  The notification goes first, so that the agent does not take the answers for mere refusals
        (B16).  As long as the turn is unanswered, later permission requests of it are answered so too (B17).
        """
        # All that is this turn's is taken down first, for sending may bring its answer, and another turn.
        open_requests = self._take_turn_down(session_id)
        self.notify(v1.CancelNotification(session_id=session_id))
        self._answer_cancelled(open_requests)

    def _take_turn_down(self, session_id: str) -> Iterable[IncomingRequest]:
        """
        The session's turn is about to be cancelled.

        @return: its open permission requests, which are the caller's to answer.
        """
        session = self._sessions.get(session_id)
        turn = None if session is None else session.turn
        if session is not None and turn is not None:
            turn.cancel_sent = True
            self._cancelling.add(session_id)
            session.cancelling(turn)
        return self._permissions.pop(session_id, {})

    @staticmethod
    def _answer_cancelled(open_requests: Iterable[IncomingRequest]) -> None:
        for request in open_requests:
            request.respond(_CANCELLED)
        for request in open_requests:
            with _log.failuresHandled("a permission handler's cancellation failed"):
                request.stop("session/cancel")

    @property
    def sessions(self) -> Mapping[str, ClientSession]:
        """
        The sessions that are open on this connection, by their ids; those of its last moment when it is lost.
        """
        return self._sessions

    def session(self, session_id: str) -> ClientSession | None:
        """
        A session that is open on this connection; L{None} if it is none.
        """
        return self._sessions.get(session_id)

    def turn_ended(self, session_id: str) -> None:
        """
        The session's turn is answered.
        """
        self._cancelling.discard(session_id)

    # ---- what the peer asks of its router

    def handle_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        See L{IRouter<acp_twisted.jsonrpc.router.IRouter>}.
        """
        if request.method == "elicitation/create" and request.method not in self._handlers:
            # It says why nobody answers it, where there is a reason (ELIC-CLIENT-UNADVERTISED-MODE-INVALID-PARAMS).
            self._read(request.params, V1.require(request.method))
        if request.method == "elicitation/create":
            return self._elicited(request, gate)
        if request.method != "session/request_permission":
            return super().handle_request(request, gate)
        session_id = self.lane_of(request.method, request.params)
        if session_id in self._cancelling:
            return _CANCELLED
        if not isinstance(session_id, str):
            return super().handle_request(request, gate)
        # It is open from now on: the handler may be who cancels.
        self._permissions.setdefault(session_id, {})[request] = None
        try:
            result = super().handle_request(request, gate)
        except BaseException:
            self._permission_over(None, session_id, request)
            raise
        if not isinstance(result, Deferred):
            return self._permission_over(result, session_id, request)
        return result.addBoth(self._permission_over, session_id, request)

    def _elicited(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        The user is asked something.  Where that sends him to a web page, its id is known from now on; where it is a
        form, what he accepts must fit it.
        """
        params = request.params if isinstance(request.params, dict) else {}
        if params.get("mode") == "form":
            return answered_form(super().handle_request(request, gate), params, v1.ElicitationSchema)
        elicitation_id = params.get("elicitationId")
        if params.get("mode") != "url" or not isinstance(elicitation_id, str):
            return super().handle_request(request, gate)
        self._elicitations.begin(elicitation_id)

        def answered(result: Any) -> Any:
            accepted = isinstance(result, dict) and result.get("action") == "accept"
            self._elicitations.answered(elicitation_id, accepted)
            return result

        try:
            result = super().handle_request(request, gate)
        except BaseException:
            self._elicitations.answered(elicitation_id, False)
            raise
        return result.addBoth(answered) if isinstance(result, Deferred) else answered(result)

    def _permission_over(self, result: Any, session_id: str, request: IncomingRequest) -> Any:
        waiting = self._permissions.get(session_id)
        if waiting is not None:
            waiting.pop(request, None)
            if not waiting:
                del self._permissions[session_id]
        return result

    def handle_notification(self, notification: Notification) -> Deferred[object] | None:
        """
        See L{IRouter<acp_twisted.jsonrpc.router.IRouter>}.
        """
        if notification.method == "elicitation/complete" and not self._is_open_elicitation(notification.params):
            _log.debug("an elicitation that is not open was said to be complete")  # ELIC-CLIENT-IGNORE-UNKNOWN-COMPLETE
            return None
        if notification.method != "session/update":
            return super().handle_notification(notification)
        try:
            update = decode(notification.params, v1.SessionNotification)
        except InvalidParams as error:
            _log.warn("session/update is malformed: {errors}", errors=error.data)
            return None
        return self._updated(update, notification.size)

    def _is_open_elicitation(self, params: object) -> bool:
        elicitation_id = params.get("elicitationId") if isinstance(params, dict) else None
        return isinstance(elicitation_id, str) and self._elicitations.complete(elicitation_id)

    def _updated(self, notification: v1.SessionNotification, size: int) -> Deferred[object] | None:
        if self._knows_subagents and type(notification.update).__name__ == "SubagentUpdate":
            child: Any = notification.update
            if len(self._sessions) < self.limits.max_sessions:
                self.require_session(child.session_id)  # what it does comes on this connection too
        session = self._sessions.get(notification.session_id)
        waiting: list[Deferred[object]] = []
        if session is not None:
            waiting += session.deliver(notification.update, size)
        elif self._opening:
            self._early.add((notification, size), size)
            self._early.shrink()
        for handler in self.client.update_handlers:
            result = self.guarded(partial(handler, notification), self)
            if result is not None:
                waiting.append(result)
        if not waiting:
            return None
        return waiting[0] if len(waiting) == 1 else DeferredList(waiting)  # type: ignore[return-value]

    @staticmethod
    def guarded(listener: Callable[[Any], Any], argument: object) -> Deferred[object] | None:
        """
        Call somebody who wants to know; what he raises is logged and concerns nobody else.

        @return: what is to be waited for, if anything.
        """
        try:
            result = outcome(listener(argument))
        except BaseException:
            _log.failure("a session update handler failed")
            return None
        if not isinstance(result, Deferred):
            return None
        result.addErrback(lambda failure: _log.failure("a session update handler failed", failure))
        return None if result.called and not result.paused else result

    def connection_lost(self, reason: AcpConnectionError) -> None:
        """
        See L{IRouter<acp_twisted.jsonrpc.router.IRouter>}.
        """
        self._lost = True
        self._permissions.clear()
        self._early.take()
        for session in list(self._sessions.values()):
            session.end()


_CANCELLED = {"outcome": {"outcome": "cancelled"}}
