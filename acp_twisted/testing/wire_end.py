"""
The end of a link that only keeps what comes.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.interfaces import IMessageReceiver, IMessageTransport
from acp_twisted.testing._failed import failed

Message: TypeAlias = "dict[str, Any]"


@implementer(IMessageReceiver)
class WireEnd:
    """
    The other end of a link, which only keeps what comes: to be joined to anything by a
    L{MemoryLink<acp_twisted.transports.memory.MemoryLink>}.

    @ivar received: the messages that came, decoded.
    @ivar ended: whether the other side says no more.
    @ivar lost: whether the link is gone.
    @ivar transport: what it could say something on.
    """

    def __init__(self) -> None:
        self.received: list[Message] = []
        self.ended = False
        self.lost = False
        self.transport: IMessageTransport | None = None

    def connection_made(self, transport: IMessageTransport) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.transport = transport

    def message_received(self, message: bytes) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.received.append(json.loads(message))

    def oversized_received(self, head: bytes, size: int, tail: bytes = b"") -> None:
        """
        See L{IMessageReceiver}.
        """
        raise failed("a link in memory has no oversized messages")

    def remainder_received(self, message: bytes) -> None:
        """
        See L{IMessageReceiver}.
        """
        raise failed("a link in memory has no halves of messages")

    def input_ended(self) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.ended = True

    def connection_lost(self, reason: Failure) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.lost = True

    def writing_paused(self) -> None:
        """
        See L{IMessageReceiver}.
        """

    def writing_resumed(self) -> None:
        """
        See L{IMessageReceiver}.
        """

    def shutdown(self) -> Deferred[None]:
        """
        See L{IMessageReceiver}.
        """
        return succeed(None)
