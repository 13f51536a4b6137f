"""The picture of a session: what each update does to it, and which updates it follows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from halves import ClientHalf, cancel, update
from hypothesis import given
from hypothesis import strategies as st

from acp_twisted import AcpClient
from acp_twisted.client.followers import SessionFollower
from acp_twisted.client.picture import Message, TrackedToolCall
from acp_twisted.client.state import SessionState
from acp_twisted.schema import v1
from acp_twisted.schema.values import UnknownVariant


def text(words: str) -> v1.TextContent:
    """A text block."""
    return v1.TextContent(text=words)


def agent(words: str, message_id: str | None = None) -> v1.AgentMessageChunk:
    """A piece of the agent's answer."""
    return v1.AgentMessageChunk(content=text(words), message_id=message_id)


def thought(words: str) -> v1.AgentThoughtChunk:
    """A piece of its reasoning."""
    return v1.AgentThoughtChunk(content=text(words))


def call(name: str = "t1", **more: Any) -> v1.ToolCall:
    """A tool call begins."""
    return v1.ToolCall(tool_call_id=name, title="work", **more)


def change(name: str = "t1", **more: Any) -> v1.ToolCallUpdate:
    """Something about it has changed."""
    return v1.ToolCallUpdate(tool_call_id=name, **more)


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


def test_consecutive_chunks_are_one_message() -> None:
    """Without a messageId, what follows on each other in one role is one message."""
    state = fed(agent("a"), agent("b"), thought("c"), agent("d"))
    assert words(state) == [("agent", "ab"), ("thought", "c"), ("agent", "d")]


def test_chunks_of_one_id_are_one_message_wherever_they_come() -> None:
    """1.102: the same id is the same message, also when others come between."""
    state = fed(agent("a", "m1"), agent("x", "m2"), agent("b", "m1"))
    assert words(state) == [("agent", "ab"), ("agent", "x")]
    assert [each.message_id for each in state.messages] == ["m1", "m2"]


def test_an_id_is_one_of_its_role() -> None:
    """A thought and a message of one id are two."""
    state = fed(agent("a", "m"), v1.AgentThoughtChunk(content=text("b"), message_id="m"))
    assert words(state) == [("agent", "a"), ("thought", "b")]


def test_a_tool_call_parts_two_messages_but_its_updates_do_not() -> None:
    """What stands between two pieces on the timeline parts them."""
    state = fed(agent("a"), call(), agent("b"), change(status="completed"), agent("c"))
    shown = [each.text if isinstance(each, Message) else each.tool_call_id for each in state.timeline]
    assert shown == ["a", "t1", "bc"]


def test_a_turn_begins_another_message() -> None:
    """Two answers that follow on each other are not one, for the prompt between is not repeated."""
    state = fed(agent("a"))
    state.turn_ended()
    state.turn_began()
    state.feed(agent("b"))
    assert words(state) == [("agent", "a"), ("agent", "b")]


def test_blocks_other_than_text_are_kept() -> None:
    """An image is part of the message."""
    image = v1.ImageContent(data="", mime_type="image/png")
    state = fed(agent("a"), v1.AgentMessageChunk(content=image), agent("b"))
    [message] = state.messages
    assert message.content == (text("a"), image, text("b"))
    assert message.text == "ab"
    assert state.last_message == message


def test_what_was_given_out_does_not_change() -> None:
    """A snapshot stays as it was."""
    state = fed(agent("a"), call())
    before = state.snapshot()
    state.feed(agent("b")).feed(change(status="completed")).feed(v1.SessionInfoUpdate(title="t"))
    assert [each.text for each in before.messages] == ["a"]
    assert [each.status for each in before.tool_calls] == ["pending"]
    assert before.title is None
    assert state.snapshot().title == "t"


@given(st.lists(st.sampled_from("uat"), max_size=30))
def test_no_chunk_is_lost(roles: list[str]) -> None:
    """Whatever the order, all text is there, in order, and neighbours are of different roles."""
    kinds = {"u": v1.UserMessageChunk, "a": v1.AgentMessageChunk, "t": v1.AgentThoughtChunk}
    state = fed(*(kinds[role](content=text(str(number))) for number, role in enumerate(roles)))
    assert "".join(each.text for each in state.messages) == "".join(str(number) for number in range(len(roles)))
    shown = [each.role for each in state.messages]
    assert all(left != right for left, right in pairwise(shown))


# ---- tool calls


