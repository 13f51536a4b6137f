"""
The protocol's classes within other people's, by cattrs.
"""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define
from cattrs import Converter, transform_error
from cattrs.preconf.orjson import make_converter

from acp_twisted.schema import v1
from acp_twisted.schema.converter import get_converter, structure, unstructure
from acp_twisted.schema.values import SchemaError, UnknownVariant

CHUNK: dict[str, Any] = {
    "sessionId": "s",
    "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}},
}


@define
class Record:
    """
    A user's own class, with the protocol's in it.
    """

    at: float
    message: v1.SessionNotification
    blocks: list[v1.ContentBlock]
    server: v1.McpServer


RECORD = {
    "at": 1.5,
    "message": CHUNK,
    "blocks": [{"type": "text", "text": "y"}, {"type": "hologram"}],
    "server": {"name": "n", "command": "c", "args": [], "env": []},
}


@pytest.mark.parametrize("make", [Converter, make_converter])
def test_the_classes_within_others(make: Any) -> None:
    """
    One's own classes may hold the protocol's classes and its unions.
    """
    converter = get_converter(make())
    read = converter.structure(RECORD, Record)
    assert read.message == structure(CHUNK, v1.SessionNotification)
    assert read.blocks == [v1.TextContent(text="y"), UnknownVariant("hologram", {"type": "hologram"})]
    assert read.server == v1.McpServerStdio(name="n", command="c", args=[], env=[])
    assert converter.unstructure(read) == RECORD


def test_the_converter_agrees_with_the_functions() -> None:
    """
    The shared converter does what C{structure} and C{unstructure} do.
    """
    converter = get_converter()
    read = converter.structure(CHUNK, v1.SessionNotification)
    assert read == structure(CHUNK, v1.SessionNotification)
    assert converter.unstructure(read) == unstructure(read) == CHUNK


def test_a_hook_of_ones_own_is_used_within() -> None:
    """
    A converter's own hooks come before ours, also for an object within an object, and the tag is still written.
    """
    converter = get_converter(Converter())
    converter.register_structure_hook(v1.TextContent, lambda value, _: v1.TextContent(text=value["text"].upper()))
    converter.register_unstructure_hook(v1.TextContent, lambda value: {"text": value.text.lower()})
    read = converter.structure(CHUNK, v1.SessionNotification)
    assert isinstance(read.update, v1.AgentMessageChunk)
    assert read.update.content == v1.TextContent(text="X")
    assert converter.unstructure(read) == CHUNK
    assert structure(CHUNK, v1.SessionNotification) != read


def test_a_class_that_is_a_union_too_is_written_whole() -> None:
    """
    What is declared as an elicitation may be of either mode, and loses nothing.
    """

    @define
    class Asked:
        request: v1.CreateElicitationRequest

    url = v1.ElicitationUrlMode(message="m", url="u", elicitation_id="e", session_id="s")
    written = get_converter().unstructure(Asked(request=url))
    assert written == {"request": unstructure(url)}
    assert get_converter().structure(written, Asked) == Asked(request=url)


def test_errors_are_told_by_cattrs() -> None:
    """
    What does not fit is a SchemaError there too, within cattrs' own groups.
    """
    with pytest.raises(SchemaError):
        get_converter().structure({}, v1.SessionNotification)
    with pytest.raises(Exception, match="Record") as caught:
        get_converter(Converter()).structure({**RECORD, "message": {"sessionId": 5}}, Record)
    assert any("message" in each for each in transform_error(caught.value))
