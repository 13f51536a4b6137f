"""
A conversation in the protocol's own types: what both halves have in common.

It turns the peer's JSON into the schema's classes and back, and calls the handlers.  What only an agent or only a
client does is in their rooms.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from acp_twisted import extensions
from acp_twisted.errors import (
    AcpCapabilityError,
    AcpConnectionError,
    AcpError,
    InternalError,
    InvalidParams,
    InvalidResponse,
    MethodNotFound,
)
from acp_twisted.gates import Gates, advertises, advertises_beside
from acp_twisted.handlers import Bound, Handlers, after, outcome
from acp_twisted.interfaces import IInstrument
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Id, Notification
from acp_twisted.jsonrpc.peer import Peer
from acp_twisted.jsonrpc.router import IRouter
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.limits import Limits
from acp_twisted.schema.converter import describe_error, on_skipped, structure, unstructure
from acp_twisted.schema.methods import Method
from acp_twisted.schema.vocabulary import V1, Vocabulary

_log = Logger()
_T = TypeVar("_T")


def _skipped(kind: str, member: str, count: int) -> None:
    _log.warn("{count} items of {kind}.{member} do not fit, and were left out", count=count, kind=kind, member=member)


on_skipped(_skipped)  # the protocol lets bad items of some lists pass; that they were there should be known (B54)


def decode(params: object, kind: type[_T]) -> _T:
    """
    The params of a request as an object of the schema.  Omitted params are an empty object.

    @raise InvalidParams: with the paths and the reasons, never the values, in its data.
    """
    try:
        return structure({} if params is None else params, kind)
    except Exception as error:
        raise InvalidParams(data=describe_error(error)) from None


@implementer(IRouter)
class Connection:
    """
    One connection of an agent or a client.

    @ivar peer: the JSON-RPC conversation below it.
    @ivar vocabulary: the version of the protocol that is spoken.
    """

    def __init__(
        self,
        handlers: Handlers,
        clock: IReactorTime,
        limits: Limits,
        *,
        request_timeout: float,
        answers_noise: bool,
        vocabulary: Vocabulary = V1,
        gates: Gates | None = None,
        instrument: IInstrument | None = None,
    ) -> None:
        self._handlers = handlers
        self.vocabulary = vocabulary
        self._gates = gates
        self.clock = clock
        self.limits = limits
        self.peer = Peer(self, clock, limits, request_timeout=request_timeout, answers_noise=answers_noise)
        self.peer.instrument = instrument
        self._peer_json: object = None

    def take_over(self, peer: Peer) -> None:
        """
        Go on with a conversation that another connection began, before anything but C{initialize} was said in it.
        """
        self.peer = peer
        peer.route_to(self)

    @property
    def schema(self) -> Any:
        """
        The module of the classes of the version that is spoken, C{v1} or C{v2}: for a handler that serves both.
        """
        return self.vocabulary.types

    @property
    def peer_capabilities(self) -> object:
        """
        What the peer has advertised, as an object of the schema.
        """
        return None

    @property
    def own_capabilities(self) -> object:
        """
        What this side has advertised.
        """
        return None

    # ---- what the user calls

    def supports(self, capability: str) -> bool:
        """
        Whether the peer has advertised a capability: it is there, and neither null nor false.

        @param capability: its dotted name, as in C{"fs.readTextFile"}.
        """
        return advertises(self.peer_capabilities, capability) or advertises_beside(
            self.peer_capabilities, self._peer_json, capability
        )

    def require(self, capability: str) -> None:
        """
        Go no further without a capability of the peer.

        @param capability: its dotted name.
        @raise AcpCapabilityError: when the peer has not advertised it.
        """
        if not self.supports(capability):
            raise AcpCapabilityError(capability)

    def call(
        self,
        request: object,
        *,
        timeout: float | None = None,
        max_timeout: float = 0.0,
        wait: bool = False,
        wait_timeout: float = 0.0,
        stop: CancellationSignal | None = None,
    ) -> Call[Any]:
        """
        Send a request of the protocol.

        @param request: an object of the schema, such as L{v1.ListSessionsRequest}; its class names the method.
        @param timeout: seconds; L{None} is the connection's C{request_timeout}, 0 is without end.
        @param max_timeout: seconds that L{Call.progressed} can't stretch the timeout beyond; 0 is without end.
        @param wait: keep waiting for the peer's own answer when the Deferred is cancelled; see L{Call}.
        @param wait_timeout: how many seconds to wait so at most; 0 is without end.
        @param stop: cancels the request when it is given; the peer's answer still comes.
        @return: an object of the schema, in a Deferred that cancels the request when it is cancelled.
        @raise TypeError: when C{request} is no request of the protocol.
        @raise AcpCapabilityError: when it needs what the peer did not advertise; nothing is sent.
        @raise ValueError: when a path in it is not absolute.
        """
        call = self.prepare(request, wait=wait, wait_timeout=wait_timeout)
        return self._stopped_by(stop, self.publish(call, request, timeout=timeout, max_timeout=max_timeout))

    def prepare(self, request: object, *, wait: bool = False, wait_timeout: float = 0.0) -> Call[Any]:
        """
        What L{call} returns, before anything is sent: for whom the answer must not come before he knows the call, or
        who hands out its L{cancel_handle<Call.cancel_handle>} first.

        @raise TypeError: when C{request} is no request of the protocol.
        @raise AcpCapabilityError: when it needs what the peer did not advertise.
        @raise ValueError: when a path in it is not absolute.
        """
        method = self.vocabulary.for_params(type(request))
        if method is None or method.kind != "request":
            raise TypeError(f"{type(request).__name__} is no request of the protocol")
        self._fitting(request)
        call = self.peer.prepare(method.name, wait=wait, wait_timeout=wait_timeout)
        call.addCallback(self._result, method)
        return call

    def publish(
        self, call: Call[Any], request: object, *, timeout: float | None = None, max_timeout: float = 0.0
    ) -> Call[Any]:
        """
        Send C{request}, which L{prepare} made C{call} for.
        """
        call.nobody_listens()
        return self.peer.publish(call, unstructure(request), timeout=timeout, max_timeout=max_timeout)

    @staticmethod
    def _stopped_by(stop: CancellationSignal | None, call: Call[Any]) -> Call[Any]:
        if stop is not None and not call.called:
            call.at_end(stop.attach(call.cancel_handle().cancel))
        return call

    def _result(self, result: object, method: Method) -> object:
        try:
            return structure({} if result is None else result, cast("type[object]", method.result))
        except Exception as error:
            raise InvalidResponse(
                f"the answer to {method.name} does not fit the protocol", describe_error(error)
            ) from None

    def notify(self, notification: object) -> Deferred[None]:
        """
        Send a notification of the protocol.

        @return: fires when the output has room for more.
        @raise TypeError: when C{notification} is no notification of the protocol.
        @raise AcpCapabilityError: when it needs what the peer did not advertise; nothing is sent.
        @raise ValueError: when a path in it is not absolute.
        """
        method = self.vocabulary.for_params(type(notification))
        if method is None or method.kind != "notification":
            raise TypeError(f"{type(notification).__name__} is no notification of the protocol")
        return self.peer.notify(method.name, unstructure(self._fitting(notification)))

    def _fitting(self, message: Any) -> Any:
        """
        A message as this peer may have it; see L{Gates.outgoing<acp_twisted.gates.Gates.outgoing>}.
        """
        return message if self._gates is None else self._gates.outgoing(message, self.peer_capabilities)

    def ext_request(
        self,
        method: str,
        params: object = None,
        *,
        timeout: float | None = None,
        max_timeout: float = 0.0,
        wait: bool = False,
        wait_timeout: float = 0.0,
        stop: CancellationSignal | None = None,
        result: type | None = None,
    ) -> Call[Any]:
        """
        Send a request by its name: for extensions, whose names begin with an underscore, and for what is to go out as
        it is.  The options are those of L{call}.

        @param params: JSON, or an object of an attrs class.
        @param result: an attrs class that the result is read into; L{None} leaves it plain JSON.  Where it does not
            fit, the call fails with L{InvalidResponse<acp_twisted.errors.InvalidResponse>}.
        """
        call = self._prepare_ext(method, wait=wait, wait_timeout=wait_timeout, result=result)
        return self._stopped_by(stop, self._publish_ext(call, params, timeout=timeout, max_timeout=max_timeout))

    def _prepare_ext(
        self, method: str, *, wait: bool = False, wait_timeout: float = 0.0, result: type | None = None
    ) -> Call[Any]:
        """
        What L{ext_request} returns, before anything is sent; see L{prepare}.
        """
        call = self.peer.prepare(method, wait=wait, wait_timeout=wait_timeout)
        if result is not None:
            call.addCallback(extensions.read_result, result, method)
            call.nobody_listens()
        return call

    def _publish_ext(
        self, call: Call[Any], params: object = None, *, timeout: float | None = None, max_timeout: float = 0.0
    ) -> Call[Any]:
        """
        Send the request that C{_prepare_ext} made C{call} for.
        """
        return self.peer.publish(call, extensions.write(params), timeout=timeout, max_timeout=max_timeout)

    def ext_notification(self, method: str, params: object = None) -> Deferred[None]:
        """
        Send a notification by its name.

        @param params: JSON, or an object of an attrs class.
        """
        return self.peer.notify(method, extensions.write(params))

    def send_cancel_request(self, request_id: Id) -> None:
        """
        Send C{$/cancel_request} for any id.  Most code cancels the Deferred that it got.
        """
        self.peer.send_cancel_request(request_id)

    @property
    def identity(self) -> object:
        """
        Who is at the other end, where the transport has found that out, as an HTTP server with an authentication does;
        else L{None}.
        """
        return self.peer.identity

    @property
    def is_open(self) -> bool:
        """
        Whether anything can be asked: not before the link is there, nor once either side has begun to close it.
        """
        return self.peer.is_open

    def close(self) -> Deferred[None]:
        """
        End the conversation: cancel what the peer has asked, answer it, flush, close.

        @return: fires when the link is gone.
        """
        return self.peer.shutdown()

    def abort(self, reason: str) -> None:
        """
        End the conversation now: cut the link, unsent output and all.

        @param reason: what those who wait are told.
        """
        self.peer.abort(reason)

    def when_closed(self) -> Deferred[AcpConnectionError]:
        """
        Fires with the reason when the link is gone.
        """
        return self.peer.when_closed()

    # ---- what the peer asks of its router

    def lane_of(self, method: str, params: object) -> Hashable:
        """
        See L{IRouter}: the messages of one session are one lane, and those of none another.
        """
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        return session_id if isinstance(session_id, str) else None

    def apply_now(self, notification: Notification) -> bool:
        """
        See L{IRouter}.
        """
        return False

    def handle_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        See L{IRouter}.
        """
        handler = self._handlers.get(request.method)
        if handler is None:
            raise MethodNotFound(data={"method": request.method})
        if self._handlers.is_raw(request.method):
            return after(gate, lambda: self._answer(handler, request, None))
        method = self.vocabulary.get(request.method, "request")
        params = request.params if method is None else self._read(request.params, method)
        return after(gate, lambda: self._answer(handler, params, method))

    def handle_notification(self, notification: Notification) -> Deferred[object] | None:
        """
        See L{IRouter}.  Unknown ones are ignored (1.193), and so are those of C{$/}.
        """
        handler = self._handlers.get(notification.method)
        if handler is None:
            _log.debug("nobody handles the notification {method}", method=notification.method)
            return None
        if self._handlers.is_raw(notification.method):
            result = outcome(handler(notification, self))
            return result if isinstance(result, Deferred) else None
        method = self.vocabulary.get(notification.method, "notification")
        params: object = notification.params
        if method is not None:
            try:
                params = decode(params, method.params)
            except InvalidParams as error:
                _log.warn("{method} is malformed: {errors}", method=notification.method, errors=error.data)
                return None
        result = outcome(handler(params, self))
        return result if isinstance(result, Deferred) else None

    def connection_lost(self, reason: AcpConnectionError) -> None:
        """
        See L{IRouter}.
        """

    # ---- answers

    def _answer(self, handler: Bound, params: object, method: Method | None) -> object:
        """
        Call a handler, and make JSON of what it comes to.
        """
        result = outcome(handler(params, self))
        if method is None:
            return result.addCallback(extensions.write) if isinstance(result, Deferred) else extensions.write(result)
        if isinstance(result, Deferred):
            return result.addCallback(self._encode, method)
        return self._encode(result, method)

    def _read(self, params: object, method: Method) -> Any:
        """
        The params of a request, held to the rules.

        @raise InvalidParams: when they do not fit; see L{decode} and
            L{Gates.incoming<acp_twisted.gates.Gates.incoming>}.
        """
        decoded = decode(params, method.params)
        if self._gates is not None:
            self._gates.incoming(decoded, self.own_capabilities)
        return decoded

    def _encode(self, result: object, method: Method) -> object:
        """
        A handler's response as JSON, as far as this peer may have it.

        @raise AcpError: see L{encode_result}.
        """
        return encode_result(self._fitting(result), method)


def encode_result(result: object, method: Method) -> object:
    """
    A handler's response as JSON.  L{None} is a response with nothing in it, where the protocol has such a one.

    @raise AcpError: -32603, when the handler returned nothing where the protocol wants something.
    """
    if result is None:
        if method.empty_result:
            return {}
        raise InternalError(f"The {method.name} handler produced no response")
    if not isinstance(result, cast("type[object]", method.result)):
        _log.error(
            "the {method} handler returned {kind}; its result is a {expected} object",
            method=method.name,
            kind=f"the class {result.__name__}" if isinstance(result, type) else type(result).__name__,
            expected=getattr(method.result, "__name__", method.result),
        )
        raise InternalError()
    return unstructure(result)


__all__ = ["AcpError", "Connection", "decode", "encode_result"]
