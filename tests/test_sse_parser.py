"""
The parser of event streams, without a stream.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_twisted.jsonrpc.framing import HEAD_BYTES, TAIL_BYTES, Oversized
from acp_twisted.transports.http.marks import behind, mark
from acp_twisted.transports.http.sse import COMMENT
from acp_twisted.transports.http.sse_parser import EventStreamParser, ServerEvent


def messages(parser: EventStreamParser, *chunks: bytes) -> list[bytes | Oversized]:
    """What the chunks complete, without the ids."""
    return [event.message for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_message_is_the_data_of_one_event(end: bytes) -> None:
    """Protocol 5.2: one event for each message, whatever the line ends are."""
    parser = EventStreamParser(100)
    lines = [b'data: {"a":1}', b"", b'data:{"b":2}', b"", b""]
    assert messages(parser, end.join(lines)) == [b'{"a":1}', b'{"b":2}']


def test_what_is_no_message_is_passed_over() -> None:
    """Comments keep a stream alive and say nothing; other fields, empty events and events of other types neither."""
    parser = EventStreamParser(100)
    stream = b": hello\n\n:\n\nid: 3\n\nevent: ping\ndata: {}\n\nunknown: x\ndata\n\nevent: message\ndata: yes\n\n"
    assert messages(parser, stream) == [b"yes"]
    assert parser.last_event_id == b"3"


def test_lines_of_data_are_joined() -> None:
    """An event may have its data in several lines, and a space after the colon is no part of it."""
    assert messages(EventStreamParser(100), b"data: a\ndata:  b\ndata\n\n") == [b"a\n b\n"]


def test_a_mark_at_the_start_is_no_data() -> None:
    """B38: a byte order mark may come first, and in pieces."""
    assert messages(EventStreamParser(9), b"\xef", b"\xbb", b"\xbfdata: a\n\n") == [b"a"]
    assert messages(EventStreamParser(9), b"\xef\xbb\xbe\ndata: a\n\n") == [b"a"]


def test_a_character_may_be_cut() -> None:
    """B36: pieces are joined as bytes, and nothing is decoded here."""
    parser = EventStreamParser(9)
    text = "data: \N{SNOWMAN}\n\n".encode()
    assert messages(parser, text[:7], text[7:8], text[8:]) == ["\N{SNOWMAN}".encode()]


def test_ids_and_retry_are_kept() -> None:
    """B85: the cursor outlives the events; an id with NUL and a retry that is no number do not count."""
    parser = EventStreamParser(9)
    assert parser.feed(b"id: 7\ndata: a\nretry: 250\n\n") == [ServerEvent(b"a", b"7")]
    assert parser.feed(b"id: 8\0\nretry: soon\ndata: b\n\n") == [ServerEvent(b"b", b"7")]
    assert parser.feed(b"id\ndata: c\n\n") == [ServerEvent(b"c", b"")]
    assert parser.retry == 250


def test_an_id_counts_only_with_its_event() -> None:
    """B85: an event that was cut off is asked for again."""
    parser = EventStreamParser(9)
    parser.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n")
    assert parser.last_event_id == b"1"
    assert parser.in_event
    parser.feed(b"\n")
    assert not parser.in_event


@pytest.mark.parametrize("size", [11, 5000, 100_000])
def test_too_long_is_skipped(size: int) -> None:
    """B34: data beyond the limit is refused with its head, length and tail, and the next message is taken."""
    parser = EventStreamParser(10)
    data = bytes(65 + n % 26 for n in range(size))
    stream = b"data: " + data + b"\n\ndata: next\n\n"
    events = messages(parser, *(stream[start : start + 1000] for start in range(0, len(stream), 1000)))
    assert events == [Oversized(data[:10], size, data[-TAIL_BYTES:]), b"next"]


def test_too_long_in_lines_is_skipped() -> None:
    """B34: the limit is of the event, not of its lines."""
    parser = EventStreamParser(10)
    event, after = messages(parser, b"data: 12345\ndata: 67890\ndata: x\n\ndata: next\n\n")
    assert isinstance(event, Oversized)
    assert event.head == b"12345\n6789"
    assert after == b"next"


def test_the_longest_that_is_let_through() -> None:
    """The limit itself still fits, with a space after the colon and without, in one piece and in many."""
    data = b"x" * 3000
    for start in (b"data: ", b"data:"):
        stream = start + data + b"\n\n"
        assert messages(EventStreamParser(3000), stream) == [data]
        assert messages(EventStreamParser(3000), *(stream[n : n + 1] for n in range(len(stream)))) == [data]


def test_what_is_held_is_bounded() -> None:
    """B34: neither an endless line nor an endless event is kept."""
    for piece in (b"data: aaaaaaaaaaaaaaaaaaaaaa\n", b"data: " + b"a" * 1000, b": " + b"a" * 1000, b"id" * 600):
        parser = EventStreamParser(5000)
        for _ in range(200):
            parser.feed(piece)
        held = len(parser._line) + len(parser._data) + len(parser._tail)
        assert held <= 5000 + HEAD_BYTES + TAIL_BYTES + len(piece)


def test_a_limit_of_nothing_is_refused() -> None:
    """A limit lets at least one byte through."""
    with pytest.raises(ValueError, match="at least 1"):
        EventStreamParser(0)


def test_marks() -> None:
    """J4: the comments of our servers count, in pieces of any size; any other comment is passed over."""
    stream = mark(3) + b"data: a\n\n" + behind(12) + COMMENT + b": acp behind\n: acp behind -1\ndata: b\n\ndata: c\n\n"
    for size in (1, 7, len(stream)):
        parser = EventStreamParser(9)
        pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
        events = [event for piece in pieces for event in parser.feed(piece)]
        assert [(event.message, event.behind) for event in events] == [(b"a", 0), (b"b", 12), (b"c", 0)]
        assert parser.mark == 3
    for other in (b": acp mark x\n", b": acp mark 9999999999999999\n", b"acp mark 1\n", b":\n", b": acp mark\n"):
        parser.feed(other)
        assert parser.mark == 3


LINES = st.sampled_from(
    [b"data: ", b"data:", b"data", b":", b"id: ", b"event: ", b"retry: ", b"\n", b"\r", b"\r\n", b"\n\n", b"message"]
)
STREAMS = st.lists(st.one_of(LINES, st.binary(max_size=30), st.just(b"x" * 1100)), max_size=30).map(b"".join)


@given(STREAMS, st.lists(st.integers(1, 50), min_size=1))
def test_cuts_do_not_matter(stream: bytes, sizes: list[int]) -> None:
    """B36: any bytes, cut anywhere, give the same events, ids and bounds; nothing raises."""
    whole, pieces = EventStreamParser(40), EventStreamParser(40)
    expected = whole.feed(stream)
    found: list[ServerEvent] = []
    position = turn = 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        found += pieces.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    assert found == expected
    assert (pieces.last_event_id, pieces.retry) == (whole.last_event_id, whole.retry)


@given(st.lists(st.binary(min_size=1, max_size=60).filter(lambda data: not {10, 13} & set(data))))
def test_what_is_written_is_read(bodies: list[bytes]) -> None:
    """Every message without a raw line end comes out as it went in."""
    stream = b"".join(b"data: " + body + b"\n\n" for body in bodies)
    assert messages(EventStreamParser(60), stream) == bodies
