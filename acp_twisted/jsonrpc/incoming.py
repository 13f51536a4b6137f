"""
One request of the peer, from its arrival to its one answer (design rule 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError, RequestCancelled, answer_for
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.jsonrpc.messages import Id

if TYPE_CHECKING:
    from acp_twisted.jsonrpc.peer import Peer

_log = Logger()


class IncomingRequest:
    """
    A request that the peer sent and that is, or was, to be answered.

    @ivar id: as it stood on the wire.
    @ivar method: its method.
    @ivar params: the decoded JSON, or L{None}.
    @ivar token: its cancellation.
    @ivar answered: whether its answer has been handed to the transport, or can't be any more.
    @ivar ended: who is to be told of its end, with the error if there was one.
    @ivar stop: what to do when something cancels the request from outside its handler; it is given the trigger.
        Whoever answers a request in his own way (a prompt turn) puts his own function here.
    """

    __slots__ = ("_peer", "_work", "answered", "ended", "id", "method", "params", "stop", "token")

    def __init__(self, peer: Peer, request_id: Id, method: str, params: object) -> None:
        self._peer = peer
        self._work: Deferred[object] | None = None
        self.id = request_id
        self.method = method
        self.params = params
        self.token = CancellationToken()
        self.answered = False
        self.ended: Callable[[BaseException | None], object] | None = None
        self.stop: Callable[[str], object] = self._stop

    def respond(self, result: object) -> bool:
        """
        Answer with C{result}, any JSON value.  Whoever answers first wins: L{False} says that it was somebody else.

        A result that no JSON can carry is answered with -32603 (B59).
        """
        if self.answered:
            return False
        self._peer.answer(self, result, None)
        return True

    def fail(self, error: AcpError) -> bool:
        """
        Answer with an error, if nobody has answered.
        """
        if self.answered:
            return False
        self._peer.answer(self, None, error)
        return True

    def await_work(self, work: Deferred[object]) -> None:
        """
        Answer with what C{work} comes to; cancel it when the request is cancelled.
        """
        self._work = work
        work.addCallbacks(self.respond, self.fail_with)
        if self.token.cancelled:  # from within its own handler, which had not returned yet
            with _log.failuresHandled("cancelling {method} failed", method=self.method):
                self._cancel_work()

    def fail_with(self, failure: Failure) -> None:
        """
        Answer with what the peer may know of C{failure}; the log keeps the rest, where it is nobody's own answer.
        """
        assert failure.value is not None
        error = answer_for(failure.value)
        if error is not failure.value and not isinstance(error, RequestCancelled) and not self.token.cancelled:
            _log.failure("the handler of {method} failed", failure, method=self.method)
        self.fail(error)

    def _stop(self, trigger: str) -> None:
        """
        Cancel the handler.  What it answers from within that, a partial result say, counts (X5); else it is -32800.
        """
        self.token.cancel(trigger)
        self._cancel_work()
        self.fail(RequestCancelled())

    def _cancel_work(self) -> None:
        """
        Cancel it once: whoever is told of a cancellation may bring the next one, and a handler that cleans up after the
        first is not cut short.
        """
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
