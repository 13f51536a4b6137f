"""
Our agent of version 2, driven by the client of the TypeScript SDK's experimental entry points.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from peers import peer

from interop.programs import SOURCES, Outcome, Programs
from interop.wires import Wire, recorded, tapped

Json = dict[str, Any]
ENTRY_POINTS = pytest.mark.parametrize("entry", ["stable", "unstable"])


def our_agent(versions: str) -> list[str]:
    """Our agent, speaking these versions."""
    return [sys.executable, str(Path(__file__).with_name("v2_agent.py")), versions]


async def drive(
    programs: Programs,
    steps: Sequence[Json],
    folder: Path,
    *,
    versions: str = "1,2",
    permit: str = "allow",
    entry: str = "stable",
) -> tuple[Outcome, Wire]:
    """
    Let the client follow a plan against our agent, and hold the agent's side of the wire to the schema.
    """
    record = folder / "wire.jsonl"
    plan = {"agent": tapped(record, our_agent(versions)), "cwd": str(folder), "permit": permit, "steps": list(steps)}
    ts = peer("ts24")
    argv = ts.command(SOURCES / "ts_v2_client.mjs", ts.folder, json.dumps(plan), entry)
    outcome = await programs.run(argv, cwd=folder)
    assert outcome.code == 0, outcome.explain()
    wire = recorded(record)
    hold_to_schema(wire)
    return outcome, wire


def hold_to_schema(wire: Wire, schema: str = "schema.json") -> None:
    """
    Rule 1 and the schema that the SDK carries: each request has one answer, and whatever our agent says is valid.
    """
    path = peer("ts24").package("@agentclientprotocol/sdk") / "schema" / "v2" / schema
    definitions = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    kinds: dict[tuple[str, str], str] = {}
    for name, each in definitions.items():
        for ending in ("Request", "Notification", "Response"):
            if "x-method" in each and name.endswith(ending):
                kinds[each["x-method"], "result" if ending == "Response" else "params"] = name
    asked = Counter(json.dumps(message["id"]) for message in wire.requests("client"))
    answered = Counter(json.dumps(message["id"]) for message in wire.answers("agent"))
    assert answered == asked, wire.explain()
    methods = {json.dumps(message["id"]): message["method"] for message in wire.requests("client")}
    for message in wire.messages("agent"):
        if "error" in message:
            name, body = "Error", message["error"]
        elif "result" in message:
            name, body = kinds[methods[json.dumps(message["id"])], "result"], message["result"]
        else:
            name, body = kinds[message["method"], "params"], message["params"]
        validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})
        assert [each.message for each in validator.iter_errors(body)] == [], f"{name}: {body}"


def said(outcome: Outcome) -> list[str]:
    """The agent's words as the client saw them, chunk by chunk."""
    updates = [event["update"] for event in outcome.events("update")]
    return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]


def states(outcome: Outcome) -> list[str]:
    """The states, and the stop reasons."""
    updates = [event["update"] for event in outcome.events("update")]
    found = [each for each in updates if each["sessionUpdate"] == "state_update"]
    return [each.get("stopReason", each["state"]) for each in found]


@ENTRY_POINTS
async def test_a_session_with_everything(entry: str, programs: Programs, workspace: Path) -> None:
    """2.30-2.46: each prompt is inserted, shown, worked on and done; the SDK reads all that is shown meanwhile."""
    steps: list[Json] = [
        {"prompt": "stream 3"},
        {"prompt": "tool"},
        {"prompt": "permission"},
        {"prompt": "elicit"},
        {"prompt": "fail"},
        {"cancelTool": True},
        {"prompt": "cancellable"},
    ]
    outcome, _ = await drive(programs, steps, workspace, entry=entry)
    assert said(outcome) == ["1", "2", "3", '"yes"', '["accept", {"name": "Ada"}]']
    assert states(outcome) == [
        *("running", "end_turn"),
        *("running", "end_turn"),
        *("running", "requires_action", "running", "end_turn"),
        *("running", "requires_action", "running", "end_turn"),
        *("running", "error"),
        *("running", "end_turn"),
    ]
    accepted = [event["messageId"] for event in outcome.events("accepted")]
    shown = [
        each["update"]["messageId"] for each in outcome.events("update") if "user" in each["update"]["sessionUpdate"]
    ]
    assert accepted == shown
    assert len(set(accepted)) == 6
    assert "secret-42" not in outcome.stdout
    assert len(outcome.events("tool_cancelled")) == 1


@ENTRY_POINTS
async def test_cancelling_work(entry: str, programs: Programs, workspace: Path) -> None:
    """V2D5, V2N7: the last updates, then one idle with cancelled, also of a handler that is deaf to it."""
    steps: list[Json] = [
        {"prompt": "slow", "cancel": "session", "after": 4},
        {"prompt": "hang", "cancel": "session"},
        {"prompt": "stream 1"},
    ]
    outcome, wire = await drive(programs, steps, workspace, entry=entry)
    assert states(outcome) == ["running", "cancelled", "running", "cancelled", "running", "end_turn"]
    assert said(outcome)[-1] == "1"
    assert [event["stopReason"] for event in outcome.events("idle")] == ["cancelled", "cancelled", "end_turn"]
    assert wire.methods("client").count("session/cancel") == 2


