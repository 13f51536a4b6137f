"""
WebSockets on the server: the handshake within twisted.web, the first message, and the end.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from http_server_fakes import INITIALIZE, NEW_SESSION, UPGRADE, Server, Wire
from transport_fakes import RecordingFactory
from twisted.internet.defer import Deferred
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Event, Ping, Pong, TextMessage

from acp_twisted import AcpAgent
from acp_twisted.limits import Limits
from acp_twisted.schema import v1


class Socket:
    """
    A client's WebSocket, by wsproto.
    """

    def __init__(self, server: Server, headers: Any = None, behind: bytes = b"") -> None:
        self.server = server
        self.wire: Wire = server.connect()
        self.ws = Connection(ConnectionType.CLIENT)
        self._read = 0
        self.wire.request("GET", headers={**UPGRADE, **(headers or {})})
        head = self.wire.socket.value().partition(b"\r\n\r\n")[0]
        self.head = head.decode("ascii")
        self._read = len(head) + 4
        assert head.startswith(b"HTTP/1.1 101 "), head

    def give(self, *events: Event | str) -> None:
        """Send frames."""
        for each in events:
            event = TextMessage(each) if isinstance(each, str) else each
            self.wire.raw(bytes(self.ws.send(event)))

    def taken(self) -> list[Event]:
        """The frames that came since the last time."""
        data = self.wire.socket.value()[self._read :]
        self._read += len(data)
        self.ws.receive_data(data)
        return list(self.ws.events())

    def messages(self) -> list[Any]:
        """The messages among them, decoded."""
        return [json.loads(each.data) for each in self.taken() if isinstance(each, TextMessage)]

    def closed(self) -> tuple[int, str]:
        """The close frame that came."""
        (close,) = [each for each in self.taken() if isinstance(each, CloseConnection)]
        return int(close.code), close.reason or ""


def test_the_handshake() -> None:
    """101 with the right key, the connection's id, and the subprotocol acp for who offers it (protocol §5.2)."""
    socket = Socket(Server(), {"Sec-WebSocket-Protocol": "chat, acp"})
    key = base64.b64encode(hashlib.sha1(b"dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    lines = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in socket.head.split("\r\n"))
    }
    assert lines["sec-websocket-accept"] == key.decode()
    assert lines["upgrade"].lower() == "websocket"
    assert lines["sec-websocket-protocol"] == "acp"
    assert len(lines["acp-connection-id"]) == 32
    plain = Socket(Server())
    assert "protocol:" not in plain.head.lower()
    assert "extensions" not in plain.head.lower()


def test_a_whole_conversation() -> None:
    """Everything of a connection is multiplexed on its one socket, in order (protocol §5.2)."""
    socket = Socket(Server())
    socket.give(INITIALIZE, NEW_SESSION)
    initialized, made = socket.messages()
    assert initialized["result"]["protocolVersion"] == 1
    assert made["result"] == {"sessionId": "s1"}
    prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]}
    socket.give(json.dumps({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt}))
    assert [each.get("id") for each in socket.messages()] == [None, None, None, 3]


