"""A client's terminals, with real processes: their output, their end, and that none outlives its reason."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from halves import ClientHalf
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ProcessDone
from twisted.internet.task import Clock, deferLater
from twisted.python.failure import Failure
from wire import failure, success

from acp_twisted import AcpClient, InternalError, InvalidParams, ResourceNotFound
from acp_twisted.client import terminals as terminals_module
from acp_twisted.client.terminals import LocalTerminals, Output, Terminal
from acp_twisted.schema import v1
from acp_twisted.transports.process_group import group_alive

FOREVER = "echo $$ >{pid}; (sleep 900)& wait"


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[LocalTerminals]:
    """Terminals in a directory of the test's own, all released at its end."""
    from twisted.internet import reactor

    made = LocalTerminals(reactor, tmp_path)
    yield made
    made.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it holds; the test's own timeout ends that."""
    from twisted.internet import reactor

    while not condition():
        await deferLater(reactor, 0.01)


def create(terminals: LocalTerminals, command: str, *, session: str = "s", **more: Any) -> str:
    """Run a line of shell."""
    request = v1.CreateTerminalRequest(session_id=session, command="sh", args=["-c", command], **more)
    return terminals.create(request).terminal_id


def wait(terminals: LocalTerminals, terminal_id: str) -> Awaitable[v1.WaitForTerminalExitResponse]:
    """Wait for its end."""
    return terminals.wait_for_exit(v1.WaitForTerminalExitRequest(session_id="s", terminal_id=terminal_id))


def output(terminals: LocalTerminals, terminal_id: str, session: str = "s") -> v1.TerminalOutputResponse:
    """What it shows."""
    return terminals.output(v1.TerminalOutputRequest(session_id=session, terminal_id=terminal_id))


def kill(terminals: LocalTerminals, terminal_id: str) -> None:
    """End it."""
    terminals.kill(v1.KillTerminalRequest(session_id="s", terminal_id=terminal_id))


def release(terminals: LocalTerminals, terminal_id: str) -> None:
    """Give it back."""
    terminals.release(v1.ReleaseTerminalRequest(session_id="s", terminal_id=terminal_id))


class Forever:
    """
    A command that never ends, with a child, and a file that says its process group.
    """

    def __init__(self, directory: Path, name: str = "pid") -> None:
        self._file = directory / name
        self.line = FOREVER.format(pid=name)

    async def started(self) -> None:
        """It runs."""
        await until(lambda: self._file.exists() and self._file.read_text().endswith("\n"))

    @property
    def alive(self) -> bool:
        """Whether it, or its child, still does."""
        return group_alive(int(self._file.read_text()))


@pytest_twisted.ensureDeferred
async def test_a_command_runs_to_its_end(terminals: LocalTerminals, tmp_path: Path) -> None:
    """1.141, 1.144, 1.145: the id at once, both streams, and the status only once it has exited."""
    name = create(terminals, "pwd; echo $A >&2; read x; exit 3", env=[v1.EnvVariable(name="A", value="b")])
    assert output(terminals, name).exit_status is None
    ended = await wait(terminals, name)
    assert (ended.exit_code, ended.signal) == (3, None)
    shown = output(terminals, name)
    assert shown.output == f"{os.path.realpath(tmp_path)}\nb\n"
    assert not shown.truncated
    assert shown.exit_status == v1.TerminalExitStatus(exit_code=3)
    assert (await wait(terminals, name)).exit_code == 3


@pytest_twisted.ensureDeferred
async def test_both_outputs_keep_their_order(terminals: LocalTerminals) -> None:
    """1.144: as at a terminal, whatever is read at once."""
    name = create(terminals, "for n in 1 2 3 4 5; do echo out; echo err >&2; done")
    await wait(terminals, name)
    assert output(terminals, name).output == "out\nerr\n" * 5


@pytest_twisted.ensureDeferred
async def test_output_is_cut_at_its_beginning(terminals: LocalTerminals) -> None:
    """1.142: so many bytes at most, from the end, in whole characters."""
    name = create(terminals, "printf 'a\\303\\274\\342\\202\\254b'", output_byte_limit=5)
    await wait(terminals, name)
    shown = output(terminals, name)
    assert (shown.output, shown.truncated) == ("€b", True)


