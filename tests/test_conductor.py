"""
The conductor: how a chain begins and ends, and what becomes of everybody when a part of it goes.
"""

from __future__ import annotations

from typing import Any

import pytest
from chain_parts import RawChain, RawEnd, RawFactory, passing
from twisted.internet.task import Clock

from acp_twisted import AcpAgent, AcpProxy, AgentCommand, Conductor, Limits
from acp_twisted.errors import InternalError
from acp_twisted.proxy import inside
from acp_twisted.proxy.context import ProxyContext
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink

INITIALIZE = {"id": 0, "method": "initialize", "params": {"protocolVersion": 1, "_unknown": True}}


def start(conductor: Conductor, clock: Any = None) -> tuple[RawEnd, Any]:
    """A raw client of it, and its chain."""
    chain = conductor.chain(clock or Clock())
    client = RawEnd()
    MemoryLink(client, chain.client, clock or Clock())
    return client, chain


@pytest.mark.parametrize("older", [False, True])
def test_the_proxy_protocol_on_the_wire(older: bool) -> None:
    """Each message between the conductor, a proxy and an agent, in both spellings: initialize is renamed on each hop,
    envelopes are put on and taken off, and their own metadata goes no further."""
    begin, wrap = ("_proxy/initialize", "_proxy/successor") if older else ("proxy/initialize", "proxy/successor")
    proxies, agents = RawFactory(), RawFactory()
    conductor = Conductor.builder().older_spelling(older).proxy(proxies).agent(agents).build()
    client, _ = start(conductor)
    client.send(INITIALIZE)
    proxy, agent = proxies.end, agents.end
    (first,) = proxy.take()
    assert (first["method"], first["params"]) == (begin, INITIALIZE["params"])
    proxy.send({"id": "p", "method": wrap, "params": {"method": "initialize", "params": {"a": 1}, "_meta": {"e": 1}}})
    (second,) = agent.take()
    assert second == {"id": second["id"], "method": "initialize", "params": {"a": 1}}
    agent.send({"id": second["id"], "result": {"protocolVersion": 1}})
    assert proxy.take() == [{"id": "p", "result": {"protocolVersion": 1}}]
    proxy.send({"id": first["id"], "result": {"protocolVersion": 1, "x": 1}})
    assert client.take() == [{"id": 0, "result": {"protocolVersion": 1, "x": 1}}]

    agent.send({"method": "_x/note", "params": {"x": 1}}, {"id": "a", "method": "_x/ask", "params": {"q": 1}})
    note, ask = proxy.take()
    assert note == {"method": wrap, "params": {"method": "_x/note", "params": {"x": 1}}}
    assert (ask["method"], ask["params"]) == (wrap, {"method": "_x/ask", "params": {"q": 1}})
    proxy.send({"id": ask["id"], "result": 42})
    assert agent.take() == [{"id": "a", "result": 42}]
    proxy.send({"method": wrap, "params": {"method": "_x/note", "params": None}}, {"method": "_x/up"})
    assert agent.take() == [{"method": "_x/note"}]
    assert client.take() == [{"method": "_x/up"}]


def test_initialize_comes_first() -> None:
    """Anything else before it is refused, and it may still come; nothing is started before it."""
    agents = RawFactory()
    client, _ = start(Conductor.builder().agent(agents).build())
    client.send({"id": 1, "method": "session/new", "params": {}}, {"method": "session/cancel"})
    assert client.answers(1)[0]["error"]["code"] == -32600
    assert agents.ends == []
    client.send(INITIALIZE)
    agents.end.answer({"protocolVersion": 1})
    assert client.answers(0) == [{"result": {"protocolVersion": 1}}]


@pytest.mark.parametrize("method", ["proxy/successor", "_proxy/successor", "proxy/initialize"])
def test_a_client_is_no_conductor(method: str) -> None:
    """Envelopes and proxy/initialize of a client, or of the agent, lead nowhere: the next hop would take them for the
    conductor's."""
    chain = RawChain([passing()])
    for end in (chain.client, chain.agent):
        params = {"method": "_x/ask", "params": {}}
        end.send({"id": 1, "method": method, "params": params}, {"method": method, "params": params})
        assert end.answers(1)[0]["error"]["code"] == -32600
        end.take()
    assert chain.client.received == chain.agent.received == []


