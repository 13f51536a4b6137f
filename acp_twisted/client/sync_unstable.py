"""
What clients can ask that the protocol has not settled yet, for threads that wait.  All of it may change, or go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from twisted.internet.defer import Deferred

from acp_twisted.client.sync_turn import Readers
from acp_twisted.client.unstable import AnyUnstableCalls, UnstableCalls

if TYPE_CHECKING:
    from acp_twisted.client.sync import SyncClientSession
    from acp_twisted.schema import v1

_T = TypeVar("_T")
_Calls = TypeVar("_Calls", bound=AnyUnstableCalls)


class AnySyncUnstableCalls(Generic[_Calls]):
    """
    What the calls of both versions have alike; each waits for its answer, and raises what it fails with.
    """

    def __init__(self, calls: _Calls, readers: Readers, session: Callable[[Any, Readers], Any]) -> None:
        """
        @param calls: those that do not block.
        @param session: makes a session block.
        """
        self._calls = calls
        self._readers = readers
        self._blocking = session

    def _wait(self, function: Callable[[], Deferred[_T]], session_id: str | None = None) -> _T:
        """
        See L{Readers.wait}.
        """
        return self._readers.wait(function, session_id)

    def auth_status(self) -> Any:
        """
        Unstable.  Send C{auth/status}: whether the agent is authenticated, and as whom.
        """
        return self._wait(self._calls.auth_status)

    def list_providers(self) -> Any:
        """
        Unstable.  Send C{providers/list}.
        """
        return self._wait(self._calls.list_providers)

    def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
    ) -> Any:
        """
        Unstable.  Send C{providers/set}, which replaces all that was set for the provider, also its headers.
        """
        return self._wait(lambda: self._calls.set_provider(provider_id, api_type, base_url, headers))

    def disable_provider(self, provider_id: str) -> Any:
        """
        Unstable.  Send C{providers/disable}.
        """
        return self._wait(lambda: self._calls.disable_provider(provider_id))

    def fork_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[Any] = (),
        additional_directories: Sequence[str] = (),
        system_prompt: Any = None,
        *,
        timeout: float | None = None,
    ) -> Any:
        """
        Unstable.  Send C{session/fork}.

        @return: the new session.
        """
        forked: Any = self._wait(
            lambda: self._calls.fork_session(
                session_id, cwd, mcp_servers, additional_directories, system_prompt, timeout=timeout
            ),
            session_id,
        )
        return self._blocking(forked, self._readers)

    def list_sessions(self, cwd: str | None = None, cursor: str | None = None, *, archived: str) -> Any:
        """
        Unstable.  Send C{session/list}, for archived sessions too.

        @param archived: C{"exclude"}, C{"include"} or C{"only"}.
        """
        return self._wait(lambda: self._calls.list_sessions(cwd, cursor, archived=archived))

    def archive_session(self, session_id: str) -> Any:
        """
        Unstable.  Send C{session/archive}: as C{close_session} of the client for one that is open.
        """
        return self._wait(lambda: self._calls.archive_session(session_id), session_id)

    def unarchive_session(self, session_id: str) -> Any:
        """
        Unstable.  Send C{session/unarchive}.
        """
        return self._wait(lambda: self._calls.unarchive_session(session_id), session_id)

    def session_status(self, session_id: str) -> Any:
        """
        Unstable.  Send C{session/status}: whether the agent has the session in memory.
        """
        return self._wait(lambda: self._calls.session_status(session_id), session_id)

    def set_session_title(self, session_id: str, title: str) -> Any:
        """
        Unstable.  Send C{session/set_title}.
        """
        return self._wait(lambda: self._calls.set_session_title(session_id, title), session_id)

    def send_mcp_message(
        self, server_id: str, request_id: str, method: str, params: dict[str, Any] | None = None
    ) -> None:
        """
        Unstable.  Send the notification C{mcp/message}: what an MCP server that this client serves says about a request
        that the agent has made of it.
        """
        self._wait(lambda: self._calls.send_mcp_message(server_id, request_id, method, params))


class SyncUnstableCalls(AnySyncUnstableCalls[UnstableCalls]):
    """
    L{UnstableCalls} that wait for their answers; see
    L{AcpSyncClient.unstable<acp_twisted.client.sync.AcpSyncClient.unstable>}.
    """

    if TYPE_CHECKING:

        def auth_status(self) -> v1.AuthStatusResponse: ...

        def list_providers(self) -> v1.ListProvidersResponse: ...

        def set_provider(
            self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
        ) -> v1.SetProviderResponse: ...

        def disable_provider(self, provider_id: str) -> v1.DisableProviderResponse: ...

        def fork_session(
            self,
            session_id: str,
            cwd: str,
            mcp_servers: Sequence[Any] = (),
            additional_directories: Sequence[str] = (),
            system_prompt: v1.SystemPrompt | None = None,
            *,
            timeout: float | None = None,
        ) -> SyncClientSession: ...

        def list_sessions(
            self, cwd: str | None = None, cursor: str | None = None, *, archived: v1.SessionArchiveFilter
        ) -> v1.ListSessionsResponse: ...

        def archive_session(self, session_id: str) -> v1.ArchiveSessionResponse: ...

        def unarchive_session(self, session_id: str) -> v1.UnarchiveSessionResponse: ...

        def session_status(self, session_id: str) -> v1.SessionStatusResponse: ...

        def set_session_title(self, session_id: str, title: str) -> v1.SetSessionTitleResponse: ...
