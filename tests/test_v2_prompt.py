"""Prompts of version 2 as a client has them: accepted, worked on, done; and everything that can happen in between."""

from __future__ import annotations

from typing import Any

import pytest
from halves_v2 import CANCEL, RUNNING, ClientHalf, Watched, idle, said, state, update, user
from twisted.internet.defer import Deferred

from acp_twisted import AcpClient, CancellationSignal
from acp_twisted.client.v2.client import VersionedClient
from acp_twisted.errors import (
    AcpConnectionError,
    AcpError,
    InternalError,
    LimitExceeded,
    RequestCancelled,
    RequestTimedOut,
)
from acp_twisted.limits import Limits
from acp_twisted.schema import v2


def client(**more: Any) -> VersionedClient:
    """A client of version 2."""
    builder = AcpClient.builder().protocol_versions(2)
    for name, value in more.items():
        getattr(builder, name)(*value) if isinstance(value, tuple) else getattr(builder, name)(value)
    return builder.build()


def half(**more: Any) -> ClientHalf:
    """One with a session."""
    return ClientHalf(client(**more))


def cancel_request(number: Any) -> dict[str, Any]:
    """$/cancel_request."""
    return {"method": "$/cancel_request", "params": {"requestId": number}}


def test_a_prompt_is_accepted_and_then_worked_on() -> None:
    """2.30: the answer is the message's id; the work ends with idle and its stop reason."""
    talk = half()
    prompt = talk.session.prompt("hi")
    accepted, done = Watched(prompt.accepted), Watched(prompt.idle)
    [sent] = talk.take()
    assert sent["params"]["prompt"] == [{"type": "text", "text": "hi"}]
    talk.accept(sent["id"])
    assert accepted.value == "m1"
    talk.send(user(), RUNNING, said("a"))
    assert not done.over
    assert list(talk.session.prompts) == [prompt]
    talk.send(idle("end_turn"))
    assert done.value == v2.IdleStateUpdate(stop_reason="end_turn")
    assert prompt.over
    assert talk.session.prompts == ()


def test_the_answer_may_come_after_the_work() -> None:
    """The update with the message may precede the answer; if the work is over by then, so is the prompt."""
    talk = half()
    prompt = talk.session.prompt("hi")
    accepted, done = Watched(prompt.accepted), Watched(prompt.idle)
    [sent] = talk.take()
    talk.send(RUNNING, user(), said("a"), idle("refusal"))
    assert not done.over
    talk.accept(sent["id"])
    assert (accepted.value, done.value.stop_reason) == ("m1", "refusal")


def test_work_that_ended_before_the_message_was_inserted_is_not_its_own() -> None:
    """A prompt that is held while the agent works ends with its own work, not with that before."""
    talk = half()
    talk.send(RUNNING)
    prompt = talk.session.prompt("hi")
    done = Watched(prompt.idle)
    [sent] = talk.take()
    talk.send(idle("end_turn"))
    talk.accept(sent["id"])
    assert not done.over
    talk.send(user(), RUNNING)
    assert not done.over
    talk.send(idle("max_tokens"))
    assert done.value.stop_reason == "max_tokens"


def test_a_repeated_idle_ends_nothing() -> None:
    """2.33: a snapshot that repeats the last stop reason is no new completion."""
    talk = half()
    talk.send(RUNNING, idle("end_turn"))
    prompt = talk.session.prompt("hi")
    done = Watched(prompt.idle)
    talk.accept(talk.last_id())
    talk.send(idle("end_turn", background=[]))
    assert not done.over
    talk.send(RUNNING, idle("end_turn"))
    assert done.over


@pytest.mark.parametrize("busy", ["requires_action", "_pondering"])
def test_every_state_but_idle_is_work(busy: str) -> None:
    """2.34, 2.90: waiting for the user, or a state that nobody knows, is not idle."""
    talk = half()
    prompt = talk.session.prompt("hi")
    done = Watched(prompt.idle)
    talk.accept(talk.last_id())
    talk.send(state(busy))
    assert not done.over
    assert talk.session.foreground.state == busy
    talk.send(idle())
    assert done.value.stop_reason is None


