"""
The beginning of a conversation, authentication, and sessions: what the protocol requires of both sides.
"""

from __future__ import annotations

from typing import Any

import pytest

from acp_twisted import (
    AcpAgent,
    AcpCapabilityError,
    AcpClient,
    AcpVersionError,
    AuthRequired,
    InvalidParams,
    NotInitialized,
)
from acp_twisted.schema import v1
from acp_twisted.testing import (
    AgentOnWire,
    ClientOnWire,
    ScriptedAgent,
    ScriptedClient,
    answered,
    connected_pair,
    failure_of,
    requested,
    success_result,
    updated,
)

STDIO = v1.McpServerStdio(name="s", command="/bin/s", args=[], env=[])
EVERYTHING = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
    "auth": {"logout": {}},
}


def plain_agent() -> AcpAgent:
    """An agent with nothing but prompts."""
    return AcpAgent.builder().prompt_handler(lambda _: v1.PromptResponse(stop_reason="end_turn")).build()


def plain_client() -> AcpClient:
    """A client with no handlers."""
    return AcpClient.builder().build()


# ---- the beginning


def test_a_client_begins_with_initialize() -> None:
    """
    INIT-CLIENT-INITIALIZE-FIRST, INIT-REQUEST-LATEST-VERSION, SETUP-INIT-BEFORE-SESSION, PROMPT-INIT-AND-SETUP-FIRST,
    INIT-CLIENT-SPECIFY-CAPABILITIES: it offers its newest version and says what it can do; nothing else goes before.
    """
    wire = ClientOnWire(ScriptedClient(files={}), initialized=False)
    for early in (lambda: wire.connection.new_session("/w"), wire.connection.list_sessions):
        with pytest.raises(NotInitialized):
            early()
    assert wire.received == []
    wire.connection.initialize()
    [hello] = wire.take()
    assert hello["params"]["protocolVersion"] == 1
    assert hello["params"]["clientCapabilities"]["fs"] == {"readTextFile": True, "writeTextFile": True}


def test_both_say_who_they_are() -> None:
    """INIT-IMPLEMENTATION-INFO: with name, version and title."""
    agent = AcpAgent.builder().agent_info("a", "1", "The agent").prompt_handler(lambda _: None).build()
    client = AcpClient.builder().client_info("c", "2", "The client").build()
    with connected_pair(agent, client) as pair:
        assert pair.client.agent_info == v1.Implementation(name="a", version="1", title="The agent")
        assert pair.agent.client_info == v1.Implementation(name="c", version="2", title="The client")


@pytest.mark.parametrize(("asked", "answer"), [(1, 1), (0, 1), (2, 1), (65535, 1)])
def test_an_agent_answers_a_version_and_what_it_can_do(asked: int, answer: int) -> None:
    """
    INIT-AGENT-RESPONSE, INIT-VERSION-AGREEMENT, INIT-AGENT-SAME-VERSION, INIT-AGENT-LATEST-VERSION,
    INIT-AGENT-SPECIFY-CAPABILITIES: the version that was asked for if it speaks that, else its newest.
    """
    agent = ScriptedAgent(lambda builder: builder.load_session_handler(lambda _: v1.LoadSessionResponse()))
    wire = AgentOnWire(agent, initialized=False)
    result = wire.ask("initialize", {"protocolVersion": asked})["result"]
    assert result["protocolVersion"] == answer
    assert result["agentCapabilities"]["loadSession"] is True


@pytest.mark.parametrize("version", [0, 2, 65535])
def test_a_version_that_a_client_does_not_speak(version: int) -> None:
    """INIT-CLIENT-UNSUPPORTED-VERSION, INIT-VERSION-AGREEMENT: it closes the connection, and whoever asked is told."""
    wire = ClientOnWire(plain_client(), initialized=False)
    agreeing = wire.connection.initialize()
    wire.respond({"protocolVersion": version, "agentCapabilities": {}})
    assert failure_of(agreeing, AcpVersionError).version == version
    assert wire.lost


