"""
A session of version 2 as the client holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from acp_twisted.client.kept import Kept
from acp_twisted.client.openings import Openings
from acp_twisted.client.v2.followers import SessionFollower
from acp_twisted.client.v2.foreground import Foreground
from acp_twisted.client.v2.picture import FINISHED
from acp_twisted.client.v2.prompt import Prompt
from acp_twisted.client.v2.state import SessionState
from acp_twisted.errors import AcpCapabilityError, AcpError
from acp_twisted.jsonrpc.calls import Call, Waiters
from acp_twisted.jsonrpc.signal import CancellationSignal
from acp_twisted.schema import v2
from acp_twisted.schema.values import UNSET

if TYPE_CHECKING:
    from acp_twisted.client.v2.connection import ClientConnection

Opened: TypeAlias = "v2.NewSessionResponse | v2.ResumeSessionResponse | v2.ForkSessionResponse"

_log = Logger()


class ClientSession:
    """
    One session at the agent.

    @ivar connection: the connection that it lives on.
    @ivar session_id: the agent's name for it.
    @ivar opened: the agent's answer that it began with, with its settings and commands.
    @ivar asked: the request that was answered so.
    @ivar foreground: what the agent reported last: whether it works, and what runs in the background.
    @ivar stopping: whether C{session/cancel} was sent and what it concerns has not ended yet.  Permission requests that
        come meanwhile are answered C{cancelled}, but for those of background work.
    """

    def __init__(self, connection: ClientConnection, session_id: str) -> None:
        self.connection = connection
        self.session_id = session_id
        self.opened: Opened | None = None
        self.asked: object = None
        self.foreground = Foreground()
        self.stopping = False
        self._doomed: set[Prompt] = set()
        self._prompts: dict[Prompt, None] = {}
        self._reported: dict[str, v2.IdleStateUpdate | None] = {}
        self._idle: Waiters[v2.IdleStateUpdate] = Waiters()
        self._cancellable_calls: dict[str, None] = {}
        self._cancellable_terminals: dict[str, None] = {}
        self._state: SessionState | None = None
        self._followers: list[SessionFollower] = []
        self._listeners: list[Callable[[v2.SessionUpdate], Any]] = []
        self._over: AcpError | None = None
        self._openings = Openings()
        limits = connection.limits
        self._outside: Kept[v2.SessionUpdate] = Kept(
            "updates outside of prompts", limits.max_early_updates, limits.max_queued_bytes
        )

    # ---- prompts

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """
        The prompts that are not over, in the order in which they were sent.
        """
        return tuple(self._prompts)

    def prompt(
        self,
        content: str | Sequence[v2.ContentBlock],
        stop: CancellationSignal | None = None,
        *,
        meta: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Prompt:
        """
        Send a prompt, whatever the agent is at: it inserts the message at once, or holds it.

        @param content: text, or content blocks, of which there must be one.
        @param stop: stops the prompt when it is given; see L{Prompt.cancel}.
        @param timeout: seconds until the prompt is given up, unless it is over; L{None} is the client's
            C{prompt_timeout}.
        @raise ValueError: when there is no content.
        """
        blocks: Sequence[v2.ContentBlock] = [v2.TextContent(text=content)] if isinstance(content, str) else content
        if not isinstance(blocks, Sequence):
            raise TypeError(f"a prompt is a text or a list of content blocks, not a {type(blocks).__name__}")
        if not blocks:
            raise ValueError("a prompt has at least one content block")
        seconds = self.connection.client.prompt_timeout if timeout is None else timeout
        request = v2.PromptRequest(session_id=self.session_id, prompt=blocks, meta=meta)
        prompt = Prompt(self, seconds)
        call: Call[Any] = self.connection.prepare(request)
        prompt.accepted = call
        call.addCallbacks(self._inserted, prompt.refuse, callbackArgs=(prompt,))
        call.addBoth(self._answered)
        self._prompts[prompt] = None
        try:
            self.connection.publish(call, request, timeout=seconds)
        except Exception:
            self._prompts.pop(prompt, None)
            raise
        call.afterwards(prompt.answered)
        if stop is not None and not prompt.over:
            prompt.idle.at_end(stop.attach(prompt.cancel))
        return prompt

    def _inserted(self, response: v2.PromptResponse, prompt: Prompt) -> str | None:
        message_id = response.message_id
        if self.stopping and prompt not in self._doomed:
            self._stopped()  # what was sent after the cancellation has begun (V2N9)
        report = None if message_id is None else self._reported.pop(message_id, None)
        if report is None and self._over is not None:
            report = v2.IdleStateUpdate(stop_reason="cancelled")
        prompt.accept(report)
        return message_id

    def _answered(self, result: Any) -> Any:
        if all(each.accepted.called for each in self._prompts):
            self._reported.clear()
        return result

    def prompt_over(self, prompt: Prompt) -> None:
        """
        For L{Prompt}.
        """
        self._prompts.pop(prompt, None)
        self._doomed.discard(prompt)
        self._check_stopped()

    def when_idle(self) -> Deferred[v2.IdleStateUpdate]:
        """
        Fires with the next report that foreground work has ended, whoever began it.  It fails when the session or its
        connection ends.  Cancelling it only stops the waiting.
        """
        waiting = self._idle.wait()
        if self._over is not None:
            self._idle.fail(self._over)
        return waiting

    # ---- cancelling

    def cancel(self) -> None:
        """
        Send C{session/cancel}: it stops the foreground work, and drops the prompts that are not inserted yet.  The
        session's open permission requests are answered C{cancelled} at once (V2D3), but for those of background work.
        A prompt that is sent afterwards is not concerned.
        """
        self.connection.cancel(self.session_id)

    def cancelling(self) -> None:
        """
        For the connection: C{session/cancel} or C{session/close} is about to be sent.
        """
        self._doomed = set(self._prompts)
        for each in self._doomed:
            each.cancel_sent = True
        self.stopping = self.foreground.busy or bool(self._doomed)
        self._tell("cancelling")

    def _check_stopped(self) -> None:
        if self.stopping and not self.foreground.busy and not self._doomed:
            self._stopped()

    def _stopped(self) -> None:
        self.stopping = False
        self._doomed = set()

    def can_cancel_tool_call(self, tool_call_id: str) -> bool:
        """
        Whether the agent takes L{cancel_tool_call} for it now.
        """
        return tool_call_id in self._cancellable_calls

    def cancel_tool_call(self, tool_call_id: str) -> Call[v2.CancelToolCallResponse]:
        """
        Send C{tool_call/cancel}.  The answer says that the agent is at it; the tool call's own status says that it is
        done (V2N11).

        @raise AcpCapabilityError: when the tool call does not say that it can be cancelled; nothing is sent.
        """
        if not self.can_cancel_tool_call(tool_call_id):
            raise AcpCapabilityError("toolCall.capabilities.cancel")
        return self.connection.call(v2.CancelToolCallRequest(session_id=self.session_id, tool_call_id=tool_call_id))

    def can_cancel_terminal(self, terminal_id: str) -> bool:
        """
        Whether the agent takes L{cancel_terminal} for it now.
        """
        return terminal_id in self._cancellable_terminals

    def cancel_terminal(self, terminal_id: str) -> Call[v2.CancelTerminalResponse]:
        """
        Send C{terminal/cancel}.  The answer says that the agent is at it; the terminal's exit status says that it is
        done.

        @raise AcpCapabilityError: when the terminal does not say that it can be cancelled; nothing is sent.
        """
        if not self.can_cancel_terminal(terminal_id):
            raise AcpCapabilityError("terminal.capabilities.cancel")
        return self.connection.call(v2.CancelTerminalRequest(session_id=self.session_id, terminal_id=terminal_id))

    # ---- the rest of what is asked

    def set_config_option(self, config_id: str, value: str | bool) -> Call[v2.SetSessionConfigOptionResponse]:
        """
        Send C{session/set_config_option}; the answer has all options.

        @param value: the id of one of the values, or a boolean.
        """
        kind = "boolean" if isinstance(value, bool) else "id"
        call = self.connection.call(
            v2.SetSessionConfigOptionRequest(session_id=self.session_id, config_id=config_id, type=kind, value=value)
        )

        def taken(response: v2.SetSessionConfigOptionResponse) -> v2.SetSessionConfigOptionResponse:
            self._tell("described", response.config_options, None)
            return response

        call.addCallback(taken)
        call.nobody_listens()
        return call

    def close(self) -> Call[v2.CloseSessionResponse]:
        """
        Send C{session/close}: all work is stopped, that in the background too.
        """
        return self.connection.close_session(self.session_id)

    # ---- updates

    def on_update(self, listener: Callable[[v2.SessionUpdate], Any]) -> None:
        """
        Call C{listener} with every update of this session; each is awaited before the next.
        """
        self._listeners.append(listener)

    def take_updates(self) -> list[v2.SessionUpdate]:
        """
        The updates that came while no prompt was out, since the last call: what C{session/resume} replayed, what the
        agent did on its own.  The last C{Limits.max_early_updates} are kept, at most C{Limits.max_queued_bytes} of
        them.
        """
        return self._outside.take()

    def track(self) -> SessionState:
        """
        The picture of the session, which follows all that comes from now on.  What came outside of prompts before, and
        was not taken (L{take_updates}), is in it.  So ask for it before the first prompt, or build the client with
        C{track_sessions}.
        """
        if self._state is None:
            self._state = SessionState()
            if self.opened is not None:
                self._state.described(self.opened.config_options, self.opened.available_commands)
            for update in self._outside:
                self._state.feed(update)
            if self.foreground.report is not None:
                self._state.feed(self.foreground.report)
            self.follow(self._state)
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
        if self._over is not None:
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

    # ---- what the connection tells

    def answered(self, response: Opened, asked: object) -> None:
        """
        The agent has opened the session.
        """
        self.opened, self.asked = response, asked
        self._tell("described", response.config_options, response.available_commands)

    def reopening(self, known: bool, replayed: bool) -> Callable[[bool], bool]:
        """
        See L{Openings.begin}.
        """
        return self._openings.begin(known, replayed, self._tell)

    def deliver(self, update: v2.SessionUpdate, size: int) -> tuple[list[Deferred[object]], Callable[[], None]]:
        """
        An update of C{size} bytes came.

        @return: what the next one waits for, and what is to be done once everybody was told of this one.
        """
        waiting: list[Deferred[object]] = []
        self._note(update)
        ended = self.foreground.take(update)
        if ended is None and self.stopping and isinstance(update, v2.IdleStateUpdate):
            # What was cancelled before the agent ever called itself running ends so too.
            ended = update if update.stop_reason == "cancelled" else None
        self._tell("updated", update)
        if self._prompts:
            # A reader that is given an update may send a prompt, or give one up.
            rooms = [prompt.put(update, size) for prompt in self.prompts if not prompt.over]
            waiting += [each for each in rooms if each is not None]
        else:
            self._outside.add(update, size)
            self._outside.shrink()
        for listener in list(self._listeners):
            result = self.connection.guarded(listener, update)
            if result is not None:
                waiting.append(result)
        return waiting, lambda: self._delivered(ended)

    def _note(self, update: object) -> None:
        if isinstance(update, (v2.UserMessage, v2.UserMessageChunk)):
            if any(not each.accepted.called for each in self._prompts):
                self._reported.setdefault(update.message_id, None)
                self._bound(self._reported)
        elif isinstance(update, v2.ToolCallUpdate):
            done = update.status in FINISHED
            self._note_capability(self._cancellable_calls, update.tool_call_id, update.capabilities, done)
        elif isinstance(update, v2.TerminalUpdate):
            done = update.exit_status is not UNSET and update.exit_status is not None
            self._note_capability(self._cancellable_terminals, update.terminal_id, update.capabilities, done)

    def _note_capability(self, known: dict[str, None], name: str, told: Any, done: bool) -> None:
        if told is not UNSET:
            known.pop(name, None)
            if told is not None and told.cancel is not None:
                known[name] = None
                self._bound(known)
        if done:
            known.pop(name, None)

    def _bound(self, table: dict[str, Any]) -> None:
        """
        The agent could name any number of things (design rule 6).
        """
        if len(table) > self.connection.limits.max_early_updates:
            del table[next(iter(table))]

    def _delivered(self, ended: v2.IdleStateUpdate | None) -> None:
        if ended is not None:
            for name, report in self._reported.items():
                if report is None:
                    self._reported[name] = ended
            finished = [each for each in self._prompts if each.inserted]
            self._doomed.difference_update(finished)
            self._check_stopped()
            waiting, self._idle = self._idle, Waiters()  # who waits from now on waits for the next one
            _finish(finished, ended)
            waiting.fire(ended)
        self._check_stopped()

    def end(self, error: AcpError, *, lost: bool = False) -> None:
        """
        The session is over.

        @param lost: whether its connection is, so that no answer can come any more.
        """
        if self._over is not None:
            return
        self._over = error
        if lost:
            for each in self.prompts:
                each.fail(error)
        else:
            _finish([each for each in self.prompts if each.inserted], v2.IdleStateUpdate(stop_reason="cancelled"))
        self._idle.fail(error)
        self._stopped()
        self._tell("ended")
        self._followers.clear()


def _finish(prompts: Sequence[Prompt], report: v2.IdleStateUpdate) -> None:
    """
    The work on all of these has ended.  Whoever is told first and gives another one up has nothing to cancel any more.
    """
    for each in prompts:
        each.work_ended(report)
    for each in prompts:
        each.finish(report)
