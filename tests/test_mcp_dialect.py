"""
The same peer speaking MCP: the rules of its cancellation page (2026-07-28).
"""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import LogLevel, capturedLogs, formatEvent
from wire import Wire, failure, no_result, success

from acp_twisted.errors import RequestCancelled, RequestTimedOut
from acp_twisted.jsonrpc.cancellation import MCP
from acp_twisted.jsonrpc.incoming import IncomingRequest


@pytest.fixture
def wire() -> Wire:
    """A connected peer that speaks MCP, one of whose methods, C{slow}, is never answered by its handler."""
    wire = Wire(dialect=MCP)
    wire.router.requests["slow"] = lambda _: Deferred()
    return wire


def test_cancellation_is_mcps_notification_with_a_reason(wire: Wire) -> None:
    """It names the request, and why, where somebody said so (M1, M4)."""
    call = wire.peer.call("tools/call")
    call.cancel("User requested cancellation")
    failure(call, RequestCancelled)
    assert wire.sent[1:] == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 1, "reason": "User requested cancellation"},
        }
    ]


def test_reason_is_optional(wire: Wire) -> None:
    """Without a reason there is no member for it (M4)."""
    call = wire.peer.call("tools/call")
    call.cancel()
    failure(call, RequestCancelled)
    assert wire.cancels == [{"requestId": 1}]


def test_initialize_is_never_cancelled(wire: Wire) -> None:
    """The caller of initialize may give up, by any way; the server is not told (M31)."""
    calls = [wire.peer.call("initialize", timeout=5) for _ in range(3)]
    calls[0].cancel("x")
    calls[1].cancel_handle().cancel()
    wire.clock.advance(5)
    failure(calls[0], RequestCancelled)
    failure(calls[1], RequestTimedOut)
    failure(calls[2], RequestTimedOut)
    assert wire.cancels == []
    wire.result(1, "late")
    assert wire.healthy()


def test_only_requests_of_ours_that_are_in_progress_are_cancelled(wire: Wire) -> None:
    """Nothing is sent for what is answered (behaviour 1, M15, M16)."""
    call = wire.peer.call("tools/call")
    handle = call.cancel_handle()
    wire.result(1, "r")
    handle.cancel("too late")
    assert success(call) == "r"
    assert wire.cancels == []


def test_cancelled_request_is_stopped_and_not_answered(wire: Wire) -> None:
    """The work is stopped, its resources are freed, and no response is sent (behaviour 3, M18, M19, M20)."""
    stopped: list[str] = []
    wire.router.requests["m"] = lambda _: Deferred(lambda _: stopped.append("work"))
    wire.request("123", "m")
    wire.cancel("123", reason="User requested cancellation")
    assert stopped == ["work"]
    assert wire.sent == []
    assert wire.peer.incoming_requests == 0
    assert wire.healthy()


def test_handler_that_answers_its_cancellation_is_not_heard(wire: Wire) -> None:
    """Neither a partial result nor a late one is sent (M20, M25)."""
    taken: list[IncomingRequest] = []

    def handler(request: IncomingRequest) -> object:
        taken.append(request)
        request.token.on_cancel(lambda: request.respond("partial"))
        return Deferred()

    wire.router.requests["m"] = handler
    wire.request(1, "m")
    wire.cancel(1)
    assert not taken[0].respond("late")
    assert wire.sent == []


def test_id_of_a_cancelled_request_may_be_used_again(wire: Wire) -> None:
    """Though it was never answered, it is over (M19)."""
    wire.request(1, "slow")
    wire.cancel(1)
    wire.router.requests["m"] = lambda _: "r"
    wire.request(1, "m")
    assert wire.answers(1) == [{"result": "r"}]


def test_request_that_fails_by_itself_is_answered(wire: Wire) -> None:
    """Only a cancelled request goes unanswered; -32800 from inside is an answer like any other."""

    def handler(_: IncomingRequest) -> object:
        raise RequestCancelled("context full")

    wire.router.requests["m"] = handler
    wire.request(1, "m")
    assert wire.answers(1) == [{"error": {"code": -32800, "message": "context full"}}]


def test_shutdown_still_answers(wire: Wire) -> None:
    """What this side stops for its own reasons is answered."""
    wire.request(1, "slow")
    wire.peer.shutdown()
    assert wire.answers(1)[0]["error"]["code"] == -32800
    assert wire.transport.closed


