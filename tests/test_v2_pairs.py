"""Our clients of version 1, of version 2 and of both, with our agents of each kind, in memory."""

from __future__ import annotations

from typing import Any

import pytest
from halves_v2 import Watched
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from acp_twisted import AcpAgent, AcpClient, CancellationSignal
from acp_twisted.client.permissions import first_allow
from acp_twisted.errors import AcpError, AcpVersionError
from acp_twisted.transports.memory import MemoryLink

VERSIONS = [(1,), (2,), (1, 2)]


class Pair:
    """
    A client and an agent on one link; one prompt handler, one update handler and one permission policy serve both
    versions.

    @ivar outcome: what C{initialize} came to.
    @ivar told: the texts that the client was told, in whichever version's words.
    """

    def __init__(self, client: tuple[int, ...] | None, agent: tuple[int, ...] | None) -> None:
        self.clock = Clock()
        self.told: list[str] = []
        self.contexts: list[Any] = []
        building = AcpAgent.builder().prompt_handler(self._prompt)
        made: Any = building.build() if agent is None else building.protocol_versions(*agent).build()
        asking = AcpClient.builder().session_update_handler(self._updated).request_permission_handler(first_allow)
        ours: Any = asking.build() if client is None else asking.protocol_versions(*client).build()
        link = ours.connection(self.clock)
        self.link = MemoryLink(link.peer, made.connect(self.clock).peer, self.clock)
        outcome = Watched(link.initialize()).value
        self.outcome: Any = link if client is None and not isinstance(outcome, AcpError) else outcome

    async def _prompt(self, request: Any, context: Any) -> str:
        self.contexts.append(context)
        text = "".join(block.text for block in request.prompt)
        if text == "wait":
            await Deferred()
        if text == "ask":
            call = context.schema.ToolCallUpdate(tool_call_id="t", title="Do it")
            option = context.schema.PermissionOption(option_id="y", name="Yes", kind="allow_once")
            text = (await context.request_permission(call, [option])).outcome.option_id
        await context.send_message(text)
        return "end_turn"

    def _updated(self, notification: Any) -> None:
        if type(notification.update).__name__ == "AgentMessageChunk":
            self.told.append(notification.update.content.text)

    def open(self) -> Any:
        """A session."""
        return Watched(self.outcome.new_session("/w")).value


@pytest.mark.parametrize("agent", [*VERSIONS, None], ids=str)
@pytest.mark.parametrize("client", [*VERSIONS, None], ids=str)
def test_every_pair(client: tuple[int, ...] | None, agent: tuple[int, ...] | None) -> None:
    """2.7: the highest version that both speak, or a client that leaves; halves that know of no versions speak 1."""
    common = set(client or (1,)) & set(agent or (1,))
    pair = Pair(client, agent)
    if not common:
        assert isinstance(pair.outcome, AcpError)
        if client is not None:
            assert isinstance(pair.outcome, AcpVersionError)
            assert pair.link.a.closed
        return
    assert pair.outcome.protocol_version == max(common)
    session = pair.open()
    for text in ("hello", "ask"):
        ended = Watched(Deferred.fromCoroutine(_awaited(session.prompt(text))))
        assert ended.value.stop_reason == "end_turn"
    assert pair.told == ["hello", "y"]


async def _awaited(turn: Any) -> Any:
    return await turn


@pytest.mark.parametrize("version", [1, 2])
def test_one_signal_stops_either(version: int) -> None:
    """J, V2D5: whichever version is spoken, the caller gets cancelled, and the handler sees it."""
    pair = Pair((2, 1), (version,))
    stop = CancellationSignal()
    ended = Watched(Deferred.fromCoroutine(_awaited(pair.open().prompt("wait", stop))))
    stop.cancel()
    [context] = pair.contexts
    assert context.is_cancelled
    pair.clock.advance(60)  # the handler is deaf to it until its grace period is over
    assert ended.value.stop_reason == "cancelled"


def test_a_prompt_after_the_cancellation_is_worked_on() -> None:
    """V2N9: session/cancel and the next prompt, both in one go; the held ones before it are dropped."""
    pair = Pair((2,), (2,))
    session = pair.open()
    first, held = session.prompt("wait"), session.prompt("held")
    session.cancel()
    after = session.prompt("after")
    ended = [Watched(each.idle) for each in (first, held, after)]
    pair.clock.advance(60)
    assert [each.value.stop_reason for each in ended] == ["cancelled", "cancelled", "end_turn"]
    assert pair.told == ["after"]
