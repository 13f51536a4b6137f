"""
The HTTP server as a service, and the options of C{twistd acp} for it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from http_server_fakes import agent
from transport_fakes import SocketTransport
from twisted.application.service import MultiService
from twisted.internet.endpoints import SSL4ServerEndpoint, TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.internet.testing import MemoryReactorClock
from twisted.python.usage import UsageError

from acp_twisted import tap
from acp_twisted.service import HttpAgentService, on_loopback

TESTS = Path(__file__).parent
AGENT = ["--agent", "twistd_agents:agent"]


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options put the current directory in front of the module path; not for the next test."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def parse(*arguments: str) -> tap.Options:
    """Parsed options, without a twistd around them."""
    options = tap.Options()
    options.parseOptions([*AGENT, *arguments])
    return options


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("tcp:8080", "tcp:8080:interface=127.0.0.1"),
        ("tcp:port=8080", "tcp:port=8080:interface=127.0.0.1"),
        ("tcp:8080:backlog=5", "tcp:8080:backlog=5:interface=127.0.0.1"),
        ("tcp:8080:interface=0.0.0.0", "tcp:8080:interface=0.0.0.0"),
        ("tcp:8080:192.0.2.1", "tcp:8080:192.0.2.1"),
        ("tcp6:8080", r"tcp6:8080:interface=\:\:1"),
        ("ssl:8443:privateKey=k.pem", "ssl:8443:privateKey=k.pem:interface=127.0.0.1"),
        ("ssl:8443:k.pem:c.pem", "ssl:8443:k.pem:c.pem:interface=127.0.0.1"),
        ("unix:/run/acp.sock", "unix:/run/acp.sock"),
        ("haproxy:tcp:8080", "haproxy:tcp:8080:interface=127.0.0.1"),
    ],
)
def test_loopback_unless_told_otherwise(given: str, meant: str) -> None:
    """An agent is no public service by an oversight."""
    assert on_loopback(given) == meant


def test_options(tmp_path: Path) -> None:
    """Everything that the options say reaches the service."""
    tokens = tmp_path / "tokens"
    tokens.write_text("# ours\nabc alice of sales\n\n  def\n")
    options = parse(
        *("--listen-http", "tcp:0", "--listen-http", "tcp6:0", "--http-path", "/agents/one"),
        *("--http-origin", "https://a.example", "--http-host", "a.example", "--http-token-file", str(tokens)),
    )
    first, second = options["listen-http"]
    assert isinstance(first, TCP4ServerEndpoint)
    assert first._interface == "127.0.0.1"
    assert isinstance(second, TCP6ServerEndpoint)
    assert second._interface == "::1"
    service = options["http-service"]
    assert isinstance(service, HttpAgentService)
    assert options["http-tokens"] == {"abc": "alice of sales", "def": "bearer"}
    assert service._options["origins"] == ("https://a.example",)
    assert service._options["hosts"] == ["a.example"]
    site = service._make_factory()
    assert set(site.resource.children) == {b"agents"}


def test_options_as_they_are_by_default() -> None:
    """Loopback pages, any name, no token, at /acp."""
    options = parse("--listen-http", "tcp:0")
    assert options["http-service"]._options == {"origins": ("loopback",), "hosts": None, "authentication": None}
    assert options["http-service"]._path == "/acp"
    assert options["listen"] == []


def test_tls_by_endpoint_string(pem: Path) -> None:
    """With ssl: the certificate is read at once, and HTTP/2 is offered before HTTP/1.1."""
    options = parse("--listen-http", f"ssl:0:privateKey={pem}:certKey={pem}")
    (endpoint,) = options["listen-http"]
    assert isinstance(endpoint, SSL4ServerEndpoint)
    assert options["http-service"]._make_factory().acceptableProtocols() == [b"h2", b"http/1.1"]


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and its certificate for localhost in one file."""
    folder = tmp_path_factory.mktemp("tls")
    one = folder / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    subprocess.run(command, check=True, capture_output=True)
    one.write_bytes((folder / "key").read_bytes() + (folder / "cert").read_bytes())
    return one


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listen-http", "pigeon:1"], "--listen-http: 'pigeon:1' is no endpoint to listen on"),
        (["--listen-http", "tcp:0", "--http-path", "acp"], "'acp' is no absolute path"),
        (["--listen-http", "tcp:0", "--http-origin", "example.com"], "'example.com' is no origin"),
        (
            ["--listen-http", "tcp:0", "--http-token-file", "/no/such/file"],
            "can't read /no/such/file: FileNotFoundError",
        ),
        (["--listen-http", "tcp:0", "--http-token-file", "/dev/null"], "there is no token in /dev/null"),
    ],
)
def test_usage_errors(arguments: list[str], words: str) -> None:
    """Each says which option is wrong, and how."""
    with pytest.raises(UsageError) as caught:
        parse(*arguments)
    assert words in str(caught.value)


