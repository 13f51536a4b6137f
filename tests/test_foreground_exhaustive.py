"""
Every order of the events of foreground work, up to five of them, against the table.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import product

import pytest
from foreground_model import ROWS, TABLE, TRIGGERS, Rig
from twisted.logger import LogLevel, capturedLogs

EVENTS: dict[str, Callable[[Rig], object]] = {
    "prompt": lambda rig: rig.prompt(),
    # It has to be admitted, and its handler swallows its cancellation, so that late results and failures come too.
    "other prompt": lambda rig: rig.prompt(asks=True, swallows=True),
    "session/cancel": Rig.cancel,
    "$/cancel_request": lambda rig: rig.cancel_request(),
    "admitted": lambda rig: rig.decide("admitted"),
    "handler result": lambda rig: rig.finish("result"),
    "handler failure": lambda rig: rig.finish("failure"),
    "blocked": Rig.blocked,
    "grace over": lambda rig: rig.fire("grace"),
    "disconnect": Rig.connection_lost,
}
RARER: dict[str, Callable[[Rig], object]] = {
    **EVENTS,
    "rejected": lambda rig: rig.decide("rejected"),
    "unblocked": Rig.unblocked,
    "max duration over": lambda rig: rig.fire("duration"),
    "session/close": Rig.close,
    "shutdown": Rig.shutdown,
}


def play(sequence: tuple[str, ...], grace: float = 10, duration: float = 1000) -> None:
    """
    Play one sequence on a new session, and compare it with the table at its end.
    """
    rig = Rig(grace, duration)
    for name in sequence:
        RARER[name](rig)
    rig.check()
    rig.lawful()
    rig.end()


def play_all(
    events: dict[str, Callable[[Rig], object]], longest: int, grace: float = 10, duration: float = 1000
) -> int:
    """
    Play every sequence.  Returns how many there were.
    """
    ran = 0
    with capturedLogs() as logged:
        for length in range(1, longest + 1):
            for sequence in product(events, repeat=length):
                try:
                    play(sequence, grace, duration)
                except AssertionError as error:
                    raise AssertionError(f"the sequence {' > '.join(sequence)}") from error
                ran += 1
        gc.collect()
    assert [event for event in logged if event["log_level"] >= LogLevel.error] == []
    return ran


def test_every_order() -> None:
    """
    V2D5, V2D7, V2D8, V2N9: each sequence of the usual events ends as the table says, with one answer a prompt, the
    reports in their order, no timer and no stray error.
    """
    assert play_all(EVENTS, 4) == 11_110


def test_every_order_of_all_events() -> None:
    """
    The same for all events, and shorter sequences.
    """
    assert play_all(RARER, 3) == 3_615


@pytest.mark.parametrize("start", ["prompt", "other prompt"])
def test_every_order_around_running_work(start: str) -> None:
    """
    The same for all events after work has begun and while a second prompt is held.
    """
    opening = (start, "admitted", "other prompt")
    with capturedLogs() as logged:
        for sequence in product(RARER, repeat=3):
            play((*opening, *sequence))
        gc.collect()
    assert [event for event in logged if event["log_level"] >= LogLevel.error] == []


@pytest.mark.parametrize(("grace", "duration"), [(0, 0), (10, 0), (0, 1000)])
def test_every_order_with_timers_off(grace: float, duration: float) -> None:
    """
    With one or both timers off: none is ever started, and the rest of the table holds.
    """
    assert play_all(RARER, 3, grace, duration) == 3_615


def test_the_table_is_whole() -> None:
    """
    The table that all this is compared with has a row for each event that can matter, and no other.
    """
    assert len(ROWS) == len(TABLE.strip().splitlines())
    events = {event for _, event in ROWS}
    assert events == set(TRIGGERS) | {"admitted", "rejected", "blocked", "unblocked", "result", "failure"}
    ends = {"cancel", "close", "shutdown", "connectionLost"}
    for state in ("Idle", "Admitting", "Running", "Blocked", "Cancelling", "Closing"):
        known = {event for each, event in ROWS if each == state}
        assert ends <= known
        if state in ("Running", "Blocked", "Cancelling", "Closing"):
            assert {"result", "failure", "duration"} <= known
