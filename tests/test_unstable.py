"""
What protocol version 1 has not settled yet, from a client to an agent and back, in each of the ways to write an agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from halves import AgentHalf, ClientHalf
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from wire import failure, no_result, success

import acp_twisted.agent.annotations as decorators
from acp_twisted import AcpAgent, AcpClient, ClientConnection, ClientSession, PromptContext, ResourceNotFound
from acp_twisted.agent.agent import AcpAgentBuilder
from acp_twisted.agent.annotations import AgentDefinitionError, acp_agent, build_agent
from acp_twisted.agent.annotations.marks import Mark, marks_of
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.agent.unstable import UNSTABLE_SETTERS as AGENT_SETTERS
from acp_twisted.client.client import AcpClientBuilder
from acp_twisted.client.unstable import UNSTABLE_SETTERS as CLIENT_SETTERS
from acp_twisted.client.unstable import UnstableCalls
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.schema.methods import METHODS
from acp_twisted.transports.memory import MemoryLink

RESULTS: dict[str, Any] = {
    "auth/status": v1.AuthStatusResponse(state="authenticated", accounts=[v1.AuthAccount(label="me")]),
    "providers/list": v1.ListProvidersResponse(
        providers=[v1.ProviderInfo(provider_id="p", supported=["openai"], required=False)]
    ),
    "providers/set": v1.SetProviderResponse(),
    "providers/disable": v1.DisableProviderResponse(),
    "session/fork": v1.ForkSessionResponse(session_id="s2"),
    "session/archive": v1.ArchiveSessionResponse(),
    "session/unarchive": v1.UnarchiveSessionResponse(),
    "session/status": v1.SessionStatusResponse(status="open"),
    "session/set_title": v1.SetSessionTitleResponse(title="T"),
    "mcp/message": None,
}

CALLS: dict[str, Callable[[UnstableCalls], Any]] = {
    "auth/status": lambda c: c.auth_status(),
    "providers/list": lambda c: c.list_providers(),
    "providers/set": lambda c: c.set_provider("p", "openai", "https://example.org/", {"X": "y"}),
    "providers/disable": lambda c: c.disable_provider("p"),
    "session/unarchive": lambda c: c.unarchive_session("elsewhere"),
    "session/status": lambda c: c.session_status("elsewhere"),
    "session/set_title": lambda c: c.set_session_title("elsewhere", "T"),
}

NAMES = {method: setter.removesuffix("_handler") for method, setter in AGENT_SETTERS.items()}


class Heard:
    """What an agent's handlers were called with."""

    def __init__(self) -> None:
        self.requests: dict[str, Any] = {}

    def handler(self, method: str) -> Callable[[Any], Any]:
        """A handler that answers well."""

        def handle(request: Any) -> Any:
            self.requests[method] = request
            return RESULTS[method]

        return handle


def complete(heard: Heard) -> AcpAgentBuilder:
    """An agent with every unstable handler, and C{s1} as its session."""
    builder = AcpAgent.builder(unstable=True).prompt_handler(lambda request: Deferred()).cancel_grace_period(5)
    builder.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s1"))
    builder.list_sessions_handler(lambda request: v1.ListSessionsResponse(sessions=[]))
    for method, setter in AGENT_SETTERS.items():
        getattr(builder, setter)(heard.handler(method))
    return builder


class Pair:
    """An agent and a client, connected and initialized, with the session C{s1}."""

    def __init__(self, agent: AcpAgent, client: AcpClientBuilder | None = None) -> None:
        clock = Clock()
        built = (client or AcpClient.builder(unstable=True)).build()
        self.client: ClientConnection = built.connection(clock)
        self.agent: AgentConnection = agent.connect(clock)
        self.clock = clock
        self.link = MemoryLink(self.client.peer, self.agent.peer, clock)
        success(self.client.initialize())
        self.session: ClientSession = success(self.client.new_session("/w"))


