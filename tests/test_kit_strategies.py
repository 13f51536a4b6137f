"""
The strategies of the test kit make every type of the protocol, and all that it may hold.
"""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from acp_twisted.schema import v1, v2
from acp_twisted.schema.converter import structure
from acp_twisted.schema.leaves import fields_of
from acp_twisted.schema.values import UNSET, Model, UnknownVariant
from acp_twisted.schema.vocabulary import vocabulary
from acp_twisted.testing import strategies

QUICK = settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
FINDING = settings(deadline=None, max_examples=2000, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
MODULES = [import_module(name) for name in strategies.VERSIONS if find_spec(name) is not None]
SLICES = [strategies.types(module.__name__)[start::8] for module in MODULES for start in range(8)]
UNIONS = [(module, name) for module in MODULES for name in sorted(module.UNIONS)]


def name_of(value: Any) -> str:
    """A test's name."""
    return value if isinstance(value, str) else str(value.__name__.rpartition(".")[2])


def again(value: object, kind: object) -> Any:
    """A value once it was written to JSON text and read."""
    return structure(json.loads(json.dumps(strategies.written(value, kind))), kind)


def check_round_trip(kind: object) -> None:
    """Hold every value of a type to reading as it was written."""

    @QUICK
    @given(strategies.of(kind))
    def check(value: Any) -> None:
        assert again(value, kind) == value

    check()


@pytest.mark.parametrize(
    "kinds", SLICES, ids=lambda kinds: f"{kinds[0].__module__.rpartition('.')[2]}-{kinds[0].__name__}"
)
def test_every_class_reads_as_it_was_written(kinds: list[type[Model]]) -> None:
    """Design rule 10: nothing of what a class can hold is lost or changed on the wire."""
    for kind in kinds:
        check_round_trip(kind)


@pytest.mark.parametrize(("module", "name"), UNIONS, ids=name_of)
def test_every_union_reads_as_it_was_written(module: ModuleType, name: str) -> None:
    """Design rule 10, unknown variants among them."""
    check_round_trip(getattr(module, name))


@pytest.mark.parametrize(("version", "update"), [(1, "SessionNotification"), (2, "UpdateSessionNotification")])
def test_the_types_are_all_there(version: int, update: str) -> None:
    """Each class of the schema, the unstable ones too; those of every method among them."""
    words = vocabulary(version)
    names = {kind.__name__ for kind in strategies.types(words.types.__name__)}
    assert {"PromptRequest", update, "ForkSessionRequest", "ElicitationFormMode"} <= names
    assert {method.params_name for method in words.methods} <= names
    assert {method.result_name for method in words.methods if method.result_name is not None} <= names
    assert len(names) > 150


def three_states() -> list[Any]:
    """Every attribute of version 2 that tells null from what is not there, with each of the three."""
    found = []
    for kind in strategies.types(v2.__name__):
        for each in fields_of(kind):
            if each.written == "touched" and each.type not in ("any", "request_id"):
                found.append((kind, each.name))
    return found


def test_what_has_three_states_has_them_all() -> None:
    """Design rule 10: unset, null and a value of every such member of version 2's classes."""
    states = three_states()
    assert (v2.ToolCallUpdate, "title") in states
    assert len(states) > 20
    for kind, name in states:
        for wanted in (
            lambda value: value is UNSET,
            lambda value: value is None,
            lambda value: value is not UNSET and value is not None,
        ):
            found = find(strategies.of(kind), lambda made: wanted(getattr(made, name)), settings=FINDING)  # noqa: B023
            assert again(found, kind) == found


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (v1.PromptResponse, lambda value: value.stop_reason == "max_tokens"),
        (v1.PromptResponse, lambda value: value.stop_reason not in ("end_turn", "cancelled", "refusal")),
        (v1.PromptResponse, lambda value: bool(value.meta)),
        (v1.SessionNotification, lambda value: isinstance(value.update, UnknownVariant)),
        (v1.SessionNotification, lambda value: isinstance(value.update, v1.ToolCall) and bool(value.update.content)),
        (v1.SessionInfoUpdate, lambda value: value.title is None),
        (v1.SessionInfoUpdate, lambda value: value.title is UNSET),
        (v1.CreateElicitationRequest, lambda value: isinstance(value, v1.ElicitationUrlMode)),
        (v1.CreateElicitationRequest, lambda value: type(value) is v1.CreateElicitationRequest),
        (v1.SetSessionConfigOptionRequest, lambda value: value.value is True),
        (v2.UpdateSessionNotification, lambda value: isinstance(value.update, UnknownVariant)),
        (v2.UpdateSessionNotification, lambda value: isinstance(value.update, v2.IdleStateUpdate)),
        (v2.IdleStateUpdate, lambda value: value.stop_reason not in (None, "end_turn", "cancelled", "error")),
        (v2.IdleStateUpdate, lambda value: value.error is not None),
        (v2.PromptRequest, lambda value: any(isinstance(each, UnknownVariant) for each in value.prompt)),
        (v2.RequestPermissionRequest, lambda value: isinstance(value.subject, UnknownVariant)),
        (v2.CreateElicitationRequest, lambda value: isinstance(value, v2.ElicitationUrlMode)),
    ],
)
def test_what_may_come(kind: Any, wanted: Any) -> None:
    """Known and unknown values of open enums, unknown variants, C{_meta}, null as well as unset."""
    assert wanted(find(strategies.of(kind), wanted, settings=FINDING))


@QUICK
@given(strategies.json_of(v1.PromptRequest), strategies.json_of(v1.SessionUpdate))
def test_the_json_of_a_type(prompt: Any, update: Any) -> None:
    """As it is written, a union's with what tells its variants apart."""
    assert isinstance(structure(prompt, v1.PromptRequest), v1.PromptRequest)
    assert isinstance(update["sessionUpdate"], str)


def test_anything_else_is_refused() -> None:
    """A class of one's own, or a string."""
    for kind in (int, "PromptRequest", Model):
        with pytest.raises(TypeError, match="no type of the protocol"):
            strategies.of(kind)


def test_a_strategy_is_one_of_hypothesis() -> None:
    """To be combined with others."""
    assert isinstance(strategies.of(v1.PromptRequest), st.SearchStrategy)