@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"loadSession": False},
        {"sessionCapabilities": None},
        {"promptCapabilities": {}, "future": {"x": 1}},
        EVERYTHING,
    ],
)
def test_any_mix_of_capabilities(capabilities: dict[str, Any]) -> None:
    """
    INIT-CAPABILITIES-OPTIONAL, INIT-SUPPORT-ALL-COMBINATIONS, INIT-OMITTED-UNSUPPORTED: sessions and prompts work with
    any, and what is left out is not there.
    """
    wire = ClientOnWire(plain_client(), capabilities=capabilities)
    session = wire.open_session()
    turn = session.prompt("hi")
    wire.respond({"stopReason": "end_turn"})
    assert success_result(turn.response).stop_reason == "end_turn"
    assert wire.connection.agent_capabilities.load_session is (capabilities is EVERYTHING)
    agent = AgentOnWire(plain_agent(), capabilities={"future": 1})
    assert agent.answer_to(agent.prompt(agent.open_session()))["result"] == {"stopReason": "end_turn"}
    assert not agent.connection.client_capabilities.terminal


def test_what_every_agent_does() -> None:
    """
    INIT-SESSION-BASELINE, INIT-PROMPT-BASELINE, CONTENT-TEXT-SUPPORT: new sessions, prompts of text and links, updates
    and cancellation, with nothing but a prompt handler.
    """
    blocks = [v1.TextContent(text="hi"), v1.ResourceLink(name="n", uri="file:///n")]
    agent = ScriptedAgent()
    agent.expect_prompt().says("hello").waits_for_cancel()
    with connected_pair(agent, plain_client()) as pair:
        turn = pair.prompt(blocks)
        turn.cancel()
        assert success_result(turn.response).stop_reason == "cancelled"
        pair.transcript.assert_order("session/new", "session/prompt", updated("agent_message_chunk"), "session/cancel")
    assert list(agent.prompts[0].prompt) == blocks


def test_what_an_agent_may_do_besides() -> None:
    """
    INIT-PROMPT-RICHER-MAY, INIT-SESSION-OPTIONAL-MAY, PROMPT-CLIENT-CONTEXT-BLOCKS-MAY: pictures, sounds and resources,
    and further methods of sessions, once they are advertised.
    """
    blocks = [
        v1.ImageContent(data="", mime_type="image/png"),
        v1.AudioContent(data="", mime_type="audio/wav"),
        v1.EmbeddedResource(resource=v1.TextResourceContents(uri="file:///a", text="a")),
    ]
    prompts = v1.PromptCapabilities(image=True, audio=True, embedded_context=True)
    capabilities = v1.AgentCapabilities(
        prompt_capabilities=prompts,
        session_capabilities=v1.SessionCapabilities(list=v1.SessionListCapabilities()),
    )
    agent = ScriptedAgent(lambda builder: builder.agent_capabilities(capabilities))
    agent.expect_prompt()
    agent.expect(v1.ListSessionsRequest).answers(v1.ListSessionsResponse(sessions=[]))
    with connected_pair(agent, plain_client()) as pair:
        pair.answer(blocks)
        assert success_result(pair.client.list_sessions()).sessions == []
    assert list(agent.prompts[0].prompt) == blocks


# ---- what a client does not ask for


@pytest.mark.parametrize(
    ("ask", "capability"),
    [
        (lambda client: client.logout(), "auth.logout"),
        (lambda client: client.load_session("s", "/w"), "loadSession"),
        (lambda client: client.resume_session("s", "/w"), "sessionCapabilities.resume"),
        (lambda client: client.close_session("s"), "sessionCapabilities.close"),
        (lambda client: client.list_sessions(), "sessionCapabilities.list"),
        (lambda client: client.delete_session("s"), "sessionCapabilities.delete"),
    ],
)
@pytest.mark.parametrize("offered", [{}, {"sessionCapabilities": {}, "auth": {"logout": None}}])
def test_what_is_not_advertised_is_not_asked_for(ask: Any, capability: str, offered: dict[str, Any]) -> None:
    """
    AUTH-CLIENT-NO-LOGOUT-WITHOUT-CAPABILITY, SETUP-CLIENT-NO-LOAD-WITHOUT-CAPABILITY,
    SETUP-CLIENT-NO-RESUME-WITHOUT-CAPABILITY, SETUP-CLIENT-NO-CLOSE-WITHOUT-CAPABILITY,
    LIST-CLIENT-NO-LIST-WITHOUT-CAPABILITY, DELETE-CLIENT-NO-DELETE-WITHOUT-CAPABILITY: nothing is sent.
    """
    wire = ClientOnWire(plain_client(), capabilities=offered)
    assert capability in str(error_of(lambda: ask(wire.connection)))
    assert wire.received == []


