"""
A remote agent of ours in this process, for tests of what is on the way to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from attrs import define, field
from test_integration_tls import write_certificate
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.task import deferLater
from twisted.web.server import Site

from acp_twisted import AcpAgent, Limits, PromptContext
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.limits import MiB
from acp_twisted.schema import v1
from acp_twisted.transports.http.resource import AcpResource
from acp_twisted.transports.http.site import AcpSite
from acp_twisted.transports.http.url import AgentUrl, TlsOptions

OPTIONS = (
    v1.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    v1.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
)


@define(eq=False)
class Doings:
    """
    What the agent does: the first word of a prompt says what.

    @ivar cancelled: the sessions whose turns were cancelled.
    """

    reactor: Any
    cancelled: list[str] = field(factory=list)
    sessions: int = 0

    def agent(self, limits: Limits | None = None) -> AcpAgent:
        """
        The agent.
        """
        return (
            AcpAgent.builder()
            .agent_info("remote", "1")
            .limits(limits or Limits(exit_grace=300.0))
            .agent_capabilities(
                v1.AgentCapabilities(
                    load_session=True,
                    session_capabilities=v1.SessionCapabilities(close=v1.SessionCloseCapabilities()),
                )
            )
            .new_session_handler(self.new_session)
            .load_session_handler(self.load_session)
            .close_session_handler(lambda request: v1.CloseSessionResponse())
            .prompt_handler(self.prompt)
            .cancel_handler(lambda request: self.cancelled.append(request.session_id))
            .build()
        )

    def new_session(self, request: v1.NewSessionRequest) -> v1.NewSessionResponse:
        self.sessions += 1
        return v1.NewSessionResponse(session_id=f"session-{self.sessions}")

    def load_session(self, request: v1.LoadSessionRequest, connection: AgentConnection) -> v1.LoadSessionResponse:
        for n in range(50):
            chunk = v1.UserMessageChunk(content=v1.TextContent(text=f"old {n}"))
            connection.send_update(request.session_id, chunk)
        return v1.LoadSessionResponse()

    async def prompt(self, request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        (block,) = request.prompt
        assert isinstance(block, v1.TextContent)
        first, *rest = block.text.split(" ")
        if first == "stream":
            for n in range(1, int(rest[0]) + 1):
                await context.send_message(str(n))
        elif first == "wait":
            for n in range(1, int(rest[0]) + 1):
                await context.send_message(f"tick {n}")
            while not context.is_cancelled:
                await deferLater(self.reactor, 0.02)
        elif first == "slow":
            n = 0
            while not context.is_cancelled:
                n += 1
                await context.send_message(f"tick {n}")
                await deferLater(self.reactor, 0.02)
        elif first == "permission":
            call = v1.ToolCallUpdate(tool_call_id="t1", title="Change", kind="edit", status="pending")
            granted = await context.request_permission(call, OPTIONS)
            assert isinstance(granted.outcome, v1.SelectedPermissionOutcome)
            await context.send_message(granted.outcome.option_id)
        else:
            await context.send_message(block.text)
        return v1.PromptResponse(stop_reason="end_turn")


@define(eq=False)
class Remote:
    """
    A server.

    @ivar wrap: has every C{render} of the resource pass it.
    """

    reactor: Any
    resource: AcpResource
    port: int
    certificate: Path | None = None
    doings: Doings | None = None

    def url(self, scheme: str, **options: Any) -> AgentUrl:
        """
        Where it is.
        """
        if self.certificate is not None:
            options.setdefault("tls", TlsOptions(trust_roots=str(self.certificate)))
        return AgentUrl(url=f"{scheme}://localhost:{self.port}/acp", **options)


@asynccontextmanager
async def serving(
    reactor: Any,
    *,
    tls: Path | None = None,
    limits: Limits | None = None,
    agent: AcpAgent | None = None,
    site: Callable[[AcpResource, Any], Site] = lambda resource, reactor: AcpSite(resource, "/acp", reactor, 16 * MiB),
    **options: Any,
) -> AsyncIterator[Remote]:
    """
    Serve an agent, L{Doings} by default, on a free port of the loopback.

    @param tls: a folder for a certificate; without it there is no TLS.
    @param agent: serve this one instead.
    """
    doings = Doings(reactor)
    resource = AcpResource(agent or doings.agent(limits), reactor, **options)
    where, certificate = "tcp:0:interface=127.0.0.1", None
    if tls is not None:
        key, certificate = write_certificate(tls)
        where = f"ssl:0:interface=127.0.0.1:privateKey={key}:certKey={certificate}"
    port: Any = await serverFromString(reactor, where).listen(site(resource, reactor))
    try:
        yield Remote(reactor, resource, port.getHost().port, certificate, doings)
    finally:
        await maybeDeferred(port.stopListening)
        await resource.close_all()


def gone(connection: Any) -> Deferred[Any]:
    """
    Why a connection was lost.
    """
    closed: Deferred[Any] = connection.when_closed()
    return closed
