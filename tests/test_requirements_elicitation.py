"""
Elicitations, as the protocol requires them of both sides.
"""

from __future__ import annotations

from typing import Any

import pytest
from conftest import LoggedErrors

from acp_twisted import AcpAgent, AcpClient, InternalError, InvalidResponse, PromptContext
from acp_twisted.schema import v1, v2
from acp_twisted.schema.converter import structure
from acp_twisted.schema.values import UnknownVariant
from acp_twisted.testing import (
    AgentOnWire,
    ClientOnWire,
    ScriptedClient,
    answered,
    connected_pair,
    notified,
    success_result,
)

FORM = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0}, "code": {"type": "string", "pattern": "^[a-z]+$"}},
    "required": ["age"],
}
SCHEMA: v1.ElicitationSchema = structure(FORM, v1.ElicitationSchema)
URL = "https://example.com/login"


def accept(**content: Any) -> v1.CreateElicitationResponse:
    """The user has filled the form in."""
    return v1.CreateElicitationResponse(action="accept", content=content)


def asking(outcomes: list[Any]) -> AcpAgent:
    """An agent that asks with a form, and keeps what comes of it."""

    async def prompt(_: Any, context: PromptContext) -> v1.PromptResponse:
        try:
            outcomes.append(await context.elicit_form("Who?", SCHEMA))
        except Exception as error:
            outcomes.append(error)
        return v1.PromptResponse(stop_reason="end_turn")

    return AcpAgent.builder().prompt_handler(prompt).build()


def test_what_is_accepted_fits_the_form() -> None:
    """ELIC-ACCEPT-CONTENT-SCHEMA, ELIC-CLIENT-VALIDATE: then it goes to the agent as it is."""
    outcomes: list[Any] = []
    client = ScriptedClient()
    client.expect(v1.ElicitationFormMode).answers(accept(age=7, code="abc"))
    with connected_pair(asking(outcomes), client) as pair:
        pair.answer()
    assert outcomes == [accept(age=7, code="abc")]


@pytest.mark.parametrize("content", [{}, {"age": "7"}, {"age": -1}])
def test_what_does_not_fit_is_not_sent(content: dict[str, Any]) -> None:
    """
    ELIC-ACCEPT-CONTENT-SCHEMA, ELIC-CLIENT-VALIDATE: the agent gets an error that says where and why, and not what was
    filled in.
    """
    outcomes: list[Any] = []
    client = ScriptedClient()
    client.expect(v1.ElicitationFormMode).answers(accept(**content))
    with connected_pair(asking(outcomes), client) as pair:
        pair.answer()
        pair.transcript.assert_never(answered("elicitation/create"))
    [error] = outcomes
    assert isinstance(error, InternalError)
    assert error.data[0]["path"] == "$.age"  # type: ignore[index]


@pytest.mark.parametrize("action", ["decline", "cancel", "hologram"])
def test_what_is_not_accepted_needs_no_content(action: str) -> None:
    """
    ELIC-AGENT-UNKNOWN-ACTION-NOT-TREATED-AS-KNOWN: an action reaches the agent as it is, one that nobody knows too.
    """
    outcomes: list[Any] = []
    client = ScriptedClient()
    client.expect(v1.ElicitationFormMode).answers(v1.CreateElicitationResponse(action=action))
    with connected_pair(asking(outcomes), client) as pair:
        pair.answer()
    assert [each.action for each in outcomes] == [action]
    assert (action in ("accept", "decline", "cancel")) is (action != "hologram")


@pytest.mark.parametrize("content", [None, {"age": 1.5}, {"age": 1, "code": "ABC"}])
def test_an_agent_looks_again(content: Any) -> None:
    """ELIC-AGENT-REVALIDATE: whatever a client sends, its own expressions included."""
    outcomes: list[Any] = []
    wire = AgentOnWire(asking(outcomes), capabilities={"elicitation": {"form": {}}})
    wire.prompt(wire.open_session())
    wire.respond({"action": "accept", "content": content})
    [error] = outcomes
    assert isinstance(error, InvalidResponse)


def test_fields_of_an_unknown_kind_are_not_taken_for_known_ones() -> None:
    """
    ELIC-CLIENT-UNKNOWN-PROPERTY-SCHEMA-NOT-RENDERED-AS-KNOWN: the handler has them as they came, and may answer them as
    it likes.
    """
    field = {"type": "hologram", "depth": 3}
    client = ScriptedClient()
    seen: list[Any] = []
    client.expect(v1.ElicitationFormMode).does(lambda request, _: seen.append(request)).answers(accept(h="x"))
    wire = ClientOnWire(client)
    form = {"type": "object", "properties": {"h": field}}
    params = {"mode": "form", "message": "m", "sessionId": "s", "requestedSchema": form}
    assert wire.ask("elicitation/create", params) == {"result": {"action": "accept", "content": {"h": "x"}}}
    assert seen[0].requested_schema.properties == {"h": UnknownVariant("hologram", field)}


