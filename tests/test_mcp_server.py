"""
The small server of tools, on a connection of its own; and subscriptions, from both ends.
"""

from __future__ import annotations

from typing import Any

import pytest
from halves import Raw
from mcp_parts import HANDSHAKE, STATELESS, ClientHalf, Pair, tools_server
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from wire import failure, no_result, success

from acp_twisted.errors import (
    AcpConnectionError,
    AcpError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    RequestCancelled,
    RequestTimedOut,
)
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.limits import Limits
from acp_twisted.mcp.client import McpOptions
from acp_twisted.mcp.handlers import McpHandlers
from acp_twisted.mcp.server import McpRequest, McpServer, TooManyRequests
from acp_twisted.mcp.serving import ServerConnection, Serving
from acp_twisted.mcp.types import ImageContent, LogMessage, Progress, TextContent, Tool, ToolResult
from acp_twisted.transports.memory import MemoryLink

META = "io.modelcontextprotocol/"
CHANGED = "notifications/tools/list_changed"


@pytest.mark.parametrize("version", [STATELESS, HANDSHAKE[0]])
def test_tools_of_all_three_kinds(version: str) -> None:
    """A value, a Deferred, async def; text, JSON, errors that the model may see and others that it may not."""
    server, noticed = tools_server()
    pair = Pair(server, version=version)
    client = pair.client
    success(pair.opened)
    listed = success(client.list_tools()).items
    assert [tool.name for tool in listed] == ["echo", "hang", "soon", "steps", "fail", "crash"]
    assert listed[0].description == "Says it again"
    assert listed[1].description == "Never ends by itself."
    assert success(client.call_tool("echo", {"text": "hi"})).text == "hi"
    soon = client.call_tool("soon")
    no_result(soon)
    noticed["waiting"].callback(3)
    assert success(soon).structured_content == {"waited": 3}
    failed = success(client.call_tool("fail"))
    assert (failed.is_error, failed.text) == (True, "no such file")


def test_a_crash_tells_the_model_nothing(logged_errors: Any) -> None:
    """It is logged here, and is an error there without a word of it."""
    pair = Pair(tools_server()[0])
    crashed = success(pair.client.call_tool("crash"))
    assert (crashed.is_error, crashed.text) == (True, "Internal error")
    assert len(logged_errors) == 1
    logged_errors.clear()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, CancelledError, RecursionError])
def test_a_tool_that_raises_anything_leaves_room(error: type[BaseException], logged_errors: Any) -> None:
    """A plain function may raise what is no Exception, too: its call is answered, and does not count as work for ever
    (rules 1 and 6)."""
    server = McpServer("s", max_active=2)

    @server.tool()
    def leave(arguments: dict[str, Any]) -> None:
        raise error

    pair = Pair(server)
    for _ in range(4):
        call = pair.client.call_tool("leave")
        if error is CancelledError:
            failure(call, RequestCancelled)
        else:
            assert success(call).text == "Internal error"
    assert [each.name for each in success(pair.client.list_tools()).items] == ["leave"]
    logged_errors.clear()


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (None, ToolResult()),
        ("", ToolResult(content=[TextContent(text="")])),
        (TextContent(text="t"), ToolResult(content=[TextContent(text="t")])),
        (
            [TextContent(text="t"), ImageContent(data="AA==", mime_type="image/png")],
            ToolResult(content=[TextContent(text="t"), ImageContent(data="AA==", mime_type="image/png")]),
        ),
        (ToolResult(structured_content=[1]), ToolResult(structured_content=[1])),
        ([], ToolResult(content=[TextContent(text="[]")], structured_content=[])),
        (7, ToolResult(content=[TextContent(text="7")], structured_content=7)),
    ],
)
def test_what_a_tool_may_return(returned: Any, expected: ToolResult) -> None:
    """Content as it is, and any other JSON as structured content beside its text."""
    server = McpServer("s")
    server.add_tool(Tool(name="t", input_schema={}), lambda _: returned)
    result = success(Pair(server).client.call_tool("t"))
    result.extra.clear()
    assert result == expected


