"""
Twisted's standard input and output, with a writer that does not wait for the reactor.  POSIX only.
"""

from __future__ import annotations

from twisted.internet.fdesc import writeToFD
from twisted.internet.interfaces import IProtocol, IReactorFDSet
from twisted.internet.main import CONNECTION_LOST
from twisted.internet.process import ProcessReader, ProcessWriter
from twisted.internet.stdio import StandardIO


class Output(ProcessWriter):
    """
    Writes at once what the pipe takes.

    Twisted's own writer leaves everything to the next turn of the reactor, and that costs an agent three system calls
    for each answer where one does: most answers are small, and the pipe is empty.
    """

    _waiting = False

    def startWriting(self) -> None:
        self._waiting = True
        super().startWriting()  # type: ignore[no-untyped-call]

    def stopWriting(self) -> None:
        self._waiting = False
        super().stopWriting()  # type: ignore[no-untyped-call]

    def write(self, data: bytes) -> None:
        if self.connected and not (self._waiting or self.disconnecting):
            written = writeToFD(self.fileno(), data)  # type: ignore[no-untyped-call]
            if written is not CONNECTION_LOST and written:
                data = data[written:]
        if data:
            super().write(data)  # type: ignore[no-untyped-call]


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
