"""
A proxy that counts an agent's words, and a chain with it in front of any agent.

    python examples/proxy.py                        be the proxy, for a conductor that starts it
    acp-twisted conductor -- examples.proxy:proxy "AGENT COMMAND"        run it in the conductor's own process
"""

from __future__ import annotations

from collections import Counter

from acp_twisted.proxy import PASS, AcpProxy, ProxyContext, run_proxy
from acp_twisted.schema import v1

words: Counter[str] = Counter()


def count(notification: v1.SessionNotification, context: ProxyContext) -> object:
    """Count what passes."""
    update = notification.update
    if isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent):
        words[notification.session_id] += len(update.content.text.split())
    return PASS


async def report(request: v1.PromptRequest, context: ProxyContext) -> v1.PromptResponse:
    """Say how many words a turn had, behind the last of them."""
    words[request.session_id] = 0
    response: v1.PromptResponse = await context.forward()
    text = v1.TextContent(text=f"[{words[request.session_id]} words]")
    await context.client.notify(
        v1.SessionNotification(session_id=request.session_id, update=v1.AgentMessageChunk(content=text))
    )
    return response


proxy = (
    AcpProxy.builder()
    .name("word counter")
    .agent_notification_handler(v1.SessionNotification, count)
    .client_request_handler(v1.PromptRequest, report)
    .build()
)

if __name__ == "__main__":
    run_proxy(proxy)
