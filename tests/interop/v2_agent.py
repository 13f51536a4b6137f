"""
An agent of ours that speaks the versions it is told, for the clients of other people.

    python v2_agent.py 1|2|1,2

The first word of a prompt says what the work does; see C{_DIRECTIVES}.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from acp_twisted import AcpAgent, InvalidParams, run_agent
from acp_twisted.schema import v2

_OPTIONS = (("yes", "Allow", "allow_once"), ("no", "Reject", "reject_once"))
_history: dict[str, list[Any]] = {}


async def _stream(context: Any, count: str) -> None:
    for number in range(1, int(count) + 1):
        await context.send_message(str(number))


async def _slow(context: Any) -> None:
    number = 0
    while not context.is_cancelled:
        number += 1
        await context.send_message(f"tick {number}")
        await deferLater(context.connection.clock, 0.02)


async def _hang(context: Any) -> None:
    await Deferred()


async def _permission(context: Any) -> None:
    options = [context.schema.PermissionOption(option_id=i, name=name, kind=kind) for i, name, kind in _OPTIONS]
    call = context.schema.ToolCallUpdate(tool_call_id="t", title="Change a file")
    answer = await context.request_permission(call, options)
    outcome = answer.outcome
    await context.send_message(json.dumps(getattr(outcome, "option_id", "cancelled")))


async def _elicit(context: Any) -> None:
    schema = v2.ElicitationSchema(properties={"name": v2.StringPropertySchema()}, required=["name"])
    request = v2.ElicitationFormMode(session_id=context.session_id, message="Who?", requested_schema=schema)
    answer = await context.call(request)
    await context.send_message(json.dumps([answer.action, answer.content]))


async def _tool(context: Any) -> None:
    async with context.tool_call("Look", kind="search", tool_call_id="t1"):
        await context.send_update(v2.TerminalUpdate(terminal_id="x1", command="ls", cwd="/"))
        for data in ("4oI=", "rA=="):
            await context.send_update(v2.TerminalOutputChunk(terminal_id="x1", data=data))
        await context.send_update(v2.TerminalUpdate(terminal_id="x1", exit_status=v2.TerminalExitStatus(exit_code=0)))
    await context.plan(["look"])


async def _cancellable(context: Any) -> None:
    stopped: Deferred[None] = Deferred()
    call = v2.ToolCallUpdate(
        tool_call_id="t2", title="Long", capabilities=v2.ToolCallCapabilities(cancel=v2.ToolCallCancelCapabilities())
    )
    context.session.on_stop("tool_call", "t2", lambda: stopped.callback(None))
    await context.send_update(call)
    await stopped
    await context.send_update(v2.ToolCallUpdate(tool_call_id="t2", status="cancelled", capabilities=None))


async def _fail(context: Any) -> None:
    raise ValueError("secret-42")


_DIRECTIVES: dict[str, Callable[..., Awaitable[None]]] = {
    "stream": _stream,
    "slow": _slow,
    "hang": _hang,
    "permission": _permission,
    "elicit": _elicit,
    "tool": _tool,
    "cancellable": _cancellable,
    "fail": _fail,
}


async def _prompt(request: Any, context: Any) -> str:
    text = "".join(getattr(block, "text", "") for block in request.prompt)
    _history.setdefault(request.session_id, []).append(
        v2.UserMessage(message_id=f"m{len(_history)}", content=[v2.TextContent(text=text)])
    )
    word, *rest = text.split(" ")
    directive = _DIRECTIVES.get(word)
    if directive is None:
        await context.send_message(text)
    else:
        await directive(context, *rest)
    return "end_turn"


async def _resume(request: Any, connection: Any) -> None:
    if request.replay_from is not None:
        for update in _history.get(request.session_id, ()):
            await connection.send_update(request.session_id, update)


def _options(loud: bool = False) -> list[Any]:
    return [v2.SessionConfigBoolean(config_id="loud", name="Loud", current_value=loud)]


def _new(request: Any) -> v2.NewSessionResponse:
    return v2.NewSessionResponse(session_id=str(uuid4()), config_options=_options())


def _set_option(request: v2.SetSessionConfigOptionRequest) -> v2.SetSessionConfigOptionResponse:
    if request.config_id != "loud" or not isinstance(request.value, bool):
        raise InvalidParams()
    return v2.SetSessionConfigOptionResponse(config_options=_options(request.value))


def build(*versions: int) -> AcpAgent:
    """
    The agent.
    """
    builder = (
        AcpAgent.builder()
        .agent_info("our-agent", "1")
        .cancel_grace_period(1)
        .prompt_handler(_prompt)
        .protocol_versions(*versions)
    )
    if 2 in versions:
        builder = (
            builder.auth_methods_v2([v2.AuthMethodAgent(method_id="token", name="Token")])
            .logout_handler(lambda request: None)
            .for_versions(2)
            .new_session_handler(_new)
            .resume_session_handler(_resume)
            .delete_session_handler(lambda request: _history.pop(request.session_id, None) and None)
            .set_session_config_option_handler(_set_option)
            .login_handler(lambda request: None)
        )
    return builder.build()


if __name__ == "__main__":
    run_agent(build(*(int(each) for each in sys.argv[1].split(","))))
