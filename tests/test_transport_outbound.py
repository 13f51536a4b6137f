"""
The output that waits: counted, bounded, written in order, and never for ever (design rule 6, B33, B79, B81).
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from transport_fakes import SocketTransport
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from acp_twisted.errors import LimitExceeded
from acp_twisted.limits import Limits
from acp_twisted.transports.outbound import SLICE, Outbound


class Owner:
    """
    Writes down what its output tells it.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self.reason: LimitExceeded | None = None

    def output_paused(self) -> None:
        self.events.append("paused")

    def output_resumed(self) -> None:
        self.events.append("resumed")

    def output_held(self, held: bool) -> None:
        self.events.append("held" if held else "released")

    def output_overdue(self, reason: LimitExceeded) -> None:
        self.events.append("overdue")
        self.reason = reason

    def output_finished(self) -> None:
        self.events.append("finished")


SMALL = Limits(
    high_water_bytes=100, low_water_bytes=20, pause_reading_bytes=200, max_unsent_bytes=400, stall_timeout=10.0
)


def make(limits: Limits = SMALL) -> tuple[Outbound, SocketTransport, Owner, Clock]:
    transport, owner, clock = SocketTransport(), Owner(), Clock()
    outbound = Outbound(transport, owner, limits, clock)
    verifyObject(IPushProducer, outbound)
    return outbound, transport, owner, clock


def test_straight_through() -> None:
    """
    While the transport takes what it gets, each message is one write, nothing is kept and no timer runs.
    """
    outbound, transport, owner, clock = make()
    outbound.send(b"one")
    outbound.send(b"two")
    assert transport.writes == [b"one\n", b"two\n"]
    assert outbound.unsent == 0
    assert owner.events == []
    assert clock.getDelayedCalls() == []


def test_waits_while_paused() -> None:
    """
    What is sent while the transport is full is counted, and goes out in order, joined, when it has room (B33).
    """
    outbound, transport, _owner, clock = make()
    transport.stuck = True
    outbound.send(b"a")
    outbound.send(b"b")
    outbound.send(b"c")
    assert transport.writes == [b"a\n"]
    assert outbound.unsent == 6
    transport.stuck = False
    transport.take()
    assert transport.writes == [b"a\n", b"b\nc\n"]
    assert outbound.unsent == 0
    assert clock.getDelayedCalls() == []
    outbound.send(b"d")
    assert transport.writes[-1] == b"d\n"


