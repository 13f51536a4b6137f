"""
The two bounds of a prompt turn, and how their lengths are told to the peer.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_twisted.turn.timeouts import PromptTimeouts, iso8601_duration

NAMES = ["cancel_grace_period", "max_prompt_duration"]


def test_defaults() -> None:
    """The grace period is a minute, and a turn's whole length is not bounded (B26, JT8, JT9)."""
    timeouts = PromptTimeouts()
    assert (timeouts.cancel_grace_period, timeouts.max_prompt_duration) == (60.0, 0.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seconds", [0, 0.0, 1, 0.25, 1e9])
def test_accepts_lengths_of_time(name: str, seconds: float) -> None:
    """Zero and any finite positive number of seconds will do."""
    assert getattr(PromptTimeouts(**{name: seconds}), name) == seconds


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seconds", [-1, -1e-9, -math.inf, math.inf, math.nan, 10**400])
def test_refuses_impossible_lengths(name: str, seconds: float) -> None:
    """A negative, endless or undefined length is an error where it is set, and the message names the setting (JT25)."""
    with pytest.raises(ValueError, match=name):
        PromptTimeouts(**{name: seconds})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seconds", [None, "60", True, [1], Fraction(1, 2), 1j])
def test_refuses_what_is_no_number(name: str, seconds: object) -> None:
    """What is no int or float is a TypeError where it is set; so is a bool, which would mean one second (JT25)."""
    with pytest.raises(TypeError, match=name):
        PromptTimeouts(**{name: seconds})  # type: ignore[arg-type]


def test_is_frozen() -> None:
    """The timeouts of a running agent do not change under it."""
    with pytest.raises(AttributeError):
        PromptTimeouts().cancel_grace_period = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (600, "PT10M"),
        (5400, "PT1H30M"),
        (0.25, "PT0.25S"),
        (90.5, "PT1M30.5S"),
        (0, "PT0S"),
        (0.0, "PT0S"),
        (1, "PT1S"),
        (60.0, "PT1M"),
        (3600, "PT1H"),
        (3661, "PT1H1M1S"),
        (3600.5, "PT1H0.5S"),
        (86400 * 3, "PT72H"),
        (0.1, "PT0.1S"),
        (1e-9, "PT0.000000001S"),
        (1e-12, "PT0S"),
        (0.9999999999, "PT1S"),
        (29163.345, "PT8H6M3.345S"),
        (1e9, "PT277777H46M40S"),
    ],
)
def test_iso8601_duration(seconds: float, text: str) -> None:
    """The text is the one that java.time.Duration prints (JT9)."""
    assert iso8601_duration(seconds) == text


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf])
def test_iso8601_duration_refuses_impossible_lengths(seconds: float) -> None:
    """There is no text for a length that can't be."""
    with pytest.raises(ValueError, match="duration"):
        iso8601_duration(seconds)


@pytest.mark.parametrize("seconds", [None, "1", False])
def test_iso8601_duration_refuses_what_is_no_number(seconds: float) -> None:
    """There is no text for what is no number."""
    with pytest.raises(TypeError, match="duration"):
        iso8601_duration(seconds)


@given(st.integers(min_value=0, max_value=10**9), st.integers(min_value=0, max_value=999_999))
def test_iso8601_duration_loses_nothing(whole: int, microseconds: int) -> None:
    """Read back, the text is the length again, and its minutes and seconds are below sixty."""
    text = iso8601_duration(float(f"{whole}.{microseconds:06}"))
    rest = text.removeprefix("PT")
    amount: dict[str, Fraction] = {}
    for unit in "HMS":
        if unit in rest:
            number, rest = rest.split(unit)
            amount[unit] = Fraction(number)
    assert rest == ""
    assert amount.get("M", 0) < 60
    assert amount.get("S", 0) < 60
    assert Fraction(whole * 10**6 + microseconds, 10**6) == sum(
        amount.get(unit, Fraction(0)) * seconds for unit, seconds in (("H", 3600), ("M", 60), ("S", 1))
    )
