"""
Our client and our server, over each way there is between them, with real sockets.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from interop.programs import PATIENCE, until
from interop.recorder import Recorded
from remote_agents import Remote, serving
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from acp_twisted import (
    AcpClient,
    AcpConnectionError,
    AcpError,
    ClientConnection,
    ClientSession,
    Limits,
    RequestCancelled,
)
from acp_twisted.client.service import ClientService
from acp_twisted.errors import HttpStatusError
from acp_twisted.schema import v1
from acp_twisted.transports.http.url import AgentUrl, TlsOptions

PROGRAM = Path(__file__).with_name("remote_client_program.py")
pytestmark = [
    # Twisted still hands pyOpenSSL its own certificate objects.
    pytest.mark.filterwarnings("ignore:.*X509:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*PKey:DeprecationWarning"),
]
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
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
        .limits(Limits(exit_grace=PATIENCE, **options))
        .request_timeout(PATIENCE)
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
    scheme, options = WAYS[way]
    async with serving(reactor, tls=tmp_path if scheme in ("https", "wss") else None) as remote:
        where = Recorded(remote.url(scheme, **options))
        connection = await client().connect(reactor, where)
        await connection.initialize()
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
        await where.until_refused(reactor, 1)  # what was said before may still be on its way
        assert await say(session, "stream 2") == ("end_turn", ["1", "2"])
        await connection.close()


@EVERY
async def test_what_was_said_before_comes_before_the_answer(way: str, reactor: Any, tmp_path: Path) -> None:
    """J4 across two streams: the updates of session/load are there when its answer is."""
    async with between(reactor, way, tmp_path) as (_remote, connection):
        session = await connection.load_session("old-1", cwd="/")
        texts = [update.content.text for update in session.take_updates()]  # type: ignore[union-attr]
        assert texts == [f"old {n}" for n in range(50)]
        assert await say(session, "stream 2") == ("end_turn", ["1", "2"])


class Killed(ProcessProtocol):
    """
    A program that is killed once it has printed something.
    """

    def __init__(self) -> None:
        self.printed: Deferred[None] = Deferred()
        self.ended: Deferred[None] = Deferred()
        self.errors = b""

    def outReceived(self, data: bytes) -> None:
        if not self.printed.called:
            self.printed.callback(None)

    def errReceived(self, data: bytes) -> None:
        self.errors += data

    def processEnded(self, reason: Failure) -> None:
        if not self.printed.called:
            self.printed.errback(AssertionError(self.errors.decode()))
        self.ended.callback(None)


def open_files() -> int:
    """
    How many descriptors this process has.
    """
    return len(list(Path("/proc/self/fd").iterdir()))


def active(reactor: Any) -> int:
    """
    How many timers wait, but for the one with which a site keeps the date.
    """
    return len([call for call in reactor.getDelayedCalls() if call.active() and "_updateLogDate" not in str(call)])


@EVERY
async def test_clients_that_are_killed(way: str, reactor: Any, tmp_path: Path) -> None:
    """B63: kill -9 of clients in the middle of their turns leaves no connection, turn, descriptor or timer."""
    scheme, options = WAYS[way]
    secure = scheme in ("https", "wss")
    async with serving(reactor, tls=tmp_path if secure else None) as remote:
        await deferLater(reactor, 0)  # the test has a timeout from its first wait on
        before = open_files()
        timers = active(reactor)
        program = Killed()
        words = [sys.executable, str(PROGRAM), "5", remote.url(scheme, **options).url]
        if remote.certificate is not None:
            words.append(str(remote.certificate))
        process = reactor.spawnProcess(program, words[0], words, env=os.environ)
        await program.printed
        assert len(remote.resource.connections) == 5
        # They had all the time that they wanted to come; they won't come back.
        for each in remote.resource.connections._entries.values():
            if hasattr(each, "_limits"):
                each._limits = evolve(each._limits, absence_timeout=1.0)
        os.kill(process.pid, signal.SIGKILL)
        await program.ended
        await until(reactor, lambda: len(remote.resource.connections) == 0)
        await until(reactor, lambda: open_files() <= before and active(reactor) <= timers)


@EVERY
async def test_a_server_that_shuts_down(way: str, reactor: Any, tmp_path: Path) -> None:
    """Shutting down cancels what runs and answers it; the answer arrives, then the connection is lost."""
    async with between(reactor, way, tmp_path) as (remote, connection):
        session = await connection.new_session(cwd="/")
        turn = session.prompt("slow")
        async for _ in turn.updates():
            break
        gone = connection.when_closed()
        closing = remote.resource.close_all()
        with pytest.raises(AcpError) as caught:
            await turn
        assert caught.value.remote or isinstance(caught.value, AcpConnectionError)
        assert caught.value.code == -32800
        await closing
        assert isinstance(await gone, AcpConnectionError)


@EVERY
async def test_a_reader_that_takes_its_time(way: str, reactor: Any, tmp_path: Path) -> None:
    """Rule 6: a turn whose updates nobody takes is held back in the agent; another session's is not lost."""
    async with between(reactor, way, tmp_path, max_turn_updates=64) as (_remote, connection):
        session = await connection.new_session(cwd="/")
        said = []
        async for update in session.prompt("stream 5000").updates():
            assert isinstance(update, v1.AgentMessageChunk)
            assert isinstance(update.content, v1.TextContent)
            said.append(update.content.text)
            if len(said) % 500 == 1:
                await deferLater(reactor, 0.1)
        assert said == [str(n) for n in range(1, 5001)]


