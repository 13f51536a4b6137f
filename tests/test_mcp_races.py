"""
Races of cancellation, answer, progress and timeout in MCP: whatever the schedule, each call ends once, at the right
time, and at most one cancellation is sent for it, while it was unanswered.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_parts import HANDSHAKE, STATELESS, ClientHalf
from test_mcp_over_acp import Chain
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from wire import success

from acp_twisted.errors import AcpConnectionError, AcpError, RequestCancelled, RequestTimedOut
from acp_twisted.mcp.server import ToolContext
from acp_twisted.mcp.types import Tool, ToolResult

TIMES = st.sampled_from([0.0, 1.0, 4.0, 5.0, 9.0])
WHICH = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from([0.0, 5.0, 10.0]), st.sampled_from([0.0, 8.0, 12.0])),
        st.tuples(st.just("cancel"), WHICH, st.booleans()),
        st.tuples(st.just("progress"), WHICH),
        st.tuples(st.just("answer"), WHICH),
        st.tuples(st.just("refuse"), WHICH),
        st.tuples(st.just("server cancels"), WHICH),
        st.tuples(st.just("wait"), TIMES),
        st.tuples(st.just("lose")),
    ),
    max_size=30,
)


@define(eq=False)
class Expected:
    """
    What must become of one call.

    @ivar outcome: the class of what it ended with; L{None} while it waits.
    """

    number: int
    token: str
    timeout: float
    deadline: float | None
    hard: float | None
    outcome: type[Any] | None = None
    cancels: int = 0
    endings: list[Any] = field(factory=list)


class ClientModel:
    """
    A client, and what must become of its calls.
    """

    def __init__(self, version: str) -> None:
        self.half = ClientHalf(version=version)
        self.calls: list[tuple[Any, Expected]] = []
        self.told: Counter[str] = Counter()
        self.lost = False

    def step(self, what: str, *how: Any) -> None:
        """One thing happens."""
        if what == "ask":
            if not self.lost:
                self.ask(*how)
        elif what == "wait":
            self.half.clock.advance(*how)
        elif what == "lose":
            self.lost = True
            self.half.link.b.abort("gone")
            for _, expected in self.calls:
                expected.outcome = expected.outcome or AcpConnectionError
        elif how[0] < len(self.calls):
            self.about(what, *self.calls[how[0]], *how[1:])
        now = self.half.clock.seconds()
        for _, expected in self.calls:
            if expected.outcome is None and expected.deadline is not None and expected.deadline <= now:
                expected.outcome = RequestTimedOut
                expected.cancels = 1

    def ask(self, timeout: float, max_timeout: float) -> None:
        """A call begins."""
        now = self.half.clock.seconds()
        call = self.half.client.call_tool("t", timeout=timeout, max_timeout=max_timeout)
        sent = self.half.last()
        token = sent["params"]["_meta"]["progressToken"]
        bound = min([each for each in (timeout, max_timeout) if each], default=None)
        expected = Expected(
            sent["id"],
            token,
            timeout,
            None if bound is None else now + bound,
            now + max_timeout if max_timeout else None,
        )
        call.addBoth(expected.endings.append)
        self.calls.append((call, expected))

    def about(self, what: str, call: Any, expected: Expected, by_handle: bool = False) -> None:
        """Something happens to a call."""
        waiting = expected.outcome is None
        if what == "cancel":
            if by_handle:
                call.cancel_handle().cancel("a reason")
                expected.cancels = 1 if waiting else expected.cancels
            else:
                call.cancel("a reason")
                if waiting:
                    expected.outcome, expected.cancels = RequestCancelled, 1
        elif what == "progress":
            now = self.half.clock.seconds()
            self.half.progress(expected.token, 1)
            if waiting and not self.lost and expected.timeout and expected.deadline is not None:
                expected.deadline = now + expected.timeout
                if expected.hard is not None:
                    expected.deadline = min(expected.deadline, expected.hard)
        elif what == "server cancels":
            self.half.send({"method": "notifications/cancelled", "params": {"requestId": expected.number}})
        elif not self.lost:
            if what == "answer":
                self.half.result(expected.number, {"content": []})
            else:
                self.half.error(expected.number, -32000)
            if waiting:
                expected.outcome = ToolResult if what == "answer" else AcpError

    def check(self) -> None:
        """All is as it must be."""
        cancels = Counter(each["requestId"] for each in self.half.cancels)
        for _, expected in self.calls:
            assert cancels[expected.number] == expected.cancels
            if expected.outcome is None:
                assert expected.endings == []
            else:
                (ending,) = expected.endings
                value = ending.value if isinstance(ending, Failure) else ending
                assert isinstance(value, expected.outcome), value
        assert set(cancels) <= {expected.number for _, expected in self.calls}
        waiting = sum(expected.outcome is None for _, expected in self.calls)
        assert self.half.client.session.peer.pending_requests == waiting
        assert len(self.half.client.session._asked) == waiting


@settings(max_examples=150, deadline=None)
@given(version=st.sampled_from([STATELESS, HANDSHAKE[0]]), steps=STEPS)
def test_a_call_ends_once_and_is_cancelled_at_most_once(version: str, steps: list[tuple[Any, ...]]) -> None:
    """Against a model of timeouts, progress, answers and cancellations in any order (M1, M9, M13-M16, M24, M25)."""
    model = ClientModel(version)
    for step in steps:
        model.step(*step)
        model.check()
    model.step("lose")
    model.half.clock.advance(0)
    model.check()
    assert model.half.clock.getDelayedCalls() == []


HOPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.sampled_from([0.0, 5.0])),
        st.tuples(st.just("cancel"), WHICH),
        st.tuples(st.just("finish"), WHICH),
        st.tuples(st.just("progress"), WHICH),
        st.tuples(st.just("deliver"), st.sampled_from(["a>b", "b>a"])),
        st.tuples(st.just("wait"), TIMES),
    ),
    max_size=40,
)


class ChainModel:
    """
    MCP over ACP, with every message delivered by hand.
    """

    def __init__(self, form: str) -> None:
        self.chain = Chain(form)
        self.work: list[tuple[Deferred[str], ToolContext]] = []
        self.stopped: Counter[int] = Counter()
        self.chain.server.add_tool(Tool(name="work", input_schema={}), self.begin)
        self.client = self.chain.connect()
        self.chain.link.auto = False
        self.chain.link.wire.clear()
        self.calls: list[tuple[Any, list[Any]]] = []

    def begin(self, arguments: dict[str, Any], context: ToolContext) -> Deferred[str]:
        """The tool."""
        number = len(self.work)

        def stop(_: Deferred[str]) -> None:
            assert context.token.cancelled
            self.stopped[number] += 1

        self.work.append((Deferred(stop), context))
        return self.work[-1][0]

    def step(self, what: str, how: Any) -> None:
        """One thing happens."""
        if what == "call":
            endings: list[Any] = []
            call = self.client.call_tool("work", timeout=how)
            call.addBoth(endings.append)
            self.calls.append((call, endings))
        elif what == "deliver":
            self.chain.link.deliver(how)
        elif what == "wait":
            self.chain.clock.advance(how)
        elif what == "cancel" and how < len(self.calls):
            self.calls[how][0].cancel()
        elif what in ("finish", "progress") and how < len(self.work):
            work, context = self.work[how]
            if what == "progress":
                context.progress(1)
            elif not work.called:
                work.callback("done")

    def check_end(self) -> None:
        """Everything was delivered, and every tool has finished."""
        unfinished: list[Any] = [None]
        while self.chain.link.deliver_all() or unfinished:
            unfinished = [work for work, _ in self.work if not work.called]
            for work in unfinished:
                work.callback("done")
        sent = {way: self.chain.sent(way) for way in ("a>b", "b>a")}
        asked = [each["id"] for each in sent["b>a"] if each.get("method") == "mcp/message" and "id" in each]
        answered = Counter(each["id"] for each in sent["a>b"] if "method" not in each)
        assert answered == Counter(asked)
        cancels = Counter(
            each["params"]["requestId"] for each in sent["b>a"] if each.get("method") == "$/cancel_request"
        )
        assert set(cancels) <= set(asked)
        assert set(cancels.values()) <= {1}
        assert len(self.work) == len(self.calls)
        assert set(self.stopped.values()) <= {1}
        for _, endings in self.calls:
            (ending,) = endings
            assert not isinstance(ending, Failure) or isinstance(ending.value, (RequestCancelled, RequestTimedOut))
        assert self.chain.acp_agent.peer.pending_requests == 0
        assert self.chain.acp_client.peer.incoming_requests == 0
        assert self.client.session.peer.pending_requests == 0
        assert self.chain.server._active == 0
        assert self.chain.clock.getDelayedCalls() == []


@settings(max_examples=100, deadline=None)
@given(form=st.sampled_from(["stateless", "connection"]), steps=HOPS)
def test_both_protocols_keep_their_rules_on_one_connection(form: str, steps: list[tuple[str, Any]]) -> None:
    """Each ACP request is answered once and cancelled at most once; each call of MCP ends once (C47, M20, M25, X5)."""
    model = ChainModel(form)
    for step in steps:
        model.step(*step)
    model.check_end()
    model.chain.link.auto = True
    assert success(model.client.call_tool("echo", {"text": "still"})).text == "still"
