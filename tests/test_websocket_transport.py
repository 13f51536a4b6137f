"""
A WebSocket after its handshake: what is delivered, what is written, and how it ends.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transport_fakes import RecordingReceiver, SocketTransport
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from zope.interface.verify import verifyObject

from acp_twisted.interfaces import IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.transports.websocket import CloseCode, Role, WebSocketTransport

SMALL = Limits(ping_interval=10, pong_timeout=25, exit_grace=2, high_water_bytes=1000, low_water_bytes=100)


class Link:
    """
    A L{WebSocketTransport} on a socket whose other end is wsproto in the test's hand.
    """

    def __init__(self, role: Role = "server", limits: Limits = SMALL, **options: Any) -> None:
        self.role: Role = role
        self.clock = Clock()
        self.receiver = RecordingReceiver()
        self.socket: Any = SocketTransport()
        self.ended: list[WebSocketTransport] = []
        self.ws = WebSocketTransport(self.socket, self.receiver, limits, self.clock, role, self.ended.append, **options)
        kind = ConnectionType.CLIENT if role == "server" else ConnectionType.SERVER
        self.peer = Connection(kind)
        self.ws.start()

    def give(self, *events: Event, cut: int = 0) -> None:
        """
        The peer sends frames, in one chunk or in pieces of C{cut} bytes.
        """
        data = b"".join(bytes(self.peer.send(each)) for each in events)
        self.raw(data, cut)

    def raw(self, data: bytes, cut: int = 0) -> None:
        """
        Bytes arrive.
        """
        for start in range(0, len(data), cut or len(data) or 1):
            self.ws.data_received(data[start : start + (cut or len(data))])

    def taken(self) -> list[Event]:
        """
        What the peer makes of what was written since the last time.
        """
        data = self.socket.value()
        self.socket.clear()
        self.peer.receive_data(data)
        return list(self.peer.events())

    def texts(self) -> list[str]:
        """
        The text messages of L{taken}.
        """
        return [each.data for each in self.taken() if isinstance(each, TextMessage)]

    def lose(self, error: Exception | None = None) -> None:
        """
        The stream is gone.
        """
        self.ws.connection_lost(Failure(ConnectionDone() if error is None else error))
        assert self.clock.getDelayedCalls() == []
        assert self.ended == [self.ws]


@pytest.fixture(params=["server", "client"])
def link(request: pytest.FixtureRequest) -> Link:
    """One of each role."""
    return Link(request.param)


def test_provides_its_interface(link: Link) -> None:
    """A WebSocket is a message transport, and the producer of its socket is its queue."""
    verifyObject(IMessageTransport, link.ws)
    assert link.socket.producer is not None
    assert link.receiver.events == [("made",)]


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_messages_both_ways(link: Link, cut: int) -> None:
    """One text message is one message, however its bytes arrive; what is sent comes as one text message each (1.1)."""
    link.give(TextMessage('{"a":"ä€𝄞"}'), TextMessage("[]"), cut=cut)
    assert link.receiver.messages == ['{"a":"ä€𝄞"}'.encode(), b"[]"]
    link.ws.send('{"ö":1}'.encode())
    link.ws.send(b"{}")
    assert link.texts() == ['{"ö":1}', "{}"]
    assert link.ws.unsent == 0
    link.lose()


def test_fragments_are_put_together(link: Link) -> None:
    """A message in fragments, cut within a character and with a ping between them, is one message (B36)."""
    text = '{"a":"€€"}'.encode()
    peer = link.peer
    frames = bytes(peer.send(TextMessage('{"a":"', message_finished=False)))
    frames += bytes(peer.send(Ping(b"now")))
    frames += bytes(peer.send(TextMessage("€€", message_finished=False)))
    frames += bytes(peer.send(TextMessage('"}')))
    link.raw(frames, cut=1)
    assert link.receiver.messages == [text]
    assert link.taken() == [Pong(b"now")]


def test_a_character_cut_by_a_fragment(link: Link) -> None:
    """Fragments may end in the middle of a character."""
    euro = "€".encode()
    link.raw(frame(link, 0x1, b'"' + euro[:1], fin=False) + frame(link, 0x0, euro[1:] + b'"'))
    assert link.receiver.messages == [b'"' + euro + b'"']


def frame(link: Link, opcode: int, payload: bytes, fin: bool = True, masked: bool | None = None, rsv: int = 0) -> bytes:
    """
    A frame by hand, as the peer of C{link} would send it unless told otherwise.
    """
    by_client = link.role == "server" if masked is None else masked
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    size = len(payload)
    mask_bit = 0x80 if by_client else 0
    if size < 126:
        head = bytes([first, mask_bit | size])
    elif size < 65536:
        head = bytes([first, mask_bit | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([first, mask_bit | 127]) + size.to_bytes(8, "big")
    return head + (b"\0\0\0\0" if by_client else b"") + payload


def closed_with(link: Link) -> CloseConnection:
    """The close frame that was written last."""
    (close,) = [each for each in link.taken() if isinstance(each, CloseConnection)]
    return close


@pytest.mark.parametrize(
    ("opcode", "payload", "options", "code"),
    [
        (0x1, b"\xff", {}, CloseCode.BAD_TEXT),
        (0x1, b"\xed\xa0\x80", {}, CloseCode.BAD_TEXT),
        (0x1, b"\xe2\x82", {}, CloseCode.BAD_TEXT),
        (0x0, b"x", {}, CloseCode.PROTOCOL_ERROR),
        (0x3, b"x", {}, CloseCode.PROTOCOL_ERROR),
        (0xB, b"", {}, CloseCode.PROTOCOL_ERROR),
        (0x9, b"x" * 126, {}, CloseCode.PROTOCOL_ERROR),
        (0x9, b"x", {"fin": False}, CloseCode.PROTOCOL_ERROR),
        (0x1, b"x", {"rsv": 4}, CloseCode.PROTOCOL_ERROR),
        (0x8, b"\x03", {}, CloseCode.PROTOCOL_ERROR),
        (0x8, b"\x03\xed", {}, CloseCode.PROTOCOL_ERROR),
        (0x8, b"\x03\xe8\xff", {}, CloseCode.BAD_TEXT),
    ],
)
def test_violations_end_the_connection(
    link: Link, opcode: int, payload: bytes, options: dict[str, Any], code: CloseCode
) -> None:
    """What RFC 6455 forbids is answered with its close code, and nothing behind it is read."""
    link.raw(frame(link, opcode, payload, **options) + frame(link, 0x1, b"{}"))
    assert link.receiver.messages == []
    assert closed_with(link).code == code
    link.raw(frame(link, 0x1, b"{}"))
    link.clock.advance(SMALL.exit_grace)
    assert link.socket.aborted
    link.lose()
    assert "lost" in link.receiver.names
    assert "\xff" not in str(link.receiver.error)


def test_masks(link: Link) -> None:
    """A server takes only masked frames, a client only bare ones (RFC 6455, 5.1)."""
    link.raw(frame(link, 0x1, b"{}", masked=link.role == "client"))
    assert link.receiver.messages == []
    assert closed_with(link).code == CloseCode.PROTOCOL_ERROR


def test_binary_and_blank_messages_are_ignored(link: Link) -> None:
    """The protocol has no binary messages; white space is none either (protocol §5.2)."""
    link.give(BytesMessage(b"\x00" * 100), TextMessage(""), TextMessage(" \n"), TextMessage("{}"))
    assert link.receiver.messages == [b"{}"]


@pytest.mark.parametrize("pieces", [1, 2, 51])
def test_a_message_over_the_limit(pieces: int) -> None:
    """
    Code 1009 with a reason as soon as a message passes the limit, in one frame or in many, and no more of it is kept
    than that (B82).
    """
    link = Link("server", max_message_bytes=100)
    link.give(TextMessage("x" * 100))
    assert len(link.receiver.messages) == 1
    size = 102 // pieces
    for number in range(pieces):
        link.raw(frame(link, 0x0 if number else 0x1, b"x" * size, fin=False))
    close = closed_with(link)
    assert (close.code, close.reason) == (1009, "a message of more than 100 bytes")
    link.lose()
    assert str(link.receiver.error) == "a message of more than 100 bytes"


def test_an_endless_frame_is_not_kept() -> None:
    """A frame that claims 2**62 bytes is read as it comes, and ends the connection at the limit."""
    link = Link("server", max_message_bytes=1000)
    link.raw(b"\x81\xff" + (2**62).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 900)
    assert link.taken() == []
    link.raw(b"x" * 101)
    assert closed_with(link).code == CloseCode.TOO_BIG


def test_empty_fragments_cost_nothing(link: Link) -> None:
    """A message of thousands of empty fragments is held in no memory."""
    link.raw(frame(link, 0x1, b"", fin=False) + frame(link, 0x0, b"", fin=False) * 10_000 + frame(link, 0x0, b"{}"))
    assert link.receiver.messages == [b"{}"]


def test_the_peer_closes(link: Link) -> None:
    """Its close frame is answered with the same code; a server ends the stream then, a client leaves that to it."""
    link.give(CloseConnection(1001, "bye"))
    assert closed_with(link).code == 1001
    assert link.socket.disconnecting == (link.role == "server")
    link.ws.send(b"{}")
    assert link.socket.value() == b""
    link.lose()
    assert str(link.receiver.error) == "the peer closed the connection (WebSocket code 1001: 'bye')"
    assert (link.ws.peer_code, link.ws.peer_reason) == (1001, "bye")


def test_the_peer_closes_without_a_code(link: Link) -> None:
    """That is code 1005, which never goes over the wire: it is answered with 1000."""
    link.give(CloseConnection(None))  # type: ignore[arg-type]
    assert closed_with(link).code == 1000
    link.lose()
    assert link.ws.peer_code == 1005


def test_we_close(link: Link) -> None:
    """What was sent goes out before the close frame; the stream ends after the peer's, and nothing is delivered."""
    link.ws.closing_code = 1001
    link.ws.send(b"{}")
    link.ws.close()
    link.ws.close()
    link.ws.send(b"[]")
    taken = link.taken()
    assert taken == [TextMessage("{}"), CloseConnection(1001, "")]
    assert not link.socket.disconnecting
    link.raw(frame(link, 0x1, b"{}"))
    link.raw(bytes(link.peer.send(CloseConnection(1001))))
    assert link.receiver.messages == []
    assert link.socket.disconnecting == (link.role == "server")
    link.lose()
    assert str(link.receiver.error).startswith("the peer closed the connection (WebSocket code 1001")


