#!/usr/bin/env python3
"""
The one test command: make the environment, install the real peers, and run every check.

    python3 tools/test.py                 everything, as CI does
    python3 tools/test.py lint mypy       only these steps
    python3 tools/test.py --list          the steps

It needs Python 3.10 or newer with venv and pip, and nothing else.  The virtual environment is C{.venv} (or the folder
that C{ACP_TWISTED_VENV} names); the peers are in C{.peers} (or C{ACP_TWISTED_PEERS}).  Both are used again when they
are there.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PYTEST_SECONDS = 45 * 60
OTHER_SECONDS = 20 * 60


class StepFailed(Exception):
    """A step failed; its own output says why."""


@dataclass
class Run:
    """
    One run of the checks.

    @ivar python: the Python of the virtual environment.
    @ivar counts: tests by outcome, of every pytest step so far.
    """

    python: Path
    counts: dict[str, int] = field(default_factory=lambda: {"passed": 0, "failed": 0, "skipped": 0})

    def module(self, *arguments: str, seconds: float = OTHER_SECONDS) -> None:
        """Run C{python -m …} of the virtual environment in the checkout."""
        call([str(self.python), "-m", *arguments], seconds)

    def pytest(self, *arguments: str) -> None:
        """
        Run pytest and count its tests.  A run without any test is a failure: pytest's own exit status says so.
        """
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "junit.xml"
            try:
                self.module("pytest", f"--junitxml={report}", *arguments, seconds=PYTEST_SECONDS)
            finally:
                if report.exists():
                    self.count(report)

    def count(self, report: Path) -> None:
        """Add the numbers of one pytest run."""
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            number = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
            failed = number["failures"] + number["errors"]
            self.counts["failed"] += failed
            self.counts["skipped"] += number["skipped"]
            self.counts["passed"] += max(number["tests"] - failed - number["skipped"], 0)


def say(line: str) -> None:
    """Print a line at once, so that it stands in its place among the output of the programs."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def call(command: Sequence[str], seconds: float) -> None:
    """
    Run a program in the checkout, without standard input and in a process group of its own.

    @raise StepFailed: when it fails, or takes too long; then its whole group is ended.
    """
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        status = process.wait(seconds)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise StepFailed(f"took longer than {seconds:g} s: {' '.join(command)}") from None
        raise
    if status:
        raise StepFailed(f"exit status {status}: {' '.join(command)}")


def environment() -> Path:
    """
    The Python of the virtual environment, with the checkout and all its tools installed.

    The checkout is installed as editable, and its folder put on the path as well: twistd looks for plugins in folders
    of the path, and an editable install alone need not be one.
    """
    folder = Path(os.environ.get("ACP_TWISTED_VENV") or ROOT / ".venv").resolve()
    python = folder / "bin" / "python"
    if not python.exists():
        call([sys.executable, "-m", "venv", str(folder)], OTHER_SECONDS)
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    call([*pip, "-e", ".[test,lint,docs]"], OTHER_SECONDS)
    for site in folder.glob("lib/python3.*/site-packages"):
        (site / "acp_twisted_checkout.pth").write_text(f"{ROOT}\n")
    return python


def lint(run: Run) -> None:
    """Ruff's rules and its format."""
    run.module("ruff", "check", ".")
    run.module("ruff", "format", "--check", ".")


def mypy(run: Run) -> None:
    """mypy --strict over everything."""
    run.module("mypy")


def unit(run: Run) -> None:
    """Every test that needs no program of somebody else; the protocol's JSON schema comes from a package of theirs."""
    call([str(run.python), "tools/install_peers.py", "--only", "ts24"], OTHER_SECONDS)
    run.pytest("-m", "not interop")


def peers(run: Run) -> None:
    """Install the programs of other people, pinned."""
    call([str(run.python), "tools/install_peers.py"], OTHER_SECONDS)


def interop(run: Run) -> None:
    """Every test against them."""
    run.pytest("-m", "interop")


def docs(run: Run) -> None:
    """The manual, the API reference and the news, each without a warning."""
    with tempfile.TemporaryDirectory() as folder:
        run.module("sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", f"{folder}/html")
        call([str(run.python), "tools/api_docs.py", f"{folder}/api"], OTHER_SECONDS)
        run.module("towncrier", "build", "--draft", "--version", "next")


STEPS: dict[str, Callable[[Run], None]] = {step.__name__: step for step in (lint, mypy, unit, peers, interop, docs)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps, all of them even when one fails; the exit status is 0 when every one passed."""
    parser = argparse.ArgumentParser(description="Make the environment and run every check.")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"only these: {', '.join(STEPS)}")
    parser.add_argument("--list", action="store_true", help="print the steps and what they do")
    options = parser.parse_args(arguments)
    if options.list:
        for name, step in STEPS.items():
            say(f"{name:10}{step.__doc__}")
        return 0
    unknown = [name for name in options.steps if name not in STEPS]
    if unknown:
        parser.error(f"no such step: {', '.join(unknown)} (there are {', '.join(STEPS)})")
    started = time.monotonic()
    try:
        run = Run(environment())
    except StepFailed as error:
        say(f"test.py: the environment could not be made: {error}")
        return 1
    say(f"== environment: {time.monotonic() - started:.0f} s")
    faults: list[str] = []
    for name in options.steps or STEPS:
        begun = time.monotonic()
        say(f"== {name}")
        try:
            STEPS[name](run)
        except StepFailed as error:
            faults.append(f"{name}: {error}")
        say(f"== {name}: {time.monotonic() - begun:.0f} s")
    for fault in faults:
        say(f"test.py: {fault}")
    say("passed: every step" if not faults else f"failed: {len(faults)} of {len(options.steps or STEPS)} steps")
    if sum(run.counts.values()):
        say(", ".join(f"{number} {outcome}" for outcome, number in run.counts.items()))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
