"""
One side of a JSON-RPC 2.0 conversation: ids, the tables of requests in both directions, one answer each, and the end.

A message is looked at inside the delivery of its bytes, and no reactor turn passes between them and the handler.  The
peer knows nothing of ACP: an L{IRouter} says which lane a message belongs to, what must be applied before anything else
is looked at, and who handles it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from types import CoroutineType
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import (
    AcpConnectionError,
    AcpError,
    InternalError,
    InvalidRequest,
    RequestCancelled,
)
from acp_twisted.interfaces import IInstrument, ILaneReceiver, IMessageTransport
from acp_twisted.jsonrpc.batches import Batch, Batches, is_meant
from acp_twisted.jsonrpc.calls import Call, Waiters, failed
from acp_twisted.jsonrpc.cancellation import ACP, CancellationDialect, in_force
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.instrument import watch_call, watch_handling, watch_notification, watch_request
from acp_twisted.jsonrpc.lanes import Lanes
from acp_twisted.jsonrpc.messages import (
    EncodeError,
    Id,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    classify,
    error_bytes,
    id_key,
    notification_bytes,
    parse,
    result_bytes,
)
from acp_twisted.jsonrpc.outgoing import Outgoing
from acp_twisted.jsonrpc.router import TAKEN, IRouter
from acp_twisted.jsonrpc.unread import Unread
from acp_twisted.limits import Limits

_log = Logger()

_LOGGED_REASON = 200
"""Characters of a cancellation's reason that are logged."""


