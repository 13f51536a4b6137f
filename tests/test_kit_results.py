"""
What the test kit says of a Deferred.
"""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from acp_twisted.testing import failure_of, no_result, success_result


def test_a_result_is_taken_and_stays() -> None:
    """It can be looked at twice, and by others."""
    done = succeed(5)
    assert success_result(done) == 5
    assert success_result(done) == 5


def test_a_failure_is_taken_and_dealt_with() -> None:
    """It is given out when it is of the wanted kind, and nobody logs it as unhandled."""
    error = ValueError("no")
    assert failure_of(fail(error)) is error
    assert failure_of(fail(error), KeyError, ValueError) is error


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda: success_result(Deferred()), "there is none yet"),
        (lambda: success_result(fail(ValueError("why"))), "why"),
        (lambda: failure_of(Deferred()), "a failure was expected, and there is no result yet"),
        (lambda: failure_of(succeed(5), ValueError), "ValueError was expected; it succeeded with 5"),
        (lambda: failure_of(fail(KeyError("k")), ValueError), "ValueError was expected; it failed with KeyError"),
        (lambda: no_result(succeed(5)), "what came is 5"),
        (lambda: no_result(fail(KeyError("k"))), "KeyError"),
    ],
)
def test_what_is_wrong_is_said(check: object, words: str) -> None:
    """Each failure says what was expected and what came."""
    assert callable(check)
    with pytest.raises(AssertionError, match=words):
        check()


def test_nothing_yet() -> None:
    """It may still fire."""
    waiting: Deferred[int] = Deferred()
    no_result(waiting)
    waiting.callback(1)
    assert success_result(waiting) == 1
