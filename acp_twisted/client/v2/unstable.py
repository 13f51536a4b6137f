"""
What clients can ask that protocol version 2 has not settled yet.  All of it may change, or go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_twisted.client.unstable import AnyUnstableCalls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from acp_twisted.client.v2.session import ClientSession
    from acp_twisted.jsonrpc.calls import Call
    from acp_twisted.schema import v2


class UnstableCalls(AnyUnstableCalls):
    """
    What a client may ask that the protocol has not settled yet; see
    L{ClientConnection.unstable<acp_twisted.client.v2.connection.ClientConnection.unstable>}.
    """

    if TYPE_CHECKING:

        def auth_status(self) -> Call[v2.AuthStatusResponse]: ...

        def list_providers(self) -> Call[v2.ListProvidersResponse]: ...

        def set_provider(
            self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
        ) -> Call[v2.SetProviderResponse]: ...

        def disable_provider(self, provider_id: str) -> Call[v2.DisableProviderResponse]: ...

        def fork_session(
            self,
            session_id: str,
            cwd: str,
            mcp_servers: Sequence[v2.McpServer] = (),
            additional_directories: Sequence[str] = (),
            system_prompt: v2.SystemPrompt | None = None,
            *,
            timeout: float | None = None,
        ) -> Call[ClientSession]: ...

        def list_sessions(
            self, cwd: str | None = None, cursor: str | None = None, *, archived: v2.SessionArchiveFilter
        ) -> Call[v2.ListSessionsResponse]: ...

        def archive_session(self, session_id: str) -> Call[v2.ArchiveSessionResponse]: ...

        def unarchive_session(self, session_id: str) -> Call[v2.UnarchiveSessionResponse]: ...

        def session_status(self, session_id: str) -> Call[v2.SessionStatusResponse]: ...

        def set_session_title(self, session_id: str, title: str) -> Call[v2.SetSessionTitleResponse]: ...
