"""
MCP over ACP: a client's tools, used by its agent through the connection that they have; both forms, and the rules of
cancellation of both protocols.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_parts import HANDSHAKE, STATELESS, tools_server
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from wire import failure, no_result, success

from acp_twisted import AcpAgent, AcpClient
from acp_twisted.errors import (
    AcpConnectionError,
    AcpError,
    InvalidParams,
    MethodNotFound,
    RequestCancelled,
    RequestTimedOut,
)
from acp_twisted.limits import Limits
from acp_twisted.mcp.client import McpClient, McpOptions
from acp_twisted.mcp.connecting import accept_over_acp, connect
from acp_twisted.mcp.handlers import McpHandlers
from acp_twisted.mcp.provider import BACKEND_FAILED, LIMIT_REACHED, UNAVAILABLE, McpProvider, offered_to
from acp_twisted.mcp.routes import routes_of
from acp_twisted.mcp.server import McpServer, ToolContext
from acp_twisted.mcp.types import Progress
from acp_twisted.mcp.versions import McpCapabilityError
from acp_twisted.schema import v1
from acp_twisted.schema.converter import structure
from acp_twisted.schema.values import UNSET
from acp_twisted.transports.memory import MemoryLink

META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Chain:
    """
    A client that serves tools, its agent, and the agent's client of these tools.

    @ivar noticed: what the tools noticed.
    """

    def __init__(self, form: Any = "stateless", *, max_active: int = 64, server: McpServer | None = None) -> None:
        self.clock = Clock()
        self.server, self.noticed = tools_server()
        self.server = self.server if server is None else server
        self.provider = McpProvider([self.server], form=form, max_active=max_active)
        self.form = form
        client = self.provider.install(AcpClient.builder()).build()
        builder = AcpAgent.builder().prompt_handler(lambda _: v1.PromptResponse(stop_reason="end_turn"))
        builder.agent_capabilities(v1.AgentCapabilities(mcp_capabilities=v1.McpCapabilities(acp=True)))
        agent = accept_over_acp(builder).build()
        self.acp_client = client.connection(self.clock)
        self.acp_agent = agent.connect(self.clock)
        self.link = MemoryLink(self.acp_client.peer, self.acp_agent.peer, self.clock)
        success(self.acp_client.initialize())
        success(self.acp_client.new_session("/w", self.provider.entries()))
        (self.entry,) = self.provider.entries()
        self.link.wire.clear()

    def connect(self, **options: Any) -> McpClient:
        """The agent connects to the server."""
        opened = connect(self.clock, self.entry, McpOptions(**options), connection=self.acp_agent, form=self.form)
        client: McpClient = success(opened)
        return client

    def sent(self, direction: Any) -> list[dict[str, Any]]:
        """What was sent one way, decoded."""
        return [json.loads(each) for each in self.link.sent(direction)]

    def ask(self, **params: Any) -> Deferred[Any]:
        """The agent sends C{mcp/message} by hand."""
        envelope = {
            "serverId": self.entry.server_id,
            "requestId": "r",
            "method": "tools/list",
            "params": {"_meta": META},
        }
        return self.acp_agent.ext_request("mcp/message", {**envelope, **params})


def test_tools_are_used_through_the_acp_connection() -> None:
    """Each request is one mcp/message with a serverId and a requestId of its own; there is no handshake."""
    chain = Chain()
    client = chain.connect()
    assert client.server.protocol_version == STATELESS
    assert success(client.call_tool("echo", {"text": "hi"})).text == "hi"
    assert success(client.list_tools()).items[0].name == "echo"
    sent = chain.sent("b>a")
    assert {each["method"] for each in sent} == {"mcp/message"}
    assert [each["params"]["method"] for each in sent] == ["server/discover", "tools/call", "tools/list"]
    ids = [each["params"]["requestId"] for each in sent]
    assert len(set(ids)) == 3
    answers = chain.sent("a>b")
    assert all(set(each["result"]) == {"result"} for each in answers)


def test_progress_and_log_come_as_notifications_of_the_request() -> None:
    """mcp/message without an id, for the serverId and the requestId that it is about."""
    chain = Chain()
    client = chain.connect()
    seen: list[Progress] = []
    success(client.call_tool("steps", on_progress=seen.append))
    assert [each.message for each in seen] == ["step 1", "step 2"]
    asked = chain.sent("b>a")[-1]
    told = [each["params"] for each in chain.sent("a>b") if "id" not in each]
    assert {(each["serverId"], each["requestId"]) for each in told} == {
        (chain.entry.server_id, asked["params"]["requestId"])
    }


def test_progress_starts_the_inner_timeout_anew_and_the_outer_one_does_not_count() -> None:
    """The timeouts are MCP's: without an answer the tool is cancelled, in ACP's way (M10, M13, C47)."""
    chain = Chain()
    client = chain.connect()
    call = client.call_tool("hang", timeout=100, max_timeout=150)
    (context,) = chain.noticed["contexts"]
    chain.clock.advance(90)
    context.progress(1)
    chain.clock.advance(50)
    no_result(call)
    chain.clock.advance(10)
    failure(call, RequestTimedOut)
    assert [each["method"] for each in chain.sent("b>a")][-1] == "$/cancel_request"
    assert len(chain.noticed["cancelled"]) == 1
    assert chain.clock.getDelayedCalls() == []


@pytest.mark.parametrize("form", ["stateless", "connection"])
def test_a_local_cancellation_is_not_tunnelled(form: str) -> None:
    """It becomes that of the ACP request, once, with its id; MCP's own notification stays here (C47)."""
    chain = Chain(form)
    client = chain.connect()
    call = client.call_tool("hang")
    asked = chain.sent("b>a")[-1]
    call.cancel("the user went on")
    failure(call, RequestCancelled)
    cancels = [each for each in chain.sent("b>a") if each["method"] == "$/cancel_request"]
    assert [each["params"] for each in cancels] == [{"requestId": asked["id"]}]
    assert "notifications/cancelled" not in json.dumps(chain.sent("b>a") + chain.sent("a>b"))
    assert len(chain.noticed["cancelled"]) == 1
    answer = chain.sent("a>b")[-1]
    assert (answer["id"], answer["error"]["code"]) == (asked["id"], -32800)
    assert success(client.call_tool("echo", {"text": "still"})).text == "still"
    assert chain.acp_agent.peer.pending_requests == 0


