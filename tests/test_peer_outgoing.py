"""
Requests of our own: one settlement, one cancellation, and nothing left behind (design rules 1, 2; X1, X6, P1-P3, P7).
"""

from __future__ import annotations

import gc
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.defer import TimeoutError as DeferredTimeoutError
from wire import Wire, failure, no_result, success

from acp_twisted.errors import (
    AcpConnectionError,
    AcpError,
    AuthRequired,
    InvalidResponse,
    LimitExceeded,
    RequestCancelled,
    RequestTimedOut,
)
from acp_twisted.jsonrpc.messages import EncodeError
from acp_twisted.limits import Limits


@pytest.fixture
def wire() -> Wire:
    """A connected peer."""
    return Wire()


def settled(wire: Wire) -> None:
    """Nothing is left of any request: no entry, no timer, no lane (B20, B79)."""
    assert wire.peer.pending_requests == 0
    assert wire.clock.getDelayedCalls() == []
    assert len(wire.peer.lanes) == 0


# ---- an answer


def test_request_goes_out_with_its_params_and_the_answer_comes_back(wire: Wire) -> None:
    """A request is one message with a fresh integer id, and its result is the caller's."""
    call = wire.peer.call("session/new", {"cwd": "/w"})
    assert wire.sent == [{"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/w"}}]
    assert call.request_id == 1
    no_result(call)
    wire.result(1, {"sessionId": "s"})
    assert success(call) == {"sessionId": "s"}
    settled(wire)


@pytest.mark.parametrize("result", [None, False, 0, "", [], {}, {"error": 1}])
def test_any_json_is_a_result(wire: Wire, result: object) -> None:
    """A false or null result is a result all the same."""
    call = wire.peer.call("m")
    wire.result(1, result)
    assert success(call) == result
    settled(wire)


def test_each_call_has_an_id_of_its_own(wire: Wire) -> None:
    """Ids are never used twice, so a repeated request is a new one (X13); answers may come in any order."""
    calls = [wire.peer.call("m") for _ in range(3)]
    assert [message["id"] for message in wire.sent] == [1, 2, 3]
    for number in (3, 1, 2):
        wire.result(number, number)
    assert [success(call) for call in calls] == [1, 2, 3]
    assert wire.peer.call("m").request_id == 4


def test_error_answer_is_the_error_that_its_code_names(wire: Wire) -> None:
    """The peer's code, message and data reach the caller, as a typed and remote error (C21)."""
    call = wire.peer.call("m")
    wire.receive(
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "log in", "data": {"methods": ["a"]}}}
    )
    error = failure(call, AuthRequired)
    assert (error.code, error.message, error.data, error.remote) == (-32000, "log in", {"methods": ["a"]}, True)
    settled(wire)


def test_unknown_error_code_is_kept(wire: Wire) -> None:
    """An error code that nobody defined reaches the caller as it is (rule 10)."""
    call = wire.peer.call("m")
    wire.error(1, -31999, "odd")
    assert failure(call, AcpError).code == -31999


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 1},
        {"id": 1, "result": 1, "error": {"code": 1, "message": "m"}},
        {"id": 1, "error": "no object"},
        {"id": 1, "error": {"message": "no code"}},
    ],
)
def test_answer_that_is_none_fails_its_caller_and_nobody_else(wire: Wire, answer: dict[str, Any]) -> None:
    """A response that breaks JSON-RPC settles the call that it is for; the link lives (rule 7)."""
    call = wire.peer.call("m")
    other = wire.peer.call("m")
    wire.receive({"jsonrpc": "2.0", **answer})
    failure(call, InvalidResponse)
    no_result(other)
    assert wire.healthy()


@pytest.mark.parametrize("answers_noise", [True, False])
@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"cost":NaN}}',
        b'{"jsonrpc":"2.0","result":{"text":"\\ud83d"},"id":1}',
        b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1e400,"message":"m"}}',
    ],
)
def test_answer_that_is_no_json_fails_its_caller_and_nobody_else(line: bytes, answers_noise: bool) -> None:
    """An answer that can't be read settles the call that it is for, where its id can be (rule 1)."""
    wire = Wire(answers_noise=answers_noise)
    call = wire.peer.call("m")
    other = wire.peer.call("m")
    wire.peer.message_received(line)
    failure(call, InvalidResponse)
    no_result(other)
    assert wire.peer.stray_messages == 1
    assert wire.healthy()


