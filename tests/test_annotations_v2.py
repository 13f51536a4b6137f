"""
Decorated classes as agents of version 2, and of both versions: which versions a method serves, what it is given, and
what becomes of what it returns.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any, Literal

import pytest
from agent_halves_v2 import INFO, AgentHalf, UnagreedHalf
from conftest import LoggedErrors
from halves import Half
from test_agent_connection import ThreadlessClock
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs, formatEvent
from zope.interface import implementer

from acp_twisted import (
    AcpAgent,
    AcpError,
    AgentConnection,
    CancellationToken,
    PromptContext,
    SyncPromptContext,
    TurnResult,
)
from acp_twisted.agent import annotations as decorators
from acp_twisted.agent.agent import AcpAgentBuilder
from acp_twisted.agent.annotations import (
    ConfigId,
    ConfigValue,
    Cwd,
    FromRequest,
    HandlerMethod,
    HandlerParameter,
    IArgumentResolver,
    Interceptor,
    Invocation,
    IReturnValueHandler,
    MethodId,
    PromptText,
    SessionId,
    SyncAgentConnection,
    accept_prompt,
    acp_agent,
    authenticate,
    blocking,
    build_agent,
    cancel,
    cancel_request,
    cancel_terminal,
    cancel_tool_call,
    close_session,
    delete_session,
    exception_handler,
    ext_notification,
    ext_request,
    initialize,
    list_sessions,
    load_session,
    login,
    logout,
    new_session,
    prompt,
    resume_session,
    set_session_config_option,
    set_session_mode,
)
from acp_twisted.agent.annotations.marks import Mark, marks_of
from acp_twisted.agent.v2.agent import VersionedAgent, VersionedAgentBuilder
from acp_twisted.agent.v2.connection import AgentConnection as SecondConnection
from acp_twisted.agent.v2.context import PromptContext as SecondContext
from acp_twisted.schema import v1, v2
from acp_twisted.schema.converter import unstructure
from acp_twisted.schema.vocabulary import V1, vocabulary

START = {"replayFrom": {"type": "start"}}


def speaking(*versions: int, unstable: bool = False) -> VersionedAgentBuilder:
    """A builder of an agent of these versions."""
    return AcpAgent.builder(unstable=unstable).protocol_versions(*versions)


class Open(Half):
    """An agent of a decorated class, initialized in one version, with the session C{s1}."""

    def __init__(self, definition: object, version: int, *versions: int, **options: Any) -> None:
        clock = Clock()
        made = speaking(*versions, unstable=options.pop("unstable", False))
        super().__init__(build_agent(definition, builder=made, **options).connect(clock), clock)
        self.greeting = self.asks("initialize", protocolVersion=version, **({"info": INFO} if version == 2 else {}))
        self.asks("session/new", cwd="/w", mcpServers=[])

    def asks(self, method: str, **params: Any) -> Any:
        """What the agent answers to a request, without the envelope."""
        self.send({"id": 9, "method": method, "params": params})
        [answer] = [each for each in self.take() if each.get("id") == 9]
        return answer.get("result", answer.get("error", {}).get("code"))

    def prompted(self, text: str = "hi") -> list[dict[str, Any]]:
        """What the agent says to a prompt."""
        params = {"sessionId": "s1", "prompt": [{"type": "text", "text": text}]}
        self.send({"id": 5, "method": "session/prompt", "params": params})
        return self.take()


def texts(messages: list[dict[str, Any]]) -> list[str]:
    """The agent's messages among others."""
    updates = [each["params"]["update"] for each in messages if each.get("method") == "session/update"]
    return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]


def end(messages: list[dict[str, Any]]) -> Any:
    """Why the turn ended: of the answer in version 1, of the last update in version 2."""
    last = messages[-1]
    told = last["result"] if "result" in last else last["params"]["update"]
    return told.get("stopReason")


# ---- version 2 alone


