"""
What a transport has to know of a message to send it the right way, and nothing more: a transport with several streams
asks this rather than look into JSON itself.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen

from acp_twisted.jsonrpc.cancellation import ACP
from acp_twisted.jsonrpc.messages import Id, Malformed, Notification, Request, parse

Kind = Literal["request", "notification", "response", "invalid", "batch", "no object", "no JSON"]


@frozen
class Envelope:
    """
    The outside of one message.

    @ivar kind: what it is.  C{"invalid"} is an object that is no message.
    @ivar id: the id of a request or a response, or L{None}.
    @ivar method: of a request or a notification.
    @ivar session_id: the C{sessionId} of its params, where that is a string.
    @ivar cancels: the id that a cancellation names, where there is a key for it; else L{None}.
    @ivar result_session_id: the C{sessionId} of a response's result, where that is a string.
    @ivar succeeded: whether it is a response with a result.
    """

    kind: Kind
    id: Id = None
    method: str | None = None
    session_id: str | None = None
    cancels: Id = None
    result_session_id: str | None = None
    succeeded: bool = False


def read_envelope(message: bytes) -> Envelope:
    """
    Look at a message from outside.  Never raises, whatever the bytes are.
    """
    parsed = parse(message)
    if isinstance(parsed, Request):
        return Envelope("request", parsed.id, parsed.method, _session(parsed.params))
    if isinstance(parsed, Notification):
        cancels = _member(parsed.params, "requestId") if parsed.method == ACP.method else None
        return Envelope(
            "notification",
            None,
            parsed.method,
            _session(parsed.params),
            cancels if type(cancels) in (int, str) else None,
        )
    if isinstance(parsed, Malformed):
        return Envelope(_what_is_no_message(parsed, message), parsed.id)
    return Envelope("response", parsed.id, result_session_id=_session(parsed.result), succeeded=parsed.has_result)


def _what_is_no_message(bad: Malformed, message: bytes) -> Kind:
    if not bad.is_json:
        return "no JSON"
    if bad.is_object:
        return "invalid"
    return "batch" if message.lstrip().startswith(b"[") else "no object"


def _member(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _session(value: object) -> str | None:
    found = _member(value, "sessionId")
    return found if isinstance(found, str) else None
