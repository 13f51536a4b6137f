"""
A connection of an agent before its client has said which version it wants.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from acp_twisted.agent.connection import AgentConnection as FirstConnection
from acp_twisted.agent.v2.connection import AgentConnection
from acp_twisted.errors import AcpConnectionError, InvalidRequest
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.jsonrpc.peer import Peer
from acp_twisted.jsonrpc.router import IRouter
from acp_twisted.negotiation import check_id, choose, in_words_of, requested_version

if TYPE_CHECKING:
    from acp_twisted.agent.v2.agent import VersionedAgent

_log = Logger()


@implementer(IRouter)
class Negotiation:
    """
    Waits for C{initialize}, and makes the connection of the version that it comes to.  Once that is answered, the
    connection has the conversation, and nothing is translated.  Until then, every other request is refused with -32600,
    also a second C{initialize}, and notifications are ignored; an C{initialize} that fails may be sent again.

    @ivar agent: the agent that serves it.
    @ivar peer: the JSON-RPC conversation, to be given to a transport.
    @ivar connection: the connection, once C{initialize} was answered: of version 1 or of version 2, which its
        C{schema} tells.
    """

    def __init__(self, agent: VersionedAgent, clock: IReactorTime) -> None:
        self.agent = agent
        self.connection: FirstConnection | AgentConnection | None = None
        self._clock = clock
        self._asked: IncomingRequest | None = None
        self.peer = Peer(self, clock, agent.limits, request_timeout=agent.request_timeout, answers_noise=True)
        self.peer.instrument = agent.instrument
        self.peer.takes_batches = agent.august_draft

    @property
    def is_open(self) -> bool:
        """
        Whether anything can be said.
        """
        return self.peer.is_open

    def close(self) -> Deferred[None]:
        """
        End the conversation in good order.

        @return: fires when the link is gone.
        """
        return self.peer.shutdown()

    def abort(self, reason: str) -> None:
        """
        End the conversation now.

        @param reason: what those who wait are told.
        """
        self.peer.abort(reason)

    def when_closed(self) -> Deferred[AcpConnectionError]:
        """
        Fires with the reason when the link is gone.
        """
        return self.peer.when_closed()

    # ---- what the peer asks of its router

    def lane_of(self, method: str, params: object) -> Hashable:
        """
        See L{IRouter}.
        """
        return None

    def apply_now(self, notification: Notification) -> bool:
        """
        See L{IRouter}: nothing counts yet.
        """
        _log.debug("{method} before initialize is ignored", method=notification.method)
        return True

    def handle_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        """
        See L{IRouter}.
        """
        if request.method != "initialize":
            raise InvalidRequest("initialize comes first", {"method": request.method})
        if self._asked is not None and not self._asked.answered:
            raise InvalidRequest("initialize was sent already")
        self._asked = request
        if 1 not in self.agent.versions:
            check_id(request.id, self.agent.august_draft)
        wanted = requested_version(request.params)
        version = choose(self.agent.versions, wanted)
        if version == 2:
            check_id(request.id, self.agent.august_draft)
        if version != wanted:
            params: Any = request.params
            request.params = in_words_of(version, params)
        connection: FirstConnection | AgentConnection
        if version == 1:
            connection = FirstConnection(self.agent, self._clock)
        else:
            connection = AgentConnection(self.agent, self._clock)
        connection.peer = self.peer
        result = connection.handle_request(request, gate)
        if isinstance(result, Deferred):
            return result.addCallback(self._agreed, connection, request)
        return self._agreed(result, connection, request)

    def _agreed(
        self, result: object, connection: FirstConnection | AgentConnection, request: IncomingRequest
    ) -> object:
        if not request.answered:  # else the client gave it up, and may have agreed on something else since
            self.connection = connection
            self.peer.takes_batches = self.agent.august_draft and isinstance(connection, AgentConnection)
            connection.take_over(self.peer)
        return result

    def handle_notification(self, notification: Notification) -> Deferred[object] | None:
        """
        See L{IRouter}.
        """
        return None

    def connection_lost(self, reason: AcpConnectionError) -> None:
        """
        See L{IRouter}.
        """
