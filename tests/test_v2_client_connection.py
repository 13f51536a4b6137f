"""A client's connection of version 2: permissions, cancellation, sessions, and what an agent may send it."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import LoggedErrors
from halves_v2 import (
    AGENT_CAPABILITIES,
    CANCEL,
    CANCELLED,
    RUNNING,
    ClientHalf,
    UnagreedHalf,
    Watched,
    idle,
    permission,
    said,
    state,
    update,
    user,
)
from twisted.internet.defer import CancelledError, Deferred

from acp_twisted import AcpClient
from acp_twisted.client.permissions import AllowList, Ask, first_allow
from acp_twisted.client.v2.client import VersionedClient
from acp_twisted.client.v2.followers import SessionFollower
from acp_twisted.errors import AcpCapabilityError, AuthRequired, InvalidResponse, NotInitialized, ResourceNotFound
from acp_twisted.jsonrpc.messages import EncodeError
from acp_twisted.schema import v1, v2

TERMINAL = {"type": "terminal", "terminalId": "x"}
FOR_TERMINAL = {"type": "command", "command": "make", "cwd": "/", "terminalId": "x"}
FOR_CALL = {"type": "tool_call", "toolCall": {"toolCallId": "t"}}


class Asked:
    """A permission handler that waits until the test answers."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[Any]] = []
        self.cancelled = 0

    def __call__(self, request: v2.RequestPermissionRequest) -> Deferred[Any]:
        waiting: Deferred[Any] = Deferred(self._stopped)
        self.waiting.append(waiting)
        return waiting

    def _stopped(self, _: object) -> None:
        self.cancelled += 1

    def allow(self, position: int = 0) -> None:
        """Allow it."""
        outcome = v2.SelectedPermissionOutcome(option_id="y")
        self.waiting[position].callback(v2.RequestPermissionResponse(outcome=outcome))


def client(handler: Any = None, **more: Any) -> VersionedClient:
    """A client of version 2 that answers permissions."""
    builder = AcpClient.builder().protocol_versions(2)
    if handler is not None:
        builder.request_permission_handler(handler)
    for name, value in more.items():
        getattr(builder, name)(value)
    return builder.build()


def busy(handler: Any = None, **more: Any) -> ClientHalf:
    """One whose session works on an accepted prompt."""
    talk = ClientHalf(client(handler, **more))
    talk.session.prompt("hi")
    talk.accept(talk.last_id())
    talk.send(RUNNING)
    talk.take()
    return talk


def answer(number: Any, result: Any) -> dict[str, Any]:
    """An answer of the client's."""
    return {"id": number, "result": result}


ALLOWED = {"outcome": {"outcome": "selected", "optionId": "y"}}


# ---- permissions


def test_a_permission_is_answered() -> None:
    """2.4: with the handler's answer."""
    asked = Asked()
    talk = busy(asked)
    talk.send(permission(7))
    assert talk.take() == []
    asked.allow()
    assert talk.take() == [answer(7, ALLOWED)]


@pytest.mark.parametrize("handler", [first_allow, Ask(lambda request: "y")])
def test_a_handler_of_version_1_serves_version_2(handler: Any) -> None:
    """One handler set for both versions, where the answers look alike."""
    talk = busy(handler)
    talk.send(permission(7))
    assert talk.take() == [answer(7, ALLOWED)]


def test_an_allow_list_serves_version_2() -> None:
    """The tool call is the subject's, what it leaves out is what the picture knows, and there may be none."""
    talk = busy(AllowList(kinds=["read"]), track_sessions=True)
    talk.send(update("tool_call_update", toolCallId="t", kind="read"))
    talk.send(permission(7, subject=FOR_CALL), permission(8, subject=FOR_TERMINAL), permission(9))
    assert talk.take() == [answer(7, ALLOWED), answer(8, CANCELLED), answer(9, CANCELLED)]


def test_session_cancel_answers_what_is_open() -> None:
    """V2D3, V2S3, V2N4: cancelled at once and without waiting, behind the notification, in the order of arrival."""
    asked = Asked()
    talk = busy(asked)
    talk.send(permission(7), permission(8))
    talk.session.cancel()
    assert talk.take() == [CANCEL, answer(7, CANCELLED), answer(8, CANCELLED)]
    assert asked.cancelled == 2
    assert talk.connection._permissions == {}


