"""
What version 2 of the protocol has that version 1 has not: states within updates, patches, and the draft of August 2026.
"""

from __future__ import annotations

from typing import Any

import pytest
from cattrs import Converter
from schema_checks import refused, update

from acp_twisted.schema import v1, v2
from acp_twisted.schema.converter import get_converter, structure, unstructure
from acp_twisted.schema.upserts import merged_meta, upsert
from acp_twisted.schema.values import UNSET, Model, UnknownVariant

# ---- states


STATES: list[tuple[dict[str, Any], object]] = [
    ({"state": "running"}, v2.RunningStateUpdate()),
    ({"state": "requires_action", "background": []}, v2.RequiresActionStateUpdate(background=[])),
    ({"state": "idle"}, v2.IdleStateUpdate()),
    ({"state": "idle", "stopReason": "cancelled"}, v2.IdleStateUpdate(stop_reason="cancelled")),
    (
        {"state": "idle", "stopReason": "error", "error": {"code": -32603, "message": "m"}},
        v2.IdleStateUpdate(stop_reason="error", error=v2.Error(code=-32603, message="m")),
    ),
    (
        {"state": "idle", "stopReason": "_budget", "left": 0},
        v2.IdleStateUpdate(stop_reason="_budget", extra={"left": 0}),
    ),
    (
        {"state": "idle", "background": [{"type": "terminal", "terminalId": "t"}, {"type": "_x", "y": 1}]},
        v2.IdleStateUpdate(
            background=[v2.BackgroundTerminal(terminal_id="t"), UnknownVariant("_x", {"type": "_x", "y": 1})]
        ),
    ),
]


@pytest.mark.parametrize(("value", "state"), STATES, ids=lambda value: None)
def test_a_state_is_an_update_with_two_tags(value: dict[str, Any], state: object) -> None:
    """
    8.1: the kind of update, the state and the reason stand in one object, and each state is one class.
    """
    whole = update(sessionUpdate="state_update", **value)
    read = structure(whole, v2.UpdateSessionNotification)
    assert read.update == state
    assert unstructure(read) == whole
    assert structure(value, v2.StateUpdate) == state


def test_an_unknown_state_is_no_idle() -> None:
    """
    2.90, rule 10: a state that is not known is kept as it is, and is of no class that is.
    """
    whole = update(sessionUpdate="state_update", state="_dreaming", depth=3)
    read = structure(whole, v2.UpdateSessionNotification)
    assert read.update == UnknownVariant("_dreaming", whole["update"])  # type: ignore[arg-type]
    assert unstructure(read) == whole
    assert refused(update(sessionUpdate="state_update"), v2.UpdateSessionNotification) == [
        ("$.update.state", "is missing")
    ]


def test_a_malformed_reason_or_list_is_not_reported() -> None:
    """
    8.5: a stop reason that is no string and a list of background work with a bad item count as absent.
    """
    read = structure({"state": "idle", "stopReason": 5, "background": [{"type": "terminal"}]}, v2.StateUpdate)
    assert read == v2.IdleStateUpdate()


# ---- three states, patches


def test_absent_null_and_value_are_three_things() -> None:
    """
    8.3, 8.9: for members of upserts, and a malformed one is absent.
    """
    for members, status in (({}, UNSET), ({"status": None}, None), ({"status": "_x"}, "_x"), ({"status": 5}, UNSET)):
        read = structure({"toolCallId": "t", **members}, v2.ToolCallUpdate)
        assert read.status == status
        assert unstructure(read) == {"toolCallId": "t", **({} if status is UNSET else {"status": status})}
    assert structure({"toolCallId": "t", "rawInput": None}, v2.ToolCallUpdate).raw_input is None
    assert structure({"used": 1, "size": 2}, v2.UsageUpdate).cost is UNSET
    assert structure({"used": 1, "size": 2, "cost": None}, v2.UsageUpdate).cost is None


def test_meta_is_merged_key_by_key() -> None:
    """
    §0: absent leaves the stored C{_meta}, null clears it, an object patches its keys and removes those that are null.
    """
    assert merged_meta({"a": 1, "b": {"x": 1}}, UNSET) == {"a": 1, "b": {"x": 1}}
    assert merged_meta({"a": 1}, None) is None
    assert merged_meta({"a": 1, "b": {"x": 1}, "c": 3}, {"b": {"y": 2}, "c": None}) == {"a": 1, "b": {"y": 2}}
    assert merged_meta(UNSET, {"a": None, "b": 1}) == {"b": 1}
    assert merged_meta(None, UNSET) is None


