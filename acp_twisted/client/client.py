"""
A client, and how it is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from zope.interface import implementer

from acp_twisted.client.connection import ClientConnection
from acp_twisted.handlers import Bound, Handler, Handlers, check_seconds, two_arguments
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.transports import process, stream
from acp_twisted.transports.process import AgentCommand

Where: TypeAlias = "str | IStreamClientEndpoint | AgentCommand"


@implementer(IMessageReceiverFactory)
@frozen(kw_only=True)
class AcpClient:
    """
    A client: its handlers and what it says of itself.  One object serves any number of connections.  Made by
    L{AcpClient.builder}.

    @ivar request_timeout: seconds for each request but prompts.
    @ivar prompt_timeout: seconds for each prompt; 0 is without end.
    @ivar track_sessions: whether every session has its C{state} from its beginning.
    """

    handlers: Handlers
    update_handlers: Sequence[Bound]
    info: v1.Implementation | None
    capabilities: v1.ClientCapabilities
    request_timeout: float
    prompt_timeout: float
    limits: Limits
    track_sessions: bool = False

    @staticmethod
    def builder() -> AcpClientBuilder:
        """
        A new builder.
        """
        return AcpClientBuilder()

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

        @param where: an endpoint, as an object or as users type it (C{"tcp:localhost:8123"}), or an L{AgentCommand}.
        @return: the connection, on which L{ClientConnection.initialize} comes first.  It fails with
            L{AcpConnectionError<acp_twisted.errors.AcpConnectionError>}, or with
            L{AgentStartError<acp_twisted.errors.AgentStartError>} when the command can't be started.
        """
        connection = self.connection(reactor)
        transport: Deferred[Any]
        if isinstance(where, AgentCommand):
            transport = process.spawn(reactor, where, connection.peer, self.limits)
        else:
            endpoint = _endpoint(reactor, where) if isinstance(where, str) else where
            transport = stream.connect(endpoint, connection.peer, self.limits, reactor)
        return transport.addCallback(lambda _: connection)


def _endpoint(reactor: Any, description: str) -> IStreamClientEndpoint:
    # It takes a fifth of the time that an agent needs to start, for it imports TLS where that is installed.
    from twisted.internet.endpoints import clientFromString  # noqa: PLC0415

    endpoint: IStreamClientEndpoint = clientFromString(reactor, description)
    return endpoint


