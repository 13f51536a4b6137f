"""
A twisted.web site with nothing but an agent on it, that keeps its bounds before a request is read whole.
"""

from __future__ import annotations

from tempfile import SpooledTemporaryFile
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.pages import notFound
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from acp_twisted.transports.http.below import abort_exchange, take_turns
from acp_twisted.transports.http.channels import transport_of
from acp_twisted.transports.http.flood import LINGER_SECONDS
from acp_twisted.transports.http.resource import AcpResource
from acp_twisted.transports.http.rules import shown_method
from acp_twisted.transports.http.sockets import Socket, Sockets
from acp_twisted.transports.patience import Patience

_log = Logger()

_TOO_LARGE: Final = (
    b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 26\r\n\r\nthe message is too large.\n"
)
_TOO_SLOW: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 26\r\n\r\nthe request did not come.\n"
)
IN_MEMORY: Final = 100_000
"""How much of a body of unknown length is kept in memory; the rest goes to disk, as Twisted has it with known ones."""


class BoundedRequest(Request):
    """
    A request whose body is not kept beyond a limit.

    Put it into a site of your own as C{requestFactory} to have the limit there; without it, a body is read whole, to
    disk when it is large, before L{AcpResource} refuses it.

    It also has to arrive in time: Twisted lets a client take a minute for each piece, and for ever for all of them.

    @cvar max_body_bytes: the limit.
    @cvar arrival_timeout: how many seconds it may take from its first line to its end.
    @ivar too_large: whether the body is beyond it.
    """

    max_body_bytes = 16 * 1024 * 1024
    arrival_timeout = 120.0
    too_large = False

    def __init__(self, *args: Any, **options: Any) -> None:
        Request.__init__(self, *args, **options)
        self._parsePOSTFormSubmission = False  # where Twisted has it: nobody wants forms here
        self._overdue: Patience | None = Patience(self._clock, self.arrival_timeout, self._late)
        socket = self._socket
        if socket is not None:
            socket.heard()

    @classmethod
    def limited_to(cls, size: int, seconds: float = 120.0) -> type[BoundedRequest]:
        """
        The class with a limit of C{size} bytes, which have to come in C{seconds}.
        """
        return type(cls.__name__, (cls,), {"max_body_bytes": size, "arrival_timeout": seconds})

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """
        All of it is there.
        """
        self._stop_waiting()
        socket = self._socket
        if socket is not None:
            socket.work(self)
        Request.requestReceived(self, command, path, version)

    def connectionLost(self, reason: Failure) -> None:
        """
        Nothing more comes.
        """
        self._stop_waiting()
        Request.connectionLost(self, reason)

    def _stop_waiting(self) -> None:
        overdue, self._overdue = self._overdue, None
        if overdue is not None and overdue.active():
            overdue.cancel()

    def _late(self) -> None:
        self._overdue = None
        if isinstance(self.channel, HTTPChannel):
            self._refuse_now(self.channel, _TOO_SLOW)
        else:
            self._cut_off()

    def gotLength(self, length: int | None) -> None:
        """
        The size of the body, where the client says so beforehand.
        """
        too_large = length is not None and length > self.max_body_bytes
        Request.gotLength(self, 0 if too_large else length or 0)
        if length is None:
            self.content = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - Twisted closes it
        self._received = 0
        self._cut = False
        take_turns(self)
        if too_large:
            self.too_large = True
            if isinstance(self.channel, HTTPChannel):
                self._refuse_now(self.channel, _TOO_LARGE)

    def handleContentChunk(self, data: bytes) -> None:
        """
        A part of the body.
        """
        self._received += len(data)
        if self._received <= self.max_body_bytes:
            Request.handleContentChunk(self, data)
            return
        self.too_large = True
        if self._received > 2 * self.max_body_bytes and not self._cut:
            self._cut = True
            # Not from inside the delivery: there may be more of the stream in the chunk that is being taken apart.
            self._clock.callLater(0, self._cut_off)

    @property
    def _clock(self) -> IReactorTime:
        channel: Any = self.channel
        clock: IReactorTime = channel.site.reactor
        return clock

    @property
    def _socket(self) -> Socket | None:
        """
        What it came by, unless its site is somebody else's.
        """
        channel: Any = self.channel
        sockets: Sockets | None = getattr(channel.site, "sockets", None)
        return None if sockets is None else sockets.find(transport_of(self))

    def _cut_off(self) -> None:
        self._stop_waiting()
        abort_exchange(self)
        if self.content is not None:
            self.content.close()

    def _refuse_now(self, channel: Any, answer: bytes) -> None:
        """
        Answer before the rest comes, and end the connection: what would follow the headers is no request.
        """
        transport = channel.transport
        self._stop_waiting()
        self.requestHeaders.removeHeader(b"expect")  # what would be answered is not wanted any more
        transport.write(answer)
        channel.dataReceived = channel.rawDataReceived = channel.lineReceived = _throw_away
        channel.setRawMode()
        channel.setTimeout(None)
        timer = self._clock.callLater(LINGER_SECONDS, transport.abortConnection)
        lost = channel.connectionLost

        def gone(reason: Any) -> None:
            if timer.active():
                timer.cancel()
            lost(reason)

        channel.connectionLost = gone


