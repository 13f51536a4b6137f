"""
What reaches below twisted.web: the streams of HTTP/2 take turns, each session has one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from priority.priority import DeadlockError, DuplicateStreamError

from acp_twisted.transports.http.below import Turns


def test_each_in_turn() -> None:
    """Every stream that has something writes once before any writes again."""
    turns = Turns()
    for stream in (1, 3, 5):
        turns.insert_stream(stream)
    assert [next(turns) for _ in range(6)] == [1, 3, 5, 1, 3, 5]
    turns.block(3)
    turns.reprioritize(5, depends_on=1, weight=2, exclusive=True)
    assert [next(turns) for _ in range(4)] == [1, 5, 1, 5]
    turns.unblock(3)
    turns.remove_stream(1)
    assert [next(turns) for _ in range(4)] == [5, 3, 5, 3]


def test_nothing_to_write() -> None:
    """That is said as the tree of priorities says it, and so is a stream that is there already."""
    turns = Turns()
    with pytest.raises(DeadlockError):
        next(turns)
    turns.insert_stream(1)
    turns.block(1)
    with pytest.raises(DeadlockError):
        next(turns)
    with pytest.raises(DuplicateStreamError):
        turns.insert_stream(1)
    turns.unblock(1)
    turns.unblock(7)
    turns.remove_stream(7)
    turns.block(7)
    assert next(iter(turns)) == 1


def test_who_may_not_write_is_passed_over() -> None:
    """A stream without a window gets no turn until it is unblocked; nobody is asked again meanwhile."""
    asked: list[int] = []
    stuck = {1, 3}

    def is_stuck(stream: int) -> bool:
        asked.append(stream)
        return stream in stuck

    turns = Turns(is_stuck)
    for stream in (1, 3, 5):
        turns.insert_stream(stream)
    assert [next(turns) for _ in range(3)] == [5, 5, 5]
    assert asked == [1, 3, 5, 5, 5]
    assert len(turns) == 1
    turns.block(5)
    stuck.remove(3)
    turns.unblock(1)
    turns.unblock(3)
    assert next(turns) == 3
    turns.remove_stream(3)
    with pytest.raises(DeadlockError):
        next(turns)


_STEP = st.tuples(st.sampled_from(["insert", "block", "unblock", "remove", "next"]), st.integers(1, 4))


@given(st.lists(_STEP, max_size=60))
def test_against_a_model(steps: list[Any]) -> None:
    """Whatever is done, only streams that are there and not blocked get a turn, and none is forgotten."""
    turns = Turns()
    ready: dict[int, bool] = {}
    for step, stream in steps:
        if step == "insert" and stream not in ready:
            turns.insert_stream(stream)
            ready[stream] = True
        elif step in ("block", "unblock"):
            getattr(turns, step)(stream)
            if stream in ready:
                ready[stream] = step == "unblock"
        elif step == "remove":
            turns.remove_stream(stream)
            ready.pop(stream, None)
        elif step == "next" and any(ready.values()):
            assert ready[next(turns)]
    expected = {stream for stream, is_ready in ready.items() if is_ready}
    assert {next(turns) for _ in expected} == expected
