"""
What our servers tell our clients of the order between two event streams.

The answer to C{session/load} goes on the connection's stream, and the updates before it on their session's, which may
be a socket of its own (protocol 5.2).  So a comment, which every other client passes over, follows the updates, and
another one goes before the answer that belongs behind them.
"""

from __future__ import annotations

from typing import Final

_HERE: Final = b" acp mark "
_BEHIND: Final = b" acp behind "
_MOST_DIGITS: Final = 15


def mark(number: int) -> bytes:
    """
    The comment behind what comes first.

    @param number: greater than those of the marks before it on the same stream.
    """
    return b":%b%d\n\n" % (_HERE, number)


def behind(number: int) -> bytes:
    """
    The comment before an event that comes after the mark of that number, on whichever stream that is.
    """
    return b":%b%d\n\n" % (_BEHIND, number)


def read_mark(comment: bytes) -> int:
    """
    The number of a mark.

    @param comment: a comment without its colon, and without the space behind that.
    @return: 0 when it is none.
    """
    return _number(comment, _HERE[1:])


def read_behind(comment: bytes) -> int:
    """
    Behind which mark the next event comes; see L{read_mark}.
    """
    return _number(comment, _BEHIND[1:])


def _number(comment: bytes, start: bytes) -> int:
    rest = comment.removeprefix(start)
    return int(rest) if rest != comment and rest.isdigit() and len(rest) <= _MOST_DIGITS else 0
