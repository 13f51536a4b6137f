"""
Our agent of version 2 on a memory link, and on its other end somebody who speaks JSON and does what a test wants.
"""

from __future__ import annotations

from typing import Any

from halves import Half
from twisted.internet.task import Clock

from acp_twisted import AcpAgent
from acp_twisted.agent.connection import AgentConnection as FirstConnection
from acp_twisted.agent.v2.agent import VersionedAgent, VersionedAgentBuilder
from acp_twisted.agent.v2.connection import AgentConnection
from acp_twisted.agent.v2.router import Negotiation

INFO = {"name": "raw", "version": "1"}
CLIENT_CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
"""What the other end offers unless a test says otherwise."""


def builder(handler: Any = None, *versions: int) -> VersionedAgentBuilder:
    """A builder of an agent of these versions, version 2 if none is named; without a handler it just ends its turns."""
    made = AcpAgent.builder().agent_info("a", "1").protocol_versions(*(versions or (2,)))
    return made.prompt_handler(handler or (lambda request: None))


def built(made: VersionedAgentBuilder) -> VersionedAgent:
    """What it builds."""
    agent = made.build()
    assert isinstance(agent, VersionedAgent)
    return agent


class UnagreedHalf(Half):
    """
    An agent that was asked nothing yet.
    """

    def __init__(self, made: VersionedAgentBuilder, clock: Clock | None = None) -> None:
        clock = Clock() if clock is None else clock
        self.negotiation: Negotiation = built(made).connect(clock)
        super().__init__(self.negotiation, clock)

    def initialize(self, version: int = 2, number: Any = "i", **params: Any) -> dict[str, Any]:
        """The client asks.  Returns what it is answered."""
        self.send({"id": number, "method": "initialize", "params": {"protocolVersion": version, **params}})
        [answer] = self.take()
        return answer

    @property
    def first(self) -> FirstConnection:
        """The connection, if it is one of version 1."""
        assert isinstance(self.negotiation.connection, FirstConnection)
        return self.negotiation.connection

    @property
    def second(self) -> AgentConnection:
        """The connection, if it is one of version 2."""
        assert isinstance(self.negotiation.connection, AgentConnection)
        return self.negotiation.connection


class AgentHalf(UnagreedHalf):
    """
    An agent of version 2, initialized, with the session C{s1}.
    """

    def __init__(
        self, made: VersionedAgentBuilder, *, capabilities: dict[str, Any] | None = None, clock: Clock | None = None
    ) -> None:
        super().__init__(made, clock)
        offered = CLIENT_CAPABILITIES if capabilities is None else capabilities
        answer = self.initialize(2, info=INFO, capabilities=offered)
        assert answer["result"]["protocolVersion"] == 2
        self.send({"id": "n", "method": "session/new", "params": {"cwd": "/w"}})
        [opened] = self.take()
        self.session_id: str = opened["result"]["sessionId"]

    def about(self, number: Any, method: str, **params: Any) -> None:
        """The client asks something about the session."""
        self.send({"id": number, "method": method, "params": {"sessionId": self.session_id, **params}})

    def prompt(self, number: Any = 5, text: str = "hi") -> None:
        """The client prompts."""
        self.about(number, "session/prompt", prompt=[{"type": "text", "text": text}])

    def cancel(self) -> None:
        """The client cancels the session's work."""
        self.notify("session/cancel", {"sessionId": self.session_id})

    def cancel_request(self, number: Any = 5) -> None:
        """The client cancels a request."""
        super().cancel_request(number)

    def said(self) -> list[str]:
        """What the agent has sent since the last time, in short."""
        return [_short(each) for each in self.take()]


def _short(message: dict[str, Any]) -> str:
    if "error" in message:
        return f"{message['id']}: {message['error']['code']}"
    if "result" in message:
        return f"{message['id']}: {'inserted' if 'messageId' in message['result'] else 'done'}"
    if message["method"] != "session/update":
        return str(message["method"])
    update = message["params"]["update"]
    kind = str(update["sessionUpdate"])
    if kind == "state_update":
        return " ".join(str(update[name]) for name in ("state", "stopReason") if name in update)
    content = update.get("content")
    detail = content.get("text") if isinstance(content, dict) else update.get("status")
    return kind if detail is None else f"{kind}: {detail}"
