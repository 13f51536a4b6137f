"""
JSON-RPC 2.0 messages: what a line of bytes is, and the bytes of what is to be said.

L{parse} never raises: a line is a L{Request}, a L{Notification}, a L{Response}, or L{Malformed} with the error that it
deserves and with what the receiver needs to decide whether to answer it at all.  The encoders raise L{EncodeError} and
nothing else.

What is strict and what is not:

  - Bytes are UTF-8, and JSON is RFC 8259: NaN, Infinity, numbers beyond a double, lone surrogates and more than 1024
    levels are a parse error (B40, B42, B43).  Of members with one name the last counts.
  - Requests and notifications carry C{"jsonrpc":"2.0"}.  A response is taken without it: it answers something that we
    asked, and leaving the caller to wait helps nobody.
  - An id is an int64, a string or null.  C{1.0}, C{true} and an integer beyond 64 bits are none (B47).  A request
    whose id is null is a request, and is answered with null; a notification is what has no id at all (B46).
  - A message with a method is a request or a notification, whatever else is in it; without one, a response.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from math import isfinite
from typing import Any, Final, TypeAlias

import orjson
from attrs import define, field, frozen

from acp_twisted.errors import INTERNAL_ERROR, AcpError, InvalidRequest, ParseError

Id: TypeAlias = "int | str | None"
Params: TypeAlias = "dict[str, Any] | list[Any] | None"

MAX_DEPTH: Final = 1024
"""How many levels of lists and objects a message may have, both ways."""

_loads: Final = orjson.loads
_dumps: Final = orjson.dumps
_PLAIN: Final = orjson.OPT_PASSTHROUGH_DATACLASS  # a dataclass is no JSON value, and could hide a NaN
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_NO_MESSAGE: Final = "the peer gave no message"


class EncodeError(ValueError):
    """
    A value has no JSON text: a set, a cycle, NaN, a lone surrogate, an integer beyond 64 bits, more than L{MAX_DEPTH}
    levels (B42, B59).  The text says what kind of thing it was, never what it held.
    """


# These are made for every message, and @frozen more than doubles what that costs; treat them as frozen.


@define
class Request:
    """
    What wants an answer.

    @ivar id: as it came; the answer carries the same.
    @ivar params: L{None} when absent or null.
    """

    id: Id
    method: str
    params: Params = None


@define
class Notification:
    """
    What wants none.

    @ivar params: L{None} when absent or null.
    @ivar size: the bytes of the whole message.
    """

    method: str
    params: Params = None
    size: int = field(default=0, eq=False)


@define
class ErrorObject:
    """
    The C{error} of a response.

    @ivar data: any JSON value; L{None} when absent or null.
    """

    code: int
    message: str
    data: Any = None


@define
class Response:
    """
    An answer to a request of ours.

    @ivar id: the request's; L{None} when it is null, missing, or nothing that an id can be.
    @ivar result: the result, where C{has_result} is true.
    @ivar error: the error, or L{None}.
    @ivar problem: empty for a proper response; else why the caller can't be given its result or error, in words that
        can be shown and hold nothing of the message.
    """

    id: Id
    result: Any = None
    error: ErrorObject | None = None
    has_result: bool = False
    problem: str = ""


@frozen
class Malformed:
    """
    A line that is no message.

    @ivar error: what it is to be answered with, if it is answered.
    @ivar id: its id where that could be read, else L{None}.
    @ivar has_id: whether there was a readable id, so that somebody waits for an answer to it.
    @ivar is_json: whether the line is JSON at all.
    @ivar is_object: whether it is a JSON object.
    @ivar is_notification: whether it has a method and no id member at all, so that nobody waits for an answer.
    @ivar entries: what is in it where it is a JSON array, as a batch is; else nothing.
    @ivar stray: whether nothing in it asks for an answer and little says that it was meant as a message: no JSON, no
        object, or an object without a C{jsonrpc} member that has no readable id beside a method.  Banners and log lines
        on an agent's stdout are; a client skips them and writes nothing back (B39).
    """

    error: AcpError
    id: Id = None
    has_id: bool = False
    is_json: bool = True
    is_object: bool = True
    is_notification: bool = False
    stray: bool = False
    entries: list[Any] = field(factory=list, repr=False, eq=False)


Message: TypeAlias = "Request | Notification | Response | Malformed"


@frozen
class Head:
    """
    What the beginning of a message tells.

    @ivar has_id: whether the id stood in it, and could be read.
    @ivar id: the id, or L{None}.
    @ivar method: the method, or L{None}.
    @ivar is_response: whether a C{result} or an C{error} stood in it before any method: such a message is never
        answered.
    """

    has_id: bool = False
    id: Id = None
    method: str | None = None
    is_response: bool = False


def is_id(value: object) -> bool:
    """
    Whether a request may have this id: an int64, a string or null.
    """
    kind = type(value)
    return kind is str or value is None or (kind is int and _INT64_MIN <= value <= _INT64_MAX)  # type: ignore[operator]


def id_key(value: object) -> Hashable:
    """
    A key for tables of ids.  Python takes 1, 1.0 and True for the same key; as ids they are not (B47).
    """
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    return (kind.__name__, repr(value))


def parse(data: bytes) -> Message:
    """
    Say what one line is.  Never raises, whatever the bytes are.
    """
    try:
        message = _loads(data)
    except (ValueError, RecursionError) as failure:
        return Malformed(_parse_error(failure), is_json=False, is_object=False, stray=True)
    return classify(message, len(data))


def classify(message: Any, size: int) -> Message:
    """
    Say what one JSON value is.

    @param size: how many bytes it had.
    """
    if type(message) is not dict:
        if type(message) is list:
            reason = InvalidRequest(data={"reason": "a batch is not supported"})
            return Malformed(reason, is_object=False, stray=True, entries=message)
        return Malformed(InvalidRequest(data={"reason": "not an object"}), is_object=False, stray=True)
    method = message.get("method")
    if type(method) is str and message.get("jsonrpc") == "2.0":
        params = message.get("params")
        if params is None or type(params) is dict or type(params) is list:
            if "id" not in message:
                return Notification(method, params, size)
            id = message["id"]
            kind = type(id)
            if kind is str or id is None or (kind is int and _INT64_MIN <= id <= _INT64_MAX):
                return Request(id, method, params)
    elif method is None and (
        "result" in message
        or "error" in message
        or ("id" in message and "method" not in message and "jsonrpc" in message)
    ):
        return _response(message)
    return _refused(message)


def _parse_error(failure: BaseException) -> ParseError:
    # The decoder's own words name what it met ("unexpected character …") and quote nothing of the line.
    return ParseError(data={"reason": getattr(failure, "msg", None) or "not JSON"})


def _response(message: dict[str, Any]) -> Response:
    """
    What has no method but is something like an answer.  C{"error": null} beside a result, and C{"result": null} beside
    an error, are absent members written out, as many libraries do.
    """
    id = message.get("id")
    result = message.get("result")
    error = message.get("error")
    if not is_id(id):
        return Response(None, problem="the answer's id is no integer, string or null")
    if error is None and "result" in message:
        return Response(id, result, None, True)  # by position, since keywords cost a third of a parse
    if result is not None:
        problem = "the answer has both a result and an error"
    elif type(error) is dict:
        code = error.get("code")
        text = error.get("message")
        if type(code) is int:
            return Response(id, error=ErrorObject(code, text if type(text) is str else _NO_MESSAGE, error.get("data")))
        problem = "the answer's error has no integer code"
    elif "error" in message:
        problem = "the answer's error is no object"
    else:
        problem = "the answer has neither a result nor an error"
    return Response(id, problem=problem)


def _refused(message: dict[str, Any]) -> Malformed:
    """
    The error for an object that is no message: it names the member at fault, and never says what that held.
    """
    id = message.get("id")
    readable = is_id(id)
    has_id = readable and "id" in message
    if message.get("jsonrpc") != "2.0":
        member, reason = "jsonrpc", 'must be "2.0"'
    elif type(message.get("method")) is not str:
        member, reason = "method", "must be a string"
    elif not readable:
        member, reason = "id", "must be a 64-bit integer, a string or null"
    else:
        member, reason = "params", "must be an object or an array"
    return Malformed(
        InvalidRequest(data={"member": member, "reason": reason}),
        id=id if readable else None,
        has_id=has_id,
        is_notification="id" not in message and type(message.get("method")) is str,
        stray="jsonrpc" not in message and not (has_id and "method" in message),
    )


# Encoding


def request_bytes(id: Id, method: str, params: object = None) -> bytes:
    """
    A request, without line end.  Params that are L{None} are left out.

    @raise EncodeError: when the params have no JSON text.
    """
    if params is None:
        return _encode({"jsonrpc": "2.0", "id": id, "method": method}, None)
    return _encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, params)


def notification_bytes(method: str, params: object = None) -> bytes:
    """
    A notification, without line end.  Params that are L{None} are left out.

    @raise EncodeError: when the params have no JSON text.
    """
    if params is None:
        return _encode({"jsonrpc": "2.0", "method": method}, None)
    return _encode({"jsonrpc": "2.0", "method": method, "params": params}, params)


def result_bytes(id: Id, result: object) -> bytes:
    """
    A successful answer, without line end.  A result that is L{None} is written as null.

    @raise EncodeError: when the result has no JSON text.
    """
    return _encode({"jsonrpc": "2.0", "id": id, "result": result}, result)


def error_bytes(id: Id, error: AcpError) -> bytes:
    """
    A failed answer, without line end.  It always succeeds, since it is what is left to say when something else could
    not be said: data without JSON text is left out, a message is cleaned, a code that is no integer becomes -32603.
    """
    body: dict[str, object] = {"code": error.code, "message": error.message}
    answer = {"jsonrpc": "2.0", "id": id, "error": body}
    try:
        if type(error.code) is int and type(error.message) is str:
            if error.data is None:
                return _encode(answer, None)
            return _encode({**answer, "error": {**body, "data": error.data}}, error.data)
    except EncodeError:
        pass
    code: object = error.code
    body["code"] = code if type(code) is int and is_id(code) else INTERNAL_ERROR
    body["message"] = str(error.message).encode("utf-8", "replace").decode("utf-8")
    return _encode(answer, None)


def _encode(message: dict[str, Any], value: object) -> bytes:
    """
    Encode an envelope.

    @param value: the part of it that is not ours, and may hold anything.
    """
    try:
        encoded = _dumps(message, None, _PLAIN)
    except (TypeError, ValueError, RecursionError):
        # It may just be deeper than the encoder goes (254 levels), although the decoder let it in.
        return _encode_deep(message)
    # The encoder writes null for NaN and the infinities, so without any null there was none.  (rfind is the fastest of
    # the ways to ask: "in" raises and drops an exception first, and find takes twice the time for each byte.)
    if value is not None and encoded.rfind(b"null") >= 0 and _has_non_finite(value):
        raise EncodeError("a number is not finite")
    return encoded


def _has_non_finite(value: object) -> bool:
    """
    Whether a float somewhere in it is NaN or infinite.
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float):
            if not isfinite(item):
                return True
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
    return False


