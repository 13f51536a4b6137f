"""
Messages taken apart and put together without decoding what is inside of them: bytes in, bytes out.

Who passes a message on needs its envelope only, and has to pass on exactly what he was given: numbers as they were
written, members that nobody knows, the order of all of them.  L{split} finds the envelope and the bytes of what it
carries.  It never says anything else than L{acp_twisted.jsonrpc.messages.parse} would, since it checks the whole line
as JSON; with one exception: a number beyond a double, which the parser refuses, is passed on as it was written.

Where C{msgspec} is installed (the extra C{proxy}), a line is checked and cut in one go, in a third of the time that
decoding and encoding take.  Without it, and for a line that is in any way unusual, the parser is asked first and the
cuts are looked for after that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

import orjson

from acp_twisted.jsonrpc.messages import MAX_DEPTH, Id, Malformed, Notification, Request, parse

try:
    import msgspec
except ImportError:  # the slow way is as right
    msgspec = None  # type: ignore[assignment]

REQUEST: Final = 0
NOTIFICATION: Final = 1
RESULT: Final = 2
ERROR: Final = 3

Parts: TypeAlias = "tuple[int, Id, str, bytes]"
"""
The kind of a message (L{REQUEST}, L{NOTIFICATION}, L{RESULT} or L{ERROR}), its id, its method, and the JSON text of its
params, result or error.  What a kind has not is L{None} or empty; params that are null or left out are empty too.  The
text is on one line.
"""

Enveloped: TypeAlias = "tuple[bool, Id, str, bytes]"
"""
Whether a message in an envelope is a request, the envelope's id, and the method and the params inside.
"""

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_NULL: Final = b"null"
_OPENING: Final = (0x7B, 0x5B)
_LINE_END: Final = 0x0A  # a search for one byte is fifty times as fast as one for two
_DEEP: Final = 2 * MAX_DEPTH
_BACKSLASH: Final = 0x5C
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SPACE: Final = b" \t\r\n"
_STRING_OR_BRACKET: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)
_SCALAR: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[^,}\] \t\r\n]+', re.DOTALL)
_BETWEEN: Final = re.compile(rb"[ \t\r\n,:]*")


def _envelope_thoroughly(params: bytes) -> tuple[str, bytes] | None:
    try:
        decoded = orjson.loads(params)
    except ValueError:
        return None
    if type(decoded) is not dict or type(decoded.get("method")) is not str:
        return None
    inside = decoded.get("params")
    if inside is None:
        return decoded["method"], b""
    if type(inside) is not dict and type(inside) is not list:
        return None
    start, end = members(params)["params"]
    return decoded["method"], params[start:end]


def members(text: bytes) -> dict[str, tuple[int, int]]:
    """
    Where the values of an object's members stand.  Of members with one name the last counts.

    @param text: a whole JSON object, known to be one.
    """
    found: dict[str, tuple[int, int]] = {}
    position = text.index(b"{") + 1
    while True:
        position = _skip(text, position)
        name = _SCALAR.match(text, position)
        if name is None:  # the closing brace
            return found
        start = _skip(text, name.end())
        position = _end_of_value(text, start)
        found[orjson.loads(name[0])] = (start, position)


def _skip(text: bytes, position: int) -> int:
    between = _BETWEEN.match(text, position)
    return position if between is None else between.end()


def _end_of_value(text: bytes, start: int) -> int:
    if text[start] not in _OPENING:
        scalar = _SCALAR.match(text, start)
        return start if scalar is None else scalar.end()
    depth = 0
    position = start
    while True:
        found = _STRING_OR_BRACKET.search(text, position)
        if found is None:
            return len(text)
        position = found.end()
        if found[0] in b"{[":
            depth += 1
        elif found[0] in b"}]":
            depth -= 1
            if not depth:
                return position


def _thoroughly(message: bytes) -> Parts | None:
    """
    The parser's own opinion, and the cuts that belong to it.
    """
    parsed = parse(message)
    if isinstance(parsed, Malformed):
        return None
    if isinstance(parsed, Request | Notification):
        body = b"" if parsed.params is None else _cut(message, "params")
        if isinstance(parsed, Notification):
            return NOTIFICATION, None, parsed.method, body
        return REQUEST, parsed.id, parsed.method, body
    if parsed.problem:
        return None
    if parsed.error is None:
        return RESULT, parsed.id, "", _cut(message, "result")
    return ERROR, parsed.id, "", _cut(message, "error")


def _cut(message: bytes, name: str) -> bytes:
    start, end = members(message)[name]
    # A line end within JSON can only stand between its parts, where a blank says as much.
    return message[start:end].replace(b"\n", b" ")


def _not_at_once(message: bytes, methods: Collection[str]) -> Enveloped | None:
    return None


def _readers() -> list[Callable[[bytes], Any]]:
    """
    What reads a message, an envelope, and a message whose params are one.
    """
    raw, nothing, unset = msgspec.Raw, msgspec.Raw(), msgspec.UNSET
    an_id: Any = int | str | msgspec.UnsetType | None
    message_type = msgspec.defstruct(
        "Message",
        [
            ("jsonrpc", str, ""),
            ("id", an_id, unset),
            ("method", str | None, None),
            ("params", raw, nothing),
            ("result", raw, nothing),
            ("error", raw, nothing),
        ],
    )
    envelope_type = msgspec.defstruct("Envelope", [("method", str), ("params", raw, nothing)])
    enveloped_type = msgspec.defstruct(
        "Enveloped", [("jsonrpc", str), ("method", str), ("params", envelope_type), ("id", an_id, unset)]
    )
    return [msgspec.json.Decoder(each).decode for each in (message_type, envelope_type, enveloped_type)]


def _by_msgspec() -> tuple[
    Callable[[bytes], Parts | None],
    Callable[[bytes], tuple[str, bytes] | None],
    Callable[[bytes, Collection[str]], Enveloped | None],
]:
    """
    The same by msgspec: it reads the envelope, and checks and skips the rest.
    """
    read_message, read_envelope, read_enveloped = _readers()
    unset = msgspec.UNSET
    failures = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
    half_a_pair = _SURROGATE.search

    def is_odd(message: bytes) -> object:
        """Whether there may be what msgspec skips and the parser refuses, or a line end."""
        return (
            _LINE_END in message
            or (_BACKSLASH in message and half_a_pair(message))
            or (len(message) > _DEEP and message.count(b"[") + message.count(b"{") > MAX_DEPTH)
        )

    def quickly(message: bytes) -> Parts | None:
        try:
            found = read_message(message)
            if is_odd(message):
                return _thoroughly(message)
            if not message.isascii():
                message.decode()  # msgspec does not look at the UTF-8 of what it skips
        except failures:
            return _thoroughly(message)
        method = found.method
        number = found.id
        if type(number) is int and not _INT64_MIN <= number <= _INT64_MAX:
            method = ""  # no id that a message may have; the parser says so
        elif method is None:
            body = bytes(found.result)
            if body and number is not unset and not bytes(found.error):
                return RESULT, number, "", body
        elif found.jsonrpc == "2.0":
            body = bytes(found.params)
            if body == _NULL:
                body = b""
            if not body or body[0] in _OPENING:
                return (NOTIFICATION, None, method, body) if number is unset else (REQUEST, number, method, body)
        return _thoroughly(message)

    def envelope_quickly(params: bytes) -> tuple[str, bytes] | None:
        try:
            found = read_envelope(params)
        except failures:
            return _envelope_thoroughly(params)
        body = bytes(found.params)
        if body == _NULL:
            body = b""
        return (found.method, body) if not body or body[0] in _OPENING else None

    def enveloped_quickly(message: bytes, methods: Collection[str]) -> Enveloped | None:
        try:
            found = read_enveloped(message)
            if is_odd(message):
                return None
            if not message.isascii():
                message.decode()
        except failures:
            return None
        number = found.id
        if found.method not in methods or found.jsonrpc != "2.0":
            return None
        if type(number) is int and not _INT64_MIN <= number <= _INT64_MAX:
            return None
        inner = found.params
        body = bytes(inner.params)
        if body == _NULL:
            body = b""
        if body and body[0] not in _OPENING:
            return None
        return (False, None, inner.method, body) if number is unset else (True, number, inner.method, body)

    return quickly, envelope_quickly, enveloped_quickly


split: Callable[[bytes], Parts | None]
"""
Take a line apart.  L{None} is what is no message, and an answer without anything that could be passed on: ask the
parser.
"""

split_envelope: Callable[[bytes], tuple[str, bytes] | None]
"""
Take the params of an envelope apart, an object with the method of the message inside and its params; they are JSON text
that L{split} gave.  The method, and the params as text, empty where there are none; L{None} when it is no envelope.
"""

split_enveloped: Callable[[bytes, Collection[str]], Enveloped | None]
"""
Take a line apart whose params are an envelope, at once, where the line's own method is one of those.  L{None} only says
that it has to be done in two steps.
"""

split, split_envelope, split_enveloped = (
    (_thoroughly, _envelope_thoroughly, _not_at_once) if msgspec is None else _by_msgspec()
)


# Putting together


_texts: dict[str, bytes] = {}
_MAX_TEXTS: Final = 1024


def text_of(method: str) -> bytes:
    """
    A method's name as JSON text.
    """
    text = _texts.get(method)
    if text is None:
        text = orjson.dumps(method)
        if len(_texts) < _MAX_TEXTS:
            _texts[method] = text
    return text


def request_line(request_id: int, method: str, params: bytes) -> bytes:
    """
    A request.

    @param params: JSON text, or empty for none.
    """
    if params:
        return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (request_id, text_of(method), params)
    return b'{"jsonrpc":"2.0","id":%d,"method":%b}' % (request_id, text_of(method))


def notification_line(method: str, params: bytes) -> bytes:
    """
    A notification.

    @param params: JSON text, or empty for none.
    """
    if params:
        return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (text_of(method), params)
    return b'{"jsonrpc":"2.0","method":%b}' % text_of(method)


def result_line(request_id: Id, result: bytes) -> bytes:
    """
    A successful answer.

    @param result: JSON text.
    """
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(request_id), result)


def error_line(request_id: Id, error: bytes) -> bytes:
    """
    A failed answer.

    @param error: the JSON text of the error object.
    """
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (orjson.dumps(request_id), error)


def envelope(method: str, params: bytes) -> bytes:
    """
    The params of an envelope around a message.
    """
    if params:
        return b'{"method":%b,"params":%b}' % (text_of(method), params)
    return b'{"method":%b}' % text_of(method)
