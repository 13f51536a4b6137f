"""
Every way to get a decorated class wrong is refused, before any client connects: with class, method, parameter and
remedy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest
from twisted.internet.defer import Deferred
from zope.interface import implementer

from acp_twisted import AcpAgent, AgentConnection, CancellationToken, PromptContext, SyncPromptContext
from acp_twisted.agent.annotations import (
    AgentDefinitionError,
    ConfigId,
    IInterceptor,
    Interceptor,
    PromptText,
    SessionId,
    acp_agent,
    build_agent,
    cancel,
    exception_handler,
    ext_notification,
    ext_request,
    initialize,
    list_sessions,
    load_session,
    new_session,
    prompt,
    set_session_mode,
)
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from decimal import Decimal


@acp_agent(name="a", version="1")
class Ready:
    """A class that could be an agent."""

    @prompt
    def answer(self) -> Any:
        return None


def misuses() -> Iterator[tuple[object, str]]:  # noqa: PLR0915 - a list of classes, with nothing to decide
    """Each wrong class, and what it is refused with."""

    class Undecorated:
        @prompt
        def answer(self) -> None:
            return None

    yield Undecorated, 'Undecorated: it is not decorated; write @acp_agent(name="…", version="…") above the class'
    yield Undecorated(), 'Undecorated: it is not decorated; write @acp_agent(name="…", version="…") above the class'

    @acp_agent(name="", version="1")
    class Nameless(Ready):
        pass

    yield Nameless, "Nameless: @acp_agent(name=''): give a text; write name=\"…\""

    @acp_agent(name="a", version=1)  # type: ignore[arg-type]
    class Numbered(Ready):
        pass

    yield Numbered, 'Numbered: @acp_agent(version=1): give a text; write version="…"'

    @acp_agent(name="a", version="1", auth_methods=["key"])
    class WordyAuth(Ready):
        pass

    yield (
        WordyAuth,
        "WordyAuth: @acp_agent(auth_methods=…): give a list of v1.AuthMethodAgent and v1.AuthMethodTerminal",
    )

    @acp_agent(name="a", version="1", auth_methods=[v1.AuthMethodAgent(id="k", name="K")])
    class Promising(Ready):
        pass

    yield (
        Promising,
        "Promising: its auth_methods promise what nothing handles; decorate a method with @authenticate",
    )

    @acp_agent(name="a", version="1")
    class Mute:
        @new_session
        def open(self) -> v1.NewSessionResponse:
            return v1.NewSessionResponse(session_id="s")

    yield Mute, "Mute: it has no @prompt method, which every agent needs; decorate one"

    class Demanding(Ready):
        def __init__(self, model: str) -> None:
            self.model = model

    yield (
        Demanding,
        "Demanding: it can't be made without arguments (missing a required argument: 'model'); give build_agent an "
        "instance",
    )

    class Twice(Ready):
        @prompt
        def other(self) -> None:
            return None

    yield (
        Twice,
        "Twice.other (@prompt): Twice.answer (@prompt) handles session/prompt already; keep one of the two decorators, "
        "or set one of the methods to None in the subclass",
    )

    class TwiceOnOne(Ready):
        @ext_request("_a")
        @ext_notification("_a")
        def both(self) -> None:
            return None

    yield (
        TwiceOnOne,
        "TwiceOnOne.both (@ext_request): TwiceOnOne.both (@ext_notification) handles _a already; keep one of the two "
        "decorators, or set one of the methods to None in the subclass",
    )

    class Attribute(Ready):
        @property
        @new_session
        def open(self) -> v1.NewSessionResponse:
            return v1.NewSessionResponse(session_id="s")

    yield Attribute, "Attribute.open (@new_session): it is of type property; decorate a method"

    class Value(Ready):
        answer = 3  # type: ignore[assignment]

    yield Value, "Value.answer (@prompt): it is of type int; decorate a method"

    class Unannotated(Ready):
        @prompt
        def answer(self, text) -> None:  # type: ignore[no-untyped-def,override]
            return None

    yield (
        Unannotated,
        "Unannotated.answer (@prompt), parameter 'text': it has no annotation; annotate it with v1.PromptRequest, "
        "SessionId, PromptContext, PromptText, AgentConnection, CancellationToken, v1.ClientCapabilities or Invocation",
    )

    class Unknown(Ready):
        @new_session
        def open(self, cwd: str) -> v1.NewSessionResponse:
            return v1.NewSessionResponse(session_id=cwd)

    yield (
        Unknown,
        "Unknown.open (@new_session), parameter 'cwd': nothing is known to pass for str; annotate it with "
        "v1.NewSessionRequest, Cwd, AgentConnection, CancellationToken, v1.ClientCapabilities or Invocation, or give "
        "build_agent an argument resolver for it",
    )

    class UnknownOfMany(Ready):
        @cancel
        def stop(self, what: str | int) -> None:
            return None

    yield (
        UnknownOfMany,
        "UnknownOfMany.stop (@cancel), parameter 'what': nothing is known to pass for str | int; annotate it with "
        "v1.CancelNotification, SessionId, AgentConnection, v1.ClientCapabilities or Invocation, or give build_agent "
        "an argument resolver for it",
    )

    class UnknownParams(Ready):
        @ext_request("_x")
        def x(self, count: int) -> None:
            return None

    yield (
        UnknownParams,
        "UnknownParams.x (@ext_request), parameter 'count': nothing is known to pass for int; annotate it with "
        "dict[str, Any], AgentConnection, CancellationToken, v1.ClientCapabilities or Invocation, or give build_agent "
        "an argument resolver for it",
    )

    class Rest(Ready):
        @prompt
        def answer(self, *rest: Any, **more: Any) -> None:
            return None

    yield (
        Rest,
        "Rest.answer (@prompt), parameter 'rest': nothing can be passed for it; name each parameter by itself\n"
        "Rest.answer (@prompt), parameter 'more': nothing can be passed for it; name each parameter by itself",
    )

    class OtherRequest(Ready):
        @load_session
        def load(self, request: v1.ResumeSessionRequest) -> None:
            return None

    yield (
        OtherRequest,
        "OtherRequest.load (@load_session), parameter 'request': the method is given a v1.LoadSessionRequest, and "
        "never a v1.ResumeSessionRequest; change the annotation or the decorator",
    )

    class NoSuchMember(Ready):
        @new_session
        def open(self, session: SessionId) -> v1.NewSessionResponse:
            return v1.NewSessionResponse(session_id=session)

    yield (
        NoSuchMember,
        "NoSuchMember.open (@new_session), parameter 'session': the request is v1.NewSessionRequest, which has no "
        "session_id; drop the parameter or change the decorator",
    )

    class NoMembers(Ready):
        @ext_request("_x")
        def x(self, config: ConfigId) -> None:
            return None

    yield (
        NoMembers,
        "NoMembers.x (@ext_request), parameter 'config': the request is plain JSON, which has no config_id; drop the "
        "parameter or change the decorator",
    )

    class NoText(Ready):
        @set_session_mode
        def mode(self, text: PromptText) -> None:
            return None

    yield (
        NoText,
        "NoText.mode (@set_session_mode), parameter 'text': only a prompt has a PromptText; take a member of the "
        "request, such as SessionId",
    )

    class NoContext(Ready):
        @new_session
        def open(self, context: PromptContext) -> v1.NewSessionResponse:
            return v1.NewSessionResponse(session_id=context.session_id)

    yield (
        NoContext,
        "NoContext.open (@new_session), parameter 'context': only a @prompt method has a context; take an "
        "AgentConnection",
    )

    class NotBlocking(Ready):
        @prompt
        def answer(self, context: SyncPromptContext) -> None:  # type: ignore[override]
            return None

    yield (
        NotBlocking,
        "NotBlocking.answer (@prompt), parameter 'context': only a blocking method has one; write "
        "@prompt(blocking=True), or take a PromptContext",
    )

    class WrongThread(Ready):
        @prompt(blocking=True)
        def answer(self, context: PromptContext, connection: AgentConnection) -> None:  # type: ignore[override]
            return None

    yield (
        WrongThread,
        "WrongThread.answer (@prompt), parameter 'context': a blocking method runs in a thread; take a "
        "SyncPromptContext, or drop blocking=True\n"
        "WrongThread.answer (@prompt), parameter 'connection': a connection is not for other threads; take a "
        "SyncPromptContext, or drop blocking=True",
    )

    class BlockingCoroutine(Ready):
        @prompt(blocking=True)
        async def answer(self) -> None:
            return None

    yield (
        BlockingCoroutine,
        "BlockingCoroutine.answer (@prompt): async def does not block; drop blocking=True, or write def",
    )

    class Streaming(Ready):
        @prompt
        async def answer(self) -> AsyncIterator[str]:
            yield "a"

    yield Streaming, "Streaming.answer (@prompt): it is a generator; send what it yields, and return the answer"

    class Yielding(Ready):
        @prompt
        def answer(self) -> Generator[str, None, None]:
            yield "a"

    yield Yielding, "Yielding.answer (@prompt): it is a generator; send what it yields, and return the answer"

    class Uncancellable(Ready):
        @cancel
        def stop(self, token: CancellationToken) -> None:
            return None

    yield (
        Uncancellable,
        "Uncancellable.stop (@cancel), parameter 'token': a notification can't be cancelled; take no CancellationToken",
    )

    class TypeCheckedOnly(Ready):
        @prompt
        def answer(self, number: Decimal) -> Decimal:  # type: ignore[override]
            return number

    remedy = (
        "its annotation 'Decimal' names 'Decimal', which test_annotations_misuse does not have when the agent is "
        "built; import it there at run time too, not only for the type checker, and define it outside of any function"
    )
    yield (
        TypeCheckedOnly,
        f"TypeCheckedOnly.answer (@prompt), what it returns: {remedy}\n"
        f"TypeCheckedOnly.answer (@prompt), parameter 'number': {remedy}",
    )

    class Misspelt(Ready):
        @prompt
        def answer(self, text: v1.PromptReqest) -> None:  # type: ignore[name-defined,override]
            return None

    yield (
        Misspelt,
        "Misspelt.answer (@prompt), parameter 'text': its annotation 'v1.PromptReqest' can't be evaluated "
        "(AttributeError: module 'acp_twisted.schema.v1' has no attribute 'PromptReqest'); correct it",
    )

    class Plain(Ready):
        @ext_request("plain")
        def x(self) -> None:
            return None

    yield (
        Plain,
        'Plain.x (@ext_request): the name of an extension begins with an underscore; write @ext_request("_plain")',
    )

    # ---- what is returned

    class Number(Ready):
        @prompt
        def answer(self) -> int:
            return 1

    yield (
        Number,
        "Number.answer (@prompt): it returns int, of which nothing can be made; return v1.PromptResponse, TurnResult "
        "or str, or give build_agent a return-value handler for it",
    )

    class Text(Ready):
        @new_session
        async def open(self) -> str:
            return "s1"

    yield (
        Text,
        "Text.open (@new_session): it returns str, of which nothing can be made; return v1.NewSessionResponse, or give "
        "build_agent a return-value handler for it",
    )

    class Nothing(Ready):
        @list_sessions
        def listing(self) -> Deferred[v1.ListSessionsResponse | None]:
            return Deferred()

    yield (
        Nothing,
        "Nothing.listing (@list_sessions): it returns None, and session/list wants an answer; return a "
        "v1.ListSessionsResponse",
    )

    class Capabilities(Ready):
        @initialize
        def greet(self) -> v1.AgentCapabilities:
            return v1.AgentCapabilities()

    yield (
        Capabilities,
        "Capabilities.greet (@initialize): it returns AgentCapabilities, of which nothing can be made; return "
        "v1.InitializeResponse, or give build_agent a return-value handler for it",
    )

    # ---- exception handlers

    class Again(Ready):
        @exception_handler(ValueError, KeyError)
        def one(self) -> None:
            return None

        @exception_handler(KeyError)
        def two(self) -> None:
            return None

    yield (
        Again,
        "Again.two (@exception_handler): Again.one (@exception_handler) handles KeyError already; name it in one of "
        "the two",
    )

    class Narrow(Ready):
        @exception_handler(ValueError, KeyError)
        def one(self, error: ValueError) -> None:
            return None

    yield (
        Narrow,
        "Narrow.one (@exception_handler), parameter 'error': it does not take KeyError, which the method handles; "
        "widen its annotation",
    )

    class Bare(Ready):
        @exception_handler(ValueError, KeyError)
        def one(self, error, token: CancellationToken, request: v1.PromptRequest) -> None:  # type: ignore[no-untyped-def]
            return None

    choices = "ValueError | KeyError, AgentConnection, v1.ClientCapabilities or Invocation"
    yield (
        Bare,
        f"Bare.one (@exception_handler), parameter 'error': it has no annotation; annotate it with {choices}\n"
        "Bare.one (@exception_handler), parameter 'token': what failed may be a notification, which can't be "
        "cancelled; take an Invocation\n"
        "Bare.one (@exception_handler), parameter 'request': nothing is known to pass for PromptRequest; annotate it "
        f"with {choices}, or give build_agent an argument resolver for it",
    )


MISUSES = list(misuses())


def _name(value: object) -> str | None:
    if isinstance(value, str):
        return ""
    return value.__name__ if isinstance(value, type) else type(value).__name__


@pytest.mark.parametrize(("definition", "message"), MISUSES, ids=_name)
def test_misuse_is_refused_when_the_agent_is_built(definition: object, message: str) -> None:
    """Class, method, parameter and remedy, word for word."""
    with pytest.raises(AgentDefinitionError) as refused:
        build_agent(definition)
    assert str(refused.value) == message
    assert refused.value.faults == tuple(message.split("\n"))


def test_the_class_below_them_is_fine() -> None:
    """The table's classes are refused for what they add."""
    assert build_agent(Ready).info == v1.Implementation(name="a", version="1")


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda: ext_request(cast(str, print)), '@ext_request takes the name on the wire: @ext_request("_name")'),
        (
            lambda: ext_notification(cast(str, print)),
            '@ext_notification takes the name on the wire: @ext_notification("_name")',
        ),
        (
            lambda: exception_handler(cast("type[Exception]", print)),
            "@exception_handler takes the exceptions' classes: @exception_handler(ValueError)",
        ),
        (
            exception_handler,
            "@exception_handler takes the exceptions' classes: @exception_handler(ValueError)",
        ),
        (lambda: prompt(cast("Callable[..., Any]", property())), "@prompt is for a method, and this is a property"),
        (lambda: new_session(Ready), "@new_session is for a method, and this is a type"),
    ],
)
def test_misuse_that_would_lose_the_method_is_refused_at_once(misuse: Callable[[], object], message: str) -> None:
    """Brackets forgotten, or something decorated that is no method: nothing would be left to find later."""
    with pytest.raises(TypeError) as refused:
        misuse()
    assert str(refused.value) == message


