# mypy: ignore-errors
"""
The agent of the cross-SDK suite (C{interop.matrix.steps}) on the official Python SDK.
"""

from __future__ import annotations

import asyncio
import json

import acp
from acp import schema

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
UPDATES = {
    "agent_message_chunk": {"content": {"type": "text", "text": "matrix"}},
    "user_message_chunk": {"content": {"type": "text", "text": "matrix"}},
    "agent_thought_chunk": {"content": {"type": "text", "text": "matrix"}},
    "tool_call": {"toolCallId": "t1", "title": "matrix", "kind": "search", "status": "in_progress"},
    "tool_call_update": {"toolCallId": "t1", "status": "completed"},
    "plan": {"entries": [{"content": "matrix", "priority": "high", "status": "pending"}]},
    "available_commands_update": {"availableCommands": [{"name": "matrix", "description": "A command"}]},
    "current_mode_update": {"currentModeId": "code"},
    "config_option_update": {"configOptions": []},
    "session_info_update": {"title": "matrix"},
    "usage_update": {"used": 10, "size": 1000},
}
ODD = {
    "tool_call": {
        "sessionUpdate": "tool_call",
        "toolCallId": "t2",
        "title": "odd",
        "kind": "matrix_odd",
        "status": "matrix_odd",
    },
    "plan": {
        "sessionUpdate": "plan",
        "entries": [{"content": "odd", "priority": "matrix_odd", "status": "matrix_odd"}],
    },
    "audience": {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "odd", "annotations": {"audience": ["matrix_odd", "user"]}},
    },
}


