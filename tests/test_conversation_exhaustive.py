"""
Every order of a turn's events, up to five of them, through a real agent connection: what stands on the wire is what the
table says.

C{test_prompt_session_exhaustive} plays the same to the state machine alone.  Here the events are messages, and the
answers are read off the wire.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from conversation_running import Summary
from turn_model import ROWS, TRIGGERS, Model
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs
from twisted.python.failure import Failure
from zope.interface import implementer
from zope.interface.verify import verifyObject

from acp_twisted import AcpAgent, AcpConnectionError, PromptContext
from acp_twisted.errors import AuthRequired
from acp_twisted.interfaces import IMessageTransport
from acp_twisted.schema import v1

LONGEST = 5
GRACE, DURATION = 10.0, 1000.0
INITIALIZE = b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}'
NEW = b'{"jsonrpc":"2.0","id":"n","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}'
PROMPT = (
    b'{"jsonrpc":"2.0","id":%d,"method":"session/prompt",'
    b'"params":{"sessionId":"s1","prompt":[{"type":"text","text":"%d"}]}}'
)
CANCEL = b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}'
CANCEL_REQUEST = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}'


@implementer(IMessageTransport)
class Kept:
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.unsent = 0
        self.sent: list[bytes] = []

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    def close(self) -> None:
        pass

    def abort(self, reason: str) -> None:
        pass

    def pauseProducing(self) -> None:
        pass

    def resumeProducing(self) -> None:
        pass

    def stopProducing(self) -> None:
        pass


class Prompted:
    """
    One accepted prompt and its handler.

    @ivar swallows: whether the handler goes on when it is cancelled, so that late results and failures come too.
    """

    def __init__(self, sequence: Sequence, index: int, swallows: bool) -> None:
        self.sequence, self.index, self.swallows = sequence, index, swallows
        self.work: Deferred[Any] = Deferred(self.stopped)
        if swallows:
            self.work.addErrback(self.swallow)
        self.done = False
        self.stops = 0
        self.triggers: Callable[[], tuple[str, ...]] = tuple

    def stopped(self, _: object) -> None:
        self.stops += 1
        self.done = self.done or not self.swallows

    def swallow(self, failure: Failure) -> Any:
        if self.done:
            return failure
        self.work = Deferred()
        return self.work

    def finish(self, event: str) -> None:
        """The handler ends."""
        self.done = True
        self.sequence.model.apply(event, self.index)
        if event == "result":
            self.work.callback(v1.PromptResponse(stop_reason="max_tokens", meta={"n": self.index}))
        else:
            self.work.errback(AuthRequired())


class Sequence:
    """An agent's connection, the table, and every event for both."""

    def __init__(self, agent: AcpAgent, current: list[Sequence], grace: float, duration: float) -> None:
        current[0] = self
        self.clock = Clock()
        self.model = Model()
        self.grace, self.duration = grace, duration
        self.prompts: list[Prompted] = []
        self.ids: list[int] = []
        self.refused: list[int] = []
        self.next_id = 0
        self.swallows = False
        self.told = 0
        self.lost = False
        self.transport = Kept()
        self.connection = agent.connect(self.clock)
        self.receive = self.connection.peer.message_received
        self.connection.peer.connection_made(self.transport)
        self.receive(INITIALIZE)
        self.receive(NEW)
        del self.transport.sent[:]

    def started(self, context: PromptContext) -> Deferred[Any]:
        """The agent's prompt handler."""
        prompted = Prompted(self, len(self.prompts), self.swallows)
        prompted.triggers = lambda: context.cancellations
        self.prompts.append(prompted)
        return prompted.work

    def prompt(self, swallows: bool = False) -> None:
        """A prompt comes."""
        number = self.next_id
        self.next_id += 1
        self.swallows = swallows
        before = len(self.prompts)
        accepted = not self.lost and self.model.apply("prompt")
        self.deliver(PROMPT % (number, number))
        assert len(self.prompts) == before + accepted
        if accepted:
            self.ids.append(number)
        elif not self.lost:
            self.refused.append(number)

    def deliver(self, message: bytes) -> None:
        """A message comes, unless the link is gone."""
        if not self.lost:
            self.receive(message)

    def cancel(self) -> None:
        """session/cancel comes."""
        if not self.lost:
            self.model.apply("cancel")
        self.deliver(CANCEL)

    def cancel_request(self) -> None:
        """$/cancel_request comes, for the last prompt that was accepted."""
        if self.ids:
            if not self.lost:
                self.model.apply("cancelRequest", len(self.ids) - 1)
            self.deliver(CANCEL_REQUEST % self.ids[-1])

    def finish(self, event: str) -> None:
        """The oldest handler that has not ended ends."""
        for prompted in self.prompts:
            if not prompted.done:
                prompted.finish(event)
                return

    def fire(self, event: str) -> None:
        """A timer is over, if it runs.  The clock stands still, so a timer is known by when it is due."""
        due = self.grace if event == "grace" else self.duration
        for call in self.clock.getDelayedCalls():
            if call.getTime() == due:
                self.model.apply(event, self.model.current)
                call.reset(0)
                self.clock.advance(0)
                return

    def disconnect(self) -> None:
        """The link goes."""
        if not self.lost:
            self.lost = True
            self.model.apply("connectionLost")
            self.connection.peer.connection_lost(Failure(AcpConnectionError("gone")))

    def check(self) -> None:
        """Compare all that can be seen, and read the wire."""
        answers: dict[int, list[str]] = {number: [] for number in self.ids}
        refused = []
        for data in self.transport.sent:
            message = json.loads(data)
            number = message["id"]
            if number in answers:
                answers[number].append(_kind(message, self.ids.index(number)))
            else:
                assert message["error"]["code"] == -32600
                assert message["error"]["data"] == {"sessionId": "s1"}
                refused.append(number)
        assert refused == self.refused
        assert len(self.prompts) == len(self.model.turns)
        for number, prompted, expected in zip(self.ids, self.prompts, self.model.turns, strict=True):
            assert answers[number] == expected.answers
            assert prompted.triggers() == tuple(expected.triggers)
            assert prompted.stops <= expected.stops
            assert prompted.done or prompted.stops == expected.stops
        assert self.told == len(self.model.told)
        assert self.connection.peer.incoming_requests == (self.model.current is not None)
        timers = sorted(call.getTime() for call in self.clock.getDelayedCalls())
        due = [self.grace] * self.model.grace + [self.duration] * (self.model.current is not None)
        assert timers == [seconds for seconds in due if seconds]

    def end(self) -> None:
        """Lose the link and let every handler fail: nothing may be left, and nothing is answered twice."""
        self.disconnect()
        while not all(prompted.done for prompted in self.prompts):
            self.finish("failure")
        self.check()
        assert self.clock.getDelayedCalls() == []
        assert self.connection.session_ids == ()


