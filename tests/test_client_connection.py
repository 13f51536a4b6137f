"""
The client half on the wire: turns and how they are cancelled, what it owes the agent, and what it holds back.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from conftest import LoggedErrors
from halves import ClientHalf, cancel_request, permission, update
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from wire import failure, no_result, success

from acp_twisted import AcpAgent, AcpClient, CancellationSignal, Limits
from acp_twisted.client.client import AcpClientBuilder
from acp_twisted.client.followers import SessionFollower
from acp_twisted.client.session import PromptTurn
from acp_twisted.errors import (
    AcpCapabilityError,
    AcpConnectionError,
    AcpError,
    AcpVersionError,
    AuthRequired,
    LimitExceeded,
    NotInitialized,
    RequestCancelled,
    RequestTimedOut,
    SessionBusy,
)
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink

ALLOWED = v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id="y"))
SAYS_CANCELLED = {"result": {"outcome": {"outcome": "cancelled"}}}
SESSION_CANCEL = {"method": "session/cancel", "params": {"sessionId": "s1"}}
END_TURN = {"result": {"stopReason": "end_turn"}}


class User:
    """
    What is behind a client: he sees updates and is asked for permissions.

    @ivar texts: the updates that he was shown.
    @ivar asked: the permissions that he was asked for.
    @ivar slow: what the next updates wait for, if anything.
    @ivar stopped: how many permission requests were taken back.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.asked: list[Deferred[Any]] = []
        self.slow: Deferred[None] | None = None
        self.stopped = 0

    def sees(self, notification: v1.SessionNotification) -> Deferred[None] | None:
        """An update."""
        self.texts.append(notification.update.content.text)  # type: ignore[union-attr]
        slow, self.slow = self.slow, None
        return slow

    def decides(self, request: v1.RequestPermissionRequest) -> Deferred[Any]:
        """A permission."""
        self.asked.append(Deferred(self._stopped))
        return self.asked[-1]

    def _stopped(self, _: object) -> None:
        self.stopped += 1


@pytest.fixture
def user() -> User:
    """The user of these tests."""
    return User()


def builder(user: User) -> AcpClientBuilder:
    """A client that shows updates and asks for permissions."""
    return AcpClient.builder().session_update_handler(user.sees).request_permission_handler(user.decides)


@pytest.fixture
def half(user: User) -> ClientHalf:
    """A client with the session C{s1}."""
    return ClientHalf(builder(user).build())


def settled(half: ClientHalf) -> None:
    """Nothing is left: no request, no timer, no lane, no turn, no permission."""
    connection = half.connection
    assert connection.peer.pending_requests == connection.peer.incoming_requests == len(connection.peer.lanes) == 0
    assert half.clock.getDelayedCalls() == []
    assert all(session.turn is None for session in connection._sessions.values())
    assert connection._permissions == {}
    assert connection._cancelling == set()
    assert len(connection._early) == connection._opening == 0


# ---- cancelling a turn


def test_cancel_sends_session_cancel_once_and_the_answer_still_comes(half: ClientHalf, user: User) -> None:
    """The turn ends with the agent's answer, and updates come until then (V1C1, V1C8, B05, B23, JC3)."""
    turn = half.session.prompt("go")
    number = half.last_id()
    turn.cancel()
    turn.cancel()
    half.session.cancel()
    half.update("late")
    assert half.take()[1:] == [SESSION_CANCEL]
    no_result(turn.response)
    half.send({"id": number, "result": {"stopReason": "cancelled"}})
    assert success(turn.response).stop_reason == "cancelled"
    assert user.texts == ["late"]
    turn.cancel()
    half.session.cancel()
    assert half.take() == []
    settled(half)


