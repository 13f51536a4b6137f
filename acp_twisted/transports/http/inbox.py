"""
What several streams have brought and the receiver has not taken yet.
"""

from __future__ import annotations

from collections import deque

from twisted.logger import Logger

from acp_twisted.interfaces import IMessageReceiver
from acp_twisted.jsonrpc.framing import Oversized

_log = Logger()


class Inbox:
    """
    Delivers messages in the order in which they were put, from inside L{put} (rule 3), and holds them while the
    receiver pauses.  A receiver that raises is logged, and is given the next message (rule 7).

    @ivar paused: whether messages are being held.
    """

    def __init__(self, receiver: IMessageReceiver) -> None:
        self.paused = False
        self._receiver = receiver
        self._held: deque[bytes | Oversized] = deque()
        self._delivering = False
        self._stopped = False

    def put(self, message: bytes | Oversized) -> None:
        """
        One more message.  After L{stop}: nothing.
        """
        if not self._stopped:
            self._held.append(message)
            self._deliver()

    def resume(self) -> None:
        """
        Deliver what was held.
        """
        self.paused = False
        self._deliver()

    def flush(self) -> None:
        """
        Deliver all that was held, paused or not: the connection is gone, and the last message may be an answer (B67).
        """
        while self._held and not self._stopped:
            self._deliver_one()
        self._stopped = True

    def stop(self) -> None:
        """
        Deliver nothing more.
        """
        self._stopped = True
        self._held.clear()

    def _deliver(self) -> None:
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._held and not self.paused:
                self._deliver_one()
        finally:
            self._delivering = False

    def _deliver_one(self) -> None:
        message = self._held.popleft()
        try:
            if isinstance(message, Oversized):
                self._receiver.oversized_received(message.head, message.size, message.tail)
            else:
                self._receiver.message_received(message)
        except Exception:
            _log.failure("a receiver failed on a message")
