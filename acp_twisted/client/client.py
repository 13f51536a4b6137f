"""
A client, and how it is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import Factory, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from zope.interface import implementer

from acp_twisted.builder import derive, refuse_broken_promises
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.unstable import UNSTABLE_SETTERS, UnstableClientBuilder
from acp_twisted.gates import V1_RULES, Gates
from acp_twisted.handlers import Bound, Handler, Handlers, check_kind, check_seconds, two_arguments
from acp_twisted.interfaces import IInstrument, IMessageEndpoint, IMessageReceiver, IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.schema.vocabulary import V1
from acp_twisted.transports import process, stream
from acp_twisted.transports.process import AgentCommand

if TYPE_CHECKING:
    from typing_extensions import Self

    from acp_twisted.client.v2.client import VersionedClientBuilder

SETTERS: Final = {
    "session/update": "session_update_handler",
    "session/request_permission": "request_permission_handler",
    "fs/read_text_file": "read_text_file_handler",
    "fs/write_text_file": "write_text_file_handler",
    "terminal/create": "create_terminal_handler",
    "terminal/output": "terminal_output_handler",
    "terminal/release": "release_terminal_handler",
    "terminal/wait_for_exit": "wait_for_terminal_exit_handler",
    "terminal/kill": "kill_terminal_handler",
    "elicitation/create": "create_elicitation_handler",
    "elicitation/complete": "complete_elicitation_handler",
    "$/cancel_request": "cancel_request_handler",
    **UNSTABLE_SETTERS,
}
"""The builder's method for each of the protocol's."""

Where: TypeAlias = "str | IStreamClientEndpoint | IMessageEndpoint | AgentCommand"


@implementer(IMessageReceiverFactory)
@frozen(kw_only=True)
class AcpClient:
    """
    A client: its handlers and what it says of itself.  One object serves any number of connections.  Made by
    L{AcpClient.builder}.

    @ivar request_timeout: seconds for each request but prompts.
    @ivar prompt_timeout: seconds for each prompt; 0 is without end.
    @ivar track_sessions: whether every session has its C{state} from its beginning.
    @ivar gates: what messages are held to.
    @ivar instrument: watches what passes, if anybody does.
    @ivar extra_capabilities: what is said beside C{capabilities}, as JSON.
    @ivar unstable: whether what the protocol has not settled yet can be called.
    """

    handlers: Handlers
    update_handlers: Sequence[Bound]
    info: v1.Implementation | None
    capabilities: v1.ClientCapabilities
    request_timeout: float
    prompt_timeout: float
    limits: Limits
    track_sessions: bool = False
    gates: Gates | None = None
    unstable: bool = False
    instrument: IInstrument | None = None
    extra_capabilities: Mapping[str, object] = Factory(dict)

    @staticmethod
    def builder(*, unstable: bool = False) -> AcpClientBuilder:
        """
        A new builder.

        @param unstable: whether it takes handlers for what the protocol has not settled yet, and its connections have
            the calls for it.
        """
        return AcpClientBuilder(unstable=unstable)

    def build_receiver(self, clock: IReactorTime) -> IMessageReceiver:
        """
        See L{IMessageReceiverFactory}.
        """
        return self.connection(clock).peer

    def connection(self, clock: IReactorTime) -> ClientConnection:
        """
        The client's side of one new connection, whose C{peer} is to be given to a transport.
        """
        return ClientConnection(self, clock)

    def connect(self, reactor: Any, where: Where) -> Deferred[ClientConnection]:
        """
        Connect to an agent, or start one.

        @param where: an endpoint, as an object or as users type it (C{"tcp:localhost:8123"}); a URL
            (C{"wss://host/acp"}) or an L{AgentUrl<acp_twisted.transports.http.url.AgentUrl>}; or an L{AgentCommand}.
        @return: the connection, on which L{ClientConnection.initialize} comes first.  It fails with
            L{AcpConnectionError<acp_twisted.errors.AcpConnectionError>}, or with
            L{AgentStartError<acp_twisted.errors.AgentStartError>} when the command can't be started.
        """
        connection = self.connection(reactor)
        return open_link(reactor, where, connection.peer, self.limits).addCallback(lambda _: connection)


def open_link(reactor: Any, where: Where, receiver: IMessageReceiver, limits: Limits) -> Deferred[Any]:
    """
    Connect C{receiver} to an agent, or start one.

    @return: fires with the transport; see L{AcpClient.connect}.
    """
    if isinstance(where, AgentCommand):
        return process.spawn(reactor, where, receiver, limits)
    if isinstance(where, str) and "://" in where:
        where = _url(where)
    if IMessageEndpoint.providedBy(where):
        return where.connect_receiver(reactor, receiver, limits)
    endpoint = _endpoint(reactor, where) if isinstance(where, str) else where
    if not hasattr(endpoint, "connect"):
        raise TypeError(
            f"a {type(where).__name__} is nowhere to connect to; a program to start is "
            'AgentCommand(["my-agent", "--acp"]), an endpoint is "tcp:127.0.0.1:8123"'
        )
    return stream.connect(endpoint, receiver, limits, reactor)


def _url(where: str) -> IMessageEndpoint:
    from acp_twisted.transports.http.url import AgentUrl  # noqa: PLC0415

    return AgentUrl(url=where)


def _endpoint(reactor: Any, description: str) -> IStreamClientEndpoint:
    # It takes a fifth of the time that an agent needs to start, for it imports TLS where that is installed.
    from twisted.internet.endpoints import clientFromString  # noqa: PLC0415

    try:
        endpoint: IStreamClientEndpoint = clientFromString(reactor, description)
    except ValueError as error:
        raise ValueError(
            f'{error}; an endpoint is "tcp:127.0.0.1:8123", a program to start is AgentCommand(["my-agent", "--acp"])'
        ) from error
    except (ImportError, NameError) as error:  # Twisted's, of what it has not imported
        raise ValueError(f"TLS needs more than is installed: pip install 'acp_twisted[tls]' ({error})") from error
    return endpoint


class AcpClientBuilder(UnstableClientBuilder):
    """
    Collects what a client is made of; nothing is needed.

    Each C{…_handler} method takes a function of the method's request, or of the request and the
    L{ClientConnection} that it came on; it returns the method's response, a Deferred of it, or is C{async def}.  A
    second handler for a method is a L{ValueError}, except for session updates, where each one is told.
    """

    def __init__(self, *, unstable: bool = False) -> None:
        super().__init__(unstable=unstable)
        self._updates: list[Bound] = []
        self._info: v1.Implementation | None = None
        self._capabilities: v1.ClientCapabilities | None = None
        self._prompt_timeout = 0.0
        self._track_sessions = False

    def client_info(self, name: str, version: str, title: str | None = None) -> Self:
        """
        What C{initialize} says of the client.
        """
        self._info = v1.Implementation(name=name, version=version, title=title)
        return self

    def client_capabilities(self, capabilities: v1.ClientCapabilities) -> Self:
        """
        What the client can do, in place of what follows from its handlers.  What it says of a method needs the
        method's handler, or L{build} refuses it.
        """
        self._capabilities = check_kind("client_capabilities", capabilities, v1.ClientCapabilities)
        return self

    def prompt_timeout(self, seconds: float) -> Self:
        """
        How long each prompt may take; 0, which it is unless said otherwise, is without end.
        """
        self._prompt_timeout = check_seconds("prompt_timeout", seconds)
        return self

    def track_sessions(self, track: bool = True) -> Self:
        """
        Give every session its C{state} from its beginning; see
        L{ClientSession.track<acp_twisted.client.session.ClientSession.track>}.
        """
        self._track_sessions = track
        return self

    def protocol_versions(self, *versions: int) -> VersionedClientBuilder:
        """
        Build a client that offers these versions of the protocol, and speaks the highest that the agent speaks too;
        see L{VersionedClient<acp_twisted.client.v2.client.VersionedClient>}.  Without this, version 1 is spoken.

        @return: a builder that has what this one has, to go on with.
        """
        from acp_twisted.client.v2.client import VersionedClientBuilder  # noqa: PLC0415

        return VersionedClientBuilder.going_on(self, versions)

    def session_update_handler(self, handler: Handler) -> Self:
        """
        Be told of every C{session/update}, as a L{v1.SessionNotification}.  Each is awaited before the session's next.
        """
        self._updates.append(two_arguments(handler, "session_update_handler"))
        return self

    def request_permission_handler(self, handler: Handler) -> Self:
        """
        Answer C{session/request_permission}.  When the session's turn is cancelled, the library answers C{cancelled}
        and cancels the handler's Deferred.
        """
        return self._on("session/request_permission", handler, "request_permission_handler")

    def read_text_file_handler(self, handler: Handler) -> Self:
        """
        Answer C{fs/read_text_file}.
        """
        return self._on("fs/read_text_file", handler, "read_text_file_handler")

    def write_text_file_handler(self, handler: Handler) -> Self:
        """
        Answer C{fs/write_text_file}.
        """
        return self._on("fs/write_text_file", handler, "write_text_file_handler")

    def create_terminal_handler(self, handler: Handler) -> Self:
        """
        Answer C{terminal/create}.  The capability needs all five terminal handlers.
        """
        return self._on("terminal/create", handler, "create_terminal_handler")

    def terminal_output_handler(self, handler: Handler) -> Self:
        """
        Answer C{terminal/output}.
        """
        return self._on("terminal/output", handler, "terminal_output_handler")

    def wait_for_terminal_exit_handler(self, handler: Handler) -> Self:
        """
        Answer C{terminal/wait_for_exit}.
        """
        return self._on("terminal/wait_for_exit", handler, "wait_for_terminal_exit_handler")

    def kill_terminal_handler(self, handler: Handler) -> Self:
        """
        Answer C{terminal/kill}.
        """
        return self._on("terminal/kill", handler, "kill_terminal_handler")

    def release_terminal_handler(self, handler: Handler) -> Self:
        """
        Answer C{terminal/release}.
        """
        return self._on("terminal/release", handler, "release_terminal_handler")

    def create_elicitation_handler(self, handler: Handler) -> Self:
        """
        Answer C{elicitation/create}.
        """
        return self._on("elicitation/create", handler, "create_elicitation_handler")

    def complete_elicitation_handler(self, handler: Handler) -> Self:
        """
        Be told of C{elicitation/complete}.
        """
        return self._on("elicitation/complete", handler, "complete_elicitation_handler")

    def build(self) -> AcpClient:
        """
        The client.

        @raise ValueError: when C{client_capabilities} promise what nothing handles; all of that is named.
        """
        capabilities = self._capabilities
        if capabilities is None:
            capabilities = derive(V1, "client", self._handlers, v1.ClientCapabilities)
            if capabilities.elicitation is not None:
                # An agent's page in a browser is the user's business, which no handler shows (ELIC-CLIENT-URL-CONSENT).
                capabilities.elicitation.form = v1.ElicitationFormCapabilities()
        else:
            refuse_broken_promises(V1, "client", capabilities, self._handlers, SETTERS)
        return AcpClient(
            handlers=self._handlers.copy(),
            update_handlers=tuple(self._updates),
            info=self._info,
            capabilities=capabilities,
            request_timeout=self._request_timeout,
            prompt_timeout=self._prompt_timeout,
            limits=self._limits,
            track_sessions=self._track_sessions,
            gates=self._gates(V1, V1_RULES),
            unstable=self._unstable,
            instrument=self._instrument,
            extra_capabilities=dict(self._extra),
        )
