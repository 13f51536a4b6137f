"""
The server's event streams over Twisted's HTTP/2: a reader that stops costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from h2.events import DataReceived
from h2.settings import SettingCodes
from h2_server_fakes import Wire, connect, sending_calls
from http_server_fakes import EVENTS, INITIALIZE, JSON, Server
from transport_fakes import RecordingFactory

from acp_twisted.limits import Limits
from acp_twisted.transports.http.below import BACKLOG, Turns
from acp_twisted.transports.http.sse import SLICE

LARGE = 2**31 - 1
"""The largest window there is."""


class Streams:
    """
    A connection over HTTP/2, whose agent is the test.

    @ivar ids: the headers by which the connection is known.
    """

    def __init__(self, limits: Limits | None = None, **options: Any) -> None:
        self.factory = RecordingFactory(limits or Limits())
        self.server = Server(served=self.factory)
        self.wire: Wire = connect(self.server, **options)
        first = self.wire.request("POST", JSON, INITIALIZE.encode())
        self.receiver = self.factory.receivers[0]
        self.send({"jsonrpc": "2.0", "id": 1, "result": {}})
        self.wire.run()
        self.ids = {"Acp-Connection-Id": self.wire.headers(first)["acp-connection-id"]}

    def open(self, session: str) -> int:
        """Open an event stream."""
        return self.wire.request("GET", {**EVENTS, **self.ids, "Acp-Session-Id": session})

    def send(self, message: Any) -> None:
        """The agent sends."""
        self.receiver.transport.send(json.dumps(message).encode())

    def update(self, session: str, size: int = 10, letter: str = "x") -> None:
        """The agent sends an update."""
        params = {"sessionId": session, "text": letter * size}
        self.send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def texts(self, stream_id: int) -> list[str]:
        """The updates that came on a stream."""
        blocks = self.wire.bodies.get(stream_id, b"").decode().split("\n\n")[:-1]
        return [json.loads(block[6:])["params"]["text"] for block in blocks if block.startswith("data: ")]

    def over(self) -> None:
        """All of it ends."""
        self.wire.lose()
        self.server.clock.pump([0.4] * 200)
        self.server.over()


def asleep(streams: Streams) -> bool:
    """Whether Twisted's loop waits to be woken."""
    return not sending_calls(streams.server.clock)


def test_a_stopped_reader_costs_no_turns() -> None:
    """Rule 6: while a stream has no window, nothing is called again and again; when it has one, all of it comes."""
    streams = Streams()
    stream = streams.open("s1")
    assert isinstance(streams.wire.server.priority, Turns)
    streams.wire.reading = False
    for letter in "abc":
        streams.update("s1", 40_000, letter)
    streams.wire.run()
    assert 65_000 < len(streams.wire.bodies[stream]) <= 65_535
    assert asleep(streams)
    streams.wire.reading = True
    streams.wire.open_windows()
    streams.wire.run()
    assert streams.texts(stream) == [letter * 40_000 for letter in "abc"]
    assert asleep(streams)
    streams.over()


def test_others_go_on_beside_a_stopped_one() -> None:
    """A stream without a window is passed over, and is in turn again afterwards."""
    streams = Streams(more=1_000_000)
    slow, other = streams.open("s1"), streams.open("s2")
    streams.wire.reading = False
    streams.update("s1", 100_000)
    streams.wire.run()
    streams.update("s2", 100)
    streams.wire.run()
    assert streams.texts(other) == ["x" * 100]
    assert streams.texts(slow) == []
    assert asleep(streams)
    streams.wire.reading = True
    streams.wire.open_windows()
    streams.wire.run()
    assert streams.texts(slow) == ["x" * 100_000]
    streams.over()


def test_the_answer_to_load_waits_for_its_turn() -> None:
    """
    The answer to session/load is behind the updates that were sent before it also on the wire, where both streams take
    turns (J4, design rule 5).
    """
    streams = Streams()
    connection, session = streams.wire.request("GET", {**EVENTS, **streams.ids}), streams.open("s1")
    load = {"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": {"sessionId": "s1"}}
    headers = {**JSON, **streams.ids, "Acp-Session-Id": "s1"}
    streams.wire.request("POST", headers, json.dumps(load).encode())
    for n in range(50):
        streams.update("s1", 1, str(n))
    streams.send({"jsonrpc": "2.0", "id": 2, "result": {}})
    streams.wire.run()
    assert streams.texts(session) == [str(n) for n in range(50)]
    data = [each for each in streams.wire.events if isinstance(each, DataReceived)]
    order = [each.stream_id for each in data if each.stream_id in (connection, session) and b"data:" in each.data]
    assert order == [session] * 50 + [connection]
    streams.over()


