"""
JSON-RPC batches, which only the draft of August 2026 of version 2 has: refused unless a builder says otherwise.
"""

from __future__ import annotations

import json
from typing import Any

import agent_halves_v2
import pytest
from halves_v2 import ClientHalf, UnagreedHalf, permission
from hypothesis import given
from hypothesis import strategies as st
from test_v2_client_connection import client
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from wire import Wire

from acp_twisted import AcpClient
from acp_twisted.client.permissions import first_allow
from acp_twisted.errors import AcpConnectionError, InvalidParams
from acp_twisted.limits import Limits

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "i",
    "method": "initialize",
    "params": {"protocolVersion": 2, "info": {"name": "x", "version": "1"}},
}


def batching(limits: Limits | None = None, *, answers_noise: bool = True) -> Wire:
    """A peer that takes batches, with a method that echoes and one that waits."""
    wire = Wire(limits, answers_noise=answers_noise)
    wire.peer.takes_batches = True
    wire.router.requests["echo"] = lambda request: request.params
    return wire


def call(number: Any, method: str = "echo", **params: Any) -> dict[str, Any]:
    """A request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def arrays(wire: Wire) -> list[Any]:
    """The batches of answers that were sent."""
    return [each for each in wire.sent if isinstance(each, list)]


def test_the_answers_are_one_array() -> None:
    """2.70: whatever comes first, the array is sent once all is done; 1 and "1" are two ids."""
    wire = batching()
    waiting: Deferred[Any] = Deferred()
    wire.router.requests["wait"] = lambda request: waiting
    wire.receive([call(1, "wait"), call("1", word="a"), call(2, "missing")])
    assert wire.sent == []
    waiting.callback("late")
    [answers] = arrays(wire)
    assert [each["id"] for each in answers] == ["1", 2, 1]
    assert [each.get("result") for each in answers] == [{"word": "a"}, None, "late"]
    assert answers[1]["error"]["code"] == -32601
    assert wire.peer.incoming_requests == 0


def test_what_needs_no_answer_gets_none() -> None:
    """2.70: notifications alone lead to nothing at all, and an empty array is one error."""
    wire = batching()
    seen: list[Any] = []
    wire.router.notifications["note"] = lambda notification: seen.append(notification.params)
    wire.receive([{"jsonrpc": "2.0", "method": "note", "params": {"n": n}} for n in range(3)])
    assert [each["n"] for each in seen] == [0, 1, 2]
    assert wire.sent == []
    wire.receive([])
    [refused] = wire.sent
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)


def test_bad_entries_are_refused_one_by_one() -> None:
    """2.70: each entry that is no message has its own -32600, and an id in use is not taken twice."""
    wire = batching()
    wire.receive([7, [call(9)], {"jsonrpc": "2.0", "id": 3, "method": 4}, call(5), {"jsonrpc": "2.0", "id": 1.5}])
    [answers] = arrays(wire)
    assert [(each["id"], each.get("error", {}).get("code")) for each in answers] == [
        (None, -32600),
        (None, -32600),
        (3, -32600),
        (5, None),
    ]  # and the last is an answer, to nothing that was asked
    wire.router.requests["wait"] = lambda request: Deferred()
    wire.receive([call(1, "wait"), call(1, "echo")])
    wire.cancel(1)
    assert [each["error"]["code"] for each in arrays(wire)[1]] == [-32600, -32800]


def test_a_cancellation_within_the_batch() -> None:
    """Rule 2: it is looked at in its place, so it meets the request before it and not the one behind it."""
    wire = batching()
    wire.router.requests["wait"] = lambda request: Deferred()
    cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}}
    wire.receive([cancel, call(2, "wait"), call(3)])
    assert wire.sent == []
    wire.receive([cancel])
    [answers] = arrays(wire)
    assert [(each["id"], each.get("error", {}).get("code")) for each in answers] == [(3, None), (2, -32800)]


def test_too_large_a_batch_is_refused_whole() -> None:
    """Rule 6: a few bytes each would be an error each, many times as long."""
    wire = batching(Limits(max_batch_entries=3))
    wire.receive([call(number) for number in range(4)])
    wire.receive([call(number) for number in range(3)])
    refused, answers = wire.sent
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    assert len(answers) == 3


def test_answers_in_an_array_count() -> None:
    """A peer may answer together what was asked one by one."""
    wire = batching()
    first, second = wire.peer.call("a"), wire.peer.call("b")
    numbers = [each["id"] for each in wire.sent]
    wire.receive([{"jsonrpc": "2.0", "id": number, "result": number} for number in reversed(numbers)])
    assert [first.result, second.result] == numbers


def test_a_client_takes_no_printed_array_for_a_batch() -> None:
    """B39: an agent's program may print lists; they are counted, and nothing is written back."""
    wire = batching(answers_noise=False)
    wire.receive([1, 2])
    wire.receive([{"level": "info"}])
    assert (wire.sent, wire.peer.stray_messages) == ([], 2)
    wire.receive([{"level": "info"}, call(1)])
    [answers] = arrays(wire)
    assert [each["id"] for each in answers] == [1]


