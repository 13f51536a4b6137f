"""
Random conversations between two real halves, against a model: every cancellation from every side, in every race.

C{tools/soak.py} runs the same machine for as many steps as one likes.
"""

from __future__ import annotations

import gc
from typing import Any, ClassVar

import pytest
from conversation_model import Talk
from conversation_parts import DURATION, GRACE, PROMPT_TIMEOUT, SESSIONS, WAIT_TIMEOUT, Asked, Boom, Turn, Who
from conversation_running import Errors, play, run_machine
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from twisted.logger import ILogObserver, globalLogPublisher
from zope.interface.verify import verifyObject

CI_STEPS = 100_000
CI_SEED = 20261130
STEPS_PER_CONVERSATION = 80
CONVERSATIONS_A_RUN = 500
COLLECT_EVERY = 200

sessions = st.sampled_from(SESSIONS)
sides: st.SearchStrategy[Who] = st.sampled_from(["client", "agent"])
positions = st.integers(0, 7)
modes = st.sampled_from(
    [
        *("waits", "waits", "waits", "swallows", "swallows", "cooperates", "permission", "permission", "file"),
        *("result", "failure", "boom", "empty", "raises"),
    ]
)
signals = st.sampled_from([None, None, 0, 1])
MALFORMED: list[Any] = [
    {"method": "$/cancel_request"},
    {"method": "$/cancel_request", "params": {}},
    {"method": "$/cancel_request", "params": []},
    {"method": "$/cancel_request", "params": {"requestId": None}},
    {"method": "$/cancel_request", "params": {"requestId": {"a": 1}}},
    {"method": "$/cancel_request", "params": {"requestId": 1.5}},
    {"method": "$/cancel_request", "params": {"requestId": 999_999}},
    {"method": "$/cancel_request", "params": {"requestId": "1"}},
    {"method": "$/cancel_request", "params": {"requestId": True}},
    {"method": "$/cancelRequest", "params": {"id": 1}},
    {"method": "session/cancel"},
    {"method": "session/cancel", "params": {"sessionId": 7}},
    {"method": "session/cancel", "params": {"sessionId": "nowhere"}},
    {"method": "session/cancel", "params": ["s0"]},
    {"id": 999_999, "result": {}},
    {"id": None, "error": {"code": -32700, "message": "m"}},
    {"id": "007", "error": {"code": -32603, "message": "m"}},
]


