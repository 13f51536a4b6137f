"""
The shapes of the messages are those of the protocol: what it requires is always written, and asked for.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from acp_twisted import AcpAgent, AcpClient, InvalidParams
from acp_twisted.errors import AcpError, answer_for
from acp_twisted.schema import v1
from acp_twisted.schema.converter import structure
from acp_twisted.schema.values import SchemaError, UnknownVariant
from acp_twisted.schema.vocabulary import V1
from acp_twisted.testing import AgentOnWire, ScriptedAgent, strategies

QUICK = settings(deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))

MISSING_LISTS = {"mcpServers", "configOptions", "options", "prompt", "sessions", "entries", "args", "env", "headers"}
"""Lists that are always written; a peer that leaves one out means an empty one."""


def requires(kind: Any, *members: str) -> None:
    """Hold a type to writing these members always, and to refusing JSON without one of them."""

    @QUICK
    @given(strategies.json_of(kind))
    def check(value: dict[str, Any]) -> None:
        assert set(members) <= set(value)
        for member in members:
            rest = {name: value[name] for name in value if name != member}
            if member not in MISSING_LISTS:
                with pytest.raises(SchemaError, match=member):
                    structure(rest, kind)

    check()


def method(name: str, params: tuple[str, ...] = (), result: tuple[str, ...] = (), kind: Any = None) -> None:
    """Hold a method to what its params and its result require."""
    found = V1.require(name, kind)
    requires(found.params, *params)
    if found.result is not None:
        requires(found.result, *result)


def test_the_beginning() -> None:
    """SCHEMA-INITIALIZE-SHAPE, SCHEMA-AUTHENTICATE-SHAPE, SCHEMA-LOGOUT-SHAPE."""
    method("initialize", ("protocolVersion",), ("protocolVersion",))
    method("authenticate", ("methodId",))
    method("logout")


def test_sessions() -> None:
    """
    SCHEMA-NEW-SESSION-SHAPE, SCHEMA-LOAD-SESSION-SHAPE, SCHEMA-RESUME-SESSION-SHAPE, SCHEMA-CLOSE-SESSION-SHAPE,
    SCHEMA-LIST-SESSIONS-SHAPE, SCHEMA-DELETE-SESSION-SHAPE.
    """
    method("session/new", ("cwd", "mcpServers"), ("sessionId",))
    method("session/load", ("sessionId", "cwd", "mcpServers"))
    method("session/resume", ("sessionId", "cwd"))
    method("session/close", ("sessionId",))
    method("session/list", (), ("sessions",))
    requires(v1.SessionInfo, "sessionId", "cwd")
    method("session/delete", ("sessionId",))


def test_a_session() -> None:
    """
    SCHEMA-SET-MODE-SHAPE, SCHEMA-SET-CONFIG-OPTION-SHAPE, SCHEMA-PROMPT-SHAPE, SCHEMA-CANCEL-NOTIFICATION-SHAPE,
    SCHEMA-CANCEL-REQUEST-NOTIFICATION-SHAPE, SCHEMA-REQUEST-PERMISSION-SHAPE.
    """
    method("session/set_mode", ("sessionId", "modeId"))
    method("session/set_config_option", ("sessionId", "configId", "value"), ("configOptions",))
    method("session/prompt", ("sessionId", "prompt"), ("stopReason",))
    method("session/cancel", ("sessionId",))
    method("$/cancel_request", ("requestId",))
    method("session/request_permission", ("sessionId", "toolCall", "options"), ("outcome",))
    requires(v1.PermissionOption, "optionId", "name", "kind")


def test_files_and_terminals() -> None:
    """
    SCHEMA-READ-TEXT-FILE-SHAPE, SCHEMA-WRITE-TEXT-FILE-SHAPE, SCHEMA-TERMINAL-CREATE-SHAPE,
    SCHEMA-TERMINAL-OUTPUT-SHAPE, SCHEMA-TERMINAL-RELEASE-SHAPE, SCHEMA-TERMINAL-WAIT-FOR-EXIT-SHAPE,
    SCHEMA-TERMINAL-KILL-SHAPE.
    """
    method("fs/read_text_file", ("sessionId", "path"), ("content",))
    method("fs/write_text_file", ("sessionId", "path", "content"))
    method("terminal/create", ("sessionId", "command"), ("terminalId",))
    method("terminal/output", ("sessionId", "terminalId"), ("output", "truncated"))
    for name in ("release", "wait_for_exit", "kill"):
        method(f"terminal/{name}", ("sessionId", "terminalId"))


def test_elicitations() -> None:
    """SCHEMA-ELICITATION-CREATE-SHAPE, SCHEMA-ELICITATION-COMPLETE-SHAPE."""
    requires(v1.CreateElicitationRequest, "mode", "message")
    requires(v1.ElicitationFormMode, "message", "requestedSchema")
    requires(v1.ElicitationUrlMode, "message", "elicitationId", "url")
    requires(v1.CreateElicitationResponse, "action")
    method("elicitation/complete", ("elicitationId",))


UPDATES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "user_message_chunk": (v1.UserMessageChunk, ("content",)),
    "agent_message_chunk": (v1.AgentMessageChunk, ("content",)),
    "agent_thought_chunk": (v1.AgentThoughtChunk, ("content",)),
    "tool_call": (v1.ToolCall, ("toolCallId", "title")),
    "tool_call_update": (v1.ToolCallUpdate, ("toolCallId",)),
    "plan": (v1.Plan, ("entries",)),
    "available_commands_update": (v1.AvailableCommandsUpdate, ("availableCommands",)),
    "current_mode_update": (v1.CurrentModeUpdate, ("currentModeId",)),
    "config_option_update": (v1.ConfigOptionUpdate, ("configOptions",)),
    "session_info_update": (v1.SessionInfoUpdate, ()),
    "usage_update": (v1.UsageUpdate, ("used", "size")),
}


@pytest.mark.parametrize("tag", UPDATES)
def test_updates(tag: str) -> None:
    """SCHEMA-SESSION-UPDATE-VARIANTS: each with what it requires, and told apart by its tag."""
    kind, members = UPDATES[tag]

    @QUICK
    @given(strategies.of(kind))
    def check(update: Any) -> None:
        written = strategies.written(update, v1.SessionUpdate)
        assert written["sessionUpdate"] == tag
        assert set(members) <= set(written)
        assert type(structure(written, v1.SessionUpdate)) is kind

    check()


def check_variant(union: Any, tag: str, value: str, kind: Any, members: tuple[str, ...]) -> None:
    """Hold a variant of a union to its tag and to what it requires."""

    @QUICK
    @given(strategies.of(kind))
    def check(made: Any) -> None:
        written = strategies.written(made, union)
        assert written[tag] == value
        assert set(members) <= set(written)
        assert type(structure(written, union)) is kind

    check()


def test_contents() -> None:
    """SCHEMA-CONTENT-BLOCK-VARIANTS: the five blocks and the three contents of a tool call."""
    blocks: dict[str, tuple[Any, tuple[str, ...]]] = {
        "text": (v1.TextContent, ("text",)),
        "image": (v1.ImageContent, ("data", "mimeType")),
        "audio": (v1.AudioContent, ("data", "mimeType")),
        "resource_link": (v1.ResourceLink, ("name", "uri")),
        "resource": (v1.EmbeddedResource, ("resource",)),
    }
    contents: dict[str, tuple[Any, tuple[str, ...]]] = {
        "content": (v1.Content, ("content",)),
        "diff": (v1.Diff, ("path", "newText")),
        "terminal": (v1.Terminal, ("terminalId",)),
    }
    for value, (kind, members) in blocks.items():
        check_variant(v1.ContentBlock, "type", value, kind, members)
    for value, (kind, members) in contents.items():
        check_variant(v1.ToolCallContent, "type", value, kind, members)


def test_mcp_servers_and_ways_to_authenticate() -> None:
    """SCHEMA-MCP-SERVER-VARIANTS, SCHEMA-AUTH-METHOD-VARIANTS: what has no type is the first of its kind."""
    check_variant(v1.McpServer, "type", "http", v1.McpServerHttp, ("name", "url", "headers"))
    check_variant(v1.McpServer, "type", "sse", v1.McpServerSse, ("name", "url", "headers"))
    requires(v1.McpServerStdio, "name", "command", "args", "env")
    stdio = structure({"name": "n", "command": "/c", "args": [], "env": []}, v1.McpServer)
    assert type(stdio) is v1.McpServerStdio
    check_variant(v1.AuthMethod, "type", "terminal", v1.AuthMethodTerminal, ("id", "name"))
    requires(v1.AuthMethodAgent, "id", "name")
    assert type(structure({"id": "i", "name": "n"}, v1.AuthMethod)) is v1.AuthMethodAgent


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "another"])
def test_stop_reasons(reason: str) -> None:
    """SCHEMA-STOP-REASON-VALUES: the five go over the wire as they are, and so does one that nobody knows."""
    agent = AcpAgent.builder().prompt_handler(lambda _: v1.PromptResponse(stop_reason=reason)).build()
    wire = AgentOnWire(agent)
    assert wire.answer_to(wire.prompt(wire.open_session())) == {"result": {"stopReason": reason}}


CODES = [-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002]


@pytest.mark.parametrize("code", CODES)
def test_error_objects(code: int) -> None:
    """SCHEMA-ERROR-OBJECT: the eight codes, each with a message, and with data only where there is some."""
    for data in (None, {"a": 1}):
        error = AcpError.from_peer(code, "why", data)
        assert (error.code, error.message, error.data) == (code, "why", data)
        agent = ScriptedAgent()
        agent.expect_ext("_x/fail").fails(error)
        answer = AgentOnWire(agent).ask("_x/fail")["error"]
        assert answer == {"code": code, "message": "why", **({} if data is None else {"data": data})}
    assert type(answer_for(InvalidParams())) is InvalidParams


def test_names_of_extensions() -> None:
    """SCHEMA-EXTENSION-METHOD-NAMES: they begin with an underscore, or there is no handler for them."""
    for builder in (AcpAgent.builder(), AcpClient.builder()):
        for add in (builder.ext_request_handler, builder.ext_notification_handler):
            with pytest.raises(ValueError, match="underscore"):
                add("x/ping", lambda _: None)
            add(f"_x/{add.__name__}", lambda _: None)
    assert all(not each.name.startswith("_") for each in V1.methods)


def test_what_is_unknown_is_kept() -> None:
    """SCHEMA-SESSION-UPDATE-VARIANTS, SCHEMA-CONTENT-BLOCK-VARIANTS: unknown ones are written as they came."""
    for union, raw in (
        (v1.SessionUpdate, {"sessionUpdate": "hologram", "x": [1]}),
        (v1.ContentBlock, {"type": "hologram", "x": None}),
        (v1.ToolCallContent, {"type": "hologram"}),
    ):
        read = structure(raw, union)
        assert type(read) is UnknownVariant
        assert strategies.written(read, union) == raw
