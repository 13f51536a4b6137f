"""
Protocol version 1.

Made by C{tools/generate_schema.py}: change that, not this.
"""

# ruff: noqa: I001, PLC0414  (mypy wants the aliases)

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from attrs import Factory, define

from acp_twisted.schema.values import (
    META,
    UNSET,
    Alternatives,
    ByItems,
    ByMember,
    MetaOnly,
    Model,
    Tagged,
    UnknownVariant,
    Unset,
    Wire,
)

if TYPE_CHECKING:
    from acp_twisted.schema.v1_unstable import (
        ArchiveSessionRequest as ArchiveSessionRequest,
        ArchiveSessionResponse as ArchiveSessionResponse,
        AuthAccount as AuthAccount,
        AuthState as AuthState,
        AuthStatusCapabilities as AuthStatusCapabilities,
        AuthStatusRequest as AuthStatusRequest,
        AuthStatusResponse as AuthStatusResponse,
        AuthStatusUpdateNotification as AuthStatusUpdateNotification,
        DisableProviderRequest as DisableProviderRequest,
        DisableProviderResponse as DisableProviderResponse,
        ForkSessionRequest as ForkSessionRequest,
        ForkSessionResponse as ForkSessionResponse,
        IdleStateUpdate as IdleStateUpdate,
        InitializeProxyRequest as InitializeProxyRequest,
        InitializeProxyResponse as InitializeProxyResponse,
        ListProvidersRequest as ListProvidersRequest,
        ListProvidersResponse as ListProvidersResponse,
        LlmProtocol as LlmProtocol,
        McpError as McpError,
        McpRequestId as McpRequestId,
        McpServerAcp as McpServerAcp,
        McpServerAcpId as McpServerAcpId,
        MessageMcpNotification as MessageMcpNotification,
        MessageMcpRequest as MessageMcpRequest,
        MessageMcpResponse as MessageMcpResponse,
        PlanCapabilities as PlanCapabilities,
        PlanFile as PlanFile,
        PlanId as PlanId,
        PlanItems as PlanItems,
        PlanMarkdown as PlanMarkdown,
        PlanRemoved as PlanRemoved,
        PlanUpdate as PlanUpdate,
        PlanUpdateContent as PlanUpdateContent,
        ProviderCurrentConfig as ProviderCurrentConfig,
        ProviderId as ProviderId,
        ProviderInfo as ProviderInfo,
        ProvidersCapabilities as ProvidersCapabilities,
        ProxySuccessorNotification as ProxySuccessorNotification,
        ProxySuccessorRequest as ProxySuccessorRequest,
        ProxySuccessorResponse as ProxySuccessorResponse,
        RequiresActionStateUpdate as RequiresActionStateUpdate,
        RunningStateUpdate as RunningStateUpdate,
        SessionArchiveCapabilities as SessionArchiveCapabilities,
        SessionArchiveFilter as SessionArchiveFilter,
        SessionCancelCapabilities as SessionCancelCapabilities,
        SessionForkCapabilities as SessionForkCapabilities,
        SessionMessage as SessionMessage,
        SessionMessageChunk as SessionMessageChunk,
        SessionStatus as SessionStatus,
        SessionStatusCapabilities as SessionStatusCapabilities,
        SessionStatusRequest as SessionStatusRequest,
        SessionStatusResponse as SessionStatusResponse,
        SessionSystemPromptCapabilities as SessionSystemPromptCapabilities,
        SessionSystemPromptModeCapabilities as SessionSystemPromptModeCapabilities,
        SessionSystemPromptOverrideCapabilities as SessionSystemPromptOverrideCapabilities,
        SessionTitleCapabilities as SessionTitleCapabilities,
        SetProviderRequest as SetProviderRequest,
        SetProviderResponse as SetProviderResponse,
        SetSessionTitleRequest as SetSessionTitleRequest,
        SetSessionTitleResponse as SetSessionTitleResponse,
        StateUpdate as StateUpdate,
        SubagentCapabilities as SubagentCapabilities,
        SubagentSessionCapabilities as SubagentSessionCapabilities,
        SubagentUpdate as SubagentUpdate,
        SystemPrompt as SystemPrompt,
        SystemPromptMode as SystemPromptMode,
        UnarchiveSessionRequest as UnarchiveSessionRequest,
        UnarchiveSessionResponse as UnarchiveSessionResponse,
        UnknownStateUpdate as UnknownStateUpdate,
        Usage as Usage,
    )

RequestId: TypeAlias = int | str | None
SessionId: TypeAlias = str
ToolCallId: TypeAlias = str
ToolKind: TypeAlias = (
    Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"] | str
)
ToolCallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"] | str
Role: TypeAlias = Literal["assistant", "user"] | str
TerminalId: TypeAlias = str
PermissionOptionId: TypeAlias = str
PermissionOptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"] | str
ElicitationSchemaType: TypeAlias = Literal["object"] | str
StringFormat: TypeAlias = Literal["email", "uri", "date", "date-time"] | str
ElicitationId: TypeAlias = str
ExtRequest: TypeAlias = Any
ProtocolVersion: TypeAlias = int
AuthMethodId: TypeAlias = str
SessionModeId: TypeAlias = str
SessionConfigId: TypeAlias = str
SessionConfigOptionCategory: TypeAlias = Literal["mode", "model", "model_config", "thought_level"] | str
SessionConfigValueId: TypeAlias = str
SessionConfigGroupId: TypeAlias = str
StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"] | str
ExtResponse: TypeAlias = Any
ErrorCode: TypeAlias = int
MessageId: TypeAlias = str
PlanEntryPriority: TypeAlias = Literal["high", "medium", "low"] | str
PlanEntryStatus: TypeAlias = Literal["pending", "in_progress", "completed"] | str
NoticeSeverity: TypeAlias = Literal["info", "warning", "error"] | str
CompactionId: TypeAlias = str
CompactionStatus: TypeAlias = Literal["in_progress", "completed", "failed", "cancelled"] | str
ExtNotification: TypeAlias = Any
ElicitationContentValue: TypeAlias = str | int | float | bool | Sequence[str]


