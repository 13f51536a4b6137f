"""
MCP over HTTP without a socket: what a response does when its client does not read it, and what ends in the midst of
something.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from mcp_parts import HANDSHAKE, STATELESS
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from twisted.web.test.requesthelper import DummyRequest
from wire import success

from acp_twisted.mcp.bridge import McpBridge
from acp_twisted.mcp.resource import HttpBounds, McpResource
from acp_twisted.mcp.server import McpServer, ToolContext

META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
    "progressToken": 1,
}


class Connection:
    """
    What a request came on.

    @ivar aborted: how often it was cut.
    """

    def __init__(self, request: Any) -> None:
        self.transport = self
        self.aborted = 0
        self._request = request

    def abortConnection(self) -> None:
        self.aborted += 1
        self._request.processingFailed(Failure(ConnectionError("cut")))


def calling(tool: str, session: str | None = None) -> Any:
    """A request for a tool, whose client reads nothing; in a session where it is of an older revision."""
    meta = META if session is None else {}
    request = asking({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "_meta": meta}})
    headers = {"mcp-protocol-version": STATELESS, "mcp-method": "tools/call", "mcp-name": tool}
    for name, value in (headers if session is None else {"mcp-session-id": session}).items():
        request.requestHeaders.setRawHeaders(name, [value])
    return request


def asking(message: dict[str, Any]) -> Any:
    """Any request."""
    request: Any = DummyRequest([b""])
    request.channel = Connection(request)
    request.registerProducer = lambda producer, _: producer.pauseProducing()
    request.unregisterProducer = lambda: None
    request.method = b"POST"
    request.content = BytesIO(json.dumps(message).encode())
    for name, value in {"accept": "*/*", "content-type": "application/json"}.items():
        request.requestHeaders.setRawHeaders(name, [value])
    return request


@pytest.mark.parametrize("how", ["floods", "closes"])
def test_a_tool_that_brings_its_own_end_is_cancelled(how: str) -> None:
    """Also when it has not returned yet what it waits for."""
    server, clock, stopped = McpServer("s"), Clock(), list[str]()
    resource = McpResource(server, clock, hosts=None, bounds=HttpBounds(max_unread_bytes=1000))

    @server.tool()
    def hang(arguments: dict[str, Any], context: ToolContext) -> Deferred[str]:
        if how == "floods":
            for number in range(20):
                context.progress(number, message="x" * 100)
        else:
            resource.close()
        return Deferred(lambda _: stopped.append("hang"))

    request = calling("hang")
    resource.render(request)
    assert request.channel.aborted == 1
    assert stopped == ["hang"]
    assert clock.getDelayedCalls() == []


def test_an_answer_that_is_one_too_much_is_the_end() -> None:
    """A response whose connection was cut for it is not finished any more."""
    server, clock = McpServer("s"), Clock()
    resource = McpResource(server, clock, hosts=None, bounds=HttpBounds(max_unread_bytes=1000))

    @server.tool()
    def much(arguments: dict[str, Any], context: ToolContext) -> str:
        context.progress(1)
        return "x" * 1000

    request = calling("much")
    resource.render(request)
    assert request.channel.aborted == 1
    assert request.finished == 0
    assert clock.getDelayedCalls() == []


def test_a_session_whose_end_ends_everything() -> None:
    """A new session has an old one make room, whose tool closes the server when it is cancelled: both are cut."""
    server, clock = McpServer("s"), Clock()
    resource = McpResource(server, clock, hosts=None, bounds=HttpBounds(max_sessions=1))

    @server.tool()
    def hang(arguments: dict[str, Any]) -> Deferred[str]:
        return Deferred(lambda _: resource.close())

    def initialize() -> Any:
        params = {"protocolVersion": HANDSHAKE[0], "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        request = asking({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        resource.render(request)
        return request

    (session,) = initialize().responseHeaders.getRawHeaders("mcp-session-id")
    old = calling("hang", session)
    resource.render(old)
    new = initialize()
    assert old.channel.aborted == new.channel.aborted == 1
    assert new.finished == 0
    assert clock.getDelayedCalls() == []


def test_a_tool_that_takes_its_server_off_the_bridge_as_it_closes() -> None:
    """All that the bridge serves is closed, and it listens no more, whatever their tools do about it."""
    reactor = MemoryReactorClock()
    bridge = McpBridge(reactor)
    success(Deferred.fromCoroutine(bridge.start()))
    stopped: list[str] = []

    def serve(name: str) -> None:
        server = McpServer(name)
        entry = bridge.add(server, name)

        @server.tool()
        def hang(arguments: dict[str, Any]) -> Deferred[str]:
            def stop(_: object) -> None:
                stopped.append(name)
                bridge.remove(entry)

            return Deferred(stop)

        request = calling("hang")
        request.requestHeaders.setRawHeaders("host", ["127.0.0.1"])
        request.requestHeaders.setRawHeaders("authorization", [entry.headers[0].value])
        bridge._resources[entry.url].render(request)

    serve("a")
    serve("b")
    success(Deferred.fromCoroutine(bridge.close()))
    assert stopped == ["a", "b"]
    assert reactor.getDelayedCalls() == []
