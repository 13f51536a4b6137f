"""
What the scripted agent can be told to do: one function for each directive.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from acp_twisted import AcpError, Call, InvalidParams, PromptContext, RequestCancelled, SyncPromptContext
from acp_twisted.agent.blocking import run_blocking
from acp_twisted.agent.tool_calls import yes_or_no
from acp_twisted.schema import v1
from acp_twisted.testing._arguments import Arguments
from acp_twisted.testing._sessions import RememberedSession, is_text
from acp_twisted.turn.result import TurnResult

_log = Logger()

POLL = 0.01
"""How often C{blocking} looks whether it was cancelled, in seconds."""


@frozen
class Scene:
    """
    One turn of the scripted agent.

    @ivar previous: what cancelled the turn before this one, in order.
    """

    context: PromptContext
    session: RememberedSession
    previous: tuple[str, ...]

    @property
    def clock(self) -> IReactorTime:
        """
        Where the time of this agent passes.
        """
        return self.context.connection.clock

    def say(self, text: str) -> Deferred[None]:
        """
        Send a chunk of the agent's message, and keep it for C{session/load}.
        """
        self.session.said(text)
        return self.context.send_message(text)

    async def pause(self, seconds: float) -> None:
        """
        Wait, but not beyond the cancellation of the turn.
        """
        try:
            await self.context.token.run_until_cancelled(deferLater(self.clock, seconds))
        except CancelledError:
            return

    async def sleep(self, seconds: float) -> None:
        """
        Wait, whatever is cancelled.
        """
        until = self.clock.seconds() + seconds
        while (left := until - self.clock.seconds()) > 0:
            try:
                await deferLater(self.clock, left)
            except CancelledError:
                continue


Answer: TypeAlias = "TurnResult | None"
Play: TypeAlias = "Callable[[Scene, Arguments], Awaitable[Answer]]"


def _end_turn(**meta: object) -> TurnResult:
    return TurnResult("end_turn", meta=meta or None)


def _as_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# ---- turns that end, and turns that do not


async def _stream(scene: Scene, arguments: Arguments) -> Answer:
    count = arguments.count()
    delay = 0.0 if arguments.empty else arguments.seconds()
    arguments.end()
    for sent in range(count):
        if sent and delay:
            await scene.pause(delay)
        if scene.context.is_cancelled:
            return _end_turn(sent=sent)
        await scene.say(str(sent + 1))
    return _end_turn(sent=count) if scene.context.is_cancelled else _end_turn()


async def _hang(scene: Scene, arguments: Arguments) -> Answer:
    while True:
        await _cancellation_of_this()


async def _cancellation_of_this() -> None:
    """
    Wait until whoever runs this cancels its Deferred, and take no harm.
    """
    never: Deferred[None] = Deferred()
    try:
        await never
    except CancelledError:
        return


async def _polite(scene: Scene, arguments: Arguments) -> Answer:
    await scene.context.when_cancelled()
    return TurnResult("cancelled", meta={"stopped": True})


async def _stubborn(scene: Scene, arguments: Arguments) -> Answer:
    seconds = arguments.seconds()
    arguments.end()
    await _cancellation_of_this()
    await scene.sleep(seconds)
    return _end_turn()


async def _fail(scene: Scene, arguments: Arguments) -> Answer:
    if arguments.empty:
        raise ValueError("secret-42")
    code = arguments.integer()
    if not -(1 << 31) <= code < 1 << 31:
        arguments.refuse()
    arguments.end()
    raise AcpError(code, "asked to fail", {"asked": True})


async def _fail_on_cancel(scene: Scene, arguments: Arguments) -> Answer:
    await scene.context.when_cancelled()
    raise RuntimeError("secret-43")


async def _nothing(scene: Scene, arguments: Arguments) -> Answer:
    return None


async def _blocking(scene: Scene, arguments: Arguments) -> Answer:
    seconds = arguments.seconds()
    arguments.end()

    def poll(request: object, context: SyncPromptContext) -> TurnResult:
        until = time.monotonic() + seconds
        while not context.is_cancelled:
            left = until - time.monotonic()
            if left <= 0:
                return _end_turn()
            time.sleep(min(POLL, left))
        return TurnResult("cancelled")

    answer: TurnResult = await run_blocking(poll, scene.context.request, scene.context)
    return answer


async def _late(scene: Scene, arguments: Arguments) -> Answer:
    seconds = arguments.seconds()
    arguments.end()
    scene.clock.callLater(seconds, scene.context.send_message, "late")
    return _end_turn()


# ---- turns that say something


async def _len(scene: Scene, arguments: Arguments) -> Answer:
    blocks: Sequence[Any] = scene.context.request.prompt
    await scene.say(str(sum(len(block.text) for block in blocks if is_text(block))))
    return _end_turn()


async def _big(scene: Scene, arguments: Arguments) -> Answer:
    count = arguments.count()
    arguments.end()
    await scene.say("x" * count)
    return _end_turn()


async def _seen(scene: Scene, arguments: Arguments) -> Answer:
    await scene.say(_as_json(scene.previous))
    return _end_turn()


# ---- turns that ask the client


def _granted(response: Any) -> str:
    option: str | None = getattr(response.outcome, "option_id", None)
    return "cancelled" if option is None else option


def _refused(failure: Any) -> str:
    failure.trap(AcpError)
    return f"error {failure.value.code}"


async def _permission(scene: Scene, arguments: Arguments) -> Answer:
    count = 1 if arguments.empty else arguments.count()
    arguments.end()
    schema = scene.context.schema
    asked = [
        scene.context.request_permission(
            schema.ToolCallUpdate(tool_call_id=f"permission-{number}", title=f"Permission {number} of {count}"),
            yes_or_no(schema),
        ).addCallbacks(_granted, _refused)
        for number in range(1, count + 1)
    ]
    # Gathered, so that cancelling this turn's handler cancels every one of them.
    outcomes = await gatherResults(asked, consumeErrors=True)
    await scene.say(_as_json(outcomes))
    return _end_turn()


async def _answer_or_error(scene: Scene, answer: Awaitable[str]) -> Answer:
    """
    Say what the client's answer comes to.
    """
    try:
        text = await answer
    except AcpError as error:
        if isinstance(error, RequestCancelled) and not error.remote:
            raise  # it is this turn that was cancelled
        text = f"error {error.code}"
    await scene.say(text)
    return _end_turn()


async def _read(scene: Scene, arguments: Arguments) -> Answer:
    path = arguments.phrase()

    async def read() -> str:
        return (await scene.context.read_text_file(path)).content

    return await _answer_or_error(scene, read())


async def _write(scene: Scene, arguments: Arguments) -> Answer:
    path, text = arguments.word(), arguments.rest()

    async def write() -> str:
        await scene.context.write_text_file(path, text)
        return "written"

    return await _answer_or_error(scene, write())


async def _run(scene: Scene, arguments: Arguments) -> Answer:
    run = _in_terminal if scene.context.schema is v1 else _here
    return await _answer_or_error(scene, run(scene.context, arguments.phrase()))


async def _here(context: PromptContext, command: str) -> str:
    """
    In version 2 the agent runs a command itself, and shows it.
    """
    result = await context.execute("/bin/sh", ["-c", command])
    return _as_json({"output": result.output, "exitCode": result.exit_code})


async def _in_terminal(context: PromptContext, command: str) -> str:
    """
    Run a shell command in a terminal of the client's, and give the terminal back whatever happens (1.143).
    """
    terminal = (await context.create_terminal("/bin/sh", ["-c", command])).terminal_id

    def kill() -> None:
        _unheeded(context.kill_terminal(terminal))

    context.on_cancel(kill)
    try:
        ended = await context.wait_for_terminal_exit(terminal)
        shown = await context.terminal_output(terminal)
        await context.kill_terminal(terminal)
    finally:
        context.token.forget(kill)
        released = _unheeded(context.release_terminal(terminal))
    await released
    return _as_json({"output": shown.output, "exitCode": ended.exit_code})


def _unheeded(call: Call[Any]) -> Deferred[Any]:
    return call.addErrback(lambda failure: _log.debug("a terminal request failed: {error}", error=failure.value))


async def _ask(scene: Scene, arguments: Arguments) -> Answer:
    call = scene.context.ext_request(arguments.word(), arguments.json())
    return await _answer_or_error(scene, call.addCallback(_as_json))


async def _cancel_ask(scene: Scene, arguments: Arguments) -> Answer:
    method, seconds, params = arguments.word(), arguments.last_seconds(), arguments.json()
    call = scene.context.ext_request(method, params)
    cancelled_here = False

    def cancel() -> None:
        nonlocal cancelled_here
        cancelled_here = True
        call.cancel()

    def ended(failure: Any) -> str:
        if not cancelled_here:
            failure.raiseException()
        return "cancelled"

    def stop_timer(result: object) -> object:
        if timer.active():
            timer.cancel()
        return result

    timer = scene.clock.callLater(seconds, cancel)
    call.addBoth(stop_timer).addCallbacks(_as_json, ended)
    return await _answer_or_error(scene, call)


async def _detach_ask(scene: Scene, arguments: Arguments) -> Answer:
    scene.context.ext_request(arguments.word(), arguments.json()).detach()
    return _end_turn()


DIRECTIVES: dict[str, tuple[str, Play]] = {
    "stream": ("stream K [DELAY]", _stream),
    "hang": ("hang", _hang),
    "polite": ("polite", _polite),
    "stubborn": ("stubborn S", _stubborn),
    "fail": ("fail [CODE]", _fail),
    "fail-on-cancel": ("fail-on-cancel", _fail_on_cancel),
    "nothing": ("nothing", _nothing),
    "blocking": ("blocking S", _blocking),
    "permission": ("permission [N]", _permission),
    "read": ("read PATH", _read),
    "write": ("write PATH TEXT", _write),
    "run": ("run COMMAND", _run),
    "ask": ("ask METHOD JSON", _ask),
    "cancel-ask": ("cancel-ask METHOD JSON S", _cancel_ask),
    "detach-ask": ("detach-ask METHOD JSON", _detach_ask),
    "late": ("late S", _late),
    "len": ("len", _len),
    "big": ("big N", _big),
    "seen": ("seen", _seen),
}
"""For each directive how it is written, and what it does.  Those without arguments take no notice of more words."""


def find(blocks: Sequence[Any]) -> tuple[Play, Arguments]:
    """
    The directive of a prompt: the first text block whose first word is one.

    @raise InvalidParams: when there is none; C{data} has the first word of the first text block.
    """
    first: str | None = None
    for block in blocks:
        if not is_text(block):
            continue
        word, rest = _first_word(block.text)
        if word in DIRECTIVES:
            usage, play = DIRECTIVES[word]
            return play, Arguments(word, rest, usage)
        first = word if first is None else first
    raise InvalidParams("not a directive", {"directive": first or ""})


def _first_word(text: str) -> tuple[str, str]:
    words = text.split(None, 1)
    if not words:
        return "", ""
    return words[0], text.lstrip()[len(words[0]) + 1 :]
