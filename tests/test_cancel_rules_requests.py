"""
Rules of cancellation that the other tests of the core leave open: what a handle keeps alive, and how any handler gets
at its own request's token.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import LogLevel, capturedLogs, formatEvent
from wire import Wire, failure, no_result, success

from acp_twisted.errors import AcpConnectionError, RequestCancelled, RequestTimedOut
from acp_twisted.jsonrpc.calls import CancelHandle
from acp_twisted.jsonrpc.cancellation import MCP, CancellationToken, current_token
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.limits import Limits


@pytest.fixture
def wire() -> Wire:
    """A connected peer."""
    return Wire()


def test_handle_keeps_nothing_alive() -> None:
    """Neither the connection nor who waits for the answer; a handle of what is gone does nothing (R17, R9, R15)."""
    wire = Wire()
    call = wire.peer.call("m")
    handle = call.cancel_handle()
    peer, waiting = ref(wire.peer), ref(call)
    wire.lose()
    failure(call, Exception)
    del wire, call
    gc.collect()
    assert peer() is None
    assert waiting() is None
    handle.cancel()


def test_handle_of_an_open_request_works_though_the_call_is_let_go(wire: Wire) -> None:
    """The table holds the request: a reference that goes out of scope gives up nothing (R19, R9)."""
    handle = wire.peer.call("m").cancel_handle()
    gc.collect()
    assert wire.cancels == []
    handle.cancel()
    assert wire.cancels == [{"requestId": 1}]


def test_a_coroutine_that_is_cancelled_gives_up_what_it_awaits(wire: Wire) -> None:
    """Abandoning is said by cancelling, at any distance from the request: one cancellation (R19)."""

    async def inner() -> object:
        return await wire.peer.call("m")

    async def outer() -> object:
        return await inner()

    running = Deferred.fromCoroutine(outer())
    running.cancel()
    failure(running, RequestCancelled)
    assert wire.cancels == [{"requestId": 1}]


def test_handle_is_dead_inside_the_callbacks_of_its_call(wire: Wire) -> None:
    """An answer, and a failure of this side, disarm before the application's callbacks run (R13, R16)."""
    seen: list[object] = []
    calls = [wire.peer.call("answered"), wire.peer.call("lost")]

    def settled(outcome: object, handle: CancelHandle) -> None:
        seen.append(outcome)
        handle.cancel()
        seen.append("after")

    for call in calls:
        call.addBoth(settled, call.cancel_handle())
    wire.result(1, "r")
    assert seen == ["r", "after"]
    wire.lose()
    assert seen[3:] == ["after"]
    assert wire.cancels == []


def test_a_call_tells_whether_its_cancellation_was_sent(wire: Wire) -> None:
    """Somebody may show it: by a handle, and by giving up (M27)."""
    by_handle, given_up = wire.peer.call("m"), wire.peer.call("m")
    assert not by_handle.cancel_sent
    by_handle.cancel_handle().cancel()
    given_up.cancel()
    assert by_handle.cancel_sent
    assert given_up.cancel_sent
    failure(given_up, RequestCancelled)
    no_result(by_handle)
    wire.result(1)
    success(by_handle)


def warnings(events: Sequence[dict[str, Any]]) -> list[str]:
    """The warnings among the events of a log."""
    return [str(formatEvent(event)) for event in events if event["log_level"] is LogLevel.warn]


def test_late_answers_are_not_reported_as_strange() -> None:
    """Those to the last cancelled requests, 1024 unless set; those before them, and to no request, are (JR6, JR7)."""
    assert Limits().max_remembered_ids == 1024
    wire = Wire(Limits(max_remembered_ids=2))
    for _ in range(3):
        call = wire.peer.call("m")
        call.cancel()
        failure(call, RequestCancelled)
    with capturedLogs() as events:
        for number in (2, 3):
            wire.result(number, "late")
        assert warnings(events) == []
        for strange in (1, 99):
            wire.result(strange)
        wire.error(None, -32700)
    assert len(warnings(events)) == 3
    assert wire.healthy()


