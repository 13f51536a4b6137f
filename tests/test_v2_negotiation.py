"""Which version is spoken: clients of one version and of both, against every answer that an agent can give."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from halves import ClientHalf as FirstHalf
from halves_v2 import RUNNING, UnagreedHalf, Watched, idle, said
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from acp_twisted import AcpClient
from acp_twisted._version import __version__
from acp_twisted.client.v2.client import VersionedClient
from acp_twisted.client.v2.negotiation import Negotiation
from acp_twisted.errors import (
    AcpConnectionError,
    AcpError,
    AcpVersionError,
    AuthRequired,
    InvalidResponse,
    RequestCancelled,
    RequestTimedOut,
    UnsupportedVersion,
)
from acp_twisted.schema import v1, v2
from acp_twisted.transports.memory import MemoryLink

INFO = {"name": "raw", "version": "1"}
SECOND = {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {}}}
FIRST = {"protocolVersion": 1, "agentCapabilities": {}}


def client(*versions: int, **more: Any) -> VersionedClient:
    """A client of these versions."""
    builder = AcpClient.builder().protocol_versions(*versions)
    for name, value in more.items():
        getattr(builder, name)(value)
    return builder.build()


def asking(*versions: int, **more: Any) -> UnagreedHalf:
    """One that has asked."""
    talk = UnagreedHalf(client(*versions, **more))
    talk.initialize()
    return talk


# ---- the question


@pytest.mark.parametrize("versions", [(2,), (2, 1), (1, 2)])
def test_the_highest_version_is_asked_for_in_its_own_words(versions: tuple[int, ...]) -> None:
    """2.7: a question for version 2 has info and capabilities, and nothing of version 1; 2.01: info is always there."""
    talk = asking(*versions, create_elicitation_handler=lambda request: None)
    [sent] = talk.take()
    assert sent["params"] == {
        "protocolVersion": 2,
        "info": {"name": "acp_twisted", "version": __version__},
        "capabilities": {"elicitation": {"form": {}}},
    }


def test_a_client_of_version_1_asks_in_its_words() -> None:
    """2.7."""
    talk = asking(1)
    [sent] = talk.received
    assert sent["params"]["protocolVersion"] == 1
    assert "info" not in sent["params"]
    assert "capabilities" not in sent["params"]
    talk.answer(FIRST)
    assert talk.first.protocol_version == 1


def test_what_a_client_says_of_itself() -> None:
    """In either version's words; capabilities can be given for each."""
    builder = AcpClient.builder().client_info("mine", "3", "Mine").protocol_versions(2, 1)
    capabilities = v2.ClientCapabilities(elicitation=v2.ElicitationCapabilities(url=v2.ElicitationUrlCapabilities()))
    made = builder.client_capabilities_v2(capabilities).build()
    assert made.info == v2.Implementation(name="mine", version="3", title="Mine")
    assert made.capabilities is capabilities
    assert made.first.info == v1.Implementation(name="mine", version="3", title="Mine")


@pytest.mark.parametrize("versions", [(), (3,), (2, 0)])
def test_versions_that_nobody_speaks(versions: tuple[int, ...]) -> None:
    """A mistake of the program's is told at once."""
    with pytest.raises(ValueError, match="protocol versions"):
        AcpClient.builder().protocol_versions(*versions)


# ---- the answer


@pytest.mark.parametrize(
    ("versions", "answer", "spoken"),
    [
        ((2, 1), SECOND, 2),
        ((2, 1), FIRST, 1),
        ((2,), SECOND, 2),
        ((2,), FIRST, None),
        ((1,), FIRST, 1),
        ((1,), SECOND, None),
        ((2, 1), {**SECOND, "protocolVersion": 3}, None),
        ((2, 1), {**FIRST, "protocolVersion": 0}, None),
        ((2, 1), {**SECOND, "protocolVersion": "2"}, None),
        ((2, 1), {**SECOND, "protocolVersion": True}, None),
        ((2, 1), {}, None),
        ((2, 1), None, None),
        ((2, 1), [], None),
    ],
)
def test_the_answer_decides(versions: tuple[int, ...], answer: Any, spoken: int | None) -> None:
    """2.7, 1.15: the answer is read by the version in it; one that the client does not speak closes the connection."""
    talk = asking(*versions)
    talk.answer(answer)
    if spoken is None:
        assert isinstance(talk.outcome.value, AcpVersionError)
        assert talk.raw.lost
        assert not talk.negotiation.is_open
    else:
        assert talk.outcome.protocol_version == spoken
        assert talk.outcome.is_open


def test_an_answer_of_version_2_that_does_not_fit() -> None:
    """2.01: info is needed, and an answer without it is none."""
    talk = asking(2, 1)
    talk.answer({"protocolVersion": 2})
    assert isinstance(talk.outcome.value, InvalidResponse)
    assert talk.raw.lost


