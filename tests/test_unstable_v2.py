"""
What protocol version 2 has not settled yet, from a client to an agent and back, with handlers that serve both versions.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import agent_halves_v2
import halves_v2
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from wire import failure, success

from acp_twisted import AcpAgent, AcpCapabilityError, AcpClient, InvalidParams, MethodNotFound, ResourceNotFound
from acp_twisted.agent.unstable import UNSTABLE_SETTERS as AGENT_SETTERS
from acp_twisted.agent.v2.agent import VersionedAgentBuilder
from acp_twisted.agent.v2.connection import AgentConnection
from acp_twisted.client.client import AcpClientBuilder
from acp_twisted.client.unstable import UNSTABLE_SETTERS as CLIENT_SETTERS
from acp_twisted.client.v2.connection import ClientConnection
from acp_twisted.client.v2.session import ClientSession
from acp_twisted.client.v2.unstable import UnstableCalls
from acp_twisted.limits import Limits
from acp_twisted.schema import v1, v2
from acp_twisted.schema.methods_v2 import METHODS
from acp_twisted.transports.memory import MemoryLink


def results(types: Any) -> dict[str, Any]:
    """What the handlers answer, in the words of one version."""
    return {
        "auth/status": types.AuthStatusResponse(state="authenticated", accounts=[types.AuthAccount(label="me")]),
        "providers/list": types.ListProvidersResponse(
            providers=[types.ProviderInfo(provider_id="p", supported=["openai"], required=False)]
        ),
        "providers/set": types.SetProviderResponse(),
        "providers/disable": None,
        "session/fork": types.ForkSessionResponse(session_id="s2"),
        "session/archive": None,
        "session/unarchive": types.UnarchiveSessionResponse(),
        "session/status": types.SessionStatusResponse(status="open"),
        "session/set_title": types.SetSessionTitleResponse(title="T"),
        "mcp/message": None,
    }


ANSWERS: dict[str, Any] = {**results(v2), "providers/disable": v2.DisableProviderResponse()}

CALLS: dict[str, Callable[[Any], Any]] = {
    "auth/status": lambda c: c.auth_status(),
    "providers/list": lambda c: c.list_providers(),
    "providers/set": lambda c: c.set_provider("p", "openai", "https://example.org/", {"X": "y"}),
    "providers/disable": lambda c: c.disable_provider("p"),
    "session/unarchive": lambda c: c.unarchive_session("elsewhere"),
    "session/status": lambda c: c.session_status("elsewhere"),
    "session/set_title": lambda c: c.set_session_title("elsewhere", "T"),
}
"""What answers with a response of its own."""

SESSIONS: dict[str, Callable[[Any], Any]] = {
    "session/fork": lambda c: c.fork_session("s1", "/w"),
    "session/archive": lambda c: c.archive_session("s1"),
}
"""What opens a session, or ends one."""


class Heard:
    """
    What an agent's handlers were called with.

    @ivar types: the module of the classes that they answer with.
    """

    def __init__(self, types: Any = v2) -> None:
        self.requests: dict[str, Any] = {}
        self._results = results(types)

    def handler(self, method: str) -> Callable[[Any], Any]:
        """A handler that answers well."""

        def handle(request: Any) -> Any:
            self.requests[method] = request
            return self._results[method]

        return handle


def complete(heard: Heard, *versions: int, only: int | None = None) -> VersionedAgentBuilder:
    """An agent with every unstable handler, set for one version only if one is named."""
    builder = AcpAgent.builder(unstable=True).protocol_versions(*(versions or (2,)))
    builder.prompt_handler(lambda request, context: Deferred()).cancel_grace_period(5)
    builder.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s1"))
    if only is not None:
        builder.for_versions(only)
    for method, setter in AGENT_SETTERS.items():
        getattr(builder, setter)(heard.handler(method))
    return builder


class Pair:
    """An agent and a client of version 2, unless told otherwise, connected and initialized, with the session C{s1}."""

    def __init__(self, agent: VersionedAgentBuilder, client: AcpClientBuilder | None = None, version: int = 2) -> None:
        self.clock = Clock()
        asking = (client or AcpClient.builder(unstable=True)).protocol_versions(version).build()
        answering: Any = agent.build()
        link = asking.connection(self.clock)
        negotiation = answering.connect(self.clock)
        self.link = MemoryLink(link.peer, negotiation.peer, self.clock)
        self.client: Any = success(link.initialize())
        self.agent: Any = negotiation.connection
        self.session: Any = success(self.client.new_session("/w"))


def bare() -> VersionedAgentBuilder:
    """An agent that handles nothing of all this."""
    return AcpAgent.builder(unstable=True).protocol_versions(2).prompt_handler(print)


# ---- one way and the other


def test_nothing_is_left_out() -> None:
    """Every unstable method of version 2 has a setter, which is version 1's, and a call on the other side (1.6)."""
    of_agents = {each.name for each in METHODS if not each.stable and each.direction == "agent"}
    of_clients = {each.name for each in METHODS if not each.stable and each.direction == "client"}
    assert (of_agents, of_clients) == (set(AGENT_SETTERS), set(CLIENT_SETTERS))
    assert of_agents == {*CALLS, *SESSIONS, "mcp/message"}


