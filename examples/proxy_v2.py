"""
A proxy that counts an agent's words, for version 2 of the protocol, where an update says that the agent is done.

    python examples/proxy_v2.py                     be the proxy, for a conductor that starts it
    acp-twisted conductor -- examples.proxy_v2:proxy "AGENT COMMAND"     run it in the conductor's own process
"""

from __future__ import annotations

from collections import Counter
from uuid import uuid4

from acp_twisted.proxy import PASS, AcpProxy, ProxyContext, run_proxy
from acp_twisted.schema import v2

words: Counter[str] = Counter()


async def count(notification: v2.UpdateSessionNotification, context: ProxyContext) -> object:
    """Count what passes, and say how many words there were before the agent says that it is idle."""
    session_id, update = notification.session_id, notification.update
    if isinstance(update, v2.AgentMessageChunk) and isinstance(update.content, v2.TextContent):
        words[session_id] += len(update.content.text.split())
    elif isinstance(update, v2.IdleStateUpdate) and session_id in words:
        text = v2.TextContent(text=f"[{words.pop(session_id)} words]")
        report = v2.AgentMessageChunk(message_id=str(uuid4()), content=text)
        await context.client.notify(v2.UpdateSessionNotification(session_id=session_id, update=report))
    return PASS


proxy = AcpProxy.builder().name("word counter").agent_notification_handler(v2.UpdateSessionNotification, count).build()

if __name__ == "__main__":
    run_proxy(proxy)
