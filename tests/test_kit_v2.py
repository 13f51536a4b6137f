"""
The test kit in version 2, and with halves of both versions: pairs, scripted halves, results.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from acp_twisted import AcpAgent, AcpClient, PromptContext
from acp_twisted.errors import AcpCapabilityError, AuthRequired, InternalError, RequestCancelled
from acp_twisted.interfaces import IMessageReceiverFactory
from acp_twisted.schema import v1, v2
from acp_twisted.testing import (
    ConnectedPairV2,
    ScriptedAgent,
    ScriptedClient,
    answered,
    became,
    connected_pair,
    failure_of,
    no_result,
    refused,
    requested,
    success_result,
    updated,
)
from acp_twisted.testing.transcript import spoken

BOTH = (1, 2)


async def echo(request: Any, context: PromptContext) -> str:
    """A prompt handler that repeats, in either version."""
    await context.send_message(request.prompt[0].text)
    return "end_turn"


def agent_of(*versions: int) -> AcpAgent:
    """A real agent of these versions."""
    return AcpAgent.builder().protocol_versions(*versions).prompt_handler(echo).build()


# ---- pairs


def test_a_pair_of_real_halves() -> None:
    """2.30-2.33: they are initialized in version 2; a prompt's answer is the report that the agent is idle again."""
    client = AcpClient.builder().protocol_versions(2).build()
    with connected_pair(agent_of(2), client, protocol_version=2) as pair:
        assert pair.protocol_version == 2
        assert isinstance(pair.initialized, v2.InitializeResponse)
        assert pair.initialized == pair.client.initialized
        assert pair.answer("hi") == v2.IdleStateUpdate(stop_reason="end_turn")
        prompt = pair.prompt("again")
        assert success_result(prompt.accepted) is not None
        assert success_result(prompt).stop_reason == "end_turn"
        assert pair.said == "hiagain"
        assert pair.agent.session_ids == (pair.session.session_id,)
        pair.transcript.assert_order(
            requested("initialize", {"protocolVersion": 2}, sender="client"),
            answered("session/prompt", {"messageId": lambda name: isinstance(name, str)}),
            updated("user_message", content=[{"text": "hi"}]),
            became("running"),
            updated("agent_message_chunk", content={"text": "hi"}),
            became("idle", "end_turn"),
        )
        pair.transcript.assert_states("running", became("idle", "end_turn"), "running", "idle")
        pair.transcript.assert_each_answered_once()
    assert success_result(pair.client.when_closed())
    assert success_result(pair.agent.when_closed())


@pytest.mark.parametrize(
    ("agent", "client", "spoken"),
    [((2,), (2,), 2), (BOTH, (2,), 2), ((2,), BOTH, 2), (BOTH, BOTH, 2), ((1,), BOTH, 1), (BOTH, (1,), 1)],
)
def test_a_pair_speaks_what_its_halves_agree_on(agent: tuple[int, ...], client: tuple[int, ...], spoken: int) -> None:
    """2.7: of real halves and of scripted ones; both sides' connections, and what was said, are of that version."""
    real = AcpClient.builder().protocol_versions(*client).build()
    scripted = ScriptedAgent(protocol_versions=agent)
    scripted.expect_prompt("hi").says("hi")
    for pair in (
        connected_pair(agent_of(*agent), real),
        connected_pair(agent_of(*agent), ScriptedClient(protocol_versions=client), protocol_version=spoken),
        connected_pair(scripted, real),
    ):
        with pair:
            assert pair.protocol_version == spoken
            assert pair.initialized is not None
            assert pair.initialized.protocol_version == spoken
            assert (pair.agent.schema, pair.client.schema) == (pair.client.schema, v1 if spoken == 1 else v2)
            assert pair.answer("hi").stop_reason == "end_turn"
            assert pair.said == "hi"
    assert scripted.connections == [pair.agent]


@pytest.mark.parametrize("versions", [1, 2, BOTH])
def test_the_plain_client_speaks_what_the_agent_speaks(versions: Any) -> None:
    """So that a pair of an agent alone needs no version; and one can be named."""
    agent = ScriptedAgent(protocol_versions=versions)
    agent.allow_prompt()
    for each in agent.versions:
        with connected_pair(agent, protocol_version=each) as pair:
            assert pair.protocol_version == each
    with connected_pair(agent) as pair:
        assert pair.protocol_version == max(agent.versions)
        assert pair.answer().stop_reason == "end_turn"


