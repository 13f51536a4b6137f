"""
An agent on the official Python SDK that does what our scripted agent's C{stream K [DELAY]} and C{polite} do, for
comparison.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from acp import (
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    text_block,
    update_agent_message,
)
from acp.schema import AgentCapabilities, Implementation


class StreamingAgent(Agent):
    """
    Streams the numbers from 1 to K, or waits to be cancelled.
    """

    def __init__(self) -> None:
        self._cancelled: dict[str, asyncio.Event] = {}

    def on_connect(self, conn: Any) -> None:
        self._conn = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=AgentCapabilities(),
            agent_info=Implementation(name="streaming", version="1"),
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> PromptResponse:
        directive, *arguments = prompt[0].text.split()
        cancelled = self._cancelled[session_id] = asyncio.Event()
        if directive == "polite":
            await cancelled.wait()
            return PromptResponse(stop_reason="cancelled")
        delay = float(arguments[1]) if len(arguments) > 1 else 0.0
        for number in range(1, int(arguments[0]) + 1):
            await self._conn.session_update(session_id, update_agent_message(text_block(str(number))))
            if delay:
                await asyncio.sleep(delay)
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._cancelled[session_id].set()


if __name__ == "__main__":
    asyncio.run(run_agent(StreamingAgent()))