@acp_agent(name="a", version="1", unstable=True)
class Decorated:
    """The same agent as a class."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    @decorators.prompt
    async def prompt(self) -> None:
        await Deferred()

    @decorators.new_session
    def new(self) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session_id="s1")

    @decorators.list_sessions
    def all(self) -> v1.ListSessionsResponse:
        return v1.ListSessionsResponse(sessions=[])

    @decorators.auth_status
    def status(self, request: v1.AuthStatusRequest) -> v1.AuthStatusResponse:
        return self.heard.handler("auth/status")(request)  # type: ignore[no-any-return]

    @decorators.list_providers
    def providers(self, request: v1.ListProvidersRequest) -> v1.ListProvidersResponse:
        return self.heard.handler("providers/list")(request)  # type: ignore[no-any-return]

    @decorators.set_provider
    def provide(self, request: v1.SetProviderRequest) -> None:
        self.heard.handler("providers/set")(request)

    @decorators.disable_provider
    def disable(self, request: v1.DisableProviderRequest) -> None:
        self.heard.handler("providers/disable")(request)

    @decorators.fork_session
    async def fork(self, request: v1.ForkSessionRequest) -> v1.ForkSessionResponse:
        return self.heard.handler("session/fork")(request)  # type: ignore[no-any-return]

    @decorators.archive_session
    def archive(self, request: v1.ArchiveSessionRequest) -> None:
        self.heard.handler("session/archive")(request)

    @decorators.unarchive_session
    def unarchive(self, request: v1.UnarchiveSessionRequest) -> None:
        self.heard.handler("session/unarchive")(request)

    @decorators.session_status
    def open_or_saved(self, session: decorators.SessionId) -> v1.SessionStatusResponse:
        return self.heard.handler("session/status")(v1.SessionStatusRequest(session_id=session))  # type: ignore[no-any-return]

    @decorators.set_session_title
    def name(self, request: v1.SetSessionTitleRequest) -> v1.SetSessionTitleResponse:
        return self.heard.handler("session/set_title")(request)  # type: ignore[no-any-return]

    @decorators.mcp_message
    def mcp(self, notice: v1.MessageMcpNotification) -> None:
        self.heard.handler("mcp/message")(notice)


@pytest.fixture(params=["builder", "class"])
def pair(request: pytest.FixtureRequest) -> tuple[Pair, Heard]:
    """The agent in both ways."""
    heard = Heard()
    agent = (
        complete(heard).build() if request.param == "builder" else build_agent(Decorated(heard), cancel_grace_period=5)
    )
    return Pair(agent), heard


# ---- one way and the other


@pytest.mark.parametrize("method", CALLS)
def test_each_request_has_a_call_and_a_handler(pair: tuple[Pair, Heard], method: str) -> None:
    """What the client calls reaches the handler, and its answer the client; sessions may be anybody's (1.6)."""
    both, heard = pair
    assert success(CALLS[method](both.client.unstable)) == RESULTS[method]
    assert method in heard.requests


def test_a_fork_is_a_session(pair: tuple[Pair, Heard]) -> None:
    """The answer to session/fork names a session of this connection, on both ends (6.7)."""
    both, heard = pair
    fork = success(both.client.unstable.fork_session("s1", "/w", additional_directories=[]))
    assert isinstance(fork, ClientSession)
    assert (fork.session_id, heard.requests["session/fork"].session_id) == ("s2", "s1")
    assert set(both.agent.session_ids) == {"s1", "s2"}
    turn = fork.prompt("hi")
    no_result(turn.response)
    turn.cancel()
    both.session.prompt("hi")


def test_archiving_ends_the_session(pair: tuple[Pair, Heard]) -> None:
    """The turn is cancelled and answered first, as for session/close; other sessions are just archived (V1C10)."""
    both, _ = pair
    turn = both.session.prompt("hi")
    archived = both.client.unstable.archive_session("s1")
    both.clock.advance(5)
    assert success(turn.response).stop_reason == "cancelled"
    assert success(archived) == v1.ArchiveSessionResponse()
    assert both.agent.session_ids == ()
    assert both.client.session("s1") is None
    success(both.client.unstable.archive_session("elsewhere"))
    failure(both.client.call(v1.PromptRequest(session_id="s1", prompt=[])), ResourceNotFound)


def test_archived_sessions_are_listed_on_demand(pair: tuple[Pair, Heard]) -> None:
    """The filter of session/list goes with sessionCapabilities.archive (1.6)."""
    assert success(pair[0].client.unstable.list_sessions(archived="only")).sessions == []


def test_what_follows_from_the_handlers(pair: tuple[Pair, Heard]) -> None:
    """Each capability is there once all of its methods have a handler, on both ways to write the agent (1.7)."""
    both, _ = pair
    for capability in (
        "auth.status",
        "providers",
        *(f"sessionCapabilities.{n}" for n in ("fork", "archive", "status")),
    ):
        assert both.client.supports(capability)
    partial = AcpAgent.builder(unstable=True).prompt_handler(print).list_providers_handler(print)
    assert partial.archive_session_handler(print).build().capabilities == v1.AgentCapabilities()


