"""Which blocking client there is, by the version that was agreed on."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import pytest_twisted
from sync_agent import build
from sync_parts import Memory, program, run, texts, thread, versions

from acp_twisted import (
    AcpClient,
    AcpConnectionError,
    AcpVersionError,
    AgentCommand,
    AgentStartError,
    AuthRequired,
    LimitExceeded,
    RequestTimedOut,
)
from acp_twisted.client.sync import AcpSyncClient as FirstClient
from acp_twisted.client.v2.client import VersionedClient
from acp_twisted.client.v2.sync import AcpSyncClient, AnySyncClient
from acp_twisted.client.v2.sync_negotiation import SyncNegotiation
from acp_twisted.schema import v1, v2

pytestmark = pytest.mark.seconds(120)

if TYPE_CHECKING:
    from typing_extensions import assert_type

    from acp_twisted.client.sync import SyncClientSession as FirstSession
    from acp_twisted.client.sync_turn import SyncPromptTurn
    from acp_twisted.client.v2.sync import SyncClientSession
    from acp_twisted.client.v2.sync_prompt import SyncPrompt

    def check_types(first: AcpClient, client: VersionedClient) -> None:
        """For the type checker: nothing is Any, and the version tells the two apart."""
        one = FirstClient.connect(first, "tcp:localhost:1")
        assert_type(one, FirstClient)
        assert_type(one.new_session("/"), FirstSession)
        assert_type(one.new_session("/").start("x"), SyncPromptTurn)
        assert_type(one.prompt("x"), v1.PromptResponse)
        assert_type(one.unstable.session_status("s"), v1.SessionStatusResponse)
        assert_type(one.unstable.fork_session("s", "/"), FirstSession)
        either = FirstClient.connect(client, "tcp:localhost:1")
        assert_type(either, FirstClient | AcpSyncClient)
        if either.protocol_version == 2:
            assert_type(either, AcpSyncClient)
            session = either.new_session("/")
            assert_type(session, SyncClientSession)
            assert_type(session.start("x"), SyncPrompt)
            assert_type(session.start("x").accepted(), str | None)
            assert_type(session.start("x").result(), v2.IdleStateUpdate)
            assert_type(list(session.start("x")), list[v2.SessionUpdate])
            assert_type(either.unstable.session_status("s"), v2.SessionStatusResponse)
            assert_type(either.unstable.fork_session("s", "/"), SyncClientSession)
        else:
            assert_type(either, FirstClient)
        with either as agent:
            assert_type(agent.prompt("x"), v1.PromptResponse | v2.IdleStateUpdate)
        assert_type(FirstClient.connect(client, "tcp:localhost:1", initialize=False), SyncNegotiation)


def connected(client: Any, agent: Any, **options: Any) -> Any:
    """A client of an agent in memory, and that."""
    memory = Memory(agent)
    return FirstClient.connect(client, memory, thread=thread(), **options), memory


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [((2,), (2,), 2), ((2, 1), (1, 2), 2), ((2, 1), (1,), 1), ((2, 1), (2,), 2), ((1,), (1, 2), 1)],
    ids=str,
)
@pytest_twisted.ensureDeferred
async def test_the_version_that_both_speak(ours: tuple[int, ...], theirs: tuple[int, ...], agreed: int) -> None:
    """2.7: the client has that version's methods, and a script that uses what both have works with either."""

    def script() -> None:
        client, _ = connected(versions(*ours).build(), build(*theirs), cwd="/")
        kinds: dict[int, type[Any]] = {1: FirstClient, 2: AcpSyncClient}
        assert type(client) is kinds[agreed]
        assert client.protocol_version == agreed
        with client as same:
            assert same is client
            assert client.agent_info.name == "sync"
            assert client.agent_capabilities is client.connection.agent_capabilities
            session = client.new_session()
            with session.start("stream 3") as turn:
                assert texts(turn) == ["1", "2", "3"]
            assert turn.result().stop_reason == "end_turn"
            assert client.prompt("stream 1").stop_reason == "end_turn"
            turn = session.start("polite")
            turn.cancel()
            assert turn.result().stop_reason == "cancelled"
            assert client.require_session(session.session_id).session is session.session
            assert len(client.list_sessions().sessions) == 2
            client.close_session(session.session_id)
        with pytest.raises(AcpConnectionError):
            client.new_session()

    await run(script)