def test_log_line_with_the_id_of_a_call_is_no_answer() -> None:
    """What an agent's program logs as JSON may have an id of its own: nobody's call fails for it (B39)."""
    wire = Wire(answers_noise=False)
    call = wire.peer.call("m")
    wire.peer.message_received(b'{"level":"info","id":1,"message":"started"}')
    no_result(call)
    assert len(wire.sent) == 1
    wire.result(1, "r")
    assert success(call) == "r"


def test_digits_in_a_string_answer_our_integer(wire: Wire) -> None:
    """An answer whose id is our integer in quotes can be for nothing else (B47)."""
    call = wire.peer.call("m")
    wire.result("1", "r")
    assert success(call) == "r"


@pytest.mark.parametrize(
    "strange", [True, 1.0, "01", "1.0", " 1", "+1", "\u0661", "1" * 40, -1, 2, None, [1], {"a": 1}]
)
def test_no_other_id_answers_our_integer(wire: Wire, strange: object) -> None:
    """True and 1.0 equal 1 in Python, and are other ids on the wire (B47); the real answer still counts."""
    call = wire.peer.call("m")
    wire.result(strange, "wrong")
    no_result(call)
    wire.result(1, "right")
    assert success(call) == "right"


def test_error_without_an_id_fails_no_call(wire: Wire) -> None:
    """The peer's "I could not read that" names no request, so every request stays pending (B46, JR7)."""
    call = wire.peer.call("m")
    wire.error(None, -32700)
    no_result(call)
    assert wire.healthy()


def test_answer_to_nothing_is_dropped(wire: Wire) -> None:
    """An orphaned or second answer is logged and dropped, and the link lives (B53, JR7)."""
    wire.result(999)
    call = wire.peer.call("m")
    wire.result(1, "first")
    wire.result(1, "second")
    wire.error(1, -32603)
    assert success(call) == "first"
    assert wire.healthy()


def test_answer_too_large_to_read_fails_its_caller(wire: Wire) -> None:
    """The caller of an answer that was skipped for its size is told; an unknown one concerns nobody (B34)."""
    call = wire.peer.call("m")
    wire.peer.oversized_received(b'{"jsonrpc":"2.0","id":7,"result":"', 99)
    no_result(call)
    wire.peer.oversized_received(b'{"jsonrpc":"2.0","id":1,"result":"', 99)
    failure(call, InvalidResponse)
    assert wire.answers(None) == []
    settled(wire)


@pytest.mark.parametrize("tail", [b'x","id":1}', b'],"id" : 1 }', b'{}],"id":"1"}'])
def test_answer_too_large_whose_id_comes_last_fails_its_caller(wire: Wire, tail: bytes) -> None:
    """Peers may write the members in any order, and a prompt has no timeout that would end it (B34, rule 1)."""
    call = wire.peer.call("m")
    wire.peer.oversized_received(b'{"jsonrpc":"2.0","result":{"text":"', 10**9, b'text","id":1}}')  # nested
    no_result(call)
    wire.peer.oversized_received(b'{"jsonrpc":"2.0","result":{"text":"', 10**9, tail)
    failure(call, InvalidResponse)
    settled(wire)


def test_failing_callback_of_the_application_stays_there(wire: Wire) -> None:
    """What a caller's own callback raises never reaches the reader (B77)."""
    call = wire.peer.call("m").addCallback(lambda _: 1 // 0)
    wire.result(1)
    failure(call, ZeroDivisionError)
    assert wire.healthy()


def test_a_callback_may_ask_again(wire: Wire) -> None:
    """A caller may send his next request from inside the answer to the last."""
    call = wire.peer.call("a").addCallback(lambda _: wire.peer.call("b"))
    wire.result(1)
    wire.result(2, "b's")
    assert success(call) == "b's"
    settled(wire)


def test_remainder_of_the_input_may_be_an_answer(wire: Wire) -> None:
    """An answer that lost its newline to the end of the input still counts (B49), and the end does not fail it."""
    call = wire.peer.call("m")
    lost = wire.peer.call("m")
    wire.peer.remainder_received(b'{"jsonrpc":"2.0","id":1,"result":"whole"}')
    wire.peer.remainder_received(b'{"jsonrpc":"2.0","id":2,"resu')
    wire.peer.input_ended()
    assert success(call) == "whole"
    failure(lost, AcpConnectionError)


# ---- a cancellation


def test_cancel_ends_the_caller_at_once_and_tells_the_peer_once(wire: Wire) -> None:
    """Giving up sends one cancellation with the request's id, and ends the Deferred at once (C5, C6, P2, B20, X1)."""
    wire.peer.call("other")
    call = wire.peer.call("m")
    call.cancel()
    assert not failure(call, RequestCancelled).remote
    call.cancel()
    assert wire.sent[2:] == [{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}}]
    assert wire.peer.pending_requests == 1


