"""
Two peers on a link whose messages are delivered one by one, and everything that may happen to them in any order.

The link watches the wire, the model watches the handlers and the callers, and both hold the peers to design rules 1, 2,
3 and 5 at each step.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Hashable
from inspect import iscoroutine
from typing import Any

from attrs import define, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer
from zope.interface.verify import verifyObject

from acp_twisted.errors import AcpConnectionError, AcpError, InvalidParams
from acp_twisted.interfaces import IMessageTransport
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.jsonrpc.peer import Peer
from acp_twisted.jsonrpc.router import IRouter
from acp_twisted.limits import Limits

LIMITS = Limits(max_queued_messages=6, max_incoming_requests=8, max_outgoing_requests=20, max_remembered_ids=4)
SESSIONS = ["s", "t"]
EOF, CLOSE = "EOF", "CLOSE"


class ExpectedError(Exception):
    """What failing handlers raise."""


@define(eq=False)
class Told:
    """A notification that arrived, and its handler."""

    session: str
    mode: str
    started: bool = False
    finished: bool = False
    asking: int = 0
    work: Deferred[None] = field(factory=Deferred)


@define(eq=False)
class Asked:
    """
    A request of ours, as its caller sees it.

    @ivar own: whether a handler asked and goes on with the answer.
    @ivar during: the handler that was at work in its lane when it was sent.
    @ivar before: the handlers that had not finished when its answer arrived.
    """

    tag: int
    session: str
    call: Call[Any]
    own: bool
    inside: Told | None
    published: bool
    during: Told | None = None
    detached: bool = False
    outcomes: list[object] = field(factory=list)
    before: list[Told] = field(factory=list)


@define(eq=False)
class Work:
    """A request's handler at work."""

    tag: int
    result: Deferred[object] = field(factory=Deferred)