def test_a_signal_stops_every_turn_that_has_it(half: ClientHalf) -> None:
    """Given once, it cancels all that are unanswered, and nothing afterwards (JC4, J14)."""
    opening = half.connection.new_session("/w")
    half.send({"id": half.last_id(), "result": {"sessionId": "s2"}})
    stop = CancellationSignal()
    first = half.session.prompt("go", stop)
    success(opening).prompt("go", stop)
    other = half.connection.list_sessions()
    asked = half.connection.call(v1.ListSessionsRequest(), stop=stop)
    half.take()
    stop.cancel()
    stop.cancel()
    cancelled = [each["params"].get("sessionId") or each["params"]["requestId"] for each in half.take()]
    assert cancelled == ["s1", "s2", asked.request_id]
    half.send({"id": first.response.request_id, "result": {"stopReason": "cancelled"}})
    no_result(other)
    no_result(asked)


def test_a_signal_given_before(half: ClientHalf) -> None:
    """The prompt is sent, then cancelled at once (JC4)."""
    stop = CancellationSignal()
    stop.cancel()
    half.session.prompt("go", stop)
    assert half.methods() == ["session/prompt", "session/cancel"]
    call = half.connection.call(v1.ListSessionsRequest(), stop=stop)
    assert half.methods()[2:] == ["session/list", "$/cancel_request"]
    no_result(call)


def test_a_signal_after_the_answer_sends_nothing(half: ClientHalf) -> None:
    """And the turn holds no place in it any more (JC4)."""
    stop = CancellationSignal()
    turn = half.session.prompt("go", stop)
    half.send({"id": half.last_id(), **END_TURN})
    success(turn.response)
    half.take()
    stop.cancel()
    assert half.take() == []
    assert stop._token._callbacks == []


def test_nothing_is_cancelled_once_the_answer_has_arrived(half: ClientHalf, user: User) -> None:
    """The answer may still wait for a slow update handler: it is an answer all the same (B05, B28)."""
    slow = user.slow = Deferred()
    stop = CancellationSignal()
    turn = half.session.prompt("go", stop)
    number = half.last_id()
    half.send(update("tail"), {"id": number, **END_TURN})
    no_result(turn.response)
    half.take()
    stop.cancel()
    turn.cancel()
    turn.response.cancel_handle().cancel()
    assert half.take() == []
    slow.callback(None)
    assert success(turn.response).stop_reason == "end_turn"
    settled(half)


def test_giving_up_a_turn_cancels_its_request(half: ClientHalf, user: User) -> None:
    """
    response.cancel() ends the call at once, with one $/cancel_request, and the late answer is for nobody (B11, JC5,
    P2).
    """
    turn = half.session.prompt("five")
    number = half.last_id()
    turn.response.cancel()
    failure(turn.response, RequestCancelled)
    assert half.take()[1:] == [cancel_request(number)]
    turn.cancel()
    assert half.take() == []
    later = half.session.prompt("six")
    half.send({"id": number, **END_TURN})
    no_result(later.response)
    half.update("six")
    half.send({"id": later.response.request_id, "result": {"stopReason": "max_tokens"}})
    assert success(later.response).stop_reason == "max_tokens"
    settled(half)


def test_prompts_have_no_timeout_unless_said(half: ClientHalf, user: User) -> None:
    """The request timeout does not apply (B26); a prompt's own does, also by the client's default (J10, J33)."""
    turn = half.session.prompt("go")
    half.clock.advance(3600)
    no_result(turn.response)
    bounded = ClientHalf(builder(user).prompt_timeout(30).build())
    turn = bounded.session.prompt("go")
    bounded.clock.advance(30)
    failure(turn.response, RequestTimedOut)
    assert bounded.methods() == ["session/prompt", "$/cancel_request"]
    settled(bounded)


def test_an_agent_that_ignores_a_cancel(half: ClientHalf) -> None:
    """The turn's end is the agent's answer, however long that takes; a timeout on the turn is the way out (B10, A2)."""
    turn = half.session.prompt("go", timeout=40)
    turn.cancel()
    half.clock.advance(39)
    no_result(turn.response)
    half.clock.advance(1)
    failure(turn.response, RequestTimedOut)
    assert half.methods() == ["session/prompt", "session/cancel", "$/cancel_request"]
    half.session.prompt("again")