def test_a_pair_that_begins_later() -> None:
    """Until the version is agreed on there are two sides that wait for it, and no version."""
    pair = connected_pair(agent_of(*BOTH), initialize=False, protocol_version=2)
    assert (pair.protocol_version, pair.initialized, len(pair.transcript)) == (None, None, 0)
    before = pair.agent
    success_result(pair.client.initialize())  # type: ignore[attr-defined]  # which only waits for its version
    assert pair.agent is not before
    assert pair.protocol_version == 2
    pair.lose()
    assert success_result(pair.agent.when_closed())
    pair.close()


def test_a_version_that_is_not_agreed_on() -> None:
    """2.7: the pair says so, whether there is none or another."""
    with pytest.raises(AssertionError, match="version 2 was to be spoken; what the two agree on is 1"):
        connected_pair(agent_of(*BOTH), ScriptedClient(), protocol_version=2)
    later = connected_pair(agent_of(*BOTH), ScriptedClient(), protocol_version=2, initialize=False)
    with pytest.raises(AssertionError, match="version 2 was to be spoken"):
        later.initialize()
    with pytest.raises(AssertionError, match="protocol version"):
        connected_pair(agent_of(2), ScriptedClient())
    for wrong in (3, (), (1, 3)):
        with pytest.raises(ValueError, match="the protocol versions are some of"):
            ScriptedAgent(protocol_versions=wrong)


# ---- an agent with a script


def test_prompts_are_scripted() -> None:
    """Matched as in version 1; the library adds the message, the states and the end of each."""
    agent = ScriptedAgent(protocol_versions=2)
    assert verifyObject(IMessageReceiverFactory, agent)
    agent.expect_prompt("one").inserts("m1").thinks("hm").says("1").ends("max_tokens", meta={"n": 1})
    agent.expect_prompt(re.compile("^tw")).updates(v2.ConfigOptionUpdate(config_options=[]))
    agent.expect_prompt().answers(v2.IdleStateUpdate(stop_reason="refusal"))
    with connected_pair(agent, protocol_version=2) as pair:
        prompt = pair.prompt("one")
        assert success_result(prompt.accepted) == "m1"
        assert success_result(prompt) == v2.IdleStateUpdate(stop_reason="max_tokens", meta={"n": 1})
        assert pair.answer("two").stop_reason == "end_turn"
        assert pair.answer("three").stop_reason == "refusal"
        pair.transcript.assert_order(
            answered("session/prompt", {"messageId": "m1"}),
            updated("user_message", messageId="m1"),
            updated("agent_thought_chunk"),
            became("idle", "max_tokens"),
            updated("config_option_update"),
        )
    assert [type(request) for request in agent.prompts] == [v2.PromptRequest] * 3
    assert agent.connections == [pair.agent]


def test_a_prompt_that_is_not_expected() -> None:
    """It does not become part of the conversation, and its answer says why; so does the test's own failure."""
    agent = ScriptedAgent(protocol_versions=2)
    agent.expect_prompt("hello")
    pair = connected_pair(agent, protocol_version=2)
    prompt = pair.prompt("bye")
    assert (
        "the agent expected a prompt 'hello'; what came is PromptRequest(" in failure_of(prompt, InternalError).message
    )
    assert failure_of(prompt.accepted, InternalError).remote
    pair.transcript.assert_states()
    with pytest.raises(AssertionError, match="it did not come"):
        pair.verify()
    assert pair.answer("hello").stop_reason == "end_turn"
    pair.close()


@pytest.mark.parametrize("version", BOTH)
def test_a_prompt_that_is_refused(version: int) -> None:
    """2.38: in version 2 nothing is inserted, and no work is reported; in version 1 it is the turn's failure."""
    agent = ScriptedAgent(protocol_versions=BOTH)
    agent.expect_prompt().refuses(AuthRequired())
    with connected_pair(agent, protocol_version=version) as pair:
        assert failure_of(pair.prompt(), AuthRequired).remote
        pair.transcript.assert_order(refused("session/prompt", -32000))
        pair.transcript.assert_never("session/update")


