"""
Our client, following a plan of L{interop.race_plans}.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from acp_twisted import (
    AcpClient,
    AcpConnectionError,
    AcpError,
    AgentCommand,
    CancellationSignal,
    ClientConnection,
    ClientSession,
    Limits,
    PromptTurn,
    RequestCancelled,
    SessionBusy,
)
from acp_twisted.schema import v1
from acp_twisted.transports import process, stream
from interop.programs import until
from interop.race_plans import SESSIONS
from interop.recorder import Record, RecordedReceiver

GIVEN_UP, LOST = "given up", "lost"
LOST_SECONDS = 10.0
"""After how long a plan goes on without the answer of an agent that loses some."""


@define
class Sent:
    """
    One prompt that left.

    @ivar outcomes: what its caller got: a stop reason, an error's code, or that it was given up or lost.
    """

    turn: PromptTurn
    stop: CancellationSignal
    outcomes: list[str | int] = field(factory=list)

    def note(self, result: Any) -> None:
        """
        The turn's Deferred fired.
        """
        if not isinstance(result, Failure):
            self.outcomes.append(result.stop_reason)
        elif result.check(AcpConnectionError):
            self.outcomes.append(LOST)
        elif isinstance(result.value, RequestCancelled) and not result.value.remote:
            self.outcomes.append(GIVEN_UP)
        else:
            assert isinstance(result.value, AcpError), result
            self.outcomes.append(result.value.code)


class RaceClient:
    """
    One connection of our client, written down.

    @ivar sent: each prompt that left, by its number in the plan.
    @ivar busy: the numbers of those that the client refused to send, since the session's turn was not over.
    """

    def __init__(self, reactor: Any, *, answers: bool = True) -> None:
        """
        @param answers: whether the agent can be relied on to answer everything; else the plan goes on without.
        """
        self._reactor = reactor
        self._answers = answers
        self._held: list[tuple[v1.RequestPermissionRequest, Deferred[v1.RequestPermissionResponse]]] = []
        self.record = Record("client")
        self.sent: dict[int, Sent] = {}
        self.busy: set[int] = set()
        self.updates: list[v1.SessionNotification] = []
        client: AcpClient = (
            AcpClient.builder()
            .client_info("race-client", "1")
            .limits(Limits(exit_grace=1.0, terminate_grace=1.0))
            .session_update_handler(self.updates.append)
            .request_permission_handler(self._permission)
            .build()
        )
        self.client = client
        self.connection: ClientConnection = client.connection(reactor)
        self._receiver = RecordedReceiver(self.connection.peer, self.record)
        self._sessions: list[ClientSession] = []

    def _permission(self, request: v1.RequestPermissionRequest) -> Deferred[v1.RequestPermissionResponse]:
        held: Deferred[v1.RequestPermissionResponse] = Deferred()
        self._held.append((request, held))
        return held

    async def open(self, where: int | AgentCommand) -> None:
        """
        Connect to a port or start a program, and open the sessions.
        """
        if isinstance(where, AgentCommand):
            await process.spawn(self._reactor, where, self._receiver, self.client.limits)
        else:
            endpoint = TCP4ClientEndpoint(self._reactor, "127.0.0.1", where)
            await stream.connect(endpoint, self._receiver, self.client.limits, self._reactor)
        await self.connection.initialize()
        for _ in range(SESSIONS):
            self._sessions.append(await self.connection.new_session(cwd="/"))

    async def follow(self, plan: list[str]) -> None:
        """
        Do what the plan says.
        """
        steps: dict[str, Callable[[list[str]], Awaitable[object] | None]] = {
            "prompt": self._prompt,
            "cancel": self._cancel,
            "give-up": self._give_up,
            "permit": self._permit,
            "pause": lambda words: deferLater(self._reactor, float(words[0]) / 1000),
            "await": self._await,
            # What is said in one turn of the reactor leaves in one write anyway.
            "cork": lambda words: None,
            "uncork": lambda words: None,
            "drop": self._drop,
        }
        for line in plan:
            word, *rest = line.split(" ")
            waiting = steps[word](rest)
            if waiting is not None:
                await waiting

    def _prompt(self, words: list[str]) -> None:
        ref, session, stop = int(words[0]), self._sessions[int(words[1])], CancellationSignal()
        try:
            turn = session.prompt(" ".join(words[2:]), stop)
        except SessionBusy:
            self.busy.add(ref)
            return
        sent = self.sent[ref] = Sent(turn, stop)
        turn.response.addBoth(sent.note)

    def _cancel(self, words: list[str]) -> None:
        """
        By each way in turn.  Where no turn is open, or it was given up here and may still run there, there is only one.
        """
        session = self._sessions[int(words[0])]
        ref = next((ref for ref, sent in self.sent.items() if sent.turn is session.turn), None)
        if ref is None:
            self.connection.cancel(session.session_id)
        elif ref % 3 == 0:
            session.cancel()
        elif ref % 3 == 1:
            self.sent[ref].turn.cancel()
        else:
            self.sent[ref].stop.cancel()

    def _give_up(self, words: list[str]) -> None:
        if int(words[0]) in self.sent:
            self.sent[int(words[0])].turn.response.cancel()

    def _permit(self, words: list[str]) -> None:
        session_id = self._sessions[int(words[0])].session_id
        chosen = [each for each in self._held if each[0].session_id == session_id and not each[1].called]
        for request, held in chosen:
            outcome = v1.SelectedPermissionOutcome(option_id=request.options[0].option_id)
            held.callback(v1.RequestPermissionResponse(outcome=outcome))

    def _await(self, words: list[str]) -> Deferred[None] | None:
        sent = self.sent.get(int(words[0]))
        if sent is None:
            return None
        if self._answers:
            return until(self._reactor, lambda: bool(sent.outcomes), every=0.001)
        waiting = until(self._reactor, lambda: bool(sent.outcomes), LOST_SECONDS, every=0.001)
        return waiting.addErrback(lambda failure: failure.trap(TimeoutError) and None)

    def _drop(self, words: list[str]) -> None:
        assert self._receiver.transport is not None
        self._receiver.transport.abort("the plan says so")