@implementer(IInterceptor)
class Half:  # type: ignore[misc]
    """Says that it is an interceptor, and is not."""

    def pre_invoke(self, invocation: Any) -> bool:
        return True


@pytest.mark.parametrize("given", [Interceptor, object(), Half()])
@pytest.mark.parametrize("option", ["interceptors", "argument_resolvers", "return_value_handlers"])
def test_what_does_not_provide_its_interface_is_refused(option: str, given: object) -> None:
    """A class instead of an instance, anything else, and half an implementation."""
    options: Any = {option: [given]}
    with pytest.raises(AgentDefinitionError) as refused:
        build_agent(Ready, **options)
    names = {
        "interceptors": "IInterceptor",
        "argument_resolvers": "IArgumentResolver",
        "return_value_handlers": "IReturnValueHandler",
    }
    kind = given.__name__ if isinstance(given, type) else type(given).__name__
    assert str(refused.value) == (
        f"Ready: {option}: {kind} does not provide {names[option]}; give an instance of a class with "
        f"@implementer({names[option]}) and all of its methods"
    )


def test_a_builders_handler_is_not_overwritten() -> None:
    """A method that the builder handles already has no second handler."""
    with pytest.raises(ValueError, match="prompt_handler: session/prompt has a handler already"):
        build_agent(Ready, builder=AcpAgent.builder().prompt_handler(print))


