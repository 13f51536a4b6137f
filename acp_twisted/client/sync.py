"""
A client that blocks, for scripts and notebooks.

::

    with AcpSyncClient.connect(AcpClient.builder().build(), AgentCommand(["my-agent"])) as client:
        session = client.new_session("/project")
        with session.start("Hello") as turn:
            for update in turn:
                print(update)
        print(turn.result().stop_reason)

The reactor runs in a thread of its own (L{reactor_thread<acp_twisted.client.reactor_thread.reactor_thread>}), and the
client's handlers in that: a handler that blocks is wrapped in L{in_thread}.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from acp_twisted.client.reactor_thread import ReactorStopped, ReactorThread, reactor_thread
from acp_twisted.client.sync_turn import SyncPromptTurn
from acp_twisted.handlers import Handler, check_kind, two_arguments
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.client.client import AcpClient, Where
    from acp_twisted.client.connection import ClientConnection
    from acp_twisted.client.picture import SessionSnapshot
    from acp_twisted.client.session import ClientSession

_log = Logger()

CLOSE_SECONDS: Final = 10.0
"""How long a connection may take to close in good order before it is cut."""


def in_thread(handler: Handler) -> Handler:
    """
    A handler that may block, as one for a builder: it is called in the reactor's thread pool, with the request, and
    with the connection if it takes two arguments.
    """
    bound = two_arguments(handler, "in_thread")

    def call(request: object, connection: ClientConnection) -> object:
        reactor: Any = connection.clock
        return deferToThreadPool(reactor, reactor.getThreadPool(), bound, request, connection)

    return call


class AcpSyncClient:
    """
    A connection to an agent whose methods block, and raise what they fail with.  It is for any thread but the
    reactor's.  It is closed by the end of its C{with} block, by L{close}, or by the program's exit.

    A L{KeyboardInterrupt} cancels what it interrupts: a turn by C{session/cancel}, whose answer is then waited for at
    most C{sync_turn.INTERRUPT_SECONDS}, anything else by C{$/cancel_request}.

    @ivar connection: the connection that does not block, for the reactor's thread.
    """

    def __init__(self, connection: ClientConnection, thread: ReactorThread, cwd: str | None = None) -> None:
        """
        L{connect} makes one.
        """
        self.connection = connection
        self._thread = thread
        self._cwd = cwd
        self._default: SyncClientSession | None = None
        thread.before_stop(self.close)

    @classmethod
    def connect(
        cls,
        client: AcpClient,
        where: Where,
        *,
        cwd: str | None = None,
        initialize: bool = True,
        thread: ReactorThread | None = None,
    ) -> AcpSyncClient:
        """
        Connect to an agent, or start one.

        @param where: as for L{AcpClient.connect<acp_twisted.client.client.AcpClient.connect>}.
        @param cwd: the directory of the session that L{prompt} opens; absolute.  The program's own if it is L{None}.
        @param initialize: whether L{initialize} is done as well.
        @param thread: the reactor's thread; the program's only one if it is L{None}.
        """
        thread = reactor_thread() if thread is None else thread
        used = thread
        connection = thread.call(lambda: client.connect(used.reactor, where))
        made = cls(connection, thread, cwd)
        if initialize:
            try:
                made.initialize()
            except BaseException:
                made.close()
                raise
        return made

    def _call(self, function: Callable[[], Any]) -> Any:
        return self._thread.call(function)

    # ---- the beginning and the end

    def initialize(self, *, meta: dict[str, Any] | None = None) -> v1.InitializeResponse:
        """
        See L{ClientConnection.initialize<acp_twisted.client.connection.ClientConnection.initialize>}.
        """
        response: v1.InitializeResponse = self._call(lambda: self.connection.initialize(meta=meta))
        return response

    @property
    def agent_capabilities(self) -> v1.AgentCapabilities:
        """
        What the agent can do.
        """
        return self.connection.agent_capabilities

    @property
    def agent_info(self) -> v1.Implementation | None:
        """
        What it says of itself.
        """
        return self.connection.agent_info

    @property
    def auth_methods(self) -> Sequence[Any]:
        """
        The ways to authenticate that it offers.
        """
        return self.connection.auth_methods

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """
        Close the connection in good order; when that takes longer than C{timeout} seconds, cut it.  Again is nothing.
        """
        self._thread.forget(self.close)
        try:
            self._call(lambda: self._closing(timeout))
        except ReactorStopped:
            _log.debug("the reactor has stopped, and all connections with it")

    async def _closing(self, timeout: float) -> None:
        cut = self._thread.reactor.callLater(timeout, self.connection.abort, "it took too long to close")
        try:
            await self.connection.close()
        finally:
            if cut.active():
                cut.cancel()

    def __enter__(self) -> AcpSyncClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ---- what the client asks

    def authenticate(self, method_id: str) -> v1.AuthenticateResponse:
        """
        Send C{authenticate}.
        """
        response: v1.AuthenticateResponse = self._call(lambda: self.connection.authenticate(method_id))
        return response

    def logout(self) -> v1.LogoutResponse:
        """
        Send C{logout}.
        """
        response: v1.LogoutResponse = self._call(self.connection.logout)
        return response

    def new_session(self, cwd: str | None = None, mcp_servers: Sequence[Any] = (), **options: Any) -> SyncClientSession:
        """
        Send C{session/new}; the options are
        L{ClientConnection.new_session<acp_twisted.client.connection.ClientConnection.new_session>}'s.

        @param cwd: absolute; the client's own if it is L{None}.
        """
        where = cwd or self._cwd or os.getcwd()
        return self._session(lambda: self.connection.new_session(where, mcp_servers, **options))

    def load_session(self, session_id: str, cwd: str | None = None, **options: Any) -> SyncClientSession:
        """
        Send C{session/load}.  What was replayed is in the session's C{take_updates()}.
        """
        where = cwd or self._cwd or os.getcwd()
        return self._session(lambda: self.connection.load_session(session_id, where, **options))

    def resume_session(self, session_id: str, cwd: str | None = None, **options: Any) -> SyncClientSession:
        """
        Send C{session/resume}.
        """
        where = cwd or self._cwd or os.getcwd()
        return self._session(lambda: self.connection.resume_session(session_id, where, **options))

    def _session(self, function: Callable[[], Any]) -> SyncClientSession:
        return SyncClientSession(self._call(function), self._thread)

    def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> v1.ListSessionsResponse:
        """
        Send C{session/list}.
        """
        response: v1.ListSessionsResponse = self._call(lambda: self.connection.list_sessions(cwd, cursor))
        return response

    def delete_session(self, session_id: str) -> v1.DeleteSessionResponse:
        """
        Send C{session/delete}.
        """
        response: v1.DeleteSessionResponse = self._call(lambda: self.connection.delete_session(session_id))
        return response

    def prompt(
        self,
        what: str | v1.PromptRequest,
        stop: CancellationSignal | None = None,
        *,
        on_update: Callable[[v1.SessionUpdate], object] | None = None,
        timeout: float | None = None,
    ) -> v1.PromptResponse:
        """
        Send a prompt, and wait for its answer.

        @param what: a request that names its session; or text, for a session that is opened for the first of them.
        @param stop: stops the turn when it is given, from any thread; the answer still comes.
        @param on_update: called with each update, here in the calling thread.
        @param timeout: seconds until the turn is given up; L{None} is the client's C{prompt_timeout}.
        @raise TypeError: when C{what} is neither; a list of content is for L{SyncClientSession.prompt}.
        """
        if isinstance(what, str):
            if self._default is None:
                self._default = self.new_session()
            return self._default.prompt(what, stop, on_update=on_update, timeout=timeout)
        request = check_kind("prompt", what, v1.PromptRequest)
        session = self._session(lambda: self.connection.require_session(request.session_id))
        return session.prompt(request.prompt, stop, on_update=on_update, meta=request.meta, timeout=timeout)

    def call(self, request: object, **options: Any) -> Any:
        """
        Send any request of the protocol; see L{Connection.call<acp_twisted.connection.Connection.call>}.
        """
        return self._call(lambda: self.connection.call(request, **options))

    def ext_request(self, method: str, params: object = None, **options: Any) -> Any:
        """
        Send an extension's request.
        """
        return self._call(lambda: self.connection.ext_request(method, params, **options))

    def ext_notification(self, method: str, params: object = None) -> None:
        """
        Send an extension's notification.
        """
        self._call(lambda: self.connection.ext_notification(method, params))


class SyncClientSession:
    """
    A L{ClientSession<acp_twisted.client.session.ClientSession>} whose methods block.

    @ivar session: the one that does not, for the reactor's thread.
    """

    def __init__(self, session: ClientSession, thread: ReactorThread) -> None:
        self.session = session
        self._thread = thread

    @property
    def session_id(self) -> str:
        """
        The agent's name for it.
        """
        return self.session.session_id

    def start(
        self,
        content: str | Sequence[v1.ContentBlock],
        stop: CancellationSignal | None = None,
        *,
        meta: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> SyncPromptTurn:
        """
        Send a prompt, and do not wait.

        @param stop: stops the turn when it is given, from any thread.
        """
        turn = SyncPromptTurn(self._thread, stop)
        self._thread.call(lambda: turn.begin(self.session.prompt(content, meta=meta, timeout=timeout)))
        return turn

    def prompt(
        self,
        content: str | Sequence[v1.ContentBlock],
        stop: CancellationSignal | None = None,
        *,
        on_update: Callable[[v1.SessionUpdate], object] | None = None,
        meta: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> v1.PromptResponse:
        """
        Send a prompt, and wait for its answer; see L{AcpSyncClient.prompt}.
        """
        with self.start(content, stop, meta=meta, timeout=timeout) as turn:
            if on_update is not None:
                for update in turn:
                    on_update(update)
            return turn.result()

    def cancel(self) -> None:
        """
        Cancel the turn that is not answered yet, if there is one.
        """
        self._thread.call(self.session.cancel)

    def take_updates(self) -> list[v1.SessionUpdate]:
        """
        The updates that came outside of turns since the last call.
        """
        taken: list[v1.SessionUpdate] = self._thread.call(self.session.take_updates)
        return taken

    def snapshot(self) -> SessionSnapshot:
        """
        The picture of the session as it is now; see L{ClientSession.track
        <acp_twisted.client.session.ClientSession.track>}, which this begins if it is not tracked yet.
        """
        picture: SessionSnapshot = self._thread.call(lambda: self.session.track().snapshot())
        return picture

    def set_mode(self, mode_id: str) -> v1.SetSessionModeResponse:
        """
        Send C{session/set_mode}.
        """
        response: v1.SetSessionModeResponse = self._thread.call(lambda: self.session.set_mode(mode_id))
        return response

    def set_config_option(self, config_id: str, value: str | bool) -> v1.SetSessionConfigOptionResponse:
        """
        Send C{session/set_config_option}; the answer has all options.
        """
        response: v1.SetSessionConfigOptionResponse = self._thread.call(
            lambda: self.session.set_config_option(config_id, value)
        )
        return response

    def close(self) -> v1.CloseSessionResponse:
        """
        Send C{session/close}.
        """
        response: v1.CloseSessionResponse = self._thread.call(self.session.close)
        return response
