"""
Agents as decorated classes, on the wire: what is passed to a method, what becomes of what it returns, and what the
agent says it can do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from typing import Annotated, Any, TypedDict

import attrs
import pytest
from conftest import LoggedErrors
from halves import AgentHalf
from twisted.internet.defer import Deferred, inlineCallbacks, succeed

from acp_twisted import AcpAgent, AgentConnection, CancellationToken, Limits, PromptContext
from acp_twisted.agent.annotations import (
    ConfigId,
    ConfigValue,
    Cwd,
    FromRequest,
    Invocation,
    MethodId,
    ModeId,
    PromptText,
    SessionId,
    acp_agent,
    authenticate,
    build_agent,
    cancel,
    cancel_request,
    close_session,
    delete_session,
    ext_notification,
    ext_request,
    initialize,
    list_sessions,
    load_session,
    logout,
    new_session,
    prompt,
    resume_session,
    set_session_config_option,
    set_session_mode,
)
from acp_twisted.agent.annotations.marks import Mark, marks_of
from acp_twisted.schema import v1
from acp_twisted.schema.methods import METHODS
from acp_twisted.schema.vocabulary import V1

END_TURN = {"result": {"stopReason": "end_turn"}}


@acp_agent(name="base", version="1.0")
class Base:
    """
    Has one session, C{s1}, and no prompt yet.

    @ivar seen: what the methods were given.
    """

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @new_session
    def open(self) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session_id="s1")


class Ready(Base):
    """The least that an agent has."""

    @prompt
    def answer(self) -> Any:
        return None


def run(definition: object, **options: Any) -> AgentHalf:
    """An agent of that class, initialized, with its session."""
    return AgentHalf(build_agent(definition, **options))


def ask(half: AgentHalf, method: str, **params: Any) -> Any:
    """What the agent answers to a request, without the envelope."""
    half.send({"id": 9, "method": method, "params": params})
    (answer,) = half.answers(9)
    half.take()
    return answer


def texts(half: AgentHalf) -> list[str]:
    """The messages that were sent."""
    return [each["params"]["update"]["content"]["text"] for each in half.received if each.get("method")]


# ---- every method has its decorator


DECORATORS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "initialize": initialize,
    "authenticate": authenticate,
    "logout": logout,
    "session/new": new_session,
    "session/load": load_session,
    "session/resume": resume_session,
    "session/list": list_sessions,
    "session/delete": delete_session,
    "session/close": close_session,
    "session/set_mode": set_session_mode,
    "session/set_config_option": set_session_config_option,
    "session/prompt": prompt,
    "session/cancel": cancel,
    "$/cancel_request": cancel_request,
}


def test_every_stable_method_of_an_agent_has_a_decorator() -> None:
    """A method that comes to the protocol's table is missed here (HandlerAnnotationCoverageTest)."""
    of_agents = {each.name for each in METHODS if each.stable and each.direction in ("agent", "both")}
    assert set(DECORATORS) == of_agents


@pytest.mark.parametrize("method", DECORATORS)
def test_a_decorator_returns_the_method_itself(method: str) -> None:
    """What is decorated can still be called and tested like any other method; the mark names the method."""

    def plain() -> None:
        """Nothing."""

    assert DECORATORS[method](plain) is plain
    (mark,) = marks_of(plain)
    assert isinstance(mark, Mark)
    assert mark.method == method
    assert mark.is_request is (V1.require(method).kind == "request")
    assert hasattr(AcpAgent.builder(), f"{mark.decorator}_handler")


# ---- what a method is given


