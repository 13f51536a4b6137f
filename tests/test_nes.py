"""
Next edit suggestions: an optional module, from a client to an agent and back.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from halves import AgentHalf, ClientHalf
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from wire import success

from acp_twisted import AcpAgent, AcpCapabilityError, AcpClient
from acp_twisted.nes import Nes, NesSession, offer_nes, serve_nes
from acp_twisted.schema import nes
from acp_twisted.schema.converter import structure, unstructure
from acp_twisted.schema.values import UNSET, Model, UnknownVariant
from acp_twisted.transports.memory import MemoryLink

HERE = nes.Position(line=1, character=2)
LINE = nes.Range(start=HERE, end=nes.Position(line=1, character=9))
URI = "file:///f.py"
SUGGESTIONS: list[Any] = [
    nes.NesEditSuggestion(id="1", uri=URI, edits=[nes.NesTextEdit(range=LINE, new_text="x")], cursor_position=HERE),
    nes.NesJumpSuggestion(id="2", uri=URI, position=HERE),
    nes.NesRenameSuggestion(id="3", uri=URI, position=HERE, new_name="y"),
    nes.NesSearchAndReplaceSuggestion(id="4", uri=URI, search="a", replace="b", is_regex=True),
    UnknownVariant("_spin", {"kind": "_spin", "id": "5"}),
]
CONTEXT = nes.NesSuggestContext(
    recent_files=[nes.NesRecentFile(uri=URI, language_id="python", text="")],
    related_snippets=[nes.NesRelatedSnippet(uri=URI, excerpts=[nes.NesExcerpt(start_line=0, end_line=1, text="")])],
    edit_history=[nes.NesEditHistoryEntry(uri=URI, diff="")],
    user_actions=[nes.NesUserAction(action="typed", uri=URI, position=HERE, timestamp_ms=1)],
    open_files=[nes.NesOpenFile(uri=URI, language_id="python", visible_range=LINE, last_focused_ms=2)],
    diagnostics=[nes.NesDiagnostic(uri=URI, range=LINE, severity="hint", message="m")],
)
EVENTS = ("did_open", "did_change", "did_close", "did_save", "did_focus")


class Suggesting:
    """An agent that suggests everything, and a client that shows what a test says."""

    def __init__(self, *, events: tuple[str, ...] = EVENTS, **shown: bool) -> None:
        self.heard: list[Any] = []
        builder = AcpAgent.builder(unstable=True).prompt_handler(lambda request: Deferred())
        more: dict[str, Any] = dict.fromkeys(events, self.heard.append)
        serve_nes(
            builder,
            start=self.start,
            suggest=self.suggest,
            close=self.heard.append,
            accept=self.heard.append,
            reject=self.heard.append,
            sync_kind="incremental",
            context=nes.NesContextCapabilities(recent_files=nes.NesRecentFilesCapabilities(max_count=3)),
            position_encoding="utf-8",
            **more,
        )
        clock = Clock()
        client = offer_nes(AcpClient.builder(unstable=True), position_encodings=["utf-8"], **shown)
        self.client = client.build().connection(clock)
        self.agent = builder.build().connect(clock)
        self.link = MemoryLink(self.client.peer, self.agent.peer, clock)
        self.said = success(self.client.initialize())

    def start(self, request: nes.StartNesRequest) -> nes.StartNesResponse:
        self.heard.append(request)
        return nes.StartNesResponse(session_id="n1")

    async def suggest(self, request: nes.SuggestNesRequest) -> nes.SuggestNesResponse:
        self.heard.append(request)
        return nes.SuggestNesResponse(suggestions=SUGGESTIONS)

    def session(self) -> NesSession:
        """A session of suggestions."""
        session: NesSession = success(Nes(self.client).start())
        return session


def test_a_session_of_suggestions() -> None:
    """Start, ask with everything that the agent wants, take and leave suggestions, stop (6.5)."""
    both = Suggesting(jump=True, rename=True, search_and_replace=True)
    session = both.session()
    answer = success(session.suggest(URI, 3, HERE, trigger_kind="manual", selection=LINE, context=CONTEXT))
    assert answer.suggestions == SUGGESTIONS
    session.accept("1")
    session.reject("2", "ignored")
    assert success(session.close()) == nes.CloseNesResponse()
    started, asked, accepted, rejected, closed = both.heard
    assert started == nes.StartNesRequest()
    assert (asked.context, asked.selection, asked.trigger_kind) == (CONTEXT, LINE, "manual")
    assert (accepted.id, rejected.reason, closed.session_id) == ("1", "ignored", "n1")
    assert both.agent.supports("nes.searchAndReplace")
    assert both.client.supports("nes.context.recentFiles.maxCount")
    assert both.agent.session_ids == ()


def test_only_what_the_client_can_show_is_suggested() -> None:
    """Edits are for every client; other kinds are for those that said so (6.5)."""
    both = Suggesting(rename=True)
    answer = success(both.session().suggest(URI, 3, HERE))
    assert [each.id for each in answer.suggestions if not isinstance(each, UnknownVariant)] == ["1", "3"]


TELL: dict[str, Callable[[NesSession], Any]] = {
    "did_open": lambda s: s.did_open(URI, "python", 1, "text"),
    "did_change": lambda s: s.did_change(URI, 2, [nes.TextDocumentContentChangeEvent(text="x", range=LINE)]),
    "did_close": lambda s: s.did_close(URI),
    "did_save": lambda s: s.did_save(URI),
    "did_focus": lambda s: s.did_focus(URI, 2, HERE, LINE),
}


@pytest.mark.parametrize("event", EVENTS)
def test_documents_are_told_of_to_who_wants_to_know(event: str) -> None:
    """An agent wants the events that it has handlers for, and gets no other (6.5)."""
    both = Suggesting(events=(event,))
    session = both.session()
    both.heard.clear()
    TELL[event](session)
    [notice] = both.heard
    assert (notice.session_id, notice.uri) == ("n1", URI)
    for other in EVENTS:
        if other != event:
            with pytest.raises(AcpCapabilityError, match=r"nes\.events\.document\.did"):
                TELL[other](session)
    assert len(both.heard) == 1


def test_agents_without_suggestions_are_left_alone() -> None:
    """A client asks only an agent that said so; one that did not answers -32601 (1.17)."""
    half = ClientHalf(AcpClient.builder().build())
    with pytest.raises(AcpCapabilityError, match="nes"):
        Nes(half.connection).start()
    assert half.take() == []
    plain = AgentHalf(AcpAgent.builder().prompt_handler(print).build())
    plain.send({"id": 1, "method": "nes/start", "params": {}})
    assert plain.answers(1)[0]["error"]["code"] == -32601


def test_what_initialize_says() -> None:
    """Both sides say it beside the capabilities of the protocol, at the root, as other SDKs have it (6.5, 1.7)."""
    both = Suggesting(jump=True)
    [asked] = both.link.sent("a>b")[:1]
    [told] = both.link.sent("b>a")[:1]
    assert b'"nes":{"jump":{}}' in asked
    assert b'"positionEncodings":["utf-8"]' in asked
    assert b'"didChange":{"syncKind":"incremental"}' in told
    assert b'"positionEncoding":"utf-8"' in told
    assert both.said.protocol_version == 1


def test_it_wants_to_be_asked_for() -> None:
    """It is unstable, on both sides, and an agent that does not use it never loads it (start-up time)."""
    with pytest.raises(ValueError, match="unstable=True"):
        serve_nes(AcpAgent.builder(), start=print, suggest=print, close=print)
    with pytest.raises(ValueError, match="unstable=True"):
        offer_nes(AcpClient.builder())
    loaded = "import acp_twisted, sys; print([m for m in sys.modules if m.endswith('.nes')])"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_type_goes_there_and_back() -> None:
    """Each class of the module has _meta, names on the wire in camelCase, and survives JSON (MetaCoverageTest)."""
    kinds = [each for each in vars(nes).values() if isinstance(each, type) and issubclass(each, Model)]
    own = [each for each in kinds if each.__module__ == nes.__name__]
    assert len(own) > 40
    for kind in own:
        assert kind.WIRE["meta"][0] == "_meta"
        assert all("_" not in spelled[0] for name, spelled in kind.WIRE.items() if name != "meta")
        assert {each.name for each in attrs.fields(kind)} == set(kind.WIRE)
    for value in [*SUGGESTIONS[:4], CONTEXT, LINE]:
        again = structure(unstructure(value), type(value))
        assert again == value
        assert again is not UNSET
