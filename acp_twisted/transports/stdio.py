"""
An agent on standard input and output, as an editor starts it.

The wire is kept clean: L{StdioGuard} takes file descriptors 0 and 1 away from everything else in the process, so that
neither C{print}, nor a C library, nor a program that a handler starts can read from the wire or write into it (B71,
B74).  POSIX only.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TextIO

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import ConnectionAborted, ConnectionLost
from twisted.internet.interfaces import IDelayedCall, IReactorFDSet, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.internet.stdio import StandardIO
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import AcpConnectionError
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.transports.stream import MessageProtocol

_log = Logger()


class StdioGuard:
    """
    Moves the real standard input and output to private file descriptors.

    From L{install} to L{restore}, file descriptor 0 is the null device, 1 is a copy of 2 (standard error), and
    C{sys.stdout} is C{sys.stderr}.  Install it before anything else can write: text that still waits in C{sys.stdout}'s
    buffer goes to standard error, not to the wire.

    @param permanent: whether L{restore} leaves 0, 1 and C{sys.stdout} as they are.  That is for a program whose log
        goes on after the conversation, such as C{twistd}: the client may still be reading.
    @ivar input_fd: the real standard input.  Programs that are started do not inherit it.
    @ivar output_fd: the real standard output, likewise.
    """

    def __init__(self, *, permanent: bool = False) -> None:
        self._permanent = permanent
        self.input_fd = -1
        self.output_fd = -1
        self._saved: dict[int, int] = {}
        self._flags: dict[int, int] = {}
        self._stdout: TextIO | None = None

    @property
    def installed(self) -> bool:
        return bool(self._saved)

    def install(self) -> StdioGuard:
        """
        Take the descriptors; a second time is fine.

        @return: this guard.
        @raise AcpConnectionError: when the process has no standard input or no standard output.
        """
        if self.installed:
            return self
        import fcntl  # noqa: PLC0415 - POSIX only, and this module is imported everywhere

        saved: dict[int, int] = {}
        try:
            for number in (0, 1):
                # What was inherited is never close-on-exec.  What is may be anything: if the process was started
                # without this descriptor, whatever it opened first has the number, the reactor for instance.
                if fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                # Beyond the three standard numbers, for one of those may be closed.
                saved[number] = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
        except OSError as error:
            for fd in saved.values():
                os.close(fd)
            raise AcpConnectionError("standard input and output must both be open") from error
        self._saved = saved
        self._flags = {fd: fcntl.fcntl(fd, fcntl.F_GETFL) for fd in saved.values()}
        self.input_fd = _own_description(saved[0], os.O_RDONLY)
        self.output_fd = _own_description(saved[1], os.O_WRONLY)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(null, 0, inheritable=True)
        try:
            os.dup2(2, 1, inheritable=True)
        except OSError:  # standard error is closed
            os.dup2(null, 1, inheritable=True)
        os.close(null)
        self._stdout = sys.stdout
        _flush(sys.stdout)
        if sys.stderr is not None:
            sys.stdout = sys.stderr
        return self

    def restore(self) -> None:
        """
        Put everything back, the blocking mode of both included (B73), and close the private descriptors.
        """
        if not self.installed:
            return
        import fcntl  # noqa: PLC0415 - as above

        _flush(sys.stdout)
        if self._stdout is not None:
            _flush(self._stdout)
            if not self._permanent:
                sys.stdout = self._stdout
        for private in {self.input_fd, self.output_fd} - set(self._saved.values()):
            os.close(private)
        for number, fd in self._saved.items():
            fcntl.fcntl(fd, fcntl.F_SETFL, self._flags[fd])
            if not self._permanent:
                os.dup2(fd, number, inheritable=True)
            os.close(fd)
        self._saved.clear()
        self.input_fd = self.output_fd = -1


def _own_description(fd: int, mode: int) -> int:
    """
    A terminal is opened again.  The three standard descriptors share one open file there, and the reactor's
    non-blocking mode would reach standard error too, whose writers then lose text (B73).

    @return: the new descriptor, or C{fd} itself where that is not needed or not possible.
    """
    if not os.isatty(fd):
        return fd
    try:
        return os.open(os.ttyname(fd), mode | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return fd


def _flush(stream: TextIO | None) -> None:
    if stream is not None:
        try:
            stream.flush()
        except (OSError, ValueError):
            # Nobody reads it any more, or it is closed; there is nobody to tell either (B68).
            return


class StdioAgentTransport(MessageProtocol):
    """
    The conversation of an agent with whoever started it.

    The end of the input is a half-close: the receiver answers what it got and closes, and all of that is written (B64,
    B72).  The loss of the output ends the conversation, for nobody can be answered any more (B68).

    @ivar done: fires with L{None} when the conversation is over, its output written, and the guard restored.  It never
        fails.  Cancelling it makes the receiver shut down.
    """

    def __init__(self, receiver: IMessageReceiver, limits: Limits, clock: IReactorTime, guard: StdioGuard) -> None:
        super().__init__(receiver, limits, clock, self._over)
        self.done: Deferred[None] = Deferred(self._cancelled)
        self._guard = guard
        self._dropping: IDelayedCall | None = None

    @classmethod
    def start(
        cls, receiver_factory: IMessageReceiverFactory, reactor: IReactorTime, guard: StdioGuard | None = None
    ) -> StdioAgentTransport:
        """
        Begin the conversation.

        @param reactor: provides L{IReactorTime} and L{IReactorFDSet}.
        @param guard: one that was installed earlier; by default a new one.
        @raise AcpConnectionError: when there is no standard input or output.
        """
        guard = StdioGuard() if guard is None else guard
        guard.install()
        receiver = receiver_factory.build_receiver(reactor)
        protocol = cls(receiver, receiver_factory.limits, reactor, guard)
        from acp_twisted.transports._pipes import Pipes  # noqa: PLC0415 - POSIX only

        Pipes(protocol, guard.input_fd, guard.output_fd, IReactorFDSet(reactor))
        return protocol

    def writeConnectionLost(self, reason: Failure | None = None) -> None:
        """
        Nobody reads our output any more.
        """
        self._drop(ConnectionLost())

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)  # whoever gets the last message may abort
        if self._dropping is not None:
            self._dropping.cancel()
            self._dropping = None

    def _abort_transport(self) -> None:
        # StandardIO knows no abort.  Not at once, for its caller may be in the middle of a send.
        self._dropping = self._clock.callLater(0, self._dropped)

    def _dropped(self) -> None:
        self._dropping = None
        self._drop(ConnectionAborted())

    def _drop(self, why: Exception) -> None:
        transport = self.transport
        if isinstance(transport, StandardIO) and not transport.disconnected:
            transport.connectionLost(Failure(why))

    def _over(self, protocol: MessageProtocol) -> None:
        self._guard.restore()
        if not self.done.called:
            self.done.callback(None)

    def _cancelled(self, done: Deferred[None]) -> None:
        ending = maybeDeferred(self.receiver.shutdown)
        ending.addErrback(lambda failure: _log.failure("a receiver failed to shut down", failure))


def serve_stdio(
    receiver_factory: IMessageReceiverFactory, reactor: IReactorTime, guard: StdioGuard | None = None
) -> Deferred[None]:
    """
    Serve one conversation on the standard input and output of this process.

    @param reactor: provides L{IReactorTime} and L{IReactorFDSet}.
    @param guard: one that was installed earlier; by default a new one.
    @return: fires when the conversation is over and its output is written.  It fails with L{AcpConnectionError} when
        there is no standard input or output.  Cancelling it makes the receiver shut down, and it fails with
        L{twisted.internet.defer.CancelledError} at once.
    """
    try:
        return StdioAgentTransport.start(receiver_factory, reactor, guard).done
    except AcpConnectionError:
        failed: Deferred[None] = Deferred()
        failed.errback(Failure())
        return failed