@pytest.mark.parametrize("only", [None, 2])
@pytest.mark.parametrize("types", [v1, v2], ids=["v1", "v2"])
@pytest.mark.parametrize("method", CALLS)
def test_each_request_has_a_call_and_a_handler(method: str, types: Any, only: int | None) -> None:
    """What the client calls reaches the handler, and its answer the client, in the words of either version (1.6)."""
    heard = Heard(types)
    both = Pair(complete(heard, only=only))
    assert isinstance(both.agent, AgentConnection)
    assert isinstance(both.client.unstable, UnstableCalls)
    assert success(CALLS[method](both.client.unstable)) == ANSWERS[method]
    assert type(heard.requests[method]).__module__ == "acp_twisted.schema.v2_unstable"


@pytest.mark.parametrize("version", [1, 2])
def test_one_handler_serves_both_versions(version: int) -> None:
    """The handlers of one agent that speaks both answer a client of either (1.6)."""
    heard = Heard(v1)
    both = Pair(complete(heard, 1, 2), version=version)
    assert both.client.protocol_version == version
    for method, call in {**CALLS, **SESSIONS}.items():
        success(call(both.client.unstable))
        module = type(heard.requests[method]).__module__
        assert module == f"acp_twisted.schema.v{version}_unstable"


def test_what_is_asked_comes_whole() -> None:
    """The members of each request (1.6, 6.6)."""
    heard = Heard()
    both = Pair(complete(heard))
    for call in CALLS.values():
        success(call(both.client.unstable))
    asked = heard.requests
    assert asked["providers/set"] == v2.SetProviderRequest(
        provider_id="p", api_type="openai", base_url="https://example.org/", headers={"X": "y"}
    )
    assert asked["providers/disable"].provider_id == "p"
    assert (asked["session/set_title"].session_id, asked["session/set_title"].title) == ("elsewhere", "T")
    assert asked["session/status"].session_id == asked["session/unarchive"].session_id == "elsewhere"


@pytest.mark.parametrize("types", [v1, v2], ids=["v1", "v2"])
def test_a_fork_is_a_session(types: Any) -> None:
    """The answer to session/fork names a session of this connection, on both ends (6.7)."""
    heard = Heard(types)
    both = Pair(complete(heard))
    fork = success(both.client.unstable.fork_session("s1", "/fork", additional_directories=[]))
    assert isinstance(fork, ClientSession)
    assert (fork.session_id, heard.requests["session/fork"].session_id) == ("s2", "s1")
    assert fork.opened == v2.ForkSessionResponse(session_id="s2")
    assert (set(both.agent.session_ids), both.agent.session("s2").cwd) == ({"s1", "s2"}, "/fork")
    prompt = fork.prompt("hi")
    success(prompt.accepted)
    prompt.cancel()
    both.clock.advance(5)
    assert success(prompt.idle).stop_reason == "cancelled"
    assert both.client.session("s2") is fork


