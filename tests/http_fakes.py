"""
The HTTP below our client's transport, without sockets: requests that are written down, and answers that a test gives.
"""

from __future__ import annotations

import json
from typing import Any

from attrs import define, field
from transport_fakes import RecordingReceiver
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from acp_twisted.limits import Limits
from acp_twisted.transports.http.client import HttpClientTransport
from acp_twisted.transports.http.cookies import Cookies
from acp_twisted.transports.http.exchange import HeaderList, ResponseReader, Truncated


@define(eq=False)
class FakeExchange:
    """
    One request, and what a test answers.
    """

    method: bytes
    headers: dict[bytes, bytes]
    body: bytes
    reader: ResponseReader
    cancelled: bool = False
    paused: bool = False
    answered: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    @property
    def message(self) -> Any:
        """
        What was POSTed.
        """
        return json.loads(self.body)

    def head(self, status: int, **headers: bytes | list[bytes]) -> None:
        """
        Begin the answer; C{_} in a name is C{-}.
        """
        self.answered = True
        listed = {
            name.replace("_", "-").encode(): value if isinstance(value, list) else [value]
            for name, value in headers.items()
        }
        self.reader.response_started(status, listed)

    def answer(self, status: int, body: bytes = b"", **headers: bytes | list[bytes]) -> None:
        """
        Answer.
        """
        self.head(status, **headers)
        if body:
            self.reader.body_received(body)
        self.reader.response_ended(None)

    def accept(self) -> None:
        """
        Answer as to a message that is on its way.
        """
        self.answer(202)

    def open(self, **headers: bytes | list[bytes]) -> None:
        """
        Open an event stream.
        """
        self.head(200, content_type=b"text/event-stream", **headers)

    def event(self, message: object, event_id: str = "") -> None:
        """
        One message on the stream.
        """
        prefix = f"id: {event_id}\n" if event_id else ""
        self.reader.body_received(f"{prefix}data: {json.dumps(message)}\n\n".encode())

    def end(self) -> None:
        """
        The answer ends as it should.
        """
        self.reader.response_ended(None)

    def tear(self, why: Exception | None = None) -> None:
        """
        The connection under it is lost.
        """
        self.answered = True
        self.reader.response_ended(Failure(why or Truncated("torn")))


@define(eq=False)
class FakeLayer:
    """
    Writes down what is asked.
    """

    version = "HTTP/0"
    requests: list[FakeExchange] = field(factory=list)
    closed: bool = False

    def request(self, method: bytes, headers: HeaderList, body: bytes, reader: ResponseReader) -> FakeExchange:
        exchange = FakeExchange(method, dict(headers), body, reader)
        assert len(exchange.headers) == len(headers), "a header is there twice"
        self.requests.append(exchange)
        return exchange

    def close(self) -> Deferred[None]:
        self.closed = True
        return succeed(None)


class Wire:
    """
    A transport of ours on a fake layer.
    """

    def __init__(self, limits: Limits | None = None, headers: HeaderList = (), **answers: Any) -> None:
        self.clock = Clock()
        self.layer = FakeLayer()
        self.receiver = RecordingReceiver()
        self.cookies = Cookies("http://host/acp")
        self.transport = HttpClientTransport(
            self.layer, self.receiver, limits or Limits(), self.clock, headers, self.cookies
        )
        self.transport.start()

    def send(self, **message: Any) -> None:
        """
        Send a message.
        """
        self.transport.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def new(self, method: str | None = None) -> list[FakeExchange]:
        """
        The requests that are unanswered, of one HTTP method or of all.
        """
        return [
            each
            for each in self.layer.requests
            if not (each.answered or each.cancelled) and method in (None, each.method.decode())
        ]

    def one(self, method: str) -> FakeExchange:
        """
        The only unanswered request of an HTTP method.
        """
        (found,) = self.new(method)
        return found

    def initialize(self, **headers: bytes | list[bytes]) -> FakeExchange:
        """
        Go through initialize.

        @return: the connection's stream, which is open.
        """
        self.send(id=0, method="initialize", params={"protocolVersion": 1})
        result = {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1}}
        self.one("POST").answer(
            200, json.dumps(result).encode(), content_type=b"application/json", acp_connection_id=b"c-1", **headers
        )
        stream = self.one("GET")
        stream.open()
        return stream

    def session(self, stream: FakeExchange, session_id: str = "s-1") -> FakeExchange:
        """
        Go through session/new.

        @return: the session's stream, which is open.
        """
        self.send(id=session_id, method="session/new", params={})
        self.one("POST").accept()
        stream.event({"jsonrpc": "2.0", "id": session_id, "result": {"sessionId": session_id}})
        found = self.one("GET")
        assert found.headers[b"Acp-Session-Id"] == session_id.encode()
        found.open()
        return found

    def prompt(self, number: int, session_id: str = "s-1") -> None:
        """
        Send a prompt.
        """
        self.send(id=number, method="session/prompt", params={"sessionId": session_id, "prompt": []})

    @property
    def messages(self) -> list[Any]:
        """
        What the receiver was given.
        """
        return [json.loads(message) for message in self.receiver.messages]