@pytest.mark.parametrize("code", [-32800, -32603, -32000])
def test_an_error_after_a_cancel_counts_as_cancelled(half: ClientHalf, code: int) -> None:
    """Any error answer after our own cancel settles the turn as cancelled, with the error as detail (B07)."""
    turn = half.session.prompt("go")
    turn.cancel()
    half.send({"id": half.last_id(), "error": {"code": code, "message": "aborted"}})
    assert success(turn.response).stop_reason == "cancelled"
    assert turn.error is not None
    assert turn.error.code == code


def test_an_error_without_a_cancel_is_an_error(half: ClientHalf) -> None:
    """And the session takes the next prompt (B25)."""
    turn = half.session.prompt("go")
    half.send({"id": half.last_id(), "error": {"code": -32603, "message": "m"}})
    assert failure(turn.response, AcpError).remote
    half.session.prompt("again")


def test_a_busy_session_refuses_here(half: ClientHalf) -> None:
    """Nothing is sent, and the turn goes on (B14)."""
    turn = half.session.prompt("go")
    half.take()
    with pytest.raises(SessionBusy):
        half.session.prompt("again")
    assert half.take() == []
    half.send({"id": turn.response.request_id, **END_TURN})
    success(turn.response)
    half.session.prompt("again")


def test_a_lost_link_ends_every_turn(half: ClientHalf) -> None:
    """Each turn fails once with the reason, and so does every later one (B25)."""
    turn = half.session.prompt("go")
    half.lose()
    failure(turn.response, AcpConnectionError)
    failure(half.session.prompt("again").response, AcpConnectionError)
    turn.cancel()
    settled(half)


def test_a_cancel_that_is_answered_from_within_touches_no_later_turn(user: User) -> None:
    """On a link that delivers at once the cancel's answer, and the next turn, come while the cancel is being sent."""
    clock = Clock()
    prompts: list[Deferred[Any]] = []

    def prompted(request: v1.PromptRequest, context: Any) -> Deferred[Any]:
        work: Deferred[Any] = Deferred()
        prompts.append(work)
        context.on_cancel(lambda: work.callback(v1.PromptResponse(stop_reason="end_turn")))
        return work

    agent = AcpAgent.builder().prompt_handler(prompted).build().connect(clock)
    client = builder(user).build().connection(clock)
    link = MemoryLink(client.peer, agent.peer, clock)
    client.initialize()
    session = success(client.new_session("/w"))
    first = session.prompt("one")
    later: list[PromptTurn] = []

    def go_on(response: v1.PromptResponse) -> v1.PromptResponse:
        later.append(session.prompt("two"))
        return response

    first.response.addCallback(go_on)
    first.cancel()
    link.deliver_all()
    assert success(first.response).stop_reason == "cancelled"
    assert first.cancel_sent
    assert not later[0].cancel_sent
    assert client._cancelling == set()
    later[0].cancel()
    assert sum(b'"session/cancel"' in message for message in link.sent("a>b")) == 2


# ---- permissions


def test_open_permissions_are_answered_behind_the_cancel(half: ClientHalf, user: User) -> None:
    """session/cancel first, then each answer, in the order of asking; the user is told (V1C3, B16, JC1, JC2)."""
    turn = half.session.prompt("go")
    half.send(permission(7), permission(8))
    half.send(permission(9, "s9"))
    half.take()
    turn.cancel()
    assert half.take() == [SESSION_CANCEL, {"id": 7, **SAYS_CANCELLED}, {"id": 8, **SAYS_CANCELLED}]
    assert user.stopped == 2
    user.asked[2].callback(ALLOWED)
    assert half.take()[0]["id"] == 9


def test_closing_answers_the_open_permissions(half: ClientHalf, user: User) -> None:
    """
    session/close acts as session/cancel first, so what the turn has asked the user is answered at once, and the agent
    does not wait for it; an agent that can't close is left alone (V1C10, V1C3).
    """
    half.session.prompt("go")
    half.send(permission(7))
    half.take()
    able, half.connection.agent_capabilities = half.connection.agent_capabilities, v1.AgentCapabilities()
    with pytest.raises(AcpCapabilityError, match=r"sessionCapabilities\.close"):
        half.session.close()
    assert half.methods() == []
    half.connection.agent_capabilities = able
    half.session.close()
    closing, answer = half.take()
    assert closing["method"] == "session/close"
    assert answer == {"id": 7, **SAYS_CANCELLED}
    assert user.stopped == 1