def test_only_that_sessions_permissions_are_answered() -> None:
    """V2D3: in that session."""
    asked = Asked()
    talk = busy(asked)
    talk.send(permission(7, "other"), permission(8))
    talk.session.cancel()
    assert talk.take() == [CANCEL, answer(8, CANCELLED)]
    asked.allow()
    assert talk.take() == [answer(7, ALLOWED)]


@pytest.mark.parametrize("subject", [FOR_TERMINAL, FOR_CALL])
def test_background_work_keeps_its_permissions(subject: Any) -> None:
    """V2N1: session/cancel does not concern what the agent lists as background work."""
    asked = Asked()
    talk = busy(asked)
    talk.send(state("running", background=[TERMINAL, {"type": "tool_call", "toolCallId": "t"}]))
    talk.send(permission(7, subject=subject), permission(8))
    talk.session.cancel()
    assert talk.take() == [CANCEL, answer(8, CANCELLED)]
    talk.send(permission(9, subject=subject))
    asked.allow(0)
    asked.allow(2)
    assert talk.take() == [answer(7, ALLOWED), answer(9, ALLOWED)]


def test_background_work_can_be_included() -> None:
    """V2D3, to the letter: a client may be built to answer every one."""
    asked = Asked()
    talk = busy(asked, spare_background_permissions=False)
    talk.send(state("running", background=[TERMINAL]), permission(7, subject=FOR_TERMINAL))
    talk.session.cancel()
    talk.send(permission(8, subject=FOR_TERMINAL))
    assert talk.take() == [CANCEL, answer(7, CANCELLED), answer(8, CANCELLED)]


def test_what_is_asked_after_the_cancellation() -> None:
    """V2D3, B17: a request that crossed the cancellation on its way is answered cancelled, until the agent is idle."""
    asked = Asked()
    talk = busy(asked)
    talk.session.cancel()
    assert talk.session.stopping
    talk.send(permission(7))
    assert talk.take() == [CANCEL, answer(7, CANCELLED)]
    talk.send(idle("cancelled"))
    assert not talk.session.stopping
    talk.send(permission(8))
    assert talk.take() == []
    assert len(asked.waiting) == 1


def test_a_prompt_after_the_cancellation_is_not_concerned() -> None:
    """V2N9, V2S9: what is asked for a prompt that was sent afterwards and inserted is asked."""
    asked = Asked()
    talk = busy(asked)
    talk.session.cancel()
    prompt = talk.session.prompt("again")
    assert not prompt.cancel_sent
    talk.accept(talk.last_id(), "m2")
    assert not talk.session.stopping
    talk.take()
    talk.send(permission(7))
    assert talk.take() == []
    assert len(asked.waiting) == 1


def test_late_answers_are_dropped() -> None:
    """V2D4, V2N6: who answers after the cancellation answers nobody."""
    asked = Asked()
    talk = busy(lambda request: asked(request).addErrback(lambda failure: None).addBoth(lambda _: first_allow(request)))
    talk.send(permission(7))
    talk.session.cancel()
    assert talk.take() == [CANCEL, answer(7, CANCELLED)]


def test_the_agent_cancels_one_permission() -> None:
    """V2N3, V2D9, X12: the outcome is cancelled, not -32800; V2D2: nothing else changes."""
    asked = Asked()
    talk = busy(asked)
    talk.send(permission(7), permission(8))
    talk.send({"method": "$/cancel_request", "params": {"requestId": 7}})
    assert talk.take() == [answer(7, CANCELLED)]
    assert asked.cancelled == 1
    assert talk.session.foreground.busy
    assert not talk.session.stopping
    asked.allow(1)
    assert talk.take() == [answer(8, ALLOWED)]


def test_an_agent_cancels_an_elicitation() -> None:
    """V2D10, V2N12: one elicitation is cancelled by its request, with -32800; session/cancel answers none."""
    waiting: list[Deferred[Any]] = []

    def ask(request: v2.CreateElicitationRequest) -> Deferred[Any]:
        waiting.append(Deferred())
        return waiting[-1]

    talk = busy(create_elicitation_handler=ask)
    params = {
        "sessionId": "s1",
        "mode": "form",
        "message": "Who?",
        "requestedSchema": {"type": "object", "properties": {}},
    }
    talk.send(*({"id": number, "method": "elicitation/create", "params": params} for number in (7, 8)))
    talk.session.cancel()
    assert talk.take() == [CANCEL]
    for each in waiting:
        each.addErrback(lambda failure: failure.trap(CancelledError) and failure)
    talk.send({"method": "$/cancel_request", "params": {"requestId": 7}})
    assert [(each["id"], each["error"]["code"]) for each in talk.take()] == [(7, -32800)]
    waiting[1].callback(v2.CreateElicitationResponse(action="decline"))
    assert talk.take() == [answer(8, {"action": "decline"})]


