"""
What becomes of what a method returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar, cast, get_args, get_origin

from attrs import evolve

from acp_twisted import extensions
from acp_twisted.agent.annotations.hints import alternatives, awaited, is_anything, strip
from acp_twisted.agent.annotations.model import HandlerMethod, Invocation
from acp_twisted.schema import v1
from acp_twisted.schema.values import Model

_M = TypeVar("_M", bound=Model)

END_TURN: Final = v1.PromptResponse(stop_reason="end_turn")


def refuse_returns(handler: HandlerMethod) -> str | None:
    """
    What stands against the method's return annotation, if anything does.
    """
    method = handler.schema_method
    if not handler.is_request or method is None:
        return None
    may_be_none = method.empty_result or handler.decorator in ("prompt", "initialize")
    good: tuple[type, ...] = (cast("type[object]", method.result),)
    if handler.decorator == "prompt":
        good += (str,)
    for each in _outcomes(handler.returns):
        if is_anything(each) or (may_be_none and each is type(None)):
            continue
        kind = get_origin(each) or each
        if any(issubclass(kind, one) or (issubclass(kind, Model) and issubclass(one, kind)) for one in good):
            continue
        if each is type(None):
            return f"it returns None, and {handler.method} wants an answer; return a v1.{method.result_name}"
        names = " or ".join("str" if one is str else f"v1.{one.__name__}" for one in good)
        return (
            f"it returns {kind.__name__}, of which nothing can be made; return {names}, or give build_agent a "
            "return-value handler for it"
        )
    return None


def _outcomes(annotation: Any) -> Iterator[Any]:
    """
    The types that a value of this annotation can come to.
    """
    for each in alternatives(annotation):
        inner = awaited(strip(each).annotation)
        if get_origin(inner) is Literal:
            yield from {type(value) for value in get_args(inner)}
        elif inner is each:
            yield each
        else:
            yield from _outcomes(inner)


async def respond_to_prompt(value: object, invocation: Invocation) -> object:
    """
    A text is sent, and ends the turn as L{None} does.
    """
    if isinstance(value, str) and value:
        assert invocation.context is not None
        await invocation.context.send_message(value)
    return END_TURN if value is None or isinstance(value, str) else value


def respond_to_initialize(value: object, invocation: Invocation) -> object:
    """
    What the method says, and what follows from how the agent was built.
    """
    derived = invocation.connection.derived_answer(invocation.request)
    if value is None:
        return derived
    if not isinstance(value, v1.InitializeResponse):
        return value
    return evolve(
        value,
        agent_capabilities=union_of(value.agent_capabilities, derived.agent_capabilities),
        auth_methods=value.auth_methods or derived.auth_methods,
        agent_info=value.agent_info or derived.agent_info,
    )


def respond_to_extension(value: object, _: Invocation) -> object:
    """
    JSON as it is; a class of the protocol's or of the user's as JSON.
    """
    return extensions.write(value)


def _as_it_is(value: object, _: Invocation) -> object:
    return value


_RESPONDERS: Final[Mapping[str, Callable[[Any, Invocation], Any]]] = {
    "prompt": respond_to_prompt,
    "initialize": respond_to_initialize,
    "ext_request": respond_to_extension,
}


def responder_for(handler: HandlerMethod) -> Callable[[Any, Invocation], Any]:
    """
    What makes the method's response of what it returned.
    """
    return _RESPONDERS.get(handler.decorator, _as_it_is)


def union_of(one: _M, other: _M) -> _M:
    """
    Capabilities that are there in either of two objects; where both say something that is not yes or no, C{one}'s.
    """
    changes: dict[str, Any] = {}
    for name in one.WIRE:
        first, second = getattr(one, name), getattr(other, name)
        if isinstance(first, Model) and type(second) is type(first):
            changes[name] = union_of(first, second)
        elif first is None or first is False:
            changes[name] = first if second is None else second
    return evolve(one, **changes)
