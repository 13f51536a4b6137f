"""
A chain of three hops under random schedules: our client half, two proxies with slow and changing handlers in one
conductor, our agent half; every link delivers when the schedule says so.  Design rules 1, 2 and 5 hold at both ends.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from attrs import define, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted import AcpAgent, AcpClient, AcpProxy, Conductor, Limits
from acp_twisted.errors import AcpError
from acp_twisted.interfaces import IMessageReceiverFactory
from acp_twisted.proxy.context import PASS, ProxyContext
from acp_twisted.schema import v1
from acp_twisted.transports.memory import Direction, MemoryLink

SESSIONS = ("s0", "s1")
DIRECTIONS: tuple[Direction, Direction] = ("a>b", "b>a")


@define(eq=False)
class Asked:
    """
    A request of one end.

    @ivar received: how often it reached the other end.
    @ivar outcomes: what its caller got.
    @ivar told: whether the other end was told of its cancellation.
    @ivar before: how many updates of its session had been sent when its answer was given.
    @ivar seen: how many of them had come when its answer did.
    """

    number: int
    session: str
    call: Any = None
    work: Deferred[Any] | None = None
    received: int = 0
    cancelled: bool = False
    settled: bool = False
    told: int = 0
    before: int = -1
    seen: int = -1
    outcomes: list[Any] = field(factory=list)


class ChainMachine(RuleBasedStateMachine):
    """The two ends and everything between, in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.asked: dict[int, Asked] = {}
        self.sent: Counter[str] = Counter()
        self.came: dict[str, list[int]] = {session: [] for session in SESSIONS}
        self.waiting: list[tuple[Deferred[Any], Any]] = []
        self.links: list[MemoryLink] = []
        agent = AcpAgent.builder().prompt_handler(self._never)
        agent.ext_request_handler("_x/up", self._handle).ext_notification_handler("_x/note", lambda _: None)
        self.agent = agent.request_timeout(0).build().connect(self.clock)
        client = AcpClient.builder().session_update_handler(self._update)
        client.ext_request_handler("_x/down", self._handle)
        self.client = client.request_timeout(0).build().connection(self.clock)
        slow = AcpProxy.builder().name("slow").agent_notification_handler(v1.SessionNotification, self._slow)
        linked = AcpProxy.builder().name("linked")
        linked.client_request_handler("_x/up", self._forwarding).agent_request_handler("_x/down", lambda _: PASS)
        conductor = Conductor.builder().proxy(slow.build()).proxy(linked.build()).agent(_Fixed(self.agent.peer)).build()
        self.chain = conductor.chain(self.clock)
        self.chain.join = lambda one, other, limits, clock: self.links.append(MemoryLink(one, other, clock, limits))
        self.links.append(MemoryLink(self.client.peer, self.chain.client, self.clock))
        self.client.initialize()
        assert self.chain._state == "running"
        for link in self.links:
            link.auto = False

    def pump(self) -> None:
        """Deliver until nothing moves."""
        while sum(link.deliver(way) for link in self.links for way in DIRECTIONS):
            pass

    # ---- what the ends and the proxies do

    def _never(self, _: Any) -> Any:
        raise AssertionError("nobody prompts")

    def _handle(self, params: Any) -> Any:
        one = self.asked[params["n"]]
        one.received += 1
        one.work = Deferred(lambda _: self._told(one))
        return one.work

    @staticmethod
    def _told(one: Asked) -> None:
        one.told += 1

    def _update(self, notification: v1.SessionNotification) -> None:
        chunk: Any = notification.update
        self.came[notification.session_id].append(int(chunk.content.text))

    def _slow(self, notification: v1.SessionNotification, _: ProxyContext) -> Any:
        chunk: Any = notification.update
        if int(chunk.content.text) % 3:
            return PASS
        work: Deferred[Any] = Deferred()
        self.waiting.append((work, PASS))
        return work

    async def _forwarding(self, params: Any, context: ProxyContext) -> Any:
        return await context.forward({**params, "seen": True})

    # ---- the schedule

    def _ask(self, way: str, session: str) -> None:
        one = Asked(len(self.asked), session)
        self.asked[one.number] = one
        end = self.client if way == "up" else self.agent
        one.call = end.ext_request(f"_x/{way}", {"n": one.number, "sessionId": session}, wait=True)

        def settled(outcome: Any) -> None:
            one.outcomes.append(outcome)
            one.seen = len(self.came[session])

        one.call.addBoth(settled)

    @rule(way=st.sampled_from(["up", "down"]), session=st.sampled_from(SESSIONS))
    def ask(self, way: str, session: str) -> None:
        """One end asks the other."""
        self._ask(way, session)

    @rule(session=st.sampled_from(SESSIONS), count=st.integers(1, 3))
    def say(self, session: str, count: int) -> None:
        """The agent sends updates."""
        for _ in range(count):
            self.sent[session] += 1
            text = v1.TextContent(text=str(self.sent[session]))
            self.agent.send_update(session, v1.AgentMessageChunk(content=text))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), again=st.booleans())
    def cancel(self, data: st.DataObject, again: bool) -> None:
        """A caller cancels, and goes on waiting for the answer; twice is once on the next link."""
        one = data.draw(st.sampled_from(list(self.asked.values())))
        one.cancelled = True
        one.call.cancel()
        if again and one.call.request_id is not None:
            end = self.client if one.call.pending.method == "_x/up" else self.agent
            end.send_cancel_request(one.call.request_id)

    @precondition(lambda self: any(each.work is not None and not each.work.called for each in self.asked.values()))
    @rule(data=st.data(), fails=st.booleans())
    def answer(self, data: st.DataObject, fails: bool) -> None:
        """A handler answers."""
        open_ones = [each for each in self.asked.values() if each.work is not None and not each.work.called]
        one = data.draw(st.sampled_from(open_ones))
        assert one.work is not None
        one.before = self.sent[one.session]
        if fails:
            one.work.errback(AcpError(-32042, "asked to", {"n": one.number}))
        else:
            one.work.callback({"n": one.number})

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """A slow handler of a proxy comes to its end."""
        number = data.draw(st.integers(0, len(self.waiting) - 1))
        work, value = self.waiting.pop(number)
        work.callback(value)

    @rule(data=st.data(), count=st.integers(1, 6))
    def deliver(self, data: st.DataObject, count: int) -> None:
        """Some link carries some messages some way."""
        link = data.draw(st.sampled_from(self.links))
        way = data.draw(st.sampled_from(DIRECTIONS))
        for _ in range(count):
            link.deliver(way)

    @rule()
    def deliver_everything(self) -> None:
        """All links carry all there is."""
        self.pump()

    # ---- what always holds

    @invariant()
    def every_request_is_received_and_settled_once_at_most(self) -> None:
        """Rule 1, at both ends; and an outcome is the handler's own, or the cancellation that was asked for."""
        for one in self.asked.values():
            assert one.received <= 1
            assert len(one.outcomes) <= 1
            for outcome in one.outcomes:
                if isinstance(outcome, Failure):
                    error: Any = outcome.value
                    assert error.code in ((-32800, -32042) if one.cancelled else (-32042,)), error
                    assert error.code != -32042 or error.data == {"n": one.number}
                else:
                    assert outcome == {"n": one.number}

    @invariant()
    def every_cancellation_is_told_once_at_most(self) -> None:
        """Rule 2: only of what was cancelled; no link carries more than one for an id, and none before its request."""
        for one in self.asked.values():
            assert one.told <= (1 if one.cancelled else 0)
        for link in self.links:
            for way in DIRECTIONS:
                asked: set[Any] = set()
                cancelled: set[Any] = set()
                for line in link.sent(way):
                    message = json.loads(line)
                    if message.get("method") == "$/cancel_request":
                        number = message["params"]["requestId"]
                        assert number in asked
                        assert number not in cancelled or link in (self.links[0], self.links[-1])
                        cancelled.add(number)
                    elif "method" in message and "id" in message:
                        asked.add(message["id"])

    @invariant()
    def updates_keep_their_order(self) -> None:
        """Rule 5: each session's updates come in order and once; an answer comes after those sent before it."""
        for numbers in self.came.values():
            assert numbers == list(range(1, len(numbers) + 1))
        for one in self.asked.values():
            if one.outcomes and one.before >= 0 and one.call.pending.method == "_x/up" and one.told == 0:
                assert one.seen >= one.before

    def teardown(self) -> None:
        """At the end everything arrives: nothing is lost, nobody is left without an answer."""
        self.settle()
        for session in SESSIONS:
            assert len(self.came[session]) == self.sent[session]
        for one in self.asked.values():
            assert len(one.outcomes) == 1
        ports = [self.chain.client, *self.chain.ports]
        assert all(not port.pending_requests and not port.incoming_requests for port in ports)

    def settle(self) -> None:
        """Let all of it come to its end."""
        for _ in range(1000):
            self.pump()
            for one in self.asked.values():  # who was cancelled knows it by now
                assert not (one.cancelled and one.work is not None and not one.work.called)
            unanswered = [each for each in self.asked.values() if each.work is not None and not each.work.called]
            if not self.waiting and not unanswered:
                break
            for one in unanswered:
                assert one.work is not None
                one.before = self.sent[one.session]
                one.work.callback({"n": one.number})
            while self.waiting:
                work, value = self.waiting.pop(0)
                work.callback(value)
        self.pump()


@implementer(IMessageReceiverFactory)
class _Fixed:
    """A receiver that is there already."""

    limits = Limits()

    def __init__(self, receiver: Any) -> None:
        self._receiver = receiver

    def build_receiver(self, clock: Any) -> Any:
        return self._receiver


def test_random_schedules() -> None:
    """Whatever comes when: one answer, one cancellation, and the order of each session, at both ends (P1, P6)."""
    run_state_machine_as_test(
        ChainMachine,
        settings=settings(
            max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
