"""
Hold what the protocol requires of an agent and a client to a verdict, and that to tests; and write the table of it.

    python tools/requirements.py            says how many there are; fails where one that is met has no test
    python tools/requirements.py --rst      writes the tables as reStructuredText

The requirements are in docs/_data/java_requirements.toml, under the names that the Java SDK's audit gives them, without
its prefix.  A test shows one when its docstring names it, as in C{SETUP-CWD-ABSOLUTE}; see L{named_in_tests}.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import named_in_tests
import rst
from attrs import frozen
from named_in_tests import Test

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "docs" / "_data" / "java_requirements.toml"

Verdict = Literal["met", "host", "none"]
VERDICTS = {"met": "Met", "host": "Whoever writes the program", "none": "Not for a library"}
LEVELS = {"must": "MUST", "must not": "MUST NOT", "should": "SHOULD", "should not": "SHOULD NOT", "may": "MAY"}
ROLES = {"client", "agent", "both"}


@frozen
class Requirement:
    """
    One requirement.

    @ivar id: its name.
    @ivar number: its number in the list.
    @ivar level: how strongly it is meant.
    @ivar role: whom it binds.
    @ivar says: what it says, in our words.
    @ivar verdict: C{"met"}: this library does it.  C{"host"}: it is the duty of the program around it.  C{"none"}: it
        is nothing that a library could do.
    @ivar ours: what we do about it; for what is not met, why.
    """

    id: str
    number: int
    level: str
    role: str
    says: str
    verdict: Verdict
    ours: str = ""


@frozen
class Book:
    """
    The file.

    @ivar families: the titles of the families, by the first word of the names.
    @ivar requirements: by name, in order.
    """

    families: dict[str, str]
    requirements: dict[str, Requirement]

    def named(self, text: str) -> Iterator[str]:
        """
        The names in a docstring: all that begin with the word of a family.
        """
        words = "|".join(map(re.escape, self.families))
        for match in re.finditer(rf"(?<![\w.$-])(?:{words})(?:-[A-Z0-9]+)+(?![\w-])", text):
            yield match.group()


def family(name: str) -> str:
    """The first word of a name."""
    return name.partition("-")[0]


def read(path: Path = REQUIREMENTS) -> Book:
    """
    The file.

    @raise ValueError: for an entry of no family, level, role or verdict; for one that is not met and does not say why;
        and for numbers that are not 1, 2, 3….
    """
    with path.open("rb") as file:
        data: dict[str, Any] = tomllib.load(file)
    families = data.pop("families")
    found = {name: Requirement(name, **entry) for name, entry in data.items()}
    for number, each in enumerate(found.values(), 1):
        if each.number != number:
            raise ValueError(f"{each.id} should have the number {number}")
        if family(each.id) not in families or each.level not in LEVELS or each.role not in ROLES:
            raise ValueError(f"{each.id} is of no family, level or role")
        if each.verdict not in get_args(Verdict):
            raise ValueError(f"{each.id} has no verdict")
        if each.verdict != "met" and not each.ours:
            raise ValueError(f"{each.id} is not met, and does not say why")
    return Book(families, found)


def read_tests(book: Book, directory: Path = named_in_tests.TESTS) -> list[Test]:
    """Every test function that names a requirement."""
    return named_in_tests.read_tests(book.named, directory)


def faults(book: Book, tests: Sequence[Test]) -> list[str]:
    """What is wrong: what is met and has no test, what is not and has one, and tests of unknown requirements."""
    wrong = []
    shown: dict[str, list[Test]] = {name: [] for name in book.requirements}
    for test in tests:
        for name in test.ids:
            if name in shown:
                shown[name].append(test)
            else:
                wrong.append(f"tests/{test.file}: {test.name} names {name}, which is no requirement")
    for each in book.requirements.values():
        if each.verdict != "met":
            wrong += [f"tests/{test.file}: {test.name} names {each.id}, which is not met" for test in shown[each.id]]
        elif not any(test.proves for test in shown[each.id]):
            wrong.append(f"{each.id} has no test: {each.says}")
    return wrong


def tables(book: Book, tests: Sequence[Test]) -> str:
    """Every family with its title and its table."""
    parts = []
    for word, title in book.families.items():
        rows: list[list[str | list[str]]] = [
            [
                [str(each.number), f"{LEVELS[each.level]}, {each.role}"],
                [f"``{each.id}``", rst.escaped(each.says)],
                [f"{VERDICTS[each.verdict]}.", *([rst.escaped(each.ours)] if each.ours else [])],
                [f"``{test}``" for test in tests if each.id in test.ids],
            ]
            for each in book.requirements.values()
            if family(each.id) == word
        ]
        head = ("No.", "What is required", "Our verdict", "Shown by")
        parts.append(rst.section(title, rst.list_table((10, 34, 28, 28), head, rows)))
    return "\n".join(parts)


def summary(book: Book, tests: Sequence[Test]) -> str:
    """The numbers, as a sentence."""
    count = dict.fromkeys(VERDICTS, 0)
    for each in book.requirements.values():
        count[each.verdict] += 1
    return (
        f"{len(book.requirements)} requirements: {count['met']} are met by the library, {count['host']} are the duty "
        f"of whoever writes the program, and {count['none']} are nothing that a library could do. {len(tests)} tests "
        "name them."
    )


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 when something is wrong."""
    book = read()
    tests = read_tests(book)
    wrong = faults(book, tests)
    for fault in wrong:
        sys.stderr.write(fault + "\n")
    sys.stdout.write(tables(book, tests) if "--rst" in arguments else summary(book, tests) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
