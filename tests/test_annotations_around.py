"""
What stands around a decorated method: interceptors, exception handlers, argument resolvers, return-value handlers, and
the thread of a blocking one.
"""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from conftest import LoggedErrors
from halves import AgentHalf
from test_agent_connection import BlockingHalf
from twisted.internet.defer import CancelledError, Deferred, succeed
from zope.interface import implementer
from zope.interface.verify import verifyClass, verifyObject

from acp_twisted import AcpError, AgentConnection, CancellationToken, PromptContext, SyncPromptContext
from acp_twisted.agent.annotations import (
    HandlerMethod,
    HandlerParameter,
    IArgumentResolver,
    IInterceptor,
    Interceptor,
    Invocation,
    IReturnValueHandler,
    PromptText,
    SessionId,
    acp_agent,
    build_agent,
    cancel,
    exception_handler,
    ext_notification,
    ext_request,
    list_sessions,
    new_session,
    prompt,
)
from acp_twisted.errors import AuthRequired, InternalError, RequestCancelled, RequestTimedOut, ResourceNotFound
from acp_twisted.schema import v1

END_TURN = {"result": {"stopReason": "end_turn"}}
NO_RESPONSE = {"error": {"code": -32603, "message": "The session/prompt handler produced no response"}}


class Sorrow(Exception):
    """What may happen in a method."""


class DeepSorrow(Sorrow):
    """The same, worse."""


@acp_agent(name="a", version="1")
class Base:
    """
    One session, C{s1}, and a prompt that does what it is told.

    @ivar does: what the prompt's method returns, or raises.
    """

    def __init__(self, does: Any = "hello") -> None:
        self.does = does

    @new_session
    def open(self) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session_id="s1")

    @prompt
    def answer(self) -> Any:
        if isinstance(self.does, Exception):
            raise self.does
        return self.does


class Recorder(Interceptor):
    """
    Writes down every call about prompts.

    @ivar log: shared with others.
    @ivar goes_on: what C{pre_invoke} returns.
    @ivar instead: what C{on_error} returns, or raises if it is an exception that is to be raised.
    """

    def __init__(self, log: list[tuple[Any, ...]], name: str, *, goes_on: Any = True, instead: Any = None) -> None:
        self.log = log
        self.name = name
        self.goes_on = goes_on
        self.instead = instead
        self.raising: dict[str, Exception] = {}

    def note(self, step: str, invocation: Invocation, *more: object) -> None:
        """One step."""
        if invocation.handler.method == "session/prompt":
            self.log.append((self.name, step, *more))
            if step in self.raising:
                raise self.raising[step]

    def pre_invoke(self, invocation: Invocation) -> Any:
        self.note("pre", invocation)
        return self.goes_on if invocation.handler.method == "session/prompt" else True

    def post_invoke(self, invocation: Invocation, result: Any) -> None:
        self.note("post", invocation, result)

    def on_error(self, invocation: Invocation, error: Exception) -> Any:
        self.note("error", invocation, type(error))
        return self.instead

    def after_completion(self, invocation: Invocation, error: Exception | None) -> None:
        self.note("after", invocation, None if error is None else type(error))


def test_the_base_class_does_nothing_and_provides_all() -> None:
    """It lets everything pass, and so do those that override a part of it."""
    assert verifyClass(IInterceptor, Interceptor)
    assert verifyObject(IInterceptor, Recorder([], "a"))
    half = AgentHalf(build_agent(Base, interceptors=[Interceptor()]))
    half.prompt()
    assert half.answers() == [END_TURN]
    half = AgentHalf(build_agent(Base(AuthRequired()), interceptors=[Interceptor()]))
    half.prompt()
    assert half.answers()[0]["error"]["code"] == -32000


def around(does: Any, *interceptors: Recorder, definition: type[Base] = Base) -> AgentHalf:
    """The agent, prompted once."""
    half = AgentHalf(build_agent(definition(does), interceptors=interceptors))
    half.prompt()
    return half


