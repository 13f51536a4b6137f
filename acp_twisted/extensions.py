"""
Extensions in classes of the user's: what is read into them, and what is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import attrs
from twisted.logger import Logger

from acp_twisted.errors import InvalidParams, InvalidResponse
from acp_twisted.handlers import Bound, Handler, two_arguments
from acp_twisted.schema.converter import describe_error, get_converter, structure, unstructure
from acp_twisted.schema.values import Model, SchemaError

_T = TypeVar("_T")
_log = Logger()


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
        return get_converter().structure(given, kind)
    except SchemaError as error:
        raise InvalidParams(data=describe_error(error)) from None
    except Exception as error:
        # What cattrs says may quote what the peer sent.
        shown = getattr(kind, "__name__", str(kind))
        raise InvalidParams(data=[{"path": "$", "reason": f"it does not fit {shown}"}]) from error


def write(value: object) -> object:
    """
    An object of an attrs class as JSON; anything else as it is.
    """
    if isinstance(value, Model):
        return unstructure(value)
    return get_converter().unstructure(value) if attrs.has(type(value)) else value


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
    """
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
