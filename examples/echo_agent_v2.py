from twisted.internet.task import deferLater

from acp_twisted import AcpAgent, PromptContext, run_agent
from acp_twisted.schema import v2


async def prompt(request: v2.PromptRequest, context: PromptContext) -> str:
    text = " ".join(block.text for block in request.prompt if isinstance(block, v2.TextContent))
    for word in text.split():
        if context.is_cancelled:
            break
        await context.send_message(word + " ")
        await deferLater(context.connection.clock, 0.1)
    return "end_turn"


agent = AcpAgent.builder().agent_info("echo", "1.0").prompt_handler(prompt).protocol_versions(2).build()

if __name__ == "__main__":
    run_agent(agent)
