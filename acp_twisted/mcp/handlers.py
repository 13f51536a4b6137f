"""
What an agent may have a server ask of it, and be told by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import Factory, frozen
from twisted.internet.defer import Deferred

from acp_twisted.handlers import Bound, Handler, outcome, two_arguments
from acp_twisted.mcp.types import LogMessage

ROOTS = "roots/list"
SAMPLING = "sampling/createMessage"
ELICITATION = "elicitation/create"


@frozen(kw_only=True)
class McpHandlers:
    """
    The handlers of a client of MCP.  Each takes what is said below, and the L{McpClient
    <acp_twisted.mcp.client.McpClient>} too if it likes; it returns a value, a Deferred, or is C{async def}.  What has
    no handler is answered -32601, or ignored, and is not advertised.

    @ivar roots: answers C{roots/list}; takes the params, returns URIs, or roots as JSON.
    @ivar sampling: answers C{sampling/createMessage}; takes the params, returns the result as JSON.
    @ivar elicitation: answers C{elicitation/create}; takes the params, returns the result as JSON.
    @ivar log: is told of a L{LogMessage}.
    @ivar tools_changed: is told that C{tools/list} would say something else now; takes the params.
    @ivar resources_changed: the same of C{resources/list}.
    @ivar prompts_changed: the same of C{prompts/list}.
    @ivar resource_updated: is told the URI of a resource that was subscribed to and has changed.
    @ivar other: handlers of other methods, by their names; they take the params.
    """

    roots: Handler | None = None
    sampling: Handler | None = None
    elicitation: Handler | None = None
    log: Handler | None = None
    tools_changed: Handler | None = None
    resources_changed: Handler | None = None
    prompts_changed: Handler | None = None
    resource_updated: Handler | None = None
    other: Mapping[str, Handler] = Factory(dict)

    def capabilities(self) -> dict[str, Any]:
        """
        What follows from them: the client's capabilities as JSON.
        """
        result: dict[str, Any] = {}
        if self.roots is not None:
            result["roots"] = {"listChanged": True}
        if self.sampling is not None:
            result["sampling"] = {}
        if self.elicitation is not None:
            result["elicitation"] = {"form": {}}
        return result

    def table(self) -> dict[str, Bound]:
        """
        All of them by the names of their methods, to be called with the JSON of the params.

        @raise TypeError: when one is no handler.
        """
        named: dict[str, tuple[Handler | None, Callable[[Any], Any] | None, Callable[[Any], Any] | None]] = {
            ROOTS: (self.roots, None, _roots),
            SAMPLING: (self.sampling, None, None),
            ELICITATION: (self.elicitation, None, None),
            "notifications/message": (self.log, LogMessage.from_json, None),
            "notifications/tools/list_changed": (self.tools_changed, None, None),
            "notifications/resources/list_changed": (self.resources_changed, None, None),
            "notifications/prompts/list_changed": (self.prompts_changed, None, None),
            "notifications/resources/updated": (self.resource_updated, lambda params: params["uri"], None),
        }
        named.update({method: (handler, None, None) for method, handler in self.other.items()})
        return {
            method: _bound(two_arguments(handler, method), reads, writes)
            for method, (handler, reads, writes) in named.items()
            if handler is not None
        }


def _bound(handler: Bound, reads: Callable[[Any], Any] | None, writes: Callable[[Any], Any] | None) -> Bound:
    def call(params: Any, client: Any) -> Any:
        given = {} if params is None else params
        result = outcome(handler(given if reads is None else reads(given), client))
        if writes is None:
            return result
        return result.addCallback(writes) if isinstance(result, Deferred) else writes(result)

    return call


def _roots(roots: Any) -> dict[str, Any]:
    return {"roots": [{"uri": each} if isinstance(each, str) else each for each in roots]}
