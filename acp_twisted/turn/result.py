"""
How a prompt's handler says how its work ended, in either version of the protocol.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import field, frozen

STOP_REASONS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
"""The protocol's own; others begin with an underscore."""


def is_stop_reason(value: object) -> bool:
    """
    Whether C{value} can be a stop reason.
    """
    return isinstance(value, str) and (value in STOP_REASONS or value.startswith("_"))


@frozen
class TurnResult:
    """
    What a prompt handler may return in place of a response of its version: in version 1 it becomes the prompt's answer,
    in version 2 the report that the session is idle again.

    @ivar stop_reason: why the work ended.
    @ivar usage: the tokens that it took: an object of the C{Usage} class of the connection's version.
    @ivar meta: C{_meta} of the answer, or of the report.
    """

    stop_reason: str = "end_turn"
    usage: Any = field(default=None, kw_only=True)
    meta: dict[str, Any] | None = field(default=None, kw_only=True)