def test_permissions_of_a_cancelled_turn_are_not_asked(half: ClientHalf, user: User) -> None:
    """Until its answer; then the user is asked again (B17, V1C3)."""
    turn = half.session.prompt("go")
    turn.cancel()
    number = half.last_id()
    half.take()
    half.send(permission(9))
    assert half.take() == [{"id": 9, **SAYS_CANCELLED}]
    assert user.asked == []
    half.send({"id": number, "result": {"stopReason": "cancelled"}}, permission(10))
    assert len(user.asked) == 1
    user.asked[0].callback(ALLOWED)
    assert half.take() == [{"id": 10, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}}]
    settled(half)


def test_a_follower_that_gives_the_cancelled_turn_up(half: ClientHalf, user: User) -> None:
    """What it is told of is over then: later permissions are not answered in its name (B17)."""

    class Impatient(SessionFollower):
        def turn_cancelled(self, turn: PromptTurn) -> None:
            turn.response.cancel()

    half.session.follow(Impatient())
    turn = half.session.prompt("go")
    turn.cancel()
    failure(turn.response, RequestCancelled)
    half.send(permission(9))
    assert len(user.asked) == 1
    user.asked[0].callback(ALLOWED)
    settled(half)


def test_a_permission_that_is_taken_late_is_dropped(user: User) -> None:
    """A user who answers a dialog of a dead turn changes nothing (B17)."""
    late: Deferred[Any] = Deferred()

    async def swallows(request: v1.RequestPermissionRequest) -> Any:
        try:
            await Deferred()
        except RequestCancelled:
            raise
        except BaseException:
            return await late
        return ALLOWED

    half = ClientHalf(AcpClient.builder().request_permission_handler(swallows).build())
    turn = half.session.prompt("go")
    half.send(permission(7))
    turn.cancel()
    half.take()
    late.callback(ALLOWED)
    assert half.take() == []
    half.send({"id": turn.response.request_id, "result": {"stopReason": "cancelled"}})
    settled(half)


def test_a_permission_handler_that_can_not_be_cancelled(user: User, logged_errors: LoggedErrors) -> None:
    """A canceller that raises is logged, and keeps no other permission from its answer."""

    def refuses(_: object) -> None:
        raise ValueError("no")

    half = ClientHalf(AcpClient.builder().request_permission_handler(lambda request: Deferred(refuses)).build())
    turn = half.session.prompt("go")
    half.send(permission(7), permission(8))
    half.take()
    turn.cancel()
    assert [each.get("id") for each in half.take()] == [None, 7, 8]
    assert len(logged_errors) == 2
    logged_errors.clear()


def test_a_cancelled_permission_request(half: ClientHalf, user: User) -> None:
    """The agent's $/cancel_request stops the handler and is answered -32800, also in one chunk (B03, X1)."""
    half.session.prompt("go")
    half.take()
    half.send(permission(7), cancel_request(7))
    assert half.take() == [{"id": 7, "error": {"code": -32800, "message": "Request cancelled"}}]
    assert user.stopped == 1
    assert half.connection._permissions == {}


def test_an_open_permission_blocks_nothing(half: ClientHalf, user: User) -> None:
    """Other requests are answered and updates shown while the user thinks (B31)."""
    half.session.prompt("go")
    half.send(permission(7), {"id": 8, "method": "fs/read_text_file", "params": {"sessionId": "s1", "path": "/a"}})
    half.update("y")
    assert user.texts == ["y"]
    assert half.take()[-1]["error"]["code"] == -32601


