"""
What a modelled conversation of version 2 is made of: its times, its requests and its prompts.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from acp_twisted import Limits
from acp_twisted.client.v2.prompt import Prompt
from acp_twisted.errors import AuthRequired

Who = str
SESSIONS = ("s0", "s1", "s2")
GRACE = 10.00013
DURATION = 37.0041
PROMPT_TIMEOUT = 29.0023
DRAIN = 43.0047
LIMITS = Limits(drain_timeout=DRAIN)
BACKGROUND = "b"
CANCELLED = {"outcome": {"outcome": "cancelled"}}


class Boom(Exception):
    """What a handler fails with that has no answer of its own; it is logged, as it should be."""


@define(eq=False)
class Line:
    """
    One request on the wire.

    @ivar background: whether it is a question of background work.
    @ivar arrived: whether it reached the other side.
    @ivar answered: whether an answer reached who asked.
    @ivar answers: what was written for an answer.
    @ivar cancels: how many cancellations of it were written.
    """

    id: int
    method: str
    session: str | None
    number: int | None = None
    background: bool = False
    arrived: bool = False
    answered: bool = False
    answers: list[dict[str, Any]] = field(factory=list)
    cancels: int = 0


@define(eq=False)
class Sent:
    """
    One prompt, on both sides.

    @ivar message_id: the id that the agent gave it, once that is written.
    @ivar ended: the report that its work ended with, once that is written.
    @ivar shown: whether its message was reported.
    @ivar must_be_cancelled: whether a session/cancel reached the agent while it worked on this, or held it.
    @ivar may_be_cancelled: whether the client has cancelled it, or its session since it was sent.
    """

    number: int
    session: str
    mode: str
    prompt: Prompt
    accepted: list[Any] = field(factory=list)
    idle: list[Any] = field(factory=list)
    read: list[int] = field(factory=list)
    reader: Deferred[None] | None = None
    line: Line | None = None
    message_id: str | None = None
    refused: bool = False
    shown: bool = False
    running: bool = False
    ended: dict[str, Any] | None = None
    must_be_cancelled: bool = False
    may_be_cancelled: bool = False
    given_up: bool = False
    bounded: bool = False
    context: Any = None
    work: Deferred[Any] | None = None
    done: bool = False

    def finish(self, how: str) -> None:
        """End the handler."""
        if self.done or self.work is None:
            return
        self.done = True
        if how == "result":
            self.work.callback("end_turn")
        elif how == "empty":
            self.work.callback(None)
        else:
            self.work.errback(Boom() if how == "boom" else AuthRequired())
