"""
What a handler that serves both versions answers in the words of version 1, in those of version 2.

This is for plain answers that look alike in both, such as the id of a new session.  There is nothing that translates a
conversation.
"""

from __future__ import annotations

from typing import Any, Final

from acp_twisted.schema import v1, v2
from acp_twisted.schema.converter import structure, unstructure
from acp_twisted.schema.values import Model

_RENAMED: Final = {
    "AuthenticateResponse": "LoginAuthResponse",
    "LogoutResponse": "LogoutAuthResponse",
    "LoadSessionResponse": "ResumeSessionResponse",
}
_FIRST: Final = (v1.__name__, f"{v1.__name__}_unstable")


def as_second(value: Any) -> Any:
    """
    An object of version 1 as one of version 2, if that has a class of the same name and it fits; anything else as it
    is.

    @raise SchemaError: when it does not fit.
    """
    if not isinstance(value, Model) or type(value).__module__ not in _FIRST:
        return value
    name = type(value).__name__
    kind = getattr(v2, _RENAMED.get(name, name), None)
    return value if kind is None else structure(unstructure(value), kind)
