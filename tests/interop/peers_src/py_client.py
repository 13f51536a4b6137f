# mypy: ignore-errors
"""
A client on the official Python SDK that follows a plan and prints one JSON line per event.

The plan is JSON, as C{ts_client.mjs} says; that SDK can't cancel a request, so the only cancel is C{session}.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import acp
from acp import schema


def report(event: str, **members) -> None:
    sys.stdout.write(json.dumps({"event": event, **members}) + "\n")
    sys.stdout.flush()


class Client(acp.Client):
    """Does what it is asked, and tells."""

    def __init__(self, plan) -> None:
        self.plan = plan
        self.terminals: dict[str, asyncio.subprocess.Process] = {}
        self.output: dict[str, str] = {}
        self.held: list[asyncio.Future] = []
        self.updates: asyncio.Queue = asyncio.Queue()

    async def session_update(self, session_id, update, **kwargs) -> None:
        report("update", update=update.model_dump(mode="json", by_alias=True, exclude_none=True))
        self.updates.put_nowait(None)

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        report("permission", title=tool_call.title, options=[option.kind for option in options])
        if self.plan["permit"] == "hold":
            held = asyncio.get_running_loop().create_future()
            self.held.append(held)
            await held
            return acp.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        wanted = "reject" if self.plan["permit"] == "deny" else "allow"
        chosen = next(option for option in options if option.kind.startswith(wanted))
        return acp.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    async def read_text_file(self, session_id, path, line=None, limit=None, **kwargs):
        report("read", path=path)
        try:
            return acp.ReadTextFileResponse(content=Path(path).read_text())
        except FileNotFoundError:
            raise acp.RequestError.resource_not_found(path) from None

    async def write_text_file(self, session_id, path, content, **kwargs):
        report("write", path=path)
        Path(path).write_text(content)

    async def create_terminal(self, session_id, command, args=None, env=None, cwd=None, **kwargs):
        report("terminal", command=command, args=args)
        environment = {**os.environ, **{each.name: each.value for each in env or ()}}
        process = await asyncio.create_subprocess_exec(
            command, *(args or ()), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=cwd
        )
        terminal_id = f"terminal-{len(self.terminals)}"
        self.terminals[terminal_id] = process
        return schema.CreateTerminalResponse(terminal_id=terminal_id)

    async def wait_for_terminal_exit(self, session_id, terminal_id, **kwargs):
        output, _ = await self.terminals[terminal_id].communicate()
        self.output[terminal_id] = output.decode()
        return schema.WaitForTerminalExitResponse(exit_code=self.terminals[terminal_id].returncode)

    async def terminal_output(self, session_id, terminal_id, **kwargs):
        return schema.TerminalOutputResponse(output=self.output[terminal_id], truncated=False)

    async def release_terminal(self, session_id, terminal_id, **kwargs):
        report("released")

    async def prompt(self, agent, session_id, step):
        while not self.updates.empty():
            self.updates.get_nowait()
        self.held = []
        turn = asyncio.ensure_future(agent.prompt(session_id=session_id, prompt=[acp.text_block(step["prompt"])]))
        if step.get("cancel"):
            if "held" in step:
                while len(self.held) < step["held"]:
                    await asyncio.sleep(0.01)
            else:
                for _ in range(step.get("after", 1)):
                    await self.updates.get()
            await agent.cancel(session_id=session_id)
            for held in self.held:
                held.set_result(None)
        return await turn


async def remote(plan):
    """Over the URL of the plan; C{"http2"} and C{"ca"} are said to httpx."""
    if plan["url"].startswith("ws"):
        from acp.ws import create_websocket_stream

        return await create_websocket_stream(plan["url"])
    import httpx
    from acp.http.client import create_http_stream

    client = httpx.AsyncClient(http2=plan.get("http2", False), verify=plan.get("ca", True), timeout=httpx.Timeout(None))
    return create_http_stream(plan["url"], client=client)


async def main(plan) -> None:
    client = Client(plan)
    process = transport = None
    if "url" in plan:
        transport = await remote(plan)
        agent = acp.connect_to_agent(client, transport)
    else:
        process = await asyncio.create_subprocess_exec(
            *plan["agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=plan["cwd"], limit=64 << 20
        )
        agent = acp.connect_to_agent(client, process.stdin, process.stdout)
    hello = await agent.initialize(
        protocol_version=acp.PROTOCOL_VERSION,
        client_capabilities=schema.ClientCapabilities(
            fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
        ),
        client_info=schema.Implementation(name="py-client", version="1"),
    )
    report("initialized", version=hello.protocol_version, agent=hello.agent_info and hello.agent_info.name)
    session = await agent.new_session(cwd=plan["cwd"], mcp_servers=[])
    report("session", sessionId=session.session_id)
    for step in plan["steps"]:
        try:
            answer = await client.prompt(agent, session.session_id, step)
        except acp.RequestError as error:
            report("error", code=error.code, message=str(error), data=error.data)
        else:
            report("result", result=answer.model_dump(mode="json", by_alias=True, exclude_none=True))
    if transport is not None:
        await transport.close()
        report("exited", code=0, signal=None)
    else:
        process.stdin.close()
        report("exited", code=await process.wait(), signal=None)


asyncio.run(main(json.loads(sys.argv[1])))
