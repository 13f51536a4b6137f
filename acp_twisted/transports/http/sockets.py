"""
The sockets of one site, whatever speaks on them: how many may be idle, for how long, and the end of all of them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IProtocol, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.limits import Limits
from acp_twisted.transports.http.below import stream_end
from acp_twisted.transports.http.flood import LINGER_SECONDS, Guard
from acp_twisted.transports.http.table import address_in
from acp_twisted.transports.patience import Patience
from acp_twisted.transports.tls import end_with_peer

_log = Logger()


class Sockets:
    """
    Those that are open.

    A socket is idle as long as no request is in work on it that has come whole: until its first one, and between them.
    Anybody can open one, without having said who he is, so they are counted by address and have a time.
    """

    def __init__(self, limits: Limits, clock: IReactorTime, idle_timeout: float) -> None:
        """
        @param idle_timeout: after how many seconds without a request a socket is closed.
        """
        self.limits = limits
        self.clock = clock
        self.idle_timeout = idle_timeout
        self._open: dict[Any, Socket] = {}
        self._idle: Counter[str | None] = Counter()
        self._closing = False
        self._aborting: Patience | None = None
        self._waiting: list[Deferred[None]] = []

    def __len__(self) -> int:
        return len(self._open)

    def wrap(self, channel: Any, peer: object) -> IProtocol:
        """
        A protocol for a new connection, by which C{channel} is served, or which closes it at once.

        @param peer: the address that it comes from.
        """
        address = address_in(peer)
        if self._closing or (address is not None and self._idle[address] >= self.limits.max_idle_sockets_per_address):
            _log.debug("a socket too many, or too late, is closed")
            return _Refused()  # not L{None}, with which the layer of TLS fails
        return Socket(channel, address, self)

    def find(self, transport: Any) -> Socket | None:
        """
        The one that has this transport.
        """
        return self._open.get(transport)

    def refuse(self) -> None:
        """
        Close those that come from now on.
        """
        self._closing = True

    def close_all(self) -> Deferred[None]:
        """
        Close each that there is, at most L{LINGER_SECONDS} later.

        @return: fires when all are gone.
        """
        if not self._open:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        if self._aborting is None:
            self._aborting = Patience(self.clock, LINGER_SECONDS, self._abort_all)
            for socket in list(self._open.values()):
                socket.let_go()
        return done

    def _abort_all(self) -> None:
        self._aborting = None
        for transport in list(self._open):
            transport.abortConnection()

    def made(self, socket: Socket) -> None:
        """
        A connection is made.
        """
        self._open[socket.transport] = socket
        self.idles(socket, 1)

    def idles(self, socket: Socket, change: int) -> None:
        """
        One more is idle, or one less.
        """
        self._idle[socket.address] += change
        if not self._idle[socket.address]:
            del self._idle[socket.address]

    def gone(self, socket: Socket) -> None:
        """
        It is lost.
        """
        if not socket.works:
            self.idles(socket, -1)
        del self._open[socket.transport]
        if self._open or not self._waiting:
            return
        if self._aborting is not None:
            self._aborting.cancel()
            self._aborting = None
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done.callback(None)


@implementer(IProtocol)
class Socket:
    """
    One connection of TCP or TLS.

    @ivar address: what it is counted by.
    @ivar works: how many requests are in work on it that have come whole.
    """

    def __init__(self, channel: Any, address: str | None, sockets: Sockets) -> None:
        self.transport: Any = None
        self.address = address
        self.works = 0
        self._channel = channel
        self._sockets = sockets
        self._silent = True
        self._open = True
        self._leaving = False
        self._deadline: Patience | None = None

    def makeConnection(self, transport: Any) -> None:
        self.transport = transport
        end_with_peer(transport)
        self._sockets.made(self)
        self.heard()
        self._channel.makeConnection(transport)

    def connectionMade(self) -> None:
        """Said by makeConnection."""

    def dataReceived(self, data: bytes) -> None:
        if self._silent:
            self._silent = False
            if getattr(self.transport, "negotiatedProtocol", None) == b"h2":
                self._channel.dataReceived(b"")  # has Twisted choose, before there is anything to be served
                Guard(self._channel._channel, self._sockets.limits.max_empty_frames, self._sockets.clock)
        self._channel.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._leaving = False
        self._channel.connectionLost(reason)
        self._open = False
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.cancel()
        self._sockets.gone(self)

    def heard(self) -> None:
        """
        The head of a request has come, which has a time of its own to come whole, or an answer is done.
        """
        if self._leaving:
            return
        if self._deadline is not None:
            self._deadline.reset()
        elif self._open:
            self._deadline = Patience(self._sockets.clock, self._sockets.idle_timeout, self._overdue)

    def work(self, request: Any) -> None:
        """
        A request has come whole.
        """
        self.works += 1
        if self.works == 1:
            self._sockets.idles(self, -1)
        request.notifyFinish().addBoth(self._done)

    def _done(self, _: object) -> None:
        if not self._open:
            return
        self.works -= 1
        if not self.works:
            self._sockets.idles(self, 1)
            self.heard()
            self._look()

    def let_go(self) -> None:
        """
        Close it behind what is written, and behind what is being answered if that takes no time.
        """
        if not self.transport.disconnecting:
            self._leaving = True
            self.transport.loseConnection()
            self._look()

    def _look(self) -> None:
        """
        TLS says no goodbye as long as it has a producer, for that may write more; and HTTP has itself for one until it
        closes the connection itself.
        """
        if not self._leaving or self.works:
            return
        rest = stream_end(self._channel)
        if rest is None:
            self._leaving = False
            self.transport.loseConnection()  # once more: what it has gathered is written
            self.transport.unregisterProducer()
        else:
            rest.addCallback(self._stream_ended)

    def _stream_ended(self, result: object) -> object:
        self._look()
        return result

    def _overdue(self) -> None:
        self._deadline = None
        if self.works:
            return
        _log.debug("a socket without a request is closed")
        self._deadline = Patience(self._sockets.clock, LINGER_SECONDS, self._abort)
        self.let_go()

    def _abort(self) -> None:
        self._deadline = None
        self.transport.abortConnection()


class _Refused(Protocol):
    """
    Closes its connection.
    """

    def makeConnection(self, transport: Any) -> None:
        transport.abortConnection()