def test_a_proxy_without_a_successor_says_so() -> None:
    """One that is initialized as if it were an agent can't work."""
    client, _ = start(Conductor.builder().agent(passing()).build())
    client.send(INITIALIZE)
    assert "needs a successor" in client.answers(0)[0]["error"]["message"]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_part_that_goes_is_known_to_both_ends(gone: int) -> None:
    """What the client waits for and what the agent waits for is answered with an error that names it, and then the
    chain ends: the client's link last."""
    parts = [RawFactory() for _ in range(3)]
    builder = Conductor.builder().proxy(parts[0], "first").proxy(parts[1], "second").agent(parts[2], "the agent")
    client, chain = start(builder.build())
    client.send(INITIALIZE, {"id": 1, "method": "_x/ask"})
    parts[2].end.send({"id": "a", "method": "_x/ask"})
    lost = parts[gone].end
    assert lost.transport is not None
    lost.transport.close()
    name = ["first", "second", "the agent"][gone]
    for end, number in ((client, 0), (client, 1), (parts[2].end, "a")):
        if end is lost:
            continue
        (answer,) = end.answers(number)
        assert answer["error"]["code"] == -32603
        assert answer["error"]["message"].startswith(f"{name} is gone")
        assert answer["error"]["data"]["component"] == name
    assert client.lost
    assert all(each.end.lost for each in parts)
    assert chain.failure.data["component"] == name
    assert chain.when_gone().called


def test_the_order_of_the_end() -> None:
    """A shutdown cancels what the client has asked, waits for its answer, and ends the parts from the client's side to
    the agent; the client's link is the last."""
    order: list[str] = []

    class Noting(RawFactory):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def build_receiver(self, clock: Any) -> Any:
            end: Any = super().build_receiver(clock)
            end.connection_lost = lambda reason: order.append(self.name)
            return end

    parts = [Noting("first"), Noting("second"), Noting("agent")]
    conductor = Conductor.builder().proxy(parts[0]).proxy(parts[1]).agent(parts[2]).build()
    client, chain = start(conductor)
    client.connection_lost = lambda reason: order.append("client")  # type: ignore[method-assign]
    client.send(INITIALIZE)
    parts[0].end.answer({"protocolVersion": 1})
    client.send({"id": 1, "method": "_x/ask"})
    gone = chain.shutdown()
    assert not gone.called
    assert parts[0].end.received[-1]["method"] == "$/cancel_request"
    assert order == []
    parts[0].end.fail({"code": -32800, "message": "Request cancelled"})
    assert client.answers(1) == [{"error": {"code": -32800, "message": "Request cancelled"}}]
    assert order == ["first", "second", "agent", "client"]
    assert gone.called


def test_a_chain_that_was_never_asked_for_anything() -> None:
    """It ends without having begun; nothing is started for its end."""
    agents = RawFactory()
    client, chain = start(Conductor.builder().proxy(passing()).agent(agents).build())
    assert chain.shutdown().called
    assert client.lost
    assert agents.ends == []


def test_a_client_that_has_said_everything_is_answered_first() -> None:
    """The end of its output is a half-close: what it asked is answered, then the chain ends."""
    chain = RawChain([passing()])
    chain.client.send({"id": 1, "method": "_x/ask"})
    transport: Any = chain.client.transport
    transport.half_close()
    assert not chain.agent.lost
    chain.agent.answer({"fine": True})
    assert chain.client.answers(1) == [{"result": {"fine": True}}]
    assert chain.agent.lost
    assert chain.client.lost


def test_a_part_that_answers_nobody_does_not_hold_the_end() -> None:
    """After the drain timeout everybody is answered and the chain ends (rule 1)."""
    chain = RawChain([passing()], limits=Limits(drain_timeout=5))
    chain.client.send({"id": 1, "method": "_x/ask"})
    chain.chain.shutdown()
    for _ in range(3):
        chain.clock.advance(5)
    assert chain.client.answers(1)[0]["error"]["code"] == -32800
    assert chain.agent.lost
    assert chain.client.lost


@pytest.mark.parametrize("where", ["proxy", "agent"])
def test_a_part_that_can_not_be_started(where: str) -> None:
    """It is the answer to initialize, with its name, and the rest is ended again."""
    agents = RawFactory()
    missing = AgentCommand(("/nonexistent/program", "--key=secret"))
    builder = Conductor.builder()
    builder = builder.proxy(missing).agent(agents) if where == "proxy" else builder.proxy(passing()).agent(missing)
    client, chain = start(builder.build())
    client.send(INITIALIZE)
    (answer,) = client.answers(0)
    assert "could not be started" in answer["error"]["message"]
    assert answer["error"]["data"] == {"component": "proxy 1" if where == "proxy" else "agent"}
    assert "secret" not in str(answer)
    assert client.lost
    assert all(end.lost for end in agents.ends)
    assert chain.when_gone().called