def test_an_id_is_one_of_its_direction() -> None:
    """X11, X13: the agent's cancellation of its request 1 does not touch the client's request 1."""
    asked = Asked()
    talk = ClientHalf(client(asked))
    prompt = talk.session.prompt("hi")
    number = talk.last_id()
    talk.take()
    talk.send(permission(number))
    talk.send({"method": "$/cancel_request", "params": {"requestId": number}})
    assert talk.take() == [answer(number, CANCELLED)]
    assert not prompt.accepted.called
    ids = []
    for _ in range(3):
        talk.session.prompt("hi")
        ids.append(talk.last_id())
    assert len({number, *ids}) == 4


def test_a_cancellation_of_what_is_answered_does_nothing() -> None:
    """X12: a finished request has its normal result, and no second answer."""
    talk = busy(first_allow)
    talk.send(permission(7))
    talk.send({"method": "$/cancel_request", "params": {"requestId": 7}})
    talk.send({"method": "$/cancel_request", "params": {"requestId": "7"}})
    assert talk.take() == [answer(7, ALLOWED)]


# ---- session/cancel


def test_the_two_cancellations_do_not_imply_each_other() -> None:
    """X14, V2D1: session/cancel sends no $/cancel_request for what the client asked."""
    talk = busy()
    waiting = talk.session.prompt("later")
    listing = talk.connection.list_sessions()
    talk.take()
    talk.session.cancel()
    assert talk.take() == [CANCEL]
    assert not waiting.accepted.called
    assert not listing.called


def test_a_cancellation_may_be_sent_at_any_time() -> None:
    """V2S1, V2D6: where nothing is at work it waits for nothing."""
    talk = ClientHalf(client())
    talk.session.cancel()
    assert talk.take() == [CANCEL]
    assert not talk.session.stopping
    talk.session.prompt("hi")
    talk.take()
    talk.session.cancel()
    assert talk.session.stopping
    assert talk.take() == [CANCEL]


def test_held_prompts_end_with_the_cancellation() -> None:
    """V2N9: -32800 for what is not inserted; then nothing is left to wait for."""
    talk = ClientHalf(client())
    first, second = talk.session.prompt("a"), talk.session.prompt("b")
    done = [Watched(first.idle), Watched(second.idle)]
    ids = [each["id"] for each in talk.take()]
    talk.session.cancel()
    for each in ids:
        assert talk.session.stopping
        talk.send({"id": each, "error": {"code": -32800, "message": "Request cancelled"}})
    assert not talk.session.stopping
    assert [each.value.stop_reason for each in done] == ["cancelled"] * 2


def test_the_report_of_the_cancellation_ends_the_prompt() -> None:
    """V2D5, V2S5: also where the agent never called itself running."""
    talk = ClientHalf(client())
    prompt = talk.session.prompt("hi")
    done = Watched(prompt.idle)
    talk.accept(talk.last_id())
    talk.session.cancel()
    talk.send(said("last words"), idle("cancelled"))
    assert done.value.stop_reason == "cancelled"
    assert not talk.session.stopping


def test_updates_after_the_cancellation_are_taken() -> None:
    """V2S2, V2S8, V2N8: tool calls are shown as cancelled at once, and what the agent still says of them counts."""
    talk = ClientHalf(client(track_sessions=True))
    picture = talk.session.state
    assert picture is not None
    talk.send(RUNNING, update("tool_call_update", toolCallId="t", status="in_progress"))
    talk.session.cancel()
    assert picture.tool_calls[0].status == "cancelled"
    talk.send(update("tool_call_update", toolCallId="t", status="failed"), idle("cancelled"))
    assert picture.tool_calls[0].status == "failed"


