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
SECONDS = 300


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
    except BaseException:
        process.kill()
        if not process.stdout.closed:
            sys.stdout.write("".join(log) + process.stdout.read())  # beside what has failed
        raise
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


OF_BOTH = {"both_versions_agent.py", "both_versions_client.py"}
"""Examples that speak either version."""

OF_THE_SECOND = {"decorated_agent_v2.py"}
"""Examples that have no twin of version 1."""


def test_every_example_has_a_twin_of_version_2() -> None:
    """What there is for version 1 there is for version 2, under the same name; and the manual's table has all of it."""
    there = {path.name for path in EXAMPLES.glob("[!.]*.*")} - OF_BOTH
    assert len(there) > 10
    firsts = {name for name in there if "_v2." not in name}
    twins = {name: name.replace(".", "_v2.") for name in firsts}
    assert there - firsts == {*twins.values(), *OF_THE_SECOND}
    page = (ROOT / "docs" / "explanation" / "v2.rst").read_text(encoding="utf-8")
    rows = re.findall(r"^``(\S+\.\w+)`` +``(\S+\.\w+)`` +\S", page, re.MULTILINE)
    assert dict(rows) == {**twins, **{name: name for name in OF_BOTH}}


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("[!.]*_v2.*")))
def test_an_example_of_version_2_is_of_that_alone(name: str) -> None:
    """None of them has a word of version 1."""
    assert not re.search(r"\bv1\b|embedded\.py|proxy\.py|echo_agent\b", (EXAMPLES / name).read_text(encoding="utf-8"))


def test_the_readme_prints_the_files() -> None:
    """The agent and the client of the README are the files in examples/, letter by letter."""
    files = [(EXAMPLES / name).read_text(encoding="utf-8") for name in ("echo_agent.py", "echo_client.py")]
    assert blocks(ROOT / "README.rst") == files


@pytest.mark.parametrize("name", ["echo_agent.py", "echo_client.py", "echo_agent_v2.py", "echo_client_v2.py"])
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


@pytest.mark.parametrize("agent", ["echo_agent_v2.py", "both_versions_agent.py"])
def test_the_client_of_version_2(agent: str) -> None:
    """The first client, in version 2, with the first agent in version 2 and with one of both."""
    printed = run(sys.executable, "echo_client_v2.py", sys.executable, agent)
    assert printed == "Hello from a client in fifteen lines end_turn\n"


@pytest.mark.parametrize(("agent", "protocol"), [("echo_agent.py", "2"), ("echo_agent_v2.py", "1")])
def test_a_client_of_the_other_version_says_what_is_wrong(agent: str, protocol: str) -> None:
    """Whoever mixes them up reads which version the agent speaks."""
    client = Path(sys.executable).with_name("acp-twisted")
    done = subprocess.run(
        [client, "prompt", "hello", "--protocol", protocol, "--", sys.executable, agent],
        cwd=EXAMPLES,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    spoken = {"1": 2, "2": 1}[protocol]
    assert done.returncode != 0
    assert f"the agent speaks protocol version {spoken}, and this client does not" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("agent", "version"), [("echo_agent.py", 1), ("echo_agent_v2.py", 2), ("both_versions_agent.py", 2)]
)
def test_a_client_of_both_versions(agent: str, version: int) -> None:
    """One client, whichever version the agent speaks."""
    printed = run(sys.executable, "both_versions_client.py", "hello", sys.executable, agent)
    assert printed == f"hello \nversion {version}: end_turn\n"


def cancelled_in_time(example: str) -> list[str]:
    """
    What an example prints that cancels an answer.  The answer takes less than a second, so a machine that has much else
    to do may let it come to its end; then once more.
    """
    for _ in range(10):
        printed = run(sys.executable, EXAMPLES / example, cwd=ROOT).splitlines()
        if any(line.startswith("this answer ") and not line.endswith("end ") for line in printed):
            break
    return printed


def test_the_main_job_in_version_2() -> None:
    """A stream, a permission while another prompt is held, and work that is stopped."""
    printed = cancelled_in_time("main_job_v2.py")
    assert printed[:4] == ["one two three ", "end_turn", "THIS IS WORKED ON ", "end_turn"]
    assert printed[4] == "True end_turn"
    assert printed[5].startswith("this answer ")
    assert not printed[5].endswith("end ")
    assert printed[6] == "cancelled"
    assert printed[7] == "> one two three"
    assert len(printed) == 11


