"""
The scripted agent, directive by directive, on raw JSON and a clock that stands still.  C{blocking} needs threads, and
is with the tests of the program.
"""

from __future__ import annotations

import json

import pytest
from conftest import LoggedErrors
from scripted_wire import CANCELLED, END_TURN, INTERNAL_ERROR, REQUEST_CANCELLED, Scripted, cancelled

from acp_twisted.testing._serving import parse
from acp_twisted.testing._sessions import MAX_MESSAGES
from acp_twisted.testing.scripted_agent import build_agent

# ---- stream


def test_stream_says_the_numbers_in_order_and_ends() -> None:
    """All at once without a delay, and the answer behind the last of them."""
    wire = Scripted()
    prompt = wire.prompt("stream 3")
    assert wire.said == ["1", "2", "3"]
    assert wire.answer(prompt) == END_TURN
    assert wire.sent[-1]["id"] == prompt


def test_stream_of_nothing_is_an_empty_turn() -> None:
    """stream 0 is what benchmarks count."""
    wire = Scripted()
    assert wire.answer(wire.prompt("stream 0")) == END_TURN
    assert wire.said == []


def test_stream_waits_between_its_updates() -> None:
    """DELAY lies between the updates: none before the first, none behind the last."""
    wire = Scripted()
    prompt = wire.prompt("stream 3 0.5")
    assert wire.said == ["1"]
    wire.clock.advance(0.4)
    assert wire.said == ["1"]
    wire.clock.advance(0.1)
    assert wire.said == ["1", "2"]
    wire.clock.advance(0.5)
    assert wire.said == ["1", "2", "3"]
    assert wire.answer(prompt) == END_TURN
    assert wire.idle()


def test_stream_stops_when_cancelled_and_tells_how_far_it_came() -> None:
    """Its end_turn becomes cancelled, and its _meta is kept (V1C5, C53)."""
    wire = Scripted()
    prompt = wire.prompt("stream 9 1")
    wire.clock.advance(1)
    wire.cancel()
    assert wire.answer(prompt) == cancelled(sent=2)
    assert wire.said == ["1", "2"]
    wire.clock.advance(100)
    assert wire.said == ["1", "2"]
    assert wire.idle()


def test_stream_ends_with_a_cancelled_request() -> None:
    """$/cancel_request is answered at once, and nothing is said behind the answer (V1C13)."""
    wire = Scripted()
    prompt = wire.prompt("stream 9 1")
    wire.cancel_request(prompt)
    assert wire.answer(prompt) == REQUEST_CANCELLED
    wire.clock.advance(100)
    assert wire.sent[-1]["id"] == prompt
    assert wire.idle()


# ---- turns that end in their own ways


def test_hang_takes_no_notice_of_a_cancellation() -> None:
    """Only the grace period answers for it, as often as it is cancelled."""
    wire = Scripted(grace=5)
    prompt = wire.prompt("hang")
    wire.cancel()
    wire.cancel()
    wire.clock.advance(4.9)
    assert wire.answer(prompt) is None
    wire.clock.advance(0.1)
    assert wire.answer(prompt) == CANCELLED
    assert wire.answer(wire.prompt("stream 0")) == END_TURN


def test_hang_without_grace_goes_on_for_ever() -> None:
    """A grace period of zero is none."""
    wire = Scripted(grace=0)
    prompt = wire.prompt("hang")
    wire.cancel()
    wire.clock.advance(10_000)
    assert wire.answer(prompt) is None


def test_hang_is_ended_by_the_longest_duration() -> None:
    """-32800, with the duration in ISO 8601."""
    wire = Scripted(max_duration=90)
    prompt = wire.prompt("hang")
    wire.clock.advance(90)
    answer = wire.answer(prompt)
    assert answer is not None
    assert answer["error"]["code"] == -32800
    assert answer["error"]["data"] == {"maxPromptDuration": "PT1M30S"}


def test_polite_stops_when_it_is_cancelled() -> None:
    """It waits for ever otherwise."""
    wire = Scripted()
    prompt = wire.prompt("polite")
    wire.clock.advance(1000)
    assert wire.answer(prompt) is None
    wire.cancel()
    assert wire.answer(prompt) == cancelled(stopped=True)
    assert wire.idle()


