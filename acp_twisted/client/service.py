"""
The client half as a Twisted service: one that keeps a connection to an agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define
from twisted.application.internet import backoffPolicy
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred, succeed
from twisted.internet.endpoints import clientFromString
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.client.client import AcpClient, Where
from acp_twisted.client.connection import ClientConnection
from acp_twisted.client.reopening import Reopen, Reopening, check_how
from acp_twisted.interfaces import IMessageEndpoint
from acp_twisted.transports.process import AgentCommand

if TYPE_CHECKING:
    from acp_twisted.client.v2.client import VersionedClient

_log = Logger()
_T = TypeVar("_T")


class ClientService(Service):
    """
    Keeps a connection to an agent, and makes a new one when it is lost.

    Each connection is made (for a command: the program is started), initialized and prepared before it is handed out.
    When it is lost, or an attempt fails, the next attempt comes after the time that the policy names.  The sessions
    that were open are opened again before the new connection is handed out, whose C{sessions} has them.  No prompt is
    sent a second time: one whose connection is lost fails with
    L{AcpConnectionError<acp_twisted.errors.AcpConnectionError>}, and whether to ask again is for its caller to say.
    """

    def __init__(
        self,
        client: AcpClient | VersionedClient,
        where: Where,
        reactor: Any,
        *,
        prepare: Callable[[ClientConnection], object] | None = None,
        reopen: Reopen | None = "load",
        retry_policy: Callable[[int], float] | None = None,
    ) -> None:
        """
        @param client: also one of several versions, whose connections are handed out as their version's.
        @param where: an endpoint, as an object or as users type it, a URL or an
            L{AgentUrl<acp_twisted.transports.http.url.AgentUrl>}, or an
            L{AgentCommand<acp_twisted.transports.process.AgentCommand>}.
        @param reactor: connects, starts programs, and runs the timers.
        @param prepare: called with each initialized connection before it is handed out, to authenticate say; a
            Deferred or coroutine that it returns is waited for.  When it fails, so has the attempt.
        @param reopen: how the sessions of a connection that was lost are opened on the next one, after C{prepare}:
            C{"load"} has the agent tell each conversation again, so that the new session has all of it; C{"resume"}
            goes on without.  Where an agent of version 1 offers only the other one, that is done; a session that can't
            be opened is given up, and logged.  L{None} opens none.
        @param retry_policy: seconds until the next attempt, from the number of failures in a row; by default
            L{backoffPolicy<twisted.application.internet.backoffPolicy>}.
        @raise ValueError: when C{where} is a string that describes no endpoint and is no URL.
        """
        endpoint = _endpoint(reactor, where) if isinstance(where, str) else where
        # The arguments of a command may be secrets, and so may be what a URL says before its host.
        self._name = where.argv[0] if isinstance(where, AgentCommand) else _name(where, endpoint)
        connect: Callable[..., Deferred[Any]] = client.connect
        self._connect = lambda: connect(reactor, endpoint)
        self._clock: IReactorTime = reactor
        self._prepare = prepare
        self._reopen = check_how(reopen)
        self._policy = backoffPolicy() if retry_policy is None else retry_policy
        self._keeper: _Keeper | None = None
        self._last: _Keeper | None = None
        self._waiting: list[_Waiter] = []

    @property
    def connection(self) -> ClientConnection | None:
        """
        The connection, while there is one that can be asked something.
        """
        connection = None if self._keeper is None else self._keeper.connection
        return connection if connection is not None and connection.is_open else None

    def when_connected(self, fail_after_failures: int | None = None) -> Deferred[ClientConnection]:
        """
        The connection, or the next one there is.

        @param fail_after_failures: how many attempts may fail from now on; then it fails with the error of the last.
            L{None} waits as long as the service runs.
        @return: fails with L{CancelledError} when the service is stopped first.  Cancelling it only stops the waiting.
        """
        connection = self.connection
        if connection is not None:
            return succeed(connection)

        def gone(_: object) -> None:
            self._leave(waiter)

        waiter = _Waiter(Deferred(gone), fail_after_failures)
        self._waiting.append(waiter)
        return waiter.deferred

    def _leave(self, waiter: _Waiter) -> bool:
        """
        @return: whether he still waited.
        """
        waits = waiter in self._waiting
        if waits:
            self._waiting.remove(waiter)
        return waits

    def startService(self) -> None:
        """
        Begin to connect, behind the end of the connection of an earlier start.
        """
        if self._keeper is not None:
            return
        Service.startService(self)
        previous = succeed(None) if self._last is None else self._last.stop()
        reopening = Reopening(self._reopen)
        keeper = self._keeper = self._last = _Keeper(self._connect, self._prepare, reopening, self._clock)
        keeper.run(previous, self._connected, self._failed)

    def _connected(self, connection: ClientConnection) -> None:
        _log.info("connected to {agent}", agent=self._name)
        for waiter in list(self._waiting):
            # Those before him may have stopped his waiting, or the service, or closed the connection.
            if connection.is_open and self._leave(waiter):
                waiter.deferred.callback(connection)

    def _failed(self, failures: int, failure: Failure) -> float:
        """
        @return: how long to wait.
        """
        seconds = self._policy(failures)
        _log.info(
            "no connection to {agent}: {reason}; trying again in {seconds:.1f} s",
            agent=self._name,
            reason=failure.getErrorMessage(),
            seconds=seconds,
        )
        for waiter in list(self._waiting):
            if waiter.failed() and self._leave(waiter):
                waiter.deferred.errback(failure)
        return seconds

    def stopService(self) -> Deferred[None]:
        """
        End the connection in good order; an agent's program is ended by its ladder (end of input, SIGTERM, SIGKILL).

        @return: fires when the connection, and the program, are gone.
        """
        Service.stopService(self)
        keeper, self._keeper = self._keeper, None
        for waiter in list(self._waiting):
            if self._leave(waiter):
                waiter.deferred.errback(CancelledError())
        last = keeper or self._last
        return succeed(None) if last is None else last.stop()


@define(eq=False)
class _Waiter:
    """
    Somebody who waits for a connection.

    @ivar patience: how many failed attempts he still puts up with.
    """

    deferred: Deferred[ClientConnection]
    patience: int | None

    def failed(self) -> bool:
        """
        An attempt failed.

        @return: whether that was one too many.
        """
        if self.patience is None:
            return False
        self.patience -= 1
        return self.patience <= 0


class _Keeper:
    """
    One start of a L{ClientService}: connects again and again until it is stopped.

    @ivar connection: the one that was handed out last, until it is known to be gone.
    """

    def __init__(
        self,
        connect: Callable[[], Deferred[ClientConnection]],
        prepare: Callable[[ClientConnection], object] | None,
        reopening: Reopening,
        clock: IReactorTime,
    ) -> None:
        self.connection: ClientConnection | None = None
        self._connect = connect
        self._prepare = prepare
        self._reopening = reopening
        self._clock = clock
        self._stopping = False
        self._ended = False
        self._step: Deferred[Any] | None = None
        self._waiting: list[Deferred[None]] = []

    def run(
        self,
        previous: Deferred[None],
        connected: Callable[[ClientConnection], None],
        failed: Callable[[int, Failure], float],
    ) -> None:
        """
        Begin.

        @param previous: what to wait for.
        @param connected: told of each connection.
        @param failed: told how many attempts in a row have failed, and why the last; says how long to wait.
        """
        done = Deferred.fromCoroutine(self._keep(previous, connected, failed))
        done.addErrback(lambda failure: _log.failure("keeping the connection failed", failure))
        done.addCallback(self._over)

    def stop(self) -> Deferred[None]:
        """
        Give up what is going on, and close the connection.

        @return: fires when it is gone.
        """
        if self._ended:
            return succeed(None)
        over: Deferred[None] = Deferred()
        self._waiting.append(over)
        self._stopping = True
        if self._step is not None:
            self._step.cancel()
        return over

    def _over(self, _: object) -> None:
        self._ended = True
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    async def _keep(
        self,
        previous: Deferred[None],
        connected: Callable[[ClientConnection], None],
        failed: Callable[[int, Failure], float],
    ) -> None:
        await previous
        failures = 0
        while not self._stopping:
            try:
                connection = await self._open()
            except Exception:
                why = Failure()
            else:
                failures = 0
                why = await self._hand_out(connection, connected)
            if not self._stopping:
                failures += 1
                await self._pause(failed(failures, why))

    async def _open(self) -> ClientConnection:
        """
        Connect, initialize, prepare, open the sessions again.  What fails on the way is closed before anybody hears of
        it.
        """
        connection = await self._or_stop(self._connect())
        try:
            agreed: Any = await self._or_stop(connection.initialize())
            if not isinstance(connection, ClientConnection):
                connection = agreed  # of the version that both speak
            if self._prepare is not None:
                await self._or_stop(_prepared(connection, self._prepare))
            await self._or_stop(self._reopening.on(connection))
        except Exception:
            await connection.close()
            raise
        return connection

    async def _hand_out(self, connection: ClientConnection, connected: Callable[[ClientConnection], None]) -> Failure:
        """
        @return: why it was lost.
        """
        self.connection = connection
        connected(connection)
        try:
            why = Failure(await self._or_stop(connection.when_closed()))
        except CancelledError:
            why = Failure()  # told to stop, which the loop looks at
        self.connection = None
        self._reopening.lost(connection)
        await connection.close()
        return why

    async def _pause(self, seconds: float) -> None:
        try:
            await self._or_stop(deferLater(self._clock, seconds))
        except CancelledError:
            return  # told to stop, which the loop looks at

    async def _or_stop(self, step: Deferred[_T]) -> _T:
        """
        What C{step} comes to.  L{stop} cancels it.
        """
        self._step = step
        if self._stopping:
            step.cancel()
        try:
            return await step
        finally:
            self._step = None


def _prepared(connection: ClientConnection, prepare: Callable[[ClientConnection], object]) -> Deferred[None]:
    """
    What C{prepare} comes to.  If the connection is lost first, or this is cancelled, it is cancelled too, and not
    waited for.
    """
    work = maybeDeferred(prepare, connection)
    gone = connection.when_closed()
    prepared: Deferred[None] = Deferred()

    def ready(_: object) -> None:
        if not prepared.called:
            prepared.callback(None)

    def failed(failure: Failure) -> None:
        if not prepared.called:
            prepared.errback(failure)
        elif failure.check(CancelledError) is None:
            _log.failure("prepare failed after it was given up", failure)

    def stop_both(result: object) -> object:
        work.cancel()
        gone.cancel()
        return result

    prepared.addBoth(stop_both)
    work.addCallbacks(ready, failed)
    gone.addCallbacks(lambda lost: failed(Failure(lost)), _nothing)
    return prepared


def _name(where: object, endpoint: object) -> str:
    """
    What a log may say of where it is connected to.
    """
    return str(endpoint if IMessageEndpoint.providedBy(endpoint) else where)


def _endpoint(reactor: Any, where: str) -> IStreamClientEndpoint | IMessageEndpoint:
    """
    An endpoint to connect to.

    @raise ValueError: when the string describes none; the message says which.
    """
    if "://" in where:
        from acp_twisted.transports.http.url import AgentUrl  # noqa: PLC0415

        return AgentUrl(url=where)
    try:
        endpoint: IStreamClientEndpoint = clientFromString(reactor, where)
    except Exception as error:
        raise ValueError(f"{where!r} is no endpoint to connect to: {type(error).__name__}: {error}") from error
    return endpoint


def _nothing(_: object) -> None:
    return None
