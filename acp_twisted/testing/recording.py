"""
A tap on a connection: everything goes on as before, and is written down.

L{RecordingTransport} stands between any transport and its receiver.  It is not put there by hand: wrap the receiver,
with L{RecordingReceiver}, or what makes receivers, with L{RecordingFactory}, and give that to whatever makes
connections: an endpoint, a service, a L{MemoryLink<acp_twisted.transports.memory.MemoryLink>}.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory, IMessageTransport
from acp_twisted.testing._failed import failed
from acp_twisted.testing.transcript import Transcript


@implementer(IMessageTransport)
class RecordingTransport:
    """
    A transport that writes down what is sent on another, and what comes from it.

    @ivar transcript: both directions.
    @ivar us: who sends on it.
    @ivar them: who is at its other end.
    @ivar closed: whether it was closed from this side, in good order.
    @ivar aborted: the reason it was cut for from this side, if it was.
    """

    def __init__(self, transport: IMessageTransport, transcript: Transcript, us: str, them: str) -> None:
        self.transport = transport
        self.transcript = transcript
        self.us = us
        self.them = them
        self.closed = False
        self.aborted: str | None = None

    @property
    def unsent(self) -> int:
        """
        See L{IMessageTransport}.
        """
        return self.transport.unsent

    def send(self, message: bytes) -> None:
        """
        See L{IMessageTransport}.
        """
        self.transcript.record(self.us, self.them, message)
        self.transport.send(message)

    def received(self, message: bytes) -> None:
        """
        Write down a message from the other end.
        """
        self.transcript.record(self.them, self.us, message)

    def close(self) -> None:
        """
        See L{IMessageTransport}.
        """
        self.closed = True
        self.transport.close()

    def abort(self, reason: str) -> None:
        """
        See L{IMessageTransport}.
        """
        self.aborted = reason
        self.transport.abort(reason)

    def pauseProducing(self) -> None:
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        self.transport.resumeProducing()

    def stopProducing(self) -> None:
        self.closed = True
        self.transport.stopProducing()


@implementer(IMessageReceiver)
class RecordingReceiver:
    """
    A receiver in place of another, which is told everything, over a L{RecordingTransport}.

    @ivar receiver: the other.
    @ivar transcript: what was said.
    @ivar transport: the recording one, once there is a connection.
    @ivar lost: why the connection went, once it has.
    """

    def __init__(
        self, receiver: IMessageReceiver, transcript: Transcript | None = None, *, us: str = "us", them: str = "them"
    ) -> None:
        """
        @param transcript: where to write; by default a new one.
        @param us: what to call the receiver's side.
        @param them: what to call the other one.
        """
        self.receiver = receiver
        self.transcript = Transcript() if transcript is None else transcript
        self.transport: RecordingTransport | None = None
        self.lost: Failure | None = None
        self._names = us, them

    def connection_made(self, transport: IMessageTransport) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.transport = RecordingTransport(transport, self.transcript, *self._names)
        self.receiver.connection_made(self.transport)

    def message_received(self, message: bytes) -> None:
        """
        See L{IMessageReceiver}.
        """
        self._came(message)
        self.receiver.message_received(message)

    def oversized_received(self, head: bytes, size: int, tail: bytes = b"") -> None:
        """
        See L{IMessageReceiver}.
        """
        self._came(head)
        self.receiver.oversized_received(head, size, tail)

    def remainder_received(self, message: bytes) -> None:
        """
        See L{IMessageReceiver}.
        """
        self._came(message)
        self.receiver.remainder_received(message)

    def input_ended(self) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.receiver.input_ended()

    def connection_lost(self, reason: Failure) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.lost = reason
        self.receiver.connection_lost(reason)

    def writing_paused(self) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.receiver.writing_paused()

    def writing_resumed(self) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.receiver.writing_resumed()

    def shutdown(self) -> Deferred[None]:
        """
        See L{IMessageReceiver}.
        """
        return self.receiver.shutdown()

    def _came(self, message: bytes) -> None:
        assert self.transport is not None
        self.transport.received(message)


@implementer(IMessageReceiverFactory)
class RecordingFactory:
    """
    An agent or a client, each of whose connections is recorded: to be given to a service or a server in its place.

    @ivar receivers: the connections so far, each with its C{transcript}.
    """

    def __init__(self, factory: IMessageReceiverFactory, *, us: str = "us", them: str = "them") -> None:
        self._factory = factory
        self._names = us, them
        self.receivers: list[RecordingReceiver] = []

    @property
    def limits(self) -> Any:
        """
        See L{IMessageReceiverFactory}.
        """
        return self._factory.limits

    def build_receiver(self, clock: IReactorTime) -> RecordingReceiver:
        """
        See L{IMessageReceiverFactory}.
        """
        us, them = self._names
        made = RecordingReceiver(self._factory.build_receiver(clock), us=us, them=them)
        self.receivers.append(made)
        return made

    @property
    def transcript(self) -> Transcript:
        """
        That of the last connection.

        @raise AssertionError: when there was none.
        """
        if not self.receivers:
            raise failed("nobody has connected yet")
        return self.receivers[-1].transcript
