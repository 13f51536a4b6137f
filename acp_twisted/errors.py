"""
The one tree of errors.

L{AcpError} is an error of the protocol: a code, a message for people, and optional data.  A handler raises one to
answer with it; a caller receives one when the peer answered with it (then C{remote} is true) or when this side gave
the request up (then it is false).  What is nobody's answer (a lost link, a missing capability, a program that does not
start) is a L{LocalError}: its code and text stay on this side, and a handler that lets one escape is answered with a
plain -32603.
"""

from __future__ import annotations

from typing import ClassVar

from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
UNSUPPORTED_VERSION = -32022


class AcpError(Exception):
    """
    An error with the three members of a JSON-RPC error object.

    @ivar code: the JSON-RPC or ACP code, an int32.
    @ivar message: one sentence for people.
    @ivar data: any JSON value; L{None} means that the member is absent.
    @ivar remote: whether the peer answered with it.
    """

    def __init__(self, code: int, message: str, data: object = None, *, remote: bool = False) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data
        self.remote = remote

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"

    @staticmethod
    def from_peer(code: int, message: str, data: object = None) -> AcpError:
        """
        The error that the peer answered with, as the class that its code names.
        """
        kind = _BY_CODE.get(code)
        if kind is None:
            return AcpError(code, message, data, remote=True)
        return kind(message, data, remote=True)


class CodedError(AcpError):
    """
    An L{AcpError} whose class fixes its code.
    """

    CODE: ClassVar[int]
    MESSAGE: ClassVar[str]

    def __init__(self, message: str | None = None, data: object = None, *, remote: bool = False) -> None:
        super().__init__(self.CODE, self.MESSAGE if message is None else message, data, remote=remote)


class ParseError(CodedError):
    """The bytes are no JSON text in UTF-8."""

    CODE = PARSE_ERROR
    MESSAGE = "Parse error"


class InvalidRequest(CodedError):
    """The JSON is no message, or the message may not come now (a prompt while a turn is active)."""

    CODE = INVALID_REQUEST
    MESSAGE = "Invalid request"


class MethodNotFound(CodedError):
    """There is no such method here, or nobody handles it."""

    CODE = METHOD_NOT_FOUND
    MESSAGE = "Method not found"


class InvalidParams(CodedError):
    """The params do not fit the method; C{data} says where."""

    CODE = INVALID_PARAMS
    MESSAGE = "Invalid params"


class InternalError(CodedError):
    """The other side failed, and says no more than that."""

    CODE = INTERNAL_ERROR
    MESSAGE = "Internal error"


class RequestCancelled(CodedError, CancelledError):
    """
    The request was cancelled: by this side (C{remote} is false), or the peer answered so.

    It is a L{CancelledError} too, so that C{Deferred.addTimeout} and Twisted's own cancellation treat it as theirs.
    """

    CODE = REQUEST_CANCELLED
    MESSAGE = "Request cancelled"


class AuthRequired(CodedError):
    """The agent wants C{authenticate} first."""

    CODE = AUTH_REQUIRED
    MESSAGE = "Authentication required"


class ResourceNotFound(CodedError):
    """A file, a terminal or a session that the other side does not know."""

    CODE = RESOURCE_NOT_FOUND
    MESSAGE = "Resource not found"


class UnsupportedVersion(CodedError):
    """The agent speaks no version of the protocol that is as old as the client's; C{data} says which it speaks."""

    CODE = UNSUPPORTED_VERSION
    MESSAGE = "Unsupported protocol version"


_BY_CODE: dict[int, type[CodedError]] = {
    kind.CODE: kind
    for kind in (
        ParseError,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        RequestCancelled,
        AuthRequired,
        ResourceNotFound,
        UnsupportedVersion,
    )
}


class LocalError(AcpError):
    """
    Something that went wrong on this side of the wire; never sent as it is.
    """

    def __init__(self, message: str, data: object = None) -> None:
        super().__init__(INTERNAL_ERROR, message, data)

    def __str__(self) -> str:
        return self.message


class AcpConnectionError(LocalError):
    """
    The link was lost or closed, or was never there: every pending call fails with this, and every later one at once.

    @ivar reason: the transport's own L{Failure}, where there is one.
    @ivar exit_code: the exit status of an agent process that ended by itself.
    @ivar signal: the number of the signal that ended it.
    @ivar stderr_tail: the last of what it wrote to its standard error.
    """

    def __init__(
        self,
        message: str,
        reason: Failure | None = None,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        stderr_tail: str = "",
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.exit_code = exit_code
        self.signal = signal
        self.stderr_tail = stderr_tail


class AgentStartError(AcpConnectionError):
    """
    The agent's program could not be started, or ended before it answered C{initialize}.
    """


class HttpStatusError(AcpConnectionError):
    """
    A remote agent's server answered with a status that was the end of the connection, or of the attempt to make one.

    @ivar status: the status, such as 401.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class RequestTimedOut(LocalError):
    """
    The answer did not come in time; the peer was sent a cancellation.

    @ivar method: the request's method.
    @ivar seconds: how long it was waited for.
    """

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"no answer to {method} within {seconds:g} s")
        self.method = method
        self.seconds = seconds


class AcpCapabilityError(LocalError):
    """
    The peer did not advertise what this call needs; nothing was sent.

    @ivar capability: its dotted name, such as C{fs.readTextFile}.
    """

    def __init__(self, capability: str) -> None:
        super().__init__(f"the peer does not advertise {capability}")
        self.capability = capability


class AcpVersionError(LocalError):
    """
    The agent answered C{initialize} with a protocol version that this client does not speak.

    @ivar version: what it answered: a version, as a rule, or a list of those that it speaks; L{None} if it told none.
    """

    def __init__(self, version: object) -> None:
        told = version if isinstance(version, list) else [version]
        spoken = " and ".join(str(each) for each in told if type(each) is int)
        which = (
            f"protocol version {spoken}, and this client does not" if spoken else "no protocol version of this client"
        )
        super().__init__(f"the agent speaks {which}")
        self.version = version


class NotInitialized(LocalError):
    """
    C{initialize} comes before everything else on a connection; nothing was sent.
    """

    def __init__(self, message: str = "call initialize() first") -> None:
        super().__init__(message)


class SessionBusy(LocalError):
    """
    A session has one turn at a time, and this one's is not answered yet; nothing was sent.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__("the session's turn is not answered yet", {"sessionId": session_id})


class InvalidResponse(LocalError):
    """
    The peer's answer is none that the method can have; C{data} says where and why, never what it held.
    """


class LimitExceeded(LocalError):
    """
    A bound of L{acp_twisted.limits.Limits} was reached; the message names it.
    """


def answer_for(failure: BaseException) -> AcpError:
    """
    What the peer is told of a handler's failure: its own words for an L{AcpError}, -32800 for a cancellation, and
    nothing but "Internal error" for anything else, so that no secret of this side leaks into an answer.
    """
    if isinstance(failure, LocalError):
        return InternalError()
    if isinstance(failure, AcpError):
        return failure
    if isinstance(failure, CancelledError):
        return RequestCancelled()
    return InternalError()