def test_frames_right_behind_the_handshake() -> None:
    """A client that does not wait for the 101 loses nothing, in the same chunk as the handshake or later."""
    server = Server()
    wire = server.connect()
    client = Connection(ConnectionType.CLIENT)
    first = bytes(client.send(TextMessage(INITIALIZE)))
    head = "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items())
    wire.raw(f"GET /acp HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode() + first[:10])
    wire.raw(first[10:])
    client.receive_data(wire.socket.value().partition(b"\r\n\r\n")[2])
    (answer,) = client.events()
    assert isinstance(answer, TextMessage)
    assert json.loads(answer.data)["id"] == 1


@pytest.mark.parametrize(
    "first",
    [
        NEW_SESSION,
        '{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1}}',
        f"[{INITIALIZE}]",
        "nonsense",
        '{"jsonrpc":"2.0","id":1,"result":{}}',
    ],
)
def test_the_first_message_must_be_initialize(first: str) -> None:
    """Anything else closes with 1002 before anything was made of it (protocol §5.2)."""
    factory = RecordingFactory()
    server = Server(served=factory)
    socket = Socket(server)
    socket.give(first)
    assert socket.closed()[0] == 1002
    socket.wire.lose()
    assert factory.receivers == []
    server.over()


def test_a_first_message_that_does_not_come() -> None:
    """Code 1008 after Limits.initialize_timeout; pings and binary frames are no messages (protocol §5.2)."""
    server = Server(Limits(initialize_timeout=30))
    socket = Socket(server)
    socket.give(Ping(b"x"))
    server.clock.advance(29.5)
    assert Pong(b"x") in socket.taken()
    server.clock.advance(0.5)
    assert socket.closed() == (1008, "initialize did not come in time")
    socket.wire.lose()
    server.over()


def test_a_message_that_is_too_large() -> None:
    """Code 1009 beyond Limits.max_request_bytes; other connections are untouched (B82)."""
    server = Server(Limits(max_request_bytes=200))
    good, bad = Socket(server), Socket(server)
    for socket in (good, bad):
        socket.give(INITIALIZE)
    bad.give(json.dumps("x" * 300))
    assert bad.closed() == (1009, "a message of more than 200 bytes")
    good.give(NEW_SESSION)
    assert len(good.messages()) == 2


def test_a_batch_on_a_live_connection() -> None:
    """An array is answered with -32600 and a null id, and the connection goes on (protocol §5.3)."""
    socket = Socket(Server())
    socket.give(INITIALIZE, f"[{NEW_SESSION}]", NEW_SESSION)
    _, refused, made = socket.messages()
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    assert made["id"] == 2


def _slow(limits: Limits) -> tuple[AcpAgent, list[Deferred[Any]]]:
    turns: list[Deferred[Any]] = []

    def prompt(request: v1.PromptRequest) -> Deferred[v1.PromptResponse]:
        turn: Deferred[v1.PromptResponse] = Deferred()
        turns.append(turn)
        return turn

    builder = AcpAgent.builder().prompt_handler(prompt).limits(limits)
    return builder.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s1")).build(), turns


def prompting(server: Server) -> Socket:
    """A client whose turn is running."""
    socket = Socket(server)
    socket.give(INITIALIZE, NEW_SESSION)
    socket.give('{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}')
    assert len(socket.messages()) == 2
    return socket


def test_a_lost_socket_is_a_lost_connection() -> None:
    """What runs is cancelled, and nothing is left (JT17)."""
    served, turns = _slow(Limits())
    server = Server(served=served)
    socket = prompting(server)
    ended: list[Any] = []
    turns[0].addBoth(ended.append)
    socket.wire.lose()
    assert len(ended) == 1
    server.over()


def test_the_client_closes() -> None:
    """Its close frame is answered, and is the connection's end."""
    served, turns = _slow(Limits())
    server = Server(served=served)
    socket = prompting(server)
    socket.give(CloseConnection(1000, "done"))
    assert socket.closed()[0] == 1000
    assert socket.wire.socket.disconnecting
    socket.wire.lose()
    assert len(turns) == 1
    server.over()


def test_shutdown_answers_and_says_goodbye() -> None:
    """A server that stops answers what runs, and closes with 1001 (protocol §5.3, JT17)."""
    served, _ = _slow(Limits())
    server = Server(served=served)
    socket, fresh = prompting(server), Socket(server)
    done = server.resource.close_all()
    answer, close = socket.taken()
    assert isinstance(answer, TextMessage)
    assert json.loads(answer.data)["error"]["code"] == -32800
    assert isinstance(close, CloseConnection)
    assert close.code == 1001
    assert fresh.closed()[0] == 1001
    assert not done.called
    for each in (socket, fresh):
        each.wire.lose()
    assert done.called
    server.over()


def test_shutdown_does_not_wait_for_ever() -> None:
    """A client that takes nothing is cut after Limits.drain_timeout."""
    served, _ = _slow(Limits(drain_timeout=5, ping_interval=0))
    server = Server(served=served)
    socket = prompting(server)
    socket.wire.pause()
    done = server.resource.close_all()
    server.clock.advance(5)
    assert socket.wire.socket.aborted
    assert not done.called
    socket.wire.lose()
    assert done.called
    server.over()


def test_an_idle_socket_is_closed_and_a_busy_one_is_not() -> None:
    """Code 1001 after Limits.idle_timeout without a message; a quiet turn is none of the client's faults (B83)."""
    served, turns = _slow(Limits(idle_timeout=100, ping_interval=0))
    server = Server(served=served)
    socket = prompting(server)
    for _ in range(5):
        server.clock.advance(100)
    assert socket.taken() == []
    turns[0].callback(v1.PromptResponse(stop_reason="end_turn"))
    server.clock.advance(100)
    assert isinstance(socket.taken()[0], TextMessage)
    server.clock.advance(100)
    assert socket.closed()[0] == 1001
    socket.wire.lose()
    server.over()


def test_the_id_of_a_socket_is_no_use_to_requests() -> None:
    """Nobody posts to, reads or deletes a WebSocket's connection over HTTP."""
    server = Server()
    socket = Socket(server)
    socket.give(INITIALIZE)
    id = next(line.split()[1] for line in socket.head.split("\r\n") if line.startswith("Acp-Connection-Id"))
    assert server.ask("DELETE", {"Acp-Connection-Id": id}).status == 404


def test_the_one_who_asked_for_the_upgrade_is_told_of_the_end() -> None:
    """A resource around ours that waits for the request's end gets it when the socket is gone."""
    server = Server()
    ends: list[Any] = []
    render = server.resource.render

    def watched(request: Any) -> Any:
        request.notifyFinish().addBoth(ends.append)
        return render(request)

    server.resource.render = watched  # type: ignore[method-assign]
    socket = Socket(server)
    assert ends == []
    socket.wire.lose()
    assert len(ends) == 1