@pytest.mark.parametrize("params", [None, {}, {"requestId": 2}, {"requestId": "1"}, {"requestId": None}, [1]])
def test_invalid_cancellations_are_ignored(wire: Wire, params: object) -> None:
    """Unknown ids and malformed notifications do nothing, and nobody is told (error handling) (M28, M30)."""
    work: Deferred[str] = Deferred()
    wire.router.requests["m"] = lambda _: work
    wire.request(1, "m")
    wire.notify("notifications/cancelled", params)
    work.callback("r")
    assert wire.sent == [{"jsonrpc": "2.0", "id": 1, "result": "r"}]


def test_cancellation_after_the_answer_is_ignored(wire: Wire) -> None:
    """A race that both sides must bear (timing considerations) (M25, M29)."""
    wire.router.requests["m"] = lambda _: "r"
    wire.request(1, "m")
    wire.cancel(1)
    assert wire.answers(1) == [{"result": "r"}]


def test_peers_initialize_is_not_cancelled(wire: Wire) -> None:
    """A request that can't be cancelled goes on, whatever the client sends (behaviour 4, M23, M31)."""
    work: Deferred[str] = Deferred()
    wire.router.requests["initialize"] = lambda _: work
    wire.request(1, "initialize")
    wire.cancel(1)
    work.callback("r")
    assert wire.answers(1) == [{"result": "r"}]


def test_late_answer_to_a_cancelled_request_is_ignored(wire: Wire) -> None:
    """The race again, from the other side (behaviour 5, M24, M25)."""
    call = wire.peer.call("tools/call")
    call.cancel()
    failure(call, RequestCancelled)
    wire.result(1, "late")
    assert wire.healthy()


def test_acps_cancellation_means_nothing_here(wire: Wire) -> None:
    """The other dialect's notification is an unknown one."""
    wire.request(1, "slow")
    wire.notify("$/cancel_request", {"requestId": 1})
    assert wire.peer.incoming_requests == 1


def test_timeout_cancels_and_stops_waiting(wire: Wire) -> None:
    """Every request has a timeout, of its own if wanted, and it cancels (timeouts) (M9, M12)."""
    call = wire.peer.call("tools/call", timeout=5)
    wire.clock.advance(5)
    failure(call, RequestTimedOut)
    assert wire.cancels == [{"requestId": 1, "reason": "timeout"}]


def test_progress_starts_the_timeout_anew(wire: Wire) -> None:
    """A server that shows progress is given more time (M13)."""
    call = wire.peer.call("tools/call", timeout=10)
    for _ in range(5):
        wire.clock.advance(9)
        call.progressed()
    no_result(call)
    wire.clock.advance(10)
    failure(call, RequestTimedOut)


def test_progress_never_goes_beyond_the_maximum(wire: Wire) -> None:
    """A server that only ever shows progress is cut all the same (M14)."""
    call = wire.peer.call("tools/call", timeout=10, max_timeout=25)
    for _ in range(3):
        wire.clock.advance(8)
        call.progressed()
    no_result(call)
    wire.clock.advance(1)
    failure(call, RequestTimedOut)
    call.progressed()
    assert wire.cancels == [{"requestId": 1, "reason": "timeout"}]
    assert wire.clock.getDelayedCalls() == []


def test_maximum_alone_is_a_timeout(wire: Wire) -> None:
    """A maximum without a timeout is not stretched by anything (M12, M14)."""
    call = wire.peer.call("tools/call", timeout=0, max_timeout=25)
    wire.clock.advance(20)
    call.progressed()
    wire.clock.advance(5)
    failure(call, RequestTimedOut)


def test_maximum_below_the_timeout_counts(wire: Wire) -> None:
    """The shorter of the two ends the request (M12)."""
    call = wire.peer.call("tools/call", timeout=60, max_timeout=5)
    wire.clock.advance(5)
    failure(call, RequestTimedOut)


def test_progress_of_a_request_without_a_timeout_does_nothing(wire: Wire) -> None:
    """There is no clock to reset, before, during or after."""
    call = wire.peer.call("tools/call", timeout=0)
    call.progressed()
    assert wire.clock.getDelayedCalls() == []
    wire.result(1)
    call.progressed()
    success(call)
    assert wire.clock.getDelayedCalls() == []


def test_reasons_are_logged_on_both_sides(wire: Wire) -> None:
    """The page wants reasons in the log, for debugging; a long one is cut (M26)."""
    with capturedLogs() as events:
        call = wire.peer.call("tools/call")
        call.cancel("the user went home")
        wire.request(1, "slow")
        wire.cancel(1, reason="the client went home" + "." * 10_000)
        wire.request(2, "slow")
        wire.cancel(2)
    failure(call, RequestCancelled)
    texts = [str(formatEvent(event)) for event in events if event["log_level"] is LogLevel.info]
    assert len(texts) == 3
    assert "the user went home" in texts[0]
    assert "the client went home" in texts[1]
    assert all(len(text) < 300 for text in texts)
