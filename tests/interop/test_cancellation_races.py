"""
Cancellation in races, over real pipes and real TCP, against SDKs of other people: random plans with fixed seeds, and
rules that hold for whatever came of them.

Our agent on TCP, and our client always, are recorded at our own end, where the rules are exact; our agent on pipes is
recorded by a tap in between, where a cancellation may have crossed an answer.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from peers import peer
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ServerEndpoint

from acp_twisted import AgentCommand
from acp_twisted.testing.scripted_agent import build_agent
from acp_twisted.transports.stream import ServerFactory
from interop.programs import OUR_AGENT, PATIENCE, SOURCES, Outcome, Programs, kill_group, members, until
from interop.race_client import GIVEN_UP, LOST, RaceClient
from interop.race_plans import plan
from interop.race_rules import Conversation
from interop.recorder import RecordedAgent
from interop.wires import recorded, tapped

GRACE = 0.1
DROPPED = "dropped"
SEEDS = pytest.mark.parametrize("seed", [1, 2, 3])
CUT = pytest.mark.parametrize("drop", [False, True], ids=["whole", "cut"])
LINK = pytest.mark.parametrize("link", ["tcp", "stdio"])


def ts_client() -> list[str]:
    """A client on the TypeScript SDK 2.4.0."""
    ts = peer("ts24")
    return ts.command(SOURCES / "ts_race_client.mjs", ts.folder)


def ts_agent() -> list[str]:
    """An agent on the TypeScript SDK 2.4.0."""
    ts = peer("ts24")
    return ts.command(SOURCES / "ts_race_agent.mjs", ts.folder)


def rust_client() -> list[str]:
    """A client on the Rust SDK 5.2.0, which cancels by a handle, by dropping a future, and by C{SentRequest.cancel}."""
    return peer("rust-peer").command("client")


def rust_agent() -> list[str]:
    """An agent on the Rust SDK 5.2.0, whose turns are C{run_until_cancelled}."""
    return peer("rust-peer").command("agent")


def java_client() -> list[str]:
    """A client on the Java SDK 0.14.0, which has no C{$/cancel_request} and no TCP."""
    return peer("java-peer").command("client")


def java_agent() -> list[str]:
    """An agent on the Java SDK 0.14.0, which takes no notice of C{$/cancel_request}."""
    return peer("java-peer").command("agent")


CLIENTS = {"ts": ts_client, "rust": rust_client}
AGENTS = {"ts": ts_agent, "rust": rust_agent}


def written(folder: Path, seed: int, lines: Sequence[str]) -> Path:
    """
    The plan as a file; shown when the test fails.
    """
    sys.stdout.write(f"seed {seed}, {len(lines)} events:\n" + "\n".join(lines) + "\n")
    path = folder / "plan.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


async def against_tcp(
    programs: Programs, reactor: Any, client: Sequence[str], path: Path, cut: bool
) -> tuple[Outcome, Conversation]:
    """
    Our agent in this process, and a client that connects to it.
    """
    agent = RecordedAgent(build_agent(grace=GRACE))
    factory = ServerFactory(agent, reactor)
    port = await TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(factory)
    address: Any = port.getHost()
    try:
        outcome = await programs.run([*client, str(path), "tcp", str(address.port)])
        await until(reactor, lambda: agent.records[0].lost)
    finally:
        await port.stopListening()
        await factory.close_all()
    (record,) = agent.records
    return outcome, Conversation(record.wire, exact=True, cut=cut)


async def against_stdio(
    programs: Programs, reactor: Any, client: Sequence[str], path: Path, cut: bool
) -> tuple[Outcome, Conversation]:
    """
    A client that starts our agent, with a tap in between.
    """
    record = path.with_name("wire.jsonl")
    agent = tapped(record, [*OUR_AGENT, "--grace", str(GRACE)])
    process, done = programs.start([*client, str(path), "spawn", *agent])
    group = process.pid
    timer = reactor.callLater(PATIENCE, kill_group, group)
    try:
        outcome = await done
        # It sees that its client is gone, and goes.
        await until(reactor, lambda: not members(group))
    finally:
        kill_group(group)
        if timer.active():
            timer.cancel()
    return outcome, Conversation(recorded(record), exact=False, cut=cut)


@pytest.mark.parametrize("name", CLIENTS)
@LINK
@CUT
@SEEDS
async def test_our_agent(
    name: str, link: str, drop: bool, seed: int, programs: Programs, real_reactor: Any, tmp_path: Path
) -> None:
    """Rules 1-4 and the turn table (V1C5, X9): one answer for each prompt, the right one, and no update behind it."""
    path = written(tmp_path, seed, plan(seed, drop=drop))
    run = against_tcp if link == "tcp" else against_stdio
    outcome, conversation = await run(programs, real_reactor, CLIENTS[name](), path, drop)
    check_agent(outcome, conversation)


def check_agent(outcome: Outcome, conversation: Conversation) -> None:
    """
    Hold our agent to the rules.
    """
    assert outcome.code == 0, outcome.explain()
    conversation.assert_answered_once("agent")
    conversation.assert_cancelled_once("agent")
    conversation.assert_updates_belong_to_a_turn()
    rows = conversation.assert_turn_table()
    if not conversation.cut:
        assert sum(rows.values()) == len(conversation.prompts())
        got = {line["ref"]: line["outcome"] for line in outcome.lines() if "ref" in line}
        assert len(got) == len(conversation.prompts())
        for ref, each in zip(sorted(got), conversation.prompts(), strict=True):
            # Who drops his future is told nothing; the answer came all the same.
            assert got[ref] == each.outcome or (got[ref] == DROPPED and each.cancels), f"{ref}: {got[ref]}, {each}"
    sys.stdout.write(f"{rows}\n")


@CUT
@SEEDS
async def test_our_agent_and_java(drop: bool, seed: int, programs: Programs, real_reactor: Any, tmp_path: Path) -> None:
    """The same with the Java SDK, as far as that goes: pipes and C{session/cancel} only."""
    path = written(tmp_path, seed, plan(seed, drop=drop, strays=False, give_up=False))
    outcome, conversation = await against_stdio(programs, real_reactor, java_client(), path, drop)
    check_agent(outcome, conversation)


async def start_listening(programs: Programs, command: Sequence[str]) -> tuple[int, Deferred[Outcome]]:
    """
    An agent that serves one connection on a port of its own.

    @return: the port, and its end.
    """
    told: Deferred[int] = Deferred()

    def look(text: str) -> None:
        if "\n" in text and not told.called:
            told.callback(int(text.split()[1]))

    _, done = programs.start([*command, "listen"], stdin=None, on_stdout=look)
    return await told, done


@pytest.mark.parametrize("name", AGENTS)
@LINK
@CUT
@SEEDS
async def test_our_client(name: str, link: str, drop: bool, seed: int, programs: Programs, real_reactor: Any) -> None:
    """Rule 2, V1C3: each request is cancelled once at most and while it is open; each turn settles once, rightly."""
    lines = plan(seed, drop=drop, strays=False)
    sys.stdout.write(f"seed {seed}, {len(lines)} events:\n" + "\n".join(lines) + "\n")
    await follow(real_reactor, programs, AGENTS[name](), link, lines)


@LINK
@CUT
@SEEDS
async def test_our_client_and_java(link: str, drop: bool, seed: int, programs: Programs, real_reactor: Any) -> None:
    """The same with the Java SDK 0.14, which is deaf to $/cancel_request: what is given up goes on there."""
    lines = plan(seed, drop=drop, strays=False)
    sys.stdout.write(f"seed {seed}, {len(lines)} events:\n" + "\n".join(lines) + "\n")
    # That version now and then loses an answer when it has two to write, so it is not held to them, only our client.
    await follow(real_reactor, programs, java_agent(), link, lines, answers=False)


async def follow(
    reactor: Any, programs: Programs, command: Sequence[str], link: str, lines: list[str], *, answers: bool = True
) -> None:
    """
    Let our client follow a plan against an agent, and hold it to the rules.

    @param answers: whether the agent can be relied on to answer everything.
    """
    drop = lines[-1] == "drop"
    client, ended = RaceClient(reactor, answers=answers), None
    if link == "stdio":
        await client.open(AgentCommand(list(command)))
    else:
        port, ended = await start_listening(programs, command)
        await client.open(port)
    try:
        await client.follow(lines)
        if not drop and answers:
            # What was given up is still answered; nothing of it may disturb anybody.
            await until(reactor, lambda: all_answered(client))
    finally:
        await client.connection.close()
    if ended is not None:
        assert (await ended).code == 0
    check(client, drop or not answers)


def all_answered(client: RaceClient) -> bool:
    """
    Whether the agent has answered everything.
    """
    return all(each.answers for each in Conversation(client.record.wire, exact=True).of("client", "session/prompt"))


def check(client: RaceClient, cut: bool) -> None:
    """
    Hold our client to the rules.
    """
    conversation = Conversation(client.record.wire, exact=True, cut=cut)
    conversation.assert_answered_once("client")
    conversation.assert_answered_once("agent")
    conversation.assert_cancelled_once("client")
    fallen = conversation.assert_permissions_fall_with_their_turn()
    prompts = conversation.prompts()
    assert len(prompts) == len(client.sent)
    seen: Counter[str | int] = Counter()
    for asked, (ref, sent) in zip(prompts, sorted(client.sent.items()), strict=True):
        (outcome,) = sent.outcomes
        seen[outcome] += 1
        if outcome == GIVEN_UP:
            assert len(asked.cancels) == 1, f"given up, and not cancelled: {ref} {asked}"
        elif outcome == LOST:
            assert cut
            assert asked.outcome is None
        else:
            stopped = any(
                params["sessionId"] == asked.session and asked.open_at(at)
                for at, params in conversation.notified("client", "session/cancel")
            )
            assert outcome == asked.outcome or (stopped and outcome == "cancelled"), f"{outcome}: {ref} {asked}"
            assert asked.cancels == []
    sys.stdout.write(f"{seen}, {len(client.busy)} not sent, {fallen} permissions fell\n")
