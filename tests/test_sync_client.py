"""The client that blocks: in a thread beside a running reactor, and as a script whose reactor it runs."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from raw_programs import STRICT_PYTHON
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from acp_twisted import (
    AcpAgent,
    AcpClient,
    AcpConnectionError,
    AcpError,
    AgentCommand,
    CancellationSignal,
    PromptContext,
    RequestTimedOut,
    SessionBusy,
)
from acp_twisted.client import sync as sync_module
from acp_twisted.client.permissions import Ask
from acp_twisted.client.reactor_thread import ReactorThread
from acp_twisted.client.sync import AcpSyncClient, in_thread
from acp_twisted.schema import v1
from acp_twisted.testing.scripted_agent import build_agent
from acp_twisted.transports.memory import MemoryLink


def thread() -> ReactorThread:
    """The reactor of the tests, which runs."""
    from twisted.internet import reactor

    made = ReactorThread(reactor)
    made.start()
    return made


def linked(agent: AcpAgent | None = None, client: AcpClient | None = None) -> AcpSyncClient:
    """A client on a memory link to an agent; from any thread but the reactor's."""
    used = thread()
    receiver = (agent or build_agent()).build_receiver(used.reactor)
    connection = used.call(lambda: (client or AcpClient.builder().build()).connection(used.reactor))
    used.call(lambda: _link(connection, receiver, used.reactor))
    made = AcpSyncClient(connection, used)
    made.initialize()
    return made


def started() -> AcpSyncClient:
    """A client of the scripted agent's program: what it sends comes later, as on every real link."""
    command = AgentCommand([sys.executable, "-m", "acp_twisted.testing.scripted_agent"])
    return AcpSyncClient.connect(AcpClient.builder().build(), command, thread=thread())


def _link(connection: Any, receiver: Any, reactor: Any) -> None:
    MemoryLink(connection.peer, receiver, reactor)


async def run(script: Callable[[], Any]) -> Any:
    """Run a script in a thread."""
    return await deferToThread(script)


def text(update: v1.SessionUpdate) -> str:
    """The text of a chunk."""
    assert isinstance(update, v1.AgentMessageChunk)
    assert isinstance(update.content, v1.TextContent)
    return update.content.text


@pytest_twisted.ensureDeferred
async def test_a_script(tmp_path: Path) -> None:
    """Every call once, as a script would."""

    def script() -> None:
        with linked() as client:
            assert client.agent_info is not None
            assert client.agent_capabilities.load_session
            assert client.auth_methods == ()
            session = client.new_session(str(tmp_path))
            with session.start("stream 3") as turn:
                assert [text(update) for update in turn] == ["1", "2", "3"]
            assert turn.result().stop_reason == "end_turn"
            assert turn.answered
            assert [each.text for each in session.snapshot().messages] == []
            seen: list[v1.SessionUpdate] = []
            assert session.prompt("stream 2", on_update=seen.append).stop_reason == "end_turn"
            assert [text(update) for update in seen] == ["1", "2"]
            assert [each.text for each in session.snapshot().messages] == ["12"]
            assert session.take_updates() == []
            listed = client.list_sessions()
            assert [each.session_id for each in listed.sessions] == [session.session_id]
            request = v1.PromptRequest(session_id=session.session_id, prompt=[v1.TextContent(text="len")])
            assert client.prompt(request, on_update=seen.append).stop_reason == "end_turn"
            assert text(seen[-1]) == "3"
            assert isinstance(client.call(v1.ListSessionsRequest()), v1.ListSessionsResponse)
            again = client.load_session(session.session_id, str(tmp_path))
            assert again.session is session.session
            assert client.resume_session(session.session_id, str(tmp_path)).session_id == session.session_id
            session.close()
            client.delete_session(session.session_id)
            with pytest.raises(AcpError) as refused:
                client.ext_request("_none", {})
            assert refused.value.code == -32601
            client.ext_notification("_none")

    await run(script)