def texts(half: AgentHalf) -> list[str]:
    """The messages that were sent."""
    return [each["params"]["update"]["content"]["text"] for each in half.received if each.get("method")]


# ---- interceptors


def test_the_order_when_all_goes_well() -> None:
    """In order before the method, the other way round after it."""
    log: list[tuple[Any, ...]] = []
    half = around("hello", Recorder(log, "a"), Recorder(log, "b"))
    assert log == [
        ("a", "pre"),
        ("b", "pre"),
        ("b", "post", "hello"),
        ("a", "post", "hello"),
        ("b", "after", None),
        ("a", "after", None),
    ]
    assert texts(half) == ["hello"]
    assert half.answers() == [END_TURN]


def test_the_order_when_the_method_fails() -> None:
    """C{post_invoke} is left out, and each is told the error."""
    log: list[tuple[Any, ...]] = []
    half = around(AuthRequired("who?"), Recorder(log, "a"), Recorder(log, "b"))
    assert log == [
        ("a", "pre"),
        ("b", "pre"),
        ("b", "error", AuthRequired),
        ("a", "error", AuthRequired),
        ("b", "after", AuthRequired),
        ("a", "after", AuthRequired),
    ]
    assert half.answers() == [{"error": {"code": -32000, "message": "who?"}}]


def test_a_veto() -> None:
    """Nothing more is called but C{after_completion} of those that began, and the answer is -32603."""
    log: list[tuple[Any, ...]] = []
    half = around("never", Recorder(log, "a"), Recorder(log, "b", goes_on=False), Recorder(log, "c"))
    assert log == [("a", "pre"), ("b", "pre"), ("a", "after", InternalError)]
    assert half.answers() == [NO_RESPONSE]
    assert texts(half) == []


@pytest.mark.parametrize("forgotten", [None, 0, 1, ""])
def test_a_forgotten_return_is_no_veto_and_no_consent(forgotten: object, logged_errors: LoggedErrors) -> None:
    """It fails, and says what to return: a gate that returns nothing neither opens nor closes in silence."""
    log: list[tuple[Any, ...]] = []
    half = around("never", Recorder(log, "a"), Recorder(log, "b", goes_on=forgotten))
    assert half.answers()[0]["error"] == {"code": -32603, "message": "Internal error"}
    assert ("a", "after", TypeError) in log
    assert "return True to go on, or False to veto" in logged_errors.texts()[0]
    logged_errors.clear()


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("pre", [("a", "pre"), ("b", "pre"), ("a", "error", ResourceNotFound), ("a", "after", ResourceNotFound)]),
        (
            "post",
            [
                ("a", "pre"),
                ("b", "pre"),
                ("b", "post", "hello"),
                ("b", "error", ResourceNotFound),
                ("a", "error", ResourceNotFound),
                ("b", "after", ResourceNotFound),
                ("a", "after", ResourceNotFound),
            ],
        ),
    ],
)
def test_what_an_interceptor_raises(step: str, expected: list[tuple[Any, ...]]) -> None:
    """It is the answer; those that began are told, and nothing was sent."""
    log: list[tuple[Any, ...]] = []
    inner = Recorder(log, "b")
    inner.raising[step] = ResourceNotFound("gone")
    half = around("hello", Recorder(log, "a"), inner)
    assert log == expected
    assert texts(half) == []
    assert half.answers() == [{"error": {"code": -32002, "message": "gone"}}]


def test_on_error_may_raise_another_error() -> None:
    """The next outer one is told of that; the first is its cause."""
    log: list[tuple[Any, ...]] = []
    inner = Recorder(log, "b")
    replacement = AuthRequired("sign in")
    inner.raising["error"] = replacement
    cause = Sorrow("inside")
    half = around(cause, Recorder(log, "a"), inner)
    assert [each for each in log if each[1] == "error"] == [("b", "error", Sorrow), ("a", "error", AuthRequired)]
    assert replacement.__cause__ is cause
    assert half.answers() == [{"error": {"code": -32000, "message": "sign in"}}]