def test_a_cancel_without_a_turn_answers_permissions_too(half: ClientHalf, user: User) -> None:
    """connection.cancel() is for whoever keeps no turns."""
    half.send(permission(7))
    half.connection.cancel("s1")
    assert half.take() == [SESSION_CANCEL, {"id": 7, **SAYS_CANCELLED}]
    half.send(permission(8))
    assert len(user.asked) == 2


# ---- updates


def collect(turn: PromptTurn, texts: list[str], most: int = 1000) -> Deferred[None]:
    """Read a turn's updates, so many at most."""

    async def read() -> None:
        async for each in turn.updates():
            texts.append(each.content.text)  # type: ignore[union-attr]
            if len(texts) >= most:
                break

    return Deferred.fromCoroutine(read())


def test_the_answer_comes_after_the_updates_before_it(half: ClientHalf, user: User) -> None:
    """A handler that takes its time is waited for (B28), and one after the other (B27, J31)."""
    slow = user.slow = Deferred()
    turn = half.session.prompt("go")
    texts: list[str] = []
    read = collect(turn, texts)
    half.send(update("one"), update("two"), {"id": half.last_id(), **END_TURN})
    no_result(turn.response)
    assert user.texts == ["one"]
    slow.callback(None)
    assert user.texts == texts == ["one", "two"]
    success(turn.response)
    success(read)


def test_the_answer_is_not_lost_with_the_link(half: ClientHalf, user: User) -> None:
    """An answer that waits behind a slow handler when the link goes is an answer (B28)."""
    slow = user.slow = Deferred()
    turn = half.session.prompt("go")
    half.send(update("tail"), {"id": half.last_id(), **END_TURN})
    half.lose()
    slow.callback(None)
    assert success(turn.response).stop_reason == "end_turn"
    settled(half)


def test_a_handler_may_ask_the_agent(half: ClientHalf) -> None:
    """What an update's handler asks is answered while it runs (B31)."""
    client = AcpClient.builder()
    asked: list[Deferred[Any]] = []

    def sees(notification: Any, connection: Any) -> Deferred[Any]:
        asked.append(connection.ext_request("_x", {"sessionId": "s1"}))
        return asked[-1]

    half = ClientHalf(client.session_update_handler(sees).build())
    half.update("x")
    half.send({"id": half.last_id(), "result": 1})
    assert len(half.connection.peer.lanes) == 0


def test_updates_outside_of_turns(half: ClientHalf, user: User) -> None:
    """What comes after the answer is shown, kept, and no part of the next turn (B13)."""
    turn = half.session.prompt("go")
    half.send({"id": half.last_id(), **END_TURN}, update("tail"))
    success(turn.response)
    later = half.session.prompt("again")
    texts: list[str] = []
    collect(later, texts)
    assert user.texts == ["tail"]
    assert texts == []
    assert [each.content.text for each in half.session.take_updates()] == ["tail"]  # type: ignore[union-attr]
    assert half.session.take_updates() == []


def test_early_updates_wait_for_their_session(half: ClientHalf, user: User) -> None:
    """Updates before session/new's answer are kept for it, those of others dropped with a word (B29, B30)."""
    opening = half.connection.new_session("/w")
    number = half.last_id()
    half.send(update("early", "s2"), update("ghost", "s9"), {"id": number, "result": {"sessionId": "s2"}})
    half.send(update("next", "s2"))
    session = success(opening)
    assert [each.content.text for each in session.take_updates()] == ["early", "next"]
    assert user.texts == ["early", "ghost", "next"]
    settled(half)


def test_early_updates_on_a_link_without_delay(user: User) -> None:
    """Also where everything is delivered from inside the sending of session/new, or of session/load."""
    clock = Clock()

    def opens(request: Any, connection: Any) -> Any:
        session_id = getattr(request, "session_id", "s1")
        connection.send_update(session_id, v1.AgentMessageChunk(content=v1.TextContent(text="early")))
        if isinstance(request, v1.NewSessionRequest):
            return v1.NewSessionResponse(session_id=session_id)
        return None

    agent = (
        AcpAgent.builder()
        .prompt_handler(lambda request: None)
        .new_session_handler(opens)
        .load_session_handler(opens)
        .build()
        .connect(clock)
    )
    client = builder(user).build().connection(clock)
    MemoryLink(client.peer, agent.peer, clock)
    client.initialize()
    opened = success(client.new_session("/w"))
    loaded = success(client.load_session("s2", "/w"))
    assert len(opened.take_updates()) == len(loaded.take_updates()) == 1
    assert client._opening == 0