@acp_agent(name="full", version="2.0", title="Full")
class Full:
    """Every method of version 2, in its words, each with parameters of its own."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @initialize
    def greet(self, request: v2.InitializeRequest, capabilities: v2.ClientCapabilities, who: v2.Implementation) -> None:
        self.seen.append((request.protocol_version, capabilities.elicitation, who.name))

    @authenticate
    def sign_in(self, method: MethodId, request: v2.LoginAuthRequest) -> v2.LoginAuthResponse:
        self.seen.append((method, request.method_id))
        return v2.LoginAuthResponse(meta={"m": 1})

    @logout
    def sign_out(self, request: v2.LogoutAuthRequest) -> None:
        self.seen.append(request)

    @new_session
    async def open(self, request: v2.NewSessionRequest, cwd: Cwd) -> v2.NewSessionResponse:
        self.seen.append((request.cwd, cwd))
        return v2.NewSessionResponse(session_id="s1")

    @resume_session
    def resume(
        self,
        session: SessionId,
        start: Annotated[v2.ReplayFrom | None, FromRequest("replay_from")],
        connection: SecondConnection,
        token: CancellationToken,
    ) -> Deferred[v2.ResumeSessionResponse]:
        self.seen.append((session, start, connection.session_ids, token.cancelled))
        return succeed(v2.ResumeSessionResponse())

    @list_sessions
    def listing(self, request: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        self.seen.append(request.cwd)
        return v2.ListSessionsResponse(sessions=[])

    @close_session
    def close(self, request: v2.CloseSessionRequest) -> v2.CloseSessionResponse | None:
        self.seen.append(("close", request.session_id))
        return None

    @delete_session
    def delete(self, request: v2.DeleteSessionRequest, connection: AgentConnection) -> None:
        self.seen.append(("delete", request.session_id, connection.schema))

    @set_session_config_option
    def option(self, config: ConfigId, value: ConfigValue) -> v2.SetSessionConfigOptionResponse:
        self.seen.append((config, value))
        return v2.SetSessionConfigOptionResponse(config_options=[])

    @accept_prompt
    def accept(self, request: v2.PromptRequest, text: PromptText, token: CancellationToken) -> str | None:
        if not text:
            raise AcpError(-32050, "say something")
        self.seen.append((request.session_id, text, token.cancelled))
        return "m1"

    @prompt(image=True)
    async def answer(self, request: v2.PromptRequest, context: SecondContext, text: PromptText) -> v2.IdleStateUpdate:
        assert context.request is request
        await context.send_message(text.upper())
        return v2.IdleStateUpdate(stop_reason="max_tokens", meta={"m": 1})

    @cancel_tool_call
    def stop_call(self, request: v2.CancelToolCallRequest) -> v2.CancelToolCallResponse:
        return v2.CancelToolCallResponse()

    @cancel_terminal
    def stop_terminal(self, request: v2.CancelTerminalRequest) -> v2.CancelTerminalResponse:
        return v2.CancelTerminalResponse()

    @cancel
    def cancelled(self, notice: v2.CancelSessionNotification) -> None:
        self.seen.append(("cancel", notice.session_id))

    @cancel_request
    def withdrawn(self, notice: v2.CancelRequestNotification) -> None:
        self.seen.append(("withdrawn", notice.request_id))

    @ext_request("_twice")
    def twice(self, text: v2.TextContent, capabilities: v2.ClientCapabilities) -> v2.TextContent:
        assert type(capabilities) is v2.ClientCapabilities
        return v2.TextContent(text=text.text * 2)


def test_a_class_in_the_words_of_version_2() -> None:
    """What is passed by annotation, of the version's own classes, and how it answers."""
    agent = Full()
    half = Open(agent, 2, 2)
    assert agent.seen == [(2, None, "raw"), ("/w", "/w")]
    assert half.greeting["info"] == {"name": "full", "version": "2.0", "title": "Full"}
    assert set(half.greeting["capabilities"]["session"]) == {"prompt", "mcp", "delete"}
    assert half.greeting["capabilities"]["session"]["prompt"] == {"image": {}}
    agent.seen.clear()
    assert half.asks("auth/login", methodId="key") == {"_meta": {"m": 1}}
    assert half.asks("auth/logout") == {}
    assert half.asks("session/resume", sessionId="old", cwd="/w", **START) == {}
    assert half.asks("session/list", cwd="/w") == {"sessions": []}
    assert half.asks("session/set_config_option", sessionId="s1", configId="c", type="boolean", value=True) == {
        "configOptions": []
    }
    assert half.asks("session/delete", sessionId="old") == {}
    assert half.asks("session/close", sessionId="s1") == {}
    assert half.asks("_twice", type="text", text="a") == {"type": "text", "text": "aa"}
    half.send({"method": "$/cancel_request", "params": {"requestId": 77}})
    assert agent.seen == [
        ("key", "key"),
        v2.LogoutAuthRequest(),
        ("old", v2.ReplayFromStart(), ("s1", "old"), False),
        "/w",
        ("c", True),
        ("cancel", "old"),
        ("delete", "old", v2),
        ("cancel", "s1"),
        ("close", "s1"),
        ("withdrawn", 77),
    ]


def test_a_prompt_in_the_words_of_version_2() -> None:
    """It is accepted under the method's own id, answered by the method, and refused where that raises."""
    agent = Full()
    half = Open(agent, 2, 2)
    messages = half.prompted()
    assert messages[0] == {"id": 5, "result": {"messageId": "m1"}}
    assert texts(messages) == ["HI"]
    assert messages[-1]["params"]["update"] == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "stopReason": "max_tokens",
        "_meta": {"m": 1},
    }
    assert agent.seen[-1] == ("s1", "hi", False)
    assert [each["error"]["code"] for each in half.prompted("")] == [-32050]


