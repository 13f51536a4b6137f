"""
Those who want to know what becomes of a session: its picture, its terminals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.client.session import PromptTurn


class SessionFollower:
    """
    Is told what happens to a session, at once and in order, before its listeners and its turn's reader are.  Each
    method does nothing here; none may raise or take its time.  L{ClientSession.follow} sets one on a session.
    """

    def updated(self, update: v1.SessionUpdate) -> None:
        """
        An update came.
        """

    def described(self, modes: v1.SessionModeState | None, options: object | None) -> None:
        """
        The agent answered with the session's modes and its list of settings; L{None} says nothing of them.
        """

    def mode_set(self, mode_id: str) -> None:
        """
        The agent took another mode as we asked.
        """

    def replay_began(self) -> None:
        """
        C{session/load} was sent: the conversation comes again from its beginning.
        """

    def replay_ended(self, loaded: bool) -> None:
        """
        C{session/load} was answered.

        @param loaded: whether the agent did it.
        """

    def turn_began(self, turn: PromptTurn) -> None:
        """
        A prompt is about to be sent.
        """

    def turn_cancelled(self, turn: PromptTurn) -> None:
        """
        C{session/cancel} is about to be sent for a turn that is unanswered.
        """

    def turn_ended(self, turn: PromptTurn, completed: bool) -> None:
        """
        The turn is answered, or never will be.

        @param completed: whether it ran to an end of the agent's own; not when it was cancelled, or failed.
        """

    def ended(self) -> None:
        """
        The session was closed or deleted here, or its connection is lost.  Nothing comes after that.
        """