def test_early_updates_are_bounded(user: User) -> None:
    """The last max_early_updates are kept (design rule 6), and none once the opening has failed."""
    half = ClientHalf(builder(user).limits(Limits(max_early_updates=2)).build())
    opening = half.connection.new_session("/w")
    number = half.last_id()
    half.send(*(update(str(each), "s2") for each in range(5)))
    assert len(half.connection._early) == 2
    half.send({"id": number, "error": {"code": -32000, "message": "Log in"}})
    failure(opening, AuthRequired)
    settled(half)


def test_a_reader_that_leaves_early_holds_up_nothing(user: User) -> None:
    """More updates than the limit: with a reader they wait for him, and go on when he stops reading."""
    half = ClientHalf(builder(user).limits(Limits(max_turn_updates=2)).build())
    turn = half.session.prompt("go")
    texts: list[str] = []
    pause: Deferred[None] = Deferred()

    async def read() -> None:
        async for each in turn.updates():
            texts.append(each.content.text)  # type: ignore[union-attr]
            await pause
            break

    reading = Deferred.fromCoroutine(read())
    half.send(*(update(str(each)) for each in range(8)), {"id": half.last_id(), **END_TURN})
    no_result(turn.response)
    pause.callback(None)
    success(reading)
    gc.collect()
    assert success(turn.response).stop_reason == "end_turn"
    assert texts == ["0"]
    assert len(user.texts) == 8


def test_updates_that_nobody_reads_hold_up_nothing(user: User) -> None:
    """They pass, and whoever reads too late is told how many he missed."""
    half = ClientHalf(builder(user).limits(Limits(max_turn_updates=2)).build())
    turn = half.session.prompt("go")
    half.send(*(update(str(each)) for each in range(5)), {"id": half.last_id(), **END_TURN})
    success(turn.response)
    error = failure(collect(turn, []), LimitExceeded)
    assert "3 updates" in str(error)


def test_unknown_updates_and_stop_reasons() -> None:
    """A newer agent's update is delivered as what it is, and an unknown stop reason ends the turn (B50, B51)."""
    seen: list[Any] = []
    half = ClientHalf(AcpClient.builder().build())
    half.session.on_update(seen.append)
    turn = half.session.prompt("go")
    unknown = {"sessionId": "s1", "update": {"sessionUpdate": "zz_future", "n": 1}}
    half.send({"method": "session/update", "params": unknown}, update("next"))
    half.send({"id": half.last_id(), "result": {"stopReason": "error", "note": "x"}})
    assert len(seen) == 2
    assert success(turn.response).stop_reason == "error"


@pytest.mark.parametrize("method", ["_v/changed", "zz/new", "$/zz", "$/cancelRequest"])
def test_unknown_methods(half: ClientHalf, method: str) -> None:
    """Silence for notifications, -32601 for requests, known ones without a handler too (B52)."""
    half.send({"method": method, "params": {}}, {"id": 6, "method": method})
    half.send({"id": 7, "method": "terminal/create", "params": {"sessionId": "s1", "command": "x"}})
    assert [(each["id"], each["error"]["code"]) for each in half.take()] == [(6, -32601), (7, -32601)]


@pytest.mark.parametrize("params", [None, {}, {"sessionId": "s1"}, {"sessionId": 1, "update": {}}, [1]])
def test_malformed_updates(half: ClientHalf, user: User, params: Any) -> None:
    """They are logged and skipped; nothing is answered and the next one is shown (B53)."""
    half.send({"method": "session/update"} | ({} if params is None else {"params": params}), update("next"))
    half.send({"id": 999, "result": {}})
    assert user.texts == ["next"]
    assert half.take() == []


