"""
The pair of transports in memory, which other tests stand on.
"""

from __future__ import annotations

from typing import Any

from transport_fakes import RecordingReceiver
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from acp_twisted.interfaces import IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.transports.memory import MemoryLink


def make(auto: bool = True, **limits: Any) -> tuple[MemoryLink, RecordingReceiver, RecordingReceiver, Clock]:
    a, b, clock = RecordingReceiver(), RecordingReceiver(), Clock()
    return MemoryLink(a, b, clock, Limits(**limits), auto=auto), a, b, clock


def test_both_ends_are_transports() -> None:
    """
    Each end is what a receiver expects of a transport.
    """
    link, a, b, _clock = make()
    verifyObject(IMessageTransport, link.a)
    assert a.transport is link.a
    assert b.transport is link.b


def test_automatic_delivery() -> None:
    """
    What is sent arrives at once, and the wire log has it.
    """
    link, a, b, _clock = make()
    link.a.send(b"1")
    link.b.send(b"2")
    assert b.messages == [b"1"]
    assert a.messages == [b"2"]
    assert link.wire == [("a>b", b"1"), ("b>a", b"2")]
    assert link.sent("a>b") == [b"1"]
    assert link.a.unsent == 0


def test_no_recursion() -> None:
    """
    A ping-pong of thousands of messages neither nests deliveries nor loses one (the answer waits for the delivery).
    """
    link, a, b, _clock = make()
    inside = 0

    def answer(side: Any) -> Any:
        def on_message(message: bytes) -> None:
            nonlocal inside
            inside += 1
            assert inside == 1
            if int(message) < 5000:
                side.send(b"%d" % (int(message) + 1))
            inside -= 1

        return on_message

    a.on_message, b.on_message = answer(link.a), answer(link.b)
    link.a.send(b"0")
    assert b.messages[-1] == b"5000"
    assert len(link.wire) == 5001


def test_order_over_both_directions() -> None:
    """
    Messages sent during a delivery go out in the order of sending, whichever way they go.
    """
    link, a, b, _clock = make()
    order: list[bytes] = []
    a.on_message = order.append

    def on_message(message: bytes) -> None:
        order.append(message)
        if message == b"0":
            link.b.send(b"1")
            link.a.send(b"2")
            link.b.send(b"3")

    b.on_message = on_message
    link.a.send(b"0")
    assert order == [b"0", b"1", b"2", b"3"]


def test_stepped_delivery() -> None:
    """
    Without auto nothing moves by itself; a step delivers one message one way.
    """
    link, a, b, _clock = make(auto=False)
    link.a.send(b"1")
    link.a.send(b"2")
    link.b.send(b"3")
    assert (link.pending("a>b"), link.pending("b>a")) == (2, 1)
    assert a.messages == b.messages == []
    assert link.deliver("a>b")
    assert b.messages == [b"1"]
    assert not link.deliver("b>a") or a.messages == [b"3"]
    assert link.deliver_all() == 1
    assert b.messages == [b"1", b"2"]
    assert not link.deliver("a>b")


def test_messages_from_connection_made() -> None:
    """
    What a receiver sends when its connection is made arrives after the other one has its own.
    """

    class Eager(RecordingReceiver):
        def connection_made(self, transport: IMessageTransport) -> None:
            super().connection_made(transport)
            transport.send(b"hello")

    b = RecordingReceiver()
    MemoryLink(Eager(), b)
    assert b.events == [("made",), ("message", b"hello")]


def test_pause_and_resume() -> None:
    """
    A paused receiver takes nothing until it resumes; the other direction is free.
    """
    link, a, b, clock = make()
    link.b.pauseProducing()
    link.a.send(b"1")
    link.b.send(b"2")
    assert (b.messages, a.messages) == ([], [b"2"])
    assert link.a.unsent == 2
    link.b.resumeProducing()
    assert b.messages == [b"1"]
    assert clock.getDelayedCalls() == []


def test_limits() -> None:
    """
    A side whose peer pauses is asked to wait, told to go on, and cut when it goes too far, as on a socket.
    """
    link, a, b, clock = make(high_water_bytes=10, low_water_bytes=5, max_unsent_bytes=30)
    link.b.pauseProducing()
    link.a.send(b"x" * 9)
    link.a.send(b"x")
    assert a.names == ["made", "writing paused"]
    link.b.resumeProducing()
    assert a.names == ["made", "writing paused", "writing resumed"]
    link.b.pauseProducing()
    link.a.send(b"x" * 40)
    assert "lost" not in a.names  # never from inside send
    clock.advance(0)
    assert "Limits.max_unsent_bytes" in str(a.error)
    assert b.names[-1] == "lost"
    assert clock.getDelayedCalls() == []


def test_stall() -> None:
    """
    A peer that stays paused with output waiting is cut after stall_timeout.
    """
    link, a, b, clock = make(stall_timeout=5.0)
    link.b.pauseProducing()
    link.a.send(b"1")
    clock.advance(5.0)
    assert "Limits.stall_timeout" in str(a.error)
    assert b.names == ["made", "lost"]
    assert clock.getDelayedCalls() == []


def test_close() -> None:
    """
    A close comes behind what was sent; each side is told once, and the closing side hears nothing more.
    """
    link, a, b, _clock = make(auto=False)
    link.a.send(b"1")
    link.b.send(b"unheard")
    link.a.close()
    link.a.close()
    link.a.send(b"late")
    link.deliver_all()
    assert a.events == [("made",), ("lost", "the connection was closed")]
    assert b.events == [("made",), ("message", b"1"), ("lost", "the peer closed the connection")]
    link.b.close()
    link.b.abort("again")
    assert link.deliver_all() == 0


def test_abort() -> None:
    """
    An abort loses what waits.
    """
    link, a, b, _clock = make(auto=False)
    link.a.send(b"1")
    link.a.abort("enough")
    link.deliver_all()
    assert a.events == [("made",), ("lost", "enough")]
    assert b.events == [("made",), ("lost", "the connection was lost")]


def test_abort_inside_a_delivery() -> None:
    """
    An abort from inside a delivery ends the connection after it.
    """
    link, a, b, _clock = make()

    def on_message(message: bytes) -> None:
        link.b.abort("enough")
        assert b.names[-1] == "message"

    b.on_message = on_message
    link.a.send(b"1")
    assert b.names == ["made", "message", "lost"]
    assert a.names == ["made", "lost"]


def test_half_close() -> None:
    """
    A half-close ends one direction behind what was sent; the other goes on.
    """
    link, a, b, _clock = make()
    link.a.send(b"1")
    link.a.half_close()
    link.a.send(b"late")
    link.b.send(b"answer")
    assert b.events == [("made",), ("message", b"1"), ("ended",)]
    assert a.messages == [b"answer"]
    link.b.close()
    assert a.names[-1] == b.names[-1] == "lost"


def test_failing_receiver(logged_errors: Any) -> None:
    """
    A receiver that raises is logged, and the next message is delivered.
    """
    link, _a, b, _clock = make()

    def on_message(message: bytes) -> None:
        if message == b"1":
            raise ZeroDivisionError

    b.on_message = on_message
    link.a.send(b"1")
    link.a.send(b"2")
    assert b.messages == [b"1", b"2"]
    assert len(logged_errors) == 1
    logged_errors.clear()