class Agent(acp.Agent):
    """Does what the prompts say."""

    def __init__(self) -> None:
        self.client = None
        self.capabilities = None
        self.values = {}
        self.cancelled = {}
        self.note = None

    def on_connect(self, conn) -> None:
        self.client = conn

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **kwargs):
        self.capabilities = client_capabilities
        methods = [{"id": "matrix-login", "name": "Log in"}]
        if client_capabilities and client_capabilities.auth and client_capabilities.auth.terminal:
            methods.append(
                {"id": "matrix-terminal", "name": "Log in by a terminal", "type": "terminal", "args": ["login"]}
            )
        return schema.InitializeResponse.model_validate(
            {
                "protocolVersion": acp.PROTOCOL_VERSION,
                "agentInfo": {"name": "matrix", "version": "1"},
                "authMethods": methods,
                "agentCapabilities": {
                    "loadSession": True,
                    "promptCapabilities": {"image": True, "embeddedContext": True},
                    "mcpCapabilities": {"http": True},
                    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}},
                    "auth": {"logout": {}},
                },
            }
        )

    def options(self, session_id):
        values = self.values[session_id]
        choices = [{"value": each, "name": each.title()} for each in ("small", "large")]
        found = [
            {"id": "model", "name": "Model", "type": "select", "currentValue": values["model"], "options": choices}
        ]
        session = self.capabilities and self.capabilities.session
        if session and session.config_options and session.config_options.boolean is not None:
            found.append({"id": "brave", "name": "Brave", "type": "boolean", "currentValue": values["brave"]})
        return found

    def open(self, session_id):
        self.values[session_id] = {"model": "small", "brave": False}
        self.cancelled[session_id] = asyncio.Event()
        return {"modes": MODES, "configOptions": self.options(session_id)}

    async def new_session(self, cwd, mcp_servers=None, **kwargs):
        session_id = f"matrix-{len(self.values)}"
        return acp.NewSessionResponse.model_validate({"sessionId": session_id, **self.open(session_id)})

    async def load_session(self, cwd, session_id, **kwargs):
        opened = self.open(session_id)
        await self.say(session_id, "earlier")
        return acp.LoadSessionResponse.model_validate(opened)

    async def resume_session(self, session_id, cwd, **kwargs):
        return schema.ResumeSessionResponse.model_validate(self.open(session_id))

    async def list_sessions(self, **kwargs):
        return schema.ListSessionsResponse.model_validate({"sessions": [{"sessionId": "stored", "cwd": "/"}]})

    async def close_session(self, session_id, **kwargs):
        if session_id in self.cancelled:
            self.cancelled[session_id].set()
        self.values.pop(session_id, None)

    async def set_session_mode(self, session_id, mode_id, **kwargs):
        return None

    async def set_config_option(self, config_id, session_id, value, **kwargs):
        self.values[session_id][config_id] = value
        return schema.SetSessionConfigOptionResponse.model_validate({"configOptions": self.options(session_id)})

    async def authenticate(self, method_id, **kwargs):
        return None

    async def cancel(self, session_id, **kwargs) -> None:
        self.cancelled[session_id].set()

    async def ext_method(self, method, params):
        if method == "matrix/echo":
            return params
        raise acp.RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method, params) -> None:
        if method == "matrix/note":
            self.note = params

    async def say(self, session_id, text) -> None:
        await self.client.session_update(session_id, acp.update_agent_message_text(text))

    async def update(self, session_id, update) -> None:
        parsed = schema.SessionNotification.model_validate({"sessionId": session_id, "update": update})
        await self.client.session_update(session_id, parsed.update)

    async def prompt(self, session_id, prompt, **meta):
        if session_id not in self.values:
            raise acp.RequestError.invalid_params({"sessionId": session_id})
        self.cancelled[session_id].clear()
        first, _, rest = "".join(block.text for block in prompt).partition(" ")
        directive = getattr(self, "do_" + first.replace("-", "_"), None)
        if directive is None:
            raise acp.RequestError.invalid_params({"directive": first[:40]})
        if first == "meta":
            await self.say(session_id, json.dumps(meta))
            return acp.PromptResponse(stop_reason="end_turn", field_meta=meta)
        reason = await directive(session_id, rest)
        return acp.PromptResponse(stop_reason=reason or "end_turn")

    async def do_meta(self, session_id, rest) -> None: ...

    async def do_say(self, session_id, rest) -> None:
        await self.say(session_id, rest)

    async def do_len(self, session_id, rest) -> None:
        await self.say(session_id, str(len("len ") + len(rest)))

    async def do_big(self, session_id, rest) -> None:
        await self.say(session_id, "x" * int(rest))

    async def do_stop(self, session_id, rest):
        return rest

    async def do_echo_caps(self, session_id, rest) -> None:
        await self.say(session_id, self.capabilities.model_dump_json(by_alias=True, exclude_none=True))

    async def do_slow(self, session_id, rest):
        for count in range(200):
            if self.cancelled[session_id].is_set():
                return "cancelled"
            await self.say(session_id, f"tick {count} ")
            await asyncio.sleep(0.02)
        return "end_turn"

    async def do_permission(self, session_id, rest) -> None:
        options = [
            schema.PermissionOption(option_id="allow", name="Allow", kind="allow_once"),
            schema.PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
        ]
        call = schema.ToolCallUpdate(tool_call_id="t1", title=rest, kind="edit", status="pending")
        answer = await self.client.request_permission(
            session_id=session_id, tool_call=call, options=options, matrix=True
        )
        if answer.outcome.outcome == "cancelled":
            await self.cancelled[session_id].wait()
        await self.say(session_id, answer.outcome.model_dump_json(by_alias=True, exclude_none=True))
        return "cancelled" if answer.outcome.outcome == "cancelled" else None

    async def do_fs_read(self, session_id, rest) -> None:
        path, *numbers = rest.split(" ")
        line, limit = map(int, numbers or (0, 0))
        try:
            answer = await self.client.read_text_file(
                session_id=session_id, path=path, line=line or None, limit=limit or None
            )
        except acp.RequestError as error:
            await self.say(session_id, f"error {error.code}")
        else:
            await self.say(session_id, answer.content)

    async def do_fs_slow(self, session_id, rest) -> None:
        reading = asyncio.ensure_future(self.client.read_text_file(session_id=session_id, path=rest))
        await asyncio.sleep(0.1)
        reading.cancel()
        try:
            await asyncio.wait_for(reading, 5)
        except acp.RequestError as error:
            await self.say(session_id, f"error {error.code}")
        except asyncio.CancelledError:
            await self.say(session_id, "gave up")

    async def do_fs_write(self, session_id, rest) -> None:
        path, _, content = rest.partition(" ")
        await self.client.write_text_file(session_id=session_id, path=path, content=content)
        await self.say(session_id, "written")

    async def do_term_run(self, session_id, rest) -> None:
        made = await self.client.create_terminal(session_id=session_id, command="/bin/sh", args=["-c", rest])
        names = {"session_id": session_id, "terminal_id": made.terminal_id}
        ended = await self.client.wait_for_terminal_exit(**names)
        shown = await self.client.terminal_output(**names)
        await self.client.release_terminal(**names)
        await self.say(session_id, json.dumps({"output": shown.output, "exitCode": ended.exit_code}))

    async def do_term_kill(self, session_id, rest) -> None:
        made = await self.client.create_terminal(session_id=session_id, command="sleep", args=["60"])
        names = {"session_id": session_id, "terminal_id": made.terminal_id}
        await self.client.kill_terminal(**names)
        await self.client.wait_for_terminal_exit(**names)
        await self.client.release_terminal(**names)
        await self.say(session_id, "killed")

    async def elicit(self, session_id, mode) -> None:
        params = {"sessionId": session_id, "message": "Who are you?", **mode}
        answer = await self.client._conn.send_request("elicitation/create", params)
        await self.say(session_id, json.dumps(answer))

    async def do_elicit_form(self, session_id, rest) -> None:
        wanted = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        await self.elicit(session_id, {"mode": "form", "requestedSchema": wanted})

    async def do_elicit_url(self, session_id, rest) -> None:
        await self.elicit(session_id, {"mode": "url", "elicitationId": "matrix-1", "url": "http://127.0.0.1/matrix"})
        await self.client.complete_elicitation(elicitation_id="matrix-1")

    async def do_ext_request(self, session_id, rest) -> None:
        await self.say(session_id, json.dumps(await self.client.ext_method("matrix/echo", {"x": 1})))

    async def do_ext_notify(self, session_id, rest) -> None:
        await self.client.ext_notification("matrix/note", {"y": 2})

    async def do_ext_last(self, session_id, rest) -> None:
        await self.say(session_id, json.dumps(self.note))

    async def do_emit(self, session_id, kind) -> None:
        if kind == "unknown":
            update = {"sessionUpdate": "matrix_unknown", "payload": {"kept": 1}}
            await self.client._conn.send_notification("session/update", {"sessionId": session_id, "update": update})
        else:
            await self.update(session_id, {"sessionUpdate": kind, **UPDATES[kind]})

    async def do_enum(self, session_id, what) -> None:
        await self.update(session_id, ODD[what])


asyncio.run(acp.run_agent(Agent(), use_unstable_protocol=True))
