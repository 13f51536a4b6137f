"""
Extensions, C{_meta}, the cancellation of requests, and what carries messages: what the protocol requires of them.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import fields_dict
from twisted.internet.defer import Deferred
from zope.interface.verify import verifyClass

from acp_twisted import AcpAgent, AcpClient, MethodNotFound, PromptContext, RequestCancelled
from acp_twisted.interfaces import IMessageTransport
from acp_twisted.schema import v1
from acp_twisted.schema.converter import structure, unstructure
from acp_twisted.testing import (
    AgentOnWire,
    ClientOnWire,
    RecordingTransport,
    ScriptedAgent,
    connected_pair,
    failure_of,
    no_result,
    requested,
    strategies,
    success_result,
)
from acp_twisted.transports.memory import MemoryTransport

TRACE = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "a=b",
    "baggage": "k=v",
}
ROOT = Path(__file__).resolve().parent.parent


# ---- extensions


def test_custom_requests_and_their_answers() -> None:
    """EXT-CUSTOM-REQUESTS-MAY, EXT-RESPOND-TO-CUSTOM-REQUEST: both ways, answered with the id of the request."""
    agent = ScriptedAgent()
    agent.expect_ext("_x/to_agent", {"a": 1}).answers({"b": 2})
    agent.expect_prompt().asks(lambda context: context.ext_request("_x/to_client", [3]), [4])
    client = AcpClient.builder().ext_request_handler("_x/to_client", lambda params: [params[0] + 1]).build()
    with connected_pair(agent, client) as pair:
        assert success_result(pair.client.ext_request("_x/to_agent", {"a": 1})) == {"b": 2}
        pair.answer()
        for name in ("_x/to_agent", "_x/to_client"):
            [asked] = pair.transcript.select(requested(name))
            assert [entry.kind for entry in pair.transcript.by_id(asked.id, sender=asked.sender)] == [
                "request",
                "result",
            ]


def test_unknown_methods() -> None:
    """EXT-UNKNOWN-METHOD-NOT-FOUND, EXT-IGNORE-UNKNOWN-NOTIFICATIONS: -32601, and nothing; the connection goes on."""
    agent = AgentOnWire(ScriptedAgent())
    client = ClientOnWire(AcpClient.builder().build())
    for half in (agent, client):
        half.notify("_x/nobody", {})
        half.notify("nobody/knows", {})
        half.notify("$/nobody", {})
        assert half.received == []
        assert half.ask("_x/nobody", {})["error"]["code"] == MethodNotFound.CODE
        assert half.ask("nobody/knows", {})["error"]["code"] == MethodNotFound.CODE


def test_nothing_custom_stands_at_the_root() -> None:
    """EXT-NO-ROOT-CUSTOM-FIELDS: there is no place for it in the types, and unknown members are not passed on."""
    with pytest.raises(TypeError):
        v1.PromptResponse(stop_reason="end_turn", mine=1)  # type: ignore[call-arg]
    read = structure({"stopReason": "end_turn", "mine": 1}, v1.PromptResponse)
    assert unstructure(read) == {"stopReason": "end_turn"}


def test_every_type_has_a_place_for_meta() -> None:
    """EXT-META-FOR-CUSTOM-CAPABILITIES: capability objects above all, and what is in it is what was put there."""
    names = [kind.__name__ for kind in strategies.types() if "Capabilit" in kind.__name__]
    assert len(names) > 20
    for name in names:
        assert "meta" in fields_dict(getattr(v1, name)), name
    mine = {"example.com/zed": {"level": 3}}
    agent = (
        AcpAgent.builder().prompt_handler(lambda _: None).agent_capabilities(v1.AgentCapabilities(meta=mine)).build()
    )
    client = AcpClient.builder().client_capabilities(v1.ClientCapabilities(meta=mine)).build()
    with connected_pair(agent, client) as pair:
        assert pair.client.agent_capabilities.meta == mine
        assert pair.agent.client_capabilities.meta == mine


def test_trace_keys_pass_through() -> None:
    """EXT-META-TRACE-KEYS-RESERVED: the library never touches them, either way."""
    seen: list[Any] = []

    def prompt(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        seen.append(request.meta)
        return v1.PromptResponse(stop_reason="end_turn", meta=request.meta)

    with connected_pair(AcpAgent.builder().prompt_handler(prompt).build()) as pair:
        assert pair.answer("hi", meta=TRACE).meta == TRACE
    assert seen == [TRACE]


@pytest.mark.parametrize("meta", [None, {}, {"": None}, {"a": [1, {"b": "\u2028"}]}, {"jsonrpc": 1, "id": 2}])
def test_nothing_is_assumed_of_meta(meta: Any) -> None:
    """EXT-META-NO-ASSUMPTIONS: whatever an object holds is handed over as it is."""
    agent = AcpAgent.builder().prompt_handler(
        lambda request: v1.PromptResponse(stop_reason="end_turn", meta=request.meta)
    )
    wire = AgentOnWire(agent.build())
    session = wire.open_session()
    params = {"sessionId": session, "prompt": [], "_meta": meta}
    assert wire.ask("session/prompt", params)["result"].get("_meta") == meta


# ---- cancellation of requests


def test_what_a_cancellation_may_do() -> None:
    """
    CANCEL-REQUEST-MAY-CANCEL-ACTIVITY, CANCEL-REQUEST-MAY-FINISH-NOTIFICATIONS, CANCEL-REQUEST-MUST-RESPOND: the
    handler is stopped and with it what it asked for, what it said before is sent, and there is one answer.
    """
    agent = ScriptedAgent()
    agent.expect_prompt().says("before").asks(lambda context: context.ext_request("_x/slow"))
    stopped: list[str] = []

    def slow(_: Any) -> Deferred[Any]:
        return Deferred(lambda _: stopped.append("nested"))

    client = AcpClient.builder().ext_request_handler("_x/slow", slow).build()
    with connected_pair(agent, client) as pair:
        turn = pair.prompt()
        turn.response.cancel()
        failure_of(turn.response, RequestCancelled)
        assert stopped == ["nested"]
        assert pair.said == "before"
        pair.transcript.assert_each_answered_once()


def test_a_caller_may_wait_for_the_answer() -> None:
    """CANCEL-CALLER-MAY-WAIT: with C{wait=True} the Deferred ends with the peer's own answer."""
    wire = ClientOnWire(AcpClient.builder().build())
    call = wire.connection.ext_request("_x/slow", wait=True)
    number = wire.last_id()
    call.cancel()
    no_result(call)
    wire.respond({"half": True}, number)
    assert success_result(call) == {"half": True}


