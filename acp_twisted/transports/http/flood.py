"""
Floods of HTTP/2: frames that carry nothing, and cost the server more than the client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from h2.errors import ErrorCodes
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.limits import KiB
from acp_twisted.transports.http.below import take_turns_of

_log = Logger()

PREFACE_BYTES: Final = 24
"""What a client begins with (RFC 9113, 3.4)."""

HEAD_BYTES: Final = 9
"""The head of a frame (RFC 9113, 4.1)."""

MAX_FRAME_BYTES: Final = 16 * KiB
"""What a server takes that has not said otherwise (RFC 9113, 6.5.2)."""

DATA: Final = 0
HEADERS: Final = 1
RST_STREAM: Final = 3
SETTINGS: Final = 4
PING: Final = 6
WINDOW_UPDATE: Final = 8

SMALL_PIECE: Final = 256
"""A piece of a body that is smaller carries as good as nothing."""

COST_OF_SETTINGS: Final = 32
"""Each may change the window of every stream, and a client has no reason to send many."""

COST_OF_RESET: Final = 2
"""For there was a request as well, which was begun for nothing."""

WITH_REQUEST: Final = {DATA: 4}
"""A request may have so many small pieces: some clients send its end in one of its own."""

FOR_PIECE: Final = {WINDOW_UPDATE: 2, PING: 1}
"""For each piece of an answer a client may open two windows again, the stream's and the connection's, and time it."""

FOR_END: Final = {RST_STREAM: 1}
"""Some clients reset a stream whose answer they have."""

SECONDS: Final = 60.0
"""In which as many frames are allowed again as at once."""

AT_ONCE: Final = 64
"""How many frames of one client are acted upon, or how much of them as one may have, before others have their turn."""

LINGER_SECONDS: Final = 2.0
"""How long what a client goes on sending is thrown away, so that it reads why."""


class Flood(Exception):
    """
    Too much.

    @ivar code: what HTTP/2 calls it.
    """

    def __init__(self, code: ErrorCodes) -> None:
        super().__init__(code.name)
        self.code = code


class Frames:
    """
    Takes apart what a client of HTTP/2 sends, and counts the frames in it that carry nothing: whatever is no request
    and no part of one that is worth its frame.  Requests are bounded otherwise, by the streams that may be open.
    """

    def __init__(self, limit: int, clock: IReactorTime) -> None:
        """
        @param limit: how many such frames may come at once; as many again may come in each minute.
        """
        self._limit = float(limit)
        self._left = float(limit)
        self._clock = clock
        self._since = clock.seconds()
        self._free: Counter[int] = Counter()
        self._rest = PREFACE_BYTES
        self._head = b""

    def allow(self, more: dict[int, int]) -> None:
        """
        Something has come or was sent for which a client may send so many more frames of each kind.
        """
        self._free.update(more)

    def split(self, data: bytes) -> Iterator[bytes]:
        """
        The same bytes, so that each frame ends a piece.

        @raise Flood: at a frame too many, or one that is too long.  (h2 would keep all of that before it refuses it.)
        """
        start = at = 0
        while at < len(data):
            if self._rest:
                step = min(self._rest, len(data) - at)
                self._rest -= step
            else:
                step = HEAD_BYTES - len(self._head)
                self._head += data[at : at + step]
                if len(self._head) == HEAD_BYTES:
                    head, self._head = self._head, b""
                    self._rest = int.from_bytes(head[:3], "big")
                    if self._rest > MAX_FRAME_BYTES:
                        raise Flood(ErrorCodes.FRAME_SIZE_ERROR)
                    self._count(head[3], self._rest)
            at += step
            if not (self._rest or self._head):
                yield data[start:at]
                start = at
        if start < len(data):
            yield data[start:]

    def _count(self, kind: int, size: int) -> None:
        if kind == HEADERS:
            self.allow(WITH_REQUEST)
            return
        if kind == DATA and size >= SMALL_PIECE:
            return
        if self._free[kind]:
            self._free[kind] -= 1
            return
        now = self._clock.seconds()
        gained = max(0.0, now - self._since) * self._limit / SECONDS  # the clock of a machine may be set back
        self._since = now
        cost = COST_OF_SETTINGS if kind == SETTINGS else COST_OF_RESET if kind == RST_STREAM else 1
        self._left = min(self._limit, self._left + gained) - cost
        if self._left < 0:
            raise Flood(ErrorCodes.ENHANCE_YOUR_CALM)


class Guard:
    """
    Stands before Twisted's side of a connection of HTTP/2, and hands it one frame at a time.

    By itself Twisted takes in all of a chunk before it acts on any of it, and then fails at a request that was reset in
    the same one; and once it has ended a connection, it takes in more, for as long as the client sends.  A chunk also
    has room for thousands of requests, so this takes turns with other connections, and reads nothing meanwhile.
    """

    def __init__(self, connection: Any, limit: int, clock: IReactorTime) -> None:
        """
        @param connection: Twisted's, before it got anything.
        @param limit: see L{Frames}.
        """
        take_turns_of(connection)
        self._connection = connection
        self._clock = clock
        self._frames = Frames(limit, clock)
        self._receive = connection.dataReceived
        self._send_data = connection.conn.send_data
        self._end_stream = connection.conn.end_stream
        self._lost = connection.connectionLost
        self._waiting = b""
        self._next: IDelayedCall | None = None
        self._aborting: IDelayedCall | None = None
        self._over = False
        self._gone = False
        connection.dataReceived = self._received
        connection.conn.send_data = self._piece_sent
        connection.conn.end_stream = self._end_sent
        connection.connectionLost = self._connection_lost

    def _received(self, data: bytes) -> None:
        if self._over:
            return
        self._waiting += data
        if self._next is None:  # else they wait for their turn behind the others
            self._take()

    def _take(self) -> None:
        data, self._waiting = self._waiting, b""
        taken = 0
        try:
            for count, piece in enumerate(self._frames.split(data), 1):
                taken += len(piece)
                self._receive(piece)
                if self._over:
                    return
                if (count == AT_ONCE or taken >= MAX_FRAME_BYTES) and taken < len(data):
                    self._waiting = data[taken:]
                    self._pause()
                    return
        except Flood as flood:
            self._end(flood)

    def _pause(self) -> None:
        if self._next is None:
            self._connection.transport.pauseProducing()
        self._next = self._clock.callLater(0, self._go_on)

    def _go_on(self) -> None:
        before = self._next
        self._take()
        if self._next is before:
            self._next = None
            if not self._gone:
                self._connection.transport.resumeProducing()

    def _piece_sent(self, *args: Any, **options: Any) -> None:
        self._frames.allow(FOR_PIECE)
        self._send_data(*args, **options)

    def _end_sent(self, *args: Any) -> None:
        self._frames.allow(FOR_END)
        self._end_stream(*args)

    def _end(self, flood: Flood) -> None:
        connection = self._connection
        _log.info("{client} is cut off: {code}", client=connection.transport.getPeer(), code=flood.code.name)
        connection.conn.close_connection(flood.code)
        connection.transport.write(connection.conn.data_to_send())
        connection.transport.loseConnection()
        connection.connectionLost(Failure(flood), _cancelTimeouts=False)

    def _connection_lost(self, reason: Failure, **options: Any) -> None:
        """
        It is gone, or (with options) Twisted has ended it and waits for the client.
        """
        if options and self._over:
            return
        self._over = True
        self._waiting = b""
        if options:
            self._aborting = self._clock.callLater(LINGER_SECONDS, self._abort)
        else:
            self._gone = True
            for timer in (self._aborting, self._next):
                if timer is not None and timer.active():
                    timer.cancel()
        self._lost(reason, **options)

    def _abort(self) -> None:
        self._connection.transport.abortConnection()
