"""
How the random machines of both versions are run: what they log is looked at, and a test run says how much there was.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as hypothesis_seed
from hypothesis.stateful import run_state_machine_as_test
from twisted.logger import ILogObserver, LogEvent, LogLevel
from zope.interface import implementer

SOAK = Path(__file__).resolve().parent.parent / "tools" / "soak.py"


@implementer(ILogObserver)
class Errors:
    """Keeps what is logged as a failure, but for what a handler of these tests raises on purpose."""

    def __init__(self, on_purpose: type[Exception]) -> None:
        self.seen: list[str] = []
        self._on_purpose = on_purpose

    def __call__(self, event: LogEvent) -> None:
        failure = event.get("log_failure")
        if failure is not None and failure.check(self._on_purpose):
            return
        if event["log_level"] >= LogLevel.error or failure is not None:
            self.seen.append(f"{event.get('log_format')} {failure.getTraceback() if failure else ''}")


def run_machine(machine: Any, conversations: int, steps: int, seed: int | None) -> int:
    """
    Run a machine for so many conversations of so many steps each, and say how many steps there were.

    With a seed the conversations are always the same; without they are new ones each time.

    @param machine: the class, whose C{steps} counts.
    """
    before: int = machine.steps
    try:
        run_state_machine_as_test(
            machine if seed is None else hypothesis_seed(seed)(machine),
            settings=settings(
                max_examples=conversations,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                report_multiple_bugs=False,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        gc.unfreeze()
    return int(machine.steps) - before


class Summary:
    """Says at the end of the test run how much was run."""

    def __init__(self, line: str) -> None:
        self.line = line

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """See pytest."""
        terminalreporter.write_line(self.line)


def play(request: pytest.FixtureRequest, title: str, *options: str) -> None:
    """
    Play C{tools/soak.py} in a process of its own, and hold it to have found nothing.
    """
    command = [sys.executable, str(SOAK), *options]
    played = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert played.returncode == 0, played.stdout
    last = played.stdout.splitlines()[-1]
    assert last.startswith("ran ")
    request.config.pluginmanager.register(Summary(f"{title}: {last}"))
