"""
Our scripted agent against an agent on the official Python SDK, on stdio, in turn, in one run.

    python benchmarks/stdio.py [--rounds 5]

Prints a table of ratios.  The last row is an agent on Twisted that does nothing at all: it shows how much of an empty
prompt is the pipes and the waking of the other process, which differs much between machines.  Needs the peers of
C{tools/install_peers.py}.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from peers import peer  # noqa: E402


def installed(folder: Path) -> list[str]:
    """
    The scripted agent in an environment that holds this package and what it needs, as the other agent's does.
    """
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(HERE.parent)], check=True)
    return [python, "-m", "acp_twisted.testing.scripted_agent"]


def measure(command: list[str], updates: int, prompts: int) -> dict[str, float]:
    """
    One run of the driver.
    """
    driver = [sys.executable, str(HERE / "driver.py"), "--updates", str(updates), "--prompts", str(prompts), "--"]
    finished = subprocess.run([*driver, *command], stdout=subprocess.PIPE, check=True)
    figures: dict[str, float] = json.loads(finished.stdout)
    if figures["lines_per_prompt"] != updates + 1:
        raise SystemExit(f"{command}: {figures['lines_per_prompt']} lines for a prompt")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # programs are compiled once, as a user's are
    with tempfile.TemporaryDirectory() as folder:
        compare(installed(Path(folder) / "ours"), rounds)


def compare(ours: list[str], rounds: int) -> None:
    """
    Print the table.
    """
    theirs = peer("python-sdk").command(str(HERE / "peers" / "python_sdk_agent.py"))
    rows = [
        ("updates/s, 100 a prompt", "updates_per_second", 100, 200, "at least 4"),
        ("empty prompts/s", "prompts_per_second", 0, 2000, "at least 1.8"),
        ("start to initialize, s", "startup_seconds", 0, 1, "at most 0.7"),
        ("peak memory, KiB", "peak_kib", 100, 200, "at most 1"),
    ]
    bare = [ours[0], str(HERE / "peers" / "bare_twisted_agent.py")]
    print_row("", "acp_twisted", "python sdk", "ratio", "wanted")
    for title, figure, updates, prompts, wanted in rows:
        compared(title, ours, theirs, (figure, updates, prompts), rounds, wanted)
    compared("  an agent without any work", bare, theirs, ("prompts_per_second", 0, 2000), rounds, "(the bound)")


def compared(
    title: str, ours: list[str], theirs: list[str], what: tuple[str, int, int], rounds: int, wanted: str
) -> None:
    """
    One row: the figure, with so many updates in so many prompts, of each in turn.
    """
    figure, updates, prompts = what
    pairs = [
        (measure(ours, updates, prompts)[figure], measure(theirs, updates, prompts)[figure]) for _ in range(rounds)
    ]
    ratio = statistics.median(mine / other for mine, other in pairs)
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    print_row(title, f"{mine:.6g}", f"{other:.6g}", f"{ratio:.2f}", wanted)


def print_row(*cells: str) -> None:
    """
    A line of the table.
    """
    sys.stdout.write("  ".join(cell.ljust(28 if not index else 12) for index, cell in enumerate(cells)).rstrip() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
