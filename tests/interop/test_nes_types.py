"""
Next edit suggestions against the TypeScript SDK's own schemas: what we write is what it reads, and the other way round.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from peers import peer

from acp_twisted import AcpAgent, AcpClient
from acp_twisted.nes import offer_nes, serve_nes
from acp_twisted.schema import nes
from acp_twisted.schema.converter import structure, unstructure

pytestmark = pytest.mark.interop

SOURCES = Path(__file__).resolve().parent / "peers_src"
HERE = nes.Position(line=1, character=2)
LINE = nes.Range(start=HERE, end=nes.Position(line=1, character=9))
URI = "file:///f.py"
CONTEXT = nes.NesSuggestContext(
    recent_files=[nes.NesRecentFile(uri=URI, language_id="python", text="")],
    related_snippets=[nes.NesRelatedSnippet(uri=URI, excerpts=[nes.NesExcerpt(start_line=0, end_line=1, text="")])],
    edit_history=[nes.NesEditHistoryEntry(uri=URI, diff="")],
    user_actions=[nes.NesUserAction(action="typed", uri=URI, position=HERE, timestamp_ms=1)],
    open_files=[nes.NesOpenFile(uri=URI, language_id="python", visible_range=LINE, last_focused_ms=2)],
    diagnostics=[nes.NesDiagnostic(uri=URI, range=LINE, severity="hint", message="m")],
)
SAMPLES: list[Any] = [
    nes.StartNesRequest(
        workspace_uri="file:///w",
        workspace_folders=[nes.WorkspaceFolder(uri="file:///w", name="w")],
        repository=nes.NesRepository(name="n", owner="o", remote_url="https://example.org/"),
        meta={"x": 1},
    ),
    nes.StartNesResponse(session_id="n1"),
    nes.SuggestNesRequest(
        session_id="n1", uri=URI, version=3, position=HERE, selection=LINE, trigger_kind="manual", context=CONTEXT
    ),
    nes.SuggestNesResponse(
        suggestions=[
            nes.NesEditSuggestion(id="1", uri=URI, edits=[nes.NesTextEdit(range=LINE, new_text="x")]),
            nes.NesJumpSuggestion(id="2", uri=URI, position=HERE),
            nes.NesRenameSuggestion(id="3", uri=URI, position=HERE, new_name="y"),
            nes.NesSearchAndReplaceSuggestion(id="4", uri=URI, search="a", replace="b", is_regex=True),
        ]
    ),
    nes.CloseNesRequest(session_id="n1"),
    nes.CloseNesResponse(),
    nes.AcceptNesNotification(session_id="n1", id="1"),
    nes.RejectNesNotification(session_id="n1", id="1", reason="replaced"),
    nes.DidOpenDocumentNotification(session_id="n1", uri=URI, language_id="python", version=1, text=""),
    nes.DidChangeDocumentNotification(
        session_id="n1",
        uri=URI,
        version=2,
        content_changes=[nes.TextDocumentContentChangeEvent(text="x", range=LINE)],
    ),
    nes.DidCloseDocumentNotification(session_id="n1", uri=URI),
    nes.DidSaveDocumentNotification(session_id="n1", uri=URI),
    nes.DidFocusDocumentNotification(session_id="n1", uri=URI, version=2, position=HERE, visible_range=LINE),
]


def test_the_typescript_sdk_reads_what_we_write() -> None:
    """Each message of ours comes out of the SDK's schema as it went in, and back into ours (6.5)."""
    agent = serve_nes(
        AcpAgent.builder(unstable=True).prompt_handler(print),
        start=print,
        suggest=print,
        close=print,
        did_change=print,
        sync_kind="incremental",
        context=nes.NesContextCapabilities(recent_files=nes.NesRecentFilesCapabilities(max_count=3)),
        position_encoding="utf-8",
    ).build()
    client = offer_nes(AcpClient.builder(unstable=True), jump=True, rename=True, position_encodings=["utf-8"]).build()
    written = [[type(each).__name__, unstructure(each)] for each in SAMPLES]
    given = [
        *written,
        ["AgentCapabilities", agent.extra_capabilities],
        ["ClientCapabilities", client.extra_capabilities],
    ]
    ts = peer("ts24")
    done = subprocess.run(
        ts.command(SOURCES / "ts_nes_check.mjs", ts.folder),
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    *read, agents, clients = json.loads(done.stdout)
    for sample, (name, value), parsed in zip(SAMPLES, written, read, strict=True):
        assert parsed == value, name
        assert structure(parsed, type(sample)) == sample
    for said, heard in ((agent.extra_capabilities, agents), (client.extra_capabilities, clients)):
        assert {name: heard[name] for name in said} == said
