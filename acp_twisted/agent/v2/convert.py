"""
What an agent that speaks both versions says of itself in the words of version 1, in those of version 2.
"""

from __future__ import annotations

from typing import Any

from acp_twisted.schema import v1, v2
from acp_twisted.schema.alike import as_second


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
            system_prompt=as_second(session.system_prompt),
        )
    )
