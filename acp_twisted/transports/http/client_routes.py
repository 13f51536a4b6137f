"""
Which session a message belongs to, both ways, and which requests are still unanswered (protocol 5.2).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final

from attrs import define, frozen

from acp_twisted.jsonrpc.messages import Id, Message, Notification, Request, Response, id_key, parse
from acp_twisted.limits import Limits
from acp_twisted.transports.http.client_posts import CONNECTION

INITIALIZE: Final = "initialize"
CANCEL: Final = "$/cancel_request"
_REATTACH: Final = frozenset({"session/load", "session/resume"})
_END: Final = frozenset({"session/close", "session/delete"})


@frozen
class Route:
    """
    What a message of ours is, as far as its way goes.

    @ivar name: its method, or C{answer}.
    @ivar session_id: of its header; L{None} for none.
    @ivar lane: what it keeps its order in.
    @ivar wants_answer: whether it is a request, whose id is C{id}.
    @ivar reattaches: whether it asks the agent to take a session up again.
    @ivar about: for a cancellation, the id of what is cancelled.
    """

    name: str
    session_id: str | None = None
    lane: str = CONNECTION
    wants_answer: bool = False
    id: Id = None
    about: Id = None

    @property
    def reattaches(self) -> bool:
        """
        Whether it asks the agent to take a session up again.
        """
        return self.name in _REATTACH


@define(eq=False)
class Asked:
    """
    A request of ours without an answer.

    @ivar session_id: of its session; L{None} for the connection's.
    """

    id: Id
    method: str
    session_id: str | None

    @property
    def ends_session(self) -> bool:
        """
        Whether its session is over once it was answered well.
        """
        return self.method in _END


class Routes:
    """
    Knows the requests of both sides.

    A message of ours whose params name a session goes with that session's header, and so does the answer to a request
    that came over that session's stream; a cancellation goes without one, and behind the request that it names.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._asked: dict[Hashable, Asked] = {}
        self._asked_by_server: OrderedDict[Hashable, str] = OrderedDict()
        self._settled: OrderedDict[Hashable, None] = OrderedDict()

    # ---- ours

    def outgoing(self, message: bytes) -> Route:
        """
        Where a message of ours goes; a request is remembered from now on.
        """
        parsed = parse(message)
        if isinstance(parsed, Request):
            session_id = _session_of(parsed.params)
            self._asked[id_key(parsed.id)] = Asked(parsed.id, parsed.method, session_id)
            return Route(parsed.method, session_id, session_id or CONNECTION, True, parsed.id)
        if isinstance(parsed, Notification):
            if parsed.method == CANCEL:
                about = parsed.params.get("requestId") if isinstance(parsed.params, dict) else None
                asked = self._asked.get(id_key(about))
                lane = CONNECTION if asked is None or asked.session_id is None else asked.session_id
                return Route(CANCEL, None, lane, about=about)
            session_id = _session_of(parsed.params)
            return Route(parsed.method, session_id, session_id or CONNECTION)
        if isinstance(parsed, Response):
            session_id = self._asked_by_server.pop(id_key(parsed.id), None)
            return Route("answer", session_id, session_id or CONNECTION)
        return Route("message")

    def asked(self, id: Id) -> Asked | None:
        """
        The unanswered request with that id.
        """
        return self._asked.get(id_key(id))

    def settle(self, id: Id) -> bool:
        """
        A request was answered from this side, because its answer can't come any more.

        @return: whether it was unanswered; then a late answer is known as such.
        """
        key = id_key(id)
        if self._asked.pop(key, None) is None:
            return False
        self._settled[key] = None
        if len(self._settled) > self._limits.max_remembered_ids:
            self._settled.popitem(last=False)
        return True

    def unanswered(self, session_id: str | None) -> list[Asked]:
        """
        The requests whose answers come over one stream.
        """
        return [asked for asked in self._asked.values() if asked.session_id == session_id]

    # ---- the server's

    def incoming(self, message: bytes, stream_id: str | None) -> tuple[Message | None, Asked | None, bool]:
        """
        What came over a stream.

        @return: the message, if it is a request or an answer; the request of ours that it answers; whether it is to be
            dropped, for what it answers was settled from this side.
        """
        # Most are updates, which have no id and go where they go; an id may only hide behind an escape.
        if b'"id"' not in message and b"\\u" not in message:
            return None, None, False
        parsed = parse(message)
        if isinstance(parsed, Response):
            key = id_key(parsed.id)
            asked = self._asked.pop(key, None)
            return parsed, asked, asked is None and self._settled.pop(key, 0) is None
        if isinstance(parsed, Request) and stream_id is not None:
            self._asked_by_server[id_key(parsed.id)] = stream_id
            if len(self._asked_by_server) > self._limits.max_incoming_requests:
                self._asked_by_server.popitem(last=False)
        return parsed, None, False


def session_in_result(parsed: Message | None) -> str | None:
    """
    The session that an answer has made.
    """
    if isinstance(parsed, Response) and isinstance(parsed.result, dict):
        return _session_of(parsed.result)
    return None


def _session_of(members: Any) -> str | None:
    session_id = members.get("sessionId") if isinstance(members, dict) else None
    return session_id if isinstance(session_id, str) else None


def header_value(session_id: str) -> bytes | None:
    """
    A session's id as a header has it; L{None} when it is none that a header can have.
    """
    if session_id and session_id == session_id.strip() and session_id.isascii() and session_id.isprintable():
        return session_id.encode("ascii")
    return None
