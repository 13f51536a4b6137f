import sys

from twisted.internet import task

from acp_twisted import AcpClient, AgentCommand
from acp_twisted.schema import v1


async def main(reactor: object) -> None:
    connection = await AcpClient.builder().build().connect(reactor, AgentCommand(sys.argv[1:]))
    await connection.initialize()
    session = await connection.new_session(cwd="/tmp")
    turn = session.prompt("Hello from a client in fifteen lines")
    async for update in turn.updates():
        if isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent):
            print(update.content.text, end="", flush=True)
    print((await turn).stop_reason)
    await connection.close()


task.react(main)
