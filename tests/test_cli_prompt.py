"""
The one-shot client without its process: in memory, on a clock that stands still.
"""

from __future__ import annotations

import io
import json
import os
import signal
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import LoggedErrors
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.task import Clock
from wire import failure, no_result, success
from zope.interface.verify import verifyObject

from acp_twisted import (
    AcpAgent,
    AcpClient,
    AcpConnectionError,
    AcpError,
    AgentConnection,
    AgentStartError,
    ClientConnection,
    PromptContext,
)
from acp_twisted.cli.options import PromptOptions, parse
from acp_twisted.cli.permit import Asker, Permit, first_of, hold
from acp_twisted.cli.prompt import CLOSE_SECONDS, PromptRun
from acp_twisted.cli.report import JsonReport, TextReport, plain
from acp_twisted.cli.status import Status
from acp_twisted.client.files import LocalFiles
from acp_twisted.client.terminals import Output
from acp_twisted.errors import InternalError, InvalidParams, ResourceNotFound
from acp_twisted.schema import v1, v2
from acp_twisted.testing.scripted_agent import build_agent
from acp_twisted.transports.memory import MemoryLink


class Run:
    """
    A run of the client against an agent in memory.

    @ivar status: its exit status, to come.
    """

    def __init__(
        self,
        text: str,
        agent: AcpAgent | None = None,
        *,
        permit: Permit | None = None,
        connect: Callable[[AcpClient], Deferred[ClientConnection]] | None = None,
        json: bool = True,
        **options: Any,
    ) -> None:
        self.clock = Clock()
        self.out, self.err = io.StringIO(), io.StringIO()
        self.link: MemoryLink | None = None
        self.connection: ClientConnection | None = None
        self._agent = agent or build_agent()
        report = JsonReport(self.out, self.err) if json else TextReport(self.out, self.err, progress=True)
        self.run = PromptRun(
            self.clock,
            PromptOptions(text=text, cwd="/", **options),
            report,
            permit=permit or first_of("allow"),
            connect=connect or self._connect,
        )
        self.status: Deferred[Status] = Deferred.fromCoroutine(self.run.run())

    def _connect(self, client: AcpClient) -> Deferred[ClientConnection]:
        connection = self.connection = client.connection(self.clock)
        self.link = MemoryLink(connection.peer, self._agent.build_receiver(self.clock), self.clock)
        return succeed(connection)

    def lines(self) -> list[dict[str, Any]]:
        """
        What was printed, as JSON lines.
        """
        return [json.loads(line) for line in self.out.getvalue().splitlines()]

    def methods(self) -> list[str]:
        """
        The methods that the client sent.
        """
        assert self.link is not None
        sent = [json.loads(message) for message in self.link.sent("a>b")]
        return [each["method"] for each in sent if "method" in each]

    def idle(self) -> bool:
        """
        Whether no timer is left and the agent was let go.
        """
        return not self.clock.getDelayedCalls() and (self.link is None or self.link.a.closed)


def chunk(text: str) -> dict[str, Any]:
    """
    An update as it is printed.
    """
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}


# ---- statuses and what is printed


def test_a_finished_turn_is_status_0() -> None:
    """The updates in order, then the result."""
    run = Run("stream 2")
    assert success(run.status) == 0
    assert run.lines() == [chunk("1"), chunk("2"), {"result": {"stopReason": "end_turn"}}]
    assert run.methods() == ["initialize", "session/new", "session/prompt"]
    assert run.idle()


def test_text_is_printed_as_it_comes() -> None:
    """Without anything around it; the stop reason is on standard error."""
    run = Run("stream 2 1", json=False)
    assert run.out.getvalue() == "1"
    run.clock.advance(1)
    assert success(run.status) == 0
    assert run.out.getvalue() == "12\n"
    assert run.err.getvalue() == "acp-twisted: stop reason: end_turn\n"


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "max_turn_requests"])
def test_any_other_answered_turn_is_status_0(reason: str) -> None:
    """Only cancelled has a status of its own."""

    def prompt(request: v1.PromptRequest) -> v1.PromptResponse:
        return v1.PromptResponse(stop_reason=reason)

    run = Run("x", AcpAgent.builder().prompt_handler(prompt).build())
    assert success(run.status) == 0
    assert run.lines() == [{"result": {"stopReason": reason}}]


