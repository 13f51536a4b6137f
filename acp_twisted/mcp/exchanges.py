"""
What the transports have in common that carry each request by itself: HTTP, and ACP's C{mcp/message}.

The L{Peer<acp_twisted.jsonrpc.peer.Peer>} above them speaks JSON-RPC as on any stream.  Its requests become exchanges,
and its C{notifications/cancelled} the end of one, each in the way of the carrier.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, AcpError
from acp_twisted.interfaces import IMessageTransport
from acp_twisted.jsonrpc.messages import Id, Notification, Request, Response, error_bytes, parse, result_bytes
from acp_twisted.jsonrpc.peer import Peer
from acp_twisted.mcp.versions import CANCELLED


@implementer(IMessageTransport)
class ExchangeTransport:
    """
    The base of these transports.

    @ivar peer: what is delivered to.
    @ivar closed: whether nothing is sent or delivered any more.
    """

    def __init__(self, peer: Peer, clock: IReactorTime) -> None:
        self.peer = peer
        self.unsent = 0
        self.closed = False
        self._clock = clock
        self._paused = False
        self._held: list[Callable[[], None]] = []

    # ---- what a carrier does

    def ask(self, request: Request, message: bytes) -> None:
        """
        Begin the exchange of a request.
        """
        raise NotImplementedError

    def tell(self, notification: Notification, message: bytes) -> None:
        """
        Carry a notification.
        """
        raise NotImplementedError

    def reply(self, response: Response, message: bytes) -> None:
        """
        Carry our answer to a request of the server.
        """
        raise NotImplementedError

    def cancel(self, request_id: Id, message: bytes) -> None:
        """
        End the exchange of a request that is cancelled.
        """
        raise NotImplementedError

    def end_all(self) -> Deferred[None] | None:
        """
        End every exchange: the connection is over.

        @return: where there is something to say to the server yet, when that is done; bounded in time.
        """
        raise NotImplementedError

    # ---- IMessageTransport

    def send(self, message: bytes) -> None:
        """
        See L{IMessageTransport}.
        """
        if self.closed:
            return
        parsed = parse(message)
        if isinstance(parsed, Request):
            self.ask(parsed, message)
        elif isinstance(parsed, Response):
            self.reply(parsed, message)
        elif isinstance(parsed, Notification):
            params = parsed.params
            if parsed.method == CANCELLED and isinstance(params, dict):
                self.cancel(params.get("requestId"), message)
            else:
                self.tell(parsed, message)

    def close(self) -> None:
        """
        See L{IMessageTransport}.
        """
        self._end(AcpConnectionError("the connection was closed"))

    def abort(self, reason: str) -> None:
        """
        See L{IMessageTransport}.
        """
        self._end(AcpConnectionError(reason))

    def _end(self, why: AcpConnectionError) -> None:
        if self.closed:
            return
        self.closed = True
        self._held.clear()
        last_words = self.end_all()
        if last_words is None:
            # Later, for the caller may be in the midst of a send.
            self._clock.callLater(0, self.peer.connection_lost, Failure(why))
        else:
            last_words.addBoth(lambda _: self.peer.connection_lost(Failure(why)))

    def pauseProducing(self) -> None:
        """
        See L{IMessageTransport}.
        """
        self._paused = True

    def resumeProducing(self) -> None:
        """
        See L{IMessageTransport}.
        """
        self._paused = False
        while self._held and not self._paused:
            self._held.pop(0)()

    def stopProducing(self) -> None:
        """
        See L{IMessageTransport}.
        """
        self.close()

    # ---- for the carriers

    def deliver(self, message: bytes) -> None:
        """
        Give the peer a message, or keep it while it wants none.
        """
        self._when_wanted(lambda: self.peer.message_received(message))

    def answer(self, request_id: Id, result: object) -> None:
        """
        Give the peer the result of an exchange.
        """
        self.deliver(result_bytes(request_id, result))

    def refuse(self, request_id: Id, error: AcpError) -> None:
        """
        Give the peer an error that the server answered with.
        """
        self.deliver(error_bytes(request_id, error))

    def fail(self, request_id: Id, error: AcpError) -> None:
        """
        Tell the peer that an exchange failed on the way.
        """
        self._when_wanted(lambda: self.peer.unanswerable(request_id, error))

    def _when_wanted(self, go: Callable[[], None]) -> None:
        if self.closed:
            return
        if self._paused or self._held:
            self._held.append(go)
            most = self.peer.limits.max_queued_messages
            if len(self._held) > most:
                self.abort(f"more than {most} messages wait (Limits.max_queued_messages)")
        else:
            go()


def failed_on_the_way(what: str, failure: Failure) -> AcpError:
    """
    The error for a caller whose request did not get through.
    """
    error = failure.value
    if isinstance(error, AcpError):
        return error
    return AcpConnectionError(f"{what}: {failure.type.__name__ if failure.type else error}", failure)
