"""
Ready-made answers to an agent that asks for permission, for C{request_permission_handler}.

Each policy is a function of the request and its connection.  None of them ever takes an option that is not among those
offered for a yes, and a no for which the agent offers no option is C{cancelled}, which no agent may take for a yes.

An agent says itself what it is about to do: a policy that looks at the kind, the name or the title of a tool call
trusts the agent that far.

They serve both versions of the protocol.  A request of version 2 need not be about a tool call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from acp_twisted.handlers import outcome, two_arguments
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.client.connection import ClientConnection
    from acp_twisted.client.picture import TrackedToolCall

_log = Logger()

Policy: TypeAlias = "Callable[[v1.RequestPermissionRequest, ClientConnection | None], Any]"
"""What C{request_permission_handler} takes."""


def selected(option_id: str) -> v1.RequestPermissionResponse:
    """
    The answer: this option.
    """
    return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=option_id))


def cancelled() -> v1.RequestPermissionResponse:
    """
    The answer: none of them.
    """
    return v1.RequestPermissionResponse(outcome=v1.CancelledPermissionOutcome())


def _first(request: v1.RequestPermissionRequest, *kinds: str) -> v1.RequestPermissionResponse:
    """
    The first option of the first of these kinds that is offered.
    """
    for kind in kinds:
        for option in request.options:
            if option.kind == kind:
                return selected(option.option_id)
    return cancelled()


def first_allow(
    request: v1.RequestPermissionRequest, connection: ClientConnection | None = None
) -> v1.RequestPermissionResponse:
    """
    Allow everything: C{allow_once} where it is offered, else C{allow_always}, else C{cancelled}.
    """
    return _first(request, "allow_once", "allow_always")


def deny(
    request: v1.RequestPermissionRequest, connection: ClientConnection | None = None
) -> v1.RequestPermissionResponse:
    """
    Allow nothing: C{reject_once} where it is offered, else C{reject_always}, else C{cancelled}.
    """
    return _first(request, "reject_once", "reject_always")


class AllowList:
    """
    Allows the tool calls that it names, and leaves the others to another policy.

    A request that does not say what its tool call is called is judged by what the session's updates said of it, if the
    client tracks its sessions (C{track_sessions}).
    """

    def __init__(
        self,
        *,
        kinds: Iterable[str] = (),
        names: Iterable[str] = (),
        titles: Iterable[str] = (),
        otherwise: Policy = deny,
    ) -> None:
        """
        A tool call is allowed if any of these fits.

        @param kinds: such as C{"read"}.
        @param names: the names of tools; not every agent gives them.
        @param titles: what the user is shown; C{*}, C{?} and C{[…]} stand for what they do in file names.
        @param otherwise: what answers when nothing fits.
        """
        self._kinds = frozenset(_strings("kinds", kinds))
        self._names = frozenset(_strings("names", names))
        self._titles = tuple(_strings("titles", titles))
        self._otherwise = two_arguments(otherwise, "otherwise")

    def __call__(self, request: v1.RequestPermissionRequest, connection: ClientConnection | None = None) -> Any:
        """
        Answer a request.
        """
        call = _tool_call_of(request)
        if call is not None and self._fits(call, _known(request.session_id, call, connection)):
            return first_allow(request)
        return self._otherwise(request, connection)

    def _fits(self, call: Any, known: TrackedToolCall | None) -> bool:
        kind, name, title = call.kind, call.name, call.title
        if known is not None:
            kind, name, title = kind or known.kind, name or known.name, title or known.title
        if kind in self._kinds or name in self._names:
            return True
        return isinstance(title, str) and any(fnmatchcase(title, pattern) for pattern in self._titles)


def _strings(what: str, words: Iterable[str]) -> Iterable[str]:
    if isinstance(words, str):
        raise TypeError(f"{what} are several strings, not one")
    return words


def _tool_call_of(request: Any) -> Any:
    """
    What is to be allowed, as an update of a tool call; L{None} for a request of version 2 that is about none.
    """
    if isinstance(request, v1.RequestPermissionRequest):
        return request.tool_call
    return getattr(request.subject, "tool_call", None)


def _known(session_id: str, call: Any, connection: ClientConnection | None) -> TrackedToolCall | None:
    session = None if connection is None else connection.session(session_id)
    state = None if session is None else session.state
    return None if state is None else state.tool_call(call.tool_call_id)


class Ask:
    """
    Asks somebody: a function of the request (and, if it takes two, of the connection) that says

      - C{True} for L{first_allow}, C{False} for L{deny},
      - an option of the request or its id,
      - L{None} for C{cancelled},
      - or a whole L{v1.RequestPermissionResponse},

    or a Deferred of one of these, or a coroutine.  The id of an option that was not offered is a mistake, and counts as
    C{False}.  When the turn is cancelled, the library answers, and cancels the Deferred.
    """

    def __init__(self, choose: Callable[..., Any]) -> None:
        """
        @param choose: the function.
        """
        self._choose = two_arguments(choose, "Ask")

    def __call__(self, request: v1.RequestPermissionRequest, connection: ClientConnection | None = None) -> Any:
        """
        Answer a request.
        """
        choice = outcome(self._choose(request, connection))
        if isinstance(choice, Deferred):
            return choice.addCallback(_answer, request)
        return _answer(choice, request)


def _answer(choice: object, request: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
    """
    @raise TypeError: when the choice is none.
    """
    if choice is None:
        return cancelled()
    if isinstance(choice, bool):
        return first_allow(request) if choice else deny(request)
    if isinstance(choice, v1.RequestPermissionResponse):
        picked = choice.outcome
        if not isinstance(picked, v1.SelectedPermissionOutcome):
            return choice
        answer, name = choice, picked.option_id
    elif isinstance(choice, (str, v1.PermissionOption)):
        name = choice if isinstance(choice, str) else choice.option_id
        answer = selected(name)
    else:
        raise TypeError(f"a {type(choice).__name__} is no answer to a request for permission")
    if any(option.option_id == name for option in request.options):
        return answer
    _log.warn("the chosen permission option was not offered; that counts as a no")
    return deny(request)
