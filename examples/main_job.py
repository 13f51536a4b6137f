"""
The main job, end to end: start the echo agent under twistd on a free TCP port, connect to it with the client, stream an
answer, start a second prompt and cancel it.

    python examples/main_job.py
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from acp_twisted import AcpClient, ClientSession
from acp_twisted.schema import v1

EXAMPLES = Path(__file__).resolve().parent
STARTED = re.compile(rb"starting on (\d+)\n")


class Twistd(ProcessProtocol):
    """
    The agent's process.

    @ivar port: fires with the port that it listens on, as its log tells.
    @ivar ended: fires when the process is gone.
    """

    def __init__(self) -> None:
        self.port: Deferred[int] = Deferred()
        self.ended: Deferred[None] = Deferred()
        self._log = b""

    def outReceived(self, data: bytes) -> None:
        self._log += data
        found = STARTED.search(self._log)
        if found and not self.port.called:
            self.port.callback(int(found.group(1)))

    errReceived = outReceived

    def processEnded(self, reason: Failure) -> None:
        if not self.port.called:
            self.port.errback(RuntimeError(f"twistd ended before it listened:\n{self._log.decode(errors='replace')}"))
        self.ended.callback(None)

    def stop(self) -> Deferred[None]:
        """Ask it to end, as an operator would."""
        if self.transport is not None:
            try:
                self.transport.signalProcess("TERM")
            except ProcessExitedAlready:
                print("twistd had ended by itself")
        return self.ended


def start_twistd(reactor: Any) -> Twistd:
    """Run ``twistd acp`` with the echo agent, on a TCP port that the system chooses."""
    twistd = Twistd()
    program = str(Path(sys.executable).with_name("twistd"))
    plugin = ["acp", "--agent", "echo_agent:agent", "--listen", "tcp:0:interface=127.0.0.1"]
    command = [program, "--nodaemon", "--pidfile=", *plugin]
    reactor.spawnProcess(twistd, program, command, env=dict(os.environ), path=str(EXAMPLES))
    return twistd


async def ask(session: ClientSession, text: str, cancel_after: int | None = None) -> str:
    """Send a prompt and print the answer as it streams; returns why the turn stopped."""
    print(f"> {text}")
    turn = session.prompt(text)
    seen = 0
    async for update in turn.updates():
        if isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent):
            print(update.content.text, end="", flush=True)
            seen += 1
        if seen == cancel_after:
            turn.cancel()
    print()
    return str((await turn).stop_reason)


async def main(reactor: Any) -> None:
    twistd = start_twistd(reactor)
    try:
        port = await twistd.port
        client = AcpClient.builder().client_info("main-job", "1.0").build()
        connection = await client.connect(reactor, f"tcp:127.0.0.1:{port}")
        await connection.initialize()
        session = await connection.new_session(cwd=os.getcwd())
        print(await ask(session, "one two three four five"))
        print(await ask(session, "this answer is not wanted to its end", cancel_after=2))
        await connection.close()
    finally:
        await twistd.stop()


task.react(main)
