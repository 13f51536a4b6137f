"""
The client as a service: it keeps a connection, makes a new one by its policy, and never asks for anything twice (B63,
B75, B77, B79).
"""

from __future__ import annotations

from typing import Any

import pytest
from conftest import LoggedErrors
from service_fakes import FakeClientEndpoint, ScriptedPeer
from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from wire import failure, no_result, success
from zope.interface.verify import verifyObject

from acp_twisted import AcpClient, AcpConnectionError, AcpVersionError, AgentCommand, ClientConnection, RequestTimedOut
from acp_twisted.service import ClientService


class Kept:
    """
    A L{ClientService} on a fake endpoint and a clock; it waits ten seconds for each failure in a row.
    """

    def __init__(self, *outcomes: Any, prepare: Any = None, slow: bool = False) -> None:
        self.clock = Clock()
        self.endpoint = FakeClientEndpoint(*outcomes, slow=slow)
        client = AcpClient.builder().client_info("fake", "1").request_timeout(5.0).build()
        self.service = ClientService(
            client, self.endpoint, self.clock, prepare=prepare, retry_policy=lambda failures: failures * 10.0
        )

    def start(self) -> Kept:
        """The same, running."""
        self.service.startService()
        return self


def test_it_is_a_service() -> None:
    """It provides IService."""
    verifyObject(IService, Kept().service)


# ---- a connection


def test_connects_and_initializes_before_anybody_gets_it() -> None:
    """Who waits gets a connection that is ready; who comes later gets the same one at once."""
    peer = ScriptedPeer(mute=True)
    kept = Kept(peer)
    early = kept.service.when_connected()
    no_result(early)
    kept.start()
    no_result(early)
    assert kept.service.connection is None
    assert peer.methods == ["initialize"]
    peer.say({"jsonrpc": "2.0", "id": peer.received[0]["id"], "result": {"protocolVersion": 1}})
    connection = success(early)
    assert isinstance(connection, ClientConnection)
    assert kept.service.connection is connection
    assert success(kept.service.when_connected()) is connection


def test_prepare_comes_before_the_connection_is_handed_out() -> None:
    """Whatever the application does with every new connection is done, and waited for, first."""
    ready: Deferred[None] = Deferred()
    seen: list[ClientConnection] = []

    def prepare(connection: ClientConnection) -> Deferred[None]:
        seen.append(connection)
        return ready

    kept = Kept(ScriptedPeer(), prepare=prepare).start()
    waiting = kept.service.when_connected()
    no_result(waiting)
    ready.callback(None)
    assert [success(waiting)] == seen


def test_prepare_may_be_a_coroutine_function() -> None:
    """Handlers are functions, Deferred-returning functions or async def; so is this one."""
    peer = ScriptedPeer()

    async def prepare(connection: ClientConnection) -> None:
        await connection.new_session(cwd="/")

    kept = Kept(peer, prepare=prepare).start()
    success(kept.service.when_connected())
    assert peer.methods == ["initialize", "session/new"]


def test_starting_twice_connects_once() -> None:
    """A second startService does nothing."""
    kept = Kept(ScriptedPeer(), ScriptedPeer()).start().start()
    assert kept.endpoint.attempts == 1


def test_an_endpoint_as_users_type_it() -> None:
    """A bad one is an error when the service is made, and not every minute from then on."""
    client = AcpClient.builder().build()
    with pytest.raises(ValueError, match="'carrier-pigeon:1' is no endpoint to connect to"):
        ClientService(client, "carrier-pigeon:1", Clock())
    assert not ClientService(client, "tcp:127.0.0.1:1", Clock()).running


# ---- a new connection


def test_a_refused_attempt_is_made_again_by_the_policy() -> None:
    """The policy is asked with the number of failures in a row, which a success ends."""
    peer = ScriptedPeer()
    kept = Kept(ConnectionRefusedError(), ConnectionRefusedError(), peer, ScriptedPeer()).start()
    waiting = kept.service.when_connected()
    assert kept.endpoint.attempts == 1
    kept.clock.advance(9.9)
    assert kept.endpoint.attempts == 1
    kept.clock.advance(0.1)
    assert kept.endpoint.attempts == 2
    kept.clock.advance(19.9)
    assert kept.endpoint.attempts == 2
    kept.clock.advance(0.1)
    assert kept.endpoint.attempts == 3
    first = success(waiting)
    peer.hang_up()
    assert kept.service.connection is None
    again = kept.service.when_connected()
    kept.clock.advance(9.9)
    no_result(again)
    kept.clock.advance(0.1)
    assert success(again) is not first
    assert kept.clock.getDelayedCalls() == []


