"""
Each member of each class is read as the schema says, and the protocol's vectors with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from schema_checks import refused
from schema_source import definitions, example, is_valid, validator

from acp_twisted.schema import v1
from acp_twisted.schema.converter import on_skipped, structure, unstructure
from acp_twisted.schema.values import Model

# ---- leniency, member by member


class Case:
    """
    One member of one class, and the smallest object around it.
    """

    def __init__(
        self, cls: type[Model], key: str, schema: dict[str, Any], smallest: dict[str, Any], required: bool
    ) -> None:
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
        return next((each for each in candidates if not is_valid(self.schema, each)), None)

    def read(self, **members: object) -> object:
        """
        What the attribute is when the object has these members besides the smallest.
        """
        read = structure({**self.smallest, **members}, self.cls)
        [attribute] = [name for name, (wire, *_) in self.cls.WIRE.items() if wire == self.key]
        return getattr(read, attribute)


def smallest(name: str) -> dict[str, Any]:
    """
    The smallest object of a class, with what its union wants.
    """
    found: dict[str, Any] = {
        "SessionConfigSelect": lambda: example(definitions()["SessionConfigOption"], 0),
        "SessionConfigBoolean": lambda: example(definitions()["SessionConfigOption"], 1),
        "ElicitationFormMode": lambda: example(definitions()["CreateElicitationRequest"], 0),
        "ElicitationUrlMode": lambda: example(definitions()["CreateElicitationRequest"], 1),
    }.get(name, lambda: example(definitions()[name]))()
    return found


def cases() -> Iterator[Case]:
    """
    Every member of every class.
    """
    for name, definition in definitions().items():
        cls = getattr(v1, name, None)
        if isinstance(cls, type) and issubclass(cls, Model) and cls.__name__ == name:
            for key, schema in definition.get("properties", {}).items():
                yield Case(cls, key, schema, smallest(name), key in definition.get("required", ()))


def chosen(pick: Callable[[Case], bool], at_least: int) -> list[Case]:
    """
    The members that a rule is about; a rule about next to none has lost its subject.
    """
    found = [each for each in cases() if pick(each)]
    assert len(found) >= at_least
    return found


def test_a_lenient_member_that_does_not_fit_is_absent() -> None:
    """
    8.5, x-deserialize-default-on-error: the wrong value gives what an absent member gives.
    """
    for case in chosen(lambda each: each.lenient and each.wrong() is not None, 200):
        assert case.read(**{case.key: case.wrong()}) == structure_default(case), (case.cls, case.key)


def structure_default(case: Case) -> object:
    """
    What the attribute is when the member is absent.
    """
    without = {key: value for key, value in case.smallest.items() if key != case.key}
    absent = Case(case.cls, case.key, case.schema, without, required=False)
    return absent.read()


def test_a_strict_member_that_does_not_fit_is_an_error() -> None:
    """
    8.5: without the mark, the wrong value is an error that names the member.
    """
    for case in chosen(lambda each: not each.lenient and each.wrong() is not None, 150):
        wrong = {**case.smallest, case.key: case.wrong()}
        problems = refused(wrong, case.cls)
        assert problems[0][0].startswith(f"$.{case.key}"), (case.cls, case.key, problems)


def test_items_are_skipped_only_where_the_schema_says_so() -> None:
    """
    8.5, x-deserialize-skip-invalid-items and B54: a bad item is left out and counted there, and an error elsewhere.
    """
    seen: list[tuple[str, str, int]] = []
    on_skipped(lambda cls, member, count: seen.append((cls, member, count)))
    for case in chosen(lambda each: each.skips, 20):
        seen.clear()
        good = example(case.schema["items"])
        kept = case.read(**{case.key: [5, good, [], good]})
        assert kept == case.read(**{case.key: [good, good]}), (case.cls, case.key)
        assert isinstance(kept, list)
        assert len(kept) == 2
        assert seen == [(case.cls.__name__, case.key, 2)]
    on_skipped(lambda cls, member, count: None)
    for case in chosen(lambda each: each.schema.get("type") == "array" and not each.skips, 10):
        bad = {**case.smallest, case.key: [example(case.schema["items"]), 5]}
        assert refused(bad, case.cls)[0][0].startswith(f"$.{case.key}[1]"), (case.cls, case.key)


def test_required_lists_that_are_lenient_may_be_missing() -> None:
    """
    8.5: lenient in what we take, strict in what we send.
    """
    for case in chosen(lambda each: each.lenient and each.required, 8):
        without = {key: value for key, value in case.smallest.items() if key != case.key}
        read = structure(without, case.cls)
        assert unstructure(read)[case.key] == []
        assert structure({**without, case.key: None}, case.cls) == read


def test_null_is_absent_for_every_member_that_is_not_required() -> None:
    """
    8.3 and B54: for these members null and absent are the same, but for those that tell them apart.
    """
    three_state = {"SessionInfoUpdate", "CompactionUpdate", "SubagentUpdate", "SessionMessage"}
    for case in chosen(lambda each: not each.required, 300):
        if case.cls.__name__ in three_state or case.key == "requestId":
            continue
        assert case.read(**{case.key: None}) == structure_default(case), (case.cls, case.key)


def test_members_that_are_required_and_missing_are_named() -> None:
    """
    B53: a missing member is an error that names it.
    """
    needed = chosen(lambda each: each.required and not each.lenient, 150)
    for case in needed:
        if case.key == "mcpServers" or case.cls.__name__ in ("ElicitationFormMode", "ElicitationUrlMode"):
            continue
        without = {key: value for key, value in case.smallest.items() if key != case.key}
        assert (f"$.{case.key}", "is missing") in refused(without, case.cls), (case.cls, case.key)


def test_what_is_written_without_options_is_valid_and_small() -> None:
    """
    B54: None is never written as null, and every smallest object is valid when it is written again.
    """
    for name in definitions():
        cls = getattr(v1, name, None)
        if isinstance(cls, type) and issubclass(cls, Model) and cls.__name__ == name:
            written = unstructure(structure(smallest(name), cls))
            validator(name).validate(written)
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
