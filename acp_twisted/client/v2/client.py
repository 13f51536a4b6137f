"""
A client that offers several versions of the protocol, and how it is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from acp_twisted._version import __version__
from acp_twisted.builder import derive
from acp_twisted.client.client import AcpClient, AcpClientBuilder, Where, open_link
from acp_twisted.client.v2.negotiation import Negotiation
from acp_twisted.gates import Gates
from acp_twisted.gates_v2 import RULES
from acp_twisted.handlers import Bound, Handlers
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.schema import v2
from acp_twisted.schema.vocabulary import vocabulary

if TYPE_CHECKING:
    from typing_extensions import Self

VERSIONS = (1, 2)
"""What this library speaks."""


@implementer(IMessageReceiverFactory)
@frozen(kw_only=True)
class VersionedClient:
    """
    A client that speaks version 2, version 1, or both.  Made by
    L{AcpClient.builder().protocol_versions(2, 1)<acp_twisted.client.client.AcpClientBuilder.protocol_versions>}.

    @ivar versions: the versions that it speaks, the highest first.
    @ivar first: the same client for version 1.
    @ivar info: what it says of itself.
    @ivar capabilities: what it can do, in the words of version 2.
    @ivar spares_background: whether permission requests for background work stay open when a session is cancelled.
    @ivar gates: what messages of version 2 are held to.
    @ivar august_draft: whether it takes what only the draft of August 2026 allows.
    """

    versions: Sequence[int]
    first: AcpClient
    info: v2.Implementation
    capabilities: v2.ClientCapabilities
    spares_background: bool = True
    gates: Gates | None = None
    august_draft: bool = False

    @property
    def handlers(self) -> Handlers:
        """
        Its handlers.
        """
        return self.first.handlers

    @property
    def update_handlers(self) -> Sequence[Bound]:
        """
        Those who are told of every update.
        """
        return self.first.update_handlers

    @property
    def unstable(self) -> bool:
        """
        Whether what the protocol has not settled yet can be called.
        """
        return self.first.unstable

    @property
    def request_timeout(self) -> float:
        """
        Seconds for each request but prompts.
        """
        return self.first.request_timeout

    @property
    def prompt_timeout(self) -> float:
        """
        Seconds for each prompt, until the agent is idle again in version 2; 0 is without end.
        """
        return self.first.prompt_timeout

    @property
    def limits(self) -> Limits:
        """
        The bounds of each connection.
        """
        return self.first.limits

    @property
    def track_sessions(self) -> bool:
        """
        Whether every session has its C{state} from its beginning.
        """
        return self.first.track_sessions

    def build_receiver(self, clock: IReactorTime) -> IMessageReceiver:
        """
        See L{IMessageReceiverFactory}.
        """
        return self.connection(clock).peer

    def connection(self, clock: IReactorTime) -> Negotiation:
        """
        The client's side of one new connection, whose C{peer} is to be given to a transport.
        """
        return Negotiation(self, clock)

    def connect(self, reactor: Any, where: Where) -> Deferred[Negotiation]:
        """
        Connect to an agent, or start one.

        @param where: see L{AcpClient.connect<acp_twisted.client.client.AcpClient.connect>}.
        @return: the link, on which L{Negotiation.initialize} comes first, which gives the connection.
        """
        negotiation = Negotiation(self, reactor, lambda: self.first.connect(reactor, where))
        return open_link(reactor, where, negotiation.peer, self.limits).addCallback(lambda _: negotiation)


class VersionedClientBuilder(AcpClientBuilder):
    """
    An L{AcpClientBuilder} for a client that speaks version 2, version 1, or both.

    A handler serves both versions where both have its method.  It is given the request in the words of the version that
    its connection speaks, and answers in them; for permissions and elicitations the words of version 1 do as well.
    """

    _versions: Sequence[int]
    _second_capabilities: v2.ClientCapabilities | None
    _spares_background: bool
    _august_draft: bool

    @classmethod
    def going_on(cls, builder: AcpClientBuilder, versions: Sequence[int]) -> VersionedClientBuilder:
        """
        A builder that has what another one has.

        @raise ValueError: when there is no version, or one that this library does not speak.
        """
        unknown = set(versions) - set(VERSIONS)
        if unknown or not versions:
            raise ValueError(f"the protocol versions are some of {VERSIONS}, not {tuple(versions)}")
        made = cls.__new__(cls)
        vars(made).update(vars(builder))
        made._versions = tuple(sorted(set(versions), reverse=True))
        made._second_capabilities = None
        made._spares_background = True
        made._august_draft = False
        return made

    def client_capabilities_v2(self, capabilities: v2.ClientCapabilities) -> Self:
        """
        What the client can do in version 2, in place of what follows from its handlers.
        """
        self._second_capabilities = capabilities
        return self

    def spare_background_permissions(self, spare: bool = True) -> Self:
        """
        Whether permission requests for work that the agent lists as C{background} stay open when a session is
        cancelled, as they do unless said otherwise: the cancellation does not concern that work.  The protocol's page
        on cancellation has all of them answered, which C{False} does.
        """
        self._spares_background = spare
        return self

    def august_draft(self, take: bool = True) -> Self:
        """
        Whether connections of version 2 take what its draft of August 2026 allows and today's does not: JSON-RPC
        batches, of at most C{Limits.max_batch_entries}, and requests whose id is null.  They are refused with -32600
        unless this is said.  Nothing of it is ever sent but the answers to a batch, which are one array.
        """
        self._august_draft = take
        return self

    def build(self) -> VersionedClient:  # type: ignore[override]  # it takes the place of the other from here on
        """
        The client.
        """
        first = super().build()
        words = vocabulary(2)
        capabilities = self._second_capabilities
        if capabilities is None:
            capabilities = derive(words, "client", first.handlers, v2.ClientCapabilities)
            if capabilities.elicitation is not None:
                # An agent's page in a browser is the user's business, which no handler shows.
                capabilities.elicitation.form = v2.ElicitationFormCapabilities()
        name = first.info
        info = (
            v2.Implementation(name="acp_twisted", version=__version__)
            if name is None
            else v2.Implementation(name=name.name, version=name.version, title=name.title)
        )
        return VersionedClient(
            versions=self._versions,
            first=first,
            info=info,
            capabilities=capabilities,
            spares_background=self._spares_background,
            august_draft=self._august_draft,
            gates=self._gates(words, RULES),
        )
