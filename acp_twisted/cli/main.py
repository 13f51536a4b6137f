"""
The console script C{acp-twisted}.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from acp_twisted.cli.options import parse


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """
    The program.

    @param argv: its arguments; by default those of the process.
    @raise SystemExit: always, with a L{Status<acp_twisted.cli.status.Status>}.
    """
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] == "conductor":
        from acp_twisted.cli.conductor import run  # noqa: PLC0415 - for nothing else

        run(words[1:])
    options = parse(words)
    from acp_twisted.cli.prompt import run_prompt  # noqa: PLC0415 - not for --help

    sys.exit(run_prompt(options))


if __name__ == "__main__":
    main()
