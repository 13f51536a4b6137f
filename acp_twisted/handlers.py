"""
What a user may hand in as a handler, and how it is called.

A handler is a function of the request, or of the request and the connection that it came on.  It returns a value or a
Deferred, or is C{async def}; all three always work.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from inspect import Parameter, Signature, iscoroutine, signature
from sys import float_info
from typing import Any, TypeAlias, TypeVar, cast

from twisted.internet.defer import Deferred

from acp_twisted.jsonrpc.cancellation import CancellationToken

_T = TypeVar("_T")

Handler: TypeAlias = "Callable[..., Any]"
"""What users write."""

Bound: TypeAlias = "Callable[[Any, Any], Any]"
"""What the library calls: with the request, and with the connection or the context."""


def two_arguments(handler: Handler, name: str) -> Bound:
    """
    A handler as something that takes two arguments, whether it wants one or both.

    @param name: who asks, for the message.
    @raise TypeError: when C{handler} can't be called with one or two arguments.
    """
    if not callable(handler):
        raise TypeError(f"{name}: {handler!r} is no function")
    try:
        shape = signature(handler)
        parameters = shape.parameters.values()
    except ValueError:  # a builtin that does not say
        return handler
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    required = sum(each.default is Parameter.empty for each in positional)
    variadic = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    keywords = any(each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters)
    if required > 2 or keywords or not (positional or variadic):
        raise TypeError(
            f"{name}: {getattr(handler, '__name__', type(handler).__name__)}{_shown(shape)} can't be called; a handler "
            "takes the request, and what it came with (a context or a connection) if it likes: "
            "(request) or (request, context)"
        )
    if variadic or len(positional) >= 2:
        return handler
    return lambda request, _: handler(request)


def _shown(shape: Signature) -> str:
    """
    The names of the parameters, without annotations and defaults, which may be long.
    """
    bare = [each.replace(annotation=each.empty, default=each.empty) for each in shape.parameters.values()]
    return str(Signature(bare))


def outcome(result: Any) -> Any:
    """
    What a handler returned, a coroutine as the Deferred that runs it.
    """
    if iscoroutine(result):
        return Deferred.fromCoroutine(cast("Coroutine[Deferred[Any], Any, Any]", result))
    return result


def after(gate: Deferred[None] | None, go: Callable[[], object]) -> object:
    """
    Call C{go} when its lane lets it: now, unless there is a gate.
    """
    return go() if gate is None else gate.addCallback(lambda _: go())


def after_unless_cancelled(gate: Deferred[None] | None, token: CancellationToken, go: Callable[[], object]) -> object:
    """
    The same, but for work that never begins when its token is set before that.
    """
    if gate is not None:

        def never() -> None:
            # Once it has fired, the gate is the handler's Deferred, which a session/cancel leaves alone.
            if not gate.called:
                gate.cancel()

        token.on_cancel(never)
    return after(gate, go)


def then(result: object, go: Callable[[Any], object]) -> object:
    """
    Go on with an outcome: now, unless it is a Deferred.
    """
    return result.addCallback(go) if isinstance(result, Deferred) else go(result)


class Handlers:
    """
    The handlers of one half, by method.  A method has one handler.
    """

    def __init__(self) -> None:
        self._by_method: dict[str, Bound] = {}
        self._raw: set[str] = set()

    def add(self, method: str, handler: Handler, setter: str) -> None:
        """
        @param setter: the builder's method, for messages.
        @raise ValueError: when the method has a handler.
        @raise TypeError: when C{handler} is none.
        """
        if method in self._by_method:
            raise ValueError(f"{setter}: {method} has a handler already")
        self._by_method[method] = two_arguments(handler, setter)

    def add_extension(self, method: str, handler: Handler, setter: str) -> None:
        """
        The same for a method outside the protocol.

        @raise ValueError: also when the name does not begin with an underscore.
        """
        if not method.startswith("_"):
            raise ValueError(f"{setter}: the name of an extension begins with an underscore, unlike {method!r}")
        self.add(method, handler, setter)

    def add_raw(self, method: str, handler: Handler, setter: str) -> None:
        """
        A handler that is not given the method's params but all of it, as it came: an L{IncomingRequest
        <acp_twisted.jsonrpc.incoming.IncomingRequest>}, whose result it returns as JSON, or a L{Notification
        <acp_twisted.jsonrpc.messages.Notification>}.  It is for what speaks a protocol of its own inside of this one.

        @raise ValueError: when the method has a handler.
        """
        self.add(method, handler, setter)
        self._raw.add(method)

    def is_raw(self, method: str) -> bool:
        """
        Whether the method's handler wants it as it came.
        """
        return method in self._raw

    def get(self, method: str) -> Bound | None:
        """
        The method's handler, or L{None}.
        """
        return self._by_method.get(method)

    def __contains__(self, method: object) -> bool:
        return method in self._by_method

    def chosen(self, wanted: Callable[[str], bool], aliases: Mapping[str, str], first: Handlers) -> Handlers:
        """
        Some of the handlers, for another version of the protocol.

        @param wanted: tells which methods.
        @param aliases: names of that version, each for a method of this one.
        @param first: handlers that come before those of the same method.
        """
        made = first.copy()
        names = {method: method for method in self._by_method if wanted(method)}
        names.update({alias: method for alias, method in aliases.items() if method in self._by_method})
        for name, method in names.items():
            if name not in made._by_method:
                made._by_method[name] = self._by_method[method]
                if method in self._raw:
                    made._raw.add(name)
        return made

    def copy(self) -> Handlers:
        """
        The handlers as they are now.
        """
        copied = Handlers()
        copied._by_method = dict(self._by_method)
        copied._raw = set(self._raw)
        return copied


def check_seconds(name: str, seconds: float) -> float:
    """
    C{seconds} as they are.

    @raise ValueError: when they are negative, or not finite: 0 is without end.
    @raise TypeError: when they are no number.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"{name} is a number of seconds, not {type(seconds).__name__}; 0 is without end")
    if not 0 <= seconds <= float_info.max:
        raise ValueError(f"{name} is a finite number of seconds that is not negative; 0 is without end")
    return float(seconds)


def check_kind(name: str, given: _T, kind: type[object]) -> _T:
    """
    C{given} as it is: for what is used much later, where nobody would know where it came from.

    @raise TypeError: when it is no C{kind}.
    """
    if not isinstance(given, kind):
        module = kind.__module__.rpartition(".")[2]
        raise TypeError(f"{name} takes a {module}.{kind.__name__}, not {_what(given)}")
    return given


def _what(given: object) -> str:
    if isinstance(given, type):
        return f"the class {given.__name__}; call it"
    return type(given).__name__


def check_text(text: str) -> str:
    """
    C{text} as it is: what streaming models give out between two words is often L{None}, which peers do not understand.

    @raise TypeError: when it is no string.
    """
    if not isinstance(text, str):
        raise TypeError(f"a piece of text is a str, not {type(text).__name__}; leave out what is empty")
    return text
