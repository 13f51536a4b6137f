"""
Requests over HTTP/2: as few connections as the server's limit of streams allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from acp_twisted.transports.http.exchange import HeaderList, NotProcessed, ResponseReader
from acp_twisted.transports.http.h2_client import H2ClientProtocol, H2Exchange

MAX_CONNECTIONS: Final = 64
"""How many connections there are at most; what does not fit waits."""

MAX_ATTEMPTS: Final = 5
"""How often a request is sent again that a server says it has not looked at."""


class _Pooled(H2Exchange):
    """
    A request that may be sent again.
    """

    def __init__(
        self, method: bytes, headers: HeaderList, body: bytes, reader: ResponseReader, pool: Http2Layer
    ) -> None:
        super().__init__(method, headers, body, reader)
        self._pool = pool
        self._attempts = 1

    def ended(self, failure: Failure | None) -> None:
        if failure is not None and failure.check(NotProcessed) and self._attempts < MAX_ATTEMPTS and not self.over:
            self._attempts += 1
            self.rest = memoryview(self.body)
            self.stream_id = 0
            self._pool.submit(self)
        else:
            super().ended(failure)


class Http2Layer:
    """
    L{HttpLayer<acp_twisted.transports.http.exchange.HttpLayer>} over HTTP/2.
    """

    version = "HTTP/2"

    def __init__(self, connect: Callable[[Callable[[H2ClientProtocol], None]], Deferred[H2ClientProtocol]]) -> None:
        """
        @param connect: makes one more connection, whose loss it tells to what it is given.
        """
        self._connect = connect
        self._connections: list[H2ClientProtocol] = []
        self._attempts: set[Deferred[None]] = set()
        self._waiting: deque[H2Exchange] = deque()
        self._closing: list[Deferred[None]] = []
        self._closed = False

    def open(self) -> Deferred[None]:
        """
        Make the first connection.

        @return: fails when it can't be made.
        """
        return self._grow()

    def request(self, method: bytes, headers: HeaderList, body: bytes, reader: ResponseReader) -> H2Exchange:
        exchange = _Pooled(method, headers, body, reader, self)
        self.submit(exchange)
        return exchange

    def submit(self, exchange: H2Exchange) -> None:
        """
        Send a request as soon as a connection has room for it.
        """
        self._waiting.append(exchange)
        self._place()

    def close(self) -> Deferred[None]:
        self._closed = True
        self._waiting.clear()
        for attempt in list(self._attempts):
            attempt.cancel()
        for connection in list(self._connections):
            connection.close()
        if not self._connections:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._closing.append(done)
        return done

    # ---- inside

    def _place(self) -> None:
        while self._waiting and not self._closed:
            if self._waiting[0].over:
                self._waiting.popleft()
                continue
            connection = next((each for each in self._connections if each.available), None)
            if connection is None:
                if not self._attempts and len(self._connections) < MAX_CONNECTIONS:
                    self._grow().addErrback(self._could_not)
                return
            connection.start(self._waiting.popleft())

    def _grow(self) -> Deferred[None]:
        connecting = self._connect(self._gone)
        attempt: Deferred[None] = Deferred(lambda _: connecting.cancel())
        self._attempts.add(attempt)

        def connected(connection: H2ClientProtocol) -> None:
            self._attempts.discard(attempt)
            self._connections.append(connection)
            if self._closed:
                connection.close()
            self._place()
            if not attempt.called:
                attempt.callback(None)

        def failed(failure: Failure) -> None:
            self._attempts.discard(attempt)
            attempt.errback(failure)

        connecting.addCallbacks(connected, failed)
        return attempt

    def _could_not(self, failure: Failure) -> None:
        """
        No more connections: what waits for one fails, unless there is another whose streams end some day.
        """
        if self._connections and all(each.usable for each in self._connections):
            return
        waiting, self._waiting = self._waiting, deque()
        for exchange in waiting:
            exchange.ended(failure)

    def _gone(self, connection: H2ClientProtocol) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
        if self._closed and not self._connections:
            closing, self._closing = self._closing, []
            for done in closing:
                done.callback(None)
        else:
            self._place()
