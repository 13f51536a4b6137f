"""
What a method is: who handles it, what goes in and what comes out, what the peer must have advertised, and whether its
messages belong to a session; and the one table of the methods of protocol version 1.  Who looks a method up asks a
L{Vocabulary<acp_twisted.schema.vocabulary.Vocabulary>}.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final, Literal, TypeAlias

from attrs import NOTHING, field, fields, frozen

from acp_twisted.schema import v1
from acp_twisted.schema.values import Model

Side: TypeAlias = Literal["agent", "client", "both", "proxy"]
Kind: TypeAlias = Literal["request", "notification"]


@frozen
class Method:
    """
    One method.

    @ivar name: its name on the wire.
    @ivar direction: who handles it.
    @ivar kind: whether it is answered.
    @ivar params_name: the class of its params.
    @ivar result_name: the class of its result; L{None} for a notification, and where the result is any JSON.
    @ivar capability: what the side that handles it must have advertised, as a dotted path of members within its
        capabilities: there and neither null nor false.  L{None}: nothing.
    @ivar stable: whether it is settled.
    @ivar session_keyed: whether its params carry C{sessionId}, so that its messages keep their order within a session.
    @ivar types: the module of the classes: of the protocol's version that it is a method of.
    """

    name: str
    direction: Side
    kind: Kind
    params_name: str
    result_name: str | None = None
    capability: str | None = None
    stable: bool = True
    session_keyed: bool = False
    types: ModuleType = field(default=v1, repr=False)

    @property
    def params(self) -> type[Model]:
        """
        The class of the params.
        """
        found: type[Model] = getattr(self.types, self.params_name)
        return found

    @property
    def result(self) -> type[Model] | None:
        """
        The class of the result.
        """
        return None if self.result_name is None else getattr(self.types, self.result_name)

    @property
    def empty_result(self) -> bool:
        """
        Whether a response may have nothing in it.
        """
        result = self.result
        return result is not None and not any(each.default is NOTHING for each in fields(result))


def request(
    direction: Side,
    name: str,
    types: str,
    capability: str | None = None,
    *,
    session: bool = False,
    stable: bool = True,
    module: ModuleType = v1,
) -> Method:
    """
    A row of a table: a request whose params and result are named alike.
    """
    params, result = f"{types}Request", f"{types}Response"
    return Method(name, direction, "request", params, result, capability, stable, session, module)


def notification(
    direction: Side,
    name: str,
    params: str,
    capability: str | None = None,
    *,
    session: bool = False,
    stable: bool = True,
    module: ModuleType = v1,
) -> Method:
    """
    A row of a table: a notification.
    """
    return Method(name, direction, "notification", params, None, capability, stable, session, module)


METHODS: Final[tuple[Method, ...]] = (
    # ---- handled by agents
    request("agent", "initialize", "Initialize"),
    request("agent", "authenticate", "Authenticate"),
    request("agent", "logout", "Logout", "auth.logout"),
    request("agent", "session/new", "NewSession"),
    request("agent", "session/load", "LoadSession", "loadSession", session=True),
    request("agent", "session/resume", "ResumeSession", "sessionCapabilities.resume", session=True),
    request("agent", "session/list", "ListSessions", "sessionCapabilities.list"),
    request("agent", "session/delete", "DeleteSession", "sessionCapabilities.delete", session=True),
    request("agent", "session/close", "CloseSession", "sessionCapabilities.close", session=True),
    request("agent", "session/set_mode", "SetSessionMode", session=True),
    request("agent", "session/set_config_option", "SetSessionConfigOption", session=True),
    request("agent", "session/prompt", "Prompt", session=True),
    notification("agent", "session/cancel", "CancelNotification", session=True),
    # ---- handled by clients
    notification("client", "session/update", "SessionNotification", session=True),
    request("client", "session/request_permission", "RequestPermission", session=True),
    request("client", "fs/read_text_file", "ReadTextFile", "fs.readTextFile", session=True),
    request("client", "fs/write_text_file", "WriteTextFile", "fs.writeTextFile", session=True),
    request("client", "terminal/create", "CreateTerminal", "terminal", session=True),
    request("client", "terminal/output", "TerminalOutput", "terminal", session=True),
    request("client", "terminal/release", "ReleaseTerminal", "terminal", session=True),
    request("client", "terminal/wait_for_exit", "WaitForTerminalExit", "terminal", session=True),
    request("client", "terminal/kill", "KillTerminal", "terminal", session=True),
    request("client", "elicitation/create", "CreateElicitation", "elicitation"),
    notification("client", "elicitation/complete", "CompleteElicitationNotification", "elicitation.url"),
    # ---- handled by both
    notification("both", "$/cancel_request", "CancelRequestNotification"),
    # ---- not settled yet
    request("agent", "auth/status", "AuthStatus", "auth.status", stable=False),
    notification("client", "auth/status_update", "AuthStatusUpdateNotification", stable=False),
    request("agent", "providers/list", "ListProviders", "providers", stable=False),
    request("agent", "providers/set", "SetProvider", "providers", stable=False),
    request("agent", "providers/disable", "DisableProvider", "providers", stable=False),
    request("agent", "session/fork", "ForkSession", "sessionCapabilities.fork", session=True, stable=False),
    request("agent", "session/archive", "ArchiveSession", "sessionCapabilities.archive", session=True, stable=False),
    request(
        "agent", "session/unarchive", "UnarchiveSession", "sessionCapabilities.archive", session=True, stable=False
    ),
    request("agent", "session/status", "SessionStatus", "sessionCapabilities.status", session=True, stable=False),
    request("agent", "session/set_title", "SetSessionTitle", "sessionCapabilities.title", session=True, stable=False),
    request("client", "mcp/message", "MessageMcp", stable=False),
    notification("agent", "mcp/message", "MessageMcpNotification", "mcpCapabilities.acp", stable=False),
    request("proxy", "proxy/initialize", "InitializeProxy", stable=False),
    Method("proxy/successor", "proxy", "request", "ProxySuccessorRequest", stable=False),
    notification("proxy", "proxy/successor", "ProxySuccessorNotification", stable=False),
)
