"""
Every way to get the versions of a decorated class wrong is refused when the agent is built: with class, method,
parameter and remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest

from acp_twisted import AcpAgent, AgentConnection, PromptContext, SyncPromptContext
from acp_twisted.agent.annotations import (
    AgentDefinitionError,
    FromRequest,
    PromptText,
    accept_prompt,
    acp_agent,
    authenticate,
    build_agent,
    cancel,
    cancel_tool_call,
    exception_handler,
    ext_request,
    fork_session,
    initialize,
    list_sessions,
    load_session,
    login,
    logout,
    new_session,
    prompt,
    resume_session,
    set_session_mode,
)
from acp_twisted.agent.v2.connection import AgentConnection as SecondConnection
from acp_twisted.agent.v2.context import PromptContext as SecondContext
from acp_twisted.schema import v1, v2

ONE, TWO, BOTH = (1,), (2,), (1, 2)


@acp_agent(name="a", version="1")
class Ready:
    """A class that could be an agent of either version."""

    @prompt
    def answer(self) -> Any:
        return None


def misuses() -> Iterator[tuple[object, tuple[int, ...], str]]:  # noqa: PLR0915 - a list of classes
    """Each wrong class, the versions of the agent, and what it is refused with."""

    class First(Ready):
        @prompt
        def answer(self, request: v1.PromptRequest) -> v1.PromptResponse:  # type: ignore[override]
            return v1.PromptResponse(stop_reason="end_turn")

    yield (
        First,
        TWO,
        "First.answer (@prompt), parameter 'request': it names a class of version 1, and the agent speaks 2: use "
        "v2.PromptRequest\n"
        "First.answer (@prompt), what it returns: it names a class of version 1, and the agent speaks 2: use "
        "v2.IdleStateUpdate, TurnResult or str",
    )
    yield (
        First,
        BOTH,
        "First: nothing answers prompts of version 2, since First.answer (@prompt) names classes of version 1 alone; "
        "name those of both, as in v1.PromptRequest | v2.PromptRequest, or decorate another method for that version",
    )

    class Second(Ready):
        @prompt
        def answer(self, request: v2.PromptRequest, context: SecondContext) -> v2.IdleStateUpdate:  # type: ignore[override]
            return v2.IdleStateUpdate()

    yield (
        Second,
        ONE,
        "Second.answer (@prompt), parameter 'request': it names a class of version 2, and the agent speaks 1: use "
        "v1.PromptRequest\n"
        "Second.answer (@prompt), parameter 'context': it names a class of version 2, and the agent speaks 1: use "
        "PromptContext\n"
        "Second.answer (@prompt), what it returns: it names a class of version 2, and the agent speaks 1: use "
        "v1.PromptResponse, TurnResult or str",
    )
    yield (
        Second,
        BOTH,
        "Second: nothing answers prompts of version 1, since Second.answer (@prompt) names classes of version 2 alone; "
        "name those of both, as in v1.PromptRequest | v2.PromptRequest, or decorate another method for that version",
    )

    class Client(Ready):
        @new_session
        def open(
            self, capabilities: v1.ClientCapabilities, connection: AgentConnection, who: v1.Implementation | None
        ) -> v1.NewSessionResponse | None:
            return None

    yield (
        Client,
        TWO,
        "Client.open (@new_session), parameter 'capabilities': it names a class of version 1, and the agent speaks 2: "
        "use v2.ClientCapabilities\n"
        "Client.open (@new_session), parameter 'who': it names a class of version 1, and the agent speaks 2: use "
        "v2.Implementation\n"
        "Client.open (@new_session), what it returns: it names a class of version 1, and the agent speaks 2: use "
        "v2.NewSessionResponse",
    )

    class Connected(Ready):
        @ext_request("_x")
        def x(self, connection: SecondConnection) -> int:
            return 1

        @exception_handler(ValueError)
        def fail(self, capabilities: v2.ClientCapabilities) -> None:
            return None

    yield (
        Connected,
        ONE,
        "Connected.x (@ext_request), parameter 'connection': it names a class of version 2, and the agent speaks 1: "
        "use AgentConnection\n"
        "Connected.fail (@exception_handler), parameter 'capabilities': it names a class of version 2, and the agent "
        "speaks 1: use v1.ClientCapabilities",
    )

    class Members(Ready):
        @resume_session
        def resume(self, start: Annotated[v2.ReplayFromStart, FromRequest("replay_from")]) -> None:
            return None

    yield (
        Members,
        ONE,
        "Members.resume (@resume_session), parameter 'start': it names a class of version 2, and the agent speaks 1: "
        "use Any",
    )

    class NoMember(Ready):
        @resume_session
        def resume(self, start: Annotated[Any, FromRequest("from_where")]) -> None:
            return None

    for versions, name in ((ONE, "v1"), (TWO, "v2"), (BOTH, "v1")):
        yield (
            NoMember,
            versions,
            f"NoMember.resume (@resume_session), parameter 'start': the request is {name}.ResumeSessionRequest, which "
            "has no from_where; drop the parameter or change the decorator",
        )

    class Mixed(Ready):
        @new_session
        def open(self, request: v1.NewSessionRequest, capabilities: v2.ClientCapabilities) -> Any:
            return None

    yield (
        Mixed,
        BOTH,
        "Mixed.open (@new_session): it names classes of one version here and of another one there; name those of both, "
        "as in v1.NewSessionRequest | v2.NewSessionRequest, or write a method for each version",
    )

    class MixedReturn(Ready):
        @list_sessions
        def listing(self, request: v2.ListSessionsRequest) -> v1.ListSessionsResponse:
            return v1.ListSessionsResponse(sessions=[])

    yield (
        MixedReturn,
        BOTH,
        "MixedReturn.listing (@list_sessions): it names classes of one version here and of another one there; name "
        "those of both, as in v1.NewSessionRequest | v2.NewSessionRequest, or write a method for each version",
    )

    # ---- what a version does not have

    class Modes(Ready):
        @set_session_mode
        def mode(self) -> None:
            return None

    yield (
        Modes,
        TWO,
        "Modes.mode (@set_session_mode): only version 1 has session/set_mode, and the agent speaks 2; drop it, or give "
        "build_agent a builder with protocol_versions(1, 2)",
    )

    class Stops(Ready):
        @cancel_tool_call
        def stop(self, request: v2.CancelToolCallRequest) -> None:
            return None

        @login
        def log_in(self) -> None:
            return None

    yield (
        Stops,
        ONE,
        "Stops.stop (@cancel_tool_call): only version 2 has tool_call/cancel, and the agent speaks 1; drop it, or give "
        "build_agent a builder with protocol_versions(1, 2)\n"
        "Stops.log_in (@login): only version 2 has auth/login, and the agent speaks 1; drop it, or give build_agent a "
        "builder with protocol_versions(1, 2)",
    )

    class Forks(Ready):
        @fork_session
        def fork(self, request: v2.ForkSessionRequest) -> v2.ForkSessionResponse:
            return v2.ForkSessionResponse(session_id="s")

    yield (
        Forks,
        TWO,
        "Forks.fork (@fork_session): session/fork is not settled yet; make the builder with unstable=True",
    )

    # ---- two for one version

    class Twice(Ready):
        @new_session
        def open(self, request: v2.NewSessionRequest) -> v2.NewSessionResponse:
            return v2.NewSessionResponse(session_id=request.cwd)

        @new_session
        def again(self) -> v2.NewSessionResponse:
            return v2.NewSessionResponse(session_id="s")

    already = (
        "Twice.again (@new_session): Twice.open (@new_session) handles session/new already{}; keep one of the two "
        "decorators, or set one of the methods to None in the subclass"
    )
    yield Twice, TWO, already.format("")
    yield Twice, BOTH, already.format(" in version 2")

    class TwiceInOne(Ready):
        @prompt
        def other(self, request: v1.PromptRequest) -> None:
            return None

    yield (
        TwiceInOne,
        BOTH,
        "TwiceInOne.other (@prompt): TwiceInOne.answer (@prompt) handles session/prompt already in version 1; keep one "
        "of the two decorators, or set one of the methods to None in the subclass",
    )

    class TwoLogins(Ready):
        @login
        def log_in(self) -> None:
            return None

        @authenticate
        def sign_in(self, request: v2.LoginAuthRequest) -> None:
            return None

    yield (
        TwoLogins,
        BOTH,
        "TwoLogins.sign_in (@authenticate): TwoLogins.log_in (@login) handles auth/login already in version 2; keep "
        "one of the two decorators, or set one of the methods to None in the subclass",
    )

    class TwoErrors(Ready):
        @exception_handler(KeyError)
        def one(self) -> None:
            return None

        @exception_handler(KeyError)
        def two(self, capabilities: v2.ClientCapabilities) -> None:
            return None

    yield (
        TwoErrors,
        BOTH,
        "TwoErrors.two (@exception_handler): TwoErrors.one (@exception_handler) handles KeyError already; name it in "
        "one of the two",
    )

    # ---- what is passed and returned, in the words of version 2

    class Unannotated(Ready):
        @prompt
        def answer(self, text) -> None:  # type: ignore[no-untyped-def,override]
            return None

    yield (
        Unannotated,
        TWO,
        "Unannotated.answer (@prompt), parameter 'text': it has no annotation; annotate it with v2.PromptRequest, "
        "SessionId, PromptContext, PromptText, AgentConnection, CancellationToken, v2.ClientCapabilities or Invocation",
    )
    yield (
        Unannotated,
        BOTH,
        "Unannotated.answer (@prompt), parameter 'text': it has no annotation; annotate it with v1.PromptRequest | "
        "v2.PromptRequest, SessionId, PromptContext, PromptText, AgentConnection, CancellationToken, "
        "v1.ClientCapabilities | v2.ClientCapabilities or Invocation",
    )

    class Loading(Ready):
        @load_session
        def load(self, cwd: str) -> None:
            return None

    yield (
        Loading,
        BOTH,
        "Loading.load (@load_session), parameter 'cwd': nothing is known to pass for str; annotate it with "
        "v1.LoadSessionRequest | v2.ResumeSessionRequest, SessionId, Cwd, AgentConnection, CancellationToken, "
        "v1.ClientCapabilities | v2.ClientCapabilities or Invocation, or give build_agent an argument resolver for it",
    )

    class OtherRequest(Ready):
        @list_sessions
        def listing(self, request: v2.NewSessionRequest) -> v2.ListSessionsResponse:
            return v2.ListSessionsResponse(sessions=[])

    for versions in (TWO, BOTH):
        yield (
            OtherRequest,
            versions,
            "OtherRequest.listing (@list_sessions), parameter 'request': the method is given a v2.ListSessionsRequest, "
            "and never a v2.NewSessionRequest; change the annotation or the decorator",
        )

    class Accepting(Ready):
        @accept_prompt
        def accept(self, context: PromptContext, sync: SyncPromptContext) -> v2.PromptResponse:
            return v2.PromptResponse(message_id="m")

    yield (
        Accepting,
        TWO,
        "Accepting.accept (@accept_prompt), parameter 'context': only a @prompt method has a context; take an "
        "AgentConnection\n"
        "Accepting.accept (@accept_prompt), parameter 'sync': only a @prompt method has a context; take an "
        "AgentConnection\n"
        "Accepting.accept (@accept_prompt): it returns PromptResponse, of which nothing can be made; return str, or "
        "give build_agent a return-value handler for it",
    )

    class Inserting(Ready):
        @prompt
        def answer(self) -> v2.PromptResponse:
            return v2.PromptResponse(message_id="m")

    yield (
        Inserting,
        TWO,
        "Inserting.answer (@prompt): it returns PromptResponse, of which nothing can be made; return "
        "v2.IdleStateUpdate, TurnResult or str, or give build_agent a return-value handler for it",
    )

    class Nothing(Ready):
        @list_sessions
        def listing(self) -> v2.ListSessionsResponse | None:
            return None

    yield (
        Nothing,
        TWO,
        "Nothing.listing (@list_sessions): it returns None, and session/list wants an answer; return a "
        "v2.ListSessionsResponse",
    )

    class Greeting(Ready):
        @initialize
        def greet(self, who: v1.Implementation) -> Literal["hello"]:
            return "hello"

    yield (
        Greeting,
        ONE,
        "Greeting.greet (@initialize), parameter 'who': a client of version 1 need not say who it is; write "
        "v1.Implementation | None\n"
        "Greeting.greet (@initialize): it returns str, of which nothing can be made; return v1.InitializeResponse, or "
        "give build_agent a return-value handler for it",
    )

    class NoText(Ready):
        @cancel
        def stop(self, text: PromptText) -> None:
            return None

    yield (
        NoText,
        BOTH,
        "NoText.stop (@cancel), parameter 'text': only a prompt has a PromptText; take a member of the request, such "
        "as SessionId",
    )

    # ---- ways to authenticate

    @acp_agent(name="a", version="1", auth_methods=[v2.AuthMethodAgent(method_id="k", name="K")])
    class Logins(Ready):
        pass

    yield (
        Logins,
        ONE,
        "Logins: @acp_agent(auth_methods=…): it names a class of version 2, and the agent speaks 1: use "
        "v1.AuthMethodAgent",
    )
    yield (
        Logins,
        BOTH,
        "Logins: its auth_methods promise what nothing handles in version 2; decorate a method with @authenticate and "
        "one with @logout",
    )

    @acp_agent(name="a", version="1", auth_methods=[v1.AuthMethodAgent(id="k", name="K")])
    class HalfLogin(Ready):
        @authenticate
        def sign_in(self, request: v1.AuthenticateRequest | v2.LoginAuthRequest) -> None:
            return None

    yield (
        HalfLogin,
        TWO,
        "HalfLogin: its auth_methods promise what nothing handles in version 2; decorate a method with @logout",
    )

    class FirstLogin(HalfLogin):
        @authenticate
        def sign_in(self, request: v2.LoginAuthRequest) -> None:  # type: ignore[override]
            return None

        @logout
        def sign_out(self) -> None:
            return None

    yield (
        FirstLogin,
        BOTH,
        "FirstLogin: its auth_methods promise what nothing handles; decorate a method with @authenticate",
    )

    @acp_agent(name="a", version="1", auth_methods=["key"])
    class Wordy(Ready):
        pass

    yield Wordy, TWO, "Wordy: @acp_agent(auth_methods=…): give a list of v2.AuthMethodAgent and v2.AuthMethodTerminal"


MISUSES = list(misuses())


def _name(value: object) -> str | None:
    if isinstance(value, str):
        return ""
    return value.__name__ if isinstance(value, type) else "".join(map(str, value)) if isinstance(value, tuple) else None


@pytest.mark.parametrize(("definition", "versions", "message"), MISUSES, ids=_name)
def test_misuse_of_versions_is_refused(definition: object, versions: tuple[int, ...], message: str) -> None:
    """Class, method, parameter and remedy, word for word."""
    with pytest.raises(AgentDefinitionError) as refused:
        build_agent(definition, builder=AcpAgent.builder().protocol_versions(*versions))
    assert str(refused.value) == message
    if versions == ONE:
        with pytest.raises(AgentDefinitionError) as without:
            build_agent(definition)
        assert str(without.value) == message


@pytest.mark.parametrize("versions", [ONE, TWO, BOTH])
def test_the_class_below_them_is_fine_in_every_version(versions: tuple[int, ...]) -> None:
    """The table's classes are refused for what they add."""
    agent = build_agent(Ready, builder=AcpAgent.builder().protocol_versions(*versions))
    assert agent.info == v1.Implementation(name="a", version="1")


def test_a_prompt_of_the_builders_own() -> None:
    """A class whose prompts are of one version may leave those of the other to a handler that was set by hand."""

    class Agent(Ready):
        @prompt
        def answer(self, request: v2.PromptRequest) -> None:  # type: ignore[override]
            return None

    made = AcpAgent.builder().protocol_versions(1, 2).for_versions(1).prompt_handler(lambda request: None)
    assert build_agent(Agent, builder=made.for_versions(1, 2)).prompt is not None
