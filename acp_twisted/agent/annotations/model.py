"""
What an agent's author meets when he brings resolvers, return-value handlers or interceptors of his own: descriptions of
the decorated methods and their parameters, one call of a method, and the contracts.
"""
# ruff: noqa: N805  (the methods of zope interfaces take no self)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen
from zope.interface import Interface, implementer

from acp_twisted.agent.connection import AgentConnection
from acp_twisted.agent.context import PromptContext
from acp_twisted.jsonrpc.cancellation import CancellationToken, current_token
from acp_twisted.schema.methods import Method
from acp_twisted.schema.values import Model
from acp_twisted.schema.vocabulary import vocabulary


class AgentDefinitionError(TypeError):
    """
    A class can't be an agent as it stands.

    @ivar faults: what is wrong, each with class, method and remedy.
    """

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


@frozen(eq=False)
class HandlerMethod:
    """
    A decorated method, as it serves one version of the protocol.  One that serves both is described twice.

    @ivar owner: the agent's class.
    @ivar name: the method's name in Python.
    @ivar function: the method itself, bound.
    @ivar decorator: the decorator's name, without C{@}.
    @ivar method: the name on the wire; empty for an exception handler.
    @ivar is_request: whether it is answered.
    @ivar blocking: whether it runs in the reactor's thread pool.
    @ivar returns: the annotation of what it comes to, without the L{Deferred<twisted.internet.defer.Deferred>} or the
        coroutine around it; L{Any<typing.Any>} when there is none.
    @ivar version: the version of the protocol.
    """

    owner: type
    name: str
    function: Callable[..., Any]
    decorator: str
    method: str
    is_request: bool
    blocking: bool
    returns: object
    version: int = 1

    @property
    def schema_method(self) -> Method | None:
        """
        The protocol's method; L{None} for an extension's.
        """
        return vocabulary(self.version).get(self.method, "request" if self.is_request else "notification")

    @property
    def request_class(self) -> type[Model] | None:
        """
        The class of the request or the notification, of this version; L{None} for an extension's, which is plain JSON.
        """
        method = self.schema_method
        return None if method is None else method.params

    @property
    def is_extension(self) -> bool:
        """
        Whether it handles an extension.
        """
        return self.decorator.startswith("ext_")

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.name} (@{self.decorator})"


@frozen(eq=False)
class HandlerParameter:
    """
    A parameter of a decorated method.

    @ivar handler: the method.
    @ivar name: the parameter's name.
    @ivar annotation: its annotation, without C{Annotated} and C{None} around it.
    @ivar metadata: what C{Annotated} says more.
    @ivar optional: whether it may be L{None}.
    """

    handler: HandlerMethod
    name: str
    annotation: Any
    metadata: tuple[object, ...] = ()
    optional: bool = False


@frozen(eq=False)
class Invocation:
    """
    One call of a decorated method.

    @ivar handler: the method, as it serves the version that the connection speaks.
    @ivar request: the request or the notification; plain JSON for an extension's.
    @ivar connection: the connection that it came on.
    @ivar context: the prompt's context; L{None} for everything but a prompt.
    @ivar attributes: for interceptors, to keep what they need until later.
    """

    handler: HandlerMethod
    request: Any = field(repr=False)
    connection: AgentConnection
    context: PromptContext | None
    attributes: dict[str, Any] = field(factory=dict, repr=False)

    @property
    def token(self) -> CancellationToken:
        """
        The request's cancellation.

        @raise LookupError: for a notification, which nobody can cancel.
        """
        return current_token() if self.context is None else self.context.token


class IArgumentResolver(Interface):
    """
    Knows what to pass for certain parameters.  It is asked before the built-in ones.
    """

    def supports(parameter: HandlerParameter) -> bool:
        """
        Whether it knows what to pass for this parameter.  Asked when the agent is built, once for each version that the
        method may serve.
        """

    def resolve(parameter: HandlerParameter, invocation: Invocation) -> object:
        """
        What to pass: a value, a Deferred of one, or a coroutine.  It is called in the reactor's thread, for a blocking
        method too.
        """


class IReturnValueHandler(Interface):
    """
    Makes a response of what certain methods return.  The first that supports a method is the only one asked.
    """

    def supports(handler: HandlerMethod) -> bool:
        """
        Whether it handles what this method returns.  Asked when the agent is built, once for each version that the
        method may serve.
        """

    def handle(value: Any, invocation: Invocation) -> object:
        """
        What the method might have returned instead: its response, or whatever else is good without this handler.  A
        value, a Deferred of one, or a coroutine.
        """


class IInterceptor(Interface):
    """
    Stands around every decorated method.  Each of its methods may return a Deferred or a coroutine, which is waited
    for, and is called in the reactor's thread.

    They are called in the order in which they were given before the method, and the other way round after it.
    """

    def pre_invoke(invocation: Invocation) -> object:
        """
        Whether to go on.  After L{False} nothing else is called but C{after_completion} of those before; a request is
        answered with -32603.
        """

    def post_invoke(invocation: Invocation, result: Any) -> object:
        """
        The method has returned this, and nothing has been made of it yet.  Raising makes a failure of it; what this
        returns does not matter.
        """

    def on_error(invocation: Invocation, error: Exception) -> object:
        """
        Something failed, after this one's C{pre_invoke}, and no exception handler made a result of it.  What it returns
        or raises takes the error's place, as it does with L{exception_handler
        <acp_twisted.agent.annotations.exception_handler>}: L{None} leaves it as it is, and anything but an exception
        counts as what the method returned.  Not called for a cancellation.
        """

    def after_completion(invocation: Invocation, error: Exception | None) -> object:
        """
        It is over, with this error or without.  Called once for each whose C{pre_invoke} returned L{True}, just before
        the answer.  What it raises is logged.
        """


@implementer(IInterceptor)
class Interceptor:
    """
    An interceptor that does nothing; inherit from it and override what you need.
    """

    def pre_invoke(self, invocation: Invocation) -> Any:
        """
        See L{IInterceptor}.
        """
        return True

    def post_invoke(self, invocation: Invocation, result: Any) -> object:
        """
        See L{IInterceptor}.
        """
        return None

    def on_error(self, invocation: Invocation, error: Exception) -> object:
        """
        See L{IInterceptor}.
        """
        return None

    def after_completion(self, invocation: Invocation, error: Exception | None) -> object:
        """
        See L{IInterceptor}.
        """
        return None
