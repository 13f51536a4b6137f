"""
What a proxy's handler gets beside the message: both sides, and the means to pass it on.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import orjson
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.connection import decode, encode_result
from acp_twisted.errors import InvalidParams, RequestCancelled
from acp_twisted.handlers import Bound, outcome
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.jsonrpc.messages import EncodeError, Id
from acp_twisted.proxy.calls import ProxyCall
from acp_twisted.proxy.order import Place
from acp_twisted.proxy.passage import FOR_GOOD, PassingRequest, Way
from acp_twisted.proxy.port import Port
from acp_twisted.schema.converter import structure, unstructure
from acp_twisted.schema.methods import Kind, Method
from acp_twisted.schema.vocabulary import Vocabulary, vocabulary_of

_log = Logger()


class _Pass:
    def __repr__(self) -> str:
        return "PASS"


PASS: Final = _Pass()
"""What a handler returns to let a message pass as it came."""

_AS_IT_CAME: Final = object()
_ENDS: Final = FOR_GOOD | {"shutdown"}

Side = Literal["client", "agent"]


class ProxySide:
    """
    One side of a proxy, to send to: the client's or the agent's, whoever stands between.
    """

    def __init__(self, way: Way, vocabulary: Vocabulary | None = None) -> None:
        """
        @param vocabulary: the only words that may be sent; L{None} for those of every version.
        """
        self._way = way
        self._vocabulary = vocabulary

    def call(self, request: object, *, timeout: float = 60.0) -> ProxyCall:
        """
        Send a request of the protocol on the proxy's own account.  No other request's cancellation reaches it, unless
        L{ProxyCall.forward_cancellation_from} says so.

        @param request: an object of the schema; its class names the method.
        @param timeout: seconds; 0 is without end.
        @raise TypeError: when C{request} is no request of the protocol.
        """
        method = self._method(request, "request")
        return ask(self._way, method.name, text_of_params(unstructure(request)), method, timeout, own=True)

    def notify(self, notification: object) -> Deferred[None]:
        """
        Send a notification of the protocol.

        @return: fires when there is room for more.
        @raise TypeError: when C{notification} is no notification of the protocol.
        """
        method = self._method(notification, "notification")
        return self.ext_notification(method.name, unstructure(notification))

    def ext_request(self, method: str, params: object = None, *, timeout: float = 60.0) -> ProxyCall:
        """
        Send a request by its name, with JSON for params and result.
        """
        return ask(self._way, method, text_of_params(params), None, timeout, own=True)

    def ext_notification(self, method: str, params: object = None) -> Deferred[None]:
        """
        Send a notification by its name.
        """
        return tell(self._way, method, text_of_params(params))

    def send_cancel_request(self, request_id: Id) -> None:
        """
        Send C{$/cancel_request} for any id of the link to this side, for who routes requests himself.
        """
        self._way.port.send_cancel_request(request_id)

    def _method(self, message: object, kind: Kind) -> Method:
        words = self._vocabulary or vocabulary_of(type(message))
        method = None if words is None else words.for_params(type(message))
        if method is None or method.kind != kind:
            raise TypeError(f"{type(message).__name__} is no {kind} of the protocol")
        return method


class ProxyContext:
    """
    One message that a handler of a proxy has taken out.

    @ivar client: the client's side.
    @ivar agent: the agent's side.
    @ivar origin: C{"client"} or C{"agent"}: where the message came from.
    @ivar method: its method.
    @ivar params: the JSON text of its params as it came; empty when there are none.
    @ivar token: the request's cancellation; a notification's is never set.
    """

    def __init__(
        self,
        sides: tuple[ProxySide, ProxySide],
        origin: Side,
        onward: Way,
        name: str,
        params: bytes,
        method: Method | None,
        place: Place,
        request: PassingRequest | None = None,
    ) -> None:
        self.client, self.agent = sides
        self.origin: Side = origin
        self.method = name
        self.params = params
        self.token = CancellationToken() if request is None else request.token
        self._onward = onward
        self._schema = method
        self._request = request
        self._forwarded: list[ProxyCall] = []
        self._work: Deferred[object] | None = None
        self._ended = False
        self._place = place
        self._move = _nothing if request is None else place.order.stay(place.lane)

    def forward(self, message: object = _AS_IT_CAME, *, method: str | None = None, timeout: float = 0.0) -> Any:
        """
        Pass the message on, changed or not.

        A request's answer comes in the L{ProxyCall} that this returns.  What cancels the request here cancels the one
        that was passed on, and its answer is still awaited.  A handler that returns the L{ProxyCall}, or the result
        that it gave and that was not changed, has that answer go back byte for byte; so has an error that he lets
        through.

        @param message: what goes on, of the kind that the handler was given; by default the message as it came.
        @param method: another method.
        @param timeout: seconds for a request; 0 is without end.
        @return: a L{ProxyCall} for a request.  For a notification, a Deferred that fires when there is room for more.
        @raise RequestCancelled: when the request is answered already, since its link was lost, say.
        """
        name = self.method if method is None else method
        params = self.params if message is _AS_IT_CAME else self._text(message)
        if self._request is None:
            return tell(self._onward, name, params)
        if self._request.answered:
            raise RequestCancelled("The request is answered")
        call = ask(self._onward, name, params, self._schema if method is None else None, timeout, self.token)
        self._forwarded.append(call)
        self._move()
        return call

    def take_over(self) -> None:
        """
        This request goes no further: what else passes in its session need not wait for it any longer.  (It waits until
        a request is forwarded or answered, so that C{session/cancel} does not get ahead of its prompt.)
        """
        self._move()

    def pass_as_it_came(self) -> None:
        """
        Let the message pass, in its place.
        """
        request = self._request
        if request is None:
            self._place.run(self.forward)
            return
        request.pass_on(self._onward, self.method, self.params)
        self._move()

    def _text(self, message: object) -> bytes:
        if self._schema is None:
            return text_of_params(message)
        return text_of_params(unstructure(message))

    # ---- what the library does with it

    def stop(self, trigger: str) -> None:
        """
        Something cancels the request.  Its handler decides what that means, and what he has forwarded is cancelled;
        only an end of the link ends him too.
        """
        self.token.cancel(trigger)
        if trigger in _ENDS:
            self._ended = True
            if self._work is not None:
                self._work.cancel()
            if self._request is not None:
                self._request.fail(RequestCancelled())
            self._move()

    def answer(self, result: object) -> None:
        """
        The handler of a request has returned.
        """
        assert self._request is not None
        if isinstance(result, ProxyCall) and result.link(self._request):
            self._move()
            return
        if isinstance(result, Deferred):
            self._work = result
            result.addCallbacks(self._finished, self._failed)
            if self._ended:  # from within the handler, which had not returned yet
                result.cancel()
        else:
            self._finished(result)

    def _finished(self, result: object) -> None:
        request = self._request
        assert request is not None
        if result is PASS:
            self.pass_as_it_came()
            return
        if isinstance(result, Deferred):  # of an async def that returned what context.forward() gave
            self.answer(result)
            return
        self._move()
        try:
            method = self._schema
            plain = result if method is None or method.result is None else encode_result(result, method)
            for call in self._forwarded:
                if call.value is result and call.answer is not None and self._same(call, plain):
                    request.give_back(*call.answer)
                    return
            request.respond(plain)
        except BaseException:
            request.fail_with(Failure())

    def _same(self, call: ProxyCall, plain: object) -> bool:
        """
        Whether nobody has changed the result since it came.
        """
        assert call.answer is not None
        as_it_came = call.decoded(orjson.loads(call.answer[1]))
        if self._schema is not None and self._schema.result is not None:
            as_it_came = unstructure(as_it_came)
        return orjson.dumps(as_it_came) == orjson.dumps(plain)

    def _failed(self, failure: Failure) -> None:
        assert self._request is not None
        self._move()
        for call in self._forwarded:
            if call.error is failure.value and call.answer is not None:
                self._request.give_back(*call.answer)
                return
        self._request.fail_with(failure)


class Handling:
    """
    A handler as the interceptor of its method.
    """

    def __init__(
        self,
        handler: Bound,
        sides: tuple[ProxySide, ProxySide],
        origin: Side,
        vocabulary: Vocabulary | None,
    ) -> None:
        """
        @param vocabulary: gives the messages their types; without it they are JSON.
        """
        self._handler = handler
        self._sides = sides
        self._origin: Side = origin
        self._vocabulary = vocabulary

    def request(self, request: PassingRequest, way: Way, method: str, params: bytes, place: Place) -> None:
        """
        See L{Interceptor<acp_twisted.proxy.port.Interceptor>}.
        """
        schema = self._schema(method, "request")
        context = ProxyContext(self._sides, self._origin, way, method, params, schema, place, request)
        request.stop = context.stop
        try:
            result = outcome(self._handler(_message(params, schema), context))
        except BaseException:
            context._failed(Failure())
            return
        context.answer(result)

    def notification(self, way: Way, method: str, params: bytes, place: Place) -> Deferred[object] | None:
        """
        See L{Interceptor<acp_twisted.proxy.port.Interceptor>}.
        """
        schema = self._schema(method, "notification")
        context = ProxyContext(self._sides, self._origin, way, method, params, schema, place)
        try:
            message = _message(params, schema)
        except InvalidParams as error:
            _log.warn("{method} is malformed, and was dropped: {errors}", method=method, errors=error.data)
            return None
        result = outcome(self._handler(message, context))

        def finish(value: object) -> object:
            if value is PASS:
                context.pass_as_it_came()
                return way.port.when_writable()
            return value if isinstance(value, Deferred) else None

        if isinstance(result, Deferred):
            return result.addCallback(finish)
        waiting = finish(result)
        return waiting if isinstance(waiting, Deferred) and not waiting.called else None

    def _schema(self, method: str, kind: Kind) -> Method | None:
        return None if self._vocabulary is None else self._vocabulary.get(method, kind)


def _message(params: bytes, schema: Method | None) -> Any:
    try:
        plain = orjson.loads(params) if params else None
    except ValueError:
        raise InvalidParams(data={"reason": "a number is beyond a double"}) from None
    return plain if schema is None else decode(plain, schema.params)


def text_of_params(params: object) -> bytes:
    """
    Params as JSON text.

    @raise EncodeError: when no JSON can carry them.
    """
    if params is None:
        return b""
    try:
        return orjson.dumps(params)
    except TypeError as error:
        raise EncodeError(str(error)) from None


def ask(
    way: Way,
    name: str,
    params: bytes,
    method: Method | None,
    timeout: float,
    token: CancellationToken | None = None,
    *,
    own: bool = False,
) -> ProxyCall:
    """
    Send a request.

    @param method: gives its result a type; without it that is JSON.
    @param token: whose cancellation it shares.
    @param own: whether it is a question of the proxy's own.
    """

    def typed(result: object) -> object:
        if method is None or method.result is None:
            return result
        return structure({} if result is None else result, method.result)

    call = ProxyCall(way, name, typed)
    call.publish(params, timeout, own=own)
    if token is not None:
        call.forward_cancellation_from(token)
    return call


def _nothing() -> None:
    """A notification holds nobody."""


def tell(way: Way, name: str, params: bytes) -> Deferred[None]:
    """
    Send a notification.

    @return: fires when there is room for more.
    """
    port: Port = way.port
    port.tell(way, name, params)
    return port.when_writable()
