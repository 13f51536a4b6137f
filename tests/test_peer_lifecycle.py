"""
The link: its end in every order, what is still answered, and pressure in both directions (design rules 1, 6, 7; P5,
B28, B63, B77, B79).
"""

from __future__ import annotations

import gc
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure
from wire import RecordingTransport, Wire, failure, no_result, success

from acp_twisted.errors import AcpConnectionError, RequestCancelled
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.router import TAKEN
from acp_twisted.limits import Limits

CANCELLED = [{"error": {"code": -32800, "message": "Request cancelled"}}]


@pytest.fixture
def wire() -> Wire:
    """A connected peer, one of whose methods, C{slow}, is never answered by its handler."""
    wire = Wire()
    wire.router.requests["slow"] = lambda _: Deferred()
    return wire


# ---- the link is lost


def test_loss_fails_every_pending_call_once(wire: Wire) -> None:
    """No call is left waiting, and each is told why (P5, B63, JR13)."""
    calls = [wire.peer.call("m") for _ in range(3)]
    reason = ConnectionResetError("reset")
    wire.lose(reason)
    errors = [failure(call, AcpConnectionError) for call in calls]
    assert all(error.reason is not None and error.reason.value is reason for error in errors)
    assert wire.peer.pending_requests == 0
    assert wire.clock.getDelayedCalls() == []
    assert wire.cancels == []


def test_reason_of_the_transport_is_kept(wire: Wire) -> None:
    """A transport that knows more (an exit code, say) gives the error itself (JR13)."""
    call = wire.peer.call("m")
    lost = AcpConnectionError("the agent exited", exit_code=3, stderr_tail="oops")
    wire.lose(lost)
    assert failure(call, AcpConnectionError) is lost
    assert wire.router.lost == [lost]


def test_calls_after_the_loss_fail_at_once(wire: Wire) -> None:
    """Nothing is asked of a link that is gone, and nothing hangs (B63, JR13)."""
    wire.lose()
    failure(wire.peer.call("m"), AcpConnectionError)
    failure(wire.peer.notify("n"), AcpConnectionError)
    failure(wire.peer.when_writable(), AcpConnectionError)
    assert wire.sent == []
    assert wire.clock.getDelayedCalls() == []


def test_loss_sets_tokens_and_stops_handlers_without_an_answer(wire: Wire, logged_errors: list[Any]) -> None:
    """Whoever works for the peer is told that it is gone; nobody can be answered (P5)."""
    stopped: list[str] = []
    requests: list[IncomingRequest] = []

    def handler(request: IncomingRequest) -> Deferred[object]:
        requests.append(request)
        return Deferred(lambda _: stopped.append("work"))

    wire.router.requests["m"] = handler
    wire.request(1, "m")
    wire.lose()
    assert stopped == ["work"]
    assert requests[0].token.triggers == ("connectionLost",)
    assert requests[0].answered
    assert not requests[0].respond("late")
    assert wire.sent == []
    assert wire.peer.incoming_requests == 0
    assert logged_errors == []


def test_handler_that_awaits_the_peer_ends_with_the_link(wire: Wire, logged_errors: list[Any]) -> None:
    """A nested request fails with the link, and its handler's end is no error in the log (B77)."""

    async def ask(_: object) -> object:
        return await wire.peer.call("theirs")

    wire.router.requests["m"] = ask
    wire.router.notifications["n"] = lambda _: Deferred.fromCoroutine(ask(None))
    wire.request(1, "m")
    wire.notify("n")
    wire.lose()
    gc.collect()
    assert logged_errors == []
    assert len(wire.peer.lanes) == 0


def test_loss_is_told_once(wire: Wire) -> None:
    """A second loss is none, and the first reason stands."""
    wire.lose(AcpConnectionError("first"))
    wire.lose(AcpConnectionError("second"))
    assert [str(lost) for lost in wire.router.lost] == ["first"]
    assert str(success(wire.peer.when_closed())) == "first"


def test_when_closed_fires_with_the_reason(wire: Wire) -> None:
    """Everybody who waits for the end is told, and one who no longer waits is not (B75)."""
    first, second, third = (wire.peer.when_closed() for _ in range(3))
    second.cancel()
    failure(second, CancelledError)
    no_result(first)
    wire.lose(AcpConnectionError("over"))
    assert str(success(first)) == str(success(third)) == "over"


