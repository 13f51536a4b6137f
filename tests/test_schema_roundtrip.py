"""
Whatever the schema allows is read, written again, and still what it was.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schema_source import definition_names, definitions, validator, values

from acp_twisted.schema import v1
from acp_twisted.schema.converter import VERSION1, describe_error, get_converter, structure, unstructure
from acp_twisted.schema.explain import explain
from acp_twisted.schema.values import Model, SchemaError

READABLE = [
    name
    for name in definition_names()
    if (isinstance(getattr(v1, name, None), type) and issubclass(getattr(v1, name), Model))
    or VERSION1.find_union(name) is not None
]
FLAT = {"SessionConfigSelect", "SessionConfigBoolean", "ElicitationFormMode", "ElicitationUrlMode"}
"""Parts of a larger object, which our classes hold the whole of: they are met within that."""
WHOLE = [name for name in READABLE if name not in FLAT]
TOP = [name for name, each in definitions().items() if "x-method" in each and name in WHOLE]
SLICES = [TOP[start::6] for start in range(6)]
"""The types of messages in a few handfuls: a test for each would spend its time on the surroundings."""
SECRET = "s3cr3t-value"


def relaxed(examples: int) -> settings:
    """
    A value of these types takes a while to make.
    """
    return settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))


def differences(before: Any, after: Any, path: str = "$") -> list[str]:
    """
    What was in the JSON before and is not the same after: but for nulls and empty containers, which may go.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key, value in before.items():
            if key in after:
                found += differences(value, after[key], f"{path}.{key}")
            elif value is not None and value not in ([], {}):
                found.append(f"{path}.{key} is gone")
        return found
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            each
            for index, pair in enumerate(zip(before, after, strict=True))
            for each in differences(*pair, f"{path}[{index}]")
        ]
    if isinstance(before, bool) is isinstance(after, bool) and before == after:
        return []
    # null is the same as the default, for what has one
    return [] if before is None else [f"{path}: {before!r} became {after!r}"]


def test_all_of_it_is_covered() -> None:
    """
    The types below are more than the handful that a mistake in this file would leave.
    """
    assert len(WHOLE) > 180
    assert len(TOP) > 60


@pytest.mark.parametrize("names", SLICES, ids=lambda names: f"{names[0]}-and-others")
def test_what_the_schema_allows_in_a_message_survives(names: list[str]) -> None:
    """
    Every generated value decodes; what comes out is valid, has all that went in, and decodes to an equal object.
    """
    for name in names:
        survives(name, 15)


def test_what_the_schema_allows_elsewhere_survives() -> None:
    """
    The same for each of the types that messages are made of.
    """
    for name in WHOLE:
        if name not in TOP:
            survives(name, 8)


def survives(name: str, examples: int) -> None:
    """
    Check the values of one type.
    """
    kind: Any = getattr(v1, name)

    @relaxed(examples)
    @given(values(name))
    def check(value: Any) -> None:
        validator(name).validate(value)  # the strategy's own check
        before = copy.deepcopy(value)
        read = structure(value, kind)
        assert explain(VERSION1, name, value) == []
        written = json.loads(json.dumps(_written(read, kind)))
        validator(name).validate(written)
        assert differences(before, written) == []
        assert structure(written, kind) == read
        assert value == before, "reading changed its input"

    check()


def _written(value: Any, kind: Any) -> Any:
    """
    Unions are written in their context, as within the object that holds them.
    """
    if isinstance(kind, type):
        return unstructure(value)
    return get_converter().unstructure(value, unstructure_as=kind)


def spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """
    The paths to everything in a document.
    """
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(spot for key, each in items for spot in spots(each, (*path, key)))]


REPLACEMENTS = st.sampled_from([None, True, 7, -1, 2**70, 1.5, SECRET, [], [SECRET], {}, {"type": SECRET}])


@pytest.mark.parametrize("names", SLICES, ids=lambda names: f"{names[0]}-and-others")
def test_what_does_not_fit_is_refused_in_words(names: list[str]) -> None:
    """
    B53, rule 9: a document with one spot changed either is read, and can be written, or is refused with the path and
    the reason, and without what stood there.
    """
    for name in names:
        is_refused_in_words(name)


def is_refused_in_words(name: str) -> None:
    """
    Check the broken values of one type.
    """
    kind: Any = getattr(v1, name)

    @relaxed(20)
    @given(values(name), st.data())
    def check(value: Any, data: st.DataObject) -> None:
        spot = data.draw(st.sampled_from(spots(value)))
        replacement = copy.deepcopy(data.draw(REPLACEMENTS))
        if spot:
            inner = value
            for key in spot[:-1]:
                inner = inner[key]
            if data.draw(st.booleans()):
                inner[spot[-1]] = replacement
            elif isinstance(inner, dict):
                del inner[spot[-1]]
        else:
            value = replacement
        refused = None
        try:
            json.dumps(unstructure(structure(value, kind)))
        except SchemaError as error:
            refused = error
        if refused is None:
            assert value is None or explain(VERSION1, name, value) == []
            return
        told = describe_error(refused)
        assert refused.problems
        assert all(each["path"].startswith("$") and each["reason"] != "does not fit" for each in told)
        assert SECRET not in json.dumps(told)
        assert SECRET not in str(refused)
        assert refused.__cause__ is None

    check()
