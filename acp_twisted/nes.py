"""
Next edit suggestions: an optional module beside version 1 of the protocol, which had it for a while.  Everything here
is unstable.

An agent that suggests is built with L{serve_nes}; a client asks with L{Nes}.  Both say so in C{initialize}, where an
agent also says which documents' events it wants, and what it wants with each question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from acp_twisted.handlers import Handler, outcome, two_arguments
from acp_twisted.schema import nes
from acp_twisted.schema.converter import unstructure

if TYPE_CHECKING:
    from acp_twisted.agent.agent import AcpAgentBuilder
    from acp_twisted.client.client import AcpClientBuilder
    from acp_twisted.client.connection import ClientConnection
    from acp_twisted.connection import Connection
    from acp_twisted.jsonrpc.calls import Call

_log = Logger()
_B = TypeVar("_B", bound="AcpAgentBuilder | AcpClientBuilder")

_SHOWN: Final[dict[type, str]] = {
    nes.NesJumpSuggestion: "nes.jump",
    nes.NesRenameSuggestion: "nes.rename",
    nes.NesSearchAndReplaceSuggestion: "nes.searchAndReplace",
}
"""What a client must have said for a kind of suggestion; edits are for all."""


def _unstable(builder: _B) -> _B:
    if not builder.takes_unstable:
        raise ValueError("next edit suggestions are not settled; make the builder with unstable=True to have them")
    return builder


def serve_nes(
    builder: AcpAgentBuilder,
    *,
    start: Handler,
    suggest: Handler,
    close: Handler,
    accept: Handler | None = None,
    reject: Handler | None = None,
    did_open: Handler | None = None,
    did_change: Handler | None = None,
    did_close: Handler | None = None,
    did_save: Handler | None = None,
    did_focus: Handler | None = None,
    sync_kind: nes.TextDocumentSyncKind = "full",
    context: nes.NesContextCapabilities | None = None,
    position_encoding: nes.PositionEncodingKind | None = None,
) -> AcpAgentBuilder:
    """
    Unstable.  Have an agent suggest edits.  Each handler takes the request or the notification of
    L{acp_twisted.schema.nes}, and the connection if it likes.  The agent wants to know of those events that have a
    handler.

    @param sync_kind: whether C{did_change} is to have whole documents (C{"full"}) or what changed (C{"incremental"}).
    @param context: what the agent wants with each question.
    @param position_encoding: how characters are counted; UTF-16 unless said otherwise.
    @return: the same builder.
    @raise ValueError: when it was made without C{unstable=True}.
    """
    _unstable(builder)
    for method, kind, handler in (
        ("nes/start", nes.StartNesRequest, start),
        ("nes/suggest", nes.SuggestNesRequest, _showable(suggest)),
        ("nes/close", nes.CloseNesRequest, close),
    ):
        builder.method_handler(method, handler, kind, answered=True)
    told: list[tuple[str, type, Handler | None]] = [
        ("nes/accept", nes.AcceptNesNotification, accept),
        ("nes/reject", nes.RejectNesNotification, reject),
        ("document/didOpen", nes.DidOpenDocumentNotification, did_open),
        ("document/didChange", nes.DidChangeDocumentNotification, did_change),
        ("document/didClose", nes.DidCloseDocumentNotification, did_close),
        ("document/didSave", nes.DidSaveDocumentNotification, did_save),
        ("document/didFocus", nes.DidFocusDocumentNotification, did_focus),
    ]
    for event, notice, each in told:
        if each is not None:
            builder.method_handler(event, each, notice, answered=False)
    events = nes.NesDocumentEventCapabilities(
        did_open=nes.NesDocumentDidOpenCapabilities() if did_open else None,
        did_change=nes.NesDocumentDidChangeCapabilities(sync_kind=sync_kind) if did_change else None,
        did_close=nes.NesDocumentDidCloseCapabilities() if did_close else None,
        did_save=nes.NesDocumentDidSaveCapabilities() if did_save else None,
        did_focus=nes.NesDocumentDidFocusCapabilities() if did_focus else None,
    )
    said = nes.NesCapabilities(events=nes.NesEventCapabilities(document=events), context=context)
    extra: dict[str, Any] = {"nes": unstructure(said)}
    if position_encoding is not None:
        extra["positionEncoding"] = position_encoding
    return builder.extra_capabilities(extra)


def _showable(suggest: Handler) -> Callable[[Any, Connection], Any]:
    """
    A handler of C{nes/suggest} whose suggestions the client can show.
    """
    handler = two_arguments(suggest, "suggest")

    def answer(request: nes.SuggestNesRequest, connection: Connection) -> Any:
        result = outcome(handler(request, connection))
        if isinstance(result, Deferred):
            return result.addCallback(_without_others, connection)
        return _without_others(result, connection)

    return answer


def _without_others(response: Any, connection: Connection) -> Any:
    if not isinstance(response, nes.SuggestNesResponse):
        return response
    kept = [
        each for each in response.suggestions if type(each) not in _SHOWN or connection.supports(_SHOWN[type(each)])
    ]
    if len(kept) < len(response.suggestions):
        _log.warn("{count} suggestions are left out", count=len(response.suggestions) - len(kept))
    return evolve(response, suggestions=kept)


def offer_nes(
    builder: AcpClientBuilder,
    *,
    jump: bool = False,
    rename: bool = False,
    search_and_replace: bool = False,
    position_encodings: Sequence[nes.PositionEncodingKind] = (),
) -> AcpClientBuilder:
    """
    Unstable.  Have a client say which suggestions it can show; edits it always can.

    @param position_encodings: how it can count characters, the best first; UTF-16 is always among them.
    @return: the same builder.
    @raise ValueError: when it was made without C{unstable=True}.
    """
    _unstable(builder)
    said = nes.ClientNesCapabilities(
        jump=nes.NesJumpCapabilities() if jump else None,
        rename=nes.NesRenameCapabilities() if rename else None,
        search_and_replace=nes.NesSearchAndReplaceCapabilities() if search_and_replace else None,
    )
    extra: dict[str, Any] = {"nes": unstructure(said)}
    if position_encodings:
        extra["positionEncodings"] = list(position_encodings)
    return builder.extra_capabilities(extra)


class Nes:
    """
    Unstable.  The suggestions of one agent, for a client.

    What the agent did not advertise raises L{AcpCapabilityError<acp_twisted.errors.AcpCapabilityError>}.

    @ivar connection: the connection to the agent.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def start(self, request: nes.StartNesRequest | None = None) -> Call[NesSession]:
        """
        Send C{nes/start}.

        @return: the session of these suggestions.
        """
        self.connection.require("nes")
        call = self.connection.ext_request("nes/start", request or nes.StartNesRequest(), result=nes.StartNesResponse)
        call.addCallback(lambda response: NesSession(self.connection, response.session_id))
        call.nobody_listens()
        return call


