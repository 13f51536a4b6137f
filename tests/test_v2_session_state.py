"""The picture of a session of version 2: what each update does to it, against a model that knows no shortcuts."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_twisted.client.v2.picture import Compaction, Message, TrackedTerminal, TrackedToolCall
from acp_twisted.client.v2.state import SessionState
from acp_twisted.schema import v2
from acp_twisted.schema.converter import structure
from acp_twisted.schema.values import UnknownVariant


def told(kind: str, /, **members: Any) -> Any:
    """An update as it comes from the wire."""
    return structure({"sessionUpdate": kind, **members}, v2.SessionUpdate)


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


def chunk(words: str, name: str = "m", kind: str = "agent_message_chunk", **more: Any) -> Any:
    """A piece of a message."""
    return told(kind, messageId=name, content=text(words), **more)


def whole(*words: str, name: str = "m", kind: str = "agent_message", **more: Any) -> Any:
    """A whole message."""
    return told(kind, messageId=name, content=[text(each) for each in words], **more)


def encoded(data: bytes) -> str:
    """Bytes as the protocol carries them."""
    return b64encode(data).decode()


def fed(*updates: Any) -> SessionState:
    """The picture after some updates."""
    state = SessionState()
    for each in updates:
        state.feed(each)
    return state


def words(state: SessionState) -> list[tuple[str, str]]:
    """The messages, each as its role and its text."""
    return [(each.role, each.text) for each in state.messages]


# ---- messages


def test_a_whole_message_replaces_the_chunks_before_it() -> None:
    """2.83: chunk A, chunk B, whole [C], chunk D is [C, D]."""
    state = fed(chunk("A"), chunk("B"), whole("C"), chunk("D"))
    assert [each.text for each in state.messages[0].content] == ["C", "D"]  # type: ignore[union-attr]


@pytest.mark.parametrize("content", [None, []])
def test_a_message_is_cleared(content: Any) -> None:
    """Null and an empty list both clear the content; the message stays on the timeline."""
    state = fed(chunk("A"), told("agent_message", messageId="m", content=content))
    assert words(state) == [("agent", "")]


def test_an_absent_content_stays() -> None:
    """A message that only brings _meta keeps its content, and _meta goes in key by key."""
    state = fed(
        chunk("A", _meta={"chunk": 1}),
        told("agent_message", messageId="m", _meta={"a": 1, "b": {"x": 1}}),
        told("agent_message", messageId="m", _meta={"a": None, "b": {"y": 2}, "c": 3}),
    )
    assert state.message("m") == Message(
        role="agent", message_id="m", content=(v2.TextContent(text="A"),), meta={"b": {"y": 2}, "c": 3}
    )
    state.feed(told("agent_message", messageId="m", _meta={}))
    assert state.messages[0].meta == {"b": {"y": 2}, "c": 3}
    state.feed(told("agent_message", messageId="m", _meta=None))
    assert state.messages[0].meta is None


def test_chunks_of_different_messages_interleave() -> None:
    """Each joins its own; an id is one of its role."""
    state = fed(chunk("a", "1"), chunk("x", "2"), chunk("b", "1"), chunk("t", "1", "agent_thought_chunk"))
    assert words(state) == [("agent", "ab"), ("agent", "x"), ("thought", "t")]
    assert state.last_message is not None
    assert state.last_message.role == "thought"


def test_a_malformed_member_leaves_what_was() -> None:
    """8.3: what does not fit in a lenient member counts as absent, not as null."""
    state = fed(told("tool_call_update", toolCallId="t", title="A", status="completed"))
    state.feed(told("tool_call_update", toolCallId="t", title=7, status={}))
    assert state.tool_call("t") == TrackedToolCall(tool_call_id="t", title="A", status="completed")


# ---- tool calls and terminals


def test_a_tool_call_begins_with_its_first_mention() -> None:
    """The defaults are kind other and status pending; a chunk may come first."""
    content = {"type": "content", "content": text("x")}
    state = fed(told("tool_call_content_chunk", toolCallId="t", content=content))
    assert state.tool_call("t") == TrackedToolCall(
        tool_call_id="t", content=(v2.Content(content=v2.TextContent(text="x")),)
    )


def test_null_clears_and_absent_leaves() -> None:
    """C{status: null} is not the same as no status."""
    state = fed(told("tool_call_update", toolCallId="t", title="A", kind="edit", status="failed", rawInput={"a": 1}))
    state.feed(told("tool_call_update", toolCallId="t"))
    assert state.tool_calls[0].status == "failed"
    state.feed(told("tool_call_update", toolCallId="t", status=None, title=None, kind=None, rawInput=None))
    assert state.tool_call("t") == TrackedToolCall(tool_call_id="t")


def test_what_can_be_cancelled_is_shown() -> None:
    """The capability is patched like everything else."""
    state = fed(told("tool_call_update", toolCallId="t", capabilities={"cancel": {}}))
    assert state.tool_calls[0].cancellable
    state.feed(told("tool_call_update", toolCallId="t", status="in_progress"))
    assert state.tool_calls[0].cancellable
    state.feed(told("tool_call_update", toolCallId="t", capabilities={}))
    assert not state.tool_calls[0].cancellable


def test_terminal_bytes_are_joined_before_they_are_text() -> None:
    """Each chunk is decoded by itself, and a character may be cut in two."""
    state = fed(
        told("terminal_output_chunk", terminalId="x", data="AAE="),
        told("terminal_output_chunk", terminalId="x", data="4oI="),
        told("terminal_output_chunk", terminalId="x", data="rA=="),
    )
    assert state.terminals["x"].output == b"\x00\x01\xe2\x82\xac"
    assert state.terminals["x"].text == "\x00\x01€"
    state.feed(told("terminal_update", terminalId="x", output={"data": encoded(b"new")}, command="ls"))
    state.feed(told("terminal_output_chunk", terminalId="x", data=encoded(b"er")))
    assert state.terminal("x") == TrackedTerminal(terminal_id="x", command="ls", output=b"newer")
    state.feed(told("terminal_update", terminalId="x", output=None, exitStatus={"exitCode": 1}))
    assert state.terminals["x"].output == b""
    assert state.terminals["x"].exit_status == v2.TerminalExitStatus(exit_code=1)


def test_output_that_is_no_base64_is_left_out() -> None:
    """The rest of its update counts."""
    state = fed(
        told("terminal_output_chunk", terminalId="x", data=encoded(b"a")),
        told("terminal_output_chunk", terminalId="x", data="*"),
        told("terminal_update", terminalId="x", output={"data": "="}, command="ls"),
    )
    assert state.terminals["x"] == TrackedTerminal(terminal_id="x", command="ls", output=b"a")


# ---- the state of the work


def test_a_new_session_is_idle() -> None:
    """2.24: until the agent says otherwise."""
    assert (SessionState().foreground, SessionState().background) == ("idle", None)


def reported(picture: SessionState) -> tuple[Any, Any, Any]:
    """The state of the work."""
    return picture.foreground, picture.stop_reason, picture.background


def test_the_state_and_the_background_are_the_last_report() -> None:
    """A report that does not mention background work says nothing of it; an unknown state keeps its name (2.90)."""
    work = [{"type": "terminal", "terminalId": "x"}]
    picture = fed(told("state_update", state="running", background=work))
    assert reported(picture) == ("running", None, (v2.BackgroundTerminal(terminal_id="x"),))
    picture.feed(told("state_update", state="_pondering", background=work))
    assert reported(picture) == ("_pondering", None, None)
    picture.feed(told("state_update", state="idle", stopReason="refusal", background=[]))
    assert reported(picture) == ("idle", "refusal", ())


def test_cancelling_marks_what_is_not_finished() -> None:
    """V2S2, V2S8, V2N1: at once, but for the background; what the agent still says is taken."""
    state = fed(
        told("tool_call_update", toolCallId="done", status="completed"),
        told("tool_call_update", toolCallId="open", status="in_progress"),
        told("tool_call_update", toolCallId="beside", status="in_progress"),
        told("tool_call_update", toolCallId="late", status="_unheard_of"),
        told("state_update", state="running", background=[{"type": "tool_call", "toolCallId": "beside"}]),
    )
    state.cancelling()
    assert [each.status for each in state.tool_calls] == ["completed", "cancelled", "in_progress", "cancelled"]
    state.feed(told("tool_call_update", toolCallId="open", status="in_progress"))
    state.feed(told("tool_call_update", toolCallId="late", status="completed"))
    assert [each.status for each in state.tool_calls] == ["completed", "cancelled", "in_progress", "completed"]
    state.feed(told("state_update", state="idle", stopReason="cancelled"))
    assert state.tool_calls[1].status == "cancelled"
    state.feed(told("tool_call_update", toolCallId="open", status="in_progress"))
    assert state.tool_calls[1].status == "in_progress"


# ---- the rest


def test_plans_settings_commands_and_title() -> None:
    """Plans by their id; lists are whole; the title is patched."""
    entry = {"content": "look", "priority": "high", "status": "pending"}
    state = fed(
        told("plan_update", plan={"type": "items", "planId": "a", "entries": [entry]}),
        told("plan_update", plan={"type": "_chart", "planId": "b", "x": 1}),
        told("plan_update", plan={"type": "markdown", "planId": "c", "content": "#"}),
        told("plan_removed", planId="c"),
        told("session_info_update", title="T", updatedAt="2026-01-01T00:00:00Z"),
        told("session_info_update", updatedAt=None),
        told("usage_update", used=1, size=2, cost={"amount": 1, "currency": "EUR"}),
        told("usage_update", used=2, size=2),
        told("notice", severity="info", title="N"),
        told("_other", a=1),
        told("config_option_update", configOptions=[]),
        told(
            "available_commands_update",
            availableCommands=[{"type": "command", "name": "go", "description": "Go"}],
        ),
    )
    assert sorted(state.plans) == ["a", "b"]
    assert (state.title, state.updated_at) == ("T", None)
    assert state.usage == v2.UsageUpdate(used=2, size=2, cost=v2.Cost(amount=1, currency="EUR"))
    assert [each.title for each in state.notices] == ["N"]
    assert state.other == (UnknownVariant(tag="_other", raw={"sessionUpdate": "_other", "a": 1}),)
    assert [each.name for each in state.commands] == ["go"]  # type: ignore[union-attr]
    state.feed(told("usage_update", used=2, size=2, cost=None))
    assert state.usage == v2.UsageUpdate(used=2, size=2, cost=None)
    assert state.count == 13


def test_a_compaction_has_its_place_on_the_timeline() -> None:
    """6.7: the first update fixes it; its summary is patched and grows."""
    state = fed(
        told("compaction_update", compactionId="c", status="in_progress"),
        chunk("after"),
        told("compaction_summary_chunk", compactionId="c", content=text("A")),
        told("compaction_summary_chunk", compactionId="c", content=text("B")),
        told("compaction_update", compactionId="c", status="completed"),
    )
    summary = (v2.TextContent(text="A"), v2.TextContent(text="B"))
    assert state.timeline[0] == Compaction(compaction_id="c", status="completed", summary=summary)


def test_subagents_and_their_messages_are_patched() -> None:
    """Unstable updates are upserts too."""
    state = fed(
        told("subagent_update", sessionId="s", title="T", state={"state": "running"}),
        told("subagent_update", sessionId="s", description="D", state=None),
        told("session_message", messageId="p", senderSessionId="s", content=[text("A")]),
        told("session_message_chunk", messageId="p", content=text("B")),
    )
    assert (state.subagents["s"].title, state.subagents["s"].description, state.subagents["s"].state) == (
        "T",
        "D",
        None,
    )
    [passed] = state.timeline
    assert passed.sender_session_id == "s"  # type: ignore[union-attr]
    assert [each.text for each in passed.content] == ["A", "B"]  # type: ignore[union-attr]


def test_a_replay_begins_the_picture_anew() -> None:
    """What the agent told before is not there twice; a replay that is refused before it began changes nothing."""
    state = fed(chunk("A"))
    state.replay_began()
    state.replay_ended(False)
    assert words(state) == [("agent", "A")]
    state.replay_began()
    state.feed(chunk("A"))
    state.feed(chunk("B"))
    state.replay_ended(True)
    assert words(state) == [("agent", "AB")]


def test_what_was_given_out_does_not_change() -> None:
    """A snapshot stays as it was."""
    state = fed(
        chunk("a"), told("tool_call_update", toolCallId="t"), told("terminal_output_chunk", terminalId="x", data="")
    )
    before = state.snapshot()
    state.feed(chunk("b")).feed(told("tool_call_update", toolCallId="t", status="failed"))
    state.feed(told("terminal_output_chunk", terminalId="x", data=encoded(b"x")))
    assert [each.text for each in before.messages] == ["a"]
    assert [each.status for each in before.tool_calls] == ["pending"]
    assert before.terminals["x"].output == b""
    assert state.snapshot() != before


# ---- all of it, at random

IDS = st.sampled_from("ab")
METAS = st.dictionaries(st.sampled_from("xyz"), st.one_of(st.none(), st.integers(0, 2)), max_size=3)
BLOCKS = st.text("pq", max_size=2).map(text)
ITEMS = BLOCKS.map(lambda block: {"type": "content", "content": block})
ROLES = {"user": "user_message", "agent": "agent_message", "thought": "agent_thought"}


def maybe(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A member that is absent, null or there."""
    return st.one_of(st.just({}), st.just({name: None}), values.map(lambda value: {name: value}))


