"""
The options of C{twistd acp}: every mistake has its message, and under C{--stdio} the wire is guarded before anything
can be printed (B71, B74).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import twistd_agents
from service_fakes import FakeServerEndpoint
from twisted.application.service import IService, IServiceMaker, MultiService
from twisted.application.twist._options import TwistOptions
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock
from twisted.plugin import getPlugins
from twisted.python.usage import UsageError
from twisted.scripts._twistd_unix import ServerOptions
from zope.interface.verify import verifyObject

from acp_twisted import AcpConnectionError, tap
from acp_twisted.service import AgentService, StdioAgentService
from acp_twisted.transports.stdio import StdioGuard

AGENT = ["--agent", "twistd_agents:agent"]
LISTEN = ["--listen", "tcp:0:interface=127.0.0.1"]


class FakeGuard(StdioGuard):
    """
    Installs nothing.

    @ivar made: all of them, for the test.
    """

    made: list[FakeGuard] = []

    def __init__(self) -> None:
        super().__init__()
        self.installs = 0
        FakeGuard.made.append(self)

    def install(self) -> StdioGuard:
        self.installs += 1
        return self

    def restore(self) -> None:
        raise AssertionError("the options leave the guard where it is")


@pytest.fixture(autouse=True)
def guards(monkeypatch: pytest.MonkeyPatch) -> list[FakeGuard]:
    """No test here takes the real standard input and output away."""
    monkeypatch.setattr(tap.Options, "make_guard", staticmethod(FakeGuard))
    FakeGuard.made = []
    return FakeGuard.made


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options put the current directory in front of the module path; not for the next test."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def parse(*arguments: str) -> tap.Options:
    """Parsed options, without a twistd around them."""
    options = tap.Options()
    options.parseOptions(list(arguments))
    return options


def twistd(*arguments: str) -> Any:
    """The options of twistd, parsed, whose subcommand has ours."""
    config = ServerOptions()
    config.parseOptions(list(arguments))
    return config


# ---- the agent


@pytest.mark.parametrize("name", ["agent", "builder", "make", "Holder.agent"])
def test_what_names_an_agent(name: str) -> None:
    """An agent, a builder of one, a function that returns one, and any of them inside something else."""
    options = parse("--agent", f"twistd_agents:{name}", *LISTEN)
    assert options["agent"].info == twistd_agents.agent.info


def test_module_of_a_package() -> None:
    """The module's name may have dots."""
    with pytest.raises(UsageError, match=r"acp_twisted\.tap has no agent$"):
        tap.load_agent("acp_twisted.tap:agent")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (LISTEN, "which agent? Say --agent package.module:name"),
        (AGENT, "where? Say --listen ENDPOINT, once or more, or --stdio"),
        (["--agent", "twistd_agents", *LISTEN], "'twistd_agents' is not of the form package.module:name"),
        (["--agent", "twistd_agents:", *LISTEN], "'twistd_agents:' is not of the form"),
        (["--agent", ":agent", *LISTEN], "':agent' is not of the form"),
        (["--agent", "", *LISTEN], "'' is not of the form"),
        (["--agent", "tests/agents.py:agent", *LISTEN], "is not of the form"),
        (["--agent", "a:b:c", *LISTEN], "is not of the form"),
        (["--agent", "no_such_module:agent", *LISTEN], "can't import no_such_module: ModuleNotFoundError"),
        (["--agent", "twistd_agents.sub:agent", *LISTEN], "can't import twistd_agents.sub: ModuleNotFoundError"),
        (["--agent", "twistd_agents:agnet", *LISTEN], "twistd_agents has no agnet; agents in it: agent"),
        (["--agent", "twistd_agents:Holder.agnet", *LISTEN], "twistd_agents has no Holder.agnet"),
        (["--agent", "twistd_agents:make_nothing", *LISTEN], "make_nothing returned a NoneType, not an AcpAgent"),
        (["--agent", "twistd_agents:__name__", *LISTEN], "twistd_agents:__name__ is a str, not an AcpAgent"),
        (["--agent", "twistd_agents:make_later", *LISTEN], "make_later returned a coroutine, not an AcpAgent"),
        (["--agent", "twistd_agents:make_trouble", *LISTEN], "LookupError: no key is configured ("),
        (["--agent", "twistd_agents:needs_an_argument", *LISTEN], "TypeError: needs_an_argument() missing 1"),
        (["--agent", "twistd_agents:half_built", *LISTEN], "an agent needs a prompt_handler"),
        ([*AGENT, "--listen", "tcp:http"], "--listen: 'tcp:http' is no endpoint to listen on"),
        ([*AGENT, *LISTEN, "--listen", "pigeon:1"], "--listen: 'pigeon:1' is no endpoint to listen on"),
        ([*AGENT, "--listen", ""], "--listen: '' is no endpoint to listen on"),
        ([*AGENT, "--listen", "stdio:"], "--listen: 'stdio:'"),
        ([*AGENT, "--stdio", "--stdio"], "--stdio is given twice"),
        ([*AGENT, *LISTEN, "more"], "Wrong number of arguments"),
        (["--agnet", "x"], "--agnet"),
    ],
)
def test_usage_errors(arguments: list[str], words: str) -> None:
    """Each says which option is wrong, and how."""
    with pytest.raises(UsageError) as caught:
        parse(*arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import no_such_thing\n", r"ModuleNotFoundError: No module named 'no_such_thing' \(.*broken\d.py, line 1\)"),
        ("\n\nraise ValueError('three')\n", r"ValueError: three \(.*broken\d.py, line 3\)"),
        ("def f(:\n", r"SyntaxError: .*broken\d.py, line 1\)$"),
        ("raise SystemExit(3)\n", r"SystemExit: 3 \(.*line 1\)"),
    ],
)
def test_a_module_that_fails(
    source: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The message has the error and its place in the user's own code."""
    number = request.node.callspec.indices["source"]
    (tmp_path / f"broken{number}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=rf"can't import broken{number}: {words}"):
        tap.load_agent(f"broken{number}:agent")


def test_the_current_directory_is_searched_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As python -m does; twistd's own program puts its own directory there instead."""
    (tmp_path / "agent_of_this_directory.py").write_text("from twistd_agents import agent\n")
    monkeypatch.chdir(tmp_path)
    assert tap.load_agent("agent_of_this_directory:agent") is twistd_agents.agent
    assert sys.path[0] == str(tmp_path)
    tap.load_agent("agent_of_this_directory:agent")
    assert sys.path.count(str(tmp_path)) == 1


def test_a_current_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then there is nothing to find in it, and what is installed is found all the same."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert tap.load_agent("twistd_agents:agent") is twistd_agents.agent


# ---- standard input and output


@pytest.mark.parametrize("option", ["--stdio", "--std", "--s"])
def test_the_guard_comes_before_everything_else(option: str, guards: list[FakeGuard]) -> None:
    """Also before an error in another option is printed; long options may be abbreviated (B74)."""
    with pytest.raises(UsageError):
        parse("--no-such-option", option)
    assert [guard.installs for guard in guards] == [1]


def test_no_guard_without_stdio(guards: list[FakeGuard]) -> None:
    """A server on sockets keeps its standard output, and twistd its log there."""
    assert parse(*AGENT, *LISTEN).guard is None
    assert guards == []


def test_the_guard_is_for_good() -> None:
    """Twistd logs on after the conversation, and the client may still read."""
    script = (
        "from acp_twisted.tap import Options; guard = Options.make_guard().install(); guard.restore();"
        "import os; os.write(1, b'late'); print('later')"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert done.stdout == b""
    assert done.stderr.splitlines() == [b"latelater"]


def test_a_process_without_stdio(monkeypatch: pytest.MonkeyPatch) -> None:
    """A usage error, not a traceback."""

    class NoStdio(FakeGuard):
        def install(self) -> StdioGuard:
            raise AcpConnectionError("standard input and output must both be open")

    monkeypatch.setattr(tap.Options, "make_guard", staticmethod(NoStdio))
    with pytest.raises(UsageError, match="--stdio: standard input and output must both be open"):
        parse(*AGENT, "--stdio")


def test_a_daemon_has_no_stdio(guards: list[FakeGuard]) -> None:
    """Twistd without -n would close them and serve nobody."""
    with pytest.raises(UsageError, match="a daemon has no standard input and output; say twistd -n acp"):
        twistd("acp", *AGENT, "--stdio")
    assert [guard.installs for guard in guards] == [1]


@pytest.mark.parametrize("option", ["-n", "--nodaemon", "-b"])
def test_in_the_foreground_it_has(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twistd's debugger does not daemonize either."""
    monkeypatch.setattr("twisted.internet.defer.setDebugging", lambda on: None)
    monkeypatch.setattr("twisted.python.failure.startDebugMode", lambda: None)
    config = twistd(option, "acp", *AGENT, "--stdio")
    assert config.subOptions["stdio"] is True


@pytest.mark.parametrize(
    ("before", "ours", "pidfile"),
    [
        ([], ["--stdio"], ""),
        (["--pidfile="], ["--stdio"], ""),
        (["--pidfile", "/run/agent.pid"], ["--stdio"], "/run/agent.pid"),
        ([], ["--stdio", *LISTEN], ""),
        ([], LISTEN, str(Path.cwd() / "twistd.pid")),
    ],
)
def test_an_editor_may_start_two_in_one_directory(before: list[str], ours: list[str], pidfile: str) -> None:
    """
    Twistd refuses to start where its twistd.pid names a living process.  With --stdio there is none unless the user
    names one; otherwise twistd's own rule stands.
    """
    assert twistd("-n", *before, "acp", *AGENT, *ours)["pidfile"] == pidfile


def test_twist_takes_the_same_options() -> None:
    """Twist has no daemon and no pidfile, and gets none from us."""
    config = TwistOptions()
    config.parseOptions(["acp", *AGENT, "--stdio"])
    assert config.subOptions["stdio"] is True
    assert "pidfile" not in config


# ---- the service


def test_the_plugin_is_found() -> None:
    """Twistd lists it, its name is acp, and it makes what it says."""
    [maker] = [each for each in getPlugins(IServiceMaker) if each.tapname == "acp"]
    verifyObject(IServiceMaker, maker)
    assert maker.options is tap.Options
    assert maker.makeService is tap.makeService


def test_looking_at_the_options_installs_no_reactor() -> None:
    """Twistd's --reactor comes first (B80): looking at our options chooses none."""
    script = "import sys, acp_twisted.tap as t; str(t.Options()); sys.exit('twisted.internet.reactor' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def kinds(service: IService) -> list[type]:
    """What a MultiService has in it."""
    assert isinstance(service, MultiService)
    return [type(each) for each in service.services]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (LISTEN, [AgentService]),
        ([*LISTEN, *LISTEN], [AgentService]),
        (["--stdio"], [StdioAgentService]),
        (["--stdio", *LISTEN], [AgentService, StdioAgentService]),
    ],
)
def test_make_service(arguments: list[str], expected: list[type]) -> None:
    """All endpoints are one service; sockets are opened before the first word on stdio."""
    options = parse(*AGENT, *arguments)
    assert kinds(tap.makeService(options)) == expected
    assert all(isinstance(each, TCP4ServerEndpoint) for each in options["listen"])


def made(monkeypatch: pytest.MonkeyPatch, outcome: object) -> tuple[MemoryReactorClock, MultiService]:
    """A service on a fake reactor and a fake endpoint."""
    reactor = MemoryReactorClock()
    monkeypatch.setattr(tap, "_installed_reactor", lambda: reactor)
    options = parse(*AGENT, *LISTEN)
    options["listen"] = [FakeServerEndpoint(outcome)]
    service = tap.makeService(options)
    assert isinstance(service, MultiService)
    return reactor, service


def test_an_endpoint_that_is_taken_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twistd's start fails, and with it twistd."""
    _, service = made(monkeypatch, CannotListenError("127.0.0.1", 1, OSError("in use")))
    with pytest.raises(CannotListenError):
        service.privilegedStartService()


def test_an_endpoint_that_fails_later_ends_the_application(monkeypatch: pytest.MonkeyPatch, logged_errors: Any) -> None:
    """A program that serves nobody does not stay; the log says why."""
    slow: Deferred[Any] = Deferred()
    reactor, service = made(monkeypatch, slow)
    service.startService()
    slow.errback(CannotListenError("127.0.0.1", 1, OSError("in use")))
    assert [hook for hook, *_ in reactor.whenRunningHooks] == [reactor.stop]
    assert "serves nobody" in logged_errors.texts()[0]
    logged_errors.clear()
