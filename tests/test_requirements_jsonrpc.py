"""
What JSON-RPC 2.0 requires of both sides, on the wire.
"""

from __future__ import annotations

from typing import Any

import pytest

from acp_twisted import AcpAgent, AcpClient, AcpError, RequestCancelled
from acp_twisted.schema import v1
from acp_twisted.schema.vocabulary import V1
from acp_twisted.testing import AgentOnWire, ClientOnWire, HalfOnWire, ScriptedAgent, failure_of, success_result

ECHO = "_x/echo"


def agent() -> AgentOnWire:
    """An agent that answers an extension with its params."""
    builder = AcpAgent.builder().prompt_handler(lambda _: v1.PromptResponse(stop_reason="end_turn"))
    return AgentOnWire(builder.ext_request_handler(ECHO, lambda params: {"params": params}).build())


def client() -> ClientOnWire:
    """A client that does the same."""
    return ClientOnWire(AcpClient.builder().ext_request_handler(ECHO, lambda params: {"params": params}).build())


@pytest.fixture(params=[agent, client], ids=["agent", "client"])
def half(request: pytest.FixtureRequest) -> HalfOnWire[Any]:
    """Either side, for what binds both."""
    made: HalfOnWire[Any] = request.param()
    return made


def test_every_message_says_its_version(half: HalfOnWire[Any]) -> None:
    """
    JSONRPC-VERSION-MEMBER: requests, notifications, results and errors all have C{"jsonrpc": "2.0"}, and a request with
    another is refused.
    """
    half.connection.ext_request("_x/ask")
    half.connection.ext_notification("_x/tell")
    half.request(ECHO)
    half.request("_x/nobody")
    assert [each["jsonrpc"] for each in half.received] == ["2.0"] * 4
    for version in ("1.0", 2.0, None):
        half.take()
        half.send({"jsonrpc": version, "id": 9, "method": ECHO})
        answers = half.answers(9)
        assert not any("result" in each for each in answers)


def test_no_method_begins_with_rpc() -> None:
    """JSONRPC-RPC-PREFIX-RESERVED: neither of the protocol nor of anybody's extension."""
    assert not [each.name for each in V1.methods if each.name.startswith("rpc.")]
    for builder in (AcpAgent.builder(), AcpClient.builder()):
        with pytest.raises(ValueError, match="underscore"):
            builder.ext_request_handler("rpc.x", lambda _: None)


def test_params_may_be_left_out(half: HalfOnWire[Any]) -> None:
    """JSONRPC-PARAMS-MAY-BE-OMITTED: both when they are received and when there are none to send."""
    assert half.ask(ECHO) == {"result": {"params": None}}
    half.connection.ext_request("_x/ask")
    assert "params" not in half.received[-1]


def test_params_are_an_object_or_an_array(half: HalfOnWire[Any]) -> None:
    """JSONRPC-PARAMS-STRUCTURED: anything else is refused, and no handler sees it."""
    for params in ({"a": 1}, [1]):
        assert half.ask(ECHO, params) == {"result": {"params": params}}
    for wrong in (1, "x", True):
        assert half.ask(ECHO, wrong)["error"]["code"] in (-32600, -32602)


@pytest.mark.parametrize("number", [1, 0, -7, 2**53, "a", "7", ""])
def test_an_answer_has_the_id_of_its_request(half: HalfOnWire[Any], number: Any) -> None:
    """JSONRPC-ID-TYPE, JSONRPC-RESPONSE-SAME-ID, JSONRPC-RESPONSE-ID-ECHO: the same value of the same type."""
    half.request(ECHO, number=number)
    half.request("_x/nobody", number=number)
    assert [(type(each["id"]), each["id"]) for each in half.received] == [(type(number), number)] * 2


@pytest.mark.parametrize("number", [True, [1], {"a": 1}])
def test_an_id_of_another_type_is_none(half: HalfOnWire[Any], number: Any) -> None:
    """JSONRPC-ID-TYPE: it is refused, and not handled."""
    half.send({"id": number, "method": ECHO})
    assert not [each for each in half.received if "result" in each]


