"""
Modes and options of a session: only what the agent offers is set.
"""

from __future__ import annotations

from typing import Any

import pytest
from halves import ClientHalf
from wire import success

from acp_twisted import AcpClient, ClientSession
from acp_twisted.errors import AcpCapabilityError
from acp_twisted.schema import v1

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
FLAT = {
    "type": "select",
    "id": "model",
    "name": "Model",
    "currentValue": "big",
    "options": [{"value": "big", "name": "Big"}, {"value": "small", "name": "Small"}],
}
GROUPED = {
    "type": "select",
    "id": "effort",
    "name": "Effort",
    "currentValue": "low",
    "options": [{"group": "g", "name": "G", "options": [{"value": "low", "name": "Low"}]}],
}
SWITCH = {"type": "boolean", "id": "web", "name": "Web", "currentValue": False}
STRANGE = {"type": "_dial", "id": "dial", "name": "Dial", "currentValue": 3}


def opened(*, gates: bool = True, **answer: Any) -> tuple[ClientHalf, ClientSession]:
    """A client with a session that the agent opened with this answer."""
    half = ClientHalf(AcpClient.builder().capability_gates(gates).build())
    opening = half.connection.new_session("/w")
    half.send({"id": half.last_id(), "result": {"sessionId": "s2", **answer}})
    half.take()
    return half, success(opening)


def test_modes_that_are_listed() -> None:
    """A mode is one of availableModes (MODES-SET-MODE-ID-LISTED, 1.80)."""
    half, session = opened(modes=MODES)
    session.set_mode("code")
    assert half.take()[0]["params"] == {"sessionId": "s2", "modeId": "code"}
    with pytest.raises(ValueError, match="no mode of this id"):
        session.set_mode("Code")
    assert half.take() == []


def test_a_session_without_modes_and_options() -> None:
    """Where the agent offers none, none is set, whichever way the request is made (1.2)."""
    half, session = opened()
    with pytest.raises(AcpCapabilityError, match="modes"):
        session.set_mode("code")
    with pytest.raises(AcpCapabilityError, match="configOptions"):
        session.set_config_option("model", "big")
    with pytest.raises(AcpCapabilityError, match="modes"):
        half.connection.call(v1.SetSessionModeRequest(session_id="s2", mode_id="code"))
    assert half.take() == []


@pytest.mark.parametrize(
    ("config_id", "value", "fits"),
    [
        ("model", "small", True),
        ("model", "tiny", False),
        ("model", True, False),
        ("effort", "low", True),
        ("effort", "g", False),
        ("web", True, True),
        ("web", "true", False),
        ("none", "x", False),
    ],
)
def test_values_that_are_offered(config_id: str, value: str | bool, fits: bool) -> None:
    """A value is one of the option's, in a group or not; a switch is on or off (CONFIG-SET-VALUE-VALID)."""
    half, session = opened(configOptions=[FLAT, GROUPED, SWITCH])
    if fits:
        session.set_config_option(config_id, value)
        assert half.take()[0]["params"]["value"] == value
    else:
        with pytest.raises(ValueError, match="CONFIG-SET-VALUE-VALID"):
            session.set_config_option(config_id, value)
        assert half.take() == []


def test_options_that_change() -> None:
    """
    An update, and the answer to a change, tell of options (1.95, CONFIG-SET-RESPONSE-COMPLETE).  What they leave out
    was offered all the same, and is the agent's to refuse.
    """
    half, session = opened()
    update = {"sessionUpdate": "config_option_update", "configOptions": [FLAT]}
    half.send({"method": "session/update", "params": {"sessionId": "s2", "update": update}})
    session.set_config_option("model", "small")
    half.send({"id": half.last_id(), "result": {"configOptions": [SWITCH]}})
    half.take()
    session.set_config_option("web", True)
    session.set_config_option("model", "big")
    assert len(half.take()) == 2
    with pytest.raises(ValueError, match="no option of this id"):
        session.set_config_option("effort", "low")


def test_a_flood_of_options() -> None:
    """An agent that offers no end of values is not held to them, for that would take memory (design rule 6)."""
    half, session = opened(configOptions=[FLAT])
    for number in range(3):
        options = [{"value": f"{number}-{each}", "name": "x"} for each in range(4000)]
        update = {"sessionUpdate": "config_option_update", "configOptions": [{**FLAT, "options": options}]}
        half.send({"method": "session/update", "params": {"sessionId": "s2", "update": update}})
    session.set_config_option("anything", "x")
    assert len(half.take()) == 1


def test_what_is_not_known_may_be_tried() -> None:
    """An option of a kind that nobody here knows, and a session that somebody else opened (CONFIG-CLIENT-IGNORE-…)."""
    half, session = opened(configOptions=[STRANGE])
    session.set_config_option("dial", "4")
    half.connection.require_session("other").set_mode("code")
    assert [each["method"] for each in half.take()] == ["session/set_config_option", "session/set_mode"]


def test_open_gates() -> None:
    """Whoever tests an agent may set anything."""
    half, session = opened(gates=False)
    session.set_mode("x")
    session.set_config_option("x", "y")
    assert len(half.take()) == 2
