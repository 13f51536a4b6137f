"""
Who moves the messages of a modelled conversation, reads the wire, and holds both halves to the rules.
"""

from __future__ import annotations

import json
from typing import Any

from conversation_parts import DRAIN, OTHER, WAY, Asked, Line, SessionModel, Turn, Who
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from acp_twisted import CancellationSignal
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.session import ClientSession
from acp_twisted.errors import AcpConnectionError, AcpError, LocalError, RequestCancelled, RequestTimedOut
from acp_twisted.transports.memory import MemoryLink


class WireRules:
    """
    The wire of one conversation, and the model that hears of everything that arrives before its receiver does.
    """

    clock: Clock
    link: MemoryLink
    client: ClientConnection
    agent: AgentConnection
    models: dict[str, SessionModel]
    sessions: dict[str, ClientSession]
    signals: list[CancellationSignal]
    turns: list[Turn]
    asked: list[Asked]
    delivered: dict[str, list[int]]
    finished: dict[str, int]

    def __init__(self) -> None:
        self.lines: dict[Who, dict[int, Line]] = {"client": {}, "agent": {}}
        self.read = 0
        self.agent_closing = self.client_closing = False
        self.input_over: set[Who] = set()
        self.lost = False
        self.drain_due: float | None = None
        self.drained = False
        self.released = False  # once the link is gone, answers do not wait for handlers for ever
        self.due_permissions: set[int] = set()
        self.explicit_cancel = False

    # ---- the wire

    def deliver(self, who: Who) -> bool:
        """One message that C{who} has sent arrives."""
        self.read_wire()
        queue = self._queue(who)
        if not queue or (self.transport(OTHER[who]).paused and not self.transport(OTHER[who]).closed):
            return False
        item = queue[0][1]
        if isinstance(item, bytes):
            if not self.transport(OTHER[who]).closed:
                self._arrives(who, json.loads(item))
        elif type(item).__name__ == "_Close":
            self._before_loss()
        elif who == "client":
            self._input_ends("client")
        else:
            self._input_ends("agent")
        assert self.link.deliver(WAY[who])
        self.after()
        return True

    def transport(self, who: Who) -> Any:
        """The end of the link that C{who} has."""
        return self.link.a if who == "client" else self.link.b

    def _queue(self, who: Who) -> Any:
        return self.transport(who)._queue

    def settle_messages(self) -> None:
        """Everything that is on its way arrives."""
        while self.deliver("client") or self.deliver("agent"):
            pass

    def reorder(self, who: Who, position: int) -> bool:
        """Swap two neighbours on their way that belong to different sessions, which may overtake each other."""
        queue = self._queue(who)
        if len(queue) < 2:
            return False
        first = position % (len(queue) - 1)
        one, other = queue[first], queue[first + 1]
        if not (isinstance(one[1], bytes) and isinstance(other[1], bytes)):
            return False
        sessions = self._session_of(who, json.loads(one[1])), self._session_of(who, json.loads(other[1]))
        if None in sessions or sessions[0] == sessions[1]:
            return False
        queue[first], queue[first + 1] = (one[0], other[1]), (other[0], one[1])
        return True

    def _session_of(self, who: Who, message: dict[str, Any]) -> str | None:
        method = message.get("method")
        if method is None:
            line = self.lines[OTHER[who]].get(message["id"])
        elif method == "$/cancel_request":
            line = self.lines[who].get(message["params"]["requestId"])
        else:
            session: str | None = message.get("params", {}).get("sessionId")
            return session
        return None if line is None else line.session

    def inject(self, who: Who, message: dict[str, Any]) -> None:
        """Something arrives that C{who} never sent."""
        transport = self.transport(OTHER[who])
        if not transport.closed and not transport.paused:
            transport.receiver.message_received(json.dumps(message).encode())
            self.after()

    def repeat(self, who: Who, position: int, what: str) -> None:
        """Something arrives again that is about a request whose answer has arrived."""
        asker = OTHER[who] if what != "cancel" else who
        lines = [line for line in self.lines[asker].values() if line.answered and len(line.answers) == 1]
        if not lines:
            return
        line = lines[-1 - position % len(lines)]
        if what == "cancel":
            message: dict[str, Any] = {"method": "$/cancel_request", "params": {"requestId": line.id}}
        elif what == "result":
            message = {"id": line.id, "result": {}}
        else:
            message = {"id": line.id, "error": {"code": -32603, "message": "m"}}
        self.inject(who, {"jsonrpc": "2.0", **message})

    def answer_early(self, who: Who, position: int) -> None:
        """C{who} answers with an error what is still to be answered; its own answer will come second."""
        early = ("session/request_permission", "fs/read_text_file", "_ask", "session/list")
        lines = [line for line in self.lines[OTHER[who]].values() if not line.answered and line.method in early]
        transport = self.transport(OTHER[who])
        if lines and not transport.closed and not transport.paused:
            line = lines[position % len(lines)]
            line.answered = True
            self.inject(who, {"jsonrpc": "2.0", "id": line.id, "error": {"code": -32603, "message": "m"}})

    def after(self) -> None:
        """Something has happened: read what was written because of it."""
        self.read_wire()
        if not self.lost and self.link.a._lost:
            self.lost = True

    def read_wire(self) -> None:
        """Hold everything that was written since the last time to the rules."""
        wire = self.link.wire
        while self.read < len(wire):
            way, data = wire[self.read]
            self.read += 1
            self._written("client" if way == "a>b" else "agent", json.loads(data))

    def _written(self, who: Who, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method is None:
            self._answer_written(who, message)
        elif "id" in message:
            self._request_written(who, message)
        elif method == "$/cancel_request":
            line = self.lines[who].get(message["params"]["requestId"])
            assert line is not None, "a cancellation of what was never asked"
            assert not line.answered, f"{line.method} was cancelled after its answer had come"
            line.cancels += 1
            assert line.cancels == 1, f"{line.method} was cancelled twice"
        elif method == "session/cancel":
            self._session_cancel_written(message["params"]["sessionId"])
        elif method == "session/update":
            number = int(message["params"]["update"]["content"]["text"].split()[0])
            assert not self.turns[number].answered, "an update after the answer of its turn"

    def _request_written(self, who: Who, message: dict[str, Any]) -> None:
        number = message["id"]
        assert number not in self.lines[who], "an id was used twice"
        session = message.get("params", {}).get("sessionId")
        line = self.lines[who][number] = Line(number, message["method"], session)
        if line.method == "session/prompt":
            line.turn = self.turns[int(message["params"]["prompt"][0]["text"])]

    def _session_cancel_written(self, session: str) -> None:
        if self.explicit_cancel:
            self.explicit_cancel = False
        else:
            turn = self._client_turn(session)
            assert turn is not None, "session/cancel without a turn"
            turn.session_cancels += 1
            assert turn.session_cancels == 1, "a turn was cancelled twice"
        # V1C3: whoever waits for the user's word has it behind the notification, in the same breath.
        for line in self.lines["agent"].values():
            asked = line.method == "session/request_permission" and line.session == session and line.arrived
            if asked and not line.answers:
                self.due_permissions.add(line.id)

    def _client_turn(self, session: str) -> Turn | None:
        """The turn of a session that the client has had no answer to."""
        for line in self.lines["client"].values():
            if line.turn is not None and line.session == session and line.turn.turn is not None and not line.answered:
                asked = line.turn.asked
                if asked is None or not asked.outcomes:
                    return line.turn
        return None

    def _answer_written(self, who: Who, message: dict[str, Any]) -> None:
        line = self.lines[OTHER[who]].get(message["id"])
        assert line is not None, f"an answer to nothing: {message}"
        assert line.arrived, "an answer to what has not arrived"
        line.answers.append(message)
        assert len(line.answers) == 1, f"{line.method} was answered twice"
        if line.turn is not None:
            self._prompt_answered(line.turn, message)
        if who == "client" and line.id in self.due_permissions:
            assert message["result"] == {"outcome": {"outcome": "cancelled"}}, message
            self.due_permissions.discard(line.id)

    def _prompt_answered(self, turn: Turn, message: dict[str, Any]) -> None:
        turn.answered = True
        given = _kind(turn, message)
        if turn.expected is not None:
            assert given == turn.expected, f"prompt {turn.number}: {given}, not {turn.expected}"
            return
        assert turn.model is not None
        assert turn.index is not None
        expected = turn.model.turns[turn.index].answers
        if expected == ["error"] and "error" in message:
            return
        assert expected == [given], f"prompt {turn.number} ({turn.mode}): {given}, not {expected}"

    # ---- arrival

    def _arrives(self, who: Who, message: dict[str, Any]) -> None:
        """A message is about to arrive: the model hears of it first."""
        method = message.get("method")
        if method is None:
            line = self.lines[OTHER[who]][message["id"]]
            own = self.lines[OTHER[who]][message["id"]]
            own.answered = True
            if line.session is not None:
                line.updates_before = len(self.delivered[line.session])
            return
        if "id" in message:
            self.lines[who][message["id"]].arrived = True
        if who == "client":
            self._reaches_agent(message)
        elif method == "session/update":
            params = message["params"]
            self.delivered[params["sessionId"]].append(int(params["update"]["content"]["text"].split()[1]))

    def _reaches_agent(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params", {})
        model = self.models.get(params.get("sessionId", ""))
        if method == "session/prompt":
            self._prompt_arrives(self.lines["client"][message["id"]])
        elif method == "session/cancel":
            self.session_event("cancel", model)
        elif method == "session/close" and not self.agent_closing:
            self.session_event("close", model)
        elif method == "$/cancel_request":
            line = self.lines["client"].get(params["requestId"])
            if line is not None:
                self.request_cancelled(line)

    def request_cancelled(self, line: Line) -> None:
        """A cancellation of a request of the client's reaches the agent."""
        turn = line.turn
        if turn is not None and turn.model is not None and line.arrived:
            turn.model.apply("cancelRequest", turn.index)

    def _prompt_arrives(self, line: Line) -> None:
        turn = line.turn
        assert turn is not None
        model = self.models[turn.session]
        if self.agent_closing:
            turn.expected = "-32800"
        elif model.state == "Closed":
            turn.expected = "error -32002"
        elif model.apply("prompt"):
            turn.model, turn.index = model, model.current
        else:
            turn.expected = "error -32600"
        if turn.must_be_accepted:
            assert turn.expected is None or self.agent_closing, f"prompt {turn.number} was sent to a busy session"

    def session_event(self, event: str, model: SessionModel | None) -> None:
        """C{"cancel"} or C{"close"} reaches a session."""
        if model is None or model.state == "Closed":
            return
        current = model.current
        model.apply(event)
        if current is not None:
            turn = next(each for each in self.turns if each.model is model and each.index == current)
            if turn.context is None and model.current == current:
                # Its handler has not begun, and never will.
                model.apply("failure", current)

    def _input_ends(self, who: Who) -> None:
        self.input_over.add(who)
        if who == "client" and self.agent.peer.incoming_requests:
            self.drain_due = self.clock.seconds() + DRAIN

    def _before_loss(self) -> None:
        for model in self.models.values():
            model.apply("connectionLost")
        self.lost = True

    # ---- what callers were told

    def _check_outcome(self, asked: Asked, result: Any) -> None:
        error = result.value if isinstance(result, Failure) else None
        if isinstance(error, AcpConnectionError):
            assert self.lost or self.client_closing or self.agent_closing or self.input_over
        elif isinstance(error, RequestTimedOut):
            assert asked.bounded
        elif isinstance(error, LocalError):
            raise AssertionError(f"{asked.method}: {error!r}")
        elif isinstance(error, RequestCancelled) and not error.remote:
            assert asked.cancelled or asked.who == "agent" or asked.bounded, "cancelled by nobody"
        elif isinstance(error, AcpError):
            assert error.remote, f"{asked.method}: {error!r}"
            self._check_answered(asked)
        elif error is None:
            self._check_answered(asked)
        else:
            raise AssertionError(f"{asked.method}: {error!r}")

    def _check_answered(self, asked: Asked) -> None:
        number = asked.call.request_id
        assert number is not None
        line = self.lines[asked.who][number]
        assert line.answered, "a call was settled without an answer"
        if asked.method == "prompt" and line.session is not None and not (asked.during or self.released):
            done, before = self.finished[line.session], line.updates_before
            assert done >= before, f"an answer overtook {before - done} updates"

    def check(self) -> None:
        """
        What holds between any two steps.
        """
        self.read_wire()
        assert not self.due_permissions or self.link.a.closed, "V1C3"
        self.due_permissions.clear()
        if self.lost or self.agent_closing or self.drained:
            return
        for name, model in self.models.items():
            session = self.agent._sessions.get(name)
            assert (session is None) == (model.state == "Closed"), f"{name} is {model.state}"
            if session is not None:
                assert session.busy == (model.current is not None), f"{name} is {model.state}"
        for turn in self.turns:
            if turn.context is not None and turn.model is not None and turn.index is not None:
                seen, wanted = turn.context.cancellations, tuple(turn.model.turns[turn.index].triggers)
                assert seen == wanted, f"a turn saw {seen}, not {wanted}"

    def _check_all_answered(self) -> None:
        for who, lines in self.lines.items():
            for line in lines.values():
                assert line.arrived
                assert len(line.answers) == 1, f"{line.method} of {who} was not answered"
                assert line.answered

    def _check_tables(self) -> None:
        assert self.clock.getDelayedCalls() == [], self.clock.getDelayedCalls()
        for connection in (self.client, self.agent):
            assert connection.peer.pending_requests == 0
            assert connection.peer.incoming_requests == 0
            assert len(connection.peer.lanes) == 0
        assert all(session.turn is None for session in self.agent._sessions.values())
        assert all(session.turn is None for session in self.client._sessions.values())
        assert all(session.turn is None for session in self.sessions.values())
        assert self.client._permissions == {}
        assert self.client._cancelling == set()
        assert len(self.client._early) == self.client._opening == 0
        for turn in self.turns:
            if turn.context is not None:
                left = {each.call for each in turn.requests if each.detached}
                assert turn.context._outstanding.keys() <= left
        for signal in self.signals:
            detached = sum(each.detached for each in self.asked)
            assert len(signal._token._callbacks) <= detached


def _kind(turn: Turn, message: dict[str, Any]) -> str:
    """An answer to a prompt in the words of the table."""
    error = message.get("error")
    if error is not None:
        if error["code"] != -32800:
            return f"error {error['code']}"
        return "-32800+duration" if "maxPromptDuration" in (error.get("data") or {}) else "-32800"
    result = message["result"]
    meta = result.get("_meta")
    assert meta in (None, {"n": turn.number})
    if result["stopReason"] == "end_turn":
        return "result"
    assert result["stopReason"] == "cancelled"
    return "cancelled" if meta is None else "cancelled+meta"
