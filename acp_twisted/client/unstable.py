"""
What clients can do that protocol version 1 has not settled yet.  All of it may change, or go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_twisted.builder import Builder
from acp_twisted.handlers import Handler

if TYPE_CHECKING:
    from typing_extensions import Self

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
