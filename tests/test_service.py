"""
The agent as a service: it listens on all endpoints or on none, and when it stops every connection ends in good order
(the design's row "agent or service shuts down"; B64, B71, B74, B80, B81).
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import LoggedErrors
from service_fakes import (
    INITIALIZE,
    NEW_SESSION,
    FakeAgent,
    FakePort,
    FakeServerEndpoint,
    agent,
    line,
    prompt,
    verify_fakes,
)
from twisted.application.service import Application, IService, MultiService, Service
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import CannotListenError, ConnectionDone, ReactorNotRunning
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from wire import failure, no_result, success
from zope.interface.verify import verifyObject

from acp_twisted import AcpConnectionError
from acp_twisted.limits import Limits
from acp_twisted.service import AgentService, StdioAgentService
from acp_twisted.transports.stdio import StdioGuard

IN_USE = CannotListenError("127.0.0.1", 8123, OSError(98, "Address already in use"))


def test_fakes_keep_to_their_interfaces() -> None:
    """What these tests are made of is what the services would meet."""
    verify_fakes()


# ---- listening


def test_agent_service_is_a_service() -> None:
    """It provides IService, as what a MultiService or an Application holds."""
    verifyObject(IService, AgentService(FakeAgent(), FakeServerEndpoint(), Clock()))


def test_listens_on_strings_and_objects_alike() -> None:
    """Endpoints are what users type, or what programs make; several at once."""
    reactor = MemoryReactorClock()
    endpoint = FakeServerEndpoint()
    service = AgentService(FakeAgent(), ["tcp:8123:interface=127.0.0.1", endpoint, "unix:/run/agent.sock"], reactor)
    service.startService()
    assert [(port, interface) for port, _, _, interface in reactor.tcpServers] == [(8123, "127.0.0.1")]
    assert [path for path, *_ in reactor.unixServers] == ["/run/agent.sock"]
    assert len(endpoint.factories) == 1
    assert len(service.ports) == 3
    assert service.ports[1] is endpoint.port


@pytest.mark.parametrize("one", ["tcp:8123", FakeServerEndpoint()])
def test_one_endpoint_needs_no_list(one: Any) -> None:
    """A string is one endpoint, and not a list of letters."""
    service = AgentService(FakeAgent(), one, MemoryReactorClock())
    service.startService()
    assert len(service.ports) == 1


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ([], "needs an endpoint"),
        ("", "'' is no endpoint to listen on"),
        ("carrier-pigeon:8123", "'carrier-pigeon:8123' is no endpoint to listen on: ValueError"),
        (["tcp:8123", "tcp:http"], "'tcp:http' is no endpoint to listen on: ValueError"),
        ("tcp", "'tcp' is no endpoint to listen on: TypeError"),
        ("ssl:443:privateKey=/no/such.pem", "no endpoint to listen on"),
        ("stdio:", "StdioAgentService"),
    ],
)
def test_what_is_no_endpoint_is_refused_when_the_service_is_made(where: Any, words: str) -> None:
    """The message says which one, and why; twistd's own stdio endpoint can't be stopped, and logs to the wire (B74)."""
    with pytest.raises(ValueError, match=r".") as caught:
        AgentService(FakeAgent(), where, MemoryReactorClock())
    assert words in str(caught.value)


def test_privileged_start_listens_once() -> None:
    """Twistd calls both: the first while it may open ports below 1024, the second when it may not any more."""
    endpoint = FakeServerEndpoint()
    service = AgentService(FakeAgent(), endpoint, Clock())
    service.privilegedStartService()
    service.startService()
    assert len(endpoint.factories) == 1
    assert service.running


def test_ports_are_told_when_all_are_open() -> None:
    """Whoever waits hears of the ports in the order of the endpoints, and nothing before the last is open."""
    slow: Deferred[FakePort] = Deferred()
    endpoints = [FakeServerEndpoint(slow), FakeServerEndpoint()]
    service = AgentService(FakeAgent(), endpoints, Clock())
    waiting = service.when_listening()
    service.startService()
    no_result(waiting)
    assert not service.ports
    port = FakePort()
    slow.callback(port)
    assert success(waiting) == (port, endpoints[1].port) == service.ports
    assert success(service.when_listening()) == service.ports


def test_who_stops_waiting_is_forgotten() -> None:
    """Cancelling the wait for the ports cancels nothing else."""
    service = AgentService(FakeAgent(), FakeServerEndpoint(), Clock())
    waiting = service.when_listening()
    waiting.cancel()
    failure(waiting, CancelledError)
    service.startService()
    assert len(service.ports) == 1


def test_a_port_that_is_taken_is_an_error_of_the_start() -> None:
    """All or nothing: startService raises, what was open is closed again, and the service does not run."""
    endpoints = [FakeServerEndpoint(), FakeServerEndpoint(IN_USE), FakeServerEndpoint()]
    service = AgentService(FakeAgent(), endpoints, Clock())
    waiting = service.when_listening()
    with pytest.raises(CannotListenError, match="already in use"):
        service.startService()
    assert failure(waiting, CannotListenError) is IN_USE
    assert [len(each.port.closing) for each in endpoints] == [1, 0, 1]
    assert not service.running
    assert service.ports == ()
    assert success(service.stopService()) is None


def test_it_can_be_started_again_after_a_failure() -> None:
    """Nothing of the failed start is left."""
    endpoint = FakeServerEndpoint(IN_USE)
    service = AgentService(FakeAgent(), endpoint, Clock())
    with pytest.raises(CannotListenError):
        service.privilegedStartService()
    endpoint.outcome = endpoint.port
    service.startService()
    assert service.ports == (endpoint.port,)


def test_an_endpoint_that_fails_later_closes_the_others(logged_errors: LoggedErrors) -> None:
    """There is nobody to raise to: it is logged, who waits is told, and no half of a service is left."""
    slow: Deferred[FakePort] = Deferred()
    endpoints = [FakeServerEndpoint(), FakeServerEndpoint(slow)]
    service = AgentService(FakeAgent(), endpoints, Clock())
    service.startService()
    waiting = service.when_listening()
    slow.errback(IN_USE)
    assert failure(waiting, CannotListenError) is IN_USE
    assert len(endpoints[0].port.closing) == 1
    assert "serves nobody" in logged_errors.texts()[0]
    logged_errors.clear()
    assert success(service.stopService()) is None


def test_stopping_gives_up_what_is_not_open_yet() -> None:
    """The attempt is cancelled, and who waited for the ports is told."""
    slow: Deferred[FakePort] = Deferred()
    endpoint = FakeServerEndpoint(slow)
    service = AgentService(FakeAgent(), endpoint, Clock())
    service.startService()
    waiting = service.when_listening()
    stopped = service.stopService()
    failure(waiting, CancelledError)
    assert success(stopped) is None
    assert not service.running


def test_a_port_that_opens_in_spite_of_that_is_closed() -> None:
    """An endpoint may not know how to give up; its port does not stay open behind a stopped service."""
    port = FakePort()
    stubborn: Deferred[FakePort] = Deferred(lambda waiting: waiting.callback(port))
    service = AgentService(FakeAgent(), FakeServerEndpoint(stubborn), Clock())
    service.startService()
    assert success(service.stopService()) is None
    assert len(port.closing) == 1


def test_stopping_a_service_that_never_started() -> None:
    """It is over at once."""
    assert success(AgentService(FakeAgent(), FakeServerEndpoint(), Clock()).stopService()) is None


# ---- the connections, when it stops


def started(fake: Any, clock: Clock | None = None) -> tuple[AgentService, FakeServerEndpoint]:
    """A running service, and its endpoint."""
    endpoint = FakeServerEndpoint()
    service = AgentService(fake, endpoint, clock or Clock())
    service.startService()
    return service, endpoint


def test_a_running_turn_is_cancelled_and_answered_before_the_link_closes() -> None:
    """The row "agent or service shuts down": as $/cancel_request, flushed before the link closes."""
    service, endpoint = started(agent())
    client = endpoint.accept()
    assert client is not None
    client.protocol.dataReceived(line(INITIALIZE) + line(NEW_SESSION))
    session_id = json.loads(client.value().splitlines()[-1])["result"]["sessionId"]
    client.protocol.dataReceived(line(prompt(session_id, "wait")))
    client.clear()
    stopped = service.stopService()
    answer = json.loads(client.value())
    assert (answer["id"], answer["error"]["code"]) == (2, -32800)
    assert not client.connected
    assert success(stopped) is None


def test_stop_waits_for_every_port_and_every_connection() -> None:
    """Ports first, then the connections, each told once; the Deferred fires when the last is gone."""
    fake = FakeAgent()
    service, endpoint = started(fake)
    port = endpoint.port
    port.slow = True
    clients = [endpoint.accept(), endpoint.accept()]
    stopped = service.stopService()
    assert service.ports == ()
    assert [len(receiver.shut_down) for receiver in fake.receivers] == [1, 1]
    for client in clients:
        no_result(stopped)
        assert client is not None
        client.loseConnection()
    no_result(stopped)
    port.closing[0].callback(None)
    assert success(stopped) is None


def test_nobody_is_accepted_while_it_stops() -> None:
    """A connection that was already in the kernel's queue finds a closed door."""
    fake = FakeAgent()
    service, endpoint = started(fake)
    client = endpoint.accept()
    stopped = service.stopService()
    assert endpoint.accept() is None
    assert len(fake.receivers) == 1
    assert client is not None
    client.loseConnection()
    assert success(stopped) is None


