"""
An event stream to messages (protocol §5.2: one event for each message), by the rules of the HTML standard.

There is no input or output here, and no JSON: L{EventStreamParser} is handed bytes as they arrive and gives back what
they complete.  The answer does not depend on how the bytes were cut into pieces.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from acp_twisted.jsonrpc.framing import HEAD_BYTES, TAIL_BYTES, Oversized
from acp_twisted.transports.http.marks import read_behind, read_mark

MAX_FIELD_BYTES: Final = 1024
"""
The longest C{event} and C{id} that are taken; a longer one is passed over, as one that is not valid.
"""

_LINE_ENDS: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"
_MESSAGE_TYPES: Final = (b"", b"message")


@frozen
class ServerEvent:
    """
    One event that has data.

    @ivar message: its data, as bytes; what should be UTF-8 is the reader's to find out.
    @ivar event_id: the stream's last event id when it ended; empty when the server gives none.
    @ivar behind: the number of the mark that it comes behind, by L{marks<acp_twisted.transports.http.marks>}; or 0.
    """

    message: bytes | Oversized
    event_id: bytes
    behind: int = 0


class EventStreamParser:
    """
    Cuts an event stream into its events.

    Lines end with CR, LF or both.  Comments that are no L{marks<acp_twisted.transports.http.marks>}, unknown fields,
    events without data and events of a type of their own are passed over.  Data longer than the limit is skipped to the
    end of its event.  Every byte is looked at once, and at most the limit and one chunk are held.

    @ivar last_event_id: the C{id} of the last event that ended; it holds until another comes.
    @ivar mark: the number of the last mark.
    @ivar retry: how many milliseconds the server wants a reader to wait before it comes back; L{None} if it did not
        say.
    """

    def __init__(self, max_message_bytes: int) -> None:
        """
        @param max_message_bytes: the length of the longest data that is let through.
        @raise ValueError: when that is less than 1.
        """
        if max_message_bytes < 1:
            raise ValueError("max_message_bytes must be at least 1")
        self.last_event_id = b""
        self.mark = 0
        self.retry: int | None = None
        self._limit = max_message_bytes
        self._line = bytearray()
        self._at_start = True
        self._after_cr = False
        self._skipping_line = False
        self._skipping_data = False
        self._blank_line = True
        self._id = b""
        self._type = b""
        self._behind = 0
        self._data = bytearray()
        self._data_lines = 0
        self._size = 0
        self._tail = b""

    @property
    def in_event(self) -> bool:
        """
        Whether an event has begun and not ended, which an end of the stream would lose.
        """
        return bool(self._line or self._data_lines or self._skipping_data)

    def feed(self, data: bytes) -> list[ServerEvent]:
        """
        Take the next bytes of the stream, and return the events that they complete, in order.
        """
        if self._at_start:
            data = self._strip_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        events: list[ServerEvent] = []
        start = 0
        for end in _LINE_ENDS.finditer(data):
            self._grow(data[start : end.start()])
            self._end_line(events)
            start = end.end()
        if data[-1:] == b"\r":
            self._after_cr = True
        self._grow(data[start:])
        return events

    def _strip_bom(self, data: bytes) -> bytes:
        if self._line:
            data = bytes(self._line) + data
            self._line.clear()
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._line += data
            return b""
        self._at_start = False
        return data.removeprefix(_BOM)

    def _grow(self, piece: bytes) -> None:
        """
        Add to the unfinished line.  One that is certainly too long is not kept.
        """
        if not piece:
            return
        if self._skipping_data:
            self._skip(piece)
        elif not self._skipping_line:
            self._line += piece
            self._bound_line()

    def _bound_line(self) -> None:
        line = self._line
        if len(line) <= MAX_FIELD_BYTES:
            return
        if line.startswith(b"data:"):
            # At least this long: with a space after the colon, and with a line end before it where there was a line.
            if len(line) - len(b"data: ") + len(self._data) + bool(self._data_lines) > self._limit:
                value = bytes(line[5:]).removeprefix(b" ")
                line.clear()
                self._begin_skipping(value)
                self._blank_line = False
        else:
            line.clear()
            self._skipping_line = True

    def _begin_skipping(self, value: bytes) -> None:
        """
        The data is too long: keep its head, its tail and its length.
        """
        if self._data_lines:
            self._data += b"\n"
        self._data += value
        self._data_lines += 1
        self._size = len(self._data)
        self._tail = bytes(self._data[-TAIL_BYTES:])
        del self._data[min(HEAD_BYTES, self._limit) :]
        self._skipping_data = True
        self._blank_line = True

    def _skip(self, piece: bytes) -> None:
        self._blank_line = False
        self._size += len(piece)
        self._tail = (self._tail + piece[-TAIL_BYTES:])[-TAIL_BYTES:]

    def _end_line(self, events: list[ServerEvent]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._skipping_line:
            self._skipping_line = False
        elif self._skipping_data:
            # What stands in later lines is counted as data, whatever it is: the event is refused in any case.
            if self._blank_line:
                self._end_event(events)
            self._blank_line = True
        elif line:
            name, _, value = line.partition(b":")
            self._field(name, value.removeprefix(b" "))
        else:
            self._end_event(events)

    def _field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            size = len(self._data) + len(value) + (1 if self._data_lines else 0)
            if size > self._limit:
                self._begin_skipping(value)
                return
            if self._data_lines:
                self._data += b"\n"
            self._data += value
            self._data_lines += 1
        elif name == b"event":
            self._type = value
        elif name == b"id":
            if b"\0" not in value:
                self._id = value
        elif name == b"retry" and value.isdigit() and len(value) <= 9:
            self.retry = int(value)
        elif not name:
            self.mark = read_mark(value) or self.mark
            self._behind = read_behind(value) or self._behind

    def _end_event(self, events: list[ServerEvent]) -> None:
        self.last_event_id = self._id
        if self._data_lines and self._type in _MESSAGE_TYPES:
            message: bytes | Oversized = bytes(self._data)
            if self._skipping_data:
                message = Oversized(bytes(self._data), self._size, self._tail)
            if message:
                events.append(ServerEvent(message, self.last_event_id, self._behind))
                self._behind = 0
        self._type = b""
        self._data.clear()
        self._data_lines = self._size = 0
        self._skipping_data = False
        self._tail = b""