@implementer(ILaneReceiver)
class Peer:
    """
    One side of the conversation.

    @ivar instrument: watches what passes, if anybody does.
    @ivar takes_batches: whether an array is a batch, rather than no message: set where a version of the protocol is
        spoken that has them.
    @param router: who handles what arrives.
    @param clock: runs the timeouts.
    @param dialect: how requests are cancelled.
    @param request_timeout: seconds for each request that names no other; 0 is without end.
    @param answers_noise: whether bytes that are no message are answered with an error without id, as an agent does;
        a client only counts them, since an agent's program may print anything (B39).
    """

    def __init__(
        self,
        router: IRouter,
        clock: IReactorTime,
        limits: Limits,
        *,
        dialect: CancellationDialect = ACP,
        request_timeout: float = 60.0,
        answers_noise: bool = True,
    ) -> None:
        self._router = router
        self.clock = clock
        self.limits = limits
        self.dialect = dialect
        self.request_timeout = request_timeout
        self.instrument: IInstrument | None = None
        self.takes_batches = False
        self._transport: IMessageTransport | None = None
        self._lost: AcpConnectionError | None = None
        self._input_over = False
        self._closing = False
        self._incoming: dict[Hashable, IncomingRequest] = {}
        self._batches = Batches(limits, self._send, self.abort)
        self._held: dict[object, Callable[[str], object]] = {}
        self._full = False
        self._room: Waiters[None] = Waiters()
        self._full_lanes: dict[Hashable, Waiters[None]] = {}
        self._closed: Waiters[AcpConnectionError] = Waiters()
        self._drain_timer: IDelayedCall | None = None
        self.lanes = Lanes(limits, self._pause_reading, self._resume_reading, self._flooded)
        self._outgoing = Outgoing(clock, limits, dialect, self.lanes, self._send)
        self._unread = Unread(limits, self._outgoing, answers_noise)

    def route_to(self, router: IRouter) -> None:
        """
        Have another router handle what arrives from now on.
        """
        self._router = router

    # ---- what we send

    def call(
        self,
        method: str,
        params: object = None,
        *,
        timeout: float | None = None,
        max_timeout: float = 0.0,
        wait: bool = False,
        wait_timeout: float = 0.0,
    ) -> Call[Any]:
        """
        Send a request.

        @param timeout: seconds; L{None} is the peer's C{request_timeout}, 0 is without end.
        @param max_timeout: seconds that C{Call.progressed} can't stretch the timeout beyond; 0 is without end.
        @param wait: see L{Call}.
        @return: the result as JSON.  It fails with the peer's L{AcpError}, L{RequestTimedOut
            <acp_twisted.errors.RequestTimedOut>}, L{RequestCancelled}, L{InvalidResponse
            <acp_twisted.errors.InvalidResponse>}, L{LimitExceeded <acp_twisted.errors.LimitExceeded>}, L{EncodeError}
            or L{AcpConnectionError}.
        """
        call = self.prepare(method, wait=wait, wait_timeout=wait_timeout)
        return self.publish(call, params, timeout=timeout, max_timeout=max_timeout)

    def prepare(self, method: str, *, wait: bool = False, wait_timeout: float = 0.0) -> Call[Any]:
        """
        A request that is not sent yet, so that a L{CancelHandle <acp_twisted.jsonrpc.calls.CancelHandle>} of it can be
        handed out first.  Cancelling it before it is published ends it, and nothing is sent.
        """
        return Call(self._outgoing, method, wait, wait_timeout)

    def publish(
        self, call: Call[Any], params: object = None, *, timeout: float | None = None, max_timeout: float = 0.0
    ) -> Call[Any]:
        """
        Send what L{prepare} made, once.
        """
        if not call.called and call.pending.id is None:
            asked = self.lanes.asked(self._router.lane_of(call.pending.method, params), call.context)
            seconds = self.request_timeout if timeout is None else timeout
            if self.instrument is not None:
                params = watch_call(self.instrument, call, params)
            self._outgoing.publish(call, params, asked, seconds, max_timeout)
        return call

    def notify(self, method: str, params: object = None) -> Deferred[None]:
        """
        Send a notification.

        @return: fires when the output has room for more; at once as a rule.  On a link that is gone it fails with
            L{AcpConnectionError}, for those who listen.
        @raise EncodeError: when no JSON can carry the params.
        """
        if self.instrument is not None:
            params = watch_notification(self.instrument, method, params)
        message = notification_bytes(method, params)
        transport = self._transport
        if transport is None or self._lost is not None:
            return failed(self._lost or AcpConnectionError("not connected"))
        transport.send(message)
        if self._full_lanes:
            room = self._full_lanes.get(self._router.lane_of(method, params))
            if room is not None and not self._full:
                return room.wait()
        return self.when_writable()

    def when_writable(self) -> Deferred[None]:
        """
        Fires when the unsent output is below its mark; at once as a rule.
        """
        if self._lost is not None:
            return failed(self._lost)
        return self._room.wait() if self._full else succeed(None)

    def send_cancel_request(self, request_id: Id, reason: str | None = None) -> None:
        """
        Send a cancellation for any id, for who routes requests himself.  Most code wants C{Call.cancel}.
        """
        self._outgoing.send_cancel(request_id, reason)

    @property
    def is_open(self) -> bool:
        """
        Whether anything can be asked: not before the link is there, nor once either side has begun to close it.
        """
        return self._outgoing.closed is None

    @property
    def identity(self) -> object:
        """
        Who is at the other end, where the transport has found that out; else L{None}.
        """
        return getattr(self._transport, "identity", None)

    @property
    def pending_requests(self) -> int:
        """
        How many requests of ours are unanswered.
        """
        return len(self._outgoing)

    @property
    def incoming_requests(self) -> int:
        """
        How many requests of the peer are unanswered, or are answered and go on; see L{hold}.
        """
        return len(self._incoming) + len(self._held)

    # ---- what we receive

    @property
    def stray_messages(self) -> int:
        """
        How many received lines were no messages at all.
        """
        return self._unread.stray

    @property
    def unread_messages(self) -> int:
        """
        How many were meant as messages, and too long or too broken to be read.
        """
        return self._unread.broken

    def connection_made(self, transport: IMessageTransport) -> None:
        """
        See L{IMessageReceiver}.
        """
        self._transport = transport
        if self._lost is None:
            self._outgoing.closed = None
        else:
            transport.close()  # it was shut down before it was connected

    def message_received(self, message: bytes) -> None:
        """
        See L{IMessageReceiver}.  No exception leaves it (rule 7).
        """
        self._take(parse(message), len(message), message, None)

    def _take(self, message: Message, size: int, line: bytes, batch: Batch | None) -> None:
        if isinstance(message, Notification):
            self._notification(message, size)
        elif isinstance(message, Response):
            self._outgoing.answered(message, size)
        elif isinstance(message, Request):
            self._request(message, size, batch)
        elif message.entries and batch is None and self._is_batch(message.entries):
            if len(message.entries) <= self.limits.max_batch_entries:
                self._take_batch(message.entries, size)
            else:
                self._unread.too_many(message.entries, size, self._send)
        else:
            self._unread.malformed(message, line, self._send if batch is None else batch.add)

    def _is_batch(self, entries: list[Any]) -> bool:
        return self.takes_batches and (self._unread.answers_noise or is_meant(entries))

    def _take_batch(self, entries: list[Any], size: int) -> None:
        batch = self._batches.begin()
        share = size // len(entries)
        release = self.hold(_nothing)  # the link is not closed before the answers are out
        for each in entries:
            if self._lost is not None:
                return  # by what one of them did; nobody can be told of the others
            self._take(classify(each, share), share, b"", batch)
        batch.done()
        release()

    def remainder_received(self, message: bytes) -> None:
        """
        See L{IMessageReceiver}: of an unterminated last line only an answer counts (B49).
        """
        parsed = parse(message)
        if isinstance(parsed, Response):
            self._outgoing.answered(parsed, len(message))
        elif isinstance(parsed, Malformed) and self.takes_batches:
            self._unread.answers(parsed.entries, len(message))

    def oversized_received(self, head: bytes, size: int, tail: bytes = b"") -> None:
        """
        See L{IMessageReceiver}.
        """
        self._unread.oversized(head, size, tail, self._send)

    def unanswerable(self, request_id: Id, error: AcpError) -> None:
        """
        For a transport that carries each request by itself, as HTTP does: no answer to this one can come, and its
        caller gets C{error} instead, behind what came before.
        """
        self._outgoing.unanswerable(request_id, error)

    def _notification(self, notification: Notification, size: int) -> None:
        if notification.method == self.dialect.method:
            self._cancellation(notification)
        try:
            if self._router.apply_now(notification):
                return
            key = self._router.lane_of(notification.method, notification.params)
        except BaseException:
            _log.failure("{method} failed", method=notification.method)
            return
        handle = partial(self._router.handle_notification, notification)
        if self.instrument is not None:
            handle = partial(watch_handling, self.instrument, notification, handle)
        self.lanes.notification(key, size, handle)

    def _cancellation(self, notification: Notification) -> None:
        """
        The built-in effect of a cancellation, before anybody else sees it.  One for an unknown, finished or malformed
        id does nothing (X8, X10, C25).
        """
        params = notification.params
        if not isinstance(params, dict) or params.get("requestId") is None:
            return
        request = self._incoming.get(id_key(params["requestId"]))
        if request is None or request.method in self.dialect.never:
            return
        if self.dialect.gives_reason:
            reason = str(params.get("reason"))[:_LOGGED_REASON]
            _log.info("{method} was cancelled by the peer: {reason!r}", method=request.method, reason=reason)
        self._stop(request, self.dialect.method)

    def _stop(self, request: IncomingRequest, trigger: str) -> None:
        try:
            request.stop(trigger)
        except BaseException:
            _log.failure("cancelling {method} failed", method=request.method)
            request.fail(RequestCancelled())

    def _request(self, message: Request, size: int, batch: Batch | None) -> None:
        key = id_key(message.id)
        refusal = self._refusal(message, key)
        if refusal is not None:
            (self._send if batch is None else batch.add)(error_bytes(message.id, refusal))
            return
        request = IncomingRequest(self, message.id, message.method, message.params)
        self._incoming[key] = request
        if batch is not None:
            self._batches.expect(key, batch)
        if self.instrument is None:
            self._serve(request, size)
        else:
            watch_request(self.instrument, request, partial(self._serve, request, size))

    def _serve(self, request: IncomingRequest, size: int) -> None:
        gate = None
        before = in_force.set(request.token)  # also for what waits at the gate, which keeps its context
        try:
            gate = self.lanes.request(self._router.lane_of(request.method, request.params), size)
            result = self._router.handle_request(request, gate)
            if isinstance(result, CoroutineType):
                result = Deferred.fromCoroutine(result)
        except BaseException:  # what a Deferred would catch of a handler, this does
            request.fail_with(Failure())
            if gate is not None:
                gate.addErrback(_nothing).cancel()  # nobody waits there
            return
        finally:
            in_force.reset(before)
        if result is TAKEN:
            return
        if isinstance(result, Deferred):
            request.await_work(result)
        else:
            request.respond(result)

    def _refusal(self, message: Request, key: Hashable) -> AcpError | None:
        """
        Why a request is not even looked at.
        """
        if isinstance(message.id, str) and len(message.id) > self.limits.max_id_length:
            return InvalidRequest("Request id too long", {"maxIdLength": self.limits.max_id_length})
        if key in self._incoming:
            return InvalidRequest("Request id already in use")
        if self._closing:
            return RequestCancelled("Shutting down")
        if len(self._incoming) >= self.limits.max_incoming_requests:
            return InternalError("Too many requests", {"maxIncomingRequests": self.limits.max_incoming_requests})
        return None

    def answer(self, request: IncomingRequest, result: object, error: AcpError | None) -> None:
        """
        For L{IncomingRequest}: its one answer.
        """
        if error is None:
            try:
                message = result_bytes(request.id, result)
            except EncodeError:
                _log.failure("the result of {method} can't be sent", method=request.method)
                error = InternalError()
        if error is not None:
            message = error_bytes(request.id, error)
        request.answered = True
        if request.ended is not None:
            request.ended(error)
        key = id_key(request.id)
        self._incoming.pop(key, None)
        batch = self._batches.take(key)
        if self.dialect.answers or self.dialect.method not in request.token.triggers:
            (self._send if batch is None else batch.answered)(message)
        elif batch is not None:
            batch.done()
        if not self._incoming:
            self._drained()

    def hold(self, stop: Callable[[str], object]) -> Callable[[], None]:
        """
        Something goes on beyond the answer to its request.  When the conversation is to end, it counts as a request
        that has no answer.

        @param stop: called with the trigger, C{"shutdown"}, when there is no more time for it; not when the connection
            is lost, of which the router hears.
        @return: to be called when it is over.
        """
        key = object()
        self._held[key] = stop

        def release() -> None:
            if self._held.pop(key, None) is not None:
                self._drained()

        return release

    # ---- pressure

    def writing_paused(self) -> None:
        """
        See L{IMessageReceiver}.
        """
        self._full = True

    def writing_resumed(self) -> None:
        """
        See L{IMessageReceiver}.
        """
        self._full = False
        self._room.fire(None)

    def lane_writing_paused(self, key: Hashable) -> None:
        """
        See L{ILaneReceiver}.
        """
        self._full_lanes.setdefault(key, Waiters())

    def lane_writing_resumed(self, key: Hashable) -> None:
        """
        See L{ILaneReceiver}.
        """
        room = self._full_lanes.pop(key, None)
        if room is not None:
            room.fire(None)

    def _pause_reading(self) -> None:
        if self._transport is not None and self._lost is None:
            self._transport.pauseProducing()

    def _resume_reading(self) -> None:
        if self._transport is not None and self._lost is None:
            self._transport.resumeProducing()

    def _flooded(self) -> None:
        if self._transport is not None and self._lost is None:
            self._transport.abort("the peer sent more than max_queued_messages allows, and no answer")

    def _send(self, message: bytes) -> None:
        if self._transport is not None and self._lost is None:
            self._transport.send(message)

    # ---- the end

    def input_ended(self) -> None:
        """
        See L{IMessageReceiver}.  No answer can come any more; what was received is still answered, at most
        C{Limits.drain_timeout} seconds later, then the link is closed.
        """
        if self._input_over:
            return
        self._input_over = True
        self._outgoing.fail_all(AcpConnectionError("the peer closed its output"))
        self._drain()

    def _drain(self) -> None:
        if (self._incoming or self._held) and self._lost is None and self._drain_timer is None:
            self._drain_timer = self.clock.callLater(self.limits.drain_timeout, self._drain_over)
        self._drained()

    def _drain_over(self) -> None:
        self._drain_timer = None
        self.stop_requests("shutdown")
        for request in list(self._incoming.values()):
            request.fail(RequestCancelled())  # whoever took it over did not answer it
        self._held.clear()
        self._drained()

    def _drained(self) -> None:
        if (self._input_over or self._closing) and not self._incoming and not self._held and self._lost is None:
            self._stop_drain_timer()
            if self._transport is not None:
                self._transport.close()

    def _stop_drain_timer(self) -> None:
        timer, self._drain_timer = self._drain_timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def stop_requests(self, trigger: str) -> None:
        """
        Cancel every request of the peer, as if it had cancelled it.
        """
        for request in list(self._incoming.values()):
            if not request.answered:  # the end of one may answer another
                self._stop(request, trigger)
        for stop in list(self._held.values()):
            with _log.failuresHandled("stopping what goes on failed"):
                stop(trigger)

    def shutdown(self) -> Deferred[None]:
        """
        See L{IMessageReceiver}: cancel what runs, answer it, flush, close.

        @return: fires when the link is gone.
        """
        gone = self.when_closed().addCallback(_nothing)
        if self._transport is None:
            self.connection_lost(Failure(AcpConnectionError("the connection was closed")))
        elif not self._closing and self._lost is None:
            self._closing = True
            self.stop_requests("shutdown")
            self._outgoing.fail_all(AcpConnectionError("the connection was closed"))
            self._drain()
        return gone

    def abort(self, reason: str) -> None:
        """
        Cut the link now, unsent output and all.
        """
        if self._transport is not None:
            self._transport.abort(reason)

    def when_closed(self) -> Deferred[AcpConnectionError]:
        """
        Fires with the reason when the link is gone.
        """
        if self._lost is not None:
            return succeed(self._lost)
        return self._closed.wait()

    def connection_lost(self, reason: Failure) -> None:
        """
        See L{IMessageReceiver}.  Everything that waits for the link ends here, once.
        """
        if self._lost is not None:
            return
        lost = reason.value
        if not isinstance(lost, AcpConnectionError):
            lost = AcpConnectionError("the connection was lost", reason)
        self._lost = lost
        self._input_over = True
        self._stop_drain_timer()
        requests, self._incoming = [each for each in self._incoming.values() if not each.answered], {}
        self._batches.clear()
        for request in requests:
            request.answered = True  # none can be answered any more, whoever would do it: the end of one may bring it
        for request in requests:
            if request.ended is not None:
                request.ended(lost)
            self._stop(request, "connectionLost")
        self._outgoing.fail_all(lost)
        self.lanes.ended(self.clock, self.limits.drain_timeout)
        self._room.fail(lost)
        full_lanes, self._full_lanes = self._full_lanes, {}
        for room in full_lanes.values():
            room.fail(lost)
        with _log.failuresHandled("telling the router of the end failed"):
            self._router.connection_lost(lost)
        self._held.clear()
        self._closed.fire(lost)


def _nothing(_: object) -> None:
    return None
