"""
What a hop costs: the time that each proxy adds to a round trip, how many updates go through, and how passing messages
on as they are compares with decoding and encoding them, all in one run.

    python benchmarks/proxy.py [--rounds 5]

Three measures.  First the work on one message, without any transport.  Then chains of 0, 1, 3 and 5 proxies in one
process, joined in memory: proxies that let everything pass, beside proxies whose handler decodes each message and
sends it on encoded anew.  Last the same chains of programs, over pipes.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import orjson
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted import AcpProxy, Conductor, Limits
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory, IMessageTransport
from acp_twisted.jsonrpc.messages import Notification, notification_bytes, parse
from acp_twisted.jsonrpc.splice import envelope, notification_line, split_enveloped
from acp_twisted.proxy.context import ProxyContext
from acp_twisted.proxy.proxy import run_proxy
from acp_twisted.transports.memory import MemoryLink

CHAINS = (0, 1, 3, 5)
SUCCESSOR = "proxy/successor"


def update(text: str) -> dict[str, Any]:
    """The params of a chunk of text."""
    content = {"type": "text", "text": text}
    return {
        "sessionId": "sess_0123456789abcdef",
        "update": {"sessionUpdate": "agent_message_chunk", "content": content},
    }


def tool_call() -> dict[str, Any]:
    """The params of a tool call as agents send them."""
    return {
        "sessionId": "sess_0123456789abcdef",
        "update": {
            "sessionUpdate": "tool_call",
            "toolCallId": "call_001",
            "title": "Read some files",
            "kind": "read",
            "status": "pending",
            "locations": [{"path": f"/home/user/project/file_{n}.py", "line": n} for n in range(6)],
            "rawInput": {"paths": [f"file_{n}.py" for n in range(6)], "options": {"deep": True, "limit": 100}},
            "content": [{"type": "content", "content": {"type": "text", "text": "x" * 100}}],
        },
    }


MESSAGES: dict[str, dict[str, Any]] = {
    "chunk of 10 characters": update("x" * 10),
    "chunk of 1 000": update("word " * 200),
    "tool call": tool_call(),
    "chunk of 100 000": update("word " * 20_000),
}


def passed(line: bytes) -> bytes:
    """What a proxy does with a message of its successor, and the conductor behind it."""
    parts = split_enveloped(line, (SUCCESSOR,))
    assert parts is not None
    return notification_line(SUCCESSOR, envelope(parts[2], parts[3]))


def recoded(line: bytes) -> bytes:
    """The same by decoding and encoding, as the library does that where it has to."""
    message = parse(line)
    assert isinstance(message, Notification)
    assert isinstance(message.params, dict)
    return notification_bytes(SUCCESSOR, {"method": message.params["method"], "params": message.params["params"]})


def seconds_each(work: Callable[[], object], budget: float) -> float:
    """The least time of one call, out of a few series."""
    began = time.perf_counter()
    work()
    count = max(1, int(budget / max(time.perf_counter() - began, 1e-7) / 5))
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(count):
            work()
        best = min(best, (time.perf_counter() - began) / count)
    return best


def compare_messages(rounds: int) -> None:
    """The work on one message."""
    row("one message, us", "passed on", "decoded, encoded", "ratio")
    for name, params in MESSAGES.items():
        line = notification_bytes(SUCCESSOR, {"method": "session/update", "params": params})
        assert orjson.loads(passed(line)) == orjson.loads(recoded(line))
        pairs = []
        for _ in range(rounds):
            one = seconds_each(partial(passed, line), 0.05)
            pairs.append((one, seconds_each(partial(recoded, line), 0.05)))
        fast, slow = (min(column) * 1e6 for column in zip(*pairs, strict=True))
        row(name, f"{fast:.2f}", f"{slow:.2f}", f"{statistics.median(a / b for a, b in pairs):.2f}")


@implementer(IMessageReceiver)
class End:
    """
    One end of a chain: it counts what comes, and answers what is asked.
    """

    def __init__(self) -> None:
        self.count = 0
        self.transport: Any = None

    def connection_made(self, transport: IMessageTransport) -> None:
        self.transport = transport

    def message_received(self, message: bytes) -> None:
        self.count += 1
        if b'"method"' in message[:60] and b'"id"' in message[:40]:
            number = orjson.loads(message)["id"]
            self.transport.send(b'{"jsonrpc":"2.0","id":%b,"result":{"protocolVersion":1}}' % orjson.dumps(number))

    def oversized_received(self, head: bytes, size: int, tail: bytes = b"") -> None:
        raise AssertionError

    def remainder_received(self, message: bytes) -> None:
        raise AssertionError

    def input_ended(self) -> None:
        pass

    def connection_lost(self, reason: Failure) -> None:
        pass

    def writing_paused(self) -> None:
        pass

    def writing_resumed(self) -> None:
        pass

    def shutdown(self) -> Deferred[None]:
        return succeed(None)


@implementer(IMessageReceiverFactory)
class Agent:
    """Makes the agent's end."""

    limits = Limits()

    def __init__(self) -> None:
        self.end = End()

    def build_receiver(self, clock: object) -> IMessageReceiver:
        return self.end


def letting_pass() -> AcpProxy:
    """A proxy that looks at nothing."""
    return AcpProxy.builder().build()


def recoding(*, raw: bool) -> AcpProxy:
    """A proxy that decodes every message, to JSON or to the protocol's types, and encodes it anew."""

    def again(message: Any, context: ProxyContext) -> Any:
        return context.forward(message)

    async def ask_again(message: Any, context: ProxyContext) -> Any:
        return copy(await context.forward(message))  # the result itself would go back as it came

    builder = AcpProxy.builder()
    builder.client_request_handler(None, ask_again, raw=raw).client_notification_handler(None, again, raw=raw)
    builder.agent_request_handler(None, ask_again, raw=raw).agent_notification_handler(None, again, raw=raw)
    return builder.build()


