"""
Requests and notifications of the peer: one answer each, whatever happens, and cancellation seen at once (design rules
1, 3 and 7; X2-X12, P4, the receiving half of the Java SDK's CancelRequestTest).
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, fail, inlineCallbacks, succeed
from twisted.internet.task import deferLater
from twisted.logger import capturedLogs, formatEvent
from wire import Wire, success

from acp_twisted.errors import (
    AcpCapabilityError,
    AcpError,
    InvalidParams,
    RequestCancelled,
    RequestTimedOut,
)
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.jsonrpc.router import TAKEN
from acp_twisted.limits import Limits

CANCELLED = [{"error": {"code": -32800, "message": "Request cancelled"}}]
INTERNAL = [{"error": {"code": -32603, "message": "Internal error"}}]


@pytest.fixture
def wire() -> Wire:
    """A connected peer."""
    return Wire()


class Slow:
    """A handler whose work ends when the test says so."""

    def __init__(self) -> None:
        self.work: Deferred[object] = Deferred(self._cancelled)
        self.cancelled = 0
        self.requests: list[IncomingRequest] = []

    def _cancelled(self, _: object) -> None:
        self.cancelled += 1

    def __call__(self, request: IncomingRequest) -> Deferred[object]:
        self.requests.append(request)
        return self.work


# ---- one answer


async def _coroutine(_: IncomingRequest) -> object:
    return {"a": 1}


@inlineCallbacks
def _generator(_: IncomingRequest) -> Any:
    yield succeed(None)
    return {"a": 1}


@pytest.mark.parametrize("handler", [lambda _: {"a": 1}, lambda _: succeed({"a": 1}), _coroutine, _generator])
def test_every_kind_of_handler_answers(wire: Wire, handler: Any) -> None:
    """A value, a Deferred, a coroutine and a generator are all answered, inside the delivery of the request."""
    wire.router.requests["m"] = handler
    wire.request(5, "m")
    assert wire.sent == [{"jsonrpc": "2.0", "id": 5, "result": {"a": 1}}]
    assert wire.peer.incoming_requests == 0


def test_params_and_method_reach_the_handler(wire: Wire) -> None:
    """A handler sees the request as it came."""
    slow = wire.router.requests["m"] = Slow()
    wire.request("x", "m", {"a": [1]})
    (request,) = slow.requests
    assert (request.id, request.method, request.params, request.answered) == ("x", "m", {"a": [1]}, False)


@pytest.mark.parametrize("result", [None, False, 0, "", [], {}])
def test_any_json_is_a_result(wire: Wire, result: object) -> None:
    """A handler that returns nothing is answered with null, and false values are values."""
    wire.router.requests["m"] = lambda _: result
    wire.request(1, "m")
    assert wire.answers(1) == [{"result": result}]


@pytest.mark.parametrize("request_id", [0, -1, "", "1", 9007199254740993, 2**63 - 1, -(2**63), None, "\u4e2d"])
def test_id_is_echoed_exactly(wire: Wire, request_id: object) -> None:
    """Whatever the id is, the answer carries the same, a null one too (B46, B47)."""
    wire.request(request_id, "_x/ping")
    assert wire.answers(request_id) == [{"error": {"code": -32601, "message": "Method not found"}}]


def test_ids_that_python_confuses_are_different_requests(wire: Wire) -> None:
    """1 and "1" are open at once, and each gets its own answer (B47)."""
    handlers = {"int": Slow(), "text": Slow()}
    wire.router.requests.update(handlers)
    wire.request(1, "int")
    wire.request("1", "text")
    handlers["text"].work.callback("t")
    handlers["int"].work.callback("i")
    assert wire.answers(1) == [{"result": "i"}]
    assert wire.answers("1") == [{"result": "t"}]


def test_own_error_is_answered_as_it_is(wire: Wire) -> None:
    """An AcpError's code, message and data are the peer's to know (B53)."""

    def handler(_: IncomingRequest) -> object:
        raise InvalidParams("bad path", {"field": "path"})

    wire.router.requests["m"] = handler
    wire.request(1, "m")
    assert wire.answers(1) == [{"error": {"code": -32602, "message": "bad path", "data": {"field": "path"}}}]


async def _raises(_: IncomingRequest) -> object:
    raise RuntimeError("secret")


def _throws(_: IncomingRequest) -> object:
    raise RuntimeError("secret")


def _exits(_: IncomingRequest) -> object:
    raise SystemExit("secret")


@pytest.mark.parametrize("handler", [_throws, _raises, _exits, lambda _: fail(RuntimeError("secret"))])
def test_failing_handler_is_answered_without_its_secret(wire: Wire, handler: Any, logged_errors: list[Any]) -> None:
    """Any other failure is -32603 to the peer and a log entry here; the next request works (B53)."""
    wire.router.requests["m"] = handler
    wire.request(1, "m")
    assert wire.answers(1) == INTERNAL
    assert wire.healthy()
    assert [event["method"] for event in logged_errors] == ["m"]
    logged_errors.clear()


@pytest.mark.parametrize("error", [AcpCapabilityError("fs.readTextFile"), RequestTimedOut("m", 1)])
def test_error_of_this_side_is_not_sent(wire: Wire, error: Exception, logged_errors: list[Any]) -> None:
    """What is nobody's answer stays here (errors.LocalError)."""
    wire.router.requests["m"] = lambda _: fail(error)
    wire.request(1, "m")
    assert wire.answers(1) == INTERNAL
    logged_errors.clear()


