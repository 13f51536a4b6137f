"""
An agent and a client that talk to each other in memory: no reactor, no process, a clock that stands still.

Everything that one says is delivered at once, in order, so when a call returns, what follows from it has happened.

Which version of the protocol they speak is for them to agree on; see L{connected_pair}.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, overload

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock

from acp_twisted.agent.connection import AgentConnection
from acp_twisted.client.client import AcpClient
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.session import ClientSession, PromptTurn
from acp_twisted.connection import Connection
from acp_twisted.schema import v1
from acp_twisted.schema.converter import structure
from acp_twisted.testing._failed import failed
from acp_twisted.testing._versions import agreed, versions, versions_of
from acp_twisted.testing.recording import RecordingReceiver
from acp_twisted.testing.results import success_result
from acp_twisted.testing.transcript import Transcript, answered, says
from acp_twisted.transports.memory import MemoryLink

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar

    from acp_twisted.agent.v2.connection import AgentConnection as SecondAgentConnection
    from acp_twisted.client.v2.client import VersionedClient
    from acp_twisted.client.v2.connection import ClientConnection as SecondClientConnection
    from acp_twisted.client.v2.prompt import Prompt
    from acp_twisted.client.v2.session import ClientSession as SecondClientSession
    from acp_twisted.schema import v2

    # A pair is one of version 1 to who does not say otherwise.
    _Agent = TypeVar("_Agent", default=AgentConnection)
    _Client = TypeVar("_Client", default=ClientConnection)
    _Session = TypeVar("_Session", default=ClientSession)
    _Prompt = TypeVar("_Prompt", default=PromptTurn)
    _Answer = TypeVar("_Answer", default=v1.PromptResponse)
    _Initialized = TypeVar("_Initialized", default=v1.InitializeResponse)
else:
    from typing import TypeVar

    _Agent = TypeVar("_Agent")
    _Client = TypeVar("_Client")
    _Session = TypeVar("_Session")
    _Prompt = TypeVar("_Prompt")
    _Answer = TypeVar("_Answer")
    _Initialized = TypeVar("_Initialized")


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


AnyClient: TypeAlias = "ConnectsClient | VersionedClient"
"""A client of one version of the protocol, or of several."""


class ConnectedPair(Generic[_Agent, _Client, _Session, _Prompt, _Answer, _Initialized]):
    """
    Two halves on one link; made by L{connected_pair}.

    As a context manager it ends the conversation at last, and then holds scripted halves to what they expected
    (L{verify}).

    @ivar clock: what both take their time from.
    @ivar link: what joins them; set its C{auto} to L{False} to deliver by hand.  It is another after L{initialize}
        where a client of both versions has begun anew in version 1, to say all that it can do there.
    @ivar transcript: what was said, by C{"client"} and C{"agent"}.
    @ivar initialized: the agent's answer to L{initialize}, if that was sent.
    """

    def __init__(
        self, agent: ConnectsAgent, client: AnyClient, clock: Clock, protocol_version: int | None = None
    ) -> None:
        """
        @param protocol_version: the version that L{initialize} must come to, if that matters.
        """
        self.clock = clock
        self._wanted = protocol_version
        self.transcript = Transcript()
        self.initialized: _Initialized | None = None
        self._halves = (agent, client)
        self._session: _Session | None = None
        link: Any = client.connection(clock)
        if not isinstance(link, Connection):
            link.reopen = self._begin_anew
        self._join(link)

    def _join(self, client: Any) -> None:
        """
        Put the client's side on a link with a new one of the agent's.
        """
        self._links: tuple[Any, Any] = (self._halves[0].connect(self.clock), client)
        recorded = RecordingReceiver(client.peer, self.transcript, us="client", them="agent")
        self.link = MemoryLink(recorded, self._links[0].peer, self.clock, client.peer.limits)

    def _begin_anew(self) -> Deferred[ClientConnection]:
        """
        See L{Negotiation.reopen<acp_twisted.client.v2.negotiation.Negotiation>}: as over any other link, there is
        another then.
        """
        first: ClientConnection = self._links[1].client.first.connection(self.clock)
        self._join(first)
        return succeed(first)

    def initialize(self) -> _Initialized:
        """
        Have the client begin the conversation, which L{connected_pair} does unless told otherwise.

        @return: the agent's answer.
        @raise AssertionError: when it does not come at once, or is a refusal, or another version is agreed on.
        """
        result: Any = success_result(self._links[1].initialize())
        client: Any = self.client
        if result is client:  # it was not clear what it would be
            answer = self.transcript.select(answered("initialize", sender="agent"))[-1]
            result = structure(answer.body, client.schema.InitializeResponse)
        if self._wanted not in (None, self.protocol_version):
            raise failed(f"version {self._wanted} was to be spoken; what the two agree on is {self.protocol_version}")
        self.initialized = result
        return result  # type: ignore[no-any-return]

    @property
    def agent(self) -> _Agent:
        """
        The agent's side of the connection; where the version is agreed on first, what waits for that until then.
        """
        found: _Agent = agreed(self._links[0])
        return found

    @property
    def client(self) -> _Client:
        """
        The client's side.
        """
        found: _Client = agreed(self._links[1])
        return found

    @property
    def protocol_version(self) -> int | None:
        """
        The version of the protocol that is spoken; L{None} while that is not agreed on.
        """
        version: int | None = getattr(self.client, "protocol_version", None)
        return version

    @property
    def said(self) -> str:
        """The texts of all the agent's messages so far, put together."""
        return says(self.transcript.entries)

    @property
    def session(self) -> _Session:
        """
        The session that L{prompt} uses; it is opened when it is first asked for.
        """
        if self._session is None:
            self._session = self.open_session()
        return self._session

    def open_session(self, cwd: str = "/work") -> _Session:
        """
        Open another session.

        @raise AssertionError: when the agent does not answer at once, or refuses.
        """
        client: Any = self.client
        session: _Session = success_result(client.new_session(cwd))
        return session

    def prompt(self, content: Any = "Hello", **options: Any) -> _Prompt:
        """
        Send a prompt in the pair's own session.  Whether it is answered yet, and in version 2 whether it is worked on,
        is for the agent to say.

        @param content: text, or content blocks.
        """
        session: Any = self.session
        prompt: _Prompt = session.prompt(content, **options)
        return prompt

    def answer(self, content: Any = "Hello", **options: Any) -> _Answer:
        """
        Send a prompt, and take its answer; in version 2, the report that the agent is idle again.

        @raise AssertionError: when there is none yet, or it is an error.
        """
        prompt: Any = self.prompt(content, **options)
        answer: _Answer = success_result(prompt)
        return answer

    def advance(self, seconds: float) -> None:
        """
        Let time pass.
        """
        self.clock.advance(seconds)

    def close(self) -> None:
        """
        End the conversation from the client's side, in good order; what does not end is cut.
        """
        agent, client = self._links
        for link in (client, agent):
            link.close()
        if not agent.when_closed().called:
            client.abort("the pair was closed")

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        if error is None:
            self.verify()


