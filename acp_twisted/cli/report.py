"""
What the one-shot client prints.
"""

from __future__ import annotations

import json
from typing import Any, Protocol, TextIO

from acp_twisted.errors import AcpConnectionError, AcpError
from acp_twisted.schema.converter import unstructure

TAIL_LINES = 40
"""How much of a failed agent's standard error is shown."""


class Report(Protocol):
    """
    Where a run says what happens.
    """

    def update(self, update: object) -> None:
        """
        The agent sent an update.
        """

    def result(self, response: Any) -> None:
        """
        The turn has ended, with something that has a C{stop_reason}.
        """

    def error(self, error: AcpError) -> None:
        """
        It was answered with an error, or never will be.
        """

    def note(self, text: str) -> None:
        """
        Something that the user should know.
        """


class JsonReport:
    """
    One JSON object a line on standard output: C{{"update": …}} in order, then C{{"result": …}} or C{{"error": …}}.
    What people want to know is on standard error, as without C{--json}.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err

    def update(self, update: object) -> None:
        # The state of a session of version 2 is a union of its own, which has another tag within an update.
        self._line({"update": {"sessionUpdate": "state_update", **unstructure(update)}})

    def result(self, response: Any) -> None:
        self._line({"result": unstructure(response)})
        self.note(f"stop reason: {response.stop_reason}")

    def error(self, error: AcpError) -> None:
        self._line({"error": {"code": error.code, "message": error.message}})
        _explain(error, self._err)

    def note(self, text: str) -> None:
        print(f"acp-twisted: {text}", file=self._err, flush=True)

    def _line(self, value: object) -> None:
        self._out.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
        self._out.flush()


class TextReport:
    """
    The agent's message on standard output as it comes; everything else on standard error.

    @ivar progress: whether to say what its tools do.
    """

    def __init__(self, out: TextIO, err: TextIO, progress: bool) -> None:
        self._out = out
        self._err = err
        self.progress = progress
        self._mid_line = False
        self._titles: dict[str, str] = {}
        self._printed: dict[str, str] = {}

    def update(self, update: Any) -> None:
        # By their names, which both versions of the protocol have.
        kind = type(update).__name__
        if kind == "AgentMessageChunk":
            self._message(_shown(update.content), update.message_id)
        elif kind == "AgentMessage":
            self._whole_message("".join(_shown(each) for each in update.content or ()), update.message_id)
        elif kind == "ToolCall":
            self._titles[update.tool_call_id] = update.title
            self._tool(update.title, update.status)
        elif kind == "ToolCallUpdate" and (update.status or update.title):
            if update.title:
                self._titles[update.tool_call_id] = update.title
            self._tool(self._titles.get(update.tool_call_id, update.tool_call_id), update.status or None)

    def _message(self, text: str, message_id: str | None) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
            self._mid_line = not text.endswith("\n")
        if message_id is not None:
            self._printed[message_id] = self._printed.get(message_id, "") + text

    def _whole_message(self, text: str, message_id: str) -> None:
        """
        A message of version 2 as it should be; what of it is printed already is not printed again.
        """
        printed = self._printed.get(message_id, "")
        if text.startswith(printed):
            self._message(text[len(printed) :], message_id)
        else:
            self._end_line()
            self._printed[message_id] = ""
            self._message(text, message_id)

    def _tool(self, title: str, status: str | None) -> None:
        if self.progress:
            self._end_line()
            print(f"* {plain(title)}{f': {plain(status)}' if status else ''}", file=self._err, flush=True)

    def result(self, response: Any) -> None:
        error = getattr(response, "error", None)
        self.note(f"stop reason: {response.stop_reason}{'' if error is None else f': {plain(error.message)}'}")

    def error(self, error: AcpError) -> None:
        self._end_line()
        _explain(error, self._err)

    def note(self, text: str) -> None:
        self._end_line()
        print(f"acp-twisted: {text}", file=self._err, flush=True)

    def _end_line(self) -> None:
        if self._mid_line:
            self._mid_line = False
            self._out.write("\n")
            self._out.flush()


def _shown(content: Any) -> str:
    """
    A piece of a message as text.
    """
    kind = type(content).__name__
    if kind == "TextContent":
        return str(content.text)
    return f"[{content.uri}]" if kind == "ResourceLink" else f"[{kind}]"


def plain(text: str) -> str:
    """
    Text of the agent's that is to be one line, and to leave the terminal alone.
    """
    return "".join(character if character.isprintable() else " " for character in text)


def _explain(error: AcpError, err: TextIO) -> None:
    """
    Say all that is known about an error: for a program that ended, its exit status (which is in the message) and the
    end of what it wrote to its standard error.
    """
    lines = [f"acp-twisted: {plain(_summary(error))}"]
    if isinstance(error, AcpConnectionError) and error.stderr_tail.strip():
        lines.append("acp-twisted: the end of the agent's standard error:")
        lines += [f"  {plain(line)}" for line in error.stderr_tail.rstrip().splitlines()[-TAIL_LINES:]]
    print("\n".join(lines), file=err, flush=True)


def _summary(error: AcpError) -> str:
    if not error.remote:
        return str(error)
    text = f"the agent answered error {error.code}: {error.message}"
    if error.data is not None:
        text += f" {json.dumps(error.data, ensure_ascii=False)}"
    return text
