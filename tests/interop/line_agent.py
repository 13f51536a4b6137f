"""
An agent that is nothing but lines, for agents with odd habits or faults.  Standard library only.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]
SESSION = "s1"

_RUN = """\
import sys
sys.path.insert(0, sys.argv[1])
from importlib import import_module
getattr(import_module(sys.argv[2]), sys.argv[3])[sys.argv[4]]().serve()
"""


def line_agent_command(module: str, registry: str, name: str) -> list[str]:
    """
    The command line of such an agent.
    """
    folder = str(Path(__file__).resolve().parent.parent)
    return [sys.executable, "-S", "-c", _RUN, folder, f"interop.{module}", registry, name]


class LineAgent:
    """
    The agent.  A subclass overrides the one thing that it does differently.

    A subclass names the C{registry} in which tests find it, by its own name in lower case with dashes.
    """

    def __init_subclass__(cls, registry: dict[str, type[LineAgent]] | None = None) -> None:
        if registry is not None:
            registry[re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", "-", cls.__name__).lower()] = cls

    def __init__(self) -> None:
        self.last: Json = {}

    # ---- what a fault may replace

    def start(self) -> None:
        """
        Before anything is read.
        """

    def initialize(self) -> None:
        self.answer(self.hello())

    def hello(self) -> Json:
        return {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}

    def session_new(self) -> None:
        self.answer({"sessionId": SESSION})

    def session_prompt(self) -> None:
        self.odd()
        self.say("fine")
        self.end()

    def odd(self) -> None:
        """
        What comes before the chunk and the answer.
        """

    def end(self) -> None:
        self.answer({"stopReason": "end_turn"})

    def answered(self, message: Json) -> None:
        """
        An answer of the client's.
        """

    def over(self) -> None:
        """
        The input ended.
        """

    # ---- what a fault may use

    def line(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def send(self, message: object) -> None:
        self.line(json.dumps(message))

    def answer(self, result: object, **members: object) -> None:
        self.send({"jsonrpc": "2.0", "id": self.last["id"], "result": result, **members})

    def refuse(self, error: object) -> None:
        self.send({"jsonrpc": "2.0", "id": self.last["id"], "error": error})

    def update(self, update: Json, session_id: str = SESSION) -> None:
        self.send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session_id, "update": update}})

    def say(self, text: str) -> None:
        self.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})

    # ---- the loop

    def serve(self) -> None:
        """
        Read to the end; what there is no method for is refused, or as a notification ignored.
        """
        self.start()
        for line in sys.stdin:
            self.last = json.loads(line)
            method = self.last.get("method")
            if method is None:
                self.answered(self.last)
            elif method == "session/prompt" and self.last["params"]["prompt"][0]["text"] == "again":
                self.say("fine")
                LineAgent.end(self)
            elif hasattr(self, name := method.replace("/", "_")):
                getattr(self, name)()
            elif "id" in self.last:
                self.refuse({"code": -32601, "message": "Method not found"})
        self.over()
