"""
An agent of ours with all that version 2 has not settled yet, for the clients of other people.

A prompt sends every unstable update, asks an MCP server of the client's, and says how it answered.
"""

from __future__ import annotations

import json
from typing import Any

from acp_twisted import AcpAgent, ResourceNotFound, run_agent
from acp_twisted.schema import v1, v2

_known: dict[str, dict[str, Any]] = {}
_heard: list[str] = []


def _open(session_id: str) -> v2.NewSessionResponse:
    _known[session_id] = {"title": None, "archived": False}
    return v2.NewSessionResponse(session_id=session_id)


def _require(session_id: str) -> dict[str, Any]:
    if session_id not in _known:
        raise ResourceNotFound("Session not found", {"sessionId": session_id})
    return _known[session_id]


def _fork(request: v2.ForkSessionRequest) -> v2.ForkSessionResponse:
    _require(request.session_id)
    return v2.ForkSessionResponse(session_id=_open(f"{request.session_id}-fork").session_id)


def _archive(request: v2.ArchiveSessionRequest) -> None:
    _require(request.session_id)["archived"] = True


def _unarchive(request: v2.UnarchiveSessionRequest) -> None:
    _require(request.session_id)["archived"] = False


def _status(request: v2.SessionStatusRequest, connection: Any) -> v2.SessionStatusResponse:
    _require(request.session_id)
    session = connection.session(request.session_id)
    if session is None:
        return v2.SessionStatusResponse(status="saved")
    return v2.SessionStatusResponse(status="open", state=session.current_state())


def _set_title(request: v2.SetSessionTitleRequest) -> v2.SetSessionTitleResponse:
    _require(request.session_id)["title"] = request.title
    return v2.SetSessionTitleResponse(title=request.title)


def _list(request: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
    wanted = {"include": (False, True), "only": (True,)}.get(request.archived or "exclude", (False,))
    found = [
        v2.SessionInfo(session_id=name, cwd="/", title=each["title"], archived=each["archived"] or None)
        for name, each in _known.items()
        if each["archived"] in wanted
    ]
    return v2.ListSessionsResponse(sessions=found)


def _providers(request: v2.ListProvidersRequest) -> v2.ListProvidersResponse:
    current = v2.ProviderCurrentConfig(api_type="openai", base_url="https://example.org/")
    return v2.ListProvidersResponse(
        providers=[v2.ProviderInfo(provider_id="main", supported=["openai"], required=True, current=current)]
    )


async def _prompt(request: v2.PromptRequest, context: Any) -> str:
    updates = context.unstable
    await updates.update_plan("p", markdown="# Look")
    await updates.update_plan("q", uri="file:///plan.md")
    await updates.remove_plan("q")
    cancel = v2.SubagentSessionCapabilities(cancel=v2.SessionCancelCapabilities())
    await updates.update_subagent("child", title="Reads", capabilities=cancel)
    await updates.send_session_message("m", sender_session_id="child", recipient_session_id=context.session_id)
    await updates.send_session_message_chunk("m", "done")
    calls = context.connection.unstable
    await calls.updates("child").send_unknown_state()
    await calls.send_auth_status("authenticated", [v2.AuthAccount(label="me")])
    answer = await calls.send_mcp_message("srv", "tools/list", {"cursor": "c"}, request_id="r1")
    await context.send_message(json.dumps([answer.result, _heard]))
    return "end_turn"


agent = (
    AcpAgent.builder(unstable=True)
    .agent_info("v2-unstable-agent", "1")
    .protocol_versions(2)
    .agent_capabilities(v1.AgentCapabilities(mcp_capabilities=v1.McpCapabilities(acp=True)))
    .new_session_handler(lambda request: _open("ours"))
    .list_sessions_handler(_list)
    .prompt_handler(_prompt)
    .auth_status_handler(lambda request: v2.AuthStatusResponse(state="unauthenticated"))
    .list_providers_handler(_providers)
    .set_provider_handler(lambda request: None)
    .disable_provider_handler(lambda request: None)
    .fork_session_handler(_fork)
    .archive_session_handler(_archive)
    .unarchive_session_handler(_unarchive)
    .session_status_handler(_status)
    .set_session_title_handler(_set_title)
    .mcp_message_handler(lambda notice: _heard.append(f"{notice.request_id} {notice.method}"))
    .build()
)

if __name__ == "__main__":
    run_agent(agent)
