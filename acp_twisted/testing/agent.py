"""
An agent for the tests of a client: it does what the test says.

(Another program, for tests that need a real process, is L{acp_twisted.testing.scripted_agent}: there each prompt says
what the agent does.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from acp_twisted.agent.agent import AcpAgent, AcpAgentBuilder
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.agent.context import PromptContext
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.testing.half import ScriptedHalf
from acp_twisted.testing.script import Expectation, Matching, Script, by_text, shortened, text_of

ANYTHING: Any = lambda value: True  # noqa: E731 - it is a value here
"""For an answer that does not matter."""


class PromptExpectation(Expectation):
    """
    A prompt that is to come, and its turn.  Each method returns the expectation itself, and what they say is done in
    that order.  A turn that nobody ends is answered C{end_turn}.
    """

    def __init__(self, script: Script, description: str, matches: Callable[[Any], bool]) -> None:
        super().__init__("session/prompt", description, matches)
        self._script = script
        self.ends()

    def says(self, text: str) -> PromptExpectation:
        """
        Send a piece of the agent's message.
        """
        return self.does(lambda request, context: context.send_message(text))

    def thinks(self, text: str) -> PromptExpectation:
        """
        Send a piece of the agent's reasoning.
        """
        return self.does(lambda request, context: context.send_thought(text))

    def updates(self, *updates: v1.SessionUpdate) -> PromptExpectation:
        """
        Send updates.
        """
        for update in updates:
            self.does(lambda request, context, update=update: context.send_update(update))  # type: ignore[misc]
        return self

    def asks(
        self,
        ask: Callable[[PromptContext], Any],
        answer: object = ANYTHING,
        *,
        fails: type[BaseException] | None = None,
        what: str = "what it asks",
    ) -> PromptExpectation:
        """
        Ask the client something, and look at what comes of it.

        @param ask: given the turn's context, returns a Deferred.
        @param answer: what must come of it, or a function that decides.
        @param fails: the error that must come of it instead.
        @param what: what it is, for messages.
        """

        async def step(request: v1.PromptRequest, context: PromptContext) -> None:
            try:
                got = await ask(context)
            except Exception as error:
                if fails is None:
                    raise
                self._script.check(what, lambda value: isinstance(value, fails), error)
            else:
                if fails is not None:
                    raise self._script.fault(f"expected {what} to fail with {fails.__name__}; it is {shortened(got)}")
                self._script.check(what, answer, got)

        return self.does(step)

    def reads(self, path: str, content: object = ANYTHING) -> PromptExpectation:
        """
        Read a file of the client's.

        @param content: what must be in it, or a function that decides.
        """
        return self.asks(lambda context: context.read_file(path), content, what=f"reading {path}")

    def writes(self, path: str, content: str) -> PromptExpectation:
        """
        Write a file of the client's.
        """
        return self.asks(lambda context: context.write_file(path, content), what=f"writing {path}")

    def asks_permission(self, action: str, granted: object = ANYTHING) -> PromptExpectation:
        """
        Ask the user whether something may be done.

        @param granted: what he must say.
        """
        return self.asks(lambda context: context.ask_permission(action), granted, what=f"permission to {action!r}")

    def runs(self, command: str, args: Sequence[str] = (), output: object = ANYTHING) -> PromptExpectation:
        """
        Run a command in a terminal of the client's.

        @param output: what it must write, or a function that decides.
        """

        async def run(context: PromptContext) -> str:
            return (await context.execute(command, args)).output

        return self.asks(run, output, what=f"running {command}")

    def waits_for_cancel(self) -> PromptExpectation:
        """
        Go on when the turn is cancelled.
        """
        return self.does(lambda request, context: context.when_cancelled())

    def ends(self, stop_reason: v1.StopReason = "end_turn", meta: dict[str, Any] | None = None) -> PromptExpectation:
        """
        End the turn.
        """
        return self.answers(v1.PromptResponse(stop_reason=stop_reason, meta=meta))


@implementer(IMessageReceiverFactory)
class ScriptedAgent(ScriptedHalf):
    """
    An agent whose prompts are scripted.  It goes wherever an L{AcpAgent} goes: into a pair, a service, an endpoint.

    A prompt that is not expected is answered -32603, with the words of what was expected and what came.

    @ivar prompts: the prompts that came.
    @ivar cancels: the cancellations that came.
    @ivar connections: the connections that it has served.
    """

    def __init__(self, configure: Callable[[AcpAgentBuilder], object] | None = None) -> None:
        """
        @param configure: does more with the builder: handlers, capabilities, timeouts.
        """
        super().__init__("the agent", configure)
        self.prompts: list[v1.PromptRequest] = []
        self.cancels: list[v1.CancelNotification] = []
        self.connections: list[AgentConnection] = []
        self._agent: AcpAgent | None = None
        self._opened = 0

    def expect_prompt(self, matching: Matching = None) -> PromptExpectation:
        """
        Expect a prompt, behind those that are expected already.

        @param matching: its whole text, an expression that is found in it, or a function of the request.
        """
        return self.script.add(self._prompted(matching), allowed=False)

    def allow_prompt(self, matching: Matching = None) -> PromptExpectation:
        """
        Let a prompt come any number of times, or never.  What is expected is looked at first.
        """
        return self.script.add(self._prompted(matching), allowed=True)

    def _prompted(self, matching: Matching) -> PromptExpectation:
        words, matches = by_text(matching, lambda request: text_of(request.prompt))
        return PromptExpectation(self.script, f"a prompt{words}", matches)

    def when_prompted(self, count: int = 1) -> Any:
        """
        A L{Deferred<twisted.internet.defer.Deferred>} that fires when so many prompts have come.
        """
        return self._when(self.prompts, count)

    # ---- being an agent

    @property
    def agent(self) -> AcpAgent:
        """
        The agent itself, built when it is first asked for.
        """
        if self._agent is None:
            builder = AcpAgent.builder(unstable=self._unstable)
            self._install(builder)
            builder.prompt_handler(self._prompt)
            for setter, handler in (
                (builder.new_session_handler, self._new_session),
                (builder.cancel_handler, lambda notice: self._note(self.cancels, notice)),
            ):
                try:
                    setter(handler)
                except ValueError:
                    continue  # there is another one
            self._agent = builder.build()
        return self._agent

    @property
    def limits(self) -> Limits:
        """
        See L{IMessageReceiverFactory}.
        """
        return self.agent.limits

    def build_receiver(self, clock: IReactorTime) -> IMessageReceiver:
        """
        See L{IMessageReceiverFactory}.
        """
        return self.connect(clock).peer

    def connect(self, clock: IReactorTime) -> AgentConnection:
        """
        The agent's side of a new connection.
        """
        connection = self.agent.connect(clock)
        self.connections.append(connection)
        return connection

    async def _prompt(self, request: v1.PromptRequest, context: PromptContext) -> Any:
        self._note(self.prompts, request)
        return await self.script.play("session/prompt", request, context)

    def _new_session(self, request: v1.NewSessionRequest) -> v1.NewSessionResponse:
        self._opened += 1
        return v1.NewSessionResponse(session_id=f"session-{self._opened}")
