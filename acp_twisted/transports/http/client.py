"""
The client's side of Streamable HTTP: one connection to a remote agent, over as many requests as it takes.

What goes out is POSTed, each message by itself; what comes in is read from event streams, one for the connection and
one for each session (protocol 5.2).
"""

from __future__ import annotations

from typing import Final

from attrs import define
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, HttpStatusError, InternalError, LimitExceeded
from acp_twisted.interfaces import IMessageReceiver, IMessageTransport
from acp_twisted.jsonrpc.framing import Oversized
from acp_twisted.jsonrpc.messages import Id, Response, error_bytes, parse
from acp_twisted.limits import Limits
from acp_twisted.transports.http.answers import JSON, Answer, status_words
from acp_twisted.transports.http.client_holds import Holds
from acp_twisted.transports.http.client_posts import CONNECTION, Post, Posts
from acp_twisted.transports.http.client_routes import (
    CANCEL,
    INITIALIZE,
    Asked,
    Route,
    Routes,
    header_value,
    session_in_result,
)
from acp_twisted.transports.http.client_streams import EventStream
from acp_twisted.transports.http.cookies import Cookies
from acp_twisted.transports.http.exchange import Exchange, HeaderList, HttpLayer, ResponseReader, words
from acp_twisted.transports.http.inbox import Inbox
from acp_twisted.transports.patience import Patience

_log = Logger()

CONNECTION_ID: Final = b"Acp-Connection-Id"
SESSION_ID: Final = b"Acp-Session-Id"
PROTOCOL_VERSION: Final = b"Acp-Protocol-Version"

_DEAD: Final = frozenset({401, 403, 404, 410})
"""The server does not know us, or not any more."""


@define(eq=False)
class _Session:
    """
    A session, as far as its way goes.

    @ivar stream: L{None} when the server has refused to open it.
    @ivar refused: the status with which it did so.
    """

    id: str
    stream: EventStream | None = None
    refused: int = 0