def test_polite_has_no_say_when_its_request_is_cancelled() -> None:
    """The answer is -32800, whatever it returns."""
    wire = Scripted()
    prompt = wire.prompt("polite")
    wire.cancel_request(prompt)
    assert wire.answer(prompt) == REQUEST_CANCELLED


def test_stubborn_outlives_its_cancellation_and_is_not_heard() -> None:
    """What it returns later is dropped, and disturbs no later turn (design rule 4)."""
    wire = Scripted()
    prompt = wire.prompt("stubborn 2")
    wire.cancel_request(prompt)
    assert wire.answer(prompt) == REQUEST_CANCELLED
    later = wire.prompt("polite")
    wire.clock.advance(1)
    assert wire.answer(later) is None
    wire.clock.advance(5)
    assert wire.answer(later) is None
    assert wire.idle()
    wire.cancel()
    assert wire.answer(later) == cancelled(stopped=True)


def test_stubborn_only_takes_notice_of_its_deferred() -> None:
    """session/cancel does not cancel a Deferred; the grace period does, and answers."""
    wire = Scripted(grace=10)
    prompt = wire.prompt("stubborn 1")
    wire.cancel()
    wire.clock.advance(9)
    assert wire.answer(prompt) is None
    wire.clock.advance(1)
    assert wire.answer(prompt) == CANCELLED
    wire.clock.advance(1)
    assert wire.idle()


def test_fail_answers_its_own_error() -> None:
    """Code, message and data reach the wire as they are."""
    wire = Scripted()
    expected = {"error": {"code": -32050, "message": "asked to fail", "data": {"asked": True}}}
    assert wire.answer(wire.prompt("fail -32050")) == expected


def test_fail_tells_nothing_of_an_exception(logged_errors: LoggedErrors) -> None:
    """-32603 and no more, whatever the exception says; it is logged here."""
    wire = Scripted()
    assert wire.answer(wire.prompt("fail")) == INTERNAL_ERROR
    assert "secret-42" not in json.dumps(wire.sent)
    assert any("secret-42" in text for text in logged_errors.texts())
    logged_errors.clear()


def test_fail_on_cancel_is_a_cancelled_turn(logged_errors: LoggedErrors) -> None:
    """No exception of a cancelled handler reaches the client (V1C6, JT7)."""
    wire = Scripted()
    prompt = wire.prompt("fail-on-cancel")
    wire.cancel()
    assert wire.answer(prompt) == CANCELLED
    assert "secret-43" not in json.dumps(wire.sent)
    logged_errors.clear()


def test_fail_on_cancel_is_no_answer_to_a_cancelled_request(logged_errors: LoggedErrors) -> None:
    """-32800, and the exception is dropped."""
    wire = Scripted()
    prompt = wire.prompt("fail-on-cancel")
    wire.cancel_request(prompt)
    assert wire.answer(prompt) == REQUEST_CANCELLED
    logged_errors.clear()


def test_nothing_is_an_internal_error(logged_errors: LoggedErrors) -> None:
    """No response at all is -32603, which says so."""
    wire = Scripted()
    answer = wire.answer(wire.prompt("nothing"))
    assert answer is not None
    assert answer["error"]["code"] == -32603
    logged_errors.clear()


# ---- what it asks of the client


def test_permission_asks_once_with_two_options() -> None:
    """allow (allow_once) and deny (reject_once), and the choice is said."""
    wire = Scripted()
    prompt = wire.prompt("permission")
    (asked,) = wire.asked("session/request_permission")
    assert asked["params"]["sessionId"] == wire.session
    options = [(each["optionId"], each["kind"]) for each in asked["params"]["options"]]
    assert options == [("allow", "allow_once"), ("deny", "reject_once")]
    wire.reply(asked, {"outcome": {"outcome": "selected", "optionId": "deny"}})
    assert wire.said == ['["deny"]']
    assert wire.answer(prompt) == END_TURN


