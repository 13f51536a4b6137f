"""The queue of a turn's updates, when somebody may not wait for its reader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from threading import Event, Thread
from typing import Any, cast

import pytest
from halves_v2 import Watched
from twisted.internet.defer import Deferred

from acp_twisted import LimitExceeded, Limits
from acp_twisted.client.reactor_thread import ReactorThread
from acp_twisted.client.sync_turn import Readers, SyncTurn
from acp_twisted.client.updates import UpdateQueue


def queue() -> UpdateQueue[int]:
    """One with room for two."""
    return UpdateQueue("numbers", Limits(max_turn_updates=2))


def following(updates: AsyncIterator[int]) -> Watched:
    """What comes next."""

    async def read() -> int:
        return await anext(updates, -1)

    return Watched(Deferred.fromCoroutine(read()))


def test_a_full_queue_waits_for_its_reader() -> None:
    """Design rule 6: the next update comes when half of the queue was read."""
    kept = queue()
    reader = kept.read()
    kept.put(0, 1)
    assert following(reader).value == 0
    assert [kept.put(each, 1) for each in (1, 2)] == [None, None]
    room = kept.put(3, 1)
    assert room is not None
    assert [following(reader).value for _ in range(2)] == [1, 2]
    assert room.called
    kept.end()
    assert [following(reader).value for _ in range(2)] == [3, -1]


def test_in_a_hurry_nothing_waits() -> None:
    """Whoever waits for something behind the updates gets it, also when the queue was full before."""
    kept = queue()
    reader = kept.read()
    kept.put(0, 1)
    assert following(reader).value == 0
    rooms = [kept.put(each, 1) for each in (1, 2, 3)]
    assert rooms[-1] is not None
    undo = [kept.hurry(), kept.hurry()]
    assert rooms[-1].called
    undo[0]()
    assert kept.put(4, 1) is None
    undo[1]()
    with pytest.raises(LimitExceeded, match="2 updates passed"):
        raise following(reader).value


def test_a_hurry_that_is_over_costs_nothing() -> None:
    """What fitted into the queue meanwhile is read, and then it waits for its reader again."""
    kept = queue()
    reader = kept.read()
    waiting = following(reader)
    undo = kept.hurry()
    assert [kept.put(each, 1) for each in range(3)] == [None] * 3
    undo()
    assert waiting.value == 0
    room = kept.put(3, 1)
    assert room is not None
    assert [following(reader).value for _ in range(3)] == [1, 2, 3]
    assert room.called


def test_nobody_waits_for_a_thread_that_is_over() -> None:
    """
    Design rule 6: a prompt that its thread left unread holds up the prompts of other sessions only while that thread
    may still read it; and a later thread is not taken for it, whatever its number.
    """
    made: list[SyncTurn[Any, Any]] = []
    made_it, leave = Event(), Event()

    def start() -> None:
        made.append(SyncTurn(Readers(cast(ReactorThread, None)), "s1", None))
        made_it.set()
        leave.wait()

    starter = Thread(target=start)
    starter.start()
    made_it.wait()
    [turn] = made
    other = Thread()
    assert [turn.waits_for(other, "s2"), turn.waits_for(other, "s1"), turn.waits_for(starter, "s2")] == [
        False,
        True,
        True,
    ]
    leave.set()
    starter.join()
    assert turn.waits_for(other, "s2")