@pytest.mark.parametrize(
    ("error", "message"),
    [(CancelledError(), "Request cancelled"), (RequestCancelled("context full", {"n": 1}), "context full")],
)
def test_cancellation_of_this_side_is_answered_as_one(wire: Wire, error: Exception, message: str) -> None:
    """Work that is cancelled from inside answers -32800, with its own words where it has some (X7)."""
    wire.router.requests["m"] = lambda _: fail(error)
    wire.request(1, "m")
    (answer,) = wire.answers(1)
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32800, message)


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize("result", [{1, 2}, float("nan"), float("inf"), "\ud800", 2**64, {1: 2}, object(), _cycle()])
def test_result_without_json_text_is_an_internal_error(wire: Wire, result: object, logged_errors: list[Any]) -> None:
    """A result that can't be written is answered with -32603, once, and the link lives (B59, B42)."""
    wire.router.requests["m"] = lambda _: result
    wire.request(1, "m")
    assert wire.answers(1) == INTERNAL
    logged_errors.clear()
    assert wire.healthy()


def test_error_data_without_json_text_is_left_out(wire: Wire) -> None:
    """An error is answered even where its data can't be written (B59)."""
    wire.router.requests["m"] = lambda _: fail(AcpError(-31000, "odd", {"s": {1}}))
    wire.request(1, "m")
    assert wire.answers(1) == [{"error": {"code": -31000, "message": "odd"}}]


def test_first_answer_wins(wire: Wire) -> None:
    """Who answers second is told so, and nothing is sent (rule 1)."""
    seen: list[object] = []

    def handler(request: IncomingRequest) -> object:
        seen.extend([request.respond("first"), request.respond("second"), request.fail(InvalidParams())])
        return "third"

    wire.router.requests["m"] = handler
    wire.request(1, "m")
    assert wire.answers(1) == [{"result": "first"}]
    assert seen == [True, False, False]


def test_taken_request_is_answered_by_who_took_it(wire: Wire) -> None:
    """A router may keep a request and answer it in its own time."""
    taken: list[IncomingRequest] = []

    def take(request: IncomingRequest) -> object:
        taken.append(request)
        return TAKEN

    wire.router.requests["m"] = take
    wire.request(1, "m")
    assert wire.sent == []
    assert taken[0].respond("later")
    assert wire.answers(1) == [{"result": "later"}]


def test_requests_do_not_wait_for_each_other(wire: Wire) -> None:
    """A request that its user does not answer holds up nothing, not even in its own session (B31 b)."""
    wire.router.requests.update(slow=Slow(), quick=lambda _: "q")
    seen: list[object] = []
    wire.router.notifications["n"] = lambda notification: seen.append(notification.params)
    wire.request(7, "slow", {"sessionId": "s"})
    wire.request(8, "quick", {"sessionId": "s"})
    wire.notify("n", {"sessionId": "s"})
    assert wire.answers(8) == [{"result": "q"}]
    assert len(seen) == 1
    assert wire.answers(7) == []