@pytest.mark.parametrize("how", ["missing", "hangs up", "shutdown"])
def test_nothing_is_started_for_a_chain_that_has_ended(how: str) -> None:
    """Where the chain is ended in the midst of its start, the parts that were still to come are left alone."""
    agents, proxies = RawFactory(), RawFactory()
    what: Any = AgentCommand(("/nonexistent/program",)) if how == "missing" else proxies
    client, chain = start(Conductor.builder().proxy(what).agent(agents).build())

    def join(one: Any, other: Any, limits: Any, clock: Any) -> None:
        inside.join(one, other, limits, clock)
        if other in proxies.ends:
            other.transport.abort("enough") if how == "hangs up" else chain.shutdown()

    chain.join = join
    client.send(INITIALIZE)
    assert client.lost
    assert agents.ends == []
    assert [end.lost for end in proxies.ends] == ([] if how == "missing" else [True])
    assert chain.when_gone().called


def test_a_chain_within_a_chain() -> None:
    """A conductor without an agent of its own is a proxy of another, to any depth, and both spellings meet."""
    marks = [AcpProxy.builder().agent_notification_handler("_x/note", mark(name)).build() for name in "abcd"]
    inner = Conductor.builder().older_spelling().proxy(marks[1]).proxy(marks[2]).build()
    assert inner.is_proxy
    middle = Conductor.builder().proxy(inner).build()
    chain = RawChain([marks[0], middle, marks[3]])
    chain.agent.send({"method": "_x/note", "params": {"by": ""}})
    assert chain.client.received[-1]["params"] == {"by": "dcba"}
    chain.client.send({"id": 1, "method": "_x/ask"})
    chain.client.send({"method": "$/cancel_request", "params": {"requestId": 1}})
    assert [each["method"] for each in chain.agent.received] == ["_x/ask", "$/cancel_request"]
    chain.agent.answer({"fine": 1})
    assert chain.client.answers(1) == [{"result": {"fine": 1}}]
    assert chain.agent.transport is not None
    chain.client.send({"id": 2, "method": "_x/ask"})
    chain.agent.transport.close()
    assert "agent is gone" in chain.client.answers(2)[0]["error"]["message"]
    assert chain.client.lost


def mark(name: str) -> Any:
    """A handler that adds its name."""

    def handle(params: dict[str, str], context: ProxyContext) -> Any:
        return context.forward({"by": params["by"] + name})

    return handle


def test_a_slow_client_holds_the_agent() -> None:
    """What the client does not read stops the agent, through every hop, and goes on when it reads; nothing is lost and
    no queue grows (rule 6)."""
    limits = Limits(high_water_bytes=1000, low_water_bytes=500)
    proxies = [AcpProxy.builder().limits(limits).build() for _ in range(2)]
    chain = RawChain(proxies, limits=limits)
    client, agent = chain.client.transport, chain.agent.transport
    assert client is not None
    assert agent is not None
    client.pauseProducing()
    sent = 0
    paused: list[bool] = []
    chain.agent.writing_paused = lambda: paused.append(True)  # type: ignore[method-assign]
    chain.agent.writing_resumed = lambda: paused.append(False)  # type: ignore[method-assign]
    while not paused:
        sent += 1
        assert sent < 1000
        chain.agent.send({"method": "_x/note", "params": {"number": sent, "pad": "x" * 50}})
    ports = [chain.chain.client, *chain.chain.ports]
    assert all(port._transport is not None and port._transport.unsent < 2000 for port in ports)
    client.resumeProducing()
    assert paused == [True, False]
    assert [each["params"]["number"] for each in chain.client.received] == list(range(1, sent + 1))


def test_a_slow_agent_holds_the_client() -> None:
    """The same the other way; what stays stalled is cut with a reason, and both ends know (rule 6)."""
    limits = Limits(high_water_bytes=1000, low_water_bytes=500, stall_timeout=7)
    chain = RawChain([AcpProxy.builder().limits(limits).build()], limits=limits)
    agent = chain.agent.transport
    assert agent is not None
    agent.pauseProducing()
    paused: list[bool] = []
    chain.client.writing_paused = lambda: paused.append(True)  # type: ignore[method-assign]
    number = 0
    while not paused:
        number += 1
        assert number < 1000
        chain.client.send({"id": number, "method": "_x/ask", "params": {"pad": "x" * 50}})
        if number == 1:
            chain.clock.advance(1)  # the first to stall is the first whose time is over
    chain.clock.advance(6)
    (answer,) = chain.client.answers(1)
    assert "stall_timeout" in answer["error"]["message"]
    assert chain.client.lost