@acp_agent(name="full", version="2.0", title="Full")
class Full(Ready):
    """Every method, each with parameters of its own."""

    @initialize
    def greet(self, request: v1.InitializeRequest, capabilities: v1.ClientCapabilities) -> None:
        self.seen.append((request.protocol_version, capabilities.terminal))

    @authenticate
    def sign_in(self, method: MethodId) -> None:
        self.seen.append(method)

    @logout
    def sign_out(self, request: v1.LogoutRequest) -> v1.LogoutResponse:
        self.seen.append(request)
        return v1.LogoutResponse()

    @load_session
    async def load(self, session: SessionId, cwd: Cwd, connection: AgentConnection) -> None:
        self.seen.append((session, cwd, connection.session_ids))

    @resume_session
    def resume(self, request: v1.ResumeSessionRequest, token: CancellationToken) -> Deferred[v1.ResumeSessionResponse]:
        self.seen.append((request.session_id, token.cancelled))
        return succeed(v1.ResumeSessionResponse())

    @list_sessions
    def listing(self) -> v1.ListSessionsResponse:
        return v1.ListSessionsResponse(sessions=[])

    @close_session
    def close(self, session: Annotated[str, SessionId]) -> None:
        self.seen.append(("close", session))

    @delete_session
    def delete(self, session: Annotated[str, FromRequest("session_id")]) -> None:
        self.seen.append(("delete", session))

    @set_session_mode
    def mode(self, *, mode: ModeId, session: SessionId) -> None:
        self.seen.append((session, mode))

    @set_session_config_option
    @inlineCallbacks
    def option(
        self, config: ConfigId, value: ConfigValue
    ) -> Generator[Deferred[Any], Any, v1.SetSessionConfigOptionResponse]:
        self.seen.append((config, value))
        yield succeed(None)
        return v1.SetSessionConfigOptionResponse(config_options=[])

    @cancel
    def cancelled(self, notice: v1.CancelNotification) -> None:
        self.seen.append(("cancel", notice.session_id))

    @cancel_request
    async def withdrawn(self, notice: v1.CancelRequestNotification) -> None:
        self.seen.append(("withdrawn", notice.request_id))


@pytest.fixture
def full() -> tuple[AgentHalf, Full]:
    """An agent with every method, initialized."""
    agent = Full()
    half = run(agent)
    assert agent.seen == [(1, True)]
    agent.seen.clear()
    return half, agent


@pytest.mark.parametrize(
    ("method", "params", "result", "seen"),
    [
        ("authenticate", {"methodId": "key"}, {}, "key"),
        ("logout", {}, {}, v1.LogoutRequest()),
        ("session/load", {"sessionId": "old", "cwd": "/w", "mcpServers": []}, {}, ("old", "/w", ("s1",))),
        ("session/resume", {"sessionId": "old", "cwd": "/w", "mcpServers": []}, {}, ("old", False)),
        ("session/close", {"sessionId": "s1"}, {}, ("close", "s1")),
        ("session/delete", {"sessionId": "other"}, {}, ("delete", "other")),
        ("session/set_mode", {"sessionId": "s1", "modeId": "ask"}, {}, ("s1", "ask")),
        (
            "session/set_config_option",
            {"sessionId": "s1", "configId": "model", "value": "big"},
            {"configOptions": []},
            ("model", "big"),
        ),
    ],
)
def test_parameters_are_found_by_their_annotations(
    full: tuple[AgentHalf, Full], method: str, params: dict[str, Any], result: object, seen: object
) -> None:
    """Requests, their members, the connection, the token: in any order, by position or by name, however it returns."""
    half, agent = full
    answer = ask(half, method, **params)
    assert answer == {"result": result}
    assert agent.seen[-1] == seen


def test_a_method_may_want_nothing(full: tuple[AgentHalf, Full]) -> None:
    """A method without parameters is called without any."""
    half, _ = full
    assert ask(half, "session/list") == {"result": {"sessions": []}}


def test_notifications_reach_their_methods(full: tuple[AgentHalf, Full]) -> None:
    """Both cancellations are told."""
    half, agent = full
    half.cancel()
    half.cancel_request("unknown")
    assert agent.seen == [("cancel", "s1"), ("withdrawn", "unknown")]


