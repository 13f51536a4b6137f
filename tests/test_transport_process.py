"""
An agent as a child process, with a fake process and a clock: its loss, its exit status, its last words, and the ladder
that ends it (B63, B66 to B70).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from transport_fakes import FakeProcess, RecordingReceiver
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.internet.interfaces import IProcessProtocol
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from acp_twisted.errors import AcpConnectionError, AgentStartError
from acp_twisted.interfaces import IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.testing import no_result, success_result
from acp_twisted.transports.command import SAFE_VARIABLES, AgentCommand
from acp_twisted.transports.drain import DRAIN_SECONDS
from acp_twisted.transports.process import ProcessTransport
from acp_twisted.transports.process_group import ProcessGroup
from acp_twisted.transports.stderr import MAX_LINE_BYTES, StderrTail

EXIT_0 = Failure(ProcessDone(0))
EXIT_3 = Failure(ProcessTerminated(3, None, 3 << 8))
KILLED = Failure(ProcessTerminated(None, 9, 9))


class Group:
    """
    A process group that dies when the test says so.
    """

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self.alive = True
        self.signals: list[tuple[float, int]] = []
        self.leader_signals: list[int] = []
        self.exists = True
        self.clock = clock
        self.reaped = 0
        self.group = ProcessGroup(
            4321,
            limits,
            clock,
            send=self.send,
            alive=lambda pgid: self.alive,
            kill_leader=lambda pid, number: self.leader_signals.append(number),
            reap=self.reap,
        )

    def send(self, pgid: int, number: int) -> bool:
        assert pgid == 4321
        if self.exists:
            self.signals.append((self.clock.seconds(), number))
        return self.exists

    def reap(self) -> None:
        self.reaped += 1


class Agent:
    """
    A started agent whose program is the test.
    """

    def __init__(self, limits: Limits | None = None, on_stderr: Any = None) -> None:
        self.limits = Limits() if limits is None else limits
        self.clock = Clock()
        self.receiver = RecordingReceiver()
        self.group = Group(self.clock, self.limits)
        command = AgentCommand(("agent",), on_stderr=on_stderr)
        self.transport = ProcessTransport(command, self.receiver, self.limits, self.clock, self.group.group)
        self.process = FakeProcess(self.transport)

    @property
    def events(self) -> list[tuple[Any, ...]]:
        """
        What the receiver was told, its connection_made left out.
        """
        return self.receiver.events[1:]

    def say(self, data: bytes, descriptor: int = 1) -> None:
        """
        The agent writes.
        """
        self.transport.childDataReceived(descriptor, data)

    def exit(self, status: Failure = EXIT_0, *, close: bool = True, whole: bool = True) -> None:
        """
        The agent exits, its pipes with it, and nothing it started lives on.
        """
        self.group.alive = not whole
        if close:
            for descriptor in list(self.process.pipes):
                self.process.lose(descriptor)
        self.transport.processExited(status)


def pump(clock: Clock, seconds: float) -> None:
    """
    Let time pass in small steps, as it does.
    """
    for _ in range(round(seconds / 0.01)):
        clock.advance(0.01)


def test_provides_its_interfaces() -> None:
    """
    It is a transport to the receiver and a process protocol to Twisted.
    """
    agent = Agent()
    verifyObject(IMessageTransport, agent.transport)
    verifyObject(IProcessProtocol, agent.transport)


def test_messages_both_ways() -> None:
    """
    Lines on the agent's output are messages, each message is one write to its input, and its log is neither
    (TRANSPORT-CLIENT-STDIN-ONLY-ACP).
    """
    agent = Agent()
    agent.say(b"1\n2")
    agent.say(b"log line\n", 2)
    agent.say(b"2\n")
    agent.transport.send(b"3")
    assert agent.events == [("message", b"1"), ("message", b"22")]
    assert agent.process.writes == [b"3\n"]
    assert agent.transport.stderr_tail == "log line\n"


@pytest.mark.parametrize(
    ("status", "text", "code", "number"),
    [
        (EXIT_0, "the agent exited with status 0", 0, None),
        (EXIT_3, "the agent exited with status 3", 3, None),
        (KILLED, "the agent was ended by signal 9", None, 9),
    ],
)
def test_exit_by_itself(status: Failure, text: str, code: int | None, number: int | None) -> None:
    """
    An agent that ends by itself: at once one loss, with its status or signal and its last words (B63).
    """
    agent = Agent()
    agent.say(b"1\n")
    agent.say(b"oh no\n", 2)
    agent.exit(status)
    error = agent.receiver.error
    assert str(error) == text
    assert (error.exit_code, error.signal, error.stderr_tail) == (code, number, "oh no\n")
    assert type(error) is AcpConnectionError
    assert agent.receiver.names == ["made", "message", "lost"]
    assert agent.clock.getDelayedCalls() == []
    assert agent.group.signals == []


def test_exit_without_a_word() -> None:
    """
    An agent that ends before it said anything did not start (B69).
    """
    agent = Agent()
    agent.say(b"no such module\n", 2)
    agent.exit(EXIT_3)
    assert type(agent.receiver.error) is AgentStartError
    assert "no such module" in agent.receiver.error.stderr_tail


def test_last_words_after_the_exit() -> None:
    """
    What is still in the pipes when the exit is seen is delivered before the loss, an unended line too (B49, B67).
    """
    agent = Agent()
    agent.exit(EXIT_3, close=False)
    assert agent.events == []
    agent.say(b"late\nlast")
    agent.say(b"why\n", 2)
    for descriptor in (0, 1, 2):
        agent.process.lose(descriptor)
    assert agent.events == [("message", b"late"), ("remainder", b"last"), ("lost", "the agent exited with status 3")]
    assert agent.receiver.error.stderr_tail == "why\n"
    assert agent.clock.getDelayedCalls() == []


def test_pipe_held_open_by_a_grandchild() -> None:
    """
    A grandchild that holds the pipe keeps nobody waiting: a short silence after the exit is the end (B67).
    """
    agent = Agent()
    agent.say(b"1\n")
    agent.exit(EXIT_0, close=False)
    for _ in range(3):
        agent.clock.advance(DRAIN_SECONDS * 0.9)
        agent.say(b"more\n")
    assert agent.receiver.names[-1] == "message"
    agent.clock.advance(DRAIN_SECONDS)
    assert agent.receiver.messages == [b"1", b"more", b"more", b"more"]
    assert agent.receiver.names[-1] == "lost"
    assert agent.process.pipes == {}
    assert agent.clock.getDelayedCalls() == []


def test_grandchild_that_never_stops_talking() -> None:
    """
    The wait for the last words is bounded even if they never end.
    """
    agent = Agent()
    agent.exit(EXIT_0, close=False)
    for _ in range(100):
        if agent.receiver.names[-1] == "lost":
            break
        agent.clock.advance(DRAIN_SECONDS / 2)
        agent.say(b"more\n")
    assert agent.clock.seconds() == pytest.approx(agent.limits.exit_grace, abs=DRAIN_SECONDS)
    assert agent.receiver.names[-1] == "lost"


def test_exit_while_reading_is_paused() -> None:
    """
    A paused receiver does not lose the last words of an agent that exits.
    """
    agent = Agent()
    agent.transport.pauseProducing()
    assert not agent.process.pipes[1].reading
    agent.exit(EXIT_0, close=False)
    assert agent.process.pipes[1].reading
    agent.say(b"answer\n")
    agent.process.lose(1)
    agent.process.lose(2)
    assert [event[0] for event in agent.events] == ["message", "lost"]


def test_stdin_lost() -> None:
    """
    An agent that closes its input can't be asked anything: the connection is lost, and the agent is ended (B68).
    """
    agent = Agent()
    agent.process.lose(0)
    agent.say(b"still talking\n")
    agent.clock.advance(agent.limits.exit_grace)
    assert agent.events == [("message", b"still talking"), ("lost", "the agent closed its standard input")]
    assert [number for _, number in agent.group.signals] == [signal.SIGTERM]
    agent.exit()
    assert agent.group.group.gone


def test_stdout_lost() -> None:
    """
    The end of the agent's output is the end, also for one that lives on, or whose exit nobody reports (B63, B78).
    """
    agent = Agent()
    agent.process.lose(1)
    agent.clock.advance(agent.limits.exit_grace)
    assert agent.events == [("lost", "the agent closed its standard output")]
    agent.exit(KILLED)
    assert agent.clock.getDelayedCalls() == []


def test_stdout_lost_then_exit() -> None:
    """
    When the exit follows the end of the output, the loss has its status.
    """
    agent = Agent()
    agent.say(b"1\n")
    agent.process.lose(1)
    agent.clock.advance(0.05)
    assert agent.receiver.names[-1] == "message"
    agent.exit(EXIT_3)
    assert agent.receiver.error.exit_code == 3


def test_slow_agent_is_bounded() -> None:
    """
    An agent that does not read: the receiver waits, its output is no longer read but its log is, and then it is cut
    (B33).
    """
    limits = Limits(high_water_bytes=100, low_water_bytes=50, pause_reading_bytes=200, max_unsent_bytes=400)
    agent = Agent(limits)
    agent.process.stuck = True
    for _ in range(5):
        agent.transport.send(b"x" * 49)
    assert agent.transport.unsent == 250
    assert agent.events == [("writing paused",)]
    assert [agent.process.pipes[number].reading for number in (1, 2)] == [False, True]
    for _ in range(5):
        agent.transport.send(b"x" * 49)
    assert agent.receiver.names[-1] != "lost"  # never from inside send
    agent.clock.advance(0)
    assert "Limits.max_unsent_bytes" in str(agent.receiver.error)
    assert agent.process.pipes == {}
    agent.exit(KILLED, close=False)
    assert agent.clock.getDelayedCalls() == []


def test_slow_agent_reads_again() -> None:
    """
    Once it reads, so do we.
    """
    agent = Agent(Limits(high_water_bytes=10, low_water_bytes=5, pause_reading_bytes=20))
    agent.process.stuck = True
    agent.transport.send(b"x" * 30)
    assert not agent.process.pipes[1].reading
    agent.process.stuck = False
    agent.process.producer.resumeProducing()
    assert agent.process.pipes[1].reading
    assert agent.events == [("writing paused",), ("writing resumed",)]


def test_abort() -> None:
    """
    An abort cuts the pipes, gives its reason, and ends the group, SIGTERM first.
    """
    agent = Agent()
    agent.transport.abort("enough")
    assert agent.events == []
    agent.clock.advance(0)
    assert agent.events == [("lost", "enough")]
    assert agent.process.pipes == {}
    pump(agent.clock, agent.limits.terminate_grace + 0.1)
    assert [number for _, number in agent.group.signals] == [signal.SIGTERM, signal.SIGKILL]
    agent.exit(KILLED, close=False)
    assert agent.group.group.gone
    assert agent.clock.getDelayedCalls() == []


# the close ladder


def test_close_politely() -> None:
    """
    A close flushes, ends the agent's input, and waits; an agent that goes by itself gets no signal.
    """
    agent = Agent()
    agent.process.stuck = True
    agent.transport.send(b"1")
    agent.transport.send(b"2")
    agent.transport.close()
    agent.transport.close()
    assert 0 in agent.process.pipes
    agent.process.stuck = False
    agent.process.producer.resumeProducing()
    assert agent.process.writes == [b"1\n", b"2\n"]
    assert 0 not in agent.process.pipes
    agent.say(b"ignored\n")
    assert agent.events == []
    agent.exit()
    assert agent.events == [("lost", "the connection was closed")]
    assert agent.group.signals == []
    success_result(agent.transport.when_gone())
    assert agent.clock.getDelayedCalls() == []


def test_close_keeps_the_last_log_lines() -> None:
    """
    What the agent logged on its way out is read before the connection is reported as closed, even if its exit is seen
    first; a stranger who holds the pipe open is not waited for.
    """
    for held in (False, True):
        lines: list[str] = []
        agent = Agent(on_stderr=lines.append)
        agent.transport.close()
        agent.exit(EXIT_0, close=False)
        agent.say(b"going\n", 2)
        assert agent.events == []
        if held:
            pump(agent.clock, DRAIN_SECONDS + 0.05)
        else:
            agent.process.lose(1)
            agent.process.lose(2)
        assert agent.events == [("lost", "the connection was closed")]
        assert lines == ["going"]
        assert agent.receiver.error.stderr_tail == "going\n"
        assert agent.clock.getDelayedCalls() == []


def test_close_ladder() -> None:
    """
    An agent that stays gets SIGTERM after exit_grace and SIGKILL terminate_grace later; the loss comes after its end.
    """
    agent = Agent()
    agent.transport.close()
    pump(agent.clock, 10.0)
    times = [seconds for seconds, _ in agent.group.signals]
    expected = [agent.limits.exit_grace, agent.limits.exit_grace + agent.limits.terminate_grace]
    assert times == pytest.approx(expected, abs=0.03)
    assert [number for _, number in agent.group.signals] == [signal.SIGTERM, signal.SIGKILL]
    assert agent.events == []
    agent.exit(KILLED)
    assert agent.events == [("lost", "the connection was closed")]
    assert agent.clock.getDelayedCalls() == []


def test_close_ladder_after_a_stuck_flush() -> None:
    """
    An agent that does not take our last output is not waited for longer than one that does.
    """
    agent = Agent()
    agent.process.stuck = True
    agent.transport.send(b"1")
    agent.transport.close()
    pump(agent.clock, agent.limits.exit_grace + 0.1)
    assert [number for _, number in agent.group.signals] == [signal.SIGTERM]
    agent.exit(KILLED)
    assert agent.clock.getDelayedCalls() == []


def test_close_leaves_no_group_behind() -> None:
    """
    Members of the group that outlive the agent itself are told to go, then killed; only then is it closed (B66).
    """
    agent = Agent()
    agent.transport.close()
    agent.exit(EXIT_0, whole=False)
    assert [number for _, number in agent.group.signals] == [signal.SIGTERM]
    assert agent.events == []
    pump(agent.clock, agent.limits.terminate_grace + 0.1)
    assert [number for _, number in agent.group.signals] == [signal.SIGTERM, signal.SIGKILL]
    agent.group.alive = False
    pump(agent.clock, 0.1)
    assert agent.events == [("lost", "the connection was closed")]
    assert agent.clock.getDelayedCalls() == []


def test_exit_leaves_no_group_behind() -> None:
    """
    An agent that ends by itself is reported at once, and what it left behind is ended after it.
    """
    agent = Agent()
    agent.exit(EXIT_0, whole=False)
    assert agent.receiver.names[-1] == "lost"
    gone = agent.transport.when_gone()
    no_result(gone)
    assert [number for _, number in agent.group.signals] == [signal.SIGTERM]
    agent.group.alive = False
    pump(agent.clock, 0.1)
    success_result(gone)
    assert agent.clock.getDelayedCalls() == []


def test_close_while_the_exit_is_drained() -> None:
    """
    A close during the wait for the last words ends it; there is one loss.
    """
    agent = Agent()
    agent.exit(EXIT_0, close=False)
    agent.transport.close()
    agent.clock.advance(DRAIN_SECONDS)
    assert agent.receiver.names == ["made", "lost"]
    assert agent.clock.getDelayedCalls() == []


def test_unkillable() -> None:
    """
    When not even SIGKILL helps, the connection is closed all the same.
    """
    agent = Agent()
    agent.transport.close()
    pump(agent.clock, agent.limits.exit_grace + 2 * agent.limits.terminate_grace + 0.2)
    assert agent.events == [("lost", "the connection was closed")]
    assert agent.clock.getDelayedCalls() == []


def test_unreported_exit_is_asked_for() -> None:
    """
    While a group is ended, exits are asked for, in case the reactor does not hear of them (B78).
    """
    agent = Agent()
    agent.transport.close()
    pump(agent.clock, 1.0)
    assert agent.group.reaped >= 10
    agent.exit()


def test_kill() -> None:
    """
    A kill goes to the whole group at once, as when the reactor stops.
    """
    agent = Agent()
    agent.transport.kill()
    agent.transport.kill()
    assert [number for _, number in agent.group.signals] == [signal.SIGKILL]
    agent.exit(KILLED)
    success_result(agent.transport.when_gone())


def test_group_that_is_not_there_yet() -> None:
    """
    A child that was forked a moment ago and leads no group yet gets the signal itself.
    """
    agent = Agent()
    agent.group.exists = False
    agent.transport.kill()
    assert agent.group.leader_signals == [signal.SIGKILL]
    agent.exit(KILLED)


# standard error


def test_stderr_lines() -> None:
    """
    The callback gets whole lines, without their ends, the last one too, and bytes that are no UTF-8 replaced
    (TRANSPORT-CLIENT-STDERR-MAY).
    """
    lines: list[str] = []
    agent = Agent(on_stderr=lines.append)
    agent.say(b"on", 2)
    agent.say("e\r\ntwö\n\n".encode(), 2)
    agent.say(b"\xff\nlast", 2)
    agent.process.lose(2)
    assert lines == ["one", "twö", "", "\ufffd", "last"]
    agent.exit()


def test_stderr_is_bounded() -> None:
    """
    Of a flood the end is remembered, and a line without end reaches the callback in pieces.
    """
    lines: list[str] = []
    tail = StderrTail(1000, lines.append)
    for _ in range(100):
        tail.feed(b"x" * 4096)
    tail.feed(b"the end")
    tail.end()
    assert len(tail.text) == 1000
    assert tail.text.endswith("xthe end")
    assert max(map(len, lines)) == MAX_LINE_BYTES
    assert "".join(lines) == "x" * 409600 + "the end"


def test_stderr_callback_that_fails(logged_errors: Any) -> None:
    """
    A callback that raises is logged once, not for every line, and harms nothing else.
    """

    def fail(line: str) -> None:
        raise ZeroDivisionError

    agent = Agent(on_stderr=fail)
    agent.say(b"1\n2\n3\n", 2)
    agent.say(b"message\n")
    assert agent.receiver.messages == [b"message"]
    assert len(logged_errors) == 1
    logged_errors.clear()
    agent.exit()


# the command


def test_command_is_a_list() -> None:
    """
    A command line is not split, and a command names a program.
    """
    assert AgentCommand(["a", "b c"]).argv == ("a", "b c")
    with pytest.raises(TypeError, match="not split"):
        AgentCommand("a b")
    with pytest.raises(ValueError, match="no program"):
        AgentCommand(())


def test_environment() -> None:
    """
    The whole environment is spelled out: ours, with changes and removals (B70).
    """
    ours = {"PATH": "/bin", "HOME": "/home/me", "KEY": "secret"}
    command = AgentCommand(("a",), env={"KEY": None, "NEW": "1", "HOME": "/other"})
    assert command.environment(ours) == {"PATH": "/bin", "HOME": "/other", "NEW": "1"}
    assert AgentCommand(("a",)).environment() == dict(os.environ)


def test_environment_not_inherited() -> None:
    """
    Without inheritance only the safe variables go over, and no exported shell function among them.
    """
    ours = {name: name.lower() for name in SAFE_VARIABLES} | {"KEY": "secret", "SHELL": "() { :; }"}
    environment = AgentCommand(("a",), env={"NEW": "1"}, inherit_env=False).environment(ours)
    assert set(environment) == {*SAFE_VARIABLES, "NEW"} - {"SHELL"}


def test_secrets_are_not_shown() -> None:
    """
    The repr of a command holds no environment (rule 9).
    """
    assert "secret" not in repr(AgentCommand(("a",), env={"KEY": "secret"}))


def test_executable_found(tmp_path: Path) -> None:
    """
    A program is found on the PATH of its own environment, or where its path says, seen from its own directory.
    """
    program = tmp_path / "my agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert AgentCommand(("my agent",)).executable({"PATH": str(tmp_path)}) == str(program)
    assert AgentCommand((str(program),)).executable({}) == str(program)
    assert AgentCommand(("./my agent",), cwd=tmp_path).executable({}) == str(program)


@pytest.mark.parametrize(
    ("argv", "cwd", "why"),
    [
        (("no-such-program",), None, "no such command on the PATH"),
        (("/no/such/program",), None, "no such file"),
        (("./missing",), "{tmp}", "no such file"),
        (("{tmp}",), None, "a directory"),
        (("{tmp}/data",), None, "not executable"),
        (("sh",), "{tmp}/nowhere", "no directory"),
        (("sh",), "{tmp}/data", "no directory"),
        (("sh", "a\0b"), None, "NUL"),
    ],
)
def test_executable_missing(tmp_path: Path, argv: tuple[str, ...], cwd: str | None, why: str) -> None:
    """
    What can't be started says so at once, with the command and the reason (B69).
    """
    (tmp_path / "data").write_text("")
    words = tuple(word.format(tmp=tmp_path) for word in argv)
    command = AgentCommand(words, cwd=None if cwd is None else cwd.format(tmp=tmp_path))
    with pytest.raises(AgentStartError, match=why) as caught:
        command.executable(command.environment())
    assert words[0] in str(caught.value)


@pytest.mark.parametrize("then", ["close", "abort"])
@pytest.mark.parametrize("order", ["1 2 exit", "2 1 exit", "exit 1 2", "exit 2 1", "1 exit 2", "2 exit 1", "exit"])
def test_hanging_up_at_the_last_words(then: str, order: str) -> None:
    """
    Whoever hangs up when he is given the agent's last line is told of one loss, and no timer goes on (B49).
    """
    agent = Agent()
    transport = agent.transport
    agent.receiver.on_remainder = transport.close if then == "close" else lambda: transport.abort("enough")
    agent.say(b"1\nlast")
    for step in order.split():
        if step == "exit":
            agent.exit(close=False)
        else:
            agent.process.lose(int(step))
    pump(agent.clock, 0.2)
    assert agent.receiver.names == ["made", "message", "remainder", "lost"]
    assert agent.clock.getDelayedCalls() == []
