"""
What the server wants of the layers below a twisted.web request, and Twisted has no public names for.  Each of these
does without where it meets another Twisted than those it was written for.
"""

from __future__ import annotations

import socket
from typing import Any, Final

from twisted.logger import Logger

_log = Logger()

MAX_CONCURRENT_STREAMS: Final = 0x3
"""The setting of HTTP/2 (RFC 9113, 6.5.2)."""


def abort_exchange(request: Any) -> None:
    """
    Cut a request off: its stream of HTTP/2, or the whole connection of HTTP/1.1.
    """
    channel = getattr(request, "channel", None)
    if channel is None:
        return  # it is gone already
    if hasattr(channel, "abortConnection"):
        channel.abortConnection()
    else:
        channel.transport.abortConnection()


def notice_dead_peer(request: Any, seconds: float) -> None:
    """
    Have the system drop a TCP connection that acknowledges nothing for so long: an event stream has no other way to
    learn that its reader's machine is gone, for there is nothing that the reader would have to answer.
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    channel = request.channel
    layer = getattr(channel, "_conn", channel).transport  # a stream of HTTP/2 has its connection there
    while layer is not None and not hasattr(layer, "socket"):
        layer = getattr(layer, "transport", None)  # TLS has what it runs on there
    handle = getattr(layer, "socket", None)
    if option is None or handle is None or handle.family not in (socket.AF_INET, socket.AF_INET6):
        return
    try:
        handle.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))
    except OSError as error:
        _log.debug("TCP_USER_TIMEOUT can't be set: {error}", error=error.strerror)


def allow_streams(request: Any, count: int) -> None:
    """
    Let a client have so many streams of HTTP/2 at once on one connection: each session that it follows is one, and h2's
    own setting is 100.  Over HTTP/1.1: nothing.
    """
    connection: Any = getattr(request.channel, "_conn", None)
    h2 = getattr(connection, "conn", None)
    if h2 is None or h2.local_settings.get(MAX_CONCURRENT_STREAMS, 0) >= count:
        return
    h2.update_settings({MAX_CONCURRENT_STREAMS: count})
    connection._tryToWriteControlData()
