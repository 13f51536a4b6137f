"""
Decorators for what protocol version 1 has not settled yet.  They are for classes with
C{@acp_agent(…, unstable=True)}; what they handle may change, or go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from acp_twisted.agent.annotations.marks import Mark, marked

_F = TypeVar("_F", bound="Callable[..., Any]")


def auth_status(function: _F) -> _F:
    """
    Unstable.  For the method that answers C{auth/status}, which must not refuse it with -32000.
    """
    return marked(function, Mark("auth_status", "auth/status", unstable=True), "auth_status")


def list_providers(function: _F) -> _F:
    """
    Unstable.  For the method that answers C{providers/list}.  The capability needs the methods of all three requests.
    """
    return marked(function, Mark("list_providers", "providers/list", unstable=True), "list_providers")


def set_provider(function: _F) -> _F:
    """
    Unstable.  For the method that answers C{providers/set}.  The headers may hold secrets.
    """
    return marked(function, Mark("set_provider", "providers/set", unstable=True), "set_provider")


def disable_provider(function: _F) -> _F:
    """
    Unstable.  For the method that answers C{providers/disable}.
    """
    return marked(function, Mark("disable_provider", "providers/disable", unstable=True), "disable_provider")


def fork_session(function: _F) -> _F:
    """
    Unstable.  For the method that answers C{session/fork}, with the id of the new session.
    """
    return marked(function, Mark("fork_session", "session/fork", unstable=True), "fork_session")


def archive_session(function: _F) -> _F:
    """
    Unstable.  For the method that answers C{session/archive}, once a turn that was running has been cancelled and
    answered.
    """
    return marked(function, Mark("archive_session", "session/archive", unstable=True), "archive_session")


def unarchive_session(function: _F) -> _F:
    """
    Unstable.  For the method that answers C{session/unarchive}.
    """
    return marked(function, Mark("unarchive_session", "session/unarchive", unstable=True), "unarchive_session")


def session_status(function: _F) -> _F:
    """
    Unstable.  For the method that answers C{session/status}.
    """
    return marked(function, Mark("session_status", "session/status", unstable=True), "session_status")


def set_session_title(function: _F) -> _F:
    """
    Unstable.  For the method that answers C{session/set_title}.
    """
    return marked(function, Mark("set_session_title", "session/set_title", unstable=True), "set_session_title")


def mcp_message(function: _F) -> _F:
    """
    Unstable.  For the method that is told of C{mcp/message}, by an MCP server that the client serves.
    """
    mark = Mark("mcp_message", "mcp/message", is_request=False, unstable=True)
    return marked(function, mark, "mcp_message")
