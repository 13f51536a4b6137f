"""
Extensions in classes of the user's, both ways, beside plain JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from attrs import define, field
from halves import AgentHalf, ClientHalf, Half
from twisted.internet.defer import Deferred, succeed
from twisted.logger import LogLevel, capturedLogs, formatEvent
from wire import failure, success

from acp_twisted import AcpAgent, AcpClient, InvalidResponse
from acp_twisted.builder import Builder
from acp_twisted.connection import Connection
from acp_twisted.schema import v1
from acp_twisted.schema.vocabulary import V1


@define
class Point:
    """What these extensions are about."""

    x: int
    y: int = 0


@define
class Box:
    """Classes may hold classes."""

    corners: list[Point]
    name: str | None = None


def half_of(side: str, builder: Builder) -> Half:
    """Either half, initialized."""
    made: Any = builder
    return AgentHalf(made.build()) if side == "agent" else ClientHalf(made.build())


@pytest.fixture(params=["agent", "client"])
def side(request: pytest.FixtureRequest) -> str:
    """Extensions go both ways (EXT-CUSTOM-REQUESTS-MAY, 1.190)."""
    return str(request.param)


@pytest.fixture
def builder(side: str) -> Builder:
    """That half's builder."""
    return AcpAgent.builder().prompt_handler(lambda request: Deferred()) if side == "agent" else AcpClient.builder()


def connection_of(half: Half) -> Connection:
    """Its connection."""
    assert isinstance(half, AgentHalf | ClientHalf)
    return half.connection


def test_a_request_in_classes(side: str, builder: Builder) -> None:
    """Params become the class, its answer JSON, whatever kind of function it is (EXT-RESPOND-TO-CUSTOM-REQUEST)."""

    async def mirror(point: Point) -> Point:
        return Point(-point.x, -point.y)

    builder.ext_request_handler("_now", lambda point: Box([point]), Point)
    builder.ext_request_handler("_later", lambda point, connection: succeed(Box([point], "b")), Point)
    builder.ext_request_handler("_mirror", mirror, params=Point)
    builder.ext_request_handler("_schema", lambda info: v1.TextContent(text=info.name), v1.Implementation)
    builder.ext_request_handler("_plain", lambda params: params)
    half = half_of(side, builder)
    for method in ("_now", "_later", "_mirror"):
        half.send({"id": method, "method": method, "params": {"x": 1, "unknown": True}})
    half.send({"id": 4, "method": "_schema", "params": {"name": "n", "version": "1"}})
    half.send({"id": 5, "method": "_plain", "params": [{"x": 1}]})
    assert [each["result"] for each in half.take()] == [
        {"corners": [{"x": 1, "y": 0}], "name": None},
        {"corners": [{"x": 1, "y": 0}], "name": "b"},
        {"x": -1, "y": 0},
        {"type": "text", "text": "n"},
        [{"x": 1}],
    ]


def test_params_that_do_not_fit(side: str, builder: Builder) -> None:
    """-32602, without what was sent, and without the handler; of a notification only the log hears (rule 9)."""
    builder.ext_request_handler("_point", lambda point: pytest.fail("called"), Point)
    builder.ext_request_handler("_info", lambda point: pytest.fail("called"), v1.Implementation)
    builder.ext_notification_handler("_told", lambda point: pytest.fail("called"), Point)
    half = half_of(side, builder)
    half.send({"id": 1, "method": "_point", "params": {"x": "secret"}}, {"id": 2, "method": "_point"})
    half.send({"id": 3, "method": "_info", "params": {"name": 1, "version": "1"}})
    first, second, third = [each["error"] for each in half.take()]
    assert first["data"] == second["data"] == [{"path": "$", "reason": "it does not fit Point"}]
    assert (first["code"], third["code"], third["data"][0]["path"]) == (-32602, -32602, "$.name")
    with capturedLogs() as events:
        half.send({"method": "_told", "params": {"x": "secret"}})
    [warning] = [each for each in events if each["log_level"] is LogLevel.warn]
    assert "secret" not in formatEvent(warning)
    assert half.take() == []


def test_notifications_in_classes(side: str, builder: Builder) -> None:
    """The same for what is not answered, both ways (EXT-IGNORE-UNKNOWN-NOTIFICATIONS)."""
    told: list[Any] = []
    half = half_of(side, builder.ext_notification_handler("_told", told.append, Point))
    half.send({"method": "_told", "params": {"x": 1}}, {"method": "_never_heard_of"})
    assert told == [Point(1)]
    connection_of(half).ext_notification("_tell", Point(2))
    assert half.take() == [{"method": "_tell", "params": {"x": 2, "y": 0}}]


