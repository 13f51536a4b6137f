"""
The scripted agent in memory, spoken to in raw JSON.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.task import Clock
from twisted.python.failure import Failure
from wire import RecordingTransport

from acp_twisted import AcpAgent
from acp_twisted.testing.scripted_agent import build_agent

CAPABLE = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class Scripted:
    """
    One connection to the scripted agent, initialized, with one session.

    @ivar session: the session's id.
    """

    def __init__(self, agent: AcpAgent | None = None, **options: float) -> None:
        self.clock = Clock()
        self.agent = agent or build_agent(**options)
        self.transport = RecordingTransport()
        self.receiver = self.agent.build_receiver(self.clock)
        self.receiver.connection_made(self.transport)
        self._last_id = 0
        self.initialized = self.result(self.send("initialize", {"protocolVersion": 1, "clientCapabilities": CAPABLE}))
        self.session = self.new_session()

    def new_session(self, cwd: str = "/") -> str:
        """
        Open a session.
        """
        session: str = self.result(self.send("session/new", {"cwd": cwd, "mcpServers": []}))["sessionId"]
        return session

    # ---- what arrives at the agent

    def send(self, method: str, params: object) -> int:
        """
        A request.
        """
        self._last_id += 1
        self._arrive({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    def notify(self, method: str, params: object) -> None:
        """
        A notification.
        """
        self._arrive({"method": method, "params": params})

    def prompt(self, *texts: str, session: str | None = None) -> int:
        """
        A prompt of text blocks.
        """
        blocks = [{"type": "text", "text": text} for text in texts]
        return self.send("session/prompt", {"sessionId": session or self.session, "prompt": blocks})

    def cancel(self) -> None:
        """
        The turn is cancelled, by C{session/cancel}.
        """
        self.notify("session/cancel", {"sessionId": self.session})

    def cancel_request(self, request_id: int) -> None:
        """
        The request is cancelled, by C{$/cancel_request}.
        """
        self.notify("$/cancel_request", {"requestId": request_id})

    def reply(self, request: dict[str, Any], result: object) -> None:
        """
        The client answers one of the agent's requests.
        """
        self._arrive({"id": request["id"], "result": result})

    def refuse(self, request: dict[str, Any], code: int) -> None:
        """
        The client answers one with an error.
        """
        self._arrive({"id": request["id"], "error": {"code": code, "message": "no"}})

    def lose(self) -> None:
        """
        The link goes.
        """
        self.receiver.connection_lost(Failure(ConnectionResetError("gone")))

    def _arrive(self, message: dict[str, Any]) -> None:
        self.receiver.message_received(json.dumps({"jsonrpc": "2.0", **message}).encode())

    # ---- what the agent sent

    @property
    def sent(self) -> list[dict[str, Any]]:
        """
        Everything.
        """
        return self.transport.sent

    def answer(self, request_id: int) -> dict[str, Any] | None:
        """
        The one answer to a request, its envelope left out; L{None} while there is none.
        """
        answers = [each for each in self.sent if each.get("id") == request_id and "method" not in each]
        assert len(answers) <= 1, answers
        if not answers:
            return None
        return {name: value for name, value in answers[0].items() if name not in ("jsonrpc", "id")}

    def result(self, request_id: int) -> Any:
        """
        The result that a request was answered with.
        """
        answer = self.answer(request_id)
        assert answer is not None
        assert "result" in answer, answer
        return answer["result"]

    @property
    def said(self) -> list[str]:
        """
        The texts of the message chunks, in order.
        """
        updates = [each["params"]["update"] for each in self.sent if each.get("method") == "session/update"]
        return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]

    def asked(self, method: str) -> list[dict[str, Any]]:
        """
        The agent's requests and notifications of one method, in order.
        """
        return [each for each in self.sent if each.get("method") == method]

    def idle(self) -> bool:
        """
        Whether no timer is left.
        """
        return not self.clock.getDelayedCalls()


END_TURN = {"result": {"stopReason": "end_turn"}}
CANCELLED = {"result": {"stopReason": "cancelled"}}
REQUEST_CANCELLED = {"error": {"code": -32800, "message": "Request cancelled"}}
INTERNAL_ERROR = {"error": {"code": -32603, "message": "Internal error"}}


def cancelled(**meta: object) -> dict[str, Any]:
    """
    The answer to a cancelled turn, with C{_meta}.
    """
    return {"result": {"stopReason": "cancelled", "_meta": meta}}
