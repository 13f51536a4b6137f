"""
The contracts between the rooms, for whoever brings a transport or a peer of his own.

A transport carries whole messages and knows nothing of JSON; a receiver makes sense of them and knows nothing of
sockets.  Method names in camelCase are Twisted's; the others are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.python.failure import Failure
from zope.interface import Attribute, Interface

from acp_twisted.limits import Limits


class IMessageTransport(IPushProducer, Interface):
    """
    One connection that carries whole messages both ways.

    As a producer it produces the incoming messages: C{pauseProducing} stops reading, C{resumeProducing} goes on, and
    C{stopProducing} is C{close}.  A message whose delivery has begun may still arrive after a pause.
    """

    unsent: int = Attribute("How many bytes were handed to send() and not yet to the operating system.")

    def send(message: bytes) -> None:
        """
        Queue one message (without any framing) behind those before it.  After the connection is gone: nothing.
        """

    def close() -> None:
        """
        Write what is queued, then close.  More than once is fine.
        """

    def abort(reason: str) -> None:
        """
        Close now; what is queued is lost.  C{reason} becomes the text of the receiver's C{connection_lost}.
        """


class IMessageReceiver(Interface):
    """
    What a transport delivers to: the peer's side of the conversation.
    """

    def connection_made(transport: IMessageTransport) -> None:
        """
        The connection is up.  Called once, before anything else.
        """

    def message_received(message: bytes) -> None:
        """
        One whole message, without its framing; never empty.
        """

    def oversized_received(head: bytes, size: int, tail: bytes = b"") -> None:
        """
        A message longer than C{Limits.max_message_bytes} was skipped: its first bytes, its length, its last bytes.
        """

    def remainder_received(message: bytes) -> None:
        """
        The last line before the end of the input, which had no newline.  Only a response in it counts; no request is
        started from it, for it may be half of one (B49).
        """

    def input_ended() -> None:
        """
        The peer closed its half: nothing more will arrive, but what we send still gets there.
        """

    def connection_lost(reason: Failure) -> None:
        """
        The connection is gone both ways.  Called once, after everything else.
        """

    def writing_paused() -> None:
        """
        More than C{Limits.high_water_bytes} are unsent: whoever produces them should wait.
        """

    def writing_resumed() -> None:
        """
        Fewer than C{Limits.low_water_bytes} are unsent.
        """

    def shutdown() -> Deferred[None]:
        """
        End the conversation in good order: cancel what runs, answer it, and close the transport behind the answers.

        @return: a L{Deferred} that fires once the connection is gone, and never fails.
        """


class IMessageReceiverFactory(Interface):
    """
    What makes a receiver for each new connection: an L{acp_twisted.agent.agent.AcpAgent}, say.
    """

    limits = Attribute("The Limits that a transport of such a connection keeps to.")

    def build_receiver(clock: IReactorTime) -> IMessageReceiver:
        """
        A receiver for one connection, whose timers run on C{clock}.
        """


class ILaneReceiver(IMessageReceiver):
    """
    A receiver whose transport can have room for some of its sessions and not for others.
    """

    incoming_requests: int = Attribute("How many requests of the peer are unanswered, or go on.")

    def lane_writing_paused(key: Hashable) -> None:
        """
        Whoever produces output for this session should wait.
        """

    def lane_writing_resumed(key: Hashable) -> None:
        """
        He may go on.
        """


class IMessageEndpoint(Interface):
    """
    A place to connect to that says itself how: an L{acp_twisted.transports.http.url.AgentUrl}, say.
    """

    def connect_receiver(reactor: Any, receiver: IMessageReceiver, limits: Limits) -> Deferred[IMessageTransport]:
        """
        Connect a receiver.

        @return: fires with the transport, after C{receiver.connection_made}; fails with
            L{acp_twisted.errors.AcpConnectionError}.  Cancelling it gives the attempt up.
        """


class ISpan(Interface):
    """
    One message that is watched, from its beginning to its end.
    """

    params = Attribute("The params to send in place of those that the instrument was given; only of what is sent.")

    def run(function: Callable[[], None]) -> None:
        """
        Call C{function}, so that whatever it starts knows of this span, by a context variable say.  Only called for
        what was received.
        """

    def end(error: BaseException | None) -> None:
        """
        It is over: the request is answered, the notification handled, or neither is going to happen.  Called once.

        @param error: what it failed with, if it did.
        """


class IInstrument(Interface):
    """
    Watches what passes through connections: for traces and figures.  It is called in the reactor's thread, and must be
    quick; what it raises is logged, and changes nothing.  It sees params: what it keeps of them is its own affair.

    There is one for all connections of an agent or a client.
    """

    def sending(method: str, params: object, is_request: bool) -> ISpan | None:
        """
        A message is about to be sent.

        @param params: JSON, or L{None}; not to be changed.
        @return: L{None} to leave this one alone.
        """

    def received(method: str, params: object, is_request: bool) -> ISpan | None:
        """
        A request has come, or it is a notification's turn to be handled; C{session/cancel}, which waits for no turn, is
        not among those.

        @param params: JSON, or L{None}; not to be changed.
        @return: L{None} to leave this one alone.
        """


class IBatchTransport(Interface):
    """
    A Twisted transport that is better given a whole batch at once than left to the next turn of the reactor.
    """

    def write_at_once(data: bytes) -> None:
        """
        As C{write}, but now, as far as the system takes it.
        """