def test_id_in_use_is_refused_and_disturbs_nothing(wire: Wire) -> None:
    """A request with the id of an unanswered one is refused; the first goes on, and the id is free later (X13)."""
    slow = wire.router.requests["m"] = Slow()
    wire.request(1, "m")
    wire.request(1, "m")
    assert [answer["error"]["code"] for answer in wire.answers(1)] == [-32600]
    assert len(slow.requests) == 1
    slow.work.callback("r")
    assert wire.answers(1)[1:] == [{"result": "r"}]
    wire.router.requests["m"] = lambda _: "again"
    wire.request(1, "m")
    assert wire.answers(1)[2:] == [{"result": "again"}]


def test_too_many_requests_are_refused() -> None:
    """The table of requests in work is bounded; an answer makes room (rule 6)."""
    wire = Wire(Limits(max_incoming_requests=2))
    slow = wire.router.requests["m"] = Slow()
    for number in (1, 2, 3):
        wire.request(number, "m")
    assert wire.answers(3)[0]["error"]["code"] == -32603
    assert len(slow.requests) == 2
    slow.work.callback(None)
    assert wire.healthy()


def test_id_that_is_too_long_is_refused() -> None:
    """A request id has a bound, so that a table of them has one (rule 6)."""
    wire = Wire(Limits(max_id_length=4))
    wire.router.requests["m"] = lambda _: "r"
    wire.request("abcd", "m")
    wire.request("abcde", "m")
    assert wire.answers("abcd") == [{"result": "r"}]
    assert wire.answers("abcde")[0]["error"]["code"] == -32600


# ---- what is no message, or unknown


@pytest.mark.parametrize("params", [None, {}, {"a": 1}, [1]])
@pytest.mark.parametrize("method", ["_v/changed", "zz/new", "$/zz", "$/cancelRequest", ""])
def test_unknown_notification_is_ignored(wire: Wire, method: str, params: object) -> None:
    """Nobody answers a notification, known or not (B52, X2, B19)."""
    wire.notify(method, params)
    assert wire.sent == []
    assert wire.healthy()


def test_notification_with_bad_params_is_not_answered(wire: Wire) -> None:
    """A notification whose params are none is still a notification (B53, C25)."""
    for params in ("x", 5, True):
        wire.receive({"jsonrpc": "2.0", "method": "session/cancel", "params": params})
    assert wire.sent == []
    assert wire.healthy()


@pytest.mark.parametrize("error", [RuntimeError("secret"), SystemExit("secret")])
def test_failing_notification_is_logged_once(wire: Wire, error: BaseException, logged_errors: list[Any]) -> None:
    """A notification handler's failure is a log entry and nothing else (B53)."""

    def handler(_: Notification) -> None:
        raise error

    wire.router.notifications["sync"] = handler
    wire.router.notifications["late"] = lambda _: fail(RuntimeError("secret"))
    wire.notify("sync")
    wire.notify("late")
    assert len(logged_errors) == 2
    logged_errors.clear()
    assert wire.sent == []
    assert wire.healthy()


