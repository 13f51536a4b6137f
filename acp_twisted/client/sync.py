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

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from acp_twisted.client.client import AcpClient, Where
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.reactor_thread import ReactorThread, reactor_thread
from acp_twisted.client.session import ClientSession
from acp_twisted.client.sync_base import CLOSE_SECONDS, SyncConnection, SyncLink, SyncSession
from acp_twisted.client.sync_turn import SyncPromptTurn
from acp_twisted.connection import Connection
from acp_twisted.handlers import Handler, two_arguments
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.client.picture import SessionSnapshot
    from acp_twisted.client.sync_unstable import SyncUnstableCalls
    from acp_twisted.client.v2.client import VersionedClient
    from acp_twisted.client.v2.sync import AnySyncClient
    from acp_twisted.client.v2.sync_negotiation import SyncNegotiation

_T = TypeVar("_T")


def in_thread(handler: Handler) -> Handler:
    """
    A handler that may block, as one for a builder: it is called in the reactor's thread pool, with the request, and
    with the connection if it takes two arguments.
    """
    bound = two_arguments(handler, "in_thread")

    def call(request: object, connection: Connection) -> object:
        reactor: Any = connection.clock
        return deferToThreadPool(reactor, reactor.getThreadPool(), bound, request, connection)

    return call


def _begun(link: SyncLink[Any], initialize: Callable[[], _T]) -> _T:
    """
    Initialize a link; one that can't be is closed, for nobody has a hold of it.
    """
    try:
        return initialize()
    except BaseException:
        link.close()
        raise


