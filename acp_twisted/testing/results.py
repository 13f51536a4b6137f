"""
What a Deferred has come to by now, for tests in which everything is synchronous.

They are like C{successResultOf}, C{failureResultOf} and C{assertNoResult} of trial's test case, and need no test case:
they work in plain functions, and fail with an L{AssertionError} that any test runner understands.

A client's turn or prompt stands for its end, in either version of the protocol: the answer of a
L{PromptTurn<acp_twisted.client.session.PromptTurn>}, and of a L{Prompt<acp_twisted.client.v2.prompt.Prompt>} the report
that the agent is idle again.  A report of an error is a failure then, as the answer would be in version 1.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, TypeVar, overload

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError, InternalError
from acp_twisted.testing._failed import failed

_T = TypeVar("_T")
_E = TypeVar("_E", bound=BaseException)


class Answered(Protocol[_T]):
    """
    What ends with an answer: a turn of version 1.
    """

    @property
    def response(self) -> Deferred[_T]:
        """The answer."""


class Reported(Protocol[_T]):
    """
    What ends with a report: a prompt of version 2.
    """

    @property
    def idle(self) -> Deferred[_T]:
        """The report."""


Ending: TypeAlias = "Deferred[_T] | Answered[_T] | Reported[_T]"
"""A Deferred, or what stands for one."""


def _deferred(ending: Any) -> Deferred[Any]:
    if isinstance(ending, Deferred):
        return ending
    deferred: Deferred[Any] = ending.idle if hasattr(ending, "idle") else ending.response
    return deferred


def _outcome(ending: Any) -> list[Any]:
    deferred = _deferred(ending)
    seen: list[Any] = []

    def look(result: Any) -> Any:
        seen.append(result)
        return result

    if deferred.called and not deferred.paused:  # who only looks does not listen for what comes later
        deferred.addBoth(look)
    is_report = getattr(ending, "idle", None) is deferred
    if seen and is_report and getattr(seen[0], "stop_reason", None) == "error":
        return [Failure(_reported(seen[0]))]
    return seen


def _reported(report: Any) -> AcpError:
    """
    The error that work of version 2 ended with.
    """
    error = report.error
    return InternalError(remote=True) if error is None else AcpError.from_peer(error.code, error.message, error.data)


def success_result(ending: Ending[_T]) -> _T:
    """
    The result of a Deferred that has fired, or of a turn or prompt that is over.  It stays in the Deferred.

    @raise AssertionError: when it has not fired, or has failed; that it failed is then dealt with.
    """
    seen = _outcome(ending)
    if not seen:
        raise failed(f"a result was expected, and there is none yet: {ending!r}")
    if isinstance(seen[0], Failure):
        _dealt_with(ending)
        raise failed(f"a result was expected; it failed:\n{seen[0].getTraceback()}") from seen[0].value
    result: _T = seen[0]
    return result


def _dealt_with(ending: Any) -> None:
    _deferred(ending).addErrback(lambda _: None)


@overload
def failure_of(ending: Ending[Any]) -> BaseException: ...


@overload
def failure_of(ending: Ending[Any], *kinds: type[_E]) -> _E: ...


def failure_of(ending: Ending[Any], *kinds: type[BaseException]) -> BaseException:
    """
    The exception of a Deferred, a turn or a prompt that has failed, which is then dealt with.

    @param kinds: what it must be one of; anything, when none is given.
    @raise AssertionError: when it has not failed, or otherwise.
    """
    seen = _outcome(ending)
    wanted = " or ".join(kind.__name__ for kind in kinds) or "a failure"
    if not seen:
        raise failed(f"{wanted} was expected, and there is no result yet: {ending!r}")
    if not isinstance(seen[0], Failure):
        raise failed(f"{wanted} was expected; it succeeded with {seen[0]!r}")
    _dealt_with(ending)
    error = seen[0].value
    assert isinstance(error, BaseException)
    if not isinstance(error, kinds or BaseException):
        raise failed(f"{wanted} was expected; it failed with {error!r}:\n{seen[0].getTraceback()}") from error
    return error


def no_result(ending: Ending[Any]) -> None:
    """
    Hold a Deferred, a turn or a prompt to not having fired yet.

    @raise AssertionError: when it has; a failure is then dealt with.
    """
    seen = _outcome(ending)
    if seen:
        _dealt_with(ending)
        raise failed(f"no result was expected yet; what came is {seen[0]!r}")
