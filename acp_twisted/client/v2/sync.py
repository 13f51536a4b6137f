"""
A client of version 2 that blocks, for scripts and notebooks.

::

    client = AcpClient.builder().protocol_versions(2).build()
    with AcpSyncClient.connect(client, AgentCommand(["my-agent"])) as agent:
        session = agent.new_session("/project")
        with session.start("Hello") as prompt:
            for update in prompt:
                print(update)
        print(prompt.accepted(), prompt.result().stop_reason)

C{connect} is L{AcpSyncClient.connect<acp_twisted.client.sync.AcpSyncClient.connect>} of C{acp_twisted.client.sync}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

from twisted.internet.defer import Deferred

from acp_twisted.client.sync_base import SyncConnection, SyncSession
from acp_twisted.client.v2.connection import ClientConnection
from acp_twisted.client.v2.picture import SessionSnapshot
from acp_twisted.client.v2.session import ClientSession
from acp_twisted.client.v2.sync_prompt import SyncPrompt
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.schema import v2

if TYPE_CHECKING:
    from acp_twisted.client.sync import AcpSyncClient as FirstClient
    from acp_twisted.client.v2.sync_unstable import SyncUnstableCalls

AnySyncClient: TypeAlias = "FirstClient | AcpSyncClient"
"""A client of either version; its C{protocol_version} says which."""


class AcpSyncClient(SyncConnection[ClientConnection, "SyncClientSession"]):
    """
    A connection to an agent, in version 2 of the protocol, whose methods block, and raise what they fail with.  It is
    for any thread but the reactor's.  It is closed by the end of its C{with} block, by L{close}, or by the program's
    exit.

    @cvar protocol_version: the version that is spoken; type checkers tell the clients of both versions apart by it.
    """

    protocol_version: Final[Literal[2]] = 2

    # ---- the beginning

    @property
    def initialized(self) -> v2.InitializeResponse | None:
        """
        The agent's answer to C{initialize}.
        """
        return self.connection.initialized

    @property
    def agent_capabilities(self) -> v2.AgentCapabilities:
        """
        What the agent can do.
        """
        return self.connection.agent_capabilities

    @property
    def agent_info(self) -> v2.Implementation | None:
        """
        What it says of itself.
        """
        return self.connection.agent_info

    @property
    def auth_methods(self) -> Sequence[v2.AuthMethod]:
        """
        The ways to log in that it offers.
        """
        return self.connection.auth_methods

    @property
    def unstable(self) -> SyncUnstableCalls:
        """
        Unstable.  The calls for what the protocol has not settled yet.

        @raise ValueError: when the client was not built with C{unstable=True}.
        """
        from acp_twisted.client.v2.sync_unstable import SyncUnstableCalls  # noqa: PLC0415 - few scripts need it

        return SyncUnstableCalls(self.connection.unstable, self._readers, SyncClientSession)

    # ---- what the client asks

    def login(self, method_id: str) -> v2.LoginAuthResponse:
        """
        Send C{auth/login}; see L{ClientConnection.login}.
        """
        return self._wait(lambda: self.connection.login(method_id))

    def logout(self) -> v2.LogoutAuthResponse:
        """
        Send C{auth/logout}; see L{ClientConnection.logout}.
        """
        return self._wait(self.connection.logout)

    def new_session(
        self,
        cwd: str | None = None,
        mcp_servers: Sequence[v2.McpServer] = (),
        additional_directories: Sequence[str] = (),
        *,
        meta: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> SyncClientSession:
        """
        Send C{session/new}.

        @param cwd: absolute; the client's own if it is L{None}.
        """
        where = self._directory(cwd)
        return self._session(
            lambda: self.connection.new_session(where, mcp_servers, additional_directories, meta=meta, timeout=timeout)
        )

    def resume_session(
        self,
        session_id: str,
        cwd: str | None = None,
        mcp_servers: Sequence[v2.McpServer] = (),
        additional_directories: Sequence[str] = (),
        *,
        replay: bool = False,
        timeout: float | None = None,
    ) -> SyncClientSession:
        """
        Send C{session/resume}.

        @param cwd: absolute; the client's own if it is L{None}.
        @param replay: have the agent tell the whole conversation again; what it told is in the session's
            C{take_updates()}.
        """
        where = self._directory(cwd)
        return self._session(
            lambda: self.connection.resume_session(
                session_id, where, mcp_servers, additional_directories, replay=replay, timeout=timeout
            ),
            session_id,
        )

    def _session(
        self, function: Callable[[], Deferred[ClientSession]], session_id: str | None = None
    ) -> SyncClientSession:
        return SyncClientSession(self._wait(function, session_id), self._readers)

    def require_session(self, session_id: str) -> SyncClientSession:
        """
        The session of that id, whoever opened it.  Nothing is sent.
        """
        return SyncClientSession(self._thread.call(lambda: self.connection.require_session(session_id)), self._readers)

    def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> v2.ListSessionsResponse:
        """
        Send C{session/list}.

        @param cursor: the last answer's C{next_cursor}, untouched.
        """
        return self._wait(lambda: self.connection.list_sessions(cwd, cursor))

    def delete_session(self, session_id: str) -> v2.DeleteSessionResponse:
        """
        Send C{session/delete}.
        """
        return self._wait(lambda: self.connection.delete_session(session_id), session_id)

    def close_session(self, session_id: str) -> v2.CloseSessionResponse:
        """
        Send C{session/close}; see L{ClientConnection.close_session}.
        """
        return self._wait(lambda: self.connection.close_session(session_id), session_id)

    def prompt(
        self,
        what: str | v2.PromptRequest,
        stop: CancellationSignal | None = None,
        *,
        on_update: Callable[[v2.SessionUpdate], object] | None = None,
        timeout: float | None = None,
    ) -> v2.IdleStateUpdate:
        """
        Send a prompt, and wait until the agent is idle again after the work on it.

        @param what: a request that names its session; or text, for a session that is opened for the first of them.
        @param stop: stops the prompt when it is given, from any thread; see L{SyncPrompt.cancel}.
        @param on_update: called with each update, here in the calling thread.
        @param timeout: seconds until the prompt is given up; L{None} is the client's C{prompt_timeout}.
        @return: the report that the agent is idle, with its stop reason.
        @raise TypeError: when C{what} is neither; a list of content is for L{SyncClientSession.prompt}.
        """
        session, content, meta = self._prompted(what, v2.PromptRequest, self.new_session, self.require_session)
        return session.prompt(content, stop, on_update=on_update, meta=meta, timeout=timeout)


class SyncClientSession(SyncSession[v2.ContentBlock, v2.SessionUpdate, v2.IdleStateUpdate]):
    """
    A L{ClientSession} of version 2 whose methods block.  Any number of prompts may be out.

    @ivar session: the one that does not, for the reactor's thread.
    """

    session: ClientSession

    # ---- prompts

    def start(
        self,
        content: str | Sequence[v2.ContentBlock],
        stop: CancellationSignal | None = None,
        *,
        meta: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> SyncPrompt:
        """
        Send a prompt, whatever the agent is at, and do not wait.

        @param stop: stops the prompt when it is given, from any thread; see
            L{Prompt.cancel<acp_twisted.client.v2.prompt.Prompt.cancel>}.
        @param timeout: seconds until the prompt is given up, unless it is over; L{None} is the client's
            C{prompt_timeout}.
        @raise ValueError: when there is no content.
        """
        prompt = SyncPrompt(self._readers, self.session_id, stop)
        self._begin(prompt, lambda: prompt.begin(self.session.prompt(content, meta=meta, timeout=timeout)))
        return prompt

    def when_idle(self, timeout: float | None = None) -> v2.IdleStateUpdate:
        """
        Wait for the next report that foreground work has ended, whoever began it.

        @param timeout: seconds.
        @raise TimeoutError: when they are over.
        """

        def waiting() -> Deferred[v2.IdleStateUpdate]:
            idle = self.session.when_idle()
            return idle if timeout is None else idle.addTimeout(timeout, self._thread.reactor, _too_late)

        return self._wait(waiting)

    # ---- cancelling a part

    def can_cancel_tool_call(self, tool_call_id: str) -> bool:
        """
        Whether the agent takes L{cancel_tool_call} for it now.
        """
        can: bool = self._thread.call(lambda: self.session.can_cancel_tool_call(tool_call_id))
        return can

    def cancel_tool_call(self, tool_call_id: str) -> v2.CancelToolCallResponse:
        """
        Send C{tool_call/cancel}; see L{ClientSession.cancel_tool_call}.
        """
        return self._wait(lambda: self.session.cancel_tool_call(tool_call_id))

    def can_cancel_terminal(self, terminal_id: str) -> bool:
        """
        Whether the agent takes L{cancel_terminal} for it now.
        """
        can: bool = self._thread.call(lambda: self.session.can_cancel_terminal(terminal_id))
        return can

    def cancel_terminal(self, terminal_id: str) -> v2.CancelTerminalResponse:
        """
        Send C{terminal/cancel}; see L{ClientSession.cancel_terminal}.
        """
        return self._wait(lambda: self.session.cancel_terminal(terminal_id))

    # ---- the rest of what is asked

    def snapshot(self) -> SessionSnapshot:
        """
        The picture of the session as it is now; see L{ClientSession.track}, which this begins if it is not tracked
        yet.
        """
        picture: SessionSnapshot = self._thread.call(lambda: self.session.track().snapshot())
        return picture

    def set_config_option(self, config_id: str, value: str | bool) -> v2.SetSessionConfigOptionResponse:
        """
        Send C{session/set_config_option}; the answer has all options.

        @param value: the id of one of the values, or a boolean.
        """
        return self._wait(lambda: self.session.set_config_option(config_id, value))

    def close(self) -> v2.CloseSessionResponse:
        """
        Send C{session/close}: all work is stopped, that in the background too.
        """
        return self._wait(self.session.close)


def _too_late(outcome: object, timeout: float) -> NoReturn:
    raise TimeoutError(f"the agent was not idle again within {timeout:g} s")