def test_an_update_changes_what_it_names() -> None:
    """1.121: absent stays, lists are replaced, an empty list empties."""
    location = v1.ToolCallLocation(path="/f")
    content = v1.Content(content=text("x"))
    state = fed(call(kind="read", content=[content], locations=[location], raw_input={"a": 1}))
    state.feed(change(status="in_progress", title="other", content=[content, content]))
    state.feed(change(locations=[]))
    assert state.tool_call("t1") == TrackedToolCall(
        tool_call_id="t1",
        title="other",
        kind="read",
        status="in_progress",
        content=(content, content),
        raw_input={"a": 1},
    )


def test_an_update_may_come_first() -> None:
    """An agent that never announced a tool call is shown all the same."""
    state = fed(change("t9", status="completed"))
    assert state.tool_calls == (TrackedToolCall(tool_call_id="t9", title="t9", status="completed"),)


def test_a_second_tool_call_replaces_the_first() -> None:
    """The id is unique in the session, so it is the same one, told anew."""
    state = fed(call(kind="read"), call(kind="edit"))
    assert [each.kind for each in state.tool_calls] == ["edit"]
    assert len(state.timeline) == 1


def test_a_cancelled_turn_cancels_what_is_not_finished() -> None:
    """V1C2: at once, when the cancellation is sent; what is finished stays as it is."""
    state = fed(call("t0", status="completed"))
    state.turn_began()
    for name, status in (("t1", "pending"), ("t2", "in_progress"), ("t3", "completed"), ("t4", "failed")):
        state.feed(call(name, status=status))
    state.turn_cancelled()
    assert [each.status for each in state.tool_calls] == ["completed", "cancelled", "cancelled", "completed", "failed"]


def test_a_late_update_before_the_answer_is_taken() -> None:
    """B23: it may finish the tool call, and adds to it, but does not make it run again."""
    state = SessionState()
    state.turn_began()
    state.feed(call("t1")).feed(call("t2"))
    state.turn_cancelled()
    state.feed(change("t1", status="completed", title="done")).feed(change("t2", status="in_progress", title="still"))
    assert [(each.status, each.title) for each in state.tool_calls] == [("completed", "done"), ("cancelled", "still")]


def test_a_tool_call_that_begins_after_the_cancellation_is_cancelled_by_the_answer() -> None:
    """Nothing of a cancelled turn is left running."""
    state = SessionState()
    state.turn_began()
    state.turn_cancelled()
    state.feed(call(status="in_progress"))
    assert [each.status for each in state.tool_calls] == ["in_progress"]
    state.turn_ended(completed=True)
    assert [each.status for each in state.tool_calls] == ["cancelled"]


@pytest.mark.parametrize("finished", ["completed", "failed", "cancelled"])
@pytest.mark.parametrize("again", [call(status="in_progress"), change(status="in_progress"), change(status="pending")])
def test_nothing_is_opened_again_after_the_answer(finished: str, again: Any) -> None:
    """B23: what is finished at the answer stays finished, whatever comes late."""
    state = SessionState()
    state.turn_began()
    state.feed(call())
    if finished == "cancelled":
        state.turn_cancelled()
    else:
        state.feed(change(status=finished))
    state.turn_ended(completed=finished != "cancelled")
    state.feed(again)
    state.turn_began()
    state.feed(again)
    state.turn_ended()
    assert [each.status for each in state.tool_calls] == [finished]


def test_what_runs_on_after_a_turn_may_still_finish() -> None:
    """A turn that ended by itself may leave a tool call at work; it is told of later."""
    state = SessionState()
    state.turn_began()
    state.feed(call(status="in_progress"))
    state.turn_ended(completed=True)
    state.feed(change(status="completed"))
    assert [each.status for each in state.tool_calls] == ["completed"]


def test_a_late_result_after_the_answer_is_kept() -> None:
    """To be finished otherwise is not to be opened again."""
    state = SessionState()
    state.turn_began()
    state.feed(call())
    state.turn_cancelled()
    state.turn_ended(completed=False)
    state.feed(change(status="completed", raw_output=1))
    assert [(each.status, each.raw_output) for each in state.tool_calls] == [("completed", 1)]


# ---- the rest


def test_a_plan_is_replaced_whole() -> None:
    """1.151."""
    step = v1.PlanEntry(content="a", priority="high", status="pending")
    state = fed(v1.Plan(entries=[step, step]), v1.Plan(entries=[step]))
    assert state.plan == (step,)


def test_several_plans_are_kept_by_their_ids() -> None:
    """Unstable: each update replaces one, and one may be removed."""
    one, two = (v1.PlanItems(plan_id=name, entries=[]) for name in ("p1", "p2"))
    state = fed(v1.PlanUpdate(plan=one), v1.PlanUpdate(plan=two), v1.PlanRemoved(plan_id="p1"))
    assert dict(state.plans) == {"p2": two}


