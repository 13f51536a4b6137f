"""
Cancellation through proxies and the conductor: hop by hop, each with the id of its own link, and never the raw
notification.
"""

from __future__ import annotations

from typing import Any

import pytest
from chain_parts import RawChain, RawEnd, passing
from conftest import LoggedErrors
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from acp_twisted import AcpAgent, AcpProxy, Conductor
from acp_twisted.jsonrpc.cancellation import current_token
from acp_twisted.proxy.context import PASS, ProxyContext
from acp_twisted.schema import v1
from acp_twisted.schema.vocabulary import vocabulary
from acp_twisted.transports.memory import MemoryLink

CANCEL = "$/cancel_request"
CANCELLED = {"code": -32800, "message": "Request cancelled"}
PROMPT = {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]}
PERMISSION = {
    "sessionId": "s1",
    "toolCall": {"toolCallId": "t"},
    "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
}


def cancel(end: RawEnd, number: Any) -> None:
    """Somebody cancels his request."""
    end.send({"method": CANCEL, "params": {"requestId": number}})


def cancels(end: RawEnd) -> list[Any]:
    """The ids of the cancellations that came."""
    return [each["params"]["requestId"] for each in end.received if each.get("method") == CANCEL]


def asked(end: RawEnd, method: str) -> Any:
    """The id of the last request of that method that came."""
    return [each["id"] for each in end.received if each.get("method") == method and "id" in each][-1]


def healthy(chain: RawChain) -> bool:
    """Whether the next request goes through and back, both ways."""
    chain.client.send({"id": "probe", "method": "_x/probe"})
    chain.agent.answer({"fine": 1})
    chain.agent.send({"id": "probe", "method": "_x/probe"})
    chain.client.answer({"fine": 2})
    there, back = chain.client.answers("probe"), chain.agent.answers("probe")
    return there == [{"result": {"fine": 1}}] and back == [{"result": {"fine": 2}}]


class Link:
    """A proxy alone, with raw JSON in the place of the conductor."""

    def __init__(self, proxy: AcpProxy) -> None:
        self.end = RawEnd()
        self.clock = Clock()
        self.connection = proxy.connect(self.clock)
        MemoryLink(self.end, self.connection.port, self.clock)

    def wrapped(self, method: str, params: Any, number: Any = None, name: str = "proxy/successor") -> None:
        """Something comes from the successor."""
        message: dict[str, Any] = {"method": name, "params": {"method": method, "params": params}}
        self.end.send(message if number is None else {"id": number, **message})


@pytest.mark.parametrize("method", ["_x/ask", "session/prompt"])
def test_a_cancellation_goes_on_with_the_next_id(method: str) -> None:
    """Forwarding passes it on once; the answer comes back; both hops live (C13, C30, P6, R27)."""
    chain = RawChain([passing()])
    chain.client.send({"id": "mine", "method": method, "params": PROMPT})
    number = asked(chain.agent, method)
    cancel(chain.client, "mine")
    cancel(chain.client, "mine")
    assert cancels(chain.agent) == [number]
    assert number != "mine"
    assert chain.client.answers("mine") == []
    chain.agent.fail(CANCELLED)
    assert chain.client.answers("mine") == [{"error": CANCELLED}]
    assert healthy(chain)


def test_an_answer_that_was_faster_goes_back() -> None:
    """A cancelled request's normal result is forwarded all the same; a late cancellation goes nowhere (R27)."""
    chain = RawChain([passing(), passing()])
    chain.client.send({"id": 1, "method": "_x/ask"})
    cancel(chain.client, 1)
    chain.agent.answer({"partial": True})
    assert chain.client.answers(1) == [{"result": {"partial": True}}]
    cancel(chain.client, 1)
    assert len(cancels(chain.agent)) == 1
    assert healthy(chain)


