"""
What the JSON Schema of protocol version 1 does not say, or says in a way that only people understand.
"""

from __future__ import annotations

MERGED: dict[str, str] = {
    "ElicitationSessionScope": "CreateElicitationRequest",
    "ElicitationRequestScope": "CreateElicitationRequest",
    "ElicitationAcceptAction": "CreateElicitationResponse",
    "ErrorStopReason": "IdleStateUpdate",
}
"""Definitions that are no class, but members of another."""

TAG_NAMES: dict[tuple[str, str], str] = {
    ("RequestPermissionOutcome", "cancelled"): "CancelledPermissionOutcome",
}
"""Names for variants that have nothing but their tag."""

SHARED_PAYLOADS: frozenset[str] = frozenset({"ContentChunk"})
"""Payloads that several variants have: each variant is a subclass."""

THREE_STATE: dict[str, frozenset[str]] = {
    "SessionInfoUpdate": frozenset({"title", "updatedAt"}),
    "CompactionUpdate": frozenset({"summary", "error", "_meta"}),
    "SubagentUpdate": frozenset(
        {"title", "description", "capabilities", "state", "cwd", "additionalDirectories", "_meta"}
    ),
    "SessionMessage": frozenset(
        {"senderSessionId", "recipientSessionId", "senderMessageId", "recipientMessageId", "content", "_meta"}
    ),
}
"""Members for which absent and null are different."""

DEFAULTS: dict[tuple[str, str], str] = {
    ("ToolCall", "kind"): '"other"',
    ("ToolCall", "status"): '"pending"',
}
"""Defaults that the protocol's text gives and its schema does not."""

INPUT_OPTIONAL: frozenset[tuple[str, str]] = frozenset(
    {("NewSessionRequest", "mcpServers"), ("LoadSessionRequest", "mcpServers")}
)
"""Required lists that are read as empty when a peer leaves them out, as the reference did for years (B54)."""

ALWAYS_WRITTEN: frozenset[str] = frozenset({"mcpServers"})
"""Optional lists that are written even when they are empty, for peers that insist on them (B54)."""

RENAMED: dict[str, str] = {"_meta": "meta"}
"""Attributes that are not simply the member's name in snake_case."""
