"""
A prompt turn for threads that are not the reactor's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.client.reactor_thread import ReactorThread
from acp_twisted.errors import AcpError
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.client.session import PromptTurn

_log = Logger()

INTERRUPT_SECONDS: Final = 10.0
"""How long an interrupted turn is waited for before it is given up."""

_END: Final = object()


class SyncPromptTurn:
    """
    A prompt that was sent.  Iterating over it gives its updates as they come, for one reader, until it is answered; the
    agent is slowed down to the reader's pace, and waits for him to begin.  L{result} ends the reading: what was not
    read by then is dropped.  An error, or an interrupt, that leaves its C{with} block cancels it.
    """

    def __init__(self, thread: ReactorThread, stop: CancellationSignal | None) -> None:
        self._thread = thread
        self._stop = stop
        self._answer: Future[v1.PromptResponse] = Future()
        self._turn: PromptTurn | None = None
        self._updates: AsyncIterator[v1.SessionUpdate] | None = None
        self._steps: list[Deferred[Any]] = []  # the one that nobody has asked for yet
        self._waited_for: Deferred[Any] | None = None

    def begin(self, turn: PromptTurn) -> None:
        """
        In the reactor's thread: it was sent.
        """
        self._turn = turn
        turn.response.addCallbacks(self._answered, self._failed)
        # Reading begins at once: when the program gets to it, more may have come than an unread turn keeps.
        self._updates = turn.updates()
        self._steps = [self._advance()]
        if self._stop is not None:
            detach = self._stop.attach(self.cancel)
            self._answer.add_done_callback(lambda _: detach())
            if self._stop.cancelled:  # while it was attached, from another thread
                self.cancel()

    def _answered(self, response: v1.PromptResponse) -> None:
        if not self._answer.done():
            self._answer.set_result(response)

    def _failed(self, failure: Failure) -> None:
        if not self._answer.done():
            self._answer.set_exception(failure.value)

    @property
    def answered(self) -> bool:
        """
        Whether the answer is there, or never will be.
        """
        return self._answer.done()

    def cancel(self) -> None:
        """
        Send C{session/cancel}, from any thread; the answer still comes.  It does not wait.
        """
        turn = self._turn
        if turn is not None and not self._answer.done():
            self._thread.post(turn.cancel)

    def result(self, timeout: float | None = None) -> v1.PromptResponse:
        """
        Wait for the answer.

        @param timeout: seconds; the turn goes on when they are over.
        @raise TimeoutError: when they are over.
        """
        if not self._answer.done():
            self._thread.expect(self._answer)
            self._thread.post(self._stop_reading)
        try:
            return self._answer.result(timeout)
        except FutureTimeout:
            raise TimeoutError("the turn is not answered yet") from None
        except (KeyboardInterrupt, SystemExit):
            self._interrupted()
            raise

    def _interrupted(self) -> None:
        """
        Cancel the turn, and see it end, or give it up.
        """
        self.cancel()
        self._thread.post(self._stop_reading)
        try:
            self._answer.result(INTERRUPT_SECONDS)
        except FutureTimeout:
            self._give_up()
        except AcpError as error:
            _log.debug("the interrupted turn failed: {kind}", kind=type(error).__name__)
        except BaseException:
            self._give_up()  # interrupted again
            raise

    def _give_up(self) -> None:
        turn = self._turn
        if turn is not None:
            self._thread.post(turn.response.cancel)

    # ---- its updates: what begins with an underscore is for the reactor's thread

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

    def __iter__(self) -> Iterator[v1.SessionUpdate]:
        try:
            while True:
                try:
                    update = self._thread.call(self._following)
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

    def __enter__(self) -> SyncPromptTurn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and not self._answer.done():
            self._interrupted()


async def _close(updates: Any) -> None:
    await updates.aclose()


def _dropped(failure: Failure) -> None:
    _log.debug("nobody reads the turn's updates any more: {kind}", kind=failure.type)