def test_the_default_policy_is_twisteds() -> None:
    """Without one of the caller's own the first pause is between 1.5 and 2.5 seconds: backoff with jitter."""
    clock = Clock()
    endpoint = FakeClientEndpoint()
    service = ClientService(AcpClient.builder().build(), endpoint, clock)
    service.startService()
    clock.advance(1.49)
    assert endpoint.attempts == 1
    clock.advance(1.1)
    assert endpoint.attempts == 2
    success(service.stopService())


def test_who_has_patience_for_two_failures_hears_of_the_second() -> None:
    """The others go on waiting, and the attempts go on too."""
    peer = ScriptedPeer()
    kept = Kept(ConnectionRefusedError(), ConnectionRefusedError(), peer)
    patient = kept.service.when_connected()
    two = kept.service.when_connected(fail_after_failures=2)
    kept.start()
    no_result(two)
    kept.clock.advance(10)
    assert "could not connect" in str(failure(two, AcpConnectionError))
    no_result(patient)
    kept.clock.advance(20)
    success(patient)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"result": {"protocolVersion": 7}}, AcpVersionError),
        ({"error": {"code": -32603, "message": "no"}}, Exception),
        ({"error": {"code": -32800, "message": "cancelled, it says"}}, Exception),
        ({"result": {"protocolVersion": "one"}}, Exception),
    ],
)
def test_an_agent_that_does_not_agree_is_left_and_tried_again(answer: dict[str, Any], kind: type[Exception]) -> None:
    """The link of the failed attempt is closed before the next is made; an answer -32800 is no stop of ours."""
    peer = ScriptedPeer(mute=True)
    kept = Kept(peer, ScriptedPeer()).start()
    once = kept.service.when_connected(1)
    patient = kept.service.when_connected()
    peer.say({"jsonrpc": "2.0", "id": peer.received[0]["id"], **answer})
    failure(once, kind)
    assert kept.endpoint.sides[0].lost
    kept.clock.advance(10)
    success(patient)


def test_an_agent_that_says_nothing_is_left_after_the_request_timeout() -> None:
    """Initialize is a request like others, with the client's timeout."""
    kept = Kept(ScriptedPeer(mute=True), ScriptedPeer()).start()
    once = kept.service.when_connected(1)
    kept.clock.advance(5)
    failure(once, RequestTimedOut)
    assert kept.endpoint.sides[0].lost
    kept.clock.advance(10)
    assert kept.service.connection is not None


def test_an_agent_that_hangs_up_on_initialize_is_tried_again() -> None:
    """The loss of a link that nobody was given is a failed attempt."""
    peer = ScriptedPeer(mute=True)
    kept = Kept(peer, ScriptedPeer()).start()
    once = kept.service.when_connected(1)
    peer.hang_up()
    failure(once, AcpConnectionError)
    kept.clock.advance(10)
    assert kept.service.connection is not None


def test_the_next_attempt_waits_for_the_link_of_the_last() -> None:
    """An agent that allows one client at a time, or locks a file, is not met twice at once."""
    kept = Kept(ScriptedPeer(version=7), ScriptedPeer(), slow=True).start()
    kept.clock.advance(100)
    assert kept.endpoint.attempts == 1
    kept.endpoint.sides[0].lose()
    kept.clock.advance(10)
    assert kept.endpoint.attempts == 2


@pytest.mark.parametrize("at_once", [True, False])
def test_a_failing_prepare_is_a_failed_attempt(at_once: bool) -> None:
    """The link is closed, and the next attempt prepared anew."""
    later: Deferred[None] = Deferred()
    outcomes: list[Any] = [None if at_once else later, succeed(None)]

    def prepare(connection: ClientConnection) -> Deferred[None]:
        outcome = outcomes.pop(0)
        if outcome is None:
            raise LookupError("no password")
        return outcome  # type: ignore[no-any-return]

    kept = Kept(ScriptedPeer(), ScriptedPeer(), prepare=prepare)
    once = kept.service.when_connected(1)
    kept.start()
    if not at_once:
        later.errback(LookupError("no password"))
    failure(once, LookupError)
    assert kept.endpoint.sides[0].lost
    kept.clock.advance(10)
    assert kept.service.connection is not None


def test_a_loss_during_prepare_cancels_it() -> None:
    """It would wait for ever for whatever it waits for."""
    cancelled: list[Deferred[None]] = []
    pending: Deferred[None] = Deferred(cancelled.append)
    peer = ScriptedPeer()
    kept = Kept(peer, prepare=lambda _: pending)
    once = kept.service.when_connected(1)
    kept.start()
    peer.hang_up()
    assert "closed the connection" in str(failure(once, AcpConnectionError))
    assert cancelled == [pending]


