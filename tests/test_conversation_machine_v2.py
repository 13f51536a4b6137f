"""
Random conversations of version 2 between two real halves: every cancellation from every side, in every race.

C{tools/soak.py --protocol 2} runs the same machine for as many steps as one likes.
"""

from __future__ import annotations

import gc
from typing import Any, ClassVar

import pytest
from conversation_running import Errors, play, run_machine
from conversation_v2 import Talk
from conversation_v2_parts import DURATION, GRACE, PROMPT_TIMEOUT, SESSIONS, Boom, Sent
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from twisted.logger import globalLogPublisher

CI_STEPS = 50_000
CI_SEED = 20261130
STEPS_PER_CONVERSATION = 60
CONVERSATIONS_A_RUN = 400
COLLECT_EVERY = 200

sessions = st.sampled_from(SESSIONS)
sides = st.sampled_from(["client", "agent"])
positions = st.integers(0, 7)
modes = st.sampled_from(
    [
        *("waits", "waits", "waits", "swallows", "cooperates", "permission", "permission"),
        *("result", "failure", "boom", "empty"),
    ]
)


class Conversation(RuleBasedStateMachine):
    """
    One answer to each request, at most one cancellation, one end of each piece of work, and nothing left behind.
    """

    steps: ClassVar[int] = 0
    conversations: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        gc.freeze()
        self.errors = Errors(Boom)
        globalLogPublisher.addObserver(self.errors)
        self.talk: Talk
        self.eager = False
        self.age = 0

    @initialize(
        grace=st.sampled_from([0, GRACE, GRACE]),
        duration=st.sampled_from([0, DURATION]),
        spare=st.booleans(),
        eager=st.booleans(),
    )
    def choose(self, grace: float, duration: float, spare: bool, eager: bool) -> None:
        """Any of the timers may be off.  An eager link mostly delivers at once."""
        Conversation.conversations += 1
        self.eager = eager
        self.talk = Talk(grace=grace, duration=duration, spare=spare)

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

    def running(self) -> list[Sent]:
        """The prompts whose handlers are at work."""
        return [sent for sent in self.talk.prompts if sent.context is not None and not sent.done]

    def open(self) -> list[Sent]:
        """The prompts that are not over."""
        return [sent for sent in self.talk.prompts if not sent.idle]

    # ---- the client

    @rule(
        session=sessions,
        mode=modes,
        signal=st.sampled_from([None, None, 0, 1]),
        timeout=st.sampled_from([None, None, PROMPT_TIMEOUT]),
    )
    def prompt(self, session: str, mode: str, signal: int | None, timeout: float | None) -> None:
        """The client prompts; one that reads its updates, or one that does not."""
        if session not in self.talk.closed:
            self.talk.prompt(session, mode, signal, timeout, read=mode in ("waits", "permission"))

    @rule(session=sessions)
    def wait_for_idle(self, session: str) -> None:
        """Somebody waits for the end of a session's work."""
        self.talk.wait_for_idle(session)

    @rule(session=sessions)
    def cancel_session(self, session: str) -> None:
        """session/cancel, whatever the session is at."""
        self.talk.cancel_session(session)

    @precondition(lambda self: self.talk.prompts)
    @rule(position=positions)
    def cancel_prompt(self, position: int) -> None:
        """One prompt is stopped, which may be over."""
        self.talk.cancel_prompt(self.talk.prompts[-1 - position % len(self.talk.prompts)])

    @precondition(lambda self: self.open())
    @rule(position=positions, what=st.sampled_from(["accepted", "idle"]))
    def give_up(self, position: int, what: str) -> None:
        """A caller cancels one of a prompt's Deferreds."""
        prompts = self.open()
        self.talk.give_up(prompts[position % len(prompts)], what)

    @rule(signal=st.sampled_from([0, 1]), renew=st.booleans())
    def signal(self, signal: int, renew: bool) -> None:
        """A signal is given, to all that hold it; a new one may take its place."""
        self.talk.give_signal(signal, renew)

    @precondition(lambda self: self.age % 5 == 4)
    @rule(session=sessions)
    def close_session(self, session: str) -> None:
        """The client closes a session."""
        self.talk.close_session(session)

    # ---- the agent

    @precondition(lambda self: self.running())
    @rule(position=positions, how=st.sampled_from(["result", "result", "failure", "boom", "empty"]))
    def handler_ends(self, position: int, how: str) -> None:
        """A prompt's handler ends."""
        prompts = self.running()
        prompts[position % len(prompts)].finish(how)

    @precondition(lambda self: any(sent.context for sent in self.talk.prompts))
    @rule(position=positions, many=st.integers(1, 3))
    def update(self, position: int, many: int) -> None:
        """A handler sends updates, also one whose work is over."""
        prompts = [sent for sent in self.talk.prompts if sent.context is not None]
        for _ in range(many):
            self.talk.update(prompts[-1 - position % len(prompts)])

    @precondition(lambda self: self.running())
    @rule(position=positions)
    def ask(self, position: int) -> None:
        """A handler asks the user for something beside."""
        prompts = self.running()
        self.talk.ask_beside(prompts[position % len(prompts)])

    @rule(session=sessions, work=st.booleans())
    def background(self, session: str, work: bool) -> None:
        """The agent repeats the state of a session, with what goes on in its background."""
        self.talk.background(session, work)

    @rule(session=sessions)
    def ask_from_background(self, session: str) -> None:
        """Work in the background asks the user for something."""
        self.talk.ask_from_background(session)

    # ---- whatever takes its time, the wire and the clock

    @precondition(lambda self: self.talk.gates)
    @rule(position=positions)
    def let_go(self, position: int) -> None:
        """The user answers, or an update's handler comes to its end."""
        self.talk.let_go(position)

    @rule(slow=st.booleans())
    def client_is_slow(self, slow: bool) -> None:
        """From now on updates are handled slowly, or at once."""
        self.talk.slow_updates = slow

    @rule(who=sides, count=st.integers(1, 6))
    def deliver(self, who: str, count: int) -> None:
        """Some messages arrive."""
        for _ in range(count):
            self.talk.deliver(who)

    @rule()
    def deliver_all(self) -> None:
        """Everything arrives."""
        self.talk.settle_messages()

    @precondition(lambda self: self.talk.clock.getDelayedCalls())
    @rule()
    def timer(self) -> None:
        """The next timer is over."""
        self.talk.fire()

    @precondition(lambda self: self.age > 20 and self.age % 4 == 0)
    @rule(how=st.sampled_from(["disconnect", "shut_down"]), who=sides)
    def end(self, how: str, who: str) -> None:
        """The link breaks, or one side ends the conversation."""
        getattr(self.talk, how)(who)

    prompt_again = prompt_too = prompt
    update_again = update_too = update
    deliver_again = deliver_more = deliver
    let_go_again = let_go
    ends_again = handler_ends

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


def test_conversations_of_version_2(request: pytest.FixtureRequest) -> None:
    """
    Random conversations keep every rule (V2D1-V2D8, X13, design rules 1-5).

    In a process of its own, and always the same ones: whatever fails here can be had again by the same command.
    """
    play(
        request,
        "conversation machine of version 2",
        "--protocol",
        "2",
        "--steps",
        str(CI_STEPS),
        "--seed",
        str(CI_SEED),
    )
