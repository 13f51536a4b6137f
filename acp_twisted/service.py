"""
The two halves as Twisted services, for C{twistd}, for an L{Application<twisted.application.service.Application>} and
for a L{MultiService<twisted.application.service.MultiService>} of your own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from twisted.application.service import Service
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredList,
    FirstError,
    gatherResults,
    maybeDeferred,
    succeed,
)
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import ReactorNotRunning
from twisted.internet.interfaces import (
    IDelayedCall,
    IListeningPort,
    IReactorTime,
    IStreamServerEndpoint,
)
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.client.service import ClientService
from acp_twisted.interfaces import IMessageReceiverFactory
from acp_twisted.transports.stdio import StdioAgentTransport, StdioGuard
from acp_twisted.transports.stream import ServerFactory

if TYPE_CHECKING:
    from acp_twisted.transports.http.security import IAuthentication

__all__ = [
    "AgentService",
    "ClientService",
    "HttpAgentService",
    "ServerEndpoint",
    "StdioAgentService",
    "server_endpoint",
]

_log = Logger()

ServerEndpoint: TypeAlias = "IStreamServerEndpoint | str"


class AgentService(Service):
    """
    An agent on any number of Twisted endpoints.

    It listens on all of them or on none.  When it stops, no connection is accepted any more, and each one that is there
    ends in good order: running turns are cancelled, their answers flushed, the link closed.  What is still there after
    C{Limits.drain_timeout} seconds is aborted.
    """

    def __init__(
        self, agent: IMessageReceiverFactory, endpoints: ServerEndpoint | Sequence[ServerEndpoint], reactor: Any
    ) -> None:
        """
        @param agent: an L{AcpAgent<acp_twisted.agent.agent.AcpAgent>}.
        @param endpoints: as objects or as users type them (C{"tcp:8123:interface=127.0.0.1"}); one or several.
        @param reactor: listens, and runs the timers.
        @raise ValueError: when there is no endpoint, or a string describes none.
        """
        several = endpoints if isinstance(endpoints, Sequence) and not isinstance(endpoints, str) else [endpoints]
        if not several:
            raise ValueError("an AgentService needs an endpoint to listen on")
        self._agent = agent
        self._endpoints = [server_endpoint(reactor, each) for each in several]
        self._clock: IReactorTime = reactor
        self._listening: _Listening | None = None
        self._waiting: list[Deferred[Sequence[IListeningPort]]] = []

    @property
    def ports(self) -> Sequence[IListeningPort]:
        """
        What is being listened on, in the order of the endpoints; nothing unless all of them are open.
        """
        return () if self._listening is None else self._listening.all_open

    def when_listening(self) -> Deferred[Sequence[IListeningPort]]:
        """
        Fires with L{ports} once all are open: at once, for most endpoints, when the service is running.  It fails when
        one can't be opened, and with L{CancelledError} when the service is stopped before that.
        """
        if self.ports:
            return succeed(self.ports)
        waiting: Deferred[Sequence[IListeningPort]] = Deferred(self._waiting.remove)
        self._waiting.append(waiting)
        return waiting

    def privilegedStartService(self) -> None:
        """
        Listen, while there still are the privileges for a port below 1024.

        @raise CannotListenError: or whatever an endpoint raised; then none is open.
        """
        Service.privilegedStartService(self)
        self._listen()

    def startService(self) -> None:
        """
        Listen, unless L{privilegedStartService} has done that.

        @raise CannotListenError: or whatever an endpoint raised; then none is open, and the service does not run.
        """
        if self._listening is None:
            self._listen()
        Service.startService(self)

    def _listen(self) -> None:
        listening = self._listening = _Listening(self._make_factory(), self._endpoints)
        at_once: list[Failure] = []
        starting = True

        def refused(failure: Failure) -> None:
            if listening.stopped:
                return
            assert isinstance(failure.value, FirstError)
            why = failure.value.subFailure
            self._listening = None
            _heed(listening.stop(), "closing the other ports failed")
            if starting:
                at_once.append(why)
            else:
                _log.failure("the service can't listen, and serves nobody", why)
            self._tell(why)

        listening.outcome.addCallbacks(lambda _: self._tell(self.ports), refused)
        starting = False
        if at_once:
            at_once[0].raiseException()

    def _make_factory(self) -> Any:
        """
        What serves the connections of one start: a protocol factory with C{close_all}.
        """
        return ServerFactory(self._agent, self._clock)

    def _tell(self, result: Sequence[IListeningPort] | Failure) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if isinstance(result, Failure):
                each.errback(result)
            else:
                each.callback(result)

    def stopService(self) -> Deferred[None]:
        """
        Stop listening, and end every connection in good order.

        @return: fires when all ports are closed and all connections gone.
        """
        Service.stopService(self)
        listening, self._listening = self._listening, None
        self._tell(Failure(CancelledError()))
        return succeed(None) if listening is None else listening.stop()


class HttpAgentService(AgentService):
    """
    An agent over Streamable HTTP and WebSocket, on any number of Twisted endpoints (protocol §5.2).  It needs
    C{acp_twisted[http]}.

    It starts and stops as an L{AgentService} does.
    """

    def __init__(
        self,
        agent: IMessageReceiverFactory,
        endpoints: ServerEndpoint | Sequence[ServerEndpoint],
        reactor: Any,
        *,
        path: str = "/acp",
        origins: Iterable[str] = ("loopback",),
        hosts: Collection[str] | None = None,
        authentication: IAuthentication | None = None,
    ) -> None:
        """
        @param agent: an L{AcpAgent<acp_twisted.agent.agent.AcpAgent>}.
        @param endpoints: as for an L{AgentService}; but a string that names no interface is for the loopback one.
            With C{ssl:} browsers and others get HTTP/2.
        @param path: where the agent is.
        @param origins: see L{AcpResource<acp_twisted.transports.http.resource.AcpResource>}, as for the rest.
        @raise ValueError: when there is no endpoint, or a string describes none, or an origin or the path is none.
        """
        several = endpoints if isinstance(endpoints, Sequence) and not isinstance(endpoints, str) else [endpoints]
        AgentService.__init__(
            self, agent, [on_loopback(each) if isinstance(each, str) else each for each in several], reactor
        )
        self._path = path
        self._options: dict[str, Any] = {
            "origins": tuple(origins),
            "hosts": hosts,
            "authentication": authentication,
        }
        self._make_factory()  # what is wrong with the options is told now

    def _make_factory(self) -> Any:
        from acp_twisted.transports.http.resource import AcpResource  # noqa: PLC0415 - only who serves HTTP pays for it
        from acp_twisted.transports.http.site import AcpSite  # noqa: PLC0415

        resource = AcpResource(self._agent, self._clock, **self._options)
        return AcpSite(
            resource,
            self._path,
            self._clock,
            self._agent.limits.max_request_bytes,
            arrival_timeout=self._agent.limits.arrival_timeout,
        )


class _Listening:
    """
    One start of an L{AgentService}: its ports, and the connections that came in by them.

    @ivar outcome: fires when all are open; fails with a C{FirstError} when one can't be.
    """

    def __init__(self, factory: Any, endpoints: Sequence[IStreamServerEndpoint]) -> None:
        self.stopped = False
        self.all_open: Sequence[IListeningPort] = ()
        self._open: list[IListeningPort] = []
        self._factory = factory
        self._attempts = [maybeDeferred(each.listen, self._factory).addCallback(self._opened) for each in endpoints]
        self.outcome: Deferred[Any] = gatherResults(self._attempts, consumeErrors=True).addCallback(self._complete)

    def _opened(self, port: IListeningPort) -> IListeningPort:
        if self.stopped:  # the attempt was cancelled, and came off all the same
            _heed(_close_port(port), "closing a late port failed")
        else:
            self._open.append(port)
        return port

    def _complete(self, ports: Sequence[IListeningPort]) -> None:
        self.all_open = tuple(ports)

    def stop(self) -> Deferred[None]:
        """
        @return: fires when everything is closed; never fails.
        """
        self.stopped = True
        for attempt in self._attempts:
            attempt.cancel()
        endings: list[Deferred[None]] = [_close_port(port) for port in self._open]
        self._open = []
        endings.append(self._factory.close_all())
        for ending in endings:
            _heed(ending, "a port could not be closed")
        return DeferredList(endings).addCallback(_nothing)


class StdioAgentService(Service):
    """
    An agent on standard input and output, in an application that an editor launches.

    When the client ends the conversation, what it asked is answered, and the application is stopped, with the exit
    status 0.  When the application is stopped first, running turns are cancelled and answered before it ends, at most
    C{Limits.drain_timeout} seconds later.

    Standard output must carry nothing but the protocol.  What is written to it from the start of the service on goes to
    standard error; for what may write earlier, such as the log of C{twistd -n}, a guard has to be installed earlier,
    as C{twistd acp --stdio} does.
    """

    def __init__(self, agent: IMessageReceiverFactory, reactor: Any, guard: StdioGuard | None = None) -> None:
        """
        @param agent: an L{AcpAgent<acp_twisted.agent.agent.AcpAgent>}.
        @param reactor: reads, writes, runs the timers, and is stopped when the conversation is over.
        @param guard: one that was installed earlier; by default a new one.
        """
        self._agent = agent
        self._reactor = reactor
        self._guard = guard
        self._transport: StdioAgentTransport | None = None
        self._aborting: IDelayedCall | None = None
        self._waiting: list[Deferred[None]] = []

    def startService(self) -> None:
        """
        Begin the conversation.

        @raise AcpConnectionError: when there is no standard input or output.
        """
        transport = self._transport = StdioAgentTransport.start(self._agent, self._reactor, self._guard)
        Service.startService(self)
        transport.done.addCallback(self._over)

    def _over(self, _: None) -> None:
        self._transport = None
        if self._aborting is not None:
            self._aborting.cancel()
            self._aborting = None
        if self.running:
            _log.info("the conversation on standard input and output is over")
            self._reactor.callWhenRunning(self._stop_reactor)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    def _stop_reactor(self) -> None:
        if not self.running:
            return
        try:
            self._reactor.stop()
        except ReactorNotRunning:
            _log.debug("the reactor is being stopped already")

    def stopService(self) -> Deferred[None]:
        """
        Cancel what runs, answer it, and close.

        @return: fires when the answers are written.
        """
        Service.stopService(self)
        transport = self._transport
        if transport is None:
            return succeed(None)
        over: Deferred[None] = Deferred()
        self._waiting.append(over)
        if self._aborting is None:
            self._aborting = self._reactor.callLater(self._agent.limits.drain_timeout, self._abort, transport)
            _heed(maybeDeferred(transport.receiver.shutdown), "the receiver failed to shut down")
        return over

    def _abort(self, transport: StdioAgentTransport) -> None:
        self._aborting = None
        transport.abort("the service stopped, and the conversation did not end in Limits.drain_timeout")


def server_endpoint(reactor: Any, where: ServerEndpoint) -> IStreamServerEndpoint:
    """
    An endpoint to listen on.

    @raise ValueError: when a string describes none, or one that is no use to a service; the message says which.
    """
    if not isinstance(where, str):
        return where
    if where.partition(":")[0] == "stdio":
        raise ValueError(f"{where!r}: standard input and output are for StdioAgentService")
    try:
        endpoint: IStreamServerEndpoint = serverFromString(reactor, where)
    except Exception as error:
        if isinstance(error, ImportError | NameError):  # Twisted's, of what it has not imported
            raise ValueError(f"TLS needs more than is installed: pip install 'acp_twisted[tls]' ({error})") from error
        raise ValueError(f"{where!r} is no endpoint to listen on: {type(error).__name__}: {error}") from error
    return endpoint


def on_loopback(where: str) -> str:
    """
    An endpoint string for the loopback interface, unless it says otherwise.
    """
    if where.startswith("haproxy:"):
        return "haproxy:" + on_loopback(where.removeprefix("haproxy:"))
    kind, *parts = where.split(":")
    default = {"tcp": "127.0.0.1", "ssl": "127.0.0.1", "tcp6": "\\:\\:1"}.get(kind)
    by_place = kind != "ssl" and len(parts) > 1 and "=" not in parts[1]
    told = by_place or any(part.startswith("interface=") for part in parts)
    return where if default is None or told else f"{where}:interface={default}"


def _close_port(port: IListeningPort) -> Deferred[None]:
    stop: Callable[[], Any] = port.stopListening
    return maybeDeferred(stop)


def _heed(ending: Deferred[Any], trouble: str) -> None:
    """
    Log what goes wrong with something that nobody waits for.
    """
    ending.addErrback(lambda failure: _log.failure(trouble, failure))


def _nothing(_: object) -> None:
    return None
