"""
Clients of HTTP/2 that send much that carries nothing: what they cost is bounded, and nobody else is any the worse.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from h2.errors import ErrorCodes
from h2_server_fakes import Wire, connect, frame
from http_server_fakes import EVENTS, INITIALIZE, JSON, Server
from hypothesis import given
from hypothesis import strategies as st
from transport_fakes import RecordingFactory
from twisted.internet.task import Clock

from acp_twisted.limits import Limits
from acp_twisted.transports.http.flood import (
    AT_ONCE,
    COST_OF_RESET,
    COST_OF_SETTINGS,
    LINGER_SECONDS,
    MAX_FRAME_BYTES,
    SECONDS,
    Flood,
    Frames,
)

DATA, HEADERS, PRIORITY, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
ONE = struct.pack("!I", 1)
CANCEL = struct.pack("!I", 8)
LIMIT = 200
SOME = Limits(max_empty_frames=LIMIT, ping_interval=0)


def head(method: str = "POST") -> bytes:
    """The block of a request's headers, whatever came before."""
    return {"GET": b"\x82", "POST": b"\x83"}[method] + b"\x87\x04\x04/acp\x01\x09localhost"


REQUEST = head()


def begin(stream: int, flags: int = END_HEADERS, block: bytes = REQUEST) -> bytes:
    """A request, without its end."""
    return frame(HEADERS, flags, stream, block)


class RawWire(Wire):
    """
    A client that sends what no library would.

    @ivar frames: what it got, as kind, stream and body.
    """

    def __init__(self, server: Server, window: int = 65_535) -> None:
        self.frames: list[tuple[int, int, bytes]] = []
        super().__init__(server.site, server.clock, window)

    def read(self) -> None:
        """The client reads what the server wrote."""
        data = self.socket.value()[self._taken :]
        self._taken += len(data)
        while data:
            size = int.from_bytes(data[:3], "big")
            self.frames.append((data[3], int.from_bytes(data[5:9], "big"), data[9 : 9 + size]))
            data = data[9 + size :]

    def goaways(self) -> list[int]:
        """Why the server has ended it."""
        return [int.from_bytes(body[4:8], "big") for kind, _, body in self.frames if kind == GOAWAY]


