"""
The caller's way to stop what he has asked for and still get the peer's answer.
"""

from __future__ import annotations

from collections.abc import Callable

from acp_twisted.jsonrpc.cancellation import CancellationToken


class CancellationSignal:
    """
    A one-shot signal that may be handed to any number of prompts and requests before or while they run.

    For a client's prompt, L{cancel} sends C{session/cancel}; the caller still receives the turn's updates and its
    C{cancelled} answer.  For another request it sends C{$/cancel_request}, and the answer still comes.  What is sent
    with a signal that was given before is sent, and then cancelled.  After the answer it does nothing.

    It is for the reactor's thread; another gives it with C{reactor.callFromThread(signal.cancel)}.
    """

    def __init__(self) -> None:
        self._token = CancellationToken()

    @property
    def cancelled(self) -> bool:
        """
        Whether the signal was given.
        """
        return self._token.cancelled

    def cancel(self) -> None:
        """
        Give the signal.  Again is nothing.
        """
        if not self.cancelled:
            self._token.cancel("signal")

    def attach(self, stop: Callable[[], object]) -> Callable[[], None]:
        """
        Call C{stop} when the signal is given; at once if it was.

        @return: what detaches it again.
        """
        self._token.on_cancel(stop)
        return lambda: self._token.forget(stop)
