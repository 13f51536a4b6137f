"""
A WebSocket after its handshake: what is delivered, what is written, and how it ends.
"""

from __future__ import annotations

from typing import Any

import pytest
from transport_fakes import RecordingReceiver, SocketTransport
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from wsproto.connection import Connection, ConnectionType
from wsproto.events import Event, TextMessage
from zope.interface.verify import verifyObject

from acp_twisted.interfaces import IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.transports.websocket import Role, WebSocketTransport

OTHER: dict[str, Role] = {"server": "client", "client": "server"}
SMALL = Limits(ping_interval=10, pong_timeout=25, exit_grace=2, high_water_bytes=1000, low_water_bytes=100)


class Link:
    """
    A L{WebSocketTransport} on a socket whose other end is wsproto in the test's hand.
    """

    def __init__(self, role: Role = "server", limits: Limits = SMALL, **options: Any) -> None:
        self.clock = Clock()
        self.receiver = RecordingReceiver()
        self.socket = SocketTransport()
        self.ended: list[WebSocketTransport] = []
        self.ws = WebSocketTransport(self.socket, self.receiver, limits, self.clock, role, self.ended.append, **options)
        kind = ConnectionType.CLIENT if role == "server" else ConnectionType.SERVER
        self.peer = Connection(kind)
        self.ws.start()

    def give(self, *events: Event, cut: int = 0) -> None:
        """
        The peer sends frames, in one chunk or in pieces of C{cut} bytes.
        """
        data = b"".join(bytes(self.peer.send(each)) for each in events)
        self.raw(data, cut)

    def raw(self, data: bytes, cut: int = 0) -> None:
        """
        Bytes arrive.
        """
        for start in range(0, len(data), cut or len(data) or 1):
            self.ws.data_received(data[start : start + (cut or len(data))])

    def taken(self) -> list[Event]:
        """
        What the peer makes of what was written since the last time.
        """
        data = self.socket.value()
        self.socket.clear()
        self.peer.receive_data(data)
        return list(self.peer.events())

    def texts(self) -> list[str]:
        """
        The text messages of L{taken}.
        """
        return [each.data for each in self.taken() if isinstance(each, TextMessage)]

    def lose(self, error: Exception | None = None) -> None:
        """
        The stream is gone.
        """
        self.ws.connection_lost(Failure(ConnectionDone() if error is None else error))
        assert self.clock.getDelayedCalls() == []
        assert self.ended == [self.ws]


@pytest.fixture(params=["server", "client"])
def link(request: pytest.FixtureRequest) -> Link:
    """One of each role."""
    return Link(request.param)


def test_provides_its_interface(link: Link) -> None:
    """A WebSocket is a message transport, and the producer of its socket is its queue."""
    verifyObject(IMessageTransport, link.ws)
    assert link.socket.producer is not None
    assert link.receiver.events == [("made",)]


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_messages_both_ways(link: Link, cut: int) -> None:
    """One text message is one message, however its bytes arrive; what is sent comes as one text message each (1.1)."""
    link.give(TextMessage('{"a":"ä€𝄞"}'), TextMessage("[]"), cut=cut)
    assert link.receiver.messages == ['{"a":"ä€𝄞"}'.encode(), b"[]"]
    link.ws.send('{"ö":1}'.encode())
    link.ws.send(b"{}")
    assert link.texts() == ['{"ö":1}', "{}"]
    assert link.ws.unsent == 0
    link.lose()
