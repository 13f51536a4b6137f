"""
An agent that does what real ones were seen to do, and what the protocol allows, or nearly.

L{HABITS} has them all.  Standard library only.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from interop.line_agent import SESSION, Json, LineAgent

HABITS: dict[str, type[LineAgent]] = {}


class Talkative(LineAgent, registry=HABITS):
    """Speaks of the session before it is told, after the answer, and between turns (isaac, vibe, codex, claude, pi)."""

    def session_new(self) -> None:
        self.update({"sessionUpdate": "available_commands_update", "availableCommands": []})
        self.send({"jsonrpc": "2.0", "method": "_vendor/ready", "params": {"a": 1}})
        super().session_new()
        self.update({"sessionUpdate": "usage_update", "used": 1, "size": 2})

    def session_prompt(self) -> None:
        self.say("during")
        self.end()
        self.update({"sessionUpdate": "session_info_update", "title": "after"})


class Uuids(LineAgent, registry=HABITS):
    """Its requests have strings for ids, our own number, and 0, all at once; its keys come in another order (codex)."""

    def session_prompt(self) -> None:
        self.prompt_id = self.last["id"]
        self.open: list[object] = ["0d3bc2f8-7a7e-4e2a-9a43-1c1d7c9f2a10", self.prompt_id, 0]
        path = str(Path.cwd() / "notes.txt")
        for number in self.open:
            params = {"path": path, "sessionId": SESSION}
            self.send({"params": params, "method": "fs/read_text_file", "id": number, "jsonrpc": "2.0"})

    def answered(self, message: Json) -> None:
        self.open.remove(message["id"])
        self.say(json.dumps([message["id"], message["result"]["content"]]))
        if not self.open:
            self.send({"result": {"stopReason": "end_turn"}, "jsonrpc": "2.0", "id": self.prompt_id})


class EmptyResults(LineAgent, registry=HABITS):
    """Answers with an object of nothing."""

    NOTHING: object = {}

    def hello(self) -> Json:
        return {**super().hello(), "authMethods": [{"id": "key", "name": "Key", "description": None}]}

    def authenticate(self) -> None:
        self.answer(self.NOTHING)

    session_set_mode = session_close = session_load = session_resume = logout = authenticate


class NullResults(EmptyResults, registry=HABITS):
    """Answers with null."""

    NOTHING = None


class Terse(LineAgent, registry=HABITS):
    """Says of itself no more than it must, and a few things that nobody knows."""

    def hello(self) -> Json:
        return {"protocolVersion": 1, "field_meta": None, "_meta": None, "zzz": {"a": [1]}}

    def session_new(self) -> None:
        models = {"availableModels": [{"modelId": "m", "name": "M"}], "currentModelId": "m"}
        self.answer({"sessionId": SESSION, "models": models, "modes": None, "configOptions": None, "field_meta": None})


class Vendor(LineAgent, registry=HABITS):
    """Has methods of its own, without an underscore (qwen)."""

    def session_prompt(self) -> None:
        self.prompt_id = self.last["id"]
        self.send({"jsonrpc": "2.0", "method": "vendor/note", "params": {"a": 1}})
        self.send({"jsonrpc": "2.0", "method": "$/vendor", "params": [1]})
        self.send({"jsonrpc": "2.0", "id": "v", "method": "vendor/ask"})

    def answered(self, message: Json) -> None:
        self.say(json.dumps(message["error"]["code"]))
        self.send({"jsonrpc": "2.0", "id": self.prompt_id, "result": {"stopReason": "end_turn"}})


UPDATES: list[Json] = [
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}, "messageId": "m1"},
    {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "b", "annotations": None}},
    {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "c"}},
    {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x"},
    {"sessionUpdate": "tool_call_update", "toolCallId": "t", "_meta": {"only": "this"}},
    {"sessionUpdate": "plan", "entries": [{"content": "x", "priority": "low", "status": "pending"}]},
    {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "a", "description": "b"}]},
    {"sessionUpdate": "current_mode_update", "currentModeId": "m"},
    {"sessionUpdate": "config_option_update", "configOptions": []},
    {"sessionUpdate": "session_info_update", "title": None},
    {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.1, "currency": "USD"}},
]
"""Each kind that was seen on a real wire."""


class AllKinds(LineAgent, registry=HABITS):
    """Sends each kind of update."""

    def odd(self) -> None:
        for update in UPDATES:
            self.update(update)

    def end(self) -> None:
        self.answer({"stopReason": "end_turn", "usage": {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}})


class SlowToLeave(LineAgent, registry=HABITS):
    """Takes its time when its input ends, to write something down (codex-acp in TypeScript, qwen)."""

    def over(self) -> None:
        time.sleep(0.7)
        Path("left").write_text("in good order")


class Forgetful(LineAgent, registry=HABITS):
    """Starts a command, and when it is cancelled thinks of it no more (fast-agent)."""

    def session_prompt(self) -> None:
        self.prompt_id = self.last["id"]
        params = {"sessionId": SESSION, "command": "sleep", "args": ["600"]}
        self.send({"jsonrpc": "2.0", "id": "create", "method": "terminal/create", "params": params})

    def answered(self, message: Json) -> None:
        if message["id"] == "create":
            params = {"sessionId": SESSION, **message["result"]}
            self.send({"jsonrpc": "2.0", "id": "wait", "method": "terminal/wait_for_exit", "params": params})

    def session_cancel(self) -> None:
        self.send({"jsonrpc": "2.0", "id": self.prompt_id, "result": {"stopReason": "cancelled"}})


class Noisy(LineAgent, registry=HABITS):
    """Prints what it likes among its messages (kimi, many others), and errors for no request."""

    def odd(self) -> None:
        self.line("> tool output")
        self.line("\u001b[32mgreen\u001b[0m")
        self.line("[1, 2")
        self.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})

    def answered(self, message: Json) -> None:
        Path("answered").write_text(json.dumps(message))
