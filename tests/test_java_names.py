"""
The table of the Java SDK's names says what there is, and the check that says so can fail.
"""

from __future__ import annotations

from pathlib import Path

import java_names
import pytest
from java_names import Row, Subject, Table, exists, faults, read, tables


def test_every_name_has_a_counterpart_that_exists() -> None:
    """Each name of the list has a row, and what the rows name of ours can be had."""
    table = read()
    assert faults(table) == []
    assert len(table.rows) > 200


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("acp_twisted.AcpAgent", True),
        ("acp_twisted.AcpAgent.builder", True),
        ("acp_twisted.limits", True),
        ("acp_twisted.ClientConnection.agent_capabilities", True),
        ("acp_twisted.Limits.drain_timeout", True),
        ("acp_twisted.AcpAgent.limits", True),
        ("acp_twisted.Nothing", False),
        ("acp_twisted.AcpAgent.nothing", False),
        ("nothing_at_all.Nothing", False),
    ],
)
def test_what_exists(name: str, there: bool) -> None:
    """Modules, classes, methods, fields, and what a class says that its instances have."""
    assert exists(name) is there


def test_the_check_finds_what_is_wrong() -> None:
    """A name without a row, one that is listed twice, a row that says nothing or too much, and one that is invented."""
    rows = [
        Row("A", ours=["acp_twisted.AcpAgent"]),
        Row("B", ours=["acp_twisted.Nothing"]),
        Row("C"),
        Row("D", ours=["acp_twisted.AcpAgent"], why="no"),
        Row("F", why="no"),
    ]
    table = Table([Subject("s", ["A", "B", "C", "D", "E", "A"])], {row.java: row for row in rows})
    assert faults(table) == [
        "E has no row",
        "A is listed twice",
        "B: there is no acp_twisted.Nothing",
        "C says one of ours and why",
        "D says one of ours and why",
        "F is not in the list",
    ]


def test_a_row_of_the_table() -> None:
    """The name there, the name here or none, and what differs."""
    rows = [Row("a_b", ours=["acp_twisted.AcpAgent"], note="as_is"), Row("c", why="because")]
    text = tables(Table([Subject("Things", ["a_b", "c"])], {row.java: row for row in rows}))
    assert text.startswith("Things\n------\n")
    assert "   * - ``a_b``\n     - | ``AcpAgent``\n     - as\\_is\n" in text
    assert "     - none\n     - because\n" in text


def test_an_unreadable_row_is_refused(tmp_path: Path) -> None:
    """A slip in the file is an error and no empty row."""
    path = tmp_path / "names.toml"
    path.write_text('[list.x]\ntitle = "x"\nnames = ["A"]\n[names."A"]\nourz = ["x"]\n')
    with pytest.raises(TypeError, match="ourz"):
        java_names.read(path)