async def test_cancelling_work_that_waits_for_the_user(programs: Programs, workspace: Path) -> None:
    """V2N3, V2D3: the agent takes its question back, and reports cancelled; the SDK's answer is dropped."""
    outcome, wire = await drive(programs, [{"prompt": "permission", "cancel": "session"}], workspace, permit="hold")
    assert states(outcome) == ["running", "requires_action", "cancelled"]
    assert wire.methods("agent").count("$/cancel_request") == 1
    [answer] = wire.answers("client")
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}


@ENTRY_POINTS
async def test_held_prompts(entry: str, programs: Programs, workspace: Path) -> None:
    """V2D7, V2N9: one is withdrawn, one is dropped by session/cancel; both are -32800 and were never shown."""
    steps: list[Json] = [{"prompts": ["slow", "stream 2", "stream 1"], "withdraw": [1], "cancel": "session"}]
    outcome, _ = await drive(programs, steps, workspace, entry=entry)
    assert [(event["index"], event["code"]) for event in outcome.events("refused")] == [(1, -32800), (2, -32800)]
    assert states(outcome) == ["running", "cancelled"]
    kinds = Counter(each["update"]["sessionUpdate"] for each in outcome.events("update"))
    assert kinds["user_message"] == 1


async def test_held_prompts_are_inserted_in_order(programs: Programs, workspace: Path) -> None:
    """2.30: each when the work before it is over."""
    outcome, _ = await drive(programs, [{"prompts": ["stream 2", "a", "b"]}], workspace)
    assert said(outcome) == ["1", "2", "a", "b"]
    assert [event["index"] for event in outcome.events("accepted")] == [0, 1, 2]
    assert states(outcome) == ["running", "end_turn"] * 3


@ENTRY_POINTS
async def test_the_life_of_a_session(entry: str, programs: Programs, workspace: Path) -> None:
    """2.20, 2.24, 2.96, V2N10: replay, the state after it, list, close, and what is unknown afterwards."""
    text = [{"type": "text", "text": "x"}]
    steps: list[Json] = [
        {"prompt": "hello"},
        {"request": "session/resume", "params": {"cwd": str(workspace), "replayFrom": {"type": "start"}}},
        {"request": "session/resume", "params": {"cwd": str(workspace), "replayFrom": {"type": "_odd"}}},
        {"request": "session/list"},
        {"request": "session/set_config_option", "params": {"configId": "x", "type": "id", "value": "y"}},
        {"request": "session/close"},
        {"request": "session/prompt", "params": {"prompt": text}},
        {"request": "session/close"},
        {"request": "tool_call/cancel", "params": {"toolCallId": "t"}},
    ]
    outcome, _ = await drive(programs, steps, workspace, entry=entry)
    replayed = [
        each["update"] for each in outcome.events("update") if each["update"]["sessionUpdate"] == "user_message"
    ]
    assert len(replayed) == 2
    assert states(outcome)[-1] == "idle"
    assert [event["code"] for event in outcome.events("error")] == [-32602, -32602, -32002, -32002]
    assert len(outcome.events("result")) == 4, outcome.explain()


@pytest.mark.parametrize("versions", ["2", "1,2"])
async def test_a_client_of_version_2(versions: str, programs: Programs, workspace: Path) -> None:
    """2.7: agents of version 2 and of both speak it."""
    outcome, _ = await drive(programs, [{"prompt": "hi"}], workspace, versions=versions)
    assert outcome.events("initialized")[0]["version"] == 2
    assert said(outcome) == ["hi"]


async def test_a_client_of_version_2_leaves_an_agent_of_version_1(programs: Programs, workspace: Path) -> None:
    """2.7: that agent answers version 1, which the SDK's client of version 2 can't use."""
    plan = {"agent": our_agent("1"), "cwd": str(workspace), "permit": "allow", "steps": [{"prompt": "hi"}]}
    ts = peer("ts24")
    argv = ts.command(SOURCES / "ts_v2_client.mjs", ts.folder, json.dumps(plan), "stable")
    outcome = await programs.run(argv, cwd=workspace)
    assert len(outcome.events("failed")) == 1, outcome.explain()
    assert outcome.events("initialized") == []


@pytest.mark.parametrize(("versions", "spoken"), [("1", True), ("1,2", True), ("2", False)])
async def test_a_client_of_version_1(versions: str, spoken: bool, programs: Programs, workspace: Path) -> None:
    """2.7: an agent of both speaks version 1 with it; one of version 2 alone answers -32022."""
    plan = {"agent": our_agent(versions), "cwd": str(workspace), "permit": "allow", "steps": [{"prompt": "hi"}]}
    ts = peer("ts24")
    outcome = await programs.run(ts.command(SOURCES / "ts_client.mjs", ts.folder, json.dumps(plan)), cwd=workspace)
    if spoken:
        assert outcome.events("initialized")[0]["version"] == 1, outcome.explain()
        assert said(outcome) == ["hi"]
    else:
        assert outcome.events("initialized") == []
        assert "Unsupported protocol version" in outcome.stderr, outcome.explain()
