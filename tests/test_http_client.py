"""
The client's side of Streamable HTTP, on a fake layer and a clock.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from http_fakes import FakeExchange, Wire
from transport_fakes import Passes
from twisted.internet.error import ConnectionRefusedError
from zope.interface.verify import verifyObject

from acp_twisted.errors import HttpStatusError, LimitExceeded
from acp_twisted.interfaces import IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.transports.http.client_holds import MAX_QUIET_SECONDS, QUIET_SECONDS
from acp_twisted.transports.http.client_streams import BACKOFF, READY_SECONDS

UPDATE = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s-1", "update": {}}}


def result(number: object, **members: Any) -> dict[str, Any]:
    """An answer."""
    return {"jsonrpc": "2.0", "id": number, "result": members}


def methods(exchanges: list[FakeExchange]) -> list[Any]:
    """What was POSTed, by method, or id for answers."""
    return [each.message.get("method", each.message.get("id")) for each in exchanges]


# ---- the life of a connection


def test_initialize_opens_the_connection() -> None:
    """Protocol 5.2: the POST of initialize carries no id; its answer names the connection, whose stream is opened."""
    wire = Wire(headers=[(b"X-Mine", b"yes"), (b"accept", b"nothing")])
    verifyObject(IMessageTransport, wire.transport)
    wire.send(id=0, method="initialize", params={"protocolVersion": 1})
    post = wire.one("POST")
    assert post.headers[b"Content-Type"] == b"application/json"
    assert post.headers[b"X-Mine"] == b"yes"
    assert b"Acp-Connection-Id" not in post.headers
    assert b"accept" not in post.headers
    answer = result(0, protocolVersion=1)
    post.answer(200, json.dumps(answer).encode(), content_type=b"application/json", acp_connection_id=b"c-1")
    assert wire.messages == [answer]
    get = wire.one("GET")
    assert get.headers[b"Accept"] == b"text/event-stream"
    assert get.headers[b"Acp-Connection-Id"] == b"c-1"
    assert get.headers[b"Acp-Protocol-Version"] == b"1"
    assert get.headers[b"X-Mine"] == b"yes"


def test_initialize_may_be_answered_by_a_stream() -> None:
    """Protocol 5.2: the body of an answer is JSON or an event stream."""
    wire = Wire()
    wire.send(id=0, method="initialize", params={})
    post = wire.one("POST")
    post.head(200, content_type=b"text/event-stream; charset=utf-8", acp_connection_id=b"c-1")
    post.event(result(0, protocolVersion=1))
    post.end()
    assert wire.messages == [result(0, protocolVersion=1)]
    assert wire.one("GET").headers[b"Acp-Connection-Id"] == b"c-1"


def test_close_sends_what_waits_and_deletes() -> None:
    """Protocol 5.2: DELETE ends the connection, behind what was sent before; then it is lost, from outside of close."""
    wire = Wire()
    stream = wire.initialize()
    wire.send(id=1, method="session/list")
    wire.send(id=2, method="session/list")
    wire.transport.close()
    wire.transport.close()
    assert not wire.new("DELETE")
    wire.one("POST").accept()
    wire.one("POST").accept()
    assert stream.cancelled
    delete = wire.one("DELETE")
    assert delete.headers[b"Acp-Connection-Id"] == b"c-1"
    assert "lost" not in wire.receiver.names
    delete.accept()
    assert wire.receiver.events[-1] == ("lost", "the connection was closed")
    assert wire.layer.closed
    assert not wire.clock.getDelayedCalls()


def test_a_server_that_does_not_answer_the_goodbye() -> None:
    """B79: closing is bounded, and leaves no timer."""
    wire = Wire(Limits(exit_grace=2.0))
    wire.initialize()
    wire.transport.close()
    wire.clock.advance(1.9)
    assert "lost" not in wire.receiver.names
    wire.clock.advance(0.2)
    assert wire.receiver.names[-1] == "lost"
    assert not wire.clock.getDelayedCalls()


def test_closing_while_nothing_is_read() -> None:
    """What comes is read and thrown away then: a server that is stuck writing takes none of our last messages."""
    wire = Wire()
    session = wire.session(stream := wire.initialize())
    wire.transport.pauseProducing()
    wire.prompt(1)
    wire.transport.close()
    assert not stream.paused
    assert not session.paused
    before = len(wire.receiver.events)
    session.event(UPDATE)
    wire.one("POST").accept()
    wire.one("DELETE").accept()
    assert wire.receiver.names[before:] == ["lost"]
    assert not wire.clock.getDelayedCalls()


def test_closing_before_there_is_a_connection() -> None:
    """Nothing was made, so nothing is deleted."""
    wire = Wire()
    wire.send(id=0, method="initialize", params={})
    post = wire.one("POST")
    wire.transport.close()
    wire.clock.advance(0)
    assert post.cancelled
    assert wire.receiver.names == ["made", "lost"]
    assert not wire.clock.getDelayedCalls()


def test_abort_loses_what_waits() -> None:
    """What is queued is forgotten; the reason is the caller's; the server is told."""
    wire = Wire()
    wire.initialize()
    wire.prompt(1)
    wire.transport.abort("enough")
    wire.one("DELETE").accept()
    assert wire.receiver.events[-1] == ("lost", "enough")
    assert not wire.clock.getDelayedCalls()