def test_a_session_takes_any_number_of_prompts() -> None:
    """Prompts may be sent while the agent works; it inserts them when it likes, and each ends with its work."""
    talk = half()
    prompts = [talk.session.prompt(name) for name in "abc"]
    done = [Watched(each.idle) for each in prompts]
    ids = [each["id"] for each in talk.take()]
    talk.accept(ids[0], "a")
    talk.send(RUNNING)
    talk.accept(ids[1], "b")  # into the work that is under way
    talk.send(idle("end_turn"))
    assert [each.over for each in done] == [True, True, False]
    talk.accept(ids[2], "c")
    talk.send(RUNNING, idle("refusal"))
    assert [each.value.stop_reason for each in done] == ["end_turn", "end_turn", "refusal"]


def test_a_refused_prompt_fails() -> None:
    """An error says that the message was not inserted: both Deferreds fail with it."""
    talk = half()
    prompt = talk.session.prompt("hi")
    accepted, done = Watched(prompt.accepted), Watched(prompt.idle)
    talk.refuse(-32603)
    assert isinstance(accepted.value, InternalError)
    assert done.value is accepted.value
    assert talk.session.prompts == ()


def test_an_agent_that_gives_no_id() -> None:
    """The drafts before September 2026 accept with an empty answer."""
    talk = half()
    prompt = talk.session.prompt("hi")
    accepted, done = Watched(prompt.accepted), Watched(prompt.idle)
    talk.answer({})
    talk.send(RUNNING, idle("end_turn"))
    assert (accepted.value, done.value.stop_reason) == (None, "end_turn")


def test_a_failure_of_the_agent_is_a_stop_reason() -> None:
    """V2N13: after insertion there is no error but the one in the report."""
    talk = half()
    prompt = talk.session.prompt("hi")
    done = Watched(prompt.idle)
    talk.accept(talk.last_id())
    talk.send(RUNNING, idle("error", error={"code": -32603, "message": "no model"}))
    assert done.value == v2.IdleStateUpdate(stop_reason="error", error=v2.Error(code=-32603, message="no model"))


def test_an_empty_prompt_is_not_sent() -> None:
    """2.38."""
    talk = half()
    with pytest.raises(ValueError, match="content block"):
        talk.session.prompt([])
    assert talk.take() == []


def test_awaiting_a_prompt_is_awaiting_its_end() -> None:
    """In a coroutine, with the id at hand at once when the prompt ends before its answer."""
    talk = half()
    found: list[Any] = []

    async def run() -> None:
        prompt = talk.session.prompt("hi")
        report = await prompt
        found.append((report.stop_reason, await prompt.accepted))

    Deferred.fromCoroutine(run())
    [sent] = talk.take()
    talk.send(user(), RUNNING, idle("end_turn"))
    talk.accept(sent["id"])
    assert found == [("end_turn", "m1")]


# ---- updates


def test_a_prompt_reads_its_updates() -> None:
    """From its sending to its end."""
    talk = half()
    talk.send(said("before"))
    prompt = talk.session.prompt("hi")
    found: list[str] = []

    async def run() -> None:
        found.extend([type(each).__name__ async for each in prompt.updates()])

    reading = Watched(Deferred.fromCoroutine(run()))
    talk.accept(talk.last_id())
    talk.send(user(), RUNNING, said("a"), idle())
    talk.send(said("after"))
    assert reading.over
    assert found == ["UserMessage", "RunningStateUpdate", "AgentMessageChunk", "IdleStateUpdate"]
    assert [type(each).__name__ for each in talk.session.take_updates()] == ["AgentMessageChunk"] * 2


