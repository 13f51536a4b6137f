"""
What a Deferred has come to by now, for tests in which everything is synchronous.

They are like C{successResultOf}, C{failureResultOf} and C{assertNoResult} of trial's test case, and need no test case:
they work in plain functions, and fail with an L{AssertionError} that any test runner understands.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from acp_twisted.testing._failed import failed

_T = TypeVar("_T")
_E = TypeVar("_E", bound=BaseException)


def _outcome(deferred: Deferred[Any]) -> list[Any]:
    seen: list[Any] = []

    def look(result: Any) -> Any:
        seen.append(result)
        return result

    deferred.addBoth(look)
    return seen


def success_result(deferred: Deferred[_T]) -> _T:
    """
    The result of a Deferred that has fired.  It stays in the Deferred.

    @raise AssertionError: when it has not fired, or has failed; that it failed is then dealt with.
    """
    seen = _outcome(deferred)
    if not seen:
        raise failed(f"a result was expected, and there is none yet: {deferred!r}")
    if isinstance(seen[0], Failure):
        deferred.addErrback(lambda _: None)
        raise failed(f"a result was expected; it failed:\n{seen[0].getTraceback()}") from seen[0].value
    result: _T = seen[0]
    return result


@overload
def failure_of(deferred: Deferred[Any]) -> BaseException: ...


@overload
def failure_of(deferred: Deferred[Any], *kinds: type[_E]) -> _E: ...


def failure_of(deferred: Deferred[Any], *kinds: type[BaseException]) -> BaseException:
    """
    The exception of a Deferred that has failed, which is then dealt with.

    @param kinds: what it must be one of; anything, when none is given.
    @raise AssertionError: when it has not failed, or otherwise.
    """
    seen = _outcome(deferred)
    wanted = " or ".join(kind.__name__ for kind in kinds) or "a failure"
    if not seen:
        raise failed(f"{wanted} was expected, and there is no result yet: {deferred!r}")
    if not isinstance(seen[0], Failure):
        raise failed(f"{wanted} was expected; it succeeded with {seen[0]!r}")
    deferred.addErrback(lambda _: None)
    error = seen[0].value
    assert isinstance(error, BaseException)
    if not isinstance(error, kinds or BaseException):
        raise failed(f"{wanted} was expected; it failed with {error!r}:\n{seen[0].getTraceback()}") from error
    return error


def no_result(deferred: Deferred[Any]) -> None:
    """
    Hold a Deferred to not having fired yet.

    @raise AssertionError: when it has; a failure is then dealt with.
    """
    seen = _outcome(deferred)
    if seen:
        deferred.addErrback(lambda _: None)
        raise failed(f"no result was expected yet; what came is {seen[0]!r}")
