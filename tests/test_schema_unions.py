"""
Variants, their tags, and objects that hold several in one.
"""

from __future__ import annotations

from typing import Any

import pytest
from schema_checks import chunk, refused, update

from acp_twisted.schema import v1
from acp_twisted.schema.converter import structure, unstructure
from acp_twisted.schema.values import UNSET, UnknownVariant

# ---- unknown variants and values


def test_an_unknown_update_is_kept_as_it_came() -> None:
    """
    B50: an update of a kind that is not known is no error.
    """
    value = update(sessionUpdate="zz_future", n=1, _meta={"a": None})
    read = structure(value, v1.SessionNotification)
    assert read.update == UnknownVariant("zz_future", {"sessionUpdate": "zz_future", "n": 1, "_meta": {"a": None}})
    assert unstructure(read) == value


UNKNOWN: list[tuple[object, dict[str, Any]]] = [
    (v1.ContentBlock, {"type": "hologram", "x": [1]}),
    (v1.ToolCallContent, {"type": "_x"}),
    (v1.SessionConfigOption, {"type": "color", "id": "c", "name": "C", "currentValue": "red"}),
    (v1.RequestPermissionOutcome, {"outcome": "deferred", "until": 3}),
    (v1.ElicitationPropertySchema, {"type": "object"}),
    (v1.MultiSelectItems, {"type": "number"}),
    (v1.McpServer, {"type": "ws", "name": "w", "url": "ws://x"}),
    (v1.AuthMethod, {"type": "env_var", "id": "k", "name": "Key", "vars": []}),
    (v1.StateUpdate, {"state": "_dreaming"}),
    (v1.PlanUpdateContent, {"type": "graph", "planId": "p"}),
]


@pytest.mark.parametrize(("kind", "value"), UNKNOWN, ids=[str(next(iter(value.values()))) for _, value in UNKNOWN])
def test_an_unknown_variant_is_kept_as_it_came(kind: object, value: dict[str, Any]) -> None:
    """
    Design rule 10, java-sdk.md 7: each union keeps what it does not know, and writes it unchanged.
    """
    read = structure(value, kind)
    assert isinstance(read, UnknownVariant)
    assert read.tag == next(iter(value.values()))
    assert unstructure(read) == value


def test_unknown_neighbours_leave_the_others_intact() -> None:
    """
    B51: a block that is not known, among others in a prompt and in a tool call.
    """
    blocks = [{"type": "hologram"}, {"type": "text", "text": "ok"}]
    prompt = structure({"sessionId": "s", "prompt": blocks}, v1.PromptRequest)
    assert prompt.prompt[1] == v1.TextContent(text="ok")
    assert unstructure(prompt)["prompt"] == blocks
    call = {"toolCallId": "t", "title": "T", "content": [{"type": "hologram"}, {"type": "terminal", "terminalId": "x"}]}
    read = structure(call, v1.ToolCall)
    assert read.content == [UnknownVariant("hologram", {"type": "hologram"}), v1.Terminal(terminal_id="x")]


def test_a_known_variant_must_fit() -> None:
    """
    8.6: the tag decides; a known one with a bad payload is an error, one that is no string or missing too.
    """
    assert refused({"type": "text"}, v1.ContentBlock) == [("$.text", "is missing")]
    assert refused({"text": "x"}, v1.ContentBlock) == [("$.type", "is missing")]
    assert refused({"type": 5}, v1.ContentBlock) == [("$.type", "must be a string")]
    assert refused({"type": ["text"]}, v1.ContentBlock) == [("$.type", "must be a string")]
    assert refused("text", v1.ContentBlock) == [("$", "must be an object")]
    bad = {"sessionId": "s", "prompt": [{"type": "text", "text": 1}]}
    assert refused(bad, v1.PromptRequest) == [("$.prompt[0].text", "must be a string")]


def test_an_unknown_stop_reason_settles_the_turn() -> None:
    """
    B51, rule 10: closed enumerations of version 1 are open when they are read, and the value goes out as it came.
    """
    read = structure({"stopReason": "error", "note": "x"}, v1.PromptResponse)
    assert read.stop_reason == "error"
    assert unstructure(read) == {"stopReason": "error"}
    assert refused({"stopReason": 3}, v1.PromptResponse) == [("$.stopReason", "must be a string")]
    assert refused({}, v1.PromptResponse) == [("$.stopReason", "is missing")]


