"""
The transports with real sockets and real processes.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from transport_fakes import RecordingFactory, RecordingReceiver
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import clientFromString, serverFromString
from twisted.internet.interfaces import IListeningPort
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure

from acp_twisted.errors import AcpConnectionError, AgentStartError
from acp_twisted.limits import KiB, Limits, MiB
from acp_twisted.transports.command import AgentCommand
from acp_twisted.transports.process import ProcessTransport, spawn
from acp_twisted.transports.stream import ServerFactory, connect

PROGRAMS = Path(__file__).with_name("transport_programs.py")
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
FAST = Limits(exit_grace=0.3, terminate_grace=0.3)
PATIENT = Limits(exit_grace=300.0)


@pytest.fixture
def reactor() -> Any:
    """
    The real one.
    """
    from twisted.internet import reactor

    return reactor


class Waiting(RecordingReceiver):
    """
    A receiver whose events can be waited for, and that closes when its peer does.
    """

    def __init__(self) -> None:
        super().__init__()
        self._wanted: list[tuple[int, Deferred[None]]] = []
        self.on_message = self._check
        self.on_end = self._close

    def _close(self) -> None:
        self.transport.close()

    def _check(self, message: bytes) -> None:
        for wanted in [wanted for wanted in self._wanted if len(self.messages) >= wanted[0]]:
            self._wanted.remove(wanted)
            wanted[1].callback(None)

    async def take(self, count: int) -> list[bytes]:
        """
        The first messages, once there are so many.
        """
        if len(self.messages) < count:
            done: Deferred[None] = Deferred()
            self._wanted.append((count, done))
            await done
        return self.messages[:count]


async def until(reactor: Any, holds: Callable[[], bool]) -> None:
    """
    Wait for something that nobody tells us of.
    """
    while not holds():
        await deferLater(reactor, 0.02)


def alive(pid: int) -> bool:
    """
    Whether a process runs (a zombie does not).
    """
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except FileNotFoundError:
        return False


def program(name: str, *arguments: str, **options: Any) -> AgentCommand:
    return AgentCommand((sys.executable, str(PROGRAMS), name, *arguments), **options)


# sockets


class Staying(Waiting):
    """
    One that goes on when its peer has closed its half.
    """

    def _close(self) -> None:
        """
        Not yet.
        """


class Listening:
    """
    A server of recording receivers on an endpoint, and clients of it.
    """

    def __init__(self, reactor: Any, server: str, limits: Limits, make: type[Waiting] = Waiting) -> None:
        self.reactor = reactor
        self.limits = limits
        self.receivers = RecordingFactory(limits, make)
        self.factory = ServerFactory(self.receivers, reactor)
        self._listening = serverFromString(reactor, server).listen(self.factory)
        self.port: IListeningPort

    async def client(self) -> tuple[Waiting, Waiting]:
        """
        A connection: the receivers of the client and of the server.
        """
        self.port = await self._listening
        address: Any = self.port.getHost()
        where = f"unix:{address.name.decode()}" if hasattr(address, "name") else f"tcp:127.0.0.1:{address.port}"
        before = len(self.receivers.receivers)
        client = Waiting()
        await connect(clientFromString(self.reactor, where), client, self.limits, self.reactor)
        await until(self.reactor, lambda: len(self.receivers.receivers) > before)
        server = self.receivers.receivers[before]
        assert isinstance(server, Waiting)
        return client, server

    async def stop(self) -> None:
        """
        Everything is closed.
        """
        await maybeDeferred(self.port.stopListening)
        await self.factory.close_all()


Listen = Callable[..., Listening]


@pytest.fixture
def listen(reactor: Any) -> Any:
    """
    Starts servers, and stops them.
    """
    started: list[Listening] = []

    def start(
        server: str = "tcp:0:interface=127.0.0.1", limits: Limits | None = None, make: type[Waiting] = Waiting
    ) -> Listening:
        started.append(Listening(reactor, server, PATIENT if limits is None else limits, make))
        return started[-1]

    yield start
    for each in started:
        pytest_twisted.blockon(Deferred.fromCoroutine(each.stop()))


@pytest_twisted.ensureDeferred
async def test_tcp_both_ways(listen: Listen) -> None:
    """
    Messages of all sizes go both ways over TCP, whole and in order.
    """
    client, server = await listen().client()
    messages = [b"x" * size for size in (1, 10, 1000, 100_000, 3 * MiB, 5)]
    for message in messages:
        client.transport.send(message)
        server.transport.send(message)
    assert await server.take(6) == messages
    assert await client.take(6) == messages
    client.transport.close()
    await server.gone
    await client.gone


@pytest_twisted.ensureDeferred
async def test_unix_socket(listen: Listen, tmp_path: Path) -> None:
    """
    A Unix socket endpoint works as TCP does, its options left alone.
    """
    client, server = await listen(f"unix:{tmp_path / 'socket'}").client()
    client.transport.send(b"1")
    await server.take(1)
    server.transport.close()
    assert str(await client.gone) == "the peer closed the connection"
    await server.gone


@pytest_twisted.ensureDeferred
async def test_tcp_half_close(listen: Listen) -> None:
    """
    A peer that closes its half still gets all the answers, however long, and then the end.
    """
    listening = listen(make=Staying)
    client, first = await listening.client()
    first.transport.close()
    client.transport.close()
    await client.gone
    got: Deferred[bytes] = Deferred()
    host: Any = listening.port.getHost()

    class Plain(Protocol):
        """
        A peer of bytes.
        """

        def connectionMade(self) -> None:
            self.data = b""
            assert self.transport is not None
            self.transport.write(b"ask\nrest")
            self.transport.loseWriteConnection()  # type: ignore[attr-defined]

        def dataReceived(self, data: bytes) -> None:
            self.data += data

        def connectionLost(self, reason: Failure = connectionDone) -> None:
            got.callback(self.data)

    await clientFromString(listening.reactor, f"tcp:127.0.0.1:{host.port}").connect(Factory.forProtocol(Plain))
    await until(listening.reactor, lambda: len(listening.receivers.receivers) == 2)
    server = listening.receivers.receivers[1]
    await until(listening.reactor, lambda: "ended" in server.names)
    assert server.events[1:] == [("message", b"ask"), ("remainder", b"rest"), ("ended",)]
    server.transport.send(b"x" * (2 * MiB))
    server.transport.close()
    assert await got == b"x" * (2 * MiB) + b"\n"


@pytest_twisted.ensureDeferred
async def test_close_does_not_lose_answers_to_a_peer_that_sends(listen: Listen) -> None:
    """
    The peer gets everything that was sent before the close, although it is in the middle of sending itself.
    """
    client, server = await listen().client()
    client.transport.pauseProducing()
    server.transport.send(b"x" * MiB)
    for _ in range(100):
        client.transport.send(b"y" * 10 * KiB)
    server.transport.close()
    client.transport.resumeProducing()
    assert await client.take(1) == [b"x" * MiB]
    await server.gone
    client.transport.close()
    await client.gone


@pytest_twisted.ensureDeferred
async def test_slow_reader(reactor: Any, listen: Listen) -> None:
    """
    A peer that reads nothing costs no more than the limit: we are told to wait, and it is cut when we do not (B33).
    """
    limits = Limits(high_water_bytes=256 * KiB, low_water_bytes=64 * KiB, max_unsent_bytes=4 * MiB)
    client, server = await listen(limits=limits).client()
    client.transport.pauseProducing()
    sent = 0
    while "writing paused" not in server.names:
        server.transport.send(b"x" * 10 * KiB)
        sent += 10 * KiB
        await deferLater(reactor, 0)
    assert server.transport.unsent <= 300 * KiB
    client.transport.resumeProducing()
    await until(reactor, lambda: "writing resumed" in server.names)
    client.transport.pauseProducing()
    while server.names[-1] != "lost":
        server.transport.send(b"x" * 100 * KiB)
        assert server.transport.unsent <= 4 * MiB + 101 * KiB
        await deferLater(reactor, 0)
    assert "Limits.max_unsent_bytes" in str(server.error)
    client.transport.resumeProducing()
    await client.gone


@pytest_twisted.ensureDeferred
async def test_nobody_listens(reactor: Any) -> None:
    """
    A connection that is refused is an error at once.
    """
    with pytest.raises(AcpConnectionError, match="refused"):
        await connect(clientFromString(reactor, "tcp:127.0.0.1:1"), RecordingReceiver(), FAST, reactor)


# processes


class Agents:
    """
    Starts agents, and sees to their end.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._started: list[ProcessTransport] = []

    async def start(self, command: AgentCommand, limits: Limits = FAST) -> tuple[ProcessTransport, Waiting]:
        receiver = Waiting()
        transport = await spawn(self._reactor, command, receiver, limits)
        self._started.append(transport)
        return transport, receiver

    async def stop(self) -> None:
        for transport in self._started:
            transport.kill()
            await transport.when_gone()