def open_stream(limits: Limits) -> tuple[Server, Any, Any]:
    """A connection with an event stream, and what its agent sends by."""
    factory = RecordingFactory(limits)
    server = Server(served=factory)
    wire: Any = connect(server)
    first = wire.request("POST", JSON, INITIALIZE.encode())
    transport = factory.receivers[0].transport
    transport.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    wire.run()
    wire.ids = {"Acp-Connection-Id": wire.headers(first)["acp-connection-id"]}
    wire.stream = wire.request("GET", {**EVENTS, **wire.ids})
    return server, wire, transport


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that allows few empty frames."""
    made = Server(SOME)
    yield made
    made.clock.advance(10_000)
    made.over()


def is_served(server: Server) -> bool:
    """Whether somebody else is."""
    wire = connect(server)
    stream = wire.request("POST", JSON, INITIALIZE.encode())
    served = wire.headers(stream)[":status"] == "200"
    wire.request("DELETE", {"Acp-Connection-Id": wire.headers(stream)["acp-connection-id"]})
    wire.lose()
    return served


def is_calmed(wire: RawWire) -> bool:
    """Whether the connection was ended for it, and the socket is not kept."""
    wire.run()
    calm = wire.goaways() == [ErrorCodes.ENHANCE_YOUR_CALM] and wire.socket.disconnecting
    assert not wire.server.streams
    assert not wire.socket.aborted
    wire.clock.advance(LINGER_SECONDS)
    assert wire.socket.aborted
    wire.lose()
    return bool(calm)


def answers(wire: RawWire) -> bool:
    """Whether the connection is in order: a ping comes back."""
    wire.frames.clear()
    wire.raw(frame(PING, 0, 0, b"87654321"))
    wire.run()
    return (PING, 0, b"87654321") in wire.frames


FLOODS: dict[str, tuple[bytes, int, bytes]] = {
    "pings": (frame(PING, 0, 0, b"12345678"), 1, b""),
    "acks of pings": (frame(PING, 1, 0, b"12345678"), 1, b""),
    "settings": (frame(SETTINGS), COST_OF_SETTINGS, b""),
    "acks of settings": (frame(SETTINGS, 1), COST_OF_SETTINGS, b""),
    "a window, then another": (frame(SETTINGS, 0, 0, struct.pack("!HI", 4, 70_000)), COST_OF_SETTINGS, begin(1)),
    "windows of the connection": (frame(WINDOW, 0, 0, ONE), 1, begin(1)),
    "windows of a stream": (frame(WINDOW, 0, 1, ONE), 1, begin(1)),
    "windows of a stream that is gone": (frame(WINDOW, 0, 1, ONE), 1, begin(1) + frame(RST, 0, 1, CANCEL)),
    "priorities": (frame(PRIORITY, 0, 1, struct.pack("!IB", 3, 5)), 1, begin(1)),
    "priorities of no stream": (frame(PRIORITY, 0, 1_001, struct.pack("!IB", 3, 5)), 1, b""),
    "data without any": (frame(DATA, 0, 1), 1, begin(1)),
    "data of nothing but padding": (frame(DATA, 8, 1, b"\3\0\0\0"), 1, begin(1)),
    "data of one byte": (frame(DATA, 0, 1, b"x"), 1, begin(1)),
    "data for a stream that was reset": (frame(DATA, 0, 1, b"x"), 1, begin(1) + frame(RST, 0, 1, CANCEL)),
    "resets of what is reset": (frame(RST, 0, 1, CANCEL), COST_OF_RESET, begin(1)),
    "frames that nobody knows": (frame(0x55), 1, b""),
    "another origin": (frame(10, 0, 0, b"\0\0"), 1, b""),
}


@pytest.mark.parametrize("name", FLOODS)
def test_frames_that_carry_nothing(server: Server, name: str) -> None:
    """
    Rule 6 (CVE-2019-9511 to 9518): as many as are allowed are taken, and one more ends the connection; the others are
    served, and whatever still comes is thrown away.
    """
    piece, cost, before = FLOODS[name]
    wire = RawWire(server)
    wire.raw(before)
    wire.run()
    used = 2 * COST_OF_SETTINGS + (COST_OF_RESET if frame(RST, 0, 1, CANCEL) in before else 0)
    free = 4 if piece[3] == DATA else 0
    allowed = (LIMIT - used) // cost + free
    wire.raw(piece * allowed)
    wire.run()
    assert wire.goaways() == []
    assert is_served(server)
    wire.raw(piece * 2)
    wire.run()
    assert wire.goaways() == [ErrorCodes.ENHANCE_YOUR_CALM]
    assert is_served(server)
    written = len(wire.socket.value())
    wire.raw(piece * 1_000)
    wire.run()
    assert len(wire.socket.value()) == written
    assert is_calmed(wire)


def test_time_gives_them_back(server: Server) -> None:
    """As many as at once are allowed again in each minute, and no more after a long rest."""
    wire = RawWire(server)
    ping = frame(PING, 0, 0, b"12345678")
    wire.raw(ping * 100)
    wire.run()
    for _ in range(2):
        server.clock.advance(SECONDS / 2)
        wire.raw(ping * (LIMIT // 2))
        wire.run()
    assert wire.goaways() == []
    server.clock.advance(SECONDS * 0.9)
    wire.raw(ping * (LIMIT + 1))
    assert is_calmed(wire)


def test_a_request_that_is_reset_at_once(server: Server) -> None:
    """Who gives a request up in the packet that begins it loses that request, and not the connection."""
    wire = RawWire(server)
    for stream in range(1, 21, 2):
        wire.raw(begin(stream, END_HEADERS | END_STREAM) + frame(RST, 0, stream, CANCEL))
    wire.run()
    assert answers(wire)
    assert not wire.server.streams
    wire.lose()


def resets(numbers: range) -> bytes:
    """Requests that are reset as soon as they are made."""
    return b"".join(begin(number, END_HEADERS | END_STREAM) + frame(RST, 0, number, CANCEL) for number in numbers)


def made_resets(numbers: range) -> bytes:
    """Requests that the server has to reset, for their windows are too large."""
    window = struct.pack("!I", 2**31 - 1)
    return b"".join(begin(number) + frame(WINDOW, 0, number, window) for number in numbers)


@pytest.mark.parametrize("make", [resets, made_resets])
def test_a_rapid_reset(server: Server, make: Callable[[range], bytes]) -> None:
    """
    Rule 6 (CVE-2023-44487, CVE-2025-8671): requests that are begun to be thrown away are counted, whoever resets them.
    """
    wire = RawWire(server)
    count = 0
    for first in range(1, 1_001, 100):
        if not wire.socket.disconnecting:
            wire.raw(make(range(first, first + 100, 2)))
            count += 50
            wire.run(3)
    assert 50 < count <= LIMIT
    assert is_served(server)
    assert is_calmed(wire)


@pytest.mark.parametrize("size", [256, 5_000])
def test_others_have_their_turn(server: Server, size: int) -> None:
    """A packet full of frames is taken in parts, nothing is read meanwhile, and then it goes on."""
    wire = RawWire(server)
    wire.run()
    data = frame(DATA, 0, 1, b"x" * size)
    count = 40_000 // size
    wire.raw(begin(1) + data * count)
    assert wire.socket.producerState == "paused"
    content = wire.server.streams[1]._request.content
    assert 0 < content.tell() <= min(size * AT_ONCE, MAX_FRAME_BYTES + size)
    wire.raw(data)  # what was read already
    for _ in range(10):
        server.clock.advance(0)
    assert wire.socket.producerState == "producing"
    assert content.tell() == size * (count + 1)
    wire.lose()


def test_a_client_that_is_gone_before_its_turn(server: Server) -> None:
    """What waits for its turn is dropped with the connection."""
    wire = RawWire(server)
    wire.raw(frame(PING, 0, 0, b"12345678") * (2 * AT_ONCE))
    wire.lose()
    server.clock.advance(1)
    assert not wire.server.streams


def test_an_end_while_others_have_their_turn(server: Server) -> None:
    """Once it is over nothing more is acted upon, but the client's own end is still read."""
    wire = RawWire(server)
    wire.raw(frame(PING, 0, 0, b"12345678") * (AT_ONCE + 5) + frame(DATA, 0, 0, b"") + begin(1) * 500)
    wire.run()
    assert wire.goaways() == [ErrorCodes.PROTOCOL_ERROR]
    assert wire.socket.disconnecting
    wire.lose()


