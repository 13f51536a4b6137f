"""
What MCP talks about, as classes: nothing is lost on the way through them, and what does not fit is told by its name.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_twisted.mcp.types import (
    AnyContent,
    AudioContent,
    Completion,
    EmbeddedResource,
    ImageContent,
    Implementation,
    LogMessage,
    Page,
    Progress,
    Prompt,
    PromptResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    ShapeError,
    TextContent,
    Tool,
    ToolResult,
    UnknownContent,
    page_reader,
)

JSON = st.recursive(
    st.booleans() | st.integers(-100, 100) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
TEXT = {"type": "text", "text": "t"}
WHOLE: list[tuple[Any, dict[str, Any]]] = [
    (Implementation, {"name": "n", "version": "1", "title": "t"}),
    (TextContent, TEXT),
    (ImageContent, {"type": "image", "data": "AA==", "mimeType": "image/png"}),
    (AudioContent, {"type": "audio", "data": "AA==", "mimeType": "audio/wav", "annotations": {"priority": 1}}),
    (ResourceLink, {"type": "resource_link", "uri": "u:1", "name": "n"}),
    (EmbeddedResource, {"type": "resource", "resource": {"uri": "u:1", "blob": "AA=="}}),
    (Tool, {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {}, "annotations": {"readOnlyHint": True}}),
    (ToolResult, {"content": [TEXT], "structuredContent": {"a": [1]}, "isError": True}),
    (Resource, {"uri": "u:1", "name": "n", "size": 3, "mimeType": "text/plain"}),
    (ResourceTemplate, {"uriTemplate": "u:{x}", "name": "n"}),
    (Prompt, {"name": "p", "arguments": [{"name": "a", "required": True}]}),
    (PromptResult, {"messages": [{"role": "user", "content": TEXT}], "description": "d"}),
    (Completion, {"values": ["x"], "total": 2, "hasMore": True}),
    (Progress, {"progress": 0.5, "total": 1, "message": "m"}),
    (LogMessage, {"level": "info", "data": [1, {"a": None}], "logger": "l"}),
]


@given(
    one=st.sampled_from(WHOLE),
    more=st.dictionaries(st.text(max_size=5).map("x-{}".format), JSON, max_size=2),
    meta=st.booleans(),
)
def test_nothing_is_lost(one: tuple[Any, dict[str, Any]], more: dict[str, Any], meta: bool) -> None:
    """Known members, unknown ones and C{_meta} are written as they were read."""
    kind, whole = one
    given = {**whole, **more, **({"_meta": {"a/b": 1}} if meta else {})}
    read = kind.from_json(given)
    assert read.extra == more
    assert {name: value for name, value in read.to_json().items() if name in given} == given
    assert kind.from_json(read.to_json()) == read


@given(one=st.sampled_from(WHOLE), where=st.integers(0, 5), value=JSON)
def test_what_does_not_fit_is_a_shape_error(one: tuple[Any, dict[str, Any]], where: int, value: Any) -> None:
    """Whatever stands anywhere, it is read or it is that error; nothing else comes out of it."""
    kind, whole = one
    name = list(whole)[where % len(whole)]
    with suppress(ShapeError):
        kind.from_json({**whole, name: value})
    for other in (None, value if not isinstance(value, dict) else 1):
        with pytest.raises(ShapeError):
            kind.from_json(other)


def test_what_is_missing_and_what_is_null() -> None:
    """A member that is needed is named; null is as absent."""
    with pytest.raises(ShapeError, match=r"Tool\.inputSchema is missing"):
        Tool.from_json({"name": "t"})
    assert Tool.from_json({"name": "t", "inputSchema": {}, "title": None}).title is None


def test_kinds_of_content() -> None:
    """A known kind that does not fit is an error; an unknown one is kept; without a kind it is none."""
    odd = {"type": "hologram", "x": 1}
    assert AnyContent.from_json(odd) == UnknownContent("hologram", odd)
    bad: list[Any] = [{"type": "text"}, {"text": "t"}, {"type": 1}, [], None]
    for wrong in bad:
        with pytest.raises(ShapeError):
            AnyContent.from_json(wrong)
    result = ToolResult.from_json({"content": [TEXT, odd, TEXT]})
    assert result.text == "t\nt"
    assert result.to_json()["content"][1] == odd


def test_pages() -> None:
    """Items and where the next page begins."""
    read = page_reader("tools", Tool)
    assert read({"tools": []}) == Page([], None)
    assert read({"tools": [], "nextCursor": "c"}).next_cursor == "c"
    pages: list[Any] = [None, {}, {"tools": 1}, {"tools": [1]}, {"tools": [], "nextCursor": 1}]
    for wrong in pages:
        with pytest.raises(ShapeError):
            read(wrong)
