"""
How fast a cancellation is, with 1 000 other sessions streaming: our scripted agent beside agents on the official Python
and TypeScript SDKs, in one run; and, inside our own process, how long from the arrival of the bytes to the token.

    python benchmarks/cancel.py [--rounds 3] [--streams 1000] [--cancels 200]

Needs the peers of C{tools/install_peers.py}.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from acp_twisted import AcpAgent, PromptContext
from acp_twisted.interfaces import IMessageTransport
from acp_twisted.schema import v1

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from peers import peer  # noqa: E402


def commands() -> dict[str, list[str]]:
    """
    The agents.
    """
    typescript = peer("ts24")
    return {
        "acp_twisted": [sys.executable, "-m", "acp_twisted.testing.scripted_agent"],
        "python sdk": peer("python-sdk").command(HERE / "peers" / "python_sdk_agent.py"),
        "typescript sdk": typescript.command(HERE / "peers" / "typescript_sdk_agent.mjs", typescript.folder),
    }


def measure(command: list[str], streams: int, cancels: int) -> dict[str, float]:
    """
    One run of the driver.
    """
    driver = [sys.executable, str(HERE / "cancel_driver.py"), "--streams", str(streams), "--cancels", str(cancels)]
    finished = subprocess.run([*driver, "--", *command], stdout=subprocess.PIPE, check=True)
    figures: dict[str, float] = json.loads(finished.stdout)
    return figures


@implementer(IMessageTransport)
class Nowhere:
    """
    A transport that keeps the last message.
    """

    unsent = 0
    last = b""

    def send(self, message: bytes) -> None:
        self.last = message

    def close(self) -> None:
        return None

    def abort(self, reason: str) -> None:
        return None

    pauseProducing = resumeProducing = stopProducing = close  # noqa: N815 - Twisted's names


def to_the_token(streams: int, cancels: int) -> list[float]:
    """
    Seconds from the arrival of C{session/cancel} to the token's callback, each time, with so many turns open.
    """
    waiting: list[Deferred[None]] = []
    seen: list[float] = []

    def prompt(request: v1.PromptRequest, context: PromptContext) -> Deferred[Any]:
        context.on_cancel(lambda: seen.append(time.perf_counter()))
        open_turn: Deferred[Any] = Deferred()
        waiting.append(open_turn)
        return open_turn

    agent = AcpAgent.builder().prompt_handler(prompt).cancel_grace_period(0).build()
    peer_of_agent = agent.build_receiver(Clock())
    transport = Nowhere()
    peer_of_agent.connection_made(transport)

    def ask(number: int, method: str, params: object) -> Any:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        peer_of_agent.message_received(json.dumps(message).encode())
        return json.loads(transport.last)

    ask(1, "initialize", {"protocolVersion": 1})
    taken = []
    for number in range(streams + cancels):
        session = ask(10 + 2 * number, "session/new", {"cwd": "/", "mcpServers": []})["result"]["sessionId"]
        ask(11 + 2 * number, "session/prompt", {"sessionId": session, "prompt": []})
        if number >= streams:
            cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
            message = json.dumps(cancel).encode()
            begun = time.perf_counter()
            peer_of_agent.message_received(message)
            taken.append(seen[-1] - begun)
    return sorted(taken)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--cancels", type=int, default=200)
    options = parser.parse_args()
    agents = commands()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in agents}
    for _ in range(options.rounds):
        for name, command in agents.items():
            runs[name].append(measure(command, options.streams, options.cancels))
    sys.stdout.write(f"session/cancel to the answer, {options.streams} other sessions streaming, ms\n")
    sys.stdout.write(f"{'':16}{'median':>10}{'p99':>10}\n")
    for name, figures in runs.items():
        median, p99 = (1000 * statistics.median(each[key] for each in figures) for key in ("median", "p99"))
        sys.stdout.write(f"{name:16}{median:10.3f}{p99:10.3f}\n")
    taken = to_the_token(options.streams, 2000)
    sys.stdout.write(f"session/cancel to the token, {options.streams} other turns open, inside acp_twisted, ms\n")
    sys.stdout.write(f"{'':16}{1000 * taken[len(taken) // 2]:10.3f}{1000 * taken[int(len(taken) * 0.99)]:10.3f}\n")


if __name__ == "__main__":
    main()
