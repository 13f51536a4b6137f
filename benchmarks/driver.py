"""
The neutral driver: starts an agent, talks to it in raw bytes, counts lines, and prints one JSON object of figures.

It knows no SDK and parses nothing but the answers that it waits for, so that what it measures is the agent.

    python benchmarks/driver.py --updates 100 --prompts 200 -- AGENT COMMAND…
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import IO, Any


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, required=True, help="updates in each prompt")
    parser.add_argument("--prompts", type=int, required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    started = time.perf_counter()
    agent = subprocess.Popen(options.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    ask(agent.stdin, 0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    answer(agent.stdout, 0)
    startup = time.perf_counter() - started
    ask(agent.stdin, 1, "session/new", {"cwd": os.getcwd(), "mcpServers": []})
    session = answer(agent.stdout, 1)["result"]["sessionId"]
    lines = 0
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": f"stream {options.updates}"}]}
    for warm_up in (True, False):
        begun = time.perf_counter()
        for number in range(10 if warm_up else options.prompts):
            identity = 1000 + number + (0 if warm_up else 10)
            ask(agent.stdin, identity, "session/prompt", prompt)
            lines = count_lines(agent.stdout, options.updates + 1)
        seconds = time.perf_counter() - begun
    agent.stdin.close()
    agent.stdout.read()
    agent.wait()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "startup_seconds": startup,
        "prompts_per_second": options.prompts / seconds,
        "updates_per_second": options.prompts * options.updates / seconds,
        "peak_kib": usage.ru_maxrss,
        "lines_per_prompt": lines,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


def ask(stdin: IO[bytes], identity: int, method: str, params: object) -> None:
    """
    Send a request.
    """
    message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
    stdin.write(json.dumps(message).encode() + b"\n")
    stdin.flush()


def answer(stdout: IO[bytes], identity: int) -> dict[str, Any]:
    """
    The answer to a request; what comes before it is passed over.
    """
    for line in stdout:
        message: dict[str, Any] = json.loads(line)
        if message.get("id") == identity and "method" not in message:
            return message
    raise SystemExit("the agent ended")


def count_lines(stdout: IO[bytes], wanted: int) -> int:
    """
    Read until so many lines have come.
    """
    seen = 0
    descriptor = stdout.fileno()
    while seen < wanted:
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            raise SystemExit("the agent ended")
        seen += chunk.count(b"\n")
    return seen


if __name__ == "__main__":
    main()