def test_what_does_not_end_is_aborted() -> None:
    """Stopping is bounded: after Limits.drain_timeout what is still there is cut (B81)."""
    clock = Clock()
    fake = FakeAgent(Limits(drain_timeout=7.0))
    service, endpoint = started(fake, clock)
    client = endpoint.accept()
    assert client is not None
    stopped = service.stopService()
    clock.advance(6.9)
    no_result(stopped)
    assert client.connected
    clock.advance(0.2)
    assert success(stopped) is None
    assert fake.receivers[0].lost == ["the server is shutting down"]
    assert clock.getDelayedCalls() == []


def test_a_port_that_can_not_be_closed_is_logged(logged_errors: LoggedErrors) -> None:
    """It does not keep the application from ending."""
    service, endpoint = started(FakeAgent())
    endpoint.port.slow = True
    stopped = service.stopService()
    endpoint.port.closing[0].errback(OSError("stuck"))
    assert success(stopped) is None
    assert "stuck" in logged_errors.texts()[0]
    logged_errors.clear()


def test_a_new_start_does_not_wait_for_the_old_connections() -> None:
    """Stopped and started again, it serves new clients while an old one is still being seen off."""
    fake = FakeAgent()
    service, endpoint = started(fake)
    old = endpoint.accept()
    stopped = service.stopService()
    service.startService()
    assert endpoint.accept() is not None
    no_result(stopped)
    assert old is not None
    old.loseConnection()
    assert success(stopped) is None
    assert len(service.ports) == 1