def test_slices_are_whole_messages() -> None:
    """
    Waiting messages are joined up to the size of a slice, never cut in two where they fit into one.
    """
    outbound, transport, _owner, _clock = make(Limits())
    transport.stuck = True
    outbound.send(b"first")
    piece = b"x" * (SLICE // 2 - 1)
    for _ in range(3):
        outbound.send(piece)
    transport.take()
    transport.take()
    assert [len(write) for write in transport.writes] == [6, SLICE, SLICE // 2]


def test_large_message_in_slices() -> None:
    """
    A message larger than a slice is handed over in slices, so that a slow peer's progress is seen, and what is sent
    behind it stays behind it.
    """
    outbound, transport, owner, clock = make(Limits(stall_timeout=10.0))
    transport.stuck = True
    outbound.send(b"x" * (3 * SLICE))
    outbound.send(b"behind")
    for _ in range(4):
        clock.advance(9.0)  # slower than the stall timeout in all, never in one step
        transport.take()
    assert b"".join(transport.writes) == b"x" * (3 * SLICE) + b"\nbehind\n"
    assert max(map(len, transport.writes)) <= SLICE
    assert "overdue" not in owner.events


def test_large_message_counts_while_it_waits() -> None:
    """
    One large message is unsent output like any other: whoever produces it is asked to wait.
    """
    outbound, transport, owner, _clock = make(Limits())
    transport.stuck = True
    outbound.send(b"x" * (4 * SLICE))
    assert outbound.unsent == 4 * SLICE + 1
    assert owner.events == ["paused"]


def test_water_marks() -> None:
    """
    The producer is told once to wait above the high mark and once to go on below the low one.
    """
    outbound, transport, owner, _clock = make()
    transport.stuck = True
    outbound.send(b"x" * 40)
    outbound.send(b"x" * 40)
    assert owner.events == []
    outbound.send(b"x" * 40)
    outbound.send(b"x" * 10)
    assert owner.events == ["paused"]
    transport.take()  # the transport now holds the rest: 93 bytes, more than the low mark
    assert owner.events == ["paused"]
    transport.take()
    assert owner.events == ["paused", "resumed"]


def test_reading_is_held_and_released() -> None:
    """
    Much unsent output stops reading from a peer that does not read, until it reads again.
    """
    outbound, transport, owner, _clock = make()
    transport.stuck = True
    for _ in range(5):
        outbound.send(b"x" * 49)
    assert owner.events == ["paused", "held"]
    transport.stuck = False
    transport.take()
    assert owner.events == ["paused", "held", "resumed", "released"]


def test_too_much_is_cut() -> None:
    """
    Beyond max_unsent_bytes the connection is cut with a reason that names the limit; the queue and timers are gone.
    """
    outbound, transport, owner, clock = make()
    transport.stuck = True
    for _ in range(9):
        outbound.send(b"x" * 49)
    assert owner.events[-1] == "overdue"
    assert "Limits.max_unsent_bytes" in str(owner.reason)
    assert outbound.unsent == 0
    assert clock.getDelayedCalls() == []
    written = len(transport.writes)
    outbound.send(b"more")
    outbound.resumeProducing()
    assert len(transport.writes) == written


def test_stall_is_cut() -> None:
    """
    A peer that takes nothing for stall_timeout seconds is cut with a reason; one that takes something is not.
    """
    outbound, transport, owner, clock = make()
    transport.stuck = True
    outbound.send(b"a")
    outbound.send(b"b")
    clock.advance(9.9)
    transport.take()  # takes a; b now fills the transport
    clock.advance(9.9)
    assert owner.events == []
    clock.advance(0.2)
    assert owner.events == ["overdue"]
    assert "Limits.stall_timeout" in str(owner.reason)
    assert clock.getDelayedCalls() == []


def test_close_when_idle() -> None:
    """
    Closing an idle connection finishes at once, and takes nothing more.
    """
    outbound, transport, owner, _clock = make()
    outbound.close()
    outbound.send(b"late")
    assert owner.events == ["finished"]
    assert transport.writes == []
    assert transport.producer is None


def test_close_flushes_first() -> None:
    """
    Closing waits until all that was sent before it was taken, and finishes once (B81).
    """
    outbound, transport, owner, _clock = make()
    transport.stuck = True
    outbound.send(b"a")
    outbound.send(b"b")
    outbound.close()
    outbound.close()
    assert owner.events == []
    transport.take()
    assert owner.events == []
    transport.take()
    assert owner.events == ["finished"]
    assert b"".join(transport.writes) == b"a\nb\n"
    assert transport.producer is None


def test_close_is_bounded() -> None:
    """
    A peer that takes nothing can't keep a closing connection, before or after the last byte was handed over (B81).
    """
    for taken in range(2):
        outbound, transport, owner, clock = make()
        transport.stuck = True
        outbound.send(b"a")
        outbound.close()
        for _ in range(taken):
            transport.take()
        clock.advance(10.0)
        assert owner.events[-1] == "overdue"
        assert clock.getDelayedCalls() == []


def test_loss_stops_timers() -> None:
    """
    No timer survives the connection (B79).
    """
    outbound, transport, owner, clock = make()
    transport.stuck = True
    outbound.send(b"a")
    assert len(clock.getDelayedCalls()) == 1
    outbound.stopProducing()
    assert clock.getDelayedCalls() == []
    outbound.pauseProducing()
    outbound.close()
    assert clock.getDelayedCalls() == []
    assert owner.events == []


def test_send_from_inside_a_mark() -> None:
    """
    A producer that sends from inside writing_resumed is heard, behind what waited.
    """
    outbound, transport, owner, _clock = make()
    owner.output_resumed = lambda: outbound.send(b"again")  # type: ignore[method-assign]
    transport.stuck = True
    outbound.send(b"x" * 60)
    outbound.send(b"x" * 60)
    transport.stuck = False
    transport.take()
    assert transport.writes[-1] == b"again\n"


def test_send_from_inside_a_write() -> None:
    """
    A message that is sent from inside the write of a larger one's first slice does not end up between its slices.
    """
    outbound, transport, _owner, _clock = make(Limits())
    sent: list[bytes] = []
    plain = transport.write

    def write(data: bytes) -> None:
        if not sent:
            sent.append(data)
            outbound.send(b"inside")
        plain(data)

    outbound._write = write
    outbound.send(b"x" * (2 * SLICE))
    assert b"".join(transport.writes) == b"x" * (2 * SLICE) + b"\ninside\n"


@given(st.lists(st.one_of(st.integers(0, 300_000), st.just("pause"), st.just("take")), max_size=30), st.booleans())
def test_nothing_is_lost_or_reordered(script: list[Any], close: bool) -> None:
    """
    Whatever the pauses, the bytes that go out are the messages in the order of sending, and unsent returns to nothing.
    """
    outbound, transport, owner, clock = make(Limits())
    expected = b""
    for number, step in enumerate(script):
        if step == "pause":
            transport.stuck = True
        elif step == "take":
            transport.stuck = False
            transport.take()
        else:
            message = bytes([65 + number % 26]) * step
            expected += message + b"\n"
            outbound.send(message)
        assert outbound.unsent >= 0
    if close:
        outbound.close()
    transport.stuck = False
    transport.take()
    assert transport.value() == expected
    assert outbound.unsent == 0
    assert ("finished" in owner.events) is close
    assert len(clock.getDelayedCalls()) == (1 if close else 0)


def test_a_batch_is_one_write() -> None:
    """
    What is sent between the beginning and the end of a batch leaves together, in order, and the next goes straight.
    """
    outbound, transport, _, _ = make()
    outbound.begin_batch()
    outbound.send(b"1")
    outbound.send(b"2")
    assert transport.value() == b""
    outbound.end_batch()
    outbound.send(b"3")
    assert transport.value() == b"1\n2\n3\n"


def test_a_batch_is_cut_into_slices() -> None:
    """
    A long batch does not wait for its end: memory stays bounded, and what is larger than a slice keeps its place.
    """
    outbound, transport, _, _ = make(Limits())
    outbound.begin_batch()
    outbound.send(b"a" * 1000)
    outbound.send(b"b" * SLICE)
    outbound.send(b"c")
    assert transport.value().startswith(b"a" * 1000 + b"\n" + b"b" * 1000)
    outbound.end_batch()
    assert transport.value().endswith(b"b\nc\n")


def test_closing_ends_a_batch() -> None:
    """
    An answer that is batched when the connection is closed is still written (B81).
    """
    outbound, transport, owner, _ = make()
    outbound.begin_batch()
    outbound.send(b"last")
    outbound.close()
    outbound.end_batch()
    assert transport.value() == b"last\n"
    assert owner.events == ["finished"]


def test_a_paused_transport_is_not_batched_for() -> None:
    """
    While output waits already, a batch changes nothing: what waits is counted, and leaves in order.
    """
    outbound, transport, _, _ = make()
    outbound.pauseProducing()
    outbound.begin_batch()
    outbound.send(b"1")
    outbound.end_batch()
    assert transport.value() == b""
    assert outbound.unsent == 2
    outbound.resumeProducing()
    assert transport.value() == b"1\n"


@given(st.lists(st.sampled_from([b"x", b"y" * 50, b"z" * SLICE, None])))
def test_batches_never_reorder(steps: list[bytes | None]) -> None:
    """
    However sending and batches are mixed, the bytes are those of the messages in order (rule 5).
    """
    outbound, transport, _, _ = make(Limits())
    open_batch = False
    for step in steps:
        if step is not None:
            outbound.send(step)
        elif open_batch:
            outbound.end_batch()
            open_batch = False
        else:
            outbound.begin_batch()
            open_batch = True
    outbound.end_batch()
    while outbound.unsent:
        outbound.resumeProducing()
    assert transport.value() == b"".join(step + b"\n" for step in steps if step is not None)
