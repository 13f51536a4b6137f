"""
The simple values of the protocol, and what the codec knows of an attribute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from attrs import NOTHING, Factory, fields_dict

from acp_twisted.schema.values import UNSET, Model

RANGES: Final[dict[str, tuple[int, int]]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
SIMPLE: Final = frozenset(
    {
        *RANGES,
        "str",
        "bool",
        "any",
        "map",
        "double",
        "request_id",
        "strict_id",
        "content_value",
        "config_value",
        "typed_value",
    }
)
BIGGEST: Final = sys.float_info.max


class Misfit(ValueError):
    """
    A value does not fit.  There is no more to it: L{acp_twisted.schema.explain} finds out what and where.
    """


class Field(NamedTuple):
    """
    What is known of one attribute.

    @ivar type: a simple type, the name of a class or a union, or C{list[…]} or C{dict[…]} of one.
    @ivar lenient: a value that does not fit counts as absent.
    @ivar skip: an item that does not fit is left out.
    @ivar needed: reading fails without it.
    @ivar written: C{always}, C{filled} (unless it is empty), C{set} (unless it is L{None}), or C{touched} (unless it is
        C{UNSET}).
    @ivar default: what an absent one is; with C{factory}, what makes that.
    """

    name: str
    wire: str
    type: str
    lenient: bool
    skip: bool
    needed: bool
    written: str
    default: Any
    factory: Callable[[], Any] | None


def fields_of(cls: type[Model]) -> Iterator[Field]:
    """
    The attributes of a class, in the order of its table.
    """
    attributes = fields_dict(cls)
    for name, (wire, kind, *flags) in cls.WIRE.items():
        how = flags[0].split() if flags else []
        default: Any = attributes[name].default
        factory: Callable[[], Any] | None = None
        needed = default is NOTHING
        if needed and "lenient" in how:
            # A required list: strict in what we send, lenient in what we take.
            needed, factory = False, list
        elif isinstance(default, Factory):  # type: ignore[arg-type]
            factory = default.factory
        if needed or factory:
            default = None
            written = "filled" if "omit" in how else "always"
        elif default is UNSET:
            written = "touched"
        else:
            written = "set" if default is None else "always"
        yield Field(name, wire, kind, "lenient" in how, "skip" in how, needed, written, default, factory)


def split(kind: str) -> tuple[str, str]:
    """
    C{list[X]} as C{("list", "X")}; anything else with an empty first half.
    """
    if kind.endswith("]"):
        outer, _, inner = kind.partition("[")
        return outer, inner[:-1]
    return "", kind


def whole(value: Any) -> int:
    """
    An integer out of a number without a fraction.
    """
    if value.__class__ is float and value.is_integer():
        return int(value)
    raise Misfit


def finite(value: float) -> float:
    """
    A number that JSON can have.

    @raise ValueError: for NaN and the infinities.
    """
    if not -BIGGEST <= value <= BIGGEST:
        raise ValueError("JSON has no NaN and no infinity")
    return value


def request_id(value: Any) -> int | str | None:
    """
    The id of a JSON-RPC request: an int64, a string or null.
    """
    if value is None or value.__class__ is str:
        return value
    number: int = value if value.__class__ is int else whole(value)
    if not -(2**63) <= number < 2**63:
        raise Misfit
    return number


def strict_id(value: Any) -> int | str:
    """
    The same where null is no id.
    """
    made = request_id(value)
    if made is None:
        raise Misfit
    return made


def content_value(value: Any) -> Any:
    """
    What a field of a form may hold: a string, a number, a boolean or strings.
    """
    if value.__class__ is list:
        if any(each.__class__ is not str for each in value):
            raise Misfit
        return value
    if value.__class__ not in (str, bool, int, float):
        raise Misfit
    if value.__class__ is float:
        finite(value)
    return value


def config_value(value: Any, whole_object: dict[str, Any]) -> str | bool:
    """
    The value of a setting: the object around it tells of which type.
    """
    wanted = bool if whole_object.get("type") == "boolean" else str
    if value.__class__ is not wanted:
        raise Misfit
    return value


def typed_value(value: Any, whole_object: dict[str, Any]) -> Any:
    """
    The value of a setting whose type is always told.  Of a type that is not known it is any value.
    """
    kind = whole_object.get("type")
    if (kind == "id" and value.__class__ is not str) or (kind == "boolean" and value.__class__ is not bool):
        raise Misfit
    return value
