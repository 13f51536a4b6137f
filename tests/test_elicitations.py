"""
Elicitations from both ends: ids that are unique and known, and the client as its session's handler sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from halves import AgentHalf, ClientHalf
from halves_v2 import ClientHalf as SecondClientHalf
from twisted.internet.defer import Deferred
from wire import success

from acp_twisted import AcpAgent, AcpClient, Limits, PromptContext
from acp_twisted.agent.client_calls import SessionClient
from acp_twisted.client.client import AcpClientBuilder
from acp_twisted.elicitations import Elicitations
from acp_twisted.schema import v1, v2

URL = "https://example.org/"
MODES = v1.ElicitationCapabilities(form=v1.ElicitationFormCapabilities(), url=v1.ElicitationUrlCapabilities())
SCHEMA = v1.ElicitationSchema(properties={"name": v1.StringPropertySchema()})


class Turn:
    """
    One prompt of the session C{s1}, which never ends by itself.

    @ivar context: the prompt's.
    """

    context: PromptContext

    def __init__(self, limits: Limits | None = None) -> None:
        def handler(request: v1.PromptRequest, context: PromptContext) -> Deferred[Any]:
            self.context = context
            return Deferred()

        builder = AcpAgent.builder().prompt_handler(handler)
        builder.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s1"))
        self.half = AgentHalf(builder.limits(limits or Limits()).build())
        self.half.prompt()

    def answer(self, action: str) -> None:
        """The client answers the last request."""
        [request] = self.half.take()
        self.half.send({"id": request["id"], "result": {"action": action}})


def test_each_web_page_has_an_id_of_its_own() -> None:
    """The ids are made up, and tell the page's elicitation from all others (ELIC-AGENT-UNIQUE-ELICITATION-ID)."""
    turn = Turn()
    first, second = turn.context.elicit_url("Log in", URL), turn.context.elicit_url("Pay", URL, tool_call_id="t")
    assert first.elicitation_id != second.elicitation_id
    sent = [each["params"] for each in turn.half.take()]
    assert [each["elicitationId"] for each in sent] == [first.elicitation_id, second.elicitation_id]
    assert sent[1] == {
        "mode": "url",
        "message": "Pay",
        "url": URL,
        "elicitationId": second.elicitation_id,
        "sessionId": "s1",
        "toolCallId": "t",
    }


def test_an_id_in_use_is_refused() -> None:
    """Your own id must be free; what was declined, has failed, or is complete is free (ELIC-AGENT-UNIQUE-…)."""
    turn = Turn()
    request = v1.ElicitationUrlMode(message="?", url=URL, elicitation_id="e", session_id="s1")
    for action in ("decline", "cancel", "_later"):
        turn.context.create_elicitation(request)
        with pytest.raises(ValueError, match="another elicitation of this id is open"):
            turn.context.create_elicitation(request)
        turn.answer(action)
    turn.context.create_elicitation(request).cancel()
    turn.half.take()
    turn.context.create_elicitation(request)
    turn.answer("accept")
    with pytest.raises(ValueError, match="another elicitation of this id is open"):
        turn.context.create_elicitation(request)
    turn.context.complete_elicitation("e")
    turn.context.create_elicitation(request)
    assert [each["method"] for each in turn.half.take()] == ["elicitation/complete", "elicitation/create"]


def test_only_what_is_open_is_complete() -> None:
    """
    elicitation/complete names an elicitation of this connection that is open, once (ELIC-AGENT-COMPLETE-SAME-CLIENT,
    ELIC-AGENT-COMPLETE-MAY).
    """
    turn, other = Turn(), Turn()
    page = turn.context.elicit_url("Log in", URL)
    turn.answer("accept")
    assert success(page.response).action == "accept"
    with pytest.raises(ValueError, match="no elicitation of this id"):
        other.context.complete_elicitation(page.elicitation_id)
    page.complete()
    with pytest.raises(ValueError, match="no elicitation of this id"):
        page.complete()
    assert turn.half.take() == [{"method": "elicitation/complete", "params": {"elicitationId": page.elicitation_id}}]
    declined = turn.context.elicit_url("Log in", URL)
    turn.answer("decline")
    with pytest.raises(ValueError, match="no elicitation of this id"):
        declined.complete()


def test_what_is_never_complete_is_forgotten() -> None:
    """Completion need not come, so only so many ids are remembered (Limits.max_elicitations)."""
    turn = Turn(Limits(max_elicitations=2))
    pages = []
    for _ in range(3):
        pages.append(turn.context.elicit_url("Log in", URL))
        turn.answer("accept")
    with pytest.raises(ValueError, match="no elicitation of this id"):
        pages[0].complete()
    pages[1].complete()
    pages[2].complete()


def test_a_form() -> None:
    """A form names its fields, its session and its tool call; the answer is the user's (6.4)."""
    turn = Turn()
    asked = turn.context.elicit_form("Who?", SCHEMA, tool_call_id="t")
    [request] = turn.half.take()
    assert request["params"] == {
        "mode": "form",
        "message": "Who?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        "sessionId": "s1",
        "toolCallId": "t",
    }
    turn.half.send({"id": request["id"], "result": {"action": "accept", "content": {"name": "x"}}})
    answer = success(asked)
    assert (answer.action, answer.content) == ("accept", {"name": "x"})


# ---- the client's end


