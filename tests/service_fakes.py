"""
What the services are tested with: endpoints, ports, receivers and agents that are made of nothing, and an agent of the
real kind on a transport that is made of nothing.
"""

from __future__ import annotations

import json
from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.error import ConnectionDone, ConnectionRefusedError
from twisted.internet.interfaces import (
    IAddress,
    IListeningPort,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
    IStreamServerEndpoint,
)
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import StringTransport, StringTransportWithDisconnection
from twisted.python.failure import Failure
from zope.interface import implementer
from zope.interface.verify import verifyObject

from acp_twisted import AcpAgent, PromptContext
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory, IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.schema import v1

ADDRESS = IPv4Address("TCP", "127.0.0.1", 4711)

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
NEW_SESSION = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}


def prompt(session_id: str, text: str, request_id: int = 2) -> dict[str, Any]:
    """A prompt of one text block, as JSON."""
    params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": request_id, "method": "session/prompt", "params": params}


def line(message: object) -> bytes:
    """A message as it goes over the wire."""
    return json.dumps(message).encode() + b"\n"


def agent(limits: Limits | None = None) -> AcpAgent:
    """Answers C{hi} at once, and any other prompt never."""

    def answer(request: v1.PromptRequest, context: PromptContext) -> object:
        block = request.prompt[0]
        if isinstance(block, v1.TextContent) and block.text == "hi":
            return v1.PromptResponse(stop_reason="end_turn")
        return Deferred()

    return AcpAgent.builder().agent_info("fake", "1").prompt_handler(answer).limits(limits or Limits()).build()


@implementer(IListeningPort)
class FakePort:
    """
    Closes when the test says so, or at once.

    @ivar closing: the Deferreds that stopListening gave out.
    """

    def __init__(self, slow: bool = False) -> None:
        self.slow = slow
        self.closing: list[Deferred[None]] = []

    def startListening(self) -> None:
        raise AssertionError("an endpoint's port listens already")

    def stopListening(self) -> Deferred[None]:
        self.closing.append(Deferred() if self.slow else succeed(None))
        return self.closing[-1]

    def getHost(self) -> IAddress:
        return ADDRESS


@implementer(IStreamServerEndpoint)
class FakeServerEndpoint:
    """
    Listens, refuses, or takes its time.

    @ivar outcome: what listen comes to: a port, an exception, or a Deferred.
    @ivar factories: what it was asked to listen with.
    """

    def __init__(self, outcome: object = None) -> None:
        self.port = FakePort()
        self.outcome = self.port if outcome is None else outcome
        self.factories: list[Factory] = []

    def listen(self, protocolFactory: IProtocolFactory) -> Any:
        self.factories.append(cast(Factory, protocolFactory))
        protocolFactory.doStart()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome if isinstance(self.outcome, Deferred) else succeed(self.outcome)

    def accept(self) -> StringTransportWithDisconnection | None:
        """Somebody connects to the endpoint that was listened on last."""
        protocol = self.factories[-1].buildProtocol(ADDRESS)
        if protocol is None:
            return None
        transport = StringTransportWithDisconnection()
        transport.protocol = protocol
        protocol.makeConnection(transport)
        return transport


@implementer(IMessageReceiver)
class FakeReceiver:
    """
    Ends its conversation when the test says so.

    @ivar shut_down: what shutdown gave out.
    @ivar lost: why its connection went.
    """

    def __init__(self) -> None:
        self.transport: IMessageTransport | None = None
        self.shut_down: list[Deferred[None]] = []
        self.lost: list[str] = []

    def connection_made(self, transport: IMessageTransport) -> None:
        self.transport = transport

    def message_received(self, message: bytes) -> None:
        raise AssertionError("nothing is sent to it")

    def oversized_received(self, head: bytes, size: int, tail: bytes = b"") -> None:
        raise AssertionError("nothing is sent to it")

    def remainder_received(self, message: bytes) -> None:
        raise AssertionError("nothing is sent to it")

    def input_ended(self) -> None:
        assert self.transport is not None
        self.transport.close()

    def connection_lost(self, reason: Failure) -> None:
        self.lost.append(reason.getErrorMessage())

    def writing_paused(self) -> None:
        raise AssertionError("it writes nothing")

    def writing_resumed(self) -> None:
        raise AssertionError("it writes nothing")

    def shutdown(self) -> Deferred[None]:
        self.shut_down.append(Deferred())
        return self.shut_down[-1]