def test_messages_of_mcp_servers() -> None:
    """mcp/message is a request to the client, and a notification to the agent about it (6.1)."""
    heard = Heard()

    def serve(request: v1.MessageMcpRequest) -> v1.MessageMcpResponse:
        return v1.MessageMcpResponse(result={"tools": [request.request_id, request.method]})

    client = AcpClient.builder(unstable=True).mcp_message_handler(serve)
    builder = complete(heard)
    caps = v1.AgentCapabilities(mcp_capabilities=v1.McpCapabilities(acp=True))
    both = Pair(
        AcpAgent.builder(unstable=True)
        .prompt_handler(print)
        .agent_capabilities(caps)
        .new_session_handler(lambda request: v1.NewSessionResponse(session_id="s1"))
        .mcp_message_handler(heard.handler("mcp/message"))
        .build(),
        client,
    )
    assert builder.takes_unstable
    answer = success(both.agent.unstable.send_mcp_message("srv", "tools/list", request_id="r1"))
    assert answer.result == {"tools": ["r1", "tools/list"]}
    both.client.unstable.send_mcp_message("srv", "r1", "notifications/progress", {"progress": 1})
    assert heard.requests["mcp/message"].params == {"progress": 1}


def test_a_change_of_the_authentication() -> None:
    """auth/status_update is for agents that have auth.status (1.6)."""
    told: list[Any] = []
    client = AcpClient.builder(unstable=True).auth_status_update_handler(told.append)
    both = Pair(complete(Heard()).build(), client)
    both.agent.unstable.send_auth_status("unauthenticated")
    assert told == [v1.AuthStatusUpdateNotification(state="unauthenticated")]
    plain = AgentHalf(AcpAgent.builder(unstable=True).prompt_handler(print).build())
    with pytest.raises(Exception, match=r"auth\.status"):
        plain.connection.unstable.send_auth_status("unknown")
    assert plain.take() == []


# ---- updates


class Turn:
    """A prompt at an agent whose client understands everything."""

    context: PromptContext

    def __init__(self, told: list[Any] | None = None) -> None:
        def handler(request: v1.PromptRequest, context: PromptContext) -> Deferred[Any]:
            self.context = context
            return Deferred()

        builder = AcpAgent.builder(unstable=True).prompt_handler(handler)
        builder.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s1"))
        builder.cancel_handler(lambda notice: None if told is None else told.append(notice.session_id))
        self.half = AgentHalf(builder.build(), capabilities={"plan": {}, "subagents": {}})
        self.half.prompt()

    def update(self) -> dict[str, Any]:
        """The one update since."""
        [sent] = self.half.take()
        update: dict[str, Any] = sent["params"]["update"]
        return update


def test_plans_one_by_one() -> None:
    """A plan out of several is a list, a text or a file; it can be dropped (1.3)."""
    turn = Turn()
    updates = turn.context.unstable
    updates.update_plan("p", entries=[v1.PlanEntry(content="x", priority="low", status="pending")])
    assert turn.update()["plan"]["type"] == "items"
    updates.update_plan("p", markdown="# x")
    assert turn.update() == {
        "sessionUpdate": "plan_update",
        "plan": {"type": "markdown", "planId": "p", "content": "# x"},
    }
    updates.update_plan("p", uri="file:///plan.md")
    assert turn.update()["plan"] == {"type": "file", "planId": "p", "uri": "file:///plan.md"}
    updates.remove_plan("p")
    assert turn.update() == {"sessionUpdate": "plan_removed", "planId": "p"}
    wrongs: list[dict[str, Any]] = [
        {},
        {"markdown": "", "uri": ""},
        {"entries": [], "uri": ""},
        {"entries": [], "markdown": ""},
    ]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="entries, or markdown, or a uri"):
            updates.update_plan("p", **wrong)