if TYPE_CHECKING:
    ConnectedPairV2: TypeAlias = ConnectedPair[
        SecondAgentConnection,
        SecondClientConnection,
        SecondClientSession,
        Prompt,
        v2.IdleStateUpdate,
        v2.InitializeResponse,
    ]
    AnyPair: TypeAlias = ConnectedPair[Any, Any, Any, Any, Any, Any]
else:
    ConnectedPairV2 = AnyPair = ConnectedPair


@overload
def connected_pair(
    agent: ConnectsAgent,
    client: ConnectsClient | None = None,
    *,
    clock: Clock | None = None,
    initialize: bool = True,
    protocol_version: Literal[1] | None = None,
) -> ConnectedPair: ...


@overload
def connected_pair(
    agent: ConnectsAgent,
    client: AnyClient | None = None,
    *,
    clock: Clock | None = None,
    initialize: bool = True,
    protocol_version: Literal[2],
) -> ConnectedPairV2: ...


@overload
def connected_pair(
    agent: ConnectsAgent,
    client: AnyClient | None = None,
    *,
    clock: Clock | None = None,
    initialize: bool = True,
    protocol_version: int | None = None,
) -> AnyPair: ...


def connected_pair(
    agent: ConnectsAgent,
    client: AnyClient | None = None,
    *,
    clock: Clock | None = None,
    initialize: bool = True,
    protocol_version: int | None = None,
) -> Any:
    """
    Join an agent and a client.  They speak the version of the protocol that they agree on: the highest that both were
    built for, by C{protocol_versions}.

    @param agent: an L{AcpAgent<acp_twisted.agent.agent.AcpAgent>}, or a
        L{ScriptedAgent<acp_twisted.testing.agent.ScriptedAgent>}.
    @param client: an L{AcpClient}, a L{VersionedClient<acp_twisted.client.v2.client.VersionedClient>}, or a
        L{ScriptedClient<acp_twisted.testing.client.ScriptedClient>}; by default one without any handlers, that speaks
        the agent's versions.
    @param clock: by default a new one.
    @param initialize: have the client begin the conversation.
    @param protocol_version: the version that must come of it, and all that the default client speaks.  With 2, type
        checkers know that the pair is one of version 2.
    @raise AssertionError: when the agent does not answer C{initialize} at once, or refuses; when the two agree on
        another version.
    """
    wanted = versions_of(agent) if protocol_version is None else versions(protocol_version)
    pair: AnyPair = ConnectedPair(agent, client or _plain_client(wanted), clock or Clock(), protocol_version)
    if initialize:
        pair.initialize()
    return pair


def _plain_client(wanted: tuple[int, ...]) -> AnyClient:
    builder = AcpClient.builder()
    return builder.build() if wanted == (1,) else builder.protocol_versions(*wanted).build()