def test_permissions_are_asked_at_once_and_told_in_the_order_asked() -> None:
    """Whatever the order of the answers; each has a tool call of its own."""
    wire = Scripted()
    prompt = wire.prompt("permission 3")
    asked = wire.asked("session/request_permission")
    assert len({each["params"]["toolCall"]["toolCallId"] for each in asked}) == 3
    wire.reply(asked[2], {"outcome": {"outcome": "selected", "optionId": "allow"}})
    wire.reply(asked[0], {"outcome": {"outcome": "cancelled"}})
    assert wire.answer(prompt) is None
    wire.reject(asked[1], -32601)
    assert json.loads(wire.said[0]) == ["cancelled", "error -32601", "allow"]
    assert wire.answer(prompt) == END_TURN


def test_permissions_are_given_up_with_their_turn() -> None:
    """Each open one is cancelled once, and no more (X9, C32)."""
    wire = Scripted()
    prompt = wire.prompt("permission 3")
    asked = wire.asked("session/request_permission")
    wire.reply(asked[1], {"outcome": {"outcome": "selected", "optionId": "allow"}})
    wire.cancel_request(prompt)
    assert wire.answer(prompt) == REQUEST_CANCELLED
    cancels = [each["params"]["requestId"] for each in wire.asked("$/cancel_request")]
    assert cancels == [asked[0]["id"], asked[2]["id"]]
    assert wire.said == []
    assert wire.idle()


def test_a_cancelled_turn_tells_the_outcomes_that_the_client_gave() -> None:
    """session/cancel leaves the permissions to the client, which answers them (V1C3, A22)."""
    wire = Scripted()
    prompt = wire.prompt("permission 2")
    wire.cancel()
    for asked in wire.asked("session/request_permission"):
        wire.reply(asked, {"outcome": {"outcome": "cancelled"}})
    assert wire.said == ['["cancelled","cancelled"]']
    assert wire.answer(prompt) == CANCELLED
    assert wire.asked("$/cancel_request") == []


def test_read_says_the_content() -> None:
    """The path is all of the text behind the directive."""
    wire = Scripted()
    prompt = wire.prompt("read /a b/c.txt")
    (asked,) = wire.asked("fs/read_text_file")
    assert asked["params"] == {"sessionId": wire.session, "path": "/a b/c.txt"}
    wire.reply(asked, {"content": "one\ntwo"})
    assert wire.said == ["one\ntwo"]
    assert wire.answer(prompt) == END_TURN


def test_write_sends_its_text_as_it_is() -> None:
    """White space and line ends behind the path are part of it."""
    wire = Scripted()
    prompt = wire.prompt("write /f  two  spaces\nline\n")
    (asked,) = wire.asked("fs/write_text_file")
    assert asked["params"] == {"sessionId": wire.session, "path": "/f", "content": " two  spaces\nline\n"}
    wire.reply(asked, None)
    assert wire.said == ["written"]
    assert wire.answer(prompt) == END_TURN


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("read /f", "fs/read_text_file"),
        ("write /f x", "fs/write_text_file"),
        ("run true", "terminal/create"),
        ("ask _x/y {}", "_x/y"),
    ],
)
def test_a_refusal_is_said(text: str, method: str) -> None:
    """error CODE, and the turn goes on."""
    wire = Scripted()
    prompt = wire.prompt(text)
    wire.reject(wire.asked(method)[0], -32002)
    assert wire.said == ["error -32002"]
    assert wire.answer(prompt) == END_TURN


def _terminal(wire: Scripted, method: str, result: object) -> dict[str, object]:
    asked = wire.asked(method)[-1]
    wire.reply(asked, result)
    params: dict[str, object] = asked["params"]
    return params


def test_run_makes_the_five_terminal_calls() -> None:
    """In order: create, wait_for_exit, output, kill, release (1.143)."""
    wire = Scripted()
    prompt = wire.prompt("run echo  hi; exit 3")
    created = _terminal(wire, "terminal/create", {"terminalId": "t"})
    assert (created["command"], created["args"]) == ("/bin/sh", ["-c", "echo  hi; exit 3"])
    assert _terminal(wire, "terminal/wait_for_exit", {"exitCode": 3}) == {"sessionId": wire.session, "terminalId": "t"}
    _terminal(wire, "terminal/output", {"output": "hi\n", "truncated": False})
    _terminal(wire, "terminal/kill", {})
    assert wire.said == []
    _terminal(wire, "terminal/release", {})
    assert json.loads(wire.said[0]) == {"output": "hi\n", "exitCode": 3}
    assert wire.answer(prompt) == END_TURN
    methods = [each["method"] for each in wire.sent if str(each.get("method")).startswith("terminal/")]
    assert methods == [f"terminal/{name}" for name in ("create", "wait_for_exit", "output", "kill", "release")]


