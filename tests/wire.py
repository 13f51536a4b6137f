"""
One L{Peer} with nothing around it: a transport that only records, a router of plain functions, and a clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from inspect import iscoroutine
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer
from zope.interface.verify import verifyObject

from acp_twisted.errors import AcpConnectionError, MethodNotFound
from acp_twisted.interfaces import IMessageReceiver, IMessageTransport
from acp_twisted.jsonrpc.cancellation import ACP, CancellationDialect
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.jsonrpc.peer import Peer
from acp_twisted.jsonrpc.router import IRouter
from acp_twisted.limits import Limits
from acp_twisted.testing import failure_of as failure
from acp_twisted.testing import no_result, success_result

__all__ = ["FunctionRouter", "RecordingTransport", "Wire", "deferred", "failure", "no_result", "success"]

RequestHandler = Callable[[IncomingRequest], object]
NotificationHandler = Callable[[Notification], "Deferred[Any] | None"]


@implementer(IMessageTransport)
class RecordingTransport:
    """
    Keeps what is sent, decoded; C{on_send} may do more with it, and C{on_resume} have more arrive.

    @ivar reading: whether the receiver wants more input.
    @ivar closed: whether it was closed in good order.
    @ivar aborted: the reasons it was cut for.
    """

    def __init__(self) -> None:
        self.unsent = 0
        self.sent: list[dict[str, Any]] = []
        self.reading = True
        self.closed = False
        self.aborted: list[str] = []
        self.on_send: Callable[[dict[str, Any]], object] = lambda message: None
        self.on_resume: Callable[[], object] = lambda: None

    def send(self, message: bytes) -> None:
        decoded = json.loads(message)
        self.sent.append(decoded)
        self.on_send(decoded)

    def close(self) -> None:
        self.closed = True

    def abort(self, reason: str) -> None:
        self.aborted.append(reason)

    def pauseProducing(self) -> None:
        self.reading = False

    def resumeProducing(self) -> None:
        self.reading = True
        self.on_resume()

    def stopProducing(self) -> None:
        self.close()


@implementer(IRouter)
class FunctionRouter:
    """
    Plain functions for methods.  The lane of a message is its C{sessionId}.

    @ivar now: the methods that are done with once they were applied.
    @ivar applied: what was looked at before its turn.
    @ivar lost: why the link went, once it has.
    """

    def __init__(self) -> None:
        self.requests: dict[str, RequestHandler] = {}
        self.notifications: dict[str, NotificationHandler] = {}
        self.now: set[str] = set()
        self.applied: list[str] = []
        self.lost: list[AcpConnectionError] = []

    def lane_of(self, method: str, params: object) -> Hashable:
        return params.get("sessionId") if isinstance(params, dict) else None

    def apply_now(self, notification: Notification) -> bool:
        self.applied.append(notification.method)
        return notification.method in self.now

    def handle_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        handler = self.requests.get(request.method)
        if handler is None:
            raise MethodNotFound()
        if gate is None:
            return handler(request)
        chosen = handler

        def go(_: None) -> object:
            result = chosen(request)
            return Deferred.fromCoroutine(result) if iscoroutine(result) else result

        return gate.addCallback(go)

    def handle_notification(self, notification: Notification) -> Deferred[object] | None:
        handler = self.notifications.get(notification.method)
        return None if handler is None else handler(notification)

    def connection_lost(self, reason: AcpConnectionError) -> None:
        self.lost.append(reason)


class Wire:
    """
    A connected peer, and what the other side would do.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        dialect: CancellationDialect = ACP,
        request_timeout: float = 60.0,
        answers_noise: bool = True,
        connect: bool = True,
    ) -> None:
        self.clock = Clock()
        self.router = FunctionRouter()
        self.transport = RecordingTransport()
        self.peer = Peer(
            self.router,
            self.clock,
            limits or Limits(),
            dialect=dialect,
            request_timeout=request_timeout,
            answers_noise=answers_noise,
        )
        self._dialect = dialect
        assert verifyObject(IMessageTransport, self.transport)
        assert verifyObject(IRouter, self.router)
        assert verifyObject(IMessageReceiver, self.peer)
        if connect:
            self.peer.connection_made(self.transport)

    @property
    def sent(self) -> list[dict[str, Any]]:
        """
        Everything that the peer sent.
        """
        return self.transport.sent

    @property
    def cancels(self) -> list[dict[str, Any]]:
        """
        The params of the cancellations that the peer sent.
        """
        return [message["params"] for message in self.sent if message.get("method") == self._dialect.method]

    def answers(self, request_id: object) -> list[dict[str, Any]]:
        """
        The peer's answers to one request: what stood in them beside the envelope.
        """
        return [
            {name: value for name, value in message.items() if name not in ("jsonrpc", "id")}
            for message in self.sent
            if "method" not in message and _same_id(message["id"], request_id)
        ]

    def receive(self, message: object) -> None:
        """
        One message arrives, as JSON.
        """
        self.peer.message_received(json.dumps(message).encode())

    def request(self, request_id: object, method: str, params: object = None) -> None:
        """
        A request arrives.
        """
        self.receive({"jsonrpc": "2.0", "id": request_id, "method": method, **_params(params)})

    def notify(self, method: str, params: object = None) -> None:
        """
        A notification arrives.
        """
        self.receive({"jsonrpc": "2.0", "method": method, **_params(params)})

    def cancel(self, request_id: object, **more: object) -> None:
        """
        A cancellation arrives.
        """
        self.notify(self._dialect.method, {"requestId": request_id, **more})

    def result(self, request_id: object, result: object = None) -> None:
        """
        A successful answer arrives.
        """
        self.receive({"jsonrpc": "2.0", "id": request_id, "result": result})

    def error(self, request_id: object, code: int, message: str = "m") -> None:
        """
        A failed answer arrives.
        """
        self.receive({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})

    def lose(self, reason: BaseException | None = None) -> None:
        """
        The link goes.
        """
        self.peer.connection_lost(Failure(reason or ConnectionResetError("gone")))

    def healthy(self) -> bool:
        """
        Whether the next request is still answered (PROBE).
        """
        before = len(self.answers("probe"))
        self.request("probe", "_x/ping")
        return len(self.answers("probe")) == before + 1 and not self.transport.closed and not self.transport.aborted


def _params(params: object) -> dict[str, object]:
    return {} if params is None else {"params": params}


def _same_id(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def deferred(function: Callable[[], Any]) -> Deferred[Any]:
    """
    What C{function} comes to; an C{async def} is started.
    """
    result = function()
    return Deferred.fromCoroutine(result) if iscoroutine(result) else maybeDeferred(lambda: result)


def success(waiting: Deferred[Any]) -> Any:
    """
    The result of a Deferred that has fired, for tests that know what it is.
    """
    return success_result(waiting)
