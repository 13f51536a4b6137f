"""
The messages that wait to be POSTed: in order within a lane, side by side across lanes, and never too many.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from acp_twisted.errors import LimitExceeded
from acp_twisted.jsonrpc.framing import Oversized
from acp_twisted.jsonrpc.messages import Id
from acp_twisted.limits import Limits
from acp_twisted.transports.http.answers import Answer
from acp_twisted.transports.http.exchange import Exchange, ResponseReader
from acp_twisted.transports.patience import Patience

MAX_FLYING: Final = 32
"""How many POSTs are under way at once."""

CONNECTION: Final = ""
"""The lane of what belongs to no session; no session has an empty id on the wire of ours."""


@define(eq=False)
class Post:
    """
    One message on its way out.

    @ivar lane: what it keeps its order in: its session, or L{CONNECTION}.
    @ivar session_id: of its C{Acp-Session-Id} header; L{None} for none.
    @ivar name: its method, or C{answer}, for logs and errors.
    @ivar wants_answer: whether it is a request, whose id is C{id}.
    """

    message: bytes
    lane: str
    session_id: str | None
    name: str
    wants_answer: bool = False
    id: Id = None


class PostOwner(Protocol):
    """
    The transport that the messages are sent for.
    """

    def post_send(self, post: Post, reader: ResponseReader) -> Exchange:
        """
        Send it.
        """

    def post_headers(self, headers: dict[bytes, list[bytes]]) -> None:
        """
        The head of an answer, for its cookies.
        """

    def post_brought(self, post: Post, answer: Answer, message: bytes | Oversized) -> None:
        """
        The answer's body held a message.
        """

    def post_answered(self, post: Post, answer: Answer, failure: Failure | None) -> None:
        """
        The answer is there, or will not be.
        """

    def post_unanswered(self, post: Post) -> None:
        """
        There was no answer for C{Limits.stall_timeout} seconds.
        """

    def posts_drained(self) -> None:
        """
        Nothing waits and nothing is under way.
        """

    def output_paused(self) -> None:
        """
        More than C{Limits.high_water_bytes} wait.
        """

    def output_resumed(self) -> None:
        """
        Fewer than C{Limits.low_water_bytes} wait.
        """

    def output_held(self, held: bool) -> None:
        """
        More than C{Limits.pause_reading_bytes} wait (stop reading), or no longer.
        """

    def output_overdue(self, reason: LimitExceeded) -> None:
        """
        More than C{Limits.max_unsent_bytes} wait: cut the connection.  May be called from inside C{send}.
        """


@define(eq=False)
class _Lane:
    """
    What keeps one order.
    """

    name: str
    waiting: deque[Post] = field(factory=deque)
    busy: bool = False
    released: bool = False


@define(eq=False)
class _Flight:
    """
    A POST under way.
    """

    exchange: Exchange | None = None
    timer: Patience | None = None


class Posts:
    """
    One POST of a lane is under way at a time, and the next leaves when it was answered: two that are sent at once may
    arrive in either order.

    @ivar unsent: the bytes of the messages that the server has not yet accepted.
    """

    def __init__(self, owner: PostOwner, limits: Limits, clock: IReactorTime) -> None:
        self.unsent = 0
        self._owner = owner
        self._limits = limits
        self._clock = clock
        self._lanes: dict[str, _Lane] = {}
        self._ready: deque[_Lane] = deque()
        self._flying: dict[Post, _Flight] = {}
        self._stopped = False
        self._pumping = False
        self._above_high_water = False
        self._holding = False

    @property
    def idle(self) -> bool:
        """
        Whether nothing waits and nothing is under way.
        """
        return not self._flying and not any(lane.waiting for lane in self._lanes.values())

    def put(self, post: Post, *, released: bool) -> None:
        """
        Send a message behind those of its lane.

        @param released: whether its lane may send already; what is once released stays so.
        """
        if self._stopped:
            return
        lane = self._lanes.get(post.lane)
        if lane is None:
            lane = self._lanes[post.lane] = _Lane(post.lane)
        lane.released = lane.released or released
        lane.waiting.append(post)
        self.unsent += len(post.message)
        if lane.released and not lane.busy and len(lane.waiting) == 1:
            self._ready.append(lane)
        self._pump()
        self._grown()

    def release(self, name: str) -> None:
        """
        A lane may send from now on.
        """
        lane = self._lanes.get(name)
        if lane is not None and not lane.released:
            lane.released = True
            if lane.waiting and not lane.busy:
                self._ready.append(lane)
            self._pump()

    def take_out(self, name: str) -> list[Post]:
        """
        What waits in a lane, which is empty then.
        """
        lane = self._lanes.get(name)
        if lane is None:
            return []
        waiting = list(lane.waiting)
        lane.waiting.clear()
        self._gone(sum(len(post.message) for post in waiting))
        return waiting

    def holds(self, name: str) -> bool:
        """
        Whether anything of a lane waits or is under way.
        """
        lane = self._lanes.get(name)
        return lane is not None and (lane.busy or bool(lane.waiting))

    def stop(self) -> None:
        """
        Send nothing more, and forget what is under way.
        """
        self._stopped = True
        self._lanes.clear()
        self._ready.clear()
        flying, self._flying = self._flying, {}
        for flight in flying.values():
            _stop(flight.timer)
            if flight.exchange is not None:
                flight.exchange.cancel()
        self.unsent = 0

    # ---- inside

    def _pump(self) -> None:
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._ready and len(self._flying) < MAX_FLYING and not self._stopped:
                lane = self._ready.popleft()
                if lane.waiting and not lane.busy:
                    lane.busy = True
                    self._fly(lane, lane.waiting.popleft())
        finally:
            self._pumping = False

    def _fly(self, lane: _Lane, post: Post) -> None:
        flight = self._flying[post] = _Flight()
        owner = self._owner

        def head(answer: Answer) -> None:
            owner.post_headers(answer.headers)

        def message(brought: bytes | Oversized) -> None:
            owner.post_brought(post, answer, brought)

        def end(answer: Answer, failure: Failure | None) -> None:
            if self._flying.pop(post, None) is not None:
                _stop(flight.timer)
                self._landed(lane, post)
                owner.post_answered(post, answer, failure)
                self._pump()
                if self.idle and not self._stopped:
                    owner.posts_drained()

        answer = Answer(self._limits.max_message_bytes, head, message, end)
        flight.timer = Patience(self._clock, self._limits.stall_timeout, lambda: self._late(post, flight))
        flight.exchange = owner.post_send(post, answer)

    def _landed(self, lane: _Lane, post: Post) -> None:
        lane.busy = False
        if lane.waiting:
            self._ready.append(lane)
        else:
            # A lane that nothing waits in is made anew when it is needed, released by whoever puts something in it.
            self._lanes.pop(lane.name, None)
        self._gone(len(post.message))

    def _late(self, post: Post, flight: _Flight) -> None:
        flight.timer = Patience(self._clock, self._limits.stall_timeout, lambda: self._late(post, flight))
        self._owner.post_unanswered(post)

    def _grown(self) -> None:
        limits = self._limits
        if self.unsent > limits.max_unsent_bytes:
            size = self.unsent
            self.stop()
            why = f"{size} bytes wait to be sent, Limits.max_unsent_bytes is {limits.max_unsent_bytes}"
            self._owner.output_overdue(LimitExceeded(why))
            return
        if self.unsent > limits.pause_reading_bytes and not self._holding:
            self._holding = True
            self._owner.output_held(True)
        if self.unsent > limits.high_water_bytes and not self._above_high_water:
            self._above_high_water = True
            self._owner.output_paused()

    def _gone(self, size: int) -> None:
        self.unsent -= size
        if self._above_high_water and self.unsent < self._limits.low_water_bytes and not self._stopped:
            self._above_high_water = False
            self._owner.output_resumed()
        if self._holding and self.unsent <= self._limits.pause_reading_bytes and not self._stopped:
            self._holding = False
            self._owner.output_held(False)


def _stop(timer: Patience | None) -> None:
    if timer is not None and timer.active():
        timer.cancel()
