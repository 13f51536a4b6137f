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
PYTEST_SECONDS = 60 * 60
OTHER_SECONDS = 20 * 60
FEW = 3


class StepFailed(Exception):
    """A step failed; its own output says why."""


@dataclass
class Outcome:
    """
    What one run of pytest came to.

    @ivar failed: the tests that did.
    @ivar fault: why the run as a whole failed, if it did.
    """

    passed: int = 0
    skipped: int = 0
    failed: tuple[str, ...] = ()
    fault: StepFailed | None = None

    def read(self, report: Path) -> None:
        """Take the numbers from pytest's report in XML; a run that was killed left none."""
        if not report.exists():
            return
        root = ElementTree.parse(report).getroot()
        cases = {f"{case.get('classname')}.{case.get('name')}": case for case in root.iter("testcase")}
        self.failed = tuple(
            name for name, case in cases.items() if case.find("failure") is not None or case.find("error") is not None
        )
        self.skipped = sum(case.find("skipped") is not None for case in cases.values())
        self.passed = len(cases) - self.skipped - len(self.failed)


@dataclass
class Run:
    """
    One run of the checks.

    @ivar python: the Python of the virtual environment.
    @ivar outcomes: of every pytest step so far.
    @ivar unsteady: the tests that failed, and passed when they were run again.
    """

    python: Path
    outcomes: list[Outcome] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)

    def module(self, *arguments: str, seconds: float = OTHER_SECONDS) -> None:
        """Run C{python -m …} of the virtual environment in the checkout."""
        call([str(self.python), "-m", *arguments], seconds)

    def pytest(self, *arguments: str) -> None:
        """
        Run pytest and count its tests.  A run without any test is a failure: pytest's own exit status says so.

        When only a few tests failed they are run once more, as CPython's are, and the last lines name those that passed
        then.  What depends on other people's programs on a busy machine may fail without being wrong, and should not
        hold up everything else; but each has a cause, which C{pytest --chaos} is there to find.
        """
        outcome = self._once(*arguments)
        if outcome.fault and 0 < len(outcome.failed) <= FEW:
            say(f"== once more: {', '.join(outcome.failed)}")
            again = self._once("--last-failed", "--last-failed-no-failures=none", *arguments)
            outcome.fault = again.fault
            if not again.fault:
                self.unsteady.extend(outcome.failed)
                outcome.passed += len(outcome.failed)
                outcome.failed = ()
        self.outcomes.append(outcome)
        if outcome.fault:
            raise outcome.fault

    def _once(self, *arguments: str) -> Outcome:
        outcome = Outcome()
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "junit.xml"
            try:
                self.module("pytest", f"--junitxml={report}", *arguments, seconds=PYTEST_SECONDS)
            except StepFailed as fault:
                outcome.fault = fault
            outcome.read(report)
        return outcome

    def counts(self) -> str:
        """How many tests there were."""
        failed = sum(len(outcome.failed) for outcome in self.outcomes)
        passed, skipped = (sum(getattr(outcome, name) for outcome in self.outcomes) for name in ("passed", "skipped"))
        return f"{passed} passed, {failed} failed, {skipped} skipped"


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
    for name in run.unsteady:
        say(f"test.py: unsteady, it passed only when it was run again: {name}")
    say("passed: every step" if not faults else f"failed: {len(faults)} of {len(options.steps or STEPS)} steps")
    if run.outcomes:
        say(run.counts())
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