def test_a_prompt_whose_acceptance_fails_is_refused(logged_errors: LoggedErrors) -> None:
    """What an exception handler says in place of an answer does not accept it; another exception is its error."""

    class Agent(Full):
        @accept_prompt
        def accept(self, text: PromptText) -> None:  # type: ignore[override]
            raise KeyError if text else ValueError

        @exception_handler(KeyError)
        def sorry(self) -> str:
            return "sorry"

        @exception_handler(ValueError)
        def refuse(self) -> AcpError:
            return AcpError(-32051, "no")

    half = Open(Agent, 2, 2)
    assert [each["error"]["code"] for each in half.prompted()] == [-32603]
    logged_errors.clear()
    assert [each["error"]["code"] for each in half.prompted("")] == [-32051]


def test_what_the_client_may_stop() -> None:
    """C{tool_call/cancel} and C{terminal/cancel} reach their methods, for what says that it can be cancelled."""

    class Agent(Full):
        @prompt
        async def answer(self, context: SecondContext) -> None:  # type: ignore[override]
            for update in (v2.ToolCallUpdate, v2.TerminalUpdate):
                told: Any = {"tool_call_id": "t", "title": "T"} if update is v2.ToolCallUpdate else {"terminal_id": "t"}
                made: Any = update(**told)
                name = "ToolCall" if update is v2.ToolCallUpdate else "Terminal"
                stops = getattr(v2, f"{name}CancelCapabilities")()
                made.capabilities = getattr(v2, f"{name}Capabilities")(cancel=stops)
                await context.send_update(made)
            await Deferred()

    half = Open(Agent, 2, 2)
    half.prompted()
    assert half.asks("tool_call/cancel", sessionId="s1", toolCallId="t") == {}
    assert half.asks("terminal/cancel", sessionId="s1", terminalId="t") == {}
    assert half.asks("terminal/cancel", sessionId="s1", terminalId="other") == -32602


def test_every_method_of_version_2_has_a_decorator() -> None:
    """Each of its methods, the unstable ones included, and each setter of the builder."""
    others = {"acp_agent", "blocking", "build_agent", "exception_handler", "ext_request", "ext_notification"}
    names = {each for each in decorators.__all__ if each[0].islower()} - others
    marks: dict[str, Mark] = {}
    for name in names:

        def plain() -> None:
            """Nothing."""

        decorate = getattr(decorators, name)
        assert decorate(plain) is plain
        [mark] = marks_of(plain)
        assert isinstance(mark, Mark)
        assert mark.decorator == name
        marks[name] = mark
    for version, builder in ((1, AcpAgentBuilder), (2, VersionedAgentBuilder)):
        words = vocabulary(version)
        methods = {each.name for each in words.methods if each.direction in ("agent", "both")}
        serving = {mark.name_in(version) for mark in marks.values() if version in mark.versions}
        assert serving == methods
        for name, mark in marks.items():
            method = words.get(mark.name_in(version), "request" if mark.is_request else "notification")
            assert (method is not None) == (version in mark.versions) or name == "accept_prompt"
            assert method is None or method.stable is not mark.unstable
            assert hasattr(builder, f"{name}_handler") or version not in mark.versions


# ---- both versions


