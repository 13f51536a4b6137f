"""
The agent under a real C{twistd}, driven by raw bytes: on sockets, and on standard input and output as an editor starts
it (B64, B66, B71, B74, and the design's row "agent or service shuts down").
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest
import pytest_twisted
from service_fakes import INITIALIZE, NEW_SESSION, line, prompt
from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from acp_twisted import AcpClient, AcpConnectionError, AgentCommand, ClientConnection
from acp_twisted.service import AgentService, ClientService

TESTS = Path(__file__).resolve().parent
SECONDS = 180.0
STARTED = re.compile(rb"ServerFactory starting on (\d+)\n")
LISTEN = ("--listen", "tcp:0:interface=127.0.0.1")


class Program:
    """
    A running C{twistd} or C{twist}, whose outputs are read as they come, so that it never waits for us.

    @ivar out: its standard output so far.
    @ivar err: its standard error so far.
    """

    def __init__(self, argv: Sequence[str], cwd: Path, pass_fds: Sequence[int] = ()) -> None:
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name(argv[0])), *argv[1:]],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=pass_fds,
        )
        self.out = bytearray()
        self.err = bytearray()
        self._news = threading.Condition()
        self._threads = [
            threading.Thread(target=self._read, args=(stream, into), daemon=True)
            for stream, into in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: IO[bytes], into: bytearray) -> None:
        while data := os.read(stream.fileno(), 65536):
            with self._news:
                into.extend(data)
                self._news.notify_all()

    def until(self, seen: Callable[[], Any]) -> Any:
        """Wait until C{seen} is true of what it has written."""
        with self._news:
            found = self._news.wait_for(seen, SECONDS)
        assert found, f"not seen in {SECONDS} s; stdout: {self.out!r}, stderr: {self.err.decode()}"
        return found

    def ports(self, count: int, log: bytearray) -> list[int]:
        """The ports that it says it listens on."""
        self.until(lambda: len(STARTED.findall(bytes(log))) == count)
        return [int(port) for port in STARTED.findall(bytes(log))]

    def say(self, *messages: object) -> None:
        """Write to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line(each) for each in messages))
        self.process.stdin.flush()

    def messages(self) -> list[dict[str, Any]]:
        """The whole lines of its standard output, each of which must be JSON."""
        return [json.loads(text) for text in self.out.split(b"\n")[:-1]]

    def answer(self, request_id: int) -> dict[str, Any]:
        """Wait for the answer to a request of ours on its standard output."""

        def look() -> list[dict[str, Any]]:
            return [each for each in self.messages() if each.get("id") == request_id and "method" not in each]

        found: dict[str, Any] = self.until(look)[0]
        return found

    def open_session(self) -> str:
        """initialize and session/new over standard input."""
        self.say(INITIALIZE, NEW_SESSION)
        session_id: str = self.answer(1)["result"]["sessionId"]
        return session_id

    def hang_up(self) -> None:
        """Close its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def ended(self) -> int:
        """Wait until it has ended and everything is read; its exit status."""
        status = self.process.wait(SECONDS)
        for thread in self._threads:
            thread.join(SECONDS)
        return status

    def clean_up(self) -> None:
        """Nothing is left of it."""
        if self.process.poll() is None:
            self.process.kill()
        self.ended()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts programs in an empty directory, and sees that they end."""
    running: list[Program] = []

    def go(*argv: str, pass_fds: Sequence[int] = ()) -> Program:
        running.append(Program(argv, tmp_path, pass_fds))
        return running[-1]

    yield go
    for each in running:
        each.clean_up()


