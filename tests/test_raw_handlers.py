"""
Handlers that are given a method as it came, past all types.
"""

from __future__ import annotations

from typing import Any

import pytest
from halves import AgentHalf, cancel_request
from twisted.internet.defer import Deferred

from acp_twisted import AcpAgent, AcpClient
from acp_twisted.jsonrpc.incoming import IncomingRequest
from acp_twisted.jsonrpc.messages import Notification
from acp_twisted.schema import v1


def agent_with(handler: Any) -> AgentHalf:
    """An agent that takes C{mcp/message} as it comes."""
    builder = AcpAgent.builder().prompt_handler(lambda _: v1.PromptResponse(stop_reason="end_turn"))
    return AgentHalf(builder.raw_handler("mcp/message", handler).build())


def test_requests_and_notifications_come_as_they_are() -> None:
    """Whatever the params are, and whether the protocol has them otherwise typed; the result goes out as it is."""
    seen: list[Any] = []

    def handler(message: object) -> object:
        seen.append(message)
        return {"any": ["json"]}

    half = agent_with(handler)
    half.send({"id": 5, "method": "mcp/message", "params": {"odd": 1}}, {"method": "mcp/message", "params": [2]})
    assert half.take() == [{"id": 5, "result": {"any": ["json"]}}]
    request, notification = seen
    assert isinstance(request, IncomingRequest)
    assert request.params == {"odd": 1}
    assert isinstance(notification, Notification)
    assert notification.params == [2]


def test_they_are_cancelled_as_others() -> None:
    """The handler's Deferred is cancelled, and the request is answered -32800 (X3, X5)."""
    stopped: list[str] = []
    half = agent_with(lambda _: Deferred(lambda _: stopped.append("work")))
    half.send({"id": 5, "method": "mcp/message"})
    half.send(cancel_request(5))
    assert stopped == ["work"]
    assert half.answers(5)[0]["error"]["code"] == -32800


def test_a_method_has_one_handler() -> None:
    """Raw or not."""
    builder = AcpClient.builder().read_text_file_handler(lambda _: None)
    with pytest.raises(ValueError, match="already"):
        builder.raw_handler("fs/read_text_file", lambda _: None)