def test_unknown_values_of_enumerations_are_kept() -> None:
    """
    B51: kinds, states, roles and priorities that are not known.
    """
    call = {"toolCallId": "t", "title": "T", "kind": "teleport", "status": "dreaming"}
    assert unstructure(structure(call, v1.ToolCall)) == {"sessionUpdate": "tool_call", **call}
    entry = {"content": "c", "priority": "urgent", "status": "skipped"}
    assert unstructure(structure({"entries": [entry]}, v1.Plan))["entries"] == [entry]
    assert structure({"audience": ["user", "dog"]}, v1.Annotations).audience == ["user", "dog"]


def test_members_that_are_not_known_are_dropped_and_meta_is_kept() -> None:
    """
    B51, V1: closed types drop what they do not know; C{_meta} goes through whatever it holds, nulls too.
    """
    value = {**chunk(), "later": 1, "_meta": {"traceparent": "00", "deep": {"a": [None]}}}
    read = structure(value, v1.SessionNotification)
    assert read.meta == {"traceparent": "00", "deep": {"a": [None]}}
    assert unstructure(read) == {**chunk(), "_meta": {"traceparent": "00", "deep": {"a": [None]}}}
    assert structure({**chunk(), "_meta": 5}, v1.SessionNotification).meta is None


# ---- tags


def test_one_payload_under_three_tags() -> None:
    """
    8.1: each tag has its class, and each class its tag.
    """
    for tag, cls in (
        ("user_message_chunk", v1.UserMessageChunk),
        ("agent_message_chunk", v1.AgentMessageChunk),
        ("agent_thought_chunk", v1.AgentThoughtChunk),
    ):
        value = update(sessionUpdate=tag, content={"type": "text", "text": "x"}, messageId="m")
        read = structure(value, v1.SessionNotification)
        assert type(read.update) is cls
        assert isinstance(read.update, v1.ContentChunk)
        assert unstructure(read) == value
    with pytest.raises(TypeError, match="ContentChunk is no SessionUpdate"):
        unstructure(v1.SessionNotification(session_id="s", update=v1.ContentChunk(content=v1.TextContent(text="x"))))  # type: ignore[arg-type]


def test_a_tool_call_update_has_its_tag_only_as_an_update() -> None:
    """
    8.1: the same class tells of a tool call in a permission request, where it has no tag.
    """
    call = v1.ToolCallUpdate(tool_call_id="t", status="completed")
    written = unstructure(v1.SessionNotification(session_id="s", update=call))
    assert written["update"] == {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}
    asked = v1.RequestPermissionRequest(session_id="s", tool_call=call, options=[])
    assert unstructure(asked)["toolCall"] == {"toolCallId": "t", "status": "completed"}


def test_a_subclass_is_written_as_what_it_is_a_kind_of() -> None:
    """
    Users may extend the classes.
    """

    class Shout(v1.TextContent):
        """Text in capitals."""

    sent = v1.AgentMessageChunk(content=Shout(text="HI"))
    assert unstructure(sent)["content"] == {"type": "text", "text": "HI"}
    assert unstructure(Shout(text="HI")) == {"type": "text", "text": "HI"}


def test_permission_outcomes() -> None:
    """
    A variant that is nothing but its tag.
    """
    for outcome, value in (
        (v1.CancelledPermissionOutcome(), {"outcome": "cancelled"}),
        (v1.SelectedPermissionOutcome(option_id="o"), {"outcome": "selected", "optionId": "o"}),
    ):
        response = v1.RequestPermissionResponse(outcome=outcome)
        assert unstructure(response) == {"outcome": value}
        assert structure({"outcome": value}, v1.RequestPermissionResponse) == response


# ---- flat objects


def test_elicitations_are_flat() -> None:
    """
    8.1: mode, scope and message in one object.
    """
    form = {"mode": "form", "message": "m", "sessionId": "s", "toolCallId": "t", "requestedSchema": {"type": "object"}}
    read = structure(form, v1.CreateElicitationRequest)
    assert type(read) is v1.ElicitationFormMode
    assert (read.session_id, read.tool_call_id, read.request_id) == ("s", "t", UNSET)
    assert unstructure(read) == {**form, "requestedSchema": {"type": "object", "properties": {}}}
    url = {"mode": "url", "message": "m", "requestId": None, "elicitationId": "e", "url": "https://x"}
    other = structure(url, v1.CreateElicitationRequest)
    assert type(other) is v1.ElicitationUrlMode
    assert other.request_id is None
    assert unstructure(other) == url
    assert unstructure(v1.ElicitationUrlMode(message="m", request_id=5, elicitation_id="e", url="u")) == {
        "mode": "url",
        "message": "m",
        "requestId": 5,
        "elicitationId": "e",
        "url": "u",
    }