def test_a_reader_that_opens_its_windows_each_time() -> None:
    """Who acknowledges each piece, however small, is no flood; nor who posts in small ones, or resets what is over."""
    server, wire, transport = open_stream(SOME)
    ids, stream = wire.ids, wire.stream
    for number in range(LIMIT):
        transport.send(b'{"jsonrpc":"2.0","method":"a/b","params":{"n":%d}}' % number)
        wire.run(3)
        wire.raw(frame(WINDOW, 0, stream, ONE) + frame(WINDOW, 0, 0, ONE))
    assert wire.bodies[stream].count(b"a/b") == LIMIT
    for number in range(LIMIT // 2):
        posted = wire.client.get_next_available_stream_id()
        names = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/acp")]
        wire.client.send_headers(posted, [*names, *((k.lower(), v) for k, v in {**JSON, **ids}.items())])
        wire.client.send_data(posted, b'{"jsonrpc":"2.0","method":"c/d",')
        wire.client.send_data(posted, b'"params":{"n":%d}}' % number)
        wire.client.end_stream(posted)
        wire.run(5)
        assert wire.headers(posted)[":status"] == "202"
        wire.raw(frame(RST, 0, posted, CANCEL))
    assert not wire.socket.disconnecting
    wire.lose()
    server.clock.pump([0.4] * 200)
    server.over()


def test_a_client_that_ends_all_its_streams() -> None:
    """As many resets as there may be event streams are no flood, once there is one."""
    server, wire, _ = open_stream(Limits(ping_interval=0))
    first = wire.client.get_next_available_stream_id()
    wire.read = lambda: None  # its h2 knows nothing of these
    wire.raw(resets(range(first, first + 2 * 1_500, 2)))
    wire.run()
    assert not wire.socket.disconnecting
    assert list(wire.server.streams) == [wire.stream]
    wire.lose()
    server.clock.pump([0.4] * 200)
    server.over()


# ---- what h2 and Twisted bound by themselves


def test_headers_that_never_end(server: Server) -> None:
    """h2 (CVE-2024-27316): a block has at most 64 frames."""
    wire = RawWire(server)
    wire.raw(frame(HEADERS, 0, 1, REQUEST) + frame(CONTINUATION, 0, 1, b"") * 70)
    wire.run()
    assert wire.goaways() == [ErrorCodes.PROTOCOL_ERROR]
    assert is_served(server)
    wire.lose()


def test_headers_that_grow(server: Server) -> None:
    """h2: a few bytes that name the same long header again and again are not taken for more than 64 KiB of them."""
    wire = RawWire(server)
    name_and_value = b"\x40\x01a\x7f\xa1\x1e" + b"z" * 4_000
    wire.raw(begin(1, END_HEADERS, REQUEST + name_and_value + b"\xbe" * 1_000))
    wire.run()
    assert wire.goaways() == [ErrorCodes.ENHANCE_YOUR_CALM]
    assert is_served(server)
    wire.lose()


def test_a_frame_that_is_too_long(server: Server) -> None:
    """Rule 6: it is refused by its head, and what follows is not kept; h2 would keep 16 MiB first, then the rest."""
    wire = RawWire(server)
    wire.raw(b"\xff\xff\xff" + bytes([DATA, 0]) + struct.pack("!I", 1))
    wire.run()
    assert wire.goaways() == [ErrorCodes.FRAME_SIZE_ERROR]
    taken: list[bytes] = []
    wire.server.conn.receive_data = taken.append
    for _ in range(10):
        wire.raw(b"x" * 65_536)
    assert taken == []
    wire.lose()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_streams_over_the_bound(server: Server, method: str) -> None:
    """h2: who opens more than he may is cut off, and others are not; a zero window keeps the answers, and no more."""
    wire = RawWire(server, 0)
    wire.run()
    end = END_STREAM if method == "GET" else 0
    block = head(method)
    wire.raw(b"".join(begin(number, END_HEADERS | end, block) for number in range(1, 201, 2)))
    wire.run()
    assert len(wire.server.streams) == 100
    assert is_served(server)
    wire.raw(begin(201, END_HEADERS | end, block))
    wire.run()
    assert wire.goaways() == [ErrorCodes.PROTOCOL_ERROR]
    assert not wire.server.streams
    wire.lose()


def test_a_client_that_asks_and_never_reads(server: Server) -> None:
    """Twisted (CVE-2019-9512): at most 17 KiB of answers to pings wait for a socket that takes nothing."""
    server = Server(Limits(ping_interval=0))
    wire = RawWire(server)
    wire.socket.stuck = True
    ping = frame(PING, 0, 0, b"12345678")
    written = len(wire.socket.value())
    for _ in range(40):
        wire.raw(ping * 50)
        wire.run(2)
    assert wire.socket.aborted
    assert len(wire.socket.value()) - written < 100
    assert is_served(server)
    wire.lose()


def test_requests_that_never_end() -> None:
    """arrival_timeout: a stream that is half open is reset in time, and the others on the connection go on."""
    server, wire, transport = open_stream(SOME)
    names = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/acp")]
    for _ in range(2):
        wire.client.send_headers(wire.client.get_next_available_stream_id(), names)
    wire.run()
    assert len(wire.server.streams) == 3
    server.clock.advance(SOME.arrival_timeout)
    wire.run()
    assert list(wire.server.streams) == [wire.stream]
    transport.send(b'{"jsonrpc":"2.0","method":"a/b"}')
    wire.run()
    assert b"a/b" in wire.bodies[wire.stream]
    wire.lose()
    server.clock.pump([0.4] * 200)
    server.over()


@pytest.mark.parametrize("window", [0, 65_535])
@pytest.mark.parametrize("end", [0, END_STREAM])
def test_nothing_but_pings(server: Server, window: int, end: int) -> None:
    """
    arrival_timeout: a lively connection without a request in work is closed, also when it has streams whose requests
    do not end, or whose answers are not taken.
    """
    wire = RawWire(server, window)
    wire.raw(begin(1, END_HEADERS | end) + begin(3, END_HEADERS | end))
    for _ in range(3):
        server.clock.advance(SOME.arrival_timeout / 3 - 1)
        assert answers(wire)
        assert not wire.socket.disconnecting
    server.clock.advance(3)
    assert wire.socket.disconnecting
    server.clock.advance(LINGER_SECONDS)
    assert wire.socket.aborted
    wire.lose()


# ---- the counting


@given(st.lists(st.tuples(st.sampled_from([DATA, HEADERS, PING, 77]), st.binary(max_size=40)), max_size=20), st.data())
def test_frames_are_taken_apart(frames: list[tuple[int, bytes]], draw: Any) -> None:
    """However the bytes come, they are handed on as they are, and a frame's end is a piece's end."""
    every = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", *(frame(kind, 0, 1, body) for kind, body in frames)]
    data = b"".join(every)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=10)))
    taker = Frames(10_000, Clock())
    pieces: list[bytes] = []
    ends = set()
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        for piece in taker.split(data[start:end]):
            pieces.append(piece)
            ends.add(sum(map(len, pieces)))
    assert b"".join(pieces) == data
    assert all(pieces)
    assert {sum(map(len, every[: number + 1])) for number in range(len(every))} <= ends


def test_a_clock_that_is_set_back() -> None:
    """It neither gives nor takes any."""
    clock = Clock()
    clock.advance(1_000)
    taker = Frames(100, clock)
    clock.rightNow = 0.0
    data = b" " * 24 + frame(PING, 0, 0, b"12345678") * 100
    assert b"".join(taker.split(data)) == data
    with pytest.raises(Flood):
        list(taker.split(frame(PING, 0, 0, b"12345678")))
