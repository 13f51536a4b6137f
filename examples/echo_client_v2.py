import sys

from twisted.internet import task

from acp_twisted import AcpClient, AgentCommand
from acp_twisted.schema import v2


async def main(reactor: object) -> None:
    link = await AcpClient.builder().protocol_versions(2).build().connect(reactor, AgentCommand(sys.argv[1:]))
    connection = await link.initialize()
    session = await connection.new_session(cwd="/tmp")
    prompt = session.prompt("Hello from a client in fifteen lines")
    async for update in prompt.updates():
        if isinstance(update, v2.AgentMessageChunk) and isinstance(update.content, v2.TextContent):
            print(update.content.text, end="", flush=True)
    print((await prompt).stop_reason)
    await connection.close()


task.react(main)
