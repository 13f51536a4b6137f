"""
Order within a session, independence between sessions, and no deadlock for who asks the peer from inside a handler
(design rule 5; B27, B28, B30, B31, C48).
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextvars import ContextVar
from random import Random
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, gatherResults, inlineCallbacks, succeed
from twisted.internet.task import deferLater
from wire import Wire, failure, no_result, success

from acp_twisted.errors import RequestTimedOut
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.limits import Limits


class Updates:
    """
    A notification handler that notes what starts, and ends when the test says so.
    """

    def __init__(self, wire: Wire) -> None:
        self.started: list[object] = []
        self.ends: dict[object, Deferred[None]] = {}
        wire.router.notifications["update"] = self

    def __call__(self, notification: Notification) -> Deferred[None]:
        assert isinstance(notification.params, dict)
        name = notification.params["n"]
        self.started.append(name)
        self.ends[name] = Deferred()
        return self.ends[name]

    def end(self, name: object) -> None:
        """The handler of one notification finishes."""
        self.ends[name].callback(None)


@pytest.fixture
def wire() -> Wire:
    """A connected peer."""
    return Wire()


@pytest.fixture
def updates(wire: Wire) -> Updates:
    """Its handler of updates."""
    return Updates(wire)


def update(wire: Wire, name: object, session: str = "s") -> None:
    """An update arrives."""
    wire.notify("update", {"sessionId": session, "n": name})


def handle(wire: Wire, method: str, handler: Callable[[], Any]) -> None:
    """Handle notifications of a method by a function, or an C{async def}, without arguments."""

    def run(_: Notification) -> Any:
        result = handler()
        return result if result is None or isinstance(result, Deferred) else Deferred.fromCoroutine(result)

    wire.router.notifications[method] = run


def idle(wire: Wire) -> bool:
    """Whether no lane is left and no call is open."""
    return len(wire.peer.lanes) == 0 and wire.peer.pending_requests == 0


# ---- order


def test_one_session_is_handled_one_by_one(wire: Wire, updates: Updates) -> None:
    """The next handler of a session starts when the one before it has finished (B27)."""
    for number in range(3):
        update(wire, number)
    assert updates.started == [0]
    updates.end(0)
    assert updates.started == [0, 1]
    updates.end(1)
    updates.end(2)
    assert updates.started == [0, 1, 2]
    assert idle(wire)


def test_two_hundred_chunks_with_handlers_of_random_speed(wire: Wire) -> None:
    """However long each takes, they start and end in the order of their arrival (B27)."""
    random = Random(27)
    log: list[tuple[str, int]] = []

    async def chunk(number: int) -> None:
        log.append(("start", number))
        await deferLater(wire.clock, random.choice([0, 0.001, 0.005]), lambda: None)
        log.append(("end", number))

    wire.router.notifications["update"] = lambda notification: Deferred.fromCoroutine(
        chunk(notification.params["n"])  # type: ignore[call-overload,index]
    )
    for number in range(200):
        update(wire, number)
    wire.clock.pump([0.001] * 1100)
    assert log == [(what, number) for number in range(200) for what in ("start", "end")]
    assert idle(wire)


def test_sessions_do_not_wait_for_each_other(wire: Wire, updates: Updates) -> None:
    """A slow session holds up itself alone (B27)."""
    update(wire, "a1", "a")
    update(wire, "a2", "a")
    update(wire, "b1", "b")
    call = wire.peer.call("m", {"sessionId": "c"})
    wire.result(1, "r")
    assert updates.started == ["a1", "b1"]
    assert success(call) == "r"


def test_failing_handler_is_followed_by_the_next(wire: Wire, logged_errors: list[Any]) -> None:
    """A handler that fails, at once or later, does not hold its lane (B53)."""
    late: Deferred[None] = Deferred()
    handle(wire, "sync", lambda: 1 // 0)
    handle(wire, "now", lambda: fail(ValueError()))
    handle(wire, "late", lambda: late)
    seen: list[int] = []
    handle(wire, "n", lambda: seen.append(1))
    for method in ("sync", "now", "late", "n"):
        wire.notify(method)
    assert seen == []
    late.errback(ValueError())
    assert seen == [1]
    assert len(logged_errors) == 3
    logged_errors.clear()
    assert idle(wire)


def test_response_comes_after_the_updates_before_it(wire: Wire, updates: Updates) -> None:
    """A prompt's caller goes on when its updates have been handled, not before (B28, J31)."""
    call = wire.peer.call("prompt", {"sessionId": "s"})
    update(wire, 1)
    update(wire, 2)
    wire.result(1, "end_turn")
    updates.end(1)
    no_result(call)
    updates.end(2)
    assert success(call) == "end_turn"
    assert idle(wire)