def test_a_turns_context_token_and_text() -> None:
    """A prompt's method may have all of these at once, and the context's token is the token."""

    class Agent(Base):
        @prompt
        async def answer(
            self,
            text: PromptText,
            context: PromptContext,
            token: CancellationToken,
            session: SessionId,
            invocation: Invocation,
        ) -> v1.PromptResponse:
            self.seen += [text, context.token is token, session, invocation.context is context]
            return v1.PromptResponse(stop_reason="refusal")

    agent = Agent()
    half = run(agent)
    half.prompt()
    assert half.answers() == [{"result": {"stopReason": "refusal"}}]
    assert agent.seen == ["hi", True, "s1", True]


def test_the_token_is_that_of_the_request_itself() -> None:
    """Also of a close that had to wait for a turn: it ends within the turn's own affairs, and is not cancelled."""
    working: list[Deferred[None]] = []

    class Agent(Base):
        @prompt
        def answer(self) -> Deferred[None]:
            working.append(Deferred())
            return working[-1]

        @close_session
        def close(self, token: CancellationToken) -> None:
            self.seen.append(token.triggers)

    agent = Agent()
    half = run(agent)
    half.prompt(5)
    half.send({"id": 6, "method": "session/close", "params": {"sessionId": "s1"}})
    assert half.answers(6) == []
    working[0].callback(None)
    assert half.answers(5) == [{"result": {"stopReason": "cancelled"}}]
    assert half.answers(6) == [{"result": {}}]
    assert agent.seen == [()]


def test_a_default_stands_where_nothing_is_known() -> None:
    """As in any call in Python; what is known is passed all the same, wherever it stands."""

    class Agent(Base):
        @prompt
        def answer(  # type: ignore[no-untyped-def]
            self,
            loud: bool = False,
            more=1,
            text: PromptText = "",
            context: PromptContext | None = None,
            /,
            *,
            mark: str = "?",
        ) -> str:
            self.seen.append(context)
            return f"{text} {loud} {more} {mark}"

    agent = Agent()
    half = run(agent)
    half.prompt()
    assert texts(half) == ["hi False 1 ?"]
    assert isinstance(agent.seen[0], PromptContext)


def test_one_method_for_two() -> None:
    """What both have in common can be asked for, and a union of their requests."""

    class Agent(Ready):
        @load_session
        @resume_session
        def take_up(self, session: SessionId, request: v1.LoadSessionRequest | v1.ResumeSessionRequest) -> None:
            self.seen.append((session, type(request)))

    agent = Agent()
    half = run(agent)
    for method in ("session/load", "session/resume"):
        assert ask(half, method, sessionId="s7", cwd="/w", mcpServers=[]) == {"result": {}}
    assert agent.seen == [("s7", v1.LoadSessionRequest), ("s7", v1.ResumeSessionRequest)]


# ---- extensions


class Point(TypedDict):
    """A place."""

    x: int


@attrs.define
class Move:
    """A step."""

    by: int


class Extended(Ready):
    """Extensions with params of all kinds."""

    @ext_request("_any")
    def any(self, params: Any) -> Any:
        return {"got": params}

    @ext_request("_object")
    def mapping(self, params: dict[str, int]) -> object:
        return {"got": params}

    @ext_request("_optional")
    def optional(self, params: dict[str, int] | None) -> object:
        return {"got": params}

    @ext_request("_typed")
    def typed(self, params: Point) -> object:
        return {"got": params}

    @ext_request("_list")
    async def array(self, params: Sequence[int], connection: AgentConnection) -> object:
        return {"got": [*params, len(connection.session_ids)]}

    @ext_request("_class")
    def klass(self, move: Move) -> Move:
        return Move(by=move.by + 1)

    @ext_request("_model")
    def model(self, text: v1.TextContent) -> v1.TextContent:
        return v1.TextContent(text=text.text * 2)

    @ext_request("_who")
    def who(self, invocation: Invocation, capabilities: v1.ClientCapabilities):  # type: ignore[no-untyped-def]
        return [invocation.handler.method, capabilities.terminal]

    @ext_notification("_told")
    def told(self, params: dict[str, Any]) -> None:
        self.seen.append(params)


