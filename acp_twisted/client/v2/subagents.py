"""
The sessions of subagents, which a client is only told of: nothing may be done to one but what the agent has said of it.
"""

from __future__ import annotations

from typing import Any, Final

from acp_twisted.errors import AcpCapabilityError
from acp_twisted.schema.values import UNSET

_CHANGES: Final = frozenset(
    {
        "PromptRequest",
        "SetSessionConfigOptionRequest",
        "CloseSessionRequest",
        "DeleteSessionRequest",
        "ArchiveSessionRequest",
        "UnarchiveSessionRequest",
        "SetSessionTitleRequest",
    }
)
"""What changes a session, and no agent allows for a subagent's yet."""


class Subagents:
    """
    The subagents' sessions of one connection.

    @param limit: how many of them are known.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cancellable: dict[str, bool] = {}

    def told(self, update: Any) -> bool:
        """
        A C{subagent_update} came.

        @return: whether the session is known from now on; there may be too many.
        """
        name = update.session_id
        if name not in self._cancellable and len(self._cancellable) >= self._limit:
            return False
        if update.capabilities is UNSET:
            self._cancellable.setdefault(name, False)
        else:
            self._cancellable[name] = getattr(update.capabilities, "cancel", None) is not None
        return True

    def check_request(self, request: object) -> None:
        """
        Let a request pass, unless it changes a subagent's session.

        @raise AcpCapabilityError: when it does.
        """
        if self._cancellable and type(request).__name__ in _CHANGES and self._concerns(request):
            raise AcpCapabilityError("subagent.capabilities")

    def _concerns(self, request: object) -> bool:
        return getattr(request, "session_id", None) in self._cancellable

    def check_cancel(self, session_id: str) -> None:
        """
        Let C{session/cancel} pass, unless it is for a subagent's session that can't be cancelled by itself.

        @raise AcpCapabilityError: when it is.
        """
        if not self._cancellable.get(session_id, True):
            raise AcpCapabilityError("subagent.capabilities.cancel")
