"""
An agent of both versions that does what the first word of a prompt says, for the blocking client.

  - C{stream N}: the messages "1" to "N".
  - C{polite}: waits to be cancelled.
  - C{hang}: never ends, whatever is cancelled.
  - C{ask}: asks for a permission, and says what became of it.
  - C{exit}: its program ends at once.

    python tests/sync_agent.py VERSION ...
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from acp_twisted import AcpAgent, PromptContext, run_agent
from acp_twisted.agent.agent import AcpAgentBuilder
from acp_twisted.schema import v1


class Kept:
    """
    The agent's sessions.

    @ivar gates: what a prompt C{gate NAME} waits for.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, str] = {}
        self.gates: dict[str, Deferred[None]] = {}

    async def prompt(self, request: Any, context: PromptContext) -> str:
        """One turn."""
        text = "".join(block.text for block in request.prompt)
        word, _, rest = text.partition(" ")
        if word == "stream":
            for number in range(int(rest)):
                await context.send_message(str(number + 1))
        elif word == "polite":
            await context.when_cancelled()
        elif word == "hang":
            await _for_ever()
        elif word == "ask":
            await context.send_message(str(await context.ask_permission("Do it?")))
        elif word == "exit":
            os._exit(3)
        elif word == "gate":
            await self.gates[rest]
        else:
            await context.send_message(context.session_id)
        return "end_turn"

    def new(self, request: Any, connection: Any) -> Any:
        """A session."""
        session_id = f"s{len(self.sessions) + 1}"
        self.sessions[session_id] = request.cwd
        return connection.schema.NewSessionResponse(session_id=session_id)

    def resume(self, request: Any, connection: Any) -> Any:
        """A session once more."""
        return connection.schema.ResumeSessionResponse()

    def load(self, request: Any, connection: Any) -> Any:
        """The same, with what was said."""
        if connection.protocol_version == 1:
            return v1.LoadSessionResponse()
        return connection.schema.ResumeSessionResponse()

    def list(self, request: Any, connection: Any) -> Any:
        """All of them."""
        types = connection.schema
        return types.ListSessionsResponse(
            sessions=[types.SessionInfo(session_id=name, cwd=cwd) for name, cwd in self.sessions.items()]
        )

    def close(self, request: Any, connection: Any) -> Any:
        """Close one."""
        return connection.schema.CloseSessionResponse()

    def delete(self, request: Any, connection: Any) -> Any:
        """Delete one."""
        self.sessions.pop(request.session_id, None)
        return connection.schema.DeleteSessionResponse()


async def _for_ever() -> None:
    while True:
        try:
            await Deferred()
        except CancelledError:
            continue


def builder(kept: Kept | None = None) -> AcpAgentBuilder:
    """What builds it."""
    agent = Kept() if kept is None else kept
    return (
        AcpAgent.builder()
        .agent_info("sync", "1")
        .prompt_handler(agent.prompt)
        .new_session_handler(agent.new)
        .resume_session_handler(agent.resume)
        .load_session_handler(agent.load)
        .list_sessions_handler(agent.list)
        .close_session_handler(agent.close)
        .delete_session_handler(agent.delete)
    )


def build(*versions: int, kept: Kept | None = None, more: Callable[[Any], object] | None = None) -> Any:
    """
    The agent.

    @param versions: those that it speaks.
    @param more: adds to its builder.
    """
    made: Any = builder(kept).protocol_versions(*versions)
    if more is not None:
        more(made)
    return made.build()


if __name__ == "__main__":
    run_agent(build(*(int(word) for word in sys.argv[1:])))