@implementer(IMessageReceiverFactory)
class FakeAgent:
    """
    Makes fake receivers, and keeps them.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.receivers: list[FakeReceiver] = []

    def build_receiver(self, clock: IReactorTime) -> IMessageReceiver:
        receiver = FakeReceiver()
        self.receivers.append(receiver)
        return receiver


class ScriptedPeer(Protocol):
    """
    An agent of a few lines: it answers C{initialize} and C{session/new}, keeps everything, and does no more.

    @ivar received: the messages, decoded.
    @ivar mute: whether it answers nothing.
    """

    def __init__(self, version: int = 1, mute: bool = False) -> None:
        self.received: list[dict[str, Any]] = []
        self.version = version
        self.mute = mute
        self.client: FakeClientSide | None = None

    @property
    def methods(self) -> list[str]:
        return [message.get("method", "") for message in self.received]

    def take(self, data: bytes) -> None:
        for text in data.splitlines():
            message = json.loads(text)
            self.received.append(message)
            results = {"initialize": {"protocolVersion": self.version}, "session/new": {"sessionId": "s"}}
            result = results.get(message.get("method"))
            if result is not None and not self.mute:
                self.say({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def say(self, message: object) -> None:
        assert self.client is not None
        self.client.protocol.dataReceived(line(message))

    def hang_up(self) -> None:
        """End the connection from this side."""
        assert self.client is not None
        self.client.lose()


class FakeClientSide(StringTransport):
    """
    The client's end of a connection to a L{ScriptedPeer}; what is written reaches it at once.

    @ivar slow: whether the connection outlives its closing until L{lose}.
    """

    def __init__(self, protocol: IProtocol, peer: ScriptedPeer, slow: bool) -> None:
        super().__init__()
        self.protocol = protocol
        self.peer = peer
        self.slow = slow
        self.lost = False
        self.closing = False

    def write(self, data: bytes) -> None:
        self.peer.take(data)

    def loseConnection(self) -> None:
        self.closing = True
        if not self.slow:
            self.lose()

    def lose(self) -> None:
        if not self.lost:
            self.lost = True
            self.protocol.connectionLost(Failure(ConnectionDone()))


@implementer(IStreamClientEndpoint)
class FakeClientEndpoint:
    """
    Each connect takes the next of its outcomes: a L{ScriptedPeer}, an exception, or a Deferred of a peer.  Without any
    left, it refuses.

    @ivar sides: our ends of the connections that were made.
    """

    def __init__(self, *outcomes: ScriptedPeer | Exception | Deferred[ScriptedPeer], slow: bool = False) -> None:
        self.outcomes = list(outcomes)
        self.attempts = 0
        self.slow = slow
        self.sides: list[FakeClientSide] = []

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        self.attempts += 1
        outcome = self.outcomes.pop(0) if self.outcomes else ConnectionRefusedError()

        def start() -> Any:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        def made(peer: ScriptedPeer) -> IProtocol:
            protocol = cast(IProtocol, protocolFactory.buildProtocol(ADDRESS))
            side = peer.client = FakeClientSide(protocol, peer, self.slow)
            self.sides.append(side)
            protocol.makeConnection(side)
            return protocol

        return maybeDeferred(start).addCallback(made)


def verify_fakes() -> None:
    """Every fake keeps to its interface."""
    verifyObject(IListeningPort, FakePort())
    verifyObject(IStreamServerEndpoint, FakeServerEndpoint())
    verifyObject(IMessageReceiver, FakeReceiver())
    verifyObject(IMessageReceiverFactory, FakeAgent())
    verifyObject(IStreamClientEndpoint, FakeClientEndpoint())
