"""
What may pass between two peers: capabilities, paths and the order of things, on both halves.

The two tables have a row for each way to ask for something that needs a capability.  Each is tried twice: of a peer
that offers nothing, and of one that offers just that.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from halves import AgentHalf, ClientHalf
from twisted.internet.defer import Deferred
from twisted.logger import LogLevel, capturedLogs, formatEvent
from wire import failure

from acp_twisted import AcpAgent, AcpClient
from acp_twisted.agent.agent import SETTERS as AGENT_SETTERS
from acp_twisted.agent.agent import AcpAgentBuilder
from acp_twisted.client.client import SETTERS as CLIENT_SETTERS
from acp_twisted.client.client import AcpClientBuilder
from acp_twisted.errors import AcpCapabilityError, AcpConnectionError, NotInitialized
from acp_twisted.gates import V1_RULES, advertises, is_absolute
from acp_twisted.schema import v1
from acp_twisted.schema.values import Model
from acp_twisted.schema.vocabulary import V1

FORM = v1.ElicitationFormMode(message="?", session_id="s1", requested_schema=v1.ElicitationSchema())
URL = v1.ElicitationUrlMode(message="?", session_id="s1", elicitation_id="e1", url="https://example.org/")
HTTP = v1.McpServerHttp(name="m", url="https://example.org/", headers=[])
SSE = v1.McpServerSse(name="m", url="https://example.org/", headers=[])
STDIO = v1.McpServerStdio(name="m", command="/bin/m", args=[], env=[])
TEXT = v1.TextContent(text="hi")


def nest(capability: str, value: object) -> dict[str, Any]:
    """Capabilities that have this and nothing else."""
    for name in reversed(capability.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def agent(handler: Callable[..., Any] = lambda request: Deferred()) -> AcpAgentBuilder:
    """An agent whose turns never end by themselves, and whose session is C{s1}."""
    builder = AcpAgent.builder().prompt_handler(handler)
    return builder.new_session_handler(lambda request: v1.NewSessionResponse(session_id="s1"))


def prompt(*blocks: Any) -> v1.PromptRequest:
    """A prompt of these blocks."""
    return v1.PromptRequest(session_id="s1", prompt=list(blocks))


def opening(kind: Any, **more: Any) -> Any:
    """One of the requests that open a session."""
    own = {} if kind is v1.NewSessionRequest else {"session_id": "s2"}
    return kind(cwd="/w", **own, **({"mcp_servers": []} | more))


AGENT_ASKS: list[tuple[str, object, Any]] = [
    ("fs.readTextFile", True, v1.ReadTextFileRequest(session_id="s1", path="/f")),
    ("fs.writeTextFile", True, v1.WriteTextFileRequest(session_id="s1", path="/f", content="")),
    ("terminal", True, v1.CreateTerminalRequest(session_id="s1", command="ls")),
    ("terminal", True, v1.TerminalOutputRequest(session_id="s1", terminal_id="t")),
    ("terminal", True, v1.WaitForTerminalExitRequest(session_id="s1", terminal_id="t")),
    ("terminal", True, v1.KillTerminalRequest(session_id="s1", terminal_id="t")),
    ("terminal", True, v1.ReleaseTerminalRequest(session_id="s1", terminal_id="t")),
    ("elicitation.form", {}, FORM),
    ("elicitation.url", {}, URL),
    ("elicitation", {}, v1.CreateElicitationRequest(mode="_voice", message="?", session_id="s1")),
]

AGENT_TELLS: list[tuple[str, object, Any]] = [
    ("session.notices", {}, v1.Notice(severity="info", title="t")),
    ("session.compaction", {}, v1.CompactionUpdate(compaction_id="c", status="in_progress")),
    ("session.compaction", {}, v1.CompactionSummaryChunk(compaction_id="c", content=TEXT)),
    ("plan", {}, v1.PlanUpdate(plan=v1.PlanMarkdown(plan_id="p", content=""))),
    ("plan", {}, v1.PlanRemoved(plan_id="p")),
    ("subagents", {}, v1.SubagentUpdate(session_id="s2")),
    ("subagents", {}, v1.SessionMessage(message_id="m")),
    ("subagents", {}, v1.SessionMessageChunk(message_id="m", content=TEXT)),
]

IN_SESSION: list[tuple[str, object, Any]] = [
    ("mcpCapabilities.http", True, {"mcp_servers": [STDIO, HTTP]}),
    ("mcpCapabilities.sse", True, {"mcp_servers": [SSE]}),
    ("mcpCapabilities.acp", True, {"mcp_servers": [v1.McpServerAcp(name="m", server_id="i")]}),
    ("sessionCapabilities.additionalDirectories", {}, {"additional_directories": ["/x"]}),
    ("sessionCapabilities.systemPrompt", {}, {"system_prompt": v1.SystemPrompt(mode="append", content=[TEXT])}),
]

CLIENT_ASKS: list[tuple[str, object, Any]] = [
    ("auth.logout", {}, v1.LogoutRequest()),
    ("auth.status", {}, v1.AuthStatusRequest()),
    ("loadSession", True, opening(v1.LoadSessionRequest)),
    ("sessionCapabilities.resume", {}, opening(v1.ResumeSessionRequest)),
    ("sessionCapabilities.list", {}, v1.ListSessionsRequest()),
    ("sessionCapabilities.delete", {}, v1.DeleteSessionRequest(session_id="s1")),
    ("sessionCapabilities.close", {}, v1.CloseSessionRequest(session_id="s1")),
    ("sessionCapabilities.fork", {}, opening(v1.ForkSessionRequest)),
    ("sessionCapabilities.archive", {}, v1.ArchiveSessionRequest(session_id="s1")),
    ("sessionCapabilities.archive", {}, v1.UnarchiveSessionRequest(session_id="s1")),
    ("sessionCapabilities.status", {}, v1.SessionStatusRequest(session_id="s1")),
    ("sessionCapabilities.title", {}, v1.SetSessionTitleRequest(session_id="s1", title="t")),
    ("providers", {}, v1.ListProvidersRequest()),
    ("providers", {}, v1.SetProviderRequest(provider_id="p", api_type="openai", base_url="https://example.org/")),
    ("providers", {}, v1.DisableProviderRequest(provider_id="p")),
    ("promptCapabilities.image", True, prompt(TEXT, v1.ImageContent(data="", mime_type="image/png"))),
    ("promptCapabilities.audio", True, prompt(v1.AudioContent(data="", mime_type="audio/wav"))),
    (
        "promptCapabilities.embeddedContext",
        True,
        prompt(v1.EmbeddedResource(resource=v1.TextResourceContents(uri="file:///f", text=""))),
    ),
    *((capability, value, opening(v1.NewSessionRequest, **more)) for capability, value, more in IN_SESSION),
]


def named(value: object) -> str | None:
    """The row's name, for pytest."""
    return value if isinstance(value, str) else type(value).__name__ if isinstance(value, Model) else ""