def test_version_1_goes_on_over_the_same_link() -> None:
    """After the answer everything is of version 1: ids go on, updates and requests are read and answered as such."""
    told: list[Any] = []
    talk = asking(2, 1, session_update_handler=told.append, request_permission_handler=_allow)
    number = talk.last_id()
    talk.answer(FIRST)
    connection = talk.first
    opening = connection.new_session("/w")
    assert talk.last_id() > number
    talk.answer({"sessionId": "s1"})
    turn = Watched(opening).value.prompt("hi")
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}
    talk.send({"method": "session/update", "params": {"sessionId": "s1", "update": chunk}})
    prompt = talk.last_id()
    talk.take()
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": options}
    talk.send({"id": 7, "method": "session/request_permission", "params": params})
    assert talk.take() == [{"id": 7, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}}]
    talk.send({"id": prompt, "result": {"stopReason": "end_turn"}})
    assert Watched(turn.response).value == v1.PromptResponse(stop_reason="end_turn")
    assert [type(each) for each in told] == [v1.SessionNotification]
    talk.lose()
    assert isinstance(Watched(connection.new_session("/w")).value, AcpConnectionError)


def _allow(request: Any) -> v1.RequestPermissionResponse:
    return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id="y"))


def test_what_comes_right_behind_the_answer_is_read_by_its_version() -> None:
    """The version holds from the answer on, also for what came in the same bytes."""
    told: list[Any] = []
    talk = asking(2, 1, session_update_handler=told.append)
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}
    talk.send(
        {"id": talk.last_id(), "result": FIRST},
        {"method": "session/update", "params": {"sessionId": "s1", "update": chunk}},
    )
    assert [type(each) for each in told] == [v1.SessionNotification]
    other = asking(2, 1, session_update_handler=told.append)
    other.send({"id": other.last_id(), "result": SECOND}, RUNNING, said("a"), idle())
    assert [type(each) for each in told[1:]] == [v2.UpdateSessionNotification] * 3


# ---- errors


def test_an_error_is_no_answer() -> None:
    """A refused initialize is no licence to try an older version; the client may ask again."""
    talk = asking(2, 1)
    talk.take()
    number = 1
    talk.send({"id": number, "error": {"code": -32000, "message": "no"}})
    assert isinstance(talk.outcome.value, AuthRequired)
    assert talk.take() == []
    assert talk.negotiation.is_open
    talk.initialize()
    talk.answer(SECOND)
    assert talk.second.protocol_version == 2


def test_an_agent_that_names_its_versions_is_asked_again() -> None:
    """-32022 with a version that the client speaks too: that one is asked for, in its words, on the same connection."""
    talk = asking(2, 1)
    talk.take()
    talk.send({"id": 1, "error": {"code": -32022, "message": "no", "data": {"requested": 2, "supported": [1]}}})
    [again] = talk.take()
    assert again["params"]["protocolVersion"] == 1
    assert "clientCapabilities" in again["params"]
    talk.send({"id": again["id"], "result": FIRST})
    assert talk.first.protocol_version == 1


@pytest.mark.parametrize("versions", [(1,), (2,), (2, 1)])
@pytest.mark.parametrize(
    "data", [{"requested": 2, "supported": [3, 4]}, {"supported": "1"}, {"supported": [True]}, None]
)
def test_an_agent_with_no_common_version_is_left(versions: tuple[int, ...], data: Any) -> None:
    """-32022: the connection is closed, and the program told which versions there are."""
    talk = asking(*versions)
    talk.refuse(-32022, data)
    error = talk.outcome.value
    assert isinstance(error, AcpVersionError)
    assert isinstance(error.__cause__, UnsupportedVersion)
    assert talk.raw.lost


def test_an_agent_that_refuses_what_it_named_is_left() -> None:
    """-32022 again, to the version that it said it speaks: the connection is closed, and nothing more is asked."""
    talk = asking(2, 1)
    for version in (2, 1):
        [question] = talk.take()
        assert question["params"]["protocolVersion"] == version
        talk.refuse(-32022, {"supported": [1, 2]}, number=question["id"])
    assert isinstance(talk.outcome.value, AcpVersionError)
    assert talk.take() == []
    assert talk.raw.lost


def test_a_client_of_version_1_alone_leaves_an_agent_of_version_2() -> None:
    """1.15: also the client that was never told of versions."""
    talk = FirstHalf(AcpClient.builder().build(), opened=False)
    asked = Watched(talk.connection.initialize())
    talk.send({"id": talk.last_id(), "result": SECOND})
    assert isinstance(asked.value, AcpVersionError)
    assert talk.raw.lost


