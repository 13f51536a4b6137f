"""
What an agent can ask of a client within one session, in version 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from acp_twisted.agent.client_calls import ClientCalls
from acp_twisted.agent.client_calls import SessionClient as FirstSessionClient
from acp_twisted.errors import AcpCapabilityError
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.schema import v2
from acp_twisted.schema.vocabulary import V1, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    from acp_twisted.agent.v2.connection import AgentConnection

_V2: Final = vocabulary(2)


def refuse_first(request: object) -> None:
    """
    Refuse what only version 1 has.

    @raise AcpCapabilityError: for a request of a method that version 2 has not.
    """
    method = V1.for_params(type(request))
    if method is not None and _V2.get(method.name) is None:
        raise AcpCapabilityError(method.capability or method.name)


class SecondCalls(ClientCalls):
    """
    The requests to the client, for a session.  Those for files and terminals raise L{AcpCapabilityError}.
    """

    def request_permission(  # type: ignore[override]
        self,
        tool_call: Any,
        options: Sequence[Any],
        *,
        title: str | None = None,
        description: str | None = None,
        subject: Any = None,
        **call_options: Any,
    ) -> Call[v2.RequestPermissionResponse]:
        """
        Ask the user.

        @param tool_call: what it is about; L{None} if it is about something else, and then C{title} is needed.
        @param title: the question; the tool call's own title without one.
        @param subject: what it is about, if it is no tool call.
        """
        if subject is None and tool_call is not None:
            subject = v2.ToolCallPermissionSubject(tool_call=tool_call)
        asked = title or getattr(tool_call, "title", None) or "Permission"
        request = v2.RequestPermissionRequest(
            session_id=self.session_id, title=asked, description=description, subject=subject, options=list(options)
        )
        return self.call(request, **call_options)


class SessionClient(SecondCalls, FirstSessionClient):
    """
    The client as one session of the agent sees it.

    @ivar connection: the connection that the session lives on.
    """

    connection: AgentConnection  # type: ignore[assignment]

    def __init__(
        self, connection: AgentConnection, session_id: str, call: Callable[..., Call[Any]] | None = None
    ) -> None:
        super().__init__(connection, session_id, call)  # type: ignore[arg-type]

    @property
    def capabilities(self) -> v2.ClientCapabilities:  # type: ignore[override]
        """
        What the client can do.
        """
        return self.connection.client_capabilities

    def call(self, request: object, **options: Any) -> Call[Any]:
        """
        Send any request of the protocol to the client; see
        L{Connection.call<acp_twisted.connection.Connection.call>}.

        @raise AcpCapabilityError: also for a request that only version 1 has.
        """
        refuse_first(request)
        return super().call(request, **options)
