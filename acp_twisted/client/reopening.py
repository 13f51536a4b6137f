"""
Sessions that come back: what was open on a connection that is lost, opened again on the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpConnectionError, RequestCancelled

if TYPE_CHECKING:
    from acp_twisted.client.v2.negotiation import AnyConnection

_log = Logger()

Reopen: TypeAlias = Literal["load", "resume"]
"""
How sessions are opened again: C{"load"} has the agent tell the whole conversation again, C{"resume"} goes on without.
Where the agent offers only the other one, that is what is done.
"""


def check_how(how: Reopen | None) -> Reopen | None:
    """
    @raise ValueError: when it is no way to open sessions again.
    """
    if how not in ("load", "resume", None):
        raise ValueError(f"reopen: {how!r} is neither 'load' nor 'resume' nor None")
    return how


class Reopening:
    """
    The sessions to be opened again.

    @param how: see L{Reopen}; L{None} opens none.
    """

    def __init__(self, how: Reopen | None) -> None:
        self._how = how
        self._requests: dict[str, Any] = {}

    def lost(self, connection: AnyConnection) -> None:
        """
        A connection was lost: what was open on it is to be opened again, if this client opened it.
        """
        if self._how is not None:
            sessions: Mapping[str, Any] = connection.sessions
            self._requests = {name: each.asked for name, each in sessions.items() if each.asked is not None}

    def on(self, connection: AnyConnection) -> Deferred[Any]:
        """
        Open them on a new connection, all at once.  One that the agent refuses is given up, and logged.

        @return: fails with L{AcpConnectionError} when the connection is lost meanwhile; then they are still to be
            opened.
        """
        calls: list[Deferred[Any]] = []
        for session_id, asked in self._requests.items():
            if connection.session(session_id) is not None:
                continue  # whoever prepares connections has opened it
            request = self._request(connection, session_id, asked)
            if request is None:
                _log.warn("session {session_id} is over: the agent opens none again", session_id=session_id)
                continue
            opening: Deferred[Any] = maybeDeferred(connection.open_session, request)
            calls.append(opening.addErrback(_given_up, session_id))
        return gatherResults(calls, consumeErrors=True).addErrback(_first)

    def _request(self, connection: Any, session_id: str, asked: Any) -> Any:
        """
        What opens a session on C{connection}; L{None} where nothing does.
        """
        types = connection.schema
        told = {
            "session_id": session_id,
            "cwd": asked.cwd,
            "mcp_servers": asked.mcp_servers,
            "additional_directories": asked.additional_directories,
        }
        if not type(asked).__module__.startswith(types.__name__):
            return None  # the agent speaks another version now, which has other words for the servers
        if connection.protocol_version == 2:
            replay = types.ReplayFromStart() if self._how == "load" else None
            return types.ResumeSessionRequest(**told, replay_from=replay)
        offered = {
            "load": types.LoadSessionRequest if connection.supports("loadSession") else None,
            "resume": types.ResumeSessionRequest if connection.supports("sessionCapabilities.resume") else None,
        }
        kind = offered[self._how or "load"] or offered["load"] or offered["resume"]
        return None if kind is None else kind(**told)


def _given_up(failure: Failure, session_id: str) -> Failure | None:
    error = failure.value
    if isinstance(error, AcpConnectionError) or (isinstance(error, RequestCancelled) and not error.remote):
        return failure  # of the attempt, or the service stops
    _log.warn("session {session_id} is over: {reason}", session_id=session_id, reason=failure.getErrorMessage())
    return None


def _first(failure: Failure) -> Failure:
    return failure.value.subFailure  # type: ignore[no-any-return, union-attr]
