"""
One HTTP request and its answer, whatever version of HTTP carries them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

HeaderList: TypeAlias = "Sequence[tuple[bytes, bytes]]"


MAX_WORDS: Final = 200
"""How much of a reason is shown: it may quote what the server sent."""


class NotProcessed(Exception):
    """
    The server says that it did nothing with the request, so that it may be sent again.
    """


class Truncated(Exception):
    """
    The answer ended before its end: some of it may be lost.
    """


class ResponseReader(Protocol):
    """
    What an answer is delivered to.
    """

    def response_started(self, status: int, headers: dict[bytes, list[bytes]]) -> None:
        """
        The head of the answer.

        @param headers: by name, which is in lower case.
        """

    def body_received(self, data: bytes) -> None:
        """
        Some of its body.  Not while the exchange is paused.
        """

    def response_ended(self, failure: Failure | None) -> None:
        """
        The end: of the body, or of the attempt.  Called once, unless the exchange was cancelled, and not from inside
        C{request}.
        """


class Exchange(Protocol):
    """
    A request under way.
    """

    def cancel(self) -> None:
        """
        Forget it: its reader is told nothing more.
        """

    def pause(self) -> None:
        """
        Deliver no more of the body for now, and let the server feel it.
        """

    def resume(self) -> None:
        """
        Go on.
        """


class HttpLayer(Protocol):
    """
    What requests to one server go through.

    @ivar version: how it speaks, for people: C{HTTP/1.1} or C{HTTP/2}.
    """

    version: str

    def request(self, method: bytes, headers: HeaderList, body: bytes, reader: ResponseReader) -> Exchange:
        """
        Send a request to the server's one path.
        """

    def close(self) -> Deferred[None]:
        """
        End every exchange that is left, and every connection.

        @return: fires when they are gone.
        """


def words(failure: Failure) -> str:
    """
    Why a request failed, in one line for people: the innermost reason, without what twisted.web wraps around it.
    """
    reasons = getattr(failure.value, "reasons", None)
    if reasons and isinstance(reasons[0], Failure):
        return words(reasons[0])
    if failure.check(CancelledError) is not None:
        return "cancelled"
    return failure.getErrorMessage()[:MAX_WORDS] or type(failure.value).__name__
