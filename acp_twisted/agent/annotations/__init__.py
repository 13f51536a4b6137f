"""
Agents as classes: decorate the class with L{acp_agent} and its methods with what they handle, and make an agent of it
with L{build_agent}.

A method's parameters say by their annotations what they want, in any order and number: the method's request
(C{v1.NewSessionRequest}, C{v2.NewSessionRequest} …), L{PromptContext<acp_twisted.agent.context.PromptContext>} (for a
blocking method L{SyncPromptContext<acp_twisted.agent.blocking.SyncPromptContext>}),
L{AgentConnection<acp_twisted.agent.connection.AgentConnection>},
L{CancellationToken<acp_twisted.jsonrpc.cancellation.CancellationToken>}, C{v1.ClientCapabilities},
C{v1.Implementation}, L{Invocation}, or one of L{SessionId}, L{PromptText} and their kind.  A parameter with a default
may be anything else, and keeps it.

A method serves the versions of the protocol whose classes it names, and all that the agent speaks if it names none.

A method is a plain function, returns a Deferred, or is C{async def}.
"""

from acp_twisted.agent.annotations.arguments import (
    ConfigId,
    ConfigValue,
    Cwd,
    FromRequest,
    MethodId,
    ModeId,
    PromptText,
    SessionId,
)
from acp_twisted.agent.annotations.build import build_agent
from acp_twisted.agent.annotations.marks import (
    acp_agent,
    authenticate,
    cancel,
    cancel_request,
    close_session,
    delete_session,
    exception_handler,
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
from acp_twisted.agent.annotations.marks_v2 import accept_prompt, cancel_terminal, cancel_tool_call, login
from acp_twisted.agent.annotations.model import (
    AgentDefinitionError,
    HandlerMethod,
    HandlerParameter,
    IArgumentResolver,
    IInterceptor,
    Interceptor,
    Invocation,
    IReturnValueHandler,
)
from acp_twisted.agent.annotations.unstable import (
    archive_session,
    auth_status,
    disable_provider,
    fork_session,
    list_providers,
    mcp_message,
    session_status,
    set_provider,
    set_session_title,
    unarchive_session,
)
from acp_twisted.agent.blocking import SyncAgentConnection, blocking

__all__ = [
    "AgentDefinitionError",
    "ConfigId",
    "ConfigValue",
    "Cwd",
    "FromRequest",
    "HandlerMethod",
    "HandlerParameter",
    "IArgumentResolver",
    "IInterceptor",
    "IReturnValueHandler",
    "Interceptor",
    "Invocation",
    "MethodId",
    "ModeId",
    "PromptText",
    "SessionId",
    "SyncAgentConnection",
    "accept_prompt",
    "acp_agent",
    "archive_session",
    "auth_status",
    "authenticate",
    "blocking",
    "build_agent",
    "cancel",
    "cancel_request",
    "cancel_terminal",
    "cancel_tool_call",
    "close_session",
    "delete_session",
    "disable_provider",
    "exception_handler",
    "ext_notification",
    "ext_request",
    "fork_session",
    "initialize",
    "list_providers",
    "list_sessions",
    "load_session",
    "login",
    "logout",
    "mcp_message",
    "new_session",
    "prompt",
    "resume_session",
    "session_status",
    "set_provider",
    "set_session_config_option",
    "set_session_mode",
    "set_session_title",
    "unarchive_session",
]