@pytest.mark.parametrize("number", [99, "x", None, {"a": 1}, 1.5])
def test_a_raw_cancellation_is_never_passed_on(number: Any) -> None:
    """Of an unknown id, or none at all, it ends here, whichever side sends it (C14, R28)."""
    chain = RawChain([passing()])
    for here, there in ((chain.client, chain.agent), (chain.agent, chain.client)):
        here.send({"method": CANCEL, "params": {"requestId": number}}, {"method": CANCEL})
        assert there.received == []
    assert healthy(chain)


@pytest.mark.parametrize("name", ["proxy/successor", "_proxy/successor"])
def test_a_wrapped_cancellation_is_never_passed_on(name: str) -> None:
    """Nor in an envelope, and nobody answers it; the next request works (C1, C15)."""
    link = Link(passing())
    link.wrapped(CANCEL, {"requestId": 7}, name=name)
    assert link.end.received == []
    link.wrapped("_x/ask", {}, 8)
    assert [each["method"] for each in link.end.take()] == ["_x/ask"]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", ["proxy/successor", "_proxy/successor"])
def test_a_wrapped_request_is_cancelled_by_its_outer_id(name: str, wrapped: bool) -> None:
    """In either spelling, by a cancellation that is plain or in an envelope itself (C2, C22, C24)."""
    link = Link(passing())
    link.wrapped("_x/ask", {}, "outer", name)
    number = asked(link.end, "_x/ask")
    if wrapped:
        link.wrapped(CANCEL, {"requestId": "outer"}, name=name)
    else:
        cancel(link.end, "outer")
    assert cancels(link.end) == [number]
    link.end.send({"id": number, "error": CANCELLED})
    assert link.end.answers("outer") == [{"error": CANCELLED}]


@pytest.mark.parametrize(
    "params", [None, [], {}, {"method": 1}, {"params": {"requestId": "outer"}}, {"method": CANCEL, "params": 5}]
)
def test_a_malformed_envelope_is_no_cancellation(params: Any) -> None:
    """What has no method, or params that are none, does nothing (C23)."""
    link = Link(passing())
    link.wrapped("_x/ask", {}, "outer")
    link.end.take()
    link.end.send(
        {"method": "proxy/successor", "params": params} if params is not None else {"method": "proxy/successor"}
    )
    assert link.end.received == []
    link.end.send({"id": 5, "method": "proxy/successor", "params": params})
    assert link.end.answers(5)[0]["error"]["code"] == -32602 or params == {"method": CANCEL, "params": 5}


@pytest.mark.parametrize("older", [False, True])
def test_a_wrapped_request_is_cancelled_in_its_own_spelling(older: bool) -> None:
    """To the successor it goes plain, with the envelope's id; in the older spelling in an envelope; once (C3, R6)."""
    link = Link(AcpProxy.builder().older_spelling(older).build())
    link.end.send({"id": "mine", "method": "_x/ask"})
    name = "_proxy/successor" if older else "proxy/successor"
    number = asked(link.end, name)
    link.end.take()
    cancel(link.end, "mine")
    cancel(link.end, "mine")
    plain: dict[str, Any] = {"method": CANCEL, "params": {"requestId": number}}
    assert link.end.take() == ([{"method": name, "params": plain}] if older else [plain])


@pytest.mark.parametrize("linked", [True, False])
def test_custom_forwarding_decides(linked: bool) -> None:
    """A handler's own request is cancelled with the one that it is for if it asks for that, and not otherwise; the
    answer is his to make (C16, C17, R29)."""
    seen: list[bool] = []

    async def handle(params: Any, context: ProxyContext) -> Any:
        call = context.agent.ext_request("_x/other", params)
        if linked:
            call.forward_cancellation_from(context.token)
        result = await call
        seen.append(context.token.cancelled)
        return {"handled": result}

    proxy = AcpProxy.builder().client_request_handler("_x/ask", handle).build()
    chain = RawChain([proxy])
    chain.client.send({"id": 1, "method": "_x/ask", "params": {"a": 1}})
    number = asked(chain.agent, "_x/other")
    cancel(chain.client, 1)
    cancel(chain.client, 1)
    assert cancels(chain.agent) == ([number] if linked else [])
    assert chain.client.answers(1) == []
    chain.agent.received = [each for each in chain.agent.received if each.get("method") != CANCEL]
    chain.agent.answer({"b": 2})
    assert chain.client.answers(1) == [{"result": {"handled": {"b": 2}}}]
    assert seen == [True]
    assert healthy(chain)


