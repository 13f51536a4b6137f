"""
Where C{mcp/message} goes on one ACP connection, in either direction.

MCP over ACP comes in two forms.  In the newest, stateless one an agent's request is C{mcp/message} with a C{serverId}
and a C{requestId}, and the server tells it more with notifications of these two.  In the older one C{mcp/connect} opens
a connection whose C{connectionId} all messages carry, requests both ways among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import (
    AcpConnectionError,
    AcpError,
    InvalidParams,
    InvalidResponse,
    MethodNotFound,
    RequestCancelled,
)
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Id, Notification, Request, Response, notification_bytes, request_bytes
from acp_twisted.jsonrpc.peer import Peer
from acp_twisted.mcp.exchanges import ExchangeTransport, failed_on_the_way
from acp_twisted.mcp.versions import CANCELLED, META_SUBSCRIPTION, meta_of

_log = Logger()

MESSAGE = "mcp/message"
CONNECT = "mcp/connect"
DISCONNECT = "mcp/disconnect"

Form: TypeAlias = Literal["stateless", "connection"]


class AcpLink(Protocol):
    """
    What is needed of an ACP connection: a L{Connection<acp_twisted.connection.Connection>} of either half, or a proxy's
    view of one of its sides.
    """

    peer: Peer

    def ext_request(self, method: str, params: Any = None, *, timeout: float | None = None) -> Deferred[Any]:
        """
        Send a request by its name.
        """

    def ext_notification(self, method: str, params: Any = None) -> Deferred[None]:
        """
        Send a notification by its name.
        """

    def when_closed(self) -> Deferred[AcpConnectionError]:
        """
        Fires when the link is gone.
        """


class RawBuilder(Protocol):
    """
    What builds an agent or a client, of either version, or a proxy.
    """

    def raw_handler(self, method: str, handler: Callable[..., Any]) -> Any:
        """
        Have a handler given a method's requests and notifications as they came.
        """


class Routes:
    """
    What is open on one connection.

    @ivar exchanges: who is told of notifications about a request, by server and request.
    @ivar tunnels: the older form's connections.
    """

    def __init__(self) -> None:
        self.exchanges: dict[tuple[str, str], Callable[[str, Any], object]] = {}
        self.tunnels: dict[str, Tunnel] = {}


_routes: WeakKeyDictionary[Any, Routes] = WeakKeyDictionary()


def routes_of(link: object) -> Routes:
    """
    The routes of a connection.
    """
    found = _routes.get(link)
    if found is None:
        found = _routes[link] = Routes()
    return found


def notified(notification: Notification, link: object) -> None:
    """
    A notification C{mcp/message}: it goes to whom it is about, and to nobody when that is over.
    """
    heard(notification.params, link)


def heard(given: object, link: object) -> None:
    """
    The params of such a notification.
    """
    params = given if isinstance(given, dict) else {}
    routes = routes_of(link)
    method, inner = params.get("method"), params.get("params")
    if not isinstance(method, str):
        return
    tunnel = routes.tunnels.get(str(params.get("connectionId")))
    if tunnel is not None:
        tunnel.deliver(notification_bytes(method, inner))
        return
    tell = routes.exchanges.get((str(params.get("serverId")), str(params.get("requestId"))))
    if tell is not None:
        tell(method, inner)


def tunnelled(request: IncomingRequest, link: object) -> object:
    """
    A request C{mcp/message} of the older form.

    @raise InvalidParams: when it names no connection that is open.
    """
    params = request.params if isinstance(request.params, dict) else {}
    method = params.get("method")
    tunnel = routes_of(link).tunnels.get(str(params.get("connectionId")))
    if tunnel is None or not isinstance(method, str):
        raise InvalidParams("Invalid params: unknown connectionId", {"connectionId": params.get("connectionId")})
    return tunnel.received(method, params.get("params"))


def agents_message(message: object, link: object) -> object:
    """
    What an agent does with C{mcp/message}: nobody sends it requests in the stateless form.
    """
    if isinstance(message, Notification):
        notified(message, link)
        return None
    assert isinstance(message, IncomingRequest)
    params = message.params
    if isinstance(params, dict) and "connectionId" in params:
        return tunnelled(message, link)
    raise MethodNotFound(data={"method": MESSAGE})


def _nothing() -> None:
    """There is nothing to leave."""


def end_with(link: AcpLink, end: Callable[[str], object]) -> Callable[[], None]:
    """
    Call C{end} when the link is gone.

    @return: what leaves it alone, for who ends before: the link may live much longer.
    """
    gone = link.when_closed()
    gone.addCallbacks(lambda _: end("the ACP connection is gone"), lambda _: None)
    return gone.cancel


class StatelessTransport(ExchangeTransport):
    """
    A client's way to one server in the stateless form: every request is one C{mcp/message}.

    The cancellation of a request is that of the ACP request which carries it, C{$/cancel_request}; MCP's own
    notification stays on this side (C47).
    """

    def __init__(self, link: AcpLink, server_id: str, prefix: str, peer: Peer) -> None:
        """
        @param prefix: makes the request ids of this client its own.
        """
        super().__init__(peer, peer.clock)
        self._link = link
        self._server_id = server_id
        self._prefix = prefix
        self._calls: dict[Id, Deferred[Any]] = {}
        self._leave: Callable[[], object] = _nothing  # a link that is gone already ends this at once
        self._leave = end_with(link, self.abort)

    def ask(self, request: Request, message: bytes) -> None:
        """
        See L{ExchangeTransport}.
        """
        routes, outer = routes_of(self._link), f"{self._prefix}:{request.id}"
        key = (self._server_id, outer)

        def tell(method: str, params: Any) -> None:
            self.deliver(notification_bytes(method, renamed(params, outer, request.id)))

        def over(result: Any) -> Any:
            routes.exchanges.pop(key, None)
            self._calls.pop(request.id, None)
            return result

        params: dict[str, Any] = {"serverId": self._server_id, "requestId": outer, "method": request.method}
        if request.params is not None:
            params["params"] = request.params
        routes.exchanges[key] = tell
        call = self._calls[request.id] = self._link.ext_request(MESSAGE, params, timeout=0)
        call.addBoth(over).addCallbacks(
            self._answered, self._failed, callbackArgs=(request.id, outer), errbackArgs=(request.id,)
        )
        if self.closed:  # by what came while it was being sent
            call.cancel()

    def _answered(self, carrier: Any, request_id: Id, outer: str) -> None:
        if isinstance(carrier, dict) and "result" in carrier:
            self.answer(request_id, renamed(carrier["result"], outer, request_id))
            return
        error = carrier.get("error") if isinstance(carrier, dict) else None
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(error, dict) and type(code) is int:
            self.refuse(request_id, AcpError(code, str(error.get("message", "")), error.get("data")))
        else:
            self.fail(request_id, InvalidResponse("the answer to mcp/message has neither result nor error"))

    def _failed(self, failure: Failure, request_id: Id) -> None:
        self.fail(request_id, failed_on_the_way("mcp/message failed", failure))

    def tell(self, notification: Notification, message: bytes) -> None:
        """
        See L{ExchangeTransport}: there are no such notifications in this form.
        """
        _log.debug("MCP over ACP carries no {method} to the server", method=notification.method)

    def reply(self, response: Response, message: bytes) -> None:
        """
        See L{ExchangeTransport}: there are no requests of the server in this form.
        """

    def cancel(self, request_id: Id, message: bytes) -> None:
        """
        See L{ExchangeTransport}.
        """
        call = self._calls.pop(request_id, None)
        if call is not None:
            call.cancel()

    def end_all(self) -> None:
        """
        See L{ExchangeTransport}.
        """
        self._leave()
        for call in list(self._calls.values()):
            call.cancel()


def renamed(payload: Any, old: object, new: object) -> Any:
    """
    A payload whose C{_meta} names a subscription by another id.
    """
    meta = meta_of(payload)
    if meta.get(META_SUBSCRIPTION) != old:
        return payload
    return {**payload, "_meta": {**meta, META_SUBSCRIPTION: new}}


class Tunnel(ExchangeTransport):
    """
    One end of a connection of the older form, of a client or a server.  Requests go both ways, each as one
    C{mcp/message}, and are cancelled as such.
    """

    def __init__(self, link: AcpLink, connection_id: str, peer: Peer, gone: Callable[[], object]) -> None:
        """
        @param gone: called when this end is closed.
        """
        super().__init__(peer, peer.clock)
        self._link = link
        self._connection_id = connection_id
        self._gone = gone
        self._calls: dict[Id, Deferred[Any]] = {}
        self._waiting: dict[Id, Deferred[Any]] = {}
        self._last = 0
        routes_of(link).tunnels[connection_id] = self
        self._leave: Callable[[], object] = _nothing  # a link that is gone already ends this at once
        self._leave = end_with(link, self.abort)
        peer.connection_made(self)

    def _envelope(self, method: str, params: Any) -> dict[str, Any]:
        envelope = {"connectionId": self._connection_id, "method": method}
        return envelope if params is None else {**envelope, "params": params}

    def ask(self, request: Request, message: bytes) -> None:
        """
        See L{ExchangeTransport}.
        """

        def over(result: Any) -> Any:
            self._calls.pop(request.id, None)
            return result

        call = self._link.ext_request(MESSAGE, self._envelope(request.method, request.params), timeout=0)
        self._calls[request.id] = call
        call.addBoth(over).addCallbacks(
            lambda result: self.answer(request.id, result), self._refused, errbackArgs=(request.id,)
        )
        if self.closed:  # by what came while it was being sent
            call.cancel()

    def _refused(self, failure: Failure, request_id: Id) -> None:
        error = failure.value
        if isinstance(error, AcpError) and error.remote:
            self.refuse(request_id, error)
        else:
            self.fail(request_id, failed_on_the_way("mcp/message failed", failure))

    def tell(self, notification: Notification, message: bytes) -> None:
        """
        See L{ExchangeTransport}.
        """
        self._link.ext_notification(MESSAGE, self._envelope(notification.method, notification.params))

    def cancel(self, request_id: Id, message: bytes) -> None:
        """
        See L{ExchangeTransport}.
        """
        call = self._calls.pop(request_id, None)
        if call is not None:
            call.cancel()

    def received(self, method: str, params: Any) -> Deferred[Any]:
        """
        A request of the other end.

        @return: what it comes to.  Cancelling it is its cancellation here, in MCP's way: no answer follows.
        """
        self._last += 1
        number = self._last

        def stop(_: Deferred[Any]) -> None:
            self._waiting.pop(number, None)
            self.deliver(notification_bytes(CANCELLED, {"requestId": number}))

        waiting = self._waiting[number] = Deferred(stop)
        self.deliver(request_bytes(number, method, params))
        return waiting

    def reply(self, response: Response, message: bytes) -> None:
        """
        See L{ExchangeTransport}.
        """
        waiting = self._waiting.pop(response.id, None)
        if waiting is None:
            return
        if response.error is None:
            waiting.callback(response.result)
        else:
            waiting.errback(AcpError(response.error.code, response.error.message, response.error.data))

    def end_all(self) -> None:
        """
        See L{ExchangeTransport}.
        """
        self._leave()
        routes_of(self._link).tunnels.pop(self._connection_id, None)
        for call in list(self._calls.values()):
            call.cancel()
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            if not each.called:  # those before may have ended it
                each.errback(RequestCancelled())
        self._gone()
