"""
One link of a proxy or a conductor: what comes in goes out somewhere else, as bytes.

It is a L{Peer<acp_twisted.jsonrpc.peer.Peer>}, with that one's tables of received requests, its lanes, its bounds and
its end.  But a message is not decoded on its way: its envelope is cut off, another one is put on, and what was inside
stays as it came.  Only what an interceptor waits for is decoded, and what arrives while an interceptor of a
notification is at work, which has to wait its turn then.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, Protocol

import orjson
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import (
    AcpConnectionError,
    AcpError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
)
from acp_twisted.jsonrpc.cancellation import ACP, in_force
from acp_twisted.jsonrpc.framing import HEAD_BYTES
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import (
    Id,
    Malformed,
    Notification,
    Request,
    Response,
    id_from_tail,
    id_key,
    parse,
    read_head,
)
from acp_twisted.jsonrpc.router import IRouter
from acp_twisted.jsonrpc.splice import (
    ERROR,
    NOTIFICATION,
    REQUEST,
    RESULT,
    envelope,
    error_line,
    notification_line,
    request_line,
    result_line,
    split,
    split_envelope,
    split_enveloped,
)
from acp_twisted.limits import Limits
from acp_twisted.proxy.order import Order, Place
from acp_twisted.proxy.passage import Passage, PassingRequest, Way, error_text
from acp_twisted.proxy.pressure import PressedPeer
from acp_twisted.proxy.spelling import INITIALIZE, OLDER, PRESENT, RESERVED, SUCCESSOR, Spelling

_log = Logger()

_CANCEL = ACP.method
_MAY_BE_WRAPPED: Final = b"roxy/successor"
_BEGINNING: Final = 80
_OTHER = {each.initialize: each for each in (PRESENT, OLDER)}


class Interceptor(Protocol):
    """
    Who takes messages of one method out of the stream.
    """

    def request(self, request: PassingRequest, way: Way, method: str, params: bytes, place: Place) -> None:
        """
        Handle a request, and answer it or pass it on, now or later.
        """

    def notification(self, way: Way, method: str, params: bytes, place: Place) -> Deferred[object] | None:
        """
        Handle a notification; its lane waits for the Deferred, where there is one.
        """


Interceptors = Mapping[tuple[bool, int, "str | None"], Interceptor]
"""
By where a message comes from (true: from the successor), its kind, and its method; L{None} stands for any other method.
"""


class PortOwner(Protocol):
    """
    Who a port belongs to.
    """

    def port_lost(self, port: Port, reason: AcpConnectionError) -> None:
        """
        The link is gone; every request on it has been told.
        """

    def why_lost(self, port: Port, reason: AcpConnectionError) -> AcpError:
        """
        What those are answered who wait for something from this link.
        """

    def finished(self, port: Port) -> bool:
        """
        The conversation on this link has ended in good order, and everything was answered: whether it may be closed
        now.  If not, the owner closes it.
        """

    def admits(self, port: Port, request: PassingRequest, method: str, params: bytes) -> bool:
        """
        Whether a request may pass now; if not, the owner answers it, or passes it on later.
        """


class Port(PressedPeer):
    """
    One link.

    @ivar onward: where what comes in goes: what came as it is (false), and what came in an envelope (true).
    @ivar interceptors: who takes what out.
    @ivar spelling: of what is sent here.
    @ivar refusing: what every further request is answered, once that is so.
    @ivar order: what waits behind the requests that handlers have.
    @ivar leads: whether the other end tells us that we are a proxy, by the name that it gives C{initialize}.
    """

    def __init__(
        self,
        owner: PortOwner,
        clock: IReactorTime,
        limits: Limits,
        *,
        answers_noise: bool = True,
        spelling: Spelling = PRESENT,
        leads: bool = False,
    ) -> None:
        super().__init__(_Below(self), clock, limits, request_timeout=0.0, answers_noise=answers_noise)
        self.onward: dict[bool, Way] = {}
        self.interceptors: Interceptors = {}
        self.spelling = spelling
        self.leads = leads
        self.refusing: AcpError | None = None
        self._owner = owner
        self._passages: dict[int, Passage] = {}
        self.order = Order(limits, lambda: self.pause_for("order"), lambda: self.resume_for("order"))

    # ---- what comes in

    def message_received(self, message: bytes) -> None:
        """
        See L{IMessageReceiver<acp_twisted.interfaces.IMessageReceiver>}.  No exception leaves it (rule 7).
        """
        if _MAY_BE_WRAPPED in message[:_BEGINNING]:
            wrapped = split_enveloped(message, SUCCESSOR)
            if wrapped is not None:
                is_request, request_id, method, body = wrapped
                if is_request:
                    self._ask(request_id, method, body, len(message), True)
                else:
                    self._note(method, body, len(message), True)
                return
        parts = split(message)
        if parts is None:
            self._no_message(message)
            return
        kind, request_id, method, body = parts
        if kind == NOTIFICATION:
            self._note(method, body, len(message))
        elif kind == REQUEST:
            self._ask(request_id, method, body, len(message))
        else:
            self._answer(kind, request_id, body, message)

    def remainder_received(self, message: bytes) -> None:
        """
        See L{IMessageReceiver<acp_twisted.interfaces.IMessageReceiver>}: only an answer counts (B49).
        """
        parts = split(message)
        if parts is not None and parts[0] in (RESULT, ERROR):
            self._answer(parts[0], parts[1], parts[3], message)

    def _note(self, method: str, body: bytes, size: int, wrapped: bool = False) -> None:
        if not wrapped and method in SUCCESSOR:
            wrapped = True
            inner = split_envelope(body)
            if inner is None:
                _log.warn("a malformed {method} was dropped", method=method)
                return
            method, body = inner
        if method == _CANCEL:
            self._cancelled(body)
            return
        way = self.onward.get(wrapped)
        if way is None or method in RESERVED:
            _log.warn("{method} leads nowhere from here", method=method)
            return
        if not self.interceptors and not len(self.lanes):
            way.port.tell(way, method, body)
            return
        found = self._interceptor(wrapped, NOTIFICATION, method)
        onward = way
        place = Place(self.order, (wrapped, session_of(body)), size)

        def handle() -> Deferred[object] | None:
            if found is not None:
                return found.notification(onward, method, body, place)
            place.run(lambda: onward.port.tell(onward, method, body))
            return None

        self.lanes.notification(place.lane, size, handle)

    def _cancelled(self, body: bytes) -> None:
        """
        A cancellation concerns this link alone.  It takes effect here, in an envelope or not, and is never passed on
        as it is: its id means nothing to anybody else.
        """
        self._cancellation(Notification(_CANCEL, decoded_or_none(body)))
        found = self.interceptors.get((False, NOTIFICATION, _CANCEL))
        if found is not None:
            with _log.failuresHandled("a handler of cancellations failed"):
                handled = found.notification(Way(self), _CANCEL, body, Place(self.order, None))
                if handled is not None:
                    handled.addErrback(lambda failure: _log.failure("a handler of cancellations failed", failure))

    def _ask(self, request_id: Id, method: str, body: bytes, size: int, wrapped: bool = False) -> None:
        key = id_key(request_id)
        refusal = self._refusal(Request(request_id, method), key)
        if not wrapped and method in SUCCESSOR:
            wrapped = True
            inner = split_envelope(body)
            if inner is None:
                bad = InvalidParams(data={"reason": "no envelope: a method, and params that are its own"})
                refusal = refusal or bad
            else:
                method, body = inner
        elif self.leads and not wrapped and method in INITIALIZE:
            self.spelling = self.spelling if method == self.spelling.initialize else _OTHER[method]
            method = "initialize"
        elif self.leads and not wrapped and method == "initialize":
            refusal = InvalidRequest("This is a proxy, which needs a successor", {"method": method})
        way = self.onward.get(wrapped)
        if refusal is None and (way is None or method in RESERVED):
            refusal = InvalidRequest("The message leads nowhere from here", {"method": method})
        if refusal is not None or way is None:
            self._send(error_line(request_id, error_text(refusal or InternalError())))
            return
        request = PassingRequest(self, request_id, method)
        self._incoming[key] = request
        if not self._owner.admits(self, request, method, body):
            return
        if not self.interceptors and not len(self.lanes):
            request.pass_on(way, method, body)
        else:
            self._in_turn(request, way, body, wrapped, size)

    def _in_turn(self, request: PassingRequest, way: Way, body: bytes, wrapped: bool, size: int) -> None:
        """
        Pass a request on, or have it handled, behind the notifications before it.
        """
        found = self._interceptor(wrapped, REQUEST, request.method)
        place = Place(self.order, (wrapped, session_of(body)), size)

        def go(_: object) -> None:
            if request.answered:  # it was cancelled while it waited
                return
            if found is None:
                place.run(lambda: request.pass_on(way, request.method, body))
            else:
                found.request(request, way, request.method, body, place)

        before = in_force.set(request.token)  # also for what waits at the gate, which keeps its context
        try:
            gate = self.lanes.request(place.lane, size)
            if gate is None:
                go(None)
            else:
                gate.addCallback(go).addErrback(request.fail_with)
        except BaseException:
            request.fail_with(Failure())
        finally:
            in_force.reset(before)

    def _refusal(self, message: Request, key: Hashable) -> AcpError | None:
        return self.refusing or super()._refusal(message, key)

    def _interceptor(self, wrapped: bool, kind: int, method: str) -> Interceptor | None:
        found = self.interceptors.get((wrapped, kind, method))
        return found or self.interceptors.get((wrapped, kind, None))

    def _answer(self, kind: int, request_id: Id, body: bytes, message: bytes) -> None:
        passage = self._taken_off(request_id)
        if passage is None:
            parsed = parse(message)
            if isinstance(parsed, Response):
                self._outgoing.answered(parsed, len(message))
            return
        asked = passage.asked
        self._over(passage)
        if asked is None:
            passage.answered(kind, body)
        else:
            self.lanes.response(asked, len(message), lambda: passage.answered(kind, body))

    def _no_message(self, message: bytes) -> None:
        """
        What can't be passed on: noise, something broken, an answer without anything in it.
        """
        parsed = parse(message)
        passage = None
        if isinstance(parsed, Response):
            passage = self._taken_off(parsed.id)
        elif isinstance(parsed, Malformed) and not parsed.is_json:
            known = read_head(message[:HEAD_BYTES])
            if known.is_response and known.has_id:
                passage = self._taken_off(known.id)
        if passage is None:
            super().message_received(message)
        else:
            self._unread.broken += 1
            self._broken(passage, InternalError("The answer can't be read"))

    def _broken(self, passage: Passage, error: AcpError) -> None:
        """
        The next hop has answered, with nothing that could be given back.
        """
        _log.warn("an answer to {method} could not be passed on: {error}", method=passage.method, error=error)
        self._over(passage)
        passage.answered(ERROR, error_text(error))

    def oversized_received(self, head: bytes, size: int, tail: bytes = b"") -> None:
        """
        See L{IMessageReceiver<acp_twisted.interfaces.IMessageReceiver>}.
        """
        known = read_head(head)
        if known.is_response:
            passage = self._taken_off(known.id if known.has_id else id_from_tail(tail))
            if passage is not None:
                self._unread.broken += 1
                limit = self.limits.max_message_bytes
                self._broken(passage, InternalError("The answer is too large", {"maxMessageBytes": limit}))
                return
        super().oversized_received(head, size, tail)

    def unanswerable(self, request_id: Id, error: AcpError) -> None:
        """
        See L{Peer.unanswerable<acp_twisted.jsonrpc.peer.Peer.unanswerable>}.
        """
        passage = self._taken_off(request_id)
        if passage is None:
            super().unanswerable(request_id, error)
        else:
            self._broken(passage, InternalError(error.message))

    # ---- what goes out

    def tell(self, way: Way, method: str, params: bytes) -> None:
        """
        Send a notification.

        @param params: JSON text, or empty.
        """
        if way.wrapped:
            self._send(notification_line(self.spelling.successor, envelope(method, params)))
        else:
            self._send(notification_line(method, params))

    def ask(self, passage: Passage, params: bytes) -> None:
        """
        Send a request, and settle C{passage} with the answer.  Whatever prevents that settles it too.
        """
        prevented = self._prevents()
        if prevented is not None:
            passage.over = True
            passage.answered(ERROR, error_text(prevented))
            return
        number = passage.id = self._outgoing.new_id()
        self._passages[number] = passage
        way, method = passage.way, passage.method
        if method == "initialize":
            method = way.initialize
        if way.wrapped:
            line = request_line(number, self.spelling.successor, envelope(method, params))
        else:
            line = request_line(number, method, params)
        if self.interceptors and passage.asked is None:
            passage.asked = self.lanes.asked((way.wrapped, session_of(params)), passage.keep_context())
        self._send(line)

    def send_cancellation(self, passage: Passage) -> None:
        """
        For L{Passage}: ask that it be cancelled.
        """
        params = orjson.dumps(ACP.params(passage.id, None))
        wrapped = passage.way.wrapped and self.spelling.wraps_cancellation
        self.tell(Way(self, wrapped), _CANCEL, params)

    def forget(self, passage: Passage) -> None:
        """
        For L{Passage}: drop its answer, if it still comes, without a word.
        """
        number = passage.id
        if not passage.over and number is not None and self._passages.pop(number, None) is not None:
            self._outgoing.given_up(number)
        self._over(passage)

    def answer_with(self, request: IncomingRequest, kind: int, body: bytes) -> None:
        """
        The one answer to a request, as bytes.
        """
        request.answered = True
        self._incoming.pop(id_key(request.id), None)
        self._send(result_line(request.id, body) if kind == RESULT else error_line(request.id, body))
        if not self._incoming:
            self._drained()

    def _prevents(self) -> AcpError | None:
        if self._outgoing.closed is not None:
            return self._owner.why_lost(self, self._outgoing.closed)
        if len(self._passages) + len(self._outgoing) >= self.limits.max_outgoing_requests:
            limit = self.limits.max_outgoing_requests
            return InternalError("Too many requests", {"maxOutgoingRequests": limit})
        return None

    def _taken_off(self, given: Id) -> Passage | None:
        if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 19:
            given = int(given) if str(int(given)) == given else None  # as Outgoing does (B47)
        return self._passages.pop(given, None) if type(given) is int else None

    def _over(self, passage: Passage) -> None:
        passage.over = True
        asked, passage.asked = passage.asked, None
        if asked is not None:
            self.lanes.settled(asked)

    @property
    def pending_requests(self) -> int:
        """
        How many requests of ours are unanswered.
        """
        return len(self._passages) + super().pending_requests

    # ---- the end

    def input_ended(self) -> None:
        """
        See L{IMessageReceiver<acp_twisted.interfaces.IMessageReceiver>}.
        """
        if not self._input_over:
            self._fail_passages(AcpConnectionError("the peer closed its output"))
        super().input_ended()

    def _drained(self) -> None:
        over = (self._input_over or self._closing) and not self._incoming and self._lost is None
        if over and not self._owner.finished(self):
            self._stop_drain_timer()
            return
        super()._drained()

    def give_up_all(self, why: AcpError) -> None:
        """
        Answer everything that is unanswered here with an error, and wait for none of it any more.
        """
        for request in list(self._incoming.values()):
            if isinstance(request, PassingRequest):
                request.give_up(why)

    def close_now(self) -> None:
        """
        Close behind what was sent.
        """
        if self._transport is not None and self._lost is None:
            self._transport.close()

    def connection_lost(self, reason: Failure) -> None:
        """
        See L{IMessageReceiver<acp_twisted.interfaces.IMessageReceiver>}.
        """
        if self._lost is not None:
            return
        lost = reason.value
        if not isinstance(lost, AcpConnectionError):
            lost = AcpConnectionError("the connection was lost", reason)
        self._outgoing.closed = lost
        self._fail_passages(lost)
        super().connection_lost(Failure(lost))

    def _fail_passages(self, reason: AcpConnectionError) -> None:
        passages, self._passages = self._passages, {}
        if not passages:
            return
        body = error_text(self._owner.why_lost(self, reason))
        for passage in passages.values():
            self._over(passage)
            passage.answered(ERROR, body)


@implementer(IRouter)
class _Below:
    """
    What a L{Peer} asks of the room above it, for a port.  It is asked little, for a port looks at messages itself.
    """

    def __init__(self, port: Port) -> None:
        self._port = port

    def lane_of(self, method: str, params: object) -> Hashable:
        return None

    def apply_now(self, notification: Notification) -> bool:
        return True

    def handle_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        raise MethodNotFound(data={"method": request.method})

    def handle_notification(self, notification: Notification) -> Deferred[object] | None:
        return None

    def connection_lost(self, reason: AcpConnectionError) -> None:
        self._port._owner.port_lost(self._port, reason)


def session_of(params: bytes) -> str | None:
    """
    The session that a message belongs to, by its params' text.
    """
    decoded = decoded_or_none(params)
    session_id = decoded.get("sessionId") if isinstance(decoded, dict) else None
    return session_id if isinstance(session_id, str) else None


def decoded_or_none(text: bytes) -> Any:
    """
    The JSON of a text; L{None} for an empty one, and for one with a number beyond a double.
    """
    try:
        return orjson.loads(text) if text else None
    except ValueError:
        return None
