"""
A proxy, and how it is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen
from twisted.internet import task
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, AcpError, InternalError
from acp_twisted.handlers import Bound, Handler, two_arguments
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.jsonrpc.splice import NOTIFICATION, REQUEST, RESULT
from acp_twisted.limits import Limits
from acp_twisted.proxy.context import Handling, ProxySide, Side
from acp_twisted.proxy.passage import Passage, PassingRequest, Way
from acp_twisted.proxy.port import Interceptor, Port, decoded_or_none
from acp_twisted.proxy.spelling import OLDER, PRESENT, Spelling
from acp_twisted.schema.methods import Kind
from acp_twisted.schema.vocabulary import V1, VERSIONS, Vocabulary, vocabulary, vocabulary_of
from acp_twisted.transports.stdio import StdioAgentTransport

_log = Logger()

_KINDS: dict[Kind, int] = {"request": REQUEST, "notification": NOTIFICATION}


@frozen
class Taken:
    """
    What one handler of a proxy takes out.

    @ivar origin: from which side.
    @ivar method: which method; L{None} is all that have no handler of their own.
    @ivar raw: whether the handler works with JSON.
    @ivar vocabulary: what has the class that it was set for; L{None} where it was set for a name.
    """

    origin: Side
    kind: Kind
    method: str | None
    handler: Bound
    raw: bool
    vocabulary: Vocabulary | None = None


@implementer(IMessageReceiverFactory)
@frozen(kw_only=True)
class AcpProxy:
    """
    A proxy: what it takes out of the stream between a client and an agent.  Everything else passes.  One object serves
    any number of connections, each of them to a conductor.  Made by L{AcpProxy.builder}.

    @ivar vocabulary: what gives all messages their types; L{None} if that is up to the version that is spoken.
    """

    name: str
    taken: Sequence[Taken]
    vocabulary: Vocabulary | None
    spelling: Spelling
    limits: Limits

    @staticmethod
    def builder() -> AcpProxyBuilder:
        """
        A new builder.
        """
        return AcpProxyBuilder()

    def build_receiver(self, clock: IReactorTime) -> IMessageReceiver:
        """
        See L{IMessageReceiverFactory}.
        """
        return self.connect(clock).port

    def connect(self, clock: IReactorTime) -> ProxyConnection:
        """
        The proxy's side of one new connection to a conductor, whose C{port} is to be given to a transport.
        """
        return ProxyConnection(self, clock)


class ProxyConnection:
    """
    One connection of a proxy: the client's side and the agent's, on one link to the conductor.

    @ivar port: the link.
    @ivar client: the client's side, to send to.
    @ivar agent: the agent's side.
    """

    def __init__(self, proxy: AcpProxy, clock: IReactorTime) -> None:
        self.proxy = proxy
        self.port = port = _ProxyPort(self, clock, proxy.limits, spelling=proxy.spelling, leads=True)
        to_agent, to_client = Way(port, wrapped=True), Way(port)
        port.onward = {False: to_agent, True: to_client}
        port.feeders = [port]
        self.client = ProxySide(to_client, proxy.vocabulary)
        self.agent = ProxySide(to_agent, proxy.vocabulary)
        self.speaks(proxy.vocabulary or V1)

    def speaks(self, spoken: Vocabulary) -> None:
        """
        Take out what the proxy has handlers for, in the words of a version.  Of two handlers for one method, each of
        them for a class, it is the one that has the version's; a single one has every message of its method, so that
        none gets past it by being of another version.
        """
        found: dict[tuple[bool, int, str | None], Interceptor] = {}
        for each in self.proxy.taken:
            key = each.origin == "agent", _KINDS[each.kind], each.method
            if key in found and each.vocabulary is not spoken:
                continue
            words = None if each.raw else each.vocabulary or spoken
            found[key] = Handling(each.handler, (self.client, self.agent), each.origin, words)
        self.port.interceptors = found

    def initialized(self, answer: bytes) -> None:
        """
        The agent has answered C{initialize}, and so chosen the version that is spoken from here on.
        """
        told = decoded_or_none(answer)
        version = told.get("protocolVersion") if isinstance(told, dict) else None
        if self.proxy.vocabulary is not None or type(version) is not int or version not in VERSIONS:
            return
        spoken = vocabulary(version)
        self.speaks(spoken)
        handled = {(each.origin, each.method) for each in self.proxy.taken if each.vocabulary in (None, spoken)}
        for each in self.proxy.taken:
            if (each.origin, each.method) not in handled:
                _log.warn(
                    "the proxy {name} has no handler for {method} in version {version}, which is spoken",
                    name=self.proxy.name,
                    method=each.method,
                    version=version,
                )

    def close(self) -> Deferred[None]:
        """
        End the conversation: cancel what passes, answer it, flush, close.

        @return: fires when the link is gone.
        """
        return self.port.shutdown()

    def when_closed(self) -> Deferred[AcpConnectionError]:
        """
        Fires with the reason when the link is gone.
        """
        return self.port.when_closed()

    # ---- what the port asks of its owner

    def port_lost(self, port: Port, reason: AcpConnectionError) -> None:
        """
        See L{PortOwner<acp_twisted.proxy.port.PortOwner>}.
        """
        _log.debug("the proxy {name} has lost its conductor", name=self.proxy.name)

    def why_lost(self, port: Port, reason: AcpConnectionError) -> AcpError:
        """
        See L{PortOwner<acp_twisted.proxy.port.PortOwner>}.
        """
        return InternalError("The connection behind the proxy was lost", {"proxy": self.proxy.name})

    def finished(self, port: Port) -> bool:
        """
        See L{PortOwner<acp_twisted.proxy.port.PortOwner>}.
        """
        return True

    def admits(self, port: Port, request: PassingRequest, method: str, params: bytes) -> bool:
        """
        See L{PortOwner<acp_twisted.proxy.port.PortOwner>}.
        """
        return True


class _ProxyPort(Port):
    """
    The link of a proxy, which hears what the agent answers to C{initialize}.
    """

    def ask(self, passage: Passage, params: bytes) -> None:
        """
        See L{Port}.
        """
        if passage.method == "initialize" and passage.way.wrapped:
            settle, owner = passage.settle, self._owner

            def answered(kind: int, body: bytes) -> None:
                if kind == RESULT and isinstance(owner, ProxyConnection):
                    owner.initialized(body)
                settle(kind, body)

            passage.settle = answered
        super().ask(passage, params)


class AcpProxyBuilder:
    """
    Collects what a proxy is made of; nothing is needed, and a proxy of nothing lets everything pass.

    Each C{…_handler} method takes the name of a method, or the class of its params, and a function of the message, or
    of the message and its L{ProxyContext<acp_twisted.proxy.context.ProxyContext>}.  The message is an object of the
    schema where the protocol has the method, else (and with C{raw}) JSON.  A class is of one version of the protocol:
    a method may have a handler for the class of each.  With a name, messages are objects of the version that the agent
    has chosen in its answer to C{initialize}, which is itself read in the words of version 1.

    A request's handler returns the result, or L{PASS<acp_twisted.proxy.context.PASS>}, or what C{context.forward()}
    gives; or it raises.  A notification's handler passes the message on with C{context.forward()} or by returning
    C{PASS}; else it ends there.  All of them may be C{async def}, or return a Deferred.
    """

    def __init__(self) -> None:
        self._name = "proxy"
        self._taken: list[Taken] = []
        self._vocabulary: Vocabulary | None = None
        self._spelling = PRESENT
        self._limits = Limits()

    def name(self, name: str) -> AcpProxyBuilder:
        """
        What the log and errors call it.
        """
        self._name = name
        return self

    def limits(self, limits: Limits) -> AcpProxyBuilder:
        """
        The bounds of each connection.
        """
        self._limits = limits
        return self

    def protocol(self, vocabulary: Vocabulary) -> AcpProxyBuilder:
        """
        The version of the protocol that gives messages their types, whatever version is spoken; to be said before there
        are handlers for its classes.
        """
        self._vocabulary = vocabulary
        return self

    def older_spelling(self, older: bool = True) -> AcpProxyBuilder:
        """
        Write C{_proxy/successor}, as conductors of old do.  Both are always understood; and a proxy writes as the
        conductor did that initialized it.
        """
        self._spelling = OLDER if older else PRESENT
        return self

    def client_request_handler(
        self, method: str | type | None, handler: Handler, *, raw: bool = False
    ) -> AcpProxyBuilder:
        """
        Take a request of the client's side.

        @param method: its name or the class of its params; L{None} for every one without a handler of its own.
        @param raw: give and take JSON.
        """
        return self._take("client", "request", method, handler, raw, "client_request_handler")

    def client_notification_handler(
        self, method: str | type | None, handler: Handler, *, raw: bool = False
    ) -> AcpProxyBuilder:
        """
        Take a notification of the client's side.
        """
        return self._take("client", "notification", method, handler, raw, "client_notification_handler")

    def agent_request_handler(
        self, method: str | type | None, handler: Handler, *, raw: bool = False
    ) -> AcpProxyBuilder:
        """
        Take a request of the agent's side.
        """
        return self._take("agent", "request", method, handler, raw, "agent_request_handler")

    def agent_notification_handler(
        self, method: str | type | None, handler: Handler, *, raw: bool = False
    ) -> AcpProxyBuilder:
        """
        Take a notification of the agent's side.
        """
        return self._take("agent", "notification", method, handler, raw, "agent_notification_handler")

    def cancel_request_handler(self, handler: Handler) -> AcpProxyBuilder:
        """
        Be told of every C{$/cancel_request} on the link, after it has taken effect, which this does not change.  It is
        never passed on: its id is the link's own.
        """
        return self._take("client", "notification", "$/cancel_request", handler, False, "cancel_request_handler")

    def _take(
        self, origin: Side, kind: Kind, method: str | type | None, handler: Handler, raw: bool, setter: str
    ) -> AcpProxyBuilder:
        words: Vocabulary | None = None
        name: str | None = None
        if isinstance(method, type):
            words = self._vocabulary or vocabulary_of(method)
            found = None if words is None else words.for_params(method)
            if found is None or found.kind != kind:
                raise TypeError(f"{setter}: {method.__name__} is no {kind} of the protocol")
            name = found.name
        else:
            name = method
        for each in self._taken:
            same = (each.origin, each.kind, each.method) == (origin, kind, name)
            if same and (words is None or each.vocabulary in (None, words)):
                raise ValueError(f"{setter}: {name} has a handler already")
        self._taken.append(Taken(origin, kind, name, two_arguments(handler, setter), raw, words))
        return self

    def build(self) -> AcpProxy:
        """
        The proxy.
        """
        return AcpProxy(
            name=self._name,
            taken=tuple(self._taken),
            vocabulary=self._vocabulary,
            spelling=self._spelling,
            limits=self._limits,
        )


def run_proxy(proxy: IMessageReceiverFactory) -> None:
    """
    Be a proxy on standard input and output until the conductor ends the conversation, then exit: what a conductor
    starts.  It runs the reactor, so it is for programs that are nothing but this proxy.
    """

    def main(reactor: Any) -> Deferred[None]:
        transport = StdioAgentTransport.start(proxy, reactor)
        reactor.addSystemEventTrigger("before", "shutdown", transport.receiver.shutdown)
        return transport.done

    task.react(main)
