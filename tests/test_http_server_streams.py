"""
What goes on which event stream, in which order, and what happens when nobody reads it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from http_server_fakes import EVENTS, INITIALIZE, JSON, Remote, Server, Wire, agent
from transport_fakes import RecordingFactory
from twisted.internet.defer import Deferred
from zope.interface.verify import verifyClass

from acp_twisted import AcpAgent
from acp_twisted.interfaces import IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.transports.http.connection import HttpConnection
from acp_twisted.transports.http.sse import OVERHEAD, SLICE, frame_event


def kinds(events: list[Any]) -> list[Any]:
    """Each event as the id of an answer, or the method of anything else."""
    return [event.get("method", event.get("id")) for event in events]


class Raw:
    """
    A server whose other side is the test as well: it sends as the agent would.
    """

    def __init__(self, **limits: Any) -> None:
        self.factory = RecordingFactory(Limits(**limits))
        self.server = Server(served=self.factory)
        wire = self.server.connect()
        wire.request("POST", headers=JSON, body=INITIALIZE)
        self.receiver = self.factory.receivers[0]
        self.send({"jsonrpc": "2.0", "id": 1, "result": {}})
        self.remote = Remote(self.server, wire.answer().headers["acp-connection-id"], {})

    def send(self, message: Any) -> None:
        """The agent sends."""
        self.receiver.transport.send(json.dumps(message).encode())

    def update(self, session: str, text: str = "") -> None:
        """The agent sends an update."""
        self.send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "text": text}})

    def answer(self, id: Any, result: Any = None) -> None:
        """The agent answers."""
        self.send({"jsonrpc": "2.0", "id": id, "result": {} if result is None else result})

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.server.clock.advance(seconds)


def test_provides_its_interface() -> None:
    """A connection over HTTP is a message transport like any other."""
    verifyClass(IMessageTransport, HttpConnection)


def test_a_whole_conversation() -> None:
    """
    The answer to session/new is on the connection's stream; updates, and behind them the answer to the prompt, are on
    the session's (protocol §5.2, 1.1).
    """
    remote = Server().initialize()
    connection = remote.open()
    remote.new_session(2)
    assert connection.events() == [{"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s1"}}]
    session = remote.open("s1")
    assert remote.prompt(3, "s1").status == 202
    assert kinds(session.events()) == ["session/update"] * 3 + [3]
    assert len(connection.events()) == 1


def test_what_comes_before_its_stream_is_kept() -> None:
    """Nothing is lost that was sent before the client opened the stream for it, and its order holds."""
    remote = Server().initialize()
    remote.new_session(2)
    remote.prompt(3, "s1")
    assert kinds(remote.open("s1").events()) == ["session/update"] * 3 + [3]
    assert kinds(remote.open().events()) == [2]


def test_the_answer_to_load_waits_for_the_replay() -> None:
    """
    The answer to session/load is on the connection's stream, and is not written while the session's reader has not
    taken the updates that were sent before it (protocol §5.2, design rule 5).
    """
    raw = Raw()
    connection = raw.remote.open()
    session = raw.remote.open("old")
    raw.remote.call(2, "session/load", {"sessionId": "old", "cwd": "/", "mcpServers": []}, "old")
    session.pause()
    raw.update("old", "one")
    raw.update("old", "two")
    raw.answer(2)
    raw.update("other")
    raw.send({"jsonrpc": "2.0", "method": "_note"})
    assert kinds(session.events()) == []
    assert kinds(connection.events()) == ["_note"]
    session.resume()
    assert kinds(session.events()) == ["session/update"] * 2
    assert kinds(connection.events()) == ["_note", 2]


def test_the_place_of_an_answer_is_marked() -> None:
    """
    A client of ours can tell what the answer to session/load is behind: the streams may be sockets of their own, and
    a network keeps no order between them (J4).  Another client sees comments.
    """
    raw = Raw()
    connection, session = raw.remote.open(), raw.remote.open("old")
    for id, kept in ((2, False), (3, True), (4, False)):
        raw.remote.call(id, "session/load", {"sessionId": "old"}, "old")
        if kept:
            session.lose()
        raw.update("old", "one")
        raw.answer(id)
    session = raw.remote.open("old")
    raw.remote.call(5, "session/load", {"sessionId": "another"}, "another")
    raw.answer(5)
    (last,) = session.answers()
    assert marks_in(session) == ["one", "mark 2", "one", "mark 3"]
    assert kinds(last.events()) == ["session/update"] * 2
    assert marks_in(connection) == ["behind 1", 2, "behind 2", 3, "behind 3", 4, 5]


def marks_in(wire: Wire) -> list[Any]:
    """What came on an event stream, with the marks in it: the ids of answers, and the texts of updates."""
    (answer,) = wire.answers()
    found: list[Any] = []
    for block in answer.body.decode().split("\n\n"):
        if block.startswith("data: "):
            event = json.loads(block.removeprefix("data: "))
            found.append(event["id"] if "id" in event else event["params"]["text"])
        elif block.startswith(": acp "):
            found.append(block.removeprefix(": acp "))
    return found


def test_the_answer_to_load_does_not_wait_for_nobody() -> None:
    """A client that opens no stream for the session it loads, or loses it, gets its answer all the same."""
    raw = Raw()
    connection = raw.remote.open()
    raw.remote.call(2, "session/load", {"sessionId": "a"}, "a")
    raw.update("a")
    raw.answer(2)
    assert kinds(connection.events()) == [2]
    session = raw.remote.open("b")
    raw.remote.call(3, "session/load", {"sessionId": "b"}, "b")
    session.pause()
    raw.update("b")
    raw.answer(3)
    assert kinds(connection.events()) == [2]
    session.lose()
    assert kinds(connection.events()) == [2, 3]


@pytest.mark.parametrize(
    ("method", "on_session"),
    [
        ("session/new", False),
        ("session/load", False),
        ("session/resume", True),
        ("session/prompt", True),
        ("session/close", True),
        ("_own", True),
    ],
)
def test_where_the_answer_to_a_session_request_goes(method: str, on_session: bool) -> None:
    """Answers to what was posted for a session are on its stream, but for those that make one known (protocol §5.2)."""
    raw = Raw()
    connection, session = raw.remote.open(), raw.remote.open("s")
    raw.remote.call(5, method, {"sessionId": "s"}, "s")
    raw.answer(5)
    assert (kinds(session.events()) == [5]) == on_session
    assert (kinds(connection.events()) == [5]) == (not on_session)


def test_what_the_agent_asks_goes_where_it_belongs() -> None:
    """
    A request of a session is on its stream, any other on the connection's; its cancellation follows it there, so as
    not to overtake it (C44).
    """
    raw = Raw()
    connection, session = raw.remote.open(), raw.remote.open("s")
    raw.send({"jsonrpc": "2.0", "id": 1, "method": "fs/read_text_file", "params": {"sessionId": "s", "path": "/x"}})
    raw.send({"jsonrpc": "2.0", "id": "1", "method": "_ask"})
    for id in (1, "1", 99):
        raw.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})
    assert kinds(session.events()) == ["fs/read_text_file", "$/cancel_request"]
    assert kinds(connection.events()) == ["_ask", "$/cancel_request", "$/cancel_request"]


def test_a_second_request_with_an_id_in_use() -> None:
    """The refusal of a doubled id goes where the second request belongs, and the first still gets its own answer."""
    served, turns = _slow_agent()
    remote = Server(served=served).initialize()
    remote.new_session(2)
    remote.new_session(3)
    first, second = remote.open("s1"), remote.open("s2")
    remote.prompt(7, "s1")
    remote.prompt(7, "s2")
    assert [event["error"]["code"] for event in second.events()] == [-32600]
    turns[0].callback(v1.PromptResponse(stop_reason="refusal"))
    assert [event["result"]["stopReason"] for event in first.events() if "result" in event] == ["refusal"]


def _slow_agent(limits: Limits | None = None) -> tuple[AcpAgent, list[Deferred[Any]]]:
    """An agent whose turns end when the test says so."""
    turns: list[Deferred[Any]] = []
    made: list[None] = []

    def prompt(request: v1.PromptRequest) -> Deferred[v1.PromptResponse]:
        turn: Deferred[v1.PromptResponse] = Deferred()
        turns.append(turn)
        return turn

    def new_session(_: v1.NewSessionRequest) -> v1.NewSessionResponse:
        made.append(None)
        return v1.NewSessionResponse(session_id=f"s{len(made)}")

    builder = AcpAgent.builder().prompt_handler(prompt).new_session_handler(new_session)
    return builder.limits(Limits() if limits is None else limits).build(), turns


def test_cancellation_over_http() -> None:
    """
    session/cancel ends the turn with its stop reason, and $/cancel_request with -32800, over POSTs and event streams as
    over any other transport (V1C5, X5).
    """
    served, turns = _slow_agent()
    remote = Server(served=served).initialize()
    remote.new_session(2)
    session = remote.open("s1")
    remote.prompt(3, "s1")
    remote.post({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}, "s1")
    turns[0].callback(v1.PromptResponse(stop_reason="end_turn"))
    remote.prompt(4, "s1")
    remote.post({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 4}})
    cancelled, refused = session.events()
    assert (cancelled["id"], cancelled["result"]["stopReason"]) == (3, "cancelled")
    assert (refused["id"], refused["error"]["code"]) == (4, -32800)


def test_a_deleted_connection_cancels_its_turns() -> None:
    """DELETE is the connection's end: what runs is cancelled, for nobody could be answered (JT17)."""
    served, turns = _slow_agent()
    server = Server(served=served)
    remote = server.initialize()
    remote.new_session(2)
    remote.prompt(3, "s1")
    ended: list[Any] = []
    turns[0].addBoth(ended.append)
    remote.delete()
    server.clock.advance(0)
    assert len(ended) == 1
    server.over()


