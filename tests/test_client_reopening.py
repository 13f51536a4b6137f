"""
The sessions of a connection that was lost, opened again on the next one; and nothing else done again (B63).
"""

from __future__ import annotations

from typing import Any

import pytest
from service_fakes import FakeClientEndpoint, ScriptedPeer
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from wire import failure, no_result, success

from acp_twisted import AcpClient, AcpConnectionError
from acp_twisted.service import ClientService

LOADS: dict[str, Any] = {"loadSession": True}
RESUMES: dict[str, Any] = {"sessionCapabilities": {"resume": {}}}


class Agent(ScriptedPeer):
    """
    One that makes sessions, and knows those of before.

    @ivar refused: the sessions that it does not know.
    @ivar silent: whether it leaves it at the question how to open one again.
    """

    def __init__(
        self,
        capabilities: dict[str, Any] | None = None,
        *,
        version: int = 1,
        refused: tuple[str, ...] = (),
        silent: bool = False,
    ) -> None:
        super().__init__(version, mute=True)
        self.capabilities = capabilities or {}
        self.refused = refused
        self.silent = silent
        self.made = 0

    def take(self, data: bytes) -> None:
        before = len(self.received)
        super().take(data)
        for message in self.received[before:]:
            self.serve(message)

    def serve(self, message: dict[str, Any]) -> None:
        """Answer one."""
        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            self.answer(message, result=self.hello())
        elif method == "session/new":
            self.made += 1
            self.answer(message, result={"sessionId": f"s{self.made}"})
        elif method in ("session/load", "session/resume") and not self.silent:
            if params["sessionId"] in self.refused:
                self.answer(message, error={"code": -32002, "message": "who?"})
                return
            if method == "session/load" or params.get("replayFrom"):
                chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "before"}}
                if self.version == 2:
                    chunk["messageId"] = "m"
                update = {"sessionId": params["sessionId"], "update": chunk}
                self.say({"jsonrpc": "2.0", "method": "session/update", "params": update})
            self.answer(message, result={})
        elif method == "session/close":
            self.answer(message, result={})

    def hello(self) -> dict[str, Any]:
        """What it answers to initialize."""
        if self.version == 1:
            return {"protocolVersion": 1, "agentCapabilities": self.capabilities}
        return {
            "protocolVersion": 2,
            "info": {"name": "a", "version": "1"},
            "capabilities": self.capabilities or {"session": {}},
        }

    def answer(self, message: dict[str, Any], **what: Any) -> None:
        """Its answer."""
        self.say({"jsonrpc": "2.0", "id": message["id"], **what})

    @property
    def opened_again(self) -> list[tuple[str, dict[str, Any]]]:
        """How it was asked for sessions of before."""
        asked = [each for each in self.received if each.get("method") in ("session/load", "session/resume")]
        return [(each["method"], each["params"]) for each in asked]


class Kept:
    """
    A service on a clock that tries again every second.
    """

    def __init__(self, *agents: Agent, versions: tuple[int, ...] = (1,), **options: Any) -> None:
        self.clock = Clock()
        self.said: list[str] = []
        builder = AcpClient.builder().client_info("c", "1").track_sessions()
        client: Any = builder.protocol_versions(*versions).build() if 2 in versions else builder.build()
        endpoint = FakeClientEndpoint(*agents)
        self.service = ClientService(client, endpoint, self.clock, retry_policy=lambda _: 1.0, **options)
        self.service.startService()

    def connection(self) -> Any:
        """The connection that there is."""
        return success(self.service.when_connected())

    def again(self, agent: Agent) -> None:
        """The connection is lost; the next attempt is made."""
        agent.hang_up()
        self.clock.advance(1.0)

    def stop(self) -> None:
        """The service ends, and leaves no timer."""
        success(self.service.stopService())
        assert self.clock.getDelayedCalls() == []


def open_three(kept: Kept) -> None:
    """Three sessions, of which the second is closed again."""
    connection = kept.connection()
    success(connection.new_session("/one", additional_directories=["/more"]))
    second = success(connection.new_session("/two"))
    success(connection.new_session("/three"))
    success(second.close())


@pytest.mark.parametrize(
    ("offered", "how", "method"),
    [
        (LOADS, "load", "session/load"),
        (RESUMES, "load", "session/resume"),
        ({**LOADS, **RESUMES}, "load", "session/load"),
        ({**LOADS, **RESUMES}, "resume", "session/resume"),
        (LOADS, "resume", "session/load"),
    ],
)
def test_what_was_open_is_opened_again(offered: dict[str, Any], how: str, method: str) -> None:
    """
    As the agent offers it, with the directory that it was opened in; what was closed is not, and a prompt is not
    sent again.
    """
    close: dict[str, Any] = {"close": {}, "additionalDirectories": {}}
    capabilities = {**offered, "sessionCapabilities": {**offered.get("sessionCapabilities", {}), **close}}
    agents = [Agent(capabilities) for _ in range(3)]
    kept = Kept(*agents, reopen=how)
    open_three(kept)
    turn = kept.connection().session("s1").prompt("hello")
    kept.again(agents[0])
    failure(turn.response, AcpConnectionError)
    connection = kept.connection()
    told: dict[str, Any] = {"mcpServers": []}
    assert agents[1].opened_again == [
        (method, {"sessionId": "s1", "cwd": "/one", "additionalDirectories": ["/more"], **told}),
        (method, {"sessionId": "s3", "cwd": "/three", **told}),
    ]
    assert list(connection.sessions) == ["s1", "s3"]
    messages = connection.session("s1").state.snapshot().messages
    assert [each.text for each in messages] == (["before"] if method == "session/load" else [])
    kept.again(agents[1])  # and so on, from a connection that opened none itself
    assert [params["sessionId"] for _, params in agents[2].opened_again] == ["s1", "s3"]
    assert not [each for agent in agents[1:] for each in agent.received if each.get("method") == "session/prompt"]
    kept.stop()