def test_that_client_is_told_by_an_error_too() -> None:
    """2.07: -32022 is as good as the answer of a version that it does not speak; another error closes nothing."""
    talk = FirstHalf(AcpClient.builder().build(), opened=False)
    asked = Watched(talk.connection.initialize())
    talk.send({"id": talk.last_id(), "error": {"code": -32000, "message": "no"}})
    assert isinstance(asked.value, AuthRequired)
    assert not talk.raw.lost
    asked = Watched(talk.connection.initialize())
    talk.send({"id": talk.last_id(), "error": {"code": -32022, "message": "no", "data": {"supported": [2]}}})
    assert isinstance(asked.value, AcpVersionError)
    assert asked.value.version == [2]
    assert talk.raw.lost


def test_giving_up_and_being_too_late() -> None:
    """Rule 2: the question is cancelled like any other, and has the request timeout."""
    talk = UnagreedHalf(client(2, 1))
    talk.initialize().cancel()
    assert isinstance(talk.outcome.value, RequestCancelled)
    assert [each["method"] for each in talk.take()] == ["initialize", "$/cancel_request"]
    talk.initialize()
    talk.clock.advance(60)
    assert isinstance(talk.outcome.value, RequestTimedOut)


def test_a_link_that_is_lost_meanwhile() -> None:
    """P5: whoever asked is told, and so is who waits for the end."""
    talk = asking(2, 1)
    closed = Watched(talk.negotiation.when_closed())
    talk.lose()
    assert isinstance(talk.outcome.value, AcpConnectionError)
    assert closed.over


def test_closing_and_aborting_before_the_answer() -> None:
    """A negotiation can be ended like a connection."""
    for end in (lambda talk: talk.negotiation.close(), lambda talk: talk.negotiation.abort("enough")):
        talk = asking(2, 1)
        end(talk)
        assert isinstance(talk.outcome.value, AcpConnectionError)


# ---- going back to version 1 with all its features


class Reopening:
    """Another connection to the same agent, whose answer the test gives."""

    def __init__(self, made: VersionedClient) -> None:
        self.clock = Clock()
        self.client = made
        self.halves: list[FirstHalf] = []

    def __call__(self) -> Deferred[Any]:
        half = FirstHalf(self.client.first, opened=False)
        self.halves.append(half)
        return succeed(half.connection)


@pytest.mark.parametrize("features", [False, True])
def test_an_agent_of_version_1_is_told_of_files_on_a_new_connection(features: bool) -> None:
    """2.7: a question for version 2 can't say what only version 1 has, so the client asks anew where that matters."""
    more: dict[str, Any] = {"read_text_file_handler": lambda request: None} if features else {}
    made = client(2, 1, **more)
    reopening = Reopening(made)
    talk = UnagreedHalf(made)
    talk.negotiation = Negotiation(made, talk.clock, reopening)
    talk.link = MemoryLink(talk.negotiation.peer, talk.raw, talk.clock)
    talk.initialize()
    talk.answer(FIRST)
    if not features:
        assert reopening.halves == []
        assert talk.first.is_open
        return
    [other] = reopening.halves
    assert talk.raw.lost
    [sent] = other.take()
    assert sent["params"]["protocolVersion"] == 1
    assert sent["params"]["clientCapabilities"]["fs"]["readTextFile"] is True
    other.send({"id": sent["id"], "result": FIRST})
    assert talk.outcome is other.connection


@pytest.mark.parametrize("how", ["cancelled", "refused", "version"])
def test_a_new_connection_that_comes_to_nothing_is_closed(how: str) -> None:
    """Whatever ends the question in version 1, no agent is left running that nobody has a hold of."""
    made = client(2, 1, read_text_file_handler=lambda request: None)
    reopening = Reopening(made)
    talk = UnagreedHalf(made)
    talk.negotiation = Negotiation(made, talk.clock, reopening)
    talk.link = MemoryLink(talk.negotiation.peer, talk.raw, talk.clock)
    asked = talk.initialize()
    talk.answer(FIRST)
    [other] = reopening.halves
    [sent] = other.take()
    if how == "cancelled":
        asked.cancel()
    elif how == "refused":
        other.send({"id": sent["id"], "error": {"code": -32603, "message": "no"}})
    else:
        other.send({"id": sent["id"], "result": {"protocolVersion": 7}})
    kind = {"cancelled": RequestCancelled, "refused": AcpError, "version": AcpVersionError}[how]
    assert isinstance(talk.outcome.value, kind)
    assert other.raw.lost


def test_a_client_of_version_1_loads_nothing_of_version_2() -> None:
    """Who does not want version 2 does not wait for its classes."""
    program = (
        "import sys; from acp_twisted import AcpClient; AcpClient.builder().build(); "
        "import acp_twisted.cli.prompt; print([name for name in sys.modules if name.endswith('v2') or '.v2.' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
