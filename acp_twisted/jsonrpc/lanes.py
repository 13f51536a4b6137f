"""
The order in which received messages reach their handlers (design rule 5).

Messages with one key form a lane.  A notification handler is waited for before the next thing of its lane happens; a
request or a response waits for the notifications before it, and nobody waits for a request's handler.  Lanes do not
wait for each other.

A handler that asks the peer something and waits for the answer must not be what that answer waits for.  So a response
does not queue behind a handler that is still running if it was asked from inside one (context variables tell, or the
callbacks that are running), nor behind one that itself waits for an answer if it was asked while that one ran; and
while a running handler waits for an answer, the requests of its lane go through as well, since the peer may need them
before it can give that answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from contextvars import Context, ContextVar, copy_context

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpConnectionError
from acp_twisted.limits import Limits

_log = Logger()

Key = Hashable
Handler = Callable[[], "Deferred[object] | None"]


@define(eq=False)
class Running:
    """
    A notification handler at work.

    @ivar waiting_for: how many answers it has asked for and not had, on any connection.
    @ivar work: what it returned, once it has.
    """

    lane: _Lane
    active: bool = True
    waiting_for: int = 0
    work: Deferred[object] | None = None

    def is_on_stack(self) -> bool:
        """
        Whether a callback of what it returned is being called just now.  A reactor keeps no context variables, so this
        tells of a handler that went on from somebody else's Deferred, by a callback and not as a coroutine.
        """
        work = self.work
        while work is not None:
            if work._runningCallbacks:
                return True
            work = work._chainedTo
        return False

    def asked(self) -> None:
        """
        A request was sent from inside this handler.
        """
        self.waiting_for += 1
        if self.waiting_for == 1:
            self.lane.let_through()
            self.lane.lanes.read_on()

    def answered(self) -> None:
        """
        A request of this handler was settled.
        """
        self.waiting_for -= 1


_inside: ContextVar[Running | None] = ContextVar("_inside", default=None)


@define(eq=False)
class Asked:
    """
    Where an outgoing request came from, taken down when it is sent.

    @ivar key: the lane that its answer belongs to.
    @ivar inside: the handler that asked, if it was one.
    @ivar during: the handler that was running in that lane then.
    """

    key: Key
    inside: Running | None
    during: Running | None


@define(eq=False)
class _Waiting:
    """
    Something received that waits for its turn.

    @ivar handler: a notification's handler; L{None} for what is not waited for.
    @ivar release: what lets a request or a response go on.
    @ivar asked: a response's origin.
    @ivar context: the context of its arrival, so that no handler runs in that of the one before it.
    @ivar gone: whether it waits no more, though it may still stand in the queue.
    """

    size: int
    handler: Handler | None = None
    release: Callable[[], None] | None = None
    asked: Asked | None = None
    context: Context = field(factory=copy_context)
    gone: bool = False


@define(eq=False)
class _Lane:
    lanes: Lanes
    key: Key
    running: Running | None = None
    queue: deque[_Waiting] = field(factory=deque)
    pumping: bool = False
    letting: int = 0

    def pump(self) -> None:
        """
        Go on until something has to be waited for, or nothing is left.
        """
        if self.pumping:
            return
        self.pumping = True
        try:
            while self.queue and self.running is None:
                item = self.queue.popleft()
                if item.gone:
                    continue
                self.lanes.taken(item)
                if item.handler is not None:
                    self.start(item.handler, item.context)
                elif item.release is not None:
                    item.release()
        finally:
            self.pumping = False
        if self.running is None and not self.queue:
            self.lanes.drop(self)

    def start(self, handler: Handler, context: Context) -> None:
        """
        Run a handler, and hold the lane until it has finished.
        """
        running = self.running = Running(self)
        context.run(_inside.set, running)
        try:
            result = context.run(handler)
        except BaseException:
            _log_failure(Failure())
            result = None
        if result is None or (result.called and not result.paused):
            self.running = None
            running.active = False
            if result is not None:
                result.addErrback(_log_failure)
        else:
            running.work = result
            result.addErrback(_log_failure)
            result.addBoth(self._finished, running)

    def _finished(self, _: object, running: Running) -> None:
        running.active = False
        self.running = None
        self.pump()

    def let_through(self) -> None:
        """
        The running handler waits for an answer: what must not wait for it goes now.
        """
        self.let_go(self.may_pass)

    def let_go(self, may: Callable[[_Waiting], bool]) -> None:
        """
        Let what C{may} go out of its turn, and behind it what comes meanwhile.
        """
        self.letting += 1
        try:
            again = True
            while again:
                again = False
                for item in list(self.queue):
                    if not item.gone and item.release is not None and may(item):
                        again = True
                        self.lanes.taken(item)
                        item.release()
        finally:
            self.letting -= 1
        self.tidy()

    def passes(self, item: _Waiting) -> bool:
        """
        Whether C{item}, which has just come, may overtake the running handler at once: not in front of others that do.
        """
        return not self.letting and self.may_pass(item)

    def tidy(self) -> None:
        """
        Take out of the queue what waits no more.
        """
        self.queue = deque(item for item in self.queue if not item.gone)

    def may_pass(self, item: _Waiting) -> bool:
        """
        Whether C{item} may overtake the running handler.
        """
        running = self.running
        if running is None or item.release is None:
            return False
        asked = item.asked
        if asked is not None and asked.inside is not None and asked.inside.active:
            return True
        return running.waiting_for > 0 and (asked is None or asked.during is running)


def _log_failure(failure: Failure) -> None:
    if failure.check(AcpConnectionError):
        _log.debug("a notification handler ended with the connection")
    else:
        _log.failure("a notification handler failed", failure)


class Lanes:
    """
    All lanes of one connection.

    @param limits: what bounds that which waits (rule 6).
    @param pause: called when too much waits, to stop reading.
    @param resume: called when there is room again.
    @param overflow: called when a peer keeps sending although nothing can be taken off; it should cut the link.
    """

    def __init__(
        self,
        limits: Limits,
        pause: Callable[[], None],
        resume: Callable[[], None],
        overflow: Callable[[], None],
    ) -> None:
        self._limits = limits
        self._pause = pause
        self._resume = resume
        self._overflow = overflow
        self._lanes: dict[Key, _Lane] = {}
        self._count = 0
        self._bytes = 0
        self._answers = 0
        self._last_call: IDelayedCall | None = None
        self._paused = False

    def __len__(self) -> int:
        """
        How many lanes have something running or waiting.
        """
        return len(self._lanes)

    def notification(self, key: Key, size: int, handler: Handler) -> None:
        """
        Run C{handler} when everything before it in the lane C{key} is done.
        """
        lane = self._lanes.get(key)
        if lane is not None:
            self._wait(lane, _Waiting(size, handler))
            lane.pump()
            return
        lane = self._lanes[key] = _Lane(self, key)
        lane.start(handler, copy_context())
        if lane.queue:
            lane.pump()
        elif lane.running is None:
            del self._lanes[key]

    def request(self, key: Key, size: int) -> Deferred[None] | None:
        """
        L{None} if a request in the lane C{key} may start now, else a Deferred that fires when it may.  Cancelling that
        gives the place up.
        """
        lane = self._lanes.get(key)
        if lane is None:
            return None
        item = _Waiting(size, release=_nothing)
        if lane.passes(item):
            return None

        def give_up(_: object) -> None:
            if not item.gone:
                self.taken(item)
                lane.tidy()

        gate: Deferred[None] = Deferred(give_up)
        item.release = lambda: item.context.run(gate.callback, None)
        self._wait(lane, item)
        return gate

    def asked(self, key: Key, context: Context) -> Asked:
        """
        Take down that a request is being sent whose answer belongs to the lane C{key}.

        @param context: what the answer will be delivered in.
        """
        inside = _inside.get()
        if inside is not None and not inside.active:
            inside = None
        lane = self._lanes.get(key)
        asked = Asked(key, inside, None if lane is None else lane.running)
        if inside is None and self._lanes:
            inside = asked.inside = self._on_stack()
            if inside is not None:
                context.run(_inside.set, inside)
        if inside is not None:
            inside.asked()
        return asked

    def _on_stack(self) -> Running | None:
        for lane in self._lanes.values():
            if lane.running is not None and lane.running.is_on_stack():
                return lane.running
        return None

    @staticmethod
    def settled(asked: Asked) -> None:
        """
        That request is over, whichever way.
        """
        if asked.inside is not None:
            asked.inside.answered()

    def response(self, asked: Asked, size: int, deliver: Callable[[], None]) -> None:
        """
        Deliver an answer behind the notifications before it.
        """
        lane = self._lanes.get(asked.key)
        if lane is None:
            deliver()
            return
        item = _Waiting(size, release=deliver, asked=asked)
        if lane.passes(item):
            deliver()
        else:
            self._wait(lane, item)

    def ended(self, clock: IReactorTime, seconds: float) -> None:
        """
        The link is gone.  What has arrived is still delivered, in its order; but no answer waits for a handler longer
        than C{seconds} from now, so that every call is settled.
        """
        if self._answers:
            self._last_call = clock.callLater(seconds, self._release_answers)

    def _release_answers(self) -> None:
        self._last_call = None
        for lane in list(self._lanes.values()):
            lane.let_go(lambda item: item.asked is not None)

    def _wait(self, lane: _Lane, item: _Waiting) -> None:
        lane.queue.append(item)
        self._count += 1
        self._bytes += item.size
        self._answers += item.asked is not None
        if self._count <= self._limits.max_queued_messages and self._bytes <= self._limits.max_queued_bytes:
            return
        if not any(each.running is not None and each.running.waiting_for for each in self._lanes.values()):
            if not self._paused:
                self._paused = True
                self._pause()
        elif (
            # A handler waits for an answer that is still to be read, so reading goes on, but not for ever.
            self._count > _PATIENCE * self._limits.max_queued_messages
            or self._bytes > _PATIENCE * self._limits.max_queued_bytes
        ):
            self._overflow()

    def taken(self, item: _Waiting) -> None:
        """
        C{item} waits no more.
        """
        item.gone = True
        self._count -= 1
        self._bytes -= item.size
        self._answers -= item.asked is not None
        if self._last_call is not None and not self._answers:
            self._last_call.cancel()
            self._last_call = None
        limits = self._limits
        if self._count <= limits.max_queued_messages // 2 and self._bytes <= limits.max_queued_bytes // 2:
            self.read_on()

    def read_on(self) -> None:
        """
        There is room, or something that a handler waits for is still to be read.
        """
        if self._paused:
            self._paused = False
            self._resume()

    def drop(self, lane: _Lane) -> None:
        """
        Forget a lane in which nothing runs or waits.
        """
        if self._lanes.get(lane.key) is lane:
            del self._lanes[lane.key]


_PATIENCE = 8


def _nothing() -> None:
    """A release that is only asked about."""
