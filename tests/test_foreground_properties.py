"""
Random conversations of version 2 in which every callback may come back with events of its own.
"""

from __future__ import annotations

import gc
from typing import Any

from foreground_model import Action, Prompt, Rig
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogPublisher
from zope.interface import implementer

ACTIONS: dict[str, Action] = {
    "prompt": lambda prompt: prompt.rig.prompt(),
    "prompt to be admitted": lambda prompt: prompt.rig.prompt(asks=True),
    "swallowing prompt": lambda prompt: prompt.rig.prompt(swallows=True),
    "session/cancel": lambda prompt: prompt.rig.cancel(),
    "$/cancel_request": lambda prompt: prompt.rig.cancel_request(prompt.index),
    "$/cancel_request for the last": lambda prompt: prompt.rig.cancel_request(),
    "admitted": lambda prompt: prompt.rig.decide("admitted"),
    "rejected": lambda prompt: prompt.rig.decide("rejected"),
    "blocked": lambda prompt: prompt.rig.blocked(),
    "unblocked": lambda prompt: prompt.rig.unblocked(),
    "result": lambda prompt: prompt.finish("result"),
    "failure": lambda prompt: prompt.finish("failure"),
    "result of the oldest": lambda prompt: prompt.rig.finish("result"),
    "grace over": lambda prompt: prompt.rig.fire("grace"),
    "duration over": lambda prompt: prompt.rig.fire("duration"),
}
LAST_ACTIONS: dict[str, Action] = {
    "session/close": lambda prompt: prompt.rig.close(),
    "shutdown": lambda prompt: prompt.rig.shutdown(),
    "disconnect": lambda prompt: prompt.rig.connection_lost(),
}
HOOKS = ["on_admit", "on_start", "on_token", "on_answer", "on_stop", "on_told", "on_end"]

names = st.sampled_from([*ACTIONS, *ACTIONS, *ACTIONS, *LAST_ACTIONS])
plans = st.dictionaries(st.sampled_from(HOOKS), st.lists(names, min_size=1, max_size=3), max_size=5)


def reactions(plan: dict[str, list[str]]) -> dict[str, Action]:
    """
    The callbacks of a plan.  Each step is taken once, so that no conversation goes on for ever.
    """

    def callback(steps: list[str]) -> Action:
        def act(prompt: Prompt) -> None:
            while steps:
                (ACTIONS | LAST_ACTIONS)[steps.pop(0)](prompt)

        return act

    return {hook: callback(list(steps)) for hook, steps in plan.items()}


class Conversation(RuleBasedStateMachine):
    """
    One answer to each prompt, -32800 never for one that is inserted, every work reported from C{running} to C{idle}, in
    the order of the prompts, and nothing left behind.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.errors: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            if event["log_level"] >= LogLevel.error:
                failure: Any = event.get("log_failure")
                self.errors.append(f"{event.get('log_format')} {failure.getTraceback() if failure else ''}")

        self._observe = observe
        globalLogPublisher.addObserver(observe)

    @initialize(grace=st.sampled_from([0, 10, 10]), duration=st.sampled_from([0, 1000, 1000]))
    def choose_timeouts(self, grace: float, duration: float) -> None:
        """Any of the timers may be off."""
        self.rig = Rig(grace, duration)

    @rule(asks=st.booleans(), swallows=st.booleans(), plan=plans)
    def prompt(self, asks: bool, swallows: bool, plan: dict[str, list[str]]) -> None:
        """The client prompts."""
        self.rig.prompt(asks=asks, swallows=swallows, hooks=reactions(plan))

    @rule()
    def session_cancel(self) -> None:
        """The client cancels the session's work."""
        self.rig.cancel()
        assert self.rig.session.held == () or len(self.rig.prompts) > 1

    @rule(index=st.integers(min_value=0, max_value=9))
    def cancel_request(self, index: int) -> None:
        """The client cancels a request, perhaps one that is answered."""
        if self.rig.prompts:
            self.rig.cancel_request(index % len(self.rig.prompts))

    @rule(event=st.sampled_from(["admitted", "admitted", "rejected"]))
    def decided(self, event: str) -> None:
        """A prompt is admitted or not."""
        self.rig.decide(event)

    @rule(event=st.sampled_from(["result", "failure"]))
    def handler_ends(self, event: str) -> None:
        """The oldest handler ends."""
        self.rig.finish(event)

    @rule(event=st.sampled_from(["blocked", "unblocked"]))
    def waits(self, event: str) -> None:
        """The work waits for its user, or no more."""
        getattr(self.rig, event)()

    @rule(event=st.sampled_from(["grace", "duration"]))
    def timer_ends(self, event: str) -> None:
        """A timer is over."""
        self.rig.fire(event)

    @rule()
    def client_gone(self) -> None:
        """The client disconnects, and a new one comes with a session of its own."""
        self.rig.end()
        self.rig = Rig(self.rig.grace, self.rig.duration)

    @rule(event=st.sampled_from(["close", "shutdown"]))
    def agent_ends(self, event: str) -> None:
        """The session is closed, or the agent ends."""
        getattr(self.rig, event)()

    @invariant()
    def as_the_law_says(self) -> None:
        """All that can be seen is lawful, and no callback came to grief."""
        self.rig.lawful()
        assert self.errors == []

    def teardown(self) -> None:
        """Nothing is left, and no Deferred goes with an unhandled failure."""
        self.rig.end()
        gc.collect(0)
        globalLogPublisher.removeObserver(self._observe)
        assert self.errors == []


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=200, stateful_step_count=25, deadline=None)