def test_a_late_failure_of_a_given_up_prepare_is_logged(logged_errors: LoggedErrors) -> None:
    """Nobody waits for it any more; it is not lost all the same."""
    stubborn: Deferred[None] = Deferred(lambda waiting: waiting.errback(LookupError("half way")))
    peer = ScriptedPeer()
    Kept(peer, prepare=lambda _: stubborn).start()
    peer.hang_up()
    assert "half way" in logged_errors.texts()[0]
    logged_errors.clear()


# ---- what was asked


def test_a_lost_prompt_fails_and_is_not_sent_again() -> None:
    """Whether an agent has done half of it is not known; asking again is for the caller to say."""
    first, second = ScriptedPeer(), ScriptedPeer()
    kept = Kept(first, second).start()
    session = success(success(kept.service.when_connected()).new_session(cwd="/"))
    turn = session.prompt("do it")
    assert first.methods == ["initialize", "session/new", "session/prompt"]
    first.hang_up()
    failure(turn.response, AcpConnectionError)
    kept.clock.advance(10)
    assert kept.service.connection is not None
    assert second.methods == ["initialize"]


def test_who_asks_again_at_once_gets_the_next_connection() -> None:
    """A caller whose prompt is lost asks for a connection from within that failure, and is not given the dead one."""
    peer = ScriptedPeer()
    kept = Kept(peer, ScriptedPeer()).start()
    first = success(kept.service.when_connected())
    session = success(first.new_session(cwd="/"))
    again: list[Deferred[ClientConnection]] = []
    turn = session.prompt("do it")
    turn.response.addErrback(lambda _: again.append(kept.service.when_connected()))
    peer.hang_up()
    no_result(again[0])
    kept.clock.advance(10)
    assert success(again[0]) is not first


# ---- the end


def test_stop_while_connected_closes_and_waits_for_that() -> None:
    """The link is closed in good order, and the Deferred fires when it is gone; nothing is left on the clock (B79)."""
    kept = Kept(ScriptedPeer(), slow=True).start()
    stopped = kept.service.stopService()
    also = kept.service.stopService()
    side = kept.endpoint.sides[0]
    assert side.closing
    assert kept.service.connection is None
    no_result(stopped)
    side.lose()
    assert success(stopped) is None
    assert success(also) is None
    kept.clock.advance(1000)
    assert kept.endpoint.attempts == 1
    assert kept.clock.getDelayedCalls() == []
    assert not kept.service.running


def test_stop_while_connecting_gives_the_attempt_up() -> None:
    """The endpoint's Deferred is cancelled, and who waits is told."""
    pending: Deferred[ScriptedPeer] = Deferred()
    kept = Kept(pending).start()
    waiting = kept.service.when_connected()
    stopped = kept.service.stopService()
    failure(waiting, CancelledError)
    assert success(stopped) is None
    assert pending.called
    kept.clock.advance(1000)
    assert kept.endpoint.attempts == 1


def test_stop_while_initializing_closes_the_link() -> None:
    """An agent that has not answered yet is not left behind."""
    kept = Kept(ScriptedPeer(mute=True), slow=True).start()
    stopped = kept.service.stopService()
    no_result(stopped)
    assert kept.endpoint.sides[0].closing
    kept.endpoint.sides[0].lose()
    assert success(stopped) is None
    assert kept.clock.getDelayedCalls() == []


@pytest.mark.parametrize("stubborn", [False, True])
def test_stop_while_preparing_does_not_wait_for_it(stubborn: bool) -> None:
    """It is cancelled; one that does not care can't keep the application from ending (B75)."""
    outer: Deferred[None] = Deferred()

    async def prepare(connection: ClientConnection) -> None:
        try:
            await outer
        except CancelledError:
            if stubborn:
                await Deferred()

    kept = Kept(ScriptedPeer(), prepare=prepare).start()
    assert success(kept.service.stopService()) is None
    assert kept.endpoint.sides[0].lost


def test_stop_while_waiting_for_the_next_attempt() -> None:
    """No timer is left."""
    kept = Kept().start()
    waiting = kept.service.when_connected()
    assert len(kept.clock.getDelayedCalls()) == 1
    assert success(kept.service.stopService()) is None
    failure(waiting, CancelledError)
    assert kept.clock.getDelayedCalls() == []


def test_stop_from_within_the_news_of_a_connection() -> None:
    """A callback may stop the service that calls it."""
    kept = Kept(ScriptedPeer())
    stopped: list[Deferred[None]] = []
    kept.service.when_connected().addCallback(lambda _: stopped.append(kept.service.stopService()))
    kept.start()
    assert success(stopped[0]) is None
    assert kept.endpoint.sides[0].lost