def test_failing_router_fails_its_message_only(
    wire: Wire, logged_errors: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a router raises never reaches the reader (rule 7)."""

    def broken(*_: object) -> Any:
        raise RuntimeError("router")

    with monkeypatch.context() as patch:
        patch.setattr(wire.router, "lane_of", broken)
        wire.request(1, "m")
        wire.notify("n")
    with monkeypatch.context() as patch:
        patch.setattr(wire.router, "apply_now", broken)
        wire.notify("n")
    assert wire.answers(1) == INTERNAL
    assert len(logged_errors) == 3
    logged_errors.clear()
    assert wire.healthy()


UNREADABLE = [
    b'{"jsonrpc":"2.0","id":4,"method":"_x","params":',
    b'{"jsonrpc":"2.0","id":4,"method":"_x","params":{"a":NaN}}',
    b'{"jsonrpc":"2.0","method":"_x","params":{"a":"\\ud83d"},"id":4}',
    b'{"method":"_x","params":' + b"[" * 1000 + b"1e400" + b"]" * 1000 + b',"id":4,"jsonrpc":"2.0"}',
]
BROKEN = [
    (b"\xff\xfe", -32700),
    (b"[" * 100_000, -32700),
    (b'{"id":4,"method":"_x","params":{"a":NaN}}', -32700),
    (b'{"jsonrpc":"2.0","method":"_x","params":{"a":NaN}}', -32700),
    (b"[]", -32600),
    (b"42", -32600),
    (b"{}", -32600),
]


@pytest.mark.parametrize(("line", "code"), [*BROKEN, *((line, -32700) for line in UNREADABLE)])
def test_agent_answers_bytes_that_are_no_message(wire: Wire, line: bytes, code: int) -> None:
    """An agent's side answers noise with an error without id, and goes on (B40, B42, B43)."""
    wire.peer.message_received(line)
    assert [answer["error"]["code"] for answer in wire.answers(None)] == [code]
    assert wire.healthy()


@pytest.mark.parametrize(("line", "code"), BROKEN)
def test_client_skips_bytes_that_are_no_message(line: bytes, code: int) -> None:
    """A client's side counts noise and writes nothing back, since an agent's program may print anything (B39)."""
    wire = Wire(answers_noise=False)
    for _ in range(3):
        wire.peer.message_received(line)
    assert wire.sent == []
    assert wire.peer.stray_messages == 3
    assert wire.healthy()


@pytest.mark.parametrize("line", UNREADABLE)
def test_client_answers_a_request_that_is_no_json(line: bytes) -> None:
    """
    A request is answered though it is no JSON, where its id can be read: nobody else would tell the agent, which waits
    (rule 1).
    """
    wire = Wire(answers_noise=False)
    wire.peer.message_received(line)
    assert [answer["error"]["code"] for answer in wire.answers(4)] == [-32700]
    assert len(wire.sent) == 1
    assert wire.healthy()


@pytest.mark.parametrize("answers_noise", [True, False])
def test_broken_message_with_an_id_is_answered_with_it(answers_noise: bool) -> None:
    """Where somebody waits for an answer he gets one, on either side (B40)."""
    wire = Wire(answers_noise=answers_noise)
    wire.receive({"id": 99, "method": "_x/ping"})
    wire.receive({"jsonrpc": "2.0", "id": 98, "method": 5})
    assert [wire.answers(number)[0]["error"]["code"] for number in (99, 98)] == [-32600, -32600]
    assert wire.healthy()


@pytest.mark.parametrize("strange", ["true", "1.5", "[1]", "{}"])
def test_strange_id_is_refused_without_one(wire: Wire, strange: str) -> None:
    """What is no id can't be answered with it (B47)."""
    wire.peer.message_received(b'{"jsonrpc":"2.0","method":"_x/ping","id":%s}' % strange.encode())
    assert wire.answers(None)[0]["error"]["code"] == -32600


def test_oversized_request_is_refused_with_its_id() -> None:
    """A request that was skipped for its size is answered where its id could be read (B34)."""
    wire = Wire(Limits(max_message_bytes=100))
    for head in (
        b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"a":"',
        b'{"jsonrpc":"2.0","id":null,"method":"m","params":{"a":"',
        b'{"jsonrpc":"2.0","method":"m","params":{"a":"',
    ):
        wire.peer.oversized_received(head, 200)
    wanted = {"code": -32600, "message": "Message too large", "data": {"maxMessageBytes": 100, "size": 200}}
    assert wire.answers(5) == [{"error": wanted}]
    assert wire.answers(None) == [{"error": wanted}] * 2


def test_client_is_silent_about_oversized_noise() -> None:
    """A client answers an oversized request, and is silent about what has no id."""
    wire = Wire(answers_noise=False)
    wire.peer.oversized_received(b'{"jsonrpc":"2.0","method":"session/update","params":{"a":"', 10**9)
    wire.peer.oversized_received(b"log line, log line", 10**9)
    assert wire.sent == []
    wire.peer.oversized_received(b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"a":"', 10**9)
    assert len(wire.answers(5)) == 1


def test_no_request_is_started_from_a_remainder(wire: Wire) -> None:
    """The last line without a newline may be half a message, so nothing but an answer counts (B49)."""
    wire.router.requests["m"] = lambda _: "r"
    seen: list[object] = []
    wire.router.notifications["n"] = seen.append
    wire.peer.remainder_received(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    wire.peer.remainder_received(b'{"jsonrpc":"2.0","method":"n"}')
    wire.peer.remainder_received(b"{")
    assert wire.sent == []
    assert seen == []


# ---- cancelled by the peer


def test_cancelled_request_is_answered_at_once_and_its_handler_stopped(wire: Wire) -> None:
    """The work is cancelled and the answer is -32800, in the delivery of the cancellation (X3, X5, B18, P4)."""
    slow = wire.router.requests["m"] = Slow()
    wire.request(9, "m")
    wire.cancel(9)
    assert wire.answers(9) == CANCELLED
    assert slow.cancelled == 1
    assert slow.requests[0].token.triggers == ("$/cancel_request",)
    assert wire.peer.incoming_requests == 0


def test_late_outcome_of_a_cancelled_handler_is_dropped(wire: Wire, logged_errors: list[Any]) -> None:
    """A handler that swallows its cancellation and ends later, well or badly, changes nothing (rule 1, X10, JR11)."""
    endings: list[Deferred[object]] = [Deferred(), Deferred()]

    async def stubborn(request: IncomingRequest) -> object:
        try:
            return await Deferred()
        except CancelledError:
            return await endings[int(request.method)]

    wire.router.requests.update({"0": stubborn, "1": stubborn})
    for number in (0, 1):
        wire.request(number, str(number))
        wire.cancel(number)
    endings[0].callback("late")
    endings[1].errback(RuntimeError("late"))
    assert wire.answers(0) == wire.answers(1) == CANCELLED
    assert logged_errors == []


def test_partial_result_from_a_cancelled_handler_counts(wire: Wire) -> None:
    """What the handler answers from within its cancellation is the answer (X5, X12, A6, R25)."""

    async def graceful(_: IncomingRequest) -> object:
        try:
            return await Deferred()
        except CancelledError:
            return {"partial": True}

    wire.router.requests["m"] = graceful
    wire.request(1, "m")
    wire.cancel(1)
    assert wire.answers(1) == [{"result": {"partial": True}}]


def test_answer_from_a_cancellation_callback_counts(wire: Wire) -> None:
    """So does what a callback of the token answers (A6, R25)."""

    def handler(request: IncomingRequest) -> object:
        request.token.on_cancel(lambda: request.respond("from the callback"))
        return Deferred()

    wire.router.requests["m"] = handler
    wire.request(1, "m")
    wire.cancel(1)
    assert wire.answers(1) == [{"result": "from the callback"}]


def test_cancel_in_the_same_chunk_finds_its_request(wire: Wire) -> None:
    """A cancellation right behind its request is not lost, though the handler has yet to get anywhere (B03, rule 3)."""
    seen: list[str] = []

    async def handler(request: IncomingRequest) -> object:
        await deferLater(wire.clock, 1, lambda: None)
        seen.append("went on")
        return "r"

    wire.router.requests["m"] = handler
    wire.request(9, "m")
    wire.cancel(9)
    assert wire.answers(9) == CANCELLED
    wire.clock.advance(1)
    assert seen == []
    assert wire.clock.getDelayedCalls() == []


def test_token_is_set_before_any_later_message_is_looked_at(wire: Wire) -> None:
    """Whoever runs after the cancellation sees it (rule 3): here a request that follows it asks the token (P4)."""
    taken: list[IncomingRequest] = []

    def take(request: IncomingRequest) -> object:
        request.stop = request.token.cancel
        taken.append(request)
        return TAKEN

    wire.router.requests.update(m=take, ask=lambda _: taken[0].token.cancelled)
    wire.request(1, "m")
    wire.request(2, "ask")
    wire.cancel(1)
    wire.request(3, "ask")
    assert wire.answers(2) == [{"result": False}]
    assert wire.answers(3) == [{"result": True}]


def test_own_way_to_stop_decides_the_answer(wire: Wire) -> None:
    """Who answers in his own way, as a prompt turn does, is told and answers; the peer adds nothing (P8)."""

    def take(request: IncomingRequest) -> object:
        request.stop = lambda trigger: request.respond({"stopReason": trigger})
        return TAKEN

    wire.router.requests["m"] = take
    wire.request(1, "m")
    wire.cancel(1)
    assert wire.answers(1) == [{"result": {"stopReason": "$/cancel_request"}}]


def test_failing_way_to_stop_is_answered_all_the_same(wire: Wire, logged_errors: list[Any]) -> None:
    """A request whose own stop raises is still answered, and the reader lives (rule 1, B75)."""

    def take(request: IncomingRequest) -> object:
        request.stop = lambda trigger: 1 // 0
        return TAKEN

    wire.router.requests["m"] = take
    wire.request(1, "m")
    wire.cancel(1)
    assert wire.answers(1) == CANCELLED
    assert len(logged_errors) == 1
    logged_errors.clear()
    assert wire.healthy()


def test_raising_canceller_of_a_handler_is_contained(wire: Wire, logged_errors: list[Any]) -> None:
    """A handler's Deferred whose canceller raises is answered for (B75)."""

    def canceller(_: object) -> None:
        raise RuntimeError("canceller")

    wire.router.requests["m"] = lambda _: Deferred(canceller)
    wire.request(1, "m")
    wire.cancel(1)
    assert wire.answers(1) == CANCELLED
    logged_errors.clear()
    assert wire.healthy()


@pytest.mark.parametrize("other", ["9", 999, None, True, 9.0, [9], {"id": 9}, "$9"])
def test_cancel_of_another_id_does_nothing(wire: Wire, other: object) -> None:
    """An unknown id, a null one, and what is no id cancel nothing and are not answered (B18, X10, C1, C25, JR9)."""
    slow = wire.router.requests["m"] = Slow()
    wire.request(9, "m")
    wire.cancel(other)
    assert wire.sent == []
    assert slow.cancelled == 0
    slow.work.callback("r")
    assert wire.answers(9) == [{"result": "r"}]


@pytest.mark.parametrize("params", [None, {}, [9], {"request_id": 9}, {"id": 9}])
def test_malformed_cancel_does_nothing(wire: Wire, params: object) -> None:
    """A cancellation without a requestId is ignored, without an answer (C25)."""
    wire.router.requests["m"] = Slow()
    wire.request(9, "m")
    wire.notify("$/cancel_request", params)
    assert wire.sent == []
    assert wire.healthy()


def test_cancel_after_the_answer_does_nothing(wire: Wire) -> None:
    """A request that was answered stays answered (X8, X10)."""
    wire.router.requests["m"] = lambda _: "r"
    wire.request(9, "m")
    wire.cancel(9)
    wire.cancel(9)
    assert wire.answers(9) == [{"result": "r"}]


def test_cancel_belongs_to_the_request_that_has_the_id_now(wire: Wire) -> None:
    """A used id may be used again: a cancellation reaches the request of now, and its token alone (C26)."""
    first, second = Slow(), Slow()
    wire.router.requests.update(a=first, b=second)
    wire.request(1, "a")
    first.work.callback("r")
    wire.request(1, "b")
    wire.cancel(1)
    assert wire.answers(1) == [{"result": "r"}, *CANCELLED]
    assert not first.requests[0].token.cancelled
    assert second.requests[0].token.cancelled


def test_ids_of_the_two_directions_are_apart(wire: Wire) -> None:
    """The peer's cancellation of its 1 is not about our 1, nor our answer table about its requests (X11)."""
    slow = wire.router.requests["m"] = Slow()
    ours = wire.peer.call("theirs")
    wire.request(1, "m")
    wire.cancel(1)
    assert wire.answers(1) == CANCELLED
    wire.result(1, "r")
    assert success(ours) == "r"
    assert slow.cancelled == 1


def test_integer_ids_of_any_width(wire: Wire) -> None:
    """An id beyond 32 and 53 bits is found by its cancellation (CancelRequestTest, integer width) (JR9)."""
    wire.router.requests["m"] = Slow()
    for request_id in (2**31, 2**53 + 1, 2**63 - 1, -(2**63)):
        wire.request(request_id, "m")
        wire.cancel(request_id)
        assert wire.answers(request_id) == CANCELLED
        wire.router.requests["m"] = Slow()


def test_cancellation_may_still_be_watched(wire: Wire) -> None:
    """
    A router sees the cancellation after its effect; what it does with it neither replaces nor repeats that (C19,
    R30).
    """
    slow = wire.router.requests["m"] = Slow()
    order: list[bool] = []
    wire.router.notifications["$/cancel_request"] = lambda _: order.append(slow.requests[0].token.cancelled)
    wire.request(1, "m")
    wire.cancel(1)
    assert order == [True]
    assert wire.answers(1) == CANCELLED


def test_cancellation_that_the_router_takes_goes_to_no_handler(wire: Wire) -> None:
    """Built-in handling may be all there is: then no notification handler is offered it (CancelRequestTest)."""
    seen: list[object] = []
    wire.router.now.add("$/cancel_request")
    wire.router.notifications["$/cancel_request"] = seen.append
    wire.cancel(1)
    assert seen == []
    assert wire.router.applied == ["$/cancel_request"]


def test_session_cancel_and_request_cancel_do_not_imply_each_other(wire: Wire) -> None:
    """session/cancel is the router's business; no request is cancelled by it here, and none is sent one (X14)."""
    slow = wire.router.requests["m"] = Slow()
    wire.request(1, "m", {"sessionId": "s"})
    wire.notify("session/cancel", {"sessionId": "s"})
    assert slow.cancelled == 0
    assert wire.sent == []


def test_nested_request_is_cancelled_with_its_handler(wire: Wire) -> None:
    """What the handler awaits from the peer is cancelled with it: one cancellation, then the answer (X9, B31)."""

    async def handler(_: IncomingRequest) -> object:
        return await wire.peer.call("fs/read_text_file")

    wire.router.requests["m"] = handler
    wire.request(9, "m")
    wire.cancel(9)
    assert [message.get("method") for message in wire.sent] == ["fs/read_text_file", "$/cancel_request", None]
    assert wire.cancels == [{"requestId": 1}]
    assert wire.answers(9) == CANCELLED
    wire.error(1, -32800)
    assert wire.peer.pending_requests == 0


def test_request_that_waits_for_its_lane_is_cancelled_without_its_handler(wire: Wire) -> None:
    """
    A request held behind a notification is answered -32800, and its handler never runs (java-sdk section 4, B03,
    JR8).
    """
    notification: Deferred[None] = Deferred()
    wire.router.notifications["n"] = lambda _: notification
    slow = wire.router.requests["m"] = Slow()
    wire.notify("n", {"sessionId": "s"})
    wire.request(1, "m", {"sessionId": "s"})
    assert slow.requests == []
    wire.cancel(1)
    assert wire.answers(1) == CANCELLED
    notification.callback(None)
    assert slow.requests == []
    assert len(wire.peer.lanes) == 0


def test_handler_that_is_cancelled_before_it_has_returned(wire: Wire) -> None:
    """On a link without delay a cancellation can come while the handler still runs: its work is cancelled too (B03)."""
    slow = Slow()

    def handler(request: IncomingRequest) -> object:
        wire.cancel(request.id)
        assert request.token.cancelled
        return slow(request)

    wire.router.requests["m"] = handler
    wire.request(1, "m")
    assert wire.answers(1) == CANCELLED
    assert slow.cancelled == 1


def test_raising_canceller_of_a_handler_that_was_cancelled_before_it_has_returned(
    wire: Wire, logged_errors: list[Any]
) -> None:
    """It is contained there as well (design rule 7, B75)."""

    def refuse(_: object) -> None:
        raise RuntimeError("can't be cancelled")

    def handler(_: object) -> Deferred[object]:
        wire.cancel(1)
        return Deferred(refuse)

    wire.router.requests["m"] = handler
    wire.request(1, "m")
    assert wire.answers(1) == CANCELLED
    assert len(logged_errors) == 1
    logged_errors.clear()


@pytest.mark.parametrize("end", ["lose", "shutdown"])
def test_cancellation_that_ends_the_link_cancels_the_handler_once(wire: Wire, end: str) -> None:
    """A callback of the cancellation that closes the connection does not cut short what the handler does last (X9)."""
    last: Deferred[None] = Deferred()
    done: list[str] = []

    async def handler(request: IncomingRequest) -> None:
        request.token.on_cancel(wire.lose if end == "lose" else wire.peer.shutdown)
        try:
            await Deferred()
        finally:
            await last
            done.append("cleaned up")

    wire.router.requests["m"] = handler
    wire.request(1, "m")
    wire.cancel(1)
    last.callback(None)
    assert done == ["cleaned up"]
    assert wire.answers(1) == ([] if end == "lose" else CANCELLED)


def test_token_taken_late_is_already_set(wire: Wire) -> None:
    """A token that is looked at only after the cancellation says so, however often it is asked (C18)."""
    taken: list[IncomingRequest] = []

    def take(request: IncomingRequest) -> object:
        request.stop = request.token.cancel
        taken.append(request)
        return TAKEN

    wire.router.requests["m"] = take
    wire.request(1, "m")
    wire.cancel(1)
    assert taken[0].token.cancelled
    assert success(taken[0].token.when_cancelled()) is None
    assert taken[0].token is taken[0].token


def test_handler_that_runs_until_cancelled(wire: Wire) -> None:
    """run_until_cancelled ends the work and yields the standard error (C20)."""
    work: Deferred[str] = Deferred()
    seen: list[RequestCancelled] = []

    async def handler(request: IncomingRequest) -> object:
        request.stop = request.token.cancel
        try:
            return await request.token.run_until_cancelled(work)
        except RequestCancelled as cancelled:
            seen.append(cancelled)
            raise

    wire.router.requests["m"] = handler
    wire.request(1, "m")
    wire.cancel(1)
    assert [(error.code, error.message) for error in seen] == [(-32800, "Request cancelled")]
    assert wire.answers(1) == CANCELLED


def test_only_one_of_many_is_cancelled(wire: Wire) -> None:
    """A request that was not cancelled gets its normal answer (X12)."""
    handlers = {str(number): Slow() for number in range(3)}
    wire.router.requests.update(handlers)
    for number in range(3):
        wire.request(number, str(number))
    wire.cancel(1)
    for slow in handlers.values():
        if not slow.work.called:
            slow.work.callback("r")
    assert [wire.answers(number) for number in range(3)] == [[{"result": "r"}], CANCELLED, [{"result": "r"}]]


def test_answer_never_overtakes_what_was_sent_before_it(wire: Wire) -> None:
    """Notifications that a handler sends come before its answer, whatever ends it (rule 5, X4)."""

    async def handler(_: IncomingRequest) -> object:
        await wire.peer.notify("session/update", {"n": 1})
        await wire.peer.notify("session/update", {"n": 2})
        return "r"

    wire.router.requests["m"] = handler
    wire.request(1, "m")
    assert [message.get("params", {}).get("n") for message in wire.sent] == [1, 2, None]


def test_logs_never_hold_params_or_results(wire: Wire, logged_errors: list[Any]) -> None:
    """Methods, ids, codes and sizes are logged; what they carry is not (rule 9)."""
    with capturedLogs() as captured:
        wire.router.requests["m"] = lambda _: {"SECRET", "s"}
        wire.request(1, "m", {"token": "SECRET"})
        wire.receive({"jsonrpc": "2.0", "id": 7, "method": 7, "params": {"token": "SECRET"}})
        wire.peer.message_received(b'{"token": "SECRET')
        wire.result(12, "SECRET")
        wire.error(12, -32603, "SECRET")
    logged_errors.clear()
    assert captured
    for event in captured:
        assert "SECRET" not in f"{formatEvent(event)} {event}"


def test_failed_nested_request_is_passed_on(wire: Wire) -> None:
    """The peer's own error, let through by a handler, is answered as the peer gave it."""

    async def handler(_: IncomingRequest) -> object:
        return await wire.peer.call("fs/read_text_file")

    wire.router.requests["m"] = handler
    wire.request(9, "m")
    wire.error(1, -32002, "no such file")
    assert wire.answers(9) == [{"error": {"code": -32002, "message": "no such file"}}]


def test_notification_handlers_work_is_not_cancelled_with_requests(wire: Wire) -> None:
    """A cancellation is about requests; a notification handler at work is left alone."""
    work: Deferred[None] = Deferred()
    wire.router.notifications["n"] = lambda _: work
    wire.notify("n")
    wire.cancel(1)
    wire.peer.stop_requests("shutdown")
    assert not work.called
