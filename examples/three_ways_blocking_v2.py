import time

from acp_twisted import AcpAgent, SyncPromptContext, run_agent
from acp_twisted.agent.annotations import PromptText, acp_agent, build_agent, ext_request, new_session, prompt
from acp_twisted.schema import v2


@acp_agent(name="echo", version="1.0")
class Echo:
    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # what each session's agent is called

    @new_session
    def open(self) -> v2.NewSessionResponse:
        session_id = f"s{len(self.names) + 1}"
        self.names[session_id] = "Echo"
        return v2.NewSessionResponse(session_id=session_id)

    @prompt(image=True, blocking=True)
    def answer(self, text: PromptText, context: SyncPromptContext) -> str:
        context.send_thought(f"{self.names[context.session_id]} thinks")
        time.sleep(0.01)  # the model, thinking
        return text.upper()

    @ext_request("_echo/rename")
    def rename(self, params: dict[str, str]) -> dict[str, str]:
        self.names[params["sessionId"]] = params["name"]
        return {"name": params["name"]}


agent = build_agent(Echo, builder=AcpAgent.builder().protocol_versions(2))

if __name__ == "__main__":
    run_agent(agent)
