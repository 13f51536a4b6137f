"""
Prompts for threads that are not the reactor's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from threading import Thread, current_thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.client.reactor_thread import ReactorThread
from acp_twisted.errors import AcpError, RequestCancelled
from acp_twisted.handlers import outcome
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from typing_extensions import Self

    from acp_twisted.client.session import PromptTurn

_T = TypeVar("_T")
_Update = TypeVar("_Update")
_Update_co = TypeVar("_Update_co", covariant=True)
_Result = TypeVar("_Result")
_log = Logger()

INTERRUPT_SECONDS: Final = 10.0
"""How long an interrupted turn is waited for before it is given up."""

_END: Final = object()


class Turn(Protocol[_Update_co]):
    """
    What a prompt that was sent is to the reactor's thread: a L{PromptTurn<acp_twisted.client.session.PromptTurn>} of
    version 1, a L{Prompt<acp_twisted.client.v2.prompt.Prompt>} of version 2.
    """

    def cancel(self) -> None:
        """
        Stop it, once.
        """

    def updates(self) -> AsyncIterator[_Update_co]:
        """
        Its updates, for one reader.
        """

    def hurry(self) -> Callable[[], None]:
        """
        Let the agent go on though the updates are not read.
        """


class Readers:
    """
    The turns of a client that have a reader, or will have one.

    Unread updates hold up what comes behind them, and a thread that waits for something can't read meanwhile.  So what
    it waits for does not wait for the turns that it reads itself, nor for those of the same session that nobody has
    begun to read, as of several prompts that were sent at once, nor for those of threads that are over.  The turns that
    other threads read slow it down.

    All but L{wait} is for the reactor's thread.
    """

    def __init__(self, thread: ReactorThread) -> None:
        self.thread = thread
        self._turns: dict[SyncTurn[Any, Any], None] = {}

    def add(self, turn: SyncTurn[Any, Any]) -> None:
        """
        It was sent.
        """
        self._turns[turn] = None

    def forget(self, turn: SyncTurn[Any, Any]) -> None:
        """
        Nothing more comes, or nobody reads it any more.
        """
        self._turns.pop(turn, None)

    def wait(
        self,
        function: Callable[[], Deferred[_T]],
        session_id: str | None = None,
        reading: SyncTurn[Any, Any] | None = None,
    ) -> _T:
        """
        Call C{function} in the reactor's thread, and wait for what its Deferred or coroutine comes to.

        @param session_id: the session that it is about, if it is about one.
        @param reading: the turn whose next update it is.
        """
        reader = current_thread()

        def go() -> Deferred[_T]:
            undo = self.let_go(reader, session_id, reading)
            work: Deferred[_T] = maybeDeferred(lambda: outcome(function()))
            return work.addBoth(_after, undo)

        return cast("_T", self.thread.call(go))

    def let_go(
        self, reader: Thread, session_id: str | None, reading: SyncTurn[Any, Any] | None = None
    ) -> Callable[[], None]:
        """
        A thread begins to wait.

        @return: to be called when that is over, which may be said twice.
        """
        waiting = [each for each in self._turns if each is not reading and each.waits_for(reader, session_id)]
        undo = [each.hurry() for each in waiting]  # after which some of them may be over

        def over() -> None:
            while undo:
                undo.pop()()

        return over


def _after(result: Any, undo: Callable[[], None]) -> Any:
    undo()
    return result


class SyncTurn(Generic[_Update, _Result]):
    """
    A prompt that was sent.  Iterating over it gives its updates as they come, for one reader, until it is over; the
    agent is slowed down to the reader's pace, and waits for him to begin.  L{result} ends the reading: what was not
    read by then is dropped.  An error, or an interrupt, that leaves its C{with} block cancels it.

    @ivar session_id: its session.
    """

    def __init__(self, readers: Readers, session_id: str, stop: CancellationSignal | None) -> None:
        self.session_id = session_id
        self._readers = readers
        self._thread = readers.thread
        self._stop = stop
        self._answer: Future[_Result] = Future()
        self._turn: Turn[_Update] | None = None
        self._outcome: Deferred[_Result] | None = None
        self._updates: AsyncIterator[_Update] | None = None
        self._steps: list[Deferred[Any]] = []  # the one that nobody has asked for yet
        self._waited_for: Deferred[Any] | None = None
        self._starter = current_thread()
        self._reader: Thread | None = None

    def _begin(self, turn: Turn[_Update], outcome: Deferred[_Result]) -> None:
        """
        In the reactor's thread: it was sent.

        @param outcome: how it ends.
        """
        self._turn = turn
        self._outcome = outcome
        self._readers.add(self)
        settle(self._answer, outcome)
        self._answer.add_done_callback(lambda _: self._readers.forget(self))
        # Reading begins at once: when the program gets to it, more may have come than an unread turn keeps.
        self._updates = turn.updates()
        self._steps = [self._advance()]
        if self._stop is not None:
            detach = self._stop.attach(self.cancel)
            self._answer.add_done_callback(lambda _: detach())
            if self._stop.cancelled:  # while it was attached, from another thread
                self.cancel()

    @property
    def answered(self) -> bool:
        """
        Whether the result is there, or never will be.
        """
        return self._answer.done()

    def cancel(self) -> None:
        """
        Stop it, from any thread, by C{session/cancel} or what its version has for it; the result still comes.  It does
        not wait.
        """
        if not self._answer.done():
            self._thread.post(self._cancel)

    def _cancel(self) -> None:
        if self._turn is not None:
            self._turn.cancel()

    def result(self, timeout: float | None = None) -> _Result:
        """
        Wait for its end.

        @param timeout: seconds; it goes on when they are over.
        @return: what has the stop reason.
        @raise TimeoutError: when they are over.
        """
        if not self._answer.done():
            self._thread.post(self._stop_reading)
        return self._waited(self._answer, timeout, "the turn is not answered yet")

    def _waited(self, future: Future[_T], timeout: float | None, late: str) -> _T:
        """
        Wait for the answer or the like.

        @param late: what it means when C{timeout} seconds are over.
        """
        try:
            return self._await(future, timeout)
        except FutureTimeout:
            raise TimeoutError(late) from None
        except (KeyboardInterrupt, SystemExit):
            self._interrupted()
            raise

    def _await(self, future: Future[_T], timeout: float | None) -> _T:
        """
        Wait, while nothing waits for this thread to read.
        """
        if future.done():
            return future.result()
        reader, begun = current_thread(), list[Callable[[], None]]()

        def begin() -> None:
            undo = self._readers.let_go(reader, self.session_id)
            begun.append(undo)
            future.add_done_callback(lambda _: undo())

        def end() -> None:
            for undo in begun:
                undo()

        self._thread.expect(future)
        self._thread.post(begin)
        try:
            return future.result(timeout)
        finally:
            if not future.done():
                self._thread.post(end)

    def never_started(self) -> None:
        """
        Its sending was interrupted, before or after it was done: see to it that nothing is left of it.
        """
        self._thread.post(self._end_unsent)
        self._interrupted()

    def _end_unsent(self) -> None:
        if self._turn is None and not self._answer.done():
            self._answer.set_exception(RequestCancelled())

    def _interrupted(self) -> None:
        """
        Cancel the turn, and see it end, or give it up.
        """
        self.cancel()
        self._thread.post(self._stop_reading)
        try:
            self._await(self._answer, INTERRUPT_SECONDS)
        except FutureTimeout:
            self._give_up()
        except AcpError as error:
            _log.debug("the interrupted turn failed: {kind}", kind=type(error).__name__)
        except BaseException:
            self._give_up()  # interrupted again
            raise

    def _give_up(self) -> None:
        outcome = self._outcome
        if outcome is not None:
            self._thread.post(outcome.cancel)

    # ---- its updates: what begins with an underscore is for the reactor's thread

    def waits_for(self, reader: Thread, session_id: str | None) -> bool:
        """
        Whether a thread that waits, for something of C{session_id}, is who has to read this: it is its reader, or there
        is none yet.  Nobody waits for a thread that is over.
        """
        owner = self._starter if self._reader is None else self._reader
        if owner is reader or not owner.is_alive():
            return True
        return self._reader is None and self.session_id == session_id

    def hurry(self) -> Callable[[], None]:
        """
        Hold up nothing until what this returns is called.
        """
        assert self._turn is not None
        return self._turn.hurry()

    def _advance(self) -> Deferred[Any]:
        updates = self._updates

        async def following() -> Any:
            return _END if updates is None else await anext(updates, _END)

        return Deferred.fromCoroutine(following())

    def _following(self) -> Deferred[Any]:
        step = self._steps.pop() if self._steps else self._advance()
        self._waited_for = step
        return step

    def _stop_reading(self) -> None:
        self._readers.forget(self)
        steps, self._steps = self._steps, []
        for step in steps:
            step.addErrback(_dropped)
        if self._waited_for is not None:
            steps.append(self._waited_for)
        for step in steps:
            if not step.called:
                step.cancel()
        updates, self._updates = self._updates, None
        if updates is not None:
            Deferred.fromCoroutine(_close(updates)).addErrback(_dropped)

    def __iter__(self) -> Iterator[_Update]:
        try:
            while True:
                self._reader = current_thread()
                try:
                    update = self._readers.wait(self._following, self.session_id, self)
                except CancelledError:
                    return  # another thread has asked for the result
                if update is _END:
                    return
                yield update
        except KeyboardInterrupt:
            self._interrupted()
            raise
        finally:
            self._thread.post(self._stop_reading)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and not self._answer.done():
            self._interrupted()


class SyncPromptTurn(SyncTurn[v1.SessionUpdate, v1.PromptResponse]):
    """
    A prompt of version 1 that was sent; its L{result} is the agent's answer.
    """

    def begin(self, turn: PromptTurn) -> None:
        """
        In the reactor's thread: it was sent.
        """
        self._begin(turn, turn.response)


async def _close(updates: Any) -> None:
    await updates.aclose()


def _dropped(failure: Failure) -> None:
    _log.debug("nobody reads the turn's updates any more: {kind}", kind=failure.type)


def settle(future: Future[_T], outcome: Deferred[_T]) -> None:
    """
    Have a future come to what a Deferred comes to.
    """

    def succeeded(result: _T) -> None:
        if not future.done():
            future.set_result(result)

    def failed(failure: Failure) -> None:
        if not future.done():
            future.set_exception(failure.value)

    outcome.addCallbacks(succeeded, failed)
