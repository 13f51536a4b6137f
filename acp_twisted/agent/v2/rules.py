"""
What an agent of version 2 refuses since it can't be done as asked, besides what L{acp_twisted.gates_v2} has.
"""

from __future__ import annotations

from typing import Any

from acp_twisted.errors import InvalidParams
from acp_twisted.schema import v2
from acp_twisted.schema.values import UnknownVariant


def refuse_unknown(request: Any) -> None:
    """
    Refuse what a request wants and nobody here knows: a kind of content, a kind of MCP server, a place to replay from,
    a type of setting; and a prompt that says nothing (2.38).

    @raise InvalidParams: when there is such a thing.
    """
    for name in ("prompt", "mcp_servers"):
        for index, each in enumerate(getattr(request, name, ())):
            if isinstance(each, UnknownVariant):
                _refuse(f"{request.WIRE[name][0]}[{index}].type")
    if isinstance(getattr(request, "replay_from", None), UnknownVariant):
        _refuse("replayFrom.type")
    if isinstance(request, v2.SetSessionConfigOptionRequest) and request.type not in ("id", "boolean"):
        _refuse("type")
    if isinstance(request, v2.PromptRequest) and not request.prompt:
        raise InvalidParams(data=[{"path": "$.prompt", "reason": "is empty"}])


def _refuse(path: str) -> None:
    raise InvalidParams(data=[{"path": f"$.{path}", "reason": "is not known"}])