def test_one_tool_call_or_terminal_is_cancelled() -> None:
    """V2N11, 2.91: only while it is advertised; the answer means accepted, and the state of the work stays."""
    talk = busy()
    session = talk.session
    with pytest.raises(AcpCapabilityError):
        session.cancel_tool_call("t")
    with pytest.raises(AcpCapabilityError):
        session.cancel_terminal("x")
    talk.send(
        update("tool_call_update", toolCallId="t", capabilities={"cancel": {}}),
        update("terminal_update", terminalId="x", capabilities={"cancel": {}}),
        update("tool_call_update", toolCallId="t", status="in_progress"),
    )
    accepted = Watched(session.cancel_tool_call("t")), Watched(session.cancel_terminal("x"))
    sent = talk.take()
    assert [(each["method"], each["params"]) for each in sent] == [
        ("tool_call/cancel", {"sessionId": "s1", "toolCallId": "t"}),
        ("terminal/cancel", {"sessionId": "s1", "terminalId": "x"}),
    ]
    for each in sent:
        talk.send({"id": each["id"], "result": {}})
    assert [each.value for each in accepted] == [v2.CancelToolCallResponse(), v2.CancelTerminalResponse()]
    assert session.foreground.busy
    talk.send(
        update("tool_call_update", toolCallId="t", status="cancelled"),
        update("terminal_update", terminalId="x", exitStatus={"signal": "TERM"}),
    )
    assert not session.can_cancel_tool_call("t")
    assert not session.can_cancel_terminal("x")


def test_a_capability_that_is_taken_back() -> None:
    """V2N11: null and an object without cancel both end it."""
    talk = busy()
    gone: Any
    for gone in (None, {}):
        talk.send(update("tool_call_update", toolCallId="t", capabilities={"cancel": {}}))
        assert talk.session.can_cancel_tool_call("t")
        talk.send(update("tool_call_update", toolCallId="t", capabilities=gone))
        assert not talk.session.can_cancel_tool_call("t")


# ---- the life of a session


def test_closing_stops_everything() -> None:
    """V2N10: all permissions are answered, those of background work too; the work ends before the answer."""
    asked = Asked()
    talk = busy(asked)
    [prompt] = talk.session.prompts
    done = Watched(prompt.idle)
    talk.send(state("running", background=[TERMINAL]), permission(7, subject=FOR_TERMINAL))
    closing = Watched(talk.session.close())
    [sent, *answers] = talk.take()
    assert sent["method"] == "session/close"
    assert answers == [answer(7, CANCELLED)]
    talk.send(idle("cancelled"))
    assert done.value.stop_reason == "cancelled"
    talk.send({"id": sent["id"], "result": {}})
    assert closing.value == v2.CloseSessionResponse()
    assert talk.connection.session("s1") is None


def test_closing_where_that_can_not_be_asked() -> None:
    """An agent without sessions is not asked, and what it asked stays open."""
    asked = Asked()
    talk = busy(asked)
    talk.send(permission(7))
    able, talk.connection.agent_capabilities = talk.connection.agent_capabilities, v2.AgentCapabilities()
    with pytest.raises(AcpCapabilityError):
        talk.session.close()
    assert not talk.session.stopping
    talk.connection.agent_capabilities = able
    assert talk.take() == []
    asked.allow()
    assert talk.take() == [answer(7, ALLOWED)]


def test_closing_what_the_agent_does_not_know() -> None:
    """V2N10: -32002 is a successful close; another error is none, and the session stays."""
    talk = ClientHalf(client())
    failing = Watched(talk.session.close())
    talk.refuse(-32000)
    assert isinstance(failing.value, AuthRequired)
    assert talk.connection.session("s1") is talk.session
    closing = Watched(talk.session.close())
    talk.refuse(-32002, {"sessionId": "s1"})
    assert closing.value == v2.CloseSessionResponse()
    assert talk.connection.session("s1") is None


def test_prompts_that_outlive_their_session() -> None:
    """V2N10: their answers may come after that to session/close, and say what they say."""
    talk = busy()
    [inserted] = talk.session.prompts
    held, late = talk.session.prompt("held"), talk.session.prompt("late")
    done = [Watched(each.idle) for each in (inserted, held, late)]
    ids = [each["id"] for each in talk.take()]
    talk.session.close()
    talk.send({"id": talk.last_id(), "result": {}})  # without a last report
    assert [each.over for each in done] == [True, False, False]
    talk.send({"id": ids[0], "error": {"code": -32800, "message": "m"}})
    talk.accept(ids[1], "m3")
    assert [each.value.stop_reason for each in done] == ["cancelled"] * 3


