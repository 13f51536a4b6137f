"""
How the protocol's JSON is read and written, rule by rule.
"""

from __future__ import annotations

import math

import pytest
from schema_checks import refused, update

from acp_twisted.schema import converter, v1
from acp_twisted.schema.converter import describe_error, structure, unstructure
from acp_twisted.schema.values import UNSET, Model, SchemaError

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
