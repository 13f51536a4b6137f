"""
What messages of protocol version 2 are held to, besides the capabilities of their methods; see L{acp_twisted.gates}.
"""

from __future__ import annotations

from typing import Final

from acp_twisted.gates import LeftOut, Need, Rules

_SYSTEM_PROMPT: Final = (
    Need("session.systemPrompt", "system_prompt"),
    Need("session.systemPrompt.mode.override", "system_prompt.mode", value="override"),
)
_SERVERS: Final = (
    Need("session.mcp.stdio", "mcp_servers", "McpServerStdio"),
    Need("session.mcp.http", "mcp_servers", "McpServerHttp"),
    Need("session.mcp.acp", "mcp_servers", "McpServerAcp"),
)
_OPENS_SESSION: Final = (
    *_SERVERS,
    Need("session.additionalDirectories", "additional_directories"),
    *_SYSTEM_PROMPT,
)
_CONTENT: Final = (
    Need("session.prompt.image", "prompt", "ImageContent"),
    Need("session.prompt.audio", "prompt", "AudioContent"),
    Need("session.prompt.embeddedContext", "prompt", "EmbeddedResource"),
)
_ROOTS: Final = ("cwd", "additional_directories")
_SESSION_PATHS: Final = (*_ROOTS, "mcp_servers.command")
_TOOL_CALL: Final = ("locations.path", "content.changes.path", "content.changes.old_path")

RULES: Final = Rules(
    needs={
        "NewSessionRequest": _OPENS_SESSION,
        "ResumeSessionRequest": _OPENS_SESSION,
        "ForkSessionRequest": _OPENS_SESSION,
        "ListSessionsRequest": (Need("session.archive", "archived"),),
        "PromptRequest": _CONTENT,
        "ElicitationFormMode": (Need("elicitation.form"),),
        "ElicitationUrlMode": (Need("elicitation.url"),),
    },
    refused={
        # What a newer client knows and this version does not can't be done as asked (2.5).
        "NewSessionRequest": (*_SERVERS, *_SYSTEM_PROMPT),
        "ResumeSessionRequest": (*_SERVERS, *_SYSTEM_PROMPT, Need("", "replay_from", "UnknownVariant")),
        "ForkSessionRequest": (*_SERVERS, *_SYSTEM_PROMPT),
        "PromptRequest": (*_CONTENT, Need("", "prompt", "UnknownVariant")),
        "ElicitationFormMode": (Need("elicitation.form"),),
        "ElicitationUrlMode": (Need("elicitation.url"),),
        "CreateElicitationRequest": (Need(""),),
    },
    left_out={"InitializeResponse": (LeftOut("auth_methods", "AuthMethodTerminal", "auth.terminal"),)},
    paths={
        "NewSessionRequest": _SESSION_PATHS,
        "ResumeSessionRequest": _SESSION_PATHS,
        "ForkSessionRequest": _SESSION_PATHS,
        "ListSessionsRequest": ("cwd",),
    },
    shown={
        "ListSessionsResponse": ("sessions.cwd", "sessions.additional_directories"),
        "RequestPermissionRequest": ("subject.cwd", *(f"subject.tool_call.{each}" for each in _TOOL_CALL)),
        "ToolCallUpdate": _TOOL_CALL,
        "ToolCallContentChunk": ("content.changes.path", "content.changes.old_path"),
        "TerminalUpdate": ("cwd",),
        "SubagentUpdate": _ROOTS,
    },
    inside={"UpdateSessionNotification": "update"},
)
"""The rules of protocol version 2, those of what is not settled included."""
