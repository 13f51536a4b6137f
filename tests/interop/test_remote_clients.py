"""
Our agent behind our server, driven by other people's clients over HTTP/1.1, HTTP/2 and WebSocket, and by curl.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from peers import peer
from remote_agents import Remote, serving
from twisted.cred.checkers import InMemoryUsernamePasswordDatabaseDontUse
from twisted.web.guard import BasicCredentialFactory

from acp_twisted.testing.scripted_agent import build_agent
from acp_twisted.transports.http.security import checked_by
from interop.programs import SOURCES, Outcome, Programs, until

pytestmark = [
    # Twisted still hands pyOpenSSL its own certificate objects.
    pytest.mark.filterwarnings("ignore:.*X509:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*PKey:DeprecationWarning"),
]
Json = dict[str, Any]


@frozen
class Way:
    """
    A client, and how it speaks.
    """

    client: str
    scheme: str

    def command(self) -> list[str]:
        """
        How the client is started, up to its plan.
        """
        if self.client == "ts":
            ts = peer("ts-remote")
            return ts.command(SOURCES / "ts_client.mjs", ts.folder)
        return peer("python-remote").command(SOURCES / "py_client.py")

    def plan(self, remote: Remote) -> Json:
        """
        The part of its plan that says where the agent is.
        """
        plan: Json = {"url": f"{self.scheme}://localhost:{remote.port}/acp"}
        if self.scheme == "https":
            plan |= {"http2": True, "ca": str(remote.certificate)}
        return plan


WAYS = {
    "ts-http": Way("ts", "http"),
    "ts-ws": Way("ts", "ws"),
    "py-http": Way("py", "http"),
    "py-http2": Way("py", "https"),
    "py-ws": Way("py", "ws"),
}
EVERY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


async def drive(
    reactor: Any, programs: Programs, way: Way, steps: Sequence[Json], folder: Path, *, permit: str = "allow"
) -> Outcome:
    """
    Let a client follow a plan against the scripted agent; nothing is left on the server when it is gone.
    """
    tls = folder if way.scheme == "https" else None
    async with serving(reactor, agent=build_agent(), tls=tls) as remote:
        plan = {**way.plan(remote), "cwd": str(folder), "permit": permit, "steps": list(steps)}
        outcome = await programs.run([*way.command(), json.dumps(plan)], cwd=folder)
        assert outcome.code == 0, outcome.explain()
        await until(reactor, lambda: len(remote.resource.connections) == 0)
    return outcome


def said(outcome: Outcome) -> list[str]:
    """
    The agent's words as the client saw them.
    """
    updates = [event["update"] for event in outcome.events("update")]
    return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]


@EVERY
async def test_a_session_with_everything(way: Way, real_reactor: Any, programs: Programs, workspace: Path) -> None:
    """The main job over a real client: stream, permission, fs both ways, a terminal, and a cancelled turn (V1C5)."""
    written = workspace / "written.txt"
    steps: list[Json] = [
        {"prompt": "stream 300"},
        {"prompt": "permission"},
        {"prompt": f"read {workspace / 'notes.txt'}"},
        {"prompt": f"write {written} some new text"},
        {"prompt": "run echo hello; exit 3"},
        {"prompt": "stream 100000 0.02", "cancel": "session", "after": 2},
        {"prompt": "seen"},
        {"prompt": "stream 1"},
    ]
    outcome = await drive(real_reactor, programs, way, steps, workspace)
    words = said(outcome)
    assert words[:300] == [str(n) for n in range(1, 301)]
    assert words[300:304] == [
        '["allow"]',
        "first line\nsecond line\n",
        "written",
        '{"output":"hello\\n","exitCode":3}',
    ]
    assert written.read_text() == "some new text"
    assert words[304] == "1"
    assert words[-2:] == ['["session/cancel"]', "1"]
    results = [event["result"]["stopReason"] for event in outcome.events("result")]
    assert results == ["end_turn"] * 5 + ["cancelled"] + ["end_turn"] * 2


@EVERY
async def test_a_turn_that_waits_for_a_permission(
    way: Way, real_reactor: Any, programs: Programs, workspace: Path
) -> None:
    """V1C3, V1C5: the client answers the open requests with cancelled, and the turn is answered cancelled."""
    steps: list[Json] = [{"prompt": "permission 3", "cancel": "session", "held": 3}, {"prompt": "stream 1"}]
    outcome = await drive(real_reactor, programs, way, steps, workspace, permit="hold")
    assert [event["result"]["stopReason"] for event in outcome.events("result")] == ["cancelled", "end_turn"]
    assert len(outcome.events("permission")) == 3


@EVERY
async def test_errors_and_a_message_of_a_megabyte(
    way: Way, real_reactor: Any, programs: Programs, workspace: Path, logged_errors: Any
) -> None:
    """An AcpError keeps its code and data, any other exception leaks nothing; long messages arrive whole."""
    size = 3_000_000 if way.client == "ts" or way.scheme != "ws" else 900_000  # its library refuses a megabyte
    steps: list[Json] = [
        {"prompt": "fail -32055"},
        {"prompt": "fail"},
        {"prompt": f"big {size}"},
        {"prompt": "len " + "y" * 60_000},
    ]
    outcome = await drive(real_reactor, programs, way, steps, workspace)
    errors = outcome.events("error")
    assert [error["code"] for error in errors] == [-32055, -32603]
    assert errors[0]["data"] == {"asked": True}
    assert "secret" not in json.dumps(errors)
    assert len(said(outcome)[0]) == size
    assert len(logged_errors) == 1, "of the handler whose words are nobody else's"
    logged_errors.clear()


# ---- curl


INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
NEW = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}


async def curl(programs: Programs, remote: Remote, *words: str, http2: bool = False) -> Outcome:
    """
    One run of curl, which prints the answer with its head.
    """
    scheme = "http" if remote.certificate is None else "https"
    tls = [] if remote.certificate is None else ["--cacert", str(remote.certificate)]
    version = "--http2" if http2 else "--http1.1"
    command = ["curl", "-sS", "-i", "-N", version, *tls, f"{scheme}://localhost:{remote.port}/acp", *words]
    return await programs.run(command)


def posting(message: Json, **ids: str) -> list[str]:
    """
    The words that POST a message.
    """
    headers = [word for name, value in ids.items() for word in ("-H", f"Acp-{name.title()}-Id: {value}")]
    return ["-H", "Content-Type: application/json", "--data-binary", json.dumps(message), *headers]


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
async def test_curl(http2: bool, real_reactor: Any, programs: Programs, workspace: Path) -> None:
    """Protocol 5.2 by hand: POST, two event streams that are not buffered, DELETE."""
    assert shutil.which("curl"), "curl is not installed"
    async with serving(real_reactor, agent=build_agent(), tls=workspace if http2 else None) as remote:
        hello = await curl(programs, remote, *posting(INITIALIZE), http2=http2)
        assert hello.stdout.startswith("HTTP/2 200" if http2 else "HTTP/1.1 200"), hello.explain()
        (named,) = [
            line.partition(":")[2].strip()
            for line in hello.stdout.splitlines()
            if line.lower().startswith("acp-connection-id:")
        ]
        streams: dict[str, list[str]] = {"": [], "session": []}

        def listen(key: str, **ids: str) -> Any:
            headers = [word for name, value in ids.items() for word in ("-H", f"Acp-{name.title()}-Id: {value}")]
            tls = [] if remote.certificate is None else ["--cacert", str(remote.certificate)]
            scheme = "http" if remote.certificate is None else "https"
            url = f"{scheme}://localhost:{remote.port}/acp"
            command = ["curl", "-sS", "-N", *tls, "-H", "Accept: text/event-stream", *headers, url]
            return programs.start(command, on_stdout=streams[key].append)[1]

        def heard(key: str) -> list[Json]:
            events = "".join(streams[key][-1:]).split("\n\n")[:-1]
            return [json.loads(line[5:]) for each in events for line in each.splitlines() if line.startswith("data:")]

        done = [listen("", connection=named)]
        assert (await curl(programs, remote, *posting(NEW, connection=named), http2=http2)).stdout.split()[1] == "202"
        await until(real_reactor, lambda: bool(heard("")))
        session_id = heard("")[0]["result"]["sessionId"]
        done.append(listen("session", connection=named, session=session_id))
        text = {"type": "text", "text": "stream 100000 0.1"}
        prompt = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "session/prompt",
            "params": {"sessionId": session_id, "prompt": [text]},
        }
        accepted = await curl(programs, remote, *posting(prompt, connection=named, session=session_id), http2=http2)
        assert accepted.stdout.split()[1] == "202"
        await until(real_reactor, lambda: len(heard("session")) > 2)  # which are not held until there are more of them
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session_id}}
        accepted = await curl(programs, remote, *posting(cancel, connection=named, session=session_id), http2=http2)
        assert accepted.stdout.split()[1] == "202"
        await until(real_reactor, lambda: heard("session")[-1].get("id") == 2)
        assert heard("session")[-1]["result"]["stopReason"] == "cancelled"
        deleted = await curl(programs, remote, "-X", "DELETE", "-H", f"Acp-Connection-Id: {named}", http2=http2)
        assert deleted.stdout.split()[1] == "202"
        for each in done:
            assert (await each).code == 0


# ---- our own command


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_the_command_line(scheme: str, real_reactor: Any, programs: Programs, workspace: Path) -> None:
    """acp-twisted prompt takes a URL; a password in it is sent, and is neither printed nor logged."""
    tokens = checked_by([InMemoryUsernamePasswordDatabaseDontUse(alice=b"pass-word")], [BasicCredentialFactory(b"acp")])
    async with serving(real_reactor, agent=build_agent(), authentication=tokens) as remote:
        command = [sys.executable, "-m", "acp_twisted.cli.main", "prompt", "stream 3"]
        url = f"{scheme}://alice:pass-word@localhost:{remote.port}/acp"
        done = await programs.run([*command, "--connect", url], cwd=workspace)
        assert (done.code, done.stdout.strip()) == (0, "123"), done.explain()
        assert "pass-word" not in done.stdout + done.stderr
        refused = await programs.run([*command, "--connect", url.replace("alice", "bob")], cwd=workspace)
        assert refused.code not in (0, None)
        assert "401" in refused.stderr
        assert "pass-word" not in refused.stdout + refused.stderr
        await until(real_reactor, lambda: len(remote.resource.connections) == 0)
