"""
What a proxy's handlers can do with a message, and what becomes of its bytes then.
"""

from __future__ import annotations

from typing import Any

import pytest
from chain_parts import RawChain, RawEnd, passing
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from acp_twisted import AcpError, AcpProxy, Limits
from acp_twisted.errors import InvalidResponse, RequestTimedOut
from acp_twisted.proxy.context import PASS, ProxyContext
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink

ODD = '{"sessionId":"s1","prompt":[{"text":"hi","type":"text"}],"_meta":{"n":1.50},"unknown":[1E2]}'
UPDATE: dict[str, Any] = {
    "sessionUpdate": "agent_message_chunk",
    "content": {"type": "text", "text": "hi"},
}


def one(builder: AcpProxy) -> RawChain:
    """A chain with that proxy between two that let pass."""
    return RawChain([passing(), builder, passing()])


def update(text: str, session: str = "s1") -> dict[str, Any]:
    """U(s,t)."""
    content = {"type": "text", "text": text}
    return {
        "method": "session/update",
        "params": {"sessionId": session, "update": {"sessionUpdate": "agent_message_chunk", "content": content}},
    }


def texts(messages: list[dict[str, Any]]) -> list[Any]:
    """The texts of the updates among them, and the ids of answers."""
    return [each["params"]["update"]["content"]["text"] if "method" in each else each["id"] for each in messages]


@pytest.mark.parametrize("how", ["pass", "forward", "await", "same", "later"])
def test_what_a_handler_does_not_change_keeps_its_bytes(how: str) -> None:
    """Request, result and error go through as they came, whichever way the handler lets them."""

    async def waits(request: v1.PromptRequest, context: ProxyContext) -> Any:
        return await context.forward()

    async def same(request: v1.PromptRequest, context: ProxyContext) -> Any:
        response = await context.forward()
        assert isinstance(response, v1.PromptResponse)
        return response

    async def later(request: v1.PromptRequest, context: ProxyContext) -> Any:
        return context.forward()

    handler: Any = {
        "later": later,
        "pass": lambda _: PASS,
        "forward": lambda _, context: context.forward(),
        "await": waits,
        "same": same,
    }[how]
    chain = one(AcpProxy.builder().client_request_handler(v1.PromptRequest, handler).build())
    for number, outcome in enumerate(
        ('"result":{"stopReason":"end_turn","x":1.50}', '"error":{"code":-32042,"message":"m","data":{"y":1.0}}')
    ):
        chain.client.send_text(f'{{"jsonrpc":"2.0","id":{number},"method":"session/prompt","params":{ODD}}}')
        assert chain.agent.lines[-1].endswith(b'"params":' + ODD.encode() + b"}")
        chain.agent.send_text(f'{{"jsonrpc":"2.0","id":{chain.agent.take()[-1]["id"]},{outcome}}}')
        assert chain.client.lines[-1] == f'{{"jsonrpc":"2.0","id":{number},{outcome}}}'.encode()


def test_a_request_and_its_result_are_changed() -> None:
    """Objects of the schema in, objects of the schema out."""

    async def handle(request: v1.PromptRequest, context: ProxyContext) -> v1.PromptResponse:
        request.prompt = [*request.prompt, v1.TextContent(text="more")]
        response: v1.PromptResponse = await context.forward(request)
        response.stop_reason = "refusal"
        return response

    chain = one(AcpProxy.builder().client_request_handler("session/prompt", handle).build())
    chain.client.send_text(f'{{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{ODD}}}')
    assert [block["text"] for block in chain.agent.received[-1]["params"]["prompt"]] == ["hi", "more"]
    chain.agent.answer({"stopReason": "end_turn"})
    assert chain.client.answers(1) == [{"result": {"stopReason": "refusal"}}]


def test_a_handler_answers_by_itself() -> None:
    """Nothing goes on; raw JSON and methods outside of the protocol work too."""
    builder = AcpProxy.builder()
    builder.client_request_handler("_x/ask", lambda params: {"had": params})
    builder.agent_request_handler("fs/read_text_file", lambda params: {"content": params["path"]}, raw=True)
    chain = one(builder.build())
    chain.client.send({"id": 1, "method": "_x/ask", "params": [1]})
    assert chain.client.answers(1) == [{"result": {"had": [1]}}]
    chain.agent.send({"id": 1, "method": "fs/read_text_file", "params": {"sessionId": "s1", "path": "/a"}})
    assert chain.agent.answers(1) == [{"result": {"content": "/a"}}]
    assert texts(chain.client.received) == [1]


