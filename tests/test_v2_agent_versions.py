"""
Which version an agent speaks: agents of one version and of both, against every question that a client can ask.
"""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from agent_halves_v2 import INFO, AgentHalf, UnagreedHalf, builder, built
from halves import AgentHalf as FirstHalf
from test_agent_connection import ThreadlessClock
from twisted.internet.defer import CancelledError, Deferred

from acp_twisted import AcpAgent, PromptContext, SyncPromptContext
from acp_twisted.agent.blocking import SyncAgentConnection, blocking
from acp_twisted.agent.v2.agent import VersionedAgent
from acp_twisted.errors import InvalidParams, UnsupportedVersion
from acp_twisted.jsonrpc.cancellation import current_token
from acp_twisted.negotiation import choose, in_words_of, requested_version
from acp_twisted.schema import v1, v2
from acp_twisted.tap import load_agent
from acp_twisted.turn.result import TurnResult

# ---- the rules

VECTORS: list[tuple[tuple[int, ...], int, int | None]] = [
    ((1, 2), 1, 1),
    ((1, 2), 2, 2),
    ((1, 2), 3, 2),
    ((1, 2), 65535, 2),
    ((1, 2), 0, None),
    ((1,), 2, 1),
    ((1,), 1, 1),
    ((1,), 0, 1),
    ((2,), 2, 2),
    ((2,), 1, None),
    ((2,), 7, 2),
]


@pytest.mark.parametrize(("supported", "requested", "version"), VECTORS)
def test_which_version_is_chosen(supported: tuple[int, ...], requested: int, version: int | None) -> None:
    """
    2.7: the vectors: the highest that is not above what was asked for; what was asked for, or 1, of version 1 alone.
    """
    if version is not None:
        assert choose(supported, requested) == version
        return
    with pytest.raises(UnsupportedVersion) as caught:
        choose(supported, requested)
    assert caught.value.code == -32022
    assert caught.value.data == {"requested": requested, "supported": list(supported)}


@pytest.mark.parametrize(
    "params", [None, {}, {"protocolVersion": "2"}, {"protocolVersion": True}, {"protocolVersion": -1}]
)
def test_what_is_no_version_is_refused(params: Any) -> None:
    """
    8.2: a version is a whole number up to 65535.
    """
    with pytest.raises(InvalidParams):
        requested_version(params)
    assert requested_version({"protocolVersion": 2.0}) == 2


def test_what_is_carried_over_to_version_1() -> None:
    """
    2.7: authentication, elicitation and C{_meta}; settings that are on or off; never files or terminals.
    """
    params = {
        "protocolVersion": 2,
        "info": INFO,
        "capabilities": {"auth": {"terminal": {}}, "elicitation": {"form": {}}, "fs": {"readTextFile": True}},
        "_meta": {"a": 1},
    }
    assert in_words_of(1, params) == {
        "protocolVersion": 2,
        "clientInfo": INFO,
        "clientCapabilities": {
            "auth": {"terminal": True},
            "session": {"configOptions": {"boolean": {}}},
            "elicitation": {"form": {}},
        },
        "_meta": {"a": 1},
    }
    assert in_words_of(1, {"protocolVersion": 2, "info": 5}) == {"protocolVersion": 2}
    both = {"protocolVersion": 2, "info": INFO, "clientCapabilities": {"terminal": True}, "capabilities": {}}
    assert in_words_of(1, both)["clientCapabilities"] == {"terminal": True}


def test_what_a_client_of_a_later_version_says() -> None:
    """
    2.7: what does not fit is dropped, and one that does not say who it is is unknown.
    """
    unknown = {"name": "unknown", "version": "unknown"}
    assert in_words_of(2, {"protocolVersion": 3, "capabilities": 5}) == {"protocolVersion": 3, "info": unknown}
    params = {"protocolVersion": 3, "info": INFO, "capabilities": {"auth": {}}}
    assert in_words_of(2, params) == params


# ---- the agents


@pytest.mark.parametrize(("supported", "requested", "version"), [each for each in VECTORS if each[0] != (1,)])
def test_an_agent_answers_by_the_rules(supported: tuple[int, ...], requested: int, version: int | None) -> None:
    """
    2.7: in the words of the version that it chose, and an error leaves the connection open for another question.
    """
    half = UnagreedHalf(builder(None, *supported))
    answer = half.initialize(requested, info=INFO)
    if version is None:
        assert answer["error"] == {
            "code": -32022,
            "message": "Unsupported protocol version",
            "data": {"requested": requested, "supported": list(supported)},
        }
        answer = half.initialize(2, info=INFO)
        version = 2
    assert answer["result"]["protocolVersion"] == version
    assert ("info" in answer["result"]) == (version == 2)
    assert ("agentCapabilities" in answer["result"]) == (version == 1)


