from twisted.internet.task import deferLater

from acp_twisted import AcpAgent, PromptContext, run_agent
from acp_twisted.schema import v1

names: dict[str, str] = {}  # what each session's agent is called


async def new_session(request: v1.NewSessionRequest) -> v1.NewSessionResponse:
    session_id = f"s{len(names) + 1}"
    names[session_id] = "Echo"
    return v1.NewSessionResponse(session_id=session_id)


async def prompt(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
    text = "".join(block.text for block in request.prompt if isinstance(block, v1.TextContent))
    await context.send_thought(f"{names[context.session_id]} thinks")
    await deferLater(context.connection.clock, 0.01)  # the model, thinking
    await context.send_message(text.upper())
    return v1.PromptResponse(stop_reason="end_turn")


async def rename(params: dict[str, str]) -> dict[str, str]:
    names[params["sessionId"]] = params["name"]
    return {"name": params["name"]}


agent = (
    AcpAgent.builder()
    .agent_info("echo", "1.0")
    .agent_capabilities(v1.AgentCapabilities(prompt_capabilities=v1.PromptCapabilities(image=True)))
    .new_session_handler(new_session)
    .prompt_handler(prompt)
    .ext_request_handler("_echo/rename", rename)
    .build()
)

if __name__ == "__main__":
    run_agent(agent)
