"""
Make the protocol's classes from its JSON Schema::

    python tools/generate_schema.py SCHEMA.json [UNSTABLE.json] -o acp_twisted/schema/v1.py

The name of the output, C{v1.py} or C{v2.py}, says which version it is.  The unstable schema has everything of the
stable one and more.  What is only in it goes to a second module beside the first, C{v1_unstable.py}; its members of
stable classes are marked.  The docstrings are ours (C{schema_docs.py} and, for what differs in version 2,
C{schema_docs_v2.py}), and so is what the schema does not say (C{schema_tables.py}).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import schema_tables
from schema_docs import DOCS
from schema_docs_v2 import DOCS_V2
from schema_model import Class, Generator, Schema

WIDTH = 120
VERSIONS = {"v1": (schema_tables.V1, DOCS), "v2": (schema_tables.V2, {**DOCS, **DOCS_V2})}
"""What we know of each version, and what we say of its classes."""
VALUES = (
    "META",
    "UNSET",
    "Alternatives",
    "ByItems",
    "ByMember",
    "MetaOnly",
    "Model",
    "Tagged",
    "UnknownVariant",
    "Unset",
    "Wire",
)


def wrap_docstring(text: str, unstable: bool) -> list[str]:
    lines = textwrap.wrap(("Unstable.  " if unstable else "") + text, WIDTH - 4, break_long_words=False)
    return ['    """', *(f"    {line}" for line in lines), '    """']


def write_class(made: Class, docs: dict[str, str]) -> list[str]:
    """
    The source of a class.
    """
    if made.name not in docs:
        raise SystemExit(f"{made.name} has no docstring in tools/schema_docs.py")
    lines = ["", ""]
    decorated = bool(made.members)
    if decorated:
        lines.append("@define(kw_only=True, eq=False, repr=False)")
    lines += [f"class {made.name}({made.base}):", *wrap_docstring(docs[made.name], made.unstable)]
    if not decorated:
        lines += ["", "    __slots__ = ()"]
        if made.tag:
            lines += ["", f"    TAG: ClassVar[tuple[str, str] | None] = {made.tag!r}".replace("'", '"')]
        return lines
    lines.append("")
    lines += [f"    {each.declaration()}" for each in made.members]
    if made.extra:
        lines.append("    extra: dict[str, Any] | None = None")
    lines.append("")
    if made.tag:
        lines.append(f"    TAG: ClassVar[tuple[str, str] | None] = {made.tag!r}".replace("'", '"'))
    if made.one_of:
        inner = ", ".join(json.dumps(each) for each in made.one_of)
        lines.append(f"    ONE_OF: ClassVar[tuple[str, ...]] = ({inner})")
    lines.append("    WIRE: ClassVar[Wire] = {")
    lines += [f"        {each.wire_entry()}," for each in (*made.members, *made.inherited)]
    lines.append("    }")
    return lines


def write_alias(name: str, parts: list[str], elsewhere: set[str]) -> list[str]:
    """
    The source of a type alias.  Classes of the other module are in it for type checkers only, since to have them at
    run time would load that module.
    """
    here = [part for part in parts if part not in elsewhere]
    if here != parts:
        lines = ["", "if TYPE_CHECKING:", *(f"    {line}" for line in alias_lines(name, parts)), "else:"]
        return [*lines, *(f"    {line}".replace(": TypeAlias", "") for line in alias_lines(name, here)), ""]
    return alias_lines(name, parts)


def alias_lines(name: str, parts: list[str]) -> list[str]:
    """
    An alias on one line, or on several.
    """
    one = f"{name}: TypeAlias = {' | '.join(parts)}"
    if len(one) <= WIDTH:
        return [one]
    one = f"    {' | '.join(parts)}"
    first, *rest = parts
    inner = [one] if len(one) <= WIDTH else [f"    {first}", *(f"    | {part}" for part in rest)]
    return [f"{name}: TypeAlias = (", *inner, ")"]


HEADER = '''"""
{title}

Made by C{{tools/generate_schema.py}}: change that, not this.
"""
{lint}
from __future__ import annotations
'''

LAZY = """

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        from acp_twisted.schema import {version}_unstable  # noqa: PLC0415

        try:
            value = vars({version}_unstable)[name]
        except KeyError:
            raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}") from None
        globals()[name] = value
        return value