def test_a_slow_reader_holds_the_agent_up() -> None:
    """Design rule 6: the agent is slowed down to the reader's pace, and a reader that leaves frees it."""
    talk = half(limits=Limits(max_turn_updates=2))
    prompt = talk.session.prompt("hi")
    told: list[Any] = []
    talk.session.on_update(told.append)
    reader = prompt.updates()
    first = Watched(Deferred.fromCoroutine(reader.__anext__()))  # type: ignore[arg-type]
    talk.send(*(said(str(number)) for number in range(9)))
    assert first.over
    assert len(told) == 4
    Deferred.fromCoroutine(reader.aclose())  # type: ignore[attr-defined]
    assert len(told) == 9


def test_updates_that_nobody_reads_are_bounded() -> None:
    """Design rule 6: they are dropped, and a late reader is told."""
    talk = half(limits=Limits(max_turn_updates=2))
    prompt = talk.session.prompt("hi")
    talk.send(*(said(str(number)) for number in range(9)))
    reading = Watched(Deferred.fromCoroutine(prompt.updates().__anext__()))  # type: ignore[arg-type]
    assert isinstance(reading.value, LimitExceeded)


def test_everybody_is_told_of_an_update_before_the_prompt_ends() -> None:
    """The listeners have seen the report when C{idle} fires; a slow listener holds up the next update."""
    told: list[str] = []
    talk = half(session_update_handler=lambda note: told.append(f"client {type(note.update).__name__}"))
    wait: Deferred[None] = Deferred()
    talk.session.on_update(lambda each: wait if isinstance(each, v2.AgentMessageChunk) else told.append("session"))
    prompt = talk.session.prompt("hi")
    prompt.idle.addCallback(lambda report: told.append("idle"))
    talk.accept(talk.last_id())
    talk.send(RUNNING, said("a"), idle())
    assert told == ["session", "client RunningStateUpdate", "client AgentMessageChunk"]
    wait.callback(None)
    assert told[3:] == ["session", "client IdleStateUpdate", "idle"]


def test_when_idle_is_for_whoever_waits() -> None:
    """Work that the agent began by itself ends too; giving up waiting sends nothing."""
    talk = half()
    waiting, other = talk.session.when_idle(), Watched(talk.session.when_idle())
    waiting.addErrback(lambda failure: None)
    waiting.cancel()
    talk.send(idle("end_turn"))
    assert not other.over
    talk.send(RUNNING, idle("end_turn"))
    assert other.value.stop_reason == "end_turn"
    assert talk.take() == []


def test_who_waits_once_a_prompt_is_over_waits_for_the_next_end_of_work() -> None:
    """The end that the prompt was just told of is not told again, as it would be to who asks from within that."""
    talk = half()
    prompt = talk.session.prompt("hi")
    waiting: list[Watched] = []
    prompt.idle.addCallback(lambda _: waiting.append(Watched(talk.session.when_idle())))
    talk.accept(talk.last_id())
    talk.send(user(), RUNNING, idle("end_turn"))
    [told] = waiting
    assert not told.over
    talk.send(RUNNING, idle("refusal"))
    assert told.value.stop_reason == "refusal"


# ---- giving up


def test_cancelling_the_answer_withdraws_the_prompt() -> None:
    """V2D7, X1: before it is inserted, cancelling the Deferred sends $/cancel_request once; both end at once."""
    talk = half()
    prompt = talk.session.prompt("hi")
    accepted, done = Watched(prompt.accepted), Watched(prompt.idle)
    [sent] = talk.take()
    prompt.accepted.cancel()
    prompt.accepted.cancel()
    prompt.cancel()
    assert talk.take() == [cancel_request(sent["id"])]
    assert isinstance(accepted.value, RequestCancelled)
    assert isinstance(done.value, RequestCancelled)
    talk.accept(sent["id"])  # too late for both sides; it is dropped
    talk.send(RUNNING, idle("end_turn"))