@pytest.fixture
def agents(reactor: Any) -> Any:
    """
    What starts agents for a test.
    """
    agents = Agents(reactor)
    yield agents
    pytest_twisted.blockon(Deferred.fromCoroutine(agents.stop()))


@pytest_twisted.ensureDeferred
async def test_agent_answers_and_is_closed(agents: Agents) -> None:
    """
    An agent gets what we send, whole however long, and goes when its input ends, without a signal.
    """
    transport, receiver = await agents.start(program("echo"), Limits())
    transport.send(b"1")
    transport.send(b"x" * 3 * MiB)
    assert await receiver.take(2) == [b"1", b"x" * 3 * MiB]
    pid = transport.pid
    assert pid is not None
    transport.close()
    error = await receiver.gone
    assert str(error) == "the connection was closed"
    assert not alive(pid)


@pytest_twisted.ensureDeferred
async def test_agent_in_its_own_group_with_its_environment(agents: Agents, tmp_path: Path) -> None:
    """
    It leads its own group, runs in its directory, has our environment and its own changes (B66, B70).
    """
    directory = tmp_path / "my project"
    directory.mkdir()
    _, receiver = await agents.start(program("environment", cwd=directory, env={"WANTED": "this one"}))
    assert await receiver.take(1) == [f"this one|{directory}|True".encode()]


