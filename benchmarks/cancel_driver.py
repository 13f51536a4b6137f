"""
The neutral driver for cancellation: how long from C{session/cancel} to the C{cancelled} answer of a handler that waits
for nothing else, while other sessions stream.  Prints one JSON object of figures, in seconds.

    python benchmarks/cancel_driver.py --streams 1000 --cancels 200 -- AGENT COMMAND…
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import IO, Any


class Agent:
    """
    The agent's process, and its lines.
    """

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin: IO[bytes] = self._process.stdin
        self._output = self._process.stdout.fileno()
        self._rest = b""
        self._last_id = 0
        self.updates = 0

    def send(self, message: dict[str, Any]) -> None:
        """
        Write a message.
        """
        self._stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._stdin.flush()

    def ask(self, method: str, params: object) -> int:
        """
        Send a request.
        """
        self._last_id += 1
        self.send({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    def answer(self, identity: int) -> dict[str, Any]:
        """
        Read up to the answer to a request.
        """
        while True:
            *lines, self._rest = self._rest.split(b"\n")
            for number, line in enumerate(lines):
                if b'"session/update"' in line:
                    self.updates += 1
                    continue
                message: dict[str, Any] = json.loads(line)
                if message.get("id") == identity:
                    self._rest = b"\n".join([*lines[number + 1 :], self._rest])
                    return message
            chunk = os.read(self._output, 1 << 16)
            if not chunk:
                raise SystemExit("the agent ended")
            self._rest += chunk

    def new_session(self) -> str:
        """
        A session's id.
        """
        answer = self.answer(self.ask("session/new", {"cwd": os.getcwd(), "mcpServers": []}))
        return str(answer["result"]["sessionId"])

    def prompt(self, session: str, text: str) -> int:
        """
        Send a prompt.
        """
        return self.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})

    def kill(self) -> None:
        """
        End the agent, whatever it does.
        """
        self._process.kill()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, required=True, help="sessions that stream, one update a second each")
    parser.add_argument("--cancels", type=int, required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    agent = Agent(options.command)
    try:
        agent.answer(agent.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}}))
        for _ in range(options.streams):
            agent.prompt(agent.new_session(), "stream 100000 1")
        session = agent.new_session()
        taken = []
        for _ in range(options.cancels):
            identity = agent.prompt(session, "polite")
            until = time.perf_counter() + 0.01  # so that the turn has begun, and the streams go on
            while time.perf_counter() < until:
                time.sleep(0.002)
            begun = time.perf_counter()
            agent.send({"method": "session/cancel", "params": {"sessionId": session}})
            answer = agent.answer(identity)
            taken.append(time.perf_counter() - begun)
            if answer.get("result", {}).get("stopReason") != "cancelled":
                raise SystemExit(f"answered {answer}")
    finally:
        agent.kill()
    taken.sort()
    figures = {
        "median": taken[len(taken) // 2],
        "p99": taken[min(len(taken) - 1, int(len(taken) * 0.99))],
        "updates": agent.updates,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
