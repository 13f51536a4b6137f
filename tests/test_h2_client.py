"""
HTTP/2 from the client's side, against a server of L{h2} in memory.
"""

from __future__ import annotations

from typing import Any

import h2.events
import pytest
from attrs import define, field
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes, Settings
from hyperframe.frame import DataFrame, GoAwayFrame
from hypothesis import given
from hypothesis import strategies as st
from transport_fakes import SocketTransport
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from acp_twisted.limits import Limits
from acp_twisted.transports.http.exchange import NotProcessed, Truncated
from acp_twisted.transports.http.h2_client import MAX_BLOCKED_BYTES, STREAM_WINDOW, H2ClientProtocol, H2Exchange
from acp_twisted.transports.http.h2_pool import MAX_ATTEMPTS, Http2Layer


@define(eq=False)
class Reading:
    """
    Writes an answer down.
    """

    status: int = 0
    headers: dict[bytes, list[bytes]] = field(factory=dict)
    body: bytes = b""
    ends: list[Failure | None] = field(factory=list)
    exchange: Any = None
    pause_after: int = 0

    def response_started(self, status: int, headers: dict[bytes, list[bytes]]) -> None:
        self.status = status
        self.headers = headers

    def body_received(self, data: bytes) -> None:
        self.body += data
        if self.pause_after and len(self.body) >= self.pause_after:
            self.exchange.pause()

    def response_ended(self, failure: Failure | None) -> None:
        self.ends.append(failure)


class Server:
    """
    One connection from both sides.  Nothing moves until L{run}.
    """

    def __init__(self, gone: Any = lambda connection: None, clock: Clock | None = None, streams: int = 100) -> None:
        self.clock = clock or Clock()
        self.transport = SocketTransport()
        self.client = H2ClientProtocol(b"http", b"host:1", b"/acp?x=1", Limits(), self.clock, gone)
        self.server = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self.server.local_settings = Settings(
            client=False, initial_values={SettingCodes.MAX_CONCURRENT_STREAMS: streams}
        )
        self.server.initiate_connection()
        self.events: list[Any] = []
        self.taken = 0
        self.client.makeConnection(self.transport)
        self.run()

    def run(self) -> None:
        """
        Carry bytes both ways until there are none.
        """
        while True:
            sent = self.transport.value()[self.taken :]
            self.taken += len(sent)
            if sent:
                self.events += self.server.receive_data(sent)
            back = self.server.data_to_send()
            if back:
                self.client.dataReceived(back)
            if not (sent or back):
                return

    def ask(self, reading: Reading, body: bytes = b"", method: bytes = b"GET") -> H2Exchange:
        """
        Send a request.
        """
        exchange = H2Exchange(method, [(b"Accept", b"text/plain")], body, reading)
        reading.exchange = exchange
        self.client.start(exchange)
        self.run()
        return exchange

    def answer(self, stream_id: int, body: bytes = b"", end: bool = True, status: bytes = b"200") -> None:
        """
        Answer.
        """
        self.server.send_headers(stream_id, [(b":status", status), (b"a", b"1"), (b"a", b"2")], end_stream=not body)
        if body:
            self.server.send_data(stream_id, body, end_stream=end)
        self.run()

    def of(self, kind: type) -> list[Any]:
        """
        What the server has seen, of one kind.
        """
        return [event for event in self.events if isinstance(event, kind)]

    def bodies(self) -> dict[int, bytes]:
        """
        What was sent, by stream.
        """
        found: dict[int, bytes] = {}
        for event in self.of(h2.events.DataReceived):
            found[event.stream_id] = found.get(event.stream_id, b"") + event.data
        return found


