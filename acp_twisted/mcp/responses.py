"""
The ways in which a request of twisted.web is answered here.  (Those of L{acp_twisted.transports.http} serve HTTP/2 as
well, and need its libraries.)
"""

from __future__ import annotations

from typing import Any

from acp_twisted.mcp.headers import EVENTS, JSON


def answer_json(request: Any, status: int, body: bytes) -> None:
    """
    Answer a request with JSON, and finish it.
    """
    request.setResponseCode(status)
    request.setHeader(b"content-type", JSON.encode())
    request.setHeader(b"content-length", str(len(body)).encode())
    request.write(body)
    request.finish()


def begin_events(request: Any) -> None:
    """
    Begin to answer a request with a stream of events.
    """
    request.setHeader(b"content-type", EVENTS.encode())
    request.setHeader(b"cache-control", b"no-cache, no-transform")
    request.setHeader(b"x-accel-buffering", b"no")


def frame_event(message: bytes) -> bytes:
    """
    A message as one event.  Our encoders write no line ends.
    """
    return b"event: message\ndata: " + message + b"\n\n"


def abort_response(request: Any) -> None:
    """
    Cut the connection that a request came on.
    """
    channel = request.channel
    if channel is not None:
        channel.transport.abortConnection()
