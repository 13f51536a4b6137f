"""
An agent that is wrong in one way, for our client to bear.

L{FAULTS} has them all.  But for its fault it answers C{initialize} and C{session/new}, and a prompt with one chunk
"fine" and C{end_turn}; the prompt "again" is always answered well, so that a test can see whether the link still works.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from interop.line_agent import Json, LineAgent

FAULTS: dict[str, type[LineAgent]] = {}


class Agent(LineAgent):
    """
    What the faults have in common.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__(registry=FAULTS)


# ---- at the start


class Kimi(Agent):
    """A program that is no agent at all: it says a sentence and is content."""

    def start(self) -> None:
        self.line("This command was archived; install the other one.")
        sys.exit(0)


class Traceback(Agent):
    """Fails at its own start-up."""

    def start(self) -> None:
        raise RuntimeError("no such model")


class Banner(Agent):
    """Prints before it speaks, and between."""

    def start(self) -> None:
        self.line("Welcome to the agent!")
        self.line("")
        self.line("[info] 3 tools loaded")

    def odd(self) -> None:
        self.line("[debug] thinking")


class NeverInitializes(Agent):
    """Reads, and never answers."""

    def initialize(self) -> None:
        """No answer."""


class InitializeError(Agent):
    """Refuses to begin."""

    def initialize(self) -> None:
        self.refuse({"code": -32603, "message": "no license", "data": {"why": "expired"}})


class WrongVersion(Agent):
    """Wants another version."""

    def hello(self) -> Json:
        return {"protocolVersion": 2, "agentCapabilities": {}}


class VersionString(Agent):
    """Its version is a string."""

    def hello(self) -> Json:
        return {"protocolVersion": "1", "agentCapabilities": {}}


class VersionMissing(Agent):
    """It names no version."""

    def hello(self) -> Json:
        return {"agentCapabilities": {}}


class OddCapabilities(Agent):
    """Everything that may be left out is null or of a wrong kind."""

    def hello(self) -> Json:
        return {
            "protocolVersion": 1,
            "agentCapabilities": {"promptCapabilities": "all", "loadSession": "yes", "mcpCapabilities": None},
            "authMethods": None,
            "agentInfo": None,
            "field_meta": None,
        }


class ResultIsArray(Agent):
    """Its answer to initialize is an array."""

    def initialize(self) -> None:
        self.answer([self.hello()])


class FloodsStderr(Agent):
    """Writes more to its standard error than a pipe holds before it answers."""

    def initialize(self) -> None:
        sys.stderr.write("".join(f"line {n} {'e' * 90}\n" for n in range(20_000)))
        sys.stderr.flush()
        super().initialize()


class DiesAfterInitialize(Agent):
    """Answers once and is gone."""

    def initialize(self) -> None:
        super().initialize()
        os._exit(7)


# ---- session/new


class SessionIdMissing(Agent):
    """A session without a name."""

    def session_new(self) -> None:
        self.answer({})


class SessionNull(Agent):
    """Null for a session."""

    def session_new(self) -> None:
        self.answer(None)


class EarlyUpdates(Agent):
    """Speaks of the session before it has told its id."""

    def session_new(self) -> None:
        self.update({"sessionUpdate": "available_commands_update", "availableCommands": []})
        self.send({"jsonrpc": "2.0", "method": "_vendor/ready", "params": {"a": 1}})
        super().session_new()


# ---- updates


def _odd_update(name: str, update: Json) -> None:
    def odd(self: Agent) -> None:
        self.update(update)

    type(name, (Agent,), {"odd": odd})