def test_resuming_without_and_with_a_replay() -> None:
    """2.20, 2.24: the state is the agent's report and not the answer; with a replay the picture begins anew."""
    talk = ClientHalf(client(track_sessions=True))
    opened = Watched(talk.connection.resume_session("old", "/w", replay=True))
    [sent] = talk.take()
    assert sent["params"]["replayFrom"] == {"type": "start"}
    talk.send(update("user_message", "old", messageId="m", content=[]))
    talk.send(
        {"method": "session/update", "params": {"sessionId": "old", "update": said("a")["params"]["update"]}},
        {"method": "session/update", "params": {"sessionId": "old", "update": RUNNING["params"]["update"]}},
        {"id": sent["id"], "result": {"configOptions": []}},
    )
    session = opened.value
    assert session.session_id == "old"
    assert session.foreground.busy
    assert [each.text for each in session.state.messages] == ["", "a"]
    again = Watched(talk.connection.resume_session("old", "/w"))
    [sent] = talk.take()
    assert "replayFrom" not in sent["params"]
    talk.send({"id": sent["id"], "result": {}})
    assert again.value is session
    assert [each.text for each in session.state.messages] == ["", "a"]


def test_resuming_what_is_unknown() -> None:
    """2.96: -32002, and no session is left behind."""
    talk = ClientHalf(client())
    opened = Watched(talk.connection.resume_session("old", "/w", replay=True))
    talk.refuse(-32002, {"sessionId": "old"})
    assert isinstance(opened.value, ResourceNotFound)
    assert talk.connection.session("old") is None


def test_updates_that_precede_the_answer_to_session_new() -> None:
    """B29, 2.24: they are kept, the state among them, and the answer does not overwrite it."""
    talk = ClientHalf(client())
    opening = talk.connection.new_session("/w")
    number = talk.last_id()
    for each in (RUNNING, said("early")):
        talk.send({"method": "session/update", "params": {**each["params"], "sessionId": "s2"}})
    talk.send({"id": number, "result": {"sessionId": "s2"}})
    session = Watched(opening).value
    assert session.foreground.state == "running"
    assert [type(each).__name__ for each in session.take_updates()] == ["RunningStateUpdate", "AgentMessageChunk"]


def test_the_rest_of_what_a_client_asks() -> None:
    """Each method's name and params, and its answer as an object of version 2."""
    talk = ClientHalf(client(), authMethods=[{"type": "agent", "methodId": "a", "name": "A"}])
    asked: dict[str, tuple[Any, Any, Any]] = {
        "auth/login": (talk.connection.login("a"), {"methodId": "a"}, {}),
        "auth/logout": (talk.connection.logout(), {}, {}),
        "session/list": (talk.connection.list_sessions("/w"), {"cwd": "/w"}, {"sessions": []}),
        "session/set_config_option": (
            talk.session.set_config_option("c", "v"),
            {"sessionId": "s1", "configId": "c", "type": "id", "value": "v"},
            {"configOptions": []},
        ),
        "session/delete": (talk.connection.delete_session("s1"), {"sessionId": "s1"}, {}),
    }
    for sent in talk.take():
        call, params, result = asked[sent["method"]]
        assert sent["params"] == params
        talk.send({"id": sent["id"], "result": result})
        assert type(Watched(call).value).__module__.endswith("v2")
    assert talk.connection.session("s1") is None


def test_a_boolean_setting() -> None:
    """The kind of a value is told, unlike in version 1."""
    talk = ClientHalf(client())
    talk.session.set_config_option("c", True)
    [sent] = talk.take()
    assert sent["params"] == {"sessionId": "s1", "configId": "c", "type": "boolean", "value": True}


def test_what_was_not_advertised_is_not_sent() -> None:
    """1.17, 2.02, 2.13: no login without ways to log in, no delete without its capability, no terminal method."""
    talk = ClientHalf(client(), capabilities={"session": {}})
    with pytest.raises(AcpCapabilityError):
        talk.connection.login("a")
    with pytest.raises(AcpCapabilityError):
        talk.connection.logout()
    with pytest.raises(AcpCapabilityError):
        talk.connection.delete_session("s1")
    other = ClientHalf(client(), authMethods=[{"type": "terminal", "methodId": "t", "name": "T"}])
    with pytest.raises(ValueError, match="terminal"):
        other.connection.login("t")
    assert talk.take() == other.take() == []


