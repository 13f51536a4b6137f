"""
An agent of version 2 written as a class, whose prompt handler blocks: it runs in a thread.

    acp-twisted prompt --protocol 2 "hello" -- python examples/decorated_agent_v2.py
"""

from __future__ import annotations

import time
from uuid import uuid4

from acp_twisted import AcpAgent, AcpError, SyncPromptContext, run_agent
from acp_twisted.agent.annotations import (
    PromptText,
    accept_prompt,
    acp_agent,
    build_agent,
    ext_request,
    list_sessions,
    new_session,
    prompt,
)
from acp_twisted.schema import v2


@acp_agent(name="echo", version="1.0")
class Echo:
    """Answers in capitals."""

    def __init__(self) -> None:
        self.answers = 0
        self.sessions: dict[str, str] = {}  # where each of them works

    @new_session
    def open(self, request: v2.NewSessionRequest, client: v2.Implementation) -> v2.NewSessionResponse:
        """Name the session after the client."""
        session_id = f"{client.name}-{uuid4()}"
        self.sessions[session_id] = request.cwd
        return v2.NewSessionResponse(session_id=session_id)

    @list_sessions
    def listing(self, request: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        """Tell of all sessions, those of other connections too."""
        found = [
            v2.SessionInfo(session_id=session_id, cwd=cwd)
            for session_id, cwd in self.sessions.items()
            if request.cwd in (None, cwd)
        ]
        return v2.ListSessionsResponse(sessions=found)

    @accept_prompt
    def accept(self, text: PromptText) -> None:
        """Refuse a prompt before it becomes part of the conversation."""
        if not text:
            raise AcpError(-32050, "There is nothing to say louder")

    @prompt(blocking=True)
    def answer(self, request: v2.PromptRequest, context: SyncPromptContext, text: PromptText) -> v2.IdleStateUpdate:
        """Say the text, louder."""
        context.send_thought(f"{len(request.prompt)} blocks, let me think")
        time.sleep(0.01)  # the model, thinking
        context.send_message(text.upper())
        self.answers += 1
        return v2.IdleStateUpdate(stop_reason="end_turn", meta={"answers": self.answers})

    @ext_request("_echo/answers")
    def count(self) -> dict[str, int]:
        """Tell how often it answered."""
        return {"answers": self.answers}


agent = build_agent(Echo, builder=AcpAgent.builder().protocol_versions(2))

if __name__ == "__main__":
    run_agent(agent)
