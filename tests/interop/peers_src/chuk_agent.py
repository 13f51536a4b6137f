# mypy: ignore-errors
"""
An agent on chuk-acp's base class: it answers even notifications.
"""

from __future__ import annotations

from chuk_acp.agent import ACPAgent
from chuk_acp.protocol.types import AgentInfo


class Agent(ACPAgent):
    """Says the prompt's words one by one."""

    def get_agent_info(self) -> AgentInfo:
        return AgentInfo(name="chuk-agent", version="1")

    async def handle_prompt(self, session, prompt) -> str:
        words = "".join(block.get("text", "") if isinstance(block, dict) else block.text for block in prompt).split()
        for word in words[:-1]:
            self.send_message(word, session.session_id)
        return words[-1]


Agent().run()