def test_a_fork_may_be_refused() -> None:
    """A fork that fails leaves no session anywhere (6.7)."""

    def refuse(request: Any) -> Any:
        raise ResourceNotFound("Session not found", {"sessionId": request.session_id})

    both = Pair(
        bare().new_session_handler(lambda _: v2.NewSessionResponse(session_id="s1")).fork_session_handler(refuse)
    )
    failure(both.client.unstable.fork_session("gone", "/w"), ResourceNotFound)
    assert both.agent.session_ids == ("s1",)
    assert both.client.session("gone") is None


def test_updates_that_come_before_the_fork_are_kept() -> None:
    """What the agent says of a fork before it has answered is the fork's (B29)."""

    def fork(request: Any, connection: Any) -> Any:
        update = v2.AgentMessage(message_id="m", content=[v2.TextContent(text="copied")])
        connection.send_update("s2", update)
        return v2.ForkSessionResponse(session_id="s2")

    both = Pair(bare().fork_session_handler(fork))
    made = success(both.client.unstable.fork_session("s1", "/w"))
    assert [type(each).__name__ for each in made.take_updates()] == ["AgentMessage"]


def test_archiving_ends_the_session() -> None:
    """
    V1C10, V2N10: the work is cancelled and its end reported first, questions to the user are answered, and nothing is
    left of the session on either end; a session that is not open is just archived.
    """
    told: list[Any] = []
    asked: list[Deferred[Any]] = []

    def permit(request: Any) -> Deferred[Any]:
        asked.append(Deferred())
        return asked[-1]

    async def prompt(request: Any, context: Any) -> None:
        option = v2.PermissionOption(option_id="y", name="Yes", kind="allow_once")
        told.append(await context.request_permission(None, [option], title="May I?"))

    builder = AcpAgent.builder(unstable=True).protocol_versions(2).prompt_handler(prompt)
    builder.new_session_handler(lambda request: v2.NewSessionResponse(session_id="s1"))
    builder.archive_session_handler(lambda request: told.append(request.session_id))
    builder.unarchive_session_handler(print)
    both = Pair(builder, AcpClient.builder(unstable=True).request_permission_handler(permit))
    turn = both.session.prompt("hi")
    [waiting] = asked
    archived = both.client.unstable.archive_session("s1")
    assert success(archived) == v2.ArchiveSessionResponse()
    assert waiting.called
    assert success(turn.idle).stop_reason == "cancelled"
    assert (told, turn.error) == (["s1"], None)
    assert both.agent.session_ids == ()
    assert both.client.session("s1") is None
    success(both.client.unstable.archive_session("elsewhere"))
    assert told == ["s1", "elsewhere"]
    failure(both.client.call(v2.PromptRequest(session_id="s1", prompt=[v2.TextContent(text="x")])), ResourceNotFound)


def test_work_that_asks_is_cancelled_when_its_session_is_closed() -> None:
    """V2N10: a question that is taken back with its session is no failure of who asked it."""

    async def prompt(request: Any, context: Any) -> None:
        option = v2.PermissionOption(option_id="y", name="Yes", kind="allow_once")
        await context.request_permission(None, [option], title="May I?")

    half = agent_halves_v2.AgentHalf(AcpAgent.builder().protocol_versions(2).prompt_handler(prompt))
    half.prompt()
    assert half.said()[-1] == "requires_action"
    half.about("c", "session/close")
    assert half.said()[-2:] == ["idle cancelled", "c: done"]


def test_archived_sessions_are_listed_on_demand() -> None:
    """The filter of session/list goes with session.archive; what is open here is not archived (1.6)."""
    both = Pair(complete(Heard()))
    for archived, found in (("exclude", 1), ("include", 1), ("only", 0)):
        assert len(success(both.client.unstable.list_sessions(archived=archived)).sessions) == found
    asked: list[Any] = []

    def listed(request: Any) -> v1.ListSessionsResponse:
        asked.append(request.archived)
        return v1.ListSessionsResponse(sessions=[v1.SessionInfo(session_id="old", cwd="/w", archived=True)])

    both = Pair(complete(Heard()).list_sessions_handler(listed))
    [found_one] = success(both.client.unstable.list_sessions(archived="only")).sessions
    assert (asked, found_one.archived) == (["only"], True)


