"""
What the protocol's compatibility kit says that it looks at in an agent of version 2, looked at in ours: a program of
its own over pipes, a new one for each test, by somebody who speaks JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from raw_programs import SECONDS, Conversation, end

AGENT = Path(__file__).resolve().parent / "interop" / "v2_agent.py"
INFO = {"name": "kit", "version": "1"}
TEXT = [{"type": "text", "text": "hello"}]


class Kit(Conversation):
    """
    One agent.
    """

    def __init__(self, versions: str = "2") -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(AGENT), versions],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        super().__init__(self.process.stdin.write, self.process.stdout.fileno())

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """A request, and its answer without the envelope."""
        found = self.answer(self.send(method, params))
        return {name: found[name] for name in ("result", "error") if name in found}

    def about(self, method: str, **params: Any) -> dict[str, Any]:
        """The same for the session."""
        return self.ask(method, sessionId=self.session, **params)

    def code(self, method: str, **params: Any) -> int:
        """The code of the error that a request is answered with."""
        return int(self.ask(method, **params)["error"]["code"])

    def raw(self, line: bytes) -> dict[str, Any]:
        """A line as it is, and the next message."""
        self.write(line + b"\n")
        return self.read()

    def begin(self, version: int = 2, **capabilities: Any) -> None:
        """See L{Conversation}."""
        hello = self.ask("initialize", protocolVersion=version, info=INFO, capabilities=capabilities)
        assert hello["result"]["protocolVersion"] == version
        self.session = self.ask("session/new", cwd="/")["result"]["sessionId"]

    def until(self, kind: str, **members: Any) -> list[dict[str, Any]]:
        """The updates up to one of that kind with these members."""
        found: list[dict[str, Any]] = []
        while True:
            message = self.read()
            if message.get("method") == "session/update":
                update = message["params"]["update"]
                found.append(update)
                if update["sessionUpdate"] == kind and all(update.get(name) == each for name, each in members.items()):
                    return found

    def shutdown(self) -> tuple[int, list[bytes]]:
        """The end of its input: its exit status, and what it still said."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        rest = self.ended()
        return self.process.wait(SECONDS), rest


@pytest.fixture
def kit() -> Iterator[Kit]:
    """An agent, gone when the test is over."""
    kit = Kit()
    yield kit
    end(kit.process)


def summary(updates: list[dict[str, Any]]) -> list[str]:
    """Kinds, states and stop reasons."""
    return [each.get("stopReason") or each.get("state") or each["sessionUpdate"] for each in updates]


def test_initialize_and_versions(kit: Kit) -> None:
    """2.01, 2.07: version, info and capabilities; asked for 1, an agent of 2 alone answers -32022 and goes on."""
    error = kit.ask("initialize", protocolVersion=1, clientCapabilities={})["error"]
    assert (error["code"], error["data"]) == (-32022, {"requested": 1, "supported": [2]})
    result = kit.ask("initialize", protocolVersion=7, info=INFO)["result"]
    assert result["protocolVersion"] == 2
    assert result["info"]["name"] == "our-agent"
    assert isinstance(result["capabilities"]["session"], dict)


@pytest.mark.parametrize("params", [{}, {"protocolVersion": "2"}, {"protocolVersion": 2}, {"protocolVersion": -1}])
def test_a_bad_initialize(kit: Kit, params: dict[str, Any]) -> None:
    """-32602, and the client may try again."""
    assert kit.code("initialize", **params) == -32602
    kit.begin()


def test_before_initialize(kit: Kit) -> None:
    """2.07: every other request is -32600; notifications are ignored."""
    kit.notify("session/cancel", {"sessionId": "x"})
    for method in ("session/new", "session/prompt", "auth/login", "_custom"):
        assert kit.code(method) == -32600
    kit.begin()


def test_new_sessions(kit: Kit) -> None:
    """1.41, 1.47, 2.22: ids are unique; a relative directory and a server that can't be used are -32602."""
    kit.begin()
    ids = {kit.ask("session/new", cwd="/")["result"]["sessionId"] for _ in range(3)}
    assert len(ids | {kit.session}) == 4
    assert kit.code("session/new", cwd="relative") == -32602
    assert kit.code("session/new") == -32602
    server = {"type": "_odd", "name": "x"}
    assert kit.code("session/new", cwd="/", mcpServers=[server]) == -32602


