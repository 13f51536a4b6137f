"""The manual says what the code does: its tables and drawings are of this code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import pytest
import tables_from_code

from acp_twisted import errors
from acp_twisted.limits import Limits

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("tool", ["draw_machines.py", "record_diagrams.py", "render_diagrams.py"])
def test_the_drawings_are_of_this_code(tool: str) -> None:
    """The committed tables and drawings of the state machine, and of conversations, are what the code gives."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / tool, "--check"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_limit_is_in_the_table() -> None:
    """The table of the limits page has each limit once, with its default in readable units."""
    rows = {name.strip("`"): default for name, default, _ in tables_from_code.limits_rows()}
    assert list(rows) == [attribute.name for attribute in attrs.fields(Limits)]
    assert rows["max_message_bytes"] == "64 MiB"
    assert rows["drain_timeout"] == "60 s"


def test_every_error_is_in_the_table() -> None:
    """The table of the errors page has each class with its code."""
    rows = {name.strip("`"): code for name, code, _ in tables_from_code.errors_rows()}
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.CodedError) and kind is not errors.CodedError:
            assert rows[name] == str(kind.CODE)
    assert rows["AcpConnectionError"] == "none"
