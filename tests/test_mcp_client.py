"""
The client of MCP: revisions, requests, progress, cancellation, and what the server asks.
"""

from __future__ import annotations

from typing import Any

import pytest
from mcp_parts import DISCOVERED, HANDSHAKE, STATELESS, ClientHalf, Pair, tools_server
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.logger import capturedLogs
from wire import failure, no_result, success

from acp_twisted.errors import (
    AcpConnectionError,
    AcpError,
    InvalidResponse,
    MethodNotFound,
    RequestCancelled,
    RequestTimedOut,
)
from acp_twisted.mcp.client import McpOptions
from acp_twisted.mcp.handlers import McpHandlers
from acp_twisted.mcp.types import Implementation, Progress, TextContent, UnknownContent
from acp_twisted.mcp.versions import McpCapabilityError, McpVersionError

META = "io.modelcontextprotocol/"
TOOL = {"name": "t", "inputSchema": {"type": "object"}, "vendor": 1}


def old_half(**handlers: Any) -> ClientHalf:
    """A client that has agreed on the last revision with C{initialize}."""
    return ClientHalf(McpOptions(handlers=McpHandlers(**handlers)), version=HANDSHAKE[0])


# ---- the beginning


def test_a_new_server_is_asked_what_it_is() -> None:
    """One server/discover, whose envelope says who asks; nothing is greeted in the old way."""
    half = ClientHalf(McpOptions(info=Implementation(name="me", version="2")), version=None)
    opened = half.client.open()
    (asked,) = half.take()
    assert asked["method"] == "server/discover"
    assert asked["params"]["_meta"] == {
        META + "protocolVersion": STATELESS,
        META + "clientCapabilities": {},
        META + "clientInfo": {"name": "me", "version": "2"},
    }
    half.result(1, DISCOVERED)
    server = success(opened)
    assert server.protocol_version == STATELESS
    assert server.info == Implementation(name="s", version="1")
    assert half.take() == []


@pytest.mark.parametrize("code", [-32601, -32600, -32000, -32602])
def test_an_old_server_is_greeted(code: int) -> None:
    """Whatever it answers to what it does not know; initialized follows, before anything else."""
    half = ClientHalf(version=None)
    opened = half.client.open()
    half.error(1, code)
    greeting = half.take()[-1]
    assert greeting["method"] == "initialize"
    assert greeting["params"]["protocolVersion"] == HANDSHAKE[0]
    half.result(2, {"protocolVersion": "2025-06-18", "serverInfo": {"name": "old", "version": "1"}})
    assert success(opened).protocol_version == "2025-06-18"
    assert [each["method"] for each in half.take()] == ["notifications/initialized"]


def test_an_old_server_that_does_not_answer_what_it_does_not_know_is_greeted() -> None:
    """The first question has half of the timeout, so that there is time for the greeting."""
    half = ClientHalf(McpOptions(request_timeout=10), version=None)
    opened = half.client.open()
    half.clock.advance(5)
    assert [each["method"] for each in half.take()] == ["server/discover", "notifications/cancelled", "initialize"]
    half.result(2, {"protocolVersion": HANDSHAKE[1]})
    assert success(opened).info is None


def test_a_slow_new_server_is_asked_again() -> None:
    """Its answer to the greeting names its revision."""
    half = ClientHalf(McpOptions(request_timeout=10), version=None)
    opened = half.client.open()
    half.clock.advance(5)
    half.error(2, -32022, {"supported": [STATELESS]})
    assert half.last()["method"] == "server/discover"
    half.result(3, DISCOVERED)
    assert success(opened).protocol_version == STATELESS


def test_no_common_revision_is_an_error() -> None:
    """Of either kind, and when only one revision is wanted."""
    half = ClientHalf(version=None)
    opened = half.client.open()
    half.error(1, -32022, {"supported": ["2031-01-01"]})
    assert failure(opened, McpVersionError).supported == ["2031-01-01"]
    half = ClientHalf(version=None)
    opened = half.client.open()
    half.error(1, -32601)
    half.result(2, {"protocolVersion": "1999-01-01"})
    failure(opened, McpVersionError)
    half = ClientHalf(McpOptions(protocol=HANDSHAKE[0]), version=None)
    opened = half.client.open()
    half.result(1, {"protocolVersion": HANDSHAKE[1]})
    failure(opened, McpVersionError)
    half = ClientHalf(McpOptions(protocol=STATELESS), version=None)
    opened = half.client.open()
    half.result(1, {"supportedVersions": HANDSHAKE})
    failure(opened, McpVersionError)