def test_an_error_of_the_agent_is_status_4() -> None:
    """Its code and its message; its data is for people."""
    run = Run("fail -32050")
    assert success(run.status) == 4
    assert run.lines() == [{"error": {"code": -32050, "message": "asked to fail"}}]
    assert run.err.getvalue() == 'acp-twisted: the agent answered error -32050: asked to fail {"asked": true}\n'
    assert run.idle()


def test_a_refused_session_is_status_4() -> None:
    """What comes before the prompt counts too."""

    def refuse(request: v1.NewSessionRequest) -> v1.NewSessionResponse:
        raise AcpError(-32000, "Authentication required")

    run = Run("x", AcpAgent.builder().prompt_handler(lambda request: None).new_session_handler(refuse).build())
    assert success(run.status) == 4
    assert run.lines() == [{"error": {"code": -32000, "message": "Authentication required"}}]


def test_an_agent_that_does_not_start_is_status_5() -> None:
    """Why, its exit status, and the end of its standard error."""
    error = AgentStartError("the agent exited with status 7", exit_code=7, stderr_tail="first\nlast\x1b[0m\n")
    run = Run("x", connect=lambda client: fail(error))
    assert success(run.status) == 5
    assert run.lines() == [{"error": {"code": -32603, "message": "the agent exited with status 7"}}]
    assert run.err.getvalue().splitlines() == [
        "acp-twisted: the agent exited with status 7",
        "acp-twisted: the end of the agent's standard error:",
        "  first",
        "  last [0m",
    ]


def test_a_lost_link_is_status_5() -> None:
    """In the middle of the turn; what came before is printed."""
    run = Run("stream 9 1")
    assert run.link is not None
    run.link.b.abort("gone")
    assert success(run.status) == 5
    assert run.lines()[0] == chunk("1")
    assert list(run.lines()[1]) == ["error"]
    assert run.idle()


def test_a_run_that_takes_too_long_is_status_6() -> None:
    """--timeout bounds all of it; the agent is told, and let go."""
    run = Run("hang", timeout=5.0)
    run.clock.advance(4.9)
    no_result(run.status)
    run.clock.advance(0.1)
    assert success(run.status) == 6
    assert run.lines() == [{"error": {"code": -32603, "message": "timed out after 5 s"}}]
    assert run.methods()[-1] == "$/cancel_request"
    assert run.idle()


def test_an_agent_that_takes_nothing_is_timed_out() -> None:
    """Without --timeout by the library's own, and its end is not waited for for ever (B66)."""
    run_clock = Clock()

    def connect(client: AcpClient) -> Deferred[ClientConnection]:
        connection = client.connection(run_clock)
        MemoryLink(connection.peer, build_agent().build_receiver(run_clock), run_clock, auto=False)
        return succeed(connection)

    out = io.StringIO()
    report = JsonReport(out, io.StringIO())
    run = PromptRun(run_clock, PromptOptions(text="x", cwd="/"), report, permit=hold, connect=connect)
    status = Deferred.fromCoroutine(run.run())
    run_clock.advance(60)
    assert list(json.loads(out.getvalue())) == ["error"]
    no_result(status)
    run_clock.advance(CLOSE_SECONDS)
    assert success(status) == 6


def test_connecting_is_part_of_the_time() -> None:
    """A connection that is never made is given up."""
    connecting: Deferred[ClientConnection] = Deferred()
    run = Run("x", connect=lambda client: connecting, timeout=1.0)
    run.clock.advance(1)
    assert success(run.status) == 6


def test_an_internal_failure_is_not_hidden() -> None:
    """What is nobody's error is raised."""
    run = Run("x", connect=lambda client: fail(ZeroDivisionError()))
    failure(run.status, ZeroDivisionError)


# ---- cancelling


def test_cancel_after_seconds() -> None:
    """session/cancel, and the agent's own answer with its _meta (V1C5)."""
    run = Run("polite", cancel_after=2.0)
    run.clock.advance(1.9)
    assert "session/cancel" not in run.methods()
    run.clock.advance(0.1)
    assert success(run.status) == 3
    assert run.lines() == [{"result": {"stopReason": "cancelled", "_meta": {"stopped": True}}}]
    assert run.methods()[-1] == "session/cancel"
    assert run.idle()


