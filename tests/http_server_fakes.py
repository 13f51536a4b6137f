"""
An agent's site without sockets: raw bytes in, raw bytes out, on a clock that a test moves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from attrs import define, field
from transport_fakes import SocketTransport
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from acp_twisted import AcpAgent
from acp_twisted.interfaces import IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.transports.http.resource import AcpResource
from acp_twisted.transports.http.site import AcpSite
from acp_twisted.transports.http.sockets import Socket

INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
NEW_SESSION = '{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/tmp","mcpServers":[]}}'
JSON = {"Content-Type": "application/json"}
EVENTS = {"Accept": "text/event-stream"}
UPGRADE = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


async def say(request: v1.PromptRequest, context: Any) -> v1.PromptResponse:
    """Three chunks, then the end."""
    for number in range(3):
        await context.send_message(f"{number}")
    return v1.PromptResponse(stop_reason="end_turn")


def agent(limits: Limits | None = None) -> AcpAgent:
    """An agent that says three things; its sessions are called s1, s2, …"""
    made: list[None] = []

    def new_session(_: v1.NewSessionRequest) -> v1.NewSessionResponse:
        made.append(None)
        return v1.NewSessionResponse(session_id=f"s{len(made)}")

    builder = AcpAgent.builder().prompt_handler(say).new_session_handler(new_session)
    builder.load_session_handler(lambda request: v1.LoadSessionResponse())
    builder.close_session_handler(lambda request: None)
    return builder.limits(Limits() if limits is None else limits).build()


@define
class Answer:
    """
    One response.

    @ivar whole: whether its body has ended.
    """

    status: int
    headers: dict[str, str]
    body: bytes = b""
    whole: bool = True
    every: list[tuple[str, str]] = field(factory=list)

    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """The messages of an event stream, decoded."""
        blocks = self.body.decode().split("\n\n")
        return [json.loads(block.removeprefix("data: ")) for block in blocks if block.startswith("data: ")]


def read_answers(data: bytes) -> Iterator[Answer]:
    """The responses in what a server wrote, up to one whose head has not come whole."""
    while data:
        head, found, rest = data.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").split("\r\n")
        every = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]
        answer = Answer(int(lines[0].split()[1]), dict(every), every=every)
        if "content-length" in answer.headers:
            size = int(answer.headers["content-length"])
            answer.body, data = rest[:size], rest[size:]
            answer.whole = len(answer.body) == size
        elif answer.headers.get("transfer-encoding") == "chunked":
            answer.whole = False
            while rest and not answer.whole:
                size_line, found, rest = rest.partition(b"\r\n")
                if not found:
                    break
                size = int(size_line, 16)
                answer.body += rest[:size]
                rest = rest[size + 2 :]
                answer.whole = size == 0
            data = rest
        else:
            answer.body, data = rest, b""
        yield answer


class _Socket(SocketTransport):
    """
    A TCP connection whose every way to write is one write, and that takes being let go as calmly as a real one.
    """

    producer: Any = None

    def writeSequence(self, data: Any) -> None:
        self.write(b"".join(data))

    def resumeProducing(self) -> None:
        if not self.disconnecting:
            super().resumeProducing()

    def pauseProducing(self) -> None:
        if not self.disconnecting:
            super().pauseProducing()


class Wire:
    """
    One TCP connection to the server, in a test's hands.
    """

    def __init__(self, site: AcpSite, address: IAddress) -> None:
        self.socket: Any = _Socket()
        self.socket.peerAddr = address
        self.protocol: Any = site.buildProtocol(address)
        self.protocol.makeConnection(self.socket)

    def raw(self, data: bytes) -> None:
        """Bytes arrive, unless the server has hung up: Twisted reads no more then."""
        if not (self.socket.disconnecting or self.socket.aborted):
            self.protocol.dataReceived(data)

    def request(self, method: str, path: str = "/acp", headers: Any = None, body: str | bytes | None = None) -> None:
        """Send a request, with C{Content-Length} where there is a body."""
        data = body.encode() if isinstance(body, str) else body
        lines = [f"{method} {path} HTTP/1.1"]
        items = list(headers.items()) if isinstance(headers, dict) else list(headers or [])
        if not any(name.lower() == "host" for name, _ in items):
            lines.append("Host: localhost")
        lines += [f"{name}: {value}" for name, value in items]
        if data is not None:
            lines.append(f"Content-Length: {len(data)}")
        self.raw("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (data or b""))

    def answers(self) -> list[Answer]:
        """All that was answered so far."""
        return list(read_answers(self.socket.value()))

    def answer(self) -> Answer:
        """The last of them."""
        return self.answers()[-1]

    def events(self) -> list[Any]:
        """The messages of the event stream that is the last answer."""
        return self.answer().events()

    def pause(self) -> None:
        """The client reads no more for now."""
        self.socket.producer.pauseProducing()

    def resume(self) -> None:
        """The client reads on."""
        self.socket.producer.resumeProducing()

    def lose(self) -> None:
        """The connection is gone."""
        self.protocol.connectionLost(Failure(ConnectionDone()))


class Server:
    """
    A site with an agent on it.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        served: IMessageReceiverFactory | None = None,
        path: str = "/acp",
        **options: Any,
    ) -> None:
        self.clock = Clock()
        served = agent(limits) if served is None else served
        self.resource = AcpResource(served, self.clock, **options)
        self.site = AcpSite(self.resource, path, self.clock, served.limits.max_request_bytes)

    def connect(self, host: str = "127.0.0.1") -> Wire:
        """A new TCP connection."""
        address: IAddress = IPv4Address("TCP", host, 50_000)
        if host.startswith("/"):
            address = UNIXAddress(host)
        elif ":" in host:
            address = IPv6Address("TCP", host, 50_000)
        return Wire(self.site, address)

    def ask(self, method: str, headers: Any = None, body: str | bytes | None = None, path: str = "/acp") -> Answer:
        """One request on a connection of its own."""
        wire = self.connect()
        wire.request(method, path, headers, body)
        answers = wire.answers()
        assert len(answers) == 1
        return answers[0]

    def initialize(self, **headers: str) -> Remote:
        """A connection that has begun."""
        answer = self.ask("POST", {**JSON, **headers}, INITIALIZE)
        assert answer.status == 200, answer
        return Remote(self, answer.headers["acp-connection-id"], headers)

    def over(self) -> None:
        """Nothing is left: no connection in the table, and no timer but those of idle HTTP connections."""
        assert len(self.resource.connections) == 0
        calls: list[Any] = list(self.clock.getDelayedCalls())
        ours = [call for call in calls if "acp_twisted" in getattr(call.func, "__module__", "")]
        called = [getattr(getattr(call.func, "__self__", None), "_over", call.func) for call in ours]  # by a Patience
        ours = [each for each in called if not isinstance(getattr(each, "__self__", None), Socket)]
        assert ours == []


