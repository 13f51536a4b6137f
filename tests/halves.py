"""
One real half on a memory link, and on its other end somebody who speaks JSON and does what a test wants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock

from acp_twisted import AcpAgent, AcpClient
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.session import ClientSession
from acp_twisted.testing import HalfOnWire
from acp_twisted.testing import WireEnd as Raw

__all__ = ["AgentHalf", "ClientHalf", "Half", "Raw", "cancel", "cancel_request", "permission", "prompt", "update"]

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


class Half(HalfOnWire[Any]):
    """
    A half and its other end.  Everything is delivered at once.
    """

    @property
    def raw(self) -> Raw:
        """The other end."""
        return self.end

    def at_once(self, method: str, then: Callable[[], object]) -> None:
        """Do C{then} from inside the delivery of the first message with this method."""
        keep, due = self.end.message_received, [then]

        def came(message: bytes) -> None:
            keep(message)
            if due and self.end.received[-1].get("method") == method:
                due.pop()()

        self.end.message_received = came  # type: ignore[method-assign]


class AgentHalf(Half):
    """
    An agent, initialized, with the session C{s1}.
    """

    connection: AgentConnection

    def __init__(self, agent: AcpAgent, *, opened: bool = True, capabilities: dict[str, Any] | None = None) -> None:
        clock = Clock()
        super().__init__(agent.connect(clock), clock)
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
        return super().answers(number)


class ClientHalf(Half):
    """
    A client, initialized, with the session C{s1}.
    """

    connection: ClientConnection

    def __init__(self, client: AcpClient, *, opened: bool = True, capabilities: dict[str, Any] | None = None) -> None:
        clock = Clock()
        super().__init__(client.connection(clock), clock)
        if opened:
            self.connection.initialize()
            offered = AGENT_CAPABILITIES if capabilities is None else capabilities
            self.send({"id": self.last_id(), "result": {"protocolVersion": 1, "agentCapabilities": offered}})
            opening = self.connection.new_session("/w")
            self.send({"id": self.last_id(), "result": {"sessionId": "s1"}})
            assert isinstance(opening.result, ClientSession)
            self.session = opening.result
            self.take()

    def update(self, text: str, session: str = "s1") -> None:
        """U(s,t)."""
        self.send(update(text, session))


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
