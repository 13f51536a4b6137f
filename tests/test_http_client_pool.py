"""
The pool of idle connections of HTTP/1.1 clients: Twisted's agent over connections in memory.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_parts import DISCOVERED
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.client import Agent
from twisted.web.iweb import IAgentEndpointFactory
from wire import no_result, success
from zope.interface import implementer

from acp_twisted.mcp.connecting import connect
from acp_twisted.schema import v1
from acp_twisted.transports.http.h1_client import Http11Layer
from acp_twisted.transports.http.h1_heads import BoundedPool


class Transport(StringTransport):
    """
    One that is closed when the reactor gets to it, which no test here lets it, and that may be told to go on reading
    until then, as TCP may.
    """

    def resumeProducing(self) -> None:
        if not self.disconnecting:
            super().resumeProducing()


@implementer(IStreamClientEndpoint, IAgentEndpointFactory)
class Server:
    """
    Answers by hand, on any number of connections.
    """

    def __init__(self) -> None:
        self.connections: list[Any] = []

    def endpointForURI(self, uri: Any) -> Server:
        return self

    def connect(self, factory: Any) -> Deferred[Any]:
        protocol = factory.buildProtocol(None)
        protocol.makeConnection(Transport())
        self.connections.append(protocol)
        return succeed(protocol)

    def sent_on(self, number: int) -> bytes:
        """What has come on a connection since this was asked last."""
        transport = self.connections[number].transport
        sent: bytes = transport.value()
        transport.clear()
        return sent

    def answer(self, number: int, kind: str, *body: bytes) -> None:
        """A whole response, all of it read at once."""
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in body)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.connections[number].dataReceived(head.encode() + chunks + b"0\r\n\r\n")

    def lose_all(self) -> None:
        """The end."""
        for each in self.connections:
            each.connectionLost(Failure(ConnectionDone()))


def test_a_connection_that_is_being_closed_is_not_used_again() -> None:
    """An answer that is the last event of its stream closes the connection, though the response ends with it too."""
    clock, server = Clock(), Server()
    agent = Agent.usingEndpointFactory(clock, server, BoundedPool(clock))
    opening = connect(clock, v1.McpServerHttp(name="s", url="http://s/mcp", headers=[]), agent=agent)

    def answer(number: int, kind: str, result: Any) -> None:
        body = server.sent_on(number).partition(b"\r\n\r\n")[2]
        message = json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": result}).encode()
        server.answer(number, kind, b"data: " + message + b"\n\n" if kind == "text/event-stream" else message)

    answer(0, "application/json", DISCOVERED)
    client = success(opening)
    call = client.call_tool("t")
    assert len(server.connections) == 1
    answer(0, "text/event-stream", {"content": []})
    assert success(call).content == []
    assert server.connections[0].transport.disconnecting
    listed = client.list_tools()
    assert server.sent_on(0) == b""
    answer(1, "application/json", {"tools": []})
    assert success(listed).items == []
    client.close()
    server.lose_all()


class Reader:
    """
    Cancels its exchange as soon as it has read something.
    """

    exchange: Any = None

    def __init__(self, when: str) -> None:
        self.when = when
        self.seen: list[object] = []

    def response_started(self, status: int, headers: dict[bytes, list[bytes]]) -> None:
        self.seen.append(status)
        if self.when == "head":
            self.exchange.cancel()

    def body_received(self, data: bytes) -> None:
        self.seen.append(data)
        if self.when == "body":
            self.exchange.cancel()

    def response_ended(self, failure: Failure | None) -> None:
        self.seen.append(failure)


@pytest.mark.parametrize(
    ("when", "seen"), [("head", [200]), ("body", [200, b"one"]), ("", [200, b"one", b"two", None])]
)
def test_an_exchange_that_is_cancelled_takes_its_connection_along(when: str, seen: list[object]) -> None:
    """Also when the rest of the answer is there already.  One that was read to its end leaves it for the next."""
    clock, server, reader = Clock(), Server(), Reader(when)
    layer = Http11Layer(clock, server, b"http://s/acp")
    reader.exchange = layer.request(b"POST", [], b"{}", reader)
    server.answer(0, "text/event-stream", b"one", b"two")
    assert reader.seen == seen
    assert server.connections[0].transport.disconnecting == bool(when)
    server.sent_on(0)
    layer.request(b"POST", [], b"{}", Reader(""))
    assert len(server.connections) == (2 if when else 1)
    assert server.sent_on(-1)
    closing = layer.close()
    no_result(closing)
    server.lose_all()
    clock.advance(0)
    success(closing)
