"""
Requests of our own: what the caller holds, and what can be done with it (design rule 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import ref

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError, RequestCancelled, RequestTimedOut

if TYPE_CHECKING:
    from acp_twisted.jsonrpc.lanes import Asked
    from acp_twisted.jsonrpc.outgoing import Outgoing

_T = TypeVar("_T")


# Twisted 25.5 renamed it.
_CALLBACKS = "_callbacks" if hasattr(Deferred(), "_callbacks") else "callbacks"


class Unheeded(Deferred[_T]):
    """
    A Deferred that may fail without anybody listening.  A program that sends something, looks at no outcome and is
    refused, or loses the link, finds no "Unhandled error in Deferred" in its log (B77).  Where there is a callback of
    the program's, or the Deferred was returned from one, or the error is none of ours, it is like any other.
    """

    _own = 0
    _unheard = False

    def errback(self, fail: Failure | BaseException | None = None) -> None:
        """
        As L{Deferred.errback}.
        """
        self._unheard = isinstance(fail, AcpError) and len(getattr(self, _CALLBACKS)) == self._own
        super().errback(fail)
        self._hush()

    def nobody_listens(self) -> None:
        """
        The callbacks so far are the library's own.
        """
        self._own = len(getattr(self, _CALLBACKS))
        self._hush()

    def at_end(self, tell: Callable[[], object]) -> None:
        """
        Call C{tell} when the outcome is there, which stays as it is, and nobody counts as listening by that.
        """

        def told(result: Any) -> Any:
            tell()
            return result

        self.addBoth(told)
        self.nobody_listens()

    def _hush(self) -> None:
        if self._unheard and self._debugInfo is not None:
            self._debugInfo.failResult = None


class Waiters(Generic[_T]):
    """
    Those who wait for one event.
    """

    def __init__(self) -> None:
        self._waiting: list[Unheeded[_T]] = []

    def wait(self) -> Deferred[_T]:
        """
        A Deferred of the caller's own that fires at the next event.  Cancelling it only stops the waiting.
        """
        one: Unheeded[_T] = Unheeded(self._leave)
        self._waiting.append(one)
        return one

    def _leave(self, one: Deferred[_T]) -> None:
        if one in self._waiting:
            self._waiting.remove(one)

    def fire(self, outcome: _T) -> None:
        """
        It has happened.
        """
        for one in self._all():
            one.callback(outcome)

    def fail(self, error: AcpError) -> None:
        """
        It can't happen any more.
        """
        for one in self._all():
            one.errback(error)

    def _all(self) -> Iterator[Unheeded[_T]]:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.called:  # those before may have cancelled it
                yield one


def failed(error: Exception) -> Deferred[Any]:
    """
    One that has failed, if somebody listens.
    """
    one: Unheeded[Any] = Unheeded()
    one.errback(error)
    return one


class CancelHandle:
    """
    The means to cancel one request, for somebody who does not hold its Deferred.

    It is inert: dropping it does nothing, and it keeps nothing alive, neither the connection nor who waits for the
    answer.  It may be shared; all handles of a request, and its Deferred, send one cancellation between them.  Before
    the request was sent, after its answer came, and after the connection was lost it does nothing, and that is not
    remembered (C49, C50, C51).
    """

    __slots__ = ("_pending",)

    def __init__(self, pending: Pending) -> None:
        # The table holds what is unanswered, and the call what is not sent yet.
        self._pending = ref(pending)

    def cancel(self, reason: str | None = None) -> None:
        """
        Ask the peer to cancel.  The caller still gets whatever the peer answers.
        """
        pending = self._pending()
        if pending is not None:
            pending.send_cancel(reason)


class Pending:
    """
    One line of the table of unanswered requests.

    @ivar id: L{None} until it is sent.
    @ivar over: whether it is settled, whichever way.
    """

    __slots__ = ("__weakref__", "_table", "asked", "call", "cancel_sent", "id", "method", "over", "timer")

    def __init__(self, table: Outgoing, method: str, call: Call[Any]) -> None:
        self._table = table
        self.method = method
        self.call: Call[Any] | None = call
        self.id: int | None = None
        self.over = False
        self.cancel_sent = False
        self.timer: IDelayedCall | None = None
        self.asked: Asked | None = None

    @property
    def live(self) -> bool:
        """
        Whether it was sent and is unanswered.
        """
        return self.id is not None and not self.over

    def send_cancel(self, reason: str | None = None) -> None:
        """
        Send one cancellation, while the request is sent and unanswered.
        """
        if self.live and not self.cancel_sent:
            self.cancel_sent = True
            self._table.cancel(self, reason)

    def abandon(self, reason: str | None = None) -> None:
        """
        Nobody waits for the answer any more: cancel, unless that was done.  The entry leaves the table first, for on a
        link that delivers at once the cancellation brings an answer, or the end of the link, and both are too late.
        """
        tell = self.live and not self.cancel_sent
        self._table.forget(self)
        if tell:
            self.cancel_sent = True
            self._table.cancel(self, reason)

    def stop_timer(self) -> None:
        """
        No timeout any more.
        """
        timer, self.timer = self.timer, None
        if timer is not None and timer.active():
            timer.cancel()


class Call(Unheeded[_T]):
    """
    The answer to a request, to come.

    Cancelling it sends one cancellation to the peer and ends it at once with L{RequestCancelled}; the late answer is
    dropped.  With C{wait} it does not end at once: the peer's own answer, which a conforming peer always gives, ends
    it, or L{RequestCancelled} after C{wait_timeout} seconds (X6).

    @ivar wait: whether C{cancel} waits for the peer's answer.
    @ivar wait_timeout: seconds to wait for it at most; 0 is without end.
    """

    def __init__(self, table: Outgoing, method: str, wait: bool, wait_timeout: float) -> None:
        super().__init__(_give_up)
        self._table = table
        self.pending = Pending(table, method, self)
        self._timeout = 0.0
        self._deadline: float | None = None
        self._winding_up = False
        self._looking = False
        self._afterwards: list[Callable[[], None]] | None = []
        self.wait = wait
        self.wait_timeout = wait_timeout
        self.context: Context = copy_context()

    @property
    def request_id(self) -> int | None:
        """
        The id on the wire; L{None} before the request is sent.
        """
        return self.pending.id

    @property
    def cancel_sent(self) -> bool:
        """
        Whether its cancellation was asked of the peer, whoever did it: for who shows that (M27).
        """
        return self.pending.cancel_sent

    def cancel(self, reason: str | None = None) -> None:
        """
        Cancel the request, at the peer too.

        @param reason: for the peer's log, where the dialect has room for one.
        """
        pending = self.pending
        if self.called or not (self.wait and pending.id is not None):
            if not self.called:
                pending.abandon(reason)
            else:
                inner = getattr(self, "result", None)
                while isinstance(inner, Deferred) and not isinstance(inner, Call):
                    inner = getattr(inner, "result", None)
                if inner is not None and isinstance(inner, Call):  # a callback has asked again, and that is waited for
                    inner.cancel(reason)
                    return
            super().cancel()
            return
        pending.send_cancel(reason)
        if not self.called:  # sending it may have brought the answer, or the end of the link
            self._wind_up()

    def _wind_up(self) -> None:
        if self.wait_timeout and not self._winding_up:
            # What bounded the answer until now gives way to what bounds the waiting for a cancelled one.
            self._winding_up = True
            self._bound(self.wait_timeout, None)

    def callback(self, result: _T | Failure) -> None:
        """
        As L{Deferred.callback}.
        """
        super().callback(result)
        self._through()

    def errback(self, fail: Failure | BaseException | None = None) -> None:
        """
        As L{Deferred.errback}.
        """
        super().errback(fail)
        self._through()

    def afterwards(self, tell: Callable[[], None]) -> None:
        """
        Call C{tell} once the outcome is there and its callbacks have run; at once if they have.

        It is for whoever wakes somebody that will await this: from a callback he would be woken in the midst of the
        others, find the outcome half made, and be told of no error.
        """
        if self._afterwards is None:
            tell()
        else:
            self._afterwards.append(tell)

    def _through(self) -> None:
        told, self._afterwards = self._afterwards, None
        for tell in told or ():
            tell()

    def cancel_handle(self) -> CancelHandle:
        """
        Something that cancels the request and can be handed out.
        """
        return CancelHandle(self.pending)

    def detach(self) -> None:
        """
        Give up the answer without cancelling the request: this Deferred never fires, the request has no timeout any
        more, and the peer finishes it in its own time.
        """
        self.pending.stop_timer()
        self._table.detach(self.pending)

    def bound(self, timeout: float, max_timeout: float) -> None:
        """
        End the call with L{RequestTimedOut}, and the request with a cancellation, C{timeout} seconds from now.
        """
        self._timeout = timeout
        self._bound(timeout, max_timeout or None)

    def progressed(self) -> None:
        """
        Start the timeout anew, because the peer showed that it works; never past C{max_timeout}.
        """
        timer = self.pending.timer
        if timer is None or not timer.active() or not self._timeout:
            return
        again = self._timeout
        if self._deadline is not None:
            again = min(again, max(0.0, self._deadline - self._table.clock.seconds()))
        if again:
            self._looking = False
            timer.reset(again)

    def _bound(self, seconds: float, max_seconds: float | None) -> None:
        pending = self.pending
        pending.stop_timer()
        self._looking = False
        if max_seconds is not None:
            self._deadline = self._table.clock.seconds() + max_seconds
            seconds = min(seconds, max_seconds)
        pending.timer = self._table.clock.callLater(seconds, self._expired)

    def _expired(self) -> None:
        pending = self.pending
        if not self._looking:
            # A reactor that stood still runs what is due before it reads what has come meanwhile: it looks once more.
            self._looking = True
            pending.timer = self._table.clock.callLater(0, self._expired)
            return
        error = RequestCancelled() if self._winding_up else RequestTimedOut(pending.method, self._timeout)
        pending.abandon("timeout")
        if not self.called:
            self.errback(error)


def _give_up(call: Deferred[_T]) -> None:
    """
    The canceller.  The entry leaves the table before the Deferred fires, so that the answer, which may already be on
    its way, finds nothing and is dropped (B20).  It never raises (B75).
    """
    assert isinstance(call, Call)
    call._table.forget(call.pending)
    call.errback(RequestCancelled())
