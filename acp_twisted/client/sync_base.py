"""
What the blocking clients of both versions have in common.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from acp_twisted.client.reactor_thread import ReactorStopped, ReactorThread
from acp_twisted.client.sync_turn import Readers, SyncTurn
from acp_twisted.connection import Connection
from acp_twisted.handlers import check_kind
from acp_twisted.jsonrpc.signal import CancellationSignal

if TYPE_CHECKING:
    from typing_extensions import Self

_T = TypeVar("_T")
_Block = TypeVar("_Block")
_Update = TypeVar("_Update")
_Result = TypeVar("_Result")
_log = Logger()

CLOSE_SECONDS: Final = 10.0
"""How long a connection may take to close in good order before it is cut."""


class Link(Protocol):
    """
    What can be closed.
    """

    def close(self) -> Deferred[None]:
        """
        End it in good order.
        """

    def abort(self, reason: str) -> None:
        """
        End it now.
        """


_Link = TypeVar("_Link", bound=Link)
_Connection = TypeVar("_Connection", bound=Connection)
_Session = TypeVar("_Session", bound="SyncSession[Any, Any, Any]")


class SyncLink(Generic[_Link]):
    """
    A link to an agent whose methods block, and raise what they fail with.  It is for any thread but the reactor's.  It
    is closed by the end of its C{with} block, by L{close}, or by the program's exit.

    @ivar connection: the link that does not block, for the reactor's thread.
    """

    def __init__(self, connection: _Link, thread: ReactorThread, cwd: str | None = None) -> None:
        """
        L{AcpSyncClient.connect<acp_twisted.client.sync.AcpSyncClient.connect>} makes one.
        """
        self.connection = connection
        self._thread = thread
        self._cwd = cwd
        thread.before_stop(self.close)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """
        Close the connection in good order; when that takes longer than C{timeout} seconds, cut it.  Again is nothing.
        """
        self._thread.forget(self.close)
        try:
            self._thread.call(lambda: self._closing(timeout))
        except ReactorStopped:
            _log.debug("the reactor has stopped, and all connections with it")

    async def _closing(self, timeout: float) -> None:
        cut = self._thread.reactor.callLater(timeout, self.connection.abort, "it took too long to close")
        try:
            await self.connection.close()
        finally:
            if cut.active():
                cut.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class SyncConnection(SyncLink[_Connection], Generic[_Connection, _Session]):
    """
    A client that speaks a version of the protocol: what is the same in both.

    A L{KeyboardInterrupt} cancels what it interrupts: a prompt by C{session/cancel}, or what its version has for it,
    whose end is then waited for at most C{sync_turn.INTERRUPT_SECONDS}; anything else by C{$/cancel_request}.

    @ivar connection: the connection that does not block, for the reactor's thread.
    """

    def __init__(self, connection: _Connection, thread: ReactorThread, cwd: str | None = None) -> None:
        """
        L{AcpSyncClient.connect<acp_twisted.client.sync.AcpSyncClient.connect>} makes one.
        """
        super().__init__(connection, thread, cwd)
        self._readers = Readers(thread)
        self._opening = threading.Lock()
        self._default: _Session | None = None

    def _wait(self, function: Callable[[], Deferred[_T]], session_id: str | None = None) -> _T:
        """
        See L{Readers.wait}.
        """
        return self._readers.wait(function, session_id)

    def _directory(self, cwd: str | None) -> str:
        return cwd or self._cwd or os.getcwd()

    def _prompted(
        self, what: object, kind: type[Any], new: Callable[[], _Session], known: Callable[[str], _Session]
    ) -> tuple[_Session, Any, dict[str, Any] | None]:
        """
        What a prompt is for: its session, its content, its C{_meta}.

        @param kind: the class of the version's requests.
        @raise TypeError: when it is neither text nor such a request.
        """
        if isinstance(what, str):
            with self._opening:
                if self._default is None:
                    self._default = new()
            return self._default, what, None
        request: Any = check_kind("prompt", what, kind)
        return known(request.session_id), request.prompt, request.meta

    def call(self, request: object, **options: Any) -> Any:
        """
        Send any request of the protocol; see L{Connection.call<acp_twisted.connection.Connection.call>}.
        """
        return self._wait(lambda: self.connection.call(request, **options), getattr(request, "session_id", None))

    def ext_request(self, method: str, params: object = None, **options: Any) -> Any:
        """
        Send an extension's request; see L{Connection.ext_request<acp_twisted.connection.Connection.ext_request>}.
        """
        return self._wait(lambda: self.connection.ext_request(method, params, **options))

    def ext_notification(self, method: str, params: object = None) -> None:
        """
        Send an extension's notification.
        """
        self._wait(lambda: self.connection.ext_notification(method, params))


class SyncSession(Generic[_Block, _Update, _Result]):
    """
    A session whose methods block: what is the same in both versions.

    A thread that waits for something can't read.  So meanwhile the agent does not wait for it to read its prompts'
    updates either, nor those of the session's prompts that nobody has begun to read.  When more than
    C{Limits.max_turn_updates} pass so, reading them raises L{LimitExceeded<acp_twisted.errors.LimitExceeded>}.

    @ivar session: the one that does not block, for the reactor's thread.
    """

    session: Any

    def __init__(self, session: Any, readers: Readers) -> None:
        """
        The client makes one.
        """
        self.session = session
        self._readers = readers
        self._thread = readers.thread

    def _wait(self, function: Callable[[], Deferred[_T]]) -> _T:
        """
        See L{Readers.wait}.
        """
        return self._readers.wait(function, self.session_id)

    @property
    def session_id(self) -> str:
        """
        The agent's name for it.
        """
        session_id: str = self.session.session_id
        return session_id

    def start(
        self,
        content: str | Sequence[_Block],
        stop: CancellationSignal | None = None,
        *,
        meta: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> SyncTurn[_Update, _Result]:
        """
        Send a prompt, and do not wait.

        @param stop: stops it when it is given, from any thread.
        @param timeout: seconds until it is given up; L{None} is the client's C{prompt_timeout}.
        """
        raise NotImplementedError

    def _begin(self, turn: SyncTurn[Any, Any], begin: Callable[[], None]) -> None:
        """
        Send a prompt, in the reactor's thread.
        """
        try:
            self._thread.call(begin)
        except (KeyboardInterrupt, SystemExit):
            turn.never_started()  # nobody else can: it was sent, perhaps, and the caller has no hold of it
            raise

    def prompt(
        self,
        content: str | Sequence[_Block],
        stop: CancellationSignal | None = None,
        *,
        on_update: Callable[[_Update], object] | None = None,
        meta: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> _Result:
        """
        Send a prompt, and wait for its end.

        @param stop: stops it when it is given, from any thread; the end still comes.
        @param on_update: called with each update, here in the calling thread.
        @param timeout: seconds until it is given up; L{None} is the client's C{prompt_timeout}.
        @return: what has the stop reason.
        """
        with self.start(content, stop, meta=meta, timeout=timeout) as turn:
            if on_update is not None:
                for update in turn:
                    on_update(update)
            return turn.result()

    def cancel(self) -> None:
        """
        Cancel what the agent is at in this session, if it is at anything.  It does not wait for the end.
        """
        self._thread.call(self.session.cancel)

    def take_updates(self) -> list[_Update]:
        """
        The updates that came while no prompt was out, since the last call.
        """
        taken: list[_Update] = self._thread.call(self.session.take_updates)
        return taken
