"""
What is passed for a parameter: found once, from its annotation, when the agent is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from typing import Annotated, Any, Final, TypeAlias, get_origin, is_typeddict

import attrs
from attrs import frozen
from twisted.internet.defer import Deferred

from acp_twisted import extensions
from acp_twisted.agent.annotations.hints import HintError, alternatives, evaluate, strip
from acp_twisted.agent.annotations.model import HandlerMethod, HandlerParameter, IArgumentResolver, Invocation
from acp_twisted.agent.blocking import SyncAgentConnection, SyncPromptContext
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.agent.context import PromptContext
from acp_twisted.connection import Connection
from acp_twisted.errors import InvalidParams
from acp_twisted.handlers import outcome
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.schema import v1
from acp_twisted.schema.values import Model


@frozen
class FromRequest:
    """
    In C{Annotated}: pass this member of the request.

    @ivar member: its name in Python.
    """

    member: str


class _Text:
    """In C{Annotated}: pass the text of the prompt."""


_MARKERS: Final = {
    "SessionId": FromRequest("session_id"),
    "ConfigId": FromRequest("config_id"),
    "ConfigValue": FromRequest("value"),
    "ModeId": FromRequest("mode_id"),
    "MethodId": FromRequest("method_id"),
    "Cwd": FromRequest("cwd"),
}

SessionId = Annotated[str, _MARKERS["SessionId"]]
"""The session that the request is about."""

ConfigId = Annotated[str, _MARKERS["ConfigId"]]
"""The option that C{session/set_config_option} sets."""

ConfigValue = Annotated[str | bool, _MARKERS["ConfigValue"]]
"""What it is set to."""

ModeId = Annotated[str, _MARKERS["ModeId"]]
"""The mode that C{session/set_mode} switches to."""

MethodId = Annotated[str, _MARKERS["MethodId"]]
"""The way of C{authenticate}."""

Cwd = Annotated[str, _MARKERS["Cwd"]]
"""The session's directory."""

PromptText = Annotated[str, _Text()]
"""What the user has written: the text blocks of the prompt, one after another, and nothing of the others."""


class _InThread(SyncPromptContext):
    """Stands for the context that the thread will have."""

    def __init__(self) -> None:
        """There is nothing to it."""


IN_THREAD: Final = _InThread()
"""An argument that a blocking method's L{SyncPromptContext} takes the place of."""

Resolve: TypeAlias = "Callable[[Invocation, Exception | None], Any]"
"""What gives the argument for one call; also given the error that an exception handler is called for."""


class Unresolvable(Exception):
    """
    Nothing can be passed for a parameter; the text says why, and what to do.
    """


@frozen
class Arguments:
    """
    How a method is called.

    @ivar positional: what to pass by position.
    @ivar named: what to pass by name.
    """

    positional: tuple[Resolve, ...]
    named: tuple[tuple[str, Resolve], ...]

    async def of(self, invocation: Invocation, error: Exception | None = None) -> tuple[list[Any], dict[str, Any]]:
        """
        The arguments of one call.
        """
        positional = [await outcome_of(resolve(invocation, error)) for resolve in self.positional]
        named = {name: await outcome_of(resolve(invocation, error)) for name, resolve in self.named}
        return positional, named


async def outcome_of(result: Any) -> Any:
    """
    What a user's function came to: a value, or what a Deferred or a coroutine gives.
    """
    result = outcome(result)
    return await result if isinstance(result, Deferred) else result


def find_arguments(
    handler: HandlerMethod, resolvers: Sequence[IArgumentResolver], kinds: tuple[type[BaseException], ...] = ()
) -> tuple[Arguments, list[str]]:
    """
    How to call a method, and what stands against it.

    @param kinds: for an exception handler, the exceptions that it handles.
    """
    positional: list[Resolve] = []
    named: list[tuple[str, Resolve]] = []
    faults: list[str] = []
    for parameter in signature(handler.function).parameters.values():
        try:
            resolve = _find(handler, parameter, resolvers, kinds)
        except (HintError, Unresolvable) as fault:
            faults.append(f"{handler}, parameter {parameter.name!r}: {fault}")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            named.append((parameter.name, resolve))
        else:
            positional.append(resolve)
    return Arguments(tuple(positional), tuple(named)), faults