@pytest_twisted.ensureDeferred
async def test_program_with_a_space_in_its_path(agents: Agents, tmp_path: Path) -> None:
    """
    A path with spaces is one word (B69).
    """
    script = tmp_path / "my agent"
    script.write_text('#!/bin/sh\necho "$1"\ncat\n')
    script.chmod(0o755)
    _, receiver = await agents.start(AgentCommand((str(script), "a  b")))
    assert await receiver.take(1) == [b"a  b"]


@pytest_twisted.ensureDeferred
async def test_program_missing(reactor: Any, tmp_path: Path) -> None:
    """
    What is missing is an error at once, with or without a directory (B69).
    """
    for command in (
        AgentCommand(("/no/such/agent",)),
        AgentCommand(("/no/such/agent",), cwd=tmp_path),
        AgentCommand(("sh",), cwd=tmp_path / "missing"),
    ):
        receiver = RecordingReceiver()
        with pytest.raises(AgentStartError, match="could not start the agent"):
            await spawn(reactor, command, receiver, FAST)
        assert receiver.events == []


@pytest_twisted.ensureDeferred
async def test_program_that_cannot_run(agents: Agents, tmp_path: Path) -> None:
    """
    A file that turns out to be no program is an AgentStartError of the connection, with what the system said.
    """
    script = tmp_path / "agent"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    _, receiver = await agents.start(AgentCommand((str(script),)))
    error = await receiver.gone
    assert isinstance(error, AgentStartError)
    assert "No such file" in error.stderr_tail


@pytest_twisted.ensureDeferred
async def test_agent_that_dies(agents: Agents) -> None:
    """
    The last line of a dying agent counts, and its status and last words are in the error (B49, B63).
    """
    transport, receiver = await agents.start(program("dies"))
    transport.send(b"go")
    error = await receiver.gone
    assert receiver.events[1:-1] == [("remainder", b'{"last":true}')]
    assert (error.exit_code, error.signal, error.stderr_tail) == (3, None, "it hurts\n")


@pytest_twisted.ensureDeferred
async def test_agent_that_is_killed(agents: Agents) -> None:
    """
    Kill -9 of the agent is reported as what it is.
    """
    transport, receiver = await agents.start(program("echo"))
    transport.send(b"1")
    await receiver.take(1)
    assert transport.pid is not None
    os.kill(transport.pid, signal.SIGKILL)
    error = await receiver.gone
    assert (error.exit_code, error.signal) == (None, signal.SIGKILL)
    assert str(error) == "the agent was ended by signal 9"


