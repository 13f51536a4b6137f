"""
Writes down a conversation at our own end of it, inside of the process: in the order in which we read and wrote.
"""

from __future__ import annotations

from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted import Limits
from acp_twisted.client.client import Where, open_link
from acp_twisted.interfaces import IMessageEndpoint, IMessageReceiver, IMessageReceiverFactory, IMessageTransport
from interop.programs import until
from interop.wires import Wire


@define
class Record:
    """
    What passed.

    @ivar here: which side this is.
    @ivar lost: whether the connection is gone.
    """

    here: str
    sent: list[tuple[str, str]] = field(factory=list)
    lost: bool = False

    @property
    def wire(self) -> Wire:
        """
        All of it so far.
        """
        return Wire(tuple(self.sent), None)

    def wrote(self, message: bytes) -> None:
        """
        We said something.
        """
        if not self.lost:
            self.sent.append((self.here, message.decode() + "\n"))

    def read(self, message: bytes) -> None:
        """
        The peer said something.
        """
        self.sent.append(("agent" if self.here == "client" else "client", message.decode("utf-8", "replace") + "\n"))


@implementer(IMessageTransport)
class RecordedTransport:
    """
    A transport, with all that is sent through it written down first.
    """

    def __init__(self, inner: Any, record: Record) -> None:
        self.inner = inner
        self._record = record

    @property
    def unsent(self) -> int:
        return int(self.inner.unsent)

    def send(self, message: bytes) -> None:
        self._record.wrote(message)
        self.inner.send(message)

    def close(self) -> None:
        self.inner.close()

    def abort(self, reason: str) -> None:
        self._record.lost = True
        self.inner.abort(reason)

    def pauseProducing(self) -> None:
        self.inner.pauseProducing()

    def resumeProducing(self) -> None:
        self.inner.resumeProducing()

    def stopProducing(self) -> None:
        self.inner.stopProducing()


@implementer(IMessageReceiver)
class RecordedReceiver:
    """
    A receiver, with all that it is told written down first.
    """

    def __init__(self, inner: Any, record: Record) -> None:
        self._inner = inner
        self.record = record
        self.transport: RecordedTransport | None = None

    def connection_made(self, transport: IMessageTransport) -> None:
        self.transport = RecordedTransport(transport, self.record)
        self._inner.connection_made(self.transport)

    def message_received(self, message: bytes) -> None:
        self.record.read(message)
        self._inner.message_received(message)

    def oversized_received(self, head: bytes, size: int, tail: bytes = b"") -> None:
        self._inner.oversized_received(head, size, tail)

    def remainder_received(self, message: bytes) -> None:
        self._inner.remainder_received(message)

    def input_ended(self) -> None:
        self._inner.input_ended()

    def connection_lost(self, reason: Failure) -> None:
        self.record.lost = True
        self._inner.connection_lost(reason)

    def writing_paused(self) -> None:
        self._inner.writing_paused()

    def writing_resumed(self) -> None:
        self._inner.writing_resumed()

    def shutdown(self) -> Deferred[None]:
        done: Deferred[None] = self._inner.shutdown()
        return done


@implementer(IMessageEndpoint)
class Recorded:
    """
    The way to an agent, whose connection is written down at our end.

    What stands in the record was given to our client before: whoever sees an answer there knows that all that the agent
    said earlier has arrived too.

    @ivar record: what passed.
    """

    def __init__(self, where: Where) -> None:
        self._where = where
        self.record = Record("client")

    def connect_receiver(self, reactor: Any, receiver: IMessageReceiver, limits: Limits) -> Deferred[IMessageTransport]:
        recording = RecordedReceiver(receiver, self.record)

        def connected(_: object) -> IMessageTransport:
            transport: Any = recording.transport
            return cast(IMessageTransport, transport)

        made: Deferred[IMessageTransport] = open_link(reactor, self._where, recording, limits).addCallback(connected)
        return made

    def refused(self, code: int) -> list[int | str]:
        """
        The ids of our requests that were answered with that error.
        """
        errors = [each for each in self.record.wire.answers("agent") if "error" in each]
        return [each["id"] for each in errors if each["error"]["code"] == code]

    async def until_refused(self, reactor: Any, count: int, code: int = -32800) -> None:
        """
        Wait until so many of our requests were answered with that error; nothing that belongs to them comes any more.
        """
        await until(reactor, lambda: len(self.refused(code)) >= count)
        assert len(self.refused(code)) == count


@implementer(IMessageReceiverFactory)
class RecordedAgent:
    """
    An agent, each of whose connections is written down.

    @ivar records: one for each connection, in order.
    """

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self.records: list[Record] = []

    @property
    def limits(self) -> Limits:
        limits: Limits = self._agent.limits
        return limits

    def build_receiver(self, clock: IReactorTime) -> RecordedReceiver:
        self.records.append(Record("agent"))
        return RecordedReceiver(self._agent.build_receiver(clock), self.records[-1])
