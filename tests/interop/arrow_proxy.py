"""
A proxy of ours as a program: it puts an arrow before each chunk of the agent's text.

    python arrow_proxy.py
"""

from __future__ import annotations

from typing import Any

from acp_twisted import AcpProxy
from acp_twisted.proxy.context import PASS, ProxyContext
from acp_twisted.proxy.proxy import run_proxy
from acp_twisted.schema import v1


async def arrow(notification: v1.SessionNotification, context: ProxyContext) -> Any:
    """Put an arrow before a chunk of text; anything else goes on as it came."""
    update = notification.update
    if not (isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent)):
        return PASS
    update.content.text = f">{update.content.text}"
    await context.forward(notification)
    return None


proxy = AcpProxy.builder().name("arrow").agent_notification_handler(v1.SessionNotification, arrow).build()

if __name__ == "__main__":
    run_proxy(proxy)
