"""
How a test is failed.
"""

from __future__ import annotations

import sys


def failed(text: str) -> AssertionError:
    """
    What to raise when a test has failed: an L{AssertionError}, and under trial one of its own, for a plain one is an
    error and no failure there.
    """
    trial = sys.modules.get("twisted.trial.unittest")
    made: AssertionError = AssertionError(text) if trial is None else trial.FailTest(text)
    return made