# ---- inside an application


class Recorder(Service):
    """Somebody else's service."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def startService(self) -> None:
        self.seen.append("start")

    def stopService(self) -> Deferred[None]:
        self.seen.append("stop")
        return succeed(None)


def test_it_lives_beside_other_services() -> None:
    """One MultiService, two services: they start and stop together, and the stop waits for the agent's connections."""
    fake, endpoint, other = FakeAgent(), FakeServerEndpoint(), Recorder()
    parent = MultiService()
    ours: Service = AgentService(fake, endpoint, Clock())
    theirs: Service = other
    ours.setServiceParent(parent)
    theirs.setServiceParent(parent)
    parent.startService()
    client = endpoint.accept()
    stopped = parent.stopService()
    assert other.seen == ["start", "stop"]
    no_result(stopped)
    assert client is not None
    client.loseConnection()
    success(stopped)


def test_it_is_a_child_of_an_application() -> None:
    """What a .tac file does, and twistd after it."""
    endpoint = FakeServerEndpoint()
    application = Application("test")
    ours: Service = AgentService(FakeAgent(), endpoint, Clock())
    ours.setServiceParent(application)
    root = IService(application)
    root.privilegedStartService()
    root.startService()
    assert len(endpoint.factories) == 1
    success(root.stopService())
    assert len(endpoint.port.closing) == 1


