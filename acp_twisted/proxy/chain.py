"""
One running chain: a client, the components of a conductor, and the links between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpConnectionError, AcpError, InternalError, InvalidRequest
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.jsonrpc.calls import Waiters
from acp_twisted.limits import Limits
from acp_twisted.proxy.inside import join
from acp_twisted.proxy.passage import PassingRequest, Way
from acp_twisted.proxy.port import Port
from acp_twisted.proxy.pressure import PressedPeer
from acp_twisted.proxy.spelling import Spelling
from acp_twisted.transports.command import AgentCommand

_log = Logger()


@frozen
class Component:
    """
    A part of a chain.

    @ivar name: what the log and errors call it.
    @ivar what: how it is started, or what makes its end of a link in this process.
    @ivar proxy: whether it has a successor; otherwise it is the agent.
    """

    name: str
    what: AgentCommand | IMessageReceiverFactory
    proxy: bool


class Chain:
    """
    One run of a conductor's components, for one client.

    They are started when the client's C{initialize} comes, all at once; so what can't be started is an answer to that.
    When one of them goes while the others are needed, what waits for it is answered with an error that names it, and
    the chain ends: the client's link last, after the components, in their order.

    @ivar client: the link to the client, or to the conductor above.
    @ivar ports: the links to the components.
    @ivar join: connects two receivers of this process.
    @ivar failure: why the chain ended, where that was a component's doing.
    """

    def __init__(
        self,
        name: str,
        components: Sequence[Component],
        clock: IReactorTime,
        limits: Limits,
        spelling: Spelling,
    ) -> None:
        self.name = name
        self.components = tuple(components)
        self.failure: AcpError | None = None
        self.join: Callable[[IMessageReceiver, IMessageReceiver, Limits, IReactorTime], object] = join
        self._clock = clock
        self._limits = limits
        self._nested = components[-1].proxy
        self.client = Port(self, clock, limits, leads=self._nested)
        self.ports = [Port(self, clock, limits, answers_noise=False, spelling=spelling) for _ in components]
        self._route(spelling)
        self._state = "new"
        self._early: list[tuple[PassingRequest, str, bytes]] = []
        self._ending = False
        self._failing = False
        self._all_gone = False
        self._gone: Waiters[None] = Waiters()

    def _route(self, spelling: Spelling) -> None:
        """
        Say where everything goes.
        """
        client, ports = self.client, self.ports

        def into(index: int) -> Way:
            return Way(ports[index], initialize=spelling.initialize if self.components[index].proxy else "initialize")

        client.onward[False] = into(0)
        for index, port in enumerate(ports):
            port.onward[False] = Way(client) if index == 0 else Way(ports[index - 1], wrapped=True)
            if index + 1 < len(ports):
                port.onward[True] = into(index + 1)
        if self._nested:
            ports[-1].onward[True] = Way(client, wrapped=True)
            client.onward[True] = Way(ports[-1], wrapped=True)
        self._set_pressure()

    def _set_pressure(self) -> None:
        """
        Say who is to wait for whom.  A proxy has one link for both directions: if one proxy were not read because the
        next one does not read, and that one for the first one's sake, both would stand still for ever.  So proxies are
        always read, and what does not get through holds the two ends that it all comes from.  Only a proxy that floods
        its neighbour on its own account is held itself, much later.
        """
        client, last = self.client, self.ports[-1]
        ends: list[PressedPeer] = [client] if self._nested else [client, last]
        for port in self.ports:
            port.feeders = ends
        if not self._nested:
            client.feeders, last.feeders = [last], [client]
        else:
            client.feeders = [client]
        everyone = [client, *self.ports]
        for port in everyone:
            port.floods = [each for each in everyone if any(way.port is port for way in each.onward.values())]

    def when_gone(self) -> Deferred[None]:
        """
        Fires when every component has ended, after the client's link or before it.
        """
        return succeed(None) if self._all_gone else self._gone.wait()

    def shutdown(self) -> Deferred[None]:
        """
        End it in order: cancel what the client has asked, answer it, end the components from the client's side to the
        agent, close the client's link.

        @return: fires when all are gone.
        """
        self.client.shutdown()
        return self.when_gone()

    # ---- what ports ask

    def admits(self, port: Port, request: PassingRequest, method: str, params: bytes) -> bool:
        """
        See L{PortOwner<acp_twisted.proxy.port.PortOwner>}: the first request of the client's starts everything.
        """
        if port is not self.client or self._state == "running":
            return True
        if self._state == "new" and method != "initialize":
            request.fail(InvalidRequest("initialize comes first", {"method": method}))
            return False
        self._early.append((request, method, params))
        if self._state == "new":
            self._state = "starting"
            self.client.pause_for(self)
            self._start().addErrback(lambda failure: _log.failure("starting the chain failed", failure))
        return False

    def finished(self, port: Port) -> bool:
        """
        See L{PortOwner<acp_twisted.proxy.port.PortOwner>}: the client's link is closed last.
        """
        if port is not self.client:
            return True
        self._end()
        return self._all_gone

    def why_lost(self, port: Port, reason: AcpConnectionError) -> AcpError:
        """
        See L{PortOwner<acp_twisted.proxy.port.PortOwner>}.
        """
        if port is self.client:
            return InternalError("The client is gone", {"component": "client"})
        name = self._name_of(port)
        data: dict[str, object] = {"component": name, "reason": reason.message}
        if reason.exit_code is not None:
            data["exitCode"] = reason.exit_code
        if reason.signal is not None:
            data["signal"] = reason.signal
        error = InternalError(f"{name} is gone: {reason.message}", data)
        if not self._ending and self.failure is None:
            self.failure = error
        return error

    def port_lost(self, port: Port, reason: AcpConnectionError) -> None:
        """
        See L{PortOwner<acp_twisted.proxy.port.PortOwner>}.
        """
        if port is self.client:
            for each in self.ports:  # nobody waits for any of it any more
                each.give_up_all(self.why_lost(port, reason))
            self._end()
        elif not self._ending:
            self._fail(self.why_lost(port, reason))

    # ---- its life

    def _start(self) -> Deferred[None]:
        waiting = len(self.components)
        started: Deferred[None] = Deferred()

        def one_more(_: object) -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                started.callback(None)

        def one_less(failure: Failure, component: Component) -> None:
            text = failure.value.message if isinstance(failure.value, AcpError) else type(failure.value).__name__
            _log.error("{name} could not be started: {error}", name=component.name, error=text)
            why = InternalError(f"{component.name} could not be started: {text}", {"component": component.name})
            self._answer_early(why)
            self._fail(why)

        for component, port in zip(self.components, self.ports, strict=True):
            starting = maybeDeferred(self._connect, component, port)
            starting.addErrback(one_less, component).addCallback(one_more)
        return started.addCallback(self._started)

    def _connect(self, component: Component, port: Port) -> Deferred[Any] | None:
        if self._failing or self._ending:  # one before it could not be started, or the client is gone
            return None
        what = component.what
        if isinstance(what, AgentCommand):
            from acp_twisted.transports.process import spawn  # noqa: PLC0415 - for components that are programs

            return spawn(self._clock, what, port, self._limits)
        self.join(port, what.build_receiver(self._clock), self._limits, self._clock)
        return None

    def _started(self, _: object) -> None:
        if self._ending or self.failure is not None:
            self._answer_early(self.failure or InvalidRequest("Shutting down"))
            self._end()
            return
        self._state = "running"
        early, self._early = self._early, []
        for request, method, params in early:
            request.pass_on(self.client.onward[False], method, params)
        self.client.resume_for(self)

    def _answer_early(self, why: AcpError) -> None:
        early, self._early = self._early, []
        for request, _, _ in early:
            request.fail(why)

    def _fail(self, why: AcpError) -> None:
        """
        The chain can't go on.
        """
        if self._failing or self._ending:
            return
        self._failing = True
        self.failure = self.failure or why
        _log.error("the chain {name} ends: {error}", name=self.name, error=why.message)
        self.client.refusing = why
        self.client.resume_for(self)
        for port in (self.client, *self.ports):
            port.give_up_all(why)
        self.client.shutdown()

    def _end(self) -> None:
        """
        End the components one after the other.
        """
        if self._ending:
            return
        self._ending = True
        self._answer_early(InvalidRequest("Shutting down"))
        left = list(self.ports)

        def next_one(_: object) -> None:
            if left:
                left.pop(0).shutdown().addCallback(next_one)
                return
            self._all_gone = True
            self._gone.fire(None)
            self.client.close_now()

        next_one(None)

    def _name_of(self, port: Port) -> str:
        return self.components[self.ports.index(port)].name
