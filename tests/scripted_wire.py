"""
The scripted agent in memory, spoken to in raw JSON.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock

from acp_twisted import AcpAgent, AgentConnection
from acp_twisted.testing import HalfOnWire
from acp_twisted.testing.scripted_agent import build_agent

CAPABLE = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class Scripted(HalfOnWire[AgentConnection]):
    """
    One connection to the scripted agent, initialized, with one session.

    @ivar session: the session's id.
    """

    def __init__(self, agent: AcpAgent | None = None, **options: Any) -> None:
        clock = Clock()
        self.agent = agent or build_agent(**options)
        super().__init__(self.agent.connect(clock), clock, name="agent")
        self.initialized = self.result(
            self.request("initialize", {"protocolVersion": 1, "clientCapabilities": CAPABLE})
        )
        self.session = self.new_session()

    def new_session(self, cwd: str = "/") -> str:
        """
        Open a session.
        """
        session: str = self.result(self.request("session/new", {"cwd": cwd, "mcpServers": []}))["sessionId"]
        return session

    # ---- what arrives at the agent

    def prompt(self, *texts: str, session: str | None = None) -> int:
        """
        A prompt of text blocks.
        """
        blocks = [{"type": "text", "text": text} for text in texts]
        number: int = self.request("session/prompt", {"sessionId": session or self.session, "prompt": blocks})
        return number

    def cancel(self) -> None:
        """
        The turn is cancelled, by C{session/cancel}.
        """
        self.notify("session/cancel", {"sessionId": self.session})

    def reply(self, request: dict[str, Any], result: object) -> None:
        """
        The client answers one of the agent's requests.
        """
        self.respond(result, request["id"])

    def reject(self, request: dict[str, Any], code: int) -> None:
        """
        The client answers one with an error.
        """
        self.refuse(code, number=request["id"])

    # ---- what the agent sent

    @property
    def sent(self) -> list[dict[str, Any]]:
        """
        Everything.
        """
        return self.received

    def answer(self, request_id: int) -> dict[str, Any] | None:
        """
        The one answer to a request, its envelope left out; L{None} while there is none.
        """
        return self.answer_to(request_id) if self.answers(request_id) else None

    def result(self, request_id: int) -> Any:
        """
        The result that a request was answered with.
        """
        answer = self.answer_to(request_id)
        assert "result" in answer, answer
        return answer["result"]

    @property
    def said(self) -> list[str]:
        """
        The texts of the message chunks, in order.
        """
        updates = [each["params"]["update"] for each in self.asked("session/update")]
        return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]


END_TURN = {"result": {"stopReason": "end_turn"}}
CANCELLED = {"result": {"stopReason": "cancelled"}}
REQUEST_CANCELLED = {"error": {"code": -32800, "message": "Request cancelled"}}
INTERNAL_ERROR = {"error": {"code": -32603, "message": "Internal error"}}


def cancelled(**meta: object) -> dict[str, Any]:
    """
    The answer to a cancelled turn, with C{_meta}.
    """
    return {"result": {"stopReason": "cancelled", "_meta": meta}}
