"""
An agent of version 2 on the real reactor: the commands that it runs and shows, and handlers that block.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

import pytest
from agent_halves_v2 import INFO, built
from halves import Half
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from acp_twisted import AcpAgent, PromptContext, SyncPromptContext
from acp_twisted.errors import AcpError, ResourceNotFound
from acp_twisted.transports.process_group import group_alive

HOUR = 3600.0


@pytest.fixture
def real_reactor() -> Any:
    """The reactor that the tests run in."""
    from twisted.internet import reactor

    return reactor


class LiveHalf(Half):
    """
    An agent of version 2 with the session C{s}, on the real reactor.
    """

    def __init__(
        self, handler: Any, reactor: Any, cwd: str, *, blocking: bool = False, max_prompt_duration: float = 0
    ) -> None:
        made = AcpAgent.builder().protocol_versions(2).prompt_handler(handler, blocking=blocking)
        made.max_prompt_duration(max_prompt_duration)
        made.new_session_handler(lambda request, connection: connection.schema.NewSessionResponse(session_id="s"))
        super().__init__(built(made).connect(reactor), reactor)
        self.reactor = reactor
        self.send({"id": "i", "method": "initialize", "params": {"protocolVersion": 2, "info": INFO}})
        self.send({"id": "n", "method": "session/new", "params": {"cwd": cwd}})
        self.take()

    def prompt(self) -> None:
        """The client prompts."""
        prompt = [{"type": "text", "text": "go"}]
        self.send({"id": 5, "method": "session/prompt", "params": {"sessionId": "s", "prompt": prompt}})

    def updates(self, kind: str) -> list[dict[str, Any]]:
        """The updates of one kind."""
        found = [each["params"]["update"] for each in self.received if each.get("method") == "session/update"]
        return [each for each in found if each["sessionUpdate"] == kind]

    def shown(self) -> bytes:
        """All that the command's terminal shows."""
        return b"".join(base64.b64decode(each["data"]) for each in self.updates("terminal_output_chunk"))

    async def until(self, seen: Any) -> None:
        """Wait until something was sent."""
        while not seen():
            await deferLater(self.reactor, 0.02)

    async def until_idle(self) -> dict[str, Any]:
        """Wait until the session is idle again.  Returns the report."""
        await self.until(lambda: any(each["state"] == "idle" for each in self.updates("state_update")))
        return self.updates("state_update")[-1]


async def test_a_command_is_shown_as_a_terminal(real_reactor: Any, tmp_path: Any) -> None:
    """
    2.45: the command and its directory, its output as it comes, its exit status; the handler has the end of the output.
    """
    results: list[Any] = []

    async def handler(request: object, context: PromptContext) -> None:
        script = "import os, sys; print('out', os.environ['X'], os.getcwd()); sys.exit(3)"
        results.append(await context.execute(sys.executable, ["-c", script], env={"X": "y"}, output_byte_limit=12))
        try:
            await context.execute("no-such-command-at-all")
        except ResourceNotFound as error:
            results.append(error.code)

    half = LiveHalf(handler, real_reactor, str(tmp_path))
    half.prompt()
    assert (await half.until_idle())["stopReason"] == "end_turn"
    begun, ended = half.updates("terminal_update")
    assert begun["cwd"] == str(tmp_path)
    assert begun["command"].startswith(sys.executable)
    assert begun["capabilities"] == {"cancel": {}}
    assert ended["exitStatus"] == {"exitCode": 3}
    assert half.shown() == f"out y {tmp_path}\n".encode()
    result, missing = results
    assert (result.exit_code, result.signal, result.truncated) == (3, None, True)
    assert f"out y {tmp_path}\n".endswith(result.output)
    assert missing == -32002


async def test_both_outputs_keep_their_order(real_reactor: Any, tmp_path: Any) -> None:
    """
    2.45: as at a terminal, whatever is read at once.
    """

    async def handler(request: object, context: PromptContext) -> None:
        await context.execute("sh", ["-c", "for n in 1 2 3 4 5; do echo out; echo err >&2; done"])

    half = LiveHalf(handler, real_reactor, str(tmp_path))
    half.prompt()
    await half.until_idle()
    assert half.shown() == b"out\nerr\n" * 5


