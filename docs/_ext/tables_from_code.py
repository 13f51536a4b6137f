"""
Tables that are made from the code when the manual is built, so that they can't say anything else than the code does.

C{limits-table} lists L{acp_twisted.limits.Limits}, C{errors-table} the classes of L{acp_twisted.errors}.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import attrs
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

from acp_twisted import errors
from acp_twisted.limits import Limits

_IVAR = re.compile(r"@ivar (\w+): (.*?)(?=\n\s*@|\Z)", re.DOTALL)
_MARKUP = re.compile(r"[CL]\{([^{}]*)\}")


def plain(epytext: str) -> str:
    """Epytext as reStructuredText on one line."""
    return _MARKUP.sub(r"``\1``", " ".join(epytext.split()))


def size(value: float, name: str) -> str:
    """A default for people: bytes in KiB or MiB, seconds with their unit."""
    if name.endswith("bytes"):
        for unit, name_of_unit in ((1024 * 1024, "MiB"), (1024, "KiB")):
            if value % unit == 0:
                return f"{value // unit:g} {name_of_unit}"
    if isinstance(value, float):
        return f"{value:g} s"
    return f"{value:,}".replace(",", "\N{NO-BREAK SPACE}")


def limits_rows() -> list[tuple[str, str, str]]:
    """
    Each limit: its name, its default and what it bounds.

    @raise ValueError: when a limit has no word of documentation.
    """
    said = dict(_IVAR.findall(inspect.getdoc(Limits) or ""))
    rows = []
    for attribute in attrs.fields(Limits):
        if attribute.name not in said:
            raise ValueError(f"Limits.{attribute.name} is not documented")
        default: Any = attribute.default
        rows.append((f"``{attribute.name}``", size(default, attribute.name), plain(said[attribute.name])))
    return rows


def errors_rows() -> list[tuple[str, str, str]]:
    """Each public error: its class, its code on the wire (none for what stays on this side), and what it says."""
    rows = []
    for name, kind in vars(errors).items():
        if not (inspect.isclass(kind) and issubclass(kind, errors.AcpError) and kind.__module__ == errors.__name__):
            continue
        code = str(vars(kind).get("CODE", "none"))
        first = (inspect.getdoc(kind) or "").split("\n\n")[0]
        rows.append((f"``{name}``", code, plain(first)))
    return rows


class _Table(Directive):
    """A three-column table."""

    head: tuple[str, str, str]
    widths = (25, 15, 60)

    def rows(self) -> list[tuple[str, str, str]]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        table, group = nodes.table(), nodes.tgroup(cols=3)
        table += group
        for width in self.widths:
            group += nodes.colspec(colwidth=width)
        head, body = nodes.thead(), nodes.tbody()
        group += [head, body]
        head += self.row(self.head)
        for row in self.rows():
            body += self.row(row)
        return [table]

    def row(self, cells: tuple[str, str, str]) -> nodes.row:
        """One row, each cell parsed as reStructuredText."""
        row = nodes.row()
        for cell in cells:
            entry = nodes.entry()
            self.state.nested_parse(StringList([cell], "table from code"), self.content_offset, entry)
            row += entry
        return row


class LimitsTable(_Table):
    """See L{limits_rows}."""

    head = ("Limit", "Default", "What it bounds")

    def rows(self) -> list[tuple[str, str, str]]:
        return limits_rows()


class ErrorsTable(_Table):
    """See L{errors_rows}."""

    head = ("Class", "Code", "When")

    def rows(self) -> list[tuple[str, str, str]]:
        return errors_rows()


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's entry."""
    app.add_directive("limits-table", LimitsTable)
    app.add_directive("errors-table", ErrorsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
