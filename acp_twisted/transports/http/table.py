"""
The connections of one server, of either kind: how many there may be, from where, and the end of all of them.
"""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv6Address, IPv6Network, ip_address
from secrets import token_urlsafe
from typing import Any, Protocol

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from acp_twisted.limits import Limits
from acp_twisted.transports.http.rules import RETRY_SECONDS, Refused

_log = Logger()


class Entry(Protocol):
    """
    A connection in the table.
    """

    id: str
    identity: object
    address: str | None
    is_open: bool

    def shutdown(self) -> None:
        """
        End it in good order.
        """

    def abort(self, reason: str) -> None:
        """
        End it now.
        """


class ConnectionTable:
    """
    The connections by their ids.

    @ivar refusing: whether new ones are refused, because the server stops.
    """

    def __init__(self, limits: Limits, clock: IReactorTime) -> None:
        self.refusing = False
        self._limits = limits
        self._clock = clock
        self._entries: dict[str, Entry] = {}
        self._addresses: Counter[str] = Counter()
        self._aborting: IDelayedCall | None = None
        self._waiting: list[Deferred[None]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def admit(self, address: str | None) -> None:
        """
        Whether there is room for one more.

        @param address: from L{address_of}.
        @raise Refused: 503 or 429.
        """
        limits = self._limits
        if self.refusing:
            raise Refused(503, "the server is shutting down")
        if len(self._entries) >= limits.max_connections:
            raise Refused(503, "too many connections", retry_after=RETRY_SECONDS)
        if address is not None and self._addresses[address] >= limits.max_connections_per_address:
            raise Refused(429, "too many connections from this address", retry_after=RETRY_SECONDS)

    @staticmethod
    def new_id() -> str:
        """
        An id that nobody guesses: 192 random bits.
        """
        return token_urlsafe(24)

    def add(self, entry: Entry) -> None:
        """
        A new connection.
        """
        self._entries[entry.id] = entry
        if entry.address is not None:
            self._addresses[entry.address] += 1

    def remove(self, entry: Entry) -> None:
        """
        It is gone.
        """
        if self._entries.pop(entry.id, None) is None:
            return
        if entry.address is not None:
            self._addresses[entry.address] -= 1
            if not self._addresses[entry.address]:
                del self._addresses[entry.address]
        self._fire_if_empty()

    def find(self, id: str) -> Entry | None:
        """
        The connection with an id, whoever asks.
        """
        return self._entries.get(id)

    def get(self, id: str, identity: object) -> Entry | None:
        """
        The connection with an id, if it is open and was made by the same identity.
        """
        entry = self._entries.get(id)
        if entry is None or not entry.is_open or entry.identity != identity:
            return None
        return entry

    def close_all(self) -> Deferred[None]:
        """
        Refuse new ones, and end each that is there in good order.

        @return: fires when all are gone.  What is still there after C{Limits.drain_timeout} seconds is aborted.
        """
        self.refusing = True
        if not self._entries:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        if self._aborting is None:
            self._aborting = self._clock.callLater(self._limits.drain_timeout, self._abort_all)
            for entry in list(self._entries.values()):
                entry.shutdown()
        return done

    def _abort_all(self) -> None:
        self._aborting = None
        for entry in list(self._entries.values()):
            entry.abort("the server is shutting down")

    def _fire_if_empty(self) -> None:
        if self._entries or not self._waiting:
            return
        if self._aborting is not None:
            self._aborting.cancel()
            self._aborting = None
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done.callback(None)


def address_of(request: Any) -> str | None:
    """
    What connections are counted by; see L{address_in}.
    """
    return address_in(request.getClientAddress())


def address_in(peer: object) -> str | None:
    """
    What connections are counted by: the client's address, of IPv6 the /64 that it is in, for whoever has one address of
    those has them all.  L{None} where there is no address, as on a Unix socket.
    """
    host = getattr(peer, "host", None)
    if not isinstance(host, str):
        return None
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Network((address, 64), strict=False))
    return str(address)
