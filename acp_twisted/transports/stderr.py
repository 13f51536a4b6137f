"""
What an agent writes to its standard error: read always, kept in part.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from acp_twisted.limits import KiB

_log = Logger()

MAX_LINE_BYTES = 8 * KiB
"""
A longer line reaches the callback in pieces.
"""


class StderrTail:
    """
    The last bytes of a stream, and its lines for whoever wants them.
    """

    def __init__(self, max_bytes: int, on_line: Callable[[str], object] | None) -> None:
        """
        @param max_bytes: how much is remembered.
        @param on_line: called with every line, without its end; bytes that are no UTF-8 are replaced.
        """
        self._max_bytes = max_bytes
        self._on_line = on_line
        self._tail = bytearray()
        self._line = bytearray()
        self._failed = False

    @property
    def text(self) -> str:
        """
        What is remembered.
        """
        return self._tail.decode("utf-8", "replace")

    def feed(self, data: bytes) -> None:
        self._tail += data[-self._max_bytes :]
        del self._tail[: -self._max_bytes]
        if self._on_line is None:
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._take(line)
            self._end_line()
        self._take(rest)

    def end(self) -> None:
        """
        The stream is over: its last line may have no end.
        """
        if self._line:
            self._end_line()

    def _take(self, piece: bytes) -> None:
        while len(self._line) + len(piece) > MAX_LINE_BYTES:
            room = MAX_LINE_BYTES - len(self._line)
            self._line += piece[:room]
            piece = piece[room:]
            self._end_line()
        self._line += piece

    def _end_line(self) -> None:
        text = self._line.decode("utf-8", "replace").removesuffix("\r")
        self._line.clear()
        if self._on_line is None:
            return
        try:
            self._on_line(text)
        except Exception:
            # Once is enough: an agent may write many lines.
            if not self._failed:
                self._failed = True
                _log.failure(
                    "the callback for an agent's standard error failed; it is called again, and this not logged"
                )
