"""
A chain in memory: our client or raw JSON on the one end, our agent or raw JSON on the other, a conductor and whatever
proxies between, on one clock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from halves import Raw
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock
from zope.interface import implementer

from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.proxy.chain import Chain
from acp_twisted.proxy.conductor import Conductor
from acp_twisted.proxy.proxy import AcpProxy
from acp_twisted.transports.memory import MemoryLink


@implementer(IMessageReceiverFactory)
class RawFactory:
    """
    A component that is raw JSON.

    @ivar ends: what it has made.
    """

    def __init__(self) -> None:
        self.limits = Limits()
        self.ends: list[RawEnd] = []

    def build_receiver(self, clock: IReactorTime) -> IMessageReceiver:
        self.ends.append(RawEnd())
        return self.ends[-1]

    @property
    def end(self) -> RawEnd:
        """The one that it has made."""
        (end,) = self.ends
        return end


class RawEnd(Raw):
    """
    Raw JSON on one end of a link.

    @ivar lines: the very bytes that came.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[bytes] = []
        self.ended = False

    def message_received(self, message: bytes) -> None:
        self.lines.append(message)
        super().message_received(message)

    def input_ended(self) -> None:
        self.ended = True

    def send(self, *messages: dict[str, Any]) -> None:
        """Say something."""
        for message in messages:
            self.send_text(json.dumps({"jsonrpc": "2.0", **message}))

    def send_text(self, text: str) -> None:
        """Say these very words."""
        assert self.transport is not None
        self.transport.send(text.encode())

    def answer(self, result: Any = None, number: int = -1) -> None:
        """Answer the last request that came, or another one."""
        asked = [each for each in self.received if "method" in each and "id" in each][number]
        self.send({"id": asked["id"], "result": {} if result is None else result})

    def fail(self, error: dict[str, Any], number: int = -1) -> None:
        """Answer it with an error."""
        asked = [each for each in self.received if "method" in each and "id" in each][number]
        self.send({"id": asked["id"], "error": error})

    def take(self) -> list[dict[str, Any]]:
        """What has come since the last time, without its C{jsonrpc}."""
        taken = [{name: each[name] for name in each if name != "jsonrpc"} for each in self.received]
        self.received.clear()
        return taken

    def answers(self, number: Any) -> list[dict[str, Any]]:
        """The answers to a request, without their envelopes."""
        return [
            {name: each[name] for name in each if name not in ("jsonrpc", "id")}
            for each in self.received
            if "method" not in each and each["id"] == number
        ]


class RawChain:
    """
    A raw client, some proxies, a raw agent; initialized.
    """

    def __init__(
        self,
        proxies: Sequence[Any] = (),
        *,
        agent: Any = None,
        limits: Limits | None = None,
        older: bool = False,
        initialize: bool = True,
    ) -> None:
        self.clock = Clock()
        self.agents = RawFactory()
        builder = Conductor.builder().limits(limits or Limits()).older_spelling(older)
        for proxy in proxies:
            builder.proxy(proxy)
        self.conductor = builder.agent(self.agents if agent is None else agent).build()
        self.chain: Chain = self.conductor.chain(self.clock)
        self.client = RawEnd()
        self.link = MemoryLink(self.client, self.chain.client, self.clock, limits or Limits())
        if initialize:
            self.client.send({"id": "i", "method": "initialize", "params": {"protocolVersion": 1}})
            if agent is None:
                self.agent.answer({"protocolVersion": 1})
                self.agent.take()
            assert self.client.take()[-1]["id"] == "i"
            self.client.lines.clear()

    @property
    def agent(self) -> RawEnd:
        """The agent's end."""
        return self.agents.end


def passing(name: str = "passing") -> AcpProxy:
    """A proxy that lets everything pass."""
    return AcpProxy.builder().name(name).build()