def error_of(ask: Any) -> AcpCapabilityError:
    """The refusal of a call, whether it is raised or comes in its Deferred."""
    try:
        call = ask()
    except AcpCapabilityError as error:
        return error
    return failure_of(call, AcpCapabilityError)


@pytest.mark.parametrize(
    ("ask", "method"),
    [
        (lambda client: client.logout(), "logout"),
        (lambda client: client.load_session("s", "/w"), "session/load"),
        (lambda client: client.resume_session("s", "/w"), "session/resume"),
        (lambda client: client.close_session("s"), "session/close"),
        (lambda client: client.list_sessions(), "session/list"),
        (lambda client: client.delete_session("s"), "session/delete"),
    ],
)
def test_what_is_advertised_is(ask: Any, method: str) -> None:
    """
    SETUP-CLIENT-CHECK-LOADSESSION, SETUP-CLIENT-CHECK-RESUME, SETUP-CLIENT-CHECK-CLOSE, LIST-CLIENT-CHECK-CAPABILITY,
    DELETE-CLIENT-CHECK-CAPABILITY, LIST-INIT-FIRST, DELETE-INIT-FIRST: the capabilities of C{initialize} decide.
    """
    wire = ClientOnWire(plain_client(), capabilities=EVERYTHING)
    ask(wire.connection)
    assert wire.methods() == [method]
    with pytest.raises(NotInitialized):
        ask(ClientOnWire(plain_client(), initialized=False).connection)


@pytest.mark.parametrize(
    "server",
    [v1.McpServerHttp(name="h", url="http://h", headers=[]), v1.McpServerSse(name="e", url="http://e", headers=[])],
)
def test_mcp_servers_over_http(server: Any) -> None:
    """SETUP-CLIENT-CHECK-MCP-TRANSPORT: only to an agent that takes them."""
    wire = ClientOnWire(plain_client())
    assert "mcpCapabilities" in str(error_of(lambda: wire.connection.new_session("/w", [server])))
    assert wire.received == []
    able = ClientOnWire(plain_client(), capabilities=EVERYTHING)
    able.connection.new_session("/w", [server])
    assert able.methods() == ["session/new"]


def test_additional_directories() -> None:
    """
    SETUP-CLIENT-ADDITIONAL-DIRS-ONLY-WITH-CAPABILITY, SETUP-ADDITIONAL-DIRS-ABSOLUTE,
    SETUP-ADDITIONAL-DIRS-FULL-LIST-ON-LOAD: the whole list as it is given, each time, and only where it is taken.
    """
    wire = ClientOnWire(plain_client())
    error_of(lambda: wire.connection.new_session("/w", [], ["/a"]))
    assert wire.received == []
    able = ClientOnWire(plain_client(), capabilities=EVERYTHING)
    roots = ["/a", "/b"]
    able.connection.new_session("/w", [], roots)
    able.connection.load_session("s1", "/w", [], roots)
    able.connection.resume_session("s2", "/w", [], roots)
    assert [each["params"]["additionalDirectories"] for each in able.received] == [roots] * 3
    with pytest.raises(ValueError, match="absolute"):
        able.connection.new_session("/w", [], ["a"])


# ---- authentication


def test_terminal_methods_are_not_authenticated_with() -> None:
    """AUTH-CLIENT-NO-TERMINAL-METHOD-ID: the id of one is refused here; another is sent."""
    methods = [{"id": "t", "name": "T", "type": "terminal"}, {"id": "a", "name": "A"}]
    wire = ClientOnWire(plain_client(), answer={"authMethods": methods})
    with pytest.raises(ValueError, match="terminal"):
        wire.connection.authenticate("t")
    assert wire.received == []
    wire.connection.authenticate("a")
    assert wire.methods() == ["authenticate"]


