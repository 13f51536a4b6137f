"""The code of the how-to pages is code: each block runs, and what it imports exists."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

PAGES = sorted((Path(__file__).resolve().parent.parent / "docs" / "howto").glob("*.rst"))
BLOCK = re.compile(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", re.MULTILINE)


def blocks(page: Path) -> list[str]:
    """The Python of a page, block by block."""
    return [textwrap.dedent(found) for found in BLOCK.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path) -> None:
    """Each block by itself."""
    found = blocks(page)
    assert found
    for block in found:
        exec(compile(block, page.name, "exec"), {})


def test_the_script_of_the_page_drives_an_agent(capsys: pytest.CaptureFixture[str]) -> None:
    """The blocking client, as shown, in a program of its own."""
    [page] = [page for page in PAGES if page.stem == "client_conveniences"]
    [block] = [block for block in blocks(page) if "AcpSyncClient" in block]
    command: Any = [sys.executable, "-m", "acp_twisted.testing.scripted_agent"]
    done = subprocess.run(
        [sys.executable, "-c", f"{block}\nmain({command!r})"], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.split("\n")[-3:] == ["end_turn", "end_turn", ""]
