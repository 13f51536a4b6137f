"""
The token that a handler looks at, and the two dialects (design rule 3; C18, C20, B75).
"""

from __future__ import annotations

import gc
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from wire import failure, no_result, success

from acp_twisted.errors import REQUEST_CANCELLED, RequestCancelled
from acp_twisted.jsonrpc.cancellation import (
    ACP,
    MCP,
    REPEATED_TRIGGERS,
    CancellationDialect,
    CancellationToken,
)


@pytest.fixture
def token() -> CancellationToken:
    """A token that nothing has cancelled."""
    return CancellationToken()


def test_token_is_set_once_and_stays_set(token: CancellationToken) -> None:
    """Polling says whether, and the triggers say by what, in their order (J29, J22, P4)."""
    assert not token.cancelled
    assert token.triggers == ()
    token.cancel("session/cancel")
    token.cancel("cancelGracePeriod")
    assert token.cancelled
    assert token.triggers == ("session/cancel", "cancelGracePeriod")


def test_token_is_not_flooded(token: CancellationToken) -> None:
    """Rule 6: a peer that cancels without end adds nothing more; what cancels in another way is still seen."""
    for _ in range(1000):
        token.cancel("session/cancel")
    token.cancel("$/cancel_request")
    token.cancel("session/cancel")
    assert token.triggers == ("session/cancel",) * REPEATED_TRIGGERS + ("$/cancel_request",)


def test_callbacks_run_once_in_order_inside_the_cancellation(token: CancellationToken) -> None:
    """Each is called in the delivery, in the order of registration, and never again (J23, P4)."""
    seen: list[object] = []
    token.on_cancel(lambda: seen.append(("first", token.cancelled)))
    token.on_cancel(lambda: seen.append("second"))
    assert seen == []
    token.cancel("a")
    token.cancel("b")
    assert seen == [("first", True), "second"]


def test_callback_that_comes_late_is_called_now(token: CancellationToken) -> None:
    """A registration after the cancellation is not too late (C18, J23, JT30)."""
    token.cancel("a")
    seen: list[str] = []
    token.on_cancel(lambda: seen.append("now"))
    assert seen == ["now"]


def test_callback_registered_by_a_callback_is_called(token: CancellationToken) -> None:
    """Whoever registers while the cancellation is delivered is called as well."""
    seen: list[str] = []
    token.on_cancel(lambda: token.on_cancel(lambda: seen.append("inner")))
    token.cancel("a")
    assert seen == ["inner"]