def _encode_scalar(value: object) -> bytes:
    try:
        if not isinstance(value, float) or isfinite(value):
            return _dumps(value, None, _PLAIN)
    except (TypeError, ValueError, RecursionError):
        pass
    raise EncodeError(f"a value of type {type(value).__name__} has no JSON text")


def _encode_deep(value: object) -> bytes:
    """
    Encode without recursion, down to L{MAX_DEPTH} levels.  Slow, so only for what the encoder proper refused: it
    either gets further, or says which kind of thing can't be encoded.

    @raise EncodeError: when that is so.
    """
    parts: list[bytes] = []
    # One entry for each open level: what is still to be written in it, and what closes it.
    levels: list[tuple[Iterator[tuple[bytes, object]], bytes]] = [(iter([(b"", value)]), b"")]
    while levels:
        for prefix, item in levels[-1][0]:
            parts.append(prefix)
            if not isinstance(item, dict | list | tuple):
                parts.append(_encode_scalar(item))
                continue
            if len(levels) > MAX_DEPTH:
                raise EncodeError("too many levels, or a cycle")
            opening, closing = (b"{", b"}") if isinstance(item, dict) else (b"[", b"]")
            parts.append(opening)
            levels.append((_written_in(item), closing))
            break
        else:
            parts.append(levels.pop()[1])
    return b"".join(parts)


