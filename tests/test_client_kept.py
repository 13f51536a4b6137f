"""
What the client keeps for somebody who has not asked for it is bounded, in number and in bytes (design rule 6).
"""

from __future__ import annotations

from typing import Any

import pytest
from halves import ClientHalf
from twisted.internet.defer import Deferred
from wire import failure, success

from acp_twisted import AcpClient, Limits
from acp_twisted.client.kept import Kept
from acp_twisted.errors import LimitExceeded
from acp_twisted.schema import v1

SMALL = Limits(max_queued_bytes=2000, max_early_updates=100, max_turn_updates=100)


def texts(updates: list[Any]) -> list[str]:
    """The texts of chunks."""
    chunks = [each.content for each in updates if isinstance(each, v1.AgentMessageChunk)]
    return [each.text for each in chunks if isinstance(each, v1.TextContent)]


def test_kept_counts_both() -> None:
    """The oldest go, until number and bytes are within the bounds."""
    kept: Kept[str] = Kept("things", 3, 10)
    for item, size in (("a", 1), ("b", 1), ("c", 1), ("d", 1)):
        kept.add(item, size)
    assert kept.over
    assert kept.shrink() == 1
    assert list(kept) == ["b", "c", "d"]
    kept.add("e", 10)
    assert kept.shrink() == 3
    assert kept.pop() == "e"
    assert kept.half_empty
    assert kept.shrink() == 0
    assert kept.take() == []


def test_unread_updates_of_a_turn_are_bounded_in_bytes() -> None:
    """Large updates that nobody reads don't fill the memory, and who reads too late is told."""
    half = ClientHalf(AcpClient.builder().limits(SMALL).build())
    turn = half.session.prompt("go")
    for _ in range(5):
        half.update("x" * 500)

    async def read() -> list[Any]:
        return [each async for each in turn.updates()]

    failure(Deferred.fromCoroutine(read()), LimitExceeded)
    half.send({"id": half.last_id(), "result": {"stopReason": "end_turn"}})
    assert success(turn.response).stop_reason == "end_turn"


@pytest.mark.parametrize("opened", [True, False])
def test_updates_outside_of_turns_are_bounded_in_bytes(opened: bool) -> None:
    """So are those of no turn, and those that come before the answer to session/new; the last are kept (B30)."""
    half = ClientHalf(AcpClient.builder().limits(SMALL).build())
    session = half.session
    opening = None if opened else half.connection.new_session("/w")
    for number in range(5):
        half.update(str(number) + "x" * 400, "s1" if opened else "s2")
    if opening is not None:
        half.send({"id": half.last_id(), "result": {"sessionId": "s2"}})
        session = success(opening)
    assert [each[0] for each in texts(session.take_updates())] == ["2", "3", "4"]
