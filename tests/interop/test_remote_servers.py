"""
Our client, driving the remote agents of other people: over HTTP/1.1, HTTP/2 and WebSocket.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen

from acp_twisted import AcpConnectionError, AcpError, ClientSession, RequestCancelled
from acp_twisted.interfaces import IMessageEndpoint
from acp_twisted.schema import v1
from acp_twisted.transports.http.url import AgentUrl
from interop.editor import Editor, play, texts
from interop.programs import Programs, kill_group, until
from interop.recorder import Recorded
from interop.remote import open_session, py_server, py_uvicorn_server, serve, start, ts_server


@frozen
class Way:
    """
    A server, and how it is spoken to.
    """

    server: Callable[[], list[str]]
    scheme: str
    http2: bool | None = None

    def to(self, port: int) -> IMessageEndpoint:
        """
        The way to a port.
        """
        return AgentUrl(url=f"{self.scheme}://127.0.0.1:{port}/acp", http2=self.http2)


WAYS = {
    "ts-http": Way(ts_server, "http"),
    "ts-ws": Way(ts_server, "ws"),
    "py-http": Way(py_uvicorn_server, "http"),
    "py-http-late-heads": Way(py_server, "http"),
    "py-http2": Way(py_server, "http", http2=True),
    "py-ws": Way(py_server, "ws"),
    "py-uvicorn-ws": Way(py_uvicorn_server, "ws"),
}
EVERY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
TS = pytest.mark.parametrize("way", [WAYS["ts-http"], WAYS["ts-ws"]], ids=["http", "ws"])


async def say(session: ClientSession, text: str) -> list[str]:
    """
    One turn that ends well; what the agent said.
    """
    reason, updates = await play(session.prompt(text))
    assert reason == "end_turn"
    return texts(updates)


@EVERY
async def test_a_session_with_everything(way: Way, programs: Programs, editor: Editor, workspace: Path) -> None:
    """The main job over each transport: a session, a stream in order, a permission, files, a terminal, updates."""
    _, port = await serve(programs, way.server())
    session = await open_session(editor, way.to(port), cwd=workspace)
    assert await say(session, "stream 200") == [str(n) for n in range(1, 201)]
    (outcome,) = await say(session, "permission")
    assert json.loads(outcome) == {"outcome": "selected", "optionId": "yes"}
    assert await say(session, f"read {workspace / 'notes.txt'}") == ["first line\nsecond line\n"]
    (written,) = await say(session, f"write {workspace / 'new.txt'} hello there")
    assert written.startswith("written")
    assert (workspace / "new.txt").read_text() == "hello there"
    (ran,) = await say(session, "run echo hello; exit 3")
    assert json.loads(ran) == {"output": "hello\n", "exitCode": 3}
    reason, updates = await play(session.prompt("tool"))
    assert reason == "end_turn"
    assert [type(update) for update in updates][:3] == [v1.ToolCall, v1.ToolCallUpdate, v1.Plan]


@EVERY
async def test_sessions_side_by_side(way: Way, programs: Programs, editor: Editor, workspace: Path) -> None:
    """Protocol 5.2: one connection, many sessions; a turn of one is cancelled, the others stream in order."""
    _, port = await serve(programs, way.server())
    connection = await start(editor, way.to(port))
    sessions = [await connection.new_session(cwd=str(workspace)) for _ in range(4)]
    slow = sessions[0].prompt("slow")

    def cancel_at_third(update: object) -> None:
        if texts([update]) == ["tick 3"]:
            slow.cancel()

    others = [session.prompt("stream 50") for session in sessions[1:]]
    reason, updates = await play(slow, cancel_at_third)
    assert reason == "cancelled"
    assert texts(updates)[:3] == ["tick 1", "tick 2", "tick 3"]
    for other in others:
        reason, updates = await play(other)
        assert (reason, texts(updates)) == ("end_turn", [str(n) for n in range(1, 51)])
    assert await say(sessions[0], "stream 2") == ["1", "2"]


@EVERY
async def test_errors_and_long_messages(way: Way, programs: Programs, editor: Editor, workspace: Path) -> None:
    """An agent's error reaches the caller whole, one of ours the agent; three megabytes go both ways."""
    _, port = await serve(programs, way.server())
    session = await open_session(editor, way.to(port), cwd=workspace)
    with pytest.raises(AcpError) as caught:
        await play(session.prompt("fail"))
    assert (caught.value.code, caught.value.data) == (-32055, {"asked": True})
    with pytest.raises(AcpError):
        await play(session.prompt(f"read {workspace / 'missing.txt'}"))
    if way.scheme != "ws" or way.server is ts_server:  # websockets and uvicorn refuse more than a megabyte
        text = "y" * 3_000_000
        assert await say(session, text) == [text]


@TS
async def test_giving_a_prompt_up(way: Way, programs: Programs, editor: Editor, workspace: Path) -> None:
    """X9: $/cancel_request goes on the connection's way, behind its request; the handler aborts, and all goes on."""
    _, port = await serve(programs, way.server())
    where = Recorded(way.to(port))
    session = await open_session(editor, where, cwd=workspace)
    turn = session.prompt("slow")
    await until(editor.reactor, lambda: "tick 2" in texts([each.update for each in editor.updates]))
    turn.response.cancel()
    with pytest.raises(RequestCancelled) as caught:
        await turn
    assert not caught.value.remote
    # Until its late answer, the agent may still say something of the turn that we have left.
    await where.until_refused(editor.reactor, 1)
    assert await say(session, "stream 3") == ["1", "2", "3"]
    assert await say(session, "cancel-wait sleep 60") == ["cancelled -32800"]


@EVERY
async def test_a_server_that_is_killed(way: Way, programs: Programs, editor: Editor, workspace: Path) -> None:
    """B63: a prompt whose server is gone fails at once, and so does what comes after."""
    process, port = await serve(programs, way.server())
    session = await open_session(editor, way.to(port), cwd=workspace)
    turn = session.prompt("slow")
    await until(editor.reactor, lambda: "tick 2" in texts([each.update for each in editor.updates]))
    kill_group(process.pid)
    with pytest.raises(AcpError):
        await turn
    with pytest.raises(AcpConnectionError):
        await play(session.prompt("stream 1"))


@EVERY
async def test_a_connection_that_is_closed(way: Way, programs: Programs, editor: Editor, workspace: Path) -> None:
    """Closing tells the server, and a second connection is as good as the first."""
    _, port = await serve(programs, way.server())
    for _ in range(2):
        session = await open_session(editor, way.to(port), cwd=workspace)
        assert await say(session, "stream 3") == ["1", "2", "3"]
        await session.connection.close()
        assert not session.connection.is_open