def test_a_batch_whose_link_goes() -> None:
    """Rule 5: nothing is left of it, and nothing is sent."""
    wire = batching()
    waiting: Deferred[Any] = Deferred()
    wire.router.requests["wait"] = lambda request: waiting
    wire.receive([call(1, "wait"), call(2)])
    wire.peer.connection_lost(Failure(AcpConnectionError("gone")))
    assert wire.sent == []
    assert wire.peer.incoming_requests == 0


def test_a_batch_in_which_the_end_begins() -> None:
    """Rule 1: the link is closed behind the array, also when nothing but the array itself is left of it."""
    wire = batching()
    order: list[Any] = []
    wire.transport.on_send = order.append
    wire.transport.close = lambda: order.append("closed")  # type: ignore[method-assign]
    wire.router.requests["stop"] = lambda request: wire.peer.shutdown()
    wire.receive([call(1, "stop"), call(2)])
    [answers, closed] = order
    assert [(each["id"], each["error"]["code"]) for each in answers] == [(1, -32800), (2, -32800)]
    assert closed == "closed"
    assert wire.clock.getDelayedCalls() == []


def test_a_batch_in_which_the_link_goes() -> None:
    """Rule 5: nobody is told of what stands behind, and nothing of it goes on."""
    wire = batching()
    wire.router.requests["die"] = lambda request: wire.peer.connection_lost(Failure(AcpConnectionError("gone")))
    asked: list[Any] = []
    wire.router.requests["echo"] = asked.append
    wire.receive([call(1, "die"), call(2)])
    assert (asked, wire.sent, wire.peer.incoming_requests) == ([], [], 0)


def test_what_is_received_before_the_end_is_answered() -> None:
    """A batch that is half done at the end of input is answered whole, at the latest when the drain is over."""
    wire = batching()
    wire.router.requests["wait"] = lambda request: Deferred()
    wire.receive([call(1, "wait"), call(2)])
    wire.peer.input_ended()
    assert (wire.sent, wire.transport.closed) == ([], False)
    wire.clock.advance(Limits().drain_timeout)
    [answers] = arrays(wire)
    assert [(each["id"], each.get("error", {}).get("code")) for each in answers] == [(2, None), (1, -32800)]
    assert wire.transport.closed


def test_answers_that_wait_are_unsent_output() -> None:
    """Rule 6: what is kept for the last of a batch is bounded, over all batches; what was sent counts no more."""
    wire = batching(Limits(max_unsent_bytes=5000))
    waiting: list[Deferred[Any]] = []

    def wait(request: Any) -> Deferred[Any]:
        waiting.append(Deferred())
        return waiting[-1]

    wire.router.requests.update(wait=wait, long=lambda request: "x" * 2000)
    for number in range(4):
        wire.receive([call(1, "wait"), call(2, "long")])
        waiting[number].callback(None)
    assert (len(wire.sent), wire.transport.aborted) == (4, [])
    for number in range(3):
        wire.receive([call(f"w{number}", "wait"), call(f"l{number}", "long")])
    [why] = wire.transport.aborted
    assert "max_unsent_bytes is 5000" in why


def test_answers_count_wherever_they_stand() -> None:
    """Rule 1: in an array that is too large, and in an unterminated last line (B49), somebody waits for them."""
    wire = batching(Limits(max_batch_entries=1), answers_noise=False)
    first, second, third = (wire.peer.call(method) for method in ("a", "b", "c"))
    answers = [{"jsonrpc": "2.0", "id": each["id"], "result": each["method"]} for each in wire.sent]
    wire.transport.sent.clear()
    wire.receive(answers[:2])
    assert [first.result, second.result] == ["a", "b"]
    [refused] = wire.sent  # a client says so too, since it was meant as a batch
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    assert (wire.peer.unread_messages, wire.peer.stray_messages) == (1, 0)
    wire.peer.remainder_received(json.dumps([*answers[2:], call(1)]).encode())
    assert third.result == "c"
    assert len(wire.sent) == 1


