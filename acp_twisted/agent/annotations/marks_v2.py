"""
Decorators for what only version 2 of the protocol has.  They are for agents that speak it:
C{build_agent(cls, builder=AcpAgent.builder().protocol_versions(2))}, or C{(1, 2)}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from acp_twisted.agent.annotations.marks import Mark, marked

_F = TypeVar("_F", bound="Callable[..., Any]")


def login(function: _F) -> _F:
    """
    Version 2.  For the method that answers C{auth/login}, if not the one with
    L{authenticate<acp_twisted.agent.annotations.marks.authenticate>}.
    """
    return marked(function, Mark("login", "auth/login", versions=(2,)), "login")


def accept_prompt(function: _F) -> _F:
    """
    Version 2.  For the method that is asked of each prompt, when its turn has come, whether it may become part of the
    conversation.  What it raises is what the prompt is refused with; an exception handler may make another exception of
    that, but nothing else.  It returns nothing, or the message's id.
    """
    return marked(function, Mark("accept_prompt", "session/prompt", versions=(2,)), "accept_prompt")


def cancel_tool_call(function: _F) -> _F:
    """
    Version 2.  For the method that answers C{tool_call/cancel}, for tool calls that say that they can be cancelled, and
    bring nothing of their own to do it with.
    """
    return marked(function, Mark("cancel_tool_call", "tool_call/cancel", versions=(2,)), "cancel_tool_call")


def cancel_terminal(function: _F) -> _F:
    """
    Version 2.  For the method that answers C{terminal/cancel}, for terminals that say that they can be cancelled, and
    bring nothing of their own to do it with.
    """
    return marked(function, Mark("cancel_terminal", "terminal/cancel", versions=(2,)), "cancel_terminal")
