"""
Pieces of reStructuredText for the tables that the tools write.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def escaped(text: str) -> str:
    """Text, none of which is markup."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def cell(content: str | Sequence[str], *, first: bool = False) -> list[str]:
    """
    The lines of a cell of a list table: a paragraph, or several lines one under the other.

    @param first: it begins a row.
    """
    lead = "   * -" if first else "     -"
    if isinstance(content, str):
        return [f"{lead} {content}".rstrip()]
    return [f"{lead if number == 0 else '      '} | {line}" for number, line in enumerate(content)] or [lead]


def list_table(widths: Sequence[int], head: Sequence[str], rows: Sequence[Sequence[str | Sequence[str]]]) -> str:
    """
    A table, row by row.
    """
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", ""]
    for row in (head, *rows):
        for number, content in enumerate(row):
            lines += cell(content, first=number == 0)
    return "\n".join(lines) + "\n"


def section(title: str, text: str, line: str = "-") -> str:
    """A section with its heading."""
    return f"{title}\n{line * len(title)}\n\n{text}\n"