def test_an_upsert_replaces_what_it_names() -> None:
    """
    §2.3: arrays are replaced whole, null clears, the rest stays; neither object is changed.
    """
    first = v2.ToolCallUpdate(tool_call_id="t", title="T", status="pending", meta={"a": 1, "gone": None})
    known = upsert(None, first)
    assert known == v2.ToolCallUpdate(tool_call_id="t", title="T", status="pending", meta={"a": 1})
    later = upsert(known, v2.ToolCallUpdate(tool_call_id="t", title=None, raw_output={"b": 2}, meta={"b": 2}))
    assert later == v2.ToolCallUpdate(
        tool_call_id="t", title=None, status="pending", raw_output={"b": 2}, meta={"a": 1, "b": 2}
    )
    assert known.meta == {"a": 1}
    assert upsert(later, v2.ToolCallUpdate(tool_call_id="t")) == later
    text = [v2.TextContent(text="x")]
    message = upsert(upsert(None, v2.AgentMessage(message_id="m", content=text)), v2.AgentMessage(message_id="m"))
    assert message.content == text
    assert upsert(message, v2.AgentMessage(message_id="m", content=None)).content is None
    other: Model = message
    with pytest.raises(TypeError, match="AgentThought is no update of a AgentMessage"):
        upsert(other, v2.AgentThought(message_id="m"))


# ---- unions that differ from those of version 1


def test_changes_of_files() -> None:
    """
    2.1: each operation has its class, with what all of them share.
    """
    values = [
        {"operation": "add", "path": "/a", "fileType": "text"},
        {"operation": "delete", "path": "/a"},
        {"operation": "modify", "path": "/a", "mimeType": "text/plain", "_meta": {"x": 1}},
        {"operation": "move", "oldPath": "/a", "path": "/b"},
        {"operation": "copy", "oldPath": "/a", "path": "/b"},
        {"operation": "_chmod", "path": "/a", "mode": "755"},
    ]
    read = structure({"changes": values}, v2.Diff)
    kinds = [v2.DiffAdd, v2.DiffDelete, v2.DiffModify, v2.DiffMove, v2.DiffCopy, UnknownVariant]
    assert [type(each) for each in read.changes] == kinds
    assert unstructure(read)["changes"] == values


def test_the_value_of_a_setting_has_the_type_that_is_told() -> None:
    """
    2.1: C{type} is always there; of a type that is not known, the value and what comes with it are kept.
    """
    base = {"sessionId": "s", "configId": "c"}
    for value in (
        {**base, "type": "id", "value": "v"},
        {**base, "type": "boolean", "value": True},
        {**base, "type": "_range", "value": [1, 2], "unit": "m"},
    ):
        assert unstructure(structure(value, v2.SetSessionConfigOptionRequest)) == value
    reason = "does not have the type of the setting"
    wrong = {**base, "type": "id", "value": True}
    assert refused(wrong, v2.SetSessionConfigOptionRequest) == [("$.value", reason)]
    assert refused({**base, "value": "v"}, v2.SetSessionConfigOptionRequest) == [("$.type", "is missing")]


def test_blocks_that_are_not_known_are_kept() -> None:
    """
    8.9: an extension's block goes through unchanged, and a known one must fit.
    """
    assert unstructure(structure({"type": "_x", "a": 1}, v2.ContentBlock)) == {"type": "_x", "a": 1}
    assert refused({"type": "text"}, v2.ContentBlock) == [("$.text", "is missing")]


def test_an_id_is_no_null() -> None:
    """
    §0: in version 2 the id of a request is a number or a string.
    """
    assert structure({"requestId": 5.0}, v2.CancelRequestNotification).request_id == 5
    assert refused({"requestId": None}, v2.CancelRequestNotification) == [
        ("$.requestId", "must be a whole number or a string")
    ]


# ---- the draft of August 2026


def test_the_draft_of_august_is_understood() -> None:
    """
    §0: what that draft left out is read all the same: the id of the message, the type of a command, that of a form.
    """
    assert structure({}, v2.PromptResponse) == structure(None, v2.PromptResponse) == v2.PromptResponse()
    command = structure({"name": "n", "description": "d", "input": {"type": "text", "hint": "h"}}, v2.AvailableCommand)
    assert command == v2.Command(name="n", description="d", input=v2.TextCommandInput(hint="h"))
    written = unstructure(v2.AvailableCommandsUpdate(available_commands=[command]))
    assert written["availableCommands"][0]["type"] == "command"
    assert structure({}, v2.ElicitationSchema) == v2.ElicitationSchema(type="object", properties={})
    assert structure({"state": "idle", "stopReason": "end_turn"}, v2.StateUpdate).background is None


# ---- both versions at once


def test_the_versions_do_not_mix() -> None:
    """
    2.80: a class of the one version is none of a union of the other.
    """
    mixed = v2.UserMessageChunk(message_id="m", content=v1.TextContent(text="x"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="TextContent is no ContentBlock"):
        unstructure(mixed)


def test_cattrs_knows_both() -> None:
    """
    One converter reads and writes the classes and unions of both versions.
    """
    converter = get_converter(Converter())
    assert converter.structure({"type": "text", "text": "x"}, v2.TextContent) == v2.TextContent(text="x")
    state: Any = converter.structure({"state": "running"}, v2.StateUpdate)  # type: ignore[arg-type]
    assert state == v2.RunningStateUpdate()
    assert converter.unstructure(state, unstructure_as=v2.SessionUpdate)["sessionUpdate"] == "state_update"
    assert converter.structure({"type": "text", "text": "x"}, v1.TextContent) == v1.TextContent(text="x")
