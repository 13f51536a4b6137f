"""
The revisions of MCP, and the members of C{_meta} that the newest one puts its envelope in.

Up to C{2025-11-25} a connection begins with C{initialize} and remembers what was agreed.  From C{2026-07-28} on every
request stands for itself: its C{_meta} says which revision it speaks and what its sender can do, and C{server/discover}
tells what the server is.
"""

from __future__ import annotations

from typing import Any, Final

from acp_twisted.errors import LocalError

STATELESS: Final = "2026-07-28"
"""The revision whose requests stand for themselves."""

HANDSHAKE: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The revisions that begin with C{initialize}, the newest first."""

UNSUPPORTED_VERSION: Final = -32022
"""The code of the error that names the revisions that a server has instead."""

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_INFO: Final = "io.modelcontextprotocol/clientInfo"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
META_PROGRESS: Final = "progressToken"

CANCELLED: Final = "notifications/cancelled"
INITIALIZED: Final = "notifications/initialized"
PROGRESS: Final = "notifications/progress"
LISTEN: Final = "subscriptions/listen"


class McpVersionError(LocalError):
    """
    Client and server have no revision of MCP in common.

    @ivar supported: what the server says that it has.
    """

    def __init__(self, supported: object) -> None:
        super().__init__(f"the MCP server speaks {supported!r} only")
        self.supported = supported


class McpCapabilityError(LocalError):
    """
    The revision that is spoken, or the server, does not have what this call needs; nothing was sent.
    """


def meta_of(params: object) -> dict[str, Any]:
    """
    The C{_meta} of some params; empty where there is none.
    """
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def with_meta(params: dict[str, Any] | None, meta: dict[str, Any]) -> dict[str, Any]:
    """
    The params with these members of C{_meta}, where they have none of that name.
    """
    return {**(params or {}), "_meta": {**meta, **meta_of(params)}}
