"""
The test command counts, and runs what failed once more.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(__file__).resolve().parent.parent / "tools" / "test.py"

STEADY = """
def test_fine():
    pass


def test_not_here():
    import pytest

    pytest.skip("on purpose")
"""

UNSTEADY = """
import pathlib


def test_the_first_time():
    marker = pathlib.Path(__file__).with_name("marker")
    was_here = marker.exists()
    marker.touch()
    assert was_here
"""

WRONG = """
import pytest


@pytest.mark.parametrize("number", range({}))
def test_wrong(number):
    assert False
"""

LEAVES = """
import pytest


@pytest.fixture
def left():
    yield
    assert False


def test_leaves_something(left):
    pass
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """
    A run in a folder of its own.
    """
    spec = importlib.util.spec_from_file_location("test_command", COMMAND)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "test_command", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "test_steady.py").write_text(STEADY)
    run = module.Run(Path(sys.executable))
    run.failed = module.StepFailed
    return run


def test_counts(run: Any) -> None:
    """
    What passed and what was skipped, of all runs together.
    """
    run.pytest()
    run.pytest("-k", "fine")
    assert run.counts() == "2 passed, 0 failed, 1 skipped"


def test_an_unsteady_test(run: Any, tmp_path: Path) -> None:
    """
    It counts as passed when it passes the second time, and is named.
    """
    (tmp_path / "test_unsteady.py").write_text(UNSTEADY)
    run.pytest()
    assert run.counts() == "2 passed, 0 failed, 1 skipped"
    assert run.unsteady == ["test_unsteady.test_the_first_time"]


@pytest.mark.parametrize("number", [1, 3, 4])
def test_wrong_tests(run: Any, tmp_path: Path, number: int) -> None:
    """
    What fails twice has failed, and so have many at once.
    """
    (tmp_path / "test_wrong.py").write_text(WRONG.format(number))
    (tmp_path / "test_unsteady.py").write_text(UNSTEADY)
    with pytest.raises(run.failed):
        run.pytest()
    assert run.counts() == f"1 passed, {number + 1} failed, 1 skipped"
    assert run.unsteady == []


def test_what_fails_in_the_end(run: Any, tmp_path: Path) -> None:
    """
    A test that leaves something behind has failed, once.
    """
    (tmp_path / "test_leaves.py").write_text(LEAVES)
    with pytest.raises(run.failed):
        run.pytest()
    assert run.counts() == "1 passed, 1 failed, 1 skipped"


def test_no_tests(run: Any) -> None:
    """
    A run without tests has failed.
    """
    with pytest.raises(run.failed):
        run.pytest("-k", "nothing_of_that_name")
    assert run.counts() == "0 passed, 0 failed, 0 skipped"
