"""
Hold the table of the Java SDK's names to this library, and write it for the manual.

    python tools/java_names.py            says how many names there are; fails where one of ours does not exist
    python tools/java_names.py --rst      writes the tables as reStructuredText

The names are in docs/_data/java_names.toml: what the list has must have a row, and what a row names of ours must be
there to be imported.  A name without a counterpart has a reason.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import rst
from attrs import frozen

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "docs" / "_data" / "java_names.toml"


@frozen
class Row:
    """
    A name of the Java SDK.

    @ivar java: the name.
    @ivar ours: what does the same here, in full.
    @ivar note: what differs.
    @ivar why: why there is nothing here.
    """

    java: str
    ours: Sequence[str] = ()
    note: str = ""
    why: str = ""


@frozen
class Subject:
    """
    A part of the list.

    @ivar title: its title.
    @ivar names: the names in it.
    """

    title: str
    names: Sequence[str]


@frozen
class Table:
    """
    The file.

    @ivar subjects: the list, by subject.
    @ivar rows: what is said of each name.
    """

    subjects: Sequence[Subject]
    rows: dict[str, Row]


def read(path: Path = NAMES) -> Table:
    """
    The file.
    """
    with path.open("rb") as file:
        data: dict[str, Any] = tomllib.load(file)
    subjects = [Subject(**each) for each in data["list"].values()]
    return Table(subjects, {name: Row(name, **each) for name, each in data["names"].items()})


def exists(name: str) -> bool:
    """
    Whether something of ours can be had by its full name: a module, what is in it, or an attribute of a class, also one
    that only its instances have.
    """
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if hasattr(found, part):
                found = getattr(found, part)
            elif inspect.isclass(found) and _of_instances(found, part):
                found = None
            else:
                return False
        return True
    return False


def _of_instances(cls: type, name: str) -> bool:
    """Whether a class's instances have an attribute that the class says so of: a field, or one that is documented."""
    if attrs.has(cls) and name in attrs.fields_dict(cls):
        return True
    return any(f"@ivar {name}:" in (base.__doc__ or "") for base in cls.__mro__)


def faults(table: Table) -> list[str]:
    """What is wrong: names without a row, rows of no name, rows that say nothing, names of ours that are not there."""
    wrong = []
    listed = [name for subject in table.subjects for name in subject.names]
    for name in listed:
        if name not in table.rows:
            wrong.append(f"{name} has no row")
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        wrong.append(f"{name} is listed twice")
    for row in table.rows.values():
        if row.java not in listed:
            wrong.append(f"{row.java} is not in the list")
        if bool(row.ours) == bool(row.why):
            wrong.append(f"{row.java} says one of ours and why")
        wrong += [f"{row.java}: there is no {name}" for name in row.ours if not exists(name)]
    return wrong


def tables(table: Table) -> str:
    """Every subject with its table."""
    parts = []
    for subject in table.subjects:
        rows: list[list[str | list[str]]] = []
        for name in subject.names:
            row = table.rows[name]
            ours: str | list[str] = [f"``{each.removeprefix('acp_twisted.')}``" for each in row.ours] or "none"
            rows.append([f"``{name}``", ours, rst.escaped(row.note or row.why)])
        parts.append(rst.section(subject.title, rst.list_table((34, 38, 28), ("Java", "Here", "What differs"), rows)))
    return "\n".join(parts)


def summary(table: Table) -> str:
    """The numbers, as a sentence."""
    none = sum(1 for row in table.rows.values() if row.why)
    return f"{len(table.rows)} names: {len(table.rows) - none} have a counterpart here, and {none} have a reason."


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 when something is wrong."""
    table = read()
    wrong = faults(table)
    for fault in wrong:
        sys.stderr.write(fault + "\n")
    sys.stdout.write(tables(table) if "--rst" in arguments else summary(table) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