def _written_in(container: dict[Any, object] | list[object] | tuple[object, ...]) -> Iterator[tuple[bytes, object]]:
    """
    The members of a container, each with what is written before it.
    """
    separator = b""
    if isinstance(container, dict):
        for key, item in container.items():
            if not isinstance(key, str):
                raise EncodeError(f"a key of type {type(key).__name__} is no member name")
            yield separator + _encode_scalar(key) + b":", item
            separator = b","
    else:
        for item in container:
            yield separator, item
            separator = b","


# The beginnings of messages that were too long

_LAST_ID: Final = re.compile(rb'[,{\s]"id"\s*:\s*(-?\d{1,19}|"[^"\\]*")\s*\}\s*\Z')
_TOKEN: Final = re.compile(rb'[ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^ \t\r\n{}\[\]:,"]+)', re.DOTALL)


def read_head(head: bytes) -> Head:
    """
    Read what the beginning of a message tells, without being led astray by names inside its params or its strings.
    Never raises; what was cut off or is no JSON tells nothing.
    """
    found: dict[str, object] = {}
    is_response = False
    for key, token in _top_level(head):
        if key in ("result", "error") and "method" not in found:
            is_response = True
        if key in ("id", "method") and token:
            try:
                found[key] = orjson.loads(token)
            except ValueError:
                break
    id = found.get("id")
    method = found.get("method")
    readable = is_id(id)
    return Head(
        has_id=readable and "id" in found,
        id=id if readable else None,  # type: ignore[arg-type]
        method=method if isinstance(method, str) else None,
        is_response=is_response,
    )