# ---- what the agent may ask


@pytest.mark.parametrize(("capability", "value", "request_"), AGENT_ASKS, ids=named)
def test_an_agent_asks_only_what_the_client_offers(capability: str, value: object, request_: Any) -> None:
    """
    What the client left out of initialize is not asked of it, and the error names it (1.17, INIT-OMITTED-UNSUPPORTED,
    FS-AGENT-NO-CALL-WITHOUT-CAPABILITY, TERM-AGENT-NO-CALL-WITHOUT-CAPABILITY, ELIC-AGENT-NO-UNADVERTISED-MODE).
    """
    bare = AgentHalf(agent().build(), capabilities={})
    with pytest.raises(AcpCapabilityError) as refused:
        bare.connection.call(request_)
    assert refused.value.capability == capability
    assert bare.take() == []
    offering = AgentHalf(agent().build(), capabilities=nest(capability, value))
    assert offering.connection.supports(capability)
    offering.connection.call(request_)
    assert len(offering.take()) == 1


@pytest.mark.parametrize(("capability", "value", "update"), AGENT_TELLS, ids=named)
def test_an_agent_tells_only_what_the_client_understands(capability: str, value: object, update: Any) -> None:
    """Kinds of update that came later are only for clients that know them (1.17)."""
    bare = AgentHalf(agent().build(), capabilities={})
    with pytest.raises(AcpCapabilityError) as refused:
        bare.connection.send_update("s1", update)
    assert refused.value.capability == capability
    assert bare.take() == []
    offering = AgentHalf(agent().build(), capabilities=nest(capability, value))
    offering.connection.send_update("s1", update)
    assert len(offering.take()) == 1


