"""
Next edit suggestions, and the documents that they are about: types of an optional module, which version 1 had for a
while and other SDKs still layer upon it.

Everything here is unstable.  L{acp_twisted.nes} is what uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from attrs import define

from acp_twisted.schema.values import META, Alternatives, MetaOnly, Model, Tagged, UnknownVariant, Wire

TextDocumentSyncKind: TypeAlias = Literal["full", "incremental"] | str
PositionEncodingKind: TypeAlias = Literal["utf-16", "utf-32", "utf-8"] | str
NesTriggerKind: TypeAlias = Literal["automatic", "diagnostic", "manual"] | str
NesDiagnosticSeverity: TypeAlias = Literal["error", "warning", "information", "hint"] | str
NesRejectReason: TypeAlias = Literal["rejected", "ignored", "replaced", "cancelled"] | str


@define(kw_only=True, eq=False, repr=False)
class NesCapabilities(Model):
    """
    Unstable.  What an agent wants to know of documents, and what with each question.
    """

    events: NesEventCapabilities | None = None
    context: NesContextCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "events": ("events", "NesEventCapabilities", "lenient"),
        "context": ("context", "NesContextCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesEventCapabilities(Model):
    """
    Unstable.  The events that an agent wants.
    """

    document: NesDocumentEventCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "document": ("document", "NesDocumentEventCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesDocumentEventCapabilities(Model):
    """
    Unstable.  The events of documents that an agent wants: those that are there.
    """

    did_open: NesDocumentDidOpenCapabilities | None = None
    did_change: NesDocumentDidChangeCapabilities | None = None
    did_close: NesDocumentDidCloseCapabilities | None = None
    did_save: NesDocumentDidSaveCapabilities | None = None
    did_focus: NesDocumentDidFocusCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "did_open": ("didOpen", "NesDocumentDidOpenCapabilities", "lenient"),
        "did_change": ("didChange", "NesDocumentDidChangeCapabilities", "lenient"),
        "did_close": ("didClose", "NesDocumentDidCloseCapabilities", "lenient"),
        "did_save": ("didSave", "NesDocumentDidSaveCapabilities", "lenient"),
        "did_focus": ("didFocus", "NesDocumentDidFocusCapabilities", "lenient"),
        "meta": META,
    }


class NesDocumentDidOpenCapabilities(MetaOnly):
    """
    Unstable.  The agent wants to know of documents that are opened.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class NesDocumentDidChangeCapabilities(Model):
    """
    Unstable.  The agent wants to know of changes, whole documents or only what changed.
    """

    sync_kind: TextDocumentSyncKind
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "sync_kind": ("syncKind", "str"),
        "meta": META,
    }


class NesDocumentDidCloseCapabilities(MetaOnly):
    """
    Unstable.  The agent wants to know of documents that are closed.
    """

    __slots__ = ()


class NesDocumentDidSaveCapabilities(MetaOnly):
    """
    Unstable.  The agent wants to know of documents that are saved.
    """

    __slots__ = ()


class NesDocumentDidFocusCapabilities(MetaOnly):
    """
    Unstable.  The agent wants to know which document the user looks at.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class NesContextCapabilities(Model):
    """
    Unstable.  What an agent wants with each question: what is there.
    """

    recent_files: NesRecentFilesCapabilities | None = None
    related_snippets: NesRelatedSnippetsCapabilities | None = None
    edit_history: NesEditHistoryCapabilities | None = None
    user_actions: NesUserActionsCapabilities | None = None
    open_files: NesOpenFilesCapabilities | None = None
    diagnostics: NesDiagnosticsCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "recent_files": ("recentFiles", "NesRecentFilesCapabilities", "lenient"),
        "related_snippets": ("relatedSnippets", "NesRelatedSnippetsCapabilities", "lenient"),
        "edit_history": ("editHistory", "NesEditHistoryCapabilities", "lenient"),
        "user_actions": ("userActions", "NesUserActionsCapabilities", "lenient"),
        "open_files": ("openFiles", "NesOpenFilesCapabilities", "lenient"),
        "diagnostics": ("diagnostics", "NesDiagnosticsCapabilities", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesRecentFilesCapabilities(Model):
    """
    Unstable.  Files that were looked at lately, at most so many.
    """

    max_count: int | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "max_count": ("maxCount", "uint32", "lenient"),
        "meta": META,
    }


class NesRelatedSnippetsCapabilities(MetaOnly):
    """
    Unstable.  Pieces of other files that have to do with it.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class NesEditHistoryCapabilities(Model):
    """
    Unstable.  The last changes, at most so many.
    """

    max_count: int | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "max_count": ("maxCount", "uint32", "lenient"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesUserActionsCapabilities(Model):
    """
    Unstable.  What the user did last, at most so many things.
    """

    max_count: int | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "max_count": ("maxCount", "uint32", "lenient"),
        "meta": META,
    }


