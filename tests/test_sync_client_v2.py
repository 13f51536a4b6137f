"""The client of version 2 that blocks, in a thread beside a running reactor."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from sync_agent import Kept, build
from sync_parts import program, run, second, texts, thread, versions
from twisted.internet.defer import Deferred

from acp_twisted import AcpConnectionError, AcpError, CancellationSignal, LimitExceeded, RequestTimedOut
from acp_twisted.client.permissions import Ask
from acp_twisted.client.sync import AcpSyncClient as FirstClient
from acp_twisted.client.sync import in_thread
from acp_twisted.client.v2.sync import AcpSyncClient
from acp_twisted.errors import AcpCapabilityError, ResourceNotFound
from acp_twisted.schema import v2

pytestmark = pytest.mark.seconds(120)


def option(value: Any) -> v2.SessionConfigSelect:
    """A setting."""
    values = [v2.SessionConfigSelectOption(value=each, name=each) for each in ("a", "b")]
    return v2.SessionConfigSelect(config_id="c", name="C", current_value=value, options=values)


def gated(*names: str) -> Kept:
    """An agent's sessions, with these gates."""
    kept = Kept()
    kept.gates.update({name: Deferred() for name in names})
    return kept


def open_gate(kept: Kept, name: str) -> None:
    """From another thread than the reactor's."""
    thread().call(lambda: kept.gates[name].callback(None))


def started() -> AcpSyncClient:
    """A client of the agent's program: what it sends comes later, as on every real link."""
    made = FirstClient.connect(versions(2).build(), program(2), thread=thread())
    assert isinstance(made, AcpSyncClient)
    return made


# ---- what there is


def settings(builder: Any) -> None:
    """What the agent of the first test has besides."""
    builder.set_session_config_option_handler(
        lambda request: v2.SetSessionConfigOptionResponse(config_options=[option(request.value)])
    )
    builder.auth_methods_v2([v2.AuthMethodAgent(method_id="a", name="A")])
    builder.login_handler(lambda request: v2.LoginAuthResponse())
    builder.logout_handler(lambda request: v2.LogoutAuthResponse())


@pytest_twisted.ensureDeferred
async def test_a_script(tmp_path: Path) -> None:
    """Every call once, as a script would (2.30, 2.31)."""

    def script() -> None:
        with second(build(2, more=settings)) as client:
            assert client.protocol_version == 2
            assert client.initialized is not None
            assert client.agent_info is not None
            assert client.agent_info.name == "sync"
            assert client.agent_capabilities.session is not None
            assert [type(each) for each in client.auth_methods] == [v2.AuthMethodAgent]
            assert isinstance(client.login("a"), v2.LoginAuthResponse)
            assert isinstance(client.logout(), v2.LogoutAuthResponse)
            session = client.new_session(str(tmp_path))
            with session.start("stream 3") as prompt:
                assert texts(prompt) == ["1", "2", "3"]
            assert prompt.accepted()
            assert prompt.inserted
            assert prompt.answered
            assert prompt.result().stop_reason == "end_turn"
            assert session.snapshot().messages == ()
            seen: list[v2.SessionUpdate] = []
            assert session.prompt("stream 2", on_update=seen.append).stop_reason == "end_turn"
            assert texts(seen) == ["1", "2"]
            assert [each.text for each in session.snapshot().messages] == ["stream 2", "12"]
            assert session.snapshot().state == "idle"
            assert session.take_updates() == []
            listed = client.list_sessions()
            assert [each.session_id for each in listed.sessions] == [session.session_id]
            request = v2.PromptRequest(session_id=session.session_id, prompt=[v2.TextContent(text="whoami")])
            assert client.prompt(request, on_update=seen.append).stop_reason == "end_turn"
            assert texts(seen)[-1] == session.session_id
            assert isinstance(client.call(v2.ListSessionsRequest()), v2.ListSessionsResponse)
            assert session.set_config_option("c", "b").config_options == [option("b")]
            again = client.resume_session(session.session_id, str(tmp_path), replay=True)
            assert again.session is session.session
            assert client.require_session(session.session_id).session is session.session
            session.close()
            client.close_session(session.session_id)
            client.delete_session(session.session_id)
            with pytest.raises(AcpError) as refused:
                client.ext_request("_none", {})
            assert refused.value.code == -32601
            client.ext_notification("_none")

    await run(script)


