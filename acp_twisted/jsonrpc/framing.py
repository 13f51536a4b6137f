"""
Bytes to messages and back: one message per line (protocol §5.1).

There is no input or output here, and no JSON: L{LineFramer} is handed bytes as they arrive and gives back what they
complete.  The answer does not depend on how the bytes were cut into pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import frozen

HEAD_BYTES: Final = 4096
TAIL_BYTES: Final = 1024
_BOM: Final = b"\xef\xbb\xbf"


@frozen
class Oversized:
    """
    A line longer than the limit.  It was skipped; the next one is as good as ever.

    @ivar head: its first bytes: L{HEAD_BYTES} of them, or as many as the limit allows where that is less.
    @ivar size: the length of the whole line in bytes, without its terminator.
    @ivar tail: its last bytes, L{TAIL_BYTES} of them: some peers write the id of an answer last.
    """

    head: bytes
    size: int
    tail: bytes = b""


@frozen
class Remainder:
    """
    What stood after the last line end when the input ended.  It may be a whole message whose sender forgot the line
    end, or half of one: a response in it counts, a request in it is not to be started (B49).
    """

    message: bytes


def frame(message: bytes) -> bytes:
    """
    The message as it goes over the wire.  The encoders of L{acp_twisted.jsonrpc.messages} never produce a raw line end.
    """
    return message + b"\n"


class LineFramer:
    """
    Cuts a stream of bytes into messages.

    A line ends at byte 0x0A; one 0x0D before it belongs to the end.  Lines of nothing but white space are skipped, and
    so is one UTF-8 byte order mark at the very start of the stream (B38).  Since 0x0A never stands inside a UTF-8
    sequence, a character may be cut anywhere (B36).

    Every chunk is searched once, when it comes, and what is kept is never searched again, so the work is linear in the
    number of bytes whatever the chunks are (B35).  At most C{max_message_bytes} and one chunk are held (B34).
    """

    def __init__(self, max_message_bytes: int) -> None:
        """
        @param max_message_bytes: the length of the longest message that is let through, without its line end.
        @raise ValueError: when that is less than 1.
        """
        if max_message_bytes < 1:
            raise ValueError("max_message_bytes must be at least 1")
        self._limit = max_message_bytes
        self._head_bytes = min(HEAD_BYTES, max_message_bytes)
        self._at_start = True
        self._buffer = bytearray()  # the unfinished line, unless it is being skipped
        self._head = b""
        self._skipped = 0  # bytes of the line that is being skipped; 0 when none is
        self._tail = b""

    @property
    def buffered(self) -> int:
        """
        How many bytes of an unfinished line are held.
        """
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """
        Take the next bytes of the stream, and return what they complete, in order.
        """
        if self._at_start:
            data = self._strip_bom(data)
        pieces = data.split(b"\n")
        rest = pieces.pop()
        events: list[bytes | Oversized] = []
        if pieces:
            if self._buffer or self._skipped:
                first = pieces[0]
                del pieces[0]
                if first:
                    self._keep(first)
                self._end_line(events)
            if len(data) <= self._limit and b"\r" not in data:
                events.extend(piece for piece in pieces if piece and not piece.isspace())
            else:
                self._take_lines(pieces, events)
        if rest:
            self._keep(rest)
        return events

    def finish(self) -> list[Remainder | Oversized]:
        """
        The stream has ended: what is left of it.  At most one event; the framer is empty afterwards.
        """
        self._at_start = False
        events: list[bytes | Oversized] = []
        self._end_line(events)
        return [event if isinstance(event, Oversized) else Remainder(event) for event in events]

    def _strip_bom(self, data: bytes) -> bytes:
        """
        The bytes after the byte order mark, or nothing as long as it can't be told whether there is one.
        """
        if self._buffer:
            data = bytes(self._buffer) + data
            self._buffer.clear()
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._buffer += data
            return b""
        self._at_start = False
        return data.removeprefix(_BOM)

    def _keep(self, piece: bytes) -> None:
        """
        Add to the unfinished line; once it is certainly too long, only its head and its length are kept.
        """
        if self._skipped:
            self._skipped += len(piece)
            self._tail = piece[-TAIL_BYTES:] if len(piece) >= TAIL_BYTES else (self._tail + piece)[-TAIL_BYTES:]
            return
        buffer = self._buffer
        buffer += piece
        # One byte more than the limit may still be the 0x0D of the line end.
        if len(buffer) > self._limit + 1:
            self._head = bytes(buffer[: self._head_bytes])
            self._skipped = len(buffer)
            self._tail = bytes(buffer[-TAIL_BYTES:])
            buffer.clear()

    def _end_line(self, events: list[bytes | Oversized]) -> None:
        """
        The unfinished line is finished.
        """
        if self._skipped:
            tail = self._tail.removesuffix(b"\r")
            events.append(Oversized(self._head, self._skipped - (len(self._tail) - len(tail)), tail))
            self._head = self._tail = b""
            self._skipped = 0
        elif self._buffer:
            line = bytes(self._buffer)
            self._buffer.clear()
            self._take_lines((line,), events)

    def _take_lines(self, lines: Iterable[bytes], events: list[bytes | Oversized]) -> None:
        for whole in lines:
            line = whole.removesuffix(b"\r")
            if len(line) > self._limit:
                events.append(Oversized(line[: self._head_bytes], len(line), line[-TAIL_BYTES:]))
            elif line and not line.isspace():
                events.append(line)