@implementer(IMessageTransport, IRouter)
class Side:
    """One peer with its transport, its handlers and what is known of both."""

    def __init__(self, link: Link, name: str) -> None:
        self.link = link
        self.name = name
        self.unsent = 0
        self.reading = True
        self.output_open = True
        self.queue: deque[dict[str, Any] | str] = deque()
        self.peer = Peer(self, link.clock, LIMITS, request_timeout=20)
        self.asked: dict[int, Asked] = {}
        self.works: list[Work] = []
        self.told: dict[str, list[Told]] = defaultdict(list)
        # The wire: our requests, our cancellations, the answers that came; their requests, the answers we gave.
        self.requested: dict[int, int] = {}
        self.cancelled: Counter[int] = Counter()
        self.answers_received: set[int] = set()
        self.received: list[int] = []
        self.answered: Counter[int] = Counter()
        self.old_answers: list[dict[str, Any]] = []

    # the transport

    def send(self, message: bytes) -> None:
        if not self.output_open or self.link.lost:
            return
        decoded = json.loads(message)
        self.queue.append(decoded)
        if "method" not in decoded:
            self.answered[decoded["id"]] += 1
            self.link.hold(self.answered[decoded["id"]] == 1, "answered twice")
            self.link.hold(decoded["id"] in self.received, "answered what was not asked")
        elif decoded["method"] == "$/cancel_request":
            number = decoded["params"]["requestId"]
            self.cancelled[number] += 1
            self.link.hold(self.cancelled[number] == 1, "cancelled twice")
            self.link.hold(number in self.requested, "cancelled before it was sent")
            self.link.hold(number not in self.answers_received, "cancelled after its answer")
        elif "id" in decoded:
            self.link.hold(decoded["id"] not in self.requested, "an id was used twice")
            self.requested[decoded["id"]] = decoded["params"]["tag"]

    def close(self) -> None:
        if self.output_open:
            self.output_open = False
            self.queue.append(CLOSE)

    def abort(self, reason: str) -> None:
        self.link.lose()

    def pauseProducing(self) -> None:
        self.reading = False

    def resumeProducing(self) -> None:
        self.reading = True

    def stopProducing(self) -> None:
        self.close()

    # what arrives

    def deliver(self, item: dict[str, Any] | str) -> None:
        if item == EOF:
            self.peer.input_ended()
            return
        if item == CLOSE:
            self.link.lose()
            return
        assert isinstance(item, dict)
        stopped: object = None
        if "method" not in item:
            self.answers_received.add(item["id"])
            self.old_answers.append(item)
            asked = self.asked[self.requested[item["id"]]]
            asked.before = [told for told in self.told[asked.session] if not told.finished]
        elif item["method"] == "tell":
            self.told[item["params"]["sessionId"]].append(Told(item["params"]["sessionId"], item["params"]["mode"]))
        elif item["method"] == "ask":
            self.received.append(item["id"])
        else:
            stopped = item["params"]["requestId"]
        self.peer.message_received(json.dumps(item).encode())
        if stopped in self.received and not self.link.lost and self.output_open:
            self.link.hold(self.answered[stopped] == 1, "a cancelled request is answered at once")

    # the router

    def lane_of(self, method: str, params: object) -> Hashable:
        return params.get("sessionId") if isinstance(params, dict) else None

    def apply_now(self, notification: Notification) -> bool:
        return notification.method != "tell"

    def connection_lost(self, reason: AcpConnectionError) -> None:
        assert self.link.lost

    def handle_request(self, request: IncomingRequest, gate: Deferred[None] | None) -> object:
        if gate is None:
            return self._start_request(request)

        def go(_: None) -> object:
            result = self._start_request(request)
            return Deferred.fromCoroutine(result) if iscoroutine(result) else result

        return gate.addCallback(go)

    def _start_request(self, request: IncomingRequest) -> Any:
        self.link.hold(not request.token.cancelled, "a cancelled request was started")
        assert isinstance(request.params, dict)
        session, tag, mode = (request.params[name] for name in ("sessionId", "tag", "mode"))
        running = self.running(session)
        if running is not None:
            self.link.hold(running.asking > 0, "a request overtook a notification that waits for nothing")
        if mode == "value":
            return {"tag": tag}
        if mode == "raise":
            raise InvalidParams(data={"tag": tag})
        if mode == "nested":
            return self._nested(tag, session)
        work = Work(tag)
        self.works.append(work)
        return self._stubborn(work) if mode == "stubborn" else work.result

    async def _nested(self, tag: int, session: str) -> object:
        asked = self.ask(session, "slow", own=True)
        try:
            await asked.call
        except AcpError as error:
            # A cancelled handler gives up; one whose own question failed answers as usual.
            if isinstance(error, CancelledError) and not error.remote:
                raise
        return {"tag": tag}

    async def _stubborn(self, work: Work) -> object:
        try:
            return await work.result
        except CancelledError:
            return await Deferred()

    def running(self, session: str) -> Told | None:
        """The notification handler at work in a lane."""
        return next((told for told in self.told[session] if told.started and not told.finished), None)

    def handle_notification(self, notification: Notification) -> Deferred[object] | None:
        assert isinstance(notification.params, dict)
        lane = self.told[notification.params["sessionId"]]
        told = next(told for told in lane if not told.started)
        earlier = lane[: lane.index(told)]
        self.link.hold(
            all(other.finished for other in earlier), "a handler started before the one before it had finished"
        )
        self.link.hold(told.mode == notification.params["mode"], "out of order")
        told.started = True
        if told.mode in ("asks", "asks elsewhere"):
            return Deferred.fromCoroutine(self._asking(told))
        if told.mode == "asks by callbacks":
            return self._asking_by_callbacks(told)
        if told.mode == "slow":
            return told.work.addBoth(self._finish, told)
        told.finished = True
        if told.mode == "fails":
            raise ExpectedError
        return None

    def _finish(self, result: Any, told: Told) -> Any:
        told.finished = True
        return result

    async def _asking(self, told: Told) -> object:
        session = told.session if told.mode == "asks" else SESSIONS[told.session == SESSIONS[0]]
        try:
            for _ in range(2):
                told.asking += 1
                asked = self.ask(session, "slow", inside=told)
                try:
                    await asked.call
                finally:
                    told.asking -= 1
        except AcpError:
            return None
        finally:
            told.finished = True
        return None

    def _asking_by_callbacks(self, told: Told) -> Deferred[Any]:
        def ask(_: object) -> Deferred[Any]:
            told.asking += 1
            return self.ask(told.session, "slow", inside=told).call.addBoth(had)

        def had(result: Any) -> Any:
            told.asking -= 1
            return result

        asking = told.work.addCallback(ask).addCallback(ask)
        return asking.addErrback(lambda failure: failure.trap(AcpError) and None).addBoth(self._finish, told)

    # what is asked

    def ask(
        self,
        session: str,
        mode: str,
        *,
        own: bool = False,
        inside: Told | None = None,
        publish: bool = True,
        **how: Any,
    ) -> Asked:
        """Send a request, and watch what its caller gets."""
        tag = self.link.next_tag()
        prepared = {name: how.pop(name) for name in ("wait", "wait_timeout") if name in how}
        call = self.peer.prepare("ask", **prepared)
        asked = Asked(tag, session, call, own or inside is not None, inside, publish)
        self.asked[tag] = asked
        call.addBoth(self._outcome, asked)
        if publish:
            self.publish(asked, mode, **how)
        return asked

    def publish(self, asked: Asked, mode: str, **how: Any) -> None:
        asked.published = True
        asked.during = self.running(asked.session)
        self.peer.publish(asked.call, {"sessionId": asked.session, "tag": asked.tag, "mode": mode}, **how)

    def _outcome(self, result: Any, asked: Asked) -> Any:
        asked.outcomes.append(result)
        self.link.hold(len(asked.outcomes) == 1, "settled twice")
        error = result.value if isinstance(result, Failure) else None
        self.link.hold(error is None or isinstance(error, AcpError), f"a strange failure: {error!r}")
        if not isinstance(error, AcpError) or error.remote:
            self._came_in_order(asked)
            if error is None:
                self.link.hold(result == {"tag": asked.tag}, "somebody else's answer")
        if error is not None and not asked.own:
            return None
        return result

    def _came_in_order(self, asked: Asked) -> None:
        if self.link.lost and self.link.clock.seconds() >= self.link.lost_at + LIMITS.drain_timeout:
            return
        if asked.inside is not None and not asked.inside.finished:
            return
        running = self.running(asked.session)
        if running is not None and running.asking and asked.during is running:
            return
        self.link.hold(all(told.finished for told in asked.before), "an answer overtook a notification")