"""


def imported(module: str, names: list[str], indent: str = "") -> list[str]:
    """
    The lines of one import.
    """
    one = f"{indent}from {module} import {', '.join(names)}"
    if len(one) <= WIDTH:
        return [one]
    return [f"{indent}from {module} import (", *(f"{indent}    {name}," for name in names), f"{indent})"]


def write_module(generator: Generator, docs: dict[str, str], version: str, *, unstable: bool, other: str | None) -> str:
    """
    The source of one module.

    @param other: the module with the other half of the protocol, if there is one.
    """

    def mine(name: str) -> bool:
        return generator.is_unstable(name) == unstable

    classes = [each for each in generator.ordered() if each.unstable == unstable]
    elsewhere = {each.name for each in generator.classes.values() if each.unstable != unstable}
    union_names = [name for name in generator.aliases if generator.is_union(name)]
    simple = {name: parts for name, parts in generator.aliases.items() if name not in union_names and mine(name)}
    body: list[str] = []
    for name, parts in simple.items():
        body += write_alias(name, parts, set())
    for each in classes:
        body += write_class(each, docs)
    body += ["", ""]
    for name in union_names:
        if mine(name):
            body += write_alias(name, generator.aliases[name], elsewhere)
    if not unstable:
        # All of them: they are but names, and to look one up must not load the other module.
        unions = sorted(generator.unions.items(), key=lambda each: generator.is_unstable(each[0]))
        body += ["", "UNIONS: dict[str, Alternatives] = {"]
        body += [f'    "{name}": {union},' for name, union in unions]
        body += ["}"]
    text = "\n".join(body).rstrip() + "\n"
    if other and not unstable:
        text += LAZY.format(version=version)

    def used(names: list[str]) -> list[str]:
        return sorted(name for name in names if re.search(rf"\b{name}\b", text))

    lines = ["from collections.abc import Sequence"]
    checking = ["TYPE_CHECKING"] if other else []
    lines.append(f"from typing import {', '.join(checking + used(['Any', 'ClassVar', 'Literal', 'TypeAlias']))}")
    lines += ["", f"from attrs import {', '.join(used(['Factory', 'define']))}", ""]
    everything = [*generator.classes, *generator.aliases]
    if other:
        others = [name for name in everything if name in elsewhere or (name in generator.aliases and not mine(name))]
        if unstable:
            bases = sorted({each.base for each in classes} & elsewhere)
            lines += imported(other, bases)
            others = [name for name in used(others) if name not in bases]
        else:
            others = [f"{name} as {name}" for name in sorted(others)]
    values = used(list(VALUES))
    values.sort(key=lambda name: (not name.isupper(), name))
    lines += imported("acp_twisted.schema.values", values)
    if other:
        lines += ["", "if TYPE_CHECKING:", *imported(other, others, "    ")]
    title = f"Protocol version {version[1:]}"
    title += ": the types that are not settled yet." if unstable else "."
    lint = "" if unstable or not other else "\n# ruff: noqa: I001, PLC0414  (mypy wants the aliases)\n"
    return HEADER.format(title=title, lint=lint) + "\n" + "\n".join(lines) + "\n\n" + text


def generate(stable: Schema, unstable: Schema | None, output: Path) -> dict[Path, str]:
    """
    The text of every module, by its path.
    """
    package = "acp_twisted.schema"
    name = output.stem
    tables, docs = VERSIONS[name]
    generator = Generator(stable, unstable, tables)
    if unstable is None:
        return {output: write_module(generator, docs, name, unstable=False, other=None)}
    return {
        output: write_module(generator, docs, name, unstable=False, other=f"{package}.{name}_unstable"),
        output.with_name(f"{name}_unstable.py"): write_module(
            generator, docs, name, unstable=True, other=f"{package}.{name}"
        ),
    }


def main(arguments: list[str] | None = None) -> None:
    """
    The command.
    """
    parser = argparse.ArgumentParser(description="Make the protocol's classes from its JSON Schema.")
    parser.add_argument("schema", type=Path)
    parser.add_argument("unstable", type=Path, nargs="?")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    if options.output.stem not in VERSIONS:
        parser.error(f"the output is named {' or '.join(f'{each}.py' for each in VERSIONS)}")
    stable = json.loads(options.schema.read_text())
    unstable = json.loads(options.unstable.read_text()) if options.unstable else None
    for path, text in generate(stable, unstable, options.output).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