def merged(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """One object of several."""
    return st.tuples(*parts).map(lambda found: {key: value for part in found for key, value in part.items()})


def members(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Members that are there."""
    return st.fixed_dictionaries(values)


def a(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """The tag of an update."""
    return st.just({"sessionUpdate": kind})


UPDATES = st.one_of(
    *(
        merged(a(kind), members(messageId=IDS), maybe("content", st.lists(BLOCKS, max_size=3)), maybe("_meta", METAS))
        for kind in ROLES.values()
    ),
    *(
        merged(a(f"{kind}_chunk"), members(messageId=IDS, content=BLOCKS), maybe("_meta", METAS))
        for kind in ROLES.values()
    ),
    merged(
        a("tool_call_update"),
        members(toolCallId=IDS),
        maybe("title", st.sampled_from("TU")),
        maybe("kind", st.sampled_from(["read", "_odd"])),
        maybe("status", st.sampled_from(["in_progress", "completed", "_odd"])),
        maybe("content", st.lists(ITEMS, max_size=3)),
        maybe("rawInput", st.integers(0, 1)),
        maybe("_meta", METAS),
    ),
    merged(a("tool_call_content_chunk"), members(toolCallId=IDS, content=ITEMS), maybe("_meta", METAS)),
    merged(
        a("terminal_update"),
        members(terminalId=IDS),
        maybe("command", st.sampled_from("cd")),
        maybe("output", st.binary(max_size=3).map(lambda data: {"data": encoded(data)})),
        maybe("exitStatus", st.just({"exitCode": 0})),
        maybe("_meta", METAS),
    ),
    merged(a("terminal_output_chunk"), members(terminalId=IDS, data=st.binary(max_size=3).map(encoded))),
)


class Model:
    """The algebra as the protocol words it, on plain dicts."""

    IDS = ("messageId", "toolCallId", "terminalId", "sessionUpdate")

    def __init__(self) -> None:
        self.entities: dict[tuple[str, str], dict[str, Any]] = {}

    def feed(self, update: dict[str, Any]) -> None:
        """One update."""
        kind = update["sessionUpdate"]
        [name] = [update[each] for each in self.IDS[:3] if each in update]
        chunk = kind.endswith("_chunk")
        family = kind.removesuffix("_chunk").removesuffix("_update").removesuffix("_content").removesuffix("_output")
        entity = self.entities.setdefault((family, name), {})
        if chunk:
            key, piece = ("output", update["data"]) if "data" in update else ("content", update["content"])
            entity[key] = [*entity.get(key, []), piece]
            return
        for key, value in update.items():
            if key in self.IDS:
                continue
            if key == "_meta":
                self._patch_meta(entity, value)
            elif value is None or value == []:
                entity.pop(key, None)
            else:
                entity[key] = [value["data"]] if key == "output" else value

    @staticmethod
    def _patch_meta(entity: dict[str, Any], value: dict[str, Any] | None) -> None:
        if value is None:
            entity.pop("_meta", None)
            return
        for key, each in value.items():
            meta = entity.setdefault("_meta", {})
            if each is None:
                meta.pop(key, None)
            else:
                meta[key] = each


def _bytes(chunks: list[str]) -> bytes:
    return b"".join(b64decode(each) for each in chunks)


@given(st.lists(UPDATES, max_size=40))
def test_the_picture_is_what_the_algebra_says(updates: list[dict[str, Any]]) -> None:
    """2.41, 2.45, 2.81: upserts, chunks, three-state members and _meta, in any order, looked at in between."""
    model, state = Model(), SessionState()
    for number, update in enumerate(updates):
        model.feed(update)
        state.feed(structure(update, v2.SessionUpdate))
        if number % 3 == 0:
            state.snapshot()  # what is made to be shown must not stand in the way of what comes
    for role, family in ROLES.items():
        shown = {each.message_id: each for each in state.messages if each.role == role}
        wanted = {name: entity for (kind, name), entity in model.entities.items() if kind == family}
        assert shown.keys() == wanted.keys()
        for name, entity in wanted.items():
            content = tuple(v2.TextContent(text=each["text"]) for each in entity.get("content", []))
            assert shown[name].content == content
            assert shown[name].meta == (entity.get("_meta") or None)
    for (kind, name), entity in model.entities.items():
        if kind == "tool_call":
            call = state.tool_call(name)
            assert call == TrackedToolCall(
                tool_call_id=name,
                title=entity.get("title"),
                kind=entity.get("kind", "other"),
                status=entity.get("status", "pending"),
                content=tuple(structure(each, v2.ToolCallContent) for each in entity.get("content", [])),
                raw_input=entity.get("rawInput"),
                meta=entity.get("_meta") or None,
            )
        elif kind == "terminal":
            exited = v2.TerminalExitStatus(exit_code=0) if "exitStatus" in entity else None
            assert state.terminal(name) == TrackedTerminal(
                terminal_id=name,
                command=entity.get("command"),
                output=_bytes(entity.get("output", [])),
                exit_status=exited,
                meta=entity.get("_meta") or None,
            )
    order = [(family, name) for family, name in model.entities if family != "terminal"]
    assert [_key(each) for each in state.timeline] == order


def _key(entry: Any) -> tuple[str, str]:
    return (ROLES[entry.role], entry.message_id) if isinstance(entry, Message) else ("tool_call", entry.tool_call_id)