def test_the_main_job() -> None:
    """twistd serves, the client streams an answer, and the second prompt is cancelled."""
    printed = cancelled_in_time("main_job.py")
    assert printed[:3] == ["> one two three four five", "one two three four five ", "end_turn"]
    assert printed[3] == "> this answer is not wanted to its end"
    assert printed[4].startswith("this answer ")
    assert not printed[4].endswith("end ")
    assert printed[5:] == ["cancelled"]


@pytest.mark.parametrize(("name", "protocol"), [("agent.tac", "1"), ("agent_v2.tac", "2")])
def test_the_application_file(name: str, protocol: str) -> None:
    """C{twistd -y} loads the file; here on a port that the system chooses instead of the one in the file."""
    source = (EXAMPLES / name).read_text(encoding="utf-8")
    assert "tcp:8123:" in source
    copy = EXAMPLES / f".{os.getpid()}-{name}"
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
            assert ask(port, "from a file", protocol) == "from a file \n"
    finally:
        copy.unlink()


def ask(port: int, text: str, protocol: str = "1") -> str:
    """What the one-shot client prints for one prompt to a server."""
    client = Path(sys.executable).with_name("acp-twisted")
    return run(client, "prompt", text, "--protocol", protocol, "--connect", f"tcp:127.0.0.1:{port}")


EMBEDDED = ("tcp:0:interface=127.0.0.1", "tcp:0:interface=127.0.0.1")


def test_the_embedded_agent_shares_the_applications_state() -> None:
    """What is said to the agent is on the web page of the same process."""
    with serving([sys.executable, "embedded.py", *EMBEDDED], 2) as (agent, web):
        assert ask(agent, "I was here") == "Entry 1 is written.\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/", timeout=SECONDS) as page:
            assert page.read() == b"I was here\n"


GUEST = """
import sys
from twisted.internet import task, threads
from urllib.request import urlopen
from acp_twisted import AcpClient
from acp_twisted.client.v2.connection import ClientConnection

async def main(reactor, agent, web):
    builder = AcpClient.builder().track_sessions().protocol_versions(2)
    connection = await (await builder.build().connect(reactor, f"tcp:127.0.0.1:{agent}")).initialize()
    assert isinstance(connection, ClientConnection)
    session = await connection.new_session("/tmp")
    print((await session.prompt("I was here too")).stop_reason)
    told = session.when_idle()
    print((await threads.deferToThread(urlopen, f"http://127.0.0.1:{web}/")).read().decode(), end="")
    print((await told).stop_reason)
    for message in session.state.messages:
        print(message.role, message.text)
    await connection.close()

task.react(main, sys.argv[1:])
"""


def test_the_embedded_agent_of_version_2_speaks_unasked() -> None:
    """Who has written in the book is told when the page is read, in work that no prompt asked for; who is gone is not
    in the way."""
    with serving([sys.executable, "embedded_v2.py", *EMBEDDED], 2) as (agent, web):
        assert ask(agent, "I was here", "2") == "Entry 1 is written.\n"
        assert run(sys.executable, "-c", GUEST, str(agent), str(web)).splitlines() == [
            "end_turn",
            *("I was here", "I was here too"),
            "end_turn",
            *("user I was here too", "agent Entry 2 is written.", "agent Somebody has read the book."),
        ]


@pytest.mark.parametrize("version", ["1", "2"])
def test_the_proxy_counts_words(version: str) -> None:
    """In a chain of programs and in the conductor's own process, in front of the echo agent, in either version."""
    cli = Path(sys.executable).with_name("acp-twisted")
    proxy, agent = {"1": ("proxy", "echo_agent"), "2": ("proxy_v2", "echo_agent_v2")}[version]
    for component in (f"{sys.executable} {proxy}.py", f"{proxy}:proxy"):
        chain: list[str | Path] = [cli, "conductor", "--", component, f"{sys.executable} {agent}.py"]
        answer = run(cli, "prompt", "one two three", "--protocol", version, "--", *chain)
        assert answer.split("\n")[0].split() == ["one", "two", "three", "[3", "words]"]


def test_the_client_of_version_2_has_tools() -> None:
    """The agent uses the client's tool, and the work that is cancelled cancels it."""
    printed = run(sys.executable, "mcp_tools_v2.py").splitlines()
    assert printed == ["It rains in Paris.", "end_turn", "the tool was cancelled", "cancelled"]
