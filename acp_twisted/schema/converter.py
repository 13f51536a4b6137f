"""
JSON to the protocol's classes and back: for this library with L{structure} and L{unstructure}, for others with cattrs.

L{get_converter} gives a cattrs converter that reads and writes the protocol's classes, also within classes of one's
own.  The two functions do not go through it: they call directly what L{acp_twisted.schema.codec} compiled.  So cattrs,
whose import takes half as long as that of the whole schema, is loaded only for who wants it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from acp_twisted.schema import v1
from acp_twisted.schema.codec import Codec, Function
from acp_twisted.schema.explain import explain
from acp_twisted.schema.values import Alternatives, Model, Problem, SchemaError, UnknownVariant

if TYPE_CHECKING:
    from cattrs import Converter

_T = TypeVar("_T")


class _Version1:
    """
    The names of protocol version 1.  What is unstable is loaded when one of its names is asked for.
    """

    def find_class(self, name: str) -> type[Model]:
        found = getattr(v1, name)
        assert isinstance(found, type)
        return found

    def find_union(self, name: str) -> Alternatives | None:
        return v1.UNIONS.get(name)


VERSION1 = _Version1()
_codec = Codec(VERSION1)
_readers: dict[Any, Function] = {}
_writers: dict[type, Function] = {UnknownVariant: lambda value: value.raw}


def on_skipped(observe: Callable[[str, str, int], None]) -> None:
    """
    Have a function told of list items that did not fit and were left out, where the protocol wants that.

    @param observe: called with the name of the class, the name of the member, and how many items there were.
    """
    _codec.skipped = observe


def _name_of(kind: Any) -> str:
    """
    The name of a class or of the alias of a union.

    @raise TypeError: when it is neither.
    """
    if isinstance(kind, type) and issubclass(kind, Model):
        return kind.__name__
    for name in v1.UNIONS:
        if getattr(v1, name) == kind:
            return name
    raise TypeError(f"{kind!r} is no type of the protocol")


@overload
def structure(value: object, kind: type[_T]) -> _T: ...


@overload
def structure(value: object, kind: object) -> Any: ...


def structure(value: object, kind: object) -> Any:
    """
    An object of the protocol out of parsed JSON.

    @param kind: a class of L{v1}, or a union such as C{v1.ContentBlock}.
    @raise SchemaError: when the JSON is none; it says where and why.
    @raise TypeError: when C{kind} is nothing of the protocol.
    """
    read = _readers.get(kind)
    if read is None:
        read = _readers[kind] = _codec.reader(_name_of(kind))
    try:
        return read(value)
    except Exception:
        name = _name_of(kind)
        raise SchemaError(name, _problems(name, value)) from None


def _problems(name: str, value: object) -> list[Problem]:
    return explain(VERSION1, name, value) or [Problem("$", "does not fit")]


def unstructure(value: object) -> Any:
    """
    An object of the protocol as what becomes JSON: dicts, lists, strings, numbers.

    @raise TypeError: when it is no object of the protocol, or one within it is not of the union it stands in.
    @raise ValueError: when it holds something that JSON has not, or lacks something that it needs.
    """
    write = _writers.get(value.__class__)
    if write is None:
        write = _writer_of(value.__class__)
    return write(value)


def _writer_of(cls: type) -> Function:
    for base in cls.__mro__:
        if base in _writers:
            made = _writers[base]
            break
        if base.__module__ in (v1.__name__, f"{v1.__name__}_unstable"):
            made = _codec.class_writer(base)
            break
    else:
        raise TypeError(f"{cls.__name__} is no class of the protocol")
    _writers[cls] = made
    return made


def describe_error(error: BaseException) -> list[dict[str, str]]:
    """
    An error of L{structure} as the data of an error for the peer, or for a log: paths and reasons, never values.
    """
    if isinstance(error, SchemaError):
        return [{"path": path, "reason": reason} for path, reason in error.problems]
    return [{"path": "$", "reason": "does not fit"}]


# ---- cattrs

_shared: Converter | None = None


def get_converter(converter: Converter | None = None) -> Converter:
    """
    A cattrs converter that reads and writes the protocol's classes and unions.

    Where such a converter has a hook of its own for one of the classes, registered afterwards, that is used, also when
    an object of the class is within another one.

    @param converter: the one to extend; without it, one that all callers share, which should not be changed.
    """
    global _shared  # noqa: PLW0603
    if converter is None and _shared is not None:
        return _shared
    from cattrs import Converter  # noqa: PLC0415

    made = converter or Converter()
    _teach(made)
    if converter is None:
        _shared = made
    return made


def _teach(converter: Converter) -> None:
    codec = Codec(VERSION1)
    reading: dict[type[Model], Callable[[Any, Any], Any]] = {}
    writing: dict[type[Model], Function] = {}

    def reading_hook(name: str, read: Callable[[str], Function]) -> Callable[[Any, Any], Any]:
        def hook(value: Any, _: Any) -> Any:
            try:
                return read(name)(value)
            except Exception:
                raise SchemaError(name, _problems(name, value)) from None

        return hook

    def class_reading(cls: type[Model]) -> Callable[[Any, Any], Any]:
        return reading.setdefault(cls, reading_hook(cls.__name__, codec.reader))

    def class_writing(cls: type[Model]) -> Function:
        def hook(value: Any) -> Any:
            return codec.class_writer(cls)(value)

        return writing.setdefault(cls, hook)

    def foreign_reader(cls: type[Model]) -> Function | None:
        hook = converter.get_structure_hook(cls)
        return None if hook is class_reading(cls) else lambda value: hook(value, cls)

    def foreign_writer(cls: type[Model]) -> Function | None:
        hook = converter.get_unstructure_hook(cls)
        return None if hook is class_writing(cls) else hook

    codec.foreign_reader = foreign_reader
    codec.foreign_writer = foreign_writer
    converter.register_structure_hook_factory(_is_model, class_reading)
    converter.register_unstructure_hook_factory(_is_model, class_writing)
    converter.register_unstructure_hook(UnknownVariant, lambda value: value.raw)
    for name in v1.UNIONS:
        kind = getattr(v1, name)
        if not isinstance(kind, type):
            converter.register_structure_hook_func(
                lambda other, kind=kind: other == kind,  # type: ignore[misc]
                reading_hook(name, codec.reader),
            )
            converter.register_unstructure_hook_func(
                lambda other, kind=kind: other == kind,  # type: ignore[misc]
                lambda value, name=name: codec.writer(name)(value),  # type: ignore[misc]
            )


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Model)
