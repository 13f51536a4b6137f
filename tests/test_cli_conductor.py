"""
Chains as users write them: the conductor's command line, and twistd's.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from twisted.python.usage import UsageError

from acp_twisted import AcpProxy, AgentCommand, tap
from acp_twisted.cli import conductor as program
from acp_twisted.proxy.conductor import Conductor
from acp_twisted.proxy.loading import component

AGENT = (sys.executable, "-m", "acp_twisted.testing.scripted_agent")
OURS = (sys.executable, "-m", "acp_twisted.cli.main", "conductor")
MODULE = """
from acp_twisted import AcpAgent, AcpProxy
from acp_twisted.schema import v1
proxy = AcpProxy.builder().name("first").build()
builder = AcpProxy.builder().name("second")
def make():
    return builder
nothing = 5
def broken():
    raise ZeroDivisionError("by zero")
agent = AcpAgent.builder().prompt_handler(lambda _: v1.PromptResponse(stop_reason="end_turn")).build()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with components in it, which is the current one."""
    (tmp_path / "parts_of_chains.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "parts_of_chains", raising=False)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_components_by_name_and_by_command() -> None:
    """An object, a builder or a function of this process; or a program, split as a shell does."""
    for name, wanted in (("proxy", "first"), ("builder", "second"), ("make", "second")):
        called, what = component(f"parts_of_chains:{name}")
        assert called == f"parts_of_chains:{name}"
        assert isinstance(what, AcpProxy)
        assert what.name == wanted
    called, command = component("/usr/bin/some 'program of mine' --x")
    assert called == "some"
    assert isinstance(command, AgentCommand)
    assert command.argv == ("/usr/bin/some", "program of mine", "--x")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("parts_of_chains:missing", "AttributeError"),
        ("no_such_module_here:x", "ModuleNotFoundError"),
        ("parts_of_chains:nothing", "is a int, and neither"),
        ("parts_of_chains:broken", "ZeroDivisionError: by zero"),
        ("", "empty command line"),
        ("'unfinished", "is no command line"),
    ],
)
def test_what_is_no_component(text: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Said in words, by either program."""
    with pytest.raises(ValueError, match=problem):
        component(text)
    with pytest.raises(SystemExit) as status:
        program.parse(["--", text])
    assert status.value.code == 2
    assert problem in capsys.readouterr().err
    with pytest.raises(UsageError, match="--proxy"):
        tap.load_chain([text], "some agent")


@pytest.mark.usefixtures("here")
def test_the_command_line() -> None:
    """The last component is the agent, unless there is none; names tell the parts in errors."""
    conductor = program.parse(["--older-spelling", "--", "parts_of_chains:proxy", "my-agent --x"])
    assert [each.name for each in conductor.components] == ["proxy 1 (parts_of_chains:proxy)", "agent (my-agent)"]
    assert not conductor.is_proxy
    assert conductor.spelling.successor == "_proxy/successor"
    assert program.parse(["--as-proxy", "--", "parts_of_chains:proxy"]).is_proxy
    with pytest.raises(SystemExit):
        program.parse([])


@pytest.mark.usefixtures("here")
def test_twistd_serves_a_chain() -> None:
    """--proxy, once or more, makes a conductor of what --agent names; without it nothing of that is imported."""
    options = tap.Options()
    options.parseOptions(
        ["--proxy", "parts_of_chains:proxy", "--proxy", "p q", "--agent", "parts_of_chains:agent", "--listen", "tcp:0"]
    )
    conductor = options["agent"]
    assert isinstance(conductor, Conductor)
    assert [each.name for each in conductor.components] == [
        *("proxy 1 (parts_of_chains:proxy)", "proxy 2 (p)", "agent (parts_of_chains:agent)")
    ]
    script = "import sys, acp_twisted.tap, acp_twisted.service; sys.exit('acp_twisted.proxy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def talk(command: list[str], folder: Path, *messages: dict[str, Any]) -> tuple[int, dict[Any, Any], str]:
    """A program's exit status, its answers by their ids, and what it said besides."""
    text = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in messages)
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=folder, timeout=300, check=False)
    answers = {each["id"]: each for each in map(json.loads, done.stdout.splitlines()) if "id" in each}
    return done.returncode, answers, done.stderr


INITIALIZE = {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}}


def test_the_program(here: Path) -> None:
    """A proxy in its process and a program for an agent; what the program prints goes to standard error, by name."""
    noisy = [sys.executable, "-c", "import runpy, sys; sys.stderr.write('a word\\n'); "]
    noisy[-1] += "runpy.run_module('acp_twisted.testing.scripted_agent', run_name='__main__')"
    status, answers, said = talk(
        [*OURS, "--", "parts_of_chains:proxy", shlex.join(noisy)],
        here,
        INITIALIZE,
        {"id": 2, "method": "session/new", "params": {"cwd": str(here), "mcpServers": []}},
    )
    assert status == 0
    assert answers[1]["result"]["agentInfo"]["name"] == "acp_twisted-scripted-agent"
    assert "sessionId" in answers[2]["result"]
    assert f"{Path(sys.executable).name}: a word\n" in said


def test_the_program_says_what_went_wrong(here: Path) -> None:
    """A component that is missing, or dies, is an answer to initialize, a line on standard error, and status 5."""
    dying = shlex.join([sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit(3)"])
    for part, words in (("/nonexistent/proxy", "could not be started"), (dying, "exited with status 3")):
        status, answers, said = talk([*OURS, "--", part, shlex.join(AGENT)], here, INITIALIZE)
        assert status == 5
        assert words in answers[1]["error"]["message"]
        assert words in said


def test_the_help(here: Path) -> None:
    """Both programs say what they take."""
    for command, word in ((OURS, "COMPONENT"), (OURS[:-1], "conductor")):
        done = subprocess.run([*command, "--help"], capture_output=True, text=True, cwd=here, timeout=300, check=False)
        assert done.returncode == 0
        assert word in done.stdout
