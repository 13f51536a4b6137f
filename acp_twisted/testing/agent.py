"""
An agent for the tests of a client: it does what the test says.

(Another program, for tests that need a real process, is L{acp_twisted.testing.scripted_agent}: there each prompt says
what the agent does.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from zope.interface import implementer

from acp_twisted.agent.agent import AcpAgent
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.agent.context import PromptContext
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.testing._versions import Versions
from acp_twisted.testing.half import ScriptedHalf
from acp_twisted.testing.script import Expectation, Matching, Script, by_text, shortened, text_of
from acp_twisted.turn.result import TurnResult

if TYPE_CHECKING:
    from acp_twisted.schema import v2

ANYTHING: Any = lambda value: True  # noqa: E731 - it is a value here
"""For an answer that does not matter."""


class PromptExpectation(Expectation):
    """
    A prompt that is to come, and its turn.  Each method returns the expectation itself, and what they say is done in
    that order.  A turn that nobody ends is ended with C{end_turn}.

    In version 2 the library says what belongs to it: that the prompt is inserted, its message, C{running},
    C{requires_action} while the user is asked, and C{idle} with the reason.
    """

    def __init__(
        self,
        script: Script,
        description: str,
        matches: Callable[[Any], bool],
        noted: Callable[[Any], object] | None = None,
    ) -> None:
        """
        @param noted: told of the prompts that are taken into the turn.
        """
        super().__init__("session/prompt", description, matches)
        self._script = script
        self._noted = noted
        self._message_id: str | None = None
        self._delay = 0.0
        self._refusal: BaseException | None = None
        self.ends()

    # ---- version 2: whether it becomes part of the conversation

    def inserts(self, message_id: str | None = None, *, after: float = 0) -> PromptExpectation:
        """
        Version 2.  Let the prompt become part of the conversation, which it does at once unless said otherwise.

        @param message_id: the id that its message gets; a random one if it is L{None}.
        @param after: so many seconds after its turn has come; until then it can be cancelled for itself.
        """
        self._message_id = message_id
        self._delay = after
        return self

    def refuses(self, error: BaseException) -> PromptExpectation:
        """
        Answer the prompt with an error: in version 2 it does not become part of the conversation.  In version 1 this is
        what L{fails} does.
        """
        self._refusal = error
        return self.fails(error)

    def admit(self, clock: IReactorTime) -> Any:
        """
        For L{ScriptedAgent}: what comes of a prompt before it is inserted.

        @return: the id of its message, or a Deferred of that.
        """
        return deferLater(clock, self._delay, self._admit) if self._delay else self._admit()

    def _admit(self) -> str | None:
        if self._refusal is not None:
            raise self._refusal
        return self._message_id

    def takes_prompt(self, matching: Matching = None) -> PromptExpectation:
        """
        Version 2.  Take the first prompt that is held into this turn, which answers to it too.  There must be one.

        @param matching: as for L{ScriptedAgent.expect_prompt}.
        """
        words, matches = _by_prompt(matching)

        def take(request: Any, context: PromptContext) -> None:
            taken = context.take_prompt()
            if taken is not None and self._noted is not None:
                self._noted(taken)
            if taken is None or not matches(taken):
                raise self._script.fault(f"expected a prompt{words} to be held; what is held is {shortened(taken)}")

        return self.does(take)

    # ---- what is done

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

    def updates(self, *updates: v1.SessionUpdate | v2.SessionUpdate) -> PromptExpectation:
        """
        Send updates, in the words of the version that is spoken.
        """
        for update in updates:
            self.does(lambda request, context, update=update: context.send_update(update))  # type: ignore[misc]
        return self

    def asks(
        self,
        ask: Callable[[Any], Any],
        answer: object = ANYTHING,
        *,
        fails: type[BaseException] | None = None,
        what: str = "what it asks",
    ) -> PromptExpectation:
        """
        Ask the client something, and look at what comes of it.

        @param ask: given the turn's L{PromptContext}, which is that of the version that is spoken, returns a Deferred.
        @param answer: what must come of it, or a function that decides.
        @param fails: the error that must come of it instead.
        @param what: what it is, for messages.
        """

        async def step(request: Any, context: PromptContext) -> None:
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
        Version 1.  Read a file of the client's.

        @param content: what must be in it, or a function that decides.
        """
        return self.asks(lambda context: context.read_file(path), content, what=f"reading {path}")

    def writes(self, path: str, content: str) -> PromptExpectation:
        """
        Version 1.  Write a file of the client's.
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
        Version 1.  Run a command in a terminal of the client's.

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
        return self.answers(TurnResult(stop_reason, meta=meta))


def _by_prompt(matching: Matching) -> tuple[str, Callable[[Any], bool]]:
    return by_text(matching, lambda request: text_of(request.prompt))


@implementer(IMessageReceiverFactory)
class ScriptedAgent(ScriptedHalf):
    """
    An agent whose prompts are scripted.  It goes wherever an L{AcpAgent} goes: into a pair, a service, an endpoint.

    A prompt that is not expected is answered -32603, with the words of what was expected and what came; in version 2
    it does not become part of the conversation.

    @ivar prompts: the prompts that came, in the words of their version; in version 2, those whose turn has come.
    @ivar cancels: the cancellations that came.
    """

    def __init__(self, configure: Callable[[Any], object] | None = None, *, protocol_versions: Versions = 1) -> None:
        """
        @param configure: does more with the builder: handlers, capabilities, timeouts.
        @param protocol_versions: the version of the protocol that it speaks, or several; see
            L{AcpAgentBuilder.protocol_versions<acp_twisted.agent.agent.AcpAgentBuilder.protocol_versions>}.
        """
        super().__init__("the agent", configure, protocol_versions)
        self.prompts: list[Any] = []
        self.cancels: list[Any] = []
        self._agent: AcpAgent | None = None
        self._opened = 0
        self._admitted: dict[int, tuple[Any, PromptExpectation]] = {}

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
        words, matches = _by_prompt(matching)
        return PromptExpectation(self.script, f"a prompt{words}", matches, self._note_prompt)

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
            builder: Any = self._of_versions(AcpAgent.builder(unstable=self._unstable))
            self._install(builder)
            builder.prompt_handler(self._prompt)
            handlers: dict[str, Callable[..., Any]] = {
                "new_session_handler": self._new_session,
                "cancel_handler": lambda notice: self._note(self.cancels, notice),
            }
            if 2 in self.versions:
                handlers["accept_prompt_handler"] = self._accept
            for setter, handler in handlers.items():
                try:
                    getattr(builder, setter)(handler)
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
        The agent's side of a new connection; see L{AcpAgent.connect}.
        """
        link = self.agent.connect(clock)
        self._links.append(link)
        return link

    def _accept(self, request: v2.PromptRequest, connection: Any) -> Any:
        self._note_prompt(request)
        found = self._find(request)
        self._admitted[id(request)] = request, found
        return found.admit(connection.clock)

    async def _prompt(self, request: Any, context: PromptContext) -> Any:
        _, found = self._admitted.pop(id(request), (None, None))
        if found is None:  # nobody asked before, in version 1 or with a handler of the test's own
            self._note_prompt(request)
            found = self._find(request)
        return await found.play(request, context)

    def _find(self, request: Any) -> PromptExpectation:
        found = self.script.find("session/prompt", request)
        assert isinstance(found, PromptExpectation)
        return found

    def _note_prompt(self, request: Any) -> None:
        self._note(self.prompts, request)

    def _new_session(self, request: Any) -> v1.NewSessionResponse:
        self._opened += 1
        return v1.NewSessionResponse(session_id=f"session-{self._opened}")