def test_without_what_it_needs() -> None:
    """Who has not installed the extra is told its name."""
    program = (
        "import sys; sys.modules['wsproto'] = None; from acp_twisted import tap\n"
        "try: tap.Options().parseOptions(['--agent', 'twistd_agents:agent', '--listen-http', 'tcp:0'])\n"
        "except tap.UsageError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=TESTS)
    assert done.stdout.startswith("--listen-http: install acp_twisted[http] (")


@pytest.mark.parametrize("where", ["ws://127.0.0.1:9/acp", "wss://127.0.0.1:9/acp", "https://127.0.0.1:9/acp"])
def test_a_url_without_what_it_needs(where: str) -> None:
    """So is who connects by a URL, and who asks for the resource."""
    program = (
        "import sys; sys.modules.update(wsproto=None, h2=None, priority=None)\n"
        "from twisted.internet.task import Clock; import acp_twisted\n"
        f"try: acp_twisted.AcpClient.builder().build().connect(Clock(), {where!r})\n"
        "except ValueError as error: print(error)\n"
        "try: acp_twisted.AcpResource\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=TESTS)
    connecting, serving = done.stdout.splitlines()
    scheme = where.partition("/")[0]
    assert connecting.startswith(f"{scheme}// needs more than is installed: pip install 'acp_twisted[http]' (")
    assert serving.startswith("AcpResource needs more than is installed: pip install 'acp_twisted[http]' (")


def test_make_service_has_all_listeners() -> None:
    """One application for line-based sockets and HTTP."""
    options = parse("--listen", "tcp:0:interface=127.0.0.1", "--listen-http", "tcp:0")
    application = tap.makeService(options)
    assert isinstance(application, MultiService)
    assert [type(each).__name__ for each in application] == ["AgentService", "HttpAgentService"]


def test_the_service_is_light_for_others() -> None:
    """Importing the package, or its services, imports nothing of HTTP or WebSocket."""
    program = (
        "import sys, acp_twisted, acp_twisted.service, acp_twisted.tap\n"
        "heavy = ('wsproto', 'h2', 'twisted.web', 'acp_twisted.transports.http')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_starts_and_stops() -> None:
    """Each start has a table of its own; a stop closes the sockets, and refuses what comes meanwhile."""
    reactor: Any = MemoryReactorClock()
    service = HttpAgentService(agent(), "tcp:80", reactor)
    for _ in range(2):
        service.startService()
        assert reactor.tcpServers[-1][3] == "127.0.0.1"
        site = reactor.tcpServers[-1][1]
        assert len(site.agent_resource.connections) == 0
        stopped = service.stopService()
        assert stopped.called
        late = SocketTransport()
        site.buildProtocol(late.getPeer()).makeConnection(late)
        assert late.aborted


def test_mistakes_are_told_before_the_start() -> None:
    """What is wrong with the options is a ValueError of the constructor."""
    reactor: Any = MemoryReactorClock()
    with pytest.raises(ValueError, match="no absolute path"):
        HttpAgentService(agent(), "tcp:80", reactor, path="acp")
    with pytest.raises(ValueError, match="no origin"):
        HttpAgentService(agent(), "tcp:80", reactor, origins=["a.example"])
