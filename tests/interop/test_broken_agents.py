"""
Our client and agents that are wrong on purpose: each fault is a clear error or is borne, and none is a hang.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen
from twisted.internet.defer import TimeoutError

from acp_twisted import (
    AcpConnectionError,
    AcpError,
    AcpVersionError,
    AgentStartError,
    ClientConnection,
    ClientSession,
    InternalError,
    InvalidResponse,
    Limits,
    RequestTimedOut,
)
from acp_twisted.schema import v1
from acp_twisted.schema.values import UnknownVariant
from interop.broken_agent import FAULTS
from interop.editor import Editor, gone, play, texts
from interop.line_agent import line_agent_command
from interop.programs import PATIENCE, alive, until

LIMITS = Limits(exit_grace=PATIENCE)
"""For agents that go by themselves when they are asked to, or have gone; how they went is known then."""

SHORT = Limits(exit_grace=0.5, terminate_grace=0.5)
"""For those that have to be ended."""

SHORT_SECONDS = 2.0


def broken(fault: str) -> list[str]:
    """
    The command line of the agent with a fault.
    """
    return line_agent_command("broken_agent", "FAULTS", fault)


@frozen
class Borne:
    """
    The turn ends as if there were no fault.

    @ivar words: what the agent is heard to say.
    @ivar updates: what else is true of the turn's updates.
    @ivar stray: how many lines of the agent were no messages.
    @ivar reason: the turn's stop reason.
    """

    words: tuple[str, ...] = ("fine",)
    updates: Callable[[list[Any]], bool] = lambda updates: len(updates) == 1
    stray: int = 0
    reason: str = "end_turn"


@frozen
class Refused:
    """
    The caller gets an error.

    @ivar step: C{initialize}, C{session/new} or C{session/prompt}.
    @ivar error: its class.
    @ivar says: words of its text.
    @ivar attributes: what else the error tells.
    @ivar goes_on: whether the next prompt works.
    @ivar stderr: words that its C{stderr_tail} has.
    """

    step: str
    error: type[AcpError]
    says: str
    attributes: dict[str, Any] = field(factory=dict)
    goes_on: bool = False
    stderr: str = ""


def first(variant: type, **members: object) -> Callable[[list[Any]], bool]:
    """
    The first of two updates is of that class, and has these members.
    """

    def check(updates: list[Any]) -> bool:
        one = updates[0]
        same = all(getattr(one, name) == members[name] for name in members)
        return len(updates) == 2 and type(one) is variant and same

    return check


IGNORED = Borne()
"""The line is as if it had not been sent; what is of interest is logged."""

STRAY = Borne(stray=1)
"""The line is no message: it is counted, and the first one is logged (B39)."""

ANSWERS: dict[str, Borne | Refused] = {
    # The program does not start, or not as an agent.
    "kimi": Refused("initialize", AgentStartError, "exited with status 0 before", {"exit_code": 0}),
    "traceback": Refused("initialize", AgentStartError, "status 1", {"exit_code": 1}, stderr="no such model"),
    "never-initializes": Refused("initialize", RequestTimedOut, "no answer to initialize within 2 s"),
    "initialize-error": Refused("initialize", InternalError, "no license", {"data": {"why": "expired"}}),
    "wrong-version": Refused("initialize", AcpVersionError, "version 2", {"version": 2}),
    "version-string": Refused("initialize", InvalidResponse, "initialize"),
    "version-missing": Refused("initialize", InvalidResponse, "initialize"),
    "result-is-array": Refused("initialize", InvalidResponse, "initialize"),
    "odd-capabilities": IGNORED,
    "banner": Borne(stray=3),
    "floods-stderr": IGNORED,
    # The session.
    "dies-after-initialize": Refused("session/new", AcpConnectionError, "status 7", {"exit_code": 7}),
    "session-id-missing": Refused("session/new", InvalidResponse, "session/new"),
    "session-null": Refused("session/new", InvalidResponse, "session/new"),
    "early-updates": IGNORED,
    # Updates.  What a lenient member holds counts as absent; an update that can't be read is dropped.
    "chunk-without-text": IGNORED,
    "tool-call-without-title": IGNORED,
    "snake-case-tag": IGNORED,
    "tag-is-number": IGNORED,
    "update-without-params": IGNORED,
    "unknown-kind": Borne(updates=first(v1.ToolCall, title="x", kind="zzz")),
    "unknown-status": Borne(updates=first(v1.ToolCall, title="x", status="zzz")),
    "plan-entry-without-priority": Borne(updates=first(v1.Plan, entries=[])),
    "unknown-update": Borne(updates=first(UnknownVariant, tag="zzz_future_update")),
    "vendor-update": Borne(updates=first(UnknownVariant, tag="_vendor_update")),
    "only-meta": Borne(updates=first(v1.ToolCallUpdate, meta={"a": 1})),
    "extra-members": Borne(("x", "fine"), first(v1.AgentMessageChunk, meta={"a": 1})),
    "big-line": Borne(("x" * 3_000_000, "fine"), first(v1.AgentMessageChunk)),
    "other-session": IGNORED,
    # Lines.
    "garbage-line": STRAY,
    "not-utf8": STRAY,
    "batch": STRAY,
    "json-string": STRAY,
    "deep-nesting": STRAY,
    "nan": STRAY,
    "empty-object": STRAY,
    "null-id-error": IGNORED,
    "unknown-response": IGNORED,
    "cr-lf": IGNORED,
    "unknown-notification": IGNORED,
    "dollar-notification": IGNORED,
    "no-jsonrpc": Borne((), lambda updates: updates == [], stray=1),  # answers count without it, updates don't
    "byte-by-byte": Borne(("f\u00efne",)),
    # Answers to the prompt.
    "stop-reason-unknown": Borne(reason="zzz"),
    "stop-reason-missing": Refused("session/prompt", InvalidResponse, "session/prompt", goes_on=True),
    "stop-reason-number": Refused("session/prompt", InvalidResponse, "session/prompt", goes_on=True),
    "prompt-null": Refused("session/prompt", InvalidResponse, "session/prompt", goes_on=True),
    "refusal": Borne(reason="refusal"),
    "answers-twice": IGNORED,
    "answers-before-updates": Borne((), lambda updates: updates == []),
    "id-as-string": IGNORED,
    "id-as-float": Refused("session/prompt", RequestTimedOut, "no answer to session/prompt", goes_on=True),
    "result-and-error": Refused("session/prompt", InvalidResponse, "both", goes_on=True),
    "result-and-null-error": IGNORED,
    "no-result-no-error": Refused("session/prompt", InvalidResponse, "neither", goes_on=True),
    "error-is-string": Refused("session/prompt", InvalidResponse, "is no object", goes_on=True),
    "error-without-code": Refused("session/prompt", InvalidResponse, "has no integer code", goes_on=True),
    "error-code-string": Refused("session/prompt", InvalidResponse, "has no integer code", goes_on=True),
    "never-answers": Refused("session/prompt", RequestTimedOut, "no answer to session/prompt", goes_on=True),
    # Requests of its own.
    "vendor-request": Borne(("fine", '["v", -32601]'), lambda updates: len(updates) == 2),
    "null-id-request": Borne(("fine", "[null, -32601]"), lambda updates: len(updates) == 2),
    "same-ids": Borne(("fine", "[3, -32602]"), lambda updates: len(updates) == 2),
    # The end.
    "dies": Refused("session/prompt", AcpConnectionError, "status 3", {"exit_code": 3}, stderr="out of memory"),
    "killed": Refused("session/prompt", AcpConnectionError, "signal", {"signal": 9}),
    "half-line": Refused("session/prompt", AcpConnectionError, "status 0", {"exit_code": 0}),
    "no-last-newline": IGNORED,
    "closes-stdout": Refused("session/prompt", AcpConnectionError, "closed its standard output"),
    "closes-stdin": Refused("session/prompt", AcpConnectionError, "input"),
    "ignores-eof": IGNORED,
    "ignores-sigterm": Borne(words=(), updates=lambda updates: len(updates) == 1),
}
"""What our client makes of each fault."""

AGAIN: dict[str, list[str]] = {"byte-by-byte": ["f\u00efne"], "no-jsonrpc": []}
"""What the next prompt brings, where it is not "fine"."""

STAYS = {"closes-stdin", "closes-stdout", "ignores-eof", "ignores-sigterm"}
"""Faults whose agents have to be ended."""

ENDS_AFTER = {"no-last-newline"}
"""Faults that are borne, but are the agent's last word."""


