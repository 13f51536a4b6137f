"""
A session as the client holds it, and one turn of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.client.followers import SessionFollower
from acp_twisted.client.kept import Kept
from acp_twisted.client.offers import Offers
from acp_twisted.client.openings import Openings
from acp_twisted.client.state import SessionState
from acp_twisted.client.updates import UpdateQueue
from acp_twisted.errors import AcpError, SessionBusy
from acp_twisted.jsonrpc.calls import Call
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.client.connection import ClientConnection

Opened: TypeAlias = "v1.NewSessionResponse | v1.LoadSessionResponse | v1.ResumeSessionResponse | v1.ForkSessionResponse"

_log = Logger()


class PromptTurn:
    """
    A prompt that was sent: its updates as they come, and its answer.

    Awaiting the turn is awaiting its C{response}.

    @ivar response: the agent's answer.  Cancelling it gives the turn up: the prompt's request is cancelled
        (C{$/cancel_request}) and this ends at once.  L{cancel} is the way to stop the turn and still get its answer.
    @ivar answered: whether the answer is there, or never will be.
    @ivar error: the error that a turn was answered with after it had been cancelled; such an answer counts as
        C{cancelled} (B07).
    """

    response: Call[v1.PromptResponse]

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._updates: UpdateQueue[v1.SessionUpdate] = UpdateQueue("updates of a turn", session.connection.limits)
        self.answered = False
        self.cancel_sent = False
        self.error: AcpError | None = None

    def __await__(self) -> Generator[Deferred[v1.PromptResponse], Any, v1.PromptResponse]:
        return self.response.__await__()

    def cancel(self) -> None:
        """
        Send C{session/cancel}, once, while the turn is unanswered.  Its open permission requests are answered
        C{cancelled} (V1C3); its updates and its answer still come.  Nothing is sent once the answer has arrived, though
        it may have to wait for the updates before it.
        """
        if self.response.pending.live and not self.cancel_sent:
            self.cancel_sent = True
            self._session.connection.cancel(self._session.session_id)

    def updates(self) -> AsyncIterator[v1.SessionUpdate]:
        """
        The turn's updates, in order, until it is answered.  For one reader.  The agent is slowed down to its pace.

        @raise LimitExceeded: when more than C{Limits.max_turn_updates}, or C{Limits.max_queued_bytes} of them, passed
            before anybody read.
        """
        return self._updates.read()

    def hurry(self) -> Callable[[], None]:
        """
        Let the agent go on though the updates are not read: the reader waits for what comes behind them.

        @return: takes that back.
        """
        return self._updates.hurry()

    def put(self, update: v1.SessionUpdate, size: int) -> Deferred[object] | None:
        """
        An update came, of C{size} bytes.

        @return: what fires when there is room for another.
        """
        return self._updates.put(update, size)

    @property
    def ended(self) -> bool:
        """
        Whether it is answered, or never will be, and those who were told of the answer have been told.
        """
        return self._updates.ended

    def end(self) -> None:
        """
        The turn is answered, or never will be, and the answer can be awaited.
        """
        self._updates.end()


class ClientSession:
    """
    One session at the agent.

    @ivar connection: the connection that it lives on.
    @ivar session_id: the agent's name for it.
    @ivar offers: what can be set in it.
    @ivar opened: the agent's answer that it began with, with its modes and options.
    @ivar asked: the request that was answered so.
    """

    def __init__(self, connection: ClientConnection, session_id: str) -> None:
        self.connection = connection
        self.session_id = session_id
        self.opened: Opened | None = None
        self.asked: object = None
        self._state: SessionState | None = None
        self._followers: list[SessionFollower] = []
        self._over = False
        self._openings = Openings()
        self._turn: PromptTurn | None = None
        self._listeners: list[Callable[[v1.SessionUpdate], Any]] = []
        limits = connection.limits
        self.offers = Offers()
        self._outside: Kept[v1.SessionUpdate] = Kept(
            "updates outside of turns", limits.max_early_updates, limits.max_queued_bytes
        )

    @property
    def turn(self) -> PromptTurn | None:
        """
        The turn that is not answered yet, if there is one.
        """
        return self._turn

    def prompt(
        self,
        content: str | Sequence[v1.ContentBlock],
        stop: CancellationSignal | None = None,
        *,
        meta: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> PromptTurn:
        """
        Send a prompt.

        @param content: text, or content blocks.
        @param stop: stops the turn when it is given; see L{CancellationSignal}.
        @param timeout: seconds until the turn is given up; L{None} is the client's C{prompt_timeout}.
        @raise SessionBusy: when the session's last turn is not answered yet.
        @raise TypeError: when C{content} is neither.
        """
        if self._turn is not None:
            raise SessionBusy(self.session_id)
        blocks: Sequence[v1.ContentBlock] = [v1.TextContent(text=content)] if isinstance(content, str) else content
        if not isinstance(blocks, Sequence):
            raise TypeError(f"a prompt is a text or a list of content blocks, not a {type(blocks).__name__}")
        turn = self._turn = PromptTurn(self)
        # Whatever was received before belongs to no turn, and what comes from now on to this one.
        request = v1.PromptRequest(session_id=self.session_id, prompt=blocks, meta=meta)
        seconds = self.connection.client.prompt_timeout if timeout is None else timeout
        try:
            turn.response = self.connection.prepare(request)
            turn.response.addBoth(self._answered, turn)
            self._tell("turn_began", turn)
            self.connection.publish(turn.response, request, timeout=seconds)
        except Exception:
            self._turn = None
            self._tell("turn_ended", turn, False)
            raise
        turn.response.afterwards(turn.end)
        if stop is not None and not turn.answered:
            turn.response.at_end(stop.attach(turn.cancel))
        return turn

    def _answered(self, result: Any, turn: PromptTurn) -> Any:
        if self._turn is turn:
            self._turn = None
        self.connection.turn_ended(self.session_id)
        turn.answered = True
        stopped = isinstance(result, Failure) or result.stop_reason == "cancelled"
        self._tell("turn_ended", turn, not stopped)
        error = result.value if isinstance(result, Failure) else None
        if not (turn.cancel_sent and isinstance(error, AcpError) and error.remote):
            return result
        _log.debug("a cancelled turn was answered with {error}", error=error)
        turn.error = error
        return v1.PromptResponse(stop_reason="cancelled")

    def on_update(self, listener: Callable[[v1.SessionUpdate], Any]) -> None:
        """
        Call C{listener} with every update of this session, those outside of turns too; each is awaited before the next.
        """
        self._listeners.append(listener)

    def take_updates(self) -> list[v1.SessionUpdate]:
        """
        The updates that came outside of turns since the last call: what C{session/load} replayed, commands and modes
        announced early, and what came after an answer.  The last C{Limits.max_early_updates} are kept,
        at most C{Limits.max_queued_bytes} of them.
        """
        return self._outside.take()

    def track(self) -> SessionState:
        """
        The picture of the session, which follows all that comes from now on.  What came outside of turns before, and
        was not taken (L{take_updates}), is in it; what a turn brought before is not.  So ask for it before the first
        prompt, or build the client with C{track_sessions}, after which every session is tracked from its beginning.
        """
        if self._state is None:
            self._state = SessionState()
            if self.opened is not None:
                self._state.described(self.opened.modes, self.opened.config_options)
            for update in self._outside:
                self._state.feed(update)
            self.follow(self._state)
            if self._turn is not None:
                self._state.turn_began(self._turn)
        return self._state

    @property
    def state(self) -> SessionState | None:
        """
        The picture of the session, if it is tracked.
        """
        return self._state

    def follow(self, follower: SessionFollower) -> None:
        """
        Tell C{follower} what becomes of the session.  One that is over says so at once.
        """
        if self._over:
            follower.ended()
        else:
            self._followers.append(follower)

    def unfollow(self, follower: SessionFollower) -> None:
        """
        Tell it no more.
        """
        if follower in self._followers:
            self._followers.remove(follower)

    def _tell(self, event: str, *what: object) -> None:
        for follower in list(self._followers):
            with _log.failuresHandled("a session's follower failed"):
                getattr(follower, event)(*what)

    def answered(self, response: Opened, asked: object) -> None:
        """
        The agent has opened the session.
        """
        self.opened, self.asked = response, asked
        self.offers.opened(response.modes, response.config_options)
        self._tell("described", response.modes, response.config_options)

    def cancelling(self, turn: PromptTurn) -> None:
        """
        C{session/cancel} is about to be sent for C{turn}.
        """
        self._tell("turn_cancelled", turn)

    def reopening(self, known: bool, replayed: bool) -> Callable[[bool], bool]:
        """
        See L{Openings.begin}.
        """
        return self._openings.begin(known, replayed, self._tell)

    def end(self) -> None:
        """
        The session is over.
        """
        self._over = True
        self._tell("ended")
        self._followers.clear()

    def deliver(self, update: v1.SessionUpdate, size: int) -> list[Deferred[object]]:
        """
        An update of C{size} bytes came; the next one waits for what this returns.
        """
        waiting: list[Deferred[object]] = []
        if isinstance(update, v1.ConfigOptionUpdate):
            self.offers.options_are(update.config_options)
        self._tell("updated", update)
        if self._turn is None:
            self._outside.add(update, size)
            self._outside.shrink()
        else:
            room = self._turn.put(update, size)
            if room is not None:
                waiting.append(room)
        for listener in list(self._listeners):
            result = self.connection.guarded(listener, update)
            if result is not None:
                waiting.append(result)
        return waiting

    def cancel(self) -> None:
        """
        Cancel the turn that is not answered yet, if there is one.
        """
        if self._turn is not None:
            self._turn.cancel()

    def set_mode(self, mode_id: str) -> Call[v1.SetSessionModeResponse]:
        """
        Send C{session/set_mode}.
        """
        call = self.connection.call(v1.SetSessionModeRequest(session_id=self.session_id, mode_id=mode_id))

        def taken(response: v1.SetSessionModeResponse) -> v1.SetSessionModeResponse:
            self._tell("mode_set", mode_id)
            return response

        call.addCallback(taken)
        call.nobody_listens()
        return call

    def set_config_option(self, config_id: str, value: str | bool) -> Call[v1.SetSessionConfigOptionResponse]:
        """
        Send C{session/set_config_option}; the answer has all options.
        """
        call = self.connection.set_config_option(self.session_id, config_id, value)

        def taken(response: v1.SetSessionConfigOptionResponse) -> v1.SetSessionConfigOptionResponse:
            self.offers.options_are(response.config_options)
            self._tell("described", None, response.config_options)
            return response

        call.addCallback(taken)
        call.nobody_listens()
        return call

    def close(self) -> Call[v1.CloseSessionResponse]:
        """
        Send C{session/close}: a running turn is cancelled first.
        """
        return self.connection.close_session(self.session_id)