def test_cookies_are_kept() -> None:
    """Protocol 5.2: what the server sets is shown again on every request of the connection."""
    wire = Wire()
    stream = wire.initialize(set_cookie=[b"node=a; Path=/", b"other=b; Path=/elsewhere"])
    assert stream.headers[b"Cookie"] == b"node=a"
    wire.send(id=1, method="session/list")
    assert wire.one("POST").headers[b"Cookie"] == b"node=a"


# ---- order


def test_the_stream_comes_before_the_post() -> None:
    """A message of a session waits for the session's stream, but not for ever, and not for another session's."""
    wire = Wire()
    wire.initialize()
    wire.prompt(1, "a")
    wire.prompt(2, "b")
    a, b = wire.new("GET")
    assert not wire.new("POST")
    b.open()
    assert wire.one("POST").message["id"] == 2
    wire.clock.advance(READY_SECONDS)
    assert [each.message["id"] for each in wire.new("POST")] == [2, 1]
    assert a.headers[b"Acp-Session-Id"] == b"a"


def test_posts_of_a_session_keep_their_order() -> None:
    """C1: one POST of a session at a time; those of others do not wait."""
    wire = Wire()
    stream = wire.initialize()
    wire.session(stream, "s-1")
    wire.session(stream, "s-2")
    wire.prompt(1, "s-1")
    wire.send(method="session/cancel", params={"sessionId": "s-1"})
    wire.prompt(2, "s-2")
    first, other = wire.new("POST")
    assert [first.message["id"], other.message["id"]] == [1, 2]
    assert first.headers[b"Acp-Session-Id"] == b"s-1"
    first.accept()
    assert [each.message.get("method") for each in wire.new("POST")] == ["session/prompt", "session/cancel"]


def test_a_cancellation_follows_its_request() -> None:
    """X9, C41: $/cancel_request goes without a session's header, and behind the POST of what it cancels."""
    wire = Wire()
    wire.session(wire.initialize())
    wire.prompt(1)
    wire.send(method="$/cancel_request", params={"requestId": 1})
    wire.send(method="$/cancel_request", params={"requestId": 99})
    prompt, unknown = wire.new("POST")
    assert unknown.message["params"] == {"requestId": 99}
    prompt.accept()
    cancel = wire.new("POST")[-1]
    assert cancel.message["params"] == {"requestId": 1}
    assert b"Acp-Session-Id" not in cancel.headers


def test_a_cancellation_is_of_no_session() -> None:
    """C42, C43: a session that a cancellation names makes no header, nor does one inside of a wrapped one."""
    wire = Wire()
    wire.initialize()
    inner = {"requestId": 9, "sessionId": "s-1"}
    wire.send(method="$/cancel_request", params=inner)
    wire.one("POST").accept()
    wire.send(method="proxy/successor", params={"method": "$/cancel_request", "params": inner})
    wire.one("POST").accept()
    posts = [each for each in wire.layer.requests if each.method == b"POST"][1:]
    assert len(posts) == 2
    assert not any(b"Acp-Session-Id" in post.headers for post in posts)