def id_from_tail(tail: bytes) -> Id:
    """
    The id of a message that ends with it, or L{None}.  What stands right before the last brace of all is a member of
    the outermost object, so nothing nested can be taken for it.
    """
    found = _LAST_ID.search(tail)
    if found is None:
        return None
    try:
        id = orjson.loads(found[1])
    except ValueError:
        return None
    return id if is_id(id) else None


def id_from_head(head: bytes) -> tuple[bool, Id]:
    """
    Whether the id of a message stands in its beginning, and the id.
    """
    known = read_head(head)
    return known.has_id, known.id


def _top_level(head: bytes) -> Iterator[tuple[str, bytes]]:
    """
    The names of the outermost object's members, as far as they go, each with its value where that is a whole scalar,
    else with nothing.
    """
    position = depth = 0
    key = ""
    expected = "{"
    while found := _TOKEN.match(head, position):
        token = found[1]
        position = found.end()
        if depth > 1:
            depth += (token in b"{[") - (token in b"}]")
        elif expected == "name":
            try:
                key = orjson.loads(token)
            except ValueError:
                return
            expected = ":"
        elif expected == "value":
            expected = ","
            if token in b"{[":
                depth = 2
                yield key, b""
            else:
                # A number at the very end may go on behind it.
                whole = token.endswith(b'"') or position < len(head)
                yield key, token if whole else b""
        elif token != expected.encode():
            return
        elif expected == ":":
            expected = "value"
        else:
            depth = 1
            expected = "name"
    if expected == "value":
        yield key, b""  # the beginning ends within a string
