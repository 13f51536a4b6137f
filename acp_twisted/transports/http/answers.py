"""
The answers to our POSTs: a status, and a body that may hold messages.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from twisted.python.failure import Failure

from acp_twisted.jsonrpc.framing import HEAD_BYTES, TAIL_BYTES, Oversized
from acp_twisted.transports.http.sse_parser import EventStreamParser

MAX_ERROR_BODY: Final = 8 * 1024
"""How much of the body of a refusal is kept, for people."""

JSON: Final = b"application/json"
EVENT_STREAM: Final = b"text/event-stream"


def status_words(status: int) -> str:
    """
    A status as people know it: C{HTTP 404 (Not Found)}.
    """
    try:
        return f"HTTP {status} ({HTTPStatus(status).phrase})"
    except ValueError:
        return f"HTTP {status}"


def media_type(headers: dict[bytes, list[bytes]]) -> bytes:
    """
    The type of an answer's body, without its parameters; empty when there is none.
    """
    values = headers.get(b"content-type")
    return values[0].partition(b";")[0].strip().lower() if values else b""


class Answer:
    """
    Reads one answer.  A body of JSON is one message, an event stream is one for each event; anything else, and what is
    no success, is kept for the error, up to L{MAX_ERROR_BODY}.

    @ivar status: 0 until there is one.
    @ivar headers: by name, in lower case.
    @ivar text: the body of a refusal, as far as it was kept.
    """

    def __init__(
        self,
        limit: int,
        on_head: Callable[[Answer], None],
        on_message: Callable[[bytes | Oversized], None],
        on_end: Callable[[Answer, Failure | None], None],
    ) -> None:
        """
        @param limit: of one message, in bytes.
        @param on_head: called when the status and the headers are there.
        @param on_message: called with each message in the body of a success.
        @param on_end: called at the end, with why the answer is not whole.
        """
        self.status = 0
        self.headers: dict[bytes, list[bytes]] = {}
        self.text = b""
        self._limit = limit
        self._on_head = on_head
        self._on_message = on_message
        self._on_end = on_end
        self._parser: EventStreamParser | None = None
        self._is_json = False
        self._body = bytearray()
        self._size = 0
        self._tail = b""

    @property
    def succeeded(self) -> bool:
        """
        Whether the status is one of success.
        """
        return 200 <= self.status < 300

    def response_started(self, status: int, headers: dict[bytes, list[bytes]]) -> None:
        self.status = status
        self.headers = headers
        kind = media_type(headers)
        if self.succeeded and kind == EVENT_STREAM:
            self._parser = EventStreamParser(self._limit)
        self._is_json = self.succeeded and kind == JSON
        self._on_head(self)

    def body_received(self, data: bytes) -> None:
        if self._parser is not None:
            for event in self._parser.feed(data):
                self._on_message(event.message)
        elif self._is_json:
            self._size += len(data)
            if self._size <= self._limit:
                self._body += data
            else:
                self._tail = (self._tail + data)[-TAIL_BYTES:]
                del self._body[HEAD_BYTES:]
        elif not self.succeeded and len(self.text) < MAX_ERROR_BODY:
            self.text = (self.text + data)[:MAX_ERROR_BODY]

    def response_ended(self, failure: Failure | None) -> None:
        if failure is None and self._is_json:
            if self._size > self._limit:
                self._on_message(Oversized(bytes(self._body[:HEAD_BYTES]), self._size, self._tail))
            elif self._body.strip():
                self._on_message(bytes(self._body))
        self._on_end(self, failure)
