"""
Streamable HTTP, the client's end: each message is a POST of its own, and the answer to a request its response, as JSON
or as a stream of events.

With the newest revision the end of the response is the cancellation, and no notification is sent (M6, M10).  Before
that the notification is the cancellation; the response is closed too, since nobody reads it any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IConsumer, IDelayedCall, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IBodyProducer, IResponse
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, AcpError, InvalidResponse, LocalError
from acp_twisted.jsonrpc.framing import Oversized
from acp_twisted.jsonrpc.messages import Id, Notification, Request, Response, parse
from acp_twisted.jsonrpc.peer import Peer
from acp_twisted.mcp.exchanges import ExchangeTransport, failed_on_the_way
from acp_twisted.mcp.headers import (
    EVENTS,
    JSON,
    LAST_EVENT,
    METHOD,
    NAME,
    NAMED,
    SESSION,
    VERSION,
    media_type,
    wrapped,
)
from acp_twisted.mcp.versions import META_VERSION, meta_of
from acp_twisted.transports.http.sse_parser import EventStreamParser

_log = Logger()

MAX_RESUMES = 3
"""How often in a row a stream that broke off is taken up again before it is given up."""

RETRY_SECONDS = 1.0
"""How long to wait before that, where the server does not say."""

MIN_RETRY_SECONDS = 0.1
"""How long to wait at least, whatever the server says: one that ends each stream at once would be asked in a circle."""

MAX_RETRY_SECONDS = 60.0
"""And at most."""

DELETE_SECONDS = 2.0
"""How long the server may take to end a session."""


class McpHttpError(LocalError):
    """
    The server, or something before it, refused a request in the words of HTTP.

    @ivar status: the status of the response.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP status {status}", {"status": status})
        self.status = status


@implementer(IBodyProducer)
class _Body:
    """
    The body of a request, written at once.
    """

    def __init__(self, body: bytes) -> None:
        self.length = len(body)
        self._body = body

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        consumer.write(self._body)
        return succeed(None)

    def pauseProducing(self) -> None:
        pass

    def resumeProducing(self) -> None:
        pass

    def stopProducing(self) -> None:
        pass


@define(eq=False)
class _Exchange:
    """
    One POST, and what it takes to get its answer; or the stream of what the server says unasked.

    @ivar request_id: L{None} where no answer is waited for.
    @ivar stateless: whether the message speaks the newest revision.
    @ivar resumes: how often in a row its stream was taken up again.
    """

    message: bytes
    request_id: Id
    method: str | None
    headers: dict[str, str]
    stateless: bool
    waiting: Deferred[IResponse] | None = None
    reader: _Reader | None = None
    timer: IDelayedCall | None = None
    last_event_id: bytes = b""
    retry: float = RETRY_SECONDS
    resumes: int = 0
    over: bool = False

    def stop(self) -> None:
        """
        End it, whatever it is at.
        """
        self.over = True
        timer, self.timer = self.timer, None
        if timer is not None and timer.active():
            timer.cancel()
        if self.waiting is not None:
            self.waiting.cancel()
        if self.reader is not None:
            self.reader.stop()


class _Reader(Protocol):
    """
    Reads the body of one response.
    """

    def __init__(self, owner: HttpTransport, exchange: _Exchange, status: int, is_stream: bool, limit: int) -> None:
        self._owner = owner
        self._exchange = exchange
        self._status = status
        self._stream = EventStreamParser(limit) if is_stream else None
        self._body = bytearray()
        self._limit = limit
        self._stopped = False

    def dataReceived(self, data: bytes) -> None:
        if self._stopped:
            return
        if self._stream is None:
            self._body += data
            if len(self._body) > self._limit:
                self.stop()
                error = InvalidResponse(f"the answer is longer than {self._limit} bytes")
                self._owner.broken(self._exchange, error)
            return
        for event in self._stream.feed(data):
            self._exchange.resumes = 0
            if not self._stopped:
                self._owner.received(self._exchange, event.message)
        self._exchange.last_event_id = self._stream.last_event_id
        if self._stream.retry is not None:
            self._exchange.retry = self._stream.retry / 1000

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._exchange.reader = None
        if self._stopped:
            return
        self._stopped = True
        if self._stream is not None:
            self._owner.stream_ended(self._exchange)
        elif reason.check(ResponseDone, PotentialDataLoss):
            self._owner.body_ended(self._exchange, self._status, bytes(self._body))
        else:
            self._owner.broken(self._exchange, failed_on_the_way("the response broke off", reason))

    def hold(self, held: bool) -> None:
        """
        Leave what comes in the connection, or go on reading.
        """
        transport: Any = self.transport
        if transport is not None and not self._stopped:
            if held:
                transport.pauseProducing()
            else:
                transport.resumeProducing()

    def stop(self) -> None:
        """
        Read no more, and let the server know by closing the connection.
        """
        self._stopped = True
        transport: Any = self.transport
        close = getattr(transport, "abortConnection", None) or getattr(transport, "loseConnection", None)
        if close is not None:
            close()