def test_shutdown_answers_and_flushes() -> None:
    """A server that stops answers what runs, writes the answers to readers fast and slow, and ends the streams."""
    served, _ = _slow_agent()
    server = Server(served=served)
    remote = server.initialize()
    remote.new_session(2)
    connection, session = remote.open(), remote.open("s1")
    remote.prompt(3, "s1")
    session.pause()
    done = server.resource.close_all()
    server.clock.advance(0)
    assert connection.answer().whole
    assert not done.called
    session.resume()
    assert [event["error"]["code"] for event in session.events()] == [-32800]
    assert session.answer().whole
    server.clock.advance(0)
    assert done.called
    server.over()


def test_shutdown_does_not_wait_for_ever() -> None:
    """What is not over in Limits.drain_timeout is cut."""
    served, _ = _slow_agent(Limits(drain_timeout=5, stall_timeout=100, ping_interval=0))
    server = Server(served=served)
    remote = server.initialize()
    remote.new_session(2)
    session = remote.open("s1")
    remote.prompt(3, "s1")
    session.pause()
    done = server.resource.close_all()
    server.clock.advance(4)
    assert not done.called
    server.clock.advance(1)
    server.clock.advance(0)
    assert done.called
    assert session.socket.aborted


def test_a_new_reader_takes_the_stream_over() -> None:
    """A second GET of a stream gets it, and the first is ended: who comes back needs not wait for his ghost."""
    raw = Raw()
    first = raw.remote.open()
    raw.send({"jsonrpc": "2.0", "method": "_one"})
    second = raw.remote.open()
    raw.send({"jsonrpc": "2.0", "method": "_two"})
    assert kinds(first.events()) == ["_one"]
    assert first.answer().whole
    assert kinds(second.events()) == ["_two"]


