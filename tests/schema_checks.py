"""
Small helpers for looking at how JSON is read.
"""

from __future__ import annotations

import pytest

from acp_twisted.schema.converter import describe_error, structure
from acp_twisted.schema.values import SchemaError


def refused(value: object, kind: object) -> list[tuple[str, str]]:
    """
    The paths and reasons with which a value is refused.
    """
    with pytest.raises(SchemaError) as caught:
        structure(value, kind)
    return [(each["path"], each["reason"]) for each in describe_error(caught.value)]


def update(**members: object) -> dict[str, object]:
    """
    The params of a C{session/update}.
    """
    return {"sessionId": "s1", "update": members}


def chunk(text: str = "hi") -> dict[str, object]:
    """
    An update with a piece of the agent's message.
    """
    return update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})
