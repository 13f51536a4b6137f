"""
The deadline that every test here has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

_T = TypeVar("_T")
_Test = Callable[..., Coroutine[Deferred[Any], Any, None]]


def within(seconds: float) -> Callable[[_Test], Callable[..., Deferred[None]]]:
    """
    Run an C{async def} test in the reactor, and fail it when it is not done by then.  A timer of pytest's own can't:
    what it raises is swallowed by the reactor.
    """

    def decorate(test: _Test) -> Callable[..., Deferred[None]]:
        @functools.wraps(test)
        def timed(*arguments: Any, **keywords: Any) -> Deferred[None]:
            from twisted.internet import reactor  # noqa: PLC0415 - pytest-twisted installs it

            clock: Any = reactor
            return Deferred.fromCoroutine(test(*arguments, **keywords)).addTimeout(seconds, clock)

        return timed

    return decorate
