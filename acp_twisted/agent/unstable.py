"""
What agents can do that the protocol has not settled yet, and the calls of version 1 for it; those of version 2 are in
L{acp_twisted.agent.v2.unstable}.  All of it may change, or go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from twisted.internet.defer import Deferred

from acp_twisted.builder import Builder
from acp_twisted.errors import AcpCapabilityError
from acp_twisted.gates import advertises
from acp_twisted.handlers import Handler
from acp_twisted.jsonrpc.calls import Call

if TYPE_CHECKING:
    from typing_extensions import Self

    from acp_twisted.agent.connection import AgentConnection
    from acp_twisted.agent.v2.connection import AgentConnection as SecondConnection
    from acp_twisted.schema import v1

    AnyConnection: TypeAlias = AgentConnection | SecondConnection

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


class Subagents:
    """
    The sessions that the client knows as those of subagents, and may cancel by themselves; the last of them.

    @param limit: how many are remembered.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[str, None] = {}

    def keep(self, session_id: str) -> None:
        """
        The client is told of one.
        """
        self._known[session_id] = None
        if len(self._known) > self._limit:
            del self._known[next(iter(self._known))]

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._known


class AnyUnstableUpdates:
    """
    What the updates of both versions have alike, in the words of the connection's version.

    @raise ValueError: when the agent was not built with C{unstable=True}.
    """

    def __init__(self, connection: AnyConnection, send: Callable[[Any], Deferred[None]]) -> None:
        _check_unstable(connection)
        self._connection = connection
        self._types = connection.schema
        self._send = send

    def update_plan(
        self,
        plan_id: str,
        *,
        entries: Sequence[Any] | None = None,
        markdown: str | None = None,
        uri: str | None = None,
    ) -> Deferred[None]:
        """
        Unstable.  Tell one plan out of several anew.

        @param entries: its steps; or
        @param markdown: its text; or
        @param uri: the file that it stands in.
        @raise ValueError: when it is not exactly one of the three.
        """
        types = self._types
        if entries is not None and markdown is None and uri is None:
            plan = types.PlanItems(plan_id=plan_id, entries=list(entries))
        elif markdown is not None and entries is None and uri is None:
            plan = types.PlanMarkdown(plan_id=plan_id, content=markdown)
        elif uri is not None and entries is None and markdown is None:
            plan = types.PlanFile(plan_id=plan_id, uri=uri)
        else:
            raise ValueError("a plan has entries, or markdown, or a uri")
        return self._send(types.PlanUpdate(plan=plan))

    def remove_plan(self, plan_id: str) -> Deferred[None]:
        """
        Unstable.  Drop a plan.
        """
        return self._send(self._types.PlanRemoved(plan_id=plan_id))

    def update_subagent(self, session_id: str, **changes: Any) -> Deferred[None]:
        """
        Unstable.  Announce a session that this one owns, or tell what has changed about it.  From then on the agent's
        C{cancel_handler} is told of the C{session/cancel} of that session.

        @param session_id: the subagent's session.
        @param changes: members of the version's C{SubagentUpdate}; L{None} clears one, and those that are left out
            stay.
        """
        update = self._types.SubagentUpdate(session_id=session_id, **changes)
        self._connection.subagents.keep(session_id)  # before it is sent: the client may cancel it at once
        return self._send(update)

    def send_session_message(self, message_id: str, **members: Any) -> Deferred[None]:
        """
        Unstable.  Tell a message from one session to another, whole.

        @param members: members of the version's C{SessionMessage}.
        """
        return self._send(self._types.SessionMessage(message_id=message_id, **members))

    def send_session_message_chunk(self, message_id: str, content: Any) -> Deferred[None]:
        """
        Unstable.  Tell a piece of a message from one session to another.

        @param content: text, or a content block.
        """
        block = self._types.TextContent(text=content) if isinstance(content, str) else content
        return self._send(self._types.SessionMessageChunk(message_id=message_id, content=block))


class UnstableUpdates(AnyUnstableUpdates):
    """
    Updates of one session that the protocol has not settled yet; see
    L{PromptContext.unstable<acp_twisted.agent.context.PromptContext.unstable>}.
    """

    if TYPE_CHECKING:

        def update_plan(
            self,
            plan_id: str,
            *,
            entries: Sequence[v1.PlanEntry] | None = None,
            markdown: str | None = None,
            uri: str | None = None,
        ) -> Deferred[None]: ...

        def send_session_message_chunk(self, message_id: str, content: str | v1.ContentBlock) -> Deferred[None]: ...


class AnyUnstableCalls:
    """
    What the calls of both versions have alike, in the words of the connection's version.

    @raise ValueError: when the agent was not built with C{unstable=True}.
    """

    def __init__(self, connection: AnyConnection) -> None:
        _check_unstable(connection)
        self._connection = connection
        self._types = connection.schema

    def send_auth_status(self, state: str, accounts: Sequence[Any] = ()) -> Deferred[None]:
        """
        Unstable.  Send C{auth/status_update}: the whole new state of the agent's authentication.

        @raise AcpCapabilityError: when the agent itself has not advertised C{auth.status}.
        """
        if not advertises(self._connection.own_capabilities, "auth.status"):
            raise AcpCapabilityError("auth.status")
        return self._connection.notify(self._types.AuthStatusUpdateNotification(state=state, accounts=list(accounts)))

    def send_mcp_message(
        self, server_id: str, method: str, params: dict[str, Any] | None = None, *, request_id: str | None = None
    ) -> Call[Any]:
        """
        Unstable.  Send the request C{mcp/message}, to an MCP server that the client serves.

        @param request_id: the id of the request there, unique among those that are open; a random one if it is L{None}.
        """
        request = self._types.MessageMcpRequest(
            server_id=server_id,
            request_id=str(uuid4()) if request_id is None else request_id,
            method=method,
            params=params,
        )
        return self._connection.call(request)

    def _sender(self, session_id: str) -> Callable[[Any], Deferred[None]]:
        return lambda update: self._connection.send_update(session_id, update)


class UnstableCalls(AnyUnstableCalls):
    """
    What an agent may tell or ask that the protocol has not settled yet; see
    L{AgentConnection.unstable<acp_twisted.agent.connection.AgentConnection.unstable>}.
    """

    def updates(self, session_id: str) -> UnstableUpdates:
        """
        The updates of a session, for outside of turns.
        """
        return UnstableUpdates(self._connection, self._sender(session_id))

    if TYPE_CHECKING:

        def send_auth_status(self, state: v1.AuthState, accounts: Sequence[v1.AuthAccount] = ()) -> Deferred[None]: ...

        def send_mcp_message(
            self, server_id: str, method: str, params: dict[str, Any] | None = None, *, request_id: str | None = None
        ) -> Call[v1.MessageMcpResponse]: ...


def _check_unstable(connection: AnyConnection) -> None:
    if not connection.agent.unstable:
        raise ValueError("build the agent with unstable=True to call what is not settled yet")