def test_giving_up_the_beginning_is_no_sign_of_an_old_server() -> None:
    """Cancelling cancels the question, and greets nobody; initialize itself is never cancelled (M31)."""
    half = ClientHalf(version=None)
    opened = half.client.open()
    opened.cancel()
    failure(opened, CancelledError)
    assert [each["method"] for each in half.take()] == ["server/discover", "notifications/cancelled"]
    opened = half.client.open()
    half.error(2, -32601)
    opened.cancel()
    failure(opened, CancelledError)
    assert [each["method"] for each in half.take()] == ["server/discover", "initialize"]


def test_a_lost_link_is_no_sign_of_an_old_server() -> None:
    """It ends the opening."""
    half = ClientHalf(version=None)
    opened = half.client.open()
    half.link.b.abort("gone")
    failure(opened, AcpConnectionError)


# ---- what is asked


def test_tools_are_listed_and_called() -> None:
    """Objects with what is unknown kept; the envelope goes with each request."""
    half = ClientHalf()
    listed = half.client.list_tools()
    assert half.last()["params"]["_meta"][META + "protocolVersion"] == STATELESS
    half.result(2, {"tools": [TOOL], "nextCursor": "c"})
    page = success(listed)
    assert page.next_cursor == "c"
    assert page.items[0].to_json() == TOOL
    called = half.client.call_tool("t", {"a": 1}, meta={"x/y": 1})
    params = half.last()["params"]
    assert (params["name"], params["arguments"], params["_meta"]["x/y"]) == ("t", {"a": 1}, 1)
    odd = {"type": "hologram", "z": 1}
    half.result(3, {"content": [{"type": "text", "text": "hi"}, odd], "isError": True})
    result = success(called)
    assert result.text == "hi"
    assert result.is_error
    assert result.content[1] == UnknownContent("hologram", odd)


def test_all_pages_of_a_list() -> None:
    """One after the other; a circle is an error, not a loop."""
    half = ClientHalf()
    every = half.client.every(half.client.list_tools)
    half.result(2, {"tools": [TOOL], "nextCursor": "b"})
    assert half.last()["params"]["cursor"] == "b"
    half.result(3, {"tools": [TOOL]})
    assert len(success(every)) == 2
    every = half.client.every(half.client.list_tools)
    half.result(4, {"tools": [], "nextCursor": "b"})
    half.result(5, {"tools": [], "nextCursor": "b"})
    failure(every, InvalidResponse)


def test_resources_prompts_and_completion() -> None:
    """Each method, and what it is read as."""
    half = ClientHalf()
    client = half.client
    found = client.list_resources()
    half.result(2, {"resources": [{"uri": "u:1", "name": "n", "size": 3}]})
    assert success(found).items[0].size == 3
    templates = client.list_resource_templates()
    half.result(3, {"resourceTemplates": [{"uriTemplate": "u:{x}", "name": "n"}]})
    assert success(templates).items[0].uri_template == "u:{x}"
    read = client.read_resource("u:1")
    half.result(4, {"contents": [{"uri": "u:1", "text": "hello"}]})
    assert success(read)[0].text == "hello"
    prompts = client.list_prompts()
    half.result(5, {"prompts": [{"name": "p", "arguments": [{"name": "a", "required": True}]}]})
    assert success(prompts).items[0].arguments[0].required
    got = client.get_prompt("p", {"a": "b"})
    half.result(6, {"messages": [{"role": "user", "content": {"type": "text", "text": "q"}}]})
    assert success(got).messages[0].content == TextContent(text="q")
    completed = client.complete({"type": "ref/prompt", "name": "p"}, "a", "x", {"b": "y"})
    assert half.last()["params"]["context"] == {"arguments": {"b": "y"}}
    half.result(7, {"completion": {"values": ["xy"], "hasMore": False}})
    assert success(completed).values == ["xy"]


@pytest.mark.parametrize("result", [None, [], {"tools": 1}, {"tools": [{"name": 1}]}, {"tools": [], "nextCursor": 1}])
def test_an_answer_that_does_not_fit(result: Any) -> None:
    """It is this side's error, and names no value of the server's."""
    half = ClientHalf()
    listed = half.client.list_tools()
    half.result(2, result)
    failure(listed, InvalidResponse)


