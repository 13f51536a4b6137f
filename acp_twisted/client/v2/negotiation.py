"""
A connection whose version of the protocol is not agreed on yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from acp_twisted.client.connection import ClientConnection as FirstConnection
from acp_twisted.client.starting import not_started
from acp_twisted.client.v2.connection import ClientConnection
from acp_twisted.errors import UNSUPPORTED_VERSION, AcpConnectionError, AcpError, AcpVersionError, InvalidResponse
from acp_twisted.jsonrpc.peer import Peer
from acp_twisted.schema import v1, v2
from acp_twisted.schema.converter import describe_error, structure, unstructure

if TYPE_CHECKING:
    from acp_twisted.client.v2.client import VersionedClient

AnyConnection: TypeAlias = "FirstConnection | ClientConnection"
"""A connection of either version; its C{protocol_version} says which."""

Reopen: TypeAlias = "Callable[[], Deferred[FirstConnection]]"


class Negotiation:
    """
    One connection before C{initialize} is answered.

    The client asks for the highest version that it speaks, in that version's words.  The agent's answer decides, and
    nothing is translated afterwards.  An error is no answer: only the one that names versions (-32022) leads to another
    question.

    @ivar client: the client that it belongs to.
    @ivar connection: the connection, once C{initialize} was answered.
    @ivar reopen: makes another connection, of version 1, to the same agent.  It is used when the agent speaks only
        version 1, and there is something that the client can do only there: a question in the words of version 2 could
        not say that.  Without it, that is not said.
    """

    def __init__(self, client: VersionedClient, clock: IReactorTime, reopen: Reopen | None = None) -> None:
        self.client = client
        self.connection: AnyConnection | None = None
        self._clock = clock
        self.reopen = reopen
        self._first: FirstConnection | None = None
        self._second: ClientConnection | None = None
        if 2 in client.versions:
            self._second = ClientConnection(client, clock)
        else:
            self._first = client.first.connection(clock)

    @property
    def peer(self) -> Peer:
        """
        The JSON-RPC conversation, to be given to a transport.
        """
        connection = self._second or self._first
        assert connection is not None
        return connection.peer

    def initialize(
        self, *, meta: dict[str, Any] | None = None, timeout: float | None = None
    ) -> Deferred[AnyConnection]:
        """
        Agree on the protocol's version and say what this client can do.

        @return: the connection, of version 1 or 2.  It fails with L{AcpVersionError}, and the link is closed, when
            there is no version that both speak; with L{AgentStartError<acp_twisted.errors.AgentStartError>} when the
            agent's program ends instead of answering.
        """
        return Deferred.fromCoroutine(self._agree(meta, timeout)).addCallback(self._agreed)

    def _agreed(self, connection: AnyConnection) -> AnyConnection:
        self.connection = connection
        return connection

    async def _agree(self, meta: dict[str, Any] | None, timeout: float | None) -> AnyConnection:
        wanted, answer = self.client.versions[0], None
        while answer is None:
            try:
                answer = await self._ask(wanted, meta, timeout) or {}
            except AcpError as error:
                if error.code != UNSUPPORTED_VERSION or not error.remote:
                    raise
                offered = _offered(error)
                common = [each for each in self.client.versions if each in offered and each < wanted]
                if not common:
                    self.close()
                    raise AcpVersionError(offered or None) from error
                wanted = common[0]  # lower each time, so this ends
        version = answer.get("protocolVersion") if isinstance(answer, dict) else None
        if type(version) is not int or version not in self.client.versions:
            self.close()
            raise AcpVersionError(version)
        if version == 2 and self._second is not None:
            self._second.agreed(self._read(answer, v2.InitializeResponse))
            return self._second
        if wanted != 1 and self.reopen is not None and self.client.first.capabilities != v1.ClientCapabilities():
            return await self._begin_anew(self.reopen, meta, timeout)
        first = self._first
        if first is None:
            first = self.client.first.connection(self._clock)
            first.take_over(self.peer)
            self.peer.takes_batches = False
        first.agreed(self._read(answer, v1.InitializeResponse))
        return first

    def _ask(self, version: int, meta: dict[str, Any] | None, timeout: float | None) -> Deferred[Any]:
        params: Any
        if version == 1:
            params = (self._first or self.client.first.connection(self._clock)).introduction(meta)
        else:
            params = unstructure(
                v2.InitializeRequest(
                    protocol_version=version, info=self.client.info, capabilities=self.client.capabilities, meta=meta
                )
            )
        return self.peer.call("initialize", params, timeout=timeout).addErrback(not_started)

    def _read(self, answer: object, kind: Any) -> Any:
        try:
            return structure(answer, kind)
        except Exception as error:
            self.close()
            raise InvalidResponse("the answer to initialize does not fit the protocol", describe_error(error)) from None

    async def _begin_anew(self, reopen: Reopen, meta: dict[str, Any] | None, timeout: float | None) -> FirstConnection:
        await self.close()
        first = await reopen()
        try:
            await first.initialize(meta=meta, timeout=timeout)
        except Exception:  # also when it is cancelled: nobody else knows of this link
            await first.close()
            raise
        return first

    @property
    def is_open(self) -> bool:
        """
        Whether anything can be asked.
        """
        return self.peer.is_open

    def close(self) -> Deferred[None]:
        """
        End the conversation in good order.

        @return: fires when the link is gone.
        """
        return self.peer.shutdown()

    def abort(self, reason: str) -> None:
        """
        End the conversation now.

        @param reason: what those who wait are told.
        """
        self.peer.abort(reason)

    def when_closed(self) -> Deferred[AcpConnectionError]:
        """
        Fires with the reason when the link is gone.
        """
        return self.peer.when_closed()


def _offered(error: AcpError) -> tuple[int, ...]:
    """
    The versions that an agent says it speaks.
    """
    data = error.data
    supported = data.get("supported") if isinstance(data, dict) else None
    return tuple(each for each in supported if type(each) is int) if isinstance(supported, list) else ()
