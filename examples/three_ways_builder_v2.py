from twisted.internet.task import deferLater

from acp_twisted import AcpAgent, PromptContext, run_agent
from acp_twisted.schema import v2

names: dict[str, str] = {}  # what each session's agent is called


async def new_session(request: v2.NewSessionRequest) -> v2.NewSessionResponse:
    session_id = f"s{len(names) + 1}"
    names[session_id] = "Echo"
    return v2.NewSessionResponse(session_id=session_id)


async def prompt(request: v2.PromptRequest, context: PromptContext) -> str:
    text = "".join(block.text for block in request.prompt if isinstance(block, v2.TextContent))
    await context.send_thought(f"{names[context.session_id]} thinks")
    await deferLater(context.connection.clock, 0.01)  # the model, thinking
    await context.send_message(text.upper())
    return "end_turn"


async def rename(params: dict[str, str]) -> dict[str, str]:
    names[params["sessionId"]] = params["name"]
    return {"name": params["name"]}


images = v2.PromptCapabilities(image=v2.PromptImageCapabilities())

agent = (
    AcpAgent.builder()
    .agent_info("echo", "1.0")
    .protocol_versions(2)
    .agent_capabilities_v2(v2.AgentCapabilities(session=v2.SessionCapabilities(prompt=images)))
    .new_session_handler(new_session)
    .prompt_handler(prompt)
    .ext_request_handler("_echo/rename", rename)
    .build()
)

if __name__ == "__main__":
    run_agent(agent)
