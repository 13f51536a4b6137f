"""
Protocol version 2: the types that are not settled yet.

Made by C{tools/generate_schema.py}: change that, not this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from attrs import Factory, define

from acp_twisted.schema.v2 import InitializeRequest, InitializeResponse
from acp_twisted.schema.values import META, UNSET, MetaOnly, Model, Unset, Wire

if TYPE_CHECKING:
    from acp_twisted.schema.v2 import (
        AbsolutePath,
        AvailableCommand,
        BackgroundWork,
        ContentBlock,
        McpServer,
        MessageId,
        PlanId,
        SessionConfigOption,
        SessionId,
        StateUpdate,
    )

McpServerAcpId: TypeAlias = str
McpRequestId: TypeAlias = str
ProviderId: TypeAlias = str
LlmProtocol: TypeAlias = Literal["anthropic", "openai", "azure", "vertex", "bedrock"] | str
AuthState: TypeAlias = Literal["authenticated", "unauthenticated", "not_required", "unknown"] | str
SessionStatus: TypeAlias = Literal["open", "saved"] | str
SystemPromptMode: TypeAlias = Literal["append", "override"] | str
SessionArchiveFilter: TypeAlias = Literal["exclude", "include", "only"] | str
ProxySuccessorResponse: TypeAlias = Any


@define(kw_only=True, eq=False, repr=False)
class MessageMcpRequest(Model):
    """
    Unstable.  A request to an MCP server that the client serves.
    """

    server_id: McpServerAcpId
    request_id: McpRequestId
    method: str
    params: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "server_id": ("serverId", "str"),
        "request_id": ("requestId", "str"),
        "method": ("method", "str"),
        "params": ("params", "map"),
        "meta": META,
    }


class McpAcpCapabilities(MetaOnly):
    """
    Unstable.  The agent reaches MCP servers that the client serves, through this connection.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class SessionSystemPromptCapabilities(Model):
    """
    Unstable.  The agent takes a system prompt from the client.
    """

    mode: SessionSystemPromptModeCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "mode": ("mode", "SessionSystemPromptModeCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionSystemPromptModeCapabilities(Model):
    """
    Unstable.  What a client's system prompt may do besides being appended.
    """

    override: SessionSystemPromptOverrideCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "override": ("override", "SessionSystemPromptOverrideCapabilities", "lenient"),
        "meta": META,
    }


class SessionSystemPromptOverrideCapabilities(MetaOnly):
    """
    Unstable.  A client's system prompt may replace the agent's own.
    """

    __slots__ = ()


class SessionForkCapabilities(MetaOnly):
    """
    Unstable.  The agent can copy a session into a new one.
    """

    __slots__ = ()


class SessionArchiveCapabilities(MetaOnly):
    """
    Unstable.  The agent can put sessions aside and bring them back.
    """

    __slots__ = ()


class SessionStatusCapabilities(MetaOnly):
    """
    Unstable.  The agent tells whether a session is open.
    """

    __slots__ = ()


class SessionTitleCapabilities(MetaOnly):
    """
    Unstable.  The agent lets a client name its sessions.
    """

    __slots__ = ()


class AuthStatusCapabilities(MetaOnly):
    """
    Unstable.  The agent tells whether it is authenticated.
    """

    __slots__ = ()


