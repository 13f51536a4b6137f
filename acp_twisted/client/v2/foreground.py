"""
What a session's C{state_update}s say: whether the agent works, why it stopped, and what runs beside.
"""

from __future__ import annotations

from typing import Any

from acp_twisted.schema import v2
from acp_twisted.schema.values import UnknownVariant

IDLE = "idle"


def state_of(update: object) -> str | None:
    """
    The state that an update reports; L{None} when it is no C{state_update}.
    """
    tag = getattr(update, "TAG", None)
    if tag is not None:
        return str(tag[1]) if tag[0] == "state" else None
    if isinstance(update, UnknownVariant) and update.raw.get("sessionUpdate") == "state_update":
        return update.tag
    return None


class Foreground:
    """
    The last report of a session.

    @ivar state: C{"idle"}, which a new session is, C{"running"}, C{"requires_action"}, or a state that nobody here
        knows; the agent is busy in it (2.90).
    @ivar told: whether the agent has reported anything.
    @ivar report: the last update, as it came.
    @ivar background: what runs beside the foreground work, as the last update says; L{None} where it does not say.
    """

    def __init__(self) -> None:
        self.state = IDLE
        self.told = False
        self.report: Any = None
        self.background: tuple[v2.BackgroundWork, ...] | None = None

    @property
    def busy(self) -> bool:
        """
        Whether foreground work is under way.
        """
        return self.state != IDLE

    @property
    def stop_reason(self) -> str | None:
        """
        Why the work ended, while the session is idle.
        """
        return self.report.stop_reason if isinstance(self.report, v2.IdleStateUpdate) else None

    def take(self, update: object) -> v2.IdleStateUpdate | None:
        """
        An update came.

        @return: it, if foreground work has ended with it.  A report that only repeats that the session is idle ends
            nothing, whatever stop reason it bears.
        """
        state = state_of(update)
        if state is None:
            return None
        was_busy = self.busy
        self.state, self.told, self.report = state, True, update
        background = getattr(update, "background", None)
        self.background = None if background is None else tuple(background)
        return update if was_busy and isinstance(update, v2.IdleStateUpdate) else None

    def is_background(self, request: v2.RequestPermissionRequest) -> bool:
        """
        Whether a permission is asked for what the last report lists as background work.
        """
        subject = request.subject
        if not self.background or subject is None:
            return False
        tool_call_id = terminal_id = None
        if isinstance(subject, v2.ToolCallPermissionSubject):
            tool_call_id = subject.tool_call.tool_call_id
        elif isinstance(subject, v2.CommandPermissionSubject):
            tool_call_id, terminal_id = subject.tool_call_id, subject.terminal_id
        return any(
            (isinstance(each, v2.BackgroundToolCall) and each.tool_call_id == tool_call_id)
            or (isinstance(each, v2.BackgroundTerminal) and each.terminal_id == terminal_id)
            for each in self.background
        )
