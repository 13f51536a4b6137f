"""
Whatever the schema allows is read, written again, and still what it was.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import schema_source
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schema_source import Source

from acp_twisted.schema.converter import (
    VERSION1,
    VERSION2,
    _Version,
    describe_error,
    get_converter,
    structure,
    unstructure,
)
from acp_twisted.schema.explain import explain
from acp_twisted.schema.values import Model, SchemaError

Spoken = tuple[Source, _Version]
SPOKEN: list[Spoken] = [(schema_source.V1, VERSION1), (schema_source.V2, VERSION2)]
FLAT = {"SessionConfigSelect", "SessionConfigBoolean", "ElicitationFormMode", "ElicitationUrlMode"}
"""Parts of a larger object, which our classes hold the whole of: they are met within that."""


def whole(spoken: Spoken) -> list[str]:
    """
    The names of what can be read.
    """
    source, version = spoken
    found = []
    for name in source.names():
        made = getattr(version.types, name, None)
        if version.find_union(name) is not None or (isinstance(made, type) and issubclass(made, Model)):
            found.append(name)
    return [name for name in found if name not in FLAT]


def top(spoken: Spoken) -> list[str]:
    """
    The names of what messages carry.
    """
    source, _ = spoken
    names = set(whole(spoken))
    return [name for name, each in source.definitions().items() if "x-method" in each and name in names]


SLICES = [(spoken, top(spoken)[start::6]) for spoken in SPOKEN for start in range(6)]
"""The types of messages in a few handfuls: a test for each would spend its time on the surroundings."""
SLICE_NAMES = [f"{spoken[0]}-{names[0]}-and-others" for spoken, names in SLICES]
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
    for spoken in SPOKEN:
        assert len(whole(spoken)) > 180
        assert len(top(spoken)) > 50


@pytest.mark.parametrize(("spoken", "names"), SLICES, ids=SLICE_NAMES)
def test_what_the_schema_allows_in_a_message_survives(spoken: Spoken, names: list[str]) -> None:
    """
    Every generated value decodes; what comes out is valid, has all that went in, and decodes to an equal object.
    """
    for name in names:
        survives(spoken, name, 15)


@pytest.mark.parametrize("spoken", SPOKEN, ids=lambda spoken: str(spoken[0]))
def test_what_the_schema_allows_elsewhere_survives(spoken: Spoken) -> None:
    """
    The same for each of the types that messages are made of.
    """
    messages = top(spoken)
    for name in whole(spoken):
        if name not in messages:
            survives(spoken, name, 8)


def survives(spoken: Spoken, name: str, examples: int) -> None:
    """
    Check the values of one type.
    """
    source, version = spoken
    kind: Any = getattr(version.types, name)

    @relaxed(examples)
    @given(source.values(name))
    def check(value: Any) -> None:
        source.validator(name).validate(value)  # the strategy's own check
        before = copy.deepcopy(value)
        read = structure(value, kind)
        assert explain(version, name, value) == []
        written = json.loads(json.dumps(_written(read, kind)))
        source.validator(name).validate(written)
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


@pytest.mark.parametrize(("spoken", "names"), SLICES, ids=SLICE_NAMES)
def test_what_does_not_fit_is_refused_in_words(spoken: Spoken, names: list[str]) -> None:
    """
    B53, rule 9: a document with one spot changed either is read, and can be written, or is refused with the path and
    the reason, and without what stood there.
    """
    for name in names:
        is_refused_in_words(spoken, name)


def is_refused_in_words(spoken: Spoken, name: str) -> None:
    """
    Check the broken values of one type.
    """
    source, version = spoken
    kind: Any = getattr(version.types, name)

    @relaxed(20)
    @given(source.values(name), st.data())
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
            assert value is None or explain(version, name, value) == []
            return
        told = describe_error(refused)
        assert refused.problems
        assert all(each["path"].startswith("$") and each["reason"] != "does not fit" for each in told)
        assert SECRET not in json.dumps(told)
        assert SECRET not in str(refused)
        assert refused.__cause__ is None

    check()
