"""
What is passed for a parameter: found once, from its annotation, when the agent is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from typing import Annotated, Any, Final, TypeAlias, get_origin, is_typeddict

import attrs
from attrs import Factory, define, evolve, frozen
from twisted.internet.defer import Deferred

from acp_twisted import extensions
from acp_twisted.agent.annotations.hints import HintError, alternatives, evaluate, strip
from acp_twisted.agent.annotations.model import HandlerMethod, HandlerParameter, IArgumentResolver, Invocation
from acp_twisted.agent.annotations.versions import is_kind, narrowed, stands_for, version_of
from acp_twisted.agent.blocking import SyncAgentConnection, SyncPromptContext
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.agent.context import PromptContext
from acp_twisted.connection import Connection
from acp_twisted.errors import InvalidParams
from acp_twisted.handlers import outcome
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.schema.values import Model
from acp_twisted.schema.vocabulary import vocabulary


@frozen
class FromRequest:
    """
    In C{Annotated}: pass this member of the request.

    @ivar member: its name in Python.
    """

    member: str


class _Text:
    """In C{Annotated}: pass the text of the prompt."""


_OF_PROMPTS: Final = ("prompt", "accept_prompt")
"""The decorators of methods that are given a prompt."""

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


class Foreign(Unresolvable):
    """
    Nothing of the version that the method was looked at for; it may serve another one.

    @ivar by_class: whether what tells is a class of another version.
    """

    def __init__(self, text: str, *, by_class: bool) -> None:
        super().__init__(text)
        self.by_class = by_class


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


@frozen
class Looking:
    """
    A method whose arguments are looked for.

    @ivar handler: the method, as it may serve one version.
    @ivar siblings: the method as it may serve each version of the agent's.
    @ivar resolvers: are asked before the built-in ones.
    @ivar kinds: for an exception handler, the exceptions that it handles.
    """

    handler: HandlerMethod
    siblings: Sequence[HandlerMethod]
    resolvers: Sequence[IArgumentResolver] = ()
    kinds: tuple[type[BaseException], ...] = ()


@define
class Found:
    """
    How a method may be called in one version, and what stands against it.

    @ivar arguments: what is passed.
    @ivar faults: what is wrong with the method.
    @ivar foreign: what shows that it is not for this version; each is a fault if it is for no other either.
    @ivar versions: the versions whose classes it names.
    """

    arguments: Arguments
    faults: list[str] = Factory(list)
    foreign: list[tuple[str, Foreign]] = Factory(list)
    versions: set[int] = Factory(set)


async def outcome_of(result: Any) -> Any:
    """
    What a user's function came to: a value, or what a Deferred or a coroutine gives.
    """
    result = outcome(result)
    return await result if isinstance(result, Deferred) else result


def find_arguments(looking: Looking) -> Found:
    """
    How to call a method, and what stands against it.
    """
    positional: list[Resolve] = []
    named: list[tuple[str, Resolve]] = []
    found = Found(Arguments((), ()))
    for parameter in signature(looking.handler.function).parameters.values():
        where = f"{looking.handler}, parameter {parameter.name!r}"
        try:
            resolve = _find(looking, parameter, found.versions)
        except Foreign as fault:
            found.foreign.append((where, fault))
            continue
        except (HintError, Unresolvable) as fault:
            found.faults.append(f"{where}: {fault}")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            named.append((parameter.name, resolve))
        else:
            positional.append(resolve)
    found.arguments = Arguments(tuple(positional), tuple(named))
    return found


def _find(looking: Looking, parameter: Parameter, versions: set[int]) -> Resolve:
    """
    What gives the argument; the parameter's default if nothing else is known.

    @param versions: takes the versions whose classes are named.
    """
    handler = looking.handler

    def default(_: object, __: object) -> Any:
        return parameter.default

    defaulted = parameter.default is not parameter.empty
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise Unresolvable("nothing can be passed for it; name each parameter by itself")
    if parameter.annotation is parameter.empty:
        if defaulted:
            return default
        raise Unresolvable(f"it has no annotation; annotate it with {_choices(looking)}")
    stripped = strip(evaluate(parameter.annotation, handler.function))
    described = HandlerParameter(
        handler, parameter.name, stripped.annotation, stripped.metadata, stripped.optional or parameter.default is None
    )
    chosen = next((each for each in looking.resolvers if each.supports(described)), None)
    if chosen is not None:
        resolve = chosen.resolve
        return lambda invocation, _: resolve(described, invocation)
    _check_versions(described, versions)
    again = strip(narrowed(described.annotation, handler.version))
    described = evolve(
        described,
        annotation=again.annotation,
        metadata=described.metadata + again.metadata,
        optional=described.optional or again.optional,
    )
    found = _exception(described, looking.kinds) if looking.kinds else _built_in(described)
    found = found or _always(described)
    if found is None and defaulted:
        return default
    if found is None:
        shown = getattr(described.annotation, "__name__", None) or repr(described.annotation)
        raise Unresolvable(
            f"nothing is known to pass for {shown}; annotate it with {_choices(looking)}, or give "
            "build_agent an argument resolver for it"
        )
    return found


def _check_versions(parameter: HandlerParameter, versions: set[int]) -> None:
    """
    Hold the classes that an annotation names to the version that the method is looked at for.

    @param versions: takes the versions that they belong to.
    @raise Foreign: when they are all of another version.
    """
    version = parameter.handler.version
    members = alternatives(parameter.annotation)
    telling = [
        each for each in members if _tells(each, parameter) and not any(stands_for(one, each) for one in members)
    ]
    named = {version_of(each): each for each in telling}
    versions.update(each for each in named if each is not None)
    if not telling or version in named:
        return
    other, kind = next(iter(named.items()))
    raise Foreign(
        f"it names a class of version {other}, and the agent speaks {version}: use {_instead(parameter.handler, kind)}",
        by_class=True,
    )


def _tells(kind: Any, parameter: HandlerParameter) -> bool:
    """
    Whether a method that names this class is for the class's version.  What JSON of the user's is read into is not:
    JSON is alike in both.
    """
    if version_of(kind) is None:
        return False
    if is_kind(kind, Connection) or is_kind(kind, PromptContext) or kind.__name__ == "ClientCapabilities":
        return True
    if any(isinstance(each, FromRequest) for each in parameter.metadata):
        return True
    request = parameter.handler.request_class
    if kind.__name__ == "Implementation":
        return not parameter.handler.is_extension
    return request is not None and kind.__name__.endswith(("Request", "Notification"))


def _instead(handler: HandlerMethod, kind: Any) -> str:
    """
    What stands for a class of another version in this one.
    """
    if is_kind(kind, Connection):
        return "AgentConnection"
    if is_kind(kind, PromptContext):
        return "PromptContext"
    request = handler.request_class
    if request is not None and kind.__name__.endswith(("Request", "Notification")):
        return f"v{handler.version}.{request.__name__}"
    known = hasattr(vocabulary(handler.version).types, kind.__name__)
    return f"v{handler.version}.{kind.__name__}" if known else "Any"


def _spelled(handler: HandlerMethod) -> str:
    """
    The class of the method's request, as it is written.
    """
    request = handler.request_class
    return "plain JSON" if request is None else f"v{handler.version}.{request.__name__}"


def _choices(looking: Looking) -> str:
    """
    The types that a parameter of this method may have, as a part of a sentence.
    """
    handler = looking.handler
    request = handler.request_class
    if looking.kinds:
        first = " | ".join(each.__name__ for each in looking.kinds)
    elif request is None:
        first = "dict[str, Any]"
    else:
        first = " | ".join(map(_spelled, looking.siblings))
    choices = [first, *(name for name, marker in _MARKERS.items() if _has(request, marker.member))]
    if handler.decorator == "prompt":
        choices.append("SyncPromptContext" if handler.blocking else "PromptContext")
    if handler.decorator in _OF_PROMPTS:
        choices.append("PromptText")
    if not handler.blocking:
        choices.append("AgentConnection")
    elif handler.decorator != "prompt":
        choices.append("SyncAgentConnection")
    if handler.is_request:
        choices.append("CancellationToken")
    capabilities = " | ".join(f"v{each.version}.ClientCapabilities" for each in looking.siblings)
    return ", ".join([*choices, capabilities]) + " or Invocation"


# ---- the built-in ones; each returns None for what is not its own


def _always(parameter: HandlerParameter) -> Resolve | None:
    """
    What every method may have.
    """
    kind, handler = parameter.annotation, parameter.handler
    types = vocabulary(handler.version).types
    if kind is SyncAgentConnection or _is_one_of(parameter, AgentConnection, Connection):
        return _connection(parameter)
    if kind is CancellationToken:
        if handler.decorator == "exception_handler":
            raise Unresolvable("what failed may be a notification, which can't be cancelled; take an Invocation")
        if not handler.is_request:
            raise Unresolvable("a notification can't be cancelled; take no CancellationToken")
        return lambda invocation, _: invocation.token
    if kind in (types.ClientCapabilities, types.Implementation):
        return _of_client(parameter)
    if kind is Invocation:
        return lambda invocation, _: invocation
    if kind is SyncPromptContext or _is_one_of(parameter, PromptContext):
        return _context(parameter)
    return None


def _of_client(parameter: HandlerParameter) -> Resolve:
    """
    What the client says of itself.
    """
    if parameter.annotation.__name__ == "ClientCapabilities":
        return lambda invocation, _: invocation.connection.client_capabilities
    if parameter.handler.version == 1 and not parameter.optional:
        raise Unresolvable("a client of version 1 need not say who it is; write v1.Implementation | None")
    return lambda invocation, _: invocation.connection.client_info


def _is_one_of(parameter: HandlerParameter, *general: type) -> bool:
    """
    Whether a parameter wants one of these classes, or what its version has in place of them.
    """
    kind = parameter.annotation
    own = version_of(kind) == parameter.handler.version and any(is_kind(kind, each) for each in general)
    return own or kind in general


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
            if parameter.handler.decorator not in _OF_PROMPTS:
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
            f"the method is given a {_spelled(parameter.handler)}, and never a "
            f"v{parameter.handler.version}.{kinds[0].__name__}; change the annotation or the decorator"
        )
    return None


def _member(parameter: HandlerParameter, member: str) -> Resolve:
    request = parameter.handler.request_class
    if not _has(request, member):
        raise Foreign(
            f"the request is {_spelled(parameter.handler)}, which has no {member}; drop the parameter or change the "
            "decorator",
            by_class=False,
        )
    return lambda invocation, _: getattr(invocation.request, member)


def _has(request: type[Model] | None, member: str) -> bool:
    return request is not None and member in attrs.fields_dict(request)


def _text(request: Any) -> str:
    # By name: the request may be one of version 2, which is not loaded for this.
    return "".join(each.text for each in request.prompt if type(each).__name__ == "TextContent")


def _raw(parameter: HandlerParameter) -> Resolve | None:
    """
    The params of an extension: JSON, or a class of the user's that they are read into.
    """
    kind, optional = parameter.annotation, parameter.optional
    origin = get_origin(kind) or kind
    read: Callable[[object], object] | None = None
    if kind is Any or kind is object:
        read = _as_it_is
    elif not isinstance(origin, type) or origin is Invocation or _is_capabilities(origin):
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


def _is_capabilities(kind: type) -> bool:
    return version_of(kind) is not None and kind.__name__ == "ClientCapabilities"


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