def test_false_and_null_are_no_offer() -> None:
    """A capability that is there counts unless it is false or null; {} of elicitation is no mode (1.17)."""
    half = AgentHalf(agent().build(), capabilities={"fs": {"readTextFile": False}, "terminal": None, "elicitation": {}})
    for capability in ("fs.readTextFile", "terminal", "elicitation.form", "elicitation.url", "nothing.of.that", ""):
        assert not half.connection.supports(capability)
        with pytest.raises(AcpCapabilityError):
            half.connection.require(capability)
    half.connection.require("elicitation")


def test_a_handler_that_asks_too_much_fails_like_any_other() -> None:
    """A refusal of our own never gets on the wire: the prompt is answered "Internal error" (1.17)."""

    async def handler(request: v1.PromptRequest, context: Any) -> str:
        return str(await context.read_file("/f"))

    half = AgentHalf(agent(handler).build(), capabilities={})
    half.prompt()
    assert half.answers() == [{"error": {"code": -32603, "message": "Internal error"}}]


def test_gates_can_be_left_open() -> None:
    """Whoever tests a peer may ask what it does not offer, and name any path (1.01, 1.17)."""
    half = AgentHalf(agent().capability_gates(False).absolute_paths(False).build(), capabilities={})
    half.connection.call(v1.ReadTextFileRequest(session_id="s1", path="f"))
    assert half.take()[0]["params"] == {"sessionId": "s1", "path": "f"}
    other = ClientHalf(AcpClient.builder().capability_gates(False).absolute_paths(False).build(), capabilities={})
    other.connection.list_sessions("w")
    assert other.take()[0]["params"] == {"cwd": "w"}


# ---- what the client may ask


@pytest.mark.parametrize(("capability", "value", "request_"), CLIENT_ASKS, ids=named)
def test_a_client_asks_only_what_the_agent_offers(capability: str, value: object, request_: Any) -> None:
    """
    AUTH-CLIENT-NO-LOGOUT-WITHOUT-CAPABILITY, SETUP-CLIENT-CHECK-LOADSESSION, SETUP-CLIENT-CHECK-RESUME,
    SETUP-CLIENT-CHECK-CLOSE, LIST-CLIENT-CHECK-CAPABILITY, DELETE-CLIENT-CHECK-CAPABILITY, SETUP-CLIENT-CHECK-MCP-
    TRANSPORT, SETUP-CLIENT-ADDITIONAL-DIRS-ONLY-WITH-CAPABILITY, PROMPT-CLIENT-RESTRICT-CONTENT.
    """
    bare = ClientHalf(AcpClient.builder().build(), capabilities={})
    with pytest.raises(AcpCapabilityError) as refused:
        bare.connection.call(request_)
    assert refused.value.capability == capability
    assert bare.take() == []
    offering = ClientHalf(AcpClient.builder().build(), capabilities=nest(capability, value))
    offering.connection.call(request_)
    assert len(offering.take()) == 1


@pytest.mark.parametrize("kind", [v1.LoadSessionRequest, v1.ResumeSessionRequest, v1.ForkSessionRequest])
@pytest.mark.parametrize(("capability", "value", "more"), IN_SESSION, ids=named)
def test_every_way_into_a_session_is_held_to_the_same(kind: Any, capability: str, value: object, more: Any) -> None:
    """MCP servers, directories and system prompts are looked at in load, resume and fork too (1.46, 1.48)."""
    offered = {"loadSession": True, "sessionCapabilities": {"resume": {}, "fork": {}}}
    bare = ClientHalf(AcpClient.builder().build(), capabilities=offered)
    with pytest.raises(AcpCapabilityError) as refused:
        bare.connection.call(opening(kind, **more))
    assert refused.value.capability == capability
    assert bare.take() == []


