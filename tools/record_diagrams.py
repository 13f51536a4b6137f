"""
Record what an agent and a client of this library say to each other, and draw it for the manual.

    python tools/record_diagrams.py            writes docs/diagrams/cancel-*.{mmd,svg}
    python tools/record_diagrams.py --check    writes nothing; fails if one of them is not what is said today

Every arrow is a message that was sent: both halves are real, on a link in memory whose clock the scene moves.  A note
is something that a handler, or the caller, noticed at that point.  C{.mmd} is a Mermaid sequence diagram, and C{.svg}
the same for a manual that is built without any other program.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from acp_twisted import AcpAgent, AcpClient, CancellationSignal, ClientSession, PromptContext
from acp_twisted.agent.agent import AcpAgentBuilder
from acp_twisted.client.client import AcpClientBuilder
from acp_twisted.client.connection import ClientConnection
from acp_twisted.errors import AcpError
from acp_twisted.schema import v1
from acp_twisted.transports.memory import MemoryLink

DIAGRAMS = Path(__file__).resolve().parent.parent / "docs" / "diagrams"

Side = Literal["client", "agent"]
OTHER: dict[Side, Side] = {"client": "agent", "agent": "client"}
TITLES: dict[Side, str] = {"client": "Client", "agent": "Agent"}


@frozen
class Said:
    """
    One message.

    @ivar title: its method, or whose answer it is.
    @ivar detail: what stands in it that matters here.
    """

    by: Side
    title: str
    detail: str
    is_answer: bool


@frozen
class Noted:
    """
    Something that one side noticed.
    """

    by: Side
    text: str


class Stage:
    """
    A client and an agent with one session, and what is said from then on.

    @ivar session: the client's.
    @ivar clock: the time of both.
    """

    def __init__(self, agent: AcpAgentBuilder, client: AcpClientBuilder | None = None) -> None:
        self.clock = Clock()
        self.rows: list[Said | Noted] = []
        self._methods: dict[tuple[Side, object], str] = {}
        agent.new_session_handler(lambda _: v1.NewSessionResponse(session_id="s1"))
        self.connection: ClientConnection = (client or AcpClient.builder()).build().connection(self.clock)
        self._link = MemoryLink(self.connection.peer, agent.build().build_receiver(self.clock), self.clock)
        done: list[ClientSession] = []
        self.connection.initialize()
        self.connection.new_session("/project").addCallback(done.append)
        self.session = done[0]
        self._heard = len(self._link.wire)
        self._order = 0

    def note(self, by: Side, text: str) -> None:
        """Put down what was noticed, behind what was said so far."""
        self._listen()
        self.rows.append(Noted(by, text))

    def passes(self, seconds: float, by: Side, text: str) -> None:
        """Time passes, and nothing is said meanwhile."""
        self.note(by, text)
        self.clock.advance(seconds)

    def recording(self) -> list[Said | Noted]:
        """All that happened."""
        self._listen()
        return self.rows

    def _listen(self) -> None:
        for direction, message in self._link.wire[self._heard :]:
            by: Side = "client" if direction == "a>b" else "agent"
            self.rows.append(self._said(by, json.loads(message)))
        self._heard = len(self._link.wire)

    def _said(self, by: Side, message: dict[str, Any]) -> Said:
        if "method" not in message:
            method = self._methods[(OTHER[by], message["id"])]
            kind = "error" if "error" in message else "result"
            return Said(by, f"{kind} of {method} (id {message['id']})", _json(message[kind]), True)
        method, params = message["method"], message.get("params", {})
        if "id" in message:
            self._methods[(by, message["id"])] = method
            return Said(by, f"{method} (id {message['id']})", _detail(params), False)
        return Said(by, method, _detail(params), False)


def _detail(params: dict[str, Any]) -> str:
    """What the reader should see of a message's params."""
    if "requestId" in params:
        return _json(params)
    if "prompt" in params:
        return _json(params["prompt"][0]["text"])
    if "update" in params:
        return _json(params["update"]["content"]["text"])
    if "toolCall" in params:
        return _json(params["toolCall"]["title"])
    return _json({name: value for name, value in params.items() if name != "sessionId"}) if len(params) > 1 else ""


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("{}", "{ }")


# ---- the scenes


def _permission(context: PromptContext) -> Deferred[Any]:
    options = [v1.PermissionOption(option_id="allow", name="Allow", kind="allow_once")]
    return context.request_permission(v1.ToolCallUpdate(tool_call_id="t1", title="Write main.py"), options)


