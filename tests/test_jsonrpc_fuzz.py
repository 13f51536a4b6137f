"""
Framing and messages against whatever bytes there are.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from acp_twisted.errors import AcpError
from acp_twisted.jsonrpc.framing import HEAD_BYTES, TAIL_BYTES, LineFramer, Oversized, Remainder
from acp_twisted.jsonrpc.messages import (
    ErrorObject,
    Head,
    Malformed,
    Notification,
    Request,
    Response,
    error_bytes,
    notification_bytes,
    parse,
    read_head,
    request_bytes,
    result_bytes,
)

BOM = b"\xef\xbb\xbf"
# Streams made of the pieces that matter, so that they meet more often than by chance.
streams = st.lists(
    st.one_of(
        st.sampled_from([b"\n", b"\r", b"\r\n", BOM, BOM[:1], BOM[1:], b" ", b"{}", "é".encode(), b"x" * 9, b"y" * 10]),
        st.binary(max_size=12),
    ),
    max_size=25,
).map(b"".join)
limits = st.integers(1, 20)

texts = st.text(st.characters(codec="utf-8"), max_size=8)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
ids = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), texts)
structures = st.one_of(st.none(), st.lists(values, max_size=4), st.dictionaries(texts, values, max_size=4))


def everything(chunks: list[bytes], limit: int) -> list[bytes | Oversized | Remainder]:
    """All events of a stream that comes in these chunks and then ends."""
    framer = LineFramer(limit)
    events: list[bytes | Oversized | Remainder] = []
    for chunk in chunks:
        events += framer.feed(chunk)
    return events + framer.finish()


def model(stream: bytes, limit: int) -> list[bytes | Oversized | Remainder]:
    """What framing means, said in the plainest way, with the whole stream at hand."""
    events: list[bytes | Oversized | Remainder] = []
    *lines, rest = stream.removeprefix(BOM).split(b"\n")
    for number, whole in enumerate([*lines, rest]):
        line = whole.removesuffix(b"\r")
        if len(line) > limit:
            events.append(Oversized(line[: min(limit, HEAD_BYTES)], len(line), line[-TAIL_BYTES:]))
        elif line.strip():
            events.append(line if number < len(lines) else Remainder(line))
    return events


@given(streams, limits, st.lists(st.integers(0, 300), max_size=20))
def test_chunks_do_not_matter(stream: bytes, limit: int, cuts: list[int]) -> None:
    """B36: cut anywhere, also into empty pieces, the stream gives the events of the naive model."""
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    chunks = [stream[start:end] for start, end in pairwise(places)]
    assert b"".join(chunks) == stream
    assert everything([b"", *chunks], limit) == model(stream, limit)


@given(streams, limits)
def test_byte_by_byte_is_the_same(stream: bytes, limit: int) -> None:
    """B36: one byte at a time, and all at once."""
    expected = model(stream, limit)
    assert everything([stream[i : i + 1] for i in range(len(stream))], limit) == expected
    assert everything([stream], limit) == expected


@given(streams, limits)
def test_memory_is_bounded(stream: bytes, limit: int) -> None:
    """Rule 6: no more than the limit and the CR of the line end is held between chunks."""
    framer = LineFramer(limit)
    for i in range(0, len(stream), 3):
        framer.feed(stream[i : i + 3])
        assert framer.buffered <= max(limit + 1, len(BOM) - 1)


def check(data: bytes) -> None:
    """Whatever it is, C{parse} says so, and says nothing that contradicts itself."""
    message = parse(data)
    assert isinstance(message, Request | Notification | Response | Malformed)
    if isinstance(message, Malformed):
        assert message.error.code == (-32600 if message.is_json else -32700)
        assert message.has_id or message.id is None
        assert not (message.is_notification and message.has_id)
        assert message.stray or message.is_object
        assert message.is_json or not message.is_object
        parse(error_bytes(message.id, message.error))
    elif isinstance(message, Response):
        assert bool(message.problem) + message.has_result + (message.error is not None) == 1


@given(st.binary())
def test_parse_never_raises_on_bytes(data: bytes) -> None:
    """Rule 7, B40: any bytes."""
    check(data)


@given(values)
def test_parse_never_raises_on_json(value: object) -> None:
    """Rule 7: any JSON."""
    check(orjson.dumps(value))


members = st.one_of(values, st.sampled_from(["2.0", "m", 1, 1.0, True, None, {"code": 1}, {"code": 1, "message": "m"}]))


@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]), members))
def test_parse_never_raises_on_near_messages(value: dict[str, Any]) -> None:
    """Rule 7, B40: objects of the right members with the wrong values, and broken off anywhere."""
    data = orjson.dumps(value)
    check(data)
    check(data[: len(data) // 2])


@given(st.binary(max_size=40), st.integers(0, 200), ids)
def test_parse_survives_damaged_messages(noise: bytes, place: int, id: int | str | None) -> None:
    """Rule 7, B40: a good message with bytes overwritten somewhere."""
    good = request_bytes(id, "session/prompt", {"prompt": [{"type": "text", "text": "hé"}]})
    place %= len(good)
    check(good[:place] + noise + good[place + len(noise) :])


@given(ids, texts, structures)
def test_requests_round_trip(id: int | str | None, method: str, params: Any) -> None:
    """What is encoded parses to itself, as one line."""
    data = request_bytes(id, method, params)
    assert b"\n" not in data
    assert parse(data) == Request(id, method, params)
    data = notification_bytes(method, params)
    assert b"\n" not in data
    assert parse(data) == Notification(method, params)


@given(ids, values)
def test_results_round_trip(id: int | str | None, result: Any) -> None:
    """Any JSON value comes back as it went."""
    assert parse(result_bytes(id, result)) == Response(id, result, None, True)


@given(ids, st.integers(-(2**31), 2**31 - 1), texts, values)
def test_errors_round_trip(id: int | str | None, code: int, message: str, data: Any) -> None:
    """Code, message and data come back; data that is None is absent."""
    assert parse(error_bytes(id, AcpError(code, message, data))) == Response(id, error=ErrorObject(code, message, data))


@given(st.integers(1, 60), values)
def test_slow_and_quick_encoder_agree(levels: int, value: Any) -> None:
    """B43: below the quick encoder's last level a value is written as above it."""
    deep = value
    for _ in range(levels + 254):
        deep = {"d": deep}
    encoded = result_bytes(1, deep)
    assert encoded == b'{"jsonrpc":"2.0","id":1,"result":' + b'{"d":' * (levels + 254) + orjson.dumps(value) + b"}" * (
        levels + 255
    )


@given(ids, texts, structures, st.integers(0, 400), st.booleans())
def test_heads_never_lie(id: int | str | None, method: str, params: Any, length: int, id_last: bool) -> None:
    """B34: what a head of any length tells is what the whole message says."""
    whole = {"jsonrpc": "2.0", "params": params, "method": method, "id": id}
    data = json.dumps(whole if id_last else dict(reversed(whole.items()))).encode()
    head = read_head(data[:length])
    assert not head.is_response
    assert not head.has_id or (head.id == id and type(head.id) is type(id))
    assert head.method in (None, method)
    assert read_head(data) == Head(True, id, method)


@given(st.binary())
def test_heads_never_raise(data: bytes) -> None:
    """Rule 7: any bytes may be the beginning of a message that was too long."""
    head = read_head(data)
    assert head.has_id or head.id is None
