"""
The rules of the races, on conversations that break them: a rule that cannot fail would prove nothing.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from interop.race_plans import plan
from interop.race_rules import Conversation
from interop.wires import Wire

Json = dict[str, Any]
BEGIN: tuple[str, Json] = (
    "client",
    {"id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "polite"}]}},
)
STOP: tuple[str, Json] = ("client", {"method": "session/cancel", "params": {"sessionId": "s"}})
GIVE_UP: tuple[str, Json] = ("client", {"method": "$/cancel_request", "params": {"requestId": 1}})
SAY: tuple[str, Json] = ("agent", {"method": "session/update", "params": {"sessionId": "s", "update": {}}})
CANCELLED: tuple[str, Json] = ("agent", {"id": 1, "result": {"stopReason": "cancelled"}})
FAILED: tuple[str, Json] = ("agent", {"id": 1, "error": {"code": -32800, "message": ""}})
BUSY: tuple[str, Json] = ("agent", {"id": 1, "error": {"code": -32600, "message": "", "data": {"sessionId": "s"}}})
ASK: tuple[str, Json] = ("agent", {"id": 7, "method": "session/request_permission", "params": {"sessionId": "s"}})
ALLOWED: tuple[str, Json] = ("client", {"id": 7, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}})
DENIED: tuple[str, Json] = ("client", {"id": 7, "result": {"outcome": {"outcome": "cancelled"}}})


def conversation(*said: tuple[str, Json]) -> Conversation:
    """
    A wire that was recorded at our end.
    """
    return Conversation(Wire(tuple((side, json.dumps(message) + "\n") for side, message in said), None), exact=True)


def hold(found: Conversation) -> None:
    """
    All rules.
    """
    found.assert_answered_once("agent")
    found.assert_answered_once("client")
    found.assert_cancelled_once("client")
    found.assert_updates_belong_to_a_turn()
    found.assert_turn_table()
    found.assert_permissions_fall_with_their_turn()


@pytest.mark.parametrize(
    "said",
    [
        (BEGIN, SAY, STOP, CANCELLED),
        (BEGIN, GIVE_UP, FAILED),
        (BEGIN, STOP, GIVE_UP, CANCELLED),
        (BEGIN, ASK, STOP, DENIED, CANCELLED),
        (BEGIN, STOP, CANCELLED, STOP),
    ],
)
def test_what_is_right_passes(said: tuple[tuple[str, Json], ...]) -> None:
    """Conversations that keep to the turn table."""
    hold(conversation(*said))


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ((BEGIN, STOP), "0 answers"),
        ((BEGIN, STOP, CANCELLED, CANCELLED), "2 answers"),
        ((BEGIN, GIVE_UP, GIVE_UP, FAILED), "cancelled 2 times"),
        ((BEGIN, STOP, CANCELLED, GIVE_UP), "cancelled after its answer"),
        ((BEGIN, STOP, CANCELLED, SAY), "outside of any turn"),
        ((BEGIN, STOP, FAILED), "-32800 where"),
        ((BEGIN, GIVE_UP, CANCELLED), "cancelled where"),
        ((BEGIN, CANCELLED), "cancelled where"),
        ((BEGIN, BUSY), "refused though nothing ran"),
        ((BEGIN, ASK, STOP, CANCELLED), "0 answers"),
        ((BEGIN, ASK, STOP, ALLOWED, CANCELLED), "selected"),
    ],
)
def test_what_is_wrong_is_found(said: tuple[tuple[str, Json], ...], complaint: str) -> None:
    """One fault in each."""
    with pytest.raises(AssertionError, match=complaint):
        hold(conversation(*said))


def test_a_seed_is_a_plan() -> None:
    """The same seed gives the same plan, another seed another, and each has what the races are about."""
    assert plan(1) == plan(1) != plan(2)
    words = {line.split()[0] for seed in range(1, 4) for line in plan(seed)}
    assert words == {"prompt", "cancel", "give-up", "stray", "permit", "pause", "await", "cork", "uncork"}
    assert plan(1, drop=True)[-1] == "drop"
    assert not {"stray", "give-up"} & {line.split()[0] for line in plan(1, strays=False, give_up=False)}
