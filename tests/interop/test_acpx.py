"""
Our agent, driven by acpx: a command-line client of somebody else's, on the TypeScript SDK.
"""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from peers import peer

from interop.programs import OUR_AGENT, PLAIN_AGENT, Outcome, Programs, alive, until
from interop.wires import Wire, recorded, tapped


class Acpx:
    """
    Runs acpx in a folder, with its state in there too.
    """

    def __init__(self, programs: Programs, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._record = folder / "wire.jsonl"

    def command(self, *words: str, agent: Sequence[str] = OUR_AGENT) -> list[str]:
        """
        A command line.
        """
        tap = shlex.join(tapped(self._record, agent))
        return peer("acpx").command("--cwd", self._folder, "--agent", tap, *words)

    @property
    def environment(self) -> dict[str, str]:
        """
        Its home is the folder.
        """
        return {"HOME": str(self._folder)}

    async def run(self, *words: str, agent: Sequence[str] = OUR_AGENT) -> tuple[Outcome, Wire]:
        """
        Run it to its end, and check the wire; it must not have complained of any notification.
        """
        command = self.command(*words, agent=agent)
        outcome = await self._programs.run(command, cwd=self._folder, env=self.environment)
        assert "Error handling" not in outcome.stderr, outcome.explain()
        wire = recorded(self._record)
        wire.assert_sound()
        return outcome, wire

    def wire(self) -> Wire:
        """
        What passed.
        """
        return recorded(self._record)


@pytest.fixture
def acpx(programs: Programs, workspace: Path) -> Acpx:
    """
    acpx in the session's folder.
    """
    return Acpx(programs, workspace)


async def test_streaming(acpx: Acpx) -> None:
    """It prints what the agent says, in order, and exits with 0; its JSON output is the wire as the tap saw it."""
    outcome, wire = await acpx.run("--format", "json", "exec", "stream 100")
    assert outcome.code == 0, outcome.explain()
    assert wire.texts() == [str(n) for n in range(1, 101)]
    shown = [line for line in outcome.lines() if line.get("method") == "session/update"]
    assert [line["params"]["update"] for line in shown] == wire.updates()
    quiet, _ = await acpx.run("--format", "quiet", "exec", "stream 12")
    assert quiet.stdout.strip() == "123456789101112"


@pytest.mark.parametrize(("flag", "chosen"), [("--approve-all", "allow"), ("--deny-all", "deny")])
async def test_permission(acpx: Acpx, flag: str, chosen: str) -> None:
    """It chooses by the kinds of the options that we sent."""
    outcome, wire = await acpx.run(flag, "--format", "quiet", "exec", "permission 2")
    assert wire.texts() == [f'["{chosen}","{chosen}"]'], outcome.explain()
    assert outcome.code == (0 if chosen == "allow" else 5), outcome.explain()


async def test_files(acpx: Acpx, workspace: Path) -> None:
    """It reads and writes for us inside its folder, and refuses outside, which the handler sees as an error."""
    read, _ = await acpx.run("--approve-all", "--format", "quiet", "exec", f"read {workspace / 'notes.txt'}")
    assert read.stdout.strip() == "first line\nsecond line"
    await acpx.run("--approve-all", "--format", "quiet", "exec", f"write {workspace / 'new.txt'} hello there")
    assert (workspace / "new.txt").read_text() == "hello there"
    _, wire = await acpx.run("--approve-all", "--format", "quiet", "exec", "read /etc/hostname")
    assert wire.texts() == ["error -32603"]


async def test_terminal(acpx: Acpx) -> None:
    """The five terminal calls against its terminals."""
    outcome, wire = await acpx.run("--approve-all", "--format", "quiet", "exec", "run echo hello; exit 3")
    assert json.loads(wire.texts()[0]) == {"output": "hello\n", "exitCode": 3}, outcome.explain()
    assert [method for method in wire.methods("agent") if method.startswith("terminal/")] == [
        "terminal/create",
        "terminal/wait_for_exit",
        "terminal/output",
        "terminal/kill",
        "terminal/release",
    ]


async def test_without_capabilities(acpx: Acpx, workspace: Path) -> None:
    """What the client does not do is an error to the handler, and the turn goes on."""
    _, wire = await acpx.run("--no-fs", "--no-terminal", "--format", "quiet", "exec", f"read {workspace / 'notes.txt'}")
    (text,) = wire.texts()
    assert text.startswith("error -32")
    assert wire.answers("agent")[-1]["result"]["stopReason"] == "end_turn"


async def test_an_error(acpx: Acpx) -> None:
    """An error to the prompt is its failure, with our code in its output."""
    outcome, _ = await acpx.run("--format", "json", "exec", "fail -32055")
    assert outcome.code == 1, outcome.explain()
    assert any(line.get("error", {}).get("code") == -32055 for line in outcome.lines()), outcome.explain()


async def test_every_kind_of_update(acpx: Acpx) -> None:
    """Its SDK's validation complains of none of them, and it carries out what comes between."""
    outcome, wire = await acpx.run("--approve-all", "--format", "json", "exec", "anything", agent=PLAIN_AGENT)
    assert len(wire.updates()) >= 10
    assert wire.texts()[0] == "permission: yes; ", outcome.explain()
    assert any(answer.get("result") == {"stopReason": "end_turn"} for answer in wire.answers("agent"))


async def test_interrupt_cancels_the_turn(acpx: Acpx, programs: Programs, workspace: Path) -> None:
    """V1C5: ^C makes it send session/cancel; the turn is answered cancelled, and the agent exits in good order."""
    sent: list[bool] = []

    def interrupt(stdout: str) -> None:
        if "agent_message_chunk" in stdout and not sent:
            sent.append(True)
            process.signalProcess(signal.SIGINT)

    command = acpx.command("--format", "json", "exec", "stream 100000 0.02")
    process, done = programs.start(command, cwd=workspace, env=acpx.environment, on_stdout=interrupt)
    outcome = await done
    wire = acpx.wire()
    assert "session/cancel" in wire.methods("client"), outcome.explain()
    (answer,) = [each for each in wire.answers("agent") if "stopReason" in each.get("result", {})]
    assert answer["result"]["stopReason"] == "cancelled"
    assert 0 < len(wire.texts()) < 100000
    wire.assert_sound()


async def test_its_timeout_hangs_up_in_the_middle_of_a_turn(
    acpx: Acpx, programs: Programs, workspace: Path, real_reactor: Any
) -> None:
    """Interop 7.9: acpx --timeout closes our input without a cancel; no agent is left behind."""
    pid = workspace / "pid"
    agent = ["/bin/sh", "-c", f'echo $$ > {pid}; exec "$@"', "sh", *OUR_AGENT]
    command = acpx.command("--timeout", "3", "--format", "json", "exec", "stream 100000 0.05", agent=agent)
    outcome = await programs.run(command, cwd=workspace, env=acpx.environment)
    assert outcome.code == 3, outcome.explain()
    # Where it took longer to start than the timeout, there may be none.
    pids = [int(word) for word in pid.read_text().split()] if pid.exists() else []
    await until(real_reactor, lambda: not any(map(alive, pids)))


async def test_a_persistent_session(acpx: Acpx, workspace: Path) -> None:
    """Several prompts to one agent process, whose session acpx makes, resumes and closes."""
    await acpx.run("sessions", "new")
    first, _ = await acpx.run("--ttl", "300", "--format", "quiet", "prompt", "stream 3")
    assert first.stdout.strip() == "123", first.explain()
    second, _ = await acpx.run("--ttl", "300", "--format", "quiet", "prompt", "seen")
    assert second.stdout.strip() == "[]", second.explain()
    closed, _ = await acpx.run("sessions", "close")
    assert closed.code == 0, closed.explain()
