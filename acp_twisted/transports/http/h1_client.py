"""
Requests over HTTP/1.1: Twisted's own agent, with a pool of idle connections.
"""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.client import Agent, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import UNKNOWN_LENGTH, IAgentEndpointFactory, IBodyProducer, IResponse
from zope.interface import implementer

from acp_twisted.transports.http.exchange import HeaderList, ResponseReader, Truncated, words
from acp_twisted.transports.http.h1_heads import BoundedPool

IDLE_SECONDS: Final = 2
"""
How long an idle connection is kept.  Less than any server keeps one, for a POST that meets the server's end of its
connection is lost, and nobody knows whether it was read.
"""

IDLE_CONNECTIONS: Final = 16


@implementer(IBodyProducer)
class _Body:
    """
    The body of a request, in one piece.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.length = len(data)

    def startProducing(self, consumer: Any) -> Deferred[None]:
        consumer.write(self._data)
        return succeed(None)

    def pauseProducing(self) -> None:
        """
        It is produced already.
        """

    def resumeProducing(self) -> None:
        """
        It is produced already.
        """

    def stopProducing(self) -> None:
        """
        It is produced already.
        """


@implementer(IAgentEndpointFactory)
class _OneEndpoint:
    """
    Every connection goes to the one server.
    """

    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    def endpointForURI(self, uri: Any) -> IStreamClientEndpoint:
        return self._endpoint


class _Exchange(Protocol):
    """
    One request, and the protocol of its answer's body.
    """

    def __init__(self, reader: ResponseReader) -> None:
        self._reader = reader
        self._over = False
        self._paused = False
        self._asking: Deferred[IResponse] | None = None

    def begin(self, asking: Deferred[IResponse]) -> None:
        """
        The request was handed on.
        """
        self._asking = asking
        asking.addCallbacks(self._started, self._failed)

    def _started(self, response: IResponse) -> None:
        self._asking = None
        if self._over:
            return
        headers = {name.lower(): list(values) for name, values in response.headers.getAllRawHeaders()}
        if response.length is not UNKNOWN_LENGTH:
            headers.setdefault(b"content-length", [b"%d" % response.length])
        self._reader.response_started(response.code, headers)
        response.deliverBody(self)

    def _failed(self, failure: Failure) -> None:
        self._asking = None
        self._end(failure)

    def connectionMade(self) -> None:
        transport: Any = self.transport
        if self._over:
            transport.loseConnection()
        elif self._paused:
            transport.pauseProducing()

    def dataReceived(self, data: bytes) -> None:
        if not self._over:
            self._reader.body_received(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        # A body that only ends with its connection can't say whether it is whole.
        if reason.check(ResponseDone, PotentialDataLoss) is not None:
            self._end(None)
        else:
            self._end(Failure(Truncated(f"the connection was lost: {words(reason)}")))

    def _end(self, failure: Failure | None) -> None:
        if not self._over:
            self._over = True
            self._reader.response_ended(failure)

    # ---- Exchange

    def cancel(self) -> None:
        if self._over:
            return
        self._over = True
        if self._asking is not None:
            self._asking.cancel()
        elif self.transport is not None:
            self.transport.loseConnection()

    def pause(self) -> None:
        self._paused = True
        transport: Any = self.transport
        if transport is not None and not self._over:
            transport.pauseProducing()

    def resume(self) -> None:
        self._paused = False
        transport: Any = self.transport
        if transport is not None and not self._over:
            transport.resumeProducing()


class Http11Layer:
    """
    L{HttpLayer<acp_twisted.transports.http.exchange.HttpLayer>} over HTTP/1.1: one connection for each answer that is
    under way.
    """

    version = "HTTP/1.1"

    def __init__(self, reactor: Any, endpoint: IStreamClientEndpoint, url: bytes) -> None:
        self._clock: IReactorTime = reactor
        self._url = url
        self._pool = BoundedPool(reactor, persistent=True)
        self._pool.cachedConnectionTimeout = IDLE_SECONDS
        self._pool.maxPersistentPerHost = IDLE_CONNECTIONS
        self._pool.retryAutomatically = False
        self._agent = Agent.usingEndpointFactory(reactor, _OneEndpoint(endpoint), self._pool)

    def request(self, method: bytes, headers: HeaderList, body: bytes, reader: ResponseReader) -> _Exchange:
        raw = Headers()
        for name, value in headers:
            raw.addRawHeader(name, value)
        exchange = _Exchange(reader)
        exchange.begin(self._agent.request(method, self._url, raw, _Body(body) if body else None))
        return exchange

    def close(self) -> Deferred[None]:
        # The connection of an answer that has just ended, and told us so, goes back to the pool behind this call, and
        # that of one that is about to end later still.
        self._pool.cachedConnectionTimeout = 0
        return deferLater(self._clock, 0, self._pool.closeCachedConnections)
