"""
A proxy in conversations of either version: which handler a message has, and which classes it is read into.
"""

from __future__ import annotations

from typing import Any

import pytest
from chain_parts import RawChain
from twisted.logger import LogLevel, capturedLogs, formatEvent

from acp_twisted import AcpProxy
from acp_twisted.proxy.context import PASS, ProxyContext
from acp_twisted.schema import v1, v2, v2_unstable
from acp_twisted.schema.vocabulary import V1, vocabulary, vocabulary_of

UPDATE = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "hi"}}
PROMPT = {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]}


def conversation(proxy: AcpProxy, version: Any) -> RawChain:
    """A chain whose agent answers C{initialize} with that."""
    chain = RawChain([proxy], initialize=False)
    chain.client.send({"id": "i", "method": "initialize", "params": {"protocolVersion": 2}})
    chain.agent.answer({"protocolVersion": version})
    chain.agent.take()
    assert [each["id"] for each in chain.client.take()] == ["i"]
    return chain


def update(chain: RawChain) -> None:
    """The agent says something."""
    chain.agent.send({"method": "session/update", "params": {"sessionId": "s1", "update": UPDATE}})


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("first", [v1.SessionNotification, v2.UpdateSessionNotification])
def test_each_version_has_a_handler_of_its_own(version: int, first: type) -> None:
    """The agent's answer to initialize decides; in which order they were set does not."""
    seen: list[Any] = []

    def handle(notification: Any) -> object:
        seen.append(notification)
        return PASS

    kinds: dict[int, type] = {1: v1.SessionNotification, 2: v2.UpdateSessionNotification}
    builder = AcpProxy.builder()
    for kind in sorted(kinds.values(), key=lambda kind: kind is not first):
        builder.agent_notification_handler(kind, handle)
    chain = conversation(builder.build(), version)
    update(chain)
    assert [type(each) for each in seen] == [kinds[version]]
    assert [each["params"]["update"] for each in chain.client.take()] == [UPDATE]


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_name_stands_for_is_read_in_the_words_that_are_spoken(version: int) -> None:
    """Requests, their results, and notifications; the result of version 2 would be none of version 1."""
    seen: list[type] = []

    async def prompt(request: Any, context: ProxyContext) -> Any:
        response = await context.forward(request)
        seen.extend((type(request), type(response)))
        return response

    chain = conversation(AcpProxy.builder().client_request_handler("session/prompt", prompt).build(), version)
    chain.client.send({"id": 1, "method": "session/prompt", "params": PROMPT})
    result = {"stopReason": "end_turn"} if version == 1 else {"messageId": "m"}
    chain.agent.answer(result)
    assert chain.client.answers(1) == [{"result": result}]
    words = {1: v1, 2: v2}[version]
    assert seen == [words.PromptRequest, words.PromptResponse]


@pytest.mark.parametrize("version", [None, "2", True, 0, 3])
def test_a_version_that_nobody_knows_changes_nothing(version: Any) -> None:
    """Then names go on to stand for what they stood for."""
    seen: list[Any] = []
    chain = conversation(AcpProxy.builder().agent_notification_handler("session/update", seen.append).build(), version)
    update(chain)
    assert [type(each) for each in seen] == [v1.SessionNotification]


def test_a_refused_initialize_decides_nothing() -> None:
    """The one after it does."""
    seen: list[Any] = []
    proxy = AcpProxy.builder().agent_notification_handler("session/update", seen.append).build()
    chain = RawChain([proxy], initialize=False)
    chain.client.send({"id": 1, "method": "initialize", "params": {"protocolVersion": 2}})
    chain.agent.fail({"code": -32022, "message": "no", "data": {"protocolVersion": 2}})
    update(chain)
    chain.client.send({"id": 2, "method": "initialize", "params": {"protocolVersion": 2}})
    chain.agent.answer({"protocolVersion": 2})
    update(chain)
    assert [type(each) for each in seen] == [v1.SessionNotification, v2.UpdateSessionNotification]


def test_what_the_client_answers_decides_nothing() -> None:
    """An agent that asks a client to initialize itself does not choose who handles its messages by that."""
    seen: list[Any] = []
    chain = conversation(AcpProxy.builder().agent_notification_handler("session/update", seen.append).build(), 1)
    chain.agent.send({"id": 7, "method": "initialize", "params": {"protocolVersion": 2}})
    chain.client.answer({"protocolVersion": 2})
    update(chain)
    assert [type(each) for each in seen] == [v1.SessionNotification]


