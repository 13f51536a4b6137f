"""
A client that speaks whichever version of the protocol the agent does, with one handler set: it shows what comes, allows
everything, and on ^C stops what the agent is at.

    python examples/both_versions_client.py TEXT COMMAND [ARGUMENT ...]
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from twisted.internet import task

from acp_twisted import AcpClient, AgentCommand, CancellationSignal
from acp_twisted.client.permissions import first_allow


def show(notification: Any) -> None:
    """Print an update; its class has the same name in both versions where it is the same thing."""
    update = notification.update
    if type(update).__name__ == "AgentMessageChunk" and type(update.content).__name__ == "TextContent":
        print(update.content.text, end="", flush=True)


async def main(reactor: Any, text: str, *command: str) -> None:
    """One prompt."""
    client = (
        AcpClient.builder()
        .client_info("both-versions", "1.0")
        .session_update_handler(show)
        .request_permission_handler(first_allow)
        .protocol_versions(2, 1)
        .build()
    )
    link = await client.connect(reactor, AgentCommand(command))
    connection = await link.initialize()
    stop = CancellationSignal()
    signal.signal(signal.SIGINT, lambda number, frame: reactor.callFromThread(stop.cancel))
    session: Any = await connection.new_session(cwd="/tmp")
    # A turn of version 1 or a prompt of version 2: awaiting either gives something with a stop reason.
    ended = await session.prompt(text, stop)
    print(f"\nversion {connection.protocol_version}: {ended.stop_reason}")
    await connection.close()


if __name__ == "__main__":
    task.react(main, sys.argv[1:])