def test_a_prompt_turn(kit: Kit) -> None:
    """2.30-2.33, 2.35: accepted with the message's id, shown, running, the answer, idle with its reason."""
    kit.begin()
    result = kit.about("session/prompt", prompt=TEXT)["result"]
    updates = kit.until("state_update", state="idle")
    assert summary(updates) == ["user_message", "running", "agent_message_chunk", "end_turn"]
    assert updates[0]["messageId"] == result["messageId"] != updates[2]["messageId"]
    assert updates[0]["content"] == TEXT


def test_cancelling(kit: Kit) -> None:
    """V2D5, V2D6: one idle with cancelled, after the last updates; nothing where nothing is at work."""
    kit.begin()
    kit.cancel()
    kit.about("session/prompt", prompt=[{"type": "text", "text": "slow"}])
    kit.until("agent_message_chunk")
    kit.cancel()
    kit.cancel()
    assert summary(kit.until("state_update"))[-1] == "cancelled"
    kit.about("session/prompt", prompt=TEXT)
    assert summary(kit.until("state_update", state="idle"))[-1] == "end_turn"


@pytest.mark.parametrize("kind", ["image", "audio", "resource", "_odd"])
def test_content_that_was_not_advertised(kit: Kit, kind: str) -> None:
    """1.111, 2.5: -32602, and nothing is inserted; a link always may be sent (2.05)."""
    kit.begin()
    resource = {"uri": "file:///x", "text": "x"}
    block = {"type": kind, "data": "", "mimeType": "image/png", "resource": resource}
    assert kit.about("session/prompt", prompt=[block])["error"]["code"] == -32602
    assert kit.about("session/prompt", prompt=[])["error"]["code"] == -32602
    link = {"type": "resource_link", "name": "x", "uri": "file:///x"}
    assert "messageId" in kit.about("session/prompt", prompt=[link])["result"]


@pytest.mark.parametrize(
    "outcome", [{"outcome": "selected", "optionId": "yes"}, {"outcome": "cancelled"}, {"outcome": "_odd"}]
)
def test_asking_for_permission(kit: Kit, outcome: dict[str, Any]) -> None:
    """2.42, 2.43, 2.34: the request fits the schema, the state says that the user is waited for, the work ends."""
    kit.begin()
    kit.send("session/prompt", {"sessionId": kit.session, "prompt": [{"type": "text", "text": "permission"}]})
    while (asked := kit.read()).get("method") != "session/request_permission":
        assert asked.get("method") in (None, "session/update")
    assert asked["params"]["title"]
    assert asked["params"]["options"]
    assert asked["params"]["sessionId"] == kit.session
    kit.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": outcome}}).encode() + b"\n")
    updates = kit.until("state_update", state="idle")
    assert summary(updates)[-1] == "end_turn"
    assert [each for each in summary(updates) if each == "requires_action"]


def test_methods_that_the_client_has(kit: Kit) -> None:
    """1.174, 2.60: what was not advertised is not asked for, and what is asked for is the protocol's."""
    kit.begin()
    kit.send("session/prompt", {"sessionId": kit.session, "prompt": [{"type": "text", "text": "elicit"}]})
    assert summary(kit.until("state_update", state="idle"))[-1] == "error"
    methods = {each["method"] for each in kit.seen if "method" in each}
    assert methods == {"session/update"}


def test_the_transport(kit: Kit) -> None:
    """2.70, 1.200-1.211: bad JSON, arrays and what is no message are answered once, without an id; ids come back."""
    assert kit.raw(b"{nonsense")["error"]["code"] == -32700
    for line in (
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"session/list"}]',
        b"7",
        b'{"jsonrpc":"2.0","id":{},"method":"x"}',
    ):
        answer = kit.raw(line)
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    kit.begin()
    for number in ("text", 0, -1, 2**53):
        answer = kit.raw(json.dumps({"jsonrpc": "2.0", "id": number, "method": "session/list", "params": {}}).encode())
        assert answer["id"] == number
        assert answer["result"]["sessions"]
    assert kit.raw(b'{"jsonrpc":"2.0","id":null,"method":"session/list","params":{}}')["error"]["code"] == -32600


def test_what_is_unknown(kit: Kit) -> None:
    """1.192, 2.95, 2.96: unknown methods, unknown sessions, and methods of version 1."""
    kit.begin()
    for method in ("nonsense", "_custom", "session/load", "session/set_mode", "authenticate", "fs/read_text_file"):
        assert kit.code(method, sessionId=kit.session) == -32601
    error = kit.ask("session/prompt", sessionId="nobody", prompt=TEXT)["error"]
    assert (error["code"], error["data"]) == (-32002, {"sessionId": "nobody"})
    kit.notify("$/unknown", {})
    kit.notify("_vendor/notice", {"a": 1})
    assert kit.ask("session/list", _meta={"a": 1}, unheardOf=[1])["result"]["sessions"]


