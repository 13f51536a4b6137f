"""
What clients can do that the protocol has not settled yet, and the calls of version 1 for it; those of version 2 are in
L{acp_twisted.client.v2.unstable}.  All of it may change, or go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from twisted.internet.defer import Deferred

from acp_twisted.builder import Builder
from acp_twisted.handlers import Handler
from acp_twisted.jsonrpc.calls import Call

if TYPE_CHECKING:
    from typing_extensions import Self

    from acp_twisted.client.connection import ClientConnection
    from acp_twisted.client.session import ClientSession
    from acp_twisted.client.v2.connection import ClientConnection as SecondConnection
    from acp_twisted.schema import v1

    AnyConnection: TypeAlias = ClientConnection | SecondConnection

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


class AnyUnstableCalls:
    """
    What the calls of both versions have alike, in the words of the connection's version.

    @raise ValueError: when the client was not built with C{unstable=True}.
    """

    def __init__(self, connection: AnyConnection) -> None:
        if not connection.client.unstable:
            raise ValueError("build the client with unstable=True to call what is not settled yet")
        self._connection = connection
        self._types = connection.schema

    def auth_status(self) -> Call[Any]:
        """
        Unstable.  Send C{auth/status}: whether the agent is authenticated, and as whom.
        """
        return self._connection.call(self._types.AuthStatusRequest())

    def list_providers(self) -> Call[Any]:
        """
        Unstable.  Send C{providers/list}.
        """
        return self._connection.call(self._types.ListProvidersRequest())

    def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
    ) -> Call[Any]:
        """
        Unstable.  Send C{providers/set}, which replaces all that was set for the provider, also its headers.
        """
        request = self._types.SetProviderRequest(
            provider_id=provider_id, api_type=api_type, base_url=base_url, headers=dict(headers or {})
        )
        return self._connection.call(request)

    def disable_provider(self, provider_id: str) -> Call[Any]:
        """
        Unstable.  Send C{providers/disable}.
        """
        return self._connection.call(self._types.DisableProviderRequest(provider_id=provider_id))

    def fork_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[Any] = (),
        additional_directories: Sequence[str] = (),
        system_prompt: Any = None,
        *,
        timeout: float | None = None,
    ) -> Call[Any]:
        """
        Unstable.  Send C{session/fork}.

        @return: the new session.
        """
        request = self._types.ForkSessionRequest(
            session_id=session_id,
            cwd=cwd,
            mcp_servers=list(mcp_servers),
            additional_directories=list(additional_directories),
            system_prompt=system_prompt,
        )
        return self._connection.open_session(request, timeout=timeout)

    def list_sessions(self, cwd: str | None = None, cursor: str | None = None, *, archived: str) -> Call[Any]:
        """
        Unstable.  Send C{session/list}, for archived sessions too.

        @param archived: C{"exclude"}, C{"include"} or C{"only"}.
        """
        return self._connection.call(self._types.ListSessionsRequest(cwd=cwd, cursor=cursor, archived=archived))

    def archive_session(self, session_id: str) -> Call[Any]:
        """
        Unstable.  Send C{session/archive}: as C{close_session} of the connection for one that is open.
        """
        return self._connection.end_session(session_id, self._types.ArchiveSessionRequest(session_id=session_id))

    def unarchive_session(self, session_id: str) -> Call[Any]:
        """
        Unstable.  Send C{session/unarchive}.
        """
        return self._connection.call(self._types.UnarchiveSessionRequest(session_id=session_id))

    def session_status(self, session_id: str) -> Call[Any]:
        """
        Unstable.  Send C{session/status}: whether the agent has the session in memory.
        """
        return self._connection.call(self._types.SessionStatusRequest(session_id=session_id))

    def set_session_title(self, session_id: str, title: str) -> Call[Any]:
        """
        Unstable.  Send C{session/set_title}.
        """
        return self._connection.call(self._types.SetSessionTitleRequest(session_id=session_id, title=title))

    def send_mcp_message(
        self, server_id: str, request_id: str, method: str, params: dict[str, Any] | None = None
    ) -> Deferred[None]:
        """
        Unstable.  Send the notification C{mcp/message}: what an MCP server that this client serves says about a request
        that the agent has made of it.
        """
        return self._connection.notify(
            self._types.MessageMcpNotification(server_id=server_id, request_id=request_id, method=method, params=params)
        )


class UnstableCalls(AnyUnstableCalls):
    """
    What a client may ask that the protocol has not settled yet; see
    L{ClientConnection.unstable<acp_twisted.client.connection.ClientConnection.unstable>}.
    """

    if TYPE_CHECKING:

        def auth_status(self) -> Call[v1.AuthStatusResponse]: ...

        def list_providers(self) -> Call[v1.ListProvidersResponse]: ...

        def set_provider(
            self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
        ) -> Call[v1.SetProviderResponse]: ...

        def disable_provider(self, provider_id: str) -> Call[v1.DisableProviderResponse]: ...

        def fork_session(
            self,
            session_id: str,
            cwd: str,
            mcp_servers: Sequence[Any] = (),
            additional_directories: Sequence[str] = (),
            system_prompt: v1.SystemPrompt | None = None,
            *,
            timeout: float | None = None,
        ) -> Call[ClientSession]: ...

        def list_sessions(
            self, cwd: str | None = None, cursor: str | None = None, *, archived: v1.SessionArchiveFilter
        ) -> Call[v1.ListSessionsResponse]: ...

        def archive_session(self, session_id: str) -> Call[v1.ArchiveSessionResponse]: ...

        def unarchive_session(self, session_id: str) -> Call[v1.UnarchiveSessionResponse]: ...

        def session_status(self, session_id: str) -> Call[v1.SessionStatusResponse]: ...

        def set_session_title(self, session_id: str, title: str) -> Call[v1.SetSessionTitleResponse]: ...