def test_run_kills_its_command_when_the_turn_is_cancelled() -> None:
    """And tells what it had printed; the turn is cancelled all the same (V1C4, C53)."""
    wire = Scripted()
    prompt = wire.prompt("run sleep 100")
    _terminal(wire, "terminal/create", {"terminalId": "t"})
    wire.cancel()
    _terminal(wire, "terminal/kill", {})
    _terminal(wire, "terminal/wait_for_exit", {"signal": "SIGKILL"})
    _terminal(wire, "terminal/output", {"output": "", "truncated": False})
    _terminal(wire, "terminal/kill", {})
    _terminal(wire, "terminal/release", {})
    assert json.loads(wire.said[0]) == {"output": "", "exitCode": None}
    assert wire.answer(prompt) == CANCELLED


def test_run_gives_its_terminal_back_whatever_happens() -> None:
    """A handler that is cancelled while it waits cancels its request once and releases (1.143, X9)."""
    wire = Scripted()
    prompt = wire.prompt("run sleep 100")
    _terminal(wire, "terminal/create", {"terminalId": "t"})
    (waiting,) = wire.asked("terminal/wait_for_exit")
    wire.cancel_request(prompt)
    assert wire.answer(prompt) == REQUEST_CANCELLED
    assert [each["params"]["requestId"] for each in wire.asked("$/cancel_request")] == [waiting["id"]]
    assert len(wire.asked("terminal/kill")) == 1
    assert len(wire.asked("terminal/release")) == 1


def test_ask_sends_any_request_and_says_its_result() -> None:
    """METHOD and JSON go out as they are."""
    wire = Scripted()
    prompt = wire.prompt('ask _v/x {"a": [1, "b c"]}')
    (asked,) = wire.asked("_v/x")
    assert asked["params"] == {"a": [1, "b c"]}
    wire.reply(asked, {"ü": [None, 1.5]})
    assert wire.said == ['{"ü":[null,1.5]}']
    assert wire.answer(prompt) == END_TURN


def test_ask_gives_up_in_time() -> None:
    """--request-timeout: one $/cancel_request, and an error is said (P7)."""
    wire = Scripted(request_timeout=2)
    prompt = wire.prompt("ask _v/x {}")
    wire.clock.advance(2)
    assert len(wire.asked("$/cancel_request")) == 1
    assert wire.said[0].startswith("error ")
    assert wire.answer(prompt) == END_TURN


def test_ask_is_cancelled_with_its_turn() -> None:
    """Once, when the handler is cancelled; its late answer is nothing (X9)."""
    wire = Scripted()
    prompt = wire.prompt("ask _v/x {}")
    (asked,) = wire.asked("_v/x")
    wire.cancel_request(prompt)
    assert [each["params"] for each in wire.asked("$/cancel_request")] == [{"requestId": asked["id"]}]
    wire.reply(asked, {"late": True})
    assert wire.said == []
    assert wire.answer(prompt) == REQUEST_CANCELLED


def test_cancel_ask_cancels_its_request() -> None:
    """After S seconds: $/cancel_request once, and the caller's end does not wait for the client (X9, P2)."""
    wire = Scripted()
    prompt = wire.prompt('cancel-ask _v/x {"a b": 1} 2.5')
    (asked,) = wire.asked("_v/x")
    assert asked["params"] == {"a b": 1}
    wire.clock.advance(2)
    assert wire.asked("$/cancel_request") == []
    wire.clock.advance(0.5)
    assert [each["params"] for each in wire.asked("$/cancel_request")] == [{"requestId": asked["id"]}]
    assert wire.said == ["cancelled"]
    assert wire.answer(prompt) == END_TURN
    wire.reject(asked, -32800)
    assert wire.idle()


