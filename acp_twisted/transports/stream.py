"""
Messages over a byte stream: any Twisted endpoint, TCP, Unix or TLS, as client and as server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.error import ConnectingCancelledError, ConnectionDone
from twisted.internet.interfaces import (
    IAddress,
    IConsumer,
    IDelayedCall,
    IHalfCloseableProtocol,
    INegotiated,
    IPushProducer,
    IReactorTime,
    ISSLTransport,
    IStreamClientEndpoint,
    ITCPTransport,
    ITransport,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from acp_twisted.errors import AcpConnectionError, LimitExceeded
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory, IMessageTransport
from acp_twisted.limits import Limits
from acp_twisted.transports.inbound import Inbound
from acp_twisted.transports.outbound import Outbound
from acp_twisted.transports.patience import Patience

_log = Logger()


@implementer(IMessageTransport, IHalfCloseableProtocol)
class MessageProtocol(Protocol):
    """
    One connection: a Twisted protocol on the one side, an L{IMessageTransport} on the other.

    Every message of a chunk reaches the receiver before C{dataReceived} returns (rule 3), unless the receiver pauses.
    C{connection_lost} gets a L{Failure} that holds an L{AcpConnectionError}, and never comes from inside C{send} or
    C{abort}.

    @ivar receiver: what the messages go to.
    """

    def __init__(
        self,
        receiver: IMessageReceiver,
        limits: Limits,
        clock: IReactorTime,
        ended: Callable[[MessageProtocol], None] | None = None,
    ) -> None:
        """
        @param clock: where the timers of this connection run.
        @param ended: called once with this object when the connection is gone, after the receiver was told.
        """
        self.receiver = receiver
        self._limits = limits
        self._clock = clock
        self._ended = ended
        self._inbound = Inbound(receiver, limits)
        self._outbound: Outbound | None = None
        self._paused_by_receiver = False
        self._held_by_output = False
        self._input_over = False
        self._closing = False
        self._peer_closed_first = False
        self._lost = False
        self._why: AcpConnectionError | None = None
        self._linger: Patience | None = None

    # IProtocol

    def connectionMade(self) -> None:
        transport = self._transport
        self._tune(transport)
        self._outbound = outbound = Outbound(cast(IConsumer, transport), self, self._limits, self._clock)
        # The usual way out is one call deep: this object's send is the queue's.
        self.send = outbound.send  # type: ignore[method-assign]
        self.receiver.connection_made(self)

    def dataReceived(self, data: bytes) -> None:
        outbound = self._outbound
        assert outbound is not None, "not connected"
        outbound.begin_batch()
        self._inbound.feed(data)
        outbound.end_batch()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._lost:
            return
        if not self._closing:
            self._inbound.flush()
        self._lost = True
        self._inbound.stop()
        if self._outbound is not None:
            self._outbound.lost()
        self._stop_lingering()
        with _log.failuresHandled("a receiver failed at the end of its connection"):
            self.receiver.connection_lost(Failure(self._explain(reason)))
        if self._ended is not None:
            self._ended(self)

    # IHalfCloseableProtocol

    def readConnectionLost(self, reason: Failure | None = None) -> None:
        """
        The peer closed its half.  What it sent is still answered; the receiver closes when it has.
        """
        self._input_over = True
        if self._closing:
            self._transport.loseConnection()
        else:
            self._inbound.end()

    def writeConnectionLost(self, reason: Failure | None = None) -> None:
        """
        Our own half-close has gone out behind the last answer (see L{output_finished}): wait a little for the peer's.
        """
        if self._closing and not self._lost and self._linger is None:
            self._linger = Patience(self._clock, self._limits.exit_grace, self._stop_waiting)

    # IMessageTransport

    @property
    def unsent(self) -> int:
        return 0 if self._outbound is None else self._outbound.unsent

    def send(self, message: bytes) -> None:
        """
        Nothing, for there is no connection yet; L{connectionMade} puts the queue's own C{send} here.
        """

    def close(self) -> None:
        """
        Deliver nothing more, write what is queued, then close.
        """
        if self._closing or self._lost:
            return
        self._closing = True
        self._peer_closed_first = self._input_over
        self._inbound.stop()
        # Go on reading, and throw away what comes: a peer that is stuck writing to us would not read our last answers.
        self._paused_by_receiver = self._held_by_output = False
        self._start_reading()
        if self._outbound is not None:
            self._outbound.close()

    def abort(self, reason: str) -> None:
        """
        Close now, and lose what is queued.

        @param reason: the text of the receiver's C{connection_lost}.
        """
        self._cut(AcpConnectionError(reason))

    def pauseProducing(self) -> None:
        if not self._closing:
            self._paused_by_receiver = True
            self._stop_reading()

    def resumeProducing(self) -> None:
        if not self._closing:
            self._paused_by_receiver = False
            self._start_reading()

    def stopProducing(self) -> None:
        self.close()

    # OutboundOwner

    def output_paused(self) -> None:
        self.receiver.writing_paused()

    def output_resumed(self) -> None:
        self.receiver.writing_resumed()

    def output_held(self, held: bool) -> None:
        if self._closing:
            return
        self._held_by_output = held
        if held:
            self._stop_reading()
        else:
            self._start_reading()

    def output_overdue(self, reason: LimitExceeded) -> None:
        self._cut(AcpConnectionError(reason.message, Failure(reason)))

    def output_finished(self) -> None:
        """
        Close a TCP or Unix socket by halves, because the kernel throws away what the peer has not read yet if a socket
        is closed with unread input: first our half, then the rest when the peer closes his or C{Limits.exit_grace}
        seconds are over.  Other transports (TLS has no halves) are closed at once.
        """
        transport = self._transport
        by_halves = ITCPTransport.providedBy(transport) and not _is_tls(transport)
        if by_halves and not self._input_over:
            cast(ITCPTransport, transport).loseWriteConnection()
        else:
            transport.loseConnection()

    # inside

    @property
    def _transport(self) -> ITransport:
        assert self.transport is not None, "not connected"
        return self.transport

    def _tune(self, transport: ITransport) -> None:
        if ITCPTransport.providedBy(transport) and isinstance(transport.getHost(), (IPv4Address, IPv6Address)):
            transport.setTcpNoDelay(True)
            transport.setTcpKeepAlive(True)

    def _stop_reading(self) -> None:
        self._inbound.pause()
        if not (self._lost or self._input_over):
            cast(IPushProducer, self._transport).pauseProducing()

    def _start_reading(self) -> None:
        if self._paused_by_receiver or self._held_by_output or self._lost:
            return
        self._inbound.resume()
        # What was held may have made the receiver pause again, close, or lose the connection.
        if not (self._inbound.paused or self._lost or self._input_over) and self.transport is not None:
            cast(IPushProducer, self._transport).resumeProducing()

    def _cut(self, why: AcpConnectionError) -> None:
        if self._lost or self._why is not None:
            return
        self._closing = True
        self._why = why
        self._inbound.stop()
        if self._outbound is not None:
            self._outbound.lost()
        if self.transport is not None:
            self._abort_transport()

    def _abort_transport(self) -> None:
        """
        Drop the Twisted transport in a later turn of the reactor.
        """
        transport = self._transport
        if hasattr(transport, "abortConnection"):
            transport.abortConnection()
        else:
            cast(IConsumer, transport).unregisterProducer()
            transport.loseConnection()

    def _stop_waiting(self) -> None:
        self._linger = None
        self._transport.loseConnection()

    def _stop_lingering(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def _explain(self, reason: Failure) -> AcpConnectionError:
        if self._why is not None:
            return self._why
        if self._closing and not self._peer_closed_first:
            return AcpConnectionError("the connection was closed", reason)
        if self._peer_closed_first or reason.check(ConnectionDone) is not None:
            return AcpConnectionError("the peer closed the connection", reason)
        return AcpConnectionError(f"the connection was lost: {reason.getErrorMessage()}", reason)


def _is_tls(transport: ITransport) -> bool:
    return ISSLTransport.providedBy(transport) or INegotiated.providedBy(transport)


class ServerFactory(Factory):
    """
    Serves any Twisted server endpoint: one receiver for each connection.

    @ivar connections: the live ones.
    """

    noisy = False

    def __init__(self, receiver_factory: IMessageReceiverFactory, clock: IReactorTime) -> None:
        self._receiver_factory = receiver_factory
        self._clock = clock
        self._refusing = False
        self._closing: IDelayedCall | None = None
        self._waiting: list[Deferred[None]] = []
        self.connections: set[MessageProtocol] = set()

    def startFactory(self) -> None:
        self._refusing = False

    def buildProtocol(self, addr: IAddress | None) -> MessageProtocol | None:
        """
        @return: L{None}, which refuses the connection, once L{close_all} was called.
        """
        if self._refusing:
            return None
        receiver = self._receiver_factory.build_receiver(self._clock)
        protocol = MessageProtocol(receiver, self._receiver_factory.limits, self._clock, self._connection_ended)
        protocol.factory = self
        self.connections.add(protocol)
        return protocol

    def close_all(self) -> Deferred[None]:
        """
        Refuse new connections, and have each receiver end its own in good order.

        @return: fires once all are gone.  What is still there after C{Limits.drain_timeout} seconds is aborted.
        """
        self._refusing = True
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        if self._closing is None and self.connections:
            self._closing = self._clock.callLater(self._receiver_factory.limits.drain_timeout, self._abort_all)
            for connection in list(self.connections):
                ending = maybeDeferred(connection.receiver.shutdown)
                ending.addErrback(lambda failure: _log.failure("a receiver failed to shut down", failure))
        self._fire_if_empty()
        return done

    def _abort_all(self) -> None:
        self._closing = None
        for connection in list(self.connections):
            connection.abort("the server is shutting down")

    def _connection_ended(self, connection: MessageProtocol) -> None:
        self.connections.discard(connection)
        self._fire_if_empty()

    def _fire_if_empty(self) -> None:
        if self.connections:
            return
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done.callback(None)


class _ClientFactory(Factory):
    """
    Builds the one protocol it was given.
    """

    noisy = False

    def __init__(self, protocol: MessageProtocol) -> None:
        self._protocol = protocol

    def buildProtocol(self, addr: IAddress | None) -> MessageProtocol:
        return self._protocol


def connect(
    endpoint: IStreamClientEndpoint, receiver: IMessageReceiver, limits: Limits, clock: IReactorTime
) -> Deferred[MessageProtocol]:
    """
    Connect C{receiver} over an endpoint.

    @return: fires with the connection, after C{receiver.connection_made}; fails with L{AcpConnectionError} when it
        can't be made.  Cancelling it gives the attempt up, and it fails with L{CancelledError}.
    """

    def explain(failure: Failure) -> Failure:
        if failure.check(CancelledError, ConnectingCancelledError) is not None:
            return Failure(CancelledError())
        return Failure(AcpConnectionError(f"could not connect: {failure.getErrorMessage()}", failure))

    protocol = MessageProtocol(receiver, limits, clock)
    connecting = maybeDeferred(endpoint.connect, _ClientFactory(protocol))
    # An endpoint may wrap the protocol; the one that the caller wants is ours.
    return connecting.addCallbacks(lambda wrapped: protocol, explain)