def test_an_answer_that_does_not_fit() -> None:
    """Rule 7: the call fails, and the connection goes on."""
    talk = ClientHalf(client())
    listing = Watched(talk.connection.list_sessions())
    talk.answer({"sessions": 7, "nextCursor": {}})
    assert isinstance(listing.value, InvalidResponse)
    assert talk.connection.is_open


# ---- what an agent may send


def test_before_initialize_nothing_is_asked_of_a_client() -> None:
    """2.07: -32600 for requests, silence for notifications; and the client itself can't ask."""
    talk = UnagreedHalf(client(first_allow))
    talk.initialize()
    talk.take()
    talk.send(permission(7), said("x"))
    [refused] = talk.take()
    assert (refused["id"], refused["error"]["code"]) == (7, -32600)
    second = talk.negotiation._second
    assert second is not None
    with pytest.raises(NotInitialized):
        second.new_session("/w")
    with pytest.raises(NotInitialized):
        second.cancel("s1")


def test_methods_of_version_1_are_unknown() -> None:
    """2.1: a handler for files is for version 1 only."""
    talk = busy(read_text_file_handler=lambda request: v1.ReadTextFileResponse(content="x"))
    talk.send({"id": 7, "method": "fs/read_text_file", "params": {"sessionId": "s1", "path": "/a"}})
    [refused] = talk.take()
    assert refused["error"]["code"] == -32601


def test_malformed_and_unknown_messages_harm_nothing() -> None:
    """Rule 7: bad params are -32602, an update that does not fit is dropped, an unknown one is kept."""
    told: list[Any] = []
    talk = busy(first_allow, session_update_handler=lambda note: told.append(note.update))
    talk.send({"id": 7, "method": "session/request_permission", "params": {"sessionId": "s1"}})
    talk.send({"method": "session/update", "params": {"sessionId": "s1", "update": {"sessionUpdate": "agent_message"}}})
    talk.send(update("_new_thing", x=1))
    talk.send({"id": None, "method": "session/request_permission", "params": permission()["params"]})
    bad, null = talk.take()
    assert (bad["id"], bad["error"]["code"]) == (7, -32602)
    assert (null["id"], null["error"]["code"]) == (None, -32600)
    assert [type(each).__name__ for each in told[1:]] == ["UnknownVariant"]


def test_a_batch_is_no_message() -> None:
    """2.70: an array is not looked into."""
    talk = busy(first_allow)
    talk.link.b.send(b'[{"jsonrpc":"2.0","id":7,"method":"session/request_permission"}]')
    talk.link.deliver_all()
    assert [each for each in talk.take() if each.get("id") == 7] == []
    assert talk.connection.is_open


def test_followers_are_told() -> None:
    """What happens to a session, in order."""
    told: list[str] = []

    class Follower(SessionFollower):
        def updated(self, update: v2.SessionUpdate) -> None:
            told.append(type(update).__name__)

        def cancelling(self) -> None:
            told.append("cancelling")

        def ended(self) -> None:
            told.append("ended")

    talk = ClientHalf(client())
    follower = Follower()
    talk.session.follow(follower)
    talk.send(user())
    talk.session.cancel()
    talk.lose()
    assert told == ["UserMessage", "cancelling", "ended"]
    talk.session.follow(follower)
    assert told[3:] == ["ended"]


def test_tracking_begins_with_what_is_known() -> None:
    """Settings and commands of the answer, updates that nobody took, and the state."""
    talk = ClientHalf(client())
    talk.send(said("a"), RUNNING)
    picture = talk.session.track()
    assert picture.foreground == "running"
    assert [each.text for each in picture.messages] == ["a"]
    assert talk.session.track() is picture


def test_capabilities_of_the_agent() -> None:
    """What initialize brought."""
    talk = ClientHalf(client())
    assert talk.connection.protocol_version == 2
    assert talk.connection.agent_info == v2.Implementation(name="raw", version="1")
    assert talk.connection.supports("session.delete")
    assert not talk.connection.supports("session.fork")
    assert set(AGENT_CAPABILITIES) == {"session"}


# ---- what both sides advertised


