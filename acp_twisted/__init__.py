"""
The Agent Client Protocol on Twisted: write agents, drive agents, cancel anything.
"""

from typing import TYPE_CHECKING

from acp_twisted._version import __version__
from acp_twisted.agent.agent import AcpAgent, AcpAgentBuilder, run_agent
from acp_twisted.agent.blocking import SyncPromptContext
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.agent.context import PromptContext
from acp_twisted.client.client import AcpClient, AcpClientBuilder
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.session import ClientSession, PromptTurn
from acp_twisted.errors import (
    AcpCapabilityError,
    AcpConnectionError,
    AcpError,
    AcpVersionError,
    AgentStartError,
    AuthRequired,
    HttpStatusError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    InvalidResponse,
    LimitExceeded,
    LocalError,
    MethodNotFound,
    NotInitialized,
    ParseError,
    RequestCancelled,
    RequestTimedOut,
    ResourceNotFound,
    SessionBusy,
)
from acp_twisted.jsonrpc.calls import Call, CancelHandle
from acp_twisted.jsonrpc.cancellation import CancellationToken, current_token
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.limits import Limits
from acp_twisted.transports.process import AgentCommand
from acp_twisted.turn.result import TurnResult
from acp_twisted.turn.timeouts import PromptTimeouts

if TYPE_CHECKING:
    from acp_twisted.proxy.conductor import Conductor
    from acp_twisted.proxy.proxy import AcpProxy
    from acp_twisted.transports.http.resource import AcpResource
    from acp_twisted.transports.http.url import AgentUrl, TlsOptions

__all__ = [
    "AcpAgent",
    "AcpAgentBuilder",
    "AcpCapabilityError",
    "AcpClient",
    "AcpClientBuilder",
    "AcpConnectionError",
    "AcpError",
    "AcpProxy",
    "AcpResource",
    "AcpVersionError",
    "AgentCommand",
    "AgentConnection",
    "AgentStartError",
    "AgentUrl",
    "AuthRequired",
    "Call",
    "CancelHandle",
    "CancellationSignal",
    "CancellationToken",
    "ClientConnection",
    "ClientSession",
    "Conductor",
    "HttpStatusError",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "InvalidResponse",
    "LimitExceeded",
    "Limits",
    "LocalError",
    "MethodNotFound",
    "NotInitialized",
    "ParseError",
    "PromptContext",
    "PromptTimeouts",
    "PromptTurn",
    "RequestCancelled",
    "RequestTimedOut",
    "ResourceNotFound",
    "SessionBusy",
    "SyncPromptContext",
    "TlsOptions",
    "TurnResult",
    "__version__",
    "current_token",
    "run_agent",
]

_LATER = {
    "AcpProxy": "acp_twisted.proxy.proxy",
    "AcpResource": "acp_twisted.transports.http.resource",
    "AgentUrl": "acp_twisted.transports.http.url",
    "Conductor": "acp_twisted.proxy.conductor",
    "TlsOptions": "acp_twisted.transports.http.url",
}
"""Names whose rooms are imported when they are first asked for, so that an agent does not pay for them."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - for these alone

    try:
        module = import_module(_LATER[name])
    except ModuleNotFoundError as error:
        if name != "AcpResource" or (error.name or "").startswith("acp_twisted"):
            raise
        raise ImportError(
            f"{name} needs more than is installed: pip install 'acp_twisted[http]' ({error})", name=error.name
        ) from error
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
