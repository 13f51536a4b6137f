"""
A whole conversation of version 2 in memory, moved message by message, and what may happen in it.

Both halves are real.  What stands between them is a L{MemoryLink} that moves nothing by itself, a clock that stands
still, handlers that end when the test lets them, and somebody who reads the wire and holds both halves to the rules the
moment that something is written.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from conversation_v2_parts import BACKGROUND, CANCELLED, DURATION, GRACE, LIMITS, SESSIONS, Line, Sent, Who
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from acp_twisted import AcpAgent, AcpClient, CancellationSignal
from acp_twisted.client.v2.connection import ClientConnection
from acp_twisted.client.v2.session import ClientSession
from acp_twisted.errors import AcpConnectionError, AcpError, RequestCancelled, RequestTimedOut
from acp_twisted.schema import v2
from acp_twisted.transports.memory import MemoryLink


class Talk:
    """
    One connection from its beginning to its end.
    """

    def __init__(self, *, grace: float = GRACE, duration: float = DURATION, spare: bool = True) -> None:
        self.clock = Clock()
        self.spare = spare
        self.prompts: list[Sent] = []
        self.lines: dict[Who, dict[int, Line]] = {"client": {}, "agent": {}}
        self.work: dict[str, Sent | None] = dict.fromkeys(SESSIONS)
        self.closed: set[str] = set()
        self.gates: list[tuple[str, Deferred[Any], Callable[[], Any]]] = []
        self.signals = [CancellationSignal(), CancellationSignal()]
        self.slow_updates = False
        self.sent_updates = 0
        self.written: dict[str, list[int]] = defaultdict(list)
        self.told: dict[str, list[int]] = defaultdict(list)
        self.due: set[int] = set()
        self.lost = False
        self.ending = False
        self.read_so_far = 0
        self._names = iter(SESSIONS)
        agent = (
            AcpAgent.builder()
            .prompt_handler(self._prompt)
            .new_session_handler(lambda request: v2.NewSessionResponse(session_id=next(self._names)))
            .cancel_grace_period(grace)
            .max_prompt_duration(duration)
            .request_timeout(0)
            .limits(LIMITS)
            .protocol_versions(2)
            .build()
        )
        client = (
            AcpClient.builder()
            .session_update_handler(self._updated)
            .request_permission_handler(self._permission)
            .request_timeout(0)
            .limits(LIMITS)
            .protocol_versions(2)
            .spare_background_permissions(spare)
            .build()
        )
        negotiation = client.connection(self.clock)
        self.served: Any = agent.connect(self.clock)
        self.link = MemoryLink(negotiation.peer, self.served.peer, self.clock, LIMITS, auto=False)
        found: list[Any] = []
        negotiation.initialize().addBoth(found.append)
        self.settle_messages()
        assert isinstance(found[0], ClientConnection), found
        self.client: ClientConnection = found[0]
        self.sessions: dict[str, ClientSession] = {}
        for _ in SESSIONS:
            self.client.new_session("/w").addCallback(self._opened)
        self.settle_messages()
        assert tuple(self.sessions) == SESSIONS

    def _opened(self, session: ClientSession) -> None:
        self.sessions[session.session_id] = session

    # ---- the agent's handlers

    def _prompt(self, request: Any, context: Any) -> Any:
        sent = self.prompts[int(request.prompt[0].text)]
        self.read_wire()
        assert sent.context is None, "a prompt was handled twice"
        assert sent.message_id is not None or self.lost, "a prompt was handled before it was inserted"
        assert not context.is_cancelled, "cancelled work entered its handler"
        sent.context = context
        if sent.mode == "permission":
            return self._asking(sent)
        work: Deferred[Any]
        sent.work = work = Deferred(lambda _: None if sent.mode == "swallows" else setattr(sent, "done", True))
        if sent.mode == "swallows":
            work.addErrback(self._swallow, sent)
        elif sent.mode == "cooperates":
            context.on_cancel(lambda: sent.finish("result"))
        elif sent.mode in ("result", "failure", "boom", "empty"):
            sent.finish(sent.mode)
        return work

    @staticmethod
    def _swallow(failure: Failure, sent: Sent) -> Deferred[Any] | Failure:
        if sent.done:
            return failure
        sent.work = Deferred()
        return sent.work

    async def _asking(self, sent: Sent) -> str:
        try:
            await self.ask(sent)
        finally:
            sent.done = True
        return "end_turn"

    def ask(self, sent: Sent, **options: Any) -> Deferred[Any]:
        """The handler of C{sent} asks the user."""
        option = v2.PermissionOption(option_id="y", name="Yes", kind="allow_once")
        asked: Deferred[Any] = sent.context.request_permission(None, [option], title="May I?", **options)
        return asked

    def ask_beside(self, sent: Sent) -> None:
        """The same, and the handler does not wait for it."""
        self.ask(sent, blocks=False).addErrback(_nothing)
        self.after()

    def background(self, session: str, work: bool) -> None:
        """The agent reports what goes on in the background of a session, whatever its foreground is at."""
        held = self.served.connection.session(session)
        if held is not None:
            held.report_background([v2.BackgroundToolCall(tool_call_id=BACKGROUND)] if work else [])
            self.after()

    def ask_from_background(self, session: str) -> None:
        """Work in the background asks the user."""
        if self.served.connection.session(session) is None or not self.served.is_open:
            return
        subject = v2.ToolCallPermissionSubject(tool_call=v2.ToolCallUpdate(tool_call_id=BACKGROUND))
        option = v2.PermissionOption(option_id="y", name="Yes", kind="allow_once")
        request = v2.RequestPermissionRequest(session_id=session, title="May I?", subject=subject, options=[option])
        self.served.connection.call(request).addErrback(_nothing)
        self.after()

    def update(self, sent: Sent) -> None:
        """The handler of C{sent} says something; it may be too late."""
        self.sent_updates += 1
        sent.context.send_message(f"{sent.number} {self.sent_updates}").addErrback(_nothing)
        self.after()

    # ---- the client's handlers

    def _permission(self, request: v2.RequestPermissionRequest) -> Deferred[Any]:
        outcome = v2.SelectedPermissionOutcome(option_id="y")
        return self.gate("permission", lambda: v2.RequestPermissionResponse(outcome=outcome))

    def _updated(self, notification: v2.UpdateSessionNotification) -> Deferred[Any] | None:
        session = notification.session_id
        number = _number(notification.update)
        if number is None:
            return None
        self.told[session].append(number)
        self.read_wire()
        assert self.told[session] == self.written[session][: len(self.told[session])], "updates out of order"
        return self.gate("update", lambda: None) if self.slow_updates else None

    def gate(self, name: str, result: Callable[[], Any]) -> Deferred[Any]:
        """Something that ends when the test lets it."""

        def stopped(_: object) -> None:
            self.gates[:] = [each for each in self.gates if each[1] is not waiting]

        waiting: Deferred[Any] = Deferred(stopped)
        self.gates.append((name, waiting, result))
        return waiting

    def let_go(self, position: int) -> None:
        """Let one of them end."""
        _, waiting, result = self.gates.pop(position % len(self.gates))
        waiting.callback(result())
        self.after()

    # ---- what the client does

    def prompt(
        self, session: str, mode: str, signal: int | None = None, timeout: float | None = None, read: bool = False
    ) -> Sent:
        """The client prompts a session, whatever that is at."""
        number = len(self.prompts)
        stop = None if signal is None else self.signals[signal]
        before = len(self.link.wire)
        made = Sent(number, session, mode, None)  # type: ignore[arg-type]
        self.prompts.append(made)
        made.prompt = prompt = self.sessions[session].prompt(str(number), stop, timeout=timeout)
        assert len(self.link.wire) > before or self.lost or not self.client.is_open
        made.bounded = timeout is not None
        prompt.accepted.addBoth(made.accepted.append)
        prompt.idle.addBoth(self._ended, made)
        if read:
            made.reader = Deferred.fromCoroutine(self._collect(made))
        self.after()
        return made

    def _ended(self, outcome: Any, sent: Sent) -> None:
        sent.idle.append(outcome)
        self.read_wire()
        assert len(sent.idle) == 1, "a prompt ended twice"
        assert sent.prompt is None or sent.prompt.over
        error = outcome.value if isinstance(outcome, Failure) else None
        if error is None:
            if sent.ended is not None and sent.message_id is not None:
                assert outcome.stop_reason == sent.ended["stopReason"], "a prompt ended with another's work"
            else:
                assert sent.refused or sent.session in self.closed, "a prompt ended before its work"
                assert outcome.stop_reason == "cancelled"
                assert sent.may_be_cancelled
        elif isinstance(error, AcpConnectionError):
            assert self.lost or self.ending
        elif isinstance(error, RequestTimedOut):
            assert sent.bounded
        elif isinstance(error, RequestCancelled) and not error.remote:
            assert sent.given_up
        else:
            assert isinstance(error, AcpError)
            assert error.remote
            assert sent.refused

    async def _collect(self, sent: Sent) -> None:
        while sent.prompt is None:
            raise AssertionError
        async for update in sent.prompt.updates():
            number = _number(update)
            if number is not None:
                sent.read.append(number)

    def wait_for_idle(self, session: str) -> None:
        """Somebody waits for the end of work, whoever's it is."""

        def ended(report: v2.IdleStateUpdate) -> None:
            assert report.stop_reason is not None, "a repetition counted as an end"

        self.sessions[session].when_idle().addCallback(ended).addErrback(_nothing)

    def cancel_session(self, session: str) -> None:
        """The client sends session/cancel."""
        self.sessions[session].cancel()
        self.after()

    def cancel_prompt(self, sent: Sent) -> None:
        """The client stops one prompt."""
        sent.prompt.cancel()
        self.after()

    def give_up(self, sent: Sent, what: str) -> None:
        """The client cancels one of a prompt's Deferreds."""
        deferred: Deferred[Any] = getattr(sent.prompt, what)
        if not deferred.called:
            sent.given_up = True
        deferred.cancel()
        self.after()

    def give_signal(self, number: int, renew: bool) -> None:
        """A signal is given, to all that hold it."""
        self.signals[number].cancel()
        if renew:
            self.signals[number] = CancellationSignal()
        self.after()

    def close_session(self, session: str) -> None:
        """The client closes a session, and opens it no more."""
        if session in self.closed:
            return
        self.closed.add(session)
        self.client.close_session(session).addErrback(_nothing)
        self.after()

    # ---- time and the end

    def fire(self) -> None:
        """Time goes on to the next timer."""
        due = min((call.getTime() for call in self.clock.getDelayedCalls()), default=None)
        if due is not None:
            self.clock.advance(max(0.0, due - self.clock.seconds()))
            self.after()

    def disconnect(self, who: Who) -> None:
        """The link breaks."""
        if not self.lost:
            self.lost = True
            (self.link.a if who == "client" else self.link.b).abort("cut")
            self.after()

    def shut_down(self, who: Who) -> None:
        """One side ends the conversation in good order."""
        self.ending = True
        (self.client if who == "client" else self.served).close()
        self.after()

    # ---- the wire

    def deliver(self, who: Who) -> bool:
        """One message that C{who} has sent arrives."""
        self.after()
        here, there = (self.link.a, self.link.b) if who == "client" else (self.link.b, self.link.a)
        if not here._queue or (there.paused and not there.closed):
            return False
        item = here._queue[0][1]
        if isinstance(item, bytes):
            if not there.closed:
                self._arrives(who, json.loads(item))
        else:
            self.lost = True
        assert self.link.deliver("a>b" if who == "client" else "b>a")
        self.after()
        return True

    def settle_messages(self) -> None:
        """Everything that is on its way arrives."""
        while self.deliver("client") or self.deliver("agent"):
            pass

    def after(self) -> None:
        """Something has happened: hold what was written because of it to the rules."""
        self.read_wire()
        assert not self.due or self.link.a.closed, "V2D3: a permission was left unanswered"
        self.due.clear()
        self.lost = self.lost or self.link.a._lost

    def read_wire(self) -> None:
        """Look at what was written."""
        wire = self.link.wire
        while self.read_so_far < len(wire):
            way, data = wire[self.read_so_far]
            self.read_so_far += 1
            self._written("client" if way == "a>b" else "agent", json.loads(data))

    def _written(self, who: Who, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            self._answer_written(who, message)
        elif "id" in message:
            assert message["id"] not in self.lines[who], "X13: an id was used twice"
            line = Line(message["id"], method, params.get("sessionId"))
            line.background = "subject" in params
            self.lines[who][line.id] = line
            if method == "session/close":
                self._blame(params["sessionId"])
            elif method == "session/prompt":
                line.number = int(params["prompt"][0]["text"])
                self.prompts[line.number].line = line
        elif method == "$/cancel_request":
            line = self.lines[who][params["requestId"]]
            assert not line.answered, f"{line.method} was cancelled after its answer had come"
            line.cancels += 1
            assert line.cancels == 1, f"{line.method} was cancelled twice"
            if line.number is not None:
                self.prompts[line.number].may_be_cancelled = True
        elif method == "session/cancel":
            self._blame(params["sessionId"])
            # What is open at the client must be answered before it does anything else.
            held = self.sessions[params["sessionId"]]
            spared = self.spare and bool(held.foreground.background)
            self.due |= {
                each.id
                for each in self.lines["agent"].values()
                if each.session == held.session_id
                and each.arrived
                and not each.answers
                and not (spared and each.background)
            }
        elif method == "session/update":
            self._update_written(params["sessionId"], params["update"])

    def _blame(self, session: str) -> None:
        for each in self.prompts:
            if each.session == session and each.line is not None:
                each.may_be_cancelled = True

    def _answer_written(self, who: Who, message: dict[str, Any]) -> None:
        line = self.lines["agent" if who == "client" else "client"][message["id"]]
        line.answers.append(message)
        assert len(line.answers) == 1, f"{line.method} was answered twice"
        if line.method == "session/request_permission":
            if line.cancels and line.arrived and "result" not in message:
                assert self.ending or self.lost, "X12: a cancelled permission is no error"
            if line.id in self.due:
                self.due.discard(line.id)
                assert message["result"] == CANCELLED, "V2D3"
        elif line.method == "session/prompt":
            assert line.number is not None
            sent = self.prompts[line.number]
            if "result" in message:
                sent.message_id = message["result"]["messageId"]
                assert not sent.must_be_cancelled, "V2N9: a held prompt outlived the cancellation"
                assert self.work[sent.session] is None, "a prompt was inserted into other work"
                self.work[sent.session] = sent
            else:
                sent.refused = True
                assert not sent.shown, "V2D7: an error after the message was inserted"
                if message["error"]["code"] == -32800:
                    assert sent.may_be_cancelled or self.ending or line.cancels, "cancelled by nobody"

    def _update_written(self, session: str, update: dict[str, Any]) -> None:
        kind, current = update["sessionUpdate"], self.work[session]
        if kind == "user_message":
            [sent] = [each for each in self.prompts if each.message_id == update["messageId"]]
            assert not sent.shown, "a message was reported twice"
            sent.shown = True
        elif kind == "state_update":
            self._state_written(session, update, current)
        else:
            number, serial = (int(each) for each in update["content"]["text"].split())
            assert current is self.prompts[number], "an update outside of its work (V2N8)"
            assert current.running
            self.written[session].append(serial)

    def _state_written(self, session: str, update: dict[str, Any], current: Sent | None) -> None:
        if current is None or (update["state"] == "idle" and "stopReason" not in update):
            # Only a repetition may come then, because of what goes on in the background.
            assert current is None or not current.running, "idle in the midst of work"
            assert update["state"] == "idle", "nothing is at work"
            assert "stopReason" not in update, "a report of work that there was not (V2D6)"
            assert "background" in update
            return
        if update["state"] in ("running", "requires_action"):
            current.running = True
            return
        assert current.running, "idle without having been busy"
        assert update["state"] == "idle"
        reason = update["stopReason"]
        if current.must_be_cancelled:
            assert reason == "cancelled", f"V2D5: cancelled work ended with {reason}"
        elif reason == "cancelled":
            assert current.may_be_cancelled or self.ending, "cancelled by nobody"
        current.ended = update
        self.work[session] = None

    def _arrives(self, who: Who, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            self.lines["agent" if who == "client" else "client"][message["id"]].answered = True
        elif "id" in message:
            self.lines[who][message["id"]].arrived = True
        elif method == "session/cancel":
            session = params["sessionId"]
            for each in self.prompts:
                # What the agent has, and has not ended.  What is still on its way is not concerned (V2N9).
                if each.session == session and each.line is not None and each.line.arrived and not each.refused:
                    each.must_be_cancelled = each.must_be_cancelled or each.ended is None

    # ---- the end

    def check(self) -> None:
        """What holds between any two steps."""
        self.after()
        for name, session in self.sessions.items():
            if session.stopping:
                assert session.foreground.busy or session._doomed, f"{name} stops nothing"
            assert all(not each.over for each in session.prompts)

    def finish(self) -> None:
        """Let everything come to its end, first with the link as it is and then without: nothing may be left."""
        self.slow_updates = False
        self._let_all_go()
        if not (self.lost or self.ending):
            for who, lines in self.lines.items():
                for line in lines.values():
                    assert len(line.answers) == 1, f"{line.method} of {who} was not answered"
            for sent in self.prompts:
                assert len(sent.accepted) == len(sent.idle) == 1, f"prompt {sent.number} is not over"
                assert (sent.message_id is not None) == sent.shown or sent.session in self.closed
            for name, session in self.sessions.items():
                assert session.prompts == ()
                assert not session.stopping
                assert not session.foreground.busy or name in self.closed
                assert self.work[name] is None
            for name, numbers in self.written.items():
                assert name in self.closed or self.told[name] == numbers, "an update was lost"
            self._check_tables()
        self.disconnect("client")
        self._let_all_go()
        self._check_tables()
        for sent in self.prompts:
            assert len(sent.accepted) == len(sent.idle) == 1
            assert sent.reader is None or sent.reader.called, "the updates of a prompt did not end with it"
            whole = self.told[sent.session]
            if sent.read:
                first = whole.index(sent.read[0])
                assert sent.read == whole[first : first + len(sent.read)], "a reader missed something"

    def _check_tables(self) -> None:
        assert self.clock.getDelayedCalls() == [], self.clock.getDelayedCalls()
        for connection in (self.client, self.served):
            assert connection.peer.pending_requests == 0
            assert connection.peer.incoming_requests == 0
            assert len(connection.peer.lanes) == 0
        assert self.client._permissions == {}
        assert len(self.client._early) == self.client._opening == 0
        for signal in self.signals:
            assert not signal._token._callbacks

    def _let_all_go(self) -> None:
        moved = True
        while moved:
            moved = self.deliver("client") or self.deliver("agent")
            if self.gates:
                self.let_go(0)
                moved = True
            for sent in self.prompts:
                if sent.work is not None and not sent.done:
                    sent.finish("result")
                    self.after()
                    moved = True


def _number(update: Any) -> int | None:
    """The number of an update of a handler's."""
    if not isinstance(update, v2.AgentMessageChunk):
        return None
    assert isinstance(update.content, v2.TextContent)
    return int(update.content.text.split()[1])


def _nothing(failure: Failure) -> None:
    failure.trap(AcpError)
