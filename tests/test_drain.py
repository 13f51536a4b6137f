"""
The silence that ends the output of a process.
"""

from __future__ import annotations

import pytest
from transport_fakes import Passes

from acp_twisted.transports.drain import DRAIN_SECONDS, Drain


def test_silence_ends_it() -> None:
    """
    What comes starts the silence anew, and it is over once.
    """
    clock, over = Passes(), list[float]()
    drain = Drain(clock, lambda: over.append(clock.seconds()))
    for _ in range(3):
        clock.advance(DRAIN_SECONDS * 0.9)
        drain.more()
    clock.advance(DRAIN_SECONDS)
    clock.advance(0)
    assert len(over) == 1
    drain.more()
    clock.advance(DRAIN_SECONDS)
    clock.advance(0)
    assert len(over) == 1
    assert clock.calls == []


def test_a_stalled_reactor_reads_first() -> None:
    """
    What came during a stall is read, although the time of silence has passed on the clock.
    """
    clock, over = Passes(), list[float]()
    drain = Drain(clock, lambda: over.append(clock.seconds()))
    clock.advance(60)
    assert not over
    drain.more()
    clock.advance(0)
    assert not over
    clock.advance(DRAIN_SECONDS)
    assert not over
    clock.advance(0)
    assert len(over) == 1


@pytest.mark.parametrize("stall", [0, DRAIN_SECONDS])
def test_stopped(stall: float) -> None:
    """
    Nobody is told, whenever it is stopped.
    """
    clock, over = Passes(), list[float]()
    drain = Drain(clock, lambda: over.append(clock.seconds()))
    clock.advance(stall)
    drain.stop()
    assert clock.calls == []
    assert not over