def test_cancel_ask_says_an_answer_that_came_before() -> None:
    """Then nothing is cancelled."""
    wire = Scripted()
    prompt = wire.prompt("cancel-ask _v/x [] 2")
    wire.reply(wire.asked("_v/x")[0], 7)
    assert wire.said == ["7"]
    assert wire.answer(prompt) == END_TURN
    assert wire.idle()
    assert wire.asked("$/cancel_request") == []


def test_detach_ask_wants_no_answer_and_cancels_nothing() -> None:
    """The turn ends at once, and the request stays with the client (P3)."""
    wire = Scripted(request_timeout=1)
    prompt = wire.prompt("detach-ask _v/x {}")
    assert len(wire.asked("_v/x")) == 1
    assert wire.answer(prompt) == END_TURN
    wire.clock.advance(100)
    assert wire.asked("$/cancel_request") == []
    wire.reply(wire.asked("_v/x")[0], {})
    assert wire.said == []


# ---- what it says


def test_late_reaches_nobody() -> None:
    """An update behind the answer is not sent (design rule 4) (JT27)."""
    wire = Scripted()
    prompt = wire.prompt("late 1")
    assert wire.answer(prompt) == END_TURN
    before = len(wire.sent)
    wire.clock.advance(2)
    assert len(wire.sent) == before
    assert wire.idle()


def test_len_counts_the_characters_of_all_text_blocks() -> None:
    """Code points, those of the directive too."""
    wire = Scripted()
    blocks = [
        {"type": "text", "text": "len"},
        {"type": "resource_link", "uri": "file:///x", "name": "x"},
        {"type": "text", "text": "äöü😀"},
    ]
    assert wire.answer(wire.request("session/prompt", {"sessionId": wire.session, "prompt": blocks})) == END_TURN
    assert wire.said == ["7"]
    wire.prompt("len " + "x" * 1_000_000)
    assert wire.said[1] == "1000004"


def test_big_says_one_large_chunk() -> None:
    """One update, of N characters."""
    wire = Scripted()
    assert wire.answer(wire.prompt("big 1048576")) == END_TURN
    assert wire.said == ["x" * 1048576]


def test_seen_tells_what_cancelled_the_turn_before() -> None:
    """In order, of this session's previous turn only."""
    wire = Scripted(grace=1)
    other = wire.new_session()
    wire.prompt("seen")
    wire.prompt("hang")
    wire.cancel()
    wire.clock.advance(1)
    wire.prompt("seen", session=other)
    wire.prompt("seen")
    wire.prompt("seen")
    cancelled_request = wire.prompt("polite")
    wire.cancel_request(cancelled_request)
    wire.prompt("seen")
    assert [json.loads(each) for each in wire.said] == [
        [],
        [],
        ["session/cancel", "cancelGracePeriod"],
        [],
        ["$/cancel_request"],
    ]


# ---- what is no directive


def test_an_unknown_directive_is_refused_by_its_name() -> None:
    """-32602, and the data says which word it was."""
    wire = Scripted()
    answer = wire.answer(wire.prompt("dance with me"))
    assert answer is not None
    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"] == {"directive": "dance"}


def test_a_prompt_without_text_is_refused() -> None:
    """There is no first word."""
    wire = Scripted()
    block = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    answer = wire.answer(wire.request("session/prompt", {"sessionId": wire.session, "prompt": [block]}))
    assert answer is not None
    assert (answer["error"]["code"], answer["error"]["data"]) == (-32602, {"directive": ""})


def test_one_of_the_text_blocks_is_the_directive() -> None:
    """The first that is one; the others are what it works on."""
    wire = Scripted()
    wire.prompt("some context", "  len", "big 3")
    assert wire.said == [str(len("some context") + len("  len") + len("big 3"))]