_odd_update("chunk-without-text", {"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}})
_odd_update("tool-call-without-title", {"sessionUpdate": "tool_call", "toolCallId": "t"})
_odd_update("snake-case-tag", {"session_update": "agent_message_chunk", "content": {"type": "text", "text": "x"}})
_odd_update("tag-is-number", {"sessionUpdate": 7})
_odd_update("unknown-kind", {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "kind": "zzz"})
_odd_update("unknown-status", {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "status": "zzz"})
_odd_update("plan-entry-without-priority", {"sessionUpdate": "plan", "entries": [{"content": "x"}]})
_odd_update("unknown-update", {"sessionUpdate": "zzz_future_update", "foo": 1})
_odd_update("vendor-update", {"sessionUpdate": "_vendor_update", "foo": 1})
_odd_update("only-meta", {"sessionUpdate": "tool_call_update", "toolCallId": "t", "_meta": {"a": 1}})
_odd_update(
    "extra-members",
    {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "x", "zzz": 1, "annotations": None},
        "yyy": 2,
        "field_meta": None,
        "_meta": {"a": 1},
    },
)
_odd_update("big-line", {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x" * 3_000_000}})


class OtherSession(Agent):
    """An update for a session that nobody opened."""

    def odd(self) -> None:
        self.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "theirs"}}, "OTHER")


class UpdateWithoutParams(Agent):
    """An update of nothing."""

    def odd(self) -> None:
        self.send({"jsonrpc": "2.0", "method": "session/update"})


# ---- lines


def _odd_line(name: str, data: bytes) -> None:
    def odd(self: Agent) -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    type(name, (Agent,), {"odd": odd})