def _throw_away(*_: object) -> None:
    return None


class AcpSite(Site):
    """
    Serves an agent at one path.  It writes no access log: a URL or a header may hold what is nobody's business.

    @ivar agent_resource: the L{AcpResource}.
    @ivar clock: runs its timers.
    @ivar sockets: those that are open.
    """

    noisy = False

    def __init__(
        self, resource: AcpResource, path: str, reactor: Any, max_body_bytes: int, *, arrival_timeout: float = 120.0
    ) -> None:
        """
        @param arrival_timeout: how many seconds a request may take to arrive whole; then 408.  A socket without any
            is closed after as many.
        @param path: where the agent is, such as C{/acp}; C{/} is the root.
        @param max_body_bytes: of a POST; more is answered with 413.
        @raise ValueError: when C{path} is no absolute path.
        """
        Site.__init__(
            self,
            place(resource, path),
            requestFactory=BoundedRequest.limited_to(max_body_bytes, arrival_timeout),
            reactor=reactor,
        )
        self.clock: IReactorTime = reactor
        self.agent_resource = resource
        self.sockets = Sockets(resource.limits, reactor, arrival_timeout)

    def buildProtocol(self, addr: Any) -> Any:
        """
        One that closes its connection once L{close_all} was called, or when there are too many idle ones.
        """
        return self.sockets.wrap(Site.buildProtocol(self, addr), addr)

    def log(self, request: Any) -> None:
        """
        What is known of a request without looking into it.
        """
        _log.debug("{method} answered {code}", method=shown_method(request), code=request.code)

    def close_all(self) -> Deferred[None]:
        """
        Refuse new connections and sockets, end each that is there in good order (see L{AcpResource.close_all}), and
        then the sockets.

        @return: fires when all are gone.
        """
        self.sockets.refuse()
        return self.agent_resource.close_all().addCallback(lambda _: self.sockets.close_all())


class _Folder(Resource):
    """
    A part of the path, with nothing of its own.
    """

    def __init__(self) -> None:
        Resource.__init__(self)

    def getChild(self, path: bytes, request: Any) -> Any:
        """
        404.
        """
        return notFound()

    def render(self, request: Any) -> Any:
        """
        404.
        """
        return notFound().render(request)


def place(resource: Resource, path: str) -> Resource:
    """
    A tree of resources with C{resource} at C{path}.

    @raise ValueError: when that is no absolute path.
    """
    if not path.startswith("/") or "?" in path or "#" in path or "//" in path:
        raise ValueError(f"{path!r} is no absolute path")
    parts = [part.encode("ascii") for part in path.split("/") if part]
    root: Resource = resource
    for part in reversed(parts):
        parent = _Folder()
        parent.putChild(part, root)
        root = parent
    return root