def test_terminal_methods_are_shown_to_who_can_run_them() -> None:
    """AUTH-AGENT-TERMINAL-METHOD-ONLY-WITH-CAPABILITY."""
    methods = [v1.AuthMethodTerminal(id="t", name="T"), v1.AuthMethodAgent(id="a", name="A")]

    def configure(builder: Any) -> None:
        builder.auth_methods(methods).authenticate_handler(lambda _: v1.AuthenticateResponse())

    for terminal, ids in ((False, ["a"]), (True, ["t", "a"])):
        wire = AgentOnWire(ScriptedAgent(configure), capabilities={"auth": {"terminal": terminal}})
        assert [each["id"] for each in wire.initialized["authMethods"]] == ids


# ---- sessions


def test_every_session_has_an_id_of_its_own() -> None:
    """SETUP-NEW-SESSION-ID: random ones, unless a handler makes them."""
    wire = AgentOnWire(plain_agent())
    ids = {wire.open_session() for _ in range(20)}
    assert len(ids) == 20


def test_what_opening_a_session_says() -> None:
    """
    SETUP-LOAD-REQUEST-CONTENTS, SETUP-RESUME-REQUEST-CONTENTS, SETUP-CLIENT-MCP-SERVERS-MAY, SETUP-CLIENT-OWN-MCP-MAY,
    SETUP-CLOSE-REQUEST, SETUP-CWD-ABSOLUTE: the id, the servers (the client's own among them) and the directory.
    """
    wire = ClientOnWire(plain_client(), capabilities=EVERYTHING)
    wire.connection.load_session("s1", "/w", [STDIO])
    wire.connection.resume_session("s2", "/w", [STDIO])
    wire.connection.close_session("s3")
    load, resume, close = [each["params"] for each in wire.received]
    stdio = {"name": "s", "command": "/bin/s", "args": [], "env": []}
    assert load == {"sessionId": "s1", "cwd": "/w", "mcpServers": [stdio]}
    assert resume == {"sessionId": "s2", "cwd": "/w", "mcpServers": [stdio]}
    assert close == {"sessionId": "s3"}
    with pytest.raises(ValueError, match="absolute"):
        wire.connection.load_session("s1", "w")


def test_stdio_servers_reach_every_agent() -> None:
    """SETUP-AGENT-MCP-STDIO: whatever it advertises."""
    seen: list[v1.NewSessionRequest] = []

    def opened(request: v1.NewSessionRequest) -> v1.NewSessionResponse:
        seen.append(request)
        return v1.NewSessionResponse(session_id="s")

    agent = AcpAgent.builder().prompt_handler(lambda _: None).new_session_handler(opened).build()
    with connected_pair(agent) as pair:
        success_result(pair.client.new_session("/w", [STDIO]))
    assert list(seen[0].mcp_servers) == [STDIO]


def test_a_loaded_session_is_answered_behind_its_replay() -> None:
    """SETUP-LOAD-RESPOND-AFTER-REPLAY: and the client has all of it when it has the answer."""

    async def load(request: v1.LoadSessionRequest, connection: Any) -> v1.LoadSessionResponse:
        for text in ("one", "two"):
            update = v1.UserMessageChunk(content=v1.TextContent(text=text))
            connection.send_update(request.session_id, update)
        return v1.LoadSessionResponse()

    agent = AcpAgent.builder().prompt_handler(lambda _: None).load_session_handler(load).build()
    with connected_pair(agent) as pair:
        session = success_result(pair.client.load_session("old", "/w"))
        assert len(session.take_updates()) == 2
        pair.transcript.assert_order(
            updated("user_message_chunk"), updated("user_message_chunk"), answered("session/load")
        )


