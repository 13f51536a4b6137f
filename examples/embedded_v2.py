"""
An agent of version 2 inside a Twisted application that has a web server of its own; both share the application's state,
and when the page is read, the agent says so to everybody who wrote in the book, without being asked.

    python examples/embedded_v2.py [AGENT_ENDPOINT WEB_ENDPOINT]
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.application.internet import StreamServerEndpointService
from twisted.application.service import MultiService
from twisted.internet import task
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.logger import globalLogBeginner, textFileLogObserver
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from acp_twisted import AcpAgent
from acp_twisted.agent.v2.context import PromptContext
from acp_twisted.agent.v2.session import AgentSession
from acp_twisted.schema import v2
from acp_twisted.service import AgentService


class Guestbook:
    """The application's own state: what was said to the agent, and the sessions in which it was."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.guests: set[AgentSession] = set()

    async def prompt(self, request: v2.PromptRequest, context: PromptContext) -> str:
        """The agent writes every prompt into the book."""
        text = " ".join(block.text for block in request.prompt if isinstance(block, v2.TextContent))
        self.entries.append(text)
        if context.session not in self.guests:
            self.guests.add(context.session)
            context.session.token.on_cancel(lambda: self.guests.discard(context.session))  # when it is closed
        await context.send_message(f"Entry {len(self.entries)} is written.")
        return "end_turn"

    def was_read(self) -> None:
        """Everybody who wrote is told.  No prompt asks for this work: a session outlives its prompts."""
        for session in list(self.guests):
            session.connection.start_work(session.session_id, tell)


async def tell(context: PromptContext) -> str:
    """What is told; it ends as an answer to a prompt does."""
    await context.send_message("Somebody has read the book.")
    return "end_turn"


class Page(Resource):
    """The book as a web page."""

    isLeaf = True

    def __init__(self, book: Guestbook) -> None:
        super().__init__()
        self._book = book

    def render_GET(self, request: Request) -> bytes:
        self._book.was_read()
        request.setHeader(b"content-type", b"text/plain; charset=utf-8")
        return "".join(f"{entry}\n" for entry in self._book.entries).encode()


def make_service(reactor: Any, agent_endpoint: str, web_endpoint: str) -> MultiService:
    """The whole application: its web server and its agent, started and stopped together."""
    book = Guestbook()
    builder = AcpAgent.builder().agent_info("guestbook", "1.0").prompt_handler(book.prompt)
    application = MultiService()
    AgentService(builder.protocol_versions(2).build(), agent_endpoint, reactor).setServiceParent(application)
    web = StreamServerEndpointService(serverFromString(reactor, web_endpoint), Site(Page(book)))
    web.setServiceParent(application)
    return application


def main(
    reactor: Any,
    agent_endpoint: str = "tcp:8123:interface=127.0.0.1",
    web_endpoint: str = "tcp:8080:interface=127.0.0.1",
) -> Deferred[None]:
    """Run until a signal; then end the running work before leaving."""
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stderr)], redirectStandardIO=False)
    application = make_service(reactor, agent_endpoint, web_endpoint)
    application.startService()
    reactor.addSystemEventTrigger("before", "shutdown", application.stopService)
    return Deferred()


if __name__ == "__main__":
    task.react(main, sys.argv[1:])