def test_in_version_2() -> None:
    """session/resume with a replay, or without."""
    for how in ("load", "resume"):
        agents = [Agent(version=2) for _ in range(2)]
        kept = Kept(*agents, versions=(2, 1), reopen=how)
        success(kept.connection().new_session("/one"))
        kept.again(agents[0])
        [(method, params)] = agents[1].opened_again
        assert (method, params["sessionId"], params["cwd"]) == ("session/resume", "s1", "/one")
        assert ("replayFrom" in params) == (how == "load")
        assert list(kept.connection().sessions) == ["s1"]
        kept.stop()


def test_an_agent_that_speaks_another_version_now() -> None:
    """The sessions are over: their servers were named in other words."""
    agents = [Agent(version=2), Agent(LOADS)]
    kept = Kept(*agents, versions=(2, 1))
    success(kept.connection().new_session("/one"))
    with capturedLogs() as logged:
        kept.again(agents[0])
        assert kept.connection().protocol_version == 1
    assert agents[1].opened_again == []
    assert any("s1 is over" in (formatEvent(each) or "") for each in logged)
    kept.stop()


def test_none_is_opened_where_nothing_is_offered_or_wanted() -> None:
    """Without a capability nothing is sent; nor with reopen=None."""
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [({}, {}), (LOADS, {"reopen": None})]
    for capabilities, options in cases:
        agents = [Agent(capabilities), Agent(capabilities)]
        kept = Kept(*agents, **options)
        success(kept.connection().new_session("/one"))
        kept.again(agents[0])
        assert dict(kept.connection().sessions) == {}
        assert agents[1].opened_again == []
        kept.stop()
    with pytest.raises(ValueError, match="neither 'load' nor 'resume' nor None"):
        Kept(Agent(), reopen="replay")


def test_one_that_is_refused_is_given_up() -> None:
    """The others are opened, the connection is handed out, and the next one does not ask for it again."""
    agents = [Agent(LOADS), Agent(LOADS, refused=("s1",)), Agent(LOADS)]
    kept = Kept(*agents)
    for cwd in ("/one", "/two"):
        success(kept.connection().new_session(cwd))
    with capturedLogs() as logged:
        kept.again(agents[0])
    assert list(kept.connection().sessions) == ["s2"]
    assert [formatEvent(each) for each in logged if "over" in (formatEvent(each) or "")] == [
        "session s1 is over: who? (-32002)"
    ]
    kept.again(agents[1])
    assert [params["sessionId"] for _, params in agents[2].opened_again] == ["s2"]
    kept.stop()


def test_one_that_cannot_even_be_asked_for_is_given_up() -> None:
    """The agent that came back takes no further directories: nothing is sent, and the attempt is none the worse."""
    agents = [Agent({"sessionCapabilities": {"additionalDirectories": {}}, **LOADS}), Agent(LOADS)]
    kept = Kept(*agents)
    success(kept.connection().new_session("/one", additional_directories=["/more"]))
    kept.again(agents[0])
    assert dict(kept.connection().sessions) == {}
    assert agents[1].opened_again == []
    kept.stop()


def test_a_connection_that_is_lost_meanwhile() -> None:
    """It was never handed out, and the one after it has all of the sessions."""
    agents = [Agent(LOADS), Agent(LOADS, silent=True), Agent(LOADS)]
    kept = Kept(*agents)
    success(kept.connection().new_session("/one"))
    kept.again(agents[0])
    waiting = kept.service.when_connected()
    no_result(waiting)
    assert len(agents[1].opened_again) == 1
    kept.again(agents[1])
    assert list(success(waiting).sessions) == ["s1"]
    kept.stop()


def test_what_prepare_has_opened_is_not_opened_again() -> None:
    """prepare comes first."""
    connections: list[Any] = []

    async def prepare(connection: Any) -> None:
        connections.append(connection)
        if len(connections) == 2:
            await connection.load_session("s1", cwd="/elsewhere")

    agents = [Agent(LOADS), Agent(LOADS)]
    kept = Kept(*agents, prepare=prepare)
    success(kept.connection().new_session("/one"))
    kept.again(agents[0])
    assert list(kept.connection().sessions) == ["s1"]
    assert agents[1].opened_again == [("session/load", {"sessionId": "s1", "cwd": "/elsewhere", "mcpServers": []})]
    kept.stop()


def test_a_service_that_stops_meanwhile() -> None:
    """Rule 5: what is being opened is given up, and nothing is left; a new start begins with nothing."""
    agents = [Agent(LOADS), Agent(LOADS, silent=True), Agent(LOADS)]
    kept = Kept(*agents)
    success(kept.connection().new_session("/one"))
    kept.again(agents[0])
    kept.stop()
    kept.service.startService()
    assert dict(kept.connection().sessions) == {}
    kept.stop()