def test_stop_from_within_prepare() -> None:
    """So may prepare."""
    stopped: list[Deferred[None]] = []
    kept: Kept = Kept(ScriptedPeer(), prepare=lambda _: stopped.append(kept.service.stopService()))
    kept.start()
    assert success(stopped[0]) is None
    assert kept.endpoint.sides[0].lost
    assert kept.service.connection is None


def test_start_again_waits_for_the_old_link() -> None:
    """Stopped and started at once, it connects when the first connection is gone."""
    kept = Kept(ScriptedPeer(), ScriptedPeer(), slow=True).start()
    stopped = kept.service.stopService()
    kept.start()
    assert kept.endpoint.attempts == 1
    waiting = kept.service.when_connected()
    kept.endpoint.sides[0].lose()
    assert success(stopped) is None
    success(waiting)
    assert kept.endpoint.attempts == 2


def test_stop_again_before_the_old_link_is_gone() -> None:
    """Stopped, started, stopped: nothing is started behind the last stop, which waits for the first connection too."""
    kept = Kept(ScriptedPeer(), slow=True).start()
    first = kept.service.stopService()
    kept.start()
    second = kept.service.stopService()
    no_result(second)
    kept.endpoint.sides[0].lose()
    assert success(first) is None
    assert success(second) is None
    assert kept.endpoint.attempts == 1


def test_stop_before_any_start() -> None:
    """It is over at once, and who waits is told."""
    kept = Kept()
    waiting = kept.service.when_connected()
    assert success(kept.service.stopService()) is None
    failure(waiting, CancelledError)


def test_who_stops_waiting_is_forgotten() -> None:
    """Cancelling the wait for a connection does not concern the connection."""
    kept = Kept(ScriptedPeer())
    waiting = kept.service.when_connected()
    waiting.cancel()
    failure(waiting, CancelledError)
    kept.start()
    assert kept.service.connection is not None


def test_one_waiter_may_end_the_patience_of_another() -> None:
    """The failure of one wait cancels another of the same attempt: each is told once."""
    kept = Kept()
    other: list[Deferred[ClientConnection]] = []
    first = kept.service.when_connected(1)
    first.addErrback(lambda _: other[0].cancel())
    other.append(kept.service.when_connected(1))
    kept.start()
    failure(other[0], CancelledError)


@pytest.mark.parametrize("end", ["connected", "stopped"])
def test_one_waiter_may_end_the_wait_of_another(end: str) -> None:
    """Whatever ended the first wait, cancelling the second one there raises nothing, and each is told once (B75)."""
    kept = Kept(ScriptedPeer())
    first, second, third = (kept.service.when_connected() for _ in range(3))
    first.addBoth(lambda _: second.cancel())
    if end == "connected":
        kept.start()
        assert isinstance(success(third), ClientConnection)
    else:
        kept.service.stopService()
        failure(third, CancelledError)
    assert success(first) is None
    failure(second, CancelledError)


@pytest.mark.parametrize("what", ["stop", "close", "lose"])
def test_the_first_who_is_told_may_end_it_for_the_others(what: str) -> None:
    """Who comes next is given no connection that is gone: he waits for the next one, or learns of the stop."""
    kept = Kept(ScriptedPeer(), ScriptedPeer())
    first, second = kept.service.when_connected(), kept.service.when_connected()

    def end(connection: ClientConnection) -> None:
        if what == "stop":
            kept.service.stopService()
        elif what == "close":
            connection.close()
        else:
            kept.endpoint.sides[0].lose()

    first.addCallback(end)
    kept.start()
    assert success(first) is None
    if what == "stop":
        failure(second, CancelledError)
        return
    no_result(second)
    kept.clock.advance(10)
    assert success(second) is kept.service.connection


def test_in_a_multi_service() -> None:
    """The parent's stop waits for the connection's end."""
    kept = Kept(ScriptedPeer(), slow=True)
    parent = MultiService()
    child: Service = kept.service
    child.setServiceParent(parent)
    parent.startService()
    stopped = parent.stopService()
    no_result(stopped)
    kept.endpoint.sides[0].lose()
    success(stopped)


def test_arguments_of_a_command_stay_out_of_the_log() -> None:
    """Rule 9: the log names the program; its arguments may hold a key."""
    service = ClientService(AcpClient.builder().build(), AgentCommand(["/no/such/agent", "--key=s3cret"]), Clock())
    with capturedLogs() as events:
        service.startService()
        success(service.stopService())
    logged = [formatEvent(each) for each in events]
    assert any("/no/such/agent" in each for each in logged)
    assert not any("s3cret" in each for each in logged)