def test_each_fault_has_an_answer() -> None:
    """Nothing is left open."""
    assert sorted(ANSWERS) == sorted(FAULTS)


async def reach(
    connection: ClientConnection, folder: Path, step: list[str], prompt_timeout: float
) -> tuple[ClientSession, str, list[object]]:
    """
    Go as far as the fault lets us.

    @param step: gets the method of each request before it is sent.
    """
    step.append("initialize")
    await connection.initialize()
    step.append("session/new")
    session = await connection.new_session(cwd=str(folder))
    step.append("session/prompt")
    reason, updates = await play(session.prompt("hello", timeout=prompt_timeout))
    return session, reason, updates


@pytest.mark.parametrize("fault", sorted(ANSWERS))
async def test_fault(fault: str, editor: Editor, workspace: Path) -> None:
    """Every fault is a clear error or is borne; afterwards the link works unless the error says that it is gone."""
    expected = ANSWERS[fault]
    # Only what is never answered is waited for in vain.
    times = dict.fromkeys(("initialize", "session/prompt"), PATIENCE)
    if isinstance(expected, Refused) and expected.error is RequestTimedOut:
        times[expected.step] = SHORT_SECONDS
    limits = SHORT if fault in STAYS else LIMITS
    connection = await editor.start(broken(fault), cwd=workspace, request_timeout=times["initialize"], limits=limits)
    step: list[str] = []
    if isinstance(expected, Borne):
        session, reason, updates = await reach(connection, workspace, step, times["session/prompt"])
        assert reason == expected.reason
        assert expected.updates(updates), updates
        if expected.words:
            assert tuple(texts(updates)) == expected.words
        assert connection.peer.stray_messages == expected.stray
    else:
        with pytest.raises(AcpError) as caught:
            await reach(connection, workspace, step, times["session/prompt"])
        error = caught.value
        assert (step[-1], type(error)) == (expected.step, expected.error), error
        assert expected.says in str(error)
        assert {name: getattr(error, name) for name in expected.attributes} == expected.attributes
        assert expected.stderr in getattr(error, "stderr_tail", "")
    if fault not in ENDS_AFTER and (isinstance(expected, Borne) or expected.goes_on):
        (session,) = connection._sessions.values()
        reason, updates = await play(session.prompt("again"))
        assert reason == "end_turn"
        assert texts(updates)[-1:] == AGAIN.get(fault, ["fine"])
    await connection.close()