@pytest_twisted.ensureDeferred
async def test_a_text_is_enough(tmp_path: Path) -> None:
    """One session is opened for all of them, in the client's directory, whichever threads they come from."""
    kept = Kept()

    def script() -> list[str]:
        seen: list[v2.SessionUpdate] = []
        with second(build(2, kept=kept), cwd=str(tmp_path)) as client:
            threads = [
                threading.Thread(target=lambda: client.prompt("whoami", on_update=seen.append)) for _ in range(3)
            ]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            with pytest.raises(TypeError, match=r"v2\.PromptRequest"):
                client.prompt([v2.TextContent(text="x")])  # type: ignore[arg-type]
        return texts(seen)

    assert set(await run(script)) == {"s1"}
    assert kept.sessions == {"s1": str(tmp_path)}


@pytest_twisted.ensureDeferred
async def test_a_mistake_is_raised_where_it_is_made() -> None:
    """Nothing is sent, and the session goes on."""

    def script() -> None:
        with second(build(2)) as client:
            session = client.new_session("/")
            with pytest.raises(ValueError, match="at least one content block"):
                session.start([])
            with pytest.raises(AcpCapabilityError):
                client.login("a")
            with pytest.raises(AcpCapabilityError):
                session.cancel_tool_call("t")
            with pytest.raises(AcpCapabilityError):
                session.cancel_terminal("w")
            assert session.prompt("stream 1").stop_reason == "end_turn"

    await run(script)


@pytest_twisted.ensureDeferred
async def test_a_tool_call_and_a_terminal_are_cancelled() -> None:
    """V2N11: while the agent says that it takes that."""

    async def prompt(request: v2.PromptRequest, context: Any) -> str:
        stopped: list[Deferred[None]] = [Deferred(), Deferred()]
        context.session.on_stop("terminal", "w", lambda: stopped[1].callback(None))
        await context.send_update(
            v2.TerminalUpdate(
                terminal_id="w", capabilities=v2.TerminalCapabilities(cancel=v2.TerminalCancelCapabilities())
            )
        )
        async with context.tool_call("T", tool_call_id="t", stop=lambda: stopped[0].callback(None)):
            await stopped[0]
        await stopped[1]
        return "end_turn"

    def script() -> str | None:
        with second(_with_prompt(prompt)) as client:
            session = client.new_session("/")
            turn = session.start("go")
            for update in turn:
                if isinstance(update, v2.ToolCallUpdate) and session.can_cancel_tool_call("t"):
                    session.cancel_tool_call("t")
                    assert session.can_cancel_terminal("w")
                    session.cancel_terminal("w")
            return turn.result().stop_reason

    assert await run(script) == "end_turn"


def _with_prompt(prompt: Any) -> Any:
    """An agent of version 2 with this prompt handler."""
    kept = Kept()
    kept.prompt = prompt  # type: ignore[method-assign]
    return build(2, kept=kept)


@pytest_twisted.ensureDeferred
async def test_the_next_end_is_waited_for() -> None:
    """That of foreground work, whoever began it; or so many seconds."""

    def script() -> list[str | None]:
        with second(build(2)) as client:
            session = client.new_session("/")
            with pytest.raises(TimeoutError, match="not idle again"):
                session.when_idle(0.01)
            reasons: list[str | None] = []
            waiting = threading.Thread(target=lambda: reasons.append(session.when_idle().stop_reason))
            waiting.start()
            while waiting.is_alive():  # it may have begun to wait after the first end, or the second
                session.prompt("stream 1")
            return reasons

    assert await run(script) == ["end_turn"]


# ---- several prompts of one session


@pytest_twisted.ensureDeferred
async def test_a_held_prompt() -> None:
    """2.30: it is answered when the work before it is done; then its own is, and each brings its own end."""
    kept = gated("a")

    def script() -> None:
        with second(build(2, kept=kept)) as client:
            session = client.new_session("/")
            first, held = session.start("gate a"), session.start("stream 2")
            assert first.accepted()
            with pytest.raises(TimeoutError, match="not inserted yet"):
                held.accepted(0.01)
            assert (first.inserted, held.inserted) == (True, False)
            assert not first.answered
            open_gate(kept, "a")
            assert held.accepted() not in (None, first.accepted())
            assert texts(held) == ["1", "2"]
            assert [each.result().stop_reason for each in (first, held)] == ["end_turn", "end_turn"]

    await run(script)


@pytest_twisted.ensureDeferred
async def test_a_held_prompt_is_cancelled() -> None:
    """V2D5: by itself it concerns no other; its message never was in the conversation."""
    kept = gated("a")

    def script() -> None:
        with second(build(2, kept=kept)) as client:
            session = client.new_session("/")
            first, held = session.start("gate a"), session.start("stream 2")
            first.accepted()
            held.cancel()
            held.cancel()
            assert held.result().stop_reason == "cancelled"
            with pytest.raises(AcpError):
                held.accepted()
            assert not held.inserted
            assert not first.answered
            open_gate(kept, "a")
            assert first.result().stop_reason == "end_turn"

    await run(script)


