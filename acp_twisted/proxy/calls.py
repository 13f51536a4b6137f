"""
What a proxy's handlers ask: the answer to a request that one passes on, or sends on his own account.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from acp_twisted.errors import AcpError, InvalidResponse, RequestCancelled, RequestTimedOut
from acp_twisted.jsonrpc.calls import _CALLBACKS, Unheeded
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.jsonrpc.splice import RESULT
from acp_twisted.proxy.order import Order
from acp_twisted.proxy.passage import Passage, PassingRequest, Way

_log = Logger()


class ProxyCall(Unheeded[Any]):
    """
    The answer to a request, to come: an object of the schema where the handler works with such, else JSON.

    Cancelling it sends one cancellation to whom was asked, and ends it at once with L{RequestCancelled}.  So does
    whatever L{forward_cancellation_from} named, except that then the answer is still waited for.

    @ivar answer: the answer as it came, once it is there: its kind and its JSON text.
    """

    def __init__(self, way: Way, method: str, decode: Callable[[object], object]) -> None:
        super().__init__(_give_up)
        self.answer: tuple[int, bytes] | None = None
        self.value: object = None
        self.error: AcpError | None = None
        self.decoded = decode
        self._passage = Passage(way, method, self._settled)
        self._timer: IDelayedCall | None = None
        self._linked: PassingRequest | None = None
        self._order: Order | None = None
        self._tokens: list[CancellationToken] = []

    @property
    def method(self) -> str:
        """
        What was asked.
        """
        return self._passage.method

    @property
    def cancel_sent(self) -> bool:
        """
        Whether its cancellation was asked of the other side.
        """
        return self._passage.cancel_sent

    def publish(self, params: bytes, timeout: float, *, own: bool) -> ProxyCall:
        """
        Send the request, once.

        @param timeout: seconds; 0 is without end.
        @param own: whether it is a question of the proxy's own, for which a handler may keep what it was given.
        """
        port = self._passage.way.port
        if own:
            self._order = port.order
            port.order.asked()
        if timeout:
            self._timer = port.clock.callLater(timeout, self._expired, timeout)
        port.ask(self._passage, params)
        return self

    def forward_cancellation_from(self, token: CancellationToken) -> ProxyCall:
        """
        What cancels the request of C{token} cancels this one too; its answer still comes (C16).

        @return: this call.
        """
        if self.answer is None:
            self._tokens.append(token)
            token.on_cancel(self._passage.cancel)
        return self

    def request_cancellation(self) -> None:
        """
        Ask for the cancellation, once, and go on waiting for the answer.
        """
        self._passage.cancel()

    def link(self, request: PassingRequest) -> bool:
        """
        Answer C{request} with this one's answer, as it comes.

        @return: whether that could be arranged: not when somebody wants to see the answer first.
        """
        if self.called or getattr(self, _CALLBACKS):
            return False
        self._linked = request
        return True

    def _settled(self, kind: int, body: bytes) -> None:
        self.answer = (kind, body)
        self._tidy()
        if self._linked is not None:
            self._linked.give_back(kind, body)
        elif not self.called:
            self._fire(kind, body)

    def _fire(self, kind: int, body: bytes) -> None:
        try:
            decoded = orjson.loads(body)
            if kind == RESULT:
                self.value = self.decoded(decoded)
            else:
                self.error = AcpError.from_peer(decoded["code"], str(decoded.get("message")), decoded.get("data"))
        except Exception as trouble:
            why = (
                trouble if isinstance(trouble, AcpError) else InvalidResponse(f"{self.method}: the answer is unusable")
            )
            self.errback(why)
            return
        if self.error is not None:
            self.errback(self.error)
        else:
            self.callback(self.value)

    def _expired(self, timeout: float) -> None:
        self._timer = None
        self._passage.abandon()
        self._tidy()
        if not self.called:
            self.errback(RequestTimedOut(self.method, timeout))

    def _tidy(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        tokens, self._tokens = self._tokens, []
        for token in tokens:
            token.forget(self._passage.cancel)
        order, self._order = self._order, None
        if order is not None:
            order.answered()

    def give_up(self) -> None:
        """
        Nobody waits any more.
        """
        self._passage.abandon()
        self._tidy()


def _give_up(call: Deferred[Any]) -> None:
    assert isinstance(call, ProxyCall)
    call.give_up()
    call.errback(RequestCancelled())
