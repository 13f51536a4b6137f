"""
A client that is nothing but lines: it sends what a test says, and answers what a test says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred

from interop.programs import Outcome, Programs, until

Json = dict[str, Any]


class RawClient:
    """
    A conversation with an agent of ours, line by line.
    """

    def __init__(self, programs: Programs, reactor: Any, argv: Sequence[str], folder: Path) -> None:
        self._reactor = reactor
        self._text = ""
        self._folder = folder
        self.process, self.done = programs.start(argv, cwd=folder, stdin=None, on_stdout=self._keep)

    def _keep(self, text: str) -> None:
        self._text = text

    @property
    def messages(self) -> list[Json]:
        """
        What the agent has sent so far.
        """
        return [json.loads(line) for line in self._text.split("\n")[:-1]]

    def send(self, message: object) -> None:
        """
        Send a message, or a line as it is.
        """
        line = message if isinstance(message, str) else json.dumps(message)
        self.process.write(line.encode() + b"\n")

    def request(self, number: object, method: str, params: object = None) -> None:
        """
        Send a request.
        """
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})

    def notify(self, method: str, params: object = None) -> None:
        """
        Send a notification.
        """
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def find(self, condition: Callable[[Json], object]) -> Json:
        """
        Wait for the first message that fits.
        """
        await until(self._reactor, lambda: any(map(condition, self.messages)))
        return next(message for message in self.messages if condition(message))

    async def answer(self, number: object) -> Json:
        """
        Wait for the answer to a request; C{1} and C{"1"} are two.
        """
        wanted = json.dumps(number)
        return await self.find(lambda each: "method" not in each and json.dumps(each["id"]) == wanted)

    async def asked(self, method: str) -> Json:
        """
        Wait for a request of the agent's.
        """
        return await self.find(lambda each: each.get("method") == method and "id" in each)

    def reply(self, asked: Json, **members: object) -> None:
        """
        Answer a request of the agent's.
        """
        self.send({"jsonrpc": "2.0", "id": asked["id"], **members})

    async def begin(self, initialize: Json | None = None) -> str:
        """
        C{initialize} as request C{0} and C{session/new} as C{"new"}; the session's id.
        """
        capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
        self.request(0, "initialize", initialize or {"protocolVersion": 1, "clientCapabilities": capabilities})
        assert (await self.answer(0))["result"]["protocolVersion"] == 1
        self.request("new", "session/new", {"cwd": str(self._folder), "mcpServers": []})
        session_id = (await self.answer("new"))["result"]["sessionId"]
        assert isinstance(session_id, str)
        return session_id

    def prompt(self, number: object, session_id: str, text: str) -> None:
        """
        Send a prompt.
        """
        self.request(number, "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]})

    def words(self) -> list[str]:
        """
        What the agent has said so far.
        """
        updates = [each["params"]["update"] for each in self.messages if each.get("method") == "session/update"]
        return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]

    def hang_up(self) -> Deferred[Outcome]:
        """
        Close the agent's input.

        @return: how it ended.
        """
        self.process.closeStdin()
        return self.done
