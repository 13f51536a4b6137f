"""The examples run as printed: real processes, real sockets, nothing of the tests' own in between."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SECONDS = 60


def run(*command: str | Path, cwd: Path = EXAMPLES) -> str:
    """Run a program to its end and return what it printed on standard output; anything but exit status 0 fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def serving(command: Sequence[str | Path], ports: int) -> Iterator[list[int]]:
    """
    A server while it runs, and the ports that its log says it listens on, in their order.  At the end it is sent
    SIGTERM and must exit by itself.
    """
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=EXAMPLES,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    log: list[str] = []
    found: list[int] = []
    try:
        for line in process.stdout:
            log.append(line)
            found += [int(port) for port in re.findall(r"starting on (\d+)", line)]
            if len(found) == ports:
                break
        assert len(found) == ports, "it did not listen:\n" + "".join(log)
        yield found
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=SECONDS)
        assert "Traceback" not in "".join(log) + rest, "".join(log) + rest
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def blocks(path: Path) -> list[str]:
    """The Python code blocks of a reStructuredText file."""
    found = re.findall(
        r"^\.\. code-block:: python\n\n((?:(?: {4}.*)?\n)+)", path.read_text(encoding="utf-8"), re.MULTILINE
    )
    return [textwrap.dedent(block).strip("\n") + "\n" for block in found]


def test_the_readme_prints_the_files() -> None:
    """The agent and the client of the README are the files in examples/, letter by letter."""
    files = [(EXAMPLES / name).read_text(encoding="utf-8") for name in ("echo_agent.py", "echo_client.py")]
    assert blocks(ROOT / "README.rst") == files


@pytest.mark.parametrize("name", ["echo_agent.py", "echo_client.py"])
def test_fifteen_lines_are_enough(name: str) -> None:
    """What a newcomer has to read first stays short; imports and blank lines aside."""
    lines = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line and not line.startswith(("import ", "from "))]) <= 15


def test_the_client_drives_the_agent() -> None:
    """The two of the README, together, over standard input and output."""
    printed = run(sys.executable, "echo_client.py", sys.executable, "echo_agent.py")
    assert printed == "Hello from a client in fifteen lines end_turn\n"


def test_an_agent_of_both_versions() -> None:
    """One handler answers a client of either version, and asks before it shouts."""
    client, agent = Path(sys.executable).with_name("acp-twisted"), (sys.executable, "both_versions_agent.py")
    for versions in ("1", "2", "2,1"):
        options = ("--protocol", versions, "--permit", "allow")
        assert run(client, "prompt", "SHOUT hello", *options, "--", *agent) == "HELLO \n"


def test_a_decorated_agent_of_version_2() -> None:
    """A class with decorators and a blocking handler, in version 2 alone."""
    client, agent = Path(sys.executable).with_name("acp-twisted"), (sys.executable, "decorated_agent_v2.py")
    assert run(client, "prompt", "hello", "--protocol", "2", "--", *agent) == "HELLO\n"


def test_the_client_of_version_2() -> None:
    """The first client, in version 2; it is no longer than the first."""
    printed = run(sys.executable, "echo_client_v2.py", sys.executable, "both_versions_agent.py")
    assert printed == "Hello from a client in fifteen lines end_turn\n"
    lines = (EXAMPLES / "echo_client_v2.py").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line and not line.startswith(("import ", "from "))]) <= 15


@pytest.mark.parametrize(("agent", "version"), [("echo_agent.py", 1), ("both_versions_agent.py", 2)])
def test_a_client_of_both_versions(agent: str, version: int) -> None:
    """One client, whichever version the agent speaks."""
    printed = run(sys.executable, "both_versions_client.py", "hello", sys.executable, agent)
    assert printed == f"hello \nversion {version}: end_turn\n"


def test_the_main_job_in_version_2() -> None:
    """A stream, a permission while another prompt is held, and work that is stopped."""
    printed = run(sys.executable, EXAMPLES / "main_job_v2.py", cwd=ROOT).splitlines()
    assert printed[:4] == ["one two three ", "end_turn", "THIS IS WORKED ON ", "end_turn"]
    assert printed[4] == "True end_turn"
    assert printed[5].startswith("this answer ")
    assert not printed[5].endswith("end ")
    assert printed[6] == "cancelled"
    assert printed[7] == "> one two three"
    assert len(printed) == 11


def test_the_main_job() -> None:
    """twistd serves, the client streams an answer, and the second prompt is cancelled."""
    printed = run(sys.executable, EXAMPLES / "main_job.py", cwd=ROOT).splitlines()
    assert printed[:3] == ["> one two three four five", "one two three four five ", "end_turn"]
    assert printed[3] == "> this answer is not wanted to its end"
    assert printed[4].startswith("this answer ")
    assert not printed[4].endswith("end ")
    assert printed[5:] == ["cancelled"]


def test_the_application_file() -> None:
    """C{twistd -y} loads agent.tac; here on a port that the system chooses instead of the one in the file."""
    source = (EXAMPLES / "agent.tac").read_text(encoding="utf-8")
    assert "tcp:8123:" in source
    copy = EXAMPLES / f".agent-{os.getpid()}.tac"
    copy.write_text(source.replace("tcp:8123:", "tcp:0:"), encoding="utf-8")
    try:
        twistd: list[str | Path] = [
            Path(sys.executable).with_name("twistd"),
            "--nodaemon",
            "--pidfile=",
            "--no_save",
            "-y",
            copy,
        ]
        with serving(twistd, 1) as (port,):
            assert ask(port, "from a file") == "from a file \n"
    finally:
        copy.unlink()


def ask(port: int, text: str) -> str:
    """What the one-shot client prints for one prompt to a server."""
    client = Path(sys.executable).with_name("acp-twisted")
    return run(client, "prompt", text, "--connect", f"tcp:127.0.0.1:{port}")


def test_the_embedded_agent_shares_the_applications_state() -> None:
    """What is said to the agent is on the web page of the same process."""
    command = [sys.executable, "embedded.py", "tcp:0:interface=127.0.0.1", "tcp:0:interface=127.0.0.1"]
    with serving(command, 2) as (agent, web):
        assert ask(agent, "I was here") == "Entry 1 is written.\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/", timeout=SECONDS) as page:
            assert page.read() == b"I was here\n"


def test_the_proxy_counts_words() -> None:
    """In a chain of programs and in the conductor's own process, in front of the echo agent."""
    cli = Path(sys.executable).with_name("acp-twisted")
    agent = f"{sys.executable} echo_agent.py"
    for component in (f"{sys.executable} proxy.py", "proxy:proxy"):
        chain: list[str | Path] = [cli, "conductor", "--", component, agent]
        assert run(cli, "prompt", "one two three", "--", *chain).split("\n")[0].split() == [
            *("one", "two", "three", "[3", "words]")
        ]