def test_on_error_may_return_another_error() -> None:
    """The same as raising it."""
    half = around(Sorrow("inside"), Recorder([], "a", instead=AcpError(-1, "mine", {"x": 1})))
    assert half.answers() == [{"error": {"code": -1, "message": "mine", "data": {"x": 1}}}]


def test_on_error_may_raise_the_error_itself() -> None:
    """That leaves it as it is, and it does not become its own cause."""
    inner = Recorder([], "b")
    error = AuthRequired("who?")
    inner.raising["error"] = error
    half = around(error, Recorder([], "a", instead=error), inner)
    assert error.__cause__ is None
    assert half.answers() == [{"error": {"code": -32000, "message": "who?"}}]


def test_on_error_may_give_a_result() -> None:
    """It counts as what the method returned, so a text is sent; the outer ones know of no error."""
    log: list[tuple[Any, ...]] = []
    half = around(Sorrow("inside"), Recorder(log, "a"), Recorder(log, "b", instead="sorry"))
    assert texts(half) == ["sorry"]
    assert half.answers() == [END_TURN]
    assert log[2:] == [("b", "error", Sorrow), ("b", "after", None), ("a", "after", None)]


def test_after_completion_can_not_change_anything(logged_errors: LoggedErrors) -> None:
    """What it raises is logged, the others are called, and the answer stands."""
    log: list[tuple[Any, ...]] = []
    inner = Recorder(log, "b")
    inner.raising["after"] = Sorrow("too late")
    half = around("hello", Recorder(log, "a"), inner)
    assert log[-1] == ("a", "after", None)
    assert half.answers() == [END_TURN]
    assert logged_errors.texts() == ["Recorder.after_completion failed: Sorrow: too late"]
    logged_errors.clear()


def test_a_cancellation_is_no_error() -> None:
    """Nobody may make something else of it, but each that began is told that it is over."""
    log: list[tuple[Any, ...]] = []
    half = around(Deferred(), Recorder(log, "a", instead="never"))
    half.cancel_request()
    assert log == [("a", "pre"), ("a", "after", CancelledError)]
    assert half.answers() == [{"error": {"code": -32800, "message": "Request cancelled"}}]
    assert texts(half) == []


@implementer(IInterceptor)
class Slow:
    """
    Takes its time everywhere.

    @ivar waiting: what it waits for.
    """

    def __init__(self) -> None:
        self.waiting: list[tuple[str, Deferred[Any]]] = []

    def _wait(self, name: str) -> Deferred[Any]:
        self.waiting.append((name, Deferred()))
        return self.waiting[-1][1]

    def go(self, result: object) -> str:
        """End what it waits for; returns what that was."""
        name, deferred = self.waiting.pop()
        deferred.callback(result)
        return name

    def pre_invoke(self, invocation: Invocation) -> Any:
        return self._wait("pre") if invocation.context else True

    async def post_invoke(self, invocation: Invocation, result: Any) -> None:
        if invocation.context:
            await self._wait("post")

    async def on_error(self, invocation: Invocation, error: Exception) -> Any:
        return await self._wait("error")

    def after_completion(self, invocation: Invocation, error: Exception | None) -> Any:
        return self._wait("after") if invocation.context else None


def test_interceptors_may_take_their_time() -> None:
    """Each step is waited for, before the next and before the answer."""
    slow = Slow()
    half = AgentHalf(build_agent(Base, interceptors=[slow]))
    half.prompt()
    assert slow.go(True) == "pre"
    assert texts(half) == []
    assert slow.go(None) == "post"
    assert texts(half) == ["hello"]
    assert half.answers() == []
    assert slow.go(None) == "after"
    assert half.answers() == [END_TURN]