@pytest.mark.parametrize("failure", [AcpError(-32042, "no", {"a": 1}), ZeroDivisionError("secret")])
def test_a_handler_refuses(failure: Exception, logged_errors: Any) -> None:
    """Its own error is the answer; of any other failure no more than that is told."""

    def handle(_: Any) -> Any:
        raise failure

    chain = one(AcpProxy.builder().client_request_handler("_x/ask", handle).build())
    chain.client.send({"id": 1, "method": "_x/ask"})
    (answer,) = chain.client.answers(1)
    if isinstance(failure, AcpError):
        assert answer == {"error": {"code": -32042, "message": "no", "data": {"a": 1}}}
    else:
        assert answer == {"error": {"code": -32603, "message": "Internal error"}}
        assert len(logged_errors) == 1
        logged_errors.clear()


@pytest.mark.parametrize("kind", ["value", "deferred", "coroutine"])
def test_notifications_are_changed_dropped_and_added(kind: str) -> None:
    """A notification goes on as often as its handler says; unchanged with PASS; dropped when he says nothing."""

    def decide(notification: v1.SessionNotification, context: ProxyContext) -> Any:
        chunk = notification.update
        assert isinstance(chunk, v1.AgentMessageChunk)
        assert isinstance(chunk.content, v1.TextContent)
        if chunk.content.text == "drop":
            return None
        if chunk.content.text == "twice":
            context.forward()
            chunk.content.text = "again"
            return context.forward(notification)
        return PASS

    async def later(notification: v1.SessionNotification, context: ProxyContext) -> Any:
        return decide(notification, context)

    handler: Any = {
        "value": decide,
        "deferred": lambda message, context: succeed(decide(message, context)),
        "coroutine": later,
    }[kind]
    chain = one(AcpProxy.builder().agent_notification_handler(v1.SessionNotification, handler).build())
    chain.agent.send(update("one"), update("drop"), update("twice"), update("two"))
    assert texts(chain.client.received) == ["one", "twice", "again", "two"]


def test_sessions_keep_their_order_and_do_not_wait_for_each_other() -> None:
    """A slow handler of one session's notification holds what follows in it, answers included, and nothing else
    (rule 5)."""
    waiting: list[Deferred[Any]] = []

    def slow(notification: v1.SessionNotification, _: ProxyContext) -> Any:
        if notification.session_id == "other":
            return PASS
        waiting.append(Deferred())
        return waiting[-1]

    chain = one(AcpProxy.builder().agent_notification_handler(v1.SessionNotification, slow).build())
    chain.client.send({"id": "p", "method": "session/prompt", "params": {"sessionId": "s1", "prompt": []}})
    chain.agent.send(update("1"))
    chain.agent.answer({"stopReason": "end_turn"})
    chain.agent.send(update("2"), update("x", "other"))
    assert texts(chain.client.take()) == ["x"]
    waiting[0].callback(PASS)
    assert texts(chain.client.take()) == ["1", "p"]
    waiting[1].callback(PASS)
    assert texts(chain.client.take()) == ["2"]


@pytest.mark.parametrize("end", ["forward", "pass", "answer", "fail", "take over"])
def test_a_cancellation_does_not_get_ahead_of_its_prompt(end: str) -> None:
    """What passes waits behind a request whose handler has not passed it on, in that session alone; a handler of the
    notification is told at once all the same (rules 3 and 5)."""
    work: Deferred[Any] = Deferred()
    told: list[str] = []
    contexts: list[ProxyContext] = []

    async def handle(_: Any, context: ProxyContext) -> Any:
        contexts.append(context)
        await work
        if end == "fail":
            raise AcpError(-32042, "no")
        return {"forward": context.forward, "pass": lambda: PASS}.get(end, lambda: {"stopReason": "refusal"})()

    def watch(_: Any, context: ProxyContext) -> Any:
        told.append(context.method)
        return PASS

    builder = AcpProxy.builder().client_request_handler("session/prompt", handle, raw=True)
    chain = one(builder.client_notification_handler("session/cancel", watch).build())
    chain.client.send({"id": 1, "method": "session/prompt", "params": {"sessionId": "s1", "prompt": []}})
    chain.client.send({"method": "session/cancel", "params": {"sessionId": "s1"}})
    chain.client.send({"id": 2, "method": "_x/ask", "params": {"sessionId": "s1"}})
    chain.client.send({"method": "session/cancel", "params": {"sessionId": "other"}})
    assert told == ["session/cancel"] * 2
    assert [each["params"]["sessionId"] for each in chain.agent.take()] == ["other"]
    if end == "take over":
        contexts[0].take_over()
    else:
        work.callback(None)
    methods = [each["method"] for each in chain.agent.take()]
    went_on = ["session/prompt"] if end in ("forward", "pass") else []
    assert methods == [*went_on, "session/cancel", "_x/ask"]
    if end == "take over":
        work.callback(None)


