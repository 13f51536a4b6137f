# mypy: ignore-errors
"""
An agent on the official Python SDK that does what the agent of C{benchmarks/remote.py} does, served by uvicorn.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sys
import time
from typing import Any
from uuid import uuid4

from acp import Agent, InitializeResponse, NewSessionResponse, PromptResponse, text_block, update_agent_message
from acp.http.asgi import create_asgi_app
from uvicorn import Config, Server


class StreamingAgent(Agent):
    """
    C{stream COUNT SECONDS}: that many updates, so far apart, each with its number and the time.
    """

    def on_connect(self, conn: Any) -> None:
        self._conn = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        _word, count, seconds = prompt[0].text.split()
        for number in range(1, int(count) + 1):
            text = f"{number} {time.monotonic()}"
            await self._conn.session_update(session_id=session_id, update=update_agent_message(text_block(text)))
            await asyncio.sleep(float(seconds))
        return PromptResponse(stop_reason="end_turn")


async def main() -> None:
    """
    Serve until killed.
    """
    gc.collect()
    gc.freeze()  # as the other server does
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    sys.stdout.write(json.dumps({"port": listening.getsockname()[1], "pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    config = Config(create_asgi_app(lambda _conn: StreamingAgent()), log_level="error")
    await Server(config).serve([listening])


asyncio.run(main())