def test_stopping_a_prompt_that_waits_concerns_no_other() -> None:
    """V2D1, V2N9: $/cancel_request, no session/cancel; -32800 counts as cancelled, and the other prompt goes on."""
    talk = half()
    first, second = talk.session.prompt("a"), talk.session.prompt("b")
    done = [Watched(first.idle), Watched(second.idle)]
    accepted = Watched(second.accepted)
    ids = [each["id"] for each in talk.take()]
    talk.accept(ids[0])
    talk.send(RUNNING)
    second.cancel()
    second.cancel()
    assert talk.take() == [cancel_request(ids[1])]
    talk.send({"id": ids[1], "error": {"code": -32800, "message": "Request cancelled"}})
    assert isinstance(accepted.value, RequestCancelled)
    assert done[1].value.stop_reason == "cancelled"
    assert isinstance(second.error, RequestCancelled)
    assert not done[0].over
    talk.send(idle("end_turn"))
    assert done[0].value.stop_reason == "end_turn"


def test_stopping_a_prompt_that_was_inserted_meanwhile() -> None:
    """V2D8, X12: the answer is the message's id in spite of the cancellation, so session/cancel follows."""
    talk = half()
    prompt = talk.session.prompt("hi")
    done = Watched(prompt.idle)
    [sent] = talk.take()
    prompt.cancel()
    assert talk.take() == [cancel_request(sent["id"])]
    talk.accept(sent["id"])
    assert talk.take() == [CANCEL]
    talk.send(RUNNING, idle("cancelled"))
    assert done.value.stop_reason == "cancelled"


def test_stopping_a_prompt_that_is_inserted() -> None:
    """V2D8, V2S1: session/cancel alone, once; the updates and the report still come."""
    talk = half()
    prompt = talk.session.prompt("hi")
    done = Watched(prompt.idle)
    talk.accept(talk.last_id())
    talk.send(RUNNING)
    talk.take()
    prompt.cancel()
    prompt.cancel()
    assert talk.take() == [CANCEL]
    talk.send(said("last words"), idle("cancelled"))
    assert done.value.stop_reason == "cancelled"
    prompt.cancel()
    assert talk.take() == []


def test_cancelling_the_end_stops_the_work() -> None:
    """What a coroutine that awaits the prompt does when it is cancelled: the work stops, and this ends at once."""
    talk = half()
    prompt = talk.session.prompt("hi")
    done = Watched(prompt.idle)
    talk.accept(talk.last_id())
    talk.take()
    prompt.idle.cancel()
    assert talk.take() == [CANCEL]
    assert isinstance(done.value, RequestCancelled)
    talk.send(RUNNING, idle("cancelled"))
    assert talk.session.prompts == ()
    assert not talk.session.stopping


def test_cancelling_the_end_before_the_answer_withdraws() -> None:
    """X1: the same before insertion is $/cancel_request."""
    talk = half()
    prompt = talk.session.prompt("hi")
    accepted, done = Watched(prompt.accepted), Watched(prompt.idle)
    [sent] = talk.take()
    prompt.idle.cancel()
    assert talk.take() == [cancel_request(sent["id"])]
    assert isinstance(accepted.value, RequestCancelled)
    assert isinstance(done.value, RequestCancelled)


@pytest.mark.parametrize("inserted", [False, True])
def test_a_signal_stops_a_prompt(inserted: bool) -> None:
    """JC: with a signal the caller still gets the end, which is cancelled; a signal given before stops at once."""
    talk = half()
    stop = CancellationSignal()
    prompt = talk.session.prompt("hi", stop)
    done = Watched(prompt.idle)
    [sent] = talk.take()
    if inserted:
        talk.accept(sent["id"])
        talk.send(RUNNING)
    stop.cancel()
    stop.cancel()
    if inserted:
        assert talk.take() == [CANCEL]
        talk.send(idle("cancelled"))
    else:
        assert talk.take() == [cancel_request(sent["id"])]
        talk.send({"id": sent["id"], "error": {"code": -32800, "message": "m"}})
    assert done.value.stop_reason == "cancelled"
    late = talk.session.prompt("again", stop)
    assert [each["method"] for each in talk.take()] == ["session/prompt", "$/cancel_request"]
    assert not late.over


