"""
What two sides said to each other, in order, and what a test may say of it.

A failed assertion prints what was expected and the whole transcript, params and all: it is for tests, and what they
say to each other is no secret.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import define, field, frozen

from acp_twisted.testing._failed import failed

Kind: TypeAlias = Literal["request", "notification", "result", "error", "noise"]

_LONGEST = 300


@frozen
class Entry:
    """
    One message.

    @ivar number: its place, counted from 1.
    @ivar sender: who said it.
    @ivar receiver: who was told.
    @ivar kind: what it is; C{"noise"} is what is no message of JSON-RPC.
    @ivar method: its method; of an answer, that of the request which it answers, if that is known.
    @ivar message: the message itself; of what is no JSON, its text.
    """

    number: int
    sender: str
    receiver: str
    kind: Kind
    method: str | None
    message: Any

    @property
    def id(self) -> Any:
        """The id of a request or of an answer; else L{None}."""
        return self.message.get("id") if isinstance(self.message, dict) else None

    @property
    def body(self) -> Any:
        """The params, the result or the error."""
        if not isinstance(self.message, dict):
            return self.message
        return self.message.get({"result": "result", "error": "error"}.get(self.kind, "params"))

    def __str__(self) -> str:
        head = f"{self.number:3}. {self.sender} > {self.receiver}: {self.kind}"
        name = f" {self.method}" if self.method else ""
        number = f" #{self.id!r}" if self.kind in ("request", "result", "error") else ""
        text = json.dumps(self.body, ensure_ascii=False)
        return f"{head}{name}{number} {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}"


@frozen
class Pattern:
    """
    What a message may be like; made by L{requested}, L{notified}, L{updated}, L{became}, L{answered} and L{refused}.

    @ivar kinds: which kinds it may be.
    @ivar method: its method, if that matters.
    @ivar body: what must be in its params, result or error; see L{fits}.
    @ivar sender: who says it, if that matters.
    @ivar id: its id, if that matters.
    """

    kinds: tuple[Kind, ...]
    method: str | None = None
    body: object = None
    sender: str | None = None
    id: int | str | None = None

    def matches(self, entry: Entry) -> bool:
        """
        Whether C{entry} is such a message.
        """
        return (
            entry.kind in self.kinds
            and (self.method is None or entry.method == self.method)
            and (self.sender is None or entry.sender == self.sender)
            and (self.id is None or (type(entry.id) is type(self.id) and entry.id == self.id))
            and (self.body is None or fits(self.body, entry.body))
        )

    def __str__(self) -> str:
        parts = [" or ".join(self.kinds)]
        if self.sender is not None:
            parts.insert(0, f"{self.sender} says:")
        if self.method is not None:
            parts.append(self.method)
        if self.id is not None:
            parts.append(f"#{self.id!r}")
        if self.body is not None:
            parts.append(f"with {self.body!r}")
        return " ".join(parts)


Expected: TypeAlias = "str | Pattern"
"""A pattern, or the method of a request or notification."""


def requested(method: str, params: object = None, *, sender: str | None = None, id: int | str | None = None) -> Pattern:
    """
    A request.

    @param params: what must be in its params; see L{fits}.
    """
    return Pattern(("request",), method, params, sender, id)


def notified(method: str, params: object = None, *, sender: str | None = None) -> Pattern:
    """
    A notification.
    """
    return Pattern(("notification",), method, params, sender)


def updated(kind: str, *, session_id: str | None = None, **members: object) -> Pattern:
    """
    A C{session/update}.

    @param kind: such as C{"agent_message_chunk"}.
    @param members: what must be in the update, by the names on the wire.
    """
    params: dict[str, object] = {"update": {"sessionUpdate": kind, **members}}
    if session_id is not None:
        params["sessionId"] = session_id
    return Pattern(("notification",), "session/update", params)


def became(state: str, stop_reason: str | None = None, *, session_id: str | None = None, **members: object) -> Pattern:
    """
    Version 2.  The C{state_update} that a session is C{"running"}, C{"requires_action"} or C{"idle"} now.

    @param stop_reason: why it is idle.
    @param members: what else must be in it, by the names on the wire.
    """
    reason = {} if stop_reason is None else {"stopReason": stop_reason}
    return updated("state_update", session_id=session_id, state=state, **reason, **members)


def answered(
    method: str | None, result: object = None, *, sender: str | None = None, id: int | str | None = None
) -> Pattern:
    """
    A successful answer.

    @param method: that of the request.
    """
    return Pattern(("result",), method, result, sender, id)


def refused(
    method: str | None, code: int | None = None, *, sender: str | None = None, id: int | str | None = None
) -> Pattern:
    """
    An answer that is an error.

    @param method: that of the request; L{None} matches every one.
    """
    return Pattern(("error",), method, None if code is None else {"code": code}, sender, id)


def fits(wanted: object, got: object) -> bool:
    """
    Whether C{got} has all that is C{wanted}: of an object the members that are named, of a list every item, and a
    function may decide by itself.
    """
    if callable(wanted):
        return bool(wanted(got))
    if isinstance(wanted, Mapping):
        return isinstance(got, dict) and all(key in got and fits(value, got[key]) for key, value in wanted.items())
    if isinstance(wanted, (list, tuple)):
        return isinstance(got, list) and len(got) == len(wanted) and all(map(fits, wanted, got))
    return isinstance(wanted, bool) == isinstance(got, bool) and wanted == got


@define(eq=False)
class Transcript:
    """
    The conversation of two sides.

    @ivar entries: every message, in the order in which it was sent or arrived on the side that records.
    """

    entries: list[Entry] = field(factory=list)
    _methods: dict[tuple[str, str], str] = field(factory=dict)

    def record(self, sender: str, receiver: str, message: bytes) -> Entry:
        """
        Add a message.
        """
        kind: Kind = "noise"
        method = None
        try:
            decoded = json.loads(message)
        except ValueError:
            decoded = message.decode("utf-8", "replace")
        if isinstance(decoded, dict):
            number = decoded.get("id")
            key = _key(number)
            if isinstance(decoded.get("method"), str):
                method = decoded["method"]
                kind = "request" if "id" in decoded else "notification"
                if kind == "request":
                    self._methods[sender, key] = method
            elif "result" in decoded or "error" in decoded:
                kind = "error" if "error" in decoded else "result"
                method = self._methods.get((receiver, key))
        entry = Entry(len(self.entries) + 1, sender, receiver, kind, method, decoded)
        self.entries.append(entry)
        return entry

    def clear(self) -> None:
        """
        Forget what was said; requests that are not answered yet keep their names.
        """
        self.entries.clear()

    # ---- looking

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries)) or "  (nothing was said)"

    def select(self, expected: Expected) -> list[Entry]:
        """
        Every message like C{expected}.
        """
        pattern = _pattern(expected)
        return [entry for entry in self.entries if pattern.matches(entry)]

    def by_id(self, id: int | str, *, sender: str | None = None) -> list[Entry]:
        """
        The request of that id and its answers.

        @param sender: who asks, as both sides may use the same id.
        """
        return [
            entry
            for entry in self.entries
            if type(entry.id) is type(id)
            and entry.id == id
            and (sender is None or sender == (entry.sender if entry.kind == "request" else entry.receiver))
        ]

    @property
    def methods(self) -> list[str]:
        """
        Each message as one word: its method, or C{"result"}, C{"error"} or C{"noise"}.
        """
        return [
            entry.method if entry.method and entry.kind in ("request", "notification") else entry.kind
            for entry in self.entries
        ]

    # ---- saying

    def assert_order(self, *expected: Expected) -> None:
        """
        These messages were said in this order, whatever came between them.

        @raise AssertionError: with what did not come, and the transcript.
        """
        rest = iter(self.entries)
        for number, each in enumerate(expected, 1):
            pattern = _pattern(each)
            if not any(pattern.matches(entry) for entry in rest):
                wanted = "\n".join(f"{place:3}. {_pattern(one)}" for place, one in enumerate(expected, 1))
                self._fail(f"in this order:\n{wanted}\nbut number {number} did not come, or not behind those before it")

    def assert_exactly(self, *expected: Expected) -> None:
        """
        These messages were said, in this order, and no others.

        @raise AssertionError: with the first that is another, and the transcript.
        """
        wanted = "\n".join(f"{place:3}. {_pattern(one)}" for place, one in enumerate(expected, 1))
        for number, (each, entry) in enumerate(zip(expected, self.entries, strict=False), 1):
            if not _pattern(each).matches(entry):
                self._fail(f"exactly:\n{wanted}\nbut number {number} is another")
        if len(expected) != len(self.entries):
            self._fail(f"exactly:\n{wanted}\nbut there are {len(self.entries)} messages, not {len(expected)}")

    def assert_contains(self, *expected: Expected) -> None:
        """
        These messages were said, in any order; one message can't be two of them.

        @raise AssertionError: with those that were not, and the transcript.
        """
        rest = list(self.entries)
        missing = []
        for pattern in map(_pattern, expected):
            found = next((entry for entry in rest if pattern.matches(entry)), None)
            if found is None:
                missing.append(str(pattern))
            else:
                rest.remove(found)
        if missing:
            self._fail("\n".join(missing))

    def assert_count(self, expected: Expected, count: int) -> None:
        """
        As many messages were like this one.

        @raise AssertionError: with how many there were, and the transcript.
        """
        found = len(self.select(expected))
        if found != count:
            self._fail(f"{_pattern(expected)}, {count} times; it came {found} times")

    def assert_never(self, *expected: Expected) -> None:
        """
        No message was like any of these.

        @raise AssertionError: with the one that was, and the transcript.
        """
        for each in expected:
            found = self.select(each)
            if found:
                self._fail(f"never: {_pattern(each)}; it is number {found[0].number}")

    def assert_states(self, *expected: str | Pattern, session_id: str | None = None) -> None:
        """
        Version 2.  These are the states that were reported of a session, in this order, and no others.

        @param expected: each a state, such as C{"running"}, or what L{became} says of one.
        @param session_id: the session; L{None} takes those of all.
        @raise AssertionError: with the first that is another, and the transcript.
        """
        found = self.select(updated("state_update", session_id=session_id))
        patterns = [became(each) if isinstance(each, str) else each for each in expected]
        if len(found) != len(patterns) or not all(map(Pattern.matches, patterns, found)):
            wanted = "\n".join(f"{place:3}. {pattern}" for place, pattern in enumerate(patterns, 1))
            came = ", ".join(filter(None, map(_state_of, found))) or "none"
            self._fail(f"these states:\n{wanted or '  none'}\nbut those that came are {came}")

    def assert_each_answered_once(self) -> None:
        """
        Every request has one answer, and no answer is without its request.

        @raise AssertionError: with the request, and the transcript.
        """
        asked: dict[tuple[str, str], int] = {}
        for entry in self.entries:
            key = _key(entry.id)
            if entry.kind == "request":
                asked[entry.sender, key] = asked.get((entry.sender, key), 0) + 1
            elif entry.kind in ("result", "error"):
                asked[entry.receiver, key] = asked.get((entry.receiver, key), 0) - 1
        for (who, number), left in asked.items():
            if left:
                self._fail(f"one answer to each request; {who}'s {number} has {'none' if left > 0 else 'too many'}")

    def _fail(self, what: str) -> None:
        raise failed(f"expected {what}\nWhat was said:\n{self}")


def _key(number: object) -> str:
    """An id, told from another that only looks like it: C{7} is not C{"7"}."""
    return json.dumps(number)


def _pattern(expected: Expected) -> Pattern:
    return Pattern(("request", "notification"), expected) if isinstance(expected, str) else expected


def _state_of(entry: Entry) -> str:
    update = entry.body["update"]
    return " ".join(str(update[name]) for name in ("state", "stopReason") if update.get(name) is not None)


def says(entries: Sequence[Entry]) -> str:
    """
    The texts of the agent's messages among C{entries}, put together.
    """
    return spoken(entry.body for entry in entries if entry.method == "session/update" and entry.kind == "notification")


def spoken(notifications: Iterable[Any]) -> str:
    """
    The texts of the agent's messages in the params of C{session/update}, as JSON, put together: of its chunks, and of
    version 2's whole messages, each of which takes the place of what was said of it before.
    """
    said: list[tuple[tuple[Any, Any], str]] = []
    for body in notifications:
        update = body.get("update") if isinstance(body, dict) else None
        if not isinstance(update, dict):
            continue
        kind, content = update.get("sessionUpdate"), update.get("content")
        message = body.get("sessionId"), update.get("messageId")
        if kind == "agent_message_chunk":
            said.append((message, _text_of(content)))
        elif kind == "agent_message" and "content" in update:
            places = [place for place, (other, _) in enumerate(said) if other == message]
            first = places[0] if places else len(said)
            said = [each for each in said if each[0] != message]
            said.insert(first, (message, "".join(map(_text_of, content or ()))))
    return "".join(text for _, text in said)


def _text_of(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""