def test_cancelled_is_a_cancelled_error_for_twisted(wire: Wire) -> None:
    """Code that knows only Twisted's CancelledError sees a cancellation."""
    call = wire.peer.call("m")
    call.cancel()
    failure(call, CancelledError)


def test_late_answer_is_dropped_quietly(wire: Wire, logged_errors: list[Any]) -> None:
    """A peer that answers a cancelled request, twice even, disturbs nothing (C8, C28, B20, P2)."""
    call = wire.peer.call("m")
    call.cancel()
    failure(call, RequestCancelled)
    wire.error(1, -32800)
    wire.result(1, "late")
    assert logged_errors == []
    assert wire.healthy()
    settled(wire)


def test_only_so_many_cancelled_ids_are_remembered() -> None:
    """What is known of cancelled requests is bounded, however many there are (rule 6)."""
    wire = Wire(Limits(max_remembered_ids=2))
    for _ in range(5):
        call = wire.peer.call("m")
        call.cancel()
        failure(call, RequestCancelled)
    for number in range(1, 6):
        wire.result(number)
    assert wire.healthy()


def test_cancel_after_the_answer_sends_nothing(wire: Wire) -> None:
    """An answered request is never cancelled, from the Deferred or a handle (C12, P1, JR3)."""
    call = wire.peer.call("m")
    handle = call.cancel_handle()
    wire.result(1, "r")
    call.cancel()
    handle.cancel()
    assert success(call) == "r"
    assert wire.cancels == []


def test_cancel_reaches_what_a_callback_returned(wire: Wire) -> None:
    """
    Once answered, cancelling goes to the Deferred that the caller's callback chained, as anywhere in Twisted (R16).
    """
    inner: Deferred[None] = Deferred()
    call = wire.peer.call("m").addCallback(lambda _: inner)
    wire.result(1)
    call.cancel()
    failure(call, CancelledError)
    assert inner.called
    assert wire.cancels == []


def test_cancel_of_an_answer_that_waits_its_turn_sends_nothing(wire: Wire) -> None:
    """
    The answer has come, but waits behind a notification: the caller ends, the peer is not told (C9-C11, C48, R22).
    """
    slow: Deferred[None] = Deferred()
    wire.router.notifications["n"] = lambda _: slow
    call = wire.peer.call("m", {"sessionId": "s"})
    wire.notify("n", {"sessionId": "s"})
    wire.result(1, "r")
    no_result(call)
    call.cancel_handle().cancel()
    call.cancel()
    failure(call, RequestCancelled)
    assert wire.cancels == []
    slow.callback(None)
    settled(wire)


def test_handle_cancels_and_the_caller_gets_the_answer(wire: Wire) -> None:
    """A handle asks; whatever the peer answers, a late result even, is the caller's (C5, X6, R5, A2)."""
    first, second = wire.peer.call("m"), wire.peer.call("m")
    first.cancel_handle().cancel()
    second.cancel_handle().cancel()
    wire.error(1, -32800, "Request cancelled")
    wire.result(2, "partial")
    assert failure(first, RequestCancelled).remote
    assert success(second) == "partial"
    settled(wire)


def test_all_ways_to_cancel_share_one_shot(wire: Wire) -> None:
    """Handles, the Deferred and the timeout send one cancellation between them (C50)."""
    call = wire.peer.call("m", timeout=5)
    call.cancel_handle().cancel()
    call.cancel_handle().cancel("again")
    wire.clock.advance(5)
    call.cancel()
    failure(call, RequestTimedOut)
    assert wire.cancels == [{"requestId": 1}]


