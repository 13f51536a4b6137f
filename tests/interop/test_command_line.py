"""
C{acp-twisted prompt} with the agents of other people, as somebody at a shell would use it.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from peers import peer

from interop.programs import Outcome, Programs
from interop.test_broken_agents import broken
from interop.test_real_agents import chuk_agent, py_agent, ts_agent

COMMAND = [str(Path(sys.executable).with_name("acp-twisted")), "prompt"]

SDKS = pytest.mark.parametrize("agent", [ts_agent, py_agent])
Agent = Callable[[], list[str]]


async def run(programs: Programs, folder: Path, text: str, agent: list[str], *options: str) -> Outcome:
    """
    One run of the command.
    """
    return await programs.run([*COMMAND, text, "--cwd", str(folder), *options, "--", *agent], cwd=folder)


def chunks(outcome: Outcome) -> list[str]:
    """
    The agent's words in the JSON output.
    """
    updates: list[dict[str, Any]] = [line["update"] for line in outcome.lines() if "update" in line]
    return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]


def dummy() -> list[str]:
    """acp-agent's dummy."""
    return peer("acp-agent").command("dummy", "--seed", "1")


def echo() -> list[str]:
    """The official Python SDK's example."""
    return peer("python-sdk-echo-agent").command()


def example() -> list[str]:
    """The example of the TypeScript SDK 1.9.0, whose permission is denied: there is nobody to ask."""
    return peer("ts-agent").command()


def example_of_two_versions() -> list[str]:
    """Its example that speaks two versions of the protocol."""
    return peer("ts-dual-version-agent").command()


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        (ts_agent, "hello there"),
        (py_agent, "hello there"),
        (echo, "hello there"),
        (dummy, "dummy: jolt brisk ember brisk harbor."),
        (chuk_agent, "hellothere"),
        (example, "I'll help you with that"),
        (example_of_two_versions, ""),
    ],
)
async def test_a_prompt(agent: Agent, says: str, programs: Programs, workspace: Path) -> None:
    """What the agent says is on standard output, the stop reason on standard error, and the status is 0."""
    outcome = await run(programs, workspace, "hello there", agent())
    assert outcome.code == 0, outcome.explain()
    assert says in outcome.stdout, outcome.explain()
    assert "end_turn" in outcome.stderr


@SDKS
@pytest.mark.parametrize(("permit", "chosen"), [("allow", "yes"), ("deny", "no")])
async def test_permit(agent: Agent, permit: str, chosen: str, programs: Programs, workspace: Path) -> None:
    """--permit chooses by the kinds of the agent's options."""
    outcome = await run(programs, workspace, "permission", agent(), "--permit", permit)
    assert outcome.code == 0, outcome.explain()
    assert f'"optionId":"{chosen}"' in outcome.stdout


@SDKS
async def test_files_and_terminals(agent: Agent, programs: Programs, workspace: Path) -> None:
    """The command has files and terminals of its own for the agent."""
    options = ("--permit", "allow", "--json")
    read = await run(programs, workspace, f"read {workspace / 'notes.txt'}", agent(), *options)
    assert chunks(read) == ["first line\nsecond line\n"], read.explain()
    await run(programs, workspace, f"write {workspace / 'new.txt'} hello there", agent(), *options)
    assert (workspace / "new.txt").read_text() == "hello there"
    ran = await run(programs, workspace, "run echo hello; exit 3", agent(), *options)
    assert '"hello\\n"' in chunks(ran)[0], ran.explain()


@SDKS
async def test_json(agent: Agent, programs: Programs, workspace: Path) -> None:
    """Each update in order, then the result."""
    outcome = await run(programs, workspace, "stream 50", agent(), "--json")
    assert outcome.code == 0, outcome.explain()
    assert chunks(outcome) == [str(n) for n in range(1, 51)]
    assert outcome.lines()[-1]["result"]["stopReason"] == "end_turn"


@SDKS
async def test_cancel_after_updates(agent: Agent, programs: Programs, workspace: Path) -> None:
    """V1C5: the turn is cancelled, its answer printed, and the status is 3."""
    outcome = await run(programs, workspace, "slow", agent(), "--json", "--cancel-after-updates", "3")
    assert outcome.code == 3, outcome.explain()
    assert chunks(outcome)[:3] == ["tick 1", "tick 2", "tick 3"]
    assert outcome.lines()[-1]["result"]["stopReason"] == "cancelled"


async def test_cancel_by_request(programs: Programs, workspace: Path) -> None:
    """X9: an agent that knows $/cancel_request is given the chance; the status is 3 all the same."""
    outcome = await run(
        programs, workspace, "slow", ts_agent(), "--json", "--cancel-after-updates", "2", "--how", "request"
    )
    assert outcome.code == 3, outcome.explain()


@SDKS
async def test_interrupt(agent: Agent, programs: Programs, workspace: Path) -> None:
    """^C cancels the turn and still prints its answer."""
    sent: list[bool] = []

    def interrupt(stdout: str) -> None:
        if "tick 2" in stdout and not sent:
            sent.append(True)
            process.signalProcess(signal.Signals.SIGINT.name.removeprefix("SIG"))

    command = [*COMMAND, "slow", "--json", "--", *agent()]
    process, done = programs.start(command, cwd=workspace, on_stdout=interrupt)
    outcome = await done
    assert outcome.code == 3, outcome.explain()
    assert outcome.lines()[-1]["result"]["stopReason"] == "cancelled"


@SDKS
async def test_an_error(agent: Agent, programs: Programs, workspace: Path) -> None:
    """The agent's error is printed with its code, and the status is 4."""
    outcome = await run(programs, workspace, "fail", agent(), "--json")
    assert outcome.code == 4, outcome.explain()
    error = outcome.lines()[-1]["error"]
    assert (error["code"], error["message"]) == (-32055, "asked to fail")


@pytest.mark.parametrize(
    ("fault", "code", "says"),
    [
        ("kimi", 5, "exited with status 0"),
        ("traceback", 5, "no such model"),
        ("wrong-version", 4, "version 2"),
        ("never-initializes", 6, ""),
        ("dies", 5, "out of memory"),
        ("half-line", 5, "status 0"),
        ("never-answers", 6, ""),
        ("stop-reason-missing", 4, "session/prompt"),
        ("initialize-error", 4, "no license"),
    ],
)
async def test_broken_agents(fault: str, code: int, says: str, programs: Programs, workspace: Path) -> None:
    """Whatever an agent does wrong, the command ends, with a status and a reason."""
    timeout = ("--timeout", "1.5") if code == 6 else ()
    outcome = await run(programs, workspace, "hello", broken(fault), *timeout)
    assert outcome.code == code, outcome.explain()
    assert says in outcome.stderr, outcome.explain()
    assert "Traceback" not in outcome.stderr or fault == "traceback"