# ---- stdio


class PipeGuard(StdioGuard):
    """
    Two pipes in place of the process's own standard input and output.

    @ivar theirs: the client's ends: what it writes to, and what it reads from.
    """

    def __init__(self) -> None:
        super().__init__()
        self.input_fd, to_agent = os.pipe()
        from_agent, self.output_fd = os.pipe()
        os.set_blocking(from_agent, False)
        self.theirs = [to_agent, from_agent]
        self.events: list[str] = []

    def install(self) -> StdioGuard:
        self.events.append("install")
        return self

    def restore(self) -> None:
        self.events.append("restore")
        os.close(self.input_fd)
        os.close(self.output_fd)


class HandTurnedReactor(MemoryReactorClock):
    """
    Runs on after C{run} has returned.

    @ivar refuses_to_stop: whether it was stopped already.
    """

    refuses_to_stop = False

    def __init__(self) -> None:
        super().__init__()
        self.hasStopped = False  # of which older ones of Twisted begin with the opposite

    def stop(self) -> None:
        if self.refuses_to_stop:
            raise ReactorNotRunning()
        MemoryReactorClock.stop(self)

    def callWhenRunning(self, callable: Callable[..., object], *args: Any, **kw: Any) -> None:
        if self.running:
            callable(*args, **kw)
        else:
            self.whenRunningHooks.append((callable, args, kw))

    def run(self) -> None:
        self.running = self.hasRun = True
        hooks, self.whenRunningHooks = self.whenRunningHooks, []
        for function, args, kwargs in hooks:
            function(*args, **kwargs)


class Stdio:
    """
    A L{StdioAgentService} on pipes, whose reactor is turned by hand.
    """

    def __init__(self, fake: Any) -> None:
        self.reactor = HandTurnedReactor()
        self.guard = PipeGuard()
        self.service = StdioAgentService(fake, self.reactor, self.guard)
        self.open = set(self.guard.theirs)
        self.reading, self.writing = self.guard.theirs[1], self.guard.theirs[0]

    def say(self, *messages: object) -> None:
        """The client writes."""
        os.write(self.writing, b"".join(line(message) for message in messages))
        self.turn()

    def hang_up(self) -> None:
        """The client closes its end of our input."""
        os.close(self.writing)
        self.open.discard(self.writing)
        self.turn()

    def turn(self) -> None:
        """One turn of the reactor."""
        readable: list[Any]
        writable: list[Any]
        readable, writable, _ = select.select(self.reactor.getReaders(), self.reactor.getWriters(), [], 0)
        steps = [(each, each.doRead) for each in readable] + [(each, each.doWrite) for each in writable]
        for each, step in steps:
            why = step()
            if why is not None:
                self.reactor.removeReader(each)
                self.reactor.removeWriter(each)
                each.connectionLost(Failure(why))
        self.reactor.advance(0)

    def heard(self) -> list[dict[str, Any]]:
        """What the client reads now; at least one message."""
        return [json.loads(text) for text in os.read(self.reading, 65536).splitlines()]

    def at_end(self) -> bool:
        """Whether the client reads the end of our output."""
        return os.read(self.reading, 1) == b""


@pytest.fixture
def pipes() -> Iterator[list[Stdio]]:
    """Closes what a test leaves open of its pipes."""
    made: list[Stdio] = []
    yield made
    for each in made:
        for fd in each.open:
            os.close(fd)
        for reader in each.reactor.getReaders():
            reader.connectionLost(Failure(ConnectionDone()))
        for writer in each.reactor.getWriters():
            writer.connectionLost(Failure(ConnectionDone()))


def stdio(pipes: list[Stdio], fake: Any) -> Stdio:
    """A started service."""
    made = Stdio(fake)
    pipes.append(made)
    made.service.startService()
    made.reactor.run()
    return made


