"""
The one-shot client as the program that it is, with agents of all kinds.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from raw_programs import SCRIPTED_AGENT, SECONDS, Lines, ListeningAgent, end, run

from acp_twisted import __version__

CLI = (sys.executable, "-m", "acp_twisted.cli.main")

STRANGE_AGENT = """
import json, os, signal, sys, time
how, pid_file = sys.argv[1:3]
open(pid_file, "w").write(str(os.getpid()))
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def say(text):
    content = {"type": "text", "text": text}
    send(method="session/update", params={"sessionId": "s", "update": {
        "sessionUpdate": "agent_message_chunk", "content": content}})
if how == "immortal":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if how == "slow":
    time.sleep(1)
if how == "noisy":
    print("Welcome to the agent!", flush=True)
    for _ in range(20000):
        print("a line of the log that nobody reads", file=sys.stderr)
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if how == "noisy":
        print("\\x1b[32mDEBUG\\x1b[0m", method, flush=True)
    if method == "initialize":
        version = 99 if how == "future" else 1
        send(id=message["id"], result={"protocolVersion": version, "agentCapabilities": {}})
    elif method == "session/new":
        send(id=message["id"], result={"sessionId": "s"})
    elif method == "session/prompt":
        if how == "dies":
            say("so far")
            print("it went wrong", file=sys.stderr, flush=True)
            os._exit(9)
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "deaf":
            say("so far")
            continue
        if how == "hangs up":
            os.close(0), os.close(1)
            time.sleep(600)
        say("fine")
        send(id=message["id"], result={"stopReason": "end_turn"})
if how == "immortal":
    time.sleep(600)
"""


def prompt(text: str, *options: str, agent: tuple[str, ...] = SCRIPTED_AGENT, **more: Any) -> CompletedProcess[str]:
    """
    A whole run.
    """
    return run([*CLI, "prompt", text, *options, "--", *agent], **more)


def strange(tmp_path: Path, how: str) -> tuple[str, ...]:
    """
    The command of an agent that misbehaves.
    """
    return (sys.executable, "-c", STRANGE_AGENT, how, str(tmp_path / "pid"))


def is_gone(pid: int) -> bool:
    """
    Whether a process has ended, or does so in time.
    """
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            return True
        if stat.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


@contextmanager
def started(*words: str, agent: tuple[str, ...] = SCRIPTED_AGENT) -> Iterator[subprocess.Popen[bytes]]:
    """
    A run whose output is read as it comes.
    """
    process = subprocess.Popen(
        [*CLI, "prompt", *words, "--", *agent],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        end(process)


def lines_of(process: subprocess.Popen[bytes]) -> Lines:
    """
    What it prints.
    """
    assert process.stdout is not None
    return Lines(process.stdout.fileno())


# ---- statuses


def test_a_streamed_turn() -> None:
    """Status 0, the text on standard output, the stop reason on standard error."""
    done = prompt("stream 3")
    assert (done.returncode, done.stdout) == (0, "123\n")
    assert "end_turn" in done.stderr


def test_a_streamed_turn_as_json() -> None:
    """One object a line: the updates in order, then the result."""
    done = prompt("stream 2", "--json")
    chunks = [{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": n}} for n in "12"]
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"update": chunks[0]},
        {"update": chunks[1]},
        {"result": {"stopReason": "end_turn"}},
    ]
    assert done.returncode == 0


def test_usage_errors_are_status_2() -> None:
    """Nothing is started, and standard output stays empty."""
    for words in (["prompt", "hi"], [], ["prompt", "hi", "--cancel-after", "-1", "--", "true"]):
        done = run([*CLI, *words])
        assert (done.returncode, done.stdout) == (2, "")
        assert "usage:" in done.stderr


@pytest.mark.parametrize(
    ("options", "last"),
    [
        (["--cancel-after", "0.2"], {"result": {"stopReason": "cancelled", "_meta": {"stopped": True}}}),
        (["--cancel-after-updates", "0"], {"result": {"stopReason": "cancelled", "_meta": {"stopped": True}}}),
        (
            ["--cancel-after", "0.2", "--how", "request"],
            {"error": {"code": -32800, "message": "Request cancelled"}},
        ),
    ],
)
def test_a_cancelled_turn_is_status_3(options: list[str], last: dict[str, Any]) -> None:
    """Either way of cancelling; the agent's own answer is printed."""
    done = prompt("polite", "--json", *options)
    assert done.returncode == 3
    assert [json.loads(line) for line in done.stdout.splitlines()] == [last]