class Link:
    """Both sides, and what is under way between them."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.lost = False
        self.lost_at = 0.0
        self.tag = 0
        self.wrong: list[str] = []
        self.sides = [Side(self, "a"), Side(self, "b")]
        for side in self.sides:
            assert verifyObject(IMessageTransport, side)
            assert verifyObject(IRouter, side)
            side.peer.connection_made(side)

    def hold(self, right: bool, rule: str) -> None:
        """Note that a rule was broken.  An assertion would be lost in the callback of some Deferred."""
        if not right:
            self.wrong.append(rule)

    def next_tag(self) -> int:
        self.tag += 1
        return self.tag

    def step(self, sender: int) -> bool:
        """One message arrives."""
        receiver = self.sides[1 - sender]
        queue = self.sides[sender].queue
        if self.lost or not queue or not receiver.reading:
            return False
        receiver.deliver(queue.popleft())
        return True

    def lose(self) -> None:
        """The link goes."""
        if not self.lost:
            self.lost = True
            self.lost_at = self.clock.seconds()
            for side in self.sides:
                side.queue.clear()
            for side in self.sides:
                side.peer.connection_lost(Failure(ConnectionDone()))


sides = st.integers(0, 1)
sessions = st.sampled_from(SESSIONS)
picks = st.integers(0, 1000)


class PeerMachine(RuleBasedStateMachine):
    """Everything that may happen."""

    def __init__(self) -> None:
        super().__init__()
        self.link = Link()

    def side(self, number: int) -> Side:
        return self.link.sides[number]

    def pick(self, number: int, pick: int) -> Asked | None:
        """One of a side's calls, the later ones as a rule."""
        asked = list(self.side(number).asked.values())[-8:]
        return asked[pick % len(asked)] if asked else None

    # what the applications do

    @rule(
        number=sides,
        session=sessions,
        mode=st.sampled_from(["slow", "slow", "value", "raise", "stubborn", "nested"]),
        timeout=st.sampled_from([None, 0, 5]),
        wait=st.booleans(),
        wait_timeout=st.sampled_from([0, 3]),
        publish=st.sampled_from([True, True, True, False]),
    )
    def ask(self, number: int, session: str, mode: str, publish: bool, **how: Any) -> None:
        if not publish:
            how.pop("timeout")
        self.side(number).ask(session, mode, publish=publish, **how)

    @rule(number=sides, pick=picks, mode=st.sampled_from(["slow", "value"]))
    def publish(self, number: int, pick: int, mode: str) -> None:
        waiting = [asked for asked in self.side(number).asked.values() if not asked.published]
        if waiting:
            self.side(number).publish(waiting[pick % len(waiting)], mode)

    @rule(
        number=sides,
        session=sessions,
        mode=st.sampled_from(["quick", "slow", "slow", "fails", "asks", "asks elsewhere", "asks by callbacks"]),
    )
    def tell(self, number: int, session: str, mode: str) -> None:
        self.side(number).peer.notify("tell", {"sessionId": session, "mode": mode})

    @rule(number=sides, pick=picks, how=st.sampled_from(["call", "call", "handle", "detach"]))
    def give_up(self, number: int, pick: int, how: str) -> None:
        asked = self.pick(number, pick)
        if asked is None:
            return
        if how == "call":
            asked.call.cancel("reason")
        elif how == "handle":
            asked.call.cancel_handle().cancel()
        elif not asked.own:
            asked.detached = True
            asked.call.detach()

    @rule(number=sides, pick=picks, how=st.sampled_from(["value", "value", "error", "unencodable"]))
    def finish_request(self, number: int, pick: int, how: str) -> None:
        open_works = [work for work in self.side(number).works if not work.result.called]
        if not open_works:
            return
        work = open_works[pick % len(open_works)]
        if how == "error":
            work.result.errback(InvalidParams())
        else:
            work.result.callback({"tag": work.tag} if how == "value" else {work.tag: object()})

    @rule(number=sides, session=sessions, fails=st.booleans())
    def finish_notification(self, number: int, session: str, fails: bool) -> None:
        running = self.side(number).running(session)
        if running is not None and running.mode in ("slow", "asks by callbacks") and not running.work.called:
            if fails and running.mode == "slow":
                running.work.errback(ExpectedError())
            else:
                running.work.callback(None)

    # what the link does

    @rule(sender=sides, count=st.integers(1, 6))
    def arrive(self, sender: int, count: int) -> None:
        for _ in range(count):
            self.link.step(sender)

    @rule()
    def arrive_all(self) -> None:
        while self.link.step(0) or self.link.step(1):
            pass

    @rule(number=sides, pick=picks)
    def duplicate_answer(self, number: int, pick: int) -> None:
        old = self.side(number).old_answers
        if old and not self.link.lost:
            self.side(number).peer.message_received(json.dumps(old[pick % len(old)]).encode())

    @rule(number=sides, request_id=st.sampled_from([None, 0, "1", -5, 10**6, True]))
    def strange_cancel(self, number: int, request_id: object) -> None:
        if not self.link.lost:
            message = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request_id}}
            self.side(number).peer.message_received(json.dumps(message).encode())

    @rule(seconds=st.sampled_from([0, 1, 3, 5, 20, 60]))
    def time_passes(self, seconds: float) -> None:
        self.link.clock.advance(seconds)

    @precondition(lambda self: self.link.tag > 12)
    @rule(number=sides)
    def half_close(self, number: int) -> None:
        side = self.side(number)
        if side.output_open and not self.link.lost:
            side.output_open = False
            side.queue.append(EOF)

    @precondition(lambda self: self.link.tag > 12)
    @rule(number=sides)
    def shut_down(self, number: int) -> None:
        self.side(number).peer.shutdown()

    @precondition(lambda self: self.link.tag > 12)
    @rule()
    def disconnect(self) -> None:
        self.link.lose()

    # what always holds

    @invariant()
    def no_rule_was_broken(self) -> None:
        assert self.link.wrong == []

    @invariant()
    def tables_are_bounded(self) -> None:
        for side in self.link.sides:
            assert side.peer.pending_requests <= LIMITS.max_outgoing_requests
            assert side.peer.incoming_requests <= LIMITS.max_incoming_requests
            if self.link.lost:
                assert side.peer.pending_requests == side.peer.incoming_requests == 0

    def teardown(self) -> None:
        """
        Let everything come to its end: then every request has its one answer, every caller his one outcome, and
        nothing is left.
        """
        for _ in range(200):
            self.arrive_all()
            for number in (0, 1):
                self.finish_request(number, 0, "value")
                for session in SESSIONS:
                    self.finish_notification(number, session, False)
        self._all_answered()
        self.link.lose()
        self.link.clock.advance(LIMITS.drain_timeout)
        for _ in range(200):
            for number in (0, 1):
                self.finish_request(number, 0, "value")
                for session in SESSIONS:
                    self.finish_notification(number, session, False)
        self._nothing_is_left()

    def _all_answered(self) -> None:
        if not self.link.lost and all(side.output_open for side in self.link.sides):
            for side in self.link.sides:
                assert set(side.received) == set(side.answered), "a request was not answered"
                assert side.peer.incoming_requests == 0

    def _nothing_is_left(self) -> None:
        self.no_rule_was_broken()
        assert self.link.clock.getDelayedCalls() == []
        for side in self.link.sides:
            assert len(side.peer.lanes) == 0
            assert side.peer.pending_requests == 0
            assert side.peer.incoming_requests == 0
            for asked in side.asked.values():
                if asked.published and not asked.detached:
                    assert len(asked.outcomes) == 1, "a call was never settled"


def test_any_conversation(logged_errors: list[Any]) -> None:
    """Whatever happens in whatever order, the rules hold; and the log has only what the handlers raised."""
    run_state_machine_as_test(
        PeerMachine,
        settings=settings(
            max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    unexpected = [
        event
        for event in logged_errors
        if not ("log_failure" in event and event["log_failure"].check(ExpectedError))
        and "can't be sent" not in (event["log_format"] or "")
    ]
    logged_errors.clear()
    assert unexpected == []