def test_a_resumed_session_brings_no_replay_and_may_bring_its_state() -> None:
    """SETUP-RESUME-NO-REPLAY, SETUP-RESUME-RESPONSE-STATE-MAY, MODES-INITIAL-STATE-MAY, CONFIG-INITIAL-STATE-MAY."""
    modes = v1.SessionModeState(current_mode_id="m", available_modes=[v1.SessionMode(id="m", name="M")])
    option = v1.SessionConfigSelect(
        id="o", name="O", current_value="a", options=[v1.SessionConfigSelectOption(value="a", name="A")]
    )
    response = v1.ResumeSessionResponse(modes=modes, config_options=[option])
    agent = ScriptedAgent()
    agent.expect(v1.ResumeSessionRequest).answers(response)
    agent.expect(v1.NewSessionRequest).answers(
        v1.NewSessionResponse(session_id="n", modes=modes, config_options=[option])
    )
    with connected_pair(agent) as pair:
        session = success_result(pair.client.resume_session("old", "/w"))
        assert session.opened == response
        assert pair.session.opened is not None
        assert pair.session.opened.modes == modes
        pair.transcript.assert_never("session/update")


def test_closing_cancels_and_frees() -> None:
    """
    SETUP-CLOSE-CANCELS-AND-FREES, SETUP-CLOSE-MAY-ERROR: the turn is answered C{cancelled}, then the close is, and the
    session takes no more prompts; one that is unknown is an error.
    """
    agent = ScriptedAgent(lambda builder: builder.cancel_grace_period(3))
    agent.expect(v1.CloseSessionRequest).answers(v1.CloseSessionResponse())
    agent.expect_prompt().hangs()
    wire = AgentOnWire(agent)
    session = wire.open_session()
    number = wire.prompt(session)
    close = wire.request("session/close", {"sessionId": session})
    wire.advance(3)
    wire.transcript.assert_order(answered("session/prompt", {"stopReason": "cancelled"}), answered("session/close"))
    assert wire.answer_to(number)
    assert wire.answer_to(close)
    assert wire.ask("session/prompt", {"sessionId": session, "prompt": []})["error"]["code"] == -32002
    assert wire.ask("session/close", {"sessionId": session})["error"]["code"] == -32002


# ---- lists


def test_a_list_of_sessions() -> None:
    """
    LIST-AGENT-RESPONSE, LIST-ADDITIONAL-DIRS-MAY, LIST-EMPTY-ARRAY, LIST-CLIENT-OPAQUE-CURSOR,
    LIST-CLIENT-MISSING-CURSOR-IS-END, LIST-CLIENT-NO-MERGE-ADDITIONAL-DIRS: pages with cursors that pass untouched, the
    last one without; each answer is given as it came, and an empty one is an empty array.
    """
    cursor = "op\u00e4que =/+ "
    first = v1.SessionInfo(session_id="a", cwd="/w", additional_directories=["/x"])
    second = v1.SessionInfo(session_id="a", cwd="/w")
    agent = ScriptedAgent()
    agent.expect(v1.ListSessionsRequest, cursor=None).answers(
        v1.ListSessionsResponse(sessions=[first], next_cursor=cursor)
    )
    agent.expect(v1.ListSessionsRequest, cursor=cursor).answers(v1.ListSessionsResponse(sessions=[second]))
    agent.expect(v1.ListSessionsRequest, cwd="/none").answers(v1.ListSessionsResponse(sessions=[]))
    with connected_pair(agent) as pair:
        page = success_result(pair.client.list_sessions())
        assert list(page.sessions) == [first]
        assert page.next_cursor == cursor
        page = success_result(pair.client.list_sessions(cursor=page.next_cursor))
        assert list(page.sessions) == [second]
        assert page.next_cursor is None
        assert success_result(pair.client.list_sessions("/none")).sessions == []
        pair.transcript.assert_order(
            requested("session/list", {"cursor": cursor}), answered("session/list", {"sessions": []})
        )


def test_an_error_of_a_handler_is_told() -> None:
    """An agent may refuse a cursor, or ask for a login, in the protocol's words."""
    agent = ScriptedAgent()
    agent.expect(v1.ListSessionsRequest).fails(InvalidParams())
    agent.expect(v1.NewSessionRequest).fails(AuthRequired())
    with connected_pair(agent) as pair:
        assert failure_of(pair.client.list_sessions(cursor="bad"), InvalidParams).remote
        assert failure_of(pair.client.new_session("/w"), AuthRequired).remote
