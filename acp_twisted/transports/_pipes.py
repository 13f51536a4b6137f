"""
Twisted's standard input and output, with a writer that does not wait for the reactor.  POSIX only.
"""

from __future__ import annotations

from twisted.internet.fdesc import writeToFD
from twisted.internet.interfaces import IProtocol, IReactorFDSet
from twisted.internet.main import CONNECTION_LOST
from twisted.internet.process import ProcessReader, ProcessWriter
from twisted.internet.stdio import StandardIO
from zope.interface import implementer

from acp_twisted.interfaces import IBatchTransport


class Output(ProcessWriter):
    """
    A writer that can write at once what the pipe takes.

    Twisted's own leaves everything to the next turn of the reactor.  That joins what is written in one turn, but costs
    an agent three system calls for each answer where one does: most answers are small, and the pipe is empty.
    """

    _waiting = False

    def startWriting(self) -> None:
        self._waiting = True
        super().startWriting()  # type: ignore[no-untyped-call]

    def stopWriting(self) -> None:
        self._waiting = False
        super().stopWriting()  # type: ignore[no-untyped-call]

    def write_at_once(self, data: bytes) -> None:
        """
        As C{write}, now.
        """
        if self.connected and not (self._waiting or self.disconnecting):
            written = writeToFD(self.fileno(), data)  # type: ignore[no-untyped-call]
            if written is not CONNECTION_LOST and written:
                data = data[written:]
        if data:
            self.write(data)  # type: ignore[no-untyped-call]


@implementer(IBatchTransport)
class Pipes(StandardIO):
    """
    L{StandardIO} with our own writer.
    """

    def __init__(self, protocol: IProtocol, stdin: int, stdout: int, reactor: IReactorFDSet) -> None:
        self.protocol = protocol
        self._writer = Output(reactor, self, "write", stdout)  # type: ignore[no-untyped-call]
        self._reader = ProcessReader(reactor, self, "read", stdin)
        self._reader.startReading()
        protocol.makeConnection(self)

    def write_at_once(self, data: bytes) -> None:
        """
        See L{IBatchTransport}.
        """
        if self._writer is not None:
            self._writer.write_at_once(data)