class Literally(Ready):
    """Returns that look unusual, and are fine."""

    @prompt
    async def answer(self) -> Literal["yes", "no"] | v1.PromptResponse | None:
        return "yes"


class Own(v1.PromptResponse):
    """A response of the user's."""


@pytest.mark.parametrize(
    "annotation",
    [Any, object, str | None, Own, Deferred[Own], Deferred, "Deferred[str] | str", v1.PromptResponse, None],
    ids=repr,
)
def test_what_may_come_out_right_is_not_refused(annotation: object) -> None:
    """Types within Deferreds and unions, subclasses, and what tells nothing."""

    class Agent(Ready):
        def answer(self) -> Any:
            return None

    Agent.answer.__annotations__["return"] = annotation
    assert build_agent(Agent).info is not None
    assert build_agent(Literally).info is not None


@pytest.mark.parametrize(
    "misused",
    [
        lambda: acp_agent(Ready),  # type: ignore[arg-type]
        lambda: acp_agent()(Ready),
        lambda: acp_agent(name="a")(Ready),
        lambda: acp_agent(version="1")(Ready),
    ],
)
def test_the_class_decorator_without_its_arguments(misused: Callable[[], object]) -> None:
    """Without parentheses, or without a name: as it is to be written."""
    with pytest.raises(TypeError, match=r'write @acp_agent\(name="…", version="…"\)'):
        misused()


def test_the_class_decorator_is_for_classes() -> None:
    """And not for a function or an instance."""
    for other in (Ready(), print):
        with pytest.raises(TypeError, match="@acp_agent is for a class, and this is a"):
            acp_agent(name="a", version="1")(other)  # type: ignore[type-var]


def test_a_method_without_self() -> None:
    """Is named, with how to write it."""

    @acp_agent(name="a", version="1")
    class Agent:
        @prompt
        def answer() -> str:  # type: ignore[misc]
            return "x"

    with pytest.raises(AgentDefinitionError) as told:
        build_agent(Agent)
    assert str(told.value).splitlines()[0] == (
        "Agent.answer (@prompt): it takes no arguments, not even self; write def answer(self)"
    )