class Conversation(RuleBasedStateMachine):
    """
    One answer to each request, at most one cancellation, the turn's table, and nothing left behind.
    """

    steps: ClassVar[int] = 0
    conversations: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        # Only what this conversation makes is searched for unhandled failures at its end.
        gc.freeze()
        self.errors = Errors(Boom)
        globalLogPublisher.addObserver(self.errors)
        self.talk: Talk
        self.eager = False
        self.age = 0

    @initialize(
        grace=st.sampled_from([0, GRACE, GRACE, GRACE]),
        duration=st.sampled_from([0, DURATION, DURATION]),
        cascade=st.booleans(),
        eager=st.booleans(),
    )
    def choose(self, grace: float, duration: float, cascade: bool, eager: bool) -> None:
        """Any of the timers may be off.  An eager link mostly delivers at once."""
        self.how: dict[str, Any] = {"grace": grace, "duration": duration, "cascade": cascade}
        self.eager = eager
        self.connect()

    def connect(self) -> None:
        """A new connection."""
        Conversation.conversations += 1
        self.age = 0
        self.talk = Talk(**self.how)

    def check_invariants(self, *arguments: Any, **options: Any) -> None:
        """After each step: what was written, what holds, and no stray error."""
        super().check_invariants(*arguments, **options)
        if not hasattr(self, "talk"):
            return
        Conversation.steps += 1
        self.age += 1
        self.talk.after()
        if self.eager and self.age % 4:
            self.talk.settle_messages()
        self.talk.check()
        assert not self.errors.seen, "\n".join(self.errors.seen)

    # ---- who can be chosen

    def running(self) -> list[Turn]:
        """The turns whose handlers are at work."""
        return [turn for turn in self.talk.turns if turn.context is not None and not turn.done]

    def open(self) -> list[Asked]:
        """The calls that are not settled."""
        return [asked for asked in self.talk.asked if not asked.outcomes and not asked.detached]

    def some_session(self, position: int) -> str:
        """A session, most often one that is busy."""
        busy = [name for name in SESSIONS if self.talk.models[name].current is not None]
        return busy[position % len(busy)] if busy and position % 4 else SESSIONS[position % 3]

    # ---- the client

    @rule(session=sessions, mode=modes, signal=signals, timeout=st.sampled_from([None, None, PROMPT_TIMEOUT]))
    def prompt(self, session: str, mode: str, signal: int | None, timeout: float | None) -> None:
        """The client prompts; one that reads its updates, or one that does not."""
        self.talk.prompt(session, mode, signal, timeout, read=mode in ("waits", "permission"))

    @rule(session=sessions, mode=modes, wait=st.booleans(), timeout=st.sampled_from([0, PROMPT_TIMEOUT]))
    def prompt_blindly(self, session: str, mode: str, wait: bool, timeout: float) -> None:
        """A client prompts without asking whether it may."""
        self.talk.raw_prompt(session, mode, wait=wait, wait_timeout=WAIT_TIMEOUT * wait, timeout=timeout)

    @rule(
        what=st.sampled_from(["ask", "list", "ask", "list", "load"]),
        session=sessions,
        stop=signals,
        wait=st.booleans(),
        timeout=st.sampled_from([None, PROMPT_TIMEOUT, 0]),
    )
    def ask(self, what: str, session: str, stop: int | None, wait: bool, timeout: float | None) -> None:
        """The client asks something else."""
        if what == "load":
            self.talk.ask(what, session)
        else:
            self.talk.ask(what, session, stop, wait=wait, wait_timeout=WAIT_TIMEOUT * wait, timeout=timeout)

    @rule(session=sessions)
    def note(self, session: str) -> None:
        """The client tells something whose handler takes its time; a prompt behind it has to wait."""
        self.talk.note(session)

    @precondition(lambda self: self.age % 5 == 4)
    @rule(position=positions)
    def close_session(self, position: int) -> None:
        """The client closes a session, and often opens it again."""
        self.talk.ask("close", self.some_session(position))

    @rule(position=positions)
    def cancel_session(self, position: int) -> None:
        """The client sends session/cancel, come what may."""
        self.talk.cancel_session(self.some_session(position))

    @precondition(lambda self: any(held.turn for held in self.talk.sessions.values()))
    @rule(session=sessions)
    def cancel_turn(self, session: str) -> None:
        """The client cancels the session's turn; again is nothing."""
        self.talk.sessions[session].cancel()

    @precondition(lambda self: self.talk.turns)
    @rule(position=positions)
    def cancel_any_turn(self, position: int) -> None:
        """Somebody cancels a turn that he holds, which may be over."""
        turn = self.talk.turns[-1 - position % len(self.talk.turns)].turn
        if turn is not None:
            turn.cancel()

    @rule(signal=st.sampled_from([0, 1]), renew=st.booleans())
    def signal(self, signal: int, renew: bool) -> None:
        """A signal is given, to all that hold it; a new one may take its place."""
        self.talk.signals[signal].cancel()
        if renew:
            self.talk.signals[signal] = type(self.talk.signals[signal])()

    # ---- calls of either side

    @precondition(lambda self: self.open())
    @rule(position=positions)
    def cancel_call(self, position: int) -> None:
        """A caller gives up; or waits for the answer, if that was his choice."""
        calls = self.open()
        asked = calls[position % len(calls)]
        asked.cancelled = True
        asked.call.cancel()

    @precondition(lambda self: self.talk.asked)
    @rule(position=positions)
    def cancel_by_handle(self, position: int) -> None:
        """Somebody who holds a handle cancels, be it answered or not."""
        self.talk.asked[-1 - position % len(self.talk.asked)].call.cancel_handle().cancel()

    @precondition(lambda self: self.open())
    @rule(position=positions)
    def detach(self, position: int) -> None:
        """A caller wants no answer any more; not of a turn, which the session waits for, nor what a handler awaits."""
        calls = [asked for asked in self.open() if asked.method in ("ask", "list") and asked.call not in self.awaited()]
        if calls:
            asked = calls[position % len(calls)]
            asked.detached = True
            asked.call.detach()

    def awaited(self) -> list[Any]:
        """The calls that handlers of updates wait for."""
        return [asked.call for asked in self.talk.asked if asked.awaited]

    # ---- the agent

    @precondition(lambda self: self.running())
    @rule(position=positions, how=st.sampled_from(["result", "result", "failure", "boom", "empty"]))
    def handler_ends(self, position: int, how: str) -> None:
        """A prompt's handler ends."""
        turns = self.running()
        turns[position % len(turns)].finish(how)

    @precondition(lambda self: any(turn.context for turn in self.talk.turns))
    @rule(position=positions, many=st.integers(1, 3))
    def update(self, position: int, many: int) -> None:
        """A handler sends updates, also one whose turn is answered."""
        turns = [turn for turn in self.talk.turns if turn.context is not None]
        for _ in range(many):
            self.talk.update(turns[-1 - position % len(turns)])

    @precondition(lambda self: self.running())
    @rule(
        position=positions,
        what=st.sampled_from(["permission", "permission", "file"]),
        timeout=st.sampled_from([None, PROMPT_TIMEOUT]),
        wait=st.booleans(),
    )
    def handler_asks(self, position: int, what: str, timeout: float | None, wait: bool) -> None:
        """A handler asks the client for something beside."""
        turns = self.running()
        turn = turns[position % len(turns)]
        self.talk.request(turn, what, timeout=timeout, wait=wait, wait_timeout=WAIT_TIMEOUT * wait)

    @precondition(lambda self: any(turn.requests for turn in self.talk.turns))
    @rule(position=positions)
    def cancel_outstanding(self, position: int) -> None:
        """A handler cancels all that it has asked."""
        turns = [turn for turn in self.talk.turns if turn.requests]
        context = turns[position % len(turns)].context
        assert context is not None
        context.cancel_outstanding()

    @precondition(lambda self: self.running())
    @rule(position=positions)
    def handler_detaches(self, position: int) -> None:
        """A handler wants no answer to something that it has asked beside."""
        for turn in self.running():
            for asked in turn.requests:
                if not asked.outcomes and not asked.detached and not asked.awaited:
                    asked.detached = True
                    asked.call.detach()
                    return

    # ---- whatever takes its time

    @precondition(lambda self: self.talk.gates)
    @rule(position=positions, how=st.sampled_from(["result", "result", "failure"]))
    def let_go(self, position: int, how: str) -> None:
        """An answer of the client's, an update's handler, or an extension's comes to its end."""
        name = self.talk.gates[position % len(self.talk.gates)][0]
        self.talk.let_go(position, "result" if name in ("note", "update") else how)

    @rule(slow=st.booleans(), asking=st.booleans())
    def client_is_slow(self, slow: bool, asking: bool) -> None:
        """From now on updates are handled slowly, or by asking the agent something, or at once."""
        self.talk.slow_updates, self.talk.asking_updates = slow, asking and not slow

    # ---- the wire and the clock

    @rule(who=sides)
    def deliver(self, who: Who) -> None:
        """One message arrives."""
        self.talk.deliver(who)

    @rule(who=sides, count=st.integers(1, 6))
    def deliver_some(self, who: Who, count: int) -> None:
        """Some messages arrive."""
        for _ in range(count):
            self.talk.deliver(who)

    @rule()
    def deliver_all(self) -> None:
        """Everything arrives."""
        self.talk.settle_messages()

    @rule(who=sides, position=positions)
    def reorder(self, who: Who, position: int) -> None:
        """Messages of two sessions change places."""
        self.talk.reorder(who, position)

    @rule(who=sides, message=st.sampled_from(MALFORMED))
    def noise(self, who: Who, message: dict[str, Any]) -> None:
        """A peer that is not ours sends cancellations and answers that mean nothing."""
        self.talk.inject(who, {"jsonrpc": "2.0", **message})

    @rule(who=sides, position=positions, what=st.sampled_from(["result", "error", "cancel"]))
    def again(self, who: Who, position: int, what: str) -> None:
        """An answer comes twice, or a cancellation comes for what is answered."""
        self.talk.repeat(who, position, what)

    @rule(who=sides, position=positions)
    def answer_early(self, who: Who, position: int) -> None:
        """An answer comes while its request is still in work, which will be answered again."""
        self.talk.answer_early(who, position)

    @precondition(lambda self: self.talk.clock.getDelayedCalls())
    @rule()
    def timer(self) -> None:
        """The next timer is over."""
        self.talk.fire()

    @rule(seconds=st.sampled_from([0.5, 3.25]))
    def wait(self, seconds: float) -> None:
        """Some time passes."""
        self.talk.pass_time(seconds)

    # ---- the end

    @precondition(lambda self: self.age > 20 and self.age % 4 == 0)
    @rule(how=st.sampled_from(["disconnect", "half_close", "shut_down"]), who=sides)
    def end(self, how: str, who: Who) -> None:
        """The link breaks, or one side ends the conversation."""
        getattr(self.talk, how)(who)

    @precondition(lambda self: self.talk.lost)
    @rule()
    def reconnect(self) -> None:
        """What is lost is looked through, and a new connection is made."""
        self.talk.finish()
        self.connect()

    # What makes a conversation deep comes more often than what ends it.
    prompt_again = prompt_too = prompt
    update_again = update_too = update_more = update
    asks_again = handler_asks
    ends_again = handler_ends
    cancel_again = cancel_turn
    deliver_again = deliver_some
    let_go_again = let_go
    slow_again = client_is_slow

    def teardown(self) -> None:
        """Nothing is left, and no Deferred goes with an unhandled failure."""
        try:
            if hasattr(self, "talk"):
                self.talk.finish()
                del self.talk
        finally:
            gc.collect()
            globalLogPublisher.removeObserver(self.errors)
            if not Conversation.conversations % COLLECT_EVERY:
                gc.unfreeze()
                gc.collect()
        assert not self.errors.seen, "\n".join(self.errors.seen)


def run(conversations: int, steps: int = STEPS_PER_CONVERSATION, *, seed: int | None = None) -> int:
    """
    Run the machine for so many conversations of so many steps each, and say how many steps there were.

    With a seed the conversations are always the same; without they are new ones each time.
    """
    return run_machine(Conversation, conversations, steps, seed)


def test_conversations(request: pytest.FixtureRequest) -> None:
    """
    At least 100 000 steps of random conversations keep every rule (V1C1-V1C13, X1-X11, design rules 1-5).

    In a process of its own, and always the same ones: whatever fails here can be had again by the same command.
    C{tools/soak.py} without a seed plays new ones.
    """
    verifyObject(ILogObserver, Errors(Boom))
    play(request, "conversation machine", "--steps", str(CI_STEPS), "--seed", str(CI_SEED))