@implementer(IMessageTransport)
class HttpClientTransport:
    """
    One connection to a remote agent.

    C{connection_lost} gets an L{AcpConnectionError}, which is an L{HttpStatusError} when a status was the end of it.
    It never comes from inside L{send}, L{close} or L{abort}.  A status that concerns one request only is that request's
    answer: an error -32603 whose data holds the status and what the server said.

    @ivar receiver: what the messages go to.
    @ivar connection_id: what the server calls this connection, once it has.
    """

    def __init__(
        self,
        layer: HttpLayer,
        receiver: IMessageReceiver,
        limits: Limits,
        clock: IReactorTime,
        headers: HeaderList,
        cookies: Cookies,
    ) -> None:
        """
        @param headers: the user's, which go with every request.
        """
        self.receiver = receiver
        self.connection_id: bytes | None = None
        self._layer = layer
        self._limits = limits
        self._clock = clock
        ours = {name.lower() for name in (CONNECTION_ID, SESSION_ID, PROTOCOL_VERSION, b"Content-Type", b"Accept")}
        self._user_headers = [(name, value) for name, value in headers if name.lower() not in ours]
        self._cookies = cookies
        self._routes = Routes(limits)
        self._inbox = Inbox(receiver)
        self._holds = Holds(self._inbox, limits, clock)
        self._posts = Posts(self, limits, clock)
        self._stream: EventStream | None = None
        self._sessions: dict[str, _Session] = {}
        self._initialize: Post | None = None
        self._initialize_exchange: Exchange | None = None
        self._version: bytes | None = None
        self._paused_by_receiver = False
        self._held_by_output = False
        self._closing = False
        self._ending = False
        self._deleting: tuple[Exchange, IDelayedCall] | None = None
        self._deadline: Patience | None = None
        self._why: AcpConnectionError | None = None

    def start(self) -> None:
        """
        Begin: the receiver may send.
        """
        self.receiver.connection_made(self)

    # ---- IMessageTransport

    @property
    def unsent(self) -> int:
        return self._posts.unsent

    def send(self, message: bytes) -> None:
        """
        POST one message, behind those of its session.
        """
        if self._closing or self._ending:
            return
        route = self._routes.outgoing(message)
        if route.name == CANCEL and self._initialize is not None and route.about == self._initialize.id:
            return  # nothing of a connection can be named before there is one
        post = Post(message, route.lane, route.session_id, route.name, route.wants_answer, route.id)
        if route.name == INITIALIZE and self._initialize is None:
            self._initialize = post
            self._posts.put(post, released=True)
        elif route.session_id is not None:
            self._send_in_session(post, route)
        else:
            self._posts.put(post, released=self._may_send(route.lane))

    def close(self) -> None:
        """
        Deliver nothing more, send what waits, and tell the server.
        """
        if self._closing or self._ending:
            return
        self._closing = True
        self._inbox.stop()
        self._holds.forget()
        # Read on, and throw away what comes: a server that is stuck writing to us would not take our last messages.
        self._paused_by_receiver = self._held_by_output = False
        self._set_reading(True)
        if self.connection_id is None:
            self._goodbye()
            return
        self._deadline = Patience(self._clock, self._limits.stall_timeout, self._goodbye)
        if self._posts.idle:
            self._goodbye()

    def abort(self, reason: str) -> None:
        """
        Close now; what waits is lost.  The server is told, if that takes no time.

        @param reason: the text of the receiver's C{connection_lost}.
        """
        self._cut(AcpConnectionError(reason))

    def pauseProducing(self) -> None:
        if not self._closing:
            self._paused_by_receiver = True
            self._set_reading(False)

    def resumeProducing(self) -> None:
        if not self._closing:
            self._paused_by_receiver = False
            self._set_reading(True)

    def stopProducing(self) -> None:
        self.close()

    # ---- PostOwner

    def output_paused(self) -> None:
        self.receiver.writing_paused()

    def output_resumed(self) -> None:
        self.receiver.writing_resumed()

    def output_held(self, held: bool) -> None:
        if not self._closing:
            self._held_by_output = held
            self._set_reading(not held)

    def output_overdue(self, reason: LimitExceeded) -> None:
        self._cut(AcpConnectionError(reason.message, Failure(reason)))

    def post_send(self, post: Post, reader: ResponseReader) -> Exchange:
        headers = [(b"Content-Type", JSON), (b"Accept", b"application/json, text/event-stream")]
        session_id = post.session_id
        if session_id is not None and self._names_session(session_id):
            headers.append((SESSION_ID, header_value(session_id) or b""))
        return self._ask(b"POST", headers, post.message, reader)

    def post_headers(self, headers: dict[bytes, list[bytes]]) -> None:
        self._cookies.store(headers.get(b"set-cookie", ()))

    def post_brought(self, post: Post, answer: Answer, message: bytes | Oversized) -> None:
        if post is self._initialize and self.connection_id is None:
            self._connected(answer, message)
        else:
            self._arrived(None, message)

    def post_answered(self, post: Post, answer: Answer, failure: Failure | None) -> None:
        if self._ending:
            return
        if failure is not None or not answer.status:
            why = "no answer" if failure is None else words(failure)
            self._cut(AcpConnectionError(f"the POST of {post.name} failed: {why}", failure))
        elif post is self._initialize:
            self._initialize_answered(post, answer)
        elif not answer.succeeded:
            self._refused(post, answer)

    def post_unanswered(self, post: Post) -> None:
        # The time of initialize is its caller's, and a server may wait with its answer until we read again.
        if post is not self._initialize and not (self._paused_by_receiver or self._held_by_output):
            seconds = self._limits.stall_timeout
            self._cut(
                AcpConnectionError(f"the POST of {post.name} was not answered for {seconds:g} s (Limits.stall_timeout)")
            )

    def posts_drained(self) -> None:
        if self._closing:
            self._goodbye()

    # ---- StreamOwner

    def stream_headers(self, headers: dict[bytes, list[bytes]]) -> None:
        self._cookies.store(headers.get(b"set-cookie", ()))

    def stream_brought(self, stream: EventStream, message: bytes | Oversized, behind: int) -> None:
        self._arrived(stream, message, behind)

    def stream_marked(self, stream: EventStream) -> None:
        self._holds.marked(stream)

    def stream_ready(self, stream: EventStream) -> None:
        if stream.session_id is not None:
            self._posts.release(stream.session_id)
            return
        self._posts.release(CONNECTION)
        for session_id in list(self._sessions):
            if self._may_send(session_id):
                self._posts.release(session_id)

    def stream_refused(self, stream: EventStream, status: int, text: bytes) -> None:
        session_id = stream.session_id
        if session_id is None or status in (401, 403, 410):
            self._cut(_status_error("the event stream", status))
            return
        _log.info("the stream of a session was refused: HTTP {status}", status=status)
        session = self._sessions[session_id]
        session.stream = None
        session.refused = status
        if status == 404:
            # Some servers know a session only once its own request was answered: go on without the session's name.
            self._posts.release(session_id)
        else:
            self._fail_session(
                session_id, f"the session's event stream was refused: {status_words(status)}", status, text
            )

    def stream_failed(self, stream: EventStream, why: str) -> None:
        if stream.session_id is None:
            self._cut(AcpConnectionError(f"the event stream was lost: {why}"))
        else:
            self._sessions.pop(stream.session_id, None)
            self._fail_session(stream.session_id, f"the session's event stream was lost: {why}")

    def stream_torn(self, stream: EventStream, why: str) -> None:
        """
        What is unanswered may stay so for ever (B85).
        """
        _log.info("an event stream was cut: {why}", why=why)
        for asked in self._routes.unanswered(stream.session_id):
            self._answer_for_server(asked.id, f"the event stream was cut, and the answer may be lost: {why}")

    # ---- out

    def _ask(self, method: bytes, headers: list[tuple[bytes, bytes]], body: bytes, reader: ResponseReader) -> Exchange:
        if self.connection_id is not None:
            headers.append((CONNECTION_ID, self.connection_id))
            if self._version is not None:
                headers.append((PROTOCOL_VERSION, self._version))
        return self._layer.request(method, [*self._user_headers, *headers, *self._cookies.headers()], body, reader)

    def _names_session(self, session_id: str) -> bool:
        """
        Whether the server wants to be told the session: not if it does not know it yet.
        """
        session = self._sessions.get(session_id)
        return session is None or session.refused != 404

    def _send_in_session(self, post: Post, route: Route) -> None:
        assert route.session_id is not None, "checked by the caller"
        session_id = route.session_id
        if header_value(session_id) is None:
            self._cannot(post, "the session's id is none that a header can have")
            return
        session = self._sessions.get(session_id)
        if session is not None and session.refused and session.refused != 404:
            if not route.reattaches:
                self._cannot(post, f"the session's event stream was refused: {status_words(session.refused)}")
                return
            del self._sessions[session_id]
            session = None
        if session is None and not self._open_session(session_id):
            self._cannot(post, f"too many sessions: Limits.max_sessions is {self._limits.max_sessions}")
            return
        self._posts.put(post, released=self._may_send(session_id))

    def _cannot(self, post: Post, why: str) -> None:
        if post.wants_answer:
            self._answer_for_server(post.id, why)
        else:
            _log.warn("{name} was not sent: {why}", name=post.name, why=why)

    def _may_send(self, lane: str) -> bool:
        if self._stream is None or not self._stream.ready:
            return False
        session = self._sessions.get(lane)
        return session is None or session.stream is None or session.stream.ready

    def _open_session(self, session_id: str) -> bool:
        if len(self._sessions) >= self._limits.max_sessions:
            return False
        session = self._sessions[session_id] = _Session(session_id)
        session.stream = self._new_stream(session_id)
        if self.connection_id is not None:
            session.stream.open()
        return True

    def _new_stream(self, session_id: str | None) -> EventStream:
        named = None if session_id is None else header_value(session_id)

        def ask(headers: list[tuple[bytes, bytes]], reader: ResponseReader) -> Exchange:
            if named is not None:
                headers.append((SESSION_ID, named))
            return self._ask(b"GET", headers, b"", reader)

        stream = EventStream(session_id, self, ask, self._limits, self._clock)
        if self._paused_by_receiver or self._held_by_output:
            stream.pause()
        return stream

    # ---- in

    def _connected(self, answer: Answer, message: bytes | Oversized) -> None:
        """
        The answer to initialize is there.
        """
        named = answer.headers.get(CONNECTION_ID.lower())
        if not named:
            self._cut(AcpConnectionError("the server's answer to initialize names no connection (Acp-Connection-Id)"))
            return
        self.connection_id = named[0]
        parsed = parse(message) if isinstance(message, bytes) else None
        if isinstance(parsed, Response) and isinstance(parsed.result, dict):
            version = parsed.result.get("protocolVersion")
            self._version = b"%d" % version if type(version) is int else None
        if not self._closing:
            self._stream = self._new_stream(None)
            self._stream.open()
            for session in self._sessions.values():
                if session.stream is not None:
                    session.stream.open()
        self._arrived(None, message)

    def _arrived(self, stream: EventStream | None, message: bytes | Oversized, behind: int = 0) -> None:
        if self._closing or self._ending:
            return
        if isinstance(message, Oversized):
            self._inbox.put(message)
            return
        stream_id = None if stream is None else stream.session_id
        parsed, asked, late = self._routes.incoming(message, stream_id)
        if late:
            return
        made = session_in_result(parsed)
        if made is not None and header_value(made) is not None:
            self._session_known(made)
        if asked is not None and asked.session_id is not None:
            if isinstance(parsed, Response) and parsed.error is None:
                self._session_answered(asked)
            if stream_id is None and stream is not None and self._hold(message, asked.session_id, behind):
                return
        self._inbox.put(message)

    def _session_known(self, session_id: str) -> None:
        known = self._sessions.get(session_id)
        if known is None:
            if not self._open_session(session_id):
                _log.warn("no stream for one more session: Limits.max_sessions is {n}", n=self._limits.max_sessions)
        elif known.refused == 404:
            known.refused = 0
            known.stream = self._new_stream(session_id)
            known.stream.open()

    def _session_answered(self, asked: Asked) -> None:
        session = self._sessions.get(asked.session_id or "")
        if session is None:
            return
        if asked.ends_session:
            if session.stream is not None:
                session.stream.close()
            del self._sessions[session.id]
        elif session.refused == 404:
            self._session_known(session.id)

    def _hold(self, message: bytes, session_id: str, behind: int) -> bool:
        """
        @return: whether the answer waits for what its session's stream has before it.
        """
        session = self._sessions.get(session_id)
        stream = None if session is None else session.stream
        if stream is None or stream.closed:
            return False
        self._holds.put(message, stream, behind)
        return True

    def _set_reading(self, reading: bool) -> None:
        reading = reading and not (self._paused_by_receiver or self._held_by_output)
        streams = [session.stream for session in self._sessions.values()]
        if not reading:
            self._inbox.paused = True
        for stream in (self._stream, *streams):
            if stream is not None:
                if reading:
                    stream.resume()
                else:
                    stream.pause()
        if reading:
            self._holds.resumed()
            self._inbox.resume()

    # ---- refusals

    def _initialize_answered(self, post: Post, answer: Answer) -> None:
        if answer.succeeded:
            if self.connection_id is None and self._why is None:
                self._cut(AcpConnectionError("the server's answer to initialize is empty"))
            return
        parsed = parse(answer.text)
        if isinstance(parsed, Response) and parsed.error is not None and parsed.id == post.id:
            self._inbox.put(answer.text)  # the agent's own words
        self._cut(_status_error("the POST of initialize", answer.status))

    def _refused(self, post: Post, answer: Answer) -> None:
        """
        A POST was answered with a status that is no success.
        """
        status = answer.status
        known = status == 404 and post.session_id is not None and self._stream is not None and not self._stream.closed
        if status in _DEAD and not known:
            self._cut(_status_error(f"the POST of {post.name}", status))
        elif status == 409 and post.session_id is not None:
            session = self._sessions.get(post.session_id)
            if session is not None:
                session.refused = status
                if session.stream is not None:
                    session.stream.close()
                    session.stream = None
            self._settle(post, answer)
            self._fail_session(post.session_id, f"the session was refused: {status_words(status)}", status, answer.text)
        elif post.wants_answer:
            self._settle(post, answer)
        elif status >= 500:
            # What is no request has nobody who could be told that it is lost.
            self._cut(_status_error(f"the POST of {post.name}", status))
        else:
            _log.warn("the server refused {name}: HTTP {status}", name=post.name, status=status)

    def _settle(self, post: Post, answer: Answer) -> None:
        if post.wants_answer:
            words = f"the server refused {post.name}: {status_words(answer.status)}"
            self._answer_for_server(post.id, words, answer.status, answer.text)

    def _fail_session(self, session_id: str, why: str, status: int = 0, text: bytes = b"") -> None:
        """
        Everything of one session that is under way fails; the others go on.
        """
        for post in self._posts.take_out(session_id):
            if post.wants_answer:
                self._answer_for_server(post.id, why, status, text)
        for asked in self._routes.unanswered(session_id):
            self._answer_for_server(asked.id, why, status, text)

    def _answer_for_server(self, id: Id, why: str, status: int = 0, text: bytes = b"") -> None:
        if self._routes.settle(id):
            data = {"status": status, "body": text.decode("utf-8", "replace")} if status else None
            message = error_bytes(id, InternalError(why, data))
            # The caller may still be inside of send.
            self._holds.later(message)

    # ---- the end

    def _cut(self, why: AcpConnectionError) -> None:
        if self._ending:
            return
        self._why = self._why or why
        self._posts.stop()
        self._goodbye()

    def _goodbye(self) -> None:
        """
        Tell the server that the connection is over, and wait a little for its answer.
        """
        if self._ending:
            return
        self._closing = self._ending = True
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._posts.stop()
        for stream in (self._stream, *(session.stream for session in self._sessions.values())):
            if stream is not None:
                stream.close()
        if self._why is not None:
            # What arrived before the end still counts; it may be an answer.
            self._holds.flush()
        dead = isinstance(self._why, HttpStatusError) and self._why.status in _DEAD
        if self.connection_id is None or dead:
            self._clock.callLater(0, self._leave)
            return
        answer = Answer(1, lambda answer: None, lambda message: None, lambda answer, failure: self._leave())
        timer = self._clock.callLater(self._limits.exit_grace, self._leave)
        self._deleting = (self._ask(b"DELETE", [], b"", answer), timer)

    def _leave(self) -> None:
        if self._deleting is not None:
            exchange, timer = self._deleting
            self._deleting = None
            exchange.cancel()
            if timer.active():
                timer.cancel()
        self._layer.close().addErrback(lambda failure: _log.failure("closing failed", failure)).addCallback(self._left)

    def _left(self, _: object) -> None:
        if self._why is not None:
            self._inbox.flush()
        self._inbox.stop()
        why = self._why or AcpConnectionError("the connection was closed")
        with _log.failuresHandled("a receiver failed at the end of its connection"):
            self.receiver.connection_lost(Failure(why))


def _status_error(what: str, status: int) -> HttpStatusError:
    return HttpStatusError(f"{what} was answered with {status_words(status)}", status)