def test_a_failing_update_handler(logged_errors: LoggedErrors) -> None:
    """It is logged, and the others see the update all the same."""
    user = User()
    half = ClientHalf(builder(user).session_update_handler(lambda notification: 1 / 0).build())
    half.update("x")
    half.update("y")
    assert user.texts == ["x", "y"]
    assert len(logged_errors) == 2
    logged_errors.clear()


# ---- sessions and the beginning


def test_initialize_comes_first() -> None:
    """Before it nothing is sent; extensions are free."""
    half = ClientHalf(AcpClient.builder().build(), opened=False)
    calls: list[Callable[[], object]] = [
        lambda: half.connection.new_session("/w"),
        lambda: half.connection.load_session("s1", "/w"),
        half.connection.list_sessions,
        lambda: half.connection.prompt(v1.PromptRequest(session_id="s1", prompt=[])),
        lambda: half.connection.close_session("s1"),
    ]
    for call in calls:
        with pytest.raises(NotInitialized):
            call()
    assert half.take() == []
    assert half.connection._opening == 0
    half.connection.ext_request("_x")
    assert half.methods() == ["_x"]


def test_another_version_ends_the_connection() -> None:
    """The call fails, and the link is closed."""
    half = ClientHalf(AcpClient.builder().build(), opened=False)
    call = half.connection.initialize()
    half.send({"id": half.last_id(), "result": {"protocolVersion": 2, "agentCapabilities": {}}})
    failure(call, AcpVersionError)
    assert half.raw.lost


def test_session_new_says_its_servers(half: ClientHalf) -> None:
    """An empty list is sent as one, unset optionals are not (B54)."""
    half.connection.new_session("/w")
    assert half.take()[0]["params"] == {"cwd": "/w", "mcpServers": []}


def test_a_refused_load_leaves_no_session(half: ClientHalf) -> None:
    """What was not opened is not kept; a session that was there stays."""
    call = half.connection.load_session("s2", "/w")
    half.send({"id": half.last_id(), "error": {"code": -32002, "message": "m"}})
    failure(call, AcpError)
    call = half.connection.load_session("s1", "/w")
    half.send({"id": half.last_id(), "error": {"code": -32002, "message": "m"}})
    failure(call, AcpError)
    assert list(half.connection._sessions) == ["s1"]


@pytest.mark.parametrize("second", ["opened", "refused"])
def test_a_refused_load_leaves_what_another_opens(half: ClientHalf, second: str) -> None:
    """A session that is loaded twice at once is there if either is answered so, and none if both are refused."""
    calls, numbers = [], []
    for _ in range(2):
        calls.append(half.connection.load_session("s2", "/w"))
        numbers.append(half.last_id())
    refusal = {"error": {"code": -32002, "message": "m"}}
    half.send({"id": numbers[0], **refusal})
    failure(calls[0], AcpError)
    assert list(half.connection._sessions) == ["s1", "s2"]
    half.send({"id": numbers[1], **({"result": {}} if second == "opened" else refusal)})
    if second == "refused":
        failure(calls[1], AcpError)
        assert list(half.connection._sessions) == ["s1"]
        return
    session = success(calls[1])
    assert half.connection.sessions["s2"] is session
    half.update("x", "s2")
    assert len(session.take_updates()) == 1


def test_a_session_that_is_opened_behind_the_loss_is_over(user: User) -> None:
    """Its answer had to wait for a handler, and the link is gone by then: whoever follows it is told."""
    busy: Deferred[None] = Deferred()
    half = ClientHalf(builder(user).ext_notification_handler("_x/slow", lambda _: busy).build())
    opening = half.connection.new_session("/w")
    number = half.last_id()
    half.send({"method": "_x/slow", "params": {}}, {"id": number, "result": {"sessionId": "s2"}})
    half.link.b.abort("gone")
    no_result(opening)
    busy.callback(None)
    told: list[str] = []

    class Follower(SessionFollower):
        def ended(self) -> None:
            told.append("ended")

    success(opening).follow(Follower())
    assert told == ["ended"]


