# mypy: ignore-errors
"""
An agent on the official Python SDK, for our client to drive.

The first word of a prompt says what the turn does.  Runs in that SDK's own environment.  It speaks over its standard
streams; with C{--serve} over HTTP (1.1 and 2) and WebSocket, on a port that it prints, and with C{--serve-uvicorn} over
HTTP/1.1 and WebSocket.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys

import acp
from acp import schema


class Agent(acp.Agent):
    """Does what the prompts say."""

    def __init__(self) -> None:
        self.cancelled: dict[str, asyncio.Event] = {}
        self.client = None

    def on_connect(self, conn) -> None:
        self.client = conn

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **kwargs):
        return acp.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(),
            agent_info=schema.Implementation(name="py-agent", version="1"),
        )

    async def new_session(self, cwd, mcp_servers=None, **kwargs):
        session_id = f"py-{len(self.cancelled)}"
        self.cancelled[session_id] = asyncio.Event()
        return acp.NewSessionResponse(session_id=session_id)

    async def cancel(self, session_id, **kwargs) -> None:
        self.cancelled[session_id].set()

    async def say(self, session_id, text) -> None:
        await self.client.session_update(session_id, acp.update_agent_message_text(text))

    async def prompt(self, session_id, prompt, **kwargs):
        first, *rest = "".join(block.text for block in prompt).split(" ")
        self.cancelled[session_id].clear()
        directive = getattr(self, f"do_{first}", None)
        if directive is None:
            await self.say(session_id, " ".join([first, *rest]))
            reason = None
        else:
            reason = await directive(session_id, *rest)
        return acp.PromptResponse(stop_reason=reason or "end_turn")

    async def do_stream(self, session_id, count) -> None:
        for n in range(1, int(count) + 1):
            await self.say(session_id, str(n))

    async def do_tool(self, session_id) -> None:
        await self.client.session_update(session_id, acp.start_tool_call("t1", "Look", kind="search", status="pending"))
        await self.client.session_update(session_id, acp.update_tool_call("t1", status="completed"))
        plan = acp.update_plan([acp.plan_entry("look", priority="high", status="completed")])
        await self.client.session_update(session_id, plan)

    async def do_permission(self, session_id) -> None:
        options = [
            schema.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
            schema.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
        ]
        call = schema.ToolCallUpdate(tool_call_id="t1", title="Change a file", kind="edit", status="pending")
        answer = await self.client.request_permission(session_id=session_id, tool_call=call, options=options)
        await self.say(session_id, answer.outcome.model_dump_json(by_alias=True, exclude_none=True))

    async def do_read(self, session_id, path) -> None:
        answer = await self.client.read_text_file(session_id=session_id, path=path)
        await self.say(session_id, answer.content)

    async def do_write(self, session_id, path, *words) -> None:
        await self.client.write_text_file(session_id=session_id, path=path, content=" ".join(words))
        await self.say(session_id, "written")

    async def do_run(self, session_id, *words) -> None:
        made = await self.client.create_terminal(session_id=session_id, command="/bin/sh", args=["-c", " ".join(words)])
        names = {"session_id": session_id, "terminal_id": made.terminal_id}
        ended = await self.client.wait_for_terminal_exit(**names)
        shown = await self.client.terminal_output(**names)
        await self.client.release_terminal(**names)
        await self.say(session_id, json.dumps({"output": shown.output, "exitCode": ended.exit_code}))

    async def do_slow(self, session_id) -> str:
        n = 0
        while not self.cancelled[session_id].is_set():
            n += 1
            await self.say(session_id, f"tick {n}")
            await asyncio.sleep(0.02)
        return "cancelled"

    async def do_fail(self, session_id) -> None:
        raise acp.RequestError(-32055, "asked to fail", {"asked": True})


async def serve(uvicorn: bool) -> None:
    """On a server of ASGI applications."""
    from acp.http.asgi import create_asgi_app

    app = create_asgi_app(lambda conn: Agent())
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(json.dumps({"port": listening.getsockname()[1]}) + "\n")
    sys.stdout.flush()
    if uvicorn:
        from uvicorn import Config, Server

        await Server(Config(app, lifespan="on", log_level="error")).serve([listening])
    else:
        from hypercorn.asyncio import serve as run
        from hypercorn.config import Config

        config = Config()
        config.bind = [f"fd://{listening.fileno()}"]
        config.graceful_timeout = 0.1
        await run(app, config)


if len(sys.argv) > 1:
    asyncio.run(serve(sys.argv[1] == "--serve-uvicorn"))
else:
    asyncio.run(acp.run_agent(Agent()))