class ProvidersCapabilities(MetaOnly):
    """
    Unstable.  The agent lets a client choose where its language model is served.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class ListProvidersResponse(Model):
    """
    Unstable.  The providers that can be configured.
    """

    providers: Sequence[ProviderInfo]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "providers": ("providers", "list[ProviderInfo]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ProviderInfo(Model):
    """
    Unstable.  One provider: which protocols it may speak, and how it is set now.
    """

    provider_id: ProviderId
    supported: Sequence[LlmProtocol]
    required: bool
    current: ProviderCurrentConfig | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "provider_id": ("providerId", "str"),
        "supported": ("supported", "list[str]", "lenient skip"),
        "required": ("required", "bool"),
        "current": ("current", "ProviderCurrentConfig"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ProviderCurrentConfig(Model):
    """
    Unstable.  How a provider is set: its protocol and its address.
    """

    api_type: LlmProtocol
    base_url: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "api_type": ("apiType", "str"),
        "base_url": ("baseUrl", "str"),
        "meta": META,
    }


class SetProviderResponse(MetaOnly):
    """
    Unstable.  The provider is set.
    """

    __slots__ = ()


class DisableProviderResponse(MetaOnly):
    """
    Unstable.  The provider is off.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class AuthStatusResponse(Model):
    """
    Unstable.  Whether the agent is authenticated, and as whom.
    """

    state: AuthState
    accounts: Sequence[AuthAccount] = Factory(list)
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "state": ("state", "str"),
        "accounts": ("accounts", "list[AuthAccount]", "lenient skip omit"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class AuthAccount(Model):
    """
    Unstable.  One account that the agent knows.
    """

    label: str
    active: bool | None = None
    name: str | None = None
    email: str | None = None
    organization: str | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "label": ("label", "str"),
        "active": ("active", "bool", "lenient"),
        "name": ("name", "str", "lenient"),
        "email": ("email", "str", "lenient"),
        "organization": ("organization", "str", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ForkSessionResponse(Model):
    """
    Unstable.  The copy's id, its settings and its commands.
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


class ArchiveSessionResponse(MetaOnly):
    """
    Unstable.  The session is put aside.
    """

    __slots__ = ()


class UnarchiveSessionResponse(MetaOnly):
    """
    Unstable.  The session is back.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class SessionStatusResponse(Model):
    """
    Unstable.  Whether the session is open, and what it is doing if it is.
    """

    status: SessionStatus
    state: StateUpdate | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "status": ("status", "str"),
        "state": ("state", "StateUpdate", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class UnknownStateUpdate(Model):
    """
    Unstable.  The agent does not know what the session is doing.
    """

    background: Sequence[BackgroundWork] | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("state", "unknown")
    WIRE: ClassVar[Wire] = {
        "background": ("background", "list[BackgroundWork]", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class BackgroundSubagent(Model):
    """
    Unstable.  A subagent's session that goes on in the background.
    """

    session_id: SessionId
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "subagent")
    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Usage(Model):
    """
    Unstable.  The tokens that a turn or a session took.
    """

    total_tokens: int
    input_tokens: int
    output_tokens: int
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "total_tokens": ("totalTokens", "uint64"),
        "input_tokens": ("inputTokens", "uint64"),
        "output_tokens": ("outputTokens", "uint64"),
        "thought_tokens": ("thoughtTokens", "uint64", "lenient"),
        "cached_read_tokens": ("cachedReadTokens", "uint64", "lenient"),
        "cached_write_tokens": ("cachedWriteTokens", "uint64", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SetSessionTitleResponse(Model):
    """
    Unstable.  The name that the session has now.
    """

    title: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "title": ("title", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PlanRemoved(Model):
    """
    Unstable.  A plan is dropped.
    """

    plan_id: PlanId
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "plan_removed")
    WIRE: ClassVar[Wire] = {
        "plan_id": ("planId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SubagentUpdate(Model):
    """
    Unstable.  What has changed about a subagent's session: C{UNSET} leaves a member as it is, L{None} clears it, and
    what is in C{meta} goes in key by key.
    """

    session_id: SessionId
    title: str | Unset | None = UNSET
    description: str | Unset | None = UNSET
    capabilities: SubagentSessionCapabilities | Unset | None = UNSET
    state: StateUpdate | Unset | None = UNSET
    cwd: AbsolutePath | Unset | None = UNSET
    additional_directories: Sequence[AbsolutePath] | Unset | None = UNSET
    meta: dict[str, Any] | Unset | None = UNSET

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "subagent_update")
    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "title": ("title", "str", "lenient"),
        "description": ("description", "str", "lenient"),
        "capabilities": ("capabilities", "SubagentSessionCapabilities", "lenient"),
        "state": ("state", "StateUpdate", "lenient"),
        "cwd": ("cwd", "str"),
        "additional_directories": ("additionalDirectories", "list[str]"),
        "meta": ("_meta", "map", "lenient"),
    }


@define(kw_only=True, eq=False, repr=False)
class SessionMessage(Model):
    """
    Unstable.  A message from one session to another: C{UNSET} leaves a member as it is, L{None} clears it, and what is
    in C{meta} goes in key by key.
    """

    message_id: MessageId
    sender_session_id: SessionId | Unset | None = UNSET
    recipient_session_id: SessionId | Unset | None = UNSET
    sender_message_id: MessageId | Unset | None = UNSET
    recipient_message_id: MessageId | Unset | None = UNSET
    content: Sequence[ContentBlock] | Unset | None = UNSET
    meta: dict[str, Any] | Unset | None = UNSET

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "session_message")
    WIRE: ClassVar[Wire] = {
        "message_id": ("messageId", "str"),
        "sender_session_id": ("senderSessionId", "str", "lenient"),
        "recipient_session_id": ("recipientSessionId", "str", "lenient"),
        "sender_message_id": ("senderMessageId", "str", "lenient"),
        "recipient_message_id": ("recipientMessageId", "str", "lenient"),
        "content": ("content", "list[ContentBlock]", "lenient skip"),
        "meta": ("_meta", "map", "lenient"),
    }


@define(kw_only=True, eq=False, repr=False)
class SessionMessageChunk(Model):
    """
    Unstable.  A piece of a message between sessions.
    """

    message_id: MessageId
    content: ContentBlock
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("sessionUpdate", "session_message_chunk")
    WIRE: ClassVar[Wire] = {
        "message_id": ("messageId", "str"),
        "content": ("content", "ContentBlock"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PlanFile(Model):
    """
    Unstable.  A plan that stands in a file.
    """

    plan_id: PlanId
    uri: str
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "file")
    WIRE: ClassVar[Wire] = {
        "plan_id": ("planId", "str"),
        "uri": ("uri", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class PlanMarkdown(Model):
    """
    Unstable.  A plan as a text in Markdown.
    """

    plan_id: PlanId
    content: str
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "markdown")
    WIRE: ClassVar[Wire] = {
        "plan_id": ("planId", "str"),
        "content": ("content", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SubagentSessionCapabilities(Model):
    """
    Unstable.  What a client may do with a subagent's session.
    """

    cancel: SessionCancelCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "cancel": ("cancel", "SessionCancelCapabilities", "lenient"),
        "meta": META,
    }


class SessionCancelCapabilities(MetaOnly):
    """
    Unstable.  The session can be cancelled.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class AuthStatusUpdateNotification(Model):
    """
    Unstable.  The agent's authentication changed; this is the whole new state.
    """

    state: AuthState
    accounts: Sequence[AuthAccount] = Factory(list)
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "state": ("state", "str"),
        "accounts": ("accounts", "list[AuthAccount]", "lenient skip omit"),
        "meta": META,
    }


class ListProvidersRequest(MetaOnly):
    """
    Unstable.  Ask which providers of language models can be configured.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class SetProviderRequest(Model):
    """
    Unstable.  Point a provider at an address.  The headers may hold secrets.
    """

    provider_id: ProviderId
    api_type: LlmProtocol
    base_url: str
    headers: dict[str, str] = Factory(dict)
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "provider_id": ("providerId", "str"),
        "api_type": ("apiType", "str"),
        "base_url": ("baseUrl", "str"),
        "headers": ("headers", "dict[str]", "omit"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class DisableProviderRequest(Model):
    """
    Unstable.  Turn a provider off.
    """

    provider_id: ProviderId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "provider_id": ("providerId", "str"),
        "meta": META,
    }


class AuthStatusRequest(MetaOnly):
    """
    Unstable.  Ask whether the agent is authenticated.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class McpServerAcp(Model):
    """
    Unstable.  An MCP server that the client itself serves, through this connection.
    """

    name: str
    server_id: McpServerAcpId
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("type", "acp")
    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "server_id": ("serverId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SystemPrompt(Model):
    """
    Unstable.  What a client adds to the agent's system prompt, or puts in its place.
    """

    mode: SystemPromptMode
    content: Sequence[ContentBlock]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "mode": ("mode", "str"),
        "content": ("content", "list[ContentBlock]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ForkSessionRequest(Model):
    """
    Unstable.  Copy a session into a new one.
    """

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: Sequence[AbsolutePath] = Factory(list)
    mcp_servers: Sequence[McpServer] = Factory(list)
    system_prompt: SystemPrompt | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "cwd": ("cwd", "str"),
        "additional_directories": ("additionalDirectories", "list[str]", "omit"),
        "mcp_servers": ("mcpServers", "list[McpServer]", "omit"),
        "system_prompt": ("systemPrompt", "SystemPrompt"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class ArchiveSessionRequest(Model):
    """
    Unstable.  Put a session aside.
    """

    session_id: SessionId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class UnarchiveSessionRequest(Model):
    """
    Unstable.  Bring an archived session back.
    """

    session_id: SessionId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SessionStatusRequest(Model):
    """
    Unstable.  Ask whether a session is open.
    """

    session_id: SessionId
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SetSessionTitleRequest(Model):
    """
    Unstable.  Name a session.
    """

    session_id: SessionId
    title: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "title": ("title", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class MessageMcpResponse(Model):
    """
    Unstable.  The MCP server's answer: a result, or an error.
    """

    result: Any | Unset = UNSET
    error: McpError | None = None
    meta: dict[str, Any] | None = None

    ONE_OF: ClassVar[tuple[str, ...]] = ("result", "error")
    WIRE: ClassVar[Wire] = {
        "result": ("result", "any"),
        "error": ("error", "McpError"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class McpError(Model):
    """
    Unstable.  An error of an MCP server; C{extra} holds members that are not known.
    """

    code: int
    message: str
    data: Any = None
    extra: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "code": ("code", "int32"),
        "message": ("message", "str"),
        "data": ("data", "any"),
    }


@define(kw_only=True, eq=False, repr=False)
class MessageMcpNotification(Model):
    """
    Unstable.  A notification from such an MCP server, about one request to it.
    """

    server_id: McpServerAcpId
    request_id: McpRequestId
    method: str
    params: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "server_id": ("serverId", "str"),
        "request_id": ("requestId", "str"),
        "method": ("method", "str"),
        "params": ("params", "map"),
        "meta": META,
    }


class InitializeProxyRequest(InitializeRequest):
    """
    Unstable.  The greeting as a conductor sends it to a proxy in the middle of a chain.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class ProxySuccessorRequest(Model):
    """
    Unstable.  A request for the next in a chain of proxies, or from it.
    """

    method: str
    params: Any = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "method": ("method", "str"),
        "params": ("params", "any"),
        "meta": META,
    }


class InitializeProxyResponse(InitializeResponse):
    """
    Unstable.  A proxy's answer to its greeting.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class ProxySuccessorNotification(Model):
    """
    Unstable.  A notification for the next in a chain of proxies, or from it.
    """

    method: str
    params: Any = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "method": ("method", "str"),
        "params": ("params", "any"),
        "meta": META,
    }