def test_resuming_and_replaying(kit: Kit) -> None:
    """2.20, 2.24: without a cursor nothing is replayed; with one all of it, then the state, then the answer."""
    kit.begin()
    kit.about("session/prompt", prompt=TEXT)
    kit.until("state_update", state="idle")
    for params, expected in (({}, ["idle"]), ({"replayFrom": {"type": "start"}}, ["user_message", "idle"])):
        before = len(kit.seen)
        assert "result" in kit.about("session/resume", cwd="/", **params)
        updates = [each["params"]["update"] for each in kit.seen[before:] if "method" in each]
        assert summary(updates) == expected
        assert all("messageId" in each for each in updates if each["sessionUpdate"] == "user_message")
    assert kit.about("session/resume", cwd="/", replayFrom={"type": "_odd"})["error"]["code"] == -32602


def test_listing_closing_and_deleting(kit: Kit) -> None:
    """1.61, 1.70, V2N10: the work ends before the answer to close, and nothing follows that."""
    kit.begin()
    assert kit.session in [each["sessionId"] for each in kit.ask("session/list")["result"]["sessions"]]
    kit.about("session/prompt", prompt=[{"type": "text", "text": "slow"}])
    kit.until("agent_message_chunk")
    before = len(kit.seen)
    assert kit.about("session/close") == {"result": {}}
    updates = [each["params"]["update"] for each in kit.seen[before:] if "method" in each]
    assert summary(updates)[-1] == "cancelled"
    assert kit.about("session/close") == {"result": {}}
    assert kit.about("session/prompt", prompt=TEXT)["error"]["code"] == -32002
    assert kit.ask("session/delete", sessionId="nobody") == {"result": {}}
    assert len(kit.seen) == before + len(updates) + 4


def test_settings(kit: Kit) -> None:
    """1.95, 2.55: the answer has all of them; an unknown one is -32602 and changes nothing."""
    kit.begin()
    options = kit.about("session/set_config_option", configId="loud", type="boolean", value=True)["result"]
    assert [each["currentValue"] for each in options["configOptions"]] == [True]
    for odd in ({"configId": "x", "type": "boolean", "value": True}, {"configId": "loud", "type": "_odd", "value": 1}):
        assert kit.about("session/set_config_option", **odd)["error"]["code"] == -32602


def test_logging_in_and_out(kit: Kit) -> None:
    """2.02, 2.10: what is advertised works."""
    hello = kit.ask("initialize", protocolVersion=2, info=INFO)["result"]
    [method] = hello["authMethods"]
    assert method["type"] == "agent"
    assert kit.ask("auth/login", methodId=method["methodId"]) == {"result": {}}
    assert kit.ask("auth/logout") == {"result": {}}


def test_upserts_and_enums(kit: Kit) -> None:
    """2.36, 2.40, 2.41, 2.45: ids stay, and every value is one of the protocol."""
    kit.begin()
    kit.about("session/prompt", prompt=[{"type": "text", "text": "tool"}])
    updates = kit.until("state_update", state="idle")
    calls = [each for each in updates if each["sessionUpdate"] == "tool_call_update"]
    assert calls[0]["title"]
    assert {each["toolCallId"] for each in calls} == {"t1"}
    assert calls[-1]["status"] == "completed"
    assert {each["terminalId"] for each in updates if each["sessionUpdate"].startswith("terminal")} == {"x1"}
    known = {"pending", "in_progress", "completed", "search"}
    assert {each[name] for each in calls for name in ("status", "kind") if name in each} <= known


def test_the_shape_of_errors(kit: Kit) -> None:
    """1.04: a code, a message of one line, and no traceback of the agent's; the work's failure is a stop reason."""
    kit.begin()
    for error in (kit.ask("nonsense")["error"], kit.ask("session/new")["error"]):
        assert isinstance(error["code"], int)
        assert error["message"]
        assert "Traceback" not in json.dumps(error)
    kit.about("session/prompt", prompt=[{"type": "text", "text": "fail"}])
    [idle] = [each for each in kit.until("state_update", state="idle") if "stopReason" in each]
    assert (idle["stopReason"], idle["error"]["code"]) == ("error", -32603)
    assert "secret-42" not in json.dumps(kit.seen)


def test_the_end(kit: Kit) -> None:
    """1.201: when its input ends, it ends what it is at, says nothing but messages, and exits."""
    kit.begin()
    kit.about("session/prompt", prompt=TEXT)
    kit.until("state_update", state="idle")
    status, rest = kit.shutdown()
    assert status == 0
    assert rest == []
