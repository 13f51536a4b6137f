"""
What the JSON Schema of a version of the protocol does not say, or says in a way that only people understand.
"""

from __future__ import annotations

from attrs import field, frozen

MERGED: dict[str, str] = {
    "ElicitationSessionScope": "CreateElicitationRequest",
    "ElicitationRequestScope": "CreateElicitationRequest",
    "ElicitationAcceptAction": "CreateElicitationResponse",
    "ErrorStopReason": "IdleStateUpdate",
}
"""Definitions that are no class, but members of another."""

RENAMED: dict[str, str] = {"_meta": "meta"}
"""Attributes that are not simply the member's name in snake_case."""


@frozen(kw_only=True)
class Tables:
    """
    What we know of one version.

    @ivar simple: types that are simple values for the codec.
    @ivar tag_names: names for variants that have nothing but their tag.
    @ivar shared_payloads: payloads that several variants have: each variant is a subclass.
    @ivar variant_names: names of such subclasses; the others are named after their tags.
    @ivar default_variants: the variant of a union without a tag, where older peers leave it out.
    @ivar three_state: members for which absent and null are different.
    @ivar defaults: defaults that the protocol's text gives and its schema does not.
    @ivar input_optional: required members that are read as empty, or as nothing, when a peer leaves them out.
    @ivar always_written: optional lists that are written even when they are empty, for peers that insist on them (B54).
    @ivar group: the member that tells a list of groups from one of values.
    """

    simple: dict[str, str]
    tag_names: dict[tuple[str, str], str]
    shared_payloads: frozenset[str]
    variant_names: dict[tuple[str, str], str] = field(factory=dict)
    default_variants: dict[str, str] = field(factory=dict)
    three_state: dict[str, frozenset[str]]
    defaults: dict[tuple[str, str], str]
    input_optional: frozenset[tuple[str, str]]
    always_written: frozenset[str] = frozenset()
    group: str


_SUBAGENT = frozenset({"title", "description", "capabilities", "state", "cwd", "additionalDirectories", "_meta"})
_SESSION_MESSAGE = frozenset(
    {"senderSessionId", "recipientSessionId", "senderMessageId", "recipientMessageId", "content", "_meta"}
)
_COMPACTION = frozenset({"summary", "error", "_meta"})

V1 = Tables(
    simple={"RequestId": "request_id", "ElicitationContentValue": "content_value", "ErrorCode": "int32"},
    tag_names={("RequestPermissionOutcome", "cancelled"): "CancelledPermissionOutcome"},
    shared_payloads=frozenset({"ContentChunk"}),
    three_state={
        "SessionInfoUpdate": frozenset({"title", "updatedAt"}),
        "CompactionUpdate": _COMPACTION,
        "SubagentUpdate": _SUBAGENT,
        "SessionMessage": _SESSION_MESSAGE,
    },
    defaults={("ToolCall", "kind"): '"other"', ("ToolCall", "status"): '"pending"'},
    # As the reference did for years (B54).
    input_optional=frozenset({("NewSessionRequest", "mcpServers"), ("LoadSessionRequest", "mcpServers")}),
    always_written=frozenset({"mcpServers"}),
    group="group",
)

V2 = Tables(
    simple={"RequestId": "strict_id", "ElicitationContentValue": "any", "ErrorCode": "int32", "ErrorData": "any"},
    tag_names={},
    shared_payloads=frozenset({"ContentChunk", "DiffPathChange", "DiffPathPairChange"}),
    variant_names={
        ("DiffChange", "add"): "DiffAdd",
        ("DiffChange", "delete"): "DiffDelete",
        ("DiffChange", "modify"): "DiffModify",
        ("DiffChange", "move"): "DiffMove",
        ("DiffChange", "copy"): "DiffCopy",
    },
    # In the draft of August 2026 commands had no type.
    default_variants={"AvailableCommand": "Command"},
    three_state={
        "UserMessage": frozenset({"content", "_meta"}),
        "AgentMessage": frozenset({"content", "_meta"}),
        "AgentThought": frozenset({"content", "_meta"}),
        "ToolCallUpdate": frozenset(
            {
                "name",
                "title",
                "kind",
                "status",
                "content",
                "locations",
                "rawInput",
                "rawOutput",
                "capabilities",
                "_meta",
            }
        ),
        "TerminalUpdate": frozenset({"command", "cwd", "output", "exitStatus", "size", "capabilities", "_meta"}),
        "SessionInfoUpdate": frozenset({"title", "updatedAt", "_meta"}),
        "UsageUpdate": frozenset({"cost"}),
        "CompactionUpdate": _COMPACTION,
        "SubagentUpdate": _SUBAGENT,
        "SessionMessage": _SESSION_MESSAGE,
    },
    defaults={},
    # All three were not required in the draft of August 2026.
    input_optional=frozenset(
        {("PromptResponse", "messageId"), ("ElicitationSchema", "type"), ("ElicitationSchema", "properties")}
    ),
    group="groupId",
)