@pytest.mark.parametrize("version", BOTH)
def test_a_turn_that_fails(version: int) -> None:
    """V2N13: in version 2 the error is in the report; the helpers take it for the failure that it is in version 1."""
    agent = ScriptedAgent(protocol_versions=version)
    agent.expect_prompt().times(2).says("hm").fails(AuthRequired("log in", {"a": 1}))
    with connected_pair(agent, protocol_version=version) as pair:
        error = failure_of(pair.prompt(), AuthRequired)
        assert (error.message, error.data, error.remote) == ("log in", {"a": 1}, True)
        with pytest.raises(AssertionError, match="it failed"):
            pair.answer()
    with pytest.raises(AssertionError, match="ValueError was expected; it failed with"):
        failure_of(pair.prompt(), ValueError)


def test_a_report_is_a_result_too() -> None:
    """Of the Deferred itself, the report is what it fires with, whatever it says."""
    agent = ScriptedAgent(protocol_versions=2)
    agent.expect_prompt().fails(AuthRequired())
    agent.expect_prompt().answers(v2.IdleStateUpdate(stop_reason="error"))
    with connected_pair(agent, protocol_version=2) as pair:
        assert success_result(pair.prompt().idle).stop_reason == "error"
        assert failure_of(pair.prompt(), InternalError).remote
        pair.transcript.assert_states("running", became("idle", "error", error={"code": -32000}), "running", "idle")


def test_prompts_that_are_held_and_taken() -> None:
    """§2.2: one is held until the work before it is over; one is taken into the work, whose end is the end of both."""
    agent = ScriptedAgent(protocol_versions=2)
    agent.expect_prompt("one").waits(5).takes_prompt("and this").says("both")
    agent.expect_prompt("two").says("two")
    with connected_pair(agent, protocol_version=2) as pair:
        first, taken, held = pair.prompt("one"), pair.prompt("and this"), pair.prompt("two")
        success_result(first.accepted)
        for each in (taken.accepted, held.accepted, first, taken, held):
            no_result(each)
        pair.advance(5)
        assert success_result(first) == success_result(taken) == success_result(held)
        assert pair.said == "bothtwo"
        pair.transcript.assert_states("running", "idle", "running", "idle")
    assert [request.prompt[0].text for request in agent.prompts] == ["one", "and this", "two"]


@pytest.mark.parametrize("version", BOTH)
def test_no_prompt_is_there_to_be_taken(version: int) -> None:
    """The script says what was expected to be held; in version 1 there is never anything."""
    agent = ScriptedAgent(protocol_versions=version)
    agent.expect_prompt().takes_prompt("more")
    pair = connected_pair(agent, protocol_version=version)
    words = "the agent expected a prompt 'more' to be held; what is held is None"
    assert failure_of(pair.prompt(), InternalError).message == words
    with pytest.raises(AssertionError, match=words):
        pair.verify()
    pair.close()


def test_a_prompt_that_is_cancelled_before_it_is_inserted() -> None:
    """V2D7: then only it is answered -32800, and its expectation was met all the same."""
    agent = ScriptedAgent(protocol_versions=2)
    agent.expect_prompt().inserts(after=5)
    agent.expect_prompt().inserts("m2", after=5)
    with connected_pair(agent, protocol_version=2) as pair:
        first, second = pair.prompt(), pair.prompt()
        first.cancel()
        assert failure_of(first.accepted, RequestCancelled).remote
        assert success_result(first).stop_reason == "cancelled"
        no_result(second.accepted)
        pair.advance(5)
        assert success_result(second.accepted) == "m2"
        pair.transcript.assert_order("$/cancel_request", refused("session/prompt", -32800))