def test_dropped_handle_does_nothing(wire: Wire) -> None:
    """A handle is inert: letting go of it sends nothing, and leaves the request cancellable (C51)."""
    call = wire.peer.call("m")
    handle = call.cancel_handle()
    del handle
    gc.collect()
    assert wire.cancels == []
    call.cancel()
    failure(call, RequestCancelled)
    assert wire.cancels == [{"requestId": 1}]


def test_handle_before_publication_does_nothing_and_is_not_remembered(wire: Wire) -> None:
    """Cancelling what is not sent yet sends nothing and uses nothing up (C49, R7, P1)."""
    call = wire.peer.prepare("m")
    handle = call.cancel_handle()
    handle.cancel()
    assert wire.sent == []
    assert call.request_id is None
    assert wire.peer.publish(call, {"a": 1}) is call
    assert [message["method"] for message in wire.sent] == ["m"]
    handle.cancel()
    assert wire.cancels == [{"requestId": 1}]
    wire.result(1, "r")
    assert success(call) == "r"


def test_prepared_call_that_was_cancelled_is_never_sent(wire: Wire) -> None:
    """A Deferred cancelled before its request was sent ends, and nothing is ever written (rule 2, JR4)."""
    call = wire.peer.prepare("m")
    call.cancel()
    failure(call, RequestCancelled)
    wire.peer.publish(call)
    assert wire.sent == []
    settled(wire)


@pytest.mark.parametrize("also", ["nothing", "close"])
def test_prepared_call_that_is_cancelled_by_what_it_lets_through_is_never_sent(wire: Wire, also: str) -> None:
    """A handler that asks lets the requests go that wait behind it, and one of those may cancel that call (C51)."""
    call, begin = wire.peer.prepare("theirs"), Deferred[None]()

    def request(_: object) -> object:
        call.cancel()
        if also == "close":
            wire.lose()
        return None

    async def ask() -> None:
        await begin
        wire.peer.publish(call)

    wire.router.requests["ours"] = request
    wire.router.notifications["n"] = lambda _: Deferred.fromCoroutine(ask())
    wire.notify("n")
    wire.request(1, "ours")
    begin.callback(None)
    failure(call, RequestCancelled)
    assert [message for message in wire.sent if "method" in message] == []
    assert wire.peer.pending_requests == 0
    assert wire.clock.getDelayedCalls() == []
    assert len(wire.peer.lanes) == 0


def test_published_before_anybody_listens(wire: Wire) -> None:
    """The request is on its way when publish returns, not when its Deferred is first listened to (C52); and once."""
    call = wire.peer.prepare("m")
    wire.peer.publish(call)
    wire.peer.publish(call)
    assert [message["method"] for message in wire.sent] == ["m"]


def test_detached_request_is_not_cancelled(wire: Wire) -> None:
    """Detaching gives up the answer alone: no cancellation, no timeout, and the Deferred stays silent (C7, P3, R21)."""
    call = wire.peer.call("m", timeout=5)
    call.detach()
    assert wire.clock.getDelayedCalls() == []
    wire.clock.advance(100)
    assert wire.cancels == []
    assert wire.peer.pending_requests == 1
    wire.result(1, "unwanted")
    no_result(call)
    settled(wire)


def test_detached_request_can_still_be_cancelled_explicitly(wire: Wire) -> None:
    """A handle kept from before works on, while the request is unanswered (the Rust page) (R14)."""
    call = wire.peer.call("m")
    handle = call.cancel_handle()
    call.detach()
    handle.cancel()
    handle.cancel()
    assert wire.cancels == [{"requestId": 1}]
    wire.error(1, -32800)
    no_result(call)
    settled(wire)


def test_detached_while_its_answer_waits_its_turn(wire: Wire) -> None:
    """Detaching also counts when the answer has come and is held behind a notification (P3)."""
    slow: Deferred[None] = Deferred()
    wire.router.notifications["n"] = lambda _: slow
    call = wire.peer.call("m", {"sessionId": "s"})
    wire.notify("n", {"sessionId": "s"})
    wire.result(1, "r")
    call.detach()
    slow.callback(None)
    no_result(call)
    settled(wire)


