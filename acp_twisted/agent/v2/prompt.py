"""
One C{session/prompt} of version 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from twisted.internet.defer import Deferred

from acp_twisted.agent.blocking import run_blocking
from acp_twisted.errors import AcpError
from acp_twisted.handlers import after_unless_cancelled, outcome
from acp_twisted.jsonrpc.cancellation import in_force
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.schema import v2
from acp_twisted.turn.foreground import Work

if TYPE_CHECKING:
    from acp_twisted.agent.v2.connection import AgentConnection
    from acp_twisted.agent.v2.session import AgentSession


class Prompt:
    """
    One C{session/prompt}, from its arrival to its handler.
    """

    def __init__(
        self,
        connection: AgentConnection,
        session: AgentSession,
        prompt: v2.PromptRequest,
        request: IncomingRequest,
        gate: Deferred[None] | None,
    ) -> None:
        self._connection = connection
        self._session = session
        self._prompt = prompt
        self._request = request
        self._gate = gate
        self._message_id = str(uuid4())

    def admit(self, work: Work) -> Any:
        """
        Ask the agent whether it takes the prompt.
        """
        accept = self._connection.agent.second.accept
        assert accept is not None
        before = in_force.set(work.token)  # a held prompt's turn comes in the context of whatever ended the work before
        try:
            result = outcome(accept(self._prompt, self._connection))
        finally:
            in_force.reset(before)
        return result.addCallback(self._admitted) if isinstance(result, Deferred) else self._admitted(result)

    def _admitted(self, result: object) -> None:
        if isinstance(result, str):
            self._message_id = result

    def insert(self, work: Work) -> None:
        """
        The message is part of the conversation: say so, and show it (2.30, 2.31).
        """
        response = v2.PromptResponse(message_id=self._message_id)
        self._request.respond(self._connection.encode(response, "session/prompt"))
        self._session.say(v2.UserMessage(message_id=self._message_id, content=list(self._prompt.prompt)))

    def refuse(self, error: AcpError) -> None:
        """
        The message is no part of the conversation.
        """
        self._request.fail(error)
        if self._gate is not None and not self._gate.called:
            self._gate.addErrback(lambda _: None).cancel()  # nobody waits there

    def start(self, work: Work) -> Any:
        """
        Call the handler, when its lane lets it.  Work that is cancelled before that never gets that far.
        """
        return after_unless_cancelled(self._gate, work.token, lambda: self._run(work))

    def _run(self, work: Work) -> Any:
        context = self._connection.context(self._session, self._prompt, work, self._message_id)
        second = self._connection.agent.second
        before = in_force.set(work.token)  # a held start runs in the context of whatever ended the work before
        try:
            if second.prompt_blocks:
                return run_blocking(second.prompt, self._prompt, context)  # type: ignore[arg-type]
            return outcome(second.prompt(self._prompt, context))
        finally:
            in_force.reset(before)