def test_a_request_and_its_answer() -> None:
    """Protocol 5.2: HTTP/2, with the names of headers in lower case, and every value of the answer's."""
    server = Server()
    reading = Reading()
    server.ask(reading, b"body", b"POST")
    (request,) = server.of(h2.events.RequestReceived)
    assert dict(request.headers) == {
        b":method": b"POST",
        b":scheme": b"http",
        b":authority": b"host:1",
        b":path": b"/acp?x=1",
        b"accept": b"text/plain",
        b"content-length": b"4",
    }
    assert server.bodies() == {1: b"body"}
    server.answer(1, b"well")
    assert (reading.status, reading.body, reading.ends) == (200, b"well", [None])
    assert reading.headers == {b"a": [b"1", b"2"]}
    assert server.client.idle


def test_many_at_once() -> None:
    """Answers come in any order, each to its own reader."""
    server = Server()
    readings = [Reading() for _ in range(20)]
    exchanges = [server.ask(each, b"x" * n, b"POST") for n, each in enumerate(readings)]
    for number in reversed(range(20)):
        server.answer(exchanges[number].stream_id, b"%d" % number if number else b"zero")
    assert [each.body for each in readings] == [b"zero", *(b"%d" % n for n in range(1, 20))]


def test_a_large_body_keeps_to_the_windows() -> None:
    """Rule 6: what the server gives no room for waits here, and it goes on where it stopped."""
    server = Server()
    reading = Reading()
    body = bytes(n % 251 for n in range(300_000))
    server.ask(reading, body, b"POST")
    assert len(server.bodies()[1]) == 65_535
    while len(server.bodies()[1]) < len(body):
        server.server.increment_flow_control_window(50_000)
        server.server.increment_flow_control_window(50_000, 1)
        server.run()
    assert server.bodies()[1] == body
    assert server.of(h2.events.StreamEnded)


def test_a_full_socket_stops_the_body() -> None:
    """Rule 6: nothing of a body is written to a socket that takes nothing; one that stays so is cut."""
    server = Server()
    server.client.pauseProducing()
    reading = Reading()
    server.ask(reading, b"x" * 1000, b"POST")
    assert not server.bodies()
    server.client.resumeProducing()
    server.run()
    assert server.bodies() == {1: b"x" * 1000}
    server.client.pauseProducing()
    server.clock.advance(60)
    assert server.transport.aborted
    server.client.connectionLost(Failure(ConnectionLost()))
    (failure,) = reading.ends
    assert failure is not None
    assert "Limits.stall_timeout" in failure.getErrorMessage()
    assert not server.clock.getDelayedCalls()


def test_a_paused_reader_holds_its_own_stream_only() -> None:
    """Rule 6: what a reader does not take, up to one window, waits here; the others' streams go on."""
    server = Server()
    slow, quick = Reading(pause_after=1), Reading()
    server.ask(slow)
    server.ask(quick)
    for stream_id in (1, 3):
        server.server.send_headers(stream_id, [(b":status", b"200")])
    sent = {1: 0, 3: 0}
    for _ in range(200):
        for stream_id in (1, 3):
            room = min(server.server.local_flow_control_window(stream_id), 16_384)
            if room > 0:
                server.server.send_data(stream_id, b"x" * room)
                sent[stream_id] += room
        server.run()
    assert sent[1] <= 2 * STREAM_WINDOW
    assert sent[3] == 200 * 16_384
    assert len(quick.body) == sent[3]
    assert len(slow.body) <= 16_384
    slow.pause_after = 0
    slow.exchange.resume()
    server.run()
    assert len(slow.body) == sent[1]
    assert server.server.local_flow_control_window(1) > 0
    server.server.end_stream(1)
    server.run()
    assert slow.ends == [None]


def test_the_end_of_a_paused_answer_waits() -> None:
    """The order of a stream holds over a pause."""
    server = Server()
    reading = Reading(pause_after=1)
    server.ask(reading)
    server.answer(1, b"one", end=False)
    server.server.send_data(1, b"two", end_stream=True)
    server.run()
    assert (reading.body, reading.ends) == (b"one", [])
    reading.pause_after = 0
    reading.exchange.resume()
    assert (reading.body, reading.ends) == (b"onetwo", [None])


