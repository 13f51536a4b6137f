"""
The test kit works under every test runner, and without hypothesis.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import acp_twisted.testing

CASE = """
import {base}
from acp_twisted.testing import ScriptedAgent, connected_pair

class T({base}.TestCase):
    def test_good(self):
        agent = ScriptedAgent()
        agent.expect_prompt("hi").says("hello")
        with connected_pair(agent) as pair:
            pair.answer("hi")
        self.assertEqual(pair.said, "hello")

    def test_bad(self):
        agent = ScriptedAgent()
        agent.expect_prompt("hi")
        with connected_pair(agent):
            pass
"""


@pytest.mark.parametrize(
    ("base", "command"),
    [
        ("unittest", ["-m", "unittest", "test_case"]),
        ("twisted.trial.unittest", ["-m", "twisted.trial", "test_case"]),
        ("unittest", ["-m", "pytest", "-q", "test_case.py"]),
    ],
    ids=["unittest", "trial", "pytest"],
)
def test_a_runner(tmp_path: Path, base: str, command: list[str]) -> None:
    """A good test passes, a bad one fails with the words of what was expected, and is no mere error."""
    (tmp_path / "test_case.py").write_text(CASE.format(base=base))
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "the agent expected a prompt 'hi'; it did not come" in said
    assert any(words in said for words in ("failures=1", "1 failed, 1 passed")), said
    assert "errors=" not in said


def test_the_rest_needs_no_hypothesis_and_the_program_none_of_it() -> None:
    """hypothesis is imported by the strategies alone; the scripted agent's program starts without the kit."""
    code = (
        "import sys\n"
        "sys.modules['hypothesis'] = None\n"
        "import acp_twisted.testing.scripted_agent\n"
        "loaded = [name for name in sys.modules if name.startswith('acp_twisted.testing.')]\n"
        "assert 'acp_twisted.testing.pair' not in loaded, loaded\n"
        "from acp_twisted.testing import *\n"
        "try:\n    import acp_twisted.testing.strategies\n"
        "except ImportError:\n    print('fine')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("fine\n", "")


@pytest.mark.parametrize("name", acp_twisted.testing.__all__)
def test_a_public_name(name: str) -> None:
    """Each is there when it is asked for, from the module that says so."""
    assert getattr(acp_twisted.testing, name) is not None


def test_a_name_that_is_not_there() -> None:
    """It is an AttributeError, as of any module."""
    name = "nonsense"
    with pytest.raises(AttributeError, match=name):
        getattr(acp_twisted.testing, name)
