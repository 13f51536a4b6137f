"""
What a peer asks of the room above it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

from twisted.internet.defer import Deferred
from zope.interface import Interface

from acp_twisted.errors import AcpConnectionError
from acp_twisted.jsonrpc.messages import Notification

if TYPE_CHECKING:
    from acp_twisted.jsonrpc.incoming import IncomingRequest


class _Taken:
    """What a router returns for a request that it answers through the IncomingRequest itself."""


TAKEN: Final = _Taken()


class IRouter(Interface):
    """
    Where received messages go.
    """

    def lane_of(method: str, params: object) -> Hashable:
        """
        The key of the lane that a message belongs to; also asked for outgoing requests, whose answers go there.
        """

    def apply_now(notification: Notification) -> bool:
        """
        Do what must be done before any later message is looked at.  L{True} if that was all there is to do.
        """

    def handle_request(request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        Handle a request, now, or once C{gate} fires where there is one (its lane is busy).

        @return: the result as JSON, a Deferred or a coroutine of it, or L{TAKEN}.
        @raise Exception: becomes the error that the peer is answered.
        """

    def handle_notification(notification: Notification) -> Deferred[object] | None:
        """
        Handle a notification; its lane waits for the Deferred, where there is one.
        """

    def connection_lost(reason: AcpConnectionError) -> None:
        """
        The link is gone; every request has been told.
        """
