"""
Rules of cancellation across threads, with the real reactor's pool: client code that blocks, and a handler that does.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.internet.threads import blockingCallFromThread, deferToThread

from acp_twisted import AcpAgent, AcpClient, CancellationSignal, PromptContext, SyncPromptContext, current_token
from acp_twisted.client.session import ClientSession
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink


async def opened(agent: AcpAgent) -> ClientSession:
    """A client of that agent on a memory link, with a session."""
    from twisted.internet import reactor

    any_reactor: Any = reactor
    receiver = agent.build_receiver(any_reactor)
    connection = AcpClient.builder().build().connection(any_reactor)
    MemoryLink(connection.peer, receiver, any_reactor)
    await connection.initialize()
    return await connection.new_session("/w")


@pytest_twisted.ensureDeferred
async def test_blocking_code_stops_a_prompt_by_a_signal() -> None:
    """A thread waits for the answer that another thread's signal brings, with its stop reason (J12)."""
    from twisted.internet import reactor

    any_reactor: Any = reactor
    started = threading.Event()

    async def handler(request: v1.PromptRequest, context: PromptContext) -> str:
        started.set()
        await context.when_cancelled()
        return "whatever"

    session = await opened(AcpAgent.builder().prompt_handler(handler).build())
    stop = CancellationSignal()
    request = v1.PromptRequest(session_id=session.session_id, prompt=[v1.TextContent(text="hi")])

    def waits() -> Any:
        prompt: Any = session.connection.prompt
        return blockingCallFromThread(any_reactor, prompt, request, stop)

    def stops() -> None:
        assert started.wait(300)
        any_reactor.callFromThread(stop.cancel)

    waiting = deferToThread(waits)
    await deferToThread(stops)
    assert (await waiting).stop_reason == "cancelled"
    await session.connection.close()


@pytest_twisted.ensureDeferred
async def test_a_blocking_handler_is_told_by_a_callback() -> None:
    """It can't be interrupted; but on_cancel ends what it waits for, and its thread has its token (J22, J23)."""
    noticed: list[bool] = []
    running: Deferred[None] = Deferred()

    def handler(request: v1.PromptRequest, context: SyncPromptContext) -> v1.PromptResponse:
        ended = threading.Event()
        context.on_cancel(ended.set)
        context.send_message("running")
        noticed.append(ended.wait(300))
        noticed.append(context.is_cancelled and current_token().cancelled)
        return v1.PromptResponse(stop_reason="end_turn")

    session = await opened(AcpAgent.builder().prompt_handler(handler, blocking=True).build())
    session.on_update(lambda _: running.callback(None))
    turn = session.prompt("go")
    await running
    turn.cancel()
    assert (await turn).stop_reason == "cancelled"
    assert noticed == [True, True]
    await session.connection.close()