def test_closing_ends_the_turn_by_the_agents_answer(half: ClientHalf) -> None:
    """session/close is one message; the turn's answer and the close's come from the agent."""
    turn = half.session.prompt("go")
    number = half.last_id()
    closing = half.session.close()
    half.send({"id": number, "result": {"stopReason": "cancelled"}}, {"id": half.last_id(), "result": {}})
    assert success(turn.response).stop_reason == "cancelled"
    success(closing)
    assert half.connection._sessions == {}
    assert half.methods() == ["session/prompt", "session/close"]


def test_calls_that_nobody_looks_at(half: ClientHalf) -> None:
    """A program that ignores its calls finds nothing in its log when the link goes (B77)."""
    half.session.prompt("go", CancellationSignal())
    half.connection.list_sessions()
    half.connection.call(v1.ListSessionsRequest(), stop=CancellationSignal())
    half.connection.new_session("/w")
    half.connection.load_session("s2", "/w")
    half.connection.delete_session("s3")
    half.connection.ext_request("_x")
    half.lose()
    half.session.prompt("again")
    half.connection.new_session("/w")
    half.connection.close_session("s1")
    gc.collect()


def test_a_call_that_somebody_looks_at(half: ClientHalf, logged_errors: LoggedErrors) -> None:
    """His callbacks' failures are his, and are logged."""
    half.connection.list_sessions().addCallback(lambda response: response)
    half.lose()
    gc.collect()
    assert logged_errors
    logged_errors.clear()


# ---- what a client is built of


def test_derived_capabilities(user: User) -> None:
    """What follows from the handlers is what initialize says."""
    assert builder(user).build().capabilities == v1.ClientCapabilities(
        fs=v1.FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False
    )
    nothing: Callable[[Any], None] = lambda request: None  # noqa: E731
    half_a_terminal = AcpClient.builder().read_text_file_handler(nothing).create_terminal_handler(nothing)
    assert not half_a_terminal.build().capabilities.terminal
    full = (
        half_a_terminal.write_text_file_handler(nothing)
        .terminal_output_handler(nothing)
        .wait_for_terminal_exit_handler(nothing)
        .kill_terminal_handler(nothing)
        .release_terminal_handler(nothing)
        .create_elicitation_handler(nothing)
        .build()
        .capabilities
    )
    assert full.terminal
    assert full.fs.read_text_file
    assert full.fs.write_text_file
    assert full.elicitation is not None
    said = v1.ClientCapabilities(auth=v1.AuthCapabilities(terminal=True))
    assert AcpClient.builder().client_capabilities(said).build().capabilities is said


def test_builder_misuse() -> None:
    """Mistakes are told where they are made."""
    with pytest.raises(ValueError, match="has a handler already"):
        AcpClient.builder().request_permission_handler(print).request_permission_handler(print)
    with pytest.raises(ValueError, match="underscore"):
        AcpClient.builder().ext_notification_handler("x", print)
    with pytest.raises(TypeError, match="no function"):
        AcpClient.builder().session_update_handler(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes the request"):
        AcpClient.builder().session_update_handler(lambda one, two, three: None)
    for setter in ("request_timeout", "prompt_timeout"):
        with pytest.raises(ValueError, match=setter):
            getattr(AcpClient.builder(), setter)(float("nan"))


def test_a_timeout_is_a_timeout_on_a_link_without_delay() -> None:
    """
    The call is over before its cancellation is sent, so an answer that this brings at once is too late (P7, design
    rule 2).
    """
    clock = Clock()
    agent = AcpAgent.builder().prompt_handler(lambda request: Deferred()).build()
    client = AcpClient.builder().build()
    connection = client.connection(clock)
    MemoryLink(connection.peer, agent.build_receiver(clock), clock)
    success(connection.initialize())
    session = success(connection.new_session("/w"))
    turn = session.prompt("go", timeout=5)
    clock.advance(5)
    failure(turn.response, RequestTimedOut)
    assert session.turn is None