def test_replacing_the_system_prompt_is_a_capability_of_its_own() -> None:
    """Only an agent that says so lets its own system prompt be replaced; what it did not advertise it refuses."""
    override = v1.SystemPrompt(mode="override", content=[TEXT])
    appending = ClientHalf(AcpClient.builder().build(), capabilities=nest("sessionCapabilities.systemPrompt", {}))
    with pytest.raises(AcpCapabilityError, match=r"sessionCapabilities\.systemPrompt\.mode\.override"):
        appending.connection.call(opening(v1.NewSessionRequest, system_prompt=override))
    half = AgentHalf(agent().build())
    said = {"mode": "append", "content": [{"type": "text", "text": "x"}]}
    half.send({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": [], "systemPrompt": said}})
    assert half.answers(1)[0]["error"]["code"] == -32602
    assert half.answers(1)[0]["error"]["data"] == [
        {"path": "$.systemPrompt", "reason": "sessionCapabilities.systemPrompt is not advertised"}
    ]


def test_what_everybody_takes_needs_nothing() -> None:
    """Text, links and servers on stdio are for every agent (1.19, 1.48, INIT-PROMPT-BASELINE)."""
    half = ClientHalf(AcpClient.builder().build(), capabilities={})
    half.connection.new_session("/w", [STDIO])
    half.connection.call(prompt(TEXT, v1.ResourceLink(uri="file:///f", name="f")))
    assert half.methods() == ["session/new", "session/prompt"]


def test_a_refused_prompt_leaves_the_session_free() -> None:
    """A prompt that is not sent is no turn: the next one is (V1C11)."""
    half = ClientHalf(AcpClient.builder().build(), capabilities={})
    with pytest.raises(AcpCapabilityError):
        half.session.prompt([v1.ImageContent(data="", mime_type="image/png")])
    half.session.prompt("hi")
    assert half.methods() == ["session/prompt"]


# ---- the order of things


def test_nothing_comes_before_initialize() -> None:
    """
    Neither side asks or tells anything of the protocol before initialize is answered; extensions are free
    (CLIENT-INITIALIZE-FIRST, SETUP-INIT-BEFORE-SESSION, LIST-INIT-FIRST, DELETE-INIT-FIRST, FS-AGENT-CHECK-CAPABILITY).
    """
    client = ClientHalf(AcpClient.builder().build(), opened=False)
    for call in (
        lambda: client.connection.new_session("/w"),
        client.connection.list_sessions,
        lambda: client.connection.cancel("s1"),
    ):
        with pytest.raises(NotInitialized, match=r"call initialize\(\) first"):
            call()
    half = AgentHalf(agent().build(), opened=False)
    with pytest.raises(NotInitialized, match="the client has not initialized"):
        half.connection.call(v1.ReadTextFileRequest(session_id="s1", path="/f"))
    with pytest.raises(NotInitialized):
        half.connection.send_update("s1", v1.Plan(entries=[]))
    assert client.take() == half.take() == []
    client.connection.ext_request("_x")
    half.connection.ext_notification("_y")
    assert [client.take()[0]["method"], half.take()[0]["method"]] == ["_x", "_y"]


def test_nothing_comes_after_the_end() -> None:
    """Once a connection is closed, whatever is asked fails at once, and nothing is sent (X9)."""
    half = ClientHalf(AcpClient.builder().build())
    half.connection.close()
    assert not half.connection.is_open
    failure(half.connection.list_sessions(), AcpConnectionError)
    assert half.take() == []


# ---- promises


def test_promises_that_nothing_keeps() -> None:
    """Explicit capabilities without handlers are refused when an agent is built, all of them, with the remedy."""
    said = v1.AgentCapabilities(
        load_session=True,
        session_capabilities=v1.SessionCapabilities(
            list=v1.SessionListCapabilities(), fork=v1.SessionForkCapabilities()
        ),
        auth=v1.AgentAuthCapabilities(logout=v1.LogoutCapabilities()),
    )
    with pytest.raises(ValueError, match="promise what nothing handles") as refused:
        agent().list_sessions_handler(print).agent_capabilities(said).build()
    for told in (
        "loadSession needs load_session_handler",
        "auth.logout needs logout_handler",
        "sessionCapabilities.fork needs fork_session_handler",
    ):
        assert told in str(refused.value)
    assert "sessionCapabilities.list" not in str(refused.value)
    with pytest.raises(ValueError, match="authenticate_handler"):
        agent().auth_methods([v1.AuthMethodAgent(id="a", name="A")]).build()


def test_promises_that_no_client_keeps() -> None:
    """The same of a client (INIT-CLIENT-SPECIFY-CAPABILITIES)."""
    said = v1.ClientCapabilities(
        fs=v1.FileSystemCapabilities(read_text_file=True),
        terminal=True,
        elicitation=v1.ElicitationCapabilities(url=v1.ElicitationUrlCapabilities()),
    )
    with pytest.raises(ValueError, match="promise what nothing handles") as refused:
        AcpClient.builder().kill_terminal_handler(print).client_capabilities(said).build()
    for setter in ("read_text_file", "create_terminal", "terminal_output", "release_terminal", "create_elicitation"):
        assert f"{setter}_handler" in str(refused.value)
    assert "kill_terminal_handler" not in str(refused.value)


def test_explicit_capabilities_win() -> None:
    """What is said is sent, whatever the handlers are: one that nobody is told of is only worth a warning."""
    said = v1.ClientCapabilities(terminal=False)
    client = AcpClient.builder().read_text_file_handler(print).client_capabilities(said).build()
    assert client.capabilities is said


@pytest.mark.parametrize(("builder", "setters"), [(AcpAgentBuilder, AGENT_SETTERS), (AcpClientBuilder, CLIENT_SETTERS)])
def test_the_setters_that_messages_name(builder: Any, setters: dict[str, str]) -> None:
    """Every setter that a message can name is there, and handles that method and no other."""
    for method, setter in setters.items():
        made = builder(unstable=True)
        getattr(made, setter)(print)
        assert method == "session/update" or list(made._handlers._by_method) == [method]
    side = "agent" if builder is AcpAgentBuilder else "client"
    known = {each.name for each in V1.methods if each.direction in (side, "both")} - {"session/prompt"}
    assert set(setters) == known


def test_the_rules_name_what_there_is() -> None:
    """Every class, attribute and capability that the rules of version 1 name is one of the protocol's."""
    tables: list[Any] = [V1_RULES.needs, V1_RULES.refused, V1_RULES.left_out, V1_RULES.paths, V1_RULES.shown]
    for table in [*tables, V1_RULES.inside]:
        for name, rules in table.items():
            assert issubclass(getattr(v1, name), Model)
            for rule in [rules] if isinstance(rules, str) else rules:
                member = rule if isinstance(rule, str) else getattr(rule, "member", None) or ".".join(rule.members)
                assert not member or member.split(".")[0] in getattr(v1, name).WIRE
                kind = getattr(rule, "kind", None)
                assert kind is None or issubclass(getattr(v1, kind), Model)


# ---- paths


@pytest.mark.parametrize("path", ["/", "/tmp/x", "C:\\x", "c:/x", "\\\\server\\share"])
def test_absolute_paths(path: str) -> None:
    """A path is absolute where its owner lives, which may be Windows (1.01, OVERVIEW-ABSOLUTE-PATHS)."""
    assert is_absolute(path)


@pytest.mark.parametrize("path", ["", "x", "./x", "../x", "~", "~/x", "C:", "C:x", "\\x", "file:///x", "1:/x"])
def test_relative_paths(path: str) -> None:
    """And these are not (1.01, OVERVIEW-ABSOLUTE-PATHS)."""
    assert not is_absolute(path)


CLIENT_PATHS: list[Callable[[Any], Any]] = [
    lambda c: c.new_session("w"),
    lambda c: c.new_session("/w", (), ["x"]),
    lambda c: c.load_session("s", "w"),
    lambda c: c.load_session("s", "/w", (), ["/x", "y"]),
    lambda c: c.resume_session("s", "w"),
    lambda c: c.list_sessions("w"),
]


@pytest.mark.parametrize("ask", CLIENT_PATHS)
def test_a_client_names_absolute_paths(ask: Callable[[Any], Any]) -> None:
    """A relative directory never leaves the client (SETUP-CWD-ABSOLUTE, SETUP-ADDITIONAL-DIRS-ABSOLUTE, 1.46, 1.47)."""
    half = ClientHalf(AcpClient.builder().build())
    with pytest.raises(ValueError, match="must be absolute"):
        ask(half.connection)
    assert half.take() == []


AGENT_PATHS: list[Callable[[Any], Any]] = [
    lambda c: c.call(v1.ReadTextFileRequest(session_id="s1", path="f")),
    lambda c: c.call(v1.WriteTextFileRequest(session_id="s1", path="f", content="")),
    lambda c: c.call(v1.CreateTerminalRequest(session_id="s1", command="ls", cwd="x")),
    lambda c: c.send_update("s1", v1.ToolCall(tool_call_id="t", title="t", locations=[v1.ToolCallLocation(path="f")])),
    lambda c: c.send_update("s1", v1.ToolCallUpdate(tool_call_id="t", content=[v1.Diff(path="f", new_text="")])),
]


@pytest.mark.parametrize("ask", AGENT_PATHS)
def test_an_agent_names_absolute_paths(ask: Callable[[Any], Any]) -> None:
    """A relative file never leaves the agent (OVERVIEW-ABSOLUTE-PATHS, 1.01)."""
    half = AgentHalf(agent().build())
    with pytest.raises(ValueError, match="must be absolute"):
        ask(half.connection)
    assert half.take() == []


@pytest.mark.parametrize(
    ("method", "params", "where"),
    [
        ("session/new", {"cwd": "w", "mcpServers": []}, "$.cwd"),
        ("session/new", {"cwd": "/w", "mcpServers": [], "additionalDirectories": ["x"]}, "$.additionalDirectories"),
        ("session/load", {"sessionId": "s2", "cwd": "", "mcpServers": []}, "$.cwd"),
        ("session/resume", {"sessionId": "s2", "cwd": "~"}, "$.cwd"),
        ("session/list", {"cwd": "."}, "$.cwd"),
    ],
)
def test_an_agent_refuses_relative_paths(method: str, params: dict[str, Any], where: str) -> None:
    """-32602, with the place and not the value, and no handler is called (SETUP-CWD-ABSOLUTE, 1.47)."""
    builder = AcpAgent.builder().prompt_handler(print)
    for setter in ("new_session", "load_session", "resume_session", "list_sessions"):
        getattr(builder, f"{setter}_handler")(lambda request: pytest.fail("called"))
    half = AgentHalf(builder.build(), opened=False)
    half.send({"id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
    half.send({"id": 2, "method": method, "params": params})
    error = half.answers(2)[0]["error"]
    assert error["code"] == -32602
    assert error["data"] == [{"path": where, "reason": "must be absolute"}]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("fs/read_text_file", {"path": "f"}),
        ("fs/write_text_file", {"path": "f", "content": ""}),
        ("terminal/create", {"command": "ls", "cwd": "x"}),
    ],
)
def test_a_client_refuses_relative_paths(method: str, params: dict[str, Any]) -> None:
    """The same on the client's side (OVERVIEW-ABSOLUTE-PATHS, 1.01)."""
    builder = AcpClient.builder()
    for setter in ("read_text_file", "write_text_file", "create_terminal"):
        getattr(builder, f"{setter}_handler")(lambda request: pytest.fail("called"))
    half = ClientHalf(builder.build())
    half.send({"id": 2, "method": method, "params": {"sessionId": "s1", **params}})
    assert half.take()[0]["error"]["code"] == -32602


# ---- what is left out for some


SWITCH = v1.SessionConfigBoolean(id="b", name="B", current_value=True)
CHOICE = v1.SessionConfigSelect(
    id="c", name="C", current_value="x", options=[v1.SessionConfigSelectOption(value="x", name="X")]
)
OPTIONS: list[Any] = [SWITCH, CHOICE]
BOOLEANS = nest("session.configOptions.boolean", {})
OPENERS: dict[str, Any] = {
    "session/new": v1.NewSessionResponse(session_id="s1", config_options=OPTIONS),
    "session/load": v1.LoadSessionResponse(config_options=OPTIONS),
    "session/resume": v1.ResumeSessionResponse(config_options=OPTIONS),
    "session/fork": v1.ForkSessionResponse(session_id="s3", config_options=OPTIONS),
    "session/set_config_option": v1.SetSessionConfigOptionResponse(config_options=OPTIONS),
}


@pytest.mark.parametrize(("capabilities", "shown"), [({}, ["c"]), (BOOLEANS, ["b", "c"])])
def test_switches_are_for_clients_that_know_them(capabilities: dict[str, Any], shown: list[str]) -> None:
    """
    Boolean options are left out of every answer and update for clients that did not advertise them
    (CONFIG-NO-BOOLEAN-WITHOUT-CAPABILITY, CONFIG-BOOLEAN-ONLY-AFTER-CAPABILITY-MAY, 1.91).
    """
    builder = AcpAgent.builder(unstable=True).prompt_handler(lambda request: Deferred())
    for method, response in OPENERS.items():
        getattr(builder, AGENT_SETTERS[method])(lambda request, _, response=response: response)
    half = AgentHalf(builder.build(), opened=False)
    half.send({"id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": capabilities}})
    for method in OPENERS:
        params = {"sessionId": "s1", "cwd": "/w", "mcpServers": [], "configId": "c", "value": "x"}
        half.send({"id": method, "method": method, "params": params})
        answer = half.answers(method)[0]["result"]
        assert [each["id"] for each in answer["configOptions"]] == shown
    half.take()
    half.connection.send_update("s1", v1.ConfigOptionUpdate(config_options=OPTIONS))
    sent = half.take()[0]["params"]["update"]["configOptions"]
    assert [each["id"] for each in sent] == shown
    assert OPTIONS == [SWITCH, CHOICE]


@pytest.mark.parametrize(("terminal", "shown"), [(False, ["a"]), (True, ["a", "t"])])
def test_terminal_logins_are_for_clients_with_terminals(terminal: bool, shown: list[str]) -> None:
    """Also when the agent answers initialize itself (AUTH-AGENT-TERMINAL-METHOD-ONLY-WITH-CAPABILITY, 1.33)."""
    methods: list[Any] = [v1.AuthMethodAgent(id="a", name="A"), v1.AuthMethodTerminal(id="t", name="T")]
    own = agent().initialize_handler(lambda request: v1.InitializeResponse(protocol_version=1, auth_methods=methods))
    derived = agent().auth_methods(methods).authenticate_handler(print)
    for builder in (own, derived):
        half = AgentHalf(builder.build(), opened=False)
        params = {"protocolVersion": 1, "clientCapabilities": {"auth": {"terminal": terminal}}}
        half.send({"id": 0, "method": "initialize", "params": params})
        assert [each["id"] for each in half.answers(0)[0]["result"]["authMethods"]] == shown


# ---- elicitations of modes that were not advertised


@pytest.mark.parametrize("mode", ["form", "url", "_voice"])
def test_a_client_refuses_modes_that_it_did_not_advertise(mode: str) -> None:
    """
    -32602, with a handler and without; of no mode that it does not know is a known one made
    (ELIC-CLIENT-UNADVERTISED-MODE-INVALID-PARAMS, ELIC-CLIENT-UNKNOWN-MODE-NOT-RENDERED-AS-KNOWN).
    """
    other = {"form": "url", "url": "form", "_voice": "form"}[mode]
    handler = AcpClient.builder().create_elicitation_handler(lambda request: pytest.fail("called"))
    kinds: dict[str, Any] = {"url": v1.ElicitationUrlCapabilities(), "form": v1.ElicitationFormCapabilities()}
    offered = v1.ElicitationCapabilities(**{other: kinds[other]})
    for builder in (AcpClient.builder(), handler.client_capabilities(v1.ClientCapabilities(elicitation=offered))):
        half = ClientHalf(builder.build())
        params = {"mode": mode, "message": "?", "sessionId": "s1", "elicitationId": "e", "url": "https://example.org/"}
        schema = {"type": "object", "properties": {}}
        half.send({"id": 2, "method": "elicitation/create", "params": {**params, "requestedSchema": schema}})
        assert half.take()[0]["error"]["code"] == -32602


def test_advertises_looks_only_at_capabilities() -> None:
    """A name that leads nowhere, or through something that has no members, is not advertised."""
    said = v1.ClientCapabilities(terminal=True, fs=v1.FileSystemCapabilities(read_text_file=True))
    assert advertises(said, "fs.readTextFile")
    assert advertises(said, "terminal")
    assert not advertises(said, "terminal.more")
    assert not advertises(said, "fs.read_text_file")
    assert not advertises(None, "fs")


def test_what_happens_silently_is_logged() -> None:
    """A warning each says what was left out, and what nobody will ask for; neither shows a value (rule 9)."""
    with capturedLogs() as events:
        half = AgentHalf(agent().build(), capabilities={})
        half.connection.send_update("s1", v1.ConfigOptionUpdate(config_options=OPTIONS))
        AcpClient.builder().read_text_file_handler(print).client_capabilities(v1.ClientCapabilities()).build()
        AcpClient.builder().kill_terminal_handler(print).build()
    left_out, unsaid, partial = [formatEvent(each) for each in events if each["log_level"] is LogLevel.warn]
    assert left_out == (
        "1 SessionConfigBoolean are left out of a ConfigOptionUpdate, for the peer does not advertise "
        "session.configOptions.boolean"
    )
    assert unsaid == "fs/read_text_file has a handler, but the capabilities do not say fs.readTextFile"
    assert partial.startswith("terminal is not advertised, for nothing handles terminal/create, terminal/output, ")


def test_an_empty_elicitation_promises_nothing() -> None:
    """{} is no mode, so nothing has to handle it; a mode is a promise (1.17)."""
    nothing = v1.ClientCapabilities(elicitation=v1.ElicitationCapabilities())
    assert AcpClient.builder().client_capabilities(nothing).build().capabilities is nothing
    form = v1.ElicitationCapabilities(form=v1.ElicitationFormCapabilities())
    with pytest.raises(ValueError, match="elicitation needs create_elicitation_handler"):
        AcpClient.builder().client_capabilities(v1.ClientCapabilities(elicitation=form)).build()


def test_what_counts_is_what_was_said() -> None:
    """An agent that answers initialize itself is held to what it said there (1.12)."""
    system = v1.SessionCapabilities(system_prompt=v1.SessionSystemPromptCapabilities())
    said = v1.AgentCapabilities(session_capabilities=system)
    builder = agent().initialize_handler(
        lambda request: v1.InitializeResponse(protocol_version=1, agent_capabilities=said)
    )
    half = AgentHalf(builder.build())
    prompt_ = {"mode": "append", "content": [{"type": "text", "text": "x"}]}
    half.send({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": [], "systemPrompt": prompt_}})
    assert "result" in half.answers(1)[0]
    assert half.connection.own_capabilities == said


def test_a_relative_path_of_many() -> None:
    """One relative path among absolute ones is enough, and nothing is missing where there are none (1.01)."""
    half = AgentHalf(agent().build())
    places = [v1.ToolCallLocation(path="/a"), v1.ToolCallLocation(path="C:\\b"), v1.ToolCallLocation(path="c")]
    with pytest.raises(ValueError, match=r"locations\.path of a ToolCall"):
        half.connection.send_update("s1", v1.ToolCall(tool_call_id="t", title="t", locations=places))
    half.connection.send_update("s1", v1.ToolCall(tool_call_id="t", title="t", locations=places[:2]))
    half.connection.send_update("s1", v1.ToolCallUpdate(tool_call_id="t", locations=None))
    asked = v1.ToolCallUpdate(tool_call_id="t", content=[v1.Diff(path="c", new_text="")])
    with pytest.raises(ValueError, match=r"tool_call\.content\.path of a RequestPermissionRequest"):
        half.connection.call(v1.RequestPermissionRequest(session_id="s1", tool_call=asked, options=[]))
    assert [each["method"] for each in half.take()] == ["session/update"] * 2


def test_only_what_is_as_it_should_be_counts() -> None:
    """Where an object is wanted, true is no offer; what only a module knows is looked up as it came (1.30, 6.5)."""
    half = ClientHalf(AcpClient.builder().build(), capabilities={"sessionCapabilities": {"close": True}, "nes": {}})
    assert not half.connection.supports("sessionCapabilities.close")
    assert half.connection.supports("nes")
    assert not half.connection.supports("nes.events")
    with pytest.raises(AcpCapabilityError):
        half.session.close()
    assert half.take() == []


@pytest.mark.parametrize("where", ["cwd", "locations", "additional_directories"])
def test_a_path_that_is_no_string_is_told_how_to_become_one(where: str) -> None:
    """1.01 for what Python programs have: a pathlib.Path is named as the mistake; a subclass of str is a path."""

    class Own(str):
        pass

    half = ClientHalf(AcpClient.builder().capability_gates(False).build())
    agent = AgentHalf(AcpAgent.builder().prompt_handler(lambda request: None).build())

    def send(path: Any) -> object:
        if where == "cwd":
            return half.connection.new_session(path)
        if where == "locations":
            call = v1.ToolCall(tool_call_id="t", title="t", locations=[v1.ToolCallLocation(path=path)])
            return agent.connection.send_update("s1", call)
        return half.connection.new_session("/a", additional_directories=[path])

    for wrong in (Path("/tmp"), 5, b"/tmp"):
        with pytest.raises(
            TypeError, match=rf"{where}.*: a path is a str, and this is a {type(wrong).__name__}; pass str"
        ):
            send(wrong)
    with pytest.raises(ValueError, match="must be absolute, as /tmp is"):
        send(Own("tmp"))
    send(Own("/tmp"))
