"""
Which tests name which rule: a test shows what its docstring names.

A test that names more than L{BLANKET} of them is listed, but nothing rests on it alone; nor on the tests against
programs of other people, which not everybody can run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from attrs import frozen

TESTS = Path(__file__).resolve().parent.parent / "tests"

BLANKET = 10
"""A test that names more than these proves none of them on its own."""


@frozen
class Test:
    """
    A test that names something.

    @ivar file: its file, below C{tests}.
    @ivar name: its function.
    @ivar ids: what its docstring names.
    """

    __test__ = False

    file: str
    name: str
    ids: Sequence[str]

    @property
    def proves(self) -> bool:
        """Whether a rule may rest on it."""
        return len(self.ids) <= BLANKET and not self.file.startswith("interop/")

    def __str__(self) -> str:
        return f"{self.file}::{self.name}"


def read_tests(named: Callable[[str], Iterable[str]], directory: Path = TESTS) -> list[Test]:
    """
    Every test function that names something, in the order of files and lines.

    @param named: what a docstring names.
    """
    found = []
    for path in sorted(directory.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                ids = list(dict.fromkeys(named(ast.get_docstring(node) or "")))
                if ids:
                    found.append(Test(path.relative_to(directory).as_posix(), node.name, ids))
    return found
