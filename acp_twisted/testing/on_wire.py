"""
One half of a conversation, and on its other end the test itself, which speaks plain JSON.

For what no well-behaved peer would say, and for what stands on the wire exactly.  Everything is delivered at once, and
time stands still until the test lets it pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, overload

from twisted.internet.task import Clock

from acp_twisted.agent.connection import AgentConnection
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.session import ClientSession
from acp_twisted.connection import Connection
from acp_twisted.limits import Limits
from acp_twisted.testing._failed import failed
from acp_twisted.testing._versions import agreed
from acp_twisted.testing.pair import AnyClient, ConnectsAgent, ConnectsClient
from acp_twisted.testing.recording import RecordingReceiver
from acp_twisted.testing.results import success_result
from acp_twisted.testing.transcript import Transcript
from acp_twisted.testing.wire_end import Message, WireEnd
from acp_twisted.transports.memory import MemoryLink

__all__ = ["AgentOnWire", "ClientOnWire", "HalfOnWire", "Message", "WireEnd"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from acp_twisted.agent.v2.connection import AgentConnection as SecondAgentConnection
    from acp_twisted.client.v2.connection import ClientConnection as SecondClientConnection
    from acp_twisted.client.v2.session import ClientSession as SecondClientSession

    # They are of version 1 to who does not say otherwise.
    _C = TypeVar("_C", bound=Connection)
    _Agent = TypeVar("_Agent", bound=Connection, default=AgentConnection)
    _Client = TypeVar("_Client", bound=Connection, default=ClientConnection)
    _Session = TypeVar("_Session", default=ClientSession)
else:
    from typing import TypeVar

    _C = TypeVar("_C")
    _Agent = TypeVar("_Agent")
    _Client = TypeVar("_Client")
    _Session = TypeVar("_Session")

INFO: Final = {"name": "test", "version": "0"}
"""Who the test is, to a half of version 2."""


class HalfOnWire(Generic[_C]):
    """
    A connection, and its other end.

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
        self._link: Any = connection
        self.clock = clock
        self.name = name
        self.end = WireEnd()
        self._recorded = RecordingReceiver(connection.peer, us=name, them="test")
        self.link = MemoryLink(self._recorded, self.end, clock, limits)
        self._last_id = 0

    @property
    def connection(self) -> _C:
        """
        The half; where the version is agreed on first, what waits for that until then.
        """
        found: _C = agreed(self._link)
        return found

    @connection.setter
    def connection(self, connection: _C) -> None:
        self._link = connection

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

    def result_of(self, number: Any) -> Any:
        """
        The result that a request was answered with.

        @raise AssertionError: when there is no answer, or more than one, or an error.
        """
        answer = self.answer_to(number)
        if "result" not in answer:
            raise failed(f"expected a result of {number!r}; it was refused:\n{self.transcript}")
        return answer["result"]

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


class AgentOnWire(HalfOnWire[_Agent]):
    """
    An agent, with the test for a client.
    """

    @overload
    def __init__(
        self: AgentOnWire[AgentConnection],
        agent: ConnectsAgent,
        *,
        initialized: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        protocol_version: Literal[1] = 1,
    ) -> None: ...

    @overload
    def __init__(
        self: AgentOnWire[SecondAgentConnection],
        agent: ConnectsAgent,
        *,
        initialized: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        protocol_version: Literal[2],
    ) -> None: ...

    @overload
    def __init__(
        self: AgentOnWire[Any],
        agent: ConnectsAgent,
        *,
        initialized: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        protocol_version: int,
    ) -> None: ...

    def __init__(
        self,
        agent: ConnectsAgent,
        *,
        initialized: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        protocol_version: int = 1,
    ) -> None:
        """
        @param initialized: begin with C{initialize}, whose answer is taken away.
        @param capabilities: what the client can do.
        @param protocol_version: the version that the test asks for, in whose words.
        """
        clock = Clock()
        link: Any = agent.connect(clock)
        super().__init__(link, clock, limits, name="agent")
        self.initialized: Any = None
        self._first = protocol_version == 1
        if initialized:
            said = {"clientCapabilities": capabilities or {}}
            if not self._first:
                said = {"info": INFO, "capabilities": capabilities or {}}
            params = {"protocolVersion": protocol_version, **said}
            self.send({"id": "initialize", "method": "initialize", "params": params})
            self.initialized = self.result_of("initialize")
            self.take()

    def open_session(self, cwd: str = "/work", **params: Any) -> str:
        """
        Open a session.

        @return: its id.
        """
        servers: dict[str, Any] = {"mcpServers": []} if self._first else {}
        session_id: str = self.result_of(self.request("session/new", {"cwd": cwd, **servers, **params}))["sessionId"]
        self.take()
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


