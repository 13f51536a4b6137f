"""
From a decorated class to an agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import getattr_static, isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, signature, unwrap
from typing import Any

from attrs import evolve
from zope.interface import Interface
from zope.interface.exceptions import Invalid
from zope.interface.verify import verifyObject

from acp_twisted.agent.agent import AcpAgent, AcpAgentBuilder
from acp_twisted.agent.annotations.arguments import Arguments, Found, Looking, find_arguments
from acp_twisted.agent.annotations.assembly import (
    Serving,
    set_auth_methods,
    set_handlers,
    unanswered_logins,
    warn_of_gaps,
    with_capabilities,
)
from acp_twisted.agent.annotations.hints import HintError, awaited, evaluate
from acp_twisted.agent.annotations.invoke import Calling, ErrorMapping
from acp_twisted.agent.annotations.marks import AgentMark, AnyMark, ErrorMark, Mark, agent_mark_of, marks_of
from acp_twisted.agent.annotations.model import (
    AgentDefinitionError,
    HandlerMethod,
    IArgumentResolver,
    IInterceptor,
    Interceptor,
    IReturnValueHandler,
)
from acp_twisted.agent.annotations.returns import check_returns, responder_for
from acp_twisted.agent.annotations.serving import served
from acp_twisted.agent.annotations.versions import version_of
from acp_twisted.agent.blocking import is_blocking
from acp_twisted.limits import Limits
from acp_twisted.schema.values import Model, UnknownVariant


def build_agent(
    definition: object,
    *,
    interceptors: Sequence[IInterceptor | Interceptor] = (),
    argument_resolvers: Sequence[IArgumentResolver] = (),
    return_value_handlers: Sequence[IReturnValueHandler] = (),
    request_timeout: float | None = None,
    cancel_grace_period: float | None = None,
    max_prompt_duration: float | None = None,
    cascade_cancellation: bool | None = None,
    limits: Limits | None = None,
    builder: AcpAgentBuilder | None = None,
) -> AcpAgent:
    """
    An agent of a class with decorators, or of an instance of one.  A class is called without arguments.  There is one
    instance for all connections and sessions.

    It speaks the versions of the protocol that the builder speaks, version 1 without one.  A method serves those whose
    classes it names in its annotations, and all of them if it names none; so there may be one method for each version.

    @param definition: the class, or the instance.
    @param interceptors: stand around every method, the first outermost.
    @param argument_resolvers: are asked about each parameter before the built-in ones.
    @param return_value_handlers: are asked about each method that is answered.
    @param request_timeout: as L{AcpAgentBuilder.request_timeout}, and so are those that follow; L{None} leaves them.
    @param builder: one to go on with, for what has no decorator and for other versions, as in
        C{AcpAgent.builder().protocol_versions(1, 2)}; a new one unless given.
    @raise AgentDefinitionError: when something is wrong with the class.  It names everything that is.
    """
    mark = agent_mark_of(definition if isinstance(definition, type) else type(definition))
    agent_builder = AcpAgent.builder(unstable=mark is not None and mark.unstable) if builder is None else builder
    _set(agent_builder, "request_timeout", request_timeout)
    _set(agent_builder, "cancel_grace_period", cancel_grace_period)
    _set(agent_builder, "max_prompt_duration", max_prompt_duration)
    _set(agent_builder, "cascade_cancellation", cascade_cancellation)
    _set(agent_builder, "limits", limits)
    definer = _Definition(definition, agent_builder, interceptors, argument_resolvers, return_value_handlers)
    definer.is_builder_given = builder is not None
    return definer.build()


def _set(builder: AcpAgentBuilder, option: str, value: object) -> None:
    if value is not None:
        getattr(builder, option)(value)


class _Definition:
    """
    A class on its way to an agent, and what is wrong with it so far.

    @ivar is_builder_given: whether the builder was made by whoever wants the agent.
    """

    is_builder_given = False

    def __init__(
        self,
        definition: object,
        builder: AcpAgentBuilder,
        interceptors: Sequence[IInterceptor | Interceptor],
        resolvers: Sequence[IArgumentResolver],
        return_handlers: Sequence[IReturnValueHandler],
    ) -> None:
        self._definition = definition
        self._builder = builder
        self._class = definition if isinstance(definition, type) else type(definition)
        self._interceptors = tuple(interceptors)
        self._resolvers = tuple(resolvers)
        self._return_handlers = tuple(return_handlers)
        self._faults: list[str] = []
        self._spoken = builder.spoken_versions
        self._versions = _served_versions(builder)
        self._serving: list[Serving] = []
        self._callings: dict[tuple[int, str], Calling] = {}
        self._errors = {version: ErrorMapping({}) for version in self._versions}
        self._has_login = False

    def build(self) -> AcpAgent:
        """
        The agent.
        """
        mark = self._agent_mark()
        self._provide("interceptors", self._interceptors, IInterceptor)
        self._provide("argument_resolvers", self._resolvers, IArgumentResolver)
        self._provide("return_value_handlers", self._return_handlers, IReturnValueHandler)
        self._refuse()
        instance = self._instance()
        marked = list(self._marked())
        self._has_login = any(
            isinstance(each, Mark) and each.decorator == "login" for _, marks in marked for each in marks
        )
        for name, found in marked:
            self._method(instance, name, found)
        if not self._faults:
            self._check_prompts()
        self._refuse()
        return self._assemble(self._builder, mark)

    def _fault(self, what: str) -> None:
        self._faults.append(f"{self._class.__name__}: {what}")

    def _refuse(self) -> None:
        if self._faults:
            raise AgentDefinitionError(self._faults)

    # ---- the class

    def _agent_mark(self) -> AgentMark:
        mark = agent_mark_of(self._class)
        if mark is None:
            self._fault('it is not decorated; write @acp_agent(name="…", version="…") above the class')
            raise AgentDefinitionError(self._faults)
        for option in ("name", "version"):
            value = getattr(mark, option)
            if not isinstance(value, str) or not value:
                self._fault(f'@acp_agent({option}={value!r}): give a text; write {option}="…"')
        if isinstance(mark.auth_methods, str | Model) or not all(
            isinstance(each, Model | UnknownVariant) for each in mark.auth_methods
        ):
            said = f"v{self._spoken[0]}"
            self._fault(
                f"@acp_agent(auth_methods=…): give a list of {said}.AuthMethodAgent and {said}.AuthMethodTerminal"
            )
        elif 2 not in self._spoken:
            for name in sorted({type(each).__name__ for each in mark.auth_methods if version_of(type(each)) == 2}):
                self._fault(
                    f"@acp_agent(auth_methods=…): it names a class of version 2, and the agent speaks 1: use v1.{name}"
                )
        return mark

    def _provide(self, option: str, given: Sequence[object], interface: type[Interface]) -> None:
        for each in given:
            try:
                verifyObject(interface, each)
            except Invalid:
                shown = each.__name__ if isinstance(each, type) else type(each).__name__
                self._fault(
                    f"{option}: {shown} does not provide {interface.__name__}; give an instance of a class with "
                    f"@implementer({interface.__name__}) and all of its methods"
                )

    def _instance(self) -> object:
        if not isinstance(self._definition, type):
            return self._definition
        try:
            signature(self._class).bind()
        except TypeError as error:
            self._fault(f"it can't be made without arguments ({error}); give build_agent an instance")
            self._refuse()
        except ValueError:
            pass  # it does not say what it takes
        return self._class()

    def _marked(self) -> Iterator[tuple[str, tuple[AnyMark, ...]]]:
        """
        The names of the decorated methods, base classes first, and their marks.  A method that overrides a decorated
        one has its marks, unless it has some of its own; L{None} in its place has none.
        """
        names = {name: None for base in reversed(self._class.__mro__) for name in vars(base)}
        for name in names:
            for base in self._class.__mro__:
                marks = marks_of(vars(base).get(name))
                if marks:
                    if getattr_static(self._class, name) is not None:
                        yield name, marks
                    break

    # ---- its methods

    def _method(self, instance: object, name: str, marks: tuple[AnyMark, ...]) -> None:
        static = getattr_static(self._class, name)
        function = None if isinstance(static, property) else getattr(instance, name)
        for mark in marks:
            decorator = "exception_handler" if isinstance(mark, ErrorMark) else mark.decorator
            where = f"{self._class.__name__}.{name} (@{decorator})"
            if not callable(function):
                self._faults.append(f"{where}: it is of type {type(static).__name__}; decorate a method")
                continue
            try:
                signature(function)
            except ValueError:  # a method without a self
                self._faults.append(f"{where}: it takes no arguments, not even self; write def {name}(self)")
                continue
            plain = unwrap(getattr(function, "__func__", function))
            # The wrapper counts here, and not what it wraps: inlineCallbacks makes a function of a generator.
            if isgeneratorfunction(function) or isasyncgenfunction(function):
                self._faults.append(f"{where}: it is a generator; send what it yields, and return the answer")
                continue
            handler = HandlerMethod(
                owner=self._class,
                name=name,
                function=function,
                decorator=decorator,
                method="" if isinstance(mark, ErrorMark) else mark.method,
                is_request=isinstance(mark, Mark) and mark.is_request,
                blocking=isinstance(mark, Mark) and (mark.blocking or is_blocking(function)),
                returns=self._returns(where, function),
                version=self._versions[0],
            )
            if handler.blocking and (iscoroutinefunction(function) or iscoroutinefunction(plain)):
                self._faults.append(f"{where}: async def does not block; drop {_what_blocks(mark)}, or write def")
            if isinstance(mark, ErrorMark):
                self._exception_handler(handler, mark)
            else:
                self._handler(handler, mark)

    def _returns(self, where: str, function: Any) -> object:
        annotation = signature(function).return_annotation
        if annotation is signature(function).empty:
            return Any
        try:
            return awaited(evaluate(annotation, function))
        except HintError as fault:
            self._faults.append(f"{where}, what it returns: {fault}")
            return Any

    def _handler(self, handler: HandlerMethod, mark: Mark) -> None:
        versions = [each for each in self._versions if each in mark.versions]
        if not versions:
            self._faults.append(
                f"{handler}: only version {_spelled(mark.versions)} has {mark.method}, and the agent speaks "
                f"{_spelled(self._versions)}; drop it, or give build_agent a builder with protocol_versions(1, 2)"
            )
            return
        if mark.unstable and not self._builder.takes_unstable:
            remedy = "write @acp_agent(unstable=True), or give build_agent a builder with unstable=True"
            if self.is_builder_given:  # what the class says was too late for it
                remedy = "make the builder with unstable=True"
            self._faults.append(f"{handler}: {mark.method} is not settled yet; {remedy}")
        if mark.decorator.startswith("ext_") and not mark.method.startswith("_"):
            self._faults.append(
                f"{handler}: the name of an extension begins with an underscore; write "
                f'@{mark.decorator}("_{mark.method}")'
            )
        handlers = [evolve(handler, version=each, method=mark.name_in(each)) for each in versions]
        returned = {each.version: self._return_handler(each) for each in handlers}

        def look(each: HandlerMethod) -> Found:
            found = self._look(each, handlers)
            if returned[each.version] is None:
                check_returns(each, found)
            return found

        serving, faults = served(handlers, look)
        names = any(each.versions for each in serving.values())
        if mark.decorator == "authenticate" and self._has_login and not names and 1 in serving:
            serving.pop(2, None)  # the other method is for that version, and this one need not say so
        self._faults += faults
        callings = {
            each.version: Calling(
                handler=each,
                arguments=serving[each.version].arguments,
                respond=responder_for(each),
                returned=returned[each.version],
                interceptors=self._interceptors,
                errors=self._errors[each.version],
            )
            for each in handlers
            if each.version in serving
        }
        if self._is_alone(callings, mark) and callings:
            self._callings.update({(version, mark.key): calling for version, calling in callings.items()})
            self._serving.append(Serving(mark, callings, names or set(callings) != set(versions)))

    def _return_handler(self, handler: HandlerMethod) -> IReturnValueHandler | None:
        return next((each for each in self._return_handlers if each.supports(handler)), None)

    def _is_alone(self, callings: dict[int, Calling], mark: Mark) -> bool:
        """
        Whether no other method does the same in the same version.
        """
        for version, calling in callings.items():
            other = self._callings.get((version, mark.key))
            if other is not None:
                already = f"{calling.handler.method} already"
                if len(self._versions) > 1:
                    already += f" in version {version}"
                self._faults.append(
                    f"{calling.handler}: {other.handler} handles {already}; keep one of the two decorators, or set one "
                    "of the methods to None in the subclass"
                )
                return False
        return True

    def _exception_handler(self, handler: HandlerMethod, mark: ErrorMark) -> None:
        handlers = [evolve(handler, version=each) for each in self._versions]
        serving, faults = served(handlers, lambda each: self._look(each, handlers, mark.kinds))
        self._faults += faults
        for each in handlers:
            if each.version in serving and not self._map(each, mark, serving[each.version].arguments):
                return

    def _map(self, handler: HandlerMethod, mark: ErrorMark, arguments: Arguments) -> bool:
        mapped = self._errors[handler.version].handlers
        for kind in mark.kinds:
            if kind in mapped:
                other = mapped[kind][0]
                self._faults.append(f"{handler}: {other} handles {kind.__name__} already; name it in one of the two")
                return False
            mapped[kind] = (handler, arguments)
        return True

    def _look(
        self, handler: HandlerMethod, siblings: Sequence[HandlerMethod], kinds: tuple[type[BaseException], ...] = ()
    ) -> Found:
        return find_arguments(Looking(handler, siblings, self._resolvers, kinds))

    def _check_prompts(self) -> None:
        """
        Prompts are answered in every version that is spoken.
        """
        prompts = [each for each in self._serving if each.mark.decorator == "prompt"]
        if not prompts:
            self._fault("it has no @prompt method, which every agent needs; decorate one")
            return
        for version in self._versions:
            served = (version, "session/prompt") in self._callings
            if not served and not self._builder.handles("session/prompt", version):
                self._fault(
                    f"nothing answers prompts of version {version}, since {prompts[0].where} names classes of version "
                    f"{_spelled(list(prompts[0].callings))} alone; name those of both, as in v1.PromptRequest | "
                    "v2.PromptRequest, or decorate another method for that version"
                )

    # ---- the agent

    def _assemble(self, builder: AcpAgentBuilder, mark: AgentMark) -> AcpAgent:
        builder.agent_info(mark.name, mark.version, mark.title)
        if mark.auth_methods:
            set_auth_methods(builder, mark)
        set_handlers(builder, self._serving)
        unanswered = unanswered_logins(builder)
        if unanswered is not None:
            self._fault(unanswered)
            self._refuse()
        warn_of_gaps(builder, self._serving, self._versions)
        return with_capabilities(builder.build(), mark, self._serving)


def _served_versions(builder: AcpAgentBuilder) -> tuple[int, ...]:
    """
    The versions that a method may serve: those that the builder speaks, as far as handlers are set for them at present.
    """
    spoken = builder.spoken_versions
    chosen = getattr(builder, "chosen_versions", spoken)
    return tuple(each for each in spoken if each in chosen) or spoken


def _spelled(versions: Sequence[int]) -> str:
    return " and ".join(map(str, versions))


def _what_blocks(mark: AnyMark) -> str:
    return "blocking=True" if isinstance(mark, Mark) and mark.blocking else "@blocking"