class AcpClientBuilder:
    """
    Collects what a client is made of; nothing is needed.

    Each C{…_handler} method takes a function of the method's request, or of the request and the
    L{ClientConnection} that it came on; it returns the method's response, a Deferred of it, or is C{async def}.  A
    second handler for a method is a L{ValueError}, except for session updates, where each one is told.
    """

    def __init__(self) -> None:
        self._handlers = Handlers()
        self._updates: list[Bound] = []
        self._info: v1.Implementation | None = None
        self._capabilities: v1.ClientCapabilities | None = None
        self._request_timeout = 60.0
        self._prompt_timeout = 0.0
        self._limits = Limits()
        self._track_sessions = False

    def client_info(self, name: str, version: str, title: str | None = None) -> AcpClientBuilder:
        """
        What C{initialize} says of the client.
        """
        self._info = v1.Implementation(name=name, version=version, title=title)
        return self

    def client_capabilities(self, capabilities: v1.ClientCapabilities) -> AcpClientBuilder:
        """
        What the client can do, in place of what follows from its handlers.
        """
        self._capabilities = capabilities
        return self

    def request_timeout(self, seconds: float) -> AcpClientBuilder:
        """
        How long each request may take, prompts excepted; 60 seconds unless said otherwise, 0 is without end.
        """
        self._request_timeout = check_seconds("request_timeout", seconds)
        return self

    def prompt_timeout(self, seconds: float) -> AcpClientBuilder:
        """
        How long each prompt may take; 0, which it is unless said otherwise, is without end.
        """
        self._prompt_timeout = check_seconds("prompt_timeout", seconds)
        return self

    def limits(self, limits: Limits) -> AcpClientBuilder:
        """
        The bounds of each connection.
        """
        self._limits = limits
        return self

    def track_sessions(self, track: bool = True) -> AcpClientBuilder:
        """
        Give every session its C{state} from its beginning; see
        L{ClientSession.track<acp_twisted.client.session.ClientSession.track>}.
        """
        self._track_sessions = track
        return self

    def session_update_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Be told of every C{session/update}, as a L{v1.SessionNotification}.  Each is awaited before the session's next.
        """
        self._updates.append(two_arguments(handler, "session_update_handler"))
        return self

    def request_permission_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Answer C{session/request_permission}.  When the session's turn is cancelled, the library answers C{cancelled}
        and cancels the handler's Deferred.
        """
        return self._on("session/request_permission", handler, "request_permission_handler")

    def read_text_file_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Answer C{fs/read_text_file}.
        """
        return self._on("fs/read_text_file", handler, "read_text_file_handler")

    def write_text_file_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Answer C{fs/write_text_file}.
        """
        return self._on("fs/write_text_file", handler, "write_text_file_handler")

    def create_terminal_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Answer C{terminal/create}.  The capability needs all five terminal handlers.
        """
        return self._on("terminal/create", handler, "create_terminal_handler")

    def terminal_output_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Answer C{terminal/output}.
        """
        return self._on("terminal/output", handler, "terminal_output_handler")

    def wait_for_terminal_exit_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Answer C{terminal/wait_for_exit}.
        """
        return self._on("terminal/wait_for_exit", handler, "wait_for_terminal_exit_handler")

    def kill_terminal_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Answer C{terminal/kill}.
        """
        return self._on("terminal/kill", handler, "kill_terminal_handler")

    def release_terminal_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Answer C{terminal/release}.
        """
        return self._on("terminal/release", handler, "release_terminal_handler")

    def create_elicitation_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Answer C{elicitation/create}.
        """
        return self._on("elicitation/create", handler, "create_elicitation_handler")

    def complete_elicitation_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Be told of C{elicitation/complete}.
        """
        return self._on("elicitation/complete", handler, "complete_elicitation_handler")

    def cancel_request_handler(self, handler: Handler) -> AcpClientBuilder:
        """
        Be told of every C{$/cancel_request}, after it has taken effect, which this does not change.
        """
        return self._on("$/cancel_request", handler, "cancel_request_handler")

    def ext_request_handler(self, method: str, handler: Handler) -> AcpClientBuilder:
        """
        Answer an extension's request; params and result are plain JSON.

        @param method: its name, which begins with an underscore.
        """
        self._handlers.add_extension(method, handler, "ext_request_handler")
        return self

    def ext_notification_handler(self, method: str, handler: Handler) -> AcpClientBuilder:
        """
        Be told of an extension's notification; its params are plain JSON.

        @param method: its name, which begins with an underscore.
        """
        self._handlers.add_extension(method, handler, "ext_notification_handler")
        return self

    def _on(self, method: str, handler: Handler, setter: str) -> AcpClientBuilder:
        self._handlers.add(method, handler, setter)
        return self

    def build(self) -> AcpClient:
        """
        The client.
        """
        return AcpClient(
            handlers=self._handlers.copy(),
            update_handlers=tuple(self._updates),
            info=self._info,
            capabilities=self._capabilities or self._derived(),
            request_timeout=self._request_timeout,
            prompt_timeout=self._prompt_timeout,
            limits=self._limits,
            track_sessions=self._track_sessions,
        )

    def _derived(self) -> v1.ClientCapabilities:
        """
        What the handlers show that the client can do.
        """
        handled = self._handlers
        terminal = ("create", "output", "wait_for_exit", "kill", "release")
        return v1.ClientCapabilities(
            fs=v1.FileSystemCapabilities(
                read_text_file="fs/read_text_file" in handled, write_text_file="fs/write_text_file" in handled
            ),
            terminal=all(f"terminal/{name}" in handled for name in terminal),
            elicitation=(
                v1.ElicitationCapabilities(form=v1.ElicitationFormCapabilities())
                if "elicitation/create" in handled
                else None
            ),
        )
