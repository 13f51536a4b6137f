"""
The way in: bytes to messages to the receiver, with pauses, used by every transport that reads bytes.
"""

from __future__ import annotations

from collections import deque

from twisted.logger import Logger

from acp_twisted.interfaces import IMessageReceiver
from acp_twisted.jsonrpc.framing import LineFramer, Oversized, Remainder
from acp_twisted.limits import Limits

_log = Logger()


class Inbound:
    """
    Delivers what arrives on one connection, in order and from inside C{feed} (rule 3).

    The receiver may pause, resume or end the connection in the middle of a chunk.  While it pauses, the messages that
    were already framed are held here rather than delivered: a receiver that pauses because it is full would otherwise
    have to take all the rest of the chunk, which may be thousands of small messages.  What is held is bounded by one
    read of the transport, for the transport is paused with us.  A receiver that raises is logged and goes on with the
    next message (rule 7).

    @ivar ended: whether C{input_ended} was delivered.
    @ivar paused: whether messages are being held.
    """

    def __init__(self, receiver: IMessageReceiver, limits: Limits) -> None:
        self._receiver = receiver
        self._framer = LineFramer(limits.max_message_bytes)
        self._held: deque[bytes | Oversized | Remainder] = deque()
        self._delivering = False
        self._stopped = False
        self._end_came = False
        self.paused = False
        self.ended = False

    def feed(self, data: bytes) -> None:
        """
        Take a chunk and deliver its messages.  After L{stop}: nothing.
        """
        if self._stopped or self._end_came:
            return
        events = self._framer.feed(data)
        if events:
            self._held.extend(events)
            self._deliver()

    def end(self) -> None:
        """
        The peer's half is closed: deliver a remainder, then C{input_ended}, behind what is held.
        """
        if self._stopped or self._end_came:
            return
        self._end_came = True
        self._held.extend(self._framer.finish())
        self._deliver()

    def pause(self) -> None:
        """
        Hold what was framed and not yet delivered.
        """
        self.paused = True

    def resume(self) -> None:
        """
        Deliver what was held.  From inside a delivery: go on behind it.
        """
        self.paused = False
        self._deliver()

    def flush(self) -> None:
        """
        The connection is lost: deliver all that arrived, paused or not, for the last line may be an answer (B67).
        """
        if self._stopped:
            return
        if not self._end_came:
            self._held.extend(self._framer.finish())
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
        if self._end_came and not (self.ended or self._stopped or self.paused):
            self.ended = True
            with _log.failuresHandled("a receiver failed at the end of its input"):
                self._receiver.input_ended()

    def _deliver_one(self) -> None:
        event = self._held.popleft()
        try:
            if type(event) is bytes:
                self._receiver.message_received(event)
            elif isinstance(event, Oversized):
                self._receiver.oversized_received(event.head, event.size, event.tail)
            elif isinstance(event, Remainder):
                self._receiver.remainder_received(event.message)
        except Exception:
            _log.failure("a receiver failed on a message")
