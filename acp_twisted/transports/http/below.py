"""
What the server wants of the layers below a twisted.web request, and Twisted has no public names for.  Each of these
does without where it meets another Twisted than those it was written for.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from priority.priority import DeadlockError, DuplicateStreamError, PriorityTree
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from acp_twisted.limits import KiB
from acp_twisted.transports.http.channels import transport_of

_log = Logger()

MAX_CONCURRENT_STREAMS: Final = 0x3
"""The setting of HTTP/2 (RFC 9113, 6.5.2)."""

BACKLOG: Final = 64 * KiB
"""How much of one stream of HTTP/2 may wait for the socket: what Twisted keeps for a connection of HTTP/1.1."""


def abort_exchange(request: Any) -> None:
    """
    Cut a request off: its stream of HTTP/2, or the whole connection of HTTP/1.1.
    """
    channel = getattr(request, "channel", None)
    if channel is None:
        return  # it is gone already
    if hasattr(channel, "abortConnection"):
        channel.abortConnection()
    else:
        channel.transport.abortConnection()


def stream_end(channel: Any) -> Deferred[Any] | None:
    """
    Fires when one of the streams of an HTTP/2 connection is over, its end written.

    @param channel: what a site serves the connection by.
    @return: L{None} when there is no stream, as over HTTP/1.1.
    """
    ends: dict[int, Deferred[Any]] = getattr(getattr(channel, "_channel", None), "_streamCleanupCallbacks", {})
    return next(iter(ends.values()), None)


def notice_dead_peer(request: Any, seconds: float) -> None:
    """
    Have the system drop a TCP connection that acknowledges nothing for so long: an event stream has no other way to
    learn that its reader's machine is gone, for there is nothing that the reader would have to answer.
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    layer = transport_of(request)
    while layer is not None and not hasattr(layer, "socket"):
        layer = getattr(layer, "transport", None)  # TLS has what it runs on there
    handle = getattr(layer, "socket", None)
    if option is None or handle is None or handle.family not in (socket.AF_INET, socket.AF_INET6):
        return
    try:
        handle.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))
    except OSError as error:
        _log.debug("TCP_USER_TIMEOUT can't be set: {error}", error=error.strerror)


def allow_streams(request: Any, count: int) -> None:
    """
    Make a connection of HTTP/2 fit for many event streams, of which each session has one: let the client open C{count}
    at once, for h2's own setting is 100, and L{take_turns}.  Over HTTP/1.1: nothing.
    """
    take_turns(request)
    connection: Any = getattr(request.channel, "_conn", None)
    h2 = getattr(connection, "conn", None)
    if h2 is None or h2.local_settings.get(MAX_CONCURRENT_STREAMS, 0) >= count:
        return
    if hasattr(connection, "_resetTokens"):
        # A client may end all of them at once, which is no flood; newer Twisted allows a thousand resets.
        connection._resetTokenBurst = max(connection._resetTokenBurst, count)
        connection._resetTokens = max(connection._resetTokens, count)
    h2.update_settings({MAX_CONCURRENT_STREAMS: count})
    connection._tryToWriteControlData()


def take_turns(request: Any) -> None:
    """
    Have the streams of an HTTP/2 connection take L{Turns} from now on.  Over HTTP/1.1: nothing.
    """
    take_turns_of(getattr(getattr(request, "channel", None), "_conn", None))


def take_turns_of(connection: Any) -> None:
    """
    The same with the connection itself, before there is any request.
    """
    if type(getattr(connection, "priority", None)) is not PriorityTree:
        return
    turns = connection.priority = Turns(lambda stream_id: _is_stuck(connection, stream_id))
    for stream_id, queue in connection._outboundStreamQueues.items():
        turns.insert_stream(stream_id)
        if not queue:
            turns.block(stream_id)
    receive = connection.dataReceived
    window = connection.conn.remote_settings.initial_window_size

    def received(data: bytes) -> None:
        nonlocal window
        receive(data)
        before, window = window, connection.conn.remote_settings.initial_window_size
        if window > before:
            # The window of every stream has grown, which Twisted does not notice: as if each were told so.
            connection._handleWindowUpdate(SimpleNamespace(stream_id=0))
        sending = connection._sendingDeferred
        if turns and sending is not None:
            # Twisted has its loop look by itself again and again, and does not wake it for a window.
            connection._sendingDeferred = None
            sending.callback(None)

    time_out = connection.timeoutConnection

    def timed_out() -> None:
        if turns.backlogs and connection._stillProducing:
            connection.setTimeout(connection.timeOut)  # as over HTTP/1.1, a response that goes on may be quiet
        else:
            time_out()

    connection.dataReceived = received
    connection.timeoutConnection = timed_out