def test_error_waits_its_turn_like_a_result(wire: Wire, updates: Updates) -> None:
    """A failed answer is no faster than a successful one."""
    call = wire.peer.call("prompt", {"sessionId": "s"})
    update(wire, 1)
    wire.error(1, -32603)
    no_result(call)
    updates.end(1)
    failure(call, Exception)


def test_update_behind_a_response_is_handled_after_it(wire: Wire, updates: Updates) -> None:
    """What arrives after the answer is handled when the caller has had it (B13, B29)."""
    order: list[object] = []
    wire.peer.call("prompt", {"sessionId": "s"}).addCallback(lambda _: order.append(list(updates.started)))
    update(wire, 1)
    wire.result(1)
    update(wire, 2)
    updates.end(1)
    assert order == [[1]]
    assert updates.started == [1, 2]


def test_caller_sees_the_session_before_its_first_update(wire: Wire) -> None:
    """With nothing in the way the answer is delivered inside its own message, before the next is looked at (B29)."""
    order: list[str] = []
    wire.peer.call("session/new", {}).addCallback(lambda _: order.append("answer"))
    handle(wire, "update", lambda: order.append("update"))
    wire.result(1, {"sessionId": "s"})
    update(wire, 1)
    assert order == ["answer", "update"]


def test_request_comes_after_the_updates_before_it(wire: Wire, updates: Updates) -> None:
    """A permission handler sees the tool call that was announced before it (java-sdk section 4)."""
    wire.router.requests["permission"] = lambda _: list(updates.started)
    update(wire, "tool call")
    update(wire, "more")
    wire.request(7, "permission", {"sessionId": "s"})
    assert wire.sent == []
    updates.end("tool call")
    updates.end("more")
    assert wire.answers(7) == [{"result": ["tool call", "more"]}]
    assert idle(wire)


def test_requests_handler_is_not_waited_for(wire: Wire, updates: Updates) -> None:
    """A request that is open holds up no update behind it (B31 b)."""
    wire.router.requests["permission"] = lambda _: Deferred()
    update(wire, 1)
    wire.request(7, "permission", {"sessionId": "s"})
    update(wire, 2)
    updates.end(1)
    assert updates.started == [1, 2]


def test_everything_of_a_lane_keeps_its_place(wire: Wire, updates: Updates) -> None:
    """Updates, requests and answers that wait go on in the order of their arrival."""
    order: list[str] = []
    wire.router.requests["m"] = lambda request: order.append(f"request {request.id}")
    for name in ("first", "second"):
        wire.peer.call("m", {"sessionId": "s"}).addCallback(lambda _, which: order.append(which), name)
    update(wire, 1)
    wire.result(2)
    wire.request(1, "m", {"sessionId": "s"})
    wire.result(1)
    wire.request(2, "m", {"sessionId": "s"})
    assert order == []
    updates.end(1)
    assert order == ["second", "request 1", "first", "request 2"]


def test_message_that_arrives_inside_a_handler_waits_for_it(wire: Wire) -> None:
    """On a link without delay a handler may cause the next message of its lane: it is handled afterwards (rule 5)."""
    order: list[str] = []

    def outer() -> None:
        order.append("start")
        wire.notify("inner", {"sessionId": "s"})
        wire.request(1, "m", {"sessionId": "s"})
        order.append("end")

    handle(wire, "outer", outer)
    handle(wire, "inner", lambda: order.append("inner"))
    wire.router.requests["m"] = lambda _: order.append("request")
    wire.notify("outer", {"sessionId": "s"})
    assert order == ["start", "end", "inner", "request"]
    assert idle(wire)


def test_long_queue_of_quick_handlers_does_not_recurse(wire: Wire, updates: Updates) -> None:
    """A thousand messages behind a slow one are handled without deepening the stack."""
    count: list[int] = []
    handle(wire, "quick", lambda: count.append(1))
    update(wire, "slow")
    for _ in range(1000):
        wire.notify("quick", {"sessionId": "s"})
    updates.end("slow")
    assert len(count) == 1000
    assert idle(wire)


_user: ContextVar[str] = ContextVar("_user", default="nobody")


