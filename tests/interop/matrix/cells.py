"""
One client against one agent: the plan, the run, and what each step came to.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from peers import peer
from twisted.internet.defer import Deferred

from interop.matrix.steps import CAPABILITIES, PLAIN, STEPS
from interop.matrix.view import Json, Step, View
from interop.programs import SOURCES, Outcome, Programs

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent.parent
OURS = "twisted"


def _ours(program: str) -> list[str]:
    return ["/usr/bin/env", f"PYTHONPATH={TESTS}", sys.executable, str(HERE / program)]


def _typescript(program: str) -> list[str]:
    ts = peer("ts24")
    return ts.command(SOURCES / program, ts.folder)


def client(name: str) -> list[str]:
    """
    How a client of the suite is started, up to its plan.
    """
    if name == OURS:
        return _ours("our_client.py")
    if name == "typescript":
        return _typescript("matrix_client.mjs")
    if name == "python":
        return peer("python-sdk").command(SOURCES / "matrix_client.py")
    return peer(f"{name}-peer").command("matrix-client")


def agent(name: str) -> list[str]:
    """
    How an agent of the suite is started.
    """
    if name == OURS:
        return _ours("our_agent.py")
    if name == "typescript":
        return _typescript("matrix_agent.mjs")
    if name == "python":
        return peer("python-sdk").command(SOURCES / "matrix_agent.py")
    return peer(f"{name}-peer").command("matrix-agent")


@frozen
class Cell:
    """
    One client, one agent, and what is between them.
    """

    client: str
    agent: str
    transport: str = "stdio"

    def __str__(self) -> str:
        return f"{self.client}-{self.agent}-{self.transport}"


PEERS = ("python", "typescript", "rust", "java")
CELLS: Sequence[Cell] = (
    Cell(OURS, OURS),
    Cell(OURS, OURS, "tcp"),
    *(Cell(OURS, name) for name in PEERS),
    *(Cell(name, OURS) for name in PEERS),
)


@frozen
class Verdicts:
    """
    What the steps of a cell came to.

    @ivar faults: by step, why it failed; a step that passed is not among them.
    """

    steps: Sequence[str]
    faults: dict[str, str]
    outcome: Outcome


def judge(steps: Sequence[Step], outcome: Outcome) -> Verdicts:
    """
    Hold each step's events against what it wants.
    """
    events: dict[str, list[Json]] = {}
    for line in outcome.lines():
        events.setdefault(line["step"], []).append(line)
    beginning = events.get("init.initialize", [])
    faults: dict[str, str] = {}
    for step in steps:
        seen = events.get(step.id, []) if step.ops else beginning
        try:
            step.check(View(seen))
        except Exception as error:  # an answer of a strange shape is a fault of the step as well
            faults[step.id] = f"{type(error).__name__}: {error}"[:500]
    return Verdicts([step.id for step in steps], faults, outcome)


async def _listening(programs: Programs, argv: Sequence[str]) -> tuple[Any, str]:
    port: Deferred[str] = Deferred()

    def printed(text: str) -> None:
        if text.endswith("\n") and not port.called:
            port.callback(text.rsplit(maxsplit=1)[-1])

    process, _ = programs.start(argv, stdin=None, on_stdout=printed)
    return process, f"127.0.0.1:{await port}"


async def run(cell: Cell, programs: Programs, folder: Path) -> Verdicts:
    """
    Let the client follow the whole plan, and another client that advertises nothing the short one.
    """
    (folder / "notes.txt").write_text("first line\nsecond line\n")
    faults: dict[str, str] = {}
    names: list[str] = []
    server = None
    full = [step for step in STEPS if step.only in (None, cell.agent)]
    for title, steps, capabilities in (("full", full, CAPABILITIES), ("plain", PLAIN, {})):
        plan: dict[str, Any] = {
            "agent": agent(cell.agent),
            "connect": None,
            "cwd": str(folder),
            "capabilities": capabilities,
            "steps": [{"id": step.id, "ops": list(step.ops)} for step in steps],
        }
        if cell.transport == "tcp":
            server, plan["connect"] = await _listening(programs, [*agent(cell.agent), "tcp:0:interface=127.0.0.1"])
            plan["agent"] = None
        path = folder / f"{title}.json"
        path.write_text(json.dumps(plan))
        outcome = await programs.run([*client(cell.client), str(path)], cwd=folder)
        if server is not None:
            server.signalProcess("TERM")
        verdicts = judge(steps, outcome)
        names += verdicts.steps
        faults |= verdicts.faults
    return Verdicts(names, faults, outcome)