def test_an_agent_of_version_1_alone() -> None:
    """
    1.14: it answers with its own version, whatever was asked for, and it is the same agent as without any of this.
    """
    agent = builder(None, 1).build()
    assert type(agent) is AcpAgent
    half = FirstHalf(agent, opened=False)
    half.send({"id": 1, "method": "initialize", "params": {"protocolVersion": 2, "info": INFO}})
    [answer] = half.take()
    assert answer["result"]["protocolVersion"] == 1
    assert half.connection.client_capabilities == v1.ClientCapabilities()


def test_a_failed_initialize_may_be_sent_again() -> None:
    """
    2.7: also for the other version: the connection is nobody's until it succeeds.
    """
    outcomes: list[Any] = []

    def initialize(request: Any, connection: Any) -> Any:
        outcomes.append(Deferred())
        return outcomes[-1].addCallback(lambda _: connection.derived_answer(request))

    half = UnagreedHalf(builder(None, 1, 2).initialize_handler(initialize))
    half.send({"id": 1, "method": "initialize", "params": {"protocolVersion": 2, "info": INFO}})
    half.send({"id": 2, "method": "session/new", "params": {"cwd": "/"}})
    assert [each["error"]["code"] for each in half.take()] == [-32600]
    outcomes[0].errback(InvalidParams())
    half.take()
    half.send({"id": 3, "method": "session/new", "params": {"cwd": "/"}})
    assert [each["error"]["code"] for each in half.take()] == [-32600]
    half.send({"id": 4, "method": "initialize", "params": {"protocolVersion": 1}})
    outcomes[1].callback(None)
    assert half.take()[0]["result"]["protocolVersion"] == 1
    assert half.first.client_info is None


