"""
Every order of a turn's events, up to five of them, against the table.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import product

import pytest
from turn_model import OF_ONE_TURN, ROWS, TABLE, TRIGGERS, Rig
from twisted.logger import LogLevel, capturedLogs

EVENTS: dict[str, Callable[[Rig], object]] = {
    "prompt": lambda rig: rig.prompt(),
    "session/cancel": Rig.cancel,
    "$/cancel_request": lambda rig: rig.cancel_request(),
    "handler result": lambda rig: rig.finish("result"),
    "handler failure": lambda rig: rig.finish("failure"),
    "grace over": lambda rig: rig.fire("grace"),
    "max duration over": lambda rig: rig.fire("duration"),
    "disconnect": Rig.connection_lost,
    # Its handler swallows its cancellation, so that late results and failures come too.
    "second prompt": lambda rig: rig.prompt(swallows=True),
}

LONGEST = 5


def play(sequence: tuple[str, ...], grace: float, duration: float) -> None:
    """Play one sequence on a new session, and compare it with the table at its end."""
    rig = Rig(grace, duration)
    for name in sequence:
        EVENTS[name](rig)
    rig.check()
    rig.end()


def test_every_order() -> None:
    """
    Each of the 66 429 sequences ends as the table says, with one answer a prompt, no timer and no stray error (J19).
    """
    ran = 0
    with capturedLogs() as events:
        for length in range(1, LONGEST + 1):
            for sequence in product(EVENTS, repeat=length):
                try:
                    play(sequence, 10, 1000)
                except AssertionError as error:
                    raise AssertionError(f"the sequence {' > '.join(sequence)}") from error
                ran += 1
        gc.collect()
    assert ran == sum(len(EVENTS) ** length for length in range(1, LONGEST + 1)) == 66_429
    assert [event for event in events if event["log_level"] >= LogLevel.error] == []


@pytest.mark.parametrize(("grace", "duration"), [(0, 0), (10, 0), (0, 1000)])
def test_every_order_with_timers_off(grace: float, duration: float) -> None:
    """With one or both timers off, up to four events: none is ever started, and the rest of the table holds."""
    for length in range(1, LONGEST):
        for sequence in product(EVENTS, repeat=length):
            play(sequence, grace, duration)


def test_the_table_is_whole() -> None:
    """The table that all this is compared with has a row for each event that can matter, and no other."""
    assert len(ROWS) == len(TABLE.strip().splitlines())
    events = {event for _, event in ROWS}
    assert events == OF_ONE_TURN | set(TRIGGERS) | {"prompt"}
    for state in ("Running", "Cancelling", "Closing"):
        missing = events - {event for known, event in ROWS if known == state}
        assert missing == ({"grace"} if state == "Running" else set())