def test_one_who_waits_for_the_end_may_cancel_another(wire: Wire) -> None:
    """A callback that cancels the next to be told raises nothing and costs nobody his turn (B75)."""
    first, second, third = (wire.peer.when_closed() for _ in range(3))
    first.addCallback(lambda _: second.cancel())
    wire.lose()
    success(first)
    failure(second, CancelledError)
    success(third)


def test_failing_router_does_not_stop_the_end(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, logged_errors: list[Any]
) -> None:
    """Whatever the router raises when it is told, the others are told too (rule 7)."""
    monkeypatch.setattr(wire.router, "connection_lost", lambda reason: 1 // 0)
    gone = wire.peer.when_closed()
    wire.lose()
    success(gone)
    assert len(logged_errors) == 1
    logged_errors.clear()


def test_callback_of_a_failed_call_may_ask_again(wire: Wire) -> None:
    """Who reacts to the loss by asking again is refused, and nothing is left over (B79)."""
    again = wire.peer.call("m").addErrback(lambda _: wire.peer.call("m"))
    wire.lose()
    failure(again, AcpConnectionError)
    assert wire.peer.pending_requests == 0
    assert wire.clock.getDelayedCalls() == []


@pytest.mark.parametrize("end", ["lose", "input_ended", "shutdown"])
def test_callback_of_a_failed_call_may_cancel_another(wire: Wire, end: str) -> None:
    """Who is told that nothing can be answered any more may give up what else he asked (P5, B75)."""
    first, second, third = (wire.peer.call("m") for _ in range(3))
    first.addErrback(lambda _: second.cancel())
    {"lose": wire.lose, "input_ended": wire.peer.input_ended, "shutdown": wire.peer.shutdown}[end]()
    success(first)
    failure(second, RequestCancelled)
    failure(third, AcpConnectionError)
    assert wire.cancels == []
    assert wire.clock.getDelayedCalls() == []


def test_messages_after_the_loss_are_harmless(wire: Wire) -> None:
    """A transport may deliver what it had read already; answers to it go nowhere."""
    wire.lose()
    wire.request(1, "slow")
    wire.request(2, "_x/ping")
    wire.result(1)
    wire.cancel(1)
    wire.peer.writing_paused()
    wire.peer.writing_resumed()
    assert wire.sent == []


# ---- an answer before the end


def test_answer_before_the_end_of_input_counts(wire: Wire) -> None:
    """The answer came, its update's handler takes a moment, and the end is right behind: the caller gets both (B28)."""
    handled: Deferred[None] = Deferred()
    wire.router.notifications["update"] = lambda _: handled
    call = wire.peer.call("prompt", {"sessionId": "s"}, timeout=0)
    wire.notify("update", {"sessionId": "s"})
    wire.result(1, "end_turn")
    wire.peer.input_ended()
    wire.lose()
    no_result(call)
    wire.clock.advance(0.05)
    handled.callback(None)
    assert success(call) == "end_turn"
    assert wire.clock.getDelayedCalls() == []


def test_answer_behind_a_handler_that_never_ends_comes_in_the_end(wire: Wire) -> None:
    """After the loss a held answer waits no longer than the drain timeout, so every call is settled (rule 1)."""
    wire.router.notifications["update"] = lambda _: Deferred()
    calls = [wire.peer.call("prompt", {"sessionId": "s"}, timeout=0) for _ in range(3)]
    wire.notify("update", {"sessionId": "s"})
    for number in (1, 2):
        wire.result(number, number)
    wire.lose()
    failure(calls[2], AcpConnectionError)
    wire.clock.advance(59)
    no_result(calls[0])
    wire.clock.advance(1)
    assert [success(call) for call in calls[:2]] == [1, 2]
    assert wire.clock.getDelayedCalls() == []


def test_no_timer_for_a_loss_without_held_answers(wire: Wire) -> None:
    """A handler that never ends is no reason for a timer where no answer waits for it (B79)."""
    wire.router.notifications["update"] = lambda _: Deferred()
    wire.notify("update")
    wire.lose()
    assert wire.clock.getDelayedCalls() == []


# ---- the peer closes its half


def test_end_of_input_fails_our_calls_and_answers_theirs(wire: Wire) -> None:
    """No answer can come any more; what was received is answered, and then the link is closed (B64, rule 1)."""
    work: Deferred[str] = Deferred()
    wire.router.requests["m"] = lambda _: work
    call = wire.peer.call("theirs")
    wire.request(1, "m")
    wire.peer.input_ended()
    failure(call, AcpConnectionError)
    failure(wire.peer.call("more"), AcpConnectionError)
    assert not wire.transport.closed
    wire.peer.notify("session/update", {"last": True})
    work.callback("r")
    assert [message.get("method") for message in wire.sent] == ["theirs", "session/update", None]
    assert wire.answers(1) == [{"result": "r"}]
    assert wire.transport.closed
    assert wire.clock.getDelayedCalls() == []


def test_end_of_input_with_nothing_open_closes(wire: Wire) -> None:
    """Nothing to answer: the link is closed at once, and once more does no harm."""
    wire.peer.input_ended()
    wire.peer.input_ended()
    assert wire.transport.closed
    assert wire.clock.getDelayedCalls() == []


def test_end_of_input_is_no_cancellation_until_the_drain_is_over(wire: Wire) -> None:
    """
    A handler has the drain timeout to finish; then it is cancelled, answered -32800, and the link closed (B64, JT18).
    """
    wire.request(1, "slow")
    wire.peer.input_ended()
    wire.clock.advance(59.9)
    assert wire.sent == []
    wire.clock.advance(0.1)
    assert wire.answers(1) == CANCELLED
    assert wire.transport.closed
    assert wire.clock.getDelayedCalls() == []


def test_loss_during_the_drain_stops_its_timer(wire: Wire) -> None:
    """The drain's timer dies with the connection (B79)."""
    wire.request(1, "slow")
    wire.peer.input_ended()
    wire.lose()
    assert wire.clock.getDelayedCalls() == []
    assert wire.sent == []


def test_drain_ends_even_for_one_who_took_a_request_and_forgot_it(wire: Wire) -> None:
    """Who took a request over and does not answer when stopped is answered for (rule 1)."""

    def take(request: IncomingRequest) -> object:
        request.stop = lambda trigger: None
        return TAKEN

    wire.router.requests["m"] = take
    wire.request(1, "m")
    wire.peer.input_ended()
    wire.clock.advance(60)
    assert wire.answers(1) == CANCELLED
    assert wire.transport.closed


# ---- we close


def test_shutdown_cancels_answers_and_closes_in_this_order(wire: Wire) -> None:
    """In good order: nested cancellations, answers, then the close; our own calls fail (B81, X7, JR12)."""

    async def ask(_: IncomingRequest) -> object:
        return await wire.peer.call("theirs")

    wire.router.requests["m"] = ask
    own = wire.peer.call("own")
    wire.request(1, "m")
    gone = wire.peer.shutdown()
    failure(own, AcpConnectionError)
    assert [message.get("method") for message in wire.sent] == ["own", "theirs", "$/cancel_request", None]
    assert wire.answers(1) == CANCELLED
    assert wire.transport.closed
    no_result(gone)
    wire.lose()
    assert success(gone) is None
    assert wire.clock.getDelayedCalls() == []


def test_requests_during_a_shutdown_are_refused(wire: Wire) -> None:
    """What still arrives is answered -32800, unseen by any handler (JT16, JR12)."""

    def take(request: IncomingRequest) -> object:
        request.stop = lambda trigger: None
        return TAKEN

    wire.router.requests["m"] = take
    wire.request(1, "m")
    wire.peer.shutdown()
    assert not wire.transport.closed
    wire.request(2, "slow")
    assert wire.answers(2)[0]["error"]["code"] == -32800
    failure(wire.peer.call("m"), AcpConnectionError)
    wire.clock.advance(60)
    assert wire.answers(1) == CANCELLED
    assert wire.transport.closed


def test_shutdown_twice_and_after_the_end(wire: Wire) -> None:
    """Closing is idempotent, and everybody who closes is told when it is done."""
    first, second = wire.peer.shutdown(), wire.peer.shutdown()
    wire.lose()
    success(first)
    success(second)
    success(wire.peer.shutdown())


def test_shutdown_before_the_connection() -> None:
    """A peer that is shut down first needs no transport; one that comes later is closed."""
    wire = Wire(connect=False)
    success(wire.peer.shutdown())
    failure(wire.peer.call("m"), AcpConnectionError)
    late = RecordingTransport()
    wire.peer.connection_made(late)
    assert late.closed
    failure(wire.peer.call("m"), AcpConnectionError)
    assert late.sent == []


def test_what_goes_on_beyond_its_answer_is_waited_for(wire: Wire) -> None:
    """
    Work that outlives its request holds the link open when the input has ended, is stopped when the drain is over or
    the agent shuts down, and counts for nothing once it is over (V2N13).
    """
    stopped: list[str] = []
    release = wire.peer.hold(stopped.append)
    assert wire.peer.incoming_requests == 1
    wire.peer.input_ended()
    assert not wire.transport.closed
    release()
    release()
    assert wire.peer.incoming_requests == 0
    assert wire.transport.closed
    assert stopped == []
    assert wire.clock.getDelayedCalls() == []

    late = Wire()
    forget = late.peer.hold(stopped.append)
    late.peer.input_ended()
    late.clock.advance(Limits().drain_timeout)
    assert stopped == ["shutdown"]
    assert late.transport.closed
    forget()

    other = Wire()
    ends: list[Any] = []
    ends.append(other.peer.hold(lambda trigger: (stopped.append(trigger), ends[0]())))
    other.peer.shutdown()
    assert stopped == ["shutdown", "shutdown"]
    assert other.transport.closed


def test_stopping_one_request_may_answer_another(wire: Wire) -> None:
    """A request that ends while the others are being stopped keeps its answer and its token."""
    requests: list[IncomingRequest] = []
    second: Deferred[str] = Deferred()

    def first(request: IncomingRequest) -> Deferred[object]:
        requests.append(request)
        return Deferred(lambda _: second.callback("done"))

    def other(request: IncomingRequest) -> Deferred[str]:
        requests.append(request)
        return second

    wire.router.requests.update(first=first, other=other)
    wire.request(1, "first")
    wire.request(2, "other")
    wire.peer.shutdown()
    assert wire.answers(1) == CANCELLED
    assert wire.answers(2) == [{"result": "done"}]
    assert [request.token.cancelled for request in requests] == [True, False]


# ---- output pressure


def test_notify_waits_while_the_output_is_full(wire: Wire) -> None:
    """Above the high-water mark the sender's Deferred waits; what he sends is sent all the same (B33, rule 6)."""
    assert success(wire.peer.notify("a")) is None
    wire.peer.writing_paused()
    waiting = [wire.peer.notify("b"), wire.peer.when_writable()]
    for each in waiting:
        no_result(each)
    assert [message["method"] for message in wire.sent] == ["a", "b"]
    wire.peer.writing_paused()
    wire.peer.writing_resumed()
    for each in waiting:
        assert success(each) is None
    assert success(wire.peer.notify("c")) is None


def test_waiting_for_room_can_be_given_up(wire: Wire) -> None:
    """Who no longer waits is not told, and the others are (B75)."""
    wire.peer.writing_paused()
    first, second, third = (wire.peer.when_writable() for _ in range(3))
    first.cancel()
    failure(first, CancelledError)
    second.addCallback(lambda _: third.cancel())
    fourth = wire.peer.when_writable()
    wire.peer.writing_resumed()
    success(second)
    failure(third, CancelledError)
    success(fourth)


def test_sender_who_fills_the_output_again(wire: Wire) -> None:
    """Room may be gone again before the last has been told of it; who asks then waits for the next."""
    wire.peer.writing_paused()
    again: list[Deferred[None]] = []

    def refill(_: None) -> None:
        wire.peer.writing_paused()
        again.append(wire.peer.notify("more"))

    wire.peer.when_writable().addCallback(refill)
    wire.peer.writing_resumed()
    no_result(again[0])
    wire.peer.writing_resumed()
    success(again[0])


def test_coroutine_that_sends_in_a_loop_stops_with_the_link(wire: Wire) -> None:
    """Awaiting a notification on a link that is gone raises; it neither hangs nor goes on (B77)."""

    async def stream() -> None:
        while True:
            await wire.peer.notify("chunk")

    wire.peer.writing_paused()
    streaming = Deferred.fromCoroutine(stream())
    no_result(streaming)
    wire.lose()
    failure(streaming, AcpConnectionError)
    failure(Deferred.fromCoroutine(stream()), AcpConnectionError)


@pytest.mark.parametrize("how", ["addErrback", "addBoth", "addCallbacks"])
def test_failed_notify_is_heard_by_every_kind_of_listener(wire: Wire, how: str) -> None:
    """However one listens for the failure, one hears it."""
    wire.peer.writing_paused()
    held = wire.peer.notify("n")
    wire.lose()
    heard: list[object] = []

    def hear(failed: Failure) -> None:
        heard.append(type(failed.value))

    for each in (held, wire.peer.notify("n")):
        if how == "addCallbacks":
            each.addCallbacks(lambda _: None, hear)
        else:
            getattr(each, how)(hear)
    assert heard == [AcpConnectionError] * 2


# ---- input pressure


def test_flood_of_notifications_pauses_reading_and_resumes() -> None:
    """Behind a slow handler only so many messages wait; reading goes on when half of them are done (rule 6)."""
    wire = Wire(Limits(max_queued_messages=4))
    slow: Deferred[None] = Deferred()
    seen: list[object] = []

    def handler(notification: Any) -> Deferred[None] | None:
        seen.append(notification.params["n"])
        return slow if notification.params["n"] == 0 else None

    wire.router.notifications["n"] = handler
    for number in range(5):
        wire.notify("n", {"n": number})
    assert wire.transport.reading
    wire.notify("n", {"n": 5})
    assert not wire.transport.reading
    assert seen == [0]
    slow.callback(None)
    assert wire.transport.reading
    assert seen == [0, 1, 2, 3, 4, 5]


def test_bytes_that_wait_are_bounded_too() -> None:
    """A few large messages pause reading like many small ones (rule 6)."""
    wire = Wire(Limits(max_queued_bytes=1000))
    slow: Deferred[None] = Deferred()
    wire.router.notifications["n"] = lambda _: slow
    wire.notify("n")
    wire.notify("n", {"a": "x" * 500})
    assert wire.transport.reading
    wire.notify("n", {"a": "x" * 500})
    assert not wire.transport.reading
    slow.callback(None)
    assert wire.transport.reading


def test_held_requests_and_answers_count_too() -> None:
    """Whatever waits in a lane is bounded: requests, answers and notifications together."""
    wire = Wire(Limits(max_queued_messages=2))
    wire.router.notifications["n"] = lambda _: Deferred()
    wire.router.requests["m"] = lambda _: Deferred()
    call = wire.peer.call("m", {"sessionId": "s"})
    wire.notify("n", {"sessionId": "s"})
    wire.request(1, "m", {"sessionId": "s"})
    wire.result(1)
    assert wire.transport.reading
    wire.request(2, "m", {"sessionId": "s"})
    assert not wire.transport.reading
    wire.cancel(2)
    assert not wire.transport.reading
    wire.cancel(1)
    assert wire.transport.reading
    no_result(call)


def test_request_that_is_refused_at_once_waits_nowhere() -> None:
    """A method that nobody handles is refused without its lane, and takes no place there."""
    wire = Wire(Limits(max_queued_messages=1))
    wire.router.notifications["n"] = lambda _: Deferred()
    wire.notify("n", {"sessionId": "s"})
    for number in range(5):
        wire.request(number, "_x", {"sessionId": "s"})
        assert wire.answers(number)[0]["error"]["code"] == -32601
    assert wire.transport.reading


def test_reading_goes_on_while_a_handler_waits_for_an_answer() -> None:
    """A paused link is read again as soon as a handler asks the peer: its answer is behind what waits (B31, B33)."""
    wire = Wire(Limits(max_queued_messages=2))
    start: Deferred[None] = Deferred()
    done: list[object] = []

    async def handler() -> None:
        await start
        done.append(await wire.peer.call("theirs"))

    wire.router.notifications["slow"] = lambda _: Deferred.fromCoroutine(handler())
    for method in ("slow", "n", "n", "n"):
        wire.notify(method)
    assert not wire.transport.reading
    start.callback(None)
    assert wire.transport.reading
    wire.notify("n")
    assert wire.transport.reading
    wire.result(1, "r")
    assert done == ["r"]
    assert len(wire.peer.lanes) == 0


def test_flood_without_the_awaited_answer_is_cut() -> None:
    """A peer that keeps sending all but the answer is not read for ever: the link is cut with a reason (rule 6)."""
    wire = Wire(Limits(max_queued_messages=2))
    wire.router.notifications["ask"] = lambda _: wire.peer.call("theirs")
    wire.notify("ask")
    for _ in range(16):
        wire.notify("n")
    assert wire.transport.aborted == []
    assert wire.transport.reading
    wire.notify("n")
    (reason,) = wire.transport.aborted
    assert "max_queued_messages" in reason


def test_nothing_is_resumed_on_a_link_that_is_gone() -> None:
    """What was held back is delivered after the loss, and leaves the dead transport alone."""
    wire = Wire(Limits(max_queued_messages=1))
    slow: Deferred[None] = Deferred()
    wire.router.notifications["slow"] = lambda _: slow
    for method in ("slow", "n", "n"):
        wire.notify(method)
    assert not wire.transport.reading
    wire.lose()
    slow.callback(None)
    assert not wire.transport.reading
    assert len(wire.peer.lanes) == 0
