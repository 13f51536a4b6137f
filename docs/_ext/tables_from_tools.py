"""
Tables that a tool makes of a file of data, of the code and of the tests, and that are errors of the build when they are
wrong.

C{java-names} maps the names of the Java SDK to ours, C{requirements} is our verdict on what the protocol requires.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import java_names  # noqa: E402 - the path comes first
import requirements  # noqa: E402


class JavaNames(SphinxDirective):
    """
    The number of the names, and a section with a table for each subject.
    """

    def run(self) -> list[nodes.Node]:
        table = java_names.read()
        wrong = java_names.faults(table)
        if wrong:
            raise self.error("; ".join(wrong))
        self.env.note_dependency(str(java_names.NAMES))
        self.env.note_reread()  # the code may have changed
        text = f"{java_names.summary(table)}\n\n{java_names.tables(table)}"
        return self.parse_text_to_nodes(text, allow_section_headings=True)


class Requirements(SphinxDirective):
    """
    The number of the requirements, and a section with a table for each family.
    """

    def run(self) -> list[nodes.Node]:
        book = requirements.read()
        tests = requirements.read_tests(book)
        wrong = requirements.faults(book, tests)
        if wrong:
            raise self.error("; ".join(wrong))
        self.env.note_dependency(str(requirements.REQUIREMENTS))
        self.env.note_reread()
        text = f"{requirements.summary(book, tests)}\n\n{requirements.tables(book, tests)}"
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's entry."""
    app.add_directive("java-names", JavaNames)
    app.add_directive("requirements", Requirements)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