@EVERY
async def test_no_agent_there(way: str, reactor: Any, tmp_path: Path) -> None:
    """The error of a port that nobody listens on, and of a path where no agent is, says so."""
    scheme, options = WAYS[way]
    secure = scheme in ("https", "wss")
    async with serving(reactor, tls=tmp_path if secure else None) as remote:
        nowhere = AgentUrl(url=f"{scheme}://localhost:1/acp", **options)
        with pytest.raises(AcpConnectionError, match=r"refused"):
            await (await client().connect(reactor, nowhere)).initialize()
        tls: Any = {"tls": remote.url(scheme).tls}
        elsewhere = AgentUrl(url=f"{scheme}://localhost:{remote.port}/other", **options, **tls)
        with pytest.raises(HttpStatusError) as caught:
            await (await client().connect(reactor, elsewhere)).initialize()
        assert caught.value.status == 404


@pytest.mark.parametrize("way", ["https-h2", "https-http1", "wss"])
async def test_a_certificate_that_nobody_vouches_for(way: str, reactor: Any, tmp_path: Path) -> None:
    """TLS has sane defaults: an unknown certificate, or one of another host, is refused before anything is sent."""
    scheme, options = WAYS[way]
    async with serving(reactor, tls=tmp_path) as remote:
        for tls in (TlsOptions(), TlsOptions(trust_roots=str(remote.certificate), hostname="other.example")):
            where = AgentUrl(url=f"{scheme}://localhost:{remote.port}/acp", tls=tls, **options)
            with pytest.raises(AcpConnectionError, match=r"(?i)certificate|connect|ssl|verif"):
                await (await client().connect(reactor, where)).initialize()
        assert len(remote.resource.connections) == 0


@EVERY
async def test_a_service_comes_back(way: str, reactor: Any, tmp_path: Path) -> None:
    """B83: the client's service connects and initializes again, and sends no prompt a second time by itself."""
    scheme, options = WAYS[way]
    secure = scheme in ("https", "wss")
    async with serving(reactor, tls=tmp_path if secure else None) as remote:
        service = ClientService(client(), remote.url(scheme, **options), reactor, retry_policy=lambda failures: 0.05)
        service.startService()
        try:
            first = await service.when_connected(fail_after_failures=3)
            turn = (await first.new_session(cwd="/")).prompt("slow")
            async for _ in turn.updates():
                break
            transport = first.peer._transport
            assert transport is not None
            transport.abort("gone")
            with pytest.raises(AcpConnectionError):
                await turn
            second = await service.when_connected(fail_after_failures=3)
            assert second is not first
            session = await second.new_session(cwd="/")
            assert await say(session, "stream 2") == ("end_turn", ["1", "2"])
            await until(reactor, lambda: len(remote.resource.connections) == 1)
        finally:
            await service.stopService()
