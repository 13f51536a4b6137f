"""
What must be true of a recorded conversation, whatever was cancelled when.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from attrs import define, field

from interop.wires import Wire

Json = dict[str, Any]
CANCELLED, REQUEST_CANCELLED, BUSY = "cancelled", -32800, -32600


def _key(value: object) -> str:
    return json.dumps(value)


@define
class Asked:
    """
    One request on the wire.

    @ivar at: where it stands; C{answered_at} is where its first answer stands.
    @ivar cancels: where each C{$/cancel_request} for it stands.
    """

    side: str
    at: int
    message: Json
    answers: list[Json] = field(factory=list)
    answered_at: int | None = None
    cancels: list[int] = field(factory=list)

    @property
    def session(self) -> str:
        """
        The session that it is about.
        """
        return str((self.message.get("params") or {}).get("sessionId"))

    @property
    def text(self) -> str:
        """
        What a prompt says.
        """
        return "".join(block.get("text", "") for block in self.message["params"]["prompt"])

    @property
    def outcome(self) -> str | int | None:
        """
        The stop reason or the error code; L{None} without an answer.
        """
        if not self.answers:
            return None
        answer = self.answers[0]
        return int(answer["error"]["code"]) if "error" in answer else str(answer["result"].get("stopReason"))

    def open_at(self, position: int) -> bool:
        """
        Whether it stood unanswered there.
        """
        return self.at < position and (self.answered_at is None or position < self.answered_at)


@define
class Conversation:
    """
    A wire, read.

    @ivar exact: whether it was recorded at our own end, so that what stands before an answer of ours was known to us
        when we gave it.  A tap in between sees some of that later than the peers.
    @ivar cut: whether the connection was lost before everything was answered.
    """

    wire: Wire
    exact: bool
    cut: bool = False
    requests: list[Asked] = field(factory=list)
    messages: list[tuple[int, str, Json]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        asked: dict[tuple[str, str], Asked] = {}
        other = {"client": "agent", "agent": "client"}
        for at, (side, line) in enumerate(self.wire.sent):
            if not line.endswith("\n"):
                continue  # a line that the cut went through
            message = json.loads(line)
            self.messages.append((at, side, message))
            if "method" in message and "id" in message:
                assert (side, _key(message["id"])) not in asked, f"an id was used twice: {message}"
                asked[side, _key(message["id"])] = request = Asked(side, at, message)
                self.requests.append(request)
            elif "method" not in message and "id" in message:
                request = asked[other[side], _key(message["id"])]
                request.answers.append(message)
                if request.answered_at is None:
                    request.answered_at = at
            elif message.get("method") == "$/cancel_request":
                cancelled = asked.get((side, _key(message["params"]["requestId"])))
                if cancelled is not None:
                    cancelled.cancels.append(at)

    def of(self, side: str, method: str) -> list[Asked]:
        """
        The requests of one side.
        """
        return [each for each in self.requests if each.side == side and each.message["method"] == method]

    def prompts(self) -> list[Asked]:
        """
        The turns, refused ones too.
        """
        return self.of("client", "session/prompt")

    def notified(self, side: str, method: str) -> Iterator[tuple[int, Json]]:
        """
        The notifications of that method, and where they stand.
        """
        for at, by, message in self.messages:
            if by == side and message.get("method") == method and "id" not in message:
                yield at, message["params"]

    def assert_answered_once(self, by: str) -> None:
        """
        Rule 1: each request that C{by} got has one answer; only a lost connection excuses it.
        """
        asker = "agent" if by == "client" else "client"
        for each in self.requests:
            if each.side == asker:
                allowed = (0, 1) if self.cut else (1,)
                assert len(each.answers) in allowed, f"{len(each.answers)} answers: {each}"

    def assert_cancelled_once(self, by: str) -> None:
        """
        Rule 2: at most one C{$/cancel_request} for a request of C{by}, and only while it is unanswered.
        """
        for each in self.requests:
            if each.side == by:
                assert len(each.cancels) <= 1, f"cancelled {len(each.cancels)} times: {each}"
                for at in each.cancels:
                    assert not self.exact or each.open_at(at), f"cancelled after its answer: {each}"

    def assert_updates_belong_to_a_turn(self) -> None:
        """
        Rule 4: no update of a session after the answer of its turn, unless in the next one.
        """
        turns = [each for each in self.prompts() if each.outcome != BUSY]
        for at, params in self.notified("agent", "session/update"):
            running = [each for each in turns if each.session == params["sessionId"] and each.open_at(at)]
            assert running, f"an update outside of any turn, at {at}: {params}"

    # ---- our agent

    def assert_turn_table(self) -> Counter[str]:
        """
        The turn table of the design, for each prompt that our agent answered.

        @return: how often each row was seen.
        """
        seen: Counter[str] = Counter()
        accepted: list[Asked] = []
        for turn in self.prompts():
            before = [each for each in accepted if each.session == turn.session and each.open_at(turn.at)]
            if turn.outcome is None:
                if not before or not self.exact:  # in between, one that was accepted may seem to have come too early
                    accepted.append(turn)
                continue
            if turn.outcome == BUSY:
                assert before, f"refused though nothing ran: {turn}"
                assert turn.answers[0]["error"]["data"] == {"sessionId": turn.session}
                seen["refused"] += 1
                continue
            assert not before or not self.exact, f"accepted while {before[0]} ran: {turn}"
            accepted.append(turn)
            seen[self._row(turn)] += 1
        return seen

    def _row(self, turn: Asked) -> str:
        assert turn.answered_at is not None
        cancels: list[tuple[int, str | int]] = [(at, REQUEST_CANCELLED) for at in turn.cancels if turn.open_at(at)]
        for at, params in self.notified("client", "session/cancel"):
            if params["sessionId"] == turn.session and turn.open_at(at):
                cancels.append((at, CANCELLED))
        first = min(cancels)[1] if cancels else None
        natural = _natural(turn.text)
        # Seen from in between, the last of the cancellations may have crossed the answer, though not where nothing
        # else could end the turn.
        allowed: set[str | int | None] = {first} if first is not None and self.exact else {first, *natural}
        assert turn.outcome in allowed, f"{turn.outcome} where {allowed} may be: {turn}, cancelled by {cancels}"
        return f"{'nothing' if first is None else first} -> {turn.outcome}"

    # ---- our client

    def assert_permissions_fall_with_their_turn(self) -> int:
        """
        V1C3: with C{session/cancel}, the client answers each open permission request of the session C{cancelled}, at
        once: nothing else that it says comes between.

        @return: how many.
        """
        count = 0
        said = [(at, message) for at, side, message in self.messages if side == "client"]
        positions = {at: n for n, (at, _) in enumerate(said)}
        for at, params in self.notified("client", "session/cancel"):
            session = params["sessionId"]
            near = [
                each
                for each in self.of("agent", "session/request_permission")
                if each.session == session and each.open_at(at)
            ]
            for n, each in enumerate(near):
                assert each.answered_at is not None, f"left open: {each}"
                assert each.answers[0].get("result") == {"outcome": {"outcome": "cancelled"}}, each
                if self.exact:
                    assert positions[each.answered_at] <= positions[at] + len(near), f"late, {n}: {each}"
                count += 1
        return count


def _natural(text: str) -> set[str | int]:
    """
    How a directive ends when nobody cancels it.
    """
    word, _, rest = text.partition(" ")
    if word in ("stream", "permission", "len"):
        return {"end_turn"}
    if word == "fail":
        return {int(rest)}
    return set()