def test_a_signal_is_let_go_with_the_prompt() -> None:
    """Nothing of a finished prompt stays with the signal."""
    talk = half()
    stop = CancellationSignal()
    talk.session.prompt("hi", stop)
    talk.accept(talk.last_id())
    talk.send(RUNNING, idle())
    assert not stop._token._callbacks
    talk.take()
    stop.cancel()
    assert talk.take() == []


def test_a_prompt_that_takes_too_long_is_withdrawn() -> None:
    """P7: the prompt's timeout is that of the whole; before insertion it sends $/cancel_request."""
    talk = half(prompt_timeout=5)
    prompt = talk.session.prompt("hi")
    accepted, done = Watched(prompt.accepted), Watched(prompt.idle)
    [sent] = talk.take()
    talk.clock.advance(5)
    assert talk.take() == [cancel_request(sent["id"])]
    assert isinstance(accepted.value, RequestTimedOut)
    assert done.value is accepted.value


def test_work_that_takes_too_long_is_cancelled() -> None:
    """P7: after insertion it sends session/cancel, and the prompt ends at once; no timer is left."""
    talk = half()
    prompt = talk.session.prompt("hi", timeout=5)
    done = Watched(prompt.idle)
    talk.clock.advance(3)
    talk.accept(talk.last_id())
    talk.take()
    talk.clock.advance(1)
    assert talk.take() == []
    talk.clock.advance(1)
    assert talk.take() == [CANCEL]
    assert isinstance(done.value, RequestTimedOut)
    assert talk.clock.getDelayedCalls() == []


def test_a_prompt_that_is_done_in_time_leaves_no_timer() -> None:
    """Design rule 8."""
    talk = half()
    talk.session.prompt("hi", timeout=5)
    talk.accept(talk.last_id())
    talk.send(RUNNING, idle())
    assert talk.clock.getDelayedCalls() == []


def test_the_request_timeout_is_not_for_prompts() -> None:
    """P7: a held prompt may wait for hours."""
    talk = half()
    prompt = talk.session.prompt("hi")
    talk.take()
    talk.clock.advance(100_000)
    assert talk.take() == []
    assert not prompt.over


def test_a_lost_connection_ends_every_prompt() -> None:
    """P5: accepted or not, each Deferred fails once, and so does who waits for idle."""
    talk = half()
    first, second = talk.session.prompt("a"), talk.session.prompt("b")
    outcomes = [Watched(each) for each in (first.idle, second.accepted, second.idle, talk.session.when_idle())]
    talk.accept(talk.take()[0]["id"])
    talk.lose()
    assert all(isinstance(each.value, AcpConnectionError) for each in outcomes)
    assert talk.session.prompts == ()
    late = Watched(talk.session.when_idle())
    assert isinstance(late.value, AcpConnectionError)
    refused = talk.session.prompt("c")
    assert isinstance(Watched(refused.idle).value, AcpConnectionError)


def test_who_listens_to_nothing_finds_no_error_in_his_log() -> None:
    """B77: a refused prompt whose Deferreds nobody looks at is no unhandled error."""
    talk = half()
    talk.session.prompt("hi")
    talk.refuse(-32000)
    talk.session.prompt("hi")
    talk.lose()


def test_names_of_many_messages_are_not_kept_for_ever() -> None:
    """Design rule 6: what an agent reports while a prompt waits is bounded."""
    talk = half(limits=Limits(max_early_updates=3))
    talk.session.prompt("hi")
    talk.send(*(user(f"m{number}") for number in range(9)))
    talk.send(*(update("tool_call_update", toolCallId=str(n), capabilities={"cancel": {}}) for n in range(9)))
    assert len(talk.session._reported) == 3
    assert len(talk.session._cancellable_calls) == 3
    talk.accept(talk.last_id(), "m8")
    assert len(talk.session._reported) == 0