def test_the_outer_cancellation_cancels_the_tool_and_is_answered() -> None:
    """ACP wants an answer where MCP wants none: -32800, and the tool's token is set (X3, X5)."""
    chain = Chain()
    outer = chain.ask(method="tools/call", params={"name": "hang", "_meta": META})
    number = chain.sent("b>a")[-1]["id"]
    outer.cancel()
    failure(outer, RequestCancelled)
    assert chain.noticed["cancelled"] == [("$/cancel_request",)]
    answers = [each for each in chain.sent("a>b") if each.get("id") == number]
    assert [each["error"]["code"] for each in answers] == [-32800]
    chain.noticed["contexts"][0].progress(1)
    assert chain.sent("a>b")[-1] == answers[0]


def test_the_end_of_the_acp_connection_ends_everything() -> None:
    """Tools are cancelled, calls fail, and nothing can be asked any more."""
    for form in ("stateless", "connection"):
        chain = Chain(form)
        client = chain.connect()
        call = client.call_tool("hang")
        chain.link.a.abort("gone")
        chain.clock.advance(0)
        failure(call, AcpConnectionError)
        failure(client.list_tools(), AcpConnectionError)
        assert len(chain.noticed["cancelled"]) == 1
        assert chain.clock.getDelayedCalls() == []


def test_closing_a_client_leaves_the_acp_connection() -> None:
    """What it asked is cancelled; another may be opened."""
    for form in ("stateless", "connection"):
        chain = Chain(form)
        client = chain.connect()
        call = client.call_tool("hang")
        closed = client.close()
        chain.clock.advance(0)
        success(closed)
        failure(call, AcpConnectionError)
        assert len(chain.noticed["cancelled"]) == 1
        assert success(chain.connect().call_tool("echo", {"text": "hi"})).text == "hi"
        assert chain.clock.getDelayedCalls() == []


@pytest.mark.parametrize("form", ["stateless", "connection"])
def test_a_client_that_is_closed_in_the_midst_of_asking(form: str) -> None:
    """The link delivers at once, so progress may come before the request is known as sent: its tool is cancelled."""
    server, stopped = McpServer("s"), list[str]()

    @server.tool()
    def hang(arguments: dict[str, Any], context: ToolContext) -> Deferred[str]:
        context.token.on_cancel(lambda: stopped.append("hang"))
        context.progress(1)
        return Deferred()

    chain = Chain(form, server=server)
    client = chain.connect()
    call = client.call_tool("hang", on_progress=lambda _: client.close())
    chain.clock.advance(0)
    failure(call, AcpConnectionError)
    assert stopped == ["hang"]
    for each in (chain.acp_agent, chain.acp_client):
        assert each.peer.pending_requests == each.peer.incoming_requests == 0
        assert routes_of(each).exchanges == {}


