"""
What a long conversation leaves behind: nothing.  Memory stays flat over 100 000 cancelled prompts, and every table is
empty.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from wire import failure, success

from acp_twisted import AcpAgent, AcpClient, CancellationSignal, PromptContext
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.session import ClientSession
from acp_twisted.errors import RequestCancelled, RequestTimedOut
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink

WARM_UP = 10_000
PROMPTS = 100_000
TRACED = 10_000
SMALL_BLOCK = 512  # the largest that the interpreter does not ask the system for
MIB = 1024 * 1024


class Pair:
    """
    An agent whose handlers end when they are cancelled, each in its own way, and a client, on one link.

    @ivar waiting: the agent's answers to C{_wait}, which the test gives.
    """

    def __init__(self, *, auto: bool = True) -> None:
        self.clock = Clock()
        self.waiting: list[Deferred[Any]] = []
        self.ways = cycle([self._by_itself, self._by_cancellation, self._asking])
        agent = (
            AcpAgent.builder()
            .prompt_handler(self._prompt)
            .ext_request_handler("_wait", self._wait)
            .request_timeout(0)
            .build()
        )
        client = (
            AcpClient.builder()
            .request_permission_handler(lambda request: Deferred())
            .session_update_handler(lambda notification: None)
            .build()
        )
        self.client: ClientConnection = client.connection(self.clock)
        self.agent: AgentConnection = agent.connect(self.clock)
        self.link = MemoryLink(self.client.peer, self.agent.peer, self.clock)
        self.client.initialize()
        self.session: ClientSession = success(self.client.new_session("/w"))
        self.link.auto = auto

    def _wait(self, params: object) -> Deferred[Any]:
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def _prompt(self, request: v1.PromptRequest, context: PromptContext) -> Any:
        context.send_message("working")
        return next(self.ways)(context)

    @staticmethod
    def _by_itself(context: PromptContext) -> Deferred[Any]:
        """It looks at its token, and ends."""
        return context.when_cancelled().addCallback(lambda _: v1.PromptResponse(stop_reason="end_turn"))

    @staticmethod
    def _by_cancellation(context: PromptContext) -> Deferred[Any]:
        """It never ends; the grace period does it for it."""
        return Deferred()

    @staticmethod
    async def _asking(context: PromptContext) -> v1.PromptResponse:
        """It waits for the user."""
        option = v1.PermissionOption(option_id="y", name="Yes", kind="allow_once")
        await context.request_permission(v1.ToolCallUpdate(tool_call_id="t"), [option])
        return v1.PromptResponse(stop_reason="end_turn")

    def cancelled_prompts(self, count: int) -> None:
        """Prompt, and cancel by one of the ways that there are."""
        ways: Iterator[Callable[[], None]] = cycle(
            [self._session_cancel, self._cancel_request, self._signal, self._handle, self._cancel_request]
        )
        for _ in range(count):
            next(ways)()
            self.link.wire.clear()  # the link keeps what a test may want to look at
            assert self.session.turn is None

    def _session_cancel(self) -> None:
        turn = self.session.prompt("go")
        turn.cancel()
        if turn.response.pending.live:
            self.clock.advance(60)
        assert success(turn.response).stop_reason == "cancelled"

    def _cancel_request(self) -> None:
        turn = self.session.prompt("go")
        turn.response.cancel()
        failure(turn.response, RequestCancelled)

    def _signal(self) -> None:
        stop = CancellationSignal()
        turn = self.session.prompt("go", stop)
        stop.cancel()
        self.clock.advance(60)
        assert success(turn.response).stop_reason == "cancelled"

    def _handle(self) -> None:
        turn = self.session.prompt("go")
        turn.response.cancel_handle().cancel()
        failure(turn.response, RequestCancelled)

    def check_empty(self) -> None:
        """Every table of both halves is empty, and no timer runs."""
        for connection in (self.client, self.agent):
            peer = connection.peer
            assert peer.pending_requests == peer.incoming_requests == len(peer.lanes) == 0
            assert len(peer._outgoing._given_up) <= peer.limits.max_remembered_ids
        assert self.client._permissions == {}
        assert self.client._cancelling == set()
        assert len(self.client._early) == self.client._opening == 0
        assert all(not session.busy for session in self.agent._sessions.values())
        assert len(self.agent._sessions) == len(self.client._sessions) == 1
        assert self.clock.getDelayedCalls() == []


def _grown(work: Callable[[], None]) -> int:
    """How many bytes C{work} leaves behind."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("way", ["session/cancel", "$/cancel_request"])
