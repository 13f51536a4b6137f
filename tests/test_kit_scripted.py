"""
The scripted halves of the test kit, with each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from acp_twisted import AcpAgent, AcpClient, PromptContext
from acp_twisted.errors import AuthRequired, InternalError, MethodNotFound, RequestCancelled, ResourceNotFound
from acp_twisted.interfaces import IMessageReceiverFactory
from acp_twisted.schema import v1
from acp_twisted.testing import (
    ScriptedAgent,
    ScriptedClient,
    answered,
    connected_pair,
    failure_of,
    no_result,
    requested,
    success_result,
    updated,
)


def echo() -> AcpAgent:
    """An agent that repeats."""

    async def answer(request: v1.PromptRequest, context: PromptContext) -> v1.PromptResponse:
        await context.send_message(request.prompt[0].text)  # type: ignore[union-attr]
        return v1.PromptResponse(stop_reason="end_turn")

    return AcpAgent.builder().prompt_handler(answer).build()


def test_a_pair_of_real_halves() -> None:
    """They are initialized, and what follows from a call has happened when it returns."""
    with connected_pair(echo()) as pair:
        assert pair.initialized is not None
        assert pair.answer("hi").stop_reason == "end_turn"
        assert pair.said == "hi"
        assert pair.agent.session_ids == (pair.session.session_id,)
        pair.transcript.assert_order(
            "initialize", "session/new", requested("session/prompt", sender="client"), updated("agent_message_chunk")
        )
        pair.transcript.assert_each_answered_once()
    assert success_result(pair.client.when_closed())
    assert success_result(pair.agent.when_closed())


def test_a_pair_that_begins_later_and_breaks() -> None:
    """The test may initialize by itself; a broken link is seen on both sides."""
    pair = connected_pair(echo(), initialize=False)
    assert len(pair.transcript) == 0
    success_result(pair.client.initialize())
    pair.lose()
    assert success_result(pair.agent.when_closed())
    pair.close()


def test_prompts_are_scripted() -> None:
    """Matched by text, expression and function, in order, each with its updates and its end."""
    agent = ScriptedAgent()
    assert verifyObject(IMessageReceiverFactory, agent)
    agent.expect_prompt("one").thinks("hm").says("1").ends("max_tokens", meta={"n": 1})
    agent.expect_prompt(re.compile("^tw")).updates(v1.Plan(entries=[]), v1.CurrentModeUpdate(current_mode_id="m"))
    agent.expect_prompt(lambda request: len(request.prompt) == 1).times(2).answers(
        lambda request: v1.PromptResponse(stop_reason="refusal")
    )
    agent.expect_prompt("four").fails(AuthRequired())
    with connected_pair(agent) as pair:
        assert pair.answer("one") == v1.PromptResponse(stop_reason="max_tokens", meta={"n": 1})
        assert pair.answer("two").stop_reason == "end_turn"
        assert [pair.answer("three").stop_reason for _ in range(2)] == ["refusal", "refusal"]
        assert failure_of(pair.prompt("four").response, AuthRequired).remote
        pair.transcript.assert_order(
            updated("agent_thought_chunk"), answered("session/prompt"), updated("plan"), updated("current_mode_update")
        )
    assert [request.session_id for request in agent.prompts] == ["session-1"] * 5
    assert agent.connections == [pair.agent]


def test_a_prompt_that_is_not_expected() -> None:
    """The client reads what was expected and what came, and the test is told too, with the transcript."""
    agent = ScriptedAgent()
    agent.expect_prompt("hello")
    pair = connected_pair(agent)
    error = failure_of(pair.prompt("bye").response, InternalError)
    assert "the agent expected a prompt 'hello'; what came is PromptRequest(" in error.message
    assert "bye" in error.message
    with pytest.raises(AssertionError, match="it did not come") as caught:
        pair.verify()
    assert "the agent expected a prompt 'hello'; what came is" in str(caught.value)
    assert "What was said:" in str(caught.value)
    assert pair.answer("hello").stop_reason == "end_turn"
    assert "no more session/prompt" in failure_of(pair.prompt("again").response, InternalError).message
    pair.close()


def test_what_did_not_come_fails_the_block() -> None:
    """Leaving the pair, or the half, is what holds it to its expectations."""
    agent = ScriptedAgent()
    agent.expect_prompt("hello").times(2)
    words = r"expected a prompt 'hello', 2 times \(came 1 times\); it did not come"
    with pytest.raises(AssertionError, match=words), connected_pair(agent) as pair:
        pair.answer("hello")
    client = ScriptedClient()
    client.expect_permission("Delete")
    with pytest.raises(AssertionError, match="the client expected a permission request 'Delete'"), client:
        pass


def test_an_error_of_the_test_is_not_hidden() -> None:
    """What the block raises comes before what the script misses."""
    agent = ScriptedAgent()
    agent.expect_prompt()
    with pytest.raises(KeyError), connected_pair(agent):
        raise KeyError("mine")
    with pytest.raises(KeyError), agent:
        raise KeyError("mine")


def test_an_agent_that_asks() -> None:
    """Files, permissions and commands of the client, with what must come of them."""
    agent = ScriptedAgent()
    (
        agent.expect_prompt()
        .reads("/a", "old")
        .writes("/a", "new")
        .asks_permission("Go on", True)
        .asks(lambda context: context.read_file("/none"), fails=ResourceNotFound)
        .says("done")
    )
    client = ScriptedClient(files={"/a": "old"})
    client.expect_permission("Go on").selects("allow_once")
    with connected_pair(agent, client) as pair:
        assert pair.answer().stop_reason == "end_turn"
    assert client.files == {"/a": "new"}
    assert client.said == "done"
    assert [request.path for request in client.reads] == ["/a", "/none"]
    assert [request.content for request in client.writes] == ["new"]
    assert len(client.permissions) == 1


def test_a_command_in_a_terminal() -> None:
    """The client's five requests are expected one by one."""
    agent = ScriptedAgent()
    agent.expect_prompt().runs("ls", ["-l"], "out")
    client = ScriptedClient()
    client.expect(v1.CreateTerminalRequest, command="ls").answers(v1.CreateTerminalResponse(terminal_id="t"))
    client.expect(v1.WaitForTerminalExitRequest).answers(v1.WaitForTerminalExitResponse(exit_code=0))
    client.expect(v1.TerminalOutputRequest).answers(v1.TerminalOutputResponse(output="out", truncated=False))
    client.expect(v1.ReleaseTerminalRequest, terminal_id="t").answers(v1.ReleaseTerminalResponse())
    client.allow(v1.KillTerminalRequest).answers(v1.KillTerminalResponse())
    with connected_pair(agent, client) as pair:
        assert pair.answer().stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda prompt: prompt.reads("/a", "other"), "expected reading /a to come to 'other'; what came is 'text'"),
        (lambda prompt: prompt.asks_permission("Go", False), "permission to 'Go' to come to False; what came is True"),
        (
            lambda prompt: prompt.asks(lambda context: context.read_file("/a"), fails=MethodNotFound),
            "to fail with Meth",
        ),
        (lambda prompt: prompt.asks(lambda context: context.read_file("/b"), fails=MethodNotFound), "ResourceNotFound"),
    ],
)
def test_an_answer_that_is_not_as_expected(ask: Callable[[Any], Any], words: str) -> None:
    """The turn fails, and so does the test."""
    agent = ScriptedAgent()
    ask(agent.expect_prompt())
    pair = connected_pair(agent, ScriptedClient(files={"/a": "text"}, permission="allow_once"))
    assert words in failure_of(pair.prompt().response, InternalError).message
    with pytest.raises(AssertionError, match="expected"):
        agent.verify()
    pair.close()