def test_a_cancelled_request_is_reset() -> None:
    """Nobody is told anything more, and the server can stop."""
    server = Server()
    reading = Reading()
    exchange = server.ask(reading)
    server.answer(1, b"some", end=False)
    exchange.cancel()
    exchange.cancel()
    server.run()
    (reset,) = server.of(h2.events.StreamReset)
    assert reset.error_code == ErrorCodes.CANCEL
    assert reading.ends == []
    assert server.client.idle


def test_an_answer_before_the_request_was_sent_whole() -> None:
    """A refusal may come while the body waits for room; the rest is not sent."""
    server = Server()
    reading = Reading()
    server.ask(reading, b"x" * 200_000, b"POST")
    server.answer(1, b"too large", status=b"413")
    assert (reading.status, reading.ends) == (413, [None])
    server.server.increment_flow_control_window(100_000)
    server.run()
    assert len(server.bodies()[1]) == 65_535


@pytest.mark.parametrize(
    ("code", "kind"), [(ErrorCodes.INTERNAL_ERROR, Truncated), (ErrorCodes.REFUSED_STREAM, NotProcessed)]
)
def test_a_stream_that_is_reset(code: ErrorCodes, kind: type[Exception]) -> None:
    """The reader learns whether the server has looked at the request."""
    server = Server()
    reading = Reading()
    server.ask(reading)
    server.server.reset_stream(1, code)
    server.run()
    (failure,) = reading.ends
    assert failure is not None
    assert failure.check(kind)
    assert code.name in failure.getErrorMessage()


def test_a_goodbye_lets_old_streams_end() -> None:
    """
    GOAWAY: what the server has not looked at may go elsewhere, the rest goes on; then the connection closes.  It may
    stand in one chunk with what follows it.
    """
    server = Server()
    first, second = Reading(), Reading()
    server.ask(first)
    server.ask(second)
    server.server.send_headers(1, [(b":status", b"200")])
    server.server.send_data(1, b"before ")
    head = server.server.data_to_send()
    goodbye = GoAwayFrame(0, last_stream_id=1).serialize()
    data = DataFrame(1, b"after", flags=["END_STREAM"]).serialize()
    server.client.dataReceived(head + goodbye + data)
    assert (first.body, first.ends) == (b"before after", [None])
    (failure,) = second.ends
    assert failure is not None
    assert failure.check(NotProcessed)
    assert not server.client.available
    assert server.transport.disconnecting


def test_a_goodbye_at_which_others_are_cancelled() -> None:
    """Whoever is told that his request was not looked at may cancel the others, and nothing is told of them."""
    server = Server()
    second = Reading()

    class Cancels(Reading):
        def response_ended(self, failure: Failure | None) -> None:
            super().response_ended(failure)
            second.exchange.cancel()

    first = Cancels()
    server.ask(first)
    server.ask(second)
    server.client.dataReceived(GoAwayFrame(0, last_stream_id=0).serialize())
    assert (len(first.ends), second.ends) == (1, [])
    assert server.transport.disconnecting


def test_rules_that_are_broken() -> None:
    """Rule 7: bytes that are no HTTP/2 end the connection, with a reason for everything under way."""
    for garbage in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", b"\0" * 9):
        server = Server()
        reading = Reading()
        server.ask(reading)
        server.client.dataReceived(garbage)
        assert server.transport.aborted
        server.client.connectionLost(Failure(ConnectionLost()))
        (failure,) = reading.ends
        assert failure is not None
        assert "rules of HTTP/2" in failure.getErrorMessage()
        assert not server.clock.getDelayedCalls()


@given(st.lists(st.binary(max_size=60), max_size=10))
def test_any_bytes(chunks: list[bytes]) -> None:
    """Whatever a server sends, nothing is raised, and the reader is told at most one end."""
    server = Server()
    reading = Reading()
    server.ask(reading)
    for chunk in chunks:
        server.client.dataReceived(chunk)
    server.client.connectionLost(Failure(ConnectionLost()))
    assert len(reading.ends) == 1
    assert not server.clock.getDelayedCalls()


