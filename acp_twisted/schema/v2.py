"""
Protocol version 2.

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
    from acp_twisted.schema.v2_unstable import (
        ArchiveSessionRequest as ArchiveSessionRequest,
        ArchiveSessionResponse as ArchiveSessionResponse,
        AuthAccount as AuthAccount,
        AuthState as AuthState,
        AuthStatusCapabilities as AuthStatusCapabilities,
        AuthStatusRequest as AuthStatusRequest,
        AuthStatusResponse as AuthStatusResponse,
        AuthStatusUpdateNotification as AuthStatusUpdateNotification,
        BackgroundSubagent as BackgroundSubagent,
        DisableProviderRequest as DisableProviderRequest,
        DisableProviderResponse as DisableProviderResponse,
        ForkSessionRequest as ForkSessionRequest,
        ForkSessionResponse as ForkSessionResponse,
        InitializeProxyRequest as InitializeProxyRequest,
        InitializeProxyResponse as InitializeProxyResponse,
        ListProvidersRequest as ListProvidersRequest,
        ListProvidersResponse as ListProvidersResponse,
        LlmProtocol as LlmProtocol,
        McpAcpCapabilities as McpAcpCapabilities,
        McpError as McpError,
        McpRequestId as McpRequestId,
        McpServerAcp as McpServerAcp,
        McpServerAcpId as McpServerAcpId,
        MessageMcpNotification as MessageMcpNotification,
        MessageMcpRequest as MessageMcpRequest,
        MessageMcpResponse as MessageMcpResponse,
        PlanFile as PlanFile,
        PlanMarkdown as PlanMarkdown,
        PlanRemoved as PlanRemoved,
        ProviderCurrentConfig as ProviderCurrentConfig,
        ProviderId as ProviderId,
        ProviderInfo as ProviderInfo,
        ProvidersCapabilities as ProvidersCapabilities,
        ProxySuccessorNotification as ProxySuccessorNotification,
        ProxySuccessorRequest as ProxySuccessorRequest,
        ProxySuccessorResponse as ProxySuccessorResponse,
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
        SubagentSessionCapabilities as SubagentSessionCapabilities,
        SubagentUpdate as SubagentUpdate,
        SystemPrompt as SystemPrompt,
        SystemPromptMode as SystemPromptMode,
        UnarchiveSessionRequest as UnarchiveSessionRequest,
        UnarchiveSessionResponse as UnarchiveSessionResponse,
        UnknownStateUpdate as UnknownStateUpdate,
        Usage as Usage,
    )

RequestId: TypeAlias = int | str
SessionId: TypeAlias = str
ToolCallId: TypeAlias = str
ToolKind: TypeAlias = str
ToolCallStatus: TypeAlias = Literal["pending", "in_progress", "paused", "completed", "failed", "cancelled"] | str
Role: TypeAlias = Literal["assistant", "user"] | str
MediaType: TypeAlias = str
IconTheme: TypeAlias = Literal["light", "dark"] | str
DiffFileType: TypeAlias = Literal["text", "binary", "directory", "symlink"] | str
AbsolutePath: TypeAlias = str
DiffPatchFormat: TypeAlias = Literal["git_patch"] | str
TerminalId: TypeAlias = str
PermissionOptionId: TypeAlias = str
PermissionOptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"] | str
ElicitationSchemaType: TypeAlias = Literal["object"] | str
StringFormat: TypeAlias = Literal["email", "uri", "date", "date-time"] | str
ElicitationId: TypeAlias = str
ExtRequest: TypeAlias = Any
ProtocolVersion: TypeAlias = int
AuthMethodId: TypeAlias = str
SessionConfigId: TypeAlias = str
SessionConfigOptionCategory: TypeAlias = Literal["mode", "model", "model_config", "thought_level"] | str
SessionConfigValueId: TypeAlias = str
SessionConfigGroupId: TypeAlias = str
SessionListCursor: TypeAlias = str
ErrorCode: TypeAlias = int
ErrorData: TypeAlias = Any
MessageId: TypeAlias = str
ExtResponse: TypeAlias = Any
PlanId: TypeAlias = str
PlanEntryPriority: TypeAlias = Literal["high", "medium", "low"] | str
PlanEntryStatus: TypeAlias = Literal["pending", "in_progress", "completed", "cancelled"] | str
NoticeSeverity: TypeAlias = Literal["info", "warning", "error"] | str
CompactionId: TypeAlias = str
CompactionStatus: TypeAlias = Literal["in_progress", "completed", "failed", "cancelled"] | str
ExtNotification: TypeAlias = Any
ElicitationContentValue: TypeAlias = Any


@define(kw_only=True, eq=False, repr=False)
class RequestPermissionRequest(Model):
    """
    May the agent do this?  The user picks one of the options.  C{subject} is what it is.
    """

    session_id: SessionId
    title: str
    options: Sequence[PermissionOption]
    description: str | None = None
    subject: RequestPermissionSubject | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "title": ("title", "str"),
        "options": ("options", "list[PermissionOption]"),
        "description": ("description", "str", "lenient"),
        "subject": ("subject", "RequestPermissionSubject"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ToolCallPermissionSubject(Model):
    """
    The agent asks about a tool call, which this also updates.
    """

    tool_call: ToolCallUpdate
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "tool_call")
    WIRE: ClassVar[Wire] = {
        "tool_call": ("toolCall", "ToolCallUpdate"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CommandPermissionSubject(Model):
    """
    The agent asks about a command.
    """

    command: str
    cwd: AbsolutePath
    tool_call_id: ToolCallId | None = None
    terminal_id: TerminalId | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "command")
    WIRE: ClassVar[Wire] = {
        "command": ("command", "str"),
        "cwd": ("cwd", "str"),
        "tool_call_id": ("toolCallId", "str", "lenient"),
        "terminal_id": ("terminalId", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ToolCallUpdate(Model):
    """
    What has changed about a tool call, or that there is one: C{UNSET} leaves a member as it is, L{None} clears it, and
    what is in C{meta} goes in key by key.  A list that is there replaces the whole list.
    """

    tool_call_id: ToolCallId
    name: str | Unset | None = UNSET
    title: str | Unset | None = UNSET
    kind: ToolKind | Unset | None = UNSET
    status: ToolCallStatus | Unset | None = UNSET
    content: Sequence[ToolCallContent] | Unset | None = UNSET
    locations: Sequence[ToolCallLocation] | Unset | None = UNSET
    raw_input: Any | Unset = UNSET
    raw_output: Any | Unset = UNSET
    capabilities: ToolCallCapabilities | Unset | None = UNSET
    meta: dict[str, Any] | Unset | None = UNSET

    WIRE: ClassVar[Wire] = {
        "tool_call_id": ("toolCallId", "str"),
        "name": ("name", "str", "lenient"),
        "title": ("title", "str", "lenient"),
        "kind": ("kind", "str", "lenient"),
        "status": ("status", "str", "lenient"),
        "content": ("content", "list[ToolCallContent]", "lenient skip"),
        "locations": ("locations", "list[ToolCallLocation]", "lenient skip"),
        "raw_input": ("rawInput", "any", "lenient"),
        "raw_output": ("rawOutput", "any", "lenient"),
        "capabilities": ("capabilities", "ToolCallCapabilities", "lenient"),
        "meta": ("_meta", "map", "lenient"),
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
    What a tool call changed in files: the changes, and perhaps a patch that makes them.
    """

    changes: Sequence[DiffChange]
    patch: DiffPatch | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "diff")
    WIRE: ClassVar[Wire] = {
        "changes": ("changes", "list[DiffChange]", "skip"),
        "patch": ("patch", "DiffPatch", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Terminal(Model):
    """
    A terminal of the agent's, shown within a tool call.
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
    mime_type: MediaType
    uri: str | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "image")
    WIRE: ClassVar[Wire] = {
        "data": ("data", "str"),
        "mime_type": ("mimeType", "str"),
        "uri": ("uri", "str", "lenient"),
        "annotations": ("annotations", "Annotations", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class AudioContent(Model):
    """
    A sound in base64.
    """

    data: str
    mime_type: MediaType
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
    title: str | None = None
    description: str | None = None
    icons: Sequence[Icon] | None = None
    mime_type: MediaType | None = None
    size: int | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "resource_link")
    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "uri": ("uri", "str"),
        "title": ("title", "str", "lenient"),
        "description": ("description", "str", "lenient"),
        "icons": ("icons", "list[Icon]", "lenient skip"),
        "mime_type": ("mimeType", "str", "lenient"),
        "size": ("size", "uint64", "lenient"),
        "annotations": ("annotations", "Annotations", "lenient"),
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
class Icon(Model):
    """
    A picture that stands for something.
    """

    src: str
    mime_type: MediaType | None = None
    sizes: Sequence[str] | None = None
    theme: IconTheme | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "src": ("src", "str"),
        "mime_type": ("mimeType", "str", "lenient"),
        "sizes": ("sizes", "list[str]", "lenient skip"),
        "theme": ("theme", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TextResourceContents(Model):
    """
    The text of a resource.
    """

    text: str
    uri: str
    mime_type: MediaType | None = None
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
    mime_type: MediaType | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "blob": ("blob", "str"),
        "uri": ("uri", "str"),
        "mime_type": ("mimeType", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class DiffPathChange(Model):
    """
    A change of one file.  On the wire it is always one of the three classes below it.
    """

    file_type: DiffFileType | None = None
    mime_type: MediaType | None = None
    path: AbsolutePath
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "file_type": ("fileType", "str", "lenient"),
        "mime_type": ("mimeType", "str", "lenient"),
        "path": ("path", "str"),
        "meta": META,
    }


class DiffAdd(DiffPathChange):
    """
    A file came to be.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("operation", "add")


class DiffDelete(DiffPathChange):
    """
    A file was deleted.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("operation", "delete")


class DiffModify(DiffPathChange):
    """
    A file was changed.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("operation", "modify")


@define(kw_only=True, eq=False, repr=False)
class DiffPathPairChange(Model):
    """
    A change of two paths.  On the wire it is always one of the two classes below it.
    """

    file_type: DiffFileType | None = None
    mime_type: MediaType | None = None
    old_path: AbsolutePath
    path: AbsolutePath
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "file_type": ("fileType", "str", "lenient"),
        "mime_type": ("mimeType", "str", "lenient"),
        "old_path": ("oldPath", "str"),
        "path": ("path", "str"),
        "meta": META,
    }


class DiffMove(DiffPathPairChange):
    """
    A file was moved or renamed.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("operation", "move")


class DiffCopy(DiffPathPairChange):
    """
    A file was copied.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("operation", "copy")


@define(kw_only=True, eq=False, repr=False)
class DiffPatch(Model):
    """
    Changes as text.
    """

    format: DiffPatchFormat
    text: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "format": ("format", "str"),
        "text": ("text", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ToolCallLocation(Model):
    """
    A place in a file that a tool call works on.
    """

    path: AbsolutePath
    line: int | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "path": ("path", "str"),
        "line": ("line", "uint32", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ToolCallCapabilities(Model):
    """
    What a client may do with a tool call.
    """

    cancel: ToolCallCancelCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "cancel": ("cancel", "ToolCallCancelCapabilities", "lenient"),
        "meta": META,
    }


class ToolCallCancelCapabilities(MetaOnly):
    """
    The tool call can be stopped.
    """

    __slots__ = ()


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
    request_id: RequestId | None = None
    meta: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None

    ONE_OF: ClassVar[tuple[str, ...]] = ("session_id", "request_id")
    WIRE: ClassVar[Wire] = {
        "mode": ("mode", "str"),
        "message": ("message", "str"),
        "session_id": ("sessionId", "str"),
        "tool_call_id": ("toolCallId", "str", "lenient"),
        "request_id": ("requestId", "strict_id"),
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
        "request_id": ("requestId", "strict_id"),
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
        "request_id": ("requestId", "strict_id"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ElicitationSchema(Model):
    """
    The fields of a form.
    """

    type: ElicitationSchemaType = "object"
    properties: dict[str, ElicitationPropertySchema] = Factory(dict)
    title: str | None = None
    required: Sequence[str] | None = None
    description: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "type": ("type", "str"),
        "properties": ("properties", "dict[ElicitationPropertySchema]"),
        "title": ("title", "str", "lenient"),
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
class AgentCapabilities(Model):
    """
    What an agent can do.  Without C{session} it has no sessions.
    """

    session: SessionCapabilities | None = None
    auth: AgentAuthCapabilities | None = None
    providers: ProvidersCapabilities | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session": ("session", "SessionCapabilities", "lenient"),
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
    info: Implementation
    capabilities: AgentCapabilities = Factory(AgentCapabilities)
    auth_methods: Sequence[AuthMethod] = Factory(list)
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "protocol_version": ("protocolVersion", "uint16"),
        "info": ("info", "Implementation"),
        "capabilities": ("capabilities", "AgentCapabilities", "lenient"),
        "auth_methods": ("authMethods", "list[AuthMethod]", "lenient skip omit"),
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


@define(kw_only=True, eq=False, repr=False)
class SessionCapabilities(Model):
    """
    The agent has sessions: new, list, resume, close, prompt and cancel are in it, and the rest is named.
    """

    prompt: PromptCapabilities | None = None
    mcp: McpCapabilities | None = None
    delete: SessionDeleteCapabilities | None = None
    additional_directories: SessionAdditionalDirectoriesCapabilities | None = None
    system_prompt: SessionSystemPromptCapabilities | None = None  # unstable
    fork: SessionForkCapabilities | None = None  # unstable
    archive: SessionArchiveCapabilities | None = None  # unstable
    status: SessionStatusCapabilities | None = None  # unstable
    title: SessionTitleCapabilities | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "prompt": ("prompt", "PromptCapabilities", "lenient"),
        "mcp": ("mcp", "McpCapabilities", "lenient"),
        "delete": ("delete", "SessionDeleteCapabilities", "lenient"),
        "additional_directories": ("additionalDirectories", "SessionAdditionalDirectoriesCapabilities", "lenient"),
        "system_prompt": ("systemPrompt", "SessionSystemPromptCapabilities", "lenient"),
        "fork": ("fork", "SessionForkCapabilities", "lenient"),
        "archive": ("archive", "SessionArchiveCapabilities", "lenient"),
        "status": ("status", "SessionStatusCapabilities", "lenient"),
        "title": ("title", "SessionTitleCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PromptCapabilities(Model):
    """
    Which content, besides text and links, an agent takes in a prompt: what is there it takes.
    """

    image: PromptImageCapabilities | None = None
    audio: PromptAudioCapabilities | None = None
    embedded_context: PromptEmbeddedContextCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "image": ("image", "PromptImageCapabilities", "lenient"),
        "audio": ("audio", "PromptAudioCapabilities", "lenient"),
        "embedded_context": ("embeddedContext", "PromptEmbeddedContextCapabilities", "lenient"),
        "meta": META,
    }


class PromptImageCapabilities(MetaOnly):
    """
    The agent takes images.
    """

    __slots__ = ()


class PromptAudioCapabilities(MetaOnly):
    """
    The agent takes sound.
    """

    __slots__ = ()


class PromptEmbeddedContextCapabilities(MetaOnly):
    """
    The agent takes embedded resources.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class McpCapabilities(Model):
    """
    Over which transports an agent can reach MCP servers: what is there it can.
    """

    stdio: McpStdioCapabilities | None = None
    http: McpHttpCapabilities | None = None
    acp: McpAcpCapabilities | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "stdio": ("stdio", "McpStdioCapabilities", "lenient"),
        "http": ("http", "McpHttpCapabilities", "lenient"),
        "acp": ("acp", "McpAcpCapabilities", "lenient"),
        "meta": META,
    }


class McpStdioCapabilities(MetaOnly):
    """
    The agent starts MCP servers as programs.
    """

    __slots__ = ()


class McpHttpCapabilities(MetaOnly):
    """
    The agent reaches MCP servers behind HTTP.
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


@define(kw_only=True, eq=False, repr=False)
class AgentAuthCapabilities(Model):
    """
    What an agent can do about authentication beyond logging in and out.
    """

    status: AuthStatusCapabilities | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "status": ("status", "AuthStatusCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class AuthMethodTerminal(Model):
    """
    A way to authenticate that the user goes through in a terminal, where the client runs the agent's program with these
    arguments.
    """

    method_id: AuthMethodId
    name: str
    description: str | None = None
    args: Sequence[str] = Factory(list)
    env: Sequence[EnvVariable] = Factory(list)
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "terminal")
    WIRE: ClassVar[Wire] = {
        "method_id": ("methodId", "str"),
        "name": ("name", "str"),
        "description": ("description", "str", "lenient"),
        "args": ("args", "list[str]", "omit"),
        "env": ("env", "list[EnvVariable]", "omit"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class AuthMethodAgent(Model):
    """
    A way to authenticate that the agent sees to itself.
    """

    method_id: AuthMethodId
    name: str
    description: str | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "agent")
    WIRE: ClassVar[Wire] = {
        "method_id": ("methodId", "str"),
        "name": ("name", "str"),
        "description": ("description", "str", "lenient"),
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


class LoginAuthResponse(MetaOnly):
    """
    The authentication worked.
    """

    __slots__ = ()


class LogoutAuthResponse(MetaOnly):
    """
    The credentials are forgotten.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class NewSessionResponse(Model):
    """
    The new session's id, its settings and its commands.
    """

    session_id: SessionId
    config_options: Sequence[SessionConfigOption] = Factory(list)
    available_commands: Sequence[AvailableCommand] = Factory(list)
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "config_options": ("configOptions", "list[SessionConfigOption]", "lenient skip omit"),
        "available_commands": ("availableCommands", "list[AvailableCommand]", "lenient skip omit"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionConfigSelect(Model):
    """
    A setting of a session with one value out of a list.
    """

    config_id: SessionConfigId
    name: str
    description: str | None = None
    category: SessionConfigOptionCategory | None = None
    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "select")
    WIRE: ClassVar[Wire] = {
        "config_id": ("configId", "str"),
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

    config_id: SessionConfigId
    name: str
    description: str | None = None
    category: SessionConfigOptionCategory | None = None
    current_value: bool
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "boolean")
    WIRE: ClassVar[Wire] = {
        "config_id": ("configId", "str"),
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

    group_id: SessionConfigGroupId
    name: str
    options: Sequence[SessionConfigSelectOption]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "group_id": ("groupId", "str"),
        "name": ("name", "str"),
        "options": ("options", "list[SessionConfigSelectOption]", "lenient skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Command(Model):
    """
    One slash command.
    """

    name: str
    description: str
    input: AvailableCommandInput | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "command")
    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "description": ("description", "str"),
        "input": ("input", "AvailableCommandInput", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TextCommandInput(Model):
    """
    The command takes any text that follows its name.
    """

    hint: str
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "text")
    WIRE: ClassVar[Wire] = {
        "hint": ("hint", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ListSessionsResponse(Model):
    """
    One page of sessions, and the cursor of the next.
    """

    sessions: Sequence[SessionInfo]
    next_cursor: SessionListCursor | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "sessions": ("sessions", "list[SessionInfo]", "lenient skip"),
        "next_cursor": ("nextCursor", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionInfo(Model):
    """
    One session in a list.
    """

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: Sequence[AbsolutePath] = Factory(list)
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "cwd": ("cwd", "str"),
        "additional_directories": ("additionalDirectories", "list[str]", "omit"),
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
class RunningStateUpdate(Model):
    """
    The session is at work.
    """

    background: Sequence[BackgroundWork] | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("state", "running")
    WIRE: ClassVar[Wire] = {
        "background": ("background", "list[BackgroundWork]", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class IdleStateUpdate(Model):
    """
    The session is at rest; C{stop_reason} tells why, where there is a reason.  C{background} lists what goes on all the
    same; L{None} says nothing of it.
    """

    stop_reason: str | None = None
    error: Error | None = None
    usage: Usage | None = None  # unstable
    background: Sequence[BackgroundWork] | None = None
    meta: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("state", "idle")
    WIRE: ClassVar[Wire] = {
        "stop_reason": ("stopReason", "str", "lenient"),
        "error": ("error", "Error", "lenient"),
        "usage": ("usage", "Usage", "lenient"),
        "background": ("background", "list[BackgroundWork]", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class RequiresActionStateUpdate(Model):
    """
    The session waits for its user.
    """

    background: Sequence[BackgroundWork] | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("state", "requires_action")
    WIRE: ClassVar[Wire] = {
        "background": ("background", "list[BackgroundWork]", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class BackgroundTerminal(Model):
    """
    A terminal whose command goes on in the background.
    """

    terminal_id: TerminalId
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "terminal")
    WIRE: ClassVar[Wire] = {
        "terminal_id": ("terminalId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class BackgroundToolCall(Model):
    """
    A tool call that goes on in the background.
    """

    tool_call_id: ToolCallId
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "tool_call")
    WIRE: ClassVar[Wire] = {
        "tool_call_id": ("toolCallId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Error(Model):
    """
    An error as JSON-RPC has it.
    """

    code: ErrorCode
    message: str
    data: ErrorData | None = None

    WIRE: ClassVar[Wire] = {
        "code": ("code", "int32"),
        "message": ("message", "str"),
        "data": ("data", "any", "lenient"),
    }


@define(kw_only=True, eq=False, repr=False)
class UnsupportedProtocolVersionErrorData(Model):
    """
    The data of an error: the version asked for, and those that there are.
    """

    requested: ProtocolVersion
    supported: Sequence[ProtocolVersion]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "requested": ("requested", "uint16"),
        "supported": ("supported", "list[uint16]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionNotFoundErrorData(Model):
    """
    The data of an error: the session that there is none of.
    """

    session_id: SessionId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ResumeSessionResponse(Model):
    """
    The session can go on; its state was reported before this.
    """

    config_options: Sequence[SessionConfigOption] = Factory(list)
    available_commands: Sequence[AvailableCommand] = Factory(list)
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "config_options": ("configOptions", "list[SessionConfigOption]", "lenient skip omit"),
        "available_commands": ("availableCommands", "list[AvailableCommand]", "lenient skip omit"),
        "meta": META,
    }


class CloseSessionResponse(MetaOnly):
    """
    The session is closed.
    """

    __slots__ = ()


class CancelToolCallResponse(MetaOnly):
    """
    The tool call is told to stop; that it has, its last update will say.
    """

    __slots__ = ()


class CancelTerminalResponse(MetaOnly):
    """
    The command is told to stop; that it has, its exit status will say.
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
        "config_options": ("configOptions", "list[SessionConfigOption]", "skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PromptResponse(Model):
    """
    The message is part of the conversation, under this id, which only peers of the draft of August 2026 leave out.
    """

    message_id: MessageId | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "message_id": ("messageId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class UpdateSessionNotification(Model):
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

    message_id: MessageId
    content: ContentBlock
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "message_id": ("messageId", "str"),
        "content": ("content", "ContentBlock"),
        "meta": META,
    }


class UserMessageChunk(ContentChunk):
    """
    A piece of what the user said, as in the replay of a session.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "user_message_chunk")


@define(kw_only=True, eq=False, repr=False)
class UserMessage(Model):
    """
    What the user said, by the id of the message: C{UNSET} leaves a member as it is, L{None} clears it, and what is in
    C{meta} goes in key by key.
    """

    message_id: MessageId
    content: Sequence[ContentBlock] | Unset | None = UNSET
    meta: dict[str, Any] | Unset | None = UNSET

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "user_message")
    WIRE: ClassVar[Wire] = {
        "message_id": ("messageId", "str"),
        "content": ("content", "list[ContentBlock]", "lenient skip"),
        "meta": ("_meta", "map", "lenient"),
    }


class AgentMessageChunk(ContentChunk):
    """
    A piece of what the agent says.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "agent_message_chunk")


@define(kw_only=True, eq=False, repr=False)
class AgentMessage(Model):
    """
    What the agent said, by the id of the message: C{UNSET} leaves a member as it is, L{None} clears it, and what is in
    C{meta} goes in key by key.
    """

    message_id: MessageId
    content: Sequence[ContentBlock] | Unset | None = UNSET
    meta: dict[str, Any] | Unset | None = UNSET

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "agent_message")
    WIRE: ClassVar[Wire] = {
        "message_id": ("messageId", "str"),
        "content": ("content", "list[ContentBlock]", "lenient skip"),
        "meta": ("_meta", "map", "lenient"),
    }


class AgentThoughtChunk(ContentChunk):
    """
    A piece of what the agent thinks aloud.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "agent_thought_chunk")


@define(kw_only=True, eq=False, repr=False)
class AgentThought(Model):
    """
    What the agent thought aloud, by the id of the message: C{UNSET} leaves a member as it is, L{None} clears it, and
    what is in C{meta} goes in key by key.
    """

    message_id: MessageId
    content: Sequence[ContentBlock] | Unset | None = UNSET
    meta: dict[str, Any] | Unset | None = UNSET

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "agent_thought")
    WIRE: ClassVar[Wire] = {
        "message_id": ("messageId", "str"),
        "content": ("content", "list[ContentBlock]", "lenient skip"),
        "meta": ("_meta", "map", "lenient"),
    }


@define(kw_only=True, eq=False, repr=False)
class ToolCallContentChunk(Model):
    """
    One more piece of what a tool call gave.
    """

    tool_call_id: ToolCallId
    content: ToolCallContent
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "tool_call_content_chunk")
    WIRE: ClassVar[Wire] = {
        "tool_call_id": ("toolCallId", "str"),
        "content": ("content", "ToolCallContent"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TerminalUpdate(Model):
    """
    What has changed about a terminal of the agent's, or that there is one: C{UNSET} leaves a member as it is, L{None}
    clears it, and what is in C{meta} goes in key by key.  C{output} replaces all output, and an C{exit_status} says
    that the command has ended.
    """

    terminal_id: TerminalId
    command: str | Unset | None = UNSET
    cwd: AbsolutePath | Unset | None = UNSET
    output: TerminalOutput | Unset | None = UNSET
    exit_status: TerminalExitStatus | Unset | None = UNSET
    size: TerminalSize | Unset | None = UNSET
    capabilities: TerminalCapabilities | Unset | None = UNSET
    meta: dict[str, Any] | Unset | None = UNSET

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "terminal_update")
    WIRE: ClassVar[Wire] = {
        "terminal_id": ("terminalId", "str"),
        "command": ("command", "str", "lenient"),
        "cwd": ("cwd", "str", "lenient"),
        "output": ("output", "TerminalOutput", "lenient"),
        "exit_status": ("exitStatus", "TerminalExitStatus", "lenient"),
        "size": ("size", "TerminalSize", "lenient"),
        "capabilities": ("capabilities", "TerminalCapabilities", "lenient"),
        "meta": ("_meta", "map", "lenient"),
    }


@define(kw_only=True, eq=False, repr=False)
class TerminalOutputChunk(Model):
    """
    What a command has written since, in base64: decode it, then append its bytes.
    """

    terminal_id: TerminalId
    data: str
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "terminal_output_chunk")
    WIRE: ClassVar[Wire] = {
        "terminal_id": ("terminalId", "str"),
        "data": ("data", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PlanUpdate(Model):
    """
    One plan, by its id, which this replaces.
    """

    plan: PlanUpdateContent
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "plan_update")
    WIRE: ClassVar[Wire] = {
        "plan": ("plan", "PlanUpdateContent"),
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
        "available_commands": ("availableCommands", "list[AvailableCommand]", "skip"),
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
        "config_options": ("configOptions", "list[SessionConfigOption]", "skip"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionInfoUpdate(Model):
    """
    The session's title or date has changed: C{UNSET} leaves a member as it is, L{None} clears it, and what is in
    C{meta} goes in key by key.
    """

    title: str | Unset | None = UNSET
    updated_at: str | Unset | None = UNSET
    meta: dict[str, Any] | Unset | None = UNSET

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "session_info_update")
    WIRE: ClassVar[Wire] = {
        "title": ("title", "str", "lenient"),
        "updated_at": ("updatedAt", "str", "lenient"),
        "meta": ("_meta", "map", "lenient"),
    }


@define(kw_only=True, eq=False, repr=False)
class UsageUpdate(Model):
    """
    How much of its context window a session uses, and what it has cost: C{UNSET} leaves the cost as it is, L{None}
    clears it.
    """

    used: int
    size: int
    cost: Cost | Unset | None = UNSET
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
    The state of one compaction of the session's history: C{UNSET} leaves a member as it is, L{None} clears it, and what
    is in C{meta} goes in key by key.
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
class TerminalOutput(Model):
    """
    All that a command has written, in base64.
    """

    data: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "data": ("data", "str"),
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
        "exit_code": ("exitCode", "int64", "lenient"),
        "signal": ("signal", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TerminalSize(Model):
    """
    The columns and rows that a command runs with.
    """

    cols: int
    rows: int
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "cols": ("cols", "uint16"),
        "rows": ("rows", "uint16"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TerminalCapabilities(Model):
    """
    What a client may do with a terminal.
    """

    cancel: TerminalCancelCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "cancel": ("cancel", "TerminalCancelCapabilities", "lenient"),
        "meta": META,
    }


class TerminalCancelCapabilities(MetaOnly):
    """
    The terminal's command can be stopped.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class PlanItems(Model):
    """
    A plan as a list of steps.
    """

    plan_id: PlanId
    entries: Sequence[PlanEntry]
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "items")
    WIRE: ClassVar[Wire] = {
        "plan_id": ("planId", "str"),
        "entries": ("entries", "list[PlanEntry]", "skip"),
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
class ClientCapabilities(Model):
    """
    What a client offers to agents, and its user's ways to answer them.
    """

    auth: ClientAuthCapabilities | None = None
    elicitation: ElicitationCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "auth": ("auth", "ClientAuthCapabilities", "lenient"),
        "elicitation": ("elicitation", "ElicitationCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class InitializeRequest(Model):
    """
    The first message of a client: the newest version it speaks, what it can do, and who it is.
    """

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: ClientCapabilities = Factory(ClientCapabilities)
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "protocol_version": ("protocolVersion", "uint16"),
        "info": ("info", "Implementation"),
        "capabilities": ("capabilities", "ClientCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ClientAuthCapabilities(Model):
    """
    Which ways to authenticate the client can run.
    """

    terminal: TerminalAuthCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "terminal": ("terminal", "TerminalAuthCapabilities", "lenient"),
        "meta": META,
    }


class TerminalAuthCapabilities(MetaOnly):
    """
    The client can run the agent's program in a terminal, for its user to log in.
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
class LoginAuthRequest(Model):
    """
    Authenticate in one of the ways that the agent named.
    """

    method_id: AuthMethodId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "method_id": ("methodId", "str"),
        "meta": META,
    }


class LogoutAuthRequest(MetaOnly):
    """
    Forget the credentials.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class NewSessionRequest(Model):
    """
    Begin a conversation in a directory, with these MCP servers.
    """

    cwd: AbsolutePath
    additional_directories: Sequence[AbsolutePath] = Factory(list)
    mcp_servers: Sequence[McpServer] = Factory(list)
    system_prompt: SystemPrompt | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "cwd": ("cwd", "str"),
        "additional_directories": ("additionalDirectories", "list[str]", "omit"),
        "mcp_servers": ("mcpServers", "list[McpServer]", "omit"),
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
    headers: Sequence[HttpHeader] = Factory(list)
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "http")
    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "url": ("url", "str"),
        "headers": ("headers", "list[HttpHeader]", "omit"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class McpServerStdio(Model):
    """
    An MCP server to be started as a program.  Its environment may hold secrets.
    """

    name: str
    command: AbsolutePath
    args: Sequence[str] = Factory(list)
    env: Sequence[EnvVariable] = Factory(list)
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "stdio")
    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "command": ("command", "str"),
        "args": ("args", "list[str]", "omit"),
        "env": ("env", "list[EnvVariable]", "omit"),
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
class ListSessionsRequest(Model):
    """
    Ask for sessions, those of one directory perhaps, a page at a time.
    """

    cwd: AbsolutePath | None = None
    cursor: SessionListCursor | None = None
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
    Take up an earlier session; C{replay_from} has its history sent as updates before the answer.
    """

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: Sequence[AbsolutePath] = Factory(list)
    mcp_servers: Sequence[McpServer] = Factory(list)
    replay_from: ReplayFrom | None = None
    system_prompt: SystemPrompt | None = None  # unstable
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "cwd": ("cwd", "str"),
        "additional_directories": ("additionalDirectories", "list[str]", "omit"),
        "mcp_servers": ("mcpServers", "list[McpServer]", "omit"),
        "replay_from": ("replayFrom", "ReplayFrom"),
        "system_prompt": ("systemPrompt", "SystemPrompt"),
        "meta": META,
    }


class ReplayFromStart(MetaOnly):
    """
    The whole history is to be replayed.
    """

    __slots__ = ()

    TAG: ClassVar[tuple[str, str] | None] = ("type", "start")


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
class CancelToolCallRequest(Model):
    """
    Stop one tool call, which said that it can be stopped.
    """

    session_id: SessionId
    tool_call_id: ToolCallId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "tool_call_id": ("toolCallId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CancelTerminalRequest(Model):
    """
    Stop the command of one terminal, which said that it can be stopped.
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
class SetSessionConfigOptionRequest(Model):
    """
    Change a setting of a session: C{type} is C{id} for the id of a listed value, C{boolean} for on or off; of other
    types, C{extra} holds what else they bring.
    """

    session_id: SessionId
    config_id: SessionConfigId
    type: Literal["id", "boolean"] | str
    value: Any
    meta: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "config_id": ("configId", "str"),
        "type": ("type", "str"),
        "value": ("value", "typed_value"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PromptRequest(Model):
    """
    What the user says.  Its answer says that it is part of the conversation, not that work is done.
    """

    session_id: SessionId
    prompt: Sequence[ContentBlock]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "prompt": ("prompt", "list[ContentBlock]"),
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
    Nobody decided: the work was cancelled, or the user looked away.
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
        "content": ("content", "dict[any]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CancelSessionNotification(Model):
    """
    Stop the foreground work of a session, and drop the prompts that it still holds.
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
        "request_id": ("requestId", "strict_id"),
        "meta": META,
    }


RequestPermissionSubject: TypeAlias = ToolCallPermissionSubject | CommandPermissionSubject | UnknownVariant
ToolCallContent: TypeAlias = Content | Diff | Terminal | UnknownVariant
ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownVariant
EmbeddedResourceResource: TypeAlias = TextResourceContents | BlobResourceContents
DiffChange: TypeAlias = DiffAdd | DiffDelete | DiffModify | DiffMove | DiffCopy | UnknownVariant
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
AvailableCommand: TypeAlias = Command | UnknownVariant
AvailableCommandInput: TypeAlias = TextCommandInput | UnknownVariant

if TYPE_CHECKING:
    StateUpdate: TypeAlias = (
        RunningStateUpdate | IdleStateUpdate | RequiresActionStateUpdate | UnknownStateUpdate | UnknownVariant
    )
else:
    StateUpdate = RunningStateUpdate | IdleStateUpdate | RequiresActionStateUpdate | UnknownVariant


if TYPE_CHECKING:
    BackgroundWork: TypeAlias = BackgroundTerminal | BackgroundToolCall | BackgroundSubagent | UnknownVariant
else:
    BackgroundWork = BackgroundTerminal | BackgroundToolCall | UnknownVariant


if TYPE_CHECKING:
    SessionUpdate: TypeAlias = (
        UserMessageChunk
        | UserMessage
        | AgentMessageChunk
        | AgentMessage
        | AgentThoughtChunk
        | AgentThought
        | RunningStateUpdate
        | IdleStateUpdate
        | RequiresActionStateUpdate
        | UnknownStateUpdate
        | ToolCallContentChunk
        | ToolCallUpdate
        | TerminalUpdate
        | TerminalOutputChunk
        | PlanUpdate
        | PlanRemoved
        | AvailableCommandsUpdate
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
        | UserMessage
        | AgentMessageChunk
        | AgentMessage
        | AgentThoughtChunk
        | AgentThought
        | RunningStateUpdate
        | IdleStateUpdate
        | RequiresActionStateUpdate
        | ToolCallContentChunk
        | ToolCallUpdate
        | TerminalUpdate
        | TerminalOutputChunk
        | PlanUpdate
        | AvailableCommandsUpdate
        | ConfigOptionUpdate
        | SessionInfoUpdate
        | UsageUpdate
        | Notice
        | CompactionUpdate
        | CompactionSummaryChunk
        | UnknownVariant
    )


if TYPE_CHECKING:
    PlanUpdateContent: TypeAlias = PlanItems | PlanFile | PlanMarkdown | UnknownVariant
else:
    PlanUpdateContent = PlanItems | UnknownVariant


if TYPE_CHECKING:
    McpServer: TypeAlias = McpServerHttp | McpServerAcp | McpServerStdio | UnknownVariant
else:
    McpServer = McpServerHttp | McpServerStdio | UnknownVariant

ReplayFrom: TypeAlias = ReplayFromStart | UnknownVariant
RequestPermissionOutcome: TypeAlias = CancelledPermissionOutcome | SelectedPermissionOutcome | UnknownVariant

UNIONS: dict[str, Alternatives] = {
    "RequestPermissionSubject": Tagged(
        "type",
        {
            "tool_call": "ToolCallPermissionSubject",
            "command": "CommandPermissionSubject",
        },
    ),
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
    "DiffChange": Tagged(
        "operation",
        {
            "add": "DiffAdd",
            "delete": "DiffDelete",
            "modify": "DiffModify",
            "move": "DiffMove",
            "copy": "DiffCopy",
        },
    ),
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
    ),
    "SessionConfigOption": Tagged(
        "type",
        {
            "select": "SessionConfigSelect",
            "boolean": "SessionConfigBoolean",
        },
    ),
    "SessionConfigSelectOptions": ByItems(
        "groupId", present="SessionConfigSelectGroup", absent="SessionConfigSelectOption"
    ),
    "AvailableCommand": Tagged(
        "type",
        {
            "command": "Command",
        },
        default="Command",
    ),
    "AvailableCommandInput": Tagged(
        "type",
        {
            "text": "TextCommandInput",
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
    "BackgroundWork": Tagged(
        "type",
        {
            "terminal": "BackgroundTerminal",
            "tool_call": "BackgroundToolCall",
            "subagent": "BackgroundSubagent",
        },
    ),
    "SessionUpdate": Tagged(
        "sessionUpdate",
        {
            "user_message_chunk": "UserMessageChunk",
            "user_message": "UserMessage",
            "agent_message_chunk": "AgentMessageChunk",
            "agent_message": "AgentMessage",
            "agent_thought_chunk": "AgentThoughtChunk",
            "agent_thought": "AgentThought",
            "state_update": "StateUpdate",
            "tool_call_content_chunk": "ToolCallContentChunk",
            "tool_call_update": "ToolCallUpdate",
            "terminal_update": "TerminalUpdate",
            "terminal_output_chunk": "TerminalOutputChunk",
            "plan_update": "PlanUpdate",
            "plan_removed": "PlanRemoved",
            "available_commands_update": "AvailableCommandsUpdate",
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
    "PlanUpdateContent": Tagged(
        "type",
        {
            "items": "PlanItems",
            "file": "PlanFile",
            "markdown": "PlanMarkdown",
        },
    ),
    "McpServer": Tagged(
        "type",
        {
            "http": "McpServerHttp",
            "acp": "McpServerAcp",
            "stdio": "McpServerStdio",
        },
    ),
    "ReplayFrom": Tagged(
        "type",
        {
            "start": "ReplayFromStart",
        },
    ),
    "RequestPermissionOutcome": Tagged(
        "outcome",
        {
            "cancelled": "CancelledPermissionOutcome",
            "selected": "SelectedPermissionOutcome",
        },
    ),
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        from acp_twisted.schema import v2_unstable  # noqa: PLC0415

        try:
            value = vars(v2_unstable)[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
        globals()[name] = value
        return value