def session_cancel() -> list[Said | Noted]:
    """A signal stops a turn that waits for a permission."""

    async def handler(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        context.on_cancel(lambda: stage.note("agent", "on_cancel: is_cancelled is true from here on"))
        context.send_message("Working on it")
        response = await _permission(context)
        assert isinstance(response.outcome, v1.CancelledPermissionOutcome)
        stage.note("agent", "the handler learns the outcome, and says its last")
        context.send_message("Stopped")
        stage.note("agent", "it returns end_turn")
        return v1.PromptResponse(stop_reason="end_turn")

    stage = Stage(
        AcpAgent.builder().prompt_handler(handler),
        AcpClient.builder().request_permission_handler(lambda _: Deferred()),
    )
    stop = CancellationSignal()
    turn = stage.session.prompt("Tidy up", stop)
    stage.note("client", "stop.cancel()")
    stop.cancel()
    turn.response.addCallback(lambda response: stage.note("client", f"the answer: {response.stop_reason}"))
    return stage.recording()


def busy_session() -> list[Said | Noted]:
    """A prompt between session/cancel and its answer is refused; one after the answer is not."""
    works: list[Deferred[Any]] = []

    def handler(request: v1.PromptRequest, context: PromptContext) -> Deferred[Any]:
        works.append(Deferred())
        return works[-1]

    stage = Stage(AcpAgent.builder().prompt_handler(handler))
    stage.session.prompt("First").cancel()
    stage.note("agent", "the turn is cancelled, and not over yet")
    content = [v1.TextContent(text="Second")]
    refused = stage.connection.send_prompt(v1.PromptRequest(session_id="s1", prompt=content))
    refused.addErrback(lambda failure: failure.trap(AcpError))
    stage.note("agent", "the handler returns")
    works[0].callback(v1.PromptResponse(stop_reason="end_turn"))
    stage.session.prompt("Third")
    works[1].callback(v1.PromptResponse(stop_reason="end_turn"))
    return stage.recording()


def request_cancel() -> list[Said | Noted]:
    """A prompt's request is given up: the caller ends at once, and so does the handler."""

    async def handler(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        try:
            await Deferred()
        finally:
            stage.note("agent", "the handler is cancelled; what it returns is dropped")
        return v1.PromptResponse(stop_reason="end_turn")

    stage = Stage(AcpAgent.builder().prompt_handler(handler))
    turn = stage.session.prompt("Tidy up")
    stage.note("client", "turn.response.cancel()")
    turn.response.addErrback(lambda failure: failure.trap(AcpError))
    turn.response.cancel()
    stage.note("client", "RequestCancelled at once; the answer is dropped")
    return stage.recording()


def grace_period() -> list[Said | Noted]:
    """A handler that takes no notice of session/cancel."""

    async def handler(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        try:
            await Deferred()
        finally:
            stage.note("agent", "the handler is cancelled")
        return v1.PromptResponse(stop_reason="end_turn")

    stage = Stage(AcpAgent.builder().prompt_handler(handler))
    stage.session.prompt("Tidy up").cancel()
    stage.passes(60, "agent", "60 s: cancel_grace_period is over")
    return stage.recording()


def max_duration() -> list[Said | Noted]:
    """A turn that takes longer than the agent allows."""
    stage = Stage(AcpAgent.builder().prompt_handler(lambda _: Deferred()).max_prompt_duration(600))
    turn = stage.session.prompt("Tidy up")
    turn.response.addErrback(lambda failure: failure.trap(AcpError))
    stage.passes(600, "agent", "600 s: max_prompt_duration is over")
    return stage.recording()


def cascade() -> list[Said | Noted]:
    """session/cancel with cascade_cancellation(): the open request for the turn is cancelled too."""

    async def handler(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        terminal = await context.create_terminal("make")
        await context.wait_for_terminal_exit(terminal.terminal_id)
        return v1.PromptResponse(stop_reason="end_turn")

    client = AcpClient.builder()
    client.create_terminal_handler(lambda _: v1.CreateTerminalResponse(terminal_id="t1"))
    client.wait_for_terminal_exit_handler(lambda _: Deferred())
    # The client has only the two of the five terminal methods that this tells of, so it does not advertise them.
    agent = AcpAgent.builder().prompt_handler(handler).cascade_cancellation().capability_gates(False)
    stage = Stage(agent, client)
    turn = stage.session.prompt("Build it")
    stage.note("client", "turn.cancel()")
    turn.cancel()
    return stage.recording()


SCENES: dict[str, Callable[[], list[Said | Noted]]] = {
    "cancel-session": session_cancel,
    "cancel-busy": busy_session,
    "cancel-request": request_cancel,
    "cancel-grace": grace_period,
    "cancel-duration": max_duration,
    "cancel-cascade": cascade,
}


# ---- the drawings


def as_mermaid(rows: Sequence[Said | Noted]) -> str:
    """
    The recording as a Mermaid sequence diagram.
    """
    lines = ["sequenceDiagram", "    participant client as Client", "    participant agent as Agent"]
    for row in rows:
        if isinstance(row, Noted):
            lines.append(f"    Note over {row.by}: {_for_mermaid(row.text)}")
        else:
            arrow = "-->>" if row.is_answer else "->>"
            text = f"{row.title}<br/>{_for_mermaid(row.detail)}" if row.detail else row.title
            lines.append(f"    {row.by}{arrow}{OTHER[row.by]}: {text}")
    return "\n".join(lines) + "\n"


def _for_mermaid(text: str) -> str:
    return text.replace(";", ",").replace("#", "no. ")


WIDTH, TOP, NOTE, LINE = 760, 52, 34, 14
COLUMNS = 70
AT: dict[Side, int] = {"client": 130, "agent": 630}


def as_svg(rows: Sequence[Said | Noted]) -> str:
    """
    The recording as a drawing.
    """
    height = TOP + sum(_height(row) for row in rows) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#334"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for side, x in AT.items():
        parts.append(f'<line x1="{x}" y1="40" x2="{x}" y2="{height - 8}" stroke="#99a" stroke-dasharray="3 4"/>')
        parts.append(f'<rect x="{x - 60}" y="10" width="120" height="30" rx="4" fill="#eef" stroke="#99a"/>')
        parts.append(_text(x, 30, TITLES[side], weight="bold"))
    y = TOP
    for row in rows:
        parts += _note(row, y) if isinstance(row, Noted) else _arrow(row, y)
        y += _height(row)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _lines(row: Said) -> list[str]:
    return wrap(row.detail, COLUMNS, break_long_words=False, break_on_hyphens=False)


def _height(row: Said | Noted) -> int:
    return NOTE if isinstance(row, Noted) else 32 + LINE * len(_lines(row))


def _arrow(row: Said, y: int) -> list[str]:
    start, end = AT[row.by], AT[OTHER[row.by]]
    middle, dashes = (start + end) // 2, ' stroke-dasharray="6 3"' if row.is_answer else ""
    parts = [_text(middle, y + LINE, row.title)]
    line = y + LINE + 6
    for text in _lines(row):
        parts.append(_text(middle, line + 8, text, size=11, fill="#557"))
        line += LINE
    parts.append(
        f'<line x1="{start}" y1="{line}" x2="{end}" y2="{line}" stroke="#334"{dashes} marker-end="url(#head)"/>'
    )
    return parts


def _note(row: Noted, y: int) -> list[str]:
    width = 7 * len(row.text) + 20
    left = min(max(AT[row.by] - width // 2, 6), WIDTH - width - 6)
    return [
        f'<rect x="{left}" y="{y + 4}" width="{width}" height="24" rx="3" fill="#ffd" stroke="#cc9"/>',
        _text(left + width // 2, y + 20, row.text, size=12),
    ]


def _text(x: int, y: int, text: str, *, size: int = 13, fill: str = "#223", weight: str = "normal") -> str:
    style = f'font-size="{size}" fill="{fill}" font-weight="{weight}" text-anchor="middle"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text, quote=False)}</text>'


def drawings() -> dict[str, str]:
    """
    Every drawing, by its file name.
    """
    found = {}
    for name, scene in SCENES.items():
        rows = scene()
        found[f"{name}.mmd"] = as_mermaid(rows)
        found[f"{name}.svg"] = as_svg(rows)
    return found


def main(arguments: Sequence[str], directory: Path = DIAGRAMS) -> int:
    """
    Write the drawings, or check them.  Returns the exit status.
    """
    stale = 0
    for name, text in drawings().items():
        path = directory / name
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{path} is not what is said today; run python tools/record_diagrams.py\n")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
