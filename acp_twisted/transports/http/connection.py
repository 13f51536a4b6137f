"""
One connection over Streamable HTTP, as the server has it: messages come in by many POSTs, and go out on one event
stream for the connection and one for each session (protocol §5.2).

It has no socket of its own, so it ends when the client deletes it, when its agent closes it, or when a timer says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from http import HTTPStatus
from typing import Any, Final

from attrs import define, frozen
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, InternalError, LimitExceeded
from acp_twisted.interfaces import ILaneReceiver, IMessageReceiver, IMessageTransport
from acp_twisted.jsonrpc.messages import Id, error_bytes, id_key
from acp_twisted.jsonrpc.routing import Envelope, read_envelope
from acp_twisted.limits import Limits
from acp_twisted.transports.http.gates import Gates
from acp_twisted.transports.http.rules import (
    CONNECTION_ID,
    ENDS_SESSION,
    ON_CONNECTION_STREAM,
    RETRY_SECONDS,
    Ids,
    Refused,
    stream_of_answer,
)
from acp_twisted.transports.http.sse import EventStream
from acp_twisted.transports.patience import Patience

_log = Logger()

_PHRASES: Final = {each.value: each.phrase.encode("ascii") for each in HTTPStatus}
"""Twisted has no words for some of them."""

_OVER: Final = Refused(404, "there is no such connection (any more)")


@frozen
class _Route:
    """
    Where the answer to a posted request goes.
    """

    method: str | None
    stream: str | None
    session: str | None


@define(eq=False)
class Post:
    """
    One POST in its place in the order of arrival.

    @ivar message: its body, once it may be delivered.
    """

    request: Any
    message: bytes | None = None
    envelope: Envelope | None = None
    ids: Ids | None = None
    gone: bool = False


@define(eq=False)
class _Initialize:
    """
    The POST that began the connection, and waits for the agent's answer.
    """

    request: Any
    id: Id
    timer: Patience


@implementer(IMessageTransport)
class HttpConnection:
    """
    One connection.

    C{connection_lost} never reaches the receiver from inside of C{send}, C{close} or C{abort}.

    @ivar id: the connection's id.
    @ivar identity: who made it.
    @ivar address: from where.
    @ivar is_open: whether requests for it are served.
    """

    def __init__(
        self,
        id: str,
        identity: object,
        address: str | None,
        receiver: IMessageReceiver,
        limits: Limits,
        clock: IReactorTime,
        ended: Callable[[HttpConnection], None],
    ) -> None:
        """
        @param ended: called once, when the receiver was told of the end.
        """
        self.id = id
        self.identity = identity
        self.address = address
        self.is_open = True
        self._receiver = receiver
        self._lanes: Any = receiver if ILaneReceiver.providedBy(receiver) else None
        self._limits = limits
        self._clock = clock
        self._ended = ended
        self._streams: dict[str | None, EventStream] = {None: EventStream(None, self, limits, clock)}
        self._known: set[str] = set()
        self._routes: dict[Hashable, _Route] = {}
        self._asked: dict[Hashable, str | None] = {}
        self._delivering: tuple[Hashable, _Route] | None = None
        self._posts: deque[Post] = deque()
        self._posted_bytes = 0
        self._gates = Gates(self)
        self._kept = 0
        self._full_streams = 0
        self._paused_by_receiver = False
        self._held_by_output = False
        self._pumping = False
        self._closing = False
        self._why: AcpConnectionError | None = None
        self._initialize: _Initialize | None = None
        self._used = False
        self._ticker: IDelayedCall | None = None
        self._idle: IDelayedCall | None = None
        self._absence: Patience | None = None

    # ---- what the resource calls

    def begin(self, request: Any, message: bytes, envelope: Envelope) -> None:
        """
        Deliver C{initialize}, and answer its POST with the agent's answer.
        """
        timer = Patience(self._clock, self._limits.initialize_timeout, self._not_initialized)
        self._initialize = _Initialize(request, envelope.id, timer)
        request.notifyFinish().addErrback(self._initializer_gone)
        self._idle = self._clock.callLater(self._limits.idle_timeout, self._check_idle)
        self._receiver.connection_made(self)
        self._message(message)

    def arrive(self, request: Any) -> Post:
        """
        A POST has come, and is delivered behind those before it, once L{ready} is called with it.

        @raise Refused: when too many wait already, because the agent does not keep up.
        """
        limits = self._limits
        if len(self._posts) >= limits.max_queued_messages or self._posted_bytes > limits.max_queued_bytes:
            raise Refused(429, "too many messages wait for the agent", retry_after=RETRY_SECONDS)
        post = Post(request)
        self._posts.append(post)
        request.notifyFinish().addErrback(lambda _: self.forget(post))
        return post

    def ready(self, post: Post, message: bytes, envelope: Envelope, ids: Ids) -> None:
        """
        Deliver a message in its place, and answer its POST then.
        """
        post.message, post.envelope, post.ids = message, envelope, ids
        self._posted_bytes += len(message)
        self._pump()

    def forget(self, post: Post) -> None:
        """
        A POST is not to be delivered: it was refused, or its client went away.
        """
        if not post.gone:
            post.gone = True
            self._posted_bytes -= len(post.message or b"")
            self._pump()

    def open_stream(self, request: Any, session: str | None) -> None:
        """
        Answer a GET with the connection's stream, or a session's.  One that has a reader gets a new one.

        @raise Refused: 429, when there are too many for sessions that nobody has heard of.
        """
        stream = self._streams.get(session)
        if stream is None and session not in self._known:
            provisional = sum(1 for key in self._streams if key is not None and key not in self._known)
            if provisional >= self._limits.max_provisional_streams:
                raise Refused(429, "too many streams of unknown sessions", retry_after=RETRY_SECONDS)
        self._stream(session).attach(request)
        self._tick_on()

    def delete(self) -> None:
        """
        The client has ended the connection.
        """
        self._end(AcpConnectionError("the client deleted the connection"))

    def shutdown(self) -> None:
        """
        The server stops: have the receiver end the conversation in good order.
        """
        self._receiver.shutdown().addErrback(lambda failure: _log.failure("a receiver failed to shut down", failure))

    # ---- IMessageTransport

    @property
    def unsent(self) -> int:
        return self._kept

    def send(self, message: bytes) -> None:
        """
        Put a message on the stream where it belongs.
        """
        if self._closing or self._why is not None:
            return
        self._used = True
        envelope = read_envelope(message)
        if envelope.kind == "response":
            self._answer(message, envelope)
            return
        session = envelope.session_id
        if envelope.cancels is not None:
            # A cancellation goes where its request went, so as not to overtake it.
            session = self._asked.pop(id_key(envelope.cancels), session)
        elif envelope.kind == "request":
            self._asked[id_key(envelope.id)] = session
        if session is not None:
            self._learn(session)
        self._stream(session).push(message)

    def close(self) -> None:
        """
        Take no more, and end each stream behind what waits on it.
        """
        if self._closing or self._why is not None:
            return
        self._closing = True
        self.is_open = False
        self._refuse_posts()
        self._gates.close()
        for stream in list(self._streams.values()):
            stream.close()
        self._end_if_flushed()

    def abort(self, reason: str) -> None:
        self._end(AcpConnectionError(reason))

    def pauseProducing(self) -> None:
        self._paused_by_receiver = True

    def resumeProducing(self) -> None:
        self._paused_by_receiver = False
        self._pump()

    def stopProducing(self) -> None:
        self.close()

    # ---- the way in

    def _pump(self) -> None:
        """
        Deliver what may be delivered, in the order of arrival.
        """
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._posts and not (self._closing or self._why is not None):
                post = self._posts[0]
                if not post.gone and (post.message is None or self._paused_by_receiver or self._held_by_output):
                    break
                self._posts.popleft()
                if not post.gone:
                    self._deliver(post)
        finally:
            self._pumping = False

    def _deliver(self, post: Post) -> None:
        message, envelope, ids = post.message, post.envelope, post.ids
        assert message is not None, "it is ready"
        assert envelope is not None, "it is ready"
        assert ids is not None, "it is ready"
        post.gone = True
        self._posted_bytes -= len(message)
        if self._absence is not None:
            self._absence.reset()
        if envelope.kind == "request":
            route = _Route(envelope.method, stream_of_answer(envelope, ids), ids.session)
            key = id_key(envelope.id)
            # The answer to a second request with the id of one in work is a refusal, and comes at once.
            if key in self._routes:
                self._delivering = (key, route)
            else:
                self._routes[key] = route
        elif envelope.kind == "response":
            self._asked.pop(id_key(envelope.id), None)
        try:
            self._message(message)
        finally:
            self._delivering = None
        accept(post.request)

    def _message(self, message: bytes) -> None:
        self._used = True
        try:
            self._receiver.message_received(message)
        except Exception:
            _log.failure("a receiver failed on a message")

    def _refuse_posts(self) -> None:
        """
        Those that wait will not be delivered any more.
        """
        posts, self._posts = self._posts, deque()
        self._posted_bytes = 0
        for post in posts:
            if not post.gone:
                post.gone = True
                if post.message is not None:
                    refuse(post.request, _OVER)

    # ---- the way out

    def _answer(self, message: bytes, envelope: Envelope) -> None:
        key = id_key(envelope.id)
        begun = self._initialize
        if begun is not None and id_key(begun.id) == key:
            self._initialized(message, envelope)
            return
        if self._delivering is not None and self._delivering[0] == key:
            route: _Route | None = self._delivering[1]
            self._delivering = None
        else:
            route = self._routes.pop(key, None)
        if route is None:
            self._stream(None).push(message)
            return
        if envelope.succeeded:
            self._note_success(envelope, route)
        if route.method in ON_CONNECTION_STREAM and route.session is not None:
            before = self._streams.get(route.session)
            if before is not None:
                self._gates.put(message, before)
                return
        self._stream(route.stream).push(message)

    def _note_success(self, envelope: Envelope, route: _Route) -> None:
        """
        What an answer says of the sessions of this connection.
        """
        if envelope.result_session_id is not None:
            self._learn(envelope.result_session_id)
        if route.method in ENDS_SESSION:
            self._known.discard(route.session or "")
        elif route.session is not None:
            self._learn(route.session)

    def _learn(self, session: str) -> None:
        if len(self._known) < self._limits.max_sessions:
            self._known.add(session)

    def _stream(self, key: str | None) -> EventStream:
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = EventStream(key, self, self._limits, self._clock)
        return stream

    # ---- StreamOwner

    def stream_grown(self, size: int) -> None:
        """
        See L{StreamOwner<acp_twisted.transports.http.sse.StreamOwner>}.
        """
        self._kept += size
        limits = self._limits
        if self._kept > limits.max_kept_bytes and self._why is None:
            why = f"the client does not read: {self._kept} bytes wait, Limits.max_kept_bytes is {limits.max_kept_bytes}"
            self._end(AcpConnectionError(why, Failure(LimitExceeded(why))))
        elif self._kept > limits.pause_reading_bytes and not self._held_by_output:
            self._held_by_output = True
            self._receiver.writing_paused()
        elif self._held_by_output and self._kept <= limits.pause_reading_bytes // 2:
            self._held_by_output = False
            if self._why is None:
                self._receiver.writing_resumed()
                self._pump()

    def stream_moved(self, stream: EventStream) -> None:
        """
        See L{StreamOwner<acp_twisted.transports.http.sse.StreamOwner>}.
        """
        if self._gates:
            self._gates.look()
        key = stream.key
        if key is not None and stream.is_empty and not stream.has_reader and self._streams.get(key) is stream:
            del self._streams[key]
        if self._closing:
            self._end_if_flushed()
        elif self._why is None and self._initialize is None:
            self._mind_absence()

    def stream_full(self, stream: EventStream, full: bool) -> None:
        """
        See L{StreamOwner<acp_twisted.transports.http.sse.StreamOwner>}.
        """
        if self._why is not None:
            return
        if self._lanes is not None:
            (self._lanes.lane_writing_paused if full else self._lanes.lane_writing_resumed)(stream.key)
            return
        self._full_streams += 1 if full else -1
        if full and self._full_streams == 1:
            self._receiver.writing_paused()
        elif not full and not self._full_streams:
            self._receiver.writing_resumed()

    def stream_overdue(self, stream: EventStream) -> None:
        """
        See L{StreamOwner<acp_twisted.transports.http.sse.StreamOwner>}.
        """
        what = "the connection's event stream" if stream.key is None else "a session's event stream"
        why = f"nobody has read {what} for {self._limits.stall_timeout:g} s, and it is full (Limits.stall_timeout)"
        self._end(AcpConnectionError(why, Failure(LimitExceeded(why))))

    def gate_opened(self, message: bytes, behind: int) -> None:
        """
        See L{GateOwner<acp_twisted.transports.http.gates.GateOwner>}.
        """
        self._stream(None).push(message, behind)

    # ---- initialize

    def _initialized(self, message: bytes, envelope: Envelope) -> None:
        """
        The agent has answered C{initialize}.  An error is an answer too, but makes no connection.
        """
        begun = self._initialize
        assert begun is not None, "asked by _answer"
        self._initialize = None
        begun.timer.cancel()
        if envelope.succeeded:
            begun.request.setHeader(CONNECTION_ID.encode("ascii"), self.id.encode("ascii"))
            respond(begun.request, 200, message, b"application/json")
            self._mind_absence()
        else:
            respond(begun.request, 200, message, b"application/json")
            self._end(AcpConnectionError("the agent refused to initialize"))

    def _not_initialized(self) -> None:
        begun, self._initialize = self._initialize, None
        if begun is not None:
            _fail_initialize(begun, 500, "the agent did not answer in time")
            seconds = self._limits.initialize_timeout
            self._end(AcpConnectionError(f"initialize took more than {seconds:g} s (Limits.initialize_timeout)"))

    def _initializer_gone(self, _: Failure) -> None:
        begun, self._initialize = self._initialize, None
        if begun is not None:
            begun.timer.cancel()
            self._end(AcpConnectionError("the client went away before the agent answered initialize"))

    # ---- timers

    def _mind_absence(self) -> None:
        """
        The client is there as long as it reads a stream, or posts.
        """
        present = any(stream.has_reader for stream in self._streams.values())
        if present and self._absence is not None:
            self._absence.cancel()
            self._absence = None
        elif not present and self._absence is None:
            self._absence = Patience(self._clock, self._limits.absence_timeout, self._absent)

    def _absent(self) -> None:
        self._absence = None
        seconds = self._limits.absence_timeout
        self._end(AcpConnectionError(f"the client had no event stream open for {seconds:g} s (Limits.absence_timeout)"))

    def _check_idle(self) -> None:
        """
        Nothing was said for long; but a turn that is quiet for long is none of the client's faults (B83).
        """
        self._idle = None
        busy = self._lanes is not None and self._lanes.incoming_requests > 0
        if self._used or busy:
            self._used = False
            self._idle = self._clock.callLater(self._limits.idle_timeout, self._check_idle)
        elif not self._closing:
            _log.info("an HTTP connection was idle for {seconds:g} s", seconds=self._limits.idle_timeout)
            self.shutdown()

    def _tick_on(self) -> None:
        if self._ticker is None and self._limits.ping_interval and self._why is None:
            self._ticker = self._clock.callLater(self._limits.ping_interval, self._tick)

    def _tick(self) -> None:
        """
        Comments, so that proxies do not take a quiet stream for a dead one, and that a dead one is noticed.
        """
        self._ticker = None
        read = [stream for stream in self._streams.values() if stream.has_reader]
        for stream in read:
            stream.keep_alive()
        if read:
            self._tick_on()

    # ---- the end

    def _end_if_flushed(self) -> None:
        if self._why is None and not any(stream.has_reader for stream in self._streams.values()):
            self._end(AcpConnectionError("the connection was closed"))

    def _end(self, why: AcpConnectionError) -> None:
        """
        End the connection now; the receiver is told in a later turn of the reactor.
        """
        if self._why is not None:
            return
        self._why = why
        self.is_open = False
        begun, self._initialize = self._initialize, None
        if begun is not None:
            begun.timer.cancel()
            _fail_initialize(begun, 503 if self._closing else 500, "the connection ended before it began")
        for timer in (self._ticker, self._idle, self._absence):
            if timer is not None and timer.active():
                timer.cancel()
        self._ticker = self._idle = self._absence = None
        self._refuse_posts()
        self._gates.drop()
        for stream in list(self._streams.values()):
            stream.drop()
        self._streams = {}
        self._routes = {}
        self._asked = {}
        self._clock.callLater(0, self._tell, why)

    def _tell(self, why: AcpConnectionError) -> None:
        with _log.failuresHandled("a receiver failed at the end of its connection"):
            self._receiver.connection_lost(Failure(why))
        self._ended(self)


def respond(request: Any, status: int, body: bytes = b"", content_type: bytes = b"text/plain; charset=utf-8") -> None:
    """
    Answer a request, if anybody is still there.
    """
    if getattr(request, "channel", None) is None:
        return
    request.setResponseCode(status, _PHRASES.get(status))
    if body:
        request.setHeader(b"content-type", content_type)
    if status != 204:
        request.setHeader(b"content-length", b"%d" % len(body))
    request.setHeader(b"cache-control", b"no-store")
    request.write(body)
    request.finish()


def accept(request: Any) -> None:
    """
    The message was delivered; what comes of it goes on an event stream.
    """
    respond(request, 202)


def refuse(request: Any, why: Refused) -> None:
    """
    Answer a request with the reason why nothing comes of it.
    """
    for name, value in why.headers.items():
        request.setHeader(name.encode("ascii"), value)
    respond(request, why.status, why.text.encode("utf-8") + b"\n")


def _fail_initialize(begun: _Initialize, status: int, why: str) -> None:
    respond(begun.request, status, error_bytes(begun.id, InternalError(why)), b"application/json")