class Client:
    """
    A raw socket that speaks lines of JSON.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), SECONDS)
        self._lines = self._socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self._lines.close()
        self._socket.close()

    def say(self, *messages: object) -> None:
        """Write."""
        self._socket.sendall(b"".join(line(each) for each in messages))

    def hear(self) -> dict[str, Any] | None:
        """The next message, or L{None} at the end."""
        text = self._lines.readline()
        return json.loads(text) if text else None

    def open_session(self) -> str:
        """initialize and session/new."""
        self.say(INITIALIZE, NEW_SESSION)
        self.hear()
        answer = self.hear()
        assert answer is not None
        session_id: str = answer["result"]["sessionId"]
        return session_id


def text_of(update: dict[str, Any] | None) -> str:
    """What a session/update says."""
    assert update is not None
    assert update["method"] == "session/update"
    text: str = update["params"]["update"]["content"]["text"]
    return text


def agent(name: str = "agent") -> tuple[str, str]:
    """Which agent of L{twistd_agents}."""
    return "--agent", f"twistd_agents:{name}"


# ---- sockets


@pytest.mark.parametrize("program", [("twistd", "-n", "--pidfile="), ("twist", "--log-format=text")])
def test_two_listeners_at_once(start: Start, program: tuple[str, ...]) -> None:
    """One agent, two endpoints, several clients: initialize, session/new and a prompt on each; then a clean end."""
    running = start(*program, "acp", *agent(), *LISTEN, *LISTEN)
    ports = running.ports(2, running.out)
    assert len(set(ports)) == 2
    for port in ports:
        with Client(port) as client:
            client.say(prompt(client.open_session(), "hello"))
            assert text_of(client.hear()) == "hello"
            answer = client.hear()
            assert answer is not None
            assert answer["result"]["stopReason"] == "end_turn"
    running.process.send_signal(signal.SIGTERM)
    assert running.ended() == -signal.SIGTERM
    assert running.err == b""


def test_sigterm_answers_running_turns_before_it_ends(start: Start) -> None:
    """The turn is cancelled, its client gets the answer and then the end, and twistd ends by the signal, as it does."""
    running = start("twistd", "-n", "--pidfile=", "acp", *agent(), *LISTEN)
    [port] = running.ports(1, running.out)
    with Client(port) as one, Client(port) as other:
        clients = [one, other]
        for client in clients:
            client.say(prompt(client.open_session(), "wait"))
            assert text_of(client.hear()) == "waiting"
        running.process.send_signal(signal.SIGTERM)
        for client in clients:
            answer = client.hear()
            assert answer is not None
            assert (answer["id"], answer["error"]["code"]) == (2, -32800)
            assert client.hear() is None
    assert running.ended() == -signal.SIGTERM
    assert b"Traceback" not in running.out


@pytest.mark.parametrize("program", [("twistd", "-n", "--pidfile="), ("twist",)])
def test_a_port_that_is_taken_is_a_failed_start(start: Start, program: tuple[str, ...]) -> None:
    """The exit status says so, and the message names the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        where = ("--listen", f"tcp:{port}:interface=127.0.0.1")
        running = start(*program, "acp", *agent(), *LISTEN, *where)
        assert running.ended() == 1
    assert f"127.0.0.1:{port}".encode() in running.out + running.err


def test_daemon(start: Start, tmp_path: Path) -> None:
    """Without -n it goes into the background, with its pidfile and its log, and ends by SIGTERM like any daemon."""
    alive, held = os.pipe()  # the daemon holds the one end as long as it lives
    with os.fdopen(alive, "rb") as until_gone:
        argv = ("twistd", "--pidfile=agent.pid", "--logfile=agent.log", "acp", *agent(), *LISTEN)
        try:
            running = start(*argv, pass_fds=(held,))
        finally:
            os.close(held)
        assert running.ended() == 0
        pid = int((tmp_path / "agent.pid").read_text())
        [port] = [int(found) for found in STARTED.findall((tmp_path / "agent.log").read_bytes())]
        with Client(port) as client:
            client.say(prompt(client.open_session(), "wait"))
            assert text_of(client.hear()) == "waiting"
            os.kill(pid, signal.SIGTERM)
            answer = client.hear()
            assert answer is not None
            assert answer["error"]["code"] == -32800
            assert client.hear() is None
        assert until_gone.read() == b""
    assert not (tmp_path / "agent.pid").exists()


# ---- standard input and output


def only_messages(running: Program) -> list[dict[str, Any]]:
    """Every byte of standard output belongs to a line of JSON-RPC."""
    assert running.out.endswith(b"\n")
    messages = [json.loads(text) for text in running.out.splitlines()]
    assert all(each["jsonrpc"] == "2.0" for each in messages)
    return messages