NOT_FITTING = -32602


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("_who", {"x": 1}, ["_who", True]),
        ("_any", {"x": 1}, {"got": {"x": 1}}),
        ("_any", None, {"got": None}),
        ("_object", {"x": 1}, {"got": {"x": 1}}),
        ("_object", None, {"got": {}}),
        ("_object", [1], NOT_FITTING),
        ("_optional", None, {"got": None}),
        ("_typed", {"x": 1}, {"got": {"x": 1}}),
        ("_list", [1, 2], {"got": [1, 2, 1]}),
        ("_list", {"x": 1}, NOT_FITTING),
        ("_class", {"by": 1}, {"by": 2}),
        ("_class", {"too": 1}, NOT_FITTING),
        ("_model", {"type": "text", "text": "a"}, {"type": "text", "text": "aa"}),
        ("_model", {"type": "text"}, NOT_FITTING),
    ],
)
def test_an_extensions_params(method: str, params: Any, expected: Any) -> None:
    """JSON as it is, or read into a class of the user's; what does not fit is -32602, and the method is not called."""
    half = run(Extended)
    half.send({"id": 9, "method": method, **({} if params is None else {"params": params})})
    (answer,) = half.answers(9)
    if expected == NOT_FITTING:
        assert answer["error"]["code"] == NOT_FITTING
    else:
        assert answer["result"] == expected


def test_an_extensions_notification() -> None:
    """It reaches its method."""
    agent = Extended()
    half = run(agent)
    half.send({"method": "_told", "params": {"x": 1}})
    assert agent.seen == [{"x": 1}]


# ---- what a prompt returns


@pytest.mark.parametrize(
    ("value", "sent", "answer"),
    [
        ("hello", ["hello"], END_TURN),
        ("", [], END_TURN),
        (None, [], END_TURN),
        (v1.PromptResponse(stop_reason="max_tokens"), [], {"result": {"stopReason": "max_tokens"}}),
    ],
)
@pytest.mark.parametrize("way", ["plain", "deferred", "coroutine"])
def test_what_a_prompt_returns(value: Any, sent: list[str], answer: object, way: str) -> None:
    """A text is sent before the turn ends, nothing is sent of an empty one, and None ends the turn; always."""

    class Plain(Base):
        @prompt
        def answer(self) -> Any:
            return value

    class Later(Base):
        @prompt
        def answer(self) -> Any:
            return succeed(value)

    class Coroutine(Base):
        @prompt
        async def answer(self) -> Any:
            return value

    half = run({"plain": Plain, "deferred": Later, "coroutine": Coroutine}[way])
    half.prompt()
    assert texts(half) == sent
    assert half.answers() == [answer]
    assert "result" in half.received[-1], "the text is sent before the answer"


def test_what_is_no_response_is_an_internal_error(logged_errors: LoggedErrors) -> None:
    """What the annotations do not tell is found at run time."""

    class Agent(Base):
        @prompt
        def answer(self) -> Any:
            return 42

    half = run(Agent)
    half.prompt()
    assert half.answers()[0]["error"] == {"code": -32603, "message": "Internal error"}
    logged_errors.clear()


def test_no_answer_where_one_is_wanted() -> None:
    """The same words as without decorators."""

    class Agent(Ready):
        @list_sessions
        def listing(self) -> Any:
            return None

    assert ask(run(Agent), "session/list")["error"] == {
        "code": -32603,
        "message": "The session/list handler produced no response",
    }


def test_a_cancelled_turns_method_is_cancelled() -> None:
    """The method's own Deferred is cancelled by what ends its turn, through all that is around it."""
    stopped: list[bool] = []

    class Agent(Base):
        @prompt
        def answer(self) -> Deferred[None]:
            return Deferred(lambda _: stopped.append(True))

    half = run(Agent)
    half.prompt()
    half.cancel_request()
    assert stopped == [True]
    assert half.answers() == [{"error": {"code": -32800, "message": "Request cancelled"}}]


