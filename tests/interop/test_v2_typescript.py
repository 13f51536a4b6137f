"""
Our client of version 2, driving an agent on the TypeScript SDK's experimental entry points.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from peers import peer
from twisted.internet.defer import Deferred

from acp_twisted import AcpClient, AgentCommand, MethodNotFound, RequestCancelled
from acp_twisted.client.permissions import deny, first_allow
from acp_twisted.client.v2.connection import ClientConnection
from acp_twisted.client.v2.session import ClientSession
from acp_twisted.errors import ResourceNotFound
from acp_twisted.schema import v2
from interop.programs import SOURCES, until
from interop.wires import Wire, recorded, tapped

ENTRY_POINTS = pytest.mark.parametrize("entry", ["stable", "unstable"])


def ts_agent(versions: str, entry: str = "stable") -> list[str]:
    """An agent on the TypeScript SDK 2.4.0 that speaks these versions."""
    ts = peer("ts24")
    return ts.command(SOURCES / "ts_v2_agent.mjs", ts.folder, versions, entry)


class Driver:
    """
    Our client with an agent that it started behind a tap.

    @ivar asked: the requests for permission that it was asked.
    """

    def __init__(self, reactor: Any, folder: Path) -> None:
        self.reactor = reactor
        self.record = folder / "wire.jsonl"
        self.asked: list[v2.RequestPermissionRequest] = []
        self.waiting: list[Deferred[Any]] = []
        self.hold = False
        self.policy: Any = first_allow
        self.connection: Any = None

    def _permission(self, request: v2.RequestPermissionRequest) -> Any:
        self.asked.append(request)
        if not self.hold:
            return self.policy(request)
        self.waiting.append(Deferred())
        return self.waiting[-1]

    async def open(self, argv: list[str], cwd: Path) -> ClientSession:
        """
        Start an agent, and open a session of version 2.
        """
        client = (
            AcpClient.builder()
            .request_permission_handler(self._permission)
            .create_elicitation_handler(
                lambda request: v2.CreateElicitationResponse(action="accept", content={"name": "Ada"})
            )
            .track_sessions()
            .protocol_versions(2, 1)
            .build()
        )
        link = await client.connect(self.reactor, AgentCommand(tapped(self.record, argv)))
        self.connection = await link.initialize()
        assert isinstance(self.connection, ClientConnection)
        return await self.connection.new_session(str(cwd))

    async def close(self) -> None:
        """
        End the agent.
        """
        if self.connection is not None:
            await self.connection.close()

    def wire(self) -> Wire:
        """
        What passed, once the agent has ended.
        """
        return recorded(self.record)


@pytest_twisted.async_yield_fixture
async def driver(real_reactor: Any, tmp_path: Path) -> AsyncIterator[Driver]:
    """A client whose agent is ended."""
    driver = Driver(real_reactor, tmp_path)
    yield driver
    await driver.close()


def picture(session: ClientSession) -> Any:
    """The session's picture."""
    assert session.state is not None
    return session.state


@ENTRY_POINTS
async def test_a_session_with_everything(entry: str, driver: Driver, workspace: Path) -> None:
    """2.30-2.46: prompts, messages, tool calls, terminals, a plan, a permission, an elicitation, a failure."""
    session = await driver.open(ts_agent("1,2", entry), workspace)
    assert driver.connection.agent_info.name == "ts-v2-agent"
    for text in ("stream 3", "whole x", "eager x", "afterwards x", "replace", "tool", "permission", "elicit"):
        prompt = session.prompt(text)
        updates = [each async for each in prompt.updates()]
        assert (await prompt).stop_reason == "end_turn"
        assert await prompt.accepted in {each.message_id for each in picture(session).messages}
        assert isinstance(updates[-1], v2.IdleStateUpdate)
    failed = await session.prompt("fail")
    assert failed.stop_reason == "error"
    assert failed.error == v2.Error(code=-32603, message="asked to fail")
    shown = picture(session)
    replaced = next(each for each in shown.messages if each.text == "CD")
    assert replaced.meta == {"b": 2, "c": 3}
    [call] = shown.tool_calls
    assert (call.status, call.title, call.kind, len(call.content)) == ("completed", None, "search", 2)
    [terminal] = shown.terminals.values()
    assert (terminal.text, terminal.exit_status.exit_code) == ("€", 0)
    assert shown.title == "Looking"
    assert [each.tag for each in shown.other] == ["_vendor_update"]
    words = [each.text for each in shown.messages if each.role == "agent"]
    assert json.loads(words[-2]) == {"outcome": "selected", "optionId": "yes"}
    assert json.loads(words[-1]) == {"action": "accept", "content": {"name": "Ada"}}
    assert [each.title for each in driver.asked] == ["Change a file"]


async def test_a_refused_permission(driver: Driver, workspace: Path) -> None:
    """The option that was chosen reaches the agent."""
    driver.policy = deny
    session = await driver.open(ts_agent("2"), workspace)
    await session.prompt("permission")
    assert json.loads(picture(session).messages[-1].text) == {"outcome": "selected", "optionId": "no"}


