"""
What is waited for for a time, and the reactor, or the machine, stands still for longer.
"""

from __future__ import annotations

import pytest
from http_server_fakes import Server
from transport_fakes import FakeProcess, Passes, RecordingReceiver, SocketTransport
from wsproto.connection import Connection, ConnectionType
from wsproto.events import Ping

from acp_twisted.limits import Limits
from acp_twisted.transports.command import AgentCommand
from acp_twisted.transports.http.flood import LINGER_SECONDS
from acp_twisted.transports.memory import MemoryLink
from acp_twisted.transports.patience import LATE_SECONDS, Patience
from acp_twisted.transports.process import ProcessTransport
from acp_twisted.transports.process_group import ProcessGroup
from acp_twisted.transports.stream import MessageProtocol
from acp_twisted.transports.websocket import WebSocketTransport

SECONDS = 10.0


def test_it_runs_out_once() -> None:
    """The time is over when it was waited, and the reactor has looked once more."""
    clock, over = Passes(), list[float]()
    patience = Patience(clock, SECONDS, lambda: over.append(clock.seconds()))
    clock.advance(SECONDS * 0.9)
    patience.reset()
    clock.advance(SECONDS * 0.9)
    clock.advance(SECONDS * 0.1)
    assert not over
    assert patience.active()
    clock.advance(0)
    assert len(over) == 1
    assert not patience.active()
    assert clock.calls == []


def test_a_time_that_was_not_waited() -> None:
    """After a stall it begins anew."""
    clock, over = Passes(), list[float]()
    Patience(clock, SECONDS, lambda: over.append(clock.seconds()))
    clock.advance(SECONDS + LATE_SECONDS * 2)
    clock.advance(0)
    clock.advance(SECONDS * 0.9)
    clock.advance(0)
    assert not over
    clock.advance(SECONDS * 0.1)
    clock.advance(0)
    assert len(over) == 1


def test_a_reactor_that_is_always_late() -> None:
    """It begins anew once, so that the end comes even then; what came in between counts as a new beginning."""
    clock, over = Passes(), list[float]()
    patience = Patience(clock, SECONDS, lambda: over.append(clock.seconds()))
    for _ in range(3):
        clock.advance(SECONDS * 2)
        clock.advance(0)
        assert not over
        patience.reset()
    for _ in range(2):
        clock.advance(SECONDS * 2)
        clock.advance(0)
    assert len(over) == 1
    assert clock.calls == []


@pytest.mark.parametrize("stall", [0, SECONDS, SECONDS * 2])
def test_it_is_cancelled(stall: float) -> None:
    """Whenever that is, nobody is told."""
    clock, over = Passes(), list[float]()
    patience = Patience(clock, SECONDS, lambda: over.append(clock.seconds()))
    clock.advance(stall)
    patience.cancel()
    assert clock.calls == []
    assert not over


STALLS = pytest.mark.parametrize("stall", [1.0, 100.0])
"""As multiples of the time; the pass that runs the timers is the one that then reads what has come."""


@STALLS
def test_a_slow_reader_and_a_stall(stall: float) -> None:
    """The peer took all of the output meanwhile, and is not cut for having taken nothing (B81)."""
    clock, receiver, socket = Passes(), RecordingReceiver(), SocketTransport()
    protocol = MessageProtocol(receiver, Limits(stall_timeout=SECONDS), clock)
    protocol.makeConnection(socket)
    socket.stuck = True
    protocol.send(b"much")
    clock.advance(SECONDS * stall)
    socket.take()
    clock.pump([SECONDS] * 3)
    assert not socket.aborted
    assert clock.calls == []


@STALLS
def test_a_pong_and_a_stall(stall: float) -> None:
    """The sign of life lies in the socket, and the peer is not taken for dead (B83)."""
    clock, receiver, socket = Passes(), RecordingReceiver(), SocketTransport()
    limits = Limits(ping_interval=SECONDS, pong_timeout=SECONDS)
    websocket = WebSocketTransport(socket, receiver, limits, clock, "server")
    websocket.start()
    for _ in range(2):
        clock.advance(SECONDS)
        clock.advance(0)
        sent = socket.value()
        assert sent, "it has pinged"
        socket.clear()
        clock.advance(SECONDS * stall)
        websocket.data_received(bytes(Connection(ConnectionType.CLIENT).send(Ping())))
        clock.advance(0)
        assert not socket.aborted
        assert receiver.names == ["made"]
        websocket.data_received(bytes(Connection(ConnectionType.CLIENT).send(Ping())))
        socket.clear()


@STALLS
def test_an_exit_and_a_stall(stall: float) -> None:
    """An agent closed its input on its way out; its last answer and its exit status are in the pipes (B63, B67)."""
    clock, receiver, limits = Passes(), RecordingReceiver(), Limits(exit_grace=SECONDS)
    group = ProcessGroup(4321, limits, clock, send=lambda pgid, number: False, alive=lambda pgid: False)
    transport = ProcessTransport(AgentCommand(("agent",)), receiver, limits, clock, group)
    process = FakeProcess(transport)
    process.lose(0)
    clock.advance(SECONDS * stall)
    transport.childDataReceived(1, b"an answer\n")
    clock.advance(0)
    assert receiver.names[:2] == ["made", "message"]


def test_a_terminated_program_has_its_time() -> None:
    """A sleep of the machine is none of the seconds between SIGTERM and SIGKILL (B66)."""
    clock, signals = Passes(), list[int]()

    def send(pgid: int, number: int) -> bool:
        signals.append(number)
        return True

    group = ProcessGroup(4321, Limits(terminate_grace=SECONDS), clock, send=send, alive=lambda pgid: True)
    group.terminate()
    clock.advance(SECONDS * 100)
    clock.advance(0)
    assert len(signals) == 1
    clock.pump([SECONDS / 2, SECONDS / 2, 0])
    assert len(signals) == 2
    group.exited()


@STALLS
def test_a_receiver_in_memory_and_a_stall(stall: float) -> None:
    """One that waits for room of its own, which was there meanwhile, is not cut for having taken nothing (B81)."""
    clock, a, b = Passes(), RecordingReceiver(), RecordingReceiver()
    link = MemoryLink(a, b, clock, Limits(stall_timeout=SECONDS))
    link.b.pauseProducing()
    link.a.send(b"1")
    clock.advance(SECONDS * stall)
    link.b.resumeProducing()
    clock.pump([SECONDS] * 3)
    assert b.messages == [b"1"]
    assert b.names == ["made", "message"]
    assert clock.calls == []


@pytest.mark.parametrize("stall", [1.0, 10.0])
def test_the_sockets_of_a_site_and_a_stall(stall: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a server stops, what it has written may leave, although the time for that was slept through (B72)."""
    monkeypatch.setattr("http_server_fakes.Clock", Passes)
    server = Server()
    wire = server.connect()
    closed = server.site.close_all()
    server.clock.advance(LINGER_SECONDS * stall)
    assert not wire.socket.aborted
    wire.lose()
    assert closed.called
    assert server.clock.calls == []
