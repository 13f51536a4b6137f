"""
A tool call that an agent reports, and what it asks the user about one.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from acp_twisted.errors import InternalError
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.agent.context import PromptContext

_log = Logger()

FINISHED: Final = ("completed", "failed", "cancelled")
"""The last of them is only known to version 2."""

ALLOW: Final = "allow"
DENY: Final = "deny"


def yes_or_no(schema: Any) -> list[Any]:
    """
    The options of a plain question.

    @param schema: the module of the version's classes.
    """
    return [
        schema.PermissionOption(option_id=ALLOW, name="Allow", kind="allow_once"),
        schema.PermissionOption(option_id=DENY, name="Deny", kind="reject_once"),
    ]


class OpenToolCall:
    """
    A tool call of a turn; C{context.tool_call} makes it::

        async with context.tool_call("Read the file", kind="read") as call:
            await call.update(content=[…])

    It is reported when the block is entered.  When the block is left it is completed, or failed if the block raises or
    the turn was cancelled (in version 2, cancelled then; version 1 has no word for that).  One that is not finished
    when its turn is over, whatever ends that, is reported so just before the answer, so that no client shows it as
    running for ever (B23); what is said of it later is dropped, as all updates are.

    @ivar reported: all that was said of it so far.
    """

    def __init__(self, context: PromptContext, call: v1.ToolCall) -> None:
        self._context = context
        self._begun = False
        self.reported = call

    @property
    def tool_call_id(self) -> str:
        """
        Its id, unique in the session.
        """
        return self.reported.tool_call_id

    @property
    def status(self) -> v1.ToolCallStatus:
        """
        What was last said of its state.
        """
        return self.reported.status

    @property
    def finished(self) -> bool:
        """
        Whether it is completed or failed.
        """
        return self.status in FINISHED

    def begin(self) -> Deferred[None]:
        """
        Report it.  The C{async with} block does so.

        @raise RuntimeError: the second time.
        """
        if self._begun:
            raise RuntimeError("this tool call has begun already")
        self._begun = True
        if not self.finished:
            self._context.keep_tool_call(self)
        return self._context.send_update(evolve(self.reported))

    def update(
        self,
        *,
        status: v1.ToolCallStatus | None = None,
        title: str | None = None,
        kind: v1.ToolKind | None = None,
        content: Sequence[v1.ToolCallContent] | None = None,
        locations: Sequence[v1.ToolCallLocation] | None = None,
        raw_input: Any = None,
        raw_output: Any = None,
    ) -> Deferred[None]:
        """
        Report what has changed; what is L{None} has not.  A list replaces the one before (1.121).

        @raise RuntimeError: before L{begin}, or when it would make a finished tool call run again.
        """
        if not self._begun:
            raise RuntimeError("this tool call has not begun")
        if self.finished and status is not None and status not in FINISHED:
            raise RuntimeError(f"this tool call is {self.status}")
        told: dict[str, Any] = {
            "status": status,
            "title": title,
            "kind": kind,
            "content": content,
            "locations": locations,
            "raw_input": raw_input,
            "raw_output": raw_output,
        }
        changes = {name: value for name, value in told.items() if value is not None}
        if not changes:
            return succeed(None)
        self.reported = evolve(self.reported, **changes)
        if self.finished:
            self._context.drop_tool_call(self)
        return self._context.send_update(self._of_call(**changes))

    def _of_call(self, **members: Any) -> Any:
        return self._context.schema.ToolCallUpdate(tool_call_id=self.tool_call_id, **members)

    def complete(self, content: Sequence[v1.ToolCallContent] | None = None, raw_output: Any = None) -> Deferred[None]:
        """
        It is done.
        """
        return self.update(status="completed", content=content, raw_output=raw_output)

    def fail(self, content: Sequence[v1.ToolCallContent] | None = None, raw_output: Any = None) -> Deferred[None]:
        """
        It did not work, or was not allowed.
        """
        return self.update(status="failed", content=content, raw_output=raw_output)

    def close(self) -> None:
        """
        Fail it unless it is finished, and wait for nothing.
        """
        if self._begun and not self.finished:
            self.update(status=self._context.unfinished_status).addErrback(unsent)

    def closing_words(self) -> Any:
        """
        The same, for who sends it himself.
        """
        self.reported = evolve(self.reported, status=self._context.unfinished_status)
        return self._of_call(status=self.status)

    def ask_permission(self) -> Deferred[bool]:
        """
        Ask the user whether it may run.  If so it is reported as in progress (1.106), else as failed.
        """
        return self._context.helping(self._ask_permission())

    async def _ask_permission(self) -> bool:
        about = self._of_call(title=self.reported.title, kind=self.reported.kind)
        allowed = await _choice(self._context, about, yes_or_no(self._context.schema)) == ALLOW
        if not allowed:
            await self.fail()
        elif self.status == "pending":
            await self.update(status="in_progress")
        return allowed

    def leave(self, failed: bool) -> Deferred[None]:
        """
        The block is left.

        @param failed: by an error.
        """
        if self.finished:
            return succeed(None)
        if not (failed or self._context.is_cancelled):
            return self.complete()
        self.close()
        return succeed(None)

    async def __aenter__(self) -> OpenToolCall:
        await self.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.leave(kind is not None)


def unsent(failure: Failure) -> None:
    """
    The link is gone, and nobody needs to know of the tool call any more.
    """
    _log.debug("the end of a tool call could not be told: {kind}", kind=failure.type)


async def _choice(context: PromptContext, about: Any, options: Sequence[Any]) -> str | None:
    """
    @return: the id that the client picked; L{None} for anything but a pick.
    """
    response = await context.request_permission(about, options)
    outcome: Any = response.outcome
    return str(outcome.option_id) if isinstance(outcome, context.schema.SelectedPermissionOutcome) else None


async def ask(context: PromptContext, title: str, kind: v1.ToolKind, options: Sequence[Any]) -> str | None:
    """
    Ask the user, as a tool call of its own: pending while he thinks, then completed if he picked something, else
    failed.

    @return: the id that the client picked; L{None} when it picked none.
    """
    call = context.tool_call(title, kind=kind, status="pending")
    await call.begin()
    try:
        about = context.schema.ToolCallUpdate(tool_call_id=call.tool_call_id, title=title, kind=kind, status="pending")
        picked = await _choice(context, about, options)
    except BaseException:
        call.close()
        raise
    await (call.fail() if picked is None else call.complete())
    return picked


async def ask_permission(context: PromptContext, action: str, kind: v1.ToolKind) -> bool:
    """
    May it be done?  Only the one option that allows it is a yes.
    """
    return await ask(context, action, kind, yes_or_no(context.schema)) == ALLOW


async def ask_choice(context: PromptContext, question: str, choices: Sequence[str]) -> str | None:
    """
    Which of these?

    @raise InternalError: when the client picks something else.
    """
    options = [
        context.schema.PermissionOption(option_id=str(number), name=name, kind="allow_once")
        for number, name in enumerate(choices)
    ]
    picked = await ask(context, question, "other", options)
    if picked is None:
        return None
    for option in options:
        if option.option_id == picked:
            return str(option.name)
    raise InternalError("The client picked an option that was not offered")
