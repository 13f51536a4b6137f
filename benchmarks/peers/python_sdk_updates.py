# mypy: ignore-errors
"""
What an update of each kind costs in the official Python SDK's client and agent, in microseconds: prints JSON.

    python_sdk_updates.py COUNT < LINES     (a JSON object: kind to line)
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time

import acp
from acp import schema


class Writer(asyncio.StreamWriter):
    """Takes everything, and goes nowhere."""

    def __init__(self) -> None: ...

    def __del__(self, warnings=None) -> None: ...

    def write(self, data) -> None:
        self.last = data

    async def drain(self) -> None: ...

    def close(self) -> None: ...

    async def wait_closed(self) -> None: ...

    def is_closing(self) -> bool:
        return False


class Client(acp.Client):
    """Counts updates."""

    def __init__(self) -> None:
        self.seen = 0
        self.wanted = 0
        self.done = None

    async def session_update(self, session_id, update, **kwargs) -> None:
        self.seen += 1
        if self.seen == self.wanted:
            self.done.set()


class Agent(acp.Agent):
    """Does nothing; its connection is used."""

    def on_connect(self, conn) -> None:
        self.client = conn


def timed(count, work) -> float:
    gc.collect()
    started = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - started) / count * 1e6


async def main() -> None:
    count = int(sys.argv[1])
    lines = json.load(sys.stdin)
    client = Client()
    reader = asyncio.StreamReader(limit=1 << 30)
    acp.connect_to_agent(client, Writer(), reader)
    agent = Agent()
    acp.AgentSideConnection(agent, Writer(), asyncio.StreamReader())
    figures = {}
    for kind, text in lines.items():
        line = text.encode()
        params = json.loads(line)["params"]
        parsed = schema.SessionNotification.model_validate(params)
        client.seen, client.wanted, client.done = 0, count, asyncio.Event()
        figures[kind] = {
            "decode": timed(count, lambda line=line: json.loads(line)),
            "structure": timed(count, lambda params=params: schema.SessionNotification.model_validate(params)),
        }
        gc.collect()
        started = time.perf_counter()
        reader.feed_data((line + b"\n") * count)
        await client.done.wait()
        figures[kind]["receive"] = (time.perf_counter() - started) / count * 1e6
        gc.collect()
        started = time.perf_counter()
        for _ in range(count):
            await agent.client.session_update("session-1", parsed.update)
        figures[kind]["send"] = (time.perf_counter() - started) / count * 1e6
    json.dump(figures, sys.stdout)


asyncio.run(main())