async def test_a_cancelled_command_is_killed_before_idle(real_reactor: Any, tmp_path: Any) -> None:
    """
    V2N2, V2N8: the command ends with its work, and its end is reported before the idle.
    """

    async def handler(request: object, context: PromptContext) -> None:
        await context.execute("sh", ["-c", "echo $$; sleep 600"])

    half = LiveHalf(handler, real_reactor, str(tmp_path))
    half.prompt()
    await half.until(half.shown)
    half.send({"method": "session/cancel", "params": {"sessionId": "s"}})
    assert (await half.until_idle())["stopReason"] == "cancelled"
    kinds = [each["params"]["update"]["sessionUpdate"] for each in half.received if "params" in each]
    assert kinds[-2:] == ["terminal_update", "state_update"]
    assert half.updates("terminal_update")[-1]["exitStatus"] == {"signal": "SIGKILL"}
    group = int(half.shown())
    await half.until(lambda: not group_alive(group))


@pytest.mark.parametrize("how", ["too long", "shutdown", "left behind"])
async def test_a_command_never_outlives_its_work(real_reactor: Any, tmp_path: Any, how: str) -> None:
    """
    V2N8, V2N13: when the agent stops the work, or the handler just leaves it, the command's end is reported before idle
    too, and the client may not stop it any more.
    """
    leave: Deferred[None] = Deferred()

    async def handler(request: object, context: PromptContext) -> None:
        running = context.execute("sh", ["-c", "echo $$; sleep 600"])
        await (leave if how == "left behind" else running)

    half = LiveHalf(handler, real_reactor, str(tmp_path), max_prompt_duration=HOUR if how == "too long" else 0)
    half.prompt()
    await half.until(half.shown)
    if how == "too long":
        (hour,) = [
            each for each in real_reactor.getDelayedCalls() if each.getTime() > real_reactor.seconds() + HOUR / 2
        ]
        hour.reset(0)
    terminal = half.updates("terminal_update")[0]["terminalId"]
    if how == "shutdown":
        half.connection.close()
    elif how == "left behind":
        leave.callback(None)
    assert (await half.until_idle())["stopReason"] == ("end_turn" if how == "left behind" else "error")
    kinds = [each["params"]["update"]["sessionUpdate"] for each in half.received if "params" in each]
    assert kinds[-2:] == ["terminal_update", "state_update"]
    assert half.updates("terminal_update")[-1]["exitStatus"] == {"signal": "SIGKILL"}
    group = int(half.shown())
    await half.until(lambda: not group_alive(group))
    if how != "shutdown":
        half.send({"id": 6, "method": "terminal/cancel", "params": {"sessionId": "s", "terminalId": terminal}})
        [answer] = [each for each in half.received if each.get("id") == 6]
        assert answer["error"]["code"] == -32602


async def test_the_client_stops_a_command(real_reactor: Any, tmp_path: Any) -> None:
    """
    V2N11: it is told to end; how it did is its exit status, and the work goes on.
    """
    results: list[Any] = []

    async def handler(request: object, context: PromptContext) -> None:
        results.append(await context.execute("sh", ["-c", "echo up; exec sleep 600"]))

    half = LiveHalf(handler, real_reactor, str(tmp_path))
    half.prompt()
    await half.until(half.shown)
    terminal = half.updates("terminal_update")[0]["terminalId"]
    half.send({"id": 6, "method": "terminal/cancel", "params": {"sessionId": "s", "terminalId": terminal}})
    assert (await half.until_idle())["stopReason"] == "end_turn"
    assert half.updates("terminal_update")[-1]["exitStatus"] == {"signal": "SIGTERM"}
    assert results[0].signal == "SIGTERM"
    half.send({"id": 7, "method": "terminal/cancel", "params": {"sessionId": "s", "terminalId": terminal}})
    answers = {each["id"]: each for each in half.received if each.get("id") in (6, 7)}
    assert answers[6]["result"] == {}
    assert answers[7]["error"]["code"] == -32602


async def test_a_handler_that_blocks(real_reactor: Any, tmp_path: Any) -> None:
    """
    The same names block in a thread; what it asks is answered, and its result is the stop reason.
    """
    seen: list[Any] = []

    def handler(request: object, context: SyncPromptContext) -> str:
        context.send_message("in a thread")
        seen.append(context.take_prompt())
        with context.tool_call("T") as call:
            assert call.tool_call_id
        seen.append(context.ask_permission("?"))
        try:
            context.read_file("/x")
        except AcpError as error:
            seen.append(type(error).__name__)
        return "max_tokens"

    half = LiveHalf(handler, real_reactor, str(tmp_path), blocking=True)
    half.prompt()
    asked: list[dict[str, Any]] = []

    def was_asked() -> bool:
        asked[:] = [each for each in half.received if each.get("method") == "session/request_permission"]
        return bool(asked)

    await half.until(was_asked)
    half.send({"id": asked[0]["id"], "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}})
    assert (await half.until_idle())["stopReason"] == "max_tokens"
    assert seen == [None, True, "AcpCapabilityError"]
