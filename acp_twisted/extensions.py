"""
Extensions in classes of the user's: what is read into them, and what is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_origin

import attrs
from twisted.logger import Logger

from acp_twisted.errors import InvalidParams, InvalidResponse
from acp_twisted.handlers import Bound, Handler, two_arguments
from acp_twisted.schema.converter import describe_error, get_converter, structure, unstructure
from acp_twisted.schema.values import Model, SchemaError

if TYPE_CHECKING:
    from cattrs import Converter

_T = TypeVar("_T")
_log = Logger()

_PLAIN: Final[dict[type, tuple[type, ...]]] = {str: (str,), bool: (bool,), int: (int,), float: (float, int)}
"""What JSON has for these.  Left to itself cattrs calls the class, so that an object becomes the text of its repr."""


@lru_cache(maxsize=1)
def _converter() -> Converter:
    """
    One that takes nothing for what it is not.  It is made when the first class is registered.
    """
    from cattrs import Converter  # noqa: PLC0415 - few agents have typed extensions

    made = get_converter(Converter())
    for kind, taken in _PLAIN.items():
        made.register_structure_hook(kind, partial(_plain, taken))
    made.register_structure_hook_factory(_is_several, lambda kind: partial(_several, made, *(get_args(kind) or (Any,))))
    return made


def _is_several(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is list or origin is Sequence


def _plain(taken: tuple[type, ...], value: Any, kind: Any) -> Any:
    if int in taken and isinstance(value, float) and value.is_integer():
        taken = (float,)  # JSON knows only one kind of numbers
    if not isinstance(value, taken) or (isinstance(value, bool) and bool not in taken):
        raise TypeError
    return kind(value)


def _several(converter: Converter, item: Any, value: Any, _: Any) -> Any:
    if not isinstance(value, list):
        raise TypeError
    return [converter.structure(each, item) for each in value]


def _check_class(kind: Any, name: str) -> None:
    """
    @raise TypeError: when nothing can be read into C{kind}.
    """
    if isinstance(kind, type) and not attrs.has(kind) and not is_dataclass(kind):
        try:
            _converter().structure({}, kind)
        except Exception as error:
            if type(error).__name__ != "StructureHandlerNotFoundError":
                return  # an empty object is none of these, but something is
        else:
            return
    elif not isinstance(kind, str):
        return
    raise TypeError(f"{name}: nothing can be read into {kind!r}; params are read into an attrs class or a dataclass")


def read(value: object, kind: type[_T]) -> _T:
    """
    JSON as an object of a class, the user's or the protocol's.  What is absent is an empty object.

    @param kind: an attrs class, or whatever cattrs can read.
    @raise InvalidParams: when it does not fit.
    """
    given = {} if value is None else value
    try:
        if isinstance(kind, type) and issubclass(kind, Model):
            return structure(given, kind)
        return _converter().structure(given, kind)
    except SchemaError as error:
        raise InvalidParams(data=describe_error(error)) from None
    except Exception as error:
        # What cattrs says may quote what the peer sent.
        shown = getattr(kind, "__name__", str(kind))
        raise InvalidParams(data=[{"path": "$", "reason": f"it does not fit {shown}"}]) from error


def write(value: object) -> object:
    """
    An object of an attrs class or of a dataclass as JSON; anything else as it is.
    """
    if isinstance(value, Model):
        return unstructure(value)
    return _converter().unstructure(value) if attrs.has(type(value)) or is_dataclass(type(value)) else value


def read_result(value: object, kind: type[_T], method: str) -> _T:
    """
    A result as an object of a class.

    @raise InvalidResponse: when it does not fit.
    """
    try:
        return read(value, kind)
    except InvalidParams as error:
        raise InvalidResponse(f"the answer to {method} does not fit", error.data) from error


def typed(handler: Handler, kind: type, name: str, *, answered: bool) -> Callable[[Any, Any], Any]:
    """
    A handler whose params are read into a class.

    @param name: who asks, for messages.
    @param answered: whether the peer is told of params that do not fit; else only the log is.
    @raise TypeError: when nothing can be read into C{kind}.
    """
    _check_class(kind, name)
    return partial(_call if answered else _tell, two_arguments(handler, name), kind)


def _call(handler: Bound, kind: type, params: object, companion: object) -> Any:
    return handler(read(params, kind), companion)


def _tell(handler: Bound, kind: type, params: object, companion: object) -> Any:
    try:
        given: Any = read(params, kind)
    except InvalidParams as error:
        _log.warn("the params of a notification do not fit: {errors}", errors=error.data)
        return None
    return handler(given, companion)
