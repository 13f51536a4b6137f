"""
What the scripted agent and the scripted client have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, succeed

from acp_twisted.schema.methods import Method
from acp_twisted.schema.vocabulary import vocabulary
from acp_twisted.testing._versions import ALL, Versions, agreed, versions
from acp_twisted.testing.script import Expectation, Script, by_members, setter_of

_S = TypeVar("_S", bound="ScriptedHalf")


class ScriptedHalf:
    """
    One half whose handlers follow a L{Script}.

    As a context manager it is held to its expectations at the end (L{verify}).

    @ivar versions: the versions of the protocol that it speaks.
    """

    def __init__(self, whose: str, configure: Callable[[Any], object] | None, protocol_versions: Versions = 1) -> None:
        self.script = Script(whose)
        self.versions = versions(protocol_versions)
        self._configure = configure
        self._words = [vocabulary(each) for each in self.versions]
        self._links: list[Any] = []
        self._methods: dict[tuple[int, str], Method] = {}
        self._extensions: dict[str, str] = {}
        self._built = False
        self._waiting: list[tuple[list[Any], int, Deferred[None]]] = []

    @property
    def connections(self) -> list[Any]:
        """
        Its connections so far, each of the version that was agreed on.
        """
        return [agreed(each) for each in self._links]

    def expect(self, kind: type, matching: Callable[[Any], bool] | None = None, **members: object) -> Expectation:
        """
        Expect a request or a notification of the protocol, once, behind those of its kind that are expected already.

        What there is an expectation for before the first connection has a handler, and counts for what this half
        advertises.

        @param kind: the class of its params, such as C{v1.ReadTextFileRequest}.  What is expected in the words of
            one version is not expected in the other.
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
        method = self._method(kind)
        words, matches = by_members(matching, members)
        return Expectation(
            method.name,
            f"a {kind.__name__}{words}",
            lambda request: isinstance(request, kind) and matches(request),
        )

    def _method(self, kind: type) -> Method:
        """
        The method whose params are of this class, which from now on has a handler.
        """
        for words in self._words:
            method = words.for_params(kind)
            if method is not None:
                self._handled(words.version, method)
                return method
        spoken = " or ".join(map(str, self.versions))
        raise TypeError(f"{kind!r} is no request or notification of protocol version {spoken}")

    def _handled(self, version: int, method: Method) -> None:
        if (version, method.name) not in self._methods:
            if self._built:
                raise self._too_late(method.name)
            self._methods[version, method.name] = method

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

    def _of_versions(self, builder: Any) -> Any:
        """
        A builder of what speaks its versions.
        """
        return builder if self.versions == (1,) else builder.protocol_versions(*self.versions)

    def _install(self, builder: Any) -> None:
        """
        Give a builder the handlers that the script needs.
        """
        if self._configure is not None:
            self._configure(builder)
        done: set[str] = set()
        for (version, name), method in self._methods.items():
            setter = setter_of(method)
            if not _narrow(builder, version) and setter in done:
                continue  # one handler serves both versions
            done.add(setter)
            getattr(builder, setter)(self._playing(name))
        _narrow(builder, *ALL)
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


def _narrow(builder: Any, *versions: int) -> bool:
    """
    Have the handlers that are set from now on be for these versions only.

    @return: whether the builder knows of that: a client's does not.
    """
    narrow = getattr(builder, "for_versions", None)
    if narrow is None:
        return False
    narrow(*versions)
    return True