def test_calls_in_classes(side: str, builder: Builder) -> None:
    """Params of a class go out as JSON, and a class is made of the answer, if it fits."""
    half = half_of(side, builder)
    connection = connection_of(half)
    answers: list[Deferred[Any]] = []
    for _ in range(3):
        answers.append(connection.ext_request("_ask", Point(1, 2), result=Box))
    plain = connection.ext_request("_ask", {"any": "json"})
    sent = half.take()
    assert [each["params"] for each in sent] == [{"x": 1, "y": 2}] * 3 + [{"any": "json"}]
    results: list[Any] = [{"corners": [{"x": 5}]}, {"corners": "secret"}, None, {"corners": 7}]
    for request, result in zip(sent, results, strict=True):
        half.send({"id": request["id"], "result": result})
    assert success(answers[0]) == Box([Point(5)])
    for refused in answers[1:]:
        error = failure(refused, InvalidResponse)
        assert error.data == [{"path": "$", "reason": "it does not fit Box"}]
    assert success(plain) == {"corners": 7}


def test_a_call_in_classes_is_cancelled_like_any_other(side: str, builder: Builder) -> None:
    """Reading the answer into a class changes nothing of the call (P2)."""
    half = half_of(side, builder)
    call = connection_of(half).ext_request("_ask", result=Box)
    [asked] = half.take()
    call.cancel()
    call.addErrback(lambda _: None)
    assert half.take() == [{"method": "$/cancel_request", "params": {"requestId": asked["id"]}}]


class Colour(str, Enum):
    """One of a few words."""

    RED = "red"


@define
class Plain:
    """All that JSON has."""

    text: str = ""
    whole: int = 0
    number: float = 0.0
    yes: bool = False
    words: Sequence[str] = ()
    table: dict[str, int] = field(factory=dict)
    colour: Colour | None = None


@pytest.mark.parametrize(
    "params",
    [
        {"text": {"a": 1}},
        {"text": 5},
        {"text": None},
        {"whole": "5"},
        {"whole": 1.5},
        {"whole": True},
        {"number": "1"},
        {"number": False},
        {"yes": 1},
        {"yes": "no"},
        {"words": "abc"},
        {"words": {"a": 1}},
        {"words": ["a", 1]},
        {"table": [1]},
        {"table": {"a": "1"}},
        {"colour": "blue"},
    ],
    ids=str,
)
def test_nothing_is_taken_for_what_it_is_not(side: str, builder: Builder, params: dict[str, object]) -> None:
    """No object becomes the text of its repr, and no text a list of letters: -32602."""
    called: list[object] = []
    half = half_of(side, builder.ext_request_handler("_x", called.append, Plain))
    half.send({"id": 1, "method": "_x", "params": params})
    assert half.take()[0]["error"]["code"] == -32602
    assert called == []


def test_what_json_says_is_taken(side: str, builder: Builder) -> None:
    """A whole number may be written with a point, and a number without one; unknown members are ignored."""
    called: list[object] = []
    half = half_of(side, builder.ext_request_handler("_x", called.append, Plain))
    params = {"text": "a", "whole": 5.0, "number": 2, "yes": True, "words": ["b"], "table": {"c": 1}, "colour": "red"}
    half.send({"id": 1, "method": "_x", "params": {**params, "more": []}})
    assert half.take()[0]["result"] is None
    assert called == [Plain("a", 5, 2.0, True, ["b"], {"c": 1}, Colour.RED)]


@dataclass
class Data:
    """The standard library's kind of class."""

    point: Point


def test_a_dataclass_does_as_well(side: str, builder: Builder) -> None:
    """Both ways."""
    half = half_of(side, builder.ext_request_handler("_x", lambda data: data, Data))
    half.send({"id": 1, "method": "_x", "params": {"point": {"x": 1}}})
    assert half.take()[0]["result"] == {"point": {"x": 1, "y": 0}}


class Nothing:
    """Nobody knows how to make one."""


@pytest.mark.parametrize("kind", [Nothing, "Point"])
def test_a_class_that_nothing_can_be_read_into(side: str, builder: Builder, kind: Any) -> None:
    """Is refused where it is named, for it is no fault of the peer's."""
    for setter in (builder.ext_request_handler, builder.ext_notification_handler):
        with pytest.raises(
            TypeError, match=f"{setter.__name__}: nothing can be read into .*an attrs class or a dataclass"
        ):
            setter("_x", print, kind)


def test_every_type_of_the_protocol_has_room_for_more() -> None:
    """
    Requests, responses and updates all have C{meta}, and what is in it is never touched (EXT-META-NO-ASSUMPTIONS,
    EXT-NO-ROOT-CUSTOM-FIELDS, MetaCoverageTest).
    """
    bare = set()
    for method in V1.methods:
        for kind in (method.params, method.result):
            if kind is not None and "meta" not in kind.WIRE:
                bare.add(kind.__name__)
    updates = v1.UNIONS["SessionUpdate"]
    for name in updates.variants.values():  # type: ignore[union-attr]
        if "meta" not in getattr(v1, name).WIRE:
            bare.add(name)
    assert bare == set()
