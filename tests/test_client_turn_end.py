"""
The end of a turn as its reader sees it: the updates end, and then the answer is there, whole.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from wire import RecordingTransport, failure, success

from acp_twisted import (
    AcpClient,
    AcpConnectionError,
    AcpError,
    ClientSession,
    PromptTurn,
    RequestCancelled,
    RequestTimedOut,
)


class Conversation:
    """
    A client with a session and nothing behind it.
    """

    def __init__(self, prompt_timeout: float = 0.0) -> None:
        self.clock = Clock()
        self.transport = RecordingTransport()
        connection = AcpClient.builder().prompt_timeout(prompt_timeout).build().connection(self.clock)
        self.peer = connection.peer
        self.peer.connection_made(self.transport)
        hello = connection.initialize()
        self.answer(b'"result":{"protocolVersion":1}')
        success(hello)
        opening = connection.new_session(cwd="/")
        self.answer(b'"result":{"sessionId":"s"}')
        self.session: ClientSession = success(opening)

    def answer(self, body: bytes) -> None:
        """
        Answer the last request.
        """
        number = [message["id"] for message in self.transport.sent if "id" in message][-1]
        self.peer.message_received(b'{"jsonrpc":"2.0","id":%d,%s}' % (number, body))


async def follow(turn: PromptTurn) -> str:
    """
    What the documentation shows: read the updates, then await the answer.
    """
    async for _ in turn.updates():
        pass
    return (await turn).stop_reason


ERROR = b'"error":{"code":-32055,"message":"m"}'


def test_an_error_is_raised_where_the_answer_is_awaited() -> None:
    """The reader is woken once the callbacks of the answer are through; an error can not be awaited in their midst."""
    conversation = Conversation()
    followed = Deferred.fromCoroutine(follow(conversation.session.prompt("x")))
    conversation.answer(ERROR)
    assert failure(followed, AcpError).code == -32055


def test_an_error_after_a_cancel_counts_as_cancelled() -> None:
    """B07: the reader gets what the answer was made of, not what it was."""
    conversation = Conversation()
    turn = conversation.session.prompt("x")
    followed = Deferred.fromCoroutine(follow(turn))
    turn.cancel()
    conversation.answer(ERROR)
    assert success(followed) == "cancelled"
    assert turn.error is not None


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (lambda conversation, turn: turn.response.cancel(), RequestCancelled),
        (lambda conversation, turn: conversation.clock.advance(5), RequestTimedOut),
        (lambda conversation, turn: conversation.peer.input_ended(), AcpConnectionError),
    ],
    ids=["given-up", "timed-out", "lost"],
)
def test_every_other_end_reaches_the_reader(
    end: Callable[[Conversation, PromptTurn], object], kind: type[AcpError]
) -> None:
    """Rule 1: whatever ends the call ends its reader, with the same error."""
    conversation = Conversation(prompt_timeout=5.0)
    turn = conversation.session.prompt("x")
    followed = Deferred.fromCoroutine(follow(turn))
    end(conversation, turn)
    failure(followed, kind)


def test_a_reader_may_prompt_again_at_once() -> None:
    """Rule 4: the next prompt sent after the end of the updates is not refused."""
    conversation = Conversation()

    async def twice() -> str:
        await follow(conversation.session.prompt("one"))
        return await follow(conversation.session.prompt("two"))

    followed = Deferred.fromCoroutine(twice())
    conversation.answer(b'"result":{"stopReason":"end_turn"}')
    conversation.answer(b'"result":{"stopReason":"refusal"}')
    assert success(followed) == "refusal"


def test_a_prompt_that_can_not_be_sent_ends_at_once() -> None:
    """On a link that is gone the reader finds the turn over."""
    conversation = Conversation()
    conversation.peer.input_ended()
    followed = Deferred.fromCoroutine(follow(conversation.session.prompt("x")))
    failure(followed, AcpConnectionError)
    assert conversation.session.turn is None