def test_cancel_after_updates() -> None:
    """Once that many came; those behind are printed still (V1C8)."""
    run = Run("stream 9 1", cancel_after_updates=2)
    run.clock.advance(1)
    assert success(run.status) == 3
    assert run.lines() == [chunk("1"), chunk("2"), {"result": {"stopReason": "cancelled", "_meta": {"sent": 2}}}]


def test_updates_of_other_sessions_are_nobodys_business() -> None:
    """
    What is printed and counted is the session's own, also what comes before the answer to session/new, however much
    that is; an agent's other sessions don't show.
    """

    def say(connection: AgentConnection, session_id: str, text: str) -> None:
        connection.send_update(session_id, v1.AgentMessageChunk(content=v1.TextContent(text=text)))

    def new_session(request: v1.NewSessionRequest, connection: AgentConnection) -> v1.NewSessionResponse:
        for _ in range(2000):
            say(connection, "own", "early")
        return v1.NewSessionResponse(session_id="own")

    async def prompt(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        for _ in range(3):
            say(context.connection, "other", "no")
        await context.send_message("yes")
        return v1.PromptResponse(stop_reason="cancelled" if context.is_cancelled else "end_turn")

    agent = AcpAgent.builder().new_session_handler(new_session).prompt_handler(prompt).build()
    run = Run("x", agent, cancel_after_updates=2)
    assert success(run.status) == 0
    assert run.lines() == [*[chunk("early")] * 2000, chunk("yes"), {"result": {"stopReason": "end_turn"}}]


def test_cancel_after_no_updates() -> None:
    """At once, behind the prompt."""
    run = Run("polite", cancel_after_updates=0)
    assert success(run.status) == 3


def test_cancel_by_request() -> None:
    """$/cancel_request, and the agent's -32800 is what we asked for: status 3."""
    run = Run("polite", cancel_after=1.0, how="request")
    run.clock.advance(1)
    assert success(run.status) == 3
    assert run.lines() == [{"error": {"code": -32800, "message": "Request cancelled"}}]
    assert run.methods()[-1] == "$/cancel_request"


def test_a_cancelled_answer_that_nobody_asked_for_is_an_error() -> None:
    """-32800 by the agent's own decision is status 4."""
    run = Run("hang", build_agent(max_duration=1))
    run.clock.advance(1)
    assert success(run.status) == 4


def test_a_turn_that_ends_before_is_not_cancelled() -> None:
    """Then the timer is gone too."""
    run = Run("stream 1", cancel_after=5.0)
    assert success(run.status) == 0
    assert run.idle()


def test_the_first_interrupt_cancels_and_still_prints() -> None:
    """^C."""
    run = Run("polite")
    assert not run.run.interrupt()
    assert success(run.status) == 3
    assert run.lines() == [{"result": {"stopReason": "cancelled", "_meta": {"stopped": True}}}]


def test_the_second_interrupt_leaves() -> None:
    """^C^C, with a turn that takes no notice."""
    run = Run("hang")
    assert not run.run.interrupt()
    no_result(run.status)
    assert run.run.interrupt()
    assert success(run.status) == 130
    assert run.idle()


def test_an_interrupt_behind_the_answer_leaves() -> None:
    """While the agent takes its time to go."""
    run = Run("stream 1")
    assert run.run.interrupt()


def test_an_interrupt_before_the_prompt_leaves() -> None:
    """There is no turn to be cancelled."""
    connecting: Deferred[ClientConnection] = Deferred()
    run = Run("x", connect=lambda client: connecting)
    assert run.run.interrupt()
    assert success(run.status) == 130


def test_a_held_permission_is_answered_by_the_cancellation() -> None:
    """The library answers cancelled for who never does (V1C3)."""
    run = Run("permission 2", permit=hold, cancel_after=1.0)
    run.clock.advance(1)
    assert success(run.status) == 3
    assert run.lines()[0] == chunk('["cancelled","cancelled"]')


class Gone(io.StringIO):
    """
    Nobody reads it.
    """

    def write(self, text: str) -> int:
        raise BrokenPipeError


def scripted(links: list[MemoryLink], clock: Clock, client: AcpClient) -> Deferred[ClientConnection]:
    """
    Connect to the scripted agent, by one more link.
    """
    connection = client.connection(clock)
    links.append(MemoryLink(connection.peer, build_agent().build_receiver(clock), clock))
    return succeed(connection)


def test_output_that_nobody_reads_ends_the_run() -> None:
    """Status 141, as shells say it of SIGPIPE; the agent is let go."""
    out = Gone()
    clock = Clock()
    links: list[MemoryLink] = []
    options = PromptOptions(text="stream 9 1", cwd="/")
    report = TextReport(out, io.StringIO(), False)
    run = PromptRun(clock, options, report, permit=hold, connect=partial(scripted, links, clock))
    assert success(Deferred.fromCoroutine(run.run())) == 141
    assert links[0].a.closed


@pytest.mark.parametrize("how", ["timeout", "error"])
def test_an_error_that_nobody_reads_ends_the_run(how: str) -> None:
    """It is not the printing of it that ends the agent."""
    clock = Clock()
    links: list[MemoryLink] = []
    options = PromptOptions(text="hang" if how == "timeout" else "fail -32050", cwd="/", timeout=5.0)
    report = JsonReport(Gone(), io.StringIO())
    run = PromptRun(clock, options, report, permit=hold, connect=partial(scripted, links, clock))
    status = Deferred.fromCoroutine(run.run())
    clock.advance(5)
    assert success(status) == 141
    assert links[0].a.closed
    assert clock.getDelayedCalls() == []


# ---- the reports


def test_tool_calls_are_a_line_of_progress() -> None:
    """On standard error, between the lines of the message, and only if wanted."""
    for progress in (True, False):
        out, err = io.StringIO(), io.StringIO()
        report = TextReport(out, err, progress)
        report.update(v1.AgentMessageChunk(content=v1.TextContent(text="so")))
        report.update(v1.ToolCall(tool_call_id="t", title="Read\x1b[2J it"))
        report.update(v1.ToolCallUpdate(tool_call_id="t", status="completed"))
        report.update(v1.ToolCallUpdate(tool_call_id="t"))
        report.result(v1.PromptResponse(stop_reason="end_turn"))
        shown = "* Read [2J it: pending\n* Read [2J it: completed\n" if progress else ""
        assert err.getvalue() == f"{shown}acp-twisted: stop reason: end_turn\n"
        assert out.getvalue() == "so\n"


def test_unknown_updates_are_printed_as_json_as_they_came() -> None:
    """Unknown is kept (design rule 10)."""
    from acp_twisted.schema.converter import structure

    raw = {"sessionId": "s", "update": {"sessionUpdate": "_news", "a": [1]}}
    out = io.StringIO()
    JsonReport(out, io.StringIO()).update(structure(raw, v1.SessionNotification).update)
    assert json.loads(out.getvalue()) == {"update": raw["update"]}


def test_plain_leaves_the_terminal_alone() -> None:
    """No control characters."""
    assert plain("a\x1b[31m\r\nü") == "a [31m  ü"


# ---- permission


def _permission(*kinds: str) -> v1.RequestPermissionRequest:
    options = [v1.PermissionOption(option_id=f"{n}-{kind}", name=kind, kind=kind) for n, kind in enumerate(kinds)]
    return v1.RequestPermissionRequest(
        session_id="s", tool_call=v1.ToolCallUpdate(tool_call_id="t", title="Do it"), options=options
    )


@pytest.mark.parametrize(
    ("kind", "kinds", "chosen"),
    [
        ("allow", ["reject_once", "allow_always", "allow_once"], "1-allow_always"),
        ("reject", ["allow_once", "reject_always"], "1-reject_always"),
        ("reject", ["allow_once"], None),
        ("allow", ["reject_once"], None),
        ("allow", [], None),
    ],
)
def test_the_first_fitting_option_is_chosen(kind: str, kinds: list[str], chosen: str | None) -> None:
    """And where there is none, cancelled."""
    response = first_of(kind)(_permission(*kinds))
    assert isinstance(response, v1.RequestPermissionResponse)
    assert _chosen(response) == chosen


def _chosen(response: v1.RequestPermissionResponse) -> str | None:
    outcome = response.outcome
    return outcome.option_id if isinstance(outcome, v1.SelectedPermissionOutcome) else None


class FakeReaders(Clock):
    """
    A reactor that remembers who reads.
    """

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[object] = []

    def addReader(self, reader: object) -> None:
        self.readers.append(reader)

    def removeReader(self, reader: object) -> None:
        self.readers.remove(reader)


class Terminal:
    """
    An asker whose answers are written into a pipe.
    """

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        self.reactor = FakeReaders()
        self.err = io.StringIO()
        self.asker = Asker(self.reactor, self.read_fd, self.err)
        assert verifyObject(IReadDescriptor, self.asker)

    def type(self, text: str) -> None:
        """
        The user types.
        """
        os.write(self._write_fd, text.encode())
        if self.reactor.readers:
            self.asker.doRead()
        self.reactor.advance(0)

    def end(self) -> None:
        """
        The user presses ^D.
        """
        os.close(self._write_fd)
        self.asker.doRead()


def test_the_user_is_asked_one_question_at_a_time() -> None:
    """It reads only while a question is open; nonsense is asked again."""
    terminal = Terminal()
    first, second = (terminal.asker.ask(_permission("allow_once", "reject_once")) for _ in range(2))
    assert terminal.err.getvalue().count("Do it") == 1
    terminal.type("9\n")
    terminal.type("x\n1")
    no_result(first)
    terminal.type("\n")
    assert _chosen(success(first)) == "0-allow_once"
    assert terminal.err.getvalue().count("Do it") == 2
    terminal.type("\n")
    assert _chosen(success(second)) is None
    assert terminal.reactor.readers == []


def test_a_question_that_an_answer_leads_to_is_put_once() -> None:
    """Also when it comes from within that answer; and one that is withdrawn there is not put at all."""
    terminal = Terminal()
    first, second = (terminal.asker.ask(_permission("allow_once")) for _ in range(2))
    third: list[Deferred[Any]] = []
    second.addErrback(lambda _: None)

    def go_on(_: object) -> None:
        second.cancel()
        third.append(terminal.asker.ask(_permission("allow_once")))

    first.addCallback(go_on)
    terminal.type("1\n")
    assert terminal.err.getvalue().count("Do it") == 2
    terminal.type("1\n")
    assert _chosen(success(third[0])) == "0-allow_once"
    assert terminal.reactor.readers == []
    assert terminal.reactor.getDelayedCalls() == []


def test_a_question_may_be_withdrawn() -> None:
    """The next one is asked, and what was typed ahead counts for it."""
    terminal = Terminal()
    first, second = (terminal.asker.ask(_permission("allow_once")) for _ in range(2))
    first.addErrback(lambda _: None)
    first.cancel()
    terminal.type("1\n")
    assert _chosen(success(second)) == "0-allow_once"
    assert terminal.reactor.readers == []


def test_the_end_of_the_input_is_no_choice() -> None:
    """For all open questions, and for later ones."""
    terminal = Terminal()
    asked = [terminal.asker.ask(_permission("allow_once")) for _ in range(2)]
    terminal.end()
    asked.append(terminal.asker.ask(_permission("allow_once")))
    assert [_chosen(success(each)) for each in asked] == [None, None, None]
    assert terminal.reactor.readers == []


def test_answers_may_come_from_a_file(tmp_path: Path) -> None:
    """Which no reactor can watch."""
    (tmp_path / "answers").write_text("1\n2\n")
    with (tmp_path / "answers").open("rb") as file:
        reactor = FakeReaders()
        asker = Asker(reactor, file.fileno(), io.StringIO())
        asked = [asker.ask(_permission("allow_once", "reject_once")) for _ in range(3)]
        for _ in range(5):
            reactor.advance(0)
        assert [_chosen(success(each)) for each in asked[:2]] == ["0-allow_once", "1-reject_once"]
        assert _chosen(success(asked[2])) is None
    assert reactor.readers == []


# ---- the command line


def test_a_command_behind_two_dashes() -> None:
    """Everything behind them is the agent's, what looks like ours too."""
    options = parse(["prompt", "hi", "--json", "--", "agent", "--json", "--", "x"])
    assert (options.text, options.json, options.command) == ("hi", True, ("agent", "--json", "--", "x"))
    assert (options.cwd, options.how, options.permit) == (str(Path.cwd()), "session", None)


def test_all_options(tmp_path: Path) -> None:
    """As the usage has them."""
    words = f"prompt hi --cwd {tmp_path} --cancel-after 1.5 --how request --timeout 3 --permit hold --connect tcp:h:1"
    options = parse(words.split())
    assert options == PromptOptions(
        text="hi", cwd=str(tmp_path), cancel_after=1.5, how="request", timeout=3.0, permit="hold", endpoint="tcp:h:1"
    )
    assert parse([*words.split(), "--protocol", "2,1"]).protocol == (2, 1)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["prompt"],
        ["prompt", "hi"],
        ["prompt", "hi", "--"],
        ["prompt", "hi", "--", ""],
        ["prompt", "--", "agent"],
        ["prompt", "hi", "there", "--", "agent"],
        ["prompt", "hi", "--connect", "tcp:h:1", "--", "agent"],
        ["prompt", "hi", "--connect", "nonsense:1"],
        ["prompt", "hi", "--connect", "tcp"],
        ["prompt", "hi", "--cancel-after", "-1", "--", "agent"],
        ["prompt", "hi", "--cancel-after", "x", "--", "agent"],
        ["prompt", "hi", "--cancel-after-updates", "-1", "--", "agent"],
        ["prompt", "hi", "--cancel-after-updates", "1.5", "--", "agent"],
        ["prompt", "hi", "--cancel-after", "1", "--cancel-after-updates", "1", "--", "agent"],
        ["prompt", "hi", "--timeout", "0", "--", "agent"],
        ["prompt", "hi", "--timeout", "inf", "--", "agent"],
        ["prompt", "hi", "--how", "kill", "--", "agent"],
        ["prompt", "hi", "--permit", "maybe", "--", "agent"],
        ["prompt", "hi", "--protocol", "3", "--", "agent"],
        ["prompt", "hi", "--cwd", "/no/such/directory", "--", "agent"],
        ["prompt", "hi", "--jso", "--", "agent"],
        ["dance"],
    ],
)
def test_a_bad_command_line_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, with what is wrong on standard error."""
    with pytest.raises(SystemExit) as left:
        parse(words)
    assert left.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "error:" in printed.err


# ---- the client's own files


def _read(files: LocalFiles, path: object, **more: Any) -> str:
    return files.read(v1.ReadTextFileRequest(session_id="s", path=str(path), **more)).content


def _write(files: LocalFiles, path: object, content: str) -> None:
    files.write(v1.WriteTextFileRequest(session_id="s", path=str(path), content=content))


def test_files_are_written_and_read_as_they_are(tmp_path: Path) -> None:
    """Line ends too; a missing file and its directories are made (1.132), a longer one is cut."""
    files = LocalFiles(tmp_path)
    _write(files, tmp_path / "a/b/c", "ü\r\nlong")
    _write(files, tmp_path / "a/b/c", "ü\r\n")
    assert _read(files, tmp_path / "a/b/c") == "ü\r\n"


@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        (None, None, "1\n2\r\n\u20283"),
        (1, 1, "1\n"),
        (2, None, "2\r\n\u20283"),
        (2, 1, "2\r\n"),
        (3, 5, "\u20283"),
        (4, 1, ""),
        (None, 2, "1\n2\r\n"),
        (None, 0, ""),
        (0, 1, "1\n"),
    ],
)
def test_lines_of_a_file(tmp_path: Path, line: int | None, limit: int | None, expected: str) -> None:
    """Counted from 1, at most so many (1.131)."""
    (tmp_path / "f").write_bytes("1\n2\r\n\u20283".encode())
    assert _read(LocalFiles(tmp_path), tmp_path / "f", line=line, limit=limit) == expected


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    """-32002."""
    with pytest.raises(ResourceNotFound):
        _read(LocalFiles(tmp_path), tmp_path / "none")


@pytest.mark.parametrize("how", ["parent", "link", "absolute", "relative", "root", "nul", "sibling"])
def test_what_is_outside_is_refused(tmp_path: Path, how: str) -> None:
    """Whichever way leads there; nothing is read or written."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.write_text("secret")
    (root / "link").symlink_to(outside)
    (tmp_path / "root2").mkdir()
    path = {
        "parent": f"{root}/../outside",
        "link": f"{root}/link",
        "absolute": str(outside),
        "relative": "f",
        "root": str(root),
        "nul": f"{root}/a\0b",
        "sibling": f"{root}2/f",
    }[how]
    files = LocalFiles(root)
    with pytest.raises(InvalidParams):
        _read(files, path)
    with pytest.raises(InvalidParams):
        _write(files, path, "overwritten")
    assert outside.read_text() == "secret"