def test_an_error_after_a_cancellation_is_one() -> None:
    """B07: an agent that answers a cancelled prompt with another error has it counted as cancelled."""
    talk = half()
    prompt = talk.session.prompt("hi")
    done = Watched(prompt.idle)
    talk.session.cancel()
    talk.send({"id": talk.take()[0]["id"], "error": {"code": -32603, "message": "aborted"}})
    assert done.value.stop_reason == "cancelled"
    assert isinstance(prompt.error, AcpError)


@pytest.mark.parametrize("reaction", ["prompt", "cancel"])
def test_a_reader_that_sends_or_gives_up_a_prompt(reaction: str) -> None:
    """What a reader does with an update keeps it from nobody else, and the end of the work from no prompt."""
    talk = half()
    prompts = [talk.session.prompt("a"), talk.session.prompt("b")]
    over = [Watched(each.idle) for each in prompts]
    talk.accept(talk.take()[0]["id"])
    heard: list[v2.SessionUpdate] = []
    talk.session.on_update(heard.append)

    async def read() -> None:
        async for each in prompts[0].updates():
            if isinstance(each, v2.IdleStateUpdate):
                prompts[1].idle.cancel() if reaction == "cancel" else prompts.append(talk.session.prompt("c"))

    reading = Watched(Deferred.fromCoroutine(read()))
    talk.send(RUNNING, idle("end_turn"))
    assert reading.value is None
    assert len(heard) == 2
    assert over[0].value.stop_reason == "end_turn"
    assert over[1].over == (reaction == "cancel")
    assert list(talk.session.prompts) == ([] if reaction == "cancel" else prompts[1:])


@pytest.mark.parametrize("how", ["idle", "cancel"])
@pytest.mark.parametrize("end", ["idle", "delete"])
def test_giving_up_a_prompt_whose_work_has_just_ended(end: str, how: str) -> None:
    """Nothing is sent for it: a prompt that was sent since is not stopped (rule 4)."""
    talk = half()
    first, second = talk.session.prompt("a"), talk.session.prompt("b")
    for each in talk.take():
        talk.accept(each["id"], f"m{each['id']}")
    talk.send(RUNNING)

    def over(_: object) -> None:
        if end == "idle":
            talk.session.prompt("c")
        second.idle.cancel() if how == "idle" else second.cancel()

    done, other = Watched(first.idle.addCallback(over)), Watched(second.idle)
    if end == "idle":
        talk.send(idle("end_turn"))
        assert [each["method"] for each in talk.take()] == ["session/prompt"]
    else:
        talk.second.delete_session("s1")
        talk.respond({}, talk.take()[-1]["id"])
        assert talk.take() == []
    assert done.value is None
    if how == "idle":
        assert isinstance(other.value, RequestCancelled)
    else:
        assert other.value.stop_reason == ("end_turn" if end == "idle" else "cancelled")


def test_a_session_that_is_opened_behind_the_loss_is_over() -> None:
    """Its answer had to wait for a handler, and the link is gone by then: whoever waits in it is told."""
    busy: Deferred[None] = Deferred()
    talk = ClientHalf(client(ext_notification_handler=("_x/slow", lambda _: busy)))
    opening = Watched(talk.second.new_session("/w"))
    number = talk.last_id()
    talk.send({"method": "_x/slow", "params": {}})
    talk.respond({"sessionId": "s2"}, number)
    assert not opening.over
    talk.link.b.abort("gone")
    busy.callback(None)
    session = opening.value
    assert session.session_id == "s2"
    assert isinstance(Watched(session.when_idle()).value, AcpConnectionError)
    assert isinstance(Watched(session.prompt("hi").idle).value, AcpConnectionError)
    assert session.prompts == ()