def test_the_state_goes_with_the_status() -> None:
    """session/status tells what an open session does, and changes nothing about it (1.6)."""

    def status(request: Any, connection: Any) -> Any:
        session = connection.session(request.session_id)
        if session is None:
            raise ResourceNotFound("Session not found", {"sessionId": request.session_id})
        return v2.SessionStatusResponse(status="open", state=session.current_state())

    builder = bare().session_status_handler(status)
    builder.new_session_handler(lambda request: v2.NewSessionResponse(session_id="s1"))
    both = Pair(builder)
    answer = success(both.client.unstable.session_status("s1"))
    assert (answer.status, type(answer.state)) == ("open", v2.IdleStateUpdate)
    failure(both.client.unstable.session_status("s9"), ResourceNotFound)
    assert both.agent.session_ids == ("s1",)


def test_messages_of_mcp_servers() -> None:
    """mcp/message is a request to the client, and a notification to the agent about it; either version's words do."""
    heard: list[Any] = []

    def serve(request: Any) -> v1.MessageMcpResponse:
        return v1.MessageMcpResponse(result={"tools": [request.request_id, request.method, request.params]})

    said = v2.AgentCapabilities(session=v2.SessionCapabilities(mcp=v2.McpCapabilities(acp=v2.McpAcpCapabilities())))
    builder = bare().agent_capabilities_v2(said).mcp_message_handler(heard.append)
    both = Pair(builder, AcpClient.builder(unstable=True).mcp_message_handler(serve))
    answer = success(both.agent.unstable.send_mcp_message("srv", "tools/list", {"a": 1}, request_id="r1"))
    assert answer == v2.MessageMcpResponse(result={"tools": ["r1", "tools/list", {"a": 1}]})
    random = success(both.agent.unstable.send_mcp_message("srv", "tools/list"))
    assert random.result["tools"][0] not in ("", "r1")
    both.client.unstable.send_mcp_message("srv", "r1", "notifications/progress", {"progress": 1})
    assert heard == [
        v2.MessageMcpNotification(
            server_id="srv", request_id="r1", method="notifications/progress", params={"progress": 1}
        )
    ]


def test_a_change_of_the_authentication() -> None:
    """auth/status_update is for agents that have auth.status (1.6)."""
    told: list[Any] = []
    client = AcpClient.builder(unstable=True).auth_status_update_handler(told.append)
    both = Pair(complete(Heard()), client)
    both.agent.unstable.send_auth_status("unauthenticated")
    both.agent.unstable.send_auth_status("authenticated", [v2.AuthAccount(label="me")])
    assert told == [
        v2.AuthStatusUpdateNotification(state="unauthenticated"),
        v2.AuthStatusUpdateNotification(state="authenticated", accounts=[v2.AuthAccount(label="me")]),
    ]
    plain = agent_halves_v2.AgentHalf(bare())
    with pytest.raises(AcpCapabilityError, match=r"auth\.status"):
        plain.connection.unstable.send_auth_status("unknown")
    assert plain.take() == []


# ---- gates


CAPABILITIES = (
    "auth.status",
    "providers",
    "session.fork",
    "session.archive",
    "session.status",
    "session.title",
)


@pytest.mark.parametrize("only", [None, 2])
def test_what_follows_from_the_handlers(only: int | None) -> None:
    """Each capability is there once all of its methods have a handler, in whichever way that was set (1.7)."""
    both = Pair(complete(Heard(), only=only))
    assert [each for each in CAPABILITIES if not both.client.supports(each)] == []
    partial = bare().list_providers_handler(print).set_provider_handler(print).archive_session_handler(print)
    both = Pair(partial)
    assert [each for each in CAPABILITIES if both.client.supports(each)] == []


@pytest.mark.parametrize("method", [*CALLS, *SESSIONS])
def test_what_the_agent_does_not_offer_is_not_sent(method: str) -> None:
    """Without the capability a call raises, and whoever sends it all the same gets -32601 (2.95)."""
    both = Pair(bare())
    before = both.agent.session_ids
    with pytest.raises(AcpCapabilityError):
        {**CALLS, **SESSIONS}[method](both.client.unstable)
    failure(both.client.ext_request(method, {"sessionId": both.session.session_id, "cwd": "/w"}), MethodNotFound)
    assert both.agent.session_ids == before
    assert both.client.session(both.session.session_id) is both.session