@pytest_twisted.ensureDeferred
async def test_a_kill_keeps_the_terminal(terminals: LocalTerminals, tmp_path: Path) -> None:
    """1.146, B61: the wait ends, the output stays, the child is gone as well; killing again is nothing."""
    forever = Forever(tmp_path)
    name = create(terminals, f"echo hello; {forever.line}")
    waiting = wait(terminals, name)
    await forever.started()
    kill(terminals, name)
    ended = await waiting
    assert (ended.exit_code, ended.signal) == (None, "SIGKILL")
    assert output(terminals, name).output == "hello\n"
    await until(lambda: not forever.alive)
    kill(terminals, name)
    release(terminals, name)


def test_one_who_waits_may_end_the_wait_of_another() -> None:
    """Each is told once, and those behind the one that was cancelled are told too."""
    terminal = Terminal((None, "s"), None, Output(10), Clock())
    first, second, third = (terminal.when_ended() for _ in range(3))
    first.addCallback(lambda _: second.cancel())
    terminal.processEnded(Failure(ProcessDone(0)))
    assert success(first) is None
    failure(second, CancelledError)
    assert success(third) is None


@pytest_twisted.ensureDeferred
async def test_a_release_ends_the_command_and_its_id(terminals: LocalTerminals, tmp_path: Path) -> None:
    """1.147, B61: who waits learns of the end; the id is none any more."""
    forever = Forever(tmp_path)
    name = create(terminals, forever.line)
    waiting = Deferred.fromCoroutine(
        terminals.wait_for_exit(v1.WaitForTerminalExitRequest(session_id="s", terminal_id=name))
    )
    await forever.started()
    release(terminals, name)
    assert (await waiting).signal == "SIGKILL"
    await until(lambda: not forever.alive)
    for use in (kill, release, output):
        with pytest.raises(ResourceNotFound):
            use(terminals, name)


@pytest_twisted.ensureDeferred
async def test_a_terminal_is_its_sessions_own(terminals: LocalTerminals) -> None:
    """No other session, nor another connection, has it."""
    name = create(terminals, "true")
    await wait(terminals, name)
    with pytest.raises(ResourceNotFound):
        output(terminals, name, session="other")
    half = ClientHalf(AcpClient.builder().build())
    with pytest.raises(ResourceNotFound):
        terminals.output(v1.TerminalOutputRequest(session_id="s", terminal_id=name), half.connection)


@pytest.mark.parametrize("cwd", ["{root}/..", "/", "{root}/out", "relative", "{root}/none", "{root}/file"])
def test_a_command_starts_inside(tmp_path: Path, cwd: str) -> None:
    """1.47, 1.148: outside of the roots, and where there is no directory, nothing starts."""
    from twisted.internet import reactor

    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to(tmp_path)
    (root / "file").write_text("")
    with pytest.raises(InvalidParams) as refused:
        create(LocalTerminals(reactor, root), "true", cwd=cwd.format(root=root))
    assert refused.value.data == {"cwd": cwd.format(root=root)}


@pytest_twisted.ensureDeferred
async def test_a_command_starts_in_any_root(tmp_path: Path) -> None:
    """The first is for those who name none."""
    from twisted.internet import reactor

    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    terminals = LocalTerminals(reactor, tmp_path / "one", tmp_path / "two")
    shown = []
    for more in ({}, {"cwd": str(tmp_path / "two")}):
        name = create(terminals, "pwd", **more)
        await wait(terminals, name)
        shown.append(output(terminals, name).output.strip())
    assert shown == [os.path.realpath(tmp_path / name) for name in ("one", "two")]
    terminals.close()


