"""
Hypothesis strategies for every type of the protocol: C{of(v1.SessionNotification)}.

They follow from the classes themselves, so they are never behind the schema: whatever a class can hold and the wire can
carry may come, unknown values of open enums, unknown variants of unions, C{_meta} and unset members among them.  What
they make reads the same after it was written.

This needs hypothesis, which C{pip install acp_twisted[testing]} brings.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, overload

from attrs import fields_dict

from acp_twisted.schema.converter import get_converter, unstructure
from acp_twisted.schema.leaves import BIGGEST, RANGES, Field, fields_of, split
from acp_twisted.schema.values import UNSET, Alternatives, ByItems, ByMember, MetaOnly, Model, Tagged, UnknownVariant

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ImportError as error:
    raise ImportError(f"strategies need hypothesis: pip install 'acp_twisted[testing]' ({error})") from error

_T = TypeVar("_T")

VERSIONS = ("acp_twisted.schema.v1", "acp_twisted.schema.v2", "acp_twisted.schema.nes")
"""The modules whose types there are strategies for, as far as they exist."""

TEXTS = st.text(max_size=12)
SMALL = 3
"""The most items that a list or an object has."""

_NUMBERS = st.floats(min_value=-BIGGEST, max_value=BIGGEST, allow_nan=False, allow_infinity=False)
_INTEGERS = st.integers(*RANGES["int64"])

JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _INTEGERS | _NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=SMALL) | st.dictionaries(TEXTS, inner, max_size=SMALL),
    max_leaves=6,
)
"""Any JSON, small."""

META: SearchStrategy[dict[str, Any]] = st.dictionaries(
    TEXTS | st.sampled_from(["traceparent", "tracestate", "baggage"]), JSON, max_size=SMALL
)
"""What may stand in C{_meta}."""

_LEAVES: dict[str, SearchStrategy[Any]] = {
    **{name: st.integers(low, high) for name, (low, high) in RANGES.items()},
    "str": TEXTS,
    "bool": st.booleans(),
    "any": JSON,
    "map": META,
    "double": _NUMBERS,
    "request_id": st.none() | TEXTS | _INTEGERS,
    "strict_id": TEXTS | _INTEGERS,
    "content_value": TEXTS | st.booleans() | _INTEGERS | _NUMBERS | st.lists(TEXTS, max_size=SMALL),
    "config_value": TEXTS | st.booleans(),
    "typed_value": JSON,
}


@overload
def of(kind: type[_T]) -> SearchStrategy[_T]: ...


@overload
def of(kind: object) -> SearchStrategy[Any]: ...


def of(kind: object) -> SearchStrategy[Any]:
    """
    Values of a type of the protocol.

    @param kind: a class such as C{v1.PromptRequest}, or a union such as C{v1.SessionUpdate}.
    @raise TypeError: when it is nothing of the protocol.
    """
    for name in VERSIONS:
        module = sys.modules.get(name)  # what is not loaded has no types that anybody could ask for
        if module is not None:
            for union in module.UNIONS:
                if getattr(module, union) == kind:
                    return _named(name, union)
    if isinstance(kind, type) and issubclass(kind, Model) and _home(kind) in VERSIONS:
        known: Any = kind
        return _object(known)
    raise TypeError(f"{kind!r} is no type of the protocol")


def json_of(kind: object) -> SearchStrategy[Any]:
    """
    The same, as the JSON that is written.
    """
    return of(kind).map(lambda value: written(value, kind))


def written(value: object, kind: object) -> Any:
    """
    A value as the JSON that is written where a C{kind} stands: a union's with what tells its variants apart.
    """
    return unstructure(value) if isinstance(kind, type) else get_converter().unstructure(value, unstructure_as=kind)


def types(version: str = VERSIONS[0]) -> list[type[Model]]:
    """
    Every class of a version of the protocol, the unstable ones too, by name.

    @param version: its module.
    """
    found = {}
    for name in (version, f"{version}_unstable"):
        module = _module(name)
        for member in vars(module).values() if module is not None else ():
            if isinstance(member, type) and issubclass(member, Model) and member.__module__ == name:
                found[member.__name__] = member
    return [found[name] for name in sorted(found)]


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def _home(cls: type) -> str:
    """The version that a class is of."""
    return cls.__module__.removesuffix("_unstable")


@functools.cache
def _named(version: str, name: str) -> SearchStrategy[Any]:
    """A class or union by its name."""
    module = _module(version)
    union = module.UNIONS.get(name)
    return _object(getattr(module, name)) if union is None else _union(version, name, union)


def _union(version: str, name: str, union: Alternatives) -> SearchStrategy[Any]:
    module = _module(version)

    def variant(of_class: str) -> SearchStrategy[Any]:
        return st.deferred(lambda: _object(getattr(module, of_class)))

    if isinstance(union, ByItems):
        return st.lists(variant(union.present), max_size=SMALL) | st.lists(variant(union.absent), max_size=SMALL)
    if isinstance(union, ByMember):
        return st.one_of([variant(each) for each in union.variants.values()])
    choices = []
    for tag, each in union.variants.items():
        inner = module.UNIONS.get(each)
        nested = isinstance(inner, Tagged) and each != name and union.fallback is None
        choices.append(_nested(version, each, {union.tag: tag}) if nested else variant(each))
    if union.default is not None:
        choices.append(variant(union.default))
    choices.append(_unknown(union) if union.fallback is None else variant(union.fallback))
    return st.one_of(choices)


def _nested(version: str, name: str, outer: dict[str, str]) -> SearchStrategy[Any]:
    """A variant that is a union itself: one of it that is not known still has the tag of the outer one."""

    def tagged(value: Any) -> Any:
        return UnknownVariant(value.tag, {**value.raw, **outer}) if isinstance(value, UnknownVariant) else value

    return st.deferred(lambda: _named(version, name)).map(tagged)


def _other_than(known: Collection[str]) -> SearchStrategy[str]:
    return TEXTS.filter(lambda text: text not in known)


def _unknown(union: Tagged) -> SearchStrategy[UnknownVariant]:
    """A variant that this version does not know."""

    def made(tag: str, rest: dict[str, Any]) -> UnknownVariant:
        return UnknownVariant(tag, {**rest, union.tag: tag})

    return st.builds(made, _other_than(union.variants), st.dictionaries(TEXTS, JSON, max_size=2))


@functools.cache
def _object(cls: Any) -> SearchStrategy[Any]:
    """Objects of one class."""
    if cls is MetaOnly:
        raise TypeError("MetaOnly is only a base")
    fields = list(fields_of(cls))
    members = {each.name: _member(cls, each) for each in fields}
    if "extra" in fields_dict(cls):
        known = {each.wire for each in fields}
        names = TEXTS.filter(lambda name: name not in known)
        members["extra"] = st.none() | st.dictionaries(names, JSON, min_size=1, max_size=SMALL)
    choices = [members]
    if any(each.type == "typed_value" for each in fields):
        typed: dict[str, SearchStrategy[Any]] = {"id": TEXTS, "boolean": st.booleans()}
        choices = [{**members, "type": st.just(tag), "value": values} for tag, values in typed.items()]
        choices.append({**members, "type": _other_than(typed)})
    made = st.one_of([st.fixed_dictionaries(each) for each in choices]).map(lambda values: cls(**values))
    if cls.ONE_OF:
        made = made.filter(lambda value: any(getattr(value, each) not in (None, UNSET) for each in cls.ONE_OF))
    return made


def _member(cls: type[Model], each: Field) -> SearchStrategy[Any]:
    """What one attribute may hold."""
    fixed = _tag(cls, each)
    if fixed is not None:
        return fixed
    values = _value(_home(cls), each.type)
    if each.type == "str":
        known = list(_literals(cls, each.name))
        if known:
            values = st.sampled_from(known) | values
    if each.written == "touched":
        return st.just(UNSET) | (values if each.type in ("any", "request_id") else st.none() | values)
    if each.written == "set":
        return st.none() | values
    return values


def _tag(cls: type[Model], each: Field) -> SearchStrategy[Any] | None:
    """What an attribute holds that tells the variants of a union apart; L{None} if it is another."""
    for union in _module(_home(cls)).UNIONS.values():
        if not isinstance(union, Tagged) or union.tag != each.wire:
            continue
        mine = [tag for tag, name in union.variants.items() if name == cls.__name__]
        if mine:
            return st.sampled_from(mine)
        if union.fallback == cls.__name__:
            return _other_than(union.variants)
    return None


def _value(version: str, kind: str) -> SearchStrategy[Any]:
    outer, inner = split(kind)
    if outer == "list":
        return st.lists(_value(version, inner), max_size=SMALL)
    if outer == "dict":
        return st.dictionaries(TEXTS, _value(version, inner), max_size=SMALL)
    return _LEAVES[kind] if kind in _LEAVES else st.deferred(lambda: _named(version, kind))


class _Names(Mapping[str, Any]):
    """The names of a version, the unstable ones too, for evaluating annotations."""

    def __init__(self, version: str) -> None:
        self._module = _module(version)

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self._module, name)
        except AttributeError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self._module))

    def __len__(self) -> int:
        return len(vars(self._module))


def _literals(cls: type[Model], attribute: str) -> Iterator[str]:
    """The known values of an open enum."""
    for base in cls.__mro__:
        annotation = inspect.get_annotations(base).get(attribute)
        if annotation is not None:
            kind = eval(annotation, {}, _Names(_home(base))) if isinstance(annotation, str) else annotation
            yield from _within(kind)
            return


def _within(kind: Any) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from (value for value in get_args(kind) if isinstance(value, str))
        return
    for each in get_args(kind):
        yield from _within(each)
