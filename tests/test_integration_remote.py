"""
Our client and our server, over each way there is between them, with real sockets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from remote_agents import Remote, serving

from acp_twisted import AcpClient, ClientConnection, ClientSession, Limits, RequestCancelled
from acp_twisted.schema import v1

pytestmark = [
    # Twisted still hands pyOpenSSL its own certificate objects.
    pytest.mark.filterwarnings("ignore:.*X509:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*PKey:DeprecationWarning"),
]
WAYS = {
    "http": ("http", {}),
    "https-h2": ("https", {}),
    "https-http1": ("https", {"http2": False}),
    "ws": ("ws", {}),
    "wss": ("wss", {}),
}
EVERY = pytest.mark.parametrize("way", WAYS)
OVER_HTTP = pytest.mark.parametrize("way", [name for name in WAYS if name.startswith("http")])


@pytest.fixture
def reactor() -> Any:
    """
    The real one.
    """
    from twisted.internet import reactor

    return reactor


def client(**options: Any) -> AcpClient:
    """
    A client that allows everything.
    """

    def allow(request: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
        return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id="yes"))

    return (
        AcpClient.builder()
        .request_permission_handler(allow)
        .limits(Limits(exit_grace=1.0, **options))
        .request_timeout(20)
        .build()
    )


@asynccontextmanager
async def between(
    reactor: Any, way: str, tmp_path: Path, *, server: dict[str, Any] | None = None, **limits: Any
) -> AsyncIterator[tuple[Remote, ClientConnection]]:
    """
    A server, and an initialized connection to it.
    """
    scheme, options = WAYS[way]
    secure = scheme in ("https", "wss")
    async with serving(reactor, tls=tmp_path if secure else None, **(server or {})) as remote:
        connection = await client(**limits).connect(reactor, remote.url(scheme, **options))
        try:
            await connection.initialize()
            yield remote, connection
        finally:
            await connection.close()


async def say(session: ClientSession, text: str) -> tuple[str, list[str]]:
    """
    One turn: its stop reason, and what the agent said.
    """
    turn = session.prompt(text)
    said = []
    async for update in turn.updates():
        assert isinstance(update, v1.AgentMessageChunk)
        assert isinstance(update.content, v1.TextContent)
        said.append(update.content.text)
    return (await turn).stop_reason, said


@EVERY
async def test_a_conversation(way: str, reactor: Any, tmp_path: Path) -> None:
    """The main job over each transport: sessions, a stream in order, a permission, a long message both ways."""
    async with between(reactor, way, tmp_path) as (remote, connection):
        session = await connection.new_session(cwd="/")
        assert await say(session, "stream 500") == ("end_turn", [str(n) for n in range(1, 501)])
        assert await say(session, "permission") == ("end_turn", ["yes"])
        text = "y" * 1_000_000
        assert await say(session, text) == ("end_turn", [text])
        assert len(remote.resource.connections) == 1
    assert len(remote.resource.connections) == 0


@EVERY
async def test_a_turn_is_cancelled(way: str, reactor: Any, tmp_path: Path) -> None:
    """V1C5, X9: session/cancel and $/cancel_request work over each transport, and the session goes on."""
    async with between(reactor, way, tmp_path) as (_remote, connection):
        session = await connection.new_session(cwd="/")
        turn = session.prompt("slow")
        async for _ in turn.updates():
            turn.cancel()
        assert (await turn).stop_reason == "cancelled"
        turn = session.prompt("slow")
        async for _ in turn.updates():
            turn.response.cancel()
            break
        with pytest.raises(RequestCancelled):
            await turn
        assert await say(session, "stream 2") == ("end_turn", ["1", "2"])


@EVERY
async def test_what_was_said_before_comes_before_the_answer(way: str, reactor: Any, tmp_path: Path) -> None:
    """J4 across two streams: the updates of session/load are there when its answer is."""
    async with between(reactor, way, tmp_path) as (_remote, connection):
        session = await connection.load_session("old-1", cwd="/")
        texts = [update.content.text for update in session.take_updates()]  # type: ignore[union-attr]
        assert texts == [f"old {n}" for n in range(50)]
        assert await say(session, "stream 2") == ("end_turn", ["1", "2"])