def test_floods_both_ways_do_not_lock() -> None:
    """Two ends that write much and read late, through proxies whose one link carries both ways, get everything in
    order: no part of the chain waits for another that waits for it (rule 6)."""
    limits = Limits(high_water_bytes=1000, low_water_bytes=500)
    chain = RawChain([AcpProxy.builder().limits(limits).build() for _ in range(3)], limits=limits)
    ends = [chain.client, chain.agent]
    for end in ends:
        assert end.transport is not None
        end.transport.pauseProducing()
    for number in range(200):
        for end in ends:
            end.send({"method": "_x/note", "params": {"number": number, "pad": "x" * 50}})
    for end in ends:
        assert end.transport is not None
        end.transport.resumeProducing()
    for end in ends:
        assert [each["params"]["number"] for each in end.received] == list(range(200))


def test_a_proxy_that_floods_is_held() -> None:
    """One that writes on its own account what nobody reads is read no further, at the second mark (rule 6)."""
    limits = Limits(high_water_bytes=1000, low_water_bytes=500, pause_reading_bytes=3000)
    factory = RawFactory()
    chain = RawChain([factory], limits=limits, initialize=False)
    chain.client.send(INITIALIZE)
    assert chain.client.transport is not None
    chain.client.transport.pauseProducing()
    for number in range(200):
        factory.end.send({"method": "_x/note", "params": {"number": number}})
    port = chain.chain.client
    assert port._transport is not None
    assert port._transport.unsent < 4000
    assert chain.chain.ports[0]._holds
    chain.client.transport.resumeProducing()
    assert [each["params"]["number"] for each in chain.client.received] == list(range(200))
    assert not chain.chain.ports[0]._holds


def test_a_link_that_is_full_for_one_session() -> None:
    """Where a transport has a stream for each session, as HTTP has, a full one holds the agent too; and what such a
    transport can't have answered is an error to who waits for it (rule 6)."""
    chain = RawChain([passing()])
    client, agent = chain.chain.client, chain.chain.ports[-1]
    client.lane_writing_paused("s1")
    assert agent._holds
    client.lane_writing_resumed("s1")
    assert not agent._holds
    chain.client.send({"id": 1, "method": "_x/ask"})
    agent.unanswerable(chain.agent.take()[-1]["id"], InternalError("the server refused it"))
    agent.unanswerable(4711, InternalError("nobody's"))
    assert chain.client.answers(1) == [{"error": {"code": -32603, "message": "the server refused it"}}]
    client.lane_writing_paused("s1")
    assert chain.client.transport is not None
    chain.client.transport.abort("gone")
    assert not agent._holds


def test_answers_that_can_not_be_read() -> None:
    """An answer that is none, or too large, or no JSON at all, is an error to who waits for it (rule 1)."""
    chain = RawChain([passing()])
    port = chain.chain.ports[-1]
    for number, rest in enumerate(("", ',"error":5', ',"result":nan')):
        chain.client.send({"id": number, "method": "_x/ask"})
        chain.agent.send_text(f'{{"jsonrpc":"2.0","id":{chain.agent.take()[-1]["id"]}{rest}}}')
        assert chain.client.answers(number) == [{"error": {"code": -32603, "message": "The answer can't be read"}}]
    chain.client.send({"id": "big", "method": "_x/ask"})
    head = b'{"jsonrpc":"2.0","id":%d,"result":"' % chain.agent.take()[-1]["id"]
    port.oversized_received(head, 10**9)
    assert chain.client.answers("big")[0]["error"]["message"] == "The answer is too large"
    chain.client.send({"id": "text", "method": "_x/ask"})
    chain.agent.send({"id": str(chain.agent.take()[-1]["id"]), "result": 1})
    assert chain.client.answers("text") == [{"result": 1}]
    chain.agent.send_text("some banner")
    chain.agent.send({"id": 999, "result": 1})
    assert port.stray_messages == 1
    assert not chain.client.lost


def test_what_a_builder_refuses() -> None:
    """Nothing behind the agent, no empty chain, nothing that is no component."""
    with pytest.raises(ValueError, match="needs a component"):
        Conductor.builder().build()
    agent = AcpAgent.builder().prompt_handler(lambda _: v1.PromptResponse(stop_reason="end_turn")).build()
    builder = Conductor.builder().agent(agent)
    with pytest.raises(ValueError, match="last of a chain"):
        builder.proxy(passing())
    with pytest.raises(ValueError, match="empty command line"):
        Conductor.builder().proxy(" ")
    nothing: Any = 5
    with pytest.raises(TypeError, match="is no component"):
        Conductor.builder().proxy(nothing)
    component = Conductor.builder().proxy("a 'b c' -d").build().components[0]
    assert isinstance(component.what, AgentCommand)
    assert component.what.argv == ("a", "b c", "-d")
