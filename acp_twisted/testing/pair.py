"""
An agent and a client that talk to each other in memory: no reactor, no process, a clock that stands still.

Everything that one says is delivered at once, in order, so when a call returns, what follows from it has happened.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock

from acp_twisted.agent.connection import AgentConnection
from acp_twisted.client.client import AcpClient
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.session import ClientSession, PromptTurn
from acp_twisted.schema import v1
from acp_twisted.testing._failed import failed
from acp_twisted.testing.recording import RecordingReceiver
from acp_twisted.testing.results import success_result
from acp_twisted.testing.transcript import Transcript, says
from acp_twisted.transports.memory import MemoryLink


class ConnectsAgent(Protocol):
    """
    An L{AcpAgent<acp_twisted.agent.agent.AcpAgent>}, or something in its place.
    """

    def connect(self, clock: IReactorTime) -> AgentConnection:
        """The agent's side of a new connection."""


class ConnectsClient(Protocol):
    """
    An L{AcpClient}, or something in its place.
    """

    def connection(self, clock: IReactorTime) -> ClientConnection:
        """The client's side of a new connection."""


class ConnectedPair:
    """
    Two halves on one link; made by L{connected_pair}.

    As a context manager it ends the conversation at last, and then holds scripted halves to what they expected
    (L{verify}).

    @ivar agent: the agent's side of the connection.
    @ivar client: the client's.
    @ivar clock: what both take their time from.
    @ivar link: what joins them; set its C{auto} to L{False} to deliver by hand.
    @ivar transcript: what was said, by C{"client"} and C{"agent"}.
    @ivar initialized: the agent's answer to C{initialize}, if that was sent.
    """

    def __init__(self, agent: ConnectsAgent, client: ConnectsClient, clock: Clock) -> None:
        self.clock = clock
        self.agent = agent.connect(clock)
        self.client = client.connection(clock)
        self._halves = (agent, client)
        self._recorded = RecordingReceiver(self.client.peer, us="client", them="agent")
        self.link = MemoryLink(self._recorded, self.agent.peer, clock, self.client.limits)
        self.initialized: v1.InitializeResponse | None = None
        self._session: ClientSession | None = None

    @property
    def transcript(self) -> Transcript:
        """What was said."""
        return self._recorded.transcript

    @property
    def said(self) -> str:
        """The texts of all the agent's message chunks so far, put together."""
        return says(self.transcript.entries)

    @property
    def session(self) -> ClientSession:
        """
        The session that L{prompt} uses; it is opened when it is first asked for.
        """
        if self._session is None:
            self._session = self.open_session()
        return self._session

    def open_session(self, cwd: str = "/work") -> ClientSession:
        """
        Open another session.

        @raise AssertionError: when the agent does not answer at once, or refuses.
        """
        return success_result(self.client.new_session(cwd))

    def prompt(self, content: Any = "Hello", **options: Any) -> PromptTurn:
        """
        Send a prompt in the pair's own session.  Whether it is answered yet is for the agent to say.

        @param content: text, or content blocks.
        """
        return self.session.prompt(content, **options)

    def answer(self, content: Any = "Hello", **options: Any) -> v1.PromptResponse:
        """
        Send a prompt, and take its answer.

        @raise AssertionError: when there is none yet, or it is an error.
        """
        return success_result(self.prompt(content, **options).response)

    def advance(self, seconds: float) -> None:
        """
        Let time pass.
        """
        self.clock.advance(seconds)

    def close(self) -> None:
        """
        End the conversation from the client's side, in good order; what does not end is cut.
        """
        for half in (self.client, self.agent):
            half.close()
        if not self.agent.when_closed().called:
            self.client.abort("the pair was closed")

    def lose(self) -> None:
        """
        The link breaks.
        """
        self.link.a.abort("the link broke")

    def verify(self) -> None:
        """
        Hold a L{ScriptedAgent<acp_twisted.testing.agent.ScriptedAgent>} and a
        L{ScriptedClient<acp_twisted.testing.client.ScriptedClient>} of the pair to what they expected.

        @raise AssertionError: with what was expected and did not come, what came unexpected, and the transcript.
        """
        for half in self._halves:
            verify = getattr(half, "verify", None)
            if verify is not None:
                try:
                    verify()
                except AssertionError as error:
                    raise failed(f"{error}\nWhat was said:\n{self.transcript}") from None

    def __enter__(self) -> ConnectedPair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        if error is None:
            self.verify()


def connected_pair(
    agent: ConnectsAgent,
    client: ConnectsClient | None = None,
    *,
    clock: Clock | None = None,
    initialize: bool = True,
) -> ConnectedPair:
    """
    Join an agent and a client.

    @param agent: an L{AcpAgent<acp_twisted.agent.agent.AcpAgent>}, or a
        L{ScriptedAgent<acp_twisted.testing.agent.ScriptedAgent>}.
    @param client: an L{AcpClient}, or a L{ScriptedClient<acp_twisted.testing.client.ScriptedClient>}; by default one
        without any handlers.
    @param clock: by default a new one.
    @param initialize: have the client begin the conversation.
    @raise AssertionError: when the agent does not answer C{initialize} at once, or refuses.
    """
    pair = ConnectedPair(agent, client or AcpClient.builder().build(), clock or Clock())
    if initialize:
        pair.initialized = success_result(pair.client.initialize())
    return pair
