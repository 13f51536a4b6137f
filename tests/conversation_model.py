"""
A whole conversation in memory, moved message by message, and a model that says what may happen in it.

Both halves are real.  What stands between them is a L{MemoryLink} that moves nothing by itself, a clock that stands
still, handlers that end when the test lets them, and somebody who reads the wire (L{Reader}).  The table of
C{turn_model} is fed with the events in the order in which they reach the agent; every answer to a prompt is compared
with it the moment it is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from conversation_parts import (
    AGENT_TIMEOUT,
    CLIENT_TIMEOUT,
    DURATION,
    GRACE,
    LIMITS,
    SESSIONS,
    Asked,
    SessionModel,
    Turn,
    Who,
)
from conversation_wire import WireRules
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from acp_twisted import AcpAgent, AcpClient, CancellationSignal, PromptContext
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.session import ClientSession
from acp_twisted.errors import AcpConnectionError, AuthRequired, SessionBusy
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink


class Talk(WireRules):
    """
    One connection from its beginning to its end.
    """

    def __init__(self, *, grace: float = GRACE, duration: float = DURATION, cascade: bool = False) -> None:
        super().__init__()
        self.clock = Clock()
        self.grace, self.duration = grace, duration
        self.models: dict[str, SessionModel] = {}
        self.turns: list[Turn] = []
        self.asked: list[Asked] = []
        self.signals = [CancellationSignal(), CancellationSignal()]
        self.gates: list[tuple[str, Deferred[Any], Callable[[], Any]]] = []
        self.sent_updates = 0
        self.delivered: dict[str, list[int]] = defaultdict(list)
        self.started: dict[str, list[int]] = defaultdict(list)
        self.finished: dict[str, int] = defaultdict(int)
        self.running_updates: set[int] = set()
        self.slow_updates = False
        self.asking_updates = False
        self.told: list[str] = []
        agent = (
            AcpAgent.builder()
            .prompt_handler(self._prompt)
            .new_session_handler(self._new_session)
            .load_session_handler(self._load_session)
            .close_session_handler(self._close_session)
            .delete_session_handler(self._close_session)
            .list_sessions_handler(lambda request: self.gate("list", lambda: v1.ListSessionsResponse(sessions=[])))
            .ext_request_handler("_ask", lambda params: self.gate("ask", lambda: {"ok": True}))
            .ext_notification_handler("_note", lambda params: self.gate("note", lambda: None))
            .cancel_handler(lambda notice: self.told.append(notice.session_id))
            .cancel_grace_period(grace)
            .max_prompt_duration(duration)
            .request_timeout(AGENT_TIMEOUT)
            .cascade_cancellation(cascade)
            .limits(LIMITS)
            .build()
        )
        client = (
            AcpClient.builder()
            .session_update_handler(self._updated)
            .request_permission_handler(self._permission)
            .read_text_file_handler(lambda request: self.gate("file", lambda: v1.ReadTextFileResponse(content="x")))
            .request_timeout(CLIENT_TIMEOUT)
            .limits(LIMITS)
            .build()
        )
        self.client: ClientConnection = client.connection(self.clock)
        self.agent: AgentConnection = agent.connect(self.clock)
        self.link = MemoryLink(self.client.peer, self.agent.peer, self.clock, LIMITS, auto=False)
        self.client.initialize()
        self.settle_messages()
        self.sessions: dict[str, ClientSession] = {}
        self._names = iter(SESSIONS)
        for name in SESSIONS:
            self.client.new_session("/w").addCallback(self._opened)
            self.models[name] = SessionModel(self.clock, grace, duration)
        self.settle_messages()
        assert tuple(self.sessions) == SESSIONS

    # ---- the agent's handlers

    def _new_session(self, request: v1.NewSessionRequest) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session_id=next(self._names))

    def _load_session(self, request: v1.LoadSessionRequest) -> None:
        if self.models[request.session_id].state == "Closed":
            self.models[request.session_id] = SessionModel(self.clock, self.grace, self.duration)

    def _close_session(self, request: Any) -> None:
        # V1C10: whatever ran is answered by now.
        model = self.models[request.session_id]
        assert model.current is None
        model.apply("close")  # a session/load before it may have opened it again
        assert request.session_id not in self.agent.session_ids or self.lost

    def _prompt(self, request: v1.PromptRequest, context: PromptContext) -> Any:
        turn = self.turns[int(request.prompt[0].text)]  # type: ignore[union-attr]
        assert turn.context is None
        assert turn.index is not None
        assert not self.lost or self.link.a.closed
        turn.context = context
        assert not context.is_cancelled, "a cancelled turn entered its handler"
        if turn.mode in ("permission", "file"):
            return self._asking(turn)
        work: Deferred[Any] = Deferred(turn.stopped)
        turn.work = work
        if turn.mode == "swallows":
            work.addErrback(turn.swallow)
        elif turn.mode == "cooperates":
            context.on_cancel(lambda: turn.finish("result"))
        elif turn.mode in ("result", "failure", "boom", "empty"):
            turn.finish(turn.mode)
        elif turn.mode == "raises":
            turn.ends("failure")
            raise AuthRequired()
        return work

    async def _asking(self, turn: Turn) -> v1.PromptResponse:
        try:
            await self.request(turn, turn.mode).call
        except BaseException:
            turn.ends("failure")
            raise
        turn.ends("result")
        return turn.response()

    def request(self, turn: Turn, what: str, **options: Any) -> Asked:
        """The handler of C{turn} asks the client for a permission or a file."""
        context = turn.context
        assert context is not None
        if what == "permission":
            call: Call[Any] = context.request_permission(
                v1.ToolCallUpdate(tool_call_id="t"),
                [v1.PermissionOption(option_id="y", name="Yes", kind="allow_once")],
                **options,
            )
        else:
            call = context.read_text_file("/w/a", **options)
        awaited = what == turn.mode and not turn.requests
        asked = self._track(call, "agent", what, keep=awaited)
        asked.bounded = True
        turn.requests.append(asked)
        return asked

    def update(self, turn: Turn) -> None:
        """The handler of C{turn} sends an update through its context."""
        assert turn.context is not None
        turn.context.send_message(f"{turn.number} {self.sent_updates}").addErrback(_connection_only)
        self.sent_updates += 1

    # ---- the client's handlers

    def _permission(self, request: v1.RequestPermissionRequest) -> Deferred[Any]:
        outcome = v1.SelectedPermissionOutcome(option_id="y")
        return self.gate("permission", lambda: v1.RequestPermissionResponse(outcome=outcome))

    def _updated(self, notification: v1.SessionNotification) -> Deferred[Any] | None:
        session = notification.session_id
        text = notification.update.content.text  # type: ignore[union-attr]
        number = int(text.split()[1])
        self.started[session].append(number)
        assert self.started[session] == self.delivered[session][: len(self.started[session])], "updates out of order"
        self.running_updates.add(number)

        def done(result: Any) -> Any:
            self.finished[session] += 1
            self.running_updates.discard(number)
            return result

        if self.asking_updates:
            # It waits for an answer of the agent: nothing that this answer needs may wait for the handler.
            asked = self.ask("ask", session)
            asked.awaited = True
            return asked.call.addBoth(done)
        if self.slow_updates:
            return self.gate("update", lambda: None).addBoth(done)
        return done(None)  # type: ignore[no-any-return]

    # ---- what ends when the test says so

    def gate(self, name: str, result: Callable[[], Any]) -> Deferred[Any]:
        """Something that ends when the test lets it."""

        def stopped(_: object) -> None:
            self.gates[:] = [each for each in self.gates if each[1] is not waiting]

        waiting: Deferred[Any] = Deferred(stopped)
        self.gates.append((name, waiting, result))
        return waiting

    def let_go(self, position: int, how: str = "result") -> None:
        """Let one of them end."""
        _, waiting, result = self.gates.pop(position % len(self.gates))
        if how == "result":
            waiting.callback(result())
        else:
            waiting.errback(AuthRequired())

    # ---- what the client does

    def _opened(self, session: ClientSession) -> None:
        self.sessions[session.session_id] = session

    def _track(self, call: Call[Any], who: Who, method: str, *, keep: bool = False) -> Asked:
        asked = Asked(call, who, method, awaited=keep, during=set(self.running_updates))
        self.asked.append(asked)

        def settled(result: Any) -> Any:
            asked.outcomes.append(result)
            assert len(asked.outcomes) == 1, "a call was settled twice"
            assert not asked.detached
            self._check_outcome(asked, result)
            return result if keep else None

        call.addBoth(settled)
        return asked

    def prompt(
        self, session: str, mode: str, signal: int | None = None, timeout: float | None = None, read: bool = False
    ) -> Turn | None:
        """The client prompts a session; refused on this side while the session's last turn is unanswered."""
        held = self.sessions[session]
        turn = Turn(len(self.turns), session, mode)
        turn.must_be_accepted = self._is_free(session)
        self.turns.append(turn)
        stop = None if signal is None else self.signals[signal]
        busy = held.turn is not None
        before = len(self.link.wire)
        try:
            turn.turn = held.prompt(str(turn.number), stop, timeout=timeout)
        except SessionBusy:
            assert busy
            assert len(self.link.wire) == before
            self.turns.pop()
            return None
        assert not busy
        turn.asked = self._track(turn.turn.response, "client", "prompt")
        turn.asked.bounded = bool(timeout)
        if read:
            turn.reader = Deferred.fromCoroutine(self._collect(turn))
        return turn

    async def _collect(self, turn: Turn) -> None:
        assert turn.turn is not None
        async for update in turn.turn.updates():
            turn.read.append(int(update.content.text.split()[1]))  # type: ignore[union-attr]

    def raw_prompt(self, session: str, mode: str, **options: Any) -> Turn:
        """A client that does not know that a session has one turn at a time."""
        turn = Turn(len(self.turns), session, mode)
        self.turns.append(turn)
        request = v1.PromptRequest(session_id=session, prompt=[v1.TextContent(text=str(turn.number))])
        turn.asked = self._track(self.client.call(request, **{"timeout": 0, **options}), "client", "prompt")
        turn.asked.bounded = bool(options.get("timeout") or options.get("wait_timeout"))
        return turn

    def _is_free(self, session: str) -> bool:
        """Whether a prompt that the client sends now can't be refused: all before it is answered or cancelled."""
        if self.models[session].state in ("Closing", "Closed"):
            return False
        for line in self.lines["client"].values():
            if line.session != session or line.answered:
                continue
            if line.method in ("session/close", "session/load"):
                return False
            if line.turn is not None and not line.cancels:
                return False
        return True

    def ask(self, what: str, session: str, stop: int | None = None, **options: Any) -> Asked:
        """The client asks the agent for something that is no turn."""
        if what == "ask":
            options.pop("stop", None)
            call: Call[Any] = self.client.ext_request("_ask", {"sessionId": session}, **options)
        elif what == "list":
            signal = None if stop is None else self.signals[stop]
            call = self.client.call(v1.ListSessionsRequest(), stop=signal, **options)
        elif what == "close":
            call = self.client.close_session(session)
        else:
            call = self.client.load_session(session, "/w")
            call.addCallback(self._reopened)
        asked = self._track(call, "client", what)
        asked.bounded = True
        return asked

    def _reopened(self, session: ClientSession) -> ClientSession:
        self.sessions[session.session_id] = session
        return session

    def note(self, session: str) -> None:
        """The client sends a notification whose handler takes its time."""
        self.client.ext_notification("_note", {"sessionId": session}).addErrback(_connection_only)

    def cancel_session(self, session: str) -> None:
        """The client sends session/cancel, whatever its session does."""
        self.explicit_cancel = True
        self.client.cancel(session)

    # ---- time and the end

    def next_due(self) -> float | None:
        """When the next timer is due."""
        return min((call.getTime() for call in self.clock.getDelayedCalls()), default=None)

    def fire(self) -> bool:
        """Time goes on to the next timer."""
        due = self.next_due()
        if due is None:
            return False
        for model in self.models.values():
            # Both at the same moment: the turn's own time was set first, and goes first.
            if model.duration_due == due:
                model.apply("duration", model.current)
            elif model.grace_due == due:
                model.apply("grace", model.current)
        if self.drain_due == due:
            self.drained = True
            self._shut_down_turns()
        self.released = self.released or self.lost
        self.clock.rightNow = due
        self.clock.advance(0)
        self.after()
        return True

    def pass_time(self, seconds: float) -> None:
        """Time goes on a little, but to no timer."""
        due = self.next_due()
        if due is None or due > self.clock.seconds() + seconds:
            self.clock.advance(seconds)

    def _shut_down_turns(self) -> None:
        for model in self.models.values():
            if model.current is not None:
                model.apply("shutdown")

    def disconnect(self, who: Who) -> None:
        """The link breaks."""
        if not self.lost:
            self._before_loss()
            self.transport(who).abort("cut")
            self.after()

    def half_close(self, who: Who) -> None:
        """One side says that it will say no more."""
        self.transport(who).half_close()
        self.after()

    def shut_down(self, who: Who) -> None:
        """One side ends the conversation in good order."""
        if who == "agent":
            if not self.agent_closing and not self.lost:
                self._shut_down_turns()
            self.agent_closing = True
            self.agent.close()
        else:
            self.client_closing = True
            self.client.close()
        self.after()

    # ---- the end

    def finish(self) -> None:
        """
        Let everything come to its end, first with the link as it is and then without: nothing may be left.
        """
        self.slow_updates = self.asking_updates = False
        self._let_all_go()
        if not (self.lost or self.input_over or self.client_closing or self.agent_closing):
            self._check_all_answered()
            self._check_tables()
        self.check()
        if not self.lost:
            self.disconnect("client")
        self._let_all_go()
        while self.clock.getDelayedCalls():
            # Only calls that wait behind a handler, which has ended: nothing should be here.
            raise AssertionError(f"left in the clock: {self.clock.getDelayedCalls()}")
        self._check_tables()
        for asked in self.asked:
            assert len(asked.outcomes) == (not asked.detached), f"{asked.method} of {asked.who}: {asked.outcomes}"
        for turn in self.turns:
            if turn.reader is not None:
                assert turn.reader.called, "the updates of a turn did not end with it"
        for session, numbers in self.delivered.items():
            assert self.started[session] == numbers, "an update was lost"

    def _let_all_go(self) -> None:
        moved = True
        while moved:
            moved = self.deliver("client") or self.deliver("agent")
            if self.gates:
                self.let_go(0)
                self.after()
                moved = True
            for turn in self.turns:
                if turn.work is not None and not turn.done:
                    turn.finish("result")
                    self.after()
                    moved = True


def _connection_only(failure: Failure) -> None:
    failure.trap(AcpConnectionError)
