"""
The answers to a JSON-RPC batch, which go out together once the last of them is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def is_meant(entries: list[Any]) -> bool:
    """
    Whether an array was meant as a batch, rather than printed by a program that happens to print JSON.
    """
    return any(isinstance(each, dict) and "jsonrpc" in each for each in entries)


class Batch:
    """
    One batch of the peer's.

    @param send: sends the array of answers.  It is not called where there are none, as for notifications.
    """

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send
        self._answers: list[bytes] = []
        self._open = 1  # the array itself, until all of it was looked at

    def add(self, answer: bytes) -> None:
        """
        What was refused has its answer at once.
        """
        self._answers.append(answer)

    def expect(self) -> None:
        """
        A request of the batch was taken on, and L{answered} or L{done} will be called for it once.
        """
        self._open += 1

    def answered(self, answer: bytes) -> None:
        """
        One that was expected.
        """
        self.add(answer)
        self.done()

    def done(self) -> None:
        """
        One is over.
        """
        self._open -= 1
        if not self._open and self._answers:
            self._send(b"[" + b",".join(self._answers) + b"]")
