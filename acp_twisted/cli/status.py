"""
What the command's exit status says.
"""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """
    The exit statuses of C{acp-twisted prompt}.

    @cvar FINISHED: the turn was answered with a result, whatever its stop reason, unless that was C{cancelled}.
    @cvar USAGE: the command line makes no sense.
    @cvar CANCELLED: the stop reason is C{cancelled}, or the agent answered -32800 after we had asked it to.
    @cvar REFUSED: the agent answered an error, or something that is no answer.
    @cvar LOST: the agent could not be started or reached, or the link was lost.
    @cvar TIMED_OUT: C{--timeout} is over, or the agent took longer than the library waits for C{initialize} or
        C{session/new}.
    @cvar HUNG_UP: ended by SIGHUP.
    @cvar INTERRUPTED: a second ^C, or one before the prompt was sent.
    @cvar OUTPUT_GONE: nobody reads our standard output any more.
    @cvar TERMINATED: ended by SIGTERM.
    """

    FINISHED = 0
    USAGE = 2
    CANCELLED = 3
    REFUSED = 4
    LOST = 5
    TIMED_OUT = 6
    HUNG_UP = 129
    INTERRUPTED = 130
    OUTPUT_GONE = 141
    TERMINATED = 143