def test_a_load_that_is_not_read() -> None:
    """A session's reader that takes nothing keeps the answer back until it goes away, and no other."""
    streams = Streams(more=1_000_000)
    connection, session = streams.wire.request("GET", {**EVENTS, **streams.ids}), streams.open("s1")
    load = {"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": {"sessionId": "s1"}}
    streams.wire.request("POST", {**JSON, **streams.ids, "Acp-Session-Id": "s1"}, json.dumps(load).encode())
    streams.wire.reading = False
    streams.update("s1", 66_000)
    streams.send({"jsonrpc": "2.0", "id": 2, "result": {}})
    streams.send({"jsonrpc": "2.0", "method": "_note"})
    streams.wire.run()
    assert b"_note" in streams.wire.bodies[connection]
    assert b'"id"' not in streams.wire.bodies[connection]
    streams.wire.client.reset_stream(session)
    streams.wire.run()
    assert b'"id"' in streams.wire.bodies[connection]
    streams.over()


def test_windows_that_a_setting_opens() -> None:
    """RFC 9113, 6.9.2: a setting changes the window of every stream, also of those that have none."""
    streams = Streams(window=50)
    stream = streams.open("s1")
    streams.wire.reading = False
    for number in range(3):
        streams.update("s1", 1_000, str(number))
    streams.wire.run()
    assert streams.texts(stream) == []
    assert asleep(streams)
    streams.wire.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 60_000})
    streams.wire.run()
    assert streams.texts(stream) == ["0" * 1_000, "1" * 1_000, "2" * 1_000]
    streams.over()


def test_windows_below_zero() -> None:
    """RFC 9113, 6.9.2: a setting may take away more window than there is left; nothing is sent, nothing is raised."""
    streams = Streams()
    stream = streams.open("s1")
    streams.wire.reading = False
    streams.update("s1", 40_000)
    streams.update("s1", 40_000)
    streams.wire.run()
    streams.wire.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})
    streams.wire.run()
    streams.update("s1", 500)
    streams.wire.run()
    assert len(streams.texts(stream)) == 1
    assert asleep(streams)
    streams.wire.reading = True
    streams.wire.open_windows()
    streams.wire.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 65_535})
    streams.wire.run()
    assert len(streams.texts(stream)) == 3
    streams.over()


@pytest.mark.parametrize("path", ["/acp", "/elsewhere"])
def test_an_answer_that_nobody_takes(path: str) -> None:
    """The body of any answer waits for a window without any turns, and its end follows."""
    server = Server()
    wire = connect(server, window=0)
    stream = wire.request("POST", JSON, b"no json", path)
    assert not wire.ended(stream)
    assert not sending_calls(server.clock)
    wire.client.increment_flow_control_window(1_000, stream)
    wire.run()
    assert wire.ended(stream)
    wire.lose()
    server.over()


@pytest.fixture
def stuck() -> Iterator[Streams]:
    """A client with the largest windows, whose socket takes nothing more."""
    streams = Streams(Limits(idle_timeout=100_000), window=LARGE, more=LARGE - 65_535)
    yield streams
    streams.over()


def in_twisted(streams: Streams) -> int:
    """What Twisted keeps of the answers."""
    queues = streams.wire.server._outboundStreamQueues.values()
    return sum(len(piece) for queue in queues for piece in queue if isinstance(piece, bytes))