@pytest.mark.parametrize(
    "program", [("twistd", "-n"), ("twistd", "--nodaemon", "--logfile=-"), ("twist",), ("twist", "--log-file=-")]
)
def test_nothing_but_the_protocol_on_standard_output(start: Start, program: tuple[str, ...]) -> None:
    """
    Both programs log to standard output unless told otherwise, and the handler writes there in every way there is; all
    of it comes out of standard error.  At the end of the input what was asked is answered, and the status is 0.
    """
    running = start(*program, "acp", *agent(), "--stdio")
    running.say(prompt(running.open_session(), "noise"))
    running.hang_up()
    assert running.ended() == 0
    messages = only_messages(running)
    assert [each.get("id", each.get("method")) for each in messages] == [0, 1, "session/update", 2]
    assert messages[-1]["result"]["stopReason"] == "end_turn"
    for noise in (b"of print", b"of the real sys.stdout", b"of descriptor 1", b"of a child"):
        assert b"noise " + noise in running.err
    assert b"conversation on standard input and output is over" in running.err


def test_the_log_goes_where_it_is_sent(start: Start, tmp_path: Path) -> None:
    """With --logfile neither output has it."""
    running = start("twistd", "-n", "--logfile=agent.log", "acp", *agent(), "--stdio")
    running.open_session()
    running.hang_up()
    assert running.ended() == 0
    assert len(only_messages(running)) == 2
    assert running.err == b""
    assert "starting up" in (tmp_path / "agent.log").read_text()


def test_sigterm_on_stdio_answers_the_running_turn(start: Start) -> None:
    """The editor gets the answer, then the end of the output; the status tells of the signal."""
    running = start("twistd", "-n", "acp", *agent(), "--stdio")
    running.say(prompt(running.open_session(), "wait"))
    running.until(lambda: b"waiting" in running.out)
    running.process.send_signal(signal.SIGTERM)
    assert running.ended() == -signal.SIGTERM
    last = only_messages(running)[-1]
    assert (last["id"], last["error"]["code"]) == (2, -32800)
    assert b"Traceback" not in running.err


def test_several_in_one_directory(start: Start, tmp_path: Path) -> None:
    """An editor starts one for each of its windows, all in the same directory: no pidfile is in their way."""
    several = [start("twistd", "-n", "acp", *agent(), "--stdio") for _ in range(2)]
    for running in several:
        running.open_session()
    assert list(tmp_path.iterdir()) == []
    for running in several:
        running.hang_up()
        assert running.ended() == 0


def test_a_pidfile_that_was_asked_for_is_kept(start: Start, tmp_path: Path) -> None:
    """Only the default is done without."""
    running = start("twistd", "-n", "--pidfile=mine.pid", "acp", *agent(), "--stdio")
    running.open_session()
    assert int((tmp_path / "mine.pid").read_text()) == running.process.pid
    running.hang_up()
    assert running.ended() == 0
    assert not (tmp_path / "mine.pid").exists()


def test_stdio_and_sockets_together(start: Start) -> None:
    """One process serves its editor and others; when the editor hangs up, the others' turns are answered too."""
    running = start("twistd", "-n", "acp", *agent(), "--stdio", *LISTEN)
    [port] = running.ports(1, running.err)
    running.open_session()
    with Client(port) as client:
        client.say(prompt(client.open_session(), "wait"))
        assert text_of(client.hear()) == "waiting"
        running.hang_up()
        answer = client.hear()
        assert answer is not None
        assert answer["error"]["code"] == -32800
        assert client.hear() is None
    assert running.ended() == 0
    assert len(only_messages(running)) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-n", "acp", "--stdio"), b"which agent?"),
        (("-n", "acp", "--no-such-option", "--stdio"), b"--no-such-option"),
        (("-n", "acp", *agent("make_trouble"), "--stdio"), b"LookupError: no key is configured"),
        (("acp", *agent(), "--stdio"), b"a daemon has no standard input and output"),
    ],
)
def test_usage_errors_on_stdio_stay_off_the_wire(start: Start, arguments: tuple[str, ...], words: bytes) -> None:
    """Twistd prints them to standard output, which an editor would take for an answer."""
    running = start("twistd", *arguments)
    assert running.ended() == 1
    assert running.out == b""
    assert words in running.err


def test_a_module_that_prints_when_imported(start: Start, tmp_path: Path) -> None:
    """Agents of the current directory are found, and their first words do not reach the wire."""
    (tmp_path / "chatty.py").write_text("print('hello from the import')\nfrom twistd_agents import agent\n")
    running = start("twistd", "-n", "acp", "--agent", "chatty:agent", "--stdio")
    running.open_session()
    running.hang_up()
    assert running.ended() == 0
    assert len(only_messages(running)) == 2
    assert b"hello from the import" in running.err


# ---- embedded, and the client's service against a real program


class Beside(Service):
    """Another service of the application."""


