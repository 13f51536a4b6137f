"""
The decorators: they leave a mark on what they decorate and return it unchanged, so that it can still be called and
tested like any other method, and a type checker sees what was written.

Whether the marks make sense is looked at when the agent is built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast, overload

from attrs import frozen

_F = TypeVar("_F", bound="Callable[..., Any]")
_C = TypeVar("_C", bound=type)

_MARKS: Final = "__acp_marks__"
_AGENT: Final = "__acp_agent__"
_MISSING: Final = cast("str", None)


@frozen
class AgentMark:
    """
    What L{acp_agent} says of a class.
    """

    name: str
    version: str
    title: str | None
    auth_methods: Sequence[Any]
    mcp_http: bool
    mcp_sse: bool
    additional_directories: bool
    unstable: bool = False


@frozen
class Mark:
    """
    That a method handles one of the protocol's methods, or an extension's.

    @ivar decorator: the decorator's name, for messages.
    @ivar method: the name on the wire, in the first version that has it.
    @ivar is_request: whether it is answered.
    @ivar unstable: whether the protocol has not settled it yet.
    @ivar versions: the versions of the protocol that have it.
    @ivar second: the name on the wire in version 2, where that is another one.
    """

    decorator: str
    method: str
    is_request: bool = True
    image: bool = False
    audio: bool = False
    embedded_context: bool = False
    blocking: bool = False
    unstable: bool = False
    versions: tuple[int, ...] = (1, 2)
    second: str | None = None

    def name_in(self, version: int) -> str:
        """
        The name on the wire in a version that has it.
        """
        return self.second if version == 2 and self.second is not None else self.method

    @property
    def key(self) -> str:
        """
        The same for two marks that can't both be on methods for one version.
        """
        return {"login": "authenticate", "accept_prompt": "accept_prompt"}.get(self.decorator, self.method)


@frozen
class ErrorMark:
    """
    That a method maps exceptions of these classes.
    """

    kinds: tuple[type[BaseException], ...]


AnyMark = Mark | ErrorMark


def marks_of(attribute: object) -> tuple[AnyMark, ...]:
    """
    The marks on an attribute of a class, the innermost decorator's first.
    """
    if isinstance(attribute, property):
        attribute = attribute.fget
    function = getattr(attribute, "__func__", attribute)  # what a staticmethod or a classmethod is made of
    marks: tuple[AnyMark, ...] = getattr(function, "__dict__", {}).get(_MARKS, ())
    return marks


def agent_mark_of(cls: type) -> AgentMark | None:
    """
    What L{acp_agent} says of the class, or of the nearest one that it inherits from.
    """
    mark: AgentMark | None = getattr(cls, _AGENT, None)
    return mark


def marked(function: _F, mark: AnyMark, decorator: str) -> _F:
    """
    Leave a mark on a method.

    @param decorator: who leaves it, for the message.
    @raise TypeError: when it is no method.
    """
    target: Any = getattr(function, "__func__", function)
    if isinstance(target, type) or not callable(target):
        raise TypeError(f"@{decorator} is for a method, and this is a {type(function).__name__}")
    setattr(target, _MARKS, (*marks_of(target), mark))
    return function


def acp_agent(
    cls: None = None,
    /,
    *,
    name: str = _MISSING,
    version: str = _MISSING,
    title: str | None = None,
    auth_methods: Sequence[Any] = (),
    mcp_http: bool = False,
    mcp_sse: bool = False,
    additional_directories: bool = False,
    unstable: bool = False,
) -> Callable[[_C], _C]:
    """
    For a class: instances of it are agents.  A subclass is one too, and says the same of itself unless it is decorated
    again.

    @param name: what C{initialize} says of the agent, with C{version} and C{title}.
    @param auth_methods: the ways to authenticate, C{v1.AuthMethodAgent} and C{v1.AuthMethodTerminal}; for an agent that
        speaks version 2 also those of C{v2}, which then take the place of the others in that version.
    @param mcp_http: whether it can use MCP servers over HTTP.
    @param mcp_sse: whether it can use MCP servers over SSE.
    @param additional_directories: whether its sessions take more directories than C{cwd}.
    @param unstable: whether methods may handle what the protocol has not settled yet.
    @raise TypeError: without a name and a version, and without parentheses.
    """
    if cls is not None or _MISSING in (name, version):
        raise TypeError('@acp_agent takes the name and the version; write @acp_agent(name="…", version="…")')

    def decorate(cls: _C) -> _C:
        if not isinstance(cls, type):
            raise TypeError(f"@acp_agent is for a class, and this is a {type(cls).__name__}")
        mark = AgentMark(name, version, title, auth_methods, mcp_http, mcp_sse, additional_directories, unstable)
        setattr(cls, _AGENT, mark)
        return cls

    return decorate


@overload
def prompt(function: _F, /) -> _F: ...


@overload
def prompt(
    *, image: bool = False, audio: bool = False, embedded_context: bool = False, blocking: bool = False
) -> Callable[[_F], _F]: ...


def prompt(
    function: Callable[..., Any] | None = None,
    /,
    *,
    image: bool = False,
    audio: bool = False,
    embedded_context: bool = False,
    blocking: bool = False,
) -> Callable[..., Any]:
    """
    For the method that answers C{session/prompt}; the one that an agent must have.

    It returns a L{TurnResult<acp_twisted.turn.result.TurnResult>}, or a C{v1.PromptResponse} in version 1 and a
    C{v2.IdleStateUpdate} in version 2; or a C{str}, which is sent as a message before the turn ends with C{end_turn}
    (nothing is sent of an empty one); or L{None}, which ends the turn so too.  Where the annotation of what it returns
    is C{v1.StopReason}, or a C{Literal} of stop reasons, a C{str} is one.

    @param image: whether prompts may have pictures.
    @param audio: whether prompts may have sound.
    @param embedded_context: whether prompts may have resources within them.
    @param blocking: run it in the reactor's thread pool; its context is a
        L{SyncPromptContext<acp_twisted.agent.blocking.SyncPromptContext>}.
    """

    def decorate(method: _F) -> _F:
        mark = Mark(
            "prompt",
            "session/prompt",
            image=image,
            audio=audio,
            embedded_context=embedded_context,
            blocking=blocking,
        )
        return marked(method, mark, "prompt")

    return decorate if function is None else decorate(function)


def initialize(function: _F) -> _F:
    """
    For the method that has a say in the answer to C{initialize}.  What it leaves out is filled in: a capability is
    announced when the method's answer or the agent's handlers say so.  It may return L{None}.
    """
    return marked(function, Mark("initialize", "initialize"), "initialize")


def authenticate(function: _F) -> _F:
    """
    For the method that answers C{authenticate}, which is C{auth/login} in version 2.
    """
    return marked(function, Mark("authenticate", "authenticate", second="auth/login"), "authenticate")


def logout(function: _F) -> _F:
    """
    For the method that answers C{logout}, which is C{auth/logout} in version 2.
    """
    return marked(function, Mark("logout", "logout", second="auth/logout"), "logout")


def new_session(function: _F) -> _F:
    """
    For the method that answers C{session/new}.  Without one a session gets a random id, and neither modes nor options.
    """
    return marked(function, Mark("new_session", "session/new"), "new_session")


def load_session(function: _F) -> _F:
    """
    For the method that answers C{session/load}, once the whole conversation is replayed (1.43).  In version 2 that is a
    C{session/resume} that wants a replay.
    """
    return marked(function, Mark("load_session", "session/load", second="session/resume"), "load_session")


def resume_session(function: _F) -> _F:
    """
    For the method that answers C{session/resume}, without any replay (1.44).  One that names classes of version 2 is
    also asked for replays there, unless another one is decorated with L{load_session}.
    """
    return marked(function, Mark("resume_session", "session/resume"), "resume_session")


def list_sessions(function: _F) -> _F:
    """
    For the method that answers C{session/list}.
    """
    return marked(function, Mark("list_sessions", "session/list"), "list_sessions")


def close_session(function: _F) -> _F:
    """
    For the method that answers C{session/close}, once a turn that was running has been cancelled and answered.
    """
    return marked(function, Mark("close_session", "session/close"), "close_session")


def delete_session(function: _F) -> _F:
    """
    For the method that answers C{session/delete}.
    """
    return marked(function, Mark("delete_session", "session/delete"), "delete_session")


def set_session_mode(function: _F) -> _F:
    """
    For the method that answers C{session/set_mode}, which only version 1 has.
    """
    return marked(function, Mark("set_session_mode", "session/set_mode", versions=(1,)), "set_session_mode")


def set_session_config_option(function: _F) -> _F:
    """
    For the method that answers C{session/set_config_option}, with all options (1.95).
    """
    mark = Mark("set_session_config_option", "session/set_config_option")
    return marked(function, mark, "set_session_config_option")


def cancel(function: _F) -> _F:
    """
    For the method that is told of every C{session/cancel}, and of C{session/close}, once the turn's token is set.  It
    must be quick.
    """
    return marked(function, Mark("cancel", "session/cancel", is_request=False), "cancel")


def cancel_request(function: _F) -> _F:
    """
    For the method that is told of every C{$/cancel_request}, after it has taken effect.
    """
    return marked(function, Mark("cancel_request", "$/cancel_request", is_request=False), "cancel_request")


def ext_request(method: str) -> Callable[[_F], _F]:
    """
    For the method that answers an extension's request.

    @param method: its name, which begins with an underscore.
    @raise TypeError: when it is no string, as when the brackets were forgotten.
    """
    return _extension(method, "ext_request", is_request=True)


def ext_notification(method: str) -> Callable[[_F], _F]:
    """
    For the method that is told of an extension's notification.

    @param method: its name, which begins with an underscore.
    @raise TypeError: when it is no string, as when the brackets were forgotten.
    """
    return _extension(method, "ext_notification", is_request=False)


def _extension(method: str, decorator: str, *, is_request: bool) -> Callable[[_F], _F]:
    if not isinstance(method, str):
        raise TypeError(f'@{decorator} takes the name on the wire: @{decorator}("_name")')

    def decorate(function: _F) -> _F:
        return marked(function, Mark(decorator, method, is_request), decorator)

    return decorate


def exception_handler(*kinds: type[BaseException]) -> Callable[[_F], _F]:
    """
    For the method that is asked when another method of the class fails with one of these exceptions.  The handler of
    the nearest class counts.

    What it returns or raises takes the exception's place: an exception becomes the answer (an
    C{AcpError} as it is), L{None} leaves things as they are, and anything else counts as
    what the method itself returned.

    A cancellation is no failure, and an C{AcpError} that the method raised is its answer
    already.  So a handler of C{Exception} is not asked about these; only one of
    L{CancelledError<twisted.internet.defer.CancelledError>} or C{AcpError} itself, or of a class that inherits from
    them.  A L{LocalError<acp_twisted.errors.LocalError>} (the link was lost, a request took too long) is a failure like
    others.

    @raise TypeError: when no class of exceptions is named.
    """
    if not kinds or not all(isinstance(each, type) and issubclass(each, BaseException) for each in kinds):
        raise TypeError("@exception_handler takes the exceptions' classes: @exception_handler(ValueError)")

    def decorate(function: _F) -> _F:
        return marked(function, ErrorMark(kinds), "exception_handler")

    return decorate
