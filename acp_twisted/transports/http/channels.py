"""
What a request of twisted.web came by.  It needs nothing of HTTP/2, which an MCP bridge has not loaded.
"""

from __future__ import annotations

from typing import Any


def transport_of(request: Any) -> Any:
    """
    The transport of the connection that a request came by, which a stream of HTTP/2 shares with others.
    """
    channel = request.channel
    return getattr(channel, "_conn", channel).transport