def test_title_and_date_have_three_states() -> None:
    """1.65: absent leaves as it is, null clears."""
    state = fed(v1.SessionInfoUpdate(title="t", updated_at="d"), v1.SessionInfoUpdate(updated_at=None))
    assert (state.title, state.updated_at) == ("t", None)
    state.feed(v1.SessionInfoUpdate(title=None))
    assert state.title is None


def test_modes_options_commands_and_usage() -> None:
    """The last word counts."""
    mode = v1.SessionMode(id="m", name="M")
    state = SessionState()
    state.described(v1.SessionModeState(current_mode_id="m", available_modes=[mode]), [])
    state.feed(v1.CurrentModeUpdate(current_mode_id="n"))
    assert (state.current_mode_id, state.available_modes) == ("n", (mode,))
    option = v1.SessionConfigBoolean(id="b", name="B", current_value=True)
    command = v1.AvailableCommand(name="c", description="")
    usage = v1.UsageUpdate(used=1, size=2)
    notice = v1.Notice(severity="info", title="n")
    for each in (
        v1.ConfigOptionUpdate(config_options=[option]),
        v1.AvailableCommandsUpdate(available_commands=[command]),
        usage,
        notice,
    ):
        state.feed(each)
    picture = state.snapshot()
    assert (picture.config_options, picture.commands, picture.usage) == ((option,), (command,), usage)
    assert picture.notices == (notice,)
    assert state.count == 5


def test_a_compaction_is_patched() -> None:
    """Absent leaves, null clears, chunks are added to the summary."""
    state = fed(
        v1.CompactionSummaryChunk(compaction_id="c", content=text("a")),
        v1.CompactionSummaryChunk(compaction_id="c", content=text("b")),
        v1.CompactionUpdate(compaction_id="c", status="failed", error="e"),
    )
    assert state.compactions["c"] == v1.CompactionUpdate(
        compaction_id="c", status="failed", summary=[text("a"), text("b")], error="e"
    )
    state.feed(v1.CompactionUpdate(compaction_id="c", status="completed", error=None, summary=None))
    assert state.compactions["c"].error is None
    assert state.compactions["c"].summary is None


def test_unknown_updates_are_kept_so_many() -> None:
    """Rule 10, and rule 6."""
    state = SessionState(max_other=2)
    unknown = [UnknownVariant(tag="x", raw={"n": number}) for number in range(3)]
    for each in unknown:
        state.feed(each)
    assert state.other == tuple(unknown[1:])


# ---- what a session feeds it


TOOL = {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "work", "status": "in_progress"}


def told(what: dict[str, Any], session: str = "s1") -> dict[str, Any]:
    """U(s, …)."""
    return {"method": "session/update", "params": {"sessionId": session, "update": what}}


def test_a_session_tracks_itself() -> None:
    """Updates outside of turns that were not taken, and all from then on; asking again gives the same."""
    half = ClientHalf(AcpClient.builder().build())
    half.update("early")
    state = half.session.track()
    assert half.session.track() is state
    half.session.prompt("hi")
    half.update("a")
    half.update("b")
    assert words(state) == [("agent", "early"), ("agent", "ab")]


