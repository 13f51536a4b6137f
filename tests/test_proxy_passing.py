"""
What a chain does to messages that nobody in it takes out: nothing.
"""

from __future__ import annotations

import pytest
from chain_parts import RawChain, passing
from twisted.internet.task import Clock
from wire import success

from acp_twisted import AcpAgent, AcpClient
from acp_twisted.proxy.conductor import Conductor
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink

BODIES = [
    '{"zeta":1.50,"alpha":[{"x":null}],"_meta":{"k":"v"},"unknown":1E2,"big":12345678901234567890123}',
    '{ "sessionId" : "s" , "text":"\\u00e9 \\/ é" }',
    "[1,2.0]",
]


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("body", BODIES)
def test_what_passes_keeps_its_bytes(count: int, body: str) -> None:
    """Params, results and errors of methods that nobody knows go through byte for byte, both ways; ids are per hop."""
    chain = RawChain([passing() for _ in range(count)])
    for here, there in ((chain.client, chain.agent), (chain.agent, chain.client)):
        here.send_text(f'{{"jsonrpc":"2.0","method":"_x/note","params":{body}}}')
        assert there.lines[-1] == f'{{"jsonrpc":"2.0","method":"_x/note","params":{body}}}'.encode()
        for member, outcome in (("result", body), ("error", f'{{"code":-32042,"message":"m","data":{body}}}')):
            here.send_text(f'{{"jsonrpc":"2.0","id":"mine","method":"_x/ask","params":{body}}}')
            sent = there.take()[-1]
            assert there.lines[-1].endswith(f'"method":"_x/ask","params":{body}}}'.encode())
            there.send_text(f'{{"jsonrpc":"2.0","id":{sent["id"]},"{member}":{outcome}}}')
            assert here.lines[-1] == f'{{"jsonrpc":"2.0","id":"mine","{member}":{outcome}}}'.encode()


def test_a_turn_through_three_proxies() -> None:
    """Our own client and agent notice nothing of what is between them."""

    async def prompt(request: v1.PromptRequest, context: object) -> v1.PromptResponse:
        await context.send_message("hello")  # type: ignore[attr-defined]
        return v1.PromptResponse(stop_reason="end_turn")

    clock = Clock()
    agent = AcpAgent.builder().prompt_handler(prompt).build()
    builder = Conductor.builder()
    for _ in range(3):
        builder.proxy(passing())
    chain = builder.agent(agent).build().chain(clock)
    texts: list[object] = []
    client = AcpClient.builder().session_update_handler(lambda update: texts.append(update.update)).build()
    connection = client.connection(clock)
    MemoryLink(connection.peer, chain.client, clock)
    assert success(connection.initialize()).protocol_version == 1
    session = success(connection.new_session("/w"))
    assert success(session.prompt("hi").response).stop_reason == "end_turn"
    assert len(texts) == 1