@pytest_twisted.ensureDeferred
async def test_both_services_in_one_application() -> None:
    """An agent and a client of it under one MultiService: they start together, talk, and stop together."""
    from twistd_agents import agent as echo
    from twisted.internet import reactor

    application = MultiService()
    serving = AgentService(echo, "tcp:0:interface=127.0.0.1", reactor)
    children: list[Service] = [serving, Beside()]
    for child in children:
        child.setServiceParent(application)
    application.startService()
    [port] = await serving.when_listening()
    where = f"tcp:127.0.0.1:{port.getHost().port}"  # type: ignore[attr-defined]
    client = ClientService(AcpClient.builder().build(), where, reactor)
    late: Service = client
    late.setServiceParent(application)  # the parent runs, so this starts it
    session = await (await client.when_connected()).new_session(cwd="/")
    assert (await session.prompt("hello")).stop_reason == "end_turn"
    running = session.prompt("wait")
    await application.stopService()
    with pytest.raises(AcpConnectionError):
        await running
    assert client.connection is None


def pid_of(connection: ClientConnection) -> int:
    """The process at the other end, as it said in its agent info."""
    assert connection.agent_info is not None
    return int(connection.agent_info.version)


def gone(pid: int) -> bool:
    """Whether there is no such process, not even a zombie of ours."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


PROGRAM = """
import os
from acp_twisted import AcpAgent, run_agent
from twistd_agents import answer
run_agent(AcpAgent.builder().agent_info("pid", str(os.getpid())).prompt_handler(answer).build())
"""


@pytest_twisted.ensureDeferred
async def test_a_killed_agent_is_started_again_and_nothing_is_replayed() -> None:
    """
    SIGKILL in the middle of a prompt: the prompt fails with the signal, the next program is started by the policy and
    asked nothing, and stopService ends it by its ladder.
    """
    from twisted.internet import reactor

    command = AgentCommand([sys.executable, "-c", PROGRAM], env={"PYTHONPATH": str(TESTS)})
    updates: list[object] = []
    client = AcpClient.builder().session_update_handler(updates.append).build()
    service = ClientService(client, command, reactor, retry_policy=lambda failures: 0.01 * failures)
    service.startService()
    first = await service.when_connected()
    session = await first.new_session(cwd="/")
    turn = session.prompt("wait")
    async for _ in turn.updates():
        os.kill(pid_of(first), signal.SIGKILL)
        break
    with pytest.raises(AcpConnectionError) as caught:
        await turn
    assert caught.value.signal == signal.SIGKILL
    second = await service.when_connected()
    assert pid_of(second) != pid_of(first)
    assert (await (await second.new_session(cwd="/")).prompt("hello")).stop_reason == "end_turn"
    assert len(updates) == 2
    await service.stopService()
    assert gone(pid_of(second))


@pytest_twisted.ensureDeferred
async def test_a_program_that_is_missing_is_looked_for_again(tmp_path: Path) -> None:
    """An agent that is installed later is found; until then each attempt says what is missing."""
    from twisted.internet import reactor

    program = tmp_path / "agent"
    service = ClientService(
        AcpClient.builder().build(),
        AgentCommand([str(program)], env={"PYTHONPATH": str(TESTS)}),
        reactor,
        retry_policy=lambda failures: 0.01,
    )
    once = service.when_connected(1)
    service.startService()
    with pytest.raises(AcpConnectionError, match="no such file"):
        await once
    (tmp_path / "half").write_text(f"#!{sys.executable}\n{PROGRAM}")
    (tmp_path / "half").chmod(0o755)
    (tmp_path / "half").rename(program)
    await service.when_connected()
    await service.stopService()


@pytest_twisted.ensureDeferred
async def test_stop_while_the_program_starts_leaves_nothing_behind() -> None:
    """The service is stopped before the agent's first word: the program is ended all the same."""
    from twisted.internet import reactor

    pids: list[str] = []
    said: Deferred[None] = Deferred()

    def heard(text: str) -> None:
        pids.append(text)
        said.callback(None)

    script = "import os, sys, time; print(os.getpid(), file=sys.stderr, flush=True); time.sleep(600)"
    command = AgentCommand([sys.executable, "-c", script], on_stderr=heard)
    service = ClientService(AcpClient.builder().build(), command, reactor)
    service.startService()
    await said
    await service.stopService()
    await deferLater(reactor, 0)
    assert gone(int(pids[0]))
