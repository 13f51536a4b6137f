"""
Random conversations in which every callback may come back with events of its own, against the table.
"""

from __future__ import annotations

import gc
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from turn_model import Action, Prompt, Rig
from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogPublisher
from zope.interface import implementer
from zope.interface.verify import verifyObject

# What a callback may come back with.
ACTIONS: dict[str, Action] = {
    "prompt": lambda prompt: prompt.rig.prompt(),
    "swallowing prompt": lambda prompt: prompt.rig.prompt(swallows=True),
    "session/cancel": lambda prompt: prompt.rig.cancel(),
    "$/cancel_request": lambda prompt: prompt.rig.cancel_request(prompt.index),
    "$/cancel_request for the last": lambda prompt: prompt.rig.cancel_request(),
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
HOOKS = ["on_start", "on_token", "on_answer", "on_stop", "on_told"]

# A plan says what each callback of a prompt does: names of ACTIONS, or a prompt with a plan of its own.
names = st.sampled_from([*ACTIONS, *ACTIONS, *ACTIONS, *LAST_ACTIONS])
simple_plans = st.dictionaries(st.sampled_from(HOOKS), st.lists(names, min_size=1, max_size=2), max_size=3)
nested = st.tuples(st.booleans(), simple_plans)
plans = st.dictionaries(st.sampled_from(HOOKS), st.lists(names | nested, min_size=1, max_size=3), max_size=5)


def reactions(plan: dict[str, list[Any]]) -> dict[str, Action]:
    """The callbacks of a plan.  Each step is taken once, so that no conversation goes on for ever."""

    def callback(steps: list[Any]) -> Action:
        def act(prompt: Prompt) -> None:
            while steps:
                step = steps.pop(0)
                if isinstance(step, tuple):
                    swallows, inner = step
                    prompt.rig.prompt(swallows, reactions(inner))
                else:
                    (ACTIONS | LAST_ACTIONS)[step](prompt)

        return act

    return {hook: callback(list(steps)) for hook, steps in plan.items()}


@implementer(ILogObserver)
class Errors:
    """Keeps what is logged as an error: an assertion in a callback, an unhandled failure of a Deferred."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, event: LogEvent) -> None:
        if event["log_level"] >= LogLevel.error:
            failure = event.get("log_failure")
            self.seen.append(f"{event.get('log_format')} {failure.getTraceback() if failure else ''}")


class Conversation(RuleBasedStateMachine):
    """
    One answer to each prompt, the one that the table has for the order of the events, and nothing left behind.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.errors = Errors()
        verifyObject(ILogObserver, self.errors)
        globalLogPublisher.addObserver(self.errors)

    @initialize(grace=st.sampled_from([0, 10, 10]), duration=st.sampled_from([0, 1000, 1000]))
    def choose_timeouts(self, grace: float, duration: float) -> None:
        """Any of the timers may be off."""
        self.rig = Rig(grace, duration)

    @rule(swallows=st.booleans(), plan=plans)
    def prompt(self, swallows: bool, plan: dict[str, list[Any]]) -> None:
        """The client prompts."""
        self.rig.prompt(swallows, reactions(plan))

    @rule()
    def session_cancel(self) -> None:
        """The client cancels the session's turn."""
        self.rig.cancel()

    @rule(index=st.integers(min_value=0, max_value=9))
    def cancel_request(self, index: int) -> None:
        """The client cancels a request, perhaps one that is answered."""
        if self.rig.prompts:
            self.rig.cancel_request(index % len(self.rig.prompts))

    @rule(event=st.sampled_from(["result", "failure"]))
    def handler_ends(self, event: str) -> None:
        """The oldest handler ends."""
        self.rig.finish(event)

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
    def as_the_table_says(self) -> None:
        """All that can be seen is what the table says, and no callback came to grief."""
        self.rig.check()
        assert self.errors.seen == []

    def teardown(self) -> None:
        """Nothing is left, and no Deferred goes with an unhandled failure."""
        self.rig.end()
        gc.collect(0)
        globalLogPublisher.removeObserver(self.errors)
        assert self.errors.seen == []


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=200, stateful_step_count=25, deadline=None)
