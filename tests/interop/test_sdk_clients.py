"""
Our agent, driven by the clients of other people's libraries: both official SDKs, and soulacp, which checks strictly.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest
from peers import peer

from interop.programs import OUR_AGENT, PLAIN_AGENT, SOURCES, TWISTD_AGENT, Outcome, Programs
from interop.wires import Wire, recorded, tapped

Json = dict[str, Any]


def client_command(name: str) -> list[str]:
    """
    How a client is started, up to its plan.
    """
    if name == "ts":
        ts = peer("ts24")
        return ts.command(SOURCES / "ts_client.mjs", ts.folder)
    script = {"py": "py_client.py", "soul": "soul_client.py"}[name]
    return peer({"py": "python-sdk", "soul": "soulacp"}[name]).command(SOURCES / script)


async def drive(
    programs: Programs,
    name: str,
    steps: Sequence[Json],
    folder: Path,
    *,
    permit: str = "allow",
    agent: Sequence[str] = OUR_AGENT,
) -> tuple[Outcome, Wire]:
    """
    Let a client follow a plan against an agent of ours, and check the wire.
    """
    record = folder / "wire.jsonl"
    plan = {"agent": tapped(record, agent), "cwd": str(folder), "permit": permit, "steps": list(steps)}
    outcome = await programs.run([*client_command(name), json.dumps(plan)], cwd=folder)
    assert outcome.code == 0, outcome.explain()
    wire = recorded(record)
    wire.assert_sound()
    # soulacp closes the input and sends SIGTERM behind it, which may find an agent that is done and about to exit.
    assert wire.exit_code == 0 or (name == "soul" and wire.exit_code == -SIGTERM), outcome.explain()
    return outcome, wire


def said(outcome: Outcome) -> list[str]:
    """
    The agent's words as the client saw them.
    """
    updates = [event["update"] for event in outcome.events("update")]
    return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]


ALL = pytest.mark.parametrize("name", ["ts", "py", "soul"])
SDKS = pytest.mark.parametrize("name", ["ts", "py"])


@ALL
async def test_a_session_with_everything(name: str, programs: Programs, workspace: Path) -> None:
    """The main job over a real client: stream, permission, fs both ways, a terminal, and a cancelled turn (V1C5)."""
    written = workspace / "written.txt"
    steps: list[Json] = [
        {"prompt": "stream 5"},
        {"prompt": "permission"},
        {"prompt": f"read {workspace / 'notes.txt'}"},
        {"prompt": f"write {written} some new text"},
        {"prompt": "run echo hello; exit 3"},
        {"prompt": "stream 100000 0.02", "cancel": "session", "after": 2},
        {"prompt": "seen"},
        {"prompt": "stream 1"},
    ]
    outcome, wire = await drive(programs, name, steps, workspace)
    words = said(outcome)
    assert words[:5] == ["1", "2", "3", "4", "5"]
    assert words[5:9] == [
        '["allow"]',
        "first line\nsecond line\n",
        "written",
        '{"output":"hello\\n","exitCode":3}',
    ]
    assert written.read_text() == "some new text"
    assert words[9] == "1"
    assert words[-2:] == ['["session/cancel"]', "1"]
    assert len(words) < 100000, "the cancelled stream went on"
    assert words == wire.texts()
    results = [answer["result"] for answer in wire.answers("agent") if "stopReason" in answer.get("result", {})]
    assert [result["stopReason"] for result in results] == ["end_turn"] * 5 + ["cancelled"] + ["end_turn"] * 2
    assert results[5]["_meta"]["sent"] == len(words) - 9 - 2
    assert len(outcome.events("result")) == len(steps), outcome.explain()


@ALL
async def test_a_refused_permission(name: str, programs: Programs, workspace: Path) -> None:
    """A client's rejection reaches the agent's handler as the option that was chosen, and nothing breaks."""
    outcome, _ = await drive(programs, name, [{"prompt": "permission 2"}], workspace, permit="deny")
    assert said(outcome)[-1] in ('["deny","deny"]', '["cancelled","cancelled"]')


@SDKS
async def test_cancelling_a_turn_that_waits_for_a_permission(name: str, programs: Programs, workspace: Path) -> None:
    """V1C3, V1C5: the client answers the open requests with cancelled, and the turn is answered cancelled."""
    steps: list[Json] = [{"prompt": "permission 3", "cancel": "session", "held": 3}, {"prompt": "stream 1"}]
    outcome, wire = await drive(programs, name, steps, workspace, permit="hold")
    assert [event["result"]["stopReason"] for event in outcome.events("result")] == ["cancelled", "end_turn"]
    assert len(outcome.events("permission")) == 3
    assert len(wire.answers("client")) == 3


@ALL
async def test_errors_reach_the_caller(name: str, programs: Programs, workspace: Path) -> None:
    """An AcpError keeps its code and data, any other exception leaks nothing, and the session goes on."""
    steps: list[Json] = [
        {"prompt": "fail -32055"},
        {"prompt": "fail"},
        {"prompt": "nothing"},
        {"prompt": "no such directive"},
        {"prompt": f"read {workspace / 'missing.txt'}"},
    ]
    outcome, wire = await drive(programs, name, steps, workspace)
    errors = [answer["error"] for answer in wire.answers("agent") if "error" in answer]
    prompts = [error for error in errors if error["code"] != -32601]  # soulacp asks for session/set_model
    assert [error["code"] for error in prompts] == [-32055, -32603, -32603, -32602]
    assert prompts[0]["data"] == {"asked": True}
    assert "secret" not in json.dumps(errors)
    assert said(outcome)[-1].startswith("error -32")
    assert len(outcome.events("error")) == 4
    if name != "soul":
        assert [error["code"] for error in outcome.events("error")] == [-32055, -32603, -32603, -32602]


@ALL
async def test_a_message_of_three_megabytes(name: str, programs: Programs, workspace: Path) -> None:
    """Long lines arrive whole, both ways (interop 7.1)."""
    steps: list[Json] = [{"prompt": "big 3000000"}, {"prompt": "len " + "y" * 60_000}]
    outcome, _ = await drive(programs, name, steps, workspace)
    first, second = said(outcome)
    assert first == "x" * 3_000_000
    assert second == str(60_000 + len("len "))


@ALL
@pytest.mark.parametrize("agent", [PLAIN_AGENT, TWISTD_AGENT], ids=["alone", "twistd"])
async def test_every_kind_of_update(name: str, agent: tuple[str, ...], programs: Programs, workspace: Path) -> None:
    """soulacp raises, and the TypeScript SDK complains on stderr, when an update is not what the schema says."""
    outcome, wire = await drive(programs, name, [{"prompt": "anything"}], workspace, agent=agent)
    kinds = [update["sessionUpdate"] for update in wire.updates()]
    assert kinds == [
        "user_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "available_commands_update",
        "current_mode_update",
        "session_info_update",
        "usage_update",
        *["agent_message_chunk"] * 3,
    ]
    assert "Error handling" not in outcome.stderr
    assert len(outcome.events("result")) == 1, outcome.explain()
    seen = [event["update"]["sessionUpdate"] for event in outcome.events("update")]
    assert seen == [kind for kind in kinds if kind in seen]


async def test_cancel_request_of_a_prompt_from_typescript(programs: Programs, workspace: Path) -> None:
    """X9: the SDK's cancellationSignal sends $/cancel_request; the answer is -32800, also by a deaf handler."""
    steps: list[Json] = [
        {"prompt": "stream 100000 0.02", "cancel": "request", "after": 2},
        {"prompt": "seen"},
        {"prompt": "hang", "cancel": "request", "after": 0},
        {"prompt": "seen"},
        {"prompt": "stubborn 0.2", "cancel": "request", "after": 0},
        {"prompt": "stream 2"},
    ]
    outcome, wire = await drive(programs, "ts", steps, workspace)
    assert [event["code"] for event in outcome.events("error")] == [-32800, -32800, -32800]
    words = said(outcome)
    assert words.count('["$/cancel_request"]') == 2
    assert words[-2:] == ["1", "2"]
    assert wire.methods("client").count("$/cancel_request") == 3


