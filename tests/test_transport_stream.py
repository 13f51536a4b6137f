"""
A connection over a byte stream: what is delivered, when, and how it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from transport_fakes import RecordingFactory, RecordingReceiver, SocketTransport
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.error import ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.interfaces import IHalfCloseableProtocol, IProtocol, IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer
from zope.interface.verify import verifyObject

from acp_twisted.errors import AcpConnectionError, LimitExceeded
from acp_twisted.interfaces import IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.testing import failure_of, no_result, success_result
from acp_twisted.transports.stdio import StdioAgentTransport, StdioGuard
from acp_twisted.transports.stream import MessageProtocol, ServerFactory, connect

DONE = Failure(ConnectionDone())


class Connection:
    """
    One end of a connection whose other end is the test.
    """

    def __init__(self, limits: Limits | None = None, transport: Any = None) -> None:
        self.clock = Clock()
        self.receiver = RecordingReceiver()
        self.protocol = MessageProtocol(self.receiver, Limits() if limits is None else limits, self.clock)
        self.transport = SocketTransport() if transport is None else transport
        self.protocol.makeConnection(self.transport)

    @property
    def events(self) -> list[tuple[Any, ...]]:
        """
        What the receiver was told, its connection_made left out.
        """
        return self.receiver.events[1:]

    def lose(self, reason: Failure = DONE) -> None:
        """
        The connection is gone.
        """
        self.protocol.connectionLost(reason)
        assert self.clock.getDelayedCalls() == []


def test_provides_its_interfaces() -> None:
    """
    A connection is a protocol to Twisted and a transport to the receiver, before and after it is made.
    """
    for protocol in (MessageProtocol(RecordingReceiver(), Limits(), Clock()), Connection().protocol):
        verifyObject(IProtocol, protocol)
        verifyObject(IHalfCloseableProtocol, protocol)
        verifyObject(IMessageTransport, protocol)


def test_tcp_options() -> None:
    """
    Messages are small and wait for answers, so TCP does not delay them, and dead peers are noticed.
    """
    assert Connection().transport.options == {"nodelay": True, "keepalive": True}


def test_every_message_of_a_chunk_inside_data_received() -> None:
    """
    All messages of a chunk are delivered before dataReceived returns, half ones when their rest comes (rule 3, B35).
    """
    connection = Connection()
    connection.protocol.dataReceived(b'{"a":1}\n\r\n{"b":2}\r\n{"c"')
    assert connection.events == [("message", b'{"a":1}'), ("message", b'{"b":2}')]
    connection.protocol.dataReceived(b":3}\n")
    assert connection.events[-1] == ("message", b'{"c":3}')


def test_oversized_line() -> None:
    """
    A line beyond the limit is reported with its length, and the next one is delivered (B34).
    """
    connection = Connection(Limits(max_message_bytes=10))
    connection.protocol.dataReceived(b"x" * 25 + b"\nnext\n")
    assert connection.events == [("oversized", b"x" * 10, 25), ("message", b"next")]


def test_failing_receiver(logged_errors: Any) -> None:
    """
    A receiver that raises loses that message only, and its exception is logged (rule 7).
    """
    connection = Connection()

    def on_message(message: bytes) -> None:
        if message == b"1":
            raise ZeroDivisionError

    connection.receiver.on_message = on_message
    connection.protocol.dataReceived(b"1\n2\n")
    assert connection.receiver.messages == [b"1", b"2"]
    assert [event["log_failure"].type for event in logged_errors] == [ZeroDivisionError]
    logged_errors.clear()


def test_pause_in_the_middle_of_a_chunk() -> None:
    """
    A receiver that pauses in a delivery gets no more of the chunk until it resumes, and then gets the rest in order,
    pausing as often as it likes, without recursion.
    """
    connection = Connection()
    receiver, protocol = connection.receiver, connection.protocol
    receiver.on_message = lambda message: protocol.pauseProducing()
    protocol.dataReceived(b"".join(b"%d\n" % number for number in range(2000)))
    for number in range(1, 2001):
        assert len(receiver.messages) == number
        assert connection.transport.producerState == "paused"
        protocol.resumeProducing()
    assert receiver.messages == [b"%d" % number for number in range(2000)]
    assert connection.transport.producerState == "producing"


def test_pause_and_resume_inside_a_delivery() -> None:
    """
    A receiver that pauses and resumes at once is called for the next message after it has returned, not inside.
    """
    connection = Connection()
    depth: list[int] = []
    inside = 0

    def on_message(message: bytes) -> None:
        nonlocal inside
        inside += 1
        connection.protocol.pauseProducing()
        connection.protocol.resumeProducing()
        depth.append(inside)
        inside -= 1

    connection.receiver.on_message = on_message
    connection.protocol.dataReceived(b"1\n2\n3\n")
    assert depth == [1, 1, 1]
    assert connection.transport.producerState == "producing"


def test_data_while_paused_is_held() -> None:
    """
    A chunk that the transport delivers after the pause waits behind what is held.
    """
    connection = Connection()
    connection.protocol.pauseProducing()
    connection.protocol.dataReceived(b"1\n2\n")
    connection.protocol.dataReceived(b"3\n")
    assert connection.events == []
    connection.protocol.resumeProducing()
    assert connection.receiver.messages == [b"1", b"2", b"3"]


@pytest.mark.parametrize("how", ["close", "abort", "stopProducing"])
def test_nothing_after_the_end(how: str) -> None:
    """
    Once the receiver closes or aborts, nothing more of the chunk, and nothing that comes later, is delivered.
    """
    connection = Connection()
    end: Callable[[], None] = {
        "close": connection.protocol.close,
        "abort": lambda: connection.protocol.abort("enough"),
        "stopProducing": connection.protocol.stopProducing,
    }[how]
    connection.receiver.on_message = lambda message: end()
    connection.protocol.dataReceived(b"1\n2\n")
    connection.protocol.dataReceived(b"3\n")
    connection.protocol.readConnectionLost()
    connection.lose()
    assert connection.receiver.names[1:] == ["message", "lost"]


def test_half_close() -> None:
    """
    The end of the peer's half comes behind its messages, leaves ours open, and an unended last line is told apart
    (B49).
    """
    connection = Connection()
    connection.protocol.dataReceived(b"1\n2")
    connection.protocol.readConnectionLost()
    assert connection.events == [("message", b"1"), ("remainder", b"2"), ("ended",)]
    connection.protocol.send(b"answer")
    connection.protocol.close()
    assert connection.transport.value() == b"answer\n"
    assert connection.transport.disconnecting  # both halves at once, for there is nothing left to read
    connection.lose()
    assert connection.events[-1] == ("lost", "the peer closed the connection")


def test_half_close_while_paused() -> None:
    """
    The end of the input does not overtake messages that are held for a paused receiver.
    """
    connection = Connection()
    connection.protocol.pauseProducing()
    connection.protocol.dataReceived(b"1\n2")
    connection.protocol.readConnectionLost()
    assert connection.events == []
    connection.protocol.resumeProducing()
    assert connection.events == [("message", b"1"), ("remainder", b"2"), ("ended",)]
    assert connection.transport.producerState == "paused"  # a descriptor at its end is not read again


def test_lost_without_half_close() -> None:
    """
    A connection that goes at once, as over TLS, still delivers what arrived, held or not, before its loss (B67).
    """
    connection = Connection()
    connection.protocol.pauseProducing()
    connection.protocol.dataReceived(b"1\n2")
    connection.lose()
    assert connection.events == [
        ("message", b"1"),
        ("remainder", b"2"),
        ("lost", "the peer closed the connection"),
    ]


def test_reasons() -> None:
    """
    The loss says what happened, and keeps Twisted's own reason.
    """
    connection = Connection()
    reason = Failure(ConnectionLost("reset"))
    connection.lose(reason)
    assert "the connection was lost: " in str(connection.receiver.error)
    assert connection.receiver.error.reason is reason
    connection = Connection()
    connection.protocol.close()
    connection.lose()
    assert str(connection.receiver.error) == "the connection was closed"


def test_lost_once() -> None:
    """
    Teardown runs once, whatever comes first (B72).
    """
    connection = Connection()
    connection.lose()
    connection.lose()
    connection.protocol.close()
    connection.protocol.abort("again")
    connection.protocol.send(b"late")
    connection.protocol.pauseProducing()
    connection.protocol.resumeProducing()
    assert connection.receiver.names == ["made", "lost"]
    assert connection.transport.value() == b""


def test_close_by_halves() -> None:
    """
    Closing a socket closes our half first, so that the kernel keeps our last answers for a peer that is still sending;
    the rest follows when the peer closes.
    """
    connection = Connection()
    connection.protocol.send(b"last")
    connection.protocol.close()
    connection.protocol.close()
    transport = connection.transport
    assert (transport.half_closed, transport.disconnecting) == (True, False)
    connection.protocol.writeConnectionLost()
    connection.protocol.dataReceived(b"ignored\n")
    connection.protocol.readConnectionLost()
    assert transport.disconnecting
    connection.lose()
    assert connection.receiver.names == ["made", "lost"]


def test_close_by_halves_is_bounded() -> None:
    """
    A peer that does not close its half is not waited for longer than exit_grace.
    """
    connection = Connection()
    connection.protocol.close()
    connection.protocol.writeConnectionLost()
    connection.clock.advance(Limits().exit_grace - 0.1)
    assert not connection.transport.disconnecting
    connection.clock.advance(0.2)
    assert connection.transport.disconnecting
    connection.lose()


def test_close_without_halves() -> None:
    """
    A transport that is no socket is closed at once.
    """
    connection = Connection(transport=StringTransport())
    connection.protocol.close()
    assert connection.transport.disconnecting
    connection.lose()


def test_close_goes_on_reading() -> None:
    """
    A closing connection reads and throws away, also when it was paused, for a peer stuck in a write reads nothing.
    """
    connection = Connection()
    connection.protocol.pauseProducing()
    connection.protocol.close()
    assert connection.transport.producerState == "producing"
    connection.protocol.pauseProducing()
    assert connection.transport.producerState == "producing"
    connection.lose()


def test_abort() -> None:
    """
    An abort drops what waits and gives its reason; the loss is not told from inside the call.
    """
    connection = Connection()
    connection.transport.stuck = True
    connection.protocol.send(b"1")
    connection.protocol.abort("enough of this")
    assert connection.transport.aborted
    assert connection.protocol.unsent == 0
    assert connection.events == []
    connection.lose(Failure(ConnectionLost()))
    assert connection.events == [("lost", "enough of this")]


def test_slow_reader_is_bounded() -> None:
    """
    A peer that does not read: the receiver is asked to wait, then is read from no more, then is cut with the limit's
    name; memory does not grow beyond it (rule 6, B33).
    """
    limits = Limits(high_water_bytes=100, low_water_bytes=50, pause_reading_bytes=200, max_unsent_bytes=400)
    connection = Connection(limits)
    protocol, transport = connection.protocol, connection.transport
    transport.stuck = True
    for _ in range(5):
        protocol.send(b"x" * 49)
    assert connection.events == [("writing paused",)]
    assert transport.producerState == "paused"
    assert protocol.unsent == 250
    for _ in range(10):
        protocol.send(b"x" * 49)
    assert transport.aborted
    assert protocol.unsent == 0
    connection.lose(Failure(ConnectionLost()))
    error = connection.receiver.error
    assert "Limits.max_unsent_bytes" in str(error)
    assert error.reason is not None
    assert error.reason.check(LimitExceeded)


def test_reading_goes_on_when_the_peer_reads() -> None:
    """
    Reading that was stopped for unsent output goes on once it is taken, unless the receiver itself pauses.
    """
    limits = Limits(high_water_bytes=10, low_water_bytes=5, pause_reading_bytes=20)
    for paused in (False, True):
        connection = Connection(limits)
        connection.transport.stuck = True
        connection.protocol.send(b"x" * 30)
        assert connection.transport.producerState == "paused"
        if paused:
            connection.protocol.pauseProducing()
        connection.transport.stuck = False
        connection.transport.take()
        assert connection.transport.producerState == ("paused" if paused else "producing")
        assert connection.events == [("writing paused",), ("writing resumed",)]


def test_stall() -> None:
    """
    A peer that takes nothing for too long is cut.
    """
    connection = Connection(Limits(stall_timeout=5.0))
    connection.transport.stuck = True
    connection.protocol.send(b"1")
    connection.clock.advance(5.0)
    assert connection.transport.aborted
    connection.lose()
    assert "Limits.stall_timeout" in str(connection.receiver.error)


# the server


class Server:
    """
    A factory with some connections.
    """

    def __init__(self, count: int) -> None:
        self.clock = Clock()
        self.receivers = RecordingFactory(Limits(drain_timeout=7.0))
        self.factory = ServerFactory(self.receivers, self.clock)
        self.protocols = []
        for _ in range(count):
            protocol = self.factory.buildProtocol(None)
            assert protocol is not None
            protocol.makeConnection(SocketTransport())
            self.protocols.append(protocol)


def test_server_keeps_live_connections() -> None:
    """
    The factory knows its live connections, each with a receiver of its own.
    """
    server = Server(2)
    assert server.factory.connections == set(server.protocols)
    server.protocols[0].connectionLost(DONE)
    assert server.factory.connections == {server.protocols[1]}
    assert server.receivers.receivers[0].names == ["made", "lost"]
    assert server.receivers.receivers[1].names == ["made"]


def test_close_all() -> None:
    """
    Every receiver is asked once to shut down, new connections are refused, and it fires when the last one is gone.
    """
    server = Server(2)
    closing, again = server.factory.close_all(), server.factory.close_all()
    assert server.factory.buildProtocol(None) is None
    assert [receiver.names for receiver in server.receivers.receivers] == [["made", "shutdown"]] * 2
    server.protocols[0].connectionLost(DONE)
    no_result(closing)
    server.protocols[1].connectionLost(DONE)
    success_result(closing)
    success_result(again)
    assert server.clock.getDelayedCalls() == []
    success_result(server.factory.close_all())


def test_close_all_is_bounded() -> None:
    """
    A connection that does not end in drain_timeout seconds is aborted.
    """
    server = Server(1)
    server.receivers.receivers[0].shutdown = Deferred  # type: ignore[method-assign]
    closing = server.factory.close_all()
    server.clock.advance(7.0)
    assert server.protocols[0].transport.aborted  # type: ignore[union-attr]
    server.protocols[0].connectionLost(DONE)
    success_result(closing)


def test_close_all_contains_failures(logged_errors: Any) -> None:
    """
    A receiver that fails to shut down is logged, and the others are asked all the same.
    """
    server = Server(2)
    for receiver in server.receivers.receivers:
        receiver.shutdown = lambda: fail(ZeroDivisionError())  # type: ignore[method-assign]
    closing = server.factory.close_all()
    assert len(logged_errors) == 2
    logged_errors.clear()
    for protocol in server.protocols:
        protocol.connectionLost(DONE)
    success_result(closing)


def test_server_starts_again() -> None:
    """
    A factory that listens again accepts again.
    """
    server = Server(0)
    server.factory.close_all()
    server.factory.doStart()
    assert server.factory.buildProtocol(None) is not None


# the client


@implementer(IStreamClientEndpoint)
class Endpoint:
    """
    Connects when the test says so.
    """

    def __init__(self) -> None:
        self.result: Deferred[Any] = Deferred()
        self.factory: Any = None

    def connect(self, protocolFactory: Any) -> Deferred[Any]:
        self.factory = protocolFactory
        return self.result


verifyObject(IStreamClientEndpoint, Endpoint())


def test_connect() -> None:
    """
    The connection is made on the endpoint, and the caller gets our protocol even if the endpoint wraps it.
    """
    endpoint, receiver = Endpoint(), RecordingReceiver()
    connecting = connect(endpoint, receiver, Limits(), Clock())
    protocol = endpoint.factory.buildProtocol(None)
    protocol.makeConnection(SocketTransport())
    endpoint.result.callback(object())
    assert success_result(connecting) is protocol
    assert receiver.names == ["made"]


def test_connect_refused() -> None:
    """
    What keeps a connection from being made is an AcpConnectionError, at once, with the reason.
    """
    endpoint, receiver = Endpoint(), RecordingReceiver()
    connecting = connect(endpoint, receiver, Limits(), Clock())
    endpoint.result.errback(ConnectionRefusedError("nobody there"))
    error = failure_of(connecting, AcpConnectionError)
    assert "nobody there" in str(error)
    assert error.reason is not None
    assert error.reason.check(ConnectionRefusedError)
    assert receiver.events == []


def test_connect_cancelled() -> None:
    """
    Cancelling gives the attempt up.
    """
    endpoint = Endpoint()
    connecting = connect(endpoint, RecordingReceiver(), Limits(), Clock())
    connecting.cancel()
    failure_of(connecting, CancelledError)
    assert endpoint.result.called


@pytest.mark.parametrize("then", ["close", "abort"])
@pytest.mark.parametrize("stdio", [False, True])
def test_hanging_up_at_the_last_words(stdio: bool, then: str) -> None:
    """
    Whoever hangs up when he is given what came last is told of one loss, and no timer goes on (B49).
    """
    clock, receiver = Clock(), RecordingReceiver()
    protocol = MessageProtocol(receiver, Limits(), clock)
    if stdio:
        protocol = StdioAgentTransport(receiver, Limits(), clock, StdioGuard())
    protocol.makeConnection(SocketTransport())
    receiver.on_remainder = protocol.close if then == "close" else lambda: protocol.abort("enough")
    protocol.dataReceived(b"1\nlast")
    protocol.connectionLost(Failure(ConnectionLost()))
    assert receiver.names == ["made", "message", "remainder", "lost"]
    assert clock.getDelayedCalls() == []