def test_interceptors_may_take_their_time_over_an_error() -> None:
    """What C{on_error} comes to takes the error's place."""
    slow = Slow()
    half = AgentHalf(build_agent(Base(Sorrow()), interceptors=[slow]))
    half.prompt()
    assert [slow.go(each) for each in (True, "sorry", None)] == ["pre", "error", "after"]
    assert texts(half) == ["sorry"]
    assert half.answers() == [END_TURN]


def test_a_cancellation_ends_what_an_interceptor_waits_for(logged_errors: LoggedErrors) -> None:
    """Before and after the method; the answer is given at once, and nothing is logged as a failure."""
    for steps in ([], [True], [True, None]):
        slow = Slow()
        half = AgentHalf(build_agent(Base, interceptors=[slow]))
        half.prompt()
        for step in steps:
            slow.go(step)
        half.cancel_request()
        assert half.answers() == [{"error": {"code": -32800, "message": "Request cancelled"}}]
    assert not logged_errors


class Noting(Interceptor):
    """Keeps the invocations, and something in each."""

    def __init__(self) -> None:
        self.seen: list[Invocation] = []

    def pre_invoke(self, invocation: Invocation) -> bool:
        invocation.attributes["begun"] = len(self.seen)
        self.seen.append(invocation)
        return bool(invocation.request != {"veto": True})

    def after_completion(self, invocation: Invocation, error: Exception | None) -> None:
        invocation.attributes["over"] = True


class Everything(Base):
    """Methods of all kinds."""

    @cancel
    def stop(self) -> None:
        return None

    @ext_request("_x")
    def x(self, params: dict[str, Any]) -> int:
        return 1

    @ext_notification("_y")
    def y(self, params: dict[str, Any]) -> None:
        raise AssertionError("this is vetoed")


def test_interceptors_stand_around_every_method() -> None:
    """Requests, notifications and extensions; what an invocation says of them, and what an interceptor keeps in it."""
    noting = Noting()
    half = AgentHalf(build_agent(Everything, interceptors=[noting]))
    half.prompt()
    half.cancel()
    half.send({"id": 9, "method": "_x", "params": {"a": 1}})
    half.send({"method": "_y", "params": {"veto": True}})
    assert [str(each.handler) for each in noting.seen] == [
        "Everything.open (@new_session)",
        "Everything.answer (@prompt)",
        "Everything.stop (@cancel)",
        "Everything.x (@ext_request)",
        "Everything.y (@ext_notification)",
    ]
    opened, prompted, cancelled, extended, told = noting.seen
    assert isinstance(opened.request, v1.NewSessionRequest)
    assert (opened.context, opened.connection) == (None, half.connection)
    assert isinstance(prompted.context, PromptContext)
    assert prompted.connection is half.connection
    assert prompted.token is prompted.context.token
    assert isinstance(cancelled.request, v1.CancelNotification)
    assert extended.request == {"a": 1}
    assert extended.handler.request_class is None
    assert prompted.handler.request_class is v1.PromptRequest
    assert [each.attributes["begun"] for each in noting.seen] == [0, 1, 2, 3, 4]
    assert [each.attributes.get("over") for each in noting.seen] == [True, True, True, True, None]
    assert told.attributes == {"begun": 4}
    assert half.answers(9) == [{"result": 1}]


def test_an_invocation_shows_no_secrets() -> None:
    """What interceptors keep in it is not in its text (design rule 9)."""
    noting = Noting()
    half = AgentHalf(build_agent(Everything, interceptors=[noting]))
    half.prompt()
    noting.seen[-1].attributes["key"] = "secret"
    assert "secret" not in repr(noting.seen[-1])
    assert "'hi'" not in repr(noting.seen[-1])


# ---- exception handlers