def test_an_elicitation_of_an_unknown_mode_is_kept() -> None:
    """
    8.6: its scope is read, the rest is kept.
    """
    value = {"mode": "_voice", "message": "m", "sessionId": "s", "language": "de"}
    read = structure(value, v1.CreateElicitationRequest)
    assert type(read) is v1.CreateElicitationRequest
    assert read.extra == {"language": "de"}
    assert unstructure(read) == value


def test_an_elicitation_belongs_to_something() -> None:
    """
    8.6: without a session and a request it is refused, both ways.
    """
    value = {"mode": "_voice", "message": "m"}
    assert refused(value, v1.CreateElicitationRequest) == [("$", "must have one of sessionId, requestId")]
    with pytest.raises(ValueError, match="needs one of session_id, request_id"):
        unstructure(v1.ElicitationUrlMode(message="m", elicitation_id="e", url="u"))


def test_answers_to_elicitations() -> None:
    """
    8.7: accept with content, decline, cancel, and an action that is not known.
    """
    for value in (
        {"action": "accept", "content": {"a": "x", "b": 1, "c": 1.5, "d": True, "e": ["f"]}},
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "_later", "at": 5},
    ):
        assert unstructure(structure(value, v1.CreateElicitationResponse)) == value
    bad = {"action": "accept", "content": {"secret-name": {"a": 1}}}
    [(path, reason)] = refused(bad, v1.CreateElicitationResponse)
    assert path == "$.content.*"
    assert "secret-name" not in reason


def test_settings_have_their_shared_members() -> None:
    """
    8.1: id, name and category beside what the kind of setting has; lists of values flat or in groups.
    """
    value = {
        "type": "select",
        "id": "m",
        "name": "Model",
        "currentValue": "a",
        "options": [{"value": "a", "name": "A"}],
    }
    read = structure(value, v1.SessionConfigOption)
    assert isinstance(read, v1.SessionConfigSelect)
    assert read.options == [v1.SessionConfigSelectOption(value="a", name="A")]
    assert unstructure(read) == value
    group = {"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}
    grouped = structure({**value, "options": [group]}, v1.SessionConfigOption)
    assert isinstance(grouped.options[0], v1.SessionConfigSelectGroup)
    assert unstructure(grouped)["options"] == [group]
    assert structure({**value, "options": []}, v1.SessionConfigOption).options == []
    mixed = {**value, "options": [group, {"value": "b", "name": "B"}]}
    assert refused(mixed, v1.SessionConfigOption)[0] == ("$.options[1].group", "is missing")


def test_the_type_of_a_setting_decides_the_tag() -> None:
    """
    8.7: true and false go out with their type, the id of a value without one.
    """
    listed = {"sessionId": "s", "configId": "c", "value": "v"}
    boolean = {"sessionId": "s", "configId": "c", "value": True, "type": "boolean"}
    assert unstructure(v1.SetSessionConfigOptionRequest(session_id="s", config_id="c", value="v")) == listed
    assert unstructure(v1.SetSessionConfigOptionRequest(session_id="s", config_id="c", value=True)) == boolean
    assert structure(listed, v1.SetSessionConfigOptionRequest).value == "v"
    assert structure(boolean, v1.SetSessionConfigOptionRequest).value is True
    reason = "does not have the type of the setting"
    assert refused({**boolean, "value": "v"}, v1.SetSessionConfigOptionRequest) == [("$.value", reason)]
    assert refused({**listed, "value": True}, v1.SetSessionConfigOptionRequest) == [("$.value", reason)]


def test_mcp_answers() -> None:
    """
    A result, null too, or an error with whatever members it has.
    """
    for value in ({"result": None}, {"result": {"a": 1}}, {"error": {"code": 1, "message": "m", "data": 2, "x": 3}}):
        assert unstructure(structure(value, v1.MessageMcpResponse)) == value
    assert refused({}, v1.MessageMcpResponse) == [("$", "must have one of result, error")]


def test_idle_states() -> None:
    """
    8.1: the reason is a member beside the state, and one that is not known keeps what it brings.
    """
    for value in (
        {"state": "idle"},
        {"state": "idle", "stopReason": "error"},
        {"state": "idle", "stopReason": "_x", "y": 1},
    ):
        read = structure(value, v1.StateUpdate)
        assert isinstance(read, v1.IdleStateUpdate)
        assert unstructure(read) == value