class User:
    """Answers elicitations when a test says so; knows what was completed."""

    def __init__(self) -> None:
        self.asked: list[Deferred[Any]] = []
        self.completed: list[str] = []

    def elicit(self, request: v1.CreateElicitationRequest) -> Deferred[Any]:
        """One elicitation."""
        self.asked.append(Deferred())
        return self.asked[-1]

    def builder(self) -> AcpClientBuilder:
        """A client of his."""
        builder = AcpClient.builder().client_capabilities(v1.ClientCapabilities(elicitation=MODES))
        builder.create_elicitation_handler(self.elicit)
        return builder.complete_elicitation_handler(lambda notice: self.completed.append(notice.elicitation_id))


def page(elicitation_id: str) -> dict[str, Any]:
    """elicitation/create."""
    params = {"mode": "url", "message": "?", "url": URL, "elicitationId": elicitation_id, "sessionId": "s1"}
    return {"id": elicitation_id, "method": "elicitation/create", "params": params}


def complete(elicitation_id: object) -> dict[str, Any]:
    """elicitation/complete."""
    return {"method": "elicitation/complete", "params": {"elicitationId": elicitation_id}}


def test_a_client_ignores_what_it_does_not_know() -> None:
    """
    Only ids that are open are told of, once each, whatever they look like (ELIC-CLIENT-IGNORE-UNKNOWN-COMPLETE,
    ELIC-CLIENT-OPAQUE-ELICITATION-ID).
    """
    user = User()
    half = ClientHalf(user.builder().build())
    half.send(complete("never"), page("a/..\u2028 b"), page("declined"), complete(7), complete(None))
    user.asked[0].callback(v1.CreateElicitationResponse(action="accept"))
    user.asked[1].callback(v1.CreateElicitationResponse(action="decline"))
    half.send(complete("declined"), complete("a/..\u2028 b"), complete("a/..\u2028 b"))
    assert user.completed == ["a/..\u2028 b"]


def test_completion_may_come_before_the_answer() -> None:
    """The user may be done before the client has answered; a refused one was never open (B30)."""
    user = User()
    half = ClientHalf(user.builder().build())
    half.send(page("e"), complete("e"))
    assert user.completed == ["e"]
    user.asked[0].callback(v1.CreateElicitationResponse(action="accept"))
    half.send(complete("e"))
    half.send({**page("bad"), "params": {"mode": "url", "elicitationId": "bad"}}, complete("bad"))
    assert user.completed == ["e"]


def test_the_oldest_are_pushed_out() -> None:
    """A flood of pages costs no more than the limit (design rule 6)."""
    known = Elicitations(2, 10)
    for number in range(1000):
        known.begin(str(number))
    assert len(known) == 2
    assert "999" in known
    assert not known.complete("1")


@pytest.mark.parametrize("version", [1, 2])
def test_an_id_is_only_so_long(version: int) -> None:
    """It is remembered as long as the connection lasts, so a long one is refused before the user sees it (rule 6)."""
    user = User()
    longest = Limits().max_id_length
    half: Any
    if version == 1:
        half = ClientHalf(user.builder().build())
    else:
        offered = v2.ElicitationCapabilities(url=v2.ElicitationUrlCapabilities())
        second = user.builder().protocol_versions(2)
        half = SecondClientHalf(second.client_capabilities_v2(v2.ClientCapabilities(elicitation=offered)).build())
    half.send({**page("e" * longest), "id": 1}, {**page("e" * (longest + 1)), "id": 2})
    assert len(user.asked) == 1
    [refused] = half.take()
    assert (refused["id"], refused["error"]["code"], refused["error"]["data"]) == (2, -32602, {"maxIdLength": longest})


# ---- the client under .client


CALLS: list[tuple[str, Callable[[SessionClient], Any]]] = [
    ("fs/read_text_file", lambda c: c.read_text_file("/f", 1, 2)),
    ("fs/write_text_file", lambda c: c.write_text_file("/f", "x")),
    ("session/request_permission", lambda c: c.request_permission(v1.ToolCallUpdate(tool_call_id="t"), [])),
    ("terminal/create", lambda c: c.create_terminal("ls")),
    ("terminal/output", lambda c: c.terminal_output("t")),
    ("terminal/wait_for_exit", lambda c: c.wait_for_terminal_exit("t")),
    ("terminal/kill", lambda c: c.kill_terminal("t")),
    ("terminal/release", lambda c: c.release_terminal("t")),
    ("elicitation/create", lambda c: c.elicit_form("?", SCHEMA)),
    ("elicitation/create", lambda c: c.elicit_url("?", URL)),
    ("session/update", lambda c: c.send_update(v1.Plan(entries=[]))),
]


@pytest.mark.parametrize(("method", "call"), CALLS)
def test_each_call_is_one_message(method: str, call: Callable[[SessionClient], Any]) -> None:
    """context.client and connection.client(…) have one call for each method, and it sends that and nothing else."""
    turn = Turn()
    for client in (turn.context.client, turn.half.connection.client("s1")):
        call(client)
        [sent] = turn.half.take()
        assert (sent["method"], sent["params"]["sessionId"]) == (method, "s1")
        assert client.capabilities is turn.half.connection.client_capabilities


def test_what_the_turns_client_asks_belongs_to_the_turn() -> None:
    """It is cancelled with what the context asked; what the connection's asked is not (X9)."""
    turn = Turn()
    turn.context.client.read_text_file("/f")
    turn.half.connection.client("s1").read_text_file("/g")
    [of_turn, outside] = turn.half.take()
    turn.context.cancel_outstanding()
    [cancelled] = turn.half.take()
    assert cancelled == {"method": "$/cancel_request", "params": {"requestId": of_turn["id"]}}
    assert outside["params"]["path"] == "/g"
    assert turn.context.supports("terminal")
    assert not turn.context.supports("session.notices")
