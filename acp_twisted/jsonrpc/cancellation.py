"""
Cancellation, both ways: the token that a handler looks at, and the two spellings of "please stop" on the wire.

One mechanism serves both protocols.  What differs between ACP and MCP is gathered in a L{CancellationDialect}, chosen
when the connection is made.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, TypeVar

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import RequestCancelled

_T = TypeVar("_T")
_log = Logger()


REPEATED_TRIGGERS: Final = 64
"""How many triggers a token keeps, repeated ones among them; beyond that only new ones, so that it can't be flooded."""


class CancellationToken:
    """
    One incoming request's view of its cancellation.  It is set once and stays set.

    It is set inside the delivery of the bytes that cancel, before any later message is looked at and before any handler
    runs (design rule 3), so a handler that starts afterwards finds it set.
    """

    __slots__ = ("_callbacks", "_triggers")

    def __init__(self) -> None:
        self._triggers: tuple[str, ...] = ()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        """
        Whether anything has cancelled the request.  Safe to read from any thread.
        """
        return bool(self._triggers)

    @property
    def triggers(self) -> tuple[str, ...]:
        """
        What cancelled it, in the order in which it happened: C{"session/cancel"}, C{"session/close"},
        C{"$/cancel_request"}, C{"cancelGracePeriod"}, C{"maxPromptDuration"}, C{"shutdown"}, C{"connectionLost"}.
        Repetitions are in it too, up to L{REPEATED_TRIGGERS}.
        """
        return self._triggers

    def cancel(self, trigger: str) -> None:
        """
        Set the token, and run what waits for it.  A later call only adds its trigger.
        """
        first = not self._triggers
        if len(self._triggers) < REPEATED_TRIGGERS or trigger not in self._triggers:
            self._triggers += (trigger,)
        if not first:
            return
        while self._callbacks:  # one of them may take back another
            callback = self._callbacks.pop(0)
            with _log.failuresHandled("a cancellation callback failed"):
                callback()

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """
        Call C{callback} once, from within the delivery of the cancellation (so it must be quick), or now if that has
        happened.  What it raises is logged.
        """
        if self._triggers:
            with _log.failuresHandled("a cancellation callback failed"):
                callback()
        else:
            self._callbacks.append(callback)

    def forget(self, callback: Callable[[], object]) -> None:
        """
        Take back an C{on_cancel}.
        """
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def when_cancelled(self) -> Deferred[None]:
        """
        A Deferred of the caller's own that fires with L{None} on cancellation.  Cancelling it only stops the waiting.
        """

        def fire() -> None:
            waiting.callback(None)

        waiting: Deferred[None] = Deferred(lambda _: self.forget(fire))
        self.on_cancel(fire)
        return waiting

    def run_until_cancelled(self, work: Deferred[_T]) -> Deferred[_T]:
        """
        C{work}'s own result; or, as soon as the request is cancelled, L{RequestCancelled}, with C{work} cancelled.
        """

        def stop() -> None:
            try:
                work.cancel()
            finally:
                if not outcome.called:
                    outcome.errback(RequestCancelled())

        def settle(result: _T | Failure) -> None:
            self.forget(stop)
            if outcome.called:
                return
            if self.cancelled:
                outcome.errback(RequestCancelled())
            elif isinstance(result, Failure):
                outcome.errback(result)
            else:
                outcome.callback(result)

        outcome: Deferred[_T] = Deferred(lambda _: work.cancel())
        work.addBoth(settle)
        if not outcome.called:
            self.on_cancel(stop)
        return outcome


in_force: ContextVar[CancellationToken | None] = ContextVar("in_force", default=None)
"""The token of the request that is being handled; see L{current_token}."""


def current_token() -> CancellationToken:
    """
    The token of the request whose handler this is called from: in the handler itself, in what it awaits, and in the
    thread of a blocking prompt handler.  It is the same object whenever it is asked for, and set if the request was
    cancelled before.

    @raise LookupError: where no request is being handled.
    """
    token = in_force.get()
    if token is None:
        raise LookupError("no request is being handled here")
    return token


@frozen
class CancellationDialect:
    """
    How one protocol spells the cancellation of a request.

    @ivar method: the notification's method.
    @ivar answers: whether a cancelled request is still answered (ACP: it must be; MCP: it should not be).
    @ivar never: methods whose requests are never cancelled on the wire.
    @ivar gives_reason: whether the notification has a C{reason}.
    """

    method: str
    answers: bool
    never: frozenset[str] = frozenset()
    gives_reason: bool = False

    def params(self, request_id: object, reason: str | None) -> dict[str, object]:
        """
        The params of a cancellation of the request C{request_id}.
        """
        params: dict[str, object] = {"requestId": request_id}
        if reason is not None and self.gives_reason:
            params["reason"] = reason
        return params


ACP: Final = CancellationDialect("$/cancel_request", answers=True)
"""Either side may cancel any request of its own, and the answer still comes (X1, X5)."""

MCP: Final = CancellationDialect(
    "notifications/cancelled", answers=False, never=frozenset({"initialize"}), gives_reason=True
)
"""The client cancels, and no answer comes."""
