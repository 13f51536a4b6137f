"""
An agent, and how it is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen
from twisted.internet import task
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from acp_twisted.agent.connection import AgentConnection
from acp_twisted.handlers import Bound, Handler, Handlers, check_seconds, two_arguments
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.transports.stdio import StdioAgentTransport
from acp_twisted.turn.timeouts import PromptTimeouts


@implementer(IMessageReceiverFactory)
@frozen(kw_only=True)
class AcpAgent:
    """
    An agent: its handlers and what it says of itself.  One object serves any number of connections, each with any
    number of sessions.  Made by L{AcpAgent.builder}.

    @ivar request_timeout: seconds for each request that the agent sends.
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

    @staticmethod
    def builder() -> AcpAgentBuilder:
        """
        A new builder.
        """
        return AcpAgentBuilder()

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


class AcpAgentBuilder:
    """
    Collects what an agent is made of.  Only a prompt handler is needed.

    Each C{…_handler} method takes a function of the method's request, or of the request and the
    L{AgentConnection<acp_twisted.agent.connection.AgentConnection>} that it came on; it returns the method's response,
    a Deferred of it, or is C{async def}.  A second handler for a method is a L{ValueError}.
    """

    def __init__(self) -> None:
        self._prompt: Bound | None = None
        self._prompt_blocks = False
        self._handlers = Handlers()
        self._info: v1.Implementation | None = None
        self._capabilities: v1.AgentCapabilities | None = None
        self._auth_methods: Sequence[Any] = ()
        self._request_timeout = 60.0
        self._timeouts = PromptTimeouts()
        self._cascades = False
        self._limits = Limits()

    def agent_info(self, name: str, version: str, title: str | None = None) -> AcpAgentBuilder:
        """
        What C{initialize} says of the agent.
        """
        self._info = v1.Implementation(name=name, version=version, title=title)
        return self

    def agent_capabilities(self, capabilities: v1.AgentCapabilities) -> AcpAgentBuilder:
        """
        What the agent can do, in place of what follows from its handlers.
        """
        self._capabilities = capabilities
        return self

    def auth_methods(self, methods: Sequence[Any]) -> AcpAgentBuilder:
        """
        The ways to authenticate, C{v1.AuthMethodAgent} and C{v1.AuthMethodTerminal}.  Terminal ones are only shown to
        clients that can run them (1.33).
        """
        self._auth_methods = tuple(methods)
        return self

    def request_timeout(self, seconds: float) -> AcpAgentBuilder:
        """
        How long each request to the client may take; 60 seconds unless said otherwise, 0 is without end.
        """
        self._request_timeout = check_seconds("request_timeout", seconds)
        return self

    def cancel_grace_period(self, seconds: float) -> AcpAgentBuilder:
        """
        How long a cancelled prompt's handler may go on; 60 seconds unless said otherwise, 0 is without end.
        """
        self._timeouts = evolve(self._timeouts, cancel_grace_period=seconds)
        return self

    def max_prompt_duration(self, seconds: float) -> AcpAgentBuilder:
        """
        How long a turn may take at all; 0, which it is unless said otherwise, is without end.
        """
        self._timeouts = evolve(self._timeouts, max_prompt_duration=seconds)
        return self

    def cascade_cancellation(self, cascade: bool = True) -> AcpAgentBuilder:
        """
        Whether C{session/cancel} cancels what its turn has asked of the client and not had, each once, as
        L{PromptContext.cancel_outstanding<acp_twisted.agent.context.PromptContext.cancel_outstanding>} does.  It does
        not unless said otherwise: the client answers its permission requests by itself, and a handler may want the
        rest.
        """
        self._cascades = cascade
        return self

    def limits(self, limits: Limits) -> AcpAgentBuilder:
        """
        The bounds of each connection.
        """
        self._limits = limits
        return self

    def prompt_handler(self, handler: Handler, *, blocking: bool = False) -> AcpAgentBuilder:
        """
        What answers C{session/prompt}: a function of the request, or of the request and a
        L{PromptContext<acp_twisted.agent.context.PromptContext>}.

        @param blocking: run it in the reactor's thread pool, with a
            L{SyncPromptContext<acp_twisted.agent.blocking.SyncPromptContext>}.
        """
        if self._prompt is not None:
            raise ValueError("prompt_handler: session/prompt has a handler already")
        self._prompt = two_arguments(handler, "prompt_handler")
        self._prompt_blocks = blocking
        return self

    def initialize_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Answer C{initialize} instead of what the library answers by itself.
        """
        return self._on("initialize", handler, "initialize_handler")

    def authenticate_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Answer C{authenticate}.
        """
        return self._on("authenticate", handler, "authenticate_handler")

    def logout_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Answer C{logout}.
        """
        return self._on("logout", handler, "logout_handler")

    def new_session_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Answer C{session/new}.  Without one a session gets a random id, and neither modes nor options.
        """
        return self._on("session/new", handler, "new_session_handler")

    def load_session_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Answer C{session/load}, once the whole conversation is replayed (1.43).
        """
        return self._on("session/load", handler, "load_session_handler")

    def resume_session_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Answer C{session/resume}, without any replay (1.44).
        """
        return self._on("session/resume", handler, "resume_session_handler")

    def list_sessions_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Answer C{session/list}.
        """
        return self._on("session/list", handler, "list_sessions_handler")

    def close_session_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Answer C{session/close}.  It is called once a turn that was running has been cancelled and answered.
        """
        return self._on("session/close", handler, "close_session_handler")

    def delete_session_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Answer C{session/delete}; for a session of this connection, once its turn has been cancelled and answered.
        """
        return self._on("session/delete", handler, "delete_session_handler")

    def set_session_mode_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Answer C{session/set_mode}.
        """
        return self._on("session/set_mode", handler, "set_session_mode_handler")

    def set_session_config_option_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Answer C{session/set_config_option}, with all options (1.95).
        """
        return self._on("session/set_config_option", handler, "set_session_config_option_handler")

    def cancel_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Be told of every C{session/cancel}, and of C{session/close}, once the turn's token is set.  It must be quick.
        """
        return self._on("session/cancel", handler, "cancel_handler")

    def cancel_request_handler(self, handler: Handler) -> AcpAgentBuilder:
        """
        Be told of every C{$/cancel_request}, after it has taken effect, which this does not change.
        """
        return self._on("$/cancel_request", handler, "cancel_request_handler")

    def ext_request_handler(self, method: str, handler: Handler) -> AcpAgentBuilder:
        """
        Answer an extension's request; params and result are plain JSON.

        @param method: its name, which begins with an underscore.
        """
        self._handlers.add_extension(method, handler, "ext_request_handler")
        return self

    def ext_notification_handler(self, method: str, handler: Handler) -> AcpAgentBuilder:
        """
        Be told of an extension's notification; its params are plain JSON.

        @param method: its name, which begins with an underscore.
        """
        self._handlers.add_extension(method, handler, "ext_notification_handler")
        return self

    def _on(self, method: str, handler: Handler, setter: str) -> AcpAgentBuilder:
        self._handlers.add(method, handler, setter)
        return self

    def build(self) -> AcpAgent:
        """
        The agent.

        @raise ValueError: when there is no prompt handler.
        """
        if self._prompt is None:
            raise ValueError("an agent needs a prompt_handler")
        return AcpAgent(
            prompt=self._prompt,
            prompt_blocks=self._prompt_blocks,
            handlers=self._handlers.copy(),
            info=self._info,
            capabilities=self._capabilities or self._derived(),
            auth_methods=self._auth_methods,
            request_timeout=self._request_timeout,
            prompt_timeouts=self._timeouts,
            cascades=self._cascades,
            limits=self._limits,
        )

    def _derived(self) -> v1.AgentCapabilities:
        """
        What the handlers show that the agent can do.
        """
        handled = self._handlers
        return v1.AgentCapabilities(
            load_session="session/load" in handled,
            session_capabilities=v1.SessionCapabilities(
                list=v1.SessionListCapabilities() if "session/list" in handled else None,
                delete=v1.SessionDeleteCapabilities() if "session/delete" in handled else None,
                resume=v1.SessionResumeCapabilities() if "session/resume" in handled else None,
                close=v1.SessionCloseCapabilities() if "session/close" in handled else None,
            ),
            auth=v1.AgentAuthCapabilities(logout=v1.LogoutCapabilities() if "logout" in handled else None),
        )