async def test_our_cancel_request_reaches_typescript(programs: Programs, workspace: Path) -> None:
    """X1: cancelling our Deferred sends $/cancel_request once, the SDK's handler sees it, and the turn goes on."""
    params = json.dumps({"sessionId": "$SID", "path": "/never"})
    steps: list[Json] = [{"prompt": f"cancel-ask fs/read_text_file {params} 0.2"}, {"prompt": "stream 1"}]
    outcome, wire = await drive(programs, "ts", steps, workspace)
    assert len(outcome.events("read_cancelled")) == 1
    assert said(outcome) == ["cancelled", "1"]
    (asked,) = wire.requests("agent")
    cancels = [each for each in wire.messages("agent") if each.get("method") == "$/cancel_request"]
    assert [each["params"]["requestId"] for each in cancels] == [asked["id"]]


async def test_cancelling_a_turn_cancels_what_it_asked(programs: Programs, workspace: Path) -> None:
    """Requests that a cancelled handler awaits are cancelled with it, each once; TypeScript's handlers see it."""
    steps: list[Json] = [{"prompt": "permission 2", "cancel": "request", "held": 2}, {"prompt": "stream 1"}]
    outcome, wire = await drive(programs, "ts", steps, workspace, permit="hold")
    assert len(outcome.events("permission_cancelled")) == 2
    assert [event["code"] for event in outcome.events("error")] == [-32800]
    cancels = [
        each["params"]["requestId"] for each in wire.messages("agent") if each.get("method") == "$/cancel_request"
    ]
    assert sorted(cancels) == sorted(each["id"] for each in wire.requests("agent"))


async def test_typescript_closes_lists_and_loads(programs: Programs, workspace: Path) -> None:
    """The rest of the session's life, asked for by a client that validates each answer."""
    steps: list[Json] = [
        {"prompt": "stream 2"},
        {"request": "session/list"},
        {"request": "session/load", "params": {"cwd": str(workspace), "mcpServers": []}},
        {"request": "session/resume", "params": {"cwd": str(workspace), "mcpServers": []}},
        {"request": "session/close"},
        {"request": "session/delete"},
        {"request": "session/set_mode", "params": {"modeId": "none"}},
        {"request": "_vendor/ping"},
    ]
    outcome, _ = await drive(programs, "ts", steps, workspace)
    assert len(outcome.events("result")) == 6, outcome.explain()
    assert [event["code"] for event in outcome.events("error")] == [-32601, -32601]
