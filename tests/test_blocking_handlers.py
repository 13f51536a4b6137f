"""
Handlers of other methods than prompts that block: in the reactor's thread pool, for the builder and for classes.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.threads import deferToThread

from acp_twisted import AcpAgent, AcpClient, AgentConnection, ClientConnection, MethodNotFound, ResourceNotFound
from acp_twisted.agent.annotations import (
    AgentDefinitionError,
    SyncAgentConnection,
    acp_agent,
    authenticate,
    blocking,
    build_agent,
    ext_request,
    list_sessions,
    load_session,
    prompt,
)
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink

CHUNK = v1.AgentMessageChunk(content=v1.TextContent(text="before"))


def load(request: v1.LoadSessionRequest, connection: SyncAgentConnection) -> v1.LoadSessionResponse:
    """Replays, and asks the client twice."""
    connection.send_update(request.session_id, CHUNK)
    assert connection.client_capabilities.fs.read_text_file
    assert connection.supports("fs.readTextFile")
    text = connection.client(request.session_id).read_text_file("/f").content
    meta = connection.ext_request("_who", {"thread": threading.current_thread() is threading.main_thread()})
    return v1.LoadSessionResponse(meta={"text": text, "who": meta})


@acp_agent(name="a", version="1")
class Blocks:
    """The same as a class."""

    @prompt
    def prompt(self) -> None:
        """Nothing."""

    @load_session
    @blocking
    def load(self, request: v1.LoadSessionRequest, connection: SyncAgentConnection) -> v1.LoadSessionResponse:
        return load(request, connection)

    @list_sessions
    @blocking
    def listing(self) -> v1.ListSessionsResponse:
        raise ResourceNotFound("none")

    @ext_request("_where")
    @blocking
    def where(self, params: dict[str, Any]) -> bool:
        return threading.current_thread() is threading.main_thread()


def built() -> AcpAgent:
    """With the builder."""

    @blocking
    def listing(request: v1.ListSessionsRequest) -> v1.ListSessionsResponse:
        raise ResourceNotFound("none")

    @blocking
    def where(params: dict[str, Any]) -> bool:
        return threading.current_thread() is threading.main_thread()

    builder = AcpAgent.builder().prompt_handler(lambda request: Deferred()).load_session_handler(blocking(load))
    return builder.list_sessions_handler(listing).ext_request_handler("_where", where).build()


async def connected(agent: AcpAgent) -> ClientConnection:
    """A client of that agent on a memory link, in the real reactor."""
    from twisted.internet import reactor

    any_reactor: Any = reactor
    client = AcpClient.builder().read_text_file_handler(lambda request: v1.ReadTextFileResponse(content="x"))
    connection = client.ext_request_handler("_who", lambda params: params).build().connection(any_reactor)
    MemoryLink(connection.peer, agent.build_receiver(any_reactor), any_reactor)
    await connection.initialize()
    return connection


@pytest.mark.parametrize("agent", [built, lambda: build_agent(Blocks)], ids=["builder", "class"])
@pytest_twisted.ensureDeferred
async def test_a_method_that_blocks_runs_in_a_thread(agent: Any) -> None:
    """It is given what is for its thread, asks the client and waits, and fails as any other (JavaSyncAgent, J21)."""
    connection = await connected(agent())
    session = await connection.load_session("s1", "/w")
    assert session.opened is not None
    assert session.opened.meta == {"text": "x", "who": {"thread": False}}
    assert session.take_updates() == [CHUNK]
    with pytest.raises(ResourceNotFound):
        await connection.list_sessions()
    assert await connection.ext_request("_where") is False
    await connection.close()


@pytest_twisted.ensureDeferred
async def test_a_cancelled_one_is_left_to_itself() -> None:
    """Nobody can interrupt a thread: the answer is there at once, what the thread comes to is dropped (J22, X5)."""
    begun, go = threading.Event(), threading.Event()

    @blocking
    def slow(request: v1.AuthenticateRequest) -> None:
        begun.set()
        go.wait(300)

    agent = AcpAgent.builder().prompt_handler(lambda request: Deferred()).authenticate_handler(slow).build()
    connection = await connected(agent)
    call = connection.authenticate("a")
    await deferToThread(begun.wait, 300)
    call.cancel()
    with pytest.raises(CancelledError):
        await call
    with pytest.raises(MethodNotFound):
        await connection.ext_request("_none")
    go.set()
    await connection.close()


def test_what_can_not_block() -> None:
    """What makes no sense is refused with the remedy: async def, and connections of the reactor's thread (J25)."""

    @acp_agent(name="a", version="1")
    class Wrong:
        @prompt
        def prompt(self, connection: SyncAgentConnection) -> None:
            """Nothing."""

        @load_session
        @blocking
        async def load(self) -> v1.LoadSessionResponse:
            return v1.LoadSessionResponse()

        @authenticate
        @blocking
        def log_in(self, connection: AgentConnection) -> None:
            """Nothing."""

        @list_sessions
        @blocking
        def listing(self, x: set[int]) -> v1.ListSessionsResponse:
            return v1.ListSessionsResponse(sessions=[])

    with pytest.raises(AgentDefinitionError) as refused:
        build_agent(Wrong)
    told = "\n".join(refused.value.faults)
    assert "Wrong.load (@load_session): async def does not block; drop @blocking, or write def" in told
    assert "take a SyncAgentConnection, or drop @blocking" in told
    assert "only a @blocking method that answers no prompt has one; take an AgentConnection" in told
    assert "SyncAgentConnection, " in told