def test_what_needs_a_capability_is_not_sent() -> None:
    """1.17, 2.21: content, servers and folders that the agent does not take raise, and nothing is sent."""
    talk = ClientHalf(client(), capabilities={"session": {"mcp": {"stdio": {}}}})
    image = v2.ImageContent(data="", mime_type="image/png")
    with pytest.raises(AcpCapabilityError, match=r"session\.prompt\.image"):
        talk.session.prompt([image])
    with pytest.raises(AcpCapabilityError, match=r"session\.mcp\.http"):
        talk.connection.new_session("/w", [v2.McpServerHttp(name="m", url="http://x")])
    with pytest.raises(AcpCapabilityError, match=r"session\.additionalDirectories"):
        talk.connection.resume_session("s1", "/w", additional_directories=["/x"])
    assert talk.session.prompts == ()
    assert talk.take() == []
    talk.connection.new_session("/w", [v2.McpServerStdio(name="m", command="/c")])
    talk.session.prompt([v2.ResourceLink(name="r", uri="file:///r")])
    assert [each["method"] for each in talk.take()] == ["session/new", "session/prompt"]


def test_paths_are_absolute() -> None:
    """1.01: a relative one of ours is a mistake."""
    talk = ClientHalf(client())
    with pytest.raises(ValueError, match="absolute"):
        talk.connection.new_session("w")
    with pytest.raises(ValueError, match="absolute"):
        talk.connection.new_session("/w", [v2.McpServerStdio(name="m", command="npx")])
    assert talk.take() == []


@pytest.mark.parametrize("mode", ["url", "_new"])
def test_an_elicitation_in_a_mode_that_was_not_advertised(mode: str) -> None:
    """1.174: -32602, and the handler does not see it."""
    asked: list[Any] = []
    talk = busy(create_elicitation_handler=asked.append)
    params = {"sessionId": "s1", "mode": mode, "message": "m", "elicitationId": "e", "url": "https://x"}
    talk.send({"id": 7, "method": "elicitation/create", "params": params})
    [refused] = talk.take()
    assert refused["error"]["code"] == -32602
    assert asked == []


FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.parametrize(("content", "fits"), [({"name": "Ada"}, True), ({"name": 7}, False), (None, False)])
def test_what_was_filled_in_fits_the_form(content: Any, fits: bool, logged_errors: LoggedErrors) -> None:
    """1.178: what the form does not allow is not sent, and the agent learns no more than where."""
    accepted = v2.CreateElicitationResponse(action="accept", content=content)
    talk = busy(create_elicitation_handler=lambda request: accepted)
    params = {"sessionId": "s1", "mode": "form", "message": "Who?", "requestedSchema": FORM}
    talk.send({"id": 1, "method": "elicitation/create", "params": params})
    [sent] = talk.take()
    assert ("result" in sent) == fits
    if not fits:
        assert sent["error"]["code"] == -32603
        assert "7" not in str(sent["error"]["data"])
    logged_errors.clear()


def test_a_page_in_the_browser_is_over_once() -> None:
    """1.184: complete is told of what the user went to, once; unknown ids and those that he declined are ignored."""
    told: list[str] = []
    answers = {"a": "accept", "b": "decline"}
    capabilities = v2.ClientCapabilities(elicitation=v2.ElicitationCapabilities(url=v2.ElicitationUrlCapabilities()))
    talk = busy(
        client_capabilities_v2=capabilities,
        create_elicitation_handler=lambda asked: v2.CreateElicitationResponse(action=answers[asked.elicitation_id]),
        complete_elicitation_handler=lambda note: told.append(note.elicitation_id),
    )
    for name in "ab":
        params = {"sessionId": "s1", "mode": "url", "message": "m", "elicitationId": name, "url": "https://x"}
        talk.send({"id": name, "method": "elicitation/create", "params": params})
    for name in ("a", "a", "b", "nobody"):
        talk.send({"method": "elicitation/complete", "params": {"elicitationId": name}})
    assert [each["result"]["action"] for each in talk.take()] == ["accept", "decline"]
    assert told == ["a"]


# ---- edges


