"""
Those who want to know what becomes of a session of version 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from acp_twisted.schema import v2


class SessionFollower:
    """
    Is told what happens to a session, at once and in order, before its listeners and its readers are.  Each method does
    nothing here; none may raise or take its time.
    """

    def updated(self, update: v2.SessionUpdate) -> None:
        """
        An update came.
        """

    def described(self, options: Sequence[v2.SessionConfigOption] | None, commands: Sequence[object] | None) -> None:
        """
        The agent answered with all settings, or all commands, of the session; L{None} says nothing of them.
        """

    def replay_began(self) -> None:
        """
        C{session/resume} was sent: the conversation comes again from its beginning.
        """

    def replay_ended(self, resumed: bool) -> None:
        """
        C{session/resume} was answered.

        @param resumed: whether the agent did it.
        """

    def cancelling(self) -> None:
        """
        C{session/cancel} or C{session/close} is about to be sent.
        """

    def ended(self) -> None:
        """
        The session was closed or deleted here, or its connection is lost.  Nothing comes after that.
        """
