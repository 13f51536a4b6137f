#!/usr/bin/env python3
"""
Run the steps of the cross-SDK suite and print the matrix: a row for each step, a column for each client and agent.

    python tools/matrix.py                  every cell
    python tools/matrix.py python rust      the cells with one of these

C{ok} passed; C{-} failed, as it is known to beside that SDK; C{FAIL} failed; C{new} passed although it is known to
fail.  The exit status is 1 when there is any of the last two.  The peers are installed by C{tools/install_peers.py}.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from interop.matrix.cells import CELLS, Cell, Verdicts, run  # noqa: E402
from interop.matrix.deviations import known  # noqa: E402
from interop.programs import Programs  # noqa: E402
from twisted.internet import task  # noqa: E402
from twisted.internet.defer import Deferred  # noqa: E402


def mark(step: str, verdicts: Verdicts, expected: dict[str, str]) -> str:
    """
    One field of the matrix.
    """
    if step not in verdicts.steps:
        return ""
    if step in verdicts.faults:
        return "-" if step in expected else "FAIL"
    return "new" if step in expected else "ok"


def table(columns: Sequence[tuple[Cell, Verdicts]]) -> tuple[str, bool]:
    """
    The matrix as text, and whether it holds no surprise.
    """
    steps = list(dict.fromkeys(step for _, verdicts in columns for step in verdicts.steps))
    wide = max(map(len, steps))
    heads = [str(cell) for cell, _ in columns]
    lines = [" " * wide + "  " + "  ".join(heads)]
    good = True
    counts: dict[str, int] = {}
    for step in steps:
        marks = [mark(step, verdicts, known(cell)) for cell, verdicts in columns]
        good = good and not {"FAIL", "new"} & set(marks)
        for each in filter(None, marks):
            counts[each] = counts.get(each, 0) + 1
        fields = (each.ljust(len(head)) for each, head in zip(marks, heads, strict=True))
        lines.append(f"{step:{wide}}  " + "  ".join(fields).rstrip())
    lines.append(", ".join(f"{number} {name}" for name, number in sorted(counts.items())))
    return "\n".join(lines), good


async def main(reactor: Any, wanted: Sequence[str]) -> None:
    """
    Run the cells one after the other.
    """
    programs = Programs(reactor)
    columns: list[tuple[Cell, Verdicts]] = []
    with tempfile.TemporaryDirectory() as folder:
        for cell in CELLS:
            if wanted and not {cell.client, cell.agent, str(cell)} & set(wanted):
                continue
            place = Path(folder) / str(cell)
            place.mkdir()
            verdicts = await run(cell, programs, place)
            columns.append((cell, verdicts))
            for step, fault in verdicts.faults.items():
                expected = known(cell).get(step)
                sys.stdout.write(f"{cell} {step}: {fault}" + (f" (known: {expected})\n" if expected else "\n"))
            sys.stdout.flush()
        await programs.stop_all()
    text, good = table(columns)
    sys.stdout.write(text + "\n")
    if not good:
        raise SystemExit(1)


if __name__ == "__main__":
    task.react(lambda reactor: Deferred.fromCoroutine(main(reactor, sys.argv[1:])))