def test_ids_that_are_sent() -> None:
    """JSONRPC-ID-NOT-NULL, JSONRPC-ID-NO-FRACTION: whole numbers, each used once."""
    wire = client()
    for _ in range(3):
        wire.connection.ext_request("_x/ask")
    ids = [each["id"] for each in wire.received]
    assert all(type(number) is int for number in ids)
    assert len(set(ids)) == 3


def test_an_unreadable_message_is_answered_with_null() -> None:
    """JSONRPC-RESPONSE-ID-ECHO: where no id can be read, by the side that answers such noise."""
    wire = agent()
    wire.send_bytes(b"{nonsense")
    wire.send({"method": 7})
    assert [(each["id"], each["error"]["code"]) for each in wire.received] == [(None, -32700), (None, -32600)]


def test_a_notification_has_no_answer(half: HalfOnWire[Any]) -> None:
    """JSONRPC-NO-REPLY-TO-NOTIFICATION: not when it is unknown, malformed or refused, nor for a request's method."""
    for method, params in (
        ("_x/nobody", None),
        ("nobody", None),
        ("session/update", {"sessionId": 5}),
        ("session/cancel", {}),
        ("$/cancel_request", {"requestId": []}),
        (ECHO, {}),
        ("session/prompt", {"sessionId": "s", "prompt": []}),
    ):
        half.notify(method, params)
    assert half.received == []


def test_names_of_params_are_exact() -> None:
    """JSONRPC-PARAM-NAMES-EXACT: another case is another name."""
    wire = agent()
    session = wire.open_session()
    answer = wire.ask("session/prompt", {"sessionid": session, "prompt": []})
    assert answer["error"]["code"] == -32602
    answer = wire.ask("session/prompt", {"SessionId": session, "prompt": []})
    assert answer["error"]["code"] == -32602


def test_every_request_has_one_answer(half: HalfOnWire[Any]) -> None:
    """
    JSONRPC-RESPONSE-REQUIRED, JSONRPC-RESULT-ON-SUCCESS, JSONRPC-ERROR-MEMBER-ON-ERROR, JSONRPC-RESULT-XOR-ERROR,
    JSONRPC-ERROR-RESPONSE-CONTAINS-ERROR: a result or an error, never both and never neither.
    """
    good = half.ask(ECHO, {})
    bad = half.ask("_x/nobody", {})
    worse = half.ask("nobody", {})
    assert list(good) == ["result"]
    assert list(bad) == list(worse) == ["error"]
    half.transcript.assert_each_answered_once()


def test_errors_are_short_and_numbered(half: HalfOnWire[Any]) -> None:
    """JSONRPC-ERROR-CODE-INTEGER, JSONRPC-ERROR-MESSAGE-CONCISE: one sentence, and what else there is in the data."""
    for method, params in ((ECHO, 5), ("_x/nobody", {}), ("nobody", {})):
        error = half.ask(method, params)["error"]
        assert type(error["code"]) is int
        assert isinstance(error["message"], str)
        assert 0 < len(error["message"]) < 100
        assert "\n" not in error["message"]


def test_an_answer_with_both_or_neither_is_an_error_to_its_caller(half: HalfOnWire[Any]) -> None:
    """JSONRPC-RESULT-XOR-ERROR, JSONRPC-RESULT-ON-SUCCESS: whoever asked hears of it, and nobody waits for ever."""
    for rest in ({"result": 1, "error": {"code": 1, "message": "m"}}, {}):
        call = half.connection.ext_request("_x/ask")
        half.send({"id": half.last_id(), **rest})
        failure_of(call, AcpError)
    call = half.connection.ext_request("_x/ask")
    half.respond({"fine": True})
    assert success_result(call) == {"fine": True}


def test_a_cancelled_request_is_answered_too() -> None:
    """CANCEL-REQUEST-MUST-RESPOND, JSONRPC-RESPONSE-REQUIRED: with -32800 where there is no result."""
    scripted = ScriptedAgent()
    scripted.expect_ext("_x/hang").hangs()
    wire = AgentOnWire(scripted)
    number = wire.request("_x/hang")
    wire.cancel_request(number)
    assert wire.answer_to(number)["error"]["code"] == RequestCancelled.CODE
    wire.transcript.assert_each_answered_once()