@define(kw_only=True, eq=False, repr=False)
class WriteTextFileRequest(Model):
    """
    Write a text file.
    """

    session_id: SessionId
    path: str
    content: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "path": ("path", "str"),
        "content": ("content", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ReadTextFileRequest(Model):
    """
    Read a text file, with the changes that are not saved yet.
    """

    session_id: SessionId
    path: str
    line: int | None = None
    limit: int | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "path": ("path", "str"),
        "line": ("line", "uint32"),
        "limit": ("limit", "uint32"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class RequestPermissionRequest(Model):
    """
    May the agent do this?  The user picks one of the options.
    """

    session_id: SessionId
    tool_call: ToolCallUpdate
    options: Sequence[PermissionOption]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "tool_call": ("toolCall", "ToolCallUpdate"),
        "options": ("options", "list[PermissionOption]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ToolCallUpdate(Model):
    """
    What has changed about a tool call: what is absent stays as it is, and a list that is there replaces the whole list.
    A permission request tells of its tool call in the same way.
    """

    tool_call_id: ToolCallId
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    title: str | None = None
    name: str | None = None
    content: Sequence[ToolCallContent] | None = None
    locations: Sequence[ToolCallLocation] | None = None
    raw_input: Any = None
    raw_output: Any = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "tool_call_id": ("toolCallId", "str"),
        "kind": ("kind", "str", "lenient"),
        "status": ("status", "str", "lenient"),
        "title": ("title", "str", "lenient"),
        "name": ("name", "str", "lenient"),
        "content": ("content", "list[ToolCallContent]", "lenient skip"),
        "locations": ("locations", "list[ToolCallLocation]", "lenient skip"),
        "raw_input": ("rawInput", "any", "lenient"),
        "raw_output": ("rawOutput", "any", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Content(Model):
    """
    A piece of content that a tool call gave.
    """

    content: ContentBlock
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "content")
    WIRE: ClassVar[Wire] = {
        "content": ("content", "ContentBlock"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Diff(Model):
    """
    A file's change by a tool call: the text before, if there was one, and after.
    """

    path: str
    new_text: str
    old_text: str | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "diff")
    WIRE: ClassVar[Wire] = {
        "path": ("path", "str"),
        "new_text": ("newText", "str"),
        "old_text": ("oldText", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Terminal(Model):
    """
    A terminal whose output is shown within a tool call.
    """

    terminal_id: TerminalId
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "terminal")
    WIRE: ClassVar[Wire] = {
        "terminal_id": ("terminalId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TextContent(Model):
    """
    Text, which may be Markdown.
    """

    text: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "text")
    WIRE: ClassVar[Wire] = {
        "text": ("text", "str"),
        "annotations": ("annotations", "Annotations", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ImageContent(Model):
    """
    An image in base64.
    """

    data: str
    mime_type: str
    annotations: Annotations | None = None
    uri: str | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "image")
    WIRE: ClassVar[Wire] = {
        "data": ("data", "str"),
        "mime_type": ("mimeType", "str"),
        "annotations": ("annotations", "Annotations", "lenient"),
        "uri": ("uri", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class AudioContent(Model):
    """
    A sound in base64.
    """

    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "audio")
    WIRE: ClassVar[Wire] = {
        "data": ("data", "str"),
        "mime_type": ("mimeType", "str"),
        "annotations": ("annotations", "Annotations", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ResourceLink(Model):
    """
    A link to something that the agent can read.
    """

    name: str
    uri: str
    annotations: Annotations | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    title: str | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "resource_link")
    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "uri": ("uri", "str"),
        "annotations": ("annotations", "Annotations", "lenient"),
        "description": ("description", "str", "lenient"),
        "mime_type": ("mimeType", "str", "lenient"),
        "size": ("size", "int64", "lenient"),
        "title": ("title", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class EmbeddedResource(Model):
    """
    Something that the agent need not fetch, for it is in here.
    """

    resource: EmbeddedResourceResource
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "resource")
    WIRE: ClassVar[Wire] = {
        "resource": ("resource", "EmbeddedResourceResource"),
        "annotations": ("annotations", "Annotations", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Annotations(Model):
    """
    For whom a piece of content is, and how much it matters.
    """

    audience: Sequence[Role] | None = None
    last_modified: str | None = None
    priority: float | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "audience": ("audience", "list[str]", "lenient skip"),
        "last_modified": ("lastModified", "str", "lenient"),
        "priority": ("priority", "double", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TextResourceContents(Model):
    """
    The text of a resource.
    """

    text: str
    uri: str
    mime_type: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "text": ("text", "str"),
        "uri": ("uri", "str"),
        "mime_type": ("mimeType", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class BlobResourceContents(Model):
    """
    The bytes of a resource in base64.
    """

    blob: str
    uri: str
    mime_type: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "blob": ("blob", "str"),
        "uri": ("uri", "str"),
        "mime_type": ("mimeType", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ToolCallLocation(Model):
    """
    A place in a file that a tool call works on.
    """

    path: str
    line: int | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "path": ("path", "str"),
        "line": ("line", "uint32", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PermissionOption(Model):
    """
    One answer that the user may give.
    """

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "option_id": ("optionId", "str"),
        "name": ("name", "str"),
        "kind": ("kind", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CreateTerminalRequest(Model):
    """
    Start a command in a terminal of the client.
    """

    session_id: SessionId
    command: str
    args: Sequence[str] = Factory(list)
    env: Sequence[EnvVariable] = Factory(list)
    cwd: str | None = None
    output_byte_limit: int | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "command": ("command", "str"),
        "args": ("args", "list[str]", "omit"),
        "env": ("env", "list[EnvVariable]", "omit"),
        "cwd": ("cwd", "str"),
        "output_byte_limit": ("outputByteLimit", "uint64"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class EnvVariable(Model):
    """
    An environment variable.
    """

    name: str
    value: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "value": ("value", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TerminalOutputRequest(Model):
    """
    Ask what a terminal's command has written so far.
    """

    session_id: SessionId
    terminal_id: TerminalId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "terminal_id": ("terminalId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ReleaseTerminalRequest(Model):
    """
    Give a terminal up, and end its command if it still runs.
    """

    session_id: SessionId
    terminal_id: TerminalId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "terminal_id": ("terminalId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class WaitForTerminalExitRequest(Model):
    """
    Wait for a terminal's command to end.
    """

    session_id: SessionId
    terminal_id: TerminalId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "terminal_id": ("terminalId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class KillTerminalRequest(Model):
    """
    End a terminal's command.  The terminal stays.
    """

    session_id: SessionId
    terminal_id: TerminalId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "terminal_id": ("terminalId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CreateElicitationRequest(Model):
    """
    Ask the user something.  L{ElicitationFormMode} and L{ElicitationUrlMode} are the two ways that are known; an object
    of this class itself is one that is not, and C{extra} holds the rest of it.  It belongs to a session or to a
    request.
    """

    mode: str
    message: str
    session_id: SessionId | None = None
    tool_call_id: ToolCallId | None = None
    request_id: RequestId | Unset = UNSET
    meta: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None

    ONE_OF: ClassVar[tuple[str, ...]] = ("session_id", "request_id")
    WIRE: ClassVar[Wire] = {
        "mode": ("mode", "str"),
        "message": ("message", "str"),
        "session_id": ("sessionId", "str"),
        "tool_call_id": ("toolCallId", "str", "lenient"),
        "request_id": ("requestId", "request_id"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ElicitationFormMode(CreateElicitationRequest):
    """
    Ask the user to fill in a form.
    """

    mode: str = "form"
    requested_schema: ElicitationSchema

    ONE_OF: ClassVar[tuple[str, ...]] = ("session_id", "request_id")
    WIRE: ClassVar[Wire] = {
        "mode": ("mode", "str"),
        "requested_schema": ("requestedSchema", "ElicitationSchema"),
        "message": ("message", "str"),
        "session_id": ("sessionId", "str"),
        "tool_call_id": ("toolCallId", "str", "lenient"),
        "request_id": ("requestId", "request_id"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ElicitationUrlMode(CreateElicitationRequest):
    """
    Send the user to a web page.
    """

    mode: str = "url"
    elicitation_id: ElicitationId
    url: str

    ONE_OF: ClassVar[tuple[str, ...]] = ("session_id", "request_id")
    WIRE: ClassVar[Wire] = {
        "mode": ("mode", "str"),
        "elicitation_id": ("elicitationId", "str"),
        "url": ("url", "str"),
        "message": ("message", "str"),
        "session_id": ("sessionId", "str"),
        "tool_call_id": ("toolCallId", "str", "lenient"),
        "request_id": ("requestId", "request_id"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ElicitationSchema(Model):
    """
    The fields of a form.
    """

    type: ElicitationSchemaType = "object"
    title: str | None = None
    properties: dict[str, ElicitationPropertySchema] = Factory(dict)
    required: Sequence[str] | None = None
    description: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "type": ("type", "str", "lenient"),
        "title": ("title", "str", "lenient"),
        "properties": ("properties", "dict[ElicitationPropertySchema]"),
        "required": ("required", "list[str]"),
        "description": ("description", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class StringPropertySchema(Model):
    """
    A field for text, or for one of several texts.
    """

    title: str | None = None
    description: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: StringFormat | None = None
    default: str | None = None
    enum: Sequence[str] | None = None
    one_of: Sequence[EnumOption] | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "string")
    WIRE: ClassVar[Wire] = {
        "title": ("title", "str", "lenient"),
        "description": ("description", "str", "lenient"),
        "min_length": ("minLength", "uint32"),
        "max_length": ("maxLength", "uint32"),
        "pattern": ("pattern", "str"),
        "format": ("format", "str"),
        "default": ("default", "str", "lenient"),
        "enum": ("enum", "list[str]"),
        "one_of": ("oneOf", "list[EnumOption]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NumberPropertySchema(Model):
    """
    A field for a number.
    """

    title: str | None = None
    description: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    default: float | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "number")
    WIRE: ClassVar[Wire] = {
        "title": ("title", "str", "lenient"),
        "description": ("description", "str", "lenient"),
        "minimum": ("minimum", "double"),
        "maximum": ("maximum", "double"),
        "default": ("default", "double", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class IntegerPropertySchema(Model):
    """
    A field for a whole number.
    """

    title: str | None = None
    description: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    default: int | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "integer")
    WIRE: ClassVar[Wire] = {
        "title": ("title", "str", "lenient"),
        "description": ("description", "str", "lenient"),
        "minimum": ("minimum", "int64"),
        "maximum": ("maximum", "int64"),
        "default": ("default", "int64", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class BooleanPropertySchema(Model):
    """
    A field for yes or no.
    """

    title: str | None = None
    description: str | None = None
    default: bool | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "boolean")
    WIRE: ClassVar[Wire] = {
        "title": ("title", "str", "lenient"),
        "description": ("description", "str", "lenient"),
        "default": ("default", "bool", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class MultiSelectPropertySchema(Model):
    """
    A field for any of several texts.
    """

    items: MultiSelectItems
    title: str | None = None
    description: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    default: Sequence[str] | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "array")
    WIRE: ClassVar[Wire] = {
        "items": ("items", "MultiSelectItems"),
        "title": ("title", "str", "lenient"),
        "description": ("description", "str", "lenient"),
        "min_items": ("minItems", "uint64"),
        "max_items": ("maxItems", "uint64"),
        "default": ("default", "list[str]", "lenient skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class EnumOption(Model):
    """
    A value with a title.
    """

    const: str
    title: str
    description: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "const": ("const", "str"),
        "title": ("title", "str"),
        "description": ("description", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class StringMultiSelectItems(Model):
    """
    The texts to select from.
    """

    enum: Sequence[str]
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "string")
    WIRE: ClassVar[Wire] = {
        "enum": ("enum", "list[str]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TitledMultiSelectItems(Model):
    """
    The values to select from, each with a title.
    """

    any_of: Sequence[EnumOption]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "any_of": ("anyOf", "list[EnumOption]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PromptCapabilities(Model):
    """
    Which content, besides text and links, an agent takes in a prompt.
    """

    image: bool = False
    audio: bool = False
    embedded_context: bool = False
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "image": ("image", "bool", "lenient"),
        "audio": ("audio", "bool", "lenient"),
        "embedded_context": ("embeddedContext", "bool", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class McpCapabilities(Model):
    """
    Over which transports, besides stdio, an agent can reach MCP servers.
    """

    http: bool = False
    sse: bool = False
    acp: bool = False  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "http": ("http", "bool", "lenient"),
        "sse": ("sse", "bool", "lenient"),
        "acp": ("acp", "bool", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionCapabilities(Model):
    """
    Which methods on sessions an agent answers: what is there is supported.
    """

    list: SessionListCapabilities | None = None
    delete: SessionDeleteCapabilities | None = None
    additional_directories: SessionAdditionalDirectoriesCapabilities | None = None
    system_prompt: SessionSystemPromptCapabilities | None = None  # unstable
    fork: SessionForkCapabilities | None = None  # unstable
    archive: SessionArchiveCapabilities | None = None  # unstable
    status: SessionStatusCapabilities | None = None  # unstable
    title: SessionTitleCapabilities | None = None  # unstable
    resume: SessionResumeCapabilities | None = None
    close: SessionCloseCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "list": ("list", "SessionListCapabilities", "lenient"),
        "delete": ("delete", "SessionDeleteCapabilities", "lenient"),
        "additional_directories": ("additionalDirectories", "SessionAdditionalDirectoriesCapabilities", "lenient"),
        "system_prompt": ("systemPrompt", "SessionSystemPromptCapabilities", "lenient"),
        "fork": ("fork", "SessionForkCapabilities", "lenient"),
        "archive": ("archive", "SessionArchiveCapabilities", "lenient"),
        "status": ("status", "SessionStatusCapabilities", "lenient"),
        "title": ("title", "SessionTitleCapabilities", "lenient"),
        "resume": ("resume", "SessionResumeCapabilities", "lenient"),
        "close": ("close", "SessionCloseCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class AgentAuthCapabilities(Model):
    """
    Which methods about authentication an agent answers.
    """

    status: AuthStatusCapabilities | None = None  # unstable
    logout: LogoutCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "status": ("status", "AuthStatusCapabilities", "lenient"),
        "logout": ("logout", "LogoutCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class AgentCapabilities(Model):
    """
    What an agent can do beyond the basics.  A client must not use what is not named here.
    """

    load_session: bool = False
    prompt_capabilities: PromptCapabilities = Factory(PromptCapabilities)
    mcp_capabilities: McpCapabilities = Factory(McpCapabilities)
    session_capabilities: SessionCapabilities = Factory(SessionCapabilities)
    auth: AgentAuthCapabilities = Factory(AgentAuthCapabilities)
    providers: ProvidersCapabilities | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "load_session": ("loadSession", "bool", "lenient"),
        "prompt_capabilities": ("promptCapabilities", "PromptCapabilities", "lenient"),
        "mcp_capabilities": ("mcpCapabilities", "McpCapabilities", "lenient"),
        "session_capabilities": ("sessionCapabilities", "SessionCapabilities", "lenient"),
        "auth": ("auth", "AgentAuthCapabilities", "lenient"),
        "providers": ("providers", "ProvidersCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class InitializeResponse(Model):
    """
    The agent's side of the greeting: the version both will speak, what the agent can do, and how one may authenticate.
    """

    protocol_version: ProtocolVersion
    agent_capabilities: AgentCapabilities = Factory(AgentCapabilities)
    auth_methods: Sequence[AuthMethod] = Factory(list)
    agent_info: Implementation | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "protocol_version": ("protocolVersion", "uint16"),
        "agent_capabilities": ("agentCapabilities", "AgentCapabilities", "lenient"),
        "auth_methods": ("authMethods", "list[AuthMethod]", "lenient skip"),
        "agent_info": ("agentInfo", "Implementation", "lenient"),
        "meta": META,
    }


class SessionListCapabilities(MetaOnly):
    """
    The agent lists its sessions.
    """

    __slots__ = ()


class SessionDeleteCapabilities(MetaOnly):
    """
    The agent deletes sessions.
    """

    __slots__ = ()


class SessionAdditionalDirectoriesCapabilities(MetaOnly):
    """
    The agent takes further directories, besides the working directory.
    """

    __slots__ = ()


class SessionResumeCapabilities(MetaOnly):
    """
    The agent takes a session up again without replaying it.
    """

    __slots__ = ()


class SessionCloseCapabilities(MetaOnly):
    """
    The agent closes sessions.
    """

    __slots__ = ()


class LogoutCapabilities(MetaOnly):
    """
    The agent can forget its credentials.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class AuthMethodTerminal(Model):
    """
    A way to authenticate that the user goes through in a terminal, where the client runs the agent's program with these
    arguments.
    """

    id: AuthMethodId
    name: str
    description: str | None = None
    args: Sequence[str] = Factory(list)
    env: dict[str, str] = Factory(dict)
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "terminal")
    WIRE: ClassVar[Wire] = {
        "id": ("id", "str"),
        "name": ("name", "str"),
        "description": ("description", "str", "lenient"),
        "args": ("args", "list[str]", "omit"),
        "env": ("env", "dict[str]", "omit"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class AuthMethodAgent(Model):
    """
    A way to authenticate that the agent sees to itself.
    """

    id: AuthMethodId
    name: str
    description: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "id": ("id", "str"),
        "name": ("name", "str"),
        "description": ("description", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Implementation(Model):
    """
    Name and version of a program, for logs and for people.
    """

    name: str
    version: str
    title: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "version": ("version", "str"),
        "title": ("title", "str", "lenient"),
        "meta": META,
    }


class AuthenticateResponse(MetaOnly):
    """
    The authentication worked.
    """

    __slots__ = ()


class LogoutResponse(MetaOnly):
    """
    The credentials are forgotten.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class NewSessionResponse(Model):
    """
    The new session's id, its modes and its settings.
    """

    session_id: SessionId
    modes: SessionModeState | None = None
    config_options: Sequence[SessionConfigOption] | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "modes": ("modes", "SessionModeState", "lenient"),
        "config_options": ("configOptions", "list[SessionConfigOption]", "lenient skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionModeState(Model):
    """
    The modes of a session, and which is the current one.
    """

    current_mode_id: SessionModeId
    available_modes: Sequence[SessionMode]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "current_mode_id": ("currentModeId", "str"),
        "available_modes": ("availableModes", "list[SessionMode]", "lenient skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionMode(Model):
    """
    One mode of a session.
    """

    id: SessionModeId
    name: str
    description: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "id": ("id", "str"),
        "name": ("name", "str"),
        "description": ("description", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionConfigSelect(Model):
    """
    A setting of a session with one value out of a list.
    """

    id: SessionConfigId
    name: str
    description: str | None = None
    category: SessionConfigOptionCategory | None = None
    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "select")
    WIRE: ClassVar[Wire] = {
        "id": ("id", "str"),
        "name": ("name", "str"),
        "description": ("description", "str", "lenient"),
        "category": ("category", "str", "lenient"),
        "current_value": ("currentValue", "str"),
        "options": ("options", "SessionConfigSelectOptions"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionConfigBoolean(Model):
    """
    A setting of a session that is on or off.
    """

    id: SessionConfigId
    name: str
    description: str | None = None
    category: SessionConfigOptionCategory | None = None
    current_value: bool
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "boolean")
    WIRE: ClassVar[Wire] = {
        "id": ("id", "str"),
        "name": ("name", "str"),
        "description": ("description", "str", "lenient"),
        "category": ("category", "str", "lenient"),
        "current_value": ("currentValue", "bool"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionConfigSelectOption(Model):
    """
    One value that can be selected.
    """

    value: SessionConfigValueId
    name: str
    description: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "value": ("value", "str"),
        "name": ("name", "str"),
        "description": ("description", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionConfigSelectGroup(Model):
    """
    Values that belong together, under a heading.
    """

    group: SessionConfigGroupId
    name: str
    options: Sequence[SessionConfigSelectOption]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "group": ("group", "str"),
        "name": ("name", "str"),
        "options": ("options", "list[SessionConfigSelectOption]", "lenient skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class LoadSessionResponse(Model):
    """
    The session is loaded and replayed.
    """

    modes: SessionModeState | None = None
    config_options: Sequence[SessionConfigOption] | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "modes": ("modes", "SessionModeState", "lenient"),
        "config_options": ("configOptions", "list[SessionConfigOption]", "lenient skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ListSessionsResponse(Model):
    """
    One page of sessions, and the cursor of the next.
    """

    sessions: Sequence[SessionInfo]
    next_cursor: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "sessions": ("sessions", "list[SessionInfo]", "lenient skip"),
        "next_cursor": ("nextCursor", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionInfo(Model):
    """
    One session in a list.
    """

    session_id: SessionId
    cwd: str
    additional_directories: Sequence[str] = Factory(list)
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "cwd": ("cwd", "str"),
        "additional_directories": ("additionalDirectories", "list[str]", "lenient skip omit"),
        "title": ("title", "str", "lenient"),
        "updated_at": ("updatedAt", "str", "lenient"),
        "archived": ("archived", "bool", "lenient"),
        "meta": META,
    }


class DeleteSessionResponse(MetaOnly):
    """
    The session is gone.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class ResumeSessionResponse(Model):
    """
    The session can go on.
    """

    modes: SessionModeState | None = None
    config_options: Sequence[SessionConfigOption] | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "modes": ("modes", "SessionModeState", "lenient"),
        "config_options": ("configOptions", "list[SessionConfigOption]", "lenient skip"),
        "meta": META,
    }


class CloseSessionResponse(MetaOnly):
    """
    The session is closed.
    """

    __slots__ = ()


class SetSessionModeResponse(MetaOnly):
    """
    The mode is switched.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class SetSessionConfigOptionResponse(Model):
    """
    All settings of the session as they are now; one change may bring others.
    """

    config_options: Sequence[SessionConfigOption]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "config_options": ("configOptions", "list[SessionConfigOption]", "lenient skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PromptResponse(Model):
    """
    The turn is over, and why.
    """

    stop_reason: StopReason
    usage: Usage | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "stop_reason": ("stopReason", "str"),
        "usage": ("usage", "Usage", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Error(Model):
    """
    An error as JSON-RPC has it.
    """

    code: ErrorCode
    message: str
    data: Any = None

    WIRE: ClassVar[Wire] = {
        "code": ("code", "int32"),
        "message": ("message", "str"),
        "data": ("data", "any", "lenient"),
    }


@define(kw_only=True, eq=False, repr=False)
class SessionNotification(Model):
    """
    Something happened in a session.
    """

    session_id: SessionId
    update: SessionUpdate
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "update": ("update", "SessionUpdate"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ContentChunk(Model):
    """
    A piece of a message.  On the wire it is always one of the three classes below it.
    """

    content: ContentBlock
    message_id: MessageId | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "content": ("content", "ContentBlock"),
        "message_id": ("messageId", "str", "lenient"),
        "meta": META,
    }


class UserMessageChunk(ContentChunk):
    """
    A piece of what the user said, as in the replay of a session.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "user_message_chunk")


class AgentMessageChunk(ContentChunk):
    """
    A piece of what the agent says.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "agent_message_chunk")


class AgentThoughtChunk(ContentChunk):
    """
    A piece of what the agent thinks aloud.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "agent_thought_chunk")


@define(kw_only=True, eq=False, repr=False)
class ToolCall(Model):
    """
    A tool call begins: what is being done, and with what.
    """

    tool_call_id: ToolCallId
    title: str
    name: str | None = None
    kind: ToolKind = "other"
    status: ToolCallStatus = "pending"
    content: Sequence[ToolCallContent] = Factory(list)
    locations: Sequence[ToolCallLocation] = Factory(list)
    raw_input: Any = None
    raw_output: Any = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "tool_call")
    WIRE: ClassVar[Wire] = {
        "tool_call_id": ("toolCallId", "str"),
        "title": ("title", "str"),
        "name": ("name", "str", "lenient"),
        "kind": ("kind", "str", "lenient"),
        "status": ("status", "str", "lenient"),
        "content": ("content", "list[ToolCallContent]", "lenient skip omit"),
        "locations": ("locations", "list[ToolCallLocation]", "lenient skip omit"),
        "raw_input": ("rawInput", "any", "lenient"),
        "raw_output": ("rawOutput", "any", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Plan(Model):
    """
    The agent's whole plan; it replaces the one before.
    """

    entries: Sequence[PlanEntry]
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "plan")
    WIRE: ClassVar[Wire] = {
        "entries": ("entries", "list[PlanEntry]", "lenient skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class AvailableCommandsUpdate(Model):
    """
    The slash commands that a session has now.
    """

    available_commands: Sequence[AvailableCommand]
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "available_commands_update")
    WIRE: ClassVar[Wire] = {
        "available_commands": ("availableCommands", "list[AvailableCommand]", "lenient skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CurrentModeUpdate(Model):
    """
    The session is in another mode.
    """

    current_mode_id: SessionModeId
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "current_mode_update")
    WIRE: ClassVar[Wire] = {
        "current_mode_id": ("currentModeId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ConfigOptionUpdate(Model):
    """
    All settings of the session as they are now.
    """

    config_options: Sequence[SessionConfigOption]
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "config_option_update")
    WIRE: ClassVar[Wire] = {
        "config_options": ("configOptions", "list[SessionConfigOption]", "lenient skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionInfoUpdate(Model):
    """
    The session's title or date has changed: C{UNSET} leaves one as it is, L{None} clears it.
    """

    title: str | Unset | None = UNSET
    updated_at: str | Unset | None = UNSET
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "session_info_update")
    WIRE: ClassVar[Wire] = {
        "title": ("title", "str", "lenient"),
        "updated_at": ("updatedAt", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class UsageUpdate(Model):
    """
    How much of its context window a session uses, and what it has cost.
    """

    used: int
    size: int
    cost: Cost | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "usage_update")
    WIRE: ClassVar[Wire] = {
        "used": ("used", "uint64"),
        "size": ("size", "uint64"),
        "cost": ("cost", "Cost", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Notice(Model):
    """
    Something the user should see that is no part of the conversation.
    """

    severity: NoticeSeverity
    title: str
    description: str | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "notice")
    WIRE: ClassVar[Wire] = {
        "severity": ("severity", "str"),
        "title": ("title", "str"),
        "description": ("description", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CompactionUpdate(Model):
    """
    The state of one compaction of the session's history: C{UNSET} leaves a member as it is, L{None} clears it.
    """

    compaction_id: CompactionId
    status: CompactionStatus
    summary: Sequence[ContentBlock] | Unset | None = UNSET
    error: str | Unset | None = UNSET
    meta: dict[str, Any] | Unset | None = UNSET

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "compaction_update")
    WIRE: ClassVar[Wire] = {
        "compaction_id": ("compactionId", "str"),
        "status": ("status", "str"),
        "summary": ("summary", "list[ContentBlock]", "lenient skip"),
        "error": ("error", "str", "lenient"),
        "meta": ("_meta", "map", "lenient"),
    }


@define(kw_only=True, eq=False, repr=False)
class CompactionSummaryChunk(Model):
    """
    A piece of the summary that a compaction leaves behind.
    """

    compaction_id: CompactionId
    content: ContentBlock
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "compaction_summary_chunk")
    WIRE: ClassVar[Wire] = {
        "compaction_id": ("compactionId", "str"),
        "content": ("content", "ContentBlock"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PlanEntry(Model):
    """
    One step of a plan.
    """

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "content": ("content", "str"),
        "priority": ("priority", "str"),
        "status": ("status", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class AvailableCommand(Model):
    """
    One slash command.
    """

    name: str
    description: str
    input: AvailableCommandInput | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "description": ("description", "str"),
        "input": ("input", "UnstructuredCommandInput", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class UnstructuredCommandInput(Model):
    """
    The command takes any text that follows its name.
    """

    hint: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "hint": ("hint", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Cost(Model):
    """
    An amount of money.
    """

    amount: float
    currency: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "amount": ("amount", "double"),
        "currency": ("currency", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CompleteElicitationNotification(Model):
    """
    What the user was to do on a web page is done.
    """

    elicitation_id: ElicitationId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "elicitation_id": ("elicitationId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class FileSystemCapabilities(Model):
    """
    Which of the two file methods the client answers.
    """

    read_text_file: bool = False
    write_text_file: bool = False
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "read_text_file": ("readTextFile", "bool", "lenient"),
        "write_text_file": ("writeTextFile", "bool", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class AuthCapabilities(Model):
    """
    Which ways to authenticate the client can run.
    """

    terminal: bool = False
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "terminal": ("terminal", "bool", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ClientCapabilities(Model):
    """
    What a client offers to agents.  What is not named here must not be asked of it.
    """

    fs: FileSystemCapabilities = Factory(FileSystemCapabilities)
    terminal: bool = False
    session: ClientSessionCapabilities | None = None
    subagents: SubagentCapabilities | None = None  # unstable
    plan: PlanCapabilities | None = None  # unstable
    auth: AuthCapabilities = Factory(AuthCapabilities)
    elicitation: ElicitationCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "fs": ("fs", "FileSystemCapabilities", "lenient"),
        "terminal": ("terminal", "bool", "lenient"),
        "session": ("session", "ClientSessionCapabilities", "lenient"),
        "subagents": ("subagents", "SubagentCapabilities", "lenient"),
        "plan": ("plan", "PlanCapabilities", "lenient"),
        "auth": ("auth", "AuthCapabilities", "lenient"),
        "elicitation": ("elicitation", "ElicitationCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class InitializeRequest(Model):
    """
    The first message of a client: the newest version it speaks, what it can do, and who it is.
    """

    protocol_version: ProtocolVersion
    client_capabilities: ClientCapabilities = Factory(ClientCapabilities)
    client_info: Implementation | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "protocol_version": ("protocolVersion", "uint16"),
        "client_capabilities": ("clientCapabilities", "ClientCapabilities", "lenient"),
        "client_info": ("clientInfo", "Implementation", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ClientSessionCapabilities(Model):
    """
    What a client understands within sessions beyond the basics.
    """

    compaction: CompactionCapabilities | None = None
    config_options: SessionConfigOptionsCapabilities | None = None
    notices: NoticeCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "compaction": ("compaction", "CompactionCapabilities", "lenient"),
        "config_options": ("configOptions", "SessionConfigOptionsCapabilities", "lenient"),
        "notices": ("notices", "NoticeCapabilities", "lenient"),
        "meta": META,
    }


class CompactionCapabilities(MetaOnly):
    """
    The client understands updates about the compaction of a session's history.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class SessionConfigOptionsCapabilities(Model):
    """
    Which kinds of session setting the client understands besides lists to select from.
    """

    boolean: BooleanConfigOptionCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "boolean": ("boolean", "BooleanConfigOptionCapabilities", "lenient"),
        "meta": META,
    }


class BooleanConfigOptionCapabilities(MetaOnly):
    """
    The client understands settings that are on or off.
    """

    __slots__ = ()


class NoticeCapabilities(MetaOnly):
    """
    The client shows notices.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class ElicitationCapabilities(Model):
    """
    In which ways the client can ask its user something; an empty object is none.
    """

    form: ElicitationFormCapabilities | None = None
    url: ElicitationUrlCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "form": ("form", "ElicitationFormCapabilities", "lenient"),
        "url": ("url", "ElicitationUrlCapabilities", "lenient"),
        "meta": META,
    }


class ElicitationFormCapabilities(MetaOnly):
    """
    The client can show a form.
    """

    __slots__ = ()


class ElicitationUrlCapabilities(MetaOnly):
    """
    The client can send its user to a web page.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class AuthenticateRequest(Model):
    """
    Authenticate in one of the ways that the agent named.
    """

    method_id: AuthMethodId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "method_id": ("methodId", "str"),
        "meta": META,
    }


class LogoutRequest(MetaOnly):
    """
    Forget the credentials.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class NewSessionRequest(Model):
    """
    Begin a conversation in a directory, with these MCP servers.
    """

    cwd: str
    mcp_servers: Sequence[McpServer] = Factory(list)
    additional_directories: Sequence[str] = Factory(list)
    system_prompt: SystemPrompt | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "cwd": ("cwd", "str"),
        "mcp_servers": ("mcpServers", "list[McpServer]"),
        "additional_directories": ("additionalDirectories", "list[str]", "omit"),
        "system_prompt": ("systemPrompt", "SystemPrompt"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class McpServerHttp(Model):
    """
    An MCP server behind HTTP.  Its headers may hold secrets.
    """

    name: str
    url: str
    headers: Sequence[HttpHeader]
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "http")
    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "url": ("url", "str"),
        "headers": ("headers", "list[HttpHeader]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class McpServerSse(Model):
    """
    An MCP server behind server-sent events.  Its headers may hold secrets.
    """

    name: str
    url: str
    headers: Sequence[HttpHeader]
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "sse")
    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "url": ("url", "str"),
        "headers": ("headers", "list[HttpHeader]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class McpServerStdio(Model):
    """
    An MCP server to be started as a program.  Its environment may hold secrets.
    """

    name: str
    command: str
    args: Sequence[str]
    env: Sequence[EnvVariable]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "command": ("command", "str"),
        "args": ("args", "list[str]"),
        "env": ("env", "list[EnvVariable]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class HttpHeader(Model):
    """
    A header of an HTTP request.
    """

    name: str
    value: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "value": ("value", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class LoadSessionRequest(Model):
    """
    Take up an earlier session; its history is replayed as updates before the answer.
    """

    mcp_servers: Sequence[McpServer] = Factory(list)
    cwd: str
    session_id: SessionId
    additional_directories: Sequence[str] = Factory(list)
    system_prompt: SystemPrompt | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "mcp_servers": ("mcpServers", "list[McpServer]"),
        "cwd": ("cwd", "str"),
        "session_id": ("sessionId", "str"),
        "additional_directories": ("additionalDirectories", "list[str]", "omit"),
        "system_prompt": ("systemPrompt", "SystemPrompt"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ListSessionsRequest(Model):
    """
    Ask for sessions, those of one directory perhaps, a page at a time.
    """

    cwd: str | None = None
    cursor: str | None = None
    archived: SessionArchiveFilter | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "cwd": ("cwd", "str"),
        "cursor": ("cursor", "str"),
        "archived": ("archived", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class DeleteSessionRequest(Model):
    """
    Delete a session.
    """

    session_id: SessionId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ResumeSessionRequest(Model):
    """
    Take up an earlier session without a replay of its history.
    """

    session_id: SessionId
    cwd: str
    additional_directories: Sequence[str] = Factory(list)
    mcp_servers: Sequence[McpServer] = Factory(list)
    system_prompt: SystemPrompt | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "cwd": ("cwd", "str"),
        "additional_directories": ("additionalDirectories", "list[str]", "omit"),
        "mcp_servers": ("mcpServers", "list[McpServer]"),
        "system_prompt": ("systemPrompt", "SystemPrompt"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CloseSessionRequest(Model):
    """
    Cancel what a session is doing, and free what it holds.
    """

    session_id: SessionId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SetSessionModeRequest(Model):
    """
    Switch a session to another mode.
    """

    session_id: SessionId
    mode_id: SessionModeId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "mode_id": ("modeId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SetSessionConfigOptionRequest(Model):
    """
    Change a setting of a session: the id of a listed value, or on or off, by the type of C{value}.
    """

    session_id: SessionId
    config_id: SessionConfigId
    value: str | bool
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "config_id": ("configId", "str"),
        "value": ("value", "config_value"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PromptRequest(Model):
    """
    What the user says: it begins a turn, and its answer ends it.
    """

    session_id: SessionId
    prompt: Sequence[ContentBlock]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "prompt": ("prompt", "list[ContentBlock]"),
        "meta": META,
    }


class WriteTextFileResponse(MetaOnly):
    """
    The file is written.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class ReadTextFileResponse(Model):
    """
    The text of the file.
    """

    content: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "content": ("content", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class RequestPermissionResponse(Model):
    """
    What the user decided.
    """

    outcome: RequestPermissionOutcome
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "outcome": ("outcome", "RequestPermissionOutcome"),
        "meta": META,
    }


class CancelledPermissionOutcome(MetaOnly):
    """
    The turn was cancelled before the user decided.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("outcome", "cancelled")


@define(kw_only=True, eq=False, repr=False)
class SelectedPermissionOutcome(Model):
    """
    The user picked this option.
    """

    option_id: PermissionOptionId
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("outcome", "selected")
    WIRE: ClassVar[Wire] = {
        "option_id": ("optionId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CreateTerminalResponse(Model):
    """
    The terminal's id; the command runs.
    """

    terminal_id: TerminalId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "terminal_id": ("terminalId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TerminalOutputResponse(Model):
    """
    What the command has written, and how it ended if it has.
    """

    output: str
    truncated: bool
    exit_status: TerminalExitStatus | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "output": ("output", "str"),
        "truncated": ("truncated", "bool"),
        "exit_status": ("exitStatus", "TerminalExitStatus", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TerminalExitStatus(Model):
    """
    How a command ended: its status, or the signal that ended it.
    """

    exit_code: int | None = None
    signal: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "exit_code": ("exitCode", "uint32", "lenient"),
        "signal": ("signal", "str", "lenient"),
        "meta": META,
    }


class ReleaseTerminalResponse(MetaOnly):
    """
    The terminal is gone.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class WaitForTerminalExitResponse(Model):
    """
    How the command ended.
    """

    exit_code: int | None = None
    signal: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "exit_code": ("exitCode", "uint32", "lenient"),
        "signal": ("signal", "str", "lenient"),
        "meta": META,
    }


class KillTerminalResponse(MetaOnly):
    """
    The command was told to end.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class CreateElicitationResponse(Model):
    """
    What the user did: C{content} is what an accepted form holds.
    """

    action: Literal["accept", "decline", "cancel"] | str
    content: dict[str, ElicitationContentValue] | None = None
    meta: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "action": ("action", "str"),
        "content": ("content", "dict[content_value]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CancelNotification(Model):
    """
    Stop the turn of a session.  Its prompt is still answered, with C{cancelled}.
    """

    session_id: SessionId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CancelRequestNotification(Model):
    """
    The sender no longer wants the answer to one of its requests.
    """

    request_id: RequestId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "request_id": ("requestId", "request_id"),
        "meta": META,
    }


ToolCallContent: TypeAlias = Content | Diff | Terminal | UnknownVariant
ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownVariant
EmbeddedResourceResource: TypeAlias = TextResourceContents | BlobResourceContents
ElicitationPropertySchema: TypeAlias = (
    StringPropertySchema
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
    | UnknownVariant
)
MultiSelectItems: TypeAlias = StringMultiSelectItems | TitledMultiSelectItems | UnknownVariant
AuthMethod: TypeAlias = AuthMethodTerminal | AuthMethodAgent | UnknownVariant
SessionConfigOption: TypeAlias = SessionConfigSelect | SessionConfigBoolean | UnknownVariant
SessionConfigSelectOptions: TypeAlias = Sequence[SessionConfigSelectOption] | Sequence[SessionConfigSelectGroup]

if TYPE_CHECKING:
    SessionUpdate: TypeAlias = (
        UserMessageChunk
        | AgentMessageChunk
        | AgentThoughtChunk
        | ToolCall
        | ToolCallUpdate
        | Plan
        | PlanUpdate
        | PlanRemoved
        | AvailableCommandsUpdate
        | CurrentModeUpdate
        | ConfigOptionUpdate
        | SessionInfoUpdate
        | UsageUpdate
        | Notice
        | CompactionUpdate
        | CompactionSummaryChunk
        | SubagentUpdate
        | SessionMessage
        | SessionMessageChunk
        | UnknownVariant
    )
else:
    SessionUpdate = (
        UserMessageChunk
        | AgentMessageChunk
        | AgentThoughtChunk
        | ToolCall
        | ToolCallUpdate
        | Plan
        | AvailableCommandsUpdate
        | CurrentModeUpdate
        | ConfigOptionUpdate
        | SessionInfoUpdate
        | UsageUpdate
        | Notice
        | CompactionUpdate
        | CompactionSummaryChunk
        | UnknownVariant
    )

AvailableCommandInput: TypeAlias = UnstructuredCommandInput

if TYPE_CHECKING:
    McpServer: TypeAlias = McpServerHttp | McpServerSse | McpServerAcp | McpServerStdio | UnknownVariant
else:
    McpServer = McpServerHttp | McpServerSse | McpServerStdio | UnknownVariant

RequestPermissionOutcome: TypeAlias = CancelledPermissionOutcome | SelectedPermissionOutcome | UnknownVariant

UNIONS: dict[str, Alternatives] = {
    "ToolCallContent": Tagged(
        "type",
        {
            "content": "Content",
            "diff": "Diff",
            "terminal": "Terminal",
        },
    ),
    "ContentBlock": Tagged(
        "type",
        {
            "text": "TextContent",
            "image": "ImageContent",
            "audio": "AudioContent",
            "resource_link": "ResourceLink",
            "resource": "EmbeddedResource",
        },
    ),
    "EmbeddedResourceResource": ByMember({"text": "TextResourceContents", "blob": "BlobResourceContents"}),
    "CreateElicitationRequest": Tagged(
        "mode",
        {
            "form": "ElicitationFormMode",
            "url": "ElicitationUrlMode",
        },
        fallback="CreateElicitationRequest",
    ),
    "ElicitationPropertySchema": Tagged(
        "type",
        {
            "string": "StringPropertySchema",
            "number": "NumberPropertySchema",
            "integer": "IntegerPropertySchema",
            "boolean": "BooleanPropertySchema",
            "array": "MultiSelectPropertySchema",
        },
    ),
    "MultiSelectItems": Tagged(
        "type",
        {
            "string": "StringMultiSelectItems",
        },
        default="TitledMultiSelectItems",
    ),
    "AuthMethod": Tagged(
        "type",
        {
            "terminal": "AuthMethodTerminal",
            "agent": "AuthMethodAgent",
        },
        default="AuthMethodAgent",
    ),
    "SessionConfigOption": Tagged(
        "type",
        {
            "select": "SessionConfigSelect",
            "boolean": "SessionConfigBoolean",
        },
    ),
    "SessionConfigSelectOptions": ByItems(
        "group", present="SessionConfigSelectGroup", absent="SessionConfigSelectOption"
    ),
    "SessionUpdate": Tagged(
        "sessionUpdate",
        {
            "user_message_chunk": "UserMessageChunk",
            "agent_message_chunk": "AgentMessageChunk",
            "agent_thought_chunk": "AgentThoughtChunk",
            "tool_call": "ToolCall",
            "tool_call_update": "ToolCallUpdate",
            "plan": "Plan",
            "plan_update": "PlanUpdate",
            "plan_removed": "PlanRemoved",
            "available_commands_update": "AvailableCommandsUpdate",
            "current_mode_update": "CurrentModeUpdate",
            "config_option_update": "ConfigOptionUpdate",
            "session_info_update": "SessionInfoUpdate",
            "usage_update": "UsageUpdate",
            "notice": "Notice",
            "compaction_update": "CompactionUpdate",
            "compaction_summary_chunk": "CompactionSummaryChunk",
            "subagent_update": "SubagentUpdate",
            "session_message": "SessionMessage",
            "session_message_chunk": "SessionMessageChunk",
        },
    ),
    "McpServer": Tagged(
        "type",
        {
            "http": "McpServerHttp",
            "sse": "McpServerSse",
            "acp": "McpServerAcp",
            "stdio": "McpServerStdio",
        },
        default="McpServerStdio",
    ),
    "RequestPermissionOutcome": Tagged(
        "outcome",
        {
            "cancelled": "CancelledPermissionOutcome",
            "selected": "SelectedPermissionOutcome",
        },
    ),
    "PlanUpdateContent": Tagged(
        "type",
        {
            "items": "PlanItems",
            "file": "PlanFile",
            "markdown": "PlanMarkdown",
        },
    ),
    "StateUpdate": Tagged(
        "state",
        {
            "running": "RunningStateUpdate",
            "idle": "IdleStateUpdate",
            "requires_action": "RequiresActionStateUpdate",
            "unknown": "UnknownStateUpdate",
        },
    ),
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        from acp_twisted.schema import v1_unstable  # noqa: PLC0415

        try:
            value = vars(v1_unstable)[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
        globals()[name] = value
        return value