@acp_agent(name="both", version="1")
class Apart:
    """A method for each version, where both have it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @new_session
    def open(self, request: v1.NewSessionRequest, connection: AgentConnection) -> v1.NewSessionResponse:
        self.seen.append((type(request), type(connection.client_capabilities)))
        return v1.NewSessionResponse(session_id="s1")

    @new_session
    def open_second(self, request: v2.NewSessionRequest, connection: SecondConnection) -> v2.NewSessionResponse:
        self.seen.append((type(request), type(connection.client_capabilities)))
        return v2.NewSessionResponse(session_id="s1")

    @prompt(image=True, audio=True)
    def answer(self, request: v1.PromptRequest) -> v1.PromptResponse:
        self.seen.append(type(request))
        return v1.PromptResponse(stop_reason="refusal")

    @prompt(embedded_context=True)
    def answer_second(self, request: v2.PromptRequest) -> v2.IdleStateUpdate:
        self.seen.append(type(request))
        return v2.IdleStateUpdate(stop_reason="max_tokens")

    @list_sessions
    def listing(self) -> v1.ListSessionsResponse:
        return v1.ListSessionsResponse(sessions=[], next_cursor="first")

    @list_sessions
    def listing_second(self) -> v2.ListSessionsResponse:
        return v2.ListSessionsResponse(sessions=[], next_cursor="second")

    @ext_request("_version")
    def one(self, capabilities: v1.ClientCapabilities) -> int:
        return 1

    @ext_request("_version")
    def two(self, capabilities: v2.ClientCapabilities) -> int:
        return 2

    @cancel
    def stopped(self, notice: v1.CancelNotification) -> None:
        self.seen.append(type(notice))

    @cancel
    def stopped_second(self, notice: v2.CancelSessionNotification) -> None:
        self.seen.append(type(notice))


@pytest.mark.parametrize("version", [1, 2])
def test_a_method_for_each_version(version: int) -> None:
    """Each serves the version whose classes it names, in its parameters, its answers or both."""
    agent = Apart()
    half = Open(agent, version, 1, 2)
    types = vocabulary(version).types
    assert agent.seen == [(types.NewSessionRequest, types.ClientCapabilities)]
    assert end(half.prompted()) == {1: "refusal", 2: "max_tokens"}[version]
    assert agent.seen[-1] is types.PromptRequest
    assert half.asks("session/list")["nextCursor"] == {1: "first", 2: "second"}[version]
    assert half.asks("_version") == version
    half.asks("session/close", sessionId="s1")
    if version == 1:
        assert half.greeting["agentCapabilities"]["promptCapabilities"] == {
            "image": True,
            "audio": True,
            "embeddedContext": False,
        }
    else:
        assert half.greeting["capabilities"]["session"]["prompt"] == {"embeddedContext": {}}
        assert agent.seen[-1] is v2.CancelSessionNotification


@acp_agent(name="together", version="1", mcp_http=True, additional_directories=True)
class Together:
    """Methods for both versions: by unions, by parts, or by naming nothing."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @initialize
    def greet(
        self,
        request: v1.InitializeRequest | v2.InitializeRequest,
        capabilities: v2.ClientCapabilities | v1.ClientCapabilities,
        who: v1.Implementation | v2.Implementation | None,
    ) -> None:
        self.seen += [type(request), type(capabilities), type(who)]

    @new_session
    def open(self, request: v1.NewSessionRequest | v2.NewSessionRequest, cwd: Cwd) -> Any:
        self.seen.append((type(request), cwd))
        return v1.NewSessionResponse(session_id="s1")

    @list_sessions
    def listing(self) -> v1.ListSessionsResponse | v2.ListSessionsResponse:
        return v1.ListSessionsResponse(sessions=[], next_cursor="c")

    @delete_session
    def delete(self, session: SessionId, connection: AgentConnection | SecondConnection) -> None:
        self.seen.append((session, connection.schema))

    @prompt(audio=True)
    async def answer(self, text: PromptText, context: PromptContext | SecondContext, invocation: Invocation) -> str:
        assert invocation.context is context
        self.seen.append((invocation.handler.version, invocation.handler.request_class))
        return text.upper()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("versions", [(1, 2), None])
def test_one_method_for_both_versions(version: int, versions: tuple[int, ...] | None) -> None:
    """It is given what is the version's; the same class does as well for an agent of either version alone."""
    agent = Together()
    half = Open(agent, version, *(versions or (version,)))
    types = vocabulary(version).types
    who = v2.Implementation if version == 2 else type(None)
    assert agent.seen == [types.InitializeRequest, types.ClientCapabilities, who, (types.NewSessionRequest, "/w")]
    assert half.asks("session/list") == {"sessions": [], "nextCursor": "c"}
    assert half.asks("session/delete", sessionId="old") == {}
    messages = half.prompted()
    assert (texts(messages), end(messages)) == (["HI"], "end_turn")
    assert agent.seen[-2:] == [("old", types), (version, types.PromptRequest)]
    if version == 2:
        session = half.greeting["capabilities"]["session"]
        assert session["prompt"] == {"audio": {}}
        assert session["mcp"] == {"stdio": {}, "http": {}}
        assert session["additionalDirectories"] == {}


def test_what_explicit_capabilities_leave_out_is_not_added() -> None:
    """Only what the decorators say is; an agent without sessions stays without."""
    made = speaking(2).agent_capabilities_v2(v2.AgentCapabilities(session=v2.SessionCapabilities()))
    agent = build_agent(Together, builder=made)
    assert isinstance(agent, VersionedAgent)
    session = agent.second.capabilities.session
    assert session is not None
    assert (session.mcp, session.prompt) == (
        v2.McpCapabilities(http=v2.McpHttpCapabilities()),
        v2.PromptCapabilities(audio=v2.PromptAudioCapabilities()),
    )
    agent = build_agent(Together, builder=speaking(2).agent_capabilities_v2(v2.AgentCapabilities()))
    assert isinstance(agent, VersionedAgent)
    assert agent.second.capabilities == v2.AgentCapabilities()


def test_a_version_1_agent_of_the_versioned_builder() -> None:
    """The same class serves an agent of version 1 alone, whatever made it, and nothing of version 2 is asked for."""
    agent = build_agent(Together, builder=speaking(1))
    assert type(agent) is AcpAgent
    assert type(build_agent(Together)) is AcpAgent


