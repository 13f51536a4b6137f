"""
The sessions that the scripted agent remembers, for as long as its process lives and whichever connection they began on.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from acp_twisted import CancellationToken, InvalidParams, ResourceNotFound
from acp_twisted.schema import v1
from acp_twisted.schema.converter import get_converter, structure
from acp_twisted.schema.vocabulary import vocabulary

MAX_SESSIONS = 10_000
"""More than these, and the oldest is forgotten."""

MAX_MESSAGES = 1_000
MAX_CHARACTERS = 1 << 20
"""What is kept of a conversation, for C{session/load}: its end, at most so many messages and characters."""

PAGE = 100
"""The sessions in one answer to C{session/list}."""


def is_text(block: object) -> bool:
    """
    Whether a content block, of either version, is text.
    """
    return type(block).__name__ == "TextContent"


class RememberedSession:
    """
    One session: where it was opened, and what was said.

    @ivar last_turn: the cancellation of its last turn, once there was one.
    """

    def __init__(self, session_id: str, request: Any) -> None:
        self.session_id = session_id
        self.cwd = request.cwd
        self.directories = request.additional_directories
        self.last_turn: CancellationToken | None = None
        self._said: deque[tuple[int, Any]] = deque()
        self._size = 0

    def heard(self, block: Any) -> None:
        """
        The user said something.
        """
        self._keep(len(block.text) if is_text(block) else 0, block)

    def said(self, text: str) -> None:
        """
        The agent said something.
        """
        self._keep(len(text), text)

    def _keep(self, size: int, message: Any) -> None:
        self._said.append((size, message))
        self._size += size
        while len(self._said) > MAX_MESSAGES or self._size > MAX_CHARACTERS:
            self._size -= self._said.popleft()[0]

    def updates(self, schema: Any) -> Iterator[Any]:
        """
        The conversation, as the updates that tell it again.

        @param schema: the module of the version's classes.
        """
        for _, message in list(self._said):
            named = {} if schema is v1 else {"message_id": str(uuid4())}
            if isinstance(message, str):
                yield schema.AgentMessageChunk(content=schema.TextContent(text=message), **named)
            else:
                yield schema.UserMessageChunk(content=_in_words_of(schema, message), **named)


def _in_words_of(schema: Any, block: Any) -> Any:
    """
    A content block, which may have been heard in the other version.
    """
    if type(block).__module__ == schema.__name__:
        return block
    other = vocabulary(2 if schema is v1 else 1).types
    return structure(get_converter().unstructure(block, unstructure_as=other.ContentBlock), schema.ContentBlock)


class Sessions:
    """
    All of them, and the handlers of the methods that are about sessions rather than turns.  They serve both versions of
    the protocol, which take the same answers.
    """

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, RememberedSession] = OrderedDict()

    def find(self, session_id: str) -> RememberedSession:
        """
        The session with that id.

        @raise ResourceNotFound: when there is none.
        """
        session = self._by_id.get(session_id)
        if session is None:
            raise ResourceNotFound("Session not found", {"sessionId": session_id})
        return session

    def new(self, request: Any) -> v1.NewSessionResponse:
        """
        Answer C{session/new}.
        """
        session_id = str(uuid4())
        self._by_id[session_id] = RememberedSession(session_id, request)
        if len(self._by_id) > MAX_SESSIONS:
            self._by_id.popitem(last=False)
        return v1.NewSessionResponse(session_id=session_id)

    async def load(self, request: Any, connection: Any) -> Any:
        """
        Answer C{session/load}, once everything that was said is said again; and in version 2 C{session/resume}, when
        that is wanted.
        """
        schema = connection.schema
        for update in self.find(request.session_id).updates(schema):
            await connection.send_update(request.session_id, update)
        return v1.LoadSessionResponse() if schema is v1 else schema.ResumeSessionResponse()

    def resume(self, request: Any) -> v1.ResumeSessionResponse:
        """
        Answer C{session/resume}: nothing is said again.
        """
        self.find(request.session_id)
        return v1.ResumeSessionResponse()

    def list(self, request: Any) -> v1.ListSessionsResponse:
        """
        Answer C{session/list}, in the order in which they were opened.  The cursor is the last id of the page before.
        """
        sessions = [each for each in self._by_id.values() if request.cwd in (None, each.cwd)]
        if request.cursor is not None:
            ids = [each.session_id for each in sessions]
            if request.cursor not in ids:
                raise InvalidParams("no such cursor", {"cursor": request.cursor})
            sessions = sessions[ids.index(request.cursor) + 1 :]
        page = sessions[:PAGE]
        return v1.ListSessionsResponse(
            sessions=[
                v1.SessionInfo(session_id=each.session_id, cwd=each.cwd, additional_directories=each.directories)
                for each in page
            ],
            next_cursor=page[-1].session_id if len(sessions) > PAGE else None,
        )

    def close(self, request: Any) -> v1.CloseSessionResponse:
        """
        Answer C{session/close}: the session can still be loaded and resumed.
        """
        return v1.CloseSessionResponse()

    def delete(self, request: Any) -> v1.DeleteSessionResponse:
        """
        Answer C{session/delete}; that of an unknown session is done already (1.70).
        """
        self._by_id.pop(request.session_id, None)
        return v1.DeleteSessionResponse()
