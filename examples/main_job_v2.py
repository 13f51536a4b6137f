"""
The main job in version 2 of the protocol: start an agent, stream an answer, send a prompt while it works, stop the
work, and show the session.

    python examples/main_job_v2.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from twisted.internet import task

from acp_twisted import AcpClient, AgentCommand
from acp_twisted.client.permissions import first_allow
from acp_twisted.client.v2.connection import ClientConnection
from acp_twisted.client.v2.prompt import Prompt
from acp_twisted.client.v2.session import ClientSession
from acp_twisted.schema import v2

AGENT = AgentCommand([sys.executable, str(Path(__file__).with_name("both_versions_agent.py"))])


async def show(prompt: Prompt, cancel_after: int | None = None) -> str | None:
    """Print the answer as it streams; returns why the work ended."""
    seen = 0
    async for update in prompt.updates():
        if isinstance(update, v2.AgentMessageChunk) and isinstance(update.content, v2.TextContent):
            print(update.content.text, end="", flush=True)
            seen += 1
        if seen == cancel_after:
            prompt.cancel()
    print()
    return (await prompt).stop_reason


async def talk(session: ClientSession) -> None:
    """Four prompts."""
    print(await show(session.prompt("one two three")))
    first, second = session.prompt("SHOUT this is worked on"), session.prompt("this is held until then")
    print(await show(first))
    print(await first.accepted != await second.accepted, (await second).stop_reason)
    print(await show(session.prompt("this answer is not wanted to its end"), cancel_after=2))
    assert session.state is not None
    for message in session.state.messages:
        if message.role == "user":
            print(f"> {message.text}")


async def main(reactor: Any) -> None:
    builder = AcpClient.builder().client_info("main-job", "2.0").request_permission_handler(first_allow)
    client = builder.track_sessions().protocol_versions(2, 1).build()
    link = await client.connect(reactor, AGENT)
    connection = await link.initialize()
    assert isinstance(connection, ClientConnection), "the agent speaks version 1 only"
    await talk(await connection.new_session(cwd=os.getcwd()))
    await connection.close()


if __name__ == "__main__":
    task.react(main)
