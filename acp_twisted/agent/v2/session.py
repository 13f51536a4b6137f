"""
One session of an agent's connection of version 2: its foreground work, what goes on in the background, and what of that
the client may stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError, InternalError
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.schema import v1, v2
from acp_twisted.schema.values import UNSET
from acp_twisted.turn.foreground import Ended, Foreground, Work
from acp_twisted.turn.result import TurnResult, is_stop_reason

if TYPE_CHECKING:
    from acp_twisted.agent.v2.connection import AgentConnection

_log = Logger()

_FINAL: Final = ("completed", "failed", "cancelled")

Stoppable = tuple[str, str]
"""C{"tool_call"} or C{"terminal"}, and its id."""


class AgentSession:
    """
    One session.

    @ivar session_id: its id.
    @ivar cwd: its working directory, where that is known.
    @ivar foreground: its foreground work.
    @ivar token: set when the session is closed or the connection is gone: what goes on in the background is to stop.
    @ivar opened: whether the client was told that it is open.
    @ivar opening: how many C{session/resume} are at it.
    """

    def __init__(self, connection: AgentConnection, session_id: str, cwd: str | None = None) -> None:
        self.connection = connection
        self.session_id = session_id
        self.cwd = cwd
        self.token = CancellationToken()
        self.over = False
        self.opened = False
        self.opening = 0
        self._background: list[v2.BackgroundWork] | None = None
        self._advertised: set[Stoppable] = set()
        self._stoppers: dict[Stoppable, Callable[[], object]] = {}
        self._holds: dict[Work, Callable[[], None]] = {}
        self._questions: dict[Call[Any], None] = {}
        agent = connection.agent
        self.foreground = Foreground(
            session_id, connection.clock, agent.prompt_timeouts, self._report, connection.tell_cancelled
        )

    @property
    def state(self) -> str:
        """
        What the client was told last of the foreground: C{"idle"}, C{"running"} or C{"requires_action"}.
        """
        return self.foreground.state

    # ---- what is sent

    def send_update(self, update: v2.SessionUpdate) -> Deferred[None]:
        """
        Send C{session/update}, at any time: what the background does too.  Once the session is closed it is dropped,
        and logged (V2N10).
        """
        if self.over:
            _log.debug("an update of session {session}, which is closed", session=self.session_id)
            return succeed(None)
        self._observe(update)
        return self.connection.notify(v2.UpdateSessionNotification(session_id=self.session_id, update=update))

    def say(self, update: v2.SessionUpdate) -> None:
        """
        The same, for whom nobody waits.
        """
        self.send_update(update).addErrback(_unsent)

    def _observe(self, update: Any) -> None:
        """
        Note what the client may stop from now on, or no more (V2N11).
        """
        if isinstance(update, v2.ToolCallUpdate):
            key, final = ("tool_call", update.tool_call_id), update.status in _FINAL
        elif isinstance(update, v2.TerminalUpdate):
            key, final = ("terminal", update.terminal_id), bool(update.exit_status)
        else:
            return
        capabilities = update.capabilities
        if capabilities is not UNSET:
            offered = capabilities is not None and getattr(capabilities, "cancel", None) is not None
            (self._advertised.add if offered else self._advertised.discard)(key)
        if final:
            self._advertised.discard(key)
            self._stoppers.pop(key, None)

    # ---- the foreground

    def begin(
        self,
        insert: Callable[[Work], object],
        refuse: Callable[[AcpError], object],
        start: Callable[[Work], Any],
        admit: Callable[[Work], Any] | None = None,
        token: CancellationToken | None = None,
        prompt: v2.PromptRequest | None = None,
    ) -> Work:
        """
        See L{Foreground.begin}.  While the work goes on it holds the connection open.
        """

        def hold(work: Work) -> None:
            if not work.over:  # else it is taken into other work, which does
                self._holds[work] = self.connection.peer.hold(lambda trigger: self.foreground.shutdown())
            insert(work)

        return self.foreground.begin(hold, refuse, start, admit, token, prompt)

    def _report(self, state: str, ended: Ended | None) -> None:
        if ended is None:
            self.say(self.current_state())
            return
        try:
            self._say_end(ended)
        finally:
            release = self._holds.pop(ended.work, None)
            if release is not None:
                release()

    def _say_end(self, ended: Ended) -> None:
        """
        Report how work ended; if no JSON can carry that, then at least that it has (design rule 1).
        """
        try:
            self.say(self._idle(ended))
        except Exception:
            _log.failure("session/prompt: the end of the work of session {name} can't be sent", name=self.session_id)
            error = ended.error or InternalError()
            update = v2.IdleStateUpdate(stop_reason="cancelled", background=self.background)
            if not ended.cancelled:
                update.stop_reason, update.error = "error", v2.Error(code=error.code, message=error.message)
            self.say(update)

    def current_state(self) -> v2.RunningStateUpdate | v2.IdleStateUpdate | v2.RequiresActionStateUpdate:
        """
        The state as it is now, which is no new one.
        """
        background = self.background
        if self.state == "running":
            return v2.RunningStateUpdate(background=background)
        if self.state == "requires_action":
            return v2.RequiresActionStateUpdate(background=background)
        return v2.IdleStateUpdate(background=background)

    def _idle(self, ended: Ended) -> v2.IdleStateUpdate:
        """
        How work ended: what its handler returned, unless it was cancelled or failed (V2D5, V2N7, V2N13).
        """
        update = self._of_result(ended.result)
        if ended.cancelled:
            update.stop_reason, update.error = "cancelled", None
        elif ended.error is not None:
            error = ended.error
            update = v2.IdleStateUpdate(
                stop_reason="error", error=v2.Error(code=error.code, message=error.message, data=error.data)
            )
        update.background = self.background
        return update

    def _of_result(self, result: Any) -> v2.IdleStateUpdate:
        if result is None:
            return v2.IdleStateUpdate(stop_reason="end_turn")
        if isinstance(result, v2.IdleStateUpdate):
            return result
        if isinstance(result, TurnResult):
            return v2.IdleStateUpdate(stop_reason=result.stop_reason, usage=result.usage, meta=result.meta)
        if isinstance(result, v1.PromptResponse):
            return v2.IdleStateUpdate(stop_reason=result.stop_reason, meta=result.meta)
        if is_stop_reason(result):
            return v2.IdleStateUpdate(stop_reason=result)
        _log.error(
            "the session/prompt handler returned {kind}; its result is None, a stop reason, a PromptResponse or an "
            "IdleStateUpdate object",
            kind=type(result).__name__,
        )
        error = InternalError()
        return v2.IdleStateUpdate(stop_reason="error", error=v2.Error(code=error.code, message=error.message))

    # ---- the background

    @property
    def background(self) -> list[v2.BackgroundWork] | None:
        """
        What was reported to go on in the background; L{None} if nothing was ever said of it.
        """
        return None if self._background is None else list(self._background)

    def report_background(self, work: Sequence[v2.BackgroundWork]) -> None:
        """
        Report what goes on in the background, all of it: each piece of work must have been announced by an update of
        its own, and its end be reported before it is left out here.  C{session/cancel} does not concern it; when the
        session is closed, L{token} is set.  Every state has the list from now on.
        """
        self._background = list(work)
        self.say(self.current_state())

    # ---- what the client may stop

    def on_stop(self, kind: str, name: str, stop: Callable[[], object]) -> None:
        """
        How to stop a tool call or a terminal, when the client asks for that.

        @param kind: C{"tool_call"} or C{"terminal"}.
        @param name: its id.
        """
        self._stoppers[kind, name] = stop

    def stopper(self, kind: str, name: str) -> Callable[[], object] | None:
        """
        What L{on_stop} was given.
        """
        return self._stoppers.get((kind, name))

    def may_stop(self, kind: str, name: str) -> bool:
        """
        Whether the client was told that it may stop this.
        """
        return (kind, name) in self._advertised

    # ---- the end

    def keep_question(self, call: Call[Any]) -> None:
        """
        The session's user is asked for permission: the question does not outlive the session (V2N10).
        """
        self._questions[call] = None
        call.at_end(lambda: self._questions.pop(call, None))

    def close(self, notice: v2.CancelSessionNotification) -> Deferred[None]:
        """
        C{session/close} came: stop the background too, and take all questions back (V2N10).

        @return: fires when nothing is left in the foreground.
        """
        closed = self.foreground.close(notice)  # first, so that what it asks for fails by its cancellation
        self.token.cancel("session/close")
        for call in list(self._questions):
            call.cancel()
        return closed

    def discard(self) -> None:
        """
        It could not be opened, though it may have been prompted meanwhile: its prompts are answered, its work ends.
        """
        self.foreground.shutdown()
        self.over = True
        self.token.cancel("session/close")

    def connection_lost(self) -> None:
        """
        The connection is gone.
        """
        self.over = True
        self.token.cancel("connectionLost")
        self.foreground.connection_lost()


def _unsent(failure: Failure) -> None:
    """
    The link is gone, and nobody needs to know any more.
    """
    _log.debug("an update could not be sent: {kind}", kind=failure.type)