def test_a_turn_that_hangs_and_one_that_waits() -> None:
    """V2D5: cancelled work ends with C{idle} and C{cancelled}, by its script or by the grace period."""
    agent = ScriptedAgent(lambda builder: builder.cancel_grace_period(10), protocol_versions=2)
    agent.expect_prompt("stop me").says("…").waits_for_cancel().says("stopped")
    agent.expect_prompt("hang").hangs()
    with connected_pair(agent, protocol_version=2) as pair:
        prompt = pair.prompt("stop me")
        no_result(prompt)
        prompt.cancel()
        assert success_result(prompt).stop_reason == "cancelled"
        assert pair.said == "…stopped"
        prompt = pair.prompt("hang")
        prompt.cancel()
        no_result(prompt)
        pair.advance(10)
        assert success_result(prompt).stop_reason == "cancelled"
    assert [type(notice) for notice in agent.cancels] == [v2.CancelSessionNotification] * 2


def test_other_methods_of_an_agent() -> None:
    """What is expected in version 2's words is handled, and advertised, in version 2."""
    agent = ScriptedAgent(protocol_versions=2)
    agent.expect(v2.ResumeSessionRequest, session_id="old").answers(v2.ResumeSessionResponse())
    agent.expect(v2.DeleteSessionRequest, session_id="old").answers(v2.DeleteSessionResponse())
    agent.expect_ext("_x/add", {"a": 1}).answers({"b": 2})
    agent.allow_prompt()
    with connected_pair(agent, protocol_version=2) as pair:
        assert pair.client.agent_capabilities.session is not None
        assert pair.client.agent_capabilities.session.delete is not None
        session = success_result(pair.client.resume_session("old", "/w", replay=True))
        assert success_result(session.prompt("hi")).stop_reason == "end_turn"
        success_result(pair.client.delete_session("old"))
        assert success_result(pair.client.ext_request("_x/add", {"a": 1})) == {"b": 2}
        with pytest.raises(ValueError, match="is connected, and has no handler for session/list"):
            agent.expect(v2.ListSessionsRequest)


def test_logging_in_and_cancelling_are_expected_too() -> None:
    """Their handlers are not called after the classes of their params."""
    methods = [v2.AuthMethodAgent(method_id="m", name="M")]
    agent = ScriptedAgent(lambda builder: builder.auth_methods_v2(methods), protocol_versions=2)
    agent.expect(v2.LoginAuthRequest, method_id="m").answers(v2.LoginAuthResponse())
    agent.expect(v2.LogoutAuthRequest).answers(v2.LogoutAuthResponse())
    agent.expect(v2.CancelSessionNotification, session_id="session-1")
    client = ScriptedClient(protocol_versions=2)
    client.expect(v2.UpdateSessionNotification, lambda each: isinstance(each.update, v2.UserMessage))
    client.allow(v2.UpdateSessionNotification)
    agent.allow_prompt()
    with connected_pair(agent, client, protocol_version=2) as pair:
        success_result(pair.client.login("m"))
        success_result(pair.client.logout())
        pair.session.cancel()
        pair.answer()


def test_what_one_version_is_expected_to_ask() -> None:
    """An agent of both versions handles, and advertises, in each what is expected of it."""
    agent = ScriptedAgent(protocol_versions=BOTH)
    agent.expect(v1.LoadSessionRequest).answers(v1.LoadSessionResponse())
    agent.expect(v2.DeleteSessionRequest).answers(v2.DeleteSessionResponse())
    for version in BOTH:
        agent.expect(v1.ListSessionsRequest if version == 1 else v2.ListSessionsRequest).answers(
            v1.ListSessionsResponse(sessions=[]) if version == 1 else v2.ListSessionsResponse(sessions=[])
        )
    with connected_pair(agent, protocol_version=1) as first:
        assert first.client.agent_capabilities.load_session
        assert first.client.agent_capabilities.session_capabilities.delete is None
        success_result(first.client.load_session("s", "/w"))
        assert success_result(first.client.list_sessions()) == v1.ListSessionsResponse(sessions=[])
        with connected_pair(agent, protocol_version=2) as second:
            assert success_result(second.client.list_sessions()) == v2.ListSessionsResponse(sessions=[])
            success_result(second.client.delete_session("s"))
    assert [each.vocabulary.version for each in agent.connections] == [1, 2]


