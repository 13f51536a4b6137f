"""
One half of a conversation, and on its other end the test itself, which speaks plain JSON.

For what no well-behaved peer would say, and for what stands on the wire exactly.  Everything is delivered at once, and
time stands still until the test lets it pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.agent.connection import AgentConnection
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.session import ClientSession
from acp_twisted.connection import Connection
from acp_twisted.interfaces import IMessageReceiver, IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.testing._failed import failed
from acp_twisted.testing.pair import ConnectsAgent, ConnectsClient
from acp_twisted.testing.recording import RecordingReceiver
from acp_twisted.testing.results import success_result
from acp_twisted.testing.transcript import Transcript
from acp_twisted.transports.memory import MemoryLink

Message = dict[str, Any]
_C = TypeVar("_C", bound=Connection)


@implementer(IMessageReceiver)
class WireEnd:
    """
    The other end of a link, which only keeps what comes: to be joined to anything by a L{MemoryLink}.

    @ivar received: the messages that came, decoded.
    @ivar ended: whether the other side says no more.
    @ivar lost: whether the link is gone.
    @ivar transport: what it could say something on.
    """

    def __init__(self) -> None:
        self.received: list[Message] = []
        self.ended = False
        self.lost = False
        self.transport: IMessageTransport | None = None

    def connection_made(self, transport: IMessageTransport) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.transport = transport

    def message_received(self, message: bytes) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.received.append(json.loads(message))

    def oversized_received(self, head: bytes, size: int, tail: bytes = b"") -> None:
        """
        See L{IMessageReceiver}.
        """
        raise failed("a link in memory has no oversized messages")

    def remainder_received(self, message: bytes) -> None:
        """
        See L{IMessageReceiver}.
        """
        raise failed("a link in memory has no halves of messages")

    def input_ended(self) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.ended = True

    def connection_lost(self, reason: Failure) -> None:
        """
        See L{IMessageReceiver}.
        """
        self.lost = True

    def writing_paused(self) -> None:
        """
        See L{IMessageReceiver}.
        """

    def writing_resumed(self) -> None:
        """
        See L{IMessageReceiver}.
        """

    def shutdown(self) -> Deferred[None]:
        """
        See L{IMessageReceiver}.
        """
        return succeed(None)


class HalfOnWire(Generic[_C]):
    """
    A connection, and its other end.

    @ivar connection: the half.
    @ivar clock: what it takes its time from.
    @ivar link: what joins it to the test, which is the side C{b}.
    @ivar end: the test's end.
    @ivar transcript: what was said, by C{"us"} (the half) and C{"test"}.
    """

    def __init__(self, connection: _C, clock: Clock, limits: Limits | None = None, *, name: str = "us") -> None:
        """
        @param limits: those of the link.
        @param name: what the transcript calls the half.
        """
        self.connection = connection
        self.clock = clock
        self.name = name
        self.end = WireEnd()
        self._recorded = RecordingReceiver(connection.peer, us=name, them="test")
        self.link = MemoryLink(self._recorded, self.end, clock, limits)
        self._last_id = 0

    # ---- what the half says

    @property
    def transcript(self) -> Transcript:
        """What was said."""
        return self._recorded.transcript

    @property
    def received(self) -> list[Message]:
        """
        What the half has sent since the last L{take}, as it is.
        """
        return self.end.received

    def take(self) -> list[Message]:
        """
        What the half has sent since the last time, each without its C{jsonrpc}.
        """
        taken = [{name: each[name] for name in each if name != "jsonrpc"} for each in self.end.received]
        self.end.received.clear()
        return taken

    def answers(self, number: Any) -> list[Message]:
        """
        The answers to one of the test's requests since the last L{take}, each without its envelope.
        """
        return [
            {name: each[name] for name in each if name not in ("jsonrpc", "id")}
            for each in self.end.received
            if "method" not in each and type(each["id"]) is type(number) and each["id"] == number
        ]

    def answer_to(self, number: Any) -> Message:
        """
        The one answer to a request.

        @raise AssertionError: when there is none, or more than one.
        """
        found = self.answers(number)
        if len(found) != 1:
            raise failed(f"expected one answer to {number!r}; there are {len(found)}:\n{self.transcript}")
        return found[0]

    def asked(self, method: str) -> list[Message]:
        """
        The half's requests and notifications of one method since the last L{take}.
        """
        return [each for each in self.end.received if each.get("method") == method]

    def methods(self) -> list[str | None]:
        """
        What the half has sent since the last L{take}, by method; L{None} is an answer.
        """
        return [each.get("method") for each in self.end.received]

    def last_id(self) -> Any:
        """
        The id of the half's last request.

        @raise AssertionError: when it has sent none.
        """
        ids = [each["id"] for each in self.end.received if "method" in each and "id" in each]
        if not ids:
            raise failed(f"expected a request; there is none:\n{self.transcript}")
        return ids[-1]

    @property
    def lost(self) -> bool:
        """
        Whether the link is gone.
        """
        return self.end.lost

    # ---- what the test says

    def send(self, *messages: Mapping[str, Any]) -> None:
        """
        Say something; all of it is on its way before any of it arrives.  C{jsonrpc} is added where it is missing.
        """
        self.send_bytes(*(json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages))

    def send_bytes(self, *messages: bytes) -> None:
        """
        Say what need not be JSON.
        """
        self.link.auto = False
        for message in messages:
            self.link.b.send(message)
        self.link.auto = True
        self.link.deliver_all()

    def request(self, method: str, params: Any = None, number: Any = None) -> Any:
        """
        Send a request.

        @param number: its id; by default the next of 1, 2, 3….
        @return: its id.
        """
        if number is None:
            self._last_id += 1
            number = self._last_id
        self.send({"id": number, "method": method, **({} if params is None else {"params": params})})
        return number

    def ask(self, method: str, params: Any = None) -> Message:
        """
        Send a request, and take its answer.

        @raise AssertionError: when it is not answered at once.
        """
        return self.answer_to(self.request(method, params))

    def notify(self, method: str, params: Any = None) -> None:
        """
        Send a notification.
        """
        self.send({"method": method, **({} if params is None else {"params": params})})

    def respond(self, result: Any, number: Any = None) -> None:
        """
        Answer a request of the half's.

        @param number: its id; by default that of the last one.
        """
        self.send({"id": self.last_id() if number is None else number, "result": result})

    def refuse(self, code: int, data: Any = None, *, message: str = "no", number: Any = None) -> None:
        """
        Answer a request of the half's with an error.

        @param data: what else there is to say; L{None} is nothing.
        @param number: the request's id; by default that of the last one.
        """
        error = {"code": code, "message": message, **({} if data is None else {"data": data})}
        self.send({"id": self.last_id() if number is None else number, "error": error})

    def cancel_request(self, number: Any) -> None:
        """
        Send C{$/cancel_request}.
        """
        self.notify("$/cancel_request", {"requestId": number})

    def end_input(self) -> None:
        """
        Say no more, and go on listening.
        """
        self.link.b.half_close()

    def lose(self) -> None:
        """
        The link breaks.
        """
        self.link.b.abort("gone")

    # ---- time

    def advance(self, seconds: float) -> None:
        """
        Let time pass.
        """
        self.clock.advance(seconds)

    def idle(self) -> bool:
        """
        Whether no timer is left.
        """
        return not self.clock.getDelayedCalls()


class AgentOnWire(HalfOnWire[AgentConnection]):
    """
    An agent, with the test for a client.
    """

    def __init__(
        self,
        agent: ConnectsAgent,
        *,
        initialized: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
    ) -> None:
        """
        @param initialized: begin with C{initialize}, whose answer is taken away.
        @param capabilities: what the client can do.
        """
        clock = Clock()
        super().__init__(agent.connect(clock), clock, limits, name="agent")
        self.initialized: Any = None
        if initialized:
            self.send(
                {
                    "id": "initialize",
                    "method": "initialize",
                    "params": {"protocolVersion": 1, "clientCapabilities": capabilities or {}},
                }
            )
            self.initialized = self.answer_to("initialize")["result"]
            self.take()

    def open_session(self, cwd: str = "/work", **params: Any) -> str:
        """
        Open a session.

        @return: its id.
        """
        answer = self.ask("session/new", {"cwd": cwd, "mcpServers": [], **params})
        self.take()
        session_id: str = answer["result"]["sessionId"]
        return session_id

    def prompt(self, session_id: str, text: str = "hi", number: Any = None) -> Any:
        """
        Send a prompt.

        @return: its id.
        """
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
        return self.request("session/prompt", params, number)

    def cancel(self, session_id: str) -> None:
        """
        Send C{session/cancel}.
        """
        self.notify("session/cancel", {"sessionId": session_id})


class ClientOnWire(HalfOnWire[ClientConnection]):
    """
    A client, with the test for an agent.
    """

    def __init__(
        self,
        client: ConnectsClient,
        *,
        initialized: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        answer: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
    ) -> None:
        """
        @param initialized: begin with C{initialize}, and answer it.
        @param capabilities: what the agent can do.
        @param answer: more members of that answer.
        """
        clock = Clock()
        super().__init__(client.connection(clock), clock, limits, name="client")
        if initialized:
            agreeing = self.connection.initialize()
            self.respond({"protocolVersion": 1, "agentCapabilities": capabilities or {}, **(answer or {})})
            success_result(agreeing)
            self.take()

    def open_session(self, session_id: str = "s1", cwd: str = "/work") -> ClientSession:
        """
        Open a session, and answer that.
        """
        opening = self.connection.new_session(cwd)
        self.respond({"sessionId": session_id})
        self.take()
        return success_result(opening)

    def update(self, session_id: str, kind: str, **members: Any) -> None:
        """
        Send C{session/update}.

        @param kind: such as C{"plan"}.
        @param members: the rest of the update, by the names on the wire.
        """
        self.notify("session/update", {"sessionId": session_id, "update": {"sessionUpdate": kind, **members}})

    def say(self, session_id: str, text: str) -> None:
        """
        Send a piece of the agent's message.
        """
        self.update(session_id, "agent_message_chunk", content={"type": "text", "text": text})
