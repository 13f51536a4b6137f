"""
The table of methods is that of the schema.
"""

from __future__ import annotations

from typing import Any

import pytest
from schema_source import definitions, load

from acp_twisted.schema import methods, v1
from acp_twisted.schema.methods import METHODS

NAMED = [(name, each) for name, each in definitions().items() if "x-method" in each]
SIDES = {"agent": "agent", "client": "client", "protocol": "both", "proxy": "proxy"}


def check(name: str, definition: dict[str, Any]) -> None:
    """
    Compare one definition with the table.
    """
    if name.endswith("Response"):
        method = methods.require(definition["x-method"], "request")
        any_json = not {"type", "allOf", "anyOf"} & set(definition)
        assert method.result_name == (None if any_json else name), name
    else:
        method = methods.require(definition["x-method"], "notification" if name.endswith("Notification") else "request")
        assert method.params_name == name
        assert method.session_keyed == ("sessionId" in definition.get("required", ())), name
        assert method.params is getattr(v1, name)
        assert methods.for_params(method.params) is method
    assert method.direction == SIDES[definition["x-side"]], name
    assert method.stable == (name in load(unstable=False)["$defs"]), name


def test_every_type_of_a_method_is_in_the_table() -> None:
    """
    What the schema says is a method's params or result is that in the table, on the same side, as settled as there.
    """
    for name, definition in NAMED:
        check(name, definition)
    assert len(NAMED) > 60


def test_the_table_has_nothing_else() -> None:
    """
    Each method of the table is one of the schema, and each is there once.
    """
    assert {each.name for each in METHODS} == {definition["x-method"] for _, definition in NAMED}
    assert len({(each.name, each.kind) for each in METHODS}) == len(METHODS)


def test_capabilities_are_members_of_the_capabilities() -> None:
    """
    Each dotted path leads through the capabilities of the side that handles the method.
    """
    for method in METHODS:
        if method.capability is None:
            continue
        schema = definitions()["AgentCapabilities" if method.direction == "agent" else "ClientCapabilities"]
        for member in method.capability.split("."):
            schema = schema["properties"][member]
            branches = (*schema.get("allOf", ()), *schema.get("anyOf", ()))
            references = [each["$ref"] for each in branches if "$ref" in each]
            schema = definitions()[references[0].rsplit("/", 1)[1]] if references else schema
        assert schema.get("type") in ("object", "boolean"), method


def test_lookups() -> None:
    """
    By name, by name and kind, by class and by subclass; what is not there is None.
    """
    assert methods.get("session/prompt") is methods.require("session/prompt")
    assert methods.get("session/prompt", "notification") is None
    assert methods.get("_x") is None
    with pytest.raises(KeyError):
        methods.require("_x")
    assert methods.require("mcp/message").kind == "request"
    assert methods.require("mcp/message", "notification").direction == "agent"
    assert methods.for_params(v1.ElicitationFormMode) is methods.require("elicitation/create")
    assert methods.for_params(v1.InitializeProxyRequest) is methods.require("proxy/initialize")
    assert methods.for_params(v1.TextContent) is None
    assert methods.for_params(dict) is None

    class MyPrompt(v1.PromptRequest):
        """A user's own."""

    assert methods.for_params(MyPrompt) is methods.require("session/prompt")


def test_which_responses_may_be_empty() -> None:
    """
    A handler that returns nothing answers a method whose response has nothing that is required, and no other.
    """
    assert methods.require("session/load").empty_result
    assert methods.require("fs/write_text_file").empty_result
    assert not methods.require("session/prompt").empty_result
    assert not methods.require("session/new").empty_result
    assert not methods.require("session/cancel").empty_result
    assert not methods.require("session/set_config_option").empty_result