def test_handlers_do_not_inherit_context_variables_from_each_other(wire: Wire) -> None:
    """What one handler sets in its context is unknown to the next, though that starts when it ends."""
    seen: list[str] = []
    gate: Deferred[None] = Deferred()

    async def first() -> None:
        _user.set("first")
        await gate

    handle(wire, "first", first)
    handle(wire, "second", lambda: seen.append(_user.get()))
    wire.router.requests["m"] = lambda _: seen.append(_user.get())
    wire.notify("first")
    wire.notify("second")
    wire.request(1, "m")
    gate.callback(None)
    assert seen == ["nobody", "nobody"]


def test_lanes_are_forgotten_when_idle(wire: Wire, updates: Updates) -> None:
    """A session that was heard of costs nothing once it is quiet (rule 6)."""
    for number in range(100):
        update(wire, number, f"s{number}")
    assert len(wire.peer.lanes) == 100
    for number in range(100):
        updates.end(number)
    assert len(wire.peer.lanes) == 0


# ---- asking the peer from inside a handler


def _coroutine(wire: Wire, done: list[object]) -> Any:
    async def handler() -> None:
        done.append(await wire.peer.call("ask", {"sessionId": "s"}))
        done.append(await wire.peer.call("ask", {"sessionId": "s"}))

    return handler()


def _generator(wire: Wire, done: list[object]) -> Any:
    @inlineCallbacks
    def handler() -> Any:
        done.append((yield wire.peer.call("ask", {"sessionId": "s"})))
        done.append((yield wire.peer.call("ask", {"sessionId": "s"})))

    return handler()


def _callbacks(wire: Wire, done: list[object]) -> Any:
    def ask_again(result: object) -> Any:
        done.append(result)
        return wire.peer.call("ask", {"sessionId": "s"})

    return wire.peer.call("ask", {"sessionId": "s"}).addCallback(ask_again).addCallback(done.append)


def _foreign_callbacks(wire: Wire, done: list[object]) -> Any:
    def ask(result: object = None) -> Any:
        if result is not None:
            done.append(result)
        return wire.peer.call("ask", {"sessionId": "s"})

    return deferLater(wire.clock, 0, ask).addCallback(ask).addCallback(done.append)


def _foreign_inner_callbacks(wire: Wire, done: list[object]) -> Any:
    def ask(_: object) -> Any:
        return wire.peer.call("ask", {"sessionId": "s"}).addCallback(done.append)

    return (
        succeed(None).addCallback(lambda _: deferLater(wire.clock, 0, lambda: None).addCallback(ask)).addCallback(ask)
    )


def _after_a_moment(wire: Wire, done: list[object]) -> Any:
    async def handler() -> None:
        await deferLater(wire.clock, 0, lambda: None)
        done.append(await wire.peer.call("ask", {"sessionId": "s"}))
        await deferLater(wire.clock, 0, lambda: None)
        done.append(await wire.peer.call("ask", {"sessionId": "s"}))

    return handler()


def _nested(wire: Wire, done: list[object]) -> Any:
    async def ask() -> None:
        done.append(await wire.peer.call("ask", {"sessionId": "s"}))

    async def handler() -> None:
        await gatherResults([Deferred.fromCoroutine(ask()), Deferred.fromCoroutine(ask())])

    return handler()


KINDS = [
    _coroutine,
    _generator,
    _callbacks,
    _foreign_callbacks,
    _foreign_inner_callbacks,
    _after_a_moment,
    _nested,
]


@pytest.mark.parametrize("kind", KINDS)
def test_handler_may_await_the_peer(wire: Wire, kind: Callable[[Wire, list[object]], Any]) -> None:
    """Whatever it is written as, a handler that waits for an answer gets it, past what queues behind it (B31 a)."""
    done: list[object] = []
    handle(wire, "n", lambda: kind(wire, done))
    after: list[int] = []
    handle(wire, "after", lambda: after.append(1))
    wire.notify("n", {"sessionId": "s"})
    wire.notify("after", {"sessionId": "s"})
    for number in (1, 2):
        wire.clock.advance(0)
        assert after == []
        wire.result(number, f"r{number}")
    assert done == ["r1", "r2"]
    assert after == [1]
    assert idle(wire)


@pytest.mark.parametrize("kind", KINDS)
def test_peer_may_need_a_request_of_the_same_session_first(
    wire: Wire, kind: Callable[[Wire, list[object]], Any]
) -> None:
    """While a handler waits for an answer, requests of its lane go through: the peer may need them first (B31)."""
    done: list[object] = []
    wire.router.requests["m"] = lambda _: "here"
    handle(wire, "n", lambda: kind(wire, done))
    wire.notify("n", {"sessionId": "s"})
    for number in (1, 2):
        wire.clock.advance(0)
        wire.request(number, "m", {"sessionId": "s"})
        assert wire.answers(number) == [{"result": "here"}]
        wire.result(number, f"r{number}")
    assert done == ["r1", "r2"]
    assert idle(wire)