def test_a_reader_that_goes_and_comes_back() -> None:
    """What is sent while nobody reads is kept for the next reader; what was written is not repeated."""
    raw = Raw()
    first = raw.remote.open("s")
    raw.update("s", "one")
    first.lose()
    raw.update("s", "two")
    raw.update("s", "three")
    second = raw.remote.open("s")
    assert [event["params"]["text"] for event in second.events()] == ["two", "three"]


def test_an_event_that_was_cut_off_is_repeated_whole() -> None:
    """A large event goes in slices; a reader that is lost in the middle of one leaves it to the next, whole."""
    raw = Raw()
    first = raw.remote.open("s")
    first.socket.stuck = True
    text = "x" * (3 * SLICE)
    raw.update("s", text)
    assert len(first.socket.value()) < 2 * SLICE
    first.lose()
    second = raw.remote.open("s")
    assert [event["params"]["text"] for event in second.events()] == [text]


def test_a_slow_reader_pauses_its_producer_and_no_other() -> None:
    """
    A reader that takes nothing holds up its session's handlers once max_kept_events wait, and nobody else's (B33).
    """
    server = Server(Limits(max_kept_events=4))
    remote = server.initialize()
    remote.new_session(2)
    remote.new_session(3)
    slow, fast = remote.open("s1"), remote.open("s2")
    slow.pause()
    for id in (4, 5):
        remote.prompt(id, "s1")
    assert kinds(slow.events()) == []
    for id in range(6, 16):
        remote.prompt(id, "s2")
    assert len(fast.events()) == 40
    slow.resume()
    assert kinds(slow.events()) == ["session/update"] * 3 + [4] + ["session/update"] * 3 + [5]


