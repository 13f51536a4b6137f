"""
What the server asks of an HTTP request, and what it says where it does not get it: headers, and the status table.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import frozen

from acp_twisted.jsonrpc.routing import Envelope

CONNECTION_ID: Final = "Acp-Connection-Id"
SESSION_ID: Final = "Acp-Session-Id"
INITIALIZE: Final = "initialize"
ON_CONNECTION_STREAM: Final = frozenset({"session/new", "session/load"})
"""Requests whose answer goes on the connection's stream also when they belong to a session (protocol §5.2)."""
ENDS_SESSION: Final = frozenset({"session/close", "session/delete"})

RETRY_SECONDS: Final = b"5"

_METHODS: Final = frozenset({b"GET", b"POST", b"DELETE", b"OPTIONS", b"HEAD", b"PUT", b"PATCH"})


class Refused(Exception):
    """
    The request is answered with an error, and nothing has come of it.

    @ivar status: the HTTP status.
    @ivar text: one line for people, with nothing of the request in it.
    @ivar headers: further headers of the answer.
    """

    def __init__(self, status: int, text: str, **headers: bytes) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@frozen
class Ids:
    """
    The two ids in the headers of a request.
    """

    connection: str | None
    session: str | None


def read_ids(request: Any, max_length: int) -> Ids:
    """
    The ids that a request names.  A GET may name them in its query, for a browser's EventSource sends no headers of
    anybody's choice.

    @raise Refused: 400, for an id that is given twice, is empty or too long.
    """
    return Ids(_one_id(request, CONNECTION_ID, max_length), _one_id(request, SESSION_ID, max_length))


def _one_id(request: Any, name: str, max_length: int) -> str | None:
    values = request.requestHeaders.getRawHeaders(name.encode("ascii")) or []
    if not values and request.method == b"GET":
        values = request.args.get(name.lower().encode("ascii"), [])
    if not values:
        return None
    if len(values) > 1 or not values[0]:
        raise Refused(400, f"{name} must be given once, and not be empty")
    if len(values[0]) > max_length:
        raise Refused(400, f"{name} is longer than {max_length} bytes")
    value: bytes = values[0]
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def shown_method(request: Any) -> str:
    """
    The method of a request, for a log.  Where it is none that is known it is the client's text, which may be long, or
    a secret in the wrong place (rule 9).
    """
    method: bytes = request.method
    return method.decode("ascii") if method in _METHODS else "another method"


def check_content_type(request: Any) -> None:
    """
    @raise Refused: 415, unless the body is JSON.
    """
    values = request.requestHeaders.getRawHeaders(b"content-type") or []
    if len(values) != 1 or values[0].split(b";")[0].strip().lower() != b"application/json":
        raise Refused(415, "the Content-Type must be application/json")


def check_accept(request: Any) -> None:
    """
    @raise Refused: 406, unless the client says that it reads event streams.
    """
    for value in request.requestHeaders.getRawHeaders(b"accept") or []:
        for each in value.split(b","):
            kind, _, options = each.partition(b";")
            refuses = any(option.strip().lower() in (b"q=0", b"q=0.0", b"q=0.00") for option in options.split(b";"))
            if kind.strip().lower() == b"text/event-stream" and not refuses:
                return
    raise Refused(406, "Accept must name text/event-stream")


def check_message(envelope: Envelope, ids: Ids) -> None:
    """
    Whether a posted message may come with these ids.

    @raise Refused: 400 or 501.
    """
    if envelope.kind == "batch":
        raise Refused(501, "batches are not supported")
    if envelope.kind in ("no JSON", "no object"):
        raise Refused(400, "the body must be one JSON object")
    if is_initialize(envelope):
        if ids.connection is not None:
            raise Refused(400, f"initialize makes a new connection, and comes without {CONNECTION_ID}")
    elif ids.connection is None:
        raise Refused(400, f"{CONNECTION_ID} is missing")
    elif envelope.session_id is not None and ids.session != envelope.session_id:
        what = "is missing" if ids.session is None else "is not the sessionId of the message"
        raise Refused(400, f"{SESSION_ID} {what}")


def is_initialize(envelope: Envelope) -> bool:
    """
    Whether the message begins a connection.
    """
    return envelope.kind == "request" and envelope.method == INITIALIZE


def stream_of_answer(envelope: Envelope, ids: Ids) -> str | None:
    """
    Which stream the answer to a posted request goes on: a session's, or the connection's (L{None}).
    """
    return None if envelope.method in ON_CONNECTION_STREAM else ids.session