def test_detached_before_publication(wire: Wire) -> None:
    """A prepared call may be detached first: it is sent, has no timeout, and its answer is nobody's."""
    call = wire.peer.prepare("m")
    call.detach()
    wire.peer.publish(call)
    assert wire.clock.getDelayedCalls() == []
    wire.result(1)
    no_result(call)
    settled(wire)


def test_waiting_call_gets_the_peers_answer(wire: Wire) -> None:
    """With wait, a cancelled call ends with what the peer answers, not before (X6, R5)."""
    call = wire.peer.call("m", wait=True)
    call.cancel()
    call.cancel()
    no_result(call)
    assert wire.cancels == [{"requestId": 1}]
    wire.result(1, {"stopReason": "cancelled"})
    assert success(call) == {"stopReason": "cancelled"}
    settled(wire)


def test_waiting_call_waits_no_longer_than_its_bound(wire: Wire) -> None:
    """
    A peer that ignores the cancellation is waited for so long and no longer; its late answer is dropped (B10, A2,
    X6).
    """
    call = wire.peer.call("m", timeout=60, wait=True, wait_timeout=10)
    wire.clock.advance(30)
    call.cancel()
    wire.clock.advance(9)
    call.cancel()
    no_result(call)
    wire.clock.advance(1)
    assert not failure(call, RequestCancelled).remote
    assert wire.cancels == [{"requestId": 1}]
    wire.result(1)
    assert wire.healthy()
    settled(wire)


def test_waiting_call_without_a_bound_keeps_its_timeout(wire: Wire) -> None:
    """Without a bound of its own, the waiting is bounded by the request's timeout."""
    call = wire.peer.call("m", timeout=60, wait=True)
    call.cancel()
    wire.clock.advance(60)
    failure(call, RequestTimedOut)
    assert wire.cancels == [{"requestId": 1}]


def test_waiting_call_that_was_not_sent_ends_at_once(wire: Wire) -> None:
    """There is no answer to wait for before the request is out."""
    call = wire.peer.prepare("m", wait=True)
    call.cancel()
    failure(call, RequestCancelled)
    assert wire.sent == []


def test_waiting_call_whose_answer_is_held_still_gets_it(wire: Wire) -> None:
    """The answer has come and waits behind a notification: a cancel with wait sends nothing and loses nothing."""
    slow: Deferred[None] = Deferred()
    wire.router.notifications["n"] = lambda _: slow
    call = wire.peer.call("m", {"sessionId": "s"}, wait=True)
    wire.notify("n", {"sessionId": "s"})
    wire.result(1, "r")
    call.cancel()
    no_result(call)
    slow.callback(None)
    assert success(call) == "r"
    assert wire.cancels == []


def test_answer_from_within_the_cancellation_counts_for_who_waits(wire: Wire) -> None:
    """On a link without delay the answer may come while the cancellation is sent: it counts, and nothing is left."""
    follow_up: Deferred[None] = Deferred()
    call = wire.peer.call("m", wait=True, wait_timeout=5).addCallback(lambda _: follow_up)
    wire.transport.on_send = lambda message: wire.result(1)
    call.cancel()
    no_result(follow_up)
    settled(wire)


def test_answer_from_within_the_cancellation_is_too_late_for_who_does_not(wire: Wire) -> None:
    """The entry has left the table before the cancellation is sent, on a link without delay too (design rule 2)."""
    call = wire.peer.call("m")
    wire.transport.on_send = lambda message: wire.result(1)
    call.cancel()
    assert not failure(call, RequestCancelled).remote
    settled(wire)


def test_low_level_cancel_carries_any_id(wire: Wire) -> None:
    """Who routes requests himself may send a cancellation for any id (C4)."""
    for number in (5, "five"):
        wire.peer.send_cancel_request(number)
    assert wire.cancels == [{"requestId": 5}, {"requestId": "five"}]


def test_no_reason_in_acp(wire: Wire) -> None:
    """ACP's cancellation has no room for a reason, so none is sent."""
    call = wire.peer.call("m")
    call.cancel("because")
    failure(call, RequestCancelled)
    assert wire.cancels == [{"requestId": 1}]


# ---- a timeout


