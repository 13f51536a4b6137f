"""
The reactor for programs that have none of their own: in a thread, for as long as the program runs.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar, cast

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import LocalError
from acp_twisted.handlers import outcome

_T = TypeVar("_T")
_log = Logger()

REAP_SECONDS: Final = 0.1
"""How often ended processes are looked for: only the main thread is told by a signal."""


class ReactorStopped(LocalError):
    """
    The reactor does not run any more, and a reactor can't be started twice.
    """


class ReactorThread:
    """
    Calls from other threads into the reactor's.

    A reactor that runs already, because the program is a Twisted one or another library runs it in a thread (crochet
    does), is used as it is.
    """

    def __init__(self, reactor: Any) -> None:
        """
        @param reactor: one that can run in a thread: any that Twisted installs by itself can.
        """
        self.reactor = reactor
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._watched = False
        self._stopped = False
        self._stopping = False
        self._exits: set[Callable[[], object]] = set()
        self._waiting: set[Future[Any]] = set()
        self._reaping: LoopingCall | None = None

    def start(self) -> None:
        """
        See to it that the reactor runs.

        @raise ReactorStopped: when it did once.
        """
        with self._lock:
            if self._stopped:
                raise ReactorStopped("the reactor was stopped, and can't be started again")
            if not self._watched:
                self._watched = True
                self.reactor.addSystemEventTrigger("after", "shutdown", self._over)
            if self.reactor.running or self._thread is not None:
                return
            running = threading.Event()
            self.reactor.callWhenRunning(self._begin, running)
            self._thread = threading.Thread(target=self._run, name="acp_twisted reactor", daemon=True)
            self._thread.start()
            # Before the exit hooks are called, Python waits for the reactor's thread pool, which ends with the reactor.
            threading.Thread(target=self._watch, name="acp_twisted exit", daemon=True).start()
            atexit.register(self.stop)
        running.wait()

    def _watch(self) -> None:
        threading.main_thread().join()
        self.stop()

    def _run(self) -> None:
        self.reactor.run(installSignalHandlers=False)

    def _begin(self, running: threading.Event) -> None:
        try:
            from twisted.internet.process import reapAllProcesses  # noqa: PLC0415 - POSIX only
        except ImportError:
            _log.debug("nothing needs to be reaped here")
        else:
            self._reaping = LoopingCall(reapAllProcesses)
            self._reaping.clock = self.reactor
            self._reaping.start(REAP_SECONDS, now=False)
        running.set()

    def _over(self) -> None:
        """
        The reactor has stopped: what still waits would wait for ever.
        """
        with self._lock:
            self._stopped = True
            waiting = list(self._waiting)
        for future in waiting:
            if not future.done():
                future.set_exception(ReactorStopped("the reactor was stopped"))

    def stop(self) -> None:
        """
        Stop the reactor, if it was started here, after what was to be done before.  The program's exit does so.
        """
        with self._lock:
            thread, first, self._stopping = self._thread, not self._stopping, True
        if thread is None:
            return
        if first:
            for leave in list(self._exits):
                with _log.failuresHandled("what was to be done before the exit failed"):
                    leave()
            self.reactor.callFromThread(self._stop)
        thread.join()

    def before_stop(self, leave: Callable[[], object]) -> None:
        """
        Call C{leave}, which may use this, before the reactor is stopped here.
        """
        self._exits.add(leave)

    def forget(self, leave: Callable[[], object]) -> None:
        """
        Take that back.
        """
        self._exits.discard(leave)

    def _stop(self) -> None:
        if self._reaping is not None and self._reaping.running:
            self._reaping.stop()
        self.reactor.stop()

    def post(self, function: Callable[[], object]) -> None:
        """
        Call C{function} in the reactor's thread, some time soon.
        """
        self.reactor.callFromThread(function)

    def call(self, function: Callable[[], Any]) -> Any:
        """
        Call C{function} in the reactor's thread, and wait for what its Deferred or coroutine comes to.

        A L{KeyboardInterrupt}, or whatever else a signal raises in the waiting thread, cancels it and goes on from
        here.

        @raise ReactorStopped: when the reactor is stopped before that.
        @raise RuntimeError: in the reactor's thread, which would wait for itself.
        """
        future: Future[Any] = Future()
        begun: list[Deferred[Any]] = []

        def begin() -> None:
            work: Deferred[Any] = maybeDeferred(lambda: outcome(function()))
            begun.append(work)
            work.addCallbacks(self._done, self._failed, callbackArgs=(future,), errbackArgs=(future,))

        def undo() -> None:
            for work in begun:
                work.cancel()

        try:
            self.expect(future)
            self.post(begin)
            return future.result()
        except BaseException:
            if not future.done():
                self.post(undo)
            raise

    def expect(self, future: Future[_T]) -> Future[_T]:
        """
        See to it that C{future} does not outlive the reactor.

        @raise ReactorStopped: when that does not run any more.
        @raise RuntimeError: in the reactor's thread, which can wait for nothing.
        """
        from twisted.python.threadable import isInIOThread  # noqa: PLC0415 - untyped

        if self.reactor.running and cast("Callable[[], bool]", isInIOThread)():
            raise RuntimeError("this blocks, and the reactor's thread must not")
        with self._lock:
            if self._stopped:
                raise ReactorStopped("the reactor was stopped")
            self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    @staticmethod
    def _done(result: Any, future: Future[Any]) -> None:
        if not future.done():
            future.set_result(result)

    @staticmethod
    def _failed(failure: Failure, future: Future[Any]) -> None:
        if not future.done():
            future.set_exception(failure.value)


_shared: ReactorThread | None = None
_shared_lock = threading.Lock()


def reactor_thread() -> ReactorThread:
    """
    The program's only one, with the reactor that is installed.  It runs.
    """
    global _shared  # noqa: PLW0603 - there is one reactor
    from twisted.internet import reactor  # noqa: PLC0415 - a program chooses its reactor when it runs

    with _shared_lock:
        if _shared is None:
            _shared = ReactorThread(reactor)
        thread = _shared
    thread.start()
    return thread