class NesSession:
    """
    Unstable.  One session of suggestions.

    @ivar connection: the connection to the agent.
    @ivar session_id: the agent's name for it.
    """

    def __init__(self, connection: ClientConnection, session_id: str) -> None:
        self.connection = connection
        self.session_id = session_id

    def suggest(
        self,
        uri: str,
        version: int,
        position: nes.Position,
        *,
        trigger_kind: nes.NesTriggerKind = "automatic",
        selection: nes.Range | None = None,
        context: nes.NesSuggestContext | None = None,
        **call_options: Any,
    ) -> Call[nes.SuggestNesResponse]:
        """
        Send C{nes/suggest}.

        @param context: what the agent wanted to know with each question.
        """
        request = nes.SuggestNesRequest(
            session_id=self.session_id,
            uri=uri,
            version=version,
            position=position,
            trigger_kind=trigger_kind,
            selection=selection,
            context=context,
        )
        return self.connection.ext_request("nes/suggest", request, result=nes.SuggestNesResponse, **call_options)

    def accept(self, suggestion_id: str) -> Deferred[None]:
        """
        Send C{nes/accept}: the user took a suggestion.
        """
        return self._tell("nes/accept", nes.AcceptNesNotification(session_id=self.session_id, id=suggestion_id))

    def reject(self, suggestion_id: str, reason: nes.NesRejectReason | None = None) -> Deferred[None]:
        """
        Send C{nes/reject}: he did not.
        """
        notice = nes.RejectNesNotification(session_id=self.session_id, id=suggestion_id, reason=reason)
        return self._tell("nes/reject", notice)

    def did_open(self, uri: str, language_id: str, version: int, text: str) -> Deferred[None]:
        """
        Send C{document/didOpen}.
        """
        notice = nes.DidOpenDocumentNotification(
            session_id=self.session_id, uri=uri, language_id=language_id, version=version, text=text
        )
        return self._event("didOpen", notice)

    def did_change(
        self, uri: str, version: int, changes: Sequence[nes.TextDocumentContentChangeEvent]
    ) -> Deferred[None]:
        """
        Send C{document/didChange}.
        """
        notice = nes.DidChangeDocumentNotification(
            session_id=self.session_id, uri=uri, version=version, content_changes=list(changes)
        )
        return self._event("didChange", notice)

    def did_close(self, uri: str) -> Deferred[None]:
        """
        Send C{document/didClose}.
        """
        return self._event("didClose", nes.DidCloseDocumentNotification(session_id=self.session_id, uri=uri))

    def did_save(self, uri: str) -> Deferred[None]:
        """
        Send C{document/didSave}.
        """
        return self._event("didSave", nes.DidSaveDocumentNotification(session_id=self.session_id, uri=uri))

    def did_focus(self, uri: str, version: int, position: nes.Position, visible_range: nes.Range) -> Deferred[None]:
        """
        Send C{document/didFocus}.
        """
        notice = nes.DidFocusDocumentNotification(
            session_id=self.session_id, uri=uri, version=version, position=position, visible_range=visible_range
        )
        return self._event("didFocus", notice)

    def close(self) -> Call[nes.CloseNesResponse]:
        """
        Send C{nes/close}: the agent cancels what is asked.
        """
        request = nes.CloseNesRequest(session_id=self.session_id)
        return self.connection.ext_request("nes/close", request, result=nes.CloseNesResponse)

    def _event(self, name: str, notice: object) -> Deferred[None]:
        self.connection.require(f"nes.events.document.{name}")
        return self._tell(f"document/{name}", notice)

    def _tell(self, method: str, notice: object) -> Deferred[None]:
        return self.connection.ext_notification(method, notice)
