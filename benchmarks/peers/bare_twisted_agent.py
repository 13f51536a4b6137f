"""
An agent on Twisted that does nothing: it reads a line, and writes an answer that fits whatever the driver asks.  No
agent on Twisted can answer faster, so its figure says how much of an empty prompt is pipes and wake-ups.
"""

from __future__ import annotations

from typing import Any

import orjson
from twisted.internet import reactor, stdio
from twisted.internet.protocol import connectionDone
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

ANSWER = {"protocolVersion": 1, "sessionId": "s", "stopReason": "end_turn"}


class Answering(LineOnlyReceiver):
    """
    Answers every line.
    """

    delimiter = b"\n"
    MAX_LENGTH = 1 << 20

    def lineReceived(self, line: bytes) -> None:
        answer = {"jsonrpc": "2.0", "id": orjson.loads(line)["id"], "result": ANSWER}
        transport: Any = self.transport
        transport.write(orjson.dumps(answer) + b"\n")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        any_reactor: Any = reactor
        any_reactor.stop()


if __name__ == "__main__":
    stdio.StandardIO(Answering())
    running: Any = reactor
    running.run()