def test_a_handler_that_takes_over_absorbs() -> None:
    """One that answers by itself sees the token and goes on; nothing is sent anywhere (C17, R29)."""
    work: Deferred[Any] = Deferred()
    tokens: list[Any] = []

    def handle(_: Any, context: ProxyContext) -> Deferred[Any]:
        tokens.append(context.token)
        assert current_token() is context.token
        return work

    chain = RawChain([AcpProxy.builder().client_request_handler("_x/ask", handle).build()])
    chain.client.send({"id": 1, "method": "_x/ask"})
    cancel(chain.client, 1)
    assert tokens[0].triggers == (CANCEL,)
    assert chain.agent.received == chain.client.received == []
    work.callback({"done": True})
    assert chain.client.answers(1) == [{"result": {"done": True}}]


def test_a_handler_may_answer_as_cancelled() -> None:
    """It may react to the token like any request's handler (R29)."""

    def handle(_: Any, context: ProxyContext) -> Deferred[Any]:
        return context.token.run_until_cancelled(Deferred())

    chain = RawChain([AcpProxy.builder().client_request_handler("_x/ask", handle).build()])
    chain.client.send({"id": 1, "method": "_x/ask"})
    cancel(chain.client, 1)
    assert chain.client.answers(1) == [{"error": CANCELLED}]


def test_a_handler_routes_cancellations_of_its_own() -> None:
    """Whoever knows the ids may translate them; the built-in effect stays (R29)."""
    told: list[Any] = []

    def watch(notification: v1.CancelRequestNotification, context: ProxyContext) -> None:
        told.append(notification.request_id)
        context.agent.send_cancel_request(4711)

    chain = RawChain([AcpProxy.builder().cancel_request_handler(watch).build()])
    chain.client.send({"id": 1, "method": "_x/ask"})
    cancel(chain.client, 1)
    assert len(told) == 1
    assert len(cancels(chain.agent)) == 1


@pytest.mark.parametrize("how", ["returns", "awaits", "passes"])
def test_what_a_handler_forwards_is_linked(how: str) -> None:
    """forward() links by itself, whatever the handler does with the answer (C13, R29)."""

    async def waits(request: v1.PromptRequest, context: ProxyContext) -> Any:
        return await context.forward(request)

    def returns(request: v1.PromptRequest, context: ProxyContext) -> Any:
        return context.forward(request)

    handler: Any = {"returns": returns, "awaits": waits, "passes": lambda _: PASS}[how]
    chain = RawChain([AcpProxy.builder().client_request_handler(v1.PromptRequest, handler).build()])
    chain.client.send({"id": 1, "method": "session/prompt", "params": PROMPT})
    number = asked(chain.agent, "session/prompt")
    cancel(chain.client, 1)
    assert cancels(chain.agent) == [number]
    chain.agent.fail(CANCELLED)
    assert chain.client.answers(1) == [{"error": CANCELLED}]
    assert healthy(chain)


@pytest.mark.parametrize("handled", [False, True])
def test_a_lost_hop_answers_upstream(handled: bool) -> None:
    """An answer that can never come is an error to who waits for it, not silence (C29)."""
    builder = AcpProxy.builder()
    if handled:
        builder.client_request_handler("_x/ask", lambda _, context: context.forward())
    chain = RawChain([builder.build(), passing()])
    chain.client.send({"id": 1, "method": "_x/ask"})
    assert chain.agent.transport is not None
    chain.agent.transport.abort("gone")
    (answer,) = chain.client.answers(1)
    assert answer["error"]["code"] == -32603
    assert answer["error"]["data"]["component"] == "agent"


