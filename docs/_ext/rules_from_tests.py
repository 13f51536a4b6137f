"""
The tables of the rules about cancellation, made from the rules and from the tests that name them.

C{cancellation-rules} writes them all.  A rule without a test is an error of the build.
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

import cancellation_rules  # noqa: E402 - the path comes first


class CancellationRules(SphinxDirective):
    """
    The number of the rules, and a section with a table for each family.
    """

    def run(self) -> list[nodes.Node]:
        book = cancellation_rules.read_rules()
        tests = cancellation_rules.read_tests(list(book.families))
        wrong = cancellation_rules.faults(book, tests)
        if wrong:
            raise self.error("; ".join(wrong))
        self.env.note_dependency(str(cancellation_rules.RULES))
        for file in {test.file for test in tests}:
            self.env.note_dependency(str(cancellation_rules.TESTS / file))
        text = f"{cancellation_rules.summary(book, tests)}\n\n{cancellation_rules.tables(book, tests)}"
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's entry."""
    app.add_directive("cancellation-rules", CancellationRules)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
