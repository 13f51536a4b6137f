"""
A conversation with an MCP server, in plain JSON: what is agreed at its beginning, requests and their progress, and what
the server asks and tells.

It is L{Peer<acp_twisted.jsonrpc.peer.Peer>} in MCP's dialect of cancellation: a Deferred that is cancelled, or a
timeout that passes, sends C{notifications/cancelled} once, expects no answer and drops a late one; C{initialize} is
never cancelled (M1, M9, M24, M31).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from attrs import define
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, AcpError, InvalidResponse, MethodNotFound, RequestCancelled
from acp_twisted.handlers import outcome
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.jsonrpc.cancellation import MCP
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.jsonrpc.peer import Peer
from acp_twisted.jsonrpc.router import IRouter
from acp_twisted.limits import Limits
from acp_twisted.mcp.handlers import McpHandlers
from acp_twisted.mcp.types import Implementation, Progress, ServerInfo, ShapeError
from acp_twisted.mcp.versions import (
    CANCELLED,
    HANDSHAKE,
    INITIALIZED,
    META_CAPABILITIES,
    META_INFO,
    META_LOG_LEVEL,
    META_PROGRESS,
    META_SUBSCRIPTION,
    META_VERSION,
    PROGRESS,
    STATELESS,
    UNSUPPORTED_VERSION,
    McpCapabilityError,
    McpVersionError,
    meta_of,
    with_meta,
)

_log = Logger()

MAX_INPUT_ROUNDS = 16
"""How often one request may come back for more input before it is given up."""

PROBE_SHARE = 0.5
"""How much of the request timeout C{server/discover} gets at the beginning; an old server may not answer it at all."""


@define(eq=False)
class _Asked:
    """
    A request that wants to be told of its progress.
    """

    call: Call[Any]
    tell: Callable[[Progress], object] | None


@implementer(IRouter)
class McpSession:
    """
    The client's side of one connection to an MCP server.

    @ivar peer: the JSON-RPC conversation below it, to be given to a transport.
    @ivar server: what was agreed; L{None} before L{open} is through.
    @ivar max_timeout: seconds that progress can't stretch a request's timeout beyond; 0 is without end.
    @ivar on_agreed: called with the revision once it is agreed, before anything else is sent.
    @ivar on_subscribed: what takes the notifications of a subscription; it is given its id and the notification.
    @ivar on_server_cancel: told the id when the server ends a subscription.
    """

    def __init__(
        self,
        clock: IReactorTime,
        handlers: McpHandlers,
        *,
        info: Implementation,
        limits: Limits,
        request_timeout: float,
        max_timeout: float,
    ) -> None:
        self.peer = Peer(self, clock, limits, dialect=MCP, request_timeout=request_timeout, answers_noise=False)
        self.clock = clock
        self.server: ServerInfo | None = None
        self.max_timeout = max_timeout
        self.on_agreed: Callable[[str], object] = lambda version: None
        self.on_subscribed: Callable[[object, Notification], object] = lambda subscription, notification: None
        self.on_server_cancel: Callable[[object], object] = lambda request_id: None
        self._handlers = handlers.table()
        self._capabilities = handlers.capabilities()
        self._info = info
        self._log_level: str | None = None
        self._asked: dict[str, _Asked] = {}
        self._tokens = 0

    @property
    def stateless(self) -> bool:
        """
        Whether each request stands for itself, as from 2026-07-28 on.
        """
        return self.server is not None and self.server.protocol_version not in HANDSHAKE

    # ---- the beginning

    def open(self, protocol: str | None = None) -> Deferred[ServerInfo]:
        """
        Agree on a revision.

        @param protocol: the only one to take; by default the newest that both have.
        @return: fails with L{McpVersionError} when there is none, or as L{request} does.
        """
        if protocol is None:
            return Deferred.fromCoroutine(self._negotiate())
        if protocol in HANDSHAKE:
            return Deferred.fromCoroutine(self._initialize(protocol, only=True))
        return Deferred.fromCoroutine(self._discover_only(protocol))

    async def _discover_only(self, protocol: str) -> ServerInfo:
        try:
            found = await self._discover(protocol, None)
        except AcpError as error:
            if error.code == UNSUPPORTED_VERSION:
                raise McpVersionError(_supported(error)) from None
            raise
        if protocol not in found.get("supportedVersions", ()):
            raise McpVersionError(found.get("supportedVersions"))
        return self._agree(protocol, found)

    async def _negotiate(self) -> ServerInfo:
        """
        Ask what the server is, which a new one answers, and greet it in the old way if it does not.
        """
        timeout = self.peer.request_timeout * PROBE_SHARE
        try:
            found = await self._discover(STATELESS, timeout or None)
        except AcpError as error:
            if not _may_be_old(error):
                raise
            supported = _supported(error)
            if supported and not set(supported) & {*HANDSHAKE, STATELESS}:
                raise McpVersionError(supported) from None
        else:
            if STATELESS in found.get("supportedVersions", ()):
                return self._agree(STATELESS, found)
        try:
            return await self._initialize(HANDSHAKE[0])
        except AcpError as error:
            # A new server that was too slow for the first question says so now.
            if error.code != UNSUPPORTED_VERSION or STATELESS not in _supported(error):
                raise
        return await self._discover_only(STATELESS)

    async def _discover(self, version: str, timeout: float | None) -> dict[str, Any]:
        found = await self.peer.call("server/discover", {"_meta": self._envelope(version)}, timeout=timeout)
        return found if isinstance(found, dict) else {}

    async def _initialize(self, version: str, *, only: bool = False) -> ServerInfo:
        greeting = {"protocolVersion": version, "capabilities": self._capabilities, "clientInfo": self._info.to_json()}
        found = await self.peer.call("initialize", greeting)
        agreed = found.get("protocolVersion") if isinstance(found, dict) else None
        if agreed not in HANDSHAKE or (only and agreed != version):
            raise McpVersionError([agreed])
        server = self._agree(agreed, found)
        await self.peer.notify(INITIALIZED)
        return server

    def _agree(self, version: str, found: dict[str, Any]) -> ServerInfo:
        capabilities, instructions = found.get("capabilities"), found.get("instructions")
        try:
            said = found.get("serverInfo") or meta_of(found).get("io.modelcontextprotocol/serverInfo")
            info = Implementation.from_json(said)
        except ShapeError:
            info = None
        self.server = ServerInfo(
            protocol_version=version,
            capabilities=capabilities if isinstance(capabilities, dict) else {},
            info=info,
            instructions=instructions if isinstance(instructions, str) else None,
        )
        self.on_agreed(version)
        return self.server

    # ---- requests

    def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        max_timeout: float | None = None,
        on_progress: Callable[[Progress], object] | None = None,
        progress: bool = True,
    ) -> Call[Any]:
        """
        Send a request.

        @param timeout: seconds without a sign of life; L{None} is the session's own, 0 is without end.
        @param max_timeout: seconds that progress can't stretch it beyond; L{None} is the session's own.
        @param on_progress: told of each L{Progress}.
        @param progress: whether the server is asked to show progress at all; each sign starts the timeout anew (M13).
        @return: the result as JSON.  Cancelling it, with a reason if you like, sends one C{notifications/cancelled}
            and ends it at once with L{RequestCancelled}.
        """
        return self._request(method, params, timeout, max_timeout, on_progress, progress, 0)

    def _request(
        self,
        method: str,
        params: dict[str, Any] | None,
        timeout: float | None,
        max_timeout: float | None,
        on_progress: Callable[[Progress], object] | None,
        progress: bool,
        rounds: int,
    ) -> Call[Any]:
        call = self.peer.prepare(method)
        meta = self._envelope(self.server.protocol_version) if self.stateless and self.server else {}
        if progress:
            self._tokens += 1
            token = f"p{self._tokens}"
            meta[META_PROGRESS] = token
            self._asked[token] = _Asked(call, on_progress)
            call.addBoth(self._forget, token)
        if self.stateless:

            def more(result: Any) -> Any:
                if not (isinstance(result, dict) and result.get("resultType") == "input_required"):
                    return result
                if rounds >= MAX_INPUT_ROUNDS:
                    raise InvalidResponse(f"{method}: the server wants input without end")
                given = Deferred.fromCoroutine(self._input(result, params))
                return given.addErrback(_cancelled).addCallback(again)

            def again(answered: dict[str, Any]) -> Call[Any]:
                return self._request(method, answered, timeout, max_timeout, on_progress, progress, rounds + 1)

            call.addCallback(more)
        call.nobody_listens()
        bound = self.max_timeout if max_timeout is None else max_timeout
        body = with_meta(params, meta) if meta else params
        return self.peer.publish(call, body, timeout=timeout, max_timeout=bound)

    async def _input(self, result: dict[str, Any], params: dict[str, Any] | None) -> dict[str, Any]:
        """
        Give a server of the newest revision, which asks nothing by itself, the input that it wants.
        """
        wanted = result.get("inputRequests") or {}
        answers: dict[str, Any] = {}
        for key, one in wanted.items() if isinstance(wanted, dict) else ():
            method = one.get("method") if isinstance(one, dict) else None
            handler = self._handlers.get(str(method))
            if handler is None:
                raise McpCapabilityError(f"the server wants {method}, which has no handler here")
            answer = outcome(handler(one.get("params"), self))
            answers[key] = await answer if isinstance(answer, Deferred) else answer
        again = {**(params or {}), "inputResponses": answers}
        if "requestState" in result:
            again["requestState"] = result["requestState"]
        return again

    def _envelope(self, version: str) -> dict[str, Any]:
        meta: dict[str, Any] = {
            META_VERSION: version,
            META_CAPABILITIES: self._capabilities,
            META_INFO: self._info.to_json(),
        }
        if self._log_level is not None:
            meta[META_LOG_LEVEL] = self._log_level
        return meta

    def _forget(self, result: Any, token: str) -> Any:
        self._asked.pop(token, None)
        return result

    def want_log(self, level: str) -> None:
        """
        Ask for log messages of that level with every request, as the newest revision has it.
        """
        self._log_level = level

    def notify(self, method: str, params: dict[str, Any] | None = None) -> Deferred[None]:
        """
        Send a notification.
        """
        return self.peer.notify(method, params)

    # ---- what the peer asks of its router

    def lane_of(self, method: str, params: object) -> Hashable:
        """
        See L{IRouter}: all is in one order.
        """
        return None

    def apply_now(self, notification: Notification) -> bool:
        """
        See L{IRouter}: progress starts a timeout anew when it arrives, whoever is busy, and so do ends of
        subscriptions.
        """
        params = notification.params
        if notification.method == PROGRESS:
            token = params.get(META_PROGRESS) if isinstance(params, dict) else None
            asked = self._asked.get(token) if isinstance(token, str) else None
            if asked is not None:
                self._progressed(asked, params)
            return True
        if notification.method == CANCELLED:
            if isinstance(params, dict):
                self.on_server_cancel(params.get("requestId"))
            return True
        return False

    def _progressed(self, asked: _Asked, params: object) -> None:
        try:
            progress = Progress.from_json(params)
        except ShapeError as error:
            _log.warn("progress is malformed: {error}", error=error)
            return
        asked.call.progressed()
        if asked.tell is not None:
            result = outcome(asked.call.context.copy().run(asked.tell, progress))
            if isinstance(result, Deferred):
                result.addErrback(lambda failure: _log.failure("a progress handler failed", failure))

    def handle_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        See L{IRouter}.  A request that the server cancels is stopped, and not answered.
        """
        handler = self._handlers.get(request.method)
        if request.method == "ping":
            return {}
        if handler is None or request.method.startswith("notifications/"):
            raise MethodNotFound(data={"method": request.method})
        if gate is None:
            return outcome(handler(request.params, self))
        return gate.addCallback(lambda _: outcome(handler(request.params, self)))

    def handle_notification(self, notification: Notification) -> Deferred[object] | None:
        """
        See L{IRouter}.  Unknown ones are ignored.
        """
        subscription = meta_of(notification.params).get(META_SUBSCRIPTION)
        if subscription is not None:
            self.on_subscribed(subscription, notification)
        handler = self._handlers.get(notification.method)
        if handler is None or not notification.method.startswith("notifications/"):
            return None
        try:
            result = outcome(handler(notification.params, self))
        except (ShapeError, KeyError, TypeError):
            _log.failure("{method} could not be handled", method=notification.method)
            return None
        return result if isinstance(result, Deferred) else None

    def connection_lost(self, reason: AcpConnectionError) -> None:
        """
        See L{IRouter}.
        """


def _may_be_old(error: AcpError) -> bool:
    """
    Whether a server that fails so may be one that only knows C{initialize}: whatever it answers, or nothing.  A lost
    link and the caller's own cancellation are something else.
    """
    if isinstance(error, RequestCancelled):
        return error.remote
    return not isinstance(error, AcpConnectionError)


def _cancelled(failure: Failure) -> Failure:
    """
    The caller gave the request up while its input was waited for.

    @raise RequestCancelled: for that.
    """
    if failure.type is CancelledError:  # and not a RequestCancelled, which is one
        raise RequestCancelled() from None
    return failure


def _supported(error: AcpError) -> list[str]:
    """
    The revisions that an error names.
    """
    named = error.data.get("supported") if error.code == UNSUPPORTED_VERSION and isinstance(error.data, dict) else None
    return [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