def test_an_agents_cancellation_goes_to_the_client() -> None:
    """The mirror of it: the agent's own request is cancelled hop by hop to the client (C31)."""
    chain = RawChain([passing(), passing()])
    chain.agent.send({"id": "p", "method": "session/request_permission", "params": PERMISSION})
    number = asked(chain.client, "session/request_permission")
    cancel(chain.agent, "p")
    assert cancels(chain.client) == [number]
    chain.client.fail(CANCELLED)
    assert chain.agent.answers("p") == [{"error": CANCELLED}]
    assert healthy(chain)


@pytest.mark.parametrize("hooked", [False, True])
def test_session_new_is_cancelled_through_a_proxy(hooked: bool) -> None:
    """Also where the proxy has a handler for it, and looks at the session that comes of it (C33, C34)."""
    opened: list[str] = []

    async def handle(request: v1.NewSessionRequest, context: ProxyContext) -> v1.NewSessionResponse:
        response: v1.NewSessionResponse = await context.forward(request)
        opened.append(response.session_id)
        return response

    builder = AcpProxy.builder()
    if hooked:
        builder.client_request_handler(v1.NewSessionRequest, handle)
    chain = RawChain([builder.build()])
    for number in (1, 2):
        chain.client.send({"id": number, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}})
        if number == 1:
            cancel(chain.client, number)
            assert cancels(chain.agent) == [asked(chain.agent, "session/new")]
            chain.agent.fail(CANCELLED, -1)
            assert chain.client.answers(number) == [{"error": CANCELLED}]
        else:
            chain.agent.answer({"sessionId": "s1"})
            assert chain.client.answers(number) == [{"result": {"sessionId": "s1"}}]
    assert opened == (["s1"] if hooked else [])


