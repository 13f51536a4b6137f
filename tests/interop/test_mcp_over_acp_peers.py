"""
MCP over ACP with the TypeScript SDK, in both roles: its agent uses our client's tools, our agent its client's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mcp_parts import tools_server
from peers import peer

from acp_twisted import AcpClient, AgentCommand
from acp_twisted.mcp import McpProvider
from acp_twisted.schema import v1
from interop.programs import SOURCES, Programs

OUR_AGENT = [sys.executable, str(Path(__file__).with_name("mcp_using_agent.py"))]


async def test_its_agent_uses_our_tools(real_reactor: Any) -> None:
    """Results, errors and progress; a cancellation that reaches the tool, each side in its own dialect (C47, X5)."""
    server, noticed = tools_server()
    provider = McpProvider([server])
    ts = peer("ts24")
    command = AgentCommand(ts.command(SOURCES / "ts_mcp_agent.mjs", ts.folder))
    connection = await provider.install(AcpClient.builder()).build().connect(real_reactor, command)
    await connection.initialize()
    session = await connection.new_session("/", provider.entries())

    async def ask(text: str) -> Any:
        turn = session.prompt(text)
        said = [
            update.content.text
            async for update in turn.updates()
            if isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent)
        ]
        assert (await turn).stop_reason == "end_turn"
        return json.loads("".join(said))

    try:
        found = await ask("ask server/discover")
        assert found["result"]["supportedVersions"] == ["2026-07-28"]
        answer = await ask('call echo {"text": "hi"}')
        assert answer["outcome"]["result"]["content"] == [{"type": "text", "text": "hi"}]
        answer = await ask("call steps")
        assert [each["params"]["progress"] for each in answer["notifications"]] == [1, 2]
        assert (await ask("call fail"))["outcome"]["result"]["isError"]
        assert (await ask("call none"))["outcome"]["error"]["code"] == -32602
        assert (await ask("ask prompts/list"))["error"]["code"] == -32601
        assert await ask("cancel hang") == {"code": -32800}
        assert noticed["cancelled"] == [("$/cancel_request",)]
        assert "echo" in (await ask("http"))["names"]
    finally:
        await connection.close()


async def test_our_agent_uses_its_tools(programs: Programs) -> None:
    """The same the other way round, with a timeout besides (C47, M10)."""
    ts = peer("ts24")
    prompts = ["list", 'call echo {"a":1}', "call steps", "cancel hang", "time hang", "call echo"]
    plan = {"agent": OUR_AGENT, "prompts": prompts}
    outcome = await programs.run(ts.command(SOURCES / "ts_mcp_client.mjs", ts.folder, json.dumps(plan)))
    assert outcome.code == 0, outcome.explain()
    assert outcome.events("initialized")[0]["mcp"]["acp"]
    assert outcome.events("discover")[0]["clientInfo"]["name"] == "acp_twisted"
    said = [json.loads(event["text"]) for event in outcome.events("said")]
    assert said == [
        ["echo"],
        ['{"a":1}', []],
        ["done", [1, 2]],
        "RequestCancelled",
        "RequestTimedOut",
        ["{}", []],
    ]
    assert [event["event"] for event in outcome.lines() if event["event"] in ("hanging", "aborted")] == [
        "hanging",
        "aborted",
    ] * 2
    assert [event["stopReason"] for event in outcome.events("end")] == ["end_turn"] * 6