@pytest.mark.parametrize(
    "text",
    [
        "stream",
        "stream x",
        "stream -1",
        "stream 1.5",
        "stream 1 x",
        "stream 1 -1",
        "stream 1 inf",
        "stream 1 nan",
        "stream 1 0 0",
        "stubborn",
        "stubborn x",
        "fail x",
        "fail 99999999999",
        "blocking",
        "permission x",
        "read",
        "write",
        "run  ",
        "ask",
        "ask _x",
        "ask _x {",
        "ask _x NaN",
        "cancel-ask _x {}",
        "cancel-ask _x {} x",
        "detach-ask _x",
        "late",
        "big",
        "big -1",
    ],
)
def test_arguments_that_make_no_sense_are_refused(text: str) -> None:
    """-32602 with the directive's name; nothing else is sent, and the next prompt works."""
    wire = Scripted()
    before = len(wire.sent)
    answer = wire.answer(wire.prompt(text))
    assert answer is not None
    assert (answer["error"]["code"], answer["error"]["data"]) == (-32602, {"directive": text.split(maxsplit=1)[0]})
    assert len(wire.sent) == before + 1
    assert wire.answer(wire.prompt("stream 0")) == END_TURN


def test_a_directive_without_arguments_minds_no_more_words() -> None:
    """Its first word is the directive."""
    wire = Scripted()
    wire.prompt("polite please")
    wire.cancel()
    assert wire.answer(wire.prompt("seen too")) == END_TURN


# ---- sessions


