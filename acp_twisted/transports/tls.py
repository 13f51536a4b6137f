"""
What Twisted's TLS leaves undone at the end of a connection.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import INegotiated


def end_with_peer(transport: Any) -> None:
    """
    Have a connection over TLS be lost when its peer ends it, also while more is waiting than the socket takes.

    Twisted lets the socket go then, with the producer still registered.  One that it has paused it resumes once all is
    written, in place of closing: it neither reads nor writes any more, and nobody is ever told.  To be called when the
    connection is made; over anything else than TLS it does nothing, and neither does a second call.

    @param transport: what the protocol of the connection was given.
    """
    layer: Any = transport
    below: Any = getattr(transport, "transport", None)
    while INegotiated.providedBy(below):  # a wrapper has the interfaces of what it wraps
        layer, below = below, getattr(below, "transport", None)
    if not (INegotiated.providedBy(layer) and hasattr(below, "producerPaused")) or "loseConnection" in vars(below):
        return
    lose = below.loseConnection

    def lose_connection(*args: Any, **options: Any) -> None:
        lose(*args, **options)
        below.producerPaused = False  # nothing that it could bring is going to be written

    below.loseConnection = lose_connection