@pytest_twisted.ensureDeferred
async def test_the_environment_may_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this program knows is not for every command."""
    from twisted.internet import reactor

    monkeypatch.setenv("SECRET", "s")
    terminals = LocalTerminals(reactor, tmp_path, environment={"PATH": os.defpath, "A": "a"})
    name = create(terminals, "echo $SECRET-$A-$B", env=[v1.EnvVariable(name="B", value="b")])
    await wait(terminals, name)
    assert output(terminals, name).output == "-a-b\n"
    terminals.close()


def test_a_command_that_does_not_exist(terminals: LocalTerminals) -> None:
    """-32002; a NUL is no character of a command."""
    with pytest.raises(ResourceNotFound):
        terminals.create(v1.CreateTerminalRequest(session_id="s", command="no-such-command"))
    with pytest.raises(InvalidParams):
        terminals.create(v1.CreateTerminalRequest(session_id="s", command="sh", args=["\0"]))


# ---- cleaning up after an agent


def serving(terminals: LocalTerminals) -> ClientHalf:
    """A client with these terminals."""
    return ClientHalf(terminals.serve(AcpClient.builder()).build())


def start(half: ClientHalf, line: str, session: str = "s1") -> str:
    """The agent has a line of shell run."""
    params = {"sessionId": session, "command": "sh", "args": ["-c", line]}
    half.send({"id": 70, "method": "terminal/create", "params": params})
    [answer] = [each for each in half.take() if each.get("id") == 70 and "method" not in each]
    return str(answer["result"]["terminalId"])


@pytest_twisted.ensureDeferred
async def test_a_cancelled_turn_takes_its_commands_along(terminals: LocalTerminals, tmp_path: Path) -> None:
    """
    interop 7.10: an agent may leave them open.  What was started before the turn stays; the id stays valid until the
    agent releases it, and a wait that is still open is answered.
    """
    before, within = Forever(tmp_path, "before"), Forever(tmp_path, "within")
    half = serving(terminals)
    start(half, before.line)
    turn = half.session.prompt("hi")
    prompt_id = half.last_id()
    name = start(half, within.line)
    half.send({"id": 71, "method": "terminal/wait_for_exit", "params": {"sessionId": "s1", "terminalId": name}})
    await before.started()
    await within.started()
    turn.cancel()
    assert within.alive
    half.send({"id": prompt_id, "result": {"stopReason": "cancelled"}})
    await until(lambda: any(each.get("id") == 71 for each in half.received))
    await until(lambda: not within.alive)
    assert before.alive
    half.take()
    half.send({"id": 72, "method": "terminal/release", "params": {"sessionId": "s1", "terminalId": name}})
    assert half.take() == [{"id": 72, "result": {}}]


@pytest_twisted.ensureDeferred
async def test_a_turn_that_ends_well_leaves_its_commands(terminals: LocalTerminals, tmp_path: Path) -> None:
    """A server that was started in one turn is there in the next."""
    forever = Forever(tmp_path)
    half = serving(terminals)
    half.session.prompt("hi")
    prompt_id = half.last_id()
    start(half, forever.line)
    await forever.started()
    half.send({"id": prompt_id, "result": {"stopReason": "end_turn"}})
    assert forever.alive


@pytest.mark.parametrize("how", ["close", "lost", "lost, unknown session"])
@pytest_twisted.ensureDeferred
async def test_nothing_outlives_its_session(terminals: LocalTerminals, tmp_path: Path, how: str) -> None:
    """1.147 for those who are not asked: session/close, and the end of the connection."""
    forever = Forever(tmp_path)
    half = serving(terminals)
    start(half, forever.line, "s9" if "unknown" in how else "s1")
    await forever.started()
    if how == "close":
        half.session.close()
        half.send({"id": half.last_id(), "result": {}})
    else:
        half.lose()
    await until(lambda: not forever.alive)


def test_nothing_is_started_for_a_connection_that_is_gone(terminals: LocalTerminals, tmp_path: Path) -> None:
    """Whoever asks the user first may come too late: nobody would ever end that command."""
    half = serving(terminals)
    half.link.b.abort("gone")
    request = v1.CreateTerminalRequest(session_id="s1", command="sh", args=["-c", "echo >file; sleep 900"])
    with pytest.raises(InternalError, match="gone"):
        terminals.create(request, half.connection)
    assert terminals._terminals == {}
    assert list(tmp_path.iterdir()) == []


@pytest_twisted.ensureDeferred
async def test_there_are_so_many_at_most(terminals: LocalTerminals, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 6; those of a cancelled turn that nobody will release make room."""
    monkeypatch.setattr(terminals_module, "MAX_TERMINALS", 2)
    half = serving(terminals)
    half.session.prompt("hi")
    prompt_id = half.last_id()
    names = [start(half, "true") for _ in range(2)]
    params = {"sessionId": "s1", "command": "true"}
    half.send({"id": 73, "method": "terminal/create", "params": params})
    assert half.take()[0]["error"]["data"] == {"maxTerminals": 2}
    half.session.cancel()
    half.send({"id": prompt_id, "result": {"stopReason": "cancelled"}})
    half.take()
    third = start(half, "true")
    assert third not in names
    half.send({"id": 74, "method": "terminal/output", "params": {"sessionId": "s1", "terminalId": names[0]}})
    assert half.take()[0]["error"]["code"] == -32002
    monkeypatch.setattr(terminals_module, "MAX_TERMINALS", 0)
    with pytest.raises(InternalError):
        create(terminals, "true")