def test_pings_find_a_dead_server() -> None:
    """B83: silence is no death; a ping without an answer is, after Limits.pong_timeout."""
    server = Server()
    reading = Reading()
    server.ask(reading)
    for _ in range(20):
        server.clock.advance(15)
        server.run()
    assert not server.transport.aborted
    assert server.of(h2.events.PingReceived)
    for _ in range(4):
        server.clock.advance(15)
    assert server.transport.aborted
    server.client.connectionLost(Failure(ConnectionLost()))
    (failure,) = reading.ends
    assert failure is not None
    assert "Limits.pong_timeout" in failure.getErrorMessage()


def test_a_flood_of_pings_is_bounded() -> None:
    """Rule 6: a server that asks and never reads is cut."""
    server = Server()
    server.client.pauseProducing()
    for _ in range(MAX_BLOCKED_BYTES // 17 + 2):
        server.server.ping(b"12345678")
        server.client.dataReceived(server.server.data_to_send())
    assert server.transport.aborted


class Pool:
    """
    A layer, and the servers of its connections.
    """

    def __init__(self, streams: int = 100) -> None:
        self.servers: list[Server] = []
        self.streams = streams
        self.refuse = False
        self.layer = Http2Layer(self._connect)

    def _connect(self, gone: Any) -> Deferred[H2ClientProtocol]:
        if self.refuse:
            return fail(ConnectionLost("refused"))
        server = Server(gone, streams=self.streams)
        self.servers.append(server)
        return succeed(server.client)

    def ask(self) -> Reading:
        """
        Send a request.
        """
        reading = Reading()
        reading.exchange = self.layer.request(b"GET", [], b"", reading)
        for server in self.servers:
            server.run()
        return reading


def test_more_streams_than_one_connection_has() -> None:
    """A server's limit of streams makes another connection, so that a POST never waits for a GET that never ends."""
    pool = Pool(streams=3)
    pool.layer.open()
    readings = [pool.ask() for _ in range(8)]
    assert len(pool.servers) == 3
    for server in pool.servers:
        for request in server.of(h2.events.RequestReceived):
            server.answer(request.stream_id)
    assert all(each.ends == [None] for each in readings)
    pool.ask()
    assert len(pool.servers) == 3


def test_what_was_not_looked_at_is_sent_again() -> None:
    """A connection that the server ends loses no request; nginx ends one after 1 000."""
    pool = Pool()
    pool.layer.open()
    reading = pool.ask()
    (first,) = pool.servers
    first.server.close_connection(last_stream_id=0)
    first.run()
    assert len(pool.servers) == 2
    pool.servers[1].run()
    pool.servers[1].answer(1, b"well")
    assert (reading.body, reading.ends) == (b"well", [None])
    reading = pool.ask()
    for _ in range(MAX_ATTEMPTS):
        server = pool.servers[-1]
        (stream_id,) = server.client._streams
        server.server.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
        server.run()
    (failure,) = reading.ends
    assert failure is not None
    assert failure.check(NotProcessed)


def test_no_connection_at_all() -> None:
    """What waits for a connection that can't be made fails."""
    pool = Pool()
    pool.refuse = True
    reading = pool.ask()
    (failure,) = reading.ends
    assert failure is not None
    assert failure.check(ConnectionLost)


def test_closing_waits_for_the_sockets() -> None:
    """B79: close fires when every connection is gone, and no timer is left."""
    pool = Pool()
    pool.layer.open()
    pool.ask()
    closed: list[object] = []
    pool.layer.close().addCallback(closed.append)
    (server,) = pool.servers
    assert server.transport.disconnecting
    assert not closed
    server.client.connectionLost(Failure(ConnectionLost()))
    assert closed
    assert not server.clock.getDelayedCalls()
