"""
The conductor, which runs a chain of proxies and the agent behind them, and how it is built.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.proxy.chain import Chain, Component
from acp_twisted.proxy.spelling import OLDER, PRESENT, Spelling
from acp_twisted.transports.command import AgentCommand

Part: TypeAlias = "IMessageReceiverFactory | AgentCommand | str"
"""
A component: something in this process (an C{AcpProxy}, an C{AcpAgent}, another L{Conductor}), a program, or the
command line of one, which is split as a shell does and run without one.
"""


@implementer(IMessageReceiverFactory)
@frozen(kw_only=True)
class Conductor:
    """
    Runs client -> proxies -> agent.  To a client it is an agent.  Without an agent of its own it is a proxy to the
    conductor above it, which makes a chain a part of another.

    One object serves any number of clients; each has components of its own.  Made by L{Conductor.builder}.
    """

    name: str
    components: Sequence[Component]
    spelling: Spelling
    limits: Limits

    @staticmethod
    def builder() -> ConductorBuilder:
        """
        A new builder.
        """
        return ConductorBuilder()

    @property
    def is_proxy(self) -> bool:
        """
        Whether it has no agent of its own.
        """
        return self.components[-1].proxy

    def build_receiver(self, clock: IReactorTime) -> IMessageReceiver:
        """
        See L{IMessageReceiverFactory}.
        """
        return self.chain(clock).client

    def chain(self, clock: IReactorTime) -> Chain:
        """
        A chain for one client, whose C{client} is to be given to a transport.

        @param clock: the reactor, where a component is a program.
        """
        return Chain(self.name, self.components, clock, self.limits, self.spelling)


class ConductorBuilder:
    """
    Collects the components, from the client's side to the agent.
    """

    def __init__(self) -> None:
        self._name = "conductor"
        self._components: list[Component] = []
        self._spelling = PRESENT
        self._limits = Limits()

    def name(self, name: str) -> ConductorBuilder:
        """
        What the log calls it.
        """
        self._name = name
        return self

    def limits(self, limits: Limits) -> ConductorBuilder:
        """
        The bounds of each link.
        """
        self._limits = limits
        return self

    def older_spelling(self, older: bool = True) -> ConductorBuilder:
        """
        Speak to proxies as conductors did before the protocol had a spelling: C{_proxy/initialize} and
        C{_proxy/successor}, and cancellations in envelopes.  Both are always understood.
        """
        self._spelling = OLDER if older else PRESENT
        return self

    def proxy(self, what: Part, name: str | None = None) -> ConductorBuilder:
        """
        The next proxy, behind those before it.

        @raise ValueError: when the agent is there already, or for an empty command line.
        """
        return self._add(what, name, True)

    def agent(self, what: Part, name: str | None = None) -> ConductorBuilder:
        """
        The agent, which is last.

        @raise ValueError: when there is one, or for an empty command line.
        """
        return self._add(what, name, False)

    def _add(self, what: Part, name: str | None, proxy: bool) -> ConductorBuilder:
        if self._components and not self._components[-1].proxy:
            raise ValueError("the agent is the last of a chain, and there is one already")
        if isinstance(what, str):
            words = shlex.split(what)
            if not words:
                raise ValueError("an empty command line is no component")
            what = AgentCommand(words)
        elif not isinstance(what, AgentCommand) and not IMessageReceiverFactory.providedBy(what):
            raise TypeError(f"{what!r} is no component: a command, or something that builds a receiver")
        if name is None:
            name = f"proxy {len(self._components) + 1}" if proxy else "agent"
        self._components.append(Component(name, cast(Any, what), proxy))
        return self

    def build(self) -> Conductor:
        """
        The conductor.

        @raise ValueError: when it has no component.
        """
        if not self._components:
            raise ValueError("a conductor needs a component")
        return Conductor(
            name=self._name, components=tuple(self._components), spelling=self._spelling, limits=self._limits
        )