def test_the_filter_and_messages_of_servers_need_their_capabilities() -> None:
    """session/list for archived ones needs session.archive, mcp/message session.mcp.acp (1.6)."""
    both = Pair(bare())
    with pytest.raises(AcpCapabilityError, match=r"session\.archive"):
        both.client.unstable.list_sessions(archived="only")
    with pytest.raises(AcpCapabilityError, match=r"session\.mcp\.acp"):
        both.client.unstable.send_mcp_message("srv", "r1", "notifications/progress")


def test_system_prompts_are_offered_in_both_versions() -> None:
    """What an agent of version 1 says of system prompts it says in version 2, and a client is held to it (1.6)."""
    asked: list[Any] = []
    said = v1.AgentCapabilities(
        session_capabilities=v1.SessionCapabilities(system_prompt=v1.SessionSystemPromptCapabilities())
    )

    def opened(request: Any) -> v1.NewSessionResponse:
        asked.append(request.system_prompt)
        return v1.NewSessionResponse(session_id="s1")

    both = Pair(bare().agent_capabilities(said).new_session_handler(opened))
    prompt = v2.SystemPrompt(mode="append", content=[v2.TextContent(text="Be brief.")])
    session = success(both.client.open_session(v2.NewSessionRequest(cwd="/w", system_prompt=prompt)))
    assert isinstance(session, ClientSession)
    assert asked == [None, prompt]
    other = v2.SystemPrompt(mode="override", content=[])
    with pytest.raises(AcpCapabilityError, match=r"session\.systemPrompt\.mode\.override"):
        both.client.open_session(v2.NewSessionRequest(cwd="/w", system_prompt=other))
    refused = both.client.ext_request("session/new", {"cwd": "/w", "systemPrompt": {"mode": "override", "content": []}})
    failure(refused, InvalidParams)


# ---- updates


class Work:
    """A prompt's work at an agent, and what its client reads."""

    context: Any

    def __init__(self, told: list[Any] | None = None, **options: Any) -> None:
        def handler(request: Any, context: Any) -> Deferred[Any]:
            self.context = context
            return Deferred()

        builder = AcpAgent.builder(unstable=True).protocol_versions(2).prompt_handler(handler)
        if options:
            builder.limits(Limits(**options))
        builder.cancel_handler(lambda notice: None if told is None else told.append(notice.session_id))
        self.half = agent_halves_v2.AgentHalf(builder)
        self.half.prompt()
        self.half.take()

    def update(self) -> dict[str, Any]:
        """The one update since."""
        [sent] = self.half.take()
        update: dict[str, Any] = sent["params"]["update"]
        return update

    def cancel(self, session: str) -> None:
        """The client cancels a session."""
        self.half.send({"method": "session/cancel", "params": {"sessionId": session}})


def test_plans_one_by_one() -> None:
    """A plan out of several is a list, a text or a file; it can be dropped (1.3)."""
    work = Work()
    updates = work.context.unstable
    updates.update_plan("p", entries=[v2.PlanEntry(content="x", priority="low", status="pending")])
    assert work.update()["plan"]["type"] == "items"
    updates.update_plan("p", markdown="# x")
    assert work.update() == {
        "sessionUpdate": "plan_update",
        "plan": {"type": "markdown", "planId": "p", "content": "# x"},
    }
    updates.update_plan("p", uri="file:///plan.md")
    assert work.update()["plan"] == {"type": "file", "planId": "p", "uri": "file:///plan.md"}
    updates.remove_plan("p")
    assert work.update() == {"sessionUpdate": "plan_removed", "planId": "p"}
    with pytest.raises(ValueError, match="entries, or markdown, or a uri"):
        updates.update_plan("p", markdown="", uri="")