# ---- what the agent says of itself


def greeting(definition: object, capabilities: dict[str, Any] | None = None, **options: Any) -> Any:
    """The answer to C{initialize}."""
    half = AgentHalf(build_agent(definition, **options), opened=False)
    return ask(half, "initialize", protocolVersion=1, clientCapabilities=capabilities or {})["result"]


def test_capabilities_follow_from_the_methods() -> None:
    """As with the builder's handlers."""
    said = greeting(Full)
    assert said["agentInfo"] == {"name": "full", "version": "2.0", "title": "Full"}
    capabilities = said["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert capabilities["auth"] == {"logout": {}}
    assert set(capabilities["sessionCapabilities"]) == {"list", "delete", "resume", "close"}


def test_capabilities_follow_from_the_flags() -> None:
    """What no method tells is said by the decorators, beside what the methods tell."""

    @acp_agent(
        name="a",
        version="1",
        mcp_http=True,
        mcp_sse=True,
        additional_directories=True,
        auth_methods=[v1.AuthMethodAgent(id="key", name="Key")],
    )
    class Agent(Full):
        @prompt(image=True, audio=True, embedded_context=True)
        def answer(self) -> None:
            return None

    said = greeting(Agent)
    capabilities = said["agentCapabilities"]
    assert capabilities["promptCapabilities"] == {"image": True, "audio": True, "embeddedContext": True}
    assert {name for name, flag in capabilities["mcpCapabilities"].items() if flag} == {"http", "sse"}
    assert set(capabilities["sessionCapabilities"]) == {"additionalDirectories", "list", "delete", "resume", "close"}
    assert [each["id"] for each in said["authMethods"]] == ["key"]


def test_a_plain_agent_promises_nothing() -> None:
    """Every flag is off unless said otherwise."""
    capabilities = greeting(Ready)["agentCapabilities"]
    assert capabilities["loadSession"] is False
    assert not any(capabilities["promptCapabilities"].values())
    assert not any(capabilities["mcpCapabilities"].values())
    assert capabilities["sessionCapabilities"] == {}


def test_an_initialize_method_adds_to_what_is_derived() -> None:
    """Its answer is OR-ed over the derived one, and its own words count where both say something."""

    class Agent(Full):
        @initialize
        def greet(self) -> v1.InitializeResponse:  # type: ignore[override]
            return v1.InitializeResponse(
                protocol_version=1,
                agent_capabilities=v1.AgentCapabilities(
                    prompt_capabilities=v1.PromptCapabilities(audio=True),
                    session_capabilities=v1.SessionCapabilities(list=v1.SessionListCapabilities(meta={"mine": 1})),
                ),
                agent_info=v1.Implementation(name="other", version="9"),
                meta={"own": 1},
            )

        @prompt(image=True)
        def answer(self) -> None:
            return None

    said = greeting(Agent)
    assert said["agentInfo"] == {"name": "other", "version": "9"}
    assert said["_meta"] == {"own": 1}
    capabilities = said["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert capabilities["promptCapabilities"]["image"] is True
    assert capabilities["promptCapabilities"]["audio"] is True
    assert capabilities["sessionCapabilities"]["list"] == {"_meta": {"mine": 1}}
    assert capabilities["sessionCapabilities"]["close"] == {}


def test_an_initialize_method_of_none_leaves_what_is_derived() -> None:
    """It may only want to know who is there; terminal ways to authenticate stay hidden from who can't go them."""

    @acp_agent(name="a", version="1", auth_methods=[v1.AuthMethodTerminal(id="t", name="T")])
    class Agent(Full):
        """Its initialize method returns nothing."""

    assert greeting(Agent)["authMethods"] == []
    assert [each["id"] for each in greeting(Agent, {"auth": {"terminal": True}})["authMethods"]] == ["t"]


def test_an_initialize_method_that_returns_something_else_fails(logged_errors: LoggedErrors) -> None:
    """What its annotation did not tell is found at run time."""

    class Agent(Ready):
        @initialize
        def greet(self) -> Any:
            return 42

    half = AgentHalf(build_agent(Agent), opened=False)
    assert ask(half, "initialize", protocolVersion=1)["error"] == {"code": -32603, "message": "Internal error"}
    logged_errors.clear()


# ---- classes, instances, inheritance


def test_a_class_that_does_not_say_what_it_takes() -> None:
    """A kind of dict, say, is called without arguments all the same."""

    @acp_agent(name="a", version="1")
    class Agent(dict[str, str]):
        @prompt
        def answer(self) -> None:
            return None

    assert build_agent(Agent).info is not None


def test_one_instance_for_all_connections() -> None:
    """The class is called once."""
    made: list[Agent] = []

    class Agent(Base):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        @prompt
        def answer(self, session: SessionId) -> None:
            self.seen.append(session)

    agent = build_agent(Agent)
    for half in (AgentHalf(agent), AgentHalf(agent)):
        half.prompt()
    assert len(made) == 1
    assert made[0].seen == ["s1", "s1"]


def test_a_method_that_overrides_a_decorated_one_takes_its_place() -> None:
    """With the marks that it inherits by its name, or with its own; what is set to None is gone."""

    class Override(Full):
        def answer(self) -> str:
            return "overridden"

        load_session = None
        load = None  # type: ignore[assignment]

    half = run(Override)
    half.prompt()
    assert texts(half) == ["overridden"]
    half.take()
    assert ask(half, "session/load", sessionId="s", cwd="/w", mcpServers=[])["error"]["code"] == -32601
    assert greeting(Override)["agentCapabilities"]["loadSession"] is False


def test_other_decorators_around_and_within() -> None:
    """A wrapper that says what it wraps, staticmethod and classmethod on either side: the mark is found."""

    def shouting(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> str:
            return function(*args, **kwargs).upper()

        return wrapper

    class Agent(Base):
        @shouting
        @prompt
        def answer(self, text: PromptText) -> str:
            return text

        @ext_request("_a")
        @staticmethod
        def one(params: dict[str, Any]) -> str:
            return "static"

        @staticmethod
        @ext_request("_b")
        def two() -> str:
            return "static"

        @classmethod
        @ext_request("_c")
        def three(cls) -> str:
            return cls.__name__

    half = run(Agent)
    half.prompt()
    assert texts(half) == ["HI"]
    half.take()
    assert [ask(half, name)["result"] for name in ("_a", "_b", "_c")] == ["static", "static", "Agent"]


def test_the_builders_options() -> None:
    """Times and limits are the builder's; a builder that is handed in goes on with what it has."""
    limits = Limits(max_sessions=3)
    agent = build_agent(
        Ready,
        request_timeout=5.0,
        cancel_grace_period=6.0,
        max_prompt_duration=7.0,
        cascade_cancellation=True,
        limits=limits,
        builder=AcpAgent.builder().ext_request_handler("_more", lambda params: 1),
    )
    assert agent.request_timeout == 5.0
    assert agent.prompt_timeouts.cancel_grace_period == 6.0
    assert agent.prompt_timeouts.max_prompt_duration == 7.0
    assert agent.cascades is True
    assert agent.limits is limits
    assert ask(AgentHalf(agent), "_more") == {"result": 1}


def test_options_left_out_are_the_builders() -> None:
    """Zero is a value, and nothing given is none."""
    agent = build_agent(Ready, cancel_grace_period=0.0, builder=AcpAgent.builder().request_timeout(3.0))
    assert agent.request_timeout == 3.0
    assert agent.prompt_timeouts.cancel_grace_period == 0.0
    assert build_agent(Ready).request_timeout == AcpAgent.builder().prompt_handler(print).build().request_timeout
