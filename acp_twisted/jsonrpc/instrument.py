"""
Where somebody watches what passes: see L{IInstrument<acp_twisted.interfaces.IInstrument>}.  Nothing here is called
where nobody does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.interfaces import IInstrument, ISpan

if TYPE_CHECKING:
    from acp_twisted.jsonrpc.calls import Call
    from acp_twisted.jsonrpc.incoming import IncomingRequest
    from acp_twisted.jsonrpc.messages import Notification

_log = Logger()
_T = TypeVar("_T")


def _begun(begin: Callable[[], ISpan | None]) -> ISpan | None:
    """
    A span, if the message is watched.  What fails there concerns no message.
    """
    try:
        return begin()
    except Exception:
        _log.failure("an instrument failed")
        return None


def _end(span: ISpan, error: BaseException | None) -> None:
    with _log.failuresHandled("an instrument failed at the end of a span"):
        span.end(error)


def _run(span: ISpan, function: Callable[[], _T]) -> _T:
    """
    Call a function within a span; once, whatever becomes of the span.
    """
    came: list[_T] = []
    raised: list[BaseException] = []

    def call() -> None:
        try:
            came.append(function())
        except BaseException as error:
            raised.append(error)

    with _log.failuresHandled("an instrument failed"):
        span.run(call)
    if not came and not raised:
        call()
    if raised:
        raise raised[0]
    return came[0]


def watch_call(instrument: IInstrument, call: Call[Any], params: object) -> object:
    """
    A request is about to be sent.

    @return: its params, as they are to be sent.
    """
    span = _begun(lambda: instrument.sending(call.pending.method, params, True))
    if span is None:
        return params

    def ended(result: Any) -> Any:
        _end(span, result.value if isinstance(result, Failure) else None)
        return result

    call.addBoth(ended)
    call.nobody_listens()
    return span.params


def watch_notification(instrument: IInstrument, method: str, params: object) -> object:
    """
    A notification is about to be sent.

    @return: its params, as they are to be sent.
    """
    span = _begun(lambda: instrument.sending(method, params, False))
    if span is None:
        return params
    _end(span, None)
    return span.params


def watch_request(instrument: IInstrument, request: IncomingRequest, serve: Callable[[], None]) -> None:
    """
    A request has come.

    @param serve: starts its handler.
    """
    span = _begun(lambda: instrument.received(request.method, request.params, True))
    if span is None:
        serve()
        return
    request.ended = lambda error: _end(span, error)
    _run(span, serve)


def watch_handling(
    instrument: IInstrument, notification: Notification, handle: Callable[[], Deferred[object] | None]
) -> Deferred[object] | None:
    """
    A notification has come, and it is its turn.

    @param handle: calls its handler.
    """
    span = _begun(lambda: instrument.received(notification.method, notification.params, False))
    if span is None:
        return handle()
    try:
        result = _run(span, handle)
    except BaseException as error:
        _end(span, error)
        raise
    if not isinstance(result, Deferred):
        _end(span, None)
        return result

    def ended(came: Any) -> Any:
        _end(span, came.value if isinstance(came, Failure) else None)
        return came

    return result.addBoth(ended)