def test_progress_and_log_go_to_who_wants_them() -> None:
    """Progress to a caller that gave a token, log messages from the level that it named."""
    told: list[LogMessage] = []
    seen: list[Progress] = []
    for version in (STATELESS, HANDSHAKE[0]):
        options = McpOptions(protocol=version, handlers=McpHandlers(log=told.append))
        pair = Pair(tools_server()[0], options)
        success(pair.client.call_tool("steps", on_progress=seen.append))
        assert told == []
        assert [(each.progress, each.total, each.message) for each in seen] == [(1, 2, "step 1"), (2, 2, "step 2")]
        success(pair.client.set_log_level("info"))
        success(pair.client.call_tool("steps"))
        assert [(each.level, each.data) for each in told] == [("info", {"steps": 2})]
        told.clear()
        seen.clear()


@pytest.mark.parametrize("version", [STATELESS, HANDSHAKE[0]])
def test_a_cancelled_tool_is_stopped_and_not_answered(version: str) -> None:
    """Its token is set and its Deferred cancelled; no response is sent, and it may not say more (M18, M19, M20)."""
    server, noticed = tools_server()
    pair = Pair(server, version=version)
    call = pair.client.call_tool("hang")
    call.cancel("enough")
    failure(call, RequestCancelled)
    assert noticed["cancelled"] == [("notifications/cancelled",)]
    sent = len(pair.wire("b>a"))
    noticed["contexts"][0].progress(1)
    noticed["contexts"][0].log("error", "late")
    assert len(pair.wire("b>a")) == sent
    assert success(pair.client.call_tool("echo", {"text": "still"})).text == "still"


def test_the_end_of_the_link_stops_tools() -> None:
    """As a cancellation does."""
    server, noticed = tools_server()
    pair = Pair(server)
    call = pair.client.call_tool("hang")
    pair.link.a.abort("gone")
    failure(call, AcpConnectionError)
    assert noticed["cancelled"] == [("connectionLost",)]


def test_refusals() -> None:
    """What is wrong with a request, each with its code."""
    server = McpServer("s", max_active=1)
    server.add_tool(Tool(name="hang", input_schema={}), lambda _: Deferred())
    pair = Pair(server)
    failure(pair.client.call_tool("none"), InvalidParams)
    failure(pair.client.session.request("tools/call", {"name": "hang", "arguments": 1}), InvalidParams)
    failure(pair.client.list_prompts(), MethodNotFound)
    failure(pair.client.session.request("subscriptions/listen", {}), InvalidParams)
    waiting = pair.client.call_tool("hang")
    busy = failure(pair.client.call_tool("hang"), AcpError)
    assert (busy.code, busy.message) == (TooManyRequests.CODE, TooManyRequests.MESSAGE)
    waiting.cancel()
    failure(waiting, RequestCancelled)
    pair.client.call_tool("hang").addErrback(lambda _: None)
    assert pair.connection.peer.incoming_requests == 1