def test_we_close_and_the_peer_says_nothing(link: Link) -> None:
    """The stream is cut Limits.exit_grace seconds after the close frame."""
    link.ws.close()
    link.clock.advance(SMALL.exit_grace - 0.5)
    assert not link.socket.aborted
    link.clock.advance(0.5)
    assert link.socket.aborted
    link.lose()
    assert str(link.receiver.error) == "the connection was closed"


def test_close_flushes_to_a_slow_peer(link: Link) -> None:
    """What is queued goes out as the peer takes it, and the close frame behind it."""
    link.socket.stuck = True
    for number in range(100):
        link.ws.send(b'"%d"' % number)
    link.ws.close()
    assert link.ws.unsent > 0
    link.socket.stuck = False
    link.socket.take()
    taken = link.taken()
    assert [each.data for each in taken[:-1] if isinstance(each, TextMessage)] == [f'"{n}"' for n in range(100)]
    assert isinstance(taken[-1], CloseConnection)
    link.lose()


def test_a_slow_peer_pauses_who_sends(link: Link) -> None:
    """Above high_water_bytes the receiver is asked to wait, below low_water_bytes to go on (B33)."""
    link.socket.stuck = True
    for _ in range(30):
        link.ws.send(b'"' + b"x" * 100 + b'"')
    assert link.receiver.names[-1] == "writing paused"
    assert link.ws.unsent > 1000
    link.socket.stuck = False
    link.socket.take()
    assert link.receiver.names[-1] == "writing resumed"
    assert len(link.texts()) == 30