def _find(
    handler: HandlerMethod,
    parameter: Parameter,
    resolvers: Sequence[IArgumentResolver],
    kinds: tuple[type[BaseException], ...],
) -> Resolve:
    """
    What gives the argument; the parameter's default if nothing else is known.
    """

    def default(_: object, __: object) -> Any:
        return parameter.default

    defaulted = parameter.default is not parameter.empty
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise Unresolvable("nothing can be passed for it; name each parameter by itself")
    if parameter.annotation is parameter.empty:
        if defaulted:
            return default
        raise Unresolvable(f"it has no annotation; annotate it with {_choices(handler, kinds)}")
    stripped = strip(evaluate(parameter.annotation, handler.function))
    described = HandlerParameter(
        handler, parameter.name, stripped.annotation, stripped.metadata, stripped.optional or parameter.default is None
    )
    chosen = next((each for each in resolvers if each.supports(described)), None)
    if chosen is not None:
        resolve = chosen.resolve
        return lambda invocation, _: resolve(described, invocation)
    found = _exception(described, kinds) if kinds else _built_in(described)
    found = found or _always(described)
    if found is None and defaulted:
        return default
    if found is None:
        shown = getattr(described.annotation, "__name__", None) or repr(described.annotation)
        raise Unresolvable(
            f"nothing is known to pass for {shown}; annotate it with {_choices(handler, kinds)}, or give "
            "build_agent an argument resolver for it"
        )
    return found


def _choices(handler: HandlerMethod, kinds: tuple[type[BaseException], ...]) -> str:
    """
    The types that a parameter of this method may have, as a part of a sentence.
    """
    request = handler.request_class
    if kinds:
        first = " | ".join(each.__name__ for each in kinds)
    elif request is None:
        first = "dict[str, Any]"
    else:
        first = f"v1.{request.__name__}"
    choices = [first, *(name for name, marker in _MARKERS.items() if _has(request, marker.member))]
    if handler.decorator == "prompt":
        choices += ["SyncPromptContext" if handler.blocking else "PromptContext", "PromptText"]
    if not handler.blocking:
        choices.append("AgentConnection")
    elif handler.decorator != "prompt":
        choices.append("SyncAgentConnection")
    if handler.is_request:
        choices.append("CancellationToken")
    return ", ".join([*choices, "v1.ClientCapabilities"]) + " or Invocation"


# ---- the built-in ones; each returns None for what is not its own


def _always(parameter: HandlerParameter) -> Resolve | None:
    """
    What every method may have.
    """
    kind, handler = parameter.annotation, parameter.handler
    if kind in (AgentConnection, Connection, SyncAgentConnection):
        return _connection(parameter)
    if kind is CancellationToken:
        if handler.decorator == "exception_handler":
            raise Unresolvable("what failed may be a notification, which can't be cancelled; take an Invocation")
        if not handler.is_request:
            raise Unresolvable("a notification can't be cancelled; take no CancellationToken")
        return lambda invocation, _: invocation.token
    if kind is v1.ClientCapabilities:
        return lambda invocation, _: invocation.connection.client_capabilities
    if kind is Invocation:
        return lambda invocation, _: invocation
    if kind is PromptContext or kind is SyncPromptContext:
        return _context(parameter)
    return None


def _connection(parameter: HandlerParameter) -> Resolve:
    handler = parameter.handler
    if parameter.annotation is SyncAgentConnection:
        if not handler.blocking or handler.decorator == "prompt":
            raise Unresolvable("only a @blocking method that answers no prompt has one; take an AgentConnection")
        return lambda invocation, _: SyncAgentConnection(invocation.connection)
    if handler.blocking:
        instead, what = "SyncAgentConnection", "@blocking"
        if handler.decorator == "prompt":
            instead, what = "SyncPromptContext", "blocking=True"
        raise Unresolvable(f"a connection is not for other threads; take a {instead}, or drop {what}")
    return lambda invocation, _: invocation.connection