def test_default_timeout_is_a_minute_and_cancels(wire: Wire) -> None:
    """Without an answer for 60 seconds the call fails and the peer is told, once (P7)."""
    call = wire.peer.call("m")
    wire.clock.advance(59.9)
    no_result(call)
    assert wire.cancels == []
    wire.clock.advance(0.1)
    error = failure(call, RequestTimedOut)
    assert (error.method, error.seconds) == ("m", 60.0)
    assert wire.cancels == [{"requestId": 1}]
    wire.result(1, "late")
    assert wire.healthy()
    settled(wire)


def test_timeout_of_one_call(wire: Wire) -> None:
    """Each call may have a timeout of its own, and zero is none at all."""
    short, endless = wire.peer.call("m", timeout=1), wire.peer.call("m", timeout=0)
    wire.clock.advance(1)
    failure(short, RequestTimedOut)
    wire.clock.advance(1e6)
    no_result(endless)
    assert wire.clock.getDelayedCalls() == []


def test_no_default_timeout() -> None:
    """A peer may be made without a request timeout."""
    wire = Wire(request_timeout=0)
    call = wire.peer.call("m")
    assert wire.clock.getDelayedCalls() == []
    no_result(call)


def test_answer_stops_the_timer(wire: Wire) -> None:
    """No timer outlives its request (B79)."""
    call = wire.peer.call("m")
    wire.result(1)
    success(call)
    assert wire.clock.getDelayedCalls() == []


def test_twisteds_own_timeout_cancels_once(wire: Wire) -> None:
    """Deferred.addTimeout is a cancellation like any other (rule 2, P2)."""
    call = wire.peer.call("m", timeout=0)
    call.addTimeout(3, wire.clock)
    wire.clock.advance(3)
    failure(call, DeferredTimeoutError)
    assert wire.cancels == [{"requestId": 1}]
    settled(wire)


def test_time_spent_waiting_for_its_turn_counts(wire: Wire) -> None:
    """
    An answer that is held behind a handler that never ends does not hold its caller for ever; it sends no cancel
    (JR2).
    """
    wire.router.notifications["n"] = lambda _: Deferred()
    call = wire.peer.call("m", {"sessionId": "s"})
    wire.notify("n", {"sessionId": "s"})
    wire.result(1)
    wire.clock.advance(59)
    no_result(call)
    wire.clock.advance(1)
    failure(call, RequestTimedOut)
    assert wire.cancels == []


def test_answer_that_came_while_the_reactor_stood_still_counts(wire: Wire) -> None:
    """It is read before the time that has passed meanwhile ends the call; without one the call ends as ever (P2)."""
    first, second = (wire.peer.call("m", timeout=5) for _ in range(2))
    wire.clock.callLater(30, wire.result, 1, "r")  # what is due at 5 comes before it, though it is 60 by then
    wire.clock.advance(60)
    assert success(first) == "r"
    failure(second, RequestTimedOut)
    assert wire.cancels == [{"requestId": 2}]
    assert wire.clock.getDelayedCalls() == []


def test_progress_that_came_while_the_reactor_stood_still_counts(wire: Wire) -> None:
    """It starts the timeout anew, but never past the longest (P2)."""
    bounded, free = wire.peer.call("m", timeout=5, max_timeout=7), wire.peer.call("m", timeout=5)
    for call in (bounded, free):
        wire.clock.callLater(30, call.progressed)
    wire.clock.advance(60)
    failure(bounded, RequestTimedOut)
    wire.clock.advance(4.5)
    no_result(free)
    wire.clock.advance(0.5)
    failure(free, RequestTimedOut)
    assert wire.clock.getDelayedCalls() == []


# ---- what can't be sent


@pytest.mark.parametrize("params", [{"a": {1, 2}}, {"a": float("nan")}, {"a": "\ud800"}, {"a": 2**64}])
def test_unencodable_request_fails_its_own_call(wire: Wire, params: object) -> None:
    """A request that no JSON can carry fails its Deferred and leaves no entry (B59, B42)."""
    call = wire.peer.call("m", params)
    failure(call, EncodeError)
    assert wire.sent == []
    settled(wire)


def test_unencodable_notification_raises(wire: Wire) -> None:
    """A notification that no JSON can carry is its sender's error, there and then."""
    with pytest.raises(EncodeError):
        wire.peer.notify("n", {"a": object()})
    assert wire.sent == []