def test_a_peer_that_stalls_is_cut() -> None:
    """After Limits.stall_timeout without a sign, or above Limits.max_unsent_bytes, the stream is cut."""
    for limits, times in ((Limits(stall_timeout=5), 1), (Limits(max_unsent_bytes=1000), 20)):
        link = Link("server", limits)
        link.socket.stuck = True
        for _ in range(times):
            link.ws.send(b'"' + b"x" * 100 + b'"')
        link.clock.advance(5)
        assert link.socket.aborted
        link.lose()
        assert "Limits." in str(link.receiver.error)


def test_a_receiver_that_pauses(link: Link) -> None:
    """In the middle of a chunk: the rest waits, the socket is paused; and a lost stream still delivers it (B67)."""
    link.receiver.on_message = lambda message: link.ws.pauseProducing()
    link.give(TextMessage("1"), TextMessage("2"), TextMessage("3"))
    assert link.receiver.messages == [b"1"]
    assert link.socket.producerState == "paused"
    link.ws.resumeProducing()
    assert link.receiver.messages == [b"1", b"2"]
    assert link.socket.producerState == "paused"
    link.lose(ConnectionLost())
    assert link.receiver.names == ["made", "message", "message", "message", "lost"]


def test_output_that_waits_holds_up_the_input() -> None:
    """A peer that sends and does not read is not read either above Limits.pause_reading_bytes."""
    link = Link("server", Limits(pause_reading_bytes=200))
    link.socket.stuck = True
    link.ws.send(b'"' + b"x" * 300 + b'"')
    assert link.socket.producerState == "paused"
    link.give(TextMessage("{}"))
    assert link.receiver.messages == []
    link.socket.stuck = False
    link.socket.take()
    assert link.receiver.messages == [b"{}"]
    assert link.socket.producerState == "producing"
    link.lose()


