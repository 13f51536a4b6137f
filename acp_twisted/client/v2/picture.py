"""
What the picture of a session of version 2 is made of: values that never change, and what they grow from.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from attrs import frozen

from acp_twisted.schema import v2
from acp_twisted.schema.values import UNSET, Unset

_T = TypeVar("_T")

Role: TypeAlias = Literal["user", "agent", "thought"]

FINISHED = frozenset({"completed", "failed", "cancelled"})
"""The states that a tool call does not leave.  One that nobody knows is none of them."""


@frozen(kw_only=True)
class Message:
    """
    A message as it stands.

    @ivar role: the user, the agent, or the agent's reasoning.
    @ivar message_id: the agent's name for it.
    @ivar content: its blocks; pieces of text are not joined.
    """

    role: Role
    message_id: str
    content: tuple[v2.ContentBlock, ...] = ()
    meta: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """
        All of its text.
        """
        return "".join(each.text for each in self.content if isinstance(each, v2.TextContent))


@frozen(kw_only=True)
class TrackedToolCall:
    """
    A tool call as it stands.

    @ivar status: what the agent said last; C{"cancelled"} also from the moment on when this client cancelled the work
        that it belongs to, until the agent says otherwise.
    @ivar cancellable: whether the agent takes C{tool_call/cancel} for it now.
    """

    tool_call_id: str
    name: str | None = None
    title: str | None = None
    kind: v2.ToolKind = "other"
    status: v2.ToolCallStatus = "pending"
    content: tuple[v2.ToolCallContent, ...] = ()
    locations: tuple[v2.ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    cancellable: bool = False
    meta: Mapping[str, Any] | None = None

    @property
    def finished(self) -> bool:
        """
        Whether it is completed, failed or cancelled.
        """
        return self.status in FINISHED


@frozen(kw_only=True)
class TrackedTerminal:
    """
    A terminal of the agent's as it stands.

    @ivar output: its bytes, from all snapshots and chunks.
    @ivar exit_status: L{None} while it runs.
    @ivar cancellable: whether the agent takes C{terminal/cancel} for it now.
    """

    terminal_id: str
    command: str | None = None
    cwd: str | None = None
    output: bytes = b""
    exit_status: v2.TerminalExitStatus | None = None
    size: v2.TerminalSize | None = None
    cancellable: bool = False
    meta: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """
        The output as text; what is no UTF-8 in it is replaced.
        """
        return self.output.decode("utf-8", "replace")


@frozen(kw_only=True)
class Compaction:
    """
    A compaction of the session's history.
    """

    compaction_id: str
    status: v2.CompactionStatus = "in_progress"
    summary: tuple[v2.ContentBlock, ...] = ()
    error: str | None = None
    meta: Mapping[str, Any] | None = None


@frozen(kw_only=True)
class PassedMessage:
    """
    Unstable.  A message from one session to another.
    """

    message_id: str
    sender_session_id: str | None = None
    recipient_session_id: str | None = None
    sender_message_id: str | None = None
    recipient_message_id: str | None = None
    content: tuple[v2.ContentBlock, ...] = ()
    meta: Mapping[str, Any] | None = None


Entry: TypeAlias = Message | TrackedToolCall | Compaction | PassedMessage
"""One thing of the conversation."""


@frozen(kw_only=True)
class SessionSnapshot:
    """
    A session at one moment.

    @ivar timeline: messages, tool calls and compactions, in the order in which they began.
    @ivar terminals: the agent's terminals by their id.
    @ivar plans: the agent's plans by their id.
    @ivar state: C{"idle"}, C{"running"}, C{"requires_action"}, or a state that this version does not know, in which the
        agent is busy all the same.
    @ivar stop_reason: why the foreground work ended last; L{None} where the agent does not say, and while it works.
    @ivar background: what runs beside the foreground work; L{None} where the agent does not report it.
    @ivar config_options: all settings, the most important first.
    @ivar commands: the slash commands.
    @ivar usage: how full the context window is, and what the session has cost.
    @ivar title: L{None} when it has none, or none any more.
    @ivar notices: what the user should see besides; the last of them.
    @ivar subagents: unstable; the sessions that this one has begun, by their id.
    @ivar other: the updates that fit nowhere else, unknown ones among them; the last of them.
    """

    timeline: tuple[Entry, ...]
    terminals: Mapping[str, TrackedTerminal]
    plans: Mapping[str, v2.PlanUpdateContent]
    state: str
    stop_reason: str | None
    background: tuple[v2.BackgroundWork, ...] | None
    config_options: tuple[v2.SessionConfigOption, ...]
    commands: tuple[v2.AvailableCommand, ...]
    usage: v2.UsageUpdate | None
    title: str | None
    updated_at: str | None
    meta: Mapping[str, Any] | None
    notices: tuple[v2.Notice, ...]
    subagents: Mapping[str, v2.SubagentUpdate]
    other: tuple[v2.SessionUpdate, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """
        The messages, thoughts among them.
        """
        return tuple(each for each in self.timeline if isinstance(each, Message))

    @property
    def tool_calls(self) -> tuple[TrackedToolCall, ...]:
        """
        The tool calls.
        """
        return tuple(each for each in self.timeline if isinstance(each, TrackedToolCall))


# ---- the algebra of upserts


def patched(before: _T | None, told: _T | Unset | None) -> _T | None:
    """
    A member after an update: C{UNSET} leaves it, L{None} clears it, anything else replaces it.
    """
    return before if isinstance(told, Unset) else told


def merged(before: dict[str, Any] | None, told: Mapping[str, Any] | Unset | None) -> dict[str, Any] | None:
    """
    An entity's C{_meta} after an update: it goes in key by key, and a key that is null is removed.
    """
    if isinstance(told, Unset):
        return before
    if told is None:
        return None
    after = {**(before or {}), **told}
    return {key: value for key, value in after.items() if value is not None} or None


class Growing:
    """
    Something that updates change.  It is made a value of the above only when somebody looks, so that a change costs the
    same however large it has become.
    """

    __slots__ = ("_made", "meta")

    def __init__(self) -> None:
        self._made: Any = None
        self.meta: dict[str, Any] | None = None

    @property
    def view(self) -> Any:
        """
        It as it stands.
        """
        if self._made is None:
            self._made = self.make()
        return self._made

    def make(self) -> Any:
        """
        What L{view} gives out.
        """
        raise NotImplementedError

    def patch_meta(self, told: Mapping[str, Any] | Unset | None) -> None:
        """
        An update came, with this C{_meta}.
        """
        self._made = None
        self.meta = merged(self.meta, told)


class GrowingBlocks(Growing):
    """
    Something whose content grows block by block.
    """

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Any] = []

    def append(self, block: Any) -> None:
        """
        A chunk came.  Its C{_meta} is the chunk's own.
        """
        self._made = None
        self.blocks.append(block)

    def patch_blocks(self, told: Sequence[Any] | Unset | None) -> None:
        """
        A snapshot of the content came, or none.
        """
        self._made = None
        if not isinstance(told, Unset):
            self.blocks = list(told or ())


class GrowingMessage(GrowingBlocks):
    """
    A message.
    """

    __slots__ = ("message_id", "role")

    def __init__(self, role: Role, message_id: str) -> None:
        super().__init__()
        self.role = role
        self.message_id = message_id

    def make(self) -> Message:
        """
        See L{Growing}.
        """
        return Message(role=self.role, message_id=self.message_id, content=tuple(self.blocks), meta=self.meta)


class GrowingMembers(GrowingBlocks):
    """
    Something with members that updates change one by one.

    @cvar KIND: the class that shows it.
    @cvar ID: the name of its id.
    @cvar BLOCKS: the name of the member that grows.
    @cvar NAMES: the names of the members.
    """

    KIND: type[Any]
    ID: str
    BLOCKS: str
    NAMES: tuple[str, ...]

    __slots__ = ("members",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.members: dict[str, Any] = {self.ID: name}

    def patch(self, update: Any) -> None:
        """
        An update came.
        """
        for name in self.NAMES:
            told = getattr(update, name)
            if told is None:
                self.members.pop(name, None)
            elif told is not UNSET:
                self.members[name] = told
        self.patch_blocks(getattr(update, self.BLOCKS))
        self.patch_meta(update.meta)

    def make(self) -> Any:
        """
        See L{Growing}.
        """
        return self.KIND(**self.members, **{self.BLOCKS: tuple(self.blocks)}, meta=self.meta)


class GrowingCompaction(GrowingMembers):
    """
    A compaction.
    """

    __slots__ = ()
    KIND = Compaction
    ID = "compaction_id"
    BLOCKS = "summary"
    NAMES = ("status", "error")


class GrowingPassed(GrowingMembers):
    """
    A message between sessions.
    """

    __slots__ = ()
    KIND = PassedMessage
    ID = "message_id"
    BLOCKS = "content"
    NAMES = ("sender_session_id", "recipient_session_id", "sender_message_id", "recipient_message_id")


class GrowingToolCall(GrowingMembers):
    """
    A tool call.
    """

    __slots__ = ("marked",)
    KIND = TrackedToolCall
    ID = "tool_call_id"
    BLOCKS = "content"
    NAMES = ("name", "title", "kind", "status", "raw_input", "raw_output", "capabilities", "locations")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.marked = False

    @property
    def finished(self) -> bool:
        """
        Whether it is completed, failed or cancelled.
        """
        return self.marked or self.members.get("status") in FINISHED

    def mark(self) -> None:
        """
        The client has cancelled the work that it belongs to.
        """
        self.marked = True
        self._made = None

    def make(self) -> TrackedToolCall:
        """
        See L{Growing}.
        """
        members = dict(self.members)
        capabilities = members.pop("capabilities", None)
        members["locations"] = tuple(members.get("locations") or ())
        if self.marked:
            members["status"] = "cancelled"
        return TrackedToolCall(
            **members,
            content=tuple(self.blocks),
            cancellable=capabilities is not None and capabilities.cancel is not None,
            meta=self.meta,
        )


class GrowingTerminal(Growing):
    """
    A terminal, whose output is bytes.
    """

    __slots__ = ("members", "output")

    NAMES = ("command", "cwd", "exit_status", "size", "capabilities")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.members: dict[str, Any] = {"terminal_id": name}
        self.output = bytearray()

    def patch(self, update: v2.TerminalUpdate) -> None:
        """
        An update came.

        @raise ValueError: when its output is no base64; the rest of it counts.
        """
        for name in self.NAMES:
            told = getattr(update, name)
            if told is None:
                self.members.pop(name, None)
            elif told is not UNSET:
                self.members[name] = told
        self.patch_meta(update.meta)
        if update.output is None:
            self.output = bytearray()
        elif not isinstance(update.output, Unset):
            self.output = bytearray(_decoded(update.output.data))

    def append(self, data: str) -> None:
        """
        A chunk came, which may begin and end in the midst of a character.

        @raise ValueError: when it is no base64.
        """
        self.output += _decoded(data)
        self._made = None

    def make(self) -> TrackedTerminal:
        """
        See L{Growing}.
        """
        members = dict(self.members)
        capabilities = members.pop("capabilities", None)
        return TrackedTerminal(
            **members,
            output=bytes(self.output),
            cancellable=capabilities is not None and capabilities.cancel is not None,
            meta=self.meta,
        )


def _decoded(data: str) -> bytes:
    """
    What base64 stands for.

    @raise ValueError: when it is none.
    """
    if len(data) % 4:
        raise ValueError("no whole groups of base64")  # older ones of Python take a lone "=" for nothing
    return b64decode(data, validate=True)
