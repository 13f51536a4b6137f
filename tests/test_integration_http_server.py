"""
The HTTP server with real sockets: raw bytes, TLS, HTTP/2, slow readers, and clients that are killed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from http_server_fakes import EVENTS, INITIALIZE, JSON, NEW_SESSION, UPGRADE, Answer, read_answers
from interop.programs import until
from test_integration_tls import write_certificate
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, wrapClientTLS
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import Certificate, optionsForClientTLS
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from wsproto.connection import Connection, ConnectionType
from wsproto.events import TextMessage

from acp_twisted import AcpAgent, PromptContext
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.service import HttpAgentService
from acp_twisted.transports.http.below import Turns

pytestmark = [
    # Twisted still hands pyOpenSSL its own certificate objects.
    pytest.mark.filterwarnings("ignore:.*X509:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*PKey:DeprecationWarning"),
]


@pytest.fixture
def reactor() -> Any:
    """The real one."""
    from twisted.internet import reactor

    return reactor


class Raw(Protocol):
    """
    A client's socket: what came, and whether it is over.
    """

    def __init__(self) -> None:
        self.data = b""
        self.over = False
        self._waiting: list[tuple[Callable[[], Any], Deferred[None]]] = []

    def dataReceived(self, data: bytes) -> None:
        self.data += data
        self._look()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.over = True
        self._look()

    def _look(self) -> None:
        for waiting in list(self._waiting):
            if waiting[0]():
                self._waiting.remove(waiting)
                waiting[1].callback(None)

    async def until(self, seen: Callable[[], Any]) -> None:
        """Wait for something to be true of it."""
        if not seen():
            waiting: Deferred[None] = Deferred()
            self._waiting.append((seen, waiting))
            await waiting

    def write(self, data: bytes) -> None:
        """Send."""
        assert self.transport is not None
        self.transport.write(data)

    def request(self, method: str, headers: dict[str, str], body: str | None = None) -> None:
        """Send a request."""
        lines = [f"{method} /acp HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.write(("\r\n".join(lines) + "\r\n\r\n" + (body or "")).encode())

    async def answer(self, count: int = 1) -> Answer:
        """The answer of that number, whole."""

        def whole() -> bool:
            answers = list(read_answers(self.data))
            return len(answers) >= count and answers[count - 1].whole

        await self.until(whole)
        return list(read_answers(self.data))[count - 1]

    async def events(self, count: int) -> list[Any]:
        """So many messages of the event stream that is its only answer."""
        await self.until(lambda: self.data.count(b"data: ") >= count and self.data.endswith(b"\n\n\r\n"))
        (answer,) = read_answers(self.data)
        return answer.events()

    async def ended(self) -> None:
        """Wait for its end."""
        await self.until(lambda: self.over)

    def lose(self) -> None:
        """Hang up."""
        assert self.transport is not None
        self.transport.loseConnection()


class Served:
    """
    A running service, and how to reach it.
    """

    def __init__(self, reactor: Any, service: HttpAgentService, trust: Any = None) -> None:
        self.reactor = reactor
        self.service = service
        self.trust = trust
        address: Any = service.ports[0].getHost()
        self.address = address
        self.port: int = address.port
        self.clients: list[Raw] = []

    @property
    def site(self) -> Any:
        """The site of this start."""
        listening: Any = self.service._listening
        return listening._factory

    async def connect(self) -> Raw:
        """A new socket."""
        endpoint: Any = TCP4ClientEndpoint(self.reactor, "127.0.0.1", self.port)
        if self.trust is not None:
            endpoint = wrapClientTLS(optionsForClientTLS("localhost", self.trust), endpoint)
        client = await endpoint.connect(Factory.forProtocol(Raw))
        self.clients.append(client)
        assert isinstance(client, Raw)
        return client

    async def ask(self, method: str, headers: dict[str, str], body: str | None = None) -> Answer:
        """One request."""
        client = await self.connect()
        client.request(method, headers, body)
        answer = await client.answer()
        client.lose()
        return answer

    async def settled(self, done: Callable[[], Any]) -> None:
        """Wait for something that only time shows."""
        await until(self.reactor, done)


@asynccontextmanager
async def serving(
    reactor: Any, agent: AcpAgent, endpoint: str = "tcp:0", trust: Any = None, **options: Any
) -> AsyncIterator[Served]:
    """A service for the length of a test; when it has stopped, no socket is left to it."""
    service = HttpAgentService(agent, endpoint, reactor, **options)
    service.startService()
    await service.when_listening()
    served = Served(reactor, service, trust)
    site = served.site
    try:
        yield served
    finally:
        await service.stopService()
        assert len(site.agent_resource.connections) == 0
        for client in served.clients:
            await client.ended()


def talking_agent(limits: Limits | None = None) -> tuple[AcpAgent, list[int]]:
    """An agent whose prompt's text says how many updates of which size it sends; and how many it has sent."""
    sent = [0]

    async def answer(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        block = request.prompt[0]
        assert isinstance(block, v1.TextContent)
        count, size = (int(each) for each in block.text.split())
        for _ in range(count):
            await context.send_message("x" * size)
            sent[0] += 1
        return v1.PromptResponse(stop_reason="end_turn")

    builder = AcpAgent.builder().prompt_handler(answer).limits(Limits() if limits is None else limits)
    return builder.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s")).build(), sent


def prompt(id: int, count: int, size: int) -> str:
    """A prompt for the talking agent."""
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": f"{count} {size}"}]}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params})


async def begin(served: Served) -> dict[str, str]:
    """The header of a new connection with the session s, whose answers were read."""
    answer = await served.ask("POST", JSON, INITIALIZE)
    ids = {"Acp-Connection-Id": answer.headers["acp-connection-id"]}
    assert (await served.ask("POST", {**JSON, **ids}, NEW_SESSION)).status == 202
    return ids


async def converse(served: Served) -> None:
    """A whole conversation, two streams beside the posts, ended by DELETE."""
    ids = await begin(served)
    connection, session, posts = [await served.connect() for _ in range(3)]
    connection.request("GET", {**EVENTS, **ids})
    session.request("GET", {**EVENTS, **ids, "Acp-Session-Id": "s"})
    assert [event["id"] for event in await connection.events(1)] == [2]
    for id in (3, 4):
        posts.request("POST", {**JSON, **ids, "Acp-Session-Id": "s"}, prompt(id, 2, 10))
        assert (await posts.answer(id - 2)).status == 202
    events = await session.events(6)
    assert [event.get("id") for event in events] == [None, None, 3, None, None, 4]
    posts.request("DELETE", ids)
    assert (await posts.answer(3)).status == 202
    assert (await session.answer()).whole
    assert (await connection.answer()).whole


async def test_a_conversation_by_raw_bytes(reactor: Any) -> None:
    """POSTs on a kept connection beside two event streams, on the loopback interface alone (protocol §5.2)."""
    async with serving(reactor, talking_agent()[0]) as served:
        assert served.address.host == "127.0.0.1"
        await converse(served)


async def test_a_conversation_over_tls(reactor: Any, tmp_path: Path) -> None:
    """The same over TLS by an endpoint string, and an event stream whose socket has TLS around it."""
    key, certificate = write_certificate(tmp_path)
    trust = Certificate.loadPEM(certificate.read_bytes())
    endpoint = f"ssl:0:privateKey={key}:certKey={certificate}"
    async with serving(reactor, talking_agent()[0], endpoint, trust) as served:
        await converse(served)


async def test_a_websocket_over_tls(reactor: Any, tmp_path: Path) -> None:
    """A WebSocket within TLS, whose frames come in whatever pieces."""
    key, certificate = write_certificate(tmp_path)
    trust = Certificate.loadPEM(certificate.read_bytes())
    async with serving(reactor, talking_agent()[0], f"ssl:0:privateKey={key}:certKey={certificate}", trust) as served:
        client = await served.connect()
        client.request("GET", UPGRADE)
        await client.until(lambda: b"\r\n\r\n" in client.data)
        peer = Connection(ConnectionType.CLIENT)
        for message in (INITIALIZE, NEW_SESSION, prompt(3, 50, 100_000)):
            client.write(bytes(peer.send(TextMessage(message))))
        await client.until(lambda: client.data.endswith(b'"stopReason":"end_turn"}}'))
        peer.receive_data(client.data.partition(b"\r\n\r\n")[2])
        texts = "".join(event.data for event in peer.events() if isinstance(event, TextMessage))
        assert texts.count('"session/update"') == 50


async def test_http2_by_alpn(reactor: Any, tmp_path: Path) -> None:
    """curl gets HTTP/2 over TLS, POSTs beside a stream that stays open, and HTTP/1.1 when it wants that."""
    from twisted.internet.utils import getProcessOutput

    key, certificate = write_certificate(tmp_path)
    async with serving(reactor, talking_agent()[0], f"ssl:0:privateKey={key}:certKey={certificate}") as served:
        url = f"https://localhost:{served.port}/acp"
        common = ["-s", "--cacert", str(certificate), "--max-time", "300"]

        async def curl(*arguments: str) -> str:
            output: bytes = await getProcessOutput("curl", [*common, *arguments, url], env=dict(os.environ))
            return output.decode()

        post = ["-H", "Content-Type: application/json", "-d"]
        begun = await curl("-i", *post, INITIALIZE)
        assert begun.startswith("HTTP/2 200")
        assert (await curl("-i", "--http1.1", *post, INITIALIZE)).startswith("HTTP/1.1 200")
        id = next(line.split()[1] for line in begun.splitlines() if line.lower().startswith("acp-connection-id"))
        ids = ["-H", f"Acp-Connection-Id: {id}"]
        stream = curl("-N", *ids, "-H", "Accept: text/event-stream", "-H", "Acp-Session-Id: s")
        reading = Deferred.fromCoroutine(stream)
        assert (await curl("-i", *ids, *post, NEW_SESSION)).startswith("HTTP/2 202")
        session = [*ids, "-H", "Acp-Session-Id: s"]
        assert (await curl("-i", *session, *post, prompt(3, 100, 20_000))).startswith("HTTP/2 202")
        connection = served.site.agent_resource.connections.find(id)
        await served.settled(lambda: connection._receiver.incoming_requests == 0 and connection.unsent < 1000)
        channels: list[Any] = [each._channel._channel for each in served.site.sockets._open.values()]
        assert [each.conn.local_settings.max_concurrent_streams for each in channels] == [2048]
        assert [type(each.priority) for each in channels] == [Turns]
        assert (await curl("-i", *ids, "-X", "DELETE")).startswith("HTTP/2 202")
        events = [json.loads(line[6:]) for line in (await reading).splitlines() if line.startswith("data: ")]
        assert [event.get("id") for event in events] == [None] * 100 + [3]
        large = tmp_path / "large"
        large.write_bytes(b" " * (17 * 1024 * 1024))
        assert (await curl("-i", "-H", "Content-Type: application/json", "--data-binary", f"@{large}")).startswith(
            "HTTP/2 413"
        )


async def test_a_body_without_end_over_http2(reactor: Any, tmp_path: Path) -> None:
    """
    A body of many times the limit ends its own stream of HTTP/2; what else is on the connection goes on.
    """
    from twisted.internet.utils import getProcessOutputAndValue

    key, certificate = write_certificate(tmp_path)
    large = tmp_path / "large"
    large.write_bytes(b" " * 3_000_000)
    agent = talking_agent(Limits(max_request_bytes=100_000))[0]
    async with serving(reactor, agent, f"ssl:0:privateKey={key}:certKey={certificate}") as served:
        url = f"https://localhost:{served.port}/acp"
        post = ["-H", "Content-Type: application/json"]
        for extra in ([], ["-H", "Transfer-Encoding: chunked"]):
            arguments = ["-s", "-S", "--cacert", str(certificate), "--max-time", "300", *post, *extra]
            arguments += ["--data-binary", f"@{large}", url, "--next", "-s", "-i", "--cacert", str(certificate)]
            output, errors, _ = await getProcessOutputAndValue(
                "curl", [*arguments, *post, "-d", INITIALIZE, url], env=dict(os.environ)
            )
            assert b"HTTP/2 200" in output, errors
        assert len(served.site.agent_resource.connections) == 2


@pytest.mark.parametrize("kind", ["sse", "websocket"])
async def test_a_reader_that_stops_holds_up_its_handler(reactor: Any, kind: str) -> None:
    """
    A client that stops reading has its handler wait, and little is kept in memory meanwhile; when it goes on, it gets
    everything; another client is served all the while (B33).
    """
    agent, sent = talking_agent(Limits(high_water_bytes=100_000, low_water_bytes=20_000))
    async with serving(reactor, agent) as served:
        slow = await served.connect()
        transport: Any = slow.transport
        if kind == "sse":
            ids = await begin(served)
            slow.request("GET", {**EVENTS, **ids, "Acp-Session-Id": "s"})
            await slow.until(lambda: slow.data.endswith(b":\n\n\r\n"))
            transport.pauseProducing()
            await served.ask("POST", {**JSON, **ids, "Acp-Session-Id": "s"}, prompt(3, 300, 50_000))
        else:
            slow.request("GET", UPGRADE)
            peer = Connection(ConnectionType.CLIENT)
            for message in (INITIALIZE, NEW_SESSION, prompt(3, 300, 50_000)):
                slow.write(bytes(peer.send(TextMessage(message))))
            await slow.until(lambda: slow.data.count(b'"session/update"') > 2)
            transport.pauseProducing()
        before = -1
        while before != sent[0]:  # until nothing more goes
            before = sent[0]
            await deferLater(reactor, 0.3)
        assert sent[0] < 300
        (connection,) = served.site.agent_resource.connections._entries.values()
        kept = connection.unsent if kind == "sse" else connection._transport.unsent
        assert kept < 300_000
        other = await served.ask("POST", JSON, INITIALIZE)
        assert other.status == 200
        transport.resumeProducing()
        await slow.until(lambda: b'"stopReason":"end_turn"' in slow.data)
        assert slow.data.count(b'"session/update"') == 300
        slow.lose()
        await slow.until(lambda: slow.over)


async def test_a_stop_answers_what_runs(reactor: Any) -> None:
    """The service's stop cancels the turn, and its answer is on the stream before the stream's end."""

    async def answer(request: v1.PromptRequest, context: PromptContext) -> None:
        await context.send_message("begun")
        await Deferred()

    builder = AcpAgent.builder().prompt_handler(answer)
    agent = builder.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s")).build()
    async with serving(reactor, agent) as served:
        ids = await begin(served)
        session = await served.connect()
        session.request("GET", {**EVENTS, **ids, "Acp-Session-Id": "s"})
        await served.ask("POST", {**JSON, **ids, "Acp-Session-Id": "s"}, prompt(3, 1, 1))
        await session.events(1)
        await served.service.stopService()
        await session.until(lambda: session.over)
        (answer_,) = read_answers(session.data)
        assert answer_.whole
        assert answer_.events()[-1]["error"]["code"] == -32800


async def test_clients_that_are_killed(reactor: Any, tmp_path: Path) -> None:
    """
    kill -9 of a client with event streams and a WebSocket in the middle of its turns: the turns are cancelled, and no
    entry of the table, no socket and no timer is left (JT17).
    """
    cancelled: list[str] = []

    async def answer(request: v1.PromptRequest, context: PromptContext) -> None:
        context.token.on_cancel(lambda: cancelled.append(request.session_id))
        while True:
            await context.send_message("x" * 100)
            await deferLater(reactor, 0.01)

    builder = AcpAgent.builder().prompt_handler(answer)
    agent = builder.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s")).build()
    program = tmp_path / "client.py"
    program.write_text(KILLED)
    async with serving(reactor, agent) as served:
        child = subprocess.Popen([sys.executable, str(program), str(served.port)], stdout=subprocess.PIPE)
        try:
            table = served.site.agent_resource.connections
            await served.settled(lambda: len(table) == 2 and len(served.site.sockets) >= 2)
            assert child.stdout is not None
            ready = await served_line(reactor, child)
            assert ready == b"streaming\n"
            # It had all the time that it wanted to come; it won't come back.
            for each in table._entries.values():
                each._limits = evolve(each._limits, absence_timeout=0.5)
        finally:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            assert child.stdout is not None
            child.stdout.close()
        await served.settled(lambda: len(table) == 0 and len(served.site.sockets) == 0)
        assert cancelled == ["s", "s"]


async def served_line(reactor: Any, child: subprocess.Popen[bytes]) -> bytes:
    """A line of a child's output, read in a thread."""
    from twisted.internet.threads import deferToThread

    assert child.stdout is not None
    line: bytes = await deferToThread(child.stdout.readline)
    return line


KILLED = """
import http.client, json, socket, sys
port = int(sys.argv[1])
def post(message, **headers):
    c = http.client.HTTPConnection("127.0.0.1", port)
    c.request("POST", "/acp", json.dumps(message), {"Content-Type": "application/json", **headers})
    r = c.getresponse()
    r.read()
    return r
def message(id, method, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
INIT = message(1, "initialize", protocolVersion=1)
NEW = message(2, "session/new", cwd="/", mcpServers=[])
PROMPT = message(3, "session/prompt", sessionId="s", prompt=[{"type": "text", "text": "go"}])
id = post(INIT).getheader("Acp-Connection-Id")
post(NEW, **{"Acp-Connection-Id": id})
streams = []
for session in (None, "s"):
    c = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Accept": "text/event-stream", "Acp-Connection-Id": id}
    if session:
        headers["Acp-Session-Id"] = session
    c.request("GET", "/acp", headers=headers)
    streams.append((c, c.getresponse()))
post(PROMPT, **{"Acp-Connection-Id": id, "Acp-Session-Id": "s"})
s = socket.create_connection(("127.0.0.1", port))
s.sendall(
    b"GET /acp HTTP/1.1\\r\\nHost: x\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n"
    b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n"
)
for m in (INIT, NEW, PROMPT):
    data = json.dumps(m).encode()
    head = bytes([0x81, 0x80 | len(data)]) if len(data) < 126 else bytes([0x81, 0xFE]) + len(data).to_bytes(2, "big")
    s.sendall(head + b"\\0\\0\\0\\0" + data)
got = b""
while b"session/update" not in got:
    got += s.recv(1000)
line = b""
while b"session/update" not in line:
    line = streams[1][1].readline()
print("streaming", flush=True)
while True:
    s.recv(1000)
    streams[1][1].readline()
"""


async def test_a_connection_that_goes_silent_is_watched_by_the_system(reactor: Any) -> None:
    """
    The socket of an event stream has the time after which the system gives an unreachable reader up (B83).
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is None:
        assert sys.platform != "linux"
        return
    agent, _ = talking_agent(Limits(stall_timeout=20, pong_timeout=40))
    async with serving(reactor, agent) as served:
        ids = await begin(served)
        stream = await served.connect()
        stream.request("GET", {**EVENTS, **ids})
        await stream.events(1)
        transports = [each.transport for each in served.site.sockets._open.values()]
        assert 40_000 in [each.getHandle().getsockopt(socket.IPPROTO_TCP, option) for each in transports]
