"""
What a user filled in, and the form that he was given.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from acp_twisted.schema import v1
from acp_twisted.schema.converter import structure
from acp_twisted.schema.forms import defaults_of, problems_of
from acp_twisted.testing import strategies

COLOURS = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]


def form(required: tuple[str, ...] = (), **fields: dict[str, Any]) -> v1.ElicitationSchema:
    """A form with some fields, as JSON."""
    return structure({"type": "object", "properties": fields, "required": list(required)}, v1.ElicitationSchema)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "string"}, ""),
        ({"type": "string", "minLength": 2, "maxLength": 2}, "ab"),
        ({"type": "string", "enum": ["a"]}, "a"),
        ({"type": "string", "oneOf": COLOURS}, "g"),
        ({"type": "string", "pattern": "^a"}, "b"),
        ({"type": "string", "format": "email"}, "a@b"),
        ({"type": "string", "format": "uri"}, "urn:x"),
        ({"type": "string", "format": "date"}, "2026-11-30"),
        ({"type": "string", "format": "date-time"}, "2026-11-30T11:00:00Z"),
        ({"type": "string", "format": "date-time"}, "2026-11-30t11:00:00.1234567+01:00"),
        ({"type": "string", "format": "hologram"}, "x"),
        ({"type": "number", "minimum": 1, "maximum": 2}, 1.5),
        ({"type": "integer", "minimum": 1}, 1),
        ({"type": "integer"}, 2.0),
        ({"type": "boolean"}, False),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2}, ["b", "a"]),
        ({"type": "array", "items": {"anyOf": COLOURS}}, ["r"]),
        ({"type": "hologram"}, {"x": 1}),
    ],
)
def test_what_fits(field: dict[str, Any], value: Any) -> None:
    """ELIC-CLIENT-VALIDATE: each kind of field, and one that nobody knows; another's expressions are not run."""
    assert problems_of(form(("f",), f=field), {"f": value, "more": 1}) == []


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ({"type": "string"}, 1, "should be a string"),
        ({"type": "string", "minLength": 2}, "a", "is shorter than 2"),
        ({"type": "string", "maxLength": 1}, "ab", "is longer than 1"),
        ({"type": "string", "enum": ["a"]}, "b", "is none of what is offered"),
        ({"type": "string", "oneOf": COLOURS}, "Red", "is none of what is offered"),
        ({"type": "string", "format": "email"}, "a b@c", "is no email"),
        ({"type": "string", "format": "uri"}, "no scheme", "is no uri"),
        ({"type": "string", "format": "date"}, "30.11.2026", "is no date"),
        ({"type": "string", "format": "date-time"}, "2026-11-30", "is no date-time"),
        ({"type": "string", "format": "date-time"}, "2026-11-30T11:00:00", "is no date-time"),
        ({"type": "number"}, "1", "should be a number"),
        ({"type": "number"}, True, "should be a number"),
        ({"type": "number", "minimum": 1}, 0.5, "is less than 1"),
        ({"type": "number", "maximum": 1}, 1.5, "is more than 1"),
        ({"type": "integer"}, 1.5, "should be a whole number"),
        ({"type": "integer"}, "1", "should be a number"),
        ({"type": "boolean"}, "true", "should be true or false"),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, "a", "should be a list of strings"),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, ["b"], "has something that is not offered"),
        ({"type": "array", "items": {"anyOf": COLOURS}, "minItems": 1}, [], "has less than 1 items"),
        ({"type": "array", "items": {"anyOf": COLOURS}, "maxItems": 1}, ["r", "g"], "has more than 1 items"),
    ],
)
def test_what_does_not(field: dict[str, Any], value: Any, reason: str) -> None:
    """ELIC-CLIENT-VALIDATE, ELIC-AGENT-REVALIDATE: where and why, and never the value."""
    assert problems_of(form(f=field), {"f": value}) == [("$.f", reason)]


def test_what_is_required() -> None:
    """A field may be left out, unless the form says otherwise."""
    asked = form(("a",), a={"type": "string"}, b={"type": "string"})
    assert problems_of(asked, None) == problems_of(asked, {}) == [("$.a", "is missing")]
    assert problems_of(asked, {"a": ""}) == []


def test_expressions_of_ones_own() -> None:
    """An agent may look at them in its own form."""
    asked = form(f={"type": "string", "pattern": "^a"})
    assert problems_of(asked, {"f": "b"}, patterns=True) == [("$.f", "does not match the pattern")]
    assert problems_of(asked, {"f": "ab"}, patterns=True) == []


@pytest.mark.parametrize("pattern", ["(", r"^\p{L}+$", "a{9,1}", "(?<name>x)"])
def test_expressions_that_python_does_not_have(pattern: str) -> None:
    """JSON schema's are ECMAScript's: what can't be tried here does not fail what was filled in."""
    asked = form(f={"type": "string", "pattern": pattern})
    assert problems_of(asked, {"f": "b"}, patterns=True) == []


def test_what_is_filled_in_is_an_object() -> None:
    """Also when a handler of one's own says otherwise."""
    asked = form(f={"type": "string"})
    wrong: Any = ["f"]
    assert problems_of(asked, wrong) == [("$", "should be an object")]


def test_defaults() -> None:
    """Those that fit."""
    asked = form(
        a={"type": "string", "default": "x"},
        b={"type": "integer", "minimum": 3, "default": 1},
        c={"type": "boolean", "default": False},
        d={"type": "array", "items": {"anyOf": COLOURS}, "default": ["r"]},
        e={"type": "hologram", "default": 1},
        f={"type": "string"},
    )
    assert defaults_of(asked) == {"a": "x", "c": False, "d": ["r"]}


@given(strategies.of(v1.ElicitationSchema), strategies.META)
def test_no_form_is_too_strange(asked: v1.ElicitationSchema, content: dict[str, Any]) -> None:
    """Whatever is asked and whatever is said: an answer, and no failure; what a form begins with is fine."""
    problems_of(asked, content)
    begun = {**content, **{name: content.get(name) for name in asked.properties}}
    problems_of(asked, begun)
    assert [each for each in problems_of(asked, defaults_of(asked)) if each.reason != "is missing"] == []