def test_closing_while_a_stream_is_being_opened() -> None:
    """C46, B79: the end of a client ends the opening of its streams; what waited for one is sent, or given up."""
    wire = Wire(Limits(stall_timeout=5))
    wire.initialize()
    wire.prompt(1)
    opening = wire.one("GET")
    wire.transport.abort("enough")
    assert opening.cancelled
    wire.one("DELETE").accept()
    assert not wire.clock.getDelayedCalls()
    wire = Wire(Limits(stall_timeout=5))
    wire.initialize()
    wire.prompt(1)
    wire.transport.close()
    wire.clock.advance(READY_SECONDS)
    wire.one("POST").accept()
    assert not wire.new("GET")
    wire.one("DELETE").accept()
    assert not wire.clock.getDelayedCalls()


def test_initialize_is_not_cancelled() -> None:
    """Nothing of a connection can be named before there is one."""
    wire = Wire()
    wire.send(id=0, method="initialize", params={})
    wire.send(method="$/cancel_request", params={"requestId": 0})
    assert methods(wire.new("POST")) == ["initialize"]


def test_an_answer_goes_the_way_of_its_request() -> None:
    """The answer to a request that came over a session's stream carries the session's header; others do not."""
    wire = Wire()
    stream = wire.initialize()
    session = wire.session(stream)
    session.event({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": {"sessionId": "s-1"}})
    stream.event({"jsonrpc": "2.0", "id": 8, "method": "_x/ask", "params": {}})
    wire.send(id=7, result={})
    wire.send(id=8, result={})
    seven, eight = wire.new("POST")
    assert seven.headers[b"Acp-Session-Id"] == b"s-1"
    assert b"Acp-Session-Id" not in eight.headers


def loading(limits: Limits | None = None) -> tuple[Wire, FakeExchange, FakeExchange]:
    """A connection that has asked for session/load, its stream and the session's."""
    wire = Wire(limits)
    stream = wire.initialize()
    wire.send(id=1, method="session/load", params={"sessionId": "s-1"})
    session = wire.one("GET")
    session.open()
    wire.one("POST").accept()
    return wire, stream, session


def test_an_answer_of_load_that_a_stall_lies_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """J4: what came during a stall comes before it, although the time that it waits at most is over."""
    monkeypatch.setattr("http_fakes.Clock", Passes)
    wire, stream, session = loading()
    stream.event(result(1))
    wire.clock.advance(MAX_QUIET_SECONDS * 2)
    session.event(UPDATE)
    wire.clock.pump([0] * 20)
    wire.clock.pump([QUIET_SECONDS] * 20)
    assert wire.messages[1:] == [UPDATE, result(1)]


def test_updates_come_before_the_answer_of_load() -> None:
    """J4: the answer of session/load waits until the session's own stream is silent, but not for ever."""
    wire, stream, session = loading()
    stream.event(result(1))
    session.event(UPDATE)
    wire.clock.advance(QUIET_SECONDS * 0.9)
    session.event(UPDATE)
    wire.clock.advance(QUIET_SECONDS * 0.9)
    assert wire.messages[1:] == [UPDATE, UPDATE]
    wire.clock.advance(QUIET_SECONDS)
    assert wire.messages[1:] == [UPDATE, UPDATE, result(1)]
    wire.send(id=2, method="session/load", params={"sessionId": "s-1"})
    wire.one("POST").accept()
    stream.event(result(2))
    for _ in range(int(MAX_QUIET_SECONDS / QUIET_SECONDS * 2) + 2):
        wire.clock.advance(QUIET_SECONDS / 2)
        session.event(UPDATE)
    assert result(2) in wire.messages


def comment(stream: FakeExchange, text: str) -> None:
    """A comment on a stream."""
    stream.reader.body_received(f": {text}\n\n".encode())


def test_a_marked_answer_waits_for_its_mark() -> None:
    """
    J4: what a server of ours marks as behind the updates of its session comes behind them, however long a network
    keeps them back, and at once when they are there.
    """
    wire, stream, session = loading()
    comment(stream, "acp behind 7")
    stream.event(result(1))
    session.event(UPDATE)
    comment(session, "acp mark 6")
    wire.clock.pump([QUIET_SECONDS] * 300)
    assert wire.messages[1:] == [UPDATE]
    session.reader.body_received(f"data: {json.dumps(UPDATE)}\n\n: acp mark 7\n\n".encode())
    assert wire.messages[1:] == [UPDATE, UPDATE, result(1)]
    wire.send(id=2, method="session/load", params={"sessionId": "s-1"})
    wire.one("POST").accept()
    comment(session, "acp mark 8")
    comment(stream, "acp behind 8")
    stream.event(result(2))
    assert wire.messages[-1] == result(2)
    assert not [call for call in wire.clock.getDelayedCalls() if "Holds" in str(call)]


def test_a_mark_that_does_not_come() -> None:
    """An answer is delivered though its mark was lost with the session's stream, or never sent."""
    wire, stream, session = loading()
    comment(stream, "acp behind 1")
    stream.event(result(1))
    session.end()
    wire.clock.pump([QUIET_SECONDS] * 3)
    again = wire.one("GET")
    again.open()
    again.event(UPDATE)
    wire.clock.pump([QUIET_SECONDS] * 10)
    assert wire.messages[1:] == [UPDATE]
    wire.clock.pump([QUIET_SECONDS] * 15)
    assert wire.messages[1:] == [UPDATE, result(1)]
    wire, stream, _ = loading(Limits(stall_timeout=5.0))
    comment(stream, "acp behind 1")
    stream.event(result(1))
    wire.clock.pump([QUIET_SECONDS] * 49)
    assert wire.messages[1:] == []
    wire.clock.pump([QUIET_SECONDS] * 3)
    assert wire.messages[1:] == [result(1)]


@pytest.mark.parametrize("marked", [True, False])
def test_an_answer_does_not_overtake_what_is_not_read(marked: bool) -> None:
    """J4, rule 6: a receiver that pauses gets the updates before the answer, however long the pause."""
    wire, stream, session = loading(Limits(stall_timeout=3.0))
    if marked:
        comment(stream, "acp behind 1")
    stream.event(result(1))
    wire.transport.pauseProducing()
    assert session.paused
    wire.clock.pump([QUIET_SECONDS] * 100)
    wire.clock.advance(QUIET_SECONDS * 0.99)
    wire.transport.resumeProducing()
    wire.clock.advance(QUIET_SECONDS / 2)
    session.event(UPDATE)
    if marked:
        comment(session, "acp mark 1")
    wire.clock.pump([QUIET_SECONDS] * 10)
    assert wire.messages[1:] == [UPDATE, result(1)]


def test_a_cut_connection_still_brings_what_came() -> None:
    """B67: an answer that waits for its session's stream is delivered before the loss."""
    wire = Wire()
    stream = wire.initialize()
    wire.send(id=1, method="session/load", params={"sessionId": "s-1"})
    wire.one("GET").open()
    wire.one("POST").accept()
    stream.event(result(1))
    wire.transport.abort("enough")
    wire.one("DELETE").accept()
    assert wire.messages[-1] == result(1)
    assert wire.receiver.names[-2:] == ["message", "lost"]


# ---- streams


def test_a_stream_that_ends_is_opened_again() -> None:
    """B83: an end between two events loses nothing: the stream is opened again, and what is unanswered stays so."""
    wire = Wire()
    stream = wire.initialize()
    session = wire.session(stream)
    wire.prompt(1)
    wire.one("POST").accept()
    session.event(UPDATE)
    session.end()
    assert not wire.new("GET")
    wire.clock.advance(BACKOFF[0])
    again = wire.one("GET")
    assert again.headers[b"Acp-Session-Id"] == b"s-1"
    again.open()
    again.event(result(1, stopReason="end_turn"))
    assert wire.messages[-1] == result(1, stopReason="end_turn")


def test_a_torn_stream_fails_what_it_owes() -> None:
    """B85: messages may be lost in a cut; what is unanswered on that stream fails, the rest goes on."""
    wire = Wire()
    stream = wire.initialize()
    session = wire.session(stream)
    wire.session(stream, "s-2")
    wire.prompt(1)
    wire.prompt(2, "s-2")
    for post in wire.new("POST"):
        post.accept()
    session.tear()
    wire.clock.advance(0)
    (error,) = wire.messages[3:]
    assert (error["id"], error["error"]["code"]) == (1, -32603)
    assert "torn" in error["error"]["message"]
    wire.clock.advance(BACKOFF[0])
    again = wire.one("GET")
    again.open()
    again.event(result(1, stopReason="end_turn"))
    assert len(wire.messages) == 4, "a late answer is dropped"


def test_numbered_events_are_resumed() -> None:
    """B85: with ids the server is told the last that came; what comes twice is dropped; nothing fails."""
    wire = Wire()
    stream = wire.initialize()
    session = wire.session(stream)
    wire.prompt(1)
    wire.one("POST").accept()
    session.event(UPDATE, "7")
    session.event(UPDATE, "8")
    session.tear()
    wire.clock.advance(BACKOFF[0])
    again = wire.one("GET")
    assert again.headers[b"Last-Event-ID"] == b"8"
    again.open()
    again.event(UPDATE, "8")
    again.event(result(1), "9")
    assert wire.messages[2:] == [UPDATE, UPDATE, result(1)]


def test_a_stream_that_can_not_be_opened_again() -> None:
    """B83, B63: the attempts last longer than any server keeps a stream; then a session fails, or the connection."""
    assert sum(BACKOFF) > 20
    wire = Wire()
    stream = wire.initialize()
    session = wire.session(stream)
    wire.prompt(1)
    wire.one("POST").accept()
    session.end()
    for delay in BACKOFF:
        wire.clock.advance(delay)
        wire.one("GET").tear(ConnectionRefusedError())
    wire.clock.advance(0)
    assert wire.messages[-1]["id"] == 1
    assert "lost" not in wire.receiver.names
    stream.end()
    for delay in BACKOFF:
        wire.clock.advance(delay)
        wire.one("GET").answer(503)
    wire.one("DELETE").accept()
    assert wire.receiver.events[-1] == ("lost", "the event stream was lost: HTTP 503")
    assert not wire.clock.getDelayedCalls()


def test_a_server_that_forgot_the_connection() -> None:
    """Protocol 5.2: 404 for the connection's stream is the end of it."""
    wire = Wire()
    wire.initialize().end()
    wire.clock.advance(BACKOFF[0])
    wire.one("GET").answer(404)
    wire.clock.advance(0)
    assert isinstance(wire.receiver.error, HttpStatusError)
    assert wire.receiver.error.status == 404
    assert not wire.new("DELETE")


def test_a_session_that_the_server_does_not_know_yet() -> None:
    """Some servers know a session only after its load, which is sent without the session's name then."""
    wire = Wire()
    stream = wire.initialize()
    wire.send(id=1, method="session/load", params={"sessionId": "s-1"})
    wire.one("GET").answer(404)
    load = wire.one("POST")
    assert b"Acp-Session-Id" not in load.headers
    load.accept()
    stream.event(result(1))
    wire.one("GET").open()
    wire.prompt(2)
    assert wire.one("POST").headers[b"Acp-Session-Id"] == b"s-1"


def test_a_closed_session_has_no_stream() -> None:
    """The stream of a session ends with it."""
    wire = Wire()
    session = wire.session(wire.initialize())
    wire.send(id=2, method="session/close", params={"sessionId": "s-1"})
    wire.one("POST").accept()
    assert not session.cancelled
    session.event(result(2))
    assert session.cancelled
    assert wire.messages[-1] == result(2)


def test_too_many_sessions() -> None:
    """Rule 6: Limits.max_sessions bounds the streams; one more session fails, the others go on."""
    wire = Wire(Limits(max_sessions=1))
    wire.session(wire.initialize())
    wire.prompt(1, "s-2")
    wire.clock.advance(0)
    assert "Limits.max_sessions" in wire.messages[-1]["error"]["message"]
    wire.prompt(2)
    assert wire.one("POST").message["id"] == 2


def test_a_session_id_that_no_header_can_have() -> None:
    """Header hygiene: such an id is refused here, and never written."""
    wire = Wire()
    wire.initialize()
    for number, bad in enumerate(["a\r\nX: y", "", "\N{SNOWMAN}", " a"]):
        wire.prompt(number, bad)
        wire.clock.advance(0)
        assert "header" in wire.messages[-1]["error"]["message"]
    assert not wire.new("POST")


# ---- statuses


@pytest.mark.parametrize("status", [401, 403, 410])
def test_statuses_that_end_the_connection(status: int) -> None:
    """The table of protocol 5.3: the server does not know us (any more)."""
    wire = Wire()
    wire.session(wire.initialize())
    wire.prompt(1)
    wire.one("POST").answer(status)
    wire.clock.advance(0)
    assert isinstance(wire.receiver.error, HttpStatusError)
    assert wire.receiver.error.status == status
    assert f"HTTP {status}" in str(wire.receiver.error)


@pytest.mark.parametrize("status", [400, 404, 409, 413, 415, 429, 500, 501, 502, 503])
def test_statuses_that_fail_one_request(status: int) -> None:
    """Any other failed POST of a request fails that request at once, with the status and what was said (B85)."""
    wire = Wire()
    wire.session(wire.initialize())
    wire.prompt(1)
    wire.one("POST").answer(status, b"because")
    wire.clock.advance(0)
    error = wire.messages[-1]
    assert error["id"] == 1
    assert error["error"]["code"] == -32603
    assert f"HTTP {status}" in error["error"]["message"]
    assert error["error"]["data"] == {"status": status, "body": "because"}
    assert "lost" not in wire.receiver.names


def test_404_without_a_session_ends_the_connection() -> None:
    """Only the connection can be what is unknown."""
    wire = Wire()
    wire.initialize()
    wire.send(id=1, method="session/list")
    wire.one("POST").answer(404)
    wire.clock.advance(0)
    assert wire.receiver.names[-1] == "lost"


def test_409_fails_a_session_until_it_is_loaded() -> None:
    """Protocol 5.3: somebody else has the session; everything of it fails until session/load, the others go on."""
    wire = Wire()
    stream = wire.initialize()
    session = wire.session(stream)
    wire.prompt(1)
    wire.prompt(2)
    wire.one("POST").answer(409)
    wire.prompt(3)
    wire.clock.advance(0)
    assert sorted(each["id"] for each in wire.messages[2:]) == [1, 2, 3]
    assert session.cancelled
    assert not wire.new("POST")
    wire.send(id=4, method="session/load", params={"sessionId": "s-1"})
    wire.one("GET").open()
    assert wire.one("POST").message["id"] == 4


def test_what_is_no_request_and_is_refused(logged_errors: Any) -> None:
    """A refused notification is logged; one that a server failed at is the end, for nobody else would hear of it."""
    wire = Wire()
    wire.session(wire.initialize())
    wire.send(method="session/cancel", params={"sessionId": "s-1"})
    wire.one("POST").answer(400)
    assert "lost" not in wire.receiver.names
    wire.send(method="session/cancel", params={"sessionId": "s-1"})
    wire.one("POST").answer(502)
    wire.one("DELETE").accept()
    assert wire.receiver.names[-1] == "lost"


def test_a_post_that_gets_no_answer() -> None:
    """B63: nobody knows whether it arrived, so the connection is over."""
    wire = Wire()
    wire.initialize()
    wire.send(id=1, method="session/list")
    wire.one("POST").tear()
    wire.one("DELETE").accept()
    assert wire.receiver.events[-1] == ("lost", "the POST of session/list failed: torn")


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (401, {}, "HTTP 401 (Unauthorized)"),
        (503, {}, "HTTP 503 (Service Unavailable)"),
        (302, {"location": b"http://elsewhere/"}, "HTTP 302 (Found)"),
        (200, {}, "is empty"),
        (299, {}, "is empty"),
    ],
)
def test_an_initialize_that_is_refused(status: int, headers: dict[str, bytes], words: str) -> None:
    """The error says which status; nothing is followed elsewhere."""
    wire = Wire()
    wire.send(id=0, method="initialize", params={})
    wire.one("POST").answer(status, **headers)
    wire.clock.advance(0)
    assert words in str(wire.receiver.error)
    assert not wire.clock.getDelayedCalls()