@pytest_twisted.ensureDeferred
async def test_stubborn_group_is_killed(reactor: Any, agents: Agents) -> None:
    """
    An agent and its child that ignore everything are both dead when the connection is closed (B66).
    """
    transport, receiver = await agents.start(program("stubborn"))
    pids = [int(pid) for pid in (await receiver.take(1))[0].split()]
    started = reactor.seconds()
    transport.close()
    await receiver.gone
    assert reactor.seconds() - started >= FAST.exit_grace + FAST.terminate_grace
    await until(reactor, lambda: not any(alive(pid) for pid in pids))


@pytest_twisted.ensureDeferred
async def test_child_that_is_left_behind(reactor: Any, agents: Agents) -> None:
    """
    An agent that exits while its child holds the pipes: its answer is there, its exit is reported soon, and the child
    is ended, SIGTERM or not (B66, B67).
    """
    transport, receiver = await agents.start(program("leaves_a_child"))
    messages = await receiver.take(2)
    error = await receiver.gone
    assert error.exit_code == 0
    await transport.when_gone()
    await until(reactor, lambda: not alive(int(messages[1])))


@pytest_twisted.ensureDeferred
async def test_stderr_flood(agents: Agents) -> None:
    """
    400 kB of log block nobody, and the end of it is remembered.
    """
    lines: list[str] = []
    transport, receiver = await agents.start(program("flood", on_stderr=lines.append))
    transport.send(b"1")
    assert await receiver.take(1) == [b"1"]
    transport.close()
    await receiver.gone
    assert len(lines) == 4001
    assert lines[0] == "x" * 99
    assert len(transport.stderr_tail) == FAST.stderr_tail_bytes
    assert set(transport.stderr_tail) == {"y", "\n"}


@pytest_twisted.ensureDeferred
async def test_deaf_agent(agents: Agents) -> None:
    """
    An agent that reads nothing: unsent output is bounded, and it can be closed (B33).
    """
    limits = Limits(max_unsent_bytes=4 * MiB, exit_grace=0.3, terminate_grace=0.3)
    transport, receiver = await agents.start(program("deaf"), limits)
    await receiver.take(1)
    while not transport.unsent:
        transport.send(b"x" * 10 * KiB)
    while transport.unsent < 3 * MiB:
        transport.send(b"x" * 100 * KiB)
    assert "writing paused" in receiver.names
    for _ in range(20):
        transport.send(b"x" * 100 * KiB)
    assert transport.unsent == 0
    error = await receiver.gone
    assert "Limits.max_unsent_bytes" in str(error)
    await transport.when_gone()


@pytest_twisted.ensureDeferred
async def test_agent_that_closes_its_input(agents: Agents) -> None:
    """
    An agent that closes its input is lost, and ended (B68).
    """
    transport, receiver = await agents.start(program("closes_stdin"))
    await receiver.take(1)
    error = await receiver.gone
    assert str(error) == "the agent closed its standard input"
    await transport.when_gone()


@pytest_twisted.ensureDeferred
async def test_paused_reading_stops_the_agent(reactor: Any, agents: Agents) -> None:
    """
    While the receiver pauses, the agent's output is not read, and the pipe fills; nothing is lost when it resumes.
    """
    transport, receiver = await agents.start(program("echo"))
    transport.pauseProducing()
    for number in range(100):
        transport.send(b"%d" % number + b"x" * 10 * KiB)
    await deferLater(reactor, 0.3)
    assert receiver.messages == []
    transport.resumeProducing()
    assert len(await receiver.take(100)) == 100
    transport.close()
    await receiver.gone


# our own agent on stdio


async def run_stdio(data: bytes, *options: str, **popen: Any) -> subprocess.CompletedProcess[bytes]:
    """
    Run the agent on stdio with C{data} as its whole input.
    """
    command = [sys.executable, str(PROGRAMS), "stdio_agent", *options]

    def run() -> subprocess.CompletedProcess[bytes]:
        given = popen if "stdin" in popen else {"input": data, **popen}
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            command, stderr=subprocess.PIPE, env=BUFFERED, timeout=300, check=False, **given
        )
        return done

    return await deferToThread(run)


