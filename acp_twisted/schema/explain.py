"""
What exactly does not fit: a second look at JSON that the codec refused.

It says where and why, and never what was there, since that may be a secret (design rule 9).  Of objects of any content
it does not even say the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from acp_twisted.schema import leaves
from acp_twisted.schema.codec import Version
from acp_twisted.schema.leaves import RANGES, SIMPLE, Field, Misfit, fields_of, split
from acp_twisted.schema.values import UNSET, ByItems, Model, Problem, Tagged

MAX_PROBLEMS: Final = 20
MISSING: Final = "is missing"


def _integer(kind: str) -> Callable[[Any], str | None]:
    low, high = RANGES[kind]

    def check(value: Any) -> str | None:
        if value.__class__ is not int and not (value.__class__ is float and value.is_integer()):
            return "must be a whole number"
        return None if low <= value <= high else f"is not within {low} and {high}"

    return check


def _number(value: Any) -> str | None:
    return None if value.__class__ in (int, float) and abs(value) <= leaves.BIGGEST else "must be a number"


def _attempt(read: Callable[[Any], object], reason: str) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        try:
            read(value)
        except (Misfit, ValueError):
            return reason
        return None

    return check


_SIMPLE: Final[dict[str, Callable[[Any], str | None]]] = {
    **{kind: _integer(kind) for kind in RANGES},
    "any": lambda value: None,
    "str": lambda value: None if value.__class__ is str else "must be a string",
    "bool": lambda value: None if value.__class__ is bool else "must be true or false",
    "map": lambda value: None if value.__class__ is dict else "must be an object",
    "double": _number,
    "request_id": _attempt(leaves.request_id, "must be a whole number, a string or null"),
    "strict_id": _attempt(leaves.strict_id, "must be a whole number or a string"),
    "content_value": _attempt(leaves.content_value, "must be a string, a number, a boolean or an array of strings"),
}


_OF_SETTINGS: Final = {"config_value": leaves.config_value, "typed_value": leaves.typed_value}


class _Look:
    """
    One look at one document.
    """

    def __init__(self, version: Version) -> None:
        self.version = version
        self.problems: list[Problem] = []

    def add(self, path: str, reason: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(path, reason))

    def at(self, kind: str, value: Any, path: str) -> None:
        outer, inner = split(kind)
        if outer == "list":
            self.items(inner, value, path)
        elif outer == "dict":
            if value.__class__ is not dict:
                self.add(path, "must be an object")
            else:
                for each in value.values():
                    self.at(inner, each, f"{path}.*")
        elif kind in SIMPLE:
            reason = _SIMPLE[kind](value)
            if reason is not None:
                self.add(path, reason)
        else:
            self.named(kind, value, path)

    def items(self, kind: str, value: Any, path: str) -> None:
        if value.__class__ is not list:
            self.add(path, "must be an array")
            return
        for index, each in enumerate(value):
            self.at(kind, each, f"{path}[{index}]")

    def named(self, name: str, value: Any, path: str) -> None:
        """
        A class or a union.
        """
        union = self.version.find_union(name)
        if union is None:
            self.object(self.version.find_class(name), value, path)
        elif isinstance(union, ByItems):
            present = value.__class__ is list and any(each.__class__ is dict and union.member in each for each in value)
            self.items(union.present if present else union.absent, value, path)
        elif value.__class__ is not dict:
            self.add(path, "must be an object")
        elif isinstance(union, Tagged):
            self.tagged(union, value, path)
        else:
            found = [each for member, each in union.variants.items() if member in value]
            if found:
                self.object(self.version.find_class(found[0]), value, path)
            else:
                self.add(path, f"must have one of {', '.join(union.variants)}")

    def tagged(self, union: Tagged, value: dict[str, Any], path: str) -> None:
        tag = value.get(union.tag)
        if isinstance(tag, str):
            name = union.variants.get(tag, union.fallback)
        elif tag is None and union.default is not None:
            name = union.default
        else:
            name = None
            self.add(f"{path}.{union.tag}", "must be a string" if union.tag in value else MISSING)
        if name is None:
            return
        inner = self.version.find_union(name)
        if isinstance(inner, Tagged) and inner.fallback != name:
            self.tagged(inner, value, path)
        else:
            self.object(self.version.find_class(name), value, path)

    def object(self, cls: type[Model], value: Any, path: str) -> None:
        """
        An object of a class.
        """
        if value.__class__ is not dict:
            self.add(path, "must be an object")
            return
        fields = list(fields_of(cls))
        for each in fields:
            self.member(each, value, f"{path}.{each.wire}")
        wanted = [each for each in fields if each.name in cls.ONE_OF]
        if wanted and not any(_there(each, value) for each in wanted):
            self.add(path, f"must have one of {', '.join(each.wire for each in wanted)}")

    def member(self, each: Field, whole: dict[str, Any], path: str) -> None:
        if each.needed and each.wire not in whole:
            self.add(path, MISSING)
        elif each.lenient or (not each.needed and not _there(each, whole)):
            return
        elif each.skip:
            if whole[each.wire].__class__ is not list:
                self.add(path, "must be an array")
        elif each.type in _OF_SETTINGS:
            read = _OF_SETTINGS[each.type]
            check = _attempt(lambda value: read(value, whole), "does not have the type of the setting")
            reason = check(whole[each.wire])
            if reason is not None:
                self.add(path, reason)
        else:
            self.at(each.type, whole[each.wire], path)


def _there(each: Field, whole: dict[str, Any]) -> bool:
    if each.type in ("any", "request_id") and each.default is UNSET:
        return each.wire in whole
    return whole.get(each.wire) is not None


def explain(version: Version, kind: str, value: object) -> list[Problem]:
    """
    What does not fit, in the order of the class's members, at most L{MAX_PROBLEMS} of it.

    @param kind: the name of a class or a union, or C{list[…]} of one.
    """
    look = _Look(version)
    look.at(kind, value, "$")
    return look.problems
