# mypy: ignore-errors
"""
The client of the cross-SDK suite (C{interop.matrix.steps}) on the official Python SDK.

    matrix_client.py PLAN_FILE
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

SECONDS = 180
SETTLE = 0.03


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Client(acp.Client):
    """Answers what the agent asks, and tells."""

    def __init__(self, suite) -> None:
        self.suite = suite
        self.terminals = {}
        self.output = {}

    async def session_update(self, session_id, update, **kwargs) -> None:
        self.suite.report("update", sessionId=session_id, update=plain(update))
        self.suite.cancel_now()

    async def request_permission(self, session_id, tool_call, options, **meta):
        self.suite.report("permission", title=tool_call.title, meta=meta)
        self.suite.cancel_now()
        if tool_call.title == "hold":
            await self.suite.cancelled.wait()
            return acp.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        chosen = next(option for option in options if option.kind.startswith("allow"))
        return acp.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    async def read_text_file(self, session_id, path, line=None, limit=None, **kwargs):
        self.suite.report("read", path=path)
        if path.endswith("/never"):
            await asyncio.sleep(5)
        try:
            lines = Path(path).read_text().splitlines(keepends=True)
        except FileNotFoundError:
            raise acp.RequestError.resource_not_found(path) from None
        first = (line or 1) - 1
        return acp.ReadTextFileResponse(content="".join(lines[first : first + limit if limit else None]))

    async def write_text_file(self, session_id, path, content, **kwargs):
        Path(path).write_text(content)

    async def create_terminal(self, session_id, command, args=None, env=None, cwd=None, **kwargs):
        process = await asyncio.create_subprocess_exec(
            command, *(args or ()), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ, cwd=cwd
        )
        terminal_id = f"terminal-{len(self.terminals)}"
        self.terminals[terminal_id] = process
        return schema.CreateTerminalResponse(terminal_id=terminal_id)

    async def wait_for_terminal_exit(self, session_id, terminal_id, **kwargs):
        output, _ = await self.terminals[terminal_id].communicate()
        self.output[terminal_id] = output.decode()
        code = self.terminals[terminal_id].returncode
        return schema.WaitForTerminalExitResponse(exit_code=code if code >= 0 else None)

    async def terminal_output(self, session_id, terminal_id, **kwargs):
        return schema.TerminalOutputResponse(output=self.output[terminal_id], truncated=False)

    async def kill_terminal(self, session_id, terminal_id, **kwargs):
        self.terminals[terminal_id].kill()

    async def release_terminal(self, session_id, terminal_id, **kwargs):
        return None

    async def create_elicitation(self, message, mode, **kwargs):
        kind = "form" if hasattr(mode, "requested_schema") else "url"
        self.suite.report("elicitation", mode=kind)
        content = {"name": "matrix"} if kind == "form" else None
        return schema.AcceptElicitationResponse(action="accept", content=content)

    async def complete_elicitation(self, elicitation_id, **kwargs) -> None:
        self.suite.report("elicitation_complete", elicitationId=elicitation_id)

    async def ext_method(self, method, params):
        if method == "matrix/echo":
            return params
        raise acp.RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method, params) -> None:
        self.suite.report("ext_notification", params=params)


class Suite:
    """Follows the plan and prints what it sees."""

    def __init__(self, plan) -> None:
        self.plan = plan
        self.step = "init.initialize"
        self.names = {}
        self.running = []
        self.to_cancel = []
        self.cancelling = []
        self.cancelled = asyncio.Event()
        self.agent = None

    def report(self, event, **members) -> None:
        sys.stdout.write(json.dumps({"step": self.step, "event": event, **members}) + "\n")
        sys.stdout.flush()

    def cancel_now(self) -> None:
        waiting, self.to_cancel = self.to_cancel, []
        for session_id in waiting:
            self.cancelling.append(asyncio.ensure_future(self.cancel(session_id)))

    async def cancel(self, session_id) -> None:
        await self.agent.cancel(session_id=session_id)
        self.cancelled.set()

    def filled(self, value):
        if isinstance(value, str):
            if "$CWD/" in value:
                return value.replace("$CWD/", self.plan["cwd"] + "/")
            return self.names[value[1:]] if value.startswith("$") else value
        if isinstance(value, dict):
            return {name: self.filled(each) for name, each in value.items()}
        return value

    async def answered(self, awaitable) -> None:
        try:
            result = await asyncio.wait_for(awaitable, SECONDS)
        except acp.RequestError as error:
            self.report("error", code=error.code, message=str(error))
        except asyncio.TimeoutError:
            self.report("timeout")
        except Exception as error:
            self.report("failed", error=repr(error)[:300])
        else:
            self.report("result", result=plain(result) if isinstance(result, schema.BaseModel) else result)

    async def open(self, name, method, params):
        params = self.filled(params)
        if method == "session/new":
            answer = await self.agent.new_session(cwd=params["cwd"], mcp_servers=[])
        elif method == "session/load":
            answer = await self.agent.load_session(cwd=params["cwd"], session_id=params["sessionId"], mcp_servers=[])
        else:
            answer = await self.agent.resume_session(session_id=params["sessionId"], cwd=params["cwd"], mcp_servers=[])
        self.names[name] = params.get("sessionId") or answer.session_id
        return answer

    def call(self, method, params):
        params = self.filled(params)
        agent = self.agent
        typed = {
            "authenticate": lambda: agent.authenticate(method_id=params["methodId"]),
            "session/set_mode": lambda: agent.set_session_mode(
                session_id=params["sessionId"], mode_id=params["modeId"]
            ),
            "session/set_config_option": lambda: agent.set_config_option(
                config_id=params["configId"], session_id=params["sessionId"], value=params["value"]
            ),
            "session/list": agent.list_sessions,
            "session/close": lambda: agent.close_session(session_id=params["sessionId"]),
        }
        if method in typed:
            return typed[method]()
        if method.startswith("_"):
            return agent.ext_method(method[1:], params)
        return agent._conn.send_request(method, params)

    async def prompt(self, name, text, options) -> None:
        content = self.filled(text) + "x" * options.get("pad", 0)
        session_id = self.names[name]
        turn = self.agent.prompt(session_id=session_id, prompt=[acp.text_block(content)], **options.get("meta", {}))
        running = asyncio.ensure_future(self.answered(turn))
        if options.get("cancel") == "session":
            self.cancelled.clear()
            self.to_cancel.append(session_id)
        elif options.get("cancel") == "request":
            # That SDK has no way to cancel a request; abandoning it is all that its users can do.
            await asyncio.sleep(0.3)
            running.cancel()
            self.report("failed", error="no way to cancel a request")
            await self.agent.cancel(session_id=session_id)
            return
        if options.get("background"):
            self.running.append(running)
        else:
            await running

    async def do(self, op, process) -> None:
        kind, *arguments = op
        if kind == "call":
            await self.answered(self.call(*arguments))
        elif kind == "open":
            await self.answered(self.open(*arguments))
        elif kind == "notify":
            method, params = arguments
            if method.startswith("_"):
                await self.agent.ext_notification(method[1:], self.filled(params))
            else:
                await self.agent._conn.send_notification(method, self.filled(params))
        elif kind == "prompt":
            await self.prompt(*arguments)
        elif kind == "settle":
            await asyncio.gather(*self.running)
            self.running = []
        elif kind == "close":
            process.stdin.close()
            self.report("exited", code=await process.wait())

    async def run(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *self.plan["agent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self.plan["cwd"],
            limit=64 << 20,
        )
        self.agent = acp.connect_to_agent(Client(self), process.stdin, process.stdout, use_unstable_protocol=True)
        hello = await self.agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities.model_validate(self.plan["capabilities"]),
            client_info=schema.Implementation(name="matrix-client", version="1"),
        )
        self.report("result", result=plain(hello))
        for step in self.plan["steps"]:
            self.step = step["id"]
            for op in step["ops"]:
                await self.do(op, process)
                await asyncio.sleep(SETTLE)


asyncio.run(Suite(json.loads(Path(sys.argv[1]).read_text())).run())
