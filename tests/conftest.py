"""
What every test is held to.

A test fails when something was logged as a failure and not expected, when a Deferred's error was never looked at, or
when it leaves something in the reactor.  An async test is ended from inside the reactor when it takes too long, for
nothing outside can do it there.

No test fails because the machine is slow: whatever is waited for may take minutes, and an example of Hypothesis as long
as it likes.
"""

from __future__ import annotations

import functools
import gc
import inspect
import signal
from collections.abc import Iterator
from typing import Any

import chaos
import pytest
import pytest_twisted
from hypothesis import HealthCheck, settings
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

TEST_SECONDS = 480.0
SETTLING_SECONDS = 10.0

settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


class LoggedErrors(list[LogEvent]):
    """
    The failures that were logged during a test.  A test that expects some looks at them and calls C{clear()}.
    """

    def texts(self) -> list[str]:
        """
        Each one as its log line and its exception.
        """
        result = []
        for event in self:
            failure = event.get("log_failure") or event.get("failure")
            what = "" if failure is None else f": {failure.type.__name__}: {failure.getErrorMessage()}"
            result.append(f"{formatEvent(event)}{what}")
        return result


@pytest.fixture(autouse=True)
def logged_errors() -> Iterator[LoggedErrors]:
    """
    Fails the test that logs a failure, a Deferred's unhandled one included.
    """
    seen = LoggedErrors()

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        # Errors logged in the old way have isError, and not always a log_failure.
        if event.get("log_failure") is not None or event.get("isError"):
            seen.append(event)

    globalLogPublisher.addObserver(observe)
    yield seen
    gc.collect()  # an unhandled error is logged when its Deferred is collected
    globalLogPublisher.removeObserver(observe)
    assert not seen, "\n".join(seen.texts())


def _in_reactor() -> tuple[list[Any], set[Any]]:
    """
    The timers that wait in the reactor, and the descriptors that it watches for somebody.
    """
    from twisted.internet import reactor

    any_reactor: Any = reactor
    calls = [call for call in any_reactor.getDelayedCalls() if call.active()]
    watched = {*any_reactor.getReaders(), *any_reactor.getWriters()}
    return calls, watched - set(getattr(any_reactor, "_internalReaders", ()))


@pytest.fixture(autouse=True)
def clean_reactor() -> Iterator[None]:
    """
    Fails the test that leaves a timer or an open descriptor in the reactor.  What is only about to close may settle.
    """
    from twisted.internet import reactor

    before = _in_reactor()[1]
    yield
    calls, watched = _in_reactor()
    waited = 0.0
    while (calls or watched - before) and waited < SETTLING_SECONDS:
        pytest_twisted.blockon(deferLater(reactor, 0.02))
        waited += 0.02
        calls, watched = _in_reactor()
    for call in calls:
        call.cancel()  # the next test is not to blame
    assert not calls, f"left in the reactor: {calls}"
    assert not watched - before, f"left open in the reactor: {watched - before}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """
    C{--chaos SEED}: see L{chaos}.
    """
    parser.addoption("--chaos", type=int, metavar="SEED", help="run under a reactor without habits")


def pytest_configure(config: pytest.Config) -> None:
    """
    The marker that gives a slow async test more time.

    And an interrupt that does something: a shell has what it runs in the background ignore it, and what that starts.
    """
    seed = config.getoption("--chaos")
    if seed is not None:
        chaos.install(seed)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", f"seconds(n): how long an async test may take, if more than {TEST_SECONDS:g}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """
    Give every async test a timeout that lives in the reactor.
    """
    from twisted.internet import reactor

    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function) or hasattr(function, "hypothesis"):
        return
    marker = pyfuncitem.get_closest_marker("seconds")
    seconds = TEST_SECONDS if marker is None else max(TEST_SECONDS, float(marker.args[0]))

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(function(*args, **kwargs)).addTimeout(seconds, reactor)

    # Pytest-twisted would otherwise treat the wrapper as the coroutine function that it wraps.
    vars(timed)["_pytest_twisted_mark"] = None
    del vars(timed)["__wrapped__"]
    pyfuncitem.obj = timed