def test_a_server_on_any_transport() -> None:
    """What makes a transport's connections makes one for each, all of the same server."""
    serving = Serving(tools_server()[0])
    for _ in range(2):
        raw = Raw()
        link = MemoryLink(serving.build_receiver(Clock()), raw, limits=serving.limits)
        link.b.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        assert raw.received == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def raw_server(server: McpServer) -> tuple[MemoryLink, Raw]:
    """A server, and on the other end somebody who speaks JSON."""
    raw, clock = Raw(), Clock()
    return MemoryLink(ServerConnection(server, clock, Limits()).peer, raw, clock), raw


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({META + "protocolVersion": 1}, -32602),
        ({META + "protocolVersion": "2031-01-01"}, -32022),
        ({META + "protocolVersion": STATELESS}, -32602),
        ({}, InvalidRequest.CODE),
    ],
)
def test_a_request_says_what_it_speaks(meta: dict[str, Any], code: int) -> None:
    """In its envelope, or with initialize before it; params that are no object are none."""
    link, raw = raw_server(McpServer("s"))
    from json import dumps

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    link.b.send(dumps(message).encode())
    link.b.send(b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":[1]}')
    link.b.send(b'{"jsonrpc":"2.0","id":3,"method":"ping"}')
    assert [each.get("error", {}).get("code") for each in raw.received] == [code, -32602, None]


def test_a_list_that_changes() -> None:
    """A client of an old revision is told unasked, one of the newest if it subscribed; a name is there once."""
    server = McpServer("s")
    told: list[str] = []
    old = Pair(
        server, McpOptions(protocol=HANDSHAKE[0], handlers=McpHandlers(tools_changed=lambda _: told.append("old")))
    )
    success(old.opened)
    new = Pair(server)
    success(new.client.listen(lambda method, _: told.append(method), tools=True))
    success(new.client.listen(lambda method, _: told.append("resources"), resources=True))
    tool = Tool(name="t", input_schema={})
    server.add_tool(tool, lambda _: None)
    assert told == ["old", CHANGED]
    with pytest.raises(ValueError, match="already"):
        server.add_tool(tool, lambda _: None)
    server.remove_tool("t")
    assert told == ["old", CHANGED] * 2
    old.link.a.abort("gone")
    server.add_tool(tool, lambda _: None)
    assert told[4:] == [CHANGED]


# ---- subscriptions


def test_a_server_tells_that_it_ends_a_subscription() -> None:
    """With notifications/cancelled for its request, and the answer behind it (M2, M17)."""
    server = McpServer("s")
    pair = Pair(server)
    subscription = success(pair.client.listen(lambda *_: None, tools=True))
    assert subscription.honored == {"toolsListChanged": True}
    ended = subscription.when_ended()
    server.end_subscriptions()
    assert success(ended) == success(subscription.when_ended()) == "server"
    last = pair.wire("b>a")[-2:]
    assert last[0]["method"] == "notifications/cancelled"
    assert last[0]["params"]["requestId"] == last[1]["id"] == subscription.request_id
    assert last[1]["result"]["_meta"] == {META + "subscriptionId": subscription.request_id}
    assert [each for each in pair.wire("a>b") if each.get("method") == "notifications/cancelled"] == []
    assert pair.clock.getDelayedCalls() == []


def test_a_server_that_closes_ends_its_subscriptions_first() -> None:
    """So that the client knows that it was meant (M2)."""
    pair = Pair(McpServer("s"))
    subscription = success(pair.client.listen(lambda *_: None, tools=True))
    pair.connection.peer.shutdown()
    assert subscription.end == "server"


@pytest.mark.parametrize("what", ["changed", "ended"])
def test_who_is_told_may_end_the_subscription_of_another(what: str) -> None:
    """The other is told nothing any more, and those behind it are: a server that closes has told all of them (M2)."""
    server, told = McpServer("s"), list[tuple[int, str]]()
    open_ones: list[Deferred[dict[str, Any]]] = []

    def subscribe(number: int) -> None:
        request = McpRequest(
            "subscriptions/listen",
            {"notifications": {"toolsListChanged": True}},
            number,
            CancellationToken(),
            lambda method, _: tell(number, method),
        )
        request.tear_down = lambda: tell(number, "end")
        open_ones.append(server.handle(request))

    def tell(number: int, method: str) -> None:
        told.append((number, method))
        if number == 1 and method in (CHANGED, "end"):
            open_ones[1].cancel()

    for number in (1, 2, 3):
        subscribe(number)
    told.clear()
    if what == "changed":
        server.add_tool(Tool(name="t", input_schema={}), lambda _: None)
        assert told == [(1, CHANGED), (3, CHANGED)]
    else:
        server.end_subscriptions()
        assert told == [(1, "end"), (3, "end")]
        assert success(open_ones[2])["_meta"] == {META + "subscriptionId": 3}
    failure(open_ones[1], CancelledError)


def test_a_server_cancels_nothing_else() -> None:
    """Whatever it does, the only cancellations on its wire name subscriptions (M3, M17)."""
    server, _ = tools_server()
    pair = Pair(server)
    calls = [pair.client.call_tool("hang") for _ in range(2)]
    subscription = success(pair.client.listen(lambda *_: None, tools=True))
    calls[0].cancel()
    failure(calls[0], RequestCancelled)
    pair.connection.peer.shutdown()
    failure(calls[1], AcpError)
    cancelled = [each["params"] for each in pair.wire("b>a") if each.get("method") == "notifications/cancelled"]
    assert [each["requestId"] for each in cancelled] == [subscription.request_id]


def test_a_client_ends_a_subscription() -> None:
    """By the cancellation of its request, once; the server forgets it and tells nothing more (M1, M18)."""
    server = McpServer("s")
    pair = Pair(server)
    told: list[str] = []
    subscription = success(pair.client.listen(lambda method, _: told.append(method), tools=True))
    ended = subscription.when_ended()
    subscription.close("no more")
    subscription.close()
    assert success(ended) == "client"
    server.add_tool(Tool(name="t", input_schema={}), lambda _: None)
    server.end_subscriptions()
    assert told == []
    cancels = [each["params"] for each in pair.wire("a>b") if each.get("method") == "notifications/cancelled"]
    assert cancels == [{"requestId": subscription.request_id, "reason": "no more"}]


def test_a_subscription_before_its_acknowledgement() -> None:
    """It has a timeout, may be given up, refused, or ended before it began; each time once (M8, M9)."""
    half = ClientHalf(McpOptions(request_timeout=5))
    late = half.client.listen(lambda *_: None)
    given_up = half.client.listen(lambda *_: None)
    given_up.cancel()
    failure(given_up, RequestCancelled)
    refused = half.client.listen(lambda *_: None)
    half.error(4, -32603)
    failure(refused, AcpError)
    empty = half.client.listen(lambda *_: None)
    half.result(5, {})
    failure(empty, AcpConnectionError)
    half.clock.advance(5)
    failure(late, RequestTimedOut)
    assert half.cancels == [{"requestId": 3}, {"requestId": 2, "reason": "timeout"}]
    assert half.clock.getDelayedCalls() == []


def acknowledge(number: Any) -> dict[str, Any]:
    """The first notification of a subscription."""
    params = {"notifications": {}, "_meta": {META + "subscriptionId": number}}
    return {"method": "notifications/subscriptions/acknowledged", "params": params}


def test_the_end_of_a_subscription_from_the_server() -> None:
    """By an answer, a cancellation, or both in either order: over once, and nothing of ours is sent (M2, M25)."""
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": 2}}
    answered = {"id": 2, "result": {}}
    for ends in ([answered], [cancelled], [cancelled, answered], [answered, cancelled], [cancelled, cancelled]):
        half = ClientHalf()
        opened = half.client.listen(lambda *_: None)
        half.send(acknowledge(2))
        subscription = success(opened)
        half.send(*ends)
        assert success(subscription.when_ended()) == "server"
        assert not subscription.is_open
        subscription.close()
        assert half.cancels == []


def test_a_cancellation_of_no_subscription_does_nothing() -> None:
    """A server may not cancel what is no subscription of this client's, and the call goes on (M17, M21, M28, M30)."""
    half = ClientHalf()
    call = half.client.call_tool("t")
    numbers: list[Any] = [2, "2", None, 99, {}, []]
    for number in numbers:
        half.send({"method": "notifications/cancelled", "params": {"requestId": number}})
    no_result(call)
    half.result(2, {"content": []})
    success(call)


def test_a_lost_link_ends_a_subscription(logged_errors: Any) -> None:
    """With an error, which is not an end that anybody meant; a handler that fails ends nothing."""

    def tell(method: str, params: dict[str, Any]) -> None:
        raise RuntimeError("mine")

    half = ClientHalf()
    opened = half.client.listen(tell, uris=["u:1"])
    assert half.last()["params"]["notifications"] == {"resourceSubscriptions": ["u:1"]}
    half.send(acknowledge(2), acknowledge(2))
    subscription = success(opened)
    half.send({"method": CHANGED, "params": {"_meta": {META + "subscriptionId": 2}}})
    assert len(logged_errors) == 1
    logged_errors.clear()
    ended = subscription.when_ended()
    half.link.b.abort("gone")
    failure(ended, AcpConnectionError)
    failure(subscription.when_ended(), AcpConnectionError)
