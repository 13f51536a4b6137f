"""
Streamable HTTP, the server's end, as a resource of twisted.web: any MCP client, of any revision, can use it.

The end of the client's connection is the cancellation of what it asked with it (M6): there is nowhere for the answer to
go.  A client of an older revision may also send C{notifications/cancelled}.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from uuid import uuid4

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from acp_twisted.errors import AcpError, InvalidParams, InvalidRequest, MethodNotFound, answer_for
from acp_twisted.jsonrpc.cancellation import CancellationToken
from acp_twisted.jsonrpc.messages import (
    EncodeError,
    Id,
    Malformed,
    Notification,
    Request,
    error_bytes,
    id_key,
    notification_bytes,
    parse,
    result_bytes,
)
from acp_twisted.limits import KiB
from acp_twisted.mcp.backend import McpBackend
from acp_twisted.mcp.headers import (
    EVENTS,
    JSON,
    METHOD,
    NAME,
    NAMED,
    PARAM,
    SESSION,
    VERSION,
    media_type,
    unwrapped,
)
from acp_twisted.mcp.responses import abort_response, answer_json, begin_events, frame_event
from acp_twisted.mcp.server import MAX_ACTIVE, McpRequest, check_envelope, log_level_of
from acp_twisted.mcp.versions import CANCELLED, HANDSHAKE, META_VERSION, STATELESS, meta_of
from acp_twisted.transports.http.channels import transport_of
from acp_twisted.transports.http.security import LOOPBACK, IAuthentication, OriginPolicy, host_is_allowed
from acp_twisted.transports.tls import end_with_peer

_log = Logger()

HEADER_MISMATCH = -32020
"""The code for headers that say something else than the message."""

KEEP_ALIVE_SECONDS = 15.0
"""How often a stream that is silent is given a comment, which also finds out that nobody reads it."""

_STATUS = {-32700: 400, -32600: 400, -32602: 400, -32020: 400, -32021: 400, -32022: 400, -32601: 404}


@frozen(kw_only=True)
class HttpBounds:
    """
    What one resource may use.

    @ivar max_active: requests in work at once; one more is refused with 429.
    @ivar max_body_bytes: of a request; more is refused with 413.
    @ivar max_unread_bytes: written and not taken by a slow reader; beyond that it is cut.
    @ivar max_sessions: of clients of older revisions; the one that was silent for longest makes room.
    """

    max_active: int = MAX_ACTIVE
    max_body_bytes: int = 1024 * KiB
    max_unread_bytes: int = 1024 * KiB
    max_sessions: int = 64


class _Refused(Exception):
    """
    A request that is not even looked at.
    """

    def __init__(self, status: int, error: AcpError, request_id: Id = None) -> None:
        super().__init__(status)
        self.status = status
        self.error = error
        self.request_id = request_id


class _Session:
    """
    A client of an older revision.

    @ivar identity: who has begun it; nobody else is served by its name.
    """

    def __init__(self, version: str, identity: object) -> None:
        self.version = version
        self.identity = identity
        self.log_level: str | None = None
        self.running: dict[Any, _Exchange] = {}


class McpResource(Resource):
    """
    One MCP server.
    """

    isLeaf = True  # noqa: N815 - Twisted looks for this name

    def __init__(
        self,
        backend: McpBackend,
        clock: IReactorTime,
        *,
        bounds: HttpBounds | None = None,
        origins: Iterable[str] = ("none",),
        hosts: Collection[str] | None = LOOPBACK,
        authentication: Any = None,
    ) -> None:
        """
        @param origins: which web pages may use it; see L{OriginPolicy}.
        @param hosts: the names that it may be called by; L{None} is any.
        @param authentication: an L{IAuthentication}; without one, everybody may.
        """
        Resource.__init__(self)
        self.backend = backend
        self.clock = clock
        self.bounds = HttpBounds() if bounds is None else bounds
        self._origins = OriginPolicy(origins)
        self._hosts = hosts
        self._authentication: Any = authentication
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._active: set[_Exchange] = set()

    def close(self) -> None:
        """
        Cancel what is at work, and cut its connections.
        """
        for exchange in list(self._active):
            exchange.cut("shutdown")
        self._sessions.clear()

    # ---- requests

    def render(self, request: Any) -> Any:
        """
        Answer one request of HTTP.
        """
        with self._refusing(request):
            self._admit(request)
            who: object = None
            if self._authentication is not None:
                try:
                    who = self._authentication.authenticate(request)
                except Exception:
                    self._unauthorized(request)
            if isinstance(who, Deferred):
                who.addCallback(lambda found: self._serve(request, found))
                who.addErrback(self._not_served, request)
            else:
                self._serve(request, who)
        return NOT_DONE_YET

    @contextmanager
    def _refusing(self, request: Any) -> Iterator[None]:
        try:
            yield
        except _Refused as refused:
            if request.channel is not None:
                answer_json(request, refused.status, error_bytes(refused.request_id, refused.error))

    def _unauthorized(self, request: Any) -> NoReturn:
        made = getattr(self._authentication, "challenge", None)
        for challenge in (self._authentication.challenges if made is None else made(request)) or (b"Bearer",):
            request.responseHeaders.addRawHeader(b"www-authenticate", challenge)
        raise _Refused(401, InvalidRequest("Unauthorized")) from None

    def _not_served(self, failure: Failure, request: Any) -> None:
        """
        Who it is was found out later, and it is nobody.
        """
        with self._refusing(request):
            if failure.check(_Refused):
                failure.raiseException()
            self._unauthorized(request)

    def _serve(self, request: Any, who: object) -> None:
        if request.channel is None:
            return  # it has gone while it was found out who it is
        if request.method == b"POST":
            self._post(request, who)
        elif request.method == b"DELETE":
            self._delete(request, who)
        else:
            request.setHeader(b"allow", b"POST, DELETE")
            raise _Refused(405, InvalidRequest("Only POST is supported"))

    def _admit(self, request: Any) -> None:
        """
        What must be so before anything is made of a request.
        """
        origins = request.requestHeaders.getRawHeaders(b"origin") or []
        if len(origins) > 1 or not all(self._origins.allows(each.decode("latin-1")) for each in origins):
            raise _Refused(403, InvalidRequest("Invalid Origin"))
        if not host_is_allowed(request, self._hosts):
            raise _Refused(403, InvalidRequest("Invalid Host"))
        if getattr(request, "too_large", False):
            raise _Refused(413, InvalidRequest("Message too large"))

    def _session(self, request: Any, who: object) -> _Session | None:
        """
        The session that a request names, if it is the caller's own.
        """
        session = self._sessions.get(_header(request, SESSION) or "")
        return session if session is not None and session.identity == who else None

    def _delete(self, request: Any, who: object) -> None:
        session = self._session(request, who)
        if session is None:
            raise _Refused(404, InvalidRequest("Session not found"))
        del self._sessions[_header(request, SESSION) or ""]
        for exchange in list(session.running.values()):
            exchange.cut("session ended")
        request.setResponseCode(204)
        request.finish()

    def _post(self, request: Any, who: object) -> None:
        accept = b",".join(request.requestHeaders.getRawHeaders(b"accept") or [])
        if not (_accepts(accept, JSON) and _accepts(accept, EVENTS)):
            raise _Refused(406, InvalidRequest(f"Accept must include {JSON} and {EVENTS}"))
        if media_type(_header(request, "content-type")) != JSON:
            raise _Refused(415, InvalidRequest(f"Expected {JSON}"))
        body = request.content.read(self.bounds.max_body_bytes + 1)
        if len(body) > self.bounds.max_body_bytes:
            raise _Refused(413, InvalidRequest("Message too large"))
        message = parse(body)
        if isinstance(message, Malformed):
            raise _Refused(400, message.error, message.id)
        if isinstance(message, Request):
            try:
                self._ask(request, message, who)
            except AcpError as error:
                raise _Refused(_STATUS.get(error.code, 200), error, message.id) from None
            return
        if isinstance(message, Notification) and message.method == CANCELLED:
            self._cancel(request, message.params, who)
        request.setResponseCode(202)
        request.finish()

    def _cancel(self, request: Any, params: object, who: object) -> None:
        """
        C{notifications/cancelled}, which counts in a session only: nobody else's requests have ids that one knows.
        """
        session = self._session(request, who)
        if session is not None and isinstance(params, dict):
            exchange = session.running.get(id_key(params.get("requestId")))
            if exchange is not None:
                exchange.cancel(CANCELLED)

    def _ask(self, request: Any, message: Request, who: object) -> None:
        if message.params is not None and not isinstance(message.params, dict):
            raise InvalidParams("Invalid params: not an object")
        params = message.params or {}
        if META_VERSION in meta_of(params) or _header(request, VERSION) == STATELESS:
            self._check_mirrors(request, message.method, params)
            check_envelope(params)
            if message.method == "initialize":
                raise MethodNotFound(data={"method": message.method})
            exchange = self._begin(request, message, params, STATELESS, log_level_of(params), None)
            self._run(exchange, message.method)
        elif message.method == "initialize":
            exchange = self._begin(request, message, params, STATELESS, None, None)
            exchange.identity = who
            exchange.finishing = self._greet
            self._run(exchange, "server/discover")
        else:
            self._ask_in_session(request, message, params, who)

    def _ask_in_session(self, request: Any, message: Request, params: dict[str, Any], who: object) -> None:
        name = _header(request, SESSION)
        if name is None:
            raise InvalidRequest(f"initialize comes first, and its {SESSION} goes with every request")
        session = self._session(request, who)
        if session is None:
            raise _Refused(404, InvalidRequest("Session not found"), message.id)
        self._sessions.move_to_end(name)
        if message.method in ("ping", "logging/setLevel"):
            if message.method != "ping":
                session.log_level = str(params.get("level"))
            answer_json(request, 200, result_bytes(message.id, {}))
            return
        if id_key(message.id) in session.running:
            raise InvalidRequest("Request id already in use")
        exchange = self._begin(request, message, params, session.version, session.log_level, session)
        self._run(exchange, message.method)

    def _check_mirrors(self, request: Any, method: str, params: dict[str, Any]) -> None:
        """
        What stands in headers too must be the same there.
        """

        def mismatch(name: str) -> AcpError:
            return AcpError(HEADER_MISMATCH, f"HeaderMismatch: {name} does not match the message")

        for name in (VERSION, METHOD, NAME):
            if len(request.requestHeaders.getRawHeaders(name) or ()) > 1:
                raise mismatch(name)
        if _header(request, VERSION) != meta_of(params).get(META_VERSION):
            raise mismatch(VERSION)
        if _header(request, METHOD) != method:
            raise mismatch(METHOD)
        where = NAMED.get(method)
        if where is not None:
            given = _header(request, NAME)
            if given is None or unwrapped(given) != params.get(where):
                raise mismatch(NAME)
        if any(name.lower().startswith(PARAM.encode()) for name, _ in request.requestHeaders.getAllRawHeaders()):
            raise mismatch(PARAM)

    def _begin(
        self,
        request: Any,
        message: Request,
        params: dict[str, Any],
        version: str,
        log_level: str | None,
        session: _Session | None,
    ) -> _Exchange:
        if len(self._active) >= self.bounds.max_active:
            raise _Refused(429, InvalidRequest("Too many requests"), message.id)
        exchange = _Exchange(self, request, message.id, version, session)
        exchange.asked = McpRequest(
            message.method, params, message.id, exchange.token, exchange.notify, version=version, log_level=log_level
        )
        self._active.add(exchange)
        if session is not None:
            session.running[id_key(message.id)] = exchange
        return exchange

    def _run(self, exchange: _Exchange, method: str) -> None:
        exchange.asked.method = method
        exchange.run(self.backend)

    def _greet(self, exchange: _Exchange, found: dict[str, Any]) -> dict[str, Any]:
        """
        The answer to C{initialize}, out of that to C{server/discover}; a session begins with it.
        """
        wanted = exchange.asked.params.get("protocolVersion")
        version = wanted if wanted in HANDSHAKE else HANDSHAKE[0]
        name = uuid4().hex
        self._sessions[name] = _Session(version, exchange.identity)
        if len(self._sessions) > self.bounds.max_sessions:
            _, oldest = self._sessions.popitem(last=False)
            for running in list(oldest.running.values()):
                running.cut("session ended")
        exchange.request.setHeader(SESSION.encode(), name.encode())
        info = meta_of(found).get("io.modelcontextprotocol/serverInfo") or found.get("serverInfo")
        # Nothing can be told unasked: there is no stream for it.
        capabilities: dict[str, Any] = {
            kind: {name: value for name, value in can.items() if name not in ("listChanged", "subscribe")}
            for kind, can in (found.get("capabilities") or {}).items()
            if isinstance(can, dict)
        }
        greeting: dict[str, Any] = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": info or {"name": "mcp", "version": "0"},
        }
        if isinstance(found.get("instructions"), str):
            greeting["instructions"] = found["instructions"]
        return greeting

    def over(self, exchange: _Exchange) -> None:
        """
        For L{_Exchange}: it has ended.
        """
        self._active.discard(exchange)
        session = exchange.session
        if session is not None:
            session.running.pop(id_key(exchange.request_id), None)


@implementer(IPushProducer)
class _Exchange:
    """
    One request of MCP, and its response of HTTP: JSON, or a stream of events from the first notification on.
    """

    asked: McpRequest

    def __init__(
        self, owner: McpResource, request: Any, request_id: Id, version: str, session: _Session | None
    ) -> None:
        self.request = request
        self.request_id = request_id
        self.session = session
        self.token = CancellationToken()
        self.identity: object = None
        self.finishing: Any = None
        self._owner = owner
        self._stateless = version == STATELESS
        self._work: Deferred[Any] | None = None
        self._streaming = False
        self._over = False
        self._full = False
        self._unread = 0
        self._timer: IDelayedCall | None = owner.clock.callLater(KEEP_ALIVE_SECONDS, self._keep_alive)
        request.notifyFinish().addErrback(self._gone)

    def run(self, backend: McpBackend) -> None:
        """
        Have the request served.
        """
        try:
            self._work = backend.handle(self.asked)
        except BaseException:  # a backend that fails so ends its own request, and leaves nothing here
            self._failed(Failure())
            return
        self._work.addCallback(self._finish).addErrback(self._failed)
        if self._over:  # it was ended from within its own handler, which had not returned yet
            self._work.cancel()

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """
        A notification on the way.
        """
        if not self._over:
            self._write(notification_bytes(method, params))

    def cancel(self, trigger: str) -> None:
        """
        Stop the work.  There is no answer to what was cancelled; the response just ends.
        """
        if self._over:
            return
        self._end()
        self.token.cancel(trigger)
        if self._work is not None:
            self._work.cancel()
        if not self._streaming:
            self.request.setResponseCode(204)
        self._close()

    def cut(self, trigger: str) -> None:
        """
        Stop the work, and the connection with it.
        """
        if self._over:
            return
        self._end()
        self.token.cancel(trigger)
        if self._work is not None:
            self._work.cancel()
        abort_response(self.request)

    # ---- inside

    def _gone(self, _: Failure) -> None:
        """
        The client has closed the connection.
        """
        if not self._over:
            self._end()
            self.token.cancel("disconnected")
            if self._work is not None:
                self._work.cancel()

    def _finish(self, result: dict[str, Any]) -> None:
        if self._over:
            return
        if self.finishing is not None:
            result = self.finishing(self, result)
            if self._over:  # the end of the session that makes room may have been the end of all
                return
        self._answer(200, result_bytes(self.request_id, result))

    def _failed(self, failure: Failure) -> None:
        if self._over:
            return
        if failure.check(EncodeError):
            _log.failure("a result can't be sent", failure)
        error = failure.value
        assert error is not None
        known = answer_for(error)
        if known is not error and not isinstance(error, CancelledError):
            _log.failure("{method} failed", failure, method=self.asked.method)
        self._answer(_STATUS.get(known.code, 200) if self._stateless else 200, error_bytes(self.request_id, known))

    def _answer(self, status: int, message: bytes) -> None:
        if self._streaming:
            self._write(message)
            if not self._over:  # it may be what the client did not read that is one too much
                self._end()
                self._close()
        else:
            self._end()
            answer_json(self.request, status, message)

    def _write(self, message: bytes) -> None:
        self._stream()
        frame = frame_event(message)
        self.request.write(frame)
        if self._full:
            self._unread += len(frame)
            if self._unread > self._owner.bounds.max_unread_bytes:
                _log.warn("a client of MCP does not read what it asked for")
                self.cut("not read")

    def _stream(self) -> None:
        if not self._streaming:
            self._streaming = True
            end_with_peer(transport_of(self.request))  # the site may be anybody's
            begin_events(self.request)
            self.request.registerProducer(self, True)

    def _keep_alive(self) -> None:
        self._timer = self._owner.clock.callLater(KEEP_ALIVE_SECONDS, self._keep_alive)
        self._stream()
        if not self._full:
            self.request.write(b":\n\n")

    def _end(self) -> None:
        self._over = True
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        self._owner.over(self)

    def _close(self) -> None:
        if self._streaming:
            self.request.unregisterProducer()
        self.request.finish()

    def pauseProducing(self) -> None:
        """
        The client does not read.
        """
        self._full = True

    def resumeProducing(self) -> None:
        """
        It does again.
        """
        self._full = False
        self._unread = 0

    def stopProducing(self) -> None:
        """
        It is gone, which L{_gone} is told as well.
        """


def _header(request: Any, name: str) -> str | None:
    value = request.getHeader(name.encode())
    return None if value is None else value.decode("latin-1")


def _accepts(accept: bytes, wanted: str) -> bool:
    kind = wanted.partition("/")[0]
    for item in accept.decode("latin-1").lower().split(","):
        name, _, parameters = item.partition(";")
        if name.strip() in (wanted, f"{kind}/*", "*/*") and "".join(parameters.split()) not in ("q=0", "q=0.0"):
            return True
    return False


__all__ = ["HttpBounds", "IAuthentication", "McpResource"]
