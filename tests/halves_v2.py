"""
Our client of version 2 on a memory link, and on its other end somebody who speaks JSON and does what a test wants.
"""

from __future__ import annotations

from typing import Any

from halves import Half
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from acp_twisted.client.connection import ClientConnection as FirstConnection
from acp_twisted.client.v2.client import VersionedClient
from acp_twisted.client.v2.connection import ClientConnection
from acp_twisted.client.v2.negotiation import Negotiation
from acp_twisted.client.v2.session import ClientSession

AGENT_CAPABILITIES: dict[str, Any] = {
    "session": {"prompt": {"image": {}}, "mcp": {"stdio": {}}, "delete": {}, "additionalDirectories": {}}
}
"""What the other end offers unless a test says otherwise."""


class UnagreedHalf(Half):
    """
    A client that has sent nothing yet.
    """

    def __init__(self, client: VersionedClient) -> None:
        clock = Clock()
        self.client = client
        self.negotiation: Negotiation = client.connection(clock)
        self.outcome: Any = None
        super().__init__(self.negotiation, clock)

    def initialize(self) -> Deferred[Any]:
        """The client asks; what comes of it is C{outcome}."""
        asked = self.negotiation.initialize()
        asked.addBoth(self._settled)
        return asked

    def _settled(self, outcome: Any) -> None:
        self.outcome = outcome

    def answer(self, result: Any) -> None:
        """The client's last request is answered."""
        self.respond(result)

    @property
    def first(self) -> FirstConnection:
        """The connection, if version 1 was agreed on."""
        assert isinstance(self.outcome, FirstConnection)
        return self.outcome

    @property
    def second(self) -> ClientConnection:
        """The connection, if version 2 was agreed on."""
        assert isinstance(self.outcome, ClientConnection)
        return self.outcome


class ClientHalf(UnagreedHalf):
    """
    A client of version 2, initialized, with the session C{s1}.
    """

    def __init__(self, client: VersionedClient, **more: Any) -> None:
        super().__init__(client)
        self.initialize()
        info = {"name": "raw", "version": "1"}
        self.answer({"protocolVersion": 2, "info": info, "capabilities": AGENT_CAPABILITIES, **more})
        opening = self.second.new_session("/w")
        self.answer({"sessionId": "s1"})
        assert isinstance(opening.result, ClientSession)
        self.session = opening.result
        self.take()

    def accept(self, number: Any, message_id: str = "m1") -> None:
        """A prompt is answered: its message is inserted."""
        self.respond({"messageId": message_id}, number)


class Watched:
    """
    What a Deferred came to.

    @ivar outcomes: each outcome; there should be one at most.
    """

    def __init__(self, deferred: Deferred[Any]) -> None:
        self.outcomes: list[Any] = []
        deferred.addBoth(self._keep)

    def _keep(self, outcome: Any) -> None:
        self.outcomes.append(outcome)

    @property
    def over(self) -> bool:
        """Whether it has fired."""
        return bool(self.outcomes)

    @property
    def value(self) -> Any:
        """What it fired with: an error as such."""
        [outcome] = self.outcomes
        return outcome.value if isinstance(outcome, Failure) else outcome


def update(kind: str, session: str = "s1", /, **members: Any) -> dict[str, Any]:
    """A C{session/update}."""
    return {
        "method": "session/update",
        "params": {"sessionId": session, "update": {"sessionUpdate": kind, **members}},
    }


def state(name: str, /, **members: Any) -> dict[str, Any]:
    """A C{state_update}."""
    return update("state_update", state=name, **members)


def idle(reason: str | None = None, **members: Any) -> dict[str, Any]:
    """The agent is idle."""
    return state("idle", **({} if reason is None else {"stopReason": reason}), **members)


RUNNING = state("running")


def said(text: str, name: str = "a") -> dict[str, Any]:
    """The agent says something."""
    return update("agent_message_chunk", messageId=name, content={"type": "text", "text": text})


def user(name: str = "m1") -> dict[str, Any]:
    """The agent reports the user's message."""
    return update("user_message", messageId=name, content=[{"type": "text", "text": "hi"}])


def permission(number: Any = 7, session: str = "s1", subject: Any = None) -> dict[str, Any]:
    """The agent asks for permission."""
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": session, "title": "May I?", "options": options}
    if subject is not None:
        params["subject"] = subject
    return {"id": number, "method": "session/request_permission", "params": params}


CANCELLED = {"outcome": {"outcome": "cancelled"}}
CANCEL = {"method": "session/cancel", "params": {"sessionId": "s1"}}
