"""
The one table of the methods of protocol version 2.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from acp_twisted.schema import methods, v2
from acp_twisted.schema.methods import Method

_request = partial(methods.request, module=v2)
_notification = partial(methods.notification, module=v2)

METHODS: Final[tuple[Method, ...]] = (
    # ---- handled by agents
    _request("agent", "initialize", "Initialize"),
    _request("agent", "auth/login", "LoginAuth"),
    _request("agent", "auth/logout", "LogoutAuth"),
    _request("agent", "session/new", "NewSession", "session"),
    _request("agent", "session/resume", "ResumeSession", "session", session=True),
    _request("agent", "session/list", "ListSessions", "session"),
    _request("agent", "session/delete", "DeleteSession", "session.delete", session=True),
    _request("agent", "session/close", "CloseSession", "session", session=True),
    _request("agent", "session/set_config_option", "SetSessionConfigOption", "session", session=True),
    _request("agent", "session/prompt", "Prompt", "session", session=True),
    _notification("agent", "session/cancel", "CancelSessionNotification", "session", session=True),
    # The tool call and the terminal say themselves whether they can be cancelled.
    _request("agent", "tool_call/cancel", "CancelToolCall", "session", session=True),
    _request("agent", "terminal/cancel", "CancelTerminal", "session", session=True),
    # ---- handled by clients
    _notification("client", "session/update", "UpdateSessionNotification", session=True),
    _request("client", "session/request_permission", "RequestPermission", session=True),
    _request("client", "elicitation/create", "CreateElicitation", "elicitation"),
    _notification("client", "elicitation/complete", "CompleteElicitationNotification", "elicitation.url"),
    # ---- handled by both
    _notification("both", "$/cancel_request", "CancelRequestNotification"),
    # ---- not settled yet
    _request("agent", "auth/status", "AuthStatus", "auth.status", stable=False),
    _notification("client", "auth/status_update", "AuthStatusUpdateNotification", stable=False),
    _request("agent", "providers/list", "ListProviders", "providers", stable=False),
    _request("agent", "providers/set", "SetProvider", "providers", stable=False),
    _request("agent", "providers/disable", "DisableProvider", "providers", stable=False),
    _request("agent", "session/fork", "ForkSession", "session.fork", session=True, stable=False),
    _request("agent", "session/archive", "ArchiveSession", "session.archive", session=True, stable=False),
    _request("agent", "session/unarchive", "UnarchiveSession", "session.archive", session=True, stable=False),
    _request("agent", "session/status", "SessionStatus", "session.status", session=True, stable=False),
    _request("agent", "session/set_title", "SetSessionTitle", "session.title", session=True, stable=False),
    _request("client", "mcp/message", "MessageMcp", stable=False),
    _notification("agent", "mcp/message", "MessageMcpNotification", "session.mcp.acp", stable=False),
    _request("proxy", "proxy/initialize", "InitializeProxy", stable=False),
    Method("proxy/successor", "proxy", "request", "ProxySuccessorRequest", stable=False, types=v2),
    _notification("proxy", "proxy/successor", "ProxySuccessorNotification", stable=False),
)
