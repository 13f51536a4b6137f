"""
Which versions of the protocol a half of the kit speaks, and what has become of its connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from acp_twisted.connection import Connection

ALL: Final = (1, 2)

Versions: TypeAlias = "int | Sequence[int]"
"""A version of the protocol, or several."""


def versions(wanted: Versions) -> tuple[int, ...]:
    """
    Each version once, the lowest first.

    @raise ValueError: when there is none, or one that the library does not speak.
    """
    found = tuple(sorted({wanted} if isinstance(wanted, int) else set(wanted)))
    if not found or set(found) - set(ALL):
        raise ValueError(f"the protocol versions are some of {ALL}, not {wanted!r}")
    return found


def versions_of(half: object) -> tuple[int, ...]:
    """
    What an agent or a client speaks: version 1, unless it was built for several.
    """
    return versions(getattr(half, "versions", 1))


def agreed(link: Any) -> Any:
    """
    The connection that one side of a link is.  Where the version is agreed on first, that is what C{initialize} came
    to, and before that what waits for it.
    """
    return link if isinstance(link, Connection) else getattr(link, "connection", None) or link