def test_subagents_are_told_of_and_cancelled() -> None:
    """A subagent's session is announced on its owner's, and a cancel of it reaches the cancel handler (1.6, V1C4)."""
    told: list[Any] = []
    work = Work(told)
    work.cancel("child")
    cancel = v2.SubagentSessionCapabilities(cancel=v2.SessionCancelCapabilities())
    work.context.unstable.update_subagent("child", title="Reads", cwd="/w", capabilities=cancel)
    assert work.update() == {
        "sessionUpdate": "subagent_update",
        "sessionId": "child",
        "title": "Reads",
        "cwd": "/w",
        "capabilities": {"cancel": {}},
    }
    work.cancel("child")
    assert told == ["child"]
    assert not work.context.is_cancelled
    outside = work.half.connection.unstable.updates("child")
    outside.send_session_message("m", sender_session_id="s1")
    assert work.update() == {"sessionUpdate": "session_message", "messageId": "m", "senderSessionId": "s1"}
    outside.send_session_message_chunk("m", "hi")
    assert work.update()["content"] == {"type": "text", "text": "hi"}
    outside.send_session_message_chunk("m", v2.TextContent(text="ho"))
    assert work.update()["content"] == {"type": "text", "text": "ho"}
    outside.send_unknown_state()
    assert work.update() == {"sessionUpdate": "state_update", "state": "unknown"}
    outside.send_unknown_state([v2.BackgroundSubagent(session_id="grandchild")])
    assert work.update()["background"] == [{"type": "subagent", "sessionId": "grandchild"}]
    with pytest.raises(ValueError, match="must be absolute"):
        work.context.unstable.update_subagent("other", cwd="w")


def test_only_so_many_subagents_are_remembered() -> None:
    """The last C{Limits.max_sessions} of them can be cancelled (rule 6)."""
    told: list[Any] = []
    work = Work(told, max_sessions=2)
    for name in ("a", "b", "c"):
        work.context.unstable.update_subagent(name)
    for name in ("a", "b", "c"):
        work.cancel(name)
    assert told == ["b", "c"]


def test_updates_after_the_work_are_dropped() -> None:
    """Design rule 4 holds for these too; those of a session go on (2.30)."""
    work = Work()
    updates = work.context.unstable
    work.cancel(work.half.session_id)
    work.half.clock.advance(60)
    work.half.take()
    updates.remove_plan("p")
    assert work.half.take() == []
    work.half.connection.unstable.updates(work.half.session_id).remove_plan("p")
    assert work.update() == {"sessionUpdate": "plan_removed", "planId": "p"}


class Follower(halves_v2.ClientHalf):
    """A client of version 2 whose agent tells of subagents."""

    connection: ClientConnection

    def __init__(self, builder: AcpClientBuilder | None = None, **options: Any) -> None:
        made = builder or AcpClient.builder(unstable=True)
        if options:
            made.limits(Limits(**options))
        every: dict[str, Any] = {"session": {"delete": {}, "archive": {}, "status": {}, "title": {}, "fork": {}}}
        super().__init__(made.protocol_versions(2).build(), capabilities=every)

    def subagent(self, name: str = "child", **members: Any) -> ClientSession | None:
        """The agent tells of one."""
        self.send(halves_v2.update("subagent_update", sessionId=name, **members))
        return self.connection.session(name)


def test_a_client_follows_subagents() -> None:
    """What a subagent's session does comes on the same connection, without being opened (1.6)."""
    half = Follower()
    child = half.subagent()
    assert child is not None
    half.send(halves_v2.update("agent_message", "child", messageId="m", content=[{"type": "text", "text": "hi"}]))
    [said] = child.take_updates()
    assert isinstance(said, v2.AgentMessage)
    assert half.subagent() is child


CHANGES: list[Callable[[Any, ClientSession], Any]] = [
    lambda connection, child: child.prompt("hi"),
    lambda connection, child: child.set_config_option("model", "x"),
    lambda connection, child: child.close(),
    lambda connection, child: connection.delete_session("child"),
    lambda connection, child: connection.unstable.archive_session("child"),
    lambda connection, child: connection.unstable.unarchive_session("child"),
    lambda connection, child: connection.unstable.set_session_title("child", "T"),
]


