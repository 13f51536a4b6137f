"""
What a scripted half expects of its peer, and what it does then.

An expectation is of one method.  Those of a method are met in the order in which they were made; those of different
methods do not wait for each other, for what a whole conversation looks like is better said of its transcript.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from acp_twisted.errors import InternalError
from acp_twisted.schema.methods import Method
from acp_twisted.testing._failed import failed

_S = TypeVar("_S", bound="Expectation")

Matching: TypeAlias = "str | re.Pattern[str] | Callable[[Any], bool] | None"
"""The text of a request, an expression that is to be found in it, or a function that decides; L{None} is anything."""

Step: TypeAlias = Callable[[Any, Any], "Awaitable[Any] | object"]
"""What is done on the way: a function of the request and of its context or connection."""

_LONGEST = 300


class Unexpected(InternalError):
    """
    What the peer is answered when it did not do what was expected of it.
    """


class Expectation:
    """
    One thing that is to come, and what is done when it does.  Each method returns the expectation itself.

    @ivar method: the method.
    @ivar description: what is expected, in words.
    @ivar count: how often it is to come.
    @ivar met: how often it has come.
    """

    def __init__(self, method: str, description: str, matches: Callable[[Any], bool]) -> None:
        self.method = method
        self.description = description
        self.matches = matches
        self.count = 1
        self.met = 0
        self._steps: list[Step] = []
        self._end: Callable[[Any, Any], Any] = lambda request, subject: None

    def times(self: _S, count: int) -> _S:
        """
        It is to come so often, once unless said otherwise.
        """
        if count < 1:
            raise ValueError("what is expected comes at least once")
        self.count = count
        return self

    def does(self: _S, step: Step) -> _S:
        """
        Call C{step} with the request and with its context or connection, and await what it returns.
        """
        self._steps.append(step)
        return self

    def waits(self: _S, seconds: float) -> _S:
        """
        Let some time of the connection's clock pass.
        """
        return self.does(lambda request, subject: deferLater(_clock(subject), seconds))

    def answers(self: _S, response: object) -> _S:
        """
        Answer.

        @param response: an object of the schema (of an extension: JSON), or a function of the request that makes it.
        """
        self._end = (lambda request, subject: response(request)) if callable(response) else lambda *_: response
        return self

    def fails(self: _S, error: BaseException) -> _S:
        """
        Fail: with a C{AcpError}, which is answered with, or with anything else.
        """

        def fail(request: Any, subject: Any) -> None:
            raise error

        self._end = fail
        return self

    def hangs(self: _S) -> _S:
        """
        Give no answer, until the handler is cancelled.
        """
        self._end = lambda request, subject: Deferred()
        return self

    async def play(self, request: Any, subject: Any) -> Any:
        """
        Do it.
        """
        for step in self._steps:
            result = step(request, subject)
            if isawaitable(result):
                await result
        end = self._end(request, subject)
        return await end if isawaitable(end) else end

    def __str__(self) -> str:
        often = f", {self.count} times" if self.count > 1 else ""
        return f"{self.description}{often}" + (f" (came {self.met} times)" if self.met else "")


class Script:
    """
    Everything that one half expects.

    @ivar whose: who expects it, for messages.
    @ivar faults: what came and was not expected.
    """

    def __init__(self, whose: str) -> None:
        self.whose = whose
        self.faults: list[str] = []
        self._expected: dict[str, list[Expectation]] = {}
        self._allowed: dict[str, list[Expectation]] = {}

    @property
    def methods(self) -> set[str]:
        """
        Everything that there is an expectation for.
        """
        return {*self._expected, *self._allowed}

    def add(self, expectation: _S, *, allowed: bool) -> _S:
        """
        @param allowed: it may come any number of times, and is asked when nothing that is expected fits.
        """
        (self._allowed if allowed else self._expected).setdefault(expectation.method, []).append(expectation)
        return expectation

    async def play(self, method: str, request: Any, subject: Any) -> Any:
        """
        Do what is to be done about a request.

        @raise Unexpected: when it is not expected, or something along the way is not as expected.
        """
        return await self.find(method, request).play(request, subject)

    def find(self, method: str, request: Any) -> Expectation:
        """
        The expectation that a request meets, which counts it.

        @raise Unexpected: when there is none.
        """
        queue = self._expected.get(method, [])
        if queue and queue[0].matches(request):
            found = queue[0]
            found.met += 1
            if found.met >= found.count:
                del queue[0]
            return found
        for found in self._allowed.get(method, ()):
            if found.matches(request):
                found.met += 1
                return found
        wanted = str(queue[0]) if queue else f"no {'other' if self._allowed.get(method) else 'more'} {method}"
        raise self.fault(f"expected {wanted}; what came is {shortened(request)}")

    def fault(self, text: str) -> Unexpected:
        """
        Something is not as it should be.

        @return: what to raise.
        """
        self.faults.append(text)
        return Unexpected(f"{self.whose} {text}")

    def check(self, what: str, wanted: object, got: object) -> None:
        """
        Hold something along the way to what it should be.

        @raise Unexpected: when it is not.
        """
        fine = wanted(got) if callable(wanted) else wanted == got
        if not fine:
            raise self.fault(f"expected {what} to come to {shortened(wanted)}; what came is {shortened(got)}")

    def verify(self) -> None:
        """
        Hold the peer to all that was expected.

        @raise AssertionError: with what came and was not expected, and with what was and did not come.
        """
        missing = [str(each) for queue in self._expected.values() for each in queue]
        if self.faults or missing:
            lines = [*self.faults, *(f"expected {each}; it did not come" for each in missing)]
            raise failed("\n".join(f"{self.whose} {line}" for line in lines))


def shortened(value: object) -> str:
    """
    A value for a message.
    """
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def text_of(blocks: Any) -> str:
    """
    The texts of content blocks, put together.
    """
    return "".join(each.text for each in blocks if type(each).__name__ == "TextContent")  # of either version


def by_text(matching: Matching, text: Callable[[Any], str]) -> tuple[str, Callable[[Any], bool]]:
    """
    What a L{Matching} is in words, and as a function.

    @param text: what the text of a request is.
    """
    if matching is None:
        return "", lambda request: True
    if isinstance(matching, str):
        return f" {matching!r}", lambda request: text(request) == matching
    if isinstance(matching, re.Pattern):
        pattern = matching
        return f" like {pattern.pattern!r}", lambda request: pattern.search(text(request)) is not None
    return f" that {getattr(matching, '__name__', repr(matching))} accepts", matching


def by_members(
    matching: Callable[[Any], bool] | None, members: Mapping[str, object]
) -> tuple[str, Callable[[Any], bool]]:
    """
    The same for a request some of whose members are known.
    """
    named = ", ".join(f"{name}={value!r}" for name, value in members.items())
    words = f" with {named}" if named else ""
    if matching is not None:
        words += f" that {getattr(matching, '__name__', repr(matching))} accepts"

    def matches(request: Any) -> bool:
        fine = all(getattr(request, name) == value for name, value in members.items())
        return fine and (matching is None or bool(matching(request)))

    return words, matches


_SETTERS = {
    "auth/login": "login_handler",
    "auth/logout": "logout_handler",
    "mcp/message": "mcp_message_handler",
    "session/cancel": "cancel_handler",
    "session/update": "session_update_handler",
}
"""The setters that are not called after the class of the params."""


def setter_of(method: Method) -> str:
    """
    The name of the builders' method that takes the handler of a method: C{load_session_handler} for C{session/load}.
    """
    if method.name in _SETTERS:
        return _SETTERS[method.name]
    stem = re.sub("(Request|Notification)$", "", method.params_name)
    return f"{re.sub('(?<=[a-z])(?=[A-Z])', '_', stem).lower()}_handler"


def _clock(subject: Any) -> Any:
    return getattr(subject, "connection", subject).clock
