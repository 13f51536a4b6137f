"""The permission policies: what each answers, and that no mistake becomes a yes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from halves import ClientHalf, permission
from twisted.internet.defer import Deferred, succeed

from acp_twisted import AcpClient
from acp_twisted.client.permissions import AllowList, Ask, cancelled, deny, first_allow, selected
from acp_twisted.schema import v1

ALL = ("reject_always", "allow_always", "reject_once", "allow_once")


def asked(*kinds: str, **call: Any) -> v1.RequestPermissionRequest:
    """A request with an option of each kind, whose id is the kind in capitals."""
    return v1.RequestPermissionRequest(
        session_id="s1",
        tool_call=v1.ToolCallUpdate(tool_call_id="t1", **call),
        options=[v1.PermissionOption(option_id=kind.upper(), name=kind, kind=kind) for kind in kinds],
    )


def picked(response: v1.RequestPermissionResponse) -> str | None:
    """The option of an answer; L{None} is C{cancelled}."""
    outcome = response.outcome
    if isinstance(outcome, v1.SelectedPermissionOutcome):
        return outcome.option_id
    assert isinstance(outcome, v1.CancelledPermissionOutcome)
    return None


@pytest.mark.parametrize(
    ("policy", "kinds", "expected"),
    [
        (first_allow, ALL, "ALLOW_ONCE"),
        (first_allow, ("reject_once", "allow_always"), "ALLOW_ALWAYS"),
        (first_allow, ("reject_once", "allow_strangely"), None),
        (first_allow, (), None),
        (deny, ALL, "REJECT_ONCE"),
        (deny, ("allow_once", "reject_always"), "REJECT_ALWAYS"),
        (deny, ("allow_once",), None),
    ],
)
def test_allow_and_deny(policy: Callable[..., Any], kinds: tuple[str, ...], expected: str | None) -> None:
    """The least that says it; where nothing offered says it, cancelled."""
    assert picked(policy(asked(*kinds))) == expected


@pytest.mark.parametrize(
    ("call", "allowed"),
    [
        ({"kind": "read"}, True),
        ({"kind": "edit"}, False),
        ({"name": "grep"}, True),
        ({"name": "rm"}, False),
        ({"title": "List /w"}, True),
        ({"title": "list /w"}, False),
        ({"title": "Unlist"}, False),
        ({}, False),
    ],
)
def test_an_allow_list(call: dict[str, str], allowed: bool) -> None:
    """By kind, by name, or by the pattern of a title; whatever else is denied."""
    policy = AllowList(kinds=["read"], names=["grep"], titles=["List *"])
    assert picked(policy(asked(*ALL, **call))) == ("ALLOW_ONCE" if allowed else "REJECT_ONCE")


def test_an_allow_list_hands_on() -> None:
    """What it does not name may be asked of somebody."""
    policy = AllowList(kinds=["read"], otherwise=Ask(lambda request: "ALLOW_ALWAYS"))
    assert picked(policy(asked(*ALL, kind="edit"))) == "ALLOW_ALWAYS"
    assert picked(policy(asked(*ALL, kind="read"))) == "ALLOW_ONCE"


def test_an_allow_list_is_no_string() -> None:
    """A string is many strings of one letter, which nobody means."""
    with pytest.raises(TypeError, match="kinds"):
        AllowList(kinds="read")


def test_an_allow_list_knows_the_tracked_tool_call() -> None:
    """A request may say no more than the id of what the updates have told of."""
    half = ClientHalf(
        AcpClient.builder().track_sessions().request_permission_handler(AllowList(kinds=["read"])).build()
    )
    call = {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "x", "kind": "read"}
    half.send({"method": "session/update", "params": {"sessionId": "s1", "update": call}}, permission(7))
    half.send(permission(8, "s9"))
    outcomes = [each["result"]["outcome"] for each in half.take()]
    assert outcomes == [{"outcome": "selected", "optionId": "y"}, {"outcome": "cancelled"}]


OPTION = v1.PermissionOption(option_id="REJECT_ALWAYS", name="", kind="reject_always")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (True, "ALLOW_ONCE"),
        (False, "REJECT_ONCE"),
        (None, None),
        ("ALLOW_ALWAYS", "ALLOW_ALWAYS"),
        (OPTION, "REJECT_ALWAYS"),
        (selected("ALLOW_ALWAYS"), "ALLOW_ALWAYS"),
        (cancelled(), None),
        ("allow", "REJECT_ONCE"),
        ("", "REJECT_ONCE"),
        (selected("allow"), "REJECT_ONCE"),
    ],
)
@pytest.mark.parametrize("how", ["value", "Deferred", "coroutine"])
def test_ask(choice: object, expected: str | None, how: str) -> None:
    """Every way to say it, and to return it; an option that was not offered is a no."""

    async def later(request: object) -> object:
        return choice

    ways: dict[str, Callable[..., Any]] = {
        "value": lambda request: choice,
        "Deferred": lambda request: succeed(choice),
        "coroutine": later,
    }
    answer = Ask(ways[how])(asked(*ALL), None)
    assert picked(answer if how == "value" else answer.result) == expected


def test_ask_what_is_no_answer() -> None:
    """A mistake of the program is no yes, and is told."""
    with pytest.raises(TypeError, match="int"):
        Ask(lambda request: 1)(asked(*ALL))


def test_a_cancelled_turn_withdraws_the_question() -> None:
    """V1C3: the library answers, and who is asked learns that nobody waits any more."""
    withdrawn: list[Any] = []

    def ask(request: object) -> Deferred[bool]:
        return Deferred[bool](withdrawn.append)

    half = ClientHalf(AcpClient.builder().request_permission_handler(Ask(ask)).build())
    half.session.prompt("hi").response.addErrback(lambda _: None)
    half.send(permission(7))
    half.take()
    half.session.cancel()
    assert half.take()[1] == {"id": 7, "result": {"outcome": {"outcome": "cancelled"}}}
    assert len(withdrawn) == 1
    assert withdrawn[0].called


@pytest.mark.parametrize("how", ["answer", "later", "fail"])
def test_a_handler_that_cancels_its_own_turn(how: str) -> None:
    """V1C3: its own request is open too, so it is answered C{cancelled}, whatever the handler makes of it then."""
    left: list[object] = []

    def cancels(request: v1.RequestPermissionRequest) -> object:
        half.session.cancel()
        if how == "fail":
            raise ValueError
        return Deferred(left.append) if how == "later" else selected("A")

    half = ClientHalf(AcpClient.builder().request_permission_handler(cancels).build())
    half.session.prompt("hi")
    half.take()
    half.send(permission())
    cancelled_first, answer = half.take()
    assert cancelled_first["method"] == "session/cancel"
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}
    assert len(left) == (how == "later")
    assert half.connection._permissions == {}
