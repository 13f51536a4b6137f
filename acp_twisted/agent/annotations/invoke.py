"""
One call of a decorated method: interceptors, arguments, the method itself, and what becomes of its result or its error.

All of it happens in the reactor's thread but a blocking method itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from acp_twisted.agent.annotations.arguments import IN_THREAD, Arguments, outcome_of
from acp_twisted.agent.annotations.model import (
    HandlerMethod,
    IInterceptor,
    Interceptor,
    Invocation,
    IReturnValueHandler,
)
from acp_twisted.agent.blocking import SyncPromptContext, in_thread, run_blocking
from acp_twisted.agent.context import PromptContext
from acp_twisted.errors import AcpError, InternalError, LocalError

_log = Logger()


class _Vetoed(Exception):
    """An interceptor said no."""


@frozen
class ErrorMapping:
    """
    The exception handlers of a class.

    @ivar handlers: each exception's, and how it is called.
    """

    handlers: dict[type[BaseException], tuple[HandlerMethod, Arguments]]

    def covers(self, error: Exception) -> bool:
        """
        Whether anybody asked for it.  Who asks for all exceptions means neither a cancellation nor an error of the
        protocol, which is an answer already.
        """
        return self._nearest(error) is not None

    def _nearest(self, error: Exception) -> type[BaseException] | None:
        for kind in type(error).__mro__:
            if kind in self.handlers:
                settled = isinstance(error, CancelledError | AcpError) and not isinstance(error, LocalError)
                return None if settled and not issubclass(kind, CancelledError | AcpError) else kind
        return None

    async def __call__(self, invocation: Invocation, error: Exception) -> Any:
        """
        What the error's handler makes of it.
        """
        kind = self._nearest(error)
        if kind is None:
            return None
        handler, arguments = self.handlers[kind]
        positional, named = await arguments.of(invocation, error)
        return await outcome_of(handler.function(*positional, **named))


@frozen(eq=False)
class Calling:
    """
    A decorated method as a handler of the agent's: called with the request, and with the prompt's context or the
    connection.
    """

    handler: HandlerMethod
    arguments: Arguments
    respond: Callable[[Any, Invocation], Any]
    returned: IReturnValueHandler | None
    interceptors: Sequence[IInterceptor | Interceptor]
    errors: ErrorMapping

    async def __call__(self, request: Any, companion: Any) -> Any:
        """
        The method's response.
        """
        if isinstance(companion, PromptContext):
            invocation = Invocation(self.handler, request, companion.connection, companion)
        else:
            invocation = Invocation(self.handler, request, companion, None)
        begun: list[IInterceptor | Interceptor] = []
        error: Exception | None = None
        response: Any = None
        try:
            response = await self._attempt(invocation, begun)
        except _Vetoed:
            if self.handler.is_request:
                error = InternalError(f"The {self.handler.method} handler produced no response")
        except Exception as caught:
            try:
                response = await self._recover(invocation, caught, begun)
            except Exception as standing:
                error = standing
        for each in reversed(begun):
            await self._complete(each, invocation, error)
        if error is not None:
            raise error
        return response

    async def _attempt(self, invocation: Invocation, begun: list[IInterceptor | Interceptor]) -> Any:
        """
        All that happens as long as nothing fails.

        @param begun: takes the interceptors whose C{pre_invoke} returned L{True}.
        """
        for each in self.interceptors:
            goes_on: object = await outcome_of(each.pre_invoke(invocation))
            if goes_on is False:
                raise _Vetoed()
            if goes_on is not True:  # a forgotten return must neither let everything pass nor stop it silently
                raise TypeError(
                    f"{type(each).__name__}.pre_invoke returned a {type(goes_on).__name__}; return True to go on, or "
                    "False to veto"
                )
            begun.append(each)
        result = await self._call(invocation)
        for each in reversed(begun):
            await outcome_of(each.post_invoke(invocation, result))
        return await self._respond(result, invocation)

    async def _call(self, invocation: Invocation) -> Any:
        positional, named = await self.arguments.of(invocation)
        function = self.handler.function
        if not self.handler.blocking:
            return await outcome_of(function(*positional, **named))
        if invocation.context is None:
            return await in_thread(invocation.connection, lambda: function(*positional, **named))

        def in_prompts_thread(_: object, sync: SyncPromptContext) -> Any:
            def final(argument: Any) -> Any:
                return sync if argument is IN_THREAD else argument

            return function(*map(final, positional), **{name: final(value) for name, value in named.items()})

        return await run_blocking(in_prompts_thread, invocation.request, invocation.context)

    async def _respond(self, result: Any, invocation: Invocation) -> Any:
        if self.returned is not None:
            result = await outcome_of(self.returned.handle(result, invocation))
        return await outcome_of(self.respond(result, invocation))

    async def _recover(self, invocation: Invocation, error: Exception, begun: list[IInterceptor | Interceptor]) -> Any:
        """
        The response in spite of an error.  From the inside out: the class's exception handlers first, then the
        interceptors; each is asked about what those before have left.

        @raise Exception: the error that is left in the end.
        """
        steps: list[Callable[[Invocation, Exception], Any]] = [self.errors]
        steps += [each.on_error for each in reversed(begun)]
        for ask in steps:
            if isinstance(error, CancelledError) and not (ask is self.errors and self.errors.covers(error)):
                continue
            try:
                instead = await outcome_of(ask(invocation, error))
                if isinstance(instead, Exception):
                    raise instead
                if instead is not None and self.handler.decorator != "accept_prompt":  # a failure never accepts
                    return await self._respond(instead, invocation)
            except Exception as other:
                if other is not error and other.__cause__ is None:
                    other.__cause__ = error
                error = other
        raise error

    async def _complete(
        self, interceptor: IInterceptor | Interceptor, invocation: Invocation, error: Exception | None
    ) -> None:
        try:
            await outcome_of(interceptor.after_completion(invocation, error))
        except CancelledError:
            pass  # the answer is given, and nobody waits any more
        except Exception:
            _log.failure("{kind}.after_completion failed", kind=type(interceptor).__name__)


@frozen(eq=False)
class ByVersion:
    """
    A method that serves several versions, as one handler of the agent's.

    @ivar callings: how it is called in each.
    """

    callings: Mapping[int, Calling]

    async def __call__(self, request: Any, companion: Any) -> Any:
        """
        The method's response, in the version that the connection speaks.
        """
        connection = companion.connection if isinstance(companion, PromptContext) else companion
        return await self.callings[connection.vocabulary.version](request, companion)