def test_a_stuck_reader_is_cut_and_its_events_wait() -> None:
    """A reader that takes nothing for Limits.stall_timeout loses its connection, and the next one gets the events."""
    raw = Raw(stall_timeout=60)
    wire = raw.remote.open("s")
    wire.pause()
    raw.update("s", "kept")
    raw.advance(59)
    assert not wire.socket.aborted
    raw.advance(1)
    assert wire.socket.aborted
    wire.lose()
    assert [event["params"]["text"] for event in raw.remote.open("s").events()] == ["kept"]
    assert raw.receiver.names == ["made", "message"]


def test_a_reader_that_takes_now_and_then_is_not_cut() -> None:
    """Each slice that is taken is a sign of life, also of one huge event."""
    raw = Raw(stall_timeout=60, max_kept_bytes=10**9, ping_interval=0)
    wire = raw.remote.open("s")
    wire.socket.stuck = True
    raw.update("s", "x" * (10 * SLICE))
    for _ in range(12):
        raw.advance(50)
        wire.socket.take()
    assert not wire.socket.aborted
    assert len(wire.events()) == 1


@pytest.mark.parametrize("others", [0, 1])
def test_closing_as_soon_as_an_answer_is_let_through(others: int) -> None:
    """Answers that wait for updates come before the end, also if letting one through is what brings that (B72)."""
    raw = Raw(pause_reading_bytes=4000)
    connection = raw.remote.open()
    sessions = ["s", "t"][: 1 + others]
    wires = [raw.remote.open(session) for session in sessions]
    for id, session in enumerate(sessions, 8):
        wires[id - 8].pause()
        raw.update(session)
        raw.remote.call(id, "session/load", {"sessionId": session, "cwd": "/", "mcpServers": []}, session)
    for id in range(8, 8 + len(sessions)):
        raw.answer(id, {"text": "x" * 9000 if id == 8 else ""})
    assert connection.events() == []
    receiver: Any = raw.receiver
    receiver.writing_resumed = receiver.transport.close
    wires[0].resume()
    assert kinds(connection.events()) == [8, 9][: 1 + others]
    assert connection.answer().whole


def test_one_more_get_behind_a_stream() -> None:
    """A GET that waited on the socket of a stream is served when that ends, and makes way for the new one as well."""
    raw = Raw()
    old = raw.remote.open("s")
    old.request("GET", headers={**EVENTS, **raw.remote.headers, "Acp-Session-Id": "s"})
    new = raw.remote.open("s")
    assert [answer.whole for answer in old.answers()] == [True, True]
    raw.update("s")
    assert len(new.events()) == 1


def test_closing_as_soon_as_there_is_room() -> None:
    """An agent that closes the connection when it may write again has all written that it has sent (B72)."""
    raw = Raw(max_kept_events=1)
    wire = raw.remote.open("s")
    wire.pause()
    for text in "ab":
        raw.update("s", text)
    receiver: Any = raw.receiver
    receiver.writing_resumed = receiver.transport.close
    wire.resume()
    assert [event["params"]["text"] for event in wire.events()] == ["a", "b"]
    assert wire.answer().whole


