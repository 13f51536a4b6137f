"""
The table of our own requests: their ids, and what becomes of each, once (design rules 1 and 2).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from acp_twisted.errors import AcpConnectionError, AcpError, InvalidResponse, LimitExceeded
from acp_twisted.jsonrpc.calls import Call, Pending
from acp_twisted.jsonrpc.cancellation import CancellationDialect
from acp_twisted.jsonrpc.lanes import Asked, Lanes
from acp_twisted.jsonrpc.messages import EncodeError, Id, Response, notification_bytes, request_bytes
from acp_twisted.limits import Limits

_log = Logger()


class Outgoing:
    """
    Every request of ours that waits for an answer.

    @ivar send: what writes a message.
    @ivar closed: why nothing can be asked any more, once that is so.
    """

    def __init__(
        self,
        clock: IReactorTime,
        limits: Limits,
        dialect: CancellationDialect,
        lanes: Lanes,
        send: Callable[[bytes], None],
    ) -> None:
        self.clock = clock
        self.send = send
        self.closed: AcpConnectionError | None = AcpConnectionError("not connected")
        self._limits = limits
        self._dialect = dialect
        self._lanes = lanes
        self._last_id = 0
        self._pending: dict[int, Pending] = {}
        self._given_up: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pending)

    def new_id(self) -> int:
        """
        An id that no request of this connection has had: for whoever sends requests besides this table.
        """
        self._last_id += 1
        return self._last_id

    def publish(self, call: Call[Any], params: object, asked: Asked, timeout: float, max_timeout: float) -> None:
        """
        Send a prepared request.  Whatever prevents that ends it.
        """
        pending = call.pending
        if call.called:  # what this let through before it has cancelled it
            self._lanes.settled(asked)
            return
        error = self._prevents(pending)
        if error is None:
            self._last_id += 1
            try:
                message = request_bytes(self._last_id, pending.method, params)
            except EncodeError as unencodable:
                error = unencodable
        if error is not None:
            self._lanes.settled(asked)
            call.errback(error)
            return
        pending.id = self._last_id
        pending.asked = asked
        self._pending[pending.id] = pending
        if (timeout or max_timeout) and pending.call is not None:
            call.bound(timeout or max_timeout, max_timeout)
        self.send(message)

    def _prevents(self, pending: Pending) -> Exception | None:
        if self.closed is not None:
            return self.closed
        if len(self._pending) >= self._limits.max_outgoing_requests:
            return LimitExceeded(f"max_outgoing_requests ({self._limits.max_outgoing_requests}) reached")
        return None

    def send_cancel(self, request_id: Id, reason: str | None) -> None:
        """
        Send a cancellation for any id.
        """
        self.send(notification_bytes(self._dialect.method, self._dialect.params(request_id, reason)))

    def cancel(self, pending: Pending, reason: str | None) -> None:
        """
        The one cancellation of a request that is out and unanswered.
        """
        if pending.method in self._dialect.never:
            return
        if self._dialect.gives_reason:
            _log.info("cancelling {method}: {reason}", method=pending.method, reason=reason)
        self.send_cancel(pending.id, reason)

    def forget(self, pending: Pending) -> None:
        """
        The caller has what he gets; the answer, if it still comes, is dropped and not reported as strange.
        """
        pending.call = None
        pending.stop_timer()
        if pending.live and pending.id is not None:
            del self._pending[pending.id]
            self.given_up(pending.id)
            self._over(pending)

    def given_up(self, number: int) -> None:
        """
        Nobody waits for the answer to the request C{number} any more; if it still comes, that is nothing strange.
        """
        self._given_up[number] = None
        if len(self._given_up) > self._limits.max_remembered_ids:
            self._given_up.popitem(last=False)

    def detach(self, pending: Pending) -> None:
        """
        Nobody wants the answer, and no handler waits for it; the request stays in the table until it comes.
        """
        pending.call = None
        self._no_longer_asked(pending)

    def answered(self, response: Response, size: int) -> None:
        """
        An answer has come.
        """
        pending = self._take(response.id)
        if pending is None:
            self._unmatched(response)
        elif response.problem:
            self._settle(pending, InvalidResponse(f"{pending.method}: {response.problem}"), size)
        elif response.error is not None:
            error = response.error
            self._settle(pending, AcpError.from_peer(error.code, error.message, error.data), size)
        else:
            self._settle(pending, response.result, size)

    def answered_too_large(self, request_id: Id, size: int) -> None:
        """
        An answer has come that was too long to be read.
        """
        pending = self._take(request_id)
        if pending is not None:
            limit = self._limits.max_message_bytes
            self._settle(pending, InvalidResponse(f"{pending.method}: the answer is longer than {limit} bytes"), 0)

    def unanswerable(self, request_id: Id, error: AcpError) -> None:
        """
        No answer to this request can come, though others may.
        """
        pending = self._take(request_id)
        if pending is not None:
            self._settle(pending, error, 0)

    def fail_all(self, error: AcpConnectionError) -> None:
        """
        No answer can come any more, and nothing more can be asked.
        """
        self.closed = error
        pending, self._pending = self._pending, {}
        for entry in pending.values():
            self._over(entry)  # all of them first: who is told of one may cancel others
        for entry in pending.values():
            _deliver(entry, error)

    def _take(self, given: Id) -> Pending | None:
        """
        The request that an answer with this id is for.

        Our ids are integers and match exactly.  But an answer whose id is such an integer's digits in a string can be
        for nothing else, and without it the caller would wait for ever (B47).
        """
        if type(given) is int:
            return self._pending.pop(given, None)
        if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 19:
            number = int(given)
            pending = self._pending.pop(number, None) if str(number) == given else None
            if pending is not None:
                _log.warn("{method} was answered with its id as a string", method=pending.method)
            return pending
        return None

    def _settle(self, pending: Pending, outcome: object, size: int) -> None:
        """
        Nothing is cancelled any more.  But the caller may have to wait his turn, and that is part of his timeout.
        """
        asked = pending.asked
        self._over(pending)
        if asked is not None and pending.call is not None:
            self._lanes.response(asked, size, lambda: _deliver(pending, outcome))

    def _over(self, pending: Pending) -> None:
        pending.over = True
        self._no_longer_asked(pending)

    def _no_longer_asked(self, pending: Pending) -> None:
        asked, pending.asked = pending.asked, None
        if asked is not None:
            self._lanes.settled(asked)

    def _unmatched(self, response: Response) -> None:
        given = response.id
        if type(given) is int and given in self._given_up:
            del self._given_up[given]
            _log.debug("the late answer to a cancelled request was dropped")
        elif response.error is not None:
            _log.warn("the peer reported error {code}, for no request of ours", code=response.error.code)
        else:
            _log.warn("an answer to no request of ours was dropped")


def _deliver(pending: Pending, outcome: object) -> None:
    """
    Give a caller his answer, in the context in which he asked, so that what he asks next is known to come from there.
    """
    call, pending.call = pending.call, None
    pending.stop_timer()
    if call is None:
        return
    if isinstance(outcome, AcpError):
        call.context.run(call.errback, outcome)
    else:
        call.context.run(call.callback, outcome)
