"""
What version 2 has not settled yet, with the TypeScript SDK's unstable entry point at the other end, in both roles.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from peers import peer
from twisted.internet.defer import Deferred

from acp_twisted import AcpCapabilityError, AcpClient, AgentCommand, ResourceNotFound
from acp_twisted.client.v2.session import ClientSession
from acp_twisted.schema import v1, v2
from interop.programs import PATIENCE, SOURCES, Programs
from interop.test_v2_clients import hold_to_schema
from interop.wires import recorded, tapped

OUR_AGENT = [sys.executable, str(Path(__file__).with_name("v2_unstable_agent.py"))]


async def test_their_client_calls_all_of_it(programs: Programs, workspace: Path) -> None:
    """1.6, 6.6, 6.7: every call has its answer, every update is read, and our side fits the unstable schema."""
    record = workspace / "wire.jsonl"
    plan = {"agent": tapped(record, OUR_AGENT), "cwd": str(workspace)}
    ts = peer("ts24")
    argv = ts.command(SOURCES / "ts_v2_unstable_client.mjs", ts.folder, json.dumps(plan))
    outcome = await programs.run(argv, cwd=workspace)
    assert outcome.code == 0, outcome.explain()
    assert outcome.events("failed") == [], outcome.explain()
    hold_to_schema(recorded(record), "schema.unstable.json")
    answers: dict[str, list[Any]] = {}
    for event in outcome.events("answer"):
        answers.setdefault(event["method"], []).append(event.get("result", event.get("code")))
    assert answers["auth/status"] == [{"state": "unauthenticated"}]
    [listed] = answers["providers/list"]
    assert listed["providers"][0]["current"] == {"apiType": "openai", "baseUrl": "https://example.org/"}
    assert answers["providers/set"] == answers["providers/disable"] == [{}]
    assert [each["sessionId"] for each in answers["session/fork"]] == ["ours-fork"]
    assert answers["session/set_title"] == [{"title": "Forked"}]
    assert answers["session/status"] == [{"status": "open", "state": {"state": "idle"}}, {"status": "saved"}]
    assert answers["session/prompt"][1:] == [-32002]
    only, rest = (each["sessions"] for each in answers["session/list"])
    assert [(each["sessionId"], each["title"], each["archived"]) for each in only] == [("ours-fork", "Forked", True)]
    assert {each["sessionId"] for each in rest} == {"ours", "ours-fork"}
    updates = [event["update"] for event in outcome.events("update")]
    kinds = [each["sessionUpdate"] for each in updates if each["sessionUpdate"] not in ("user_message", "state_update")]
    assert kinds == [
        *("plan_update", "plan_update", "plan_removed"),
        *("subagent_update", "session_message", "session_message_chunk", "agent_message_chunk"),
    ]
    heard = [["r1 notifications/progress"]]
    assert json.loads(updates[-2]["content"]["text"]) == [{"tools": ["tools/list", {"cursor": "c"}]}, *heard]
    unknown = [each["sessionId"] for each in outcome.events("update") if each["update"].get("state") == "unknown"]
    assert unknown == ["child"]
    [told] = outcome.events("auth")
    assert told["params"] == {"state": "authenticated", "accounts": [{"label": "me"}]}


@pytest.mark.seconds(PATIENCE)
async def test_our_client_calls_all_of_it(real_reactor: Any, workspace: Path) -> None:
    """1.6, 6.6, 6.7: every call has its answer, every update is read, and a subagent's session is restricted."""
    told: Deferred[Any] = Deferred()
    connection: Any = None

    async def serve(request: v2.MessageMcpRequest, link: Any) -> v1.MessageMcpResponse:
        await link.unstable.send_mcp_message(request.server_id, request.request_id, "notifications/progress")
        return v1.MessageMcpResponse(result={"tools": [request.method, request.params]})

    client = (
        AcpClient.builder(unstable=True)
        .auth_status_update_handler(told.callback)
        .mcp_message_handler(serve)
        .track_sessions()
        .protocol_versions(2, 1)
        .build()
    )
    ts = peer("ts24")
    argv = ts.command(SOURCES / "ts_v2_unstable_agent.mjs", ts.folder)
    link = await client.connect(real_reactor, AgentCommand(argv))
    try:
        connection = await link.initialize()
        calls = connection.unstable
        assert (await calls.auth_status()).state == "unauthenticated"
        [provider] = (await calls.list_providers()).providers
        assert (provider.provider_id, provider.required, provider.current) == ("main", True, None)
        assert (await calls.set_provider("main", "openai", "https://example.org/")).meta == {"set": "main"}
        assert await calls.disable_provider("other") == v2.DisableProviderResponse()
        system = v2.SystemPrompt(mode="append", content=[v2.TextContent(text="Be brief.")])
        session = await connection.open_session(v2.NewSessionRequest(cwd=str(workspace), system_prompt=system))
        assert session.opened.meta["system"]["content"] == [{"type": "text", "text": "Be brief."}]
        fork = await calls.fork_session(session.session_id, str(workspace))
        assert isinstance(fork, ClientSession)
        assert (await calls.set_session_title(fork.session_id, "Forked")).title == "Forked"
        assert (await calls.session_status(fork.session_id)).state == v2.IdleStateUpdate()
        assert (await fork.prompt("show")).stop_reason == "end_turn"
        assert await told == v2.AuthStatusUpdateNotification(
            state="authenticated", accounts=[v2.AuthAccount(label="me")]
        )
        assert fork.state is not None
        shown = fork.state.snapshot()
        assert list(shown.plans) == ["p"]
        assert [each.title for each in shown.subagents.values()] == ["Reads"]
        answer = json.loads(shown.messages[-1].text)
        assert answer == [{"tools": ["tools/list", {"cursor": "c"}]}, ["r1 notifications/progress"]]
        child = connection.session("child")
        assert child.foreground.state == "unknown"
        with pytest.raises(AcpCapabilityError):
            child.prompt("hi")
        child.cancel()
        await calls.archive_session(fork.session_id)
        assert connection.session(fork.session_id) is None
        assert (await calls.session_status(fork.session_id)).status == "saved"
        [archived] = (await calls.list_sessions(archived="only")).sessions
        assert (archived.session_id, archived.title, archived.archived) == (fork.session_id, "Forked", True)
        await calls.unarchive_session(fork.session_id)
        assert (await calls.list_sessions(archived="only")).sessions == []
        with pytest.raises(ResourceNotFound):
            await calls.session_status("nowhere")
    finally:
        await link.close()