def test_a_handler_that_looks_at_initialize_does_not_hide_it() -> None:
    """The agent's answer counts, whatever way it takes."""
    seen: list[Any] = []

    async def look(params: Any, context: ProxyContext) -> Any:
        return {**await context.forward(), "_meta": {"seen": True}}

    builder = AcpProxy.builder().client_request_handler("initialize", look, raw=True)
    chain = conversation(builder.agent_notification_handler("session/update", seen.append).build(), 2)
    update(chain)
    assert [type(each) for each in seen] == [v2.UpdateSessionNotification]


def test_nothing_gets_past_a_handler_by_being_of_another_version() -> None:
    """A handler for one version's class alone has every message of its method, and what it can't be given goes no
    further; the log says so beforehand."""
    seen: list[Any] = []
    builder = AcpProxy.builder().agent_notification_handler(v2.UpdateSessionNotification, seen.append)
    with capturedLogs() as events:
        chain = conversation(builder.client_request_handler(v1.PromptRequest, seen.append).build(), 1)
    warned = [formatEvent(each) for each in events if each.get("log_level") == LogLevel.warn]
    assert warned == ["the proxy proxy has no handler for session/update in version 1, which is spoken"]
    update(chain)
    chain.agent.send({"method": "session/update", "params": {"sessionId": "s1", "update": 5}})
    assert [type(each) for each in seen] == [v2.UpdateSessionNotification]
    assert chain.client.received == []
    chain = conversation(builder.build(), 2)
    chain.client.send({"id": 1, "method": "session/prompt", "params": PROMPT})
    assert type(seen[-1]) is v1.PromptRequest
    assert chain.agent.received == []


def test_the_version_can_be_said_beforehand() -> None:
    """Then it is what the proxy makes of everything, and the classes of the other one are none of its messages."""
    seen: list[Any] = []
    builder = AcpProxy.builder().protocol(vocabulary(2))
    with pytest.raises(TypeError, match="SessionNotification is no notification"):
        builder.agent_notification_handler(v1.SessionNotification, seen.append)
    chain = conversation(builder.agent_notification_handler("session/update", seen.append).build(), 1)
    update(chain)
    assert [type(each) for each in seen] == [v2.UpdateSessionNotification]


def test_both_sides_are_told_in_the_words_of_either_version() -> None:
    """An object's class says of which version it is."""
    contexts: list[ProxyContext] = []
    builder = AcpProxy.builder().client_notification_handler("_x/go", lambda _, context: contexts.append(context))
    chain = conversation(builder.build(), 2)
    chain.client.send({"method": "_x/go"})
    (context,) = contexts
    chunk = v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text="hi"))
    context.client.notify(v2.UpdateSessionNotification(session_id="s1", update=chunk))
    assert [each["params"]["update"] for each in chain.client.take()] == [UPDATE]
    results: list[Any] = []
    block = v2.TextContent(text="hi")
    context.agent.call(v2.PromptRequest(session_id="s1", prompt=[block])).addBoth(results.append)
    chain.agent.answer({"messageId": "m"})
    context.agent.call(v1.ListSessionsRequest()).addBoth(results.append)
    chain.agent.answer({"sessions": []})
    assert [type(each) for each in results] == [v2.PromptResponse, v1.ListSessionsResponse]
    with pytest.raises(TypeError, match="TextContent is no request"):
        context.agent.call(block)


def test_one_handler_for_each_method_and_version() -> None:
    """A name stands for both versions."""
    builder = AcpProxy.builder().client_request_handler(v1.PromptRequest, lambda _: PASS)
    builder.client_request_handler(v2.PromptRequest, lambda _: PASS)
    for again in (v1.PromptRequest, v2.PromptRequest, "session/prompt"):
        with pytest.raises(ValueError, match="session/prompt has a handler already"):
            builder.client_request_handler(again, lambda _: PASS)
    named = AcpProxy.builder().client_request_handler("session/prompt", lambda _: PASS)
    with pytest.raises(ValueError, match="session/prompt has a handler already"):
        named.client_request_handler(v2.PromptRequest, lambda _: PASS)


def test_the_words_that_a_class_is_of() -> None:
    """Those of what is not settled yet are of their version; other classes are of none."""

    class Mine(v2.PromptRequest):
        """Somebody's own."""

    assert vocabulary_of(v1.PromptRequest) is V1
    assert vocabulary_of(v2.PromptRequest) is vocabulary_of(Mine) is vocabulary(2)
    unsettled = [each for each in vars(v2_unstable).values() if getattr(each, "__module__", "") == v2_unstable.__name__]
    assert {vocabulary_of(each) for each in unsettled if isinstance(each, type)} == {vocabulary(2)}
    assert vocabulary_of(AcpProxy) is vocabulary_of(int) is None
