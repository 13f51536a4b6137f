"""
Each member of each class is read as the schema says, and the protocol's vectors with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schema_source
from schema_checks import refused
from schema_source import Source

from acp_twisted.schema import v1, v2
from acp_twisted.schema.converter import on_skipped, structure, unstructure
from acp_twisted.schema.values import Model

# ---- leniency, member by member

TYPES: dict[Source, Any] = {schema_source.V1: v1, schema_source.V2: v2}
both = pytest.mark.parametrize("source", TYPES, ids=str)
THREE_STATE = {
    schema_source.V1: {"SessionInfoUpdate", "CompactionUpdate", "SubagentUpdate", "SessionMessage"},
    schema_source.V2: {
        "UserMessage",
        "AgentMessage",
        "AgentThought",
        "ToolCallUpdate",
        "TerminalUpdate",
        "SessionInfoUpdate",
        "UsageUpdate",
        "CompactionUpdate",
        "SubagentUpdate",
        "SessionMessage",
    },
}
"""Classes that tell absent and null apart."""
MAY_BE_MISSING = {
    schema_source.V1: {("NewSessionRequest", "mcpServers"), ("LoadSessionRequest", "mcpServers")},
    schema_source.V2: {
        ("PromptResponse", "messageId"),
        ("ElicitationSchema", "type"),
        ("ElicitationSchema", "properties"),
    },
}
"""What is required and may be missing, for the sake of older peers."""


class Case:
    """
    One member of one class, and the smallest object around it.
    """

    def __init__(
        self,
        source: Source,
        cls: type[Model],
        key: str,
        schema: dict[str, Any],
        smallest: dict[str, Any],
        required: bool,
    ) -> None:
        self.source = source
        self.cls = cls
        self.key = key
        self.schema = schema
        self.smallest = smallest
        self.required = required
        self.lenient = bool(schema.get("x-deserialize-default-on-error"))
        self.skips = bool(schema.get("x-deserialize-skip-invalid-items"))

    def wrong(self) -> object:
        """
        A value that the member cannot have; L{None} when it can have any.
        """
        candidates: tuple[object, ...] = (5, True, "x", {})
        bounds = ("minimum", "maximum")  # these only tell people
        schema = {key: each for key, each in self.schema.items() if key not in bounds}
        return next((each for each in candidates if not self.source.is_valid(schema, each)), None)

    def read(self, **members: object) -> object:
        """
        What the attribute is when the object has these members besides the smallest.
        """
        read = structure({**self.smallest, **members}, self.cls)
        [attribute] = [name for name, (wire, *_) in self.cls.WIRE.items() if wire == self.key]
        return getattr(read, attribute)


def smallest(source: Source, name: str) -> dict[str, Any]:
    """
    The smallest object of a class, with what its union wants.
    """
    found: dict[str, Any] = {
        "SessionConfigSelect": lambda: source.example(source.definitions()["SessionConfigOption"], 0),
        "SessionConfigBoolean": lambda: source.example(source.definitions()["SessionConfigOption"], 1),
        "ElicitationFormMode": lambda: source.example(source.definitions()["CreateElicitationRequest"], 0),
        "ElicitationUrlMode": lambda: source.example(source.definitions()["CreateElicitationRequest"], 1),
    }.get(name, lambda: source.example(source.definitions()[name]))()
    return found


def cases(source: Source) -> Iterator[Case]:
    """
    Every member of every class.
    """
    for name, definition in source.definitions().items():
        cls = getattr(TYPES[source], name, None)
        if isinstance(cls, type) and issubclass(cls, Model) and cls.__name__ == name:
            for key, schema in definition.get("properties", {}).items():
                yield Case(source, cls, key, schema, smallest(source, name), key in definition.get("required", ()))


def chosen(source: Source, pick: Callable[[Case], bool], at_least: int) -> list[Case]:
    """
    The members that a rule is about; a rule about next to none has lost its subject.
    """
    found = [each for each in cases(source) if pick(each)]
    assert len(found) >= at_least
    return found


@both
def test_a_lenient_member_that_does_not_fit_is_absent(source: Source) -> None:
    """
    8.5, x-deserialize-default-on-error: the wrong value gives what an absent member gives.
    """
    for case in chosen(source, lambda each: each.lenient and each.wrong() is not None, 200):
        assert case.read(**{case.key: case.wrong()}) == structure_default(case), (case.cls, case.key)


def structure_default(case: Case) -> object:
    """
    What the attribute is when the member is absent.
    """
    without = {key: value for key, value in case.smallest.items() if key != case.key}
    absent = Case(case.source, case.cls, case.key, case.schema, without, required=False)
    return absent.read()


@both
def test_a_strict_member_that_does_not_fit_is_an_error(source: Source) -> None:
    """
    8.5: without the mark, the wrong value is an error that names the member.
    """
    for case in chosen(source, lambda each: not each.lenient and each.wrong() is not None, 150):
        wrong = {**case.smallest, case.key: case.wrong()}
        problems = refused(wrong, case.cls)
        assert problems[0][0].startswith(f"$.{case.key}"), (case.cls, case.key, problems)


@both
def test_items_are_skipped_only_where_the_schema_says_so(source: Source) -> None:
    """
    8.5, x-deserialize-skip-invalid-items and B54: a bad item is left out and counted there, and an error elsewhere.
    """
    seen: list[tuple[str, str, int]] = []
    on_skipped(lambda cls, member, count: seen.append((cls, member, count)))
    for case in chosen(source, lambda each: each.skips, 20):
        seen.clear()
        good = source.example(case.schema["items"])
        kept = case.read(**{case.key: [5, good, [], good]})
        assert kept == case.read(**{case.key: [good, good]}), (case.cls, case.key)
        assert isinstance(kept, list)
        assert len(kept) == 2
        assert seen == [(case.cls.__name__, case.key, 2)]
    on_skipped(lambda cls, member, count: None)
    for case in chosen(source, lambda each: each.schema.get("type") == "array" and not each.skips, 10):
        bad = {**case.smallest, case.key: [source.example(case.schema["items"]), []]}
        assert refused(bad, case.cls)[0][0].startswith(f"$.{case.key}[1]"), (case.cls, case.key)


@both
def test_required_lists_that_are_lenient_may_be_missing(source: Source) -> None:
    """
    8.5: lenient in what we take, strict in what we send.
    """
    for case in chosen(source, lambda each: each.lenient and each.required, 3):
        without = {key: value for key, value in case.smallest.items() if key != case.key}
        read = structure(without, case.cls)
        assert unstructure(read)[case.key] == []
        assert structure({**without, case.key: None}, case.cls) == read


@both
def test_null_is_absent_for_every_member_that_is_not_required(source: Source) -> None:
    """
    8.3 and B54: for these members null and absent are the same, but for those that tell them apart.
    """
    for case in chosen(source, lambda each: not each.required, 300):
        if case.cls.__name__ in THREE_STATE[source] or case.key == "requestId":
            continue
        assert case.read(**{case.key: None}) == structure_default(case), (case.cls, case.key)


@both
def test_members_that_are_required_and_missing_are_named(source: Source) -> None:
    """
    B53: a missing member is an error that names it.
    """
    needed = chosen(source, lambda each: each.required and not each.lenient, 150)
    for case in needed:
        if (case.cls.__name__, case.key) in MAY_BE_MISSING[source] or case.cls.__name__ in (
            "ElicitationFormMode",
            "ElicitationUrlMode",
        ):
            continue
        without = {key: value for key, value in case.smallest.items() if key != case.key}
        assert (f"$.{case.key}", "is missing") in refused(without, case.cls), (case.cls, case.key)


@both
def test_what_is_written_without_options_is_valid_and_small(source: Source) -> None:
    """
    B54: None is never written as null, and every smallest object is valid when it is written again.
    """
    for name in source.definitions():
        cls = getattr(TYPES[source], name, None)
        if isinstance(cls, type) and issubclass(cls, Model) and cls.__name__ == name:
            written = unstructure(structure(smallest(source, name), cls))
            source.validator(name).validate(written)
            assert None not in written.values() or cls is v1.CancelRequestNotification  # null is an id


# ---- the vectors of protocol.md 8.9 for version 1


def test_vector_initialize_response() -> None:
    """
    8.9: wrong capabilities are the defaults, and a bad way to authenticate is left out.
    """
    read = structure(
        {
            "protocolVersion": 1,
            "agentCapabilities": {"loadSession": "yes", "promptCapabilities": None},
            "authMethods": [{"id": "a", "name": "A"}, {"bad": 1}],
        },
        v1.InitializeResponse,
    )
    assert read.agent_capabilities == v1.AgentCapabilities()
    assert read.agent_capabilities.load_session is False
    assert read.auth_methods == [v1.AuthMethodAgent(id="a", name="A")]


def test_vector_mcp_servers() -> None:
    """
    8.9: no type is stdio; a known type must fit.
    """
    stdio = {"name": "s", "command": "/c", "args": [], "env": []}
    read = structure({"cwd": "/w", "mcpServers": [stdio, {**stdio, "type": "stdio"}]}, v1.NewSessionRequest)
    assert read.mcp_servers == [v1.McpServerStdio(name="s", command="/c", args=[], env=[])] * 2
    assert unstructure(read)["mcpServers"] == [stdio, stdio]
    http = {"cwd": "/w", "mcpServers": [{"type": "http", "name": "h", "headers": []}]}
    assert refused(http, v1.NewSessionRequest) == [("$.mcpServers[0].url", "is missing")]


@pytest.mark.parametrize(
    "version", ["1.0.0", 65536, -1, 1.5, True, None], ids=["text", "large", "negative", "fraction", "boolean", "null"]
)
def test_vector_protocol_versions(version: object) -> None:
    """
    8.2: a version is a whole number up to 65535.
    """
    assert refused({"protocolVersion": version}, v1.InitializeRequest)[0][0] == "$.protocolVersion"
