"""
How the protocol's JSON is read and written, rule by rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from schema_source import definitions, example, is_valid, validator

from acp_twisted.schema import converter, v1
from acp_twisted.schema.converter import describe_error, on_skipped, structure, unstructure
from acp_twisted.schema.values import UNSET, Model, SchemaError, UnknownVariant


def refused(value: object, kind: object) -> list[tuple[str, str]]:
    """
    The paths and reasons with which a value is refused.
    """
    with pytest.raises(SchemaError) as caught:
        structure(value, kind)
    return [(each["path"], each["reason"]) for each in describe_error(caught.value)]


def update(**members: object) -> dict[str, object]:
    """
    The params of a C{session/update}.
    """
    return {"sessionId": "s1", "update": members}


def chunk(text: str = "hi") -> dict[str, object]:
    """
    An update with a piece of the agent's message.
    """
    return update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


# ---- leniency, member by member


class Case:
    """
    One member of one class, and the smallest object around it.
    """

    def __init__(
        self, cls: type[Model], key: str, schema: dict[str, Any], smallest: dict[str, Any], required: bool
    ) -> None:
        self.cls = cls
        self.key = key
        self.schema = schema
        self.smallest = smallest
        self.required = required
        self.lenient = bool(schema.get("x-deserialize-default-on-error"))
        self.skips = bool(schema.get("x-deserialize-skip-invalid-items"))

    def wrong(self) -> object:
        """
        A value that the member cannot have; L{None} when it can have any.
        """
        candidates: tuple[object, ...] = (5, True, "x", {})
        return next((each for each in candidates if not is_valid(self.schema, each)), None)

    def read(self, **members: object) -> object:
        """
        What the attribute is when the object has these members besides the smallest.
        """
        read = structure({**self.smallest, **members}, self.cls)
        [attribute] = [name for name, (wire, *_) in self.cls.WIRE.items() if wire == self.key]
        return getattr(read, attribute)


def smallest(name: str) -> dict[str, Any]:
    """
    The smallest object of a class, with what its union wants.
    """
    found: dict[str, Any] = {
        "SessionConfigSelect": lambda: example(definitions()["SessionConfigOption"], 0),
        "SessionConfigBoolean": lambda: example(definitions()["SessionConfigOption"], 1),
        "ElicitationFormMode": lambda: example(definitions()["CreateElicitationRequest"], 0),
        "ElicitationUrlMode": lambda: example(definitions()["CreateElicitationRequest"], 1),
    }.get(name, lambda: example(definitions()[name]))()
    return found


def cases() -> Iterator[Case]:
    """
    Every member of every class.
    """
    for name, definition in definitions().items():
        cls = getattr(v1, name, None)
        if isinstance(cls, type) and issubclass(cls, Model) and cls.__name__ == name:
            for key, schema in definition.get("properties", {}).items():
                yield Case(cls, key, schema, smallest(name), key in definition.get("required", ()))


def chosen(pick: Callable[[Case], bool], at_least: int) -> list[Case]:
    """
    The members that a rule is about; a rule about next to none has lost its subject.
    """
    found = [each for each in cases() if pick(each)]
    assert len(found) >= at_least
    return found


def test_a_lenient_member_that_does_not_fit_is_absent() -> None:
    """
    8.5, x-deserialize-default-on-error: the wrong value gives what an absent member gives.
    """
    for case in chosen(lambda each: each.lenient and each.wrong() is not None, 200):
        assert case.read(**{case.key: case.wrong()}) == structure_default(case), (case.cls, case.key)


def structure_default(case: Case) -> object:
    """
    What the attribute is when the member is absent.
    """
    without = {key: value for key, value in case.smallest.items() if key != case.key}
    absent = Case(case.cls, case.key, case.schema, without, required=False)
    return absent.read()


def test_a_strict_member_that_does_not_fit_is_an_error() -> None:
    """
    8.5: without the mark, the wrong value is an error that names the member.
    """
    for case in chosen(lambda each: not each.lenient and each.wrong() is not None, 150):
        wrong = {**case.smallest, case.key: case.wrong()}
        problems = refused(wrong, case.cls)
        assert problems[0][0].startswith(f"$.{case.key}"), (case.cls, case.key, problems)


def test_items_are_skipped_only_where_the_schema_says_so() -> None:
    """
    8.5, x-deserialize-skip-invalid-items and B54: a bad item is left out and counted there, and an error elsewhere.
    """
    seen: list[tuple[str, str, int]] = []
    on_skipped(lambda cls, member, count: seen.append((cls, member, count)))
    for case in chosen(lambda each: each.skips, 20):
        seen.clear()
        good = example(case.schema["items"])
        kept = case.read(**{case.key: [5, good, [], good]})
        assert kept == case.read(**{case.key: [good, good]}), (case.cls, case.key)
        assert isinstance(kept, list)
        assert len(kept) == 2
        assert seen == [(case.cls.__name__, case.key, 2)]
    on_skipped(lambda cls, member, count: None)
    for case in chosen(lambda each: each.schema.get("type") == "array" and not each.skips, 10):
        bad = {**case.smallest, case.key: [example(case.schema["items"]), 5]}
        assert refused(bad, case.cls)[0][0].startswith(f"$.{case.key}[1]"), (case.cls, case.key)


def test_required_lists_that_are_lenient_may_be_missing() -> None:
    """
    8.5: lenient in what we take, strict in what we send.
    """
    for case in chosen(lambda each: each.lenient and each.required, 8):
        without = {key: value for key, value in case.smallest.items() if key != case.key}
        read = structure(without, case.cls)
        assert unstructure(read)[case.key] == []
        assert structure({**without, case.key: None}, case.cls) == read


def test_null_is_absent_for_every_member_that_is_not_required() -> None:
    """
    8.3 and B54: for these members null and absent are the same, but for those that tell them apart.
    """
    three_state = {"SessionInfoUpdate", "CompactionUpdate", "SubagentUpdate", "SessionMessage"}
    for case in chosen(lambda each: not each.required, 300):
        if case.cls.__name__ in three_state or case.key == "requestId":
            continue
        assert case.read(**{case.key: None}) == structure_default(case), (case.cls, case.key)


def test_members_that_are_required_and_missing_are_named() -> None:
    """
    B53: a missing member is an error that names it.
    """
    needed = chosen(lambda each: each.required and not each.lenient, 150)
    for case in needed:
        if case.key == "mcpServers" or case.cls.__name__ in ("ElicitationFormMode", "ElicitationUrlMode"):
            continue
        without = {key: value for key, value in case.smallest.items() if key != case.key}
        assert (f"$.{case.key}", "is missing") in refused(without, case.cls), (case.cls, case.key)


def test_what_is_written_without_options_is_valid_and_small() -> None:
    """
    B54: None is never written as null, and every smallest object is valid when it is written again.
    """
    for name in definitions():
        cls = getattr(v1, name, None)
        if isinstance(cls, type) and issubclass(cls, Model) and cls.__name__ == name:
            written = unstructure(structure(smallest(name), cls))
            validator(name).validate(written)
            assert None not in written.values() or cls is v1.CancelRequestNotification  # null is an id


# ---- the vectors of protocol.md 8.9 for version 1


def test_vector_initialize_response() -> None:
    """
    8.9: wrong capabilities are the defaults, and a bad way to authenticate is left out.
    """
    read = structure(
        {
            "protocolVersion": 1,
            "agentCapabilities": {"loadSession": "yes", "promptCapabilities": None},
            "authMethods": [{"id": "a", "name": "A"}, {"bad": 1}],
        },
        v1.InitializeResponse,
    )
    assert read.agent_capabilities == v1.AgentCapabilities()
    assert read.agent_capabilities.load_session is False
    assert read.auth_methods == [v1.AuthMethodAgent(id="a", name="A")]


def test_vector_mcp_servers() -> None:
    """
    8.9: no type is stdio; a known type must fit.
    """
    stdio = {"name": "s", "command": "/c", "args": [], "env": []}
    read = structure({"cwd": "/w", "mcpServers": [stdio, {**stdio, "type": "stdio"}]}, v1.NewSessionRequest)
    assert read.mcp_servers == [v1.McpServerStdio(name="s", command="/c", args=[], env=[])] * 2
    assert unstructure(read)["mcpServers"] == [stdio, stdio]
    http = {"cwd": "/w", "mcpServers": [{"type": "http", "name": "h", "headers": []}]}
    assert refused(http, v1.NewSessionRequest) == [("$.mcpServers[0].url", "is missing")]


@pytest.mark.parametrize(
    "version", ["1.0.0", 65536, -1, 1.5, True, None], ids=["text", "large", "negative", "fraction", "boolean", "null"]
)
def test_vector_protocol_versions(version: object) -> None:
    """
    8.2: a version is a whole number up to 65535.
    """
    assert refused({"protocolVersion": version}, v1.InitializeRequest)[0][0] == "$.protocolVersion"


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


# ---- absent and null


def test_three_states() -> None:
    """
    8.3: absent leaves a member as it is, null clears it, and a malformed one is absent.
    """
    tag = {"sessionUpdate": "session_info_update"}
    for members, title in (({}, UNSET), ({"title": None}, None), ({"title": "T"}, "T"), ({"title": 5}, UNSET)):
        read = structure(update(**tag, **members), v1.SessionNotification)
        assert isinstance(read.update, v1.SessionInfoUpdate)
        assert read.update.title is title
        expected = {} if title is UNSET else {"title": title}
        assert unstructure(read)["update"] == {**tag, **expected}
    compaction = v1.CompactionUpdate(compaction_id="c", status="completed", summary=None, meta=None)
    assert unstructure(compaction) == {
        "sessionUpdate": "compaction_update",
        "compactionId": "c",
        "status": "completed",
        "summary": None,
        "_meta": None,
    }
    assert structure({"compactionId": "c", "status": "x", "summary": 5}, v1.CompactionUpdate).summary is UNSET
    message = structure({"messageId": "m", "content": None}, v1.SessionMessage)
    assert (message.content, message.sender_session_id) == (None, UNSET)
    subagent = structure({"sessionId": "s", "cwd": None}, v1.SubagentUpdate)
    assert (subagent.cwd, subagent.title) == (None, UNSET)


def test_a_tool_call_update_has_two_states() -> None:
    """
    8.3, B54: there, null is the same as absent.
    """
    assert structure({"toolCallId": "t", "status": None}, v1.ToolCallUpdate) == v1.ToolCallUpdate(tool_call_id="t")


def test_unset_is_false_and_says_its_name() -> None:
    """
    The sentinel is one object that reads well in a log.
    """
    assert not UNSET
    assert repr(UNSET) == "UNSET"


@pytest.mark.parametrize(
    "cls", [v1.WriteTextFileResponse, v1.LoadSessionResponse, v1.AuthenticateResponse, v1.LogoutRequest]
)
def test_null_is_an_empty_response(cls: type[Model]) -> None:
    """
    8.1: C{"result": null} is a response with nothing in it, and so are absent params, where nothing is required.
    """
    assert structure(None, cls) == cls()
    assert refused(None, v1.PromptResponse) == [("$", "must be an object")]


def test_mcp_servers_are_always_written() -> None:
    """
    B54: C{mcpServers} goes out empty as well, may be left out or null by others, and never has bad items.
    """
    for request in (
        v1.NewSessionRequest(cwd="/w"),
        v1.LoadSessionRequest(cwd="/w", session_id="s"),
        v1.ResumeSessionRequest(cwd="/w", session_id="s"),
        v1.ForkSessionRequest(cwd="/w", session_id="s"),
    ):
        assert unstructure(request)["mcpServers"] == []
        assert "additionalDirectories" not in unstructure(request)
    assert structure({"cwd": "/w"}, v1.NewSessionRequest).mcp_servers == []
    assert structure({"cwd": "/w", "mcpServers": None}, v1.NewSessionRequest).mcp_servers == []
    bad = {"cwd": "/w", "mcpServers": [{"name": "a", "command": "x", "args": [], "env": []}, {"bad": 1}]}
    assert refused(bad, v1.NewSessionRequest)[0] == ("$.mcpServers[1].name", "is missing")


# ---- simple values


@pytest.mark.parametrize("value", [True, 1.5, "42", -1, 2**32, [], math.inf, math.nan])
def test_what_is_no_uint32(value: object) -> None:
    """
    8.2: a boolean is no number, fractions and what is out of range are refused, and text is not made a number.
    """
    request = {"sessionId": "s", "path": "/p", "line": value}
    assert [path for path, _ in refused(request, v1.ReadTextFileRequest)] == ["$.line"]


def test_whole_numbers_with_a_point_are_whole() -> None:
    """
    8.2: 2.0 is 2, and an integer afterwards.
    """
    line = structure({"sessionId": "s", "path": "/p", "line": 2.0}, v1.ReadTextFileRequest).line
    assert (line, type(line)) == (2, int)
    assert structure({"used": 2**64 - 1, "size": 0}, v1.UsageUpdate).used == 2**64 - 1
    assert refused({"used": 2**64, "size": 0}, v1.UsageUpdate)[0][0] == "$.used"


def test_numbers_are_not_made_text() -> None:
    """
    8.2: C{42} is no session id.
    """
    assert refused({"sessionId": 42}, v1.CancelNotification) == [("$.sessionId", "must be a string")]


@pytest.mark.parametrize("value", [None, 0, -1, "", "1", 2**63 - 1, 7.0])
def test_request_ids_keep_their_type(value: object) -> None:
    """
    B47: an id is null, an int64 or text, and 1 and "1" are different.
    """
    read = structure({"requestId": value}, v1.CancelRequestNotification)
    assert read.request_id == value
    assert not isinstance(read.request_id, float)
    assert unstructure(read) == {"requestId": value}


@pytest.mark.parametrize("value", [True, 1.5, [1], {}, 2**63])
def test_what_is_no_request_id(value: object) -> None:
    """
    B47: booleans, fractions, lists and objects are no ids.
    """
    reason = "must be a whole number, a string or null"
    assert refused({"requestId": value}, v1.CancelRequestNotification) == [("$.requestId", reason)]


def test_what_json_does_not_have_is_not_written() -> None:
    """
    B59: NaN and the infinities fail where they are written, not at the peer.
    """
    for amount in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="JSON has no NaN"):
            unstructure(v1.UsageUpdate(used=1, size=2, cost=v1.Cost(amount=amount, currency="USD")))
    assert refused({"amount": math.inf, "currency": "USD"}, v1.Cost)[0][0] == "$.amount"


def test_what_is_not_of_the_protocol_is_a_type_error() -> None:
    """
    A wrong object fails where it is written, with the names of both sides.
    """
    with pytest.raises(TypeError, match="dict is no class of the protocol"):
        unstructure({"sessionId": "s"})
    with pytest.raises(TypeError, match="dict is no SessionUpdate"):
        unstructure(v1.SessionNotification(session_id="s", update={"sessionUpdate": "plan"}))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is no type of the protocol"):
        structure({}, dict)


# ---- errors


def test_errors_name_the_path_and_not_the_value() -> None:
    """
    B53, rule 9: neither the error nor its text nor its data say what stood there.
    """
    bad = {"sessionId": 7, "prompt": [{"type": "text"}, {"type": "text", "text": {"password": "hunter2"}}]}
    with pytest.raises(SchemaError) as caught:
        structure(bad, v1.PromptRequest)
    assert describe_error(caught.value) == [
        {"path": "$.sessionId", "reason": "must be a string"},
        {"path": "$.prompt[0].text", "reason": "is missing"},
        {"path": "$.prompt[1].text", "reason": "must be a string"},
    ]
    assert "hunter2" not in f"{caught.value}{caught.value!r}"
    assert str(caught.value).startswith("not a valid PromptRequest: $.sessionId: must be a string")


@pytest.mark.parametrize("params", [[1], "x", 5, True])
def test_params_that_are_no_object(params: object) -> None:
    """
    B53: they are refused like any other misfit.
    """
    assert refused(params, v1.PromptRequest) == [("$", "must be an object")]


def test_a_flood_of_problems_is_cut() -> None:
    """
    Rule 6: a thousand mistakes are not a thousand lines.
    """
    assert len(refused({"sessionId": "s", "prompt": [5] * 1000}, v1.PromptRequest)) == 20


def test_any_other_error_says_nothing() -> None:
    """
    Rule 9: what is not ours to explain is not explained.
    """
    assert describe_error(RuntimeError("hunter2")) == [{"path": "$", "reason": "does not fit"}]


# ---- objects


def test_objects_compare_by_value_and_show_what_is_set() -> None:
    """
    Two objects with the same values are equal, their class counts, and the repr leaves out what is not there.
    """
    one = v1.AgentMessageChunk(content=v1.TextContent(text="x"))
    assert one == v1.AgentMessageChunk(content=v1.TextContent(text="x"))
    assert one != v1.UserMessageChunk(content=v1.TextContent(text="x"))
    assert one != v1.AgentMessageChunk(content=v1.TextContent(text="y"))
    assert one != "x"
    assert repr(one) == "AgentMessageChunk(content=TextContent(text='x'))"
    assert repr(v1.SessionInfoUpdate(title="T")) == "SessionInfoUpdate(title='T')"
    assert repr(v1.McpError(code=1, message="m", extra={"a": 1})) == "McpError(code=1, message='m', extra={'a': 1})"
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with pytest.raises(AttributeError):
        one.text = "x"  # type: ignore[attr-defined]


def test_defaults_are_those_of_the_protocol() -> None:
    """
    8.4: what an absent capability is, and what a tool call is when it does not say.
    """
    capabilities = v1.AgentCapabilities()
    assert capabilities.load_session is False
    assert capabilities.prompt_capabilities == v1.PromptCapabilities(image=False, audio=False, embedded_context=False)
    assert capabilities.session_capabilities.list is None
    assert v1.ClientCapabilities().fs == v1.FileSystemCapabilities(read_text_file=False, write_text_file=False)
    call = v1.ToolCall(tool_call_id="t", title="T")
    assert unstructure(call) == {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "T",
        "kind": "other",
        "status": "pending",
    }
    assert v1.AgentCapabilities().auth is not capabilities.auth


def test_the_module_has_one_codec() -> None:
    """
    The functions are compiled once, whoever asks.
    """
    assert converter.get_converter() is converter.get_converter()