@pytest.mark.parametrize("version", [1, 2])
@pytest_twisted.ensureDeferred
async def test_a_flood_that_nobody_reads_holds_up_no_call_of_who_has_to_read(version: int) -> None:
    """Its answer comes behind all of the flood; what is lost by that is no secret, and the turn has its end."""

    def script() -> None:
        with FirstClient.connect(versions(version).build(), program(version), thread=thread()) as client:
            session = client.new_session("/")
            turn = session.start("stream 4000")
            assert client.resume_session(session.session_id, "/").session_id == session.session_id
            with suppress(LimitExceeded):
                assert texts(turn)[-1] == "4000"  # it had not sent many when it answered
            assert turn.result().stop_reason == "end_turn"
            # Another thread waits for its reader, and gets all of it.
            turn, read = session.start("stream 4000"), threading.Event()
            got: list[str] = []

            def reading() -> None:
                for update in turn:
                    read.set()
                    got.extend(texts([update]))

            reader = threading.Thread(target=reading)
            reader.start()
            read.wait()
            client.resume_session(session.session_id, "/")
            reader.join()
            assert got == [str(number + 1) for number in range(4000)]

    await run(script)


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("version", [1, 2])
@pytest_twisted.ensureDeferred
async def test_an_interrupt_while_a_prompt_is_sent(version: int, sent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it was sent or not, nothing is left of it when the exception comes."""

    def script() -> None:
        client, _ = connected(versions(version).build(), build(version))
        with client:
            session = client.new_session("/")
            used = client._thread
            go = used.call

            def interrupted(function: Any) -> None:
                if sent:
                    go(function)
                raise KeyboardInterrupt

            with monkeypatch.context() as patch:
                patch.setattr(used, "call", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    session.start("polite")
            assert session.prompt("stream 1").stop_reason == "end_turn"

    await run(script)


@pytest_twisted.ensureDeferred
async def test_an_agent_of_version_1_is_told_of_what_the_client_can_do_there() -> None:
    """The link whose question could not say so is given up for another, which is the client's."""

    def script() -> None:
        made = versions(2, 1).read_text_file_handler(lambda request: v1.ReadTextFileResponse(content="")).build()
        client, memory = connected(made, build(1))
        assert len(memory.links) == 2
        with client:
            assert client.protocol_version == 1
            assert memory.links[0].a.closed
            assert client.new_session("/").prompt("stream 1").stop_reason == "end_turn"
        assert memory.links[1].a.closed

    await run(script)


@pytest.mark.parametrize(("ours", "theirs"), [((2,), (1,)), ((1,), (2,))], ids=str)
@pytest_twisted.ensureDeferred
async def test_no_version_that_both_speak(ours: tuple[int, ...], theirs: tuple[int, ...]) -> None:
    """2.7: the link is closed, and the script is told."""
    memory = Memory(build(*theirs))

    def script() -> None:
        with pytest.raises(AcpVersionError):
            FirstClient.connect(versions(*ours).build(), memory, thread=thread())

    await run(script)
    assert [link.a.closed for link in memory.links] == [True]


@pytest_twisted.ensureDeferred
async def test_the_question_may_be_put_later() -> None:
    """What connects is not initialized yet, and may be closed instead; whoever comes after it closes the link."""

    def script() -> None:
        link, memory = connected(versions(2, 1).build(), build(2), initialize=False)
        assert isinstance(link, SyncNegotiation)
        client: AnySyncClient = link.initialize(meta={"a": 1}, timeout=60)
        assert client.protocol_version == 2
        client.close()
        link.close()
        assert memory.links[0].a.closed
        link, memory = connected(versions(2, 1).build(), build(2), initialize=False)
        with link:
            assert not memory.links[0].a.closed
        assert memory.links[0].a.closed
        with pytest.raises(AcpConnectionError):
            link.initialize()

    await run(script)


@pytest_twisted.ensureDeferred
async def test_the_question_may_be_put_again() -> None:
    """After an error that has nothing to do with versions."""
    errors: list[Exception] = [AuthRequired()]

    def initialize(request: Any) -> v2.InitializeResponse:
        if errors:
            raise errors.pop()
        capabilities = v2.AgentCapabilities(session=v2.SessionCapabilities())
        return v2.InitializeResponse(
            protocol_version=2, info=v2.Implementation(name="a", version="1"), capabilities=capabilities
        )

    agent = build(2, more=lambda builder: builder.initialize_handler(initialize))

    def script() -> None:
        link, memory = connected(versions(2).build(), agent, initialize=False)
        with link:
            with pytest.raises(AuthRequired):
                link.initialize()
            assert not memory.links[0].a.closed
            with link.initialize() as client:
                assert client.new_session("/").prompt("stream 1").stop_reason == "end_turn"

    await run(script)


@pytest_twisted.ensureDeferred
async def test_a_client_of_version_1_may_be_initialized_later() -> None:
    """As ever."""

    def script() -> None:
        client = FirstClient.connect(AcpClient.builder().build(), Memory(build(1)), initialize=False, thread=thread())
        with client:
            assert client.initialize().protocol_version == 1
            assert client.new_session("/").prompt("stream 1").stop_reason == "end_turn"

    await run(script)


@pytest_twisted.ensureDeferred
async def test_a_program_that_ends_at_once() -> None:
    """It is told as that, and nothing is left."""

    def script() -> None:
        with pytest.raises(AgentStartError):
            FirstClient.connect(versions(2, 1).build(), AgentCommand([sys.executable, "-c", ""]), thread=thread())

    await run(script)


@pytest_twisted.ensureDeferred
async def test_an_agent_that_does_not_answer() -> None:
    """The client's timeout ends the waiting, and the link."""
    silent = AgentCommand([sys.executable, "-c", "import sys; sys.stdin.read()"])

    def script() -> None:
        with pytest.raises(RequestTimedOut):
            FirstClient.connect(versions(2, 1).request_timeout(0.1).build(), silent, thread=thread())

    await run(script)
