"""
Prompts and cancellations of version 2 at random, on real links: our client with an agent of ours, of the TypeScript SDK
and of the Rust SDK.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import deferLater

from acp_twisted import AcpClient, AgentCommand, RequestCancelled, RequestTimedOut
from acp_twisted.client.permissions import first_allow
from acp_twisted.client.v2.connection import ClientConnection
from acp_twisted.client.v2.prompt import Prompt
from acp_twisted.client.v2.session import ClientSession
from interop.programs import until
from interop.test_v2_clients import our_agent
from interop.test_v2_rust import rust_agent
from interop.test_v2_typescript import ts_agent
from interop.wires import Wire, recorded, tapped

AGENTS: dict[str, Callable[[], list[str]]] = {
    "ours": lambda: our_agent("2"),
    "typescript": lambda: ts_agent("2"),
    "rust": rust_agent,
}


class Play:
    """
    One conversation; the seed decides what is done.

    @ivar errors: what prompts ended with that have no report.
    """

    def __init__(self, reactor: Any, connection: ClientConnection, seed: int) -> None:
        self.reactor = reactor
        self.connection = connection
        self.random = random.Random(seed)
        self.prompts: list[Prompt] = []
        self.errors: list[RequestCancelled | RequestTimedOut] = []

    async def run(self, steps: int, cwd: str) -> None:
        """
        Prompt and cancel, and then let everything end.
        """
        sessions = [await self.connection.new_session(cwd) for _ in range(3)]
        for _ in range(steps):
            await self.step(self.random.choice(sessions))
        for session in sessions:
            session.cancel()
        for prompt in self.prompts:
            try:
                assert (await prompt).stop_reason in ("end_turn", "cancelled")
            except (RequestCancelled, RequestTimedOut) as error:
                self.errors.append(error)
        for session in sessions:
            assert session.prompts == ()
            # A prompt that was given up here may be the agent's foreground work still.
            await until(self.reactor, partial(at_rest, session))

    async def step(self, session: Any) -> None:
        """
        One thing.
        """
        what = self.random.random()
        if what < 0.5 or not self.prompts:
            text = self.random.choice(["stream 3", "permission", "slow", "stream 1"])
            self.prompts.append(session.prompt(text, timeout=self.random.choice([None, None, 1])))
        elif what < 0.65:
            session.cancel()
        elif what < 0.8:
            self.random.choice(self.prompts).cancel()
        elif what < 0.85:
            self.random.choice(self.prompts).accepted.cancel()
        elif what < 0.9:
            self.random.choice(self.prompts).idle.cancel()
        else:
            await deferLater(self.reactor, self.random.random() * 0.03)


def at_rest(session: ClientSession) -> bool:
    """
    Whether all that we asked for in a session has ended.
    """
    return session.foreground.state == "idle" and not session.stopping


def unanswered(record: Path) -> int:
    """
    How many requests of either side have no answer yet.
    """
    wire = recorded(record)
    sides = (("client", "agent"), ("agent", "client"))
    return sum(len(wire.requests(asker)) - len(wire.answers(other)) for asker, other in sides)


def hold_to_rules(wire: Wire) -> None:
    """
    One answer to each request of either side, no more than one cancellation of each, and no error for a prompt that was
    inserted (V2D7).
    """
    for asker, other in (("client", "agent"), ("agent", "client")):
        asked = [each["id"] for each in wire.requests(asker)]
        answered = [each["id"] for each in wire.answers(other)]
        assert sorted(asked, key=str) == sorted(answered, key=str)
        cancelled = [
            each["params"]["requestId"] for each in wire.messages(asker) if each.get("method") == "$/cancel_request"
        ]
        assert len(cancelled) == len(set(cancelled))
        assert set(cancelled) <= set(asked)
    inserted = {
        each["result"]["messageId"] for each in wire.answers("agent") if "messageId" in (each.get("result") or {})
    }
    shown = {each["messageId"] for each in wire.updates() if each["sessionUpdate"] == "user_message"}
    assert shown == inserted


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("agent", AGENTS)
async def test_prompts_and_cancellations_race(agent: str, seed: int, real_reactor: Any, workspace: Path) -> None:
    """V2D1-V2D8, X13, design rules 1 and 2: whatever meets on its way, each prompt has one end, and nothing is left."""
    record = workspace / "wire.jsonl"
    client = AcpClient.builder().request_permission_handler(first_allow).protocol_versions(2).build()
    link = await client.connect(real_reactor, AgentCommand(tapped(record, AGENTS[agent]())))
    connection = await link.initialize()
    assert isinstance(connection, ClientConnection)
    play = Play(real_reactor, connection, seed)
    await play.run(120, str(workspace))
    # The TypeScript SDK may start the handler of a prompt before that of a session/cancel which came first; so it drops
    # prompts that were sent afterwards, which nobody has cancelled.
    assert agent == "typescript" or not any(each.remote for each in play.errors)
    # What was given up is still answered; wait for the last of it.
    await until(real_reactor, lambda: unanswered(record) == 0 == connection.peer.incoming_requests)
    assert connection.peer.pending_requests == 0
    await connection.close()
    hold_to_rules(recorded(record))
