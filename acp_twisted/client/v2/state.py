"""
The picture of a session of version 2, kept up to date by its updates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from attrs import evolve
from twisted.logger import Logger

from acp_twisted.client.v2.followers import SessionFollower
from acp_twisted.client.v2.foreground import Foreground, state_of
from acp_twisted.client.v2.picture import (
    FINISHED,
    Entry,
    Growing,
    GrowingCompaction,
    GrowingMessage,
    GrowingPassed,
    GrowingTerminal,
    GrowingToolCall,
    Message,
    Role,
    SessionSnapshot,
    TrackedTerminal,
    TrackedToolCall,
    merged,
    patched,
)
from acp_twisted.schema import v2
from acp_twisted.schema.values import UNSET, UnknownVariant

_log = Logger()

MAX_OTHER = 1024
"""How many notices, and how many updates that fit nowhere, are kept."""


class SessionState(SessionFollower):
    """
    What a client shows of a session.  C{ClientSession.track} keeps one up to date; it can as well be fed by hand.

    Updates with an id change what has that id: a member that is absent stays, one that is null is cleared, a list
    replaces the list, C{_meta} goes in key by key, and a chunk is appended.  Feeding costs the same however long the
    conversation is.  What it gives out never changes.  It grows with the conversation.

    @ivar count: how many updates were fed, to tell whether something has changed.
    """

    def __init__(self, *, max_other: int = MAX_OTHER) -> None:
        """
        @param max_other: how many notices, and how many updates that fit nowhere, are kept.
        """
        self.count = 0
        self._max_other = max_other
        self._cancelling = False
        self._replaying = False
        self._replayed = False
        self._foreground = Foreground()
        self._clear()

    def _clear(self) -> None:
        """
        As before the first update.
        """
        self._timeline: list[Growing] = []
        self._messages: dict[tuple[Role, str], GrowingMessage] = {}
        self._calls: dict[str, GrowingToolCall] = {}
        self._open: dict[str, None] = {}  # tool calls that are not finished
        self._terminals: dict[str, GrowingTerminal] = {}
        self._compactions: dict[str, GrowingCompaction] = {}
        self._passed: dict[str, GrowingPassed] = {}
        self._plans: dict[str, v2.PlanUpdateContent] = {}
        self._options: tuple[v2.SessionConfigOption, ...] = ()
        self._commands: tuple[v2.AvailableCommand, ...] = ()
        self._usage: v2.UsageUpdate | None = None
        self._title: str | None = None
        self._updated_at: str | None = None
        self._meta: dict[str, Any] | None = None
        self._notices: deque[v2.Notice] = deque(maxlen=self._max_other)
        self._subagents: dict[str, v2.SubagentUpdate] = {}
        self._other: deque[v2.SessionUpdate] = deque(maxlen=self._max_other)

    # ---- the picture

    @property
    def timeline(self) -> tuple[Entry, ...]:
        """
        Messages, tool calls and compactions, in the order in which they began.
        """
        return tuple(each.view for each in self._timeline)

    @property
    def messages(self) -> tuple[Message, ...]:
        """
        The messages, thoughts among them.
        """
        return tuple(each.view for each in self._messages.values())

    @property
    def last_message(self) -> Message | None:
        """
        The message that began last.
        """
        last: GrowingMessage | None = next(reversed(self._messages.values()), None)
        return None if last is None else last.view

    def message(self, message_id: str) -> Message | None:
        """
        A message by its id.
        """
        roles: tuple[Role, ...] = ("user", "agent", "thought")
        return next(
            (self._messages[role, message_id].view for role in roles if (role, message_id) in self._messages), None
        )

    @property
    def tool_calls(self) -> tuple[TrackedToolCall, ...]:
        """
        The tool calls, in the order in which they began.
        """
        return tuple(each.view for each in self._calls.values())

    def tool_call(self, tool_call_id: str) -> TrackedToolCall | None:
        """
        A tool call by its id.
        """
        found = self._calls.get(tool_call_id)
        return None if found is None else found.view

    @property
    def terminals(self) -> Mapping[str, TrackedTerminal]:
        """
        The agent's terminals by their id, whether something refers to them or not.
        """
        return MappingProxyType({name: each.view for name, each in self._terminals.items()})

    def terminal(self, terminal_id: str) -> TrackedTerminal | None:
        """
        A terminal by its id.
        """
        found = self._terminals.get(terminal_id)
        return None if found is None else found.view

    @property
    def plans(self) -> Mapping[str, v2.PlanUpdateContent]:
        """
        The agent's plans by their id.
        """
        return MappingProxyType(dict(self._plans))

    @property
    def foreground(self) -> str:
        """
        C{"idle"}, C{"running"}, C{"requires_action"}, or a state that this version does not know.
        """
        return self._foreground.state

    @property
    def stop_reason(self) -> str | None:
        """
        Why the foreground work ended last, where the agent says, while the session is idle.
        """
        return self._foreground.stop_reason

    @property
    def background(self) -> tuple[v2.BackgroundWork, ...] | None:
        """
        What runs beside the foreground work; L{None} where the agent does not report it.
        """
        return self._foreground.background

    @property
    def config_options(self) -> tuple[v2.SessionConfigOption, ...]:
        """
        All settings, in the agent's order.
        """
        return self._options

    @property
    def commands(self) -> tuple[v2.AvailableCommand, ...]:
        """
        The slash commands.
        """
        return self._commands

    @property
    def usage(self) -> v2.UsageUpdate | None:
        """
        How full the context window is, and what the session has cost.
        """
        return self._usage

    @property
    def title(self) -> str | None:
        """
        The session's title, if it has one.
        """
        return self._title

    @property
    def updated_at(self) -> str | None:
        """
        When the session last changed, in the agent's words.
        """
        return self._updated_at

    @property
    def notices(self) -> tuple[v2.Notice, ...]:
        """
        What the user should see besides; the last of them.
        """
        return tuple(self._notices)

    @property
    def subagents(self) -> Mapping[str, v2.SubagentUpdate]:
        """
        Unstable.  The sessions that this one has begun, by their id.
        """
        return MappingProxyType(dict(self._subagents))

    @property
    def other(self) -> tuple[v2.SessionUpdate, ...]:
        """
        The updates that fit nowhere else, unknown ones among them; the last of them.
        """
        return tuple(self._other)

    def snapshot(self) -> SessionSnapshot:
        """
        All of it, as it is now.
        """
        return SessionSnapshot(
            timeline=self.timeline,
            terminals=self.terminals,
            plans=self.plans,
            state=self.foreground,
            stop_reason=self.stop_reason,
            background=self.background,
            config_options=self.config_options,
            commands=self.commands,
            usage=self.usage,
            title=self.title,
            updated_at=self.updated_at,
            meta=self._meta,
            notices=self.notices,
            subagents=self.subagents,
            other=self.other,
        )

    # ---- what changes it

    def feed(self, update: v2.SessionUpdate) -> SessionState:
        """
        An update came.

        @return: this.
        """
        if self._replaying and not self._replayed:
            self._replayed = True
            self._clear()
        self.count += 1
        if state_of(update) is not None:
            self._foreground.take(update)
            if not self._foreground.busy:
                self._settle()
            return self
        reduce = _REDUCERS.get(type(update).__name__)
        if reduce is None:
            self._other.append(update)
            return self
        try:
            reduce(self, update)
        except ValueError:
            _log.warn("the output of a terminal is no base64, and was left out")
        return self

    def updated(self, update: v2.SessionUpdate) -> None:
        """
        See L{SessionFollower}.
        """
        self.feed(update)

    def described(self, options: Sequence[v2.SessionConfigOption] | None, commands: Sequence[object] | None) -> None:
        """
        See L{SessionFollower}.
        """
        if options is not None:
            self._options = tuple(options)
        if commands is not None:
            self._commands = tuple(commands)  # type: ignore[arg-type]

    def replay_began(self) -> None:
        """
        See L{SessionFollower}: the first update of the replay begins the picture anew.
        """
        self._replaying, self._replayed = True, False

    def replay_ended(self, resumed: bool) -> None:
        """
        See L{SessionFollower}.
        """
        self._replaying = False

    def cancelling(self) -> None:
        """
        See L{SessionFollower}: what is not finished counts as cancelled at once (V2S2), but not what runs in the
        background (V2N1).  What the agent still says of it is taken, and may finish it otherwise (V2S8).
        """
        background = {getattr(each, "tool_call_id", None) for each in self.background or ()}
        for name in list(self._open):
            if name not in background:
                self._calls[name].mark()
                self._cancelling = True

    def _settle(self) -> None:
        """
        The agent is idle: what it says of a tool call from now on is news.
        """
        if self._cancelling:
            self._cancelling = False
            for call in self._calls.values():
                if call.marked:
                    call.marked = False
                    call.members["status"] = "cancelled"
                    self._open.pop(call.members[call.ID], None)

    # ---- one kind of update each

    def _message(self, role: Role, message_id: str) -> GrowingMessage:
        message = self._messages.get((role, message_id))
        if message is None:
            message = self._messages[role, message_id] = GrowingMessage(role, message_id)
            self._timeline.append(message)
        return message

    def _told(self, role: Role, update: Any) -> None:
        message = self._message(role, update.message_id)
        message.patch_blocks(update.content)
        message.patch_meta(update.meta)

    def _user(self, update: v2.UserMessage) -> None:
        self._told("user", update)

    def _agent(self, update: v2.AgentMessage) -> None:
        self._told("agent", update)

    def _thought(self, update: v2.AgentThought) -> None:
        self._told("thought", update)

    def _user_chunk(self, update: v2.UserMessageChunk) -> None:
        self._message("user", update.message_id).append(update.content)

    def _agent_chunk(self, update: v2.AgentMessageChunk) -> None:
        self._message("agent", update.message_id).append(update.content)

    def _thought_chunk(self, update: v2.AgentThoughtChunk) -> None:
        self._message("thought", update.message_id).append(update.content)

    def _call(self, name: str) -> GrowingToolCall:
        call = self._calls.get(name)
        if call is None:
            call = self._calls[name] = GrowingToolCall(name)
            self._timeline.append(call)
            self._open[name] = None
        return call

    def _call_told(self, update: v2.ToolCallUpdate) -> None:
        call = self._call(update.tool_call_id)
        call.patch(update)
        if update.status in FINISHED:
            call.marked = False
        if call.members.get("status") in FINISHED:
            self._open.pop(update.tool_call_id, None)
        else:
            self._open[update.tool_call_id] = None

    def _call_chunk(self, update: v2.ToolCallContentChunk) -> None:
        self._call(update.tool_call_id).append(update.content)

    def _terminal(self, name: str) -> GrowingTerminal:
        terminal = self._terminals.get(name)
        if terminal is None:
            terminal = self._terminals[name] = GrowingTerminal(name)
        return terminal

    def _terminal_told(self, update: v2.TerminalUpdate) -> None:
        self._terminal(update.terminal_id).patch(update)

    def _terminal_chunk(self, update: v2.TerminalOutputChunk) -> None:
        self._terminal(update.terminal_id).append(update.data)

    def _plan_told(self, update: v2.PlanUpdate) -> None:
        plan = update.plan
        plan_id = plan.raw.get("planId") if isinstance(plan, UnknownVariant) else plan.plan_id
        if isinstance(plan_id, str):
            self._plans[plan_id] = plan
        else:
            self._other.append(update)

    def _plan_removed(self, update: Any) -> None:
        self._plans.pop(update.plan_id, None)

    def _commands_told(self, update: v2.AvailableCommandsUpdate) -> None:
        self._commands = tuple(update.available_commands)

    def _options_told(self, update: v2.ConfigOptionUpdate) -> None:
        self._options = tuple(update.config_options)

    def _info_told(self, update: v2.SessionInfoUpdate) -> None:
        self._title = patched(self._title, update.title)
        self._updated_at = patched(self._updated_at, update.updated_at)
        self._meta = merged(self._meta, update.meta)

    def _usage_told(self, update: v2.UsageUpdate) -> None:
        cost = update.cost
        if cost is UNSET:
            cost = None if self._usage is None else self._usage.cost
        self._usage = evolve(update, cost=cost)

    def _noticed(self, update: v2.Notice) -> None:
        self._notices.append(update)

    def _compaction(self, name: str) -> GrowingCompaction:
        found = self._compactions.get(name)
        if found is None:
            found = self._compactions[name] = GrowingCompaction(name)
            self._timeline.append(found)
        return found

    def _compaction_told(self, update: v2.CompactionUpdate) -> None:
        self._compaction(update.compaction_id).patch(update)

    def _compaction_chunk(self, update: v2.CompactionSummaryChunk) -> None:
        self._compaction(update.compaction_id).append(update.content)

    def _passed_on(self, name: str) -> GrowingPassed:
        found = self._passed.get(name)
        if found is None:
            found = self._passed[name] = GrowingPassed(name)
            self._timeline.append(found)
        return found

    def _passed_told(self, update: Any) -> None:
        self._passed_on(update.message_id).patch(update)

    def _passed_chunk(self, update: Any) -> None:
        self._passed_on(update.message_id).append(update.content)

    def _subagent(self, update: Any) -> None:
        before = self._subagents.get(update.session_id)
        meta = merged(None if before is None or before.meta is UNSET else before.meta, update.meta)
        told = {
            name: getattr(update, name) if before is None else patched(getattr(before, name), getattr(update, name))
            for name in ("title", "description", "capabilities", "state", "cwd", "additional_directories")
        }
        told = {name: None if value is UNSET else value for name, value in told.items()}
        self._subagents[update.session_id] = evolve(update, **told, meta=meta)


# By name, for the unstable ones are not imported before one comes.
_REDUCERS: dict[str, Callable[[SessionState, Any], None]] = {
    "UserMessage": SessionState._user,
    "UserMessageChunk": SessionState._user_chunk,
    "AgentMessage": SessionState._agent,
    "AgentMessageChunk": SessionState._agent_chunk,
    "AgentThought": SessionState._thought,
    "AgentThoughtChunk": SessionState._thought_chunk,
    "ToolCallUpdate": SessionState._call_told,
    "ToolCallContentChunk": SessionState._call_chunk,
    "TerminalUpdate": SessionState._terminal_told,
    "TerminalOutputChunk": SessionState._terminal_chunk,
    "PlanUpdate": SessionState._plan_told,
    "PlanRemoved": SessionState._plan_removed,
    "AvailableCommandsUpdate": SessionState._commands_told,
    "ConfigOptionUpdate": SessionState._options_told,
    "SessionInfoUpdate": SessionState._info_told,
    "UsageUpdate": SessionState._usage_told,
    "Notice": SessionState._noticed,
    "CompactionUpdate": SessionState._compaction_told,
    "CompactionSummaryChunk": SessionState._compaction_chunk,
    "SessionMessage": SessionState._passed_told,
    "SessionMessageChunk": SessionState._passed_chunk,
    "SubagentUpdate": SessionState._subagent,
}