def test_subagents_are_told_of_and_cancelled() -> None:
    """A subagent's session is announced on its owner's, and a cancel of it reaches the cancel handler (1.6, V1C4)."""
    told: list[Any] = []
    turn = Turn(told)
    turn.half.cancel("child")
    turn.context.unstable.update_subagent("child", title="Reads", cwd="/w")
    assert turn.update() == {
        "sessionUpdate": "subagent_update",
        "sessionId": "child",
        "title": "Reads",
        "cwd": "/w",
    }
    turn.half.cancel("child")
    assert told == ["child"]
    outside = turn.half.connection.unstable.updates("child")
    outside.send_session_message("m", sender_session_id="s1")
    assert turn.update() == {"sessionUpdate": "session_message", "messageId": "m", "senderSessionId": "s1"}
    outside.send_session_message_chunk("m", "hi")
    assert turn.update()["content"] == {"type": "text", "text": "hi"}
    with pytest.raises(ValueError, match="must be absolute"):
        turn.context.unstable.update_subagent("other", cwd="w")


def test_a_subagent_is_cancelled_as_it_is_announced() -> None:
    """A cancel that comes from within the announcement reaches the cancel handler as well (1.6)."""
    told: list[Any] = []
    turn = Turn(told)
    turn.half.at_once("session/update", lambda: turn.half.cancel("child"))
    turn.context.unstable.update_subagent("child", title="Reads")
    assert told == ["child"]


def test_a_client_follows_subagents() -> None:
    """What a subagent's session does comes on the same connection, without being opened (1.6)."""
    said = v1.ClientCapabilities(subagents=v1.SubagentCapabilities())
    half = ClientHalf(AcpClient.builder(unstable=True).client_capabilities(said).track_sessions().build())
    update = {"sessionUpdate": "subagent_update", "sessionId": "child"}
    half.send({"method": "session/update", "params": {"sessionId": "s1", "update": update}})
    child = half.connection.session("child")
    assert child is not None
    half.update("from the child", "child")
    assert [each.content.text for each in child.take_updates()] == ["from the child"]  # type: ignore[union-attr]


def test_an_agent_can_not_tell_of_any_number_of_subagents() -> None:
    """C{Limits.max_sessions} bounds the sessions that an agent can make a client keep (rule 6)."""
    said = v1.ClientCapabilities(subagents=v1.SubagentCapabilities())
    client = AcpClient.builder(unstable=True).client_capabilities(said).limits(Limits(max_sessions=3)).build()
    half = ClientHalf(client)
    for name in ("a", "b", "c"):
        update = {"sessionUpdate": "subagent_update", "sessionId": name}
        half.send({"method": "session/update", "params": {"sessionId": "s1", "update": update}})
    assert [half.connection.session(name) is not None for name in ("a", "b", "c")] == [True, True, False]


# ---- nobody meets it by accident


@pytest.mark.parametrize("setters", [AGENT_SETTERS, CLIENT_SETTERS])
def test_handlers_want_to_be_asked_for(setters: dict[str, str]) -> None:
    """Without unstable=True a setter says what to do (it is unstable)."""
    made: Any = AcpAgent.builder() if setters is AGENT_SETTERS else AcpClient.builder()
    for method, setter in setters.items():
        with pytest.raises(ValueError, match=f"{setter}: {method} is not settled yet.*unstable=True"):
            getattr(made, setter)(print)


def test_calls_want_to_be_asked_for() -> None:
    """So do the calls, on both ends."""
    with pytest.raises(ValueError, match="unstable=True"):
        ClientHalf(AcpClient.builder().build()).connection.unstable  # noqa: B018
    half = AgentHalf(AcpAgent.builder().prompt_handler(print).build())
    with pytest.raises(ValueError, match="unstable=True"):
        half.connection.unstable  # noqa: B018


def test_decorators_want_to_be_asked_for() -> None:
    """So do the decorators; every unstable method of an agent has one (HandlerAnnotationCoverageTest)."""
    of_agents = {each.name for each in METHODS if not each.stable and each.direction == "agent"}
    assert set(NAMES) == of_agents
    for method, name in NAMES.items():

        def plain() -> None:
            """Nothing."""

        assert getattr(decorators, name)(plain) is plain
        (mark,) = marks_of(plain)
        assert isinstance(mark, Mark)
        assert (mark.method, mark.decorator, mark.unstable) == (method, name, True)

    @acp_agent(name="a", version="1")
    class Settled:
        @decorators.prompt
        def prompt(self) -> None:
            """Nothing."""

        @decorators.fork_session
        def fork(self) -> v1.ForkSessionResponse:
            return v1.ForkSessionResponse(session_id="x")

    with pytest.raises(AgentDefinitionError, match=r"Settled\.fork \(@fork_session\): .*@acp_agent\(unstable=True\)"):
        build_agent(Settled)
    assert build_agent(Settled, builder=AcpAgent.builder(unstable=True)).capabilities.session_capabilities.fork
