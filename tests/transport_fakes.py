"""
What the tests of the transports play with: receivers that only record, and the two ends of Twisted they stand between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IConsumer,
    IProcessTransport,
    IPushProducer,
    IReactorTime,
    ITCPTransport,
)
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer
from zope.interface.verify import verifyClass, verifyObject

from acp_twisted.errors import AcpConnectionError
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory, IMessageTransport
from acp_twisted.limits import Limits


class Passes(Clock):
    """
    A clock that, as a reactor does, runs in one pass only what was due when the pass began.
    """

    def advance(self, amount: float) -> None:
        self.rightNow += amount
        for call in [call for call in self.calls if call.getTime() <= self.seconds()]:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


@implementer(IMessageReceiver)
class RecordingReceiver:
    """
    Writes down what it is told; C{on_message} may do more with a message, and so with the other hooks.

    @ivar events: all of it, in order, as tuples.
    """

    def __init__(self, on_message: Callable[[bytes], object] = lambda message: None) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.on_message = on_message
        self.on_remainder: Callable[[], object] = lambda: None
        self.on_end: Callable[[], object] = lambda: None
        self.on_lost: Callable[[], object] = lambda: None
        self.gone: Deferred[AcpConnectionError] = Deferred()
        self.transport: IMessageTransport

    def connection_made(self, transport: IMessageTransport) -> None:
        verifyObject(IMessageTransport, transport)
        self.transport = transport
        self.events.append(("made",))

    def message_received(self, message: bytes) -> None:
        self.events.append(("message", message))
        self.on_message(message)

    def oversized_received(self, head: bytes, size: int, tail: bytes = b"") -> None:
        self.events.append(("oversized", head, size))

    def remainder_received(self, message: bytes) -> None:
        self.events.append(("remainder", message))
        self.on_remainder()

    def input_ended(self) -> None:
        self.events.append(("ended",))
        self.on_end()

    def connection_lost(self, reason: Failure) -> None:
        error = reason.value
        assert isinstance(error, AcpConnectionError)
        self.events.append(("lost", str(error)))
        self.error = error
        self.on_lost()
        self.gone.callback(error)

    def writing_paused(self) -> None:
        self.events.append(("writing paused",))

    def writing_resumed(self) -> None:
        self.events.append(("writing resumed",))

    def shutdown(self) -> Deferred[None]:
        self.events.append(("shutdown",))
        self.transport.close()
        return Deferred()

    @property
    def messages(self) -> list[bytes]:
        """
        The messages alone.
        """
        return [event[1] for event in self.events if event[0] == "message"]

    @property
    def names(self) -> list[str]:
        """
        What happened, without the details.
        """
        return [event[0] for event in self.events]


verifyObject(IMessageReceiver, RecordingReceiver())


@implementer(IMessageReceiverFactory)
class RecordingFactory:
    """
    Makes recording receivers, and keeps them.
    """

    def __init__(self, limits: Limits | None = None, make: Callable[[], RecordingReceiver] = RecordingReceiver) -> None:
        self.limits = Limits() if limits is None else limits
        self.receivers: list[RecordingReceiver] = []
        self._make = make

    def build_receiver(self, clock: IReactorTime) -> RecordingReceiver:
        receiver = self._make()
        self.receivers.append(receiver)
        return receiver


verifyObject(IMessageReceiverFactory, RecordingFactory())


@implementer(ITCPTransport)
class SocketTransport(StringTransport):
    """
    A TCP connection that takes everything, or nothing while C{stuck}: then it pauses its producer at the first byte.

    @ivar writes: each write by itself.
    @ivar half_closed: whether our half was closed.
    """

    def __init__(self) -> None:
        super().__init__(IPv4Address("TCP", "127.0.0.1", 1), IPv4Address("TCP", "127.0.0.1", 2))
        self.writes: list[bytes] = []
        self.stuck = False
        self.half_closed = False
        self.aborted = False
        self.options: dict[str, bool] = {}

    def write(self, data: bytes) -> None:
        super().write(data)
        self.writes.append(data)
        if self.stuck and self.producer is not None:
            self.producer.pauseProducing()

    def take(self) -> None:
        """
        The peer has taken what was written.
        """
        if self.producer is not None:
            self.producer.resumeProducing()

    def loseWriteConnection(self) -> None:
        self.half_closed = True

    def abortConnection(self) -> None:
        self.aborted = True

    def getTcpNoDelay(self) -> bool:
        return self.options.get("nodelay", False)

    def setTcpNoDelay(self, enabled: bool) -> None:
        self.options["nodelay"] = enabled

    def getTcpKeepAlive(self) -> bool:
        return self.options.get("keepalive", False)

    def setTcpKeepAlive(self, enabled: bool) -> None:
        self.options["keepalive"] = enabled


verifyObject(ITCPTransport, SocketTransport())


@implementer(IPushProducer)
class FakePipe:
    """
    Our end of one of a child's pipes.
    """

    def __init__(self, process: FakeProcess, number: int) -> None:
        self.process = process
        self.number = number
        self.reading = True

    def pauseProducing(self) -> None:
        self.reading = False

    def resumeProducing(self) -> None:
        self.reading = True

    def stopProducing(self) -> None:
        self.reading = False

    def connectionLost(self, reason: Failure) -> None:
        """
        Closed, by either side.
        """
        del self.process.pipes[self.number]
        self.process.protocol.childConnectionLost(self.number)


verifyClass(IPushProducer, FakePipe)


@implementer(IProcessTransport, IConsumer)
class FakeProcess:
    """
    A child process, as far as its transport goes.
    """

    def __init__(self, protocol: Any, pid: int = 4321) -> None:
        self.protocol = protocol
        self.pid = pid
        self.pipes = {number: FakePipe(self, number) for number in (0, 1, 2)}
        self.writes: list[bytes] = []
        self.producer: Any = None
        self.stuck = False
        protocol.makeConnection(self)

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        if self.stuck and self.producer is not None:
            self.producer.pauseProducing()

    def writeSequence(self, iovec: Any) -> None:
        self.write(b"".join(iovec))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def closeChildFD(self, descriptor: int) -> None:
        if descriptor in self.pipes:
            self.lose(descriptor)

    def lose(self, descriptor: int) -> None:
        """
        One pipe is closed.
        """
        self.pipes[descriptor].connectionLost(Failure(EOFError()))

    def closeStdin(self) -> None:
        self.closeChildFD(0)

    def closeStdout(self) -> None:
        self.closeChildFD(1)

    def closeStderr(self) -> None:
        self.closeChildFD(2)

    def loseConnection(self) -> None:
        for descriptor in list(self.pipes):
            self.closeChildFD(descriptor)

    def writeToChild(self, childFD: int, data: bytes) -> None:
        self.write(data)

    def signalProcess(self, signalID: str | int) -> None:
        raise AssertionError("the group is signalled, never the process alone")

    def getHost(self) -> Any:
        raise NotImplementedError

    def getPeer(self) -> Any:
        raise NotImplementedError


verifyClass(IProcessTransport, FakeProcess)
verifyClass(IConsumer, FakeProcess)
