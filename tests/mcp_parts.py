"""
Both halves of MCP in memory: a client and somebody who speaks JSON, and a client and a server of ours.
"""

from __future__ import annotations

from typing import Any

from halves import Raw
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from acp_twisted.limits import Limits
from acp_twisted.mcp.client import McpClient, McpOptions
from acp_twisted.mcp.server import McpServer, ToolContext, ToolError
from acp_twisted.mcp.serving import ServerConnection
from acp_twisted.mcp.versions import HANDSHAKE, STATELESS
from acp_twisted.transports.memory import MemoryLink

DISCOVERED = {
    "supportedVersions": [STATELESS],
    "capabilities": {"tools": {}},
    "resultType": "complete",
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
}


class ClientHalf:
    """
    A client, and on the other end somebody who speaks JSON.
    """

    def __init__(self, options: McpOptions | None = None, *, version: str | None = STATELESS) -> None:
        """
        @param version: what is agreed before the test begins; L{None} is nothing.
        """
        self.clock = Clock()
        self.client = McpClient(self.clock, options or McpOptions())
        self.raw = Raw()
        self.link = MemoryLink(self.client.session.peer, self.raw, self.clock)
        if version is not None:
            self.opening = self.client.open()
            if version == STATELESS:
                self.result(1, DISCOVERED)
            else:
                self.error(1, -32601)
                self.result(2, {"protocolVersion": version, "capabilities": {}})
            assert self.client.server.protocol_version == version
            self.take()

    def send(self, *messages: dict[str, Any]) -> None:
        """The server says something: all of it is on its way before any of it arrives."""
        from json import dumps

        self.link.auto = False
        for message in messages:
            self.link.b.send(dumps({"jsonrpc": "2.0", **message}).encode())
        self.link.auto = True
        self.link.deliver_all()

    def result(self, number: Any, result: Any) -> None:
        """The server answers."""
        self.send({"id": number, "result": result})

    def error(self, number: Any, code: int, data: Any = None) -> None:
        """The server answers with an error."""
        self.send({"id": number, "error": {"code": code, "message": "m", **({} if data is None else {"data": data})}})

    def progress(self, token: Any, progress: float, **more: Any) -> None:
        """The server shows progress."""
        params = {"progressToken": token, "progress": progress, **more}
        self.send({"method": "notifications/progress", "params": params})

    def take(self) -> list[dict[str, Any]]:
        """What the client has sent since the last time, without its C{jsonrpc}."""
        taken = [{name: each[name] for name in each if name != "jsonrpc"} for each in self.raw.received]
        self.raw.received.clear()
        return taken

    @property
    def cancels(self) -> list[dict[str, Any]]:
        """The params of each cancellation that was sent since the last C{take}."""
        return [each["params"] for each in self.raw.received if each.get("method") == "notifications/cancelled"]

    def last(self) -> dict[str, Any]:
        """The client's last request."""
        return [each for each in self.raw.received if "id" in each and "method" in each][-1]


def tools_server() -> tuple[McpServer, dict[str, Any]]:
    """
    A server with a tool for each way to answer, and what its tools noticed.
    """
    server = McpServer("tools", "1")
    noticed: dict[str, Any] = {"cancelled": [], "contexts": []}

    @server.tool(description="Says it again", input_schema={"type": "object", "required": ["text"]})
    def echo(arguments: dict[str, Any]) -> str:
        return str(arguments["text"])

    @server.tool()
    def hang(arguments: dict[str, Any], context: ToolContext) -> Deferred[str]:
        """Never ends by itself."""
        noticed["contexts"].append(context)
        context.token.on_cancel(lambda: noticed["cancelled"].append(context.token.triggers))
        return Deferred()

    @server.tool()
    async def soon(arguments: dict[str, Any]) -> dict[str, Any]:
        waiting: Deferred[int] = Deferred()
        noticed["waiting"] = waiting
        return {"waited": await waiting}

    @server.tool()
    def steps(arguments: dict[str, Any], context: ToolContext) -> str:
        for step in (1, 2):
            context.progress(step, 2, f"step {step}")
        context.log("info", {"steps": 2})
        context.log("debug", "unheard")
        return "done"

    @server.tool()
    def fail(arguments: dict[str, Any]) -> str:
        raise ToolError("no such file")

    @server.tool()
    def crash(arguments: dict[str, Any]) -> str:
        raise RuntimeError("the password is secret")

    return server, noticed


class Pair:
    """
    A client and a server of ours on one memory link.

    @ivar connection: the server's side.
    """

    def __init__(
        self, server: McpServer, options: McpOptions | None = None, *, version: str | None = STATELESS
    ) -> None:
        self.clock = Clock()
        options = options or McpOptions(protocol=version)
        self.client = McpClient(self.clock, options)
        self.connection = ServerConnection(server, self.clock, Limits())
        self.link = MemoryLink(self.client.session.peer, self.connection.peer, self.clock)
        self.opened = self.client.open()

    def wire(self, direction: Any) -> list[dict[str, Any]]:
        """What was sent one way, decoded."""
        from json import loads

        return [loads(each) for each in self.link.sent(direction)]


__all__ = ["DISCOVERED", "HANDSHAKE", "STATELESS", "ClientHalf", "Pair", "tools_server"]