@pytest.mark.parametrize("rewritten", [False, True])
def test_initialize_is_cancelled_through_a_proxy(rewritten: bool) -> None:
    """Also where the proxy changes it; the conductor gives it its name on each hop (C36)."""

    def handle(request: v1.InitializeRequest, context: ProxyContext) -> Any:
        request.client_info = v1.Implementation(name="changed", version="1")
        return context.forward(request)

    builder = AcpProxy.builder()
    if rewritten:
        builder.client_request_handler(v1.InitializeRequest, handle)
    chain = RawChain([builder.build(), passing()], initialize=False)
    chain.client.send({"id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
    number = asked(chain.agent, "initialize")
    if rewritten:
        assert chain.agent.received[-1]["params"]["clientInfo"]["name"] == "changed"
    cancel(chain.client, 0)
    assert cancels(chain.agent) == [number]
    chain.agent.fail(CANCELLED)
    assert chain.client.answers(0) == [{"error": CANCELLED}]


def test_a_client_that_is_gone_cancels_what_it_has_asked() -> None:
    """What nobody waits for any more is cancelled, and the late answer is dropped without a word (P6)."""
    chain = RawChain([passing()])
    chain.client.send({"id": 1, "method": "_x/ask"})
    number = asked(chain.agent, "_x/ask")
    assert chain.client.transport is not None
    chain.client.transport.abort("gone")
    assert cancels(chain.agent) == [number]
    assert chain.agent.lost


def test_a_cancelled_prompt_cascades_through_the_chain() -> None:
    """The client cancels its prompt; the agent's permission request is cancelled with it, all the way; the prompt is
    answered -32800, and the chain is usable after (C32)."""
    clock = Clock()
    outcomes: list[Any] = []

    async def prompt(request: v1.PromptRequest, context: Any) -> v1.PromptResponse:
        if outcomes:
            return v1.PromptResponse(stop_reason="end_turn")
        await context.request_permission(v1.ToolCallUpdate(tool_call_id="t"), [])
        raise AssertionError("it was cancelled")

    chain = Conductor.builder().proxy(passing()).proxy(passing())
    conductor = chain.agent(AcpAgent.builder().prompt_handler(prompt).build()).build()
    client = RawEnd()
    MemoryLink(client, conductor.chain(clock).client, clock)
    client.send({"id": "i", "method": "initialize", "params": {"protocolVersion": 1}})
    client.send({"id": "n", "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}})
    params = {**PROMPT, "sessionId": client.received[-1]["result"]["sessionId"]}
    client.send({"id": 1, "method": "session/prompt", "params": params})
    number = asked(client, "session/request_permission")
    cancel(client, 1)
    assert cancels(client) == [number]
    assert client.answers(1) == [{"error": CANCELLED}]
    client.send({"id": number, "error": CANCELLED})
    outcomes.append("once")
    client.send({"id": 2, "method": "session/prompt", "params": params})
    assert client.answers(2) == [{"result": {"stopReason": "end_turn"}}]


@pytest.mark.parametrize("method", ["session/new", "session/resume"])
def test_a_session_of_version_2_is_cancelled_through_a_handler(method: str) -> None:
    """A proxy that speaks version 2 sets sessions up with its types, and the cancellation is made anew for the next
    hop (C37, C38)."""

    async def handle(request: Any, context: ProxyContext) -> Any:
        assert type(request).__module__.startswith("acp_twisted.schema.v2")
        return await context.forward(request)

    builder = AcpProxy.builder().protocol(vocabulary(2)).client_request_handler(method, handle)
    chain = RawChain([builder.build()])
    params = {"cwd": "/w", "mcpServers": [], **({"sessionId": "s1"} if method == "session/resume" else {})}
    chain.client.send({"id": "mine", "method": method, "params": params})
    number = asked(chain.agent, method)
    cancel(chain.client, "mine")
    assert cancels(chain.agent) == [number]
    chain.agent.fail(CANCELLED)
    assert chain.client.answers("mine") == [{"error": CANCELLED}]
    assert healthy(chain)


@pytest.mark.parametrize("slow", [False, True])
def test_a_handler_that_lets_a_cancelled_request_pass(slow: bool) -> None:
    """The cancellation that came while the handler had it goes on behind it, once (C13, P6)."""
    looking: Deferred[None] = Deferred()

    async def look(request: Any, context: ProxyContext) -> Any:
        await looking
        return PASS

    chain = RawChain([passing(), AcpProxy.builder().client_request_handler("_x/ask", look).build()])
    chain.client.send({"id": 1, "method": "_x/ask"})
    if slow:
        cancel(chain.client, 1)
        assert chain.agent.received == []
    looking.callback(None)
    if not slow:
        cancel(chain.client, 1)
    cancel(chain.client, 1)
    assert [each["method"] for each in chain.agent.received] == ["_x/ask", CANCEL]
    assert cancels(chain.agent) == [asked(chain.agent, "_x/ask")]
    chain.agent.fail(CANCELLED)
    assert chain.client.answers(1) == [{"error": CANCELLED}]
    assert healthy(chain)


def test_a_handler_that_ends_its_own_link_is_stopped() -> None:
    """What a handler returns after the end that came from within it is cancelled, too."""
    stopped: list[object] = []

    def leave(request: Any, context: ProxyContext) -> Any:
        assert link.end.transport is not None
        link.end.transport.abort("gone")
        return Deferred(stopped.append)

    link = Link(AcpProxy.builder().client_request_handler("_x/ask", leave).build())
    link.end.send({"id": 1, "method": "_x/ask"})
    assert len(stopped) == 1
    assert link.connection.port.incoming_requests == 0


@pytest.mark.parametrize("later", [False, True])
def test_a_handler_of_cancellations_that_fails(later: bool, logged_errors: LoggedErrors) -> None:
    """It is logged as what it is, whenever that happens, and the cancellation goes on all the same (R28)."""

    def fail(_: object) -> Any:
        return Deferred.fromCoroutine(failing()) if later else 1 / 0

    async def failing() -> None:
        raise ZeroDivisionError

    chain = RawChain([AcpProxy.builder().cancel_request_handler(fail).build()])
    chain.client.send({"id": 1, "method": "_x/ask"})
    cancel(chain.client, 1)
    assert cancels(chain.agent) == [asked(chain.agent, "_x/ask")]
    [text] = logged_errors.texts()
    assert text.startswith("a handler of cancellations failed")
    logged_errors.clear()
