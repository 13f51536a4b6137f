"""
Bytes to lines: L{acp_twisted.jsonrpc.framing}.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest

from acp_twisted.jsonrpc import framing
from acp_twisted.jsonrpc.framing import HEAD_BYTES, TAIL_BYTES, LineFramer, Oversized, Remainder, frame

BOM = b"\xef\xbb\xbf"
PROBE = b'{"jsonrpc":"2.0","id":1,"method":"_x/ping"}'


def feed_all(*chunks: bytes, limit: int = 1000) -> list[bytes | Oversized]:
    """Everything that the chunks complete."""
    framer = LineFramer(limit)
    return [event for chunk in chunks for event in framer.feed(chunk)]


def test_lines_are_split_at_line_feeds() -> None:
    """Several messages in one chunk come out in order; an unfinished one waits."""
    framer = LineFramer(1000)
    assert framer.feed(b'{"a":1}\n{"b":2}\n{"c"') == [b'{"a":1}', b'{"b":2}']
    assert framer.buffered == 4
    assert framer.feed(b":3}\n") == [b'{"c":3}']
    assert framer.buffered == 0


def test_frame_adds_one_line_feed() -> None:
    """What is written ends with LF alone (B38), and reads back as itself."""
    assert frame(PROBE) == PROBE + b"\n"
    assert feed_all(frame(PROBE)) == [PROBE]


def test_carriage_return_before_the_end_is_tolerated() -> None:
    """B38: CRLF, also when it is cut between the two; only one CR belongs to the end."""
    assert feed_all(b"{}\r\n[]\r", b"\n1\r\r\n") == [b"{}", b"[]", b"1\r"]


def test_carriage_return_inside_a_line_is_kept() -> None:
    """A CR ends no line."""
    assert feed_all(b"a\rb\nc\n") == [b"a\rb", b"c"]


def test_blank_lines_are_skipped() -> None:
    """B38: lines of nothing but white space make no event, in either of the two paths."""
    assert feed_all(b"\n", b"  \n", b"\r\n", b"\t", b" \n\n \r\n", PROBE + b"\r\n") == [PROBE]
    assert feed_all(b"\n  \n\n" + PROBE + b"\n\n") == [PROBE]


@pytest.mark.parametrize("chunks", [[BOM + PROBE + b"\n"], [b"\xef", b"", b"\xbb", b"\xbf" + PROBE, b"\n"]])
def test_one_byte_order_mark_at_the_start_is_stripped(chunks: list[bytes]) -> None:
    """B38: the BOM, whole or in pieces."""
    assert feed_all(*chunks) == [PROBE]


def test_byte_order_mark_elsewhere_is_kept() -> None:
    """B38: only one, and only at the very start; the half of one is content."""
    assert feed_all(BOM + BOM + b"1\n" + BOM + b"2\n") == [BOM + b"1", BOM + b"2"]
    assert feed_all(b"\n" + BOM + b"1\n") == [BOM + b"1"]
    assert feed_all(b"\xef", b"\xbbx\n") == [b"\xef\xbbx"]


def test_characters_may_be_cut_anywhere() -> None:
    """B36: a session delivered byte by byte, with E4 B8 AD in three pieces."""
    text = '{"t":"中🙂é"}\n'.encode()
    assert feed_all(*(text[i : i + 1] for i in range(len(text)))) == [text[:-1]]


@pytest.mark.parametrize("step", [1, 7, 10_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_limit_counts_the_message_alone(step: int, end: bytes) -> None:
    """B34: exactly the limit passes, one byte more does not, and the line end does not count; nor does the chunking."""
    data = b"x" * 50 + end + b"y" * 51 + end + b"z" * 52 + end + PROBE[:40] + end
    events = feed_all(*(data[i : i + step] for i in range(0, len(data), step)), limit=50)
    assert events == [b"x" * 50, Oversized(b"y" * 50, 51, b"y" * 51), Oversized(b"z" * 50, 52, b"z" * 52), PROBE[:40]]


def test_oversized_line_keeps_its_head_only_and_the_next_line_works() -> None:
    """B34: skipped with bounded memory, reported once with its whole length, and PROBE behind it is received."""
    limit = 3 * HEAD_BYTES
    framer = LineFramer(limit)
    line = b'{"id":7,' + b"x" * (40 * HEAD_BYTES)
    events: list[bytes | Oversized] = []
    most = 0
    for i in range(0, len(line), 1000):
        events += framer.feed(line[i : i + 1000])
        most = max(most, framer.buffered)
    assert events == []
    assert most <= limit + 1
    assert framer.buffered == 0
    assert framer.feed(b"\n" + PROBE + b"\n") == [Oversized(line[:HEAD_BYTES], len(line), line[-TAIL_BYTES:]), PROBE]


def test_oversized_line_inside_one_chunk() -> None:
    """B34: neighbours in the same chunk are not lost (Twisted's own receivers lose them)."""
    assert feed_all(b"a\n" + b"b" * 60 + b"\nc\n", limit=50) == [b"a", Oversized(b"b" * 50, 60, b"b" * 60), b"c"]


def test_finish_returns_the_remainder() -> None:
    """B49: what had no line end is handed out at EOF, marked as such; then nothing is left."""
    framer = LineFramer(1000)
    framer.feed(b"1\n" + PROBE + b"\r")
    assert framer.finish() == [Remainder(PROBE)]
    assert framer.finish() == []


@pytest.mark.parametrize("data", [b"", b"1\n", b"1\n \t", b"1\n\r", BOM])
def test_finish_without_a_remainder(data: bytes) -> None:
    """B49: nothing, or white space, is no remainder."""
    framer = LineFramer(1000)
    framer.feed(data)
    assert framer.finish() == []


def test_finish_after_half_a_byte_order_mark() -> None:
    """Two bytes of a BOM and then EOF are a remainder, not lost."""
    framer = LineFramer(1000)
    framer.feed(BOM[:2])
    assert framer.finish() == [Remainder(BOM[:2])]


@pytest.mark.parametrize("length", [51, 52, 500])
def test_finish_inside_an_oversized_line(length: int) -> None:
    """B34, B49: an unterminated line over the limit is reported as oversized, whether or not skipping had begun."""
    framer = LineFramer(50)
    framer.feed(b"x" * length)
    assert framer.finish() == [Oversized(b"x" * 50, length, b"x" * length)]


def test_limit_must_be_positive() -> None:
    """A limit that lets nothing through is a mistake."""
    with pytest.raises(ValueError, match="at least 1"):
        LineFramer(0)


class _Watched(bytearray):
    """A buffer that refuses to be searched, or to be cut off at its front."""

    def _refuse(self, *args: Any) -> Any:
        raise AssertionError("the buffer was searched or shifted")

    find = rfind = index = rindex = count = pop = __delitem__ = __contains__ = __setitem__ = _refuse
    partition = rpartition = _refuse
    split: Any = _refuse
    rsplit: Any = _refuse
    splitlines: Any = _refuse


class _Chunk(bytes):
    """A chunk that counts how often it is searched."""

    searches = 0

    def split(self, *args: Any, **kwargs: Any) -> list[bytes]:
        _Chunk.searches += len(self)
        return super().split(*args, **kwargs)

    find = index = splitlines = partition = None  # type: ignore[assignment]


def test_every_byte_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """B35: the work is linear: each chunk is searched when it comes, and what is buffered never again."""
    monkeypatch.setattr(_Chunk, "searches", 0)
    framer = LineFramer(10**6)
    framer.feed(b"\n")  # past the byte order mark
    framer._buffer = _Watched()
    line = b"x" * 50_000
    for i in range(0, len(line), 100):
        assert framer.feed(_Chunk(line[i : i + 100])) == []
    assert framer.feed(_Chunk(b"\n")) == [line]
    assert _Chunk.searches == len(line) + 1


def test_many_small_lines_are_not_cut_off_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """B35: one chunk of many lines is split in one go, without going through the buffer."""
    monkeypatch.setattr(_Chunk, "searches", 0)
    framer = LineFramer(10**6)
    framer.feed(b"\n")
    framer._buffer = _Watched()
    chunk = _Chunk((PROBE + b"\n") * 2000)
    assert framer.feed(chunk) == [PROBE] * 2000
    assert _Chunk.searches == len(chunk)


def test_framing_imports_neither_twisted_nor_json() -> None:
    """The design: framing is sans-I/O and parses nothing."""
    imported = set()
    for node in ast.walk(ast.parse(inspect.getsource(framing))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert imported == {"__future__", "collections.abc", "typing", "attrs"}