class Mapped(Base):
    """
    Exceptions of some kinds are mapped.

    @ivar told: what the exception handlers were given.
    """

    def __init__(self, does: Any) -> None:
        super().__init__(does)
        self.told: list[Any] = []

    @exception_handler(Sorrow)
    def sorrow(self, error: Sorrow, connection: AgentConnection, invocation: Invocation) -> AcpError:
        self.told.append((error, connection.session_ids, invocation.handler.name))
        return AcpError(-1, "sorrow")

    @exception_handler(DeepSorrow)
    async def deep(self, error: DeepSorrow) -> str:
        return f"deeply sorry: {error}"

    @exception_handler(KeyError, IndexError)
    def lookup(self, error: KeyError | IndexError) -> AcpError:
        raise ResourceNotFound(type(error).__name__)

    @exception_handler(TimeoutError)
    def ignore(self) -> None:
        return None

    @list_sessions
    def listing(self) -> v1.ListSessionsResponse:
        raise Sorrow("here too")


@pytest.mark.parametrize(
    ("error", "sent", "answer"),
    [
        (Sorrow("a"), [], {"error": {"code": -1, "message": "sorrow"}}),
        (DeepSorrow("b"), ["deeply sorry: b"], END_TURN),
        (KeyError("c"), [], {"error": {"code": -32002, "message": "KeyError"}}),
        (IndexError("d"), [], {"error": {"code": -32002, "message": "IndexError"}}),
        (AuthRequired("e"), [], {"error": {"code": -32000, "message": "e"}}),
    ],
)
def test_exceptions_are_mapped(error: Exception, sent: list[str], answer: object) -> None:
    """By the handler of the nearest class: to an error returned or raised, or to a result."""
    half = around(error, definition=Mapped)
    assert texts(half) == sent
    assert half.answers() == [answer]


@pytest.mark.parametrize("error", [TimeoutError("secret"), OSError("secret")])
def test_what_nobody_maps_stays(error: Exception, logged_errors: LoggedErrors) -> None:
    """A handler that returns nothing, and no handler: nothing leaks, and the log has it."""
    half = around(error, definition=Mapped)
    assert half.answers() == [{"error": {"code": -32603, "message": "Internal error"}}]
    assert type(error).__name__ in logged_errors.texts()[0]
    logged_errors.clear()


def test_exception_handlers_are_of_all_methods_and_know_which_failed() -> None:
    """They are given the error, the connection and the invocation; the interceptors see what they made of it."""
    agent = Mapped("fine")
    log: list[tuple[Any, ...]] = []
    half = AgentHalf(build_agent(agent, interceptors=[Recorder(log, "a")]))
    half.send({"id": 9, "method": "session/list", "params": {}})
    assert half.answers(9) == [{"error": {"code": -1, "message": "sorrow"}}]
    ((error, session_ids, name),) = agent.told
    assert (str(error), session_ids, name) == ("here too", ("s1",), "listing")
    agent.does = Sorrow("prompt")
    half.prompt()
    assert ("a", "error", AcpError) in log


class CatchAll(Base):
    """Everything that is no answer yet is mapped."""

    @exception_handler(Exception)
    def all(self, error: Exception) -> AcpError:
        return AcpError(-1, type(error).__name__)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Sorrow(), -1),
        (RequestTimedOut("fs/read_text_file", 1.0), -1),
        (AuthRequired(), -32000),
        (CancelledError(), -32800),
        (RequestCancelled(), -32800),
    ],
)
def test_a_handler_of_all_exceptions_leaves_answers_and_cancellations(error: Exception, code: int) -> None:
    """An error of the protocol is an answer already, and a cancellation no failure; a local error is one."""
    assert around(error, definition=CatchAll).answers()[0]["error"]["code"] == code


def test_a_handler_of_cancellations_is_asked_about_them() -> None:
    """Who names them means them."""

    class Agent(Base):
        @exception_handler(CancelledError)
        def stopped(self, error: CancelledError) -> v1.PromptResponse:
            return v1.PromptResponse(stop_reason="refusal")

        @exception_handler(AcpError)
        def refused(self, error: AcpError) -> AcpError:
            return AcpError(-1, error.message)

    assert around(CancelledError(), definition=Agent).answers() == [{"result": {"stopReason": "refusal"}}]
    assert around(AuthRequired("a"), definition=Agent).answers() == [{"error": {"code": -1, "message": "a"}}]