_odd_line("garbage-line", b"garbage\n")
_odd_line("not-utf8", b'{"jsonrpc":"2.0","method":"x","params":{"a":"\xff\xfe"}}\n')
_odd_line("null-id-error", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n')
_odd_line("batch", b'[{"jsonrpc":"2.0","method":"_x","params":{}}]\n')
_odd_line("json-string", b'"hello"\n')
_odd_line("deep-nesting", b'{"jsonrpc":"2.0","method":"_x","params":' + b"[" * 10_000 + b"]" * 10_000 + b"}\n")
_odd_line("nan", b'{"jsonrpc":"2.0","method":"_x","params":{"a":NaN}}\n')
_odd_line("unknown-response", b'{"jsonrpc":"2.0","id":4711,"result":{}}\n')
_odd_line("empty-object", b"{}\n")
_odd_line("cr-lf", b'\r\n{"jsonrpc":"2.0","method":"_x"}\r\n\r\n')
_odd_line("unknown-notification", b'{"jsonrpc":"2.0","method":"vendor/note","params":{}}\n')
_odd_line("dollar-notification", b'{"jsonrpc":"2.0","method":"$/progress","params":{}}\n')


class NoJsonrpc(Agent):
    """Leaves the version of JSON-RPC out, everywhere."""

    def send(self, message: object) -> None:
        if isinstance(message, dict):
            message.pop("jsonrpc", None)
        super().send(message)


class ByteByByte(Agent):
    """Writes each line in pieces, also inside a character."""

    def line(self, text: str) -> None:
        sys.stdout.flush()
        data = text.replace("fine", "f\u00efne").encode() + b"\n"
        for start in range(0, len(data), 7):
            sys.stdout.buffer.write(data[start : start + 7])
            sys.stdout.buffer.flush()

    def send(self, message: object) -> None:
        self.line(json.dumps(message, ensure_ascii=False))


# ---- answers to the prompt


def _odd_end(name: str, result: object) -> None:
    def end(self: Agent) -> None:
        self.answer(result)

    type(name, (Agent,), {"end": end})


_odd_end("stop-reason-unknown", {"stopReason": "zzz"})
_odd_end("stop-reason-missing", {})
_odd_end("stop-reason-number", {"stopReason": 1})
_odd_end("prompt-null", None)
_odd_end("refusal", {"stopReason": "refusal", "usage": {"totalTokens": 1}, "zzz": 1})


class AnswersTwice(Agent):
    """The same answer twice."""

    def end(self) -> None:
        super().end()
        super().end()


class AnswersBeforeUpdates(Agent):
    """Says the last thing after the answer."""

    def session_prompt(self) -> None:
        self.end()
        self.say("late")


class IdAsString(Agent):
    """The id comes back as a string of the number."""

    def end(self) -> None:
        self.send({"jsonrpc": "2.0", "id": str(self.last["id"]), "result": {"stopReason": "end_turn"}})


class IdAsFloat(Agent):
    """The id comes back with a fraction of nothing."""

    def end(self) -> None:
        self.line(f'{{"jsonrpc":"2.0","id":{self.last["id"]}.0,"result":{{"stopReason":"end_turn"}}}}')


class ResultAndError(Agent):
    """Both."""

    def end(self) -> None:
        self.answer({"stopReason": "end_turn"}, error={"code": -32603, "message": "x"})


class ResultAndNullError(Agent):
    """A result, and an error that is null."""

    def end(self) -> None:
        self.answer({"stopReason": "end_turn"}, error=None)


class NoResultNoError(Agent):
    """Neither."""

    def end(self) -> None:
        self.send({"jsonrpc": "2.0", "id": self.last["id"]})


class ErrorIsString(Agent):
    """An error that is no object."""

    def end(self) -> None:
        self.refuse("it broke")


class ErrorWithoutCode(Agent):
    """An error that lacks its code."""

    def end(self) -> None:
        self.refuse({"message": "it broke"})


class ErrorCodeString(Agent):
    """An error whose code is a name."""

    def end(self) -> None:
        self.refuse({"code": "EIO", "message": "it broke"})


class NeverAnswers(Agent):
    """Takes the prompt, and takes no notice of anything."""

    def end(self) -> None:
        """No answer."""


# ---- requests of its own


class VendorRequest(Agent):
    """Asks for a method without an underscore that nobody has."""

    def odd(self) -> None:
        self.prompt_id = self.last["id"]
        self.send({"jsonrpc": "2.0", "id": "v", "method": "vendor/ask", "params": {}})

    def end(self) -> None:
        """Waits for the client's answer."""

    def answered(self, message: Json) -> None:
        self.say(json.dumps([message["id"], message["error"]["code"]]))
        self.send({"jsonrpc": "2.0", "id": self.prompt_id, "result": {"stopReason": "end_turn"}})


class SameIds(VendorRequest):
    """Its request has the id of ours, and is malformed besides."""

    def odd(self) -> None:
        self.prompt_id = self.last["id"]
        self.send({"jsonrpc": "2.0", "id": self.prompt_id, "method": "session/request_permission", "params": [1]})


class NullIdRequest(VendorRequest):
    """Its request has the id null, which version 1 allows."""

    def odd(self) -> None:
        self.prompt_id = self.last["id"]
        self.send({"jsonrpc": "2.0", "id": None, "method": "vendor/ask", "params": {}})


# ---- the end


class Dies(Agent):
    """Is gone in the middle of a turn."""

    def end(self) -> None:
        sys.stderr.write("out of memory\n")
        sys.stderr.flush()
        os._exit(3)


class Killed(Agent):
    """Is killed in the middle of a turn."""

    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class HalfLine(Agent):
    """Is gone in the middle of its answer."""

    def end(self) -> None:
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{self.last["id"]},"result":{{"stopRea')
        sys.stdout.flush()
        os._exit(0)


class NoLastNewline(Agent):
    """Its last answer lacks the newline."""

    def end(self) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": self.last["id"], "result": {"stopReason": "end_turn"}}))
        sys.stdout.flush()
        os._exit(0)


class ClosesStdout(Agent):
    """Closes its output, and lives."""

    def end(self) -> None:
        sys.stdout.flush()
        os.close(1)
        time.sleep(600)


class IgnoresEof(Agent):
    """Stays when its input ends."""

    def over(self) -> None:
        time.sleep(600)


class IgnoresSigterm(IgnoresEof):
    """Stays also when it is asked to go, and so does its child."""

    def start(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = os.fork()
        if not child:
            time.sleep(600)
            os._exit(0)
        self.child = child

    def session_prompt(self) -> None:
        self.say(f"{os.getpid()} {self.child}")
        self.end()


class ClosesStdin(Agent):
    """Stops to read, and lives."""

    def session_new(self) -> None:
        super().session_new()
        os.close(0)
        time.sleep(600)