def test_what_waits_behind_a_request_is_bounded() -> None:
    """Reading stops when too much does, and goes on behind it (rule 6)."""
    work: Deferred[Any] = Deferred()

    async def handle(_: Any, context: ProxyContext) -> Any:
        await work
        return PASS

    limited = AcpProxy.builder().limits(Limits(max_queued_messages=4))
    proxy = limited.client_request_handler("session/prompt", handle).build()
    clock = Clock()
    end = RawEnd()
    connection = proxy.connect(clock)
    link = MemoryLink(end, connection.port, clock)
    end.send({"id": 1, "method": "session/prompt", "params": {"sessionId": "s1", "prompt": []}})
    for number in range(10):
        end.send({"method": "_x/note", "params": {"sessionId": "s1", "n": number}})
    assert link.pending("a>b") == 5
    work.callback(None)
    inner = [each["params"] for each in end.received]
    assert [each["method"] for each in inner] == ["session/prompt"] + ["_x/note"] * 10
    assert [each["params"]["n"] for each in inner[1:]] == list(range(10))


def test_asking_from_inside_a_handler_does_not_wait_behind_it() -> None:
    """A handler that asks a side and waits for the answer is not what that answer waits for (rule 5)."""

    async def handle(notification: v1.SessionNotification, context: ProxyContext) -> Any:
        await context.agent.ext_request("_x/ask", {"sessionId": "s1"})
        return PASS

    chain = one(AcpProxy.builder().agent_notification_handler(v1.SessionNotification, handle).build())
    chain.agent.send(update("1"), update("2"))
    chain.agent.answer()
    chain.agent.answer()
    assert texts(chain.client.take()) == ["1", "2"]


def test_both_sides_can_be_asked() -> None:
    """Typed requests and notifications to the client's and to the agent's side, with their results and errors."""
    contexts: list[ProxyContext] = []
    proxy = AcpProxy.builder().client_notification_handler("_x/go", lambda _, context: contexts.append(context)).build()
    chain = one(proxy)
    chain.client.send({"method": "_x/go"})
    context = contexts[0]
    results: list[Any] = []
    context.client.call(v1.ReadTextFileRequest(session_id="s1", path="/a")).addBoth(results.append)
    chain.client.answer({"content": "text"})
    context.agent.ext_request("_x/ask").addBoth(results.append)
    chain.agent.fail({"code": -32000, "message": "no"})
    context.client.call(v1.ReadTextFileRequest(session_id="s1", path="/a")).addBoth(results.append)
    chain.client.answer({"content": 5})
    assert results[0] == v1.ReadTextFileResponse(content="text")
    assert (results[1].value.code, results[1].value.remote) == (-32000, True)
    assert isinstance(results[2].value, InvalidResponse)
    context.client.notify(
        v1.SessionNotification(session_id="s1", update=v1.AgentMessageChunk(content=v1.TextContent(text="x")))
    )
    assert chain.client.received[-1]["params"]["update"]["content"]["text"] == "x"
    with pytest.raises(TypeError, match="is no request"):
        context.client.call(v1.TextContent(text="x"))


