"""
Build the API reference with pydoctor, where every link must lead somewhere.

    python tools/api_docs.py OUTPUT

Links to Python's and other libraries' names are checked by importing them, and not by asking the libraries' sites, so
the build needs no network: what is found goes into an inventory that pydoctor takes as it would take theirs.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import pkgutil
import pydoc
import re
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import acp_twisted

LINK = re.compile(r"L\{(?:[^{}<]*<)?([\w.]+)>?\}")
HEADER = "# Sphinx inventory version 2\n# Project: {name}\n# Version: 0\n# The remainder is compressed using zlib.\n"
BASES = {
    "twisted": "https://docs.twisted.org/en/stable/api",
    "python": "https://docs.python.org/3",
}


def modules() -> Iterator[ModuleType]:
    """The package and every module in it."""
    yield acp_twisted
    for found in pkgutil.walk_packages(acp_twisted.__path__, "acp_twisted."):
        yield importlib.import_module(found.name)


def full_name(value: object) -> str | None:
    """The name by which other people's object can be imported; nothing for what is ours or has no name."""
    module = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    if not isinstance(module, str) or module.split(".")[0] == "acp_twisted":
        return None
    if inspect.ismodule(value):
        return module
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return f"{module}.{name}" if isinstance(name, str) else None


def foreign_links(module: ModuleType) -> dict[str, str]:
    """
    The link targets in a module's docstrings that are other people's: as written, and in full.
    """
    found: dict[str, str] = {}
    for target in set(LINK.findall(inspect.getsource(module))):
        value: object = module
        for part in target.split("."):
            value = getattr(value, part, None)
        if value is None and target != "None":
            value = pydoc.locate(target)
        if target in vars(builtins):
            name: str | None = f"builtins.{target}"
        else:
            name = full_name(value)
        if name is not None:
            found[target] = found[name] = name
    return found


def inventory(project: str, names: dict[str, str]) -> bytes:
    """Names and pages in the form of Sphinx's C{objects.inv}."""
    page = "{}.html" if project == "twisted" else "search.html?q={}"
    lines = [f"{name} py:class 1 {page.format(full)} -" for name, full in sorted(names.items())]
    return HEADER.format(name=project).encode() + zlib.compress("\n".join([*lines, ""]).encode())


def main() -> int:
    """Build into the folder that is named; the exit status is pydoctor's, which fails on any warning."""
    (output,) = sys.argv[1:]
    names: dict[str, str] = {}
    for module in modules():
        names |= foreign_links(module)
    with tempfile.TemporaryDirectory() as folder:
        options = []
        for project, base in BASES.items():
            is_of = {
                name: full
                for name, full in names.items()
                if (full.split(".")[0] == "twisted") == (project == "twisted")
            }
            path = Path(folder) / f"{project}.inv"
            path.write_bytes(inventory(project, is_of))
            options.append(f"--intersphinx-file={path}::{base}")
        command = [sys.executable, "-m", "pydoctor", "-q", "-W", f"--html-output={output}", *options]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