def test_requests_that_wait_already_go_through_when_the_handler_asks(wire: Wire) -> None:
    """What is held when the handler begins to wait is let go then, in order; updates are not."""
    start: Deferred[None] = Deferred()
    order: list[str] = []

    async def handler() -> None:
        await start
        await wire.peer.call("ask")
        order.append("handler")

    handle(wire, "n", handler)
    handle(wire, "update", lambda: order.append("update"))
    wire.router.requests["m"] = lambda request: order.append(f"request {request.id}")
    wire.notify("n")
    wire.request(1, "m")
    wire.notify("update")
    wire.request(2, "m")
    assert order == []
    start.callback(None)
    assert order == ["request 1", "request 2"]
    wire.result(1)
    assert order == ["request 1", "request 2", "handler", "update"]
    assert idle(wire)


@pytest.mark.parametrize("when", ["reading goes on", "one of them is let through"])
def test_request_that_comes_as_others_go_through_comes_behind_them(when: str) -> None:
    """Those of one session reach their handlers in the order of their arrival, whatever lets them go (rule 5)."""
    wire = Wire(Limits(max_queued_messages=2))
    begin: Deferred[None] = Deferred()
    order: list[object] = []

    def arrive() -> None:
        wire.request(4, "m")
        wire.request(5, "m")

    def request(request: IncomingRequest) -> None:
        order.append(request.id)
        if request.id == 1 and when != "reading goes on":
            arrive()

    async def handler(_: object) -> None:
        await begin
        await wire.peer.call("ask")

    wire.router.requests["m"] = request
    wire.router.notifications["n"] = lambda _: Deferred.fromCoroutine(handler(None))
    wire.notify("n")
    for number in (1, 2, 3):
        wire.request(number, "m")
    assert not wire.transport.reading
    if when == "reading goes on":
        wire.transport.on_resume = arrive
    begin.callback(None)
    assert order == [1, 2, 3, 4, 5]
    wire.result(1, None)
    assert len(wire.peer.lanes) == 0


def test_answer_that_comes_as_requests_go_through_comes_behind_them(wire: Wire) -> None:
    """So does an answer that may overtake the handler (rule 5)."""
    begin: Deferred[None] = Deferred()
    order: list[object] = []

    def request(request: IncomingRequest) -> None:
        order.append(request.id)
        if request.id == 1:
            wire.result(1, "the bystander's")

    async def handler(_: object) -> None:
        await begin
        await wire.peer.call("ask")

    wire.router.requests["m"] = request
    wire.router.notifications["n"] = lambda _: Deferred.fromCoroutine(handler(None))
    wire.notify("n")
    wire.peer.call("of a bystander").addCallback(order.append)
    for number in (1, 2):
        wire.request(number, "m")
    begin.callback(None)
    assert order == [1, 2, "the bystander's"]
    wire.result(2, None)
    assert len(wire.peer.lanes) == 0


def test_request_that_ends_the_handler_lets_nothing_past_the_next(wire: Wire, updates: Updates) -> None:
    """Letting requests through may end the handler that asked: what is behind the next update waits for that."""
    start: Deferred[None] = Deferred()
    end: Deferred[None] = Deferred()
    seen: list[object] = []

    async def ask() -> None:
        await start
        await wire.peer.call("ask")

    def handler() -> Deferred[None]:
        Deferred.fromCoroutine(ask())
        return end

    def first(_: IncomingRequest) -> None:
        seen.append("first")
        end.callback(None)

    handle(wire, "n", handler)
    wire.router.requests.update(first=first, second=lambda _: seen.append("second"))
    wire.notify("n", {"sessionId": "s"})
    wire.request(1, "first", {"sessionId": "s"})
    update(wire, 1)
    wire.request(2, "second", {"sessionId": "s"})
    start.callback(None)
    assert seen == ["first"]
    assert updates.started == [1]
    updates.end(1)
    assert seen == ["first", "second"]