def test_it_advertises_what_it_supports() -> None:
    """load, and list, close, resume and delete (1.18)."""
    capabilities = Scripted().initialized["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert set(capabilities["sessionCapabilities"]) >= {"list", "close", "resume", "delete"}
    assert Scripted().initialized["agentInfo"]["name"]


def test_every_session_has_a_fresh_id() -> None:
    """1.41."""
    wire = Scripted()
    assert len({wire.new_session() for _ in range(10)} | {wire.session}) == 11


def test_load_replays_the_conversation_before_it_answers() -> None:
    """Both sides of it, in order, on another connection too (1.43)."""
    first = Scripted()
    first.prompt("stream 2")
    first.prompt("len")
    second = Scripted(first.agent)
    before = len(second.sent)
    loading = second.request("session/load", {"sessionId": first.session, "cwd": "/", "mcpServers": []})
    replay, answer = second.sent[before:-1], second.sent[-1]
    assert answer["id"] == loading
    assert "result" in answer
    updates = [
        (each["params"]["update"]["sessionUpdate"], each["params"]["update"]["content"]["text"]) for each in replay
    ]
    assert updates == [
        ("user_message_chunk", "stream 2"),
        ("agent_message_chunk", "1"),
        ("agent_message_chunk", "2"),
        ("user_message_chunk", "len"),
        ("agent_message_chunk", "3"),
    ]
    assert all(each["params"]["sessionId"] == first.session for each in replay)
    assert second.answer(second.prompt("stream 0", session=first.session)) == END_TURN


def test_what_is_replayed_is_bounded() -> None:
    """The end of a long conversation (design rule 6)."""
    wire = Scripted()
    wire.prompt(f"stream {MAX_MESSAGES + 5}")
    before = len(wire.sent)
    wire.request("session/load", {"sessionId": wire.session, "cwd": "/", "mcpServers": []})
    replay = wire.sent[before:-1]
    assert len(replay) == MAX_MESSAGES
    assert replay[-1]["params"]["update"]["content"]["text"] == str(MAX_MESSAGES + 5)


def test_resume_replays_nothing() -> None:
    """1.44."""
    first = Scripted()
    first.prompt("stream 2")
    second = Scripted(first.agent)
    before = len(second.sent)
    assert second.result(second.request("session/resume", {"sessionId": first.session, "cwd": "/"})) == {}
    assert len(second.sent) == before + 1
    assert second.answer(second.prompt("stream 0", session=first.session)) == END_TURN


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/close", "session/prompt"])
def test_an_unknown_session_is_not_found(method: str) -> None:
    """-32002, with its id."""
    wire = Scripted()
    params = {"sessionId": "none", "cwd": "/", "mcpServers": [], "prompt": []}
    answer = wire.answer(wire.request(method, params))
    assert answer is not None
    assert (answer["error"]["code"], answer["error"]["data"]) == (-32002, {"sessionId": "none"})


def _listed(wire: Scripted, **params: object) -> list[str]:
    return [each["sessionId"] for each in wire.result(wire.request("session/list", params))["sessions"]]


def test_list_knows_all_sessions_and_those_of_a_directory() -> None:
    """cwd is compared as it is (1.61, 1.66)."""
    wire = Scripted()
    other = wire.new_session("/tmp")
    assert _listed(wire) == [wire.session, other]
    assert _listed(wire, cwd="/tmp") == [other]
    assert _listed(wire, cwd="/tmp/") == []


def test_list_comes_in_pages() -> None:
    """The cursor leads on, the last page has none, and a bad one is refused (1.62, 1.63)."""
    wire = Scripted()
    ids = [wire.session, *(wire.new_session() for _ in range(149))]
    page = wire.result(wire.request("session/list", {}))
    rest = wire.result(wire.request("session/list", {"cursor": page["nextCursor"]}))
    assert [each["sessionId"] for each in (*page["sessions"], *rest["sessions"])] == ids
    assert rest.get("nextCursor") is None
    answer = wire.answer(wire.request("session/list", {"cursor": "bad"}))
    assert answer is not None
    assert answer["error"]["code"] == -32602


def test_close_cancels_the_turn_and_keeps_the_session() -> None:
    """The prompt is answered first, then the close; later it can be loaded again (V1C10, 1.45, JT14)."""
    wire = Scripted()
    prompt = wire.prompt("polite")
    closing = wire.request("session/close", {"sessionId": wire.session})
    assert wire.answer(prompt) == cancelled(stopped=True)
    assert [each["id"] for each in wire.sent[-2:]] == [prompt, closing]
    answer = wire.answer(wire.prompt("stream 0"))
    assert answer is not None
    assert answer["error"]["code"] == -32002
    assert wire.session in _listed(wire)
    wire.request("session/resume", {"sessionId": wire.session, "cwd": "/"})
    assert wire.answer(wire.prompt("seen")) == END_TURN
    assert json.loads(wire.said[-1]) == ["session/close"]


def test_delete_forgets_and_may_be_repeated() -> None:
    """A deleted session is not listed and can't be loaded; deleting it again succeeds (1.70)."""
    wire = Scripted()
    for _ in range(2):
        assert wire.result(wire.request("session/delete", {"sessionId": wire.session})) == {}
    assert _listed(wire) == []
    answer = wire.answer(wire.request("session/load", {"sessionId": wire.session, "cwd": "/", "mcpServers": []}))
    assert answer is not None
    assert answer["error"]["code"] == -32002


def test_sessions_of_two_processes_do_not_mix() -> None:
    """Each agent object has its own."""
    assert _listed(Scripted(), cwd="/elsewhere") == []
    first, second = Scripted(), Scripted()
    assert _listed(first) == [first.session]
    assert _listed(second) == [second.session]


@pytest.mark.parametrize("text", ["hang", "polite", "stubborn 1", "stream 9 1", "permission 2", "ask _x {}", "run x"])
def test_a_lost_link_leaves_nothing_behind(text: str) -> None:
    """No timer is left a while later, whatever ran."""
    wire = Scripted()
    wire.prompt(text)
    wire.lose()
    wire.clock.advance(1)
    assert wire.idle()


# ---- options


def test_negative_times_are_refused() -> None:
    """By the library's setters."""
    with pytest.raises(ValueError, match="negative"):
        build_agent(grace=-1)


@pytest.mark.parametrize(
    "words",
    [
        ["--grace", "-1"],
        ["--grace=-1"],
        ["--max-duration", "x"],
        ["--request-timeout", "nan"],
        ["--request-timeout", "inf"],
        ["--grace"],
        ["--listen"],
        ["--listen", "nonsense:1"],
        ["--listen", "tcp:"],
        ["--listen", "stdio:"],
        ["--gra", "1"],
        ["word"],
    ],
)
def test_a_bad_command_line_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and what is wrong on standard error; nothing on the wire."""
    with pytest.raises(SystemExit) as left:
        parse(words)
    assert left.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "error:" in printed.err


def test_a_good_command_line() -> None:
    """Several endpoints as users type them, and three times."""
    options = parse(
        ["--listen", "tcp:0:interface=127.0.0.1", "--listen", "unix:/x", "--grace", "0", "--max-duration", "2"]
    )
    assert options.listen == ["tcp:0:interface=127.0.0.1", "unix:/x"]
    assert (options.grace, options.max_duration, options.request_timeout) == (0.0, 2.0, None)
