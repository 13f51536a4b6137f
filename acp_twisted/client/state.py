"""
The picture of a session, kept up to date by its updates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attrs import evolve

from acp_twisted.client.followers import SessionFollower
from acp_twisted.client.picture import (
    FINISHED,
    Entry,
    Message,
    Role,
    SessionSnapshot,
    TrackedToolCall,
    changes_of,
    of_tool_call,
)
from acp_twisted.schema import v1
from acp_twisted.schema.values import UNSET

if TYPE_CHECKING:
    from acp_twisted.client.session import PromptTurn

MAX_OTHER = 1024
"""How many notices, and how many updates that fit nowhere, are kept."""


class _Growing:
    """
    A message whose chunks still come.  It is made a L{Message} only when somebody looks.
    """

    __slots__ = ("_made", "blocks", "message_id", "role")

    def __init__(self, role: Role, message_id: str | None) -> None:
        self.role = role
        self.message_id = message_id
        self.blocks: list[v1.ContentBlock] = []
        self._made: Message | None = None

    def add(self, block: v1.ContentBlock) -> None:
        self.blocks.append(block)
        self._made = None

    @property
    def message(self) -> Message:
        if self._made is None:
            self._made = Message(role=self.role, content=tuple(self.blocks), message_id=self.message_id)
        return self._made


class SessionState(SessionFollower):
    """
    What a client shows of a session.  L{ClientSession.track<acp_twisted.client.session.ClientSession.track>} keeps one
    up to date; it can as well be fed by hand.

    Feeding costs the same however long the conversation is.  What it gives out never changes: each property has its
    values as they are now, and L{snapshot} all of them.  It grows with the conversation.

    A chunk joins the message of its C{messageId}; without one it joins the last thing on the timeline, if that is a
    message of the same role and turn.  Version 1 agents do not repeat prompts, so a prompt is on the timeline only if
    the agent sends it, as C{session/load} does; to have it there, feed a L{v1.UserMessageChunk}.

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
        self._clear()

    def _clear(self) -> None:
        """
        As before the first update.  What C{session/load} does not repeat stays.
        """
        self._timeline: list[_Growing | str] = []  # a tool call by its id
        self._by_id: dict[tuple[Role, str], _Growing] = {}
        self._joinable = False
        self._calls: dict[str, TrackedToolCall] = {}
        self._turn_calls: dict[str, None] = {}
        self._closed: set[str] = set()
        self._plan: tuple[v1.PlanEntry, ...] = ()
        self._plans: dict[str, v1.PlanUpdateContent] = {}
        self._mode: str | None = None
        self._modes: tuple[v1.SessionMode, ...] = ()
        self._options: tuple[v1.SessionConfigOption, ...] = ()
        self._commands: tuple[v1.AvailableCommand, ...] = ()
        self._usage: v1.UsageUpdate | None = None
        self._title: str | None = None
        self._updated_at: str | None = None
        self._notices: deque[v1.Notice] = deque(maxlen=self._max_other)
        self._compactions: dict[str, v1.CompactionUpdate] = {}
        self._other: deque[v1.SessionUpdate] = deque(maxlen=self._max_other)

    # ---- the picture

    @property
    def timeline(self) -> tuple[Entry, ...]:
        """
        Messages and tool calls, in the order in which they began.
        """
        return tuple(self._calls[each] if isinstance(each, str) else each.message for each in self._timeline)

    @property
    def messages(self) -> tuple[Message, ...]:
        """
        The messages, thoughts among them.
        """
        return tuple(each.message for each in self._timeline if not isinstance(each, str))

    @property
    def last_message(self) -> Message | None:
        """
        The message that began last.
        """
        return next((each.message for each in reversed(self._timeline) if not isinstance(each, str)), None)

    @property
    def tool_calls(self) -> tuple[TrackedToolCall, ...]:
        """
        The tool calls, in the order in which they began.
        """
        return tuple(self._calls.values())

    def tool_call(self, tool_call_id: str) -> TrackedToolCall | None:
        """
        A tool call by its id.
        """
        return self._calls.get(tool_call_id)

    @property
    def plan(self) -> tuple[v1.PlanEntry, ...]:
        """
        The steps of the agent's plan.
        """
        return self._plan

    @property
    def plans(self) -> Mapping[str, v1.PlanUpdateContent]:
        """
        Unstable.  Where the agent has several plans, each by its id.
        """
        return MappingProxyType(dict(self._plans))

    @property
    def current_mode_id(self) -> str | None:
        """
        The mode that the session is in; L{None} where the agent has none.
        """
        return self._mode

    @property
    def available_modes(self) -> tuple[v1.SessionMode, ...]:
        """
        The modes that it can be in.
        """
        return self._modes

    @property
    def config_options(self) -> tuple[v1.SessionConfigOption, ...]:
        """
        All settings, in the agent's order.
        """
        return self._options

    @property
    def commands(self) -> tuple[v1.AvailableCommand, ...]:
        """
        The slash commands.
        """
        return self._commands

    @property
    def usage(self) -> v1.UsageUpdate | None:
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
    def notices(self) -> tuple[v1.Notice, ...]:
        """
        What the user should see besides; the last of them.
        """
        return tuple(self._notices)

    @property
    def compactions(self) -> Mapping[str, v1.CompactionUpdate]:
        """
        The compactions of the history, by their id.
        """
        return MappingProxyType(dict(self._compactions))

    @property
    def other(self) -> tuple[v1.SessionUpdate, ...]:
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
            plan=self.plan,
            plans=self.plans,
            current_mode_id=self.current_mode_id,
            available_modes=self.available_modes,
            config_options=self.config_options,
            commands=self.commands,
            usage=self.usage,
            title=self.title,
            updated_at=self.updated_at,
            notices=self.notices,
            compactions=self.compactions,
            other=self.other,
        )

    # ---- what changes it

    def feed(self, update: v1.SessionUpdate) -> SessionState:
        """
        An update came.

        @return: this.
        """
        if self._replaying and not self._replayed:
            self._replayed = True
            self._clear()
        self.count += 1
        reduce = _REDUCERS.get(type(update).__name__)
        if reduce is None:
            self._other.append(update)
        else:
            reduce(self, update)
        return self

    def updated(self, update: v1.SessionUpdate) -> None:
        """
        See L{SessionFollower}.
        """
        self.feed(update)

    def described(self, modes: v1.SessionModeState | None, options: object | None) -> None:
        """
        See L{SessionFollower}.
        """
        if modes is not None:
            self._mode = modes.current_mode_id
            self._modes = tuple(modes.available_modes)
        if options is not None:
            self._options = tuple(options)  # type: ignore[arg-type]

    def mode_set(self, mode_id: str) -> None:
        """
        See L{SessionFollower}.
        """
        self._mode = mode_id

    def replay_began(self) -> None:
        """
        See L{SessionFollower}: the first update of the replay begins the picture anew.
        """
        self._replaying, self._replayed = True, False

    def replay_ended(self, loaded: bool) -> None:
        """
        See L{SessionFollower}.
        """
        if loaded and not self._replayed:
            self._clear()
        self._replaying = False
        self._end_turn(completed=True)

    def turn_began(self, turn: PromptTurn | None = None) -> None:
        """
        See L{SessionFollower}.
        """
        self._joinable = False
        self._turn_calls.clear()
        self._cancelling = False

    def turn_cancelled(self, turn: PromptTurn | None = None) -> None:
        """
        See L{SessionFollower}: what is not finished of the turn counts as cancelled at once (V1C2).  What the agent
        still says of it is taken, and may finish it otherwise (B23).
        """
        self._cancelling = True
        self._cancel_calls()

    def turn_ended(self, turn: PromptTurn | None = None, completed: bool = True) -> None:
        """
        See L{SessionFollower}.  A tool call that is finished by now stays so, and is not opened again (B23).
        """
        self._end_turn(completed=completed and not self._cancelling)

    def _end_turn(self, *, completed: bool) -> None:
        if not completed:
            self._cancel_calls()
        self._closed.update(each for each in self._turn_calls if self._calls[each].finished)
        self._turn_calls.clear()
        self._cancelling = False
        self._joinable = False

    def _cancel_calls(self) -> None:
        for name in self._turn_calls:
            call = self._calls[name]
            if not call.finished:
                self._calls[name] = evolve(call, status="cancelled")

    # ---- one kind of update each

    def _chunk(self, role: Role, chunk: v1.ContentChunk) -> None:
        last = self._timeline[-1] if self._timeline and self._joinable else None
        message: _Growing | None = None
        if chunk.message_id is not None:
            message = self._by_id.get((role, chunk.message_id))
        elif isinstance(last, _Growing) and last.role == role:
            message = last
        if message is None:
            message = _Growing(role, chunk.message_id)
            self._timeline.append(message)
            self._joinable = True
            if chunk.message_id is not None:
                self._by_id[role, chunk.message_id] = message
        message.add(chunk.content)

    def _user(self, update: v1.UserMessageChunk) -> None:
        self._chunk("user", update)

    def _agent(self, update: v1.AgentMessageChunk) -> None:
        self._chunk("agent", update)

    def _thought(self, update: v1.AgentThoughtChunk) -> None:
        self._chunk("thought", update)

    def _tool_call(self, update: v1.ToolCall) -> None:
        self._set_call(of_tool_call(update), told=True)

    def _tool_call_update(self, update: v1.ToolCallUpdate) -> None:
        name = update.tool_call_id
        before = self._calls.get(name) or TrackedToolCall(tool_call_id=name, title=update.title or name)
        self._set_call(evolve(before, **changes_of(update)), told=update.status is not None)

    def _set_call(self, call: TrackedToolCall, *, told: bool) -> None:
        """
        @param told: whether the update spoke of the status.
        """
        name = call.tool_call_id
        before = self._calls.get(name)
        if before is None:
            self._timeline.append(name)
        elif told and call.status not in FINISHED and (name in self._closed or before.status == "cancelled"):
            call = evolve(call, status=before.status)
        self._calls[name] = call
        if name not in self._closed:
            self._turn_calls[name] = None

    def _plan_told(self, update: v1.Plan) -> None:
        self._plan = tuple(update.entries)

    def _plan_changed(self, update: Any) -> None:
        plan_id = getattr(update.plan, "plan_id", None)
        if plan_id is None:
            self._other.append(update)
        else:
            self._plans[plan_id] = update.plan

    def _plan_removed(self, update: Any) -> None:
        self._plans.pop(update.plan_id, None)

    def _commands_told(self, update: v1.AvailableCommandsUpdate) -> None:
        self._commands = tuple(update.available_commands)

    def _mode_changed(self, update: v1.CurrentModeUpdate) -> None:
        self._mode = update.current_mode_id

    def _options_told(self, update: v1.ConfigOptionUpdate) -> None:
        self._options = tuple(update.config_options)

    def _info_changed(self, update: v1.SessionInfoUpdate) -> None:
        if update.title is not UNSET:
            self._title = update.title
        if update.updated_at is not UNSET:
            self._updated_at = update.updated_at

    def _usage_told(self, update: v1.UsageUpdate) -> None:
        self._usage = update

    def _noticed(self, update: v1.Notice) -> None:
        self._notices.append(update)

    def _compaction(self, update: v1.CompactionUpdate) -> None:
        before = self._compactions.get(update.compaction_id)
        if before is not None:
            told = {name: getattr(update, name) for name in ("status", "summary", "error", "meta")}
            update = evolve(before, **{name: value for name, value in told.items() if value is not UNSET})
        self._compactions[update.compaction_id] = update

    def _compaction_chunk(self, update: v1.CompactionSummaryChunk) -> None:
        before = self._compactions.get(update.compaction_id)
        if before is None:
            before = v1.CompactionUpdate(compaction_id=update.compaction_id, status="in_progress")
        told = before.summary
        summary = [] if told is None or told is UNSET else list(told)
        summary.append(update.content)
        self._compactions[update.compaction_id] = evolve(before, summary=summary)


# By name, for the unstable ones are not imported before one comes.
_REDUCERS: dict[str, Callable[[SessionState, Any], None]] = {
    "UserMessageChunk": SessionState._user,
    "AgentMessageChunk": SessionState._agent,
    "AgentThoughtChunk": SessionState._thought,
    "ToolCall": SessionState._tool_call,
    "ToolCallUpdate": SessionState._tool_call_update,
    "Plan": SessionState._plan_told,
    "PlanUpdate": SessionState._plan_changed,
    "PlanRemoved": SessionState._plan_removed,
    "AvailableCommandsUpdate": SessionState._commands_told,
    "CurrentModeUpdate": SessionState._mode_changed,
    "ConfigOptionUpdate": SessionState._options_told,
    "SessionInfoUpdate": SessionState._info_changed,
    "UsageUpdate": SessionState._usage_told,
    "Notice": SessionState._noticed,
    "CompactionUpdate": SessionState._compaction,
    "CompactionSummaryChunk": SessionState._compaction_chunk,
}
