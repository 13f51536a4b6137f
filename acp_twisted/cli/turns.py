"""
The one prompt of a run, in either version of the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from twisted.internet.defer import Deferred

from acp_twisted.client.session import ClientSession, PromptTurn
from acp_twisted.errors import AcpError
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.client.v2.prompt import Prompt
    from acp_twisted.client.v2.session import ClientSession as SecondSession
    from acp_twisted.schema import v2

    Answer: TypeAlias = v1.PromptResponse | v2.IdleStateUpdate


class Turn(Protocol):
    """
    What a run needs of it.
    """

    @property
    def outcome(self) -> Deferred[Any]:
        """
        What the turn came to: something with a C{stop_reason}.
        """

    @property
    def ended(self) -> bool:
        """
        Whether that is known.
        """

    @property
    def error(self) -> AcpError | None:
        """
        The error that counts as C{cancelled}.
        """

    def cancel(self, how: str) -> None:
        """
        Stop it, by C{session/cancel} (C{"session"}) or C{$/cancel_request} (C{"request"}).
        """


class FirstTurn:
    """
    A turn of version 1.
    """

    def __init__(self, session: ClientSession, text: str) -> None:
        self._turn: PromptTurn = session.prompt(text)

    @property
    def outcome(self) -> Deferred[Any]:
        return self._turn.response

    @property
    def ended(self) -> bool:
        return self._turn.ended

    @property
    def error(self) -> AcpError | None:
        return self._turn.error

    def cancel(self, how: str) -> None:
        if how == "request":
            self._turn.response.cancel_handle().cancel()
        else:
            self._turn.cancel()


class SecondTurn:
    """
    A prompt of version 2.  Once it is inserted, C{$/cancel_request} can't stop it any more.
    """

    def __init__(self, session: SecondSession, text: str) -> None:
        self._session = session
        self._prompt: Prompt = session.prompt(text)

    @property
    def outcome(self) -> Deferred[Any]:
        return self._prompt.idle

    @property
    def ended(self) -> bool:
        return self._prompt.over

    @property
    def error(self) -> AcpError | None:
        return self._prompt.error

    def cancel(self, how: str) -> None:
        if how == "request":
            self._prompt.accepted.cancel_handle().cancel()
        else:
            self._session.cancel()