def _context(parameter: HandlerParameter) -> Resolve:
    handler, kind = parameter.handler, parameter.annotation
    if handler.decorator != "prompt":
        raise Unresolvable("only a @prompt method has a context; take an AgentConnection")
    if kind is SyncPromptContext:
        if not handler.blocking:
            raise Unresolvable("only a blocking method has one; write @prompt(blocking=True), or take a PromptContext")
        return lambda _, __: IN_THREAD
    if handler.blocking:
        raise Unresolvable("a blocking method runs in a thread; take a SyncPromptContext, or drop blocking=True")
    return lambda invocation, _: invocation.context


def _exception(parameter: HandlerParameter, kinds: tuple[type[BaseException], ...]) -> Resolve | None:
    """
    The error of an exception handler, for a parameter that is good for all that it handles.
    """
    wanted = tuple(each for each in alternatives(parameter.annotation) if isinstance(each, type))
    if not any(issubclass(each, BaseException) for each in wanted):
        return None
    missing = [each.__name__ for each in kinds if not issubclass(each, wanted)]
    if missing:
        raise Unresolvable(f"it does not take {', '.join(missing)}, which the method handles; widen its annotation")
    return lambda _, error: error


def _built_in(parameter: HandlerParameter) -> Resolve | None:
    """
    What comes of the request.
    """
    for each in parameter.metadata:
        if isinstance(each, FromRequest):
            return _member(parameter, each.member)
        if isinstance(each, _Text):
            if parameter.handler.decorator != "prompt":
                raise Unresolvable("only a prompt has a PromptText; take a member of the request, such as SessionId")
            return lambda invocation, _: _text(invocation.request)
    request = parameter.handler.request_class
    if request is None:
        return _raw(parameter)
    kinds = [each for each in alternatives(parameter.annotation) if isinstance(each, type) and issubclass(each, Model)]
    if any(issubclass(request, each) for each in kinds):
        return lambda invocation, _: invocation.request
    if any(each.__name__.endswith(("Request", "Notification")) for each in kinds):
        raise Unresolvable(
            f"the method is given a v1.{request.__name__}, and never a v1.{kinds[0].__name__}; change the annotation "
            "or the decorator"
        )
    return None


def _member(parameter: HandlerParameter, member: str) -> Resolve:
    request = parameter.handler.request_class
    if not _has(request, member):
        kind = "plain JSON" if request is None else f"v1.{request.__name__}"
        raise Unresolvable(f"the request is {kind}, which has no {member}; drop the parameter or change the decorator")
    return lambda invocation, _: getattr(invocation.request, member)


def _has(request: type[Model] | None, member: str) -> bool:
    return request is not None and member in attrs.fields_dict(request)


def _text(request: v1.PromptRequest) -> str:
    # By name: the request may be one of version 2, which is not loaded for this.
    return "".join(each.text for each in request.prompt if type(each).__name__ == "TextContent")  # type: ignore[union-attr]


def _raw(parameter: HandlerParameter) -> Resolve | None:
    """
    The params of an extension: JSON, or a class of the user's that they are read into.
    """
    kind, optional = parameter.annotation, parameter.optional
    origin = get_origin(kind) or kind
    read: Callable[[object], object] | None = None
    if kind is Any or kind is object:
        read = _as_it_is
    elif not isinstance(origin, type) or origin in (v1.ClientCapabilities, Invocation):
        pass
    elif is_typeddict(origin) or issubclass(origin, Mapping):
        read = partial(_checked, kind=dict, optional=optional)
    elif issubclass(origin, Sequence) and not issubclass(origin, str | bytes):
        read = partial(_checked, kind=list, optional=optional)
    elif issubclass(origin, Model):
        read = partial(extensions.read, kind=origin)
    elif attrs.has(origin):
        read = partial(extensions.read, kind=kind)
    return None if read is None else _reading(read)


def _reading(read: Callable[[object], object]) -> Resolve:
    return lambda invocation, _: read(invocation.request)


def _as_it_is(params: object) -> object:
    return params


def _checked(params: object, kind: type, optional: bool) -> object:
    if params is None:
        return None if optional else kind()
    if not isinstance(params, kind):
        wanted = "an object" if kind is dict else "an array"
        raise InvalidParams(data=[{"path": "$", "reason": f"{wanted} is required"}])
    return params
