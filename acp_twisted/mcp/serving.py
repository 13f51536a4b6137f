"""
An L{McpServer} on a connection of its own: a stream, a pipe, or memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from attrs import Factory, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, InvalidParams, InvalidRequest
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.jsonrpc.cancellation import MCP
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.jsonrpc.peer import Peer
from acp_twisted.jsonrpc.router import IRouter
from acp_twisted.limits import Limits
from acp_twisted.mcp.server import McpRequest, McpServer, check_envelope, log_level_of
from acp_twisted.mcp.versions import HANDSHAKE, META_VERSION, meta_of


class _ServingPeer(Peer):
    """
    Ends its subscriptions before it closes, so that their callers learn it (M2).
    """

    before: Callable[[], object]

    def shutdown(self) -> Deferred[None]:
        """
        See L{IMessageReceiver}.
        """
        self.before()
        return super().shutdown()


@implementer(IRouter)
class ServerConnection:
    """
    The server's side of one connection.  It asks the client nothing, and sends C{notifications/cancelled} for nothing
    but the subscriptions that it ends (M3, M17).

    @ivar peer: the JSON-RPC conversation, to be given to a transport.
    @ivar version: the revision that C{initialize} agreed on; L{None} without one.
    """

    def __init__(self, server: McpServer, clock: IReactorTime, limits: Limits) -> None:
        self.server = server
        self.version: str | None = None
        self.peer = _ServingPeer(self, clock, limits, dialect=MCP)
        self.peer.before = self.end_subscriptions
        self._log_level: str | None = None
        self._detach: Callable[[], None] | None = None

    def end_subscriptions(self) -> None:
        """
        End the subscriptions of this connection.
        """
        self.server.end_subscriptions(lambda request: request.notify == self._notify)

    def _notify(self, method: str, params: dict[str, Any]) -> Deferred[None]:
        return self.peer.notify(method, params)

    # ---- what the peer asks of its router

    def lane_of(self, method: str, params: object) -> Hashable:
        """
        See L{IRouter}.
        """
        return None

    def apply_now(self, notification: Notification) -> bool:
        """
        See L{IRouter}: what a client tells a server that is not for its peer is nothing to this one.
        """
        return True

    def handle_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        See L{IRouter}.
        """
        params = {} if request.params is None else request.params
        if not isinstance(params, dict):
            raise InvalidParams("Invalid params: not an object")
        if META_VERSION in meta_of(params):
            check_envelope(params)
            made = McpRequest(
                request.method, params, request.id, request.token, self._notify, log_level=log_level_of(params)
            )
            made.tear_down = lambda: self.peer.send_cancel_request(request.id, "the server ended the subscription")
            return self.server.handle(made)
        if request.method == "initialize":
            return self._initialize(params)
        if request.method == "ping":
            return {}
        if self.version is None:
            raise InvalidRequest("initialize comes first", {"method": request.method})
        if request.method == "logging/setLevel":
            self._log_level = str(params.get("level"))
            return {}
        return self.server.handle(
            McpRequest(
                request.method,
                params,
                request.id,
                request.token,
                self._notify,
                version=self.version,
                log_level=self._log_level,
            )
        )

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        self.version = wanted if wanted in HANDSHAKE else HANDSHAKE[0]
        if self._detach is None:
            self._detach = self.server.attach(self._notify_old)
        return self.server.greeting(self.version)

    def _notify_old(self, method: str, params: dict[str, Any]) -> None:
        self.peer.notify(method, params)

    def handle_notification(self, notification: Notification) -> Deferred[object] | None:
        """
        See L{IRouter}.
        """
        return None

    def connection_lost(self, reason: AcpConnectionError) -> None:
        """
        See L{IRouter}.
        """
        detach, self._detach = self._detach, None
        if detach is not None:
            detach()


@implementer(IMessageReceiverFactory)
@frozen
class Serving:
    """
    What a server's transport makes its connections with: a L{StreamAgentTransport
    <acp_twisted.transports.stream>}, say.
    """

    server: McpServer
    limits: Limits = Factory(Limits)

    def build_receiver(self, clock: IReactorTime) -> IMessageReceiver:
        """
        See L{IMessageReceiverFactory}.
        """
        return self.connect(clock).peer

    def connect(self, clock: IReactorTime) -> ServerConnection:
        """
        The server's side of one new connection, whose C{peer} is to be given to a transport.
        """
        return ServerConnection(self.server, clock, self.limits)


def serve_stdio(reactor: Any, server: McpServer) -> Deferred[None]:
    """
    Be an MCP server on standard input and output.

    @return: fires when the client has ended the conversation.
    """
    from acp_twisted.transports.stdio import StdioAgentTransport  # noqa: PLC0415 - who serves otherwise needs no pipes

    transport = StdioAgentTransport.start(Serving(server), reactor)
    reactor.addSystemEventTrigger("before", "shutdown", transport.receiver.shutdown)
    return transport.done
