"""
How long a prompt turn may take: a policy of this library, not of the protocol, which sets no limits.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from attrs import Attribute, field, frozen

_NANOSECONDS = 1_000_000_000


def _check_seconds(name: str, seconds: object) -> None:
    """
    Whether C{seconds} can be a length of time.

    @raise TypeError: if it is no number (a bool is none here).
    @raise ValueError: if it is negative, not a number, or without end.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"{name} is a number of seconds, not {type(seconds).__name__}")
    try:
        finite = math.isfinite(seconds)
    except OverflowError:
        finite = False
    if not finite or seconds < 0:
        raise ValueError(f"{name} is a finite number of seconds, and not negative")


def _duration(instance: object, attribute: Attribute[Any], value: object) -> None:
    _check_seconds(attribute.name, value)


@frozen(kw_only=True)
class PromptTimeouts:
    """
    The two bounds of a prompt turn, in seconds.  Zero switches one off; with both off, a handler that never answers
    keeps its session busy for good.

    @ivar cancel_grace_period: how long after the first C{session/cancel} (or C{session/close}) the handler may take to
        end by itself.  Then it is cancelled, and the prompt is answered C{cancelled} for it.
    @ivar max_prompt_duration: how long a turn may take in all.  Then the handler is cancelled, and the prompt is
        answered with -32800, or C{cancelled} if it was being cancelled.
    @raise TypeError: from the constructor, for what is no number.
    @raise ValueError: from the constructor, for a negative number, NaN or infinity.
    """

    cancel_grace_period: float = field(default=60.0, validator=_duration)
    max_prompt_duration: float = field(default=0.0, validator=_duration)


def iso8601_duration(seconds: float) -> str:
    """
    A length of time as ISO 8601 has it, in hours, minutes and seconds: C{PT10M}, C{PT1M30.5S}, C{PT0S}.

    Hours do not become days, and fractions go down to the nanosecond: peers written in Java read and write it so.

    @raise TypeError: if C{seconds} is no number.
    @raise ValueError: if it is negative, NaN or infinite.
    """
    _check_seconds("a duration", seconds)
    whole, nanoseconds = divmod(round(Decimal(repr(seconds)) * _NANOSECONDS), _NANOSECONDS)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    text = "PT"
    if hours:
        text += f"{hours}H"
    if minutes:
        text += f"{minutes}M"
    if nanoseconds:
        fraction = f"{nanoseconds:09}".rstrip("0")
        text += f"{rest}.{fraction}S"
    elif rest or text == "PT":
        text += f"{rest}S"
    return text
