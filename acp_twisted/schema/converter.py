"""
JSON to the protocol's classes and back: for this library with L{structure} and L{unstructure}, for others with cattrs.

L{get_converter} gives a cattrs converter that reads and writes the protocol's classes, also within classes of one's
own.  The two functions do not go through it: they call directly what L{acp_twisted.schema.codec} compiled.  So cattrs,
whose import takes half as long as that of the whole schema, is loaded only for who wants it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, overload

from acp_twisted.schema.codec import Codec, Function
from acp_twisted.schema.explain import explain
from acp_twisted.schema.values import Alternatives, Model, Problem, SchemaError, UnknownVariant

if TYPE_CHECKING:
    from cattrs import Converter

_T = TypeVar("_T")


class _Version:
    """
    The names of one version of the protocol.  Its module is loaded when one of its names is asked for, and what is
    unstable when one of those is.

    @ivar codec: what reads and writes them.
    """

    def __init__(self, name: str) -> None:
        self._module = f"acp_twisted.schema.{name}"
        self.modules = (self._module, f"{self._module}_unstable")
        self.codec = Codec(self)

    @property
    def types(self) -> Any:
        """
        The module of its classes.
        """
        return import_module(self._module)

    @property
    def unions(self) -> dict[str, Alternatives]:
        """
        Its unions; none while the module is not loaded, since then nobody can have one.
        """
        return self.types.UNIONS if self._module in sys.modules else {}

    def find_class(self, name: str) -> type[Model]:
        found = getattr(self.types, name)
        assert isinstance(found, type)
        return found

    def find_union(self, name: str) -> Alternatives | None:
        found: Alternatives | None = self.types.UNIONS.get(name)
        return found

    def name_of(self, kind: Any) -> str | None:
        """
        The name of a class or of the alias of a union, if it is one of this version's.
        """
        if isinstance(kind, type) and issubclass(kind, Model):
            return kind.__name__ if self.has(kind) else None
        return next((name for name in self.unions if getattr(self.types, name) == kind), None)

    def has(self, cls: type) -> bool:
        """
        Whether a class is one of this version's.
        """
        return cls.__module__ in self.modules


VERSION1 = _Version("v1")
VERSION2 = _Version("v2")
NES = _Version("nes")
VERSIONS = (VERSION1, VERSION2, NES)
_readers: dict[Any, Function] = {}
_writers: dict[type, Function] = {UnknownVariant: lambda value: value.raw}


def on_skipped(observe: Callable[[str, str, int], None]) -> None:
    """
    Have a function told of list items that did not fit and were left out, where the protocol wants that.

    @param observe: called with the name of the class, the name of the member, and how many items there were.
    """
    for version in VERSIONS:
        version.codec.skipped = observe


def _found(kind: Any) -> tuple[_Version, str]:
    """
    A class or the alias of a union, by its version and its name.

    @raise TypeError: when it is neither.
    """
    for version in VERSIONS:
        name = version.name_of(kind)
        if name is not None:
            return version, name
    raise TypeError(f"{kind!r} is no type of the protocol")


@overload
def structure(value: object, kind: type[_T]) -> _T: ...


@overload
def structure(value: object, kind: object) -> Any: ...


def structure(value: object, kind: object) -> Any:
    """
    An object of the protocol out of parsed JSON.

    @param kind: a class of C{v1} or C{v2}, or a union such as C{v1.ContentBlock}.
    @raise SchemaError: when the JSON is none; it says where and why.
    @raise TypeError: when C{kind} is nothing of the protocol.
    """
    read = _readers.get(kind)
    if read is None:
        version, name = _found(kind)
        read = _readers[kind] = version.codec.reader(name)
    try:
        return read(value)
    except Exception:
        version, name = _found(kind)
        raise SchemaError(name, _problems(version, name, value)) from None


def _problems(version: _Version, name: str, value: object) -> list[Problem]:
    return explain(version, name, value) or [Problem("$", "does not fit")]


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
        version = next((each for each in VERSIONS if each.has(base)), None)
        if version is not None:
            made = version.codec.class_writer(base)
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
    converter.register_unstructure_hook(UnknownVariant, lambda value: value.raw)
    for version in VERSIONS:
        _teach_version(converter, version)


def _teach_version(converter: Converter, version: _Version) -> None:
    codec = Codec(version)
    reading: dict[type[Model], Callable[[Any, Any], Any]] = {}
    writing: dict[type[Model], Function] = {}

    def is_ours(kind: Any) -> bool:
        return isinstance(kind, type) and issubclass(kind, Model) and version.has(kind)

    def is_union(kind: Any) -> bool:
        return not isinstance(kind, type) and version.name_of(kind) is not None

    def reading_hook(name: str, read: Callable[[str], Function]) -> Callable[[Any, Any], Any]:
        def hook(value: Any, _: Any) -> Any:
            try:
                return read(name)(value)
            except Exception:
                raise SchemaError(name, _problems(version, name, value)) from None

        return hook

    def class_reading(cls: type[Model]) -> Callable[[Any, Any], Any]:
        return reading.setdefault(cls, reading_hook(cls.__name__, codec.reader))

    def class_writing(cls: type[Model]) -> Function:
        def hook(value: Any) -> Any:
            # Where the class is a union too, the object may be of a subclass, which has more to write.
            union = codec.version.find_union(cls.__name__)
            return (codec.class_writer(cls) if union is None else codec.writer(cls.__name__))(value)

        return writing.setdefault(cls, hook)

    def union_reading(kind: Any) -> Callable[[Any, Any], Any]:
        return reading_hook(version.name_of(kind) or "", codec.reader)

    def union_writing(kind: Any) -> Function:
        return codec.writer(version.name_of(kind) or "")

    def foreign_reader(cls: type[Model]) -> Function | None:
        hook = converter.get_structure_hook(cls)
        return None if hook is class_reading(cls) else lambda value: hook(value, cls)

    def foreign_writer(cls: type[Model]) -> Function | None:
        hook = converter.get_unstructure_hook(cls)
        return None if hook is class_writing(cls) else hook

    codec.foreign_reader = foreign_reader
    codec.foreign_writer = foreign_writer
    converter.register_structure_hook_factory(is_ours, class_reading)
    converter.register_unstructure_hook_factory(is_ours, class_writing)
    converter.register_structure_hook_factory(is_union, union_reading)
    converter.register_unstructure_hook_factory(is_union, union_writing)