def test_handler_that_waits_for_somebody_elses_call(wire: Wire) -> None:
    """A handler that waits for an answer lets through those that were asked for while it ran: it may need them."""
    others: list[Deferred[object]] = []
    done: list[object] = []

    async def handler() -> None:
        await wire.peer.call("ask", {"sessionId": "s"})
        done.append(await others[0])

    handle(wire, "n", handler)
    wire.notify("n", {"sessionId": "s"})
    shared: Deferred[object] = Deferred()
    others.append(shared)
    wire.peer.call("other", {"sessionId": "s"}).addBoth(shared.callback)
    wire.result(2, "theirs")
    wire.result(1, "mine")
    assert done == ["theirs"]
    assert idle(wire)


def test_answer_to_what_was_asked_before_the_handler_waits_for_it(wire: Wire) -> None:
    """The escape is for who was asked during the handler: a prompt from before still comes after its updates (B28)."""
    prompt = wire.peer.call("prompt", {"sessionId": "s"})
    handle(wire, "n", lambda: wire.peer.call("ask", {"sessionId": "s"}))
    wire.notify("n", {"sessionId": "s"})
    wire.result(1, "end_turn")
    no_result(prompt)
    wire.result(2)
    assert success(prompt) == "end_turn"


def test_call_of_a_bystander_waits_for_a_handler_that_asks_nothing(wire: Wire, updates: Updates) -> None:
    """A prompt sent while a slow update of the session is handled is answered after it all the same (B28)."""
    update(wire, 1)
    prompt = wire.peer.call("prompt", {"sessionId": "s"})
    update(wire, 2)
    wire.result(1, "end_turn")
    no_result(prompt)
    updates.end(1)
    no_result(prompt)
    updates.end(2)
    assert success(prompt) == "end_turn"


def test_call_made_after_the_handler_has_ended_waits_like_any_other(wire: Wire, updates: Updates) -> None:
    """Work that a handler left behind is no handler: its calls keep the order (rule 5)."""
    later: Deferred[None] = Deferred()
    calls: list[Deferred[Any]] = []

    async def left_behind() -> None:
        await later
        calls.append(wire.peer.call("m", {"sessionId": "s"}))

    def handler() -> None:
        Deferred.fromCoroutine(left_behind())

    handle(wire, "n", handler)
    wire.notify("n", {"sessionId": "s"})
    update(wire, 1)
    later.callback(None)
    wire.result(1)
    no_result(calls[0])
    updates.end(1)
    success(calls[0])


def test_answer_that_the_handler_did_not_wait_for_waits_like_any_other(wire: Wire, updates: Updates) -> None:
    """A handler that asked and ended is no reason for its answer to overtake the next (rule 5)."""
    calls: list[Deferred[Any]] = []
    handle(wire, "n", lambda: calls.append(wire.peer.call("m", {"sessionId": "s"})))
    wire.notify("n", {"sessionId": "s"})
    update(wire, 1)
    wire.result(1)
    no_result(calls[0])
    updates.end(1)
    success(calls[0])


def test_detached_call_is_not_waited_for(wire: Wire) -> None:
    """A handler that gave up its answer waits for none, so the order of its lane holds again (P3)."""
    slow: Deferred[None] = Deferred()

    def handler() -> Deferred[None]:
        wire.peer.call("ask").detach()
        return slow

    handle(wire, "n", handler)
    wire.router.requests["m"] = lambda _: "r"
    wire.notify("n")
    wire.request(1, "m")
    assert wire.answers(1) == []
    wire.result(1)
    slow.callback(None)
    assert wire.answers(1) == [{"result": "r"}]
    assert idle(wire)


@pytest.mark.parametrize("how", ["answer", "error", "cancel", "timeout"])
def test_order_holds_again_once_the_handler_has_its_answer(wire: Wire, how: str) -> None:
    """Whichever way its call ends, a handler that goes on working holds its lane again."""
    slow: Deferred[None] = Deferred()
    calls: list[Any] = []

    def handler() -> Deferred[None]:
        calls.append(wire.peer.call("ask", timeout=5))
        calls[0].addErrback(lambda _: None)
        return slow

    handle(wire, "n", handler)
    wire.router.requests["m"] = lambda _: "r"
    wire.notify("n")
    wire.request(1, "m")
    assert len(wire.answers(1)) == 1
    if how == "answer":
        wire.result(1)
    elif how == "error":
        wire.error(1, -32603)
    elif how == "cancel":
        calls[0].cancel()
    else:
        wire.clock.advance(5)
    wire.request(2, "m")
    assert wire.answers(2) == []
    slow.callback(None)
    assert wire.answers(2) == [{"result": "r"}]
    assert idle(wire)


