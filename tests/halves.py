"""
One real half on a memory link, and on its other end somebody who speaks JSON and does what a test wants.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted import AcpAgent, AcpClient
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.session import ClientSession
from acp_twisted.connection import Connection
from acp_twisted.interfaces import IMessageReceiver, IMessageTransport
from acp_twisted.transports.memory import MemoryLink

CLIENT_CAPABILITIES: dict[str, Any] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}, "url": {}},
}
"""What the other end of an agent offers unless a test says otherwise."""

AGENT_CAPABILITIES: dict[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
    "auth": {"logout": {}},
}
"""What the other end of a client offers unless a test says otherwise."""


@implementer(IMessageReceiver)
class Raw:
    """
    The other end.

    @ivar received: the messages that came, decoded.
    @ivar lost: whether the link is gone.
    """

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.lost = False
        self.transport: IMessageTransport | None = None

    def connection_made(self, transport: IMessageTransport) -> None:
        self.transport = transport

    def message_received(self, message: bytes) -> None:
        self.received.append(json.loads(message))

    def oversized_received(self, head: bytes, size: int, tail: bytes = b"") -> None:
        raise AssertionError("too large")

    def remainder_received(self, message: bytes) -> None:
        raise AssertionError("half a message")

    def input_ended(self) -> None:
        pass

    def connection_lost(self, reason: Failure) -> None:
        self.lost = True

    def writing_paused(self) -> None:
        pass

    def writing_resumed(self) -> None:
        pass

    def shutdown(self) -> Deferred[None]:
        return succeed(None)


class Half:
    """
    A half and its other end.  Everything is delivered at once.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self.clock = clock
        self.raw = Raw()
        self.link = MemoryLink(connection.peer, self.raw, clock)

    def send(self, *messages: dict[str, Any]) -> None:
        """The other end says something: all of it is on its way before any of it arrives."""
        self.link.auto = False
        for message in messages:
            self.link.b.send(json.dumps({"jsonrpc": "2.0", **message}).encode())
        self.link.auto = True
        self.link.deliver_all()

    @property
    def received(self) -> list[dict[str, Any]]:
        """What the half has sent."""
        return self.raw.received

    def take(self) -> list[dict[str, Any]]:
        """What the half has sent since the last time, without its C{jsonrpc}."""
        taken = [{name: each[name] for name in each if name != "jsonrpc"} for each in self.raw.received]
        self.raw.received.clear()
        return taken

    def lose(self) -> None:
        """The link breaks."""
        self.link.b.abort("gone")


class AgentHalf(Half):
    """
    An agent, initialized, with the session C{s1}.
    """

    def __init__(self, agent: AcpAgent, *, opened: bool = True, capabilities: dict[str, Any] | None = None) -> None:
        clock = Clock()
        self.connection: AgentConnection = agent.connect(clock)
        super().__init__(self.connection, clock)
        if opened:
            params = {
                "protocolVersion": 1,
                "clientCapabilities": CLIENT_CAPABILITIES if capabilities is None else capabilities,
            }
            self.send({"id": "i", "method": "initialize", "params": params})
            self.send({"id": "n", "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}})
            assert [each["id"] for each in self.take()] == ["i", "n"]

    def prompt(self, number: Any = 5, session: str = "s1") -> None:
        """P(n,s)."""
        self.send(prompt(number, session))

    def cancel(self, session: str = "s1") -> None:
        """C(s)."""
        self.send(cancel(session))

    def cancel_request(self, number: Any = 5) -> None:
        """X(n)."""
        self.send(cancel_request(number))

    def answers(self, number: Any = 5) -> list[dict[str, Any]]:
        """The answers to a request so far, without the envelope."""
        return [
            {name: each[name] for name in each if name not in ("jsonrpc", "id")}
            for each in self.received
            if "method" not in each and each["id"] == number
        ]


class ClientHalf(Half):
    """
    A client, initialized, with the session C{s1}.
    """

    def __init__(self, client: AcpClient, *, opened: bool = True, capabilities: dict[str, Any] | None = None) -> None:
        clock = Clock()
        self.connection: ClientConnection = client.connection(clock)
        super().__init__(self.connection, clock)
        if opened:
            self.connection.initialize()
            offered = AGENT_CAPABILITIES if capabilities is None else capabilities
            self.send({"id": self.last_id(), "result": {"protocolVersion": 1, "agentCapabilities": offered}})
            opening = self.connection.new_session("/w")
            self.send({"id": self.last_id(), "result": {"sessionId": "s1"}})
            assert isinstance(opening.result, ClientSession)
            self.session = opening.result
            self.take()

    def last_id(self) -> Any:
        """The id of the client's last request."""
        return [each["id"] for each in self.received if "method" in each and "id" in each][-1]

    def update(self, text: str, session: str = "s1") -> None:
        """U(s,t)."""
        self.send(update(text, session))

    def methods(self) -> list[str | None]:
        """What the client has sent since the last C{take}, by method; L{None} is an answer."""
        return [each.get("method") for each in self.received]


def prompt(number: Any = 5, session: str = "s1") -> dict[str, Any]:
    """P(n,s)."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
    return {"id": number, "method": "session/prompt", "params": params}


def cancel(session: str = "s1") -> dict[str, Any]:
    """C(s)."""
    return {"method": "session/cancel", "params": {"sessionId": session}}


def cancel_request(number: Any = 5) -> dict[str, Any]:
    """X(n)."""
    return {"method": "$/cancel_request", "params": {"requestId": number}}


def update(text: str, session: str = "s1") -> dict[str, Any]:
    """U(s,t)."""
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"method": "session/update", "params": {"sessionId": session, "update": chunk}}


def permission(number: Any = 7, session: str = "s1") -> dict[str, Any]:
    """Q(n,s)."""
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": session, "toolCall": {"toolCallId": "t1"}, "options": options}
    return {"id": number, "method": "session/request_permission", "params": params}
