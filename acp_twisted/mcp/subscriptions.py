"""
Subscriptions: one long request whose answer is the end, and what comes before it.

Either side ends one.  The client closes it, which is the cancellation of its request: C{notifications/cancelled} on
stdio, the end of the response stream over HTTP.  The server sends C{notifications/cancelled} with the request's id, or
answers it, or both (M2, M17); whichever comes first counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpConnectionError, AcpError, RequestTimedOut
from acp_twisted.handlers import outcome
from acp_twisted.jsonrpc.calls import Call, Waiters
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.mcp.session import McpSession
from acp_twisted.mcp.versions import LISTEN, McpCapabilityError

_log = Logger()

End: TypeAlias = Literal["client", "server"]


class Subscription:
    """
    An open subscription.

    @ivar request_id: the id of its request, which stands for it.
    @ivar honored: what the server agreed to tell, as JSON.
    @ivar end: who ended it; L{None} while it is open, or when the link was lost.
    """

    def __init__(self, call: Call[Any], tell: Callable[[str, dict[str, Any]], object]) -> None:
        self._call = call
        self._tell = tell
        self._waiters: Waiters[End] = Waiters()
        self._lost: AcpError | None = None
        self.request_id: object = None
        self.honored: dict[str, Any] | None = None
        self.end: End | None = None

    @property
    def is_open(self) -> bool:
        """
        Whether anything may still come.
        """
        return self.end is None and self._lost is None

    def close(self, reason: str | None = None) -> None:
        """
        End it.  Once it is over this does nothing.
        """
        if self.is_open:
            self._over("client", None)
            self._call.cancel(reason)

    def when_ended(self) -> Deferred[End]:
        """
        Fires with who ended it; fails when the link was lost, or the server failed.
        """
        if self.is_open:
            return self._waiters.wait()
        ended: Deferred[End] = Deferred()
        if self._lost is not None:
            ended.errback(self._lost)
        elif self.end is not None:
            ended.callback(self.end)
        return ended

    def _take(self, notification: Notification) -> None:
        if not self.is_open:
            return
        params = notification.params if isinstance(notification.params, dict) else {}
        with _log.failuresHandled("the handler of a subscription failed"):
            result = outcome(self._tell(notification.method, params))
            if isinstance(result, Deferred):
                result.addErrback(lambda failure: _log.failure("the handler of a subscription failed", failure))

    def _over(self, end: End | None, error: AcpError | None) -> None:
        if not self.is_open:
            return
        self.end, self._lost = end, error
        if error is not None:
            self._waiters.fail(error)
        elif end is not None:
            self._waiters.fire(end)


class Subscriptions:
    """
    The subscriptions of one session.
    """

    def __init__(self, session: McpSession) -> None:
        self._session = session
        self._open: dict[object, tuple[Subscription, Deferred[Subscription], IDelayedCall | None]] = {}
        self._early: list[Callable[[], None]] | None = None
        session.on_subscribed = self._notified
        session.on_server_cancel = self._cancelled

    def listen(
        self,
        tell: Callable[[str, dict[str, Any]], object],
        *,
        tools: bool,
        prompts: bool,
        resources: bool,
        uris: Sequence[str],
        timeout: float | None,
    ) -> Deferred[Subscription]:
        """
        See L{McpClient.listen<acp_twisted.mcp.client.McpClient.listen>}.
        """
        session = self._session
        if not session.stateless:
            raise McpCapabilityError("subscriptions/listen came with revision 2026-07-28; use subscribe() before that")
        wanted: dict[str, Any] = {
            name: True
            for name, is_wanted in (
                ("toolsListChanged", tools),
                ("promptsListChanged", prompts),
                ("resourcesListChanged", resources),
            )
            if is_wanted
        }
        if uris:
            wanted["resourceSubscriptions"] = list(uris)
        # Its answer is its end, so only the acknowledgement has a timeout.  That may come from inside of this call, on
        # a link that delivers at once, when the number of the request is not known yet.
        outer, self._early = self._early, []
        call = session.request(LISTEN, {"notifications": wanted}, timeout=0, max_timeout=0, progress=False)
        early, self._early = self._early, outer
        subscription = Subscription(call, tell)
        opened: Deferred[Subscription] = Deferred(lambda _: call.cancel())
        number = subscription.request_id = call.request_id
        seconds = session.peer.request_timeout if timeout is None else timeout
        timer = session.clock.callLater(seconds, self._too_late, number, seconds) if seconds and number else None
        if number is not None:
            self._open[number] = (subscription, opened, timer)
        for again in early:
            again()
        call.addCallbacks(lambda _: self._ended(number, subscription, opened, None), _error_of)
        call.addCallback(lambda error: None if error is None else self._ended(number, subscription, opened, error))
        return opened

    def _notified(self, number: object, notification: Notification) -> None:
        found = self._open.get(number) if isinstance(number, (int, str)) else None
        if found is None:
            if self._early is not None:
                self._early.append(lambda: self._notified(number, notification))
            return
        subscription, opened, timer = found
        if notification.method != "notifications/subscriptions/acknowledged":
            subscription._take(notification)
        elif subscription.honored is None:
            params = notification.params if isinstance(notification.params, dict) else {}
            honored = params.get("notifications")
            subscription.honored = honored if isinstance(honored, dict) else {}
            if timer is not None and timer.active():
                timer.cancel()
            if not opened.called:
                opened.callback(subscription)

    def _cancelled(self, number: object) -> None:
        """
        The server ends it.  Its request is over without an answer, and without a cancellation of ours.
        """
        found = self._open.get(number) if isinstance(number, (int, str)) else None
        if found is not None:
            found[0]._over("server", None)
            Deferred.cancel(found[0]._call)  # Call's own would tell the server
        elif self._early is not None:
            self._early.append(lambda: self._cancelled(number))

    def _too_late(self, number: object, seconds: float) -> None:
        subscription, opened, _ = self._open[number]
        error = RequestTimedOut(LISTEN, seconds)
        subscription._over(None, error)
        if not opened.called:
            opened.errback(error)
        subscription._call.cancel("timeout")

    def _ended(
        self, number: object, subscription: Subscription, opened: Deferred[Subscription], error: AcpError | None
    ) -> None:
        _, _, timer = self._open.pop(number, (None, None, None))
        if timer is not None and timer.active():
            timer.cancel()
        if error is None:
            subscription._over("server", None)
        else:
            subscription._over(None, error)
        if opened.called:
            return
        if error is not None:
            opened.errback(error)
        else:
            opened.errback(AcpConnectionError("the server ended the subscription before it began"))


def _error_of(failure: Failure) -> AcpError:
    error = failure.value
    return error if isinstance(error, AcpError) else AcpConnectionError("the subscription failed", failure)
