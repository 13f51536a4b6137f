"""
A link that blocks, and whose version of the protocol is not agreed on yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acp_twisted.client.connection import ClientConnection as FirstConnection
from acp_twisted.client.reactor_thread import ReactorThread
from acp_twisted.client.sync import AcpSyncClient as FirstClient
from acp_twisted.client.sync_base import SyncLink
from acp_twisted.client.v2.negotiation import AnyConnection, Negotiation
from acp_twisted.client.v2.sync import AcpSyncClient, AnySyncClient

if TYPE_CHECKING:
    from acp_twisted.client.client import Where
    from acp_twisted.client.v2.client import VersionedClient


class SyncNegotiation(SyncLink[Negotiation]):
    """
    A L{Negotiation} whose methods block.  It is for any thread but the reactor's.
    """

    @classmethod
    def connect(
        cls, client: VersionedClient, where: Where, thread: ReactorThread, cwd: str | None = None
    ) -> SyncNegotiation:
        """
        Connect to an agent, or start one; see
        L{AcpSyncClient.connect<acp_twisted.client.sync.AcpSyncClient.connect>}, which most code wants.
        """
        return cls(thread.call(lambda: client.connect(thread.reactor, where)), thread, cwd)

    def initialize(self, *, meta: dict[str, Any] | None = None, timeout: float | None = None) -> AnySyncClient:
        """
        Agree on the protocol's version, and say what this client can do; see L{Negotiation.initialize}.  When it fails
        it may be called again, unless the link is closed.

        @return: the client of the version that was agreed on, which takes the place of this.
        """
        agreed: AnyConnection = self._thread.call(lambda: self.connection.initialize(meta=meta, timeout=timeout))
        self._thread.forget(self.close)
        if isinstance(agreed, FirstConnection):
            return FirstClient(agreed, self._thread, self._cwd)
        return AcpSyncClient(agreed, self._thread, self._cwd)