def test_a_mode_that_was_not_advertised(logged_errors: LoggedErrors) -> None:
    """
    ELIC-CLIENT-UNADVERTISED-MODE-INVALID-PARAMS, ELIC-CLIENT-UNKNOWN-MODE-NOT-RENDERED-AS-KNOWN: -32602, and no handler
    is asked.
    """
    params = {"message": "m", "sessionId": "s", "elicitationId": "e", "url": URL, "requestedSchema": FORM}
    form_only = ScriptedClient()
    form_only.allow(v1.ElicitationFormMode).answers(accept(age=1))
    for client, modes in ((form_only, ("url", "hologram")), (ScriptedClient(), ("form", "url", "hologram"))):
        wire = ClientOnWire(client)
        for mode in modes:
            assert wire.ask("elicitation/create", {**params, "mode": mode})["error"]["code"] == -32602
        wire.take()
    form_only.verify()


def test_a_mode_that_the_client_does_not_have() -> None:
    """ELIC-AGENT-NO-UNADVERTISED-MODE: refused here, and nothing is sent."""
    outcomes: list[Any] = []
    lacking: list[dict[str, Any]] = [{}, {"elicitation": {}}, {"elicitation": {"url": {}}}]
    for capabilities in lacking:
        wire = AgentOnWire(asking(outcomes), capabilities=capabilities)
        wire.prompt(wire.open_session())
        assert wire.asked("elicitation/create") == []
    assert len(outcomes) == 3


def test_a_page_belongs_to_its_connection() -> None:
    """
    ELIC-AGENT-BIND-CONNECTION, ELIC-AGENT-COMPLETE-SAME-CLIENT, ELIC-AGENT-UNIQUE-ELICITATION-ID,
    ELIC-AGENT-COMPLETE-MAY, ELIC-CLIENT-OPAQUE-ELICITATION-ID, ELIC-CLIENT-IGNORE-UNKNOWN-COMPLETE: an elicitation is
    said to be complete to the client that it was asked of, and to no other; the client is told of those alone that it
    knows, whatever their ids look like.
    """
    pages: list[Any] = []

    async def prompt(_: Any, context: PromptContext) -> v1.PromptResponse:
        pages.append(context.elicit_url("Log in", URL))
        await pages[-1]
        return v1.PromptResponse(stop_reason="end_turn")

    agent = AcpAgent.builder().prompt_handler(prompt).build()
    told: list[v1.CompleteElicitationNotification] = []
    able = v1.ClientCapabilities(elicitation=v1.ElicitationCapabilities(url=v1.ElicitationUrlCapabilities()))
    client = (
        AcpClient.builder()
        .client_capabilities(able)
        .create_elicitation_handler(lambda _: v1.CreateElicitationResponse(action="accept"))
        .complete_elicitation_handler(told.append)
        .build()
    )
    with connected_pair(agent, client) as mine, connected_pair(agent, client) as other:
        mine.answer()
        other.answer()
        first, second = (page.elicitation_id for page in pages)
        assert first != second
        with pytest.raises(ValueError, match="elicitation"):
            other.agent.notify(v1.CompleteElicitationNotification(elicitation_id=first))
        success_result(pages[0].complete())
        mine.transcript.assert_count(notified("elicitation/complete", {"elicitationId": first}), 1)
        other.transcript.assert_never("elicitation/complete")
        mine.agent.peer.notify("elicitation/complete", {"elicitationId": "no such \u2028"})
    assert [each.elicitation_id for each in told] == [first]


def test_forms_of_version_2() -> None:
    """ELIC-ACCEPT-CONTENT-SCHEMA, ELIC-AGENT-REVALIDATE: the same there, on both sides."""
    asked = {"mode": "form", "message": "Who?", "sessionId": "s1", "requestedSchema": FORM}
    answer = v2.CreateElicitationResponse(action="accept", content={"age": "7"})
    client = AcpClient.builder().create_elicitation_handler(lambda _: answer).protocol_versions(2).build()
    half = ClientOnWire(client, protocol_version=2)
    half.open_session("s1")
    assert half.ask("elicitation/create", asked)["error"]["code"] == -32603

    outcomes: list[Any] = []
    form = structure(FORM, v2.ElicitationSchema)

    async def prompt(_: object, context: Any) -> None:
        request = v2.ElicitationFormMode(message="Who?", session_id=context.session_id, requested_schema=form)
        context.create_elicitation(request).addBoth(outcomes.append)

    agent = AcpAgent.builder().prompt_handler(prompt).protocol_versions(2).build()
    wire = AgentOnWire(agent, capabilities={"elicitation": {"form": {}}}, protocol_version=2)
    wire.prompt(wire.open_session())
    wire.respond({"action": "accept", "content": {"age": 1.5}})
    assert outcomes[0].check(InvalidResponse)
