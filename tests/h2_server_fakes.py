"""
Twisted's server side of HTTP/2 without sockets, and a client of L{h2} that reads when a test wants it to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h2.events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes
from http_server_fakes import Server
from transport_fakes import SocketTransport
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure

# Twisted has it for itself, and so has what is tested here.
from twisted.web._http2 import H2Connection as ServerConnection

from acp_twisted.transports.http.site import AcpSite


class _CountedConnection(ServerConnection):
    """
    Twisted's, whose loop may not run for ever: a L{Clock} that stands still would not notice.
    """

    turns = 0

    def _sendPrioritisedData(self, *args: Any) -> None:
        self.turns += 1
        assert self.turns < 5_000, "the loop does not rest"
        super()._sendPrioritisedData(*args)


class _Socket(SocketTransport):
    """
    TCP, which takes being let go calmly.

    @ivar negotiatedProtocol: what TLS has agreed on.
    """

    negotiatedProtocol = b"h2"  # noqa: N815 - Twisted's name

    def resumeProducing(self) -> None:
        if not (self.disconnecting or self.aborted):
            super().resumeProducing()

    def pauseProducing(self) -> None:
        if not (self.disconnecting or self.aborted):
            super().pauseProducing()


def _server(clock: Clock) -> Any:
    return _CountedConnection(clock)


class Wire:
    """
    One connection of HTTP/2 to a site.

    @ivar reading: whether the client opens its windows again for what it gets.
    @ivar client: its h2.
    """

    def __init__(
        self, site: AcpSite, clock: Clock, window: int = 65535, more: int = 0, timeout: float | None = None
    ) -> None:
        """
        @param window: of each stream of the client's.
        @param more: how much larger than by default the window of the connection is.
        @param timeout: after how many quiet seconds Twisted closes the connection.
        """
        self.clock = clock
        self.reading = True
        self.events: list[Any] = []
        self.bodies: dict[int, bytes] = {}
        self._taken = 0
        self._unread: list[Any] = []
        self.socket: Any = _Socket()
        self.server = _server(clock)
        self.server.site = self.server.factory = site
        self.server.requestFactory = site.requestFactory
        self.server.timeOut = timeout
        self.server.callLater = clock.callLater
        self.client = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.client.initiate_connection()
        self.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        if more:
            self.client.increment_flow_control_window(more)
        self.protocol: Any = site.buildProtocol(self.socket.getPeer())
        if hasattr(self.protocol, "works"):
            # Twisted would take the reactor's clock for its side of HTTP/2, once it has chosen; so it has chosen.
            self.protocol._channel._channel = self.server
            self.protocol._channel._negotiatedProtocol = b"h2"
        self.protocol.makeConnection(self.socket)
        self.socket.registerProducer(self.server, True)
        self.run()

    def run(self, turns: int = 100) -> None:
        """
        Carry bytes both ways for so many turns of the reactor.
        """
        self.server.turns = 0
        for _ in range(turns):
            self.send()
            self.clock.advance(0)
            if not self.socket.stuck:
                self.read()

    def send(self) -> None:
        """What the client has to say arrives."""
        self.raw(self.client.data_to_send())

    def raw(self, data: bytes) -> None:
        """Bytes arrive."""
        if data and not (self.socket.aborted):
            self.protocol.dataReceived(data)

    def read(self) -> None:
        """The client reads what the server wrote."""
        data = self.socket.value()[self._taken :]
        self._taken += len(data)
        for event in self.client.receive_data(data):
            self.events.append(event)
            if isinstance(event, h2.events.DataReceived):
                self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
                self._unread.append(event)
        if self.reading:
            self.open_windows()

    def open_windows(self) -> None:
        """The client has read what it got."""
        unread, self._unread = self._unread, []
        for event in unread:
            self.client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    def request(self, method: str, headers: dict[str, str], body: bytes = b"", path: str = "/acp") -> int:
        """Send a request; its stream."""
        stream_id: int = self.client.get_next_available_stream_id()
        names = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
        names += [(name.lower(), value) for name, value in headers.items()]
        self.client.send_headers(stream_id, names, end_stream=not body)
        if body:
            self.client.send_data(stream_id, body, end_stream=True)
        self.run()
        return stream_id

    def ended(self, stream_id: int) -> bool:
        """Whether an answer is whole."""
        return any(isinstance(e, h2.events.StreamEnded) and e.stream_id == stream_id for e in self.events)

    def headers(self, stream_id: int) -> dict[str, str]:
        """Those of an answer."""
        (found,) = (e for e in self.events if isinstance(e, h2.events.ResponseReceived) and e.stream_id == stream_id)
        every: Any = found.headers
        return dict(every)

    def lose(self) -> None:
        """The connection is gone."""
        self.protocol.connectionLost(Failure(ConnectionDone()))


def frame(kind: int, flags: int = 0, stream: int = 0, body: bytes = b"") -> bytes:
    """A frame of HTTP/2, of any kind."""
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def sending_calls(clock: Clock) -> list[Callable[..., Any]]:
    """What Twisted's loop is going to do."""
    calls: list[Any] = list(clock.getDelayedCalls())
    return [call.func for call in calls if call.func.__name__ == "_sendPrioritisedData"]


def connect(server: Server, **options: Any) -> Wire:
    """A new connection to a server."""
    return Wire(server.site, server.clock, **options)