KINDS: dict[str, Callable[[], AcpProxy]] = {
    "passes": letting_pass,
    "JSON": lambda: recoding(raw=True),
    "types": lambda: recoding(raw=False),
}


class InMemory:
    """A chain in this process."""

    def __init__(self, count: int, make: Callable[[], AcpProxy]) -> None:
        agent = Agent()
        builder = Conductor.builder()
        for _ in range(count):
            builder.proxy(make())
        clock = Clock()
        chain = builder.agent(agent).build().chain(clock)
        self.client, self.agent = End(), agent.end
        MemoryLink(self.client, chain.client, clock, record=False)
        self.ask("initialize", b'{"protocolVersion":1}')

    def ask(self, method: str, params: bytes) -> None:
        """One round trip."""
        before = self.client.count
        self.client.transport.send(b'{"jsonrpc":"2.0","id":7,"method":"%b","params":%b}' % (method.encode(), params))
        assert self.client.count == before + 1

    def tell(self, line: bytes) -> None:
        """One update."""
        self.agent.transport.send(line)


def compare_chains(rounds: int) -> None:
    """Chains in memory."""
    row("in memory, us", *(f"{count} proxies" for count in CHAINS), "each adds", "ratio")
    measures: dict[str, Callable[[InMemory], object]] = {}
    for name in ("chunk of 10 characters", "tool call"):
        line = notification_bytes("session/update", MESSAGES[name])
        measures[name] = lambda chain, line=line: chain.tell(line)  # type: ignore[misc]
    mode = b'{"sessionId":"s","modeId":"m"}'
    measures["round trip of session/set_mode"] = lambda chain: chain.ask("session/set_mode", mode)
    for title, work in measures.items():
        chains = {(kind, count): InMemory(count, make) for kind, make in KINDS.items() for count in CHAINS}
        times = dict.fromkeys(chains, float("inf"))
        for _ in range(rounds * 3):  # in turn, so that a busy moment of the machine is nobody's own
            for key, chain in chains.items():
                times[key] = min(times[key], seconds_each(partial(work, chain), 0.01) * 1e6)
        added = {kind: (times[kind, CHAINS[-1]] - times[kind, CHAINS[0]]) / CHAINS[-1] for kind in KINDS}
        for kind in KINDS:
            ratio = "" if kind == "passes" else f"{added['passes'] / added[kind]:.2f}"
            cells = [f"{times[kind, count]:.1f}" for count in CHAINS]
            row(f"{title}, {kind}", *cells, f"{added[kind]:.1f}", ratio)


def compare_programs(rounds: int, updates: int) -> None:
    """Chains of programs."""
    row("programs", *(f"{count} proxies" for count in CHAINS))
    agent = [sys.executable, "-m", "acp_twisted.testing.scripted_agent"]
    for kind in KINDS:
        figures: list[list[dict[str, float]]] = []
        proxy = shlex.join([sys.executable, os.path.abspath(__file__), "--be", kind])
        for count in CHAINS:
            parts = [*[proxy] * count, shlex.join(agent)]
            command = [sys.executable, "-m", "acp_twisted.cli.main", "conductor", "--", *parts] if count else agent
            figures.append([drive(command, updates) for _ in range(rounds)])
        for figure, title in (("updates", "updates/s"), ("round trip", "round trip, ms")):
            best = [statistics.median(each[figure] for each in runs) for runs in figures]
            row(f"{title}, {kind}", *(f"{each:.3g}" if figure != "updates" else f"{each:.0f}" for each in best))


def drive(command: Sequence[str], updates: int) -> dict[str, float]:
    """Talk to an agent, in raw bytes."""
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert agent.stdin is not None
    assert agent.stdout is not None
    stdin, stdout = agent.stdin, agent.stdout

    def ask(number: int, method: str, params: object) -> dict[str, Any]:
        stdin.write(orjson.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + b"\n")
        stdin.flush()
        while True:
            line = stdout.readline()
            if not line:
                raise SystemExit(f"{shlex.join(command)} ended")
            if b'"id":%d' % number in line[:40]:
                answer: dict[str, Any] = json.loads(line)
                return answer

    ask(1, "initialize", {"protocolVersion": 1})
    session = ask(2, "session/new", {"cwd": os.getcwd(), "mcpServers": []})["result"]["sessionId"]

    def prompt(number: int, text: str) -> float:
        began = time.perf_counter()
        ask(number, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})
        return time.perf_counter() - began

    prompt(3, "stream 100")
    trips = [prompt(10 + n, "len") for n in range(50)]
    seconds = prompt(100, f"stream {updates}")
    stdin.close()
    stdout.read()
    agent.wait()
    return {"updates": updates / seconds, "round trip": statistics.median(trips) * 1000}


def row(title: str, *cells: str) -> None:
    """A line of a table."""
    sys.stdout.write(f"{title:42}" + "".join(f"{cell:>18}" for cell in cells) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=5000)
    parser.add_argument("--be", choices=KINDS, help="be a proxy, on standard input and output")
    options = parser.parse_args()
    if options.be is not None:
        run_proxy(KINDS[options.be]())
        return
    compare_messages(options.rounds)
    row("")
    compare_chains(options.rounds)
    row("")
    compare_programs(max(1, options.rounds // 2), options.updates)


if __name__ == "__main__":
    main()
