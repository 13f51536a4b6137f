"""
The pool of connections of our HTTP/1.1 clients, which minds two things that Twisted's does not.

The head of an answer has a bound: Twisted has one for each line of it, and none for how many there are.  And a
connection that is being closed is not used again: who closes it in the midst of an answer may find that the rest of the
answer had been read already, with which Twisted takes the connection for idle.
"""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.web.client import HTTPConnectionPool
from zope.interface import implementer

from acp_twisted.limits import KiB

_log = Logger()

MAX_HEAD_BYTES: Final = 256 * KiB
"""How long the head of an answer may be, with every provisional one (status 1xx) before it."""

_IN_HEAD: Final = ("STATUS", "HEADER")


class BoundedPool(HTTPConnectionPool):
    """
    A pool whose connections are cut when the head of an answer does not end, and that keeps none that is being closed.
    """

    def __init__(self, reactor: Any, persistent: bool = True) -> None:
        HTTPConnectionPool.__init__(self, reactor, persistent)

    def getConnection(self, key: Any, endpoint: Any) -> Deferred[Any]:
        """
        See L{HTTPConnectionPool}.
        """
        found: Deferred[Any] = HTTPConnectionPool.getConnection(self, key, _BoundedEndpoint(endpoint))
        return found

    def _putConnection(self, key: Any, connection: Any) -> None:
        """
        See L{HTTPConnectionPool}.  A request on a connection that is being closed is sent, and its answer not read.
        """
        if not getattr(connection.transport, "disconnecting", False):  # no interface has it
            HTTPConnectionPool._putConnection(self, key, connection)


@implementer(IStreamClientEndpoint)
class _BoundedEndpoint:
    """
    Connects as another endpoint does, to protocols of HTTP/1.1 that mind the length of heads.
    """

    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        connecting: Deferred[IProtocol] = self._endpoint.connect(_BoundedFactory(protocolFactory))
        return connecting

    def __repr__(self) -> str:
        return repr(self._endpoint)


class _BoundedFactory(Factory):
    """
    Builds what another factory does.
    """

    noisy = False

    def __init__(self, factory: Any) -> None:
        self._factory = factory

    def buildProtocol(self, addr: Any) -> Any:
        """
        The protocol, each of whose chunks is counted that leaves it in a head.
        """
        protocol = self._factory.buildProtocol(addr)
        receive = protocol.dataReceived
        size = 0

        def received(data: bytes) -> None:
            nonlocal size
            receive(data)
            if getattr(getattr(protocol, "_parser", None), "state", None) not in _IN_HEAD:
                size = 0
                return
            size += len(data)
            if size > MAX_HEAD_BYTES:
                _log.warn("the head of a server's answer has more than {limit} bytes", limit=MAX_HEAD_BYTES)
                protocol.transport.abortConnection()

        protocol.dataReceived = received
        return protocol
