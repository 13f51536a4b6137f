"""
Hold every rule about cancellation to a test that shows it, and write the table of both for the manual.

    python tools/cancellation_rules.py            says how many rules there are; fails where one has no test
    python tools/cancellation_rules.py --rst      writes the tables as reStructuredText

The rules are in docs/_data/cancellation_rules.toml.  A test shows a rule when its docstring names it: C{X9}, C{V1C5},
C{C12}, or a range such as C{M28-M30}, as whole words; see L{named_in_tests}.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import named_in_tests
import rst
from attrs import frozen
from named_in_tests import BLANKET, TESTS, Test

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "docs" / "_data" / "cancellation_rules.toml"

__all__ = ["BLANKET", "RULES", "TESTS", "Book", "Rule", "Test", "faults", "named", "read_rules", "read_tests", "table"]


@frozen
class Rule:
    """
    One entry of the file.

    @ivar id: its family's letters and a number.
    @ivar rule: what it says, in our words.
    @ivar ours: what this library does; empty where another entry says it, or where it is for later.
    @ivar same: the entry that says the same.
    @ivar later: the part of the library that it waits for.
    """

    id: str
    rule: str
    ours: str = ""
    same: str = ""
    later: str = ""


@frozen
class Book:
    """
    The file of the rules.

    @ivar families: what the letters of the ids stand for.
    @ivar parts: the names of the parts of the library that are to come.
    @ivar rules: by their ids, in the order of the file.
    """

    families: dict[str, str]
    parts: dict[str, str]
    rules: dict[str, Rule]

    def resolved(self, rule: Rule) -> Rule:
        """The entry with what is said elsewhere for it."""
        return self.rules[rule.same] if rule.same else rule

    def shown_by(self, rule: Rule, tests: Sequence[Test]) -> list[Test]:
        """The tests that name the rule, or the one that says the same."""
        names = {rule.id, rule.same}
        return [test for test in tests if names.intersection(test.ids)]


def family(rule_id: str) -> str:
    """The letters of an id: C{V1C} of C{V1C5}."""
    return rule_id.rstrip("0123456789")


def read_rules(path: Path = RULES) -> Book:
    """
    The file of the rules.

    @raise ValueError: for an entry that says none, or more than one, of what is ours, what says the same, and what it
        waits for; and for one that refers to nothing.
    """
    with path.open("rb") as file:
        data: dict[str, Any] = tomllib.load(file)
    families, parts = data.pop("families"), data.pop("later")
    rules = {rule_id: Rule(rule_id, **entry) for rule_id, entry in data.items()}
    for rule in rules.values():
        if family(rule.id) not in families:
            raise ValueError(f"{rule.id} is of no family")
        if sum(map(bool, (rule.ours, rule.same, rule.later))) != 1:
            raise ValueError(f"{rule.id} says one of ours, same and later")
        if rule.later and rule.later not in parts:
            raise ValueError(f"{rule.id} waits for an unknown part {rule.later}")
        if rule.same and not (rule.same in rules and rules[rule.same].ours):
            raise ValueError(f"{rule.id} is said to be as {rule.same}, which says nothing")
    return Book(families, parts, rules)


def named(text: str, families: Sequence[str]) -> Iterator[str]:
    """
    The ids in a docstring.  C{J2.2} is a section of another document, and C{X509} in a longer word is none.

    @raise ValueError: for a range whose ends are not of one family.
    """
    one = "(?:" + "|".join(sorted(map(re.escape, families), key=len, reverse=True)) + r")\d+"
    for match in re.finditer(rf"(?<![\w.$-])({one})(?:-({one}))?(?!\w|\.\d)", text):
        first, last = match.groups()
        if last is None:
            yield first
            continue
        letters = family(first)
        if family(last) != letters:
            raise ValueError(f"{match.group()} is no range")
        for number in range(int(first[len(letters) :]), int(last[len(letters) :]) + 1):
            yield f"{letters}{number}"


def read_tests(families: Sequence[str], directory: Path = TESTS) -> list[Test]:
    """Every test function that names a rule, in the order of files and lines."""
    return named_in_tests.read_tests(lambda text: named(text, families), directory)


def faults(book: Book, tests: Sequence[Test]) -> list[str]:
    """What is wrong: rules without a test, tests of unknown rules, and tests of what is not here yet."""
    wrong = []
    for test in tests:
        for rule_id in test.ids:
            if rule_id not in book.rules:
                wrong.append(f"tests/{test.file}: {test.name} names {rule_id}, which is no rule")
    for rule in book.rules.values():
        shown = book.shown_by(rule, tests)
        if rule.later:
            wrong += [f"tests/{test.file}: {test.name} names {rule.id}, which waits for {rule.later}" for test in shown]
        elif not any(test.proves for test in shown):
            wrong.append(f"{rule.id} has no test: {rule.rule}")
    return wrong


def table(book: Book, tests: Sequence[Test], letters: str) -> str:
    """
    The rules of one family as a reStructuredText table.
    """
    rows: list[list[str | list[str]]] = [
        [
            rule.id,
            rst.escaped(rule.rule),
            _behaviour(book, rule),
            [f"``{test}``" for test in book.shown_by(rule, tests)],
        ]
        for rule in book.rules.values()
        if family(rule.id) == letters
    ]
    return rst.list_table((8, 32, 32, 28), ("Rule", "What it says", "What we do", "Shown by"), rows)


def _behaviour(book: Book, rule: Rule) -> list[str]:
    if rule.later:
        return [f"{book.parts[rule.later].capitalize()}: not here yet."]
    said = book.resolved(rule)
    return [rst.escaped(f"As {said.id}. {said.ours}" if rule.same else said.ours)]


def tables(book: Book, tests: Sequence[Test]) -> str:
    """Every family with its title and its table."""
    parts = []
    for letters, title in book.families.items():
        heading = f"{title} ({letters})"
        parts.append(rst.section(heading, table(book, tests, letters)))
    return "\n".join(parts)


def summary(book: Book, tests: Sequence[Test]) -> str:
    """The numbers, as a sentence."""
    here = [rule for rule in book.rules.values() if not rule.later]
    return (
        f"{len(book.rules)} rules: {len(here)} are kept here, and {len(book.rules) - len(here)} wait for what is not "
        f"here yet. {len(tests)} tests name them."
    )


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 when something is wrong."""
    book = read_rules()
    tests = read_tests(list(book.families))
    wrong = faults(book, tests)
    for fault in wrong:
        sys.stderr.write(fault + "\n")
    sys.stdout.write(tables(book, tests) if "--rst" in arguments else summary(book, tests) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