@pytest.mark.parametrize("late", ["fails", "succeeds"])
def test_a_cancelled_initialize_whose_handler_ends_late(late: str) -> None:
    """
    2.7, X5: the one that is sent after it counts, whatever becomes of the first; two at once are not answered.
    """
    cleaning: Deferred[None] = Deferred()
    first: Deferred[None] = Deferred()

    async def initialize(request: Any, connection: Any) -> Any:
        if not first.called:
            try:
                await first
            except CancelledError:
                await cleaning
        return connection.derived_answer(request)

    half = UnagreedHalf(builder(None, 1, 2).initialize_handler(initialize))
    half.send({"id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
    half.send({"id": 2, "method": "initialize", "params": {"protocolVersion": 1}})
    half.cancel_request(1)
    assert [(each["id"], each["error"]["code"]) for each in half.take()] == [(2, -32600), (1, -32800)]
    assert half.initialize(2, info=INFO)["result"]["protocolVersion"] == 2
    agreed = half.second
    if late == "fails":
        cleaning.errback(InvalidParams())
    else:
        cleaning.callback(None)
    assert half.second is agreed
    half.send({"id": 3, "method": "session/new", "params": {"cwd": "/w"}})
    [opened] = half.take()
    assert agreed.session_ids == (opened["result"]["sessionId"],)


def test_a_batch_is_one_error() -> None:
    """
    §0: an array is a single -32600 without an id, before and after initialize, and nothing in it is done.
    """
    half = UnagreedHalf(builder(None, 1, 2))
    for _ in range(2):
        half.link.b.send(b'[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2}}]')
        half.link.deliver_all()
        [answer] = half.take()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        half.initialize(2, info=INFO)


def test_one_prompt_handler_serves_both_versions() -> None:
    """
    The same function, with the same names in hand, on a connection of either version of one agent.
    """

    async def handler(request: Any, context: PromptContext) -> TurnResult:
        [block] = request.prompt
        assert isinstance(block, context.schema.TextContent)
        await context.send_thought("hm")
        await context.plan(["look"])
        async with context.tool_call("Look", kind="read") as call:
            await call.update(raw_output={"a": 1})
        await context.send_message(block.text.upper())
        return TurnResult("max_tokens", meta={"m": 1})

    made = builder(handler, 1, 2)
    kinds: dict[int, list[str]] = {}
    ends: dict[int, Any] = {}
    for version in (1, 2):
        half = UnagreedHalf(made)
        half.initialize(version, **({"info": INFO} if version == 2 else {}))
        half.send({"id": "n", "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}})
        [opened] = half.take()
        session = opened["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
        half.send({"id": 5, "method": "session/prompt", "params": prompt})
        messages = half.take()
        updates = [each["params"]["update"] for each in messages if each.get("method") == "session/update"]
        kinds[version] = [each["sessionUpdate"] for each in updates]
        assert [each["content"]["text"] for each in updates if "chunk" in each["sessionUpdate"]] == ["hm", "HI"]
        [answer] = [each["result"] for each in messages if "result" in each]
        ends[version] = answer if version == 1 else updates[-1]
    assert kinds == {
        1: ["agent_thought_chunk", "plan", "tool_call", "tool_call_update", "tool_call_update", "agent_message_chunk"],
        2: [
            "user_message",
            "state_update",
            "agent_thought_chunk",
            "plan_update",
            "tool_call_update",
            "tool_call_update",
            "tool_call_update",
            "agent_message_chunk",
            "state_update",
        ],
    }
    assert {name: ends[1][name] for name in ("stopReason", "_meta")} == {"stopReason": "max_tokens", "_meta": {"m": 1}}
    assert {name: ends[2][name] for name in ("stopReason", "_meta")} == {"stopReason": "max_tokens", "_meta": {"m": 1}}


@pytest.mark.parametrize("result", [None, "end_turn", TurnResult(), v1.PromptResponse(stop_reason="end_turn")])
def test_what_such_a_handler_may_return_in_version_1(result: Any) -> None:
    """
    Nothing, a stop reason, a result of neither version, or a response.
    """
    half = UnagreedHalf(builder(lambda request: result, 1, 2))
    half.initialize(1)
    half.send({"id": "n", "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}})
    session = half.take()[0]["result"]["sessionId"]
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
    half.send({"id": 5, "method": "session/prompt", "params": prompt})
    assert half.take() == [{"id": 5, "result": {"stopReason": "end_turn"}}]


def test_handlers_of_both_versions_and_of_one() -> None:
    """
    A handler is given the request of its connection's version; some are for one version only.
    """
    seen: list[Any] = []

    def new(request: Any, connection: Any) -> Any:
        seen.append(type(request))
        return connection.schema.NewSessionResponse(session_id="s")

    made = builder(None, 1, 2).new_session_handler(new)
    made.for_versions(1).list_sessions_handler(lambda request: v1.ListSessionsResponse(sessions=[]))
    made.for_versions(2).list_sessions_handler(lambda request: v2.ListSessionsResponse(sessions=[], next_cursor="c"))
    made.for_versions(2).prompt_handler(lambda request: "refusal").for_versions(1, 2)
    cursors = []
    for version in (1, 2):
        half = UnagreedHalf(made)
        half.initialize(version, info=INFO)
        half.send({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}})
        half.send({"id": 2, "method": "session/list", "params": {}})
        opened, listed = half.take()
        assert opened["result"]["sessionId"] == "s"
        cursors.append(listed["result"].get("nextCursor"))
        half.send(
            {
                "id": 3,
                "method": "session/prompt",
                "params": {"sessionId": "s", "prompt": [{"type": "text", "text": ""}]},
            }
        )
        assert ("refusal" in str(half.take())) == (version == 2)
    assert seen == [v1.NewSessionRequest, v2.NewSessionRequest]
    assert cursors == [None, "c"]


def test_mistakes_of_the_builder() -> None:
    """
    Each is told when it is made, or when the agent is built.
    """
    for versions in ((), (3,), (1, 3)):
        with pytest.raises(ValueError, match="some of"):
            AcpAgent.builder().protocol_versions(*versions)
        with pytest.raises(ValueError, match="some of"):
            builder(None, 1, 2).for_versions(*versions)
    with pytest.raises(ValueError, match="prompt_handler"):
        AcpAgent.builder().protocol_versions(1, 2).build()
    with pytest.raises(ValueError, match="for version 2 too"):
        AcpAgent.builder().protocol_versions(1, 2).for_versions(1).prompt_handler(lambda request: None).build()
    twice = builder().accept_prompt_handler(lambda request: None)
    with pytest.raises(ValueError, match="one already"):
        twice.accept_prompt_handler(lambda request: None)
    only_second = AcpAgent.builder().protocol_versions(2).for_versions(2).prompt_handler(lambda request: None)
    assert isinstance(only_second.build(), VersionedAgent)
    with pytest.raises(ValueError, match="a handler already"):
        only_second.prompt_handler(lambda request: None)


def test_the_builder_may_change_its_mind() -> None:
    """
    What was set before stays, and the versions are those that were named last.
    """
    made = AcpAgent.builder().agent_info("a", "2", "A").prompt_handler(lambda request: None)
    agent = built(made.protocol_versions(2).protocol_versions(1, 2))
    assert agent.versions == (1, 2)
    assert agent.second.info == v2.Implementation(name="a", version="2", title="A")
    assert agent.info == v1.Implementation(name="a", version="2", title="A")
    capabilities = v2.AgentCapabilities(session=v2.SessionCapabilities())
    methods = [v2.AuthMethodTerminal(method_id="t", name="T")]
    told = builder().agent_capabilities_v2(capabilities).auth_methods_v2(methods)
    assert built(told).second.capabilities is capabilities
    assert list(built(told).second.auth_methods) == methods


def test_what_the_agent_does_not_offer_is_no_method() -> None:
    """
    2.95: a handler without its capability is not called.
    """
    capabilities = v2.AgentCapabilities(session=v2.SessionCapabilities())
    made = builder().delete_session_handler(lambda request: None).agent_capabilities_v2(capabilities)
    half = UnagreedHalf(made)
    half.initialize(2, info=INFO)
    half.send({"id": 1, "method": "session/delete", "params": {"sessionId": "s"}})
    assert half.take()[0]["error"]["code"] == -32601


def test_an_agent_of_version_1_loads_nothing_of_version_2() -> None:
    """
    Who does not ask for version 2 does not pay for it: none of its modules is there, with a connection either.
    """
    script = (
        "import sys\n"
        "from twisted.internet.task import Clock\n"
        "from acp_twisted import AcpAgent\n"
        "AcpAgent.builder().prompt_handler(lambda request: None).build().connect(Clock())\n"
        "rooms = ('v2', 'methods_v2', 'gates_v2', 'foreground', '_foreground_machine', 'negotiation')\n"
        "ours = [name for name in sys.modules if name.startswith('acp_twisted')]\n"
        "print([name for name in ours if set(name.split('.')) & set(rooms)])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"


def test_it_is_served_like_any_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    What takes an AcpAgent takes one of both versions, and its builder too: here the option of twistd.
    """
    examples = Path(__file__).resolve().parent.parent / "examples"
    monkeypatch.syspath_prepend(str(examples))
    assert isinstance(load_agent("both_versions_agent:agent"), VersionedAgent)
    module = types.ModuleType("made_for_this_test")
    vars(module)["made"] = builder(None, 1, 2)
    monkeypatch.setitem(sys.modules, "made_for_this_test", module)
    assert isinstance(load_agent("made_for_this_test:made"), VersionedAgent)


def test_handlers_of_version_2_alone_have_its_names() -> None:
    """What version 1 spells otherwise is set by the same setter, also where it is for version 2 only."""
    done: list[str] = []
    made = builder().for_versions(2).authenticate_handler(lambda request: done.append("in"))
    half = AgentHalf(made.logout_handler(lambda request: done.append("out")))
    half.send({"id": 1, "method": "auth/login", "params": {"methodId": "m"}})
    half.send({"id": 2, "method": "auth/logout", "params": {}})
    assert [each["result"] for each in half.take()] == [{}, {}]
    assert done == ["in", "out"]


def test_extensions_of_one_version() -> None:
    """An extension's handler is for the versions that were named before it, as every other."""
    made = builder(None, 1, 2)
    made.for_versions(1).ext_request_handler("_n", lambda params: 1).ext_request_handler("_first", lambda params: 1)
    made.for_versions(2).ext_request_handler("_n", lambda params: 2).ext_notification_handler("_t", lambda params: None)
    answers = {}
    for version in (1, 2):
        half = UnagreedHalf(made)
        half.initialize(version, info=INFO)
        half.send({"id": 1, "method": "_n"}, {"id": 2, "method": "_first"})
        numbered, first = half.take()
        answers[version] = numbered["result"], first.get("result", first.get("error", {}).get("code"))
    assert answers == {1: (1, 1), 2: (2, -32601)}
    assert made.chosen_versions == (2,)
    with pytest.raises(ValueError, match="_n has a handler already"):
        made.ext_request_handler("_n", lambda params: 3)


def test_what_handles_what_is_known_of_each_version() -> None:
    """By the method's name in that version, with what serves both."""
    made = AcpAgent.builder().protocol_versions(1, 2)
    assert made.spoken_versions == (1, 2)
    assert AcpAgent.builder().spoken_versions == (1,)
    made.authenticate_handler(lambda request: None).for_versions(2).prompt_handler(lambda request: None)
    assert [made.handles("session/prompt", each) for each in (1, 2)] == [False, True]
    assert [made.handles("authenticate"), made.handles("auth/login", 2), made.handles("authenticate", 2)] == [
        True,
        True,
        False,
    ]
    first = AcpAgent.builder().prompt_handler(lambda request: None)
    assert [first.handles("session/prompt", each) for each in (1, 2)] == [True, False]


def test_a_replay_that_was_made_for_version_2() -> None:
    """C{for_versions(2).load_session_handler} has what wants a replay; the rest has whoever resumes."""
    seen: list[str] = []
    made = builder().for_versions(2).load_session_handler(lambda request: seen.append("replayed"))
    made.resume_session_handler(lambda request: seen.append("resumed"))
    half = AgentHalf(made)
    params = {"sessionId": "old", "cwd": "/w"}
    half.send({"id": 1, "method": "session/resume", "params": {**params, "replayFrom": {"type": "start"}}})
    half.send({"id": 2, "method": "session/resume", "params": params})
    assert [each["result"] for each in half.take() if "result" in each] == [{}, {}]
    assert seen == ["replayed", "resumed"]
    half.send({"id": 3, "method": "session/load", "params": params})
    assert half.take()[0]["error"]["code"] == -32601
    with pytest.raises(ValueError, match="session/load has a handler already"):
        made.load_session_handler(lambda request: None)
    with pytest.raises(ValueError, match="set_session_mode_handler: version 2 has no session/set_mode"):
        made.set_session_mode_handler(lambda request: None)


def test_a_replays_answer_in_the_words_of_version_1() -> None:
    """What C{session/load} is answered with is good for what it is in version 2."""
    half = AgentHalf(builder().load_session_handler(lambda request: v1.LoadSessionResponse(meta={"m": 1})))
    params = {"sessionId": "old", "cwd": "/w", "replayFrom": {"type": "start"}}
    half.send({"id": 1, "method": "session/resume", "params": params})
    assert half.take()[-1]["result"] == {"_meta": {"m": 1}}


def test_blocking_handlers_of_version_2_alone() -> None:
    """What blocks is called in the pool, whichever setter it was given to."""
    clock = ThreadlessClock()
    done: list[object] = []

    @blocking
    def accept(request: object, connection: SyncAgentConnection) -> None:
        done.append(connection.client_capabilities)

    @blocking
    def answer(request: object, context: SyncPromptContext) -> str:
        done.append(type(context))
        return "refusal"

    @blocking
    def tell(params: Any) -> Any:
        done.append(params)
        return params

    made = builder().for_versions(2).prompt_handler(answer).accept_prompt_handler(accept)
    half = AgentHalf(made.ext_request_handler("_tell", tell), clock=clock)
    half.prompt()
    half.send({"id": 6, "method": "_tell", "params": [1]})
    assert (done, half.take()) == ([], [])
    while clock.pool.jobs:
        clock.pool.run()
    assert done == [half.connection.client_capabilities, [1], SyncPromptContext]
    assert half.said() == ["5: inserted", "user_message", "running", "6: done", "idle refusal"]


def test_who_accepts_prompts_sees_their_cancellation() -> None:
    """The token in force is the prompt's, also for one that was held until other work was over."""
    tokens: list[Any] = []
    works: list[Deferred[None]] = []

    def handler(request: Any) -> Deferred[None]:
        works.append(Deferred())
        return works[-1]

    made = builder(handler).accept_prompt_handler(lambda request: tokens.append(current_token()))
    half = AgentHalf(made)
    half.prompt(5)
    half.prompt(6)
    works[0].callback(None)
    assert [each.cancelled for each in tokens] == [False, False]
    half.cancel()
    assert [each.cancelled for each in tokens] == [False, True]
    works[1].callback(None)