# ---- resolvers and return-value handlers of the user's own


class User:
    """Who is there."""

    def __init__(self, name: str) -> None:
        self.name = name


@implementer(IArgumentResolver)
class Users:
    """Knows who is there, after a while."""

    def supports(self, parameter: HandlerParameter) -> bool:
        return parameter.annotation is User or "shout" in parameter.metadata

    def resolve(self, parameter: HandlerParameter, invocation: Invocation) -> object:
        if parameter.annotation is User:
            return succeed(User(f"{parameter.name} of {invocation.request.session_id}"))
        return "LOUD"


@implementer(IReturnValueHandler)
class Numbers:
    """Numbers are sent as texts."""

    def supports(self, handler: HandlerMethod) -> bool:
        return handler.returns is int

    async def handle(self, value: Any, invocation: Invocation) -> object:
        return f"{value} for {invocation.handler.name}"


def test_a_resolver_of_ones_own() -> None:
    """It is asked before the built-in ones, and may take its time; Annotated's own words reach it."""

    class Agent(Base):
        @prompt
        def answer(self, who: User | None, text: Annotated[PromptText, "shout"], session: SessionId) -> str:  # type: ignore[override]
            assert who is not None
            return f"{who.name}, {text}, {session}"

    assert verifyObject(IArgumentResolver, Users())
    half = AgentHalf(build_agent(Agent, argument_resolvers=[Users()]))
    half.prompt()
    assert texts(half) == ["who of s1, LOUD, s1"]


def test_a_return_value_handler_of_ones_own() -> None:
    """It sees what comes out of a coroutine, and what it makes of it is treated as if the method had returned it."""

    class Agent(Base):
        @prompt
        async def answer(self) -> int:
            return 42

    assert verifyObject(IReturnValueHandler, Numbers())
    half = AgentHalf(build_agent(Agent, return_value_handlers=[Numbers()]))
    half.prompt()
    assert texts(half) == ["42 for answer"]
    assert half.answers() == [END_TURN]


# ---- in a thread


def test_a_blocking_method() -> None:
    """It is called in the pool with its own context; what is around it is not, and its text is sent when it is done."""
    log: list[tuple[Any, ...]] = []

    class Agent(Base):
        @prompt(blocking=True)
        def answer(self, text: PromptText, context: SyncPromptContext, *, token: CancellationToken) -> str:  # type: ignore[override]
            assert not token.cancelled
            assert isinstance(context, SyncPromptContext)
            context.send_message("one")
            return f"{text} {context.session_id}"

    half = BlockingHalf(build_agent(Agent, interceptors=[Recorder(log, "a")]))
    half.prompt()
    assert log == [("a", "pre")]
    assert half.received == []
    half.pool.run()
    assert texts(half) == ["one", "hi s1"]
    assert half.answers() == [END_TURN]
    assert log[1:] == [("a", "post", "hi s1"), ("a", "after", None)]


def test_a_blocking_method_is_left_to_itself() -> None:
    """When its turn is over, its answer is given at once; what it returns in the end is dropped."""

    class Agent(Base):
        @prompt(blocking=True)
        def answer(self, context: SyncPromptContext) -> str:  # type: ignore[override]
            assert context.is_cancelled
            return "late"

    half = BlockingHalf(build_agent(Agent))
    half.prompt()
    half.cancel_request()
    half.pool.run()
    assert half.answers() == [{"error": {"code": -32800, "message": "Request cancelled"}}]
    assert texts(half) == []


def test_a_blocking_method_fails() -> None:
    """Its exception is mapped as any other."""

    class Agent(CatchAll):
        @prompt(blocking=True)
        def answer(self) -> str:
            raise Sorrow()

    half = BlockingHalf(build_agent(Agent))
    half.prompt()
    half.pool.run()
    assert half.answers() == [{"error": {"code": -1, "message": "Sorrow"}}]
