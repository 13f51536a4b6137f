"""
What an update of each kind costs in our client and agent, in microseconds: prints JSON.

    updates_driver.py COUNT < LINES     (a JSON object: kind to line)
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock
from zope.interface import implementer

from acp_twisted import AcpAgent, AcpClient
from acp_twisted.interfaces import IMessageTransport
from acp_twisted.jsonrpc.messages import Notification, parse
from acp_twisted.schema import v1
from acp_twisted.schema.converter import structure


@implementer(IMessageTransport)
class Nowhere:
    """
    Takes everything, and keeps the last.
    """

    unsent = 0
    last = b""

    def send(self, message: bytes) -> None:
        self.last = message

    def close(self) -> None: ...

    def abort(self, reason: str) -> None: ...

    def pauseProducing(self) -> None: ...

    def resumeProducing(self) -> None: ...

    def stopProducing(self) -> None: ...


def timed(count: int, work: Callable[[], object]) -> float:
    """
    Microseconds for one call.
    """
    gc.collect()
    started = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - started) / count * 1e6


def main() -> None:
    count = int(sys.argv[1])
    lines: dict[str, str] = json.load(sys.stdin)
    seen = 0

    def handler(_: v1.SessionNotification) -> None:
        nonlocal seen
        seen += 1

    client = AcpClient.builder().session_update_handler(handler).build().connection(Clock())
    client.peer.connection_made(Nowhere())
    out = Nowhere()
    agent = AcpAgent.builder().prompt_handler(lambda _: None).build().connect(Clock())
    agent.peer.connection_made(out)
    agent.peer.message_received(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}')
    figures: dict[str, dict[str, float]] = {}
    for kind, text in lines.items():
        line = text.encode()
        message = parse(line)
        assert isinstance(message, Notification)
        params: Any = message.params
        update = structure(params, v1.SessionNotification)
        agent.notify(update)
        assert json.loads(out.last)["params"]["update"]["sessionUpdate"] == kind
        seen = 0
        figures[kind] = {
            "decode": timed(count, lambda line=line: parse(line)),  # type: ignore[misc]
            "structure": timed(count, lambda params=params: structure(params, v1.SessionNotification)),  # type: ignore[misc]
            "receive": timed(count, lambda line=line: client.peer.message_received(line)),  # type: ignore[misc]
            "send": timed(count, lambda update=update: agent.notify(update)),  # type: ignore[misc]
        }
        assert seen == count, (kind, seen)
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
