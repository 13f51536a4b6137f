"""
One connection of a client that speaks version 2: what it asks of the agent, and what it owes it.
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
from acp_twisted.client.v2.elicited import Elicited
from acp_twisted.client.v2.session import ClientSession
from acp_twisted.client.v2.subagents import Subagents
from acp_twisted.client.v2.unstable import UnstableCalls
from acp_twisted.connection import Connection, decode
from acp_twisted.errors import (
    AcpCapabilityError,
    AcpConnectionError,
    AcpError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    NotInitialized,
    RequestCancelled,
    ResourceNotFound,
)
from acp_twisted.handlers import Bound, outcome
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.negotiation import check_id
from acp_twisted.schema import v2
from acp_twisted.schema.alike import as_second
from acp_twisted.schema.vocabulary import vocabulary

if TYPE_CHECKING:
    from acp_twisted.client.v2.client import VersionedClient
    from acp_twisted.client.v2.prompt import Prompt

_log = Logger()


class ClientConnection(Connection):
    """
    The client's side of one connection, which speaks version 2 once C{initialize} was answered so.

    @cvar protocol_version: the version that is spoken.
    @ivar client: the client that it belongs to.
    @ivar agent_capabilities: what the agent can do.
    @ivar agent_info: what the agent says of itself.
    @ivar auth_methods: the ways to log in that it offers.
    """

    protocol_version = 2

    def __init__(self, client: VersionedClient, clock: IReactorTime) -> None:
        super().__init__(
            client.handlers,
            clock,
            client.limits,
            request_timeout=client.request_timeout,
            answers_noise=False,
            vocabulary=vocabulary(2),
            gates=client.gates,
            instrument=client.first.instrument,
        )
        self.peer.takes_batches = client.august_draft
        self.client = client
        self.agent_capabilities = v2.AgentCapabilities()
        self.agent_info: v2.Implementation | None = None
        self.auth_methods: Sequence[v2.AuthMethod] = ()
        self.initialized: v2.InitializeResponse | None = None
        self._sessions: dict[str, ClientSession] = {}
        self._permissions: dict[str, dict[IncomingRequest, v2.RequestPermissionRequest]] = {}  # in order of arrival
        self._elicited = Elicited(self.limits.max_elicitations, self.limits.max_id_length)
        self._subagents = Subagents(self.limits.max_sessions)
        self._opening = 0
        self._lost: AcpConnectionError | None = None
        self._early: Kept[tuple[v2.UpdateSessionNotification, int]] = Kept(
            "updates of sessions that are being opened", self.limits.max_early_updates, self.limits.max_queued_bytes
        )

    @property
    def peer_capabilities(self) -> v2.AgentCapabilities:
        """
        The same as C{agent_capabilities}.
        """
        return self.agent_capabilities

    @property
    def own_capabilities(self) -> v2.ClientCapabilities:
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

    # ---- the beginning

    def agreed(self, response: v2.InitializeResponse) -> None:
        """
        C{initialize} was answered, with version 2.
        """
        self.initialized = response
        self.agent_capabilities = response.capabilities
        self.agent_info = response.info
        self.auth_methods = tuple(response.auth_methods)

    def prepare(self, request: object, *, wait: bool = False, wait_timeout: float = 0.0) -> Call[Any]:
        """
        See L{Connection.prepare<acp_twisted.connection.Connection.prepare>}, which every call begins with.

        @raise NotInitialized: before C{initialize} was answered.
        @raise AcpCapabilityError: also for what would change a subagent's session.
        """
        self._check_initialized()
        if self._holds_to_capabilities:
            self._subagents.check_request(request)
        return super().prepare(request, wait=wait, wait_timeout=wait_timeout)

    def notify(self, notification: object) -> Deferred[None]:
        """
        See L{Connection.notify<acp_twisted.connection.Connection.notify>}.

        @raise NotInitialized: before C{initialize} was answered.
        """
        self._check_initialized()
        return super().notify(notification)

    def _check_initialized(self) -> None:
        if self.initialized is None:
            raise NotInitialized()

    @property
    def _holds_to_capabilities(self) -> bool:
        return self._gates is not None and self._gates.capabilities

    # ---- what the client asks

    def login(self, method_id: str) -> Call[v2.LoginAuthResponse]:
        """
        Send C{auth/login}.

        @param method_id: one of those that the agent advertised, and not a terminal one (2.13).
        @raise ValueError: for a terminal one.
        @raise AcpCapabilityError: when the agent advertised none.
        """
        self._check_auth()
        if any(isinstance(each, v2.AuthMethodTerminal) and each.method_id == method_id for each in self.auth_methods):
            raise ValueError(f"{method_id!r} is a terminal method: run the agent's program for it instead")
        return self.call(v2.LoginAuthRequest(method_id=method_id))

    def logout(self) -> Call[v2.LogoutAuthResponse]:
        """
        Send C{auth/logout}.

        @raise AcpCapabilityError: when the agent advertised no way to log in.
        """
        self._check_auth()
        return self.call(v2.LogoutAuthRequest())

    def _check_auth(self) -> None:
        if self.initialized is not None and not self.auth_methods:
            raise AcpCapabilityError("authMethods")

    def new_session(
        self,
        cwd: str,
        mcp_servers: Sequence[v2.McpServer] = (),
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
        request = v2.NewSessionRequest(
            cwd=cwd,
            mcp_servers=list(mcp_servers),
            additional_directories=list(additional_directories),
            meta=meta,
        )
        return self.open_session(request, timeout=timeout)

    def open_session(self, request: Any, *, timeout: float | None = None) -> Call[ClientSession]:
        """
        Send C{session/new} or C{session/resume} as it is; L{new_session} and L{resume_session} are what most code
        wants.

        @return: the session.
        """
        if isinstance(request, v2.ResumeSessionRequest):
            return self._reopen(request, timeout)
        call = self.prepare(request)
        self._opening += 1
        call.addBoth(self._opened, request)
        return self.publish(call, request, timeout=timeout)

    def _opened(self, result: Any, asked: object) -> Any:
        """
        C{session/new}, or C{session/fork}, is answered.  Updates that came before that were kept.
        """
        self._opening -= 1
        if not isinstance(result, Failure):
            session = self.require_session(result.session_id)
            session.answered(result, asked)
            for notification, size in self._early.take():
                if notification.session_id == session.session_id:
                    _, done = session.deliver(notification.update, size)
                    done()
                else:
                    self._early.add((notification, size), size)
            result = session
        if not self._opening:
            for notification, _ in self._early.take():
                _log.warn("an update for a session that was never opened was dropped", id=notification.session_id)
        return result

    def resume_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[v2.McpServer] = (),
        additional_directories: Sequence[str] = (),
        *,
        replay: bool = False,
        timeout: float | None = None,
    ) -> Call[ClientSession]:
        """
        Send C{session/resume}.

        @param replay: have the agent tell the whole conversation again; what it told is in the session's
            C{take_updates()}, and went to its listeners.
        @return: the session.
        """
        request = v2.ResumeSessionRequest(
            session_id=session_id,
            cwd=cwd,
            mcp_servers=list(mcp_servers),
            additional_directories=list(additional_directories),
            replay_from=v2.ReplayFromStart() if replay else None,
        )
        return self.open_session(request, timeout=timeout)

    def _reopen(self, request: v2.ResumeSessionRequest, timeout: float | None) -> Call[ClientSession]:
        call: Call[Any] = self.prepare(request)
        session_id = request.session_id
        known = session_id in self._sessions
        session = self.require_session(session_id)
        over = session.reopening(known, request.replay_from is not None)

        def opened(response: v2.ResumeSessionResponse) -> ClientSession:
            over(True)
            session.answered(response, request)
            return session

        def refused(failure: Failure) -> Failure:
            if over(False):
                self._sessions.pop(session_id, None)
                session.end(_as_error(failure))
            return failure

        call.addCallbacks(opened, refused)
        return self.publish(call, request, timeout=timeout)

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

    def require_session(self, session_id: str) -> ClientSession:
        """
        The session of that id, whoever opened it.
        """
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = ClientSession(self, session_id)
            if self.client.track_sessions:
                session.track()
            if self._lost is not None:  # its answer has waited for the updates before it
                session.end(self._lost, lost=True)
        return session

    def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> Call[v2.ListSessionsResponse]:
        """
        Send C{session/list}.

        @param cursor: the last answer's C{next_cursor}, untouched (1.62).
        """
        return self.call(v2.ListSessionsRequest(cwd=cwd, cursor=cursor))

    def delete_session(self, session_id: str) -> Call[v2.DeleteSessionResponse]:
        """
        Send C{session/delete}.
        """
        request = v2.DeleteSessionRequest(session_id=session_id)
        return self._forgetting(session_id, self.prepare(request), request)

    def close_session(self, session_id: str) -> Call[v2.CloseSessionResponse]:
        """
        Send C{session/close}.  All work is stopped, so all open permission requests of the session are answered
        C{cancelled}.  A session that the agent does not know is closed, too (V2N10).
        """
        request = v2.CloseSessionRequest(session_id=session_id)
        call = self.prepare(request)
        call.addErrback(_already_closed)
        return self._ending(session_id, call, request)

    def end_session(self, session_id: str, request: object) -> Call[Any]:
        """
        Send a request that ends a session and all its work; L{close_session} is what most code wants.
        """
        return self._ending(session_id, self.prepare(request), request)

    def _ending(self, session_id: str, call: Call[Any], request: object) -> Call[Any]:
        open_requests = self._permissions.pop(session_id, {}) if self.is_open else {}
        session = self._sessions.get(session_id)
        if session is not None and self.is_open:
            session.cancelling()
        self._forgetting(session_id, call, request)
        self._answer_cancelled(open_requests, "session/close")
        return call

    def _forgetting(self, session_id: str, call: Call[Any], request: object) -> Call[Any]:
        session = self._sessions.get(session_id)

        def forget(response: Any) -> Any:
            if session is not None and self._sessions.get(session_id) is session:
                del self._sessions[session_id]
                session.end(RequestCancelled("the session was closed"))
            return response

        call.addCallback(forget)
        return self.publish(call, request)

    def prompt(
        self, request: v2.PromptRequest, stop: CancellationSignal | None = None, *, timeout: float | None = None
    ) -> Prompt:
        """
        Send a prompt, for who takes its updates from the C{session_update_handler}.

        @param stop: stops the prompt when it is given.
        """
        session = self.require_session(request.session_id)
        return session.prompt(request.prompt, stop, meta=request.meta, timeout=timeout)

    # ---- cancelling

    def cancel(self, session_id: str) -> None:
        """
        Send C{session/cancel}, and answer the session's open permission requests C{cancelled}, without waiting for
        anybody (V2D3).  The notification goes first, so that the agent does not take the answers for mere refusals.
        What is asked for work in the background stays open, for that goes on (V2N1), unless the client was built
        otherwise.
        """
        self._check_initialized()
        if self._holds_to_capabilities:
            self._subagents.check_cancel(session_id)
        waiting = self._permissions.get(session_id, {})
        open_requests = [each for each, asked in waiting.items() if self._is_cancelled_with(session_id, asked)]
        for each in open_requests:
            del waiting[each]
        session = self._sessions.get(session_id)
        if session is not None:
            session.cancelling()
        self.notify(v2.CancelSessionNotification(session_id=session_id))
        self._answer_cancelled(open_requests, "session/cancel")

    def _is_cancelled_with(self, session_id: str, asked: v2.RequestPermissionRequest) -> bool:
        """
        Whether a permission request belongs to what C{session/cancel} stops.
        """
        session = self._sessions.get(session_id)
        exempt = self.client.spares_background and session is not None and session.foreground.is_background(asked)
        return not exempt

    @staticmethod
    def _answer_cancelled(open_requests: Iterable[IncomingRequest], trigger: str) -> None:
        for request in open_requests:
            request.respond(_CANCELLED)
        for request in open_requests:
            with _log.failuresHandled("a permission handler's cancellation failed"):
                request.stop(trigger)

    # ---- what the peer asks of its router

    def handle_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        See L{IRouter<acp_twisted.jsonrpc.router.IRouter>}.
        """
        check_id(request.id, self.client.august_draft)
        if self.initialized is None:
            raise InvalidRequest("initialize comes first", {"method": request.method})
        known = self.vocabulary.get(request.method) is not None or request.method.startswith("_")
        if not known and not self._handlers.is_raw(request.method):
            raise MethodNotFound(data={"method": request.method})  # there may be a handler, for version 1
        if request.method == "session/request_permission":
            return self._asked_for_permission(request, gate)
        if request.method == "elicitation/create" and request.method in self._handlers:
            go = super().handle_request
            return self._elicited.handle(request.params, lambda: go(request, gate))
        return super().handle_request(request, gate)

    def _asked_for_permission(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        handler = self._handlers.get(request.method)
        if handler is None:
            raise MethodNotFound(data={"method": request.method})
        method = self.vocabulary.require(request.method)
        asked: v2.RequestPermissionRequest = self._read(request.params, method)
        session_id = asked.session_id
        session = self._sessions.get(session_id)
        if session is not None and session.stopping and self._is_cancelled_with(session_id, asked):
            return _CANCELLED
        # Its own cancellation has the same outcome as one with the session (X12, V2N4).
        request.stop = partial(_permission_cancelled, request, request.stop)
        # It is open from now on: the handler may be who cancels.
        self._permissions.setdefault(session_id, {})[request] = asked
        try:
            if gate is None:
                result = self._answer(handler, asked, method)
            else:
                result = gate.addCallback(lambda _: self._answer(handler, asked, method))
        except BaseException:
            self._permission_over(None, session_id, request)
            raise
        if not isinstance(result, Deferred):
            return self._permission_over(result, session_id, request)
        return result.addBoth(self._permission_over, session_id, request)

    def _permission_over(self, result: Any, session_id: str, request: IncomingRequest) -> Any:
        waiting = self._permissions.get(session_id)
        if waiting is not None:
            waiting.pop(request, None)
            if not waiting:
                del self._permissions[session_id]
        return result

    def _answer(self, handler: Bound, params: object, method: Any) -> object:
        """
        See L{Connection<acp_twisted.connection.Connection>}.  A handler that serves both versions may answer with an
        object of version 1, where the two look alike.
        """
        return super()._answer(partial(_answer_of_either, handler), params, method)

    def handle_notification(self, notification: Notification) -> Deferred[object] | None:
        """
        See L{IRouter<acp_twisted.jsonrpc.router.IRouter>}.
        """
        if self.initialized is None:
            return None
        if notification.method == "elicitation/complete" and not self._elicited.complete(notification.params):
            _log.debug("an elicitation that is not open was said to be complete")
            return None
        if notification.method != "session/update":
            return super().handle_notification(notification)
        try:
            update = decode(notification.params, v2.UpdateSessionNotification)
        except InvalidParams as error:
            _log.warn("session/update is malformed: {errors}", errors=error.data)
            return None
        return self._updated(update, notification.size)

    def _updated(self, notification: v2.UpdateSessionNotification, size: int) -> Deferred[object] | None:
        if type(notification.update).__name__ == "SubagentUpdate":  # by name, for it is not imported before one comes
            child: Any = notification.update
            if self._subagents.told(child):
                self.require_session(child.session_id)  # what it does comes on this connection too
        session = self._sessions.get(notification.session_id)
        waiting: list[Deferred[object]] = []
        done: Callable[[], None] | None = None
        if session is not None:
            waiting, done = session.deliver(notification.update, size)
        elif self._opening:
            self._early.add((notification, size), size)
            self._early.shrink()
        for handler in self.client.update_handlers:
            result = self.guarded(partial(handler, notification), self)
            if result is not None:
                waiting.append(result)
        if done is not None:
            done()
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
        self._lost = reason
        self._permissions.clear()
        self._early.take()
        for session in list(self._sessions.values()):
            session.end(reason, lost=True)


_CANCELLED = {"outcome": {"outcome": "cancelled"}}


def _already_closed(failure: Failure) -> v2.CloseSessionResponse:
    failure.trap(ResourceNotFound)
    return v2.CloseSessionResponse()


def _permission_cancelled(request: IncomingRequest, stop: Callable[[str], object], trigger: str) -> None:
    request.respond(_CANCELLED)
    stop(trigger)


def _answer_of_either(handler: Bound, params: object, connection: object) -> object:
    result = outcome(handler(params, connection))
    return result.addCallback(as_second) if isinstance(result, Deferred) else as_second(result)


def _as_error(failure: Failure) -> AcpError:
    return failure.value if isinstance(failure.value, AcpError) else RequestCancelled()
