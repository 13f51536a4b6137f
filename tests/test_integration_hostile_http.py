"""
Servers that mean no good, over real sockets: what the clients of HTTP/1.1 make of them.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted import AcpClient, AgentUrl
from acp_twisted.errors import AcpConnectionError
from acp_twisted.mcp.connecting import connect
from acp_twisted.schema import v1
from acp_twisted.transports.http.exchange import MAX_WORDS, words
from acp_twisted.transports.http.h1_heads import MAX_HEAD_BYTES

TURN = 10_000


@implementer(IPushProducer)
class Endless(Protocol):
    """
    Answers whatever it is asked with a piece, again and again, until it is cut off.
    """

    factory: Any

    def __init__(self) -> None:
        self.paused = False
        self.begun = False
        self.over: Deferred[None] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        if not self.begun:
            self.begun = True
            self.transport.write(self.factory.start)  # type: ignore[union-attr]
            self.transport.registerProducer(self, True)  # type: ignore[union-attr]
            self.factory.reactor.callLater(0, self._more)

    def _more(self) -> None:
        if not (self.paused or self.over.called):
            self.factory.sent += TURN
            self.transport.write(self.factory.piece * (TURN // len(self.factory.piece)))  # type: ignore[union-attr]
            self.factory.reactor.callLater(0, self._more)

    def pauseProducing(self) -> None:
        self.paused = True

    def resumeProducing(self) -> None:
        self.paused = False
        self._more()

    def stopProducing(self) -> None:
        self.paused = True

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.over.callback(None)
        self.factory.lost.callback(None)


class Hostile(Factory):
    """
    One such server.
    """

    protocol = Endless
    noisy = False

    def __init__(self, reactor: Any, start: bytes, piece: bytes) -> None:
        self.reactor = reactor
        self.start = start
        self.piece = piece
        self.sent = 0
        self.lost: Deferred[None] = Deferred()


HEADS = [
    (b"HTTP/1.1 200 OK\r\n", b"X-Header: a\r\n"),
    (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
]


@pytest.mark.parametrize(("start", "piece"), HEADS)
@pytest.mark.parametrize("who", ["agent", "mcp"])
async def test_a_head_without_end(who: str, start: bytes, piece: bytes) -> None:
    """
    The connection is cut when the head of an answer goes on and on, in headers or in provisional answers, and nothing
    grows until somebody's time is up (rule 6).
    """
    from twisted.internet import reactor

    server = Hostile(reactor, start, piece)
    port: Any = await TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(server)
    url = f"http://127.0.0.1:{port.getHost().port}/"
    try:
        asked: Deferred[Any]
        if who == "agent":
            connection = await AcpClient.builder().build().connect(reactor, AgentUrl(url=url))
            asked = connection.initialize()
        else:
            asked = connect(reactor, v1.McpServerHttp(name="s", url=url, headers=[]))
        with pytest.raises(AcpConnectionError):
            await asked
        await server.lost
    finally:
        await port.stopListening()
    assert MAX_HEAD_BYTES / 4 < server.sent < 100 * MAX_HEAD_BYTES


def test_what_a_server_sent_is_quoted_in_part() -> None:
    """An error for people is a line, however long what it quotes is."""
    assert len(words(Failure(ValueError("no status line", b"x" * 10_000)))) == MAX_WORDS