@ENTRY_POINTS
async def test_held_prompts_are_withdrawn_and_dropped(entry: str, driver: Driver, workspace: Path) -> None:
    """V2D7, V2N9: one is withdrawn, the next dropped by session/cancel, one sent afterwards goes on."""
    session = await driver.open(ts_agent("2", entry), workspace)
    first = session.prompt("slow")
    await first.accepted
    withdrawn, dropped = session.prompt("stream 1"), session.prompt("stream 1")
    given_up = session.prompt("stream 1")
    given_up.accepted.cancel()
    withdrawn.cancel()
    assert (await withdrawn).stop_reason == "cancelled"
    assert not first.over
    session.cancel()
    assert (await dropped).stop_reason == "cancelled"
    # Not before that: the SDK may start the handler of a prompt before that of a session/cancel which came first.
    after = session.prompt("stream 2")
    assert (await first).stop_reason == "cancelled"
    assert (await after).stop_reason == "end_turn"
    with pytest.raises(RequestCancelled) as refused:
        await dropped.accepted
    assert refused.value.remote
    assert picture(session).messages[-1].text == "12"
    await driver.close()
    wire = driver.wire()
    assert wire.methods("client").count("$/cancel_request") == 2
    assert wire.methods("client").count("session/cancel") == 1


async def test_cancelling_work_that_waits_for_a_permission(driver: Driver, workspace: Path) -> None:
    """V2D3, V2N4: the permission is answered cancelled at once, and the work ends."""
    driver.hold = True
    session = await driver.open(ts_agent("2"), workspace)
    prompt = session.prompt("permission")
    await until(driver.reactor, lambda: bool(driver.asked))
    assert not prompt.over
    session.cancel()
    assert (await prompt).stop_reason == "cancelled"
    await driver.close()
    [answer] = driver.wire().answers("client")
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}


async def test_an_agent_withdraws_its_question(driver: Driver, workspace: Path) -> None:
    """X12, V2D9: the SDK's own $/cancel_request is answered with the outcome cancelled, and the work goes on."""
    driver.hold = True
    session = await driver.open(ts_agent("2"), workspace)
    assert (await session.prompt("withdrawn-permission")).stop_reason == "end_turn"
    assert json.loads(picture(session).messages[-1].text) == {"outcome": "cancelled"}


async def test_background_work_outlives_the_cancellation(driver: Driver, workspace: Path) -> None:
    """V2N1: what the agent lists as background work keeps its question, which is answered while it is idle."""
    driver.hold = True
    session = await driver.open(ts_agent("2"), workspace)
    await session.prompt("background")
    assert picture(session).background == (v2.BackgroundTerminal(terminal_id="terminal2"),)
    slow = session.prompt("slow")
    await slow.accepted
    session.cancel()
    assert (await slow).stop_reason == "cancelled"
    [waiting] = driver.waiting
    assert not waiting.called
    waiting.callback(first_allow(driver.asked[0]))  # type: ignore[arg-type]
    await until(driver.reactor, lambda: picture(session).background == ())
    assert picture(session).messages[-1].text.startswith("background ")
    assert picture(session).foreground == "idle"


async def test_one_tool_call_is_cancelled(driver: Driver, workspace: Path) -> None:
    """V2N11: while the agent says that it can be."""
    session = await driver.open(ts_agent("2"), workspace)
    prompt = session.prompt("cancellable")
    async for update in prompt.updates():
        if isinstance(update, v2.ToolCallUpdate) and session.can_cancel_tool_call(update.tool_call_id):
            assert await session.cancel_tool_call(update.tool_call_id) == v2.CancelToolCallResponse()
    assert (await prompt).stop_reason == "end_turn"
    assert [each.status for each in picture(session).tool_calls] == ["cancelled"]


@ENTRY_POINTS
async def test_the_life_of_a_session(entry: str, driver: Driver, workspace: Path) -> None:
    """2.04, 2.20, V2N10: settings, list, replay, close in the midst of work, and what is unknown afterwards."""
    session = await driver.open(ts_agent("2", entry), workspace)
    await driver.connection.login("token")
    await session.prompt("replace")
    before = [each.text for each in picture(session).messages]
    loud = v2.SessionConfigBoolean(config_id="loud", name="Loud", current_value=True)
    assert (await session.set_config_option("loud", True)).config_options == [loud]
    assert await driver.connection.resume_session(session.session_id, str(workspace), replay=True) is session
    assert [each.text for each in picture(session).messages] == before
    listed = await driver.connection.list_sessions()
    assert [each.session_id for each in listed.sessions] == [session.session_id]
    slow = session.prompt("slow")
    await slow.accepted
    assert await session.close() == v2.CloseSessionResponse()
    assert (await slow).stop_reason == "cancelled"
    again = driver.connection.require_session(session.session_id)
    with pytest.raises(ResourceNotFound):
        await again.prompt("x")
    assert await again.close() == v2.CloseSessionResponse()
    with pytest.raises(MethodNotFound):
        await driver.connection.ext_request("_nothing", {})


async def test_what_our_client_says_fits_the_schema(driver: Driver, workspace: Path) -> None:
    """Each message of ours is valid by the schema that the SDK carries."""
    from jsonschema import Draft202012Validator

    session = await driver.open(ts_agent("2"), workspace)
    for text in ("permission", "elicit", "stream 1"):
        await session.prompt(text)
    await session.set_config_option("loud", False)
    session.cancel()
    await driver.connection.resume_session(session.session_id, str(workspace), replay=True)
    await session.close()
    await driver.close()
    path = peer("ts24").package("@agentclientprotocol/sdk") / "schema" / "v2" / "schema.json"
    definitions = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    kinds = {
        each["x-method"]: name
        for name, each in definitions.items()
        if "x-method" in each and name.endswith(("Request", "Notification"))
    }
    sent = driver.wire().messages("client")
    assert len(sent) > 8
    for message in sent:
        if "method" in message:
            name = kinds[message["method"]]
            validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})
            problems = [each.message for each in validator.iter_errors(message["params"])]
            assert problems == [], name
