"""
An agent of version 2 written as a class, whose prompt handler blocks: it runs in a thread.

    acp-twisted prompt --protocol 2 "hello" -- python examples/decorated_agent_v2.py
"""

from __future__ import annotations

import time

from acp_twisted import AcpAgent, SyncPromptContext, run_agent
from acp_twisted.agent.annotations import PromptText, acp_agent, build_agent, ext_request, prompt


@acp_agent(name="echo", version="1.0")
class Echo:
    """Answers in capitals."""

    def __init__(self) -> None:
        self.answers = 0

    @prompt(blocking=True)
    def answer(self, text: PromptText, context: SyncPromptContext) -> str:
        """Say the text, louder; what is returned is sent as a message."""
        context.send_thought("let me think")
        time.sleep(0.01)  # the model, thinking
        self.answers += 1
        return text.upper()

    @ext_request("_echo/answers")
    def count(self) -> dict[str, int]:
        """Tell how often it answered."""
        return {"answers": self.answers}


agent = build_agent(Echo, builder=AcpAgent.builder().protocol_versions(2))

if __name__ == "__main__":
    run_agent(agent)
