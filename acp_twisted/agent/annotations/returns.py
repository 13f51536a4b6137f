"""
What becomes of what a method returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar, cast, get_args, get_origin

from attrs import evolve

from acp_twisted import extensions
from acp_twisted.agent.annotations.arguments import Foreign, Found
from acp_twisted.agent.annotations.hints import alternatives, awaited, is_anything, strip
from acp_twisted.agent.annotations.model import HandlerMethod, Invocation
from acp_twisted.agent.annotations.versions import version_of
from acp_twisted.schema import v1
from acp_twisted.schema.values import Model
from acp_twisted.schema.vocabulary import vocabulary
from acp_twisted.turn.result import STOP_REASONS, TurnResult, is_stop_reason

_M = TypeVar("_M", bound=Model)

END_TURN: Final = TurnResult()

_MAY_BE_NONE: Final = ("prompt", "initialize", "accept_prompt")


def check_returns(handler: HandlerMethod, found: Found) -> None:
    """
    Hold the method's return annotation to what its version has.

    @param found: takes what stands against it.
    """
    method = handler.schema_method
    if not handler.is_request or method is None:
        return
    outcomes = list(_outcomes(handler.returns))
    good = _good(handler)
    named = {version_of(each): each for each in outcomes if version_of(each) is not None}
    found.versions.update(each for each in named if each is not None)
    if named and handler.version not in named:
        text = f"it names a class of version {next(iter(named))}, and the agent speaks {handler.version}: use "
        found.foreign.append((f"{handler}, what it returns", Foreign(text + _spelled(good), by_class=True)))
        return
    for each in outcomes:
        if version_of(each) in (None, handler.version):
            fault = _refused(handler, each, good)
            if fault is not None:
                found.faults.append(f"{handler}: {fault}")
                return


def _good(handler: HandlerMethod) -> tuple[type, ...]:
    """
    What a method may return.
    """
    if handler.decorator == "accept_prompt":
        return (str,)
    if handler.decorator == "prompt":
        types = vocabulary(handler.version).types
        return types.PromptResponse if handler.version == 1 else types.IdleStateUpdate, TurnResult, str
    method = handler.schema_method
    assert method is not None
    return (cast("type[object]", method.result),)


def _refused(handler: HandlerMethod, each: Any, good: tuple[type, ...]) -> str | None:
    """
    What stands against one of the types that a method may return.
    """
    method = handler.schema_method
    assert method is not None
    if is_anything(each):
        return None
    if each is type(None):
        if method.empty_result or handler.decorator in _MAY_BE_NONE:
            return None
        return f"it returns None, and {handler.method} wants an answer; return a {_spelled(good)}"
    kind = get_origin(each) or each
    if any(issubclass(kind, one) or (issubclass(kind, Model) and issubclass(one, kind)) for one in good):
        return None
    return (
        f"it returns {kind.__name__}, of which nothing can be made; return {_spelled(good)}, or give build_agent a "
        "return-value handler for it"
    )


def _spelled(kinds: tuple[type, ...]) -> str:
    """
    Classes as they are written, as a part of a sentence.
    """
    names = [each.__name__ if version_of(each) is None else f"v{version_of(each)}.{each.__name__}" for each in kinds]
    return " or ".join([*[", ".join(names[:-1])] * (len(names) > 1), names[-1]])


def returns_reasons(annotation: Any) -> bool:
    """
    Whether a text of this annotation is a stop reason: it is C{v1.StopReason}, or has no other texts than those.
    """
    members = [strip(each).annotation for each in alternatives(strip(annotation).annotation)]
    if set(alternatives(v1.StopReason)) <= set(members):
        return True
    texts = [get_args(each) for each in members if get_origin(each) is Literal]
    return bool(texts) and str not in members and all(value in STOP_REASONS for each in texts for value in each)


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


async def respond_with_reason(value: object, invocation: Invocation) -> object:
    """
    The same, but for a method that says that its texts are stop reasons.
    """
    return value if is_stop_reason(value) else await respond_to_prompt(value, invocation)


def respond_to_initialize(value: object, invocation: Invocation) -> object:
    """
    What the method says, and what follows from how the agent was built.
    """
    derived = invocation.connection.derived_answer(invocation.request)
    if value is None:
        return derived
    if not isinstance(value, type(derived)):
        return value
    capabilities, info = _GREETINGS[invocation.handler.version]
    said: Any = value
    changes = {
        capabilities: union_of(getattr(said, capabilities), getattr(derived, capabilities)),
        info: getattr(said, info) or getattr(derived, info),
        "auth_methods": said.auth_methods or derived.auth_methods,
    }
    return evolve(said, **changes)


_GREETINGS: Final = {1: ("agent_capabilities", "agent_info"), 2: ("capabilities", "info")}
"""What the two versions call it in the answer to C{initialize}."""


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
    if handler.decorator == "prompt" and returns_reasons(handler.returns):
        return respond_with_reason
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
