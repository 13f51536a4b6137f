"""
An agent of ours that needs no directives: it does everything once, whatever it is asked.

For clients of other people whose prompt is fixed, and for those that check each kind of update.
"""

from __future__ import annotations

from pathlib import Path

from acp_twisted import AcpAgent, PromptContext, run_agent
from acp_twisted.schema import v1

OPTIONS = (
    v1.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    v1.PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
    v1.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
    v1.PermissionOption(option_id="never", name="Always reject", kind="reject_always"),
)


def updates() -> list[v1.SessionUpdate]:
    """
    One of each stable kind of update that the agent may send at any time.
    """
    text = v1.TextContent(text="found it")
    return [
        v1.UserMessageChunk(content=v1.TextContent(text="as you said")),
        v1.AgentThoughtChunk(content=v1.TextContent(text="where is it?")),
        v1.ToolCall(
            tool_call_id="t1",
            title="Look",
            kind="search",
            status="pending",
            raw_input={"pattern": "it"},
            locations=[v1.ToolCallLocation(path="/a/b", line=3)],
        ),
        v1.ToolCallUpdate(
            tool_call_id="t1",
            status="completed",
            content=[v1.Content(content=text), v1.Diff(path="/a/b", old_text=None, new_text="it")],
        ),
        v1.Plan(entries=[v1.PlanEntry(content="look", priority="high", status="completed")]),
        v1.AvailableCommandsUpdate(available_commands=[v1.AvailableCommand(name="find", description="Find it")]),
        v1.CurrentModeUpdate(current_mode_id="code"),
        v1.SessionInfoUpdate(title="A search"),
        v1.UsageUpdate(used=10, size=1000),
    ]


def new_session(request: v1.NewSessionRequest) -> v1.NewSessionResponse:
    """
    A session with two modes.
    """
    modes = [v1.SessionMode(id="ask", name="Ask"), v1.SessionMode(id="code", name="Code")]
    return v1.NewSessionResponse(
        session_id="only", modes=v1.SessionModeState(current_mode_id="ask", available_modes=modes)
    )


async def prompt(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
    """
    Everything once.
    """
    for update in updates():
        await context.send_update(update)
    call = v1.ToolCallUpdate(tool_call_id="t1", title="Change a file", kind="edit", status="pending")
    granted = await context.request_permission(call, OPTIONS)
    outcome = granted.outcome
    chosen = outcome.option_id if isinstance(outcome, v1.SelectedPermissionOutcome) else "cancelled"
    await context.send_message(f"permission: {chosen}; ")
    path = f"{Path.cwd()}/notes.txt"
    read = await context.read_text_file(path)
    await context.send_message(f"read: {read.content.strip()}; ")
    await context.write_text_file(path, "new content")
    await context.send_message("done")
    return v1.PromptResponse(stop_reason="end_turn")


agent: AcpAgent = (
    AcpAgent.builder()
    .agent_info("plain", "1")
    .new_session_handler(new_session)
    .set_session_mode_handler(lambda request: None)
    .prompt_handler(prompt)
    .build()
)

if __name__ == "__main__":
    run_agent(agent)
