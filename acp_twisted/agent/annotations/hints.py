"""
Annotations as they were meant: strings evaluated, and what stands around the type taken off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from inspect import unwrap
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin, get_type_hints

from attrs import frozen
from twisted.internet.defer import Deferred


class HintError(Exception):
    """
    An annotation that can't be evaluated; the text says why, and what to do.
    """


def evaluate(annotation: object, function: Callable[..., Any]) -> Any:
    """
    An annotation of C{function} as an object, C{Annotated} included.

    Each is evaluated on its own, so that what is wrong with one can be said of that one.

    @raise HintError: when it can't be evaluated.
    """
    plain: Any = unwrap(getattr(function, "__func__", function))
    holder: Any = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return get_type_hints(holder, getattr(plain, "__globals__", {}), include_extras=True)["it"]
    except NameError as error:
        raise HintError(
            f"its annotation {annotation!r} names {error.name!r}, which {plain.__module__} does not have when the "
            "agent is built; import it there at run time too, not only for the type checker, and define it outside of "
            "any function"
        ) from error
    except Exception as error:
        raise HintError(
            f"its annotation {annotation!r} can't be evaluated ({type(error).__name__}: {error}); correct it"
        ) from error


@frozen
class Stripped:
    """
    An annotation without what stands around it.
    """

    annotation: Any
    metadata: tuple[object, ...]
    optional: bool


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """
    The members of a union; anything else as the only one.
    """
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def strip(annotation: Any) -> Stripped:
    """
    Take C{Annotated} and C{| None} off, in whichever order they stand.
    """
    metadata: tuple[object, ...] = ()
    optional = False
    while True:
        members = alternatives(annotation)
        rest = [each for each in members if each is not type(None)]
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            for each in more:  # an alias such as SessionId may stand here as well as by itself
                metadata += get_args(each)[1:] if get_origin(each) is Annotated else (each,)
        elif len(members) == 2 and len(rest) == 1:
            annotation, optional = rest[0], True
        else:
            return Stripped(annotation, metadata, optional)


def awaited(annotation: Any) -> Any:
    """
    What comes out of it when it is waited for: T of C{Deferred[T]}, of C{Coroutine[…, …, T]} and their kind, and of the
    C{Generator[…, …, T]} that C{inlineCallbacks} was put on.
    """
    while True:
        origin = get_origin(annotation)
        if not isinstance(origin, type):
            bare = isinstance(annotation, type) and issubclass(annotation, Deferred | Awaitable)
            return Any if bare else annotation
        if not issubclass(origin, Deferred | Awaitable | Generator):
            return annotation
        annotation = get_args(annotation)[-1]


def is_anything(annotation: Any) -> bool:
    """
    Whether the annotation says nothing that could be wrong.
    """
    return annotation in (Any, object, NoReturn) or not isinstance(get_origin(annotation) or annotation, type)
