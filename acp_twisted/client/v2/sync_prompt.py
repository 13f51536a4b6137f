"""
A prompt of version 2 for threads that are not the reactor's.
"""

from __future__ import annotations

from concurrent.futures import Future

from acp_twisted.client.sync_turn import Readers, SyncTurn, settle
from acp_twisted.client.v2.prompt import Prompt
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.schema import v2


class SyncPrompt(SyncTurn[v2.SessionUpdate, v2.IdleStateUpdate]):
    """
    A prompt of version 2 that was sent.  L{accepted} waits until the agent has inserted its message; its L{result} is
    the report that the agent is idle again after the work on it, and its updates come until then.
    """

    def __init__(self, readers: Readers, session_id: str, stop: CancellationSignal | None) -> None:
        super().__init__(readers, session_id, stop)
        self._accepted: Future[str | None] = Future()

    def begin(self, prompt: Prompt) -> None:
        """
        In the reactor's thread: it was sent.
        """
        settle(self._accepted, prompt.accepted)
        self._begin(prompt, prompt.idle)

    @property
    def inserted(self) -> bool:
        """
        Whether the agent has inserted the message, as far as is known.
        """
        return self._accepted.done() and self._accepted.exception() is None

    def accepted(self, timeout: float | None = None) -> str | None:
        """
        Wait until the agent has inserted the message into the conversation, which it may do at once, or later when it
        is busy.  The updates can be read afterwards.

        @param timeout: seconds; the prompt goes on when they are over.
        @return: the id of the message; L{None} where the agent gives none, as the drafts before September 2026 had it.
        @raise AcpError: when the agent refuses the prompt, or drops it uninserted.
        @raise TimeoutError: when the seconds are over.
        """
        return self._waited(self._accepted, timeout, "the prompt is not inserted yet")