def test_stdio_service_serves_its_one_client(pipes: list[Stdio]) -> None:
    """What is asked on the input is answered on the output."""
    made = stdio(pipes, agent())
    verifyObject(IService, made.service)
    made.say(INITIALIZE)
    made.turn()
    assert made.heard()[0]["result"]["protocolVersion"] == 1
    assert made.guard.events == ["install"]
    assert not made.reactor.hasStopped


def test_end_of_input_answers_and_stops_the_application(pipes: list[Stdio]) -> None:
    """B64: what was received is answered, then the reactor is stopped, once, and the service says so no second time."""
    made = stdio(pipes, agent())
    made.say(INITIALIZE)
    made.hang_up()
    for _ in range(5):
        made.turn()
    assert [message["id"] for message in made.heard()] == [0]
    assert made.at_end()
    assert made.reactor.hasStopped
    assert made.guard.events == ["install", "restore"]
    assert success(made.service.stopService()) is None


def test_end_of_input_before_the_reactor_runs(pipes: list[Stdio]) -> None:
    """The reactor is stopped when it runs, for one that does not run can't be stopped."""
    made = Stdio(agent())
    pipes.append(made)
    made.service.startService()
    made.hang_up()
    for _ in range(5):
        made.turn()
    assert not made.reactor.hasStopped
    made.reactor.run()
    assert made.reactor.hasStopped


def test_stopped_by_others_before_that(pipes: list[Stdio]) -> None:
    """Somebody stops the application in between: nobody stops the reactor a second time, which would be an error."""
    made = Stdio(agent())
    pipes.append(made)
    made.service.startService()
    made.hang_up()
    for _ in range(5):
        made.turn()
    success(made.service.stopService())
    made.reactor.run()
    assert not made.reactor.hasStopped


def test_stopped_by_a_signal_in_the_same_moment(pipes: list[Stdio]) -> None:
    """A signal has stopped the reactor, and the services are not told yet: that is no error either."""
    made = stdio(pipes, agent())
    made.reactor.refuses_to_stop = True
    made.hang_up()
    for _ in range(5):
        made.turn()
    assert made.at_end()
    assert not made.reactor.hasStopped
    assert made.service.running


def test_stop_cancels_answers_and_flushes(pipes: list[Stdio]) -> None:
    """SIGTERM: the running turn's answer is written before stopService's Deferred fires; nobody stops the reactor."""
    made = stdio(pipes, agent())
    made.say(INITIALIZE, NEW_SESSION)
    made.turn()
    session_id = made.heard()[-1]["result"]["sessionId"]
    made.say(prompt(session_id, "wait"))
    stopped = made.service.stopService()
    again = made.service.stopService()
    for _ in range(5):
        made.turn()
    assert success(stopped) is None
    assert success(again) is None
    answer = made.heard()[0]
    assert (answer["id"], answer["error"]["code"]) == (2, -32800)
    assert made.at_end()
    assert not made.reactor.hasStopped
    assert made.reactor.getDelayedCalls() == []


def test_stop_is_bounded(pipes: list[Stdio]) -> None:
    """A receiver that does not end its conversation is cut after Limits.drain_timeout."""
    fake = FakeAgent(Limits(drain_timeout=3.0))
    made = stdio(pipes, fake)
    stopped = made.service.stopService()
    made.reactor.advance(2.9)
    no_result(stopped)
    made.reactor.advance(0.2)
    made.turn()
    assert success(stopped) is None
    assert "Limits.drain_timeout" in fake.receivers[0].lost[0]


def test_stdio_service_that_never_started() -> None:
    """It is over at once."""
    assert success(StdioAgentService(FakeAgent(), MemoryReactorClock()).stopService()) is None


class NoStdio(StdioGuard):
    """A process without standard input and output."""

    def install(self) -> StdioGuard:
        raise AcpConnectionError("standard input and output must both be open")


def test_without_stdio_the_start_fails() -> None:
    """It raises, so that the application does not start, and the service does not run."""
    service = StdioAgentService(FakeAgent(), MemoryReactorClock(), NoStdio())
    with pytest.raises(AcpConnectionError, match="must both be open"):
        service.startService()
    assert not service.running