class ClientOnWire(HalfOnWire[_Client], Generic[_Client, _Session]):
    """
    A client, with the test for an agent.
    """

    @overload
    def __init__(
        self: ClientOnWire[ClientConnection, ClientSession],
        client: ConnectsClient,
        *,
        initialized: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        answer: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        protocol_version: Literal[1] = 1,
    ) -> None: ...

    @overload
    def __init__(
        self: ClientOnWire[SecondClientConnection, SecondClientSession],
        client: AnyClient,
        *,
        initialized: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        answer: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        protocol_version: Literal[2],
    ) -> None: ...

    @overload
    def __init__(
        self: ClientOnWire[Any, Any],
        client: AnyClient,
        *,
        initialized: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        answer: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        protocol_version: int = 1,
    ) -> None: ...

    def __init__(
        self,
        client: AnyClient,
        *,
        initialized: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        answer: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        protocol_version: int = 1,
    ) -> None:
        """
        @param initialized: begin with C{initialize}, and answer it.
        @param capabilities: what the agent can do; in version 2 that is sessions unless said otherwise.
        @param answer: more members of that answer.
        @param protocol_version: the version that the test answers with, in whose words.
        """
        clock = Clock()
        link: Any = client.connection(clock)
        super().__init__(link, clock, limits, name="client")
        if initialized:
            agreeing = link.initialize()
            said: dict[str, Any] = {"agentCapabilities": capabilities or {}}
            if protocol_version != 1:
                said = {"info": INFO, "capabilities": {"session": {}} if capabilities is None else capabilities}
            self.respond({"protocolVersion": protocol_version, **said, **(answer or {})})
            success_result(agreeing)
            self.take()

    def open_session(self, session_id: str = "s1", cwd: str = "/work") -> _Session:
        """
        Open a session, and answer that.
        """
        connection: Any = self.connection
        opening = connection.new_session(cwd)
        self.respond({"sessionId": session_id})
        self.take()
        session: _Session = success_result(opening)
        return session

    def update(self, session_id: str, kind: str, **members: Any) -> None:
        """
        Send C{session/update}.

        @param kind: such as C{"plan"}.
        @param members: the rest of the update, by the names on the wire.
        """
        self.notify("session/update", {"sessionId": session_id, "update": {"sessionUpdate": kind, **members}})

    def say(self, session_id: str, text: str, message_id: str | None = None) -> None:
        """
        Send a piece of the agent's message.

        @param message_id: its message, which version 2 wants to be named; C{"a1"} unless said otherwise there.
        """
        if message_id is None and self.connection.vocabulary.version != 1:
            message_id = "a1"
        named = {} if message_id is None else {"messageId": message_id}
        self.update(session_id, "agent_message_chunk", **named, content={"type": "text", "text": text})

    def insert(self, message_id: str = "m1", number: Any = None) -> None:
        """
        Version 2.  Answer a prompt: its message is part of the conversation.

        @param number: the prompt's id; by default that of the client's last request.
        """
        self.respond({"messageId": message_id}, number)

    def become(self, session_id: str, state: str, stop_reason: str | None = None, **members: Any) -> None:
        """
        Version 2.  Report that a session is C{"running"}, C{"requires_action"} or C{"idle"} now.

        @param members: the rest of the update, by the names on the wire.
        """
        reason = {} if stop_reason is None else {"stopReason": stop_reason}
        self.update(session_id, "state_update", state=state, **reason, **members)