def test_an_error_along_the_way_ends_the_turn() -> None:
    """What the client refuses and the script does not expect is the turn's own failure."""
    agent = ScriptedAgent()
    agent.expect_prompt().reads("/none")
    with connected_pair(agent, ScriptedClient(files={})) as pair:
        assert failure_of(pair.prompt().response, ResourceNotFound).remote


def test_a_turn_that_hangs_and_one_that_waits() -> None:
    """V1C5: a cancelled turn is answered C{cancelled}, by its script or by the grace period; time is the test's."""
    agent = ScriptedAgent(lambda builder: builder.cancel_grace_period(10))
    agent.expect_prompt("stop me").says("…").waits_for_cancel().says("stopped").ends("end_turn")
    agent.expect_prompt("hang").hangs()
    agent.expect_prompt("slow").waits(5).says("slow")
    with connected_pair(agent) as pair:
        turn = pair.prompt("stop me")
        no_result(turn.response)
        turn.cancel()
        assert success_result(turn.response).stop_reason == "cancelled"
        assert pair.said == "…stopped"
        turn = pair.prompt("hang")
        turn.cancel()
        no_result(turn.response)
        pair.advance(10)
        assert success_result(turn.response).stop_reason == "cancelled"
        turn = pair.prompt("slow")
        pair.advance(4.9)
        no_result(turn.response)
        pair.advance(0.1)
        assert success_result(turn.response).stop_reason == "end_turn"
    assert [notice.session_id for notice in agent.cancels] == ["session-1", "session-1"]


def test_other_methods_of_an_agent() -> None:
    """What is expected is handled, and advertised; so are extensions."""
    agent = ScriptedAgent()
    agent.expect(v1.LoadSessionRequest, session_id="old").answers(v1.LoadSessionResponse())
    agent.expect_ext("_x/add", {"a": 1}).answers({"b": 2})
    agent.expect_ext("_x/note", notification=True)
    agent.allow_prompt()
    with connected_pair(agent) as pair:
        assert pair.client.agent_capabilities.load_session
        session = success_result(pair.client.load_session("old", "/w"))
        assert success_result(session.prompt("hi").response).stop_reason == "end_turn"
        assert success_result(pair.client.ext_request("_x/add", {"a": 1})) == {"b": 2}
        pair.client.ext_notification("_x/note")
        with pytest.raises(ValueError, match="is connected, and has no handler for session/resume"):
            agent.expect(v1.ResumeSessionRequest)
        with pytest.raises(ValueError, match="is connected, and has no handler for _x/other"):
            agent.expect_ext("_x/other")