def test_the_end_of_one_request_of_a_tunnel_may_end_another() -> None:
    """Each is told once, and the tunnel is closed all the same."""
    chain = Chain("connection")
    chain.connect()
    (tunnel,) = routes_of(chain.acp_client).tunnels.values()
    first, second, third = (tunnel.received("tools/call", {"name": "hang", "_meta": META}) for _ in range(3))
    first.addErrback(lambda _: second.cancel())
    tunnel.close()
    chain.clock.advance(0)
    assert success(first) is None
    failure(second, CancelledError)
    failure(third, RequestCancelled)
    assert success(tunnel.peer.when_closed())
    assert len(chain.noticed["cancelled"]) == 3


@pytest.mark.parametrize("form", ["stateless", "connection"])
def test_an_acp_connection_keeps_nothing_of_clients_that_are_closed(form: str) -> None:
    """It may live long, and see many of them (rule 6)."""
    chain = Chain(form)
    sides = (chain.acp_agent, chain.acp_client)
    before = [len(each.peer._closed._waiting) for each in sides]
    for _ in range(3):
        client = chain.connect()
        success(client.call_tool("echo", {"text": "hi"}))
        closed = client.close()
        chain.clock.advance(0)
        success(closed)
    after = [len(each.peer._closed._waiting) for each in sides]
    assert after == before
    for each in sides:
        assert routes_of(each).tunnels == {}
        assert routes_of(each).exchanges == {}


def test_errors_of_mcp_are_inside_of_a_successful_answer() -> None:
    """An inner code is never taken for one of ACP."""
    chain = Chain()
    client = chain.connect()
    failure(client.call_tool("none"), InvalidParams)
    assert chain.sent("a>b")[-1]["result"]["error"]["code"] == -32602
    failure(client.list_prompts(), MethodNotFound)
    answer = success(chain.ask(params={}))
    assert answer["error"]["code"] == -32602
    answer = success(chain.ask(params={"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}}))
    assert answer["error"]["code"] == -32022


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"serverId": "none"}, UNAVAILABLE),
        ({"serverId": 1}, -32602),
        ({"requestId": None}, -32602),
        ({"method": None}, -32602),
        ({"params": [1]}, -32602),
    ],
)
def test_failures_of_the_binding_are_outer_errors(params: dict[str, Any], code: int) -> None:
    """Each with its code."""
    assert failure(Chain().ask(**params), AcpError).code == code


def test_ids_in_use_and_too_many_requests() -> None:
    """The same id of the same server may be used again once it is answered; the bound is for each connection."""
    chain = Chain(max_active=2)
    hang = {"method": "tools/call", "params": {"name": "hang", "_meta": META}}
    first = chain.ask(**hang)
    assert failure(chain.ask(**hang), AcpError).code == -32602
    second = chain.ask(**hang, requestId="s")
    assert failure(chain.ask(requestId="t"), AcpError).code == LIMIT_REACHED
    first.cancel()
    failure(first, RequestCancelled)
    assert "result" in success(chain.ask())
    second.cancel()
    failure(second, RequestCancelled)


def test_a_server_that_is_withdrawn() -> None:
    """What it works on is cancelled, and later requests find nobody."""
    chain = Chain()
    client = chain.connect()
    call = client.call_tool("hang")
    chain.provider.withdraw(chain.entry.server_id)
    assert failure(call, AcpError).code == -32800
    assert failure(client.list_tools(), AcpError).code == UNAVAILABLE
    with pytest.raises(KeyError):
        chain.provider.withdraw(chain.entry.server_id)


def test_a_server_that_breaks_is_a_failure_of_the_binding(logged_errors: Any) -> None:
    """Nothing of it leaks."""
    chain = Chain()

    class Broken(McpServer):
        def handle(self, request: Any) -> Deferred[Any]:
            return Deferred.fromCoroutine(breaks())

    async def breaks() -> None:
        raise RuntimeError("secret")

    chain.provider.servers[chain.entry.server_id] = Broken("b")
    error = failure(chain.ask(), AcpError)
    assert (error.code, "secret" in str(error)) == (BACKEND_FAILED, False)
    assert len(logged_errors) == 1
    logged_errors.clear()