def test_a_ping_flood_is_bounded() -> None:
    """Pongs that the peer does not take are output like any other: reading stops, and then the stream is cut."""
    link = Link("server", Limits(pause_reading_bytes=500, stall_timeout=5))
    link.socket.stuck = True
    for _ in range(100):
        if link.socket.producerState == "producing":
            link.give(*[Ping(b"x" * 100)] * 10)
    assert link.socket.producerState == "paused"
    assert link.ws.unsent < 2000
    link.clock.advance(5)
    assert link.socket.aborted
    link.lose()


def test_pings_ask_for_signs_of_life(link: Link) -> None:
    """
    Every Limits.ping_interval a ping; a peer that answers is alive however long it says nothing else (B83).
    """
    for _ in range(20):
        link.clock.advance(10)
        assert link.taken() == [Ping(b"")]
        link.give(Pong(b""))
    assert not link.socket.aborted
    link.lose()


def test_a_peer_that_gives_no_sign_is_cut(link: Link) -> None:
    """Nothing at all for Limits.pong_timeout after a ping is a dead peer, by deadline and not by traffic (B83)."""
    link.clock.advance(10)
    link.ws.send(b"{}")
    for _ in range(2):
        link.clock.advance(10)
    assert not link.socket.aborted
    link.clock.advance(10)
    assert link.socket.aborted
    link.lose()
    assert "no sign of life from the peer for 25 s" in str(link.receiver.error)


def test_a_peer_that_is_not_read_is_not_called_dead() -> None:
    """While we do not read, we would not hear it; while it takes nothing, the stall timer is in charge."""
    link = Link("server", Limits(ping_interval=10, pong_timeout=25, stall_timeout=1000))
    link.ws.pauseProducing()
    for _ in range(10):
        link.clock.advance(10)
    link.ws.resumeProducing()
    link.socket.stuck = True
    link.ws.send(b"{}")
    for _ in range(10):
        link.clock.advance(10)
    assert not link.socket.aborted
    link.lose()


def test_no_pings() -> None:
    """With a ping_interval of 0 there are none, and no timer."""
    assert Link("server", Limits(ping_interval=0)).clock.getDelayedCalls() == []


def test_abort_says_why_if_it_can(link: Link) -> None:
    """A close frame with code 1011 when nothing is in its way, the stream's end, and the reason for the receiver."""
    link.ws.abort("out of patience")
    assert "lost" not in link.receiver.names
    assert (closed_with(link).code, link.socket.disconnecting) == (1011, True)
    link.lose()
    assert str(link.receiver.error) == "out of patience"


