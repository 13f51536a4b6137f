"""
What clients can do that protocol version 1 has not settled yet.  All of it may change, or go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from acp_twisted.builder import Builder
from acp_twisted.handlers import Handler
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from typing_extensions import Self

    from acp_twisted.client.connection import ClientConnection
    from acp_twisted.client.session import ClientSession

UNSTABLE_SETTERS = {
    "auth/status_update": "auth_status_update_handler",
    "mcp/message": "mcp_message_handler",
}
"""The builder's method for each of the protocol's."""


class UnstableClientBuilder(Builder):
    """
    The setters of the handlers that only a builder with C{unstable=True} takes.
    """

    def auth_status_update_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Be told of C{auth/status_update}: the agent's authentication has changed.
        """
        return self._on_unstable("auth/status_update", handler, "auth_status_update_handler")

    def mcp_message_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Answer C{mcp/message}: a request to an MCP server that this client serves.
        """
        return self._on_unstable("mcp/message", handler, "mcp_message_handler")


class UnstableCalls:
    """
    What a client may ask that the protocol has not settled yet; see
    L{ClientConnection.unstable<acp_twisted.client.connection.ClientConnection.unstable>}.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def auth_status(self) -> Call[v1.AuthStatusResponse]:
        """
        Unstable.  Send C{auth/status}: whether the agent is authenticated, and as whom.
        """
        return self._connection.call(v1.AuthStatusRequest())

    def list_providers(self) -> Call[v1.ListProvidersResponse]:
        """
        Unstable.  Send C{providers/list}.
        """
        return self._connection.call(v1.ListProvidersRequest())

    def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
    ) -> Call[v1.SetProviderResponse]:
        """
        Unstable.  Send C{providers/set}, which replaces all that was set for the provider, also its headers.
        """
        request = v1.SetProviderRequest(
            provider_id=provider_id, api_type=api_type, base_url=base_url, headers=dict(headers or {})
        )
        return self._connection.call(request)

    def disable_provider(self, provider_id: str) -> Call[v1.DisableProviderResponse]:
        """
        Unstable.  Send C{providers/disable}.
        """
        return self._connection.call(v1.DisableProviderRequest(provider_id=provider_id))

    def fork_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[Any] = (),
        additional_directories: Sequence[str] = (),
        system_prompt: v1.SystemPrompt | None = None,
        *,
        timeout: float | None = None,
    ) -> Call[ClientSession]:
        """
        Unstable.  Send C{session/fork}.

        @return: the new session.
        """
        request = v1.ForkSessionRequest(
            session_id=session_id,
            cwd=cwd,
            mcp_servers=list(mcp_servers),
            additional_directories=list(additional_directories),
            system_prompt=system_prompt,
        )
        return self._connection.open_session(request, timeout=timeout)

    def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, *, archived: v1.SessionArchiveFilter
    ) -> Call[v1.ListSessionsResponse]:
        """
        Unstable.  Send C{session/list}, for archived sessions too.

        @param archived: C{"exclude"}, C{"include"} or C{"only"}.
        """
        return self._connection.call(v1.ListSessionsRequest(cwd=cwd, cursor=cursor, archived=archived))

    def archive_session(self, session_id: str) -> Call[v1.ArchiveSessionResponse]:
        """
        Unstable.  Send C{session/archive}: as L{ClientConnection.close_session
        <acp_twisted.client.connection.ClientConnection.close_session>} for one that is open.
        """
        return self._connection.end_session(session_id, v1.ArchiveSessionRequest(session_id=session_id))

    def unarchive_session(self, session_id: str) -> Call[v1.UnarchiveSessionResponse]:
        """
        Unstable.  Send C{session/unarchive}.
        """
        return self._connection.call(v1.UnarchiveSessionRequest(session_id=session_id))

    def session_status(self, session_id: str) -> Call[v1.SessionStatusResponse]:
        """
        Unstable.  Send C{session/status}: whether the agent has the session in memory.
        """
        return self._connection.call(v1.SessionStatusRequest(session_id=session_id))

    def set_session_title(self, session_id: str, title: str) -> Call[v1.SetSessionTitleResponse]:
        """
        Unstable.  Send C{session/set_title}.
        """
        return self._connection.call(v1.SetSessionTitleRequest(session_id=session_id, title=title))

    def send_mcp_message(
        self, server_id: str, request_id: str, method: str, params: dict[str, Any] | None = None
    ) -> Deferred[None]:
        """
        Unstable.  Send the notification C{mcp/message}: what an MCP server that this client serves says about a request
        that the agent has made of it.
        """
        return self._connection.notify(
            v1.MessageMcpNotification(server_id=server_id, request_id=request_id, method=method, params=params)
        )