def _kind(message: dict[str, Any], index: int) -> str:
    error = message.get("error")
    if error is not None:
        if error["code"] == -32800:
            limit = error.get("data")
            assert limit in (None, {"maxPromptDuration": "PT16M40S"})
            return "-32800" if limit is None else "-32800+duration"
        assert error["code"] == AuthRequired.CODE
        return "error"
    meta = message["result"].get("_meta")
    assert meta in (None, {"n": index})
    if message["result"]["stopReason"] == "max_tokens":
        return "result"
    assert message["result"]["stopReason"] == "cancelled"
    return "cancelled" if meta is None else "cancelled+meta"


EVENTS: dict[str, Callable[[Sequence], object]] = {
    "prompt": Sequence.prompt,
    "session/cancel": Sequence.cancel,
    "$/cancel_request": Sequence.cancel_request,
    "handler result": lambda sequence: sequence.finish("result"),
    "handler failure": lambda sequence: sequence.finish("failure"),
    "grace over": lambda sequence: sequence.fire("grace"),
    "max duration over": lambda sequence: sequence.fire("duration"),
    "disconnect": Sequence.disconnect,
    "second prompt": lambda sequence: sequence.prompt(swallows=True),
}


def build(current: list[Sequence], grace: float, duration: float) -> AcpAgent:
    """One agent for all sequences; each has a connection of its own."""

    def told(_: v1.CancelNotification) -> None:
        current[0].told += 1

    return (
        AcpAgent.builder()
        .prompt_handler(lambda request, context: current[0].started(context))
        .new_session_handler(lambda request: v1.NewSessionResponse(session_id="s1"))
        .cancel_handler(told)
        .cancel_grace_period(grace)
        .max_prompt_duration(duration)
        .build()
    )


def play_all(longest: int, grace: float, duration: float) -> int:
    """Play every sequence up to C{longest} events.  Returns how many there were."""
    current: list[Any] = [None]
    agent = build(current, grace, duration)
    ran = 0
    for length in range(1, longest + 1):
        for names in product(EVENTS, repeat=length):
            sequence = Sequence(agent, current, grace, duration)
            try:
                for name in names:
                    EVENTS[name](sequence)
                sequence.check()
                sequence.end()
            except AssertionError as error:
                raise AssertionError(f"the sequence {' > '.join(names)}") from error
            ran += 1
    return ran


def test_every_order_on_the_wire(request: pytest.FixtureRequest) -> None:
    """Each of the 66 429 sequences is answered as the table says: one answer a prompt, no timer, no stray error."""
    assert verifyObject(IMessageTransport, Kept())
    with capturedLogs() as events:
        ran = play_all(LONGEST, GRACE, DURATION)
        gc.collect()
    assert ran == sum(len(EVENTS) ** length for length in range(1, LONGEST + 1)) == 66_429
    assert [event for event in events if event["log_level"] >= LogLevel.error] == []
    request.config.pluginmanager.register(
        Summary(f"exhaustive, on the wire: {ran} sequences of up to {LONGEST} events")
    )


@pytest.mark.parametrize(("grace", "duration"), [(0.0, 0.0), (GRACE, 0.0), (0.0, DURATION)])
def test_every_order_with_timers_off(grace: float, duration: float) -> None:
    """With one or both timers off, up to four events: none is ever started, and the rest of the table holds."""
    assert play_all(LONGEST - 1, grace, duration) == 7_380


def test_the_events_are_the_tables() -> None:
    """Every event of the table but session/close and shutdown is played here; those are in the state machine."""
    assert {event for _, event in ROWS} - {"close", "shutdown"} == {
        "prompt",
        "result",
        "failure",
        *(set(TRIGGERS) - {"close", "shutdown"}),
    }