def test_unsendable_call_leaves_the_handler_waiting_for_nothing(wire: Wire) -> None:
    """A call that failed before it was sent is no reason to let anything through later."""
    slow: Deferred[None] = Deferred()

    def handler() -> Deferred[None]:
        wire.peer.call("ask", {"a": {1}}).addErrback(lambda _: None)
        return slow

    handle(wire, "n", handler)
    wire.router.requests["m"] = lambda _: "r"
    wire.notify("n")
    wire.request(1, "m")
    assert wire.answers(1) == []


def test_answer_for_another_session_is_not_held_by_that_sessions_handler(wire: Wire, updates: Updates) -> None:
    """A handler of one session that asks about another, busy one gets its answer (cross-lane, B31)."""
    done: list[object] = []

    async def handler() -> None:
        done.append(await wire.peer.call("ask", {"sessionId": "b"}))

    handle(wire, "n", handler)
    update(wire, "b1", "b")
    update(wire, "b2", "b")
    wire.notify("n", {"sessionId": "a"})
    wire.result(1, "r")
    assert done == ["r"]


def test_two_sessions_that_ask_about_each_other(wire: Wire) -> None:
    """Handlers of two sessions, each waiting for an answer in the other's lane, both get it."""
    done: list[object] = []

    def asks(session: str) -> Callable[[], Any]:
        async def handler() -> None:
            done.append(await wire.peer.call("ask", {"sessionId": session}))

        return handler

    handle(wire, "a", asks("b"))
    handle(wire, "b", asks("a"))
    wire.notify("a", {"sessionId": "a"})
    wire.notify("b", {"sessionId": "b"})
    wire.result(2, "for b")
    wire.result(1, "for a")
    assert done == ["for b", "for a"]
    assert idle(wire)


def test_two_connections_that_ask_each_other() -> None:
    """Handlers of two connections of one program, as in a proxy, each waiting for the other's peer, both end."""
    left, right = Wire(), Wire()
    done: list[object] = []

    def asks(wire: Wire) -> Callable[[], Any]:
        async def handler() -> None:
            done.append(await wire.peer.call("ask", {"sessionId": "s"}))

        return handler

    handle(left, "n", asks(right))
    handle(right, "n", asks(left))
    left.notify("n", {"sessionId": "s"})
    right.notify("n", {"sessionId": "s"})
    left.result(1, "left's")
    right.result(1, "right's")
    assert sorted(map(str, done)) == ["left's", "right's"]
    assert idle(left)
    assert idle(right)


def test_forwarded_question_of_the_peer_that_is_asked() -> None:
    """A proxy's handler waits for the agent, who asks the client first, through the same proxy: that goes through."""
    client, agent = Wire(), Wire()
    done: list[object] = []

    async def notified() -> None:
        done.append(await agent.peer.call("ask", {"sessionId": "s"}))

    async def forward(request: IncomingRequest) -> object:
        return await client.peer.call(request.method, request.params)

    handle(client, "n", notified)
    agent.router.requests["permission"] = forward
    client.notify("n", {"sessionId": "s"})
    agent.request(7, "permission", {"sessionId": "s"})
    client.result(1, "allowed")
    assert agent.answers(7) == [{"result": "allowed"}]
    agent.result(1, "r")
    assert done == ["r"]


def test_answer_that_comes_while_the_request_is_sent(wire: Wire) -> None:
    """On a link without delay the answer is there before the handler has returned, and is his."""
    done: list[object] = []
    wire.transport.on_send = lambda message: wire.result(message["id"], "r")

    async def handler() -> None:
        done.append(await wire.peer.call("ask", {"sessionId": "s"}))

    handle(wire, "n", handler)
    wire.notify("n", {"sessionId": "s"})
    assert done == ["r"]
    assert idle(wire)


def test_deadlock_that_nobody_can_see_is_bounded_by_the_timeout(wire: Wire, logged_errors: list[Any]) -> None:
    """A handler that waits for a call which others made for it, unseen, goes on when the request times out."""
    shared: Deferred[object] = Deferred()
    handle(wire, "n", lambda: shared)
    wire.notify("n", {"sessionId": "s"})
    wire.peer.call("m", {"sessionId": "s"}).addBoth(shared.callback)
    wire.result(1)
    no_result(shared)
    wire.clock.advance(60)
    assert wire.clock.getDelayedCalls() == []
    gc.collect()
    assert [event["log_failure"].type for event in logged_errors] == [RequestTimedOut]
    logged_errors.clear()
    assert idle(wire)