@pytest.mark.parametrize("how", ["prompt", "session", "both", "threads"])
@pytest_twisted.ensureDeferred
async def test_work_is_cancelled(how: str) -> None:
    """V2D3, V2D5: held prompts are dropped with it, however often and from wherever it is said; the next one works."""

    def script() -> list[str | None]:
        with second(build(2)) as client:
            session = client.new_session("/")
            first, held = session.start("polite"), session.start("stream 2")
            first.accepted()
            uses = {
                "prompt": [first.cancel],
                "session": [session.cancel],
                "both": [first.cancel, session.cancel, first.cancel],
                "threads": [first.cancel, session.cancel] * 4,
            }[how]
            threads = [threading.Thread(target=use) for use in uses]
            for each in threads:
                each.start()
                if how != "threads":
                    each.join()
            reasons = [first.result().stop_reason, held.result().stop_reason]
            for each in threads:
                each.join()
            first.cancel()
            assert session.prompt("stream 1").stop_reason == "end_turn"
            return reasons

    assert await run(script) == ["cancelled", "cancelled"]


@pytest.mark.parametrize("when", ["before", "within", "after"])
@pytest_twisted.ensureDeferred
async def test_a_signal_from_another_thread(when: str) -> None:
    """It stops the prompt, whose end still comes; after that it is nothing."""

    def script() -> str | None:
        stop = CancellationSignal()
        with second(build(2)) as client:
            session = client.new_session("/")
            if when == "before":
                stop.cancel()
                return session.prompt("polite", stop).stop_reason
            if when == "after":
                reason = session.prompt("stream 1", stop).stop_reason
                stop.cancel()
                assert session.prompt("stream 1").stop_reason == "end_turn"
                return reason
            turn = session.start("polite", stop)
            with pytest.raises(TimeoutError, match="not answered yet"):
                turn.result(0.01)
            threading.Thread(target=stop.cancel).start()
            return turn.result().stop_reason

    assert await run(script) == ("end_turn" if when == "after" else "cancelled")


@pytest_twisted.ensureDeferred
async def test_a_flood_waits_for_its_reader_though_another_prompt_is_held() -> None:
    """Design rule 6: nothing is lost of what is read; what nobody reads holds up nothing, and says that it was lost."""

    def script() -> None:
        with started() as client:
            session = client.new_session("/")
            first, held, last = session.start("stream 3000"), session.start("stream 1"), session.start("stream 2")
            assert texts(first) == [str(number + 1) for number in range(3000)]
            assert held.accepted()
            assert held.result().stop_reason == "end_turn"
            with pytest.raises(LimitExceeded, match="passed before anybody read"):
                list(last)
            assert last.result().stop_reason == "end_turn"

    await run(script)


@pytest_twisted.ensureDeferred
async def test_who_reads_may_wait_for_something_else() -> None:
    """Its own unread updates do not hold up what it waits for; nor does a flood hold up another session's calls."""

    def script() -> None:
        with started() as client:
            session = client.new_session("/")
            turn = session.start("stream 4000")
            for _ in turn:
                after = session.start("stream 1")
                assert after.accepted()  # when all of the flood has passed
                break
            assert after.result().stop_reason == "end_turn"
            turn = session.start("stream 4000")
            assert client.new_session("/").prompt("stream 2").stop_reason == "end_turn"
            session.close()
            assert turn.result().stop_reason in ("end_turn", "cancelled")

    await run(script)