def test_what_is_not_settled_yet() -> None:
    """An expectation of it is what says that it is wanted; so it is handled, and advertised."""
    agent = ScriptedAgent()
    agent.expect(v1.SetSessionTitleRequest, title="T").answers(v1.SetSessionTitleResponse(title="T"))
    client = AcpClient.builder(unstable=True).build()
    with connected_pair(agent, client) as pair:
        title = v1.SetSessionTitleRequest(session_id=pair.session.session_id, title="T")
        assert success_result(pair.client.call(title)).title == "T"


def test_handlers_of_ones_own_stay() -> None:
    """What the builder was given is not replaced."""
    agent = ScriptedAgent(
        lambda builder: builder.new_session_handler(lambda _: v1.NewSessionResponse(session_id="mine"))
    )
    with connected_pair(agent) as pair:
        assert pair.session.session_id == "mine"


def test_permissions() -> None:
    """By id or by kind, refused to be picked, left open, or failed; what was not offered is the test's mistake."""
    agent = ScriptedAgent()
    agent.expect_prompt("1").asks_permission("a", True)
    agent.expect_prompt("2").asks_permission("b", False)
    agent.expect_prompt("3").asks_permission("c", False)
    agent.expect_prompt("4").asks_permission("d")
    agent.expect_prompt("5").asks_permission("e")
    client = ScriptedClient()
    client.expect_permission("a").selects("allow")
    client.expect_permission("b").selects("reject_once")
    client.expect_permission("c")
    client.expect_permission("d").hangs()
    client.expect_permission("e").selects("never")
    pair = connected_pair(agent, client)
    for number in "123":
        assert pair.answer(number).stop_reason == "end_turn"
    turn = pair.prompt("4")
    no_result(turn.response)
    turn.cancel()
    assert success_result(turn.response).stop_reason == "cancelled"
    assert failure_of(pair.prompt("5").response, InternalError).remote
    with pytest.raises(
        AssertionError, match=r"the option 'never' to be offered; what was offered is allow \(allow_once\)"
    ):
        client.verify()
    pair.close()


def test_a_client_reads_a_part_of_a_file() -> None:
    """Lines are counted from 1."""
    agent = ScriptedAgent()
    agent.expect_prompt().asks(lambda context: context.read_file("/a", 2, 1), "b\n")
    with connected_pair(agent, ScriptedClient(files={"/a": "a\nb\nc\n"})) as pair:
        pair.answer()


def test_files_that_are_expected() -> None:
    """One by one, with their content."""
    agent = ScriptedAgent()
    agent.expect_prompt().reads("/a", "x").writes("/b", "y")
    client = ScriptedClient()
    client.expect_read("/a", "x")
    client.expect_write("/b", "y")
    with connected_pair(agent, client) as pair:
        pair.answer()


def test_waiting_for_what_comes() -> None:
    """For tests over a real link: a Deferred for so many prompts or updates."""
    agent, client = ScriptedAgent(), ScriptedClient()
    agent.allow_prompt().says("hi")
    prompted, updated_twice = agent.when_prompted(), client.when_updated(2)
    with connected_pair(agent, client) as pair:
        pair.answer()
        success_result(prompted)
        no_result(updated_twice)
        pair.answer()
        success_result(updated_twice)
        success_result(client.when_updated(1))


def test_a_turn_given_up_is_cancelled() -> None:
    """X9: a hanging script ends with its handler."""
    agent = ScriptedAgent()
    agent.expect_prompt().hangs()
    with connected_pair(agent) as pair:
        turn = pair.prompt()
        turn.response.cancel()
        failure_of(turn.response, RequestCancelled)
        pair.transcript.assert_order("session/prompt", "$/cancel_request")
        pair.transcript.assert_each_answered_once()


def test_mistakes_in_a_script() -> None:
    """What is no request, and what never comes."""
    with pytest.raises(TypeError, match="is no request or notification"):
        ScriptedAgent().expect(v1.ToolCall)
    with pytest.raises(ValueError, match="at least once"):
        ScriptedAgent().expect_prompt().times(0)


def test_a_plain_client_can_be_given() -> None:
    """Real and scripted halves go together."""
    seen: list[v1.SessionNotification] = []
    agent = ScriptedAgent()
    agent.expect_prompt().says("hi")
    with connected_pair(agent, AcpClient.builder().session_update_handler(seen.append).build()) as pair:
        pair.answer()
    assert len(seen) == 1