def test_a_directory_may_be_named_by_a_link(tmp_path: Path) -> None:
    """The root is resolved as its files are."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files = LocalFiles(tmp_path / "link")
    _write(files, tmp_path / "link/f", "x")
    assert _read(files, tmp_path / "real/f") == "x"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A directory, and a pipe that would never end."""
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    files = LocalFiles(tmp_path)
    for name in ("directory", "pipe"):
        with pytest.raises((InvalidParams, InternalError)):
            _read(files, tmp_path / name)
        with pytest.raises((InvalidParams, InternalError)):
            _write(files, tmp_path / name, "x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    """UTF-8 or nothing."""
    (tmp_path / "f").write_bytes(b"\xff\xfe")
    with pytest.raises(InternalError, match="UTF-8"):
        _read(LocalFiles(tmp_path), tmp_path / "f")


# ---- the output of its terminals


@pytest.mark.parametrize("limit", range(12))
def test_output_is_cut_at_the_front_between_characters(limit: int) -> None:
    """The end of it, no longer than the limit, and nothing but whole characters (1.142)."""
    whole = "aü€😀b"
    output = Output(limit)
    for byte in whole.encode():
        output.feed(bytes([byte]))
    assert whole.endswith(output.text)
    assert len(output.text.encode()) <= limit
    assert output.truncated == (limit < len(whole.encode()))
    longer = whole[len(whole) - len(output.text) - 1 :] if output.text != whole else whole
    assert output.text == whole or len(longer.encode()) > limit


def test_output_that_is_no_text_keeps_to_its_limit() -> None:
    """Replacement characters are longer than what they replace."""
    output = Output(10)
    output.feed(b"\xff" * 10)
    assert output.text == "\ufffd" * 3
    assert not output.truncated


def test_statuses_are_those_of_the_signals() -> None:
    """128 and the signal's number, as shells have it."""
    assert Status.HUNG_UP == 128 + signal.SIGHUP
    assert Status.INTERRUPTED == 128 + signal.SIGINT
    assert Status.OUTPUT_GONE == 128 + signal.SIGPIPE
    assert Status.TERMINATED == 128 + signal.SIGTERM


def test_a_connection_error_has_its_reason(logged_errors: LoggedErrors) -> None:
    """An error of the link without a program has no tail."""
    run = Run("x", connect=lambda client: fail(AcpConnectionError("could not connect: refused")))
    assert success(run.status) == 5
    assert run.err.getvalue() == "acp-twisted: could not connect: refused\n"
    assert logged_errors == []


def test_messages_that_could_not_be_read_are_told_of() -> None:
    """What the agent sent and was too long, or is no JSON, is missing in what is printed; the user learns of it."""
    run = Run("stream 2 1")
    assert run.connection is not None
    peer = run.connection.peer
    peer.oversized_received(b'{"jsonrpc":"2.0","method":"session/update","params":{"a":"', 10**9)
    peer.message_received(b'{"jsonrpc":"2.0","method":"session/update","params":{"a":NaN}}')
    peer.message_received(b"a banner")
    run.clock.advance(1)
    assert success(run.status) == 0
    assert "could not be read, and are missing here: 2" in run.err.getvalue()


# ---- version 2


def test_a_whole_message_is_not_printed_twice() -> None:
    """An agent of version 2 may repeat a message that it has streamed, or say it otherwise."""
    out, err = io.StringIO(), io.StringIO()
    report = TextReport(out, err, progress=True)
    for words in ("Hel", "lo"):
        report.update(v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text=words)))
    report.update(v2.AgentMessage(message_id="m", content=[v2.TextContent(text="Hello you")]))
    report.update(v2.AgentMessage(message_id="m", content=[v2.TextContent(text="Bye")]))
    report.update(v2.ToolCallUpdate(tool_call_id="t", title="Look", status="completed"))
    report.result(v2.IdleStateUpdate(stop_reason="error", error=v2.Error(code=-32603, message="no")))
    assert out.getvalue() == "Hello you\nBye\n"
    assert err.getvalue().splitlines() == ["* Look: completed", "acp-twisted: stop reason: error: no"]


def test_a_report_of_version_2_as_json() -> None:
    """The state of a session is an update like the others."""
    out = io.StringIO()
    report = JsonReport(out, io.StringIO())
    report.update(v2.RunningStateUpdate())
    report.result(v2.IdleStateUpdate(stop_reason="end_turn"))
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"update": {"sessionUpdate": "state_update", "state": "running"}},
        {"result": {"state": "idle", "stopReason": "end_turn"}},
    ]