def test_a_full_stream_that_nobody_reads_ends_the_connection() -> None:
    """A session's handlers can't wait for ever for a client that opens no stream (Limits.stall_timeout)."""
    raw = Raw(max_kept_events=2, stall_timeout=60, absence_timeout=1000)
    for _ in range(3):
        raw.update("s")
    raw.advance(59)
    assert raw.remote.open().answer().status == 200
    raw.advance(1)
    raw.advance(0)
    assert "nobody has read a session's event stream for 60 s" in str(raw.receiver.error)
    raw.server.over()


def test_output_is_bounded_over_all_streams() -> None:
    """Beyond Limits.max_kept_bytes of kept output the connection is ended, and others are untouched."""
    raw = Raw(max_kept_bytes=10_000)
    other = raw.server.connect()
    other.request("POST", headers=JSON, body=INITIALIZE)
    for number in range(9):
        raw.update(f"s{number}", "x" * 1000)
        assert raw.receiver.transport.unsent <= 10_000
    assert raw.receiver.names == ["made", "message"]
    raw.update("s9", "x" * 1000)
    assert raw.receiver.names == ["made", "message"]  # not from inside send
    raw.advance(0)
    assert "Limits.max_kept_bytes is 10000" in str(raw.receiver.error)
    assert len(raw.server.resource.connections) == 1
    assert OVERHEAD > 100


def test_posts_wait_while_the_agent_does_not_read() -> None:
    """
    While the agent pauses, POSTs are not answered and wait in order; too many of them are refused with 429 (B33).
    """
    raw = Raw(max_queued_messages=2)
    raw.receiver.transport.pauseProducing()
    wires = [raw.server.connect() for _ in range(3)]
    for number, wire in enumerate(wires):
        message = json.dumps({"jsonrpc": "2.0", "method": f"_{number}"})
        wire.request("POST", headers={**JSON, **raw.remote.headers}, body=message)
    assert [len(wire.answers()) for wire in wires] == [0, 0, 1]
    assert wires[2].answer().status == 429
    assert len(raw.receiver.messages) == 1
    raw.receiver.transport.resumeProducing()
    assert [wire.answer().status for wire in wires[:2]] == [202, 202]
    assert [json.loads(each)["method"] for each in raw.receiver.messages[1:]] == ["_0", "_1"]


def test_a_post_that_is_given_up_is_not_delivered() -> None:
    """A client that hangs up before its POST was answered takes it for failed, and so it is."""
    raw = Raw()
    raw.receiver.transport.pauseProducing()
    wires = [raw.server.connect() for _ in range(3)]
    for number, wire in enumerate(wires):
        message = json.dumps({"jsonrpc": "2.0", "method": f"_{number}"})
        wire.request("POST", headers={**JSON, **raw.remote.headers}, body=message)
    wires[1].lose()
    raw.receiver.transport.resumeProducing()
    assert [json.loads(each)["method"] for each in raw.receiver.messages[1:]] == ["_0", "_2"]


def test_posts_wait_while_the_client_does_not_read() -> None:
    """A client that posts and reads nothing is held up at Limits.pause_reading_bytes, until it reads half of that."""
    raw = Raw(pause_reading_bytes=5_000, high_water_bytes=100_000, low_water_bytes=50_000)
    raw.update("s", "x" * 6_000)
    wire = raw.server.connect()
    wire.request("POST", headers={**JSON, **raw.remote.headers}, body='{"jsonrpc":"2.0","method":"_x"}')
    assert wire.answers() == []
    assert raw.receiver.names[-1] == "writing paused"
    raw.remote.open("s")
    assert wire.answer().status == 202
    assert raw.receiver.names[-2:] == ["writing resumed", "message"]


def test_posts_that_wait_when_the_connection_ends() -> None:
    """They are told 404, and were not delivered."""
    raw = Raw()
    raw.receiver.transport.pauseProducing()
    wire = raw.server.connect()
    wire.request("POST", headers={**JSON, **raw.remote.headers}, body='{"jsonrpc":"2.0","method":"_x"}')
    raw.receiver.transport.abort("enough")
    assert wire.answer().status == 404
    raw.advance(0)
    assert str(raw.receiver.error) == "enough"


