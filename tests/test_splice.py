"""
Messages cut without decoding, against the parser that decodes them: the same opinion, and the same content.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from importlib import reload
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_twisted.jsonrpc import splice
from acp_twisted.jsonrpc.messages import Malformed, Message, Notification, Request, Response, parse
from acp_twisted.jsonrpc.splice import ERROR, NOTIFICATION, REQUEST, RESULT, Parts

WAYS: dict[str, Callable[[bytes], Parts | None]] = {"quick": splice.split, "thorough": splice._thoroughly}
ENVELOPES = {"quick": splice.split_envelope, "thorough": splice._envelope_thoroughly}

texts = st.text(max_size=6) | st.sampled_from(["id", "method", "params", "result", "error", "jsonrpc", "\\", '"', "}{"])
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
# Members of any name and number, in any order, which is where cuts go wrong.
pieces = st.tuples(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "_meta", "\\u0069d", "m\\u0065thod"]),
    values | st.sampled_from(["2.0", 1, "m", {}, [], {"code": 1, "message": "m"}, None]),
)
blanks = st.sampled_from(["", " ", "\n", "\t ", "\r"])


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """An object of such members, with blanks anywhere, and sometimes with a byte changed."""
    parts = []
    for name, value in draw(st.lists(pieces, max_size=6)):
        text = json.dumps(value, ensure_ascii=draw(st.booleans()))
        parts.append(f'{draw(blanks)}"{name}"{draw(blanks)}:{draw(blanks)}{text}{draw(blanks)}')
    prefix = draw(st.sampled_from(['"jsonrpc":"2.0",', ""])) if parts else ""
    line = bytearray(f"{draw(blanks)}{{{prefix}{','.join(parts)}}}{draw(blanks)}".encode("utf-8", "surrogatepass"))
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(line) - 1))
        line[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(line)


def same(one: object, other: object) -> bool:
    """Equal as JSON, where 1 and 1.0 and true are different things."""
    return orjson.dumps(one) == orjson.dumps(other)


def agrees(parts: Parts | None, parsed: Message) -> bool:
    """Whether the cut says what the parser says."""
    if isinstance(parsed, Malformed) or (isinstance(parsed, Response) and parsed.problem):
        return parts is None
    if parts is None or b"\n" in parts[3]:
        return False
    kind, request_id, method, body = parts
    content: Any = orjson.loads(body) if body else None
    if isinstance(parsed, Request):
        expected: Any = [REQUEST, parsed.id, parsed.method, parsed.params]
    elif isinstance(parsed, Notification):
        expected = [NOTIFICATION, None, parsed.method, parsed.params]
    elif parsed.error is None:
        expected = [RESULT, parsed.id, "", parsed.result]
    else:
        content = content["code"]
        expected = [ERROR, parsed.id, "", parsed.error.code]
    return same([kind, request_id, method, content], expected)


@given(line=lines())
@example(line=b'{"jsonrpc":"2.0","method":"m","params":{},"method":"n","id":1}')
@example(line=b'{"jsonrpc":"2.0","method":"m","params":{"a":"\xed\xa0\x80"}}')
@example(line=b'{"jsonrpc":"2.0","method":"m","params":{"a":"\xff"}}')
@example(line=b'{"jsonrpc":"2.0","method":"m","params":{"a":"\\ud800"}}')
@example(line=b'{"jsonrpc":"2.0","id":9223372036854775808,"method":"m"}')
@example(line=b'{"jsonrpc":"2.0","id":1.0,"method":"m"}')
@example(line=b'{"jsonrpc":"2.0","id":true,"method":"m"}')
@example(line=b'{"jsonrpc":"2.0","method":"m","params":3}')
@example(line=b'{"id":1,"result":null,"error":null}')
@example(line=b'{"id":1,"result":1,"error":{"code":1,"message":""}}')
@example(line=b'{"jsonrpc":"2.0","method":"m","params":' + b"[" * 1200 + b"]" * 1200 + b"}")
def test_a_cut_is_never_wrong(line: bytes) -> None:
    """Whatever the bytes are, a message is cut exactly where the parser found it to be one, with the same content."""
    for split in WAYS.values():
        assert agrees(split(line), parse(line))


@given(line=st.binary(max_size=60))
def test_no_bytes_make_it_fail(line: bytes) -> None:
    """It never raises (rule 7)."""
    for split in WAYS.values():
        assert agrees(split(line), parse(line))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "body", ['{"b":1.50,"a":[1E2, 0.10,"\\u00e9\\/"],"a":12345678901234567890123}', "[]", '{ "x" : { } }']
)
def test_the_content_keeps_its_bytes(way: str, body: str) -> None:
    """Numbers, escapes, blanks, the order of members and even repeated ones stay as they were written."""
    split = WAYS[way]
    text = body.encode()
    assert split(b'{"jsonrpc":"2.0","method":"m","params":' + text + b"}") == (NOTIFICATION, None, "m", text)
    assert split(b'{"params":' + text + b',"id":"7","method":"m","jsonrpc":"2.0"}') == (REQUEST, "7", "m", text)
    assert split(b'{"jsonrpc":"2.0","result":' + text + b' ,"id":7}') == (RESULT, 7, "", text)
    error = b'{"code":-1,"message":"m","data":' + text + b',"more":0.0}'
    assert split(b'{"jsonrpc":"2.0","error":' + error + b',"id":null}') == (ERROR, None, "", error)


@given(method=texts, params=st.none() | st.lists(values, max_size=2) | st.dictionaries(texts, values, max_size=2))
def test_an_envelope_gives_back_what_was_put_in(method: str, params: Any) -> None:
    """The method and the very bytes of the params; null is none."""
    inside = b"" if params is None else json.dumps(params, ensure_ascii=False).encode("utf-8", "replace")
    with_meta = b'{"params":%b,"_meta":{"method":1},"method":%b}' % (inside or b"null", orjson.dumps(method))
    for split_envelope in ENVELOPES.values():
        assert split_envelope(splice.envelope(method, inside)) == (method, inside)
        assert split_envelope(with_meta) == (method, inside)


@given(
    line=lines(),
    method=texts,
    params=st.none() | st.dictionaries(texts, values, max_size=2),
    number=st.none() | st.integers(),
)
def test_an_enveloped_message_is_cut_at_once_as_in_two_steps(
    line: bytes, method: str, params: Any, number: Any
) -> None:
    """At once or in two steps, the content is the same; and at once is never more than in two steps."""
    inside = b"" if params is None else json.dumps(params, ensure_ascii=False).encode("utf-8", "replace")
    outer = splice.notification_line("wrap", splice.envelope(method, inside))
    if number is not None and -(2**63) <= number < 2**63:
        outer = splice.request_line(number, "wrap", splice.envelope(method, inside))
    for each in (line, outer, outer.replace(b'"wrap"', b'"other"'), outer.replace(b"2.0", b"2.1")):
        at_once = splice.split_enveloped(each, ("wrap",))
        parts = splice.split(each)
        if at_once is not None:
            assert parts is not None
            assert (at_once[0], at_once[1]) == (parts[0] == REQUEST, parts[1])
            assert parts[2] == "wrap"
            assert splice.split_envelope(parts[3]) == at_once[2:]
    assert splice.split_enveloped(outer, ("wrap",)) is not None


@pytest.mark.parametrize("way", ENVELOPES)
@pytest.mark.parametrize("params", [b"[]", b"{}", b'{"method":1}', b'{"method":"m","params":3}', b'{"params":{}}'])
def test_what_is_no_envelope(way: str, params: bytes) -> None:
    """No method, or params that are neither object nor array (C23)."""
    assert ENVELOPES[way](params) is None


@given(
    request_id=st.none() | st.integers(-(2**63), 2**63 - 1) | texts,
    method=texts,
    params=st.none() | st.dictionaries(texts, values, max_size=2),
)
def test_what_is_put_together_is_a_message(request_id: Any, method: str, params: Any) -> None:
    """Each line is what the parser reads it as."""
    body = b"" if params is None else json.dumps(params).encode()
    if isinstance(request_id, int):
        assert agrees((REQUEST, request_id, method, body), parse(splice.request_line(request_id, method, body)))
    assert agrees((NOTIFICATION, None, method, body), parse(splice.notification_line(method, body)))
    assert agrees((RESULT, request_id, "", body or b"1"), parse(splice.result_line(request_id, body or b"1")))
    error = b'{"code":5,"message":"m"}'
    assert agrees((ERROR, request_id, "", error), parse(splice.error_line(request_id, error)))


def test_a_number_beyond_a_double_passes() -> None:
    """The one thing that the parser refuses and a cut lets through, as it was written."""
    line = b'{"jsonrpc":"2.0","method":"m","params":{"a":1e999}}'
    assert isinstance(parse(line), Malformed)
    assert splice.split(line) == (NOTIFICATION, None, "m", b'{"a":1e999}')
    assert math.isinf(float("1e999"))


def test_it_works_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without msgspec the thorough way is the only one."""
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "msgspec", None)
        assert reload(splice).split is splice._thoroughly
    assert reload(splice).split is not splice._thoroughly
