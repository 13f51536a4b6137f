"""
The answers to a JSON-RPC batch, which go out together once the last of them is there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from acp_twisted.limits import Limits


def is_meant(entries: list[Any]) -> bool:
    """
    Whether an array was meant as a batch, rather than printed by a program that happens to print JSON.
    """
    return any(isinstance(each, dict) and "jsonrpc" in each for each in entries)


class Batch:
    """
    One batch of the peer's.

    @param send: sends the array of answers.  It is not called where there are none, as for notifications.
    @param kept: told how many bytes more are kept here until then; fewer is a negative number.
    """

    def __init__(self, send: Callable[[bytes], object], kept: Callable[[int], object]) -> None:
        self._send = send
        self._kept = kept
        self._answers: list[bytes] = []
        self._open = 1  # the array itself, until all of it was looked at

    def add(self, answer: bytes) -> None:
        """
        What was refused has its answer at once.
        """
        self._answers.append(answer)
        self._kept(len(answer))

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
            self._kept(-sum(map(len, self._answers)))
            self._send(b"[" + b",".join(self._answers) + b"]")


class Batches:
    """
    Those of one connection that are not answered yet.

    @param send: sends an array of answers.
    @param cut: ends the connection, for the reason given, when more is kept than may be unsent: an answer that waits
        for the others of its batch is output, too (rule 6).
    """

    def __init__(self, limits: Limits, send: Callable[[bytes], object], cut: Callable[[str], object]) -> None:
        self._limit = limits.max_unsent_bytes
        self._send = send
        self._cut = cut
        self._of: dict[Hashable, Batch] = {}
        self._bytes = 0

    def begin(self) -> Batch:
        """
        One begins.
        """
        return Batch(self._send, self._kept)

    def expect(self, key: Hashable, batch: Batch) -> None:
        """
        A request of C{batch} was taken on.
        """
        batch.expect()
        self._of[key] = batch

    def take(self, key: Hashable) -> Batch | None:
        """
        A request is answered.

        @return: the batch that it came in, if it came in one.
        """
        return self._of.pop(key, None)

    def clear(self) -> None:
        """
        The link is gone, and none will be answered.
        """
        self._of.clear()

    def _kept(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limit:
            waiting = f"{self._bytes} bytes of answers wait for the rest of their batches"
            self._cut(f"{waiting}, Limits.max_unsent_bytes is {self._limit}")
