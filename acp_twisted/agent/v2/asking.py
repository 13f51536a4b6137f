"""
What an agent's connection of version 2 sends, and what it remembers of that: whom its questions belong to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from acp_twisted.connection import Connection
from acp_twisted.elicitations import Elicitations, filled_in
from acp_twisted.errors import NotInitialized
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.schema import v2

if TYPE_CHECKING:
    from acp_twisted.agent.v2.session import AgentSession


class AskingConnection(Connection):
    """
    A connection that asks.  Nothing is sent before the client has initialized it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._initialized = False
        self._sessions: dict[str, AgentSession] = {}
        self._elicitations = Elicitations(self.limits.max_elicitations, self.limits.max_id_length)

    def prepare(self, request: object, *, wait: bool = False, wait_timeout: float = 0.0) -> Call[Any]:
        """
        See L{Connection.prepare<acp_twisted.connection.Connection.prepare>}, which every call begins with.

        @raise NotInitialized: before the client's C{initialize} was answered.
        """
        self._initialized_first()
        call = super().prepare(request, wait=wait, wait_timeout=wait_timeout)
        if isinstance(request, v2.ElicitationUrlMode):
            self._elicit(call, request.elicitation_id)
        elif isinstance(request, v2.ElicitationFormMode):
            call.addCallback(filled_in, request.requested_schema)
        if isinstance(request, v2.RequestPermissionRequest):
            session = self._sessions.get(request.session_id)
            if session is not None:
                session.keep_question(call)
        return call

    def _elicit(self, call: Call[Any], elicitation_id: str) -> None:
        """
        The user is about to be sent to a web page.

        @raise ValueError: when another elicitation of that id is not over.
        """
        if elicitation_id in self._elicitations:
            raise ValueError("another elicitation of this id is open")
        self._elicitations.begin(elicitation_id)

        def answered(response: Any) -> Any:
            accepted = isinstance(response, v2.CreateElicitationResponse) and response.action == "accept"
            self._elicitations.answered(elicitation_id, accepted)
            return response

        call.addBoth(answered)

    def notify(self, notification: object) -> Deferred[None]:
        """
        See L{Connection.notify<acp_twisted.connection.Connection.notify>}.

        @raise NotInitialized: before the client's C{initialize} was answered.
        @raise ValueError: when an elicitation is said to be complete that is not open.
        """
        self._initialized_first()
        sent = super().notify(notification)
        if isinstance(notification, v2.CompleteElicitationNotification):
            self._elicitations.complete(notification.elicitation_id)
        return sent

    def _fitting(self, message: Any) -> Any:
        if isinstance(message, v2.CompleteElicitationNotification) and message.elicitation_id not in self._elicitations:
            raise ValueError("no elicitation of this id is open on this connection")
        return super()._fitting(message)

    def _initialized_first(self) -> None:
        if not self._initialized:
            raise NotInitialized("the client has not initialized the connection yet")