def test_a_method_whose_parts_only_one_version_has() -> None:
    """A member of the request that the other version lacks tells which version a method is for."""

    class Agent(Together):
        @resume_session
        def resume(self, start: Annotated[Any, FromRequest("replay_from")]) -> None:
            self.seen.append(start)

    agent = Agent()
    assert Open(agent, 1, 1, 2).asks("session/resume", sessionId="a", cwd="/w", mcpServers=[]) == -32601
    assert Open(agent, 2, 1, 2).asks("session/resume", sessionId="a", cwd="/w") == {}
    assert agent.seen[-1] is None


# ---- what both have by different names


class Resuming(Together):
    """Loads and resumes, in the words of neither version."""

    @load_session
    def load(self, session: SessionId, invocation: Invocation) -> None:
        self.seen.append(("load", session, type(invocation.request), invocation.handler.method))

    @resume_session
    def resume(self, session: SessionId, request: v1.ResumeSessionRequest | v2.ResumeSessionRequest) -> None:
        self.seen.append(("resume", session, type(request)))


class Replaying(Together):
    """Replays in version 2, by a method that was made for it."""

    @resume_session
    def resume(self, request: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        self.seen.append(("resume", request.replay_from))
        return v2.ResumeSessionResponse()

    @load_session
    def load(self, request: v1.LoadSessionRequest) -> v1.LoadSessionResponse:
        self.seen.append("load")
        return v1.LoadSessionResponse()


class Careless(Together):
    """Resumes without knowing of replays."""

    @resume_session
    def resume(self, session: SessionId) -> None:
        self.seen.append("resume")


def test_who_replays() -> None:
    """
    2.20, 2.24: the method that loads, if it serves version 2; else the one that resumes, if it names a class of that
    version, and so can see what is wanted.
    """
    resuming, replaying, careless = Resuming(), Replaying(), Careless()
    params: dict[str, Any] = {"sessionId": "old", "cwd": "/w"}
    for agent in (resuming, replaying, careless):
        half = Open(agent, 2, 1, 2)
        agent.seen.clear()
        assert half.asks("session/resume", **params, **START) == (-32602 if agent is careless else {})
        assert half.asks("session/resume", **params) == {}
    assert resuming.seen == [
        ("load", "old", v2.ResumeSessionRequest, "session/resume"),
        ("resume", "old", v2.ResumeSessionRequest),
    ]
    assert replaying.seen == [("resume", v2.ReplayFromStart()), ("resume", None)]
    assert careless.seen == ["resume"]
    half = Open(resuming, 1, 1, 2)
    resuming.seen.clear()
    assert half.asks("session/load", **params, mcpServers=[]) == {}
    assert half.asks("session/resume", **params, mcpServers=[]) == {}
    assert resuming.seen == [
        ("load", "old", v1.LoadSessionRequest, "session/load"),
        ("resume", "old", v1.ResumeSessionRequest),
    ]


def test_a_replay_in_the_words_of_version_2() -> None:
    """A method that loads may be made for version 2, beside another one that resumes there."""

    class Agent(Together):
        @load_session
        def load(self, request: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
            self.seen.append(request.replay_from)
            return v2.ResumeSessionResponse(meta={"m": 1})

        @resume_session
        def resume(self, request: v2.ResumeSessionRequest) -> None:
            self.seen.append("resume")

    agent = Agent()
    half = Open(agent, 2, 1, 2)
    agent.seen.clear()
    assert half.asks("session/resume", sessionId="old", cwd="/w", **START) == {"_meta": {"m": 1}}
    assert half.asks("session/resume", sessionId="old", cwd="/w") == {}
    assert agent.seen == [v2.ReplayFromStart(), "resume"]
    assert half.greeting["protocolVersion"] == 2
    assert Open(agent, 1, 1, 2).asks("session/load", sessionId="old", cwd="/w", mcpServers=[]) == -32601


WAYS = [v1.AuthMethodAgent(id="k", name="K")]


@pytest.mark.parametrize("own", [False, True])
def test_who_logs_in(own: bool) -> None:
    """C{authenticate} serves both versions, and leaves C{auth/login} to a method of its own if there is one."""

    @acp_agent(name="a", version="1", auth_methods=WAYS)
    class Agent(Together):
        @authenticate
        def sign_in(self, method: MethodId) -> None:
            self.seen.append(("authenticate", method))

        @logout
        def sign_out(self) -> None:
            self.seen.append("out")

    class Own(Agent):
        @login
        def log_in(self, request: v2.LoginAuthRequest) -> None:
            self.seen.append(("login", request.method_id))

    agent = Own() if own else Agent()
    second = Open(agent, 2, 1, 2)
    assert [each["methodId"] for each in second.greeting["authMethods"]] == ["k"]
    assert second.asks("auth/login", methodId="k") == {}
    assert agent.seen[-1] == ("login" if own else "authenticate", "k")
    assert second.asks("auth/logout") == {}
    assert Open(agent, 1, 1, 2).asks("authenticate", methodId="k") == {}
    assert agent.seen[-1] == ("authenticate", "k")


def test_ways_to_log_in_of_each_version() -> None:
    """Those of version 2 take the place of the others there."""

    @acp_agent(name="a", version="1", auth_methods=[*WAYS, v2.AuthMethodAgent(method_id="t", name="T")])
    class Agent(Together):
        @authenticate
        @logout
        def do(self) -> None:
            """Nothing."""

    assert [each["id"] for each in Open(Agent, 1, 1, 2).greeting["authMethods"]] == ["k"]
    assert [each["methodId"] for each in Open(Agent, 2, 1, 2).greeting["authMethods"]] == ["t"]


def test_what_only_version_1_has() -> None:
    """A mode is set in version 1; in version 2 there is none."""

    class Agent(Together):
        @set_session_mode
        def mode(self, request: v1.SetSessionModeRequest) -> None:
            self.seen.append(request.mode_id)

    agent = Agent()
    assert Open(agent, 1, 1, 2).asks("session/set_mode", sessionId="s1", modeId="ask") == {}
    assert agent.seen[-1] == "ask"
    assert Open(agent, 2, 1, 2).asks("session/set_mode", sessionId="s1", modeId="ask") == -32601


PROVIDER: dict[str, Any] = {"providerId": "p"}
TITLED = v2.SetSessionTitleResponse(title="T")
UNSTABLE: list[tuple[str, str, dict[str, Any], Any]] = [
    ("auth_status", "auth/status", {}, v2.AuthStatusResponse(state="authenticated")),
    ("list_providers", "providers/list", {}, v2.ListProvidersResponse(providers=[])),
    ("set_provider", "providers/set", {**PROVIDER, "apiType": "openai", "baseUrl": "https://x.org"}, None),
    ("disable_provider", "providers/disable", PROVIDER, v2.DisableProviderResponse()),
    ("fork_session", "session/fork", {"sessionId": "s1", "cwd": "/w"}, v2.ForkSessionResponse(session_id="s2")),
    ("unarchive_session", "session/unarchive", {"sessionId": "s1"}, None),
    ("session_status", "session/status", {"sessionId": "s1"}, v2.SessionStatusResponse(status="open")),
    (
        "set_session_title",
        "session/set_title",
        {"sessionId": "s1", "title": "T"},
        v2.SetSessionTitleResponse(title="T"),
    ),
    ("archive_session", "session/archive", {"sessionId": "s1"}, v2.ArchiveSessionResponse()),
]


@pytest.mark.parametrize("versions", [(2,), (1, 2)])
def test_what_is_not_settled(versions: tuple[int, ...]) -> None:
    """Version 2 has it too, in classes of its own, each with its decorator, for a builder that takes it."""
    seen: list[Any] = []
    words = vocabulary(2)

    class Agent(Together):
        @decorators.mcp_message
        def told(self, notice: v2.MessageMcpNotification, session: Annotated[str, FromRequest("server_id")]) -> None:
            seen.append(session)

    def method(result: Any) -> Any:
        def handle(self: Any, request: Any) -> Any:
            seen.append(type(request))
            return result

        return handle

    for name, wire, _, result in UNSTABLE:
        function = method(result)
        kind = words.require(wire)
        function.__annotations__ = {"request": kind.params, "return": kind.result if result is not None else None}
        setattr(Agent, name, getattr(decorators, name)(function))
    half = Open(Agent, 2, *versions, unstable=True)
    assert {"fork", "archive", "status", "title"} < set(half.greeting["capabilities"]["session"])
    assert {"providers", "auth"} < set(half.greeting["capabilities"])
    for _, wire, params, result in UNSTABLE:
        assert half.asks(wire, **params) == ({} if result is None else unstructure(result))
        assert seen[-1] is words.require(wire).params
    half.send({"method": "mcp/message", "params": {"serverId": "m", "requestId": "r", "method": "x"}})
    assert seen[-1] == "m"


# ---- what a prompt returns


REASONS = Literal["refusal", "max_tokens"]
RETURNS: list[tuple[Any, Any, list[str], str]] = [
    (Any, "hello", ["hello"], "end_turn"),
    (str, "refusal", ["refusal"], "end_turn"),
    (Any, "", [], "end_turn"),
    (None, None, [], "end_turn"),
    (TurnResult, TurnResult("refusal"), [], "refusal"),
    (TurnResult | str | None, "so", ["so"], "end_turn"),
    (v1.StopReason, "refusal", [], "refusal"),
    (v1.StopReason | None, "_own", [], "_own"),
    (REASONS, "max_tokens", [], "max_tokens"),
    (REASONS | TurnResult, "refusal", [], "refusal"),
    (Literal["yes", "no"], "yes", ["yes"], "end_turn"),
    (Any, v1.PromptResponse(stop_reason="refusal"), [], "refusal"),
]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("annotation", "value", "sent", "reason"), RETURNS)
def test_what_a_prompt_returns(annotation: Any, value: Any, sent: list[str], reason: str, version: int) -> None:
    """A text is sent, unless the annotation says that it is a stop reason; results and nothing end the turn."""

    class Agent(Together):
        async def answer(self) -> Any:  # type: ignore[override]
            return value

    Agent.answer.__annotations__["return"] = annotation
    messages = Open(Agent, version, 1, 2).prompted()
    assert (texts(messages), end(messages)) == (sent, reason)


def test_an_initialize_method_of_version_2() -> None:
    """Its answer is joined with what is derived, as in version 1."""

    class Agent(Together):
        @initialize
        def greet(self) -> v2.InitializeResponse:  # type: ignore[override]
            return v2.InitializeResponse(
                protocol_version=2,
                info=v2.Implementation(name="other", version="9"),
                capabilities=v2.AgentCapabilities(meta={"mine": 1}),
            )

    said = Open(Agent, 2, 2).greeting
    assert said["info"] == {"name": "other", "version": "9"}
    assert said["capabilities"]["_meta"] == {"mine": 1}
    assert said["capabilities"]["session"]["prompt"] == {"audio": {}}
    assert Open(Agent, 1, 1, 2).greeting["agentInfo"] == {"name": "together", "version": "1"}


# ---- what stands around a method


class Where:
    """
    Tells what each sees of a method, whichever it is.

    @ivar seen: who saw, the version, and the class of the request.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, Any]] = []

    def note(self, who: str, handler: HandlerMethod) -> None:
        """Somebody sees."""
        if handler.method == "session/prompt":
            self.seen.append((who, handler.version, handler.request_class))


@implementer(IArgumentResolver, IReturnValueHandler)
class Watching(Interceptor):
    """An interceptor, a resolver and a return-value handler in one."""

    def __init__(self, where: Where) -> None:
        self.where = where
        self.asked: list[tuple[str, int]] = []

    def pre_invoke(self, invocation: Invocation) -> Any:
        self.where.note("interceptor", invocation.handler)
        return True

    def supports(self, it: HandlerMethod | HandlerParameter) -> bool:
        handler = it.handler if isinstance(it, HandlerParameter) else it
        if isinstance(it, HandlerParameter):
            return it.annotation is Where
        self.asked.append((handler.name, handler.version))
        return handler.returns is int

    def resolve(self, parameter: HandlerParameter, invocation: Invocation) -> Where:
        self.where.note("resolver", parameter.handler)
        self.where.note("resolver", invocation.handler)
        return self.where

    def handle(self, value: Any, invocation: Invocation) -> object:
        self.where.note("return handler", invocation.handler)
        return str(value)


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_seen_around_a_method(version: int) -> None:
    """Everyone is told of the method as it serves the connection's version, whether it is one method or two."""

    class Agent(Apart):
        answer_second = None  # type: ignore[assignment]

        @prompt
        def answer(self, where: Where) -> int:  # type: ignore[override]
            raise KeyError

        @exception_handler(KeyError)
        def fail(self, error: KeyError, invocation: Invocation) -> int:
            self.seen.append(("failed", invocation.handler.version))
            return 7

    watching = Watching(Where())
    agent = Agent()
    options = {"interceptors": [watching], "argument_resolvers": [watching], "return_value_handlers": [watching]}
    half = Open(agent, version, 1, 2, **options)
    assert texts(half.prompted()) == ["7"]
    request = vocabulary(version).types.PromptRequest
    seen = ["interceptor", "resolver", "resolver", "return handler"]
    assert watching.where.seen == [(each, version, request) for each in seen]
    assert agent.seen[-1] == ("failed", version)
    assert watching.asked.count(("answer", 1)) == watching.asked.count(("answer", 2)) == 1


def test_an_exception_handler_for_each_version() -> None:
    """It serves the version whose classes it names, as every other method; the other version has another, or none."""

    class Agent(Together):
        @prompt
        def answer(self) -> None:  # type: ignore[override]
            raise KeyError

        @exception_handler(KeyError)
        def first(self, error: KeyError, capabilities: v1.ClientCapabilities) -> str:
            return "one"

        @exception_handler(KeyError)
        def second(self, capabilities: v2.ClientCapabilities, who: v2.Implementation) -> str:
            return f"two {who.name}"

    assert texts(Open(Agent, 1, 1, 2).prompted()) == ["one"]
    assert texts(Open(Agent, 2, 1, 2).prompted()) == ["two raw"]


# ---- in a thread


class Blocking(Together):
    """Methods of version 2 that block."""

    @prompt(blocking=True)
    def answer(self, request: v2.PromptRequest, context: SyncPromptContext) -> str:  # type: ignore[override]
        context.send_thought("hm")
        return type(request).__module__

    @accept_prompt
    @blocking
    def accept(self, text: PromptText, connection: SyncAgentConnection) -> None:
        self.seen.append((text, type(connection.client_capabilities)))

    @delete_session
    @blocking
    def delete(self, request: v2.DeleteSessionRequest) -> None:  # type: ignore[override]
        self.seen.append(request.session_id)


@pytest.mark.parametrize("versions", [(2,), (1, 2)])
def test_methods_of_version_2_that_block(versions: tuple[int, ...]) -> None:
    """They are called in the pool, with what blocks there, and the reactor sends what they return."""
    clock = ThreadlessClock()
    agent = Blocking()
    made = speaking(*versions)
    if 1 in versions:
        made.for_versions(1).prompt_handler(lambda request: None).for_versions(1, 2)
    build_agent(agent, builder=made)
    half = AgentHalf(made, clock=clock)
    half.prompt()
    half.send({"id": 6, "method": "session/delete", "params": {"sessionId": "old"}})
    assert half.take() == []
    while clock.pool.jobs:
        clock.pool.run()
    assert half.said() == [
        "5: inserted",
        "user_message",
        "running",
        "6: done",
        "agent_thought_chunk: hm",
        "agent_message_chunk: acp_twisted.schema.v2",
        "idle end_turn",
    ]
    assert agent.seen[-2:] == [("hi", v2.ClientCapabilities), "old"]


# ---- beside the builder's own handlers


def test_a_builder_that_sets_for_one_version() -> None:
    """The class serves the versions that handlers are set for at present, and the builder goes on with those."""
    made = speaking(1, 2).prompt_handler(lambda request: "refusal")
    made.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s1"))
    made.for_versions(2)
    build_agent(Full, builder=made)
    assert made.chosen_versions == (2,)
    assert made.spoken_versions == (1, 2)
    half = AgentHalf(made)
    half.prompt()
    assert half.said()[-2:] == ["agent_message_chunk: HI", "idle max_tokens"]
    first = UnagreedHalf(made)
    first.initialize(1)
    first.send({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}})
    params = {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]}
    first.send({"id": 2, "method": "session/prompt", "params": params})
    assert first.take()[-1]["result"]["stopReason"] == "refusal"