def test_a_request_of_its_own_times_out_and_is_given_up() -> None:
    """One cancellation each; late answers are dropped (rule 2)."""
    contexts: list[ProxyContext] = []
    proxy = AcpProxy.builder().client_notification_handler("_x/go", lambda _, context: contexts.append(context)).build()
    chain = one(proxy)
    chain.client.send({"method": "_x/go"})
    outcomes: list[Any] = []
    call = contexts[0].agent.ext_request("_x/ask", timeout=5.0)
    call.addErrback(outcomes.append)
    chain.clock.advance(5)
    other = contexts[0].agent.ext_request("_x/ask")
    other.addErrback(outcomes.append)
    other.cancel()
    assert isinstance(outcomes[0].value, RequestTimedOut)
    assert outcomes[1].value.code == -32800
    methods = [each["method"] for each in chain.agent.take()]
    assert methods == ["_x/ask", "$/cancel_request"] * 2
    assert call.cancel_sent
    assert other.cancel_sent


def test_nothing_is_forwarded_for_nobody() -> None:
    """A handler that comes to forward a request whose link is gone is told so, and ends with it (rule 1)."""
    work: Deferred[Any] = Deferred()
    outcomes: list[Any] = []

    async def handle(_: Any, context: ProxyContext) -> Any:
        try:
            await work
        finally:
            try:
                context.forward()
            except AcpError as error:
                outcomes.append(error.code)

    chain = one(AcpProxy.builder().client_request_handler("_x/ask", handle).build())
    chain.client.send({"id": 1, "method": "_x/ask"})
    chain.agent.take()
    assert chain.client.transport is not None
    chain.client.transport.abort("gone")
    assert outcomes == [-32800]
    assert chain.agent.received == []
    assert chain.agent.lost


def test_params_that_do_not_fit_are_refused() -> None:
    """What a handler of typed messages can't be given is not slipped past it."""
    seen: list[Any] = []
    builder = AcpProxy.builder().agent_notification_handler(v1.SessionNotification, seen.append)
    chain = one(builder.client_request_handler(v1.PromptRequest, seen.append).build())
    chain.client.send({"id": 1, "method": "session/prompt", "params": {"sessionId": 5}})
    chain.agent.send({"method": "session/update", "params": {"sessionId": "s1"}})
    assert chain.client.answers(1)[0]["error"]["code"] == -32602
    assert seen == []
    assert chain.agent.received == []


def test_a_message_is_not_smuggled_past_a_handler() -> None:
    """Whatever the order of a message's members, and however they are written, its handler sees what the next hop
    would take it for."""
    seen: list[Any] = []

    def handle(params: Any) -> Any:
        seen.append(params)
        return {}

    chain = RawChain([AcpProxy.builder().agent_request_handler("_x/bad", handle).build()])
    for text in (
        '{"jsonrpc":"2.0","method":"_x/good","params":{},"method":"_x/bad","id":1}',
        '{"jsonrpc":"2.0","id":2,"m\\u0065thod":"_x/bad","params":{"method":"_x/good"}}',
        '{"params":{"a":"}","method":"_x/good"},"id":3,"method":"_x\\/bad","jsonrpc":"2.0"}',
    ):
        chain.agent.send_text(text)
    assert len(seen) == 3
    assert chain.client.received == []


def test_a_handler_of_everything_else() -> None:
    """None stands for every method that has no handler of its own."""
    seen: list[str] = []

    def watch(_: Any, context: ProxyContext) -> Any:
        seen.append(f"{context.origin} {context.method}")
        return PASS

    builder = AcpProxy.builder().client_request_handler("_x/own", lambda _: {})
    builder.client_request_handler(None, watch).agent_request_handler(None, watch)
    builder.client_notification_handler(None, watch).agent_notification_handler(None, watch, raw=True)
    chain = one(builder.build())
    for end in (chain.client, chain.agent):
        end.send({"id": 1, "method": "_x/own"}, {"id": 2, "method": "_x/ask"}, {"method": "_x/note"})
    chain.agent.send(update("x"))
    assert seen == [
        *("client initialize", "client _x/ask", "client _x/note"),
        *("agent _x/own", "agent _x/ask", "agent _x/note", "agent session/update"),
    ]


def test_one_handler_for_each_method() -> None:
    """A second one is a mistake, and so is a class that is none of the protocol's messages."""
    builder = AcpProxy.builder().client_request_handler(v1.PromptRequest, lambda _: PASS)
    with pytest.raises(ValueError, match="session/prompt has a handler already"):
        builder.client_request_handler("session/prompt", lambda _: PASS)
    with pytest.raises(TypeError, match="is no notification"):
        builder.client_notification_handler(v1.PromptRequest, lambda _: PASS)