@pytest_twisted.ensureDeferred
async def test_many_threads() -> None:
    """Each with prompts of its own, some in a session of all of them; each reader gets all of its own."""

    def script() -> None:
        with started() as client:
            shared = client.new_session("/")
            wrong: list[object] = []

            def talk(number: int) -> None:
                try:
                    own = client.new_session("/")
                    for _ in range(3):
                        with own.start("stream 20") as turn:
                            if texts(turn) != [str(each + 1) for each in range(20)]:
                                wrong.append(number)
                        reason = shared.prompt("stream 5").stop_reason
                        if (turn.result().stop_reason, reason) != ("end_turn", "end_turn"):
                            wrong.append(number)
                except Exception as error:
                    wrong.append(error)

            threads = [threading.Thread(target=talk, args=(number,)) for number in range(6)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            assert wrong == []

    await run(script)


# ---- handlers


@pytest_twisted.ensureDeferred
async def test_a_permission_is_asked_for_in_a_thread() -> None:
    """In the words of version 2."""
    asked: list[Any] = []

    def think(request: Any) -> bool:
        asked.append((type(request), threading.current_thread() is threading.main_thread()))
        return True

    client = versions(2).request_permission_handler(Ask(in_thread(think))).build()

    def script() -> list[str]:
        with second(build(2), client) as used:
            seen: list[Any] = []
            used.prompt("ask", on_update=seen.append)
            return texts(seen)

    assert await run(script) == ["True"]
    assert asked == [(v2.RequestPermissionRequest, False)]


@pytest_twisted.ensureDeferred
async def test_a_cancellation_waits_for_no_handler() -> None:
    """V2D3: the open permission request is answered at once; what its handler says later is dropped."""
    asked, released = threading.Event(), threading.Event()

    def think(request: Any) -> bool:
        asked.set()
        released.wait()
        return True

    client = versions(2).request_permission_handler(Ask(in_thread(think))).build()

    def script() -> str | None:
        with second(build(2), client) as used:
            session = used.new_session("/")
            turn = session.start("ask")
            asked.wait()
            session.cancel()
            reason = turn.result().stop_reason
            released.set()
            assert session.prompt("stream 1").stop_reason == "end_turn"
            return reason

    assert await run(script) == "cancelled"


# ---- the end


@pytest_twisted.ensureDeferred
async def test_an_error_in_the_block_cancels_the_prompt() -> None:
    """The agent does not work on for nobody."""

    def script() -> None:
        with second(build(2)) as client:
            session = client.new_session("/")
            with pytest.raises(ZeroDivisionError), session.start("polite") as turn:
                raise ZeroDivisionError
            assert turn.result().stop_reason == "cancelled"
            with pytest.raises(ZeroDivisionError):
                session.prompt("polite", on_update=lambda update: 1 / 0)
            assert session.prompt("stream 1").stop_reason == "end_turn"

    await run(script)


@pytest_twisted.ensureDeferred
async def test_a_prompt_is_given_up() -> None:
    """Its timeout, in seconds; a prompt that is refused; both are raised by everything that waits for it."""

    def refuse(request: v2.PromptRequest) -> None:
        if request.prompt == [v2.TextContent(text="no")]:
            raise ResourceNotFound()

    def script() -> None:
        with second(build(2, more=lambda builder: builder.accept_prompt_handler(refuse))) as client:
            with pytest.raises(RequestTimedOut):
                client.new_session("/").prompt("hang", timeout=0.01)
            turn = client.new_session("/").start("no")
            for wait in (turn.accepted, turn.result):
                with pytest.raises(ResourceNotFound):
                    wait()
            assert list(turn) == []

    await run(script)


@pytest.mark.parametrize("wait", ["accepted", "result", "updates", "idle"])
@pytest_twisted.ensureDeferred
async def test_a_close_ends_what_another_thread_waits_for(wait: str) -> None:
    """Whatever it is; closing again is nothing."""
    kept = gated("a")

    def script() -> list[Any]:
        client = second(build(2, kept=kept))
        session = client.new_session("/")
        session.start("gate a").accepted()
        turn = session.start("polite")
        waits: dict[str, Any] = {
            "accepted": turn.accepted,
            "result": turn.result,
            "updates": lambda: (list(turn), turn.result()),
            "idle": session.when_idle,
        }
        outcomes: list[Any] = []

        def waiting() -> None:
            try:
                outcomes.append(waits[wait]())
            except AcpError as error:
                outcomes.append(error)

        other = threading.Thread(target=waiting)
        other.start()
        client.close()
        client.close()
        other.join()
        for each in (turn.accepted, turn.result, lambda: client.new_session("/")):
            with pytest.raises(AcpConnectionError):
                each()
        return outcomes

    [outcome] = await run(script)
    assert isinstance(outcome, AcpConnectionError)


@pytest_twisted.ensureDeferred
async def test_a_session_is_closed_during_its_prompts() -> None:
    """V2N10: inserted ones end as cancelled; the connection goes on."""

    def script() -> str | None:
        with second(build(2)) as client:
            session = client.new_session("/")
            turn = session.start("polite")
            turn.accepted()
            session.close()
            assert client.new_session("/").prompt("stream 1").stop_reason == "end_turn"
            return turn.result().stop_reason

    assert await run(script) == "cancelled"


@pytest_twisted.ensureDeferred
async def test_an_agent_that_dies() -> None:
    """Everything that waits, and all that comes later, is told of the lost connection."""

    def script() -> None:
        with started() as client:
            session = client.new_session("/")
            turn = session.start("exit")
            list(turn)
            for each in (turn.result, lambda: session.prompt("stream 1"), client.list_sessions):
                with pytest.raises(AcpConnectionError):
                    each()
            turn.cancel()

    await run(script)


def test_the_reactors_own_thread_can_not_wait() -> None:
    """It would wait for itself for ever."""
    with pytest.raises(RuntimeError, match="must not"):
        FirstClient.connect(versions(2).build(), program(2), thread=thread())