def test_methods_of_the_old_revisions() -> None:
    """ping, subscribe and setLevel; with the newest one they are something else, and say so."""
    half = old_half()
    ping, subscribed, level = half.client.ping(), half.client.subscribe("u:1"), half.client.set_log_level("info")
    unsubscribed = half.client.unsubscribe("u:1")
    half.client.roots_changed()
    assert [each["method"] for each in half.take()] == [
        "ping",
        "resources/subscribe",
        "logging/setLevel",
        "resources/unsubscribe",
        "notifications/roots/list_changed",
    ]
    for number in (3, 4, 5, 6):
        half.result(number, {})
    assert [success(each) for each in (ping, subscribed, level, unsubscribed)] == [None] * 4
    with pytest.raises(McpCapabilityError):
        half.client.listen(lambda *_: None)
    half = ClientHalf()
    half.client.ping()
    assert half.take()[-1]["method"] == "server/discover"
    success(half.client.set_log_level("info"))
    half.client.list_tools()
    assert half.take()[-1]["params"]["_meta"][META + "logLevel"] == "info"
    for refused in (lambda: half.client.subscribe("u:1"), half.client.roots_changed):
        with pytest.raises(McpCapabilityError):
            refused()


# ---- cancellation, progress and timeouts


@pytest.mark.parametrize("version", [STATELESS, HANDSHAKE[0]])
def test_cancelling_a_call_cancels_it_at_the_server(version: str) -> None:
    """One notification with the reason; no answer is waited for, and a late one is dropped (M1, M4, M7, M24)."""
    half = ClientHalf(version=version)
    call = half.client.call_tool("t")
    number = half.last()["id"]
    call.cancel("the user went on")
    failure(call, RequestCancelled)
    assert half.cancels == [{"requestId": number, "reason": "the user went on"}]
    with capturedLogs() as events:
        half.result(number, {"content": []})
    assert all(event["log_level"].name == "debug" for event in events)
    assert call.cancel_sent


def test_twisteds_own_timeout_cancels_too() -> None:
    """addTimeout is one of the ways (M1, M7)."""
    half = ClientHalf()
    call = half.client.call_tool("t").addTimeout(3, half.clock)
    half.clock.advance(3)
    failure(call, TimeoutError)
    assert len(half.cancels) == 1


def test_progress_is_told_and_starts_the_timeout_anew() -> None:
    """Each sign counts, also when nobody listens, and never beyond the maximum (M8, M9, M11, M13, M14)."""
    half = ClientHalf()
    seen: list[Progress] = []
    call = half.client.call_tool("t", timeout=10, max_timeout=25, on_progress=seen.append)
    quiet = half.client.call_tool("t", timeout=10)
    token, other = (each["params"]["_meta"]["progressToken"] for each in half.take())
    assert token != other
    for step in (1, 2, 3):
        half.clock.advance(8)
        half.progress(token, step, total=3, message="m")
        half.progress(other, step)
    assert [each.progress for each in seen] == [1, 2, 3]
    assert seen[0].message == "m"
    no_result(call)
    half.clock.advance(1)
    failure(call, RequestTimedOut)
    no_result(quiet)
    half.progress(token, 4)
    assert len(seen) == 3
    half.clock.advance(9)
    failure(quiet, RequestTimedOut)
    assert [each["reason"] for each in half.cancels] == ["timeout", "timeout"]
    assert half.clock.getDelayedCalls() == []


def test_the_clients_timeouts_are_those_of_its_options() -> None:
    """Where a call names none; listing does not ask for progress (M8, M12)."""
    half = ClientHalf(McpOptions(request_timeout=7, max_timeout=10))
    call, listed = half.client.call_tool("t"), half.client.list_tools()
    token = half.take()[0]["params"]["_meta"]["progressToken"]
    half.clock.advance(6)
    half.progress(token, 1)
    half.clock.advance(1)
    failure(listed, RequestTimedOut)
    half.clock.advance(3)
    failure(call, RequestTimedOut)


