"""The manual's configuration; C{sphinx-build -W --keep-going docs docs/_build/html} builds it."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

from acp_twisted import __version__  # noqa: E402 - the path comes first

project = "acp_twisted"
author = "the acp_twisted contributors"
project_copyright = "the acp_twisted contributors"
version = release = __version__

extensions = ["rules_from_tests", "tables_from_code", "tables_from_tools"]
exclude_patterns = ["_build", "diagrams/*.rst"]
html_theme = "furo"
html_title = f"acp_twisted {release}"
default_role = "literal"
highlight_language = "text"
