"""
Many remote clients at once: 1 000 WebSocket connections with one session each, and one connection with 1 000 sessions,
each streaming, at the same total rate as 10; ours, and the official Python SDK's server beside it.

    python benchmarks/remote.py [--many 1000] [--few 10] [--rate 400] [--seconds 20]

Prints a table: whether every update arrived in its order, the latencies, and the server's memory for each idle
connection and session.  Needs the peers of C{tools/install_peers.py}.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.endpoints import serverFromString
from twisted.internet.task import deferLater, react
from twisted.web.server import Site

from acp_twisted import AcpAgent, AcpClient, ClientConnection, ClientSession, Limits, PromptContext
from acp_twisted.schema import v1
from acp_twisted.transports.http.resource import AcpResource
from acp_twisted.transports.http.site import place
from acp_twisted.transports.http.url import AgentUrl, TlsOptions

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from peers import peer  # noqa: E402
from test_integration_tls import write_certificate  # noqa: E402

LIMITS = Limits(max_connections_per_address=100_000, ping_interval=0, exit_grace=10)
AT_ONCE = 50
"""How many connections or sessions are opened side by side."""


@define
class Figures:
    """
    What one load came to.

    @ivar latencies: of each update, in seconds, from the agent's call to our handler.
    @ivar errors: what went wrong, in words.
    @ivar opened_bytes: what the server has grown by for each thing opened: a connection, or a session.
    """

    latencies: list[float] = field(factory=list)
    errors: list[str] = field(factory=list)
    opened_bytes: float = 0.0

    def at(self, share: float) -> float:
        """
        The latency that this share of the updates keeps below.
        """
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def settle() -> None:
    """
    Have the garbage collector leave alone what is there, which stays: looking through it takes longer than anything
    that is measured here.  A server with many connections does well to call C{gc.freeze} once it listens.
    """
    gc.collect()
    gc.freeze()


def resident(pid: int) -> int:
    """
    The memory of a process, in bytes.
    """
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---- the server


def serve(tls: str) -> None:
    """
    Serve our agent until killed.

    @param tls: a folder for a certificate; empty for none.
    """
    from twisted.internet import reactor  # noqa: PLC0415 - only the server's

    real: Any = reactor
    count = 0

    def new_session(_request: v1.NewSessionRequest) -> v1.NewSessionResponse:
        nonlocal count
        count += 1
        return v1.NewSessionResponse(session_id=f"session-{count}")

    async def prompt(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        (block,) = request.prompt
        assert isinstance(block, v1.TextContent)
        _word, updates, seconds = block.text.split()
        for number in range(1, int(updates) + 1):
            await context.send_message(f"{number} {time.monotonic()}")
            await deferLater(real, float(seconds))
        return v1.PromptResponse(stop_reason="end_turn")

    agent = AcpAgent.builder().limits(LIMITS).new_session_handler(new_session).prompt_handler(prompt).build()
    site = Site(place(AcpResource(agent, real), "/acp"))
    where = "tcp:0:interface=127.0.0.1:backlog=1024"
    if tls:
        where = f"ssl:0:interface=127.0.0.1:privateKey={tls}/key.pem:certKey={tls}/certificate.pem"

    def listening(port: Any) -> None:
        settle()
        say(json.dumps({"port": port.getHost().port, "pid": os.getpid()}))

    serverFromString(real, where).listen(site).addCallback(listening)
    real.run()


@contextmanager
def server(command: list[str]) -> Iterator[dict[str, int]]:
    """
    A server's port and process id.
    """
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


# ---- the load


class Load:
    """
    Some sessions, over one connection or one each, that stream at a total rate.
    """

    def __init__(self, reactor: Any, where: AgentUrl, pid: int) -> None:
        self._reactor = reactor
        self._where = where
        self._pid = pid
        self.figures = Figures()
        self._seen: dict[tuple[int, str], int] = {}
        self._client = AcpClient.builder().limits(LIMITS).request_timeout(120).build()

    async def connect(self) -> ClientConnection:
        """
        One connection.
        """
        connection = await self._client.connect(self._reactor, self._where)
        await connection.initialize()
        return connection

    async def run(self, sessions: int, connections: int, updates: int, every: float) -> Figures:
        """
        @param connections: one, or as many as there are sessions.
        @param updates: of each session.
        @param every: seconds between two of them.
        """
        one = connections == 1
        links = [await self.connect()]
        before = resident(self._pid)
        while len(links) < connections:
            batch = [Deferred.fromCoroutine(self.connect()) for _ in range(min(AT_ONCE, connections - len(links)))]
            links += await gatherResults(batch, consumeErrors=True)
        connected = resident(self._pid)
        opened: list[ClientSession] = []
        while len(opened) < sessions:
            batch_size = min(AT_ONCE, sessions - len(opened))
            calls: list[Any] = [links[0 if one else len(opened) + n].new_session(cwd="/") for n in range(batch_size)]
            opened += await gatherResults(calls, consumeErrors=True)
        with_sessions = resident(self._pid)
        self.figures.opened_bytes = (
            (with_sessions - before) / sessions if one else (connected - before) / max(1, connections - 1)
        )
        settle()
        turns = []
        for number, session in enumerate(opened):
            # Spread evenly over the time between two updates, as independent users are.
            await deferLater(self._reactor, every / sessions)
            turns.append(Deferred.fromCoroutine(self._stream(number, session, updates, every)))
        await gatherResults(turns, consumeErrors=True)
        await gatherResults([Deferred.fromCoroutine(_close(link)) for link in links], consumeErrors=True)
        return self.figures

    async def _stream(self, number: int, session: ClientSession, updates: int, every: float) -> None:
        turn = session.prompt(f"stream {updates} {every}")
        expected = 1
        try:
            async for update in turn.updates():
                now = time.monotonic()
                assert isinstance(update, v1.AgentMessageChunk)
                assert isinstance(update.content, v1.TextContent)
                told, sent = update.content.text.split()
                if int(told) != expected:
                    self.figures.errors.append(f"session {number}: {told} in place of {expected}")
                expected = int(told) + 1
                self.figures.latencies.append(now - float(sent))
            await turn
        except Exception as error:
            self.figures.errors.append(f"session {number}: {type(error).__name__}: {error}")
        if expected != updates + 1:
            self.figures.errors.append(f"session {number}: {expected - 1} of {updates} updates")


async def _close(link: ClientConnection) -> None:
    await link.close()


async def load(reactor: Any, options: argparse.Namespace) -> None:
    """
    Every load, and its line.
    """
    ours = [sys.executable, __file__, "--serve"]
    theirs = peer("python-remote").command(HERE / "peers" / "python_sdk_remote.py")
    print_row("", "in order", "errors", "p50, ms", "p99, ms", "of few", "KiB each idle")
    with tempfile.TemporaryDirectory() as folder:
        write_certificate(Path(folder))
        ways = [
            ("acp_twisted, ws, connections", ours, "ws", False),
            ("python sdk, ws, connections", theirs, "ws", False),
            ("acp_twisted, ws, sessions", ours, "ws", True),
            ("python sdk, ws, sessions", theirs, "ws", True),
            ("acp_twisted, https (h2), sessions", [*ours, "--tls", folder], "https", True),
            ("acp_twisted, http, sessions", ours, "http", True),
            ("python sdk, http, sessions", theirs, "http", True),
        ]
        for title, command, scheme, one in ways:
            if options.only in title:
                tls = TlsOptions(trust_roots=f"{folder}/certificate.pem")
                await compare(reactor, options, title, command, scheme, tls, one)


async def compare(
    reactor: Any, options: argparse.Namespace, title: str, command: list[str], scheme: str, tls: TlsOptions, one: bool
) -> None:
    """
    One way, with few and with many.
    """
    few_p99 = 0.0
    for sessions in (options.few, options.many):
        with server(command) as told:
            where = AgentUrl(url=f"{scheme}://localhost:{told['port']}/acp", tls=tls)
            every = sessions / options.rate
            updates = max(2, round(options.seconds / every))
            run = Load(reactor, where, told["pid"])
            figures = await run.run(sessions, 1 if one else sessions, updates, every)
        wanted = sessions * updates
        p99 = figures.at(0.99) * 1000
        few_p99 = few_p99 or p99
        print_row(
            f"{title}: {sessions}",
            f"{len(figures.latencies)}/{wanted}",
            str(len(figures.errors)),
            f"{figures.at(0.5) * 1000:.2f}",
            f"{p99:.2f}",
            f"{p99 / few_p99:.2f}",
            f"{figures.opened_bytes / 1024:.1f}",
        )
        for error in figures.errors[:3]:
            say(f"    {error}")


def print_row(title: str, *cells: str) -> None:
    """
    A line of the table.
    """
    say(f"{title:42}" + "".join(f"{cell:>14}" for cell in cells))


def say(line: str) -> None:
    """
    Print a line now.
    """
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--many", type=int, default=1000)
    parser.add_argument("--few", type=int, default=10)
    parser.add_argument("--rate", type=float, default=400, help="updates a second, of all sessions together")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", default="", help="the loads whose title has this")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tls", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.tls)
        return
    react(lambda reactor: Deferred.fromCoroutine(load(reactor, options)))


if __name__ == "__main__":
    main()