def test_progress_comes_before_the_answer_whoever_is_busy() -> None:
    """It is applied on arrival, not behind a slow log handler (M13)."""
    slow: Deferred[None] = Deferred()
    seen: list[float] = []
    half = ClientHalf(McpOptions(handlers=McpHandlers(log=lambda _: slow)))
    call = half.client.call_tool("t", timeout=10, on_progress=lambda each: seen.append(each.progress))
    token = half.last()["params"]["_meta"]["progressToken"]
    half.send({"method": "notifications/message", "params": {"level": "info", "data": 1}})
    half.progress(token, 1)
    half.result(2, {"content": []})
    assert seen == [1]
    no_result(call)
    slow.callback(None)
    success(call)


def test_strange_progress_hurts_nobody(logged_errors: Any) -> None:
    """Unknown tokens, malformed params, and a handler that fails."""

    def tell(_: Progress) -> None:
        raise RuntimeError("mine")

    half = ClientHalf()
    call = half.client.call_tool("t", on_progress=tell)
    strange: list[Any] = [None, [], {}, {"progressToken": "p9", "progress": 1}, {"progressToken": ["p1"]}]
    for params in strange:
        half.send({"method": "notifications/progress", "params": params})
    half.progress("p1", True)
    half.progress("p1", 1)
    half.result(2, {"content": []})
    assert success(call).content == []
    assert len(logged_errors) == 1
    logged_errors.clear()


# ---- input that a new server wants


def test_input_is_given_and_the_request_repeated() -> None:
    """Handlers answer what an older server would have asked; the state comes back as it was."""

    async def elicit(params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"name": params["message"]}}

    half = ClientHalf(McpOptions(handlers=McpHandlers(elicitation=elicit, roots=lambda _: ["file:///w"])))
    call = half.client.call_tool("t", {"a": 1})
    assert half.last()["params"]["_meta"][META + "clientCapabilities"] == {
        "roots": {"listChanged": True},
        "elicitation": {"form": {}},
    }
    wanted = {
        "who": {"method": "elicitation/create", "params": {"message": "your name?"}},
        "where": {"method": "roots/list"},
    }
    half.result(2, {"resultType": "input_required", "inputRequests": wanted, "requestState": "opaque"})
    again = half.last()
    assert again["id"] == 3
    params = {name: value for name, value in again["params"].items() if name != "_meta"}
    assert params == {
        "name": "t",
        "arguments": {"a": 1},
        "inputResponses": {
            "who": {"action": "accept", "content": {"name": "your name?"}},
            "where": {"roots": [{"uri": "file:///w"}]},
        },
        "requestState": "opaque",
    }
    half.result(3, {"resultType": "complete", "content": [{"type": "text", "text": "ok"}]})
    assert success(call).text == "ok"


def test_cancelling_while_input_is_gathered_or_after() -> None:
    """The handler is cancelled, or the repeated request, each once (M1, M16)."""
    stopped: list[str] = []
    answer: Deferred[Any] = Deferred(lambda _: stopped.append("handler"))
    half = ClientHalf(McpOptions(handlers=McpHandlers(elicitation=lambda _: answer)))
    wanted = {"x": {"method": "elicitation/create"}}
    call = half.client.call_tool("t")
    half.result(2, {"resultType": "input_required", "inputRequests": wanted})
    call.cancel()
    failure(call, RequestCancelled)
    assert stopped == ["handler"]
    assert half.cancels == []
    answer = Deferred()
    call = half.client.call_tool("t")
    half.result(3, {"resultType": "input_required", "inputRequests": wanted})
    answer.callback({"action": "decline"})
    call.cancel("enough")
    failure(call, RequestCancelled)
    assert half.cancels == [{"requestId": 4, "reason": "enough"}]
    assert half.clock.getDelayedCalls() == []


def test_input_that_nobody_gives_or_without_end() -> None:
    """An error, not a loop."""
    half = ClientHalf()
    call = half.client.call_tool("t")
    half.result(2, {"resultType": "input_required", "inputRequests": {"x": {"method": "roots/list"}}})
    failure(call, McpCapabilityError)
    call = half.client.call_tool("t")
    for number in range(3, 20):
        half.result(number, {"resultType": "input_required", "requestState": "s"})
    failure(call, InvalidResponse)


# ---- what an old server asks