def test_an_agent_that_refuses_initialize_says_so_itself() -> None:
    """A status with the agent's own answer in its body: the answer is the caller's."""
    wire = Wire()
    wire.send(id=0, method="initialize", params={})
    error = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32603, "message": "no"}}
    wire.one("POST").answer(500, json.dumps(error).encode(), content_type=b"application/json")
    wire.clock.advance(0)
    assert wire.messages == [error]
    assert wire.receiver.names[-1] == "lost"


def test_an_answer_to_initialize_without_a_name() -> None:
    """Protocol 5.2: without Acp-Connection-Id there is no connection."""
    wire = Wire()
    wire.send(id=0, method="initialize", params={})
    wire.one("POST").answer(200, b'{"jsonrpc":"2.0","id":0,"result":{}}', content_type=b"application/json")
    wire.clock.advance(0)
    assert "Acp-Connection-Id" in str(wire.receiver.error)


# ---- pushback


def test_a_paused_receiver_pauses_every_stream() -> None:
    """Rule 6: the streams are paused, what had arrived is held, and delivered in order afterwards."""
    wire = Wire()
    stream = wire.initialize()
    session = wire.session(stream)
    wire.receiver.on_message = lambda message: wire.transport.pauseProducing()
    session.reader.body_received(b'data: {"n":1}\n\ndata: {"n":2}\n\n')
    assert wire.messages[2:] == [{"n": 1}]
    assert stream.paused
    assert session.paused
    wire.prompt(1, "s-9")
    assert wire.one("GET").paused, "a stream that is opened meanwhile too"
    wire.receiver.on_message = lambda message: None
    wire.transport.resumeProducing()
    assert wire.messages[2:] == [{"n": 1}, {"n": 2}]
    assert not (stream.paused)
    assert not (session.paused)


