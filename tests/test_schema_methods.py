"""
The table of methods is that of the schema.
"""

from __future__ import annotations

from typing import Any

import pytest
import schema_source
from schema_source import Source

from acp_twisted.schema import v1, v2
from acp_twisted.schema.vocabulary import V1, Vocabulary, vocabulary

V2 = vocabulary(2)
SPOKEN = [(schema_source.V1, V1), (schema_source.V2, V2)]
both = pytest.mark.parametrize(("source", "words"), SPOKEN, ids=["v1", "v2"])
SIDES = {"agent": "agent", "client": "client", "protocol": "both", "proxy": "proxy"}


def named(source: Source) -> list[tuple[str, dict[str, Any]]]:
    """
    What the schema says is a method's params or result.
    """
    return [(name, each) for name, each in source.definitions().items() if "x-method" in each]


def check(source: Source, words: Vocabulary, name: str, definition: dict[str, Any]) -> None:
    """
    Compare one definition with the table.
    """
    if name.endswith("Response"):
        method = words.require(definition["x-method"], "request")
        any_json = not {"type", "allOf", "anyOf"} & set(definition)
        assert method.result_name == (None if any_json else name), name
    else:
        method = words.require(definition["x-method"], "notification" if name.endswith("Notification") else "request")
        assert method.params_name == name
        assert method.session_keyed == ("sessionId" in definition.get("required", ())), name
        assert method.params is getattr(words.types, name)
        assert words.for_params(method.params) is method
    assert method.direction == SIDES[definition["x-side"]], name
    assert method.stable == (name in source.load(unstable=False)["$defs"]), name


@both
def test_every_type_of_a_method_is_in_the_table(source: Source, words: Vocabulary) -> None:
    """
    What the schema says is a method's params or result is that in the table, on the same side, as settled as there.
    """
    for name, definition in named(source):
        check(source, words, name, definition)
    assert len(named(source)) > 50


@both
def test_the_table_has_nothing_else(source: Source, words: Vocabulary) -> None:
    """
    Each method of the table is one of the schema, and each is there once.
    """
    assert {each.name for each in words.methods} == {definition["x-method"] for _, definition in named(source)}
    assert len({(each.name, each.kind) for each in words.methods}) == len(words.methods)


@both
def test_capabilities_are_members_of_the_capabilities(source: Source, words: Vocabulary) -> None:
    """
    Each dotted path leads through the capabilities of the side that handles the method.
    """
    for method in words.methods:
        if method.capability is None:
            continue
        schema = source.definitions()["AgentCapabilities" if method.direction == "agent" else "ClientCapabilities"]
        for member in method.capability.split("."):
            schema = schema["properties"][member]
            branches = (*schema.get("allOf", ()), *schema.get("anyOf", ()))
            references = [each["$ref"] for each in branches if "$ref" in each]
            schema = source.definitions()[references[0].rsplit("/", 1)[1]] if references else schema
        assert schema.get("type") in ("object", "boolean"), method


def test_lookups() -> None:
    """
    By name, by name and kind, by class and by subclass; what is not there is None.
    """
    assert V1.get("session/prompt") is V1.require("session/prompt")
    assert V1.get("session/prompt", "notification") is None
    assert V1.get("_x") is None
    with pytest.raises(KeyError):
        V1.require("_x")
    assert V1.require("mcp/message").kind == "request"
    assert V1.require("mcp/message", "notification").direction == "agent"
    assert V1.for_params(v1.ElicitationFormMode) is V1.require("elicitation/create")
    assert V1.for_params(v1.InitializeProxyRequest) is V1.require("proxy/initialize")
    assert V1.for_params(v1.TextContent) is None
    assert V1.for_params(dict) is None
    assert V1.for_params(v2.PromptRequest) is None
    assert V2.for_params(v2.PromptRequest) is V2.require("session/prompt")
    assert V2.for_params(v1.PromptRequest) is None
    assert V2.for_params(v2.ElicitationUrlMode) is V2.require("elicitation/create")
    assert vocabulary(1) is V1
    assert vocabulary(2) is V2
    with pytest.raises(ValueError, match="no protocol version 3"):
        vocabulary(3)

    class MyPrompt(v1.PromptRequest):
        """A user's own."""

    assert V1.for_params(MyPrompt) is V1.require("session/prompt")


def test_which_responses_may_be_empty() -> None:
    """
    A handler that returns nothing answers a method whose response has nothing that is required, and no other.
    """
    assert V1.require("session/load").empty_result
    assert V1.require("fs/write_text_file").empty_result
    assert not V1.require("session/prompt").empty_result
    assert not V1.require("session/new").empty_result
    assert not V1.require("session/cancel").empty_result
    assert not V1.require("session/set_config_option").empty_result