def test_what_is_measured_can_grow(way: str) -> None:
    """The measure sees a leak: updates that nobody takes are kept, up to their limit, and it says so."""
    pair = Pair()
    kept: list[Any] = []
    stop = {"session/cancel": lambda turn: turn.cancel(), "$/cancel_request": lambda turn: turn.response.cancel()}

    def leak() -> None:
        for _ in range(2_000):
            turn = pair.session.prompt("go")
            stop[way](turn)
            pair.clock.advance(60)
            turn.response.addErrback(lambda failure: failure.trap(RequestCancelled))
            kept.append(turn)

    assert _grown(leak) > MIB


def test_cancelled_prompts_leave_nothing() -> None:
    """
    Of 100 000 cancelled prompts, a mix of all cancellations, the last 90 000 leave less than 1 MiB in all.

    The interpreter counts the blocks of memory that it has given out, and tracing the last 10 000 prompts tells of
    their bytes; tracing them all would take minutes.
    """
    pair = Pair()
    pair.cancelled_prompts(WARM_UP)
    pair.check_empty()
    gc.collect()
    before = sys.getallocatedblocks()
    pair.cancelled_prompts(PROMPTS - WARM_UP - TRACED)
    gc.collect()
    blocks = sys.getallocatedblocks() - before
    assert blocks * SMALL_BLOCK < MIB, f"{blocks} blocks are left"
    grown = _grown(lambda: pair.cancelled_prompts(TRACED))
    assert grown * (PROMPTS - WARM_UP) / TRACED < MIB, f"{grown} bytes are left"
    pair.check_empty()


def test_timed_out_requests_leave_nothing() -> None:
    """10 000 requests that got no answer in time leave nothing, and their late answers neither (B11, B20)."""
    pair = Pair(auto=False)
    for _ in range(10):
        calls = [pair.client.ext_request("_wait", timeout=5) for _ in range(1_000)]
        pair.link.deliver_all()
        pair.clock.advance(5)
        for call in calls:
            failure(call, RequestTimedOut)
        assert pair.client.peer.pending_requests == 0
        pair.link.deliver_all()
        pair.waiting.clear()
    pair.check_empty()


def test_detached_requests_leave_nothing() -> None:
    """10 000 detached requests keep their places in the table until their answers come, and nothing after that."""
    pair = Pair()
    for _ in range(10):
        for _ in range(1_000):
            pair.client.ext_request("_wait").detach()
        assert pair.client.peer.pending_requests == 1_000
        waiting, pair.waiting = pair.waiting, []
        for answer in waiting:
            answer.callback(None)
    pair.check_empty()
    assert not [message for message in pair.link.sent("a>b") if b"$/cancel_request" in message]


def test_many_sessions_closed_leave_nothing() -> None:
    """Sessions that are closed, with and without a turn, are forgotten by both halves."""
    clock = Clock()
    agent = (
        AcpAgent.builder()
        .prompt_handler(lambda request: Deferred())
        .close_session_handler(lambda request: succeed(None))
        .cancel_grace_period(1)
        .build()
        .connect(clock)
    )
    client = AcpClient.builder().build().connection(clock)
    MemoryLink(client.peer, agent.peer, clock)
    client.initialize()
    for number in range(1_000):
        session = success(client.new_session("/w"))
        if number % 2:
            turn = session.prompt("go")
            closing = session.close()
            clock.advance(1)
            assert success(turn.response).stop_reason == "cancelled"
            success(closing)
        else:
            success(session.close())
    assert agent.session_ids == ()
    assert client._sessions == {}
    assert clock.getDelayedCalls() == []