@pytest_twisted.ensureDeferred
async def test_a_text_is_enough(tmp_path: Path) -> None:
    """One session is opened for all of them, in the client's directory."""
    opened: list[str] = []

    def new(request: v1.NewSessionRequest) -> v1.NewSessionResponse:
        opened.append(request.cwd)
        return v1.NewSessionResponse(session_id="s")

    async def prompt(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        await context.send_message(context.session_id)
        return v1.PromptResponse(stop_reason="end_turn")

    agent = AcpAgent.builder().prompt_handler(prompt).new_session_handler(new).build()

    def script() -> list[str]:
        seen: list[str] = []
        with linked(agent) as client:
            client._cwd = str(tmp_path)
            for _ in range(2):
                client.prompt("hi", on_update=lambda update: seen.append(text(update)))
        return seen

    assert await run(script) == ["s", "s"]
    assert opened == [str(tmp_path)]


@pytest_twisted.ensureDeferred
async def test_modes_and_options_and_authentication() -> None:
    """What an agent has not is its own error, raised here."""

    def script() -> list[int]:
        codes = []
        with linked() as client:
            session = client.new_session("/")
            for use in (
                lambda: session.set_mode("m"),
                lambda: session.set_config_option("c", "v"),
                lambda: client.authenticate("a"),
                client.logout,
            ):
                with pytest.raises(AcpError) as refused:
                    use()
                codes.append(refused.value.code)
        return codes

    assert len(await run(script)) == 4


@pytest.mark.parametrize("when", ["before", "within"])
@pytest_twisted.ensureDeferred
async def test_a_signal_from_another_thread(when: str) -> None:
    """It stops the turn, whose answer still comes."""

    def script() -> str:
        stop = CancellationSignal()
        with linked() as client:
            session = client.new_session("/")
            if when == "before":
                stop.cancel()
                return session.prompt("polite", stop).stop_reason
            turn = session.start("polite", stop)
            assert not turn.answered
            with pytest.raises(TimeoutError):
                turn.result(0.01)
            with pytest.raises(SessionBusy):
                session.start("polite")
            threading.Thread(target=stop.cancel).start()
            return turn.result().stop_reason

    assert await run(script) == "cancelled"


@pytest.mark.parametrize("how", ["turn", "session"])
@pytest_twisted.ensureDeferred
async def test_a_turn_is_cancelled(how: str) -> None:
    """By itself, or by its session; after the answer it is nothing."""

    def script() -> str:
        with linked() as client:
            session = client.new_session("/")
            turn = session.start("polite")
            use = turn.cancel if how == "turn" else session.cancel
            use()
            reason = turn.result().stop_reason
            use()
            assert session.prompt("stream 1").stop_reason == "end_turn"
            return reason

    assert await run(script) == "cancelled"


@pytest_twisted.ensureDeferred
async def test_an_error_in_the_block_cancels_the_turn() -> None:
    """The agent does not work on for nobody, and the session is free again."""

    def script() -> None:
        with linked() as client:
            session = client.new_session("/")
            with pytest.raises(ZeroDivisionError), session.start("polite") as turn:
                raise ZeroDivisionError
            assert turn.result().stop_reason == "cancelled"
            with pytest.raises(ZeroDivisionError):
                session.prompt("stream 5 0.01", on_update=lambda update: 1 / 0)
            assert session.prompt("stream 1").stop_reason == "end_turn"

    await run(script)


@pytest_twisted.ensureDeferred
async def test_a_reader_that_leaves_early_holds_up_nothing() -> None:
    """The rest of the updates passes, and the answer comes."""

    def script() -> str:
        with started() as client:
            turn = client.new_session("/").start("stream 3000")
            for update in turn:
                assert text(update) == "1"
                break
            return turn.result().stop_reason

    assert await run(script) == "end_turn"


@pytest_twisted.ensureDeferred
async def test_a_turn_that_fails() -> None:
    """The agent's error, a timeout, a lost link: raised where the answer is waited for, after the updates."""

    def script() -> None:
        client = linked()
        session = client.new_session("/")
        with pytest.raises(AcpError) as refused:
            session.prompt("fail 7")
        assert (refused.value.code, refused.value.data) == (7, {"asked": True})
        with pytest.raises(RequestTimedOut):
            session.prompt("polite", timeout=0.01)
        turn = session.start("polite")
        client._thread.call(lambda: client.connection.abort("gone"))
        assert list(turn) == []
        with pytest.raises(AcpConnectionError):
            turn.result()
        client.close()

    await run(script)


@pytest_twisted.ensureDeferred
async def test_a_handler_may_block() -> None:
    """In a thread of the pool: the reactor goes on meanwhile."""
    threads: list[Any] = []

    def think(request: v1.RequestPermissionRequest) -> bool:
        threads.append(threading.current_thread())
        return True

    client = AcpClient.builder().request_permission_handler(Ask(in_thread(think))).build()

    def script() -> str:
        with linked(None, client) as used:
            seen: list[str] = []
            used.prompt("permission", on_update=lambda update: seen.append(text(update)))
            return seen[-1]

    assert await run(script) == '["allow"]'
    assert threads[0] is not threading.main_thread()


class Stuck:
    """
    A connection that does not close in good order.

    @ivar reasons: why it was cut.
    """

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self._closed: Deferred[None] = Deferred()

    def close(self) -> Deferred[None]:
        """Begin to."""
        return self._closed

    def abort(self, reason: str) -> None:
        """Cut it."""
        self.reasons.append(reason)
        self._closed.callback(None)


@pytest_twisted.ensureDeferred
async def test_a_close_takes_so_long_at_most() -> None:
    """Then the link is cut."""
    stuck: Any = Stuck()
    await run(lambda: AcpSyncClient(stuck, thread()).close(timeout=0.01))
    assert stuck.reasons == ["it took too long to close"]


@pytest_twisted.ensureDeferred
async def test_a_close_ends_what_waits() -> None:
    """A turn is cut off with its connection; closing again is nothing."""

    def script() -> None:
        client = linked()
        turn = client.new_session("/").start("polite")
        client.close()
        client.close()
        with pytest.raises(AcpConnectionError):
            turn.result()

    await run(script)


@pytest_twisted.ensureDeferred
async def test_a_flood_waits_for_its_reader() -> None:
    """However late the program gets to reading, and however slow it is, nothing is lost."""

    def script() -> int:
        with started() as client:
            turn = client.new_session("/").start("stream 5000")
            time.sleep(0.2)
            assert not turn.answered
            return len(list(turn))

    assert await run(script) == 5000


@pytest_twisted.ensureDeferred
async def test_a_result_ends_the_reading() -> None:
    """Also the reading of another thread, and of an iterator that somebody still holds."""

    def script() -> list[str]:
        with started() as client:
            session = client.new_session("/")
            turn = session.start("stream 3000")
            held = iter(turn)
            first = text(next(held))
            reason = turn.result().stop_reason
            assert list(held) == []
            turn = session.start("polite")
            read: list[v1.SessionUpdate] = []
            reader = threading.Thread(target=lambda: read.extend(turn))
            reader.start()
            time.sleep(0.05)
            turn.cancel()
            reasons = [turn.result().stop_reason]
            reader.join()
            assert read == []
            return [first, reason, *reasons]

    assert await run(script) == ["1", "end_turn", "cancelled"]


def test_the_reactors_own_thread_can_not_wait() -> None:
    """It would wait for itself for ever."""
    with pytest.raises(RuntimeError, match="must not"):
        thread().call(lambda: None)


# ---- as a script


SCRIPT = """
import signal, sys, threading, time
from acp_twisted import AcpClient, AgentCommand, CancellationSignal
from acp_twisted.client import sync_turn
from acp_twisted.client.sync import AcpSyncClient
sync_turn.INTERRUPT_SECONDS = 300
command = AgentCommand([sys.executable, "-m", "acp_twisted.testing.scripted_agent"])
client = AcpSyncClient.connect(AcpClient.builder().build(), command)
session = client.new_session("/")

def tell_when_waiting():
    # Only once the main thread waits for the turn does an interrupt find it there.
    def watch():
        while True:
            frame = frames = sys._current_frames()[threading.main_thread().ident]
            files = []
            while frames is not None:
                files.append(frames.f_code.co_filename)
                frames = frames.f_back
            if files[0] == threading.__file__ and frame.f_code.co_name == "wait" and sync_turn.__file__ in files:
                break
            time.sleep(0.01)
        print("ready", flush=True)
    threading.Thread(target=watch, daemon=True).start()

{body}
"""


def start_script(body: str) -> subprocess.Popen[str]:
    """A program without a reactor, and an agent of its own."""
    words = [*STRICT_PYTHON, "-c", SCRIPT.format(body=body)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(program: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed, once it has ended."""
    try:
        return program.communicate(timeout=300)
    finally:
        program.kill()


@pytest.mark.parametrize("end", ["client.close()", "", "client.call = None; del client, session"])
def test_a_program_ends_whether_it_closes_or_not(end: str) -> None:
    """The reactor's thread holds up no exit, nor does its pool; no agent is left."""
    body = (
        "print([update.content.text for update in session.start('stream 2')])\n"
        "print(session.prompt('stream 1').stop_reason)\n"
        "client._thread.call(lambda: client._thread.reactor.getThreadPool().callInThread(print, 'pool'))\n" + end
    )
    program = start_script(body)
    out, err = finished(program)
    assert sorted(out.split("\n")) == sorted(["['1', '2']", "end_turn", "pool", ""])
    assert (err, program.returncode) == ("", 0)


@pytest.mark.parametrize("how", ["result", "updates"])
def test_control_c_cancels_the_turn(how: str) -> None:
    """KeyboardInterrupt: session/cancel, the answer, and then the exception; the session goes on."""
    wait = "turn.result()" if how == "result" else "list(turn)"
    body = f"""
turn = session.start("polite")
try:
    tell_when_waiting()
    {wait}
except KeyboardInterrupt:
    print("interrupted", turn.answered, turn.result().stop_reason)
print(session.prompt("stream 1").stop_reason)
"""
    program = start_script(body)
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    program.send_signal(signal.SIGINT)
    out, err = finished(program)
    assert out.split("\n") == ["interrupted True cancelled", "end_turn", ""]
    assert (err, program.returncode) == ("", 0)


def test_control_c_gives_a_deaf_agent_up() -> None:
    """After so many seconds the request is cancelled too, and the program goes on."""
    body = """
sync_turn.INTERRUPT_SECONDS = 0.1
try:
    tell_when_waiting()
    session.prompt("hang")
except KeyboardInterrupt:
    print("interrupted")
print(client.new_session("/").prompt("stream 1").stop_reason)
"""
    program = start_script(body)
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    program.send_signal(signal.SIGINT)
    out, err = finished(program)
    assert out.split("\n") == ["interrupted", "end_turn", ""]
    assert (err, program.returncode) == ("", 0)


def test_nothing_waits_for_a_reactor_that_has_stopped() -> None:
    """What waits ends, and what comes later is refused."""
    body = """
threading.Timer(0.3, lambda: client._thread.post(client._thread.reactor.stop)).start()
for _ in range(2):
    try:
        session.prompt("polite")
    except Exception as error:
        print(type(error).__name__)
client.close()
"""
    program = start_script(body)
    out, err = finished(program)
    assert out.split()[-1] == "ReactorStopped"
    assert len(out.split()) == 2
    assert (err, program.returncode) == ("", 0)


def test_the_constants_are_what_the_java_sdk_has() -> None:
    """At most ten seconds to close."""
    assert sync_module.CLOSE_SECONDS == 10.0
