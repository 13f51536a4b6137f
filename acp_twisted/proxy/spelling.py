"""
The two methods between a conductor and its proxies, in the protocol's spelling and in an older one.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen


@frozen
class Spelling:
    """
    How the methods of the proxy protocol are written.  Both are always understood; this is what is sent.

    @ivar initialize: what a component that has a successor is initialized with.
    @ivar successor: the envelope of a message to a proxy's successor, or from it.
    @ivar wraps_cancellation: whether the cancellation of a request in an envelope goes in one itself.  It names the
        envelope's id both ways.
    """

    initialize: str
    successor: str
    wraps_cancellation: bool = False


PRESENT: Final = Spelling("proxy/initialize", "proxy/successor")
"""As the protocol's schema has it."""

OLDER: Final = Spelling("_proxy/initialize", "_proxy/successor", wraps_cancellation=True)
"""As conductors wrote it before the schema had it."""

INITIALIZE: Final = frozenset({PRESENT.initialize, OLDER.initialize})
SUCCESSOR: Final = frozenset({PRESENT.successor, OLDER.successor})
RESERVED: Final = INITIALIZE | SUCCESSOR
"""What only stands between a conductor and its proxies, and never in a message that passes."""
