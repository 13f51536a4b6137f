"""
Requests that pass: what is known of one on the link that it came by, and on the link that it went out on.

No message is decoded here.  The answer is bytes, and goes back as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING

from attrs import frozen

from acp_twisted.errors import InternalError
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Id, error_bytes
from acp_twisted.jsonrpc.splice import ERROR, split

if TYPE_CHECKING:
    from acp_twisted.errors import AcpError
    from acp_twisted.jsonrpc.lanes import Asked
    from acp_twisted.proxy.port import Port

FOR_GOOD = frozenset({"connectionLost"})
"""What cancels a request whose answer nobody can be given any more."""


@frozen
class Way:
    """
    Where a message goes.

    @ivar port: the link.
    @ivar wrapped: whether it goes in an envelope: to the successor of who is at the link's end, or from it.
    @ivar initialize: what C{initialize} is called there.
    """

    port: Port
    wrapped: bool = False
    initialize: str = "initialize"


class Passage:
    """
    A request of ours on one link: one entry of its table (design rules 1 and 2).

    @ivar settle: is told the outcome, once: L{RESULT<acp_twisted.jsonrpc.splice.RESULT>} or
        L{ERROR<acp_twisted.jsonrpc.splice.ERROR>}, and its JSON text.
    @ivar id: L{None} until it is sent.
    @ivar over: whether it is settled or given up.
    @ivar cancel_sent: whether its cancellation went out.
    @ivar asked: where it came from, for the order of its answer.
    @ivar context: what its outcome is told in.
    """

    __slots__ = ("asked", "cancel_sent", "context", "id", "method", "over", "settle", "way")

    def __init__(self, way: Way, method: str, settle: Callable[[int, bytes], object]) -> None:
        self.way = way
        self.method = method
        self.settle: Callable[[int, bytes], object] = settle
        self.id: int | None = None
        self.over = False
        self.cancel_sent = False
        self.asked: Asked | None = None
        self.context: Context | None = None

    def keep_context(self) -> Context:
        """
        Tell the outcome in the context of now.
        """
        self.context = copy_context()
        return self.context

    def cancel(self) -> None:
        """
        Send one cancellation, while the request is sent and unanswered; the answer still comes.
        """
        if self.id is not None and not self.over and not self.cancel_sent:
            self.cancel_sent = True
            self.way.port.send_cancellation(self)

    def abandon(self) -> None:
        """
        Nobody waits for the answer any more: cancel, unless that was done, and drop the answer.
        """
        tell = self.id is not None and not self.over and not self.cancel_sent
        self.way.port.forget(self)
        if tell:
            self.cancel_sent = True
            self.way.port.send_cancellation(self)

    def answered(self, kind: int, body: bytes) -> None:
        """
        The outcome is here.
        """
        settle, self.settle = self.settle, _nothing
        if self.context is None:
            settle(kind, body)
        else:
            self.context.run(settle, kind, body)


class PassingRequest(IncomingRequest):
    """
    A request of the peer that somebody else is to answer.

    @ivar passage: the same request on the link that it went out on, once it has.
    """

    __slots__ = ("_port", "passage")

    def __init__(self, port: Port, request_id: Id, method: str) -> None:
        super().__init__(port, request_id, method, None)
        self._port = port
        self.passage: Passage | None = None

    def pass_on(self, way: Way, method: str, params: bytes) -> None:
        """
        Ask the next one, and give his answer back as it comes; what cancels this request cancels that one (P6).

        @param params: JSON text, or empty.
        """
        if self.answered:  # it was cancelled while it waited for its turn
            return
        passage = self.passage = Passage(way, method, self.give_back)
        self.stop = self.stop_passage
        way.port.ask(passage, params)
        if self.token.cancelled:  # while a handler had it, who lets it pass only now
            passage.cancel()

    def give_back(self, kind: int, body: bytes) -> None:
        """
        Answer with bytes.
        """
        if not self.answered:
            self._port.answer_with(self, kind, body)

    def give_up(self, why: AcpError) -> None:
        """
        Answer with an error, and wait for nobody else's answer.
        """
        if self.passage is not None:
            self.passage.abandon()
        self.fail(why)

    def stop_passage(self, trigger: str) -> None:
        """
        Something cancels the request: its next hop is asked to, and its answer is the answer here too.
        """
        self.token.cancel(trigger)
        passage = self.passage
        if passage is None:
            return
        if trigger in FOR_GOOD:
            passage.abandon()
        else:
            passage.cancel()


def error_text(error: AcpError) -> bytes:
    """
    The error object of an answer, as JSON text.
    """
    parts = split(error_bytes(0, error))
    if parts is None or parts[0] != ERROR:
        return error_text(InternalError())
    return parts[3]


def _nothing(kind: int, body: bytes) -> None:
    """The outcome after the outcome."""
