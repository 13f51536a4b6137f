"""
How the beginning of a connection can fail.
"""

from __future__ import annotations

from twisted.python.failure import Failure

from acp_twisted.errors import AcpConnectionError, AgentStartError


def not_started(failure: Failure) -> Failure:
    """
    A program that ended before it answered C{initialize} did not start (B69).
    """
    lost = failure.value
    if not isinstance(lost, AcpConnectionError) or isinstance(lost, AgentStartError):
        return failure
    if lost.exit_code is None and lost.signal is None:
        return failure
    return Failure(
        AgentStartError(
            f"{lost} before it answered initialize",
            lost.reason,
            exit_code=lost.exit_code,
            signal=lost.signal,
            stderr_tail=lost.stderr_tail,
        )
    )