def test_a_cancellation_from_within_is_answered_as_one() -> None:
    """CANCEL-INTERNAL-SHOULD: a handler that is cancelled by its own side answers -32800."""
    held: list[Deferred[Any]] = []

    def hold(_: Any) -> Deferred[Any]:
        held.append(Deferred())
        return held[-1]

    agent = AcpAgent.builder().prompt_handler(lambda _: None).ext_request_handler("_x/hold", hold).build()
    wire = AgentOnWire(agent)
    number = wire.request("_x/hold")
    held[0].cancel()
    assert wire.answer_to(number)["error"]["code"] == RequestCancelled.CODE


# ---- transports


NOISY = """
import os
from acp_twisted import AcpAgent, run_agent

def noise(params):
    print("printed")
    os.system("echo of a child")
    return params

run_agent(AcpAgent.builder().prompt_handler(lambda _: None).ext_request_handler("_x/noise", noise).build())
"""


def test_stdio_carries_lines_of_utf8_and_nothing_else() -> None:
    """
    TRANSPORT-STDIO-SHOULD, TRANSPORT-UTF8, TRANSPORT-STDIO-NEWLINE-DELIMITED, TRANSPORT-AGENT-STDOUT-ONLY-ACP,
    TRANSPORT-AGENT-STDERR-MAY: one message to a line, whatever line ends are within it, and what a program prints, or
    one that it starts, goes to its standard error.
    """
    text = "gr\u00fc\u00df\u2028 \U0001f600\n\r\n"
    asked = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"id": 2, "method": "_x/noise", "params": {"t": text}},
    ]
    said = "".join(json.dumps({"jsonrpc": "2.0", **each}, ensure_ascii=False) + "\n" for each in asked)
    done = subprocess.run(
        [sys.executable, "-c", NOISY], input=said.encode("utf-8"), capture_output=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr.split()) == (0, [b"printed", b"of", b"a", b"child"])
    lines = done.stdout.decode("utf-8").split("\n")
    assert lines.pop() == ""
    assert [json.loads(line)["id"] for line in lines] == [1, 2]
    assert json.loads(lines[1])["result"] == {"t": text}


def test_an_embedded_newline_never_leaves() -> None:
    """TRANSPORT-STDIO-NEWLINE-DELIMITED, TRANSPORT-UTF8: what is sent is one line, whatever its texts hold."""
    wire = ClientOnWire(AcpClient.builder().build())
    wire.connection.ext_request("_x/ask", {"t": "a\nb\r\n\u2028\u0085"})
    [sent] = wire.link.sent("a>b")[-1:]
    assert b"\n" not in sent
    assert b"\r" not in sent
    assert json.loads(sent.decode("utf-8"))["params"]["t"] == "a\nb\r\n\u2028\u0085"


def test_any_transport_will_do() -> None:
    """
    TRANSPORT-CUSTOM-MAY, TRANSPORT-CUSTOM-PRESERVE-FORMAT-AND-LIFECYCLE: a transport is four methods of whole messages;
    over another one the same messages go in the same order.
    """
    for kind in (MemoryTransport, RecordingTransport):
        assert verifyClass(IMessageTransport, kind)
    agent = ScriptedAgent()
    agent.expect_prompt().says("hi")
    with connected_pair(agent) as pair:
        pair.answer()
        pair.transcript.assert_order("initialize", "session/new", "session/prompt", "session/update")


def transports() -> set[str]:
    """The classes of the library that carry messages, by name."""
    found = set()
    for path in (ROOT / "acp_twisted" / "transports").rglob("*.py"):
        classes = [
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef)
        ]
        for node in classes:
            if any("IMessageTransport" in ast.unparse(each) for each in node.decorator_list):
                found.add(node.name)
    return found


def test_a_transport_is_documented() -> None:
    """TRANSPORT-CUSTOM-DOCUMENT: the manual says how messages go over each of them."""
    page = (ROOT / "docs" / "reference" / "transports.rst").read_text(encoding="utf-8")
    assert {name for name in transports() if f"``{name}``" not in page} == set()
    assert {"MemoryTransport", "MessageProtocol"} <= transports()
