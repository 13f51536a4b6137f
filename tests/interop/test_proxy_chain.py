"""
Chains of three proxies between programs that nobody here wrote: the TypeScript SDK's client, the Rust SDK's conductor
and a proxy on it, agents on the Python and Rust SDKs; our conductor and our proxy in every place.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from peers import peer

from interop.programs import OUR_AGENT, SOURCES, Outcome, Programs
from interop.test_sdk_clients import drive, said

Json = dict[str, Any]

OURS = (sys.executable, str(Path(__file__).with_name("arrow_proxy.py")))
CONDUCTOR = (sys.executable, "-m", "acp_twisted.cli.main", "conductor")


def rust_proxy() -> list[str]:
    """A proxy on the Rust SDK."""
    return peer("rust-chain").command("proxy-of-its-own")


def our_conductor(*components: Sequence[str], nested: bool = False) -> list[str]:
    """Our conductor's command line."""
    return [*CONDUCTOR, *(["--as-proxy"] if nested else []), "--", *map(shlex.join, components)]


def rust_conductor(*components: Sequence[str], nested: bool = False) -> list[str]:
    """The Rust conductor's."""
    return peer("rust-chain").command("proxy" if nested else "agent", *map(shlex.join, components))


def py_agent() -> list[str]:
    """An agent on the Python SDK."""
    return peer("python-sdk").command(SOURCES / "py_agent.py")


def rust_agent() -> list[str]:
    """An agent on the Rust SDK."""
    return peer("rust-peer").command("agent")


CHAINS = {
    "ours": lambda agent: our_conductor(OURS, rust_proxy(), OURS, agent),
    "rust": lambda agent: rust_conductor(OURS, rust_proxy(), OURS, agent),
    "theirs in ours": lambda agent: our_conductor(OURS, rust_conductor(OURS, rust_proxy(), nested=True), agent),
    "ours in theirs": lambda agent: rust_conductor(OURS, our_conductor(rust_proxy(), OURS, nested=True), agent),
}
EVERY_CHAIN = pytest.mark.parametrize("chain", CHAINS)


def results(outcome: Outcome) -> list[Any]:
    """How each step ended: its stop reason, or the code of its error."""
    ends = [event for event in outcome.lines() if event["event"] in ("result", "error")]
    return [each["code"] if each["event"] == "error" else each["result"]["stopReason"] for each in ends]


@EVERY_CHAIN
async def test_a_python_agent_behind_three_proxies(chain: str, programs: Programs, workspace: Path) -> None:
    """What it says passes each of the three, once; turns, and one that is cancelled, come back through all of them."""
    steps: list[Json] = [
        {"prompt": "stream 3"},
        {"prompt": "hello"},
        {"prompt": "slow", "cancel": "session", "after": 2},
        {"prompt": "stream 1"},
    ]
    agent = CHAINS[chain](py_agent())
    outcome, wire = await drive(programs, "ts", steps, workspace, agent=agent)
    assert said(outcome)[:4] == [">>>1", ">>>2", ">>>3", ">>>hello"]
    assert said(outcome) == wire.texts()
    assert results(outcome) == ["end_turn", "end_turn", "cancelled", "end_turn"], outcome.explain()


@EVERY_CHAIN
async def test_everything_passes(chain: str, programs: Programs, workspace: Path) -> None:
    """Requests of the agent and their answers pass the other way, with the client's files and terminals behind it; a
    turn is cancelled in both ways in the middle of a stream (C30, V1C5)."""
    written = workspace / "written.txt"
    steps: list[Json] = [
        {"prompt": "permission"},
        {"prompt": f"read {workspace / 'notes.txt'}"},
        {"prompt": f"write {written} some new text"},
        {"prompt": "run echo hello; exit 3"},
        {"prompt": "stream 100000 0.02", "cancel": "session", "after": 2},
        {"prompt": "seen"},
        {"prompt": "stream 100000 0.02", "cancel": "request", "after": 2},
        {"prompt": "seen"},
        {"prompt": "fail -32042"},
        {"prompt": "stream 1"},
    ]
    agent = CHAINS[chain](OUR_AGENT)
    outcome, wire = await drive(programs, "ts", steps, workspace, agent=agent)
    words = said(outcome)
    assert words[:4] == [
        '>>>["allow"]',
        ">>>first line\nsecond line\n",
        ">>>written",
        '>>>{"output":"hello\\n","exitCode":3}',
    ]
    assert written.read_text() == "some new text"
    assert '>>>["session/cancel"]' in words
    assert '>>>["$/cancel_request"]' in words
    assert words[-1] == ">>>1"
    assert len(words) < 100000, "a cancelled stream went on"
    assert words == wire.texts()
    cancelled = ["cancelled", "end_turn", -32800, "end_turn"]
    assert results(outcome) == ["end_turn"] * 4 + cancelled + [-32042, "end_turn"], outcome.explain()
    assert outcome.events("error")[-1]["data"] == {"asked": True}


@EVERY_CHAIN
async def test_a_permission_is_cancelled_with_its_prompt(chain: str, programs: Programs, workspace: Path) -> None:
    """The prompt's cancellation goes down hop by hop, the permission's comes up, and the chain goes on (C31, C32)."""
    steps: list[Json] = [
        {"prompt": "permission 1", "cancel": "request", "held": 1},
        {"prompt": "stream 2"},
    ]
    for agent in (OUR_AGENT, rust_agent()):
        folder = workspace / Path(agent[0]).name
        folder.mkdir()
        outcome, _ = await drive(programs, "ts", steps, folder, agent=CHAINS[chain](agent), permit="hold")
        assert len(outcome.events("permission_cancelled")) == 1, outcome.explain()
        assert results(outcome) == [-32800, "end_turn"], outcome.explain()
        assert said(outcome) == [">>>1", ">>>2"]


@pytest.mark.parametrize("place", [0, 1])
async def test_a_real_part_that_dies(place: int, programs: Programs, workspace: Path) -> None:
    """A proxy that is gone in the middle is an error that names it, for a client that nobody here wrote too."""
    dying = [sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit(7)"]
    parts: list[Sequence[str]] = [OURS, rust_proxy()]
    parts.insert(place, dying)
    command = our_conductor(*parts, py_agent())
    line = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
    outcome = await programs.run(command, cwd=workspace, stdin=line)
    (answer,) = outcome.lines()
    assert answer["error"]["code"] == -32603
    assert answer["error"]["data"]["component"] == f"proxy {place + 1} ({Path(sys.executable).name})"
    assert outcome.code == 5, outcome.explain()
