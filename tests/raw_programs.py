"""
Programs driven from outside, by bytes and signals, with nothing of ours in between.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from typing_extensions import Self

SECONDS = 180.0
"""How long anything may take, on a machine that has much else to do."""

STRICT_PYTHON = (sys.executable, "-W", "error", "-W", "ignore:The `hash` argument is deprecated")
"""Warnings are errors, but for what the oldest Twisted does with its own attrs."""

SCRIPTED_AGENT = (sys.executable, "-m", "acp_twisted.testing.scripted_agent")


class Lines:
    """
    The lines of a descriptor, with a deadline.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = b""
        self.ended = False

    def next(self, seconds: float = SECONDS) -> bytes | None:
        """
        The next line, without its end; L{None} at the end of the input.

        @raise TimeoutError: when none comes in time.
        """
        until = time.monotonic() + seconds
        while b"\n" not in self._buffer and not self.ended:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._fd], [], [], left)[0]:
                raise TimeoutError(f"no line within {seconds} s; so far {self._buffer!r}")
            try:
                data = os.read(self._fd, 1 << 20)
            except OSError:  # how a pseudo-terminal ends
                data = b""
            self.ended = not data
            self._buffer += data
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def rest(self) -> list[bytes]:
        """
        All lines up to the end.
        """
        lines = []
        while (line := self.next()) is not None:
            lines.append(line)
        return lines


class Conversation:
    """
    JSON-RPC over two descriptors.

    @ivar seen: every message that came, in order.
    """

    def __init__(self, write: Callable[[bytes], object], fd: int) -> None:
        self.write = write
        self._lines = Lines(fd)
        self._last_id = 0
        self.seen: list[dict[str, Any]] = []
        self.session = ""

    def send(self, method: str, params: object) -> int:
        """
        A request.
        """
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    def notify(self, method: str, params: object) -> None:
        """
        A notification.
        """
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def read(self, seconds: float = SECONDS) -> dict[str, Any]:
        """
        The next message; every line has to be one.
        """
        line = self._lines.next(seconds)
        assert line is not None, "the other side has ended"
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        self.seen.append(message)
        return message

    def answer(self, request_id: int) -> dict[str, Any]:
        """
        Read up to the answer to a request; its envelope is left out.
        """
        while True:
            message = self.read()
            if message.get("id") == request_id and "method" not in message:
                return {name: value for name, value in message.items() if name not in ("jsonrpc", "id")}

    def begin(self) -> None:
        """
        Initialize, and open a session.
        """
        assert "result" in self.answer(self.send("initialize", {"protocolVersion": 1}))
        self.session = self.answer(self.send("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]

    def prompt(self, text: str) -> int:
        """
        A prompt of one text block.
        """
        return self.send("session/prompt", {"sessionId": self.session, "prompt": [{"type": "text", "text": text}]})

    def cancel(self) -> None:
        """
        Cancel the turn.
        """
        self.notify("session/cancel", {"sessionId": self.session})

    @property
    def said(self) -> list[str]:
        """
        The texts of all chunks.
        """
        return [
            each["params"]["update"]["content"]["text"] for each in self.seen if each.get("method") == "session/update"
        ]

    def ended(self) -> list[bytes]:
        """
        Read to the end.

        @return: what came that was not read before.
        """
        return self._lines.rest()


class RawAgent(Conversation):
    """
    A scripted agent of its own process, over pipes.
    """

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [*SCRIPTED_AGENT, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        super().__init__(self.process.stdin.write, self.process.stdout.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end(self.process)

    def close_input(self) -> None:
        """
        The end of its input.
        """
        assert self.process.stdin is not None
        self.process.stdin.close()

    def status(self) -> int:
        """
        Wait for its exit.
        """
        return self.process.wait(SECONDS)


class ListeningAgent:
    """
    A scripted agent that serves endpoints.

    @ivar endpoints: where it says that it listens.
    """

    def __init__(self, *listen: str) -> None:
        words = [word for each in listen for word in ("--listen", each)]
        self.process = subprocess.Popen(
            [*SCRIPTED_AGENT, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stderr is not None
        lines = Lines(self.process.stderr.fileno())
        self.endpoints = []
        for _ in listen:
            line = lines.next()
            assert line is not None
            assert line.startswith(b"listening on "), line
            self.endpoints.append(line.decode().removeprefix("listening on "))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end(self.process)

    def connect(self, endpoint: str) -> tuple[socket.socket, Conversation]:
        """
        A conversation over a plain socket.
        """
        scheme, *where = endpoint.split(":")
        connection = socket.socket(socket.AF_UNIX if scheme == "unix" else socket.AF_INET)
        connection.connect(where[0] if scheme == "unix" else (where[0], int(where[1])))
        return connection, Conversation(connection.sendall, connection.fileno())


def end(process: subprocess.Popen[bytes]) -> None:
    """
    Leave nothing of a process.
    """
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait(SECONDS)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def run(words: Sequence[str], seconds: float = SECONDS, **options: Any) -> subprocess.CompletedProcess[str]:
    """
    Run a program to its end.
    """
    return subprocess.run(
        list(words), capture_output=True, text=True, timeout=seconds, check=False, **{"input": "", **options}
    )
