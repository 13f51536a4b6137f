"""Our clients of version 1, of version 2 and of both, with our agents of each kind, in memory."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from acp_twisted import AcpAgent, AcpClient, CancellationSignal
from acp_twisted.client.permissions import first_allow
from acp_twisted.errors import AcpError, AcpVersionError
from acp_twisted.testing import AnyPair, connected_pair, failure_of, success_result

VERSIONS = [(1,), (2,), (1, 2)]


class Cast:
    """
    A client and an agent; one prompt handler, one update handler and one permission policy serve both versions.

    @ivar pair: the two, before anything was said.
    @ivar told: the texts that the client was told, in whichever version's words.
    """

    def __init__(self, client: tuple[int, ...] | None, agent: tuple[int, ...] | None) -> None:
        self.told: list[str] = []
        self.contexts: list[Any] = []
        asking = AcpClient.builder().session_update_handler(self._updated).request_permission_handler(first_allow)
        building = AcpAgent.builder().prompt_handler(self._prompt)
        self.pair: AnyPair = connected_pair(_built(building, agent), _built(asking, client), initialize=False)

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


def _built(builder: Any, versions: tuple[int, ...] | None) -> Any:
    return builder.build() if versions is None else builder.protocol_versions(*versions).build()


@pytest.mark.parametrize("agent", [*VERSIONS, None], ids=str)
@pytest.mark.parametrize("client", [*VERSIONS, None], ids=str)
def test_every_pair(client: tuple[int, ...] | None, agent: tuple[int, ...] | None) -> None:
    """2.7: the highest version that both speak, or a client that leaves; halves that know of no versions speak 1."""
    common = set(client or (1,)) & set(agent or (1,))
    cast = Cast(client, agent)
    if not common:
        error = failure_of(cast.pair.client.initialize(), AcpError)
        if client is not None:
            assert isinstance(error, AcpVersionError)
            assert cast.pair.link.a.closed
        return
    with cast.pair as pair:
        assert pair.initialize().protocol_version == pair.protocol_version == max(common)
        for text in ("hello", "ask"):
            assert pair.answer(text).stop_reason == "end_turn"
    assert cast.told == ["hello", "y"]


@pytest.mark.parametrize("version", [1, 2])
def test_one_signal_stops_either(version: int) -> None:
    """J, V2D5: whichever version is spoken, the caller gets cancelled, and the handler sees it."""
    cast = Cast((2, 1), (version,))
    stop = CancellationSignal()
    with cast.pair as pair:
        pair.initialize()
        ended = pair.prompt("wait", stop=stop)
        stop.cancel()
        [context] = cast.contexts
        assert context.is_cancelled
        pair.advance(60)  # the handler is deaf to it until its grace period is over
        assert success_result(ended).stop_reason == "cancelled"


def test_a_prompt_after_the_cancellation_is_worked_on() -> None:
    """V2N9: session/cancel and the next prompt, both in one go; the held ones before it are dropped."""
    cast = Cast((2,), (2,))
    with cast.pair as pair:
        pair.initialize()
        prompts = [pair.prompt("wait"), pair.prompt("held")]
        pair.session.cancel()
        prompts.append(pair.prompt("after"))
        pair.advance(60)
        assert [success_result(each).stop_reason for each in prompts] == ["cancelled", "cancelled", "end_turn"]
    assert cast.told == ["after"]