def test_a_subscription_goes_through() -> None:
    """Its id is each side's own; it ends from either side."""
    chain = Chain()
    client = chain.connect()
    told: list[str] = []
    subscription = success(client.listen(lambda method, _: told.append(method), tools=True))
    chain.server.remove_tool("crash")
    assert told == ["notifications/tools/list_changed"]
    chain.server.end_subscriptions()
    assert subscription.end == "server"
    again = success(client.listen(lambda method, _: told.append(method), tools=True))
    again.close()
    chain.server.remove_tool("fail")
    assert len(told) == 1
    assert chain.sent("b>a")[-1]["method"] == "$/cancel_request"


def test_notifications_about_nothing_are_dropped() -> None:
    """Of a request that is over, of an unknown one, and malformed ones."""
    chain = Chain()
    client = chain.connect()
    success(client.call_tool("echo", {"text": "hi"}))
    over = chain.sent("b>a")[-1]["params"]["requestId"]
    for params in (
        {"serverId": chain.entry.server_id, "requestId": over, "method": "notifications/progress"},
        {"serverId": "x", "requestId": "y", "method": "m"},
        {"method": 1},
        None,
    ):
        chain.acp_client.ext_notification("mcp/message", params)
    assert success(client.call_tool("echo", {"text": "hi"})).text == "hi"


def test_nobody_asks_an_agent_in_the_stateless_form() -> None:
    """A request mcp/message to it has no method that it knows."""
    chain = Chain()
    asked = chain.acp_client.ext_request("mcp/message", {"serverId": "x", "requestId": "y", "method": "m"})
    failure(asked, MethodNotFound)
    failure(chain.acp_client.ext_request("mcp/message", {"connectionId": "x", "method": "m"}), InvalidParams)


# ---- the older form


def test_the_older_form() -> None:
    """A connection is opened and closed, and the revision may be any."""
    chain = Chain("connection")
    client = chain.connect(protocol=HANDSHAKE[0])
    assert success(client.call_tool("echo", {"text": "hi"})).text == "hi"
    seen: list[Progress] = []
    success(client.call_tool("steps", on_progress=seen.append))
    assert len(seen) == 2
    failure(client.call_tool("none"), InvalidParams)
    methods = [each["method"] for each in chain.sent("b>a")]
    assert methods[0] == "mcp/connect"
    inner = [each["params"]["method"] for each in chain.sent("b>a")[1:]]
    assert inner[:2] == ["initialize", "notifications/initialized"]
    closed = client.close()
    chain.clock.advance(0)
    success(closed)
    assert chain.sent("b>a")[-1]["method"] == "mcp/disconnect"
    assert chain.sent("a>b")[-1]["result"] == {}
    failure(chain.acp_agent.ext_request("mcp/disconnect", {"connectionId": "x"}), InvalidParams)
    assert failure(chain.acp_agent.ext_request("mcp/connect", {"serverId": "x"}), AcpError).code == UNAVAILABLE


def test_requests_of_the_server_go_through_the_older_form_and_are_cancelled() -> None:
    """Its cancellation arrives as $/cancel_request, and is MCP's again for the handler (X5, M18)."""
    stopped: list[str] = []
    chain = Chain("connection")
    client = chain.connect(
        protocol=HANDSHAKE[0],
        handlers=McpHandlers(sampling=lambda _: Deferred(lambda _: stopped.append("work")), roots=lambda _: ["u:1"]),
    )
    connection_id = chain.sent("b>a")[1]["params"]["connectionId"]
    roots = {"connectionId": connection_id, "method": "roots/list"}
    assert success(chain.acp_client.ext_request("mcp/message", roots)) == {"roots": [{"uri": "u:1"}]}
    sampling = {"connectionId": connection_id, "method": "sampling/createMessage"}
    asked = chain.acp_client.ext_request("mcp/message", sampling, wait=True)
    asked.cancel()
    assert stopped == ["work"]
    failure(asked, RequestCancelled)
    assert success(client.call_tool("echo", {"text": "hi"})).text == "hi"


