"""
What a handler that serves both versions hands over in the words of version 1, in those of version 2.

This is for plain answers that look alike in both, such as the id of a new session.  There is nothing that translates a
conversation.
"""

from __future__ import annotations

from typing import Any

from acp_twisted.schema import v1, v2
from acp_twisted.schema.converter import structure, unstructure
from acp_twisted.schema.values import Model

_RENAMED = {"AuthenticateResponse": "LoginAuthResponse", "LogoutResponse": "LogoutAuthResponse"}
_FIRST = (v1.__name__, f"{v1.__name__}_unstable")


def as_second(value: Any) -> Any:
    """
    An object of version 1 as one of version 2, if that has a class of the same name and it fits; anything else as it
    is.

    @raise SchemaError: when it does not fit.
    """
    if not isinstance(value, Model) or type(value).__module__ not in _FIRST:
        return value
    name = type(value).__name__
    kind = getattr(v2, _RENAMED.get(name, name), None)
    return value if kind is None else structure(unstructure(value), kind)


def auth_method(method: Any) -> v2.AuthMethod:
    """
    A way to authenticate in the words of version 2, where identifiers and the environment are spelled otherwise.
    """
    if isinstance(method, v1.AuthMethodTerminal):
        return v2.AuthMethodTerminal(
            method_id=method.id,
            name=method.name,
            description=method.description,
            args=list(method.args),
            env=[v2.EnvVariable(name=name, value=value) for name, value in method.env.items()],
            meta=method.meta,
        )
    if isinstance(method, v1.AuthMethodAgent):
        return v2.AuthMethodAgent(
            method_id=method.id, name=method.name, description=method.description, meta=method.meta
        )
    made: v2.AuthMethod = method
    return made


def capabilities(first: v1.AgentCapabilities) -> v2.AgentCapabilities:
    """
    What an agent can do, as far as the two versions mean the same by it.
    """
    prompt, mcp, session = first.prompt_capabilities, first.mcp_capabilities, first.session_capabilities
    return v2.AgentCapabilities(
        session=v2.SessionCapabilities(
            prompt=v2.PromptCapabilities(
                image=v2.PromptImageCapabilities() if prompt.image else None,
                audio=v2.PromptAudioCapabilities() if prompt.audio else None,
                embedded_context=v2.PromptEmbeddedContextCapabilities() if prompt.embedded_context else None,
            ),
            mcp=v2.McpCapabilities(
                stdio=v2.McpStdioCapabilities(),  # every agent of version 1 has it (1.48)
                http=v2.McpHttpCapabilities() if mcp.http else None,
                acp=v2.McpAcpCapabilities() if mcp.acp else None,
            ),
            delete=v2.SessionDeleteCapabilities() if session.delete is not None else None,
            additional_directories=(
                v2.SessionAdditionalDirectoriesCapabilities() if session.additional_directories is not None else None
            ),
        )
    )
