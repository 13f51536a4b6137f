"""
Render docs/diagrams/*.dot to SVG with Graphviz, for a manual that is built without it.

    python tools/render_diagrams.py            writes each .svg that is not of its .dot
    python tools/render_diagrams.py --check    writes nothing, needs no Graphviz; fails if one is not of its .dot

The first line of an .svg is a comment with the digest of its .dot.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

DIAGRAMS = Path(__file__).resolve().parent.parent / "docs" / "diagrams"


def mark(source: Path) -> str:
    """The first line of the drawing of that source."""
    return f"<!-- {source.name} sha256 {hashlib.sha256(source.read_bytes()).hexdigest()} -->\n"


def stale(source: Path) -> bool:
    """Whether the drawing is missing, or is of another source."""
    drawing = source.with_suffix(".svg")
    return not drawing.exists() or not drawing.read_text(encoding="utf-8").startswith(mark(source))


def render(source: Path) -> None:
    """Draw one diagram."""
    done = subprocess.run(["dot", "-Tsvg", str(source)], capture_output=True, text=True, check=True)
    body = re.sub(r"<!--.*?-->\n?", "", done.stdout[done.stdout.index("<svg") :], flags=re.DOTALL)
    source.with_suffix(".svg").write_text(mark(source) + body, encoding="utf-8")


def main() -> int:
    """The exit status: 1 when C{--check} found a stale drawing."""
    found = [source for source in sorted(DIAGRAMS.glob("*.dot")) if stale(source)]
    for source in found:
        if "--check" in sys.argv[1:]:
            sys.stderr.write(f"{source.with_suffix('.svg')} is not of {source.name}: run tools/render_diagrams.py\n")
        else:
            render(source)
    return 1 if found and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
