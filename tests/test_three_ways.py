"""The three agents of the tutorial "Three ways to write an agent" are the same agent to a client, in either version."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_twisted import AcpAgent, AcpAgentBuilder, PromptContext, SyncPromptContext
from acp_twisted.agent import annotations as decorated
from acp_twisted.agent.v2.agent import VersionedAgentBuilder
from acp_twisted.schema.vocabulary import V1

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SECONDS = 300

ASKED = [
    {"id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}},
    {"id": 2, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}},
    {"id": 3, "method": "_echo/rename", "params": {"sessionId": "s1", "name": "Narcissus"}},
    {"id": 4, "method": "session/prompt", "params": {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]}},
]

SECOND = {"protocolVersion": 2, "info": {"name": "test", "version": "1"}, "capabilities": {}}


def converse(name: str, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What an example says on its standard output when it is asked all of it and then left."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        input="".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in asked),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def updated(**changed: Any) -> dict[str, Any]:
    """A session/update of C{s1}, as a message."""
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": changed}}


def update(kind: str, text: str) -> dict[str, Any]:
    """A text in one."""
    return updated(sessionUpdate=kind, content={"type": "text", "text": text})


def test_every_way_is_in_the_tutorial() -> None:
    """The page shows the three files, and there is no fourth."""
    page = (EXAMPLES.parent / "docs" / "tutorial" / "three_ways.rst").read_text(encoding="utf-8")
    found = {path.name for path in EXAMPLES.glob("three_ways_*.py")}
    names = sorted(name for name in found if not name.endswith("_v2.py"))
    assert len(names) == 3
    assert found - set(names) == {name.replace(".py", "_v2.py") for name in names}
    assert sorted(line.rpartition("/")[2] for line in page.splitlines() if "literalinclude::" in line) == names


@pytest.mark.parametrize("way", ["builder", "decorators", "blocking"])
def test_the_same_agent(way: str) -> None:
    """The same greeting, session, extension, thought, message and answer, in the same order."""
    greeting, *rest = converse(f"three_ways_{way}.py", ASKED)
    result = greeting["result"]
    assert result["agentInfo"] == {"name": "echo", "version": "1.0"}
    assert result["agentCapabilities"]["promptCapabilities"] == {
        "image": True,
        "audio": False,
        "embeddedContext": False,
    }
    assert result["agentCapabilities"]["loadSession"] is False
    assert rest == [
        {"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s1"}},
        {"jsonrpc": "2.0", "id": 3, "result": {"name": "Narcissus"}},
        update("agent_thought_chunk", "Narcissus thinks"),
        update("agent_message_chunk", "HI"),
        {"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "end_turn"}},
    ]


@pytest.mark.parametrize("way", ["builder", "decorators", "blocking"])
def test_the_same_agent_in_version_2(way: str) -> None:
    """The same again, with the user's message, the states and the ids that version 2 has, in the same order."""
    greeting, *rest = converse(f"three_ways_{way}_v2.py", [{**ASKED[0], "params": SECOND}, *ASKED[1:]])
    assert greeting["result"]["info"] == {"name": "echo", "version": "1.0"}
    assert greeting["result"]["capabilities"]["session"]["prompt"] == {"image": {}}
    ids = [each["params"]["update"].pop("messageId", None) for each in rest if "params" in each]
    asked, *others = [each for each in ids if each is not None]
    assert len({asked, *others}) == 3
    assert rest == [
        {"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s1"}},
        {"jsonrpc": "2.0", "id": 3, "result": {"name": "Narcissus"}},
        {"jsonrpc": "2.0", "id": 4, "result": {"messageId": asked}},
        updated(sessionUpdate="user_message", content=[{"type": "text", "text": "hi"}]),
        updated(sessionUpdate="state_update", state="running"),
        update("agent_thought_chunk", "Narcissus thinks"),
        update("agent_message_chunk", "HI"),
        updated(sessionUpdate="state_update", state="idle", stopReason="end_turn"),
    ]


# ---- equal in power

BY_HAND = {"raw_handler", "method_handler"}
"""What only the builder has, for other libraries: requests as they came, and methods beside the protocol."""

IN_THE_REACTOR = {"cancel_outstanding", "prepare", "publish", "token", "when_cancelled"}
"""What is of no use in a thread, or is reached by C{SyncPromptContext.context}."""


def public(kind: type) -> set[str]:
    """The public names of a class that are documented as its own: what is only for the library has no place there."""
    return {name for name in dir(kind) if not name.startswith("_")}


def setters(builder: type[AcpAgentBuilder]) -> set[str]:
    """What a builder has handlers for."""
    names = {name for name in public(builder) if name.endswith("_handler")}
    return {name.removesuffix("_handler") for name in names - BY_HAND}


def test_the_builder_and_the_decorators_handle_the_same() -> None:
    """Each handler of the builder has its decorator, of the same name, and the other way round."""
    others = {"acp_agent", "blocking", "build_agent", "exception_handler"}
    decorators = {name for name in decorated.__all__ if name[0].islower()} - others
    assert decorators == setters(VersionedAgentBuilder)
    assert decorators - {"accept_prompt", "cancel_terminal", "cancel_tool_call", "login"} == setters(AcpAgentBuilder)


def test_every_method_of_the_protocol_can_be_handled() -> None:
    """All that a client may send has a handler, in each way."""
    agent = AcpAgent.builder(unstable=True).prompt_handler(lambda _: None)
    for method in V1.methods:
        if method.direction in ("agent", "both") and method.name not in ("session/prompt", "mcp/message"):
            setter = re.sub("(Request|Notification)$", "", method.params_name)
            name = f"{re.sub('(?<=[a-z])(?=[A-Z])', '_', setter).lower()}_handler"
            getattr(agent, name)(lambda _: None)
            assert hasattr(decorated, name.removesuffix("_handler"))
    agent.mcp_message_handler(lambda _: None)
    agent.build()


def test_a_thread_can_do_what_the_reactor_can() -> None:
    """A blocking handler's context has every method of the other one that a handler would call."""
    inside = {"drop_tool_call", "helping", "keep_tool_call", "schema", "unfinished_status", "connection", "unstable"}
    missing = public(PromptContext) - public(SyncPromptContext) - IN_THE_REACTOR - inside
    assert missing == set()
    assert isinstance(SyncPromptContext.context, property)