class NesOpenFilesCapabilities(MetaOnly):
    """
    Unstable.  The files that are open.
    """

    __slots__ = ()


class NesDiagnosticsCapabilities(MetaOnly):
    """
    Unstable.  What is wrong with the document.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class ClientNesCapabilities(Model):
    """
    Unstable.  The kinds of suggestion, besides edits, that a client can show: those that are there.
    """

    jump: NesJumpCapabilities | None = None
    rename: NesRenameCapabilities | None = None
    search_and_replace: NesSearchAndReplaceCapabilities | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "jump": ("jump", "NesJumpCapabilities", "lenient"),
        "rename": ("rename", "NesRenameCapabilities", "lenient"),
        "search_and_replace": ("searchAndReplace", "NesSearchAndReplaceCapabilities", "lenient"),
        "meta": META,
    }


class NesJumpCapabilities(MetaOnly):
    """
    Unstable.  The client can jump to where the next edit may be.
    """

    __slots__ = ()


class NesRenameCapabilities(MetaOnly):
    """
    Unstable.  The client can rename a symbol.
    """

    __slots__ = ()


class NesSearchAndReplaceCapabilities(MetaOnly):
    """
    Unstable.  The client can search and replace.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class Position(Model):
    """
    Unstable.  A place in a document; both are counted from 0.
    """

    line: int
    character: int
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "line": ("line", "uint32"),
        "character": ("character", "uint32"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class Range(Model):
    """
    Unstable.  From a place to another, which is no longer within.
    """

    start: Position
    end: Position
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "start": ("start", "Position"),
        "end": ("end", "Position"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class WorkspaceFolder(Model):
    """
    Unstable.  A folder that the user works in.
    """

    uri: str
    name: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "uri": ("uri", "str"),
        "name": ("name", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesRepository(Model):
    """
    Unstable.  Where the folders come from.
    """

    name: str
    owner: str
    remote_url: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "name": ("name", "str"),
        "owner": ("owner", "str"),
        "remote_url": ("remoteUrl", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class StartNesRequest(Model):
    """
    Unstable.  Begin to suggest edits.
    """

    workspace_uri: str | None = None
    workspace_folders: Sequence[WorkspaceFolder] | None = None
    repository: NesRepository | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "workspace_uri": ("workspaceUri", "str"),
        "workspace_folders": ("workspaceFolders", "list[WorkspaceFolder]"),
        "repository": ("repository", "NesRepository"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class StartNesResponse(Model):
    """
    Unstable.  The session of these suggestions, which is none of the conversation's.
    """

    session_id: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SuggestNesRequest(Model):
    """
    Unstable.  Ask for suggestions at a place.
    """

    session_id: str
    uri: str
    version: int
    position: Position
    trigger_kind: NesTriggerKind
    selection: Range | None = None
    context: NesSuggestContext | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "uri": ("uri", "str"),
        "version": ("version", "int64"),
        "position": ("position", "Position"),
        "selection": ("selection", "Range"),
        "trigger_kind": ("triggerKind", "str"),
        "context": ("context", "NesSuggestContext"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesSuggestContext(Model):
    """
    Unstable.  What the agent wanted to know with each question.
    """

    recent_files: Sequence[NesRecentFile] | None = None
    related_snippets: Sequence[NesRelatedSnippet] | None = None
    edit_history: Sequence[NesEditHistoryEntry] | None = None
    user_actions: Sequence[NesUserAction] | None = None
    open_files: Sequence[NesOpenFile] | None = None
    diagnostics: Sequence[NesDiagnostic] | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "recent_files": ("recentFiles", "list[NesRecentFile]"),
        "related_snippets": ("relatedSnippets", "list[NesRelatedSnippet]"),
        "edit_history": ("editHistory", "list[NesEditHistoryEntry]"),
        "user_actions": ("userActions", "list[NesUserAction]"),
        "open_files": ("openFiles", "list[NesOpenFile]"),
        "diagnostics": ("diagnostics", "list[NesDiagnostic]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesRecentFile(Model):
    """
    Unstable.  A file that was looked at lately.
    """

    uri: str
    language_id: str
    text: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "uri": ("uri", "str"),
        "language_id": ("languageId", "str"),
        "text": ("text", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesRelatedSnippet(Model):
    """
    Unstable.  Pieces of another file.
    """

    uri: str
    excerpts: Sequence[NesExcerpt]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "uri": ("uri", "str"),
        "excerpts": ("excerpts", "list[NesExcerpt]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesExcerpt(Model):
    """
    Unstable.  Some lines of a file.
    """

    start_line: int
    end_line: int
    text: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "start_line": ("startLine", "uint32"),
        "end_line": ("endLine", "uint32"),
        "text": ("text", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesEditHistoryEntry(Model):
    """
    Unstable.  A change, as a diff.
    """

    uri: str
    diff: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "uri": ("uri", "str"),
        "diff": ("diff", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesUserAction(Model):
    """
    Unstable.  Something that the user did; the time is in milliseconds.
    """

    action: str
    uri: str
    position: Position
    timestamp_ms: int
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "action": ("action", "str"),
        "uri": ("uri", "str"),
        "position": ("position", "Position"),
        "timestamp_ms": ("timestampMs", "uint64"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesOpenFile(Model):
    """
    Unstable.  A file that is open; the time is in milliseconds.
    """

    uri: str
    language_id: str
    visible_range: Range | None = None
    last_focused_ms: int | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "uri": ("uri", "str"),
        "language_id": ("languageId", "str"),
        "visible_range": ("visibleRange", "Range"),
        "last_focused_ms": ("lastFocusedMs", "uint64"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesDiagnostic(Model):
    """
    Unstable.  Something that is wrong.
    """

    uri: str
    range: Range
    severity: NesDiagnosticSeverity
    message: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "uri": ("uri", "str"),
        "range": ("range", "Range"),
        "severity": ("severity", "str"),
        "message": ("message", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class SuggestNesResponse(Model):
    """
    Unstable.  What the agent suggests.
    """

    suggestions: Sequence[NesSuggestion]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "suggestions": ("suggestions", "list[NesSuggestion]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesTextEdit(Model):
    """
    Unstable.  Another text for a range.
    """

    range: Range
    new_text: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "range": ("range", "Range"),
        "new_text": ("newText", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesEditSuggestion(Model):
    """
    Unstable.  Edits of a document, and where the cursor should be then.
    """

    id: str
    uri: str
    edits: Sequence[NesTextEdit]
    cursor_position: Position | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("kind", "edit")
    WIRE: ClassVar[Wire] = {
        "id": ("id", "str"),
        "uri": ("uri", "str"),
        "edits": ("edits", "list[NesTextEdit]"),
        "cursor_position": ("cursorPosition", "Position"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesJumpSuggestion(Model):
    """
    Unstable.  A place where the next edit may be.
    """

    id: str
    uri: str
    position: Position
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("kind", "jump")
    WIRE: ClassVar[Wire] = {
        "id": ("id", "str"),
        "uri": ("uri", "str"),
        "position": ("position", "Position"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesRenameSuggestion(Model):
    """
    Unstable.  Another name for a symbol.
    """

    id: str
    uri: str
    position: Position
    new_name: str
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("kind", "rename")
    WIRE: ClassVar[Wire] = {
        "id": ("id", "str"),
        "uri": ("uri", "str"),
        "position": ("position", "Position"),
        "new_name": ("newName", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class NesSearchAndReplaceSuggestion(Model):
    """
    Unstable.  Something to search for and to replace.
    """

    id: str
    uri: str
    search: str
    replace: str
    is_regex: bool | None = None
    meta: dict[str, Any] | None = None

    TAG: ClassVar[tuple[str, str] | None] = ("kind", "searchAndReplace")
    WIRE: ClassVar[Wire] = {
        "id": ("id", "str"),
        "uri": ("uri", "str"),
        "search": ("search", "str"),
        "replace": ("replace", "str"),
        "is_regex": ("isRegex", "bool"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class CloseNesRequest(Model):
    """
    Unstable.  Stop suggesting, and cancel what is asked.
    """

    session_id: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "meta": META,
    }


class CloseNesResponse(MetaOnly):
    """
    Unstable.  It is over.
    """

    __slots__ = ()


@define(kw_only=True, eq=False, repr=False)
class AcceptNesNotification(Model):
    """
    Unstable.  The user took a suggestion.
    """

    session_id: str
    id: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "id": ("id", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class RejectNesNotification(Model):
    """
    Unstable.  The user did not take a suggestion.
    """

    session_id: str
    id: str
    reason: NesRejectReason | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "id": ("id", "str"),
        "reason": ("reason", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class DidOpenDocumentNotification(Model):
    """
    Unstable.  A document is open.
    """

    session_id: str
    uri: str
    language_id: str
    version: int
    text: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "uri": ("uri", "str"),
        "language_id": ("languageId", "str"),
        "version": ("version", "int64"),
        "text": ("text", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class TextDocumentContentChangeEvent(Model):
    """
    Unstable.  Another text for a range, or for the whole document.
    """

    text: str
    range: Range | None = None
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "range": ("range", "Range"),
        "text": ("text", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class DidChangeDocumentNotification(Model):
    """
    Unstable.  A document has changed.
    """

    session_id: str
    uri: str
    version: int
    content_changes: Sequence[TextDocumentContentChangeEvent]
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "uri": ("uri", "str"),
        "version": ("version", "int64"),
        "content_changes": ("contentChanges", "list[TextDocumentContentChangeEvent]"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class DidCloseDocumentNotification(Model):
    """
    Unstable.  A document is closed.
    """

    session_id: str
    uri: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "uri": ("uri", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class DidSaveDocumentNotification(Model):
    """
    Unstable.  A document is saved.
    """

    session_id: str
    uri: str
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "uri": ("uri", "str"),
        "meta": META,
    }


@define(kw_only=True, eq=False, repr=False)
class DidFocusDocumentNotification(Model):
    """
    Unstable.  The user looks at a document.
    """

    session_id: str
    uri: str
    version: int
    position: Position
    visible_range: Range
    meta: dict[str, Any] | None = None

    WIRE: ClassVar[Wire] = {
        "session_id": ("sessionId", "str"),
        "uri": ("uri", "str"),
        "version": ("version", "int64"),
        "position": ("position", "Position"),
        "visible_range": ("visibleRange", "Range"),
        "meta": META,
    }


NesSuggestion: TypeAlias = (
    NesEditSuggestion | NesJumpSuggestion | NesRenameSuggestion | NesSearchAndReplaceSuggestion | UnknownVariant
)

UNIONS: dict[str, Alternatives] = {
    "NesSuggestion": Tagged(
        "kind",
        {
            "edit": "NesEditSuggestion",
            "jump": "NesJumpSuggestion",
            "rename": "NesRenameSuggestion",
            "searchAndReplace": "NesSearchAndReplaceSuggestion",
        },
    ),
}