def test_unsent_output_has_marks() -> None:
    """Rule 6: the sender is asked to wait above one mark and to go on below the other; beyond the last it is cut."""
    limits = Limits(low_water_bytes=1000, high_water_bytes=2000, pause_reading_bytes=3000, max_unsent_bytes=8000)
    wire = Wire(limits)
    stream = wire.initialize()
    text = "x" * 1200
    wire.send(id=1, method="_a", params={"t": text})
    assert "writing paused" not in wire.receiver.names
    wire.send(id=2, method="_a", params={"t": text})
    assert wire.receiver.names[-1] == "writing paused"
    assert not stream.paused
    wire.send(id=3, method="_a", params={"t": text})
    assert stream.paused
    for _ in range(3):
        wire.one("POST").accept()
    assert wire.receiver.names[-1] == "writing resumed"
    assert not stream.paused
    assert wire.transport.unsent == 0
    for number in range(7):
        wire.send(id=10 + number, method="_a", params={"t": text})
    wire.one("DELETE").accept()
    assert wire.receiver.names[-1] == "lost"
    reason = wire.receiver.error.reason
    assert reason is not None
    assert reason.check(LimitExceeded)


def test_a_post_that_is_not_answered() -> None:
    """Rule 6: a server that takes nothing is cut after Limits.stall_timeout, but not while we do not read ourselves."""
    wire = Wire(Limits(stall_timeout=60))
    wire.initialize()
    wire.send(id=1, method="session/list")
    wire.transport.pauseProducing()
    wire.clock.advance(60)
    assert not wire.new("DELETE")
    wire.transport.resumeProducing()
    wire.clock.advance(60)
    wire.one("DELETE").accept()
    assert "Limits.stall_timeout" in str(wire.receiver.error)
    assert not wire.clock.getDelayedCalls()