def test_abort_of_a_stuck_connection(link: Link) -> None:
    """What is queued is lost, and nobody waits for a flush."""
    link.socket.stuck = True
    link.ws.send(b"{}")
    link.ws.send(b"{}")
    link.ws.abort("out of patience")
    assert link.socket.aborted
    link.lose()
    assert str(link.receiver.error) == "out of patience"


def test_a_stream_without_abort() -> None:
    """A Twisted transport that can't be aborted is let go instead."""
    link = Link()
    link.ws._transport = link.socket = type("Plain", (StringTransport,), {})()
    link.ws.fail(CloseCode.POLICY, "no")
    link.clock.advance(2)
    assert link.socket.disconnecting


def test_what_the_loss_of_the_stream_is_called(link: Link) -> None:
    """An end without a close frame, and an error of the network, are told apart."""
    link.lose()
    assert str(link.receiver.error) == "the peer closed the connection without a word"
    other = Link()
    other.lose(ConnectionLost("reset"))
    assert str(other.receiver.error).startswith("the connection was lost: ")


def test_a_receiver_that_fails(link: Link, logged_errors: Any) -> None:
    """Its exception is logged, and the next message is delivered (rule 7)."""

    def fail(message: bytes) -> None:
        raise RuntimeError("mine")

    link.receiver.on_message = fail
    link.give(TextMessage("1"), TextMessage("2"))
    assert link.receiver.messages == [b"1", b"2"]
    assert len(logged_errors) == 2
    logged_errors.clear()
    link.lose()


def test_a_receiver_that_closes_from_a_message(link: Link) -> None:
    """Nothing more of the chunk is delivered, and the answers of before go out."""

    def answer(message: bytes) -> None:
        link.ws.send(message)
        link.ws.close()

    link.receiver.on_message = answer
    link.give(TextMessage("1"), TextMessage("2"))
    assert link.receiver.messages == [b"1"]
    assert [type(each) for each in link.taken()] == [TextMessage, CloseConnection]
    link.lose()


def test_data_behind_the_handshake() -> None:
    """What came in one chunk with the handshake's end is delivered from start, after connection_made."""
    clock, receiver = Clock(), RecordingReceiver()
    ws = WebSocketTransport(SocketTransport(), receiver, SMALL, clock, "client")
    ws.send(b"too early")
    ws.start(b"\x81\x02{}")
    assert receiver.events == [("made",), ("message", b"{}")]
    ws.connection_lost(Failure(ConnectionDone()))
    assert clock.getDelayedCalls() == []


@given(data=st.binary(max_size=400), cut=st.integers(1, 50), role=st.sampled_from(["server", "client"]))
def test_hostile_bytes(data: bytes, cut: int, role: Role) -> None:
    """Whatever arrives, nothing is raised, no message is longer than the limit, and the end leaves no timer (B34)."""
    link = Link(role, max_message_bytes=64)
    link.raw(data, cut)
    assert all(len(message) <= 64 for message in link.receiver.messages)
    link.ws.close()
    link.lose()


_FRAME = st.tuples(
    st.sampled_from([0, 1, 2, 8, 9, 10, 3]),
    st.binary(max_size=140),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 0, 1, 4]),
)


@given(frames=st.lists(_FRAME, max_size=12), cut=st.integers(1, 40), role=st.sampled_from(["server", "client"]))
def test_hostile_frames(frames: list[Any], cut: int, role: Role) -> None:
    """The same with frames that are nearly right, and however they are cut the same comes of them."""
    outcomes = []
    for size in (cut, 10_000):
        link = Link(role, max_message_bytes=200)
        data = b"".join(
            frame(link, opcode, payload, fin, link.role == "server" if right else None, rsv)
            for opcode, payload, fin, right, rsv in frames
        )
        link.raw(data, size)
        closes = [(each.code, each.reason) for each in link.taken() if isinstance(each, CloseConnection)]
        outcomes.append((link.receiver.messages, closes))
        link.lose()
    assert outcomes[0] == outcomes[1]
