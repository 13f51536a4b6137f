"""
What clients can ask that protocol version 2 has not settled yet, for threads that wait.  All of it may change, or go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_twisted.client.sync_unstable import AnySyncUnstableCalls
from acp_twisted.client.v2.unstable import UnstableCalls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from acp_twisted.client.v2.sync import SyncClientSession
    from acp_twisted.schema import v2


class SyncUnstableCalls(AnySyncUnstableCalls[UnstableCalls]):
    """
    L{UnstableCalls} that wait for their answers; see
    L{AcpSyncClient.unstable<acp_twisted.client.v2.sync.AcpSyncClient.unstable>}.
    """

    if TYPE_CHECKING:

        def auth_status(self) -> v2.AuthStatusResponse: ...

        def list_providers(self) -> v2.ListProvidersResponse: ...

        def set_provider(
            self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
        ) -> v2.SetProviderResponse: ...

        def disable_provider(self, provider_id: str) -> v2.DisableProviderResponse: ...

        def fork_session(
            self,
            session_id: str,
            cwd: str,
            mcp_servers: Sequence[v2.McpServer] = (),
            additional_directories: Sequence[str] = (),
            system_prompt: v2.SystemPrompt | None = None,
            *,
            timeout: float | None = None,
        ) -> SyncClientSession: ...

        def list_sessions(
            self, cwd: str | None = None, cursor: str | None = None, *, archived: v2.SessionArchiveFilter
        ) -> v2.ListSessionsResponse: ...

        def archive_session(self, session_id: str) -> v2.ArchiveSessionResponse: ...

        def unarchive_session(self, session_id: str) -> v2.UnarchiveSessionResponse: ...

        def session_status(self, session_id: str) -> v2.SessionStatusResponse: ...

        def set_session_title(self, session_id: str, title: str) -> v2.SetSessionTitleResponse: ...
