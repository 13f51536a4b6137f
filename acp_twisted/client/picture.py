"""
What the picture of a session is made of: values that never change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import frozen

from acp_twisted.schema import v1

Role: TypeAlias = Literal["user", "agent", "thought"]

FINISHED = frozenset({"completed", "failed", "cancelled"})
"""The states that a tool call does not leave."""


@frozen(kw_only=True)
class Message:
    """
    A message, merged from its chunks.

    @ivar role: the user, the agent, or the agent's reasoning.
    @ivar content: its blocks, as they came; pieces of text are not joined.
    @ivar message_id: the agent's name for it, if it gave one.
    """

    role: Role
    content: tuple[v1.ContentBlock, ...]
    message_id: str | None = None

    @property
    def text(self) -> str:
        """
        All of its text.
        """
        return "".join(each.text for each in self.content if isinstance(each, v1.TextContent))


@frozen(kw_only=True)
class TrackedToolCall:
    """
    A tool call as it stands, after all that was said of it.

    @ivar status: what the agent said last; or C{"cancelled"}, which version 1 has no word for, when its turn was
        cancelled before it was finished (V1C2).
    """

    tool_call_id: str
    title: str
    name: str | None = None
    kind: v1.ToolKind = "other"
    status: v1.ToolCallStatus = "pending"
    content: tuple[v1.ToolCallContent, ...] = ()
    locations: tuple[v1.ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    meta: dict[str, Any] | None = None

    @property
    def finished(self) -> bool:
        """
        Whether it is completed, failed or cancelled.
        """
        return self.status in FINISHED


Entry: TypeAlias = Message | TrackedToolCall
"""One thing of the conversation."""


@frozen(kw_only=True)
class SessionSnapshot:
    """
    A session at one moment.

    @ivar timeline: messages and tool calls, in the order in which they began.
    @ivar plan: the steps of the agent's plan.
    @ivar plans: unstable; where the agent has several plans, each by its id.
    @ivar current_mode_id: the mode that the session is in; L{None} where the agent has none.
    @ivar available_modes: the modes that it can be in.
    @ivar config_options: all settings, the most important first.
    @ivar commands: the slash commands.
    @ivar usage: how full the context window is, and what the session has cost.
    @ivar title: L{None} when it has none, or none any more.
    @ivar notices: what the user should see besides; the last of them.
    @ivar compactions: the compactions of the history, by their id.
    @ivar other: the updates that fit nowhere else, unknown ones among them; the last of them.
    """

    timeline: tuple[Entry, ...]
    plan: tuple[v1.PlanEntry, ...]
    plans: Mapping[str, v1.PlanUpdateContent]
    current_mode_id: str | None
    available_modes: tuple[v1.SessionMode, ...]
    config_options: tuple[v1.SessionConfigOption, ...]
    commands: tuple[v1.AvailableCommand, ...]
    usage: v1.UsageUpdate | None
    title: str | None
    updated_at: str | None
    notices: tuple[v1.Notice, ...]
    compactions: Mapping[str, v1.CompactionUpdate]
    other: tuple[v1.SessionUpdate, ...]

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


def of_tool_call(update: v1.ToolCall) -> TrackedToolCall:
    """
    A tool call that has just begun.
    """
    return TrackedToolCall(
        tool_call_id=update.tool_call_id,
        title=update.title,
        name=update.name,
        kind=update.kind,
        status=update.status,
        content=tuple(update.content),
        locations=tuple(update.locations),
        raw_input=update.raw_input,
        raw_output=update.raw_output,
        meta=update.meta,
    )


_SCALARS = ("kind", "status", "title", "name", "raw_input", "raw_output", "meta")
_LISTS = ("content", "locations")


def changes_of(update: v1.ToolCallUpdate) -> dict[str, Any]:
    """
    What an update changes (1.121): a member that is null or absent stays as it is, a list replaces the whole list.
    """
    changes = {name: getattr(update, name) for name in _SCALARS}
    lists: dict[str, Sequence[Any] | None] = {name: getattr(update, name) for name in _LISTS}
    changes.update((name, None if value is None else tuple(value)) for name, value in lists.items())
    return {name: value for name, value in changes.items() if value is not None}
