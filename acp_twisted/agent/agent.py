"""
An agent, and how it is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import Factory, evolve, frozen
from twisted.internet import task
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from acp_twisted.agent.blocking import is_blocking, unblocked
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.agent.unstable import UNSTABLE_SETTERS, UnstableAgentBuilder
from acp_twisted.builder import derive, refuse_broken_promises
from acp_twisted.gates import V1_RULES, Gates
from acp_twisted.handlers import Bound, Handler, Handlers, check_kind, two_arguments
from acp_twisted.interfaces import IInstrument, IMessageReceiver, IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.schema.values import Model
from acp_twisted.schema.vocabulary import V1
from acp_twisted.transports.stdio import StdioAgentTransport
from acp_twisted.turn.timeouts import PromptTimeouts

if TYPE_CHECKING:
    from typing_extensions import Self

    from acp_twisted.agent.v2.agent import VersionedAgentBuilder

SETTERS: Final = {
    "initialize": "initialize_handler",
    "authenticate": "authenticate_handler",
    "logout": "logout_handler",
    "session/new": "new_session_handler",
    "session/load": "load_session_handler",
    "session/resume": "resume_session_handler",
    "session/list": "list_sessions_handler",
    "session/delete": "delete_session_handler",
    "session/close": "close_session_handler",
    "session/set_mode": "set_session_mode_handler",
    "session/set_config_option": "set_session_config_option_handler",
    "session/cancel": "cancel_handler",
    "$/cancel_request": "cancel_request_handler",
    **UNSTABLE_SETTERS,
}
"""The builder's method for each of the protocol's, but for prompts."""


@implementer(IMessageReceiverFactory)
@frozen(kw_only=True)
class AcpAgent:
    """
    An agent: its handlers and what it says of itself.  One object serves any number of connections, each with any
    number of sessions.  Made by L{AcpAgent.builder}.

    @ivar request_timeout: seconds for each request that the agent sends.
    @ivar gates: what messages are held to.
    @ivar instrument: watches what passes, if anybody does.
    @ivar extra_capabilities: what is said beside C{capabilities}, as JSON.
    @ivar unstable: whether what the protocol has not settled yet can be called.
    @ivar cascades: whether C{session/cancel} cancels what the turn has asked of the client.
    """

    prompt: Bound
    prompt_blocks: bool
    handlers: Handlers
    info: v1.Implementation | None
    capabilities: v1.AgentCapabilities
    auth_methods: Sequence[Any]
    request_timeout: float
    prompt_timeouts: PromptTimeouts
    cascades: bool
    limits: Limits
    gates: Gates | None = None
    unstable: bool = False
    instrument: IInstrument | None = None
    extra_capabilities: Mapping[str, object] = Factory(dict)

    @staticmethod
    def builder(*, unstable: bool = False) -> AcpAgentBuilder:
        """
        A new builder.

        @param unstable: whether it takes handlers for what the protocol has not settled yet.
        """
        return AcpAgentBuilder(unstable=unstable)

    def build_receiver(self, clock: IReactorTime) -> IMessageReceiver:
        """
        See L{IMessageReceiverFactory}.
        """
        return self.connect(clock).peer

    def connect(self, clock: IReactorTime) -> AgentConnection:
        """
        The agent's side of one new connection, whose C{peer} is to be given to a transport.
        """
        return AgentConnection(self, clock)


def run_agent(agent: AcpAgent) -> None:
    """
    Be an agent on standard input and output until the client ends the conversation, then exit: what an editor
    launches.  Everything that the program prints goes to standard error instead (B71).  SIGTERM and SIGINT end it in
    good order: running turns are cancelled and answered first.

    It runs the reactor, so it is for programs that are nothing but this agent.
    """

    def main(reactor: Any) -> Deferred[None]:
        transport = StdioAgentTransport.start(agent, reactor)
        reactor.addSystemEventTrigger("before", "shutdown", transport.receiver.shutdown)
        return transport.done

    task.react(main)


class AcpAgentBuilder(UnstableAgentBuilder):
    """
    Collects what an agent is made of.  Only a prompt handler is needed.

    Each C{…_handler} method takes a function of the method's request, or of the request and the
    L{AgentConnection<acp_twisted.agent.connection.AgentConnection>} that it came on; it returns the method's response,
    a Deferred of it, or is C{async def}.  A second handler for a method is a L{ValueError}.
    """

    def __init__(self, *, unstable: bool = False) -> None:
        super().__init__(unstable=unstable)
        self._prompt: Bound | None = None
        self._prompt_blocks = False
        self._info: v1.Implementation | None = None
        self._capabilities: v1.AgentCapabilities | None = None
        self._auth_methods: Sequence[Any] = ()
        self._timeouts = PromptTimeouts()
        self._cascades = False

    def agent_info(self, name: str, version: str, title: str | None = None) -> Self:
        """
        What C{initialize} says of the agent.
        """
        self._info = v1.Implementation(name=name, version=version, title=title)
        return self

    def agent_capabilities(self, capabilities: v1.AgentCapabilities) -> Self:
        """
        What the agent can do, in place of what follows from its handlers.  What it says of a method needs the method's
        handler, or L{build} refuses it.
        """
        self._capabilities = check_kind("agent_capabilities", capabilities, v1.AgentCapabilities)
        return self

    def auth_methods(self, methods: Sequence[Any]) -> Self:
        """
        The ways to authenticate, C{v1.AuthMethodAgent} and C{v1.AuthMethodTerminal}.  Terminal ones are only shown to
        clients that can run them (1.33).
        """
        for each in methods:
            if not isinstance(each, Model):
                kind = type(each).__name__
                raise TypeError(f"auth_methods takes v1.AuthMethodAgent and v1.AuthMethodTerminal objects, not {kind}")
        self._auth_methods = tuple(methods)
        return self

    def protocol_versions(self, *versions: int) -> VersionedAgentBuilder:
        """
        Build an agent that speaks these versions of the protocol, each connection the one that its client asks for; see
        L{VersionedAgent<acp_twisted.agent.v2.agent.VersionedAgent>}.  Without this, version 1 is spoken.

        @return: a builder that has what this one has, to go on with.
        """
        from acp_twisted.agent.v2.agent import VersionedAgentBuilder  # noqa: PLC0415

        return VersionedAgentBuilder.going_on(self, versions)

    def cancel_grace_period(self, seconds: float) -> Self:
        """
        How long a cancelled prompt's handler may go on; 60 seconds unless said otherwise, 0 is without end.
        """
        self._timeouts = evolve(self._timeouts, cancel_grace_period=seconds)
        return self

    def max_prompt_duration(self, seconds: float) -> Self:
        """
        How long a turn may take at all; 0, which it is unless said otherwise, is without end.
        """
        self._timeouts = evolve(self._timeouts, max_prompt_duration=seconds)
        return self

    def cascade_cancellation(self, cascade: bool = True) -> Self:
        """
        Whether C{session/cancel} cancels what its turn has asked of the client and not had, each once, as
        L{PromptContext.cancel_outstanding<acp_twisted.agent.context.PromptContext.cancel_outstanding>} does.  It does
        not unless said otherwise: the client answers its permission requests by itself, and a handler may want the
        rest.
        """
        self._cascades = cascade
        return self

    def prompt_handler(self, handler: Handler, *, blocking: bool = False) -> Self:
        """
        What answers C{session/prompt}: a function of the request, or of the request and a
        L{PromptContext<acp_twisted.agent.context.PromptContext>}.

        @param blocking: run it in the reactor's thread pool, with a
            L{SyncPromptContext<acp_twisted.agent.blocking.SyncPromptContext>}.
        """
        if self._prompt is not None:
            raise ValueError("prompt_handler: session/prompt has a handler already")
        self._prompt = two_arguments(handler, "prompt_handler")
        self._prompt_blocks = blocking or is_blocking(handler)
        return self

    def initialize_handler(self, handler: Handler) -> Self:
        """
        Answer C{initialize} instead of what the library answers by itself.
        """
        return self._on("initialize", handler, "initialize_handler")

    def authenticate_handler(self, handler: Handler) -> Self:
        """
        Answer C{authenticate}.
        """
        return self._on("authenticate", handler, "authenticate_handler")

    def logout_handler(self, handler: Handler) -> Self:
        """
        Answer C{logout}.
        """
        return self._on("logout", handler, "logout_handler")

    def new_session_handler(self, handler: Handler) -> Self:
        """
        Answer C{session/new}.  Without one a session gets a random id, and neither modes nor options.
        """
        return self._on("session/new", handler, "new_session_handler")

    def load_session_handler(self, handler: Handler) -> Self:
        """
        Answer C{session/load}, once the whole conversation is replayed (1.43).
        """
        return self._on("session/load", handler, "load_session_handler")

    def resume_session_handler(self, handler: Handler) -> Self:
        """
        Answer C{session/resume}, without any replay (1.44).
        """
        return self._on("session/resume", handler, "resume_session_handler")

    def list_sessions_handler(self, handler: Handler) -> Self:
        """
        Answer C{session/list}.
        """
        return self._on("session/list", handler, "list_sessions_handler")

    def close_session_handler(self, handler: Handler) -> Self:
        """
        Answer C{session/close}.  It is called once a turn that was running has been cancelled and answered.
        """
        return self._on("session/close", handler, "close_session_handler")

    def delete_session_handler(self, handler: Handler) -> Self:
        """
        Answer C{session/delete}; for a session of this connection, once its turn has been cancelled and answered.
        """
        return self._on("session/delete", handler, "delete_session_handler")

    def set_session_mode_handler(self, handler: Handler) -> Self:
        """
        Answer C{session/set_mode}.
        """
        return self._on("session/set_mode", handler, "set_session_mode_handler")

    def set_session_config_option_handler(self, handler: Handler) -> Self:
        """
        Answer C{session/set_config_option}, with all options (1.95).
        """
        return self._on("session/set_config_option", handler, "set_session_config_option_handler")

    def cancel_handler(self, handler: Handler) -> Self:
        """
        Be told of every C{session/cancel}, and of C{session/close}, once the turn's token is set.  It must be quick.
        """
        return self._on("session/cancel", handler, "cancel_handler")

    def _on(self, method: str, handler: Handler, setter: str) -> Self:
        return super()._on(method, without_blocking(handler, setter), setter)

    def _on_extension(self, method: str, handler: Handler, setter: str, params: type | None) -> Self:
        return super()._on_extension(method, without_blocking(handler, setter), setter, params)

    def build(self) -> AcpAgent:
        """
        The agent.

        @raise ValueError: when there is no prompt handler, or when C{agent_capabilities} or C{auth_methods} promise
            what nothing handles; all of that is named.
        """
        if self._prompt is None:
            raise ValueError("an agent needs a prompt_handler")
        capabilities = self._capabilities
        if capabilities is None:
            capabilities = derive(V1, "agent", self._handlers, v1.AgentCapabilities)
        else:
            refuse_broken_promises(V1, "agent", capabilities, self._handlers, SETTERS)
        if self.promises_authentication and "authenticate" not in self._handlers:
            raise ValueError("the agent's auth_methods promise what nothing handles: they need authenticate_handler")
        return AcpAgent(
            prompt=self._prompt,
            prompt_blocks=self._prompt_blocks,
            handlers=self._handlers.copy(),
            info=self._info,
            capabilities=capabilities,
            auth_methods=self._auth_methods,
            request_timeout=self._request_timeout,
            prompt_timeouts=self._timeouts,
            cascades=self._cascades,
            limits=self._limits,
            gates=self._gates(V1, V1_RULES),
            unstable=self._unstable,
            instrument=self._instrument,
            extra_capabilities=dict(self._extra),
        )

    @property
    def promises_authentication(self) -> bool:
        """
        Whether a client is told of a way to authenticate that goes through the agent (1.31).
        """
        return any(isinstance(each, v1.AuthMethodAgent) for each in self._auth_methods)

    @property
    def spoken_versions(self) -> tuple[int, ...]:
        """
        The versions of the protocol that the agent will speak.
        """
        return (1,)

    def handles(self, method: str, version: int = 1) -> bool:
        """
        Whether a method has a handler already.

        @param version: in which version of the protocol, whose name C{method} is.
        """
        if version != 1:
            return False
        return self._prompt is not None if method == "session/prompt" else method in self._handlers


def without_blocking(handler: Handler, setter: str) -> Handler:
    """
    A handler that may be called in the reactor's thread: one that blocks goes into a thread of the pool.
    """
    return unblocked(two_arguments(handler, setter)) if is_blocking(handler) else handler