def test_what_is_not_settled_yet() -> None:
    """An expectation of it is what says that it is wanted."""
    agent = ScriptedAgent(protocol_versions=2)
    agent.expect(v2.SetSessionTitleRequest, title="T").answers(v2.SetSessionTitleResponse(title="T"))
    client = AcpClient.builder(unstable=True).protocol_versions(2).build()
    with connected_pair(agent, client, protocol_version=2) as pair:
        title = v2.SetSessionTitleRequest(session_id=pair.session.session_id, title="T")
        assert success_result(pair.client.call(title)).title == "T"


def test_handlers_of_ones_own_stay() -> None:
    """What the builder was given is not replaced, for either version."""

    def configure(builder: Any) -> None:
        builder.accept_prompt_handler(lambda request: "mine")
        builder.for_versions(2).new_session_handler(lambda request: v2.NewSessionResponse(session_id="second"))

    agent = ScriptedAgent(configure, protocol_versions=BOTH)
    agent.expect_prompt("hi")
    with connected_pair(agent, protocol_version=2) as pair:
        assert pair.session.session_id == "second"
        assert success_result(pair.prompt("hi").accepted) == "mine"
        assert len(agent.prompts) == 1
        with connected_pair(agent, protocol_version=1) as first:
            assert first.session.session_id == "session-1"


@pytest.mark.parametrize("half", [ScriptedAgent, ScriptedClient])
def test_what_is_no_request_of_the_version(half: Callable[..., Any]) -> None:
    """A class of the other version, or of none."""
    with pytest.raises(TypeError, match="no request or notification of protocol version 1"):
        half().expect(v2.PromptRequest)
    with pytest.raises(TypeError, match="no request or notification of protocol version 2"):
        half(protocol_versions=2).expect(v1.PromptRequest)
    with pytest.raises(TypeError, match="no request or notification of protocol version 1 or 2"):
        half(protocol_versions=BOTH).expect(v2.ToolCallUpdate)


# ---- a client with a script


@pytest.mark.parametrize("version", BOTH)
def test_permissions(version: int) -> None:
    """By the question, by id or by kind; in version 2 the work requires action meanwhile (2.34)."""
    agent = ScriptedAgent(protocol_versions=version)
    agent.expect_prompt().asks_permission("Go", True).asks_permission("Stop", False).asks_permission("What")
    client = ScriptedClient(protocol_versions=version)
    client.expect_permission("Go").selects("allow")
    client.expect_permission(re.compile("^St")).selects("reject_once")
    client.expect_permission()
    with connected_pair(agent, client, protocol_version=version) as pair:
        assert pair.answer().stop_reason == "end_turn"
        if version == 2:
            pair.transcript.assert_states("running", *["requires_action", "running"] * 3, became("idle", "end_turn"))
    assert len(client.permissions) == 3


def test_a_permission_that_has_another_subject() -> None:
    """In version 2 a question need not be about a tool call: its title is what it is expected by."""
    ask = v2.PermissionOption(option_id="y", name="Yes", kind="allow_once")
    agent = ScriptedAgent(protocol_versions=2)
    agent.expect_prompt().asks(
        lambda context: context.request_permission(None, [ask], title="Trust the folder?"),
        lambda response: response.outcome.option_id == "y",
    )
    client = ScriptedClient(permission="y", protocol_versions=BOTH)
    client.expect_permission("Trust the folder?").selects("allow_once")
    with connected_pair(agent, client, protocol_version=2) as pair:
        pair.answer()


def test_a_form_is_expected() -> None:
    """In the words of version 2, which is what makes the client offer forms."""
    form = v2.ElicitationFormMode(
        session_id="session-1", message="Who?", requested_schema=v2.ElicitationSchema(properties={})
    )
    agent = ScriptedAgent(protocol_versions=2)
    agent.expect_prompt().asks(lambda context: context.call(form), v2.CreateElicitationResponse(action="decline"))
    client = ScriptedClient(protocol_versions=2)
    client.expect(v2.ElicitationFormMode, message="Who?").answers(v2.CreateElicitationResponse(action="decline"))
    with connected_pair(agent, client, protocol_version=2) as pair:
        assert pair.agent.client_capabilities.elicitation is not None
        pair.answer()