def test_quiet_streams_get_comments() -> None:
    """Every Limits.ping_interval a comment, so that no proxy takes a quiet stream for a dead one (B83)."""
    raw = Raw(ping_interval=15)
    connection, session = raw.remote.open(), raw.remote.open("s")
    for _ in range(4):
        raw.advance(15)
    assert connection.answer().body == b":\n\n" * 5
    assert session.answer().body == b":\n\n" * 5
    session.pause()
    raw.advance(15)
    assert session.answer().body == b":\n\n" * 5


def test_a_client_that_went_away() -> None:
    """
    Without an open stream and without a POST for Limits.absence_timeout the connection ends: a client that was killed
    leaves nothing.
    """
    raw = Raw(absence_timeout=60)
    stream = raw.remote.open()
    raw.advance(59)
    raw.advance(59)
    stream.lose()
    raw.advance(59)
    assert raw.remote.post('{"jsonrpc":"2.0","method":"_x"}').status == 202
    raw.advance(59)
    assert raw.receiver.names[-1] == "message"
    raw.advance(1)
    raw.advance(0)
    assert "no event stream open for 60 s" in str(raw.receiver.error)
    raw.server.over()


def test_a_client_that_never_opened_a_stream() -> None:
    """The same for one that only initialized."""
    server = Server(Limits(absence_timeout=60))
    server.initialize()
    server.clock.advance(60)
    server.clock.advance(0)
    server.over()


def test_an_idle_connection_ends_and_a_busy_one_does_not() -> None:
    """
    No message for Limits.idle_timeout ends a connection in good order, but a quiet turn is none of its faults (B83).
    """
    served, turns = _slow_agent(Limits(idle_timeout=100, ping_interval=0))
    server = Server(served=served)
    remote = server.initialize()
    stream = remote.open()
    remote.new_session(2)
    remote.prompt(3, "s1")
    for _ in range(5):
        server.clock.advance(100)
    assert len(server.resource.connections) == 1
    turns[0].callback(v1.PromptResponse(stop_reason="end_turn"))
    server.clock.advance(100)
    server.clock.advance(100)
    server.clock.advance(0)
    assert stream.answer().whole
    server.over()


def test_streams_of_closed_sessions_are_forgotten() -> None:
    """A session that was closed and is no longer read takes no memory, and its name is a provisional one again."""
    server = Server(Limits(max_provisional_streams=1))
    remote = server.initialize()
    remote.new_session(2)
    stream = remote.open("s1")
    assert remote.open("x").answer().status == 200
    remote.call(3, "session/close", {"sessionId": "s1"}, "s1")
    assert kinds(stream.events()) == [3]
    stream.lose()
    assert remote.open("s1").answer().status == 429


def test_an_agent_that_closes_the_connection() -> None:
    """What it sent is flushed to who reads, and the streams end."""
    raw = Raw()
    wire = raw.remote.open()
    wire.pause()
    raw.send({"jsonrpc": "2.0", "method": "_last"})
    raw.receiver.transport.close()
    raw.send({"jsonrpc": "2.0", "method": "_later"})
    raw.advance(0)
    assert raw.receiver.names[-1] == "message"
    wire.resume()
    assert kinds(wire.events()) == ["_last"]
    assert wire.answer().whole
    raw.advance(0)
    assert str(raw.receiver.error) == "the connection was closed"
    raw.server.over()


def test_line_ends_in_messages() -> None:
    """A message with line ends, which others may write, is one event of several lines; JSON reads the same."""
    assert frame_event(b'{"a":1}') == b'data: {"a":1}\n\n'
    assert frame_event(b'{\n"a":\r\n1}') == b'data: {\ndata: "a":\ndata: 1}\n\n'


def test_one_connection_is_told_from_another() -> None:
    """Two connections have nothing of each other, also not with sessions of one name."""
    server = Server()
    one, two = server.initialize(), server.initialize()
    for remote in (one, two):
        remote.new_session(2)
    streams: list[Wire] = [one.open(), two.open()]
    assert [[event["result"]["sessionId"] for event in stream.events()] for stream in streams] == [["s1"], ["s2"]]
    assert agent().limits == Limits()