def test_connections_of_the_older_form_are_bounded() -> None:
    """One more is refused."""
    chain = Chain("connection", max_active=1)
    chain.connect()
    opened = connect(chain.clock, chain.entry, connection=chain.acp_agent, form="connection")
    assert failure(opened, AcpError).code == LIMIT_REACHED


def test_what_can_not_be_reached() -> None:
    """An acp entry without a connection, and the kinds that there is nothing for."""
    chain = Chain()
    for entry in (chain.entry, v1.McpServerSse(name="s", url="http://x", headers=[])):
        with pytest.raises(McpCapabilityError):
            connect(chain.clock, entry)


def test_giving_up_the_connecting() -> None:
    """Nothing is left, and the request that was out is cancelled."""
    chain = Chain()
    chain.link.auto = False
    opened = connect(chain.clock, chain.entry, connection=chain.acp_agent)
    opened.cancel()
    failure(opened, CancelledError)
    chain.link.deliver_all()
    chain.clock.advance(0)
    assert [each["method"] for each in chain.sent("b>a")] == ["mcp/message", "$/cancel_request"]
    assert chain.acp_agent.peer.pending_requests == 0
    assert chain.clock.getDelayedCalls() == []


def test_servers_of_one_name_are_told_apart() -> None:
    """Each has an id of its own, also where another provider serves the same one."""
    server = McpServer("same")
    ids = [*McpProvider([server, McpServer("same")]).servers, *McpProvider([server]).servers]
    assert len(set(ids)) == 3


def test_what_is_sent_fits_the_protocols_schema() -> None:
    """Each mcp/message, its answers and its notifications are read by the classes that the schema gives."""
    chain = Chain()
    client = chain.connect()
    success(client.call_tool("steps", on_progress=lambda _: None))
    failure(client.call_tool("none"), InvalidParams)
    for each in chain.sent("b>a"):
        assert structure(each["params"], v1.MessageMcpRequest).server_id == chain.entry.server_id
    told = [each for each in chain.sent("a>b") if "id" not in each]
    answers = [each for each in chain.sent("a>b") if "id" in each]
    assert (len(told), len(answers)) == (2, 3)
    for each in told:
        assert structure(each["params"], v1.MessageMcpNotification).method == "notifications/progress"
    for each in answers:
        response = structure(each["result"], v1.MessageMcpResponse)
        assert (response.result is UNSET) == (response.error is not None)


def test_version_2_of_acp() -> None:
    """The same halves, with the words of version 2: entries, capabilities, calls and cancellations (C47)."""
    clock = Clock()
    server, noticed = tools_server()
    provider = McpProvider([server])
    reached: list[McpClient] = []

    async def new_session(request: Any, connection: Any) -> Any:
        for each in request.mcp_servers:
            reached.append(await connect(clock, each, connection=connection))
        return v1.NewSessionResponse(session_id="s1")

    building = AcpAgent.builder().prompt_handler(lambda _: None).new_session_handler(new_session)
    agent: Any = accept_over_acp(building).protocol_versions(2).build()
    client: Any = provider.install(AcpClient.builder()).protocol_versions(2).build()
    link = client.connection(clock)
    memory = MemoryLink(link.peer, agent.connect(clock).peer, clock)
    connection = success(link.initialize())
    entries = offered_to(connection.agent_capabilities, provider)
    assert type(entries[0]).__module__.startswith("acp_twisted.schema.v2")
    success(connection.new_session("/w", entries))
    (mcp,) = reached
    assert success(mcp.call_tool("echo", {"text": "hi"})).text == "hi"
    call = mcp.call_tool("hang")
    call.cancel()
    failure(call, RequestCancelled)
    assert noticed["cancelled"] == [("$/cancel_request",)]
    assert b"notifications/cancelled" not in b"".join(message for _, message in memory.wire)


def test_a_server_that_floods_a_busy_client_is_cut() -> None:
    """What waits for a client that wants nothing is bounded (design rule 6)."""
    busy: Deferred[None] = Deferred()
    chain = Chain()
    limits = Limits(max_queued_messages=5)
    client = chain.connect(handlers=McpHandlers(log=lambda _: busy), limits=limits)
    success(client.set_log_level("info"))
    call = client.call_tool("hang")
    (context,) = chain.noticed["contexts"]
    for number in range(20):
        context.log("info", number)
    chain.clock.advance(0)
    failure(call, AcpConnectionError)
    assert len(chain.noticed["cancelled"]) == 1
    busy.callback(None)
    assert chain.acp_agent.is_open
