"""
Draw the state machines of the library, from the code, for the documentation.

    python tools/draw_machines.py            writes docs/diagrams/{prompt_session,foreground}.{rst,dot,mmd}
    python tools/draw_machines.py --check    writes nothing; fails if one of them is not what the code says

It needs nothing but Automat: C{.rst} is a table, C{.mmd} a Mermaid state diagram, and C{.dot} is for whoever has
Graphviz (C{dot -Tsvg docs/diagrams/prompt_session.dot}).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from attrs import frozen
from automat._typed import TypeMachine

from acp_twisted.turn._foreground_machine import ForegroundInputs, foreground_machine
from acp_twisted.turn._machine import TurnInputs, turn_machine

DIAGRAMS = Path(__file__).resolve().parent.parent / "docs" / "diagrams"

Row = tuple[str, str, str, str]


@frozen
class Machine:
    """
    One machine and what it is called.
    """

    name: str
    machine: TypeMachine[Any, Any]
    inputs: type
    states: tuple[str, ...]


MACHINES = (
    Machine("prompt_session", turn_machine, TurnInputs, ("Idle", "Running", "Cancelling", "Closing", "Closed")),
    Machine(
        "foreground",
        foreground_machine,
        ForegroundInputs,
        ("Idle", "Admitting", "Running", "Blocked", "Cancelling", "Closing", "Closed"),
    ),
)


def rows(drawn: Machine) -> list[Row]:
    """
    The transitions as state, input, output and next state; no output is the empty string.
    """
    events = [name for name in vars(drawn.inputs) if not name.startswith("_")]
    found = [
        (
            before.name,
            event,
            ", ".join(output.name for output in outputs if not output.name.startswith("returns(")),
            after.name,
        )
        for before, event, after, outputs in drawn.machine.__automat_automaton__.allTransitions()
    ]
    return sorted(found, key=lambda row: (drawn.states.index(row[0]), events.index(row[1])))


def edges(table: list[Row]) -> list[tuple[str, str, list[str]]]:
    """
    The arrows between states, each with its inputs.  A loop without an output is left out: nothing happens there.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for before, event, output, after in table:
        if output or before != after:
            found.setdefault((before, after), []).append(event)
    return [(before, after, events) for (before, after), events in found.items()]


def as_table(table: list[Row]) -> str:
    """
    The whole machine as a reStructuredText table.
    """
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [("state", "input", "output", "next state"), *table]:
        lines += [f"   {'* -' if n == 0 else '  -'} {cell or '(nothing)'}" for n, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def as_dot(name: str, table: list[Row]) -> str:
    """
    The machine as a directed graph for Graphviz.
    """
    lines = [
        f"digraph {name} {{",
        "    rankdir=LR;",
        "    node [shape=box, style=rounded];",
        "    Idle [penwidth=2];",
    ]
    for before, after, events in edges(table):
        label = r"\n".join(events)
        lines.append(f'    {before} -> {after} [label="{label}"];')
    return "\n".join([*lines, "}"]) + "\n"


def as_mermaid(table: list[Row]) -> str:
    """
    The machine as a Mermaid state diagram.
    """
    lines = ["stateDiagram-v2", "    [*] --> Idle"]
    lines += [f"    {before} --> {after}: {', '.join(events)}" for before, after, events in edges(table)]
    return "\n".join(lines) + "\n"


def drawings() -> dict[str, str]:
    """
    Every drawing, by its file name.
    """
    drawn: dict[str, str] = {}
    for each in MACHINES:
        table = rows(each)
        drawn[f"{each.name}.rst"] = as_table(table)
        drawn[f"{each.name}.dot"] = as_dot(each.name, table)
        drawn[f"{each.name}.mmd"] = as_mermaid(table)
    return drawn


def main(arguments: list[str], directory: Path = DIAGRAMS) -> int:
    """
    Write the drawings, or check them.  Returns the exit status.
    """
    stale = 0
    for name, text in drawings().items():
        path = directory / name
        if "--check" in arguments:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                sys.stderr.write(f"{path} is not what the code says; run python tools/draw_machines.py\n")
                stale = 1
        else:
            directory.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
