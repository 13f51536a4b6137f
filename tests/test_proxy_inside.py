"""
The link inside a process keeps to the contract of all transports.
"""

from __future__ import annotations

from typing import Any

import pytest
from chain_parts import RawEnd
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from acp_twisted import Limits
from acp_twisted.interfaces import IMessageTransport
from acp_twisted.proxy.inside import join

LIMITS = Limits(high_water_bytes=100, low_water_bytes=50, max_unsent_bytes=1000, stall_timeout=7)


class Noting(RawEnd):
    """An end that notes what it is told of pressure and of the end."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.on_message: Any = lambda: None

    def message_received(self, message: bytes) -> None:
        super().message_received(message)
        self.on_message()

    def writing_paused(self) -> None:
        self.notes.append("paused")

    def writing_resumed(self) -> None:
        self.notes.append("resumed")

    def connection_lost(self, reason: Any) -> None:
        super().connection_lost(reason)
        self.notes.append(reason.value.message)


def pair() -> tuple[Noting, Noting, Clock]:
    """Two ends."""
    clock = Clock()
    one, other = Noting(), Noting()
    join(one, other, LIMITS, clock)
    return one, other, clock


def numbers(end: Noting) -> list[int]:
    """What came."""
    return [each["n"] for each in end.received]


def test_it_delivers_at_once_and_in_order() -> None:
    """Both ways; and nothing from inside of a delivery to the same end."""
    one, other, _ = pair()
    assert verifyObject(IMessageTransport, one.transport)
    depth: list[int] = []

    def talk() -> None:
        depth.append(len(depth))
        if len(one.received) < 3:
            one.send({"n": len(one.received)})
            assert len(depth) == depth[-1] + 1

    one.on_message = talk
    other.on_message = lambda: other.send({"n": 10 + len(other.received)})
    other.send({"n": 10})
    assert numbers(one) == [10, 11, 12]
    assert numbers(other) == [1, 2]


def test_a_pause_holds_and_presses() -> None:
    """What waits is counted, who sends it is told, and it goes on where it was."""
    one, other, clock = pair()
    assert one.transport is not None
    assert other.transport is not None
    other.transport.pauseProducing()
    for number in range(6):
        one.send({"n": number})
    assert numbers(other) == []
    assert one.notes == ["paused"]
    assert one.transport.unsent > 100

    def tire() -> None:
        if len(other.received) == 2 and other.transport is not None:
            other.transport.pauseProducing()

    other.on_message = tire
    other.transport.resumeProducing()
    assert numbers(other) == [0, 1]
    other.transport.resumeProducing()
    assert numbers(other) == [0, 1, 2, 3, 4, 5]
    assert one.notes == ["paused", "resumed"]
    assert one.transport.unsent == 0
    clock.advance(100)
    assert one.notes == ["paused", "resumed"]


@pytest.mark.parametrize("how", ["stalls", "grows"])
def test_what_is_never_read_is_cut(how: str) -> None:
    """With a reason, and not from inside of the send."""
    one, other, clock = pair()
    assert other.transport is not None
    other.transport.pauseProducing()
    for number in range(2 if how == "stalls" else 60):
        one.send({"n": number})
    assert not one.lost
    clock.advance(7 if how == "stalls" else 0)
    assert one.lost
    assert other.lost
    assert ("stall_timeout" if how == "stalls" else "max_unsent_bytes") in one.notes[-1]
    one.send({"n": 99})
    assert numbers(other) == []


def test_who_takes_some_and_pauses_again_is_cut_too() -> None:
    """Each stall is bounded, also when nothing more is sent (rule 6)."""
    one, other, clock = pair()
    assert other.transport is not None
    other.transport.pauseProducing()
    for number in range(3):
        one.send({"n": number})
    other.on_message = other.transport.pauseProducing
    clock.advance(6)
    other.transport.resumeProducing()
    assert numbers(other) == [0]
    clock.advance(6)
    assert not one.lost
    clock.advance(1)
    assert "stall_timeout" in one.notes[-1]
    assert numbers(other) == [0]
    assert clock.getDelayedCalls() == []


def test_a_stall_of_the_reactor_is_not_the_receivers() -> None:
    """After it the receiver, whose own output may be writable by now, has the time that it was given."""
    one, other, clock = pair()
    assert other.transport is not None
    other.transport.pauseProducing()
    one.send({"n": 0})
    clock.advance(60)
    assert not one.lost
    other.transport.resumeProducing()
    assert numbers(other) == [0]
    assert clock.getDelayedCalls() == []


def test_a_close_comes_behind_what_was_sent() -> None:
    """Both lose the link then; who has closed hears nothing more."""
    one, other, _ = pair()
    assert one.transport is not None
    assert other.transport is not None
    other.transport.pauseProducing()
    one.send({"n": 1})
    one.transport.close()
    one.transport.stopProducing()
    other.send({"n": 2})
    assert (one.lost, other.lost) == (False, False)
    other.transport.resumeProducing()
    assert numbers(other) == [1]
    assert numbers(one) == []
    assert one.notes == ["the connection was closed"]
    assert other.notes == ["the peer closed the connection"]


def test_a_close_or_an_abort_from_inside_a_delivery() -> None:
    """It ends behind that delivery, once."""
    for how in ("close", "abort"):
        one, other, _ = pair()

        def leave(end: Noting = other, how: str = how) -> None:
            assert end.transport is not None
            if how == "close":
                end.transport.close()
            else:
                end.transport.abort("enough")
            assert not end.lost

        other.on_message = leave
        one.send({"n": 1})
        assert len(one.notes) == len(other.notes) == 1
        assert other.notes == (["the connection was closed"] if how == "close" else ["enough"])


def test_a_receiver_that_fails(logged_errors: Any) -> None:
    """It is logged, and the next message comes (rule 7)."""
    one, other, _ = pair()

    def fail() -> None:
        raise ZeroDivisionError

    other.on_message = fail
    one.send({"n": 1}, {"n": 2})
    assert numbers(other) == [1, 2]
    assert len(logged_errors) == 2
    logged_errors.clear()
