"""
What passed between a client of somebody else and our agent, and the rules that it has to keep.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from attrs import frozen
from jsonschema import Draft202012Validator
from peers import peer

Json = dict[str, Any]


@frozen
class Wire:
    """
    One recorded conversation.

    @ivar sent: the lines of each side, in order, as C{("client" | "agent", text)}.
    @ivar exit_code: how the agent exited; L{None} when it was killed together with the tap.
    """

    sent: tuple[tuple[str, str], ...]
    exit_code: int | None

    def messages(self, side: str) -> list[Json]:
        """
        The JSON objects that one side sent.
        """
        found: list[Json] = []
        for name, text in self.sent:
            if name == side and text.strip():
                try:
                    message = json.loads(text)
                except ValueError:
                    continue
                if isinstance(message, dict):
                    found.append(message)
        return found

    def requests(self, side: str) -> list[Json]:
        """
        Those of its messages that want an answer.
        """
        return [message for message in self.messages(side) if "method" in message and "id" in message]

    def answers(self, side: str) -> list[Json]:
        """
        Those of its messages that are answers.
        """
        return [message for message in self.messages(side) if "method" not in message]

    def methods(self, side: str) -> list[str]:
        """
        The methods of its requests and notifications.
        """
        return [message["method"] for message in self.messages(side) if "method" in message]

    def updates(self) -> list[Json]:
        """
        The agent's updates, in order.
        """
        return [each["params"]["update"] for each in self.messages("agent") if each.get("method") == "session/update"]

    def texts(self) -> list[str]:
        """
        What the agent said, chunk by chunk.
        """
        chunks = [each for each in self.updates() if each["sessionUpdate"] == "agent_message_chunk"]
        return [each["content"]["text"] for each in chunks]

    def assert_sound(self) -> None:
        """
        Rule 1 and the protocol's schema: each of the client's requests has exactly one answer, each line of the agent
        is a JSON object with no stray output between, and whatever it holds is valid.
        """
        for name, text in self.sent:
            if name == "agent" and text:
                assert text.endswith("\n"), f"an unfinished line: {text!r}"
                assert isinstance(json.loads(text), dict), f"no object: {text!r}"
        asked = Counter(_key(message["id"]) for message in self.requests("client"))
        answered = Counter(_key(message["id"]) for message in self.answers("agent") if message["id"] is not None)
        assert answered == asked, self.explain()
        assert list(self.problems()) == []

    def explain(self) -> str:
        """
        The end of the conversation, for the message of an assertion.
        """
        return "\n".join(f"{name}: {text[:300].rstrip()}" for name, text in self.sent[-20:])

    def problems(self) -> Iterator[str]:
        """
        What of the agent's messages is not valid by the schema that the TypeScript SDK carries.
        """
        methods = {_key(message["id"]): message["method"] for message in self.requests("client")}
        for message in self.messages("agent"):
            assert message["jsonrpc"] == "2.0"
            if "method" in message:
                kind, body = params_kind(message["method"]), message.get("params")
            elif "result" in message:
                kind, body = result_kind(methods[_key(message["id"])]), message["result"]
            else:
                kind, body = "Error", message["error"]
            if kind is not None:
                yield from (f"{kind}: {error.message}: {body}" for error in validator(kind).iter_errors(body))


def _key(value: object) -> str:
    return json.dumps(value)


def tapped(path: Path, argv: Sequence[str], mend: tuple[str, str] | None = None) -> list[str]:
    """
    The command line of an agent behind the tap.

    @param mend: a text to replace in what the client says, and by what.
    """
    options = () if mend is None else ("--mend", *mend)
    return [sys.executable, str(Path(__file__).with_name("wiretap.py")), str(path), *options, *argv]


def recorded(path: Path) -> Wire:
    """
    What the tap has written.
    """
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    sent = tuple((entry["from"], entry["line"]) for entry in entries if entry["from"] != "end")
    codes = [entry["code"] for entry in entries if entry["from"] == "end"]
    return Wire(sent, codes[0] if codes else None)


@cache
def schema() -> Json:
    """
    The schema of version 1 as an SDK of somebody else ships it.
    """
    path = peer("ts24").package("@agentclientprotocol/sdk") / "schema" / "v1" / "schema.unstable.json"
    loaded: Json = json.loads(path.read_text(encoding="utf-8"))
    return loaded


@cache
def validator(kind: str) -> Draft202012Validator:
    """
    What checks a value against one definition of the schema.
    """
    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema()["$defs"]})


def params_kind(method: str) -> str | None:
    """
    The definition of a method's params; L{None} for an extension.
    """
    return _kind(method, ("Request", "Notification"))


def result_kind(method: str) -> str | None:
    """
    The definition of a method's result; L{None} for an extension.
    """
    return _kind(method, ("Response",))


@cache
def _kind(method: str, endings: tuple[str, ...]) -> str | None:
    for name, definition in schema()["$defs"].items():
        if definition.get("x-method") == method and name.endswith(endings):
            return str(name)
    return None
