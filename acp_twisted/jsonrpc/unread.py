"""
What arrives and is no message that can be read: how much of it there was, and what is said to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from acp_twisted.errors import InvalidRequest
from acp_twisted.jsonrpc.framing import HEAD_BYTES
from acp_twisted.jsonrpc.messages import Malformed, Response, classify, error_bytes, id_from_tail, read_head
from acp_twisted.jsonrpc.outgoing import Outgoing
from acp_twisted.limits import Limits

_log = Logger()


class Unread:
    """
    Counts what could not be read, and answers where somebody waits for an answer.

    @ivar stray: how many lines were no messages at all.
    @ivar broken: how many were meant as messages, and too long or too broken to be read.
    @ivar answers_noise: whether bytes that are no message are answered with an error without id.
    @param outgoing: our own requests, to which something broken may be the answer.
    """

    def __init__(self, limits: Limits, outgoing: Outgoing, answers_noise: bool) -> None:
        self._limits = limits
        self._outgoing = outgoing
        self.answers_noise = answers_noise
        self.stray = 0
        self.broken = 0

    def oversized(self, head: bytes, size: int, tail: bytes, send: Callable[[bytes], object]) -> None:
        """
        A message was over the limit.
        """
        limit = self._limits.max_message_bytes
        _log.warn("a message of {size} bytes is over the limit of {limit}", size=size, limit=limit)
        self.broken += 1
        known = read_head(head)
        if known.is_response:
            self._outgoing.answered_too_large(known.id if known.has_id else id_from_tail(tail), size)
        elif known.has_id or self.answers_noise:
            data = {"maxMessageBytes": limit, "size": size}
            send(error_bytes(known.id, InvalidRequest("Message too large", data)))

    def too_many(self, entries: list[Any], size: int, send: Callable[[bytes], object]) -> None:
        """
        A batch was over the limit.  It was meant as one, so that a client says so, too; and the answers in it count.
        """
        limit = self._limits.max_batch_entries
        _log.warn("a batch of {entries} messages is over the limit of {limit}", entries=len(entries), limit=limit)
        self.broken += 1
        self.answers(entries, size)
        data = {"maxBatchEntries": limit, "entries": len(entries)}
        send(error_bytes(None, InvalidRequest("Batch too large", data)))

    def answers(self, entries: list[Any], size: int) -> None:
        """
        Of an array that is not taken, or not whole, the answers count: somebody waits for them here.
        """
        for each in entries:
            message = classify(each, size // len(entries))
            if isinstance(message, Response):
                self._outgoing.answered(message, size // len(entries))

    def malformed(self, bad: Malformed, line: bytes, send: Callable[[bytes], object]) -> None:
        """
        Something was no message.

        @param line: its bytes, where they are a line of their own.
        @param send: takes the answer, if there is one.
        """
        if not bad.is_json:
            self._no_json(bad, line, send)
        if bad.stray:
            self.stray += 1
        else:
            self.broken += 1
        if not bad.stray or self.stray == 1:
            _log.warn("received what is no message: {error} {reason}", error=bad.error, reason=bad.error.data)
        if (bad.has_id and not bad.stray) or (self.answers_noise and not bad.is_notification):
            send(error_bytes(bad.id, bad.error))

    def _no_json(self, bad: Malformed, line: bytes, send: Callable[[bytes], object]) -> None:
        """
        A line that is no JSON may begin as a message all the same: a number that is not finite or half of a surrogate
        pair stands in its middle, say.  Somebody waits for what it was: our caller for an answer; and for an answer to
        a request the peer, whom a client, unlike an agent, writes no error without id.
        """
        head = line[:HEAD_BYTES]
        if b'"jsonrpc"' not in head:
            return
        self.broken += 1
        known = read_head(head)
        if not known.has_id:
            return
        if known.is_response:
            self._outgoing.answered(Response(known.id, problem="the answer is not JSON"), len(line))
        elif known.method is not None and not self.answers_noise:
            send(error_bytes(known.id, bad.error))
