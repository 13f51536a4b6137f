"""
An agent in a twisted.web site: Streamable HTTP and WebSocket on one path (protocol §5.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, cast

from twisted.cred.error import LoginFailed, Unauthorized
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from acp_twisted.interfaces import IMessageReceiverFactory
from acp_twisted.jsonrpc.routing import Envelope, read_envelope
from acp_twisted.transports.http.below import allow_streams, notice_dead_peer, take_turns
from acp_twisted.transports.http.channels import transport_of
from acp_twisted.transports.http.connection import HttpConnection, Post, refuse, respond
from acp_twisted.transports.http.rules import (
    CONNECTION_ID,
    SESSION_ID,
    Ids,
    Refused,
    check_accept,
    check_content_type,
    check_message,
    is_initialize,
    read_ids,
    shown_method,
)
from acp_twisted.transports.http.security import IAuthentication, OriginPolicy, host_is_allowed
from acp_twisted.transports.http.table import ConnectionTable, address_of
from acp_twisted.transports.http.upgrade import WebSocketConnection, check_handshake, wants_upgrade
from acp_twisted.transports.tls import end_with_peer

_log = Logger()

_METHODS: Final = b"GET, POST, DELETE, OPTIONS"
_ASKED_OF_PAGES: Final = f"Content-Type, Accept, Authorization, {CONNECTION_ID}, {SESSION_ID}".encode("ascii")


class AcpResource(Resource):
    """
    Serves an agent.  Put it at any path of any L{twisted.web.server.Site}.

    @ivar connections: the live ones.
    @ivar limits: the agent's.
    """

    isLeaf = True  # noqa: N815 - Twisted's name

    def __init__(
        self,
        agent: IMessageReceiverFactory,
        reactor: Any,
        *,
        origins: Iterable[str] = ("loopback",),
        hosts: Collection[str] | None = None,
        authentication: IAuthentication | None = None,
    ) -> None:
        """
        @param agent: an L{AcpAgent<acp_twisted.agent.agent.AcpAgent>}.
        @param reactor: runs the timers.
        @param origins: which web pages may use it; see L{OriginPolicy}.
        @param hosts: by which names it may be called; by default any.
        @param authentication: finds out who calls; by default nobody is asked.
        """
        Resource.__init__(self)
        self._agent = agent
        self._clock: IReactorTime = reactor
        self.limits = self._limits = agent.limits
        self._origins = OriginPolicy(origins)
        self._hosts = None if hosts is None else frozenset(each.lower() for each in hosts)
        self._authentication = authentication
        self.connections = ConnectionTable(agent.limits, reactor)

    def close_all(self) -> Deferred[None]:
        """
        Refuse new connections, and end each that is there in good order: what runs is cancelled and answered, the
        answers are flushed.

        @return: fires when all are gone.  What is still there after C{Limits.drain_timeout} seconds is aborted.
        """
        return self.connections.close_all()

    def render(self, request: Any) -> int:
        """
        Serve one request.
        """
        take_turns(request)
        try:
            self._check_front(request)
            if request.method == b"OPTIONS":
                self._preflight(request)
            elif request.method not in (b"GET", b"POST", b"DELETE"):
                raise Refused(405, "GET, POST or DELETE", allow=_METHODS)
            else:
                self._identify(request)
        except Refused as why:
            self._refuse(request, why)
        return NOT_DONE_YET

    def _refuse(self, request: Any, why: Refused) -> None:
        _log.debug("{method} refused: {status} {why}", method=shown_method(request), status=why.status, why=why.text)
        refuse(request, why)

    # ---- before anything else

    def _check_front(self, request: Any) -> None:
        if any(request.postpath or ()):
            raise Refused(404, "there is nothing below this path")
        if not host_is_allowed(request, self._hosts):
            raise Refused(403, "the server is not known by that name")
        origins = request.requestHeaders.getRawHeaders(b"origin") or []
        if not origins:
            return
        origin = origins[0].decode("latin-1")
        if len(origins) > 1 or not self._origins.allows(origin):
            raise Refused(403, "pages of that origin may not use this server")
        request.setHeader(b"access-control-allow-origin", origins[0])
        request.setHeader(b"access-control-expose-headers", CONNECTION_ID.encode("ascii"))
        request.setHeader(b"vary", b"Origin")

    def _preflight(self, request: Any) -> None:
        """
        What a browser asks before a page of another origin may send a request.
        """
        if not request.requestHeaders.hasHeader(b"origin"):
            raise Refused(405, "GET, POST or DELETE", allow=_METHODS)
        request.setHeader(b"access-control-allow-methods", b"GET, POST, DELETE")
        request.setHeader(b"access-control-allow-headers", _ASKED_OF_PAGES)
        request.setHeader(b"access-control-max-age", b"600")
        respond(request, 204)

    def _identify(self, request: Any) -> None:
        """
        Find out who calls, and serve him.  A POST keeps its place behind those before it while that takes time.
        """
        if self._authentication is None:
            self._serve(request, None)
            return
        try:
            identity = self._authentication.authenticate(request)
        except Exception:
            identity = fail(Failure())
        if not isinstance(identity, Deferred):
            self._serve(request, identity)
            return
        gone: list[object] = []
        request.notifyFinish().addErrback(gone.append)
        try:
            place = None if identity.called else self._keep_place(request)
        except Refused:
            identity.addErrback(lambda _: None)  # nobody waits for it any more
            identity.cancel()
            raise

        def known(found: object) -> None:
            if not gone:
                self._serve(request, found, place)

        def failed(failure: Failure) -> None:
            if place is not None:
                place[0].forget(place[1])
            if gone:
                return
            if failure.check(Refused) is not None:
                self._refuse(request, cast(Refused, failure.value))
            elif failure.check(LoginFailed, Unauthorized) is not None:
                self._refuse(request, self._unauthorized(request))
            else:
                # Not the failure itself: it may quote what the caller presented.
                _log.error("the authentication failed with {kind}", kind=type(failure.value).__name__)
                self._refuse(request, Refused(500, "the authentication failed"))

        identity.addCallback(known).addErrback(failed)

    def _keep_place(self, request: Any) -> tuple[HttpConnection, Post] | None:
        if request.method != b"POST":
            return None
        ids = read_ids(request, self._limits.max_id_length)
        entry = None if ids.connection is None else self.connections.find(ids.connection)
        return (entry, entry.arrive(request)) if isinstance(entry, HttpConnection) else None

    def _unauthorized(self, request: Any) -> Refused:
        authentication: Any = self._authentication
        made = getattr(authentication, "challenge", None)
        challenges = authentication.challenges if made is None else made(request)
        for each in challenges:
            request.responseHeaders.addRawHeader(b"www-authenticate", each)
        return Refused(401, "say who you are")

    # ---- by method

    def _serve(self, request: Any, identity: object, place: tuple[HttpConnection, Post] | None = None) -> None:
        try:
            if request.method == b"POST":
                self._post(request, identity, place)
            elif request.method == b"DELETE":
                self._delete(request, identity)
            elif wants_upgrade(request):
                self._upgrade(request, identity)
            else:
                self._get(request, identity)
        except Refused as why:
            if place is not None:
                place[0].forget(place[1])
            self._refuse(request, why)

    def _post(self, request: Any, identity: object, place: tuple[HttpConnection, Post] | None) -> None:
        ids = read_ids(request, self._limits.max_id_length)
        check_content_type(request)
        message = self._read_body(request)
        envelope = read_envelope(message)
        check_message(envelope, ids)
        if is_initialize(envelope):
            self._initialize(request, identity, message, envelope)
            return
        connection = self._connection(ids, identity)
        post = connection.arrive(request) if place is None else place[1]
        connection.ready(post, message, envelope, ids)

    def _read_body(self, request: Any) -> bytes:
        limit = self._limits.max_request_bytes
        request.content.seek(0, 2)
        if request.content.tell() > limit or getattr(request, "too_large", False):
            raise Refused(413, f"a message has at most {limit} bytes")
        request.content.seek(0)
        return cast(bytes, request.content.read())

    def _initialize(self, request: Any, identity: object, message: bytes, envelope: Envelope) -> None:
        address = address_of(request)
        self.connections.admit(address)
        connection = HttpConnection(
            self.connections.new_id(),
            identity,
            address,
            self._agent.build_receiver(self._clock),
            self._limits,
            self._clock,
            self.connections.remove,
        )
        self.connections.add(connection)
        connection.begin(request, message, envelope)

    def _get(self, request: Any, identity: object) -> None:
        check_accept(request)
        ids = read_ids(request, self._limits.max_id_length)
        connection = self._connection(ids, identity)
        end_with_peer(transport_of(request))  # the site may be anybody's
        notice_dead_peer(request, max(self._limits.stall_timeout, self._limits.pong_timeout))
        allow_streams(request, self._limits.max_streams)
        connection.open_stream(request, ids.session)

    def _delete(self, request: Any, identity: object) -> None:
        connection = self._connection(read_ids(request, self._limits.max_id_length), identity)
        connection.delete()
        respond(request, 202)

    def _connection(self, ids: Ids, identity: object) -> HttpConnection:
        """
        @raise Refused: 400 without an id, and 404 when there is no such connection, or it is somebody else's.
        """
        if ids.connection is None:
            raise Refused(400, f"{CONNECTION_ID} is missing")
        entry = self.connections.get(ids.connection, identity)
        if not isinstance(entry, HttpConnection):
            raise Refused(404, "there is no such connection (any more)")
        return entry

    def _upgrade(self, request: Any, identity: object) -> None:
        connection_id = self.connections.new_id()
        answer = check_handshake(request, connection_id)
        address = address_of(request)
        self.connections.admit(address)
        connection = WebSocketConnection(
            connection_id,
            identity,
            address,
            lambda: self._agent.build_receiver(self._clock),
            self._limits,
            self._clock,
            self.connections.remove,
        )
        self.connections.add(connection)
        connection.take_over(request, answer)