def test_a_cancelled_turn_is_seen_from_its_wire() -> None:
    """B23: cancelled at C, the late T taken, nothing opened again after R."""
    half = ClientHalf(AcpClient.builder().track_sessions().build())
    state = half.session.state
    assert state is not None
    turn = half.session.prompt("hi")
    half.send(told(TOOL), told({**TOOL, "toolCallId": "t2"}))
    turn.cancel()
    assert [each.status for each in state.tool_calls] == ["cancelled", "cancelled"]
    half.send(told({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed"}))
    half.send({"id": half.last_id(), "result": {"stopReason": "cancelled"}})
    half.send(told({"sessionUpdate": "tool_call_update", "toolCallId": "t2", "status": "in_progress"}))
    assert [each.status for each in state.tool_calls] == ["completed", "cancelled"]


@pytest.mark.parametrize("how", ["refused", "lost", "stop reason"])
def test_a_turn_that_fails_leaves_nothing_running(how: str) -> None:
    """B25's cousin: the picture is cleared on every way out."""
    half = ClientHalf(AcpClient.builder().track_sessions().build())
    state = half.session.state
    assert state is not None
    turn = half.session.prompt("hi")
    turn.response.addErrback(lambda _: None)
    half.send(told(TOOL))
    if how == "lost":
        half.lose()
    elif how == "refused":
        half.send({"id": half.last_id(), "error": {"code": -32603, "message": "no"}})
    else:
        half.send({"id": half.last_id(), "result": {"stopReason": "cancelled"}})
    assert [each.status for each in state.tool_calls] == ["cancelled"]


def test_a_replay_begins_the_picture_anew() -> None:
    """What session/load repeats is not there twice; a load that is refused changes nothing."""
    half = ClientHalf(AcpClient.builder().track_sessions().build())
    state = half.session.state
    assert state is not None
    half.update("a")
    half.connection.load_session("s1", "/w").addErrback(lambda _: None)
    half.send({"id": half.last_id(), "error": {"code": -32603, "message": "no"}})
    assert words(state) == [("agent", "a")]
    half.connection.load_session("s1", "/w")
    half.send(update("a"), update("b"), {"id": half.last_id(), "result": None})
    assert words(state) == [("agent", "ab")]


def test_a_loaded_session_has_its_replay() -> None:
    """Of a session that was not known before, too."""
    half = ClientHalf(AcpClient.builder().track_sessions().build())
    loading = half.connection.load_session("s2", "/w")
    modes = {"currentModeId": "m", "availableModes": []}
    half.send(update("a", "s2"), {"id": half.last_id(), "result": {"modes": modes}})
    session: Any = loading.result
    state = session.state
    assert words(state) == [("agent", "a")]
    assert state.current_mode_id == "m"


def test_early_updates_are_in_the_picture() -> None:
    """B29: those that came before session/new was answered."""
    half = ClientHalf(AcpClient.builder().track_sessions().build())
    opening = half.connection.new_session("/w")
    half.send(update("a", "s2"), {"id": half.last_id(), "result": {"sessionId": "s2"}})
    session: Any = opening.result
    assert words(session.state) == [("agent", "a")]


def test_what_we_set_ourselves_is_in_the_picture() -> None:
    """1.95: an answer has all settings; a mode is the one that we asked for once it is taken."""
    half = ClientHalf(AcpClient.builder().capability_gates(False).track_sessions().build())
    state = half.session.state
    assert state is not None
    half.session.set_mode("m")
    half.send({"id": half.last_id(), "result": {}})
    assert state.current_mode_id == "m"
    half.session.set_mode("n")
    half.send({"id": half.last_id(), "error": {"code": -32602, "message": "no"}})
    assert state.current_mode_id == "m"
    half.session.set_config_option("b", "x")
    option = {
        "id": "b",
        "name": "B",
        "type": "select",
        "currentValue": "x",
        "options": [{"value": "x", "name": "X"}],
    }
    half.send({"id": half.last_id(), "result": {"configOptions": [option]}})
    assert [each.id for each in state.config_options if isinstance(each, v1.SessionConfigSelect)] == ["b"]


def test_a_cancel_of_nothing_marks_nothing() -> None:
    """A session/cancel outside of turns does not touch what runs on."""
    half = ClientHalf(AcpClient.builder().track_sessions().build())
    half.send(told(TOOL))
    half.connection.cancel("s1")
    assert half.methods() == [cancel()["method"]]
    assert half.session.state is not None
    assert [each.status for each in half.session.state.tool_calls] == ["in_progress"]


def test_a_follower_that_fails_holds_up_nobody(logged_errors: Any) -> None:
    """Rule 7: it is logged, and the next one is told."""

    class Broken(SessionFollower):
        def updated(self, update: v1.SessionUpdate) -> None:
            raise ZeroDivisionError

    half = ClientHalf(AcpClient.builder().build())
    broken = Broken()
    half.session.follow(broken)
    state = half.session.track()
    half.update("a")
    half.session.unfollow(broken)
    half.session.unfollow(broken)
    half.update("b")
    assert words(state) == [("agent", "ab")]
    assert len(logged_errors) == 1
    logged_errors.clear()


@pytest.mark.parametrize("how", ["close", "delete", "lost", "refused"])
def test_a_follower_learns_of_the_end(how: str) -> None:
    """Once; one that comes too late, at once."""
    ends: list[str] = []

    class Following(SessionFollower):
        def ended(self) -> None:
            ends.append(how)

    half = ClientHalf(AcpClient.builder().build())
    session: Any = half.session
    if how == "refused":
        half.connection.load_session("s2", "/w").addErrback(lambda _: None)
        session = half.connection.session("s2")
    session.follow(Following())
    if how == "close":
        session.close()
        half.send({"id": half.last_id(), "result": {}})
    elif how == "delete":
        half.connection.delete_session("s1")
        half.send({"id": half.last_id(), "result": {}})
    elif how == "refused":
        half.send({"id": half.last_id(), "error": {"code": -32002, "message": "no"}})
    else:
        half.lose()
    assert ends == [how]
    session.follow(Following())
    assert ends == [how, how]