def test_too_many_requests_fail_at_once() -> None:
    """The table of unanswered requests is bounded; an answer makes room (rule 6)."""
    wire = Wire(Limits(max_outgoing_requests=2))
    first, second = wire.peer.call("m"), wire.peer.call("m")
    failure(wire.peer.call("m"), LimitExceeded)
    assert len(wire.sent) == 2
    wire.result(1)
    success(first)
    third = wire.peer.call("m")
    no_result(second)
    no_result(third)
    assert len(wire.sent) == 3


def test_nothing_is_asked_before_the_connection() -> None:
    """A call on a peer that is not connected fails at once, with no entry (B63)."""
    wire = Wire(connect=False)
    failure(wire.peer.call("m"), AcpConnectionError)
    failure(wire.peer.notify("n"), AcpConnectionError)
    settled(wire)


def test_link_that_goes_while_a_request_is_sent(wire: Wire) -> None:
    """A write that ends the link settles the call once, whatever it was that was written (B75, B79, JR3)."""
    wire.transport.on_send = lambda _: wire.lose()
    call = wire.peer.call("m")
    failure(call, AcpConnectionError)
    assert len(wire.sent) == 1
    settled(wire)


@pytest.mark.parametrize(
    ("how", "end"), [("cancel", RequestCancelled), ("timeout", RequestTimedOut), ("handle", AcpConnectionError)]
)
def test_link_that_goes_while_a_cancellation_is_sent(wire: Wire, how: str, end: type[AcpError]) -> None:
    """
    Cancellers and timers never raise, also when sending the cancellation ends the link (B75, B79).  Who gave the call
    up has what he asked for; only who still waits learns of the link.
    """
    call = wire.peer.call("m", timeout=5)
    wire.transport.on_send = lambda _: wire.lose()
    if how == "cancel":
        call.cancel()
    elif how == "handle":
        call.cancel_handle().cancel()
    else:
        wire.clock.advance(5)
    failure(call, end)
    assert wire.cancels == [{"requestId": 1}]
    settled(wire)


# ---- nobody listens


def test_unwatched_failures_make_no_noise(wire: Wire, logged_errors: list[Any]) -> None:
    """Discarded calls and notifications leave nothing in the log, whether refused or lost with the link (B77)."""
    wire.peer.call("refused")
    wire.error(1, -32603)
    for _ in range(50):
        wire.peer.call("m")
    wire.peer.writing_paused()
    wire.peer.notify("n")
    wire.lose()
    wire.peer.call("m")
    wire.peer.notify("n")
    gc.collect()
    assert logged_errors == []


def test_watched_failure_that_is_not_handled_is_reported(wire: Wire, logged_errors: list[Any]) -> None:
    """Once there is a callback, an unhandled failure is Twisted's "Unhandled error in Deferred" as ever (B77)."""
    wire.peer.call("m").addCallback(lambda _: None)
    wire.error(1, -32603)
    gc.collect()
    assert logged_errors
    logged_errors.clear()


def test_failure_reaches_the_deferred_that_it_is_chained_to(wire: Wire) -> None:
    """A failed notify that a callback returns fails the chain; it does not stop it for ever."""
    wire.lose()
    chain = succeed(None).addCallback(lambda _: wire.peer.notify("n"))
    failure(chain, AcpConnectionError)


def test_lost_wait_for_room_reaches_the_deferred_that_it_is_chained_to(wire: Wire) -> None:
    """So does one that was lost while it waited for room."""
    wire.peer.writing_paused()
    chain = succeed(None).addCallback(lambda _: wire.peer.notify("n"))
    no_result(chain)
    wire.lose()
    failure(chain, AcpConnectionError)


def test_one_request_may_be_known_to_get_no_answer(wire: Wire) -> None:
    """A transport that carries each request by itself says which one failed; the others go on, and nothing is sent."""
    first, second = wire.peer.call("m", timeout=5), wire.peer.call("m", timeout=5)
    wire.peer.unanswerable(1, AcpConnectionError("HTTP 502"))
    failure(first, AcpConnectionError)
    wire.peer.unanswerable(1, AcpConnectionError("again"))
    wire.peer.unanswerable(99, AcpConnectionError("of nobody"))
    wire.result(2, "r")
    assert success(second) == "r"
    assert wire.cancels == []
    assert wire.clock.getDelayedCalls() == []