class Remote:
    """
    A client of one connection, by requests of the test's choice.
    """

    def __init__(self, server: Server, id: str, headers: dict[str, str]) -> None:
        self.server = server
        self.id = id
        self.headers = {**headers, "Acp-Connection-Id": id}

    def post(self, message: Any, session: str | None = None, **headers: str) -> Answer:
        """Post a message."""
        every = {**JSON, **self.headers, **headers}
        if session is not None:
            every["Acp-Session-Id"] = session
        return self.server.ask("POST", every, message if isinstance(message, str) else json.dumps(message))

    def call(self, id: int, method: str, params: Any, session: str | None = None) -> Answer:
        """Post a request."""
        return self.post({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, session)

    def open(self, session: str | None = None) -> Wire:
        """Open an event stream."""
        headers = {**EVENTS, **self.headers}
        if session is not None:
            headers["Acp-Session-Id"] = session
        wire = self.server.connect()
        wire.request("GET", headers=headers)
        return wire

    def new_session(self, id: int = 2) -> None:
        """Make a session; the answer goes on the connection's stream."""
        assert self.call(id, "session/new", {"cwd": "/tmp", "mcpServers": []}).status == 202

    def prompt(self, id: int, session: str) -> Answer:
        """Prompt a session."""
        prompt = [{"type": "text", "text": "hi"}]
        return self.call(id, "session/prompt", {"sessionId": session, "prompt": prompt}, session)

    def delete(self) -> Answer:
        """End the connection."""
        return self.server.ask("DELETE", self.headers)
