"""
What agents can do that protocol version 2 has not settled yet.  All of it may change, or go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from acp_twisted.agent.unstable import AnyUnstableCalls, AnyUnstableUpdates
from acp_twisted.schema import v2

if TYPE_CHECKING:
    from acp_twisted.jsonrpc.calls import Call


class UnstableUpdates(AnyUnstableUpdates):
    """
    Updates of one session that the protocol has not settled yet; see
    L{PromptContext.unstable<acp_twisted.agent.v2.context.PromptContext.unstable>}.
    """

    def send_unknown_state(self, background: Sequence[v2.BackgroundWork] | None = None) -> Deferred[None]:
        """
        Unstable.  Say that the agent can't tell any more what the session is doing: a subagent's that runs elsewhere,
        say.  It ends nothing, and the next state takes its place.

        @param background: what goes on in the background, as far as that is known.
        """
        return self._send(v2.UnknownStateUpdate(background=None if background is None else list(background)))

    if TYPE_CHECKING:

        def update_plan(
            self,
            plan_id: str,
            *,
            entries: Sequence[v2.PlanEntry] | None = None,
            markdown: str | None = None,
            uri: str | None = None,
        ) -> Deferred[None]: ...

        def send_session_message_chunk(self, message_id: str, content: str | v2.ContentBlock) -> Deferred[None]: ...


class UnstableCalls(AnyUnstableCalls):
    """
    What an agent may tell or ask that the protocol has not settled yet; see
    L{AgentConnection.unstable<acp_twisted.agent.v2.connection.AgentConnection.unstable>}.
    """

    def updates(self, session_id: str) -> UnstableUpdates:
        """
        The updates of a session, for outside of prompts.
        """
        return UnstableUpdates(self._connection, self._sender(session_id))

    if TYPE_CHECKING:

        def send_auth_status(self, state: v2.AuthState, accounts: Sequence[v2.AuthAccount] = ()) -> Deferred[None]: ...

        def send_mcp_message(
            self, server_id: str, method: str, params: dict[str, Any] | None = None, *, request_id: str | None = None
        ) -> Call[v2.MessageMcpResponse]: ...