def test_too_many_requests_are_refused() -> None:
    """The bounds of each link are kept (rule 6)."""
    chain = RawChain([passing()], limits=Limits(max_incoming_requests=2))
    for number in range(3):
        chain.client.send({"id": number, "method": "_x/ask"})
    assert chain.client.answers(2)[0]["error"]["message"] == "Too many requests"
    chain.client.send({"id": 0, "method": "_x/ask"})
    assert chain.client.answers(0)[0]["error"]["code"] == -32600
    limited = AcpProxy.builder().limits(Limits(max_outgoing_requests=1)).build()
    chain = RawChain([limited])
    for number in range(2):
        chain.client.send({"id": number, "method": "_x/ask"})
    assert chain.client.answers(1)[0]["error"]["data"] == {"maxOutgoingRequests": 1}


@pytest.mark.parametrize("late", [False, True])
def test_a_handler_that_asks_is_answered_however_much_waits(late: bool) -> None:
    """The answer comes by the same link as what waits behind the handler's message, so that is read on until it is
    there, and nothing stands still for ever (rules 5 and 6)."""
    waiting: Deferred[None] = Deferred()

    async def ask(params: Any, context: ProxyContext) -> Any:
        if late:
            await waiting
        await context.client.ext_request("_x/may")
        return PASS

    limits = Limits(max_queued_messages=8)
    proxy = AcpProxy.builder().limits(limits).agent_request_handler("_x/ask", ask).build()
    chain = RawChain([proxy])
    chain.agent.send({"id": 1, "method": "_x/ask", "params": {"sessionId": "s1"}})
    chain.agent.send(*[update(str(number)) for number in range(30)])
    waiting.callback(None)
    chain.client.answer({})
    methods = [each["method"] for each in chain.client.received]
    assert methods == ["_x/may", "_x/ask", *["session/update"] * 30]
    assert texts(chain.client.take()[2:]) == [str(number) for number in range(30)]
    assert chain.clock.getDelayedCalls() == []


def test_who_floods_a_handler_that_asks_waits_as_well() -> None:
    """Without an answer among all that comes, the link is read no further in the end, until the question is given up
    (rule 6)."""

    async def ask(params: Any, context: ProxyContext) -> Any:
        with pytest.raises(RequestTimedOut):
            await context.client.ext_request("_x/may", timeout=30)
        return PASS

    limits = Limits(max_queued_messages=8)
    connection = AcpProxy.builder().limits(limits).agent_request_handler("_x/ask", ask).build().connect(Clock())
    end, clock = RawEnd(), connection.port.clock
    assert isinstance(clock, Clock)
    link = MemoryLink(end, connection.port, clock)
    end.send({"id": 1, "method": "proxy/successor", "params": {"method": "_x/ask", "params": {"sessionId": "s1"}}})
    for number in range(100):
        end.send({"method": "proxy/successor", "params": update(str(number))})
    assert link.pending("a>b") == 100 - 65
    clock.advance(30)
    assert link.pending("a>b") == 0
    assert [each["method"] for each in end.take()] == ["_x/may", "$/cancel_request", "_x/ask"] + [
        "session/update"
    ] * 100
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize("limits", [Limits(max_queued_messages=8), Limits(max_queued_bytes=900)])
def test_what_waits_behind_a_handler_is_bounded(limits: Limits) -> None:
    """In number and in bytes: then the link is read no further, until half of that has gone on (rule 6)."""
    waiting: Deferred[Any] = Deferred()
    proxy = AcpProxy.builder().limits(limits).agent_request_handler("_x/ask", lambda params, context: waiting)
    connection = proxy.build().connect(Clock())
    end = RawEnd()
    link = MemoryLink(end, connection.port, connection.port.clock)
    end.send({"id": 1, "method": "proxy/successor", "params": {"method": "_x/ask", "params": {"sessionId": "s1"}}})
    for number in range(30):
        end.send({"method": "proxy/successor", "params": update(f"{number:50}")})
    assert link.pending("a>b") > 15
    assert end.received == []
    waiting.callback(PASS)
    assert link.pending("a>b") == 0
    assert len(end.received) == 31