def test_a_link_that_is_closed_cancels_nothing(wire: Wire) -> None:
    """Our own calls fail when we close, or the peer does; no cancellation is sent for them (JR3, JR12)."""
    call = wire.peer.call("m")
    handle = call.cancel_handle()
    wire.peer.shutdown()
    failure(call, AcpConnectionError)
    handle.cancel()
    other = Wire()
    ended = other.peer.call("m")
    other.peer.input_ended()
    failure(ended, AcpConnectionError)
    assert wire.cancels == other.cancels == []


def test_every_request_of_mcp_has_a_timeout() -> None:
    """The connection's, which cancels in MCP's words, where the request names none (M8, M9)."""
    wire = Wire(dialect=MCP)
    call = wire.peer.call("tools/call")
    wire.clock.advance(60)
    failure(call, RequestTimedOut)
    assert wire.cancels == [{"requestId": 1, "reason": "timeout"}]


def seen_by(wire: Wire, handler: Callable[[IncomingRequest], object]) -> None:
    """Have C{m} handled so."""
    wire.router.requests["m"] = handler


def test_a_handler_finds_its_own_token(wire: Wire) -> None:
    """It is the request's, whoever asks in the handler and whenever; each request has its own (R23, C18, C26)."""
    seen: dict[object, list[CancellationToken]] = {}
    goes_on: Deferred[None] = Deferred()

    async def handler(request: IncomingRequest) -> object:
        tokens = seen[request.id] = [request.token, current_token()]
        await goes_on
        tokens.append(current_token())
        return "r"

    seen_by(wire, handler)
    wire.request(1, "m")
    wire.request(2, "m")
    goes_on.callback(None)
    assert wire.answers(1) == wire.answers(2) == [{"result": "r"}]
    assert all(token is tokens[0] for tokens in seen.values() for token in tokens)
    assert seen[1][0] is not seen[2][0]


def test_a_handler_that_looks_late_finds_its_token_set(wire: Wire) -> None:
    """One that swallows its cancellation and only then asks for the token sees that it was cancelled (C18, P4)."""
    seen: list[bool] = []

    async def handler(request: IncomingRequest) -> object:
        try:
            return await Deferred()
        finally:
            seen.append(current_token().cancelled)

    seen_by(wire, handler)
    wire.request(1, "m")
    wire.cancel(1)
    assert seen == [True]
    assert wire.answers(1)[0]["error"]["code"] == -32800


def test_a_handler_that_had_to_wait_finds_its_own_token(wire: Wire) -> None:
    """Also when it starts behind a notification of its session, from within whatever ended that (R23)."""
    seen: list[object] = []
    slow: Deferred[None] = Deferred()
    wire.router.notifications["n"] = lambda _: slow
    wire.router.requests["ends"] = lambda _: slow.callback(None)
    seen_by(wire, lambda request: seen.append(current_token() is request.token))
    wire.notify("n", {"sessionId": "s"})
    wire.request(1, "m", {"sessionId": "s"})
    assert seen == []
    wire.request(2, "ends")
    assert seen == [True]


def test_there_is_no_token_outside_of_a_handler(wire: Wire) -> None:
    """Neither before nor after a request, nor in what was started outside (R23)."""
    seen_by(wire, lambda _: "r")
    wire.request(1, "m")
    with pytest.raises(LookupError):
        current_token()


def test_a_handler_that_waits_holds_up_no_cancellation(wire: Wire) -> None:
    """Neither its own nor those behind it in its session, which is applied when it is read (R26, JR8)."""
    wire.router.notifications["n"] = lambda _: Deferred()
    seen_by(wire, lambda _: Deferred())
    wire.request(1, "m", {"sessionId": "s"})
    wire.notify("n", {"sessionId": "s"})
    wire.request(2, "m", {"sessionId": "s"})
    wire.cancel(2)
    wire.cancel(1)
    assert [wire.answers(number)[0]["error"]["code"] for number in (1, 2)] == [-32800, -32800]
    assert wire.peer.incoming_requests == 0