class AcpSyncClient(SyncConnection[ClientConnection, "SyncClientSession"]):
    """
    A connection to an agent, in version 1 of the protocol, whose methods block, and raise what they fail with.  It is
    for any thread but the reactor's.  It is closed by the end of its C{with} block, by L{close}, or by the program's
    exit.  L{connect} makes that of version 2 as well.

    @cvar protocol_version: the version that is spoken; type checkers tell the clients of both versions apart by it.
    """

    protocol_version: Final[Literal[1]] = 1

    @overload
    @classmethod
    def connect(
        cls,
        client: AcpClient,
        where: Where,
        *,
        cwd: str | None = None,
        initialize: bool = True,
        thread: ReactorThread | None = None,
    ) -> AcpSyncClient: ...

    @overload
    @classmethod
    def connect(
        cls,
        client: VersionedClient,
        where: Where,
        *,
        cwd: str | None = None,
        initialize: Literal[True] = True,
        thread: ReactorThread | None = None,
    ) -> AnySyncClient: ...

    @overload
    @classmethod
    def connect(
        cls,
        client: VersionedClient,
        where: Where,
        *,
        cwd: str | None = None,
        initialize: Literal[False],
        thread: ReactorThread | None = None,
    ) -> SyncNegotiation: ...

    @classmethod
    def connect(
        cls,
        client: AcpClient | VersionedClient,
        where: Where,
        *,
        cwd: str | None = None,
        initialize: bool = True,
        thread: ReactorThread | None = None,
    ) -> AnySyncClient | SyncNegotiation:
        """
        Connect to an agent, or start one.

        @param client: one of version 1, or one of several versions, made with
            L{protocol_versions<acp_twisted.client.client.AcpClientBuilder.protocol_versions>}.
        @param where: as for L{AcpClient.connect<acp_twisted.client.client.AcpClient.connect>}.
        @param cwd: the directory of the sessions that are opened without one; absolute.  The program's own if it is
            L{None}.
        @param initialize: whether L{initialize} is done as well.
        @param thread: the reactor's thread; the program's only one if it is L{None}.
        @return: for a client of several versions that of the version that was agreed on, this one or
            L{acp_twisted.client.v2.sync.AcpSyncClient}.  Without C{initialize} it is not known yet, and this is a
            L{SyncNegotiation<acp_twisted.client.v2.sync_negotiation.SyncNegotiation>}.
        """
        thread = reactor_thread() if thread is None else thread
        if isinstance(client, AcpClient):
            return cls._connected(client, where, cwd, initialize, thread)
        from acp_twisted.client.v2.sync_negotiation import SyncNegotiation  # noqa: PLC0415 - few scripts need it

        link = SyncNegotiation.connect(client, where, thread, cwd)
        return _begun(link, link.initialize) if initialize else link

    @classmethod
    def _connected(
        cls, client: AcpClient, where: Where, cwd: str | None, initialize: bool, thread: ReactorThread
    ) -> AcpSyncClient:
        made = cls(thread.call(lambda: client.connect(thread.reactor, where)), thread, cwd)
        if initialize:
            _begun(made, made.initialize)
        return made

    # ---- the beginning

    def initialize(self, *, meta: dict[str, Any] | None = None) -> v1.InitializeResponse:
        """
        See L{ClientConnection.initialize<acp_twisted.client.connection.ClientConnection.initialize>}.
        """
        response: v1.InitializeResponse = self._wait(lambda: self.connection.initialize(meta=meta))
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

    @property
    def unstable(self) -> SyncUnstableCalls:
        """
        Unstable.  The calls for what the protocol has not settled yet.

        @raise ValueError: when the client was not built with C{unstable=True}.
        """
        from acp_twisted.client.sync_unstable import SyncUnstableCalls  # noqa: PLC0415 - few scripts need it

        return SyncUnstableCalls(self.connection.unstable, self._readers, SyncClientSession)

    # ---- what the client asks

    def authenticate(self, method_id: str) -> v1.AuthenticateResponse:
        """
        Send C{authenticate}.
        """
        return self._wait(lambda: self.connection.authenticate(method_id))

    def logout(self) -> v1.LogoutResponse:
        """
        Send C{logout}.
        """
        return self._wait(self.connection.logout)

    def new_session(
        self,
        cwd: str | None = None,
        mcp_servers: Sequence[Any] = (),
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

    def load_session(
        self,
        session_id: str,
        cwd: str | None = None,
        mcp_servers: Sequence[Any] = (),
        additional_directories: Sequence[str] = (),
        *,
        timeout: float | None = None,
    ) -> SyncClientSession:
        """
        Send C{session/load}.  What was replayed is in the session's C{take_updates()}.
        """
        where = self._directory(cwd)
        return self._session(
            lambda: self.connection.load_session(
                session_id, where, mcp_servers, additional_directories, timeout=timeout
            ),
            session_id,
        )

    def resume_session(
        self,
        session_id: str,
        cwd: str | None = None,
        mcp_servers: Sequence[Any] = (),
        additional_directories: Sequence[str] = (),
        *,
        timeout: float | None = None,
    ) -> SyncClientSession:
        """
        Send C{session/resume}.
        """
        where = self._directory(cwd)
        return self._session(
            lambda: self.connection.resume_session(
                session_id, where, mcp_servers, additional_directories, timeout=timeout
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

    def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> v1.ListSessionsResponse:
        """
        Send C{session/list}.
        """
        return self._wait(lambda: self.connection.list_sessions(cwd, cursor))

    def delete_session(self, session_id: str) -> v1.DeleteSessionResponse:
        """
        Send C{session/delete}.
        """
        return self._wait(lambda: self.connection.delete_session(session_id), session_id)

    def close_session(self, session_id: str) -> v1.CloseSessionResponse:
        """
        Send C{session/close}.
        """
        return self._wait(lambda: self.connection.close_session(session_id), session_id)

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
        session, content, meta = self._prompted(what, v1.PromptRequest, self.new_session, self.require_session)
        return session.prompt(content, stop, on_update=on_update, meta=meta, timeout=timeout)


class SyncClientSession(SyncSession[v1.ContentBlock, v1.SessionUpdate, v1.PromptResponse]):
    """
    A L{ClientSession<acp_twisted.client.session.ClientSession>} whose methods block.

    @ivar session: the one that does not, for the reactor's thread.
    """

    session: ClientSession

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
        @param timeout: seconds until the turn is given up; L{None} is the client's C{prompt_timeout}.
        @raise SessionBusy: when the session's last turn is not answered yet.
        """
        turn = SyncPromptTurn(self._readers, self.session_id, stop)
        self._begin(turn, lambda: turn.begin(self.session.prompt(content, meta=meta, timeout=timeout)))
        return turn

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
        return self._wait(lambda: self.session.set_mode(mode_id))

    def set_config_option(self, config_id: str, value: str | bool) -> v1.SetSessionConfigOptionResponse:
        """
        Send C{session/set_config_option}; the answer has all options.
        """
        return self._wait(lambda: self.session.set_config_option(config_id, value))

    def close(self) -> v1.CloseSessionResponse:
        """
        Send C{session/close}: a running turn is cancelled first.
        """
        return self._wait(self.session.close)


__all__ = ["CLOSE_SECONDS", "AcpSyncClient", "SyncClientSession", "in_thread"]
