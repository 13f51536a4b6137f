"""
A client of one MCP server: its tools, resources and prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from attrs import field, frozen, validators
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from acp_twisted.errors import AcpConnectionError, InvalidResponse
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.limits import Limits
from acp_twisted.mcp.handlers import McpHandlers
from acp_twisted.mcp.session import McpSession
from acp_twisted.mcp.subscriptions import Subscription, Subscriptions
from acp_twisted.mcp.types import (
    Completion,
    Implementation,
    Page,
    Progress,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
    ServerInfo,
    Shape,
    ShapeError,
    Tool,
    ToolResult,
    page_reader,
)
from acp_twisted.mcp.versions import McpCapabilityError

_T = TypeVar("_T")
_S = TypeVar("_S", bound=Shape)

MAX_PAGES = 1000
"""How many pages of a list are read before the server is taken for broken."""


@frozen(kw_only=True)
class McpOptions:
    """
    How to be a client.

    @ivar info: what the client says of itself.
    @ivar handlers: what the server may ask and tell.
    @ivar protocol: the only revision to speak; by default the newest that both have.
    @ivar request_timeout: seconds for each request without a sign of life; 0 is without end.
    @ivar max_timeout: seconds that progress can't stretch that beyond; 0 is without end.
    @ivar limits: the bounds of the connection.
    """

    info: Implementation = field(factory=lambda: Implementation(name="acp_twisted", version="0"))
    handlers: McpHandlers = field(factory=McpHandlers)
    protocol: str | None = None
    request_timeout: float = field(default=60.0, validator=validators.ge(0))
    max_timeout: float = field(default=600.0, validator=validators.ge(0))
    limits: Limits = field(factory=Limits)


class McpClient:
    """
    The client's side of one connection to an MCP server.

    Every method that asks the server something returns a L{Call}: cancelling it, C{call.cancel("why")} or
    C{call.addTimeout(…)}, cancels the request at the server in the way of the transport.

    @ivar session: the conversation below, in plain JSON.
    """

    def __init__(self, clock: IReactorTime, options: McpOptions) -> None:
        self.options = options
        self.session = McpSession(
            clock,
            options.handlers,
            info=options.info,
            limits=options.limits,
            request_timeout=options.request_timeout,
            max_timeout=options.max_timeout,
        )
        self._subscriptions = Subscriptions(self.session)

    @property
    def server(self) -> ServerInfo:
        """
        What was agreed.

        @raise McpCapabilityError: before that.
        """
        if self.session.server is None:
            raise McpCapabilityError("nothing is agreed yet: open() first")
        return self.session.server

    def open(self) -> Deferred[ServerInfo]:
        """
        Agree on a revision; before everything else.
        """
        return self.session.open(self.options.protocol)

    def close(self) -> Deferred[None]:
        """
        End the conversation.

        @return: fires when the link is gone.
        """
        return self.session.peer.shutdown()

    def when_closed(self) -> Deferred[AcpConnectionError]:
        """
        Fires with the reason when the link is gone.
        """
        return self.session.peer.when_closed()

    # ---- what is asked

    def ping(self) -> Call[Any]:
        """
        Ask for a sign of life.  The newest revision has no C{ping}, and C{server/discover} takes its place.
        """
        method = "server/discover" if self.session.stateless else "ping"
        return self._read(self.session.request(method, progress=False), _nothing, method)

    def list_tools(self, cursor: str | None = None) -> Call[Page[Tool]]:
        """
        Send C{tools/list}.
        """
        return self._list("tools/list", "tools", Tool, cursor)

    def list_resources(self, cursor: str | None = None) -> Call[Page[Resource]]:
        """
        Send C{resources/list}.
        """
        return self._list("resources/list", "resources", Resource, cursor)

    def list_resource_templates(self, cursor: str | None = None) -> Call[Page[ResourceTemplate]]:
        """
        Send C{resources/templates/list}.
        """
        return self._list("resources/templates/list", "resourceTemplates", ResourceTemplate, cursor)

    def list_prompts(self, cursor: str | None = None) -> Call[Page[Prompt]]:
        """
        Send C{prompts/list}.
        """
        return self._list("prompts/list", "prompts", Prompt, cursor)

    def every(self, ask: Callable[[str | None], Call[Page[_T]]]) -> Deferred[list[_T]]:
        """
        All pages of a list: C{client.every(client.list_tools)}.

        @return: fails with L{InvalidResponse} when the pages go in a circle, or there are more than L{MAX_PAGES}.
        """
        return Deferred.fromCoroutine(self._every(ask))

    async def _every(self, ask: Callable[[str | None], Call[Page[_T]]]) -> list[_T]:
        items: list[_T] = []
        seen: set[str | None] = set()
        cursor: str | None = None
        while cursor not in seen and len(seen) < MAX_PAGES:
            seen.add(cursor)
            page = await ask(cursor)
            items.extend(page.items)
            if page.next_cursor is None:
                return items
            cursor = page.next_cursor
        raise InvalidResponse("the pages of a list have no end")

    def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        max_timeout: float | None = None,
        on_progress: Callable[[Progress], object] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Call[ToolResult]:
        """
        Send C{tools/call}.

        @param timeout: seconds without a sign of life; L{None} is the client's C{request_timeout}, 0 is without end.
        @param max_timeout: seconds that progress can't stretch it beyond, and that hold without a C{timeout} too;
            L{None} is the client's own, 0 is without end.
        @param on_progress: told of each L{Progress}.
        @param meta: goes into C{_meta}.
        @return: what the tool came to, its failure included (C{is_error}).
        """
        params: dict[str, Any] = {"name": name, "arguments": arguments or {}}
        if meta is not None:
            params["_meta"] = meta
        call = self.session.request(
            "tools/call", params, timeout=timeout, max_timeout=max_timeout, on_progress=on_progress
        )
        return self._read(call, ToolResult.from_json, "tools/call")

    def read_resource(self, uri: str, *, timeout: float | None = None) -> Call[Sequence[ResourceContents]]:
        """
        Send C{resources/read}.
        """
        read = _many("contents", ResourceContents)
        return self._read(self.session.request("resources/read", {"uri": uri}, timeout=timeout), read, "resources/read")

    def subscribe(self, uri: str) -> Call[None]:
        """
        Be told of changes of a resource, by C{McpHandlers.resource_updated}.

        @raise McpCapabilityError: with the newest revision, which has L{listen} instead.
        """
        return self._old("resources/subscribe", {"uri": uri})

    def unsubscribe(self, uri: str) -> Call[None]:
        """
        The end of L{subscribe}.
        """
        return self._old("resources/unsubscribe", {"uri": uri})

    def listen(
        self,
        tell: Callable[[str, dict[str, Any]], object],
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
        timeout: float | None = None,
    ) -> Deferred[Subscription]:
        """
        Be told of changes, with the newest revision.

        @param tell: called with the method and the params of each notification.
        @param tools: of the list of tools; C{prompts} and C{resources} the same of theirs.
        @param uris: of these resources.
        @param timeout: seconds for the server's acknowledgement.
        @return: the subscription, once it is acknowledged.
        @raise McpCapabilityError: with an older revision.
        """
        return self._subscriptions.listen(
            tell, tools=tools, prompts=prompts, resources=resources, uris=uris, timeout=timeout
        )

    def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, timeout: float | None = None
    ) -> Call[PromptResult]:
        """
        Send C{prompts/get}.
        """
        call = self.session.request("prompts/get", {"name": name, "arguments": arguments or {}}, timeout=timeout)
        return self._read(call, PromptResult.from_json, "prompts/get")

    def complete(
        self, reference: dict[str, Any], name: str, value: str, context: dict[str, str] | None = None
    ) -> Call[Completion]:
        """
        Send C{completion/complete}.

        @param reference: C{{"type": "ref/prompt", "name": …}} or C{{"type": "ref/resource", "uri": …}}.
        @param name: the argument.
        @param value: what was typed of it so far.
        @param context: the arguments that are known already.
        """
        params: dict[str, Any] = {"ref": reference, "argument": {"name": name, "value": value}}
        if context is not None:
            params["context"] = {"arguments": context}
        call = self.session.request("completion/complete", params, progress=False)

        def read(result: object) -> Completion:
            return Completion.from_json(result.get("completion") if isinstance(result, dict) else None)

        return self._read(call, read, "completion/complete")

    def set_log_level(self, level: str) -> Deferred[None]:
        """
        Ask for log messages of that level and above; C{McpHandlers.log} is told.  With the newest revision nothing is
        sent now: every later request says it.
        """
        if not self.session.stateless:
            return self._old("logging/setLevel", {"level": level})
        self.session.want_log(level)
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done

    def roots_changed(self) -> Deferred[None]:
        """
        Tell the server that C{roots/list} would be answered otherwise now.  The newest revision does not want to know.
        """
        if self.session.stateless:
            raise McpCapabilityError("roots/list_changed ended with revision 2026-07-28")
        return self.session.notify("notifications/roots/list_changed")

    # ---- inside

    def _old(self, method: str, params: dict[str, Any]) -> Call[None]:
        if self.session.stateless:
            raise McpCapabilityError(f"{method} ended with revision 2026-07-28; use listen()")
        return self._read(self.session.request(method, params, progress=False), _nothing, method)

    def _list(self, method: str, member: str, kind: type[_S], cursor: str | None) -> Call[Page[_S]]:
        params = None if cursor is None else {"cursor": cursor}
        return self._read(self.session.request(method, params, progress=False), page_reader(member, kind), method)

    @staticmethod
    def _read(call: Call[Any], read: Callable[[object], _T], method: str) -> Call[_T]:
        def fits(result: object) -> _T:
            try:
                return read(result)
            except ShapeError as error:
                raise InvalidResponse(f"the answer to {method} does not fit: {error}") from None

        call.addCallback(fits)
        call.nobody_listens()
        return call


def _many(member: str, kind: type[_S]) -> Callable[[object], Sequence[_S]]:
    return partial(_items, member=member, kind=kind)


def _items(result: object, member: str, kind: type[_S]) -> Sequence[_S]:
    return page_reader(member, kind)(result).items


def _nothing(_: object) -> None:
    return None