class HttpTransport(ExchangeTransport):
    """
    The connection to an MCP server behind HTTP.

    @ivar session_id: what an older server calls the session; secret.
    """

    def __init__(
        self,
        agent: IAgent,
        url: str,
        headers: Sequence[tuple[str, str]],
        peer: Peer,
        clock: IReactorTime,
    ) -> None:
        """
        @param headers: go with every request.
        @raise ValueError: when the URL is none of HTTP.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the URL of an MCP server begins with http:// or https://")
        super().__init__(peer, clock)
        self.session_id: str | None = None
        self._agent = agent
        self._url = url.encode("ascii")
        self._fixed = list(headers)
        self._limit = peer.limits.max_message_bytes
        self._version: str | None = None
        self._exchanges: dict[Id, _Exchange] = {}
        self._queue: deque[_Exchange] = deque()
        self._ordered: _Exchange | None = None
        self._unasked: _Exchange | None = None

    def agreed(self, version: str, stateless: bool) -> None:
        """
        The revision is known; an older one goes with every later request as a header.
        """
        self._version = None if stateless else version

    def pauseProducing(self) -> None:
        """
        See L{IMessageTransport<acp_twisted.interfaces.IMessageTransport>}: no response is read any further.
        """
        super().pauseProducing()
        self._hold(True)

    def resumeProducing(self) -> None:
        """
        See L{IMessageTransport<acp_twisted.interfaces.IMessageTransport>}.
        """
        super().resumeProducing()
        if not self._paused:
            self._hold(False)

    def _hold(self, held: bool) -> None:
        for exchange in (*self._exchanges.values(), self._unasked):
            if exchange is not None and exchange.reader is not None:
                exchange.reader.hold(held)

    # ---- what is sent

    def ask(self, request: Request, message: bytes) -> None:
        """
        See L{ExchangeTransport}.
        """
        version = meta_of(request.params).get(META_VERSION)
        exchange = _Exchange(message, request.id, request.method, {}, isinstance(version, str))
        if isinstance(version, str):
            exchange.headers = {VERSION: version, METHOD: request.method}
            where = NAMED.get(request.method)
            named = request.params.get(where) if where and isinstance(request.params, dict) else None
            if isinstance(named, str):
                exchange.headers[NAME] = wrapped(named)
        self._exchanges[request.id] = exchange
        self._put(exchange)

    def tell(self, notification: Notification, message: bytes) -> None:
        """
        See L{ExchangeTransport}.
        """
        self._put(_Exchange(message, None, notification.method, {}, False))

    def reply(self, response: Response, message: bytes) -> None:
        """
        See L{ExchangeTransport}.
        """
        self._put(_Exchange(message, None, None, {}, False))

    def cancel(self, request_id: Id, message: bytes) -> None:
        """
        See L{ExchangeTransport}.
        """
        exchange = self._exchanges.pop(request_id, None)
        if exchange is None:
            return
        sent = exchange.waiting is not None or exchange.reader is not None or exchange.timer is not None
        exchange.stop()
        if exchange in self._queue:
            self._queue.remove(exchange)
        if sent and not exchange.stateless:
            self._put(_Exchange(message, None, None, {}, False))

    def end_all(self) -> Deferred[None] | None:
        """
        See L{ExchangeTransport}.  A session is ended at the server too.
        """
        self._queue.clear()
        exchanges, self._exchanges = list(self._exchanges.values()), {}
        for exchange in (*exchanges, self._ordered, self._unasked):
            if exchange is not None:
                exchange.stop()
        if self.session_id is None:
            return None
        last = self._headers({"connection": "close"}, False)  # and not back into the pool
        asked = self._agent.request(b"DELETE", self._url, last, None)
        timer = self._clock.callLater(DELETE_SECONDS, asked.cancel)
        return asked.addCallbacks(self._discard, lambda _: None).addBoth(_stop_timer, timer)

    def _put(self, exchange: _Exchange) -> None:
        self._queue.append(exchange)
        self._pump()

    def _pump(self) -> None:
        """
        Send what waits.  What has no answer is waited for, so that nothing overtakes it.
        """
        while self._queue and self._ordered is None and not self.closed:
            exchange = self._queue.popleft()
            if exchange.request_id is None:
                self._ordered = exchange
            self._send(exchange, b"POST", _Body(exchange.message))

    def _headers(self, extra: Mapping[str, str], with_body: bool) -> Headers:
        result = Headers()
        for name, value in self._fixed:
            result.addRawHeader(name, value)
        result.setRawHeaders("accept", [f"{JSON}, {EVENTS}"])
        if with_body:
            result.setRawHeaders("content-type", [JSON])
        if self._version is not None:
            result.setRawHeaders(VERSION, [self._version])
        if self.session_id is not None:
            result.setRawHeaders(SESSION, [self.session_id])
        for name, value in extra.items():
            result.setRawHeaders(name, [value])
        return result

    def _send(self, exchange: _Exchange, verb: bytes, body: _Body | None) -> None:
        waiting = self._agent.request(verb, self._url, self._headers(exchange.headers, body is not None), body)
        exchange.waiting = waiting
        waiting.addCallbacks(self._responded, self._not_sent, callbackArgs=(exchange,), errbackArgs=(exchange,))
        waiting.addErrback(lambda failure: _log.failure("a response could not be handled", failure))

    # ---- what comes back

    def _responded(self, response: IResponse, exchange: _Exchange) -> None:
        exchange.waiting = None
        if self._ordered is exchange:
            self._ordered = None
        if exchange.over or self.closed:
            self._discard(response)
            return
        if exchange.method == "initialize":
            given = _given(response, SESSION)
            if given is not None and not (given.isascii() and given.isprintable()):
                self._discard(response)
                self.broken(exchange, InvalidResponse(f"the server's {SESSION} is none that a header can have"))
                self._pump()
                return
            self.session_id = given
        status = response.code
        if status == 404 and self.session_id is not None and exchange.method != "initialize":
            self._discard(response)
            self.session_id = None
            self._end(AcpConnectionError("the MCP server has ended the session"))
            return
        kind = media_type(_given(response, "content-type"))
        if exchange is self._unasked and (status != 200 or kind != EVENTS):
            self._unasked = None  # it says nothing unasked
            self._discard(response)
        elif exchange.request_id is None and exchange is not self._unasked:
            if status >= 300:
                _log.warn("{method} was refused: HTTP status {status}", method=exchange.method, status=status)
            self._discard(response)
            if exchange.method == "notifications/initialized" and self._unasked is None:
                self._listen()
        elif kind == EVENTS and status < 300:
            self._read(response, exchange, status, is_stream=True)
        elif kind == JSON:
            self._read(response, exchange, status, is_stream=False)
        else:
            self._discard(response)
            self.broken(exchange, McpHttpError(status))
        self._pump()

    def _read(self, response: IResponse, exchange: _Exchange, status: int, *, is_stream: bool) -> None:
        exchange.reader = _Reader(self, exchange, status, is_stream, self._limit)
        response.deliverBody(exchange.reader)
        if self._paused and exchange.reader is not None:
            exchange.reader.hold(True)

    def _not_sent(self, failure: Failure, exchange: _Exchange) -> None:
        exchange.waiting = None
        if self._ordered is exchange:
            self._ordered = None
        if exchange.over or self.closed or failure.check(CancelledError):
            pass
        elif exchange is self._unasked or exchange.resumes:
            self._again(exchange)
        else:
            self.broken(exchange, failed_on_the_way("the MCP server can't be reached", failure))
        self._pump()

    def received(self, exchange: _Exchange, message: bytes | Oversized) -> None:
        """
        For L{_Reader}: an event.
        """
        if isinstance(message, Oversized):
            self._when_wanted(lambda: self.peer.oversized_received(message.head, message.size, message.tail))
            return
        if exchange.request_id is not None and isinstance(parse(message), Response):
            self._over(exchange)
            if exchange.reader is not None:
                exchange.reader.stop()
        self.deliver(message)

    def stream_ended(self, exchange: _Exchange) -> None:
        """
        For L{_Reader}: a stream is over.  Where its answer has not come it is taken up again, if that is possible.
        """
        if exchange.over or self.closed:
            return
        if exchange is self._unasked or exchange.last_event_id:
            self._again(exchange)
        else:
            self.broken(exchange, AcpConnectionError("the response ended without an answer"))

    def body_ended(self, exchange: _Exchange, status: int, body: bytes) -> None:
        """
        For L{_Reader}: a response in JSON is complete.
        """
        parsed = parse(body)
        if isinstance(parsed, Response) and parsed.error is not None and parsed.id is None:
            error = parsed.error  # of a server that did not get as far as reading the id
            self._over(exchange)
            self.refuse(exchange.request_id, AcpError(error.code, error.message, error.data))
        elif isinstance(parsed, Response) and parsed.id == exchange.request_id:
            self._over(exchange)
            self.deliver(body)
        elif status >= 300:
            self.broken(exchange, McpHttpError(status))
        else:
            self.broken(exchange, InvalidResponse("the response is no answer to the request"))

    def broken(self, exchange: _Exchange, error: AcpError) -> None:
        """
        For L{_Reader}: no answer can come.
        """
        if exchange.over:
            return
        self._over(exchange)
        if exchange.request_id is None:
            _log.warn("{method} did not get through: {error}", method=exchange.method, error=error)
        else:
            self.fail(exchange.request_id, error)

    def _over(self, exchange: _Exchange) -> None:
        exchange.over = True
        if self._exchanges.get(exchange.request_id) is exchange:
            del self._exchanges[exchange.request_id]

    # ---- streams of events

    def _listen(self) -> None:
        """
        Hear what an older server says unasked.
        """
        self._unasked = _Exchange(b"", None, None, {}, False)
        self._send(self._unasked, b"GET", None)

    def _again(self, exchange: _Exchange) -> None:
        exchange.resumes += 1
        if exchange.resumes > MAX_RESUMES:
            if exchange is self._unasked:
                self._unasked = None
                _log.warn("the MCP server's stream of events broke off too often")
            else:
                self.broken(exchange, AcpConnectionError("the response broke off too often"))
            return
        delay = min(max(exchange.retry, MIN_RETRY_SECONDS), MAX_RETRY_SECONDS)
        exchange.timer = self._clock.callLater(delay, self._resume, exchange)

    def _resume(self, exchange: _Exchange) -> None:
        exchange.timer = None
        exchange.headers.pop(LAST_EVENT, None)
        if exchange.last_event_id:
            exchange.headers[LAST_EVENT] = exchange.last_event_id.decode("utf-8", "replace")
        self._send(exchange, b"GET", None)

    def _discard(self, response: IResponse) -> None:
        response.deliverBody(_Nobody(closed=self.closed))


class _Nobody(Protocol):
    """
    Reads a body that nobody wants, as long as it is short and the connection is wanted again.
    """

    def __init__(self, *, closed: bool) -> None:
        self._left = 0 if closed else 64 * 1024

    def connectionMade(self) -> None:
        if not self._left:
            self.dataReceived(b"")

    def dataReceived(self, data: bytes) -> None:
        self._left -= len(data)
        transport: Any = self.transport
        if self._left <= 0 and transport is not None:
            transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        pass


def _given(response: IResponse, name: str) -> str | None:
    """
    A header of a response, whatever bytes the server put there.
    """
    values = response.headers.getRawHeaders(name.encode("ascii"))
    return values[0].decode("latin-1") if values else None


def _stop_timer(result: Any, timer: IDelayedCall) -> Any:
    if timer.active():
        timer.cancel()
    return result


@define(eq=False)
class OwnAgent:
    """
    An agent of Twisted's with a pool of its own, whose idle connections are closed with it.
    """

    reactor: Any
    pool: Any = field(init=False)
    agent: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        from twisted.web.client import Agent  # noqa: PLC0415

        from acp_twisted.transports.http.h1_heads import BoundedPool  # noqa: PLC0415

        self.pool = BoundedPool(self.reactor)
        # Common servers close an idle connection after five seconds, and no POST is tried twice.
        self.pool.cachedConnectionTimeout = 2
        self.agent = Agent(self.reactor, pool=self.pool)

    def close(self) -> Deferred[None]:
        """
        Close the idle connections.
        """
        closed: Deferred[None] = self.pool.closeCachedConnections()
        return closed
