"""
The agent of the suite on our agent half.

    our_agent.py                    on standard input and output
    our_agent.py tcp:PORT:…         on an endpoint; prints `listening PORT`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString

from acp_twisted import AcpAgent, AcpError, InvalidParams, PromptContext, run_agent
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.schema import v1
from acp_twisted.schema.converter import unstructure
from acp_twisted.transports.stream import ServerFactory

Directive = Callable[..., Any]

MODES = v1.SessionModeState(
    current_mode_id="ask",
    available_modes=[v1.SessionMode(id="ask", name="Ask"), v1.SessionMode(id="code", name="Code")],
)


def options(values: dict[str, Any]) -> list[Any]:
    """
    The session's options as they stand; the library leaves the boolean one out where the client can't take it.
    """
    return [
        v1.SessionConfigSelect(
            id="model",
            name="Model",
            current_value=values["model"],
            options=[v1.SessionConfigSelectOption(value=each, name=each.title()) for each in ("small", "large")],
        ),
        v1.SessionConfigBoolean(id="brave", name="Brave", current_value=values["brave"]),
    ]


class Matrix:
    """
    Does what the prompts say.
    """

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}
        self.note: object = None

    def _open(self, session_id: str) -> dict[str, Any]:
        values = self.values[session_id] = {"model": "small", "brave": False}
        return {"modes": MODES, "config_options": options(values)}

    def new(self, _: v1.NewSessionRequest) -> v1.NewSessionResponse:
        session_id = f"matrix-{len(self.values)}"
        return v1.NewSessionResponse(session_id=session_id, **self._open(session_id))

    async def load(self, request: v1.LoadSessionRequest, connection: AgentConnection) -> v1.LoadSessionResponse:
        chunk = v1.AgentMessageChunk(content=v1.TextContent(text="earlier"))
        await connection.send_update(request.session_id, chunk)
        return v1.LoadSessionResponse(**self._open(request.session_id))

    def resume(self, request: v1.ResumeSessionRequest) -> v1.ResumeSessionResponse:
        return v1.ResumeSessionResponse(**self._open(request.session_id))

    def list(self, _: v1.ListSessionsRequest) -> v1.ListSessionsResponse:
        return v1.ListSessionsResponse(sessions=[v1.SessionInfo(session_id="stored", cwd="/")])

    def close(self, request: v1.CloseSessionRequest) -> v1.CloseSessionResponse:
        self.values.pop(request.session_id, None)
        return v1.CloseSessionResponse()

    def delete(self, request: v1.DeleteSessionRequest) -> v1.DeleteSessionResponse:
        self.values.pop(request.session_id, None)
        return v1.DeleteSessionResponse()

    def set_option(self, request: v1.SetSessionConfigOptionRequest) -> v1.SetSessionConfigOptionResponse:
        values = self.values[request.session_id]
        values[request.config_id] = request.value
        return v1.SetSessionConfigOptionResponse(config_options=options(values))

    def remember(self, params: object) -> None:
        self.note = params

    async def prompt(self, request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        if request.session_id not in self.values:
            raise InvalidParams(data={"sessionId": request.session_id})
        text = "".join(block.text for block in request.prompt if isinstance(block, v1.TextContent))
        first, _, rest = text.partition(" ")
        directive: Directive | None = getattr(self, f"do_{first.replace('-', '_')}", None)
        if directive is None:
            raise InvalidParams(data={"directive": first[:40]})
        answer = await directive(context, rest)
        if isinstance(answer, v1.PromptResponse):
            return answer
        return v1.PromptResponse(stop_reason="end_turn")

    async def do_say(self, context: PromptContext, rest: str) -> None:
        await context.send_message(rest)

    async def do_len(self, context: PromptContext, rest: str) -> None:
        await context.send_message(str(len("len ") + len(rest)))

    async def do_big(self, context: PromptContext, rest: str) -> None:
        await context.send_message("x" * int(rest))

    async def do_stop(self, _: PromptContext, rest: str) -> v1.PromptResponse:
        return v1.PromptResponse(stop_reason=rest)

    async def do_meta(self, context: PromptContext, _: str) -> v1.PromptResponse:
        await context.send_message(json.dumps(context.request.meta))
        return v1.PromptResponse(stop_reason="end_turn", meta=context.request.meta)

    async def do_echo_caps(self, context: PromptContext, _: str) -> None:
        await context.send_message(json.dumps(unstructure(context.client_capabilities)))

    async def do_slow(self, context: PromptContext, _: str) -> v1.PromptResponse:
        for count in range(200):
            if context.is_cancelled:
                return v1.PromptResponse(stop_reason="cancelled")
            await context.send_message(f"tick {count} ")
            await task.deferLater(context.connection.clock, 0.02)
        return v1.PromptResponse(stop_reason="end_turn")

    async def do_hang(self, context: PromptContext, _: str) -> None:
        await context.send_message("hanging")
        await Deferred()

    async def do_permission(self, context: PromptContext, rest: str) -> None:
        answer = await context.call(
            v1.RequestPermissionRequest(
                session_id=context.session_id,
                tool_call=v1.ToolCallUpdate(tool_call_id="t1", title=rest, kind="edit", status="pending"),
                options=[
                    v1.PermissionOption(option_id="allow", name="Allow", kind="allow_once"),
                    v1.PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
                ],
                meta={"matrix": True},
            )
        )
        outcome = answer.outcome
        said: dict[str, Any] = {"outcome": "cancelled"}
        if isinstance(outcome, v1.SelectedPermissionOutcome):
            said = {"outcome": "selected", "optionId": outcome.option_id}
        await context.send_message(json.dumps(said))

    async def do_fs_read(self, context: PromptContext, rest: str) -> None:
        path, *numbers = rest.split(" ")
        try:
            answer = await context.read_text_file(path, *map(int, numbers))
        except AcpError as error:
            await context.send_message(f"error {error.code}")
        else:
            await context.send_message(answer.content)

    async def do_fs_slow(self, context: PromptContext, rest: str) -> None:
        call = context.connection.prepare(
            v1.ReadTextFileRequest(session_id=context.session_id, path=rest), wait=True, wait_timeout=10.0
        )
        context.connection.publish(call, v1.ReadTextFileRequest(session_id=context.session_id, path=rest))
        context.connection.clock.callLater(0.1, call.cancel)
        try:
            answer = await call
        except AcpError as error:
            await context.send_message(f"error {error.code}")
        else:
            await context.send_message(answer.content)

    async def do_fs_write(self, context: PromptContext, rest: str) -> None:
        path, _, content = rest.partition(" ")
        await context.write_text_file(path, content)
        await context.send_message("written")

    async def do_term_run(self, context: PromptContext, rest: str) -> None:
        done = await context.execute("/bin/sh", ["-c", rest])
        await context.send_message(json.dumps({"output": done.output, "exitCode": done.exit_code}))

    async def do_term_kill(self, context: PromptContext, _: str) -> None:
        made = await context.create_terminal("sleep", ["60"])
        await context.kill_terminal(made.terminal_id)
        await context.wait_for_terminal_exit(made.terminal_id)
        await context.release_terminal(made.terminal_id)
        await context.send_message("killed")

    async def do_elicit_form(self, context: PromptContext, _: str) -> None:
        await self._elicit(
            context,
            v1.ElicitationFormMode(
                message="Who are you?",
                session_id=context.session_id,
                requested_schema=v1.ElicitationSchema(
                    properties={"name": v1.StringPropertySchema()}, required=["name"]
                ),
            ),
        )

    async def do_elicit_url(self, context: PromptContext, _: str) -> None:
        await self._elicit(
            context,
            v1.ElicitationUrlMode(
                message="Look here",
                session_id=context.session_id,
                elicitation_id="matrix-1",
                url="http://127.0.0.1/matrix",
            ),
        )
        await context.connection.notify(v1.CompleteElicitationNotification(elicitation_id="matrix-1"))

    async def _elicit(self, context: PromptContext, request: v1.CreateElicitationRequest) -> None:
        answer = await context.connection.call(request)
        await context.send_message(json.dumps({"action": answer.action, "content": answer.content}))

    async def do_ext_request(self, context: PromptContext, _: str) -> None:
        await context.send_message(json.dumps(await context.ext_request("_matrix/echo", {"x": 1})))

    async def do_ext_notify(self, context: PromptContext, _: str) -> None:
        await context.connection.ext_notification("_matrix/note", {"y": 2})

    async def do_ext_last(self, context: PromptContext, _: str) -> None:
        await context.send_message(json.dumps(self.note))

    async def do_emit(self, context: PromptContext, kind: str) -> None:
        text = v1.TextContent(text="matrix")
        updates: dict[str, v1.SessionUpdate] = {
            "agent_message_chunk": v1.AgentMessageChunk(content=text),
            "user_message_chunk": v1.UserMessageChunk(content=text),
            "agent_thought_chunk": v1.AgentThoughtChunk(content=text),
            "tool_call": v1.ToolCall(tool_call_id="t1", title="matrix", kind="search", status="in_progress"),
            "tool_call_update": v1.ToolCallUpdate(tool_call_id="t1", status="completed"),
            "plan": v1.Plan(entries=[v1.PlanEntry(content="matrix", priority="high", status="pending")]),
            "available_commands_update": v1.AvailableCommandsUpdate(
                available_commands=[v1.AvailableCommand(name="matrix", description="A command")]
            ),
            "current_mode_update": v1.CurrentModeUpdate(current_mode_id="code"),
            "config_option_update": v1.ConfigOptionUpdate(config_options=options(self.values[context.session_id])),
            "session_info_update": v1.SessionInfoUpdate(title="matrix"),
            "usage_update": v1.UsageUpdate(used=10, size=1000),
        }
        if kind in updates:
            await context.send_update(updates[kind])
        else:
            update = {"sessionUpdate": "matrix_unknown", "payload": {"kept": 1}}
            await context.connection.ext_notification(
                "session/update", {"sessionId": context.session_id, "update": update}
            )

    async def do_enum(self, context: PromptContext, what: str) -> None:
        odd = "matrix_odd"
        updates: dict[str, v1.SessionUpdate] = {
            "tool_call": v1.ToolCall(tool_call_id="t2", title="odd", kind=odd, status=odd),
            "plan": v1.Plan(entries=[v1.PlanEntry(content="odd", priority=odd, status=odd)]),
            "audience": v1.AgentMessageChunk(
                content=v1.TextContent(text="odd", annotations=v1.Annotations(audience=[odd, "user"]))
            ),
        }
        await context.send_update(updates[what])


def build() -> AcpAgent:
    """
    The agent.
    """
    matrix = Matrix()
    return (
        AcpAgent.builder()
        .agent_info("matrix", "1")
        .agent_capabilities(
            v1.AgentCapabilities(
                load_session=True,
                prompt_capabilities=v1.PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=v1.McpCapabilities(http=True),
                session_capabilities=v1.SessionCapabilities(
                    list=v1.SessionListCapabilities(),
                    delete=v1.SessionDeleteCapabilities(),
                    resume=v1.SessionResumeCapabilities(),
                    close=v1.SessionCloseCapabilities(),
                ),
                auth=v1.AgentAuthCapabilities(logout=v1.LogoutCapabilities()),
            )
        )
        .auth_methods(
            [
                v1.AuthMethodAgent(id="matrix-login", name="Log in"),
                v1.AuthMethodTerminal(id="matrix-terminal", name="Log in by a terminal", args=["login"]),
            ]
        )
        .authenticate_handler(lambda _: v1.AuthenticateResponse())
        .logout_handler(lambda _: v1.LogoutResponse())
        .new_session_handler(matrix.new)
        .load_session_handler(matrix.load)
        .resume_session_handler(matrix.resume)
        .list_sessions_handler(matrix.list)
        .close_session_handler(matrix.close)
        .delete_session_handler(matrix.delete)
        .set_session_mode_handler(lambda _: v1.SetSessionModeResponse())
        .set_session_config_option_handler(matrix.set_option)
        .ext_request_handler("_matrix/echo", lambda params: params)
        .ext_notification_handler("_matrix/note", matrix.remember)
        .prompt_handler(matrix.prompt)
        .cancel_grace_period(1.0)
        .build()
    )


async def listen(reactor: Any, endpoint: str) -> None:
    """
    Serve connections until somebody ends this program.
    """
    port = await serverFromString(reactor, endpoint).listen(ServerFactory(build(), reactor))
    sys.stdout.write(f"listening {port.getHost().port}\n")
    sys.stdout.flush()
    await Deferred()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        task.react(lambda reactor: Deferred.fromCoroutine(listen(reactor, sys.argv[1])))
    else:
        run_agent(build())
