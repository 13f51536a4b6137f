"""The package's public names are the private ones, and nothing else is public."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import types
from pathlib import Path

import pytest

import acp_twisted

SOURCE = Path(acp_twisted.__file__)


def imports(body: list[ast.stmt]) -> dict[str, str]:
    """What some lines import: each name, and the module that it is from."""
    return {
        alias.asname or alias.name: node.module or ""
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module not in ("__future__", "typing")
        for alias in node.names
    }


def later() -> dict[str, str]:
    """What the package imports when it is asked for it, as it shows that to type checkers."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    return {
        name: module for node in tree.body if isinstance(node, ast.If) for name, module in imports(node.body).items()
    }


def exported() -> dict[str, str]:
    """Every name of the package's top, and the module that it is from."""
    return imports(ast.parse(SOURCE.read_text(encoding="utf-8")).body) | later()


@pytest.mark.parametrize("name", acp_twisted.__all__)
def test_a_public_name_is_the_private_one(name: str) -> None:
    """C{acp_twisted.X} is the object that its own module has, not a copy or a wrapper."""
    module = importlib.import_module(exported()[name])
    assert getattr(acp_twisted, name) is getattr(module, name)


def test_a_public_class_says_which_room_it_is_of() -> None:
    """Every public class and function is made in the room that it is imported from, so that tracebacks tell."""
    strangers = {
        name: value.__module__
        for name, value in ((name, getattr(acp_twisted, name)) for name in acp_twisted.__all__)
        if isinstance(value, (type, types.FunctionType))
        and value.__module__.split(".")[:2] != exported()[name].split(".")[:2]
    }
    assert strangers == {}


def test_everything_imported_is_public_and_sorted() -> None:
    """C{__all__} has each imported name once, in order, and the package's top does nothing else."""
    assert sorted(acp_twisted.__all__) == sorted(exported())
    assert len(set(acp_twisted.__all__)) == len(acp_twisted.__all__)
    body = ast.parse(SOURCE.read_text(encoding="utf-8")).body
    assert {type(node) for node in body} <= {ast.Expr, ast.ImportFrom, ast.Assign, ast.If, ast.FunctionDef}


def test_what_is_imported_later() -> None:
    """The rooms that few need are imported by the first use of their names, and type checkers know those."""
    assert later() == acp_twisted._LATER
    script = (
        "import sys, acp_twisted\n"
        "rooms = {name.rpartition('.')[0] for name in acp_twisted._LATER.values()}\n"
        "assert not rooms & set(sys.modules), rooms & set(sys.modules)\n"
        "for name in acp_twisted._LATER: assert getattr(acp_twisted, name).__name__ == name\n"
        "assert set(acp_twisted._LATER) <= set(dir(acp_twisted))\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = acp_twisted.nothing
