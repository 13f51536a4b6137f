"""
What serves MCP requests that came over HTTP: an L{McpServer<acp_twisted.mcp.server.McpServer>} of this process, or one
behind an ACP connection.
"""

from __future__ import annotations

from typing import Any, Protocol
from uuid import uuid4
from weakref import ref

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError, InvalidResponse, LocalError
from acp_twisted.mcp.provider import BACKEND_FAILED, UNAVAILABLE
from acp_twisted.mcp.routes import MESSAGE, AcpLink, renamed, routes_of
from acp_twisted.mcp.server import McpRequest
from acp_twisted.mcp.versions import META_CAPABILITIES, META_VERSION, STATELESS, with_meta


class McpBackend(Protocol):
    """
    Serves requests.
    """

    def handle(self, request: McpRequest) -> Deferred[dict[str, Any]]:
        """
        See L{McpServer.handle<acp_twisted.mcp.server.McpServer.handle>}.
        """


class AcpBackend:
    """
    A server that is behind an ACP connection: each request becomes one C{mcp/message}, and its cancellation
    C{$/cancel_request}.
    """

    def __init__(self, link: AcpLink, server_id: str) -> None:
        """
        @param link: is not kept alive by this.
        """
        self._link = ref(link)
        self._server_id = server_id
        self._prefix = uuid4().hex[:12]
        self._last = 0

    def handle(self, request: McpRequest) -> Deferred[dict[str, Any]]:
        """
        See L{McpBackend}.
        """
        link = self._link()
        if link is None:
            return fail(AcpError(UNAVAILABLE, "MCP server unavailable"))
        self._last += 1
        outer = f"{self._prefix}:{self._last}"
        routes, key = routes_of(link), (self._server_id, outer)

        def tell(method: str, params: Any) -> None:
            request.notify(method, renamed(params or {}, outer, request.request_id))

        def over(result: Any) -> Any:
            routes.exchanges.pop(key, None)
            return result

        def answered(carrier: Any) -> dict[str, Any]:
            result: dict[str, Any] = renamed(_outcome(carrier), outer, request.request_id)
            if not request.stateless:
                result.pop("resultType", None)
            return result

        envelope = {"serverId": self._server_id, "requestId": outer, "method": request.method}
        params = with_meta(request.params, {META_VERSION: STATELESS, META_CAPABILITIES: {}})
        routes.exchanges[key] = tell
        call = link.ext_request(MESSAGE, {**envelope, "params": params}, timeout=0)
        return call.addBoth(over).addCallbacks(answered, _failed)


def _outcome(carrier: Any) -> dict[str, Any]:
    """
    The result in the answer to C{mcp/message}.

    @raise AcpError: the error in it.
    """
    carried = carrier if isinstance(carrier, dict) else {}
    result, error = carried.get("result"), carried.get("error")
    if isinstance(result, dict):
        return result
    if isinstance(error, dict) and type(error.get("code")) is int:
        raise AcpError(error["code"], str(error.get("message", "")), error.get("data"))
    raise InvalidResponse("the answer to mcp/message has neither result nor error")


def _failed(failure: Failure) -> dict[str, Any]:
    """
    An outer error, for who knows nothing of ACP.
    """
    error = failure.value
    if isinstance(error, CancelledError):
        raise error
    if isinstance(error, AcpError) and not isinstance(error, LocalError):
        raise AcpError(error.code, error.message)
    raise AcpError(BACKEND_FAILED, "MCP server failed")
