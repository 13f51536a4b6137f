"""
Every kind of update: what it costs to decode, to make an object of, to bring to the client's handler, and to send, in
our halves and in the official Python SDK, in turn, in one run.

    python benchmarks/updates.py [--rounds 5] [--count 20000]

Prints microseconds for each message and the ratio (theirs to ours); the exit status is 1 when one of these does not
hold: each ratio is at least 2, and no kind takes us more than 1.5 times what the median kind does, received and sent.
Needs the peer C{python-sdk} of C{tools/install_peers.py}.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from peers import peer  # noqa: E402

TEXT = {"type": "text", "text": "The quick brown fox jumps over the lazy dog, and it does so in one line."}

KINDS: dict[str, dict[str, Any]] = {
    "user_message_chunk": {"content": TEXT},
    "agent_message_chunk": {"content": TEXT},
    "agent_thought_chunk": {"content": TEXT},
    "tool_call": {
        "toolCallId": "call_001",
        "title": "Look into a file",
        "kind": "read",
        "status": "pending",
        "locations": [{"path": "/home/user/project/main.py", "line": 42}],
        "rawInput": {"path": "/home/user/project/main.py"},
    },
    "tool_call_update": {
        "toolCallId": "call_001",
        "status": "completed",
        "content": [{"type": "content", "content": TEXT}],
        "rawOutput": {"lines": 12},
    },
    "plan": {"entries": [{"content": "Look first", "priority": "high", "status": "in_progress"}]},
    "available_commands_update": {
        "availableCommands": [{"name": "web", "description": "Search", "input": {"hint": "what for"}}]
    },
    "current_mode_update": {"currentModeId": "code"},
    "config_option_update": {
        "configOptions": [
            {
                "id": "model",
                "name": "Model",
                "type": "select",
                "currentValue": "small",
                "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}],
            }
        ]
    },
    "session_info_update": {"title": "A look into a file", "updatedAt": "2026-11-30T12:00:00Z"},
    "usage_update": {"used": 53_000, "size": 200_000, "cost": {"amount": 0.045, "currency": "USD"}},
}


def lines() -> dict[str, str]:
    """
    Each kind's notification as one line of JSON.
    """
    return {
        kind: json.dumps(
            {
                "jsonrpc": "2.0",
                "method": "session/update",
                "params": {"sessionId": "session-1", "update": {"sessionUpdate": kind, **members}},
            },
            separators=(",", ":"),
        )
        for kind, members in KINDS.items()
    }


STAGES = ("decode", "structure", "receive", "send")
Figures = dict[str, dict[str, float]]


def measure(command: Sequence[str], count: int) -> Figures:
    """
    One run of a driver.
    """
    finished = subprocess.run(
        [*command, str(count)], input=json.dumps(lines()), stdout=subprocess.PIPE, check=True, text=True
    )
    figures: Figures = json.loads(finished.stdout)
    return figures


def best(runs: Sequence[Figures]) -> Figures:
    """
    The fastest of the runs, field by field: whatever else the machine does only adds.
    """
    return {
        kind: {stage: min(run[kind][stage] for run in runs) for stage in stages} for kind, stages in runs[0].items()
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=20_000)
    options = parser.parse_args()
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(measure([sys.executable, str(HERE / "updates_driver.py")], options.count))
        theirs.append(measure(peer("python-sdk").command(HERE / "peers" / "python_sdk_updates.py"), options.count))
    us, them = best(ours), best(theirs)
    out = [f"{'':28}" + "".join(f"{stage:>26}" for stage in STAGES)]
    slow: list[str] = []
    for kind in us:
        row = f"{kind:28}"
        for stage in STAGES:
            mine, other = us[kind][stage], them[kind][stage]
            row += f"{mine:10.2f} /{other:7.2f} {other / mine:5.1f}x"
            if other < 2 * mine:
                slow.append(f"{kind} {stage}: only {other / mine:.2f}x")
        out.append(row)
    whole = {kind: us[kind]["receive"] + us[kind]["send"] for kind in us}
    worst = max(whole, key=lambda kind: whole[kind])
    ratio = whole[worst] / statistics.median(whole.values())
    out.append(f"received and sent: the slowest kind is {worst}, {ratio:.2f} times the median")
    if ratio > 1.5:
        slow.append(f"{worst}: {ratio:.2f} times the median kind")
    sys.stdout.write("\n".join([*out, *slow]) + "\n")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
