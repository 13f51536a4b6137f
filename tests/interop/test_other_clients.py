"""
Our agent, driven by clients that are sloppy, simple or wrong: chuk-acp, the TypeScript example, acplint.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from peers import peer

from interop.programs import OUR_AGENT, PATIENCE, PLAIN_AGENT, Outcome, Programs, script
from interop.wires import Wire, recorded, tapped


async def chuk(programs: Programs, folder: Path, prompt: str, agent: Sequence[str] = OUR_AGENT) -> tuple[Outcome, Wire]:
    """
    One prompt by chuk-acp's client.
    """
    record = folder / "wire.jsonl"
    program = script(folder / "agent", tapped(record, agent))
    command = peer("chuk-acp").command("client", program, "--prompt", prompt, "--verbose")
    outcome = await programs.run(command, cwd=folder, env={"HOME": str(folder)})
    return outcome, recorded(record)


async def test_chuk_streams(programs: Programs, workspace: Path) -> None:
    """Interop 7.3, 7.5: string ids, params before the id, C{capabilities} in place of C{clientCapabilities}."""
    outcome, wire = await chuk(programs, workspace, "stream 5")
    assert outcome.code == 0, outcome.explain()
    assert "12345" in outcome.stdout, outcome.explain()
    assert "[Stop reason: end_turn]" in outcome.stdout
    wire.assert_sound()
    first = wire.messages("client")[0]
    assert isinstance(first["id"], str)
    assert "clientCapabilities" not in first["params"]


async def test_chuk_gets_an_error(programs: Programs, workspace: Path) -> None:
    """An error to its prompt is its error, and our agent exits well."""
    outcome, wire = await chuk(programs, workspace, "fail -32055")
    assert outcome.code == 1, outcome.explain()
    assert "asked to fail" in outcome.stderr
    wire.assert_sound()


@pytest.mark.parametrize("prompt", ["read /etc/hostname", "permission", "run true"])
async def test_chuk_never_answers_us(programs: Programs, workspace: Path, prompt: str) -> None:
    """Interop 7.11: a client that never answers costs the turn its request timeout, no more; it is cancelled once."""
    outcome, wire = await chuk(programs, workspace, prompt, [*OUR_AGENT, "--request-timeout", "0.5"])
    assert outcome.code == 0, outcome.explain()
    wire.assert_sound()
    assert wire.texts()[0] in ("error -32603", '["error -32603"]'), outcome.explain()
    assert wire.methods("agent").count("$/cancel_request") == 1
    assert wire.answers("client") == []


@pytest.mark.parametrize(("choice", "chosen"), [("1", "yes"), ("3", "no")])
async def test_typescript_example_client(programs: Programs, workspace: Path, choice: str, chosen: str) -> None:
    """The example of SDK 1.9.0: every kind of update, a permission chosen on its terminal, mock files."""
    record = workspace / "wire.jsonl"
    script(workspace / "npx", tapped(record, PLAIN_AGENT))
    path = os.pathsep.join([str(workspace), os.environ["PATH"]])
    command = peer("ts-client").command()
    outcome = await programs.run(command, cwd=workspace, env={"PATH": path}, stdin=f"{choice}\n".encode())
    assert "Agent completed with: end_turn" in outcome.stdout, outcome.explain()
    assert "Error" not in outcome.stderr, outcome.explain()
    wire = recorded(record)
    wire.assert_sound()
    assert wire.texts() == [f"permission: {chosen}; ", "read: Mock file content; ", "done"]


MEND = ('"protocolVersion": "1"', '"protocolVersion": 1')
"""acplint asks for version "1", which is none; with a number it gets to the rest of what it does wrong."""


@pytest.mark.parametrize(
    ("mend", "categories", "least"),
    [(None, ["initialization", "session_lifecycle", "schema_validation"], 10), (MEND, [], 30)],
    ids=["as-it-is", "mended"],
)
@pytest.mark.slow
async def test_acplint(
    programs: Programs, workspace: Path, mend: tuple[str, str] | None, categories: list[str], least: int
) -> None:
    """A client that is wrong about the protocol gets an answer to each request, and our agent stays up to the end."""
    record = workspace / "wire.jsonl"
    program = script(workspace / "agent", tapped(record, OUR_AGENT, mend))
    chosen = ["--categories", *categories] if categories else []
    report = workspace / "report.json"
    command = peer("acplint").command(
        "--agent", program, "--cwd", workspace, "--timeout", "2", "--output", "json", "--output-file", report, *chosen
    )
    outcome = await programs.run(command, cwd=workspace, deadline=2 * PATIENCE)
    assert report.exists(), outcome.explain()
    wire = recorded(record)
    wire.assert_sound()
    assert len(wire.requests("client")) >= least