def test_a_message_that_is_too_long() -> None:
    """B34: it is skipped and reported with its head and its length; the next one is as good as ever."""
    wire = Wire(Limits(max_message_bytes=200))
    session = wire.session(wire.initialize())
    session.event({"long": "x" * 500})
    session.event({"n": 1})
    assert wire.receiver.names[-2:] == ["oversized", "message"]


def test_a_receiver_that_fails(logged_errors: Any) -> None:
    """Rule 7: it is logged, and given the next message."""
    wire = Wire()
    session = wire.session(wire.initialize())

    def fail(message: bytes) -> None:
        raise RuntimeError("no")

    wire.receiver.on_message = fail
    session.event({"n": 1})
    session.event({"n": 2})
    assert wire.messages[2:] == [{"n": 1}, {"n": 2}]
    assert len(logged_errors.texts()) == 2
    logged_errors.clear()


def test_many_sessions_do_not_ask_all_at_once() -> None:
    """Rule 6: the POSTs under way are bounded; as each lands, another leaves."""
    wire = Wire()
    wire.initialize()
    for number in range(100):
        wire.prompt(number, f"s-{number}")
    for stream in wire.new("GET"):
        stream.open()
    flying = wire.new("POST")
    assert len(flying) == 32
    for post in flying:
        post.accept()
    assert len(wire.new("POST")) == 32