@pytest.mark.parametrize("size", [100, 10_000, 300_000])
def test_a_full_socket_stops_a_stream(stuck: Streams, size: int) -> None:
    """Rule 6: Twisted keeps no more than over HTTP/1.1, whatever the window; whoever produces is asked to wait."""
    stream = stuck.open("s1")
    stuck.wire.socket.stuck = True
    count = min(2_000, 1_000_000 // size)
    for number in range(count):
        stuck.update("s1", size, chr(97 + number % 26))
        if number % 50 == 0:
            stuck.wire.run(2)
    assert in_twisted(stuck) <= BACKLOG + SLICE
    assert "writing paused" in stuck.receiver.names
    stuck.wire.socket.stuck = False
    stuck.wire.socket.take()
    stuck.wire.run(400)
    assert stuck.texts(stream) == [chr(97 + number % 26) * size for number in range(count)]
    assert stuck.receiver.names[-1] == "writing resumed"
    assert asleep(stuck)


def test_a_loop_that_is_slower_than_its_agent(stuck: Streams) -> None:
    """Rule 6: what is said within one turn of the reactor waits with us as well."""
    stream = stuck.open("s1")
    for number in range(200):
        stuck.update("s1", 10_000, chr(97 + number % 26))
    assert in_twisted(stuck) <= BACKLOG + SLICE
    stuck.wire.run()
    assert stuck.texts(stream) == [chr(97 + number % 26) * 10_000 for number in range(200)]


def test_a_socket_that_stays_full(stuck: Streams) -> None:
    """Rule 6: after stall_timeout the stream is cut, and the next reader gets what this one has not."""
    stuck.open("s1")
    stuck.wire.socket.stuck = True
    for number in range(20):
        stuck.update("s1", 50_000, chr(97 + number))
    stuck.wire.run()
    assert stuck.wire.server._consumerBlocked is not None
    assert len(stuck.wire.server.streams) == 1
    stuck.server.clock.advance(Limits().stall_timeout)
    assert not stuck.wire.server.streams
    stuck.wire.socket.stuck = False
    stuck.wire.socket.take()
    stuck.wire.run()
    again = stuck.open("s1")
    texts = stuck.texts(again)
    assert texts == [chr(97 + number) * 50_000 for number in range(20)][-len(texts) :]
    assert len(texts) >= 15


def test_a_slow_reader_is_no_dead_one(stuck: Streams) -> None:
    """B33: as long as it takes some, if it is little, it is not cut."""
    stream = stuck.open("s1")
    for number in range(20):
        stuck.update("s1", 100_000, chr(97 + number))
    stuck.wire.socket.stuck = True
    while len(stuck.texts(stream)) < 20:
        stuck.wire.run(2)
        stuck.server.clock.advance(Limits().stall_timeout * 0.9)
        stuck.wire.read()
        stuck.wire.socket.take()
        assert list(stuck.wire.server.streams) == [stream]
    assert stuck.texts(stream) == [chr(97 + number) * 100_000 for number in range(20)]


def test_a_reader_that_goes_away_while_it_waits(stuck: Streams) -> None:
    """Its stream is reset by the client, and others on the connection go on."""
    stream, other = stuck.open("s1"), stuck.open("s2")
    stuck.wire.socket.stuck = True
    for _ in range(20):
        stuck.update("s1", 50_000)
    stuck.wire.run()
    stuck.wire.client.reset_stream(stream)
    stuck.wire.run()
    stuck.wire.socket.stuck = False
    stuck.wire.socket.take()
    stuck.update("s2", 50)
    stuck.wire.run()
    assert stuck.texts(other) == ["x" * 50]


def test_the_server_stops_while_a_socket_is_full(stuck: Streams) -> None:
    """Rule 1: closing does not wait for who does not read."""
    stuck.open("s1")
    stuck.wire.socket.stuck = True
    for _ in range(20):
        stuck.update("s1", 50_000)
    stuck.wire.run()
    closed = stuck.server.resource.close_all()
    stuck.server.clock.advance(Limits().drain_timeout + 1)
    assert closed.called


def test_a_quiet_stream_is_no_idle_connection() -> None:
    """B83: as over HTTP/1.1, Twisted closes no connection that has an event stream, and closes it afterwards."""
    streams = Streams(Limits(ping_interval=0), timeout=60)
    stream = streams.open("s1")
    for _ in range(5):
        streams.server.clock.advance(50)
    streams.update("s1", 10)
    streams.wire.run()
    assert streams.texts(stream) == ["x" * 10]
    streams.wire.request("DELETE", streams.ids)
    assert streams.wire.ended(stream)
    assert not streams.wire.socket.disconnecting
    streams.server.clock.advance(50)
    streams.server.clock.advance(50)
    assert streams.wire.socket.disconnecting
    streams.over()