def test_files_are_no_part_of_version_2() -> None:
    """A client of version 2 can't have any; one of both has them in version 1, which begins anew to say so (2.7)."""
    with pytest.raises(TypeError, match="ReadTextFileRequest"):
        ScriptedClient(files={}, protocol_versions=2)
    first, second = ScriptedAgent(), ScriptedAgent(protocol_versions=2)
    first.expect_prompt().reads("/a", "text")
    second.expect_prompt().asks(lambda context: context.read_file("/a"), fails=AcpCapabilityError)
    for agent in (first, second):
        client = ScriptedClient(files={"/a": "text"}, protocol_versions=BOTH)
        with connected_pair(agent, client) as pair:
            pair.answer()
            assert client.connections == [pair.client]
            assert agent.connections[-1] is pair.agent
            pair.transcript.assert_count("initialize", 2 if agent is first else 1)
            assert pair.initialized is not None


def test_what_a_client_was_told() -> None:
    """Updates in the words of version 2; a whole message takes the place of its chunks."""
    agent = ScriptedAgent(protocol_versions=2)
    agent.expect_prompt().says("one ").updates(
        v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text="tow")),
        v2.AgentMessageChunk(message_id="n", content=v2.TextContent(text=" three")),
        v2.AgentMessage(message_id="m", content=[v2.TextContent(text="tw"), v2.TextContent(text="o")]),
        v2.AgentMessage(message_id="n", meta={"a": 1}),
    )
    client = ScriptedClient(protocol_versions=2)
    told = client.when_updated(3)
    with connected_pair(agent, client, protocol_version=2) as pair:
        pair.answer()
        success_result(told)
        assert client.said == pair.said == "one two three"
    assert {type(each) for each in client.updates} == {v2.UpdateSessionNotification}
    assert client.connections == [pair.client]


def test_what_is_spoken_of_whatever_came() -> None:
    """Messages of different sessions are different ones, a cleared one says nothing, and noise is none."""

    def update(session: str, **members: Any) -> dict[str, Any]:
        return {"sessionId": session, "update": {"messageId": "m", **members}}

    chunk, whole = {"sessionUpdate": "agent_message_chunk"}, {"sessionUpdate": "agent_message"}
    came: list[Any] = [
        update("a", **chunk, content={"text": "1"}),
        update("b", **chunk, content={"text": "2"}),
        update("a", **whole, content=None),
        update("c", **whole, content=[{"text": "3"}, {"type": "image"}]),
        update("c", **chunk, content={"type": "image"}),
        update("c", sessionUpdate="agent_thought_chunk", content={"text": "4"}),
        {"update": 5},
        None,
    ]
    assert spoken(came) == "23"


# ---- and the rest


def test_a_prompt_that_never_ends_is_not_an_error_of_the_test() -> None:
    """Looking at what is not over yet does not make the test answer for how it ends (B77)."""
    for version in BOTH:
        agent = ScriptedAgent(protocol_versions=version)
        agent.expect_prompt().hangs()
        with connected_pair(agent, protocol_version=version) as pair:
            no_result(pair.prompt())


def scenario(pair: ConnectedPairV2) -> v2.IdleStateUpdate:
    """A type checker knows what a pair of version 2 gives."""
    return pair.answer()


def test_a_pair_can_be_handed_on() -> None:
    """By its type, too."""
    with connected_pair(agent_of(2), protocol_version=2) as pair:
        assert scenario(pair).stop_reason == "end_turn"


def test_the_kit_does_not_load_version_2_before_it_is_wanted() -> None:
    """A test of version 1 pays nothing for the other, in whatever it uses."""
    code = (
        "import sys\n"
        "from acp_twisted.testing import *\n"
        "from acp_twisted.testing import strategies\n"
        "from acp_twisted.schema import v1\n"
        "strategies.of(v1.PromptRequest)\n"
        "agent = ScriptedAgent()\n"
        "agent.expect_prompt('hi').says('hello')\n"
        "with connected_pair(agent, ScriptedClient()) as pair:\n"
        "    pair.answer('hi')\n"
        "ClientOnWire(ScriptedClient()).open_session()\n"
        "print(*[name for name in sys.modules if name.startswith('acp_twisted.') and 'v2' in name])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")
