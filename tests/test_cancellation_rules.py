"""
Every rule about cancellation has a test that shows it, and the check that says so can fail.
"""

from __future__ import annotations

import re
from pathlib import Path

import cancellation_rules
import pytest
from cancellation_rules import Book, Rule, Test, faults, named, read_rules, read_tests, table

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ["X", "V1C", "C", "J", "JT", "M"]


def test_every_rule_has_a_test() -> None:
    """No rule that is kept here is without one, and no test names a rule that there is not."""
    book = read_rules()
    assert faults(book, read_tests(list(book.families))) == []


def test_the_families_are_whole() -> None:
    """Each family is numbered from 1 without a gap, so that no rule is forgotten by a slip."""
    book = read_rules()
    for letters in book.families:
        numbers = [
            int(rule_id[len(letters) :]) for rule_id in book.rules if cancellation_rules.family(rule_id) == letters
        ]
        assert numbers == list(range(1, len(numbers) + 1)), letters
    sizes = {letters: sum(cancellation_rules.family(rule_id) == letters for rule_id in book.rules) for letters in "XCP"}
    assert sizes == {"X": 14, "C": 64, "P": 8}


@pytest.mark.parametrize(
    ("docstring", "ids"),
    [
        ("It is so (X9).", ["X9"]),
        ("V1C5, C12: so it is", ["V1C5", "C12"]),
        ("all three (M4-M6, X1)", ["M4", "M5", "M6", "X1"]),
        ("section J2.2 and 1.143 are something else, X509cert and p99 and MAX9 too", []),
        ("at the end J2.", ["J2"]),
        ("JT3 is not J3, nor T3", ["JT3", "J3"]),
        ("x9 and X and -X9", []),
    ],
)
def test_ids_in_docstrings(docstring: str, ids: list[str]) -> None:
    """Whole words and ranges; nothing that only looks like one."""
    assert list(named(docstring, FAMILIES)) == ids


def test_a_range_is_of_one_family() -> None:
    """Anything else is a slip."""
    with pytest.raises(ValueError, match="X1-C3"):
        list(named("X1-C3", FAMILIES))


def book_of(*rules: Rule) -> Book:
    """Some rules of the families X and C."""
    return Book({"X": "x", "C": "c"}, {"v2": "version 2"}, {rule.id: rule for rule in rules})


def test_the_check_finds_what_is_wrong() -> None:
    """A rule without a test, one that rests on too broad a test or on a foreign program, and tests of nothing."""
    book = book_of(
        Rule("X1", "shown", "so"),
        Rule("X2", "not shown", "so"),
        Rule("X3", "shown by what says the same", same="X1"),
        Rule("X4", "for later", later="v2"),
        Rule("X5", "with peers alone", "so"),
        Rule("X6", "in a crowd alone", "so"),
    )
    crowd = [f"C{number}" for number in range(1, 1 + cancellation_rules.BLANKET)]
    book.rules.update({rule_id: Rule(rule_id, "crowd", same="X1") for rule_id in crowd})
    tests = [
        Test("test_a.py", "test_one", ["X1"]),
        Test("test_a.py", "test_early", ["X4"]),
        Test("interop/test_b.py", "test_peer", ["X5"]),
        Test("test_a.py", "test_all", ["X6", *crowd]),
        Test("test_a.py", "test_slip", ["X99"]),
    ]
    assert faults(book, tests) == [
        "tests/test_a.py: test_slip names X99, which is no rule",
        "X2 has no test: not shown",
        "tests/test_a.py: test_early names X4, which waits for v2",
        "X5 has no test: with peers alone",
        "X6 has no test: in a crowd alone",
    ]


def test_tests_are_found_in_files(tmp_path: Path) -> None:
    """Functions and methods, async ones too; helpers and docstrings of modules do not count."""
    (tmp_path / "test_x.py").write_text(
        '"""X1."""\n'
        'def helper():\n    """X2."""\n'
        'async def test_a():\n    """X3, and X3 again."""\n'
        'class T:\n    def test_b(self):\n        """C4-C5."""\n'
        "def test_c():\n    pass\n"
    )
    found = read_tests(FAMILIES, tmp_path)
    assert sorted((test.name, *test.ids) for test in found) == [("test_a", "X3"), ("test_b", "C4", "C5")]


@pytest.mark.parametrize(
    "entry",
    ['rule = "r"', 'rule = "r"\nours = "o"\nsame = "X2"', 'rule = "r"\nsame = "X9"', 'rule = "r"\nlater = "soon"'],
)
def test_an_entry_that_says_nothing_is_refused(tmp_path: Path, entry: str) -> None:
    """Each says one thing: what we do, what says the same, or what it waits for."""
    path = tmp_path / "rules.toml"
    path.write_text(f'[families]\nX = "x"\n[later]\nv2 = "2"\n[X1]\n{entry}\n[X2]\nrule = "r"\nours = "o"\n')
    with pytest.raises(ValueError, match="X1"):
        read_rules(path)


def test_a_row_of_the_table() -> None:
    """Rule, behaviour, and every test; markup in a rule is text."""
    book = book_of(
        Rule("X1", "ids_ of *one* kind", "so"), Rule("X2", "the same", same="X1"), Rule("X3", "l", later="v2")
    )
    text = table(book, [Test("test_a.py", "test_one", ["X1"]), Test("test_b.py", "test_two", ["X2"])], "X")
    assert r"     - ids\_ of \*one\* kind" in text
    assert text.count("``test_a.py::test_one``") == 2
    assert text.count("``test_b.py::test_two``") == 1
    assert "As X1. so" in text
    assert "Version 2: not here yet." in text


def test_the_manual_says_whose_policy_the_durations_are() -> None:
    """The two durations are this library's, not the protocol's, and the page on cancellation says so (J20)."""
    page = (ROOT / "docs" / "explanation" / "cancellation.rst").read_text(encoding="utf-8")
    policy = re.search(r"\nPolicy of this library\n=*-+\n(.*?)\n[^\n]+\n-{3,}\n", page, re.DOTALL)
    assert policy is not None
    words = " ".join(policy[1].split())
    assert "the protocol sets no limits" in words
    assert "cancel_grace_period" in words
    assert "max_prompt_duration" in words
