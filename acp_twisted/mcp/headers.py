"""
The headers of MCP over HTTP, of both ends.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Final

VERSION: Final = "mcp-protocol-version"
SESSION: Final = "mcp-session-id"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
LAST_EVENT: Final = "last-event-id"
PARAM: Final = "mcp-param-"

NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The methods whose object stands in a header too, and where it stands in the params."""

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"

_PLAIN: Final = re.compile(r"[\x20-\x7e]*")
_WRAPPED: Final = re.compile(r"=\?base64\?(.*)\?=")


def wrapped(value: str) -> str:
    """
    A text as it stands in a header: as it is where that is safe, else in base64, marked.
    """
    if _PLAIN.fullmatch(value) and value == value.strip() and not _WRAPPED.fullmatch(value):
        return value
    return f"=?base64?{b64encode(value.encode()).decode('ascii')}?="


def unwrapped(value: str) -> str | None:
    """
    The text that a header stands for; L{None} when it is marked and none.
    """
    found = _WRAPPED.fullmatch(value)
    if found is None:
        return value
    try:
        text = b64decode(found[1], validate=True)
        return text.decode() if b64encode(text).decode("ascii") == found[1] else None
    except ValueError:
        return None


def media_type(value: str | None) -> str:
    """
    The media type of a C{Content-Type}, without its parameters.
    """
    return (value or "").partition(";")[0].strip().lower()
