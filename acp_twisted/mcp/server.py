"""
A small MCP server: tools written in Twisted, and nothing else.

L{McpServer} knows no transport.  It is handed one L{McpRequest} after the other, by whatever carries them: a stream
(L{acp_twisted.mcp.serving}), HTTP (L{acp_twisted.mcp.resource}), or ACP's C{mcp/message} (L{acp_twisted.mcp.provider}).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpError, InternalError, InvalidParams, LocalError, MethodNotFound
from acp_twisted.handlers import Bound, Handler, outcome, two_arguments
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.jsonrpc.messages import Id
from acp_twisted.mcp.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    Implementation,
    ResourceLink,
    TextContent,
    Tool,
    ToolResult,
    UnknownContent,
)
from acp_twisted.mcp.versions import (
    HANDSHAKE,
    LISTEN,
    META_CAPABILITIES,
    META_LOG_LEVEL,
    META_PROGRESS,
    META_SUBSCRIPTION,
    META_VERSION,
    PROGRESS,
    STATELESS,
    UNSUPPORTED_VERSION,
    meta_of,
)

_log = Logger()
_F = TypeVar("_F", bound=Handler)

MAX_ACTIVE = 64
"""How many requests one server works on at once, unless said otherwise."""

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_TOOLS_CHANGED = "notifications/tools/list_changed"


class ToolError(Exception):
    """
    A tool failed, and the model is to know how: the text becomes the content of a result that is marked as an error.
    Any other exception is logged, and the model learns no more than that there was one.
    """


class TooManyRequests(InternalError):
    """
    The server is at work on as many requests as it takes.
    """

    MESSAGE = "Too many requests"


def _ignore() -> None:
    """
    What ends a subscription where its answer says enough.
    """


@define(eq=False)
class McpRequest:
    """
    One request to a server, whatever carried it.

    @ivar request_id: as the caller knows it.
    @ivar token: its cancellation.
    @ivar notify: sends the caller a notification about this request; given the method and the params.
    @ivar version: the revision that it speaks.
    @ivar log_level: the least level of log messages that the caller wants; L{None} is none at all.
    @ivar tear_down: tells the caller that a subscription is over, on a transport where the answer is not enough.
    """

    method: str
    params: dict[str, Any]
    request_id: Id
    token: CancellationToken
    notify: Callable[[str, dict[str, Any]], object]
    version: str = STATELESS
    log_level: str | None = None
    tear_down: Callable[[], object] = _ignore

    @property
    def stateless(self) -> bool:
        """
        Whether it speaks a revision whose requests stand for themselves.
        """
        return self.version not in HANDSHAKE


@define(eq=False)
class ToolContext:
    """
    What a tool's handler may have besides its arguments.

    @ivar request: the request that it answers.
    """

    request: McpRequest

    @property
    def token(self) -> CancellationToken:
        """
        The call's cancellation, set as soon as the caller cancels it or is gone.
        """
        return self.request.token

    @property
    def meta(self) -> dict[str, Any]:
        """
        The C{_meta} of the call.
        """
        return meta_of(self.request.params)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """
        Show the caller how far this is, if it wants to know.
        """
        token = self.meta.get(META_PROGRESS)
        if token is None or self.token.cancelled:
            return
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self.request.notify(PROGRESS, params)

    def log(self, level: str, data: object, logger: str | None = None) -> None:
        """
        Tell the caller something for its log, if it wants messages of that level.

        @param data: any JSON.
        @raise ValueError: when there is no such level.
        """
        rank = _LEVELS.index(level)
        wanted = self.request.log_level
        if wanted in _LEVELS and rank >= _LEVELS.index(wanted) and not self.token.cancelled:
            params: dict[str, Any] = {"level": level, "data": data}
            if logger is not None:
                params["logger"] = logger
            self.request.notify("notifications/message", params)


@define(eq=False)
class _Subscribed:
    request: McpRequest
    honored: dict[str, Any]
    ended: Deferred[dict[str, Any]]


def check_envelope(params: object) -> None:
    """
    See that a request of the newest revision says what every such request must say.

    @raise AcpError: -32022 for another revision, -32602 when something is missing.
    """
    meta = meta_of(params)
    version = meta.get(META_VERSION)
    if not isinstance(version, str):
        raise InvalidParams(f"Invalid params: missing {META_VERSION} in params._meta")
    if version != STATELESS:
        data = {"supported": [STATELESS, *HANDSHAKE], "requested": version}
        raise AcpError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    if not isinstance(meta.get(META_CAPABILITIES), dict):
        raise InvalidParams(f"Invalid params: missing {META_CAPABILITIES} in params._meta")


def log_level_of(params: object) -> str | None:
    """
    The level that a request of the newest revision wants its log messages from.
    """
    level = meta_of(params).get(META_LOG_LEVEL)
    return level if isinstance(level, str) else None


@define(eq=False)
class McpServer:
    """
    Tools, and what the server says of itself.  One object serves any number of connections.

    @ivar name: its name.
    @ivar instructions: how to use it, for a model.
    @ivar max_active: how many requests are worked on at once; one more is refused.
    """

    name: str
    version: str = "0"
    title: str | None = None
    instructions: str | None = None
    max_active: int = MAX_ACTIVE
    _tools: dict[str, tuple[Tool, Bound]] = field(factory=dict, init=False)
    _active: int = field(default=0, init=False)
    _subscribed: list[_Subscribed] = field(factory=list, init=False)
    _listeners: list[Callable[[str, dict[str, Any]], object]] = field(factory=list, init=False)

    # ---- tools

    def tool(
        self,
        name: str | None = None,
        *,
        description: str | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        title: str | None = None,
        annotations: dict[str, Any] | None = None,
    ) -> Callable[[_F], _F]:
        """
        A decorator that makes a function a tool: see L{add_tool}.

        @param name: by default the function's.
        @param description: by default its docstring.
        @param input_schema: the JSON schema of the arguments; by default an object with anything in it.
        """

        def add(handler: _F) -> _F:
            doc = handler.__doc__
            tool = Tool(
                name=name or handler.__name__,
                description=description or (doc.strip() if doc else None),
                input_schema=input_schema or {"type": "object"},
                output_schema=output_schema,
                title=title,
                annotations=annotations,
            )
            self.add_tool(tool, handler)
            return handler

        return add

    def add_tool(self, tool: Tool, handler: Handler) -> None:
        """
        Offer a tool, and tell who wants to know.

        @param handler: takes the arguments as a dict, and a L{ToolContext} if it likes.  It returns text, content, a
            list of content, a L{ToolResult}, any other JSON (which becomes the structured content) or nothing; or a
            Deferred of that, or is C{async def}.  Arguments are not checked against the schema.
        @raise ValueError: when there is a tool of that name.
        """
        if tool.name in self._tools:
            raise ValueError(f"there is a tool {tool.name} already")
        self._tools[tool.name] = (tool, two_arguments(handler, f"the tool {tool.name}"))
        self._changed()

    def remove_tool(self, name: str) -> None:
        """
        Offer it no more, and tell who wants to know.  Calls that run go on.

        @raise KeyError: when there is none of that name.
        """
        del self._tools[name]
        self._changed()

    @property
    def tools(self) -> Sequence[Tool]:
        """
        All of them.
        """
        return [tool for tool, _ in self._tools.values()]

    # ---- who wants to know

    def attach(self, tell: Callable[[str, dict[str, Any]], object]) -> Callable[[], None]:
        """
        Have C{tell} called with the notifications that a connection of an old revision gets unasked.

        @return: what ends that.
        """
        self._listeners.append(tell)
        return lambda: self._listeners.remove(tell)

    def _changed(self) -> None:
        # On a link that delivers at once, one who is told may end what another has.
        for tell in list(self._listeners):
            if tell in self._listeners:
                tell(_TOOLS_CHANGED, {})
        for one in list(self._subscribed):
            if one in self._subscribed and one.honored.get("toolsListChanged"):
                one.request.notify(_TOOLS_CHANGED, {"_meta": {META_SUBSCRIPTION: one.request.request_id}})

    def end_subscriptions(self, only: Callable[[McpRequest], bool] | None = None) -> None:
        """
        End the open subscriptions: the caller is told so (M2), and each request is answered.

        @param only: which of them; by default all.
        """
        for one in list(self._subscribed):
            if one in self._subscribed and (only is None or only(one.request)):
                self._subscribed.remove(one)
                one.request.tear_down()
                if not one.ended.called:
                    one.ended.callback({"_meta": {META_SUBSCRIPTION: one.request.request_id}})

    # ---- requests

    @property
    def capabilities(self) -> dict[str, Any]:
        """
        What it can do, as JSON.
        """
        return {"tools": {"listChanged": True}, "logging": {}}

    @property
    def implementation(self) -> Implementation:
        """
        What it says of itself.
        """
        return Implementation(name=self.name, version=self.version, title=self.title)

    def handle(self, request: McpRequest) -> Deferred[dict[str, Any]]:
        """
        Answer a request.

        @return: the result as JSON.  Cancelling it cancels the tool, whose token should be set before.  It fails with
            an L{AcpError} of the code that the caller is to get.
        """
        method = {
            "server/discover": self._discover,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            LISTEN: self._listen,
        }.get(request.method)
        if method is None or (not request.stateless and request.method in ("server/discover", LISTEN)):
            return _failed(MethodNotFound(data={"method": request.method}))
        if self._active >= self.max_active:
            return _failed(TooManyRequests(data={"maxActive": self.max_active}))
        self._active += 1
        try:
            result = method(request)
        except BaseException as error:  # what a Deferred would catch of a handler, this does
            result = _failed(error)
        if not isinstance(result, Deferred):
            given, result = result, Deferred()
            result.callback(given)
        return result.addBoth(self._done).addCallback(self._stamp, request)

    def _done(self, result: Any) -> Any:
        self._active -= 1
        return result

    def _stamp(self, result: dict[str, Any], request: McpRequest) -> dict[str, Any]:
        return {"resultType": "complete", **result} if request.stateless else result

    def greeting(self, version: str) -> dict[str, Any]:
        """
        The answer to C{initialize}.
        """
        said: dict[str, Any] = {
            "protocolVersion": version,
            "capabilities": self.capabilities,
            "serverInfo": self.implementation.to_json(),
        }
        if self.instructions is not None:
            said["instructions"] = self.instructions
        return said

    def _discover(self, request: McpRequest) -> Any:
        said = self.greeting(STATELESS)
        del said["protocolVersion"]
        info = said.pop("serverInfo")
        return {
            **said,
            "supportedVersions": [STATELESS],
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": info},
        }

    def _list_tools(self, request: McpRequest) -> Any:
        listed: dict[str, Any] = {"tools": [each.to_json() for each in self.tools]}
        if request.stateless:
            listed.update(ttlMs=0, cacheScope="private")
        return listed

    def _listen(self, request: McpRequest) -> Any:
        wanted = request.params.get("notifications")
        if not isinstance(wanted, dict):
            raise InvalidParams("Invalid params: missing notifications")
        honored: dict[str, Any] = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}

        def stop(_: Deferred[dict[str, Any]]) -> None:
            if one in self._subscribed:
                self._subscribed.remove(one)

        one = _Subscribed(request, honored, Deferred(stop))
        self._subscribed.append(one)
        meta = {META_SUBSCRIPTION: request.request_id}
        request.notify("notifications/subscriptions/acknowledged", {"notifications": honored, "_meta": meta})
        return one.ended

    def _call_tool(self, request: McpRequest) -> Any:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        found = self._tools.get(name) if isinstance(name, str) else None
        if found is None:
            raise InvalidParams("Unknown tool")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise InvalidParams("Invalid params: arguments is no object")
        tool, handler = found

        def failed(failure: Failure) -> dict[str, Any]:
            return _failure(failure, tool.name, request.token)

        try:
            result = outcome(handler(arguments, ToolContext(request)))
            if isinstance(result, Deferred):
                return result.addCallback(_result).addErrback(failed)
            return _result(result)
        except BaseException:  # what a Deferred would catch of a handler, this does
            return failed(Failure())


def _result(value: object) -> dict[str, Any]:
    """
    What a handler returned as the result of C{tools/call}.
    """
    if isinstance(value, ToolResult):
        return value.to_json()
    if value is None:
        return ToolResult().to_json()
    if isinstance(value, str):
        return ToolResult(content=[TextContent(text=value)]).to_json()
    if _is_content(value):
        content: Any = value
        return ToolResult(content=[content]).to_json()
    if isinstance(value, (list, tuple)) and value and all(map(_is_content, value)):
        return ToolResult(content=list(value)).to_json()
    from orjson import dumps  # noqa: PLC0415 - most tools return text

    text = dumps(value).decode()
    return ToolResult(content=[TextContent(text=text)], structured_content=value).to_json()


def _is_content(value: object) -> bool:
    return isinstance(value, (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent))


def _failure(failure: Failure, tool: str, token: CancellationToken) -> dict[str, Any]:
    """
    What is answered for a handler that failed.

    @raise AcpError: for an error of the protocol, the handler's own cancellation among them.
    """
    error = failure.value
    if isinstance(error, CancelledError) or (isinstance(error, AcpError) and not isinstance(error, LocalError)):
        raise error
    if isinstance(error, ToolError):
        said = str(error)
    else:
        said = "Internal error"
        if not token.cancelled:
            _log.failure("the tool {tool} failed", failure, tool=tool)
    return ToolResult(content=[TextContent(text=said)], is_error=True).to_json()


def _failed(error: BaseException) -> Deferred[Any]:
    result: Deferred[Any] = Deferred()
    result.errback(error)
    return result