@given(
    st.lists(st.sampled_from(["now", "later", "fails", "note", "unknown", "bad", "again"]), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_one_answer_for_each(kinds: list[str], random: Any) -> None:
    """Rule 1, in any mixture and order: one array, when the last is done, with one answer for each that wants one."""
    wire = batching()
    waiting: list[Deferred[Any]] = []

    def later(request: Any) -> Deferred[Any]:
        waiting.append(Deferred())
        return waiting[-1]

    def refuse(request: Any) -> None:
        raise InvalidParams()

    wire.router.requests.update(now=lambda request: 1, later=later, fails=refuse)
    wire.router.requests["again"] = later
    entries: list[Any] = []
    expected: list[Any] = []
    for number, kind in enumerate(kinds):
        if kind == "bad":
            entries.append("nothing")
            expected.append(None)
        elif kind == "note":
            entries.append({"jsonrpc": "2.0", "method": "note"})
        else:
            entries.append(call(number, kind))
            expected.append(number)
        if kind == "again":
            entries.append(call(number, "now"))
            expected.append(number)
    wire.receive(entries)
    random.shuffle(waiting)
    for each in waiting:
        assert wire.sent == []
        each.callback(2)
    answered = [each["id"] for batch in arrays(wire) for each in batch]
    assert sorted(map(repr, answered)) == sorted(map(repr, expected))
    assert len(wire.sent) == (1 if expected else 0)
    assert wire.peer.incoming_requests == 0


# ---- who takes them


def received(talk: Any) -> list[Any]:
    """What the other end has got, arrays as they are."""
    taken, talk.end.received[:] = list(talk.end.received), []
    return taken


class Talk(agent_halves_v2.UnagreedHalf):
    """An agent that is sent lines as they are."""

    def say(self, message: Any) -> list[Any]:
        """What it sends back."""
        self.link.b.send(json.dumps(message).encode())
        self.link.deliver_all()
        return received(self)


@pytest.mark.parametrize("versions", [(2,), (1, 2)])
def test_an_agent_that_takes_the_august_draft(versions: tuple[int, ...]) -> None:
    """§0: batches and null ids, from initialize on; and neither where version 1 was agreed on."""
    talk = Talk(agent_halves_v2.builder(None, *versions).august_draft())
    [answers] = talk.say([INITIALIZE, call(2, "session/new", cwd="/w", mcpServers=[])])
    assert [each["id"] for each in answers] == ["i", 2]
    assert answers[1]["result"]["sessionId"]
    [listed] = talk.say(call(None, "session/new", cwd="/w", mcpServers=[]))
    assert (listed["id"], "result" in listed) == (None, True)
    if 1 in versions:
        talk = Talk(agent_halves_v2.builder(None, *versions).august_draft())
        talk.initialize(1)
        [refused] = talk.say([call(2, "session/new", cwd="/w", mcpServers=[])])
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)


def test_an_agent_that_does_not_say_so() -> None:
    """2.70: today's version 2 has neither; a null id is refused from initialize on."""
    talk = Talk(agent_halves_v2.builder(None, 1, 2))
    [refused] = talk.say([INITIALIZE])
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    [refused] = talk.say({**INITIALIZE, "id": None})
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    first = {"jsonrpc": "2.0", "id": None, "method": "initialize", "params": {"protocolVersion": 1}}
    [answer] = talk.say(first)
    assert answer["result"]["protocolVersion"] == 1


def test_a_client_that_takes_the_august_draft() -> None:
    """§0: an agent's requests may come together, without ids at that, and are answered together."""
    talk = ClientHalf(client(first_allow, august_draft=True))
    ask = {"jsonrpc": "2.0", "method": "session/request_permission", "params": permission()["params"]}
    talk.link.b.send(json.dumps([{**ask, "id": None}, {**ask, "id": 4}]).encode())
    talk.link.deliver_all()
    [answers] = received(talk)
    assert [(each["id"], each["result"]["outcome"]["outcome"]) for each in answers] == [
        (None, "selected"),
        (4, "selected"),
    ]


def test_a_client_that_settles_for_version_1() -> None:
    """§0: nothing of the draft is left there."""
    made = AcpClient.builder().protocol_versions(2, 1).august_draft().build()
    talk = UnagreedHalf(made)
    talk.initialize()
    talk.answer({"protocolVersion": 1, "agentCapabilities": {}})
    assert not talk.first.peer.takes_batches