def test_what_one_version_lacks_is_logged() -> None:
    """A method for one version alone may be a mistake; what both have, or only one can have, is no matter."""

    class Agent(Apart):
        listing_second = None  # type: ignore[assignment]
        stopped = None  # type: ignore[assignment]

        @set_session_mode
        def mode(self) -> None:
            """Nothing."""

        @load_session
        def load(self, request: v1.LoadSessionRequest) -> None:
            """Nothing."""

        @ext_notification("_told")
        def told(self, capabilities: v1.ClientCapabilities) -> None:
            """Nothing."""

    with capturedLogs() as events:
        build_agent(Agent, builder=speaking(1, 2))
    said = [formatEvent(each) for each in events if each["log_level"] is LogLevel.warn]
    assert said == [
        "Agent.listing (@list_sessions) does not serve version 2, and nothing else handles session/list there",
        "Agent.stopped_second (@cancel) does not serve version 1, and nothing else handles session/cancel there",
        "Agent.told (@ext_notification) does not serve version 2, and nothing else handles _told there",
    ]
    with capturedLogs() as events:
        build_agent(Apart, builder=speaking(1, 2))
        build_agent(Full, builder=speaking(2))
    assert events == []


def test_a_decorated_agent_of_version_1_loads_nothing_of_version_2() -> None:
    """Neither the decorators nor an agent of a class with them."""
    script = (
        "import sys\n"
        "from twisted.internet.task import Clock\n"
        "import acp_twisted.agent.annotations as a\n"
        "from acp_twisted import PromptContext\n"
        "from acp_twisted.schema import v1\n"
        "@a.acp_agent(name='a', version='1')\n"
        "class Agent:\n"
        "    @a.prompt\n"
        "    def answer(self, request: v1.PromptRequest, context: PromptContext, who: v1.Implementation | None):\n"
        "        return ''\n"
        "a.build_agent(Agent).connect(Clock())\n"
        "rooms = ('v2', 'v2_unstable', 'methods_v2', 'gates_v2', 'foreground', '_foreground_machine', 'negotiation')\n"
        "ours = [name for name in sys.modules if name.startswith('acp_twisted')]\n"
        "print([name for name in ours if set(name.split('.')) & set(rooms)])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"
    assert V1.version == 1