def test_failing_callback_stops_nobody(token: CancellationToken, logged_errors: list[Any]) -> None:
    """What a callback raises is logged, and the others are called; early or late (rule 7, J23)."""
    seen: list[str] = []
    token.on_cancel(lambda: 1 // 0)
    token.on_cancel(lambda: seen.append("called"))
    token.cancel("a")
    token.on_cancel(lambda: 1 // 0)
    assert seen == ["called"]
    assert len(logged_errors) == 2
    logged_errors.clear()


def test_registration_can_be_taken_back(token: CancellationToken) -> None:
    """Before the cancellation, and by a callback that runs earlier in it; what was never registered does no harm."""
    seen: list[str] = []

    def early() -> None:
        seen.append("early")

    def late() -> None:
        seen.append("late")

    token.forget(late)
    token.on_cancel(early)
    token.on_cancel(lambda: token.forget(late))
    token.on_cancel(late)
    token.forget(early)
    token.cancel("a")
    assert seen == []


def test_when_cancelled_fires_for_each_who_waits(token: CancellationToken) -> None:
    """Everybody has a Deferred of his own; it fires with nothing, at once where it has happened (J24, C18)."""
    first, second = token.when_cancelled(), token.when_cancelled()
    assert first is not second
    no_result(first)
    token.cancel("a")
    assert success(first) is None
    assert success(second) is None
    assert success(token.when_cancelled()) is None


def test_waiting_can_be_given_up(token: CancellationToken) -> None:
    """Cancelling the Deferred cancels nothing but the waiting."""
    waiting = token.when_cancelled()
    waiting.cancel()
    failure(waiting, CancelledError)
    assert not token.cancelled
    token.cancel("a")


def test_one_who_waits_may_give_up_for_another(token: CancellationToken) -> None:
    """A callback that cancels the next in line does no harm (B75)."""
    first, second, third = (token.when_cancelled() for _ in range(3))
    first.addCallback(lambda _: second.cancel())
    token.cancel("a")
    success(first)
    failure(second, CancelledError)
    success(third)


def test_when_cancelled_that_never_comes_makes_no_noise(token: CancellationToken, logged_errors: list[Any]) -> None:
    """Most requests are never cancelled; what waited for it is simply let go."""
    token.when_cancelled()
    token.run_until_cancelled(Deferred())
    del token
    gc.collect()
    assert logged_errors == []


def test_work_that_finishes_first_is_its_own_result(token: CancellationToken) -> None:
    """run_until_cancelled yields the work's result or failure, and then a cancellation comes too late (J24)."""
    work: Deferred[str] = Deferred()
    outcome = token.run_until_cancelled(work)
    failing: Deferred[str] = Deferred()
    failed = token.run_until_cancelled(failing)
    work.callback("r")
    failing.errback(ValueError())
    token.cancel("a")
    assert success(outcome) == "r"
    failure(failed, ValueError)


def test_work_that_has_finished_is_its_own_result(token: CancellationToken) -> None:
    """So it is when the work had finished before."""
    assert success(token.run_until_cancelled(succeed("r"))) == "r"
    failure(token.run_until_cancelled(fail(ValueError())), ValueError)


def test_cancellation_ends_the_work_with_the_standard_error(token: CancellationToken) -> None:
    """The work is cancelled, and the caller sees -32800 and nothing else (C20, C21, J24)."""
    cancelled: list[str] = []
    outcome: Deferred[None] = token.run_until_cancelled(Deferred(lambda _: cancelled.append("work")))
    token.cancel("a")
    error = failure(outcome, RequestCancelled)
    assert (error.code, error.message, error.data) == (REQUEST_CANCELLED, "Request cancelled", None)
    assert cancelled == ["work"]


def test_work_that_starts_after_the_cancellation_does_not_run(token: CancellationToken) -> None:
    """A handler that gets to its work late finds it cancelled (B02, B03)."""
    token.cancel("a")
    work: Deferred[None] = Deferred()
    failure(token.run_until_cancelled(work), RequestCancelled)
    assert work.called


@pytest.mark.parametrize("ending", ["value", "error", "never"])
def test_work_that_does_not_stop_is_not_waited_for(
    token: CancellationToken, ending: str, logged_errors: list[Any]
) -> None:
    """Work that swallows its cancellation, and what comes of it later, is dropped."""
    late: Deferred[object] = Deferred()

    async def stubborn() -> object:
        try:
            return await Deferred()
        except CancelledError:
            return await late

    outcome = token.run_until_cancelled(Deferred.fromCoroutine(stubborn()))
    token.cancel("a")
    failure(outcome, RequestCancelled)
    if ending == "value":
        late.callback(1)
    elif ending == "error":
        late.errback(ValueError())
    gc.collect()
    assert logged_errors == []


def test_work_whose_canceller_raises_is_not_waited_for(token: CancellationToken, logged_errors: list[Any]) -> None:
    """A raising canceller leaves its Deferred unfired; the caller is told all the same (B75)."""

    def canceller(_: object) -> None:
        raise RuntimeError("canceller")

    outcome: Deferred[None] = token.run_until_cancelled(Deferred(canceller))
    token.cancel("a")
    failure(outcome, RequestCancelled)
    assert len(logged_errors) == 1
    logged_errors.clear()


def test_giving_up_the_outcome_cancels_the_work(token: CancellationToken) -> None:
    """The outcome's own cancellation goes to the work."""
    work: Deferred[None] = Deferred()
    outcome = token.run_until_cancelled(work)
    outcome.cancel()
    failure(outcome, CancelledError)
    assert work.called
    assert not token.cancelled
    token.cancel("a")


def test_callbacks_of_finished_work_are_forgotten(token: CancellationToken) -> None:
    """A long handler that runs many works under one token keeps none of them alive (rule 6)."""
    for _ in range(100):
        success(token.run_until_cancelled(succeed(None)))
        work: Deferred[None] = Deferred()
        outcome = token.run_until_cancelled(work)
        work.callback(None)
        success(outcome)
        waiting = token.when_cancelled()
        waiting.cancel()
        failure(waiting, CancelledError)
    assert not token._callbacks


# ---- dialects


@pytest.mark.parametrize(
    ("dialect", "reason", "params"),
    [
        (ACP, None, {"requestId": 7}),
        (ACP, "why", {"requestId": 7}),
        (MCP, None, {"requestId": 7}),
        (MCP, "why", {"requestId": 7, "reason": "why"}),
    ],
)
def test_params_of_a_cancellation(dialect: CancellationDialect, reason: str | None, params: dict[str, object]) -> None:
    """Both name the request; only MCP says why."""
    assert dialect.params(7, reason) == params


def test_what_the_dialects_say() -> None:
    """The method names, and the one rule in which the protocols are opposites (B18, B19)."""
    assert (ACP.method, ACP.answers, sorted(ACP.never)) == ("$/cancel_request", True, [])
    assert (MCP.method, MCP.answers, sorted(MCP.never)) == ("notifications/cancelled", False, ["initialize"])
