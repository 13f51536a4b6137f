"""
What the scripted agent and the scripted client have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, succeed

from acp_twisted.schema.methods import Method
from acp_twisted.schema.vocabulary import V1
from acp_twisted.testing.script import Expectation, Script, by_members, setter_of

_S = TypeVar("_S", bound="ScriptedHalf")


class ScriptedHalf:
    """
    One half whose handlers follow a L{Script}.

    As a context manager it is held to its expectations at the end (L{verify}).
    """

    def __init__(self, whose: str, configure: Callable[[Any], object] | None) -> None:
        self.script = Script(whose)
        self._configure = configure
        self._methods: dict[str, Method] = {}
        self._extensions: dict[str, str] = {}
        self._built = False
        self._waiting: list[tuple[list[Any], int, Deferred[None]]] = []

    def expect(self, kind: type, matching: Callable[[Any], bool] | None = None, **members: object) -> Expectation:
        """
        Expect a request or a notification of the protocol, once, behind those of its kind that are expected already.

        What there is an expectation for before the first connection has a handler, and counts for what this half
        advertises.

        @param kind: the class of its params, such as C{v1.ReadTextFileRequest}.
        @param matching: decides whether it is the one.
        @param members: what must be in it.
        @raise TypeError: when C{kind} is nothing that this half could be sent.
        @raise ValueError: when it is connected and has no handler for it.
        """
        return self.script.add(self._expectation(kind, matching, members), allowed=False)

    def allow(self, kind: type, matching: Callable[[Any], bool] | None = None, **members: object) -> Expectation:
        """
        The same for what may come any number of times, or never.  What is expected is looked at first.
        """
        return self.script.add(self._expectation(kind, matching, members), allowed=True)

    def _expectation(
        self, kind: type, matching: Callable[[Any], bool] | None, members: dict[str, object]
    ) -> Expectation:
        method = V1.for_params(kind)
        if method is None:
            raise TypeError(f"{kind!r} is no request or notification of the protocol")
        self._handled(method)
        words, matches = by_members(matching, members)
        return Expectation(
            method.name,
            f"a {kind.__name__}{words}",
            lambda request: isinstance(request, kind) and matches(request),
        )

    def _handled(self, method: Method) -> None:
        if method.name not in self._methods:
            if self._built:
                raise self._too_late(method.name)
            self._methods[method.name] = method

    def _too_late(self, method: str) -> ValueError:
        return ValueError(f"{self.script.whose} is connected, and has no handler for {method}: expect it before")

    def expect_ext(self, method: str, params: object = None, *, notification: bool = False) -> Expectation:
        """
        Expect an extension's request.  It is answered with JSON.

        @param method: its name, which begins with an underscore.
        @param params: what its params are, if that matters.
        @param notification: it is none that is answered.
        @raise ValueError: when this half is connected and has no handler for it.
        """
        if method not in self._extensions and self._built:
            raise self._too_late(method)
        self._extensions[method] = "ext_notification_handler" if notification else "ext_request_handler"
        words = "" if params is None else f" with {params!r}"
        return self.script.add(
            Expectation(method, f"{method}{words}", lambda came: params is None or came == params), allowed=False
        )

    @property
    def _unstable(self) -> bool:
        """
        Whether it expects something that the protocol has not settled.
        """
        return not all(method.stable for method in self._methods.values())

    def _install(self, builder: Any) -> None:
        """
        Give a builder the handlers that the script needs.
        """
        if self._configure is not None:
            self._configure(builder)
        for name, method in self._methods.items():
            getattr(builder, setter_of(method))(self._playing(name))
        for name, setter in self._extensions.items():
            getattr(builder, setter)(name, self._playing(name))
        self._built = True

    def _playing(self, method: str) -> Callable[[Any, Any], Any]:
        async def play(request: Any, subject: Any) -> Any:
            return await self.script.play(method, request, subject)

        return play

    def _when(self, seen: list[Any], count: int) -> Deferred[None]:
        """
        Fires when a list has so many items.
        """
        if len(seen) >= count:
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._waiting.append((seen, count, waiting))
        return waiting

    def _note(self, seen: list[Any], item: Any) -> None:
        seen.append(item)
        for entry in list(self._waiting):
            counted, count, waiting = entry
            if counted is seen and len(seen) >= count:
                self._waiting.remove(entry)
                if not waiting.called:
                    waiting.callback(None)

    def verify(self) -> None:
        """
        Hold the peer to all that was expected.

        @raise AssertionError: with what came and was not expected, and with what was and did not come.
        """
        self.script.verify()

    def __enter__(self: _S) -> _S:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.verify()