def test_requests_of_the_server_are_answered() -> None:
    """By handlers of all three kinds, and else with -32601; ping always."""

    async def sample(params: dict[str, Any], client: Any) -> dict[str, Any]:
        return {"model": params["x"], "here": client is half.client.session}

    half = old_half(roots=lambda _: [{"uri": "file:///w", "name": "w"}], sampling=sample)
    half.send(
        {"id": 1, "method": "ping"},
        {"id": "r", "method": "roots/list"},
        {"id": 3, "method": "sampling/createMessage", "params": {"x": 1}},
        {"id": 4, "method": "elicitation/create", "params": {}},
        {"id": 5, "method": "notifications/message", "params": {}},
    )
    answers: dict[Any, Any] = {each["id"]: each.get("result", each.get("error")) for each in half.take()}
    assert answers[1] == {}
    assert answers["r"] == {"roots": [{"uri": "file:///w", "name": "w"}]}
    assert answers[3] == {"model": 1, "here": True}
    assert answers[4]["code"] == answers[5]["code"] == MethodNotFound.CODE


def test_a_request_that_the_server_cancels_is_stopped_and_not_answered() -> None:
    """The same rules from the other side (M18, M19, M20)."""
    stopped: list[str] = []
    half = old_half(sampling=lambda _: Deferred(lambda _: stopped.append("work")))
    half.send({"id": 7, "method": "sampling/createMessage", "params": {}})
    half.send({"method": "notifications/cancelled", "params": {"requestId": 7, "reason": "no"}})
    assert stopped == ["work"]
    assert half.take() == []
    half.send({"method": "notifications/cancelled", "params": {"requestId": 7}})
    half.send({"method": "notifications/cancelled", "params": None})
    assert half.take() == []


def test_notifications_of_the_server_are_told_in_order() -> None:
    """Typed where they have a type; what has no handler is ignored, what is malformed logged."""
    seen: list[Any] = []
    half = ClientHalf(
        McpOptions(
            handlers=McpHandlers(
                log=lambda message: seen.append((message.level, message.data)),
                tools_changed=lambda _: seen.append("tools"),
                resources_changed=lambda _: seen.append("resources"),
                prompts_changed=lambda _: seen.append("prompts"),
                resource_updated=seen.append,
                other={"notifications/x": seen.append},
            )
        )
    )
    half.send(
        {"method": "notifications/message", "params": {"level": "info", "data": {"a": 1}}},
        {"method": "notifications/tools/list_changed"},
        {"method": "notifications/resources/list_changed"},
        {"method": "notifications/prompts/list_changed"},
        {"method": "notifications/resources/updated", "params": {"uri": "u:1"}},
        {"method": "notifications/x", "params": {"y": 1}},
        {"method": "notifications/unknown"},
    )
    assert seen == [("info", {"a": 1}), "tools", "resources", "prompts", "u:1", {"y": 1}]


def test_a_malformed_notification_is_logged(logged_errors: Any) -> None:
    """And the conversation goes on."""
    half = ClientHalf(McpOptions(handlers=McpHandlers(log=lambda _: None, resource_updated=lambda _: None)))
    half.send({"method": "notifications/message", "params": {"level": 1}})
    half.send({"method": "notifications/resources/updated"})
    assert len(logged_errors) == 2
    logged_errors.clear()
    half.client.ping()
    assert half.take()


def test_closing_ends_everything_once() -> None:
    """Calls fail with the link, and what comes later fails at once."""
    half = ClientHalf()
    call = half.client.call_tool("t")
    closed, told = half.client.close(), half.client.when_closed()
    failure(call, AcpConnectionError)
    success(closed)
    success(told)
    failure(half.client.ping(), AcpConnectionError)
    assert half.clock.getDelayedCalls() == []


def test_errors_of_the_server_keep_their_code() -> None:
    """An error of MCP is an AcpError with MCP's code."""
    half = ClientHalf()
    call = half.client.read_resource("u:1")
    half.error(2, -32042, {"x": 1})
    error = failure(call, AcpError)
    assert (error.code, error.data, error.remote) == (-32042, {"x": 1}, True)


def test_our_client_and_our_server() -> None:
    """They agree on either revision."""
    for version in (STATELESS, HANDSHAKE[2], None):
        pair = Pair(tools_server()[0], version=version)
        assert success(pair.opened).info == Implementation(name="tools", version="1")
        assert success(pair.client.call_tool("echo", {"text": "hi"})).text == "hi"
