"""
Every requirement of the protocol has a verdict, and what is met has a test; and the check that says so can fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import requirements
from named_in_tests import BLANKET, Test
from requirements import Book, Requirement, faults, read, read_tests, tables


def test_what_is_met_is_shown() -> None:
    """No requirement that is met is without a test, and no test names one that is not, or that there is not."""
    book = read()
    assert faults(book, read_tests(book)) == []


def test_the_list_is_whole() -> None:
    """240 requirements, as strong as the audit has them."""
    levels = [each.level for each in read().requirements.values()]
    assert len(levels) == 240
    assert {level: levels.count(level) for level in requirements.LEVELS} == {
        "must": 120,
        "must not": 30,
        "should": 52,
        "should not": 4,
        "may": 34,
    }


@pytest.mark.parametrize(
    ("docstring", "names"),
    [
        ("It is so (A-ONE-TWO).", ["A-ONE-TWO"]),
        ("A-ONE, B-TWO: so it is", ["A-ONE", "B-TWO"]),
        ("UTF-8, C-ONE, A, xA-ONE, A-ONE- and A-one are none", []),
        ("of the past: ACP-V1-A-ONE", []),
        ("abbreviated: A-ONE-…", []),
    ],
)
def test_names_in_docstrings(docstring: str, names: list[str]) -> None:
    """Whole words that begin with that of a family."""
    assert list(Book({"A": "a", "B": "b"}, {}).named(docstring)) == names


def book_of(**verdicts: str) -> Book:
    """Some requirements of the family A, by their last word."""
    found = {
        f"A-{word}": Requirement(f"A-{word}", number, "must", "both", f"do {word}", verdict, "why")  # type: ignore[arg-type]
        for number, (word, verdict) in enumerate(verdicts.items(), 1)
    }
    return Book({"A": "All"}, found)


def test_the_check_finds_what_is_wrong() -> None:
    """What is met and has no test, or only one of too many or of a foreign program; what is not met and has one."""
    book = book_of(ONE="met", TWO="met", THREE="host", FOUR="met", FIVE="met")
    crowd = [f"A-X{number}" for number in range(BLANKET)]
    tests = [
        Test("test_a.py", "test_one", ["A-ONE"]),
        Test("test_a.py", "test_three", ["A-THREE"]),
        Test("interop/test_b.py", "test_peer", ["A-FOUR"]),
        Test("test_a.py", "test_all", ["A-FIVE", *crowd]),
    ]
    assert [fault for fault in faults(book, tests) if "A-X" not in fault] == [
        "A-TWO has no test: do TWO",
        "tests/test_a.py: test_three names A-THREE, which is not met",
        "A-FOUR has no test: do FOUR",
        "A-FIVE has no test: do FIVE",
    ]
    assert "tests/test_a.py: test_all names A-X0, which is no requirement" in faults(book, tests)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('number = 2\nlevel = "must"\nrole = "both"\nsays = "s"\nverdict = "met"', "the number 1"),
        ('number = 1\nlevel = "ought"\nrole = "both"\nsays = "s"\nverdict = "met"', "no family, level or role"),
        ('number = 1\nlevel = "must"\nrole = "both"\nsays = "s"\nverdict = "maybe"', "has no verdict"),
        ('number = 1\nlevel = "must"\nrole = "both"\nsays = "s"\nverdict = "host"', "does not say why"),
    ],
)
def test_an_entry_that_says_too_little_is_refused(tmp_path: Path, entry: str, words: str) -> None:
    """Each has its number, and a verdict with a reason."""
    path = tmp_path / "requirements.toml"
    path.write_text(f'[families]\nA = "All"\n[A-ONE]\n{entry}\n')
    with pytest.raises(ValueError, match=words):
        read(path)


def test_a_row_of_the_table() -> None:
    """Number and strength, name and words, verdict and reason, and every test."""
    text = tables(book_of(ONE="met", TWO="host"), [Test("test_a.py", "test_one", ["A-ONE"])])
    assert text.startswith("All\n---\n")
    assert "   * - | 1\n       | MUST, both\n     - | ``A-ONE``\n       | do ONE\n     - | Met.\n       | why\n" in text
    assert text.count("``test_a.py::test_one``") == 1
    assert "Whoever writes the program." in text