@pytest_twisted.ensureDeferred
async def test_stdio_answers_and_ends() -> None:
    """
    What came before the end of the input is answered, also later than the end, and then the program ends (B64, B72).
    """
    result = await run_stdio(b"1\n2\n", stdout=subprocess.PIPE)
    assert result.stdout == b"did 1\ndid 2\nbye\n"
    assert b"over lost" in result.stderr
    assert result.returncode == 0


@pytest_twisted.ensureDeferred
async def test_stdio_large_output_after_the_end() -> None:
    """
    300 kB and several MB are written whole although the input has ended.
    """
    result = await run_stdio(b"big 300000\nbig 5000000\n", stdout=subprocess.PIPE)
    lines = result.stdout.split(b"\n")
    assert [len(line) for line in lines if line.startswith(b"x")] == [300000, 5000000]
    assert lines[-2] == b"bye"


@pytest_twisted.ensureDeferred
async def test_stdio_wire_is_clean() -> None:
    """
    Neither print, nor a write to 1, nor a child's output, nor what waited in sys.stdout, reaches the wire, and a child
    does not eat the input (B71, B74).
    """
    result = await run_stdio(b"print\ncat\nlast\n", "after", stdout=subprocess.PIPE)
    assert result.stdout == b"did print\ndid cat\ndid last\nbye\nafter\n"
    for text in (b"before ", b"printed", b"written to 1", b"echoed"):
        assert text in result.stderr


@pytest_twisted.ensureDeferred
async def test_stdio_from_a_file_and_to_a_file(tmp_path: Path) -> None:
    """
    Regular files do, which epoll refuses, and so does the null device as input.
    """
    (tmp_path / "in").write_bytes(b"1\nbig 1000000\n")
    with (tmp_path / "in").open("rb") as given, (tmp_path / "out").open("wb") as taken:
        await run_stdio(b"", stdin=given, stdout=taken)
    assert (tmp_path / "out").read_bytes() == b"did 1\n" + b"x" * 1000000 + b"\ndid big 1000000\nbye\n"
    result = await run_stdio(b"", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert result.stdout == b"bye\n"


@pytest.mark.parametrize("redirection", ["<&-", ">&-"])
@pytest_twisted.ensureDeferred
async def test_stdio_without_input_or_output(redirection: str) -> None:
    """
    A process that was started without one of the two gets a clear error, although its number is in use by now.
    """
    command = ["sh", "-c", f'exec "$0" "$@" {redirection}', sys.executable, str(PROGRAMS), "stdio_agent"]

    def run() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, capture_output=True, timeout=300, check=False)

    result = await deferToThread(run)
    assert b"standard input and output must both be open" in result.stderr
    assert result.returncode == 0


@pytest_twisted.ensureDeferred
async def test_stdio_output_lost() -> None:
    """
    A client that goes away ends the agent, quickly and without a storm in the log (B68).
    """

    def run() -> tuple[int, bytes]:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAMS), "stdio_agent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=BUFFERED,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"1\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"did 1\n"
        process.stdout.close()
        process.stdin.write(b"big 1000000\n" * 20)
        process.stdin.flush()
        text = process.stderr.read()
        process.stdin.close()
        process.stderr.close()
        return process.wait(300), text

    status, text = await deferToThread(run)
    assert status == 0
    assert b"over lost" in text
    assert text.count(b"\n") < 5


@pytest_twisted.ensureDeferred
async def test_stdio_on_a_terminal_leaves_it_blocking() -> None:
    """
    On a terminal, which the three descriptors share, the others stay in blocking mode, during and after (B73).
    """
    ours, theirs = pty.openpty()

    def run() -> bytes:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAMS), "stdio_agent"], stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.write(ours, b"flags\n")
        text = b""
        while b"did flags" not in text:
            text += os.read(ours, 4096)
        os.write(ours, b"\x04")
        assert process.wait(300) == 0
        return text

    try:
        text = await deferToThread(run)
        assert b"[False, False, False]" in text
        assert os.get_blocking(theirs)
    finally:
        os.close(ours)
        os.close(theirs)