@pytest.mark.parametrize("second", ["opened", "refused"])
def test_resuming_twice_at_once(second: str) -> None:
    """The session is there if either is answered so, and none if both are refused."""
    talk = ClientHalf(client())
    calls, numbers = [], []
    for _ in range(2):
        calls.append(Watched(talk.second.resume_session("s2", "/w")))
        numbers.append(talk.last_id())
    refusal = {"error": {"code": -32002, "message": "m"}}
    talk.send({"id": numbers[0], **refusal})
    assert isinstance(calls[0].value, ResourceNotFound)
    assert list(talk.second.sessions) == ["s1", "s2"]
    talk.send({"id": numbers[1], **({"result": {}} if second == "opened" else refusal)})
    if second == "refused":
        assert isinstance(calls[1].value, ResourceNotFound)
        assert list(talk.second.sessions) == ["s1"]
        return
    session = calls[1].value
    assert talk.second.sessions["s2"] is session
    done = Watched(session.when_idle())
    talk.send(update("state_update", "s2", state="running"), update("state_update", "s2", state="idle"))
    assert isinstance(done.value, v2.IdleStateUpdate)


def test_two_sessions_that_are_opened_at_once() -> None:
    """B30: what came early goes to its own session; what belongs to none is dropped when the last is open."""
    talk = ClientHalf(client())
    first, second = talk.connection.new_session("/w"), talk.connection.new_session("/w")
    ids = [each["id"] for each in talk.take()]
    for name in ("b", "nobody", "a"):
        talk.send({"method": "session/update", "params": {**said(name)["params"], "sessionId": name}})
    talk.send({"id": ids[0], "result": {"sessionId": "a"}})
    talk.send({"id": ids[1], "result": {"sessionId": "b"}})
    for opening in (first, second):
        session = Watched(opening).value
        [update] = session.take_updates()
        assert update.content.text == session.session_id
    assert len(talk.connection._early) == 0


def test_a_listener_that_fails_harms_nobody(logged_errors: LoggedErrors) -> None:
    """Rule 7: it is logged, and the next update comes; a follower that leaves is told no more."""
    told: list[Any] = []
    talk = ClientHalf(client(session_update_handler=told.append))
    follower = SessionFollower()
    follower.updated = told.append  # type: ignore[method-assign, assignment]
    talk.session.follow(follower)
    talk.session.unfollow(follower)
    talk.session.unfollow(follower)

    def fail(update: Any) -> None:
        raise RuntimeError("no")

    async def fail_later(update: Any) -> None:
        raise RuntimeError("no")

    talk.session.on_update(fail)
    talk.session.on_update(fail_later)
    talk.send(said("a"), said("b"))
    assert [type(each).__name__ for each in told] == ["UpdateSessionNotification"] * 2
    assert len(logged_errors) == 4
    logged_errors.clear()


def test_a_prompt_by_its_request() -> None:
    """For who takes the updates of all sessions from one handler."""
    talk = ClientHalf(client())
    prompt = talk.connection.prompt(v2.PromptRequest(session_id="s1", prompt=[v2.TextContent(text="hi")]))
    assert talk.session.prompts == (prompt,)
    talk.accept(talk.last_id())
    talk.send(RUNNING, idle("end_turn"))
    assert Watched(prompt.idle).value.stop_reason == "end_turn"


def test_a_prompt_that_no_json_can_carry() -> None:
    """B59: it fails like any other call, and the session is as before."""
    talk = ClientHalf(client())
    prompt = talk.session.prompt("hi", meta={"x": object()})
    assert prompt.over
    assert isinstance(Watched(prompt.accepted).value, EncodeError)
    assert isinstance(Watched(prompt.idle).value, EncodeError)
    assert talk.session.prompts == ()
    assert talk.take() == []


def test_a_permission_that_nobody_answers() -> None:
    """1.192: without a handler the method is unknown."""
    talk = busy()
    talk.send(permission(7))
    [refused] = talk.take()
    assert refused["error"]["code"] == -32601


@pytest.mark.parametrize("how", ["answer", "later", "fail", "async"])
def test_a_permission_handler_that_cancels_the_session(how: str) -> None:
    """V2D3: its own request is open too, so it is answered C{cancelled}, whatever the handler makes of it then."""
    left: list[object] = []

    def cancels(request: object, connection: Any) -> Any:
        connection.session("s1").cancel()
        if how == "fail":
            raise AuthRequired
        if how == "later":
            return Deferred(left.append)
        return v2.RequestPermissionResponse(outcome=v2.SelectedPermissionOutcome(option_id="y"))

    async def cancels_too(request: object, connection: Any) -> Any:
        return cancels(request, connection)

    talk = busy(cancels_too if how == "async" else cancels)
    talk.take()
    talk.send(permission())
    assert talk.take() == [CANCEL, {"id": 7, "result": CANCELLED}]
    assert len(left) == (how == "later")
    assert talk.connection._permissions == {}