async def test_an_agent_that_ignores_everything_is_killed_with_its_child(editor: Editor, workspace: Path) -> None:
    """Interop 7.9: end of input, SIGTERM, SIGKILL, each to the whole group; nothing is left when close() is done."""
    session = await editor.open(broken("ignores-sigterm"), cwd=workspace, limits=SHORT)
    _, updates = await play(session.prompt("hello"))
    pids = [int(word) for word in texts(updates)[0].split()]
    assert all(map(alive, pids))
    started = editor.reactor.seconds()
    await session.connection.close()
    assert editor.reactor.seconds() - started > 0.9
    for pid in pids:
        await gone(editor, pid)


async def test_an_agent_that_never_answers_a_cancelled_turn(editor: Editor, workspace: Path) -> None:
    """A turn that is cancelled and never answered can still be given up, and its session prompted anew."""
    session = await editor.open(broken("never-answers"), cwd=workspace, limits=LIMITS)
    turn = session.prompt("hello")
    turn.cancel()
    turn.response.addTimeout(0.3, editor.reactor)
    with pytest.raises(TimeoutError):
        await turn
    reason, _ = await play(session.prompt("again"))
    assert reason == "end_turn"


async def test_the_flood_on_stderr_is_kept_to_its_end(editor: Editor, workspace: Path) -> None:
    """All of it reaches who asked for it; what an error would show is the last of it."""
    session = await editor.open(broken("floods-stderr"), cwd=workspace, limits=LIMITS)
    await play(session.prompt("hello"))
    await until(editor.reactor, lambda: len(editor.stderr) == 20_000)
    assert editor.stderr[-1].startswith("line 19999 ")
    transport: Any = session.connection.peer._transport
    assert len(transport.stderr_tail) <= LIMITS.stderr_tail_bytes
    assert "line 19999" in transport.stderr_tail