def test_cancelling_after_updates() -> None:
    """Those that came before are printed, and few behind."""
    done = prompt("stream 1000 0.05", "--cancel-after-updates", "2", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 3
    assert lines[-1]["result"] == {"stopReason": "cancelled", "_meta": {"sent": len(lines) - 1}}
    assert 2 <= len(lines) - 1 < 1000


def test_an_error_of_the_agent_is_status_4() -> None:
    """Code and message on standard output."""
    done = prompt("fail -32050", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout) == {"error": {"code": -32050, "message": "asked to fail"}}
    assert "-32050" in done.stderr


def test_a_missing_command_is_status_5() -> None:
    """At once, and by its name."""
    done = prompt("hi", "--json", agent=("no-such-agent",))
    assert done.returncode == 5
    assert list(json.loads(done.stdout)) == ["error"]
    assert "no-such-agent" in done.stderr


def test_nobody_at_the_endpoint_is_status_5(tmp_path: Path) -> None:
    """And why."""
    done = run([*CLI, "prompt", "hi", "--connect", f"unix:{tmp_path}/none"])
    assert (done.returncode, done.stdout) == (5, "")
    assert "could not connect" in done.stderr


def test_a_program_that_is_no_agent_is_status_5() -> None:
    """Its exit status and what it complained of."""
    done = prompt("hi", agent=("sh", "-c", "echo no key >&2; exit 7"))
    assert (done.returncode, done.stdout) == (5, "")
    assert "status 7" in done.stderr
    assert "no key" in done.stderr


def test_an_agent_that_dies_in_its_turn_is_status_5(tmp_path: Path) -> None:
    """What it said before is printed, then its exit status and the end of its standard error (B63)."""
    done = prompt("hi", agent=strange(tmp_path, "dies"))
    assert (done.returncode, done.stdout) == (5, "so far\n")
    assert "status 9" in done.stderr
    assert "it went wrong" in done.stderr


def test_an_agent_that_is_killed_is_status_5(tmp_path: Path) -> None:
    """By its signal."""
    done = prompt("hi", agent=strange(tmp_path, "killed"))
    assert done.returncode == 5
    assert "signal 9" in done.stderr


def test_an_agent_that_hangs_up_is_status_5_and_ended(tmp_path: Path) -> None:
    """It closes its end and lives on: its process is ended all the same (B66)."""
    done = prompt("hi", agent=strange(tmp_path, "hangs up"))
    assert done.returncode == 5
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_an_agent_of_another_version_is_status_4(tmp_path: Path) -> None:
    """Which one it wants (1.15)."""
    done = prompt("hi", agent=strange(tmp_path, "future"))
    assert done.returncode == 4
    assert "99" in done.stderr


def test_a_timeout_is_status_6() -> None:
    """An error line, and the agent is gone."""
    done = prompt("hang", "--timeout", "1.5", "--json")
    assert done.returncode == 6
    assert "timed out" in json.loads(done.stdout)["error"]["message"]


def test_an_agent_that_starts_slowly_is_waited_for(tmp_path: Path) -> None:
    """Or not, if it is too slow for the timeout."""
    assert prompt("hi", agent=strange(tmp_path, "slow")).stdout == "fine\n"
    assert prompt("hi", "--timeout", "0.5", agent=strange(tmp_path, "slow")).returncode == 6


def test_a_noisy_agent_is_no_trouble(tmp_path: Path) -> None:
    """Banners on its standard output, and more on standard error than a pipe holds."""
    done = prompt("hi", agent=strange(tmp_path, "noisy"))
    assert (done.returncode, done.stdout) == (0, "fine\n")


def test_an_agent_that_will_not_go_is_killed(tmp_path: Path) -> None:
    """Neither the end of its input nor SIGTERM ends it; the status is the turn's (B66)."""
    done = prompt("hi", agent=strange(tmp_path, "immortal"))
    assert (done.returncode, done.stdout) == (0, "fine\n")
    assert is_gone(int((tmp_path / "pid").read_text()))


# ---- endpoints


def test_an_agent_on_an_endpoint(tmp_path: Path) -> None:
    """TCP and Unix; it goes on when the client has gone."""
    with ListeningAgent("tcp:0:interface=127.0.0.1", f"unix:{tmp_path}/agent") as agent:
        for endpoint in agent.endpoints:
            done = run([*CLI, "prompt", "stream 2", "--connect", endpoint])
            assert (done.returncode, done.stdout) == (0, "12\n"), done.stderr


def test_an_endpoint_that_goes_away_is_status_5() -> None:
    """In the middle of the turn."""
    with ListeningAgent("tcp:0:interface=127.0.0.1") as agent:
        words = [*CLI, "prompt", "stream 100 0.1", "--json", "--connect", agent.endpoints[0]]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            lines = lines_of(process)
            lines.next()
            agent.process.kill()
            assert process.wait(SECONDS) == 5
            assert list(json.loads(lines.rest()[-1])) == ["error"]
        finally:
            end(process)


# ---- as it comes


@pytest.mark.parametrize("json_lines", [True, False])
def test_updates_are_printed_as_they_come(json_lines: bool) -> None:
    """Into a pipe too."""
    with started("stream 3 60", *(["--json"] if json_lines else [])) as process:
        assert process.stdout is not None
        assert process.stdout.read1(1) in (b"1", b"{")  # type: ignore[attr-defined]


def test_a_reader_that_goes_away_ends_the_run() -> None:
    """As | head -1 does: status 141, no traceback, and the agent is gone."""
    with started("stream 1000 0.02", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines_of(process).next()
        process.stdout.close()
        assert process.wait(SECONDS) == 141
        assert b"Traceback" not in process.stderr.read()


def test_any_text_can_be_asked_and_printed(tmp_path: Path) -> None:
    """In whatever locale: what it can't print is escaped, and JSON is UTF-8 everywhere."""
    plainest = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert prompt("len ü", env=plainest).stdout == "5\n"
    (tmp_path / "f").write_text("ü", encoding="utf-8")
    words = (f"read {tmp_path}/f", "--cwd", str(tmp_path))
    assert prompt(*words, env=plainest).stdout == "\\xfc\n"
    first = prompt(*words, "--json", env=plainest).stdout.splitlines()[0]
    assert json.loads(first)["update"]["content"]["text"] == "ü"


# ---- signals


def test_one_interrupt_cancels_and_prints_the_answer() -> None:
    """^C."""
    with started("stream 1000 0.05", "--json") as process:
        lines = lines_of(process)
        lines.next()
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 3
        printed = [json.loads(line) for line in lines.rest()]
        assert printed[-1]["result"]["stopReason"] == "cancelled"


def test_two_interrupts_leave(tmp_path: Path) -> None:
    """^C^C: at once, with no result and the agent gone."""
    with started("hi", "--json", agent=strange(tmp_path, "deaf")) as process:
        lines = lines_of(process)
        assert process.stderr is not None
        errors = Lines(process.stderr.fileno())
        lines.next()
        process.send_signal(signal.SIGINT)
        line = errors.next()
        assert line is not None
        assert b"^C again" in line
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130
        assert lines.rest() == []
        assert is_gone(int((tmp_path / "pid").read_text()))


def test_an_interrupt_before_the_turn_leaves() -> None:
    """There is nothing to cancel."""
    with started("hi", agent=("sleep", "600")) as process:
        agent = _child_of(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130
        assert is_gone(agent)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_the_agent_too(tmp_path: Path, number: signal.Signals) -> None:
    """Status 128 and the signal's number."""
    with started("hi", "--json", agent=strange(tmp_path, "deaf")) as process:
        lines_of(process).next()
        process.send_signal(number)
        assert process.wait(SECONDS) == 128 + number
        assert is_gone(int((tmp_path / "pid").read_text()))


def _child_of(pid: int) -> int:
    """
    The process that a process has started.
    """
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.02)
    raise TimeoutError("it has started nothing")


# ---- at a terminal


class TerminalSession:
    """
    A run at a pseudo-terminal, which is its controlling one.
    """

    def __init__(self, *words: str) -> None:
        # Both ends stay open: the terminal would be over if the shell were slow to open its own.
        self.fd, self._follower = pty.openpty()
        name = os.ttyname(self._follower)
        # The shell leads a session, so the terminal that it opens first is its own.
        command = ["sh", "-c", f'exec "$@" <{name} >{name} 2>&1', "sh", *CLI, "prompt", *words, "--", *SCRIPTED_AGENT]
        self.process = subprocess.Popen(command, start_new_session=True)
        self.lines = Lines(self.fd)

    def type(self, text: str) -> None:
        """
        The user types.
        """
        os.write(self.fd, text.encode())

    def until(self, text: str) -> str:
        """
        Read lines until one has C{text} in it.
        """
        while True:
            line = self.lines.next()
            assert line is not None, f"{text!r} never came"
            shown = line.decode().rstrip("\r")
            if text in shown:
                return shown

    def close(self) -> None:
        """
        Leave nothing.
        """
        end(self.process)
        os.close(self._follower)
        os.close(self.fd)


@contextmanager
def terminal(*words: str) -> Iterator[TerminalSession]:
    """
    A run at a terminal.
    """
    session = TerminalSession(*words)
    try:
        yield session
    finally:
        session.close()


def test_the_user_is_asked_at_a_terminal() -> None:
    """Which is the default there; his choice is the agent's outcome."""
    with terminal("permission") as session:
        session.until("asks for permission: Permission 1 of 1")
        session.until("1  Allow")
        session.until("2  Deny")
        session.type("2\n")
        session.until('["deny"]')
        session.until("stop reason: end_turn")
        assert session.process.wait(SECONDS) == 0


def test_control_c_at_a_terminal() -> None:
    """It reaches us and not the agent; a question that is open is withdrawn (V1C3)."""
    with terminal("permission") as session:
        session.until("2  Deny")
        session.type("\x03")
        session.until('["cancelled"]')
        session.until("stop reason: cancelled")
        assert session.process.wait(SECONDS) == 3


# ---- what the client does for the agent


@pytest.mark.parametrize(("permit", "outcome"), [("allow", "allow"), ("deny", "deny"), (None, "deny")])
def test_permission_is_given_as_told(permit: str | None, outcome: str) -> None:
    """Away from a terminal it is denied unless told otherwise."""
    done = prompt("permission 2", *(["--permit", permit] if permit else []))
    assert (done.returncode, done.stdout) == (0, f'["{outcome}","{outcome}"]\n')


def test_permission_is_asked_of_standard_input() -> None:
    """--permit ask away from a terminal: lines are answers, and its end is none."""
    done = prompt("permission 3", "--permit", "ask", input="1\n2\n")
    assert (done.returncode, done.stdout) == (0, '["allow","deny","cancelled"]\n')


def test_held_permission_is_answered_by_cancelling() -> None:
    """hold never answers by itself (V1C3)."""
    done = prompt("permission 2", "--permit", "hold", "--cancel-after", "0.3")
    assert (done.returncode, done.stdout) == (3, '["cancelled","cancelled"]\n')


def test_files_below_the_directory(tmp_path: Path) -> None:
    """Are written and read; others are not."""
    done = prompt(f"write {tmp_path}/a/b.txt one two", "--cwd", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "written\n")
    assert (tmp_path / "a/b.txt").read_text() == "one two"
    assert prompt(f"read {tmp_path}/a/b.txt", "--cwd", str(tmp_path)).stdout == "one two\n"
    assert prompt(f"read {tmp_path}/none", "--cwd", str(tmp_path)).stdout == "error -32002\n"
    assert prompt("read /etc/passwd", "--cwd", str(tmp_path)).stdout == "error -32602\n"


def test_a_command_in_a_terminal(tmp_path: Path) -> None:
    """In the directory; both of its outputs in their order, and its exit code."""
    done = prompt("run pwd; echo oops >&2; exit 3", "--cwd", str(tmp_path))
    assert json.loads(done.stdout) == {"output": f"{tmp_path}\noops\n", "exitCode": 3}


def test_a_command_that_leaves_something_behind(tmp_path: Path) -> None:
    """It has ended when it has, and what it left is ended with its terminal (B67)."""
    done = prompt(f"run sleep 600 & echo $! > {tmp_path}/pid; echo done", "--cwd", str(tmp_path))
    assert json.loads(done.stdout) == {"output": "done\n", "exitCode": 0}
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_a_cancelled_command_is_killed(tmp_path: Path) -> None:
    """With everything that it started, and what it printed is told (V1C4)."""
    pid = tmp_path / "pid"
    command = f"run sh -c 'trap \"\" TERM; echo hi; echo $$ > {pid}; sleep 600; true'"
    with started(command, "--cwd", str(tmp_path)) as process:
        until = time.monotonic() + SECONDS
        while not (pid.exists() and pid.read_text().endswith("\n")):
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        (line,) = lines_of(process).rest()
        assert json.loads(line) == {"output": "hi\n", "exitCode": None}
        assert process.wait(SECONDS) == 3
    assert is_gone(int(pid.read_text()))


# ---- the command itself


def test_the_installed_command_tells_its_version() -> None:
    """The console script, and what it can do."""
    script = Path(sys.executable).with_name("acp-twisted")
    assert run([str(script), "--version"]).stdout == f"acp-twisted {__version__}\n"
    assert "prompt" in run([str(script), "--help"]).stdout
    assert "exit status:" in run([str(script), "prompt", "--help"]).stdout
