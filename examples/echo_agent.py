from twisted.internet.task import deferLater

from acp_twisted import AcpAgent, PromptContext, run_agent
from acp_twisted.schema import v1


async def prompt(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
    text = " ".join(block.text for block in request.prompt if isinstance(block, v1.TextContent))
    for word in text.split():
        if context.is_cancelled:
            break
        await context.send_message(word + " ")
        await deferLater(context.connection.clock, 0.1)
    return v1.PromptResponse(stop_reason="end_turn")


agent = AcpAgent.builder().agent_info("echo", "1.0").prompt_handler(prompt).build()

if __name__ == "__main__":
    run_agent(agent)
