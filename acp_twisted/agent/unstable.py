"""
What agents can do that protocol version 1 has not settled yet.  All of it may change, or go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_twisted.builder import Builder
from acp_twisted.handlers import Handler

if TYPE_CHECKING:
    from typing_extensions import Self

UNSTABLE_SETTERS = {
    "auth/status": "auth_status_handler",
    "providers/list": "list_providers_handler",
    "providers/set": "set_provider_handler",
    "providers/disable": "disable_provider_handler",
    "session/fork": "fork_session_handler",
    "session/archive": "archive_session_handler",
    "session/unarchive": "unarchive_session_handler",
    "session/status": "session_status_handler",
    "session/set_title": "set_session_title_handler",
    "mcp/message": "mcp_message_handler",
}
"""The builder's method for each of the protocol's."""


class UnstableAgentBuilder(Builder):
    """
    The setters of the handlers that only a builder with C{unstable=True} takes.
    """

    def auth_status_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Answer C{auth/status}: whether the agent is authenticated.  Never refuse it with -32000.
        """
        return self._on_unstable("auth/status", handler, "auth_status_handler")

    def list_providers_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Answer C{providers/list}.  The capability needs all three handlers of providers.
        """
        return self._on_unstable("providers/list", handler, "list_providers_handler")

    def set_provider_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Answer C{providers/set}, which replaces all that was set.  The headers may hold secrets.
        """
        return self._on_unstable("providers/set", handler, "set_provider_handler")

    def disable_provider_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Answer C{providers/disable}.
        """
        return self._on_unstable("providers/disable", handler, "disable_provider_handler")

    def fork_session_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Answer C{session/fork}, with the id of the new session, which is this connection's from then on.
        """
        return self._on_unstable("session/fork", handler, "fork_session_handler")

    def archive_session_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Answer C{session/archive}; for a session of this connection, once its turn has been cancelled and
        answered, as for C{session/close}.  The capability needs the handler of C{session/unarchive} too.
        """
        return self._on_unstable("session/archive", handler, "archive_session_handler")

    def unarchive_session_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Answer C{session/unarchive}, which neither loads nor resumes the session.
        """
        return self._on_unstable("session/unarchive", handler, "unarchive_session_handler")

    def session_status_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Answer C{session/status}, for any session that the agent knows, and without any effect on it.
        """
        return self._on_unstable("session/status", handler, "session_status_handler")

    def set_session_title_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Answer C{session/set_title} once the title is stored, for any session that C{session/list} would
        have.
        """
        return self._on_unstable("session/set_title", handler, "set_session_title_handler")

    def mcp_message_handler(self, handler: Handler) -> Self:
        """
        Unstable.  Be told of C{mcp/message}: what an MCP server of the client's says about a request that it has.
        """
        return self._on_unstable("mcp/message", handler, "mcp_message_handler")
