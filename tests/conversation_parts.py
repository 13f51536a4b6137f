"""
What a modelled conversation is made of: its times, its turns and requests, and the table for each session.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import define, field
from turn_model import Model
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from acp_twisted import Limits, PromptContext
from acp_twisted.client.session import PromptTurn
from acp_twisted.errors import AuthRequired
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.schema import v1
from acp_twisted.transports.memory import Direction

Who = Literal["client", "agent"]

WAY: dict[Who, Direction] = {"client": "a>b", "agent": "b>a"}
OTHER: dict[Who, Who] = {"client": "agent", "agent": "client"}

# No sum of some of these is a sum of others, so two timers of a turn are only due at the same moment when it began at
# one of these times and was cancelled at the other.
GRACE = 10.00013
DURATION = 37.0041
AGENT_TIMEOUT = 61.0007
CLIENT_TIMEOUT = 73.0019
PROMPT_TIMEOUT = 29.0023
WAIT_TIMEOUT = 5.00031
DRAIN = 43.0047

LIMITS = Limits(drain_timeout=DRAIN)
SESSIONS = ("s0", "s1", "s2")


class Boom(Exception):
    """What a handler fails with that has no answer of its own; it is logged, as it should be."""


class SessionModel(Model):
    """The table for one session, which knows when its timers are due."""

    def __init__(self, clock: Clock, grace: float, duration: float) -> None:
        super().__init__()
        self.clock, self.grace_period, self.max_duration = clock, grace, duration
        self.grace_due: float | None = None
        self.duration_due: float | None = None

    def apply(self, event: str, turn: int | None = None) -> bool:
        before = self.state
        accepted = super().apply(event, turn)
        if before == "Idle" and self.state == "Running" and self.max_duration:
            self.duration_due = self.clock.seconds() + self.max_duration
        elif before == "Running" and self.state in ("Cancelling", "Closing") and self.grace_period:
            self.grace_due = self.clock.seconds() + self.grace_period
        if self.state in ("Idle", "Closed"):
            self.grace_due = self.duration_due = None
        return accepted


@define(eq=False)
class Line:
    """
    One request on the wire.

    @ivar answers: what was written for an answer: the result or error.
    @ivar arrived: whether it reached the other side.
    @ivar answered: whether an answer reached who asked.
    @ivar cancels: how many cancellations of it were written.
    @ivar turn: the prompt that it is, if it is one.
    """

    id: int
    method: str
    session: str | None
    answers: list[dict[str, Any]] = field(factory=list)
    arrived: bool = False
    answered: bool = False
    cancels: int = 0
    turn: Turn | None = None
    updates_before: int = 0


@define(eq=False)
class Asked:
    """
    A request as its caller sees it.

    @ivar cancelled: whether the caller has given it up.
    @ivar bounded: whether it has a timeout.
    """

    call: Call[Any]
    who: Who
    method: str
    cancelled: bool = False
    bounded: bool = False
    detached: bool = False
    awaited: bool = False
    outcomes: list[Any] = field(factory=list)
    during: set[int] = field(factory=set)


@define(eq=False)
class Turn:
    """
    One prompt: what the client wants of the handler, and what becomes of it.

    @ivar index: its number in its session's model; L{None} if it was not accepted.
    @ivar expected: what it must be answered with, where it was not accepted.
    @ivar must_be_accepted: whether nothing stands in its way when it is sent.
    """

    number: int
    session: str
    mode: str
    must_be_accepted: bool = False
    asked: Asked | None = None
    turn: PromptTurn | None = None
    model: SessionModel | None = None
    index: int | None = None
    expected: str | None = None
    answered: bool = False
    session_cancels: int = 0
    context: PromptContext | None = None
    done: bool = False
    stops: int = 0
    early: str | None = None
    work: Deferred[Any] | None = None
    requests: list[Asked] = field(factory=list)
    read: list[int] = field(factory=list)
    put: list[int] = field(factory=list)
    reader: Deferred[None] | None = None

    def ends(self, event: str) -> None:
        """The handler is about to end: with C{"result"} or C{"failure"}."""
        self.done = True
        if self.model is not None:
            self.model.apply(event, self.index)

    def finish(self, how: str) -> None:
        """End the handler: C{"result"}, C{"failure"}, C{"boom"} or C{"empty"}."""
        if self.done or self.work is None:
            return
        self.ends("result" if how == "result" else "failure")
        if how == "result":
            self.work.callback(self.response())
        elif how == "empty":
            self.work.callback(None)
        else:
            self.work.errback(Boom() if how == "boom" else AuthRequired())

    def response(self) -> v1.PromptResponse:
        """The handler's own answer, which bears its number."""
        return v1.PromptResponse(stop_reason="end_turn", meta={"n": self.number})

    def stopped(self, _: object) -> None:
        """The handler's Deferred is cancelled."""
        self.stops += 1
        if self.mode != "swallows" and not self.done:
            self.ends("failure")

    def swallow(self, failure: Failure) -> Deferred[Any] | Failure:
        """A handler that goes on when it is cancelled."""
        if self.done:
            return failure
        self.work = Deferred()
        return self.work