class Backlog:
    """
    What a stream of HTTP/2 has written and the socket has not taken.  Twisted asks a stream to wait for its window
    alone: a client with a large window that stops reading would have everything kept.

    @ivar is_full: whether no more should be written for now.
    """

    def __init__(self, connection: Any, stream_id: int, emptied: Callable[[], None]) -> None:
        """
        @param emptied: called from the reactor, once the socket has taken all of what was too much, or all of what
            L{is_empty} was asked for.
        """
        self.is_full = False
        self._is_awaited = False
        self._connection = connection
        self._stream_id = stream_id
        self._emptied = emptied
        self._size = 0

    def wrote(self, size: int) -> None:
        """
        So many bytes were written.
        """
        if not self._connection._outboundStreamQueues.get(self._stream_id):
            self._size = 0
            return
        # Some of it may be out already; then it is looked at again a little sooner than it had to be.
        self._size += size
        if self._size > BACKLOG or self._connection._consumerBlocked is not None:
            self.is_full = True

    def is_empty(self) -> bool:
        """
        Whether nothing waits.  If something does, C{emptied} is called when it does no more.
        """
        self._is_awaited = bool(self._connection._outboundStreamQueues.get(self._stream_id))
        return not self._is_awaited

    def left(self) -> int:
        """
        How many bytes wait.
        """
        queue = self._connection._outboundStreamQueues.get(self._stream_id, ())
        return sum(len(piece) for piece in queue if isinstance(piece, bytes))

    def taken(self) -> None:
        """
        Nothing waits any more.
        """
        self._size = 0
        if self.is_full or self._is_awaited:
            self.is_full = self._is_awaited = False
            # Not from inside of Twisted's loop, which goes on with a stream that must be there still.
            self._connection._reactor.callLater(0, self._emptied)


def watch_backlog(request: Any, emptied: Callable[[], None]) -> Backlog | None:
    """
    The backlog of the response to C{request}, whose connection takes L{Turns}.  Over HTTP/1.1: nothing, for Twisted
    tells the producer of a response there.
    """
    channel = request.channel
    connection = getattr(channel, "_conn", None)
    turns = getattr(connection, "priority", None)
    if not isinstance(turns, Turns):
        return None
    backlog = Backlog(connection, channel.streamID, emptied)
    turns.backlogs[channel.streamID] = backlog
    return backlog


def _is_stuck(connection: Any, stream_id: int) -> bool:
    """
    Whether what a stream has to write next needs a window, and there is none.  Its end needs none.
    """
    queue = connection._outboundStreamQueues[stream_id]
    if not queue or not isinstance(queue[0], bytes) or not queue[0]:
        return False
    return bool(connection.conn.local_flow_control_window(stream_id) <= 0)


class Turns:
    """
    Which stream of an HTTP/2 connection writes next: each that has something, in turn.  It stands in for the tree of
    priorities that Twisted keeps for a connection, whose every step takes the longer the more streams are quiet; here
    most of them are, a session's each.  (RFC 9113 has given up those priorities.)

    A stream without a window is passed over until it is unblocked: with the tree, Twisted asks for it again on every
    turn of the reactor, as long as its reader takes nothing.

    @ivar backlogs: who wants to know when a stream has nothing any more.
    """

    def __init__(self, is_stuck: Callable[[int], bool] = lambda stream_id: False) -> None:
        """
        @param is_stuck: whether a stream that has something may not write.
        """
        self.backlogs: dict[int, Backlog] = {}
        self._is_stuck = is_stuck
        self._blocked: set[int] = set()
        self._ready: dict[int, None] = {}

    def insert_stream(self, stream_id: int, **_: object) -> None:
        """
        A new stream, which has something.
        """
        if stream_id in self._ready or stream_id in self._blocked:
            raise DuplicateStreamError(stream_id)
        self._ready[stream_id] = None

    def reprioritize(self, stream_id: int, **_: object) -> None:
        """
        All are equal.
        """

    def remove_stream(self, stream_id: int) -> None:
        """
        It is over.
        """
        self._ready.pop(stream_id, None)
        self._blocked.discard(stream_id)
        self.backlogs.pop(stream_id, None)

    def block(self, stream_id: int) -> None:
        """
        It has nothing.
        """
        if self._ready.pop(stream_id, self) is None:
            self._blocked.add(stream_id)
            if stream_id in self.backlogs:
                self.backlogs[stream_id].taken()

    def unblock(self, stream_id: int) -> None:
        """
        It has something, and may write.
        """
        if stream_id in self._blocked:
            self._blocked.discard(stream_id)
            self._ready[stream_id] = None

    def __iter__(self) -> Turns:
        return self

    def __len__(self) -> int:
        """
        How many streams wait for their turn.
        """
        return len(self._ready)

    def __next__(self) -> int:
        """
        The next one.

        @raise DeadlockError: when none has anything that it may write.
        """
        while self._ready:
            stream_id = next(iter(self._ready))
            del self._ready[stream_id]
            if self._is_stuck(stream_id):
                self._blocked.add(stream_id)
            else:
                self._ready[stream_id] = None
                return stream_id
        raise DeadlockError("nothing to write")