def test_nothing_is_done_to_subagents_that_they_do_not_allow() -> None:
    """A change of a subagent's session needs a capability of its own; what changes nothing does not (1.6)."""
    half = Follower()
    child = half.subagent()
    assert child is not None
    for change in CHANGES:
        with pytest.raises(AcpCapabilityError, match=r"subagent\.capabilities"):
            change(half.connection, child)
    with pytest.raises(AcpCapabilityError, match=r"subagent\.capabilities\.cancel"):
        child.cancel()
    assert (half.take(), child.prompts) == ([], ())
    half.connection.unstable.session_status("child")
    half.connection.unstable.fork_session("child", "/w")
    assert half.methods() == ["session/status", "session/fork"]
    half.take()
    half.session.prompt("hi")
    half.session.cancel()
    assert half.methods() == ["session/prompt", "session/cancel"]


def test_a_subagent_is_cancelled_while_it_allows_that() -> None:
    """Its capability stays until it is told otherwise, and null takes it back (1.6)."""
    half = Follower()
    child = half.subagent(capabilities={"cancel": {}})
    assert child is not None
    half.subagent(title="Reads")
    child.cancel()
    assert half.take() == [{"method": "session/cancel", "params": {"sessionId": "child"}}]
    nothing: dict[str, Any] = {}
    for taken_back in (None, nothing):
        half.subagent(capabilities={"cancel": {}})
        half.subagent(capabilities=taken_back)
        with pytest.raises(AcpCapabilityError):
            child.cancel()
    assert half.take() == []


def test_without_gates_subagents_are_sessions() -> None:
    """A program that tests agents may do to them what it likes."""
    half = Follower(AcpClient.builder(unstable=True).capability_gates(False))
    child = half.subagent()
    assert child is not None
    child.prompt("hi")
    child.cancel()
    assert half.methods() == ["session/prompt", "session/cancel"]


def test_an_agent_can_not_tell_of_any_number_of_subagents() -> None:
    """C{Limits.max_sessions} bounds them (rule 6)."""
    half = Follower(max_sessions=2)
    assert [half.subagent(name) is not None for name in ("a", "b", "c", "a")] == [True, True, False, True]


# ---- nobody meets it by accident


@pytest.mark.parametrize("setters", [AGENT_SETTERS, CLIENT_SETTERS])
def test_handlers_want_to_be_asked_for(setters: dict[str, str]) -> None:
    """Without unstable=True a setter says what to do, also for version 2 alone (it is unstable)."""
    made: Any = AcpClient.builder().protocol_versions(2)
    if setters is AGENT_SETTERS:
        made = AcpAgent.builder().protocol_versions(1, 2).for_versions(2)
    for method, setter in setters.items():
        with pytest.raises(ValueError, match=f"{setter}: {method} is not settled yet.*unstable=True"):
            getattr(made, setter)(print)


def test_calls_and_updates_want_to_be_asked_for() -> None:
    """So do the calls on both ends, and the updates."""
    contexts: list[Any] = []
    agent = AcpAgent.builder().protocol_versions(2).prompt_handler(lambda request, context: contexts.append(context))
    both = Pair(agent, AcpClient.builder())
    success(both.session.prompt("hi").idle)
    with pytest.raises(ValueError, match=r"build the client with unstable=True"):
        both.client.unstable  # noqa: B018
    for end in (both.agent, *contexts):
        with pytest.raises(ValueError, match=r"build the agent with unstable=True"):
            end.unstable  # noqa: B018


PLAIN = """
import sys
from twisted.internet.task import Clock
from acp_twisted import AcpAgent, AcpClient
from acp_twisted.transports.memory import MemoryLink

def done(deferred):
    found = []
    deferred.addCallback(found.append)
    [result] = found
    return result

async def prompt(request, context):
    await context.send_message("hi")

agent = AcpAgent.builder().protocol_versions(1, 2).prompt_handler(prompt).build()
client = AcpClient.builder().protocol_versions(2, 1).track_sessions().build()
clock = Clock()
link = client.connection(clock)
MemoryLink(link.peer, agent.connect(clock).peer, clock)
connection = done(link.initialize())
assert connection.protocol_version == 2
session = done(connection.new_session("/w"))
assert done(session.prompt("hi").idle).stop_reason == "end_turn"
print(*sorted(name for name in sys.modules if name.startswith("acp_twisted.schema.") and "unstable" in name))
"""


def test_nobody_pays_for_it_either() -> None:
    """A whole prompt of version 2 loads none of the unstable classes."""
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)
